// RUN: coda-opt %s --print-op-generic | coda-opt -f mlir | filecheck %s

// What a measurement said stands beside the schedule.

// CHECK:      gemm.fused
// CHECK-NEXT: schedule<pointer, "16x16x16", warps = 4, stages = 2, group_m = 8>
// CHECK:      attributes {coda.tuned = #gemm.tuned<"NVIDIA H100 80GB HBM3", rows = 16384, predicted = 612000, measured = 598000, model = 655000>}
// CHECK:      attributes {coda.tuned = #gemm.tuned<"AMD Instinct MI300X", rows = 1, predicted = 1, measured = 2, model = 3, kernels = 2, partial>}
func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) {
  %r = gemm.fused %x : tensor<?x8xbf16>
    schedule<pointer, "16x16x16", warps = 4, stages = 2, group_m = 8>
    columns(%w : tensor<16x8xbf16>)
    -> (tile : tensor<?x16xbf16>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  } attributes {coda.tuned = #gemm.tuned<"NVIDIA H100 80GB HBM3", rows = 16384, predicted = 612000, measured = 598000, model = 655000>}
  %s = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>)
    -> (tile : tensor<?x16xbf16>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  } attributes {coda.tuned = #gemm.tuned<"AMD Instinct MI300X", rows = 1, predicted = 1, measured = 2, model = 3, kernels = 2, partial>}
  func.return
}

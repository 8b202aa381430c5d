// RUN: coda-opt %s | filecheck %s
// RUN: coda-opt %s | coda-opt -f mlir | filecheck %s
// RUN: coda-opt %s --print-op-generic | coda-opt -f mlir | filecheck %s

// Quotients that are rounded down, and what they leave.

// CHECK:      ^epilogue(%a: f32, %b: f32):
// CHECK-NEXT:   %q = gemm.floor_divide %a, %b
// CHECK-NEXT:   %r = gemm.remainder %a, %b
func.func @map(%x: tensor<?x8xf32>, %y: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %z = gemm.map tile(%x : tensor<?x8xf32>, %y : tensor<?x8xf32>)
    -> (tile : tensor<?x8xf32>) {
  ^epilogue(%a: f32, %b: f32):
    %q = gemm.floor_divide %a, %b
    %r = gemm.remainder %a, %b
    %s = arith.addf %q, %r : f32
    gemm.yield %s : f32
  }
  func.return %z : tensor<?x8xf32>
}

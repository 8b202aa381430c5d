// RUN: coda-opt %s | filecheck %s
// RUN: coda-opt %s | coda-opt -f mlir | filecheck %s
// RUN: coda-opt %s --print-op-generic | coda-opt -f mlir | filecheck %s

// Precomputation on weights.

// CHECK:      func.func @weights(%w: tensor<16x8xbf16>, %v: tensor<8x16xbf16>, %g: tensor<8xbf16>) {
// CHECK-NEXT:   %u = gemm.pack_weight nk %w, %g : (tensor<16x8xbf16>, tensor<8xbf16>) -> tensor<16xf32>
// CHECK-NEXT:   %t = gemm.pack_weight kn %v, %g : (tensor<8x16xbf16>, tensor<8xbf16>) -> tensor<16xf32>
// CHECK-NEXT:   %c = gemm.pack_weight kn %v : (tensor<8x16xbf16>) -> tensor<16xf32>
// CHECK-NEXT:   %s = gemm.scale_weight nk %w, %g : (tensor<16x8xbf16>, tensor<8xbf16>) -> tensor<16x8xbf16>
// CHECK-NEXT:   func.return
// CHECK-NEXT: }
func.func @weights(%w: tensor<16x8xbf16>, %v: tensor<8x16xbf16>, %g: tensor<8xbf16>) {
  %u = gemm.pack_weight nk %w, %g : (tensor<16x8xbf16>, tensor<8xbf16>) -> tensor<16xf32>
  %t = gemm.pack_weight kn %v, %g : (tensor<8x16xbf16>, tensor<8xbf16>) -> tensor<16xf32>
  %c = gemm.pack_weight kn %v : (tensor<8x16xbf16>) -> tensor<16xf32>
  %s = gemm.scale_weight nk %w, %g : (tensor<16x8xbf16>, tensor<8xbf16>) -> tensor<16x8xbf16>
  func.return
}

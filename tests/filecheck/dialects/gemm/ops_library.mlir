// RUN: coda-opt %s | filecheck %s
// RUN: coda-opt %s | coda-opt -f mlir | filecheck %s
// RUN: coda-opt %s --print-op-generic | coda-opt -f mlir | filecheck %s

// GEMMs of PyTorch's library: several inputs, transposed operands, a transposed result.

// CHECK:      func.func @products(
// CHECK-NEXT:   %a = gemm.library %x : tensor<?x5x8xbf16> columns(%w : tensor<16x8xbf16>) -> tensor<?x5x16xf32>
// CHECK-NEXT:   %b = gemm.library %x : tensor<?x5x8xbf16> + %x : tensor<?x5x8xbf16> columns(%v : tensor<8x16xbf16>) + (%v : tensor<8x16xbf16>) kn -> tile_t tensor<16x?x5xbf16>
// CHECK-NEXT:   %c = gemm.library transposed %x : tensor<?x5x8xbf16> columns(%x : tensor<?x5x8xbf16>) kn -> tensor<8x8xf32> attributes {note = 1 : i32}
func.func @products(%x: tensor<?x5x8xbf16>, %w: tensor<16x8xbf16>, %v: tensor<8x16xbf16>) -> (tensor<?x5x16xf32>, tensor<16x?x5xbf16>, tensor<8x8xf32>) {
  %a = gemm.library %x : tensor<?x5x8xbf16> columns(%w : tensor<16x8xbf16>) -> tensor<?x5x16xf32>
  %b = gemm.library %x : tensor<?x5x8xbf16> + %x : tensor<?x5x8xbf16> columns(%v : tensor<8x16xbf16>) + (%v : tensor<8x16xbf16>) kn -> tile_t tensor<16x?x5xbf16>
  %c = gemm.library transposed %x : tensor<?x5x8xbf16> columns(%x : tensor<?x5x8xbf16>) kn -> tensor<8x8xf32> attributes {note = 1 : i32}
  func.return %a, %b, %c : tensor<?x5x16xf32>, tensor<16x?x5xbf16>, tensor<8x8xf32>
}

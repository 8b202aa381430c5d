// RUN: coda-opt %s | filecheck %s
// RUN: coda-opt %s | coda-opt -f mlir | filecheck %s
// RUN: coda-opt %s --print-op-generic | coda-opt -f mlir | filecheck %s

// Linear maps; the result may have a wider element type.

// CHECK:      func.func @linear(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %b: tensor<16xbf16>, %k: tensor<8x16xbf16>, %z: tensor<?x?x8xbf16>) {
// CHECK-NEXT:   %plain = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %biased = coda.linear %x, %w, %b : (tensor<?x8xbf16>, tensor<16x8xbf16>, tensor<16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %wide = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xf32>
// CHECK-NEXT:   %batched = coda.linear %z, %w : (tensor<?x?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x?x16xbf16>
// CHECK-NEXT:   %conv1d = coda.matmul %x, %k : (tensor<?x8xbf16>, tensor<8x16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return
func.func @linear(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %b: tensor<16xbf16>, %k: tensor<8x16xbf16>, %z: tensor<?x?x8xbf16>) {
  %plain = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %biased = coda.linear %x, %w, %b : (tensor<?x8xbf16>, tensor<16x8xbf16>, tensor<16xbf16>) -> tensor<?x16xbf16>
  %wide = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xf32>
  %batched = coda.linear %z, %w : (tensor<?x?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x?x16xbf16>
  %conv1d = coda.matmul %x, %k : (tensor<?x8xbf16>, tensor<8x16xbf16>) -> tensor<?x16xbf16>
  func.return
}

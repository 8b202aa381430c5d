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

// Factors of 8 bits: two float8 types, whose product is f32 or what is stated, or the weight alone.

// CHECK:      func.func @narrow(%x: tensor<?x8xf8E4M3FN>, %w: tensor<16x8xf8E5M2>, %b: tensor<16xf32>, %z: tensor<?x8xbf16>, %i: tensor<16x8xi8>, %u: tensor<8x16xui8>) {
// CHECK-NEXT:   %plain = coda.linear %x, %w : (tensor<?x8xf8E4M3FN>, tensor<16x8xf8E5M2>) -> tensor<?x16xf32>
// CHECK-NEXT:   %biased = coda.linear %x, %w, %b : (tensor<?x8xf8E4M3FN>, tensor<16x8xf8E5M2>, tensor<16xf32>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %int8 = coda.linear %z, %i : (tensor<?x8xbf16>, tensor<16x8xi8>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %uint8 = coda.matmul %z, %u : (tensor<?x8xbf16>, tensor<8x16xui8>) -> tensor<?x16xf32>
// CHECK-NEXT:   %float8 = coda.linear %z, %w : (tensor<?x8xbf16>, tensor<16x8xf8E5M2>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return
func.func @narrow(%x: tensor<?x8xf8E4M3FN>, %w: tensor<16x8xf8E5M2>, %b: tensor<16xf32>, %z: tensor<?x8xbf16>, %i: tensor<16x8xi8>, %u: tensor<8x16xui8>) {
  %plain = coda.linear %x, %w : (tensor<?x8xf8E4M3FN>, tensor<16x8xf8E5M2>) -> tensor<?x16xf32>
  %biased = coda.linear %x, %w, %b : (tensor<?x8xf8E4M3FN>, tensor<16x8xf8E5M2>, tensor<16xf32>) -> tensor<?x16xbf16>
  %int8 = coda.linear %z, %i : (tensor<?x8xbf16>, tensor<16x8xi8>) -> tensor<?x16xbf16>
  %uint8 = coda.matmul %z, %u : (tensor<?x8xbf16>, tensor<8x16xui8>) -> tensor<?x16xf32>
  %float8 = coda.linear %z, %w : (tensor<?x8xbf16>, tensor<16x8xf8E5M2>) -> tensor<?x16xbf16>
  func.return
}

// Scales of blocks along K, the last of which may be smaller.

// CHECK:      func.func @blocks(%x: tensor<?x300xf8E4M3FN>, %w: tensor<200x300xf8E5M2>, %sx: tensor<?x3xf32>, %sw: tensor<2x3xf32>, %sx64: tensor<?x5xf32>, %s64: tensor<200x5xf32>) {
// CHECK-NEXT:   %y = coda.scaled_linear %x, %w, %sx, %sw {blocks = #coda.blocks<128, 128>} : (tensor<?x300xf8E4M3FN>, tensor<200x300xf8E5M2>, tensor<?x3xf32>, tensor<2x3xf32>) -> tensor<?x200xf32>
// CHECK-NEXT:   %z = coda.scaled_linear %x, %w, %sx64, %s64 {blocks = #coda.blocks<64, 1>} : (tensor<?x300xf8E4M3FN>, tensor<200x300xf8E5M2>, tensor<?x5xf32>, tensor<200x5xf32>) -> tensor<?x200xbf16>
// CHECK-NEXT:   func.return
func.func @blocks(%x: tensor<?x300xf8E4M3FN>, %w: tensor<200x300xf8E5M2>, %sx: tensor<?x3xf32>, %sw: tensor<2x3xf32>, %sx64: tensor<?x5xf32>, %s64: tensor<200x5xf32>) {
  %y = coda.scaled_linear %x, %w, %sx, %sw {blocks = #coda.blocks<128, 128>} : (tensor<?x300xf8E4M3FN>, tensor<200x300xf8E5M2>, tensor<?x3xf32>, tensor<2x3xf32>) -> tensor<?x200xf32>
  %z = coda.scaled_linear %x, %w, %sx64, %s64 {blocks = #coda.blocks<64, 1>} : (tensor<?x300xf8E4M3FN>, tensor<200x300xf8E5M2>, tensor<?x5xf32>, tensor<200x5xf32>) -> tensor<?x200xbf16>
  func.return
}

// Weights of 8 and 4 bits with scales of groups: N x K, or K x N with words along K or N.

// CHECK:      func.func @low_bits(%x: tensor<?x300xbf16>, %i: tensor<64x300xi8>, %s: tensor<64x3xf32>, %z: tensor<64x3xi8>, %b: tensor<64x150xui8>, %y: tensor<?x320xf16>, %g: tensor<40x64xi32>, %a: tensor<320x8xi32>, %t: tensor<5x64xf16>, %p: tensor<5x8xi32>) {
// CHECK-NEXT:   %0 = coda.low_bit_linear %x, %i, %s {scheme = #coda.quantized<128>} : (tensor<?x300xbf16>, tensor<64x300xi8>, tensor<64x3xf32>) -> tensor<?x64xbf16>
// CHECK-NEXT:   %1 = coda.low_bit_linear %x, %i, %s, %z {scheme = #coda.quantized<128, offset = -1>} : (tensor<?x300xbf16>, tensor<64x300xi8>, tensor<64x3xf32>, tensor<64x3xi8>) -> tensor<?x64xf32>
// CHECK-NEXT:   %2 = coda.low_bit_linear %x, %b, %s {scheme = #coda.quantized<128, offset = 8, "k10">} : (tensor<?x300xbf16>, tensor<64x150xui8>, tensor<64x3xf32>) -> tensor<?x64xbf16>
// CHECK-NEXT:   %3 = coda.low_bit_linear %y, %g, %t, %p {kn, scheme = #coda.quantized<64, offset = 1, "k01234567">} : (tensor<?x320xf16>, tensor<40x64xi32>, tensor<5x64xf16>, tensor<5x8xi32>) -> tensor<?x64xf16>
// CHECK-NEXT:   %4 = coda.low_bit_linear %y, %a, %t, %p {kn, scheme = #coda.quantized<64, "n04152637">} : (tensor<?x320xf16>, tensor<320x8xi32>, tensor<5x64xf16>, tensor<5x8xi32>) -> tensor<?x64xf16>
// CHECK-NEXT:   func.return
func.func @low_bits(%x: tensor<?x300xbf16>, %i: tensor<64x300xi8>, %s: tensor<64x3xf32>, %z: tensor<64x3xi8>, %b: tensor<64x150xui8>, %y: tensor<?x320xf16>, %g: tensor<40x64xi32>, %a: tensor<320x8xi32>, %t: tensor<5x64xf16>, %p: tensor<5x8xi32>) {
  %0 = coda.low_bit_linear %x, %i, %s {scheme = #coda.quantized<128>} : (tensor<?x300xbf16>, tensor<64x300xi8>, tensor<64x3xf32>) -> tensor<?x64xbf16>
  %1 = coda.low_bit_linear %x, %i, %s, %z {scheme = #coda.quantized<128, offset = -1>} : (tensor<?x300xbf16>, tensor<64x300xi8>, tensor<64x3xf32>, tensor<64x3xi8>) -> tensor<?x64xf32>
  %2 = coda.low_bit_linear %x, %b, %s {scheme = #coda.quantized<128, offset = 8, "k10">} : (tensor<?x300xbf16>, tensor<64x150xui8>, tensor<64x3xf32>) -> tensor<?x64xbf16>
  %3 = coda.low_bit_linear %y, %g, %t, %p {kn, scheme = #coda.quantized<64, offset = 1, "k01234567">} : (tensor<?x320xf16>, tensor<40x64xi32>, tensor<5x64xf16>, tensor<5x8xi32>) -> tensor<?x64xf16>
  %4 = coda.low_bit_linear %y, %a, %t, %p {kn, scheme = #coda.quantized<64, "n04152637">} : (tensor<?x320xf16>, tensor<320x8xi32>, tensor<5x64xf16>, tensor<5x8xi32>) -> tensor<?x64xf16>
  func.return
}

// Operands that are quantized for the product, by rows or by blocks.

// CHECK:      func.func @quantized(%x: tensor<?x300xbf16>, %w: tensor<200x300xf32>, %v: tensor<200x300xbf16>) {
// CHECK-NEXT:   %y = coda.quantized_linear %x, %w : (tensor<?x300xbf16>, tensor<200x300xf32>) -> tensor<?x200xbf16>
// CHECK-NEXT:   %z = coda.quantized_linear %x, %v {blocks = #coda.blocks<128, 128>} : (tensor<?x300xbf16>, tensor<200x300xbf16>) -> tensor<?x200xf32>
// CHECK-NEXT:   func.return
func.func @quantized(%x: tensor<?x300xbf16>, %w: tensor<200x300xf32>, %v: tensor<200x300xbf16>) {
  %y = coda.quantized_linear %x, %w : (tensor<?x300xbf16>, tensor<200x300xf32>) -> tensor<?x200xbf16>
  %z = coda.quantized_linear %x, %v {blocks = #coda.blocks<128, 128>} : (tensor<?x300xbf16>, tensor<200x300xbf16>) -> tensor<?x200xf32>
  func.return
}

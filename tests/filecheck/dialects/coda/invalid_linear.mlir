// RUN: coda-opt %s --split-input-file --verify-diagnostics

// What the verifiers of linear maps refuse.

func.func @f(%x: tensor<bf16>, %w: tensor<16x8xbf16>) {
  // expected-error@below {{operand x has rank 0, expected at least 1}}
  %r = coda.linear %x, %w : (tensor<bf16>, tensor<16x8xbf16>) -> tensor<16xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<8xbf16>) {
  // expected-error@below {{operand weight has rank 1, expected 2}}
  %r = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x16xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<8x16xbf16>) {
  // expected-error@below {{operand weight of shape 8x16 has K = 16 in dimension 1, expected 8, the last dimension of operand x}}
  %r = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<8x16xbf16>) -> tensor<?x16xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) {
  // expected-error@below {{operand weight of shape 16x8 has K = 16 in dimension 0, expected 8, the last dimension of operand x}}
  %r = coda.matmul %x, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xf32>) {
  // expected-error@below {{operand weight has element type f32, expected bf16}}
  %r = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<16x8xf32>) -> tensor<?x16xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %b: tensor<8xbf16>) {
  // expected-error@below {{operand bias has shape 8, expected 16}}
  %r = coda.linear %x, %w, %b : (tensor<?x8xbf16>, tensor<16x8xbf16>, tensor<8xbf16>) -> tensor<?x16xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %b: tensor<16xf32>) {
  // expected-error@below {{operand bias has element type f32, expected bf16}}
  %r = coda.linear %x, %w, %b : (tensor<?x8xbf16>, tensor<16x8xbf16>, tensor<16xf32>) -> tensor<?x16xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) {
  // expected-error@below {{result has shape ?x8, expected ?x16}}
  %r = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x8xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xi32>, %w: tensor<16x8xi32>) {
  // expected-error@below {{linear maps need floating-point operands and results}}
  %r = coda.linear %x, %w : (tensor<?x8xi32>, tensor<16x8xi32>) -> tensor<?x16xi32>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xf8E4M3FN>, %w: tensor<16x8xbf16>) {
  // expected-error@below {{operand weight has element type bf16, expected a float8 type}}
  %r = coda.linear %x, %w : (tensor<?x8xf8E4M3FN>, tensor<16x8xbf16>) -> tensor<?x16xf32>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<8x16xi16>) {
  // expected-error@below {{operand weight has element type i16, expected bf16, or a type of 8 bits}}
  %r = coda.matmul %x, %w : (tensor<?x8xbf16>, tensor<8x16xi16>) -> tensor<?x16xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xf64>, %w: tensor<16x8xi8>) {
  // expected-error@below {{operand weight has element type i8, expected f64}}
  %r = coda.linear %x, %w : (tensor<?x8xf64>, tensor<16x8xi8>) -> tensor<?x16xf64>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xf8E4M3FN>, %w: tensor<16x8xf8E5M2>, %b: tensor<16xf8E4M3FN>) {
  // expected-error@below {{operand bias has element type f8E4M3FN, expected f32}}
  %r = coda.linear %x, %w, %b : (tensor<?x8xf8E4M3FN>, tensor<16x8xf8E5M2>, tensor<16xf8E4M3FN>) -> tensor<?x16xf32>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xf8E4M3FN>, %w: tensor<16x8xf8E4M3FN>) {
  // expected-error@below {{linear maps need floating-point operands and results}}
  %r = coda.linear %x, %w : (tensor<?x8xf8E4M3FN>, tensor<16x8xf8E4M3FN>) -> tensor<?x16xf8E4M3FN>
  func.return
}

// -----

func.func @f(%x: tensor<?x300xf8E4M3FN>, %w: tensor<200x300xf8E4M3FN>, %sx: tensor<?x3xf32>, %sw: tensor<2x3xf32>) {
  // expected-error@below {{property depth is 96, expected a power of two of at least 32}}
  %r = coda.scaled_linear %x, %w, %sx, %sw {blocks = #coda.blocks<96, 128>} : (tensor<?x300xf8E4M3FN>, tensor<200x300xf8E4M3FN>, tensor<?x3xf32>, tensor<2x3xf32>) -> tensor<?x200xf32>
  func.return
}

// -----

func.func @f(%x: tensor<?x300xf8E4M3FN>, %w: tensor<200x300xf8E4M3FN>, %sx: tensor<?x3xf32>, %sw: tensor<2x3xf32>) {
  // expected-error@below {{property columns is 0, expected a power of two of at least 1}}
  %r = coda.scaled_linear %x, %w, %sx, %sw {blocks = #coda.blocks<128, 0>} : (tensor<?x300xf8E4M3FN>, tensor<200x300xf8E4M3FN>, tensor<?x3xf32>, tensor<2x3xf32>) -> tensor<?x200xf32>
  func.return
}

// -----

func.func @f(%x: tensor<?x300xf8E4M3FN>, %w: tensor<200x300xf8E4M3FN>, %sx: tensor<?x2xf32>, %sw: tensor<2x3xf32>) {
  // expected-error@below {{operand x_scales has shape ?x2, expected ?x3}}
  %r = coda.scaled_linear %x, %w, %sx, %sw {blocks = #coda.blocks<128, 128>} : (tensor<?x300xf8E4M3FN>, tensor<200x300xf8E4M3FN>, tensor<?x2xf32>, tensor<2x3xf32>) -> tensor<?x200xf32>
  func.return
}

// -----

func.func @f(%x: tensor<?x300xf8E4M3FN>, %w: tensor<200x300xf8E4M3FN>, %sx: tensor<?x3xf32>, %sw: tensor<2x2xf32>) {
  // expected-error@below {{operand weight_scales has shape 2x2, expected 2x3}}
  %r = coda.scaled_linear %x, %w, %sx, %sw {blocks = #coda.blocks<128, 128>} : (tensor<?x300xf8E4M3FN>, tensor<200x300xf8E4M3FN>, tensor<?x3xf32>, tensor<2x2xf32>) -> tensor<?x200xf32>
  func.return
}

// -----

func.func @f(%x: tensor<?x300xf8E4M3FN>, %w: tensor<200x300xf8E4M3FN>, %sx: tensor<?x3xf32>, %sw: tensor<2x3xbf16>) {
  // expected-error@below {{operand weight_scales has element type bf16, expected f32}}
  %r = coda.scaled_linear %x, %w, %sx, %sw {blocks = #coda.blocks<128, 128>} : (tensor<?x300xf8E4M3FN>, tensor<200x300xf8E4M3FN>, tensor<?x3xf32>, tensor<2x3xbf16>) -> tensor<?x200xf32>
  func.return
}

// -----

func.func @f(%x: tensor<?x300xbf16>, %w: tensor<200x300xbf16>, %sx: tensor<?x3xf32>, %sw: tensor<2x3xf32>) {
  // expected-error@below {{operand x has element type bf16, expected a float8 type, as it has scales of blocks}}
  %r = coda.scaled_linear %x, %w, %sx, %sw {blocks = #coda.blocks<128, 128>} : (tensor<?x300xbf16>, tensor<200x300xbf16>, tensor<?x3xf32>, tensor<2x3xf32>) -> tensor<?x200xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x300xf64>, %w: tensor<200x300xf64>) {
  // expected-error@below {{operand x has element type f64, expected bf16, f16 or f32, as the operator quantizes}}
  %r = coda.quantized_linear %x, %w : (tensor<?x300xf64>, tensor<200x300xf64>) -> tensor<?x200xf64>
  func.return
}

// -----

func.func @f(%x: tensor<?x300xbf16>, %w: tensor<200x301xbf16>) {
  // expected-error@below {{operand weight has shape 200x301, expected 200x300}}
  %r = coda.quantized_linear %x, %w : (tensor<?x300xbf16>, tensor<200x301xbf16>) -> tensor<?x200xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x300xbf16>, %w: tensor<?x300xbf16>) {
  // expected-error@below {{operand weight has a dynamic extent, expected static ones: blocks are counted}}
  %r = coda.quantized_linear %x, %w {blocks = #coda.blocks<128, 128>} : (tensor<?x300xbf16>, tensor<?x300xbf16>) -> tensor<?x?xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x320xbf16>, %w: tensor<40x64xi32>, %s: tensor<3x64xf16>, %z: tensor<3x8xi32>) {
  // expected-error@below {{property depth is 48, expected a power of two of at least 32}}
  %r = coda.low_bit_linear %x, %w, %s {kn, scheme = #coda.quantized<48, "k01234567">} : (tensor<?x320xbf16>, tensor<40x64xi32>, tensor<3x64xf16>) -> tensor<?x64xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x320xbf16>, %w: tensor<40x64xi32>, %s: tensor<3x64xf16>, %z: tensor<3x8xi32>) {
  // expected-error@below {{property packing is "m01", expected k or n and the positions of 2 or 8 elements, such as "k01234567"}}
  %r = coda.low_bit_linear %x, %w, %s {kn, scheme = #coda.quantized<128, "m01">} : (tensor<?x320xbf16>, tensor<40x64xi32>, tensor<3x64xf16>) -> tensor<?x64xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x320xbf16>, %w: tensor<40x64xi32>, %s: tensor<3x64xf16>, %z: tensor<3x8xi32>) {
  // expected-error@below {{property packing is "k0123", expected k or n and the positions of 2 or 8 elements, such as "k01234567"}}
  %r = coda.low_bit_linear %x, %w, %s {kn, scheme = #coda.quantized<128, "k0123">} : (tensor<?x320xbf16>, tensor<40x64xi32>, tensor<3x64xf16>) -> tensor<?x64xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x320xbf16>, %w: tensor<40x64xi32>, %s: tensor<3x64xf16>, %z: tensor<3x8xi32>) {
  // expected-error@below {{operand weight has element type i32, expected one of 8 bits}}
  %r = coda.low_bit_linear %x, %w, %s {kn, scheme = #coda.quantized<128>} : (tensor<?x320xbf16>, tensor<40x64xi32>, tensor<3x64xf16>) -> tensor<?x64xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x320xbf16>, %w: tensor<40x64xi32>, %s: tensor<3x64xf16>, %z: tensor<3x8xi32>) {
  // expected-error@below {{operand weight has element type i32, expected ui8}}
  %r = coda.low_bit_linear %x, %w, %s {kn, scheme = #coda.quantized<128, "k10">} : (tensor<?x320xbf16>, tensor<40x64xi32>, tensor<3x64xf16>) -> tensor<?x64xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x320xbf16>, %w: tensor<40x64xi32>, %s: tensor<3x64xf16>, %z: tensor<3x8xi32>) {
  // expected-error@below {{operand scales has shape 3x64, expected 5x64}}
  %r = coda.low_bit_linear %x, %w, %s {kn, scheme = #coda.quantized<64, "k01234567">} : (tensor<?x320xbf16>, tensor<40x64xi32>, tensor<3x64xf16>) -> tensor<?x64xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x320xbf16>, %w: tensor<40x64xi32>, %s: tensor<3x64xf16>, %z: tensor<3x8xi32>) {
  // expected-error@below {{operand weight has shape 40x64, expected 320x8}}
  %r = coda.low_bit_linear %x, %w, %s {kn, scheme = #coda.quantized<128, "n01234567">} : (tensor<?x320xbf16>, tensor<40x64xi32>, tensor<3x64xf16>) -> tensor<?x64xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x320xbf16>, %w: tensor<40x64xi32>, %s: tensor<5x64xf16>, %z: tensor<3x8xi32>) {
  // expected-error@below {{operand zeros has shape 3x8, expected 5x8}}
  %r = coda.low_bit_linear %x, %w, %s, %z {kn, scheme = #coda.quantized<64, "k01234567">} : (tensor<?x320xbf16>, tensor<40x64xi32>, tensor<5x64xf16>, tensor<3x8xi32>) -> tensor<?x64xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x320xbf16>, %w: tensor<40x64xi32>, %s: tensor<3x64xf16>, %z: tensor<3x8xbf16>) {
  // expected-error@below {{operand zeros has element type bf16, expected i8, ui8, or i32 with eight in the order of the weight's words}}
  %r = coda.low_bit_linear %x, %w, %s, %z {kn, scheme = #coda.quantized<128, "k01234567">} : (tensor<?x320xbf16>, tensor<40x64xi32>, tensor<3x64xf16>, tensor<3x8xbf16>) -> tensor<?x64xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x320xbf16>, %w: tensor<40x60xi32>, %s: tensor<3x60xf16>, %z: tensor<3x8xi32>) {
  // expected-error@below {{a weight of 60 x 320 has no whole words of 8 along N}}
  %r = coda.low_bit_linear %x, %w, %s {kn, scheme = #coda.quantized<128, "n01234567">} : (tensor<?x320xbf16>, tensor<40x60xi32>, tensor<3x60xf16>) -> tensor<?x60xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x320xf64>, %w: tensor<40x64xi32>, %s: tensor<3x64xf16>, %z: tensor<3x8xi32>) {
  // expected-error@below {{operand x has element type f64, expected f32, f16 or bf16}}
  %r = coda.low_bit_linear %x, %w, %s {kn, scheme = #coda.quantized<128, "k01234567">} : (tensor<?x320xf64>, tensor<40x64xi32>, tensor<3x64xf16>) -> tensor<?x64xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x320xbf16>, %w: tensor<40x64xi32>, %s: tensor<3x64xi32>, %z: tensor<3x8xi32>) {
  // expected-error@below {{operand scales has element type i32, expected f32, f16 or bf16}}
  %r = coda.low_bit_linear %x, %w, %s {kn, scheme = #coda.quantized<128, "k01234567">} : (tensor<?x320xbf16>, tensor<40x64xi32>, tensor<3x64xi32>) -> tensor<?x64xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x320xbf16>, %w: tensor<320x64xf8E4M3FN>, %s: tensor<3x64xf16>, %z: tensor<3x8xi32>) {
  // expected-error@below {{float8 has no zero points}}
  %r = coda.low_bit_linear %x, %w, %s {kn, scheme = #coda.quantized<128, offset = 8>} : (tensor<?x320xbf16>, tensor<320x64xf8E4M3FN>, tensor<3x64xf16>) -> tensor<?x64xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x320xbf16>, %w: tensor<40xi32>, %s: tensor<3x64xf16>, %z: tensor<3x8xi32>) {
  // expected-error@below {{operand weight has other dimensions than N and K}}
  %r = coda.low_bit_linear %x, %w, %s {kn, scheme = #coda.quantized<128, "k01234567">} : (tensor<?x320xbf16>, tensor<40xi32>, tensor<3x64xf16>) -> tensor<?x64xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x320xbf16>, %w: tensor<40x64xi32>, %s: tensor<3x64xf16>, %z: tensor<3x8xi32>) {
  // expected-error@below {{linear maps need floating-point results}}
  %r = coda.low_bit_linear %x, %w, %s {kn, scheme = #coda.quantized<128, "k01234567">} : (tensor<?x320xbf16>, tensor<40x64xi32>, tensor<3x64xf16>) -> tensor<?x64xi32>
  func.return
}

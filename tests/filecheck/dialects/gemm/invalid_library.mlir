// RUN: coda-opt %s --split-input-file --verify-diagnostics

// What the verifier of GEMMs of a library refuses.

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x4xbf16>) {
  // expected-error@below {{weight 0 of shape 16x4 in layout nk has K = 4, expected 8, the last dimension of operand x}}
  %r = gemm.library %x : tensor<?x8xbf16> columns(%w : tensor<16x4xbf16>) -> tensor<?x16xf32>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) {
  // expected-error@below {{result has shape ?x8, expected ?x16}}
  %r = gemm.library %x : tensor<?x8xbf16> columns(%w : tensor<16x8xbf16>) -> tensor<?x8xf32>
  func.return
}

// -----

func.func @f(%x: tensor<3x8xbf16>, %w: tensor<16x8xbf16>) {
  // expected-error@below {{result has shape 3x16, expected 16x3}}
  %r = gemm.library %x : tensor<3x8xbf16> columns(%w : tensor<16x8xbf16>) -> tile_t tensor<3x16xf32>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) {
  // expected-error@below {{result has element type i32, expected a float type}}
  %r = gemm.library %x : tensor<?x8xbf16> columns(%w : tensor<16x8xbf16>) -> tensor<?x16xi32>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) {
  // expected-error@below {{2 weights, expected 1, one for each input}}
  %r = gemm.library %x : tensor<?x8xbf16> columns(%w : tensor<16x8xbf16>, %w : tensor<16x8xbf16>) -> tensor<?x16xf32>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<8x16xbf16>) {
  // expected-error@below {{layout of the weights is nk, expected kn as x is transposed}}
  %r = gemm.library transposed %x : tensor<?x8xbf16> columns(%w : tensor<8x16xbf16>) -> tensor<8x16xf32>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xi8>) {
  // expected-error@below {{operands of 8 bits, expected one float type that libraries multiply}}
  %r = gemm.library %x : tensor<?x8xbf16> columns(%w : tensor<16x8xi8>) -> tensor<?x16xf32>
  func.return
}

// RUN: coda-opt %s --split-input-file --verify-diagnostics

// What the verifiers of the precomputations on weights refuse.

func.func @f(%w: tensor<8xbf16>) {
  // expected-error@below {{weight has rank 1, expected 2}}
  %r = gemm.pack_weight nk %w, %w : (tensor<8xbf16>, tensor<8xbf16>) -> tensor<16xf32>
  func.return
}

// -----

func.func @f(%w: tensor<16x8xbf16>, %g: tensor<8xbf16>) {
  // expected-error@below {{vector has shape 8, expected 16}}
  %r = gemm.pack_weight kn %w, %g : (tensor<16x8xbf16>, tensor<8xbf16>) -> tensor<16xf32>
  func.return
}

// -----

func.func @f(%w: tensor<16x8xbf16>, %g: tensor<8xbf16>) {
  // expected-error@below {{result has shape 8, expected 16}}
  %r = gemm.pack_weight nk %w, %g : (tensor<16x8xbf16>, tensor<8xbf16>) -> tensor<8xf32>
  func.return
}

// -----

func.func @f(%w: tensor<16x8xbf16>, %g: tensor<8xbf16>) {
  // expected-error@below {{result has element type bf16, expected f32}}
  %r = gemm.pack_weight nk %w, %g : (tensor<16x8xbf16>, tensor<8xbf16>) -> tensor<16xbf16>
  func.return
}

// -----

func.func @f(%w: tensor<16x8xbf16>, %g: tensor<16xbf16>) {
  // expected-error@below {{vector has shape 16, expected 8}}
  %r = gemm.scale_weight nk %w, %g : (tensor<16x8xbf16>, tensor<16xbf16>) -> tensor<16x8xbf16>
  func.return
}

// -----

func.func @f(%w: tensor<16x8xbf16>, %g: tensor<8xbf16>) {
  // expected-error@below {{result has element type f32, expected bf16}}
  %r = gemm.scale_weight nk %w, %g : (tensor<16x8xbf16>, tensor<8xbf16>) -> tensor<16x8xf32>
  func.return
}

// -----

func.func @f(%w: tensor<16x8xbf16>) {
  // expected-error@below {{a weight is given, expected a vector of its K elements as well}}
  %r = gemm.scale_weight nk %w : (tensor<16x8xbf16>) -> tensor<16x8xbf16>
  func.return
}

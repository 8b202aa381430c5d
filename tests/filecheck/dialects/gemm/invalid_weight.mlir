// RUN: coda-opt %s --split-input-file --verify-diagnostics | filecheck %s

// What the verifiers of the precomputations on weights refuse.

// CHECK: weight has rank 1, expected 2
func.func @f(%w: tensor<8xbf16>) {
  %r = gemm.pack_weight nk %w, %w : (tensor<8xbf16>, tensor<8xbf16>) -> tensor<16xf32>
  func.return
}

// -----

// CHECK: vector has shape 8, expected 16
func.func @f(%w: tensor<16x8xbf16>, %g: tensor<8xbf16>) {
  %r = gemm.pack_weight kn %w, %g : (tensor<16x8xbf16>, tensor<8xbf16>) -> tensor<16xf32>
  func.return
}

// -----

// CHECK: result has shape 8, expected 16
func.func @f(%w: tensor<16x8xbf16>, %g: tensor<8xbf16>) {
  %r = gemm.pack_weight nk %w, %g : (tensor<16x8xbf16>, tensor<8xbf16>) -> tensor<8xf32>
  func.return
}

// -----

// CHECK: result has element type bf16, expected f32
func.func @f(%w: tensor<16x8xbf16>, %g: tensor<8xbf16>) {
  %r = gemm.pack_weight nk %w, %g : (tensor<16x8xbf16>, tensor<8xbf16>) -> tensor<16xbf16>
  func.return
}

// -----

// CHECK: vector has shape 16, expected 8
func.func @f(%w: tensor<16x8xbf16>, %g: tensor<16xbf16>) {
  %r = gemm.scale_weight nk %w, %g : (tensor<16x8xbf16>, tensor<16xbf16>) -> tensor<16x8xbf16>
  func.return
}

// -----

// CHECK: result has element type f32, expected bf16
func.func @f(%w: tensor<16x8xbf16>, %g: tensor<8xbf16>) {
  %r = gemm.scale_weight nk %w, %g : (tensor<16x8xbf16>, tensor<8xbf16>) -> tensor<16x8xf32>
  func.return
}

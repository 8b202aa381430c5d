// RUN: coda-opt %s --verify-diagnostics --split-input-file

func.func @f(%x: tensor<2x8xbf16>, %w: tensor<4x16x8xbf16>, %i: tensor<2x3xi64>) {
  // expected-error@below {{operand numbered has rank 2, expected 1}}
  %y = gemm.fused %x : tensor<2x8xbf16> numbered(%i : tensor<2x3xi64>) columns(%w : tensor<4x16x8xbf16>) -> (tile : tensor<6x16xbf16>) {
  ^bb0(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<2x8xbf16>, %w: tensor<4x16x8xbf16>, %i: tensor<5xi64>) {
  // expected-error@below {{operand numbered has 5 ids, expected a known multiple of the 2 rows of x}}
  %y = gemm.fused %x : tensor<2x8xbf16> numbered(%i : tensor<5xi64>) columns(%w : tensor<4x16x8xbf16>) -> (tile : tensor<5x16xbf16>) {
  ^bb0(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<2x16xbf16>, %w: tensor<4x16x8xbf16>, %i: tensor<6xi64>) {
  // expected-error@below {{weight 0 of shape 16x8 in layout nk has K = 8, expected 5, the last dimension of operand x}}
  %y = gemm.fused %x : tensor<2x16xbf16> numbered(%i : tensor<6xi64>) columns(%w : tensor<4x16x8xbf16>) -> (tile : tensor<2x16xbf16>) {
  ^bb0(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<2x8xbf16>, %w: tensor<16x8xbf16>, %i: tensor<6xi64>) {
  // expected-error@below {{weight 0 has rank 2, expected 3}}
  %y = gemm.fused %x : tensor<2x8xbf16> numbered(%i : tensor<6xi64>) columns(%w : tensor<16x8xbf16>) -> (tile : tensor<6x16xbf16>) {
  ^bb0(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<6x8xbf16>, %w: tensor<4x16x8xbf16>, %i: tensor<6xi64>) {
  // expected-error@below {{rows are numbered, expected one input whose rows are read and stored in their order}}
  %y = gemm.fused %x : tensor<6x8xbf16> numbered(%i : tensor<6xi64>) scatter(%i : tensor<6xi64>) columns(%w : tensor<4x16x8xbf16>) -> (tile : tensor<6x16xbf16>) {
  ^bb0(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<6x8xbf16>, %w: tensor<4x16x8xbf16>, %b: tensor<4x16xbf16>, %i: tensor<6xi64>) {
  // expected-error@below {{port 0 (group_row) is by group, expected groups of rows}}
  %y = gemm.fused %x : tensor<6x8xbf16> numbered(%i : tensor<6xi64>) columns(%w : tensor<4x16x8xbf16>) group_row(%b : tensor<4x16xbf16>) -> (tile : tensor<6x16xbf16>) {
  ^bb0(%acc: f32, %bias: f32):
    gemm.yield %acc : f32
  }
  func.return
}

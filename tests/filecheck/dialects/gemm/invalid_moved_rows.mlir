// RUN: coda-opt %s --split-input-file --verify-diagnostics

// What the verifier refuses of rows that are gathered or scattered.

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %i: tensor<?x1xi64>) {
  // expected-error@below {{operand gather has rank 2, expected 1}}
  %y = gemm.fused %x : tensor<?x8xbf16> gather(%i : tensor<?x1xi64>) columns(%w : tensor<16x8xbf16>) -> (tile : tensor<?x16xbf16>) {
  ^bb0(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %i: tensor<?xf32>) {
  // expected-error@below {{operand gather has element type f32, expected i32 or i64}}
  %y = gemm.fused %x : tensor<?x8xbf16> gather(%i : tensor<?xf32>) columns(%w : tensor<16x8xbf16>) -> (tile : tensor<?x16xbf16>) {
  ^bb0(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<2x?x8xbf16>, %w: tensor<16x8xbf16>, %i: tensor<?xi64>) {
  // expected-error@below {{operand x has shape 2x?x8, expected a matrix of R x K, whose rows are gathered}}
  %y = gemm.fused %x : tensor<2x?x8xbf16> gather(%i : tensor<?xi64>) columns(%w : tensor<16x8xbf16>) -> (tile : tensor<?x16xbf16>) {
  ^bb0(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<?x16xbf16>, %i: tensor<?xi64>) {
  // expected-error@below {{rows of x that are summed over are gathered, expected groups of rows of a transposed x}}
  %y = gemm.fused transposed %x : tensor<?x8xbf16> gather(%i : tensor<?xi64>) columns(%w : tensor<?x16xbf16>) kn -> (tile : tensor<8x16xbf16>) {
  ^bb0(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %i: tensor<?x1xi64>) {
  // expected-error@below {{operand scatter has rank 2, expected 1}}
  %y = gemm.fused %x : tensor<?x8xbf16> scatter(%i : tensor<?x1xi64>) columns(%w : tensor<16x8xbf16>) -> (tile : tensor<?x16xbf16>) {
  ^bb0(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %i: tensor<?xi8>) {
  // expected-error@below {{operand scatter has element type i8, expected i32 or i64}}
  %y = gemm.fused %x : tensor<?x8xbf16> scatter(%i : tensor<?xi8>) columns(%w : tensor<16x8xbf16>) -> (tile : tensor<?x16xbf16>) {
  ^bb0(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<2x?x8xbf16>, %w: tensor<16x8xbf16>, %i: tensor<?xi64>) {
  // expected-error@below {{operand x has rows 2x?, expected one dimension of rows, whose results are scattered}}
  %y = gemm.fused %x : tensor<2x?x8xbf16> scatter(%i : tensor<?xi64>) columns(%w : tensor<16x8xbf16>) -> (tile : tensor<2x?x16xbf16>) {
  ^bb0(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<9x8xbf16>, %w: tensor<16x8xbf16>, %i: tensor<7xi64>) {
  // expected-error@below {{operand scatter has 7 ids, expected 9, one for a row}}
  %y = gemm.fused %x : tensor<9x8xbf16> scatter(%i : tensor<7xi64>) columns(%w : tensor<16x8xbf16>) -> (tile : tensor<9x16xbf16>) {
  ^bb0(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %i: tensor<?xi64>) {
  // expected-error@below {{a partial_row result is scattered, expected tile or half, in a tensor of its columns}}
  %y0, %y1 = gemm.fused %x : tensor<?x8xbf16> scatter(%i : tensor<?xi64>) columns(%w : tensor<16x8xbf16>) -> (tile : tensor<?x16xbf16>, partial_row<add> : tensor<?x?xf32>) {
  ^bb0(%acc: f32):
    gemm.yield %acc, %acc : f32, f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %i: tensor<?xi64>) {
  // expected-error@below {{a tile result is scattered, expected tile or half, in a tensor of its columns}}
  %y = gemm.fused %x : tensor<?x8xbf16> scatter(%i : tensor<?xi64>) columns(%w : tensor<16x8xbf16>) -> (tile at<0, 16, 16> : tensor<?x16xbf16>) {
  ^bb0(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %i: tensor<?xi64>) {
  // expected-error@below {{rows of the weights that are summed over are gathered, expected groups of rows of a transposed x}}
  %y = gemm.fused %x : tensor<?x8xbf16> gather_weights(%i : tensor<?xi64>) columns(%w : tensor<16x8xbf16>) -> (tile : tensor<?x16xbf16>) {
  ^bb0(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<9x8xbf16>, %w: tensor<7x16xbf16>, %i: tensor<6xi64>, %e: tensor<4xi32>) {
  // expected-error@below {{weight 0 of shape 7x16 in layout kn has K = 7, expected 6, all but the last dimension of operand x}}
  %y = gemm.fused transposed %x : tensor<9x8xbf16> groups(%e : tensor<4xi32>) gather(%i : tensor<6xi64>) columns(%w : tensor<7x16xbf16>) kn -> (tile : tensor<4x8x16xbf16>) {
  ^bb0(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<9x8xbf16>, %w: tensor<16x8xbf16>, %s: tensor<9xf32>) {
  // expected-error@below {{port 0 (scatter_col) is of other rows, expected rows that scatter(...) names}}
  %y = gemm.fused %x : tensor<9x8xbf16> columns(%w : tensor<16x8xbf16>) scatter_col(%s : tensor<9xf32>) -> (tile : tensor<9x16xbf16>) {
  ^bb0(%acc: f32, %a: f32):
    gemm.yield %a : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<9x8xbf16>, %w: tensor<16x8xbf16>, %i: tensor<7xi64>, %s: tensor<7xf32>) {
  // expected-error@below {{port 0 (gather_col) has shape 7, expected 9 or 9x1}}
  %y = gemm.fused %x : tensor<9x8xbf16> gather(%i : tensor<7xi64>) columns(%w : tensor<16x8xbf16>) gather_col(%s : tensor<7xf32>) -> (tile : tensor<7x16xbf16>) {
  ^bb0(%acc: f32, %a: f32):
    gemm.yield %a : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<9x8xbf16>, %s: tensor<9xf32>) {
  // expected-error@below {{port 1 (scatter_col) is of other rows, expected rows that scatter(...) names}}
  %y = gemm.map tile(%x : tensor<9x8xbf16>) scatter_col(%s : tensor<9xf32>) -> (tile : tensor<9x8xbf16>) {
  ^bb0(%a: f32, %b: f32):
    gemm.yield %a : f32
  }
  func.return
}

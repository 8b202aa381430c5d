// RUN: coda-opt %s --split-input-file --verify-diagnostics

// What the verifier refuses of rows in groups.

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<4x16x8xbf16>, %e: tensor<4xi64>) {
  // expected-error@below {{operand groups has element type i64, expected i32}}
  %y = gemm.fused %x : tensor<?x8xbf16> groups(%e : tensor<4xi64>) columns(%w : tensor<4x16x8xbf16>) -> (tile : tensor<?x16xbf16>) {
  ^bb0(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<4x16x8xbf16>, %e: tensor<4x1xi32>) {
  // expected-error@below {{operand groups has rank 2, expected 1}}
  %y = gemm.fused %x : tensor<?x8xbf16> groups(%e : tensor<4x1xi32>) columns(%w : tensor<4x16x8xbf16>) -> (tile : tensor<?x16xbf16>) {
  ^bb0(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<2x?x8xbf16>, %w: tensor<4x16x8xbf16>, %e: tensor<4xi32>) {
  // expected-error@below {{operand x has shape 2x?x8, expected a matrix of M x K, whose rows are in groups}}
  %y = gemm.fused %x : tensor<2x?x8xbf16> groups(%e : tensor<4xi32>) columns(%w : tensor<4x16x8xbf16>) -> (tile : tensor<2x?x16xbf16>) {
  ^bb0(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %e: tensor<4xi32>) {
  // expected-error@below {{weight 0 has rank 2, expected 3}}
  %y = gemm.fused %x : tensor<?x8xbf16> groups(%e : tensor<4xi32>) columns(%w : tensor<16x8xbf16>) -> (tile : tensor<?x16xbf16>) {
  ^bb0(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<3x16x8xbf16>, %e: tensor<4xi32>) {
  // expected-error@below {{weight 0 is for 3 groups, expected 4}}
  %y = gemm.fused %x : tensor<?x8xbf16> groups(%e : tensor<4xi32>) columns(%w : tensor<3x16x8xbf16>) -> (tile : tensor<?x16xbf16>) {
  ^bb0(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %b: tensor<4x16xbf16>) {
  // expected-error@below {{port 0 (group_row) is by group, expected groups of rows}}
  %y = gemm.fused %x : tensor<?x8xbf16> columns(%w : tensor<16x8xbf16>) group_row(%b : tensor<4x16xbf16>) -> (tile : tensor<?x16xbf16>) {
  ^bb0(%acc: f32, %bias: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<4x16x8xbf16>, %b: tensor<4x8xbf16>, %e: tensor<4xi32>) {
  // expected-error@below {{port 0 (group_row) has shape 4x8, expected 4x16}}
  %y = gemm.fused %x : tensor<?x8xbf16> groups(%e : tensor<4xi32>) columns(%w : tensor<4x16x8xbf16>) group_row(%b : tensor<4x8xbf16>) -> (tile : tensor<?x16xbf16>) {
  ^bb0(%acc: f32, %bias: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<4x16x8xbf16>, %e: tensor<4xi32>) {
  // expected-error@below {{a partial_col result, expected none of rows in groups}}
  %y = gemm.fused %x : tensor<?x8xbf16> groups(%e : tensor<4xi32>) columns(%w : tensor<4x16x8xbf16>) -> (partial_col<add> : tensor<?x16xf32>) {
  ^bb0(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<4x16x8xbf16>, %e: tensor<4xi32>) {
  // expected-error@below {{rows in groups have one input, and a result of M x N}}
  %y = gemm.library %x : tensor<?x8xbf16> groups(%e : tensor<4xi32>) columns(%w : tensor<4x16x8xbf16>) -> tile_t tensor<16x?xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<?x16xbf16>, %e: tensor<4xi32>) {
  // expected-error@below {{result 0 (tile) has shape 8x16, expected 4x8x16}}
  %y = gemm.fused transposed %x : tensor<?x8xbf16> groups(%e : tensor<4xi32>) columns(%w : tensor<?x16xbf16>) kn -> (tile : tensor<8x16xbf16>) {
  ^bb0(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<?x16xbf16>, %e: tensor<4xi32>) {
  // expected-error@below {{2 inputs, expected one, whose rows are summed over in groups}}
  %y = gemm.fused transposed %x : tensor<?x8xbf16> + %x : tensor<?x8xbf16> groups(%e : tensor<4xi32>) columns(%w : tensor<?x16xbf16>) + (%w : tensor<?x16xbf16>) kn -> (tile : tensor<4x8x16xbf16>) {
  ^bb0(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<?x16xbf16>, %b: tensor<4x16xbf16>, %e: tensor<4xi32>) {
  // expected-error@below {{port 0 (group_row) is by group, expected groups of rows}}
  %y = gemm.fused transposed %x : tensor<?x8xbf16> groups(%e : tensor<4xi32>) columns(%w : tensor<?x16xbf16>) kn group_row(%b : tensor<4x16xbf16>) -> (tile : tensor<4x8x16xbf16>) {
  ^bb0(%acc: f32, %bias: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<0x16x8xbf16>, %e: tensor<0xi32>) {
  // expected-error@below {{operand groups has shape 0, expected at least one group}}
  %y = gemm.fused %x : tensor<?x8xbf16> groups(%e : tensor<0xi32>) columns(%w : tensor<0x16x8xbf16>) -> (tile : tensor<?x16xbf16>) {
  ^bb0(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

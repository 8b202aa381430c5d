// RUN: coda-opt %s --split-input-file --verify-diagnostics

// What the verifier of gemm.fused refuses of sums of products, transposed inputs and results in place.

func.func @f(%x: tensor<?x8xbf16>, %y: tensor<?x4xbf16>, %w: tensor<16x8xbf16>) {
  // expected-error@+2 {{number of terms of columns(...) is 1, expected 2, one per input}}
  %r = gemm.fused %x : tensor<?x8xbf16> + %y : tensor<?x4xbf16>
    columns(%w : tensor<16x8xbf16>)
    -> (tile : tensor<?x16xbf16>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) {
  // expected-error@+2 {{term 1 of columns(...) has 2 weights, expected 1 as in term 0}}
  %r = gemm.fused %x : tensor<?x8xbf16> + %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>) + (%w : tensor<16x8xbf16>, %w : tensor<16x8xbf16>)
    -> (tile : tensor<?x16xbf16>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) {
  // expected-error@below {{property segments states 2 weights, expected the 1 of the operator}}
  %r = "gemm.fused"(%x, %x, %w) <{segments = [#gemm.segment<1, nk, [], [tile]>], operandSegmentSizes = array<i32: 2, 1, 0, 0, 0, 0, 0, 0, 0, 0>}> ({
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }) : (tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  func.return
}

// -----

func.func @f(%w: tensor<16x8xbf16>) {
  // expected-error@below {{no input, expected at least one}}
  %r = "gemm.fused"(%w) <{segments = [#gemm.segment<1, nk, [], [tile]>], operandSegmentSizes = array<i32: 0, 1, 0, 0, 0, 0, 0, 0, 0, 0>}> ({
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }) : (tensor<16x8xbf16>) -> tensor<?x16xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %y: tensor<4x4xf32>, %w: tensor<16x8xbf16>, %v: tensor<16x4xf32>) {
  // expected-error@below {{input 1 has element type f32, expected bf16}}
  %r = gemm.fused %x : tensor<?x8xbf16> + %y : tensor<4x4xf32>
    columns(%w : tensor<16x8xbf16>) + (%v : tensor<16x4xf32>)
    -> (tile : tensor<?x16xbf16>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<2x?x8xbf16>, %y: tensor<3x?x4xbf16>, %w: tensor<16x8xbf16>, %v: tensor<16x4xbf16>) {
  // expected-error@below {{input 1 of shape 3x?x4 has rows 3x?, expected 2x? as operand x has}}
  %r = gemm.fused %x : tensor<2x?x8xbf16> + %y : tensor<3x?x4xbf16>
    columns(%w : tensor<16x8xbf16>) + (%v : tensor<16x4xbf16>)
    -> (tile : tensor<2x?x16xbf16>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %y: tensor<?x4xbf16>, %w: tensor<16x8xbf16>) {
  // expected-error@below {{term 1: weight 0 of shape 16x8 in layout nk has K = 8, expected 4, the last dimension of input 1}}
  %r = gemm.fused %x : tensor<?x8xbf16> + %y : tensor<?x4xbf16>
    columns(%w : tensor<16x8xbf16>) + (%w : tensor<16x8xbf16>)
    -> (tile : tensor<?x16xbf16>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %v: tensor<12x8xbf16>) {
  // expected-error@below {{term 1: weight 0 has 12 columns, expected 16 as in term 0}}
  %r = gemm.fused %x : tensor<?x8xbf16> + %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>) + (%v : tensor<12x8xbf16>)
    -> (tile : tensor<?x16xbf16>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<8xbf16>, %w: tensor<8xbf16>) {
  // expected-error@below {{operand x has rank 1, expected at least 2: the dimensions of K, then M}}
  %r = gemm.fused transposed %x : tensor<8xbf16>
    columns(%w : tensor<8xbf16>) kn
    -> (tile : tensor<8x8xbf16>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x?xbf16>) {
  // expected-error@below {{layout of the weights is nk, expected kn as x is transposed}}
  %r = gemm.fused transposed %x : tensor<?x8xbf16>
    columns(%w : tensor<16x?xbf16>)
    -> (tile : tensor<8x16xbf16>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<2x?x8xbf16>, %w: tensor<3x?x16xbf16>) {
  // expected-error@below {{weight 0 of shape 3x?x16 in layout kn has K = 3x?, expected 2x?, all but the last dimension of operand x}}
  %r = gemm.fused transposed %x : tensor<2x?x8xbf16>
    columns(%w : tensor<3x?x16xbf16>) kn
    -> (tile : tensor<8x16xbf16>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<2x?x8xbf16>, %w: tensor<?x16xbf16>) {
  // expected-error@below {{weight 0 has rank 2, expected 3}}
  %r = gemm.fused transposed %x : tensor<2x?x8xbf16>
    columns(%w : tensor<?x16xbf16>) kn
    -> (tile : tensor<8x16xbf16>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<?x16xbf16>) {
  // expected-error@below {{result 0 (tile) has shape 4x16, expected 8x16}}
  %r = gemm.fused transposed %x : tensor<?x8xbf16>
    columns(%w : tensor<?x16xbf16>) kn
    -> (tile : tensor<4x16xbf16>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x?x8xbf16>, %w: tensor<16x8xbf16>) {
  // expected-error@below {{result 0 (tile_t) has shape 12x?x?, expected 16x?x?}}
  %r = gemm.fused %x : tensor<?x?x8xbf16>
    columns(%w : tensor<16x8xbf16>)
    -> (tile_t : tensor<12x?x?xbf16>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %t: tensor<12x?xbf16>) {
  // expected-error@below {{port 0 (tile_t) has shape 12x?, expected 16x?}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>) tile_t(%t : tensor<12x?xbf16>)
    -> (tile : tensor<?x16xbf16>) {
  ^epilogue(%acc: f32, %p: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %t: tensor<?x16xbf16>) {
  // expected-error@below {{result 0 (accumulate) names port 1 of 1, expected a tile or tile_t port}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>) tile(%t : tensor<?x16xbf16>)
    -> (accumulate<1> : tensor<?x16xbf16>) {
  ^epilogue(%acc: f32, %p: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %t: tensor<16xbf16>) {
  // expected-error@below {{result 0 (accumulate) names port 0 (row), expected a tile or tile_t port}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>) row(%t : tensor<16xbf16>)
    -> (accumulate<0> : tensor<?x16xbf16>) {
  ^epilogue(%acc: f32, %p: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %t: tensor<?x16xf32>) {
  // expected-error@below {{result 0 (accumulate) has type tensor<?x16xbf16>, expected tensor<?x16xf32>, the type of port 0}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>) tile(%t : tensor<?x16xf32>)
    -> (accumulate<0> : tensor<?x16xbf16>) {
  ^epilogue(%acc: f32, %p: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %t: tensor<?x16xbf16>) {
  // expected-error@below {{result 0 (accumulate) overwrites the operand of port 0, which has 2 uses, expected no other}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>) tile(%t : tensor<?x16xbf16>)
    -> (accumulate<0> : tensor<?x16xbf16>) {
  ^epilogue(%acc: f32, %p: f32):
    gemm.yield %acc : f32
  }
  %u = coda.silu %t : (tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<4x8xbf16>, %y: tensor<8x4xbf16>) {
  // expected-error@below {{gemm.map has a tile_t port, expected only in gemm.fused}}
  %r = gemm.map tile(%x : tensor<4x8xbf16>) tile_t(%y : tensor<8x4xbf16>)
    -> (tile : tensor<4x8xbf16>) {
  ^epilogue(%a: f32, %b: f32):
    gemm.yield %b : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xf8E4M3FN>, %y: tensor<?x4xf8E5M2>, %w: tensor<16x8xf8E5M2>, %v: tensor<16x4xi8>) {
  // expected-error@below {{term 1: weight 0 has element type i8, expected a float8 type}}
  %r = gemm.fused %x : tensor<?x8xf8E4M3FN> + %y : tensor<?x4xf8E5M2>
    columns(%w : tensor<16x8xf8E5M2>) + (%v : tensor<16x4xi8>)
    -> (tile : tensor<?x16xbf16>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// RUN: coda-opt %s --split-input-file --verify-diagnostics

// What the verifier of gemm.fused refuses: operands, pairs, ports and results.

func.func @f(%x: tensor<?x8xbf16>) {
  // expected-error@below {{no columns(...), expected at least one}}
  "gemm.fused"(%x) <{segments = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0, 0>}> : (tensor<?x8xbf16>) -> ()
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>) {
  // expected-error@below {{columns() has no weight, expected at least one}}
  %r = "gemm.fused"(%x) <{segments = [#gemm.segment<0, nk, [], [tile]>], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0, 0>}> ({
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }) : (tensor<?x8xbf16>) -> tensor<?x16xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<bf16>, %w: tensor<16x8xbf16>) {
  // expected-error@below {{operand x is a scalar, expected at least one dimension}}
  %r = gemm.fused %x : tensor<bf16>
    columns(%w : tensor<16x8xbf16>)
    -> (tile : tensor<?x16xbf16>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xi32>, %w: tensor<16x8xbf16>) {
  // expected-error@below {{operand x has element type i32, expected a float type}}
  %r = gemm.fused %x : tensor<?x8xi32>
    columns(%w : tensor<16x8xbf16>)
    -> (tile : tensor<?x16xbf16>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<8xbf16>) {
  // expected-error@below {{weight 0 has rank 1, expected 2}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<8xbf16>)
    -> (tile : tensor<?x16xbf16>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) {
  // expected-error@below {{weight 0 of shape 16x8 in layout kn has K = 16, expected 8, the last dimension of operand x}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>) kn
    -> (tile : tensor<?x16xbf16>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %v: tensor<8x16xbf16>) {
  // expected-error@below {{weight 1 of shape 8x16 in layout nk has K = 16, expected 8, the last dimension of operand x}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>, %v : tensor<8x16xbf16>)
    -> (tile : tensor<?x16xbf16>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xf32>) {
  // expected-error@below {{weight 0 has element type f32, expected bf16}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xf32>)
    -> (tile : tensor<?x16xbf16>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) {
  // expected-error@below {{pair group is 3, expected an even number}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>) pair<halves, 3>
    -> (tile : tensor<?x16xbf16>) {
  ^epilogue(%a: f32, %b: f32):
    gemm.yield %a, %b : f32, f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) {
  // expected-error@below {{pair group is 6, expected a divisor of the 16 columns}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>) pair<halves, 6>
    -> (tile : tensor<?x16xbf16>) {
  ^epilogue(%a: f32, %b: f32):
    gemm.yield %a, %b : f32, f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<3x8xbf16>) {
  // expected-error@below {{pair mode on 3 columns, expected an even number}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<3x8xbf16>) pair<adjacent>
    -> (tile : tensor<?x3xbf16>) {
  ^epilogue(%a: f32, %b: f32):
    gemm.yield %a, %b : f32, f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) {
  // expected-error@below {{pair mode on 2 weights, expected 'halves' without a group}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>, %w : tensor<16x8xbf16>) pair<adjacent>
    -> (tile : tensor<?x32xbf16>) {
  ^epilogue(%a: f32, %b: f32):
    gemm.yield %a, %b : f32, f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %v: tensor<8x8xbf16>) {
  // expected-error@below {{pair mode takes one weight, or two weights with the same number of columns}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>, %v : tensor<8x8xbf16>) pair<halves>
    -> (tile : tensor<?x24xbf16>) {
  ^epilogue(%a: f32, %b: f32):
    gemm.yield %a, %b : f32, f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %p: tensor<8xbf16>) {
  // expected-error@below {{port 0 (half_row) is a pair port, expected only in pair mode}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>) half_row(%p : tensor<8xbf16>)
    -> (tile : tensor<?x16xbf16>) {
  ^epilogue(%acc: f32, %q: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %p: tensor<?x8xbf16>) {
  // expected-error@below {{port 0 (tile) has shape ?x8, expected ?x16}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>) tile(%p : tensor<?x8xbf16>)
    -> (tile : tensor<?x16xbf16>) {
  ^epilogue(%acc: f32, %q: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %p: tensor<?x16xbf16>) {
  // expected-error@below {{port 0 (half_tile) has shape ?x16, expected ?x8}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>) pair<halves> half_tile(%p : tensor<?x16xbf16>)
    -> (tile : tensor<?x16xbf16>) {
  ^epilogue(%a: f32, %b: f32, %q: f32):
    gemm.yield %a, %b : f32, f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %p: tensor<8xbf16>) {
  // expected-error@below {{port 0 (row) has shape 8, expected 16}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>) row(%p : tensor<8xbf16>)
    -> (tile : tensor<?x16xbf16>) {
  ^epilogue(%acc: f32, %q: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %p: tensor<16xbf16>) {
  // expected-error@below {{port 0 (half_row) has shape 16, expected 8}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>) pair<halves> half_row(%p : tensor<16xbf16>)
    -> (tile : tensor<?x16xbf16>) {
  ^epilogue(%a: f32, %b: f32, %q: f32):
    gemm.yield %a, %b : f32, f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %p: tensor<?x2xf32>) {
  // expected-error@below {{port 0 (col) has shape ?x2, expected ?x1 or ?}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>) col(%p : tensor<?x2xf32>)
    -> (tile : tensor<?x16xbf16>) {
  ^epilogue(%acc: f32, %q: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %p: tensor<2xf32>) {
  // expected-error@below {{port 0 (scalar) has shape 2, expected one element}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>) scalar(%p : tensor<2xf32>)
    -> (tile : tensor<?x16xbf16>) {
  ^epilogue(%acc: f32, %q: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %p: tensor<f32>) {
  // expected-error@below {{port 0 (table) is a scalar, expected at least one dimension}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>) table(%p : tensor<f32>)
    -> (tile : tensor<?x16xbf16>) {
  ^epilogue(%acc: f32, %q: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %p: tensor<?x3xf32>) {
  // expected-error@below {{port 0 (table) has 3 columns, expected a divisor of the 16 columns}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>) table(%p : tensor<?x3xf32>)
    -> (tile : tensor<?x16xbf16>) {
  ^epilogue(%acc: f32, %q: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %p: tensor<?x16xf32>) {
  // expected-error@below {{port 0 (half_table) has 16 columns, expected a divisor of the 8 columns}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>) pair<halves> half_table(%p : tensor<?x16xf32>)
    -> (tile : tensor<?x16xbf16>) {
  ^epilogue(%a: f32, %b: f32, %q: f32):
    gemm.yield %a, %b : f32, f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %p: tensor<2x3x16xf32>) {
  // expected-error@below {{port 0 (table) has rows 2x3, expected extents of ? or 1}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>) table(%p : tensor<2x3x16xf32>)
    -> (tile : tensor<?x16xbf16>) {
  ^epilogue(%acc: f32, %q: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<2x3x4x8xbf16>, %w: tensor<16x8xbf16>, %p: tensor<2x2x4x16xf32>) {
  // expected-error@below {{port 0 (table) has rows 2x2x4, expected extents of 2x3x4 or 1}}
  %r = gemm.fused %x : tensor<2x3x4x8xbf16>
    columns(%w : tensor<16x8xbf16>) table(%p : tensor<2x2x4x16xf32>)
    -> (tile : tensor<2x3x4x16xbf16>) {
  ^epilogue(%acc: f32, %q: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<2x3x8xbf16>, %w: tensor<16x8xbf16>, %p: tensor<3x1x16xf32>) {
  // expected-error@below {{port 0 (table) has rows 3x1, expected extents of 2x3 or 1}}
  %r = gemm.fused %x : tensor<2x3x8xbf16>
    columns(%w : tensor<16x8xbf16>) table(%p : tensor<3x1x16xf32>)
    -> (tile : tensor<2x3x16xbf16>) {
  ^epilogue(%acc: f32, %q: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<2x3x8xbf16>, %w: tensor<16x8xbf16>, %p: tensor<2x3x1x16xf32>) {
  // expected-error@below {{port 0 (table) has rows 2x3x1, expected extents of 2x3 or 1}}
  %r = gemm.fused %x : tensor<2x3x8xbf16>
    columns(%w : tensor<16x8xbf16>) table(%p : tensor<2x3x1x16xf32>)
    -> (tile : tensor<2x3x16xbf16>) {
  ^epilogue(%acc: f32, %q: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) {
  // expected-error@below {{result 0 (half) is a pair port, expected only in pair mode}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>)
    -> (half : tensor<?x8xbf16>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) {
  // expected-error@below {{result 0 (tile) has shape ?x8, expected ?x16}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>)
    -> (tile : tensor<?x8xbf16>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) {
  // expected-error@below {{result 0 (half) has shape ?x16, expected ?x8}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>) pair<halves>
    -> (half : tensor<?x16xbf16>) {
  ^epilogue(%a: f32, %b: f32):
    gemm.yield %a : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) {
  // expected-error@below {{result 0 (partial_row) has shape ?, expected ?x?}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>)
    -> (partial_row<add> : tensor<?xf32>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) {
  // expected-error@below {{result 0 (partial_row) has shape ?x2, expected ?x?}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>)
    -> (partial_row<add> : tensor<?x2xf32>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) {
  // expected-error@below {{result 0 (partial_col) has shape ?x8, expected ?x16}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>)
    -> (partial_col<add> : tensor<?x8xf32>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) {
  // expected-error@below {{result 0 (partial_row) has element type bf16, expected f32}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>)
    -> (partial_row<add> : tensor<?x?xbf16>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) {
  // expected-error@below {{result 0 (select) names port 0 of 0, expected a col port of integers}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>)
    -> (select<0> : tensor<?xf32>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %p: tensor<?xf32>) {
  // expected-error@below {{result 0 (select) names port 0 (col of f32), expected a col port of integers}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>) col(%p : tensor<?xf32>)
    -> (select<0> : tensor<?xf32>) {
  ^epilogue(%acc: f32, %q: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %p: tensor<16xi64>) {
  // expected-error@below {{result 0 (select) names port 0 (row of i64), expected a col port of integers}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>) row(%p : tensor<16xi64>)
    -> (select<0> : tensor<?xf32>) {
  ^epilogue(%acc: f32, %q: i64):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %p: tensor<?xi64>) {
  // expected-error@below {{result 0 (select) is not supported in pair mode}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>) pair<halves> col(%p : tensor<?xi64>)
    -> (select<0> : tensor<?xf32>) {
  ^epilogue(%a: f32, %b: f32, %q: i64):
    gemm.yield %a : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) {
  // expected-error@below {{partial_row is used by coda.neg as if it were complete, expected gemm.finalize}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>)
    -> (partial_row<add> : tensor<?x?xf32>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }
  %n = coda.neg %r : (tensor<?x?xf32>) -> tensor<?x?xf32>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %v: tensor<8x8xbf16>) {
  // expected-error@below {{partial_row is used by gemm.fused as if it were complete, expected gemm.finalize}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>)
    -> (partial_row<max> : tensor<?x?xf32>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }
  %y = gemm.fused %x : tensor<?x8xbf16>
    columns(%v : tensor<8x8xbf16>) partial_add(%r : tensor<?x?xf32>)
    -> (tile : tensor<?x8xbf16>) {
  ^epilogue(%acc: f32, %s: f32):
    gemm.yield %s : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %p: tensor<?x2x3xf32>) {
  // expected-error@below {{port 0 (partial_lse) has shape ?x2x3, expected ?x?}}
  %y = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>) partial_lse(%p : tensor<?x2x3xf32>)
    -> (tile : tensor<?x16xbf16>) {
  ^epilogue(%acc: f32, %s: f32):
    gemm.yield %s : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %p: tensor<?x3xbf16>) {
  // expected-error@below {{port 0 (partial_add) has element type bf16, expected f32}}
  %y = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>) partial_add(%p : tensor<?x3xbf16>)
    -> (tile : tensor<?x16xbf16>) {
  ^epilogue(%acc: f32, %s: f32):
    gemm.yield %s : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<2x?x8xf32>, %w: tensor<16x8xf32>) {
  // expected-error@below {{result 0 (partial_col) has shape 3x?x16, expected 2x?x16}}
  %p = gemm.fused %x : tensor<2x?x8xf32>
    columns(%w : tensor<16x8xf32>)
    -> (partial_col<add> : tensor<3x?x16xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  func.return
}

// -----

func.func @f(%x: tensor<?x?x8xf32>, %w: tensor<16x8xf32>) {
  // expected-error@below {{result 0 (partial_col) combines the rows of each sample, expected add}}
  %p = gemm.fused %x : tensor<?x?x8xf32>
    columns(%w : tensor<16x8xf32>)
    -> (partial_col<max> : tensor<?x?x16xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  func.return
}

// -----

func.func @f(%x: tensor<?x?x8xf32>, %w: tensor<16x8xf32>) {
  // expected-error@below {{result 0 (partial_col) has shape ?x?x?x16, expected ?x?x16}}
  %p = gemm.fused %x : tensor<?x?x8xf32>
    columns(%w : tensor<16x8xf32>)
    -> (partial_col<add> : tensor<?x?x?x16xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  func.return
}

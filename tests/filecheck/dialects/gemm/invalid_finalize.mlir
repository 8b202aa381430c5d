// RUN: coda-opt %s --split-input-file --verify-diagnostics

// What the verifier of gemm.finalize refuses.

func.func @f(%p: tensor<?x?xf32>) {
  // expected-error@below {{property axis is "tile", expected "row" or "col"}}
  %r = "gemm.finalize"(%p) <{axis = "tile", combiners = [#gemm<combiner add>], port_kinds = [], operandSegmentSizes = array<i32: 1, 0>}> ({
  ^epilogue(%a: f32):
    gemm.yield %a : f32
  }) : (tensor<?x?xf32>) -> tensor<?x1xf32>
  func.return
}

// -----

func.func @f() {
  // expected-error@below {{no partials, expected at least one}}
  %r = gemm.finalize row () -> (tensor<?x1xf32>) {
  ^epilogue(%a: f32):
    gemm.yield %a : f32
  }
  func.return
}

// -----

func.func @f(%p: tensor<3x?xf32>, %q: tensor<4x?xf32>) {
  // expected-error@below {{partial 1 has shape 4x?, expected 3x?}}
  %r = gemm.finalize row (add %p : tensor<3x?xf32>, max %q : tensor<4x?xf32>) -> (tensor<3x1xf32>) {
  ^epilogue(%a: f32, %b: f32):
    gemm.yield %a : f32
  }
  func.return
}

// -----

func.func @f(%p: tensor<?x?xbf16>) {
  // expected-error@below {{partial 0 has element type bf16, expected f32}}
  %r = gemm.finalize row (add %p : tensor<?x?xbf16>) -> (tensor<?x1xf32>) {
  ^epilogue(%a: f32):
    gemm.yield %a : f32
  }
  func.return
}

// -----

func.func @f(%p: tensor<?x?xf32>, %q: tensor<8xf32>) {
  // expected-error@below {{port 0 is row, expected col or scalar}}
  %r = gemm.finalize row (add %p : tensor<?x?xf32>) row(%q : tensor<8xf32>) -> (tensor<?x1xf32>) {
  ^epilogue(%a: f32, %b: f32):
    gemm.yield %a : f32
  }
  func.return
}

// -----

func.func @f(%p: tensor<?x?xf32>, %q: tensor<?x2xf32>) {
  // expected-error@below {{port 0 has shape ?x2, expected ?}}
  %r = gemm.finalize row (add %p : tensor<?x?xf32>) col(%q : tensor<?x2xf32>) -> (tensor<?x1xf32>) {
  ^epilogue(%a: f32, %b: f32):
    gemm.yield %a : f32
  }
  func.return
}

// -----

func.func @f(%p: tensor<?x?xf32>) {
  // expected-error@below {{result 0 has shape ?x2, expected ?x1 or ?}}
  %r = gemm.finalize row (add %p : tensor<?x?xf32>) -> (tensor<?x2xf32>) {
  ^epilogue(%a: f32):
    gemm.yield %a : f32
  }
  func.return
}

// -----

func.func @f(%p: tensor<?x16xf32>) {
  // expected-error@below {{result 0 has shape 8, expected 16x1 or 16}}
  %r = gemm.finalize col (add %p : tensor<?x16xf32>) -> (tensor<8xf32>) {
  ^epilogue(%a: f32):
    gemm.yield %a : f32
  }
  func.return
}

// -----

func.func @f(%p: tensor<?x?xf32>) {
  // expected-error@below {{region takes (f32), expected (f32, f32): the accumulators, then the ports}}
  %r = gemm.finalize row (add %p : tensor<?x?xf32>, max %p : tensor<?x?xf32>) -> (tensor<?x1xf32>) {
  ^epilogue(%a: f32):
    gemm.yield %a : f32
  }
  func.return
}

// -----

func.func @f(%p: tensor<?x?xf32>) {
  // expected-error@below {{region yields (f32), expected (f32, f32)}}
  %r, %s = gemm.finalize row (add %p : tensor<?x?xf32>) -> (tensor<?x1xf32>, tensor<?x1xf32>) {
  ^epilogue(%a: f32):
    gemm.yield %a : f32
  }
  func.return
}

// -----

func.func @f(%p: tensor<?x?xf64>) {
  // expected-error@below {{partial 0 has element type f64, expected f32; f64 is for lse alone}}
  %r = gemm.finalize row (add %p : tensor<?x?xf64>) -> (tensor<?x1xf32>) {
  ^epilogue(%sum: f32, %rest: f32):
    gemm.yield %sum : f32
  }
  func.return
}

// -----

func.func @f(%p: tensor<?x16xf64>) {
  // expected-error@below {{partial 0 has element type f64, expected f32}}
  %r = gemm.finalize col (lse %p : tensor<?x16xf64>) -> (tensor<16xf32>) {
  ^epilogue(%sum: f32, %rest: f32):
    gemm.yield %sum : f32
  }
  func.return
}

// -----

func.func @f(%p: tensor<?x?xf32>, %t: tensor<?xi64>) {
  %r = gemm.finalize row (lse %p : tensor<?x?xf32>) col(%t : tensor<?xi64>) -> (tensor<?xi64>) {
  ^epilogue(%sum: f32, %target: i64):
    // expected-error@below {{expected integer >= 1, got 0}}
    %checked = gemm.checked_index %target {extent = 0 : i64, ignored = -100 : i64} : i64
    gemm.yield %checked : i64
  }
  func.return
}

// -----

func.func @f(%p: tensor<2x?x16xf32>) {
  // expected-error@below {{result 0 has shape 16, expected 2x16x1 or 2x16}}
  %s = gemm.finalize col (add %p : tensor<2x?x16xf32>) -> (tensor<16xf32>) {
    ^bb0(%0: f32):
      gemm.yield %0 : f32
    }
  func.return
}

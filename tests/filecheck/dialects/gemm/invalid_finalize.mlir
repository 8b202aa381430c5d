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

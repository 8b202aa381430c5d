// RUN: coda-opt %s --split-input-file --verify-diagnostics

// What the verifier of gemm.map refuses.

func.func @f(%x: tensor<?x7xbf16>) {
  // expected-error@below {{pair mode on 7 columns, expected an even number}}
  %r = "gemm.map"(%x) <{segment = #gemm.segment<0, nk, pair<adjacent>, [tile], [tile]>}> ({
  ^epilogue(%a: f32, %b: f32):
    gemm.yield %a, %b : f32, f32
  }) : (tensor<?x7xbf16>) -> tensor<?x7xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>) {
  // expected-error@below {{pair group is 6, expected a divisor of the 8 columns}}
  %r = gemm.map pair<halves, 6> tile(%x : tensor<?x8xbf16>)
    -> (tile : tensor<?x8xbf16>) {
  ^epilogue(%a: f32, %b: f32):
    gemm.yield %a, %b : f32, f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>) {
  // expected-error@below {{pair<halves> of gemm.map has no group, expected its columns}}
  %r = gemm.map pair<halves> tile(%x : tensor<?x8xbf16>)
    -> (tile : tensor<?x8xbf16>) {
  ^epilogue(%a: f32, %b: f32):
    gemm.yield %a, %b : f32, f32
  }
  func.return
}

// -----

func.func @f(%b: tensor<8xbf16>) {
  // expected-error@below {{gemm.map has neither a tile result nor a tile port}}
  %r = gemm.map row(%b : tensor<8xbf16>)
    -> (partial_row<add> : tensor<?x?xf32>) {
  ^epilogue(%a: f32):
    gemm.yield %a : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %b: tensor<7xbf16>) {
  // expected-error@below {{port 1 (row) has shape 7, expected 8}}
  %r = gemm.map tile(%x : tensor<?x8xbf16>) row(%b : tensor<7xbf16>)
    -> (tile : tensor<?x8xbf16>) {
  ^epilogue(%a: f32, %b0: f32):
    gemm.yield %a : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>) {
  // expected-error@below {{result 0 (select) names port 4 of 1, expected a col port of integers}}
  %r = gemm.map tile(%x : tensor<?x8xbf16>)
    -> (select<4> : tensor<?xf32>) {
  ^epilogue(%a: f32):
    gemm.yield %a : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xi64>) {
  // expected-error@below {{region takes (f32), expected (i64): the accumulators, then the ports}}
  %r = gemm.map tile(%x : tensor<?x8xi64>)
    -> (tile : tensor<?x8xbf16>) {
  ^epilogue(%a: f32):
    gemm.yield %a : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %p: tensor<?x3xbf16>) {
  // expected-error@below {{port 1 (partial_add) has element type bf16, expected f32}}
  %y = gemm.map tile(%x : tensor<?x8xbf16>) partial_add(%p : tensor<?x3xbf16>)
    -> (tile : tensor<?x8xbf16>) {
  ^epilogue(%a: f32, %s: f32):
    gemm.yield %s : f32
  }
  func.return
}

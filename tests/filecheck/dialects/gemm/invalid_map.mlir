// RUN: coda-opt %s --split-input-file --verify-diagnostics | filecheck %s

// What the verifier of gemm.map refuses.

// CHECK: gemm.map has neither weights nor pairs
func.func @f(%x: tensor<?x8xbf16>) {
  %r = "gemm.map"(%x) <{segment = #gemm.segment<0, nk, pair<adjacent>, [tile], [tile]>}> ({
  ^epilogue(%a: f32, %b: f32):
    gemm.yield %a, %b : f32, f32
  }) : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  func.return
}

// -----

// CHECK: gemm.map has neither a tile result nor a tile port
func.func @f(%b: tensor<8xbf16>) {
  %r = gemm.map row(%b : tensor<8xbf16>)
    -> (partial_row<add> : tensor<?x?xf32>) {
  ^epilogue(%a: f32):
    gemm.yield %a : f32
  }
  func.return
}

// -----

// CHECK: port 1 (row) has shape 7, expected 8
func.func @f(%x: tensor<?x8xbf16>, %b: tensor<7xbf16>) {
  %r = gemm.map tile(%x : tensor<?x8xbf16>) row(%b : tensor<7xbf16>)
    -> (tile : tensor<?x8xbf16>) {
  ^epilogue(%a: f32, %b0: f32):
    gemm.yield %a : f32
  }
  func.return
}

// -----

// CHECK: result 0 (select) names port 4 of 1, expected a col port of integers
func.func @f(%x: tensor<?x8xbf16>) {
  %r = gemm.map tile(%x : tensor<?x8xbf16>)
    -> (select<4> : tensor<?xf32>) {
  ^epilogue(%a: f32):
    gemm.yield %a : f32
  }
  func.return
}

// -----

// CHECK: region takes (f32), expected (i64): the accumulators, then the ports
func.func @f(%x: tensor<?x8xi64>) {
  %r = gemm.map tile(%x : tensor<?x8xi64>)
    -> (tile : tensor<?x8xbf16>) {
  ^epilogue(%a: f32):
    gemm.yield %a : f32
  }
  func.return
}

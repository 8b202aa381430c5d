// RUN: coda-opt %s --split-input-file --verify-diagnostics

// What is refused of results that are stored as a part of another tensor.

func.func @f(%x: tensor<?x16xf32>) -> tensor<?x16xf32> {
  // expected-error@below {{result 0 (tile) has a place, expected coda.concat of its rows or columns as its only use}}
  %y = gemm.map tile(%x : tensor<?x16xf32>)
      -> (tile at<0, 16, 32> : tensor<?x16xf32>) {
    ^bb0(%a: f32):
      gemm.yield %a : f32
    }
  func.return %y : tensor<?x16xf32>
}

// -----

func.func @f(%x: tensor<?x16xf32>) -> tensor<?x32xf32> {
  // expected-error@below {{result 0 (tile) is at [0, 16, 32], expected [16, 16, 32] as in its coda.concat}}
  %y = gemm.map tile(%x : tensor<?x16xf32>)
      -> (tile at<0, 16, 32> : tensor<?x16xf32>) {
    ^bb0(%a: f32):
      gemm.yield %a : f32
    }
  %z = coda.concat %x, %y {dim = 1 : i64} : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x32xf32>
  func.return %z : tensor<?x32xf32>
}

// -----

func.func @f(%x: tensor<?x16xf32>) -> tensor<?x48xf32> {
  // expected-error@below {{result 0 (tile) has a place, expected coda.concat of its rows or columns as its only use}}
  %y = gemm.map tile(%x : tensor<?x16xf32>)
      -> (tile at<0, 16, 48> : tensor<?x16xf32>) {
    ^bb0(%a: f32):
      gemm.yield %a : f32
    }
  %z = coda.concat %y, %x, %y {dim = 1 : i64} : (tensor<?x16xf32>, tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x48xf32>
  func.return %z : tensor<?x48xf32>
}

// -----

func.func @f(%x: tensor<?x16xf32>) {
  // expected-error@below {{result port tile_t: a place is expected for tile and half only}}
  %y = gemm.map tile(%x : tensor<?x16xf32>) -> (tile_t at<0, 16, 32> : tensor<16x?xf32>) {
    ^bb0(%a: f32):
      gemm.yield %a : f32
    }
  func.return
}

// -----

func.func @f(%x: tensor<?x16xf32>) {
  // expected-error@below {{place<8, 16, 16>: expected 16 or more elements behind the first 8 of 16}}
  %y = gemm.map tile(%x : tensor<?x16xf32>) -> (tile at<8, 16, 16> : tensor<?x16xf32>) {
    ^bb0(%a: f32):
      gemm.yield %a : f32
    }
  func.return
}

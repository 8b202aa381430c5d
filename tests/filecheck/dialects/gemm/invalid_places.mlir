// RUN: coda-opt %s --split-input-file --verify-diagnostics

// What is refused of results that are stored as a part of another tensor.

func.func @f(%x: tensor<?x16xf32>) -> tensor<?x16xf32> {
  // expected-error@below {{result 0 (tile) has a place, expected coda.concat of its rows or columns, or a call in place that stores it as a row, as its only use}}
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
  // expected-error@below {{result 0 (tile) has a place, expected coda.concat of its rows or columns, or a call in place that stores it as a row, as its only use}}
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
  // expected-error@below {{place<8, 16, 16>: expected 16 or more elements after the first 8 of 16}}
  %y = gemm.map tile(%x : tensor<?x16xf32>) -> (tile at<8, 16, 16> : tensor<?x16xf32>) {
    ^bb0(%a: f32):
      gemm.yield %a : f32
    }
  func.return
}

// -----

func.func @f(%x: tensor<2x1x64xbf16>, %w: tensor<32x64xbf16>, %cache: tensor<2x2x16x16xbf16> {coda.donated}, %at: tensor<1xi64>) -> tensor<2x2x16x16xbf16> {
  // expected-error@below {{result 0 (tile) names the wrong port for its row, expected a scalar port of the index of that call}}
  %k = gemm.fused %x : tensor<2x1x64xbf16>
    columns(%w : tensor<32x64xbf16>) scalar(%at : tensor<1xi64>)
      -> (tile at<0, 16, 256> : tensor<2x1x32xbf16>) {
    ^bb0(%acc: f32, %n: i64):
      gemm.yield %acc : f32
    }
  %heads = coda.reshape %k : (tensor<2x1x32xbf16>) -> tensor<2x2x1x16xbf16>
  %c = torch.call "aten.index_put.default"(%cache, %at, %heads) {arguments = "{0}, [None, None, {1}], {2}", in_place} : (tensor<2x2x16x16xbf16>, tensor<1xi64>, tensor<2x2x1x16xbf16>) -> tensor<2x2x16x16xbf16>
  func.return %c : tensor<2x2x16x16xbf16>
}

// -----

func.func @f(%x: tensor<2x1x64xbf16>, %w: tensor<32x64xbf16>, %cache: tensor<2x2x16x16xbf16> {coda.donated}, %at: tensor<1xi64>, %other: tensor<1xi64>) -> tensor<2x2x16x16xbf16> {
  // expected-error@below {{result 0 (tile) names the wrong port for its row, expected a scalar port of the index of that call}}
  %k = gemm.fused %x : tensor<2x1x64xbf16>
    columns(%w : tensor<32x64xbf16>) scalar(%at : tensor<1xi64>)
      -> (tile<0> at<0, 16, 256> : tensor<2x1x32xbf16>) {
    ^bb0(%acc: f32, %n: i64):
      gemm.yield %acc : f32
    }
  %heads = coda.reshape %k : (tensor<2x1x32xbf16>) -> tensor<2x2x1x16xbf16>
  %c = torch.call "aten.index_put.default"(%cache, %other, %heads) {arguments = "{0}, [None, None, {1}], {2}", in_place} : (tensor<2x2x16x16xbf16>, tensor<1xi64>, tensor<2x2x1x16xbf16>) -> tensor<2x2x16x16xbf16>
  func.return %c : tensor<2x2x16x16xbf16>
}

// -----

func.func @f(%x: tensor<2x1x64xbf16>, %w: tensor<32x64xbf16>, %cache: tensor<2x2x16x16xbf16> {coda.donated}, %at: tensor<1xi64>) -> tensor<2x2x16x16xbf16> {
  // expected-error@below {{result 0 (tile) names port 1 of 1, expected a scalar port of integers}}
  %k = gemm.fused %x : tensor<2x1x64xbf16>
    columns(%w : tensor<32x64xbf16>) scalar(%at : tensor<1xi64>)
      -> (tile<1> at<0, 16, 256> : tensor<2x1x32xbf16>) {
    ^bb0(%acc: f32, %n: i64):
      gemm.yield %acc : f32
    }
  %heads = coda.reshape %k : (tensor<2x1x32xbf16>) -> tensor<2x2x1x16xbf16>
  %c = torch.call "aten.index_put.default"(%cache, %at, %heads) {arguments = "{0}, [None, None, {1}], {2}", in_place} : (tensor<2x2x16x16xbf16>, tensor<1xi64>, tensor<2x2x1x16xbf16>) -> tensor<2x2x16x16xbf16>
  func.return %c : tensor<2x2x16x16xbf16>
}

// -----

func.func @f(%x: tensor<2x1x64xbf16>, %w: tensor<32x64xbf16>, %cache: tensor<2x2x16x16xbf16> {coda.donated}, %at: tensor<1xi64>) -> tensor<2x2x16x16xbf16> {
  // expected-error@below {{result 0 (tile) has a place, expected coda.concat of its rows or columns, or a call in place that stores it as a row, as its only use}}
  %k = gemm.fused %x : tensor<2x1x64xbf16>
    columns(%w : tensor<32x64xbf16>) scalar(%at : tensor<1xi64>)
      -> (tile<0> at<0, 16, 256> : tensor<2x1x32xbf16>) {
    ^bb0(%acc: f32, %n: i64):
      gemm.yield %acc : f32
    }
  %heads = coda.reshape %k : (tensor<2x1x32xbf16>) -> tensor<2x2x1x16xbf16>
  %c = torch.call "aten.index_put.default"(%cache, %at, %heads) {arguments = "{0}, [None, None, {1}], {2}"} : (tensor<2x2x16x16xbf16>, tensor<1xi64>, tensor<2x2x1x16xbf16>) -> tensor<2x2x16x16xbf16>
  func.return %c : tensor<2x2x16x16xbf16>
}

// -----

func.func @f(%h: tensor<?x64xbf16>, %a: tensor<?x32xbf16>, %p: tensor<32x2x32xbf16>) -> tensor<32x2x64xbf16> {
  // expected-error@below {{result 0 (tile_t) is at [0, 32, 64], expected rows of a matrix}}
  %d = gemm.fused transposed %h : tensor<?x64xbf16>
    columns(%a : tensor<?x32xbf16>) kn
      -> (tile_t at<0, 32, 64> : tensor<32x64xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %heads = coda.reshape %d : (tensor<32x64xbf16>) -> tensor<32x2x32xbf16>
  %c = coda.concat %heads, %p {dim = 2 : i64} : (tensor<32x2x32xbf16>, tensor<32x2x32xbf16>) -> tensor<32x2x64xbf16>
  func.return %c : tensor<32x2x64xbf16>
}

// RUN: coda-opt %s --split-input-file --verify-diagnostics

// Operators that run as calls of PyTorch.

func.func @f(%x: tensor<?x8xf32>, %ids: tensor<?xf32>) {
  // expected-error@below {{operand ids has element type f32, expected i32 or i64}}
  %r = coda.index %x, %ids {dim = 0 : i64} : (tensor<?x8xf32>, tensor<?xf32>) -> tensor<?x8xf32>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xf32>, %ids: tensor<?xi64>) {
  // expected-error@below {{property dim is 2, expected 0 to 1}}
  %r = coda.index %x, %ids {dim = 2 : i64} : (tensor<?x8xf32>, tensor<?xi64>) -> tensor<?x8xf32>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xf32>, %ids: tensor<4xi64>) {
  // expected-error@below {{result has shape 5x8, expected 4x8}}
  %r = coda.index %x, %ids {dim = 0 : i64} : (tensor<?x8xf32>, tensor<4xi64>) -> tensor<5x8xf32>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xf32>, %ids: tensor<?x2xi32>) {
  // expected-error@below {{operand ids has element type i32, expected i64}}
  %r = coda.gather %x, %ids {dim = 1 : i64} : (tensor<?x8xf32>, tensor<?x2xi32>) -> tensor<?x2xf32>
  func.return
}

// -----

func.func @f(%x: tensor<3x8xf32>, %ids: tensor<4x2xi64>) {
  // expected-error@below {{operand ids has shape 4x2, expected 3x2}}
  %r = coda.gather %x, %ids {dim = 1 : i64} : (tensor<3x8xf32>, tensor<4x2xi64>) -> tensor<4x2xf32>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xf32>, %ids: tensor<?x2xi64>, %v: tensor<?x3xf32>) {
  // expected-error@below {{operand values has shape ?x3, expected ?x2}}
  %r = coda.scatter %x, %ids, %v {dim = 1 : i64} : (tensor<?x8xf32>, tensor<?x2xi64>, tensor<?x3xf32>) -> tensor<?x8xf32>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xf32>, %ids: tensor<?x2xi64>, %v: tensor<?x2xbf16>) {
  // expected-error@below {{operand values has element type bf16, expected f32}}
  %r = coda.scatter %x, %ids, %v {dim = 1 : i64} : (tensor<?x8xf32>, tensor<?x2xi64>, tensor<?x2xbf16>) -> tensor<?x8xf32>
  func.return
}

// -----

func.func @f(%ids: tensor<?xi64>) {
  // expected-error@below {{property classes is 0, expected 1 or more, the number of columns}}
  %r = coda.one_hot %ids {classes = 0 : i64} : (tensor<?xi64>) -> tensor<?x0xi64>
  func.return
}

// -----

func.func @f(%ids: tensor<?xi64>) {
  // expected-error@below {{result has element type f32, expected i64}}
  %r = coda.one_hot %ids {classes = 4 : i64} : (tensor<?xi64>) -> tensor<?x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xf32>) {
  // expected-error@below {{property k is 9, expected 1 to 8, the elements along dim}}
  %v, %i = coda.topk %x {k = 9 : i64, dim = 1 : i64} : (tensor<?x8xf32>) -> (tensor<?x9xf32>, tensor<?x9xi64>)
  func.return
}

// -----

func.func @f(%x: tensor<?x8xf32>) {
  // expected-error@below {{result ids has element type i32, expected i64}}
  %v, %i = coda.topk %x {k = 2 : i64, dim = 1 : i64} : (tensor<?x8xf32>) -> (tensor<?x2xf32>, tensor<?x2xi32>)
  func.return
}

// -----

func.func @f(%x: tensor<?x8xf32>) {
  // expected-error@below {{result has shape ?x7, expected ?x8}}
  %v, %i = coda.sort %x {dim = 1 : i64, descending = false} : (tensor<?x8xf32>) -> (tensor<?x7xf32>, tensor<?x8xi64>)
  func.return
}

// -----

func.func @f(%x: tensor<?x8xi32>) {
  // expected-error@below {{operand x has element type i32, expected i64}}
  %r = coda.cumsum %x {dim = 1 : i64} : (tensor<?x8xi32>) -> tensor<?x8xi32>
  func.return
}

// -----

func.func @f(%x: tensor<?x8x4xf32>) {
  // expected-error@below {{property groups is 3, expected a divisor of the 8 channels}}
  %r = coda.group_norm %x {groups = 3 : i64, eps = 1.000000e-05 : f64} : (tensor<?x8x4xf32>) -> tensor<?x8x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<?x8x4xf32>, %w: tensor<8xf32>) {
  // expected-error@below {{1 parameters, expected a weight and a bias}}
  %r = coda.group_norm %x, %w {groups = 2 : i64, eps = 1.000000e-05 : f64} : (tensor<?x8x4xf32>, tensor<8xf32>) -> tensor<?x8x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<?x8x4xf32>, %w: tensor<4xf32>) {
  // expected-error@below {{operand weight has shape 4, expected 8}}
  %r = coda.group_norm %x, %w, %w {groups = 2 : i64, eps = 1.000000e-05 : f64} : (tensor<?x8x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<?x8x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<?x8x4xi64>) {
  // expected-error@below {{operand x has element type i64, expected a float type}}
  %r = coda.group_norm %x {groups = 2 : i64, eps = 1.000000e-05 : f64} : (tensor<?x8x4xi64>) -> tensor<?x8x4xi64>
  func.return
}

// -----

func.func @f(%x: tensor<8xf32>) {
  // expected-error@below {{operand x has rank 1, expected at least 2}}
  %r = coda.group_norm %x {groups = 2 : i64, eps = 1.000000e-05 : f64} : (tensor<8xf32>) -> tensor<8xf32>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xf32>, %w: tensor<8x8xf32>) {
  // expected-error@below {{operand x has rank 2, expected at least 3}}
  %r = coda.convolution %x, %w {stride = [], padding = [], dilation = [], groups = 1 : i64} : (tensor<?x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
  func.return
}

// -----

func.func @f(%x: tensor<?x8x?xf32>, %w: tensor<8x8xf32>) {
  // expected-error@below {{operand weight has rank 2, expected 3}}
  %r = coda.convolution %x, %w {stride = [1 : i64], padding = [0 : i64], dilation = [1 : i64], groups = 1 : i64} : (tensor<?x8x?xf32>, tensor<8x8xf32>) -> tensor<?x8x?xf32>
  func.return
}

// -----

func.func @f(%x: tensor<?x8x?xf32>, %w: tensor<6x4x3xf32>) {
  // expected-error@below {{property groups is 3, expected a divisor of the 8 channels of operand x}}
  %r = coda.convolution %x, %w {stride = [1 : i64], padding = [1 : i64], dilation = [1 : i64], groups = 3 : i64} : (tensor<?x8x?xf32>, tensor<6x4x3xf32>) -> tensor<?x6x?xf32>
  func.return
}

// -----

func.func @f(%x: tensor<?x8x?xf32>, %w: tensor<6x2x3xf32>) {
  // expected-error@below {{operand weight has shape 6x2x3, expected 6x4x3}}
  %r = coda.convolution %x, %w {stride = [1 : i64], padding = [1 : i64], dilation = [1 : i64], groups = 2 : i64} : (tensor<?x8x?xf32>, tensor<6x2x3xf32>) -> tensor<?x6x?xf32>
  func.return
}

// -----

func.func @f(%x: tensor<?x8x?xf32>, %w: tensor<6x2x3xf32>) {
  // expected-error@below {{property groups is 4, expected a divisor of the 6 channels of the result}}
  %r = coda.convolution %x, %w {stride = [1 : i64], padding = [1 : i64], dilation = [1 : i64], groups = 4 : i64} : (tensor<?x8x?xf32>, tensor<6x2x3xf32>) -> tensor<?x6x?xf32>
  func.return
}

// -----

func.func @f(%x: tensor<?x8x?xf32>, %w: tensor<6x8x3xf32>) {
  // expected-error@below {{property stride has 2 numbers, expected 1, one for each dimension of positions}}
  %r = coda.convolution %x, %w {stride = [1 : i64, 1 : i64], padding = [1 : i64], dilation = [1 : i64], groups = 1 : i64} : (tensor<?x8x?xf32>, tensor<6x8x3xf32>) -> tensor<?x6x?xf32>
  func.return
}

// -----

func.func @f(%x: tensor<?x8x5xf32>, %w: tensor<6x8x3xf32>) {
  // expected-error@below {{result has shape ?x6x5, expected ?x6x3}}
  %r = coda.convolution %x, %w {stride = [1 : i64], padding = [0 : i64], dilation = [1 : i64], groups = 1 : i64} : (tensor<?x8x5xf32>, tensor<6x8x3xf32>) -> tensor<?x6x5xf32>
  func.return
}

// -----

func.func @f(%x: tensor<?x8x?xf32>, %w: tensor<6x8x3xf32>, %b: tensor<8xf32>) {
  // expected-error@below {{operand bias has shape 8, expected 6}}
  %r = coda.convolution %x, %w, %b {stride = [1 : i64], padding = [1 : i64], dilation = [1 : i64], groups = 1 : i64} : (tensor<?x8x?xf32>, tensor<6x8x3xf32>, tensor<8xf32>) -> tensor<?x6x?xf32>
  func.return
}

// -----

func.func @f(%x: tensor<?x8x?xf32>, %w: tensor<6x8x3xf32>) {
  // expected-error@below {{property stride is [0], expected numbers of 1 or more}}
  %r = coda.convolution %x, %w {stride = [0 : i64], padding = [1 : i64], dilation = [1 : i64], groups = 1 : i64} : (tensor<?x8x?xf32>, tensor<6x8x3xf32>) -> tensor<?x6x?xf32>
  func.return
}

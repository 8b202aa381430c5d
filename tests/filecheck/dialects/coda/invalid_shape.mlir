// RUN: coda-opt %s --split-input-file --verify-diagnostics

// What the verifiers of reshape, transpose, slice and concat refuse.

func.func @f(%x: tensor<2x3x4xf32>) {
  // expected-error@below {{result of shape 5x4 has 20 elements, expected the 24 of operand x}}
  %r = coda.reshape %x : (tensor<2x3x4xf32>) -> tensor<5x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2x3x4xf32>) {
  // expected-error@below {{result has element type bf16, expected f32}}
  %r = coda.reshape %x : (tensor<2x3x4xf32>) -> tensor<6x4xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<2x3x4xf32>) {
  // expected-error@below {{property perm is [0, 0, 1], expected a permutation of [0, 1, 2]}}
  %r = coda.transpose %x {perm = [0, 0, 1]} : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2x3x4xf32>) {
  // expected-error@below {{result has shape 2x3x4, expected 4x3x2}}
  %r = coda.transpose %x {perm = [2, 1, 0]} : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2x3x4xf32>) {
  // expected-error@below {{property dim is 3, expected 0 to 2}}
  %r = coda.slice %x {dim = 3 : i64, start = 0 : i64, stop = 1 : i64} : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2x3x4xf32>) {
  // expected-error@below {{range 2 to 5 is outside of the 4 elements of dimension 2}}
  %r = coda.slice %x {dim = 2 : i64, start = 2 : i64, stop = 5 : i64} : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2x3x4xf32>) {
  // expected-error@below {{range 3 to 2 is outside of the 4 elements of dimension 2}}
  %r = coda.slice %x {dim = 2 : i64, start = 3 : i64, stop = 2 : i64} : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2x3x4xf32>) {
  // expected-error@below {{result has shape 2x3x4, expected 2x3x2}}
  %r = coda.slice %x {dim = 2 : i64, start = 1 : i64, stop = 3 : i64} : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  func.return
}

// -----

func.func @f() {
  // expected-error@below {{no operands, expected at least one}}
  %r = "coda.concat"() {dim = 0 : i64} : () -> tensor<4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2x3x4xf32>) {
  // expected-error@below {{property dim is -1, expected 0 to 2}}
  %r = coda.concat %x, %x {dim = -1 : i64} : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2x3x4xf32>, %y: tensor<2x3xf32>) {
  // expected-error@below {{operand 1 has shape 2x3, expected 2x3x4}}
  %r = coda.concat %x, %y {dim = 0 : i64} : (tensor<2x3x4xf32>, tensor<2x3xf32>) -> tensor<2x3x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2x3x4xf32>, %y: tensor<2x3x4xbf16>) {
  // expected-error@below {{operand 1 has element type bf16, expected f32}}
  %r = coda.concat %x, %y {dim = 0 : i64} : (tensor<2x3x4xf32>, tensor<2x3x4xbf16>) -> tensor<4x3x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2x3x4xf32>) {
  // expected-error@below {{result has shape 2x3x4, expected 4x3x4}}
  %r = coda.concat %x, %x {dim = 0 : i64} : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error@below {{operand x has rank 1, expected at least 2}}
  %r = coda.shift %x {by = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<3x4xf32>) {
  // expected-error@below {{result has shape 4x4, expected 3x4}}
  %r = coda.shift %x {by = 1 : i64} : (tensor<3x4xf32>) -> tensor<4x4xf32>
  func.return
}

// RUN: coda-opt %s --split-input-file --verify-diagnostics

// What the verifiers of elementwise operators refuse.

func.func @f(%x: tensor<?x8xbf16>, %y: tensor<7xbf16>) {
  // expected-error@below {{coda.add: operand 1 of shape 7 does not broadcast with shape ?x8}}
  %r = coda.add %x, %y : (tensor<?x8xbf16>, tensor<7xbf16>) -> tensor<?x8xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>) {
  // expected-error@below {{result has shape ?x9, expected ?x8}}
  %r = coda.mul %x, %x : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x9xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>) {
  // expected-error@below {{result has shape 8, expected ?x8}}
  %r = coda.exp %x : (tensor<?x8xbf16>) -> tensor<8xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>) {
  // expected-error@below {{result has element type f32, expected bf16}}
  %r = coda.silu %x : (tensor<?x8xbf16>) -> tensor<?x8xf32>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %y: tensor<8xf32>) {
  // expected-error@below {{operand 1 has element type f32, expected bf16}}
  %r = coda.sub %x, %y : (tensor<?x8xbf16>, tensor<8xf32>) -> tensor<?x8xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>) {
  // expected-error@below {{approximate is no property of coda.gelu}}
  %r = coda.gelu %x {approximate = "tanh"} : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>) {
  // expected-error@below {{alhpa is no property of coda.elu, expected alpha}}
  %r = coda.elu %x {alpha = 1.0, alhpa = 2.0} : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>) {
  // expected-error@below {{property cap is 0.0, expected a positive number}}
  %r = coda.softcap %x {cap = 0.0} : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>) {
  // expected-error@below {{result has shape ?x4, expected ?x8}}
  %r = coda.cast %x : (tensor<?x8xbf16>) -> tensor<?x4xf32>
  func.return
}

// -----

func.func @f() {
  // expected-error@below {{result has shape 2, expected a scalar tensor}}
  %r = coda.constant {value = 1.0} : tensor<2xbf16>
  func.return
}

// -----

func.func @f() {
  // expected-error@below {{a floating-point constant has element type i64, expected a float type}}
  %r = coda.constant {value = 1.0} : tensor<i64>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xi64>) {
  // expected-error@below {{an operand has element type i64, expected floats}}
  %r = coda.exp %x : (tensor<?x8xi64>) -> tensor<?x8xi64>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xi1>) {
  // expected-error@below {{an operand has element type i1, expected numbers}}
  %r = coda.add %x, %x : (tensor<?x8xi1>, tensor<?x8xi1>) -> tensor<?x8xi1>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xf32>) {
  // expected-error@below {{an operand has element type f32, expected booleans}}
  %r = coda.logical_not %x : (tensor<?x8xf32>) -> tensor<?x8xf32>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xf32>) {
  // expected-error@below {{property relation is "less", expected one of eq, ne, lt, le, gt, ge}}
  %r = coda.compare %x, %x {relation = "less"} : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xi1>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xi1>) {
  // expected-error@below {{property relation is "lt", expected eq or ne for booleans}}
  %r = coda.compare %x, %x {relation = "lt"} : (tensor<?x8xi1>, tensor<?x8xi1>) -> tensor<?x8xi1>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xf32>) {
  // expected-error@below {{result has element type f32, expected i1}}
  %r = coda.compare %x, %x {relation = "lt"} : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xf32>) {
  // expected-error@below {{operand 0 has element type f32, expected i1}}
  %r = coda.where %x, %x, %x : (tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xf8E4M3FN>) {
  // expected-error@below {{an operand has element type f8E4M3FN, expected numbers}}
  %r = coda.add %x, %x : (tensor<?x8xf8E4M3FN>, tensor<?x8xf8E4M3FN>) -> tensor<?x8xf8E4M3FN>
  func.return
}

// -----

func.func @f(%c: tensor<?x8xi1>, %x: tensor<?x8xf8E5M2>) {
  // expected-error@below {{an operand has element type f8E5M2, expected floats, integers or booleans}}
  %r = coda.where %c, %x, %x : (tensor<?x8xi1>, tensor<?x8xf8E5M2>, tensor<?x8xf8E5M2>) -> tensor<?x8xf8E5M2>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xf32>) {
  // expected-error@below {{property exponent is 0.0, expected a number other than 0}}
  %r = coda.pow %x {exponent = 0.0 : f64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  func.return
}

// RUN: coda-opt %s --split-input-file --verify-diagnostics

func.func @f() {
  // expected-error@below {{result has rank 2, expected 1}}
  %p = coda.positions {start = 0 : i64, step = 1 : i64} : () -> tensor<1x8xi64>
  func.return
}

// -----

func.func @f() {
  // expected-error@below {{result has element type f32, expected i32 or i64}}
  %p = coda.positions {start = 0 : i64, step = 1 : i64} : () -> tensor<8xf32>
  func.return
}

// -----

func.func @f() {
  // expected-error@below {{property step is 0, expected another number}}
  %p = coda.positions {start = 0 : i64, step = 0 : i64} : () -> tensor<8xi64>
  func.return
}

// -----

func.func @f() {
  // expected-error@below {{a dynamic extent comes from an operand and property dim, expected both of them there and none elsewhere}}
  %p = coda.positions {start = 0 : i64, step = 1 : i64} : () -> tensor<?xi64>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xf32>) {
  // expected-error@below {{a dynamic extent comes from an operand and property dim, expected both of them there and none elsewhere}}
  %p = coda.positions %x {start = 0 : i64, step = 1 : i64} : (tensor<?x8xf32>) -> tensor<?xi64>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xf32>) {
  // expected-error@below {{property dim is 2, expected 0 to 1}}
  %p = coda.positions %x {dim = 2 : i64, start = 0 : i64, step = 1 : i64} : (tensor<?x8xf32>) -> tensor<?xi64>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xf32>) {
  // expected-error@below {{the extent is known, expected a result and a dimension 1 of the operand that are dynamic}}
  %p = coda.positions %x {dim = 1 : i64, start = 0 : i64, step = 1 : i64} : (tensor<?x8xf32>) -> tensor<8xi64>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xf32>) {
  // expected-error@below {{property dim is 2, expected 0 to 1}}
  %t = coda.extent %x {dim = 2 : i64} : (tensor<?x8xf32>) -> tensor<i64>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xf32>) {
  // expected-error@below {{result has shape 1, expected scalar}}
  %t = coda.extent %x {dim = 0 : i64} : (tensor<?x8xf32>) -> tensor<1xi64>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xf32>) {
  // expected-error@below {{result has element type f32, expected i64}}
  %t = coda.extent %x {dim = 0 : i64} : (tensor<?x8xf32>) -> tensor<f32>
  func.return
}

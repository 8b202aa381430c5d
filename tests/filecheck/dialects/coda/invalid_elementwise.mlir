// RUN: coda-opt %s --split-input-file --verify-diagnostics | filecheck %s

// What the verifiers of elementwise operators refuse.

// CHECK: coda.add: operand 1 of shape 7 does not broadcast with shape ?x8
func.func @f(%x: tensor<?x8xbf16>, %y: tensor<7xbf16>) {
  %r = coda.add %x, %y : (tensor<?x8xbf16>, tensor<7xbf16>) -> tensor<?x8xbf16>
  func.return
}

// -----

// CHECK: result has shape ?x9, expected ?x8
func.func @f(%x: tensor<?x8xbf16>) {
  %r = coda.mul %x, %x : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x9xbf16>
  func.return
}

// -----

// CHECK: result has shape 8, expected ?x8
func.func @f(%x: tensor<?x8xbf16>) {
  %r = coda.exp %x : (tensor<?x8xbf16>) -> tensor<8xbf16>
  func.return
}

// -----

// CHECK: result has element type f32, expected bf16
func.func @f(%x: tensor<?x8xbf16>) {
  %r = coda.silu %x : (tensor<?x8xbf16>) -> tensor<?x8xf32>
  func.return
}

// -----

// CHECK: operand 1 has element type f32, expected bf16
func.func @f(%x: tensor<?x8xbf16>, %y: tensor<8xf32>) {
  %r = coda.sub %x, %y : (tensor<?x8xbf16>, tensor<8xf32>) -> tensor<?x8xbf16>
  func.return
}

// -----

// CHECK: property approximate is "fast", expected "none" or "tanh"
func.func @f(%x: tensor<?x8xbf16>) {
  %r = coda.gelu %x {approximate = "fast"} : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  func.return
}

// -----

// CHECK: property cap is 0.0, expected a positive number
func.func @f(%x: tensor<?x8xbf16>) {
  %r = coda.softcap %x {cap = 0.0} : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  func.return
}

// -----

// CHECK: result has shape ?x4, expected ?x8
func.func @f(%x: tensor<?x8xbf16>) {
  %r = coda.cast %x : (tensor<?x8xbf16>) -> tensor<?x4xf32>
  func.return
}

// -----

// CHECK: result has shape 2, expected a scalar tensor
func.func @f() {
  %r = coda.constant {value = 1.0} : tensor<2xbf16>
  func.return
}

// -----

// CHECK: a floating-point constant has element type i64, expected a float type
func.func @f() {
  %r = coda.constant {value = 1.0} : tensor<i64>
  func.return
}

// RUN: coda-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// CHECK: func.func @first
func.func @first() {
  func.return
}

// -----

// CHECK: property cap is -1.0, expected a positive number
func.func @second(%x: tensor<8xf32>) {
  %y = coda.softcap %x {cap = -1.0} : (tensor<8xf32>) -> tensor<8xf32>
  func.return
}

// -----

// CHECK: split_input.mlir:22:3
// CHECK: Operation coda.unknown is not registered
func.func @third(%x: tensor<8xf32>) {
  coda.unknown
  func.return
}

// -----

// CHECK: func.func @fourth
func.func @fourth() {
  func.return
}

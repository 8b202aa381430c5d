// RUN: coda-opt %s --split-input-file --verify-diagnostics | filecheck %s

// CHECK: func.func @first
func.func @first() {
  func.return
}

// -----

func.func @second(%x: tensor<8xf32>) {
  // expected-error@below {{property cap is -1.0, expected a positive number}}
  %y = coda.softcap %x {cap = -1.0} : (tensor<8xf32>) -> tensor<8xf32>
  func.return
}

// -----

func.func @third(%x: tensor<8xf32>) {
  coda.unknown  // expected-error {{Operation coda.unknown is not registered}}
  func.return
}

// -----

// CHECK: func.func @fourth
func.func @fourth() {
  func.return
}

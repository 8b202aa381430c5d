// RUN: not coda-opt %s --split-input-file --verify-diagnostics 2>&1 | filecheck %s

// Each mismatch says what was expected, and where.

func.func @text(%x: tensor<8xf32>) {
  // CHECK: mismatch.mlir:9:6: error[E1101]: expected error "cap is 1.0" was not given on line 10
  // CHECK-NEXT: expected-error
  // CHECK-NEXT: ^~~~~
  // expected-error@below {{cap is 1.0}}
  %y = coda.softcap %x {cap = -1.0} : (tensor<8xf32>) -> tensor<8xf32>
  // CHECK: mismatch.mlir:10:8: error[E0602]: unexpected error: property cap is -1.0
  // CHECK-NEXT: %y = coda.softcap
  // CHECK-NEXT: ^~~~~~~~~~~~
  func.return
}

// -----

func.func @line(%x: tensor<8xf32>) {
  // CHECK: error[E1101]: expected error "cap is -1.0" was not given on line 22
  %y = coda.softcap %x {cap = -1.0} : (tensor<8xf32>) -> tensor<8xf32>
  // expected-error {{cap is -1.0}}
  func.return
}

// -----

func.func @severity(%x: tensor<8xf32>) {
  // CHECK: error[E1101]: expected warning "cap is -1.0" was not given on line 31
  // expected-warning@below {{cap is -1.0}}
  %y = coda.softcap %x {cap = -1.0} : (tensor<8xf32>) -> tensor<8xf32>
  func.return
}

// -----

// CHECK: error[E1101]: expected remark "fused" was not given at an unknown place
// expected-remark@unknown {{fused}}
func.func @nothing() {
  func.return
}

// -----

// CHECK: error[E1101]: malformed expectation: expected a text in
// CHECK: error[E1101]: malformed expectation: expected no -re
// CHECK: error[E1101]: malformed expectation: unknown place '@beneath', expected @+N, @-N, @above, @below or @unknown
// expected-error@below {one brace}
// expected-error@beneath {{a}}
// expected-error-re {{a}}
func.func @malformed() {
  func.return
}

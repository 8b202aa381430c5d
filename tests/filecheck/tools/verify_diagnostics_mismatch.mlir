// RUN: not coda-opt %s --split-input-file --verify-diagnostics 2>&1 | filecheck %s
// RUN: not coda-opt %s --split-input-file --verify-diagnostics=only-expected 2>&1 | filecheck %s --check-prefix ONLY

// Each mismatch says what was expected, where, and what comes closest.

// ONLY-NOT: unexpected

func.func @text(%x: tensor<8xf32>) {
  // CHECK: mismatch.mlir:14:6: error[E1101]: expected error "cap is 1.0" was not given on line 15
  // CHECK-NEXT: expected-error
  // CHECK-NEXT: ^~~~~
  // CHECK-NEXT: help: the error there is: property cap is -1.0, expected a positive number
  // ONLY: mismatch.mlir:14:6: error[E1101]: expected error "cap is 1.0" was not given on line 15
  // expected-error@below {{cap is 1.0}}
  %y = coda.softcap %x {cap = -1.0} : (tensor<8xf32>) -> tensor<8xf32>
  // CHECK: mismatch.mlir:15:8: error[E0602]: unexpected error: property cap is -1.0
  // CHECK-NEXT: %y = coda.softcap
  // CHECK-NEXT: ^~~~~~~~~~~~
  func.return
}

// -----

func.func @line(%x: tensor<8xf32>) {
  // CHECK: error[E1101]: expected error "cap is -1.0" was not given on line 28
  // CHECK: help: the error is on line 27
  %y = coda.softcap %x {cap = -1.0} : (tensor<8xf32>) -> tensor<8xf32>
  // expected-error {{cap is -1.0}}
  func.return
}

// -----

func.func @severity(%x: tensor<8xf32>) {
  // CHECK: error[E1101]: expected warning "cap is -1.0" was not given on line 40
  // CHECK: help: the text is that of severity error
  // ONLY-NOT: unexpected
  // ONLY: error[E1101]: expected warning "cap is -1.0" was not given on line 40
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
// CHECK: error[E1101]: malformed expectation: unknown place '@beneath', expected @+N, @-N, @above, @below or @unknown
// CHECK: error[E1101]: malformed expectation: unterminated character set at position
// ONLY: error[E1101]: malformed expectation: expected a text
// expected-error@below {one brace}
// expected-error@beneath {{a}}
// expected-error-re {{a {{[}} b}}
func.func @malformed() {
  func.return
}

// RUN: coda-opt %s --split-input-file --verify-diagnostics -p coda-to-gemm | filecheck %s

// Everything that a comment can say. What is as expected is printed; what has errors is not.

// CHECK: gemm.fused
// expected-remark@+4 {{[missed] defer-norms: coda.rms_norm: the norm runs as a separate kernel}}
func.func @remarks(%x: tensor<?x16xbf16> {coda.dims = ["M", 16]}, %w: tensor<8x16xbf16>)
    -> tensor<?x8xbf16> {
  // expected-note@below {{compute the norm's input in the same function}}
  %h = coda.rms_norm %x {eps = 1.0e-6 : f64} : (tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %a = coda.linear %h, %w : (tensor<?x16xbf16>, tensor<8x16xbf16>) -> tensor<?x8xbf16>
  // expected-remark@below {{coda.silu: fused into}}
  %y = coda.silu %a : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  func.return %y : tensor<?x8xbf16>
}

// -----

func.func @verifier(%x: tensor<8xf32>) {
  %y = coda.softcap %x {cap = -1.0} : (tensor<8xf32>) -> tensor<8xf32> // expected-error {{cap is -1.0}}
  func.return
}

// -----

func.func @above(%x: tensor<8xf32>) {
  %y = "coda.softcap"(%x) {cap = -1.0} : (tensor<8xf32>) -> tensor<8xf32>
  // expected-error@above {{expected a positive number}}
  func.return
}

// -----

func.func @explicit_place(%x: tensor<8xf32>) {
  %y = coda.softcap %x {cap = -1.0} : (tensor<8xf32>) -> tensor<8xf32> loc("elsewhere.py":1:2)
  // expected-error@-1 {{expected a positive number}}
  func.return
}

// -----

// CHECK: @remarks_may_come_where_none_is_expected
func.func @remarks_may_come_where_none_is_expected(%x: tensor<?x8xbf16>, %w: tensor<8x8xbf16>)
    -> tensor<?x8xbf16> {
  %a = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  %y = coda.silu %a : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  func.return %y : tensor<?x8xbf16>
}

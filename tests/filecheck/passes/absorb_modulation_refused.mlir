// RUN: coda-opt %s -p absorb-modulation --split-input-file | filecheck %s
// RUN: coda-opt %s -p absorb-modulation --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// Eager rounds the norm before it is scaled.

func.func @exact(%x: tensor<?x?x8xbf16>, %s: tensor<?x1x8xbf16>) -> tensor<?x?x8xbf16> attributes {coda.numerics = #gemm.numerics<"eager-exact">} {
  %h = coda.layer_norm %x {eps = 1.0e-6 : f64} : (tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>
  %y = coda.mul %h, %s : (tensor<?x?x8xbf16>, tensor<?x1x8xbf16>) -> tensor<?x?x8xbf16>
  func.return %y : tensor<?x?x8xbf16>
}

// REMARK: remark[missed] absorb-modulation: coda.mul: the norm is stored for its scale and shift: eager PyTorch rounds it before the GEMM, and the mode is eager-exact; failed condition: the numerics mode allows rounding points to move; costs 32*d0*d1 + 16*d2 bytes
// REMARK: help: use the mode fp32-epilogue or deterministic
// CHECK:      func.func @exact(
// CHECK-NEXT:   %h = coda.layer_norm %x {eps = 1.000000e-06 : f64} : (tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   %y = coda.mul %h, %s : (tensor<?x?x8xbf16>, tensor<?x1x8xbf16>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   func.return %y : tensor<?x?x8xbf16>
// CHECK-NEXT: }

// -----

// A shift of an RMSNorm, a vector and a table of positions stay as they are.

func.func @others(%x: tensor<?x?x8xbf16>, %w: tensor<8xbf16>, %t: tensor<?x1x8xbf16>, %p: tensor<?x8xbf16>) -> (tensor<?x?x8xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>) {
  %h = coda.rms_norm %x {eps = 1.0e-6 : f64} : (tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>
  %y = coda.add %h, %t : (tensor<?x?x8xbf16>, tensor<?x1x8xbf16>) -> tensor<?x?x8xbf16>
  %z = coda.mul %h, %w : (tensor<?x?x8xbf16>, tensor<8xbf16>) -> tensor<?x?x8xbf16>
  %u = coda.mul %h, %p : (tensor<?x?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x?x8xbf16>
  func.return %y, %z, %u : tensor<?x?x8xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>
}

// CHECK:      func.func @others(
// CHECK-NEXT:   %h = coda.rms_norm %x {eps = 1.000000e-06 : f64} : (tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   %y = coda.add %h, %t : (tensor<?x?x8xbf16>, tensor<?x1x8xbf16>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   %z = coda.mul %h, %w : (tensor<?x?x8xbf16>, tensor<8xbf16>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   %u = coda.mul %h, %p : (tensor<?x?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   func.return %y, %z, %u : tensor<?x?x8xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>
// CHECK-NEXT: }

// -----

// A scale of each head, which all samples share, is no parameter of a norm.

func.func @heads(%x: tensor<?x4x?x8xbf16>, %s: tensor<4x1x8xbf16>) -> tensor<?x4x?x8xbf16> {
  %h = coda.layer_norm %x {eps = 1.0e-6 : f64} : (tensor<?x4x?x8xbf16>) -> tensor<?x4x?x8xbf16>
  %y = coda.mul %h, %s : (tensor<?x4x?x8xbf16>, tensor<4x1x8xbf16>) -> tensor<?x4x?x8xbf16>
  func.return %y : tensor<?x4x?x8xbf16>
}

// CHECK:      func.func @heads(
// CHECK-NEXT:   %h = coda.layer_norm %x {eps = 1.000000e-06 : f64} : (tensor<?x4x?x8xbf16>) -> tensor<?x4x?x8xbf16>
// CHECK-NEXT:   %y = coda.mul %h, %s : (tensor<?x4x?x8xbf16>, tensor<4x1x8xbf16>) -> tensor<?x4x?x8xbf16>
// CHECK-NEXT:   func.return %y : tensor<?x4x?x8xbf16>
// CHECK-NEXT: }

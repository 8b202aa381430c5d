// RUN: coda-opt %s -p defer-norms --split-input-file | filecheck %s
// RUN: coda-opt %s -p defer-norms --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// The statistics of an argument are not free.

func.func @argument(%x: tensor<?x8xbf16>, %g: tensor<8xbf16>, %w: tensor<16x8xbf16>) -> tensor<?x16xbf16> {
  %h = coda.layer_norm %x, %g {eps = 1.0e-5 : f64} : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %z = coda.linear %h, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  func.return %z : tensor<?x16xbf16>
}

// REMARK: remark[missed] defer-norms: coda.layer_norm: the norm runs as a separate kernel: %x is an argument of the function; failed condition: a GEMM or pointwise code in the same function computes the norm's input; costs 32*d0 + 16 bytes
// REMARK: help: compute the norm's input in the same function
// CHECK:      func.func @argument(
// CHECK-NEXT:   %h = coda.layer_norm %x, %g {eps = 1.000000e-05 : f64} : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %z = coda.linear %h, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %z : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// A consumer is no GEMM: only split.

func.func @softmax(%x: tensor<?x8xbf16>, %g: tensor<8xbf16>) -> tensor<?x8xbf16> {
  %s = coda.silu %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %h = coda.layer_norm %s, %g {eps = 1.0e-5 : f64} : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %z = coda.softmax %h : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  func.return %z : tensor<?x8xbf16>
}

// REMARK: remark[missed] defer-norms: coda.layer_norm: the norm is not deferred: coda.softmax uses it, so the norm must be stored; failed condition: every consumer of the norm is a GEMM; costs 32*d0 + 16 bytes
// REMARK: help: use the norm only as the input of linear or @
// CHECK:      func.func @softmax(
// CHECK-NEXT:   %s = coda.silu %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %rstd, %mean = coda.norm_stats %s {kind = "layer", eps = 1.000000e-05 : f64} : (tensor<?x8xbf16>) -> (tensor<?x1xf32>, tensor<?x1xf32>)
// CHECK-NEXT:   %s_1 = coda.cast %s : (tensor<?x8xbf16>) -> tensor<?x8xf32>
// CHECK-NEXT:   %0 = coda.sub %s_1, %mean : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %1 = coda.mul %0, %rstd : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %g_1 = coda.cast %g : (tensor<8xbf16>) -> tensor<8xf32>
// CHECK-NEXT:   %2 = coda.mul %1, %g_1 : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %h = coda.cast %2 : (tensor<?x8xf32>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %z = coda.softmax %h : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   func.return %z : tensor<?x8xbf16>
// CHECK-NEXT: }

// -----

// In float16 the input times the weight may overflow: only split.

func.func @float16(%x: tensor<?x8xf16>, %g: tensor<8xf16>, %w: tensor<16x8xf16>) -> tensor<?x16xf16> {
  %s = coda.silu %x : (tensor<?x8xf16>) -> tensor<?x8xf16>
  %h = coda.layer_norm %s, %g {eps = 1.0e-5 : f64} : (tensor<?x8xf16>, tensor<8xf16>) -> tensor<?x8xf16>
  %z = coda.linear %h, %w : (tensor<?x8xf16>, tensor<16x8xf16>) -> tensor<?x16xf16>
  func.return %z : tensor<?x16xf16>
}

// REMARK: remark[missed] defer-norms: coda.layer_norm: the norm is not deferred: its input times its weight may overflow float16; failed condition: the element type has the range of float32; costs 32*d0 + 16 bytes
// REMARK: help: use bf16 or f32
// CHECK:      func.func @float16(
// CHECK-NEXT:   %s = coda.silu %x : (tensor<?x8xf16>) -> tensor<?x8xf16>
// CHECK-NEXT:   %rstd, %mean = coda.norm_stats %s {kind = "layer", eps = 1.000000e-05 : f64} : (tensor<?x8xf16>) -> (tensor<?x1xf32>, tensor<?x1xf32>)
// CHECK-NEXT:   %s_1 = coda.cast %s : (tensor<?x8xf16>) -> tensor<?x8xf32>
// CHECK-NEXT:   %0 = coda.sub %s_1, %mean : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %1 = coda.mul %0, %rstd : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %g_1 = coda.cast %g : (tensor<8xf16>) -> tensor<8xf32>
// CHECK-NEXT:   %2 = coda.mul %1, %g_1 : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %h = coda.cast %2 : (tensor<?x8xf32>) -> tensor<?x8xf16>
// CHECK-NEXT:   %z = coda.linear %h, %w : (tensor<?x8xf16>, tensor<16x8xf16>) -> tensor<?x16xf16>
// CHECK-NEXT:   func.return %z : tensor<?x16xf16>
// CHECK-NEXT: }

// -----

// Nothing hides in float32 what the subtraction cancels.

func.func @float32(%x: tensor<?x8xf32>, %g: tensor<8xf32>, %w: tensor<16x8xf32>) -> tensor<?x16xf32> {
  %s = coda.silu %x : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %h = coda.layer_norm %s, %g {eps = 1.0e-5 : f64} : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  %z = coda.linear %h, %w : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
  func.return %z : tensor<?x16xf32>
}

// REMARK: remark[missed] defer-norms: coda.layer_norm: the statistics run as a separate kernel: %s is float32, where abs(mean) of a row may be far above its std; failed condition: rounding the input costs more accuracy than a difference of sums does; costs 64*d0 + 32 bytes
// REMARK: help: use bf16, or RMSNorm
// CHECK:      func.func @float32(
// CHECK-NEXT:   %s = coda.silu %x : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %h = coda.layer_norm %s, %g {eps = 1.000000e-05 : f64} : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %z = coda.linear %h, %w : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   func.return %z : tensor<?x16xf32>
// CHECK-NEXT: }

// -----

// One accumulator for the columns of two weights, which have no sums in one vector.

func.func @joined_weights(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %u: tensor<8x8xbf16>) -> tensor<?x24xbf16> {
  %s = coda.silu %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %h = coda.layer_norm %s {eps = 1.0e-5 : f64} : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %z = gemm.fused %h : tensor<?x8xbf16> columns(%w : tensor<16x8xbf16>, %u : tensor<8x8xbf16>) -> (tile : tensor<?x24xbf16>) {
  ^bb0(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return %z : tensor<?x24xbf16>
}

// REMARK: remark[missed] defer-norms: coda.layer_norm: the norm is not deferred: a GEMM joins several weights in one range of columns, so the norm must be stored; failed condition: every consumer of the norm is a GEMM of its rows alone; costs 32*d0 bytes
// REMARK: help: use the norm only as the input of linear or @
// CHECK:      func.func @joined_weights(
// CHECK-NEXT:   %s = coda.silu %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %rstd, %mean = coda.norm_stats %s {kind = "layer", eps = 1.000000e-05 : f64} : (tensor<?x8xbf16>) -> (tensor<?x1xf32>, tensor<?x1xf32>)
// CHECK-NEXT:   %s_1 = coda.cast %s : (tensor<?x8xbf16>) -> tensor<?x8xf32>
// CHECK-NEXT:   %0 = coda.sub %s_1, %mean : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %1 = coda.mul %0, %rstd : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %h = coda.cast %1 : (tensor<?x8xf32>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %z = gemm.fused %h : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<16x8xbf16>, %u : tensor<8x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x24xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %z : tensor<?x24xbf16>
// CHECK-NEXT: }

// -----

// One sample of few rows: the GEMM for scale and shift would move more than the norm does.

func.func @small(%x: tensor<1x4x8xbf16>, %s: tensor<1x1x8xbf16>, %t: tensor<1x1x8xbf16>, %w: tensor<16x8xbf16>) -> tensor<1x4x16xbf16> {
  %y = coda.silu %x : (tensor<1x4x8xbf16>) -> tensor<1x4x8xbf16>
  %h = coda.layer_norm %y, %s, %t {eps = 1.0e-6 : f64} : (tensor<1x4x8xbf16>, tensor<1x1x8xbf16>, tensor<1x1x8xbf16>) -> tensor<1x4x8xbf16>
  %z = coda.linear %h, %w : (tensor<1x4x8xbf16>, tensor<16x8xbf16>) -> tensor<1x4x16xbf16>
  func.return %z : tensor<1x4x16xbf16>
}

// REMARK: remark[missed] defer-norms: coda.layer_norm: the norm is not deferred: another kernel would move 512 bytes to save 128; failed condition: the products of scale and shift with the weights cost less than the norm saves; costs 160 bytes
// REMARK: help: write known sizes as numbers, or use coda-to-gemm{modulated-norms=always}
// CHECK:      func.func @small(
// CHECK-NEXT:   %y = coda.silu %x : (tensor<1x4x8xbf16>) -> tensor<1x4x8xbf16>
// CHECK-NEXT:   %rstd, %mean = coda.norm_stats %y {kind = "layer", eps = 1.000000e-06 : f64} : (tensor<1x4x8xbf16>) -> (tensor<1x4x1xf32>, tensor<1x4x1xf32>)
// CHECK-NEXT:   %y_1 = coda.cast %y : (tensor<1x4x8xbf16>) -> tensor<1x4x8xf32>
// CHECK-NEXT:   %0 = coda.sub %y_1, %mean : (tensor<1x4x8xf32>, tensor<1x4x1xf32>) -> tensor<1x4x8xf32>
// CHECK-NEXT:   %1 = coda.mul %0, %rstd : (tensor<1x4x8xf32>, tensor<1x4x1xf32>) -> tensor<1x4x8xf32>
// CHECK-NEXT:   %s_1 = coda.cast %s : (tensor<1x1x8xbf16>) -> tensor<1x1x8xf32>
// CHECK-NEXT:   %2 = coda.mul %1, %s_1 : (tensor<1x4x8xf32>, tensor<1x1x8xf32>) -> tensor<1x4x8xf32>
// CHECK-NEXT:   %t_1 = coda.cast %t : (tensor<1x1x8xbf16>) -> tensor<1x1x8xf32>
// CHECK-NEXT:   %3 = coda.add %2, %t_1 : (tensor<1x4x8xf32>, tensor<1x1x8xf32>) -> tensor<1x4x8xf32>
// CHECK-NEXT:   %h = coda.cast %3 : (tensor<1x4x8xf32>) -> tensor<1x4x8xbf16>
// CHECK-NEXT:   %z = coda.linear %h, %w : (tensor<1x4x8xbf16>, tensor<16x8xbf16>) -> tensor<1x4x16xbf16>
// CHECK-NEXT:   func.return %z : tensor<1x4x16xbf16>
// CHECK-NEXT: }

// -----

// The scale is computed from what is normalized, whose kernel cannot apply it.

func.func @from_input(%x: tensor<?x1x8xbf16>, %w: tensor<16x8xbf16>) -> tensor<?x1x16xbf16> {
  %y = coda.silu %x : (tensor<?x1x8xbf16>) -> tensor<?x1x8xbf16>
  %s = coda.tanh %y : (tensor<?x1x8xbf16>) -> tensor<?x1x8xbf16>
  %h = coda.layer_norm %y, %s {eps = 1.0e-6 : f64} : (tensor<?x1x8xbf16>, tensor<?x1x8xbf16>) -> tensor<?x1x8xbf16>
  %z = coda.linear %h, %w : (tensor<?x1x8xbf16>, tensor<16x8xbf16>) -> tensor<?x1x16xbf16>
  func.return %z : tensor<?x1x16xbf16>
}

// REMARK: remark[missed] defer-norms: coda.layer_norm: the norm is not deferred: a parameter is computed from its input; failed condition: the weight and the bias do not depend on the input of the norm; costs 48*d0 bytes
// CHECK:      func.func @from_input(
// CHECK-NEXT:   %y = coda.silu %x : (tensor<?x1x8xbf16>) -> tensor<?x1x8xbf16>
// CHECK-NEXT:   %s = coda.tanh %y : (tensor<?x1x8xbf16>) -> tensor<?x1x8xbf16>
// CHECK-NEXT:   %rstd, %mean = coda.norm_stats %y {kind = "layer", eps = 1.000000e-06 : f64} : (tensor<?x1x8xbf16>) -> (tensor<?x1x1xf32>, tensor<?x1x1xf32>)
// CHECK-NEXT:   %y_1 = coda.cast %y : (tensor<?x1x8xbf16>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %0 = coda.sub %y_1, %mean : (tensor<?x1x8xf32>, tensor<?x1x1xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %1 = coda.mul %0, %rstd : (tensor<?x1x8xf32>, tensor<?x1x1xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %s_1 = coda.cast %s : (tensor<?x1x8xbf16>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %2 = coda.mul %1, %s_1 : (tensor<?x1x8xf32>, tensor<?x1x8xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %h = coda.cast %2 : (tensor<?x1x8xf32>) -> tensor<?x1x8xbf16>
// CHECK-NEXT:   %z = coda.linear %h, %w : (tensor<?x1x8xbf16>, tensor<16x8xbf16>) -> tensor<?x1x16xbf16>
// CHECK-NEXT:   func.return %z : tensor<?x1x16xbf16>
// CHECK-NEXT: }

// -----

// The mean moves past a weight by a product with it, which a quantized weight has not.

func.func @low_bits(%x: tensor<?x256xbf16>, %w: tensor<256xbf16>, %q: tensor<16x128xui8>, %s: tensor<16x2xbf16>) -> tensor<?x16xbf16> {
  %y = coda.silu %x : (tensor<?x256xbf16>) -> tensor<?x256xbf16>
  %h = coda.layer_norm %y, %w {eps = 1.0e-6 : f64} : (tensor<?x256xbf16>, tensor<256xbf16>) -> tensor<?x256xbf16>
  %z = coda.low_bit_linear %h, %q, %s {scheme = #coda.quantized<128, offset = 8, "k10">} : (tensor<?x256xbf16>, tensor<16x128xui8>, tensor<16x2xbf16>) -> tensor<?x16xbf16>
  func.return %z : tensor<?x16xbf16>
}

// REMARK: remark[missed] defer-norms: coda.layer_norm: the norm is not deferred: its mean cannot move past a quantized weight, so the norm must be stored; failed condition: every consumer of the norm is a GEMM; costs 1024*d0 + 512 bytes
// CHECK:      func.func @low_bits(
// CHECK-NEXT:   %y = coda.silu %x : (tensor<?x256xbf16>) -> tensor<?x256xbf16>
// CHECK-NEXT:   %rstd, %mean = coda.norm_stats %y {kind = "layer", eps = 1.000000e-06 : f64} : (tensor<?x256xbf16>) -> (tensor<?x1xf32>, tensor<?x1xf32>)
// CHECK-NEXT:   %y_1 = coda.cast %y : (tensor<?x256xbf16>) -> tensor<?x256xf32>
// CHECK-NEXT:   %0 = coda.sub %y_1, %mean : (tensor<?x256xf32>, tensor<?x1xf32>) -> tensor<?x256xf32>
// CHECK-NEXT:   %1 = coda.mul %0, %rstd : (tensor<?x256xf32>, tensor<?x1xf32>) -> tensor<?x256xf32>
// CHECK-NEXT:   %w_1 = coda.cast %w : (tensor<256xbf16>) -> tensor<256xf32>
// CHECK-NEXT:   %2 = coda.mul %1, %w_1 : (tensor<?x256xf32>, tensor<256xf32>) -> tensor<?x256xf32>
// CHECK-NEXT:   %h = coda.cast %2 : (tensor<?x256xf32>) -> tensor<?x256xbf16>
// CHECK-NEXT:   %z = coda.low_bit_linear %h, %q, %s {scheme = #coda.quantized<128, offset = 8, "k10">} : (tensor<?x256xbf16>, tensor<16x128xui8>, tensor<16x2xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %z : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// Statistics with another epsilon are not those of the norm.

func.func @other_statistics(%x: tensor<?x4xf32>, %w: tensor<4xf32>) -> (tensor<?x4xf32>, tensor<?x1xf32>, tensor<?x1xf32>) {
  %h = coda.layer_norm %x, %w {eps = 1.0e-5 : f64} : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
  %rstd, %mean = coda.norm_stats %x {kind = "layer", eps = 1.0e-6 : f64} : (tensor<?x4xf32>) -> (tensor<?x1xf32>, tensor<?x1xf32>)
  func.return %h, %rstd, %mean : tensor<?x4xf32>, tensor<?x1xf32>, tensor<?x1xf32>
}

// REMARK: remark[missed] defer-norms: coda.layer_norm: the norm runs as a separate kernel: %x is an argument of the function; failed condition: a GEMM or pointwise code in the same function computes the norm's input

// CHECK:      func.func @other_statistics(
// CHECK-NEXT:   %h = coda.layer_norm %x, %w {eps = 1.000000e-05 : f64} : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   %rstd, %mean = coda.norm_stats %x {kind = "layer", eps = 1.000000e-06 : f64} : (tensor<?x4xf32>) -> (tensor<?x1xf32>, tensor<?x1xf32>)
// CHECK-NEXT:   func.return %h, %rstd, %mean : tensor<?x4xf32>, tensor<?x1xf32>, tensor<?x1xf32>
// CHECK-NEXT: }

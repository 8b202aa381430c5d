// RUN: coda-opt %s -p defer-norms --split-input-file | filecheck %s

// The row scale moves after the GEMM, in float32; the column scale stays with x.

func.func @linear(%x: tensor<?x8xbf16>, %y: tensor<?x8xbf16>, %g: tensor<8xbf16>, %w: tensor<16x8xbf16>) -> tensor<?x16xbf16> {
  %s = coda.add %x, %y : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %h = coda.rms_norm %s, %g {eps = 1.0e-6 : f64} : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %z = coda.linear %h, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  func.return %z : tensor<?x16xbf16>
}

// CHECK:      func.func @linear(
// CHECK-NEXT:   %s = coda.add %x, %y : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %s_scaled = coda.mul %s, %g : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %rstd = coda.norm_stats %s {kind = "rms", eps = 1.000000e-06 : f64} : (tensor<?x8xbf16>) -> tensor<?x1xf32>
// CHECK-NEXT:   %0 = coda.linear %s_scaled, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xf32>
// CHECK-NEXT:   %1 = coda.mul %0, %rstd : (tensor<?x16xf32>, tensor<?x1xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %z = coda.cast %1 : (tensor<?x16xf32>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %z : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// Rows that a kernel looks up, which adds up their squares as well.

func.func @embedding(%ids: tensor<?xi64>, %e: tensor<50x8xbf16>, %g: tensor<8xbf16>, %w: tensor<16x8xbf16>) -> tensor<?x16xbf16> {
  %x = coda.embedding %ids, %e : (tensor<?xi64>, tensor<50x8xbf16>) -> tensor<?x8xbf16>
  %h = coda.rms_norm %x, %g {eps = 1.0e-6 : f64} : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %z = coda.linear %h, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  func.return %z : tensor<?x16xbf16>
}

// CHECK:      func.func @embedding(
// CHECK-NEXT:   %x = coda.embedding %ids, %e : (tensor<?xi64>, tensor<50x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %x_scaled = coda.mul %x, %g : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %rstd = coda.norm_stats %x {kind = "rms", eps = 1.000000e-06 : f64} : (tensor<?x8xbf16>) -> tensor<?x1xf32>
// CHECK-NEXT:   %0 = coda.linear %x_scaled, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xf32>
// CHECK-NEXT:   %1 = coda.mul %0, %rstd : (tensor<?x16xf32>, tensor<?x1xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %z = coda.cast %1 : (tensor<?x16xf32>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %z : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// A norm in float32 in front of products in bfloat16, as autocast has it: what the GEMMs read is rounded once.

func.func @rounded(%x: tensor<?x4xbf16>, %v: tensor<8x4xbf16>, %g: tensor<8xf32>, %w: tensor<16x8xbf16>, %u: tensor<16x8xbf16>) -> (tensor<?x16xbf16>, tensor<?x16xbf16>) {
  %s = coda.linear %x, %v : (tensor<?x4xbf16>, tensor<8x4xbf16>) -> tensor<?x8xf32>
  %h = coda.rms_norm %s, %g {eps = 1.0e-5 : f64} : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  %r = coda.cast %h : (tensor<?x8xf32>) -> tensor<?x8xbf16>
  %z = coda.linear %r, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %t = coda.linear %r, %u : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  func.return %z, %t : tensor<?x16xbf16>, tensor<?x16xbf16>
}

// CHECK:      func.func @rounded(
// CHECK-NEXT:   %s = coda.linear %x, %v : (tensor<?x4xbf16>, tensor<8x4xbf16>) -> tensor<?x8xf32>
// CHECK-NEXT:   %s_scaled = coda.mul %s, %g : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %s_scaled_1 = coda.cast %s_scaled : (tensor<?x8xf32>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %rstd = coda.norm_stats %s {kind = "rms", eps = 1.000000e-05 : f64} : (tensor<?x8xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %0 = coda.linear %s_scaled_1, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xf32>
// CHECK-NEXT:   %1 = coda.mul %0, %rstd : (tensor<?x16xf32>, tensor<?x1xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %z = coda.cast %1 : (tensor<?x16xf32>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %2 = coda.linear %s_scaled_1, %u : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xf32>
// CHECK-NEXT:   %3 = coda.mul %2, %rstd : (tensor<?x16xf32>, tensor<?x1xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %t = coda.cast %3 : (tensor<?x16xf32>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %z, %t : tensor<?x16xbf16>, tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// Several consumers, in both layouts of the weight; a bias is added after the row scale.

func.func @several_consumers(%x: tensor<?x4xbf16>, %v: tensor<8x4xbf16>, %g: tensor<8xbf16>, %w: tensor<16x8xbf16>, %b: tensor<16xbf16>, %u: tensor<8x12xbf16>) -> (tensor<?x16xbf16>, tensor<?x12xf32>) {
  %s = coda.linear %x, %v : (tensor<?x4xbf16>, tensor<8x4xbf16>) -> tensor<?x8xbf16>
  %h = coda.rms_norm %s, %g {eps = 1.0e-5 : f64} : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %z = coda.linear %h, %w, %b : (tensor<?x8xbf16>, tensor<16x8xbf16>, tensor<16xbf16>) -> tensor<?x16xbf16>
  %t = coda.matmul %h, %u : (tensor<?x8xbf16>, tensor<8x12xbf16>) -> tensor<?x12xf32>
  func.return %z, %t : tensor<?x16xbf16>, tensor<?x12xf32>
}

// CHECK:      func.func @several_consumers(
// CHECK-NEXT:   %s = coda.linear %x, %v : (tensor<?x4xbf16>, tensor<8x4xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %s_scaled = coda.mul %s, %g : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %rstd = coda.norm_stats %s {kind = "rms", eps = 1.000000e-05 : f64} : (tensor<?x8xbf16>) -> tensor<?x1xf32>
// CHECK-NEXT:   %0 = coda.linear %s_scaled, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xf32>
// CHECK-NEXT:   %1 = coda.mul %0, %rstd : (tensor<?x16xf32>, tensor<?x1xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %b_1 = coda.cast %b : (tensor<16xbf16>) -> tensor<16xf32>
// CHECK-NEXT:   %2 = coda.add %1, %b_1 : (tensor<?x16xf32>, tensor<16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %z = coda.cast %2 : (tensor<?x16xf32>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %3 = coda.matmul %s_scaled, %u : (tensor<?x8xbf16>, tensor<8x12xbf16>) -> tensor<?x12xf32>
// CHECK-NEXT:   %t = coda.mul %3, %rstd : (tensor<?x12xf32>, tensor<?x1xf32>) -> tensor<?x12xf32>
// CHECK-NEXT:   func.return %z, %t : tensor<?x16xbf16>, tensor<?x12xf32>
// CHECK-NEXT: }

// -----

// Without a weight the GEMM reads x itself; in float32 nothing is cast.

func.func @no_weight(%x: tensor<?x8xf32>, %w: tensor<16x8xf32>) -> tensor<?x16xf32> {
  %s = coda.silu %x : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %h = coda.rms_norm %s {eps = 1.0e-6 : f64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %z = coda.linear %h, %w : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
  func.return %z : tensor<?x16xf32>
}

// CHECK:      func.func @no_weight(
// CHECK-NEXT:   %s = coda.silu %x : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %rstd = coda.norm_stats %s {kind = "rms", eps = 1.000000e-06 : f64} : (tensor<?x8xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %0 = coda.linear %s, %w : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %z = coda.mul %0, %rstd : (tensor<?x16xf32>, tensor<?x1xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   func.return %z : tensor<?x16xf32>
// CHECK-NEXT: }

// -----

// A norm that something else uses too is split into its statistics and pointwise operators.

func.func @returned_too(%x: tensor<?x4xbf16>, %v: tensor<8x4xbf16>, %g: tensor<8xbf16>, %w: tensor<16x8xbf16>) -> (tensor<?x8xbf16>, tensor<?x16xbf16>) {
  %s = coda.linear %x, %v : (tensor<?x4xbf16>, tensor<8x4xbf16>) -> tensor<?x8xbf16>
  %h = coda.rms_norm %s, %g {eps = 1.0e-6 : f64} : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %z = coda.linear %h, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  func.return %h, %z : tensor<?x8xbf16>, tensor<?x16xbf16>
}

// CHECK:      func.func @returned_too(
// CHECK-NEXT:   %s = coda.linear %x, %v : (tensor<?x4xbf16>, tensor<8x4xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %rstd = coda.norm_stats %s {kind = "rms", eps = 1.000000e-06 : f64} : (tensor<?x8xbf16>) -> tensor<?x1xf32>
// CHECK-NEXT:   %s_1 = coda.cast %s : (tensor<?x8xbf16>) -> tensor<?x8xf32>
// CHECK-NEXT:   %0 = coda.mul %s_1, %rstd : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %g_1 = coda.cast %g : (tensor<8xbf16>) -> tensor<8xf32>
// CHECK-NEXT:   %1 = coda.mul %0, %g_1 : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %h = coda.cast %1 : (tensor<?x8xf32>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %z = coda.linear %h, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %h, %z : tensor<?x8xbf16>, tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// A rotation commutes with the scale of the rows as well, which comes after it.

func.func @rotation(%x: tensor<?x8xbf16> {coda.dims = ["T", 8 : i64]}, %w: tensor<8x8xbf16>, %g: tensor<8xbf16>, %c: tensor<?x2xf32> {coda.dims = ["T", 2 : i64]}, %s: tensor<?x2xf32> {coda.dims = ["T", 2 : i64]}) -> tensor<?x8xbf16> {
  %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  %h = coda.rms_norm %z, %g {eps = 1.0e-6 : f64} : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %y = coda.rope %h, %c, %s {head_dim = 4 : i64, layout = "interleaved"} : (tensor<?x8xbf16>, tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x8xbf16>
  func.return %y : tensor<?x8xbf16>
}

// CHECK:      func.func @rotation(
// CHECK-NEXT:   %z = coda.linear %x, %w
// CHECK-NEXT:   %z_scaled = coda.mul %z, %g
// CHECK-NEXT:   %rstd = coda.norm_stats %z {kind = "rms", eps = 1.000000e-06 : f64}
// CHECK-NEXT:   %y = coda.rope %z_scaled, %c, %s {head_dim = 4 : i64, layout = "interleaved"}
// CHECK-NEXT:   %y_1 = coda.cast %y : (tensor<?x8xbf16>) -> tensor<?x8xf32>
// CHECK-NEXT:   %0 = coda.mul %y_1, %rstd
// CHECK-NEXT:   %y_2 = coda.cast %0 : (tensor<?x8xf32>) -> tensor<?x8xbf16>
// CHECK-NEXT:   func.return %y_2

// -----

// The residual is the norm too: it is computed again from its statistics where it is added.

func.func @residual(%x: tensor<?x8xf32>, %y: tensor<?x8xf32>, %g: tensor<8xf32>, %w: tensor<8x8xf32>) -> tensor<?x8xf32> {
  %s = coda.add %x, %y : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %h = coda.rms_norm %s, %g {eps = 1.0e-6 : f64} : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  %z = coda.linear %h, %w : (tensor<?x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
  %r = coda.add %z, %h : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  func.return %r : tensor<?x8xf32>
}

// CHECK:      func.func @residual(
// CHECK:        %0 = coda.linear %s_scaled, %w
// CHECK-NEXT:   %z = coda.mul %0, %rstd
// CHECK-NEXT:   %1 = coda.mul %s, %rstd_1
// CHECK-NEXT:   %h = coda.mul %1, %g
// CHECK-NEXT:   %r = coda.add %z, %h
// CHECK-NEXT:   func.return %r

// -----

// The row scale comes before the code of an epilogue: on one accumulator, or on both of a pair.

func.func @own_epilogues(%x: tensor<?x8xbf16>, %v: tensor<8x8xbf16>, %g: tensor<8xbf16>, %w: tensor<16x8xbf16>, %u: tensor<8x12xbf16>, %b: tensor<12xbf16>) -> (tensor<?x8xbf16>, tensor<?x12xbf16>, tensor<?x?xf32>) {
  %s = coda.linear %x, %v : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  %h = coda.rms_norm %s, %g {eps = 1.0e-5 : f64} : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %y = gemm.fused %h : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>) pair<halves> -> (half : tensor<?x8xbf16>) {
  ^bb0(%gate: f32, %up: f32):
    %p = arith.mulf %gate, %up : f32
    gemm.yield %p : f32
  }
  %z, %amax = gemm.fused %h : tensor<?x8xbf16>
    columns(%u : tensor<8x12xbf16>) kn row(%b : tensor<12xbf16>)
      -> (tile : tensor<?x12xbf16>, partial_row<max> : tensor<?x?xf32>) {
  ^bb0(%acc: f32, %bias: f32):
    %q = arith.addf %acc, %bias : f32
    %a = math.absf %acc : f32
    gemm.yield %q, %a : f32, f32
  }
  func.return %y, %z, %amax : tensor<?x8xbf16>, tensor<?x12xbf16>, tensor<?x?xf32>
}

// CHECK:      func.func @own_epilogues(
// CHECK-NEXT:   %s = coda.linear %x, %v : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %s_scaled = coda.mul %s, %g : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %rstd = coda.norm_stats %s {kind = "rms", eps = 1.000000e-05 : f64} : (tensor<?x8xbf16>) -> tensor<?x1xf32>
// CHECK-NEXT:   %y = gemm.fused %s_scaled : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<16x8xbf16>) pair<halves> col(%rstd : tensor<?x1xf32>)
// CHECK-NEXT:       -> (half : tensor<?x8xbf16>) {
// CHECK-NEXT:     ^bb0(%gate: f32, %up: f32, %rstd_1: f32):
// CHECK-NEXT:       %0 = arith.mulf %gate, %rstd_1 : f32
// CHECK-NEXT:       %1 = arith.mulf %up, %rstd_1 : f32
// CHECK-NEXT:       %p = arith.mulf %0, %1 : f32
// CHECK-NEXT:       gemm.yield %p : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %z, %amax = gemm.fused %s_scaled : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%u : tensor<8x12xbf16>) kn row(%b : tensor<12xbf16>) col(%rstd : tensor<?x1xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x12xbf16>, partial_row<max> : tensor<?x?xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %bias: f32, %rstd_1: f32):
// CHECK-NEXT:       %0 = arith.mulf %acc, %rstd_1 : f32
// CHECK-NEXT:       %q = arith.addf %0, %bias : f32
// CHECK-NEXT:       %a = math.absf %0 : f32
// CHECK-NEXT:       gemm.yield %q, %a : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y, %z, %amax : tensor<?x8xbf16>, tensor<?x12xbf16>, tensor<?x?xf32>
// CHECK-NEXT: }

// -----

// A scale of each sample moves to x as that of all rows does.

func.func @modulated(%x: tensor<?x?x8xbf16>, %s: tensor<?x1x8xbf16>, %w: tensor<16x8xbf16>) -> tensor<?x?x16xbf16> {
  %y = coda.silu %x : (tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>
  %h = coda.rms_norm %y, %s {eps = 1.0e-6 : f64} : (tensor<?x?x8xbf16>, tensor<?x1x8xbf16>) -> tensor<?x?x8xbf16>
  %z = coda.linear %h, %w : (tensor<?x?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x?x16xbf16>
  func.return %z : tensor<?x?x16xbf16>
}

// CHECK:      func.func @modulated(
// CHECK-NEXT:   %y = coda.silu %x : (tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   %y_scaled = coda.mul %y, %s : (tensor<?x?x8xbf16>, tensor<?x1x8xbf16>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   %rstd = coda.norm_stats %y {kind = "rms", eps = 1.000000e-06 : f64} : (tensor<?x?x8xbf16>) -> tensor<?x?x1xf32>
// CHECK-NEXT:   %0 = coda.linear %y_scaled, %w : (tensor<?x?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x?x16xf32>
// CHECK-NEXT:   %1 = coda.mul %0, %rstd : (tensor<?x?x16xf32>, tensor<?x?x1xf32>) -> tensor<?x?x16xf32>
// CHECK-NEXT:   %z = coda.cast %1 : (tensor<?x?x16xf32>) -> tensor<?x?x16xbf16>
// CHECK-NEXT:   func.return %z : tensor<?x?x16xbf16>
// CHECK-NEXT: }

// -----

// A weight of few bits is dequantized on the way to the product, which the scale of the row
// commutes with as well.

func.func @low_bits(%x: tensor<?x256xbf16>, %w: tensor<256xbf16>, %q: tensor<16x128xui8>, %s: tensor<16x2xbf16>) -> tensor<?x16xbf16> {
  %y = coda.silu %x : (tensor<?x256xbf16>) -> tensor<?x256xbf16>
  %h = coda.rms_norm %y, %w {eps = 1.0e-6 : f64} : (tensor<?x256xbf16>, tensor<256xbf16>) -> tensor<?x256xbf16>
  %z = coda.low_bit_linear %h, %q, %s {scheme = #coda.quantized<128, offset = 8, "k10">} : (tensor<?x256xbf16>, tensor<16x128xui8>, tensor<16x2xbf16>) -> tensor<?x16xbf16>
  func.return %z : tensor<?x16xbf16>
}

// CHECK:      func.func @low_bits(
// CHECK-NEXT:   %y = coda.silu %x : (tensor<?x256xbf16>) -> tensor<?x256xbf16>
// CHECK-NEXT:   %y_scaled = coda.mul %y, %w : (tensor<?x256xbf16>, tensor<256xbf16>) -> tensor<?x256xbf16>
// CHECK-NEXT:   %rstd = coda.norm_stats %y {kind = "rms", eps = 1.000000e-06 : f64} : (tensor<?x256xbf16>) -> tensor<?x1xf32>
// CHECK-NEXT:   %0 = coda.low_bit_linear %y_scaled, %q, %s {scheme = #coda.quantized<128, offset = 8, "k10">} : (tensor<?x256xbf16>, tensor<16x128xui8>, tensor<16x2xbf16>) -> tensor<?x16xf32>
// CHECK-NEXT:   %1 = coda.mul %0, %rstd : (tensor<?x16xf32>, tensor<?x1xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %z = coda.cast %1 : (tensor<?x16xf32>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %z : tensor<?x16xbf16>
// CHECK-NEXT: }

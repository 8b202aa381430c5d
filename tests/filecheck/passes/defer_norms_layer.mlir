// RUN: coda-opt %s -p defer-norms --split-input-file | filecheck %s

// r·((x ⊙ w)·W) − (r·mu)·(W·w) + W·beta + b: the order of the subtraction matters.

func.func @linear(%x: tensor<?x8xbf16>, %y: tensor<?x8xbf16>, %g: tensor<8xbf16>, %beta: tensor<8xbf16>, %w: tensor<16x8xbf16>, %b: tensor<16xbf16>) -> tensor<?x16xbf16> {
  %s = coda.add %x, %y : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %h = coda.layer_norm %s, %g, %beta {eps = 1.0e-5 : f64} : (tensor<?x8xbf16>, tensor<8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %z = coda.linear %h, %w, %b : (tensor<?x8xbf16>, tensor<16x8xbf16>, tensor<16xbf16>) -> tensor<?x16xbf16>
  func.return %z : tensor<?x16xbf16>
}

// CHECK:      func.func @linear(
// CHECK-NEXT:   %s = coda.add %x, %y : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %s_scaled = coda.mul %s, %g : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %rstd, %mean = coda.norm_stats %s {kind = "layer", eps = 1.000000e-05 : f64} : (tensor<?x8xbf16>) -> (tensor<?x1xf32>, tensor<?x1xf32>)
// CHECK-NEXT:   %shift = coda.mul %rstd, %mean : (tensor<?x1xf32>, tensor<?x1xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %0 = coda.linear %s_scaled, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xf32>
// CHECK-NEXT:   %1 = coda.mul %0, %rstd : (tensor<?x16xf32>, tensor<?x1xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %g_1 = gemm.pack_weight nk %w, %g : (tensor<16x8xbf16>, tensor<8xbf16>) -> tensor<16xf32>
// CHECK-NEXT:   %beta_1 = gemm.pack_weight nk %w, %beta : (tensor<16x8xbf16>, tensor<8xbf16>) -> tensor<16xf32>
// CHECK-NEXT:   %2 = coda.mul %shift, %g_1 : (tensor<?x1xf32>, tensor<16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %3 = coda.sub %1, %2 : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %4 = coda.add %3, %beta_1 : (tensor<?x16xf32>, tensor<16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %b_1 = coda.cast %b : (tensor<16xbf16>) -> tensor<16xf32>
// CHECK-NEXT:   %5 = coda.add %4, %b_1 : (tensor<?x16xf32>, tensor<16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %z = coda.cast %5 : (tensor<?x16xf32>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %z : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// Two consumers share the statistics; without beta only W·w is subtracted; K x N weights are
// packed as such.

func.func @matmul(%x: tensor<?x8xbf16>, %g: tensor<8xbf16>, %w: tensor<8x16xbf16>, %v: tensor<8x4xbf16>) -> (tensor<?x16xbf16>, tensor<?x4xbf16>) {
  %s = coda.silu %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %h = coda.layer_norm %s, %g {eps = 1.0e-5 : f64} : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %z = coda.matmul %h, %w : (tensor<?x8xbf16>, tensor<8x16xbf16>) -> tensor<?x16xbf16>
  %t = coda.matmul %h, %v : (tensor<?x8xbf16>, tensor<8x4xbf16>) -> tensor<?x4xbf16>
  func.return %z, %t : tensor<?x16xbf16>, tensor<?x4xbf16>
}

// CHECK:      func.func @matmul(
// CHECK-NEXT:   %s = coda.silu %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %s_scaled = coda.mul %s, %g : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %rstd, %mean = coda.norm_stats %s {kind = "layer", eps = 1.000000e-05 : f64} : (tensor<?x8xbf16>) -> (tensor<?x1xf32>, tensor<?x1xf32>)
// CHECK-NEXT:   %shift = coda.mul %rstd, %mean : (tensor<?x1xf32>, tensor<?x1xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %0 = coda.matmul %s_scaled, %w : (tensor<?x8xbf16>, tensor<8x16xbf16>) -> tensor<?x16xf32>
// CHECK-NEXT:   %1 = coda.mul %0, %rstd : (tensor<?x16xf32>, tensor<?x1xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %g_1 = gemm.pack_weight kn %w, %g : (tensor<8x16xbf16>, tensor<8xbf16>) -> tensor<16xf32>
// CHECK-NEXT:   %2 = coda.mul %shift, %g_1 : (tensor<?x1xf32>, tensor<16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %3 = coda.sub %1, %2 : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %z = coda.cast %3 : (tensor<?x16xf32>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %4 = coda.matmul %s_scaled, %v : (tensor<?x8xbf16>, tensor<8x4xbf16>) -> tensor<?x4xf32>
// CHECK-NEXT:   %5 = coda.mul %4, %rstd : (tensor<?x4xf32>, tensor<?x1xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   %g_2 = gemm.pack_weight kn %v, %g : (tensor<8x4xbf16>, tensor<8xbf16>) -> tensor<4xf32>
// CHECK-NEXT:   %6 = coda.mul %shift, %g_2 : (tensor<?x1xf32>, tensor<4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   %7 = coda.sub %5, %6 : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   %t = coda.cast %7 : (tensor<?x4xf32>) -> tensor<?x4xbf16>
// CHECK-NEXT:   func.return %z, %t : tensor<?x16xbf16>, tensor<?x4xbf16>
// CHECK-NEXT: }

// -----

// A norm that something else uses too is split into its statistics and pointwise operators.

func.func @returned_too(%x: tensor<?x8xbf16>, %g: tensor<8xbf16>, %beta: tensor<8xbf16>, %w: tensor<16x8xbf16>) -> (tensor<?x16xbf16>, tensor<?x8xbf16>) {
  %s = coda.silu %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %h = coda.layer_norm %s, %g, %beta {eps = 1.0e-5 : f64} : (tensor<?x8xbf16>, tensor<8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %z = coda.linear %h, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  func.return %z, %h : tensor<?x16xbf16>, tensor<?x8xbf16>
}

// CHECK:      func.func @returned_too(
// CHECK-NEXT:   %s = coda.silu %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %rstd, %mean = coda.norm_stats %s {kind = "layer", eps = 1.000000e-05 : f64} : (tensor<?x8xbf16>) -> (tensor<?x1xf32>, tensor<?x1xf32>)
// CHECK-NEXT:   %s_1 = coda.cast %s : (tensor<?x8xbf16>) -> tensor<?x8xf32>
// CHECK-NEXT:   %0 = coda.sub %s_1, %mean : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %1 = coda.mul %0, %rstd : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %g_1 = coda.cast %g : (tensor<8xbf16>) -> tensor<8xf32>
// CHECK-NEXT:   %2 = coda.mul %1, %g_1 : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %beta_1 = coda.cast %beta : (tensor<8xbf16>) -> tensor<8xf32>
// CHECK-NEXT:   %3 = coda.add %2, %beta_1 : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %h = coda.cast %3 : (tensor<?x8xf32>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %z = coda.linear %h, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %z, %h : tensor<?x16xbf16>, tensor<?x8xbf16>
// CHECK-NEXT: }

// -----

// What the code of an epilogue sees is the product of the norm: the correction comes before it.

func.func @own_epilogue(%x: tensor<?x8xbf16>, %g: tensor<8xbf16>, %beta: tensor<8xbf16>, %w: tensor<16x8xbf16>, %b: tensor<16xbf16>) -> tensor<?x16xbf16> {
  %s = coda.silu %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %h = coda.layer_norm %s, %g, %beta {eps = 1.0e-5 : f64} : (tensor<?x8xbf16>, tensor<8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %z = gemm.fused %h : tensor<?x8xbf16> columns(%w : tensor<16x8xbf16>) row(%b : tensor<16xbf16>) -> (tile : tensor<?x16xbf16>) {
  ^bb0(%acc: f32, %bias: f32):
    %q = arith.mulf %acc, %bias : f32
    gemm.yield %q : f32
  }
  func.return %z : tensor<?x16xbf16>
}

// CHECK:      func.func @own_epilogue(
// CHECK-NEXT:   %s = coda.silu %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %s_scaled = coda.mul %s, %g : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %rstd, %mean = coda.norm_stats %s {kind = "layer", eps = 1.000000e-05 : f64} : (tensor<?x8xbf16>) -> (tensor<?x1xf32>, tensor<?x1xf32>)
// CHECK-NEXT:   %shift = coda.mul %rstd, %mean : (tensor<?x1xf32>, tensor<?x1xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %g_1 = gemm.pack_weight nk %w, %g : (tensor<16x8xbf16>, tensor<8xbf16>) -> tensor<16xf32>
// CHECK-NEXT:   %beta_1 = gemm.pack_weight nk %w, %beta : (tensor<16x8xbf16>, tensor<8xbf16>) -> tensor<16xf32>
// CHECK-NEXT:   %z = gemm.fused %s_scaled : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<16x8xbf16>) row(%b : tensor<16xbf16>) col(%rstd : tensor<?x1xf32>, %shift : tensor<?x1xf32>) row(%g_1 : tensor<16xf32>, %beta_1 : tensor<16xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %bias: f32, %rstd_1: f32, %shift_1: f32, %g_2: f32, %beta_2: f32):
// CHECK-NEXT:       %0 = arith.mulf %acc, %rstd_1 : f32
// CHECK-NEXT:       %1 = arith.mulf %shift_1, %g_2 : f32
// CHECK-NEXT:       %2 = arith.subf %0, %1 : f32
// CHECK-NEXT:       %3 = arith.addf %2, %beta_2 : f32
// CHECK-NEXT:       %q = arith.mulf %3, %bias : f32
// CHECK-NEXT:       gemm.yield %q : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %z : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// Each accumulator of a pair has its own columns, of the weight or of one of two weights.

func.func @own_pairs(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %u: tensor<16x8xbf16>, %t: tensor<8x32xbf16>) -> (tensor<?x16xbf16>, tensor<?x32xbf16>) {
  %s = coda.silu %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %h = coda.layer_norm %s {eps = 1.0e-5 : f64} : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %y = gemm.fused %h : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>, %u : tensor<16x8xbf16>) pair<halves> -> (half : tensor<?x16xbf16>) {
  ^bb0(%gate: f32, %up: f32):
    %p = arith.mulf %gate, %up : f32
    gemm.yield %p : f32
  }
  %z = gemm.fused %h : tensor<?x8xbf16> columns(%t : tensor<8x32xbf16>) kn pair<adjacent> -> (tile : tensor<?x32xbf16>) {
  ^bb0(%even: f32, %odd: f32):
    %p = arith.mulf %even, %odd : f32
    gemm.yield %p, %odd : f32, f32
  }
  func.return %y, %z : tensor<?x16xbf16>, tensor<?x32xbf16>
}

// CHECK:      func.func @own_pairs(
// CHECK-NEXT:   %s = coda.silu %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %rstd, %mean = coda.norm_stats %s {kind = "layer", eps = 1.000000e-05 : f64} : (tensor<?x8xbf16>) -> (tensor<?x1xf32>, tensor<?x1xf32>)
// CHECK-NEXT:   %shift = coda.mul %rstd, %mean : (tensor<?x1xf32>, tensor<?x1xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %column_sums = gemm.pack_weight nk %w : (tensor<16x8xbf16>) -> tensor<16xf32>
// CHECK-NEXT:   %column_sums_1 = gemm.pack_weight nk %u : (tensor<16x8xbf16>) -> tensor<16xf32>
// CHECK-NEXT:   %y = gemm.fused %s : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<16x8xbf16>, %u : tensor<16x8xbf16>) pair<halves> col(%rstd : tensor<?x1xf32>, %shift : tensor<?x1xf32>) half_row(%column_sums : tensor<16xf32>, %column_sums_1 : tensor<16xf32>)
// CHECK-NEXT:       -> (half : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%gate: f32, %up: f32, %rstd_1: f32, %shift_1: f32, %column_sums_2: f32, %column_sums_3: f32):
// CHECK-NEXT:       %0 = arith.mulf %gate, %rstd_1 : f32
// CHECK-NEXT:       %1 = arith.mulf %up, %rstd_1 : f32
// CHECK-NEXT:       %2 = arith.mulf %shift_1, %column_sums_2 : f32
// CHECK-NEXT:       %3 = arith.subf %0, %2 : f32
// CHECK-NEXT:       %4 = arith.mulf %shift_1, %column_sums_3 : f32
// CHECK-NEXT:       %5 = arith.subf %1, %4 : f32
// CHECK-NEXT:       %p = arith.mulf %3, %5 : f32
// CHECK-NEXT:       gemm.yield %p : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %column_sums_2 = gemm.pack_weight kn %t : (tensor<8x32xbf16>) -> tensor<32xf32>
// CHECK-NEXT:   %z = gemm.fused %s : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%t : tensor<8x32xbf16>) kn pair<adjacent> col(%rstd : tensor<?x1xf32>, %shift : tensor<?x1xf32>) row(%column_sums_2 : tensor<32xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x32xbf16>) {
// CHECK-NEXT:     ^bb0(%even: f32, %odd: f32, %rstd_1: f32, %shift_1: f32, %column_sums_3: f32, %column_sums_4: f32):
// CHECK-NEXT:       %0 = arith.mulf %even, %rstd_1 : f32
// CHECK-NEXT:       %1 = arith.mulf %odd, %rstd_1 : f32
// CHECK-NEXT:       %2 = arith.mulf %shift_1, %column_sums_3 : f32
// CHECK-NEXT:       %3 = arith.subf %0, %2 : f32
// CHECK-NEXT:       %4 = arith.mulf %shift_1, %column_sums_4 : f32
// CHECK-NEXT:       %5 = arith.subf %1, %4 : f32
// CHECK-NEXT:       %p = arith.mulf %3, %5 : f32
// CHECK-NEXT:       gemm.yield %p, %5 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y, %z : tensor<?x16xbf16>, tensor<?x32xbf16>
// CHECK-NEXT: }

// -----

// Without a weight, u is the sum of each column; nothing leaves the range of float16.

func.func @bias_only(%x: tensor<?x8xf16>, %beta: tensor<8xf16>, %w: tensor<16x8xf16>) -> tensor<?x16xf16> {
  %s = coda.silu %x : (tensor<?x8xf16>) -> tensor<?x8xf16>
  %h = coda.layer_norm %s, %beta {eps = 1.0e-5 : f64, bias_only} : (tensor<?x8xf16>, tensor<8xf16>) -> tensor<?x8xf16>
  %z = coda.linear %h, %w : (tensor<?x8xf16>, tensor<16x8xf16>) -> tensor<?x16xf16>
  func.return %z : tensor<?x16xf16>
}

// CHECK:      func.func @bias_only(
// CHECK-NEXT:   %s = coda.silu %x : (tensor<?x8xf16>) -> tensor<?x8xf16>
// CHECK-NEXT:   %rstd, %mean = coda.norm_stats %s {kind = "layer", eps = 1.000000e-05 : f64} : (tensor<?x8xf16>) -> (tensor<?x1xf32>, tensor<?x1xf32>)
// CHECK-NEXT:   %shift = coda.mul %rstd, %mean : (tensor<?x1xf32>, tensor<?x1xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %0 = coda.linear %s, %w : (tensor<?x8xf16>, tensor<16x8xf16>) -> tensor<?x16xf32>
// CHECK-NEXT:   %1 = coda.mul %0, %rstd : (tensor<?x16xf32>, tensor<?x1xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %column_sums = gemm.pack_weight nk %w : (tensor<16x8xf16>) -> tensor<16xf32>
// CHECK-NEXT:   %beta_1 = gemm.pack_weight nk %w, %beta : (tensor<16x8xf16>, tensor<8xf16>) -> tensor<16xf32>
// CHECK-NEXT:   %2 = coda.mul %shift, %column_sums : (tensor<?x1xf32>, tensor<16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %3 = coda.sub %1, %2 : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %4 = coda.add %3, %beta_1 : (tensor<?x16xf32>, tensor<16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %z = coda.cast %4 : (tensor<?x16xf32>) -> tensor<?x16xf16>
// CHECK-NEXT:   func.return %z : tensor<?x16xf16>
// CHECK-NEXT: }

// -----

// Neither a weight nor a bias.

func.func @no_params(%x: tensor<?x8xbf16>, %w: tensor<8x16xbf16>) -> tensor<?x16xbf16> {
  %s = coda.silu %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %h = coda.layer_norm %s {eps = 1.0e-5 : f64} : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %z = coda.matmul %h, %w : (tensor<?x8xbf16>, tensor<8x16xbf16>) -> tensor<?x16xbf16>
  func.return %z : tensor<?x16xbf16>
}

// CHECK:      func.func @no_params(
// CHECK-NEXT:   %s = coda.silu %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %rstd, %mean = coda.norm_stats %s {kind = "layer", eps = 1.000000e-05 : f64} : (tensor<?x8xbf16>) -> (tensor<?x1xf32>, tensor<?x1xf32>)
// CHECK-NEXT:   %shift = coda.mul %rstd, %mean : (tensor<?x1xf32>, tensor<?x1xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %0 = coda.matmul %s, %w : (tensor<?x8xbf16>, tensor<8x16xbf16>) -> tensor<?x16xf32>
// CHECK-NEXT:   %1 = coda.mul %0, %rstd : (tensor<?x16xf32>, tensor<?x1xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %column_sums = gemm.pack_weight kn %w : (tensor<8x16xbf16>) -> tensor<16xf32>
// CHECK-NEXT:   %2 = coda.mul %shift, %column_sums : (tensor<?x1xf32>, tensor<16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %3 = coda.sub %1, %2 : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %z = coda.cast %3 : (tensor<?x16xf32>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %z : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// A residual that is scaled before the tile of a GEMM is added, as in DeepNorm: its epilogue
// normalizes x again.

func.func @scaled_residual(%x: tensor<?x8xbf16>, %y: tensor<?x8xbf16>, %g: tensor<8xbf16>, %beta: tensor<8xbf16>, %w: tensor<16x8xbf16>, %v: tensor<8x16xbf16>) -> tensor<?x8xbf16> {
  %s = coda.add %x, %y : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %h = coda.layer_norm %s, %g, %beta {eps = 1.0e-05 : f64} : (tensor<?x8xbf16>, tensor<8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %a = coda.linear %h, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %z = coda.linear %a, %v : (tensor<?x16xbf16>, tensor<8x16xbf16>) -> tensor<?x8xbf16>
  %n = coda.constant {value = 1.5 : f64} : tensor<bf16>
  %m = coda.mul %h, %n : (tensor<?x8xbf16>, tensor<bf16>) -> tensor<?x8xbf16>
  %r = coda.add %m, %z : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  func.return %r : tensor<?x8xbf16>
}

// CHECK:      func.func @scaled_residual(
// CHECK-NEXT:   %s = coda.add %x, %y : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %s_scaled = coda.mul %s, %g : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %rstd, %mean = coda.norm_stats %s {kind = "layer", eps = 1.000000e-05 : f64} : (tensor<?x8xbf16>) -> (tensor<?x1xf32>, tensor<?x1xf32>)
// CHECK-NEXT:   %shift = coda.mul %rstd, %mean : (tensor<?x1xf32>, tensor<?x1xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %rstd_1, %mean_1 = coda.norm_stats %s {kind = "layer", eps = 1.000000e-05 : f64} : (tensor<?x8xbf16>) -> (tensor<?x1xf32>, tensor<?x1xf32>)
// CHECK-NEXT:   %0 = coda.linear %s_scaled, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xf32>
// CHECK-NEXT:   %1 = coda.mul %0, %rstd : (tensor<?x16xf32>, tensor<?x1xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %g_1 = gemm.pack_weight nk %w, %g : (tensor<16x8xbf16>, tensor<8xbf16>) -> tensor<16xf32>
// CHECK-NEXT:   %beta_1 = gemm.pack_weight nk %w, %beta : (tensor<16x8xbf16>, tensor<8xbf16>) -> tensor<16xf32>
// CHECK-NEXT:   %2 = coda.mul %shift, %g_1 : (tensor<?x1xf32>, tensor<16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %3 = coda.sub %1, %2 : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %4 = coda.add %3, %beta_1 : (tensor<?x16xf32>, tensor<16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %a = coda.cast %4 : (tensor<?x16xf32>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %z = coda.linear %a, %v : (tensor<?x16xbf16>, tensor<8x16xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %n = coda.constant {value = 1.500000e+00 : f64} : tensor<bf16>
// CHECK-NEXT:   %s_1 = coda.cast %s : (tensor<?x8xbf16>) -> tensor<?x8xf32>
// CHECK-NEXT:   %5 = coda.sub %s_1, %mean_1 : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %6 = coda.mul %5, %rstd_1 : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %g_2 = coda.cast %g : (tensor<8xbf16>) -> tensor<8xf32>
// CHECK-NEXT:   %7 = coda.mul %6, %g_2 : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %beta_2 = coda.cast %beta : (tensor<8xbf16>) -> tensor<8xf32>
// CHECK-NEXT:   %8 = coda.add %7, %beta_2 : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %h = coda.cast %8 : (tensor<?x8xf32>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %m = coda.mul %h, %n : (tensor<?x8xbf16>, tensor<bf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %r = coda.add %m, %z : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   func.return %r : tensor<?x8xbf16>
// CHECK-NEXT: }

// -----

// The statistics of an argument that the backward reads are those of its norm: one kernel computes both.

func.func @with_statistics(%x: tensor<?x4xf32>, %w: tensor<4xf32>, %b: tensor<4xf32>, %v: tensor<3x4xf32>) -> (tensor<?x3xf32>, tensor<?x1xf32>, tensor<?x1xf32>) {
  %h = coda.layer_norm %x, %w, %b {eps = 1.0e-5 : f64} : (tensor<?x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
  %z = coda.linear %h, %v : (tensor<?x4xf32>, tensor<3x4xf32>) -> tensor<?x3xf32>
  %rstd, %mean = coda.norm_stats %x {kind = "layer", eps = 1.0e-5 : f64} : (tensor<?x4xf32>) -> (tensor<?x1xf32>, tensor<?x1xf32>)
  func.return %z, %rstd, %mean : tensor<?x3xf32>, tensor<?x1xf32>, tensor<?x1xf32>
}

// CHECK:      func.func @with_statistics(
// CHECK-NEXT:   %rstd, %mean = coda.norm_stats %x {kind = "layer", eps = 1.000000e-05 : f64} : (tensor<?x4xf32>) -> (tensor<?x1xf32>, tensor<?x1xf32>)
// CHECK-NEXT:   %0 = coda.sub %x, %mean : (tensor<?x4xf32>, tensor<?x1xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   %1 = coda.mul %0, %rstd : (tensor<?x4xf32>, tensor<?x1xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   %2 = coda.mul %1, %w : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   %h = coda.add %2, %b : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   %z = coda.linear %h, %v : (tensor<?x4xf32>, tensor<3x4xf32>) -> tensor<?x3xf32>
// CHECK-NEXT:   %rstd_1, %mean_1 = coda.norm_stats %x {kind = "layer", eps = 1.000000e-05 : f64} : (tensor<?x4xf32>) -> (tensor<?x1xf32>, tensor<?x1xf32>)
// CHECK-NEXT:   func.return %z, %rstd_1, %mean_1 : tensor<?x3xf32>, tensor<?x1xf32>, tensor<?x1xf32>
// CHECK-NEXT: }

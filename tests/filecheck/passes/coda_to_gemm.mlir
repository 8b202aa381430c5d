// RUN: coda-opt %s -p coda-to-gemm --split-input-file | filecheck %s

// GPT-2's network: LayerNorm of a residual, biases, tanh-GELU, K x N weights.

func.func @layer_norm_mlp(%a: tensor<?x8xbf16>, %x0: tensor<?x8xbf16>, %wp: tensor<8x8xbf16>, %g: tensor<8xbf16>, %beta: tensor<8xbf16>, %w1: tensor<8x16xbf16>, %b1: tensor<16xbf16>, %w2: tensor<16x8xbf16>) -> tensor<?x8xbf16> {
  %p = coda.matmul %a, %wp : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  %x1 = coda.add %x0, %p : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %h = coda.layer_norm %x1, %g, %beta {eps = 1.0e-5 : f64} : (tensor<?x8xbf16>, tensor<8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %f0 = coda.matmul %h, %w1 : (tensor<?x8xbf16>, tensor<8x16xbf16>) -> tensor<?x16xbf16>
  %f1 = coda.add %f0, %b1 : (tensor<?x16xbf16>, tensor<16xbf16>) -> tensor<?x16xbf16>
  %f = coda.gelu_tanh %f1 : (tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %d = coda.matmul %f, %w2 : (tensor<?x16xbf16>, tensor<16x8xbf16>) -> tensor<?x8xbf16>
  %x2 = coda.add %x1, %d : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  func.return %x2 : tensor<?x8xbf16>
}

// CHECK:      func.func @layer_norm_mlp(
// CHECK-NEXT:   %x1, %x1_scaled, %partial, %partial_1 = gemm.fused %a : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%wp : tensor<8x8xbf16>) kn tile(%x0 : tensor<?x8xbf16>) row(%g : tensor<8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x8xbf16>, tile : tensor<?x8xbf16>, partial_row<add> : tensor<?x?xf32>, partial_row<add> : tensor<?x?xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %x0_1: f32, %g_1: f32):
// CHECK-NEXT:       %x1_1 = arith.addf %x0_1, %acc : f32
// CHECK-NEXT:       %x1_scaled_1 = arith.mulf %x1_1, %g_1 : f32
// CHECK-NEXT:       %0 = arith.mulf %x1_1, %x1_1 : f32
// CHECK-NEXT:       gemm.yield %x1_1, %x1_scaled_1, %x1_1, %0 : f32, f32, f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %rstd, %shift = gemm.finalize row (add %partial : tensor<?x?xf32>, add %partial_1 : tensor<?x?xf32>) -> (tensor<?x1xf32>, tensor<?x1xf32>) {
// CHECK-NEXT:   ^bb0(%0: f32, %1: f32):
// CHECK-NEXT:     %2 = arith.constant 1.250000e-01 : f32
// CHECK-NEXT:     %3 = arith.mulf %0, %2 : f32
// CHECK-NEXT:     %4 = arith.mulf %1, %2 : f32
// CHECK-NEXT:     %5 = arith.mulf %3, %3 : f32
// CHECK-NEXT:     %6 = arith.subf %4, %5 : f32
// CHECK-NEXT:     %7 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:     %8 = arith.maximumf %6, %7 : f32
// CHECK-NEXT:     %9 = arith.constant {gemm.exact = 1.000000e-05 : f64} 1.000000e-05 : f32
// CHECK-NEXT:     %10 = arith.addf %8, %9 : f32
// CHECK-NEXT:     %11 = math.rsqrt %10 : f32
// CHECK-NEXT:     %12 = arith.mulf %11, %3 : f32
// CHECK-NEXT:     gemm.yield %11, %12 : f32, f32
// CHECK-NEXT:   }
// CHECK-NEXT:   %g_1 = gemm.pack_weight kn %w1, %g : (tensor<8x16xbf16>, tensor<8xbf16>) -> tensor<16xf32>
// CHECK-NEXT:   %beta_1 = gemm.pack_weight kn %w1, %beta : (tensor<8x16xbf16>, tensor<8xbf16>) -> tensor<16xf32>
// CHECK-NEXT:   %f = gemm.fused %x1_scaled : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w1 : tensor<8x16xbf16>) kn col(%rstd : tensor<?x1xf32>, %shift : tensor<?x1xf32>) row(%g_1 : tensor<16xf32>, %beta_1 : tensor<16xf32>, %b1 : tensor<16xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %rstd_1: f32, %shift_1: f32, %g_2: f32, %beta_2: f32, %b1_1: f32):
// CHECK-NEXT:       %0 = arith.mulf %acc, %rstd_1 : f32
// CHECK-NEXT:       %1 = arith.mulf %shift_1, %g_2 : f32
// CHECK-NEXT:       %2 = arith.subf %0, %1 : f32
// CHECK-NEXT:       %f0 = arith.addf %2, %beta_2 : f32
// CHECK-NEXT:       %f1 = arith.addf %f0, %b1_1 : f32
// CHECK-NEXT:       %3 = arith.mulf %f1, %f1 : f32
// CHECK-NEXT:       %4 = arith.mulf %f1, %3 : f32
// CHECK-NEXT:       %5 = arith.constant {gemm.exact = 4.471500e-02 : f64} 4.471500e-02 : f32
// CHECK-NEXT:       %6 = arith.mulf %4, %5 : f32
// CHECK-NEXT:       %7 = arith.addf %f1, %6 : f32
// CHECK-NEXT:       %8 = arith.constant {gemm.exact = 1.5957691216057308 : f64} 1.59576917 : f32
// CHECK-NEXT:       %9 = arith.mulf %7, %8 : f32
// CHECK-NEXT:       %10 = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:       %11 = arith.negf %9 : f32
// CHECK-NEXT:       %12 = math.exp %11 : f32
// CHECK-NEXT:       %13 = arith.addf %10, %12 : f32
// CHECK-NEXT:       %f_1 = arith.divf %f1, %13 : f32
// CHECK-NEXT:       gemm.yield %f_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %x2 = gemm.fused %f : tensor<?x16xbf16>
// CHECK-NEXT:     columns(%w2 : tensor<16x8xbf16>) kn tile(%x1 : tensor<?x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x8xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %x1_1: f32):
// CHECK-NEXT:       %x2_1 = arith.addf %x1_1, %acc : f32
// CHECK-NEXT:       gemm.yield %x2_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %x2 : tensor<?x8xbf16>
// CHECK-NEXT: }

// -----

// Qwen3's queries and values: norm and rotation of each head, from one packed weight.

func.func @qk_norm(%x: tensor<?x8xbf16>, %w: tensor<24x8xbf16>, %g: tensor<8xbf16>, %cos: tensor<?x4xf32>, %sin: tensor<?x4xf32>) -> (tensor<?x16xbf16>, tensor<?x8xbf16>) {
  %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<24x8xbf16>) -> tensor<?x24xbf16>
  %q0 = coda.slice %z {dim = 1 : i64, start = 0 : i64, stop = 16 : i64} : (tensor<?x24xbf16>) -> tensor<?x16xbf16>
  %v = coda.slice %z {dim = 1 : i64, start = 16 : i64, stop = 24 : i64} : (tensor<?x24xbf16>) -> tensor<?x8xbf16>
  %q1 = coda.rms_norm %q0, %g {eps = 1.0e-6 : f64, group = 8 : i64} : (tensor<?x16xbf16>, tensor<8xbf16>) -> tensor<?x16xbf16>
  %q = coda.rope %q1, %cos, %sin {head_dim = 8 : i64, layout = "half_split"} : (tensor<?x16xbf16>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x16xbf16>
  func.return %q, %v : tensor<?x16xbf16>, tensor<?x8xbf16>
}

// CHECK:      func.func @qk_norm(
// CHECK-NEXT:   %0 = coda.slice %w {dim = 0 : i64, start = 0 : i64, stop = 16 : i64} : (tensor<24x8xbf16>) -> tensor<16x8xbf16>
// CHECK-NEXT:   %1 = coda.slice %w {dim = 0 : i64, start = 16 : i64, stop = 24 : i64} : (tensor<24x8xbf16>) -> tensor<8x8xbf16>
// CHECK-NEXT:   %q, %v = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%0 : tensor<16x8xbf16>) pair<halves, 8> table(%g : tensor<8xbf16>) half_table(%cos : tensor<?x4xf32>, %sin : tensor<?x4xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %acc_1: f32, %g_1: f32, %g_2: f32, %cos_1: f32, %sin_1: f32):
// CHECK-NEXT:       %2 = arith.mulf %acc, %acc : f32
// CHECK-NEXT:       %3 = arith.mulf %acc_1, %acc_1 : f32
// CHECK-NEXT:       %4 = arith.addf %2, %3 : f32
// CHECK-NEXT:       %5 = gemm.group_reduce add %4 over 8 : f32
// CHECK-NEXT:       %6 = arith.constant 1.250000e-01 : f32
// CHECK-NEXT:       %7 = arith.mulf %5, %6 : f32
// CHECK-NEXT:       %8 = arith.constant {gemm.exact = 1.000000e-06 : f64} 1.000000e-06 : f32
// CHECK-NEXT:       %9 = arith.addf %7, %8 : f32
// CHECK-NEXT:       %rstd = math.rsqrt %9 : f32
// CHECK-NEXT:       %10 = arith.mulf %acc, %rstd : f32
// CHECK-NEXT:       %11 = arith.mulf %acc_1, %rstd : f32
// CHECK-NEXT:       %12 = arith.mulf %10, %g_1 : f32
// CHECK-NEXT:       %13 = arith.mulf %11, %g_2 : f32
// CHECK-NEXT:       %14 = arith.mulf %12, %cos_1 : f32
// CHECK-NEXT:       %15 = arith.mulf %13, %sin_1 : f32
// CHECK-NEXT:       %16 = arith.subf %14, %15 : f32
// CHECK-NEXT:       %17 = arith.mulf %13, %cos_1 : f32
// CHECK-NEXT:       %18 = arith.mulf %12, %sin_1 : f32
// CHECK-NEXT:       %19 = arith.addf %17, %18 : f32
// CHECK-NEXT:       gemm.yield %16, %19 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:     columns(%1 : tensor<8x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x8xbf16>) {
// CHECK-NEXT:     ^bb0(%acc_2: f32):
// CHECK-NEXT:       gemm.yield %acc_2 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %q, %v : tensor<?x16xbf16>, tensor<?x8xbf16>
// CHECK-NEXT: }

// -----

// Gemma's norm between a GEMM and the residual: the GEMM, a pointwise kernel after the statistics,
// and a packed GeGLU after a deferred norm of weight 1 + w.

func.func @sandwich(%y: tensor<?x8xbf16>, %x0: tensor<?x8xbf16>, %w: tensor<8x8xbf16>, %g: tensor<8xbf16>, %h: tensor<8xbf16>, %v: tensor<16x8xbf16>) -> (tensor<?x8xbf16>, tensor<?x8xbf16>) {
  %one = coda.constant {value = 1.0 : f64} : tensor<bf16>
  %h1 = coda.add %h, %one : (tensor<8xbf16>, tensor<bf16>) -> tensor<8xbf16>
  %z = coda.linear %y, %w : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  %zn = coda.rms_norm %z, %g {eps = 1.0e-6 : f64} : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %x1 = coda.add %x0, %zn : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %n = coda.rms_norm %x1, %h1 {eps = 1.0e-6 : f64} : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %f = coda.linear %n, %v : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %a = coda.glu %f {activation = "relu"} : (tensor<?x16xbf16>) -> tensor<?x8xbf16>
  func.return %x1, %a : tensor<?x8xbf16>, tensor<?x8xbf16>
}

// CHECK:      func.func @sandwich(
// CHECK-NEXT:   %z, %partial = gemm.fused %y : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<8x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x8xbf16>, partial_row<add> : tensor<?x?xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       %0 = arith.mulf %acc, %acc : f32
// CHECK-NEXT:       gemm.yield %acc, %0 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %rstd = gemm.finalize row (add %partial : tensor<?x?xf32>) -> (tensor<?x1xf32>) {
// CHECK-NEXT:   ^bb0(%0: f32):
// CHECK-NEXT:     %1 = arith.constant 1.250000e-01 : f32
// CHECK-NEXT:     %2 = arith.mulf %0, %1 : f32
// CHECK-NEXT:     %3 = arith.constant {gemm.exact = 1.000000e-06 : f64} 1.000000e-06 : f32
// CHECK-NEXT:     %4 = arith.addf %2, %3 : f32
// CHECK-NEXT:     %5 = math.rsqrt %4 : f32
// CHECK-NEXT:     gemm.yield %5 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   %x1, %x1_scaled, %partial_1 = gemm.map tile(%x0 : tensor<?x8xbf16>, %z : tensor<?x8xbf16>) col(%rstd : tensor<?x1xf32>) row(%g : tensor<8xbf16>, %h : tensor<8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x8xbf16>, tile : tensor<?x8xbf16>, partial_row<add> : tensor<?x?xf32>) {
// CHECK-NEXT:     ^bb0(%x0_1: f32, %z_1: f32, %rstd_1: f32, %g_1: f32, %h_1: f32):
// CHECK-NEXT:       %0 = arith.mulf %z_1, %rstd_1 : f32
// CHECK-NEXT:       %zn = arith.mulf %0, %g_1 : f32
// CHECK-NEXT:       %x1_1 = arith.addf %x0_1, %zn : f32
// CHECK-NEXT:       %1 = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:       %h1 = arith.addf %h_1, %1 : f32
// CHECK-NEXT:       %x1_scaled_1 = arith.mulf %x1_1, %h1 : f32
// CHECK-NEXT:       %2 = arith.mulf %x1_1, %x1_1 : f32
// CHECK-NEXT:       gemm.yield %x1_1, %x1_scaled_1, %2 : f32, f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %rstd_1 = gemm.finalize row (add %partial_1 : tensor<?x?xf32>) -> (tensor<?x1xf32>) {
// CHECK-NEXT:   ^bb0(%0: f32):
// CHECK-NEXT:     %1 = arith.constant 1.250000e-01 : f32
// CHECK-NEXT:     %2 = arith.mulf %0, %1 : f32
// CHECK-NEXT:     %3 = arith.constant {gemm.exact = 1.000000e-06 : f64} 1.000000e-06 : f32
// CHECK-NEXT:     %4 = arith.addf %2, %3 : f32
// CHECK-NEXT:     %5 = math.rsqrt %4 : f32
// CHECK-NEXT:     gemm.yield %5 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   %a = gemm.fused %x1_scaled : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%v : tensor<16x8xbf16>) pair<halves> col(%rstd_1 : tensor<?x1xf32>)
// CHECK-NEXT:       -> (half : tensor<?x8xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %acc_1: f32, %rstd_2: f32):
// CHECK-NEXT:       %f = arith.mulf %acc, %rstd_2 : f32
// CHECK-NEXT:       %f_1 = arith.mulf %acc_1, %rstd_2 : f32
// CHECK-NEXT:       %0 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:       %1 = arith.maximumf %f, %0 : f32
// CHECK-NEXT:       %2 = arith.mulf %1, %f_1 : f32
// CHECK-NEXT:       gemm.yield %2 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %x1, %a : tensor<?x8xbf16>, tensor<?x8xbf16>
// CHECK-NEXT: }

// -----

// A language-model head with capped logits.

func.func @loss(%x: tensor<?x?x8xbf16>, %w: tensor<100x8xbf16>, %t: tensor<?x?xi64>) -> tensor<f32> {
  %z = coda.linear %x, %w : (tensor<?x?x8xbf16>, tensor<100x8xbf16>) -> tensor<?x?x100xbf16>
  %c = coda.softcap %z {cap = 30.0 : f64} : (tensor<?x?x100xbf16>) -> tensor<?x?x100xbf16>
  %l = coda.cross_entropy %c, %t {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x?x100xbf16>, tensor<?x?xi64>) -> tensor<f32>
  func.return %l : tensor<f32>
}

// CHECK:      func.func @loss(
// CHECK-NEXT:   %lse, %target_logit = gemm.fused %x : tensor<?x?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<100x8xbf16>) col(%t : tensor<?x?xi64>)
// CHECK-NEXT:       -> (partial_row<lse> : tensor<?x?x?xf64>, select<0> : tensor<?x?xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %t_1: i64):
// CHECK-NEXT:       %0 = arith.constant 3.000000e+01 : f32
// CHECK-NEXT:       %1 = arith.divf %acc, %0 : f32
// CHECK-NEXT:       %2 = math.tanh %1 : f32
// CHECK-NEXT:       %c = arith.mulf %2, %0 : f32
// CHECK-NEXT:       gemm.yield %c, %c : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %0, %1 = gemm.finalize row (lse %lse : tensor<?x?x?xf64>) col(%target_logit : tensor<?x?xf32>, %t : tensor<?x?xi64>) -> (tensor<?x?xf32>, tensor<?x?xf32>) {
// CHECK-NEXT:   ^bb0(%2: f32, %3: f32, %4: f32, %t_1: i64):
// CHECK-NEXT:     %5 = gemm.checked_index %t_1 {extent = 100 : i64, ignored = -100 : i64} : i64
// CHECK-NEXT:     %6 = arith.constant -100 : i64
// CHECK-NEXT:     %7 = arith.cmpi eq, %5, %6 : i64
// CHECK-NEXT:     %8 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:     %9 = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:     %10 = arith.subf %2, %4 : f32
// CHECK-NEXT:     %11 = arith.addf %10, %3 : f32
// CHECK-NEXT:     %12 = arith.select %7, %8, %11 : f32
// CHECK-NEXT:     %13 = arith.select %7, %8, %9 : f32
// CHECK-NEXT:     gemm.yield %12, %13 : f32, f32
// CHECK-NEXT:   }
// CHECK-NEXT:   %2 = coda.reshape %0 : (tensor<?x?xf32>) -> tensor<?xf32>
// CHECK-NEXT:   %3 = coda.reshape %1 : (tensor<?x?xf32>) -> tensor<?xf32>
// CHECK-NEXT:   %l = gemm.finalize row (add %2 : tensor<?xf32>, add %3 : tensor<?xf32>) -> (tensor<f32>) {
// CHECK-NEXT:   ^bb0(%4: f32, %5: f32):
// CHECK-NEXT:     %6 = arith.divf %4, %5 : f32
// CHECK-NEXT:     gemm.yield %6 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %l : tensor<f32>
// CHECK-NEXT: }

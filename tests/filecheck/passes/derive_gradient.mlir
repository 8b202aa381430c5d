// RUN: coda-opt %s -p derive-gradient,canonicalize,cse,dce --split-input-file | filecheck %s

// A gated network with its norm and residual: of the gate and of h two uses each are added up.
func.func @mlp(%x: tensor<?x?x8xbf16> {coda.name = "x", coda.dims = ["B", "T", 8]}, %norm: tensor<8xbf16> {coda.name = "norm", coda.dims = [8], coda.weight}, %wg: tensor<16x8xbf16> {coda.name = "wg", coda.dims = [16, 8], coda.weight}, %wu: tensor<16x8xbf16> {coda.name = "wu", coda.dims = [16, 8], coda.weight}, %wd: tensor<8x16xbf16> {coda.name = "wd", coda.dims = [8, 16], coda.weight}) -> (tensor<?x?x8xbf16> {coda.name = "y", coda.dims = ["B", "T", 8]}) {
  %h = coda.rms_norm %x, %norm {eps = 1.0e-5 : f64} : (tensor<?x?x8xbf16>, tensor<8xbf16>) -> tensor<?x?x8xbf16>
  %g = coda.linear %h, %wg : (tensor<?x?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x?x16xbf16>
  %u = coda.linear %h, %wu : (tensor<?x?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x?x16xbf16>
  %s = coda.silu %g : (tensor<?x?x16xbf16>) -> tensor<?x?x16xbf16>
  %a = coda.mul %s, %u : (tensor<?x?x16xbf16>, tensor<?x?x16xbf16>) -> tensor<?x?x16xbf16>
  %z = coda.linear %a, %wd : (tensor<?x?x16xbf16>, tensor<8x16xbf16>) -> tensor<?x?x8xbf16>
  %y = coda.add %x, %z : (tensor<?x?x8xbf16>, tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>
  func.return %y : tensor<?x?x8xbf16>
}

// CHECK:      func.func private @mlp_joint(%x: tensor<?x?x8xbf16> {coda.name = "x", coda.dims = ["B", "T", 8 : i64]}, %norm: tensor<8xbf16> {coda.name = "norm", coda.dims = [8 : i64], coda.weight}, %wg: tensor<16x8xbf16> {coda.name = "wg", coda.dims = [16 : i64, 8 : i64], coda.weight}, %wu: tensor<16x8xbf16> {coda.name = "wu", coda.dims = [16 : i64, 8 : i64], coda.weight}, %wd: tensor<8x16xbf16> {coda.name = "wd", coda.dims = [8 : i64, 16 : i64], coda.weight}, %d_y: tensor<?x?x8xbf16> {coda.name = "d_y", coda.dims = ["B", "T", 8 : i64]}) -> (tensor<?x?x8xbf16> {coda.name = "y", coda.dims = ["B", "T", 8 : i64]}, tensor<?x?x8xbf16> {coda.name = "d_x", coda.dims = ["B", "T", 8 : i64], coda.own}, tensor<8xbf16> {coda.name = "d_norm", coda.dims = [8 : i64], coda.own}, tensor<16x8xbf16> {coda.name = "d_wg", coda.dims = [16 : i64, 8 : i64], coda.own}, tensor<16x8xbf16> {coda.name = "d_wu", coda.dims = [16 : i64, 8 : i64], coda.own}, tensor<8x16xbf16> {coda.name = "d_wd", coda.dims = [8 : i64, 16 : i64], coda.own}) attributes {coda.joint = {arguments = 5 : i64, results = 1 : i64, wrt = ["x", "norm", "wg", "wu", "wd"]}} {
// CHECK-NEXT:   %h = coda.rms_norm %x, %norm {eps = 1.000000e-05 : f64} : (tensor<?x?x8xbf16>, tensor<8xbf16>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   %g = coda.linear %h, %wg : (tensor<?x?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x?x16xbf16>
// CHECK-NEXT:   %u = coda.linear %h, %wu : (tensor<?x?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x?x16xbf16>
// CHECK-NEXT:   %s = coda.silu %g : (tensor<?x?x16xbf16>) -> tensor<?x?x16xbf16>
// CHECK-NEXT:   %a = coda.mul %s, %u : (tensor<?x?x16xbf16>, tensor<?x?x16xbf16>) -> tensor<?x?x16xbf16>
// CHECK-NEXT:   %z = coda.linear %a, %wd : (tensor<?x?x16xbf16>, tensor<8x16xbf16>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   %y = coda.add %x, %z : (tensor<?x?x8xbf16>, tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   %d_a = coda.matmul %d_y, %wd : (tensor<?x?x8xbf16>, tensor<8x16xbf16>) -> tensor<?x?x16xbf16>
// CHECK-NEXT:   %d_wd = coda.weight_gradient %d_y, %a : (tensor<?x?x8xbf16>, tensor<?x?x16xbf16>) -> tensor<8x16xbf16>
// CHECK-NEXT:   %d_s = coda.mul %d_a, %u : (tensor<?x?x16xbf16>, tensor<?x?x16xbf16>) -> tensor<?x?x16xbf16>
// CHECK-NEXT:   %d_u = coda.mul %d_a, %s : (tensor<?x?x16xbf16>, tensor<?x?x16xbf16>) -> tensor<?x?x16xbf16>
// CHECK-NEXT:   %d_g = coda.activation_grad %g, %d_s {activation = "silu"} : (tensor<?x?x16xbf16>, tensor<?x?x16xbf16>) -> tensor<?x?x16xbf16>
// CHECK-NEXT:   %0 = coda.matmul %d_u, %wu : (tensor<?x?x16xbf16>, tensor<16x8xbf16>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   %d_wu = coda.weight_gradient %d_u, %h : (tensor<?x?x16xbf16>, tensor<?x?x8xbf16>) -> tensor<16x8xbf16>
// CHECK-NEXT:   %1 = coda.matmul %d_g, %wg : (tensor<?x?x16xbf16>, tensor<16x8xbf16>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   %d_wg = coda.weight_gradient %d_g, %h : (tensor<?x?x16xbf16>, tensor<?x?x8xbf16>) -> tensor<16x8xbf16>
// CHECK-NEXT:   %d_h = coda.add %0, %1 : (tensor<?x?x8xbf16>, tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   %rstd = coda.norm_stats %x {kind = "rms", eps = 1.000000e-05 : f64} : (tensor<?x?x8xbf16>) -> tensor<?x?x1xf32>
// CHECK-NEXT:   %x_1 = coda.cast %x : (tensor<?x?x8xbf16>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %d_h_1 = coda.cast %d_h : (tensor<?x?x8xbf16>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %normed = coda.mul %x_1, %rstd : (tensor<?x?x8xf32>, tensor<?x?x1xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %2 = coda.mul %d_h_1, %normed : (tensor<?x?x8xf32>, tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %d_norm = coda.sum_to %2 : (tensor<?x?x8xf32>) -> tensor<8xbf16>
// CHECK-NEXT:   %norm_1 = coda.cast %norm : (tensor<8xbf16>) -> tensor<8xf32>
// CHECK-NEXT:   %d_normed = coda.mul %d_h_1, %norm_1 : (tensor<?x?x8xf32>, tensor<8xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %3 = coda.mul %normed, %d_normed : (tensor<?x?x8xf32>, tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %along = coda.reduce %3 {kind = "mean"} : (tensor<?x?x8xf32>) -> tensor<?x?x1xf32>
// CHECK-NEXT:   %4 = coda.mul %normed, %along : (tensor<?x?x8xf32>, tensor<?x?x1xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %5 = coda.sub %d_normed, %4 : (tensor<?x?x8xf32>, tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %6 = coda.mul %5, %rstd : (tensor<?x?x8xf32>, tensor<?x?x1xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %7 = coda.cast %6 : (tensor<?x?x8xf32>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   %d_x = coda.add %d_y, %7 : (tensor<?x?x8xbf16>, tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   func.return %y, %d_x, %d_norm, %d_wg, %d_wu, %d_wd : tensor<?x?x8xbf16>, tensor<?x?x8xbf16>, tensor<8xbf16>, tensor<16x8xbf16>, tensor<16x8xbf16>, tensor<8x16xbf16>
// CHECK-NEXT: }

// -----

// LayerNorm, a bias, and GELU, without a name for the result.
func.func @ffn(%x: tensor<?x8xf32> {coda.name = "x", coda.dims = ["M", 8]}, %gamma: tensor<8xf32> {coda.name = "gamma"}, %beta: tensor<8xf32> {coda.name = "beta"}, %w: tensor<16x8xf32> {coda.name = "w"}, %b: tensor<16xf32> {coda.name = "b"}) -> tensor<?x16xf32> {
  %h = coda.layer_norm %x, %gamma, %beta {eps = 1.0e-5 : f64} : (tensor<?x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  %z = coda.linear %h, %w, %b : (tensor<?x8xf32>, tensor<16x8xf32>, tensor<16xf32>) -> tensor<?x16xf32>
  %a = coda.gelu %z : (tensor<?x16xf32>) -> tensor<?x16xf32>
  func.return %a : tensor<?x16xf32>
}

// CHECK:      func.func private @ffn_joint(%x: tensor<?x8xf32> {coda.name = "x", coda.dims = ["M", 8 : i64]}, %gamma: tensor<8xf32> {coda.name = "gamma"}, %beta: tensor<8xf32> {coda.name = "beta"}, %w: tensor<16x8xf32> {coda.name = "w"}, %b: tensor<16xf32> {coda.name = "b"}, %d_result0: tensor<?x16xf32> {coda.name = "d_result0", coda.dims = ["M", 16 : i64]}) -> (tensor<?x16xf32> {coda.name = "result0"}, tensor<?x8xf32> {coda.name = "d_x", coda.dims = ["M", 8 : i64], coda.own}, tensor<8xf32> {coda.name = "d_gamma", coda.own}, tensor<8xf32> {coda.name = "d_beta", coda.own}, tensor<16x8xf32> {coda.name = "d_w", coda.own}, tensor<16xf32> {coda.name = "d_b", coda.own}) attributes {coda.joint = {arguments = 5 : i64, results = 1 : i64, wrt = ["x", "gamma", "beta", "w", "b"]}} {
// CHECK-NEXT:   %h = coda.layer_norm %x, %gamma, %beta {eps = 1.000000e-05 : f64} : (tensor<?x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %z = coda.linear %h, %w, %b : (tensor<?x8xf32>, tensor<16x8xf32>, tensor<16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %a = coda.gelu %z : (tensor<?x16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %d_z = coda.activation_grad %z, %d_result0 {activation = "gelu"} : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %d_b = coda.sum_to %d_z : (tensor<?x16xf32>) -> tensor<16xf32>
// CHECK-NEXT:   %d_h = coda.matmul %d_z, %w : (tensor<?x16xf32>, tensor<16x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %d_w = coda.weight_gradient %d_z, %h : (tensor<?x16xf32>, tensor<?x8xf32>) -> tensor<16x8xf32>
// CHECK-NEXT:   %d_beta = coda.sum_to %d_h : (tensor<?x8xf32>) -> tensor<8xf32>
// CHECK-NEXT:   %rstd, %mean = coda.norm_stats %x {kind = "layer", eps = 1.000000e-05 : f64} : (tensor<?x8xf32>) -> (tensor<?x1xf32>, tensor<?x1xf32>)
// CHECK-NEXT:   %0 = coda.sub %x, %mean : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %normed = coda.mul %0, %rstd : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %1 = coda.mul %d_h, %normed : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %d_gamma = coda.sum_to %1 : (tensor<?x8xf32>) -> tensor<8xf32>
// CHECK-NEXT:   %d_normed = coda.mul %d_h, %gamma : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %2 = coda.mul %normed, %d_normed : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %along = coda.reduce %2 {kind = "mean"} : (tensor<?x8xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %shift = coda.reduce %d_normed {kind = "mean"} : (tensor<?x8xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %3 = coda.sub %d_normed, %shift : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %4 = coda.mul %normed, %along : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %5 = coda.sub %3, %4 : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %d_x = coda.mul %5, %rstd : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   func.return %a, %d_x, %d_gamma, %d_beta, %d_w, %d_b : tensor<?x16xf32>, tensor<?x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<16x8xf32>, tensor<16xf32>
// CHECK-NEXT: }

// -----

// Projections in one GEMM: the gradients of its slices lie side by side again. The tables of the
// rotation count as constants.
func.func @qkv(%x: tensor<?x?x8xbf16> {coda.name = "x", coda.dims = ["B", "T", 8]}, %w: tensor<16x8xbf16> {coda.name = "w"}, %gamma: tensor<4xbf16> {coda.name = "gamma"}, %cos: tensor<?x2xf32> {coda.name = "cos", coda.dims = ["T", 2]}, %sin: tensor<?x2xf32> {coda.name = "sin", coda.dims = ["T", 2]}) -> (tensor<?x?x8xbf16> {coda.name = "y"}) {
  %p = coda.linear %x, %w : (tensor<?x?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x?x16xbf16>
  %q = coda.slice %p {dim = 2 : i64, start = 0 : i64, stop = 8 : i64} : (tensor<?x?x16xbf16>) -> tensor<?x?x8xbf16>
  %k = coda.slice %p {dim = 2 : i64, start = 8 : i64, stop = 12 : i64} : (tensor<?x?x16xbf16>) -> tensor<?x?x4xbf16>
  %v = coda.slice %p {dim = 2 : i64, start = 12 : i64, stop = 16 : i64} : (tensor<?x?x16xbf16>) -> tensor<?x?x4xbf16>
  %qn = coda.rms_norm %q, %gamma {eps = 1.0e-5 : f64, group = 4 : i64} : (tensor<?x?x8xbf16>, tensor<4xbf16>) -> tensor<?x?x8xbf16>
  %qr = coda.rope %qn, %cos, %sin {head_dim = 4 : i64, layout = "half_split"} : (tensor<?x?x8xbf16>, tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x?x8xbf16>
  %y = coda.attention %qr, %k, %v {head_dim = 4 : i64, causal = true} : (tensor<?x?x8xbf16>, tensor<?x?x4xbf16>, tensor<?x?x4xbf16>) -> tensor<?x?x8xbf16>
  func.return %y : tensor<?x?x8xbf16>
}

// CHECK:      func.func private @qkv_joint(%x: tensor<?x?x8xbf16> {coda.name = "x", coda.dims = ["B", "T", 8 : i64]}, %w: tensor<16x8xbf16> {coda.name = "w"}, %gamma: tensor<4xbf16> {coda.name = "gamma"}, %cos: tensor<?x2xf32> {coda.name = "cos", coda.dims = ["T", 2 : i64]}, %sin: tensor<?x2xf32> {coda.name = "sin", coda.dims = ["T", 2 : i64]}, %d_y: tensor<?x?x8xbf16> {coda.name = "d_y", coda.dims = ["B", "T", 8 : i64]}) -> (tensor<?x?x8xbf16> {coda.name = "y"}, tensor<?x?x8xbf16> {coda.name = "d_x", coda.dims = ["B", "T", 8 : i64], coda.own}, tensor<16x8xbf16> {coda.name = "d_w", coda.own}, tensor<4xbf16> {coda.name = "d_gamma", coda.own}) attributes {coda.joint = {arguments = 5 : i64, results = 1 : i64, wrt = ["x", "w", "gamma"]}} {
// CHECK-NEXT:   %p = coda.linear %x, %w : (tensor<?x?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x?x16xbf16>
// CHECK-NEXT:   %q = coda.slice %p {dim = 2 : i64, start = 0 : i64, stop = 8 : i64} : (tensor<?x?x16xbf16>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   %k = coda.slice %p {dim = 2 : i64, start = 8 : i64, stop = 12 : i64} : (tensor<?x?x16xbf16>) -> tensor<?x?x4xbf16>
// CHECK-NEXT:   %v = coda.slice %p {dim = 2 : i64, start = 12 : i64, stop = 16 : i64} : (tensor<?x?x16xbf16>) -> tensor<?x?x4xbf16>
// CHECK-NEXT:   %qn = coda.rms_norm %q, %gamma {eps = 1.000000e-05 : f64, group = 4 : i64} : (tensor<?x?x8xbf16>, tensor<4xbf16>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   %qr = coda.rope %qn, %cos, %sin {head_dim = 4 : i64, layout = "half_split"} : (tensor<?x?x8xbf16>, tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   %y, %y_lse = coda.attention %qr, %k, %v {head_dim = 4 : i64, causal = true} : (tensor<?x?x8xbf16>, tensor<?x?x4xbf16>, tensor<?x?x4xbf16>) -> tensor<?x?x8xbf16> lse tensor<?x2x?xf32>
// CHECK-NEXT:   %d_qr, %d_k, %d_v = coda.attention_grad %d_y, %y, %y_lse, %qr, %k, %v {head_dim = 4 : i64, causal = true} : (tensor<?x?x8xbf16>, tensor<?x?x8xbf16>, tensor<?x2x?xf32>, tensor<?x?x8xbf16>, tensor<?x?x4xbf16>, tensor<?x?x4xbf16>) -> (tensor<?x?x8xbf16>, tensor<?x?x4xbf16>, tensor<?x?x4xbf16>)
// CHECK-NEXT:   %d_qn = coda.rope %d_qr, %cos, %sin {head_dim = 4 : i64, layout = "half_split", transposed} : (tensor<?x?x8xbf16>, tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   %0 = coda.reshape %q : (tensor<?x?x8xbf16>) -> tensor<?x?x2x4xbf16>
// CHECK-NEXT:   %1 = coda.reshape %d_qn : (tensor<?x?x8xbf16>) -> tensor<?x?x2x4xbf16>
// CHECK-NEXT:   %rstd = coda.norm_stats %0 {kind = "rms", eps = 1.000000e-05 : f64} : (tensor<?x?x2x4xbf16>) -> tensor<?x?x2x1xf32>
// CHECK-NEXT:   %2 = coda.cast %0 : (tensor<?x?x2x4xbf16>) -> tensor<?x?x2x4xf32>
// CHECK-NEXT:   %3 = coda.cast %1 : (tensor<?x?x2x4xbf16>) -> tensor<?x?x2x4xf32>
// CHECK-NEXT:   %normed = coda.mul %2, %rstd : (tensor<?x?x2x4xf32>, tensor<?x?x2x1xf32>) -> tensor<?x?x2x4xf32>
// CHECK-NEXT:   %4 = coda.mul %3, %normed : (tensor<?x?x2x4xf32>, tensor<?x?x2x4xf32>) -> tensor<?x?x2x4xf32>
// CHECK-NEXT:   %d_gamma = coda.sum_to %4 : (tensor<?x?x2x4xf32>) -> tensor<4xbf16>
// CHECK-NEXT:   %gamma_1 = coda.cast %gamma : (tensor<4xbf16>) -> tensor<4xf32>
// CHECK-NEXT:   %d_normed = coda.mul %3, %gamma_1 : (tensor<?x?x2x4xf32>, tensor<4xf32>) -> tensor<?x?x2x4xf32>
// CHECK-NEXT:   %5 = coda.mul %normed, %d_normed : (tensor<?x?x2x4xf32>, tensor<?x?x2x4xf32>) -> tensor<?x?x2x4xf32>
// CHECK-NEXT:   %along = coda.reduce %5 {kind = "mean"} : (tensor<?x?x2x4xf32>) -> tensor<?x?x2x1xf32>
// CHECK-NEXT:   %6 = coda.mul %normed, %along : (tensor<?x?x2x4xf32>, tensor<?x?x2x1xf32>) -> tensor<?x?x2x4xf32>
// CHECK-NEXT:   %7 = coda.sub %d_normed, %6 : (tensor<?x?x2x4xf32>, tensor<?x?x2x4xf32>) -> tensor<?x?x2x4xf32>
// CHECK-NEXT:   %8 = coda.mul %7, %rstd : (tensor<?x?x2x4xf32>, tensor<?x?x2x1xf32>) -> tensor<?x?x2x4xf32>
// CHECK-NEXT:   %d_q = coda.cast %8 : (tensor<?x?x2x4xf32>) -> tensor<?x?x2x4xbf16>
// CHECK-NEXT:   %d_q_1 = coda.reshape %d_q {coda.dims = ["B", "T", 8 : i64]} : (tensor<?x?x2x4xbf16>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   %d_p = coda.concat %d_q_1, %d_k, %d_v {dim = 2 : i64} : (tensor<?x?x8xbf16>, tensor<?x?x4xbf16>, tensor<?x?x4xbf16>) -> tensor<?x?x16xbf16>
// CHECK-NEXT:   %d_x = coda.matmul %d_p, %w : (tensor<?x?x16xbf16>, tensor<16x8xbf16>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   %d_w = coda.weight_gradient %d_p, %x : (tensor<?x?x16xbf16>, tensor<?x?x8xbf16>) -> tensor<16x8xbf16>
// CHECK-NEXT:   func.return %y, %d_x, %d_w, %d_gamma : tensor<?x?x8xbf16>, tensor<?x?x8xbf16>, tensor<16x8xbf16>, tensor<4xbf16>
// CHECK-NEXT: }

// -----

// A tied embedding: its gradient is that of both uses. Targets have none.
func.func @tied(%ids: tensor<?xi64> {coda.name = "ids", coda.dims = ["M"]}, %target: tensor<?xi64> {coda.name = "target", coda.dims = ["M"]}, %table: tensor<100x8xbf16> {coda.name = "table", coda.dims = [100, 8], coda.weight}) -> (tensor<f32> {coda.name = "loss"}) {
  %x = coda.embedding %ids, %table : (tensor<?xi64>, tensor<100x8xbf16>) -> tensor<?x8xbf16>
  %z = coda.linear %x, %table : (tensor<?x8xbf16>, tensor<100x8xbf16>) -> tensor<?x100xbf16>
  %c = coda.softcap %z {cap = 30.0 : f64} : (tensor<?x100xbf16>) -> tensor<?x100xbf16>
  %loss = coda.cross_entropy %c, %target {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x100xbf16>, tensor<?xi64>) -> tensor<f32>
  func.return %loss : tensor<f32>
}

// CHECK:      func.func private @tied_joint(%ids: tensor<?xi64> {coda.name = "ids", coda.dims = ["M"]}, %target: tensor<?xi64> {coda.name = "target", coda.dims = ["M"]}, %table: tensor<100x8xbf16> {coda.name = "table", coda.dims = [100 : i64, 8 : i64], coda.weight}, %d_loss: tensor<f32> {coda.name = "d_loss", coda.dims = []}) -> (tensor<f32> {coda.name = "loss"}, tensor<100x8xbf16> {coda.name = "d_table", coda.dims = [100 : i64, 8 : i64], coda.own}) attributes {coda.joint = {arguments = 3 : i64, results = 1 : i64, wrt = ["table"]}} {
// CHECK-NEXT:   %x = coda.embedding %ids, %table : (tensor<?xi64>, tensor<100x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %z = coda.linear %x, %table : (tensor<?x8xbf16>, tensor<100x8xbf16>) -> tensor<?x100xbf16>
// CHECK-NEXT:   %c = coda.softcap %z {cap = 3.000000e+01 : f64} : (tensor<?x100xbf16>) -> tensor<?x100xbf16>
// CHECK-NEXT:   %c_1 = coda.stored %c : (tensor<?x100xbf16>) -> tensor<?x100xbf16>
// CHECK-NEXT:   %loss, %lse, %lse_rest = coda.cross_entropy %c_1, %target {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x100xbf16>, tensor<?xi64>) -> (tensor<f32>, tensor<?x1xf32>, tensor<?x1xf32>)
// CHECK-NEXT:   %d_c = coda.cross_entropy_grad %c_1, %target, %d_loss, %lse, %lse_rest {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x100xbf16>, tensor<?xi64>, tensor<f32>, tensor<?x1xf32>, tensor<?x1xf32>) -> tensor<?x100xbf16>
// CHECK-NEXT:   %0 = coda.constant {value = 3.000000e+01 : f64} : tensor<bf16>
// CHECK-NEXT:   %1 = coda.div %c, %0 : (tensor<?x100xbf16>, tensor<bf16>) -> tensor<?x100xbf16>
// CHECK-NEXT:   %d_z = coda.activation_grad %1, %d_c {activation = "tanh"} : (tensor<?x100xbf16>, tensor<?x100xbf16>) -> tensor<?x100xbf16>
// CHECK-NEXT:   %d_x = coda.matmul %d_z, %table : (tensor<?x100xbf16>, tensor<100x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %2 = coda.weight_gradient %d_z, %x : (tensor<?x100xbf16>, tensor<?x8xbf16>) -> tensor<100x8xbf16>
// CHECK-NEXT:   %3 = coda.embedding_grad %ids, %d_x : (tensor<?xi64>, tensor<?x8xbf16>) -> tensor<100x8xbf16>
// CHECK-NEXT:   %d_table = coda.add %2, %3 : (tensor<100x8xbf16>, tensor<100x8xbf16>) -> tensor<100x8xbf16>
// CHECK-NEXT:   func.return %loss, %d_table : tensor<f32>, tensor<100x8xbf16>
// CHECK-NEXT: }

// -----

// A sum over what was broadcast, a call of PyTorch, and two results.
func.func @call(%x: tensor<?x8xf32> {coda.name = "x", coda.dims = ["M", 8]}, %row: tensor<8xf32> {coda.name = "row"}, %i: tensor<?x8xi64> {coda.name = "i", coda.dims = ["M", 8]}) -> (tensor<?x8xf32> {coda.name = "y"}, tensor<?x1xf32> {coda.name = "m"}) {
  %a = coda.mul %x, %row : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  %y = torch.call "aten.gather.default"(%a, %i) {arguments = "{0}, 0, {1}"} : (tensor<?x8xf32>, tensor<?x8xi64>) -> tensor<?x8xf32>
  %m = coda.reduce %a {kind = "mean"} : (tensor<?x8xf32>) -> tensor<?x1xf32>
  func.return %y, %m : tensor<?x8xf32>, tensor<?x1xf32>
}

// CHECK:      func.func private @call_joint(%x: tensor<?x8xf32> {coda.name = "x", coda.dims = ["M", 8 : i64]}, %row: tensor<8xf32> {coda.name = "row"}, %i: tensor<?x8xi64> {coda.name = "i", coda.dims = ["M", 8 : i64]}, %d_y: tensor<?x8xf32> {coda.name = "d_y"}, %d_m: tensor<?x1xf32> {coda.name = "d_m", coda.dims = ["M", 1 : i64]}) -> (tensor<?x8xf32> {coda.name = "y"}, tensor<?x1xf32> {coda.name = "m"}, tensor<?x8xf32> {coda.name = "d_x", coda.dims = ["M", 8 : i64], coda.own}, tensor<8xf32> {coda.name = "d_row", coda.own}) attributes {coda.joint = {arguments = 3 : i64, results = 2 : i64, wrt = ["x", "row"]}} {
// CHECK-NEXT:   %a = coda.mul %x, %row : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %y = torch.call "aten.gather.default"(%a, %i) {arguments = "{0}, 0, {1}"} : (tensor<?x8xf32>, tensor<?x8xi64>) -> tensor<?x8xf32>
// CHECK-NEXT:   %m = coda.reduce %a {kind = "mean"} : (tensor<?x8xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %0 = coda.constant {value = 1.250000e-01 : f64} : tensor<f32>
// CHECK-NEXT:   %1 = coda.mul %d_m, %0 : (tensor<?x1xf32>, tensor<f32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %2 = torch.call "aten.new_zeros.default"(%d_y, %a) {arguments = "{0}, [size({1}, 0), 8]"} : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %3 = torch.call "aten.scatter_add.default"(%2, %i, %d_y) {arguments = "{0}, 0, {1}, {2}"} : (tensor<?x8xf32>, tensor<?x8xi64>, tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %d_a = coda.add %1, %3 : (tensor<?x1xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %d_x = coda.mul %d_a, %row : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %4 = coda.mul %d_a, %x : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %d_row = coda.sum_to %4 : (tensor<?x8xf32>) -> tensor<8xf32>
// CHECK-NEXT:   func.return %y, %m, %d_x, %d_row : tensor<?x8xf32>, tensor<?x1xf32>, tensor<?x8xf32>, tensor<8xf32>
// CHECK-NEXT: }

// -----

// A call of PyTorch without a rule runs again.
func.func @again(%x: tensor<?x8xf32> {coda.name = "x", coda.dims = ["M", 8]}) -> (tensor<?x8xf32> {coda.name = "y"}) {
  %y = torch.call "aten.logcumsumexp.default"(%x) {arguments = "{0}, 1"} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  func.return %y : tensor<?x8xf32>
}

// CHECK:      func.func private @again_joint(
// CHECK-NEXT:   %y = torch.call "aten.logcumsumexp.default"(%x) {arguments = "{0}, 1"} : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %d_x = torch.vjp "aten.logcumsumexp.default"(%x : tensor<?x8xf32>) of(%d_y : tensor<?x8xf32>) {arguments = "{0}, 1", of = [0 : i64], wrt = [0 : i64]} -> tensor<?x8xf32>
// CHECK-NEXT:   func.return %y, %d_x : tensor<?x8xf32>, tensor<?x8xf32>
// CHECK-NEXT: }

// -----

// Attention of heads that are no columns: the logsumexp of its scores is kept for its derivative.
func.func @heads(%q: tensor<?x4x?x24xbf16> {coda.name = "q", coda.dims = ["B", 4, "T", 24]}, %k: tensor<?x4x?x24xbf16> {coda.name = "k", coda.dims = ["B", 4, "T", 24]}, %v: tensor<?x4x?x16xbf16> {coda.name = "v", coda.dims = ["B", 4, "T", 16]}, %m: tensor<?x?xbf16> {coda.name = "m", coda.dims = ["T", "T"]}) -> (tensor<?x4x?x16xbf16> {coda.name = "y"}) {
  %y = torch.call "aten.scaled_dot_product_attention.default"(%q, %k, %v, %m) {arguments = "{0}, {1}, {2}, {3}, scale=0.25"} : (tensor<?x4x?x24xbf16>, tensor<?x4x?x24xbf16>, tensor<?x4x?x16xbf16>, tensor<?x?xbf16>) -> tensor<?x4x?x16xbf16>
  func.return %y : tensor<?x4x?x16xbf16>
}

// CHECK:      func.func private @heads_joint(%q: tensor<?x4x?x24xbf16> {coda.name = "q", coda.dims = ["B", 4 : i64, "T", 24 : i64]}, %k: tensor<?x4x?x24xbf16> {coda.name = "k", coda.dims = ["B", 4 : i64, "T", 24 : i64]}, %v: tensor<?x4x?x16xbf16> {coda.name = "v", coda.dims = ["B", 4 : i64, "T", 16 : i64]}, %m: tensor<?x?xbf16> {coda.name = "m", coda.dims = ["T", "T"]}, %d_y: tensor<?x4x?x16xbf16> {coda.name = "d_y", coda.dims = ["B", 4 : i64, "T", 16 : i64]}) -> (tensor<?x4x?x16xbf16> {coda.name = "y"}, tensor<?x4x?x24xbf16> {coda.name = "d_q", coda.dims = ["B", 4 : i64, "T", 24 : i64], coda.own}, tensor<?x4x?x24xbf16> {coda.name = "d_k", coda.dims = ["B", 4 : i64, "T", 24 : i64], coda.own}, tensor<?x4x?x16xbf16> {coda.name = "d_v", coda.dims = ["B", 4 : i64, "T", 16 : i64], coda.own}, tensor<?x?xbf16> {coda.name = "d_m", coda.dims = ["T", "T"], coda.own}) attributes {coda.joint = {arguments = 4 : i64, results = 1 : i64, wrt = ["q", "k", "v", "m"]}} {
// CHECK-NEXT:   %y, %y_lse = torch.call "aten._scaled_dot_product_fused_attention_overrideable.default"(%q, %k, %v, %m) {arguments = "{0}, {1}, {2}, {3}, 0.0, False, scale=0.25", positions = [0 : i64, 1 : i64]} : (tensor<?x4x?x24xbf16>, tensor<?x4x?x24xbf16>, tensor<?x4x?x16xbf16>, tensor<?x?xbf16>) -> (tensor<?x4x?x16xbf16>, tensor<?x4x?xf32>)
// CHECK-NEXT:   %d_q, %d_k, %d_v, %d_m = torch.call "aten._scaled_dot_product_fused_attention_overrideable_backward.default"(%d_y, %q, %k, %v, %m, %y, %y_lse) {arguments = "{0}, {1}, {2}, {3}, {4}, [True, True, True, True], {5}, {6}, None, None, 0, 0, 0.0, False, None, None, scale=0.25", positions = [0 : i64, 1 : i64, 2 : i64, 3 : i64]} : (tensor<?x4x?x16xbf16>, tensor<?x4x?x24xbf16>, tensor<?x4x?x24xbf16>, tensor<?x4x?x16xbf16>, tensor<?x?xbf16>, tensor<?x4x?x16xbf16>, tensor<?x4x?xf32>) -> (tensor<?x4x?x24xbf16>, tensor<?x4x?x24xbf16>, tensor<?x4x?x16xbf16>, tensor<?x?xbf16>)
// CHECK-NEXT:   func.return %y, %d_q, %d_k, %d_v, %d_m : tensor<?x4x?x16xbf16>, tensor<?x4x?x24xbf16>, tensor<?x4x?x24xbf16>, tensor<?x4x?x16xbf16>, tensor<?x?xbf16>
// CHECK-NEXT: }

// -----

// No gradient goes through a detached value, nor to what it alone depends on.
func.func @detached(%x: tensor<4x8xf32> {coda.name = "x"}, %t: tensor<4x8xf32> {coda.name = "t"}) -> (tensor<4x8xf32> {coda.name = "y"}) {
  %s = coda.mul %x, %t : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %c = coda.detach %s : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = coda.mul %x, %c : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  func.return %y : tensor<4x8xf32>
}

// CHECK:      func.func private @detached_joint(
// CHECK-SAME:   attributes {coda.joint = {arguments = 2 : i64, results = 1 : i64, wrt = ["x"]}} {
// CHECK-NEXT:   %s = coda.mul %x, %t : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK-NEXT:   %y = coda.mul %x, %s : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK-NEXT:   %d_x = coda.mul %d_y, %s : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK-NEXT:   func.return %y, %d_x : tensor<4x8xf32>, tensor<4x8xf32>
// CHECK-NEXT: }

// -----

// A copy takes its elements from the second operand, and nothing but a shape from the first one.
func.func @copied(%x: tensor<4x8xf32> {coda.name = "x"}, %row: tensor<8xf32> {coda.name = "row"}) -> (tensor<4x8xf32> {coda.name = "y"}) {
  %y = torch.call "aten.copy.default"(%x, %row) {arguments = "{0}, {1}"} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  func.return %y : tensor<4x8xf32>
}

// CHECK:      func.func private @copied_joint(%x: tensor<4x8xf32> {coda.name = "x"}, %row: tensor<8xf32> {coda.name = "row"}, %d_y: tensor<4x8xf32> {coda.name = "d_y", coda.dims = [4 : i64, 8 : i64]}) -> (tensor<4x8xf32> {coda.name = "y"}, tensor<8xf32> {coda.name = "d_row", coda.own}) attributes {coda.joint = {arguments = 2 : i64, results = 1 : i64, wrt = ["row"]}} {
// CHECK-NEXT:   %y = torch.call "aten.copy.default"(%x, %row) {arguments = "{0}, {1}"} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
// CHECK-NEXT:   %d_row = coda.sum_to %d_y : (tensor<4x8xf32>) -> tensor<8xf32>
// CHECK-NEXT:   func.return %y, %d_row : tensor<4x8xf32>, tensor<8xf32>
// CHECK-NEXT: }

// -----

// A convolution is not run again: its gradients need its operands alone.
func.func @convolution(%x: tensor<?x3x16x16xf32> {coda.name = "x", coda.dims = ["B", 3, 16, 16]}, %w: tensor<8x3x4x4xf32> {coda.name = "w"}, %b: tensor<8xf32> {coda.name = "b"}) -> (tensor<?x8x4x4xf32> {coda.name = "y"}) {
  %y = torch.call "aten.conv2d.default"(%x, %w, %b) {arguments = "{0}, {1}, {2}, [4, 4]"} : (tensor<?x3x16x16xf32>, tensor<8x3x4x4xf32>, tensor<8xf32>) -> tensor<?x8x4x4xf32>
  func.return %y : tensor<?x8x4x4xf32>
}

// CHECK:      func.func private @convolution_joint(%x: tensor<?x3x16x16xf32> {coda.name = "x", coda.dims = ["B", 3 : i64, 16 : i64, 16 : i64]}, %w: tensor<8x3x4x4xf32> {coda.name = "w"}, %b: tensor<8xf32> {coda.name = "b"}, %d_y: tensor<?x8x4x4xf32> {coda.name = "d_y"}) -> (tensor<?x8x4x4xf32> {coda.name = "y"}, tensor<?x3x16x16xf32> {coda.name = "d_x", coda.dims = ["B", 3 : i64, 16 : i64, 16 : i64], coda.own}, tensor<8x3x4x4xf32> {coda.name = "d_w", coda.own}, tensor<8xf32> {coda.name = "d_b", coda.own}) attributes {coda.joint = {arguments = 3 : i64, results = 1 : i64, wrt = ["x", "w", "b"]}} {
// CHECK-NEXT:   %y = torch.call "aten.conv2d.default"(%x, %w, %b) {arguments = "{0}, {1}, {2}, [4, 4]"} : (tensor<?x3x16x16xf32>, tensor<8x3x4x4xf32>, tensor<8xf32>) -> tensor<?x8x4x4xf32>
// CHECK-NEXT:   %d_x, %d_w, %d_b = torch.call "aten.convolution_backward.default"(%d_y, %x, %w) {arguments = "{0}, {1}, {2}, [8], [4, 4], [0, 0], [1, 1], False, [0, 0], 1, [True, True, True]", positions = [0 : i64, 1 : i64, 2 : i64]} : (tensor<?x8x4x4xf32>, tensor<?x3x16x16xf32>, tensor<8x3x4x4xf32>) -> (tensor<?x3x16x16xf32>, tensor<8x3x4x4xf32>, tensor<8xf32>)
// CHECK-NEXT:   func.return %y, %d_x, %d_w, %d_b : tensor<?x8x4x4xf32>, tensor<?x3x16x16xf32>, tensor<8x3x4x4xf32>, tensor<8xf32>
// CHECK-NEXT: }

// -----

// A softmax that is only used in bfloat16: its gradient reads the rounded weights, and subtracts the sum once more.
func.func @rounded_weights(%x: tensor<?x8xf32> {coda.name = "x", coda.dims = ["M", 8]}) -> (tensor<?x8xbf16> {coda.name = "y", coda.dims = ["M", 8]}) {
  %p = coda.softmax %x : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %y = coda.cast %p : (tensor<?x8xf32>) -> tensor<?x8xbf16>
  func.return %y : tensor<?x8xbf16>
}

// CHECK:      func.func private @rounded_weights_joint(
// CHECK-NEXT:   %p = coda.softmax %x : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %y = coda.cast %p : (tensor<?x8xf32>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %d_y_1 = coda.cast %d_y : (tensor<?x8xbf16>) -> tensor<?x8xf32>
// CHECK-NEXT:   %y_1 = coda.cast %y : (tensor<?x8xbf16>) -> tensor<?x8xf32>
// CHECK-NEXT:   %0 = coda.mul %y_1, %d_y_1 : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %1 = coda.reduce %0 {kind = "sum"} : (tensor<?x8xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %2 = coda.sub %d_y_1, %1 : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %3 = coda.mul %y_1, %2 : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %4 = coda.reduce %3 {kind = "sum"} : (tensor<?x8xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %5 = coda.sub %2, %4 : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %d_x = coda.mul %y_1, %5 : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

// -----

// It reads those in float32 if the function returns them as well.
func.func @wide_weights(%x: tensor<?x8xf32> {coda.name = "x", coda.dims = ["M", 8]}) -> (tensor<?x8xbf16> {coda.name = "y", coda.dims = ["M", 8]}, tensor<?x8xf32> {coda.name = "p", coda.dims = ["M", 8]}) {
  %p = coda.softmax %x : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %y = coda.cast %p : (tensor<?x8xf32>) -> tensor<?x8xbf16>
  func.return %y, %p : tensor<?x8xbf16>, tensor<?x8xf32>
}

// CHECK:      func.func private @wide_weights_joint(
// CHECK-NEXT:   %p = coda.softmax %x : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %y = coda.cast %p : (tensor<?x8xf32>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %d_y_1 = coda.cast %d_y : (tensor<?x8xbf16>) -> tensor<?x8xf32>
// CHECK-NEXT:   %d_p_1 = coda.add %d_p, %d_y_1 : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %0 = coda.mul %p, %d_p_1 : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %1 = coda.reduce %0 {kind = "sum"} : (tensor<?x8xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %2 = coda.sub %d_p_1, %1 : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %d_x = coda.mul %p, %2 : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

// -----

// Rows are added up by number, as those of an embedding; negative numbers count from the end.
func.func @rows_by_number(%x: tensor<9x4x10xf32> {coda.name = "x"}, %ids: tensor<?xi64> {coda.name = "ids", coda.dims = ["M"]}) -> (tensor<?x4x10xf32> {coda.name = "y", coda.dims = ["M", 4, 10]}) {
  %y = coda.index %x, %ids {dim = 0} : (tensor<9x4x10xf32>, tensor<?xi64>) -> tensor<?x4x10xf32>
  func.return %y : tensor<?x4x10xf32>
}

// CHECK:      func.func private @rows_by_number_joint(
// CHECK-NEXT:   %y = coda.index %x, %ids {dim = 0 : i64} : (tensor<9x4x10xf32>, tensor<?xi64>) -> tensor<?x4x10xf32>
// CHECK-NEXT:   %0 = coda.constant {value = 0 : i64} : tensor<i64>
// CHECK-NEXT:   %1 = coda.constant {value = 9 : i64} : tensor<i64>
// CHECK-NEXT:   %2 = coda.compare %ids, %0 {relation = "lt"} : (tensor<?xi64>, tensor<i64>) -> tensor<?xi1>
// CHECK-NEXT:   %3 = coda.add %ids, %1 : (tensor<?xi64>, tensor<i64>) -> tensor<?xi64>
// CHECK-NEXT:   %4 = coda.where %2, %3, %ids : (tensor<?xi1>, tensor<?xi64>, tensor<?xi64>) -> tensor<?xi64>
// CHECK-NEXT:   %5 = coda.reshape %d_y : (tensor<?x4x10xf32>) -> tensor<?x40xf32>
// CHECK-NEXT:   %6 = coda.embedding_grad %4, %5 : (tensor<?xi64>, tensor<?x40xf32>) -> tensor<9x40xf32>
// CHECK-NEXT:   %d_x = coda.reshape %6 : (tensor<9x40xf32>) -> tensor<9x4x10xf32>
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

// -----

// The even and odd columns of a projection: their gradients take turns again.
func.func @turns(%p: tensor<?x?x16xf32> {coda.name = "p", coda.dims = ["B", "T", 16]}) -> tensor<?x?x8xf32> {
  %g = torch.call "aten.slice.Tensor"(%p) {arguments = "{0}, 2, 0, 16, 2", view, coda.dims = ["B", "T", 8 : i64]} : (tensor<?x?x16xf32>) -> tensor<?x?x8xf32>
  %u = torch.call "aten.slice.Tensor"(%p) {arguments = "{0}, 2, 1, 16, 2", view, coda.dims = ["B", "T", 8 : i64]} : (tensor<?x?x16xf32>) -> tensor<?x?x8xf32>
  %y = coda.mul %g, %u : (tensor<?x?x8xf32>, tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
  func.return %y : tensor<?x?x8xf32>
}

// CHECK:      func.func private @turns_joint(%p: tensor<?x?x16xf32> {coda.name = "p", coda.dims = ["B", "T", 16 : i64]}, %d_result0: tensor<?x?x8xf32> {coda.name = "d_result0", coda.dims = ["B", "T", 8 : i64]}) -> (tensor<?x?x8xf32> {coda.name = "result0"}, tensor<?x?x16xf32> {coda.name = "d_p", coda.dims = ["B", "T", 16 : i64], coda.own}) attributes {coda.joint = {arguments = 1 : i64, results = 1 : i64, wrt = ["p"]}} {
// CHECK-NEXT:   %g = torch.call "aten.slice.Tensor"(%p) {coda.dims = ["B", "T", 8 : i64], arguments = "{0}, 2, 0, 16, 2", view} : (tensor<?x?x16xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %u = torch.call "aten.slice.Tensor"(%p) {coda.dims = ["B", "T", 8 : i64], arguments = "{0}, 2, 1, 16, 2", view} : (tensor<?x?x16xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %y = coda.mul %g, %u : (tensor<?x?x8xf32>, tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %d_g = coda.mul %d_result0, %u : (tensor<?x?x8xf32>, tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %d_u = coda.mul %d_result0, %g : (tensor<?x?x8xf32>, tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %0 = coda.reshape %d_u {coda.dims = ["B", "T", 8 : i64, 1 : i64]} : (tensor<?x?x8xf32>) -> tensor<?x?x8x1xf32>
// CHECK-NEXT:   %1 = coda.reshape %d_g {coda.dims = ["B", "T", 8 : i64, 1 : i64]} : (tensor<?x?x8xf32>) -> tensor<?x?x8x1xf32>
// CHECK-NEXT:   %2 = coda.concat %1, %0 {dim = 3 : i64} : (tensor<?x?x8x1xf32>, tensor<?x?x8x1xf32>) -> tensor<?x?x8x2xf32>
// CHECK-NEXT:   %d_p = coda.reshape %2 {coda.dims = ["B", "T", 16 : i64]} : (tensor<?x?x8x2xf32>) -> tensor<?x?x16xf32>
// CHECK-NEXT:   func.return %y, %d_p : tensor<?x?x8xf32>, tensor<?x?x16xf32>
// CHECK-NEXT: }

// -----

// A scale of heads: its gradient adds up the rows of all samples without their sum. That of an
// operand with columns reads the sum over samples, and so does eager-exact, in which the sum is
// rounded.

func.func @scaled_heads(%x: tensor<2x3x4x8xbf16> {coda.name = "x"}, %s: tensor<3x1x1xbf16> {coda.name = "s"}, %c: tensor<4x8xbf16> {coda.name = "c"}) -> tensor<2x3x4x8xbf16> {
  %p = coda.mul %s, %c : (tensor<3x1x1xbf16>, tensor<4x8xbf16>) -> tensor<3x4x8xbf16>
  %y = coda.add %x, %p : (tensor<2x3x4x8xbf16>, tensor<3x4x8xbf16>) -> tensor<2x3x4x8xbf16>
  func.return %y : tensor<2x3x4x8xbf16>
}

// CHECK:      func.func private @scaled_heads_joint(
// CHECK-NEXT:   %p = coda.mul %s, %c : (tensor<3x1x1xbf16>, tensor<4x8xbf16>) -> tensor<3x4x8xbf16>
// CHECK-NEXT:   %y = coda.add %x, %p : (tensor<2x3x4x8xbf16>, tensor<3x4x8xbf16>) -> tensor<2x3x4x8xbf16>
// CHECK-NEXT:   %d_p = coda.sum_to %d_result0 : (tensor<2x3x4x8xbf16>) -> tensor<3x4x8xbf16>
// CHECK-NEXT:   %0 = coda.mul %d_result0, %c : (tensor<2x3x4x8xbf16>, tensor<4x8xbf16>) -> tensor<2x3x4x8xbf16>
// CHECK-NEXT:   %d_s = coda.reduce %0 {kind = "sum"} : (tensor<2x3x4x8xbf16>) -> tensor<2x3x4x1xf32>
// CHECK-NEXT:   %d_s_1 = coda.sum_to %d_s : (tensor<2x3x4x1xf32>) -> tensor<3x1x1xbf16>
// CHECK-NEXT:   %1 = coda.mul %d_p, %s : (tensor<3x4x8xbf16>, tensor<3x1x1xbf16>) -> tensor<3x4x8xbf16>
// CHECK-NEXT:   %d_c = coda.sum_to %1 : (tensor<3x4x8xbf16>) -> tensor<4x8xbf16>
// CHECK-NEXT:   func.return %y, %d_result0, %d_s_1, %d_c : tensor<2x3x4x8xbf16>, tensor<2x3x4x8xbf16>, tensor<3x1x1xbf16>, tensor<4x8xbf16>
// CHECK-NEXT: }

// -----

func.func @exact(%x: tensor<2x3x4x8xbf16> {coda.name = "x"}, %s: tensor<3x1x1xbf16> {coda.name = "s"}, %c: tensor<4x8xbf16> {coda.name = "c"}) -> tensor<2x3x4x8xbf16> attributes {coda.numerics = #gemm.numerics<"eager-exact">} {
  %p = coda.mul %s, %c : (tensor<3x1x1xbf16>, tensor<4x8xbf16>) -> tensor<3x4x8xbf16>
  %y = coda.add %x, %p : (tensor<2x3x4x8xbf16>, tensor<3x4x8xbf16>) -> tensor<2x3x4x8xbf16>
  func.return %y : tensor<2x3x4x8xbf16>
}

// CHECK:      func.func private @exact_joint(
// CHECK-NEXT:   %p = coda.mul %s, %c : (tensor<3x1x1xbf16>, tensor<4x8xbf16>) -> tensor<3x4x8xbf16>
// CHECK-NEXT:   %y = coda.add %x, %p : (tensor<2x3x4x8xbf16>, tensor<3x4x8xbf16>) -> tensor<2x3x4x8xbf16>
// CHECK-NEXT:   %d_p = coda.sum_to %d_result0 : (tensor<2x3x4x8xbf16>) -> tensor<3x4x8xbf16>
// CHECK-NEXT:   %0 = coda.mul %d_p, %c : (tensor<3x4x8xbf16>, tensor<4x8xbf16>) -> tensor<3x4x8xbf16>
// CHECK-NEXT:   %d_s = coda.reduce %0 {kind = "sum"} : (tensor<3x4x8xbf16>) -> tensor<3x4x1xf32>
// CHECK-NEXT:   %d_s_1 = coda.sum_to %d_s : (tensor<3x4x1xf32>) -> tensor<3x1x1xbf16>
// CHECK-NEXT:   %1 = coda.mul %d_p, %s : (tensor<3x4x8xbf16>, tensor<3x1x1xbf16>) -> tensor<3x4x8xbf16>
// CHECK-NEXT:   %d_c = coda.sum_to %1 : (tensor<3x4x8xbf16>) -> tensor<4x8xbf16>
// CHECK-NEXT:   func.return %y, %d_result0, %d_s_1, %d_c : tensor<2x3x4x8xbf16>, tensor<2x3x4x8xbf16>, tensor<3x1x1xbf16>, tensor<4x8xbf16>
// CHECK-NEXT: }

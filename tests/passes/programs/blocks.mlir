// Norms, heads, rotations, gates and losses in unusual combinations.

func.func @two_norms_of_one_x(%x: tensor<?x8xbf16>, %w: tensor<8x8xbf16>, %g: tensor<8xbf16>, %h: tensor<8xbf16>, %b: tensor<8xbf16>, %v: tensor<16x8xbf16>, %u: tensor<8x12xbf16>) -> (tensor<?x16xbf16>, tensor<?x12xbf16>, tensor<?x8xbf16>) {
  %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  %n = coda.rms_norm %z, %g {eps = 1.0e-6 : f64} : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %m = coda.layer_norm %z, %h, %b {eps = 1.0e-5 : f64} : (tensor<?x8xbf16>, tensor<8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %o = coda.rms_norm %z {eps = 1.0e-6 : f64} : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %a = coda.linear %n, %v : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %c = coda.matmul %m, %u : (tensor<?x8xbf16>, tensor<8x12xbf16>) -> tensor<?x12xbf16>
  func.return %a, %c, %o : tensor<?x16xbf16>, tensor<?x12xbf16>, tensor<?x8xbf16>
}

// -----

func.func @norm_of_norm(%x: tensor<?x8xbf16>, %w: tensor<8x8xbf16>, %g: tensor<8xbf16>, %v: tensor<4x8xbf16>, %b: tensor<4xbf16>) -> tensor<?x4xbf16> {
  %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  %n = coda.rms_norm %z, %g {eps = 1.0e-6 : f64} : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %m = coda.rms_norm %n, %g {eps = 1.0e-6 : f64} : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %a = coda.linear %m, %v, %b : (tensor<?x8xbf16>, tensor<4x8xbf16>, tensor<4xbf16>) -> tensor<?x4xbf16>
  func.return %a : tensor<?x4xbf16>
}

// -----

func.func @norm_consumed_twice_by_one_gemm(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>, %g: tensor<8xf32>) -> tensor<8x8xf32> {
  %z = coda.linear %x, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %n = coda.rms_norm %z, %g {eps = 1.0e-6 : f64} : (tensor<8x8xf32>, tensor<8xf32>) -> tensor<8x8xf32>
  %a = coda.linear %n, %n : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  func.return %a : tensor<8x8xf32>
}

// -----

func.func @norm_as_weight_and_bias(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>, %g: tensor<8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %z = coda.linear %x, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %n = coda.rms_norm %z, %g {eps = 1.0e-6 : f64} : (tensor<8x8xf32>, tensor<8xf32>) -> tensor<8x8xf32>
  %a = coda.matmul %x, %n : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %m = coda.layer_norm %z, %g {eps = 1.0e-6 : f64} : (tensor<8x8xf32>, tensor<8xf32>) -> tensor<8x8xf32>
  %b = coda.add %a, %m : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %c = coda.linear %m, %w, %g : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<8x8xf32>
  func.return %b, %c : tensor<8x8xf32>, tensor<8x8xf32>
}

// -----

func.func @layer_norm_of_pointwise(%x: tensor<?x?x8xbf16>, %y: tensor<?x?x8xbf16>, %g: tensor<8xbf16>, %b: tensor<8xbf16>, %w: tensor<16x8xbf16>, %c: tensor<16xbf16>) -> (tensor<?x?x16xbf16>, tensor<?x?x8xbf16>) {
  %s = coda.add %x, %y : (tensor<?x?x8xbf16>, tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>
  %n = coda.layer_norm %s, %g, %b {eps = 1.0e-5 : f64} : (tensor<?x?x8xbf16>, tensor<8xbf16>, tensor<8xbf16>) -> tensor<?x?x8xbf16>
  %z = coda.linear %n, %w, %c : (tensor<?x?x8xbf16>, tensor<16x8xbf16>, tensor<16xbf16>) -> tensor<?x?x16xbf16>
  func.return %z, %s : tensor<?x?x16xbf16>, tensor<?x?x8xbf16>
}

// -----

func.func @norm_of_glu(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %g: tensor<8xbf16>, %v: tensor<4x8xbf16>) -> tensor<?x4xbf16> {
  %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %a = coda.glu %z {activation = "tanh"} : (tensor<?x16xbf16>) -> tensor<?x8xbf16>
  %n = coda.rms_norm %a, %g {eps = 1.0e-6 : f64} : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %d = coda.linear %n, %v : (tensor<?x8xbf16>, tensor<4x8xbf16>) -> tensor<?x4xbf16>
  func.return %d : tensor<?x4xbf16>
}

// -----

func.func @norm_of_gated_siblings(%x: tensor<?x8xbf16>, %w: tensor<8x8xbf16>, %u: tensor<8x8xbf16>, %g: tensor<8xbf16>, %b: tensor<8xbf16>, %v: tensor<4x8xbf16>) -> tensor<?x4xbf16> {
  %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  %s = coda.sigmoid %z : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %y = coda.linear %x, %u, %b : (tensor<?x8xbf16>, tensor<8x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %a = coda.mul %y, %s : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %n = coda.layer_norm %a, %g, %b {eps = 1.0e-6 : f64} : (tensor<?x8xbf16>, tensor<8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %d = coda.linear %n, %v : (tensor<?x8xbf16>, tensor<4x8xbf16>) -> tensor<?x4xbf16>
  func.return %d : tensor<?x4xbf16>
}

// -----

func.func @norm_of_argument_and_of_softmax(%x: tensor<?x8xbf16>, %g: tensor<8xbf16>, %w: tensor<8x8xbf16>) -> tensor<?x8xbf16> {
  %n = coda.rms_norm %x, %g {eps = 1.0e-6 : f64} : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %z = coda.linear %n, %w : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  %s = coda.softmax %z : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %m = coda.layer_norm %s, %g {eps = 1.0e-6 : f64} : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %y = coda.linear %m, %w : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  func.return %y : tensor<?x8xbf16>
}

// -----

func.func @qk_norm_without_rope(%x: tensor<?x8xbf16>, %w: tensor<24x8xbf16>, %g: tensor<4xbf16>) -> (tensor<?x24xbf16>, tensor<?x24xbf16>) {
  %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<24x8xbf16>) -> tensor<?x24xbf16>
  %n = coda.rms_norm %z, %g {eps = 1.0e-6 : f64, group = 4 : i64} : (tensor<?x24xbf16>, tensor<4xbf16>) -> tensor<?x24xbf16>
  %m = coda.rms_norm %n {eps = 1.0e-6 : f64, group = 6 : i64} : (tensor<?x24xbf16>) -> tensor<?x24xbf16>
  func.return %n, %m : tensor<?x24xbf16>, tensor<?x24xbf16>
}

// -----

func.func @qk_norm_of_two_heads(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %g: tensor<8xbf16>, %cos: tensor<?x4xf32>, %sin: tensor<?x4xf32>) -> tensor<?x16xbf16> {
  %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %n = coda.rms_norm %z, %g {eps = 1.0e-6 : f64, group = 8 : i64} : (tensor<?x16xbf16>, tensor<8xbf16>) -> tensor<?x16xbf16>
  %q = coda.rope %n, %cos, %sin {head_dim = 8 : i64, layout = "half_split"} : (tensor<?x16xbf16>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x16xbf16>
  func.return %q : tensor<?x16xbf16>
}

// -----

func.func @qk_norm_of_one_head(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %g: tensor<16xbf16>, %cos: tensor<?x8xf32>, %sin: tensor<?x8xf32>) -> tensor<?x16xbf16> {
  %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %n = coda.rms_norm %z, %g {eps = 1.0e-6 : f64, group = 16 : i64} : (tensor<?x16xbf16>, tensor<16xbf16>) -> tensor<?x16xbf16>
  %q = coda.rope %n, %cos, %sin {head_dim = 16 : i64, layout = "interleaved"} : (tensor<?x16xbf16>, tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x16xbf16>
  func.return %q : tensor<?x16xbf16>
}

// -----

func.func @norm_group_smaller_than_the_head(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %cos: tensor<?x4xf32>, %sin: tensor<?x4xf32>) -> tensor<?x16xbf16> {
  %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %n = coda.rms_norm %z {eps = 1.0e-6 : f64, group = 4 : i64} : (tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %q = coda.rope %n, %cos, %sin {head_dim = 8 : i64, layout = "half_split"} : (tensor<?x16xbf16>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x16xbf16>
  func.return %q : tensor<?x16xbf16>
}

// -----

func.func @norm_group_larger_than_the_head(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %cos: tensor<?x2xf32>, %sin: tensor<?x2xf32>) -> tensor<?x16xbf16> {
  %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %n = coda.rms_norm %z {eps = 1.0e-6 : f64, group = 8 : i64} : (tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %q = coda.rope %n, %cos, %sin {head_dim = 4 : i64, layout = "half_split"} : (tensor<?x16xbf16>, tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x16xbf16>
  func.return %q : tensor<?x16xbf16>
}

// -----

func.func @odd_norm_group(%x: tensor<?x8xbf16>, %w: tensor<12x8xbf16>, %cos: tensor<?x6xf32>, %sin: tensor<?x6xf32>) -> tensor<?x12xbf16> {
  %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<12x8xbf16>) -> tensor<?x12xbf16>
  %n = coda.rms_norm %z {eps = 1.0e-6 : f64, group = 3 : i64} : (tensor<?x12xbf16>) -> tensor<?x12xbf16>
  %q = coda.rope %n, %cos, %sin {head_dim = 12 : i64, layout = "interleaved"} : (tensor<?x12xbf16>, tensor<?x6xf32>, tensor<?x6xf32>) -> tensor<?x12xbf16>
  func.return %q : tensor<?x12xbf16>
}

// -----

func.func @rope_twice(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %cos: tensor<?x4xf32>, %sin: tensor<?x4xf32>) -> (tensor<?x16xbf16>, tensor<?x16xbf16>, tensor<?x16xbf16>) {
  %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %q = coda.rope %z, %cos, %sin {head_dim = 8 : i64, layout = "half_split"} : (tensor<?x16xbf16>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x16xbf16>
  %r = coda.rope %q, %sin, %cos {head_dim = 8 : i64, layout = "half_split"} : (tensor<?x16xbf16>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x16xbf16>
  %s = coda.rope %z, %cos, %sin {head_dim = 8 : i64, layout = "interleaved"} : (tensor<?x16xbf16>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x16xbf16>
  func.return %z, %r, %s : tensor<?x16xbf16>, tensor<?x16xbf16>, tensor<?x16xbf16>
}

// -----

func.func @rope_with_bias_and_residual(%x: tensor<?x?x8xbf16> {coda.dims = ["B", "T", 8]}, %w: tensor<8x16xbf16>, %b: tensor<16xbf16>, %cos: tensor<?x?x4xbf16> {coda.dims = ["B", "T", 4]}, %sin: tensor<?x?x4xbf16> {coda.dims = ["B", "T", 4]}, %r: tensor<?x?x16xbf16> {coda.dims = ["B", "T", 16]}) -> (tensor<?x?x16xbf16>, tensor<?x?x1xf32>) {
  %z0 = coda.matmul %x, %w : (tensor<?x?x8xbf16>, tensor<8x16xbf16>) -> tensor<?x?x16xbf16>
  %z = coda.add %z0, %b : (tensor<?x?x16xbf16>, tensor<16xbf16>) -> tensor<?x?x16xbf16>
  %q = coda.rope %z, %cos, %sin {head_dim = 8 : i64, layout = "interleaved"} : (tensor<?x?x16xbf16>, tensor<?x?x4xbf16>, tensor<?x?x4xbf16>) -> tensor<?x?x16xbf16>
  %y = coda.add %q, %r : (tensor<?x?x16xbf16>, tensor<?x?x16xbf16>) -> tensor<?x?x16xbf16>
  %yb = coda.mul %b, %y : (tensor<16xbf16>, tensor<?x?x16xbf16>) -> tensor<?x?x16xbf16>
  %l = coda.reduce %yb {kind = "lse"} : (tensor<?x?x16xbf16>) -> tensor<?x?x1xf32>
  func.return %yb, %l : tensor<?x?x16xbf16>, tensor<?x?x1xf32>
}

// -----

func.func @rope_by_its_own_angles(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) -> tensor<?x16xbf16> {
  %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %cos = coda.slice %z {dim = 1 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<?x16xbf16>) -> tensor<?x4xbf16>
  %sin = coda.slice %z {dim = 1 : i64, start = 4 : i64, stop = 8 : i64} : (tensor<?x16xbf16>) -> tensor<?x4xbf16>
  %q = coda.rope %z, %cos, %sin {head_dim = 8 : i64, layout = "half_split"} : (tensor<?x16xbf16>, tensor<?x4xbf16>, tensor<?x4xbf16>) -> tensor<?x16xbf16>
  func.return %q : tensor<?x16xbf16>
}

// -----

func.func @glu_then_rope(%x: tensor<?x8xbf16>, %w: tensor<32x8xbf16>, %cos: tensor<?x4xf32>, %sin: tensor<?x4xf32>) -> tensor<?x16xbf16> {
  %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<32x8xbf16>) -> tensor<?x32xbf16>
  %a = coda.glu %z {activation = "relu"} : (tensor<?x32xbf16>) -> tensor<?x16xbf16>
  %q = coda.rope %a, %cos, %sin {head_dim = 8 : i64, layout = "half_split"} : (tensor<?x16xbf16>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x16xbf16>
  func.return %q : tensor<?x16xbf16>
}

// -----

func.func @glu_of_normed_heads(%x: tensor<?x8xbf16>, %w: tensor<32x8xbf16>, %g: tensor<4xbf16>) -> tensor<?x16xbf16> {
  %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<32x8xbf16>) -> tensor<?x32xbf16>
  %n = coda.rms_norm %z, %g {eps = 1.0e-6 : f64, group = 4 : i64} : (tensor<?x32xbf16>, tensor<4xbf16>) -> tensor<?x32xbf16>
  %a = coda.glu %n {activation = "sigmoid"} : (tensor<?x32xbf16>) -> tensor<?x16xbf16>
  func.return %a : tensor<?x16xbf16>
}

// -----

func.func @glu_of_an_argument(%x: tensor<?x32xbf16>, %w: tensor<8x16xbf16>) -> tensor<?x8xbf16> {
  %a = coda.glu %x {activation = "identity"} : (tensor<?x32xbf16>) -> tensor<?x16xbf16>
  %z = coda.linear %a, %w : (tensor<?x16xbf16>, tensor<8x16xbf16>) -> tensor<?x8xbf16>
  func.return %z : tensor<?x8xbf16>
}

// -----

func.func @loss_sum_and_none(%x: tensor<?x8xbf16>, %w: tensor<10x8xbf16>, %t: tensor<?xi64>, %s: tensor<?xi32>) -> (tensor<f32>, tensor<?xf32>, tensor<?x10xbf16>) {
  %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<10x8xbf16>) -> tensor<?x10xbf16>
  %c = coda.softcap %z {cap = 30.0 : f64} : (tensor<?x10xbf16>) -> tensor<?x10xbf16>
  %l = coda.cross_entropy %c, %t {ignore_index = -100 : i64, reduction = "sum"} : (tensor<?x10xbf16>, tensor<?xi64>) -> tensor<f32>
  %m = coda.cross_entropy %c, %s {ignore_index = 3 : i64, reduction = "none"} : (tensor<?x10xbf16>, tensor<?xi32>) -> tensor<?xf32>
  func.return %l, %m, %c : tensor<f32>, tensor<?xf32>, tensor<?x10xbf16>
}

// -----

func.func @loss_scaled_and_regularized(%x: tensor<4x3x8xbf16>, %w: tensor<200x8xbf16>, %t: tensor<4x3xi64>, %beta: tensor<f32>) -> tensor<f32> {
  %z = coda.linear %x, %w : (tensor<4x3x8xbf16>, tensor<200x8xbf16>) -> tensor<4x3x200xbf16>
  %l = coda.cross_entropy %z, %t {ignore_index = -100 : i64, reduction = "mean"} : (tensor<4x3x200xbf16>, tensor<4x3xi64>) -> tensor<f32>
  %half = coda.constant {value = 0.5 : f64} : tensor<f32>
  %m = coda.mul %half, %l : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %n = coda.add %m, %beta : (tensor<f32>, tensor<f32>) -> tensor<f32>
  func.return %n : tensor<f32>
}

// -----

func.func @loss_and_logsumexp(%x: tensor<?x8xf32>, %w: tensor<200x8xf32>, %t: tensor<?xi64>) -> (tensor<?xf32>, tensor<?x1xf32>, tensor<?x1xf32>) {
  %z = coda.linear %x, %w : (tensor<?x8xf32>, tensor<200x8xf32>) -> tensor<?x200xf32>
  %l = coda.cross_entropy %z, %t {ignore_index = -100 : i64, reduction = "none"} : (tensor<?x200xf32>, tensor<?xi64>) -> tensor<?xf32>
  %s = coda.reduce %z {kind = "lse"} : (tensor<?x200xf32>) -> tensor<?x1xf32>
  %sq = coda.mul %s, %s : (tensor<?x1xf32>, tensor<?x1xf32>) -> tensor<?x1xf32>
  %m = coda.reduce %z {kind = "mean"} : (tensor<?x200xf32>) -> tensor<?x1xf32>
  func.return %l, %sq, %m : tensor<?xf32>, tensor<?x1xf32>, tensor<?x1xf32>
}

// -----

func.func @loss_of_an_argument(%z: tensor<?x10xf32>, %t: tensor<?xi64>) -> tensor<f32> {
  %l = coda.cross_entropy %z, %t {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x10xf32>, tensor<?xi64>) -> tensor<f32>
  func.return %l : tensor<f32>
}

// -----

func.func @packed_projection(%x: tensor<?x8xbf16>, %w: tensor<32x8xbf16>, %b: tensor<32xbf16>, %cos: tensor<?x4xf32>, %sin: tensor<?x4xf32>) -> (tensor<?x16xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>) {
  %z = coda.linear %x, %w, %b : (tensor<?x8xbf16>, tensor<32x8xbf16>, tensor<32xbf16>) -> tensor<?x32xbf16>
  %q0 = coda.slice %z {dim = 1 : i64, start = 0 : i64, stop = 16 : i64} : (tensor<?x32xbf16>) -> tensor<?x16xbf16>
  %k0 = coda.slice %z {dim = 1 : i64, start = 16 : i64, stop = 24 : i64} : (tensor<?x32xbf16>) -> tensor<?x8xbf16>
  %v = coda.slice %z {dim = 1 : i64, start = 24 : i64, stop = 32 : i64} : (tensor<?x32xbf16>) -> tensor<?x8xbf16>
  %q = coda.rope %q0, %cos, %sin {head_dim = 8 : i64, layout = "half_split"} : (tensor<?x16xbf16>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x16xbf16>
  %k = coda.rope %k0, %cos, %sin {head_dim = 8 : i64, layout = "half_split"} : (tensor<?x8xbf16>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x8xbf16>
  func.return %q, %k, %v : tensor<?x16xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>
}

// -----

func.func @statistics_of_statistics(%x: tensor<?x8xf32>, %w: tensor<16x8xf32>, %g: tensor<16xf32>, %k: tensor<?x1xf32>) -> (tensor<?x16xf32>, tensor<?x1xf32>) {
  %z = coda.linear %x, %w : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
  %m = coda.reduce %z {kind = "max"} : (tensor<?x16xf32>) -> tensor<?x1xf32>
  %c = coda.sub %z, %m : (tensor<?x16xf32>, tensor<?x1xf32>) -> tensor<?x16xf32>
  %e = coda.exp %c : (tensor<?x16xf32>) -> tensor<?x16xf32>
  %s = coda.reduce %e {kind = "sum"} : (tensor<?x16xf32>) -> tensor<?x1xf32>
  %t = coda.add %s, %k : (tensor<?x1xf32>, tensor<?x1xf32>) -> tensor<?x1xf32>
  %p = coda.div %e, %t : (tensor<?x16xf32>, tensor<?x1xf32>) -> tensor<?x16xf32>
  %u = coda.mul %m, %t : (tensor<?x1xf32>, tensor<?x1xf32>) -> tensor<?x1xf32>
  func.return %p, %u : tensor<?x16xf32>, tensor<?x1xf32>
}

// -----

func.func @gemma_sandwich(%y: tensor<?x8xbf16>, %x0: tensor<?x8xbf16>, %w: tensor<8x8xbf16>, %g1: tensor<8xbf16>, %g2: tensor<8xbf16>, %v: tensor<16x8xbf16>, %d: tensor<8x8xbf16>, %g3: tensor<8xbf16>) -> tensor<?x8xbf16> {
  %one = coda.constant {value = 1.0 : f64} : tensor<bf16>
  %g11 = coda.add %g1, %one : (tensor<8xbf16>, tensor<bf16>) -> tensor<8xbf16>
  %g21 = coda.add %one, %g2 : (tensor<bf16>, tensor<8xbf16>) -> tensor<8xbf16>
  %g31 = coda.add %one, %g3 : (tensor<bf16>, tensor<8xbf16>) -> tensor<8xbf16>
  %z = coda.linear %y, %w : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  %zn = coda.rms_norm %z, %g11 {eps = 1.0e-6 : f64} : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %x1 = coda.add %x0, %zn : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %h = coda.rms_norm %x1, %g21 {eps = 1.0e-6 : f64} : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %f = coda.linear %h, %v : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %a = coda.glu %f {activation = "gelu_tanh"} : (tensor<?x16xbf16>) -> tensor<?x8xbf16>
  %p = coda.linear %a, %d : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  %pn = coda.rms_norm %p, %g31 {eps = 1.0e-6 : f64} : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %x2 = coda.add %pn, %x1 : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  func.return %x2 : tensor<?x8xbf16>
}

// -----

// A norm in float32, scaled and shifted for each sample there, between GEMMs of 16 bits.

func.func @modulated_norm_in_float32(%x: tensor<2x?x8xbf16>, %w: tensor<8x8xbf16>, %s: tensor<2x1x8xf32>, %t: tensor<2x1x8xf32>, %v: tensor<16x8xbf16>) -> (tensor<2x?x16xbf16>, tensor<2x?x8xbf16>) {
  %z = coda.linear %x, %w : (tensor<2x?x8xbf16>, tensor<8x8xbf16>) -> tensor<2x?x8xbf16>
  %wide = coda.cast %z : (tensor<2x?x8xbf16>) -> tensor<2x?x8xf32>
  %n = coda.layer_norm %wide {eps = 1.0e-5 : f64} : (tensor<2x?x8xf32>) -> tensor<2x?x8xf32>
  %p = coda.mul %n, %s : (tensor<2x?x8xf32>, tensor<2x1x8xf32>) -> tensor<2x?x8xf32>
  %q = coda.add %p, %t : (tensor<2x?x8xf32>, tensor<2x1x8xf32>) -> tensor<2x?x8xf32>
  %m = coda.cast %q : (tensor<2x?x8xf32>) -> tensor<2x?x8xbf16>
  %a = coda.linear %m, %v : (tensor<2x?x8xbf16>, tensor<16x8xbf16>) -> tensor<2x?x16xbf16>
  func.return %a, %z : tensor<2x?x16xbf16>, tensor<2x?x8xbf16>
}

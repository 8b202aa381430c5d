// RUN: coda-opt %s -p move-norm-gradient-sums,dce --split-input-file | filecheck %s

// RMSNorm before two maps of one width, of which one has a bias: the mean of x̂ ⊙ (w ⊙ dh).

func.func @rms_norm(%x: tensor<?x8xbf16>, %w: tensor<8xbf16>, %wa: tensor<16x8xbf16>, %wb: tensor<8x16xbf16>, %b: tensor<16xbf16>, %da: tensor<?x16xbf16>, %db: tensor<?x16xbf16>) -> (tensor<?x16xbf16>, tensor<?x16xbf16>, tensor<?x1xf32>, tensor<?x8xbf16>) {
  %h = coda.rms_norm %x, %w {eps = 1.0e-05 : f64} : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %za = coda.linear %h, %wa, %b : (tensor<?x8xbf16>, tensor<16x8xbf16>, tensor<16xbf16>) -> tensor<?x16xbf16>
  %zb = coda.matmul %h, %wb : (tensor<?x8xbf16>, tensor<8x16xbf16>) -> tensor<?x16xbf16>
  %ga = coda.matmul %da, %wa : (tensor<?x16xbf16>, tensor<16x8xbf16>) -> tensor<?x8xbf16>
  %gb = coda.linear %db, %wb : (tensor<?x16xbf16>, tensor<8x16xbf16>) -> tensor<?x8xbf16>
  %dh = coda.add %ga, %gb : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %r = coda.norm_stats %x {kind = "rms", eps = 1.0e-05 : f64} : (tensor<?x8xbf16>) -> tensor<?x1xf32>
  %xf = coda.cast %x : (tensor<?x8xbf16>) -> tensor<?x8xf32>
  %xhat = coda.mul %xf, %r : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  %dhf = coda.cast %dh : (tensor<?x8xbf16>) -> tensor<?x8xf32>
  %wf = coda.cast %w : (tensor<8xbf16>) -> tensor<8xf32>
  %g = coda.mul %dhf, %wf : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  %p = coda.mul %g, %xhat : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %c = coda.reduce %p {kind = "mean"} : (tensor<?x8xf32>) -> tensor<?x1xf32>
  func.return %za, %zb, %c, %dh : tensor<?x16xbf16>, tensor<?x16xbf16>, tensor<?x1xf32>, tensor<?x8xbf16>
}

// CHECK:      func.func @rms_norm(%x: tensor<?x8xbf16>, %w: tensor<8xbf16>, %wa: tensor<16x8xbf16>, %wb: tensor<8x16xbf16>, %b: tensor<16xbf16>, %da: tensor<?x16xbf16>, %db: tensor<?x16xbf16>) -> (tensor<?x16xbf16>, tensor<?x16xbf16>, tensor<?x1xf32>, tensor<?x8xbf16>) {
// CHECK-NEXT:   %h = coda.rms_norm %x, %w {eps = 1.000000e-05 : f64} : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %za = coda.linear %h, %wa, %b : (tensor<?x8xbf16>, tensor<16x8xbf16>, tensor<16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %zb = coda.matmul %h, %wb : (tensor<?x8xbf16>, tensor<8x16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %ga = coda.matmul %da, %wa : (tensor<?x16xbf16>, tensor<16x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %gb = coda.linear %db, %wb : (tensor<?x16xbf16>, tensor<8x16xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %dh = coda.add %ga, %gb : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %za_1 = coda.cast %za : (tensor<?x16xbf16>) -> tensor<?x16xf32>
// CHECK-NEXT:   %b_1 = coda.cast %b : (tensor<16xbf16>) -> tensor<16xf32>
// CHECK-NEXT:   %0 = coda.sub %za_1, %b_1 : (tensor<?x16xf32>, tensor<16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %da_1 = coda.cast %da : (tensor<?x16xbf16>) -> tensor<?x16xf32>
// CHECK-NEXT:   %1 = coda.mul %0, %da_1 : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %zb_1 = coda.cast %zb : (tensor<?x16xbf16>) -> tensor<?x16xf32>
// CHECK-NEXT:   %db_1 = coda.cast %db : (tensor<?x16xbf16>) -> tensor<?x16xf32>
// CHECK-NEXT:   %2 = coda.mul %zb_1, %db_1 : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %3 = coda.add %1, %2 : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %4 = coda.reduce %3 {kind = "sum"} : (tensor<?x16xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %5 = coda.constant {value = 1.250000e-01 : f64} : tensor<f32>
// CHECK-NEXT:   %c = coda.mul %4, %5 : (tensor<?x1xf32>, tensor<f32>) -> tensor<?x1xf32>
// CHECK-NEXT:   func.return %za, %zb, %c, %dh : tensor<?x16xbf16>, tensor<?x16xbf16>, tensor<?x1xf32>, tensor<?x8xbf16>
// CHECK-NEXT: }

// -----

// A sum that lacks rstd, which is computed later, and has another scale of the rows, of a norm without
// a weight; the rotated result and its gradient take the place of z and dz.

func.func @rotated(%x: tensor<?x8xf32>, %t: tensor<?x1xf32>, %wa: tensor<16x8xf32>, %cos: tensor<?x2xf32>, %sin: tensor<?x2xf32>, %dq: tensor<?x16xf32>) -> (tensor<?x16xf32>, tensor<?x1xf32>) {
  %h = coda.rms_norm %x {eps = 1.0e-05 : f64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %z = coda.linear %h, %wa : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
  %q = coda.rope %z, %cos, %sin {head_dim = 4 : i64, layout = "half_split"} : (tensor<?x16xf32>, tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x16xf32>
  %dz = coda.rope %dq, %cos, %sin {head_dim = 4 : i64, layout = "half_split", transposed} : (tensor<?x16xf32>, tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x16xf32>
  %dh = coda.matmul %dz, %wa : (tensor<?x16xf32>, tensor<16x8xf32>) -> tensor<?x8xf32>
  %p = coda.mul %dh, %x : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %s = coda.mul %p, %t : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  %c = coda.reduce %s {kind = "sum"} : (tensor<?x8xf32>) -> tensor<?x1xf32>
  %r = coda.norm_stats %x {kind = "rms", eps = 1.0e-05 : f64} : (tensor<?x8xf32>) -> tensor<?x1xf32>
  func.return %q, %c : tensor<?x16xf32>, tensor<?x1xf32>
}

// CHECK:      func.func @rotated(%x: tensor<?x8xf32>, %t: tensor<?x1xf32>, %wa: tensor<16x8xf32>, %cos: tensor<?x2xf32>, %sin: tensor<?x2xf32>, %dq: tensor<?x16xf32>) -> (tensor<?x16xf32>, tensor<?x1xf32>) {
// CHECK-NEXT:   %h = coda.rms_norm %x {eps = 1.000000e-05 : f64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %z = coda.linear %h, %wa : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %q = coda.rope %z, %cos, %sin {head_dim = 4 : i64, layout = "half_split"} : (tensor<?x16xf32>, tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %r = coda.norm_stats %x {kind = "rms", eps = 1.000000e-05 : f64} : (tensor<?x8xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %0 = coda.mul %q, %dq : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %1 = coda.reduce %0 {kind = "sum"} : (tensor<?x16xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %2 = coda.mul %1, %t : (tensor<?x1xf32>, tensor<?x1xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %c = coda.div %2, %r : (tensor<?x1xf32>, tensor<?x1xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   func.return %q, %c : tensor<?x16xf32>, tensor<?x1xf32>
// CHECK-NEXT: }

// -----

// Both sums of a LayerNorm, whose bias does not belong to x̂ ⊙ w.

func.func @layer_norm(%x: tensor<?x8xbf16>, %w: tensor<8xbf16>, %beta: tensor<8xbf16>, %wa: tensor<16x8xbf16>, %b: tensor<16xbf16>, %dz: tensor<?x16xbf16>) -> (tensor<?x16xbf16>, tensor<?x1xf32>, tensor<?x1xf32>) {
  %h = coda.layer_norm %x, %w, %beta {eps = 1.0e-05 : f64} : (tensor<?x8xbf16>, tensor<8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %z = coda.linear %h, %wa, %b : (tensor<?x8xbf16>, tensor<16x8xbf16>, tensor<16xbf16>) -> tensor<?x16xbf16>
  %dh = coda.matmul %dz, %wa : (tensor<?x16xbf16>, tensor<16x8xbf16>) -> tensor<?x8xbf16>
  %r, %mean = coda.norm_stats %x {kind = "layer", eps = 1.0e-05 : f64} : (tensor<?x8xbf16>) -> (tensor<?x1xf32>, tensor<?x1xf32>)
  %xf = coda.cast %x : (tensor<?x8xbf16>) -> tensor<?x8xf32>
  %xc = coda.sub %xf, %mean : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  %xhat = coda.mul %xc, %r : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  %dhf = coda.cast %dh : (tensor<?x8xbf16>) -> tensor<?x8xf32>
  %wf = coda.cast %w : (tensor<8xbf16>) -> tensor<8xf32>
  %g = coda.mul %dhf, %wf : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  %first = coda.reduce %g {kind = "mean"} : (tensor<?x8xf32>) -> tensor<?x1xf32>
  %p = coda.mul %g, %xhat : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %second = coda.reduce %p {kind = "mean"} : (tensor<?x8xf32>) -> tensor<?x1xf32>
  func.return %z, %first, %second : tensor<?x16xbf16>, tensor<?x1xf32>, tensor<?x1xf32>
}

// CHECK:      func.func @layer_norm(%x: tensor<?x8xbf16>, %w: tensor<8xbf16>, %beta: tensor<8xbf16>, %wa: tensor<16x8xbf16>, %b: tensor<16xbf16>, %dz: tensor<?x16xbf16>) -> (tensor<?x16xbf16>, tensor<?x1xf32>, tensor<?x1xf32>) {
// CHECK-NEXT:   %h = coda.layer_norm %x, %w, %beta {eps = 1.000000e-05 : f64} : (tensor<?x8xbf16>, tensor<8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %z = coda.linear %h, %wa, %b : (tensor<?x8xbf16>, tensor<16x8xbf16>, tensor<16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %dz_1 = coda.cast %dz : (tensor<?x16xbf16>) -> tensor<?x16xf32>
// CHECK-NEXT:   %w_1 = gemm.pack_weight nk %wa, %w : (tensor<16x8xbf16>, tensor<8xbf16>) -> tensor<16xf32>
// CHECK-NEXT:   %0 = coda.mul %dz_1, %w_1 : (tensor<?x16xf32>, tensor<16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %1 = coda.reduce %0 {kind = "sum"} : (tensor<?x16xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %2 = coda.constant {value = 1.250000e-01 : f64} : tensor<f32>
// CHECK-NEXT:   %first = coda.mul %1, %2 : (tensor<?x1xf32>, tensor<f32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %z_1 = coda.cast %z : (tensor<?x16xbf16>) -> tensor<?x16xf32>
// CHECK-NEXT:   %b_1 = coda.cast %b : (tensor<16xbf16>) -> tensor<16xf32>
// CHECK-NEXT:   %3 = coda.sub %z_1, %b_1 : (tensor<?x16xf32>, tensor<16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %beta_1 = gemm.pack_weight nk %wa, %beta : (tensor<16x8xbf16>, tensor<8xbf16>) -> tensor<16xf32>
// CHECK-NEXT:   %4 = coda.sub %3, %beta_1 : (tensor<?x16xf32>, tensor<16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %dz_2 = coda.cast %dz : (tensor<?x16xbf16>) -> tensor<?x16xf32>
// CHECK-NEXT:   %5 = coda.mul %4, %dz_2 : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %6 = coda.reduce %5 {kind = "sum"} : (tensor<?x16xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %7 = coda.constant {value = 1.250000e-01 : f64} : tensor<f32>
// CHECK-NEXT:   %second = coda.mul %6, %7 : (tensor<?x1xf32>, tensor<f32>) -> tensor<?x1xf32>
// CHECK-NEXT:   func.return %z, %first, %second : tensor<?x16xbf16>, tensor<?x1xf32>, tensor<?x1xf32>
// CHECK-NEXT: }

// -----

// A bias that is added by an operator of its own: the forward goes on with the sum.

func.func @added_bias(%x: tensor<?x8xf32>, %wa: tensor<8x16xf32>, %b: tensor<16xf32>, %dz: tensor<?x16xf32>) -> (tensor<?x16xf32>, tensor<?x1xf32>) {
  %h = coda.rms_norm %x {eps = 1.0e-05 : f64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %z = coda.matmul %h, %wa : (tensor<?x8xf32>, tensor<8x16xf32>) -> tensor<?x16xf32>
  %y = coda.add %z, %b : (tensor<?x16xf32>, tensor<16xf32>) -> tensor<?x16xf32>
  %dh = coda.linear %dz, %wa : (tensor<?x16xf32>, tensor<8x16xf32>) -> tensor<?x8xf32>
  %r = coda.norm_stats %x {kind = "rms", eps = 1.0e-05 : f64} : (tensor<?x8xf32>) -> tensor<?x1xf32>
  %xhat = coda.mul %x, %r : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  %p = coda.mul %dh, %xhat : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %c = coda.reduce %p {kind = "sum"} : (tensor<?x8xf32>) -> tensor<?x1xf32>
  func.return %y, %c : tensor<?x16xf32>, tensor<?x1xf32>
}

// CHECK:      func.func @added_bias(
// CHECK-NEXT:   %h = coda.rms_norm %x {eps = 1.000000e-05 : f64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %z = coda.matmul %h, %wa : (tensor<?x8xf32>, tensor<8x16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %y = coda.add %z, %b : (tensor<?x16xf32>, tensor<16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %0 = coda.sub %y, %b : (tensor<?x16xf32>, tensor<16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %1 = coda.mul %0, %dz : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %c = coda.reduce %1 {kind = "sum"} : (tensor<?x16xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   func.return %y, %c : tensor<?x16xf32>, tensor<?x1xf32>
// CHECK-NEXT: }

// -----

// A low-rank adaptation: the forward goes on with the sum of both maps.

func.func @low_rank(%x: tensor<?x8xf32>, %w: tensor<16x8xf32>, %bias: tensor<16xf32>, %a: tensor<2x8xf32>, %b: tensor<16x2xf32>, %s: tensor<f32>, %dz: tensor<?x16xf32>) -> (tensor<?x16xf32>, tensor<?x1xf32>) {
  %h = coda.rms_norm %x {eps = 1.0e-05 : f64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %z = coda.linear %h, %w, %bias : (tensor<?x8xf32>, tensor<16x8xf32>, tensor<16xf32>) -> tensor<?x16xf32>
  %t = coda.linear %h, %a : (tensor<?x8xf32>, tensor<2x8xf32>) -> tensor<?x2xf32>
  %u = coda.linear %t, %b : (tensor<?x2xf32>, tensor<16x2xf32>) -> tensor<?x16xf32>
  %su = coda.mul %u, %s : (tensor<?x16xf32>, tensor<f32>) -> tensor<?x16xf32>
  %y = coda.add %z, %su : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
  %du = coda.mul %dz, %s : (tensor<?x16xf32>, tensor<f32>) -> tensor<?x16xf32>
  %dt = coda.matmul %du, %b : (tensor<?x16xf32>, tensor<16x2xf32>) -> tensor<?x2xf32>
  %g0 = coda.matmul %dz, %w : (tensor<?x16xf32>, tensor<16x8xf32>) -> tensor<?x8xf32>
  %g1 = coda.matmul %dt, %a : (tensor<?x2xf32>, tensor<2x8xf32>) -> tensor<?x8xf32>
  %dh = coda.add %g0, %g1 : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %r = coda.norm_stats %x {kind = "rms", eps = 1.0e-05 : f64} : (tensor<?x8xf32>) -> tensor<?x1xf32>
  %xhat = coda.mul %x, %r : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  %p = coda.mul %dh, %xhat : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %c = coda.reduce %p {kind = "mean"} : (tensor<?x8xf32>) -> tensor<?x1xf32>
  func.return %y, %c : tensor<?x16xf32>, tensor<?x1xf32>
}
// CHECK:      func.func @low_rank(
// CHECK-NEXT:   %h = coda.rms_norm %x {eps = 1.000000e-05 : f64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %z = coda.linear %h, %w, %bias : (tensor<?x8xf32>, tensor<16x8xf32>, tensor<16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %t = coda.linear %h, %a : (tensor<?x8xf32>, tensor<2x8xf32>) -> tensor<?x2xf32>
// CHECK-NEXT:   %u = coda.linear %t, %b : (tensor<?x2xf32>, tensor<16x2xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %su = coda.mul %u, %s : (tensor<?x16xf32>, tensor<f32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %y = coda.add %z, %su : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %0 = coda.sub %y, %bias : (tensor<?x16xf32>, tensor<16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %1 = coda.mul %0, %dz : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %2 = coda.reduce %1 {kind = "sum"} : (tensor<?x16xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %3 = coda.constant {value = 1.250000e-01 : f64} : tensor<f32>
// CHECK-NEXT:   %c = coda.mul %2, %3 : (tensor<?x1xf32>, tensor<f32>) -> tensor<?x1xf32>
// CHECK-NEXT:   func.return %y, %c : tensor<?x16xf32>, tensor<?x1xf32>
// CHECK-NEXT: }

// -----

// The same after a LayerNorm, of whose bias both maps have a share.

func.func @low_rank_layer_norm(%x: tensor<?x8xf32>, %g: tensor<8xf32>, %beta: tensor<8xf32>, %w: tensor<16x8xf32>, %a: tensor<2x8xf32>, %b: tensor<16x2xf32>, %dz: tensor<?x16xf32>) -> (tensor<?x16xf32>, tensor<?x1xf32>) {
  %h = coda.layer_norm %x, %g, %beta {eps = 1.0e-05 : f64} : (tensor<?x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  %z = coda.linear %h, %w : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
  %t = coda.linear %h, %a : (tensor<?x8xf32>, tensor<2x8xf32>) -> tensor<?x2xf32>
  %u = coda.linear %t, %b : (tensor<?x2xf32>, tensor<16x2xf32>) -> tensor<?x16xf32>
  %y = coda.add %u, %z : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
  %dt = coda.matmul %dz, %b : (tensor<?x16xf32>, tensor<16x2xf32>) -> tensor<?x2xf32>
  %g0 = coda.matmul %dz, %w : (tensor<?x16xf32>, tensor<16x8xf32>) -> tensor<?x8xf32>
  %g1 = coda.matmul %dt, %a : (tensor<?x2xf32>, tensor<2x8xf32>) -> tensor<?x8xf32>
  %dh = coda.add %g0, %g1 : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %r, %mean = coda.norm_stats %x {kind = "layer", eps = 1.0e-05 : f64} : (tensor<?x8xf32>) -> (tensor<?x1xf32>, tensor<?x1xf32>)
  %xc = coda.sub %x, %mean : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  %xhat = coda.mul %xc, %r : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  %gd = coda.mul %dh, %g : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  %p = coda.mul %gd, %xhat : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %c = coda.reduce %p {kind = "mean"} : (tensor<?x8xf32>) -> tensor<?x1xf32>
  func.return %y, %c : tensor<?x16xf32>, tensor<?x1xf32>
}
// CHECK:      func.func @low_rank_layer_norm(
// CHECK-NEXT:   %h = coda.layer_norm %x, %g, %beta {eps = 1.000000e-05 : f64} : (tensor<?x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %z = coda.linear %h, %w : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %t = coda.linear %h, %a : (tensor<?x8xf32>, tensor<2x8xf32>) -> tensor<?x2xf32>
// CHECK-NEXT:   %u = coda.linear %t, %b : (tensor<?x2xf32>, tensor<16x2xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %y = coda.add %u, %z : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %dt = coda.matmul %dz, %b : (tensor<?x16xf32>, tensor<16x2xf32>) -> tensor<?x2xf32>
// CHECK-NEXT:   %beta_1 = gemm.pack_weight nk %w, %beta : (tensor<16x8xf32>, tensor<8xf32>) -> tensor<16xf32>
// CHECK-NEXT:   %0 = coda.sub %y, %beta_1 : (tensor<?x16xf32>, tensor<16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %1 = coda.mul %0, %dz : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %beta_2 = gemm.pack_weight nk %a, %beta : (tensor<2x8xf32>, tensor<8xf32>) -> tensor<2xf32>
// CHECK-NEXT:   %2 = coda.neg %beta_2 : (tensor<2xf32>) -> tensor<2xf32>
// CHECK-NEXT:   %3 = coda.mul %dt, %2 : (tensor<?x2xf32>, tensor<2xf32>) -> tensor<?x2xf32>
// CHECK-NEXT:   %4 = coda.reduce %1 {kind = "sum"} : (tensor<?x16xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %5 = coda.reduce %3 {kind = "sum"} : (tensor<?x2xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %6 = coda.add %4, %5 : (tensor<?x1xf32>, tensor<?x1xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %7 = coda.constant {value = 1.250000e-01 : f64} : tensor<f32>
// CHECK-NEXT:   %c = coda.mul %6, %7 : (tensor<?x1xf32>, tensor<f32>) -> tensor<?x1xf32>
// CHECK-NEXT:   func.return %y, %c : tensor<?x16xf32>, tensor<?x1xf32>
// CHECK-NEXT: }

// -----

// The bias is added after the sum, which then takes the addition ahead.

func.func @added_later(%x: tensor<?x8xf32>, %wa: tensor<8x16xf32>, %b: tensor<16xf32>, %dz: tensor<?x16xf32>) -> (tensor<?x16xf32>, tensor<?x1xf32>) {
  %h = coda.rms_norm %x {eps = 1.0e-05 : f64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %dh = coda.linear %dz, %wa : (tensor<?x16xf32>, tensor<8x16xf32>) -> tensor<?x8xf32>
  %r = coda.norm_stats %x {kind = "rms", eps = 1.0e-05 : f64} : (tensor<?x8xf32>) -> tensor<?x1xf32>
  %xhat = coda.mul %x, %r : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  %p = coda.mul %dh, %xhat : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %c = coda.reduce %p {kind = "sum"} : (tensor<?x8xf32>) -> tensor<?x1xf32>
  %z = coda.matmul %h, %wa : (tensor<?x8xf32>, tensor<8x16xf32>) -> tensor<?x16xf32>
  %y = coda.add %z, %b : (tensor<?x16xf32>, tensor<16xf32>) -> tensor<?x16xf32>
  func.return %y, %c : tensor<?x16xf32>, tensor<?x1xf32>
}
// CHECK:      func.func @added_later(%x: tensor<?x8xf32>, %wa: tensor<8x16xf32>, %b: tensor<16xf32>, %dz: tensor<?x16xf32>) -> (tensor<?x16xf32>, tensor<?x1xf32>) {
// CHECK-NEXT:   %h = coda.rms_norm %x {eps = 1.000000e-05 : f64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %z = coda.matmul %h, %wa : (tensor<?x8xf32>, tensor<8x16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %y = coda.add %z, %b : (tensor<?x16xf32>, tensor<16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %0 = coda.sub %y, %b : (tensor<?x16xf32>, tensor<16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %1 = coda.mul %0, %dz : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %c = coda.reduce %1 {kind = "sum"} : (tensor<?x16xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   func.return %y, %c : tensor<?x16xf32>, tensor<?x1xf32>
// CHECK-NEXT: }

// -----

// Of one row: what is added to the result may be another row, and stays out of the sum.

func.func @one_row(%x: tensor<8xf32>, %wa: tensor<8x16xf32>, %b: tensor<16xf32>, %dz: tensor<16xf32>) -> (tensor<16xf32>, tensor<1xf32>) {
  %h = coda.rms_norm %x {eps = 1.0e-05 : f64} : (tensor<8xf32>) -> tensor<8xf32>
  %z = coda.matmul %h, %wa : (tensor<8xf32>, tensor<8x16xf32>) -> tensor<16xf32>
  %y = coda.add %z, %b : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  %dh = coda.linear %dz, %wa : (tensor<16xf32>, tensor<8x16xf32>) -> tensor<8xf32>
  %r = coda.norm_stats %x {kind = "rms", eps = 1.0e-05 : f64} : (tensor<8xf32>) -> tensor<1xf32>
  %xhat = coda.mul %x, %r : (tensor<8xf32>, tensor<1xf32>) -> tensor<8xf32>
  %p = coda.mul %dh, %xhat : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %c = coda.reduce %p {kind = "sum"} : (tensor<8xf32>) -> tensor<1xf32>
  func.return %y, %c : tensor<16xf32>, tensor<1xf32>
}
// CHECK:      func.func @one_row(%x: tensor<8xf32>, %wa: tensor<8x16xf32>, %b: tensor<16xf32>, %dz: tensor<16xf32>) -> (tensor<16xf32>, tensor<1xf32>) {
// CHECK-NEXT:   %h = coda.rms_norm %x {eps = 1.000000e-05 : f64} : (tensor<8xf32>) -> tensor<8xf32>
// CHECK-NEXT:   %z = coda.matmul %h, %wa : (tensor<8xf32>, tensor<8x16xf32>) -> tensor<16xf32>
// CHECK-NEXT:   %y = coda.add %z, %b : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
// CHECK-NEXT:   %0 = coda.mul %z, %dz : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
// CHECK-NEXT:   %c = coda.reduce %0 {kind = "sum"} : (tensor<16xf32>) -> tensor<1xf32>
// CHECK-NEXT:   func.return %y, %c : tensor<16xf32>, tensor<1xf32>
// CHECK-NEXT: }

// -----

// Maps whose operands are quantized: each sum is taken by the kernel that quantizes its gradient.

func.func @quantized(%x: tensor<?x128xbf16> {coda.dims = ["M", 128 : i64]}, %w: tensor<256x128xbf16>, %v: tensor<256x128xbf16>, %dz: tensor<?x256xbf16> {coda.dims = ["M", 256 : i64]}, %du: tensor<?x256xbf16> {coda.dims = ["M", 256 : i64]}) -> (tensor<?x256xbf16>, tensor<?x256xbf16>, tensor<?x1xf32>) {
  %h = coda.rms_norm %x {eps = 1.0e-05 : f64} : (tensor<?x128xbf16>) -> tensor<?x128xbf16>
  %z = coda.quantized_linear %h, %w : (tensor<?x128xbf16>, tensor<256x128xbf16>) -> tensor<?x256xbf16>
  %u = coda.quantized_linear %h, %v : (tensor<?x128xbf16>, tensor<256x128xbf16>) -> tensor<?x256xbf16>
  %wt = coda.transpose %w {perm = [1 : i64, 0 : i64]} : (tensor<256x128xbf16>) -> tensor<128x256xbf16>
  %vt = coda.transpose %v {perm = [1 : i64, 0 : i64]} : (tensor<256x128xbf16>) -> tensor<128x256xbf16>
  %a = coda.quantized_linear %dz, %wt : (tensor<?x256xbf16>, tensor<128x256xbf16>) -> tensor<?x128xbf16>
  %b = coda.quantized_linear %du, %vt : (tensor<?x256xbf16>, tensor<128x256xbf16>) -> tensor<?x128xbf16>
  %dh = coda.add %a, %b : (tensor<?x128xbf16>, tensor<?x128xbf16>) -> tensor<?x128xbf16>
  %r = coda.norm_stats %x {kind = "rms", eps = 1.0e-05 : f64} : (tensor<?x128xbf16>) -> tensor<?x1xf32>
  %wide = coda.cast %x : (tensor<?x128xbf16>) -> tensor<?x128xf32>
  %xhat = coda.mul %wide, %r : (tensor<?x128xf32>, tensor<?x1xf32>) -> tensor<?x128xf32>
  %g = coda.cast %dh : (tensor<?x128xbf16>) -> tensor<?x128xf32>
  %p = coda.mul %g, %xhat : (tensor<?x128xf32>, tensor<?x128xf32>) -> tensor<?x128xf32>
  %c = coda.reduce %p {kind = "sum"} : (tensor<?x128xf32>) -> tensor<?x1xf32>
  func.return %z, %u, %c : tensor<?x256xbf16>, tensor<?x256xbf16>, tensor<?x1xf32>
}

// CHECK:      func.func @quantized(%x: tensor<?x128xbf16> {coda.dims = ["M", 128 : i64]}, %w: tensor<256x128xbf16>, %v: tensor<256x128xbf16>, %dz: tensor<?x256xbf16> {coda.dims = ["M", 256 : i64]}, %du: tensor<?x256xbf16> {coda.dims = ["M", 256 : i64]}) -> (tensor<?x256xbf16>, tensor<?x256xbf16>, tensor<?x1xf32>) {
// CHECK-NEXT:   %h = coda.rms_norm %x {eps = 1.000000e-05 : f64} : (tensor<?x128xbf16>) -> tensor<?x128xbf16>
// CHECK-NEXT:   %z = coda.quantized_linear %h, %w : (tensor<?x128xbf16>, tensor<256x128xbf16>) -> tensor<?x256xbf16>
// CHECK-NEXT:   %u = coda.quantized_linear %h, %v : (tensor<?x128xbf16>, tensor<256x128xbf16>) -> tensor<?x256xbf16>
// CHECK-NEXT:   %z_1 = coda.cast %z : (tensor<?x256xbf16>) -> tensor<?x256xf32>
// CHECK-NEXT:   %dz_1 = coda.cast %dz : (tensor<?x256xbf16>) -> tensor<?x256xf32>
// CHECK-NEXT:   %0 = coda.mul %z_1, %dz_1 : (tensor<?x256xf32>, tensor<?x256xf32>) -> tensor<?x256xf32>
// CHECK-NEXT:   %u_1 = coda.cast %u : (tensor<?x256xbf16>) -> tensor<?x256xf32>
// CHECK-NEXT:   %du_1 = coda.cast %du : (tensor<?x256xbf16>) -> tensor<?x256xf32>
// CHECK-NEXT:   %1 = coda.mul %u_1, %du_1 : (tensor<?x256xf32>, tensor<?x256xf32>) -> tensor<?x256xf32>
// CHECK-NEXT:   %2 = coda.reduce %0 {kind = "sum"} : (tensor<?x256xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %3 = coda.reduce %1 {kind = "sum"} : (tensor<?x256xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %c = coda.add %2, %3 : (tensor<?x1xf32>, tensor<?x1xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   func.return %z, %u, %c : tensor<?x256xbf16>, tensor<?x256xbf16>, tensor<?x1xf32>
// CHECK-NEXT: }

// RUN: coda-opt %s -p "stream-logits{chunks=3}" --split-input-file | filecheck %s

// A head whose norm needs the row sums of the logits times their gradient: 40 columns as 14, 14, 12.

func.func @head(%h: tensor<?x8xbf16>, %w: tensor<40x8xbf16>, %t: tensor<?xi64>, %d_loss: tensor<f32>) -> (tensor<f32>, tensor<?x8xbf16>, tensor<40x8xbf16>, tensor<?x1xf32>) {
  %z = coda.linear %h, %w : (tensor<?x8xbf16>, tensor<40x8xbf16>) -> tensor<?x40xbf16>
  %loss = coda.cross_entropy %z, %t {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x40xbf16>, tensor<?xi64>) -> tensor<f32>
  %lse = coda.reduce %z {kind = "lse"} : (tensor<?x40xbf16>) -> tensor<?x1xf32>
  %dz = coda.cross_entropy_grad %z, %t, %d_loss, %lse {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x40xbf16>, tensor<?xi64>, tensor<f32>, tensor<?x1xf32>) -> tensor<?x40xbf16>
  %dh = coda.matmul %dz, %w : (tensor<?x40xbf16>, tensor<40x8xbf16>) -> tensor<?x8xbf16>
  %dw = coda.weight_gradient %dz, %h : (tensor<?x40xbf16>, tensor<?x8xbf16>) -> tensor<40x8xbf16>
  %a = coda.cast %z : (tensor<?x40xbf16>) -> tensor<?x40xf32>
  %b = coda.cast %dz : (tensor<?x40xbf16>) -> tensor<?x40xf32>
  %p = coda.mul %a, %b : (tensor<?x40xf32>, tensor<?x40xf32>) -> tensor<?x40xf32>
  %s = coda.reduce %p {kind = "sum"} : (tensor<?x40xf32>) -> tensor<?x1xf32>
  func.return %loss, %dh, %dw, %s : tensor<f32>, tensor<?x8xbf16>, tensor<40x8xbf16>, tensor<?x1xf32>
}

// CHECK:      func.func @head(%h: tensor<?x8xbf16>, %w: tensor<40x8xbf16>, %t: tensor<?xi64>, %d_loss: tensor<f32>) -> (tensor<f32>, tensor<?x8xbf16>, tensor<40x8xbf16>, tensor<?x1xf32>) {
// CHECK-NEXT:   %z = coda.linear %h, %w : (tensor<?x8xbf16>, tensor<40x8xbf16>) -> tensor<?x40xbf16>
// CHECK-NEXT:   %loss = coda.cross_entropy %z, %t {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x40xbf16>, tensor<?xi64>) -> tensor<f32>
// CHECK-NEXT:   %lse = coda.reduce %z {kind = "lse"} : (tensor<?x40xbf16>) -> tensor<?x1xf32>
// CHECK-NEXT:   %h_1 = coda.barrier %h, %d_loss : (tensor<?x8xbf16>, tensor<f32>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %w_1 = coda.slice %w {dim = 0 : i64, start = 0 : i64, stop = 14 : i64} : (tensor<40x8xbf16>) -> tensor<14x8xbf16>
// CHECK-NEXT:   %z_1 = coda.linear %h_1, %w_1 : (tensor<?x8xbf16>, tensor<14x8xbf16>) -> tensor<?x14xbf16>
// CHECK-NEXT:   %dz = coda.cross_entropy_grad %z_1, %t, %d_loss, %lse {ignore_index = -100 : i64, reduction = "mean", start = 0 : i64} : (tensor<?x14xbf16>, tensor<?xi64>, tensor<f32>, tensor<?x1xf32>) -> tensor<?x14xbf16>
// CHECK-NEXT:   %a = coda.cast %z_1 : (tensor<?x14xbf16>) -> tensor<?x14xf32>
// CHECK-NEXT:   %b = coda.cast %dz : (tensor<?x14xbf16>) -> tensor<?x14xf32>
// CHECK-NEXT:   %p = coda.mul %a, %b : (tensor<?x14xf32>, tensor<?x14xf32>) -> tensor<?x14xf32>
// CHECK-NEXT:   %w_2 = coda.slice %w {dim = 0 : i64, start = 0 : i64, stop = 14 : i64} : (tensor<40x8xbf16>) -> tensor<14x8xbf16>
// CHECK-NEXT:   %dh = coda.matmul %dz, %w_2 : (tensor<?x14xbf16>, tensor<14x8xbf16>) -> tensor<?x8xf32>
// CHECK-NEXT:   %dw = coda.weight_gradient %dz, %h_1 : (tensor<?x14xbf16>, tensor<?x8xbf16>) -> tensor<14x8xbf16>
// CHECK-NEXT:   %s = coda.reduce %p {kind = "sum"} : (tensor<?x14xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %h_2 = coda.barrier %h, %dh, %dw, %s : (tensor<?x8xbf16>, tensor<?x8xf32>, tensor<14x8xbf16>, tensor<?x1xf32>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %w_3 = coda.slice %w {dim = 0 : i64, start = 14 : i64, stop = 28 : i64} : (tensor<40x8xbf16>) -> tensor<14x8xbf16>
// CHECK-NEXT:   %z_2 = coda.linear %h_2, %w_3 : (tensor<?x8xbf16>, tensor<14x8xbf16>) -> tensor<?x14xbf16>
// CHECK-NEXT:   %dz_1 = coda.cross_entropy_grad %z_2, %t, %d_loss, %lse {ignore_index = -100 : i64, reduction = "mean", start = 14 : i64} : (tensor<?x14xbf16>, tensor<?xi64>, tensor<f32>, tensor<?x1xf32>) -> tensor<?x14xbf16>
// CHECK-NEXT:   %a_1 = coda.cast %z_2 : (tensor<?x14xbf16>) -> tensor<?x14xf32>
// CHECK-NEXT:   %b_1 = coda.cast %dz_1 : (tensor<?x14xbf16>) -> tensor<?x14xf32>
// CHECK-NEXT:   %p_1 = coda.mul %a_1, %b_1 : (tensor<?x14xf32>, tensor<?x14xf32>) -> tensor<?x14xf32>
// CHECK-NEXT:   %w_4 = coda.slice %w {dim = 0 : i64, start = 14 : i64, stop = 28 : i64} : (tensor<40x8xbf16>) -> tensor<14x8xbf16>
// CHECK-NEXT:   %dh_1 = coda.matmul %dz_1, %w_4 : (tensor<?x14xbf16>, tensor<14x8xbf16>) -> tensor<?x8xf32>
// CHECK-NEXT:   %dh_2 = coda.add %dh, %dh_1 : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %dw_1 = coda.weight_gradient %dz_1, %h_2 : (tensor<?x14xbf16>, tensor<?x8xbf16>) -> tensor<14x8xbf16>
// CHECK-NEXT:   %s_1 = coda.reduce %p_1 {kind = "sum"} : (tensor<?x14xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %s_2 = coda.add %s, %s_1 : (tensor<?x1xf32>, tensor<?x1xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %h_3 = coda.barrier %h, %dh_2, %dw_1, %s_2 : (tensor<?x8xbf16>, tensor<?x8xf32>, tensor<14x8xbf16>, tensor<?x1xf32>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %w_5 = coda.slice %w {dim = 0 : i64, start = 28 : i64, stop = 40 : i64} : (tensor<40x8xbf16>) -> tensor<12x8xbf16>
// CHECK-NEXT:   %z_3 = coda.linear %h_3, %w_5 : (tensor<?x8xbf16>, tensor<12x8xbf16>) -> tensor<?x12xbf16>
// CHECK-NEXT:   %dz_2 = coda.cross_entropy_grad %z_3, %t, %d_loss, %lse {ignore_index = -100 : i64, reduction = "mean", start = 28 : i64} : (tensor<?x12xbf16>, tensor<?xi64>, tensor<f32>, tensor<?x1xf32>) -> tensor<?x12xbf16>
// CHECK-NEXT:   %a_2 = coda.cast %z_3 : (tensor<?x12xbf16>) -> tensor<?x12xf32>
// CHECK-NEXT:   %b_2 = coda.cast %dz_2 : (tensor<?x12xbf16>) -> tensor<?x12xf32>
// CHECK-NEXT:   %p_2 = coda.mul %a_2, %b_2 : (tensor<?x12xf32>, tensor<?x12xf32>) -> tensor<?x12xf32>
// CHECK-NEXT:   %w_6 = coda.slice %w {dim = 0 : i64, start = 28 : i64, stop = 40 : i64} : (tensor<40x8xbf16>) -> tensor<12x8xbf16>
// CHECK-NEXT:   %dh_3 = coda.matmul %dz_2, %w_6 : (tensor<?x12xbf16>, tensor<12x8xbf16>) -> tensor<?x8xf32>
// CHECK-NEXT:   %dh_4 = coda.add %dh_2, %dh_3 : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %dw_2 = coda.weight_gradient %dz_2, %h_3 : (tensor<?x12xbf16>, tensor<?x8xbf16>) -> tensor<12x8xbf16>
// CHECK-NEXT:   %s_3 = coda.reduce %p_2 {kind = "sum"} : (tensor<?x12xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %s_4 = coda.add %s_2, %s_3 : (tensor<?x1xf32>, tensor<?x1xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %dh_5 = coda.cast %dh_4 : (tensor<?x8xf32>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %dw_3 = coda.concat %dw, %dw_1, %dw_2 {dim = 0 : i64} : (tensor<14x8xbf16>, tensor<14x8xbf16>, tensor<12x8xbf16>) -> tensor<40x8xbf16>
// CHECK-NEXT:   func.return %loss, %dh_5, %dw_3, %s_4 : tensor<f32>, tensor<?x8xbf16>, tensor<40x8xbf16>, tensor<?x1xf32>
// CHECK-NEXT: }

// -----

// A bias, a scale per column and a soft cap stand before the loss; a use of a sum comes early.

func.func @soft_cap(%h: tensor<?x8xf32>, %w: tensor<4x8xf32>, %bias: tensor<4xf32>, %g: tensor<4xf32>, %t: tensor<?xi32>, %d_loss: tensor<?xf32>) -> (tensor<?xf32>, tensor<4xf32>, tensor<4x8xf32>) {
  %z = coda.linear %h, %w, %bias : (tensor<?x8xf32>, tensor<4x8xf32>, tensor<4xf32>) -> tensor<?x4xf32>
  %scaled = coda.mul %z, %g : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
  %y = coda.tanh %scaled : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %loss = coda.cross_entropy %y, %t {ignore_index = 3 : i64, reduction = "none"} : (tensor<?x4xf32>, tensor<?xi32>) -> tensor<?xf32>
  %lse = coda.reduce %y {kind = "lse"} : (tensor<?x4xf32>) -> tensor<?x1xf32>
  %dy = coda.cross_entropy_grad %y, %t, %d_loss, %lse {ignore_index = 3 : i64, reduction = "none"} : (tensor<?x4xf32>, tensor<?xi32>, tensor<?xf32>, tensor<?x1xf32>) -> tensor<?x4xf32>
  %da = coda.activation_grad %scaled, %dy {activation = "tanh"} : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  %dz = coda.mul %da, %g : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
  %db = coda.sum_to %dz : (tensor<?x4xf32>) -> tensor<4xf32>
  %early = coda.neg %db : (tensor<4xf32>) -> tensor<4xf32>
  %dw = coda.weight_gradient %dz, %h : (tensor<?x4xf32>, tensor<?x8xf32>) -> tensor<4x8xf32>
  func.return %loss, %early, %dw : tensor<?xf32>, tensor<4xf32>, tensor<4x8xf32>
}

// CHECK:      func.func @soft_cap(%h: tensor<?x8xf32>, %w: tensor<4x8xf32>, %bias: tensor<4xf32>, %g: tensor<4xf32>, %t: tensor<?xi32>, %d_loss: tensor<?xf32>) -> (tensor<?xf32>, tensor<4xf32>, tensor<4x8xf32>) {
// CHECK-NEXT:   %z = coda.linear %h, %w, %bias : (tensor<?x8xf32>, tensor<4x8xf32>, tensor<4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   %scaled = coda.mul %z, %g : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   %y = coda.tanh %scaled : (tensor<?x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   %loss = coda.cross_entropy %y, %t {ignore_index = 3 : i64, reduction = "none"} : (tensor<?x4xf32>, tensor<?xi32>) -> tensor<?xf32>
// CHECK-NEXT:   %lse = coda.reduce %y {kind = "lse"} : (tensor<?x4xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %h_1 = coda.barrier %h, %d_loss : (tensor<?x8xf32>, tensor<?xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %bias_1 = coda.slice %bias {dim = 0 : i64, start = 0 : i64, stop = 2 : i64} : (tensor<4xf32>) -> tensor<2xf32>
// CHECK-NEXT:   %w_1 = coda.slice %w {dim = 0 : i64, start = 0 : i64, stop = 2 : i64} : (tensor<4x8xf32>) -> tensor<2x8xf32>
// CHECK-NEXT:   %z_1 = coda.linear %h_1, %w_1, %bias_1 : (tensor<?x8xf32>, tensor<2x8xf32>, tensor<2xf32>) -> tensor<?x2xf32>
// CHECK-NEXT:   %g_1 = coda.slice %g {dim = 0 : i64, start = 0 : i64, stop = 2 : i64} : (tensor<4xf32>) -> tensor<2xf32>
// CHECK-NEXT:   %scaled_1 = coda.mul %z_1, %g_1 : (tensor<?x2xf32>, tensor<2xf32>) -> tensor<?x2xf32>
// CHECK-NEXT:   %y_1 = coda.tanh %scaled_1 : (tensor<?x2xf32>) -> tensor<?x2xf32>
// CHECK-NEXT:   %dy = coda.cross_entropy_grad %y_1, %t, %d_loss, %lse {ignore_index = 3 : i64, reduction = "none", start = 0 : i64} : (tensor<?x2xf32>, tensor<?xi32>, tensor<?xf32>, tensor<?x1xf32>) -> tensor<?x2xf32>
// CHECK-NEXT:   %da = coda.activation_grad %scaled_1, %dy {activation = "tanh"} : (tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x2xf32>
// CHECK-NEXT:   %g_2 = coda.slice %g {dim = 0 : i64, start = 0 : i64, stop = 2 : i64} : (tensor<4xf32>) -> tensor<2xf32>
// CHECK-NEXT:   %dz = coda.mul %da, %g_2 : (tensor<?x2xf32>, tensor<2xf32>) -> tensor<?x2xf32>
// CHECK-NEXT:   %db = coda.sum_to %dz : (tensor<?x2xf32>) -> tensor<2xf32>
// CHECK-NEXT:   %dw = coda.weight_gradient %dz, %h_1 : (tensor<?x2xf32>, tensor<?x8xf32>) -> tensor<2x8xf32>
// CHECK-NEXT:   %h_2 = coda.barrier %h, %db, %dw : (tensor<?x8xf32>, tensor<2xf32>, tensor<2x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %bias_2 = coda.slice %bias {dim = 0 : i64, start = 2 : i64, stop = 4 : i64} : (tensor<4xf32>) -> tensor<2xf32>
// CHECK-NEXT:   %w_2 = coda.slice %w {dim = 0 : i64, start = 2 : i64, stop = 4 : i64} : (tensor<4x8xf32>) -> tensor<2x8xf32>
// CHECK-NEXT:   %z_2 = coda.linear %h_2, %w_2, %bias_2 : (tensor<?x8xf32>, tensor<2x8xf32>, tensor<2xf32>) -> tensor<?x2xf32>
// CHECK-NEXT:   %g_3 = coda.slice %g {dim = 0 : i64, start = 2 : i64, stop = 4 : i64} : (tensor<4xf32>) -> tensor<2xf32>
// CHECK-NEXT:   %scaled_2 = coda.mul %z_2, %g_3 : (tensor<?x2xf32>, tensor<2xf32>) -> tensor<?x2xf32>
// CHECK-NEXT:   %y_2 = coda.tanh %scaled_2 : (tensor<?x2xf32>) -> tensor<?x2xf32>
// CHECK-NEXT:   %dy_1 = coda.cross_entropy_grad %y_2, %t, %d_loss, %lse {ignore_index = 3 : i64, reduction = "none", start = 2 : i64} : (tensor<?x2xf32>, tensor<?xi32>, tensor<?xf32>, tensor<?x1xf32>) -> tensor<?x2xf32>
// CHECK-NEXT:   %da_1 = coda.activation_grad %scaled_2, %dy_1 {activation = "tanh"} : (tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x2xf32>
// CHECK-NEXT:   %g_4 = coda.slice %g {dim = 0 : i64, start = 2 : i64, stop = 4 : i64} : (tensor<4xf32>) -> tensor<2xf32>
// CHECK-NEXT:   %dz_1 = coda.mul %da_1, %g_4 : (tensor<?x2xf32>, tensor<2xf32>) -> tensor<?x2xf32>
// CHECK-NEXT:   %db_1 = coda.sum_to %dz_1 : (tensor<?x2xf32>) -> tensor<2xf32>
// CHECK-NEXT:   %dw_1 = coda.weight_gradient %dz_1, %h_2 : (tensor<?x2xf32>, tensor<?x8xf32>) -> tensor<2x8xf32>
// CHECK-NEXT:   %db_2 = coda.concat %db, %db_1 {dim = 0 : i64} : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
// CHECK-NEXT:   %dw_2 = coda.concat %dw, %dw_1 {dim = 0 : i64} : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<4x8xf32>
// CHECK-NEXT:   %early = coda.neg %db_2 : (tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT:   func.return %loss, %early, %dw_2 : tensor<?xf32>, tensor<4xf32>, tensor<4x8xf32>
// CHECK-NEXT: }

// -----

// One column is one part, and as many columns as h has do not confuse.

func.func @one_column(%h: tensor<?x1xbf16>, %w: tensor<1x1xbf16>, %t: tensor<?xi64>, %d_loss: tensor<f32>) -> (tensor<f32>, tensor<?x1xbf16>, tensor<1x1xbf16>) {
  %z = coda.linear %h, %w : (tensor<?x1xbf16>, tensor<1x1xbf16>) -> tensor<?x1xbf16>
  %loss = coda.cross_entropy %z, %t {ignore_index = -100 : i64, reduction = "sum"} : (tensor<?x1xbf16>, tensor<?xi64>) -> tensor<f32>
  %lse = coda.reduce %z {kind = "lse"} : (tensor<?x1xbf16>) -> tensor<?x1xf32>
  %dz = coda.cross_entropy_grad %z, %t, %d_loss, %lse {ignore_index = -100 : i64, reduction = "sum"} : (tensor<?x1xbf16>, tensor<?xi64>, tensor<f32>, tensor<?x1xf32>) -> tensor<?x1xbf16>
  %dh = coda.matmul %dz, %w : (tensor<?x1xbf16>, tensor<1x1xbf16>) -> tensor<?x1xbf16>
  %dw = coda.weight_gradient %dz, %h : (tensor<?x1xbf16>, tensor<?x1xbf16>) -> tensor<1x1xbf16>
  func.return %loss, %dh, %dw : tensor<f32>, tensor<?x1xbf16>, tensor<1x1xbf16>
}

// CHECK:      func.func @one_column(%h: tensor<?x1xbf16>, %w: tensor<1x1xbf16>, %t: tensor<?xi64>, %d_loss: tensor<f32>) -> (tensor<f32>, tensor<?x1xbf16>, tensor<1x1xbf16>) {
// CHECK-NEXT:   %z = coda.linear %h, %w : (tensor<?x1xbf16>, tensor<1x1xbf16>) -> tensor<?x1xbf16>
// CHECK-NEXT:   %loss = coda.cross_entropy %z, %t {ignore_index = -100 : i64, reduction = "sum"} : (tensor<?x1xbf16>, tensor<?xi64>) -> tensor<f32>
// CHECK-NEXT:   %lse = coda.reduce %z {kind = "lse"} : (tensor<?x1xbf16>) -> tensor<?x1xf32>
// CHECK-NEXT:   %h_1 = coda.barrier %h, %d_loss : (tensor<?x1xbf16>, tensor<f32>) -> tensor<?x1xbf16>
// CHECK-NEXT:   %z_1 = coda.linear %h_1, %w : (tensor<?x1xbf16>, tensor<1x1xbf16>) -> tensor<?x1xbf16>
// CHECK-NEXT:   %dz = coda.cross_entropy_grad %z_1, %t, %d_loss, %lse {ignore_index = -100 : i64, reduction = "sum", start = 0 : i64} : (tensor<?x1xbf16>, tensor<?xi64>, tensor<f32>, tensor<?x1xf32>) -> tensor<?x1xbf16>
// CHECK-NEXT:   %dh = coda.matmul %dz, %w : (tensor<?x1xbf16>, tensor<1x1xbf16>) -> tensor<?x1xf32>
// CHECK-NEXT:   %dw = coda.weight_gradient %dz, %h_1 : (tensor<?x1xbf16>, tensor<?x1xbf16>) -> tensor<1x1xbf16>
// CHECK-NEXT:   %dh_1 = coda.cast %dh : (tensor<?x1xf32>) -> tensor<?x1xbf16>
// CHECK-NEXT:   func.return %loss, %dh_1, %dw : tensor<f32>, tensor<?x1xbf16>, tensor<1x1xbf16>
// CHECK-NEXT: }

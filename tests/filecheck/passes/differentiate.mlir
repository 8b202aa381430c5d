// RUN: coda-opt %s -p differentiate | filecheck %s

// The pre-activations of both projections and one number per row of the norm are saved; what the
// norm and the gate give is computed again.
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

// CHECK:      func.func @mlp_forward(%x: tensor<?x?x8xbf16> {coda.name = "x", coda.dims = ["B", "T", 8 : i64]}, %norm: tensor<8xbf16> {coda.name = "norm", coda.dims = [8 : i64], coda.weight}, %wg: tensor<16x8xbf16> {coda.name = "wg", coda.dims = [16 : i64, 8 : i64], coda.weight}, %wu: tensor<16x8xbf16> {coda.name = "wu", coda.dims = [16 : i64, 8 : i64], coda.weight}, %wd: tensor<8x16xbf16> {coda.name = "wd", coda.dims = [8 : i64, 16 : i64], coda.weight}) -> (tensor<?x?x8xbf16> {coda.name = "y", coda.dims = ["B", "T", 8 : i64]}, tensor<?x?x1xf32> {coda.name = "rstd", coda.dims = ["B", "T", 1 : i64]}, tensor<?x?x16xbf16> {coda.name = "g", coda.dims = ["B", "T", 16 : i64]}, tensor<?x?x16xbf16> {coda.name = "u", coda.dims = ["B", "T", 16 : i64]}) {
// CHECK-NEXT:   %h = coda.rms_norm %x, %norm {eps = 1.000000e-05 : f64} : (tensor<?x?x8xbf16>, tensor<8xbf16>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   %rstd = coda.norm_stats %x {kind = "rms", eps = 1.000000e-05 : f64} : (tensor<?x?x8xbf16>) -> tensor<?x?x1xf32>
// CHECK-NEXT:   %g = coda.linear %h, %wg : (tensor<?x?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x?x16xbf16>
// CHECK-NEXT:   %u = coda.linear %h, %wu : (tensor<?x?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x?x16xbf16>
// CHECK-NEXT:   %s = coda.silu %g : (tensor<?x?x16xbf16>) -> tensor<?x?x16xbf16>
// CHECK-NEXT:   %a = coda.mul %s, %u : (tensor<?x?x16xbf16>, tensor<?x?x16xbf16>) -> tensor<?x?x16xbf16>
// CHECK-NEXT:   %z = coda.linear %a, %wd : (tensor<?x?x16xbf16>, tensor<8x16xbf16>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   %y = coda.add %x, %z : (tensor<?x?x8xbf16>, tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   func.return %y, %rstd, %g, %u : tensor<?x?x8xbf16>, tensor<?x?x1xf32>, tensor<?x?x16xbf16>, tensor<?x?x16xbf16>
// CHECK-NEXT: }
// CHECK-NEXT: func.func @mlp_backward(%x: tensor<?x?x8xbf16> {coda.name = "x", coda.dims = ["B", "T", 8 : i64]}, %norm: tensor<8xbf16> {coda.name = "norm", coda.dims = [8 : i64], coda.weight}, %wg: tensor<16x8xbf16> {coda.name = "wg", coda.dims = [16 : i64, 8 : i64], coda.weight}, %wu: tensor<16x8xbf16> {coda.name = "wu", coda.dims = [16 : i64, 8 : i64], coda.weight}, %wd: tensor<8x16xbf16> {coda.name = "wd", coda.dims = [8 : i64, 16 : i64], coda.weight}, %rstd: tensor<?x?x1xf32> {coda.name = "rstd", coda.dims = ["B", "T", 1 : i64]}, %g: tensor<?x?x16xbf16> {coda.name = "g", coda.dims = ["B", "T", 16 : i64]}, %u: tensor<?x?x16xbf16> {coda.name = "u", coda.dims = ["B", "T", 16 : i64]}, %d_y: tensor<?x?x8xbf16> {coda.name = "d_y", coda.dims = ["B", "T", 8 : i64]}) -> (tensor<?x?x8xbf16> {coda.name = "d_x", coda.dims = ["B", "T", 8 : i64], coda.own}, tensor<8xbf16> {coda.name = "d_norm", coda.dims = [8 : i64], coda.own}, tensor<16x8xbf16> {coda.name = "d_wg", coda.dims = [16 : i64, 8 : i64], coda.own}, tensor<16x8xbf16> {coda.name = "d_wu", coda.dims = [16 : i64, 8 : i64], coda.own}, tensor<8x16xbf16> {coda.name = "d_wd", coda.dims = [8 : i64, 16 : i64], coda.own}) {
// CHECK-NEXT:   %x_1 = coda.cast %x : (tensor<?x?x8xbf16>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %normed = coda.mul %x_1, %rstd : (tensor<?x?x8xf32>, tensor<?x?x1xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %norm_1 = coda.cast %norm : (tensor<8xbf16>) -> tensor<8xf32>
// CHECK-NEXT:   %0 = coda.mul %normed, %norm_1 : (tensor<?x?x8xf32>, tensor<8xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %h = coda.cast %0 : (tensor<?x?x8xf32>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   %s = coda.silu %g : (tensor<?x?x16xbf16>) -> tensor<?x?x16xbf16>
// CHECK-NEXT:   %a = coda.mul %s, %u : (tensor<?x?x16xbf16>, tensor<?x?x16xbf16>) -> tensor<?x?x16xbf16>
// CHECK-NEXT:   %d_a = coda.matmul %d_y, %wd : (tensor<?x?x8xbf16>, tensor<8x16xbf16>) -> tensor<?x?x16xbf16>
// CHECK-NEXT:   %d_wd = coda.weight_gradient %d_y, %a : (tensor<?x?x8xbf16>, tensor<?x?x16xbf16>) -> tensor<8x16xbf16>
// CHECK-NEXT:   %d_s = coda.mul %d_a, %u : (tensor<?x?x16xbf16>, tensor<?x?x16xbf16>) -> tensor<?x?x16xbf16>
// CHECK-NEXT:   %d_u = coda.mul %d_a, %s : (tensor<?x?x16xbf16>, tensor<?x?x16xbf16>) -> tensor<?x?x16xbf16>
// CHECK-NEXT:   %d_g = coda.activation_grad %g, %d_s {activation = "silu"} : (tensor<?x?x16xbf16>, tensor<?x?x16xbf16>) -> tensor<?x?x16xbf16>
// CHECK-NEXT:   %1 = coda.matmul %d_u, %wu : (tensor<?x?x16xbf16>, tensor<16x8xbf16>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   %d_wu = coda.weight_gradient %d_u, %h : (tensor<?x?x16xbf16>, tensor<?x?x8xbf16>) -> tensor<16x8xbf16>
// CHECK-NEXT:   %2 = coda.matmul %d_g, %wg : (tensor<?x?x16xbf16>, tensor<16x8xbf16>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   %d_wg = coda.weight_gradient %d_g, %h : (tensor<?x?x16xbf16>, tensor<?x?x8xbf16>) -> tensor<16x8xbf16>
// CHECK-NEXT:   %d_h = coda.add %1, %2 : (tensor<?x?x8xbf16>, tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   %d_h_1 = coda.cast %d_h : (tensor<?x?x8xbf16>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %3 = coda.mul %d_h_1, %normed : (tensor<?x?x8xf32>, tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %d_norm = coda.sum_to %3 : (tensor<?x?x8xf32>) -> tensor<8xbf16>
// CHECK-NEXT:   %d_normed = coda.mul %d_h_1, %norm_1 : (tensor<?x?x8xf32>, tensor<8xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %u_1 = coda.cast %u : (tensor<?x?x16xbf16>) -> tensor<?x?x16xf32>
// CHECK-NEXT:   %d_u_1 = coda.cast %d_u : (tensor<?x?x16xbf16>) -> tensor<?x?x16xf32>
// CHECK-NEXT:   %4 = coda.mul %u_1, %d_u_1 : (tensor<?x?x16xf32>, tensor<?x?x16xf32>) -> tensor<?x?x16xf32>
// CHECK-NEXT:   %g_1 = coda.cast %g : (tensor<?x?x16xbf16>) -> tensor<?x?x16xf32>
// CHECK-NEXT:   %d_g_1 = coda.cast %d_g : (tensor<?x?x16xbf16>) -> tensor<?x?x16xf32>
// CHECK-NEXT:   %5 = coda.mul %g_1, %d_g_1 : (tensor<?x?x16xf32>, tensor<?x?x16xf32>) -> tensor<?x?x16xf32>
// CHECK-NEXT:   %6 = coda.add %4, %5 : (tensor<?x?x16xf32>, tensor<?x?x16xf32>) -> tensor<?x?x16xf32>
// CHECK-NEXT:   %7 = coda.reduce %6 {kind = "sum"} : (tensor<?x?x16xf32>) -> tensor<?x?x1xf32>
// CHECK-NEXT:   %8 = coda.constant {value = 1.250000e-01 : f64} : tensor<f32>
// CHECK-NEXT:   %along = coda.mul %7, %8 : (tensor<?x?x1xf32>, tensor<f32>) -> tensor<?x?x1xf32>
// CHECK-NEXT:   %9 = coda.mul %normed, %along : (tensor<?x?x8xf32>, tensor<?x?x1xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %10 = coda.sub %d_normed, %9 : (tensor<?x?x8xf32>, tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %11 = coda.mul %10, %rstd : (tensor<?x?x8xf32>, tensor<?x?x1xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %12 = coda.cast %11 : (tensor<?x?x8xf32>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   %d_x = coda.add %d_y, %12 : (tensor<?x?x8xbf16>, tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   func.return %d_x, %d_norm, %d_wg, %d_wu, %d_wd : tensor<?x?x8xbf16>, tensor<8xbf16>, tensor<16x8xbf16>, tensor<16x8xbf16>, tensor<8x16xbf16>
// CHECK-NEXT: }

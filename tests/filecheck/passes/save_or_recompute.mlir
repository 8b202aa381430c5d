// RUN: coda-opt %s -p save-or-recompute --split-input-file | filecheck %s
// RUN: coda-opt %s -p save-or-recompute --split-input-file --remarks -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// Saved is what the GEMM gave, before the activation, and one number per row of the norm; the norm
// and the activation are applied again. The weight is an argument.

func.func private @mlp_joint(%x: tensor<?x?x8xbf16> {coda.name = "x", coda.dims = ["B", "T", 8]}, %gamma: tensor<8xbf16> {coda.name = "gamma", coda.dims = [8]}, %w: tensor<16x8xbf16> {coda.name = "w", coda.dims = [16, 8], coda.weight}, %d_y: tensor<?x?x16xbf16> {coda.name = "d_y", coda.dims = ["B", "T", 16]}) -> (tensor<?x?x16xbf16> {coda.name = "y", coda.dims = ["B", "T", 16]}, tensor<?x?x16xbf16> {coda.name = "d_x", coda.dims = ["B", "T", 16]}) attributes {coda.joint = {arguments = 3 : i64, results = 1 : i64}} {
  %h = coda.rms_norm %x, %gamma {eps = 1.0e-5 : f64} : (tensor<?x?x8xbf16>, tensor<8xbf16>) -> tensor<?x?x8xbf16>
  %z = coda.linear %h, %w : (tensor<?x?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x?x16xbf16>
  %s = coda.sigmoid %z : (tensor<?x?x16xbf16>) -> tensor<?x?x16xbf16>
  %y = coda.mul %s, %z : (tensor<?x?x16xbf16>, tensor<?x?x16xbf16>) -> tensor<?x?x16xbf16>
  %d_s = coda.mul %d_y, %z : (tensor<?x?x16xbf16>, tensor<?x?x16xbf16>) -> tensor<?x?x16xbf16>
  %p = coda.mul %d_y, %s : (tensor<?x?x16xbf16>, tensor<?x?x16xbf16>) -> tensor<?x?x16xbf16>
  %d_z = coda.add %d_s, %p : (tensor<?x?x16xbf16>, tensor<?x?x16xbf16>) -> tensor<?x?x16xbf16>
  %d_h = coda.matmul %d_z, %w : (tensor<?x?x16xbf16>, tensor<16x8xbf16>) -> tensor<?x?x8xbf16>
  %m = coda.mul %d_h, %h : (tensor<?x?x8xbf16>, tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>
  %d_x = coda.linear %m, %w : (tensor<?x?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x?x16xbf16>
  func.return %y, %d_x : tensor<?x?x16xbf16>, tensor<?x?x16xbf16>
}

// CHECK:      func.func @mlp_forward(%x: tensor<?x?x8xbf16> {coda.name = "x", coda.dims = ["B", "T", 8 : i64]}, %gamma: tensor<8xbf16> {coda.name = "gamma", coda.dims = [8 : i64]}, %w: tensor<16x8xbf16> {coda.name = "w", coda.dims = [16 : i64, 8 : i64], coda.weight}) -> (tensor<?x?x16xbf16> {coda.name = "y", coda.dims = ["B", "T", 16 : i64]}, tensor<?x?x1xf32> {coda.name = "rstd", coda.dims = ["B", "T", 1 : i64]}, tensor<?x?x16xbf16> {coda.name = "z", coda.dims = ["B", "T", 16 : i64]}) {
// CHECK-NEXT:   %h = coda.rms_norm %x, %gamma {eps = 1.000000e-05 : f64} : (tensor<?x?x8xbf16>, tensor<8xbf16>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   %rstd = coda.norm_stats %x {kind = "rms", eps = 1.000000e-05 : f64} : (tensor<?x?x8xbf16>) -> tensor<?x?x1xf32>
// CHECK-NEXT:   %z = coda.linear %h, %w : (tensor<?x?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x?x16xbf16>
// CHECK-NEXT:   %s = coda.sigmoid %z : (tensor<?x?x16xbf16>) -> tensor<?x?x16xbf16>
// CHECK-NEXT:   %y = coda.mul %s, %z : (tensor<?x?x16xbf16>, tensor<?x?x16xbf16>) -> tensor<?x?x16xbf16>
// CHECK-NEXT:   func.return %y, %rstd, %z : tensor<?x?x16xbf16>, tensor<?x?x1xf32>, tensor<?x?x16xbf16>
// CHECK-NEXT: }
// CHECK-NEXT: func.func @mlp_backward(%x: tensor<?x?x8xbf16> {coda.name = "x", coda.dims = ["B", "T", 8 : i64]}, %gamma: tensor<8xbf16> {coda.name = "gamma", coda.dims = [8 : i64]}, %w: tensor<16x8xbf16> {coda.name = "w", coda.dims = [16 : i64, 8 : i64], coda.weight}, %rstd: tensor<?x?x1xf32> {coda.name = "rstd", coda.dims = ["B", "T", 1 : i64]}, %z: tensor<?x?x16xbf16> {coda.name = "z", coda.dims = ["B", "T", 16 : i64]}, %d_y: tensor<?x?x16xbf16> {coda.name = "d_y", coda.dims = ["B", "T", 16 : i64]}) -> (tensor<?x?x16xbf16> {coda.name = "d_x", coda.dims = ["B", "T", 16 : i64]}) {
// CHECK-NEXT:   %x_1 = coda.cast %x : (tensor<?x?x8xbf16>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %0 = coda.mul %x_1, %rstd : (tensor<?x?x8xf32>, tensor<?x?x1xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %gamma_1 = coda.cast %gamma : (tensor<8xbf16>) -> tensor<8xf32>
// CHECK-NEXT:   %1 = coda.mul %0, %gamma_1 : (tensor<?x?x8xf32>, tensor<8xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %h = coda.cast %1 : (tensor<?x?x8xf32>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   %s = coda.sigmoid %z : (tensor<?x?x16xbf16>) -> tensor<?x?x16xbf16>
// CHECK-NEXT:   %d_s = coda.mul %d_y, %z : (tensor<?x?x16xbf16>, tensor<?x?x16xbf16>) -> tensor<?x?x16xbf16>
// CHECK-NEXT:   %p = coda.mul %d_y, %s : (tensor<?x?x16xbf16>, tensor<?x?x16xbf16>) -> tensor<?x?x16xbf16>
// CHECK-NEXT:   %d_z = coda.add %d_s, %p : (tensor<?x?x16xbf16>, tensor<?x?x16xbf16>) -> tensor<?x?x16xbf16>
// CHECK-NEXT:   %d_h = coda.matmul %d_z, %w : (tensor<?x?x16xbf16>, tensor<16x8xbf16>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   %m = coda.mul %d_h, %h : (tensor<?x?x8xbf16>, tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   %d_x = coda.linear %m, %w : (tensor<?x?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x?x16xbf16>
// CHECK-NEXT:   func.return %d_x : tensor<?x?x16xbf16>
// CHECK-NEXT: }

// REMARK: remark[analysis] save-or-recompute: coda.norm_stats: %rstd is saved for the backward; costs 4*B*T bytes
// REMARK: remark[analysis] save-or-recompute: coda.linear: %z is saved for the backward; costs 32*B*T bytes
// REMARK: remark[passed] save-or-recompute: coda.cast: %h is recomputed in the backward; saves 16*B*T bytes
// REMARK: remark[passed] save-or-recompute: coda.sigmoid: %s is recomputed in the backward; saves 32*B*T bytes
// REMARK: remark[analysis] save-or-recompute: func.func: mlp saves 2 values of 36*B*T bytes

// -----

// What a product of PyTorch reads is stored by the forward, and would be stored again.

func.func private @scores_joint(%q: tensor<2x8x16xbf16> {coda.name = "q"}, %k: tensor<2x16x8xbf16> {coda.name = "k"}, %v: tensor<2x8x16xbf16> {coda.name = "v"}, %b: tensor<8x8xbf16> {coda.name = "b"}, %d_result0: tensor<2x8x16xbf16> {coda.name = "d_result0", coda.dims = [2 : i64, 8 : i64, 16 : i64]}) -> (tensor<2x8x16xbf16> {coda.name = "result0"}, tensor<2x8x16xbf16> {coda.name = "d_q", coda.own}, tensor<2x16x8xbf16> {coda.name = "d_k", coda.own}, tensor<2x8x16xbf16> {coda.name = "d_v", coda.own}, tensor<8x8xbf16> {coda.name = "d_b", coda.own}) attributes {coda.joint = {arguments = 4 : i64, results = 1 : i64, wrt = ["q", "k", "v", "b"]}} {
  %s = torch.call "aten.matmul.default"(%q, %k) {arguments = "{0}, {1}"} : (tensor<2x8x16xbf16>, tensor<2x16x8xbf16>) -> tensor<2x8x8xbf16>
  %g = coda.sigmoid %s : (tensor<2x8x8xbf16>) -> tensor<2x8x8xbf16>
  %p = coda.mul %g, %b : (tensor<2x8x8xbf16>, tensor<8x8xbf16>) -> tensor<2x8x8xbf16>
  %y = torch.call "aten.matmul.default"(%p, %v) {arguments = "{0}, {1}"} : (tensor<2x8x8xbf16>, tensor<2x8x16xbf16>) -> tensor<2x8x16xbf16>
  %0 = coda.transpose %v {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<2x8x16xbf16>) -> tensor<2x16x8xbf16>
  %d_p = torch.call "aten.matmul.default"(%d_result0, %0) {arguments = "{0}, {1}"} : (tensor<2x8x16xbf16>, tensor<2x16x8xbf16>) -> tensor<2x8x8xbf16>
  %1 = coda.transpose %p {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<2x8x8xbf16>) -> tensor<2x8x8xbf16>
  %d_v = torch.call "aten.matmul.default"(%1, %d_result0) {arguments = "{0}, {1}"} : (tensor<2x8x8xbf16>, tensor<2x8x16xbf16>) -> tensor<2x8x16xbf16>
  %d_g = coda.mul %d_p, %b : (tensor<2x8x8xbf16>, tensor<8x8xbf16>) -> tensor<2x8x8xbf16>
  %2 = coda.mul %d_p, %g : (tensor<2x8x8xbf16>, tensor<2x8x8xbf16>) -> tensor<2x8x8xbf16>
  %d_b = coda.sum_to %2 : (tensor<2x8x8xbf16>) -> tensor<8x8xbf16>
  %d_s = coda.activation_grad %g, %d_g {activation = "sigmoid"} : (tensor<2x8x8xbf16>, tensor<2x8x8xbf16>) -> tensor<2x8x8xbf16>
  %3 = coda.transpose %k {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<2x16x8xbf16>) -> tensor<2x8x16xbf16>
  %d_q = torch.call "aten.matmul.default"(%d_s, %3) {arguments = "{0}, {1}"} : (tensor<2x8x8xbf16>, tensor<2x8x16xbf16>) -> tensor<2x8x16xbf16>
  %4 = coda.transpose %q {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<2x8x16xbf16>) -> tensor<2x16x8xbf16>
  %d_k = torch.call "aten.matmul.default"(%4, %d_s) {arguments = "{0}, {1}"} : (tensor<2x16x8xbf16>, tensor<2x8x8xbf16>) -> tensor<2x16x8xbf16>
  func.return %y, %d_q, %d_k, %d_v, %d_b : tensor<2x8x16xbf16>, tensor<2x8x16xbf16>, tensor<2x16x8xbf16>, tensor<2x8x16xbf16>, tensor<8x8xbf16>
}

// CHECK:      func.func @scores_forward(%q: tensor<2x8x16xbf16> {coda.name = "q"}, %k: tensor<2x16x8xbf16> {coda.name = "k"}, %v: tensor<2x8x16xbf16> {coda.name = "v"}, %b: tensor<8x8xbf16> {coda.name = "b"}) -> (tensor<2x8x16xbf16> {coda.name = "result0"}, tensor<2x8x8xbf16> {coda.name = "g", coda.dims = [2 : i64, 8 : i64, 8 : i64]}, tensor<2x8x8xbf16> {coda.name = "p", coda.dims = [2 : i64, 8 : i64, 8 : i64]}) {
// CHECK-NEXT:   %s = torch.call "aten.matmul.default"(%q, %k) {arguments = "{0}, {1}"} : (tensor<2x8x16xbf16>, tensor<2x16x8xbf16>) -> tensor<2x8x8xbf16>
// CHECK-NEXT:   %g = coda.sigmoid %s : (tensor<2x8x8xbf16>) -> tensor<2x8x8xbf16>
// CHECK-NEXT:   %p = coda.mul %g, %b : (tensor<2x8x8xbf16>, tensor<8x8xbf16>) -> tensor<2x8x8xbf16>
// CHECK-NEXT:   %y = torch.call "aten.matmul.default"(%p, %v) {arguments = "{0}, {1}"} : (tensor<2x8x8xbf16>, tensor<2x8x16xbf16>) -> tensor<2x8x16xbf16>
// CHECK-NEXT:   func.return %y, %g, %p : tensor<2x8x16xbf16>, tensor<2x8x8xbf16>, tensor<2x8x8xbf16>
// CHECK-NEXT: }
// CHECK:      func.func @scores_backward(%q: tensor<2x8x16xbf16> {coda.name = "q"}, %k: tensor<2x16x8xbf16> {coda.name = "k"}, %v: tensor<2x8x16xbf16> {coda.name = "v"}, %b: tensor<8x8xbf16> {coda.name = "b"}, %g: tensor<2x8x8xbf16> {coda.name = "g", coda.dims = [2 : i64, 8 : i64, 8 : i64]}, %p: tensor<2x8x8xbf16> {coda.name = "p", coda.dims = [2 : i64, 8 : i64, 8 : i64]}, %d_result0: tensor<2x8x16xbf16> {coda.name = "d_result0", coda.dims = [2 : i64, 8 : i64, 16 : i64]}) -> (tensor<2x8x16xbf16> {coda.name = "d_q", coda.own}, tensor<2x16x8xbf16> {coda.name = "d_k", coda.own}, tensor<2x8x16xbf16> {coda.name = "d_v", coda.own}, tensor<8x8xbf16> {coda.name = "d_b", coda.own}) {
// CHECK-NEXT:   %0 = coda.transpose %v {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<2x8x16xbf16>) -> tensor<2x16x8xbf16>
// CHECK-NEXT:   %d_p = torch.call "aten.matmul.default"(%d_result0, %0) {arguments = "{0}, {1}"} : (tensor<2x8x16xbf16>, tensor<2x16x8xbf16>) -> tensor<2x8x8xbf16>
// CHECK-NEXT:   %1 = coda.transpose %p {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<2x8x8xbf16>) -> tensor<2x8x8xbf16>
// CHECK-NEXT:   %d_v = torch.call "aten.matmul.default"(%1, %d_result0) {arguments = "{0}, {1}"} : (tensor<2x8x8xbf16>, tensor<2x8x16xbf16>) -> tensor<2x8x16xbf16>
// CHECK-NEXT:   %d_g = coda.mul %d_p, %b : (tensor<2x8x8xbf16>, tensor<8x8xbf16>) -> tensor<2x8x8xbf16>
// CHECK-NEXT:   %2 = coda.mul %d_p, %g : (tensor<2x8x8xbf16>, tensor<2x8x8xbf16>) -> tensor<2x8x8xbf16>
// CHECK-NEXT:   %d_b = coda.sum_to %2 : (tensor<2x8x8xbf16>) -> tensor<8x8xbf16>
// CHECK-NEXT:   %d_s = coda.activation_grad %g, %d_g {activation = "sigmoid"} : (tensor<2x8x8xbf16>, tensor<2x8x8xbf16>) -> tensor<2x8x8xbf16>
// CHECK-NEXT:   %3 = coda.transpose %k {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<2x16x8xbf16>) -> tensor<2x8x16xbf16>
// CHECK-NEXT:   %d_q = torch.call "aten.matmul.default"(%d_s, %3) {arguments = "{0}, {1}"} : (tensor<2x8x8xbf16>, tensor<2x8x16xbf16>) -> tensor<2x8x16xbf16>
// CHECK-NEXT:   %4 = coda.transpose %q {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<2x8x16xbf16>) -> tensor<2x16x8xbf16>
// CHECK-NEXT:   %d_k = torch.call "aten.matmul.default"(%4, %d_s) {arguments = "{0}, {1}"} : (tensor<2x16x8xbf16>, tensor<2x8x8xbf16>) -> tensor<2x16x8xbf16>
// CHECK-NEXT:   func.return %d_q, %d_k, %d_v, %d_b : tensor<2x8x16xbf16>, tensor<2x16x8xbf16>, tensor<2x8x16xbf16>, tensor<8x8xbf16>
// CHECK-NEXT: }

// -----

// A convolution of images with their channels last is saved in the order in which it is stored.

func.func private @images_joint(%x: tensor<2x4x4x16xbf16> {coda.name = "x"}, %w: tensor<16x1x3x3xbf16> {coda.name = "w", coda.weight}, %v: tensor<8x16xbf16> {coda.name = "v", coda.weight}, %d_result0: tensor<2x4x4x8xbf16> {coda.name = "d_result0", coda.dims = [2 : i64, 4 : i64, 4 : i64, 8 : i64]}) -> (tensor<2x4x4x8xbf16> {coda.name = "result0"}, tensor<2x4x4x16xbf16> {coda.name = "d_x", coda.own}, tensor<16x1x3x3xbf16> {coda.name = "d_w", coda.own}, tensor<8x16xbf16> {coda.name = "d_v", coda.own}) attributes {coda.joint = {arguments = 3 : i64, results = 1 : i64, wrt = ["x", "w", "v"]}} {
  %t = coda.transpose %x {perm = [0 : i64, 3 : i64, 1 : i64, 2 : i64]} : (tensor<2x4x4x16xbf16>) -> tensor<2x16x4x4xbf16>
  %c = coda.convolution %t, %w {stride = [1 : i64, 1 : i64], padding = [1 : i64, 1 : i64], dilation = [1 : i64, 1 : i64], groups = 16 : i64} : (tensor<2x16x4x4xbf16>, tensor<16x1x3x3xbf16>) -> tensor<2x16x4x4xbf16>
  %u = coda.transpose %c {perm = [0 : i64, 2 : i64, 3 : i64, 1 : i64]} : (tensor<2x16x4x4xbf16>) -> tensor<2x4x4x16xbf16>
  %y = coda.linear %u, %v : (tensor<2x4x4x16xbf16>, tensor<8x16xbf16>) -> tensor<2x4x4x8xbf16>
  %d_u = coda.matmul %d_result0, %v : (tensor<2x4x4x8xbf16>, tensor<8x16xbf16>) -> tensor<2x4x4x16xbf16>
  %d_v = coda.weight_gradient %d_result0, %u : (tensor<2x4x4x8xbf16>, tensor<2x4x4x16xbf16>) -> tensor<8x16xbf16>
  %d_c = coda.transpose %d_u {perm = [0 : i64, 3 : i64, 1 : i64, 2 : i64]} : (tensor<2x4x4x16xbf16>) -> tensor<2x16x4x4xbf16>
  %d_t, %d_w = torch.call "aten.convolution_backward.default"(%d_c, %t, %w) {arguments = "{0}, {1}, {2}, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 16, [True, True, False]", positions = [0 : i64, 1 : i64]} : (tensor<2x16x4x4xbf16>, tensor<2x16x4x4xbf16>, tensor<16x1x3x3xbf16>) -> (tensor<2x16x4x4xbf16>, tensor<16x1x3x3xbf16>)
  %d_x = coda.transpose %d_t {perm = [0 : i64, 2 : i64, 3 : i64, 1 : i64]} : (tensor<2x16x4x4xbf16>) -> tensor<2x4x4x16xbf16>
  func.return %y, %d_x, %d_w, %d_v : tensor<2x4x4x8xbf16>, tensor<2x4x4x16xbf16>, tensor<16x1x3x3xbf16>, tensor<8x16xbf16>
}

// CHECK:      func.func @images_forward(%x: tensor<2x4x4x16xbf16> {coda.name = "x"}, %w: tensor<16x1x3x3xbf16> {coda.name = "w", coda.weight}, %v: tensor<8x16xbf16> {coda.name = "v", coda.weight}) -> (tensor<2x4x4x8xbf16> {coda.name = "result0"}, tensor<2x4x4x16xbf16> {coda.name = "u", coda.dims = [2 : i64, 4 : i64, 4 : i64, 16 : i64]}) {
// CHECK-NEXT:   %t = coda.transpose %x {perm = [0 : i64, 3 : i64, 1 : i64, 2 : i64]} : (tensor<2x4x4x16xbf16>) -> tensor<2x16x4x4xbf16>
// CHECK-NEXT:   %c = coda.convolution %t, %w {stride = [1 : i64, 1 : i64], padding = [1 : i64, 1 : i64], dilation = [1 : i64, 1 : i64], groups = 16 : i64} : (tensor<2x16x4x4xbf16>, tensor<16x1x3x3xbf16>) -> tensor<2x16x4x4xbf16>
// CHECK-NEXT:   %u = coda.transpose %c {perm = [0 : i64, 2 : i64, 3 : i64, 1 : i64]} : (tensor<2x16x4x4xbf16>) -> tensor<2x4x4x16xbf16>
// CHECK-NEXT:   %y = coda.linear %u, %v : (tensor<2x4x4x16xbf16>, tensor<8x16xbf16>) -> tensor<2x4x4x8xbf16>
// CHECK-NEXT:   func.return %y, %u : tensor<2x4x4x8xbf16>, tensor<2x4x4x16xbf16>
// CHECK-NEXT: }
// CHECK:      func.func @images_backward(%x: tensor<2x4x4x16xbf16> {coda.name = "x"}, %w: tensor<16x1x3x3xbf16> {coda.name = "w", coda.weight}, %v: tensor<8x16xbf16> {coda.name = "v", coda.weight}, %u: tensor<2x4x4x16xbf16> {coda.name = "u", coda.dims = [2 : i64, 4 : i64, 4 : i64, 16 : i64]}, %d_result0: tensor<2x4x4x8xbf16> {coda.name = "d_result0", coda.dims = [2 : i64, 4 : i64, 4 : i64, 8 : i64]}) -> (tensor<2x4x4x16xbf16> {coda.name = "d_x", coda.own}, tensor<16x1x3x3xbf16> {coda.name = "d_w", coda.own}, tensor<8x16xbf16> {coda.name = "d_v", coda.own}) {
// CHECK-NEXT:   %t = coda.transpose %x {perm = [0 : i64, 3 : i64, 1 : i64, 2 : i64]} : (tensor<2x4x4x16xbf16>) -> tensor<2x16x4x4xbf16>
// CHECK-NEXT:   %d_u = coda.matmul %d_result0, %v : (tensor<2x4x4x8xbf16>, tensor<8x16xbf16>) -> tensor<2x4x4x16xbf16>
// CHECK-NEXT:   %d_v = coda.weight_gradient %d_result0, %u : (tensor<2x4x4x8xbf16>, tensor<2x4x4x16xbf16>) -> tensor<8x16xbf16>
// CHECK-NEXT:   %d_c = coda.transpose %d_u {perm = [0 : i64, 3 : i64, 1 : i64, 2 : i64]} : (tensor<2x4x4x16xbf16>) -> tensor<2x16x4x4xbf16>
// CHECK-NEXT:   %d_t, %d_w = torch.call "aten.convolution_backward.default"(%d_c, %t, %w) {arguments = "{0}, {1}, {2}, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 16, [True, True, False]", positions = [0 : i64, 1 : i64]} : (tensor<2x16x4x4xbf16>, tensor<2x16x4x4xbf16>, tensor<16x1x3x3xbf16>) -> (tensor<2x16x4x4xbf16>, tensor<16x1x3x3xbf16>)
// CHECK-NEXT:   %d_x = coda.transpose %d_t {perm = [0 : i64, 2 : i64, 3 : i64, 1 : i64]} : (tensor<2x16x4x4xbf16>) -> tensor<2x4x4x16xbf16>
// CHECK-NEXT:   func.return %d_x, %d_w, %d_v : tensor<2x4x4x16xbf16>, tensor<16x1x3x3xbf16>, tensor<8x16xbf16>
// CHECK-NEXT: }

// -----

// A result is there already, and what follows from it is computed again rather than saved; so is
// what does not depend on the rows.

func.func private @results_joint(%x: tensor<?x8xf32> {coda.name = "x", coda.dims = ["M", 8]}, %w: tensor<8x8xf32> {coda.name = "w"}, %b: tensor<8xf32> {coda.name = "b"}, %d_y: tensor<?x8xf32> {coda.name = "d_y", coda.dims = ["M", 8]}) -> (tensor<?x8xf32> {coda.name = "y"}, tensor<?x8xf32> {coda.name = "d_x"}) attributes {coda.joint = {arguments = 3 : i64, results = 1 : i64}} {
  %z = coda.linear %x, %w : (tensor<?x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
  %e = coda.exp %b : (tensor<8xf32>) -> tensor<8xf32>
  %y = coda.mul %z, %e : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  %t = coda.tanh %y : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %u = coda.mul %d_y, %t : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %d_z = coda.mul %u, %e : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  %d_x = coda.matmul %d_z, %w : (tensor<?x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
  func.return %y, %d_x : tensor<?x8xf32>, tensor<?x8xf32>
}

// CHECK:      func.func @results_forward(%x: tensor<?x8xf32> {coda.name = "x", coda.dims = ["M", 8 : i64]}, %w: tensor<8x8xf32> {coda.name = "w"}, %b: tensor<8xf32> {coda.name = "b"}) -> (tensor<?x8xf32> {coda.name = "y"}) {
// CHECK-NEXT:   %z = coda.linear %x, %w : (tensor<?x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %e = coda.exp %b : (tensor<8xf32>) -> tensor<8xf32>
// CHECK-NEXT:   %y = coda.mul %z, %e : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   func.return %y : tensor<?x8xf32>
// CHECK-NEXT: }
// CHECK-NEXT: func.func @results_backward(%w: tensor<8x8xf32> {coda.name = "w"}, %b: tensor<8xf32> {coda.name = "b"}, %y: tensor<?x8xf32> {coda.name = "y"}, %d_y: tensor<?x8xf32> {coda.name = "d_y", coda.dims = ["M", 8 : i64]}) -> (tensor<?x8xf32> {coda.name = "d_x"}) {
// CHECK-NEXT:   %e = coda.exp %b : (tensor<8xf32>) -> tensor<8xf32>
// CHECK-NEXT:   %t = coda.tanh %y : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %u = coda.mul %d_y, %t : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %d_z = coda.mul %u, %e : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %d_x = coda.matmul %d_z, %w : (tensor<?x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   func.return %d_x : tensor<?x8xf32>
// CHECK-NEXT: }

// REMARK: remark[passed] save-or-recompute: coda.exp: %e is recomputed in the backward; saves 32 bytes
// REMARK: remark[analysis] save-or-recompute: func.func: results saves 0 values of 0 bytes

// -----

// Of two values of one chain the narrower is saved; attention is not computed again.

func.func private @narrow_joint(%q: tensor<?x?x8xbf16> {coda.name = "q", coda.dims = ["B", "T", 8]}, %w: tensor<8x8xbf16> {coda.name = "w"}, %d_y: tensor<?x?x8xf32> {coda.name = "d_y", coda.dims = ["B", "T", 8]}) -> (tensor<?x?x8xbf16> {coda.name = "y"}, tensor<?x?x8xf32> {coda.name = "d_q"}) attributes {coda.joint = {arguments = 2 : i64, results = 1 : i64}} {
  %a = coda.attention %q, %q, %q {head_dim = 8 : i64, causal = true, scale = 1.0 : f64} : (tensor<?x?x8xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>
  %wide = coda.cast %a : (tensor<?x?x8xbf16>) -> tensor<?x?x8xf32>
  %y = coda.linear %a, %w : (tensor<?x?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x?x8xbf16>
  %d_q = coda.mul %wide, %d_y : (tensor<?x?x8xf32>, tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
  func.return %y, %d_q : tensor<?x?x8xbf16>, tensor<?x?x8xf32>
}

// CHECK:      func.func @narrow_forward(%q: tensor<?x?x8xbf16> {coda.name = "q", coda.dims = ["B", "T", 8 : i64]}, %w: tensor<8x8xbf16> {coda.name = "w"}) -> (tensor<?x?x8xbf16> {coda.name = "y"}, tensor<?x?x8xbf16> {coda.name = "a", coda.dims = ["B", "T", 8 : i64]}) {
// CHECK-NEXT:   %a = coda.attention %q, %q, %q {head_dim = 8 : i64, causal = true, scale = 1.000000e+00 : f64} : (tensor<?x?x8xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   %y = coda.linear %a, %w : (tensor<?x?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   func.return %y, %a : tensor<?x?x8xbf16>, tensor<?x?x8xbf16>
// CHECK-NEXT: }
// CHECK-NEXT: func.func @narrow_backward(%a: tensor<?x?x8xbf16> {coda.name = "a", coda.dims = ["B", "T", 8 : i64]}, %d_y: tensor<?x?x8xf32> {coda.name = "d_y", coda.dims = ["B", "T", 8 : i64]}) -> (tensor<?x?x8xf32> {coda.name = "d_q"}) {
// CHECK-NEXT:   %wide = coda.cast %a : (tensor<?x?x8xbf16>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %d_q = coda.mul %wide, %d_y : (tensor<?x?x8xf32>, tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   func.return %d_q : tensor<?x?x8xf32>
// CHECK-NEXT: }

// REMARK: remark[analysis] save-or-recompute: coda.attention: %a is saved for the backward; costs 16*B*T bytes
// REMARK: remark[analysis] save-or-recompute: func.func: narrow saves 1 values of 16*B*T bytes

// -----

// The forward stores the weight that it computes, %u; the backward reads it, and would otherwise need
// a kernel to compute it once more. So it does with %n, the narrow copy of a weight.

func.func private @computed_joint(%x: tensor<?x8xbf16> {coda.name = "x", coda.dims = ["M", 8]}, %w: tensor<8x8xbf16> {coda.name = "w", coda.weight}, %v: tensor<8x8xf32> {coda.name = "v", coda.weight}, %c: tensor<8x1xbf16> {coda.name = "c", coda.weight}, %d_y: tensor<?x8xbf16> {coda.name = "d_y", coda.dims = ["M", 8]}) -> (tensor<?x8xbf16> {coda.name = "y", coda.dims = ["M", 8]}, tensor<?x8xbf16> {coda.name = "d_x", coda.dims = ["M", 8]}) attributes {coda.joint = {arguments = 4 : i64, results = 1 : i64}} {
  %u = coda.div %w, %c : (tensor<8x8xbf16>, tensor<8x1xbf16>) -> tensor<8x8xbf16>
  %z = coda.linear %x, %u : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  %n = coda.cast %v : (tensor<8x8xf32>) -> tensor<8x8xbf16>
  %y = coda.linear %z, %n : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  %d_z = coda.matmul %d_y, %n : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  %d_x = coda.matmul %d_z, %u : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  func.return %y, %d_x : tensor<?x8xbf16>, tensor<?x8xbf16>
}

// CHECK:      func.func @computed_forward(
// CHECK-NEXT:   %u = coda.div %w, %c : (tensor<8x8xbf16>, tensor<8x1xbf16>) -> tensor<8x8xbf16>
// CHECK-NEXT:   %z = coda.linear %x, %u : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %n = coda.cast %v : (tensor<8x8xf32>) -> tensor<8x8xbf16>
// CHECK-NEXT:   %y = coda.linear %z, %n : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   func.return %y, %u, %n : tensor<?x8xbf16>, tensor<8x8xbf16>, tensor<8x8xbf16>
// CHECK:      func.func @computed_backward(
// CHECK-NEXT:   %d_z = coda.matmul %d_y, %n : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %d_x = coda.matmul %d_z, %u : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   func.return %d_x : tensor<?x8xbf16>

// REMARK: remark[analysis] save-or-recompute: coda.div: %u is saved for the backward; costs 128 bytes
// REMARK: remark[analysis] save-or-recompute: coda.cast: %n is saved for the backward; costs 128 bytes

// -----

// A float32 stream to which bfloat16 is added: its sums are saved though what was added is narrower,
// because the backward, which begins with the last sum, would have to compute and keep all of them.

func.func private @stream_joint(%x: tensor<?x8xbf16> {coda.name = "x", coda.dims = ["M", 8 : i64]}, %w: tensor<8x8xbf16> {coda.name = "w"}, %d_y: tensor<?x8xf32> {coda.name = "d_y", coda.dims = ["M", 8 : i64]}) -> (tensor<?x8xf32> {coda.name = "y", coda.dims = ["M", 8 : i64]}, tensor<?x8xbf16> {coda.name = "d_x", coda.dims = ["M", 8 : i64]}, tensor<8x8xbf16> {coda.name = "d_w"}) attributes {coda.joint = {arguments = 2 : i64, results = 1 : i64, wrt = ["x", "w"]}} {
  %r = coda.cast %x : (tensor<?x8xbf16>) -> tensor<?x8xf32>
  %g1 = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  %c1 = coda.cast %g1 : (tensor<?x8xbf16>) -> tensor<?x8xf32>
  %r1 = coda.add %r, %c1 : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %h1 = coda.tanh %r1 : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %n1 = coda.cast %h1 : (tensor<?x8xf32>) -> tensor<?x8xbf16>
  %g2 = coda.linear %n1, %w : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  %c2 = coda.cast %g2 : (tensor<?x8xbf16>) -> tensor<?x8xf32>
  %r2 = coda.add %r1, %c2 : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %h2 = coda.tanh %r2 : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %n2 = coda.cast %h2 : (tensor<?x8xf32>) -> tensor<?x8xbf16>
  %g3 = coda.linear %n2, %w : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  %c3 = coda.cast %g3 : (tensor<?x8xbf16>) -> tensor<?x8xf32>
  %r3 = coda.add %r2, %c3 : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %y = coda.tanh %r3 : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %d_r3 = coda.activation_grad %r3, %d_y {activation = "tanh"} : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %d_r3_1 = coda.cast %d_r3 : (tensor<?x8xf32>) -> tensor<?x8xbf16>
  %d_n2 = coda.matmul %d_r3_1, %w : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  %0 = coda.weight_gradient %d_r3_1, %n2 : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<8x8xbf16>
  %d_n2_1 = coda.cast %d_n2 : (tensor<?x8xbf16>) -> tensor<?x8xf32>
  %1 = coda.activation_grad %r2, %d_n2_1 {activation = "tanh"} : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %d_r2 = coda.add %d_r3, %1 : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %d_r2_1 = coda.cast %d_r2 : (tensor<?x8xf32>) -> tensor<?x8xbf16>
  %d_n1 = coda.matmul %d_r2_1, %w : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  %2 = coda.weight_gradient %d_r2_1, %n1 : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<8x8xbf16>
  %d_n1_1 = coda.cast %d_n1 : (tensor<?x8xbf16>) -> tensor<?x8xf32>
  %3 = coda.activation_grad %r1, %d_n1_1 {activation = "tanh"} : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %d_r1 = coda.add %d_r2, %3 : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %d_r1_1 = coda.cast %d_r1 : (tensor<?x8xf32>) -> tensor<?x8xbf16>
  %4 = coda.matmul %d_r1_1, %w : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  %5 = coda.weight_gradient %d_r1_1, %x : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<8x8xbf16>
  %d_r1_2 = coda.cast %d_r1 : (tensor<?x8xf32>) -> tensor<?x8xbf16>
  %d_x = coda.add %4, %d_r1_2 : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %6 = coda.add %0, %2 : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xbf16>
  %d_w = coda.add %6, %5 : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xbf16>
  func.return %y, %d_x, %d_w : tensor<?x8xf32>, tensor<?x8xbf16>, tensor<8x8xbf16>
}

// CHECK:      func.func @stream_forward
// CHECK:        func.return %y, %r1, %r2, %r3
// CHECK:      func.func @stream_backward
// CHECK-NEXT:   %h1 = coda.tanh %r1
// CHECK-NOT:    coda.add %r

// REMARK: remark[analysis] save-or-recompute: coda.add: %r1 is saved for the backward; costs 32*M bytes
// REMARK: remark[analysis] save-or-recompute: coda.add: %r2 is saved for the backward; costs 32*M bytes
// REMARK: remark[analysis] save-or-recompute: coda.add: %r3 is saved for the backward; costs 32*M bytes
// REMARK: remark[analysis] save-or-recompute: func.func: stream saves 3 values of 96*M bytes

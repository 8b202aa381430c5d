// RUN: coda-opt %s -p split-group-norm,canonicalize --split-input-file | filecheck %s

// Sums of the columns of each sample, combined in groups of 4 columns. Scale and shift are tables.

func.func @groups(%x: tensor<?x12x8xbf16>, %v: tensor<8x8xbf16>, %w: tensor<8xbf16>, %b: tensor<8xbf16>) -> tensor<?x12x8xbf16> {
  %z = coda.linear %x, %v : (tensor<?x12x8xbf16>, tensor<8x8xbf16>) -> tensor<?x12x8xbf16>
  %t = coda.transpose %z {perm = [0, 2, 1]} : (tensor<?x12x8xbf16>) -> tensor<?x8x12xbf16>
  %n = coda.group_norm %t, %w, %b {groups = 2 : i64, eps = 1.0e-5 : f64} : (tensor<?x8x12xbf16>, tensor<8xbf16>, tensor<8xbf16>) -> tensor<?x8x12xbf16>
  %y = coda.transpose %n {perm = [0, 2, 1]} : (tensor<?x8x12xbf16>) -> tensor<?x12x8xbf16>
  func.return %y : tensor<?x12x8xbf16>
}

// CHECK:      func.func @groups(
// CHECK-NEXT:   %z = coda.linear %x, %v : (tensor<?x12x8xbf16>, tensor<8x8xbf16>) -> tensor<?x12x8xbf16>
// CHECK-NEXT:   %z_1 = coda.cast %z : (tensor<?x12x8xbf16>) -> tensor<?x12x8xf32>
// CHECK-NEXT:   %0 = coda.mul %z_1, %z_1 : (tensor<?x12x8xf32>, tensor<?x12x8xf32>) -> tensor<?x12x8xf32>
// CHECK-NEXT:   %1 = coda.constant {value = 0.083333333333333329 : f64} : tensor<f32>
// CHECK-NEXT:   %2 = coda.sum_to %z : (tensor<?x12x8xbf16>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %3 = coda.reshape %2 : (tensor<?x1x8xf32>) -> tensor<?x1x2x4xf32>
// CHECK-NEXT:   %4 = coda.mul %3, %1 : (tensor<?x1x2x4xf32>, tensor<f32>) -> tensor<?x1x2x4xf32>
// CHECK-NEXT:   %5 = coda.sum_to %0 : (tensor<?x12x8xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %6 = coda.reshape %5 : (tensor<?x1x8xf32>) -> tensor<?x1x2x4xf32>
// CHECK-NEXT:   %7 = coda.mul %6, %1 : (tensor<?x1x2x4xf32>, tensor<f32>) -> tensor<?x1x2x4xf32>
// CHECK-NEXT:   %8 = coda.mul %4, %4 : (tensor<?x1x2x4xf32>, tensor<?x1x2x4xf32>) -> tensor<?x1x2x4xf32>
// CHECK-NEXT:   %9 = coda.sub %7, %8 : (tensor<?x1x2x4xf32>, tensor<?x1x2x4xf32>) -> tensor<?x1x2x4xf32>
// CHECK-NEXT:   %10 = coda.constant {value = 0.000000e+00 : f64} : tensor<f32>
// CHECK-NEXT:   %11 = coda.maximum %9, %10 : (tensor<?x1x2x4xf32>, tensor<f32>) -> tensor<?x1x2x4xf32>
// CHECK-NEXT:   %mean = coda.reduce %4 {kind = "mean"} : (tensor<?x1x2x4xf32>) -> tensor<?x1x2x1xf32>
// CHECK-NEXT:   %12 = coda.sub %4, %mean : (tensor<?x1x2x4xf32>, tensor<?x1x2x1xf32>) -> tensor<?x1x2x4xf32>
// CHECK-NEXT:   %13 = coda.mul %12, %12 : (tensor<?x1x2x4xf32>, tensor<?x1x2x4xf32>) -> tensor<?x1x2x4xf32>
// CHECK-NEXT:   %14 = coda.add %11, %13 : (tensor<?x1x2x4xf32>, tensor<?x1x2x4xf32>) -> tensor<?x1x2x4xf32>
// CHECK-NEXT:   %variance = coda.reduce %14 {kind = "mean"} : (tensor<?x1x2x4xf32>) -> tensor<?x1x2x1xf32>
// CHECK-NEXT:   %15 = coda.constant {value = 1.000000e-05 : f64} : tensor<f32>
// CHECK-NEXT:   %16 = coda.add %variance, %15 : (tensor<?x1x2x1xf32>, tensor<f32>) -> tensor<?x1x2x1xf32>
// CHECK-NEXT:   %rstd = coda.rsqrt %16 : (tensor<?x1x2x1xf32>) -> tensor<?x1x2x1xf32>
// CHECK-NEXT:   %mean_1 = coda.broadcast %mean : (tensor<?x1x2x1xf32>) -> tensor<?x1x2x4xf32>
// CHECK-NEXT:   %mean_2 = coda.reshape %mean_1 : (tensor<?x1x2x4xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %rstd_1 = coda.broadcast %rstd : (tensor<?x1x2x1xf32>) -> tensor<?x1x2x4xf32>
// CHECK-NEXT:   %rstd_2 = coda.reshape %rstd_1 : (tensor<?x1x2x4xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %w_1 = coda.cast %w : (tensor<8xbf16>) -> tensor<8xf32>
// CHECK-NEXT:   %scale = coda.mul %rstd_2, %w_1 : (tensor<?x1x8xf32>, tensor<8xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %b_1 = coda.cast %b : (tensor<8xbf16>) -> tensor<8xf32>
// CHECK-NEXT:   %17 = coda.mul %mean_2, %scale : (tensor<?x1x8xf32>, tensor<?x1x8xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %shift = coda.sub %b_1, %17 : (tensor<8xf32>, tensor<?x1x8xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %18 = coda.mul %z_1, %scale : (tensor<?x12x8xf32>, tensor<?x1x8xf32>) -> tensor<?x12x8xf32>
// CHECK-NEXT:   %19 = coda.add %18, %shift : (tensor<?x12x8xf32>, tensor<?x1x8xf32>) -> tensor<?x12x8xf32>
// CHECK-NEXT:   %n = coda.cast %19 : (tensor<?x12x8xf32>) -> tensor<?x12x8xbf16>
// CHECK-NEXT:   func.return %n : tensor<?x12x8xbf16>
// CHECK-NEXT: }

// -----

// The positions are an image for the norm alone, and for the activation, which comes before the
// views. One group is the whole row.

func.func @image(%x: tensor<2x12x8xbf16>, %v: tensor<8x8xbf16>) -> tensor<2x12x8xbf16> {
  %z = coda.linear %x, %v : (tensor<2x12x8xbf16>, tensor<8x8xbf16>) -> tensor<2x12x8xbf16>
  %t = coda.transpose %z {perm = [0, 2, 1]} : (tensor<2x12x8xbf16>) -> tensor<2x8x12xbf16>
  %i = coda.reshape %t : (tensor<2x8x12xbf16>) -> tensor<2x8x3x4xbf16>
  %n = coda.group_norm %i {groups = 1 : i64, eps = 1.0e-5 : f64} : (tensor<2x8x3x4xbf16>) -> tensor<2x8x3x4xbf16>
  %s = coda.silu %n : (tensor<2x8x3x4xbf16>) -> tensor<2x8x3x4xbf16>
  %f = coda.reshape %s : (tensor<2x8x3x4xbf16>) -> tensor<2x8x12xbf16>
  %y = coda.transpose %f {perm = [0, 2, 1]} : (tensor<2x8x12xbf16>) -> tensor<2x12x8xbf16>
  func.return %y : tensor<2x12x8xbf16>
}

// CHECK:      func.func @image(
// CHECK-NEXT:   %z = coda.linear %x, %v : (tensor<2x12x8xbf16>, tensor<8x8xbf16>) -> tensor<2x12x8xbf16>
// CHECK-NEXT:   %z_1 = coda.cast %z : (tensor<2x12x8xbf16>) -> tensor<2x12x8xf32>
// CHECK-NEXT:   %0 = coda.mul %z_1, %z_1 : (tensor<2x12x8xf32>, tensor<2x12x8xf32>) -> tensor<2x12x8xf32>
// CHECK-NEXT:   %1 = coda.constant {value = 0.083333333333333329 : f64} : tensor<f32>
// CHECK-NEXT:   %2 = coda.sum_to %z : (tensor<2x12x8xbf16>) -> tensor<2x1x8xf32>
// CHECK-NEXT:   %3 = coda.mul %2, %1 : (tensor<2x1x8xf32>, tensor<f32>) -> tensor<2x1x8xf32>
// CHECK-NEXT:   %4 = coda.sum_to %0 : (tensor<2x12x8xf32>) -> tensor<2x1x8xf32>
// CHECK-NEXT:   %5 = coda.mul %4, %1 : (tensor<2x1x8xf32>, tensor<f32>) -> tensor<2x1x8xf32>
// CHECK-NEXT:   %6 = coda.mul %3, %3 : (tensor<2x1x8xf32>, tensor<2x1x8xf32>) -> tensor<2x1x8xf32>
// CHECK-NEXT:   %7 = coda.sub %5, %6 : (tensor<2x1x8xf32>, tensor<2x1x8xf32>) -> tensor<2x1x8xf32>
// CHECK-NEXT:   %8 = coda.constant {value = 0.000000e+00 : f64} : tensor<f32>
// CHECK-NEXT:   %9 = coda.maximum %7, %8 : (tensor<2x1x8xf32>, tensor<f32>) -> tensor<2x1x8xf32>
// CHECK-NEXT:   %mean = coda.reduce %3 {kind = "mean"} : (tensor<2x1x8xf32>) -> tensor<2x1x1xf32>
// CHECK-NEXT:   %10 = coda.sub %3, %mean : (tensor<2x1x8xf32>, tensor<2x1x1xf32>) -> tensor<2x1x8xf32>
// CHECK-NEXT:   %11 = coda.mul %10, %10 : (tensor<2x1x8xf32>, tensor<2x1x8xf32>) -> tensor<2x1x8xf32>
// CHECK-NEXT:   %12 = coda.add %9, %11 : (tensor<2x1x8xf32>, tensor<2x1x8xf32>) -> tensor<2x1x8xf32>
// CHECK-NEXT:   %variance = coda.reduce %12 {kind = "mean"} : (tensor<2x1x8xf32>) -> tensor<2x1x1xf32>
// CHECK-NEXT:   %13 = coda.constant {value = 1.000000e-05 : f64} : tensor<f32>
// CHECK-NEXT:   %14 = coda.add %variance, %13 : (tensor<2x1x1xf32>, tensor<f32>) -> tensor<2x1x1xf32>
// CHECK-NEXT:   %rstd = coda.rsqrt %14 : (tensor<2x1x1xf32>) -> tensor<2x1x1xf32>
// CHECK-NEXT:   %rstd_1 = coda.broadcast %rstd : (tensor<2x1x1xf32>) -> tensor<2x1x8xf32>
// CHECK-NEXT:   %15 = coda.mul %z_1, %rstd : (tensor<2x12x8xf32>, tensor<2x1x1xf32>) -> tensor<2x12x8xf32>
// CHECK-NEXT:   %shift = coda.mul %mean, %rstd_1 : (tensor<2x1x1xf32>, tensor<2x1x8xf32>) -> tensor<2x1x8xf32>
// CHECK-NEXT:   %16 = coda.sub %15, %shift : (tensor<2x12x8xf32>, tensor<2x1x8xf32>) -> tensor<2x12x8xf32>
// CHECK-NEXT:   %n = coda.cast %16 : (tensor<2x12x8xf32>) -> tensor<2x12x8xbf16>
// CHECK-NEXT:   %s = coda.silu %n : (tensor<2x12x8xbf16>) -> tensor<2x12x8xbf16>
// CHECK-NEXT:   func.return %s : tensor<2x12x8xbf16>
// CHECK-NEXT: }

// -----

// Each channel is a group, as in an instance norm. The number of positions is known in a call only,
// and the result is read with its channels first.

func.func @instances(%x: tensor<?x?x8xf16>, %r: tensor<?x?x8xf16>, %w: tensor<8xf16>, %b: tensor<8xf16>) -> tensor<?x8x?xf16> {
  %z = coda.add %x, %r : (tensor<?x?x8xf16>, tensor<?x?x8xf16>) -> tensor<?x?x8xf16>
  %t = coda.transpose %z {perm = [0, 2, 1]} : (tensor<?x?x8xf16>) -> tensor<?x8x?xf16>
  %n = coda.group_norm %t, %w, %b {groups = 8 : i64, eps = 1.0e-5 : f64} : (tensor<?x8x?xf16>, tensor<8xf16>, tensor<8xf16>) -> tensor<?x8x?xf16>
  func.return %n : tensor<?x8x?xf16>
}

// CHECK:      func.func @instances(
// CHECK-NEXT:   %z = coda.add %x, %r : (tensor<?x?x8xf16>, tensor<?x?x8xf16>) -> tensor<?x?x8xf16>
// CHECK-NEXT:   %z_1 = coda.cast %z : (tensor<?x?x8xf16>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %0 = coda.mul %z_1, %z_1 : (tensor<?x?x8xf32>, tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %1 = coda.constant {value = 1.000000e+00 : f64} : tensor<f32>
// CHECK-NEXT:   %positions = coda.extent %x {dim = 1 : i64} : (tensor<?x?x8xf16>) -> tensor<i64>
// CHECK-NEXT:   %positions_1 = coda.cast %positions : (tensor<i64>) -> tensor<f32>
// CHECK-NEXT:   %share = coda.div %1, %positions_1 : (tensor<f32>, tensor<f32>) -> tensor<f32>
// CHECK-NEXT:   %2 = coda.sum_to %z : (tensor<?x?x8xf16>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %3 = coda.mul %2, %share : (tensor<?x1x8xf32>, tensor<f32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %4 = coda.sum_to %0 : (tensor<?x?x8xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %5 = coda.mul %4, %share : (tensor<?x1x8xf32>, tensor<f32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %6 = coda.mul %3, %3 : (tensor<?x1x8xf32>, tensor<?x1x8xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %7 = coda.sub %5, %6 : (tensor<?x1x8xf32>, tensor<?x1x8xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %8 = coda.constant {value = 0.000000e+00 : f64} : tensor<f32>
// CHECK-NEXT:   %9 = coda.maximum %7, %8 : (tensor<?x1x8xf32>, tensor<f32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %10 = coda.constant {value = 1.000000e-05 : f64} : tensor<f32>
// CHECK-NEXT:   %11 = coda.add %9, %10 : (tensor<?x1x8xf32>, tensor<f32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %rstd = coda.rsqrt %11 : (tensor<?x1x8xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %w_1 = coda.cast %w : (tensor<8xf16>) -> tensor<8xf32>
// CHECK-NEXT:   %scale = coda.mul %rstd, %w_1 : (tensor<?x1x8xf32>, tensor<8xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %b_1 = coda.cast %b : (tensor<8xf16>) -> tensor<8xf32>
// CHECK-NEXT:   %12 = coda.mul %3, %scale : (tensor<?x1x8xf32>, tensor<?x1x8xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %shift = coda.sub %b_1, %12 : (tensor<8xf32>, tensor<?x1x8xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %13 = coda.mul %z_1, %scale : (tensor<?x?x8xf32>, tensor<?x1x8xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %14 = coda.add %13, %shift : (tensor<?x?x8xf32>, tensor<?x1x8xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %n = coda.cast %14 : (tensor<?x?x8xf32>) -> tensor<?x?x8xf16>
// CHECK-NEXT:   %n_1 = coda.transpose %n {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<?x?x8xf16>) -> tensor<?x8x?xf16>
// CHECK-NEXT:   func.return %n_1 : tensor<?x8x?xf16>
// CHECK-NEXT: }

// -----

// Without positions the variance is that of differences, in float32 as well.

func.func @rows(%x: tensor<?x3x8xf32>, %v: tensor<8x8xf32>) -> tensor<?x8xf32> {
  %z = coda.linear %x, %v : (tensor<?x3x8xf32>, tensor<8x8xf32>) -> tensor<?x3x8xf32>
  %t = coda.reshape %z : (tensor<?x3x8xf32>) -> tensor<?x8xf32>
  %n = coda.group_norm %t {groups = 2 : i64, eps = 1.0e-5 : f64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  func.return %n : tensor<?x8xf32>
}

// CHECK:      func.func @rows(
// CHECK-NEXT:   %z = coda.linear %x, %v : (tensor<?x3x8xf32>, tensor<8x8xf32>) -> tensor<?x3x8xf32>
// CHECK-NEXT:   %0 = coda.reshape %z : (tensor<?x3x8xf32>) -> tensor<?x3x2x4xf32>
// CHECK-NEXT:   %mean = coda.reduce %0 {kind = "mean"} : (tensor<?x3x2x4xf32>) -> tensor<?x3x2x1xf32>
// CHECK-NEXT:   %1 = coda.sub %0, %mean : (tensor<?x3x2x4xf32>, tensor<?x3x2x1xf32>) -> tensor<?x3x2x4xf32>
// CHECK-NEXT:   %2 = coda.mul %1, %1 : (tensor<?x3x2x4xf32>, tensor<?x3x2x4xf32>) -> tensor<?x3x2x4xf32>
// CHECK-NEXT:   %variance = coda.reduce %2 {kind = "mean"} : (tensor<?x3x2x4xf32>) -> tensor<?x3x2x1xf32>
// CHECK-NEXT:   %3 = coda.constant {value = 1.000000e-05 : f64} : tensor<f32>
// CHECK-NEXT:   %4 = coda.add %variance, %3 : (tensor<?x3x2x1xf32>, tensor<f32>) -> tensor<?x3x2x1xf32>
// CHECK-NEXT:   %rstd = coda.rsqrt %4 : (tensor<?x3x2x1xf32>) -> tensor<?x3x2x1xf32>
// CHECK-NEXT:   %normed = coda.mul %1, %rstd : (tensor<?x3x2x4xf32>, tensor<?x3x2x1xf32>) -> tensor<?x3x2x4xf32>
// CHECK-NEXT:   %n = coda.reshape %normed : (tensor<?x3x2x4xf32>) -> tensor<?x3x8xf32>
// CHECK-NEXT:   %n_1 = coda.reshape %n : (tensor<?x3x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   func.return %n_1 : tensor<?x8xf32>
// CHECK-NEXT: }

// -----

// A view makes other samples, two of one, and the rows are those of the view.

func.func @samples(%x: tensor<2x12x8xbf16>) -> tensor<4x8x6xbf16> {
  %h = coda.reshape %x : (tensor<2x12x8xbf16>) -> tensor<4x6x8xbf16>
  %t = coda.transpose %h {perm = [0, 2, 1]} : (tensor<4x6x8xbf16>) -> tensor<4x8x6xbf16>
  %n = coda.group_norm %t {groups = 1 : i64, eps = 1.0e-5 : f64} : (tensor<4x8x6xbf16>) -> tensor<4x8x6xbf16>
  func.return %n : tensor<4x8x6xbf16>
}

// CHECK:      func.func @samples(
// CHECK-NEXT:   %h = coda.reshape %x : (tensor<2x12x8xbf16>) -> tensor<4x6x8xbf16>
// CHECK-NEXT:   %h_1 = coda.cast %h : (tensor<4x6x8xbf16>) -> tensor<4x6x8xf32>
// CHECK-NEXT:   %0 = coda.mul %h_1, %h_1 : (tensor<4x6x8xf32>, tensor<4x6x8xf32>) -> tensor<4x6x8xf32>
// CHECK-NEXT:   %1 = coda.constant {value = 0.16666666666666666 : f64} : tensor<f32>
// CHECK-NEXT:   %2 = coda.sum_to %h : (tensor<4x6x8xbf16>) -> tensor<4x1x8xf32>
// CHECK-NEXT:   %3 = coda.mul %2, %1 : (tensor<4x1x8xf32>, tensor<f32>) -> tensor<4x1x8xf32>
// CHECK-NEXT:   %4 = coda.sum_to %0 : (tensor<4x6x8xf32>) -> tensor<4x1x8xf32>
// CHECK-NEXT:   %5 = coda.mul %4, %1 : (tensor<4x1x8xf32>, tensor<f32>) -> tensor<4x1x8xf32>
// CHECK-NEXT:   %6 = coda.mul %3, %3 : (tensor<4x1x8xf32>, tensor<4x1x8xf32>) -> tensor<4x1x8xf32>
// CHECK-NEXT:   %7 = coda.sub %5, %6 : (tensor<4x1x8xf32>, tensor<4x1x8xf32>) -> tensor<4x1x8xf32>
// CHECK-NEXT:   %8 = coda.constant {value = 0.000000e+00 : f64} : tensor<f32>
// CHECK-NEXT:   %9 = coda.maximum %7, %8 : (tensor<4x1x8xf32>, tensor<f32>) -> tensor<4x1x8xf32>
// CHECK-NEXT:   %mean = coda.reduce %3 {kind = "mean"} : (tensor<4x1x8xf32>) -> tensor<4x1x1xf32>
// CHECK-NEXT:   %10 = coda.sub %3, %mean : (tensor<4x1x8xf32>, tensor<4x1x1xf32>) -> tensor<4x1x8xf32>
// CHECK-NEXT:   %11 = coda.mul %10, %10 : (tensor<4x1x8xf32>, tensor<4x1x8xf32>) -> tensor<4x1x8xf32>
// CHECK-NEXT:   %12 = coda.add %9, %11 : (tensor<4x1x8xf32>, tensor<4x1x8xf32>) -> tensor<4x1x8xf32>
// CHECK-NEXT:   %variance = coda.reduce %12 {kind = "mean"} : (tensor<4x1x8xf32>) -> tensor<4x1x1xf32>
// CHECK-NEXT:   %13 = coda.constant {value = 1.000000e-05 : f64} : tensor<f32>
// CHECK-NEXT:   %14 = coda.add %variance, %13 : (tensor<4x1x1xf32>, tensor<f32>) -> tensor<4x1x1xf32>
// CHECK-NEXT:   %rstd = coda.rsqrt %14 : (tensor<4x1x1xf32>) -> tensor<4x1x1xf32>
// CHECK-NEXT:   %rstd_1 = coda.broadcast %rstd : (tensor<4x1x1xf32>) -> tensor<4x1x8xf32>
// CHECK-NEXT:   %15 = coda.mul %h_1, %rstd : (tensor<4x6x8xf32>, tensor<4x1x1xf32>) -> tensor<4x6x8xf32>
// CHECK-NEXT:   %shift = coda.mul %mean, %rstd_1 : (tensor<4x1x1xf32>, tensor<4x1x8xf32>) -> tensor<4x1x8xf32>
// CHECK-NEXT:   %16 = coda.sub %15, %shift : (tensor<4x6x8xf32>, tensor<4x1x8xf32>) -> tensor<4x6x8xf32>
// CHECK-NEXT:   %n = coda.cast %16 : (tensor<4x6x8xf32>) -> tensor<4x6x8xbf16>
// CHECK-NEXT:   %n_1 = coda.transpose %n {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<4x6x8xbf16>) -> tensor<4x8x6xbf16>
// CHECK-NEXT:   func.return %n_1 : tensor<4x8x6xbf16>
// CHECK-NEXT: }

// -----

// Numbers of positions that a call has are extents of an argument.

func.func @dynamic(%x: tensor<?x?x8xbf16> {coda.dims = ["B", "T", 8 : i64]}) -> tensor<?x?x8xbf16> {
  %t = coda.transpose %x {perm = [0, 2, 1]} : (tensor<?x?x8xbf16>) -> tensor<?x8x?xbf16>
  %n = coda.group_norm %t {groups = 8 : i64, eps = 1.0e-5 : f64} : (tensor<?x8x?xbf16>) -> tensor<?x8x?xbf16>
  %y = coda.transpose %n {perm = [0, 2, 1]} : (tensor<?x8x?xbf16>) -> tensor<?x?x8xbf16>
  func.return %y : tensor<?x?x8xbf16>
}

// CHECK:      func.func @dynamic(
// CHECK-NEXT:   %x_1 = coda.cast %x : (tensor<?x?x8xbf16>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %0 = coda.mul %x_1, %x_1 : (tensor<?x?x8xf32>, tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %1 = coda.constant {value = 1.000000e+00 : f64} : tensor<f32>
// CHECK-NEXT:   %positions = coda.extent %x {dim = 1 : i64} : (tensor<?x?x8xbf16>) -> tensor<i64>
// CHECK-NEXT:   %positions_1 = coda.cast %positions : (tensor<i64>) -> tensor<f32>
// CHECK-NEXT:   %share = coda.div %1, %positions_1 : (tensor<f32>, tensor<f32>) -> tensor<f32>
// CHECK-NEXT:   %2 = coda.sum_to %x : (tensor<?x?x8xbf16>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %3 = coda.mul %2, %share : (tensor<?x1x8xf32>, tensor<f32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %4 = coda.sum_to %0 : (tensor<?x?x8xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %5 = coda.mul %4, %share : (tensor<?x1x8xf32>, tensor<f32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %6 = coda.mul %3, %3 : (tensor<?x1x8xf32>, tensor<?x1x8xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %7 = coda.sub %5, %6 : (tensor<?x1x8xf32>, tensor<?x1x8xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %8 = coda.constant {value = 0.000000e+00 : f64} : tensor<f32>
// CHECK-NEXT:   %9 = coda.maximum %7, %8 : (tensor<?x1x8xf32>, tensor<f32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %10 = coda.constant {value = 1.000000e-05 : f64} : tensor<f32>
// CHECK-NEXT:   %11 = coda.add %9, %10 : (tensor<?x1x8xf32>, tensor<f32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %rstd = coda.rsqrt %11 : (tensor<?x1x8xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %12 = coda.mul %x_1, %rstd : (tensor<?x?x8xf32>, tensor<?x1x8xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %shift = coda.mul %3, %rstd : (tensor<?x1x8xf32>, tensor<?x1x8xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %13 = coda.sub %12, %shift : (tensor<?x?x8xf32>, tensor<?x1x8xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %n = coda.cast %13 : (tensor<?x?x8xf32>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   func.return %n : tensor<?x?x8xbf16>
// CHECK-NEXT: }

// -----

// Without positions, a group of one column is its own mean.

func.func @singles(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %n = coda.group_norm %x {groups = 8 : i64, eps = 1.0e-5 : f64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  func.return %n : tensor<?x8xf32>
}

// CHECK:      func.func @singles(
// CHECK-NEXT:   %0 = coda.sub %x, %x : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %1 = coda.mul %0, %0 : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %2 = coda.constant {value = 1.000000e-05 : f64} : tensor<f32>
// CHECK-NEXT:   %3 = coda.add %1, %2 : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %rstd = coda.rsqrt %3 : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %n = coda.mul %0, %rstd : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   func.return %n : tensor<?x8xf32>
// CHECK-NEXT: }

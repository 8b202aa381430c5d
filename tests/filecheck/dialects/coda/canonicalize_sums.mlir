// RUN: coda-opt %s -p canonicalize --split-input-file | filecheck %s

// A sum over the last dimension of a transpose is one over the dimension before.

func.func @transposed(%x: tensor<2x?x4xf32>, %y: tensor<?x?x4xbf16>, %z: tensor<?x4xf32>) -> (tensor<2x4x1xf32>, tensor<?x4x1xbf16>, tensor<4x1xf32>) {
  %f = coda.transpose %x {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<2x?x4xf32>) -> tensor<2x4x?xf32>
  %s = coda.reduce %f {kind = "sum"} : (tensor<2x4x?xf32>) -> tensor<2x4x1xf32>
  %g = coda.transpose %y {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<?x?x4xbf16>) -> tensor<?x4x?xbf16>
  %t = coda.reduce %g {kind = "sum"} : (tensor<?x4x?xbf16>) -> tensor<?x4x1xbf16>
  %h = coda.transpose %z {perm = [1 : i64, 0 : i64]} : (tensor<?x4xf32>) -> tensor<4x?xf32>
  %u = coda.reduce %h {kind = "sum"} : (tensor<4x?xf32>) -> tensor<4x1xf32>
  func.return %s, %t, %u : tensor<2x4x1xf32>, tensor<?x4x1xbf16>, tensor<4x1xf32>
}

// CHECK:      func.func @transposed(%x: tensor<2x?x4xf32>, %y: tensor<?x?x4xbf16>, %z: tensor<?x4xf32>) -> (tensor<2x4x1xf32>, tensor<?x4x1xbf16>, tensor<4x1xf32>) {
// CHECK-NEXT:   %s = coda.sum_to %x : (tensor<2x?x4xf32>) -> tensor<2x1x4xf32>
// CHECK-NEXT:   %s_1 = coda.reshape %s : (tensor<2x1x4xf32>) -> tensor<2x4x1xf32>
// CHECK-NEXT:   %t = coda.sum_to %y : (tensor<?x?x4xbf16>) -> tensor<?x1x4xbf16>
// CHECK-NEXT:   %t_1 = coda.reshape %t : (tensor<?x1x4xbf16>) -> tensor<?x4x1xbf16>
// CHECK-NEXT:   %u = coda.sum_to %z : (tensor<?x4xf32>) -> tensor<4xf32>
// CHECK-NEXT:   %u_1 = coda.reshape %u : (tensor<4xf32>) -> tensor<4x1xf32>
// CHECK-NEXT:   func.return %s_1, %t_1, %u_1 : tensor<2x4x1xf32>, tensor<?x4x1xbf16>, tensor<4x1xf32>
// CHECK-NEXT: }

// -----

// A sum over all rows whose result has dimensions of one element before the columns.

func.func @row(%x: tensor<2x?x4xf32>, %y: tensor<2x?x4xf32>) -> (tensor<1x1x4xf32>, tensor<1x?x4xf32>) {
  %s = coda.sum_to %x : (tensor<2x?x4xf32>) -> tensor<1x1x4xf32>
  %t = coda.sum_to %y : (tensor<2x?x4xf32>) -> tensor<1x?x4xf32>
  func.return %s, %t : tensor<1x1x4xf32>, tensor<1x?x4xf32>
}

// CHECK:      func.func @row(
// CHECK-NEXT:   %s = coda.sum_to %x : (tensor<2x?x4xf32>) -> tensor<4xf32>
// CHECK-NEXT:   %s_1 = coda.reshape %s : (tensor<4xf32>) -> tensor<1x1x4xf32>
// CHECK-NEXT:   %t = coda.sum_to %y : (tensor<2x?x4xf32>) -> tensor<1x?x4xf32>
// CHECK-NEXT:   func.return %s_1, %t : tensor<1x1x4xf32>, tensor<1x?x4xf32>
// CHECK-NEXT: }

// -----

// Means and sums of the positions of images with columns; a mean of columns stays.

func.func @positions(%x: tensor<?x3x4x8xbf16> {coda.dims = ["B", 3 : i64, 4 : i64, 8 : i64]}, %y: tensor<2x3x8xf32>) -> (tensor<?x8x1xbf16>, tensor<2x8x1xf32>, tensor<?x12x1xbf16>) {
  %t = coda.transpose %x {perm = [0 : i64, 3 : i64, 1 : i64, 2 : i64]} : (tensor<?x3x4x8xbf16>) -> tensor<?x8x3x4xbf16>
  %r = coda.reshape %t {coda.dims = ["B", 8 : i64, 12 : i64]} : (tensor<?x8x3x4xbf16>) -> tensor<?x8x12xbf16>
  %a = coda.reduce %r {kind = "mean"} : (tensor<?x8x12xbf16>) -> tensor<?x8x1xbf16>
  %u = coda.transpose %y {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<2x3x8xf32>) -> tensor<2x8x3xf32>
  %b = coda.reduce %u {kind = "mean"} : (tensor<2x8x3xf32>) -> tensor<2x8x1xf32>
  %v = coda.transpose %x {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x3x4x8xbf16>) -> tensor<?x4x3x8xbf16>
  %w = coda.reshape %v {coda.dims = ["B", 12 : i64, 8 : i64]} : (tensor<?x4x3x8xbf16>) -> tensor<?x12x8xbf16>
  %c = coda.reduce %w {kind = "mean"} : (tensor<?x12x8xbf16>) -> tensor<?x12x1xbf16>
  func.return %a, %b, %c : tensor<?x8x1xbf16>, tensor<2x8x1xf32>, tensor<?x12x1xbf16>
}

// CHECK:      func.func @positions(
// CHECK-NEXT:   %a = coda.sum_to %x : (tensor<?x3x4x8xbf16>) -> tensor<?x1x1x8xf32>
// CHECK-NEXT:   %a_1 = coda.constant {value = 0.083333333333333329 : f64} : tensor<f32>
// CHECK-NEXT:   %a_2 = coda.mul %a, %a_1 : (tensor<?x1x1x8xf32>, tensor<f32>) -> tensor<?x1x1x8xf32>
// CHECK-NEXT:   %a_3 = coda.cast %a_2 : (tensor<?x1x1x8xf32>) -> tensor<?x1x1x8xbf16>
// CHECK-NEXT:   %a_4 = coda.reshape %a_3 : (tensor<?x1x1x8xbf16>) -> tensor<?x8x1xbf16>
// CHECK-NEXT:   %b = coda.sum_to %y : (tensor<2x3x8xf32>) -> tensor<2x1x8xf32>
// CHECK-NEXT:   %b_1 = coda.constant {value = 0.33333333333333331 : f64} : tensor<f32>
// CHECK-NEXT:   %b_2 = coda.mul %b, %b_1 : (tensor<2x1x8xf32>, tensor<f32>) -> tensor<2x1x8xf32>
// CHECK-NEXT:   %b_3 = coda.reshape %b_2 : (tensor<2x1x8xf32>) -> tensor<2x8x1xf32>
// CHECK-NEXT:   %v = coda.transpose %x {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x3x4x8xbf16>) -> tensor<?x4x3x8xbf16>
// CHECK-NEXT:   %w = coda.reshape %v {coda.dims = ["B", 12 : i64, 8 : i64]} : (tensor<?x4x3x8xbf16>) -> tensor<?x12x8xbf16>
// CHECK-NEXT:   %c = coda.reduce %w {kind = "mean"} : (tensor<?x12x8xbf16>) -> tensor<?x12x1xbf16>
// CHECK-NEXT:   func.return %a_4, %b_3, %c : tensor<?x8x1xbf16>, tensor<2x8x1xf32>, tensor<?x12x1xbf16>
// CHECK-NEXT: }

// -----

// Numbers are rounded before they are repeated.

func.func @repeated(%x: tensor<2x1x4xf32>, %y: tensor<2x3x4xbf16>) -> tensor<2x3x4xbf16> {
  %b = coda.broadcast %x : (tensor<2x1x4xf32>) -> tensor<2x3x4xf32>
  %c = coda.cast %b : (tensor<2x3x4xf32>) -> tensor<2x3x4xbf16>
  %z = coda.add %c, %y : (tensor<2x3x4xbf16>, tensor<2x3x4xbf16>) -> tensor<2x3x4xbf16>
  func.return %z : tensor<2x3x4xbf16>
}

// CHECK:      func.func @repeated(
// CHECK-NEXT:   %c = coda.cast %x : (tensor<2x1x4xf32>) -> tensor<2x1x4xbf16>
// CHECK-NEXT:   %z = coda.add %c, %y : (tensor<2x1x4xbf16>, tensor<2x3x4xbf16>) -> tensor<2x3x4xbf16>
// CHECK-NEXT:   func.return %z : tensor<2x3x4xbf16>
// CHECK-NEXT: }

// -----

// The sums of rows come before those of samples; all elements stay one sum.

func.func @heads(%x: tensor<?x2x3x8xbf16>, %y: tensor<2x3xf32>) -> (tensor<2x1x1xbf16>, tensor<1x2x1x1xf32>, tensor<1x1xf32>) {
  %a = coda.sum_to %x : (tensor<?x2x3x8xbf16>) -> tensor<2x1x1xbf16>
  %b = coda.sum_to %x : (tensor<?x2x3x8xbf16>) -> tensor<1x2x1x1xf32>
  %c = coda.sum_to %y : (tensor<2x3xf32>) -> tensor<1x1xf32>
  func.return %a, %b, %c : tensor<2x1x1xbf16>, tensor<1x2x1x1xf32>, tensor<1x1xf32>
}

// CHECK:      func.func @heads(
// CHECK-NEXT:   %a = coda.reduce %x {kind = "sum"} : (tensor<?x2x3x8xbf16>) -> tensor<?x2x3x1xf32>
// CHECK-NEXT:   %a_1 = coda.sum_to %a : (tensor<?x2x3x1xf32>) -> tensor<2x1x1xbf16>
// CHECK-NEXT:   %b = coda.reduce %x {kind = "sum"} : (tensor<?x2x3x8xbf16>) -> tensor<?x2x3x1xf32>
// CHECK-NEXT:   %b_1 = coda.sum_to %b : (tensor<?x2x3x1xf32>) -> tensor<1x2x1x1xf32>
// CHECK-NEXT:   %c = coda.sum_to %y : (tensor<2x3xf32>) -> tensor<1x1xf32>
// CHECK-NEXT:   func.return %a_1, %b_1, %c : tensor<2x1x1xbf16>, tensor<1x2x1x1xf32>, tensor<1x1xf32>
// CHECK-NEXT: }

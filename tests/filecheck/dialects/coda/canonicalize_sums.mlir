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

// RUN: coda-opt %s -p flatten-groups --split-input-file | filecheck %s

// A norm of heads: what follows from the sums of groups is for fuse-groups.

func.func @norm(%z: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %h = coda.reshape %z : (tensor<?x8xf32>) -> tensor<?x2x4xf32>
  %s = coda.norm_stats %h {kind = "rms", eps = 1.0e-05 : f64} : (tensor<?x2x4xf32>) -> tensor<?x2x1xf32>
  %p = coda.mul %h, %s : (tensor<?x2x4xf32>, tensor<?x2x1xf32>) -> tensor<?x2x4xf32>
  %y = coda.reshape %p : (tensor<?x2x4xf32>) -> tensor<?x8xf32>
  func.return %y : tensor<?x8xf32>
}

// CHECK:      func.func @norm(
// CHECK-NEXT:   %h = coda.reshape %z : (tensor<?x8xf32>) -> tensor<?x2x4xf32>
// CHECK-NEXT:   %s = coda.norm_stats %h {kind = "rms", eps = 1.000000e-05 : f64} : (tensor<?x2x4xf32>) -> tensor<?x2x1xf32>
// CHECK-NEXT:   %p = coda.mul %h, %s : (tensor<?x2x4xf32>, tensor<?x2x1xf32>) -> tensor<?x2x4xf32>
// CHECK-NEXT:   %y = coda.reshape %p : (tensor<?x2x4xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   func.return %y : tensor<?x8xf32>
// CHECK-NEXT: }

// -----

// Nothing splits columns: the operands are in groups.

func.func @groups(%h: tensor<?x2x4xf32>, %s: tensor<?x2x1xf32>) -> tensor<?x8xf32> {
  %p = coda.mul %h, %s : (tensor<?x2x4xf32>, tensor<?x2x1xf32>) -> tensor<?x2x4xf32>
  %y = coda.reshape %p : (tensor<?x2x4xf32>) -> tensor<?x8xf32>
  func.return %y : tensor<?x8xf32>
}

// CHECK:      func.func @groups(
// CHECK-NEXT:   %p = coda.mul %h, %s : (tensor<?x2x4xf32>, tensor<?x2x1xf32>) -> tensor<?x2x4xf32>
// CHECK-NEXT:   %y = coda.reshape %p : (tensor<?x2x4xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   func.return %y : tensor<?x8xf32>
// CHECK-NEXT: }

// -----

// One group, or groups of one column: a view of rows of samples.

func.func @one(%z: tensor<?x8xf32>, %s: tensor<1x8xf32>, %t: tensor<8x1xf32>) -> (tensor<?x1x8xf32>, tensor<?x8x1xf32>) {
  %h = coda.reshape %z : (tensor<?x8xf32>) -> tensor<?x1x8xf32>
  %k = coda.reshape %z : (tensor<?x8xf32>) -> tensor<?x8x1xf32>
  %p = coda.mul %h, %s : (tensor<?x1x8xf32>, tensor<1x8xf32>) -> tensor<?x1x8xf32>
  %q = coda.mul %k, %t : (tensor<?x8x1xf32>, tensor<8x1xf32>) -> tensor<?x8x1xf32>
  func.return %p, %q : tensor<?x1x8xf32>, tensor<?x8x1xf32>
}

// CHECK:      func.func @one(
// CHECK-NEXT:   %h = coda.reshape %z : (tensor<?x8xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %k = coda.reshape %z : (tensor<?x8xf32>) -> tensor<?x8x1xf32>
// CHECK-NEXT:   %p = coda.mul %h, %s : (tensor<?x1x8xf32>, tensor<1x8xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %q = coda.mul %k, %t : (tensor<?x8x1xf32>, tensor<8x1xf32>) -> tensor<?x8x1xf32>
// CHECK-NEXT:   func.return %p, %q : tensor<?x1x8xf32>, tensor<?x8x1xf32>
// CHECK-NEXT: }

// RUN: coda-opt %s -p raise-rms-norm,dce --split-input-file | filecheck %s

// The root of another tensor.

func.func @other(%x: tensor<?x8xf32>, %z: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %sq = coda.mul %z, %z : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %ms = coda.reduce %sq {kind = "mean"} : (tensor<?x8xf32>) -> tensor<?x1xf32>
  %eps = coda.constant {value = 1.0e-5 : f64} : tensor<f32>
  %v = coda.add %ms, %eps : (tensor<?x1xf32>, tensor<f32>) -> tensor<?x1xf32>
  %r = coda.rsqrt %v : (tensor<?x1xf32>) -> tensor<?x1xf32>
  %y = coda.mul %x, %r : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  func.return %y : tensor<?x8xf32>
}

// CHECK-LABEL: func.func @other(
// CHECK-NOT: coda.rms_norm
// CHECK: func.return

// -----

// eps outside of the root.

func.func @outside(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %sq = coda.mul %x, %x : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %ms = coda.reduce %sq {kind = "mean"} : (tensor<?x8xf32>) -> tensor<?x1xf32>
  %root = coda.sqrt %ms : (tensor<?x1xf32>) -> tensor<?x1xf32>
  %eps = coda.constant {value = 1.0e-5 : f64} : tensor<f32>
  %d = coda.add %root, %eps : (tensor<?x1xf32>, tensor<f32>) -> tensor<?x1xf32>
  %y = coda.div %x, %d : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  func.return %y : tensor<?x8xf32>
}

// CHECK-LABEL: func.func @outside(
// CHECK-NOT: coda.rms_norm
// CHECK: func.return

// -----

// A sum that is not divided by N.

func.func @sum(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %sq = coda.mul %x, %x : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %ms = coda.reduce %sq {kind = "sum"} : (tensor<?x8xf32>) -> tensor<?x1xf32>
  %eps = coda.constant {value = 1.0e-5 : f64} : tensor<f32>
  %v = coda.add %ms, %eps : (tensor<?x1xf32>, tensor<f32>) -> tensor<?x1xf32>
  %r = coda.rsqrt %v : (tensor<?x1xf32>) -> tensor<?x1xf32>
  %y = coda.mul %x, %r : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  func.return %y : tensor<?x8xf32>
}

// CHECK-LABEL: func.func @sum(
// CHECK-NOT: coda.rms_norm
// CHECK: func.return

// -----

// A sum divided by another number.

func.func @count(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %sq = coda.mul %x, %x : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %ms = coda.reduce %sq {kind = "sum"} : (tensor<?x8xf32>) -> tensor<?x1xf32>
  %seven = coda.constant {value = 7.0 : f64} : tensor<f32>
  %v = coda.div %ms, %seven : (tensor<?x1xf32>, tensor<f32>) -> tensor<?x1xf32>
  %r = coda.rsqrt %v : (tensor<?x1xf32>) -> tensor<?x1xf32>
  %y = coda.mul %x, %r : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  func.return %y : tensor<?x8xf32>
}

// CHECK-LABEL: func.func @count(
// CHECK-NOT: coda.rms_norm
// CHECK: func.return

// -----

// Not the square of x.

func.func @product(%x: tensor<?x8xf32>, %z: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %sq = coda.mul %x, %z : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %ms = coda.reduce %sq {kind = "mean"} : (tensor<?x8xf32>) -> tensor<?x1xf32>
  %eps = coda.constant {value = 1.0e-5 : f64} : tensor<f32>
  %v = coda.add %ms, %eps : (tensor<?x1xf32>, tensor<f32>) -> tensor<?x1xf32>
  %r = coda.rsqrt %v : (tensor<?x1xf32>) -> tensor<?x1xf32>
  %y = coda.mul %x, %r : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  func.return %y : tensor<?x8xf32>
}

// CHECK-LABEL: func.func @product(
// CHECK-NOT: coda.rms_norm
// CHECK: func.return

// -----

// A negative eps can make a NaN that no norm makes.

func.func @negative(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %sq = coda.mul %x, %x : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %ms = coda.reduce %sq {kind = "mean"} : (tensor<?x8xf32>) -> tensor<?x1xf32>
  %eps = coda.constant {value = -1.0e-5 : f64} : tensor<f32>
  %v = coda.add %ms, %eps : (tensor<?x1xf32>, tensor<f32>) -> tensor<?x1xf32>
  %r = coda.rsqrt %v : (tensor<?x1xf32>) -> tensor<?x1xf32>
  %y = coda.mul %x, %r : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  func.return %y : tensor<?x8xf32>
}

// CHECK-LABEL: func.func @negative(
// CHECK-NOT: coda.rms_norm
// CHECK: func.return

// -----

// Scaled by a column before, by another number than √N, and the norm of another tensor.

func.func @other_scales(%x: tensor<?x16xf32>, %t: tensor<?x16xf32>, %c: tensor<?x1xf32>) -> (tensor<?x16xf32>, tensor<?x16xf32>, tensor<?x16xf32>) {
  %eps = coda.constant {value = 1.0e-6 : f64} : tensor<f32>
  %five = coda.constant {value = 5.0 : f64} : tensor<f32>
  %sq = coda.mul %x, %x : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
  %ms = coda.reduce %sq {kind = "mean"} : (tensor<?x16xf32>) -> tensor<?x1xf32>
  %v = coda.add %ms, %eps : (tensor<?x1xf32>, tensor<f32>) -> tensor<?x1xf32>
  %r = coda.rsqrt %v : (tensor<?x1xf32>) -> tensor<?x1xf32>
  %xc = coda.mul %x, %c : (tensor<?x16xf32>, tensor<?x1xf32>) -> tensor<?x16xf32>
  %y = coda.mul %xc, %r : (tensor<?x16xf32>, tensor<?x1xf32>) -> tensor<?x16xf32>
  %sum = coda.reduce %sq {kind = "sum"} : (tensor<?x16xf32>) -> tensor<?x1xf32>
  %n = coda.sqrt %sum : (tensor<?x1xf32>) -> tensor<?x1xf32>
  %x5 = coda.mul %x, %five : (tensor<?x16xf32>, tensor<f32>) -> tensor<?x16xf32>
  %z = coda.div %x5, %n : (tensor<?x16xf32>, tensor<?x1xf32>) -> tensor<?x16xf32>
  %o = coda.mul %t, %r : (tensor<?x16xf32>, tensor<?x1xf32>) -> tensor<?x16xf32>
  func.return %y, %z, %o : tensor<?x16xf32>, tensor<?x16xf32>, tensor<?x16xf32>
}

// CHECK-LABEL: func.func @other_scales(
// CHECK-NOT:     coda.rms_norm
// CHECK:         func.return

// RUN: coda-opt %s -p canonicalize | filecheck %s

// CHECK-LABEL: func.func @folds
// CHECK-SAME: %x: tensor<?x8xf32>, %y: tensor<4x8xf32>
func.func @folds(%x: tensor<?x8xf32>, %y: tensor<4x8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<32xf32>, tensor<4x8xf32>) {
  %cast = coda.cast %x : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %slice = coda.slice %x {dim = 1 : i64, start = 0 : i64, stop = 8 : i64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %concat = coda.concat %x {dim = 0 : i64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %one = coda.constant {value = 1 : i64} : tensor<f32>
  %mul = coda.mul %one, %x : (tensor<f32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %div = coda.div %mul, %one : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  %n1 = coda.neg %y : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %n2 = coda.neg %n1 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %t1 = coda.transpose %y {perm = [1 : i64, 0 : i64]} : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %t2 = coda.transpose %t1 {perm = [1 : i64, 0 : i64]} : (tensor<8x4xf32>) -> tensor<4x8xf32>
  %r1 = coda.reshape %y : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %r2 = coda.reshape %r1 : (tensor<8x4xf32>) -> tensor<32xf32>
  %r3 = coda.reshape %r1 : (tensor<8x4xf32>) -> tensor<4x8xf32>
  // CHECK-NEXT: %r2 = coda.reshape %y : (tensor<4x8xf32>) -> tensor<32xf32>
  // CHECK-NEXT: func.return %x, %x, %x, %x, %y, %y, %r2, %y
  func.return %cast, %slice, %concat, %div, %n2, %t2, %r2, %r3 : tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<32xf32>, tensor<4x8xf32>
}

// CHECK-LABEL: func.func @stays
// CHECK-NEXT: coda.cast
// CHECK-NEXT: coda.slice
// CHECK-NEXT: coda.reshape
// CHECK-NEXT: coda.reshape
// CHECK-NEXT: coda.constant
// CHECK-NEXT: coda.div %one, %x
// CHECK-NEXT: func.return
func.func @stays(%x: tensor<?x8xf32>) -> (tensor<?x8xbf16>, tensor<?x7xf32>, tensor<?x?xf32>, tensor<?x8xf32>) {
  %cast = coda.cast %x : (tensor<?x8xf32>) -> tensor<?x8xbf16>
  %slice = coda.slice %x {dim = 1 : i64, start = 0 : i64, stop = 7 : i64} : (tensor<?x8xf32>) -> tensor<?x7xf32>
  %r1 = coda.reshape %x : (tensor<?x8xf32>) -> tensor<?x?xf32>
  %r2 = coda.reshape %r1 : (tensor<?x?xf32>) -> tensor<?x?xf32>
  %one = coda.constant {value = 1 : i64} : tensor<f32>
  %div = coda.div %one, %x : (tensor<f32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  func.return %cast, %slice, %r2, %div : tensor<?x8xbf16>, tensor<?x7xf32>, tensor<?x?xf32>, tensor<?x8xf32>
}

// RUN: coda-opt %s -p canonicalize --check-equivalence | filecheck %s

// CHECK-LABEL: func.func @heads
func.func @heads(%a: tensor<2x4x6xf32>, %b: tensor<2x5x6xf32>) -> tensor<2x3x9x2xf32> {
  %a1 = coda.reshape %a : (tensor<2x4x6xf32>) -> tensor<2x4x3x2xf32>
  %a2 = coda.transpose %a1 {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x4x3x2xf32>) -> tensor<2x3x4x2xf32>
  %b1 = coda.reshape %b : (tensor<2x5x6xf32>) -> tensor<2x5x3x2xf32>
  %b2 = coda.transpose %b1 {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x3x2xf32>) -> tensor<2x3x5x2xf32>
  %c = coda.concat %a2, %b2 {dim = 2 : i64} : (tensor<2x3x4x2xf32>, tensor<2x3x5x2xf32>) -> tensor<2x3x9x2xf32>
  // CHECK-NEXT: %c = coda.concat %a, %b {dim = 1 : i64} : (tensor<2x4x6xf32>, tensor<2x5x6xf32>) -> tensor<2x9x6xf32>
  // CHECK-NEXT: %c_1 = coda.reshape %c : (tensor<2x9x6xf32>) -> tensor<2x9x3x2xf32>
  // CHECK-NEXT: %c_2 = coda.transpose %c_1 {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x9x3x2xf32>) -> tensor<2x3x9x2xf32>
  // CHECK-NEXT: func.return %c_2
  func.return %c : tensor<2x3x9x2xf32>
}

// Transposes that differ, heads that are joined, and a size that is not known stay.
// CHECK-LABEL: func.func @stays
// CHECK-NEXT: coda.transpose
// CHECK-NEXT: coda.concat
// CHECK-NEXT: coda.reshape
// CHECK-NEXT: coda.reshape
// CHECK-NEXT: coda.concat
// CHECK-NEXT: coda.reshape
// CHECK-NEXT: coda.reshape
// CHECK-NEXT: coda.concat
// CHECK-NEXT: func.return
func.func @stays(%x: tensor<4x4xf32>, %y: tensor<2x6xf32>, %z: tensor<?x6xf32> {coda.dims = ["N", 6 : i64]}) -> (tensor<4x8xf32>, tensor<2x6x2xf32>, tensor<?x3x2xf32>) {
  %t = coda.transpose %x {perm = [1 : i64, 0 : i64]} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %c1 = coda.concat %t, %x {dim = 1 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x8xf32>
  %y1 = coda.reshape %y : (tensor<2x6xf32>) -> tensor<2x3x2xf32>
  %y2 = coda.reshape %y : (tensor<2x6xf32>) -> tensor<2x3x2xf32>
  %c2 = coda.concat %y1, %y2 {dim = 1 : i64} : (tensor<2x3x2xf32>, tensor<2x3x2xf32>) -> tensor<2x6x2xf32>
  %z1 = coda.reshape %z {coda.dims = ["N", 3 : i64, 2 : i64]} : (tensor<?x6xf32>) -> tensor<?x3x2xf32>
  %z2 = coda.reshape %y : (tensor<2x6xf32>) -> tensor<2x3x2xf32>
  %c3 = coda.concat %z1, %z2 {dim = 0 : i64} : (tensor<?x3x2xf32>, tensor<2x3x2xf32>) -> tensor<?x3x2xf32>
  func.return %c1, %c2, %c3 : tensor<4x8xf32>, tensor<2x6x2xf32>, tensor<?x3x2xf32>
}

// RUN: coda-opt %s | coda-opt | filecheck %s

func.func @f(%x: tensor<?x?xf32>) -> (tensor<?xi64>, tensor<8xi32>, tensor<i64>) {
  %p = coda.positions %x {dim = 1 : i64, start = 2 : i64, step = -1 : i64} : (tensor<?x?xf32>) -> tensor<?xi64>
  %q = coda.positions {start = 0 : i64, step = 4 : i64} : () -> tensor<8xi32>
  %t = coda.extent %x {dim = 1 : i64} : (tensor<?x?xf32>) -> tensor<i64>
  func.return %p, %q, %t : tensor<?xi64>, tensor<8xi32>, tensor<i64>
}

// CHECK: func.func @f
// CHECK-NEXT: %p = coda.positions %x {dim = 1 : i64, start = 2 : i64, step = -1 : i64} : (tensor<?x?xf32>) -> tensor<?xi64>
// CHECK-NEXT: %q = coda.positions {start = 0 : i64, step = 4 : i64} : () -> tensor<8xi32>
// CHECK-NEXT: %t = coda.extent %x {dim = 1 : i64} : (tensor<?x?xf32>) -> tensor<i64>

// RUN: coda-opt %s -p canonicalize,convert-linear-to-gemm,fuse-pointwise --split-input-file | filecheck %s

// The extents of arguments are numbers of an epilogue, which computes with them.

func.func @share(%x: tensor<?x?x8xf32> {coda.dims = ["B", "T", 8 : i64]}, %w: tensor<8x8xf32>) -> tensor<?x?x8xf32> {
  %z = coda.linear %x, %w : (tensor<?x?x8xf32>, tensor<8x8xf32>) -> tensor<?x?x8xf32>
  %b = coda.extent %x {dim = 0 : i64} : (tensor<?x?x8xf32>) -> tensor<i64>
  %t = coda.extent %x {dim = 1 : i64} : (tensor<?x?x8xf32>) -> tensor<i64>
  %n = coda.mul %b, %t : (tensor<i64>, tensor<i64>) -> tensor<i64>
  %f = coda.cast %n : (tensor<i64>) -> tensor<f32>
  %y = coda.div %z, %f : (tensor<?x?x8xf32>, tensor<f32>) -> tensor<?x?x8xf32>
  func.return %y : tensor<?x?x8xf32>
}

// CHECK:      func.func @share(
// CHECK-NEXT:   %b = coda.extent %x {dim = 0 : i64} : (tensor<?x?x8xf32>) -> tensor<i64>
// CHECK-NEXT:   %t = coda.extent %x {dim = 1 : i64} : (tensor<?x?x8xf32>) -> tensor<i64>
// CHECK-NEXT:   %y = gemm.fused %x : tensor<?x?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<8x8xf32>) scalar(%b : tensor<i64>, %t : tensor<i64>)
// CHECK-NEXT:       -> (tile : tensor<?x?x8xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %b_1: i64, %t_1: i64):
// CHECK-NEXT:       %n = arith.muli %b_1, %t_1 : i64
// CHECK-NEXT:       %f = arith.sitofp %n : i64 to f32
// CHECK-NEXT:       %y_1 = arith.divf %acc, %f : f32
// CHECK-NEXT:       gemm.yield %y_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %n = coda.mul %b, %t : (tensor<i64>, tensor<i64>) -> tensor<i64>
// CHECK-NEXT:   %f = coda.cast %n : (tensor<i64>) -> tensor<f32>
// CHECK-NEXT:   func.return %y : tensor<?x?x8xf32>
// CHECK-NEXT: }

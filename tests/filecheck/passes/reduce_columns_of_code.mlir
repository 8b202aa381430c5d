// RUN: coda-opt %s -p 'reduce-columns{of-code=false},dce' | filecheck %s

// Columns of what pointwise code computes are left until a kernel computes it; those of arguments are not.

func.func @code(%x: tensor<6x8xf32>, %s: tensor<6x1xf32>) -> (tensor<8x1xf32>, tensor<8x1xf32>) {
  %h = coda.mul %x, %s : (tensor<6x8xf32>, tensor<6x1xf32>) -> tensor<6x8xf32>
  %t = coda.transpose %h {perm = [1 : i64, 0 : i64]} : (tensor<6x8xf32>) -> tensor<8x6xf32>
  %of_code = coda.reduce %t {kind = "max"} : (tensor<8x6xf32>) -> tensor<8x1xf32>
  %u = coda.transpose %x {perm = [1 : i64, 0 : i64]} : (tensor<6x8xf32>) -> tensor<8x6xf32>
  %of_x = coda.reduce %u {kind = "max"} : (tensor<8x6xf32>) -> tensor<8x1xf32>
  func.return %of_code, %of_x : tensor<8x1xf32>, tensor<8x1xf32>
}

// CHECK:      func.func @code(
// CHECK-NEXT:   %h = coda.mul %x, %s : (tensor<6x8xf32>, tensor<6x1xf32>) -> tensor<6x8xf32>
// CHECK-NEXT:   %t = coda.transpose %h {perm = [1 : i64, 0 : i64]} : (tensor<6x8xf32>) -> tensor<8x6xf32>
// CHECK-NEXT:   %of_code = coda.reduce %t {kind = "max"} : (tensor<8x6xf32>) -> tensor<8x1xf32>
// CHECK-NEXT:   %partial = gemm.map tile(%x : tensor<6x8xf32>)
// CHECK-NEXT:       -> (partial_col<max> : tensor<?x8xf32>) {
// CHECK-NEXT:     ^bb0(%x_1: f32):
// CHECK-NEXT:       gemm.yield %x_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %0 = gemm.finalize col (max %partial : tensor<?x8xf32>) -> (tensor<8xf32>) {
// CHECK-NEXT:   ^bb0(%1: f32):
// CHECK-NEXT:     gemm.yield %1 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   %of_x = coda.reshape %0 : (tensor<8xf32>) -> tensor<8x1xf32>
// CHECK-NEXT:   func.return %of_code, %of_x : tensor<8x1xf32>, tensor<8x1xf32>
// CHECK-NEXT: }

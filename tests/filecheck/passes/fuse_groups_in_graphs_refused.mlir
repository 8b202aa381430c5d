// RUN: coda-opt %s -p "fuse-groups{softmax-kernels=false}" | filecheck %s

// The compiler of a graph makes a kernel of a softmax and of what is around it; an epilogue takes
// one all the same.

func.func @scores(%x: tensor<?x4xf32>, %w: tensor<8x4xf32>, %z: tensor<?x8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  %s = gemm.fused %x : tensor<?x4xf32>
    columns(%w : tensor<8x4xf32>)
    -> (tile : tensor<?x8xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %p = coda.softmax %s : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %q = coda.softmax %z : (tensor<?x8xf32>) -> tensor<?x8xf32>
  func.return %p, %q : tensor<?x8xf32>, tensor<?x8xf32>
}

// CHECK:      func.func @scores(
// CHECK-NEXT:   %p = gemm.fused %x : tensor<?x4xf32>
// CHECK-NEXT:     columns(%w : tensor<8x4xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x8xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       %0 = gemm.group_reduce max %acc over 8 : f32
// CHECK-NEXT:       %1 = arith.subf %acc, %0 : f32
// CHECK-NEXT:       %2 = math.exp %1 : f32
// CHECK-NEXT:       %3 = gemm.group_reduce add %2 over 8 : f32
// CHECK-NEXT:       %4 = arith.divf %2, %3 : f32
// CHECK-NEXT:       gemm.yield %4 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %q = coda.softmax %z : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   func.return %p, %q : tensor<?x8xf32>, tensor<?x8xf32>
// CHECK-NEXT: }

// RUN: coda-opt %s -p drop-barriers | filecheck %s

// The kernels stay in their order, and read the same tensor.

func.func @parts(%h: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %v: tensor<16x8xbf16>) -> (tensor<?x16xbf16>, tensor<?x16xbf16>) {
  %y = gemm.fused %h : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>)
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %later = coda.barrier %h, %y : (tensor<?x8xbf16>, tensor<?x16xbf16>) -> tensor<?x8xbf16>
  %z = gemm.fused %later : tensor<?x8xbf16>
    columns(%v : tensor<16x8xbf16>)
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  func.return %y, %z : tensor<?x16xbf16>, tensor<?x16xbf16>
}

// CHECK:      func.func @parts(%h: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %v: tensor<16x8xbf16>) -> (tensor<?x16xbf16>, tensor<?x16xbf16>) {
// CHECK-NEXT:   %y = gemm.fused %h : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<16x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %z = gemm.fused %h : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%v : tensor<16x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y, %z : tensor<?x16xbf16>, tensor<?x16xbf16>
// CHECK-NEXT: }

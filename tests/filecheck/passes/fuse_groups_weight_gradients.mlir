// RUN: coda-opt %s -p "convert-linear-to-gemm,fuse-groups{of-weight-gradients=true},dce" --split-input-file | filecheck %s

// The gradient of weights of one length: a kernel reads the gradient and the weights once.

func.func @weights(%dy: tensor<?x4xbf16>, %x: tensor<?x512xbf16>, %w: tensor<4x512xbf16>) -> tensor<4x512xbf16> {
  %dw = coda.weight_gradient %dy, %x : (tensor<?x4xbf16>, tensor<?x512xbf16>) -> tensor<4x512xbf16>
  %p = coda.mul %dw, %w : (tensor<4x512xbf16>, tensor<4x512xbf16>) -> tensor<4x512xbf16>
  %s = coda.reduce %p {kind = "sum"} : (tensor<4x512xbf16>) -> tensor<4x1xbf16>
  %t = coda.mul %w, %s : (tensor<4x512xbf16>, tensor<4x1xbf16>) -> tensor<4x512xbf16>
  %d = coda.sub %dw, %t : (tensor<4x512xbf16>, tensor<4x512xbf16>) -> tensor<4x512xbf16>
  func.return %d : tensor<4x512xbf16>
}

// CHECK-LABEL: func.func @weights(
// CHECK-NEXT:    %dw = gemm.fused transposed %dy : tensor<?x4xbf16>
// CHECK-NEXT:      columns(%x : tensor<?x512xbf16>) kn
// CHECK-NEXT:        -> (tile : tensor<4x512xbf16>) {
// CHECK-NEXT:      ^bb0(%acc: f32):
// CHECK-NEXT:        gemm.yield %acc : f32
// CHECK-NEXT:      }
// CHECK-NEXT:    %d = gemm.map tile(%dw : tensor<4x512xbf16>, %w : tensor<4x512xbf16>)
// CHECK-NEXT:        -> (tile : tensor<4x512xbf16>) {
// CHECK-NEXT:      ^bb0(%dw_1: f32, %w_1: f32):
// CHECK-NEXT:        %p = arith.mulf %dw_1, %w_1 : f32
// CHECK-NEXT:        %s = gemm.group_reduce add %p over 512 : f32
// CHECK-NEXT:        %t = arith.mulf %w_1, %s : f32
// CHECK-NEXT:        %d_1 = arith.subf %dw_1, %t : f32
// CHECK-NEXT:        gemm.yield %d_1 : f32
// CHECK-NEXT:      }
// CHECK-NEXT:    func.return %d : tensor<4x512xbf16>

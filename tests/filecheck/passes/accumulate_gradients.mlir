// RUN: coda-opt %s -p 'accumulate-gradients{function=f_backward arguments=w,v}' | filecheck %s
// RUN: coda-opt %s -p 'accumulate-gradients{function=f_backward arguments=w,v}' --remarks=passed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK
// RUN: coda-opt %s -p 'accumulate-gradients{function=f_backward arguments=w,v},coda-to-gemm' | filecheck %s --check-prefix=FUSED

// The gradients of two weights that share x: the GEMM of both adds them to the ones that there are,
// in their memory. The gradient of v is computed in float32 from one of bfloat16, element by element.

func.func @f_backward(%x: tensor<?x8xbf16> {coda.name = "x", coda.dims = ["M", 8]}, %d_y: tensor<?x16xbf16> {coda.name = "d_y", coda.dims = ["M", 16]}, %d_z: tensor<?x4xbf16> {coda.name = "d_z", coda.dims = ["M", 4]}) -> (tensor<16x8xbf16> {coda.name = "d_w", coda.dims = [16, 8]}, tensor<4x8xf32> {coda.name = "d_v", coda.dims = [4, 8]}) {
  %d_w = coda.weight_gradient %d_y, %x : (tensor<?x16xbf16>, tensor<?x8xbf16>) -> tensor<16x8xbf16>
  %d_v_low = coda.weight_gradient %d_z, %x : (tensor<?x4xbf16>, tensor<?x8xbf16>) -> tensor<4x8xbf16>
  %d_v = coda.cast %d_v_low : (tensor<4x8xbf16>) -> tensor<4x8xf32>
  func.return %d_w, %d_v : tensor<16x8xbf16>, tensor<4x8xf32>
}

func.func @g_backward(%d_w: tensor<16x8xbf16> {coda.name = "d_y"}) -> (tensor<16x8xbf16> {coda.name = "d_w"}) {
  func.return %d_w : tensor<16x8xbf16>
}

// CHECK-LABEL: @f_backward
// CHECK-SAME:    %w_grad: tensor<16x8xbf16> {coda.name = "w.grad", coda.dims = [16 : i64, 8 : i64], coda.donated}
// CHECK-SAME:    %v_grad: tensor<4x8xf32> {coda.name = "v.grad", coda.dims = [4 : i64, 8 : i64], coda.donated}
// CHECK-SAME:    -> (tensor<16x8xbf16> {coda.name = "d_w", coda.dims = [16 : i64, 8 : i64]}, tensor<4x8xf32> {coda.name = "d_v", coda.dims = [4 : i64, 8 : i64]})
// CHECK-NEXT:    %d_w = coda.weight_gradient %d_y, %x
// CHECK-NEXT:    %sum_w = coda.add %w_grad, %d_w : (tensor<16x8xbf16>, tensor<16x8xbf16>) -> tensor<16x8xbf16>
// CHECK-NEXT:    %d_v_low = coda.weight_gradient %d_z, %x
// CHECK-NEXT:    %d_v = coda.cast %d_v_low
// CHECK-NEXT:    %sum_v = coda.add %v_grad, %d_v : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK-NEXT:    func.return %sum_w, %sum_v
// CHECK-LABEL: @g_backward(%d_w: tensor<16x8xbf16> {coda.name = "d_y"})
// CHECK-NEXT:    func.return %d_w

// REMARK: remark[passed] accumulate-gradients: coda.weight_gradient: adds the gradient of w to the existing one
// REMARK: remark[passed] accumulate-gradients: coda.cast: adds the gradient of v to the existing one

// FUSED-LABEL: @f_backward
// FUSED-NEXT:    %sum_w, %sum_v = gemm.fused transposed %x : tensor<?x8xbf16>
// FUSED-NEXT:      columns(%d_y : tensor<?x16xbf16>) kn tile_t(%w_grad : tensor<16x8xbf16>)
// FUSED-NEXT:        -> (accumulate<0> : tensor<16x8xbf16>) {
// FUSED-NEXT:      ^bb0(%acc: f32, %w_grad_1: f32):
// FUSED-NEXT:        %sum_w_1 = arith.addf %w_grad_1, %acc : f32
// FUSED-NEXT:        gemm.yield %sum_w_1 : f32
// FUSED-NEXT:      }
// FUSED-NEXT:      columns(%d_z : tensor<?x4xbf16>) kn tile_t(%v_grad : tensor<4x8xf32>)
// FUSED-NEXT:        -> (accumulate<0> : tensor<4x8xf32>) {
// FUSED-NEXT:      ^bb0(%acc_1: f32, %v_grad_1: f32):
// FUSED-NEXT:        %sum_v_1 = arith.addf %v_grad_1, %acc_1 : f32
// FUSED-NEXT:        gemm.yield %sum_v_1 : f32
// FUSED-NEXT:      }
// FUSED-NEXT:    func.return %sum_w, %sum_v

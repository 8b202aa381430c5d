// RUN: coda-opt %s -p 'accumulate-gradients{function=f_backward arguments=b,t,s,y}' | filecheck %s
// RUN: coda-opt %s -p 'accumulate-gradients{function=f_backward arguments=b,t,s,y}' --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// Gradients without an epilogue of a GEMM to be added in: a sum over rows, another layout, a product
// that is broadcast, and an argument.

func.func @f_backward(%x: tensor<?x8xf32> {coda.name = "x", coda.dims = ["M", 8]}, %d_y: tensor<?x16xf32> {coda.name = "d_y", coda.dims = ["M", 16]}, %e: tensor<4x16x8xf32> {coda.name = "e"}) -> (tensor<16xf32> {coda.name = "d_b"}, tensor<8x16xf32> {coda.name = "d_t"}, tensor<4x16x8xf32> {coda.name = "d_s"}, tensor<?x16xf32> {coda.name = "d_y"}) {
  %d_b = coda.sum_to %d_y : (tensor<?x16xf32>) -> tensor<16xf32>
  %d_w = coda.weight_gradient %d_y, %x : (tensor<?x16xf32>, tensor<?x8xf32>) -> tensor<16x8xf32>
  %d_t = coda.transpose %d_w {perm = [1, 0]} : (tensor<16x8xf32>) -> tensor<8x16xf32>
  %d_s = coda.mul %e, %d_w : (tensor<4x16x8xf32>, tensor<16x8xf32>) -> tensor<4x16x8xf32>
  func.return %d_b, %d_t, %d_s, %d_y : tensor<16xf32>, tensor<8x16xf32>, tensor<4x16x8xf32>, tensor<?x16xf32>
}

// REMARK: remark[missed] accumulate-gradients: coda.sum_to: no epilogue of a GEMM could add the gradient of b; failed condition: the gradient is computed by a GEMM, and elementwise from its result; costs 64*M + 64 bytes
// REMARK: remark[missed] accumulate-gradients: coda.transpose: no epilogue of a GEMM could add the gradient of t
// REMARK: remark[missed] accumulate-gradients: coda.mul: no epilogue of a GEMM could add the gradient of s
// REMARK: remark[missed] accumulate-gradients: func.return: no epilogue of a GEMM could add the gradient of y
// CHECK-LABEL: @f_backward
// CHECK-SAME:    %e: tensor<4x16x8xf32> {coda.name = "e"}) -> (
// CHECK-NEXT:    %d_b = coda.sum_to %d_y
// CHECK-NEXT:    %d_w = coda.weight_gradient %d_y, %x
// CHECK-NEXT:    %d_t = coda.transpose %d_w
// CHECK-NEXT:    %d_s = coda.mul %e, %d_w
// CHECK-NEXT:    func.return %d_b, %d_t, %d_s, %d_y

// RUN: coda-opt %s -p 'drop-zero-gradients{function=f_backward names=d_y}' --split-input-file | filecheck %s

// The gradient of y is not there: what it is multiplied with is neither read nor computed, sums
// keep their other part, and the weight has no gradient. Another function stays as it is.

func.func @f_backward(%d_y: tensor<?x4xf32> {coda.name = "d_y"}, %w: tensor<4x8xf32> {coda.name = "w"}, %x: tensor<?x8xf32> {coda.name = "x"}, %d_t: tensor<?x8xf32> {coda.name = "d_t"}) -> (tensor<4x8xf32> {coda.name = "d_w"}, tensor<?x8xf32> {coda.name = "d_x"}, tensor<?x8xf32> {coda.name = "d_u"}) {
  %g = coda.activation_grad %d_y, %d_y {activation = "silu"} : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  %a = coda.matmul %g, %w : (tensor<?x4xf32>, tensor<4x8xf32>) -> tensor<?x8xf32>
  %d_x = coda.sub %a, %d_t : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %d_w = coda.weight_gradient %g, %x : (tensor<?x4xf32>, tensor<?x8xf32>) -> tensor<4x8xf32>
  %d_u = coda.add %d_t, %a : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  func.return %d_w, %d_x, %d_u : tensor<4x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>
}

func.func @g_backward(%d_y: tensor<?x4xf32> {coda.name = "d_y"}) -> tensor<?x4xf32> {
  %d_x = coda.neg %d_y : (tensor<?x4xf32>) -> tensor<?x4xf32>
  func.return %d_x : tensor<?x4xf32>
}

// CHECK-LABEL: @f_backward
// CHECK-SAME:    (%d_t: tensor<?x8xf32> {coda.name = "d_t"})
// CHECK-SAME:    -> (tensor<?x8xf32> {coda.name = "d_x"}, tensor<?x8xf32> {coda.name = "d_u"})
// CHECK-NEXT:    [[d_x:%\w+]] = coda.neg %d_t
// CHECK-NEXT:    func.return [[d_x]], %d_t
// CHECK-LABEL: @g_backward(%d_y: tensor<?x4xf32> {coda.name = "d_y"})
// CHECK-NEXT:    coda.neg %d_y

// -----

// Of a call of PyTorch only the other results are differentiated, and what needs a tensor of zeros
// keeps it: one part of a concatenation, and a sum that broadcasts.

func.func @f_backward(%d_y: tensor<8xf32> {coda.name = "d_y"}, %d_z: tensor<8xf32> {coda.name = "d_z"}, %d_t: tensor<1xf32> {coda.name = "d_t"}, %x: tensor<8xf32> {coda.name = "x"}) -> (tensor<8xf32> {coda.name = "d_x"}, tensor<16xf32> {coda.name = "d_c"}, tensor<8xf32> {coda.name = "d_s"}) {
  %d_x = torch.vjp "aten.frexp.Tensor"(%x : tensor<8xf32>) of(%d_y, %d_z : tensor<8xf32>, tensor<8xf32>) {arguments = "{0}", of = [0, 1], wrt = [0]} -> tensor<8xf32>
  %d_c = coda.concat %d_y, %d_z {dim = 0 : i64} : (tensor<8xf32>, tensor<8xf32>) -> tensor<16xf32>
  %d_s = coda.add %d_y, %d_t : (tensor<8xf32>, tensor<1xf32>) -> tensor<8xf32>
  func.return %d_x, %d_c, %d_s : tensor<8xf32>, tensor<16xf32>, tensor<8xf32>
}

// CHECK-LABEL: @f_backward
// CHECK:         torch.vjp "aten.frexp.Tensor"(%x : tensor<8xf32>) of(%d_z : tensor<8xf32>)
// CHECK-SAME:      of = [1 : i64]
// CHECK:         coda.concat %d_y, %d_z
// CHECK:         coda.add %d_y, %d_t

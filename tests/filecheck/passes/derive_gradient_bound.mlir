// RUN: coda-opt %s -p derive-gradient | filecheck %s

// A clamp passes the gradient on where an element is the bound; of two tensors each has half of it.

func.func @f(%x: tensor<?x8xf32> {coda.name = "x", coda.dims = ["B", 8]}, %y: tensor<?x8xf32> {coda.name = "y", coda.dims = ["B", 8]}) -> (tensor<?x8xf32> {coda.name = "r"}) {
  %c = coda.constant {value = 0 : i64} : tensor<f32>
  %a = coda.minimum %x, %c : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  %r = coda.maximum %a, %y : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  func.return %r : tensor<?x8xf32>
}

// CHECK:      %[[A:.*]] = coda.maximum_grad %a, %y, %d_r : (tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT: %[[Y:.*]] = coda.maximum_grad %y, %a, %d_r : (tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT: %[[X:.*]] = coda.maximum_grad %c, %x, %[[A]] {bound} : (tensor<f32>, tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>

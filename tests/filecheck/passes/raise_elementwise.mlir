// RUN: coda-opt %s -p raise-elementwise,dce | filecheck %s

// Operators of PyTorch on activations have counterparts; numbers become constants.

func.func @f(%x: tensor<?x8xf32> {coda.dims = ["M", 8 : i64]}, %mask: tensor<?x8xi1> {coda.dims = ["M", 8 : i64]}) -> tensor<?x8xf32> {
  %c = torch.call "aten.gt.Scalar"(%x) {arguments = "{0}, 0.5"} : (tensor<?x8xf32>) -> tensor<?x8xi1>
  %both = torch.call "aten.bitwise_and.Tensor"(%c, %mask) {arguments = "{0}, {1}"} : (tensor<?x8xi1>, tensor<?x8xi1>) -> tensor<?x8xi1>
  %s = torch.call "aten.softplus.default"(%x) {arguments = "{0}"} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %e = torch.call "aten.elu.default"(%s) {arguments = "{0}, 0.5"} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %zero = torch.call "aten.scalar_tensor.default"() {arguments = "0.0, dtype=torch.float32, device=device"} : () -> tensor<f32>
  %y = torch.call "aten.where.self"(%both, %e, %zero) {arguments = "{0}, {1}, {2}"} : (tensor<?x8xi1>, tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  %n = torch.call "aten._to_copy.default"(%both) {arguments = "{0}, dtype=torch.float32"} : (tensor<?x8xi1>) -> tensor<?x8xf32>
  %z = torch.call "aten.masked_fill.Scalar"(%n, %mask) {arguments = "{0}, {1}, 2"} : (tensor<?x8xf32>, tensor<?x8xi1>) -> tensor<?x8xf32>
  %r = coda.add %y, %z : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  func.return %r : tensor<?x8xf32>
}

// CHECK-LABEL: func.func @f(
// CHECK-NEXT:   %0 = coda.constant {value = 5.000000e-01 : f64} : tensor<f32>
// CHECK-NEXT:   %c = coda.compare %x, %0 {relation = "gt"} : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xi1>
// CHECK-NEXT:   %both = coda.logical_and %c, %mask : (tensor<?x8xi1>, tensor<?x8xi1>) -> tensor<?x8xi1>
// CHECK-NEXT:   %s = coda.softplus %x : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %e = coda.elu %s {alpha = 5.000000e-01 : f64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %zero = coda.constant {value = 0.000000e+00 : f64} : tensor<f32>
// CHECK-NEXT:   %y = coda.where %both, %e, %zero : (tensor<?x8xi1>, tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %n = coda.cast %both : (tensor<?x8xi1>) -> tensor<?x8xf32>
// CHECK-NEXT:   %1 = coda.constant {value = 2.000000e+00 : f64} : tensor<f32>
// CHECK-NEXT:   %z = coda.where %mask, %1, %n : (tensor<?x8xi1>, tensor<f32>, tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %r = coda.add %y, %z : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   func.return %r : tensor<?x8xf32>
// CHECK-NEXT: }

// A constant power; quantization: a rounded and clamped number as 8 bits.

func.func @quantized(%x: tensor<?x8xf32>) -> (tensor<?x8xi8>, tensor<?x8xf8E4M3FN>) {
  %p = torch.call "aten.pow.Tensor_Scalar"(%x) {arguments = "{0}, 0.75"} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %r = torch.call "aten.round.default"(%p) {arguments = "{0}"} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %q = torch.call "aten._to_copy.default"(%r) {arguments = "{0}, dtype=torch.int8"} : (tensor<?x8xf32>) -> tensor<?x8xi8>
  %f = torch.call "aten._to_copy.default"(%p) {arguments = "{0}, dtype=torch.float8_e4m3fn"} : (tensor<?x8xf32>) -> tensor<?x8xf8E4M3FN>
  func.return %q, %f : tensor<?x8xi8>, tensor<?x8xf8E4M3FN>
}

// CHECK-LABEL: func.func @quantized(
// CHECK-NEXT:   %p = coda.pow %x {exponent = 7.500000e-01 : f64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %r = coda.round %p : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %q = coda.cast %r : (tensor<?x8xf32>) -> tensor<?x8xi8>
// CHECK-NEXT:   %f = coda.cast %p : (tensor<?x8xf32>) -> tensor<?x8xf8E4M3FN>
// CHECK-NEXT:   func.return %q, %f : tensor<?x8xi8>, tensor<?x8xf8E4M3FN>
// CHECK-NEXT: }

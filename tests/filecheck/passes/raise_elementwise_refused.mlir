// RUN: coda-opt %s -p raise-elementwise | filecheck %s

// PyTorch promotes the operands, options are no defaults, and positions and masks are no activations.

func.func @f(%x: tensor<?x8xf32> {coda.dims = ["M", 8 : i64]}, %b: tensor<?x8xbf16> {coda.dims = ["M", 8 : i64]}, %n: tensor<?x8xi64> {coda.dims = ["M", 8 : i64]}) -> (tensor<?x8xi1>, tensor<?x8xf32>, tensor<?x8xi1>, tensor<?x8xi1>) {
  %c = torch.call "aten.gt.Tensor"(%x, %b) {arguments = "{0}, {1}"} : (tensor<?x8xf32>, tensor<?x8xbf16>) -> tensor<?x8xi1>
  %s = torch.call "aten.softplus.default"(%x) {arguments = "{0}, 2"} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %m = torch.call "aten.gt.Scalar"(%n) {arguments = "{0}, 3"} : (tensor<?x8xi64>) -> tensor<?x8xi1>
  %i = torch.call "aten._to_copy.default"(%n) {arguments = "{0}, dtype=torch.bool"} : (tensor<?x8xi64>) -> tensor<?x8xi1>
  func.return %c, %s, %m, %i : tensor<?x8xi1>, tensor<?x8xf32>, tensor<?x8xi1>, tensor<?x8xi1>
}

// CHECK-LABEL: func.func @f(
// CHECK-NEXT:   %c = torch.call "aten.gt.Tensor"(%x, %b) {arguments = "{0}, {1}"} : (tensor<?x8xf32>, tensor<?x8xbf16>) -> tensor<?x8xi1>
// CHECK-NEXT:   %s = torch.call "aten.softplus.default"(%x) {arguments = "{0}, 2"} : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %m = torch.call "aten.gt.Scalar"(%n) {arguments = "{0}, 3"} : (tensor<?x8xi64>) -> tensor<?x8xi1>
// CHECK-NEXT:   %i = torch.call "aten._to_copy.default"(%n) {arguments = "{0}, dtype=torch.bool"} : (tensor<?x8xi64>) -> tensor<?x8xi1>
// CHECK-NEXT:   func.return %c, %s, %m, %i : tensor<?x8xi1>, tensor<?x8xf32>, tensor<?x8xi1>, tensor<?x8xi1>
// CHECK-NEXT: }


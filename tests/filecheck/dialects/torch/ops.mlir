// RUN: coda-opt %s | coda-opt | filecheck %s
// RUN: coda-opt %s --print-op-generic | coda-opt | filecheck %s

// CHECK-LABEL: func.func @calls
func.func @calls(%x: tensor<?x8xf32>, %mask: tensor<?x8xi1>) -> (tensor<?x8xf32>, tensor<?x8xf32>, tensor<?xf32>) {
  // CHECK: %sum = torch.call "aten.cumsum.default"(%x) {arguments = "{0}, -1"} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %sum = torch.call "aten.cumsum.default"(%x) {arguments = "{0}, -1"} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  // CHECK: %y = torch.call "aten.where.self"(%mask, %x, %sum) {arguments = "{0}, {1}, {2}"} : (tensor<?x8xi1>, tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %y = torch.call "aten.where.self"(%mask, %x, %sum) {arguments = "{0}, {1}, {2}"} : (tensor<?x8xi1>, tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  // CHECK: %first, %second = torch.call "aten.split.Tensor"(%y) {arguments = "{0}, 4, 1", view} : (tensor<?x8xf32>) -> (tensor<?x4xf32>, tensor<?x4xf32>)
  %first, %second = torch.call "aten.split.Tensor"(%y) {arguments = "{0}, 4, 1", view} : (tensor<?x8xf32>) -> (tensor<?x4xf32>, tensor<?x4xf32>)
  // CHECK: %r = torch.call "aten.rand.default"() {arguments = "[M, 2 * M - 1], dtype=torch.float32, device=device", random} : () -> tensor<?xf32>
  %r = torch.call "aten.rand.default"() {arguments = "[M, 2 * M - 1], dtype=torch.float32, device=device", random} : () -> tensor<?xf32>
  func.return %sum, %y, %r : tensor<?x8xf32>, tensor<?x8xf32>, tensor<?xf32>
}

// CHECK-LABEL: func.func @vjps
func.func @vjps(%x: tensor<?x8xf32>, %mask: tensor<?x8xi1>, %half: tensor<?x4xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>) {
  // CHECK: %dx = torch.vjp "aten.split.Tensor"(%x : tensor<?x8xf32>) of(%half : tensor<?x4xf32>) {arguments = "{0}, 4, 1", of = [1 : i64], wrt = [0 : i64]} -> tensor<?x8xf32>
  %dx = torch.vjp "aten.split.Tensor"(%x : tensor<?x8xf32>) of(%half : tensor<?x4xf32>) {arguments = "{0}, 4, 1", of = [1], wrt = [0]} -> tensor<?x8xf32>
  // CHECK: %da, %db = torch.vjp "aten.where.self"(%mask, %x, %x : tensor<?x8xi1>, tensor<?x8xf32>, tensor<?x8xf32>) of(%dx : tensor<?x8xf32>) {arguments = "{0}, {1}, {2}", of = [0 : i64], wrt = [1 : i64, 2 : i64]} -> tensor<?x8xf32>, tensor<?x8xf32>
  %da, %db = torch.vjp "aten.where.self"(%mask, %x, %x : tensor<?x8xi1>, tensor<?x8xf32>, tensor<?x8xf32>) of(%dx : tensor<?x8xf32>) {arguments = "{0}, {1}, {2}", of = [0], wrt = [1, 2]} -> tensor<?x8xf32>, tensor<?x8xf32>
  func.return %dx, %da, %db : tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>
}

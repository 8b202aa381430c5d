// RUN: coda-opt %s -p dce | filecheck %s

// A call without a use goes; one that draws random numbers changes what later ones draw.
func.func @unused(%x: tensor<8xf32>) {
  // CHECK-NOT: aten.cumsum.default
  // CHECK: torch.call "aten.rand.default"
  // CHECK-NOT: aten.cumsum.default
  // CHECK: func.return
  %sum = torch.call "aten.cumsum.default"(%x) {arguments = "{0}, 0"} : (tensor<8xf32>) -> tensor<8xf32>
  %r = torch.call "aten.rand.default"() {arguments = "[8]", random} : () -> tensor<8xf32>
  func.return
}

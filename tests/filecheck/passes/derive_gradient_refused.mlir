// RUN: coda-opt %s -p derive-gradient --split-input-file --verify-diagnostics

// What has no derivative is named with its place, when a gradient would have to go through it.

func.func @random(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  // expected-error@below {{torch.call has no derivative for %x: it draws random numbers, and would draw different ones if it were recomputed}}
  %y = torch.call "aten.rrelu.default"(%x) {arguments = "{0}", random} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  func.return %y : tensor<?x8xf32>
}

// -----

func.func @second(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  // expected-error@below {{coda.activation_grad has no derivative for %x: it is itself a derivative, and second derivatives are not supported}}
  %y = coda.activation_grad %x, %x {activation = "silu"} : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  func.return %y : tensor<?x8xf32>
}

// -----

func.func @gemm(%x: tensor<?x8xf32>, %w: tensor<16x8xf32>) -> tensor<?x16xf32> {
  // expected-error@below {{gemm.fused has no derivative for %x: it is not an operator of the block level}}
  %y = "gemm.fused"(%x, %w) <{segments = [#gemm.segment<1, nk, [], [tile]>], operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0, 0, 0, 0>}> ({
  ^bb0(%acc: f32):
    "gemm.yield"(%acc) : (f32) -> ()
  }) : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
  func.return %y : tensor<?x16xf32>
}

// -----

func.func @split(%x: tensor<?x?xf32>) -> tensor<?x?xf32> {
  // expected-error@below {{coda.glu has no derivative for %x: it splits its columns, and their number is unknown}}
  %y = coda.glu %x {activation = "silu"} : (tensor<?x?xf32>) -> tensor<?x?xf32>
  func.return %y : tensor<?x?xf32>
}

// -----

// expected-error@unknown {{derive-gradient: %x has type f32, expected a tensor}}
func.func @scalar(%x: f32) -> f32 {
  func.return %x : f32
}

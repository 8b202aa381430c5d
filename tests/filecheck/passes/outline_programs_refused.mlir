// RUN: coda-opt %s -p outline-programs --split-input-file | filecheck %s
// RUN: coda-opt %s -p outline-programs --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// The number of rows depends on data.

func.func @data(%x: tensor<?x8xf32> {coda.dims = ["M", 8]}, %keep: tensor<?xi1> {coda.dims = ["M"]}, %w: tensor<8x8xf32>) -> tensor<?x8xf32> {
  %s = coda.constant {value = 2.0 : f64} : tensor<f32>
  %rows = torch.call "aten.index.Tensor"(%x, %keep) {arguments = "{0}, [{1}]"} : (tensor<?x8xf32>, tensor<?xi1>) -> tensor<?x8xf32>
  %h = gemm.fused %rows : tensor<?x8xf32>
    columns(%w : tensor<8x8xf32>) scalar(%s : tensor<f32>)
      -> (tile : tensor<?x8xf32>) {
    ^bb0(%acc: f32, %s_1: f32):
      %a = arith.mulf %acc, %s_1 : f32
      gemm.yield %a : f32
    }
  %y = coda.softmax %h : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %z = coda.mul %y, %s : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  func.return %z : tensor<?x8xf32>
}

// REMARK: remark[missed] outline-programs: torch.call: the size of %rows does not follow from the arguments; failed condition: sizes between kernels and other operators follow from the arguments
// REMARK: help: no action is needed: each operator runs as a separate kernel or call
// CHECK:      func.func @data(%x: tensor<?x8xf32> {coda.dims = ["M", 8 : i64]}, %keep: tensor<?xi1> {coda.dims = ["M"]}, %w: tensor<8x8xf32>) -> tensor<?x8xf32> {
// CHECK-NEXT:   %s = coda.constant {value = 2.000000e+00 : f64} : tensor<f32>
// CHECK-NEXT:   %rows = torch.call "aten.index.Tensor"(%x, %keep) {arguments = "{0}, [{1}]"} : (tensor<?x8xf32>, tensor<?xi1>) -> tensor<?x8xf32>
// CHECK-NEXT:   %h = gemm.fused %rows : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<8x8xf32>) scalar(%s : tensor<f32>)
// CHECK-NEXT:       -> (tile : tensor<?x8xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %s_1: f32):
// CHECK-NEXT:       %a = arith.mulf %acc, %s_1 : f32
// CHECK-NEXT:       gemm.yield %a : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %y = coda.softmax %h : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %z = coda.mul %y, %s : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
// CHECK-NEXT:   func.return %z : tensor<?x8xf32>
// CHECK-NEXT: }

// -----

// A kernel has as many partial sums as tiles, and a call cannot state how many. Here the second
// program would read them, as it waits for the softmax.

func.func @tiles(%x: tensor<?x8xf32> {coda.dims = ["M", 8]}, %c: tensor<?x1xf32> {coda.dims = ["M", 1]}, %w: tensor<16x8xf32>) -> (tensor<?x1xf32> {coda.dims = ["M", 1]}) {
  %h, %partial = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<16x8xf32>) col(%c : tensor<?x1xf32>)
      -> (tile : tensor<?x16xf32>, partial_row<add> : tensor<?x?xf32>) {
    ^bb0(%acc: f32, %c_1: f32):
      %a = arith.mulf %acc, %c_1 : f32
      gemm.yield %a, %a : f32, f32
    }
  %p = coda.softmax %h : (tensor<?x16xf32>) -> tensor<?x16xf32>
  %m = coda.reduce %p {kind = "max"} : (tensor<?x16xf32>) -> tensor<?x1xf32>
  %y = gemm.finalize row (add %partial : tensor<?x?xf32>) col(%m : tensor<?x1xf32>) -> (tensor<?x1xf32>) {
  ^bb0(%a: f32, %m_1: f32):
    %b = arith.mulf %a, %m_1 : f32
    gemm.yield %b : f32
  }
  func.return %y : tensor<?x1xf32>
}

// REMARK: remark[missed] outline-programs: gemm.fused: the size of %partial does not follow from the arguments; failed condition: sizes between kernels and other operators follow from the arguments
// REMARK: help: no action is needed: each operator runs as a separate kernel or call
// CHECK:      func.func @tiles(%x: tensor<?x8xf32> {coda.dims = ["M", 8 : i64]}, %c: tensor<?x1xf32> {coda.dims = ["M", 1 : i64]}, %w: tensor<16x8xf32>) -> (tensor<?x1xf32> {coda.dims = ["M", 1 : i64]}) {
// CHECK-NEXT:   %h, %partial = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<16x8xf32>) col(%c : tensor<?x1xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>, partial_row<add> : tensor<?x?xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %c_1: f32):
// CHECK-NEXT:       %a = arith.mulf %acc, %c_1 : f32
// CHECK-NEXT:       gemm.yield %a, %a : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %p = coda.softmax %h : (tensor<?x16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %m = coda.reduce %p {kind = "max"} : (tensor<?x16xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %y = gemm.finalize row (add %partial : tensor<?x?xf32>) col(%m : tensor<?x1xf32>) -> (tensor<?x1xf32>) {
// CHECK-NEXT:   ^bb0(%a: f32, %m_1: f32):
// CHECK-NEXT:     %b = arith.mulf %a, %m_1 : f32
// CHECK-NEXT:     gemm.yield %b : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %y : tensor<?x1xf32>
// CHECK-NEXT: }

// -----

// A function would return a part of the memory of the concatenation.

func.func @placed(%x: tensor<?x8xf32> {coda.dims = ["M", 8]}, %y: tensor<?x8xf32> {coda.dims = ["M", 8]}, %w: tensor<8x8xf32>) -> (tensor<?x16xf32> {coda.dims = ["M", 16]}) {
  %h = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<8x8xf32>)
      -> (tile at<8, 8, 16> : tensor<?x8xf32>) {
    ^bb0(%acc: f32):
      %a = arith.mulf %acc, %acc : f32
      gemm.yield %a : f32
    }
  %joined = coda.concat %y, %h {dim = 1 : i64} : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x16xf32>
  func.return %joined : tensor<?x16xf32>
}

// REMARK: remark[missed] outline-programs: gemm.fused: %h is stored as a part of another tensor; failed condition: a program returns whole tensors
// REMARK: help: run outline-programs before place-parts
// CHECK:      func.func @placed(%x: tensor<?x8xf32> {coda.dims = ["M", 8 : i64]}, %y: tensor<?x8xf32> {coda.dims = ["M", 8 : i64]}, %w: tensor<8x8xf32>) -> (tensor<?x16xf32> {coda.dims = ["M", 16 : i64]}) {
// CHECK-NEXT:   %h = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<8x8xf32>)
// CHECK-NEXT:       -> (tile at<8, 8, 16> : tensor<?x8xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       %a = arith.mulf %acc, %acc : f32
// CHECK-NEXT:       gemm.yield %a : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %joined = coda.concat %y, %h {dim = 1 : i64} : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   func.return %joined : tensor<?x16xf32>
// CHECK-NEXT: }

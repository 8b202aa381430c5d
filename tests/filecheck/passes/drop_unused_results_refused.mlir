// RUN: coda-opt %s -p drop-unused-results --split-input-file | filecheck %s

// Every result is used, if only by another kernel.

func.func @used(%x: tensor<?x8xf32>, %w: tensor<16x8xf32>) -> (tensor<?x16xf32>, tensor<?x1xf32>) {
  %z, %p = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<16x8xf32>)
      -> (tile : tensor<?x16xf32>, partial_row<add> : tensor<?x?xf32>) {
    ^bb0(%a: f32):
      gemm.yield %a, %a : f32, f32
    }
  %s = gemm.finalize row (add %p : tensor<?x?xf32>) -> (tensor<?x1xf32>) {
  ^bb0(%a: f32):
    gemm.yield %a : f32
  }
  func.return %z, %s : tensor<?x16xf32>, tensor<?x1xf32>
}

// CHECK:      func.func @used(
// CHECK-NEXT:   %z, %p = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<16x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>, partial_row<add> : tensor<?x?xf32>) {
// CHECK-NEXT:     ^bb0(%a: f32):
// CHECK-NEXT:       gemm.yield %a, %a : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %s = gemm.finalize row (add %p : tensor<?x?xf32>) -> (tensor<?x1xf32>) {
// CHECK-NEXT:   ^bb0(%a: f32):
// CHECK-NEXT:     gemm.yield %a : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %z, %s : tensor<?x16xf32>, tensor<?x1xf32>
// CHECK-NEXT: }

// -----

// No result is used: dead code elimination removes the operator.

func.func @dead(%x: tensor<?x8xf32>, %w: tensor<16x8xf32>) {
  %z, %p = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<16x8xf32>)
      -> (tile : tensor<?x16xf32>, tile : tensor<?x16xf32>) {
    ^bb0(%a: f32):
      gemm.yield %a, %a : f32, f32
    }
  func.return
}

// CHECK:      func.func @dead(
// CHECK-NEXT:   %z, %p = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<16x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>, tile : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%a: f32):
// CHECK-NEXT:       gemm.yield %a, %a : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

// -----

// A column range keeps its last result.

func.func @last(%x: tensor<?x8xf32>, %w: tensor<16x8xf32>, %v: tensor<4x8xf32>) -> tensor<?x16xf32> {
  %z, %y = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<16x8xf32>)
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%a: f32):
      gemm.yield %a : f32
    }
    columns(%v : tensor<4x8xf32>)
      -> (tile : tensor<?x4xf32>) {
    ^bb0(%a: f32):
      gemm.yield %a : f32
    }
  func.return %z : tensor<?x16xf32>
}

// CHECK:      func.func @last(
// CHECK-NEXT:   %z, %y = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<16x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%a: f32):
// CHECK-NEXT:       gemm.yield %a : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     columns(%v : tensor<4x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x4xf32>) {
// CHECK-NEXT:     ^bb0(%a_1: f32):
// CHECK-NEXT:       gemm.yield %a_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %z : tensor<?x16xf32>
// CHECK-NEXT: }

// -----

// The tile of a map of one element is all that says how large its domain is.

func.func @domain(%x: tensor<1x1xf32>) -> tensor<1x1xf32> {
  %z, %p = gemm.map scalar(%x : tensor<1x1xf32>)
      -> (tile : tensor<1x1xf32>, partial_row<lse> : tensor<1x?xf32>) {
    ^bb0(%a: f32):
      %e = math.exp %a : f32
      gemm.yield %e, %e : f32, f32
    }
  %s = gemm.finalize row (lse %p : tensor<1x?xf32>) -> (tensor<1x1xf32>) {
  ^bb0(%a: f32):
    gemm.yield %a : f32
  }
  func.return %s : tensor<1x1xf32>
}

// CHECK:      func.func @domain(%x: tensor<1x1xf32>) -> tensor<1x1xf32> {
// CHECK-NEXT:   %z, %p = gemm.map scalar(%x : tensor<1x1xf32>)
// CHECK-NEXT:       -> (tile : tensor<1x1xf32>, partial_row<lse> : tensor<1x?xf32>) {
// CHECK-NEXT:     ^bb0(%a: f32):
// CHECK-NEXT:       %e = math.exp %a : f32
// CHECK-NEXT:       gemm.yield %e, %e : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %s = gemm.finalize row (lse %p : tensor<1x?xf32>) -> (tensor<1x1xf32>) {
// CHECK-NEXT:   ^bb0(%a: f32):
// CHECK-NEXT:     gemm.yield %a : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %s : tensor<1x1xf32>
// CHECK-NEXT: }

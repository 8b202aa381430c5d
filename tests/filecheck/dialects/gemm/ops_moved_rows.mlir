// RUN: coda-opt %s | filecheck %s
// RUN: coda-opt %s | coda-opt -f mlir | filecheck %s
// RUN: coda-opt %s --print-op-generic | coda-opt -f mlir | filecheck %s

// Rows that are read where ids say, and stored where others say.

func.func @moved(%x: tensor<9x8xbf16>, %y: tensor<?x8xbf16>, %w: tensor<4x16x8xbf16>, %v: tensor<16x8xbf16>, %e: tensor<4xi32>, %i: tensor<?xi64>, %p: tensor<?xi32>, %g: tensor<9x1xbf16>, %s: tensor<?xf32>) {
  %a = gemm.fused %x : tensor<9x8xbf16> groups(%e : tensor<4xi32>) gather(%i : tensor<?xi64>) scatter(%p : tensor<?xi32>)
      schedule<pointer, "16x16x16", warps = 4, stages = 3, group_m = 8>
      columns(%w : tensor<4x16x8xbf16>) -> (tile : tensor<?x16xbf16>) {
  ^bb0(%acc: f32):
    gemm.yield %acc : f32
  }
  %b, %sum = gemm.fused %x : tensor<9x8xbf16> gather(%i : tensor<?xi64>)
      columns(%v : tensor<16x8xbf16>) -> (tile : tensor<?x16xbf16>, partial_row<add> : tensor<?x?xf32>) {
  ^bb0(%acc: f32):
    gemm.yield %acc, %acc : f32, f32
  }
  %c = gemm.fused %y : tensor<?x8xbf16> scatter(%p : tensor<?xi32>)
      columns(%v : tensor<16x8xbf16>) pair<halves> -> (half : tensor<?x8xbf16>) {
  ^bb0(%gate: f32, %up: f32):
    %product = arith.mulf %gate, %up : f32
    gemm.yield %product : f32
  }
  %d = gemm.fused %x : tensor<9x8xbf16> gather(%i : tensor<?xi64>) scatter(%p : tensor<?xi32>)
      columns(%v : tensor<16x8xbf16>) gather_col(%g : tensor<9x1xbf16>) scatter_col(%s : tensor<?xf32>) -> (tile : tensor<?x16xbf16>) {
  ^bb0(%acc: f32, %factor: f32, %other: f32):
    %both = arith.mulf %factor, %other : f32
    gemm.yield %both : f32
  }
  func.return
}

// CHECK:      func.func @moved(
// CHECK-NEXT:   %a = gemm.fused %x : tensor<9x8xbf16> groups(%e : tensor<4xi32>) gather(%i : tensor<?xi64>) scatter(%p : tensor<?xi32>)
// CHECK-NEXT:     schedule<pointer, "16x16x16", warps = 4, stages = 3, group_m = 8>
// CHECK-NEXT:     columns(%w : tensor<4x16x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %b, %sum = gemm.fused %x : tensor<9x8xbf16> gather(%i : tensor<?xi64>)
// CHECK-NEXT:     columns(%v : tensor<16x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>, partial_row<add> : tensor<?x?xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc, %acc : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %c = gemm.fused %y : tensor<?x8xbf16> scatter(%p : tensor<?xi32>)
// CHECK-NEXT:     columns(%v : tensor<16x8xbf16>) pair<halves>
// CHECK-NEXT:       -> (half : tensor<?x8xbf16>) {
// CHECK-NEXT:     ^bb0(%gate: f32, %up: f32):
// CHECK-NEXT:       %product = arith.mulf %gate, %up : f32
// CHECK-NEXT:       gemm.yield %product : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %d = gemm.fused %x : tensor<9x8xbf16> gather(%i : tensor<?xi64>) scatter(%p : tensor<?xi32>)
// CHECK-NEXT:     columns(%v : tensor<16x8xbf16>) gather_col(%g : tensor<9x1xbf16>) scatter_col(%s : tensor<?xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %factor: f32, %other: f32):
// CHECK-NEXT:       %both = arith.mulf %factor, %other : f32
// CHECK-NEXT:       gemm.yield %both : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

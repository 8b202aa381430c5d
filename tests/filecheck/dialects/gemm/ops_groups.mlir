// RUN: coda-opt %s | filecheck %s
// RUN: coda-opt %s | coda-opt -f mlir | filecheck %s
// RUN: coda-opt %s --print-op-generic | coda-opt -f mlir | filecheck %s

// Rows in groups: a weight, and a row of a port, for each of them.

func.func @experts(%x: tensor<?x8xbf16>, %w: tensor<4x16x8xbf16>, %v: tensor<4x8x16xbf16>, %b: tensor<4x16xbf16>, %h: tensor<4x8xbf16>, %e: tensor<4xi32>, %i: tensor<?xi64>, %j: tensor<?xi32>) {
  %y, %s = gemm.fused %x : tensor<?x8xbf16> groups(%e : tensor<4xi32>)
      schedule<pointer, "16x16x16", warps = 4, stages = 3, group_m = 8>
      columns(%w : tensor<4x16x8xbf16>) group_row(%b : tensor<4x16xbf16>)
      -> (tile : tensor<?x16xbf16>, partial_row<add> : tensor<?x?xf32>) {
  ^bb0(%acc: f32, %bias: f32):
    %sum = arith.addf %acc, %bias : f32
    gemm.yield %sum, %sum : f32, f32
  }
  %a = gemm.fused %x : tensor<?x8xbf16> groups(%e : tensor<4xi32>)
      columns(%v : tensor<4x8x16xbf16>) kn pair<halves> half_group_row(%h : tensor<4x8xbf16>)
      -> (half : tensor<?x8xbf16>) {
  ^bb0(%gate: f32, %up: f32, %bias: f32):
    %product = arith.mulf %gate, %up : f32
    %sum = arith.addf %product, %bias : f32
    gemm.yield %sum : f32
  }
  %z = gemm.library %x : tensor<?x8xbf16> groups(%e : tensor<4xi32>) columns(%v : tensor<4x8x16xbf16>) kn -> tensor<?x16xbf16>
  %d, %t = gemm.fused transposed %y : tensor<?x16xbf16> groups(%e : tensor<4xi32>) gather(%i : tensor<?xi64>) gather_weights(%j : tensor<?xi32>)
    columns(%x : tensor<?x8xbf16>) kn
      -> (tile : tensor<4x16x8xbf16>, partial_row<add> : tensor<4x16x?xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc, %acc : f32, f32
    }
  %l = gemm.library transposed %y : tensor<?x16xbf16> groups(%e : tensor<4xi32>) columns(%x : tensor<?x8xbf16>) kn -> tensor<4x16x8xbf16>
  func.return
}

// CHECK:      func.func @experts(%x: tensor<?x8xbf16>, %w: tensor<4x16x8xbf16>, %v: tensor<4x8x16xbf16>, %b: tensor<4x16xbf16>, %h: tensor<4x8xbf16>, %e: tensor<4xi32>, %i: tensor<?xi64>, %j: tensor<?xi32>) {
// CHECK-NEXT:   %y, %s = gemm.fused %x : tensor<?x8xbf16> groups(%e : tensor<4xi32>)
// CHECK-NEXT:     schedule<pointer, "16x16x16", warps = 4, stages = 3, group_m = 8>
// CHECK-NEXT:     columns(%w : tensor<4x16x8xbf16>) group_row(%b : tensor<4x16xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>, partial_row<add> : tensor<?x?xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %bias: f32):
// CHECK-NEXT:       %sum = arith.addf %acc, %bias : f32
// CHECK-NEXT:       gemm.yield %sum, %sum : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %a = gemm.fused %x : tensor<?x8xbf16> groups(%e : tensor<4xi32>)
// CHECK-NEXT:     columns(%v : tensor<4x8x16xbf16>) kn pair<halves> half_group_row(%h : tensor<4x8xbf16>)
// CHECK-NEXT:       -> (half : tensor<?x8xbf16>) {
// CHECK-NEXT:     ^bb0(%gate: f32, %up: f32, %bias: f32):
// CHECK-NEXT:       %product = arith.mulf %gate, %up : f32
// CHECK-NEXT:       %sum = arith.addf %product, %bias : f32
// CHECK-NEXT:       gemm.yield %sum : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %z = gemm.library %x : tensor<?x8xbf16> groups(%e : tensor<4xi32>) columns(%v : tensor<4x8x16xbf16>) kn -> tensor<?x16xbf16>
// CHECK-NEXT:   %d, %t = gemm.fused transposed %y : tensor<?x16xbf16> groups(%e : tensor<4xi32>) gather(%i : tensor<?xi64>) gather_weights(%j : tensor<?xi32>)
// CHECK-NEXT:     columns(%x : tensor<?x8xbf16>) kn
// CHECK-NEXT:       -> (tile : tensor<4x16x8xbf16>, partial_row<add> : tensor<4x16x?xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc, %acc : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %l = gemm.library transposed %y : tensor<?x16xbf16> groups(%e : tensor<4xi32>) columns(%x : tensor<?x8xbf16>) kn -> tensor<4x16x8xbf16>
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

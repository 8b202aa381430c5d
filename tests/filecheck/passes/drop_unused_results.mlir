// RUN: coda-opt %s -p drop-unused-results --split-input-file | filecheck %s

// Of both columns of a pair, and of one value in between.

func.func @fused(%x: tensor<?x8xf32>, %w: tensor<16x8xf32>, %v: tensor<4x8xf32>) -> (tensor<?x8xf32>, tensor<?x4xf32>) {
  %z, %h, %p, %y, %s = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<16x8xf32>) pair<halves>
      -> (tile : tensor<?x16xf32>, half : tensor<?x8xf32>, partial_row<add> : tensor<?x?xf32>) {
    ^bb0(%a: f32, %b: f32):
      %m = arith.mulf %a, %b : f32
      gemm.yield %a, %b, %m, %a : f32, f32, f32, f32
    }
    columns(%v : tensor<4x8xf32>)
      -> (tile : tensor<?x4xf32>, tile : tensor<?x4xf32>) {
    ^bb0(%acc: f32):
      %n = math.exp %acc : f32
      gemm.yield %acc, %n : f32, f32
    }
  func.return %h, %s : tensor<?x8xf32>, tensor<?x4xf32>
}

// CHECK:      func.func @fused(
// CHECK-NEXT:   %h, %s = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<16x8xf32>) pair<halves>
// CHECK-NEXT:       -> (half : tensor<?x8xf32>) {
// CHECK-NEXT:     ^bb0(%a: f32, %b: f32):
// CHECK-NEXT:       %m = arith.mulf %a, %b : f32
// CHECK-NEXT:       gemm.yield %m : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     columns(%v : tensor<4x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x4xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       %n = math.exp %acc : f32
// CHECK-NEXT:       gemm.yield %n : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %h, %s : tensor<?x8xf32>, tensor<?x4xf32>
// CHECK-NEXT: }

// -----



func.func @map(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %y, %z = gemm.map tile(%x : tensor<?x8xf32>)
      -> (tile : tensor<?x8xf32>, tile : tensor<?x8xf32>) {
    ^bb0(%a: f32):
      %e = math.exp %a : f32
      gemm.yield %a, %e : f32, f32
    }
  func.return %z : tensor<?x8xf32>
}

// CHECK:      func.func @map(
// CHECK-NEXT:   %z = gemm.map tile(%x : tensor<?x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x8xf32>) {
// CHECK-NEXT:     ^bb0(%a: f32):
// CHECK-NEXT:       %e = math.exp %a : f32
// CHECK-NEXT:       gemm.yield %e : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %z : tensor<?x8xf32>
// CHECK-NEXT: }

// RUN: coda-opt %s -p merge-sibling-gemms --split-input-file | filecheck %s

// Each column range keeps its weight, layout, pairs, ports and region.

func.func @qkv(%x: tensor<?x8xf32>, %wq: tensor<16x8xf32>, %wk: tensor<8x4xf32>, %wv: tensor<4x8xf32>, %b: tensor<4xf32>, %cos: tensor<?x4xf32>, %sin: tensor<?x4xf32>) -> (tensor<?x4xf32>, tensor<?x16xf32>, tensor<?x4xf32>) {
  %q = gemm.fused %x : tensor<?x8xf32>
    columns(%wq : tensor<16x8xf32>) pair<halves, 8> half_table(%cos : tensor<?x4xf32>, %sin : tensor<?x4xf32>)
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%acc: f32, %acc_1: f32, %cos_1: f32, %sin_1: f32):
      %0 = arith.mulf %acc, %cos_1 : f32
      %1 = arith.mulf %acc_1, %sin_1 : f32
      %2 = arith.subf %0, %1 : f32
      %3 = arith.mulf %acc_1, %cos_1 : f32
      %4 = arith.mulf %acc, %sin_1 : f32
      %5 = arith.addf %3, %4 : f32
      gemm.yield %2, %5 : f32, f32
    }
  %k = gemm.fused %x : tensor<?x8xf32>
    columns(%wk : tensor<8x4xf32>) kn
      -> (tile : tensor<?x4xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %v = gemm.fused %x : tensor<?x8xf32>
    columns(%wv : tensor<4x8xf32>) row(%b : tensor<4xf32>)
      -> (tile : tensor<?x4xf32>) {
    ^bb0(%acc: f32, %b_1: f32):
      %0 = arith.addf %acc, %b_1 : f32
      gemm.yield %0 : f32
    }
  func.return %k, %q, %v : tensor<?x4xf32>, tensor<?x16xf32>, tensor<?x4xf32>
}

// CHECK:      func.func @qkv(
// CHECK-NEXT:   %q, %k, %v = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%wq : tensor<16x8xf32>) pair<halves, 8> half_table(%cos : tensor<?x4xf32>, %sin : tensor<?x4xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %acc_1: f32, %cos_1: f32, %sin_1: f32):
// CHECK-NEXT:       %0 = arith.mulf %acc, %cos_1 : f32
// CHECK-NEXT:       %1 = arith.mulf %acc_1, %sin_1 : f32
// CHECK-NEXT:       %2 = arith.subf %0, %1 : f32
// CHECK-NEXT:       %3 = arith.mulf %acc_1, %cos_1 : f32
// CHECK-NEXT:       %4 = arith.mulf %acc, %sin_1 : f32
// CHECK-NEXT:       %5 = arith.addf %3, %4 : f32
// CHECK-NEXT:       gemm.yield %2, %5 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:     columns(%wk : tensor<8x4xf32>) kn
// CHECK-NEXT:       -> (tile : tensor<?x4xf32>) {
// CHECK-NEXT:     ^bb0(%acc_2: f32):
// CHECK-NEXT:       gemm.yield %acc_2 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     columns(%wv : tensor<4x8xf32>) row(%b : tensor<4xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x4xf32>) {
// CHECK-NEXT:     ^bb0(%acc_3: f32, %b_1: f32):
// CHECK-NEXT:       %6 = arith.addf %acc_3, %b_1 : f32
// CHECK-NEXT:       gemm.yield %6 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %k, %q, %v : tensor<?x4xf32>, tensor<?x16xf32>, tensor<?x4xf32>
// CHECK-NEXT: }

// -----

// What a sibling reads is made available before the first one.

func.func @hoisted(%x: tensor<?x8xf32>, %w: tensor<16x8xf32>, %v: tensor<16x8xf32>, %i: tensor<?xi64>, %e: tensor<50x16xf32>) -> (tensor<?x16xf32>, tensor<?x16xf32>) {
  %a = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<16x8xf32>)
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %r = coda.embedding %i, %e : (tensor<?xi64>, tensor<50x16xf32>) -> tensor<?x16xf32>
  %b = gemm.fused %x : tensor<?x8xf32>
    columns(%v : tensor<16x8xf32>) tile(%r : tensor<?x16xf32>)
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%acc: f32, %r_1: f32):
      %b_1 = arith.addf %acc, %r_1 : f32
      gemm.yield %b_1 : f32
    }
  func.return %a, %b : tensor<?x16xf32>, tensor<?x16xf32>
}

// CHECK:      func.func @hoisted(
// CHECK-NEXT:   %r = coda.embedding %i, %e : (tensor<?xi64>, tensor<50x16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %a, %b = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<16x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     columns(%v : tensor<16x8xf32>) tile(%r : tensor<?x16xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%acc_1: f32, %r_1: f32):
// CHECK-NEXT:       %b_1 = arith.addf %acc_1, %r_1 : f32
// CHECK-NEXT:       gemm.yield %b_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %a, %b : tensor<?x16xf32>, tensor<?x16xf32>
// CHECK-NEXT: }

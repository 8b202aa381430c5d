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

// -----

// Gradients of weights that multiply one h: it becomes the input, and the tiles are transposed.

func.func @gradients(%h: tensor<?x?x8xbf16>, %dq: tensor<?x?x16xbf16>, %dk: tensor<?x?x4xbf16>, %dv: tensor<?x?x4xbf16>, %g: tensor<4x8xf32>, %r: tensor<4xf32>, %s: tensor<f32>) -> (tensor<16x8xbf16>, tensor<4x8xf32>, tensor<4x8xbf16>) {
  %dwq = gemm.fused transposed %dq : tensor<?x?x16xbf16>
    columns(%h : tensor<?x?x8xbf16>) kn
      -> (tile : tensor<16x8xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %dwk = gemm.fused transposed %dk : tensor<?x?x4xbf16>
    columns(%h : tensor<?x?x8xbf16>) kn tile(%g : tensor<4x8xf32>)
      -> (accumulate<0> : tensor<4x8xf32>) {
    ^bb0(%acc: f32, %old: f32):
      %new = arith.addf %old, %acc : f32
      gemm.yield %new : f32
    }
  %dwv = gemm.fused transposed %dv : tensor<?x?x4xbf16>
    columns(%h : tensor<?x?x8xbf16>) kn col(%r : tensor<4xf32>) scalar(%s : tensor<f32>)
      -> (tile : tensor<4x8xbf16>) {
    ^bb0(%acc: f32, %row: f32, %scale: f32):
      %0 = arith.mulf %acc, %row : f32
      %1 = arith.mulf %0, %scale : f32
      gemm.yield %1 : f32
    }
  func.return %dwq, %dwk, %dwv : tensor<16x8xbf16>, tensor<4x8xf32>, tensor<4x8xbf16>
}

// CHECK:      func.func @gradients(
// CHECK-NEXT:   %dwq, %dwk, %dwv = gemm.fused transposed %h : tensor<?x?x8xbf16>
// CHECK-NEXT:     columns(%dq : tensor<?x?x16xbf16>) kn
// CHECK-NEXT:       -> (tile_t : tensor<16x8xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     columns(%dk : tensor<?x?x4xbf16>) kn tile_t(%g : tensor<4x8xf32>)
// CHECK-NEXT:       -> (accumulate<0> : tensor<4x8xf32>) {
// CHECK-NEXT:     ^bb0(%acc_1: f32, %old: f32):
// CHECK-NEXT:       %new = arith.addf %old, %acc_1 : f32
// CHECK-NEXT:       gemm.yield %new : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     columns(%dv : tensor<?x?x4xbf16>) kn row(%r : tensor<4xf32>) scalar(%s : tensor<f32>)
// CHECK-NEXT:       -> (tile_t : tensor<4x8xbf16>) {
// CHECK-NEXT:     ^bb0(%acc_2: f32, %row: f32, %scale: f32):
// CHECK-NEXT:       %0 = arith.mulf %acc_2, %row : f32
// CHECK-NEXT:       %1 = arith.mulf %0, %scale : f32
// CHECK-NEXT:       gemm.yield %1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %dwq, %dwk, %dwv : tensor<16x8xbf16>, tensor<4x8xf32>, tensor<4x8xbf16>
// CHECK-NEXT: }

// -----

// Gradients of two weights by one dz keep it as their input.

func.func @one_dz(%h: tensor<?x?x8xbf16>, %y: tensor<?x?x4xbf16>, %dz: tensor<?x?x16xbf16>) -> (tensor<16x8xbf16>, tensor<16x4xbf16>) {
  %dw = gemm.fused transposed %dz : tensor<?x?x16xbf16>
    columns(%h : tensor<?x?x8xbf16>) kn
      -> (tile : tensor<16x8xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %dv = gemm.fused transposed %dz : tensor<?x?x16xbf16>
    columns(%y : tensor<?x?x4xbf16>) kn
      -> (tile : tensor<16x4xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  func.return %dw, %dv : tensor<16x8xbf16>, tensor<16x4xbf16>
}

// CHECK:      func.func @one_dz(
// CHECK-NEXT:   %dw, %dv = gemm.fused transposed %dz : tensor<?x?x16xbf16>
// CHECK-NEXT:     columns(%h : tensor<?x?x8xbf16>) kn
// CHECK-NEXT:       -> (tile : tensor<16x8xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     columns(%y : tensor<?x?x4xbf16>) kn
// CHECK-NEXT:       -> (tile : tensor<16x4xbf16>) {
// CHECK-NEXT:     ^bb0(%acc_1: f32):
// CHECK-NEXT:       gemm.yield %acc_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %dw, %dv : tensor<16x8xbf16>, tensor<16x4xbf16>
// CHECK-NEXT: }

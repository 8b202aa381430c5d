// RUN: coda-opt %s -p pair-rope --split-input-file | filecheck %s

// Half-split: columns j and j + head_dim/2 of each head; (a, b) becomes (a·cos − b·sin, b·cos + a·sin).

func.func @half_split(%x: tensor<?x8xbf16>, %w: tensor<24x8xbf16>, %cos: tensor<?x4xf32>, %sin: tensor<?x4xf32>) -> tensor<?x24xbf16> {
  %z = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<24x8xbf16>)
      -> (tile : tensor<?x24xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %q = coda.rope %z, %cos, %sin {head_dim = 8 : i64, layout = "half_split"} : (tensor<?x24xbf16>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x24xbf16>
  func.return %q : tensor<?x24xbf16>
}

// CHECK:      func.func @half_split(
// CHECK-NEXT:   %q = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<24x8xbf16>) pair<halves, 8> half_table(%cos : tensor<?x4xf32>, %sin : tensor<?x4xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x24xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %acc_1: f32, %cos_1: f32, %sin_1: f32):
// CHECK-NEXT:       %0 = arith.mulf %acc, %cos_1 : f32
// CHECK-NEXT:       %1 = arith.mulf %acc_1, %sin_1 : f32
// CHECK-NEXT:       %2 = arith.subf %0, %1 : f32
// CHECK-NEXT:       %3 = arith.mulf %acc_1, %cos_1 : f32
// CHECK-NEXT:       %4 = arith.mulf %acc, %sin_1 : f32
// CHECK-NEXT:       %5 = arith.addf %3, %4 : f32
// CHECK-NEXT:       gemm.yield %2, %5 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %q : tensor<?x24xbf16>
// CHECK-NEXT: }

// -----

// Tables with an entry for each column: a·cos_a − b·sin_a, b·cos_b + a·sin_b.

func.func @per_column(%x: tensor<?x8xbf16>, %w: tensor<24x8xbf16>, %cos: tensor<?x8xf32>, %sin: tensor<?x8xf32>) -> tensor<?x24xbf16> {
  %z = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<24x8xbf16>)
      -> (tile : tensor<?x24xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %q = coda.rope %z, %cos, %sin {head_dim = 8 : i64, layout = "half_split", per_column} : (tensor<?x24xbf16>, tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x24xbf16>
  func.return %q : tensor<?x24xbf16>
}

// CHECK:      func.func @per_column(
// CHECK-NEXT:   %q = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<24x8xbf16>) pair<halves, 8> table(%cos : tensor<?x8xf32>, %sin : tensor<?x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x24xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %acc_1: f32, %cos_1: f32, %cos_2: f32, %sin_1: f32, %sin_2: f32):
// CHECK-NEXT:       %0 = arith.mulf %acc, %cos_1 : f32
// CHECK-NEXT:       %1 = arith.mulf %acc_1, %sin_1 : f32
// CHECK-NEXT:       %2 = arith.subf %0, %1 : f32
// CHECK-NEXT:       %3 = arith.mulf %acc_1, %cos_2 : f32
// CHECK-NEXT:       %4 = arith.mulf %acc, %sin_2 : f32
// CHECK-NEXT:       %5 = arith.addf %3, %4 : f32
// CHECK-NEXT:       gemm.yield %2, %5 : f32, f32

// -----

// Interleaved: columns 2j and 2j + 1. The code before it is done for both columns.

func.func @interleaved(%x: tensor<?x8xbf16>, %w: tensor<24x8xbf16>, %b: tensor<24xbf16>, %cos: tensor<?x4xf32>, %sin: tensor<?x4xf32>) -> (tensor<?x24xbf16>, tensor<?x24xbf16>) {
  %z = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<24x8xbf16>) row(%b : tensor<24xbf16>)
      -> (tile : tensor<?x24xbf16>) {
    ^bb0(%acc: f32, %b_1: f32):
      %0 = arith.addf %acc, %b_1 : f32
      gemm.yield %0 : f32
    }
  %q = coda.rope %z, %cos, %sin {head_dim = 8 : i64, layout = "interleaved"} : (tensor<?x24xbf16>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x24xbf16>
  func.return %q, %z : tensor<?x24xbf16>, tensor<?x24xbf16>
}

// CHECK:      func.func @interleaved(
// CHECK-NEXT:   %z, %q = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<24x8xbf16>) pair<adjacent> row(%b : tensor<24xbf16>) half_table(%cos : tensor<?x4xf32>, %sin : tensor<?x4xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x24xbf16>, tile : tensor<?x24xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %acc_1: f32, %b_1: f32, %b_2: f32, %cos_1: f32, %sin_1: f32):
// CHECK-NEXT:       %0 = arith.addf %acc, %b_1 : f32
// CHECK-NEXT:       %1 = arith.addf %acc_1, %b_2 : f32
// CHECK-NEXT:       %2 = arith.mulf %0, %cos_1 : f32
// CHECK-NEXT:       %3 = arith.mulf %1, %sin_1 : f32
// CHECK-NEXT:       %4 = arith.subf %2, %3 : f32
// CHECK-NEXT:       %5 = arith.mulf %1, %cos_1 : f32
// CHECK-NEXT:       %6 = arith.mulf %0, %sin_1 : f32
// CHECK-NEXT:       %7 = arith.addf %5, %6 : f32
// CHECK-NEXT:       gemm.yield %0, %1, %4, %7 : f32, f32, f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %q, %z : tensor<?x24xbf16>, tensor<?x24xbf16>
// CHECK-NEXT: }

// -----

// After a QK norm: the squares of a pair are added before those of the head.

func.func @after_norm(%x: tensor<?x8xbf16>, %w: tensor<24x8xbf16>, %g: tensor<8xbf16>, %cos: tensor<?x4xf32>, %sin: tensor<?x4xf32>) -> tensor<?x24xbf16> {
  %n = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<24x8xbf16>) table(%g : tensor<8xbf16>)
      -> (tile : tensor<?x24xbf16>) {
    ^bb0(%acc: f32, %g_1: f32):
      %0 = arith.mulf %acc, %acc : f32
      %1 = gemm.group_reduce add %0 over 8 : f32
      %2 = arith.constant 1.250000e-01 : f32
      %3 = arith.mulf %1, %2 : f32
      %4 = arith.constant 1.000000e-06 : f32
      %5 = arith.addf %3, %4 : f32
      %rstd = math.rsqrt %5 : f32
      %6 = arith.mulf %acc, %rstd : f32
      %7 = arith.mulf %6, %g_1 : f32
      gemm.yield %7 : f32
    }
  %q = coda.rope %n, %cos, %sin {head_dim = 8 : i64, layout = "half_split"} : (tensor<?x24xbf16>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x24xbf16>
  func.return %q : tensor<?x24xbf16>
}

// CHECK:      func.func @after_norm(
// CHECK-NEXT:   %q = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<24x8xbf16>) pair<halves, 8> table(%g : tensor<8xbf16>) half_table(%cos : tensor<?x4xf32>, %sin : tensor<?x4xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x24xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %acc_1: f32, %g_1: f32, %g_2: f32, %cos_1: f32, %sin_1: f32):
// CHECK-NEXT:       %0 = arith.mulf %acc, %acc : f32
// CHECK-NEXT:       %1 = arith.mulf %acc_1, %acc_1 : f32
// CHECK-NEXT:       %2 = arith.addf %0, %1 : f32
// CHECK-NEXT:       %3 = gemm.group_reduce add %2 over 8 : f32
// CHECK-NEXT:       %4 = arith.constant 1.250000e-01 : f32
// CHECK-NEXT:       %5 = arith.mulf %3, %4 : f32
// CHECK-NEXT:       %6 = arith.mulf %3, %4 : f32
// CHECK-NEXT:       %7 = arith.constant 1.000000e-06 : f32
// CHECK-NEXT:       %8 = arith.addf %5, %7 : f32
// CHECK-NEXT:       %9 = arith.addf %6, %7 : f32
// CHECK-NEXT:       %rstd = math.rsqrt %8 : f32
// CHECK-NEXT:       %rstd_1 = math.rsqrt %9 : f32
// CHECK-NEXT:       %10 = arith.mulf %acc, %rstd : f32
// CHECK-NEXT:       %11 = arith.mulf %acc_1, %rstd_1 : f32
// CHECK-NEXT:       %12 = arith.mulf %10, %g_1 : f32
// CHECK-NEXT:       %13 = arith.mulf %11, %g_2 : f32
// CHECK-NEXT:       %14 = arith.mulf %12, %cos_1 : f32
// CHECK-NEXT:       %15 = arith.mulf %13, %sin_1 : f32
// CHECK-NEXT:       %16 = arith.subf %14, %15 : f32
// CHECK-NEXT:       %17 = arith.mulf %13, %cos_1 : f32
// CHECK-NEXT:       %18 = arith.mulf %12, %sin_1 : f32
// CHECK-NEXT:       %19 = arith.addf %17, %18 : f32
// CHECK-NEXT:       gemm.yield %16, %19 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %q : tensor<?x24xbf16>
// CHECK-NEXT: }

// -----

// A rotation of the rotated: the same pairs again.

func.func @twice(%x: tensor<?x8xf32>, %w: tensor<24x8xf32>, %cos: tensor<?x4xf32>, %sin: tensor<?x4xf32>) -> tensor<?x24xf32> {
  %z = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<24x8xf32>)
      -> (tile : tensor<?x24xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %q = coda.rope %z, %cos, %sin {head_dim = 8 : i64, layout = "half_split"} : (tensor<?x24xf32>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x24xf32>
  %r = coda.rope %q, %sin, %cos {head_dim = 8 : i64, layout = "half_split"} : (tensor<?x24xf32>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x24xf32>
  func.return %r : tensor<?x24xf32>
}

// CHECK:      func.func @twice(
// CHECK-NEXT:   %r = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<24x8xf32>) pair<halves, 8> half_table(%cos : tensor<?x4xf32>, %sin : tensor<?x4xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x24xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %acc_1: f32, %cos_1: f32, %sin_1: f32):
// CHECK-NEXT:       %0 = arith.mulf %acc, %cos_1 : f32
// CHECK-NEXT:       %1 = arith.mulf %acc_1, %sin_1 : f32
// CHECK-NEXT:       %2 = arith.subf %0, %1 : f32
// CHECK-NEXT:       %3 = arith.mulf %acc_1, %cos_1 : f32
// CHECK-NEXT:       %4 = arith.mulf %acc, %sin_1 : f32
// CHECK-NEXT:       %5 = arith.addf %3, %4 : f32
// CHECK-NEXT:       %6 = arith.mulf %2, %sin_1 : f32
// CHECK-NEXT:       %7 = arith.mulf %5, %cos_1 : f32
// CHECK-NEXT:       %8 = arith.subf %6, %7 : f32
// CHECK-NEXT:       %9 = arith.mulf %5, %sin_1 : f32
// CHECK-NEXT:       %10 = arith.mulf %2, %cos_1 : f32
// CHECK-NEXT:       %11 = arith.addf %9, %10 : f32
// CHECK-NEXT:       gemm.yield %8, %11 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %r : tensor<?x24xf32>
// CHECK-NEXT: }

// RUN: coda-opt %s -p raise-rope,dce --split-input-file | filecheck %s

// Some columns of rows, which are no head.

func.func @some_columns(%q: tensor<2x5x12xf32>, %c: tensor<5x8xf32>, %s: tensor<5x8xf32>) -> tensor<2x5x8xf32> {
  %x = coda.slice %q {dim = 2 : i64, start = 0 : i64, stop = 8 : i64} : (tensor<2x5x12xf32>) -> tensor<2x5x8xf32>
  %a = coda.slice %x {dim = 2 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<2x5x8xf32>) -> tensor<2x5x4xf32>
  %b = coda.slice %x {dim = 2 : i64, start = 4 : i64, stop = 8 : i64} : (tensor<2x5x8xf32>) -> tensor<2x5x4xf32>
  %neg = coda.neg %b : (tensor<2x5x4xf32>) -> tensor<2x5x4xf32>
  %rotated = coda.concat %neg, %a {dim = 2 : i64} : (tensor<2x5x4xf32>, tensor<2x5x4xf32>) -> tensor<2x5x8xf32>
  %straight = coda.mul %x, %c : (tensor<2x5x8xf32>, tensor<5x8xf32>) -> tensor<2x5x8xf32>
  %crossed = coda.mul %rotated, %s : (tensor<2x5x8xf32>, tensor<5x8xf32>) -> tensor<2x5x8xf32>
  %y = coda.add %straight, %crossed : (tensor<2x5x8xf32>, tensor<2x5x8xf32>) -> tensor<2x5x8xf32>
  func.return %y : tensor<2x5x8xf32>
}

// CHECK-LABEL: func.func @some_columns(
// CHECK-NOT:     coda.rope
// CHECK:         func.return %y

// -----

// One row of the tables for all positions.

func.func @one_row(%q: tensor<2x5x8xf32>, %c: tensor<2x1x8xf32>, %s: tensor<2x1x8xf32>) -> tensor<2x5x8xf32> {
  %a = coda.slice %q {dim = 2 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<2x5x8xf32>) -> tensor<2x5x4xf32>
  %b = coda.slice %q {dim = 2 : i64, start = 4 : i64, stop = 8 : i64} : (tensor<2x5x8xf32>) -> tensor<2x5x4xf32>
  %neg = coda.neg %b : (tensor<2x5x4xf32>) -> tensor<2x5x4xf32>
  %rotated = coda.concat %neg, %a {dim = 2 : i64} : (tensor<2x5x4xf32>, tensor<2x5x4xf32>) -> tensor<2x5x8xf32>
  %straight = coda.mul %q, %c : (tensor<2x5x8xf32>, tensor<2x1x8xf32>) -> tensor<2x5x8xf32>
  %crossed = coda.mul %rotated, %s : (tensor<2x5x8xf32>, tensor<2x1x8xf32>) -> tensor<2x5x8xf32>
  %y = coda.add %straight, %crossed : (tensor<2x5x8xf32>, tensor<2x5x8xf32>) -> tensor<2x5x8xf32>
  func.return %y : tensor<2x5x8xf32>
}

// CHECK-LABEL: func.func @one_row(
// CHECK-NOT:     coda.rope
// CHECK:         func.return %y

// -----

// More dimensions than those of rows: heads that are no columns.

func.func @rows_of_heads(%q: tensor<2x3x5x8xf32>, %c: tensor<5x8xf32>, %s: tensor<5x8xf32>) -> tensor<2x3x5x8xf32> {
  %a = coda.slice %q {dim = 3 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<2x3x5x8xf32>) -> tensor<2x3x5x4xf32>
  %b = coda.slice %q {dim = 3 : i64, start = 4 : i64, stop = 8 : i64} : (tensor<2x3x5x8xf32>) -> tensor<2x3x5x4xf32>
  %neg = coda.neg %b : (tensor<2x3x5x4xf32>) -> tensor<2x3x5x4xf32>
  %rotated = coda.concat %neg, %a {dim = 3 : i64} : (tensor<2x3x5x4xf32>, tensor<2x3x5x4xf32>) -> tensor<2x3x5x8xf32>
  %straight = coda.mul %q, %c : (tensor<2x3x5x8xf32>, tensor<5x8xf32>) -> tensor<2x3x5x8xf32>
  %crossed = coda.mul %rotated, %s : (tensor<2x3x5x8xf32>, tensor<5x8xf32>) -> tensor<2x3x5x8xf32>
  %y = coda.add %straight, %crossed : (tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x5x8xf32>
  func.return %y : tensor<2x3x5x8xf32>
}

// CHECK-LABEL: func.func @rows_of_heads(
// CHECK-NOT:     coda.rope
// CHECK:         func.return %y

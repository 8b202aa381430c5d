// RUN: coda-opt %s -p split-queries --split-input-file | filecheck %s
// RUN: coda-opt %s -p split-queries --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// The first queries see fewer keys.

func.func @causal(%x: tensor<8x8xf32>) -> tensor<4x8xf32> {
  %y = coda.attention %x, %x, %x {head_dim = 4 : i64, causal = true} : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %first = coda.slice %y {dim = 0 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<8x8xf32>) -> tensor<4x8xf32>
  func.return %first : tensor<4x8xf32>
}

// REMARK: remark[missed] split-queries: coda.attention: the keys that a query of %x sees depend on its position; failed condition: every query sees the same keys
// CHECK-LABEL: func.func @causal(
// CHECK-NEXT:    %y = coda.attention %x, %x, %x
// CHECK-NEXT:    %first = coda.slice %y

// -----

// Each query has a row of the mask.

func.func @masked(%x: tensor<8x8xf32>, %mask: tensor<8x8xi1>) -> tensor<4x8xf32> {
  %y = coda.attention %x, %x, %x mask(%mask : tensor<8x8xi1>) {head_dim = 4 : i64, causal = false} : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %first = coda.slice %y {dim = 0 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<8x8xf32>) -> tensor<4x8xf32>
  func.return %first : tensor<4x8xf32>
}

// REMARK: remark[missed] split-queries: coda.attention: the keys that a query of %x sees depend on its position
// CHECK-LABEL: func.func @masked(
// CHECK-NEXT:    %y = coda.attention %x, %x, %x mask(%mask
// CHECK-NEXT:    %first = coda.slice %y

// -----

// Rows 3 and 4 are in both slices.

func.func @overlapping(%x: tensor<8x8xf32>) -> (tensor<5x8xf32>, tensor<5x8xf32>) {
  %y = coda.attention %x, %x, %x {head_dim = 4 : i64, causal = false} : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %a = coda.slice %y {dim = 0 : i64, start = 0 : i64, stop = 5 : i64} : (tensor<8x8xf32>) -> tensor<5x8xf32>
  %b = coda.slice %y {dim = 0 : i64, start = 3 : i64, stop = 8 : i64} : (tensor<8x8xf32>) -> tensor<5x8xf32>
  func.return %a, %b : tensor<5x8xf32>, tensor<5x8xf32>
}

// REMARK: remark[missed] split-queries: coda.attention: slices of %y overlap: the common rows would be computed twice; failed condition: every row is read once
// CHECK-LABEL: func.func @overlapping(
// CHECK-NEXT:    %y = coda.attention %x, %x, %x

// -----

// The gradient needs the logsumexp of all queries.

func.func @logsumexp(%x: tensor<8x8xf32>) -> (tensor<4x8xf32>, tensor<1x2x8xf32>) {
  %y, %lse = coda.attention %x, %x, %x {head_dim = 4 : i64, causal = false} : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> lse tensor<1x2x8xf32>
  %first = coda.slice %y {dim = 0 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<8x8xf32>) -> tensor<4x8xf32>
  func.return %first, %lse : tensor<4x8xf32>, tensor<1x2x8xf32>
}

// REMARK: remark[missed] split-queries: coda.attention: the logsumexp of %y covers all queries; failed condition: only the rows that attention returns are used
// CHECK-LABEL: func.func @logsumexp(
// CHECK-NEXT:    %y, %lse = coda.attention %x, %x, %x

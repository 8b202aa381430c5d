// RUN: coda-opt %s -p split-queries,dce --split-input-file | filecheck %s

// Joint attention of two streams: the queries are not copied, nor are the rows.

func.func @joint(%q1: tensor<?x5x8xf32> {coda.dims = ["B", 5 : i64, 8 : i64]}, %q2: tensor<?x3x8xf32> {coda.dims = ["B", 3 : i64, 8 : i64]}, %k: tensor<?x8x8xf32> {coda.dims = ["B", 8 : i64, 8 : i64]}, %v: tensor<?x8x8xf32> {coda.dims = ["B", 8 : i64, 8 : i64]}) -> (tensor<?x3x8xf32>, tensor<?x5x8xf32>) {
  %q = coda.concat %q1, %q2 {dim = 1 : i64} : (tensor<?x5x8xf32>, tensor<?x3x8xf32>) -> tensor<?x8x8xf32>
  %y = coda.attention %q, %k, %v {head_dim = 4 : i64, causal = false} : (tensor<?x8x8xf32>, tensor<?x8x8xf32>, tensor<?x8x8xf32>) -> tensor<?x8x8xf32>
  %b = coda.slice %y {dim = 1 : i64, start = 5 : i64, stop = 8 : i64} : (tensor<?x8x8xf32>) -> tensor<?x3x8xf32>
  %a = coda.slice %y {dim = 1 : i64, start = 0 : i64, stop = 5 : i64} : (tensor<?x8x8xf32>) -> tensor<?x5x8xf32>
  func.return %b, %a : tensor<?x3x8xf32>, tensor<?x5x8xf32>
}

// CHECK:      func.func @joint(
// CHECK-NEXT:   %a = coda.attention %q1, %k, %v {head_dim = 4 : i64, causal = false} : (tensor<?x5x8xf32>, tensor<?x8x8xf32>, tensor<?x8x8xf32>) -> tensor<?x5x8xf32>
// CHECK-NEXT:   %b = coda.attention %q2, %k, %v {head_dim = 4 : i64, causal = false} : (tensor<?x3x8xf32>, tensor<?x8x8xf32>, tensor<?x8x8xf32>) -> tensor<?x3x8xf32>
// CHECK-NEXT:   func.return %b, %a : tensor<?x3x8xf32>, tensor<?x5x8xf32>
// CHECK-NEXT: }

// -----

// Rows that nobody reads are not computed; other rows are a view of the queries. A mask of keys and a cap remain.

func.func @some(%q: tensor<8x8xf32>, %k: tensor<?x8xf32> {coda.dims = ["S", 8 : i64]}, %v: tensor<?x8xf32> {coda.dims = ["S", 8 : i64]}, %mask: tensor<1x?xi1> {coda.dims = [1 : i64, "S"]}) -> tensor<2x8xf32> {
  %y = coda.attention %q, %k, %v mask(%mask : tensor<1x?xi1>) {head_dim = 4 : i64, causal = false, softcap = 5.0 : f64} : (tensor<8x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<8x8xf32>
  %last = coda.slice %y {dim = 0 : i64, start = 6 : i64, stop = 8 : i64} : (tensor<8x8xf32>) -> tensor<2x8xf32>
  func.return %last : tensor<2x8xf32>
}

// CHECK:      func.func @some(
// CHECK-NEXT:   %0 = coda.slice %q {dim = 0 : i64, start = 6 : i64, stop = 8 : i64} : (tensor<8x8xf32>) -> tensor<2x8xf32>
// CHECK-NEXT:   %last = coda.attention %0, %k, %v mask(%mask : tensor<1x?xi1>) {head_dim = 4 : i64, causal = false, softcap = 5.000000e+00 : f64} : (tensor<2x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<2x8xf32>
// CHECK-NEXT:   func.return %last : tensor<2x8xf32>
// CHECK-NEXT: }

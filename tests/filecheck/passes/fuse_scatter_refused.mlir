// RUN: coda-opt %s -p fuse-scatter --split-input-file | filecheck %s
// RUN: coda-opt %s -p fuse-scatter --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// Ids that may select a row twice, and the order itself, whose inverse no operator computes.

func.func @ids(%x: tensor<?x8xbf16>, %ids: tensor<?xi64>, %w: tensor<16x8xbf16>) -> tensor<?x16xbf16> {
  %y = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>)
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %z = coda.index %y, %ids {dim = 0 : i64} : (tensor<?x16xbf16>, tensor<?xi64>) -> tensor<?x16xbf16>
  func.return %z : tensor<?x16xbf16>
}

// CHECK:      func.func @ids(%x: tensor<?x8xbf16>, %ids: tensor<?xi64>, %w: tensor<16x8xbf16>) -> tensor<?x16xbf16> {
// CHECK-NEXT:   %y = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<16x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %z = coda.index %y, %ids {dim = 0 : i64} : (tensor<?x16xbf16>, tensor<?xi64>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %z : tensor<?x16xbf16>
// CHECK-NEXT: }

// REMARK: remark[missed] fuse-scatter: coda.index: copies rows of a GEMM: %ids may select a row twice; failed condition: the ids are the inverse of a permutation of the rows that a sort computed; costs 72*d1 bytes

// -----

func.func @order(%x: tensor<?x8xbf16> {coda.dims = ["M", 8 : i64]}, %e: tensor<?xi64> {coda.dims = ["M"]}, %w: tensor<16x8xbf16>) -> tensor<?x16xbf16> {
  %sorted, %order = coda.sort %e {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
  %y = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>)
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %z = coda.index %y, %order {dim = 0 : i64} : (tensor<?x16xbf16>, tensor<?xi64>) -> tensor<?x16xbf16>
  func.return %z : tensor<?x16xbf16>
}

// CHECK:      func.func @order(%x: tensor<?x8xbf16> {coda.dims = ["M", 8 : i64]}, %e: tensor<?xi64> {coda.dims = ["M"]}, %w: tensor<16x8xbf16>) -> tensor<?x16xbf16> {
// CHECK-NEXT:   %sorted, %order = coda.sort %e {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
// CHECK-NEXT:   %y = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<16x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %z = coda.index %y, %order {dim = 0 : i64} : (tensor<?x16xbf16>, tensor<?xi64>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %z : tensor<?x16xbf16>
// CHECK-NEXT: }

// REMARK: remark[missed] fuse-scatter: coda.index: copies rows of a GEMM: %order may select a row twice; failed condition: the ids are the inverse of a permutation of the rows that a sort computed; costs 72*M bytes

// -----

// Numbers in descending order, and numbers that are not places, are no inverse.

func.func @descending(%x: tensor<?x8xbf16> {coda.dims = ["M", 8 : i64]}, %e: tensor<?xi64> {coda.dims = ["M"]}, %w: tensor<16x8xbf16>) -> tensor<?x16xbf16> {
  %sorted, %order = coda.sort %e {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
  %y = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>)
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %again, %inverse = coda.sort %order {dim = 0 : i64, descending = true} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
  %z = coda.index %y, %inverse {dim = 0 : i64} : (tensor<?x16xbf16>, tensor<?xi64>) -> tensor<?x16xbf16>
  func.return %z : tensor<?x16xbf16>
}

// CHECK:      func.func @descending(%x: tensor<?x8xbf16> {coda.dims = ["M", 8 : i64]}, %e: tensor<?xi64> {coda.dims = ["M"]}, %w: tensor<16x8xbf16>) -> tensor<?x16xbf16> {
// CHECK-NEXT:   %sorted, %order = coda.sort %e {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
// CHECK-NEXT:   %y = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<16x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %again, %inverse = coda.sort %order {dim = 0 : i64, descending = true} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
// CHECK-NEXT:   %z = coda.index %y, %inverse {dim = 0 : i64} : (tensor<?x16xbf16>, tensor<?xi64>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %z : tensor<?x16xbf16>
// CHECK-NEXT: }

// REMARK: remark[missed] fuse-scatter: coda.index: copies rows of a GEMM: %inverse may select a row twice; failed condition: the ids are the inverse of a permutation of the rows that a sort computed; costs 72*M bytes

// -----

func.func @other_numbers(%x: tensor<?x8xbf16> {coda.dims = ["M", 8 : i64]}, %e: tensor<?xi64> {coda.dims = ["M"]}, %w: tensor<16x8xbf16>) -> tensor<?x16xbf16> {
  %y = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>)
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %sorted, %order = coda.sort %e {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
  %places = coda.positions %e {dim = 0 : i64, start = 0 : i64, step = -1 : i64} : (tensor<?xi64>) -> tensor<?xi64>
  %ids = coda.scatter %e, %order, %places {dim = 0 : i64} : (tensor<?xi64>, tensor<?xi64>, tensor<?xi64>) -> tensor<?xi64>
  %z = coda.index %y, %ids {dim = 0 : i64} : (tensor<?x16xbf16>, tensor<?xi64>) -> tensor<?x16xbf16>
  func.return %z : tensor<?x16xbf16>
}

// CHECK:      func.func @other_numbers(%x: tensor<?x8xbf16> {coda.dims = ["M", 8 : i64]}, %e: tensor<?xi64> {coda.dims = ["M"]}, %w: tensor<16x8xbf16>) -> tensor<?x16xbf16> {
// CHECK-NEXT:   %y = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<16x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %sorted, %order = coda.sort %e {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
// CHECK-NEXT:   %places = coda.positions %e {dim = 0 : i64, start = 0 : i64, step = -1 : i64} : (tensor<?xi64>) -> tensor<?xi64>
// CHECK-NEXT:   %ids = coda.scatter %e, %order, %places {dim = 0 : i64} : (tensor<?xi64>, tensor<?xi64>, tensor<?xi64>) -> tensor<?xi64>
// CHECK-NEXT:   %z = coda.index %y, %ids {dim = 0 : i64} : (tensor<?x16xbf16>, tensor<?xi64>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %z : tensor<?x16xbf16>
// CHECK-NEXT: }

// REMARK: remark[missed] fuse-scatter: coda.index: copies rows of a GEMM: %ids may select a row twice; failed condition: the ids are the inverse of a permutation of the rows that a sort computed; costs 72*M bytes

// -----

// Rows that are returned in their order, too.

func.func @returned(%x: tensor<?x8xbf16> {coda.dims = ["M", 8 : i64]}, %e: tensor<?xi64> {coda.dims = ["M"]}, %w: tensor<16x8xbf16>) -> (tensor<?x16xbf16>, tensor<?x16xbf16>) {
  %sorted, %order = coda.sort %e {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
  %y = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>)
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %again, %inverse = coda.sort %order {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
  %z = coda.index %y, %inverse {dim = 0 : i64} : (tensor<?x16xbf16>, tensor<?xi64>) -> tensor<?x16xbf16>
  func.return %y, %z : tensor<?x16xbf16>, tensor<?x16xbf16>
}

// CHECK:      func.func @returned(%x: tensor<?x8xbf16> {coda.dims = ["M", 8 : i64]}, %e: tensor<?xi64> {coda.dims = ["M"]}, %w: tensor<16x8xbf16>) -> (tensor<?x16xbf16>, tensor<?x16xbf16>) {
// CHECK-NEXT:   %sorted, %order = coda.sort %e {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
// CHECK-NEXT:   %y = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<16x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %again, %inverse = coda.sort %order {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
// CHECK-NEXT:   %z = coda.index %y, %inverse {dim = 0 : i64} : (tensor<?x16xbf16>, tensor<?xi64>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %y, %z : tensor<?x16xbf16>, tensor<?x16xbf16>
// CHECK-NEXT: }

// REMARK: remark[missed] fuse-scatter: coda.index: copies rows of a GEMM: %y is also read in its own order; failed condition: the rows are the only result of a GEMM, and nothing else reads them; costs 72*M bytes

// -----

// A GEMM with a second result.

func.func @sums(%x: tensor<?x8xbf16> {coda.dims = ["M", 8 : i64]}, %e: tensor<?xi64> {coda.dims = ["M"]}, %w: tensor<16x8xbf16>) -> (tensor<?x16xbf16>, tensor<?x1xf32>) {
  %sorted, %order = coda.sort %e {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
  %y, %p = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>)
      -> (tile : tensor<?x16xbf16>, partial_row<add> : tensor<?x?xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc, %acc : f32, f32
    }
  %s = gemm.finalize row (add %p : tensor<?x?xf32>) -> (tensor<?x1xf32>) {
  ^bb0(%total: f32):
    gemm.yield %total : f32
  }
  %again, %inverse = coda.sort %order {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
  %z = coda.index %y, %inverse {dim = 0 : i64} : (tensor<?x16xbf16>, tensor<?xi64>) -> tensor<?x16xbf16>
  func.return %z, %s : tensor<?x16xbf16>, tensor<?x1xf32>
}

// CHECK:      func.func @sums(%x: tensor<?x8xbf16> {coda.dims = ["M", 8 : i64]}, %e: tensor<?xi64> {coda.dims = ["M"]}, %w: tensor<16x8xbf16>) -> (tensor<?x16xbf16>, tensor<?x1xf32>) {
// CHECK-NEXT:   %sorted, %order = coda.sort %e {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
// CHECK-NEXT:   %y, %p = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<16x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>, partial_row<add> : tensor<?x?xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc, %acc : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %s = gemm.finalize row (add %p : tensor<?x?xf32>) -> (tensor<?x1xf32>) {
// CHECK-NEXT:   ^bb0(%total: f32):
// CHECK-NEXT:     gemm.yield %total : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   %again, %inverse = coda.sort %order {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
// CHECK-NEXT:   %z = coda.index %y, %inverse {dim = 0 : i64} : (tensor<?x16xbf16>, tensor<?xi64>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %z, %s : tensor<?x16xbf16>, tensor<?x1xf32>
// CHECK-NEXT: }

// REMARK: remark[missed] fuse-scatter: coda.index: copies rows of a GEMM: %y is also read in its own order; failed condition: the rows are the only result of a GEMM, and nothing else reads them; costs 72*M bytes

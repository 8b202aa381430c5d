// RUN: coda-opt %s -p fuse-scatter,dce --split-input-file | filecheck %s
// RUN: coda-opt %s -p fuse-scatter,dce --split-input-file --remarks=passed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// The inverse of an order is that of its numbers, or the places of its numbers.

func.func @argsort(%x: tensor<?x8xbf16> {coda.dims = ["M", 8 : i64]}, %e: tensor<?xi64> {coda.dims = ["M"]}, %w: tensor<4x16x8xbf16>, %ends: tensor<4xi32>) -> tensor<?x16xbf16> {
  %sorted, %order = coda.sort %e {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
  %y = gemm.fused %x : tensor<?x8xbf16> groups(%ends : tensor<4xi32>)
    columns(%w : tensor<4x16x8xbf16>)
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %again, %inverse = coda.sort %order {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
  %z = coda.index %y, %inverse {dim = 0 : i64} : (tensor<?x16xbf16>, tensor<?xi64>) -> tensor<?x16xbf16>
  func.return %z : tensor<?x16xbf16>
}

// CHECK:      func.func @argsort(%x: tensor<?x8xbf16> {coda.dims = ["M", 8 : i64]}, %e: tensor<?xi64> {coda.dims = ["M"]}, %w: tensor<4x16x8xbf16>, %ends: tensor<4xi32>) -> tensor<?x16xbf16> {
// CHECK-NEXT:   %sorted, %order = coda.sort %e {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
// CHECK-NEXT:   %z = gemm.fused %x : tensor<?x8xbf16> groups(%ends : tensor<4xi32>) scatter(%order : tensor<?xi64>)
// CHECK-NEXT:     columns(%w : tensor<4x16x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %z : tensor<?x16xbf16>
// CHECK-NEXT: }

// REMARK: remark[passed] fuse-scatter: coda.index: its rows are stored in this order by the GEMM that computes them

// -----

func.func @places(%x: tensor<?x8xbf16> {coda.dims = ["M", 8 : i64]}, %e: tensor<?xi64> {coda.dims = ["M"]}, %w: tensor<16x8xbf16>) -> tensor<?x8xbf16> {
  %y = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>) pair<halves>
      -> (half : tensor<?x8xbf16>) {
    ^bb0(%gate: f32, %up: f32):
      %product = arith.mulf %gate, %up : f32
      gemm.yield %product : f32
    }
  %sorted, %order = coda.sort %e {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
  %places = coda.positions %e {dim = 0 : i64, start = 0 : i64, step = 1 : i64} : (tensor<?xi64>) -> tensor<?xi64>
  %inverse = coda.scatter %e, %order, %places {dim = 0 : i64} : (tensor<?xi64>, tensor<?xi64>, tensor<?xi64>) -> tensor<?xi64>
  %z = coda.index %y, %inverse {dim = 0 : i64} : (tensor<?x8xbf16>, tensor<?xi64>) -> tensor<?x8xbf16>
  func.return %z : tensor<?x8xbf16>
}

// CHECK:      func.func @places(%x: tensor<?x8xbf16> {coda.dims = ["M", 8 : i64]}, %e: tensor<?xi64> {coda.dims = ["M"]}, %w: tensor<16x8xbf16>) -> tensor<?x8xbf16> {
// CHECK-NEXT:   %sorted, %order = coda.sort %e {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
// CHECK-NEXT:   %z = gemm.fused %x : tensor<?x8xbf16> scatter(%order : tensor<?xi64>)
// CHECK-NEXT:     columns(%w : tensor<16x8xbf16>) pair<halves>
// CHECK-NEXT:       -> (half : tensor<?x8xbf16>) {
// CHECK-NEXT:     ^bb0(%gate: f32, %up: f32):
// CHECK-NEXT:       %product = arith.mulf %gate, %up : f32
// CHECK-NEXT:       gemm.yield %product : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %z : tensor<?x8xbf16>
// CHECK-NEXT: }

// REMARK: remark[passed] fuse-scatter: coda.index: its rows are stored in this order by the GEMM that computes them

// -----

// Scales that are selected in the same order are loaded by the numbers of the rows, as columns of one
// dimension or two.

func.func @scales(%x: tensor<?x8xbf16> {coda.dims = ["M", 8 : i64]}, %e: tensor<?xi64> {coda.dims = ["M"]}, %g: tensor<?x1xbf16> {coda.dims = ["M", 1 : i64]}, %h: tensor<?xf32> {coda.dims = ["M"]}, %w: tensor<4x16x8xbf16>, %ends: tensor<4xi32>) -> tensor<?x16xbf16> {
  %sorted, %order = coda.sort %e {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
  %s = coda.index %g, %order {dim = 0 : i64} : (tensor<?x1xbf16>, tensor<?xi64>) -> tensor<?x1xbf16>
  %t = coda.index %h, %order {dim = 0 : i64} : (tensor<?xf32>, tensor<?xi64>) -> tensor<?xf32>
  %y = gemm.fused %x : tensor<?x8xbf16> groups(%ends : tensor<4xi32>)
    columns(%w : tensor<4x16x8xbf16>) col(%s : tensor<?x1xbf16>, %t : tensor<?xf32>)
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32, %a: f32, %b: f32):
      %p = arith.mulf %acc, %a : f32
      %q = arith.addf %p, %b : f32
      gemm.yield %q : f32
    }
  %again, %inverse = coda.sort %order {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
  %z = coda.index %y, %inverse {dim = 0 : i64} : (tensor<?x16xbf16>, tensor<?xi64>) -> tensor<?x16xbf16>
  func.return %z : tensor<?x16xbf16>
}

// CHECK:      func.func @scales(
// CHECK-NEXT:   %sorted, %order = coda.sort %e {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
// CHECK-NEXT:   %z = gemm.fused %x : tensor<?x8xbf16> groups(%ends : tensor<4xi32>) scatter(%order : tensor<?xi64>)
// CHECK-NEXT:     columns(%w : tensor<4x16x8xbf16>) scatter_col(%g : tensor<?x1xbf16>, %h : tensor<?xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %a: f32, %b: f32):
// CHECK-NEXT:       %p = arith.mulf %acc, %a : f32
// CHECK-NEXT:       %q = arith.addf %p, %b : f32
// CHECK-NEXT:       gemm.yield %q : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %z : tensor<?x16xbf16>
// CHECK-NEXT: }

// REMARK: remark[passed] fuse-scatter: coda.index: its rows are stored in this order by the GEMM that computes them

// RUN: coda-opt %s -p fuse-gather,dce --split-input-file | filecheck %s
// RUN: coda-opt %s -p fuse-gather,dce --split-input-file --remarks=passed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// The tokens of experts: each is one of the k rows of a sort.

func.func @tokens(%x: tensor<?x8xbf16> {coda.dims = ["T", 8 : i64]}, %e: tensor<?xi64> {coda.dims = ["2*T"]}, %w: tensor<4x16x8xbf16>, %ends: tensor<4xi32>) -> tensor<?x16xbf16> {
  %sorted, %order = coda.sort %e {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
  %two = coda.constant {value = 2 : i64} : tensor<i64>
  %token = coda.floor_divide %order, %two : (tensor<?xi64>, tensor<i64>) -> tensor<?xi64>
  %rows = coda.index %x, %token {dim = 0 : i64} : (tensor<?x8xbf16>, tensor<?xi64>) -> tensor<?x8xbf16>
  %y = gemm.fused %rows : tensor<?x8xbf16> groups(%ends : tensor<4xi32>)
    columns(%w : tensor<4x16x8xbf16>)
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  func.return %y : tensor<?x16xbf16>
}

// CHECK:      func.func @tokens(%x: tensor<?x8xbf16> {coda.dims = ["T", 8 : i64]}, %e: tensor<?xi64> {coda.dims = ["2*T"]}, %w: tensor<4x16x8xbf16>, %ends: tensor<4xi32>) -> tensor<?x16xbf16> {
// CHECK-NEXT:   %sorted, %order = coda.sort %e {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
// CHECK-NEXT:   %two = coda.constant {value = 2 : i64} : tensor<i64>
// CHECK-NEXT:   %token = coda.floor_divide %order, %two : (tensor<?xi64>, tensor<i64>) -> tensor<?xi64>
// CHECK-NEXT:   %y = gemm.fused %x : tensor<?x8xbf16> groups(%ends : tensor<4xi32>) gather(%token : tensor<?xi64>)
// CHECK-NEXT:     columns(%w : tensor<4x16x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y : tensor<?x16xbf16>
// CHECK-NEXT: }

// REMARK: remark[passed] fuse-gather: coda.index: its rows are gathered by the GEMM that reads them

// -----

// Rows in another order, without groups, for two GEMMs; a number of rows that is known.

func.func @sorted(%x: tensor<9x8xbf16>, %s: tensor<7xf32>, %w: tensor<16x8xbf16>, %v: tensor<4x8xbf16>) -> (tensor<7x16xbf16>, tensor<7x4xbf16>) {
  %values, %order = coda.sort %s {dim = 0 : i64, descending = true} : (tensor<7xf32>) -> (tensor<7xf32>, tensor<7xi64>)
  %rows = coda.index %x, %order {dim = 0 : i64} : (tensor<9x8xbf16>, tensor<7xi64>) -> tensor<7x8xbf16>
  %y = gemm.fused %rows : tensor<7x8xbf16>
    columns(%w : tensor<16x8xbf16>)
      -> (tile : tensor<7x16xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %z = gemm.fused %rows : tensor<7x8xbf16>
    columns(%v : tensor<4x8xbf16>)
      -> (tile : tensor<7x4xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  func.return %y, %z : tensor<7x16xbf16>, tensor<7x4xbf16>
}

// CHECK:      func.func @sorted(%x: tensor<9x8xbf16>, %s: tensor<7xf32>, %w: tensor<16x8xbf16>, %v: tensor<4x8xbf16>) -> (tensor<7x16xbf16>, tensor<7x4xbf16>) {
// CHECK-NEXT:   %values, %order = coda.sort %s {dim = 0 : i64, descending = true} : (tensor<7xf32>) -> (tensor<7xf32>, tensor<7xi64>)
// CHECK-NEXT:   %y = gemm.fused %x : tensor<9x8xbf16> gather(%order : tensor<7xi64>)
// CHECK-NEXT:     columns(%w : tensor<16x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<7x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %z = gemm.fused %x : tensor<9x8xbf16> gather(%order : tensor<7xi64>)
// CHECK-NEXT:     columns(%v : tensor<4x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<7x4xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y, %z : tensor<7x16xbf16>, tensor<7x4xbf16>
// CHECK-NEXT: }

// REMARK: remark[passed] fuse-gather: coda.index: its rows are gathered by the 2 GEMMs that read them

// -----

// Both factors of gradients of weights: the rows of x, and those that it is multiplied with.

func.func @summed(%x: tensor<?x8xbf16> {coda.dims = ["T", 8 : i64]}, %order: tensor<?xi64> {coda.dims = ["2*T"], coda.permutation}, %dy: tensor<?x16xbf16> {coda.dims = ["2*T", 16 : i64]}, %ends: tensor<4xi32>) -> (tensor<4x16x8xbf16>, tensor<4x8x16xbf16>) {
  %two = coda.constant {value = 2 : i64} : tensor<i64>
  %token = coda.floor_divide %order, %two : (tensor<?xi64>, tensor<i64>) -> tensor<?xi64>
  %rows = coda.index %x, %token {dim = 0 : i64} : (tensor<?x8xbf16>, tensor<?xi64>) -> tensor<?x8xbf16>
  %a = gemm.fused transposed %dy : tensor<?x16xbf16> groups(%ends : tensor<4xi32>)
    columns(%rows : tensor<?x8xbf16>) kn
      -> (tile : tensor<4x16x8xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %b = gemm.fused transposed %rows : tensor<?x8xbf16> groups(%ends : tensor<4xi32>)
    columns(%dy : tensor<?x16xbf16>) kn
      -> (tile : tensor<4x8x16xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  func.return %a, %b : tensor<4x16x8xbf16>, tensor<4x8x16xbf16>
}

// CHECK:      func.func @summed(%x: tensor<?x8xbf16> {coda.dims = ["T", 8 : i64]}, %order: tensor<?xi64> {coda.dims = ["2*T"], coda.permutation}, %dy: tensor<?x16xbf16> {coda.dims = ["2*T", 16 : i64]}, %ends: tensor<4xi32>) -> (tensor<4x16x8xbf16>, tensor<4x8x16xbf16>) {
// CHECK-NEXT:   %two = coda.constant {value = 2 : i64} : tensor<i64>
// CHECK-NEXT:   %token = coda.floor_divide %order, %two : (tensor<?xi64>, tensor<i64>) -> tensor<?xi64>
// CHECK-NEXT:   %a = gemm.fused transposed %dy : tensor<?x16xbf16> groups(%ends : tensor<4xi32>) gather_weights(%token : tensor<?xi64>)
// CHECK-NEXT:     columns(%x : tensor<?x8xbf16>) kn
// CHECK-NEXT:       -> (tile : tensor<4x16x8xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %b = gemm.fused transposed %x : tensor<?x8xbf16> groups(%ends : tensor<4xi32>) gather(%token : tensor<?xi64>)
// CHECK-NEXT:     columns(%dy : tensor<?x16xbf16>) kn
// CHECK-NEXT:       -> (tile : tensor<4x8x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %a, %b : tensor<4x16x8xbf16>, tensor<4x8x16xbf16>
// CHECK-NEXT: }

// REMARK: remark[passed] fuse-gather: coda.index: its rows are gathered by the 2 GEMMs that read them

// -----

// Scales of the rows that are gathered are loaded where they are; those in another order are copied.

func.func @scales(%x: tensor<?x8xbf16> {coda.dims = ["T", 8 : i64]}, %e: tensor<?xi64> {coda.dims = ["2*T"]}, %g: tensor<?x1xf32> {coda.dims = ["T", 1 : i64]}, %h: tensor<?xf32> {coda.dims = ["2*T"]}, %w: tensor<4x16x8xbf16>, %ends: tensor<4xi32>) -> tensor<?x16xbf16> {
  %sorted, %order = coda.sort %e {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
  %two = coda.constant {value = 2 : i64} : tensor<i64>
  %token = coda.floor_divide %order, %two : (tensor<?xi64>, tensor<i64>) -> tensor<?xi64>
  %rows = coda.index %x, %token {dim = 0 : i64} : (tensor<?x8xbf16>, tensor<?xi64>) -> tensor<?x8xbf16>
  %s = coda.index %g, %token {dim = 0 : i64} : (tensor<?x1xf32>, tensor<?xi64>) -> tensor<?x1xf32>
  %t = coda.index %h, %order {dim = 0 : i64} : (tensor<?xf32>, tensor<?xi64>) -> tensor<?xf32>
  %y = gemm.fused %rows : tensor<?x8xbf16> groups(%ends : tensor<4xi32>)
    columns(%w : tensor<4x16x8xbf16>) col(%s : tensor<?x1xf32>, %t : tensor<?xf32>)
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32, %a: f32, %b: f32):
      %p = arith.mulf %acc, %a : f32
      %q = arith.addf %p, %b : f32
      gemm.yield %q : f32
    }
  func.return %y : tensor<?x16xbf16>
}

// CHECK:      func.func @scales(
// CHECK-NEXT:   %sorted, %order = coda.sort %e {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
// CHECK-NEXT:   %two = coda.constant {value = 2 : i64} : tensor<i64>
// CHECK-NEXT:   %token = coda.floor_divide %order, %two : (tensor<?xi64>, tensor<i64>) -> tensor<?xi64>
// CHECK-NEXT:   %t = coda.index %h, %order {dim = 0 : i64} : (tensor<?xf32>, tensor<?xi64>) -> tensor<?xf32>
// CHECK-NEXT:   %y = gemm.fused %x : tensor<?x8xbf16> groups(%ends : tensor<4xi32>) gather(%token : tensor<?xi64>)
// CHECK-NEXT:     columns(%w : tensor<4x16x8xbf16>) gather_col(%g : tensor<?x1xf32>) col(%t : tensor<?xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %a: f32, %b: f32):
// CHECK-NEXT:       %p = arith.mulf %acc, %a : f32
// CHECK-NEXT:       %q = arith.addf %p, %b : f32
// CHECK-NEXT:       gemm.yield %q : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y : tensor<?x16xbf16>
// CHECK-NEXT: }

// REMARK: remark[passed] fuse-gather: coda.index: its rows are gathered by the GEMM that reads them

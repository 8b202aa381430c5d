// RUN: coda-opt %s -p fuse-embedding --split-input-file | filecheck %s
// RUN: coda-opt %s -p fuse-embedding --split-input-file --remarks=passed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// A kernel that adds up squares stores the rows as well, for the residual of a GEMM.

func.func @residual(%i: tensor<?xi64>, %e: tensor<50x8xbf16>, %y: tensor<?x4xbf16>, %w: tensor<8x4xbf16>) -> (tensor<?x8xbf16>, tensor<?x?xf32>) {
  %x = coda.embedding %i, %e : (tensor<?xi64>, tensor<50x8xbf16>) -> tensor<?x8xbf16>
  %p = gemm.map tile(%x : tensor<?x8xbf16>)
      -> (partial_row<add> : tensor<?x?xf32>) {
    ^bb0(%a: f32):
      %s = arith.mulf %a, %a : f32
      gemm.yield %s : f32
    }
  %z = gemm.fused %y : tensor<?x4xbf16>
    columns(%w : tensor<8x4xbf16>) tile(%x : tensor<?x8xbf16>)
      -> (tile : tensor<?x8xbf16>) {
    ^bb0(%acc: f32, %a: f32):
      %s = arith.addf %acc, %a : f32
      gemm.yield %s : f32
    }
  func.return %z, %p : tensor<?x8xbf16>, tensor<?x?xf32>
}

// CHECK:      func.func @residual(%i: tensor<?xi64>, %e: tensor<50x8xbf16>, %y: tensor<?x4xbf16>, %w: tensor<8x4xbf16>) -> (tensor<?x8xbf16>, tensor<?x?xf32>) {
// CHECK-NEXT:   %x = coda.embedding %i, %e : (tensor<?xi64>, tensor<50x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %p, %x_1 = gemm.map tile(%x : tensor<?x8xbf16>)
// CHECK-NEXT:       -> (partial_row<add> : tensor<?x?xf32>, tile : tensor<?x8xbf16>) {
// CHECK-NEXT:     ^bb0(%a: f32):
// CHECK-NEXT:       %s = arith.mulf %a, %a : f32
// CHECK-NEXT:       gemm.yield %s, %a : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %z = gemm.fused %y : tensor<?x4xbf16>
// CHECK-NEXT:     columns(%w : tensor<8x4xbf16>) tile(%x_1 : tensor<?x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x8xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %a: f32):
// CHECK-NEXT:       %s = arith.addf %acc, %a : f32
// CHECK-NEXT:       gemm.yield %s : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %z, %p : tensor<?x8xbf16>, tensor<?x?xf32>
// CHECK-NEXT: }

// REMARK: remark[passed] fuse-embedding: coda.embedding: a kernel loads its rows by the ids

// -----

// One kernel adds the rows of two tables: neither is a tensor. Norms that run alone read a stored one.

func.func @positions(%i: tensor<?x?xi64>, %e: tensor<50x8xbf16>, %t: tensor<20x8xbf16>, %j: tensor<1x?xi64>, %g: tensor<8xbf16>) -> (tensor<?x?x8xbf16>, tensor<1x?x8xbf16>) {
  %x = coda.embedding %i, %e : (tensor<?x?xi64>, tensor<50x8xbf16>) -> tensor<?x?x8xbf16>
  %p = coda.embedding %j, %t : (tensor<1x?xi64>, tensor<20x8xbf16>) -> tensor<1x?x8xbf16>
  %y = gemm.map tile(%x : tensor<?x?x8xbf16>) table(%p : tensor<1x?x8xbf16>)
      -> (tile : tensor<?x?x8xbf16>) {
    ^bb0(%a: f32, %b: f32):
      %s = arith.addf %a, %b : f32
      gemm.yield %s : f32
    }
  %q = coda.embedding %j, %e : (tensor<1x?xi64>, tensor<50x8xbf16>) -> tensor<1x?x8xbf16>
  %h = coda.rms_norm %q, %g {eps = 1.0e-6 : f64} : (tensor<1x?x8xbf16>, tensor<8xbf16>) -> tensor<1x?x8xbf16>
  func.return %y, %h : tensor<?x?x8xbf16>, tensor<1x?x8xbf16>
}

// CHECK:      func.func @positions(%i: tensor<?x?xi64>, %e: tensor<50x8xbf16>, %t: tensor<20x8xbf16>, %j: tensor<1x?xi64>, %g: tensor<8xbf16>) -> (tensor<?x?x8xbf16>, tensor<1x?x8xbf16>) {
// CHECK-NEXT:   %x = coda.embedding %i, %e : (tensor<?x?xi64>, tensor<50x8xbf16>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   %p = coda.embedding %j, %t : (tensor<1x?xi64>, tensor<20x8xbf16>) -> tensor<1x?x8xbf16>
// CHECK-NEXT:   %y = gemm.map tile(%x : tensor<?x?x8xbf16>) table(%p : tensor<1x?x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x?x8xbf16>) {
// CHECK-NEXT:     ^bb0(%a: f32, %b: f32):
// CHECK-NEXT:       %s = arith.addf %a, %b : f32
// CHECK-NEXT:       gemm.yield %s : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %q = coda.embedding %j, %e : (tensor<1x?xi64>, tensor<50x8xbf16>) -> tensor<1x?x8xbf16>
// CHECK-NEXT:   %q_1 = gemm.map tile(%q : tensor<1x?x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<1x?x8xbf16>) {
// CHECK-NEXT:     ^bb0(%q_2: f32):
// CHECK-NEXT:       gemm.yield %q_2 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %h = coda.rms_norm %q_1, %g {eps = 1.000000e-06 : f64} : (tensor<1x?x8xbf16>, tensor<8xbf16>) -> tensor<1x?x8xbf16>
// CHECK-NEXT:   func.return %y, %h : tensor<?x?x8xbf16>, tensor<1x?x8xbf16>
// CHECK-NEXT: }

// REMARK: remark[passed] fuse-embedding: coda.embedding: a kernel loads its rows by the ids
// REMARK: remark[passed] fuse-embedding: coda.embedding: a kernel loads its rows by the ids
// REMARK: remark[passed] fuse-embedding: coda.embedding: a kernel loads its rows by the ids

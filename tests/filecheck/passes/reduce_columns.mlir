// RUN: coda-opt %s -p reduce-columns,dce --split-input-file | filecheck %s
// RUN: coda-opt %s -p reduce-columns --split-input-file --remarks=passed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// A kernel that loads the matrix, as one of rows with two dimensions, finds its columns' maxima.

func.func @loaded(%x: tensor<2x3x8xbf16>, %s: tensor<2x3x1xf32>) -> (tensor<2x3x8xf8E4M3FN>, tensor<8x1xf32>) {
  %m = coda.reshape %x : (tensor<2x3x8xbf16>) -> tensor<6x8xbf16>
  %t = coda.transpose %m {perm = [1 : i64, 0 : i64]} : (tensor<6x8xbf16>) -> tensor<8x6xbf16>
  %w = coda.cast %t : (tensor<8x6xbf16>) -> tensor<8x6xf32>
  %a = coda.abs %w : (tensor<8x6xf32>) -> tensor<8x6xf32>
  %largest = coda.reduce %a {kind = "max"} : (tensor<8x6xf32>) -> tensor<8x1xf32>
  %q = gemm.map tile(%x : tensor<2x3x8xbf16>) col(%s : tensor<2x3x1xf32>)
    -> (tile : tensor<2x3x8xf8E4M3FN>) {
    ^bb0(%x_1: f32, %s_1: f32):
      %0 = arith.divf %x_1, %s_1 : f32
      gemm.yield %0 : f32
    }
  func.return %q, %largest : tensor<2x3x8xf8E4M3FN>, tensor<8x1xf32>
}

// REMARK: remark[passed] reduce-columns: coda.reduce: reduced over columns, without the transpose
// CHECK:      func.func @loaded(
// CHECK-NEXT:   %q, %partial = gemm.map tile(%x : tensor<2x3x8xbf16>) col(%s : tensor<2x3x1xf32>)
// CHECK-NEXT:       -> (tile : tensor<2x3x8xf8E4M3FN>, partial_col<max> : tensor<?x8xf32>) {
// CHECK-NEXT:     ^bb0(%x_1: f32, %s_1: f32):
// CHECK-NEXT:       %0 = arith.divf %x_1, %s_1 : f32
// CHECK-NEXT:       %1 = math.absf %x_1 : f32
// CHECK-NEXT:       gemm.yield %0, %1 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %0 = gemm.finalize col (max %partial : tensor<?x8xf32>) -> (tensor<8xf32>) {
// CHECK-NEXT:   ^bb0(%1: f32):
// CHECK-NEXT:     gemm.yield %1 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   %largest = coda.reshape %0 : (tensor<8xf32>) -> tensor<8x1xf32>
// CHECK-NEXT:   func.return %q, %largest : tensor<2x3x8xf8E4M3FN>, tensor<8x1xf32>
// CHECK-NEXT: }

// -----

// A pointwise kernel computes it, on pairs of columns.

func.func @computed(%x: tensor<?x8xbf16> {coda.dims = ["M", 8 : i64]}) -> (tensor<?x8xbf16>, tensor<8x1xbf16>) {
  %y = gemm.map pair<halves, 8> tile(%x : tensor<?x8xbf16>)
    -> (tile : tensor<?x8xbf16>) {
    ^bb0(%a: f32, %b: f32):
      %0 = arith.subf %a, %b : f32
      %1 = arith.addf %a, %b : f32
      gemm.yield %0, %1 : f32, f32
    }
  %t = coda.transpose %y {perm = [1 : i64, 0 : i64]} : (tensor<?x8xbf16>) -> tensor<8x?xbf16>
  %largest = coda.reduce %t {kind = "max"} : (tensor<8x?xbf16>) -> tensor<8x1xbf16>
  func.return %y, %largest : tensor<?x8xbf16>, tensor<8x1xbf16>
}

// CHECK:      func.func @computed(
// CHECK-NEXT:   %y, %partial = gemm.map pair<halves, 8> tile(%x : tensor<?x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x8xbf16>, partial_col<max> : tensor<?x8xf32>) {
// CHECK-NEXT:     ^bb0(%a: f32, %b: f32):
// CHECK-NEXT:       %0 = arith.subf %a, %b : f32
// CHECK-NEXT:       %1 = arith.addf %a, %b : f32
// CHECK-NEXT:       gemm.yield %0, %1, %0, %1 : f32, f32, f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %0 = gemm.finalize col (max %partial : tensor<?x8xf32>) -> (tensor<8xbf16>) {
// CHECK-NEXT:   ^bb0(%1: f32):
// CHECK-NEXT:     gemm.yield %1 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   %largest = coda.reshape %0 : (tensor<8xbf16>) -> tensor<8x1xbf16>
// CHECK-NEXT:   func.return %y, %largest : tensor<?x8xbf16>, tensor<8x1xbf16>
// CHECK-NEXT: }

// -----

// The result of a GEMM is read again.

func.func @product(%x: tensor<?x4xbf16> {coda.dims = ["M", 4 : i64]}, %w: tensor<8x4xbf16>) -> (tensor<?x8xbf16>, tensor<8x1xbf16>) {
  %y = gemm.fused %x : tensor<?x4xbf16>
    columns(%w : tensor<8x4xbf16>)
    -> (tile : tensor<?x8xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %t = coda.transpose %y {perm = [1 : i64, 0 : i64]} : (tensor<?x8xbf16>) -> tensor<8x?xbf16>
  %a = coda.abs %t : (tensor<8x?xbf16>) -> tensor<8x?xbf16>
  %largest = coda.reduce %a {kind = "max"} : (tensor<8x?xbf16>) -> tensor<8x1xbf16>
  func.return %y, %largest : tensor<?x8xbf16>, tensor<8x1xbf16>
}

// CHECK:      func.func @product(
// CHECK-NEXT:   %y = gemm.fused %x : tensor<?x4xbf16>
// CHECK-NEXT:     columns(%w : tensor<8x4xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x8xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %partial = gemm.map tile(%y : tensor<?x8xbf16>)
// CHECK-NEXT:       -> (partial_col<max> : tensor<?x8xf32>) {
// CHECK-NEXT:     ^bb0(%y_1: f32):
// CHECK-NEXT:       %0 = math.absf %y_1 : f32
// CHECK-NEXT:       gemm.yield %0 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %0 = gemm.finalize col (max %partial : tensor<?x8xf32>) -> (tensor<8xbf16>) {
// CHECK-NEXT:   ^bb0(%1: f32):
// CHECK-NEXT:     gemm.yield %1 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   %largest = coda.reshape %0 : (tensor<8xbf16>) -> tensor<8x1xbf16>
// CHECK-NEXT:   func.return %y, %largest : tensor<?x8xbf16>, tensor<8x1xbf16>
// CHECK-NEXT: }

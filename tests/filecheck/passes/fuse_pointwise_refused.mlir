// RUN: coda-opt %s -p fuse-pointwise --split-input-file | filecheck %s
// RUN: coda-opt %s -p fuse-pointwise --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// Other refusals are reported by outline-pointwise, which makes kernels of what is left.
// An operand that depends on the complete result of the same GEMM.

func.func @row_maximum(%x: tensor<?x8xf32>, %w: tensor<16x8xf32>) -> tensor<?x16xf32> {
  %z = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<16x8xf32>)
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %m = coda.reduce %z {kind = "max"} : (tensor<?x16xf32>) -> tensor<?x1xf32>
  %y = coda.sub %z, %m : (tensor<?x16xf32>, tensor<?x1xf32>) -> tensor<?x16xf32>
  func.return %y : tensor<?x16xf32>
}

// CHECK:      func.func @row_maximum(
// CHECK-NEXT:   %z = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<16x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %m = coda.reduce %z {kind = "max"} : (tensor<?x16xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %y = coda.sub %z, %m : (tensor<?x16xf32>, tensor<?x1xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   func.return %y : tensor<?x16xf32>
// CHECK-NEXT: }

// -----

// The tile itself broadcasts.

func.func @larger(%x: tensor<?x8xf32>, %w: tensor<1x8xf32>, %y: tensor<?x16xf32>) -> tensor<?x16xf32> {
  %z = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<1x8xf32>)
      -> (tile : tensor<?x1xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %a = coda.mul %z, %y : (tensor<?x1xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
  func.return %a : tensor<?x16xf32>
}

// CHECK:      func.func @larger(
// CHECK-NEXT:   %z = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<1x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x1xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %a = coda.mul %z, %y : (tensor<?x1xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   func.return %a : tensor<?x16xf32>
// CHECK-NEXT: }

// -----

// No operand comes from a GEMM.

func.func @arguments(%x: tensor<?x8xf32>, %y: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %a = coda.mul %x, %y : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  func.return %a : tensor<?x8xf32>
}

// CHECK:      func.func @arguments(
// CHECK-NEXT:   %a = coda.mul %x, %y : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   func.return %a : tensor<?x8xf32>
// CHECK-NEXT: }

// -----

// Between the GEMM and the operator the tile changes its shape.

func.func @reshaped(%x: tensor<?x8xf32>, %w: tensor<16x8xf32>) -> tensor<?x4xf32> {
  %z = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<16x8xf32>)
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %r = coda.reshape %z : (tensor<?x16xf32>) -> tensor<?x4xf32>
  %a = coda.stored %r : (tensor<?x4xf32>) -> tensor<?x4xf32>
  func.return %a : tensor<?x4xf32>
}

// CHECK:      func.func @reshaped(
// CHECK-NEXT:   %z = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<16x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %r = coda.reshape %z : (tensor<?x16xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   %a = coda.stored %r : (tensor<?x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   func.return %a : tensor<?x4xf32>
// CHECK-NEXT: }

// -----

// What combines two GEMMs of one input is left to pair-glu.

func.func @siblings(%x: tensor<?x8xf32>, %w: tensor<16x8xf32>, %v: tensor<16x8xf32>) -> tensor<?x16xf32> {
  %g = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<16x8xf32>)
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %u = gemm.fused %x : tensor<?x8xf32>
    columns(%v : tensor<16x8xf32>)
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %a = coda.mul %g, %u : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
  func.return %a : tensor<?x16xf32>
}

// CHECK:      func.func @siblings(
// CHECK-NEXT:   %g = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<16x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %u = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%v : tensor<16x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %a = coda.mul %g, %u : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   func.return %a : tensor<?x16xf32>
// CHECK-NEXT: }

// -----

// One value per pair next to two: with one pair its shape broadcasts to the tile's.

func.func @half_and_tile(%x: tensor<?x8xf32>, %w: tensor<2x8xf32>) -> tensor<?x2xf32> {
  %z, %h = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<2x8xf32>) pair<halves>
      -> (tile : tensor<?x2xf32>, half : tensor<?x1xf32>) {
    ^bb0(%a0: f32, %a1: f32):
      %m = arith.mulf %a0, %a1 : f32
      gemm.yield %a0, %a1, %m : f32, f32, f32
    }
  %p = coda.add %z, %h : (tensor<?x2xf32>, tensor<?x1xf32>) -> tensor<?x2xf32>
  func.return %p : tensor<?x2xf32>
}

// CHECK:      func.func @half_and_tile(
// CHECK-NEXT:   %z, %h = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<2x8xf32>) pair<halves>
// CHECK-NEXT:       -> (tile : tensor<?x2xf32>, half : tensor<?x1xf32>) {
// CHECK-NEXT:     ^bb0(%a0: f32, %a1: f32):
// CHECK-NEXT:       %m = arith.mulf %a0, %a1 : f32
// CHECK-NEXT:       gemm.yield %a0, %a1, %m : f32, f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %p = coda.add %z, %h : (tensor<?x2xf32>, tensor<?x1xf32>) -> tensor<?x2xf32>
// CHECK-NEXT:   func.return %p : tensor<?x2xf32>
// CHECK-NEXT: }

// -----

// The selected elements are known when the whole row is.

func.func @selected(%x: tensor<16x8xf32>, %w: tensor<16x8xf32>, %t: tensor<16xi64>) -> tensor<16x16xf32> {
  %z, %s = gemm.fused %x : tensor<16x8xf32>
    columns(%w : tensor<16x8xf32>) col(%t : tensor<16xi64>)
      -> (tile : tensor<16x16xf32>, select<0> : tensor<16xf32>) {
    ^bb0(%a: f32, %i: i64):
      gemm.yield %a, %a : f32, f32
    }
  %p = coda.add %z, %s : (tensor<16x16xf32>, tensor<16xf32>) -> tensor<16x16xf32>
  func.return %p : tensor<16x16xf32>
}

// CHECK:      func.func @selected(
// CHECK-NEXT:   %z, %s = gemm.fused %x : tensor<16x8xf32>
// CHECK-NEXT:     columns(%w : tensor<16x8xf32>) col(%t : tensor<16xi64>)
// CHECK-NEXT:       -> (tile : tensor<16x16xf32>, select<0> : tensor<16xf32>) {
// CHECK-NEXT:     ^bb0(%a: f32, %i: i64):
// CHECK-NEXT:       gemm.yield %a, %a : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %p = coda.add %z, %s : (tensor<16x16xf32>, tensor<16xf32>) -> tensor<16x16xf32>
// CHECK-NEXT:   func.return %p : tensor<16x16xf32>
// CHECK-NEXT: }

// -----

// Regions compute in float32.

func.func @wide(%x: tensor<?x8xf32>, %w: tensor<16x8xf32>) -> tensor<?x16xf64> {
  %z = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<16x8xf32>)
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %i = coda.cast %z : (tensor<?x16xf32>) -> tensor<?x16xf64>
  func.return %i : tensor<?x16xf64>
}

// CHECK:      func.func @wide(
// CHECK-NEXT:   %z = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<16x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %i = coda.cast %z : (tensor<?x16xf32>) -> tensor<?x16xf64>
// CHECK-NEXT:   func.return %i : tensor<?x16xf64>
// CHECK-NEXT: }

// -----

// Two GEMMs of different inputs: the epilogue of one loads what the other stores.

func.func @other_inputs(%x: tensor<?x8xbf16>, %y: tensor<?x4xbf16>, %w: tensor<16x8xbf16>, %v: tensor<16x4xbf16>) -> tensor<?x16xbf16> {
  %g = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>)
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %u = gemm.fused %y : tensor<?x4xbf16>
    columns(%v : tensor<16x4xbf16>)
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %a = coda.mul %g, %u : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %a : tensor<?x16xbf16>
}

// REMARK: remark[missed] fuse-pointwise: coda.mul: %g is stored and loaded again: its GEMM has other inputs; failed condition: the GEMMs whose results are combined have the same inputs; costs 64*d0 + 32*d1 bytes
// CHECK:      func.func @other_inputs(
// CHECK-NEXT:   %g = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<16x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %a = gemm.fused %y : tensor<?x4xbf16>
// CHECK-NEXT:     columns(%v : tensor<16x4xbf16>) tile(%g : tensor<?x16xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %g_1: f32):
// CHECK-NEXT:       %a_1 = arith.mulf %g_1, %acc : f32
// CHECK-NEXT:       gemm.yield %a_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %a : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// Elements of groups beside the columns of other groups are complete when the kernel is.

func.func @other_columns(%x: tensor<?x8xf32>, %w: tensor<16x8xf32>) -> (tensor<?x16xf32>, tensor<?x4xf32>) {
  %q, %s = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<16x8xf32>)
      -> (tile : tensor<?x16xf32>, group<4> : tensor<?x4xf32>) {
    ^bb0(%acc: f32):
      %a = math.absf %acc : f32
      %m = gemm.group_reduce max %a over 4 : f32
      %n = math.roundeven %acc : f32
      gemm.yield %n, %m : f32, f32
    }
  %c = coda.reshape %s : (tensor<?x4xf32>) -> tensor<?x1x4xf32>
  %b = coda.broadcast %c : (tensor<?x1x4xf32>) -> tensor<?x4x4xf32>
  %r = coda.reshape %b : (tensor<?x4x4xf32>) -> tensor<?x16xf32>
  %y = coda.mul %q, %r : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
  func.return %y, %s : tensor<?x16xf32>, tensor<?x4xf32>
}

// CHECK:      func.func @other_columns(
// CHECK-NEXT:   %q, %s = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<16x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>, group<4> : tensor<?x4xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       %a = math.absf %acc : f32
// CHECK-NEXT:       %m = gemm.group_reduce max %a over 4 : f32
// CHECK-NEXT:       %n = math.roundeven %acc : f32
// CHECK-NEXT:       gemm.yield %n, %m : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %c = coda.reshape %s : (tensor<?x4xf32>) -> tensor<?x1x4xf32>
// CHECK-NEXT:   %b = coda.broadcast %c : (tensor<?x1x4xf32>) -> tensor<?x4x4xf32>
// CHECK-NEXT:   %r = coda.reshape %b : (tensor<?x4x4xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %y = coda.mul %q, %r : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   func.return %y, %s : tensor<?x16xf32>, tensor<?x4xf32>
// CHECK-NEXT: }

// -----

// In pairs, an element of a group is that of columns of the half, not of two columns side by side.

func.func @pairs_of_columns(%x: tensor<?x8xf32>, %w: tensor<16x8xf32>) -> (tensor<?x16xf32>, tensor<?x4xf32>) {
  %q, %s = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<16x8xf32>) pair<halves>
      -> (tile : tensor<?x16xf32>, group<4> : tensor<?x4xf32>) {
    ^bb0(%a: f32, %b: f32):
      %p = arith.mulf %a, %b : f32
      %m = gemm.group_reduce max %p over 4 : f32
      gemm.yield %b, %a, %m : f32, f32, f32
    }
  %c = coda.reshape %s : (tensor<?x4xf32>) -> tensor<?x4x1xf32>
  %e = coda.broadcast %c : (tensor<?x4x1xf32>) -> tensor<?x4x4xf32>
  %r = coda.reshape %e : (tensor<?x4x4xf32>) -> tensor<?x16xf32>
  %y = coda.mul %q, %r : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
  func.return %y, %s : tensor<?x16xf32>, tensor<?x4xf32>
}

// CHECK:      func.func @pairs_of_columns(
// CHECK-NEXT:   %q, %s = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<16x8xf32>) pair<halves>
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>, group<4> : tensor<?x4xf32>) {
// CHECK-NEXT:     ^bb0(%a: f32, %b: f32):
// CHECK-NEXT:       %p = arith.mulf %a, %b : f32
// CHECK-NEXT:       %m = gemm.group_reduce max %p over 4 : f32
// CHECK-NEXT:       gemm.yield %b, %a, %m : f32, f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %c = coda.reshape %s : (tensor<?x4xf32>) -> tensor<?x4x1xf32>
// CHECK-NEXT:   %e = coda.broadcast %c : (tensor<?x4x1xf32>) -> tensor<?x4x4xf32>
// CHECK-NEXT:   %r = coda.reshape %e : (tensor<?x4x4xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %y = coda.mul %q, %r : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   func.return %y, %s : tensor<?x16xf32>, tensor<?x4xf32>
// CHECK-NEXT: }

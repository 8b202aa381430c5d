// RUN: coda-opt %s -p fuse-pointwise --split-input-file | filecheck %s

// A residual is a tile port; the operands keep their order.

func.func @residual(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %r: tensor<?x16xbf16>) -> tensor<?x16xbf16> {
  %z = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>)
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %y = coda.sub %r, %z : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %y : tensor<?x16xbf16>
}

// CHECK:      func.func @residual(
// CHECK-NEXT:   %y = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<16x8xbf16>) tile(%r : tensor<?x16xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %r_1: f32):
// CHECK-NEXT:       %y_1 = arith.subf %r_1, %acc : f32
// CHECK-NEXT:       gemm.yield %y_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// Every kind of port: a column, a row, a scalar, a table of a row, a table of several rows.

func.func @ports(%x: tensor<?x?x8xf32>, %w: tensor<16x8xf32>, %c: tensor<?x?x1xf32>, %b: tensor<16xf32>, %s: tensor<1xf32>, %t: tensor<1x16xf32>, %p: tensor<?x16xf32>) -> tensor<?x?x16xf32> {
  %z = gemm.fused %x : tensor<?x?x8xf32>
    columns(%w : tensor<16x8xf32>)
      -> (tile : tensor<?x?x16xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %0 = coda.mul %z, %c : (tensor<?x?x16xf32>, tensor<?x?x1xf32>) -> tensor<?x?x16xf32>
  %1 = coda.add %0, %b : (tensor<?x?x16xf32>, tensor<16xf32>) -> tensor<?x?x16xf32>
  %2 = coda.div %1, %s : (tensor<?x?x16xf32>, tensor<1xf32>) -> tensor<?x?x16xf32>
  %3 = coda.sub %2, %t : (tensor<?x?x16xf32>, tensor<1x16xf32>) -> tensor<?x?x16xf32>
  %4 = coda.mul %p, %3 : (tensor<?x16xf32>, tensor<?x?x16xf32>) -> tensor<?x?x16xf32>
  func.return %4 : tensor<?x?x16xf32>
}

// CHECK:      func.func @ports(
// CHECK-NEXT:   %0 = gemm.fused %x : tensor<?x?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<16x8xf32>) col(%c : tensor<?x?x1xf32>) row(%b : tensor<16xf32>) scalar(%s : tensor<1xf32>) table(%t : tensor<1x16xf32>, %p : tensor<?x16xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x?x16xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %c_1: f32, %b_1: f32, %s_1: f32, %t_1: f32, %p_1: f32):
// CHECK-NEXT:       %1 = arith.mulf %acc, %c_1 : f32
// CHECK-NEXT:       %2 = arith.addf %1, %b_1 : f32
// CHECK-NEXT:       %3 = arith.divf %2, %s_1 : f32
// CHECK-NEXT:       %4 = arith.subf %3, %t_1 : f32
// CHECK-NEXT:       %5 = arith.mulf %p_1, %4 : f32
// CHECK-NEXT:       gemm.yield %5 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %0 : tensor<?x?x16xf32>
// CHECK-NEXT: }

// -----

// An intermediate that something else uses is stored as well.

func.func @stored(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) -> (tensor<?x16xbf16>, tensor<?x16xbf16>) {
  %z = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>)
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %a = coda.relu %z : (tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %b = coda.mul %a, %z : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %b, %z : tensor<?x16xbf16>, tensor<?x16xbf16>
}

// CHECK:      func.func @stored(
// CHECK-NEXT:   %z, %b = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<16x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>, tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       %0 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:       %a = arith.maximumf %acc, %0 : f32
// CHECK-NEXT:       %b_1 = arith.mulf %a, %acc : f32
// CHECK-NEXT:       gemm.yield %acc, %b_1 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %b, %z : tensor<?x16xbf16>, tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// One tensor is one port, however often it is read; one value may be both operands.

func.func @same_operand(%x: tensor<?x16xbf16>, %w: tensor<16x16xbf16>) -> tensor<?x16xbf16> {
  %z = gemm.fused %x : tensor<?x16xbf16>
    columns(%w : tensor<16x16xbf16>)
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %a = coda.mul %z, %z : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %b = coda.add %a, %x : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %c = coda.mul %x, %b : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %c : tensor<?x16xbf16>
}

// CHECK:      func.func @same_operand(
// CHECK-NEXT:   %c = gemm.fused %x : tensor<?x16xbf16>
// CHECK-NEXT:     columns(%w : tensor<16x16xbf16>) tile(%x : tensor<?x16xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %x_1: f32):
// CHECK-NEXT:       %a = arith.mulf %acc, %acc : f32
// CHECK-NEXT:       %b = arith.addf %a, %x_1 : f32
// CHECK-NEXT:       %c_1 = arith.mulf %x_1, %b : f32
// CHECK-NEXT:       gemm.yield %c_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %c : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// Casts are free: the epilogue computes in float32 and rounds where it stores. A cast that widens
// an operand is not run by itself: the narrow operand is the port.

func.func @casts(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %g: tensor<16xbf16>, %r: tensor<?x16xbf16>) -> tensor<?x16xbf16> {
  %z = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>)
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %gf = coda.cast %g : (tensor<16xbf16>) -> tensor<16xf32>
  %a = coda.mul %z, %gf : (tensor<?x16xf32>, tensor<16xf32>) -> tensor<?x16xf32>
  %rf = coda.cast %r : (tensor<?x16xbf16>) -> tensor<?x16xf32>
  %b = coda.add %a, %rf : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
  %y = coda.cast %b : (tensor<?x16xf32>) -> tensor<?x16xbf16>
  func.return %y : tensor<?x16xbf16>
}

// CHECK:      func.func @casts(
// CHECK-NEXT:   %y = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<16x8xbf16>) row(%g : tensor<16xbf16>) tile(%r : tensor<?x16xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %g_1: f32, %r_1: f32):
// CHECK-NEXT:       %a = arith.mulf %acc, %g_1 : f32
// CHECK-NEXT:       %b = arith.addf %a, %r_1 : f32
// CHECK-NEXT:       gemm.yield %b : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %gf = coda.cast %g : (tensor<16xbf16>) -> tensor<16xf32>
// CHECK-NEXT:   %rf = coda.cast %r : (tensor<?x16xbf16>) -> tensor<?x16xf32>
// CHECK-NEXT:   func.return %y : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// What does not vary by row is computed again in the epilogue instead of by a kernel; constants are
// scalar code.

func.func @row_code(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %g: tensor<16xbf16>) -> tensor<?x16xbf16> {
  %one = coda.constant {value = 1.000000e+00 : f64} : tensor<bf16>
  %g1 = coda.add %one, %g : (tensor<bf16>, tensor<16xbf16>) -> tensor<16xbf16>
  %z = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>)
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %y = coda.mul %z, %g1 : (tensor<?x16xbf16>, tensor<16xbf16>) -> tensor<?x16xbf16>
  func.return %y : tensor<?x16xbf16>
}

// CHECK:      func.func @row_code(
// CHECK-NEXT:   %one = coda.constant {value = 1.000000e+00 : f64} : tensor<bf16>
// CHECK-NEXT:   %g1 = coda.add %one, %g : (tensor<bf16>, tensor<16xbf16>) -> tensor<16xbf16>
// CHECK-NEXT:   %y = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<16x8xbf16>) row(%g : tensor<16xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %g_1: f32):
// CHECK-NEXT:       %0 = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:       %g1_1 = arith.addf %0, %g_1 : f32
// CHECK-NEXT:       %y_1 = arith.mulf %acc, %g1_1 : f32
// CHECK-NEXT:       gemm.yield %y_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// So is the outer product of a column and a row, which would fill a tile.

func.func @outer_product(%x: tensor<?x8xf32>, %w: tensor<16x8xf32>, %c: tensor<?x1xf32>, %r: tensor<16xf32>) -> tensor<?x16xf32> {
  %z = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<16x8xf32>)
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %o = coda.mul %c, %r : (tensor<?x1xf32>, tensor<16xf32>) -> tensor<?x16xf32>
  %y = coda.sub %z, %o : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
  func.return %y : tensor<?x16xf32>
}

// CHECK:      func.func @outer_product(
// CHECK-NEXT:   %y = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<16x8xf32>) col(%c : tensor<?x1xf32>) row(%r : tensor<16xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %c_1: f32, %r_1: f32):
// CHECK-NEXT:       %o = arith.mulf %c_1, %r_1 : f32
// CHECK-NEXT:       %y_1 = arith.subf %acc, %o : f32
// CHECK-NEXT:       gemm.yield %y_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %o = coda.mul %c, %r : (tensor<?x1xf32>, tensor<16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   func.return %y : tensor<?x16xf32>
// CHECK-NEXT: }

// -----

// Of two GEMMs the later one takes the operator, and reads the tile of the earlier one.

func.func @two_gemms(%x: tensor<?x8xbf16>, %y: tensor<?x4xbf16>, %w: tensor<16x8xbf16>, %v: tensor<16x4xbf16>) -> tensor<?x16xbf16> {
  %a = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>)
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %b = gemm.fused %y : tensor<?x4xbf16>
    columns(%v : tensor<16x4xbf16>)
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %c = coda.sub %a, %b : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %c : tensor<?x16xbf16>
}

// CHECK:      func.func @two_gemms(
// CHECK-NEXT:   %a = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<16x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %c = gemm.fused %y : tensor<?x4xbf16>
// CHECK-NEXT:     columns(%v : tensor<16x4xbf16>) tile(%a : tensor<?x16xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %a_1: f32):
// CHECK-NEXT:       %c_1 = arith.subf %a_1, %acc : f32
// CHECK-NEXT:       gemm.yield %c_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %c : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// An operand that is computed after the GEMM, but does not depend on it, is hoisted.

func.func @hoisted(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %i: tensor<?xi64>, %e: tensor<50x16xbf16>) -> tensor<?x16xbf16> {
  %z = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>)
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %r = coda.embedding %i, %e : (tensor<?xi64>, tensor<50x16xbf16>) -> tensor<?x16xbf16>
  %y = coda.add %z, %r : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %y : tensor<?x16xbf16>
}

// CHECK:      func.func @hoisted(
// CHECK-NEXT:   %r = coda.embedding %i, %e : (tensor<?xi64>, tensor<50x16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %y = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<16x8xbf16>) tile(%r : tensor<?x16xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %r_1: f32):
// CHECK-NEXT:       %y_1 = arith.addf %acc, %r_1 : f32
// CHECK-NEXT:       gemm.yield %y_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// In pair mode an operator is done for both columns of a pair, on one value per pair once; a port
// gives two elements, or is indexed by pair.

func.func @pairs(%x: tensor<?x8xf32>, %w: tensor<16x8xf32>, %b: tensor<16xf32>, %d: tensor<8xf32>, %c: tensor<?x1xf32>) -> (tensor<?x16xf32>, tensor<?x8xf32>) {
  %z, %h = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<16x8xf32>) pair<halves>
      -> (tile : tensor<?x16xf32>, half : tensor<?x8xf32>) {
    ^bb0(%a0: f32, %a1: f32):
      %m = arith.mulf %a0, %a1 : f32
      gemm.yield %a0, %a1, %m : f32, f32, f32
    }
  %p = coda.mul %z, %b : (tensor<?x16xf32>, tensor<16xf32>) -> tensor<?x16xf32>
  %q = coda.sub %h, %d : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  %r = coda.mul %q, %c : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  func.return %p, %r : tensor<?x16xf32>, tensor<?x8xf32>
}

// CHECK:      func.func @pairs(
// CHECK-NEXT:   %p, %r = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<16x8xf32>) pair<halves> row(%b : tensor<16xf32>) half_row(%d : tensor<8xf32>) col(%c : tensor<?x1xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>, half : tensor<?x8xf32>) {
// CHECK-NEXT:     ^bb0(%a0: f32, %a1: f32, %b_1: f32, %b_2: f32, %d_1: f32, %c_1: f32):
// CHECK-NEXT:       %m = arith.mulf %a0, %a1 : f32
// CHECK-NEXT:       %p_1 = arith.mulf %a0, %b_1 : f32
// CHECK-NEXT:       %p_2 = arith.mulf %a1, %b_2 : f32
// CHECK-NEXT:       %q = arith.subf %m, %d_1 : f32
// CHECK-NEXT:       %r_1 = arith.mulf %q, %c_1 : f32
// CHECK-NEXT:       gemm.yield %p_1, %p_2, %r_1 : f32, f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %p, %r : tensor<?x16xf32>, tensor<?x8xf32>
// CHECK-NEXT: }

// -----

// The tile of a pointwise kernel takes operators as well.

func.func @map(%x: tensor<?x8xf32>, %b: tensor<8xf32>) -> tensor<?x8xf32> {
  %y = gemm.map tile(%x : tensor<?x8xf32>)
      -> (tile : tensor<?x8xf32>) {
    ^bb0(%a: f32):
      %e = math.exp %a : f32
      gemm.yield %e : f32
    }
  %z = coda.add %y, %b : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  func.return %z : tensor<?x8xf32>
}

// CHECK:      func.func @map(
// CHECK-NEXT:   %z = gemm.map tile(%x : tensor<?x8xf32>) row(%b : tensor<8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x8xf32>) {
// CHECK-NEXT:     ^bb0(%a: f32, %b_1: f32):
// CHECK-NEXT:       %e = math.exp %a : f32
// CHECK-NEXT:       %z_1 = arith.addf %e, %b_1 : f32
// CHECK-NEXT:       gemm.yield %z_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %z : tensor<?x8xf32>
// CHECK-NEXT: }

// -----

// A tile that rows and columns scale and shift is not loaded: the tile before is, and scaled again.

func.func @scaled(%a: tensor<?x4xbf16>, %w: tensor<8x4xbf16>, %x: tensor<?x8xbf16>, %r: tensor<?x1xf32>, %g: tensor<8xf32>) -> tensor<?x8xbf16> {
  %z = gemm.fused %a : tensor<?x4xbf16>
      columns(%w : tensor<8x4xbf16>)
      -> (tile : tensor<?x8xbf16>) {
      ^bb0(%acc: f32):
        gemm.yield %acc : f32
      }
  %wide = coda.cast %x : (tensor<?x8xbf16>) -> tensor<?x8xf32>
  %s = coda.mul %wide, %r : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  %t = coda.mul %g, %s : (tensor<8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %h = coda.cast %t : (tensor<?x8xf32>) -> tensor<?x8xbf16>
  %y = coda.add %z, %h : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  func.return %y : tensor<?x8xbf16>
}

// CHECK:      func.func @scaled(%a: tensor<?x4xbf16>, %w: tensor<8x4xbf16>, %x: tensor<?x8xbf16>, %r: tensor<?x1xf32>, %g: tensor<8xf32>) -> tensor<?x8xbf16> {
// CHECK-NEXT:   %y = gemm.fused %a : tensor<?x4xbf16>
// CHECK-NEXT:     columns(%w : tensor<8x4xbf16>) tile(%x : tensor<?x8xbf16>) col(%r : tensor<?x1xf32>) row(%g : tensor<8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x8xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %x_1: f32, %r_1: f32, %g_1: f32):
// CHECK-NEXT:       %s = arith.mulf %x_1, %r_1 : f32
// CHECK-NEXT:       %t = arith.mulf %g_1, %s : f32
// CHECK-NEXT:       %y_1 = arith.addf %acc, %t : f32
// CHECK-NEXT:       gemm.yield %y_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %wide = coda.cast %x : (tensor<?x8xbf16>) -> tensor<?x8xf32>
// CHECK-NEXT:   %s = coda.mul %wide, %r : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %t = coda.mul %g, %s : (tensor<8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %h = coda.cast %t : (tensor<?x8xf32>) -> tensor<?x8xbf16>
// CHECK-NEXT:   func.return %y : tensor<?x8xbf16>
// CHECK-NEXT: }

// -----

// What only makes another operand comes along, and what else reads it follows later on; a chain of
// such operators in order.

func.func @operands(%a: tensor<?x4xbf16>, %w: tensor<8x4xbf16>, %x: tensor<?x8xbf16>, %u: tensor<?x8xbf16>) -> (tensor<?x8xbf16>, tensor<?x8xbf16>) {
  %e = coda.exp %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %s = coda.silu %e : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %p = coda.softmax %s : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %zg = gemm.fused %a : tensor<?x4xbf16>
    columns(%w : tensor<8x4xbf16>)
    -> (tile : tensor<?x8xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %y = coda.mul %zg, %s : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  func.return %y, %p : tensor<?x8xbf16>, tensor<?x8xbf16>
}

// CHECK:      func.func @operands(
// CHECK-NEXT:   %s, %y = gemm.fused %a : tensor<?x4xbf16>
// CHECK-NEXT:     columns(%w : tensor<8x4xbf16>) tile(%x : tensor<?x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x8xbf16>, tile : tensor<?x8xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %x_1: f32):
// CHECK-NEXT:       %e = math.exp %x_1 : f32
// CHECK-NEXT:       %0 = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:       %1 = arith.negf %e : f32
// CHECK-NEXT:       %2 = math.exp %1 : f32
// CHECK-NEXT:       %3 = arith.addf %0, %2 : f32
// CHECK-NEXT:       %s_1 = arith.divf %e, %3 : f32
// CHECK-NEXT:       %y_1 = arith.mulf %acc, %s_1 : f32
// CHECK-NEXT:       gemm.yield %s_1, %y_1 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %p = coda.softmax %s : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   func.return %y, %p : tensor<?x8xbf16>, tensor<?x8xbf16>
// CHECK-NEXT: }

// -----

// A gate, a scale and a shift of each sample: tables, each row of which serves all rows of a sample.
// What is computed from them alone is computed by element, too.

func.func @adaptive(%x: tensor<?x?x8xf32>, %w: tensor<16x8xf32>, %res: tensor<?x?x16xf32>, %gate: tensor<?x1x16xf32>, %weight: tensor<?x1x1xf32>) -> tensor<?x?x16xf32> {
  %z = gemm.fused %x : tensor<?x?x8xf32>
    columns(%w : tensor<16x8xf32>)
      -> (tile : tensor<?x?x16xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %one = coda.constant {value = 1.0 : f64} : tensor<f32>
  %a = coda.add %gate, %one : (tensor<?x1x16xf32>, tensor<f32>) -> tensor<?x1x16xf32>
  %b = coda.mul %z, %a : (tensor<?x?x16xf32>, tensor<?x1x16xf32>) -> tensor<?x?x16xf32>
  %c = coda.mul %b, %weight : (tensor<?x?x16xf32>, tensor<?x1x1xf32>) -> tensor<?x?x16xf32>
  %y = coda.add %res, %c : (tensor<?x?x16xf32>, tensor<?x?x16xf32>) -> tensor<?x?x16xf32>
  func.return %y : tensor<?x?x16xf32>
}

// CHECK:      func.func @adaptive(
// CHECK-NEXT:   %y = gemm.fused %x : tensor<?x?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<16x8xf32>) table(%gate : tensor<?x1x16xf32>, %weight : tensor<?x1x1xf32>) tile(%res : tensor<?x?x16xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x?x16xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %gate_1: f32, %weight_1: f32, %res_1: f32):
// CHECK-NEXT:       %0 = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:       %a = arith.addf %gate_1, %0 : f32
// CHECK-NEXT:       %b = arith.mulf %acc, %a : f32
// CHECK-NEXT:       %c = arith.mulf %b, %weight_1 : f32
// CHECK-NEXT:       %y_1 = arith.addf %res_1, %c : f32
// CHECK-NEXT:       gemm.yield %y_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %one = coda.constant {value = 1.000000e+00 : f64} : tensor<f32>
// CHECK-NEXT:   %a = coda.add %gate, %one : (tensor<?x1x16xf32>, tensor<f32>) -> tensor<?x1x16xf32>
// CHECK-NEXT:   func.return %y : tensor<?x?x16xf32>
// CHECK-NEXT: }

// -----

// Integers of 8 bits are computed with in 32, of which the lowest bits are kept; a cast to float8 rounds.

func.func @narrow(%x: tensor<?x8xf32>, %w: tensor<16x8xf32>, %a: tensor<?x16xi8>, %b: tensor<?x16xui8>) -> (tensor<?x16xi8>, tensor<?x16xui8>, tensor<?x16xf32>) {
  %z = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<16x8xf32>)
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %i = coda.cast %z : (tensor<?x16xf32>) -> tensor<?x16xi8>
  %p = coda.mul %i, %a : (tensor<?x16xi8>, tensor<?x16xi8>) -> tensor<?x16xi8>
  %u = coda.cast %z : (tensor<?x16xf32>) -> tensor<?x16xui8>
  %q = coda.sub %u, %b : (tensor<?x16xui8>, tensor<?x16xui8>) -> tensor<?x16xui8>
  %f = coda.cast %z : (tensor<?x16xf32>) -> tensor<?x16xf8E4M3FN>
  %y = coda.cast %f : (tensor<?x16xf8E4M3FN>) -> tensor<?x16xf32>
  func.return %p, %q, %y : tensor<?x16xi8>, tensor<?x16xui8>, tensor<?x16xf32>
}

// CHECK:      func.func @narrow(
// CHECK-NEXT:   %p, %q, %y = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<16x8xf32>) tile(%a : tensor<?x16xi8>, %b : tensor<?x16xui8>)
// CHECK-NEXT:       -> (tile : tensor<?x16xi8>, tile : tensor<?x16xui8>, tile : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %a_1: i32, %b_1: i32):
// CHECK-NEXT:       %0 = arith.fptosi %acc : f32 to i32
// CHECK-NEXT:       %1 = arith.trunci %0 : i32 to i8
// CHECK-NEXT:       %i = arith.extsi %1 : i8 to i32
// CHECK-NEXT:       %2 = arith.muli %i, %a_1 : i32
// CHECK-NEXT:       %3 = arith.trunci %2 : i32 to i8
// CHECK-NEXT:       %p_1 = arith.extsi %3 : i8 to i32
// CHECK-NEXT:       %4 = arith.fptosi %acc : f32 to i32
// CHECK-NEXT:       %5 = arith.constant 255 : i32
// CHECK-NEXT:       %u = arith.andi %4, %5 : i32
// CHECK-NEXT:       %6 = arith.subi %u, %b_1 : i32
// CHECK-NEXT:       %7 = arith.constant 255 : i32
// CHECK-NEXT:       %q_1 = arith.andi %6, %7 : i32
// CHECK-NEXT:       %8 = arith.truncf %acc : f32 to f8E4M3FN
// CHECK-NEXT:       %f = arith.extf %8 : f8E4M3FN to f32
// CHECK-NEXT:       gemm.yield %p_1, %q_1, %f : i32, i32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %p, %q, %y : tensor<?x16xi8>, tensor<?x16xui8>, tensor<?x16xf32>
// CHECK-NEXT: }

// -----

// A sum of rows that are apart in memory, which a GEMM would copy, stays before it.

func.func @rows_apart(%x: tensor<?x16xf32>, %w: tensor<8x16xf32>, %experts: tensor<?x2x8xf32>) -> tensor<?x8xf32> {
  %z = gemm.fused %x : tensor<?x16xf32>
    columns(%w : tensor<8x16xf32>)
      -> (tile : tensor<?x8xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %first = coda.slice %experts {dim = 1 : i64, start = 0 : i64, stop = 1 : i64} : (tensor<?x2x8xf32>) -> tensor<?x1x8xf32>
  %second = coda.slice %experts {dim = 1 : i64, start = 1 : i64, stop = 2 : i64} : (tensor<?x2x8xf32>) -> tensor<?x1x8xf32>
  %a = coda.reshape %first : (tensor<?x1x8xf32>) -> tensor<?x8xf32>
  %b = coda.reshape %second : (tensor<?x1x8xf32>) -> tensor<?x8xf32>
  %sum = coda.add %a, %b : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %y = coda.add %sum, %z : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  func.return %y : tensor<?x8xf32>
}

// CHECK:      func.func @rows_apart(
// CHECK:        %sum = coda.add %a, %b
// CHECK-NEXT:   %y = gemm.fused %x : tensor<?x16xf32>
// CHECK-NEXT:     columns(%w : tensor<8x16xf32>) tile(%sum : tensor<?x8xf32>)

// -----

// A tile from which another operand is computed stays before the GEMM, whose epilogue loads both.

func.func @needed_before(%x: tensor<?x16xf32>, %w: tensor<8x16xf32>, %u: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %z = gemm.fused %x : tensor<?x16xf32>
    columns(%w : tensor<8x16xf32>)
      -> (tile : tensor<?x8xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %r = coda.relu %u : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %s = coda.softmax %r : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %sum = coda.add %s, %r : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %y = coda.mul %sum, %z : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  func.return %y : tensor<?x8xf32>
}

// CHECK:      func.func @needed_before(
// CHECK-NEXT:   %r = coda.relu %u
// CHECK-NEXT:   %s = coda.softmax %r
// CHECK-NEXT:   %y = gemm.fused %x : tensor<?x16xf32>
// CHECK-NEXT:     columns(%w : tensor<8x16xf32>) tile(%s : tensor<?x8xf32>, %r : tensor<?x8xf32>)

// -----

// Epilogues divide a stored tensor again instead of loading the quotient as well; not one of which it
// is the divisor.

func.func @quotients(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %r: tensor<?x16xbf16>, %c: tensor<?x1xbf16>) -> (tensor<?x16xbf16>, tensor<?x16xbf16>) {
  %z = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>)
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %q = coda.div %r, %c : (tensor<?x16xbf16>, tensor<?x1xbf16>) -> tensor<?x16xbf16>
  %y = coda.add %z, %q : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %u = gemm.fused %y : tensor<?x16xbf16>
    columns(%w : tensor<16x8xbf16>) kn
      -> (tile : tensor<?x8xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %v = gemm.fused %u : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>)
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %i = coda.div %c, %y : (tensor<?x1xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %p = coda.add %v, %q : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %o = coda.mul %p, %i : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %o, %i : tensor<?x16xbf16>, tensor<?x16xbf16>
}

// CHECK:      func.func @quotients(
// CHECK-NEXT:   %y, %i = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<16x8xbf16>) tile(%r : tensor<?x16xbf16>) col(%c : tensor<?x1xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>, tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %r_1: f32, %c_1: f32):
// CHECK-NEXT:       %q = arith.divf %r_1, %c_1 : f32
// CHECK-NEXT:       %y_1 = arith.addf %acc, %q : f32
// CHECK-NEXT:       %i_1 = arith.divf %c_1, %y_1 : f32
// CHECK-NEXT:       gemm.yield %y_1, %i_1 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %q = coda.div %r, %c : (tensor<?x16xbf16>, tensor<?x1xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %u = gemm.fused %y : tensor<?x16xbf16>
// CHECK-NEXT:     columns(%w : tensor<16x8xbf16>) kn
// CHECK-NEXT:       -> (tile : tensor<?x8xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %o = gemm.fused %u : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<16x8xbf16>) tile(%r : tensor<?x16xbf16>) col(%c : tensor<?x1xbf16>) tile(%i : tensor<?x16xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %r_1: f32, %c_1: f32, %i_1: f32):
// CHECK-NEXT:       %q_1 = arith.divf %r_1, %c_1 : f32
// CHECK-NEXT:       %p = arith.addf %acc, %q_1 : f32
// CHECK-NEXT:       %o_1 = arith.mulf %p, %i_1 : f32
// CHECK-NEXT:       gemm.yield %o_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %o, %i : tensor<?x16xbf16>, tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// A table broadcasts along a dimension between two of its own.

func.func @middle(%x: tensor<?x4x5x8xf32>, %w: tensor<16x8xf32>, %m: tensor<?x1x5x16xf32>) -> tensor<?x4x5x16xf32> {
  %z = gemm.fused %x : tensor<?x4x5x8xf32>
    columns(%w : tensor<16x8xf32>)
      -> (tile : tensor<?x4x5x16xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %y = coda.sub %z, %m : (tensor<?x4x5x16xf32>, tensor<?x1x5x16xf32>) -> tensor<?x4x5x16xf32>
  func.return %y : tensor<?x4x5x16xf32>
}

// CHECK:      func.func @middle(
// CHECK-NEXT:   %y = gemm.fused %x : tensor<?x4x5x8xf32>
// CHECK-NEXT:     columns(%w : tensor<16x8xf32>) table(%m : tensor<?x1x5x16xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x4x5x16xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %m_1: f32):
// CHECK-NEXT:       %y_1 = arith.subf %acc, %m_1 : f32
// CHECK-NEXT:       gemm.yield %y_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y : tensor<?x4x5x16xf32>
// CHECK-NEXT: }

// -----

// A result with one element for each group of columns is at hand for these columns.

func.func @scaled_groups(%x: tensor<?x8xf32>, %w: tensor<16x8xf32>) -> (tensor<?x16xf32>, tensor<?x4xf32>) {
  %q, %s = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<16x8xf32>)
      -> (tile : tensor<?x16xf32>, group<4> : tensor<?x4xf32>) {
    ^bb0(%acc: f32):
      %a = math.absf %acc : f32
      %m = gemm.group_reduce max %a over 4 : f32
      %n = math.roundeven %acc : f32
      gemm.yield %n, %m : f32, f32
    }
  %c = coda.reshape %s : (tensor<?x4xf32>) -> tensor<?x4x1xf32>
  %b = coda.broadcast %c : (tensor<?x4x1xf32>) -> tensor<?x4x4xf32>
  %r = coda.reshape %b : (tensor<?x4x4xf32>) -> tensor<?x16xf32>
  %y = coda.mul %q, %r : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
  func.return %y, %s : tensor<?x16xf32>, tensor<?x4xf32>
}

// CHECK:      func.func @scaled_groups(
// CHECK-NEXT:   %s, %y = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<16x8xf32>)
// CHECK-NEXT:       -> (group<4> : tensor<?x4xf32>, tile : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       %a = math.absf %acc : f32
// CHECK-NEXT:       %m = gemm.group_reduce max %a over 4 : f32
// CHECK-NEXT:       %n = math.roundeven %acc : f32
// CHECK-NEXT:       %y_1 = arith.mulf %n, %m : f32
// CHECK-NEXT:       gemm.yield %m, %y_1 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %c = coda.reshape %s : (tensor<?x4xf32>) -> tensor<?x4x1xf32>
// CHECK-NEXT:   %b = coda.broadcast %c : (tensor<?x4x1xf32>) -> tensor<?x4x4xf32>
// CHECK-NEXT:   %r = coda.reshape %b : (tensor<?x4x4xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   func.return %y, %s : tensor<?x16xf32>, tensor<?x4xf32>
// CHECK-NEXT: }

// RUN: coda-opt %s -p pair-glu --split-input-file | filecheck %s

// Two GEMMs of one input: each gives one half of the columns, its code and its ports are indexed by
// pair. The operands keep their order whichever GEMM comes first.

func.func @gate_first(%x: tensor<?x8xbf16>, %wg: tensor<16x8xbf16>, %wu: tensor<16x8xbf16>, %b: tensor<16xbf16>, %r: tensor<?x1xf32>) -> tensor<?x16xbf16> {
  %s = gemm.fused %x : tensor<?x8xbf16>
    columns(%wg : tensor<16x8xbf16>) col(%r : tensor<?x1xf32>)
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32, %r_1: f32):
      %gr = arith.mulf %acc, %r_1 : f32
      %0 = arith.constant 0.000000e+00 : f32
      %s_1 = arith.maximumf %gr, %0 : f32
      gemm.yield %s_1 : f32
    }
  %u = gemm.fused %x : tensor<?x8xbf16>
    columns(%wu : tensor<16x8xbf16>) row(%b : tensor<16xbf16>)
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32, %b_1: f32):
      %0 = arith.addf %acc, %b_1 : f32
      gemm.yield %0 : f32
    }
  %a = coda.sub %s, %u : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %a : tensor<?x16xbf16>
}

// CHECK:      func.func @gate_first(
// CHECK-NEXT:   %a = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%wg : tensor<16x8xbf16>, %wu : tensor<16x8xbf16>) pair<halves> col(%r : tensor<?x1xf32>) half_row(%b : tensor<16xbf16>)
// CHECK-NEXT:       -> (half : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %acc_1: f32, %r_1: f32, %b_1: f32):
// CHECK-NEXT:       %gr = arith.mulf %acc, %r_1 : f32
// CHECK-NEXT:       %0 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:       %s = arith.maximumf %gr, %0 : f32
// CHECK-NEXT:       %1 = arith.addf %acc_1, %b_1 : f32
// CHECK-NEXT:       %a_1 = arith.subf %s, %1 : f32
// CHECK-NEXT:       gemm.yield %a_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %a : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// K x N weights; the second half is the first operand.

func.func @up_first(%x: tensor<?x8xf32>, %wg: tensor<8x16xf32>, %wu: tensor<8x16xf32>) -> tensor<?x16xf32> {
  %u = gemm.fused %x : tensor<?x8xf32>
    columns(%wu : tensor<8x16xf32>) kn
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %g = gemm.fused %x : tensor<?x8xf32>
    columns(%wg : tensor<8x16xf32>) kn
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %a = coda.sub %g, %u : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
  func.return %a : tensor<?x16xf32>
}

// CHECK:      func.func @up_first(
// CHECK-NEXT:   %a = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%wu : tensor<8x16xf32>, %wg : tensor<8x16xf32>) kn pair<halves>
// CHECK-NEXT:       -> (half : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %acc_1: f32):
// CHECK-NEXT:       %a_1 = arith.subf %acc_1, %acc : f32
// CHECK-NEXT:       gemm.yield %a_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %a : tensor<?x16xf32>
// CHECK-NEXT: }

// -----

// A gate that something else uses is stored as well, with one value per pair.

func.func @gate_stored(%x: tensor<?x8xf32>, %wg: tensor<16x8xf32>, %wu: tensor<16x8xf32>) -> (tensor<?x16xf32>, tensor<?x16xf32>) {
  %g = gemm.fused %x : tensor<?x8xf32>
    columns(%wg : tensor<16x8xf32>)
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %u = gemm.fused %x : tensor<?x8xf32>
    columns(%wu : tensor<16x8xf32>)
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %a = coda.mul %g, %u : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
  func.return %a, %g : tensor<?x16xf32>, tensor<?x16xf32>
}

// CHECK:      func.func @gate_stored(
// CHECK-NEXT:   %g, %a = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%wg : tensor<16x8xf32>, %wu : tensor<16x8xf32>) pair<halves>
// CHECK-NEXT:       -> (half : tensor<?x16xf32>, half : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %acc_1: f32):
// CHECK-NEXT:       %a_1 = arith.mulf %acc, %acc_1 : f32
// CHECK-NEXT:       gemm.yield %acc, %a_1 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %a, %g : tensor<?x16xf32>, tensor<?x16xf32>
// CHECK-NEXT: }

// -----

// What the second GEMM reads is made available before the first one.

func.func @hoisted(%x: tensor<?x8xf32>, %wg: tensor<16x8xf32>, %wu: tensor<16x8xf32>, %i: tensor<?xi64>, %e: tensor<50x16xf32>) -> tensor<?x16xf32> {
  %g = gemm.fused %x : tensor<?x8xf32>
    columns(%wg : tensor<16x8xf32>)
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %r = coda.embedding %i, %e : (tensor<?xi64>, tensor<50x16xf32>) -> tensor<?x16xf32>
  %ur = gemm.fused %x : tensor<?x8xf32>
    columns(%wu : tensor<16x8xf32>) tile(%r : tensor<?x16xf32>)
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%acc: f32, %r_1: f32):
      %ur_1 = arith.addf %acc, %r_1 : f32
      gemm.yield %ur_1 : f32
    }
  %a = coda.mul %g, %ur : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
  func.return %a : tensor<?x16xf32>
}

// CHECK:      func.func @hoisted(
// CHECK-NEXT:   %r = coda.embedding %i, %e : (tensor<?xi64>, tensor<50x16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %a = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%wg : tensor<16x8xf32>, %wu : tensor<16x8xf32>) pair<halves> half_tile(%r : tensor<?x16xf32>)
// CHECK-NEXT:       -> (half : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %acc_1: f32, %r_1: f32):
// CHECK-NEXT:       %ur = arith.addf %acc_1, %r_1 : f32
// CHECK-NEXT:       %a_1 = arith.mulf %acc, %ur : f32
// CHECK-NEXT:       gemm.yield %a_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %a : tensor<?x16xf32>
// CHECK-NEXT: }

// -----

// A packed gate and up projection: the columns j and j + N/2 of one weight. Ports of the code before
// the gate give an element to each column.

func.func @packed(%x: tensor<?x8xf32>, %w: tensor<16x8xf32>, %b: tensor<16xf32>, %c: tensor<?x1xf32>) -> tensor<?x8xf32> {
  %zc = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<16x8xf32>) row(%b : tensor<16xf32>) col(%c : tensor<?x1xf32>)
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%acc: f32, %b_1: f32, %c_1: f32):
      %0 = arith.addf %acc, %b_1 : f32
      %zc_1 = arith.mulf %0, %c_1 : f32
      gemm.yield %zc_1 : f32
    }
  %a = coda.glu %zc {activation = "relu"} : (tensor<?x16xf32>) -> tensor<?x8xf32>
  func.return %a : tensor<?x8xf32>
}

// CHECK:      func.func @packed(
// CHECK-NEXT:   %a = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<16x8xf32>) pair<halves> row(%b : tensor<16xf32>) col(%c : tensor<?x1xf32>)
// CHECK-NEXT:       -> (half : tensor<?x8xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %acc_1: f32, %b_1: f32, %b_2: f32, %c_1: f32):
// CHECK-NEXT:       %0 = arith.addf %acc, %b_1 : f32
// CHECK-NEXT:       %1 = arith.addf %acc_1, %b_2 : f32
// CHECK-NEXT:       %zc = arith.mulf %0, %c_1 : f32
// CHECK-NEXT:       %zc_1 = arith.mulf %1, %c_1 : f32
// CHECK-NEXT:       %2 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:       %3 = arith.maximumf %zc, %2 : f32
// CHECK-NEXT:       %4 = arith.mulf %3, %zc_1 : f32
// CHECK-NEXT:       gemm.yield %4 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %a : tensor<?x8xf32>
// CHECK-NEXT: }

// -----

// A packed projection that something else uses is stored; its partials combine the pair first.

func.func @packed_stored(%x: tensor<?x8xf32>, %w: tensor<16x8xf32>) -> (tensor<?x8xf32>, tensor<?x16xf32>, tensor<?x?xf32>, tensor<?x?xf32>) {
  %z, %p, %q = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<16x8xf32>)
      -> (tile : tensor<?x16xf32>, partial_row<add> : tensor<?x?xf32>, partial_row<max> : tensor<?x?xf32>) {
    ^bb0(%acc: f32):
      %s = arith.mulf %acc, %acc : f32
      gemm.yield %acc, %s, %acc : f32, f32, f32
    }
  %a = coda.glu %z {activation = "identity"} : (tensor<?x16xf32>) -> tensor<?x8xf32>
  func.return %a, %z, %p, %q : tensor<?x8xf32>, tensor<?x16xf32>, tensor<?x?xf32>, tensor<?x?xf32>
}

// CHECK:      func.func @packed_stored(
// CHECK-NEXT:   %z, %p, %q, %a = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<16x8xf32>) pair<halves>
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>, partial_row<add> : tensor<?x?xf32>, partial_row<max> : tensor<?x?xf32>, half : tensor<?x8xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %acc_1: f32):
// CHECK-NEXT:       %s = arith.mulf %acc, %acc : f32
// CHECK-NEXT:       %s_1 = arith.mulf %acc_1, %acc_1 : f32
// CHECK-NEXT:       %0 = arith.addf %s, %s_1 : f32
// CHECK-NEXT:       %1 = arith.maximumf %acc, %acc_1 : f32
// CHECK-NEXT:       %2 = arith.mulf %acc, %acc_1 : f32
// CHECK-NEXT:       gemm.yield %acc, %acc_1, %0, %1, %2 : f32, f32, f32, f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %a, %z, %p, %q : tensor<?x8xf32>, tensor<?x16xf32>, tensor<?x?xf32>, tensor<?x?xf32>
// CHECK-NEXT: }

// -----

// The gate and the up projection are neighbouring columns of one weight.

func.func @adjacent(%x: tensor<?x8xbf16>, %w: tensor<32x8xbf16>) -> tensor<?x16xbf16> {
  %h = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<32x8xbf16>)
      -> (tile : tensor<?x32xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %a = coda.glu %h {activation = "silu", adjacent} : (tensor<?x32xbf16>) -> tensor<?x16xbf16>
  func.return %a : tensor<?x16xbf16>
}

// CHECK:      func.func @adjacent(
// CHECK-NEXT:   %a = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<32x8xbf16>) pair<adjacent>
// CHECK-NEXT:       -> (half : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %acc_1: f32):
// CHECK-NEXT:       %0 = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:       %1 = arith.negf %acc : f32
// CHECK-NEXT:       %2 = math.exp %1 : f32
// CHECK-NEXT:       %3 = arith.addf %0, %2 : f32
// CHECK-NEXT:       %4 = arith.divf %acc, %3 : f32
// CHECK-NEXT:       %5 = arith.mulf %4, %acc_1 : f32
// CHECK-NEXT:       gemm.yield %5 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %a : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// The halves of a tile, of rows in groups: their weights are not cut.

func.func @halves(%x: tensor<?x8xbf16>, %w: tensor<4x32x8xbf16>, %e: tensor<4xi32>) -> tensor<?x16xbf16> {
  %z = gemm.fused %x : tensor<?x8xbf16> groups(%e : tensor<4xi32>)
    columns(%w : tensor<4x32x8xbf16>)
      -> (tile : tensor<?x32xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %g = coda.slice %z {dim = 1 : i64, start = 0 : i64, stop = 16 : i64} : (tensor<?x32xbf16>) -> tensor<?x16xbf16>
  %u = coda.slice %z {dim = 1 : i64, start = 16 : i64, stop = 32 : i64} : (tensor<?x32xbf16>) -> tensor<?x16xbf16>
  %s = coda.silu %g : (tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %a = coda.mul %u, %s : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %a : tensor<?x16xbf16>
}

// CHECK:      func.func @halves(%x: tensor<?x8xbf16>, %w: tensor<4x32x8xbf16>, %e: tensor<4xi32>) -> tensor<?x16xbf16> {
// CHECK-NEXT:   %g, %u = gemm.fused %x : tensor<?x8xbf16> groups(%e : tensor<4xi32>)
// CHECK-NEXT:     columns(%w : tensor<4x32x8xbf16>) pair<halves>
// CHECK-NEXT:       -> (half : tensor<?x16xbf16>, half : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %acc_1: f32):
// CHECK-NEXT:       gemm.yield %acc, %acc_1 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %s = coda.silu %g : (tensor<?x16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %a = coda.mul %u, %s : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %a : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// Even and odd columns of a tile, by slices with a step and by a reshape, are columns of pairs.

func.func @neighbours(%x: tensor<?x?x8xbf16> {coda.dims = ["B", "T", 8 : i64]}, %w: tensor<16x8xbf16>, %b: tensor<16xbf16>) -> (tensor<?x?x8xbf16>, tensor<?x?x8xbf16>) {
  %z = gemm.fused %x : tensor<?x?x8xbf16>
    columns(%w : tensor<16x8xbf16>) row(%b : tensor<16xbf16>)
      -> (tile : tensor<?x?x16xbf16>) {
    ^bb0(%acc: f32, %b_1: f32):
      %0 = arith.addf %acc, %b_1 : f32
      gemm.yield %0 : f32
    }
  %even = torch.call "aten.slice.Tensor"(%z) {coda.dims = ["B", "T", 8 : i64], arguments = "{0}, 2, 0, 16, 2", view} : (tensor<?x?x16xbf16>) -> tensor<?x?x8xbf16>
  %pairs = coda.reshape %z {coda.dims = ["B", "T", 8 : i64, 2 : i64]} : (tensor<?x?x16xbf16>) -> tensor<?x?x8x2xbf16>
  %second = coda.slice %pairs {dim = 3 : i64, start = 1 : i64, stop = 2 : i64} : (tensor<?x?x8x2xbf16>) -> tensor<?x?x8x1xbf16>
  %odd = coda.reshape %second {coda.dims = ["B", "T", 8 : i64]} : (tensor<?x?x8x1xbf16>) -> tensor<?x?x8xbf16>
  func.return %even, %odd : tensor<?x?x8xbf16>, tensor<?x?x8xbf16>
}

// CHECK:      func.func @neighbours(
// CHECK-NEXT:   %even, %odd = gemm.fused %x : tensor<?x?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<16x8xbf16>) pair<adjacent> row(%b : tensor<16xbf16>)
// CHECK-NEXT:       -> (half : tensor<?x?x8xbf16>, half : tensor<?x?x8xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %acc_1: f32, %b_1: f32, %b_2: f32):
// CHECK-NEXT:       %0 = arith.addf %acc, %b_1 : f32
// CHECK-NEXT:       %1 = arith.addf %acc_1, %b_2 : f32
// CHECK-NEXT:       gemm.yield %0, %1 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %even, %odd : tensor<?x?x8xbf16>, tensor<?x?x8xbf16>
// CHECK-NEXT: }

// -----

// A gate in float32: the other GEMM's tile, which is widened where it is read, is the second half.

func.func @widened(%x: tensor<?x8xbf16>, %wg: tensor<16x8xbf16>, %wu: tensor<16x8xbf16>) -> tensor<?x16xf32> {
  %g = gemm.fused %x : tensor<?x8xbf16>
    columns(%wg : tensor<16x8xbf16>)
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%acc: f32):
      %0 = math.exp %acc : f32
      gemm.yield %0 : f32
    }
  %u = gemm.fused %x : tensor<?x8xbf16>
    columns(%wu : tensor<16x8xbf16>)
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %wide = coda.cast %u : (tensor<?x16xbf16>) -> tensor<?x16xf32>
  %y = coda.mul %wide, %g : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
  func.return %y : tensor<?x16xf32>
}

// CHECK:      func.func @widened(
// CHECK-NEXT:   %u, %y = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%wg : tensor<16x8xbf16>, %wu : tensor<16x8xbf16>) pair<halves>
// CHECK-NEXT:       -> (half : tensor<?x16xbf16>, half : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %acc_1: f32):
// CHECK-NEXT:       %0 = math.exp %acc : f32
// CHECK-NEXT:       %y_1 = arith.mulf %acc_1, %0 : f32
// CHECK-NEXT:       gemm.yield %acc_1, %y_1 : f32, f32
// CHECK-NEXT:     }

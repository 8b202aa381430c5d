// RUN: coda-opt %s -p 'unfuse-gemms{by=library}' --split-input-file | filecheck %s
// RUN: coda-opt %s -p 'unfuse-gemms{by=library}' --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// The program states the order of reductions.

func.func @ordered(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) -> tensor<?x16xbf16> {
  %y = gemm.fused %x : tensor<?x8xbf16>
    order<depth = 64, columns = 64, rows = 64>
    columns(%w : tensor<16x8xbf16>)
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32):
      %0 = math.tanh %acc : f32
      gemm.yield %0 : f32
    }
  func.return %y : tensor<?x16xbf16>
}

// CHECK:      func.func @ordered(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) -> tensor<?x16xbf16> {
// CHECK-NEXT:   %y = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     order<depth = 64, columns = 64, rows = 64>
// CHECK-NEXT:     columns(%w : tensor<16x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       %0 = math.tanh %acc : f32
// CHECK-NEXT:       gemm.yield %0 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y : tensor<?x16xbf16>
// CHECK-NEXT: }

// REMARK: remark[missed] unfuse-gemms: gemm.fused: the epilogue stays in the GEMM: the program states the order of its reductions; failed condition: the backend may choose the order of reductions; costs 48*d0 + 256 bytes

// -----

// Pointwise kernels store no transposed tiles.

func.func @transposed_tile(%dz: tensor<?x8xbf16>, %x: tensor<?x4xbf16>) -> tensor<4x8xbf16> {
  %dw = gemm.fused transposed %dz : tensor<?x8xbf16>
    columns(%x : tensor<?x4xbf16>) kn
      -> (tile_t : tensor<4x8xbf16>) {
    ^bb0(%acc: f32):
      %0 = math.tanh %acc : f32
      gemm.yield %0 : f32
    }
  func.return %dw : tensor<4x8xbf16>
}

// CHECK:      func.func @transposed_tile(%dz: tensor<?x8xbf16>, %x: tensor<?x4xbf16>) -> tensor<4x8xbf16> {
// CHECK-NEXT:   %dw = gemm.fused transposed %dz : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%x : tensor<?x4xbf16>) kn
// CHECK-NEXT:       -> (tile_t : tensor<4x8xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       %0 = math.tanh %acc : f32
// CHECK-NEXT:       gemm.yield %0 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %dw : tensor<4x8xbf16>
// CHECK-NEXT: }

// REMARK: remark[missed] unfuse-gemms: gemm.fused: the epilogue stays in the GEMM: pointwise kernels store no transposed tiles; failed condition: tiles are stored row by row; costs 16*d0 + 8*d1 + 64 bytes

// -----

// A port that sees the columns of both weights.

func.func @both_weights(%x: tensor<?x8xbf16>, %wg: tensor<16x8xbf16>, %wu: tensor<16x8xbf16>, %b: tensor<32xbf16>) -> tensor<?x16xbf16> {
  %y = gemm.fused %x : tensor<?x8xbf16>
    columns(%wg : tensor<16x8xbf16>, %wu : tensor<16x8xbf16>) pair<halves> row(%b : tensor<32xbf16>)
      -> (half : tensor<?x16xbf16>) {
    ^bb0(%g: f32, %u: f32, %b0: f32, %b1: f32):
      %0 = arith.addf %g, %b0 : f32
      %1 = arith.addf %u, %b1 : f32
      %2 = arith.mulf %0, %1 : f32
      gemm.yield %2 : f32
    }
  func.return %y : tensor<?x16xbf16>
}

// CHECK:      func.func @both_weights(%x: tensor<?x8xbf16>, %wg: tensor<16x8xbf16>, %wu: tensor<16x8xbf16>, %b: tensor<32xbf16>) -> tensor<?x16xbf16> {
// CHECK-NEXT:   %y = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%wg : tensor<16x8xbf16>, %wu : tensor<16x8xbf16>) pair<halves> row(%b : tensor<32xbf16>)
// CHECK-NEXT:       -> (half : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%g: f32, %u: f32, %b0: f32, %b1: f32):
// CHECK-NEXT:       %0 = arith.addf %g, %b0 : f32
// CHECK-NEXT:       %1 = arith.addf %u, %b1 : f32
// CHECK-NEXT:       %2 = arith.mulf %0, %1 : f32
// CHECK-NEXT:       gemm.yield %2 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y : tensor<?x16xbf16>
// CHECK-NEXT: }

// REMARK: remark[missed] unfuse-gemms: gemm.fused: the epilogue stays in the GEMM: it needs the products of several weights side by side; failed condition: each product has one weight; costs 48*d0 + 576 bytes

// -----

// Which columns are a pair depends on N, which is not known.

func.func @any_pairs(%x: tensor<?x8xbf16>, %w: tensor<?x8xbf16>) -> tensor<?x?xbf16> {
  %y = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<?x8xbf16>) pair<halves>
      -> (half : tensor<?x?xbf16>) {
    ^bb0(%a: f32, %b: f32):
      %0 = arith.mulf %a, %b : f32
      gemm.yield %0 : f32
    }
  func.return %y : tensor<?x?xbf16>
}

// CHECK:      func.func @any_pairs(
// CHECK-NEXT:   %y = gemm.fused
// REMARK: remark[missed] unfuse-gemms: gemm.fused: the epilogue stays in the GEMM: its pairs or partials have a symbolic number of columns; failed condition: the number of columns of pairs and partials is known

// -----

// How many partials a row has depends on N, too.

func.func @any_partials(%x: tensor<?x8xbf16>, %w: tensor<?x8xbf16>) -> tensor<?x?xf32> {
  %p = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<?x8xbf16>)
      -> (partial_row<add> : tensor<?x?xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  func.return %p : tensor<?x?xf32>
}

// CHECK:      func.func @any_partials(
// CHECK-NEXT:   %p = gemm.fused
// REMARK: remark[missed] unfuse-gemms: gemm.fused: the epilogue stays in the GEMM: its pairs or partials have a symbolic number of columns; failed condition: the number of columns of pairs and partials is known

// -----

// A GEMM that has a schedule is left alone, and nothing is said.

func.func @scheduled(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) -> tensor<?x16xbf16> {
  %y = gemm.fused %x : tensor<?x8xbf16>
    schedule<pointer, "16x16x16", warps = 4, stages = 1, group_m = 8>
    columns(%w : tensor<16x8xbf16>)
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32):
      %0 = math.tanh %acc : f32
      gemm.yield %0 : f32
    }
  func.return %y : tensor<?x16xbf16>
}

// CHECK:      func.func @scheduled(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) -> tensor<?x16xbf16> {
// CHECK-NEXT:   %y = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     schedule<pointer, "16x16x16", warps = 4, stages = 1, group_m = 8>
// CHECK-NEXT:     columns(%w : tensor<16x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       %0 = math.tanh %acc : f32
// CHECK-NEXT:       gemm.yield %0 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// The GEMM combines partials of its rows, which pointwise kernels do not.

func.func @combined_inside(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %p: tensor<?x?xf32>) -> tensor<?x16xbf16> {
  %y = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>) partial_add(%p : tensor<?x?xf32>)
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32, %sum: f32):
      %0 = arith.mulf %acc, %sum : f32
      gemm.yield %0 : f32
    }
  func.return %y : tensor<?x16xbf16>
}

// CHECK:      func.func @combined_inside(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %p: tensor<?x?xf32>) -> tensor<?x16xbf16> {
// CHECK-NEXT:   %y = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<16x8xbf16>) partial_add(%p : tensor<?x?xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %sum: f32):
// CHECK-NEXT:       %0 = arith.mulf %acc, %sum : f32
// CHECK-NEXT:       gemm.yield %0 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y : tensor<?x16xbf16>
// CHECK-NEXT: }

// REMARK: remark[missed] unfuse-gemms: gemm.fused: the epilogue stays in the GEMM: pointwise kernels have no port partial_add; failed condition: pointwise kernels support the ports of the epilogue; costs 4*d1*d2 + 48*d0 + 256 bytes

// -----

// The library rounds the products of rows in groups, which the epilogue takes as they are.

func.func @groups(%x: tensor<?x8xbf16>, %w: tensor<4x16x8xbf16>, %e: tensor<4xi32>) -> tensor<?x16xbf16> {
  %y = gemm.fused %x : tensor<?x8xbf16> groups(%e : tensor<4xi32>)
    columns(%w : tensor<4x16x8xbf16>)
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32):
      %0 = arith.mulf %acc, %acc : f32
      gemm.yield %0 : f32
    }
  func.return %y : tensor<?x16xbf16>
}

// REMARK: remark[missed] unfuse-gemms: gemm.fused: the epilogue stays in the GEMM: the library does not multiply these groups of rows; failed condition: the library returns products in the type of their operands, with rows that are multiples of 16 bytes; costs 48*d0 + 1040 bytes
// CHECK:      func.func @groups(%x: tensor<?x8xbf16>, %w: tensor<4x16x8xbf16>, %e: tensor<4xi32>) -> tensor<?x16xbf16> {
// CHECK-NEXT:   %y = gemm.fused %x : tensor<?x8xbf16> groups(%e : tensor<4xi32>)
// CHECK-NEXT:     columns(%w : tensor<4x16x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       %0 = arith.mulf %acc, %acc : f32
// CHECK-NEXT:       gemm.yield %0 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// The library has no products of float8 without scales.

func.func @float8(%x: tensor<?x8xf8E4M3FN>, %w: tensor<16x8xf8E4M3FN>) -> tensor<?x16xbf16> {
  %y = gemm.fused %x : tensor<?x8xf8E4M3FN>
    columns(%w : tensor<16x8xf8E4M3FN>)
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32):
      %0 = math.tanh %acc : f32
      gemm.yield %0 : f32
    }
  func.return %y : tensor<?x16xbf16>
}

// REMARK: remark[missed] unfuse-gemms: gemm.fused: the epilogue stays in the GEMM: the library does not multiply these 8-bit operands; failed condition: the operands have the same type, of more than 8 bits; costs 40*d0 + 128 bytes
// CHECK:      func.func @float8(
// CHECK-NEXT:   %y = gemm.fused %x : tensor<?x8xf8E4M3FN>
// CHECK-NEXT:     columns(%w : tensor<16x8xf8E4M3FN>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       %0 = math.tanh %acc : f32
// CHECK-NEXT:       gemm.yield %0 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y : tensor<?x16xbf16>
// CHECK-NEXT: }

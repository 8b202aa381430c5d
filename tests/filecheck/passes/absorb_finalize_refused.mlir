// RUN: coda-opt %s -p "absorb-finalize{target=sm_90}" --split-input-file | filecheck %s
// RUN: coda-opt %s -p "absorb-finalize{target=sm_90}" --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// What keeps a finalize a kernel of its own.

// The caller reads the sums, too: a kernel has to store them.

// REMARK: remark[missed] absorb-finalize: gemm.finalize: the caller reads %s; failed condition: every use is a col port of a scheduled gemm.fused or of a gemm.map, or a scalar port of one that has a single row
// CHECK-LABEL: func.func @returned(
// CHECK: %s = gemm.finalize row
// CHECK: %s : tensor<?x1xf32>
func.func @returned(%x: tensor<?x8xf32>, %w: tensor<16x8xf32>, %v: tensor<8x16xf32>) -> (tensor<?x8xf32>, tensor<?x1xf32>) {
  %z, %partial = gemm.fused %x : tensor<?x8xf32>
    schedule<pointer, "16x16x16", warps = 4, stages = 2, group_m = 8>
    columns(%w : tensor<16x8xf32>)
      -> (tile : tensor<?x16xf32>, partial_row<add> : tensor<?x?xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc, %acc : f32, f32
    }
  %s = gemm.finalize row (add %partial : tensor<?x?xf32>) -> (tensor<?x1xf32>) {
  ^bb0(%0: f32):
    gemm.yield %0 : f32
  }
  %y = gemm.fused %z : tensor<?x16xf32>
    schedule<pointer, "16x16x16", warps = 4, stages = 2, group_m = 8>
    columns(%v : tensor<8x16xf32>) col(%s : tensor<?x1xf32>)
      -> (tile : tensor<?x8xf32>) {
    ^bb0(%acc: f32, %r: f32):
      %0 = arith.mulf %acc, %r : f32
      gemm.yield %0 : f32
    }
  func.return %y, %s : tensor<?x8xf32>, tensor<?x1xf32>
}

// -----

// A pointwise kernel reads them over a number of columns that nobody knows.

// REMARK: remark[missed] absorb-finalize: gemm.finalize: the gemm.map runs over all elements, regardless of rows; failed condition: the columns of a gemm.map are known
// CHECK-LABEL: func.func @map(
// CHECK: %s = gemm.finalize row
// CHECK: %s : tensor<?x1xf32>
func.func @map(%x: tensor<?x8xf32>, %w: tensor<16x8xf32>, %a: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %partial = gemm.fused %x : tensor<?x8xf32>
    schedule<pointer, "16x16x16", warps = 4, stages = 2, group_m = 8>
    columns(%w : tensor<16x8xf32>)
      -> (partial_row<add> : tensor<?x?xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %s = gemm.finalize row (add %partial : tensor<?x?xf32>) -> (tensor<?x1xf32>) {
  ^bb0(%0: f32):
    gemm.yield %0 : f32
  }
  %y = gemm.map tile(%a : tensor<?x?xf32>) col(%s : tensor<?x1xf32>)
    -> (tile : tensor<?x?xf32>) {
    ^bb0(%b: f32, %r: f32):
      %0 = arith.mulf %b, %r : f32
      gemm.yield %0 : f32
    }
  func.return %y : tensor<?x?xf32>
}

// -----

// A row has more partials than a tile of a pointwise kernel should read.

// REMARK: remark[missed] absorb-finalize: gemm.finalize: a row of the gemm.map has 2049 partials; failed condition: a gemm.map has at most 2048 partials of a row
// CHECK-LABEL: func.func @many_of_a_map(
// CHECK: %s = gemm.finalize row
// CHECK: %s : tensor<?x1xf32>
func.func @many_of_a_map(%x: tensor<?x8xf32>, %w: tensor<32784x8xf32>, %a: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %partial = gemm.fused %x : tensor<?x8xf32>
    schedule<pointer, "16x16x16", warps = 4, stages = 2, group_m = 8>
    columns(%w : tensor<32784x8xf32>)
      -> (partial_row<add> : tensor<?x?xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %s = gemm.finalize row (add %partial : tensor<?x?xf32>) -> (tensor<?x1xf32>) {
  ^bb0(%0: f32):
    gemm.yield %0 : f32
  }
  %y = gemm.map tile(%a : tensor<?x8xf32>) col(%s : tensor<?x1xf32>)
    -> (tile : tensor<?x8xf32>) {
    ^bb0(%b: f32, %r: f32):
      %0 = arith.mulf %b, %r : f32
      gemm.yield %0 : f32
    }
  func.return %y : tensor<?x8xf32>
}

// -----

// One row, whose sum scales all rows of another kernel.

// REMARK: remark[missed] absorb-finalize: gemm.finalize: %s is a scalar port; failed condition: every use is a col port of a scheduled gemm.fused or of a gemm.map, or a scalar port of one that has a single row
// CHECK-LABEL: func.func @scalar(
// CHECK: %s = gemm.finalize row
// CHECK: %s : tensor<1x1xf32>
func.func @scalar(%x: tensor<1x8xf32>, %w: tensor<16x8xf32>, %z: tensor<?x16xf32>, %v: tensor<8x16xf32>) -> tensor<?x8xf32> {
  %partial = gemm.fused %x : tensor<1x8xf32>
    schedule<pointer, "16x16x16", warps = 4, stages = 2, group_m = 8>
    columns(%w : tensor<16x8xf32>)
      -> (partial_row<add> : tensor<1x?xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %s = gemm.finalize row (add %partial : tensor<1x?xf32>) -> (tensor<1x1xf32>) {
  ^bb0(%0: f32):
    gemm.yield %0 : f32
  }
  %y = gemm.fused %z : tensor<?x16xf32>
    schedule<pointer, "16x16x16", warps = 4, stages = 2, group_m = 8>
    columns(%v : tensor<8x16xf32>) scalar(%s : tensor<1x1xf32>)
      -> (tile : tensor<?x8xf32>) {
    ^bb0(%acc: f32, %r: f32):
      %0 = arith.mulf %acc, %r : f32
      gemm.yield %0 : f32
    }
  func.return %y : tensor<?x8xf32>
}

// -----

// Integers of 8 bits wrap around where they are stored.

// REMARK: remark[missed] absorb-finalize: gemm.finalize: %s is i8; failed condition: the results are floats, or integers of at least 32 bits
// CHECK-LABEL: func.func @narrow(
// CHECK: %s = gemm.finalize row
// CHECK: %s : tensor<?x1xi8>
func.func @narrow(%x: tensor<?x8xf32>, %w: tensor<16x8xf32>, %a: tensor<?x8xi32>) -> tensor<?x8xi32> {
  %partial = gemm.fused %x : tensor<?x8xf32>
    schedule<pointer, "16x16x16", warps = 4, stages = 2, group_m = 8>
    columns(%w : tensor<16x8xf32>)
      -> (partial_row<max> : tensor<?x?xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %s = gemm.finalize row (max %partial : tensor<?x?xf32>) -> (tensor<?x1xi8>) {
  ^bb0(%0: f32):
    %1 = arith.constant 1.000000e+02 : f32
    %2 = arith.mulf %0, %1 : f32
    %3 = arith.fptosi %2 : f32 to i32
    gemm.yield %3 : i32
  }
  %y = gemm.map tile(%a : tensor<?x8xi32>) col(%s : tensor<?x1xi8>)
    -> (tile : tensor<?x8xi32>) {
    ^bb0(%b: i32, %r: i32):
      %0 = arith.addi %b, %r : i32
      gemm.yield %0 : i32
    }
  func.return %y : tensor<?x8xi32>
}

// -----

// They are multiplied: a GEMM of one column.

// REMARK: remark[missed] absorb-finalize: gemm.finalize: %s is multiplied; failed condition: every use is a col port of a scheduled gemm.fused or of a gemm.map, or a scalar port of one that has a single row
// CHECK-LABEL: func.func @multiplied(
// CHECK: %s = gemm.finalize row
// CHECK: %s : tensor<?x1xf32>
func.func @multiplied(%x: tensor<?x8xf32>, %w: tensor<16x8xf32>, %v: tensor<8x1xf32>) -> tensor<?x8xf32> {
  %z, %partial = gemm.fused %x : tensor<?x8xf32>
    schedule<pointer, "16x16x16", warps = 4, stages = 2, group_m = 8>
    columns(%w : tensor<16x8xf32>)
      -> (tile : tensor<?x16xf32>, partial_row<add> : tensor<?x?xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc, %acc : f32, f32
    }
  %s = gemm.finalize row (add %partial : tensor<?x?xf32>) -> (tensor<?x1xf32>) {
  ^bb0(%0: f32):
    gemm.yield %0 : f32
  }
  %y = gemm.fused %s : tensor<?x1xf32>
    schedule<pointer, "16x16x16", warps = 4, stages = 2, group_m = 8>
    columns(%v : tensor<8x1xf32>)
      -> (tile : tensor<?x8xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  func.return %y : tensor<?x8xf32>
}

// -----

// A GEMM multiplies them before the pointwise kernel could store them.

// REMARK: remark[missed] absorb-finalize: gemm.finalize: the caller reads %s; failed condition: every use is a col port of a scheduled gemm.fused or of a gemm.map, or a scalar port of one that has a single row
// CHECK-LABEL: func.func @stored_too_late(
// CHECK: %s = gemm.finalize row
// CHECK: %s : tensor<?x1xf32>
func.func @stored_too_late(%x: tensor<?x8xf32>, %w: tensor<16x8xf32>, %v: tensor<16x1xf32>) -> (tensor<?x16xf32>, tensor<?x1xf32>) {
  %z, %partial = gemm.fused %x : tensor<?x8xf32>
    schedule<pointer, "16x16x16", warps = 4, stages = 2, group_m = 8>
    columns(%w : tensor<16x8xf32>)
      -> (tile : tensor<?x16xf32>, partial_row<add> : tensor<?x?xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc, %acc : f32, f32
    }
  %s = gemm.finalize row (add %partial : tensor<?x?xf32>) -> (tensor<?x1xf32>) {
  ^bb0(%0: f32):
    gemm.yield %0 : f32
  }
  %y = gemm.fused %s : tensor<?x1xf32>
    schedule<pointer, "16x16x16", warps = 4, stages = 2, group_m = 8>
    columns(%v : tensor<16x1xf32>) tile(%z : tensor<?x16xf32>)
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%acc: f32, %a: f32):
      %0 = arith.addf %acc, %a : f32
      gemm.yield %0 : f32
    }
  %u = gemm.map tile(%y : tensor<?x16xf32>) col(%s : tensor<?x1xf32>)
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%a: f32, %b: f32):
      %0 = arith.mulf %a, %b : f32
      gemm.yield %0 : f32
    }
  func.return %u, %s : tensor<?x16xf32>, tensor<?x1xf32>
}

// -----

// Nobody knows how many partials there are.

// REMARK: remark[missed] absorb-finalize: gemm.finalize: the number of partials in %p is unknown; failed condition: the number of partials is known: a scheduled gemm.fused makes them, or a gemm.map over a known number of columns
// CHECK-LABEL: func.func @argument(
// CHECK: %s = gemm.finalize row
// CHECK: %s : tensor<?x1xf32>
func.func @argument(%p: tensor<?x?xf32>, %z: tensor<?x16xf32>, %v: tensor<8x16xf32>) -> tensor<?x8xf32> {
  %s = gemm.finalize row (add %p : tensor<?x?xf32>) -> (tensor<?x1xf32>) {
  ^bb0(%0: f32):
    gemm.yield %0 : f32
  }
  %y = gemm.fused %z : tensor<?x16xf32>
    schedule<pointer, "16x16x16", warps = 4, stages = 2, group_m = 8>
    columns(%v : tensor<8x16xf32>) col(%s : tensor<?x1xf32>)
      -> (tile : tensor<?x8xf32>) {
    ^bb0(%acc: f32, %r: f32):
      %0 = arith.mulf %acc, %r : f32
      gemm.yield %0 : f32
    }
  func.return %y : tensor<?x8xf32>
}

// -----

// Tiles of 16 columns make more partials than a tile of so many rows should read.

// REMARK: remark[missed] absorb-finalize: gemm.finalize: a tile of 128 rows has 65 partials for each row; failed condition: a tile has at most 8192 partials of its rows
// CHECK-LABEL: func.func @many(
// CHECK: %s = gemm.finalize row
// CHECK: %s : tensor<?x1xf32>
func.func @many(%x: tensor<?x8xf32>, %w: tensor<1040x8xf32>, %v: tensor<8x1040xf32>) -> tensor<?x8xf32> {
  %z, %partial = gemm.fused %x : tensor<?x8xf32>
    schedule<pointer, "16x16x16", warps = 4, stages = 2, group_m = 8>
    columns(%w : tensor<1040x8xf32>)
      -> (tile : tensor<?x1040xf32>, partial_row<add> : tensor<?x?xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc, %acc : f32, f32
    }
  %s = gemm.finalize row (add %partial : tensor<?x?xf32>) -> (tensor<?x1xf32>) {
  ^bb0(%0: f32):
    gemm.yield %0 : f32
  }
  %y = gemm.fused %z : tensor<?x1040xf32>
    schedule<pointer, "128x16x16", warps = 4, stages = 2, group_m = 8>
    columns(%v : tensor<8x1040xf32>) col(%s : tensor<?x1xf32>)
      -> (tile : tensor<?x8xf32>) {
    ^bb0(%acc: f32, %r: f32):
      %0 = arith.mulf %acc, %r : f32
      gemm.yield %0 : f32
    }
  func.return %y : tensor<?x8xf32>
}

// -----

// A stated order of sums.

// REMARK: remark[missed] absorb-finalize: gemm.finalize: the numerics mode deterministic states the order; failed condition: the partials are combined in any fixed order
// CHECK-LABEL: func.func @ordered(
// CHECK: %s = gemm.finalize row
// CHECK: %s : tensor<?x1xf32>
func.func @ordered(%x: tensor<?x8xf32>, %w: tensor<16x8xf32>, %v: tensor<8x16xf32>) -> tensor<?x8xf32> {
  %z, %partial = gemm.fused %x : tensor<?x8xf32>
    schedule<pointer, "16x16x16", warps = 4, stages = 2, group_m = 8>
    order<depth = 16, columns = 16, rows = 16>
    columns(%w : tensor<16x8xf32>)
      -> (tile : tensor<?x16xf32>, partial_row<add> : tensor<?x?xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc, %acc : f32, f32
    }
  %s = gemm.finalize row order<partials = 32> (add %partial : tensor<?x?xf32>) -> (tensor<?x1xf32>) {
  ^bb0(%0: f32):
    gemm.yield %0 : f32
  }
  %y = gemm.fused %z : tensor<?x16xf32>
    schedule<pointer, "16x16x16", warps = 4, stages = 2, group_m = 8>
    columns(%v : tensor<8x16xf32>) col(%s : tensor<?x1xf32>)
      -> (tile : tensor<?x8xf32>) {
    ^bb0(%acc: f32, %r: f32):
      %0 = arith.mulf %acc, %r : f32
      gemm.yield %0 : f32
    }
  func.return %y : tensor<?x8xf32>
}

// -----

// Sums over the rows have one value per column.

// REMARK: remark[missed] absorb-finalize: gemm.finalize: the finalize combines partials of columns; failed condition: the finalize has one result per row
// CHECK-LABEL: func.func @columns(
// CHECK: %s = gemm.finalize col
// CHECK: %s : tensor<16xf32>
func.func @columns(%x: tensor<?x8xf32>, %w: tensor<16x8xf32>, %a: tensor<?x8xf32>, %v: tensor<16x8xf32>) -> (tensor<?x16xf32>, tensor<?x16xf32>) {
  %z, %partial = gemm.fused %x : tensor<?x8xf32>
    schedule<pointer, "16x16x16", warps = 4, stages = 2, group_m = 8>
    columns(%w : tensor<16x8xf32>)
      -> (tile : tensor<?x16xf32>, partial_col<add> : tensor<?x16xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc, %acc : f32, f32
    }
  %s = gemm.finalize col (add %partial : tensor<?x16xf32>) -> (tensor<16xf32>) {
  ^bb0(%0: f32):
    gemm.yield %0 : f32
  }
  %y = gemm.fused %a : tensor<?x8xf32>
    schedule<pointer, "16x16x16", warps = 4, stages = 2, group_m = 8>
    columns(%v : tensor<16x8xf32>) row(%s : tensor<16xf32>)
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%acc: f32, %b: f32):
      %0 = arith.addf %acc, %b : f32
      gemm.yield %0 : f32
    }
  func.return %y, %z : tensor<?x16xf32>, tensor<?x16xf32>
}

// -----

// Many small tiles with little to multiply read more than a launch costs.

// REMARK: remark[missed] absorb-finalize: gemm.finalize: reading the partials takes 27.8 us, a separate finalize 4.5 us; failed condition: reading the partials in every tile takes less time than a launch
// CHECK-LABEL: func.func @expensive(
// CHECK: %s = gemm.finalize row
// CHECK: %s : tensor<?x1xf32>
func.func @expensive(%x: tensor<?x8xf32>, %w: tensor<1024x8xf32>, %a: tensor<?x16xf32>, %v: tensor<4096x16xf32>) -> (tensor<?x4096xf32>, tensor<?x1024xf32>) {
  %z, %partial = gemm.fused %x : tensor<?x8xf32>
    schedule<pointer, "16x16x16", warps = 4, stages = 2, group_m = 8>
    columns(%w : tensor<1024x8xf32>)
      -> (tile : tensor<?x1024xf32>, partial_row<add> : tensor<?x?xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc, %acc : f32, f32
    }
  %s = gemm.finalize row (add %partial : tensor<?x?xf32>) -> (tensor<?x1xf32>) {
  ^bb0(%0: f32):
    gemm.yield %0 : f32
  }
  %y = gemm.fused %a : tensor<?x16xf32>
    schedule<pointer, "16x16x16", warps = 4, stages = 2, group_m = 8>
    columns(%v : tensor<4096x16xf32>) col(%s : tensor<?x1xf32>)
      -> (tile : tensor<?x4096xf32>) {
    ^bb0(%acc: f32, %r: f32):
      %0 = arith.mulf %acc, %r : f32
      gemm.yield %0 : f32
    }
  func.return %y, %z : tensor<?x4096xf32>, tensor<?x1024xf32>
}

// -----

// The memory of the partials is given to another value.

// REMARK: remark[missed] absorb-finalize: gemm.finalize: the memory of the partials may be reused before the kernels read them; failed condition: buffers have not been planned yet
// CHECK-LABEL: func.func @planned(
// CHECK: %s = gemm.finalize row
// CHECK: %s : tensor<?x1xf32>
func.func @planned(%x: tensor<?x8xf32>, %w: tensor<16x8xf32>, %v: tensor<8x16xf32>) -> (tensor<?x8xf32>, tensor<?x16xf32>) {
  %z, %partial = gemm.fused %x : tensor<?x8xf32>
    schedule<pointer, "16x16x16", warps = 4, stages = 2, group_m = 8>
    columns(%w : tensor<16x8xf32>)
      -> (tile : tensor<?x16xf32>, partial_row<add> : tensor<?x?xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc, %acc : f32, f32
    }
  %s = gemm.finalize row (add %partial : tensor<?x?xf32>) -> (tensor<?x1xf32>) {
  ^bb0(%0: f32):
    gemm.yield %0 : f32
  } attributes {coda.buffers = ["b0"]}
  %y = gemm.fused %z : tensor<?x16xf32>
    schedule<pointer, "16x16x16", warps = 4, stages = 2, group_m = 8>
    columns(%v : tensor<8x16xf32>) col(%s : tensor<?x1xf32>)
      -> (tile : tensor<?x8xf32>) {
    ^bb0(%acc: f32, %r: f32):
      %0 = arith.mulf %acc, %r : f32
      gemm.yield %0 : f32
    }
  func.return %y, %z : tensor<?x8xf32>, tensor<?x16xf32>
}

// -----

// The caller reads a mean of 16 bits, but the result that a pointwise kernel could store is f32.

// REMARK: remark[missed] absorb-finalize: gemm.finalize: the caller reads %mean; failed condition: every use is a col port of a scheduled gemm.fused or of a gemm.map, or a scalar port
// CHECK-LABEL: func.func @mean_of_16_bits(
// CHECK: %mean = gemm.finalize row
// CHECK: gemm.map tile(%z : tensor<?x1024xbf16>) col(%mean : tensor<?x1xbf16>)
func.func @mean_of_16_bits(%x: tensor<?x8xbf16>, %w: tensor<1024x8xbf16>) -> (tensor<?x1024xbf16>, tensor<?x1xbf16>) {
  %z, %partial = gemm.fused %x : tensor<?x8xbf16>
    schedule<pointer, "16x16x16", warps = 4, stages = 2, group_m = 8>
    columns(%w : tensor<1024x8xbf16>)
      -> (tile : tensor<?x1024xbf16>, partial_row<add> : tensor<?x?xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc, %acc : f32, f32
    }
  %mean = gemm.finalize row (add %partial : tensor<?x?xf32>) -> (tensor<?x1xbf16>) {
  ^bb0(%0: f32):
    %1 = arith.constant 1.024000e+03 : f32
    %2 = arith.divf %0, %1 : f32
    gemm.yield %2 : f32
  }
  %y = gemm.map tile(%z : tensor<?x1024xbf16>) col(%mean : tensor<?x1xbf16>)
      -> (tile : tensor<?x1024xbf16>) {
    ^bb0(%a: f32, %b: f32):
      %0 = arith.subf %a, %b : f32
      gemm.yield %0 : f32
    }
  func.return %y, %mean : tensor<?x1024xbf16>, tensor<?x1xbf16>
}

// -----

// A kernel that combines columns reads its tiles ahead, but would wait for the partials of each.

// REMARK: remark[missed] absorb-finalize: gemm.finalize: reading the partials takes
// CHECK-LABEL: func.func @combines_columns(
// CHECK: %s = gemm.finalize row
func.func @combines_columns(%x: tensor<16384x8xf32>, %w: tensor<16x8xf32>, %a: tensor<16384x4096xf32>) -> (tensor<16384x4096xf32>, tensor<?x4096xf32>) {
  %partial = gemm.fused %x : tensor<16384x8xf32>
    schedule<pointer, "16x16x16", warps = 4, stages = 2, group_m = 8>
    columns(%w : tensor<16x8xf32>)
      -> (partial_row<add> : tensor<16384x?xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %s = gemm.finalize row (add %partial : tensor<16384x?xf32>) -> (tensor<16384x1xf32>) {
  ^bb0(%0: f32):
    gemm.yield %0 : f32
  }
  %y, %c = gemm.map tile(%a : tensor<16384x4096xf32>) col(%s : tensor<16384x1xf32>)
    -> (tile : tensor<16384x4096xf32>, partial_col<max> : tensor<?x4096xf32>) {
    ^bb0(%b: f32, %r: f32):
      %0 = arith.mulf %b, %r : f32
      gemm.yield %0, %b : f32, f32
    }
  func.return %y, %c : tensor<16384x4096xf32>, tensor<?x4096xf32>
}

// RUN: coda-opt %s -p "absorb-finalize{always=true}" --split-input-file | filecheck %s

// One GEMM reads the statistics of a norm. It adds up the partials of its rows; what the finalize
// computed from the sum is computed once more in the region.

func.func @norm(%x: tensor<?x8xbf16>, %w: tensor<32x8xbf16>, %v: tensor<16x32xbf16>) -> tensor<?x16xbf16> {
  %z, %partial = gemm.fused %x : tensor<?x8xbf16>
    schedule<pointer, "16x16x16", warps = 4, stages = 2, group_m = 8>
    columns(%w : tensor<32x8xbf16>)
      -> (tile : tensor<?x32xbf16>, partial_row<add> : tensor<?x?xf32>) {
    ^bb0(%acc: f32):
      %0 = arith.mulf %acc, %acc : f32
      gemm.yield %acc, %0 : f32, f32
    }
  %rstd = gemm.finalize row (add %partial : tensor<?x?xf32>) -> (tensor<?x1xf32>) {
  ^bb0(%0: f32):
    %1 = arith.constant 3.125000e-02 : f32
    %2 = arith.mulf %0, %1 : f32
    %3 = math.rsqrt %2 : f32
    gemm.yield %3 : f32
  }
  %y = gemm.fused %z : tensor<?x32xbf16>
    schedule<pointer, "16x16x16", warps = 4, stages = 2, group_m = 8>
    columns(%v : tensor<16x32xbf16>) col(%rstd : tensor<?x1xf32>)
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32, %r: f32):
      %0 = arith.mulf %acc, %r : f32
      gemm.yield %0 : f32
    } attributes {note = "kept"}
  func.return %y : tensor<?x16xbf16>
}

// CHECK:      func.func @norm(
// CHECK-NEXT:   %z, %partial = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     schedule<pointer, "16x16x16", warps = 4, stages = 2, group_m = 8>
// CHECK-NEXT:     columns(%w : tensor<32x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x32xbf16>, partial_row<add> : tensor<?x?xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       %0 = arith.mulf %acc, %acc : f32
// CHECK-NEXT:       gemm.yield %acc, %0 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %y = gemm.fused %z : tensor<?x32xbf16>
// CHECK-NEXT:     schedule<pointer, "16x16x16", warps = 4, stages = 2, group_m = 8>
// CHECK-NEXT:     columns(%v : tensor<16x32xbf16>) partial_add(%partial : tensor<?x?xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %partial_1: f32):
// CHECK-NEXT:       %0 = arith.constant 3.125000e-02 : f32
// CHECK-NEXT:       %1 = arith.mulf %partial_1, %0 : f32
// CHECK-NEXT:       %rstd = math.rsqrt %1 : f32
// CHECK-NEXT:       %2 = arith.mulf %acc, %rstd : f32
// CHECK-NEXT:       gemm.yield %2 : f32
// CHECK-NEXT:     } attributes {note = "kept"}
// CHECK-NEXT:   func.return %y : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// Two GEMMs, one of them with two column ranges of which one pairs columns: each computes what it
// needs. Ports of the finalize become ports of the GEMMs; what was stored in bfloat16 is rounded.

func.func @two_readers(%x: tensor<?x8xf32>, %w: tensor<16x8xf32>, %u: tensor<8x16xf32>, %bias: tensor<?xf32>, %eps: tensor<1xf32>) -> (tensor<?x8xf32>, tensor<?x4xf32>, tensor<?x8xf32>) {
  %z, %sums, %squares = gemm.fused %x : tensor<?x8xf32>
    schedule<pointer, "16x16x16", warps = 4, stages = 2, group_m = 8>
    columns(%w : tensor<16x8xf32>)
      -> (tile : tensor<?x16xf32>, partial_row<add> : tensor<?x?xf32>, partial_row<max> : tensor<?x?xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc, %acc, %acc : f32, f32, f32
    }
  %mean, %scale = gemm.finalize row (add %sums : tensor<?x?xf32>, max %squares : tensor<?x?xf32>) col(%bias : tensor<?xf32>) scalar(%eps : tensor<1xf32>) -> (tensor<?x1xbf16>, tensor<?xf32>) {
  ^bb0(%0: f32, %1: f32, %2: f32, %3: f32):
    %4 = arith.addf %0, %2 : f32
    %5 = arith.addf %1, %3 : f32
    gemm.yield %4, %5 : f32, f32
  }
  %a = gemm.fused %z : tensor<?x16xf32>
    schedule<pointer, "16x16x16", warps = 4, stages = 2, group_m = 8>
    columns(%u : tensor<8x16xf32>) col(%mean : tensor<?x1xbf16>, %scale : tensor<?xf32>)
      -> (tile : tensor<?x8xf32>) {
    ^bb0(%acc: f32, %m: f32, %s: f32):
      %0 = arith.subf %acc, %m : f32
      %1 = arith.mulf %0, %s : f32
      gemm.yield %1 : f32
    }
  %b, %c = gemm.fused %z : tensor<?x16xf32>
    schedule<pointer, "16x16x16", warps = 4, stages = 2, group_m = 8>
    columns(%u : tensor<8x16xf32>) pair<adjacent> col(%scale : tensor<?xf32>)
      -> (half : tensor<?x4xf32>) {
    ^bb0(%first: f32, %second: f32, %s: f32):
      %0 = arith.mulf %first, %s : f32
      %1 = arith.mulf %0, %second : f32
      gemm.yield %1 : f32
    }
    columns(%u : tensor<8x16xf32>)
      -> (tile : tensor<?x8xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  func.return %a, %b, %c : tensor<?x8xf32>, tensor<?x4xf32>, tensor<?x8xf32>
}

// CHECK:      func.func @two_readers(
// CHECK-NEXT:   %z, %sums, %squares = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     schedule<pointer, "16x16x16", warps = 4, stages = 2, group_m = 8>
// CHECK-NEXT:     columns(%w : tensor<16x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>, partial_row<add> : tensor<?x?xf32>, partial_row<max> : tensor<?x?xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc, %acc, %acc : f32, f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %a = gemm.fused %z : tensor<?x16xf32>
// CHECK-NEXT:     schedule<pointer, "16x16x16", warps = 4, stages = 2, group_m = 8>
// CHECK-NEXT:     columns(%u : tensor<8x16xf32>) partial_add(%sums : tensor<?x?xf32>) col(%bias : tensor<?xf32>) partial_max(%squares : tensor<?x?xf32>) scalar(%eps : tensor<1xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x8xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %sums_1: f32, %bias_1: f32, %squares_1: f32, %eps_1: f32):
// CHECK-NEXT:       %0 = arith.addf %sums_1, %bias_1 : f32
// CHECK-NEXT:       %1 = arith.truncf %0 : f32 to bf16
// CHECK-NEXT:       %mean = arith.extf %1 : bf16 to f32
// CHECK-NEXT:       %scale = arith.addf %squares_1, %eps_1 : f32
// CHECK-NEXT:       %2 = arith.subf %acc, %mean : f32
// CHECK-NEXT:       %3 = arith.mulf %2, %scale : f32
// CHECK-NEXT:       gemm.yield %3 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %b, %c = gemm.fused %z : tensor<?x16xf32>
// CHECK-NEXT:     schedule<pointer, "16x16x16", warps = 4, stages = 2, group_m = 8>
// CHECK-NEXT:     columns(%u : tensor<8x16xf32>) pair<adjacent> partial_max(%squares : tensor<?x?xf32>) scalar(%eps : tensor<1xf32>)
// CHECK-NEXT:       -> (half : tensor<?x4xf32>) {
// CHECK-NEXT:     ^bb0(%first: f32, %second: f32, %squares_1: f32, %eps_1: f32):
// CHECK-NEXT:       %scale = arith.addf %squares_1, %eps_1 : f32
// CHECK-NEXT:       %0 = arith.mulf %first, %scale : f32
// CHECK-NEXT:       %1 = arith.mulf %0, %second : f32
// CHECK-NEXT:       gemm.yield %1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     columns(%u : tensor<8x16xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x8xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %a, %b, %c : tensor<?x8xf32>, tensor<?x4xf32>, tensor<?x8xf32>
// CHECK-NEXT: }

// -----

// A norm of what a GEMM stored, with the residual: the pointwise kernel adds up the partials.

func.func @post_norm(%x: tensor<?x8xbf16>, %w: tensor<32x8xbf16>, %r: tensor<?x32xbf16>, %g: tensor<32xbf16>) -> tensor<?x32xbf16> {
  %z, %partial = gemm.fused %x : tensor<?x8xbf16>
    schedule<pointer, "16x16x16", warps = 4, stages = 2, group_m = 8>
    columns(%w : tensor<32x8xbf16>)
      -> (tile : tensor<?x32xbf16>, partial_row<add> : tensor<?x?xf32>) {
    ^bb0(%acc: f32):
      %0 = arith.mulf %acc, %acc : f32
      gemm.yield %acc, %0 : f32, f32
    }
  %rstd = gemm.finalize row (add %partial : tensor<?x?xf32>) -> (tensor<?x1xf32>) {
  ^bb0(%0: f32):
    %1 = arith.constant 3.125000e-02 : f32
    %2 = arith.mulf %0, %1 : f32
    %3 = math.rsqrt %2 : f32
    gemm.yield %3 : f32
  }
  %y = gemm.map tile(%r : tensor<?x32xbf16>, %z : tensor<?x32xbf16>) col(%rstd : tensor<?x1xf32>) row(%g : tensor<32xbf16>)
    -> (tile : tensor<?x32xbf16>) {
    ^bb0(%a: f32, %b: f32, %c: f32, %d: f32):
      %0 = arith.mulf %b, %c : f32
      %1 = arith.mulf %0, %d : f32
      %2 = arith.addf %a, %1 : f32
      gemm.yield %2 : f32
    }
  func.return %y : tensor<?x32xbf16>
}

// CHECK:      func.func @post_norm(
// CHECK-NEXT:   %z, %partial = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     schedule<pointer, "16x16x16", warps = 4, stages = 2, group_m = 8>
// CHECK-NEXT:     columns(%w : tensor<32x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x32xbf16>, partial_row<add> : tensor<?x?xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       %0 = arith.mulf %acc, %acc : f32
// CHECK-NEXT:       gemm.yield %acc, %0 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %y = gemm.map tile(%r : tensor<?x32xbf16>, %z : tensor<?x32xbf16>) row(%g : tensor<32xbf16>) partial_add(%partial : tensor<?x?xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x32xbf16>) {
// CHECK-NEXT:     ^bb0(%a: f32, %b: f32, %d: f32, %partial_1: f32):
// CHECK-NEXT:       %0 = arith.constant 3.125000e-02 : f32
// CHECK-NEXT:       %1 = arith.mulf %partial_1, %0 : f32
// CHECK-NEXT:       %rstd = math.rsqrt %1 : f32
// CHECK-NEXT:       %2 = arith.mulf %b, %rstd : f32
// CHECK-NEXT:       %3 = arith.mulf %2, %d : f32
// CHECK-NEXT:       %4 = arith.addf %a, %3 : f32
// CHECK-NEXT:       gemm.yield %4 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y : tensor<?x32xbf16>
// CHECK-NEXT: }

// -----

// What one row has of its own is the same for all elements: a scalar port reads it.

func.func @one_row(%x: tensor<1x1x8xf32>, %w: tensor<16x8xf32>, %v: tensor<8x16xf32>) -> tensor<1x1x8xf32> {
  %z, %partial = gemm.fused %x : tensor<1x1x8xf32>
    schedule<pointer, "16x16x16", warps = 4, stages = 2, group_m = 8>
    columns(%w : tensor<16x8xf32>)
      -> (tile : tensor<1x1x16xf32>, partial_row<max> : tensor<1x1x?xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc, %acc : f32, f32
    }
  %top = gemm.finalize row (max %partial : tensor<1x1x?xf32>) -> (tensor<1x1x1xf32>) {
  ^bb0(%0: f32):
    gemm.yield %0 : f32
  }
  %y = gemm.fused %z : tensor<1x1x16xf32>
    schedule<pointer, "16x16x16", warps = 4, stages = 2, group_m = 8>
    columns(%v : tensor<8x16xf32>) scalar(%top : tensor<1x1x1xf32>)
      -> (tile : tensor<1x1x8xf32>) {
    ^bb0(%acc: f32, %r: f32):
      %0 = arith.mulf %acc, %r : f32
      gemm.yield %0 : f32
    }
  func.return %y : tensor<1x1x8xf32>
}

// CHECK:      func.func @one_row(
// CHECK-NEXT:   %z, %partial = gemm.fused %x : tensor<1x1x8xf32>
// CHECK-NEXT:     schedule<pointer, "16x16x16", warps = 4, stages = 2, group_m = 8>
// CHECK-NEXT:     columns(%w : tensor<16x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<1x1x16xf32>, partial_row<max> : tensor<1x1x?xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc, %acc : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %y = gemm.fused %z : tensor<1x1x16xf32>
// CHECK-NEXT:     schedule<pointer, "16x16x16", warps = 4, stages = 2, group_m = 8>
// CHECK-NEXT:     columns(%v : tensor<8x16xf32>) partial_max(%partial : tensor<1x1x?xf32>)
// CHECK-NEXT:       -> (tile : tensor<1x1x8xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %partial_1: f32):
// CHECK-NEXT:       %0 = arith.mulf %acc, %partial_1 : f32
// CHECK-NEXT:       gemm.yield %0 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y : tensor<1x1x8xf32>
// CHECK-NEXT: }

// -----

// A pointwise kernel over 600 columns has two partials in each row.

func.func @of_map(%x: tensor<?x600xbf16>, %v: tensor<16x600xbf16>) -> tensor<?x16xbf16> {
  %p = gemm.map tile(%x : tensor<?x600xbf16>)
      -> (partial_row<add> : tensor<?x?xf32>) {
    ^bb0(%a: f32):
      %0 = arith.mulf %a, %a : f32
      gemm.yield %0 : f32
    }
  %s = gemm.finalize row (add %p : tensor<?x?xf32>) -> (tensor<?x1xf32>) {
  ^bb0(%0: f32):
    %1 = math.rsqrt %0 : f32
    gemm.yield %1 : f32
  }
  %y = gemm.fused %x : tensor<?x600xbf16>
    schedule<pointer, "16x16x16", warps = 4, stages = 2, group_m = 8>
    columns(%v : tensor<16x600xbf16>) col(%s : tensor<?x1xf32>)
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32, %r: f32):
      %0 = arith.mulf %acc, %r : f32
      gemm.yield %0 : f32
    }
  func.return %y : tensor<?x16xbf16>
}

// CHECK:      func.func @of_map(
// CHECK-NEXT:   %p = gemm.map tile(%x : tensor<?x600xbf16>)
// CHECK-NEXT:       -> (partial_row<add> : tensor<?x?xf32>) {
// CHECK-NEXT:     ^bb0(%a: f32):
// CHECK-NEXT:       %0 = arith.mulf %a, %a : f32
// CHECK-NEXT:       gemm.yield %0 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %y = gemm.fused %x : tensor<?x600xbf16>
// CHECK-NEXT:     schedule<pointer, "16x16x16", warps = 4, stages = 2, group_m = 8>
// CHECK-NEXT:     columns(%v : tensor<16x600xbf16>) partial_add(%p : tensor<?x?xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %p_1: f32):
// CHECK-NEXT:       %s = math.rsqrt %p_1 : f32
// CHECK-NEXT:       %0 = arith.mulf %acc, %s : f32
// CHECK-NEXT:       gemm.yield %0 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// The caller reads the scale of each row, too: the pointwise kernel stores it, in the first tile.

func.func @stored(%x: tensor<?x8xf32>, %w: tensor<1024x8xf32>) -> (tensor<?x1024xf32>, tensor<?x1xf32>) {
  %z, %partial = gemm.fused %x : tensor<?x8xf32>
    schedule<pointer, "16x16x16", warps = 4, stages = 2, group_m = 8>
    columns(%w : tensor<1024x8xf32>)
      -> (tile : tensor<?x1024xf32>, partial_row<max> : tensor<?x?xf32>) {
    ^bb0(%acc: f32):
      %0 = math.absf %acc : f32
      gemm.yield %acc, %0 : f32, f32
    }
  %inverse, %s = gemm.finalize row (max %partial : tensor<?x?xf32>)
      -> (tensor<?x1xf32>, tensor<?x1xf32>) {
  ^bb0(%0: f32):
    %1 = arith.constant 1.270000e+02 : f32
    %2 = arith.divf %1, %0 : f32
    %3 = arith.divf %0, %1 : f32
    gemm.yield %2, %3 : f32, f32
  }
  %y = gemm.map tile(%z : tensor<?x1024xf32>) col(%inverse : tensor<?x1xf32>)
      -> (tile : tensor<?x1024xf32>) {
    ^bb0(%a: f32, %b: f32):
      %0 = arith.mulf %a, %b : f32
      gemm.yield %0 : f32
    }
  func.return %y, %s : tensor<?x1024xf32>, tensor<?x1xf32>
}

// CHECK:      func.func @stored(%x: tensor<?x8xf32>, %w: tensor<1024x8xf32>) -> (tensor<?x1024xf32>, tensor<?x1xf32>) {
// CHECK-NEXT:   %z, %partial = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     schedule<pointer, "16x16x16", warps = 4, stages = 2, group_m = 8>
// CHECK-NEXT:     columns(%w : tensor<1024x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x1024xf32>, partial_row<max> : tensor<?x?xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       %0 = math.absf %acc : f32
// CHECK-NEXT:       gemm.yield %acc, %0 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %y, %s = gemm.map tile(%z : tensor<?x1024xf32>) partial_max(%partial : tensor<?x?xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x1024xf32>, group<1024> : tensor<?x1xf32>) {
// CHECK-NEXT:     ^bb0(%a: f32, %partial_1: f32):
// CHECK-NEXT:       %0 = arith.constant 1.270000e+02 : f32
// CHECK-NEXT:       %inverse = arith.divf %0, %partial_1 : f32
// CHECK-NEXT:       %s_1 = arith.divf %partial_1, %0 : f32
// CHECK-NEXT:       %1 = arith.mulf %a, %inverse : f32
// CHECK-NEXT:       gemm.yield %1, %s_1 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y, %s : tensor<?x1024xf32>, tensor<?x1xf32>
// CHECK-NEXT: }

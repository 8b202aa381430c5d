// RUN: coda-opt %s -p split-reductions --split-input-file | filecheck %s

// RMS statistics: the sum of squares of each tile, then rsqrt(sum/N + eps).

func.func @rms(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %r: tensor<?x16xbf16>) -> (tensor<?x16xbf16>, tensor<?x1xf32>) {
  %y = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>) tile(%r : tensor<?x16xbf16>)
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32, %r_1: f32):
      %y_1 = arith.addf %acc, %r_1 : f32
      gemm.yield %y_1 : f32
    }
  %rstd = coda.norm_stats %y {kind = "rms", eps = 1.000000e-06 : f64} : (tensor<?x16xbf16>) -> tensor<?x1xf32>
  func.return %y, %rstd : tensor<?x16xbf16>, tensor<?x1xf32>
}

// CHECK:      func.func @rms(
// CHECK-NEXT:   %y, %partial = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<16x8xbf16>) tile(%r : tensor<?x16xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>, partial_row<add> : tensor<?x?xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %r_1: f32):
// CHECK-NEXT:       %y_1 = arith.addf %acc, %r_1 : f32
// CHECK-NEXT:       %0 = arith.mulf %y_1, %y_1 : f32
// CHECK-NEXT:       gemm.yield %y_1, %0 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %rstd = gemm.finalize row (add %partial : tensor<?x?xf32>) -> (tensor<?x1xf32>) {
// CHECK-NEXT:   ^bb0(%0: f32):
// CHECK-NEXT:     %1 = arith.constant 6.250000e-02 : f32
// CHECK-NEXT:     %2 = arith.mulf %0, %1 : f32
// CHECK-NEXT:     %3 = arith.constant {gemm.exact = 1.000000e-06 : f64} 1.000000e-06 : f32
// CHECK-NEXT:     %4 = arith.addf %2, %3 : f32
// CHECK-NEXT:     %5 = math.rsqrt %4 : f32
// CHECK-NEXT:     gemm.yield %5 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %y, %rstd : tensor<?x16xbf16>, tensor<?x1xf32>
// CHECK-NEXT: }

// -----

// LayerNorm statistics: sums of elements and of squares; the variance is not below 0.

func.func @layer(%x: tensor<?x8xf32>, %w: tensor<16x8xf32>) -> (tensor<?x1xf32>, tensor<?x1xf32>) {
  %z = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<16x8xf32>)
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %rstd, %mean = coda.norm_stats %z {kind = "layer", eps = 1.000000e-05 : f64} : (tensor<?x16xbf16>) -> (tensor<?x1xf32>, tensor<?x1xf32>)
  func.return %rstd, %mean : tensor<?x1xf32>, tensor<?x1xf32>
}

// CHECK:      func.func @layer(
// CHECK-NEXT:   %z, %partial, %partial_1 = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<16x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>, partial_row<add> : tensor<?x?xf32>, partial_row<add> : tensor<?x?xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       %0 = arith.mulf %acc, %acc : f32
// CHECK-NEXT:       gemm.yield %acc, %acc, %0 : f32, f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %rstd, %mean = gemm.finalize row (add %partial : tensor<?x?xf32>, add %partial_1 : tensor<?x?xf32>) -> (tensor<?x1xf32>, tensor<?x1xf32>) {
// CHECK-NEXT:   ^bb0(%0: f32, %1: f32):
// CHECK-NEXT:     %2 = arith.constant 6.250000e-02 : f32
// CHECK-NEXT:     %3 = arith.mulf %0, %2 : f32
// CHECK-NEXT:     %4 = arith.mulf %1, %2 : f32
// CHECK-NEXT:     %5 = arith.mulf %3, %3 : f32
// CHECK-NEXT:     %6 = arith.subf %4, %5 : f32
// CHECK-NEXT:     %7 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:     %8 = arith.maximumf %6, %7 : f32
// CHECK-NEXT:     %9 = arith.constant {gemm.exact = 1.000000e-05 : f64} 1.000000e-05 : f32
// CHECK-NEXT:     %10 = arith.addf %8, %9 : f32
// CHECK-NEXT:     %11 = math.rsqrt %10 : f32
// CHECK-NEXT:     gemm.yield %11, %3 : f32, f32
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %rstd, %mean : tensor<?x1xf32>, tensor<?x1xf32>
// CHECK-NEXT: }

// -----

// The reductions by name; the result of a mean is rounded to its type at the end only.

func.func @reduce(%x: tensor<?x8xf32>, %w: tensor<16x8xf32>) -> (tensor<?x1xf32>, tensor<?x1xbf16>, tensor<?x1xf32>, tensor<?x1xf32>) {
  %z = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<16x8xf32>)
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %sum = coda.reduce %z {kind = "sum"} : (tensor<?x16xf32>) -> tensor<?x1xf32>
  %mean = coda.reduce %z {kind = "mean"} : (tensor<?x16xf32>) -> tensor<?x1xbf16>
  %max = coda.reduce %z {kind = "max"} : (tensor<?x16xf32>) -> tensor<?x1xf32>
  %lse = coda.reduce %z {kind = "lse"} : (tensor<?x16xf32>) -> tensor<?x1xf32>
  func.return %sum, %mean, %max, %lse : tensor<?x1xf32>, tensor<?x1xbf16>, tensor<?x1xf32>, tensor<?x1xf32>
}

// CHECK:      func.func @reduce(
// CHECK-NEXT:   %z, %partial, %partial_1, %partial_2, %partial_3 = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<16x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>, partial_row<add> : tensor<?x?xf32>, partial_row<add> : tensor<?x?xf32>, partial_row<max> : tensor<?x?xf32>, partial_row<lse> : tensor<?x?xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc, %acc, %acc, %acc, %acc : f32, f32, f32, f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %sum = gemm.finalize row (add %partial : tensor<?x?xf32>) -> (tensor<?x1xf32>) {
// CHECK-NEXT:   ^bb0(%0: f32):
// CHECK-NEXT:     gemm.yield %0 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   %mean = gemm.finalize row (add %partial_1 : tensor<?x?xf32>) -> (tensor<?x1xbf16>) {
// CHECK-NEXT:   ^bb0(%0: f32):
// CHECK-NEXT:     %1 = arith.constant 6.250000e-02 : f32
// CHECK-NEXT:     %2 = arith.mulf %0, %1 : f32
// CHECK-NEXT:     gemm.yield %2 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   %max = gemm.finalize row (max %partial_2 : tensor<?x?xf32>) -> (tensor<?x1xf32>) {
// CHECK-NEXT:   ^bb0(%0: f32):
// CHECK-NEXT:     gemm.yield %0 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   %lse = gemm.finalize row (lse %partial_3 : tensor<?x?xf32>) -> (tensor<?x1xf32>) {
// CHECK-NEXT:   ^bb0(%0: f32):
// CHECK-NEXT:     gemm.yield %0 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %sum, %mean, %max, %lse : tensor<?x1xf32>, tensor<?x1xbf16>, tensor<?x1xf32>, tensor<?x1xf32>
// CHECK-NEXT: }

// -----

// In pair mode the contributions of both columns are combined first; a half result has one. The
// tile of a pointwise kernel is split as well.

func.func @pairs(%x: tensor<?x8xf32>, %w: tensor<16x8xf32>) -> (tensor<?x1xf32>, tensor<?x1xf32>, tensor<?x1xf32>) {
  %z, %h = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<16x8xf32>) pair<halves>
      -> (tile : tensor<?x16xf32>, half : tensor<?x8xf32>) {
    ^bb0(%a: f32, %b: f32):
      %m = arith.mulf %a, %b : f32
      gemm.yield %a, %b, %m : f32, f32, f32
    }
  %e = gemm.map tile(%h : tensor<?x8xf32>)
      -> (tile : tensor<?x8xf32>) {
    ^bb0(%a: f32):
      %m = math.exp %a : f32
      gemm.yield %m : f32
    }
  %rstd = coda.norm_stats %z {kind = "rms", eps = 1.0e-6 : f64} : (tensor<?x16xf32>) -> tensor<?x1xf32>
  %max = coda.reduce %h {kind = "max"} : (tensor<?x8xf32>) -> tensor<?x1xf32>
  %sum = coda.reduce %e {kind = "sum"} : (tensor<?x8xf32>) -> tensor<?x1xf32>
  func.return %rstd, %max, %sum : tensor<?x1xf32>, tensor<?x1xf32>, tensor<?x1xf32>
}

// CHECK:      func.func @pairs(
// CHECK-NEXT:   %h, %partial, %partial_1 = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<16x8xf32>) pair<halves>
// CHECK-NEXT:       -> (half : tensor<?x8xf32>, partial_row<add> : tensor<?x?xf32>, partial_row<max> : tensor<?x?xf32>) {
// CHECK-NEXT:     ^bb0(%a: f32, %b: f32):
// CHECK-NEXT:       %m = arith.mulf %a, %b : f32
// CHECK-NEXT:       %0 = arith.mulf %a, %a : f32
// CHECK-NEXT:       %1 = arith.mulf %b, %b : f32
// CHECK-NEXT:       %2 = arith.addf %0, %1 : f32
// CHECK-NEXT:       gemm.yield %m, %2, %m : f32, f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %e, %partial_2 = gemm.map tile(%h : tensor<?x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x8xf32>, partial_row<add> : tensor<?x?xf32>) {
// CHECK-NEXT:     ^bb0(%a: f32):
// CHECK-NEXT:       %m = math.exp %a : f32
// CHECK-NEXT:       gemm.yield %m, %m : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %rstd = gemm.finalize row (add %partial : tensor<?x?xf32>) -> (tensor<?x1xf32>) {
// CHECK-NEXT:   ^bb0(%0: f32):
// CHECK-NEXT:     %1 = arith.constant 6.250000e-02 : f32
// CHECK-NEXT:     %2 = arith.mulf %0, %1 : f32
// CHECK-NEXT:     %3 = arith.constant {gemm.exact = 1.000000e-06 : f64} 1.000000e-06 : f32
// CHECK-NEXT:     %4 = arith.addf %2, %3 : f32
// CHECK-NEXT:     %5 = math.rsqrt %4 : f32
// CHECK-NEXT:     gemm.yield %5 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   %max = gemm.finalize row (max %partial_1 : tensor<?x?xf32>) -> (tensor<?x1xf32>) {
// CHECK-NEXT:   ^bb0(%0: f32):
// CHECK-NEXT:     gemm.yield %0 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   %sum = gemm.finalize row (add %partial_2 : tensor<?x?xf32>) -> (tensor<?x1xf32>) {
// CHECK-NEXT:   ^bb0(%0: f32):
// CHECK-NEXT:     gemm.yield %0 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %rstd, %max, %sum : tensor<?x1xf32>, tensor<?x1xf32>, tensor<?x1xf32>
// CHECK-NEXT: }

// -----

// Every column of a tile is summed over all rows: the gradient of a bias, in pair mode too.

func.func @bias(%x: tensor<?x?x8xbf16>, %w: tensor<16x8xbf16>) -> (tensor<?x?x16xbf16>, tensor<16xbf16>) {
  %dz = gemm.fused %x : tensor<?x?x8xbf16>
    columns(%w : tensor<16x8xbf16>) pair<halves, 8>
      -> (tile : tensor<?x?x16xbf16>) {
    ^bb0(%a: f32, %b: f32):
      gemm.yield %b, %a : f32, f32
    }
  %db = coda.sum_to %dz : (tensor<?x?x16xbf16>) -> tensor<16xbf16>
  func.return %dz, %db : tensor<?x?x16xbf16>, tensor<16xbf16>
}

// CHECK:      func.func @bias(
// CHECK-NEXT:   %dz, %partial = gemm.fused %x : tensor<?x?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<16x8xbf16>) pair<halves, 8>
// CHECK-NEXT:       -> (tile : tensor<?x?x16xbf16>, partial_col<add> : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%a: f32, %b: f32):
// CHECK-NEXT:       gemm.yield %b, %a, %b, %a : f32, f32, f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %db = gemm.finalize col (add %partial : tensor<?x16xf32>) -> (tensor<16xbf16>) {
// CHECK-NEXT:   ^bb0(%0: f32):
// CHECK-NEXT:     gemm.yield %0 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %dz, %db : tensor<?x?x16xbf16>, tensor<16xbf16>
// CHECK-NEXT: }

// -----

// A pointwise kernel sums its columns as well; the result may have another type.

func.func @pointwise(%x: tensor<?x8xbf16>) -> tensor<8xf32> {
  %y = gemm.map tile(%x : tensor<?x8xbf16>)
      -> (tile : tensor<?x8xbf16>) {
    ^bb0(%a: f32):
      %0 = arith.mulf %a, %a : f32
      gemm.yield %0 : f32
    }
  %dgamma = coda.sum_to %y : (tensor<?x8xbf16>) -> tensor<8xf32>
  func.return %dgamma : tensor<8xf32>
}

// CHECK:      func.func @pointwise(
// CHECK-NEXT:   %y, %partial = gemm.map tile(%x : tensor<?x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x8xbf16>, partial_col<add> : tensor<?x8xf32>) {
// CHECK-NEXT:     ^bb0(%a: f32):
// CHECK-NEXT:       %0 = arith.mulf %a, %a : f32
// CHECK-NEXT:       gemm.yield %0, %0 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %dgamma = gemm.finalize col (add %partial : tensor<?x8xf32>) -> (tensor<8xf32>) {
// CHECK-NEXT:   ^bb0(%0: f32):
// CHECK-NEXT:     gemm.yield %0 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %dgamma : tensor<8xf32>
// CHECK-NEXT: }

// -----

// Sums of what a kernel loads, by column and by row, and code before the kernel that needs one.

func.func @loaded(%a: tensor<?x4xbf16>, %w: tensor<8x4xbf16>, %x: tensor<?x8xbf16>) -> (tensor<?x8xbf16>, tensor<8xbf16>, tensor<?x1xf32>) {
  %db = coda.sum_to %x : (tensor<?x8xbf16>) -> tensor<8xbf16>
  %s = coda.reduce %x {kind = "sum"} : (tensor<?x8xbf16>) -> tensor<?x1xf32>
  %e = coda.exp %s : (tensor<?x1xf32>) -> tensor<?x1xf32>
  %y = gemm.fused %a : tensor<?x4xbf16>
    columns(%w : tensor<8x4xbf16>) tile(%x : tensor<?x8xbf16>)
    -> (tile : tensor<?x8xbf16>) {
    ^bb0(%acc: f32, %x_1: f32):
      %0 = arith.addf %acc, %x_1 : f32
      gemm.yield %0 : f32
    }
  func.return %y, %db, %e : tensor<?x8xbf16>, tensor<8xbf16>, tensor<?x1xf32>
}

// CHECK:      func.func @loaded(
// CHECK-NEXT:   %y, %partial, %partial_1 = gemm.fused %a : tensor<?x4xbf16>
// CHECK-NEXT:     columns(%w : tensor<8x4xbf16>) tile(%x : tensor<?x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x8xbf16>, partial_col<add> : tensor<?x8xf32>, partial_row<add> : tensor<?x?xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %x_1: f32):
// CHECK-NEXT:       %0 = arith.addf %acc, %x_1 : f32
// CHECK-NEXT:       gemm.yield %0, %x_1, %x_1 : f32, f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %s = gemm.finalize row (add %partial_1 : tensor<?x?xf32>) -> (tensor<?x1xf32>) {
// CHECK-NEXT:   ^bb0(%0: f32):
// CHECK-NEXT:     gemm.yield %0 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   %e = coda.exp %s : (tensor<?x1xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %db = gemm.finalize col (add %partial : tensor<?x8xf32>) -> (tensor<8xbf16>) {
// CHECK-NEXT:   ^bb0(%0: f32):
// CHECK-NEXT:     gemm.yield %0 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %y, %db, %e : tensor<?x8xbf16>, tensor<8xbf16>, tensor<?x1xf32>
// CHECK-NEXT: }

// -----

// The gradient of a scale: everything is summed, by row and then over the rows.

func.func @scale(%x: tensor<?x3x4xbf16>, %w: tensor<8x4xbf16>, %dy: tensor<?x3x8xbf16>) -> (tensor<?x3x8xbf16>, tensor<bf16>) {
  %y, %p = gemm.fused %x : tensor<?x3x4xbf16>
    columns(%w : tensor<8x4xbf16>) tile(%dy : tensor<?x3x8xbf16>)
    -> (tile : tensor<?x3x8xbf16>, tile : tensor<?x3x8xbf16>) {
    ^bb0(%acc: f32, %dy_1: f32):
      %0 = arith.mulf %acc, %dy_1 : f32
      gemm.yield %acc, %0 : f32, f32
    }
  %ds = coda.sum_to %p : (tensor<?x3x8xbf16>) -> tensor<bf16>
  func.return %y, %ds : tensor<?x3x8xbf16>, tensor<bf16>
}

// CHECK:      func.func @scale(
// CHECK-NEXT:   %y, %p, %partial = gemm.fused %x : tensor<?x3x4xbf16>
// CHECK-NEXT:     columns(%w : tensor<8x4xbf16>) tile(%dy : tensor<?x3x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x3x8xbf16>, tile : tensor<?x3x8xbf16>, partial_row<add> : tensor<?x3x?xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %dy_1: f32):
// CHECK-NEXT:       %0 = arith.mulf %acc, %dy_1 : f32
// CHECK-NEXT:       gemm.yield %acc, %0, %0 : f32, f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %0 = gemm.finalize row (add %partial : tensor<?x3x?xf32>) -> (tensor<?x3x1xf32>) {
// CHECK-NEXT:   ^bb0(%1: f32):
// CHECK-NEXT:     gemm.yield %1 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   %1 = coda.reshape %0 : (tensor<?x3x1xf32>) -> tensor<?xf32>
// CHECK-NEXT:   %ds = gemm.finalize row (add %1 : tensor<?xf32>) -> (tensor<bf16>) {
// CHECK-NEXT:   ^bb0(%2: f32):
// CHECK-NEXT:     gemm.yield %2 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %y, %ds : tensor<?x3x8xbf16>, tensor<bf16>
// CHECK-NEXT: }

// -----

// The sum over the rows of each sample has partials of each sample: of a GEMM, and of a pointwise
// kernel over two dimensions of rows.

func.func @samples(%x: tensor<?x?x8xf32>, %w: tensor<16x8xf32>) -> (tensor<?x?x16xf32>, tensor<?x1x16xf32>) {
  %z = gemm.fused %x : tensor<?x?x8xf32>
    columns(%w : tensor<16x8xf32>)
      -> (tile : tensor<?x?x16xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %d = coda.sum_to %z : (tensor<?x?x16xf32>) -> tensor<?x1x16xf32>
  func.return %z, %d : tensor<?x?x16xf32>, tensor<?x1x16xf32>
}

// CHECK:      func.func @samples(
// CHECK-NEXT:   %z, %partial = gemm.fused %x : tensor<?x?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<16x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x?x16xf32>, partial_col<add> : tensor<?x?x16xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc, %acc : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %d = gemm.finalize col (add %partial : tensor<?x?x16xf32>) -> (tensor<?x16xf32>) {
// CHECK-NEXT:   ^bb0(%0: f32):
// CHECK-NEXT:     gemm.yield %0 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   %d_1 = coda.reshape %d : (tensor<?x16xf32>) -> tensor<?x1x16xf32>
// CHECK-NEXT:   func.return %z, %d_1 : tensor<?x?x16xf32>, tensor<?x1x16xf32>
// CHECK-NEXT: }

// -----

func.func @rows_of_rows(%x: tensor<?x3x4x8xf32>) -> (tensor<?x3x4x8xf32>, tensor<?x1x1x8xf32>) {
  %z = gemm.map tile(%x : tensor<?x3x4x8xf32>)
      -> (tile : tensor<?x3x4x8xf32>) {
    ^bb0(%a: f32):
      %0 = arith.mulf %a, %a : f32
      gemm.yield %0 : f32
    }
  %d = coda.sum_to %z : (tensor<?x3x4x8xf32>) -> tensor<?x1x1x8xf32>
  func.return %z, %d : tensor<?x3x4x8xf32>, tensor<?x1x1x8xf32>
}

// CHECK:      func.func @rows_of_rows(
// CHECK-NEXT:   %z, %partial = gemm.map tile(%x : tensor<?x3x4x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x3x4x8xf32>, partial_col<add> : tensor<?x?x8xf32>) {
// CHECK-NEXT:     ^bb0(%a: f32):
// CHECK-NEXT:       %0 = arith.mulf %a, %a : f32
// CHECK-NEXT:       gemm.yield %0, %0 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %d = gemm.finalize col (add %partial : tensor<?x?x8xf32>) -> (tensor<?x8xf32>) {
// CHECK-NEXT:   ^bb0(%0: f32):
// CHECK-NEXT:     gemm.yield %0 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   %d_1 = coda.reshape %d : (tensor<?x8xf32>) -> tensor<?x1x1x8xf32>
// CHECK-NEXT:   func.return %z, %d_1 : tensor<?x3x4x8xf32>, tensor<?x1x1x8xf32>
// CHECK-NEXT: }

// -----

// Of an argument, which a kernel loads for the sum; of the rows of a tile in another order.

func.func @sum_of_argument(%x: tensor<?x3x8xbf16>) -> tensor<8xbf16> {
  %d = coda.sum_to %x : (tensor<?x3x8xbf16>) -> tensor<8xbf16>
  func.return %d : tensor<8xbf16>
}

// CHECK:      func.func @sum_of_argument(
// CHECK-NEXT:   %partial = gemm.map tile(%x : tensor<?x3x8xbf16>)
// CHECK-NEXT:       -> (partial_col<add> : tensor<?x8xf32>) {
// CHECK-NEXT:     ^bb0(%x_1: f32):
// CHECK-NEXT:       gemm.yield %x_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %d = gemm.finalize col (add %partial : tensor<?x8xf32>) -> (tensor<8xbf16>) {
// CHECK-NEXT:   ^bb0(%0: f32):
// CHECK-NEXT:     gemm.yield %0 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %d : tensor<8xbf16>
// CHECK-NEXT: }

// -----

func.func @rows_in_another_order(%x: tensor<2x3x8xbf16>) -> (tensor<3x2x8xbf16>, tensor<8xbf16>) {
  %z = gemm.map tile(%x : tensor<2x3x8xbf16>)
      -> (tile : tensor<2x3x8xbf16>) {
    ^bb0(%a: f32):
      %0 = arith.mulf %a, %a : f32
      gemm.yield %0 : f32
    }
  %t = coda.transpose %z {perm = [1, 0, 2]} : (tensor<2x3x8xbf16>) -> tensor<3x2x8xbf16>
  %d = coda.sum_to %t : (tensor<3x2x8xbf16>) -> tensor<8xbf16>
  func.return %t, %d : tensor<3x2x8xbf16>, tensor<8xbf16>
}

// CHECK:      func.func @rows_in_another_order(
// CHECK-NEXT:   %z, %partial = gemm.map tile(%x : tensor<2x3x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<2x3x8xbf16>, partial_col<add> : tensor<?x8xf32>) {
// CHECK-NEXT:     ^bb0(%a: f32):
// CHECK-NEXT:       %0 = arith.mulf %a, %a : f32
// CHECK-NEXT:       gemm.yield %0, %0 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %t = coda.transpose %z {perm = [1 : i64, 0 : i64, 2 : i64]} : (tensor<2x3x8xbf16>) -> tensor<3x2x8xbf16>
// CHECK-NEXT:   %d = gemm.finalize col (add %partial : tensor<?x8xf32>) -> (tensor<8xbf16>) {
// CHECK-NEXT:   ^bb0(%0: f32):
// CHECK-NEXT:     gemm.yield %0 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %t, %d : tensor<3x2x8xbf16>, tensor<8xbf16>
// CHECK-NEXT: }

// -----

// Sums of row sums that keep the heads: over the rows of each, over the samples, and over both. Of a
// dimension between two that stay, the sum runs as a separate kernel.

func.func @heads(%x: tensor<2x3x4x1xf32>) -> (tensor<3x1x1xbf16>, tensor<2x3x1x1xf32>, tensor<3x4x1xf32>, tensor<2x1x4x1xf32>) {
  %a = coda.sum_to %x : (tensor<2x3x4x1xf32>) -> tensor<3x1x1xbf16>
  %b = coda.sum_to %x : (tensor<2x3x4x1xf32>) -> tensor<2x3x1x1xf32>
  %c = coda.sum_to %x : (tensor<2x3x4x1xf32>) -> tensor<3x4x1xf32>
  %d = coda.sum_to %x : (tensor<2x3x4x1xf32>) -> tensor<2x1x4x1xf32>
  func.return %a, %b, %c, %d : tensor<3x1x1xbf16>, tensor<2x3x1x1xf32>, tensor<3x4x1xf32>, tensor<2x1x4x1xf32>
}

// CHECK:      func.func @heads(
// CHECK-NEXT:   %x_1 = coda.reshape %x : (tensor<2x3x4x1xf32>) -> tensor<2x3x?xf32>
// CHECK-NEXT:   %0 = gemm.finalize row (add %x_1 : tensor<2x3x?xf32>) -> (tensor<2x3xf32>) {
// CHECK-NEXT:   ^bb0(%1: f32):
// CHECK-NEXT:     gemm.yield %1 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   %1 = coda.reshape %0 : (tensor<2x3xf32>) -> tensor<?x3xf32>
// CHECK-NEXT:   %2 = gemm.finalize col (add %1 : tensor<?x3xf32>) -> (tensor<3xbf16>) {
// CHECK-NEXT:   ^bb0(%3: f32):
// CHECK-NEXT:     gemm.yield %3 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   %a = coda.reshape %2 : (tensor<3xbf16>) -> tensor<3x1x1xbf16>
// CHECK-NEXT:   %x_2 = coda.reshape %x : (tensor<2x3x4x1xf32>) -> tensor<2x3x?xf32>
// CHECK-NEXT:   %3 = gemm.finalize row (add %x_2 : tensor<2x3x?xf32>) -> (tensor<2x3xf32>) {
// CHECK-NEXT:   ^bb0(%4: f32):
// CHECK-NEXT:     gemm.yield %4 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   %b = coda.reshape %3 : (tensor<2x3xf32>) -> tensor<2x3x1x1xf32>
// CHECK-NEXT:   %x_3 = coda.reshape %x : (tensor<2x3x4x1xf32>) -> tensor<?x12xf32>
// CHECK-NEXT:   %4 = gemm.finalize col (add %x_3 : tensor<?x12xf32>) -> (tensor<12xf32>) {
// CHECK-NEXT:   ^bb0(%5: f32):
// CHECK-NEXT:     gemm.yield %5 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   %c = coda.reshape %4 : (tensor<12xf32>) -> tensor<3x4x1xf32>
// CHECK-NEXT:   %d = coda.sum_to %x : (tensor<2x3x4x1xf32>) -> tensor<2x1x4x1xf32>
// CHECK-NEXT:   func.return %a, %b, %c, %d : tensor<3x1x1xbf16>, tensor<2x3x1x1xf32>, tensor<3x4x1xf32>, tensor<2x1x4x1xf32>
// CHECK-NEXT: }

// -----

// Over the many rows of each sample of an argument.

func.func @samples_of_argument(%x: tensor<?x128x8xbf16>) -> tensor<?x1x8xbf16> {
  %d = coda.sum_to %x : (tensor<?x128x8xbf16>) -> tensor<?x1x8xbf16>
  func.return %d : tensor<?x1x8xbf16>
}

// CHECK:      func.func @samples_of_argument(
// CHECK-NEXT:   %partial = gemm.map tile(%x : tensor<?x128x8xbf16>)
// CHECK-NEXT:       -> (partial_col<add> : tensor<?x?x8xf32>) {
// CHECK-NEXT:     ^bb0(%x_1: f32):
// CHECK-NEXT:       gemm.yield %x_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %d = gemm.finalize col (add %partial : tensor<?x?x8xf32>) -> (tensor<?x8xbf16>) {
// CHECK-NEXT:   ^bb0(%0: f32):
// CHECK-NEXT:     gemm.yield %0 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   %d_1 = coda.reshape %d : (tensor<?x8xbf16>) -> tensor<?x1x8xbf16>
// CHECK-NEXT:   func.return %d_1 : tensor<?x1x8xbf16>
// CHECK-NEXT: }

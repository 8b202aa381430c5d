// RUN: coda-opt %s -p split-reductions --split-input-file | filecheck %s
// RUN: coda-opt %s -p split-reductions --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// A mean over a symbolic number of columns.

func.func @mean(%x: tensor<?x8xf32>, %w: tensor<?x8xf32>) -> tensor<?x1xf32> {
  %z = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<?x8xf32>)
      -> (tile : tensor<?x?xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %mean = coda.reduce %z {kind = "mean"} : (tensor<?x?xf32>) -> tensor<?x1xf32>
  func.return %mean : tensor<?x1xf32>
}

// REMARK: remark[missed] split-reductions: coda.reduce: the reduction runs as a separate kernel: %z has a symbolic number of columns; failed condition: the number of columns is static; costs 4*d0*d1 + 4*d0 bytes
// REMARK: help: give the last dimension as a number or a const
// CHECK:      func.func @mean(
// CHECK-NEXT:   %z = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<?x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x?xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %mean = coda.reduce %z {kind = "mean"} : (tensor<?x?xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   func.return %mean : tensor<?x1xf32>
// CHECK-NEXT: }

// -----

// So are the statistics of a norm.

func.func @rms(%x: tensor<?x8xf32>, %w: tensor<?x8xf32>) -> tensor<?x1xf32> {
  %z = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<?x8xf32>)
      -> (tile : tensor<?x?xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %rstd = coda.norm_stats %z {kind = "rms", eps = 1.000000e-06 : f64} : (tensor<?x?xf32>) -> tensor<?x1xf32>
  func.return %rstd : tensor<?x1xf32>
}

// REMARK: remark[missed] split-reductions: coda.norm_stats: the reduction runs as a separate kernel: %z has a symbolic number of columns; failed condition: the number of columns is static; costs 4*d0*d1 + 4*d0 bytes
// REMARK: help: give the last dimension as a number or a const
// CHECK:      func.func @rms(
// CHECK-NEXT:   %z = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<?x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x?xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %rstd = coda.norm_stats %z {kind = "rms", eps = 1.000000e-06 : f64} : (tensor<?x?xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   func.return %rstd : tensor<?x1xf32>
// CHECK-NEXT: }

// -----

// An argument: report-unfused says so.

func.func @argument(%z: tensor<?x16xf32>) -> tensor<?x1xf32> {
  %sum = coda.reduce %z {kind = "sum"} : (tensor<?x16xf32>) -> tensor<?x1xf32>
  func.return %sum : tensor<?x1xf32>
}

// CHECK:      func.func @argument(
// CHECK-NEXT:   %sum = coda.reduce %z {kind = "sum"} : (tensor<?x16xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   func.return %sum : tensor<?x1xf32>
// CHECK-NEXT: }

// -----

// The statistics of a LayerNorm of float32 are no difference of sums.

func.func @layer_of_float32(%x: tensor<?x8xf32>, %w: tensor<16x8xf32>) -> (tensor<?x1xf32>, tensor<?x1xf32>) {
  %z = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<16x8xf32>)
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %rstd, %mean = coda.norm_stats %z {kind = "layer", eps = 1.000000e-05 : f64} : (tensor<?x16xf32>) -> (tensor<?x1xf32>, tensor<?x1xf32>)
  func.return %rstd, %mean : tensor<?x1xf32>, tensor<?x1xf32>
}

// REMARK: remark[missed] split-reductions: coda.norm_stats: the statistics run as a separate kernel: %z is float32, where abs(mean) of a row may be far above its std; failed condition: rounding the input costs more accuracy than a difference of sums does; costs 72*d0 bytes
// REMARK: help: use bf16, or RMSNorm
// CHECK:      func.func @layer_of_float32(
// CHECK-NEXT:   %z = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<16x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %rstd, %mean = coda.norm_stats %z {kind = "layer", eps = 1.000000e-05 : f64} : (tensor<?x16xf32>) -> (tensor<?x1xf32>, tensor<?x1xf32>)
// CHECK-NEXT:   func.return %rstd, %mean : tensor<?x1xf32>, tensor<?x1xf32>
// CHECK-NEXT: }

// -----

// Sums over a part of the rows, and of one value per pair.

func.func @sums(%x: tensor<?x4x8xbf16>, %w: tensor<16x8xbf16>) -> (tensor<4x16xbf16>, tensor<8xbf16>) {
  %z, %y = gemm.fused %x : tensor<?x4x8xbf16>
    columns(%w : tensor<16x8xbf16>) pair<halves>
      -> (tile : tensor<?x4x16xbf16>, half : tensor<?x4x8xbf16>) {
    ^bb0(%a: f32, %b: f32):
      %0 = arith.mulf %a, %b : f32
      gemm.yield %a, %b, %0 : f32, f32, f32
    }
  %s = coda.sum_to %z : (tensor<?x4x16xbf16>) -> tensor<4x16xbf16>
  %t = coda.sum_to %y : (tensor<?x4x8xbf16>) -> tensor<8xbf16>
  func.return %s, %t : tensor<4x16xbf16>, tensor<8xbf16>
}

// REMARK: remark[missed] split-reductions: coda.sum_to: the sum runs as a separate kernel: its shape is 4x16; failed condition: the sum is over all rows, or over the rows of each sample; costs 128*d0 + 128 bytes
// REMARK: remark[missed] split-reductions: coda.sum_to: the sum runs as a separate kernel: %y has one value per pair; failed condition: each column is a column of the tile; costs 64*d0 + 16 bytes
// CHECK:      func.func @sums(
// CHECK-NEXT:   %z, %y = gemm.fused %x : tensor<?x4x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<16x8xbf16>) pair<halves>
// CHECK-NEXT:       -> (tile : tensor<?x4x16xbf16>, half : tensor<?x4x8xbf16>) {
// CHECK-NEXT:     ^bb0(%a: f32, %b: f32):
// CHECK-NEXT:       %0 = arith.mulf %a, %b : f32
// CHECK-NEXT:       gemm.yield %a, %b, %0 : f32, f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %s = coda.sum_to %z : (tensor<?x4x16xbf16>) -> tensor<4x16xbf16>
// CHECK-NEXT:   %t = coda.sum_to %y : (tensor<?x4x8xbf16>) -> tensor<8xbf16>
// CHECK-NEXT:   func.return %s, %t : tensor<4x16xbf16>, tensor<8xbf16>
// CHECK-NEXT: }

// -----

// The kernel that loads x needs its sum.

func.func @needed(%a: tensor<?x4xf32>, %w: tensor<8x4xf32>, %x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %s = coda.reduce %x {kind = "sum"} : (tensor<?x8xf32>) -> tensor<?x1xf32>
  %y = gemm.fused %a : tensor<?x4xf32>
    columns(%w : tensor<8x4xf32>) tile(%x : tensor<?x8xf32>) col(%s : tensor<?x1xf32>)
    -> (tile : tensor<?x8xf32>) {
    ^bb0(%acc: f32, %x_1: f32, %s_1: f32):
      %0 = arith.mulf %x_1, %s_1 : f32
      %1 = arith.addf %acc, %0 : f32
      gemm.yield %1 : f32
    }
  func.return %y : tensor<?x8xf32>
}

// CHECK:      func.func @needed(
// CHECK-NEXT:   %s = coda.reduce %x {kind = "sum"} : (tensor<?x8xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %y = gemm.fused %a : tensor<?x4xf32>
// CHECK-NEXT:     columns(%w : tensor<8x4xf32>) tile(%x : tensor<?x8xf32>) col(%s : tensor<?x1xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x8xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %x_1: f32, %s_1: f32):
// CHECK-NEXT:       %0 = arith.mulf %x_1, %s_1 : f32
// CHECK-NEXT:       %1 = arith.addf %acc, %0 : f32
// CHECK-NEXT:       gemm.yield %1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y : tensor<?x8xf32>
// CHECK-NEXT: }

// -----

// A sum over the rows of nobody knows how many columns, as the gradient of a norm's weight.

func.func @symbolic_columns(%x: tensor<?x?xf32> {coda.dims = ["M", "N"]}) -> tensor<?xf32> {
  %y = gemm.map tile(%x : tensor<?x?xf32>) -> (tile : tensor<?x?xf32>) {
  ^bb0(%x_1: f32):
    %0 = arith.mulf %x_1, %x_1 : f32
    gemm.yield %0 : f32
  }
  %s = coda.sum_to %y : (tensor<?x?xf32>) -> tensor<?xf32>
  func.return %s : tensor<?xf32>
}

// CHECK-LABEL: func.func @symbolic_columns(
// CHECK:         %s = coda.sum_to %y
// REMARK: %y has a symbolic number of columns; failed condition: the number of columns is static

// -----

// Kernels have no tiles of a symbolic number of columns. PyTorch computes such a product.

func.func @rows_of_symbolic_columns(%x: tensor<?x?xf32> {coda.dims = ["M", "N"]}, %w: tensor<?x8xf32> {coda.dims = ["N", 8]}, %a: tensor<?x8xf32> {coda.dims = ["M", 8]}) -> (tensor<?x1xf32>, tensor<?x1xf32>) {
  %y = gemm.map tile(%x : tensor<?x?xf32>) -> (tile : tensor<?x?xf32>) {
  ^bb0(%x_1: f32):
    %0 = arith.mulf %x_1, %x_1 : f32
    gemm.yield %0 : f32
  }
  %s = coda.reduce %y {kind = "sum"} : (tensor<?x?xf32>) -> tensor<?x1xf32>
  %z = gemm.fused %a : tensor<?x8xf32> columns(%w : tensor<?x8xf32>) -> (tile : tensor<?x?xf32>) {
  ^bb0(%acc: f32):
    gemm.yield %acc : f32
  }
  %t = coda.reduce %z {kind = "sum"} : (tensor<?x?xf32>) -> tensor<?x1xf32>
  func.return %s, %t : tensor<?x1xf32>, tensor<?x1xf32>
}

// CHECK-LABEL: func.func @rows_of_symbolic_columns(
// CHECK:         %s = coda.reduce %y {kind = "sum"} : (tensor<?x?xf32>) -> tensor<?x1xf32>
// CHECK:         %t = coda.reduce %z {kind = "sum"} : (tensor<?x?xf32>) -> tensor<?x1xf32>
// REMARK: coda.reduce: the reduction runs as a separate kernel: %y has a symbolic number of columns; failed condition: the number of columns is static
// REMARK: coda.reduce: the reduction runs as a separate kernel: %z has a symbolic number of columns; failed condition: the number of columns is static

// -----

// Samples that are not the first dimension.

func.func @last_dimension(%x: tensor<?x4x8xf32>, %w: tensor<16x8xf32>) -> (tensor<?x4x16xf32>, tensor<1x4x16xf32>) {
  %z = gemm.fused %x : tensor<?x4x8xf32>
    columns(%w : tensor<16x8xf32>)
      -> (tile : tensor<?x4x16xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %d = coda.sum_to %z : (tensor<?x4x16xf32>) -> tensor<1x4x16xf32>
  func.return %z, %d : tensor<?x4x16xf32>, tensor<1x4x16xf32>
}

// REMARK: remark[missed] split-reductions: coda.sum_to: the sum runs as a separate kernel: its shape is 1x4x16; failed condition: the sum is over all rows, or over the rows of each sample; costs 256*d0 + 256 bytes
// CHECK:      func.func @last_dimension(
// CHECK-NEXT:   %z = gemm.fused %x : tensor<?x4x8xf32>
// CHECK-NEXT:     columns(%w : tensor<16x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x4x16xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %d = coda.sum_to %z : (tensor<?x4x16xf32>) -> tensor<1x4x16xf32>
// CHECK-NEXT:   func.return %z, %d : tensor<?x4x16xf32>, tensor<1x4x16xf32>
// CHECK-NEXT: }

// -----

// A stated order of rows does not depend on where a sample begins.

func.func @deterministic(%x: tensor<?x?x8xf32>, %w: tensor<16x8xf32>) -> (tensor<?x?x16xf32>, tensor<?x1x16xf32>) attributes {coda.numerics = #gemm.numerics<"deterministic">} {
  %z = gemm.fused %x : tensor<?x?x8xf32>
    columns(%w : tensor<16x8xf32>)
      -> (tile : tensor<?x?x16xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %d = coda.sum_to %z : (tensor<?x?x16xf32>) -> tensor<?x1x16xf32>
  func.return %z, %d : tensor<?x?x16xf32>, tensor<?x1x16xf32>
}

// REMARK: remark[missed] split-reductions: coda.sum_to: the sum runs as a separate kernel: the rows of a sample may begin within a tile, and the mode is deterministic; failed condition: the order in which a sum adds rows does not depend on the tiles; costs 64*d0*d1 + 64*d0 bytes
// CHECK:      func.func @deterministic(
// CHECK-NEXT:   %z = gemm.fused %x : tensor<?x?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<16x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x?x16xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %d = coda.sum_to %z : (tensor<?x?x16xf32>) -> tensor<?x1x16xf32>
// CHECK-NEXT:   func.return %z, %d : tensor<?x?x16xf32>, tensor<?x1x16xf32>
// CHECK-NEXT: }

// -----

// Rows in groups, whose tiles are not known before the kernel runs.

func.func @groups(%x: tensor<?x8xf32>, %w: tensor<4x16x8xf32>, %e: tensor<4xi32>) -> (tensor<?x16xf32>, tensor<16xf32>) {
  %z = gemm.fused %x : tensor<?x8xf32> groups(%e : tensor<4xi32>)
    columns(%w : tensor<4x16x8xf32>)
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %s = coda.sum_to %z : (tensor<?x16xf32>) -> tensor<16xf32>
  func.return %z, %s : tensor<?x16xf32>, tensor<16xf32>
}

// REMARK: remark[missed] split-reductions: coda.sum_to: the sum runs as a separate kernel: the rows of the GEMM are in groups; failed condition: the rows of the GEMM are not in groups; costs 64*d0 + 64 bytes
// CHECK:      func.func @groups(%x: tensor<?x8xf32>, %w: tensor<4x16x8xf32>, %e: tensor<4xi32>) -> (tensor<?x16xf32>, tensor<16xf32>) {
// CHECK-NEXT:   %z = gemm.fused %x : tensor<?x8xf32> groups(%e : tensor<4xi32>)
// CHECK-NEXT:     columns(%w : tensor<4x16x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %s = coda.sum_to %z : (tensor<?x16xf32>) -> tensor<16xf32>
// CHECK-NEXT:   func.return %z, %s : tensor<?x16xf32>, tensor<16xf32>
// CHECK-NEXT: }

// -----

// A mean without elements.

func.func @no_columns(%x: tensor<?x0xf32>) -> (tensor<?x0xf32>, tensor<?x1xf32>) {
  %y = gemm.map tile(%x : tensor<?x0xf32>)
      -> (tile : tensor<?x0xf32>) {
    ^bb0(%a: f32):
      %e = math.exp %a : f32
      gemm.yield %e : f32
    }
  %m = coda.reduce %y {kind = "mean"} : (tensor<?x0xf32>) -> tensor<?x1xf32>
  func.return %y, %m : tensor<?x0xf32>, tensor<?x1xf32>
}

// REMARK: remark[missed] split-reductions: coda.reduce: the reduction runs as a separate kernel: %y has no columns; failed condition: no operand is empty; costs 4*d0 bytes
// CHECK:      func.func @no_columns(%x: tensor<?x0xf32>) -> (tensor<?x0xf32>, tensor<?x1xf32>) {
// CHECK-NEXT:   %y = gemm.map tile(%x : tensor<?x0xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x0xf32>) {
// CHECK-NEXT:     ^bb0(%a: f32):
// CHECK-NEXT:       %e = math.exp %a : f32
// CHECK-NEXT:       gemm.yield %e : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %m = coda.reduce %y {kind = "mean"} : (tensor<?x0xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   func.return %y, %m : tensor<?x0xf32>, tensor<?x1xf32>
// CHECK-NEXT: }

// -----

// Sums over a part of the rows of an argument, and over rows that are columns of another tensor.

func.func @other_sums(%x: tensor<?x4x16xbf16>, %y: tensor<8x8xbf16>) -> (tensor<4x16xbf16>, tensor<8xbf16>) {
  %s = coda.sum_to %x : (tensor<?x4x16xbf16>) -> tensor<4x16xbf16>
  %t = coda.transpose %y {perm = [1, 0]} : (tensor<8x8xbf16>) -> tensor<8x8xbf16>
  %d = coda.sum_to %t : (tensor<8x8xbf16>) -> tensor<8xbf16>
  func.return %s, %d : tensor<4x16xbf16>, tensor<8xbf16>
}

// CHECK:      func.func @other_sums(
// CHECK-NEXT:   %s = coda.sum_to %x : (tensor<?x4x16xbf16>) -> tensor<4x16xbf16>
// CHECK-NEXT:   %t = coda.transpose %y {perm = [1 : i64, 0 : i64]} : (tensor<8x8xbf16>) -> tensor<8x8xbf16>
// CHECK-NEXT:   %partial = gemm.map tile(%t : tensor<8x8xbf16>)
// CHECK-NEXT:       -> (partial_col<add> : tensor<?x8xf32>) {
// CHECK-NEXT:     ^bb0(%t_1: f32):
// CHECK-NEXT:       gemm.yield %t_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %d = gemm.finalize col (add %partial : tensor<?x8xf32>) -> (tensor<8xbf16>) {
// CHECK-NEXT:   ^bb0(%0: f32):
// CHECK-NEXT:     gemm.yield %0 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %s, %d : tensor<4x16xbf16>, tensor<8xbf16>
// CHECK-NEXT: }

// -----

// Sums over few rows of each sample of an argument, and over an unknown number.

func.func @few_rows(%x: tensor<2x64x8xbf16>, %y: tensor<2x?x8xbf16>) -> (tensor<2x1x8xbf16>, tensor<2x1x8xbf16>) {
  %s = coda.sum_to %x : (tensor<2x64x8xbf16>) -> tensor<2x1x8xbf16>
  %t = coda.sum_to %y : (tensor<2x?x8xbf16>) -> tensor<2x1x8xbf16>
  func.return %s, %t : tensor<2x1x8xbf16>, tensor<2x1x8xbf16>
}

// CHECK:      func.func @few_rows(
// CHECK-NEXT:   %s = coda.sum_to %x : (tensor<2x64x8xbf16>) -> tensor<2x1x8xbf16>
// CHECK-NEXT:   %t = coda.sum_to %y : (tensor<2x?x8xbf16>) -> tensor<2x1x8xbf16>
// CHECK-NEXT:   func.return %s, %t : tensor<2x1x8xbf16>, tensor<2x1x8xbf16>
// CHECK-NEXT: }

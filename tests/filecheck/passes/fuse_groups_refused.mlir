// RUN: coda-opt %s -p fuse-groups --split-input-file | filecheck %s
// RUN: coda-opt %s -p fuse-groups,report-unfused --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// A number of a head is narrower than what a kernel stores.

func.func @narrow(%z: tensor<?x16xbf16>) -> (tensor<?x16xbf16>, tensor<?x2x1xbf16>) {
  %heads = coda.reshape %z : (tensor<?x16xbf16>) -> tensor<?x2x8xbf16>
  %mean = coda.reduce %heads {kind = "mean"} : (tensor<?x2x8xbf16>) -> tensor<?x2x1xbf16>
  %y = coda.sub %heads, %mean : (tensor<?x2x8xbf16>, tensor<?x2x1xbf16>) -> tensor<?x2x8xbf16>
  %r = coda.reshape %y : (tensor<?x2x8xbf16>) -> tensor<?x16xbf16>
  func.return %r, %mean : tensor<?x16xbf16>, tensor<?x2x1xbf16>
}

// REMARK: remark[missed] report-unfused: coda.reduce: runs as separate kernels: the caller uses %mean; failed condition: a reduction over a group is used only by the columns of the group; costs 36*d0 bytes
// REMARK: remark[missed] report-unfused: coda.sub: no operand is the tile of a kernel to fuse into; failed condition: an operand is computed by a GEMM or a pointwise kernel of the same function; costs 68*d0 bytes
// CHECK:      func.func @narrow(
// CHECK-NEXT:   %heads = coda.reshape %z : (tensor<?x16xbf16>) -> tensor<?x2x8xbf16>
// CHECK-NEXT:   %mean = coda.reduce %heads {kind = "mean"} : (tensor<?x2x8xbf16>) -> tensor<?x2x1xbf16>
// CHECK-NEXT:   %y = coda.sub %heads, %mean : (tensor<?x2x8xbf16>, tensor<?x2x1xbf16>) -> tensor<?x2x8xbf16>
// CHECK-NEXT:   %r = coda.reshape %y : (tensor<?x2x8xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %r, %mean : tensor<?x16xbf16>, tensor<?x2x1xbf16>
// CHECK-NEXT: }

// -----

// A number per head comes in, which no port loads, and there is no reduction.

func.func @number(%z: tensor<?x16xf32>, %slope: tensor<2x1xf32>) -> tensor<?x16xf32> {
  %heads = coda.reshape %z : (tensor<?x16xf32>) -> tensor<?x2x8xf32>
  %y = coda.mul %heads, %slope : (tensor<?x2x8xf32>, tensor<2x1xf32>) -> tensor<?x2x8xf32>
  %r = coda.reshape %y : (tensor<?x2x8xf32>) -> tensor<?x16xf32>
  func.return %r : tensor<?x16xf32>
}

// CHECK:      func.func @number(
// CHECK-NEXT:   %heads = coda.reshape %z : (tensor<?x16xf32>) -> tensor<?x2x8xf32>
// CHECK-NEXT:   %y = coda.mul %heads, %slope : (tensor<?x2x8xf32>, tensor<2x1xf32>) -> tensor<?x2x8xf32>
// CHECK-NEXT:   %r = coda.reshape %y : (tensor<?x2x8xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   func.return %r : tensor<?x16xf32>
// CHECK-NEXT: }

// -----

// A kernel has the rows on chip, and sums them up for nothing.

func.func @on_chip(%a: tensor<?x4xf32>, %w: tensor<512x4xf32>) -> tensor<?x512xf32> {
  %x = gemm.fused %a : tensor<?x4xf32>
    columns(%w : tensor<512x4xf32>)
    -> (tile : tensor<?x512xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %mean = coda.reduce %x {kind = "mean"} : (tensor<?x512xf32>) -> tensor<?x1xf32>
  %y = coda.sub %x, %mean : (tensor<?x512xf32>, tensor<?x1xf32>) -> tensor<?x512xf32>
  func.return %y : tensor<?x512xf32>
}

// CHECK:      func.func @on_chip(
// CHECK-NEXT:   %x = gemm.fused %a : tensor<?x4xf32>
// CHECK-NEXT:     columns(%w : tensor<512x4xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x512xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %mean = coda.reduce %x {kind = "mean"} : (tensor<?x512xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %y = coda.sub %x, %mean : (tensor<?x512xf32>, tensor<?x1xf32>) -> tensor<?x512xf32>
// CHECK-NEXT:   func.return %y : tensor<?x512xf32>
// CHECK-NEXT: }

// -----

// Rows longer than a program holds.

func.func @long(%x: tensor<?x16384xf32>) -> tensor<?x16384xf32> {
  %mean = coda.reduce %x {kind = "mean"} : (tensor<?x16384xf32>) -> tensor<?x1xf32>
  %y = coda.sub %x, %mean : (tensor<?x16384xf32>, tensor<?x1xf32>) -> tensor<?x16384xf32>
  func.return %y : tensor<?x16384xf32>
}

// REMARK: remark[missed] report-unfused: coda.reduce: the reduction runs as a separate kernel; failed condition: the operand is a tile of a kernel in the same function; costs 65540*d0 bytes
// CHECK:      func.func @long(
// CHECK-NEXT:   %mean = coda.reduce %x {kind = "mean"} : (tensor<?x16384xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %y = coda.sub %x, %mean : (tensor<?x16384xf32>, tensor<?x1xf32>) -> tensor<?x16384xf32>
// CHECK-NEXT:   func.return %y : tensor<?x16384xf32>
// CHECK-NEXT: }

// -----

// Nothing goes on with the elements.

func.func @only_sums(%x: tensor<?x512xf32>) -> tensor<?x1xf32> {
  %square = coda.mul %x, %x : (tensor<?x512xf32>, tensor<?x512xf32>) -> tensor<?x512xf32>
  %mean = coda.reduce %square {kind = "mean"} : (tensor<?x512xf32>) -> tensor<?x1xf32>
  func.return %mean : tensor<?x1xf32>
}

// CHECK:      func.func @only_sums(
// CHECK-NEXT:   %square = coda.mul %x, %x : (tensor<?x512xf32>, tensor<?x512xf32>) -> tensor<?x512xf32>
// CHECK-NEXT:   %mean = coda.reduce %square {kind = "mean"} : (tensor<?x512xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   func.return %mean : tensor<?x1xf32>
// CHECK-NEXT: }

// -----

// A row of 300 columns is in two tiles of the GEMM: the softmax is a kernel, which reads it once.

func.func @wide(%x: tensor<?x4xf32>, %w: tensor<300x4xf32>) -> tensor<?x300xf32> {
  %z = gemm.fused %x : tensor<?x4xf32>
    columns(%w : tensor<300x4xf32>)
    -> (tile : tensor<?x300xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %p = coda.softmax %z : (tensor<?x300xf32>) -> tensor<?x300xf32>
  func.return %p : tensor<?x300xf32>
}

// REMARK: remark[missed] report-unfused: gemm.map: a pointwise kernel reduces groups of 300 columns; failed condition: a tile of the GEMM holds whole groups, of at most 256 columns
// CHECK:      func.func @wide(
// CHECK-NEXT:   %z = gemm.fused %x : tensor<?x4xf32>
// CHECK-NEXT:     columns(%w : tensor<300x4xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x300xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %p = gemm.map tile(%z : tensor<?x300xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x300xf32>) {
// CHECK-NEXT:     ^bb0(%z_1: f32):
// CHECK-NEXT:       %0 = gemm.group_reduce max %z_1 over 300 : f32
// CHECK-NEXT:       %1 = arith.subf %z_1, %0 : f32
// CHECK-NEXT:       %2 = math.exp %1 : f32
// CHECK-NEXT:       %3 = gemm.group_reduce add %2 over 300 : f32
// CHECK-NEXT:       %4 = arith.divf %2, %3 : f32
// CHECK-NEXT:       gemm.yield %4 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %p : tensor<?x300xf32>
// CHECK-NEXT: }

// -----

// The columns come from two weights, each with tiles of its own.

func.func @two_weights(%x: tensor<?x4xf32>, %w: tensor<8x4xf32>, %v: tensor<8x4xf32>) -> tensor<?x16xf32> {
  %z = gemm.fused %x : tensor<?x4xf32>
    columns(%w : tensor<8x4xf32>, %v : tensor<8x4xf32>)
    -> (tile : tensor<?x16xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %p = coda.softmax %z : (tensor<?x16xf32>) -> tensor<?x16xf32>
  func.return %p : tensor<?x16xf32>
}

// REMARK: remark[missed] report-unfused: gemm.map: a pointwise kernel reduces groups of 16 columns; failed condition: a tile of the GEMM holds whole groups, of at most 256 columns
// CHECK:      func.func @two_weights(
// CHECK-NEXT:   %z = gemm.fused %x : tensor<?x4xf32>
// CHECK-NEXT:     columns(%w : tensor<8x4xf32>, %v : tensor<8x4xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %p = gemm.map tile(%z : tensor<?x16xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%z_1: f32):
// CHECK-NEXT:       %0 = gemm.group_reduce max %z_1 over 16 : f32
// CHECK-NEXT:       %1 = arith.subf %z_1, %0 : f32
// CHECK-NEXT:       %2 = math.exp %1 : f32
// CHECK-NEXT:       %3 = gemm.group_reduce add %2 over 16 : f32
// CHECK-NEXT:       %4 = arith.divf %2, %3 : f32
// CHECK-NEXT:       gemm.yield %4 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %p : tensor<?x16xf32>
// CHECK-NEXT: }

// -----

// A softmax over rows that no program holds.

func.func @vocabulary(%x: tensor<?x16384xf32>) -> tensor<?x16384xf32> {
  %p = coda.softmax %x : (tensor<?x16384xf32>) -> tensor<?x16384xf32>
  func.return %p : tensor<?x16384xf32>
}

// REMARK: remark[missed] report-unfused: coda.softmax: softmax runs as a separate kernel over whole rows; failed condition: the whole row is on chip
// CHECK:      func.func @vocabulary(
// CHECK-NEXT:   %p = coda.softmax %x : (tensor<?x16384xf32>) -> tensor<?x16384xf32>
// CHECK-NEXT:   func.return %p : tensor<?x16384xf32>
// CHECK-NEXT: }

// -----

// The largest of each group is returned: an epilogue that is written by hand stores it.

func.func @largest(%x: tensor<?x4xf32>, %w: tensor<16x4xf32>) -> (tensor<?x16xf32>, tensor<?x2x1xf32>) {
  %z = gemm.fused %x : tensor<?x4xf32>
    columns(%w : tensor<16x4xf32>)
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %heads = coda.reshape %z : (tensor<?x16xf32>) -> tensor<?x2x8xf32>
  %m = coda.reduce %heads {kind = "max"} : (tensor<?x2x8xf32>) -> tensor<?x2x1xf32>
  func.return %z, %m : tensor<?x16xf32>, tensor<?x2x1xf32>
}

// REMARK: remark[missed] report-unfused: coda.reduce: runs as separate kernels: the caller uses %m; failed condition: a reduction over a group is used only by the columns of the group; costs 72*d0 bytes
// REMARK: help: write an epilogue with a result group<8> and group_max(y, group=8)
// CHECK:      func.func @largest(
// CHECK-NEXT:   %z = gemm.fused %x : tensor<?x4xf32>
// CHECK-NEXT:     columns(%w : tensor<16x4xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %heads = coda.reshape %z : (tensor<?x16xf32>) -> tensor<?x2x8xf32>
// CHECK-NEXT:   %m = coda.reduce %heads {kind = "max"} : (tensor<?x2x8xf32>) -> tensor<?x2x1xf32>
// CHECK-NEXT:   func.return %z, %m : tensor<?x16xf32>, tensor<?x2x1xf32>
// CHECK-NEXT: }

// -----

// A tile has the whole rows, but of 24 columns it stores no number of each row, which the caller wants.

func.func @statistic(%a: tensor<?x4xf32>, %w: tensor<24x4xf32>) -> (tensor<?x24xf32>, tensor<?x1xf32>) {
  %z = gemm.fused %a : tensor<?x4xf32>
    columns(%w : tensor<24x4xf32>)
    -> (tile : tensor<?x24xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %rstd = coda.norm_stats %z {kind = "rms", eps = 1.0e-6 : f64} : (tensor<?x24xf32>) -> tensor<?x1xf32>
  %y = coda.mul %z, %rstd : (tensor<?x24xf32>, tensor<?x1xf32>) -> tensor<?x24xf32>
  func.return %y, %rstd : tensor<?x24xf32>, tensor<?x1xf32>
}

// CHECK:      func.func @statistic(
// CHECK-NEXT:   %z = gemm.fused %a : tensor<?x4xf32>
// CHECK-NEXT:     columns(%w : tensor<24x4xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x24xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %rstd = coda.norm_stats %z {kind = "rms", eps = 1.000000e-06 : f64} : (tensor<?x24xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %y = coda.mul %z, %rstd : (tensor<?x24xf32>, tensor<?x1xf32>) -> tensor<?x24xf32>
// CHECK-NEXT:   func.return %y, %rstd : tensor<?x24xf32>, tensor<?x1xf32>
// CHECK-NEXT: }

// -----

// No tile has rows of 512 columns.

func.func @wide_rows(%a: tensor<?x4xf32>, %w: tensor<512x4xf32>) -> tensor<?x512xf32> {
  %z = gemm.fused %a : tensor<?x4xf32>
    columns(%w : tensor<512x4xf32>)
    -> (tile : tensor<?x512xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %rstd = coda.norm_stats %z {kind = "rms", eps = 1.0e-6 : f64} : (tensor<?x512xf32>) -> tensor<?x1xf32>
  %y = coda.mul %z, %rstd : (tensor<?x512xf32>, tensor<?x1xf32>) -> tensor<?x512xf32>
  func.return %y : tensor<?x512xf32>
}

// CHECK:      func.func @wide_rows(
// CHECK-NEXT:   %z = gemm.fused %a : tensor<?x4xf32>
// CHECK-NEXT:     columns(%w : tensor<512x4xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x512xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %rstd = coda.norm_stats %z {kind = "rms", eps = 1.000000e-06 : f64} : (tensor<?x512xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %y = coda.mul %z, %rstd : (tensor<?x512xf32>, tensor<?x1xf32>) -> tensor<?x512xf32>
// CHECK-NEXT:   func.return %y : tensor<?x512xf32>
// CHECK-NEXT: }

// -----

// Nothing is said of a kernel whose results nothing reads.

func.func @unused(%x: tensor<3x64xf32>) -> tensor<3x64xf32> {
  %p = coda.softmax %x : (tensor<3x64xf32>) -> tensor<3x64xf32>
  func.return %x : tensor<3x64xf32>
}

// CHECK:      func.func @unused(
// CHECK-NEXT:   gemm.map tile(%x : tensor<3x64xf32>)
// CHECK-NEXT:       -> () {
// CHECK-NEXT:     ^bb0(%x_1: f32):
// CHECK-NEXT:       %0 = gemm.group_reduce max %x_1 over 64 : f32
// CHECK-NEXT:       %1 = arith.subf %x_1, %0 : f32
// CHECK-NEXT:       %2 = math.exp %1 : f32
// CHECK-NEXT:       %3 = gemm.group_reduce add %2 over 64 : f32
// CHECK-NEXT:       %4 = arith.divf %2, %3 : f32
// CHECK-NEXT:       gemm.yield
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %x : tensor<3x64xf32>
// CHECK-NEXT: }

// -----

// The tile of the schedule, of 32 columns, holds no row of 48.

func.func @scheduled(%a: tensor<?x4xf32>, %w: tensor<48x4xf32>) -> tensor<?x48xf32> {
  %z = gemm.fused %a : tensor<?x4xf32>
    schedule<pointer, "32x32x32", warps = 4, stages = 2, group_m = 8>
    columns(%w : tensor<48x4xf32>)
    -> (tile : tensor<?x48xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %y = coda.softmax %z : (tensor<?x48xf32>) -> tensor<?x48xf32>
  func.return %y : tensor<?x48xf32>
}

// CHECK:      func.func @scheduled(
// CHECK-NEXT:   %z = gemm.fused %a : tensor<?x4xf32>
// CHECK-NEXT:     schedule<pointer, "32x32x32", warps = 4, stages = 2, group_m = 8>
// CHECK-NEXT:     columns(%w : tensor<48x4xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x48xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %y = gemm.map tile(%z : tensor<?x48xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x48xf32>) {
// CHECK-NEXT:     ^bb0(%z_1: f32):
// CHECK-NEXT:       %0 = gemm.group_reduce max %z_1 over 48 : f32
// CHECK-NEXT:       %1 = arith.subf %z_1, %0 : f32
// CHECK-NEXT:       %2 = math.exp %1 : f32
// CHECK-NEXT:       %3 = gemm.group_reduce add %2 over 48 : f32
// CHECK-NEXT:       %4 = arith.divf %2, %3 : f32
// CHECK-NEXT:       gemm.yield %4 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y : tensor<?x48xf32>
// CHECK-NEXT: }

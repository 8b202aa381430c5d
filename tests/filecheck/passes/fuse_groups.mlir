// RUN: coda-opt %s -p fuse-groups,dce --split-input-file | filecheck %s

// The gradient of a norm of heads: one kernel over the columns, with its weight's gradient.

func.func @norm_gradient(%z: tensor<?x16xbf16>, %dy: tensor<?x16xbf16>, %w: tensor<8xbf16>) -> (tensor<?x16xbf16>, tensor<8xbf16>) {
  %heads = coda.reshape %z : (tensor<?x16xbf16>) -> tensor<?x2x8xbf16>
  %d_heads = coda.reshape %dy : (tensor<?x16xbf16>) -> tensor<?x2x8xbf16>
  %rstd = coda.norm_stats %heads {kind = "rms", eps = 1.0e-6 : f64} : (tensor<?x2x8xbf16>) -> tensor<?x2x1xf32>
  %wide = coda.cast %heads : (tensor<?x2x8xbf16>) -> tensor<?x2x8xf32>
  %d_wide = coda.cast %d_heads : (tensor<?x2x8xbf16>) -> tensor<?x2x8xf32>
  %normed = coda.mul %wide, %rstd : (tensor<?x2x8xf32>, tensor<?x2x1xf32>) -> tensor<?x2x8xf32>
  %p = coda.mul %d_wide, %normed : (tensor<?x2x8xf32>, tensor<?x2x8xf32>) -> tensor<?x2x8xf32>
  %dw = coda.sum_to %p : (tensor<?x2x8xf32>) -> tensor<8xbf16>
  %w_wide = coda.cast %w : (tensor<8xbf16>) -> tensor<8xf32>
  %g = coda.mul %d_wide, %w_wide : (tensor<?x2x8xf32>, tensor<8xf32>) -> tensor<?x2x8xf32>
  %ng = coda.mul %normed, %g : (tensor<?x2x8xf32>, tensor<?x2x8xf32>) -> tensor<?x2x8xf32>
  %along = coda.reduce %ng {kind = "mean"} : (tensor<?x2x8xf32>) -> tensor<?x2x1xf32>
  %part = coda.mul %normed, %along : (tensor<?x2x8xf32>, tensor<?x2x1xf32>) -> tensor<?x2x8xf32>
  %rest = coda.sub %g, %part : (tensor<?x2x8xf32>, tensor<?x2x8xf32>) -> tensor<?x2x8xf32>
  %scaled = coda.mul %rest, %rstd : (tensor<?x2x8xf32>, tensor<?x2x1xf32>) -> tensor<?x2x8xf32>
  %narrow = coda.cast %scaled : (tensor<?x2x8xf32>) -> tensor<?x2x8xbf16>
  %dz = coda.reshape %narrow : (tensor<?x2x8xbf16>) -> tensor<?x16xbf16>
  func.return %dz, %dw : tensor<?x16xbf16>, tensor<8xbf16>
}

// CHECK:      func.func @norm_gradient(
// CHECK-NEXT:   %dz, %partial = gemm.map tile(%z : tensor<?x16xbf16>, %dy : tensor<?x16xbf16>) table(%w : tensor<8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>, partial_col<add> : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%z_1: f32, %dy_1: f32, %w_1: f32):
// CHECK-NEXT:       %0 = arith.mulf %z_1, %z_1 : f32
// CHECK-NEXT:       %1 = gemm.group_reduce add %0 over 8 : f32
// CHECK-NEXT:       %2 = arith.constant 1.250000e-01 : f32
// CHECK-NEXT:       %3 = arith.mulf %1, %2 : f32
// CHECK-NEXT:       %4 = arith.constant {gemm.exact = 1.000000e-06 : f64} 1.000000e-06 : f32
// CHECK-NEXT:       %5 = arith.addf %3, %4 : f32
// CHECK-NEXT:       %rstd = math.rsqrt %5 : f32
// CHECK-NEXT:       %normed = arith.mulf %z_1, %rstd : f32
// CHECK-NEXT:       %p = arith.mulf %dy_1, %normed : f32
// CHECK-NEXT:       %g = arith.mulf %dy_1, %w_1 : f32
// CHECK-NEXT:       %ng = arith.mulf %normed, %g : f32
// CHECK-NEXT:       %6 = gemm.group_reduce add %ng over 8 : f32
// CHECK-NEXT:       %7 = arith.constant 1.250000e-01 : f32
// CHECK-NEXT:       %along = arith.mulf %6, %7 : f32
// CHECK-NEXT:       %part = arith.mulf %normed, %along : f32
// CHECK-NEXT:       %rest = arith.subf %g, %part : f32
// CHECK-NEXT:       %scaled = arith.mulf %rest, %rstd : f32
// CHECK-NEXT:       gemm.yield %scaled, %p : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %0 = gemm.finalize col (add %partial : tensor<?x16xf32>) -> (tensor<16xf32>) {
// CHECK-NEXT:   ^bb0(%1: f32):
// CHECK-NEXT:     gemm.yield %1 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   %1 = coda.reshape %0 : (tensor<16xf32>) -> tensor<2x8xf32>
// CHECK-NEXT:   %dw = gemm.finalize col (add %1 : tensor<2x8xf32>) -> (tensor<8xbf16>) {
// CHECK-NEXT:   ^bb0(%2: f32):
// CHECK-NEXT:     gemm.yield %2 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %dz, %dw : tensor<?x16xbf16>, tensor<8xbf16>
// CHECK-NEXT: }

// -----

// In the epilogue that computes what is split; something reads the heads as heads.

func.func @epilogue(%x: tensor<?x4xf32>, %w: tensor<16x4xf32>, %scale: tensor<f32>) -> (tensor<?x16xf32>, tensor<?x2x1xf32>) {
  %z = gemm.fused %x : tensor<?x4xf32>
    columns(%w : tensor<16x4xf32>)
    -> (tile : tensor<?x16xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %heads = coda.reshape %z : (tensor<?x16xf32>) -> tensor<?x2x8xf32>
  %largest = coda.reduce %heads {kind = "max"} : (tensor<?x2x8xf32>) -> tensor<?x2x1xf32>
  %scaled = coda.mul %largest, %scale : (tensor<?x2x1xf32>, tensor<f32>) -> tensor<?x2x1xf32>
  %y = coda.div %heads, %scaled : (tensor<?x2x8xf32>, tensor<?x2x1xf32>) -> tensor<?x2x8xf32>
  %s = coda.reduce %y {kind = "lse"} : (tensor<?x2x8xf32>) -> tensor<?x2x1xf32>
  func.return %z, %s : tensor<?x16xf32>, tensor<?x2x1xf32>
}

// CHECK:      func.func @epilogue(
// CHECK-NEXT:   %z, %y = gemm.fused %x : tensor<?x4xf32>
// CHECK-NEXT:     columns(%w : tensor<16x4xf32>) scalar(%scale : tensor<f32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>, tile : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %scale_1: f32):
// CHECK-NEXT:       %largest = gemm.group_reduce max %acc over 8 : f32
// CHECK-NEXT:       %0 = arith.mulf %largest, %scale_1 : f32
// CHECK-NEXT:       %y_1 = arith.divf %acc, %0 : f32
// CHECK-NEXT:       gemm.yield %acc, %y_1 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %y_1 = coda.reshape %y : (tensor<?x16xf32>) -> tensor<?x2x8xf32>
// CHECK-NEXT:   %s = coda.reduce %y_1 {kind = "lse"} : (tensor<?x2x8xf32>) -> tensor<?x2x1xf32>
// CHECK-NEXT:   func.return %z, %s : tensor<?x16xf32>, tensor<?x2x1xf32>
// CHECK-NEXT: }

// -----

// Both columns of a pair are in one group: they are added before the group is.

func.func @pairs(%dq: tensor<?x16xbf16>, %cos: tensor<?x4xf32>, %sin: tensor<?x4xf32>) -> tensor<?x16xf32> {
  %z = gemm.map pair<halves, 8> tile(%dq : tensor<?x16xbf16>) half_table(%cos : tensor<?x4xf32>, %sin : tensor<?x4xf32>)
    -> (tile : tensor<?x16xf32>) {
    ^bb0(%a: f32, %b: f32, %c: f32, %s: f32):
      %0 = arith.mulf %a, %c : f32
      %1 = arith.mulf %b, %s : f32
      gemm.yield %0, %1 : f32, f32
    }
  %heads = coda.reshape %z : (tensor<?x16xf32>) -> tensor<?x2x8xf32>
  %mean = coda.reduce %heads {kind = "mean"} : (tensor<?x2x8xf32>) -> tensor<?x2x1xf32>
  %y = coda.sub %heads, %mean : (tensor<?x2x8xf32>, tensor<?x2x1xf32>) -> tensor<?x2x8xf32>
  %r = coda.reshape %y : (tensor<?x2x8xf32>) -> tensor<?x16xf32>
  func.return %r : tensor<?x16xf32>
}

// CHECK:      func.func @pairs(
// CHECK-NEXT:   %r = gemm.map pair<halves, 8> tile(%dq : tensor<?x16xbf16>) half_table(%cos : tensor<?x4xf32>, %sin : tensor<?x4xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%a: f32, %b: f32, %c: f32, %s: f32):
// CHECK-NEXT:       %0 = arith.mulf %a, %c : f32
// CHECK-NEXT:       %1 = arith.mulf %b, %s : f32
// CHECK-NEXT:       %2 = arith.addf %0, %1 : f32
// CHECK-NEXT:       %3 = gemm.group_reduce add %2 over 8 : f32
// CHECK-NEXT:       %4 = arith.constant 1.250000e-01 : f32
// CHECK-NEXT:       %mean = arith.mulf %3, %4 : f32
// CHECK-NEXT:       %y = arith.subf %0, %mean : f32
// CHECK-NEXT:       %y_1 = arith.subf %1, %mean : f32
// CHECK-NEXT:       gemm.yield %y, %y_1 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %r : tensor<?x16xf32>
// CHECK-NEXT: }

// -----

// Whole rows of tensors that no kernel has on chip: read once, where the sum by row and what
// follows from it would read them twice. What else reads a scaled row scales it again.

func.func @rows(%x: tensor<?x512xbf16>, %dy: tensor<?x512xbf16>, %r: tensor<?x1xf32>, %w: tensor<512xbf16>) -> (tensor<?x512xbf16>, tensor<512xf32>) {
  %x_wide = coda.cast %x : (tensor<?x512xbf16>) -> tensor<?x512xf32>
  %normed = coda.mul %x_wide, %r : (tensor<?x512xf32>, tensor<?x1xf32>) -> tensor<?x512xf32>
  %d_wide = coda.cast %dy : (tensor<?x512xbf16>) -> tensor<?x512xf32>
  %p = coda.mul %d_wide, %normed : (tensor<?x512xf32>, tensor<?x512xf32>) -> tensor<?x512xf32>
  %dw = coda.sum_to %p : (tensor<?x512xf32>) -> tensor<512xf32>
  %w_wide = coda.cast %w : (tensor<512xbf16>) -> tensor<512xf32>
  %g = coda.mul %d_wide, %w_wide : (tensor<?x512xf32>, tensor<512xf32>) -> tensor<?x512xf32>
  %ng = coda.mul %normed, %g : (tensor<?x512xf32>, tensor<?x512xf32>) -> tensor<?x512xf32>
  %along = coda.reduce %ng {kind = "mean"} : (tensor<?x512xf32>) -> tensor<?x1xf32>
  %scaled_along = coda.mul %along, %r : (tensor<?x1xf32>, tensor<?x1xf32>) -> tensor<?x1xf32>
  %part = coda.mul %normed, %scaled_along : (tensor<?x512xf32>, tensor<?x1xf32>) -> tensor<?x512xf32>
  %dx = coda.sub %g, %part : (tensor<?x512xf32>, tensor<?x512xf32>) -> tensor<?x512xf32>
  %narrow = coda.cast %dx : (tensor<?x512xf32>) -> tensor<?x512xbf16>
  func.return %narrow, %dw : tensor<?x512xbf16>, tensor<512xf32>
}

// CHECK:      func.func @rows(
// CHECK-NEXT:   %x_wide = coda.cast %x : (tensor<?x512xbf16>) -> tensor<?x512xf32>
// CHECK-NEXT:   %normed = coda.mul %x_wide, %r : (tensor<?x512xf32>, tensor<?x1xf32>) -> tensor<?x512xf32>
// CHECK-NEXT:   %d_wide = coda.cast %dy : (tensor<?x512xbf16>) -> tensor<?x512xf32>
// CHECK-NEXT:   %p = coda.mul %d_wide, %normed : (tensor<?x512xf32>, tensor<?x512xf32>) -> tensor<?x512xf32>
// CHECK-NEXT:   %dw = coda.sum_to %p : (tensor<?x512xf32>) -> tensor<512xf32>
// CHECK-NEXT:   %narrow = gemm.map tile(%x : tensor<?x512xbf16>, %dy : tensor<?x512xbf16>) col(%r : tensor<?x1xf32>) row(%w : tensor<512xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x512xbf16>) {
// CHECK-NEXT:     ^bb0(%x_1: f32, %dy_1: f32, %r_1: f32, %w_1: f32):
// CHECK-NEXT:       %normed_1 = arith.mulf %x_1, %r_1 : f32
// CHECK-NEXT:       %g = arith.mulf %dy_1, %w_1 : f32
// CHECK-NEXT:       %ng = arith.mulf %normed_1, %g : f32
// CHECK-NEXT:       %0 = gemm.group_reduce add %ng over 512 : f32
// CHECK-NEXT:       %1 = arith.constant 0.001953125 : f32
// CHECK-NEXT:       %along = arith.mulf %0, %1 : f32
// CHECK-NEXT:       %2 = arith.mulf %along, %r_1 : f32
// CHECK-NEXT:       %part = arith.mulf %normed_1, %2 : f32
// CHECK-NEXT:       %dx = arith.subf %g, %part : f32
// CHECK-NEXT:       gemm.yield %dx : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %narrow, %dw : tensor<?x512xbf16>, tensor<512xf32>
// CHECK-NEXT: }

// -----

// A router: the tile has the whole row of 8 scores, and the softmax of each.

func.func @router(%x: tensor<?x4xbf16>, %w: tensor<8x4xbf16>) -> (tensor<?x2xf32>, tensor<?x2xi64>) {
  %z = gemm.fused %x : tensor<?x4xbf16>
    columns(%w : tensor<8x4xbf16>)
    -> (tile : tensor<?x8xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %p = coda.softmax %z : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %top, %ids = coda.topk %p {k = 2 : i64, dim = 1 : i64} : (tensor<?x8xf32>) -> (tensor<?x2xf32>, tensor<?x2xi64>)
  func.return %top, %ids : tensor<?x2xf32>, tensor<?x2xi64>
}

// CHECK:      func.func @router(
// CHECK-NEXT:   %p = gemm.fused %x : tensor<?x4xbf16>
// CHECK-NEXT:     columns(%w : tensor<8x4xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x8xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       %0 = gemm.group_reduce max %acc over 8 : f32
// CHECK-NEXT:       %1 = arith.subf %acc, %0 : f32
// CHECK-NEXT:       %2 = math.exp %1 : f32
// CHECK-NEXT:       %3 = gemm.group_reduce add %2 over 8 : f32
// CHECK-NEXT:       %4 = arith.divf %2, %3 : f32
// CHECK-NEXT:       gemm.yield %4 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %top, %ids = coda.topk %p {k = 2 : i64, dim = 1 : i64} : (tensor<?x8xf32>) -> (tensor<?x2xf32>, tensor<?x2xi64>)
// CHECK-NEXT:   func.return %top, %ids : tensor<?x2xf32>, tensor<?x2xi64>
// CHECK-NEXT: }

// -----

// Heads of 8 columns, and what follows their softmax.

func.func @heads(%x: tensor<?x4xbf16>, %w: tensor<16x4xbf16>) -> tensor<?x16xbf16> {
  %z = gemm.fused %x : tensor<?x4xbf16>
    columns(%w : tensor<16x4xbf16>)
    -> (tile : tensor<?x16xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %heads = coda.reshape %z : (tensor<?x16xf32>) -> tensor<?x2x8xf32>
  %p = coda.softmax %heads : (tensor<?x2x8xf32>) -> tensor<?x2x8xf32>
  %narrow = coda.cast %p : (tensor<?x2x8xf32>) -> tensor<?x2x8xbf16>
  %r = coda.reshape %narrow : (tensor<?x2x8xbf16>) -> tensor<?x16xbf16>
  func.return %r : tensor<?x16xbf16>
}

// CHECK:      func.func @heads(
// CHECK-NEXT:   %r = gemm.fused %x : tensor<?x4xbf16>
// CHECK-NEXT:     columns(%w : tensor<16x4xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       %0 = gemm.group_reduce max %acc over 8 : f32
// CHECK-NEXT:       %1 = arith.subf %acc, %0 : f32
// CHECK-NEXT:       %2 = math.exp %1 : f32
// CHECK-NEXT:       %3 = gemm.group_reduce add %2 over 8 : f32
// CHECK-NEXT:       %narrow = arith.divf %2, %3 : f32
// CHECK-NEXT:       gemm.yield %narrow : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %r : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// Both columns of a pair are in the row.

func.func @rotated(%x: tensor<?x4xbf16>, %w: tensor<8x4xbf16>) -> tensor<?x8xf32> {
  %z = gemm.fused %x : tensor<?x4xbf16>
    columns(%w : tensor<8x4xbf16>) pair<halves, 4>
    -> (tile : tensor<?x8xf32>) {
    ^bb0(%a: f32, %b: f32):
      %s = arith.subf %a, %b : f32
      gemm.yield %a, %s : f32, f32
    }
  %p = coda.softmax %z : (tensor<?x8xf32>) -> tensor<?x8xf32>
  func.return %p : tensor<?x8xf32>
}

// CHECK:      func.func @rotated(
// CHECK-NEXT:   %p = gemm.fused %x : tensor<?x4xbf16>
// CHECK-NEXT:     columns(%w : tensor<8x4xbf16>) pair<halves, 4>
// CHECK-NEXT:       -> (tile : tensor<?x8xf32>) {
// CHECK-NEXT:     ^bb0(%a: f32, %b: f32):
// CHECK-NEXT:       %s = arith.subf %a, %b : f32
// CHECK-NEXT:       %0 = arith.maximumf %a, %s : f32
// CHECK-NEXT:       %1 = gemm.group_reduce max %0 over 8 : f32
// CHECK-NEXT:       %2 = arith.subf %a, %1 : f32
// CHECK-NEXT:       %3 = math.exp %2 : f32
// CHECK-NEXT:       %4 = arith.subf %s, %1 : f32
// CHECK-NEXT:       %5 = math.exp %4 : f32
// CHECK-NEXT:       %6 = arith.addf %3, %5 : f32
// CHECK-NEXT:       %7 = gemm.group_reduce add %6 over 8 : f32
// CHECK-NEXT:       %8 = arith.divf %3, %7 : f32
// CHECK-NEXT:       %9 = arith.divf %5, %7 : f32
// CHECK-NEXT:       gemm.yield %8, %9 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %p : tensor<?x8xf32>
// CHECK-NEXT: }

// -----

// No GEMM: a kernel over whole rows, with the code before and after it.

func.func @masked(%x: tensor<?x300xbf16>, %mask: tensor<300xbf16>) -> tensor<?x300xf32> {
  %s = coda.add %x, %mask : (tensor<?x300xbf16>, tensor<300xbf16>) -> tensor<?x300xbf16>
  %p = coda.softmax %s : (tensor<?x300xbf16>) -> tensor<?x300xbf16>
  %wide = coda.cast %p : (tensor<?x300xbf16>) -> tensor<?x300xf32>
  func.return %wide : tensor<?x300xf32>
}

// CHECK:      func.func @masked(
// CHECK-NEXT:   %wide = gemm.map tile(%x : tensor<?x300xbf16>) row(%mask : tensor<300xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x300xf32>) {
// CHECK-NEXT:     ^bb0(%x_1: f32, %mask_1: f32):
// CHECK-NEXT:       %s = arith.addf %x_1, %mask_1 : f32
// CHECK-NEXT:       %0 = gemm.group_reduce max %s over 300 : f32
// CHECK-NEXT:       %1 = arith.subf %s, %0 : f32
// CHECK-NEXT:       %2 = math.exp %1 : f32
// CHECK-NEXT:       %3 = gemm.group_reduce add %2 over 300 : f32
// CHECK-NEXT:       %wide_1 = arith.divf %2, %3 : f32
// CHECK-NEXT:       gemm.yield %wide_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %wide : tensor<?x300xf32>
// CHECK-NEXT: }

// -----

// The sums of the heads are stored, too: one number for each head.

func.func @stored_sums(%z: tensor<?x16xf32>) -> (tensor<?x16xf32>, tensor<?x2x1xf32>) {
  %heads = coda.reshape %z : (tensor<?x16xf32>) -> tensor<?x2x8xf32>
  %mean = coda.reduce %heads {kind = "mean"} : (tensor<?x2x8xf32>) -> tensor<?x2x1xf32>
  %y = coda.sub %heads, %mean : (tensor<?x2x8xf32>, tensor<?x2x1xf32>) -> tensor<?x2x8xf32>
  %r = coda.reshape %y : (tensor<?x2x8xf32>) -> tensor<?x16xf32>
  func.return %r, %mean : tensor<?x16xf32>, tensor<?x2x1xf32>
}

// CHECK:      func.func @stored_sums(
// CHECK-NEXT:   %r, %mean = gemm.map tile(%z : tensor<?x16xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>, group<8> : tensor<?x2xf32>) {
// CHECK-NEXT:     ^bb0(%z_1: f32):
// CHECK-NEXT:       %0 = gemm.group_reduce add %z_1 over 8 : f32
// CHECK-NEXT:       %1 = arith.constant 1.250000e-01 : f32
// CHECK-NEXT:       %mean_1 = arith.mulf %0, %1 : f32
// CHECK-NEXT:       %y = arith.subf %z_1, %mean_1 : f32
// CHECK-NEXT:       gemm.yield %y, %mean_1 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %mean_1 = coda.reshape %mean : (tensor<?x2xf32>) -> tensor<?x2x1xf32>
// CHECK-NEXT:   func.return %r, %mean_1 : tensor<?x16xf32>, tensor<?x2x1xf32>
// CHECK-NEXT: }

// -----

// A number of each head for each of its columns.

func.func @broadcast(%z: tensor<?x16xf32>) -> tensor<?x16xf32> {
  %heads = coda.reshape %z : (tensor<?x16xf32>) -> tensor<?x2x8xf32>
  %mean = coda.reduce %heads {kind = "mean"} : (tensor<?x2x8xf32>) -> tensor<?x2x1xf32>
  %each = coda.broadcast %mean : (tensor<?x2x1xf32>) -> tensor<?x2x8xf32>
  %r = coda.reshape %each : (tensor<?x2x8xf32>) -> tensor<?x16xf32>
  func.return %r : tensor<?x16xf32>
}

// CHECK:      func.func @broadcast(
// CHECK-NEXT:   %r = gemm.map tile(%z : tensor<?x16xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%z_1: f32):
// CHECK-NEXT:       %0 = gemm.group_reduce add %z_1 over 8 : f32
// CHECK-NEXT:       %1 = arith.constant 1.250000e-01 : f32
// CHECK-NEXT:       %mean = arith.mulf %0, %1 : f32
// CHECK-NEXT:       gemm.yield %mean : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %r : tensor<?x16xf32>
// CHECK-NEXT: }

// -----

// Each group has a scale for each row, and one for all rows: they are ports of groups.

func.func @scales_of_groups(%z: tensor<?x8xf32>, %s: tensor<?x2x1xf32>, %g: tensor<2x1xf32>) -> tensor<?x8xf32> {
  %h = coda.reshape %z : (tensor<?x8xf32>) -> tensor<?x2x4xf32>
  %b = coda.mul %h, %s : (tensor<?x2x4xf32>, tensor<?x2x1xf32>) -> tensor<?x2x4xf32>
  %m = coda.reduce %b {kind = "mean"} : (tensor<?x2x4xf32>) -> tensor<?x2x1xf32>
  %p = coda.sub %b, %m : (tensor<?x2x4xf32>, tensor<?x2x1xf32>) -> tensor<?x2x4xf32>
  %q = coda.mul %p, %g : (tensor<?x2x4xf32>, tensor<2x1xf32>) -> tensor<?x2x4xf32>
  %y = coda.reshape %q : (tensor<?x2x4xf32>) -> tensor<?x8xf32>
  func.return %y : tensor<?x8xf32>
}

// CHECK:      func.func @scales_of_groups(
// CHECK-NEXT:   %s_1 = coda.reshape %s : (tensor<?x2x1xf32>) -> tensor<?x2xf32>
// CHECK-NEXT:   %g_1 = coda.reshape %g : (tensor<2x1xf32>) -> tensor<2xf32>
// CHECK-NEXT:   %y = gemm.map tile(%z : tensor<?x8xf32>) group(%s_1 : tensor<?x2xf32>, %g_1 : tensor<2xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x8xf32>) {
// CHECK-NEXT:     ^bb0(%z_1: f32, %s_2: f32, %g_2: f32):
// CHECK-NEXT:       %b = arith.mulf %z_1, %s_2 : f32
// CHECK-NEXT:       %0 = gemm.group_reduce add %b over 4 : f32
// CHECK-NEXT:       %1 = arith.constant 2.500000e-01 : f32
// CHECK-NEXT:       %m = arith.mulf %0, %1 : f32
// CHECK-NEXT:       %p = arith.subf %b, %m : f32
// CHECK-NEXT:       %q = arith.mulf %p, %g_2 : f32
// CHECK-NEXT:       gemm.yield %q : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y : tensor<?x8xf32>
// CHECK-NEXT: }

// -----

// A GEMM stores no number of so small a group: a kernel reads its result once.

func.func @sums(%x: tensor<?x4xf32>, %w: tensor<16x4xf32>) -> (tensor<?x16xf32>, tensor<?x2x1xf32>) {
  %z = gemm.fused %x : tensor<?x4xf32>
    columns(%w : tensor<16x4xf32>)
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %heads = coda.reshape %z : (tensor<?x16xf32>) -> tensor<?x2x8xf32>
  %mean = coda.reduce %heads {kind = "mean"} : (tensor<?x2x8xf32>) -> tensor<?x2x1xf32>
  %y = coda.sub %heads, %mean : (tensor<?x2x8xf32>, tensor<?x2x1xf32>) -> tensor<?x2x8xf32>
  %r = coda.reshape %y : (tensor<?x2x8xf32>) -> tensor<?x16xf32>
  func.return %r, %mean : tensor<?x16xf32>, tensor<?x2x1xf32>
}

// CHECK:      func.func @sums(
// CHECK-NEXT:   %z = gemm.fused %x : tensor<?x4xf32>
// CHECK-NEXT:     columns(%w : tensor<16x4xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %heads = coda.reshape %z : (tensor<?x16xf32>) -> tensor<?x2x8xf32>
// CHECK-NEXT:   %y, %mean = gemm.map tile(%heads : tensor<?x2x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x2x8xf32>, group<8> : tensor<?x2x1xf32>) {
// CHECK-NEXT:     ^bb0(%heads_1: f32):
// CHECK-NEXT:       %0 = gemm.group_reduce add %heads_1 over 8 : f32
// CHECK-NEXT:       %1 = arith.constant 1.250000e-01 : f32
// CHECK-NEXT:       %mean_1 = arith.mulf %0, %1 : f32
// CHECK-NEXT:       %y_1 = arith.subf %heads_1, %mean_1 : f32
// CHECK-NEXT:       gemm.yield %y_1, %mean_1 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %r = coda.reshape %y : (tensor<?x2x8xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   func.return %r, %mean : tensor<?x16xf32>, tensor<?x2x1xf32>
// CHECK-NEXT: }

// -----

// The sum of a row is stored, too.

func.func @returned(%x: tensor<?x512xf32>) -> (tensor<?x512xf32>, tensor<?x1xf32>) {
  %mean = coda.reduce %x {kind = "mean"} : (tensor<?x512xf32>) -> tensor<?x1xf32>
  %y = coda.sub %x, %mean : (tensor<?x512xf32>, tensor<?x1xf32>) -> tensor<?x512xf32>
  func.return %y, %mean : tensor<?x512xf32>, tensor<?x1xf32>
}

// CHECK:      func.func @returned(
// CHECK-NEXT:   %y, %mean = gemm.map tile(%x : tensor<?x512xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x512xf32>, group<512> : tensor<?x1xf32>) {
// CHECK-NEXT:     ^bb0(%x_1: f32):
// CHECK-NEXT:       %0 = gemm.group_reduce add %x_1 over 512 : f32
// CHECK-NEXT:       %1 = arith.constant 0.001953125 : f32
// CHECK-NEXT:       %mean_1 = arith.mulf %0, %1 : f32
// CHECK-NEXT:       %y_1 = arith.subf %x_1, %mean_1 : f32
// CHECK-NEXT:       gemm.yield %y_1, %mean_1 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y, %mean : tensor<?x512xf32>, tensor<?x1xf32>
// CHECK-NEXT: }

// -----

// Quantized by groups of 32 columns: a GEMM stores the elements and the scales.

func.func @quantized(%x: tensor<?x4xbf16>, %w: tensor<64x4xbf16>) -> (tensor<?x64xf8E4M3FN>, tensor<?x2x1xf32>) {
  %z = gemm.fused %x : tensor<?x4xbf16>
    columns(%w : tensor<64x4xbf16>)
      -> (tile : tensor<?x64xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %blocks = coda.reshape %z : (tensor<?x64xf32>) -> tensor<?x2x32xf32>
  %size = coda.abs %blocks : (tensor<?x2x32xf32>) -> tensor<?x2x32xf32>
  %top = coda.reduce %size {kind = "max"} : (tensor<?x2x32xf32>) -> tensor<?x2x1xf32>
  %q = coda.div %blocks, %top : (tensor<?x2x32xf32>, tensor<?x2x1xf32>) -> tensor<?x2x32xf32>
  %narrow = coda.cast %q : (tensor<?x2x32xf32>) -> tensor<?x2x32xf8E4M3FN>
  %y = coda.reshape %narrow : (tensor<?x2x32xf8E4M3FN>) -> tensor<?x64xf8E4M3FN>
  func.return %y, %top : tensor<?x64xf8E4M3FN>, tensor<?x2x1xf32>
}

// CHECK:      func.func @quantized(
// CHECK-NEXT:   %y, %top = gemm.fused %x : tensor<?x4xbf16>
// CHECK-NEXT:     columns(%w : tensor<64x4xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x64xf8E4M3FN>, group<32> : tensor<?x2xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       %size = math.absf %acc : f32
// CHECK-NEXT:       %top_1 = gemm.group_reduce max %size over 32 : f32
// CHECK-NEXT:       %q = arith.divf %acc, %top_1 : f32
// CHECK-NEXT:       %0 = arith.truncf %q : f32 to f8E4M3FN
// CHECK-NEXT:       %narrow = arith.extf %0 : f8E4M3FN to f32
// CHECK-NEXT:       gemm.yield %narrow, %top_1 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %top_1 = coda.reshape %top : (tensor<?x2xf32>) -> tensor<?x2x1xf32>
// CHECK-NEXT:   func.return %y, %top_1 : tensor<?x64xf8E4M3FN>, tensor<?x2x1xf32>
// CHECK-NEXT: }

// -----

// Of pairs, 32 of which have 64 columns of the tile.

func.func @quantized_pairs(%x: tensor<?x4xbf16>, %w: tensor<64x4xbf16>, %v: tensor<64x4xbf16>) -> (tensor<?x64xf8E4M3FN>, tensor<?x2x1xf32>) {
  %z = gemm.fused %x : tensor<?x4xbf16>
    columns(%w : tensor<64x4xbf16>, %v : tensor<64x4xbf16>) pair<halves>
      -> (half : tensor<?x64xbf16>) {
    ^bb0(%gate: f32, %up: f32):
      %0 = arith.mulf %gate, %up : f32
      gemm.yield %0 : f32
    }
  %blocks = coda.reshape %z : (tensor<?x64xbf16>) -> tensor<?x2x32xbf16>
  %wide = coda.cast %blocks : (tensor<?x2x32xbf16>) -> tensor<?x2x32xf32>
  %size = coda.abs %wide : (tensor<?x2x32xf32>) -> tensor<?x2x32xf32>
  %top = coda.reduce %size {kind = "max"} : (tensor<?x2x32xf32>) -> tensor<?x2x1xf32>
  %q = coda.div %wide, %top : (tensor<?x2x32xf32>, tensor<?x2x1xf32>) -> tensor<?x2x32xf32>
  %narrow = coda.cast %q : (tensor<?x2x32xf32>) -> tensor<?x2x32xf8E4M3FN>
  %y = coda.reshape %narrow : (tensor<?x2x32xf8E4M3FN>) -> tensor<?x64xf8E4M3FN>
  func.return %y, %top : tensor<?x64xf8E4M3FN>, tensor<?x2x1xf32>
}

// CHECK:      func.func @quantized_pairs(
// CHECK-NEXT:   %y, %top = gemm.fused %x : tensor<?x4xbf16>
// CHECK-NEXT:     columns(%w : tensor<64x4xbf16>, %v : tensor<64x4xbf16>) pair<halves>
// CHECK-NEXT:       -> (half : tensor<?x64xf8E4M3FN>, group<64> : tensor<?x2xf32>) {
// CHECK-NEXT:     ^bb0(%gate: f32, %up: f32):
// CHECK-NEXT:       %wide = arith.mulf %gate, %up : f32
// CHECK-NEXT:       %size = math.absf %wide : f32
// CHECK-NEXT:       %top_1 = gemm.group_reduce max %size over 64 : f32
// CHECK-NEXT:       %q = arith.divf %wide, %top_1 : f32
// CHECK-NEXT:       %0 = arith.truncf %q : f32 to f8E4M3FN
// CHECK-NEXT:       %narrow = arith.extf %0 : f8E4M3FN to f32
// CHECK-NEXT:       gemm.yield %narrow, %top_1 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %top_1 = coda.reshape %top : (tensor<?x2xf32>) -> tensor<?x2x1xf32>
// CHECK-NEXT:   func.return %y, %top_1 : tensor<?x64xf8E4M3FN>, tensor<?x2x1xf32>
// CHECK-NEXT: }

// -----

// A norm's statistics are those of the rows that a GEMM computes: the largest element of a row
// after it is found by the kernel that goes on with the row.

func.func @after_norm(%a: tensor<?x4xf32>, %w: tensor<512x4xf32>) -> (tensor<?x512xf8E4M3FN>, tensor<?x1xf32>, tensor<?x512xf32>) {
  %x = gemm.fused %a : tensor<?x4xf32>
    columns(%w : tensor<512x4xf32>)
    -> (tile : tensor<?x512xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %rstd = coda.norm_stats %x {kind = "rms", eps = 1.0e-6 : f64} : (tensor<?x512xf32>) -> tensor<?x1xf32>
  %h = coda.mul %x, %rstd : (tensor<?x512xf32>, tensor<?x1xf32>) -> tensor<?x512xf32>
  %size = coda.abs %h : (tensor<?x512xf32>) -> tensor<?x512xf32>
  %top = coda.reduce %size {kind = "max"} : (tensor<?x512xf32>) -> tensor<?x1xf32>
  %q = coda.div %h, %top : (tensor<?x512xf32>, tensor<?x1xf32>) -> tensor<?x512xf32>
  %y = coda.cast %q : (tensor<?x512xf32>) -> tensor<?x512xf8E4M3FN>
  func.return %y, %top, %x : tensor<?x512xf8E4M3FN>, tensor<?x1xf32>, tensor<?x512xf32>
}

// CHECK:      func.func @after_norm(
// CHECK-NEXT:   %x = gemm.fused %a : tensor<?x4xf32>
// CHECK-NEXT:     columns(%w : tensor<512x4xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x512xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %rstd = coda.norm_stats %x {kind = "rms", eps = 1.000000e-06 : f64} : (tensor<?x512xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %y, %top = gemm.map tile(%x : tensor<?x512xf32>) col(%rstd : tensor<?x1xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x512xf8E4M3FN>, group<512> : tensor<?x1xf32>) {
// CHECK-NEXT:     ^bb0(%x_1: f32, %rstd_1: f32):
// CHECK-NEXT:       %h = arith.mulf %x_1, %rstd_1 : f32
// CHECK-NEXT:       %size = math.absf %h : f32
// CHECK-NEXT:       %top_1 = gemm.group_reduce max %size over 512 : f32
// CHECK-NEXT:       %q = arith.divf %h, %top_1 : f32
// CHECK-NEXT:       %0 = arith.truncf %q : f32 to f8E4M3FN
// CHECK-NEXT:       %y_1 = arith.extf %0 : f8E4M3FN to f32
// CHECK-NEXT:       gemm.yield %y_1, %top_1 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y, %top, %x : tensor<?x512xf8E4M3FN>, tensor<?x1xf32>, tensor<?x512xf32>
// CHECK-NEXT: }

// -----

// A tile has the whole rows of 8 columns, so that a LayerNorm whose result is stored joins the epilogue. What the next
// GEMM computes from the result is added to it elsewhere.

func.func @stored_norm(%a: tensor<?x4xbf16>, %w: tensor<8x4xbf16>, %v: tensor<8x8xbf16>, %x: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
  %z = gemm.fused %a : tensor<?x4xbf16>
    columns(%w : tensor<8x4xbf16>)
    -> (tile : tensor<?x8xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %rstd, %mean = coda.norm_stats %z {kind = "layer", eps = 1.0e-6 : f64} : (tensor<?x8xbf16>) -> (tensor<?x1xf32>, tensor<?x1xf32>)
  %f = coda.cast %z : (tensor<?x8xbf16>) -> tensor<?x8xf32>
  %d = coda.sub %f, %mean : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  %n = coda.mul %d, %rstd : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  %h = coda.cast %n : (tensor<?x8xf32>) -> tensor<?x8xbf16>
  %y = coda.add %x, %h : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %next = gemm.fused %y : tensor<?x8xbf16>
    columns(%v : tensor<8x8xbf16>)
    -> (tile : tensor<?x8xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %out = coda.add %y, %next : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  func.return %out : tensor<?x8xbf16>
}

// CHECK:      func.func @stored_norm(
// CHECK-NEXT:   %z, %y = gemm.fused %a : tensor<?x4xbf16>
// CHECK-NEXT:     columns(%w : tensor<8x4xbf16>) tile(%x : tensor<?x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x8xbf16>, tile : tensor<?x8xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %x_1: f32):
// CHECK-NEXT:       %0 = gemm.group_reduce add %acc over 8 : f32
// CHECK-NEXT:       %1 = arith.constant 1.250000e-01 : f32
// CHECK-NEXT:       %mean = arith.mulf %0, %1 : f32
// CHECK-NEXT:       %2 = arith.subf %acc, %mean : f32
// CHECK-NEXT:       %3 = arith.mulf %2, %2 : f32
// CHECK-NEXT:       %4 = gemm.group_reduce add %3 over 8 : f32
// CHECK-NEXT:       %5 = arith.mulf %4, %1 : f32
// CHECK-NEXT:       %6 = arith.constant {gemm.exact = 1.000000e-06 : f64} 1.000000e-06 : f32
// CHECK-NEXT:       %7 = arith.addf %5, %6 : f32
// CHECK-NEXT:       %rstd = math.rsqrt %7 : f32
// CHECK-NEXT:       %d = arith.subf %acc, %mean : f32
// CHECK-NEXT:       %n = arith.mulf %d, %rstd : f32
// CHECK-NEXT:       %y_1 = arith.addf %x_1, %n : f32
// CHECK-NEXT:       gemm.yield %acc, %y_1 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %next = gemm.fused %y : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%v : tensor<8x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x8xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %out = coda.add %y, %next : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   func.return %out : tensor<?x8xbf16>
// CHECK-NEXT: }

// -----

// A pointwise kernel takes the whole rows that it computes, here in pairs of columns.

func.func @rotated_rows(%dq: tensor<?x512xbf16>, %cos: tensor<?x4xf32>, %sin: tensor<?x4xf32>) -> (tensor<?x512xf8E4M3FN>, tensor<?x1xf32>) {
  %z = gemm.map pair<halves, 8> tile(%dq : tensor<?x512xbf16>) half_table(%cos : tensor<?x4xf32>, %sin : tensor<?x4xf32>)
    -> (tile : tensor<?x512xf32>) {
    ^bb0(%a: f32, %b: f32, %c: f32, %s: f32):
      %0 = arith.mulf %a, %c : f32
      %1 = arith.mulf %b, %s : f32
      gemm.yield %0, %1 : f32, f32
    }
  %size = coda.abs %z : (tensor<?x512xf32>) -> tensor<?x512xf32>
  %top = coda.reduce %size {kind = "max"} : (tensor<?x512xf32>) -> tensor<?x1xf32>
  %q = coda.div %z, %top : (tensor<?x512xf32>, tensor<?x1xf32>) -> tensor<?x512xf32>
  %y = coda.cast %q : (tensor<?x512xf32>) -> tensor<?x512xf8E4M3FN>
  func.return %y, %top : tensor<?x512xf8E4M3FN>, tensor<?x1xf32>
}

// CHECK:      func.func @rotated_rows(
// CHECK-NEXT:   %z, %y, %top = gemm.map pair<halves, 8> tile(%dq : tensor<?x512xbf16>) half_table(%cos : tensor<?x4xf32>, %sin : tensor<?x4xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x512xf32>, tile : tensor<?x512xf8E4M3FN>, group<512> : tensor<?x1xf32>) {
// CHECK-NEXT:     ^bb0(%a: f32, %b: f32, %c: f32, %s: f32):
// CHECK-NEXT:       %0 = arith.mulf %a, %c : f32
// CHECK-NEXT:       %1 = arith.mulf %b, %s : f32
// CHECK-NEXT:       %size = math.absf %0 : f32
// CHECK-NEXT:       %size_1 = math.absf %1 : f32
// CHECK-NEXT:       %2 = arith.maximumf %size, %size_1 : f32
// CHECK-NEXT:       %top_1 = gemm.group_reduce max %2 over 512 : f32
// CHECK-NEXT:       %q = arith.divf %0, %top_1 : f32
// CHECK-NEXT:       %q_1 = arith.divf %1, %top_1 : f32
// CHECK-NEXT:       %3 = arith.truncf %q : f32 to f8E4M3FN
// CHECK-NEXT:       %y_1 = arith.extf %3 : f8E4M3FN to f32
// CHECK-NEXT:       %4 = arith.truncf %q_1 : f32 to f8E4M3FN
// CHECK-NEXT:       %y_2 = arith.extf %4 : f8E4M3FN to f32
// CHECK-NEXT:       gemm.yield %0, %1, %y_1, %y_2, %top_1 : f32, f32, f32, f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y, %top : tensor<?x512xf8E4M3FN>, tensor<?x1xf32>
// CHECK-NEXT: }

// -----

// A norm in operators of what another one, of a GEMM's rows, gives: one kernel, although the GEMM
// could give sums of its tiles. It has none of the second norm.

func.func @second_norm(%x: tensor<?x8xf32>, %r: tensor<?x256xf32>, %w: tensor<256x8xf32>) -> tensor<?x256xf32> {
  %y, %squares = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<256x8xf32>)
      -> (tile : tensor<?x256xf32>, tile : tensor<?x256xf32>) {
    ^bb0(%acc: f32):
      %0 = arith.mulf %acc, %acc : f32
      gemm.yield %acc, %0 : f32, f32
    }
  %sum = coda.reduce %squares {kind = "sum"} : (tensor<?x256xf32>) -> tensor<?x1xf32>
  %rstd = coda.rsqrt %sum : (tensor<?x1xf32>) -> tensor<?x1xf32>
  %n = coda.mul %y, %rstd : (tensor<?x256xf32>, tensor<?x1xf32>) -> tensor<?x256xf32>
  %h = coda.add %r, %n : (tensor<?x256xf32>, tensor<?x256xf32>) -> tensor<?x256xf32>
  %hh = coda.mul %h, %h : (tensor<?x256xf32>, tensor<?x256xf32>) -> tensor<?x256xf32>
  %total = coda.reduce %hh {kind = "sum"} : (tensor<?x256xf32>) -> tensor<?x1xf32>
  %scale = coda.rsqrt %total : (tensor<?x1xf32>) -> tensor<?x1xf32>
  %z = coda.mul %h, %scale : (tensor<?x256xf32>, tensor<?x1xf32>) -> tensor<?x256xf32>
  func.return %z : tensor<?x256xf32>
}

// CHECK:      func.func @second_norm(%x: tensor<?x8xf32>, %r: tensor<?x256xf32>, %w: tensor<256x8xf32>) -> tensor<?x256xf32> {
// CHECK-NEXT:   %y, %squares = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<256x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x256xf32>, tile : tensor<?x256xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       %0 = arith.mulf %acc, %acc : f32
// CHECK-NEXT:       gemm.yield %acc, %0 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %sum = coda.reduce %squares {kind = "sum"} : (tensor<?x256xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %rstd = coda.rsqrt %sum : (tensor<?x1xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %z = gemm.map tile(%y : tensor<?x256xf32>, %r : tensor<?x256xf32>) col(%rstd : tensor<?x1xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x256xf32>) {
// CHECK-NEXT:     ^bb0(%y_1: f32, %r_1: f32, %rstd_1: f32):
// CHECK-NEXT:       %n = arith.mulf %y_1, %rstd_1 : f32
// CHECK-NEXT:       %h = arith.addf %r_1, %n : f32
// CHECK-NEXT:       %hh = arith.mulf %h, %h : f32
// CHECK-NEXT:       %total = gemm.group_reduce add %hh over 256 : f32
// CHECK-NEXT:       %0 = math.rsqrt %total : f32
// CHECK-NEXT:       %z_1 = arith.mulf %h, %0 : f32
// CHECK-NEXT:       gemm.yield %z_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %z : tensor<?x256xf32>
// CHECK-NEXT: }

// -----

// A vector for the columns of all heads is loaded as a row, and its gradient summed like one.

func.func @vector(%z: tensor<?x16xbf16>, %dy: tensor<?x16xbf16>, %w: tensor<16xbf16>) -> (tensor<?x16xbf16>, tensor<2x8xbf16>) {
  %heads = coda.reshape %z : (tensor<?x16xbf16>) -> tensor<?x2x8xbf16>
  %dheads = coda.reshape %dy : (tensor<?x16xbf16>) -> tensor<?x2x8xbf16>
  %ws = coda.reshape %w : (tensor<16xbf16>) -> tensor<2x8xbf16>
  %m = coda.mul %ws, %dheads : (tensor<2x8xbf16>, tensor<?x2x8xbf16>) -> tensor<?x2x8xbf16>
  %p = coda.mul %heads, %m : (tensor<?x2x8xbf16>, tensor<?x2x8xbf16>) -> tensor<?x2x8xbf16>
  %s = coda.reduce %p {kind = "sum"} : (tensor<?x2x8xbf16>) -> tensor<?x2x1xbf16>
  %d = coda.sub %m, %s : (tensor<?x2x8xbf16>, tensor<?x2x1xbf16>) -> tensor<?x2x8xbf16>
  %y = coda.reshape %d : (tensor<?x2x8xbf16>) -> tensor<?x16xbf16>
  %g = coda.mul %heads, %dheads : (tensor<?x2x8xbf16>, tensor<?x2x8xbf16>) -> tensor<?x2x8xbf16>
  %dw = coda.sum_to %g : (tensor<?x2x8xbf16>) -> tensor<2x8xbf16>
  func.return %y, %dw : tensor<?x16xbf16>, tensor<2x8xbf16>
}

// CHECK-LABEL: func.func @vector(
// CHECK-NEXT:    %y, %partial = gemm.map tile(%z : tensor<?x16xbf16>, %dy : tensor<?x16xbf16>) row(%w : tensor<16xbf16>)
// CHECK-NEXT:        -> (tile : tensor<?x16xbf16>, partial_col<add> : tensor<?x16xf32>) {
// CHECK-NEXT:      ^bb0(%z_1: f32, %dy_1: f32, %w_1: f32):
// CHECK-NEXT:        %m = arith.mulf %w_1, %dy_1 : f32
// CHECK-NEXT:        %p = arith.mulf %z_1, %m : f32
// CHECK-NEXT:        %s = gemm.group_reduce add %p over 8 : f32
// CHECK-NEXT:        %d = arith.subf %m, %s : f32
// CHECK-NEXT:        %g = arith.mulf %z_1, %dy_1 : f32
// CHECK-NEXT:        gemm.yield %d, %g : f32, f32
// CHECK-NEXT:      }
// CHECK-NEXT:    %0 = gemm.finalize col (add %partial : tensor<?x16xf32>) -> (tensor<16xbf16>) {
// CHECK-NEXT:    ^bb0(%1: f32):
// CHECK-NEXT:      gemm.yield %1 : f32
// CHECK-NEXT:    }
// CHECK-NEXT:    %dw = coda.reshape %0 : (tensor<16xbf16>) -> tensor<2x8xbf16>
// CHECK-NEXT:    func.return %y, %dw : tensor<?x16xbf16>, tensor<2x8xbf16>

// -----

// What the code gives is normalized over the whole row before the code goes on with it: the
// first part is a kernel, and stores what the second one reads.

func.func @depends(%z: tensor<?x16xf32>) -> tensor<?x16xf32> {
  %heads = coda.reshape %z : (tensor<?x16xf32>) -> tensor<?x2x8xf32>
  %mean = coda.reduce %heads {kind = "mean"} : (tensor<?x2x8xf32>) -> tensor<?x2x1xf32>
  %y = coda.sub %heads, %mean : (tensor<?x2x8xf32>, tensor<?x2x1xf32>) -> tensor<?x2x8xf32>
  %r = coda.reshape %y : (tensor<?x2x8xf32>) -> tensor<?x16xf32>
  %s = coda.cumsum %r {dim = 1 : i64} : (tensor<?x16xf32>) -> tensor<?x16xf32>
  %again = coda.reshape %s : (tensor<?x16xf32>) -> tensor<?x2x8xf32>
  %t = coda.mul %again, %y : (tensor<?x2x8xf32>, tensor<?x2x8xf32>) -> tensor<?x2x8xf32>
  %u = coda.reshape %t : (tensor<?x2x8xf32>) -> tensor<?x16xf32>
  func.return %u : tensor<?x16xf32>
}

// CHECK:      func.func @depends(
// CHECK-NEXT:   %heads = coda.reshape %z : (tensor<?x16xf32>) -> tensor<?x2x8xf32>
// CHECK-NEXT:   %y = gemm.map tile(%heads : tensor<?x2x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x2x8xf32>) {
// CHECK-NEXT:     ^bb0(%heads_1: f32):
// CHECK-NEXT:       %0 = gemm.group_reduce add %heads_1 over 8 : f32
// CHECK-NEXT:       %1 = arith.constant 1.250000e-01 : f32
// CHECK-NEXT:       %mean = arith.mulf %0, %1 : f32
// CHECK-NEXT:       %y_1 = arith.subf %heads_1, %mean : f32
// CHECK-NEXT:       gemm.yield %y_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %r = coda.reshape %y : (tensor<?x2x8xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %s = coda.cumsum %r {dim = 1 : i64} : (tensor<?x16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %again = coda.reshape %s : (tensor<?x16xf32>) -> tensor<?x2x8xf32>
// CHECK-NEXT:   %t = coda.mul %again, %y : (tensor<?x2x8xf32>, tensor<?x2x8xf32>) -> tensor<?x2x8xf32>
// CHECK-NEXT:   %u = coda.reshape %t : (tensor<?x2x8xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   func.return %u : tensor<?x16xf32>
// CHECK-NEXT: }

// -----

// The gradients of two norms with a residual around each: the second kernel reads the sum that the
// first one stores, and does not compute it again.

func.func @residual(%d: tensor<?x16xf32>, %a: tensor<?x16xf32>, %b: tensor<?x16xf32>) -> (tensor<?x16xf32>, tensor<?x16xf32>) {
  %p = coda.mul %a, %d : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
  %m = coda.reduce %p {kind = "mean"} : (tensor<?x16xf32>) -> tensor<?x1xf32>
  %s = coda.mul %a, %m : (tensor<?x16xf32>, tensor<?x1xf32>) -> tensor<?x16xf32>
  %t = coda.sub %d, %s : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
  %sum = coda.add %d, %t : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
  %e = coda.cumsum %sum {dim = 1 : i64} : (tensor<?x16xf32>) -> tensor<?x16xf32>
  %p2 = coda.mul %b, %e : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
  %m2 = coda.reduce %p2 {kind = "mean"} : (tensor<?x16xf32>) -> tensor<?x1xf32>
  %s2 = coda.mul %b, %m2 : (tensor<?x16xf32>, tensor<?x1xf32>) -> tensor<?x16xf32>
  %t2 = coda.sub %e, %s2 : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
  %sum2 = coda.add %sum, %t2 : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
  func.return %sum2, %e : tensor<?x16xf32>, tensor<?x16xf32>
}

// CHECK:      func.func @residual(
// CHECK-NEXT:   %sum = gemm.map tile(%a : tensor<?x16xf32>, %d : tensor<?x16xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%a_1: f32, %d_1: f32):
// CHECK-NEXT:       %p = arith.mulf %a_1, %d_1 : f32
// CHECK-NEXT:       %0 = gemm.group_reduce add %p over 16 : f32
// CHECK-NEXT:       %1 = arith.constant 6.250000e-02 : f32
// CHECK-NEXT:       %m = arith.mulf %0, %1 : f32
// CHECK-NEXT:       %s = arith.mulf %a_1, %m : f32
// CHECK-NEXT:       %t = arith.subf %d_1, %s : f32
// CHECK-NEXT:       %sum_1 = arith.addf %d_1, %t : f32
// CHECK-NEXT:       gemm.yield %sum_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %e = coda.cumsum %sum {dim = 1 : i64} : (tensor<?x16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %sum2 = gemm.map tile(%b : tensor<?x16xf32>, %e : tensor<?x16xf32>, %sum : tensor<?x16xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%b_1: f32, %e_1: f32, %sum_1: f32):
// CHECK-NEXT:       %p2 = arith.mulf %b_1, %e_1 : f32
// CHECK-NEXT:       %0 = gemm.group_reduce add %p2 over 16 : f32
// CHECK-NEXT:       %1 = arith.constant 6.250000e-02 : f32
// CHECK-NEXT:       %m2 = arith.mulf %0, %1 : f32
// CHECK-NEXT:       %s2 = arith.mulf %b_1, %m2 : f32
// CHECK-NEXT:       %t2 = arith.subf %e_1, %s2 : f32
// CHECK-NEXT:       %sum2_1 = arith.addf %sum_1, %t2 : f32
// CHECK-NEXT:       gemm.yield %sum2_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %sum2, %e : tensor<?x16xf32>, tensor<?x16xf32>
// CHECK-NEXT: }

// -----

// The gradient of a LayerNorm: two sums of the same rows, neither of which needs the other, in one kernel.

func.func @layer_norm_gradient(%x: tensor<?x512xbf16>, %dy: tensor<?x512xbf16>, %w: tensor<512xf32>, %mean: tensor<?x1xf32>, %rstd: tensor<?x1xf32>) -> tensor<?x512xf32> {
  %wide = coda.cast %x : (tensor<?x512xbf16>) -> tensor<?x512xf32>
  %d_wide = coda.cast %dy : (tensor<?x512xbf16>) -> tensor<?x512xf32>
  %centered = coda.sub %wide, %mean : (tensor<?x512xf32>, tensor<?x1xf32>) -> tensor<?x512xf32>
  %normed = coda.mul %centered, %rstd : (tensor<?x512xf32>, tensor<?x1xf32>) -> tensor<?x512xf32>
  %g = coda.mul %d_wide, %w : (tensor<?x512xf32>, tensor<512xf32>) -> tensor<?x512xf32>
  %p = coda.mul %normed, %g : (tensor<?x512xf32>, tensor<?x512xf32>) -> tensor<?x512xf32>
  %along = coda.reduce %p {kind = "mean"} : (tensor<?x512xf32>) -> tensor<?x1xf32>
  %shift = coda.reduce %g {kind = "mean"} : (tensor<?x512xf32>) -> tensor<?x1xf32>
  %inner = coda.sub %g, %shift : (tensor<?x512xf32>, tensor<?x1xf32>) -> tensor<?x512xf32>
  %part = coda.mul %normed, %along : (tensor<?x512xf32>, tensor<?x1xf32>) -> tensor<?x512xf32>
  %rest = coda.sub %inner, %part : (tensor<?x512xf32>, tensor<?x512xf32>) -> tensor<?x512xf32>
  func.return %rest : tensor<?x512xf32>
}

// CHECK:      func.func @layer_norm_gradient(
// CHECK-NEXT:   %rest = gemm.map tile(%x : tensor<?x512xbf16>, %dy : tensor<?x512xbf16>) col(%mean : tensor<?x1xf32>, %rstd : tensor<?x1xf32>) row(%w : tensor<512xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x512xf32>) {
// CHECK-NEXT:     ^bb0(%x_1: f32, %dy_1: f32, %mean_1: f32, %rstd_1: f32, %w_1: f32):
// CHECK-NEXT:       %centered = arith.subf %x_1, %mean_1 : f32
// CHECK-NEXT:       %normed = arith.mulf %centered, %rstd_1 : f32
// CHECK-NEXT:       %g = arith.mulf %dy_1, %w_1 : f32
// CHECK-NEXT:       %p = arith.mulf %normed, %g : f32
// CHECK-NEXT:       %0 = gemm.group_reduce add %p over 512 : f32
// CHECK-NEXT:       %1 = arith.constant 0.001953125 : f32
// CHECK-NEXT:       %along = arith.mulf %0, %1 : f32
// CHECK-NEXT:       %2 = gemm.group_reduce add %g over 512 : f32
// CHECK-NEXT:       %3 = arith.constant 0.001953125 : f32
// CHECK-NEXT:       %shift = arith.mulf %2, %3 : f32
// CHECK-NEXT:       %inner = arith.subf %g, %shift : f32
// CHECK-NEXT:       %part = arith.mulf %normed, %along : f32
// CHECK-NEXT:       %rest_1 = arith.subf %inner, %part : f32
// CHECK-NEXT:       gemm.yield %rest_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %rest : tensor<?x512xf32>
// CHECK-NEXT: }

// -----

// The same in the epilogue of the GEMM that computes dy, one tile of which holds the rows.

func.func @layer_norm_gradient_of_gemm(%z: tensor<?x16xbf16>, %v: tensor<64x16xbf16>, %x: tensor<?x64xbf16>, %mean: tensor<?x1xf32>, %rstd: tensor<?x1xf32>) -> tensor<?x64xf32> {
  %dy = gemm.fused %z : tensor<?x16xbf16>
    columns(%v : tensor<64x16xbf16>)
    -> (tile : tensor<?x64xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %wide = coda.cast %x : (tensor<?x64xbf16>) -> tensor<?x64xf32>
  %centered = coda.sub %wide, %mean : (tensor<?x64xf32>, tensor<?x1xf32>) -> tensor<?x64xf32>
  %normed = coda.mul %centered, %rstd : (tensor<?x64xf32>, tensor<?x1xf32>) -> tensor<?x64xf32>
  %shift = coda.reduce %dy {kind = "mean"} : (tensor<?x64xf32>) -> tensor<?x1xf32>
  %inner = coda.sub %dy, %shift : (tensor<?x64xf32>, tensor<?x1xf32>) -> tensor<?x64xf32>
  %p = coda.mul %normed, %dy : (tensor<?x64xf32>, tensor<?x64xf32>) -> tensor<?x64xf32>
  %along = coda.reduce %p {kind = "mean"} : (tensor<?x64xf32>) -> tensor<?x1xf32>
  %part = coda.mul %normed, %along : (tensor<?x64xf32>, tensor<?x1xf32>) -> tensor<?x64xf32>
  %rest = coda.sub %inner, %part : (tensor<?x64xf32>, tensor<?x64xf32>) -> tensor<?x64xf32>
  func.return %rest : tensor<?x64xf32>
}

// CHECK:      func.func @layer_norm_gradient_of_gemm(
// CHECK-NEXT:   %dy, %rest = gemm.fused %z : tensor<?x16xbf16>
// CHECK-NEXT:     columns(%v : tensor<64x16xbf16>) tile(%x : tensor<?x64xbf16>) col(%mean : tensor<?x1xf32>, %rstd : tensor<?x1xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x64xf32>, tile : tensor<?x64xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %x_1: f32, %mean_1: f32, %rstd_1: f32):
// CHECK-NEXT:       %centered = arith.subf %x_1, %mean_1 : f32
// CHECK-NEXT:       %normed = arith.mulf %centered, %rstd_1 : f32
// CHECK-NEXT:       %0 = gemm.group_reduce add %acc over 64 : f32
// CHECK-NEXT:       %1 = arith.constant 1.562500e-02 : f32
// CHECK-NEXT:       %shift = arith.mulf %0, %1 : f32
// CHECK-NEXT:       %inner = arith.subf %acc, %shift : f32
// CHECK-NEXT:       %p = arith.mulf %normed, %acc : f32
// CHECK-NEXT:       %2 = gemm.group_reduce add %p over 64 : f32
// CHECK-NEXT:       %3 = arith.constant 1.562500e-02 : f32
// CHECK-NEXT:       %along = arith.mulf %2, %3 : f32
// CHECK-NEXT:       %part = arith.mulf %normed, %along : f32
// CHECK-NEXT:       %rest_1 = arith.subf %inner, %part : f32
// CHECK-NEXT:       gemm.yield %acc, %rest_1 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %rest : tensor<?x64xf32>
// CHECK-NEXT: }

// -----

// A LayerNorm whose statistics are read as well: one kernel stores both.

func.func @statistics(%x: tensor<?x512xbf16>, %w: tensor<512xf32>) -> (tensor<?x512xbf16>, tensor<?x1xf32>, tensor<?x1xf32>) {
  %rstd, %mean = coda.norm_stats %x {kind = "layer", eps = 1.0e-5 : f64} : (tensor<?x512xbf16>) -> (tensor<?x1xf32>, tensor<?x1xf32>)
  %wide = coda.cast %x : (tensor<?x512xbf16>) -> tensor<?x512xf32>
  %centered = coda.sub %wide, %mean : (tensor<?x512xf32>, tensor<?x1xf32>) -> tensor<?x512xf32>
  %normed = coda.mul %centered, %rstd : (tensor<?x512xf32>, tensor<?x1xf32>) -> tensor<?x512xf32>
  %h = coda.mul %normed, %w : (tensor<?x512xf32>, tensor<512xf32>) -> tensor<?x512xf32>
  %y = coda.cast %h : (tensor<?x512xf32>) -> tensor<?x512xbf16>
  func.return %y, %rstd, %mean : tensor<?x512xbf16>, tensor<?x1xf32>, tensor<?x1xf32>
}

// CHECK:      func.func @statistics(
// CHECK-NEXT:   %y, %rstd, %mean = gemm.map tile(%x : tensor<?x512xbf16>) row(%w : tensor<512xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x512xbf16>, group<512> : tensor<?x1xf32>, group<512> : tensor<?x1xf32>) {
// CHECK-NEXT:     ^bb0(%x_1: f32, %w_1: f32):
// CHECK-NEXT:       %0 = gemm.group_reduce add %x_1 over 512 : f32
// CHECK-NEXT:       %1 = arith.constant 0.001953125 : f32
// CHECK-NEXT:       %mean_1 = arith.mulf %0, %1 : f32
// CHECK-NEXT:       %2 = arith.subf %x_1, %mean_1 : f32
// CHECK-NEXT:       %3 = arith.mulf %2, %2 : f32
// CHECK-NEXT:       %4 = gemm.group_reduce add %3 over 512 : f32
// CHECK-NEXT:       %5 = arith.mulf %4, %1 : f32
// CHECK-NEXT:       %6 = arith.constant {gemm.exact = 1.000000e-05 : f64} 1.000000e-05 : f32
// CHECK-NEXT:       %7 = arith.addf %5, %6 : f32
// CHECK-NEXT:       %rstd_1 = math.rsqrt %7 : f32
// CHECK-NEXT:       %centered = arith.subf %x_1, %mean_1 : f32
// CHECK-NEXT:       %normed = arith.mulf %centered, %rstd_1 : f32
// CHECK-NEXT:       %h = arith.mulf %normed, %w_1 : f32
// CHECK-NEXT:       gemm.yield %h, %rstd_1, %mean_1 : f32, f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y, %rstd, %mean : tensor<?x512xbf16>, tensor<?x1xf32>, tensor<?x1xf32>
// CHECK-NEXT: }

// RUN: coda-opt %s -p fuse-qk-norm --split-input-file | filecheck %s

// The mean is taken over each head; the weight of a head is a table that repeats along the columns.

func.func @heads(%x: tensor<?x8xbf16>, %w: tensor<24x8xbf16>, %g: tensor<8xbf16>) -> tensor<?x24xbf16> {
  %z = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<24x8xbf16>)
      -> (tile : tensor<?x24xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %n = coda.rms_norm %z, %g {eps = 1.000000e-06 : f64, group = 8 : i64} : (tensor<?x24xbf16>, tensor<8xbf16>) -> tensor<?x24xbf16>
  func.return %n : tensor<?x24xbf16>
}

// CHECK:      func.func @heads(
// CHECK-NEXT:   %n = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<24x8xbf16>) table(%g : tensor<8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x24xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %g_1: f32):
// CHECK-NEXT:       %0 = arith.mulf %acc, %acc : f32
// CHECK-NEXT:       %1 = gemm.group_reduce add %0 over 8 : f32
// CHECK-NEXT:       %2 = arith.constant 1.250000e-01 : f32
// CHECK-NEXT:       %3 = arith.mulf %1, %2 : f32
// CHECK-NEXT:       %4 = arith.constant {gemm.exact = 1.000000e-06 : f64} 1.000000e-06 : f32
// CHECK-NEXT:       %5 = arith.addf %3, %4 : f32
// CHECK-NEXT:       %rstd = math.rsqrt %5 : f32
// CHECK-NEXT:       %6 = arith.mulf %acc, %rstd : f32
// CHECK-NEXT:       %7 = arith.mulf %6, %g_1 : f32
// CHECK-NEXT:       gemm.yield %7 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %n : tensor<?x24xbf16>
// CHECK-NEXT: }

// -----

// Two heads: their weight is not that of a pair.

func.func @two_heads(%x: tensor<8xf32>, %w: tensor<16x8xf32>, %g: tensor<8xf32>) -> tensor<16xf32> {
  %z = gemm.fused %x : tensor<8xf32>
    columns(%w : tensor<16x8xf32>)
      -> (tile : tensor<16xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %n = coda.rms_norm %z, %g {eps = 1.000000e-06 : f64, group = 8 : i64} : (tensor<16xf32>, tensor<8xf32>) -> tensor<16xf32>
  func.return %n : tensor<16xf32>
}

// CHECK:      func.func @two_heads(
// CHECK-NEXT:   %n = gemm.fused %x : tensor<8xf32>
// CHECK-NEXT:     columns(%w : tensor<16x8xf32>) table(%g : tensor<8xf32>)
// CHECK-NEXT:       -> (tile : tensor<16xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %g_1: f32):
// CHECK-NEXT:       %0 = arith.mulf %acc, %acc : f32
// CHECK-NEXT:       %1 = gemm.group_reduce add %0 over 8 : f32
// CHECK-NEXT:       %2 = arith.constant 1.250000e-01 : f32
// CHECK-NEXT:       %3 = arith.mulf %1, %2 : f32
// CHECK-NEXT:       %4 = arith.constant {gemm.exact = 1.000000e-06 : f64} 1.000000e-06 : f32
// CHECK-NEXT:       %5 = arith.addf %3, %4 : f32
// CHECK-NEXT:       %rstd = math.rsqrt %5 : f32
// CHECK-NEXT:       %6 = arith.mulf %acc, %rstd : f32
// CHECK-NEXT:       %7 = arith.mulf %6, %g_1 : f32
// CHECK-NEXT:       gemm.yield %7 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %n : tensor<16xf32>
// CHECK-NEXT: }

// -----

// One head: a weight per column.

func.func @one_head(%x: tensor<?x8xf32>, %w: tensor<16x8xf32>, %g: tensor<16xf32>) -> tensor<?x16xf32> {
  %z = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<16x8xf32>)
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %n = coda.rms_norm %z, %g {eps = 1.000000e-06 : f64, group = 16 : i64} : (tensor<?x16xf32>, tensor<16xf32>) -> tensor<?x16xf32>
  func.return %n : tensor<?x16xf32>
}

// CHECK:      func.func @one_head(
// CHECK-NEXT:   %n = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<16x8xf32>) row(%g : tensor<16xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %g_1: f32):
// CHECK-NEXT:       %0 = arith.mulf %acc, %acc : f32
// CHECK-NEXT:       %1 = gemm.group_reduce add %0 over 16 : f32
// CHECK-NEXT:       %2 = arith.constant 6.250000e-02 : f32
// CHECK-NEXT:       %3 = arith.mulf %1, %2 : f32
// CHECK-NEXT:       %4 = arith.constant {gemm.exact = 1.000000e-06 : f64} 1.000000e-06 : f32
// CHECK-NEXT:       %5 = arith.addf %3, %4 : f32
// CHECK-NEXT:       %rstd = math.rsqrt %5 : f32
// CHECK-NEXT:       %6 = arith.mulf %acc, %rstd : f32
// CHECK-NEXT:       %7 = arith.mulf %6, %g_1 : f32
// CHECK-NEXT:       gemm.yield %7 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %n : tensor<?x16xf32>
// CHECK-NEXT: }

// -----

// The projection itself is stored where something else uses it; a weight of 1 + w is computed in the
// epilogue.

func.func @stored(%x: tensor<?x8xf32>, %w: tensor<24x8xf32>, %g: tensor<8xf32>) -> (tensor<?x24xf32>, tensor<?x24xf32>) {
  %one = coda.constant {value = 1.000000e+00 : f64} : tensor<f32>
  %g1 = coda.add %g, %one : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %z = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<24x8xf32>)
      -> (tile : tensor<?x24xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %n = coda.rms_norm %z, %g1 {eps = 1.000000e-06 : f64, group = 8 : i64} : (tensor<?x24xf32>, tensor<8xf32>) -> tensor<?x24xf32>
  func.return %n, %z : tensor<?x24xf32>, tensor<?x24xf32>
}

// CHECK:      func.func @stored(
// CHECK-NEXT:   %one = coda.constant {value = 1.000000e+00 : f64} : tensor<f32>
// CHECK-NEXT:   %g1 = coda.add %g, %one : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
// CHECK-NEXT:   %z, %n = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<24x8xf32>) table(%g : tensor<8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x24xf32>, tile : tensor<?x24xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %g_1: f32):
// CHECK-NEXT:       %0 = arith.mulf %acc, %acc : f32
// CHECK-NEXT:       %1 = gemm.group_reduce add %0 over 8 : f32
// CHECK-NEXT:       %2 = arith.constant 1.250000e-01 : f32
// CHECK-NEXT:       %3 = arith.mulf %1, %2 : f32
// CHECK-NEXT:       %4 = arith.constant {gemm.exact = 1.000000e-06 : f64} 1.000000e-06 : f32
// CHECK-NEXT:       %5 = arith.addf %3, %4 : f32
// CHECK-NEXT:       %rstd = math.rsqrt %5 : f32
// CHECK-NEXT:       %6 = arith.mulf %acc, %rstd : f32
// CHECK-NEXT:       %7 = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:       %g1_1 = arith.addf %g_1, %7 : f32
// CHECK-NEXT:       %8 = arith.mulf %6, %g1_1 : f32
// CHECK-NEXT:       gemm.yield %acc, %8 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %n, %z : tensor<?x24xf32>, tensor<?x24xf32>
// CHECK-NEXT: }

// -----

// Without a weight.

func.func @no_weight(%x: tensor<?x8xf32>, %w: tensor<8x24xf32>) -> tensor<?x24xf32> {
  %z = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<8x24xf32>) kn
      -> (tile : tensor<?x24xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %n = coda.rms_norm %z {eps = 1.000000e-06 : f64, group = 8 : i64} : (tensor<?x24xf32>) -> tensor<?x24xf32>
  func.return %n : tensor<?x24xf32>
}

// CHECK:      func.func @no_weight(
// CHECK-NEXT:   %n = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<8x24xf32>) kn
// CHECK-NEXT:       -> (tile : tensor<?x24xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       %0 = arith.mulf %acc, %acc : f32
// CHECK-NEXT:       %1 = gemm.group_reduce add %0 over 8 : f32
// CHECK-NEXT:       %2 = arith.constant 1.250000e-01 : f32
// CHECK-NEXT:       %3 = arith.mulf %1, %2 : f32
// CHECK-NEXT:       %4 = arith.constant {gemm.exact = 1.000000e-06 : f64} 1.000000e-06 : f32
// CHECK-NEXT:       %5 = arith.addf %3, %4 : f32
// CHECK-NEXT:       %rstd = math.rsqrt %5 : f32
// CHECK-NEXT:       %6 = arith.mulf %acc, %rstd : f32
// CHECK-NEXT:       gemm.yield %6 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %n : tensor<?x24xf32>
// CHECK-NEXT: }

// -----

// Heads that a pointwise kernel computes, such as the difference of two attentions.

func.func @of_a_pointwise_kernel(%z: tensor<?x24xf32>) -> tensor<?x24xf32> {
  %e = gemm.map tile(%z : tensor<?x24xf32>)
      -> (tile : tensor<?x24xf32>) {
    ^bb0(%a: f32):
      %0 = math.exp %a : f32
      gemm.yield %0 : f32
    }
  %n = coda.rms_norm %e {eps = 1.0e-6 : f64, group = 8 : i64} : (tensor<?x24xf32>) -> tensor<?x24xf32>
  func.return %n : tensor<?x24xf32>
}

// CHECK:      func.func @of_a_pointwise_kernel(
// CHECK-NEXT:   %n = gemm.map tile(%z : tensor<?x24xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x24xf32>) {
// CHECK-NEXT:     ^bb0(%a: f32):
// CHECK-NEXT:       %0 = math.exp %a : f32
// CHECK-NEXT:       %1 = arith.mulf %0, %0 : f32
// CHECK-NEXT:       %2 = gemm.group_reduce add %1 over 8 : f32
// CHECK-NEXT:       %3 = arith.constant 1.250000e-01 : f32
// CHECK-NEXT:       %4 = arith.mulf %2, %3 : f32
// CHECK-NEXT:       %5 = arith.constant {gemm.exact = 1.000000e-06 : f64} 1.000000e-06 : f32
// CHECK-NEXT:       %6 = arith.addf %4, %5 : f32
// CHECK-NEXT:       %rstd = math.rsqrt %6 : f32
// CHECK-NEXT:       %7 = arith.mulf %0, %rstd : f32
// CHECK-NEXT:       gemm.yield %7 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %n : tensor<?x24xf32>
// CHECK-NEXT: }

// -----

// A norm without weight moves before a rotation by angles.

func.func @rotated(%x: tensor<?x8xf32>, %w: tensor<24x8xf32>, %a: tensor<?x2x2xf32>) -> tensor<?x24xf32> {
  %z = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<24x8xf32>)
      -> (tile : tensor<?x24xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %c = coda.cos %a : (tensor<?x2x2xf32>) -> tensor<?x2x2xf32>
  %cos = coda.reshape %c : (tensor<?x2x2xf32>) -> tensor<?x4xf32>
  %s = coda.sin %a : (tensor<?x2x2xf32>) -> tensor<?x2x2xf32>
  %sin = coda.reshape %s : (tensor<?x2x2xf32>) -> tensor<?x4xf32>
  %q = coda.rope %z, %cos, %sin {head_dim = 8 : i64, layout = "half_split"} : (tensor<?x24xf32>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x24xf32>
  %n = coda.rms_norm %q {eps = 1.0e-06 : f64, group = 8 : i64} : (tensor<?x24xf32>) -> tensor<?x24xf32>
  func.return %n : tensor<?x24xf32>
}

// CHECK:      func.func @rotated(
// CHECK-NEXT:   %z = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<24x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x24xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       %0 = arith.mulf %acc, %acc : f32
// CHECK-NEXT:       %1 = gemm.group_reduce add %0 over 8 : f32
// CHECK-NEXT:       %2 = arith.constant 1.250000e-01 : f32
// CHECK-NEXT:       %3 = arith.mulf %1, %2 : f32
// CHECK-NEXT:       %4 = arith.constant {gemm.exact = 1.000000e-06 : f64} 1.000000e-06 : f32
// CHECK-NEXT:       %5 = arith.addf %3, %4 : f32
// CHECK-NEXT:       %rstd = math.rsqrt %5 : f32
// CHECK-NEXT:       %6 = arith.mulf %acc, %rstd : f32
// CHECK-NEXT:       gemm.yield %6 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %c = coda.cos %a : (tensor<?x2x2xf32>) -> tensor<?x2x2xf32>
// CHECK-NEXT:   %cos = coda.reshape %c : (tensor<?x2x2xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   %s = coda.sin %a : (tensor<?x2x2xf32>) -> tensor<?x2x2xf32>
// CHECK-NEXT:   %sin = coda.reshape %s : (tensor<?x2x2xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   %n = coda.rope %z, %cos, %sin {head_dim = 8 : i64, layout = "half_split"} : (tensor<?x24xf32>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x24xf32>
// CHECK-NEXT:   func.return %n : tensor<?x24xf32>
// CHECK-NEXT: }

// -----

// The adjoint of a rotation is one, too.

func.func @rotated_back(%x: tensor<?x8xbf16>, %w: tensor<24x8xbf16>, %a: tensor<?x2x2xf32>) -> tensor<?x24xbf16> {
  %z = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<24x8xbf16>)
      -> (tile : tensor<?x24xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %c = coda.cos %a : (tensor<?x2x2xf32>) -> tensor<?x2x2xf32>
  %cos = coda.reshape %c : (tensor<?x2x2xf32>) -> tensor<?x4xf32>
  %s = coda.sin %a : (tensor<?x2x2xf32>) -> tensor<?x2x2xf32>
  %sin = coda.reshape %s : (tensor<?x2x2xf32>) -> tensor<?x4xf32>
  %q = coda.rope %z, %cos, %sin {head_dim = 8 : i64, layout = "half_split", transposed} : (tensor<?x24xbf16>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x24xbf16>
  %n = coda.rms_norm %q {eps = 1.0e-06 : f64, group = 8 : i64} : (tensor<?x24xbf16>) -> tensor<?x24xbf16>
  func.return %n : tensor<?x24xbf16>
}

// CHECK:      func.func @rotated_back(
// CHECK-NEXT:   %z = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<24x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x24xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       %0 = arith.mulf %acc, %acc : f32
// CHECK-NEXT:       %1 = gemm.group_reduce add %0 over 8 : f32
// CHECK-NEXT:       %2 = arith.constant 1.250000e-01 : f32
// CHECK-NEXT:       %3 = arith.mulf %1, %2 : f32
// CHECK-NEXT:       %4 = arith.constant {gemm.exact = 1.000000e-06 : f64} 1.000000e-06 : f32
// CHECK-NEXT:       %5 = arith.addf %3, %4 : f32
// CHECK-NEXT:       %rstd = math.rsqrt %5 : f32
// CHECK-NEXT:       %6 = arith.mulf %acc, %rstd : f32
// CHECK-NEXT:       gemm.yield %6 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %c = coda.cos %a : (tensor<?x2x2xf32>) -> tensor<?x2x2xf32>
// CHECK-NEXT:   %cos = coda.reshape %c : (tensor<?x2x2xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   %s = coda.sin %a : (tensor<?x2x2xf32>) -> tensor<?x2x2xf32>
// CHECK-NEXT:   %sin = coda.reshape %s : (tensor<?x2x2xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   %n = coda.rope %z, %cos, %sin {head_dim = 8 : i64, layout = "half_split", transposed} : (tensor<?x24xbf16>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x24xbf16>
// CHECK-NEXT:   func.return %n : tensor<?x24xbf16>
// CHECK-NEXT: }

// RUN: coda-opt %s -p "coda-to-gemm{numerics=eager-exact}" --split-input-file | filecheck %s

// Every operator rounds to its element type: the product, the sum with the residual, whose square is
// taken of the rounded value. A mean divides, as PyTorch does.

func.func @residual(%x: tensor<?x8xbf16>, %r: tensor<?x12xbf16>, %w: tensor<12x8xbf16>) -> (tensor<?x12xbf16>, tensor<?x1xf32>) {
  %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<12x8xbf16>) -> tensor<?x12xbf16>
  %y = coda.add %z, %r : (tensor<?x12xbf16>, tensor<?x12xbf16>) -> tensor<?x12xbf16>
  %s = coda.norm_stats %y {kind = "rms", eps = 1.000000e-05 : f64} : (tensor<?x12xbf16>) -> tensor<?x1xf32>
  func.return %y, %s : tensor<?x12xbf16>, tensor<?x1xf32>
}

// CHECK:      func.func @residual(%x: tensor<?x8xbf16>, %r: tensor<?x12xbf16>, %w: tensor<12x8xbf16>) -> (tensor<?x12xbf16>, tensor<?x1xf32>) attributes {coda.numerics = #gemm.numerics<"eager-exact">} {
// CHECK-NEXT:   %y, %partial = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<12x8xbf16>) tile(%r : tensor<?x12xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x12xbf16>, partial_row<add> : tensor<?x?xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %r_1: f32):
// CHECK-NEXT:       %0 = arith.truncf %acc : f32 to bf16
// CHECK-NEXT:       %1 = arith.extf %0 : bf16 to f32
// CHECK-NEXT:       %2 = arith.addf %1, %r_1 : f32
// CHECK-NEXT:       %3 = arith.truncf %2 : f32 to bf16
// CHECK-NEXT:       %y_1 = arith.extf %3 : bf16 to f32
// CHECK-NEXT:       %4 = arith.mulf %y_1, %y_1 : f32
// CHECK-NEXT:       gemm.yield %y_1, %4 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %s = gemm.finalize row (add %partial : tensor<?x?xf32>) -> (tensor<?x1xf32>) {
// CHECK-NEXT:   ^bb0(%0: f32):
// CHECK-NEXT:     %1 = arith.constant 1.200000e+01 : f32
// CHECK-NEXT:     %2 = arith.divf %0, %1 : f32
// CHECK-NEXT:     %3 = arith.constant {gemm.exact = 1.000000e-05 : f64} 1.000000e-05 : f32
// CHECK-NEXT:     %4 = arith.addf %2, %3 : f32
// CHECK-NEXT:     %5 = math.rsqrt %4 : f32
// CHECK-NEXT:     gemm.yield %5 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %y, %s : tensor<?x12xbf16>, tensor<?x1xf32>
// CHECK-NEXT: }

// -----

// A bias is part of the linear map, which rounds once; SiLU rounds once, and so does its product.

func.func @glu(%x: tensor<?x8xf16>, %wg: tensor<12x8xf16>, %wu: tensor<12x8xf16>, %b: tensor<12xf16>) -> tensor<?x12xf16> {
  %g = coda.linear %x, %wg, %b : (tensor<?x8xf16>, tensor<12x8xf16>, tensor<12xf16>) -> tensor<?x12xf16>
  %u = coda.linear %x, %wu : (tensor<?x8xf16>, tensor<12x8xf16>) -> tensor<?x12xf16>
  %s = coda.silu %g : (tensor<?x12xf16>) -> tensor<?x12xf16>
  %a = coda.mul %s, %u : (tensor<?x12xf16>, tensor<?x12xf16>) -> tensor<?x12xf16>
  func.return %a : tensor<?x12xf16>
}

// CHECK:      func.func @glu(%x: tensor<?x8xf16>, %wg: tensor<12x8xf16>, %wu: tensor<12x8xf16>, %b: tensor<12xf16>) -> tensor<?x12xf16> attributes {coda.numerics = #gemm.numerics<"eager-exact">} {
// CHECK-NEXT:   %a = gemm.fused %x : tensor<?x8xf16>
// CHECK-NEXT:     columns(%wg : tensor<12x8xf16>, %wu : tensor<12x8xf16>) pair<halves> half_row(%b : tensor<12xf16>)
// CHECK-NEXT:       -> (half : tensor<?x12xf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %acc_1: f32, %b_1: f32):
// CHECK-NEXT:       %0 = arith.addf %acc, %b_1 : f32
// CHECK-NEXT:       %1 = arith.truncf %0 : f32 to f16
// CHECK-NEXT:       %2 = arith.extf %1 : f16 to f32
// CHECK-NEXT:       %3 = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:       %4 = arith.negf %2 : f32
// CHECK-NEXT:       %5 = math.exp %4 : f32
// CHECK-NEXT:       %6 = arith.addf %3, %5 : f32
// CHECK-NEXT:       %7 = arith.divf %2, %6 : f32
// CHECK-NEXT:       %8 = arith.truncf %7 : f32 to f16
// CHECK-NEXT:       %s = arith.extf %8 : f16 to f32
// CHECK-NEXT:       %9 = arith.truncf %acc_1 : f32 to f16
// CHECK-NEXT:       %10 = arith.extf %9 : f16 to f32
// CHECK-NEXT:       %11 = arith.mulf %s, %10 : f32
// CHECK-NEXT:       %12 = arith.truncf %11 : f32 to f16
// CHECK-NEXT:       %a_1 = arith.extf %12 : f16 to f32
// CHECK-NEXT:       gemm.yield %a_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %a : tensor<?x12xf16>
// CHECK-NEXT: }

// -----

// Products with float32 angles are float32, so that a rotation rounds once; a soft cap is three
// operators of PyTorch.

func.func @rope(%x: tensor<?x8xbf16>, %w: tensor<8x8xbf16>, %cos: tensor<?x2xf32>, %sin: tensor<?x2xf32>) -> tensor<?x8xbf16> {
  %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  %q = coda.rope %z, %cos, %sin {head_dim = 4 : i64, layout = "half_split"} : (tensor<?x8xbf16>, tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x8xbf16>
  func.return %q : tensor<?x8xbf16>
}

// CHECK:      func.func @rope(%x: tensor<?x8xbf16>, %w: tensor<8x8xbf16>, %cos: tensor<?x2xf32>, %sin: tensor<?x2xf32>) -> tensor<?x8xbf16> attributes {coda.numerics = #gemm.numerics<"eager-exact">} {
// CHECK-NEXT:   %q = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<8x8xbf16>) pair<halves, 4> half_table(%cos : tensor<?x2xf32>, %sin : tensor<?x2xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x8xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %acc_1: f32, %cos_1: f32, %sin_1: f32):
// CHECK-NEXT:       %0 = arith.truncf %acc : f32 to bf16
// CHECK-NEXT:       %1 = arith.truncf %acc_1 : f32 to bf16
// CHECK-NEXT:       %2 = arith.extf %0 : bf16 to f32
// CHECK-NEXT:       %3 = arith.extf %1 : bf16 to f32
// CHECK-NEXT:       %4 = arith.mulf %2, %cos_1 : f32
// CHECK-NEXT:       %5 = arith.mulf %3, %sin_1 : f32
// CHECK-NEXT:       %6 = arith.subf %4, %5 : f32
// CHECK-NEXT:       %7 = arith.mulf %3, %cos_1 : f32
// CHECK-NEXT:       %8 = arith.mulf %2, %sin_1 : f32
// CHECK-NEXT:       %9 = arith.addf %7, %8 : f32
// CHECK-NEXT:       %10 = arith.truncf %6 : f32 to bf16
// CHECK-NEXT:       %11 = arith.extf %10 : bf16 to f32
// CHECK-NEXT:       %12 = arith.truncf %9 : f32 to bf16
// CHECK-NEXT:       %13 = arith.extf %12 : bf16 to f32
// CHECK-NEXT:       gemm.yield %11, %13 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %q : tensor<?x8xbf16>
// CHECK-NEXT: }

// -----

func.func @softcap(%x: tensor<?x8xbf16>, %w: tensor<8x8xbf16>) -> tensor<?x8xbf16> {
  %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  %c = coda.softcap %z {cap = 30.0 : f64} : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  func.return %c : tensor<?x8xbf16>
}

// CHECK:      func.func @softcap(%x: tensor<?x8xbf16>, %w: tensor<8x8xbf16>) -> tensor<?x8xbf16> attributes {coda.numerics = #gemm.numerics<"eager-exact">} {
// CHECK-NEXT:   %c = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<8x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x8xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       %0 = arith.truncf %acc : f32 to bf16
// CHECK-NEXT:       %1 = arith.extf %0 : bf16 to f32
// CHECK-NEXT:       %2 = arith.constant 3.000000e+01 : f32
// CHECK-NEXT:       %3 = arith.divf %1, %2 : f32
// CHECK-NEXT:       %4 = arith.truncf %3 : f32 to bf16
// CHECK-NEXT:       %5 = arith.extf %4 : bf16 to f32
// CHECK-NEXT:       %6 = math.tanh %5 : f32
// CHECK-NEXT:       %7 = arith.truncf %6 : f32 to bf16
// CHECK-NEXT:       %8 = arith.extf %7 : bf16 to f32
// CHECK-NEXT:       %9 = arith.mulf %8, %2 : f32
// CHECK-NEXT:       %10 = arith.truncf %9 : f32 to bf16
// CHECK-NEXT:       %c_1 = arith.extf %10 : bf16 to f32
// CHECK-NEXT:       gemm.yield %c_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %c : tensor<?x8xbf16>
// CHECK-NEXT: }

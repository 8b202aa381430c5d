// RUN: coda-opt %s -p overlap-launches | filecheck %s
// RUN: not coda-opt %s -p "overlap-launches{target=sm_80}" 2>&1 | filecheck %s --check-prefix=OTHER

// OTHER: error[E0703]: overlap-launches: target 'sm_80' has no programmatic dependent launch
// OTHER: help: use one of sm_90, h200

// Kernels of the GEMM level wait for the kernels before by themselves. What else runs is launched as
// ever.

func.func @norm(%x: tensor<?x8xbf16>, %w: tensor<32x8xbf16>) -> tensor<?x32xbf16> {
  %z, %partial = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<32x8xbf16>)
      -> (tile : tensor<?x32xbf16>, partial_row<add> : tensor<?x?xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc, %acc : f32, f32
    }
  %s = gemm.finalize row (add %partial : tensor<?x?xf32>) -> (tensor<?x1xf32>) {
  ^bb0(%0: f32):
    gemm.yield %0 : f32
  }
  %y = gemm.map tile(%z : tensor<?x32xbf16>) col(%s : tensor<?x1xf32>)
      -> (tile : tensor<?x32xbf16>) {
    ^bb0(%a: f32, %b: f32):
      %0 = arith.mulf %a, %b : f32
      gemm.yield %0 : f32
    }
  %e = coda.softmax %y : (tensor<?x32xbf16>) -> tensor<?x32xbf16>
  func.return %e : tensor<?x32xbf16>
}

// CHECK:      func.func @norm(
// CHECK-NEXT:   %z, %partial = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<32x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x32xbf16>, partial_row<add> : tensor<?x?xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc, %acc : f32, f32
// CHECK-NEXT:     } attributes {coda.dependent}
// CHECK-NEXT:   %s = gemm.finalize row (add %partial : tensor<?x?xf32>) -> (tensor<?x1xf32>) {
// CHECK-NEXT:   ^bb0(%0: f32):
// CHECK-NEXT:     gemm.yield %0 : f32
// CHECK-NEXT:   } attributes {coda.dependent}
// CHECK-NEXT:   %y = gemm.map tile(%z : tensor<?x32xbf16>) col(%s : tensor<?x1xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x32xbf16>) {
// CHECK-NEXT:     ^bb0(%a: f32, %b: f32):
// CHECK-NEXT:       %0 = arith.mulf %a, %b : f32
// CHECK-NEXT:       gemm.yield %0 : f32
// CHECK-NEXT:     } attributes {coda.dependent}
// CHECK-NEXT:   %e = coda.softmax %y : (tensor<?x32xbf16>) -> tensor<?x32xbf16>
// CHECK-NEXT:   func.return %e : tensor<?x32xbf16>
// CHECK-NEXT: }

// Weights that GEMMs alone read may be read before the wait, but not by the first kernel.

func.func @two(%x: tensor<1x128xbf16>, %w: tensor<16x128xi32>, %v: tensor<16x32xi32>, %s: tensor<1x128xbf16>, %t: tensor<1x32xbf16>, %r: tensor<1x32xbf16>) -> (tensor<1x32xbf16>, tensor<1x32xbf16>) {
  %y = gemm.fused %x : tensor<1x128xbf16> quantized<128, "k01234567">
    columns(%w : tensor<16x128xi32>) kn scales(%s : tensor<1x128xbf16>)
      -> (tile : tensor<1x128xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %z = gemm.fused %y : tensor<1x128xbf16> quantized<128, "k01234567">
    columns(%v : tensor<16x32xi32>) kn scales(%t : tensor<1x32xbf16>)
      -> (tile : tensor<1x32xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %scales = coda.exp %r : (tensor<1x32xbf16>) -> tensor<1x32xbf16>
  %u = gemm.fused %y : tensor<1x128xbf16> quantized<128, "k01234567">
    columns(%v : tensor<16x32xi32>) kn scales(%scales : tensor<1x32xbf16>)
      -> (tile : tensor<1x32xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  func.return %z, %u : tensor<1x32xbf16>, tensor<1x32xbf16>
}

// CHECK:      func.func @two(
// CHECK-NEXT:   %y = gemm.fused %x : tensor<1x128xbf16> quantized<128, "k01234567">
// CHECK-NEXT:     columns(%w : tensor<16x128xi32>) kn scales(%s : tensor<1x128xbf16>)
// CHECK-NEXT:       -> (tile : tensor<1x128xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     } attributes {coda.dependent}
// CHECK-NEXT:   %z = gemm.fused %y : tensor<1x128xbf16> quantized<128, "k01234567">
// CHECK-NEXT:     columns(%v : tensor<16x32xi32>) kn scales(%t : tensor<1x32xbf16>)
// CHECK-NEXT:       -> (tile : tensor<1x32xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     } attributes {coda.dependent, coda.ahead}
// CHECK-NEXT:   %scales = coda.exp %r : (tensor<1x32xbf16>) -> tensor<1x32xbf16>
// CHECK-NEXT:   %u = gemm.fused %y : tensor<1x128xbf16> quantized<128, "k01234567">
// CHECK-NEXT:     columns(%v : tensor<16x32xi32>) kn scales(%scales : tensor<1x32xbf16>)
// CHECK-NEXT:       -> (tile : tensor<1x32xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     } attributes {coda.dependent}
// CHECK-NEXT:   func.return %z, %u : tensor<1x32xbf16>, tensor<1x32xbf16>
// CHECK-NEXT: }

// So may the numbers of their groups, if another kernel has computed them than the one before.

func.func @experts(%x: tensor<1x32xbf16>, %g: tensor<4x32xbf16>, %w: tensor<4x16x32xbf16>, %v: tensor<4x32x16xbf16>, %r: tensor<4x32xbf16>) -> tensor<1x4xbf16> {
  %s = gemm.fused %x : tensor<1x32xbf16>
    schedule<one_row, "1x4x16", warps = 4, stages = 1, group_m = 8, split_k = 2>
    columns(%g : tensor<4x32xbf16>)
      -> (tile : tensor<1x4xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %k, %n = coda.topk %s {k = 2 : i64, dim = 1 : i64} : (tensor<1x4xf32>) -> (tensor<1x2xf32>, tensor<1x2xi64>)
  %i = coda.reshape %n : (tensor<1x2xi64>) -> tensor<2xi64>
  %h = gemm.fused %x : tensor<1x32xbf16> numbered(%i : tensor<2xi64>)
    schedule<one_row, "1x4x16", warps = 4, stages = 1, group_m = 8>
    columns(%w : tensor<4x16x32xbf16>)
      -> (tile : tensor<2x16xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %row = coda.reshape %h : (tensor<2x16xbf16>) -> tensor<1x32xbf16>
  %y = gemm.fused %row : tensor<1x32xbf16> numbered(%i : tensor<2xi64>)
    schedule<one_row, "1x4x16", warps = 4, stages = 1, group_m = 8>
    columns(%v : tensor<4x32x16xbf16>)
      -> (tile : tensor<1x32xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %z = gemm.fused %y : tensor<1x32xbf16>
    schedule<one_row, "1x4x16", warps = 4, stages = 1, group_m = 8, split_k = 2>
    columns(%r : tensor<4x32xbf16>)
      -> (tile : tensor<1x4xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  func.return %z : tensor<1x4xbf16>
}

// CHECK-LABEL: func.func @experts(
// CHECK:       %s = gemm.fused
// CHECK:         attributes {coda.dependent}
// CHECK:       %h = gemm.fused
// CHECK:         attributes {coda.dependent}
// CHECK:       %y = gemm.fused
// CHECK:         attributes {coda.dependent, coda.ahead}
// CHECK:       %z = gemm.fused
// CHECK:         attributes {coda.dependent, coda.ahead}

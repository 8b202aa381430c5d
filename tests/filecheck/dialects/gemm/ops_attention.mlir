// RUN: coda-opt %s | coda-opt -f mlir | filecheck %s
// RUN: coda-opt %s --print-op-generic | coda-opt -f mlir | filecheck %s

// Attention, with an epilogue.

func.func @gated(%q: tensor<?x?x64xbf16>, %k: tensor<?x?x32xbf16>, %v: tensor<?x?x32xbf16>, %gate: tensor<?x?x64xbf16>, %m: tensor<4x1x?xf32>) -> (tensor<?x4x?xf32>, tensor<?x?x64xbf16>) {
  %lse, %y = gemm.attention (%q : tensor<?x?x64xbf16>, %k : tensor<?x?x32xbf16>, %v : tensor<?x?x32xbf16>) mask(%m : tensor<4x1x?xf32>) {head_dim = 16 : i64, causal = true, softcap = 5.000000e+01 : f64}
    schedule<tma, "64x64x16", warps = 4, stages = 3, group_m = 8> tile(%gate : tensor<?x?x64xbf16>)
      -> (tile : tensor<?x?x64xbf16>) {
    ^bb0(%o: f32, %g: f32):
      %z = arith.mulf %o, %g : f32
      gemm.yield %z : f32
    }
  func.return %lse, %y : tensor<?x4x?xf32>, tensor<?x?x64xbf16>
}
// CHECK:      func.func @gated(%q: tensor<?x?x64xbf16>, %k: tensor<?x?x32xbf16>, %v: tensor<?x?x32xbf16>, %gate: tensor<?x?x64xbf16>, %m: tensor<4x1x?xf32>) -> (tensor<?x4x?xf32>, tensor<?x?x64xbf16>) {
// CHECK-NEXT:   %lse, %y = gemm.attention (%q : tensor<?x?x64xbf16>, %k : tensor<?x?x32xbf16>, %v : tensor<?x?x32xbf16>) mask(%m : tensor<4x1x?xf32>) {head_dim = 16 : i64, causal = true, softcap = 5.000000e+01 : f64}
// CHECK-NEXT:     schedule<tma, "64x64x16", warps = 4, stages = 3, group_m = 8> tile(%gate : tensor<?x?x64xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x?x64xbf16>) {
// CHECK-NEXT:     ^bb0(%o: f32, %g: f32):
// CHECK-NEXT:       %z = arith.mulf %o, %g : f32
// CHECK-NEXT:       gemm.yield %z : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %lse, %y : tensor<?x4x?xf32>, tensor<?x?x64xbf16>
// CHECK-NEXT: }

// The backward of attention, with epilogues.

func.func @attention(%dy: tensor<?x?x64xbf16>, %y: tensor<?x?x64xbf16>, %lse: tensor<?x4x?xf32>, %q: tensor<?x?x64xbf16>, %k: tensor<?x?x32xbf16>, %v: tensor<?x?x32xbf16>, %cos: tensor<?x8xf32>, %b: tensor<32xbf16>, %m: tensor<4x1x?xi1>) -> (tensor<?x?x64xbf16>, tensor<?x?x32xbf16>, tensor<?x?x32xbf16>) {
  %moment, %dz = gemm.attention_dq (%dy : tensor<?x?x64xbf16>, %y : tensor<?x?x64xbf16>, %lse : tensor<?x4x?xf32>, %q : tensor<?x?x64xbf16>, %k : tensor<?x?x32xbf16>, %v : tensor<?x?x32xbf16>) {head_dim = 16 : i64, causal = true, exact_moment} pair<halves, 16> half_table(%cos : tensor<?x8xf32>)
      -> (tile : tensor<?x?x64xbf16>) {
    ^bb0(%a: f32, %b1: f32, %c: f32):
      %x = arith.mulf %a, %c : f32
      %z = arith.mulf %b1, %c : f32
      gemm.yield %x, %z : f32, f32
    }
  %dk, %dv, %p = gemm.attention_dkv (%dy : tensor<?x?x64xbf16>, %moment : tensor<?x4x?xf32>, %lse : tensor<?x4x?xf32>, %q : tensor<?x?x64xbf16>, %k : tensor<?x?x32xbf16>, %v : tensor<?x?x32xbf16>) mask(%m : tensor<4x1x?xi1>) {head_dim = 16 : i64, causal = false, window = 5 : i64, scale = 5.000000e-01 : f64}
    schedule<tma, "128x64x16", warps = 8, stages = 3, group_m = 8> row(%b : tensor<32xbf16>)
      -> (tile : tensor<?x?x32xbf16>, tile : tensor<?x?x32xbf16>, partial_row<add> : tensor<?x?x?xf32>) {
    ^bb0(%a: f32, %b1: f32, %c: f32):
      %s = arith.addf %b1, %c : f32
      gemm.yield %a, %b1, %s : f32, f32, f32
    }
  func.return %dz, %dk, %dv : tensor<?x?x64xbf16>, tensor<?x?x32xbf16>, tensor<?x?x32xbf16>
}

// CHECK:      func.func @attention(
// CHECK-NEXT:   %moment, %dz = gemm.attention_dq (%dy : tensor<?x?x64xbf16>, %y : tensor<?x?x64xbf16>, %lse : tensor<?x4x?xf32>, %q : tensor<?x?x64xbf16>, %k : tensor<?x?x32xbf16>, %v : tensor<?x?x32xbf16>) {head_dim = 16 : i64, causal = true, exact_moment} pair<halves, 16> half_table(%cos : tensor<?x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x?x64xbf16>) {
// CHECK-NEXT:     ^bb0(%a: f32, %b1: f32, %c: f32):
// CHECK-NEXT:       %x = arith.mulf %a, %c : f32
// CHECK-NEXT:       %z = arith.mulf %b1, %c : f32
// CHECK-NEXT:       gemm.yield %x, %z : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %dk, %dv, %p = gemm.attention_dkv (%dy : tensor<?x?x64xbf16>, %moment : tensor<?x4x?xf32>, %lse : tensor<?x4x?xf32>, %q : tensor<?x?x64xbf16>, %k : tensor<?x?x32xbf16>, %v : tensor<?x?x32xbf16>) mask(%m : tensor<4x1x?xi1>) {head_dim = 16 : i64, causal = false, window = 5 : i64, scale = 5.000000e-01 : f64}
// CHECK-NEXT:     schedule<tma, "128x64x16", warps = 8, stages = 3, group_m = 8> row(%b : tensor<32xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x?x32xbf16>, tile : tensor<?x?x32xbf16>, partial_row<add> : tensor<?x?x?xf32>) {
// CHECK-NEXT:     ^bb0(%a: f32, %b1: f32, %c: f32):
// CHECK-NEXT:       %s = arith.addf %b1, %c : f32
// CHECK-NEXT:       gemm.yield %a, %b1, %s : f32, f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %dz, %dk, %dv : tensor<?x?x64xbf16>, tensor<?x?x32xbf16>, tensor<?x?x32xbf16>
// CHECK-NEXT: }

// The gradient of a mask, without an epilogue.

func.func @mask(%dy: tensor<?x?x64xbf16>, %moment: tensor<?x4x?x2xf32>, %lse: tensor<?x4x?xf32>, %q: tensor<?x?x64xbf16>, %k: tensor<?x?x32xbf16>, %v: tensor<?x?x32xbf16>, %m: tensor<4x1x?xbf16>) -> tensor<4x?x?xbf16> {
  %d_mask = gemm.attention_dmask (%dy : tensor<?x?x64xbf16>, %moment : tensor<?x4x?x2xf32>, %lse : tensor<?x4x?xf32>, %q : tensor<?x?x64xbf16>, %k : tensor<?x?x32xbf16>, %v : tensor<?x?x32xbf16>) mask(%m : tensor<4x1x?xbf16>) {head_dim = 16 : i64, causal = true}
    schedule<tma, "128x64x16", warps = 8, stages = 2, group_m = 8>
      -> () {
      gemm.yield
    }
  func.return %d_mask : tensor<4x?x?xbf16>
}
// CHECK:      func.func @mask(%dy: tensor<?x?x64xbf16>, %moment: tensor<?x4x?x2xf32>, %lse: tensor<?x4x?xf32>, %q: tensor<?x?x64xbf16>, %k: tensor<?x?x32xbf16>, %v: tensor<?x?x32xbf16>, %m: tensor<4x1x?xbf16>) -> tensor<4x?x?xbf16> {
// CHECK-NEXT:   %d_mask = gemm.attention_dmask (%dy : tensor<?x?x64xbf16>, %moment : tensor<?x4x?x2xf32>, %lse : tensor<?x4x?xf32>, %q : tensor<?x?x64xbf16>, %k : tensor<?x?x32xbf16>, %v : tensor<?x?x32xbf16>) mask(%m : tensor<4x1x?xbf16>) {head_dim = 16 : i64, causal = true}
// CHECK-NEXT:     schedule<tma, "128x64x16", warps = 8, stages = 2, group_m = 8>
// CHECK-NEXT:       -> () {
// CHECK-NEXT:       gemm.yield
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %d_mask : tensor<4x?x?xbf16>
// CHECK-NEXT: }

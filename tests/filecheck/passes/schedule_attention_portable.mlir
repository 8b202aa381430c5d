// RUN: coda-opt %s -p schedule{target=portable} --split-input-file | filecheck %s
// RUN: coda-opt %s -p schedule{target=portable} --split-input-file --remarks=analysis -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// Loads through pointers.

func.func @heads(%dy: tensor<2x6x512xbf16>, %y: tensor<2x6x512xbf16>, %lse: tensor<2x4x6xf32>, %q: tensor<2x6x512xbf16>, %k: tensor<2x9x256xbf16>, %v: tensor<2x9x256xbf16>) -> (tensor<2x6x512xbf16>, tensor<2x9x256xbf16>, tensor<2x9x256xbf16>) {
  %moment, %dq = gemm.attention_dq (%dy : tensor<2x6x512xbf16>, %y : tensor<2x6x512xbf16>, %lse : tensor<2x4x6xf32>, %q : tensor<2x6x512xbf16>, %k : tensor<2x9x256xbf16>, %v : tensor<2x9x256xbf16>) {head_dim = 128 : i64, causal = true}
      -> (tile : tensor<2x6x512xbf16>) {
    ^bb0(%a: f32):
      gemm.yield %a : f32
    }
  %dk, %dv = gemm.attention_dkv (%dy : tensor<2x6x512xbf16>, %moment : tensor<2x4x6xf32>, %lse : tensor<2x4x6xf32>, %q : tensor<2x6x512xbf16>, %k : tensor<2x9x256xbf16>, %v : tensor<2x9x256xbf16>) {head_dim = 128 : i64, causal = true}
      -> (tile : tensor<2x9x256xbf16>, tile : tensor<2x9x256xbf16>) {
    ^bb0(%a: f32, %b: f32):
      gemm.yield %a, %b : f32, f32
    }
  func.return %dq, %dk, %dv : tensor<2x6x512xbf16>, tensor<2x9x256xbf16>, tensor<2x9x256xbf16>
}

// REMARK: remark[analysis] schedule: gemm.attention_dq: tiles of 64 rows of a head of 128 columns, 32 rows at a time, 4 warps, 2 stages, pointer loads
// REMARK: remark[analysis] schedule: gemm.attention_dkv: tiles of 64 rows of a head of 128 columns, 32 rows at a time, 4 warps, 2 stages, pointer loads
// CHECK:      func.func @heads(
// CHECK-NEXT:   %moment, %dq = gemm.attention_dq (%dy : tensor<2x6x512xbf16>, %y : tensor<2x6x512xbf16>, %lse : tensor<2x4x6xf32>, %q : tensor<2x6x512xbf16>, %k : tensor<2x9x256xbf16>, %v : tensor<2x9x256xbf16>) {head_dim = 128 : i64, causal = true}
// CHECK-NEXT:     schedule<pointer, "64x32x128", warps = 4, stages = 2, group_m = 8>
// CHECK-NEXT:       -> (tile : tensor<2x6x512xbf16>) {
// CHECK-NEXT:     ^bb0(%a: f32):
// CHECK-NEXT:       gemm.yield %a : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %dk, %dv = gemm.attention_dkv (%dy : tensor<2x6x512xbf16>, %moment : tensor<2x4x6xf32>, %lse : tensor<2x4x6xf32>, %q : tensor<2x6x512xbf16>, %k : tensor<2x9x256xbf16>, %v : tensor<2x9x256xbf16>) {head_dim = 128 : i64, causal = true}
// CHECK-NEXT:     schedule<pointer, "64x32x128", warps = 4, stages = 2, group_m = 8, split_k = 2>
// CHECK-NEXT:       -> (tile : tensor<2x9x256xbf16>, tile : tensor<2x9x256xbf16>) {
// CHECK-NEXT:     ^bb0(%a: f32, %b: f32):
// CHECK-NEXT:       gemm.yield %a, %b : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %dq, %dk, %dv : tensor<2x6x512xbf16>, tensor<2x9x256xbf16>, tensor<2x9x256xbf16>
// CHECK-NEXT: }

// RUN: coda-opt %s -p "schedule{target=sm_90 mainloop=warp_specialized}" --split-input-file | filecheck %s
// RUN: coda-opt %s -p "schedule{target=sm_90 mainloop=warp_specialized}" --split-input-file --remarks=analysis -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// Heads of 16 columns.

func.func @heads(%dy: tensor<2x6x64xbf16>, %y: tensor<2x6x64xbf16>, %lse: tensor<2x4x6xf32>, %q: tensor<2x6x64xbf16>, %k: tensor<2x9x32xbf16>, %v: tensor<2x9x32xbf16>) -> (tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>) {
  %moment, %dq = gemm.attention_dq (%dy : tensor<2x6x64xbf16>, %y : tensor<2x6x64xbf16>, %lse : tensor<2x4x6xf32>, %q : tensor<2x6x64xbf16>, %k : tensor<2x9x32xbf16>, %v : tensor<2x9x32xbf16>) {head_dim = 16 : i64, causal = true}
      -> (tile : tensor<2x6x64xbf16>) {
    ^bb0(%a: f32):
      gemm.yield %a : f32
    }
  %dk, %dv = gemm.attention_dkv (%dy : tensor<2x6x64xbf16>, %moment : tensor<2x4x6xf32>, %lse : tensor<2x4x6xf32>, %q : tensor<2x6x64xbf16>, %k : tensor<2x9x32xbf16>, %v : tensor<2x9x32xbf16>) {head_dim = 16 : i64, causal = true}
      -> (tile : tensor<2x9x32xbf16>, tile : tensor<2x9x32xbf16>) {
    ^bb0(%a: f32, %b: f32):
      gemm.yield %a, %b : f32, f32
    }
  func.return %dq, %dk, %dv : tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>
}

// REMARK: remark[analysis] schedule: gemm.attention_dq: tiles of 64 rows of a head of 16 columns, 64 rows at a time, 4 warps, 2 stages, tma loads, asynchronous products
// REMARK: remark[analysis] schedule: gemm.attention_dkv: tiles of 64 rows of a head of 16 columns, 64 rows at a time, 4 warps, 4 stages, tma loads, asynchronous products
// CHECK:      func.func @heads(
// CHECK-NEXT:   %moment, %dq = gemm.attention_dq (%dy : tensor<2x6x64xbf16>, %y : tensor<2x6x64xbf16>, %lse : tensor<2x4x6xf32>, %q : tensor<2x6x64xbf16>, %k : tensor<2x9x32xbf16>, %v : tensor<2x9x32xbf16>) {head_dim = 16 : i64, causal = true}
// CHECK-NEXT:     schedule<wgmma, "64x64x16", warps = 4, stages = 2, group_m = 8>
// CHECK-NEXT:       -> (tile : tensor<2x6x64xbf16>) {
// CHECK-NEXT:     ^bb0(%a: f32):
// CHECK-NEXT:       gemm.yield %a : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %dk, %dv = gemm.attention_dkv (%dy : tensor<2x6x64xbf16>, %moment : tensor<2x4x6xf32>, %lse : tensor<2x4x6xf32>, %q : tensor<2x6x64xbf16>, %k : tensor<2x9x32xbf16>, %v : tensor<2x9x32xbf16>) {head_dim = 16 : i64, causal = true}
// CHECK-NEXT:     schedule<wgmma, "64x64x16", warps = 4, stages = 4, group_m = 8, split_k = 2>
// CHECK-NEXT:       -> (tile : tensor<2x9x32xbf16>, tile : tensor<2x9x32xbf16>) {
// CHECK-NEXT:     ^bb0(%a: f32, %b: f32):
// CHECK-NEXT:       gemm.yield %a, %b : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %dq, %dk, %dv : tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>
// CHECK-NEXT: }

// -----

// Wide heads: two warpgroups share a tile.

func.func @wide_heads(%dy: tensor<2x6x512xbf16>, %y: tensor<2x6x512xbf16>, %lse: tensor<2x4x6xf32>, %q: tensor<2x6x512xbf16>, %k: tensor<2x9x512xbf16>, %v: tensor<2x9x512xbf16>) -> (tensor<2x6x512xbf16>, tensor<2x9x512xbf16>, tensor<2x9x512xbf16>) {
  %moment, %dq = gemm.attention_dq (%dy : tensor<2x6x512xbf16>, %y : tensor<2x6x512xbf16>, %lse : tensor<2x4x6xf32>, %q : tensor<2x6x512xbf16>, %k : tensor<2x9x512xbf16>, %v : tensor<2x9x512xbf16>) {head_dim = 128 : i64, causal = true}
      -> (tile : tensor<2x6x512xbf16>) {
    ^bb0(%a: f32):
      gemm.yield %a : f32
    }
  %dk, %dv = gemm.attention_dkv (%dy : tensor<2x6x512xbf16>, %moment : tensor<2x4x6xf32>, %lse : tensor<2x4x6xf32>, %q : tensor<2x6x512xbf16>, %k : tensor<2x9x512xbf16>, %v : tensor<2x9x512xbf16>) {head_dim = 128 : i64, causal = true}
      -> (tile : tensor<2x9x512xbf16>, tile : tensor<2x9x512xbf16>) {
    ^bb0(%a: f32, %b: f32):
      gemm.yield %a, %b : f32, f32
    }
  func.return %dq, %dk, %dv : tensor<2x6x512xbf16>, tensor<2x9x512xbf16>, tensor<2x9x512xbf16>
}

// REMARK: remark[analysis] schedule: gemm.attention_dq: tiles of 64 rows of a head of 128 columns, 64 rows at a time, 4 warps, 2 stages, tma loads, asynchronous products
// REMARK: remark[analysis] schedule: gemm.attention_dkv: tiles of 64 rows of a head of 128 columns, 64 rows at a time, 4 warps, 2 stages, tma loads, asynchronous products
// CHECK:      func.func @wide_heads(
// CHECK-NEXT:   %moment, %dq = gemm.attention_dq (%dy : tensor<2x6x512xbf16>, %y : tensor<2x6x512xbf16>, %lse : tensor<2x4x6xf32>, %q : tensor<2x6x512xbf16>, %k : tensor<2x9x512xbf16>, %v : tensor<2x9x512xbf16>) {head_dim = 128 : i64, causal = true}
// CHECK-NEXT:     schedule<wgmma, "64x64x128", warps = 4, stages = 2, group_m = 8>
// CHECK-NEXT:       -> (tile : tensor<2x6x512xbf16>) {
// CHECK-NEXT:     ^bb0(%a: f32):
// CHECK-NEXT:       gemm.yield %a : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %dk, %dv = gemm.attention_dkv (%dy : tensor<2x6x512xbf16>, %moment : tensor<2x4x6xf32>, %lse : tensor<2x4x6xf32>, %q : tensor<2x6x512xbf16>, %k : tensor<2x9x512xbf16>, %v : tensor<2x9x512xbf16>) {head_dim = 128 : i64, causal = true}
// CHECK-NEXT:     schedule<wgmma, "64x64x128", warps = 4, stages = 2, group_m = 8>
// CHECK-NEXT:       -> (tile : tensor<2x9x512xbf16>, tile : tensor<2x9x512xbf16>) {
// CHECK-NEXT:     ^bb0(%a: f32, %b: f32):
// CHECK-NEXT:       gemm.yield %a, %b : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %dq, %dk, %dv : tensor<2x6x512xbf16>, tensor<2x9x512xbf16>, tensor<2x9x512xbf16>
// CHECK-NEXT: }

// -----

// Two heads of queries share one of keys: a step has the queries of one.

func.func @shared_heads(%dy: tensor<2x6x512xbf16>, %y: tensor<2x6x512xbf16>, %lse: tensor<2x4x6xf32>, %q: tensor<2x6x512xbf16>, %k: tensor<2x9x256xbf16>, %v: tensor<2x9x256xbf16>) -> (tensor<2x6x512xbf16>, tensor<2x9x256xbf16>, tensor<2x9x256xbf16>) {
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

// REMARK: remark[analysis] schedule: gemm.attention_dq: tiles of 64 rows of a head of 128 columns, 64 rows at a time, 4 warps, 2 stages, tma loads, asynchronous products
// REMARK: remark[analysis] schedule: gemm.attention_dkv: tiles of 64 rows of a head of 128 columns, 64 rows at a time, 4 warps, 2 stages, tma loads, asynchronous products
// CHECK:      func.func @shared_heads(
// CHECK-NEXT:   %moment, %dq = gemm.attention_dq (%dy : tensor<2x6x512xbf16>, %y : tensor<2x6x512xbf16>, %lse : tensor<2x4x6xf32>, %q : tensor<2x6x512xbf16>, %k : tensor<2x9x256xbf16>, %v : tensor<2x9x256xbf16>) {head_dim = 128 : i64, causal = true}
// CHECK-NEXT:     schedule<wgmma, "64x64x128", warps = 4, stages = 2, group_m = 8>
// CHECK-NEXT:       -> (tile : tensor<2x6x512xbf16>) {
// CHECK-NEXT:     ^bb0(%a: f32):
// CHECK-NEXT:       gemm.yield %a : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %dk, %dv = gemm.attention_dkv (%dy : tensor<2x6x512xbf16>, %moment : tensor<2x4x6xf32>, %lse : tensor<2x4x6xf32>, %q : tensor<2x6x512xbf16>, %k : tensor<2x9x256xbf16>, %v : tensor<2x9x256xbf16>) {head_dim = 128 : i64, causal = true}
// CHECK-NEXT:     schedule<wgmma, "64x64x128", warps = 4, stages = 2, group_m = 8, split_k = 2>
// CHECK-NEXT:       -> (tile : tensor<2x9x256xbf16>, tile : tensor<2x9x256xbf16>) {
// CHECK-NEXT:     ^bb0(%a: f32, %b: f32):
// CHECK-NEXT:       gemm.yield %a, %b : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %dq, %dk, %dv : tensor<2x6x512xbf16>, tensor<2x9x256xbf16>, tensor<2x9x256xbf16>
// CHECK-NEXT: }

// -----

// Attention itself.

func.func @forward(%q: tensor<2x32x64xbf16>, %k: tensor<2x40x32xbf16>, %v: tensor<2x40x32xbf16>) -> tensor<2x32x64xbf16> {
  %lse, %y = gemm.attention (%q : tensor<2x32x64xbf16>, %k : tensor<2x40x32xbf16>, %v : tensor<2x40x32xbf16>) {head_dim = 16 : i64, causal = true, softcap = 5.000000e+01 : f64}
      -> (tile : tensor<2x32x64xbf16>) {
    ^bb0(%a: f32):
      gemm.yield %a : f32
    }
  func.return %y : tensor<2x32x64xbf16>
}

// REMARK: remark[analysis] schedule: gemm.attention: tiles of 64 rows of a head of 16 columns, 64 rows at a time, 4 warps, 3 stages, tma loads
// CHECK:      func.func @forward(%q: tensor<2x32x64xbf16>, %k: tensor<2x40x32xbf16>, %v: tensor<2x40x32xbf16>) -> tensor<2x32x64xbf16> {
// CHECK-NEXT:   %lse, %y = gemm.attention (%q : tensor<2x32x64xbf16>, %k : tensor<2x40x32xbf16>, %v : tensor<2x40x32xbf16>) {head_dim = 16 : i64, causal = true, softcap = 5.000000e+01 : f64}
// CHECK-NEXT:     schedule<tma, "64x64x16", warps = 4, stages = 3, group_m = 8>
// CHECK-NEXT:       -> (tile : tensor<2x32x64xbf16>) {
// CHECK-NEXT:     ^bb0(%a: f32):
// CHECK-NEXT:       gemm.yield %a : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y : tensor<2x32x64xbf16>
// CHECK-NEXT: }

// -----

// A mask is loaded between the products, which then wait for one another.

func.func @masked(%dy: tensor<2x6x64xbf16>, %y: tensor<2x6x64xbf16>, %lse: tensor<2x4x6xf32>, %q: tensor<2x6x64xbf16>, %k: tensor<2x9x64xbf16>, %v: tensor<2x9x64xbf16>, %m: tensor<6x9xi1>) -> tensor<2x6x64xbf16> {
  %moment, %dq = gemm.attention_dq (%dy : tensor<2x6x64xbf16>, %y : tensor<2x6x64xbf16>, %lse : tensor<2x4x6xf32>, %q : tensor<2x6x64xbf16>, %k : tensor<2x9x64xbf16>, %v : tensor<2x9x64xbf16>) mask(%m : tensor<6x9xi1>) {head_dim = 16 : i64, causal = false}
      -> (tile : tensor<2x6x64xbf16>) {
    ^bb0(%a: f32):
      gemm.yield %a : f32
    }
  func.return %dq : tensor<2x6x64xbf16>
}

// REMARK: remark[analysis] schedule: gemm.attention_dq: tiles of 64 rows of a head of 16 columns, 64 rows at a time, 4 warps, 3 stages, tma loads; no asynchronous products: its mask is loaded between the products
// CHECK:      func.func @masked(
// CHECK-NEXT:   %moment, %dq = gemm.attention_dq
// CHECK-NEXT:     schedule<tma, "64x64x16", warps = 4, stages = 3, group_m = 8>

// -----

// An exact moment takes a second sum.

func.func @exact(%dy: tensor<2x6x512xbf16>, %y: tensor<2x6x512xbf16>, %lse: tensor<2x2x6xf32>, %q: tensor<2x6x512xbf16>, %k: tensor<2x9x512xbf16>, %v: tensor<2x9x512xbf16>) -> (tensor<2x2x6xf32>, tensor<2x6x512xbf16>) {
  %moment, %dq = gemm.attention_dq (%dy : tensor<2x6x512xbf16>, %y : tensor<2x6x512xbf16>, %lse : tensor<2x2x6xf32>, %q : tensor<2x6x512xbf16>, %k : tensor<2x9x512xbf16>, %v : tensor<2x9x512xbf16>) {head_dim = 256 : i64, causal = true, exact_moment}
      -> (tile : tensor<2x6x512xbf16>) {
    ^bb0(%a: f32):
      gemm.yield %a : f32
    }
  func.return %moment, %dq : tensor<2x2x6xf32>, tensor<2x6x512xbf16>
}

// REMARK: remark[analysis] schedule: gemm.attention_dq: tiles of 64 rows of a head of 256 columns, 64 rows at a time, 8 warps, 2 stages, tma loads, asynchronous products
// CHECK:      func.func @exact(
// CHECK-NEXT:   %moment, %dq = gemm.attention_dq (%dy : tensor<2x6x512xbf16>, %y : tensor<2x6x512xbf16>, %lse : tensor<2x2x6xf32>, %q : tensor<2x6x512xbf16>, %k : tensor<2x9x512xbf16>, %v : tensor<2x9x512xbf16>) {head_dim = 256 : i64, causal = true, exact_moment}
// CHECK-NEXT:     schedule<wgmma, "64x64x256", warps = 8, stages = 2, group_m = 8>
// CHECK-NEXT:       -> (tile : tensor<2x6x512xbf16>) {
// CHECK-NEXT:     ^bb0(%a: f32):
// CHECK-NEXT:       gemm.yield %a : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %moment, %dq : tensor<2x2x6xf32>, tensor<2x6x512xbf16>
// CHECK-NEXT: }

// -----

// An unknown number of rows is taken for 4096.

func.func @unknown_rows(%dy: tensor<?x?x1024xbf16>, %moment: tensor<?x8x?xf32>, %lse: tensor<?x8x?xf32>, %q: tensor<?x?x1024xbf16>, %k: tensor<?x?x128xbf16>, %v: tensor<?x?x128xbf16>) -> (tensor<?x?x128xbf16>, tensor<?x?x128xbf16>) {
  %dk, %dv = gemm.attention_dkv (%dy : tensor<?x?x1024xbf16>, %moment : tensor<?x8x?xf32>, %lse : tensor<?x8x?xf32>, %q : tensor<?x?x1024xbf16>, %k : tensor<?x?x128xbf16>, %v : tensor<?x?x128xbf16>) {head_dim = 128 : i64, causal = true}
      -> (tile : tensor<?x?x128xbf16>, tile : tensor<?x?x128xbf16>) {
    ^bb0(%a: f32, %b: f32):
      gemm.yield %a, %b : f32, f32
    }
  func.return %dk, %dv : tensor<?x?x128xbf16>, tensor<?x?x128xbf16>
}

// REMARK: remark[analysis] schedule: gemm.attention_dkv: tiles of 64 rows of a head of 128 columns, 64 rows at a time, 4 warps, 2 stages, tma loads, asynchronous products, heads of queries split among 8 programs
// CHECK:      func.func @unknown_rows(
// CHECK-NEXT:   %dk, %dv = gemm.attention_dkv
// CHECK-NEXT:     schedule<wgmma, "64x64x128", warps = 4, stages = 2, group_m = 8, split_k = 8>

// -----

// The gradient of a mask has tiles of queries and keys.

func.func @mask(%dy: tensor<?x?x64xbf16>, %moment: tensor<?x4x?x2xf32>, %lse: tensor<?x4x?xf32>, %q: tensor<?x?x64xbf16>, %k: tensor<?x?x32xbf16>, %v: tensor<?x?x32xbf16>, %m: tensor<4x?x?xbf16>) -> tensor<4x?x?xbf16> {
  %d_mask = gemm.attention_dmask (%dy : tensor<?x?x64xbf16>, %moment : tensor<?x4x?x2xf32>, %lse : tensor<?x4x?xf32>, %q : tensor<?x?x64xbf16>, %k : tensor<?x?x32xbf16>, %v : tensor<?x?x32xbf16>) mask(%m : tensor<4x?x?xbf16>) {head_dim = 16 : i64, causal = true}
      -> () {
      gemm.yield
    }
  func.return %d_mask : tensor<4x?x?xbf16>
}

// CHECK:      func.func @mask(
// CHECK-NEXT:   %d_mask = gemm.attention_dmask (%dy : tensor<?x?x64xbf16>, %moment : tensor<?x4x?x2xf32>, %lse : tensor<?x4x?xf32>, %q : tensor<?x?x64xbf16>, %k : tensor<?x?x32xbf16>, %v : tensor<?x?x32xbf16>) mask(%m : tensor<4x?x?xbf16>) {head_dim = 16 : i64, causal = true}
// CHECK-NEXT:     schedule<tma, "64x128x16", warps = 4, stages = 2, group_m = 8>
// CHECK-NEXT:       -> () {
// CHECK-NEXT:       gemm.yield
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %d_mask : tensor<4x?x?xbf16>
// CHECK-NEXT: }

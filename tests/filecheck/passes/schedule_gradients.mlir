// RUN: coda-opt %s -p "schedule{target=sm_90 mainloop=tma}" --split-input-file | filecheck %s --check-prefixes CHECK,SM90
// RUN: coda-opt %s -p "schedule{target=sm_90 mainloop=tma}" --split-input-file --remarks -o /dev/null 2>&1 | filecheck %s --check-prefix REMARK
// RUN: coda-opt %s -p schedule --split-input-file | filecheck %s --check-prefixes CHECK,PORTABLE

// The rows are K of a weight's gradient, whose tiles are counted in waves of 132 programs.

// REMARK: remark[analysis] schedule: gemm.fused: 4096 x 2048 x K in tiles of 128 x 256 x 64, 8 warps, 3 stages, tma main loop: 8 programs per row of tiles, 0% padding
// CHECK-LABEL: func.func @large
// SM90: schedule<tma, "128x256x64", warps = 8, stages = 3, group_m = 8>
// PORTABLE: schedule<pointer, "128x128x64", warps = 8, stages = 3, group_m = 8>
func.func @large(%dy: tensor<?x?x4096xbf16>, %x: tensor<?x?x2048xbf16>) -> tensor<4096x2048xbf16> {
  %dw = gemm.fused transposed %dy : tensor<?x?x4096xbf16>
    columns(%x : tensor<?x?x2048xbf16>) kn
      -> (tile : tensor<4096x2048xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  func.return %dw : tensor<4096x2048xbf16>
}

// -----

// A small one has few tiles, whose K is split: 512 x 512 are 32 tiles of 128 x 64.

// REMARK: remark[analysis] schedule: gemm.fused: 512 x 512 x K in tiles of 128 x 64 x 64, 4 warps, 3 stages, tma main loop: 8 programs per row of tiles, 0% padding, K split among 4 programs
// CHECK-LABEL: func.func @small
// SM90: schedule<tma, "128x64x64", warps = 4, stages = 3, group_m = 8, split_k = 4>
// PORTABLE: schedule<pointer, "128x64x64", warps = 4, stages = 3, group_m = 8, split_k = 3>
func.func @small(%dy: tensor<?x512xbf16>, %x: tensor<?x512xbf16>) -> tensor<512x512xbf16> {
  %dw = gemm.fused transposed %dy : tensor<?x512xbf16>
    columns(%x : tensor<?x512xbf16>) kn
      -> (tile : tensor<512x512xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  func.return %dw : tensor<512x512xbf16>
}

// -----

// The products of a sum share the tile; K is that of all of them.

// REMARK: remark[analysis] schedule: gemm.fused: M x 4096 x 6144 in tiles of 128 x 256 x 64, 8 warps, 3 stages, tma main loop: 16 programs per row of tiles, 0% padding
// CHECK-LABEL: func.func @terms
// SM90: schedule<tma, "128x256x64", warps = 8, stages = 3, group_m = 8>
// PORTABLE: schedule<pointer, "128x128x64", warps = 8, stages = 3, group_m = 8>
func.func @terms(%dq: tensor<?x4096xbf16>, %dk: tensor<?x2048xbf16>, %wq: tensor<4096x4096xbf16>, %wk: tensor<2048x4096xbf16>) -> tensor<?x4096xbf16> {
  %dh = gemm.fused %dq : tensor<?x4096xbf16> + %dk : tensor<?x2048xbf16>
    columns(%wq : tensor<4096x4096xbf16>) + (%wk : tensor<2048x4096xbf16>) kn
      -> (tile : tensor<?x4096xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  func.return %dh : tensor<?x4096xbf16>
}

// -----

// Pairs of neighbours are no box of a K x N weight.

// REMARK: remark[analysis] schedule: gemm.fused: M x 256 x 64 in tiles of 128 x 256 x 64, 8 warps, 3 stages, pointer main loop: 1 program per row of tiles, 0% padding; no TMA: columns of adjacent pairs of a K x N weight are not consecutive
// CHECK-LABEL: func.func @adjacent
func.func @adjacent(%x: tensor<?x64xbf16>, %w: tensor<64x256xbf16>) -> tensor<?x128xbf16> {
  %y = gemm.fused %x : tensor<?x64xbf16>
    columns(%w : tensor<64x256xbf16>) kn pair<adjacent>
      -> (half : tensor<?x128xbf16>) {
    ^bb0(%g: f32, %u: f32):
      %p = arith.mulf %g, %u : f32
      gemm.yield %p : f32
    }
  func.return %y : tensor<?x128xbf16>
}

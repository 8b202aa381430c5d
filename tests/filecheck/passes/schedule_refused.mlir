// RUN: not coda-opt %s -p schedule -o /dev/null 2>&1 | filecheck %s
// RUN: not coda-opt %s -p "schedule{tile=\"64x64x32\"}" -o /dev/null 2>&1 | filecheck %s --check-prefix TILE
// RUN: not coda-opt %s -p "schedule{tile=\"64x64\"}" -o /dev/null 2>&1 | filecheck %s --check-prefix FORMAT
// RUN: not coda-opt %s -p "schedule{target=sm_75}" -o /dev/null 2>&1 | filecheck %s --check-prefix TARGET
// RUN: not coda-opt %s -p "schedule{mainloop=simd}" -o /dev/null 2>&1 | filecheck %s --check-prefix LOOP
// RUN: not coda-opt %s -p "schedule{target=gfx942 mainloop=tma}" -o /dev/null 2>&1 | filecheck %s --check-prefix TMA
// RUN: not coda-opt %s -p "schedule{tile=\"16x1024x16\" split_k=65}" -o /dev/null 2>&1 | filecheck %s --check-prefix SPLIT
// RUN: not coda-opt %s -p "tune{mode=always}" -o /dev/null 2>&1 | filecheck %s --check-prefix TUNE

// Groups of 1024 columns fit no tile.

// CHECK: schedule: no tile of gemm.fused Mx1024x64 fits portable
// CHECK: help: the groups of gemm.group_reduce (group_sum, group_max) may be too wide: a partial_row and finalize combine rows of any width
// TILE: schedule: a tile of 64 columns cannot hold a group of 1024, which takes 1024
// FORMAT: schedule: tile is '64x64'
// TARGET: schedule: unknown target 'sm_75'
// LOOP: schedule: unknown main loop 'simd'
// TMA: schedule: target gfx942 has no TMA
// TMA-NEXT: help: use sm_90, h200, or the pointer main loop
// SPLIT: schedule: split_k is 65, expected 1 to 64
// SPLIT: help: leave it out: the cost model chooses
// TUNE: tune: unknown mode 'always'
func.func @f(%x: tensor<?x64xbf16>, %w: tensor<1024x64xbf16>) -> tensor<?x1024xbf16> {
  %z = gemm.fused %x : tensor<?x64xbf16>
    columns(%w : tensor<1024x64xbf16>)
      -> (tile : tensor<?x1024xbf16>) {
    ^bb0(%acc: f32):
      %sum = gemm.group_reduce add %acc over 1024 : f32
      gemm.yield %sum : f32
    }
  func.return %z : tensor<?x1024xbf16>
}

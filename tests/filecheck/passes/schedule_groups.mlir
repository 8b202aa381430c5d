// RUN: coda-opt %s -p "schedule{target=sm_90}" | filecheck %s --check-prefixes CHECK,SM90
// RUN: coda-opt %s -p schedule | filecheck %s --check-prefixes CHECK,PORTABLE
// RUN: coda-opt %s -p "schedule{target=interpreter}" | filecheck %s --check-prefixes CHECK,INTERPRETER
// RUN: coda-opt %s -p "schedule{target=sm_90 mainloop=tma}" | filecheck %s --check-prefixes CHECK,LOADS
// RUN: coda-opt %s -p "schedule{target=sm_90 mainloop=tma}" --remarks -o /dev/null 2>&1 | filecheck %s --check-prefix REMARK

// A group of columns that is reduced lies inside a tile; a pair takes half of the tile's columns.

// CHECK-LABEL: func.func @wide_heads
// CHECK: gemm.fused %x : tensor<?x4096xbf16>
// SM90-NEXT: schedule<pointer, "64x256x64", warps = 8, stages = 3, group_m = 8>
// PORTABLE-NEXT: schedule<pointer, "64x256x32", warps = 8, stages = 3, group_m = 8>
// INTERPRETER-NEXT: schedule<pointer, "16x256x64", warps = 4, stages = 1, group_m = 8>
// LOADS-NEXT: schedule<tma, "64x256x64", warps = 8, stages = 3, group_m = 8>
// REMARK: remark[analysis] schedule: gemm.fused: M x 1024 x 4096 in tiles of 64 x 256 x 64
func.func @wide_heads(%x: tensor<?x4096xbf16>, %w: tensor<1024x4096xbf16>) -> tensor<?x1024xbf16> {
  %z = gemm.fused %x : tensor<?x4096xbf16>
    columns(%w : tensor<1024x4096xbf16>) pair<halves, 256>
      -> (tile : tensor<?x1024xbf16>) {
    ^bb0(%first: f32, %second: f32):
      %product = arith.mulf %first, %second : f32
      %sum = gemm.group_reduce add %product over 256 : f32
      gemm.yield %sum, %product : f32, f32
    }
  func.return %z : tensor<?x1024xbf16>
}

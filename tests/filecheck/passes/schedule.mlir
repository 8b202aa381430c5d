// RUN: coda-opt %s -p "schedule{target=sm_90}" --split-input-file | filecheck %s --check-prefixes CHECK,SM90
// RUN: coda-opt %s -p schedule --split-input-file | filecheck %s --check-prefixes CHECK,PORTABLE
// RUN: coda-opt %s -p "schedule{target=interpreter}" --split-input-file | filecheck %s --check-prefixes CHECK,INTERPRETER
// RUN: coda-opt %s -p "schedule{target=sm_90 mainloop=tma}" --split-input-file | filecheck %s --check-prefixes CHECK,LOADS
// RUN: coda-opt %s -p "schedule{target=sm_90 tile=\"64x64x32\" warps=4 stages=4 group_m=2}" --split-input-file | filecheck %s --check-prefixes CHECK,GIVEN
// RUN: coda-opt %s -p "schedule{target=sm_90 mainloop=tma}" --split-input-file --remarks -o /dev/null 2>&1 | filecheck %s --check-prefix REMARK

// A large GEMM takes the largest tile that the registers of the target hold.

// CHECK-LABEL: func.func @large
// CHECK: gemm.fused %x : tensor<?x4096xbf16>
// SM90-NEXT: schedule<pointer, "128x256x64", warps = 8, stages = 3, group_m = 8>
// PORTABLE-NEXT: schedule<pointer, "128x128x64", warps = 8, stages = 3, group_m = 8>
// INTERPRETER-NEXT: schedule<pointer, "64x64x64", warps = 4, stages = 1, group_m = 8>
// LOADS-NEXT: schedule<tma, "128x256x64", warps = 8, stages = 3, group_m = 8>
// GIVEN-NEXT: schedule<pointer, "64x64x32", warps = 4, stages = 4, group_m = 2>
// REMARK: remark[analysis] schedule: gemm.fused: M x 12288 x 4096 in tiles of 128 x 256 x 64, 8 warps, 3 stages, tma main loop: 48 programs per row of tiles, 0% padding
func.func @large(%x: tensor<?x4096xbf16>, %w: tensor<12288x4096xbf16>) -> tensor<?x12288xbf16> {
  %z = gemm.fused %x : tensor<?x4096xbf16>
    columns(%w : tensor<12288x4096xbf16>)
      -> (tile : tensor<?x12288xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  func.return %z : tensor<?x12288xbf16>
}

// -----

// Narrow outputs take narrow tiles. TMA loads rows of whole vectors.

// CHECK-LABEL: func.func @narrow
// CHECK: gemm.fused %x : tensor<?x24xf16>
// SM90-NEXT: schedule<pointer, "128x16x32", warps = 4, stages = 3, group_m = 8>
// PORTABLE-NEXT: schedule<pointer, "128x64x32", warps = 4, stages = 3, group_m = 8>
// INTERPRETER-NEXT: schedule<pointer, "64x64x32", warps = 4, stages = 1, group_m = 8>
// LOADS-NEXT: schedule<pointer, "128x16x32", warps = 4, stages = 3, group_m = 8>
// GIVEN-NEXT: schedule<pointer, "64x64x32", warps = 4, stages = 4, group_m = 2>
// REMARK: remark[analysis] schedule: gemm.fused: M x 36 x 24 in tiles of 128 x 16 x 32, 4 warps, 3 stages, pointer main loop: 3 programs per row of tiles, 25% padding; no TMA: 36 columns of a K x N weight are not multiples of 16 bytes
func.func @narrow(%x: tensor<?x24xf16>, %w: tensor<24x36xf16>) -> tensor<?x36xf16> {
  %z = gemm.fused %x : tensor<?x24xf16>
    columns(%w : tensor<24x36xf16>) kn
      -> (tile : tensor<?x36xf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  func.return %z : tensor<?x36xf16>
}

// -----

// Four rows need no tile of 128, and all processors have to read the weight: 16 tiles of 256 columns
// in 8 parts of K for 132 of them. Through pointers, float32 is multiplied without tensor cores.

// CHECK-LABEL: func.func @few_rows
// CHECK: gemm.fused %x : tensor<4x4096xf32>
// SM90-NEXT: schedule<pointer, "16x256x32", warps = 8, stages = 3, group_m = 8, split_k = 8>
// PORTABLE-NEXT: schedule<pointer, "16x128x32", warps = 4, stages = 3, group_m = 8, split_k = 3>
// INTERPRETER-NEXT: schedule<pointer, "16x256x64", warps = 8, stages = 1, group_m = 8>
// LOADS-NEXT: schedule<pointer, "16x256x32", warps = 8, stages = 3, group_m = 8, split_k = 8>
// GIVEN-NEXT: schedule<pointer, "64x64x32", warps = 4, stages = 4, group_m = 2, split_k = 4>
// REMARK: remark[analysis] schedule: gemm.fused: M x 4096 x 4096 in tiles of 16 x 256 x 32, {{.*}}; no TMA: tiles from TMA feed tensor cores, which do not multiply float32
func.func @few_rows(%x: tensor<4x4096xf32>, %w: tensor<4096x4096xf32>) -> tensor<4x4096xf32> {
  %z = gemm.fused %x : tensor<4x4096xf32>
    columns(%w : tensor<4096x4096xf32>)
      -> (tile : tensor<4x4096xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  func.return %z : tensor<4x4096xf32>
}

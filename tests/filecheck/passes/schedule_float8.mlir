// RUN: coda-opt %s -p 'schedule{target=sm_90 mainloop=warp_specialized}' --split-input-file | filecheck %s
// RUN: coda-opt %s -p 'schedule{target=sm_90 mainloop=warp_specialized}' --split-input-file --remarks=analysis -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// Two groups of warps have half of a tile's rows each: one adds promoted sums while the other multiplies.
func.func @promoted(%x: tensor<16384x4096xf8E4M3FN>, %w: tensor<4096x4096xf8E5M2>) -> tensor<16384x4096xbf16> {
  %y = gemm.fused %x : tensor<16384x4096xf8E4M3FN>
      columns(%w : tensor<4096x4096xf8E5M2>) -> (tile : tensor<16384x4096xbf16>) {
  ^epilogue(%acc : f32):
    gemm.yield %acc : f32
  }
  func.return %y : tensor<16384x4096xbf16>
}
// CHECK-LABEL: func.func @promoted
// CHECK:       schedule<split_rows, "128x256x128", warps = 8, stages = 3, group_m = 8>
// REMARK: in tiles of 128 x 256 x 128, 8 warps, 3 stages, split_rows main loop

// -----

// Without promotion there is nothing to add, and eight warps compute every tile together.
func.func @fast(%x: tensor<16384x4096xf8E4M3FN>, %w: tensor<4096x4096xf8E4M3FN>) -> tensor<16384x4096xbf16>
    attributes {coda.numerics = #gemm.numerics<"fast">} {
  %y = gemm.fused %x : tensor<16384x4096xf8E4M3FN>
      columns(%w : tensor<4096x4096xf8E4M3FN>) -> (tile : tensor<16384x4096xbf16>) {
  ^epilogue(%acc : f32):
    gemm.yield %acc : f32
  }
  func.return %y : tensor<16384x4096xbf16>
}
// CHECK-LABEL: func.func @fast
// CHECK:       schedule<warp_specialized, "128x256x128", warps = 8, stages = 3, group_m = 8>
// REMARK: warp_specialized main loop

// -----

// Weights of K x N are not what Hopper multiplies.
func.func @columns(%x: tensor<16384x4096xf8E4M3FN>, %w: tensor<4096x4096xf8E4M3FN>) -> tensor<16384x4096xbf16> {
  %y = gemm.fused %x : tensor<16384x4096xf8E4M3FN>
      columns(%w : tensor<4096x4096xf8E4M3FN>) kn -> (tile : tensor<16384x4096xbf16>) {
  ^epilogue(%acc : f32):
    gemm.yield %acc : f32
  }
  func.return %y : tensor<16384x4096xbf16>
}
// CHECK-LABEL: func.func @columns
// CHECK:       schedule<tma,
// REMARK: tma main loop: {{.*}}; no warp specialization: float8 is multiplied along rows, and its weights are K x N: store them as N x K

// -----

// A step is a block of K, and each piece of the columns lies within a block: scaled where it is added.
func.func @blocks(%x: tensor<16384x896xf8E4M3FN>, %w: tensor<768x896xf8E4M3FN>, %sx: tensor<16384x7xf32>, %sw: tensor<6x7xf32>) -> tensor<16384x768xbf16> {
  %y = gemm.fused %x : tensor<16384x896xf8E4M3FN> blocks<128, 128>(%sx : tensor<16384x7xf32>)
      columns(%w : tensor<768x896xf8E4M3FN>) scales(%sw : tensor<6x7xf32>) -> (tile : tensor<16384x768xbf16>) {
  ^epilogue(%acc : f32):
    gemm.yield %acc : f32
  }
  func.return %y : tensor<16384x768xbf16>
}
// CHECK-LABEL: func.func @blocks
// CHECK:       schedule<split_rows, "128x256x128", warps = 8, stages = 3, group_m = 8>
// REMARK: in tiles of 128 x 256 x 128, 8 warps, 3 stages, split_rows main loop

// -----

// A scale for each column would take as many registers as the columns of a thread.
func.func @columns_of_blocks(%x: tensor<16384x896xf8E4M3FN>, %w: tensor<768x896xf8E4M3FN>, %sx: tensor<16384x7xf32>, %sw: tensor<768x7xf32>) -> tensor<16384x768xbf16> {
  %y = gemm.fused %x : tensor<16384x896xf8E4M3FN> blocks<128, 1>(%sx : tensor<16384x7xf32>)
      columns(%w : tensor<768x896xf8E4M3FN>) scales(%sw : tensor<768x7xf32>) -> (tile : tensor<16384x768xbf16>) {
  ^epilogue(%acc : f32):
    gemm.yield %acc : f32
  }
  func.return %y : tensor<16384x768xbf16>
}
// CHECK-LABEL: func.func @columns_of_blocks
// CHECK:       schedule<tma,
// REMARK: tma main loop: {{.*}}; no warp specialization: its scales are for 1 columns, expected

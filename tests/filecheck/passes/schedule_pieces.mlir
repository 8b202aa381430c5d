// RUN: coda-opt %s -p 'schedule{target=sm_90 mainloop=warp_specialized}' | filecheck %s

// 1152 columns are six tiles of 192, and 4.5 of 256; 3072 are 12 of 256. Narrower tiles have more stages.

// CHECK-LABEL: func.func @odd
// CHECK:       schedule<warp_specialized, "128x192x64", warps = 8, stages = 4, group_m = 8>
func.func @odd(%x: tensor<4096x4608xbf16>, %w: tensor<1152x4608xbf16>, %r: tensor<4096x1152xbf16>) -> tensor<4096x1152xbf16> {
  %y = gemm.fused %x : tensor<4096x4608xbf16> columns(%w : tensor<1152x4608xbf16>) tile(%r : tensor<4096x1152xbf16>)
      -> (tile : tensor<4096x1152xbf16>) {
  ^epilogue(%acc: f32, %res: f32):
    %sum = arith.addf %acc, %res : f32
    gemm.yield %sum : f32
  }
  func.return %y : tensor<4096x1152xbf16>
}

// CHECK-LABEL: func.func @even
// CHECK:       schedule<warp_specialized, "128x256x64", warps = 8, stages = 3, group_m = 8>
func.func @even(%x: tensor<16384x3072xbf16>, %w: tensor<3072x3072xbf16>, %r: tensor<16384x3072xbf16>) -> tensor<16384x3072xbf16> {
  %y = gemm.fused %x : tensor<16384x3072xbf16> columns(%w : tensor<3072x3072xbf16>) tile(%r : tensor<16384x3072xbf16>)
      -> (tile : tensor<16384x3072xbf16>) {
  ^epilogue(%acc: f32, %res: f32):
    %sum = arith.addf %acc, %res : f32
    gemm.yield %sum : f32
  }
  func.return %y : tensor<16384x3072xbf16>
}

// CHECK-LABEL: func.func @few
// CHECK:       schedule<warp_specialized, "128x128x64", warps = 8, stages = 5, group_m = 8>
func.func @few(%x: tensor<1332x6144xbf16>, %w: tensor<1536x6144xbf16>, %r: tensor<1332x1536xbf16>) -> tensor<1332x1536xbf16> {
  %y = gemm.fused %x : tensor<1332x6144xbf16> columns(%w : tensor<1536x6144xbf16>) tile(%r : tensor<1332x1536xbf16>)
      -> (tile : tensor<1332x1536xbf16>) {
  ^epilogue(%acc: f32, %res: f32):
    %sum = arith.addf %acc, %res : f32
    gemm.yield %sum : f32
  }
  func.return %y : tensor<1332x1536xbf16>
}

// Two groups of warps compute such tiles by turns where K is small beside the work of the epilogue, with
// as many stages as fit beside its tiles.

// CHECK-LABEL: func.func @small
// CHECK:       schedule<ping_pong, "128x128x64", warps = 8, stages = 6, group_m = 8>
func.func @small(%x: tensor<16384x512xbf16>, %w: tensor<3072x512xbf16>) -> tensor<16384x3072xbf16> {
  %y = gemm.fused %x : tensor<16384x512xbf16> columns(%w : tensor<3072x512xbf16>)
      -> (tile : tensor<16384x3072xbf16>) {
  ^epilogue(%acc: f32):
    %cdf = gemm.normal_cdf %acc
    %gelu = arith.mulf %acc, %cdf : f32
    gemm.yield %gelu : f32
  }
  func.return %y : tensor<16384x3072xbf16>
}

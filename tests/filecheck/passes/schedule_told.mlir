// RUN: coda-opt %s -p "schedule{target=sm_90 tile=\"256x256x64\" warps=4 stages=5}" --remarks -o /dev/null 2>&1 | filecheck %s --check-prefix LARGE
// RUN: coda-opt %s -p "schedule{target=sm_90 explain=true}" --remarks -o /dev/null 2>&1 | filecheck %s --check-prefix EXPLAINED

// What the pass tells comes in the order of the program, and a tile that is asked for is taken, but not without a word.

// LARGE: M x 256 x 64 in tiles of 256 x 256 x 64
// LARGE-SAME: its stages take 320 KiB of shared memory, more than the 227 KiB of sm_90
// LARGE: M x 512 x 256 in tiles of 256 x 256 x 64
// EXPLAINED: M x 256 x 64:
// EXPLAINED: M x 512 x 256:
func.func @f(%x: tensor<?x64xbf16>, %w: tensor<256x64xbf16>, %v: tensor<512x256xbf16>) -> tensor<?x512xbf16> {
  %y = gemm.fused %x : tensor<?x64xbf16>
    columns(%w : tensor<256x64xbf16>)
      -> (tile : tensor<?x256xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %z = gemm.fused %y : tensor<?x256xbf16>
    columns(%v : tensor<512x256xbf16>)
      -> (tile : tensor<?x512xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  func.return %z : tensor<?x512xbf16>
}

// RUN: coda-opt %s -p "schedule{target=sm_90 mainloop=warp_specialized}" --split-input-file | filecheck %s
// RUN: coda-opt %s -p "schedule{target=sm_90 mainloop=three_parts tile=\"64x64x16\" warps=4}" --split-input-file --remarks -o /dev/null 2>&1 | filecheck %s --check-prefix REMARK

// Tensor cores multiply float32 in three parts.

// CHECK-LABEL: func.func @wide
// CHECK: gemm.fused %x : tensor<?x1024xf32>
// CHECK-NEXT: schedule<three_parts, "128x128x64", warps = 8, stages = 3, group_m = 8>
// REMARK: remark[analysis] schedule: gemm.fused: M x 1024 x 1024 in tiles of 64 x 64 x 16, 4 warps, 3 stages, three_parts main loop: 16 programs per row of tiles, 0% padding
func.func @wide(%x: tensor<?x1024xf32>, %w: tensor<1024x1024xf32>) -> tensor<?x1024xf32> {
  %z = gemm.fused %x : tensor<?x1024xf32>
    columns(%w : tensor<1024x1024xf32>)
      -> (tile : tensor<?x1024xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  func.return %z : tensor<?x1024xf32>
}

// -----

// Their sums have no stated order.

// CHECK-LABEL: func.func @ordered
// CHECK: gemm.fused %x : tensor<?x64xf32>
// CHECK-NEXT: schedule<pointer
// REMARK: no three parts: its sums have a stated order
func.func @ordered(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>) -> tensor<?x64xf32> {
  %z = gemm.fused %x : tensor<?x64xf32>
    order<depth = 16, columns = 64, rows = 64>
    columns(%w : tensor<64x64xf32>)
      -> (tile : tensor<?x64xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  func.return %z : tensor<?x64xf32>
}

// -----

// Other types have no parts.

// CHECK-LABEL: func.func @narrow
// CHECK: gemm.fused %x : tensor<?x64xbf16>
// CHECK-NEXT: schedule<
// REMARK: no three parts: its operands are not in float32
func.func @narrow(%x: tensor<?x64xbf16>, %w: tensor<64x64xbf16>) -> tensor<?x64xbf16> {
  %z = gemm.fused %x : tensor<?x64xbf16>
    columns(%w : tensor<64x64xbf16>)
      -> (tile : tensor<?x64xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  func.return %z : tensor<?x64xbf16>
}

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) {
  %r = gemm.fused %x : tensor<?x8xbf16>
    schedule<pointer, "²x16x16", warps = 4, stages = 2, group_m = 8>
    columns(%w : tensor<16x8xbf16>)
    -> (tile : tensor<?x16xbf16>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

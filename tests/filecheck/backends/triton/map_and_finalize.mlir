// RUN: coda-opt %s -t triton | filecheck %s

func.func @f(%x: tensor<?x?x600xbf16> {coda.dims = ["B", "T", 600]}, %cos: tensor<?x12xf32> {coda.dims = ["T", 12]}, %sin: tensor<?x12xf32> {coda.dims = ["T", 12]}, %p: tensor<?x4xf32> {coda.dims = ["M", 4]}, %c: tensor<?xf32> {coda.dims = ["M"]}, %q: tensor<?x600xf32> {coda.dims = ["Q", 600]}) -> (tensor<?x?x600xbf16>, tensor<?x1xf32>, tensor<600xbf16>) {
  %y = coda.rope %x, %cos, %sin {head_dim = 24 : i64, layout = "half_split"} : (tensor<?x?x600xbf16>, tensor<?x12xf32>, tensor<?x12xf32>) -> tensor<?x?x600xbf16>
  %r = gemm.finalize row (add %p : tensor<?x4xf32>, lse %p : tensor<?x4xf32>) col(%c : tensor<?xf32>) -> (tensor<?x1xf32>) {
  ^bb0(%sum : f32, %lse : f32, %col : f32):
    %0 = arith.mulf %sum, %col : f32
    %1 = arith.subf %lse, %0 : f32
    gemm.yield %1 : f32
  }
  %m = gemm.finalize col (max %q : tensor<?x600xf32>) -> (tensor<600xbf16>) {
  ^bb0(%max : f32):
    gemm.yield %max : f32
  }
  func.return %y, %r, %m : tensor<?x?x600xbf16>, tensor<?x1xf32>, tensor<600xbf16>
}

// CHECK:      @triton.jit(do_not_specialize=["cos_rows", "sin_rows", "M"])
// CHECK-NEXT: def rope(x_ptr, cos_rows, cos_ptr, sin_rows, sin_ptr, y_ptr, M):
// CHECK-NEXT:     """Pointwise over M x 600, tiles of 4 x 1024."""
// CHECK-NEXT:     BLOCK_M: tl.constexpr = 4
// CHECK-NEXT:     tile_m = tl.program_id(0)
// CHECK-NEXT:     tile_n = 0
// CHECK-NEXT:     rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
// CHECK-NEXT:     row_mask = rows < M
// CHECK-NEXT:     # Rows past the end repeat the last one, so that loads need no mask.
// CHECK-NEXT:     row = tl.minimum(rows, M - 1).to(tl.int64)
// CHECK-NEXT:     pair = tile_n * 512 + tl.arange(0, 512)
// CHECK-NEXT:     pair_mask = pair < 300
// CHECK-NEXT:     pair = pair % 300
// CHECK-NEXT:     first = pair // 12 * 24 + pair % 12
// CHECK-NEXT:     second = first + 12
// CHECK-NEXT:     first_1 = tl.load(x_ptr + row[:, None] * 600 + first[None, :]).to(tl.float32)
// CHECK-NEXT:     second_1 = tl.load(x_ptr + row[:, None] * 600 + second[None, :]).to(tl.float32)
// CHECK-NEXT:     cos_index = (rows % cos_rows).to(tl.int64)[:, None] * 12 + (pair % 12)[None, :]
// CHECK-NEXT:     cos = tl.load(cos_ptr + cos_index)
// CHECK-NEXT:     sin_index = (rows % sin_rows).to(tl.int64)[:, None] * 12 + (pair % 12)[None, :]
// CHECK-NEXT:     sin = tl.load(sin_ptr + sin_index)
// CHECK-NEXT:     # map_and_finalize.mlir:4:8
// CHECK-NEXT:     difference = first_1 * cos - second_1 * sin
// CHECK-NEXT:     total = second_1 * cos + first_1 * sin
// CHECK-NEXT:     tl.store(
// CHECK-NEXT:         y_ptr + row[:, None] * 600 + first[None, :],
// CHECK-NEXT:         to_bf16(difference),
// CHECK-NEXT:         mask=row_mask[:, None] & pair_mask[None, :],
// CHECK-NEXT:     )
// CHECK-NEXT:     tl.store(
// CHECK-NEXT:         y_ptr + row[:, None] * 600 + second[None, :],
// CHECK-NEXT:         to_bf16(total),
// CHECK-NEXT:         mask=row_mask[:, None] & pair_mask[None, :],
// CHECK-NEXT:     )
// CHECK-EMPTY:
// CHECK-EMPTY:
// CHECK-NEXT: # map_and_finalize.mlir:5:8
// CHECK-NEXT: @triton.jit(do_not_specialize=["count"])
// CHECK-NEXT: def finalize_sum_lse(p_ptr, p_1_ptr, col_ptr, r_ptr, count):
// CHECK-NEXT:     """Reduction of tile partials by row."""
// CHECK-NEXT:     element = tl.program_id(0) * 128 + tl.arange(0, 128)
// CHECK-NEXT:     exists = element < count
// CHECK-NEXT:     tile = tl.arange(0, 4)[None, :]
// CHECK-NEXT:     inside = exists[:, None] & (tile < 4)
// CHECK-NEXT:     p = tl.load(p_ptr + element[:, None].to(tl.int64) * 4 + tile, mask=inside, other=0.0)
// CHECK-NEXT:     p_sum = tl.sum(p, 1)
// CHECK-NEXT:     tile_1 = tl.arange(0, 4)[None, :]
// CHECK-NEXT:     inside_1 = exists[:, None] & (tile_1 < 4)
// CHECK-NEXT:     p_1 = tl.load(p_1_ptr + element[:, None].to(tl.int64) * 4 + tile_1, mask=inside_1, other=float("-inf"))
// CHECK-NEXT:     p_1_max = reduce_max(p_1, 1)
// CHECK-NEXT:     p_1_shift = tl.where(tl.abs(p_1_max) == float("inf"), 0.0, p_1_max)
// CHECK-NEXT:     p_1_exp_sum = tl.sum(tl.exp(p_1 - p_1_shift[:, None]), 1)
// CHECK-NEXT:     p_1_lse = p_1_shift + tl.log(p_1_exp_sum)
// CHECK-NEXT:     col = tl.load(col_ptr + element, mask=exists, other=0.0)
// CHECK-NEXT:     # map_and_finalize.mlir:8:10
// CHECK-NEXT:     difference = p_1_lse - p_sum * col
// CHECK-NEXT:     tl.store(r_ptr + element, difference, mask=exists)
// CHECK-EMPTY:
// CHECK-EMPTY:
// CHECK-NEXT: # map_and_finalize.mlir:11:8
// CHECK-NEXT: @triton.jit(do_not_specialize=["q_tiles", "count"])
// CHECK-NEXT: def finalize_col_max(q_ptr, q_tiles, m_ptr, count):
// CHECK-NEXT:     """Reduction of tile partials by col."""
// CHECK-NEXT:     element = tl.program_id(0) * 8 + tl.arange(0, 8)
// CHECK-NEXT:     exists = element < count
// CHECK-NEXT:     q_lanes = tl.full((8, 512), float("-inf"), tl.float32)
// CHECK-NEXT:     start = 0
// CHECK-NEXT:     while start < q_tiles:
// CHECK-NEXT:         tile = start + tl.arange(0, 512)[None, :]
// CHECK-NEXT:         inside = exists[:, None] & (tile < q_tiles)
// CHECK-NEXT:         q = tl.load(q_ptr + tile.to(tl.int64) * count + element[:, None], mask=inside, other=float("-inf"))
// CHECK-NEXT:         q_lanes = maximum(q_lanes, q)
// CHECK-NEXT:         start += 512
// CHECK-NEXT:     q_max = reduce_max(q_lanes, 1)
// CHECK-NEXT:     tl.store(m_ptr + element, to_bf16(q_max), mask=exists)
// CHECK-EMPTY:
// CHECK-EMPTY:
// CHECK-NEXT: KERNELS = ("rope", "finalize_sum_lse", "finalize_col_max")

// CHECK:      def run(x, cos, sin, p, c, q):
// CHECK-NEXT:     if x.is_cuda and x.device.index != torch.cuda.current_device():
// CHECK-NEXT:         with torch.cuda.device(x.device):
// CHECK-NEXT:             return run(x, cos, sin, p, c, q)
// CHECK-NEXT:     B, T, _ = x.shape
// CHECK-NEXT:     M, _ = p.shape
// CHECK-NEXT:     device = x.device
// CHECK-NEXT:     if not are_dense(x, cos, sin, p, c, q):
// CHECK-NEXT:         x = dense(x)
// CHECK-NEXT:         cos = dense(cos)
// CHECK-NEXT:         sin = dense(sin)
// CHECK-NEXT:         p = dense(p)
// CHECK-NEXT:         c = dense(c)
// CHECK-NEXT:         q = dense(q)
// CHECK-NEXT:     # map_and_finalize.mlir:4:8
// CHECK-NEXT:     rows = B * T
// CHECK-NEXT:     y = torch.empty((B, T, 600), dtype=torch.bfloat16, device=device)
// CHECK-NEXT:     rope[((rows + 3) // 4,)](
// CHECK-NEXT:         x,
// CHECK-NEXT:         cos.numel() // 12,
// CHECK-NEXT:         cos,
// CHECK-NEXT:         sin.numel() // 12,
// CHECK-NEXT:         sin,
// CHECK-NEXT:         y,
// CHECK-NEXT:         rows,
// CHECK-NEXT:         num_warps=4,
// CHECK-NEXT:         num_stages=2,
// CHECK-NEXT:     )
// CHECK-NEXT:     # map_and_finalize.mlir:5:8
// CHECK-NEXT:     r = torch.empty((M, 1), dtype=torch.float32, device=device)
// CHECK-NEXT:     finalize_sum_lse[((M + 127) // 128,)](
// CHECK-NEXT:         p,
// CHECK-NEXT:         p,
// CHECK-NEXT:         c,
// CHECK-NEXT:         r,
// CHECK-NEXT:         M,
// CHECK-NEXT:         num_warps=4,
// CHECK-NEXT:         num_stages=2,
// CHECK-NEXT:     )
// CHECK-NEXT:     # map_and_finalize.mlir:11:8
// CHECK-NEXT:     m = torch.empty((600,), dtype=torch.bfloat16, device=device)
// CHECK-NEXT:     finalize_col_max[((600 + 7) // 8,)](
// CHECK-NEXT:         q,
// CHECK-NEXT:         q.shape[-2],
// CHECK-NEXT:         m,
// CHECK-NEXT:         600,
// CHECK-NEXT:         num_warps=8,
// CHECK-NEXT:         num_stages=2,
// CHECK-NEXT:     )
// CHECK-NEXT:     return y, r, m

// RUN: coda-opt %s -t triton | filecheck %s

// Parameters of each sample: a tensor, and columns of a larger one, which is read where it is.

func.func @f(%x: tensor<?x?x64xbf16> {coda.dims = ["B", "T", 64]}, %s: tensor<?x1x64xbf16> {coda.dims = ["B", 1, 64]}, %m: tensor<?x1x192xbf16> {coda.dims = ["B", 1, 192]}) -> tensor<?x?x64xbf16> {
  %t = coda.slice %m {dim = 2 : i64, start = 64 : i64, stop = 128 : i64} : (tensor<?x1x192xbf16>) -> tensor<?x1x64xbf16>
  %h = coda.layer_norm %x, %s, %t {eps = 1.0e-6 : f64} : (tensor<?x?x64xbf16>, tensor<?x1x64xbf16>, tensor<?x1x64xbf16>) -> tensor<?x?x64xbf16>
  func.return %h : tensor<?x?x64xbf16>
}

// CHECK:      def layer_norm(x_ptr, weight_ptr, weight_repeats, bias_ptr, bias_repeats, out_ptr, M):
// CHECK-NEXT:     """LayerNorm, blocks of 32 x 64."""
// CHECK-NEXT:     row = tl.program_id(0) * 32 + tl.arange(0, 32)[:, None]
// CHECK-NEXT:     first = row.to(tl.int64) * 64
// CHECK-NEXT:     column = tl.arange(0, 64)[None, :]
// CHECK-NEXT:     inside = (row < M) & (column < 64)
// CHECK-NEXT:     x = tl.load(x_ptr + first + column, mask=inside, other=0.0).to(tl.float32)
// CHECK-NEXT:     total = tl.sum(x, 1, keep_dims=True)
// CHECK-NEXT:     mean = total / 64
// CHECK-NEXT:     centered = tl.where(inside, x - mean, 0.0)
// CHECK-NEXT:     square_sum = tl.sum(centered * centered, 1, keep_dims=True)
// CHECK-NEXT:     rstd = tl.rsqrt(square_sum / 64 + 1e-06)
// CHECK-NEXT:     weight_first = (tl.minimum(row, M - 1) // weight_repeats).to(tl.int64) * 64
// CHECK-NEXT:     weight = tl.load(weight_ptr + weight_first + column, mask=column < 64, other=0.0).to(tl.float32)
// CHECK-NEXT:     bias_first = (tl.minimum(row, M - 1) // bias_repeats).to(tl.int64) * 192
// CHECK-NEXT:     bias = tl.load(bias_ptr + bias_first + column, mask=column < 64, other=0.0).to(tl.float32)
// CHECK-NEXT:     y = (x - mean) * rstd * weight + bias
// CHECK-NEXT:     tl.store(out_ptr + first + column, to_bf16(y), mask=inside)
// CHECK:      t = m.narrow(2, 64, 64)
// CHECK-NEXT:     # adaptive_norm.mlir:{{\d+:\d+}}
// CHECK-NEXT:     rows = B * T
// CHECK-NEXT:     h = torch.empty((B, T, 64), dtype=torch.bfloat16, device=device)
// CHECK-NEXT:     layer_norm[((rows + 31) // 32,)](
// CHECK-NEXT:         x,
// CHECK-NEXT:         s,
// CHECK-NEXT:         rows // max(s.numel() // s.shape[-1], 1),
// CHECK-NEXT:         t,
// CHECK-NEXT:         rows // max(t.numel() // t.shape[-1], 1),
// CHECK-NEXT:         h,
// CHECK-NEXT:         rows,
// CHECK-NEXT:         num_warps=4,
// CHECK-NEXT:         num_stages=2,
// CHECK-NEXT:     )
// CHECK-NEXT:     return h

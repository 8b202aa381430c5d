// RUN: coda-opt %s -t triton | filecheck %s

// A row in registers (130 columns), in blocks (9000), and of a length known at run time.

func.func @f(%x: tensor<?x130xbf16> {coda.dims = ["M", 130]}, %g: tensor<130xbf16>, %b: tensor<130xbf16>, %logits: tensor<?x9000xf32> {coda.dims = ["M", 9000]}, %target: tensor<?xi64> {coda.dims = ["M"]}, %scores: tensor<?x?xf16> {coda.dims = ["M", "S"]}) -> (tensor<?x130xbf16>, tensor<?x130xbf16>, tensor<f32>, tensor<?x?xf16>) {
  %h = coda.rms_norm %x, %g {eps = 1.0e-6 : f64} : (tensor<?x130xbf16>, tensor<130xbf16>) -> tensor<?x130xbf16>
  %n = coda.layer_norm %x, %g, %b {eps = 1.0e-5 : f64} : (tensor<?x130xbf16>, tensor<130xbf16>, tensor<130xbf16>) -> tensor<?x130xbf16>
  %loss = coda.cross_entropy %logits, %target {reduction = "mean", ignore_index = -100 : i64} : (tensor<?x9000xf32>, tensor<?xi64>) -> tensor<f32>
  %p = coda.softmax %scores : (tensor<?x?xf16>) -> tensor<?x?xf16>
  func.return %h, %n, %loss, %p : tensor<?x130xbf16>, tensor<?x130xbf16>, tensor<f32>, tensor<?x?xf16>
}

// CHECK:      @triton.jit(do_not_specialize=["M"])
// CHECK-NEXT: def rms_norm(x_ptr, weight_ptr, out_ptr, M):
// CHECK-NEXT:     """RMSNorm, blocks of 8 x 256."""
// CHECK-NEXT:     row = tl.program_id(0) * 8 + tl.arange(0, 8)[:, None]
// CHECK-NEXT:     first = row.to(tl.int64) * 130
// CHECK-NEXT:     column = tl.arange(0, 256)[None, :]
// CHECK-NEXT:     inside = (row < M) & (column < 130)
// CHECK-NEXT:     x = tl.load(x_ptr + first + column, mask=inside, other=0.0).to(tl.float32)
// CHECK-NEXT:     square_sum = tl.sum(x * x, 1, keep_dims=True)
// CHECK-NEXT:     rstd = tl.rsqrt(square_sum / 130 + 1e-06)
// CHECK-NEXT:     weight = tl.load(weight_ptr + column, mask=column < 130, other=0.0).to(tl.float32)
// CHECK-NEXT:     y = x * rstd * weight
// CHECK-NEXT:     tl.store(out_ptr + first + column, to_bf16(y), mask=inside)
// CHECK-EMPTY:
// CHECK-EMPTY:
// CHECK-NEXT: # row_kernels.mlir:{{\d+:\d+}}
// CHECK-NEXT: @triton.jit(do_not_specialize=["M"])
// CHECK-NEXT: def layer_norm(x_ptr, weight_ptr, bias_ptr, out_ptr, M):
// CHECK-NEXT:     """LayerNorm, blocks of 8 x 256."""
// CHECK-NEXT:     row = tl.program_id(0) * 8 + tl.arange(0, 8)[:, None]
// CHECK-NEXT:     first = row.to(tl.int64) * 130
// CHECK-NEXT:     column = tl.arange(0, 256)[None, :]
// CHECK-NEXT:     inside = (row < M) & (column < 130)
// CHECK-NEXT:     x = tl.load(x_ptr + first + column, mask=inside, other=0.0).to(tl.float32)
// CHECK-NEXT:     total = tl.sum(x, 1, keep_dims=True)
// CHECK-NEXT:     mean = total / 130
// CHECK-NEXT:     centered = tl.where(inside, x - mean, 0.0)
// CHECK-NEXT:     square_sum = tl.sum(centered * centered, 1, keep_dims=True)
// CHECK-NEXT:     rstd = tl.rsqrt(square_sum / 130 + 1e-05)
// CHECK-NEXT:     weight = tl.load(weight_ptr + column, mask=column < 130, other=0.0).to(tl.float32)
// CHECK-NEXT:     bias = tl.load(bias_ptr + column, mask=column < 130, other=0.0).to(tl.float32)
// CHECK-NEXT:     y = (x - mean) * rstd * weight + bias
// CHECK-NEXT:     tl.store(out_ptr + first + column, to_bf16(y), mask=inside)
// CHECK-EMPTY:
// CHECK-EMPTY:
// CHECK-NEXT: # row_kernels.mlir:{{\d+:\d+}}
// CHECK-NEXT: @triton.jit(debug=True, do_not_specialize=["M"])
// CHECK-NEXT: def cross_entropy(logits_ptr, target_ptr, loss_ptr, M):
// CHECK-NEXT:     """Cross-entropy of each row, blocks of 1 x 4096."""
// CHECK-NEXT:     row = tl.program_id(0) * 1 + tl.arange(0, 1)[:, None]
// CHECK-NEXT:     first = row.to(tl.int64) * 9000
// CHECK-NEXT:     target = tl.load(target_ptr + row, mask=row < M, other=-100)
// CHECK-NEXT:     target = checked_index(target, 9000, -100)
// CHECK-NEXT:     largest = tl.full((1, 1), float("-inf"), tl.float32)
// CHECK-NEXT:     for start in range(0, 9000, 4096):
// CHECK-NEXT:         column = start + tl.arange(0, 4096)[None, :]
// CHECK-NEXT:         inside = (row < M) & (column < 9000)
// CHECK-NEXT:         logits = tl.load(logits_ptr + first + column, mask=inside, other=float("-inf"))
// CHECK-NEXT:         largest = maximum(largest, tl.expand_dims(reduce_max(logits, 1), 1))
// CHECK-NEXT:     total = tl.full((1, 1), 0.0, tl.float32)
// CHECK-NEXT:     for start in range(0, 9000, 4096):
// CHECK-NEXT:         column = start + tl.arange(0, 4096)[None, :]
// CHECK-NEXT:         inside = (row < M) & (column < 9000)
// CHECK-NEXT:         logits = tl.load(logits_ptr + first + column, mask=inside, other=float("-inf"))
// CHECK-NEXT:         total += tl.sum(tl.exp(logits - largest), 1, keep_dims=True)
// CHECK-NEXT:     chosen = tl.full((1, 1), 0.0, tl.float32)
// CHECK-NEXT:     for start in range(0, 9000, 4096):
// CHECK-NEXT:         column = start + tl.arange(0, 4096)[None, :]
// CHECK-NEXT:         inside = (row < M) & (column < 9000)
// CHECK-NEXT:         logits = tl.load(logits_ptr + first + column, mask=inside, other=float("-inf"))
// CHECK-NEXT:         chosen_logit = tl.where(inside & (column == target), logits, 0.0)
// CHECK-NEXT:         chosen += tl.sum(chosen_logit, 1, keep_dims=True)
// CHECK-NEXT:     loss = tl.log(total) - (chosen - largest)
// CHECK-NEXT:     loss = tl.where(target == -100, 0.0, loss)
// CHECK-NEXT:     tl.store(loss_ptr + row, loss, mask=row < M)
// CHECK-EMPTY:
// CHECK-EMPTY:
// CHECK-NEXT: # row_kernels.mlir:{{\d+:\d+}}
// CHECK-NEXT: @triton.jit(do_not_specialize=["M"])
// CHECK-NEXT: def mean_of_losses(loss_ptr, target_ptr, out_ptr, M):
// CHECK-NEXT:     """Mean of the losses of the rows."""
// CHECK-NEXT:     total = tl.zeros((1024,), tl.float32)
// CHECK-NEXT:     count = tl.zeros((1024,), tl.float32)
// CHECK-NEXT:     start = 0
// CHECK-NEXT:     while start < M:
// CHECK-NEXT:         row = start + tl.arange(0, 1024)
// CHECK-NEXT:         total += tl.load(loss_ptr + row, mask=row < M, other=0.0)
// CHECK-NEXT:         target = tl.load(target_ptr + row, mask=row < M, other=-100)
// CHECK-NEXT:         count += (target != -100).to(tl.float32)
// CHECK-NEXT:         start += 1024
// CHECK-NEXT:     result = tl.sum(total, 0) / tl.sum(count, 0)
// CHECK-NEXT:     tl.store(out_ptr, result)
// CHECK-EMPTY:
// CHECK-EMPTY:
// CHECK-NEXT: # row_kernels.mlir:{{\d+:\d+}}
// CHECK-NEXT: @triton.jit(do_not_specialize=["M", "N"])
// CHECK-NEXT: def softmax(x_ptr, out_ptr, M, N):
// CHECK-NEXT:     """Softmax, blocks of 1 x 4096."""
// CHECK-NEXT:     row = tl.program_id(0) * 1 + tl.arange(0, 1)[:, None]
// CHECK-NEXT:     first = row.to(tl.int64) * N
// CHECK-NEXT:     largest = tl.full((1, 1), float("-inf"), tl.float32)
// CHECK-NEXT:     start = 0
// CHECK-NEXT:     while start < N:
// CHECK-NEXT:         column = start + tl.arange(0, 4096)[None, :]
// CHECK-NEXT:         inside = (row < M) & (column < N)
// CHECK-NEXT:         x = tl.load(x_ptr + first + column, mask=inside, other=float("-inf")).to(tl.float32)
// CHECK-NEXT:         largest = maximum(largest, tl.expand_dims(reduce_max(x, 1), 1))
// CHECK-NEXT:         start += 4096
// CHECK-NEXT:     total = tl.full((1, 1), 0.0, tl.float32)
// CHECK-NEXT:     start = 0
// CHECK-NEXT:     while start < N:
// CHECK-NEXT:         column = start + tl.arange(0, 4096)[None, :]
// CHECK-NEXT:         inside = (row < M) & (column < N)
// CHECK-NEXT:         x = tl.load(x_ptr + first + column, mask=inside, other=float("-inf")).to(tl.float32)
// CHECK-NEXT:         total += tl.sum(tl.exp(x - largest), 1, keep_dims=True)
// CHECK-NEXT:         start += 4096
// CHECK-NEXT:     start = 0
// CHECK-NEXT:     while start < N:
// CHECK-NEXT:         column = start + tl.arange(0, 4096)[None, :]
// CHECK-NEXT:         inside = (row < M) & (column < N)
// CHECK-NEXT:         x = tl.load(x_ptr + first + column, mask=inside, other=float("-inf")).to(tl.float32)
// CHECK-NEXT:         y = tl.exp(x - largest) / total
// CHECK-NEXT:         tl.store(out_ptr + first + column, y.to(tl.float16), mask=inside)
// CHECK-NEXT:         start += 4096
// CHECK-EMPTY:
// CHECK-EMPTY:
// CHECK-NEXT: KERNELS = ("rms_norm", "layer_norm", "cross_entropy", "mean_of_losses", "softmax")

// CHECK:      def run(x, g, b, logits, target, scores):
// CHECK-NEXT:     if x.is_cuda and x.device.index != torch.cuda.current_device():
// CHECK-NEXT:         with torch.cuda.device(x.device):
// CHECK-NEXT:             return run(x, g, b, logits, target, scores)
// CHECK-NEXT:     M, _ = x.shape
// CHECK-NEXT:     _, S = scores.shape
// CHECK-NEXT:     device = x.device
// CHECK-NEXT:     if not are_dense(x, g, b, logits, target, scores):
// CHECK-NEXT:         x = dense(x)
// CHECK-NEXT:         g = dense(g)
// CHECK-NEXT:         b = dense(b)
// CHECK-NEXT:         logits = dense(logits)
// CHECK-NEXT:         target = dense(target)
// CHECK-NEXT:         scores = dense(scores)
// CHECK-NEXT:     # row_kernels.mlir:6:8
// CHECK-NEXT:     h = torch.empty((M, 130), dtype=torch.bfloat16, device=device)
// CHECK-NEXT:     rms_norm[((M + 7) // 8,)](
// CHECK-NEXT:         x,
// CHECK-NEXT:         g,
// CHECK-NEXT:         h,
// CHECK-NEXT:         M,
// CHECK-NEXT:         num_warps=4,
// CHECK-NEXT:         num_stages=2,
// CHECK-NEXT:     )
// CHECK-NEXT:     # row_kernels.mlir:7:8
// CHECK-NEXT:     n = torch.empty((M, 130), dtype=torch.bfloat16, device=device)
// CHECK-NEXT:     layer_norm[((M + 7) // 8,)](
// CHECK-NEXT:         x,
// CHECK-NEXT:         g,
// CHECK-NEXT:         b,
// CHECK-NEXT:         n,
// CHECK-NEXT:         M,
// CHECK-NEXT:         num_warps=4,
// CHECK-NEXT:         num_stages=2,
// CHECK-NEXT:     )
// CHECK-NEXT:     # row_kernels.mlir:8:11
// CHECK-NEXT:     check_index("target", target, 9000, -100)
// CHECK-NEXT:     row_losses = torch.empty((M,), dtype=torch.float32, device=device)
// CHECK-NEXT:     loss = torch.empty((), dtype=torch.float32, device=device)
// CHECK-NEXT:     cross_entropy[(M,)](
// CHECK-NEXT:         logits,
// CHECK-NEXT:         target,
// CHECK-NEXT:         row_losses,
// CHECK-NEXT:         M,
// CHECK-NEXT:         num_warps=4,
// CHECK-NEXT:         num_stages=2,
// CHECK-NEXT:         sanitize_overflow=False,
// CHECK-NEXT:     )
// CHECK-NEXT:     mean_of_losses[(1,)](
// CHECK-NEXT:         row_losses,
// CHECK-NEXT:         target,
// CHECK-NEXT:         loss,
// CHECK-NEXT:         M,
// CHECK-NEXT:         num_warps=4,
// CHECK-NEXT:         num_stages=2,
// CHECK-NEXT:     )
// CHECK-NEXT:     del row_losses
// CHECK-NEXT:     # row_kernels.mlir:9:8
// CHECK-NEXT:     p = torch.empty((M, S), dtype=torch.float16, device=device)
// CHECK-NEXT:     softmax[(M,)](
// CHECK-NEXT:         scores,
// CHECK-NEXT:         p,
// CHECK-NEXT:         M,
// CHECK-NEXT:         scores.shape[-1],
// CHECK-NEXT:         num_warps=4,
// CHECK-NEXT:         num_stages=2,
// CHECK-NEXT:     )
// CHECK-NEXT:     return h, n, loss, p

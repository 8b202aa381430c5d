// RUN: coda-opt %s -p plan-buffers -t triton | filecheck %s

builtin.module {
  func.func @llama_like(%y : tensor<?x?x64xbf16> {coda.name = "y", coda.dims = ["B", "T", 64]}, %x0 : tensor<?x?x48xbf16> {coda.name = "x0", coda.dims = ["B", "T", 48]}, %wo : tensor<48x64xbf16>, %gamma : tensor<48xbf16>, %wg : tensor<96x48xbf16>, %wu : tensor<96x48xbf16>, %wd : tensor<48x96xbf16>) -> (tensor<?x?x48xbf16>, tensor<?x?x48xbf16>) {
    %x1, %ssq, %h = gemm.fused %y : tensor<?x?x64xbf16>
      schedule<pointer, "32x32x32", warps = 4, stages = 2, group_m = 8>
      columns(%wo : tensor<48x64xbf16>) tile(%x0 : tensor<?x?x48xbf16>) row(%gamma : tensor<48xbf16>)
      -> (tile : tensor<?x?x48xbf16>, partial_row<add> : tensor<?x?x?xf32>, tile : tensor<?x?x48xbf16>) {
    ^bb0(%acc : f32, %res : f32, %g : f32):
      %x = arith.addf %acc, %res : f32
      %sq = arith.mulf %x, %x : f32
      %n = arith.mulf %x, %g : f32
      gemm.yield %x, %sq, %n : f32, f32, f32
    }
    %rstd = gemm.finalize row (add %ssq : tensor<?x?x?xf32>) -> (tensor<?x?x1xf32>) {
    ^bb0(%sum : f32):
      %c = arith.constant 0.020833333333333332 : f32
      %m = arith.mulf %sum, %c : f32
      %eps = arith.constant 1.0e-6 : f32
      %a = arith.addf %m, %eps : f32
      %r = math.rsqrt %a : f32
      gemm.yield %r : f32
    }
    %act = gemm.fused %h : tensor<?x?x48xbf16>
      schedule<pointer, "32x32x32", warps = 4, stages = 2, group_m = 8>
      columns(%wg : tensor<96x48xbf16>, %wu : tensor<96x48xbf16>) pair<halves> col(%rstd : tensor<?x?x1xf32>)
      -> (half : tensor<?x?x96xbf16>) {
    ^bb0(%g : f32, %u : f32, %r : f32):
      %g1 = arith.mulf %g, %r : f32
      %u1 = arith.mulf %u, %r : f32
      %neg = arith.negf %g1 : f32
      %e = math.exp %neg : f32
      %one = arith.constant 1.0 : f32
      %d = arith.addf %one, %e : f32
      %s = arith.divf %g1, %d : f32
      %p = arith.mulf %s, %u1 : f32
      gemm.yield %p : f32
    }
    %x2 = gemm.fused %act : tensor<?x?x96xbf16>
      schedule<pointer, "32x32x32", warps = 4, stages = 2, group_m = 8>
      columns(%wd : tensor<48x96xbf16>) tile(%x1 : tensor<?x?x48xbf16>)
      -> (tile : tensor<?x?x48xbf16>) {
    ^bb0(%acc : f32, %res : f32):
      %x = arith.addf %acc, %res : f32
      gemm.yield %x : f32
    }
    %h2 = coda.rms_norm %x2, %gamma {eps = 1.0e-6 : f64} : (tensor<?x?x48xbf16>, tensor<48xbf16>) -> tensor<?x?x48xbf16>
    func.return %x2, %h2 : tensor<?x?x48xbf16>, tensor<?x?x48xbf16>
  }
}

// CHECK:      """llama_like from llama_like.mlir, compiled by CODA IR.
// CHECK-EMPTY:
// CHECK-NEXT: run(
// CHECK-NEXT:     y: bf16[B, T, 64],
// CHECK-NEXT:     x0: bf16[B, T, 48],
// CHECK-NEXT:     wo: bf16[48, 64],
// CHECK-NEXT:     gamma: bf16[48],
// CHECK-NEXT:     wg: bf16[96, 48],
// CHECK-NEXT:     wu: bf16[96, 48],
// CHECK-NEXT:     wd: bf16[48, 96],
// CHECK-NEXT: ) -> (bf16[B, T, 48], bf16[B, T, 48])
// CHECK-EMPTY:
// CHECK-NEXT: Kernels, in the order of their first launch:
// CHECK-NEXT:     gemm_residual_scale_ssq: M x 48 x 64 GEMM in tiles of 32 x 32 x 32
// CHECK-NEXT:     finalize_sum_rsqrt: reduction of tile partials by row
// CHECK-NEXT:     gemm_row_scale_silu_glu: M x 192 x 48 GEMM in tiles of 32 x 32 x 32
// CHECK-NEXT:     gemm_residual: M x 48 x 96 GEMM in tiles of 32 x 32 x 32
// CHECK-NEXT:     rms_norm: RMSNorm, blocks of 32 x 64
// CHECK-NEXT: """

// CHECK:      KERNELS = (
// CHECK-NEXT:     "gemm_residual_scale_ssq",
// CHECK-NEXT:     "finalize_sum_rsqrt",
// CHECK-NEXT:     "gemm_row_scale_silu_glu",
// CHECK-NEXT:     "gemm_residual",
// CHECK-NEXT:     "rms_norm",
// CHECK-NEXT: )

// CHECK:      def run(y, x0, wo, gamma, wg, wu, wd):
// CHECK-NEXT:     if y.is_cuda and y.device.index != torch.cuda.current_device():
// CHECK-NEXT:         with torch.cuda.device(y.device):
// CHECK-NEXT:             return run(y, x0, wo, gamma, wg, wu, wd)
// CHECK-NEXT:     B, T, _ = y.shape
// CHECK-NEXT:     device = y.device
// CHECK-NEXT:     if not are_dense(y, x0, wo, gamma, wg, wu, wd):
// CHECK-NEXT:         y = dense(y)
// CHECK-NEXT:         x0 = dense(x0)
// CHECK-NEXT:         wo = dense(wo)
// CHECK-NEXT:         gamma = dense(gamma)
// CHECK-NEXT:         wg = dense(wg)
// CHECK-NEXT:         wu = dense(wu)
// CHECK-NEXT:         wd = dense(wd)
// CHECK-NEXT:     # llama_like.mlir:5:21
// CHECK-NEXT:     rows = B * T
// CHECK-NEXT:     x1 = torch.empty((B, T, 48), dtype=torch.bfloat16, device=device)
// CHECK-NEXT:     ssq = torch.empty((B, T, 2), dtype=torch.float32, device=device)
// CHECK-NEXT:     h = torch.empty((B, T, 48), dtype=torch.bfloat16, device=device)
// CHECK-NEXT:     gemm_residual_scale_ssq[((rows + 31) // 32 * 2,)](
// CHECK-NEXT:         y,
// CHECK-NEXT:         wo,
// CHECK-NEXT:         x0,
// CHECK-NEXT:         gamma,
// CHECK-NEXT:         x1,
// CHECK-NEXT:         ssq,
// CHECK-NEXT:         h,
// CHECK-NEXT:         rows,
// CHECK-NEXT:         num_warps=4,
// CHECK-NEXT:         num_stages=2,
// CHECK-NEXT:     )
// CHECK-NEXT:     # llama_like.mlir:15:13
// CHECK-NEXT:     rstd = torch.empty((B, T, 1), dtype=torch.float32, device=device)
// CHECK-NEXT:     finalize_sum_rsqrt[((rows + 127) // 128,)](
// CHECK-NEXT:         ssq,
// CHECK-NEXT:         rstd,
// CHECK-NEXT:         rows,
// CHECK-NEXT:         num_warps=4,
// CHECK-NEXT:         num_stages=2,
// CHECK-NEXT:     )
// CHECK-NEXT:     del ssq
// CHECK-NEXT:     # llama_like.mlir:24:12
// CHECK-NEXT:     act = torch.empty((B, T, 96), dtype=torch.bfloat16, device=device)
// CHECK-NEXT:     gemm_row_scale_silu_glu[((rows + 31) // 32 * 6,)](
// CHECK-NEXT:         h,
// CHECK-NEXT:         wg,
// CHECK-NEXT:         wu,
// CHECK-NEXT:         rstd,
// CHECK-NEXT:         act,
// CHECK-NEXT:         rows,
// CHECK-NEXT:         num_warps=4,
// CHECK-NEXT:         num_stages=2,
// CHECK-NEXT:     )
// CHECK-NEXT:     del h, rstd
// CHECK-NEXT:     # llama_like.mlir:39:11
// CHECK-NEXT:     x2 = torch.empty((B, T, 48), dtype=torch.bfloat16, device=device)
// CHECK-NEXT:     gemm_residual[((rows + 31) // 32 * 2,)](
// CHECK-NEXT:         act,
// CHECK-NEXT:         wd,
// CHECK-NEXT:         x1,
// CHECK-NEXT:         x2,
// CHECK-NEXT:         rows,
// CHECK-NEXT:         num_warps=4,
// CHECK-NEXT:         num_stages=2,
// CHECK-NEXT:     )
// CHECK-NEXT:     del x1, act
// CHECK-NEXT:     # llama_like.mlir:47:11
// CHECK-NEXT:     h2 = torch.empty((B, T, 48), dtype=torch.bfloat16, device=device)
// CHECK-NEXT:     rms_norm[((rows + 31) // 32,)](
// CHECK-NEXT:         x2,
// CHECK-NEXT:         gamma,
// CHECK-NEXT:         h2,
// CHECK-NEXT:         rows,
// CHECK-NEXT:         num_warps=4,
// CHECK-NEXT:         num_stages=2,
// CHECK-NEXT:     )
// CHECK-NEXT:     return x2, h2

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

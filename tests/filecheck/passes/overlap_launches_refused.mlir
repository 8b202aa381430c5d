// RUN: coda-opt %s -p overlap-launches --remarks=missed -o /dev/null 2>&1 | filecheck %s

// What a GEMM would read before it waits was written before the kernel before began.

func.func @f(%x: tensor<1x32xbf16>, %w: tensor<8x32xbf16>, %v: tensor<32x32xbf16>, %e: tensor<8x32x32xbf16>) -> (tensor<1x32xbf16>, tensor<1x32xbf16>, tensor<32x32xbf16>) {
  // CHECK: overlap-launches: gemm.fused: no GEMM with a known number of rows is before; failed condition: everything that it reads before its wait was written before the preceding kernel started
  %a = gemm.fused %x : tensor<1x32xbf16>
    schedule<one_row, "1x4x16", warps = 4, stages = 1, group_m = 8>
    columns(%w : tensor<8x32xbf16>)
      -> (tile : tensor<1x8xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %p, %n = coda.topk %a {k = 1 : i64, dim = 1 : i64} : (tensor<1x8xbf16>) -> (tensor<1x1xbf16>, tensor<1x1xi64>)
  %i = coda.reshape %n : (tensor<1x1xi64>) -> tensor<1xi64>
  // CHECK: overlap-launches: gemm.fused: the kernel before may compute the groups of its rows;
  %b = gemm.fused %x : tensor<1x32xbf16> numbered(%i : tensor<1xi64>)
    schedule<one_row, "1x4x16", warps = 4, stages = 1, group_m = 8>
    columns(%e : tensor<8x32x32xbf16>)
      -> (tile : tensor<1x32xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  // CHECK: overlap-launches: gemm.fused: a weight has other uses than those as a weight of GEMMs;
  %c = gemm.fused %b : tensor<1x32xbf16>
    schedule<one_row, "1x4x16", warps = 4, stages = 1, group_m = 8>
    columns(%v : tensor<32x32xbf16>)
      -> (tile : tensor<1x32xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %u = coda.exp %v : (tensor<32x32xbf16>) -> tensor<32x32xbf16>
  // CHECK: overlap-launches: gemm.fused: a weight is no argument;
  %d = gemm.fused %c : tensor<1x32xbf16>
    schedule<one_row, "1x4x16", warps = 4, stages = 1, group_m = 8>
    columns(%u : tensor<32x32xbf16>)
      -> (tile : tensor<1x32xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  func.return %b, %d, %u : tensor<1x32xbf16>, tensor<1x32xbf16>, tensor<32x32xbf16>
}

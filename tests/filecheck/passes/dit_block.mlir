// RUN: coda-opt %examples/dit_block.coda -p coda-to-gemm --const D=64 --const HEAD=16 | filecheck %s

// adaLN-zero: gates are in the epilogues of the GEMMs before the sums, and scale and shift where rows are normalized: in the
// kernel of the first norm, and in the epilogue whose tiles have whole rows of 64 columns.

// CHECK:      func.func @dit_block(
// CHECK-NEXT:   %0 = gemm.map tile(%c : tensor<?x64xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x64xbf16>) {
// CHECK-NEXT:     ^bb0(%c_1: f32):
// CHECK-NEXT:       %1 = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:       %2 = arith.negf %c_1 : f32
// CHECK-NEXT:       %3 = math.exp %2 : f32
// CHECK-NEXT:       %4 = arith.addf %1, %3 : f32
// CHECK-NEXT:       %5 = arith.divf %c_1, %4 : f32
// CHECK-NEXT:       gemm.yield %5 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %1 = gemm.fused %0 : tensor<?x64xbf16>
// CHECK-NEXT:     columns(%w_mod : tensor<384x64xbf16>) row(%b_mod : tensor<384xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x384xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %b_mod_1: f32):
// CHECK-NEXT:       %2 = arith.addf %acc, %b_mod_1 : f32
// CHECK-NEXT:       gemm.yield %2 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %m = coda.reshape %1 : (tensor<?x384xbf16>) -> tensor<?x1x384xbf16>
// CHECK-NEXT:   %shift1 = coda.slice %m {dim = 2 : i64, start = 0 : i64, stop = 64 : i64} : (tensor<?x1x384xbf16>) -> tensor<?x1x64xbf16>
// CHECK-NEXT:   %scale1 = coda.slice %m {dim = 2 : i64, start = 64 : i64, stop = 128 : i64} : (tensor<?x1x384xbf16>) -> tensor<?x1x64xbf16>
// CHECK-NEXT:   %gate1 = coda.slice %m {dim = 2 : i64, start = 128 : i64, stop = 192 : i64} : (tensor<?x1x384xbf16>) -> tensor<?x1x64xbf16>
// CHECK-NEXT:   %shift2 = coda.slice %m {dim = 2 : i64, start = 192 : i64, stop = 256 : i64} : (tensor<?x1x384xbf16>) -> tensor<?x1x64xbf16>
// CHECK-NEXT:   %scale2 = coda.slice %m {dim = 2 : i64, start = 256 : i64, stop = 320 : i64} : (tensor<?x1x384xbf16>) -> tensor<?x1x64xbf16>
// CHECK-NEXT:   %gate2 = coda.slice %m {dim = 2 : i64, start = 320 : i64, stop = 384 : i64} : (tensor<?x1x384xbf16>) -> tensor<?x1x64xbf16>
// CHECK-NEXT:   %2 = gemm.map tile(%scale1 : tensor<?x1x64xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x1x64xbf16>) {
// CHECK-NEXT:     ^bb0(%scale1_1: f32):
// CHECK-NEXT:       %3 = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:       %4 = arith.addf %3, %scale1_1 : f32
// CHECK-NEXT:       gemm.yield %4 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %h1 = coda.layer_norm %x, %2, %shift1 {eps = 1.000000e-06 : f64} : (tensor<?x?x64xbf16>, tensor<?x1x64xbf16>, tensor<?x1x64xbf16>) -> tensor<?x?x64xbf16>
// CHECK-NEXT:   %3 = gemm.fused %h1 : tensor<?x?x64xbf16>
// CHECK-NEXT:     columns(%w_qkv : tensor<192x64xbf16>) row(%b_qkv : tensor<192xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x?x192xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %b_qkv_1: f32):
// CHECK-NEXT:       %4 = arith.addf %acc, %b_qkv_1 : f32
// CHECK-NEXT:       gemm.yield %4 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %q = coda.slice %3 {dim = 2 : i64, start = 0 : i64, stop = 64 : i64} : (tensor<?x?x192xbf16>) -> tensor<?x?x64xbf16>
// CHECK-NEXT:   %k = coda.slice %3 {dim = 2 : i64, start = 64 : i64, stop = 128 : i64} : (tensor<?x?x192xbf16>) -> tensor<?x?x64xbf16>
// CHECK-NEXT:   %v = coda.slice %3 {dim = 2 : i64, start = 128 : i64, stop = 192 : i64} : (tensor<?x?x192xbf16>) -> tensor<?x?x64xbf16>
// CHECK-NEXT:   %y = coda.attention %q, %k, %v {head_dim = 16 : i64, causal = false} : (tensor<?x?x64xbf16>, tensor<?x?x64xbf16>, tensor<?x?x64xbf16>) -> tensor<?x?x64xbf16>
// CHECK-NEXT:   %x1, %h2 = gemm.fused %y : tensor<?x?x64xbf16>
// CHECK-NEXT:     columns(%w_proj : tensor<64x64xbf16>) row(%b_proj : tensor<64xbf16>) table(%gate1 : tensor<?x1x64xbf16>) tile(%x : tensor<?x?x64xbf16>) table(%scale2 : tensor<?x1x64xbf16>, %shift2 : tensor<?x1x64xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x?x64xbf16>, tile : tensor<?x?x64xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %b_proj_1: f32, %gate1_1: f32, %x_1: f32, %scale2_1: f32, %shift2_1: f32):
// CHECK-NEXT:       %4 = arith.addf %acc, %b_proj_1 : f32
// CHECK-NEXT:       %5 = arith.mulf %gate1_1, %4 : f32
// CHECK-NEXT:       %x1_1 = arith.addf %x_1, %5 : f32
// CHECK-NEXT:       %6 = gemm.group_reduce add %x1_1 over 64 : f32
// CHECK-NEXT:       %7 = arith.constant 1.562500e-02 : f32
// CHECK-NEXT:       %mean = arith.mulf %6, %7 : f32
// CHECK-NEXT:       %8 = arith.subf %x1_1, %mean : f32
// CHECK-NEXT:       %9 = arith.mulf %8, %8 : f32
// CHECK-NEXT:       %10 = gemm.group_reduce add %9 over 64 : f32
// CHECK-NEXT:       %11 = arith.mulf %10, %7 : f32
// CHECK-NEXT:       %12 = arith.constant {gemm.exact = 1.000000e-06 : f64} 1.000000e-06 : f32
// CHECK-NEXT:       %13 = arith.addf %11, %12 : f32
// CHECK-NEXT:       %rstd = math.rsqrt %13 : f32
// CHECK-NEXT:       %14 = arith.mulf %8, %rstd : f32
// CHECK-NEXT:       %15 = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:       %16 = arith.addf %15, %scale2_1 : f32
// CHECK-NEXT:       %17 = arith.mulf %14, %16 : f32
// CHECK-NEXT:       %h2_1 = arith.addf %17, %shift2_1 : f32
// CHECK-NEXT:       gemm.yield %x1_1, %h2_1 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %a = gemm.fused %h2 : tensor<?x?x64xbf16>
// CHECK-NEXT:     columns(%w_fc : tensor<256x64xbf16>) row(%b_fc : tensor<256xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x?x256xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %b_fc_1: f32):
// CHECK-NEXT:       %4 = arith.addf %acc, %b_fc_1 : f32
// CHECK-NEXT:       %5 = arith.mulf %4, %4 : f32
// CHECK-NEXT:       %6 = arith.mulf %4, %5 : f32
// CHECK-NEXT:       %7 = arith.constant {gemm.exact = 4.471500e-02 : f64} 4.471500e-02 : f32
// CHECK-NEXT:       %8 = arith.mulf %6, %7 : f32
// CHECK-NEXT:       %9 = arith.addf %4, %8 : f32
// CHECK-NEXT:       %10 = arith.constant {gemm.exact = 1.5957691216057308 : f64} 1.59576917 : f32
// CHECK-NEXT:       %11 = arith.mulf %9, %10 : f32
// CHECK-NEXT:       %12 = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:       %13 = arith.negf %11 : f32
// CHECK-NEXT:       %14 = math.exp %13 : f32
// CHECK-NEXT:       %15 = arith.addf %12, %14 : f32
// CHECK-NEXT:       %a_1 = arith.divf %4, %15 : f32
// CHECK-NEXT:       gemm.yield %a_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %4 = gemm.fused %a : tensor<?x?x256xbf16>
// CHECK-NEXT:     columns(%w_out : tensor<64x256xbf16>) row(%b_out : tensor<64xbf16>) table(%gate2 : tensor<?x1x64xbf16>) tile(%x1 : tensor<?x?x64xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x?x64xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %b_out_1: f32, %gate2_1: f32, %x1_1: f32):
// CHECK-NEXT:       %5 = arith.addf %acc, %b_out_1 : f32
// CHECK-NEXT:       %6 = arith.mulf %gate2_1, %5 : f32
// CHECK-NEXT:       %7 = arith.addf %x1_1, %6 : f32
// CHECK-NEXT:       gemm.yield %7 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %4 : tensor<?x?x64xbf16>
// CHECK-NEXT: }

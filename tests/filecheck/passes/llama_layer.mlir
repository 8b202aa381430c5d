// RUN: coda-opt %examples/llama_layer.coda -p canonicalize,cse,defer-norms | filecheck %s --check-prefix=NORM
// RUN: coda-opt %examples/llama_layer.coda -p canonicalize,cse,defer-norms,convert-linear-to-gemm | filecheck %s --check-prefix=GEMM
// RUN: coda-opt %examples/llama_layer.coda -p canonicalize,cse,defer-norms,convert-linear-to-gemm,fuse-pointwise | filecheck %s --check-prefix=TAIL
// RUN: coda-opt %examples/llama_layer.coda -p canonicalize,cse,defer-norms,convert-linear-to-gemm,fuse-pointwise,pair-glu | filecheck %s --check-prefix=GLU
// RUN: coda-opt %examples/llama_layer.coda -p canonicalize,cse,defer-norms,convert-linear-to-gemm,fuse-pointwise,pair-glu,pair-rope | filecheck %s --check-prefix=ROPE
// RUN: coda-opt %examples/llama_layer.coda -p canonicalize,cse,defer-norms,convert-linear-to-gemm,fuse-pointwise,pair-glu,pair-rope,split-reductions | filecheck %s --check-prefix=SPLIT
// RUN: coda-opt %examples/llama_layer.coda -p canonicalize,cse,defer-norms,convert-linear-to-gemm,fuse-pointwise,pair-glu,pair-rope,split-reductions,merge-sibling-gemms | filecheck %s --check-prefix=MERGE
// RUN: coda-opt %examples/llama_layer.coda -p coda-to-gemm | filecheck %s

// The passes of coda-to-gemm one after the other on a Llama layer.

// Deferral of the norms: the weight stays before the GEMMs, the row scale comes after them.

// NORM:      func.func @llama_layer(
// NORM:        %x1_scaled = coda.mul %x1, %norm1 : (tensor<?x?x4096xbf16>, tensor<4096xbf16>) -> tensor<?x?x4096xbf16>
// NORM-NEXT:   %rstd = coda.norm_stats %x1 {kind = "rms", eps = 1.000000e-05 : f64} : (tensor<?x?x4096xbf16>) -> tensor<?x?x1xf32>
// NORM-NEXT:   %1 = coda.linear %x1_scaled, %w_gate : (tensor<?x?x4096xbf16>, tensor<11008x4096xbf16>) -> tensor<?x?x11008xf32>
// NORM-NEXT:   %2 = coda.mul %1, %rstd : (tensor<?x?x11008xf32>, tensor<?x?x1xf32>) -> tensor<?x?x11008xf32>
// NORM-NEXT:   %3 = coda.cast %2 : (tensor<?x?x11008xf32>) -> tensor<?x?x11008xbf16>
// NORM-NEXT:   %4 = coda.silu %3 : (tensor<?x?x11008xbf16>) -> tensor<?x?x11008xbf16>
// NORM-NEXT:   %5 = coda.linear %x1_scaled, %w_up : (tensor<?x?x4096xbf16>, tensor<11008x4096xbf16>) -> tensor<?x?x11008xf32>
// NORM-NEXT:   %6 = coda.mul %5, %rstd : (tensor<?x?x11008xf32>, tensor<?x?x1xf32>) -> tensor<?x?x11008xf32>
// NORM-NEXT:   %7 = coda.cast %6 : (tensor<?x?x11008xf32>) -> tensor<?x?x11008xbf16>
// NORM-NEXT:   %a = coda.mul %4, %7 : (tensor<?x?x11008xbf16>, tensor<?x?x11008xbf16>) -> tensor<?x?x11008xbf16>

// Linear maps become GEMMs.

// GEMM:      func.func @llama_layer(
// GEMM:        %0 = gemm.fused %y : tensor<?x?x4096xbf16>
// GEMM-NEXT:     columns(%wo : tensor<4096x4096xbf16>)
// GEMM-NEXT:       -> (tile : tensor<?x?x4096xbf16>) {
// GEMM-NEXT:     ^bb0(%acc: f32):
// GEMM-NEXT:       gemm.yield %acc : f32
// GEMM-NEXT:     }

// Residual, norm weight, row scale and activation move into the epilogues.

// TAIL:      func.func @llama_layer(
// TAIL:        %x1, %x1_scaled = gemm.fused %y : tensor<?x?x4096xbf16>
// TAIL-NEXT:     columns(%wo : tensor<4096x4096xbf16>) tile(%x0 : tensor<?x?x4096xbf16>) row(%norm1 : tensor<4096xbf16>)
// TAIL-NEXT:       -> (tile : tensor<?x?x4096xbf16>, tile : tensor<?x?x4096xbf16>) {
// TAIL-NEXT:     ^bb0(%acc: f32, %x0_1: f32, %norm1_1: f32):
// TAIL-NEXT:       %x1_1 = arith.addf %x0_1, %acc : f32
// TAIL-NEXT:       %x1_scaled_1 = arith.mulf %x1_1, %norm1_1 : f32
// TAIL-NEXT:       gemm.yield %x1_1, %x1_scaled_1 : f32, f32
// TAIL-NEXT:     }
// TAIL-NEXT:   %rstd = coda.norm_stats %x1 {kind = "rms", eps = 1.000000e-05 : f64} : (tensor<?x?x4096xbf16>) -> tensor<?x?x1xf32>
// TAIL-NEXT:   %0 = gemm.fused %x1_scaled : tensor<?x?x4096xbf16>
// TAIL-NEXT:     columns(%w_gate : tensor<11008x4096xbf16>) col(%rstd : tensor<?x?x1xf32>)
// TAIL-NEXT:       -> (tile : tensor<?x?x11008xbf16>) {
// TAIL-NEXT:     ^bb0(%acc: f32, %rstd_1: f32):
// TAIL-NEXT:       %1 = arith.mulf %acc, %rstd_1 : f32
// TAIL-NEXT:       %2 = arith.constant 1.000000e+00 : f32
// TAIL-NEXT:       %3 = arith.negf %1 : f32
// TAIL-NEXT:       %4 = math.exp %3 : f32
// TAIL-NEXT:       %5 = arith.addf %2, %4 : f32
// TAIL-NEXT:       %6 = arith.divf %1, %5 : f32
// TAIL-NEXT:       gemm.yield %6 : f32
// TAIL-NEXT:     }
// TAIL-NEXT:   %1 = gemm.fused %x1_scaled : tensor<?x?x4096xbf16>
// TAIL-NEXT:     columns(%w_up : tensor<11008x4096xbf16>) col(%rstd : tensor<?x?x1xf32>)
// TAIL-NEXT:       -> (tile : tensor<?x?x11008xbf16>) {
// TAIL-NEXT:     ^bb0(%acc: f32, %rstd_1: f32):
// TAIL-NEXT:       %2 = arith.mulf %acc, %rstd_1 : f32
// TAIL-NEXT:       gemm.yield %2 : f32
// TAIL-NEXT:     }
// TAIL-NEXT:   %a = coda.mul %0, %1 : (tensor<?x?x11008xbf16>, tensor<?x?x11008xbf16>) -> tensor<?x?x11008xbf16>

// Gate and up become one GEMM in pair mode.

// GLU:      func.func @llama_layer(
// GLU:        %a = gemm.fused %x1_scaled : tensor<?x?x4096xbf16>
// GLU-NEXT:     columns(%w_gate : tensor<11008x4096xbf16>, %w_up : tensor<11008x4096xbf16>) pair<halves> col(%rstd : tensor<?x?x1xf32>)
// GLU-NEXT:       -> (half : tensor<?x?x11008xbf16>) {
// GLU-NEXT:     ^bb0(%acc: f32, %acc_1: f32, %rstd_1: f32):
// GLU-NEXT:       %0 = arith.mulf %acc, %rstd_1 : f32
// GLU-NEXT:       %1 = arith.constant 1.000000e+00 : f32
// GLU-NEXT:       %2 = arith.negf %0 : f32
// GLU-NEXT:       %3 = math.exp %2 : f32
// GLU-NEXT:       %4 = arith.addf %1, %3 : f32
// GLU-NEXT:       %5 = arith.divf %0, %4 : f32
// GLU-NEXT:       %6 = arith.mulf %acc_1, %rstd_1 : f32
// GLU-NEXT:       %a_1 = arith.mulf %5, %6 : f32
// GLU-NEXT:       gemm.yield %a_1 : f32
// GLU-NEXT:     }

// The rotations become pair epilogues.

// ROPE:      func.func @llama_layer(
// ROPE:        %q = gemm.fused %x2_scaled : tensor<?x?x4096xbf16>
// ROPE-NEXT:     columns(%wq : tensor<4096x4096xbf16>) pair<halves, 128> col(%rstd_1 : tensor<?x?x1xf32>) half_table(%cos : tensor<?x64xf32>, %sin : tensor<?x64xf32>)
// ROPE-NEXT:       -> (tile : tensor<?x?x4096xbf16>) {
// ROPE-NEXT:     ^bb0(%acc: f32, %acc_1: f32, %rstd_2: f32, %cos_1: f32, %sin_1: f32):
// ROPE-NEXT:       %0 = arith.mulf %acc, %rstd_2 : f32
// ROPE-NEXT:       %1 = arith.mulf %acc_1, %rstd_2 : f32
// ROPE-NEXT:       %2 = arith.mulf %0, %cos_1 : f32
// ROPE-NEXT:       %3 = arith.mulf %1, %sin_1 : f32
// ROPE-NEXT:       %4 = arith.subf %2, %3 : f32
// ROPE-NEXT:       %5 = arith.mulf %1, %cos_1 : f32
// ROPE-NEXT:       %6 = arith.mulf %0, %sin_1 : f32
// ROPE-NEXT:       %7 = arith.addf %5, %6 : f32
// ROPE-NEXT:       gemm.yield %4, %7 : f32, f32
// ROPE-NEXT:     }
// ROPE-NEXT:   %k = gemm.fused %x2_scaled : tensor<?x?x4096xbf16>
// ROPE-NEXT:     columns(%wk : tensor<4096x4096xbf16>) pair<halves, 128> col(%rstd_1 : tensor<?x?x1xf32>) half_table(%cos : tensor<?x64xf32>, %sin : tensor<?x64xf32>)
// ROPE-NEXT:       -> (tile : tensor<?x?x4096xbf16>) {
// ROPE-NEXT:     ^bb0(%acc: f32, %acc_1: f32, %rstd_2: f32, %cos_1: f32, %sin_1: f32):
// ROPE-NEXT:       %0 = arith.mulf %acc, %rstd_2 : f32
// ROPE-NEXT:       %1 = arith.mulf %acc_1, %rstd_2 : f32
// ROPE-NEXT:       %2 = arith.mulf %0, %cos_1 : f32
// ROPE-NEXT:       %3 = arith.mulf %1, %sin_1 : f32
// ROPE-NEXT:       %4 = arith.subf %2, %3 : f32
// ROPE-NEXT:       %5 = arith.mulf %1, %cos_1 : f32
// ROPE-NEXT:       %6 = arith.mulf %0, %sin_1 : f32
// ROPE-NEXT:       %7 = arith.addf %5, %6 : f32
// ROPE-NEXT:       gemm.yield %4, %7 : f32, f32
// ROPE-NEXT:     }

// The statistics of the norms become tile partials of the GEMMs.

// SPLIT:      func.func @llama_layer(
// SPLIT:        %x1, %x1_scaled, %partial = gemm.fused %y : tensor<?x?x4096xbf16>
// SPLIT-NEXT:     columns(%wo : tensor<4096x4096xbf16>) tile(%x0 : tensor<?x?x4096xbf16>) row(%norm1 : tensor<4096xbf16>)
// SPLIT-NEXT:       -> (tile : tensor<?x?x4096xbf16>, tile : tensor<?x?x4096xbf16>, partial_row<add> : tensor<?x?x?xf32>) {
// SPLIT-NEXT:     ^bb0(%acc: f32, %x0_1: f32, %norm1_1: f32):
// SPLIT-NEXT:       %x1_1 = arith.addf %x0_1, %acc : f32
// SPLIT-NEXT:       %x1_scaled_1 = arith.mulf %x1_1, %norm1_1 : f32
// SPLIT-NEXT:       %0 = arith.mulf %x1_1, %x1_1 : f32
// SPLIT-NEXT:       gemm.yield %x1_1, %x1_scaled_1, %0 : f32, f32, f32
// SPLIT-NEXT:     }
// SPLIT-NEXT:   %rstd = gemm.finalize row (add %partial : tensor<?x?x?xf32>) -> (tensor<?x?x1xf32>) {
// SPLIT-NEXT:   ^bb0(%0: f32):
// SPLIT-NEXT:     %1 = arith.constant 0.000244140625 : f32
// SPLIT-NEXT:     %2 = arith.mulf %0, %1 : f32
// SPLIT-NEXT:     %3 = arith.constant {gemm.exact = 1.000000e-05 : f64} 1.000000e-05 : f32
// SPLIT-NEXT:     %4 = arith.addf %2, %3 : f32
// SPLIT-NEXT:     %5 = math.rsqrt %4 : f32
// SPLIT-NEXT:     gemm.yield %5 : f32
// SPLIT-NEXT:   }

// The projections of the next attention become one launch.

// MERGE:      func.func @llama_layer(
// MERGE:        %q, %k, %v = gemm.fused %x2_scaled : tensor<?x?x4096xbf16>
// MERGE-NEXT:     columns(%wq : tensor<4096x4096xbf16>) pair<halves, 128> col(%rstd_1 : tensor<?x?x1xf32>) half_table(%cos : tensor<?x64xf32>, %sin : tensor<?x64xf32>)
// MERGE-NEXT:       -> (tile : tensor<?x?x4096xbf16>) {
// MERGE-NEXT:     ^bb0(%acc: f32, %acc_1: f32, %rstd_2: f32, %cos_1: f32, %sin_1: f32):
// MERGE-NEXT:       %0 = arith.mulf %acc, %rstd_2 : f32
// MERGE-NEXT:       %1 = arith.mulf %acc_1, %rstd_2 : f32
// MERGE-NEXT:       %2 = arith.mulf %0, %cos_1 : f32
// MERGE-NEXT:       %3 = arith.mulf %1, %sin_1 : f32
// MERGE-NEXT:       %4 = arith.subf %2, %3 : f32
// MERGE-NEXT:       %5 = arith.mulf %1, %cos_1 : f32
// MERGE-NEXT:       %6 = arith.mulf %0, %sin_1 : f32
// MERGE-NEXT:       %7 = arith.addf %5, %6 : f32
// MERGE-NEXT:       gemm.yield %4, %7 : f32, f32
// MERGE-NEXT:     }
// MERGE-NEXT:     columns(%wk : tensor<4096x4096xbf16>) pair<halves, 128> col(%rstd_1 : tensor<?x?x1xf32>) half_table(%cos : tensor<?x64xf32>, %sin : tensor<?x64xf32>)
// MERGE-NEXT:       -> (tile : tensor<?x?x4096xbf16>) {
// MERGE-NEXT:     ^bb0(%acc_2: f32, %acc_3: f32, %rstd_3: f32, %cos_2: f32, %sin_2: f32):
// MERGE-NEXT:       %8 = arith.mulf %acc_2, %rstd_3 : f32
// MERGE-NEXT:       %9 = arith.mulf %acc_3, %rstd_3 : f32
// MERGE-NEXT:       %10 = arith.mulf %8, %cos_2 : f32
// MERGE-NEXT:       %11 = arith.mulf %9, %sin_2 : f32
// MERGE-NEXT:       %12 = arith.subf %10, %11 : f32
// MERGE-NEXT:       %13 = arith.mulf %9, %cos_2 : f32
// MERGE-NEXT:       %14 = arith.mulf %8, %sin_2 : f32
// MERGE-NEXT:       %15 = arith.addf %13, %14 : f32
// MERGE-NEXT:       gemm.yield %12, %15 : f32, f32
// MERGE-NEXT:     }
// MERGE-NEXT:     columns(%wv : tensor<4096x4096xbf16>) col(%rstd_1 : tensor<?x?x1xf32>)
// MERGE-NEXT:       -> (tile : tensor<?x?x4096xbf16>) {
// MERGE-NEXT:     ^bb0(%acc_4: f32, %rstd_4: f32):
// MERGE-NEXT:       %v_1 = arith.mulf %acc_4, %rstd_4 : f32
// MERGE-NEXT:       gemm.yield %v_1 : f32
// MERGE-NEXT:     }

// The whole pipeline: four GEMMs, two combinations of partials, and nothing else.

// CHECK:      func.func @llama_layer(
// CHECK-NEXT:   %x1, %x1_scaled, %partial = gemm.fused %y : tensor<?x?x4096xbf16>
// CHECK-NEXT:     columns(%wo : tensor<4096x4096xbf16>) tile(%x0 : tensor<?x?x4096xbf16>) row(%norm1 : tensor<4096xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x?x4096xbf16>, tile : tensor<?x?x4096xbf16>, partial_row<add> : tensor<?x?x?xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %x0_1: f32, %norm1_1: f32):
// CHECK-NEXT:       %x1_1 = arith.addf %x0_1, %acc : f32
// CHECK-NEXT:       %x1_scaled_1 = arith.mulf %x1_1, %norm1_1 : f32
// CHECK-NEXT:       %0 = arith.mulf %x1_1, %x1_1 : f32
// CHECK-NEXT:       gemm.yield %x1_1, %x1_scaled_1, %0 : f32, f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %rstd = gemm.finalize row (add %partial : tensor<?x?x?xf32>) -> (tensor<?x?x1xf32>) {
// CHECK-NEXT:   ^bb0(%0: f32):
// CHECK-NEXT:     %1 = arith.constant 0.000244140625 : f32
// CHECK-NEXT:     %2 = arith.mulf %0, %1 : f32
// CHECK-NEXT:     %3 = arith.constant {gemm.exact = 1.000000e-05 : f64} 1.000000e-05 : f32
// CHECK-NEXT:     %4 = arith.addf %2, %3 : f32
// CHECK-NEXT:     %5 = math.rsqrt %4 : f32
// CHECK-NEXT:     gemm.yield %5 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   %a = gemm.fused %x1_scaled : tensor<?x?x4096xbf16>
// CHECK-NEXT:     columns(%w_gate : tensor<11008x4096xbf16>, %w_up : tensor<11008x4096xbf16>) pair<halves> col(%rstd : tensor<?x?x1xf32>)
// CHECK-NEXT:       -> (half : tensor<?x?x11008xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %acc_1: f32, %rstd_1: f32):
// CHECK-NEXT:       %0 = arith.mulf %acc, %rstd_1 : f32
// CHECK-NEXT:       %1 = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:       %2 = arith.negf %0 : f32
// CHECK-NEXT:       %3 = math.exp %2 : f32
// CHECK-NEXT:       %4 = arith.addf %1, %3 : f32
// CHECK-NEXT:       %5 = arith.divf %0, %4 : f32
// CHECK-NEXT:       %6 = arith.mulf %acc_1, %rstd_1 : f32
// CHECK-NEXT:       %a_1 = arith.mulf %5, %6 : f32
// CHECK-NEXT:       gemm.yield %a_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %x2, %x2_scaled, %partial_1 = gemm.fused %a : tensor<?x?x11008xbf16>
// CHECK-NEXT:     columns(%w_down : tensor<4096x11008xbf16>) tile(%x1 : tensor<?x?x4096xbf16>) row(%norm2 : tensor<4096xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x?x4096xbf16>, tile : tensor<?x?x4096xbf16>, partial_row<add> : tensor<?x?x?xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %x1_1: f32, %norm2_1: f32):
// CHECK-NEXT:       %x2_1 = arith.addf %x1_1, %acc : f32
// CHECK-NEXT:       %x2_scaled_1 = arith.mulf %x2_1, %norm2_1 : f32
// CHECK-NEXT:       %0 = arith.mulf %x2_1, %x2_1 : f32
// CHECK-NEXT:       gemm.yield %x2_1, %x2_scaled_1, %0 : f32, f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %rstd_1 = gemm.finalize row (add %partial_1 : tensor<?x?x?xf32>) -> (tensor<?x?x1xf32>) {
// CHECK-NEXT:   ^bb0(%0: f32):
// CHECK-NEXT:     %1 = arith.constant 0.000244140625 : f32
// CHECK-NEXT:     %2 = arith.mulf %0, %1 : f32
// CHECK-NEXT:     %3 = arith.constant {gemm.exact = 1.000000e-05 : f64} 1.000000e-05 : f32
// CHECK-NEXT:     %4 = arith.addf %2, %3 : f32
// CHECK-NEXT:     %5 = math.rsqrt %4 : f32
// CHECK-NEXT:     gemm.yield %5 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   %q, %k, %v = gemm.fused %x2_scaled : tensor<?x?x4096xbf16>
// CHECK-NEXT:     columns(%wq : tensor<4096x4096xbf16>) pair<halves, 128> col(%rstd_1 : tensor<?x?x1xf32>) half_table(%cos : tensor<?x64xf32>, %sin : tensor<?x64xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x?x4096xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %acc_1: f32, %rstd_2: f32, %cos_1: f32, %sin_1: f32):
// CHECK-NEXT:       %0 = arith.mulf %acc, %rstd_2 : f32
// CHECK-NEXT:       %1 = arith.mulf %acc_1, %rstd_2 : f32
// CHECK-NEXT:       %2 = arith.mulf %0, %cos_1 : f32
// CHECK-NEXT:       %3 = arith.mulf %1, %sin_1 : f32
// CHECK-NEXT:       %4 = arith.subf %2, %3 : f32
// CHECK-NEXT:       %5 = arith.mulf %1, %cos_1 : f32
// CHECK-NEXT:       %6 = arith.mulf %0, %sin_1 : f32
// CHECK-NEXT:       %7 = arith.addf %5, %6 : f32
// CHECK-NEXT:       gemm.yield %4, %7 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:     columns(%wk : tensor<4096x4096xbf16>) pair<halves, 128> col(%rstd_1 : tensor<?x?x1xf32>) half_table(%cos : tensor<?x64xf32>, %sin : tensor<?x64xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x?x4096xbf16>) {
// CHECK-NEXT:     ^bb0(%acc_2: f32, %acc_3: f32, %rstd_3: f32, %cos_2: f32, %sin_2: f32):
// CHECK-NEXT:       %8 = arith.mulf %acc_2, %rstd_3 : f32
// CHECK-NEXT:       %9 = arith.mulf %acc_3, %rstd_3 : f32
// CHECK-NEXT:       %10 = arith.mulf %8, %cos_2 : f32
// CHECK-NEXT:       %11 = arith.mulf %9, %sin_2 : f32
// CHECK-NEXT:       %12 = arith.subf %10, %11 : f32
// CHECK-NEXT:       %13 = arith.mulf %9, %cos_2 : f32
// CHECK-NEXT:       %14 = arith.mulf %8, %sin_2 : f32
// CHECK-NEXT:       %15 = arith.addf %13, %14 : f32
// CHECK-NEXT:       gemm.yield %12, %15 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:     columns(%wv : tensor<4096x4096xbf16>) col(%rstd_1 : tensor<?x?x1xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x?x4096xbf16>) {
// CHECK-NEXT:     ^bb0(%acc_4: f32, %rstd_4: f32):
// CHECK-NEXT:       %v_1 = arith.mulf %acc_4, %rstd_4 : f32
// CHECK-NEXT:       gemm.yield %v_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %x2, %q, %k, %v : tensor<?x?x4096xbf16>, tensor<?x?x4096xbf16>, tensor<?x?x4096xbf16>, tensor<?x?x4096xbf16>
// CHECK-NEXT: }

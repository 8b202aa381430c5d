// RUN: coda-opt %examples/llama_layer.coda -p "differentiate,coda-to-gemm" | filecheck %s
// RUN: coda-opt %examples/llama_layer.coda -p "differentiate,coda-to-gemm" --remarks=analysis,missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// A Llama layer in training. The forward is that of inference, and stores what the backward needs:
// x1, the pre-activations, and rstd of both norms.

// CHECK:      func.func @llama_layer_forward(
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
// CHECK-NEXT:   %w_gate_out, %w_up_out, %a = gemm.fused %x1_scaled : tensor<?x?x4096xbf16>
// CHECK-NEXT:     columns(%w_gate : tensor<11008x4096xbf16>, %w_up : tensor<11008x4096xbf16>) pair<halves> col(%rstd : tensor<?x?x1xf32>)
// CHECK-NEXT:       -> (half : tensor<?x?x11008xbf16>, half : tensor<?x?x11008xbf16>, half : tensor<?x?x11008xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %acc_1: f32, %rstd_1: f32):
// CHECK-NEXT:       %w_gate_out_1 = arith.mulf %acc, %rstd_1 : f32
// CHECK-NEXT:       %0 = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:       %1 = arith.negf %w_gate_out_1 : f32
// CHECK-NEXT:       %2 = math.exp %1 : f32
// CHECK-NEXT:       %3 = arith.addf %0, %2 : f32
// CHECK-NEXT:       %4 = arith.divf %w_gate_out_1, %3 : f32
// CHECK-NEXT:       %w_up_out_1 = arith.mulf %acc_1, %rstd_1 : f32
// CHECK-NEXT:       %a_1 = arith.mulf %4, %w_up_out_1 : f32
// CHECK-NEXT:       gemm.yield %w_gate_out_1, %w_up_out_1, %a_1 : f32, f32, f32
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
// CHECK-NEXT:       %wq_out = arith.mulf %acc, %rstd_2 : f32
// CHECK-NEXT:       %wq_out_1 = arith.mulf %acc_1, %rstd_2 : f32
// CHECK-NEXT:       %0 = arith.mulf %wq_out, %cos_1 : f32
// CHECK-NEXT:       %1 = arith.mulf %wq_out_1, %sin_1 : f32
// CHECK-NEXT:       %2 = arith.subf %0, %1 : f32
// CHECK-NEXT:       %3 = arith.mulf %wq_out_1, %cos_1 : f32
// CHECK-NEXT:       %4 = arith.mulf %wq_out, %sin_1 : f32
// CHECK-NEXT:       %5 = arith.addf %3, %4 : f32
// CHECK-NEXT:       gemm.yield %2, %5 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:     columns(%wk : tensor<4096x4096xbf16>) pair<halves, 128> col(%rstd_1 : tensor<?x?x1xf32>) half_table(%cos : tensor<?x64xf32>, %sin : tensor<?x64xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x?x4096xbf16>) {
// CHECK-NEXT:     ^bb0(%acc_2: f32, %acc_3: f32, %rstd_3: f32, %cos_2: f32, %sin_2: f32):
// CHECK-NEXT:       %wk_out = arith.mulf %acc_2, %rstd_3 : f32
// CHECK-NEXT:       %wk_out_1 = arith.mulf %acc_3, %rstd_3 : f32
// CHECK-NEXT:       %6 = arith.mulf %wk_out, %cos_2 : f32
// CHECK-NEXT:       %7 = arith.mulf %wk_out_1, %sin_2 : f32
// CHECK-NEXT:       %8 = arith.subf %6, %7 : f32
// CHECK-NEXT:       %9 = arith.mulf %wk_out_1, %cos_2 : f32
// CHECK-NEXT:       %10 = arith.mulf %wk_out, %sin_2 : f32
// CHECK-NEXT:       %11 = arith.addf %9, %10 : f32
// CHECK-NEXT:       gemm.yield %8, %11 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:     columns(%wv : tensor<4096x4096xbf16>) col(%rstd_1 : tensor<?x?x1xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x?x4096xbf16>) {
// CHECK-NEXT:     ^bb0(%acc_4: f32, %rstd_4: f32):
// CHECK-NEXT:       %v_1 = arith.mulf %acc_4, %rstd_4 : f32
// CHECK-NEXT:       gemm.yield %v_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %x2, %q, %k, %v, %x1, %rstd, %w_gate_out, %w_up_out, %rstd_1
// CHECK-NEXT: }

// The backward: 8 GEMMs, 4 with the gradients of the layer's inputs, 4 with those of the weights, each
// of which reads what the epilogues of the former store. The kernels of transposed rotations are
// the only ones beside GEMMs and finalizes: attention gives dq and dk, which no GEMM has on chip.

// CHECK:      func.func @llama_layer_backward(
// CHECK-NEXT:   %0, %partial = gemm.map pair<halves, 128> tile(%d_k : tensor<?x?x4096xbf16>) half_table(%cos : tensor<?x64xf32>, %sin : tensor<?x64xf32>) tile(%k : tensor<?x?x4096xbf16>, %v : tensor<?x?x4096xbf16>, %d_v : tensor<?x?x4096xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x?x4096xbf16>, partial_row<add> : tensor<?x?x?xf32>) {
// CHECK-NEXT:     ^bb0(%d_k_1: f32, %d_k_2: f32, %cos_1: f32, %sin_1: f32, %k_1: f32, %k_2: f32, %v_1: f32, %v_2: f32, %d_v_1: f32, %d_v_2: f32):
// CHECK-NEXT:       %1 = arith.mulf %d_k_1, %cos_1 : f32
// CHECK-NEXT:       %2 = arith.mulf %d_k_2, %sin_1 : f32
// CHECK-NEXT:       %3 = arith.addf %1, %2 : f32
// CHECK-NEXT:       %4 = arith.mulf %d_k_2, %cos_1 : f32
// CHECK-NEXT:       %5 = arith.mulf %d_k_1, %sin_1 : f32
// CHECK-NEXT:       %6 = arith.subf %4, %5 : f32
// CHECK-NEXT:       %7 = arith.mulf %k_1, %d_k_1 : f32
// CHECK-NEXT:       %8 = arith.mulf %k_2, %d_k_2 : f32
// CHECK-NEXT:       %9 = arith.mulf %v_1, %d_v_1 : f32
// CHECK-NEXT:       %10 = arith.mulf %v_2, %d_v_2 : f32
// CHECK-NEXT:       %11 = arith.addf %9, %7 : f32
// CHECK-NEXT:       %12 = arith.addf %10, %8 : f32
// CHECK-NEXT:       %13 = arith.addf %11, %12 : f32
// CHECK-NEXT:       gemm.yield %3, %6, %13 : f32, f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %1, %partial_1 = gemm.map pair<halves, 128> tile(%d_q : tensor<?x?x4096xbf16>) half_table(%cos : tensor<?x64xf32>, %sin : tensor<?x64xf32>) tile(%q : tensor<?x?x4096xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x?x4096xbf16>, partial_row<add> : tensor<?x?x?xf32>) {
// CHECK-NEXT:     ^bb0(%d_q_1: f32, %d_q_2: f32, %cos_1: f32, %sin_1: f32, %q_1: f32, %q_2: f32):
// CHECK-NEXT:       %2 = arith.mulf %d_q_1, %cos_1 : f32
// CHECK-NEXT:       %3 = arith.mulf %d_q_2, %sin_1 : f32
// CHECK-NEXT:       %4 = arith.addf %2, %3 : f32
// CHECK-NEXT:       %5 = arith.mulf %d_q_2, %cos_1 : f32
// CHECK-NEXT:       %6 = arith.mulf %d_q_1, %sin_1 : f32
// CHECK-NEXT:       %7 = arith.subf %5, %6 : f32
// CHECK-NEXT:       %8 = arith.mulf %q_1, %d_q_1 : f32
// CHECK-NEXT:       %9 = arith.mulf %q_2, %d_q_2 : f32
// CHECK-NEXT:       %10 = arith.addf %8, %9 : f32
// CHECK-NEXT:       gemm.yield %4, %7, %10 : f32, f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %along = gemm.finalize row (add %partial : tensor<?x?x?xf32>, add %partial_1 : tensor<?x?x?xf32>) -> (tensor<?x?x1xf32>) {
// CHECK-NEXT:   ^bb0(%2: f32, %3: f32):
// CHECK-NEXT:     %4 = arith.addf %2, %3 : f32
// CHECK-NEXT:     %5 = arith.constant 0.000244140625 : f32
// CHECK-NEXT:     %6 = arith.mulf %4, %5 : f32
// CHECK-NEXT:     gemm.yield %6 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   %d_x2_1, %h2, %partial_2 = gemm.fused %d_v : tensor<?x?x4096xbf16> + %0 : tensor<?x?x4096xbf16> + %1 : tensor<?x?x4096xbf16>
// CHECK-NEXT:     columns(%wv : tensor<4096x4096xbf16>) + (%wk : tensor<4096x4096xbf16>) + (%wq : tensor<4096x4096xbf16>) kn tile(%x2 : tensor<?x?x4096xbf16>) col(%rstd_1 : tensor<?x?x1xf32>) row(%norm2 : tensor<4096xbf16>) col(%along : tensor<?x?x1xf32>) tile(%d_x2 : tensor<?x?x4096xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x?x4096xbf16>, tile : tensor<?x?x4096xbf16>, partial_col<add> : tensor<?x4096xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %x2_1: f32, %rstd_2: f32, %norm2_1: f32, %along_1: f32, %d_x2_2: f32):
// CHECK-NEXT:       %normed = arith.mulf %x2_1, %rstd_2 : f32
// CHECK-NEXT:       %2 = arith.mulf %acc, %normed : f32
// CHECK-NEXT:       %d_normed = arith.mulf %acc, %norm2_1 : f32
// CHECK-NEXT:       %3 = arith.mulf %normed, %along_1 : f32
// CHECK-NEXT:       %4 = arith.subf %d_normed, %3 : f32
// CHECK-NEXT:       %5 = arith.mulf %4, %rstd_2 : f32
// CHECK-NEXT:       %d_x2_3 = arith.addf %d_x2_2, %5 : f32
// CHECK-NEXT:       %h2_1 = arith.mulf %normed, %norm2_1 : f32
// CHECK-NEXT:       gemm.yield %d_x2_3, %h2_1, %2 : f32, f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %d_wv, %d_wk, %d_wq = gemm.fused transposed %h2 : tensor<?x?x4096xbf16>
// CHECK-NEXT:     columns(%d_v : tensor<?x?x4096xbf16>) kn
// CHECK-NEXT:       -> (tile_t : tensor<4096x4096xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     columns(%0 : tensor<?x?x4096xbf16>) kn
// CHECK-NEXT:       -> (tile_t : tensor<4096x4096xbf16>) {
// CHECK-NEXT:     ^bb0(%acc_1: f32):
// CHECK-NEXT:       gemm.yield %acc_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     columns(%1 : tensor<?x?x4096xbf16>) kn
// CHECK-NEXT:       -> (tile_t : tensor<4096x4096xbf16>) {
// CHECK-NEXT:     ^bb0(%acc_2: f32):
// CHECK-NEXT:       gemm.yield %acc_2 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %d_norm2 = gemm.finalize col (add %partial_2 : tensor<?x4096xf32>) -> (tensor<4096xbf16>) {
// CHECK-NEXT:   ^bb0(%2: f32):
// CHECK-NEXT:     gemm.yield %2 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   %2, %3, %a, %partial_3 = gemm.fused %d_x2_1 : tensor<?x?x4096xbf16>
// CHECK-NEXT:     columns(%w_down : tensor<4096x11008xbf16>) kn tile(%w_up_out : tensor<?x?x11008xbf16>, %w_gate_out : tensor<?x?x11008xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x?x11008xbf16>, tile : tensor<?x?x11008xbf16>, tile : tensor<?x?x11008xbf16>, partial_row<add> : tensor<?x?x?xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %w_up_out_1: f32, %w_gate_out_1: f32):
// CHECK-NEXT:       %4 = arith.mulf %acc, %w_up_out_1 : f32
// CHECK-NEXT:       %5 = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:       %6 = arith.negf %w_gate_out_1 : f32
// CHECK-NEXT:       %7 = math.exp %6 : f32
// CHECK-NEXT:       %8 = arith.addf %5, %7 : f32
// CHECK-NEXT:       %9 = arith.divf %w_gate_out_1, %8 : f32
// CHECK-NEXT:       %10 = arith.mulf %acc, %9 : f32
// CHECK-NEXT:       %11 = arith.divf %5, %8 : f32
// CHECK-NEXT:       %12 = arith.subf %5, %11 : f32
// CHECK-NEXT:       %13 = arith.mulf %w_gate_out_1, %12 : f32
// CHECK-NEXT:       %14 = arith.addf %5, %13 : f32
// CHECK-NEXT:       %15 = arith.mulf %4, %11 : f32
// CHECK-NEXT:       %16 = arith.mulf %15, %14 : f32
// CHECK-NEXT:       %17 = arith.mulf %w_up_out_1, %10 : f32
// CHECK-NEXT:       %18 = arith.mulf %w_gate_out_1, %16 : f32
// CHECK-NEXT:       %19 = arith.addf %17, %18 : f32
// CHECK-NEXT:       %a_1 = arith.mulf %9, %w_up_out_1 : f32
// CHECK-NEXT:       gemm.yield %10, %16, %a_1, %19 : f32, f32, f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %d_w_down = gemm.fused transposed %d_x2_1 : tensor<?x?x4096xbf16>
// CHECK-NEXT:     columns(%a : tensor<?x?x11008xbf16>) kn
// CHECK-NEXT:       -> (tile : tensor<4096x11008xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %along_1 = gemm.finalize row (add %partial_3 : tensor<?x?x?xf32>) -> (tensor<?x?x1xf32>) {
// CHECK-NEXT:   ^bb0(%4: f32):
// CHECK-NEXT:     %5 = arith.constant 0.000244140625 : f32
// CHECK-NEXT:     %6 = arith.mulf %4, %5 : f32
// CHECK-NEXT:     gemm.yield %6 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   %d_x1, %h1, %partial_4 = gemm.fused %2 : tensor<?x?x11008xbf16> + %3 : tensor<?x?x11008xbf16>
// CHECK-NEXT:     columns(%w_up : tensor<11008x4096xbf16>) + (%w_gate : tensor<11008x4096xbf16>) kn tile(%x1 : tensor<?x?x4096xbf16>) col(%rstd : tensor<?x?x1xf32>) row(%norm1 : tensor<4096xbf16>) col(%along_1 : tensor<?x?x1xf32>) tile(%d_x2_1 : tensor<?x?x4096xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x?x4096xbf16>, tile : tensor<?x?x4096xbf16>, partial_col<add> : tensor<?x4096xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %x1_1: f32, %rstd_2: f32, %norm1_1: f32, %along_2: f32, %d_x2_2: f32):
// CHECK-NEXT:       %normed = arith.mulf %x1_1, %rstd_2 : f32
// CHECK-NEXT:       %4 = arith.mulf %acc, %normed : f32
// CHECK-NEXT:       %d_normed = arith.mulf %acc, %norm1_1 : f32
// CHECK-NEXT:       %5 = arith.mulf %normed, %along_2 : f32
// CHECK-NEXT:       %6 = arith.subf %d_normed, %5 : f32
// CHECK-NEXT:       %7 = arith.mulf %6, %rstd_2 : f32
// CHECK-NEXT:       %d_x1_1 = arith.addf %d_x2_2, %7 : f32
// CHECK-NEXT:       %h1_1 = arith.mulf %normed, %norm1_1 : f32
// CHECK-NEXT:       gemm.yield %d_x1_1, %h1_1, %4 : f32, f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %d_w_up, %d_w_gate = gemm.fused transposed %h1 : tensor<?x?x4096xbf16>
// CHECK-NEXT:     columns(%2 : tensor<?x?x11008xbf16>) kn
// CHECK-NEXT:       -> (tile_t : tensor<11008x4096xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     columns(%3 : tensor<?x?x11008xbf16>) kn
// CHECK-NEXT:       -> (tile_t : tensor<11008x4096xbf16>) {
// CHECK-NEXT:     ^bb0(%acc_1: f32):
// CHECK-NEXT:       gemm.yield %acc_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %d_norm1 = gemm.finalize col (add %partial_4 : tensor<?x4096xf32>) -> (tensor<4096xbf16>) {
// CHECK-NEXT:   ^bb0(%4: f32):
// CHECK-NEXT:     gemm.yield %4 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   %d_y = gemm.fused %d_x1 : tensor<?x?x4096xbf16>
// CHECK-NEXT:     columns(%wo : tensor<4096x4096xbf16>) kn
// CHECK-NEXT:       -> (tile : tensor<?x?x4096xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %d_wo = gemm.fused transposed %d_x1 : tensor<?x?x4096xbf16>
// CHECK-NEXT:     columns(%y : tensor<?x?x4096xbf16>) kn
// CHECK-NEXT:       -> (tile : tensor<4096x4096xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %d_y, %d_x1, %d_wo, %d_norm1, %d_w_gate, %d_w_up, %d_w_down, %d_norm2, %d_wq, %d_wk, %d_wv
// CHECK-NEXT: }

// REMARK: remark[analysis] derive-gradient: llama_layer: cos, sin are treated as constants: no gradient is derived
// REMARK: remark[analysis] save-or-recompute: coda.add: %x1 is saved for the backward; costs 8192*B*T bytes
// REMARK: remark[analysis] save-or-recompute: coda.norm_stats: %rstd is saved for the backward; costs 4*B*T bytes
// REMARK: remark[analysis] save-or-recompute: coda.linear: %w_gate_out is saved for the backward; costs 22016*B*T bytes
// REMARK: remark[analysis] save-or-recompute: coda.linear: %w_up_out is saved for the backward; costs 22016*B*T bytes
// REMARK: remark[analysis] save-or-recompute: coda.norm_stats: %rstd is saved for the backward; costs 4*B*T bytes
// REMARK: remark[analysis] save-or-recompute: func.func: llama_layer saves 5 values of 52232*B*T bytes
// REMARK: remark[missed] report-unfused: gemm.map: a pointwise kernel reads only arguments; failed condition: an operand is the tile of a GEMM; costs 41088*B*T + 512*T bytes
// REMARK: remark[missed] report-unfused: gemm.map: a pointwise kernel reads only arguments; failed condition: an operand is the tile of a GEMM; costs 24704*B*T + 512*T bytes

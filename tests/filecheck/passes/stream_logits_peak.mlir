// RUN: coda-opt %examples/lm_head_cross_entropy.coda -p "differentiate,coda-to-gemm,schedule,plan-buffers" --remarks=analysis -o /dev/null 2>&1 | filecheck %s --check-prefix STORED
// RUN: coda-opt %examples/lm_head_cross_entropy.coda -p "differentiate{stream-logits=8},coda-to-gemm,schedule,plan-buffers" --remarks=analysis -o /dev/null 2>&1 | filecheck %s --check-prefix STREAMED
// RUN: coda-opt %examples/lm_head_cross_entropy.coda -p "differentiate{stream-logits=8},coda-to-gemm" | filecheck %s --check-prefix BACKWARD

// Bytes of a row of 32000 logits: 64000 are saved and 64000 are those of the gradient, or none.

// STORED: save-or-recompute: func.func: lm_head_cross_entropy saves 4 values of 64012*B*T bytes
// STORED: lm_head_cross_entropy_backward: 4 intermediate results in 4 buffers: peak of 72196*B*T + 16384*row_tiles0 bytes

// Of the peak 8192 are h, 16384 the sum in float32, 8192 and 6656 the parts of the gradient.

// STREAMED: save-or-recompute: func.func: lm_head_cross_entropy saves 3 values of 12*B*T bytes
// STREAMED: lm_head_cross_entropy_backward: 29 intermediate results in 10 buffers: peak of 39664*B*T + 16384*row_tiles0 + 4 bytes

// Logits of a part, their gradient, the sum so far, the rows of the weight's gradient, and again.

// BACKWARD:       func.func @lm_head_cross_entropy_backward(
// BACKWARD-NOT:     x32000xbf16
// BACKWARD:         %h = gemm.map
// BACKWARD:         %d_logits, %partial = gemm.fused %h
// BACKWARD-NEXT:      columns(%w_vocab_1 : tensor<4096x4096xbf16>)
// BACKWARD:         %d_h = gemm.fused %d_logits
// BACKWARD:         %d_w_vocab = gemm.fused transposed %d_logits
// BACKWARD:         %d_logits_1, %partial_1 = gemm.fused %h
// BACKWARD:         %d_h_1 = gemm.fused %d_logits_1
// BACKWARD-NEXT:      columns(%w_vocab_2 : tensor<4096x4096xbf16>) kn tile(%d_h : tensor<?x?x4096xf32>)
// BACKWARD-NEXT:        -> (accumulate<0> : tensor<?x?x4096xf32>) {
// BACKWARD:         %d_w_vocab_1 = gemm.fused transposed %d_logits_1
// BACKWARD:         %d_logits_7, %partial_7 = gemm.fused %h
// BACKWARD-NEXT:      columns(%w_vocab_8 : tensor<3328x4096xbf16>)
// BACKWARD:         %d_x, %partial_8 = gemm.fused %d_logits_7
// BACKWARD:         %d_w_vocab_7 = gemm.fused transposed %d_logits_7
// BACKWARD:         %d_w_vocab_8 = coda.concat

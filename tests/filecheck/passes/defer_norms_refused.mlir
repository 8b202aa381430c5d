// RUN: coda-opt %s -p defer-norms --split-input-file | filecheck %s
// RUN: coda-opt %s -p defer-norms --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// The statistics of an argument are not free.

func.func @argument(%x: tensor<?x8xbf16>, %g: tensor<8xbf16>, %w: tensor<16x8xbf16>) -> tensor<?x16xbf16> {
  %h = coda.rms_norm %x, %g {eps = 1.0e-6 : f64} : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %z = coda.linear %h, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  func.return %z : tensor<?x16xbf16>
}

// REMARK: remark[missed] defer-norms: coda.rms_norm: the norm runs as a separate kernel: %x is an argument of the function; failed condition: a GEMM or pointwise code in the same function computes the norm's input; costs 32*d0 + 16 bytes
// REMARK: help: compute the norm's input in the same function
// CHECK:      func.func @argument(
// CHECK-NEXT:   %h = coda.rms_norm %x, %g {eps = 1.000000e-06 : f64} : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %z = coda.linear %h, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %z : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// Nor are those of an operator that is no kernel over tiles.

func.func @selected(%ids: tensor<?xi64>, %e: tensor<50x8xbf16>, %g: tensor<8xbf16>, %w: tensor<16x8xbf16>) -> tensor<?x16xbf16> {
  %x = coda.index %e, %ids {dim = 0 : i64} : (tensor<50x8xbf16>, tensor<?xi64>) -> tensor<?x8xbf16>
  %h = coda.rms_norm %x, %g {eps = 1.0e-6 : f64} : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %z = coda.linear %h, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  func.return %z : tensor<?x16xbf16>
}

// REMARK: remark[missed] defer-norms: coda.rms_norm: the norm runs as a separate kernel: %x comes from coda.index, which no GEMM computes; failed condition: a GEMM or pointwise code in the same function computes the norm's input; costs 32*d0 + 16 bytes
// CHECK:      func.func @selected(
// CHECK-NEXT:   %x = coda.index %e, %ids {dim = 0 : i64} : (tensor<50x8xbf16>, tensor<?xi64>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %h = coda.rms_norm %x, %g {eps = 1.000000e-06 : f64} : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %z = coda.linear %h, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %z : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// Rows that are looked up: a norm that is stored anyway stays whole.

func.func @embedding(%ids: tensor<?xi64>, %e: tensor<50x8xbf16>, %g: tensor<8xbf16>) -> tensor<?x8xbf16> {
  %x = coda.embedding %ids, %e : (tensor<?xi64>, tensor<50x8xbf16>) -> tensor<?x8xbf16>
  %h = coda.rms_norm %x, %g {eps = 1.0e-6 : f64} : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  func.return %h : tensor<?x8xbf16>
}

// REMARK: remark[missed] defer-norms: coda.rms_norm: the norm is not deferred: it is returned, so the norm must be stored; failed condition: every consumer of the norm is a GEMM;
// CHECK:      func.func @embedding(
// CHECK-NEXT:   %x = coda.embedding %ids, %e : (tensor<?xi64>, tensor<50x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %h = coda.rms_norm %x, %g {eps = 1.000000e-06 : f64} : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   func.return %h : tensor<?x8xbf16>
// CHECK-NEXT: }

// -----

// In float32, but rounded to float16, whose range x times the weight may leave; or read in float32 as well.

func.func @rounded_to_f16(%x: tensor<?x4xf16>, %v: tensor<8x4xf16>, %g: tensor<8xf32>, %w: tensor<16x8xf16>) -> tensor<?x16xf16> {
  %s = coda.linear %x, %v : (tensor<?x4xf16>, tensor<8x4xf16>) -> tensor<?x8xf32>
  %h = coda.rms_norm %s, %g {eps = 1.0e-5 : f64} : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  %r = coda.cast %h : (tensor<?x8xf32>) -> tensor<?x8xf16>
  %z = coda.linear %r, %w : (tensor<?x8xf16>, tensor<16x8xf16>) -> tensor<?x16xf16>
  func.return %z : tensor<?x16xf16>
}

// REMARK: remark[missed] defer-norms: coda.rms_norm: the norm is not deferred: its input times its weight may overflow float16; failed condition: the element type has the range of float32
// CHECK-LABEL: func.func @rounded_to_f16(
// CHECK:         %r = coda.cast {{.*}} -> tensor<?x8xf16>
// CHECK-NEXT:    %z = coda.linear %r, %w : (tensor<?x8xf16>, tensor<16x8xf16>) -> tensor<?x16xf16>

// -----

func.func @rounded_and_not(%x: tensor<?x4xbf16>, %v: tensor<8x4xbf16>, %g: tensor<8xf32>, %w: tensor<16x8xbf16>) -> (tensor<?x16xbf16>, tensor<?x8xf32>) {
  %s = coda.linear %x, %v : (tensor<?x4xbf16>, tensor<8x4xbf16>) -> tensor<?x8xf32>
  %h = coda.rms_norm %s, %g {eps = 1.0e-5 : f64} : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  %r = coda.cast %h : (tensor<?x8xf32>) -> tensor<?x8xbf16>
  %z = coda.linear %r, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  func.return %z, %h : tensor<?x16xbf16>, tensor<?x8xf32>
}

// REMARK: remark[missed] defer-norms: coda.rms_norm: the norm is not deferred: coda.cast uses it, so the norm must be stored; failed condition: every consumer of the norm is a GEMM
// CHECK-LABEL: func.func @rounded_and_not(
// CHECK:         %r = coda.cast %h : (tensor<?x8xf32>) -> tensor<?x8xbf16>
// CHECK-NEXT:    %z = coda.linear %r, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>

// -----

// Something non-linear stands between the norm and the GEMM: only split.

func.func @non_linear(%x: tensor<?x4xbf16>, %v: tensor<8x4xbf16>, %w: tensor<16x8xbf16>) -> tensor<?x16xbf16> {
  %s = coda.linear %x, %v : (tensor<?x4xbf16>, tensor<8x4xbf16>) -> tensor<?x8xbf16>
  %h = coda.rms_norm %s {eps = 1.0e-6 : f64} : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %a = coda.silu %h : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %z = coda.linear %a, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  func.return %z : tensor<?x16xbf16>
}

// REMARK: remark[missed] defer-norms: coda.rms_norm: the norm is not deferred: coda.silu uses it, so the norm must be stored; failed condition: every consumer of the norm is a GEMM; costs 32*d0 bytes
// REMARK: help: use it only as the input of linear or @; for other code, such as a residual, the GEMM before it normalizes rows of at most 128 columns, and one kernel after that GEMM wider ones
// CHECK:      func.func @non_linear(
// CHECK-NEXT:   %s = coda.linear %x, %v : (tensor<?x4xbf16>, tensor<8x4xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %rstd = coda.norm_stats %s {kind = "rms", eps = 1.000000e-06 : f64} : (tensor<?x8xbf16>) -> tensor<?x1xf32>
// CHECK-NEXT:   %s_1 = coda.cast %s : (tensor<?x8xbf16>) -> tensor<?x8xf32>
// CHECK-NEXT:   %0 = coda.mul %s_1, %rstd : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %h = coda.cast %0 : (tensor<?x8xf32>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %a = coda.silu %h : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %z = coda.linear %a, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %z : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// The norm is the weight of the GEMM, whose rows its scale does not run along: only split.

func.func @weight(%x: tensor<8x8xf32>, %v: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %s = coda.exp %v : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %h = coda.rms_norm %s {eps = 1.0e-6 : f64} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %z = coda.linear %x, %h : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  func.return %z : tensor<8x8xf32>
}

// REMARK: remark[missed] defer-norms: coda.rms_norm: the norm is not deferred: coda.linear uses it, so the norm must be stored; failed condition: every consumer of the norm is a GEMM; costs 512 bytes
// REMARK: help: use the norm only as the input of linear or @
// CHECK:      func.func @weight(
// CHECK-NEXT:   %s = coda.exp %v : (tensor<8x8xf32>) -> tensor<8x8xf32>
// CHECK-NEXT:   %rstd = coda.norm_stats %s {kind = "rms", eps = 1.000000e-06 : f64} : (tensor<8x8xf32>) -> tensor<8x1xf32>
// CHECK-NEXT:   %h = coda.mul %s, %rstd : (tensor<8x8xf32>, tensor<8x1xf32>) -> tensor<8x8xf32>
// CHECK-NEXT:   %z = coda.linear %x, %h : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
// CHECK-NEXT:   func.return %z : tensor<8x8xf32>
// CHECK-NEXT: }

// -----

// A norm of groups of columns is the business of fuse-qk-norm: no remark.

func.func @groups(%x: tensor<?x4xbf16>, %v: tensor<8x4xbf16>, %w: tensor<16x8xbf16>) -> tensor<?x16xbf16> {
  %s = coda.linear %x, %v : (tensor<?x4xbf16>, tensor<8x4xbf16>) -> tensor<?x8xbf16>
  %h = coda.rms_norm %s {eps = 1.0e-6 : f64, group = 4 : i64} : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %z = coda.linear %h, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  func.return %z : tensor<?x16xbf16>
}

// CHECK:      func.func @groups(
// CHECK-NEXT:   %s = coda.linear %x, %v : (tensor<?x4xbf16>, tensor<8x4xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %h = coda.rms_norm %s {eps = 1.000000e-06 : f64, group = 4 : i64} : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %z = coda.linear %h, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %z : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// The scaled input may leave the range of float16: only split.

func.func @float16(%x: tensor<?x8xf16>, %g: tensor<8xf16>, %w: tensor<16x8xf16>) -> tensor<?x16xf16> {
  %s = coda.silu %x : (tensor<?x8xf16>) -> tensor<?x8xf16>
  %h = coda.rms_norm %s, %g {eps = 1.0e-6 : f64} : (tensor<?x8xf16>, tensor<8xf16>) -> tensor<?x8xf16>
  %z = coda.linear %h, %w : (tensor<?x8xf16>, tensor<16x8xf16>) -> tensor<?x16xf16>
  func.return %z : tensor<?x16xf16>
}

// REMARK: remark[missed] defer-norms: coda.rms_norm: the norm is not deferred: its input times its weight may overflow float16; failed condition: the element type has the range of float32; costs 32*d0 + 16 bytes
// REMARK: help: use bf16 or f32
// CHECK:      func.func @float16(
// CHECK-NEXT:   %s = coda.silu %x
// CHECK-NEXT:   %rstd = coda.norm_stats %s {kind = "rms", eps = 1.000000e-06 : f64} : (tensor<?x8xf16>) -> tensor<?x1xf32>
// CHECK-NEXT:   coda.cast %s
// CHECK:        %z = coda.linear %h, %w : (tensor<?x8xf16>, tensor<16x8xf16>) -> tensor<?x16xf16>

// -----

// A rotation whose tables are the norm, a residual that no GEMM joins: only split.

func.func @other_uses(%x: tensor<4x4xf32>, %v: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> (tensor<4x8xf32>, tensor<4x4xf32>) {
  %s = coda.linear %x, %v : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %h = coda.rms_norm %s {eps = 1.0e-6 : f64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %q = coda.concat %x, %s {dim = 1 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x8xf32>
  %y = coda.rope %q, %h, %h {head_dim = 8 : i64, layout = "half_split"} : (tensor<4x8xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x8xf32>
  %t = coda.rms_norm %s {eps = 1.0e-2 : f64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %z = coda.linear %t, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %a = coda.add %x, %t : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %b = coda.mul %a, %z : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  func.return %y, %b : tensor<4x8xf32>, tensor<4x4xf32>
}

// REMARK: remark[missed] defer-norms: coda.rms_norm: the norm is not deferred: coda.rope uses it, so the norm must be stored; failed condition: every consumer of the norm is a GEMM
// REMARK: remark[missed] defer-norms: coda.rms_norm: the norm is not deferred: coda.add uses it, so the norm must be stored; failed condition: every consumer of the norm is a GEMM
// CHECK:      func.func @other_uses(
// CHECK:        %h = coda.mul %s, %rstd
// CHECK:        %t = coda.mul %s, %rstd_1
// CHECK-NEXT:   %z = coda.linear %t, %w

// -----

// An epilogue reads the norm, a GEMM sums over its rows, and one adds another product.

func.func @in_epilogues(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
  %s = coda.linear %x, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %h = coda.rms_norm %s {eps = 1.0e-6 : f64} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %z = gemm.fused %h : tensor<8x8xf32> columns(%w : tensor<8x8xf32>) tile(%h : tensor<8x8xf32>) -> (tile : tensor<8x8xf32>) {
  ^bb0(%acc: f32, %h_1: f32):
    %p = arith.mulf %acc, %h_1 : f32
    gemm.yield %p : f32
  }
  %k = coda.rms_norm %s {eps = 1.0e-5 : f64} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %d = gemm.fused transposed %k : tensor<8x8xf32> columns(%x : tensor<8x8xf32>) kn -> (tile : tensor<8x8xf32>) {
  ^bb0(%acc: f32):
    gemm.yield %acc : f32
  }
  %l = coda.rms_norm %s {eps = 1.0e-4 : f64} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %t = gemm.fused %l : tensor<8x8xf32> + %x : tensor<8x8xf32> columns(%w : tensor<8x8xf32>) + (%w : tensor<8x8xf32>) -> (tile : tensor<8x8xf32>) {
  ^bb0(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return %z, %d, %t : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}

// REMARK: remark[missed] defer-norms: coda.rms_norm: the norm is not deferred: an epilogue reads it, so the norm must be stored; failed condition: every consumer of the norm is a GEMM of its rows alone; costs 512 bytes
// REMARK: help: use the norm only as the input of linear or @
// REMARK: remark[missed] defer-norms: coda.rms_norm: the norm is not deferred: a GEMM sums over its rows, so the norm must be stored; failed condition: every consumer of the norm is a GEMM of its rows alone; costs 512 bytes
// REMARK: help: use the norm only as the input of linear or @
// REMARK: remark[missed] defer-norms: coda.rms_norm: the norm is not deferred: a GEMM adds its product to another one, so the norm must be stored; failed condition: every consumer of the norm is a GEMM of its rows alone; costs 512 bytes
// REMARK: help: use the norm only as the input of linear or @
// CHECK:      func.func @in_epilogues(
// CHECK-NEXT:   %s = coda.linear %x, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
// CHECK-NEXT:   %rstd = coda.norm_stats %s {kind = "rms", eps = 1.000000e-06 : f64} : (tensor<8x8xf32>) -> tensor<8x1xf32>
// CHECK-NEXT:   %h = coda.mul %s, %rstd : (tensor<8x8xf32>, tensor<8x1xf32>) -> tensor<8x8xf32>
// CHECK-NEXT:   %z = gemm.fused %h : tensor<8x8xf32>
// CHECK-NEXT:     columns(%w : tensor<8x8xf32>) tile(%h : tensor<8x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<8x8xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %h_1: f32):
// CHECK-NEXT:       %p = arith.mulf %acc, %h_1 : f32
// CHECK-NEXT:       gemm.yield %p : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %rstd_1 = coda.norm_stats %s {kind = "rms", eps = 1.000000e-05 : f64} : (tensor<8x8xf32>) -> tensor<8x1xf32>
// CHECK-NEXT:   %k = coda.mul %s, %rstd_1 : (tensor<8x8xf32>, tensor<8x1xf32>) -> tensor<8x8xf32>
// CHECK-NEXT:   %d = gemm.fused transposed %k : tensor<8x8xf32>
// CHECK-NEXT:     columns(%x : tensor<8x8xf32>) kn
// CHECK-NEXT:       -> (tile : tensor<8x8xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %rstd_2 = coda.norm_stats %s {kind = "rms", eps = 1.000000e-04 : f64} : (tensor<8x8xf32>) -> tensor<8x1xf32>
// CHECK-NEXT:   %l = coda.mul %s, %rstd_2 : (tensor<8x8xf32>, tensor<8x1xf32>) -> tensor<8x8xf32>
// CHECK-NEXT:   %t = gemm.fused %l : tensor<8x8xf32> + %x : tensor<8x8xf32>
// CHECK-NEXT:     columns(%w : tensor<8x8xf32>) + (%w : tensor<8x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<8x8xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %z, %d, %t : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
// CHECK-NEXT: }

// -----

// Experts select rows, with a weight for each: only split, and nothing to change.

func.func @experts(%x: tensor<?x4xbf16>, %v: tensor<8x4xbf16>, %ids: tensor<?xi64>, %w: tensor<4x16x8xbf16>, %e: tensor<4xi32>) -> tensor<?x16xbf16> {
  %s = coda.linear %x, %v : (tensor<?x4xbf16>, tensor<8x4xbf16>) -> tensor<?x8xbf16>
  %h = coda.rms_norm %s {eps = 1.0e-6 : f64} : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %r = coda.index %h, %ids {dim = 0 : i64} : (tensor<?x8xbf16>, tensor<?xi64>) -> tensor<?x8xbf16>
  %z = coda.grouped_linear %r, %w, %e : (tensor<?x8xbf16>, tensor<4x16x8xbf16>, tensor<4xi32>) -> tensor<?x16xbf16>
  func.return %z : tensor<?x16xbf16>
}

// REMARK: remark[missed] defer-norms: coda.rms_norm: the norm is not deferred: a grouped GEMM (of experts) reads its rows, so the norm must be stored; failed condition: every consumer of the norm is a GEMM, not a grouped one; costs 32*d0 bytes
// REMARK: help: no action is needed: the rows for the experts are gathered from the stored norm
// CHECK:      func.func @experts(
// CHECK-NEXT:   %s = coda.linear %x, %v : (tensor<?x4xbf16>, tensor<8x4xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %rstd = coda.norm_stats %s {kind = "rms", eps = 1.000000e-06 : f64} : (tensor<?x8xbf16>) -> tensor<?x1xf32>
// CHECK-NEXT:   %s_1 = coda.cast %s : (tensor<?x8xbf16>) -> tensor<?x8xf32>
// CHECK-NEXT:   %0 = coda.mul %s_1, %rstd : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %h = coda.cast %0 : (tensor<?x8xf32>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %r = coda.index %h, %ids {dim = 0 : i64} : (tensor<?x8xbf16>, tensor<?xi64>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %z = coda.grouped_linear %r, %w, %e : (tensor<?x8xbf16>, tensor<4x16x8xbf16>, tensor<4xi32>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %z : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// The rows are reshaped before the GEMM: only split.

func.func @reshaped(%x: tensor<6x4xbf16>, %v: tensor<8x4xbf16>, %w: tensor<16x8xbf16>) -> tensor<2x3x16xbf16> {
  %s = coda.linear %x, %v : (tensor<6x4xbf16>, tensor<8x4xbf16>) -> tensor<6x8xbf16>
  %h = coda.rms_norm %s {eps = 1.0e-6 : f64} : (tensor<6x8xbf16>) -> tensor<6x8xbf16>
  %r = coda.reshape %h : (tensor<6x8xbf16>) -> tensor<2x3x8xbf16>
  %z = coda.linear %r, %w : (tensor<2x3x8xbf16>, tensor<16x8xbf16>) -> tensor<2x3x16xbf16>
  func.return %z : tensor<2x3x16xbf16>
}

// REMARK: remark[missed] defer-norms: coda.rms_norm: the norm is not deferred: coda.reshape uses it before a GEMM, so the norm must be stored; failed condition: every consumer of the norm is a GEMM; costs 192 bytes
// REMARK: help: reshape after the linear
// CHECK:      func.func @reshaped(
// CHECK-NEXT:   %s = coda.linear %x, %v : (tensor<6x4xbf16>, tensor<8x4xbf16>) -> tensor<6x8xbf16>
// CHECK-NEXT:   %rstd = coda.norm_stats %s {kind = "rms", eps = 1.000000e-06 : f64} : (tensor<6x8xbf16>) -> tensor<6x1xf32>
// CHECK-NEXT:   %s_1 = coda.cast %s : (tensor<6x8xbf16>) -> tensor<6x8xf32>
// CHECK-NEXT:   %0 = coda.mul %s_1, %rstd : (tensor<6x8xf32>, tensor<6x1xf32>) -> tensor<6x8xf32>
// CHECK-NEXT:   %h = coda.cast %0 : (tensor<6x8xf32>) -> tensor<6x8xbf16>
// CHECK-NEXT:   %r = coda.reshape %h : (tensor<6x8xbf16>) -> tensor<2x3x8xbf16>
// CHECK-NEXT:   %z = coda.linear %r, %w : (tensor<2x3x8xbf16>, tensor<16x8xbf16>) -> tensor<2x3x16xbf16>
// CHECK-NEXT:   func.return %z : tensor<2x3x16xbf16>
// CHECK-NEXT: }

// -----

// The products of rows without elements are 0, and the factor is not a number.

func.func @no_columns(%x: tensor<?x4xbf16>, %w: tensor<0x4xbf16>, %v: tensor<4x0xbf16>) -> tensor<?x4xbf16> {
  %z = coda.linear %x, %w : (tensor<?x4xbf16>, tensor<0x4xbf16>) -> tensor<?x0xbf16>
  %s = coda.silu %z : (tensor<?x0xbf16>) -> tensor<?x0xbf16>
  %n = coda.rms_norm %s {eps = 1.0e-06 : f64} : (tensor<?x0xbf16>) -> tensor<?x0xbf16>
  %y = coda.linear %n, %v : (tensor<?x0xbf16>, tensor<4x0xbf16>) -> tensor<?x4xbf16>
  func.return %y : tensor<?x4xbf16>
}

// REMARK: remark[missed] defer-norms: coda.rms_norm: the norm is not deferred: its rows have no elements; failed condition: no operand is empty; costs 0 bytes
// CHECK:      func.func @no_columns(%x: tensor<?x4xbf16>, %w: tensor<0x4xbf16>, %v: tensor<4x0xbf16>) -> tensor<?x4xbf16> {
// CHECK-NEXT:   %z = coda.linear %x, %w : (tensor<?x4xbf16>, tensor<0x4xbf16>) -> tensor<?x0xbf16>
// CHECK-NEXT:   %s = coda.silu %z : (tensor<?x0xbf16>) -> tensor<?x0xbf16>
// CHECK-NEXT:   %rstd = coda.norm_stats %s {kind = "rms", eps = 1.000000e-06 : f64} : (tensor<?x0xbf16>) -> tensor<?x1xf32>
// CHECK-NEXT:   %s_1 = coda.cast %s : (tensor<?x0xbf16>) -> tensor<?x0xf32>
// CHECK-NEXT:   %0 = coda.mul %s_1, %rstd : (tensor<?x0xf32>, tensor<?x1xf32>) -> tensor<?x0xf32>
// CHECK-NEXT:   %n = coda.cast %0 : (tensor<?x0xf32>) -> tensor<?x0xbf16>
// CHECK-NEXT:   %y = coda.linear %n, %v : (tensor<?x0xbf16>, tensor<4x0xbf16>) -> tensor<?x4xbf16>
// CHECK-NEXT:   func.return %y : tensor<?x4xbf16>
// CHECK-NEXT: }

// RUN: coda-opt %s -p defer-layer-norm --split-input-file | filecheck %s

// r·((x ⊙ w)·W) − (r·mu)·(W·w) + W·beta + b: the order of the subtraction matters.

func.func @linear(%x: tensor<?x8xbf16>, %y: tensor<?x8xbf16>, %g: tensor<8xbf16>, %beta: tensor<8xbf16>, %w: tensor<16x8xbf16>, %b: tensor<16xbf16>) -> tensor<?x16xbf16> {
  %s = coda.add %x, %y : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %h = coda.layer_norm %s, %g, %beta {eps = 1.0e-5 : f64} : (tensor<?x8xbf16>, tensor<8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %z = coda.linear %h, %w, %b : (tensor<?x8xbf16>, tensor<16x8xbf16>, tensor<16xbf16>) -> tensor<?x16xbf16>
  func.return %z : tensor<?x16xbf16>
}

// CHECK:      func.func @linear(
// CHECK-NEXT:   %s = coda.add %x, %y : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %s_scaled = coda.mul %s, %g : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %rstd, %mean = coda.norm_stats %s {kind = "layer", eps = 1.000000e-05 : f64} : (tensor<?x8xbf16>) -> (tensor<?x1xf32>, tensor<?x1xf32>)
// CHECK-NEXT:   %shift = coda.mul %rstd, %mean : (tensor<?x1xf32>, tensor<?x1xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %0 = coda.linear %s_scaled, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xf32>
// CHECK-NEXT:   %1 = coda.mul %0, %rstd : (tensor<?x16xf32>, tensor<?x1xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %g_1 = gemm.pack_weight nk %w, %g : (tensor<16x8xbf16>, tensor<8xbf16>) -> tensor<16xf32>
// CHECK-NEXT:   %2 = coda.mul %shift, %g_1 : (tensor<?x1xf32>, tensor<16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %3 = coda.sub %1, %2 : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %beta_1 = gemm.pack_weight nk %w, %beta : (tensor<16x8xbf16>, tensor<8xbf16>) -> tensor<16xf32>
// CHECK-NEXT:   %4 = coda.add %3, %beta_1 : (tensor<?x16xf32>, tensor<16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %b_1 = coda.cast %b : (tensor<16xbf16>) -> tensor<16xf32>
// CHECK-NEXT:   %5 = coda.add %4, %b_1 : (tensor<?x16xf32>, tensor<16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %z = coda.cast %5 : (tensor<?x16xf32>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %z : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// Two consumers share the statistics; without beta only W·w is subtracted; K x N weights are
// packed as such.

func.func @matmul(%x: tensor<?x8xbf16>, %g: tensor<8xbf16>, %w: tensor<8x16xbf16>, %v: tensor<8x4xbf16>) -> (tensor<?x16xbf16>, tensor<?x4xbf16>) {
  %s = coda.silu %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %h = coda.layer_norm %s, %g {eps = 1.0e-5 : f64} : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %z = coda.matmul %h, %w : (tensor<?x8xbf16>, tensor<8x16xbf16>) -> tensor<?x16xbf16>
  %t = coda.matmul %h, %v : (tensor<?x8xbf16>, tensor<8x4xbf16>) -> tensor<?x4xbf16>
  func.return %z, %t : tensor<?x16xbf16>, tensor<?x4xbf16>
}

// CHECK:      func.func @matmul(
// CHECK-NEXT:   %s = coda.silu %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %s_scaled = coda.mul %s, %g : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %rstd, %mean = coda.norm_stats %s {kind = "layer", eps = 1.000000e-05 : f64} : (tensor<?x8xbf16>) -> (tensor<?x1xf32>, tensor<?x1xf32>)
// CHECK-NEXT:   %shift = coda.mul %rstd, %mean : (tensor<?x1xf32>, tensor<?x1xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %0 = coda.matmul %s_scaled, %w : (tensor<?x8xbf16>, tensor<8x16xbf16>) -> tensor<?x16xf32>
// CHECK-NEXT:   %1 = coda.mul %0, %rstd : (tensor<?x16xf32>, tensor<?x1xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %g_1 = gemm.pack_weight kn %w, %g : (tensor<8x16xbf16>, tensor<8xbf16>) -> tensor<16xf32>
// CHECK-NEXT:   %2 = coda.mul %shift, %g_1 : (tensor<?x1xf32>, tensor<16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %3 = coda.sub %1, %2 : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %z = coda.cast %3 : (tensor<?x16xf32>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %4 = coda.matmul %s_scaled, %v : (tensor<?x8xbf16>, tensor<8x4xbf16>) -> tensor<?x4xf32>
// CHECK-NEXT:   %5 = coda.mul %4, %rstd : (tensor<?x4xf32>, tensor<?x1xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   %g_2 = gemm.pack_weight kn %v, %g : (tensor<8x4xbf16>, tensor<8xbf16>) -> tensor<4xf32>
// CHECK-NEXT:   %6 = coda.mul %shift, %g_2 : (tensor<?x1xf32>, tensor<4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   %7 = coda.sub %5, %6 : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   %t = coda.cast %7 : (tensor<?x4xf32>) -> tensor<?x4xbf16>
// CHECK-NEXT:   func.return %z, %t : tensor<?x16xbf16>, tensor<?x4xbf16>
// CHECK-NEXT: }

// -----

// A norm that something else uses too is split into its statistics and pointwise operators.

func.func @returned_too(%x: tensor<?x8xbf16>, %g: tensor<8xbf16>, %beta: tensor<8xbf16>, %w: tensor<16x8xbf16>) -> (tensor<?x16xbf16>, tensor<?x8xbf16>) {
  %s = coda.silu %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %h = coda.layer_norm %s, %g, %beta {eps = 1.0e-5 : f64} : (tensor<?x8xbf16>, tensor<8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %z = coda.linear %h, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  func.return %z, %h : tensor<?x16xbf16>, tensor<?x8xbf16>
}

// CHECK:      func.func @returned_too(
// CHECK-NEXT:   %s = coda.silu %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %rstd, %mean = coda.norm_stats %s {kind = "layer", eps = 1.000000e-05 : f64} : (tensor<?x8xbf16>) -> (tensor<?x1xf32>, tensor<?x1xf32>)
// CHECK-NEXT:   %s_1 = coda.cast %s : (tensor<?x8xbf16>) -> tensor<?x8xf32>
// CHECK-NEXT:   %0 = coda.sub %s_1, %mean : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %1 = coda.mul %0, %rstd : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %g_1 = coda.cast %g : (tensor<8xbf16>) -> tensor<8xf32>
// CHECK-NEXT:   %2 = coda.mul %1, %g_1 : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %beta_1 = coda.cast %beta : (tensor<8xbf16>) -> tensor<8xf32>
// CHECK-NEXT:   %3 = coda.add %2, %beta_1 : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %h = coda.cast %3 : (tensor<?x8xf32>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %z = coda.linear %h, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %z, %h : tensor<?x16xbf16>, tensor<?x8xbf16>
// CHECK-NEXT: }

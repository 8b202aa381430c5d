// RUN: coda-opt %s -p coda-to-gemm | filecheck %s

// The feed-forward half of a BERT layer: the norm comes after the residual, and is the residual of
// the next. No pointwise kernel stands between the GEMMs: the second one normalizes again.

func.func @layer(%x: tensor<?x8xbf16>, %r: tensor<?x8xbf16>, %wo: tensor<8x8xbf16>, %g: tensor<8xbf16>, %b: tensor<8xbf16>, %w1: tensor<16x8xbf16>, %b1: tensor<16xbf16>, %w2: tensor<8x16xbf16>, %b2: tensor<8xbf16>) -> tensor<?x8xbf16> {
  %o = coda.linear %x, %wo : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  %s = coda.add %o, %r : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %h = coda.layer_norm %s, %g, %b {eps = 1.0e-12 : f64} : (tensor<?x8xbf16>, tensor<8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %u = coda.linear %h, %w1, %b1 : (tensor<?x8xbf16>, tensor<16x8xbf16>, tensor<16xbf16>) -> tensor<?x16xbf16>
  %a = coda.gelu %u : (tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %d = coda.linear %a, %w2, %b2 : (tensor<?x16xbf16>, tensor<8x16xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %y = coda.add %d, %h : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  func.return %y : tensor<?x8xbf16>
}

// CHECK:      func.func @layer(
// CHECK-NEXT:   %s, %s_scaled, %partial, %partial_1 = gemm.fused %x
// CHECK:        %rstd, %mean, %shift = gemm.finalize row
// CHECK-NOT:    gemm.map
// CHECK:        %a = gemm.fused %s_scaled
// CHECK-NOT:    gemm.map
// CHECK:        %y = gemm.fused %a
// CHECK-NEXT:     columns(%w2 : tensor<8x16xbf16>) row(%b2 : tensor<8xbf16>) tile(%s : tensor<?x8xbf16>) col(%mean : tensor<?x1xf32>, %rstd : tensor<?x1xf32>) row(%g : tensor<8xbf16>, %b : tensor<8xbf16>)
// CHECK-NOT:    gemm.map
// CHECK:        func.return %y

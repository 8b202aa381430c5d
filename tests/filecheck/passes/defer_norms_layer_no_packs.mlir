// RUN: coda-opt %s -p "defer-norms{pack-weights=false}" | filecheck %s
// RUN: coda-opt %s -p "defer-norms{pack-weights=false}" --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// Nothing may be computed from weights ahead of time: only split.

func.func @linear(%x: tensor<?x8xbf16>, %g: tensor<8xbf16>, %w: tensor<16x8xbf16>) -> tensor<?x16xbf16> {
  %s = coda.silu %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %h = coda.layer_norm %s, %g {eps = 1.0e-5 : f64} : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %z = coda.linear %h, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  func.return %z : tensor<?x16xbf16>
}

// REMARK: remark[missed] defer-norms: coda.layer_norm: the norm is not deferred: the column sums of its GEMMs would have to be kept between calls; failed condition: vectors may be precomputed from weights; costs 32*d0 + 16 bytes
// REMARK: help: allow pack-weights if weights change only in ways that PyTorch tracks
// CHECK:      %s = coda.silu %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT: %rstd, %mean = coda.norm_stats %s {kind = "layer", eps = 1.000000e-05 : f64} : (tensor<?x8xbf16>) -> (tensor<?x1xf32>, tensor<?x1xf32>)
// CHECK-NEXT: %s_1 = coda.cast %s : (tensor<?x8xbf16>) -> tensor<?x8xf32>
// CHECK-NEXT: %0 = coda.sub %s_1, %mean : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
// CHECK-NEXT: %1 = coda.mul %0, %rstd : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
// CHECK-NEXT: %g_1 = coda.cast %g : (tensor<8xbf16>) -> tensor<8xf32>
// CHECK-NEXT: %2 = coda.mul %1, %g_1 : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT: %h = coda.cast %2 : (tensor<?x8xf32>) -> tensor<?x8xbf16>
// CHECK-NEXT: %z = coda.linear %h, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT: func.return %z : tensor<?x16xbf16>

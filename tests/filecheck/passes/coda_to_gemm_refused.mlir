// RUN: coda-opt %s -p coda-to-gemm --split-input-file | filecheck %s
// RUN: coda-opt %s -p coda-to-gemm --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// What stays, stays as it is, with one remark each: the norm of an argument, attention.

func.func @attention(%x: tensor<?x8xbf16>, %g: tensor<8xbf16>, %w: tensor<24x8xbf16>) -> tensor<?x8xbf16> {
  %h = coda.rms_norm %x, %g {eps = 1.0e-6 : f64} : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %z = coda.linear %h, %w : (tensor<?x8xbf16>, tensor<24x8xbf16>) -> tensor<?x24xbf16>
  %q = coda.slice %z {dim = 1 : i64, start = 0 : i64, stop = 8 : i64} : (tensor<?x24xbf16>) -> tensor<?x8xbf16>
  %k = coda.slice %z {dim = 1 : i64, start = 8 : i64, stop = 16 : i64} : (tensor<?x24xbf16>) -> tensor<?x8xbf16>
  %v = coda.slice %z {dim = 1 : i64, start = 16 : i64, stop = 24 : i64} : (tensor<?x24xbf16>) -> tensor<?x8xbf16>
  %o = coda.attention %q, %k, %v {head_dim = 4 : i64, causal = true} : (tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  func.return %o : tensor<?x8xbf16>
}

// REMARK: remark[missed] defer-norms: coda.rms_norm: the norm runs as a separate kernel: %x is an argument of the function; failed condition: a GEMM or pointwise code in the same function computes the norm's input; costs 32*d0 + 16 bytes
// REMARK: help: compute the norm's input in the same function
// REMARK: remark[missed] report-unfused: coda.attention: runs as PyTorch's scaled dot-product attention; failed condition: a row does not depend on other rows of the sequence; costs 64*d0 bytes
// CHECK:      func.func @attention(
// CHECK-NEXT:   %h = coda.rms_norm %x, %g {eps = 1.000000e-06 : f64} : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %z = gemm.fused %h : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<24x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x24xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %q = coda.slice %z {dim = 1 : i64, start = 0 : i64, stop = 8 : i64} : (tensor<?x24xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %k = coda.slice %z {dim = 1 : i64, start = 8 : i64, stop = 16 : i64} : (tensor<?x24xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %v = coda.slice %z {dim = 1 : i64, start = 16 : i64, stop = 24 : i64} : (tensor<?x24xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %o = coda.attention %q, %k, %v {head_dim = 4 : i64, causal = true} : (tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   func.return %o : tensor<?x8xbf16>
// CHECK-NEXT: }

// -----

// A mean over a symbolic number of columns is refused once, although the pass runs twice.

func.func @mean(%x: tensor<?x8xf32>, %w: tensor<?x8xf32>) -> tensor<?x1xf32> {
  %z = coda.linear %x, %w : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x?xf32>
  %m = coda.reduce %z {kind = "mean"} : (tensor<?x?xf32>) -> tensor<?x1xf32>
  func.return %m : tensor<?x1xf32>
}

// REMARK: remark[missed] split-reductions: coda.reduce: the reduction runs as a separate kernel: %z has a symbolic number of columns; failed condition: the number of columns is static; costs 4*d0*d1 + 4*d0 bytes
// REMARK: help: give the last dimension as a number or a const
// CHECK:      func.func @mean(
// CHECK-NEXT:   %z = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<?x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x?xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %m = coda.reduce %z {kind = "mean"} : (tensor<?x?xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   func.return %m : tensor<?x1xf32>
// CHECK-NEXT: }

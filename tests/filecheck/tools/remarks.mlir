// RUN: coda-opt %s -p coda-to-gemm --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix MISSED
// RUN: coda-opt %s -p coda-to-gemm --remarks 2>&1 | filecheck %s --check-prefixes MISSED,PASSED
// RUN: coda-opt %s -p coda-to-gemm 2>&1 | filecheck %s --check-prefix NONE

// A norm of an argument has no GEMM before it that could make its statistics.

// MISSED: remark[missed] defer-norms: coda.rms_norm: {{.*}}; failed condition: {{.*}}; costs 64*M bytes
// PASSED: remark[passed] fuse-pointwise: coda.silu: fused into the epilogue of the GEMM
// NONE-NOT: remark
// NONE: gemm.fused
func.func @f(%x: tensor<?x16xbf16> {coda.dims = ["M", 16]}, %w: tensor<8x16xbf16>)
    -> tensor<?x8xbf16> {
  %h = coda.rms_norm %x {eps = 1.0e-6 : f64} : (tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %a = coda.linear %h, %w : (tensor<?x16xbf16>, tensor<8x16xbf16>) -> tensor<?x8xbf16>
  %y = coda.silu %a : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  func.return %y : tensor<?x8xbf16>
}

// RUN: coda-opt %s -p lower-to | filecheck %s --check-prefixes CHECK,SCHEDULED
// RUN: coda-opt %s -p lower-to{level=gemm} | filecheck %s --check-prefixes CHECK,GEMM
// RUN: coda-opt %s -p lower-to{level=gemm},lower-to,lower-to | filecheck %s --check-prefixes CHECK,SCHEDULED
// RUN: coda-opt %s -p "lower-to{target=sm_90 mainloop=tma},lower-to" | filecheck %s --check-prefix TMA
// RUN: not coda-opt %s -p lower-to{level=gemm},lower-to{level=block} 2>&1 | filecheck %s --check-prefix BACK
// RUN: not coda-opt %s -p lower-to{level=low} 2>&1 | filecheck %s --check-prefix UNKNOWN

// CHECK-NOT:        coda.linear
// CHECK:            gemm.fused
// GEMM-NEXT:          columns
// SCHEDULED-NEXT:     schedule<pointer, "128x64x64", {{.*}}>
// TMA:                schedule<tma, {{.*}}>
// BACK:             lower-to: the program is no longer on the block level
// UNKNOWN:          error[E0703]: lower-to: unknown level 'low'
// UNKNOWN:            help: use one of block, gemm, scheduled
func.func @f(%x: tensor<?x64xbf16>, %w: tensor<64x64xbf16>) -> tensor<?x64xbf16> {
  %a = coda.linear %x, %w : (tensor<?x64xbf16>, tensor<64x64xbf16>) -> tensor<?x64xbf16>
  %y = coda.silu %a : (tensor<?x64xbf16>) -> tensor<?x64xbf16>
  func.return %y : tensor<?x64xbf16>
}

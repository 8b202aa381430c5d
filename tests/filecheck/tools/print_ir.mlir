// RUN: coda-opt %s -p coda-to-gemm --print-ir-after-change -o /dev/null 2>&1 | filecheck %s --check-prefix CHANGE
// RUN: coda-opt %s -p coda-to-gemm --print-ir-before=fuse-pointwise -o /dev/null 2>&1 | filecheck %s --check-prefix BEFORE
// RUN: coda-opt %s -p coda-to-gemm --statistics -o /dev/null 2>&1 | filecheck %s --check-prefix STATISTICS
// RUN: coda-opt %s -p coda-to-gemm --timing -o /dev/null 2>&1 | filecheck %s --check-prefix TIMING

// CHANGE:      // -----// IR Dump After convert-linear-to-gemm //----- //
// CHANGE-NEXT: builtin.module {
// CHANGE:        gemm.fused
// CHANGE:        coda.silu
// CHANGE:      // -----// IR Dump After fuse-pointwise //----- //
// CHANGE-NOT:  coda.silu

// BEFORE-COUNT-4: // -----// IR Dump Before fuse-pointwise //----- //
// BEFORE-NOT:     IR Dump

// STATISTICS:      ... Pass statistics report ...
// STATISTICS:      coda-to-gemm
// STATISTICS:        convert-linear-to-gemm: 5 -> 6 operators
// STATISTICS-NEXT:     made: gemm.fused 1, gemm.yield 1
// STATISTICS-NEXT:     removed: coda.linear 1
// STATISTICS-NEXT:   merge-gemm-sums: 6 operators
// STATISTICS-NEXT:   fuse-groups{of-weight-gradients=true}: 6 operators
// STATISTICS-NEXT:   fuse-pointwise: 6 -> 10 operators; 1 passed

// TIMING:      ... Execution time report ...
// TIMING:        Total time: {{[0-9.]+}} seconds
// TIMING:      %)  parse
// TIMING-NEXT: %)  passes
// TIMING-NEXT: %)    coda-to-gemm
// TIMING-NEXT: %)      drop-detach
// TIMING:      %)    (verification)
// TIMING-NEXT: %)  output
// TIMING-NEXT: %)  Rest
// TIMING-NEXT: (100.0%)  Total

func.func @f(%x: tensor<?x16xbf16> {coda.dims = ["M", 16]}, %w: tensor<8x16xbf16>)
    -> tensor<?x8xbf16> {
  %a = coda.linear %x, %w : (tensor<?x16xbf16>, tensor<8x16xbf16>) -> tensor<?x8xbf16>
  %y = coda.silu %a : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  func.return %y : tensor<?x8xbf16>
}

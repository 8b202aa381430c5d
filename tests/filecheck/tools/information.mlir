// RUN: coda-opt --show-dialects | filecheck %s --check-prefix DIALECTS
// RUN: coda-opt --list-passes | filecheck %s --check-prefix PASSES
// RUN: coda-opt --explain raise-attention | filecheck %s --check-prefix EXPLAIN
// RUN: coda-opt --explain schedule | filecheck %s --check-prefix OPTIONS
// RUN: coda-opt --explain coda.rms_norm | filecheck %s --check-prefix OPERATOR
// RUN: not coda-opt --explain defer-rmsnorm 2>&1 | filecheck %s --check-prefix UNKNOWN
// RUN: coda-opt --help | filecheck %s --check-prefix HELP

// DIALECTS:      Dialects of CODA IR:
// DIALECTS-NEXT:   coda {{ +[0-9]+}} operators, 2 attributes and types
// DIALECTS-NEXT:   gemm {{ +[0-9]+}} operators, {{[0-9]+}} attributes and types
// DIALECTS:      Dialects of xDSL:
// DIALECTS:      arith,

// PASSES:      Pipelines of CODA IR:
// PASSES-NEXT:   coda-to-gemm {{ +}}Rewrites every function as GEMM-plus-epilogue programs
// PASSES-NEXT:     fold-weights: bool = false
// PASSES:      Passes of CODA IR:
// PASSES:        schedule {{ +}}Gives every `gemm.fused` without a schedule the one with the lowest
// PASSES-NEXT:    {{ +}}estimated time, and the backward of attention tiles that were
// PASSES-NEXT:    {{ +}}measured
// PASSES-NEXT:     target: str = portable
// PASSES:      Passes of xDSL (--explain NAME describes one):
// PASSES:        {{.*}}canonicalize-dmp,

// EXPLAIN:      raise-attention: the pass coda_ir.passes.raising.raise_attention.RaiseAttentionPass
// EXPLAIN:      ->
// EXPLAIN-NEXT:     %y = coda.attention %q, %k, %v mask(%mask) {causal, window}
// EXPLAIN:      Legal iff there is no dropout.

// OPTIONS:      Options:
// OPTIONS-NEXT:   target: str = portable

// OPERATOR:      coda.rms_norm: the operator coda_ir.dialects.coda.reductions.RMSNormOp
// OPERATOR-EMPTY:
// OPERATOR-NEXT: x · rsqrt(mean(x²) + eps) ⊙ weight over the last dimension

// UNKNOWN:      coda-opt: error[E0701]: argument --explain: there is no error code, pass, operator or term 'defer-rmsnorm'
// UNKNOWN-NEXT:   help: did you mean 'defer-norms'?

// HELP:      usage: coda-opt [OPTION]... [FILE]
// HELP:      passes:
// HELP-NEXT:   -p, --passes, --pass-pipeline PIPELINE
// HELP:      examples:
// HELP:      exit codes:
// HELP:      environment:

// RUN: coda-opt --show-dialects | filecheck %s --check-prefix DIALECTS
// RUN: coda-opt --list-passes | filecheck %s --check-prefix PASSES
// RUN: coda-opt --list-all-passes | filecheck %s --check-prefix ALL
// RUN: coda-opt --help | filecheck %s --check-prefix HELP

// DIALECTS:      Dialects of CODA IR:
// DIALECTS-NEXT:   coda {{ +[0-9]+}} operators, 0 attributes and types
// DIALECTS-NEXT:   gemm {{ +[0-9]+}} operators, {{[0-9]+}} attributes and types
// DIALECTS:      Dialects of xDSL:
// DIALECTS:      arith,

// PASSES:      Pipelines of CODA IR:
// PASSES-NEXT:   coda-to-gemm {{ +}}Rewrites every function as GEMM-plus-epilogue programs
// PASSES-NEXT:     fold-weights: bool = false
// PASSES:      Passes of CODA IR:
// PASSES:        schedule {{ +}}Gives every `gemm.fused` without a schedule the cheapest one
// PASSES-NEXT:     target: str = portable
// PASSES:      Passes of xDSL (--list-all-passes describes them):
// PASSES:        canonicalize-dmp,

// ALL:         Passes of CODA IR:
// ALL:           canonicalize {{ +}}Applies the canonicalization patterns
// ALL:         Passes of xDSL:
// ALL:           canonicalize-dmp

// HELP:      usage: coda-opt [OPTION]... [FILE]
// HELP:      passes:
// HELP-NEXT:   -p, --passes, --pass-pipeline PIPELINE
// HELP:      examples:
// HELP:      exit codes:
// HELP:      environment:

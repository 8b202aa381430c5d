// RUN: coda-opt %s -p 'builtin.module(func.func(split-packed-linear, cse), schedule{target=sm_90})' --dump-pass-pipeline -o /dev/null 2>&1 | filecheck %s --check-prefix DUMP
// RUN: coda-opt %s -p ' cse , func.func( dce )' --dump-pass-pipeline 2>&1 | filecheck %s --check-prefixes FLAT,RESULT
// RUN: not coda-opt %s -p 'func.func(cse),canonicalise' 2>&1 | filecheck %s --check-prefix UNKNOWN
// RUN: not coda-opt %s -p 'schedule{tagret=sm_90}' 2>&1 | filecheck %s --check-prefix OPTION
// RUN: not coda-opt %s -p 'builtin.module(func.func(cse)' 2>&1 | filecheck %s --check-prefix OPEN
// RUN: not coda-opt %s -p 'func.fun(cse)' 2>&1 | filecheck %s --check-prefix ANCHOR

// DUMP: Pass Manager with 2 passes:
// DUMP-NEXT: builtin.module(func.func(split-packed-linear,cse),schedule{target=sm_90})

// FLAT: builtin.module(cse,func.func(dce))
// RESULT-NOT: coda.relu
// RESULT: func.func @second

// UNKNOWN: pipeline:1:16: error[E0702]: unknown pass 'canonicalise'
// UNKNOWN-NEXT:   func.func(cse),canonicalise
// UNKNOWN-NEXT:                  ^~~~~~~~~~~~
// UNKNOWN-NEXT:   help: did you mean 'canonicalize'?

// OPTION: pipeline:1:10: error[E0702]: pass 'schedule' has no option 'tagret'
// OPTION:   help: the options of schedule are target, mainloop, tile, warps, stages, group-m

// OPEN: pipeline:1:15: error[E0702]: unbalanced '('
// OPEN:   help: add a ')'

// ANCHOR: pipeline:1:1: error[E0702]: unknown anchor 'func.fun'
// ANCHOR:   help: did you mean 'func.func'?
func.func @first(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = coda.relu %x : (tensor<8xf32>) -> tensor<8xf32>
  func.return %x : tensor<8xf32>
}

func.func @second(%x: tensor<8xf32>) -> tensor<8xf32> {
  func.return %x : tensor<8xf32>
}

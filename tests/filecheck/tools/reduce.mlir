// RUN: coda-opt %s --reduce --test "grep -q coda.silu" -o %t.mlir \
// RUN:   && cat %t.mlir | filecheck %s
// RUN: coda-opt %s --reduce --test "grep -q coda.silu" --reduce-max-tests 1 2>&1 | filecheck %s --check-prefix FIRST
// RUN: not coda-opt %s --reduce --test "grep -q coda.rope" 2>&1 | filecheck %s --check-prefix BORING

// CHECK: func.func @layer(%[[X:.+]]: tensor<?x1xbf16>) {
// CHECK-NEXT: %[[Y:.+]] = coda.silu %[[X]] : (tensor<?x1xbf16>) -> tensor<?x1xbf16>
// CHECK-NEXT: func.return
// CHECK-NEXT: }

// FIRST: coda-opt: reduce: 7 operators after 1 test (test the input)
// FIRST: coda.rms_norm

// BORING: error[E1101]: the input is not interesting: the command of --test exits with 1
// BORING-NEXT: help: the command must exit with 0 for the input

func.func @other(%x: tensor<8xf32>) {
  func.return
}

func.func @layer(%x: tensor<?x16xbf16> {coda.dims = ["M", 16]}, %w: tensor<8x16xbf16>)
    -> tensor<?x8xbf16> {
  %h = coda.rms_norm %x {eps = 1.0e-6 : f64} : (tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %a = coda.linear %h, %w : (tensor<?x16xbf16>, tensor<8x16xbf16>) -> tensor<?x8xbf16>
  %y = coda.silu %a : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  func.return %y : tensor<?x8xbf16>
}

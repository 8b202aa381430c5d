// RUN: coda-opt %s -p fuse-attention --split-input-file | filecheck %s
// RUN: coda-opt %s -p fuse-attention --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// Columns that pair up with those of another head.

func.func @two_heads(%dy: tensor<2x6x64xbf16>, %y: tensor<2x6x64xbf16>, %lse: tensor<2x4x6xf32>, %q: tensor<2x6x64xbf16>, %k: tensor<2x9x32xbf16>, %v: tensor<2x9x32xbf16>) -> tensor<2x6x64xbf16> {
  %moment, %dq = gemm.attention_dq (%dy : tensor<2x6x64xbf16>, %y : tensor<2x6x64xbf16>, %lse : tensor<2x4x6xf32>, %q : tensor<2x6x64xbf16>, %k : tensor<2x9x32xbf16>, %v : tensor<2x9x32xbf16>) {head_dim = 16 : i64, causal = true}
      -> (tile : tensor<2x6x64xbf16>) {
    ^bb0(%a: f32):
      gemm.yield %a : f32
    }
  %e = gemm.map pair<halves, 32> tile(%dq : tensor<2x6x64xbf16>)
      -> (tile : tensor<2x6x64xbf16>) {
    ^bb0(%a: f32, %b: f32):
      gemm.yield %b, %a : f32, f32
    }
  func.return %e : tensor<2x6x64xbf16>
}

// REMARK: remark[missed] fuse-attention: gemm.map: the kernel pairs columns of different heads, which have 16 columns; failed condition: both columns of a pair belong to one head; costs 3072 bytes
// CHECK:      func.func @two_heads(
// CHECK-NEXT:   %moment, %dq = gemm.attention_dq (%dy : tensor<2x6x64xbf16>, %y : tensor<2x6x64xbf16>, %lse : tensor<2x4x6xf32>, %q : tensor<2x6x64xbf16>, %k : tensor<2x9x32xbf16>, %v : tensor<2x9x32xbf16>) {head_dim = 16 : i64, causal = true}
// CHECK-NEXT:       -> (tile : tensor<2x6x64xbf16>) {
// CHECK-NEXT:     ^bb0(%a: f32):
// CHECK-NEXT:       gemm.yield %a : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %e = gemm.map pair<halves, 32> tile(%dq : tensor<2x6x64xbf16>)
// CHECK-NEXT:       -> (tile : tensor<2x6x64xbf16>) {
// CHECK-NEXT:     ^bb0(%a: f32, %b: f32):
// CHECK-NEXT:       gemm.yield %b, %a : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %e : tensor<2x6x64xbf16>
// CHECK-NEXT: }

// -----

// Groups of columns of several heads.

func.func @wide_groups(%dy: tensor<2x6x64xbf16>, %y: tensor<2x6x64xbf16>, %lse: tensor<2x4x6xf32>, %q: tensor<2x6x64xbf16>, %k: tensor<2x9x32xbf16>, %v: tensor<2x9x32xbf16>) -> tensor<2x6x64xbf16> {
  %moment, %dq = gemm.attention_dq (%dy : tensor<2x6x64xbf16>, %y : tensor<2x6x64xbf16>, %lse : tensor<2x4x6xf32>, %q : tensor<2x6x64xbf16>, %k : tensor<2x9x32xbf16>, %v : tensor<2x9x32xbf16>) {head_dim = 16 : i64, causal = true}
      -> (tile : tensor<2x6x64xbf16>) {
    ^bb0(%a: f32):
      gemm.yield %a : f32
    }
  %e = gemm.map tile(%dq : tensor<2x6x64xbf16>)
      -> (tile : tensor<2x6x64xbf16>) {
    ^bb0(%a: f32):
      %0 = gemm.group_reduce add %a over 32 : f32
      gemm.yield %0 : f32
    }
  func.return %e : tensor<2x6x64xbf16>
}

// REMARK: remark[missed] fuse-attention: gemm.map: the kernel sums over more than the 16 columns of a head; failed condition: each group of columns lies within one head; costs 3072 bytes
// CHECK:      func.func @wide_groups(
// CHECK-NEXT:   %moment, %dq = gemm.attention_dq (%dy : tensor<2x6x64xbf16>, %y : tensor<2x6x64xbf16>, %lse : tensor<2x4x6xf32>, %q : tensor<2x6x64xbf16>, %k : tensor<2x9x32xbf16>, %v : tensor<2x9x32xbf16>) {head_dim = 16 : i64, causal = true}
// CHECK-NEXT:       -> (tile : tensor<2x6x64xbf16>) {
// CHECK-NEXT:     ^bb0(%a: f32):
// CHECK-NEXT:       gemm.yield %a : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %e = gemm.map tile(%dq : tensor<2x6x64xbf16>)
// CHECK-NEXT:       -> (tile : tensor<2x6x64xbf16>) {
// CHECK-NEXT:     ^bb0(%a: f32):
// CHECK-NEXT:       %0 = gemm.group_reduce add %a over 32 : f32
// CHECK-NEXT:       gemm.yield %0 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %e : tensor<2x6x64xbf16>
// CHECK-NEXT: }

// -----

// The epilogue has pairs of columns already.

func.func @single_columns(%dy: tensor<2x6x64xbf16>, %y: tensor<2x6x64xbf16>, %lse: tensor<2x4x6xf32>, %q: tensor<2x6x64xbf16>, %k: tensor<2x9x32xbf16>, %v: tensor<2x9x32xbf16>) -> (tensor<2x6x64xbf16>, tensor<2x6x64xbf16>) {
  %moment, %dq = gemm.attention_dq (%dy : tensor<2x6x64xbf16>, %y : tensor<2x6x64xbf16>, %lse : tensor<2x4x6xf32>, %q : tensor<2x6x64xbf16>, %k : tensor<2x9x32xbf16>, %v : tensor<2x9x32xbf16>) {head_dim = 16 : i64, causal = true}
      -> (tile : tensor<2x6x64xbf16>) {
    ^bb0(%a: f32):
      gemm.yield %a : f32
    }
  %e = gemm.map pair<halves, 16> tile(%dq : tensor<2x6x64xbf16>)
      -> (tile : tensor<2x6x64xbf16>) {
    ^bb0(%a: f32, %b: f32):
      gemm.yield %b, %a : f32, f32
    }
  %f = gemm.map tile(%dq : tensor<2x6x64xbf16>)
      -> (tile : tensor<2x6x64xbf16>) {
    ^bb0(%a: f32):
      gemm.yield %a : f32
    }
  func.return %e, %f : tensor<2x6x64xbf16>, tensor<2x6x64xbf16>
}

// REMARK: remark[missed] fuse-attention: gemm.map: the kernel reads single columns, and the epilogue reads pairs of columns; failed condition: the kernel and the epilogue pair the same columns; costs 3072 bytes
// CHECK:      func.func @single_columns(
// CHECK-NEXT:   %moment, %dq, %e = gemm.attention_dq (%dy : tensor<2x6x64xbf16>, %y : tensor<2x6x64xbf16>, %lse : tensor<2x4x6xf32>, %q : tensor<2x6x64xbf16>, %k : tensor<2x9x32xbf16>, %v : tensor<2x9x32xbf16>) {head_dim = 16 : i64, causal = true} pair<halves, 16>
// CHECK-NEXT:       -> (tile : tensor<2x6x64xbf16>, tile : tensor<2x6x64xbf16>) {
// CHECK-NEXT:     ^bb0(%a: f32, %a_1: f32):
// CHECK-NEXT:       gemm.yield %a, %a_1, %a_1, %a : f32, f32, f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %f = gemm.map tile(%dq : tensor<2x6x64xbf16>)
// CHECK-NEXT:       -> (tile : tensor<2x6x64xbf16>) {
// CHECK-NEXT:     ^bb0(%a: f32):
// CHECK-NEXT:       gemm.yield %a : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %e, %f : tensor<2x6x64xbf16>, tensor<2x6x64xbf16>
// CHECK-NEXT: }

// -----

// A statistic of the whole row is not known before.

func.func @statistic(%dy: tensor<2x6x64xbf16>, %y: tensor<2x6x64xbf16>, %lse: tensor<2x4x6xf32>, %q: tensor<2x6x64xbf16>, %k: tensor<2x9x32xbf16>, %v: tensor<2x9x32xbf16>) -> tensor<2x6x64xbf16> {
  %moment, %dq = gemm.attention_dq (%dy : tensor<2x6x64xbf16>, %y : tensor<2x6x64xbf16>, %lse : tensor<2x4x6xf32>, %q : tensor<2x6x64xbf16>, %k : tensor<2x9x32xbf16>, %v : tensor<2x9x32xbf16>) {head_dim = 16 : i64, causal = true}
      -> (tile : tensor<2x6x64xbf16>) {
    ^bb0(%a: f32):
      gemm.yield %a : f32
    }
  %p = gemm.map tile(%dq : tensor<2x6x64xbf16>)
      -> (partial_row<add> : tensor<2x6x?xf32>) {
    ^bb0(%a: f32):
      gemm.yield %a : f32
    }
  %sum = gemm.finalize row (add %p : tensor<2x6x?xf32>) -> (tensor<2x6x1xf32>) {
    ^bb0(%t: f32):
      gemm.yield %t : f32
    }
  %e = gemm.map tile(%dq : tensor<2x6x64xbf16>) col(%sum : tensor<2x6x1xf32>)
      -> (tile : tensor<2x6x64xbf16>) {
    ^bb0(%a: f32, %c: f32):
      %0 = arith.mulf %a, %c : f32
      gemm.yield %0 : f32
    }
  func.return %e : tensor<2x6x64xbf16>
}

// REMARK: remark[missed] fuse-attention: gemm.map: another kernel computes an operand from the gradients; failed condition: the other operands are computed before the gradients; costs 3120 bytes
// CHECK:      func.func @statistic(
// CHECK-NEXT:   %moment, %dq, %p = gemm.attention_dq (%dy : tensor<2x6x64xbf16>, %y : tensor<2x6x64xbf16>, %lse : tensor<2x4x6xf32>, %q : tensor<2x6x64xbf16>, %k : tensor<2x9x32xbf16>, %v : tensor<2x9x32xbf16>) {head_dim = 16 : i64, causal = true}
// CHECK-NEXT:       -> (tile : tensor<2x6x64xbf16>, partial_row<add> : tensor<2x6x?xf32>) {
// CHECK-NEXT:     ^bb0(%a: f32):
// CHECK-NEXT:       gemm.yield %a, %a : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %sum = gemm.finalize row (add %p : tensor<2x6x?xf32>) -> (tensor<2x6x1xf32>) {
// CHECK-NEXT:   ^bb0(%t: f32):
// CHECK-NEXT:     gemm.yield %t : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   %e = gemm.map tile(%dq : tensor<2x6x64xbf16>) col(%sum : tensor<2x6x1xf32>)
// CHECK-NEXT:       -> (tile : tensor<2x6x64xbf16>) {
// CHECK-NEXT:     ^bb0(%a: f32, %c: f32):
// CHECK-NEXT:       %0 = arith.mulf %a, %c : f32
// CHECK-NEXT:       gemm.yield %0 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %e : tensor<2x6x64xbf16>
// CHECK-NEXT: }

// -----

// A stated order of sums.

func.func @order(%dy: tensor<2x6x64xbf16>, %y: tensor<2x6x64xbf16>, %lse: tensor<2x4x6xf32>, %q: tensor<2x6x64xbf16>, %k: tensor<2x9x32xbf16>, %v: tensor<2x9x32xbf16>) -> tensor<2x6x1xf32> {
  %moment, %dq = gemm.attention_dq (%dy : tensor<2x6x64xbf16>, %y : tensor<2x6x64xbf16>, %lse : tensor<2x4x6xf32>, %q : tensor<2x6x64xbf16>, %k : tensor<2x9x32xbf16>, %v : tensor<2x9x32xbf16>) {head_dim = 16 : i64, causal = true}
      -> (tile : tensor<2x6x64xbf16>) {
    ^bb0(%a: f32):
      gemm.yield %a : f32
    }
  %p = gemm.map order<columns = 16, rows = 16> tile(%dq : tensor<2x6x64xbf16>)
      -> (partial_row<add> : tensor<2x6x?xf32>) {
    ^bb0(%a: f32):
      gemm.yield %a : f32
    }
  %sum = gemm.finalize row order<partials = 16> (add %p : tensor<2x6x?xf32>) -> (tensor<2x6x1xf32>) {
    ^bb0(%t: f32):
      gemm.yield %t : f32
    }
  func.return %sum : tensor<2x6x1xf32>
}

// REMARK: remark[missed] fuse-attention: gemm.map: the kernel states the order of its sums; failed condition: the kernel may choose the order of its sums; costs 1584 bytes
// CHECK:      func.func @order(
// CHECK-NEXT:   %moment, %dq = gemm.attention_dq (%dy : tensor<2x6x64xbf16>, %y : tensor<2x6x64xbf16>, %lse : tensor<2x4x6xf32>, %q : tensor<2x6x64xbf16>, %k : tensor<2x9x32xbf16>, %v : tensor<2x9x32xbf16>) {head_dim = 16 : i64, causal = true}
// CHECK-NEXT:       -> (tile : tensor<2x6x64xbf16>) {
// CHECK-NEXT:     ^bb0(%a: f32):
// CHECK-NEXT:       gemm.yield %a : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %p = gemm.map order<columns = 16, rows = 16> tile(%dq : tensor<2x6x64xbf16>)
// CHECK-NEXT:       -> (partial_row<add> : tensor<2x6x?xf32>) {
// CHECK-NEXT:     ^bb0(%a: f32):
// CHECK-NEXT:       gemm.yield %a : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %sum = gemm.finalize row order<partials = 16> (add %p : tensor<2x6x?xf32>) -> (tensor<2x6x1xf32>) {
// CHECK-NEXT:   ^bb0(%t: f32):
// CHECK-NEXT:     gemm.yield %t : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %sum : tensor<2x6x1xf32>
// CHECK-NEXT: }

// -----

// Pairs of columns of a head that is in two parts.

func.func @parts(%q: tensor<2x6x48xbf16>, %lse: tensor<2x2x6xf32>) -> tensor<2x6x48xbf16> {
  %moment, %dq = gemm.attention_dq (%q : tensor<2x6x48xbf16>, %q : tensor<2x6x48xbf16>, %lse : tensor<2x2x6xf32>, %q : tensor<2x6x48xbf16>, %q : tensor<2x6x48xbf16>, %q : tensor<2x6x48xbf16>) {head_dim = 24 : i64, causal = true}
      -> (tile : tensor<2x6x48xbf16>) {
    ^bb0(%a: f32):
      gemm.yield %a : f32
    }
  %e = gemm.map pair<halves, 24> tile(%dq : tensor<2x6x48xbf16>)
      -> (tile : tensor<2x6x48xbf16>) {
    ^bb0(%a: f32, %b: f32):
      gemm.yield %b, %a : f32, f32
    }
  func.return %e : tensor<2x6x48xbf16>
}

// REMARK: remark[missed] fuse-attention: gemm.map: the kernel needs pairs, and heads have 24 columns; failed condition: the number of columns of a head is a power of two, so that one tile holds a head; costs 2304 bytes
// CHECK:      func.func @parts(
// CHECK-NEXT:   %moment, %dq = gemm.attention_dq (%q : tensor<2x6x48xbf16>, %q : tensor<2x6x48xbf16>, %lse : tensor<2x2x6xf32>, %q : tensor<2x6x48xbf16>, %q : tensor<2x6x48xbf16>, %q : tensor<2x6x48xbf16>) {head_dim = 24 : i64, causal = true}
// CHECK-NEXT:       -> (tile : tensor<2x6x48xbf16>) {
// CHECK-NEXT:     ^bb0(%a: f32):
// CHECK-NEXT:       gemm.yield %a : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %e = gemm.map pair<halves, 24> tile(%dq : tensor<2x6x48xbf16>)
// CHECK-NEXT:       -> (tile : tensor<2x6x48xbf16>) {
// CHECK-NEXT:     ^bb0(%a: f32, %b: f32):
// CHECK-NEXT:       gemm.yield %b, %a : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %e : tensor<2x6x48xbf16>
// CHECK-NEXT: }

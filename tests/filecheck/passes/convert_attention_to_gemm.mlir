// RUN: coda-opt %s -p convert-attention-to-gemm --split-input-file | filecheck %s

// Heads of queries share heads of keys.

func.func @shared_heads(%dy: tensor<2x6x64xbf16>, %y: tensor<2x6x64xbf16>, %lse: tensor<2x4x6xf32>, %q: tensor<2x6x64xbf16>, %k: tensor<2x9x32xbf16>, %v: tensor<2x9x32xbf16>) -> (tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>) {
  %dq, %dk, %dv = coda.attention_grad %dy, %y, %lse, %q, %k, %v {head_dim = 16 : i64, causal = true} : (tensor<2x6x64xbf16>, tensor<2x6x64xbf16>, tensor<2x4x6xf32>, tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>) -> (tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>)
  func.return %dq, %dk, %dv : tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>
}

// CHECK:      func.func @shared_heads(
// CHECK-NEXT:   %moment, %dq = gemm.attention_dq (%dy : tensor<2x6x64xbf16>, %y : tensor<2x6x64xbf16>, %lse : tensor<2x4x6xf32>, %q : tensor<2x6x64xbf16>, %k : tensor<2x9x32xbf16>, %v : tensor<2x9x32xbf16>) {head_dim = 16 : i64, causal = true}
// CHECK-NEXT:       -> (tile : tensor<2x6x64xbf16>) {
// CHECK-NEXT:     ^bb0(%dq_1: f32):
// CHECK-NEXT:       gemm.yield %dq_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %dk, %dv = gemm.attention_dkv (%dy : tensor<2x6x64xbf16>, %moment : tensor<2x4x6xf32>, %lse : tensor<2x4x6xf32>, %q : tensor<2x6x64xbf16>, %k : tensor<2x9x32xbf16>, %v : tensor<2x9x32xbf16>) {head_dim = 16 : i64, causal = true}
// CHECK-NEXT:       -> (tile : tensor<2x9x32xbf16>, tile : tensor<2x9x32xbf16>) {
// CHECK-NEXT:     ^bb0(%dk_1: f32, %dv_1: f32):
// CHECK-NEXT:       gemm.yield %dk_1, %dv_1 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %dq, %dk, %dv : tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>
// CHECK-NEXT: }

// -----

// A window, a scale, and no batch.

func.func @window(%dy: tensor<6x64xbf16>, %y: tensor<6x64xbf16>, %lse: tensor<1x4x6xf32>, %q: tensor<6x64xbf16>, %k: tensor<9x32xbf16>, %v: tensor<9x32xbf16>) -> (tensor<6x64xbf16>, tensor<9x32xbf16>, tensor<9x32xbf16>) {
  %dq, %dk, %dv = coda.attention_grad %dy, %y, %lse, %q, %k, %v {head_dim = 16 : i64, causal = false, window = 8 : i64, scale = 0.5 : f64} : (tensor<6x64xbf16>, tensor<6x64xbf16>, tensor<1x4x6xf32>, tensor<6x64xbf16>, tensor<9x32xbf16>, tensor<9x32xbf16>) -> (tensor<6x64xbf16>, tensor<9x32xbf16>, tensor<9x32xbf16>)
  func.return %dq, %dk, %dv : tensor<6x64xbf16>, tensor<9x32xbf16>, tensor<9x32xbf16>
}

// CHECK:      func.func @window(
// CHECK-NEXT:   %moment, %dq = gemm.attention_dq (%dy : tensor<6x64xbf16>, %y : tensor<6x64xbf16>, %lse : tensor<1x4x6xf32>, %q : tensor<6x64xbf16>, %k : tensor<9x32xbf16>, %v : tensor<9x32xbf16>) {head_dim = 16 : i64, causal = false, window = 8 : i64, scale = 5.000000e-01 : f64}
// CHECK-NEXT:       -> (tile : tensor<6x64xbf16>) {
// CHECK-NEXT:     ^bb0(%dq_1: f32):
// CHECK-NEXT:       gemm.yield %dq_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %dk, %dv = gemm.attention_dkv (%dy : tensor<6x64xbf16>, %moment : tensor<1x4x6xf32>, %lse : tensor<1x4x6xf32>, %q : tensor<6x64xbf16>, %k : tensor<9x32xbf16>, %v : tensor<9x32xbf16>) {head_dim = 16 : i64, causal = false, window = 8 : i64, scale = 5.000000e-01 : f64}
// CHECK-NEXT:       -> (tile : tensor<9x32xbf16>, tile : tensor<9x32xbf16>) {
// CHECK-NEXT:     ^bb0(%dk_1: f32, %dv_1: f32):
// CHECK-NEXT:       gemm.yield %dk_1, %dv_1 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %dq, %dk, %dv : tensor<6x64xbf16>, tensor<9x32xbf16>, tensor<9x32xbf16>
// CHECK-NEXT: }

// -----

// The scores are capped.

func.func @softcap(%dy: tensor<2x6x64xbf16>, %y: tensor<2x6x64xbf16>, %lse: tensor<2x4x6xf32>, %q: tensor<2x6x64xbf16>, %k: tensor<2x9x32xbf16>, %v: tensor<2x9x32xbf16>) -> (tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>) {
  %dq, %dk, %dv = coda.attention_grad %dy, %y, %lse, %q, %k, %v {head_dim = 16 : i64, causal = true, softcap = 3.000000e+01 : f64} : (tensor<2x6x64xbf16>, tensor<2x6x64xbf16>, tensor<2x4x6xf32>, tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>) -> (tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>)
  func.return %dq, %dk, %dv : tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>
}

// CHECK:      func.func @softcap(
// CHECK-NEXT:   %moment, %dq = gemm.attention_dq (%dy : tensor<2x6x64xbf16>, %y : tensor<2x6x64xbf16>, %lse : tensor<2x4x6xf32>, %q : tensor<2x6x64xbf16>, %k : tensor<2x9x32xbf16>, %v : tensor<2x9x32xbf16>) {head_dim = 16 : i64, causal = true, softcap = 3.000000e+01 : f64}
// CHECK-NEXT:       -> (tile : tensor<2x6x64xbf16>) {
// CHECK-NEXT:     ^bb0(%dq_1: f32):
// CHECK-NEXT:       gemm.yield %dq_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %dk, %dv = gemm.attention_dkv (%dy : tensor<2x6x64xbf16>, %moment : tensor<2x4x6xf32>, %lse : tensor<2x4x6xf32>, %q : tensor<2x6x64xbf16>, %k : tensor<2x9x32xbf16>, %v : tensor<2x9x32xbf16>) {head_dim = 16 : i64, causal = true, softcap = 3.000000e+01 : f64}
// CHECK-NEXT:       -> (tile : tensor<2x9x32xbf16>, tile : tensor<2x9x32xbf16>) {
// CHECK-NEXT:     ^bb0(%dk_1: f32, %dv_1: f32):
// CHECK-NEXT:       gemm.yield %dk_1, %dv_1 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %dq, %dk, %dv : tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>
// CHECK-NEXT: }

// -----

// A mask of truth values.

func.func @mask(%dy: tensor<2x6x64xbf16>, %y: tensor<2x6x64xbf16>, %lse: tensor<2x4x6xf32>, %q: tensor<2x6x64xbf16>, %k: tensor<2x9x32xbf16>, %v: tensor<2x9x32xbf16>, %m: tensor<6x9xi1>) -> (tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>) {
  %dq, %dk, %dv = coda.attention_grad %dy, %y, %lse, %q, %k, %v mask(%m : tensor<6x9xi1>) {head_dim = 16 : i64, causal = true} : (tensor<2x6x64xbf16>, tensor<2x6x64xbf16>, tensor<2x4x6xf32>, tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>) -> (tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>)
  func.return %dq, %dk, %dv : tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>
}

// CHECK:      func.func @mask(
// CHECK-NEXT:   %moment, %dq = gemm.attention_dq (%dy : tensor<2x6x64xbf16>, %y : tensor<2x6x64xbf16>, %lse : tensor<2x4x6xf32>, %q : tensor<2x6x64xbf16>, %k : tensor<2x9x32xbf16>, %v : tensor<2x9x32xbf16>) mask(%m : tensor<6x9xi1>) {head_dim = 16 : i64, causal = true}
// CHECK-NEXT:       -> (tile : tensor<2x6x64xbf16>) {
// CHECK-NEXT:     ^bb0(%dq_1: f32):
// CHECK-NEXT:       gemm.yield %dq_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %dk, %dv = gemm.attention_dkv (%dy : tensor<2x6x64xbf16>, %moment : tensor<2x4x6xf32>, %lse : tensor<2x4x6xf32>, %q : tensor<2x6x64xbf16>, %k : tensor<2x9x32xbf16>, %v : tensor<2x9x32xbf16>) mask(%m : tensor<6x9xi1>) {head_dim = 16 : i64, causal = true}
// CHECK-NEXT:       -> (tile : tensor<2x9x32xbf16>, tile : tensor<2x9x32xbf16>) {
// CHECK-NEXT:     ^bb0(%dk_1: f32, %dv_1: f32):
// CHECK-NEXT:       gemm.yield %dk_1, %dv_1 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %dq, %dk, %dv : tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>
// CHECK-NEXT: }

// -----

// A mask that is added.

func.func @added(%dy: tensor<2x6x64xbf16>, %y: tensor<2x6x64xbf16>, %lse: tensor<2x4x6xf32>, %q: tensor<2x6x64xbf16>, %k: tensor<2x9x32xbf16>, %v: tensor<2x9x32xbf16>, %m: tensor<6x9xbf16>) -> (tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>) {
  %dq, %dk, %dv = coda.attention_grad %dy, %y, %lse, %q, %k, %v mask(%m : tensor<6x9xbf16>) {head_dim = 16 : i64, causal = true} : (tensor<2x6x64xbf16>, tensor<2x6x64xbf16>, tensor<2x4x6xf32>, tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>) -> (tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>)
  func.return %dq, %dk, %dv : tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>
}

// CHECK:      func.func @added(
// CHECK-NEXT:   %moment, %dq = gemm.attention_dq (%dy : tensor<2x6x64xbf16>, %y : tensor<2x6x64xbf16>, %lse : tensor<2x4x6xf32>, %q : tensor<2x6x64xbf16>, %k : tensor<2x9x32xbf16>, %v : tensor<2x9x32xbf16>) mask(%m : tensor<6x9xbf16>) {head_dim = 16 : i64, causal = true}
// CHECK-NEXT:       -> (tile : tensor<2x6x64xbf16>) {
// CHECK-NEXT:     ^bb0(%dq_1: f32):
// CHECK-NEXT:       gemm.yield %dq_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %dk, %dv = gemm.attention_dkv (%dy : tensor<2x6x64xbf16>, %moment : tensor<2x4x6x2xf32>, %lse : tensor<2x4x6xf32>, %q : tensor<2x6x64xbf16>, %k : tensor<2x9x32xbf16>, %v : tensor<2x9x32xbf16>) mask(%m : tensor<6x9xbf16>) {head_dim = 16 : i64, causal = true}
// CHECK-NEXT:       -> (tile : tensor<2x9x32xbf16>, tile : tensor<2x9x32xbf16>) {
// CHECK-NEXT:     ^bb0(%dk_1: f32, %dv_1: f32):
// CHECK-NEXT:       gemm.yield %dk_1, %dv_1 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %dq, %dk, %dv : tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>
// CHECK-NEXT: }

// -----

// Sinks are in the logsumexp already.

func.func @sinks(%dy: tensor<2x6x64xbf16>, %y: tensor<2x6x64xbf16>, %lse: tensor<2x4x6xf32>, %q: tensor<2x6x64xbf16>, %k: tensor<2x9x32xbf16>, %v: tensor<2x9x32xbf16>, %s: tensor<4xbf16>) -> (tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>) {
  %dq, %dk, %dv = coda.attention_grad %dy, %y, %lse, %q, %k, %v sinks(%s : tensor<4xbf16>) {head_dim = 16 : i64, causal = true} : (tensor<2x6x64xbf16>, tensor<2x6x64xbf16>, tensor<2x4x6xf32>, tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>) -> (tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>)
  func.return %dq, %dk, %dv : tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>
}

// CHECK:      func.func @sinks(
// CHECK-NEXT:   %moment, %dq = gemm.attention_dq (%dy : tensor<2x6x64xbf16>, %y : tensor<2x6x64xbf16>, %lse : tensor<2x4x6xf32>, %q : tensor<2x6x64xbf16>, %k : tensor<2x9x32xbf16>, %v : tensor<2x9x32xbf16>) {head_dim = 16 : i64, causal = true}
// CHECK-NEXT:       -> (tile : tensor<2x6x64xbf16>) {
// CHECK-NEXT:     ^bb0(%dq_1: f32):
// CHECK-NEXT:       gemm.yield %dq_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %dk, %dv = gemm.attention_dkv (%dy : tensor<2x6x64xbf16>, %moment : tensor<2x4x6xf32>, %lse : tensor<2x4x6xf32>, %q : tensor<2x6x64xbf16>, %k : tensor<2x9x32xbf16>, %v : tensor<2x9x32xbf16>) {head_dim = 16 : i64, causal = true}
// CHECK-NEXT:       -> (tile : tensor<2x9x32xbf16>, tile : tensor<2x9x32xbf16>) {
// CHECK-NEXT:     ^bb0(%dk_1: f32, %dv_1: f32):
// CHECK-NEXT:       gemm.yield %dk_1, %dv_1 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %dq, %dk, %dv : tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>
// CHECK-NEXT: }

// -----

// A cap, and the logsumexp for the derivative.

func.func @capped(%q: tensor<2x32x64xbf16>, %k: tensor<2x40x32xbf16>, %v: tensor<2x40x32xbf16>) -> (tensor<2x32x64xbf16>, tensor<2x4x32xf32>) {
  %y, %lse = coda.attention %q, %k, %v {head_dim = 16 : i64, causal = true, softcap = 5.000000e+01 : f64} : (tensor<2x32x64xbf16>, tensor<2x40x32xbf16>, tensor<2x40x32xbf16>) -> tensor<2x32x64xbf16> lse tensor<2x4x32xf32>
  func.return %y, %lse : tensor<2x32x64xbf16>, tensor<2x4x32xf32>
}

// CHECK:      func.func @capped(%q: tensor<2x32x64xbf16>, %k: tensor<2x40x32xbf16>, %v: tensor<2x40x32xbf16>) -> (tensor<2x32x64xbf16>, tensor<2x4x32xf32>) {
// CHECK-NEXT:   %lse, %y = gemm.attention (%q : tensor<2x32x64xbf16>, %k : tensor<2x40x32xbf16>, %v : tensor<2x40x32xbf16>) {head_dim = 16 : i64, causal = true, softcap = 5.000000e+01 : f64}
// CHECK-NEXT:       -> (tile : tensor<2x32x64xbf16>) {
// CHECK-NEXT:     ^bb0(%y_1: f32):
// CHECK-NEXT:       gemm.yield %y_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y, %lse : tensor<2x32x64xbf16>, tensor<2x4x32xf32>
// CHECK-NEXT: }

// -----

// A window.

func.func @forward_in_a_window(%q: tensor<2x32x64xbf16>, %k: tensor<2x40x32xbf16>, %v: tensor<2x40x32xbf16>) -> tensor<2x32x64xbf16> {
  %y = coda.attention %q, %k, %v {head_dim = 16 : i64, causal = true, window = 8 : i64} : (tensor<2x32x64xbf16>, tensor<2x40x32xbf16>, tensor<2x40x32xbf16>) -> tensor<2x32x64xbf16>
  func.return %y : tensor<2x32x64xbf16>
}

// CHECK:      func.func @forward_in_a_window(%q: tensor<2x32x64xbf16>, %k: tensor<2x40x32xbf16>, %v: tensor<2x40x32xbf16>) -> tensor<2x32x64xbf16> {
// CHECK-NEXT:   %lse, %y = gemm.attention (%q : tensor<2x32x64xbf16>, %k : tensor<2x40x32xbf16>, %v : tensor<2x40x32xbf16>) {head_dim = 16 : i64, causal = true, window = 8 : i64}
// CHECK-NEXT:       -> (tile : tensor<2x32x64xbf16>) {
// CHECK-NEXT:     ^bb0(%y_1: f32):
// CHECK-NEXT:       gemm.yield %y_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y : tensor<2x32x64xbf16>
// CHECK-NEXT: }

// -----

// Numbers that are added, of a type that PyTorch's kernels do not take.

func.func @forward_with_numbers(%q: tensor<2x32x64xbf16>, %k: tensor<2x40x32xbf16>, %v: tensor<2x40x32xbf16>, %m: tensor<4x1x40xf32>) -> tensor<2x32x64xbf16> {
  %y = coda.attention %q, %k, %v mask(%m : tensor<4x1x40xf32>) {head_dim = 16 : i64, causal = false} : (tensor<2x32x64xbf16>, tensor<2x40x32xbf16>, tensor<2x40x32xbf16>) -> tensor<2x32x64xbf16>
  func.return %y : tensor<2x32x64xbf16>
}

// CHECK:      func.func @forward_with_numbers(%q: tensor<2x32x64xbf16>, %k: tensor<2x40x32xbf16>, %v: tensor<2x40x32xbf16>, %m: tensor<4x1x40xf32>) -> tensor<2x32x64xbf16> {
// CHECK-NEXT:   %lse, %y = gemm.attention (%q : tensor<2x32x64xbf16>, %k : tensor<2x40x32xbf16>, %v : tensor<2x40x32xbf16>) mask(%m : tensor<4x1x40xf32>) {head_dim = 16 : i64, causal = false}
// CHECK-NEXT:       -> (tile : tensor<2x32x64xbf16>) {
// CHECK-NEXT:     ^bb0(%y_1: f32):
// CHECK-NEXT:       gemm.yield %y_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y : tensor<2x32x64xbf16>
// CHECK-NEXT: }

// -----

// A mask of keys beside a causal mask: PyTorch would read both as a mask of all scores.

func.func @keys(%q: tensor<2x32x64xbf16>, %k: tensor<2x40x32xbf16>, %v: tensor<2x40x32xbf16>, %m: tensor<2x1x1x40xi1>) -> tensor<2x32x64xbf16> {
  %y = coda.attention %q, %k, %v mask(%m : tensor<2x1x1x40xi1>) {head_dim = 16 : i64, causal = true} : (tensor<2x32x64xbf16>, tensor<2x40x32xbf16>, tensor<2x40x32xbf16>) -> tensor<2x32x64xbf16>
  func.return %y : tensor<2x32x64xbf16>
}

// CHECK:      func.func @keys(
// CHECK-NEXT:   %lse, %y = gemm.attention (%q : tensor<2x32x64xbf16>, %k : tensor<2x40x32xbf16>, %v : tensor<2x40x32xbf16>) mask(%m : tensor<2x1x1x40xi1>) {head_dim = 16 : i64, causal = true}
// CHECK-NEXT:       -> (tile : tensor<2x32x64xbf16>) {
// CHECK-NEXT:     ^bb0(%y_1: f32):
// CHECK-NEXT:       gemm.yield %y_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y : tensor<2x32x64xbf16>
// CHECK-NEXT: }

// -----

// A mask of keys and the logsumexp.

func.func @trained(%q: tensor<2x32x64xbf16>, %k: tensor<2x40x32xbf16>, %v: tensor<2x40x32xbf16>, %m: tensor<1x40xi1>) -> (tensor<2x32x64xbf16>, tensor<2x4x32xf32>) {
  %y, %lse = coda.attention %q, %k, %v mask(%m : tensor<1x40xi1>) {head_dim = 16 : i64, causal = false} : (tensor<2x32x64xbf16>, tensor<2x40x32xbf16>, tensor<2x40x32xbf16>) -> tensor<2x32x64xbf16> lse tensor<2x4x32xf32>
  func.return %y, %lse : tensor<2x32x64xbf16>, tensor<2x4x32xf32>
}

// CHECK:      func.func @trained(
// CHECK-NEXT:   %lse, %y = gemm.attention (%q : tensor<2x32x64xbf16>, %k : tensor<2x40x32xbf16>, %v : tensor<2x40x32xbf16>) mask(%m : tensor<1x40xi1>) {head_dim = 16 : i64, causal = false}
// CHECK-NEXT:       -> (tile : tensor<2x32x64xbf16>) {
// CHECK-NEXT:     ^bb0(%y_1: f32):
// CHECK-NEXT:       gemm.yield %y_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y, %lse : tensor<2x32x64xbf16>, tensor<2x4x32xf32>
// CHECK-NEXT: }

// -----

// PyTorch has kernels for causal attention and for masks of truth values.

func.func @left(%q: tensor<2x32x64xbf16>, %k: tensor<2x40x32xbf16>, %v: tensor<2x40x32xbf16>) -> tensor<2x32x64xbf16> {
  %y = coda.attention %q, %k, %v {head_dim = 16 : i64, causal = true} : (tensor<2x32x64xbf16>, tensor<2x40x32xbf16>, tensor<2x40x32xbf16>) -> tensor<2x32x64xbf16>
  func.return %y : tensor<2x32x64xbf16>
}

func.func @scores(%q: tensor<2x32x64xbf16>, %k: tensor<2x40x32xbf16>, %v: tensor<2x40x32xbf16>, %m: tensor<32x40xi1>) -> tensor<2x32x64xbf16> {
  %y = coda.attention %q, %k, %v mask(%m : tensor<32x40xi1>) {head_dim = 16 : i64, causal = true} : (tensor<2x32x64xbf16>, tensor<2x40x32xbf16>, tensor<2x40x32xbf16>) -> tensor<2x32x64xbf16>
  func.return %y : tensor<2x32x64xbf16>
}

func.func @truth(%q: tensor<2x32x64xbf16>, %k: tensor<2x40x32xbf16>, %v: tensor<2x40x32xbf16>, %m: tensor<32x40xi1>) -> tensor<2x32x64xbf16> {
  %y = coda.attention %q, %k, %v mask(%m : tensor<32x40xi1>) {head_dim = 16 : i64, causal = false} : (tensor<2x32x64xbf16>, tensor<2x40x32xbf16>, tensor<2x40x32xbf16>) -> tensor<2x32x64xbf16>
  func.return %y : tensor<2x32x64xbf16>
}

// CHECK:      func.func @left(%q: tensor<2x32x64xbf16>, %k: tensor<2x40x32xbf16>, %v: tensor<2x40x32xbf16>) -> tensor<2x32x64xbf16> {
// CHECK-NEXT:   %y = coda.attention %q, %k, %v {head_dim = 16 : i64, causal = true} : (tensor<2x32x64xbf16>, tensor<2x40x32xbf16>, tensor<2x40x32xbf16>) -> tensor<2x32x64xbf16>
// CHECK-NEXT:   func.return %y : tensor<2x32x64xbf16>
// CHECK-NEXT: }
// CHECK:      func.func @scores(
// CHECK-NEXT:   %lse, %y = gemm.attention (%q : tensor<2x32x64xbf16>, %k : tensor<2x40x32xbf16>, %v : tensor<2x40x32xbf16>) mask(%m : tensor<32x40xi1>) {head_dim = 16 : i64, causal = true}
// CHECK-NEXT:       -> (tile : tensor<2x32x64xbf16>) {
// CHECK-NEXT:     ^bb0(%y_1: f32):
// CHECK-NEXT:       gemm.yield %y_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y : tensor<2x32x64xbf16>
// CHECK-NEXT: }
// CHECK:      func.func @truth(%q: tensor<2x32x64xbf16>, %k: tensor<2x40x32xbf16>, %v: tensor<2x40x32xbf16>, %m: tensor<32x40xi1>) -> tensor<2x32x64xbf16> {
// CHECK-NEXT:   %y = coda.attention %q, %k, %v mask(%m : tensor<32x40xi1>) {head_dim = 16 : i64, causal = false} : (tensor<2x32x64xbf16>, tensor<2x40x32xbf16>, tensor<2x40x32xbf16>) -> tensor<2x32x64xbf16>
// CHECK-NEXT:   func.return %y : tensor<2x32x64xbf16>
// CHECK-NEXT: }

// -----

// A tile would have few queries.

func.func @few(%q: tensor<2x3x64xbf16>, %k: tensor<2x40x32xbf16>, %v: tensor<2x40x32xbf16>) -> tensor<2x3x64xbf16> {
  %y = coda.attention %q, %k, %v {head_dim = 16 : i64, causal = true, window = 8 : i64} : (tensor<2x3x64xbf16>, tensor<2x40x32xbf16>, tensor<2x40x32xbf16>) -> tensor<2x3x64xbf16>
  func.return %y : tensor<2x3x64xbf16>
}

// CHECK:      func.func @few(%q: tensor<2x3x64xbf16>, %k: tensor<2x40x32xbf16>, %v: tensor<2x40x32xbf16>) -> tensor<2x3x64xbf16> {
// CHECK-NEXT:   %y = coda.attention %q, %k, %v {head_dim = 16 : i64, causal = true, window = 8 : i64} : (tensor<2x3x64xbf16>, tensor<2x40x32xbf16>, tensor<2x40x32xbf16>) -> tensor<2x3x64xbf16>
// CHECK-NEXT:   func.return %y : tensor<2x3x64xbf16>
// CHECK-NEXT: }

// -----

// A window of all positions.

func.func @wide_window(%q: tensor<2x32x64xbf16>, %k: tensor<2x40x32xbf16>, %v: tensor<2x40x32xbf16>) -> tensor<2x32x64xbf16> {
  %y = coda.attention %q, %k, %v {head_dim = 16 : i64, causal = true, window = 40 : i64} : (tensor<2x32x64xbf16>, tensor<2x40x32xbf16>, tensor<2x40x32xbf16>) -> tensor<2x32x64xbf16>
  func.return %y : tensor<2x32x64xbf16>
}

// CHECK:      func.func @wide_window(%q: tensor<2x32x64xbf16>, %k: tensor<2x40x32xbf16>, %v: tensor<2x40x32xbf16>) -> tensor<2x32x64xbf16> {
// CHECK-NEXT:   %y = coda.attention %q, %k, %v {head_dim = 16 : i64, causal = true, window = 40 : i64} : (tensor<2x32x64xbf16>, tensor<2x40x32xbf16>, tensor<2x40x32xbf16>) -> tensor<2x32x64xbf16>
// CHECK-NEXT:   func.return %y : tensor<2x32x64xbf16>
// CHECK-NEXT: }

// -----

// The gradient of sinks, from the logsumexp and the moment.

func.func @sinks_gradient(%dy: tensor<2x6x64xbf16>, %y: tensor<2x6x64xbf16>, %lse: tensor<2x4x6xf32>, %q: tensor<2x6x64xbf16>, %k: tensor<2x9x32xbf16>, %v: tensor<2x9x32xbf16>, %s: tensor<4xbf16>, %m: tensor<6x9xi1>) -> (tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>, tensor<4xbf16>) {
  %dq, %dk, %dv, %d = coda.attention_grad %dy, %y, %lse, %q, %k, %v sinks(%s : tensor<4xbf16>) mask(%m : tensor<6x9xi1>) {head_dim = 16 : i64, causal = true} : (tensor<2x6x64xbf16>, tensor<2x6x64xbf16>, tensor<2x4x6xf32>, tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>) -> (tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16> sinks tensor<4xbf16>)
  func.return %dq, %dk, %dv, %d : tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>, tensor<4xbf16>
}

// CHECK:      func.func @sinks_gradient(
// CHECK-NEXT:   %moment, %dq = gemm.attention_dq (%dy : tensor<2x6x64xbf16>, %y : tensor<2x6x64xbf16>, %lse : tensor<2x4x6xf32>, %q : tensor<2x6x64xbf16>, %k : tensor<2x9x32xbf16>, %v : tensor<2x9x32xbf16>) mask(%m : tensor<6x9xi1>) {head_dim = 16 : i64, causal = true}
// CHECK-NEXT:       -> (tile : tensor<2x6x64xbf16>) {
// CHECK-NEXT:     ^bb0(%dq_1: f32):
// CHECK-NEXT:       gemm.yield %dq_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %dk, %dv = gemm.attention_dkv (%dy : tensor<2x6x64xbf16>, %moment : tensor<2x4x6xf32>, %lse : tensor<2x4x6xf32>, %q : tensor<2x6x64xbf16>, %k : tensor<2x9x32xbf16>, %v : tensor<2x9x32xbf16>) mask(%m : tensor<6x9xi1>) {head_dim = 16 : i64, causal = true}
// CHECK-NEXT:       -> (tile : tensor<2x9x32xbf16>, tile : tensor<2x9x32xbf16>) {
// CHECK-NEXT:     ^bb0(%dk_1: f32, %dv_1: f32):
// CHECK-NEXT:       gemm.yield %dk_1, %dv_1 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %s_1 = coda.cast %s : (tensor<4xbf16>) -> tensor<4xf32>
// CHECK-NEXT:   %0 = coda.reshape %s_1 : (tensor<4xf32>) -> tensor<4x1xf32>
// CHECK-NEXT:   %1 = coda.sub %0, %lse : (tensor<4x1xf32>, tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
// CHECK-NEXT:   %sink_weights = coda.exp %1 : (tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
// CHECK-NEXT:   %2 = coda.mul %sink_weights, %moment : (tensor<2x4x6xf32>, tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
// CHECK-NEXT:   %3 = coda.sum_to %2 : (tensor<2x4x6xf32>) -> tensor<4x1xf32>
// CHECK-NEXT:   %4 = coda.reshape %3 : (tensor<4x1xf32>) -> tensor<4xf32>
// CHECK-NEXT:   %5 = coda.neg %4 : (tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT:   %d = coda.cast %5 : (tensor<4xf32>) -> tensor<4xbf16>
// CHECK-NEXT:   func.return %dq, %dk, %dv, %d : tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>, tensor<4xbf16>
// CHECK-NEXT: }

// -----

// Sinks of the forward.

func.func @forward_sinks(%q: tensor<2x32x64xbf16>, %k: tensor<2x40x32xbf16>, %v: tensor<2x40x32xbf16>, %s: tensor<4xbf16>) -> tensor<2x32x64xbf16> {
  %y = coda.attention %q, %k, %v sinks(%s : tensor<4xbf16>) {head_dim = 16 : i64, causal = true, window = 8 : i64} : (tensor<2x32x64xbf16>, tensor<2x40x32xbf16>, tensor<2x40x32xbf16>) -> tensor<2x32x64xbf16>
  func.return %y : tensor<2x32x64xbf16>
}

// CHECK:      func.func @forward_sinks(
// CHECK-NEXT:   %lse, %y = gemm.attention (%q : tensor<2x32x64xbf16>, %k : tensor<2x40x32xbf16>, %v : tensor<2x40x32xbf16>) sinks(%s : tensor<4xbf16>) {head_dim = 16 : i64, causal = true, window = 8 : i64}
// CHECK-NEXT:       -> (tile : tensor<2x32x64xbf16>) {
// CHECK-NEXT:     ^bb0(%y_1: f32):
// CHECK-NEXT:       gemm.yield %y_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y : tensor<2x32x64xbf16>
// CHECK-NEXT: }

// -----

// Heads of 80 columns, which are multiplied as 64 and 16.

func.func @odd_heads(%q: tensor<2x32x160xbf16>, %k: tensor<2x40x80xbf16>, %v: tensor<2x40x80xbf16>) -> tensor<2x32x160xbf16> {
  %y = coda.attention %q, %k, %v {head_dim = 80 : i64, causal = true, softcap = 50.0 : f64} : (tensor<2x32x160xbf16>, tensor<2x40x80xbf16>, tensor<2x40x80xbf16>) -> tensor<2x32x160xbf16>
  func.return %y : tensor<2x32x160xbf16>
}

// CHECK:      func.func @odd_heads(
// CHECK-NEXT:   %lse, %y = gemm.attention (%q : tensor<2x32x160xbf16>, %k : tensor<2x40x80xbf16>, %v : tensor<2x40x80xbf16>) {head_dim = 80 : i64, causal = true, softcap = 5.000000e+01 : f64}
// CHECK-NEXT:       -> (tile : tensor<2x32x160xbf16>) {
// CHECK-NEXT:     ^bb0(%y_1: f32):
// CHECK-NEXT:       gemm.yield %y_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y : tensor<2x32x160xbf16>
// CHECK-NEXT: }

// -----

// Heads of values with other columns than those of keys, as in multi-head latent attention.

func.func @narrow_values(%dy: tensor<2x6x64xbf16>, %y: tensor<2x6x64xbf16>, %lse: tensor<2x4x6xf32>, %q: tensor<2x6x96xbf16>, %k: tensor<2x9x48xbf16>, %v: tensor<2x9x32xbf16>) -> (tensor<2x6x96xbf16>, tensor<2x9x48xbf16>, tensor<2x9x32xbf16>) {
  %dq, %dk, %dv = coda.attention_grad %dy, %y, %lse, %q, %k, %v {head_dim = 24 : i64, value_dim = 16 : i64, causal = true} : (tensor<2x6x64xbf16>, tensor<2x6x64xbf16>, tensor<2x4x6xf32>, tensor<2x6x96xbf16>, tensor<2x9x48xbf16>, tensor<2x9x32xbf16>) -> (tensor<2x6x96xbf16>, tensor<2x9x48xbf16>, tensor<2x9x32xbf16>)
  func.return %dq, %dk, %dv : tensor<2x6x96xbf16>, tensor<2x9x48xbf16>, tensor<2x9x32xbf16>
}

// CHECK:      func.func @narrow_values(
// CHECK-NEXT:   %moment, %dq = gemm.attention_dq (%dy : tensor<2x6x64xbf16>, %y : tensor<2x6x64xbf16>, %lse : tensor<2x4x6xf32>, %q : tensor<2x6x96xbf16>, %k : tensor<2x9x48xbf16>, %v : tensor<2x9x32xbf16>) {head_dim = 24 : i64, value_dim = 16 : i64, causal = true}
// CHECK-NEXT:       -> (tile : tensor<2x6x96xbf16>) {
// CHECK-NEXT:     ^bb0(%dq_1: f32):
// CHECK-NEXT:       gemm.yield %dq_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %dk, %dv = gemm.attention_dkv (%dy : tensor<2x6x64xbf16>, %moment : tensor<2x4x6xf32>, %lse : tensor<2x4x6xf32>, %q : tensor<2x6x96xbf16>, %k : tensor<2x9x48xbf16>, %v : tensor<2x9x32xbf16>) {head_dim = 24 : i64, value_dim = 16 : i64, causal = true}
// CHECK-NEXT:       -> (tile : tensor<2x9x48xbf16>, tile : tensor<2x9x32xbf16>) {
// CHECK-NEXT:     ^bb0(%dk_1: f32, %dv_1: f32):
// CHECK-NEXT:       gemm.yield %dk_1, %dv_1 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %dq, %dk, %dv : tensor<2x6x96xbf16>, tensor<2x9x48xbf16>, tensor<2x9x32xbf16>
// CHECK-NEXT: }

// -----

// Attention that a model wrote as products and a softmax.

func.func @decomposed(%dy: tensor<2x6x64xbf16>, %y: tensor<2x6x64xbf16>, %lse: tensor<2x4x6xf32>, %q: tensor<2x6x64xbf16>, %k: tensor<2x9x32xbf16>, %v: tensor<2x9x32xbf16>) -> (tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>) {
  %dq, %dk, %dv = coda.attention_grad %dy, %y, %lse, %q, %k, %v {coda.decomposed = bf16, head_dim = 16 : i64, causal = true} : (tensor<2x6x64xbf16>, tensor<2x6x64xbf16>, tensor<2x4x6xf32>, tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>) -> (tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>)
  func.return %dq, %dk, %dv : tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>
}

// CHECK:      func.func @decomposed(
// CHECK-NEXT:   %moment, %dq = gemm.attention_dq (%dy : tensor<2x6x64xbf16>, %y : tensor<2x6x64xbf16>, %lse : tensor<2x4x6xf32>, %q : tensor<2x6x64xbf16>, %k : tensor<2x9x32xbf16>, %v : tensor<2x9x32xbf16>) {head_dim = 16 : i64, causal = true, exact_moment}
// CHECK-NEXT:       -> (tile : tensor<2x6x64xbf16>) {
// CHECK-NEXT:     ^bb0(%dq_1: f32):
// CHECK-NEXT:       gemm.yield %dq_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %dk, %dv = gemm.attention_dkv (%dy : tensor<2x6x64xbf16>, %moment : tensor<2x4x6xf32>, %lse : tensor<2x4x6xf32>, %q : tensor<2x6x64xbf16>, %k : tensor<2x9x32xbf16>, %v : tensor<2x9x32xbf16>) {head_dim = 16 : i64, causal = true}
// CHECK-NEXT:       -> (tile : tensor<2x9x32xbf16>, tile : tensor<2x9x32xbf16>) {
// CHECK-NEXT:     ^bb0(%dk_1: f32, %dv_1: f32):
// CHECK-NEXT:       gemm.yield %dk_1, %dv_1 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %dq, %dk, %dv : tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>
// CHECK-NEXT: }

// -----

// The gradient of a mask.

func.func @mask_gradient(%dy: tensor<2x6x64xbf16>, %y: tensor<2x6x64xbf16>, %lse: tensor<2x4x6xf32>, %q: tensor<2x6x64xbf16>, %k: tensor<2x9x32xbf16>, %v: tensor<2x9x32xbf16>, %m: tensor<4x6x9xbf16>) -> (tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>, tensor<4x6x9xbf16>) {
  %dq, %dk, %dv, %d = coda.attention_grad %dy, %y, %lse, %q, %k, %v mask(%m : tensor<4x6x9xbf16>) {head_dim = 16 : i64, causal = true} : (tensor<2x6x64xbf16>, tensor<2x6x64xbf16>, tensor<2x4x6xf32>, tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>) -> (tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16> mask tensor<4x6x9xbf16>)
  func.return %dq, %dk, %dv, %d : tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>, tensor<4x6x9xbf16>
}

// CHECK:      func.func @mask_gradient(
// CHECK-NEXT:   %moment, %dq = gemm.attention_dq (%dy : tensor<2x6x64xbf16>, %y : tensor<2x6x64xbf16>, %lse : tensor<2x4x6xf32>, %q : tensor<2x6x64xbf16>, %k : tensor<2x9x32xbf16>, %v : tensor<2x9x32xbf16>) mask(%m : tensor<4x6x9xbf16>) {head_dim = 16 : i64, causal = true, exact_moment}
// CHECK-NEXT:       -> (tile : tensor<2x6x64xbf16>) {
// CHECK-NEXT:     ^bb0(%dq_1: f32):
// CHECK-NEXT:       gemm.yield %dq_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %dk, %dv = gemm.attention_dkv (%dy : tensor<2x6x64xbf16>, %moment : tensor<2x4x6x2xf32>, %lse : tensor<2x4x6xf32>, %q : tensor<2x6x64xbf16>, %k : tensor<2x9x32xbf16>, %v : tensor<2x9x32xbf16>) mask(%m : tensor<4x6x9xbf16>) {head_dim = 16 : i64, causal = true}
// CHECK-NEXT:       -> (tile : tensor<2x9x32xbf16>, tile : tensor<2x9x32xbf16>) {
// CHECK-NEXT:     ^bb0(%dk_1: f32, %dv_1: f32):
// CHECK-NEXT:       gemm.yield %dk_1, %dv_1 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %d_mask = gemm.attention_dmask (%dy : tensor<2x6x64xbf16>, %moment : tensor<2x4x6x2xf32>, %lse : tensor<2x4x6xf32>, %q : tensor<2x6x64xbf16>, %k : tensor<2x9x32xbf16>, %v : tensor<2x9x32xbf16>) mask(%m : tensor<4x6x9xbf16>) {head_dim = 16 : i64, causal = true}
// CHECK-NEXT:       -> () {
// CHECK-NEXT:       gemm.yield
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %dq, %dk, %dv, %d_mask : tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>, tensor<4x6x9xbf16>
// CHECK-NEXT: }

// -----

// A number for each key of a batch: a sum over the queries follows.

func.func @mask_of_keys(%dy: tensor<2x6x64xbf16>, %y: tensor<2x6x64xbf16>, %lse: tensor<2x4x6xf32>, %q: tensor<2x6x64xbf16>, %k: tensor<2x9x32xbf16>, %v: tensor<2x9x32xbf16>, %m: tensor<2x1x1x9xf32>) -> (tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>, tensor<2x1x1x9xf32>) {
  %dq, %dk, %dv, %d = coda.attention_grad %dy, %y, %lse, %q, %k, %v mask(%m : tensor<2x1x1x9xf32>) {head_dim = 16 : i64, causal = true} : (tensor<2x6x64xbf16>, tensor<2x6x64xbf16>, tensor<2x4x6xf32>, tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>) -> (tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16> mask tensor<2x1x1x9xf32>)
  func.return %dq, %dk, %dv, %d : tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>, tensor<2x1x1x9xf32>
}

// CHECK:      func.func @mask_of_keys(
// CHECK-NEXT:   %moment, %dq = gemm.attention_dq (%dy : tensor<2x6x64xbf16>, %y : tensor<2x6x64xbf16>, %lse : tensor<2x4x6xf32>, %q : tensor<2x6x64xbf16>, %k : tensor<2x9x32xbf16>, %v : tensor<2x9x32xbf16>) mask(%m : tensor<2x1x1x9xf32>) {head_dim = 16 : i64, causal = true, exact_moment}
// CHECK-NEXT:       -> (tile : tensor<2x6x64xbf16>) {
// CHECK-NEXT:     ^bb0(%dq_1: f32):
// CHECK-NEXT:       gemm.yield %dq_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %dk, %dv = gemm.attention_dkv (%dy : tensor<2x6x64xbf16>, %moment : tensor<2x4x6x2xf32>, %lse : tensor<2x4x6xf32>, %q : tensor<2x6x64xbf16>, %k : tensor<2x9x32xbf16>, %v : tensor<2x9x32xbf16>) mask(%m : tensor<2x1x1x9xf32>) {head_dim = 16 : i64, causal = true}
// CHECK-NEXT:       -> (tile : tensor<2x9x32xbf16>, tile : tensor<2x9x32xbf16>) {
// CHECK-NEXT:     ^bb0(%dk_1: f32, %dv_1: f32):
// CHECK-NEXT:       gemm.yield %dk_1, %dv_1 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %d_mask = gemm.attention_dmask (%dy : tensor<2x6x64xbf16>, %moment : tensor<2x4x6x2xf32>, %lse : tensor<2x4x6xf32>, %q : tensor<2x6x64xbf16>, %k : tensor<2x9x32xbf16>, %v : tensor<2x9x32xbf16>) mask(%m : tensor<2x1x1x9xf32>) {head_dim = 16 : i64, causal = true}
// CHECK-NEXT:       -> () {
// CHECK-NEXT:       gemm.yield
// CHECK-NEXT:     }
// CHECK-NEXT:   %d = coda.sum_to %d_mask : (tensor<2x1x6x9xf32>) -> tensor<2x1x1x9xf32>
// CHECK-NEXT:   func.return %dq, %dk, %dv, %d : tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>, tensor<2x1x1x9xf32>
// CHECK-NEXT: }

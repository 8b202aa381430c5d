// RUN: coda-opt %s -p fuse-attention --split-input-file | filecheck %s
// RUN: coda-opt %s -p fuse-attention --split-input-file --remarks=passed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// A rotation that is undone, and a sum of rows: pairs of columns in one head.

func.func @queries(%dy: tensor<2x6x64xbf16>, %y: tensor<2x6x64xbf16>, %lse: tensor<2x4x6xf32>, %q: tensor<2x6x64xbf16>, %k: tensor<2x9x32xbf16>, %v: tensor<2x9x32xbf16>, %cos: tensor<6x8xf32>, %z: tensor<2x6x64xbf16>) -> (tensor<2x6x64xbf16>, tensor<2x6x1xf32>) {
  %moment, %dq = gemm.attention_dq (%dy : tensor<2x6x64xbf16>, %y : tensor<2x6x64xbf16>, %lse : tensor<2x4x6xf32>, %q : tensor<2x6x64xbf16>, %k : tensor<2x9x32xbf16>, %v : tensor<2x9x32xbf16>) {head_dim = 16 : i64, causal = true}
      -> (tile : tensor<2x6x64xbf16>) {
    ^bb0(%a: f32):
      gemm.yield %a : f32
    }
  %dz, %p = gemm.map pair<halves, 16> tile(%dq : tensor<2x6x64xbf16>) half_table(%cos : tensor<6x8xf32>) tile(%z : tensor<2x6x64xbf16>)
      -> (tile : tensor<2x6x64xbf16>, partial_row<add> : tensor<2x6x?xf32>) {
    ^bb0(%a: f32, %b: f32, %c: f32, %za: f32, %zb: f32):
      %ca = arith.mulf %a, %c : f32
      %cb = arith.mulf %b, %c : f32
      %sa = arith.mulf %ca, %za : f32
      %sb = arith.mulf %cb, %zb : f32
      %s = arith.addf %sa, %sb : f32
      gemm.yield %ca, %cb, %s : f32, f32, f32
    }
  %sum = gemm.finalize row (add %p : tensor<2x6x?xf32>) -> (tensor<2x6x1xf32>) {
    ^bb0(%t: f32):
      gemm.yield %t : f32
    }
  func.return %dz, %sum : tensor<2x6x64xbf16>, tensor<2x6x1xf32>
}

// REMARK: remark[passed] fuse-attention: gemm.map: fused into the epilogue of the attention kernel
// CHECK:      func.func @queries(
// CHECK-NEXT:   %moment, %dz, %p = gemm.attention_dq (%dy : tensor<2x6x64xbf16>, %y : tensor<2x6x64xbf16>, %lse : tensor<2x4x6xf32>, %q : tensor<2x6x64xbf16>, %k : tensor<2x9x32xbf16>, %v : tensor<2x9x32xbf16>) {head_dim = 16 : i64, causal = true} pair<halves, 16> half_table(%cos : tensor<6x8xf32>) tile(%z : tensor<2x6x64xbf16>)
// CHECK-NEXT:       -> (tile : tensor<2x6x64xbf16>, partial_row<add> : tensor<2x6x?xf32>) {
// CHECK-NEXT:     ^bb0(%a: f32, %a_1: f32, %cos_1: f32, %z_1: f32, %z_2: f32):
// CHECK-NEXT:       %ca = arith.mulf %a, %cos_1 : f32
// CHECK-NEXT:       %cb = arith.mulf %a_1, %cos_1 : f32
// CHECK-NEXT:       %sa = arith.mulf %ca, %z_1 : f32
// CHECK-NEXT:       %sb = arith.mulf %cb, %z_2 : f32
// CHECK-NEXT:       %s = arith.addf %sa, %sb : f32
// CHECK-NEXT:       gemm.yield %ca, %cb, %s : f32, f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %sum = gemm.finalize row (add %p : tensor<2x6x?xf32>) -> (tensor<2x6x1xf32>) {
// CHECK-NEXT:   ^bb0(%t: f32):
// CHECK-NEXT:     gemm.yield %t : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %dz, %sum : tensor<2x6x64xbf16>, tensor<2x6x1xf32>
// CHECK-NEXT: }

// -----

// Both gradients of the keys' kernel; what is read again is stored, too.

func.func @keys(%dy: tensor<2x6x64xbf16>, %moment: tensor<2x4x6xf32>, %lse: tensor<2x4x6xf32>, %q: tensor<2x6x64xbf16>, %k: tensor<2x9x32xbf16>, %v: tensor<2x9x32xbf16>) -> (tensor<2x9x32xbf16>, tensor<2x9x32xbf16>, tensor<2x9x1xf32>) {
  %dk, %dv = gemm.attention_dkv (%dy : tensor<2x6x64xbf16>, %moment : tensor<2x4x6xf32>, %lse : tensor<2x4x6xf32>, %q : tensor<2x6x64xbf16>, %k : tensor<2x9x32xbf16>, %v : tensor<2x9x32xbf16>) {head_dim = 16 : i64, causal = true}
      -> (tile : tensor<2x9x32xbf16>, tile : tensor<2x9x32xbf16>) {
    ^bb0(%a: f32, %b: f32):
      gemm.yield %a, %b : f32, f32
    }
  %dz, %p = gemm.map tile(%dk : tensor<2x9x32xbf16>, %k : tensor<2x9x32xbf16>, %dv : tensor<2x9x32xbf16>, %v : tensor<2x9x32xbf16>)
      -> (tile : tensor<2x9x32xbf16>, partial_row<add> : tensor<2x9x?xf32>) {
    ^bb0(%a: f32, %b: f32, %c: f32, %d: f32):
      %0 = arith.mulf %a, %b : f32
      %1 = arith.mulf %c, %d : f32
      %2 = arith.addf %0, %1 : f32
      %3 = gemm.group_reduce add %2 over 8 : f32
      gemm.yield %3, %2 : f32, f32
    }
  %sum = gemm.finalize row (add %p : tensor<2x9x?xf32>) -> (tensor<2x9x1xf32>) {
    ^bb0(%t: f32):
      gemm.yield %t : f32
    }
  func.return %dz, %dv, %sum : tensor<2x9x32xbf16>, tensor<2x9x32xbf16>, tensor<2x9x1xf32>
}

// REMARK: remark[passed] fuse-attention: gemm.map: fused into the epilogue of the attention kernel
// CHECK:      func.func @keys(
// CHECK-NEXT:   %dv, %dz, %p = gemm.attention_dkv (%dy : tensor<2x6x64xbf16>, %moment : tensor<2x4x6xf32>, %lse : tensor<2x4x6xf32>, %q : tensor<2x6x64xbf16>, %k : tensor<2x9x32xbf16>, %v : tensor<2x9x32xbf16>) {head_dim = 16 : i64, causal = true} tile(%k : tensor<2x9x32xbf16>, %v : tensor<2x9x32xbf16>)
// CHECK-NEXT:       -> (tile : tensor<2x9x32xbf16>, tile : tensor<2x9x32xbf16>, partial_row<add> : tensor<2x9x?xf32>) {
// CHECK-NEXT:     ^bb0(%a: f32, %b: f32, %k_1: f32, %v_1: f32):
// CHECK-NEXT:       %0 = arith.mulf %a, %k_1 : f32
// CHECK-NEXT:       %1 = arith.mulf %b, %v_1 : f32
// CHECK-NEXT:       %2 = arith.addf %0, %1 : f32
// CHECK-NEXT:       %3 = gemm.group_reduce add %2 over 8 : f32
// CHECK-NEXT:       gemm.yield %b, %3, %2 : f32, f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %sum = gemm.finalize row (add %p : tensor<2x9x?xf32>) -> (tensor<2x9x1xf32>) {
// CHECK-NEXT:   ^bb0(%t: f32):
// CHECK-NEXT:     gemm.yield %t : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %dz, %dv, %sum : tensor<2x9x32xbf16>, tensor<2x9x32xbf16>, tensor<2x9x1xf32>
// CHECK-NEXT: }

// -----

// One kernel after the other joins; column sums of both gradients.

func.func @both(%dy: tensor<2x6x64xbf16>, %moment: tensor<2x4x6xf32>, %lse: tensor<2x4x6xf32>, %q: tensor<2x6x64xbf16>, %k: tensor<2x9x32xbf16>, %v: tensor<2x9x32xbf16>) -> (tensor<2x9x32xbf16>, tensor<2x9x32xbf16>, tensor<32xf32>, tensor<32xf32>) {
  %dk, %dv = gemm.attention_dkv (%dy : tensor<2x6x64xbf16>, %moment : tensor<2x4x6xf32>, %lse : tensor<2x4x6xf32>, %q : tensor<2x6x64xbf16>, %k : tensor<2x9x32xbf16>, %v : tensor<2x9x32xbf16>) {head_dim = 16 : i64, causal = true}
      -> (tile : tensor<2x9x32xbf16>, tile : tensor<2x9x32xbf16>) {
    ^bb0(%a: f32, %b: f32):
      gemm.yield %a, %b : f32, f32
    }
  %pdk = gemm.map tile(%dk : tensor<2x9x32xbf16>)
      -> (partial_col<add> : tensor<?x32xf32>) {
    ^bb0(%a: f32):
      gemm.yield %a : f32
    }
  %bdk = gemm.finalize col (add %pdk : tensor<?x32xf32>) -> (tensor<32xf32>) {
    ^bb0(%t: f32):
      gemm.yield %t : f32
    }
  %pdv = gemm.map tile(%dv : tensor<2x9x32xbf16>)
      -> (partial_col<add> : tensor<?x32xf32>) {
    ^bb0(%a: f32):
      gemm.yield %a : f32
    }
  %bdv = gemm.finalize col (add %pdv : tensor<?x32xf32>) -> (tensor<32xf32>) {
    ^bb0(%t: f32):
      gemm.yield %t : f32
    }
  func.return %dk, %dv, %bdk, %bdv : tensor<2x9x32xbf16>, tensor<2x9x32xbf16>, tensor<32xf32>, tensor<32xf32>
}

// REMARK: remark[passed] fuse-attention: gemm.map: fused into the epilogue of the attention kernel
// REMARK: remark[passed] fuse-attention: gemm.map: fused into the epilogue of the attention kernel
// CHECK:      func.func @both(
// CHECK-NEXT:   %dk, %dv, %pdk, %pdv = gemm.attention_dkv (%dy : tensor<2x6x64xbf16>, %moment : tensor<2x4x6xf32>, %lse : tensor<2x4x6xf32>, %q : tensor<2x6x64xbf16>, %k : tensor<2x9x32xbf16>, %v : tensor<2x9x32xbf16>) {head_dim = 16 : i64, causal = true}
// CHECK-NEXT:       -> (tile : tensor<2x9x32xbf16>, tile : tensor<2x9x32xbf16>, partial_col<add> : tensor<?x32xf32>, partial_col<add> : tensor<?x32xf32>) {
// CHECK-NEXT:     ^bb0(%a: f32, %b: f32):
// CHECK-NEXT:       gemm.yield %a, %b, %a, %b : f32, f32, f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %bdk = gemm.finalize col (add %pdk : tensor<?x32xf32>) -> (tensor<32xf32>) {
// CHECK-NEXT:   ^bb0(%t: f32):
// CHECK-NEXT:     gemm.yield %t : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   %bdv = gemm.finalize col (add %pdv : tensor<?x32xf32>) -> (tensor<32xf32>) {
// CHECK-NEXT:   ^bb0(%t: f32):
// CHECK-NEXT:     gemm.yield %t : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %dk, %dv, %bdk, %bdv : tensor<2x9x32xbf16>, tensor<2x9x32xbf16>, tensor<32xf32>, tensor<32xf32>
// CHECK-NEXT: }

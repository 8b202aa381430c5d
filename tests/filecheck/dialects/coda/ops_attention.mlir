// RUN: coda-opt %s | filecheck %s
// RUN: coda-opt %s | coda-opt -f mlir | filecheck %s
// RUN: coda-opt %s --print-op-generic | coda-opt -f mlir | filecheck %s

// What attention adds to its scores, and what it hides.

// CHECK:      func.func @attention(%q: tensor<?x?x16xbf16>, %k: tensor<?x?x8xbf16>, %v: tensor<?x?x8xbf16>, %s: tensor<4xbf16>, %ws: tensor<4xf32>, %m: tensor<?x1x1x?xi1>, %a: tensor<4x1x?xf32>, %b: tensor<?x?xbf16>, %u: tensor<?x?x6xbf16>) {
// CHECK-NEXT:   %nearby = coda.attention %q, %k, %v {head_dim = 4 : i64, causal = false, window = 3 : i64} : (tensor<?x?x16xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>) -> tensor<?x?x16xbf16>
// CHECK-NEXT:   %sinks = coda.attention %q, %k, %v sinks(%s : tensor<4xbf16>) {head_dim = 4 : i64, causal = true, window = 128 : i64} : (tensor<?x?x16xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>) -> tensor<?x?x16xbf16>
// CHECK-NEXT:   %wide_sinks = coda.attention %q, %k, %v sinks(%ws : tensor<4xf32>) {head_dim = 4 : i64, causal = true} : (tensor<?x?x16xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>) -> tensor<?x?x16xbf16>
// CHECK-NEXT:   %padded = coda.attention %q, %k, %v mask(%m : tensor<?x1x1x?xi1>) {head_dim = 4 : i64, causal = true} : (tensor<?x?x16xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>) -> tensor<?x?x16xbf16>
// CHECK-NEXT:   %alibi = coda.attention %q, %k, %v mask(%a : tensor<4x1x?xf32>) {head_dim = 4 : i64, causal = true} : (tensor<?x?x16xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>) -> tensor<?x?x16xbf16>
// CHECK-NEXT:   %all = coda.attention %q, %k, %v sinks(%s : tensor<4xbf16>) mask(%b : tensor<?x?xbf16>) {head_dim = 4 : i64, causal = true, window = 1 : i64, scale = 2.500000e-01 : f64, softcap = 5.000000e+01 : f64} : (tensor<?x?x16xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>) -> tensor<?x?x16xbf16>
// CHECK-NEXT:   %narrow = coda.attention %q, %k, %u {head_dim = 4 : i64, value_dim = 3 : i64, causal = true} : (tensor<?x?x16xbf16>, tensor<?x?x8xbf16>, tensor<?x?x6xbf16>) -> tensor<?x?x12xbf16>
// CHECK-NEXT:   func.return
func.func @attention(%q: tensor<?x?x16xbf16>, %k: tensor<?x?x8xbf16>, %v: tensor<?x?x8xbf16>, %s: tensor<4xbf16>, %ws: tensor<4xf32>, %m: tensor<?x1x1x?xi1>, %a: tensor<4x1x?xf32>, %b: tensor<?x?xbf16>, %u: tensor<?x?x6xbf16>) {
  %nearby = coda.attention %q, %k, %v {head_dim = 4 : i64, causal = false, window = 3 : i64} : (tensor<?x?x16xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>) -> tensor<?x?x16xbf16>
  %sinks = coda.attention %q, %k, %v sinks(%s : tensor<4xbf16>) {head_dim = 4 : i64, causal = true, window = 128 : i64} : (tensor<?x?x16xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>) -> tensor<?x?x16xbf16>
  %wide_sinks = coda.attention %q, %k, %v sinks(%ws : tensor<4xf32>) {head_dim = 4 : i64, causal = true} : (tensor<?x?x16xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>) -> tensor<?x?x16xbf16>
  %padded = coda.attention %q, %k, %v mask(%m : tensor<?x1x1x?xi1>) {head_dim = 4 : i64, causal = true} : (tensor<?x?x16xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>) -> tensor<?x?x16xbf16>
  %alibi = coda.attention %q, %k, %v mask(%a : tensor<4x1x?xf32>) {head_dim = 4 : i64, causal = true} : (tensor<?x?x16xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>) -> tensor<?x?x16xbf16>
  %all = coda.attention %q, %k, %v sinks(%s : tensor<4xbf16>) mask(%b : tensor<?x?xbf16>) {head_dim = 4 : i64, causal = true, window = 1 : i64, scale = 2.500000e-01 : f64, softcap = 5.000000e+01 : f64} : (tensor<?x?x16xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>) -> tensor<?x?x16xbf16>
  %narrow = coda.attention %q, %k, %u {head_dim = 4 : i64, value_dim = 3 : i64, causal = true} : (tensor<?x?x16xbf16>, tensor<?x?x8xbf16>, tensor<?x?x6xbf16>) -> tensor<?x?x12xbf16>
  func.return
}

// What its derivative needs: the logsumexp of the scores, of each head and query.

// CHECK:      func.func @gradients(%q: tensor<?x?x16xbf16>, %k: tensor<?x?x8xbf16>, %v: tensor<?x?x8xbf16>, %s: tensor<4xbf16>, %b: tensor<?x?xf32>) {
// CHECK-NEXT:   %y, %lse = coda.attention %q, %k, %v {head_dim = 4 : i64, causal = true} : (tensor<?x?x16xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>) -> tensor<?x?x16xbf16> lse tensor<?x4x?xf32>
// CHECK-NEXT:   %dq, %dk, %dv = coda.attention_grad %q, %y, %lse, %q, %k, %v {head_dim = 4 : i64, causal = true} : (tensor<?x?x16xbf16>, tensor<?x?x16xbf16>, tensor<?x4x?xf32>, tensor<?x?x16xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>) -> (tensor<?x?x16xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>)
// CHECK-NEXT:   %eq, %ek, %ev, %es, %em = coda.attention_grad %q, %y, %lse, %q, %k, %v sinks(%s : tensor<4xbf16>) mask(%b : tensor<?x?xf32>) {head_dim = 4 : i64, causal = false} : (tensor<?x?x16xbf16>, tensor<?x?x16xbf16>, tensor<?x4x?xf32>, tensor<?x?x16xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>) -> (tensor<?x?x16xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16> sinks tensor<4xbf16> mask tensor<?x?xf32>)
// CHECK-NEXT:   func.return
func.func @gradients(%q: tensor<?x?x16xbf16>, %k: tensor<?x?x8xbf16>, %v: tensor<?x?x8xbf16>, %s: tensor<4xbf16>, %b: tensor<?x?xf32>) {
  %y, %lse = coda.attention %q, %k, %v {head_dim = 4 : i64, causal = true} : (tensor<?x?x16xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>) -> tensor<?x?x16xbf16> lse tensor<?x4x?xf32>
  %dq, %dk, %dv = coda.attention_grad %q, %y, %lse, %q, %k, %v {head_dim = 4 : i64, causal = true} : (tensor<?x?x16xbf16>, tensor<?x?x16xbf16>, tensor<?x4x?xf32>, tensor<?x?x16xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>) -> (tensor<?x?x16xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>)
  %eq, %ek, %ev, %es, %em = coda.attention_grad %q, %y, %lse, %q, %k, %v sinks(%s : tensor<4xbf16>) mask(%b : tensor<?x?xf32>) {head_dim = 4 : i64, causal = false} : (tensor<?x?x16xbf16>, tensor<?x?x16xbf16>, tensor<?x4x?xf32>, tensor<?x?x16xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>) -> (tensor<?x?x16xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16> sinks tensor<4xbf16> mask tensor<?x?xf32>)
  func.return
}

// CHECK:      func.func @rows(%x: tensor<?x8xf64>) {
// CHECK-NEXT:   %y, %lse = coda.attention %x, %x, %x {head_dim = 4 : i64, causal = true} : (tensor<?x8xf64>, tensor<?x8xf64>, tensor<?x8xf64>) -> tensor<?x8xf64> lse tensor<1x2x?xf64>
// CHECK-NEXT:   func.return
func.func @rows(%x: tensor<?x8xf64>) {
  %y, %lse = coda.attention %x, %x, %x {head_dim = 4 : i64, causal = true} : (tensor<?x8xf64>, tensor<?x8xf64>, tensor<?x8xf64>) -> tensor<?x8xf64> lse tensor<1x2x?xf64>
  func.return
}

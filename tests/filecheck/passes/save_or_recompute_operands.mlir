// RUN: coda-opt %s -p differentiate | filecheck %s
// RUN: coda-opt %s -p differentiate --remarks=analysis,passed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK
// RUN: coda-opt %s -p "differentiate{recompute=q,k}" --remarks=passed -o /dev/null 2>&1 | filecheck %s --check-prefix=AGAIN

// The backward of attention reads queries, keys and values from memory, where the forward has stored
// them, and the logsumexp that it saves is of these very numbers: they are saved, although pointwise
// code and a norm compute them. Only if they are named are they computed again.

func.func @attend(%x: tensor<?x?x16xbf16> {coda.name = "x", coda.dims = ["B", "T", 16]}, %wq: tensor<16x16xbf16> {coda.name = "wq", coda.dims = [16, 16]}, %wk: tensor<16x16xbf16> {coda.name = "wk", coda.dims = [16, 16]}) -> (tensor<?x?x16xbf16> {coda.name = "y", coda.dims = ["B", "T", 16]}) {
  %a = coda.linear %x, %wq : (tensor<?x?x16xbf16>, tensor<16x16xbf16>) -> tensor<?x?x16xbf16>
  %q = coda.rms_norm %a {eps = 1.0e-6 : f64} : (tensor<?x?x16xbf16>) -> tensor<?x?x16xbf16>
  %b = coda.linear %x, %wk : (tensor<?x?x16xbf16>, tensor<16x16xbf16>) -> tensor<?x?x16xbf16>
  %k = coda.tanh %b : (tensor<?x?x16xbf16>) -> tensor<?x?x16xbf16>
  %y = coda.attention %q, %k, %x {head_dim = 8 : i64, causal = true} : (tensor<?x?x16xbf16>, tensor<?x?x16xbf16>, tensor<?x?x16xbf16>) -> tensor<?x?x16xbf16>
  func.return %y : tensor<?x?x16xbf16>
}

// CHECK:      func.func @attend_backward(
// CHECK-NOT:    coda.tanh
// CHECK:        coda.attention_grad %d_y, %y, %y_lse, %q, %k, %x

// REMARK: coda.rms_norm: %q is saved for the backward
// REMARK: coda.tanh: %k is saved for the backward

// AGAIN: %q is recomputed in the backward
// AGAIN: %k is recomputed in the backward

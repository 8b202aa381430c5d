// RUN: coda-opt %s | filecheck %s
// RUN: coda-opt %s | coda-opt -f mlir | filecheck %s
// RUN: coda-opt %s --print-op-generic | coda-opt -f mlir | filecheck %s

// Gates, rotary embedding, attention, loss and embedding.

// CHECK:      func.func @block(%x: tensor<?x16xbf16>, %q: tensor<?x?x16xbf16>, %k: tensor<?x?x8xbf16>, %v: tensor<?x?x8xbf16>, %cos: tensor<?x2xf32>, %sin: tensor<?x2xf32>, %bcos: tensor<?x?x2xf32>, %bsin: tensor<?x?x2xf32>, %t: tensor<?xi64>, %ids: tensor<?x?xi32>, %table: tensor<32x8xbf16>) {
// CHECK-NEXT:   %glu_identity = coda.glu %x {activation = "identity"} : (tensor<?x16xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %glu_silu = coda.glu %x {activation = "silu"} : (tensor<?x16xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %glu_gelu = coda.glu %x {activation = "gelu"} : (tensor<?x16xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %glu_gelu_tanh = coda.glu %x {activation = "gelu_tanh"} : (tensor<?x16xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %glu_relu = coda.glu %x {activation = "relu"} : (tensor<?x16xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %glu_relu2 = coda.glu %x {activation = "relu2"} : (tensor<?x16xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %glu_sigmoid = coda.glu %x {activation = "sigmoid"} : (tensor<?x16xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %glu_tanh = coda.glu %x {activation = "tanh"} : (tensor<?x16xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %rope = coda.rope %q, %cos, %sin {head_dim = 4 : i64, layout = "half_split"} : (tensor<?x?x16xbf16>, tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x?x16xbf16>
// CHECK-NEXT:   %rope_i = coda.rope %q, %bcos, %bsin {head_dim = 4 : i64, layout = "interleaved"} : (tensor<?x?x16xbf16>, tensor<?x?x2xf32>, tensor<?x?x2xf32>) -> tensor<?x?x16xbf16>
// CHECK-NEXT:   %attention = coda.attention %q, %k, %v {head_dim = 4 : i64, causal = true} : (tensor<?x?x16xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>) -> tensor<?x?x16xbf16>
// CHECK-NEXT:   %capped = coda.attention %q, %k, %v {head_dim = 4 : i64, causal = false, scale = 2.500000e-01 : f64, softcap = 5.000000e+01 : f64} : (tensor<?x?x16xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>) -> tensor<?x?x16xbf16>
// CHECK-NEXT:   %loss = coda.cross_entropy %x, %t {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x16xbf16>, tensor<?xi64>) -> tensor<f32>
// CHECK-NEXT:   %losses = coda.cross_entropy %x, %t {ignore_index = 0 : i64, reduction = "none"} : (tensor<?x16xbf16>, tensor<?xi64>) -> tensor<?xf32>
// CHECK-NEXT:   %total = coda.cross_entropy %x, %t {ignore_index = -100 : i64, reduction = "sum"} : (tensor<?x16xbf16>, tensor<?xi64>) -> tensor<f32>
// CHECK-NEXT:   %again, %lse, %lse_rest = coda.cross_entropy %x, %t {ignore_index = -100 : i64, reduction = "sum"} : (tensor<?x16xbf16>, tensor<?xi64>) -> (tensor<f32>, tensor<?x1xf32>, tensor<?x1xf32>)
// CHECK-NEXT:   %embedded = coda.embedding %ids, %table : (tensor<?x?xi32>, tensor<32x8xbf16>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   %padded = coda.embedding %ids, %table {padding_idx = 31 : i64} : (tensor<?x?xi32>, tensor<32x8xbf16>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   func.return
func.func @block(%x: tensor<?x16xbf16>, %q: tensor<?x?x16xbf16>, %k: tensor<?x?x8xbf16>, %v: tensor<?x?x8xbf16>, %cos: tensor<?x2xf32>, %sin: tensor<?x2xf32>, %bcos: tensor<?x?x2xf32>, %bsin: tensor<?x?x2xf32>, %t: tensor<?xi64>, %ids: tensor<?x?xi32>, %table: tensor<32x8xbf16>) {
  %glu_identity = coda.glu %x {activation = "identity"} : (tensor<?x16xbf16>) -> tensor<?x8xbf16>
  %glu_silu = coda.glu %x {activation = "silu"} : (tensor<?x16xbf16>) -> tensor<?x8xbf16>
  %glu_gelu = coda.glu %x {activation = "gelu"} : (tensor<?x16xbf16>) -> tensor<?x8xbf16>
  %glu_gelu_tanh = coda.glu %x {activation = "gelu_tanh"} : (tensor<?x16xbf16>) -> tensor<?x8xbf16>
  %glu_relu = coda.glu %x {activation = "relu"} : (tensor<?x16xbf16>) -> tensor<?x8xbf16>
  %glu_relu2 = coda.glu %x {activation = "relu2"} : (tensor<?x16xbf16>) -> tensor<?x8xbf16>
  %glu_sigmoid = coda.glu %x {activation = "sigmoid"} : (tensor<?x16xbf16>) -> tensor<?x8xbf16>
  %glu_tanh = coda.glu %x {activation = "tanh"} : (tensor<?x16xbf16>) -> tensor<?x8xbf16>
  %rope = coda.rope %q, %cos, %sin {head_dim = 4 : i64, layout = "half_split"} : (tensor<?x?x16xbf16>, tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x?x16xbf16>
  %rope_i = coda.rope %q, %bcos, %bsin {head_dim = 4 : i64, layout = "interleaved"} : (tensor<?x?x16xbf16>, tensor<?x?x2xf32>, tensor<?x?x2xf32>) -> tensor<?x?x16xbf16>
  %attention = coda.attention %q, %k, %v {head_dim = 4 : i64, causal = true} : (tensor<?x?x16xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>) -> tensor<?x?x16xbf16>
  %capped = coda.attention %q, %k, %v {head_dim = 4 : i64, causal = false, scale = 2.500000e-01 : f64, softcap = 5.000000e+01 : f64} : (tensor<?x?x16xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>) -> tensor<?x?x16xbf16>
  %loss = coda.cross_entropy %x, %t {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x16xbf16>, tensor<?xi64>) -> tensor<f32>
  %losses = coda.cross_entropy %x, %t {ignore_index = 0 : i64, reduction = "none"} : (tensor<?x16xbf16>, tensor<?xi64>) -> tensor<?xf32>
  %total = coda.cross_entropy %x, %t {ignore_index = -100 : i64, reduction = "sum"} : (tensor<?x16xbf16>, tensor<?xi64>) -> tensor<f32>
  %again, %lse, %lse_rest = coda.cross_entropy %x, %t {ignore_index = -100 : i64, reduction = "sum"} : (tensor<?x16xbf16>, tensor<?xi64>) -> (tensor<f32>, tensor<?x1xf32>, tensor<?x1xf32>)
  %embedded = coda.embedding %ids, %table : (tensor<?x?xi32>, tensor<32x8xbf16>) -> tensor<?x?x8xbf16>
  %padded = coda.embedding %ids, %table {padding_idx = 31 : i64} : (tensor<?x?xi32>, tensor<32x8xbf16>) -> tensor<?x?x8xbf16>
  func.return
}

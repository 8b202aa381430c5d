// RUN: coda-opt %s --split-input-file --verify-diagnostics

// What the verifiers of gates, rotary embedding, attention, loss and embedding refuse.

func.func @f(%x: tensor<?x8xbf16>) {
  // expected-error@below {{property activation is "swish", expected one of identity, silu, gelu, gelu_tanh, relu, relu2, sigmoid, tanh}}
  %r = coda.glu %x {activation = "swish"} : (tensor<?x8xbf16>) -> tensor<?x4xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x7xbf16>) {
  // expected-error@below {{operand x has 7 columns, expected an even number}}
  %r = coda.glu %x {activation = "silu"} : (tensor<?x7xbf16>) -> tensor<?x3xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>) {
  // expected-error@below {{result has shape ?x8, expected ?x4}}
  %r = coda.glu %x {activation = "silu"} : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  func.return
}

// -----

func.func @f(%q: tensor<16xbf16>, %cos: tensor<?x2xf32>, %sin: tensor<?x2xf32>) {
  // expected-error@below {{operand x has rank 1, expected at least 2}}
  %r = coda.rope %q, %cos, %sin {head_dim = 4 : i64, layout = "half_split"} : (tensor<16xbf16>, tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<16xbf16>
  func.return
}

// -----

func.func @f(%q: tensor<?x?x16xbf16>, %cos: tensor<?x2xf32>, %sin: tensor<?x2xf32>) {
  // expected-error@below {{property head_dim is 3, expected an even number}}
  %r = coda.rope %q, %cos, %sin {head_dim = 3 : i64, layout = "half_split"} : (tensor<?x?x16xbf16>, tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x?x16xbf16>
  func.return
}

// -----

func.func @f(%q: tensor<?x?x16xbf16>, %cos: tensor<?x2xf32>, %sin: tensor<?x2xf32>) {
  // expected-error@below {{property head_dim is 6, expected a divisor of the 16 columns}}
  %r = coda.rope %q, %cos, %sin {head_dim = 6 : i64, layout = "half_split"} : (tensor<?x?x16xbf16>, tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x?x16xbf16>
  func.return
}

// -----

func.func @f(%q: tensor<?x?x16xbf16>, %cos: tensor<?x2xf32>, %sin: tensor<?x2xf32>) {
  // expected-error@below {{property layout is "neox", expected one of half_split, interleaved}}
  %r = coda.rope %q, %cos, %sin {head_dim = 4 : i64, layout = "neox"} : (tensor<?x?x16xbf16>, tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x?x16xbf16>
  func.return
}

// -----

func.func @f(%q: tensor<?x?x16xbf16>, %cos: tensor<2xf32>, %sin: tensor<?x2xf32>) {
  // expected-error@below {{operand cos has rank 1, expected 2 to 3}}
  %r = coda.rope %q, %cos, %sin {head_dim = 4 : i64, layout = "half_split"} : (tensor<?x?x16xbf16>, tensor<2xf32>, tensor<?x2xf32>) -> tensor<?x?x16xbf16>
  func.return
}

// -----

func.func @f(%q: tensor<?x?x16xbf16>, %cos: tensor<?x2xf32>, %sin: tensor<?x4xf32>) {
  // expected-error@below {{operand sin has shape ?x4, expected ?x2}}
  %r = coda.rope %q, %cos, %sin {head_dim = 4 : i64, layout = "half_split"} : (tensor<?x?x16xbf16>, tensor<?x2xf32>, tensor<?x4xf32>) -> tensor<?x?x16xbf16>
  func.return
}

// -----

func.func @f(%q: tensor<?x?x16xbf16>, %cos: tensor<?x3xf32>, %sin: tensor<?x3xf32>) {
  // expected-error@below {{operand cos has shape ?x3, expected ?x2}}
  %r = coda.rope %q, %cos, %sin {head_dim = 4 : i64, layout = "half_split"} : (tensor<?x?x16xbf16>, tensor<?x3xf32>, tensor<?x3xf32>) -> tensor<?x?x16xbf16>
  func.return
}

// -----

func.func @f(%q: tensor<?x?x16xbf16>, %cos: tensor<?x6xf32>, %sin: tensor<?x6xf32>) {
  // expected-error@below {{property head_dim * table_heads is 12, expected a divisor of the 16 columns}}
  %r = coda.rope %q, %cos, %sin {head_dim = 4 : i64, layout = "half_split", table_heads = 3 : i64} : (tensor<?x?x16xbf16>, tensor<?x6xf32>, tensor<?x6xf32>) -> tensor<?x?x16xbf16>
  func.return
}

// -----

func.func @f(%q: tensor<?x?x16xbf16>, %cos: tensor<?x4xf32>, %sin: tensor<?x4xf32>) {
  // expected-error@below {{operand cos has shape ?x4, expected ?x2}}
  %r = coda.rope %q, %cos, %sin {head_dim = 4 : i64, layout = "interleaved"} : (tensor<?x?x16xbf16>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x?x16xbf16>
  func.return
}

// -----

func.func @f(%q: tensor<?x?x16xbf16>, %cos: tensor<?x4xf32>, %sin: tensor<?x4xf32>) {
  // expected-error@below {{operand cos has shape ?x4, expected ?x8}}
  %r = coda.rope %q, %cos, %sin {head_dim = 4 : i64, layout = "interleaved", table_heads = 2 : i64, per_column} : (tensor<?x?x16xbf16>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x?x16xbf16>
  func.return
}

// -----

func.func @f(%q: tensor<?x?x16xbf16>, %cos: tensor<?x2xf32>, %sin: tensor<?x2xf32>) {
  // expected-error@below {{property table_heads is 0, expected at least 1}}
  %r = coda.rope %q, %cos, %sin {head_dim = 4 : i64, layout = "interleaved", table_heads = 0 : i64} : (tensor<?x?x16xbf16>, tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x?x16xbf16>
  func.return
}

// -----

func.func @f(%q: tensor<16xbf16>, %k: tensor<?x?x8xbf16>, %v: tensor<?x?x8xbf16>) {
  // expected-error@below {{operand q has rank 1, expected 2 or 3}}
  %r = coda.attention %q, %k, %v {head_dim = 4 : i64, causal = true} : (tensor<16xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>) -> tensor<16xbf16>
  func.return
}

// -----

func.func @f(%q: tensor<?x?x16xbf16>, %k: tensor<?x?x6xbf16>, %v: tensor<?x?x8xbf16>) {
  // expected-error@below {{property head_dim is 4, expected a divisor of the 6 columns}}
  %r = coda.attention %q, %k, %v {head_dim = 4 : i64, causal = true} : (tensor<?x?x16xbf16>, tensor<?x?x6xbf16>, tensor<?x?x8xbf16>) -> tensor<?x?x16xbf16>
  func.return
}

// -----

func.func @f(%q: tensor<?x?x16xbf16>, %k: tensor<?x?x8xbf16>, %v: tensor<?x?x8xf32>) {
  // expected-error@below {{operand v has element type f32, expected bf16}}
  %r = coda.attention %q, %k, %v {head_dim = 4 : i64, causal = true} : (tensor<?x?x16xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xf32>) -> tensor<?x?x16xbf16>
  func.return
}

// -----

func.func @f(%q: tensor<?x?x16xbf16>, %k: tensor<?x?x8xbf16>, %v: tensor<?x?x4xbf16>) {
  // expected-error@below {{operand v has shape ?x?x4, expected ?x?x8}}
  %r = coda.attention %q, %k, %v {head_dim = 4 : i64, causal = true} : (tensor<?x?x16xbf16>, tensor<?x?x8xbf16>, tensor<?x?x4xbf16>) -> tensor<?x?x16xbf16>
  func.return
}

// -----

func.func @f(%q: tensor<?x?x16xbf16>, %k: tensor<?x8xbf16>, %v: tensor<?x8xbf16>) {
  // expected-error@below {{operand k has shape ?x8, expected ?x?x8}}
  %r = coda.attention %q, %k, %v {head_dim = 4 : i64, causal = true} : (tensor<?x?x16xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x?x16xbf16>
  func.return
}

// -----

func.func @f(%q: tensor<?x?x16xbf16>, %k: tensor<?x?x12xbf16>, %v: tensor<?x?x12xbf16>) {
  // expected-error@below {{operand k has 3 heads, expected a divisor of the 4 heads of operand q}}
  %r = coda.attention %q, %k, %v {head_dim = 4 : i64, causal = true} : (tensor<?x?x16xbf16>, tensor<?x?x12xbf16>, tensor<?x?x12xbf16>) -> tensor<?x?x16xbf16>
  func.return
}

// -----

func.func @f(%q: tensor<?x?x16xbf16>, %k: tensor<?x?x8xbf16>, %v: tensor<?x?x8xbf16>) {
  // expected-error@below {{result has shape ?x?x8, expected ?x?x16}}
  %r = coda.attention %q, %k, %v {head_dim = 4 : i64, causal = true} : (tensor<?x?x16xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>
  func.return
}

// -----

func.func @f(%l: tensor<?x16xbf16>, %t: tensor<?x?xi64>) {
  // expected-error@below {{operand target has shape ?x?, expected ?}}
  %r = coda.cross_entropy %l, %t {ignore_index = -100 : i64, reduction = "none"} : (tensor<?x16xbf16>, tensor<?x?xi64>) -> tensor<?xf32>
  func.return
}

// -----

func.func @f(%l: tensor<?x16xbf16>, %t: tensor<?xf32>) {
  // expected-error@below {{operand target has element type f32, expected i32 or i64}}
  %r = coda.cross_entropy %l, %t {ignore_index = -100 : i64, reduction = "none"} : (tensor<?x16xbf16>, tensor<?xf32>) -> tensor<?xf32>
  func.return
}

// -----

func.func @f(%l: tensor<?x16xbf16>, %t: tensor<?xi64>) {
  // expected-error@below {{property reduction is "max", expected one of none, mean, sum}}
  %r = coda.cross_entropy %l, %t {ignore_index = -100 : i64, reduction = "max"} : (tensor<?x16xbf16>, tensor<?xi64>) -> tensor<?xf32>
  func.return
}

// -----

func.func @f(%l: tensor<?x16xbf16>, %t: tensor<?xi64>) {
  // expected-error@below {{result has shape ?, expected scalar}}
  %r = coda.cross_entropy %l, %t {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x16xbf16>, tensor<?xi64>) -> tensor<?xf32>
  func.return
}

// -----

func.func @f(%l: tensor<?x16xbf16>, %t: tensor<?xi64>) {
  // expected-error@below {{result has element type bf16, expected f32}}
  %r = coda.cross_entropy %l, %t {ignore_index = -100 : i64, reduction = "none"} : (tensor<?x16xbf16>, tensor<?xi64>) -> tensor<?xbf16>
  func.return
}

// -----

func.func @f(%i: tensor<?xf32>, %t: tensor<32x8xbf16>) {
  // expected-error@below {{operand ids has element type f32, expected i32 or i64}}
  %r = coda.embedding %i, %t : (tensor<?xf32>, tensor<32x8xbf16>) -> tensor<?x8xbf16>
  func.return
}

// -----

func.func @f(%i: tensor<?xi64>, %t: tensor<32x8xbf16>) {
  // expected-error@below {{property padding_idx is 32, expected the number of a row: 0 to 31}}
  %r = coda.embedding %i, %t {padding_idx = 32 : i64} : (tensor<?xi64>, tensor<32x8xbf16>) -> tensor<?x8xbf16>
  func.return
}

// -----

func.func @f(%i: tensor<?xi64>, %t: tensor<8xbf16>) {
  // expected-error@below {{operand table has rank 1, expected 2}}
  %r = coda.embedding %i, %t : (tensor<?xi64>, tensor<8xbf16>) -> tensor<?x8xbf16>
  func.return
}

// -----

func.func @f(%i: tensor<?xi64>, %t: tensor<32x8xbf16>) {
  // expected-error@below {{result has shape ?x16, expected ?x8}}
  %r = coda.embedding %i, %t : (tensor<?xi64>, tensor<32x8xbf16>) -> tensor<?x16xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xi32>) {
  // expected-error@below {{operand x has element type i32, expected a float type}}
  %r = coda.glu %x {activation = "silu"} : (tensor<?x8xi32>) -> tensor<?x4xi32>
  func.return
}

// -----

func.func @f(%q: tensor<?x16xi32>, %cos: tensor<?x2xf32>, %sin: tensor<?x2xf32>) {
  // expected-error@below {{operand x has element type i32, expected a float type}}
  %r = coda.rope %q, %cos, %sin {head_dim = 4 : i64, layout = "half_split"} : (tensor<?x16xi32>, tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x16xi32>
  func.return
}

// -----

func.func @f(%l: tensor<?x16xbf16>, %t: tensor<?xi64>) {
  // expected-error@below {{1 results lse, expected none or 2}}
  %r, %lse = coda.cross_entropy %l, %t {ignore_index = -100 : i64, reduction = "none"} : (tensor<?x16xbf16>, tensor<?xi64>) -> (tensor<?xf32>, tensor<?x1xf32>)
  func.return
}

// -----

func.func @f(%l: tensor<?x16xi64>, %t: tensor<?xi64>) {
  // expected-error@below {{operand logits has element type i64, expected a float type}}
  %r = coda.cross_entropy %l, %t {ignore_index = -100 : i64, reduction = "none"} : (tensor<?x16xi64>, tensor<?xi64>) -> tensor<?xf32>
  func.return
}

// RUN: coda-opt %s --split-input-file --verify-diagnostics

// What the verifier of attention refuses of windows, sinks and masks.

func.func @f(%q: tensor<?x?x16xbf16>, %k: tensor<?x?x8xbf16>, %s: tensor<4xbf16>) {
  // expected-error@below {{property window is 0, expected 1 or more positions}}
  %r = coda.attention %q, %k, %k {head_dim = 4 : i64, causal = true, window = 0 : i64} : (tensor<?x?x16xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>) -> tensor<?x?x16xbf16>
  func.return
}

// -----

func.func @f(%q: tensor<?x?x16xbf16>, %k: tensor<?x?x8xbf16>, %s: tensor<2xbf16>) {
  // expected-error@below {{operand sinks has shape 2, expected 4}}
  %r = coda.attention %q, %k, %k sinks(%s : tensor<2xbf16>) {head_dim = 4 : i64, causal = true} : (tensor<?x?x16xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>) -> tensor<?x?x16xbf16>
  func.return
}

// -----

func.func @f(%q: tensor<?x?x16xbf16>, %k: tensor<?x?x8xbf16>, %s: tensor<4xf16>) {
  // expected-error@below {{operand sinks has element type f16, expected bf16}}
  %r = coda.attention %q, %k, %k sinks(%s : tensor<4xf16>) {head_dim = 4 : i64, causal = true} : (tensor<?x?x16xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>) -> tensor<?x?x16xbf16>
  func.return
}

// -----

func.func @f(%q: tensor<?x?x16xbf16>, %k: tensor<?x?x8xbf16>, %m: tensor<?xi1>) {
  // expected-error@below {{operand mask has rank 1, expected 2 to 4}}
  %r = coda.attention %q, %k, %k mask(%m : tensor<?xi1>) {head_dim = 4 : i64, causal = true} : (tensor<?x?x16xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>) -> tensor<?x?x16xbf16>
  func.return
}

// -----

func.func @f(%q: tensor<?x?x16xbf16>, %k: tensor<?x?x8xbf16>, %m: tensor<?x2x1x?xi1>) {
  // expected-error@below {{operand mask has shape ?x2x1x?, expected one that broadcasts to ?x4x?x?: batch, heads, queries, keys}}
  %r = coda.attention %q, %k, %k mask(%m : tensor<?x2x1x?xi1>) {head_dim = 4 : i64, causal = true} : (tensor<?x?x16xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>) -> tensor<?x?x16xbf16>
  func.return
}

// -----

func.func @f(%q: tensor<?x?x16xbf16>, %k: tensor<?x?x8xbf16>, %m: tensor<?x?xi64>) {
  // expected-error@below {{operand mask has element type i64, expected bf16}}
  %r = coda.attention %q, %k, %k mask(%m : tensor<?x?xi64>) {head_dim = 4 : i64, causal = true} : (tensor<?x?x16xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>) -> tensor<?x?x16xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>) {
  // expected-error@below {{result lse has shape 1x4x?, expected 1x2x?}}
  %y, %l = coda.attention %x, %x, %x {head_dim = 4 : i64, causal = true} : (tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16> lse tensor<1x4x?xf32>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>) {
  // expected-error@below {{result lse has element type bf16, expected f32}}
  %y, %l = coda.attention %x, %x, %x {head_dim = 4 : i64, causal = true} : (tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16> lse tensor<1x2x?xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %d: tensor<?x4xbf16>, %l: tensor<1x2x?xf32>) {
  // expected-error@below {{operand d_out has shape ?x4, expected ?x8}}
  %q, %k, %v = coda.attention_grad %d, %x, %l, %x, %x, %x {head_dim = 4 : i64, causal = true} : (tensor<?x4xbf16>, tensor<?x8xbf16>, tensor<1x2x?xf32>, tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>) -> (tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>)
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %o: tensor<?x8xf32>, %l: tensor<1x2x?xf32>) {
  // expected-error@below {{operand out has element type f32, expected bf16}}
  %q, %k, %v = coda.attention_grad %x, %o, %l, %x, %x, %x {head_dim = 4 : i64, causal = true} : (tensor<?x8xbf16>, tensor<?x8xf32>, tensor<1x2x?xf32>, tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>) -> (tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>)
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %l: tensor<1x4x?xf32>) {
  // expected-error@below {{operand lse has shape 1x4x?, expected 1x2x?}}
  %q, %k, %v = coda.attention_grad %x, %x, %l, %x, %x, %x {head_dim = 4 : i64, causal = true} : (tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<1x4x?xf32>, tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>) -> (tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>)
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %l: tensor<1x2x?xf32>) {
  // expected-error@below {{result d_sinks has no operand of floats, expected the one that it is the gradient of}}
  %q, %k, %v, %s = coda.attention_grad %x, %x, %l, %x, %x, %x {head_dim = 4 : i64, causal = true} : (tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<1x2x?xf32>, tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>) -> (tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16> sinks tensor<2xbf16>)
  func.return
}

// -----

func.func @f(%q: tensor<?x?x16xbf16>, %k: tensor<?x?x8xbf16>, %v: tensor<?x?x8xbf16>) {
  // expected-error@below {{property value_dim is 3, expected a divisor of the 8 columns}}
  %r = coda.attention %q, %k, %v {head_dim = 4 : i64, value_dim = 3 : i64, causal = true} : (tensor<?x?x16xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>) -> tensor<?x?x12xbf16>
  func.return
}

// -----

func.func @f(%q: tensor<?x?x16xbf16>, %k: tensor<?x?x8xbf16>, %v: tensor<?x?x9xbf16>) {
  // expected-error@below {{operand v has shape ?x?x9, expected ?x?x6}}
  %r = coda.attention %q, %k, %v {head_dim = 4 : i64, value_dim = 3 : i64, causal = true} : (tensor<?x?x16xbf16>, tensor<?x?x8xbf16>, tensor<?x?x9xbf16>) -> tensor<?x?x12xbf16>
  func.return
}

// -----

func.func @f(%q: tensor<?x?x16xbf16>, %k: tensor<?x?x8xbf16>, %v: tensor<?x?x6xbf16>) {
  // expected-error@below {{result has shape ?x?x16, expected ?x?x12}}
  %r = coda.attention %q, %k, %v {head_dim = 4 : i64, value_dim = 3 : i64, causal = true} : (tensor<?x?x16xbf16>, tensor<?x?x8xbf16>, tensor<?x?x6xbf16>) -> tensor<?x?x16xbf16>
  func.return
}

// -----

func.func @f(%q: tensor<?x?x?xbf16>, %k: tensor<?x?x?xbf16>, %v: tensor<?x?x6xbf16>) {
  // expected-error@below {{property value_dim is 3, expected static numbers of columns with it}}
  %r = coda.attention %q, %k, %v {head_dim = 4 : i64, value_dim = 3 : i64, causal = true} : (tensor<?x?x?xbf16>, tensor<?x?x?xbf16>, tensor<?x?x6xbf16>) -> tensor<?x?x12xbf16>
  func.return
}

// -----

func.func @f(%q: tensor<?x16xi32>) {
  // expected-error@below {{operand q has element type i32, expected a float type}}
  %r = coda.attention %q, %q, %q {head_dim = 4 : i64, causal = true} : (tensor<?x16xi32>, tensor<?x16xi32>, tensor<?x16xi32>) -> tensor<?x16xi32>
  func.return
}

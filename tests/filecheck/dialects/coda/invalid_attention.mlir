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

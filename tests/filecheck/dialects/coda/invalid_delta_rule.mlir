// RUN: coda-opt %s --split-input-file --verify-diagnostics

func.func @f(%q: tensor<2x?x8xbf16>, %k: tensor<2x?x8xbf16>, %v: tensor<2x16xbf16>, %beta: tensor<2x?x4xf32>, %decay: tensor<2x?x4xf32>) {
  // expected-error@below {{operand v has rank 2, expected 3}}
  %y = coda.delta_rule %q, %k, %v, %beta, %decay {head_dim = 4 : i64} : (tensor<2x?x8xbf16>, tensor<2x?x8xbf16>, tensor<2x16xbf16>, tensor<2x?x4xf32>, tensor<2x?x4xf32>) -> tensor<2x16xbf16>
  func.return
}

// -----

func.func @f(%q: tensor<2x?x8xbf16>, %k: tensor<2x?x8xbf16>, %v: tensor<2x?x16xf64>, %beta: tensor<2x?x4xf32>, %decay: tensor<2x?x4xf32>) {
  // expected-error@below {{operand v has element type f64, expected f32, bf16 or f16}}
  %y = coda.delta_rule %q, %k, %v, %beta, %decay {head_dim = 4 : i64} : (tensor<2x?x8xbf16>, tensor<2x?x8xbf16>, tensor<2x?x16xf64>, tensor<2x?x4xf32>, tensor<2x?x4xf32>) -> tensor<2x?x16xf64>
  func.return
}

// -----

func.func @f(%q: tensor<2x?x8xbf16>, %k: tensor<2x?x8xbf16>, %v: tensor<2x?x16xbf16>, %beta: tensor<2x?x4xf32>, %decay: tensor<2x?x4xf32>) {
  // expected-error@below {{property head_dim is 0, expected 1 to 256}}
  %y = coda.delta_rule %q, %k, %v, %beta, %decay {head_dim = 0 : i64} : (tensor<2x?x8xbf16>, tensor<2x?x8xbf16>, tensor<2x?x16xbf16>, tensor<2x?x4xf32>, tensor<2x?x4xf32>) -> tensor<2x?x16xbf16>
  func.return
}

// -----

func.func @f(%q: tensor<2x?x8xbf16>, %k: tensor<2x?x8xbf16>, %v: tensor<2x?x16xbf16>, %beta: tensor<4xf32>, %decay: tensor<2x?x4xf32>) {
  // expected-error@below {{operand beta has rank 1, expected 3}}
  %y = coda.delta_rule %q, %k, %v, %beta, %decay {head_dim = 4 : i64} : (tensor<2x?x8xbf16>, tensor<2x?x8xbf16>, tensor<2x?x16xbf16>, tensor<4xf32>, tensor<2x?x4xf32>) -> tensor<2x?x16xbf16>
  func.return
}

// -----

func.func @f(%q: tensor<2x?x8xbf16>, %k: tensor<2x?x8xbf16>, %v: tensor<2x?x16xbf16>, %beta: tensor<2x?x?xf32>, %decay: tensor<2x?x4xf32>) {
  // expected-error@below {{operand beta has type tensor<2x?x?xf32>, expected a known number of heads}}
  %y = coda.delta_rule %q, %k, %v, %beta, %decay {head_dim = 4 : i64} : (tensor<2x?x8xbf16>, tensor<2x?x8xbf16>, tensor<2x?x16xbf16>, tensor<2x?x?xf32>, tensor<2x?x4xf32>) -> tensor<2x?x16xbf16>
  func.return
}

// -----

func.func @f(%q: tensor<2x?x8xbf16>, %k: tensor<2x?x8xbf16>, %v: tensor<2x?x?xbf16>, %beta: tensor<2x?x4xf32>, %decay: tensor<2x?x4xf32>) {
  // expected-error@below {{operand v has ? columns, expected a multiple of 4 heads}}
  %y = coda.delta_rule %q, %k, %v, %beta, %decay {head_dim = 4 : i64} : (tensor<2x?x8xbf16>, tensor<2x?x8xbf16>, tensor<2x?x?xbf16>, tensor<2x?x4xf32>, tensor<2x?x4xf32>) -> tensor<2x?x?xbf16>
  func.return
}

// -----

func.func @f(%q: tensor<2x?x8xbf16>, %k: tensor<2x?x8xbf16>, %v: tensor<2x?x16xbf16>, %beta: tensor<2x?x4xf32>, %decay: tensor<2x?x4xf32>) {
  // expected-error@below {{operand k has 8 columns, expected a multiple of 3 columns}}
  %y = coda.delta_rule %q, %k, %v, %beta, %decay {head_dim = 3 : i64} : (tensor<2x?x8xbf16>, tensor<2x?x8xbf16>, tensor<2x?x16xbf16>, tensor<2x?x4xf32>, tensor<2x?x4xf32>) -> tensor<2x?x16xbf16>
  func.return
}

// -----

func.func @f(%q: tensor<2x?x8xbf16>, %k: tensor<2x?x8xbf16>, %v: tensor<2x?x2048xbf16>, %beta: tensor<2x?x4xf32>, %decay: tensor<2x?x4xf32>) {
  // expected-error@below {{operand v has heads of 512 columns, expected at most 256}}
  %y = coda.delta_rule %q, %k, %v, %beta, %decay {head_dim = 4 : i64} : (tensor<2x?x8xbf16>, tensor<2x?x8xbf16>, tensor<2x?x2048xbf16>, tensor<2x?x4xf32>, tensor<2x?x4xf32>) -> tensor<2x?x2048xbf16>
  func.return
}

// -----

func.func @f(%q: tensor<2x?x12xbf16>, %k: tensor<2x?x12xbf16>, %v: tensor<2x?x16xbf16>, %beta: tensor<2x?x4xf32>, %decay: tensor<2x?x4xf32>) {
  // expected-error@below {{operand k has 3 heads, expected a divisor of the 4 heads of operand v}}
  %y = coda.delta_rule %q, %k, %v, %beta, %decay {head_dim = 4 : i64} : (tensor<2x?x12xbf16>, tensor<2x?x12xbf16>, tensor<2x?x16xbf16>, tensor<2x?x4xf32>, tensor<2x?x4xf32>) -> tensor<2x?x16xbf16>
  func.return
}

// -----

func.func @f(%q: tensor<2x?x8xbf16>, %k: tensor<2x?x8xbf16>, %v: tensor<2x?x16xbf16>, %beta: tensor<3x?x4xf32>, %decay: tensor<2x?x4xf32>) {
  // expected-error@below {{operand beta has shape 3x?x4, expected 2x?x4}}
  %y = coda.delta_rule %q, %k, %v, %beta, %decay {head_dim = 4 : i64} : (tensor<2x?x8xbf16>, tensor<2x?x8xbf16>, tensor<2x?x16xbf16>, tensor<3x?x4xf32>, tensor<2x?x4xf32>) -> tensor<2x?x16xbf16>
  func.return
}

// -----

func.func @f(%q: tensor<2x?x8xbf16>, %k: tensor<2x?x8xbf16>, %v: tensor<2x?x16xbf16>, %beta: tensor<2x?x4xf32>, %decay: tensor<2x?x2xf32>) {
  // expected-error@below {{operand decay has shape 2x?x2, expected 2x?x4}}
  %y = coda.delta_rule %q, %k, %v, %beta, %decay {head_dim = 4 : i64} : (tensor<2x?x8xbf16>, tensor<2x?x8xbf16>, tensor<2x?x16xbf16>, tensor<2x?x4xf32>, tensor<2x?x2xf32>) -> tensor<2x?x16xbf16>
  func.return
}

// -----

func.func @f(%q: tensor<2x?x8xbf16>, %k: tensor<3x?x8xbf16>, %v: tensor<2x?x16xbf16>, %beta: tensor<2x?x4xf32>, %decay: tensor<2x?x4xf32>) {
  // expected-error@below {{operand k has shape 3x?x8, expected 2x?x8}}
  %y = coda.delta_rule %q, %k, %v, %beta, %decay {head_dim = 4 : i64} : (tensor<2x?x8xbf16>, tensor<3x?x8xbf16>, tensor<2x?x16xbf16>, tensor<2x?x4xf32>, tensor<2x?x4xf32>) -> tensor<2x?x16xbf16>
  func.return
}

// -----

func.func @f(%q: tensor<2x?x16xbf16>, %k: tensor<2x?x8xbf16>, %v: tensor<2x?x16xbf16>, %beta: tensor<2x?x4xf32>, %decay: tensor<2x?x4xf32>) {
  // expected-error@below {{operand q has shape 2x?x16, expected 2x?x8}}
  %y = coda.delta_rule %q, %k, %v, %beta, %decay {head_dim = 4 : i64} : (tensor<2x?x16xbf16>, tensor<2x?x8xbf16>, tensor<2x?x16xbf16>, tensor<2x?x4xf32>, tensor<2x?x4xf32>) -> tensor<2x?x16xbf16>
  func.return
}

// -----

func.func @f(%q: tensor<2x?x8xbf16>, %k: tensor<2x?x8xf32>, %v: tensor<2x?x16xbf16>, %beta: tensor<2x?x4xf32>, %decay: tensor<2x?x4xf32>) {
  // expected-error@below {{operand k has element type f32, expected bf16}}
  %y = coda.delta_rule %q, %k, %v, %beta, %decay {head_dim = 4 : i64} : (tensor<2x?x8xbf16>, tensor<2x?x8xf32>, tensor<2x?x16xbf16>, tensor<2x?x4xf32>, tensor<2x?x4xf32>) -> tensor<2x?x16xbf16>
  func.return
}

// -----

func.func @f(%q: tensor<2x?x8xbf16>, %k: tensor<2x?x8xbf16>, %v: tensor<2x?x16xbf16>, %beta: tensor<2x?x4xf32>, %decay: tensor<2x?x4xf16>) {
  // expected-error@below {{operand decay has element type f16, expected bf16}}
  %y = coda.delta_rule %q, %k, %v, %beta, %decay {head_dim = 4 : i64} : (tensor<2x?x8xbf16>, tensor<2x?x8xbf16>, tensor<2x?x16xbf16>, tensor<2x?x4xf32>, tensor<2x?x4xf16>) -> tensor<2x?x16xbf16>
  func.return
}

// -----

func.func @f(%q: tensor<2x?x8xbf16>, %k: tensor<2x?x8xbf16>, %v: tensor<2x?x16xbf16>, %beta: tensor<2x?x4xf32>, %decay: tensor<2x?x4xf32>, %s: tensor<2x4x16x4xf32>) {
  // expected-error@below {{operand initial has shape 2x4x16x4, expected 2x4x4x4}}
  %y = coda.delta_rule %q, %k, %v, %beta, %decay, %s {head_dim = 4 : i64} : (tensor<2x?x8xbf16>, tensor<2x?x8xbf16>, tensor<2x?x16xbf16>, tensor<2x?x4xf32>, tensor<2x?x4xf32>, tensor<2x4x16x4xf32>) -> tensor<2x?x16xbf16>
  func.return
}

// -----

func.func @f(%q: tensor<2x?x8xbf16>, %k: tensor<2x?x8xbf16>, %v: tensor<2x?x16xbf16>, %beta: tensor<2x?x4xf32>, %decay: tensor<2x?x4xf32>, %s: tensor<2x4x4x4xf32>) {
  // expected-error@below {{1 operands of states and 0 results for them, expected 2 and 1, or none}}
  %g:5 = coda.delta_rule_grad %v, %q, %k, %v, %beta, %decay, %s {head_dim = 4 : i64} : (tensor<2x?x16xbf16>, tensor<2x?x8xbf16>, tensor<2x?x8xbf16>, tensor<2x?x16xbf16>, tensor<2x?x4xf32>, tensor<2x?x4xf32>, tensor<2x4x4x4xf32>) -> (tensor<2x?x8xbf16>, tensor<2x?x8xbf16>, tensor<2x?x16xbf16>, tensor<2x?x4xf32>, tensor<2x?x4xf32>)
  func.return
}

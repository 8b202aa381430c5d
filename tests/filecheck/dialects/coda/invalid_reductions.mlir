// RUN: coda-opt %s --split-input-file --verify-diagnostics

// What the verifiers of norms, softmax and reductions refuse.

func.func @f(%x: tensor<bf16>) {
  // expected-error@below {{operand x has rank 0, expected at least 1}}
  %r = coda.rms_norm %x {eps = 1.0e-6} : (tensor<bf16>) -> tensor<bf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>) {
  // expected-error@below {{property group is 3, expected a divisor of the 8 columns}}
  %r = coda.rms_norm %x {eps = 1.0e-6, group = 3 : i64} : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>) {
  // expected-error@below {{property group is 0, expected a divisor of the 8 columns}}
  %r = coda.rms_norm %x {eps = 1.0e-6, group = 0 : i64} : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<8xbf16>) {
  // expected-error@below {{operand weight has shape 8, expected 4}}
  %r = coda.rms_norm %x, %w {eps = 1.0e-6, group = 4 : i64} : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x4x8xbf16>, %w: tensor<?x4x8xbf16>) {
  // expected-error@below {{operand weight has shape ?x4x8, expected 8, or one such row for each sample of ?x4x8}}
  %r = coda.rms_norm %x, %w {eps = 1.0e-6} : (tensor<?x4x8xbf16>, tensor<?x4x8xbf16>) -> tensor<?x4x8xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x4x8xbf16>, %b: tensor<3x1x8xbf16>) {
  // expected-error@below {{operand bias has shape 3x1x8, expected 8, or one such row for each sample of ?x4x8}}
  %r = coda.layer_norm %x, %b {eps = 1.0e-6, bias_only} : (tensor<?x4x8xbf16>, tensor<3x1x8xbf16>) -> tensor<?x4x8xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x4x8xbf16>, %w: tensor<?x1x4xbf16>) {
  // expected-error@below {{operand weight has shape ?x1x4, expected 4}}
  %r = coda.rms_norm %x, %w {eps = 1.0e-6, group = 4 : i64} : (tensor<?x4x8xbf16>, tensor<?x1x4xbf16>) -> tensor<?x4x8xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<8xf16>) {
  // expected-error@below {{operand weight has element type f16, expected bf16}}
  %r = coda.rms_norm %x, %w {eps = 1.0e-6} : (tensor<?x8xbf16>, tensor<8xf16>) -> tensor<?x8xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>) {
  // expected-error@below {{result has element type f32, expected bf16}}
  %r = coda.rms_norm %x {eps = 1.0e-6} : (tensor<?x8xbf16>) -> tensor<?x8xf32>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<8xbf16>) {
  // expected-error@below {{2 parameters, expected a bias alone}}
  %r = coda.layer_norm %x, %w, %w {eps = 1.0e-6, bias_only} : (tensor<?x8xbf16>, tensor<8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>) {
  // expected-error@below {{0 parameters, expected a bias alone}}
  %r = coda.layer_norm %x {eps = 1.0e-6, bias_only} : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<8xbf16>) {
  // expected-error@below {{3 parameters, expected a weight and a bias at most}}
  %r = coda.layer_norm %x, %w, %w, %w {eps = 1.0e-6} : (tensor<?x8xbf16>, tensor<8xbf16>, tensor<8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<8xbf16>, %b: tensor<4xbf16>) {
  // expected-error@below {{operand bias has shape 4, expected 8}}
  %r = coda.layer_norm %x, %w, %b {eps = 1.0e-6} : (tensor<?x8xbf16>, tensor<8xbf16>, tensor<4xbf16>) -> tensor<?x8xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>) {
  // expected-error@below {{result has shape ?x4, expected ?x8}}
  %r = coda.layer_norm %x {eps = 1.0e-6} : (tensor<?x8xbf16>) -> tensor<?x4xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>) {
  // expected-error@below {{property kind is "batch", expected "rms" or "layer"}}
  %r = coda.norm_stats %x {kind = "batch", eps = 1.0e-6} : (tensor<?x8xbf16>) -> tensor<?x1xf32>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>) {
  // expected-error@below {{1 results, expected 2 for kind "layer"}}
  %r = coda.norm_stats %x {kind = "layer", eps = 1.0e-6} : (tensor<?x8xbf16>) -> tensor<?x1xf32>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>) {
  // expected-error@below {{result has shape ?x8, expected ?x1}}
  %r = coda.norm_stats %x {kind = "rms", eps = 1.0e-6} : (tensor<?x8xbf16>) -> tensor<?x8xf32>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>) {
  // expected-error@below {{result has element type bf16, expected f32}}
  %r = coda.norm_stats %x {kind = "rms", eps = 1.0e-6} : (tensor<?x8xbf16>) -> tensor<?x1xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>) {
  // expected-error@below {{result has shape ?x1, expected ?x8}}
  %r = coda.softmax %x : (tensor<?x8xbf16>) -> tensor<?x1xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>) {
  // expected-error@below {{property kind is "product", expected one of sum, mean, max, lse}}
  %r = coda.reduce %x {kind = "product"} : (tensor<?x8xbf16>) -> tensor<?x1xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>) {
  // expected-error@below {{result has shape ?, expected ?x1}}
  %r = coda.reduce %x {kind = "sum"} : (tensor<?x8xbf16>) -> tensor<?xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xi64>) {
  // expected-error@below {{operand x has element type i64, expected a float type}}
  %r = coda.reduce %x {kind = "max"} : (tensor<?x8xi64>) -> tensor<?x1xi64>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xi32>) {
  // expected-error@below {{operand x has element type i32, expected a float type}}
  %r = coda.rms_norm %x {eps = 1.0e-6} : (tensor<?x8xi32>) -> tensor<?x8xi32>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xi32>) {
  // expected-error@below {{operand x has element type i32, expected a float type}}
  %r = coda.layer_norm %x {eps = 1.0e-6} : (tensor<?x8xi32>) -> tensor<?x8xi32>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xi1>) {
  // expected-error@below {{operand x has element type i1, expected a float type}}
  %r = coda.norm_stats %x {kind = "rms", eps = 1.0e-6} : (tensor<?x8xi1>) -> tensor<?x1xf32>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xi64>) {
  // expected-error@below {{operand x has element type i64, expected a float type}}
  %r = coda.softmax %x : (tensor<?x8xi64>) -> tensor<?x8xi64>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xf32>) {
  // expected-error@below {{result has shape ?x?, expected ?x1}}
  %r = coda.reduce %x {kind = "max"} : (tensor<?x8xf32>) -> tensor<?x?xf32>
  func.return
}

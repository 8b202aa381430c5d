// RUN: coda-opt %s --split-input-file --verify-diagnostics

// What the verifiers of the operators of derivatives refuse.

func.func @f(%dy: tensor<?x4x16xbf16>, %x: tensor<?x5x8xbf16>) {
  // expected-error@below {{operand x has shape ?x5x8, expected ?x4x8}}
  %r = coda.weight_gradient %dy, %x : (tensor<?x4x16xbf16>, tensor<?x5x8xbf16>) -> tensor<16x8xbf16>
  func.return
}

// -----

func.func @f(%dy: tensor<?x16xbf16>, %x: tensor<?x8xf32>) {
  // expected-error@below {{operand x has element type f32, expected bf16}}
  %r = coda.weight_gradient %dy, %x : (tensor<?x16xbf16>, tensor<?x8xf32>) -> tensor<16x8xbf16>
  func.return
}

// -----

func.func @f(%dy: tensor<?x16xbf16>, %x: tensor<?x8xbf16>) {
  // expected-error@below {{result has shape 8x16, expected 16x8}}
  %r = coda.weight_gradient %dy, %x : (tensor<?x16xbf16>, tensor<?x8xbf16>) -> tensor<8x16xbf16>
  func.return
}

// -----

func.func @f(%dy: tensor<?x16xi64>, %x: tensor<?x8xi64>) {
  // expected-error@below {{element type i64, expected a float type: there is no gradient of integers}}
  %r = coda.weight_gradient %dy, %x : (tensor<?x16xi64>, tensor<?x8xi64>) -> tensor<16x8xi64>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>) {
  // expected-error@below {{result has shape 4, expected one that broadcasts to ?x8, the shape of operand x}}
  %r = coda.sum_to %x : (tensor<?x8xbf16>) -> tensor<4xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<8xbf16>) {
  // expected-error@below {{result has shape ?x8, expected one that broadcasts to 8, the shape of operand x}}
  %r = coda.sum_to %x : (tensor<8xbf16>) -> tensor<?x8xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x4xbf16>) {
  // expected-error@below {{result has shape ?x8, expected one that ?x4, the shape of operand x, broadcasts to}}
  %r = coda.broadcast %x : (tensor<?x4xbf16>) -> tensor<?x8xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<8xbf16>) {
  // expected-error@below {{dimension 0 of the result is dynamic and no operand has it, expected an operand like with the shape of the result}}
  %r = coda.broadcast %x : (tensor<8xbf16>) -> tensor<?x8xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<8xbf16>, %y: tensor<?x4xbf16>) {
  // expected-error@below {{operand like has shape ?x4, expected ?x8}}
  %r = coda.broadcast %x, %y : (tensor<8xbf16>, tensor<?x4xbf16>) -> tensor<?x8xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>) {
  // expected-error@below {{property dim is 2, expected 0 to 1}}
  %r = coda.pad %x {dim = 2 : i64, start = 0 : i64} : (tensor<?x8xbf16>) -> tensor<?x16xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>) {
  // expected-error@below {{range 9 to 17 is outside of the 16 elements of dimension 1 of the result}}
  %r = coda.pad %x {dim = 1 : i64, start = 9 : i64} : (tensor<?x8xbf16>) -> tensor<?x16xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>) {
  // expected-error@below {{dimension 0 of operand x is dynamic, expected a static extent, or the property after}}
  %r = coda.pad %x {dim = 0 : i64, start = 0 : i64} : (tensor<?x8xbf16>) -> tensor<16x8xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<2x8xbf16>) {
  // expected-error@below {{dimension 0 of the result is dynamic and no operand has it, expected an operand like with the shape of the result}}
  %r = coda.pad %x {dim = 0 : i64, start = 0 : i64} : (tensor<2x8xbf16>) -> tensor<?x8xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>) {
  // expected-error@below {{property after is -1, expected 0 or more}}
  %r = coda.pad %x {dim = 0 : i64, start = 0 : i64, after = -1 : i64} : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>) {
  // expected-error@below {{property after is given, but dimension 1 of operand x is static: expected the extent of the result alone}}
  %r = coda.pad %x {dim = 1 : i64, start = 0 : i64, after = 1 : i64} : (tensor<?x8xbf16>) -> tensor<?x9xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>) {
  // expected-error@below {{both operand like and property after, expected one of them}}
  %r = coda.pad %x, %x {dim = 0 : i64, start = 0 : i64, after = 1 : i64} : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xi64>) {
  // expected-error@below {{a floating-point constant has element type i64, expected a float type}}
  %r = coda.pad %x {dim = 1 : i64, start = 0 : i64, value = 0.5 : f64} : (tensor<?x8xi64>) -> tensor<?x9xi64>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>) {
  // expected-error@below {{property activation is "identity", expected one of silu, gelu, gelu_tanh, relu, relu2, sigmoid, tanh}}
  %r = coda.activation_grad %x, %x {activation = "identity"} : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %b: tensor<?x8xf32>) {
  // expected-error@below {{operand 2 has element type f32, expected bf16}}
  %r = coda.maximum_grad %x, %x, %b : (tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xf32>) -> tensor<?x8xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %t: tensor<?xi64>, %d: tensor<?xf32>) {
  // expected-error@below {{operand dloss has shape ?, expected scalar}}
  %r = coda.cross_entropy_grad %x, %t, %d {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x8xbf16>, tensor<?xi64>, tensor<?xf32>) -> tensor<?x8xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %t: tensor<?xi64>, %d: tensor<f32>) {
  // expected-error@below {{property reduction is "max", expected one of none, mean, sum}}
  %r = coda.cross_entropy_grad %x, %t, %d {ignore_index = -100 : i64, reduction = "max"} : (tensor<?x8xbf16>, tensor<?xi64>, tensor<f32>) -> tensor<?x8xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %t: tensor<?xi64>, %d: tensor<f32>, %l: tensor<?xf32>) {
  // expected-error@below {{operand lse has shape ?, expected ?x1}}
  %r = coda.cross_entropy_grad %x, %t, %d, %l {ignore_index = -100 : i64, reduction = "sum"} : (tensor<?x8xbf16>, tensor<?xi64>, tensor<f32>, tensor<?xf32>) -> tensor<?x8xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %t: tensor<?xi64>, %d: tensor<f32>) {
  // expected-error@below {{no operand lse, expected that of the rows that start before}}
  %r = coda.cross_entropy_grad %x, %t, %d {ignore_index = -100 : i64, reduction = "sum", start = 8 : i64} : (tensor<?x8xbf16>, tensor<?xi64>, tensor<f32>) -> tensor<?x8xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %t: tensor<?xi64>, %d: tensor<f32>, %l: tensor<?x1xf32>) {
  // expected-error@below {{property start is -8, expected at least 0}}
  %r = coda.cross_entropy_grad %x, %t, %d, %l {ignore_index = -100 : i64, reduction = "sum", start = -8 : i64} : (tensor<?x8xbf16>, tensor<?xi64>, tensor<f32>, tensor<?x1xf32>) -> tensor<?x8xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %t: tensor<?xi64>, %d: tensor<f32>) {
  // expected-error@below {{result moment has shape ?, expected ?x1}}
  %r, %m = coda.cross_entropy_grad %x, %t, %d {ignore_index = -100 : i64, reduction = "sum"} : (tensor<?x8xbf16>, tensor<?xi64>, tensor<f32>) -> (tensor<?x8xbf16>, tensor<?xf32>)
  func.return
}

// -----

func.func @f(%i: tensor<?xi64>, %x: tensor<?x8xbf16>) {
  // expected-error@below {{dimension 0 of the result is dynamic and no operand has it, expected an operand like with the shape of the result}}
  %r = coda.embedding_grad %i, %x : (tensor<?xi64>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  func.return
}

// -----

func.func @f(%i: tensor<4xi64>, %x: tensor<5x8xbf16>) {
  // expected-error@below {{operand dy has shape 5x8, expected 4x8}}
  %r = coda.embedding_grad %i, %x : (tensor<4xi64>, tensor<5x8xbf16>) -> tensor<9x8xbf16>
  func.return
}

// -----

func.func @f(%dy: tensor<?x16xbf16>, %x: tensor<?x8xbf16>, %e: tensor<4x1xi32>) {
  // expected-error@below {{operand offsets has rank 2, expected 1}}
  %r = coda.grouped_weight_gradient %dy, %x, %e : (tensor<?x16xbf16>, tensor<?x8xbf16>, tensor<4x1xi32>) -> tensor<4x16x8xbf16>
  func.return
}

// -----

func.func @f(%dy: tensor<?x16xbf16>, %x: tensor<?x8xbf16>, %e: tensor<4xi32>) {
  // expected-error@below {{result has shape 3x16x8, expected 4x16x8}}
  %r = coda.grouped_weight_gradient %dy, %x, %e : (tensor<?x16xbf16>, tensor<?x8xbf16>, tensor<4xi32>) -> tensor<3x16x8xbf16>
  func.return
}

// -----

func.func @f(%dy: tensor<?x16xf64>, %x: tensor<?x8xf64>, %e: tensor<4xi32>) {
  // expected-error@below {{gradients of grouped weights accumulate in f32, expected no f64}}
  %r = coda.grouped_weight_gradient %dy, %x, %e : (tensor<?x16xf64>, tensor<?x8xf64>, tensor<4xi32>) -> tensor<4x16x8xf64>
  func.return
}

// -----

func.func @f(%l: tensor<?x0xbf16>, %t: tensor<?xi64>, %d: tensor<f32>) {
  // expected-error@below {{operand logits has shape ?x0, expected at least one class}}
  %r = coda.cross_entropy_grad %l, %t, %d {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x0xbf16>, tensor<?xi64>, tensor<f32>) -> tensor<?x0xbf16>
  func.return
}

// -----

func.func @f(%dy: tensor<?x16xbf16>, %x: tensor<?x8xbf16>, %e: tensor<0xi32>) {
  // expected-error@below {{operand offsets has shape 0, expected at least one group}}
  %r = coda.grouped_weight_gradient %dy, %x, %e : (tensor<?x16xbf16>, tensor<?x8xbf16>, tensor<0xi32>) -> tensor<0x16x8xbf16>
  func.return
}

// RUN: coda-opt %s --split-input-file --verify-diagnostics

func.func @f(%u: tensor<2x8xbf16>, %dt: tensor<2x?x8xf32>, %a: tensor<8x4xf32>, %b: tensor<2x?x4xbf16>, %c: tensor<2x?x4xbf16>) {
  // expected-error@below {{operand x has rank 2, expected 3}}
  %y = coda.selective_scan %u, %dt, %a, %b, %c : (tensor<2x8xbf16>, tensor<2x?x8xf32>, tensor<8x4xf32>, tensor<2x?x4xbf16>, tensor<2x?x4xbf16>) -> tensor<2x8xbf16>
  func.return
}

// -----

func.func @f(%u: tensor<2x?x8xf64>, %dt: tensor<2x?x8xf32>, %a: tensor<8x4xf32>, %b: tensor<2x?x4xbf16>, %c: tensor<2x?x4xbf16>) {
  // expected-error@below {{operand x has element type f64, expected f32, bf16 or f16}}
  %y = coda.selective_scan %u, %dt, %a, %b, %c : (tensor<2x?x8xf64>, tensor<2x?x8xf32>, tensor<8x4xf32>, tensor<2x?x4xbf16>, tensor<2x?x4xbf16>) -> tensor<2x?x8xf64>
  func.return
}

// -----

func.func @f(%u: tensor<2x?x8xi32>, %dt: tensor<2x?x8xf32>, %a: tensor<8x4xf32>, %b: tensor<2x?x4xbf16>, %c: tensor<2x?x4xbf16>) {
  // expected-error@below {{operand x has element type i32, expected f32, bf16 or f16}}
  %y = coda.selective_scan %u, %dt, %a, %b, %c : (tensor<2x?x8xi32>, tensor<2x?x8xf32>, tensor<8x4xf32>, tensor<2x?x4xbf16>, tensor<2x?x4xbf16>) -> tensor<2x?x8xi32>
  func.return
}

// -----

func.func @f(%u: tensor<2x?x8xbf16>, %dt: tensor<2x?x8xf32>, %a: tensor<8xf32>, %b: tensor<2x?x4xbf16>, %c: tensor<2x?x4xbf16>) {
  // expected-error@below {{operand a has rank 1, expected 2}}
  %y = coda.selective_scan %u, %dt, %a, %b, %c : (tensor<2x?x8xbf16>, tensor<2x?x8xf32>, tensor<8xf32>, tensor<2x?x4xbf16>, tensor<2x?x4xbf16>) -> tensor<2x?x8xbf16>
  func.return
}

// -----

func.func @f(%u: tensor<2x?x8xbf16>, %dt: tensor<2x?x8xf32>, %a: tensor<8x?xf32>, %b: tensor<2x?x4xbf16>, %c: tensor<2x?x4xbf16>) {
  // expected-error@below {{operand a has an unknown number of states, expected 1 to 256}}
  %y = coda.selective_scan %u, %dt, %a, %b, %c : (tensor<2x?x8xbf16>, tensor<2x?x8xf32>, tensor<8x?xf32>, tensor<2x?x4xbf16>, tensor<2x?x4xbf16>) -> tensor<2x?x8xbf16>
  func.return
}

// -----

func.func @f(%u: tensor<2x?x8xbf16>, %dt: tensor<2x?x8xf32>, %a: tensor<8x512xf32>, %b: tensor<2x?x4xbf16>, %c: tensor<2x?x4xbf16>) {
  // expected-error@below {{operand a has 512 states, expected 1 to 256}}
  %y = coda.selective_scan %u, %dt, %a, %b, %c : (tensor<2x?x8xbf16>, tensor<2x?x8xf32>, tensor<8x512xf32>, tensor<2x?x4xbf16>, tensor<2x?x4xbf16>) -> tensor<2x?x8xbf16>
  func.return
}

// -----

func.func @f(%u: tensor<2x?x8xbf16>, %dt: tensor<2x?x8xf32>, %a: tensor<4x8xf32>, %b: tensor<2x?x4xbf16>, %c: tensor<2x?x4xbf16>) {
  // expected-error@below {{operand a has shape 4x8, expected 8x8}}
  %y = coda.selective_scan %u, %dt, %a, %b, %c : (tensor<2x?x8xbf16>, tensor<2x?x8xf32>, tensor<4x8xf32>, tensor<2x?x4xbf16>, tensor<2x?x4xbf16>) -> tensor<2x?x8xbf16>
  func.return
}

// -----

func.func @f(%u: tensor<2x?x8xbf16>, %dt: tensor<2x?x1xf32>, %a: tensor<8x4xf32>, %b: tensor<2x?x4xbf16>, %c: tensor<2x?x4xbf16>) {
  // expected-error@below {{operand dt has shape 2x?x1, expected 2x?x8}}
  %y = coda.selective_scan %u, %dt, %a, %b, %c : (tensor<2x?x8xbf16>, tensor<2x?x1xf32>, tensor<8x4xf32>, tensor<2x?x4xbf16>, tensor<2x?x4xbf16>) -> tensor<2x?x8xbf16>
  func.return
}

// -----

func.func @f(%u: tensor<2x?x8xbf16>, %dt: tensor<2x?x8xf16>, %a: tensor<8x4xf32>, %b: tensor<2x?x4xbf16>, %c: tensor<2x?x4xbf16>) {
  // expected-error@below {{operand dt has element type f16, expected bf16}}
  %y = coda.selective_scan %u, %dt, %a, %b, %c : (tensor<2x?x8xbf16>, tensor<2x?x8xf16>, tensor<8x4xf32>, tensor<2x?x4xbf16>, tensor<2x?x4xbf16>) -> tensor<2x?x8xbf16>
  func.return
}

// -----

func.func @f(%u: tensor<2x?x8xbf16>, %dt: tensor<2x?x8xf32>, %a: tensor<8x4xf16>, %b: tensor<2x?x4xbf16>, %c: tensor<2x?x4xbf16>) {
  // expected-error@below {{operand a has element type f16, expected bf16}}
  %y = coda.selective_scan %u, %dt, %a, %b, %c : (tensor<2x?x8xbf16>, tensor<2x?x8xf32>, tensor<8x4xf16>, tensor<2x?x4xbf16>, tensor<2x?x4xbf16>) -> tensor<2x?x8xbf16>
  func.return
}

// -----

func.func @f(%u: tensor<2x?x8xbf16>, %dt: tensor<2x?x8xf32>, %a: tensor<8x4xf32>, %b: tensor<3x?x4xbf16>, %c: tensor<2x?x4xbf16>) {
  // expected-error@below {{operand b has shape 3x?x4, expected 2x?x4}}
  %y = coda.selective_scan %u, %dt, %a, %b, %c : (tensor<2x?x8xbf16>, tensor<2x?x8xf32>, tensor<8x4xf32>, tensor<3x?x4xbf16>, tensor<2x?x4xbf16>) -> tensor<2x?x8xbf16>
  func.return
}

// -----

func.func @f(%u: tensor<2x?x8xbf16>, %dt: tensor<2x?x8xf32>, %a: tensor<8x4xf32>, %b: tensor<2x?x4xbf16>, %c: tensor<2x?x4xf32>) {
  // expected-error@below {{operand c has element type f32, expected bf16}}
  %y = coda.selective_scan %u, %dt, %a, %b, %c : (tensor<2x?x8xbf16>, tensor<2x?x8xf32>, tensor<8x4xf32>, tensor<2x?x4xbf16>, tensor<2x?x4xf32>) -> tensor<2x?x8xbf16>
  func.return
}

// -----

func.func @f(%u: tensor<2x?x8xbf16>, %dt: tensor<2x?x8xf32>, %a: tensor<8x4xf32>, %b: tensor<2x?x4xbf16>, %c: tensor<2x?x4xbf16>) {
  // expected-error@below {{result has shape 2x?x4, expected 2x?x8}}
  %y = coda.selective_scan %u, %dt, %a, %b, %c : (tensor<2x?x8xbf16>, tensor<2x?x8xf32>, tensor<8x4xf32>, tensor<2x?x4xbf16>, tensor<2x?x4xbf16>) -> tensor<2x?x4xbf16>
  func.return
}

// -----

func.func @f(%u: tensor<2x?x8xbf16>, %dt: tensor<2x?x8xf32>, %a: tensor<8x4xf32>, %b: tensor<2x?x4xbf16>, %c: tensor<2x?x4xbf16>) {
  // expected-error@below {{result has element type f32, expected bf16}}
  %y = coda.selective_scan %u, %dt, %a, %b, %c : (tensor<2x?x8xbf16>, tensor<2x?x8xf32>, tensor<8x4xf32>, tensor<2x?x4xbf16>, tensor<2x?x4xbf16>) -> tensor<2x?x8xf32>
  func.return
}

// -----

func.func @f(%dy: tensor<2x?x8xbf16>, %u: tensor<2x?x8xbf16>, %dt: tensor<2x?x8xf32>, %a: tensor<8x512xf32>, %b: tensor<2x?x4xbf16>) {
  // expected-error@below {{operand a has 512 states, expected 1 to 256}}
  %g:5 = coda.selective_scan_grad %dy, %u, %dt, %a, %b, %b : (tensor<2x?x8xbf16>, tensor<2x?x8xbf16>, tensor<2x?x8xf32>, tensor<8x512xf32>, tensor<2x?x4xbf16>, tensor<2x?x4xbf16>) -> (tensor<2x?x8xbf16>, tensor<2x?x8xf32>, tensor<8x4xf32>, tensor<2x?x4xbf16>, tensor<2x?x4xbf16>)
  func.return
}

// -----

func.func @f(%dy: tensor<2x?x4xbf16>, %u: tensor<2x?x8xbf16>, %dt: tensor<2x?x8xf32>, %a: tensor<8x4xf32>, %b: tensor<2x?x4xbf16>) {
  // expected-error@below {{operand d_y has shape 2x?x4, expected 2x?x8}}
  %g:5 = coda.selective_scan_grad %dy, %u, %dt, %a, %b, %b : (tensor<2x?x4xbf16>, tensor<2x?x8xbf16>, tensor<2x?x8xf32>, tensor<8x4xf32>, tensor<2x?x4xbf16>, tensor<2x?x4xbf16>) -> (tensor<2x?x8xbf16>, tensor<2x?x8xf32>, tensor<8x4xf32>, tensor<2x?x4xbf16>, tensor<2x?x4xbf16>)
  func.return
}

// -----

func.func @f(%dy: tensor<2x?x8xf16>, %u: tensor<2x?x8xbf16>, %dt: tensor<2x?x8xf32>, %a: tensor<8x4xf32>, %b: tensor<2x?x4xbf16>) {
  // expected-error@below {{operand d_y has element type f16, expected bf16}}
  %g:5 = coda.selective_scan_grad %dy, %u, %dt, %a, %b, %b : (tensor<2x?x8xf16>, tensor<2x?x8xbf16>, tensor<2x?x8xf32>, tensor<8x4xf32>, tensor<2x?x4xbf16>, tensor<2x?x4xbf16>) -> (tensor<2x?x8xbf16>, tensor<2x?x8xf32>, tensor<8x4xf32>, tensor<2x?x4xbf16>, tensor<2x?x4xbf16>)
  func.return
}

// -----

func.func @f(%dy: tensor<2x?x8xbf16>, %u: tensor<2x?x8xbf16>, %dt: tensor<2x?x8xf32>, %a: tensor<8x4xf32>, %b: tensor<2x?x4xbf16>) {
  // expected-error@below {{result 0 has shape 2x?x4, expected 2x?x8}}
  %g:5 = coda.selective_scan_grad %dy, %u, %dt, %a, %b, %b : (tensor<2x?x8xbf16>, tensor<2x?x8xbf16>, tensor<2x?x8xf32>, tensor<8x4xf32>, tensor<2x?x4xbf16>, tensor<2x?x4xbf16>) -> (tensor<2x?x4xbf16>, tensor<2x?x8xf32>, tensor<8x4xf32>, tensor<2x?x4xbf16>, tensor<2x?x4xbf16>)
  func.return
}

// -----

func.func @f(%dy: tensor<2x?x8xbf16>, %u: tensor<2x?x8xbf16>, %dt: tensor<2x?x8xf32>, %a: tensor<8x4xf32>, %b: tensor<2x?x4xbf16>) {
  // expected-error@below {{result 2 has element type bf16, expected f32}}
  %g:5 = coda.selective_scan_grad %dy, %u, %dt, %a, %b, %b : (tensor<2x?x8xbf16>, tensor<2x?x8xbf16>, tensor<2x?x8xf32>, tensor<8x4xf32>, tensor<2x?x4xbf16>, tensor<2x?x4xbf16>) -> (tensor<2x?x8xbf16>, tensor<2x?x8xf32>, tensor<8x4xbf16>, tensor<2x?x4xbf16>, tensor<2x?x4xbf16>)
  func.return
}

// -----

func.func @f(%u: tensor<2x?x8xbf16>, %dt: tensor<2x?x8xf32>, %a: tensor<8x4xf32>, %b: tensor<2x?x4xbf16>, %s: tensor<2x4x8xf32>) {
  // expected-error@below {{operand initial has shape 2x4x8, expected 2x8x4}}
  %y = coda.selective_scan %u, %dt, %a, %b, %b, %s : (tensor<2x?x8xbf16>, tensor<2x?x8xf32>, tensor<8x4xf32>, tensor<2x?x4xbf16>, tensor<2x?x4xbf16>, tensor<2x4x8xf32>) -> tensor<2x?x8xbf16>
  func.return
}

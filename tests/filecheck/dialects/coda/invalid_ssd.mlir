// RUN: coda-opt %s --split-input-file --verify-diagnostics

func.func @f(%x: tensor<2x8xbf16>, %dt: tensor<2x?x4xf32>, %a: tensor<4xf32>, %b: tensor<2x?x6xbf16>, %c: tensor<2x?x6xbf16>) {
  // expected-error@below {{operand x has rank 2, expected 3}}
  %y = coda.ssd %x, %dt, %a, %b, %c {states = 3 : i64} : (tensor<2x8xbf16>, tensor<2x?x4xf32>, tensor<4xf32>, tensor<2x?x6xbf16>, tensor<2x?x6xbf16>) -> tensor<2x8xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<2x?x8xf64>, %dt: tensor<2x?x4xf32>, %a: tensor<4xf32>, %b: tensor<2x?x6xbf16>, %c: tensor<2x?x6xbf16>) {
  // expected-error@below {{operand x has element type f64, expected f32, bf16 or f16}}
  %y = coda.ssd %x, %dt, %a, %b, %c {states = 3 : i64} : (tensor<2x?x8xf64>, tensor<2x?x4xf32>, tensor<4xf32>, tensor<2x?x6xbf16>, tensor<2x?x6xbf16>) -> tensor<2x?x8xf64>
  func.return
}

// -----

func.func @f(%x: tensor<2x?x8xbf16>, %dt: tensor<2x?x4xf32>, %a: tensor<4xf32>, %b: tensor<2x?x6xbf16>, %c: tensor<2x?x6xbf16>) {
  // expected-error@below {{property states is 512, expected 1 to 256}}
  %y = coda.ssd %x, %dt, %a, %b, %c {states = 512 : i64} : (tensor<2x?x8xbf16>, tensor<2x?x4xf32>, tensor<4xf32>, tensor<2x?x6xbf16>, tensor<2x?x6xbf16>) -> tensor<2x?x8xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<2x?x8xbf16>, %dt: tensor<2x?x4xf32>, %a: tensor<?xf32>, %b: tensor<2x?x6xbf16>, %c: tensor<2x?x6xbf16>) {
  // expected-error@below {{operand a has type tensor<?xf32>, expected a known number of heads}}
  %y = coda.ssd %x, %dt, %a, %b, %c {states = 3 : i64} : (tensor<2x?x8xbf16>, tensor<2x?x4xf32>, tensor<?xf32>, tensor<2x?x6xbf16>, tensor<2x?x6xbf16>) -> tensor<2x?x8xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<2x?x?xbf16>, %dt: tensor<2x?x4xf32>, %a: tensor<4xf32>, %b: tensor<2x?x6xbf16>, %c: tensor<2x?x6xbf16>) {
  // expected-error@below {{operand x has ? columns, expected a multiple of the 4 heads}}
  %y = coda.ssd %x, %dt, %a, %b, %c {states = 3 : i64} : (tensor<2x?x?xbf16>, tensor<2x?x4xf32>, tensor<4xf32>, tensor<2x?x6xbf16>, tensor<2x?x6xbf16>) -> tensor<2x?x?xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<2x?x9xbf16>, %dt: tensor<2x?x4xf32>, %a: tensor<4xf32>, %b: tensor<2x?x6xbf16>, %c: tensor<2x?x6xbf16>) {
  // expected-error@below {{operand x has 9 columns, expected a multiple of the 4 heads}}
  %y = coda.ssd %x, %dt, %a, %b, %c {states = 3 : i64} : (tensor<2x?x9xbf16>, tensor<2x?x4xf32>, tensor<4xf32>, tensor<2x?x6xbf16>, tensor<2x?x6xbf16>) -> tensor<2x?x9xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<2x?x2048xbf16>, %dt: tensor<2x?x4xf32>, %a: tensor<4xf32>, %b: tensor<2x?x6xbf16>, %c: tensor<2x?x6xbf16>) {
  // expected-error@below {{operand x has heads of 512 columns, expected 1 to 256}}
  %y = coda.ssd %x, %dt, %a, %b, %c {states = 3 : i64} : (tensor<2x?x2048xbf16>, tensor<2x?x4xf32>, tensor<4xf32>, tensor<2x?x6xbf16>, tensor<2x?x6xbf16>) -> tensor<2x?x2048xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<2x?x8xbf16>, %dt: tensor<2x?x4xf32>, %a: tensor<4xf32>, %b: tensor<2x?x7xbf16>, %c: tensor<2x?x6xbf16>) {
  // expected-error@below {{operand b has shape 2x?x7, expected columns of 3 states}}
  %y = coda.ssd %x, %dt, %a, %b, %c {states = 3 : i64} : (tensor<2x?x8xbf16>, tensor<2x?x4xf32>, tensor<4xf32>, tensor<2x?x7xbf16>, tensor<2x?x6xbf16>) -> tensor<2x?x8xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<2x?x8xbf16>, %dt: tensor<2x?x4xf32>, %a: tensor<4xf32>, %b: tensor<2x?x9xbf16>, %c: tensor<2x?x6xbf16>) {
  // expected-error@below {{operand b has 3 groups, expected a divisor of the 4 heads}}
  %y = coda.ssd %x, %dt, %a, %b, %c {states = 3 : i64} : (tensor<2x?x8xbf16>, tensor<2x?x4xf32>, tensor<4xf32>, tensor<2x?x9xbf16>, tensor<2x?x6xbf16>) -> tensor<2x?x8xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<2x?x8xbf16>, %dt: tensor<2x?x1xf32>, %a: tensor<4xf32>, %b: tensor<2x?x6xbf16>, %c: tensor<2x?x6xbf16>) {
  // expected-error@below {{operand dt has shape 2x?x1, expected 2x?x4}}
  %y = coda.ssd %x, %dt, %a, %b, %c {states = 3 : i64} : (tensor<2x?x8xbf16>, tensor<2x?x1xf32>, tensor<4xf32>, tensor<2x?x6xbf16>, tensor<2x?x6xbf16>) -> tensor<2x?x8xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<2x?x8xbf16>, %dt: tensor<2x?x4xf16>, %a: tensor<4xf32>, %b: tensor<2x?x6xbf16>, %c: tensor<2x?x6xbf16>) {
  // expected-error@below {{operand dt has element type f16, expected bf16}}
  %y = coda.ssd %x, %dt, %a, %b, %c {states = 3 : i64} : (tensor<2x?x8xbf16>, tensor<2x?x4xf16>, tensor<4xf32>, tensor<2x?x6xbf16>, tensor<2x?x6xbf16>) -> tensor<2x?x8xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<2x?x8xbf16>, %dt: tensor<2x?x4xf32>, %a: tensor<4xf16>, %b: tensor<2x?x6xbf16>, %c: tensor<2x?x6xbf16>) {
  // expected-error@below {{operand a has element type f16, expected bf16}}
  %y = coda.ssd %x, %dt, %a, %b, %c {states = 3 : i64} : (tensor<2x?x8xbf16>, tensor<2x?x4xf32>, tensor<4xf16>, tensor<2x?x6xbf16>, tensor<2x?x6xbf16>) -> tensor<2x?x8xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<2x?x8xbf16>, %dt: tensor<2x?x4xf32>, %a: tensor<4xf32>, %b: tensor<3x?x6xbf16>, %c: tensor<2x?x6xbf16>) {
  // expected-error@below {{operand b has shape 3x?x6, expected 2x?x6}}
  %y = coda.ssd %x, %dt, %a, %b, %c {states = 3 : i64} : (tensor<2x?x8xbf16>, tensor<2x?x4xf32>, tensor<4xf32>, tensor<3x?x6xbf16>, tensor<2x?x6xbf16>) -> tensor<2x?x8xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<2x?x8xbf16>, %dt: tensor<2x?x4xf32>, %a: tensor<4xf32>, %b: tensor<2x?x6xbf16>, %c: tensor<2x?x3xbf16>) {
  // expected-error@below {{operand c has shape 2x?x3, expected 2x?x6}}
  %y = coda.ssd %x, %dt, %a, %b, %c {states = 3 : i64} : (tensor<2x?x8xbf16>, tensor<2x?x4xf32>, tensor<4xf32>, tensor<2x?x6xbf16>, tensor<2x?x3xbf16>) -> tensor<2x?x8xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<2x?x8xbf16>, %dt: tensor<2x?x4xf32>, %a: tensor<4xf32>, %b: tensor<2x?x6xbf16>, %c: tensor<2x?x6xf32>) {
  // expected-error@below {{operand c has element type f32, expected bf16}}
  %y = coda.ssd %x, %dt, %a, %b, %c {states = 3 : i64} : (tensor<2x?x8xbf16>, tensor<2x?x4xf32>, tensor<4xf32>, tensor<2x?x6xbf16>, tensor<2x?x6xf32>) -> tensor<2x?x8xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<2x?x8xbf16>, %dt: tensor<2x?x4xf32>, %a: tensor<4xf32>, %b: tensor<2x?x6xbf16>, %c: tensor<2x?x6xbf16>) {
  // expected-error@below {{result has shape 2x?x4, expected 2x?x8}}
  %y = coda.ssd %x, %dt, %a, %b, %c {states = 3 : i64} : (tensor<2x?x8xbf16>, tensor<2x?x4xf32>, tensor<4xf32>, tensor<2x?x6xbf16>, tensor<2x?x6xbf16>) -> tensor<2x?x4xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<2x?x8xbf16>, %dt: tensor<2x?x4xf32>, %a: tensor<4xf32>, %b: tensor<2x?x6xbf16>, %c: tensor<2x?x6xbf16>) {
  // expected-error@below {{result has element type f16, expected bf16}}
  %y = coda.ssd %x, %dt, %a, %b, %c {states = 3 : i64} : (tensor<2x?x8xbf16>, tensor<2x?x4xf32>, tensor<4xf32>, tensor<2x?x6xbf16>, tensor<2x?x6xbf16>) -> tensor<2x?x8xf16>
  func.return
}

// -----

func.func @f(%dy: tensor<2x?x8xbf16>, %x: tensor<2x?x8xbf16>, %dt: tensor<2x?x4xf32>, %a: tensor<4xf32>, %b: tensor<2x?x6xbf16>) {
  // expected-error@below {{property states is 512, expected 1 to 256}}
  %g:5 = coda.ssd_grad %dy, %x, %dt, %a, %b, %b {states = 512 : i64} : (tensor<2x?x8xbf16>, tensor<2x?x8xbf16>, tensor<2x?x4xf32>, tensor<4xf32>, tensor<2x?x6xbf16>, tensor<2x?x6xbf16>) -> (tensor<2x?x8xbf16>, tensor<2x?x4xf32>, tensor<4xf32>, tensor<2x?x6xbf16>, tensor<2x?x6xbf16>)
  func.return
}

// -----

func.func @f(%dy: tensor<2x?x4xbf16>, %x: tensor<2x?x8xbf16>, %dt: tensor<2x?x4xf32>, %a: tensor<4xf32>, %b: tensor<2x?x6xbf16>) {
  // expected-error@below {{operand d_y has shape 2x?x4, expected 2x?x8}}
  %g:5 = coda.ssd_grad %dy, %x, %dt, %a, %b, %b {states = 3 : i64} : (tensor<2x?x4xbf16>, tensor<2x?x8xbf16>, tensor<2x?x4xf32>, tensor<4xf32>, tensor<2x?x6xbf16>, tensor<2x?x6xbf16>) -> (tensor<2x?x8xbf16>, tensor<2x?x4xf32>, tensor<4xf32>, tensor<2x?x6xbf16>, tensor<2x?x6xbf16>)
  func.return
}

// -----

func.func @f(%dy: tensor<2x?x8xf16>, %x: tensor<2x?x8xbf16>, %dt: tensor<2x?x4xf32>, %a: tensor<4xf32>, %b: tensor<2x?x6xbf16>) {
  // expected-error@below {{operand d_y has element type f16, expected bf16}}
  %g:5 = coda.ssd_grad %dy, %x, %dt, %a, %b, %b {states = 3 : i64} : (tensor<2x?x8xf16>, tensor<2x?x8xbf16>, tensor<2x?x4xf32>, tensor<4xf32>, tensor<2x?x6xbf16>, tensor<2x?x6xbf16>) -> (tensor<2x?x8xbf16>, tensor<2x?x4xf32>, tensor<4xf32>, tensor<2x?x6xbf16>, tensor<2x?x6xbf16>)
  func.return
}

// -----

func.func @f(%dy: tensor<2x?x8xbf16>, %x: tensor<2x?x8xbf16>, %dt: tensor<2x?x4xf32>, %a: tensor<4xf32>, %b: tensor<2x?x6xbf16>) {
  // expected-error@below {{result 0 has shape 2x?x4, expected 2x?x8}}
  %g:5 = coda.ssd_grad %dy, %x, %dt, %a, %b, %b {states = 3 : i64} : (tensor<2x?x8xbf16>, tensor<2x?x8xbf16>, tensor<2x?x4xf32>, tensor<4xf32>, tensor<2x?x6xbf16>, tensor<2x?x6xbf16>) -> (tensor<2x?x4xbf16>, tensor<2x?x4xf32>, tensor<4xf32>, tensor<2x?x6xbf16>, tensor<2x?x6xbf16>)
  func.return
}

// -----

func.func @f(%dy: tensor<2x?x8xbf16>, %x: tensor<2x?x8xbf16>, %dt: tensor<2x?x4xf32>, %a: tensor<4xf32>, %b: tensor<2x?x6xbf16>) {
  // expected-error@below {{result 2 has element type bf16, expected f32}}
  %g:5 = coda.ssd_grad %dy, %x, %dt, %a, %b, %b {states = 3 : i64} : (tensor<2x?x8xbf16>, tensor<2x?x8xbf16>, tensor<2x?x4xf32>, tensor<4xf32>, tensor<2x?x6xbf16>, tensor<2x?x6xbf16>) -> (tensor<2x?x8xbf16>, tensor<2x?x4xf32>, tensor<4xbf16>, tensor<2x?x6xbf16>, tensor<2x?x6xbf16>)
  func.return
}

// -----

func.func @f(%x: tensor<2x?x8xbf16>, %dt: tensor<2x?x4xf32>, %a: tensor<4xf32>, %b: tensor<2x?x6xbf16>, %h: tensor<2x4x3x2xf32>) {
  // expected-error@below {{operand initial has shape 2x4x3x2, expected 2x4x2x3}}
  %y = coda.ssd %x, %dt, %a, %b, %b, %h {states = 3 : i64} : (tensor<2x?x8xbf16>, tensor<2x?x4xf32>, tensor<4xf32>, tensor<2x?x6xbf16>, tensor<2x?x6xbf16>, tensor<2x4x3x2xf32>) -> tensor<2x?x8xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<2x?x8xbf16>, %dt: tensor<2x?x4xf32>, %a: tensor<4xf32>, %b: tensor<2x?x6xbf16>, %h: tensor<2x4x2x3xbf16>) {
  // expected-error@below {{operand initial has element type bf16, expected f32}}
  %y = coda.ssd %x, %dt, %a, %b, %b, %h {states = 3 : i64} : (tensor<2x?x8xbf16>, tensor<2x?x4xf32>, tensor<4xf32>, tensor<2x?x6xbf16>, tensor<2x?x6xbf16>, tensor<2x4x2x3xbf16>) -> tensor<2x?x8xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<2x?x8xbf16>, %dt: tensor<2x?x4xf32>, %a: tensor<4xf32>, %b: tensor<2x?x6xbf16>, %h: tensor<2x4x2x3xf32>) {
  // expected-error@below {{2 operands of states, expected one at most}}
  %y = coda.ssd %x, %dt, %a, %b, %b, %h, %h {states = 3 : i64} : (tensor<2x?x8xbf16>, tensor<2x?x4xf32>, tensor<4xf32>, tensor<2x?x6xbf16>, tensor<2x?x6xbf16>, tensor<2x4x2x3xf32>, tensor<2x4x2x3xf32>) -> tensor<2x?x8xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<2x?x8xbf16>, %dt: tensor<2x?x4xf32>, %a: tensor<4xf32>, %b: tensor<2x?x6xbf16>, %h: tensor<2x4x2x3xf32>) {
  // expected-error@below {{result final has shape 2x4x2x2, expected 2x4x2x3}}
  %y, %g = coda.ssd %x, %dt, %a, %b, %b, %h {states = 3 : i64} : (tensor<2x?x8xbf16>, tensor<2x?x4xf32>, tensor<4xf32>, tensor<2x?x6xbf16>, tensor<2x?x6xbf16>, tensor<2x4x2x3xf32>) -> (tensor<2x?x8xbf16>, tensor<2x4x2x2xf32>)
  func.return
}

// -----

func.func @f(%x: tensor<2x?x8xbf16>, %dt: tensor<2x?x4xf32>, %a: tensor<4xf32>, %b: tensor<2x?x6xbf16>, %h: tensor<2x4x2x3xf32>) {
  // expected-error@below {{1 operands of states and 0 results for them, expected 2 and 1, or none}}
  %g:5 = coda.ssd_grad %x, %x, %dt, %a, %b, %b, %h {states = 3 : i64} : (tensor<2x?x8xbf16>, tensor<2x?x8xbf16>, tensor<2x?x4xf32>, tensor<4xf32>, tensor<2x?x6xbf16>, tensor<2x?x6xbf16>, tensor<2x4x2x3xf32>) -> (tensor<2x?x8xbf16>, tensor<2x?x4xf32>, tensor<4xf32>, tensor<2x?x6xbf16>, tensor<2x?x6xbf16>)
  func.return
}

// RUN: coda-opt %s -p split-concatenation --split-input-file | filecheck %s
// RUN: coda-opt %s -p split-concatenation --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// Something else needs the concatenation as it is.

func.func @returned(%dq: tensor<?x8xbf16>, %dk: tensor<?x4xbf16>, %x: tensor<?x6xbf16>) -> (tensor<12x6xbf16>, tensor<?x12xbf16>) {
  %d = coda.concat %dq, %dk {dim = 1 : i64} : (tensor<?x8xbf16>, tensor<?x4xbf16>) -> tensor<?x12xbf16>
  %dw = coda.weight_gradient %d, %x : (tensor<?x12xbf16>, tensor<?x6xbf16>) -> tensor<12x6xbf16>
  func.return %dw, %d : tensor<12x6xbf16>, tensor<?x12xbf16>
}

// CHECK:      func.func @returned(%dq: tensor<?x8xbf16>, %dk: tensor<?x4xbf16>, %x: tensor<?x6xbf16>) -> (tensor<12x6xbf16>, tensor<?x12xbf16>) {
// CHECK-NEXT:   %d = coda.concat %dq, %dk {dim = 1 : i64} : (tensor<?x8xbf16>, tensor<?x4xbf16>) -> tensor<?x12xbf16>
// CHECK-NEXT:   %dw = coda.weight_gradient %d, %x : (tensor<?x12xbf16>, tensor<?x6xbf16>) -> tensor<12x6xbf16>
// CHECK-NEXT:   func.return %dw, %d : tensor<12x6xbf16>, tensor<?x12xbf16>
// CHECK-NEXT: }
// REMARK: remark[missed] split-concatenation: coda.concat: %d is copied: the caller reads all of it; failed condition: products and sums of the parts can replace every use; costs 40*d0 + 8*d1 bytes

// -----

// A maximum is no sum.

func.func @maximum(%dq: tensor<?x8xbf16>, %dk: tensor<?x4xbf16>, %x: tensor<?x6xbf16>) -> (tensor<12x6xbf16>, tensor<?x1xf32>) {
  %d = coda.concat %dq, %dk {dim = 1 : i64} : (tensor<?x8xbf16>, tensor<?x4xbf16>) -> tensor<?x12xbf16>
  %dw = coda.weight_gradient %d, %x : (tensor<?x12xbf16>, tensor<?x6xbf16>) -> tensor<12x6xbf16>
  %m = coda.reduce %d {kind = "max"} : (tensor<?x12xbf16>) -> tensor<?x1xf32>
  func.return %dw, %m : tensor<12x6xbf16>, tensor<?x1xf32>
}

// CHECK:      func.func @maximum(%dq: tensor<?x8xbf16>, %dk: tensor<?x4xbf16>, %x: tensor<?x6xbf16>) -> (tensor<12x6xbf16>, tensor<?x1xf32>) {
// CHECK-NEXT:   %d = coda.concat %dq, %dk {dim = 1 : i64} : (tensor<?x8xbf16>, tensor<?x4xbf16>) -> tensor<?x12xbf16>
// CHECK-NEXT:   %dw = coda.weight_gradient %d, %x : (tensor<?x12xbf16>, tensor<?x6xbf16>) -> tensor<12x6xbf16>
// CHECK-NEXT:   %m = coda.reduce %d {kind = "max"} : (tensor<?x12xbf16>) -> tensor<?x1xf32>
// CHECK-NEXT:   func.return %dw, %m : tensor<12x6xbf16>, tensor<?x1xf32>
// CHECK-NEXT: }
// REMARK: remark[missed] split-concatenation: coda.concat: %d is copied: coda.reduce reads all of it; failed condition: products and sums of the parts can replace every use; costs 40*d0 + 8*d1 bytes

// -----

// The mode eager-exact rounds what all columns give together.

func.func @exact(%dq: tensor<?x8xbf16>, %dk: tensor<?x4xbf16>, %x: tensor<?x6xbf16>) -> tensor<12x6xbf16> attributes {coda.numerics = #gemm.numerics<"eager-exact">} {
  %d = coda.concat %dq, %dk {dim = 1 : i64} : (tensor<?x8xbf16>, tensor<?x4xbf16>) -> tensor<?x12xbf16>
  %dw = coda.weight_gradient %d, %x : (tensor<?x12xbf16>, tensor<?x6xbf16>) -> tensor<12x6xbf16>
  func.return %dw : tensor<12x6xbf16>
}

// CHECK:      func.func @exact(%dq: tensor<?x8xbf16>, %dk: tensor<?x4xbf16>, %x: tensor<?x6xbf16>) -> tensor<12x6xbf16> attributes {coda.numerics = #gemm.numerics<"eager-exact">} {
// CHECK-NEXT:   %d = coda.concat %dq, %dk {dim = 1 : i64} : (tensor<?x8xbf16>, tensor<?x4xbf16>) -> tensor<?x12xbf16>
// CHECK-NEXT:   %dw = coda.weight_gradient %d, %x : (tensor<?x12xbf16>, tensor<?x6xbf16>) -> tensor<12x6xbf16>
// CHECK-NEXT:   func.return %dw : tensor<12x6xbf16>
// CHECK-NEXT: }
// REMARK: remark[missed] split-concatenation: coda.concat: %d is copied: eager PyTorch rounds its products together, and the mode is eager-exact; failed condition: the numerics mode allows rounding points to move; costs 40*d0 + 8*d1 bytes

// -----

// No weight gradient says that there are many rows: a copy of the weight might cost more.

func.func @decoding(%a: tensor<?x8xbf16>, %b: tensor<?x4xbf16>, %w: tensor<6x12xbf16>) -> tensor<?x6xbf16> {
  %d = coda.concat %a, %b {dim = 1 : i64} : (tensor<?x8xbf16>, tensor<?x4xbf16>) -> tensor<?x12xbf16>
  %y = coda.linear %d, %w : (tensor<?x12xbf16>, tensor<6x12xbf16>) -> tensor<?x6xbf16>
  func.return %y : tensor<?x6xbf16>
}

// CHECK:      func.func @decoding(%a: tensor<?x8xbf16>, %b: tensor<?x4xbf16>, %w: tensor<6x12xbf16>) -> tensor<?x6xbf16> {
// CHECK-NEXT:   %d = coda.concat %a, %b {dim = 1 : i64} : (tensor<?x8xbf16>, tensor<?x4xbf16>) -> tensor<?x12xbf16>
// CHECK-NEXT:   %y = coda.linear %d, %w : (tensor<?x12xbf16>, tensor<6x12xbf16>) -> tensor<?x6xbf16>
// CHECK-NEXT:   func.return %y : tensor<?x6xbf16>
// CHECK-NEXT: }

// -----

// Rows side by side, and columns of any number.

func.func @rows(%a: tensor<?x8xbf16>, %b: tensor<?x8xbf16>, %x: tensor<?x6xbf16>) -> tensor<8x6xbf16> {
  %d = coda.concat %a, %b {dim = 0 : i64} : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %dw = coda.weight_gradient %d, %x : (tensor<?x8xbf16>, tensor<?x6xbf16>) -> tensor<8x6xbf16>
  func.return %dw : tensor<8x6xbf16>
}

// CHECK:      func.func @rows(%a: tensor<?x8xbf16>, %b: tensor<?x8xbf16>, %x: tensor<?x6xbf16>) -> tensor<8x6xbf16> {
// CHECK-NEXT:   %d = coda.concat %a, %b {dim = 0 : i64} : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %dw = coda.weight_gradient %d, %x : (tensor<?x8xbf16>, tensor<?x6xbf16>) -> tensor<8x6xbf16>
// CHECK-NEXT:   func.return %dw : tensor<8x6xbf16>
// CHECK-NEXT: }

// -----

func.func @any(%a: tensor<?x?xbf16>, %b: tensor<?x8xbf16>, %x: tensor<?x6xbf16>) -> tensor<?x6xbf16> {
  %d = coda.concat %a, %b {dim = 1 : i64} : (tensor<?x?xbf16>, tensor<?x8xbf16>) -> tensor<?x?xbf16>
  %dw = coda.weight_gradient %d, %x : (tensor<?x?xbf16>, tensor<?x6xbf16>) -> tensor<?x6xbf16>
  func.return %dw : tensor<?x6xbf16>
}

// CHECK:      func.func @any(%a: tensor<?x?xbf16>, %b: tensor<?x8xbf16>, %x: tensor<?x6xbf16>) -> tensor<?x6xbf16> {
// CHECK-NEXT:   %d = coda.concat %a, %b {dim = 1 : i64} : (tensor<?x?xbf16>, tensor<?x8xbf16>) -> tensor<?x?xbf16>
// CHECK-NEXT:   %dw = coda.weight_gradient %d, %x : (tensor<?x?xbf16>, tensor<?x6xbf16>) -> tensor<?x6xbf16>
// CHECK-NEXT:   func.return %dw : tensor<?x6xbf16>
// CHECK-NEXT: }

// -----

// One row for each sample of a batch: the concatenation is smaller than the slices of a weight.

func.func @samples(%a: tensor<2x64xbf16>, %b: tensor<2x64xbf16>, %x: tensor<2x128xbf16>, %w: tensor<128x128xbf16>) -> (tensor<128x128xbf16>, tensor<2x128xbf16>) {
  %d = coda.concat %a, %b {dim = 1 : i64} : (tensor<2x64xbf16>, tensor<2x64xbf16>) -> tensor<2x128xbf16>
  %dw = coda.weight_gradient %d, %x : (tensor<2x128xbf16>, tensor<2x128xbf16>) -> tensor<128x128xbf16>
  %dx = coda.matmul %d, %w : (tensor<2x128xbf16>, tensor<128x128xbf16>) -> tensor<2x128xbf16>
  func.return %dw, %dx : tensor<128x128xbf16>, tensor<2x128xbf16>
}

// CHECK-LABEL: func.func @samples(
// CHECK-NEXT:   %d = coda.concat %a, %b
// CHECK-NEXT:   %dw = coda.weight_gradient %d, %x
// CHECK-NEXT:   %dx = coda.matmul %d, %w

// RUN: coda-opt %s -p store-operands --split-input-file | filecheck %s

// Everything up to products and arguments is rounded, and every reader has the rounded value.
// Operators that only move elements are not rounded again.

func.func @halting(%x: tensor<?x8xbf16>, %w: tensor<8x8xbf16>, %h: tensor<?x8xbf16>)
    -> (tensor<?x8xbf16>, tensor<?x8xi1>) {
  %one = coda.constant {value = 1.0 : f64} : tensor<bf16>
  %p = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  %t = coda.slice %p {dim = 1 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<?x8xbf16>) -> tensor<?x4xbf16>
  %q = coda.concat %t, %t {dim = 1 : i64} : (tensor<?x4xbf16>, tensor<?x4xbf16>) -> tensor<?x8xbf16>
  %r = coda.sub %one, %h : (tensor<bf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %s = coda.add %q, %r : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %y = coda.mul %s, %s : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %c = coda.compare %s, %one {relation = "lt"} : (tensor<?x8xbf16>, tensor<bf16>) -> tensor<?x8xi1>
  func.return %y, %c : tensor<?x8xbf16>, tensor<?x8xi1>
}

// CHECK:      func.func @halting(%x: tensor<?x8xbf16>, %w: tensor<8x8xbf16>, %h: tensor<?x8xbf16>) -> (tensor<?x8xbf16>, tensor<?x8xi1>) {
// CHECK-NEXT:   %one = coda.constant {value = 1.000000e+00 : f64} : tensor<bf16>
// CHECK-NEXT:   %p = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %p_1 = coda.stored %p : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %t = coda.slice %p_1 {dim = 1 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<?x8xbf16>) -> tensor<?x4xbf16>
// CHECK-NEXT:   %q = coda.concat %t, %t {dim = 1 : i64} : (tensor<?x4xbf16>, tensor<?x4xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %r = coda.sub %one, %h : (tensor<bf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %r_1 = coda.stored %r : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %s = coda.add %q, %r_1 : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %s_1 = coda.stored %s : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %y = coda.mul %s_1, %s_1 : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %c = coda.compare %s_1, %one {relation = "lt"} : (tensor<?x8xbf16>, tensor<bf16>) -> tensor<?x8xi1>
// CHECK-NEXT:   func.return %y, %c : tensor<?x8xbf16>, tensor<?x8xi1>
// CHECK-NEXT: }

// -----

// Statistics in float32 are no 16-bit values; the norm and its operand are.

func.func @levels(%x: tensor<?x8xbf16>, %y: tensor<?x8xbf16>) -> tensor<?x8xi8> {
  %s = coda.add %x, %y : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %a = coda.abs %s : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %m = coda.reduce %a {kind = "max"} : (tensor<?x8xbf16>) -> tensor<?x1xf32>
  %w = coda.cast %s : (tensor<?x8xbf16>) -> tensor<?x8xf32>
  %d = coda.div %w, %m : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  %q = coda.cast %d : (tensor<?x8xf32>) -> tensor<?x8xi8>
  func.return %q : tensor<?x8xi8>
}

// CHECK:      func.func @levels(%x: tensor<?x8xbf16>, %y: tensor<?x8xbf16>) -> tensor<?x8xi8> {
// CHECK-NEXT:   %s = coda.add %x, %y : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %s_1 = coda.stored %s : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %a = coda.abs %s_1 : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %a_1 = coda.stored %a : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %m = coda.reduce %a_1 {kind = "max"} : (tensor<?x8xbf16>) -> tensor<?x1xf32>
// CHECK-NEXT:   %w = coda.cast %s_1 : (tensor<?x8xbf16>) -> tensor<?x8xf32>
// CHECK-NEXT:   %d = coda.div %w, %m : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %q = coda.cast %d : (tensor<?x8xf32>) -> tensor<?x8xi8>
// CHECK-NEXT:   func.return %q : tensor<?x8xi8>
// CHECK-NEXT: }

// -----

// Nothing is rounded for continuous functions, for integers, or in the mode eager-exact.

func.func @continuous(%x: tensor<?x8xbf16>, %y: tensor<?x8xbf16>, %n: tensor<?xi64>)
    -> (tensor<?x8xbf16>, tensor<?xi1>) {
  %s = coda.add %x, %y : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %r = coda.relu %s : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %m = coda.maximum %r, %y : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %i = coda.add %n, %n : (tensor<?xi64>, tensor<?xi64>) -> tensor<?xi64>
  %c = coda.compare %i, %n {relation = "lt"} : (tensor<?xi64>, tensor<?xi64>) -> tensor<?xi1>
  func.return %m, %c : tensor<?x8xbf16>, tensor<?xi1>
}

// CHECK:      func.func @continuous(%x: tensor<?x8xbf16>, %y: tensor<?x8xbf16>, %n: tensor<?xi64>) -> (tensor<?x8xbf16>, tensor<?xi1>) {
// CHECK-NEXT:   %s = coda.add %x, %y : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %r = coda.relu %s : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %m = coda.maximum %r, %y : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %i = coda.add %n, %n : (tensor<?xi64>, tensor<?xi64>) -> tensor<?xi64>
// CHECK-NEXT:   %c = coda.compare %i, %n {relation = "lt"} : (tensor<?xi64>, tensor<?xi64>) -> tensor<?xi1>
// CHECK-NEXT:   func.return %m, %c : tensor<?x8xbf16>, tensor<?xi1>
// CHECK-NEXT: }

// -----

func.func @exact(%x: tensor<?x8xbf16>, %y: tensor<?x8xbf16>) -> tensor<?x8xbf16>
    attributes {coda.numerics = #gemm.numerics<"eager-exact">} {
  %s = coda.add %x, %y : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %f = coda.floor %s : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  func.return %f : tensor<?x8xbf16>
}

// CHECK:      func.func @exact(%x: tensor<?x8xbf16>, %y: tensor<?x8xbf16>) -> tensor<?x8xbf16> attributes {coda.numerics = #gemm.numerics<"eager-exact">} {
// CHECK-NEXT:   %s = coda.add %x, %y : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %f = coda.floor %s : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   func.return %f : tensor<?x8xbf16>
// CHECK-NEXT: }

// -----

// A function may have numbers, which are no tensors.

func.func @number(%x: f32) -> f32 {
  func.return %x : f32
}

// CHECK:      func.func @number(%x: f32) -> f32 {
// CHECK-NEXT:   func.return %x : f32
// CHECK-NEXT: }

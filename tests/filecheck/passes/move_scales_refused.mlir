// RUN: coda-opt %s -p move-scales --split-input-file | filecheck %s

// The rows that a weight gradient sums over have factors of their own.

func.func @summed(%dy: tensor<?x8xf32>, %s: tensor<?x1xf32>, %h: tensor<?x4xf32>) -> tensor<8x4xf32> {
  %dz = coda.mul %dy, %s : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  %dw = coda.weight_gradient %dz, %h : (tensor<?x8xf32>, tensor<?x4xf32>) -> tensor<8x4xf32>
  func.return %dw : tensor<8x4xf32>
}

// CHECK:      func.func @summed(
// CHECK-NEXT:   %dz = coda.mul %dy, %s : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %dw = coda.weight_gradient %dz, %h : (tensor<?x8xf32>, tensor<?x4xf32>) -> tensor<8x4xf32>
// CHECK-NEXT:   func.return %dw : tensor<8x4xf32>
// CHECK-NEXT: }

// -----

// The scaled tensor is returned, so that it is stored in any case.

func.func @returned(%x: tensor<?x8xf32>, %s: tensor<f32>, %w: tensor<4x8xf32>) -> (tensor<?x4xf32>, tensor<?x8xf32>) {
  %t = coda.mul %x, %s : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  %y = coda.linear %t, %w : (tensor<?x8xf32>, tensor<4x8xf32>) -> tensor<?x4xf32>
  func.return %y, %t : tensor<?x4xf32>, tensor<?x8xf32>
}

// CHECK:      func.func @returned(
// CHECK-NEXT:   %t = coda.mul %x, %s : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %y = coda.linear %t, %w : (tensor<?x8xf32>, tensor<4x8xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   func.return %y, %t : tensor<?x4xf32>, tensor<?x8xf32>
// CHECK-NEXT: }

// -----

// A bias is not scaled.

func.func @bias(%x: tensor<?x8xf32>, %s: tensor<f32>, %w: tensor<4x8xf32>, %b: tensor<4xf32>) -> tensor<?x4xf32> {
  %t = coda.mul %x, %s : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  %y = coda.linear %t, %w, %b : (tensor<?x8xf32>, tensor<4x8xf32>, tensor<4xf32>) -> tensor<?x4xf32>
  func.return %y : tensor<?x4xf32>
}

// CHECK:      func.func @bias(
// CHECK-NEXT:   %t = coda.mul %x, %s : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %y = coda.linear %t, %w, %b : (tensor<?x8xf32>, tensor<4x8xf32>, tensor<4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   func.return %y : tensor<?x4xf32>
// CHECK-NEXT: }

// -----

// The epilogue that computes x scales it on its way.

func.func @producer(%a: tensor<?x4xf32>, %v: tensor<8x4xf32>, %s: tensor<f32>, %w: tensor<4x8xf32>) -> tensor<?x4xf32> {
  %x = coda.linear %a, %v : (tensor<?x4xf32>, tensor<8x4xf32>) -> tensor<?x8xf32>
  %t = coda.mul %x, %s : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  %y = coda.linear %t, %w : (tensor<?x8xf32>, tensor<4x8xf32>) -> tensor<?x4xf32>
  func.return %y : tensor<?x4xf32>
}

// CHECK:      func.func @producer(
// CHECK-NEXT:   %x = coda.linear %a, %v : (tensor<?x4xf32>, tensor<8x4xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %t = coda.mul %x, %s : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %y = coda.linear %t, %w : (tensor<?x8xf32>, tensor<4x8xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   func.return %y : tensor<?x4xf32>
// CHECK-NEXT: }

// -----

// The product adds up with another one in one accumulator.

func.func @sum(%x: tensor<?x8xf32>, %u: tensor<?x8xf32>, %s: tensor<f32>, %w: tensor<4x8xf32>, %v: tensor<4x8xf32>) -> tensor<?x4xf32> {
  %t = coda.mul %x, %s : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  %y = coda.linear %t, %w : (tensor<?x8xf32>, tensor<4x8xf32>) -> tensor<?x4xf32>
  %z = coda.linear %u, %v : (tensor<?x8xf32>, tensor<4x8xf32>) -> tensor<?x4xf32>
  %sum = coda.add %y, %z : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  func.return %sum : tensor<?x4xf32>
}

// CHECK:      func.func @sum(
// CHECK-NEXT:   %t = coda.mul %x, %s : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %y = coda.linear %t, %w : (tensor<?x8xf32>, tensor<4x8xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   %z = coda.linear %u, %v : (tensor<?x8xf32>, tensor<4x8xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   %sum = coda.add %y, %z : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   func.return %sum : tensor<?x4xf32>
// CHECK-NEXT: }

// -----

// Eager rounds the scaled tensor.

func.func @eager(%x: tensor<?x8xbf16>, %s: tensor<bf16>, %w: tensor<4x8xbf16>) -> tensor<?x4xbf16> attributes {coda.numerics = #gemm.numerics<"eager-exact">} {
  %t = coda.mul %x, %s : (tensor<?x8xbf16>, tensor<bf16>) -> tensor<?x8xbf16>
  %y = coda.linear %t, %w : (tensor<?x8xbf16>, tensor<4x8xbf16>) -> tensor<?x4xbf16>
  func.return %y : tensor<?x4xbf16>
}

// CHECK:      func.func @eager(
// CHECK-NEXT:   %t = coda.mul %x, %s : (tensor<?x8xbf16>, tensor<bf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %y = coda.linear %t, %w : (tensor<?x8xbf16>, tensor<4x8xbf16>) -> tensor<?x4xbf16>
// CHECK-NEXT:   func.return %y : tensor<?x4xbf16>
// CHECK-NEXT: }

// -----

// Infinite products of both signs have no sum.

func.func @infinite(%x: tensor<?x8xf32>, %w: tensor<4x8xf32>) -> tensor<?x4xf32> {
  %s = coda.constant {value = 0xfff0000000000000 : f64} : tensor<f32>
  %t = coda.mul %x, %s : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  %y = coda.linear %t, %w : (tensor<?x8xf32>, tensor<4x8xf32>) -> tensor<?x4xf32>
  func.return %y : tensor<?x4xf32>
}

// CHECK:      func.func @infinite(
// CHECK-NEXT:   %s = coda.constant {value = 0xfff0000000000000 : f64} : tensor<f32>
// CHECK-NEXT:   %t = coda.mul %x, %s : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %y = coda.linear %t, %w : (tensor<?x8xf32>, tensor<4x8xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   func.return %y : tensor<?x4xf32>
// CHECK-NEXT: }

// -----

// What is scaled for float8 stays scaled: the GEMM reads other numbers than those of x.

func.func @quantized(%x: tensor<?x8xbf16>, %s: tensor<?x1xbf16>, %w: tensor<4x8xf8E4M3FN>) -> tensor<?x4xf32> {
  %t = coda.mul %x, %s : (tensor<?x8xbf16>, tensor<?x1xbf16>) -> tensor<?x8xbf16>
  %q = coda.cast %t : (tensor<?x8xbf16>) -> tensor<?x8xf8E4M3FN>
  %y = coda.linear %q, %w : (tensor<?x8xf8E4M3FN>, tensor<4x8xf8E4M3FN>) -> tensor<?x4xf32>
  func.return %y : tensor<?x4xf32>
}

// CHECK:      func.func @quantized(
// CHECK-NEXT:   %t = coda.mul %x, %s : (tensor<?x8xbf16>, tensor<?x1xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %q = coda.cast %t : (tensor<?x8xbf16>) -> tensor<?x8xf8E4M3FN>
// CHECK-NEXT:   %y = coda.linear %q, %w : (tensor<?x8xf8E4M3FN>, tensor<4x8xf8E4M3FN>) -> tensor<?x4xf32>
// CHECK-NEXT:   func.return %y : tensor<?x4xf32>
// CHECK-NEXT: }

// -----

// So does what was scaled to bring float8 to another range.

func.func @requantized(%x: tensor<?x8xf8E4M3FN>, %s: tensor<?x1xf32>, %w: tensor<4x8xf8E4M3FN>) -> tensor<?x4xf32> {
  %wide = coda.cast %x : (tensor<?x8xf8E4M3FN>) -> tensor<?x8xf32>
  %t = coda.mul %wide, %s : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  %q = coda.cast %t : (tensor<?x8xf32>) -> tensor<?x8xf8E4M3FN>
  %y = coda.linear %q, %w : (tensor<?x8xf8E4M3FN>, tensor<4x8xf8E4M3FN>) -> tensor<?x4xf32>
  func.return %y : tensor<?x4xf32>
}

// CHECK:      func.func @requantized(
// CHECK-NEXT:   %wide = coda.cast %x : (tensor<?x8xf8E4M3FN>) -> tensor<?x8xf32>
// CHECK-NEXT:   %t = coda.mul %wide, %s : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %q = coda.cast %t : (tensor<?x8xf32>) -> tensor<?x8xf8E4M3FN>
// CHECK-NEXT:   %y = coda.linear %q, %w : (tensor<?x8xf8E4M3FN>, tensor<4x8xf8E4M3FN>) -> tensor<?x4xf32>
// CHECK-NEXT:   func.return %y : tensor<?x4xf32>
// CHECK-NEXT: }

// -----

// A sum of no products is 0, and times a factor that may be infinite, it is not.

func.func @empty(%x: tensor<?x0xf32>, %s: tensor<?x1xf32>, %w: tensor<4x0xf32>) -> tensor<?x4xf32> {
  %t = coda.mul %x, %s : (tensor<?x0xf32>, tensor<?x1xf32>) -> tensor<?x0xf32>
  %y = coda.linear %t, %w : (tensor<?x0xf32>, tensor<4x0xf32>) -> tensor<?x4xf32>
  func.return %y : tensor<?x4xf32>
}

// CHECK:      func.func @empty(
// CHECK-NEXT:   %t = coda.mul %x, %s : (tensor<?x0xf32>, tensor<?x1xf32>) -> tensor<?x0xf32>
// CHECK-NEXT:   %y = coda.linear %t, %w : (tensor<?x0xf32>, tensor<4x0xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   func.return %y : tensor<?x4xf32>
// CHECK-NEXT: }

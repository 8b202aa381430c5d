// RUN: coda-opt %s -p read-narrow-weights --split-input-file | filecheck %s
// RUN: coda-opt %s -p read-narrow-weights --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// The scale varies along K.

func.func @depth(%x: tensor<?x8xbf16>, %w: tensor<16x8xi8>, %s: tensor<8xbf16>) -> tensor<?x16xbf16> {
  %d = coda.cast %w : (tensor<16x8xi8>) -> tensor<16x8xbf16>
  %v = coda.mul %d, %s : (tensor<16x8xbf16>, tensor<8xbf16>) -> tensor<16x8xbf16>
  %y = coda.linear %x, %v : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  func.return %y : tensor<?x16xbf16>
}

// REMARK: remark[missed] read-narrow-weights: coda.linear: %v is stored in bf16: its scale %s varies along K or by group; failed condition: each column of the result has one scale
// CHECK:      func.func @depth(
// CHECK-NEXT:   %d = coda.cast %w : (tensor<16x8xi8>) -> tensor<16x8xbf16>
// CHECK-NEXT:   %v = coda.mul %d, %s : (tensor<16x8xbf16>, tensor<8xbf16>) -> tensor<16x8xbf16>
// CHECK-NEXT:   %y = coda.linear %x, %v : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %y : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// The rows of the weight of a matmul are along K.

func.func @rows(%x: tensor<?x8xbf16>, %w: tensor<8x16xi8>, %s: tensor<8x1xbf16>) -> tensor<?x16xbf16> {
  %d = coda.cast %w : (tensor<8x16xi8>) -> tensor<8x16xbf16>
  %v = coda.mul %d, %s : (tensor<8x16xbf16>, tensor<8x1xbf16>) -> tensor<8x16xbf16>
  %y = coda.matmul %x, %v : (tensor<?x8xbf16>, tensor<8x16xbf16>) -> tensor<?x16xbf16>
  func.return %y : tensor<?x16xbf16>
}

// REMARK: remark[missed] read-narrow-weights: coda.matmul: %v is stored in bf16: its scale %s varies along K or by group; failed condition: each column of the result has one scale
// CHECK:      func.func @rows(
// CHECK-NEXT:   %d = coda.cast %w : (tensor<8x16xi8>) -> tensor<8x16xbf16>
// CHECK-NEXT:   %v = coda.mul %d, %s : (tensor<8x16xbf16>, tensor<8x1xbf16>) -> tensor<8x16xbf16>
// CHECK-NEXT:   %y = coda.matmul %x, %v : (tensor<?x8xbf16>, tensor<8x16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %y : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// A weight for each group of rows, with scales.

func.func @groups(%x: tensor<?x8xbf16>, %w: tensor<4x16x8xi8>, %s: tensor<4x16x1xbf16>, %e: tensor<4xi32>) -> tensor<?x16xbf16> {
  %d = coda.cast %w : (tensor<4x16x8xi8>) -> tensor<4x16x8xbf16>
  %v = coda.mul %d, %s : (tensor<4x16x8xbf16>, tensor<4x16x1xbf16>) -> tensor<4x16x8xbf16>
  %y = coda.grouped_linear %x, %v, %e : (tensor<?x8xbf16>, tensor<4x16x8xbf16>, tensor<4xi32>) -> tensor<?x16xbf16>
  func.return %y : tensor<?x16xbf16>
}

// REMARK: remark[missed] read-narrow-weights: coda.grouped_linear: %v is stored in bf16: its scale %s varies along K or by group; failed condition: each column of the result has one scale
// CHECK:      func.func @groups(
// CHECK-NEXT:   %d = coda.cast %w : (tensor<4x16x8xi8>) -> tensor<4x16x8xbf16>
// CHECK-NEXT:   %v = coda.mul %d, %s : (tensor<4x16x8xbf16>, tensor<4x16x1xbf16>) -> tensor<4x16x8xbf16>
// CHECK-NEXT:   %y = coda.grouped_linear %x, %v, %e : (tensor<?x8xbf16>, tensor<4x16x8xbf16>, tensor<4xi32>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %y : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// Eager rounds the scaled weight.

func.func @eager(%x: tensor<?x8xbf16>, %w: tensor<16x8xi8>, %s: tensor<16x1xbf16>) -> tensor<?x16xbf16> attributes {coda.numerics = #gemm.numerics<"eager-exact">} {
  %d = coda.cast %w : (tensor<16x8xi8>) -> tensor<16x8xbf16>
  %v = coda.mul %d, %s : (tensor<16x8xbf16>, tensor<16x1xbf16>) -> tensor<16x8xbf16>
  %y = coda.linear %x, %v : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  func.return %y : tensor<?x16xbf16>
}

// REMARK: remark[missed] read-narrow-weights: coda.linear: %v is stored in bf16: eager PyTorch rounds the scaled weight before the GEMM, and the mode is eager-exact; failed condition: the numerics mode allows rounding points to move
// CHECK:      func.func @eager(
// CHECK-NEXT:   %d = coda.cast %w : (tensor<16x8xi8>) -> tensor<16x8xbf16>
// CHECK-NEXT:   %v = coda.mul %d, %s : (tensor<16x8xbf16>, tensor<16x1xbf16>) -> tensor<16x8xbf16>
// CHECK-NEXT:   %y = coda.linear %x, %v : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %y : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// An infinite scale of products of both signs.

func.func @infinite(%x: tensor<?x8xf32>, %w: tensor<16x8xi8>) -> tensor<?x16xf32> {
  %s = coda.constant {value = 0x7ff0000000000000 : f64} : tensor<f32>
  %d = coda.cast %w : (tensor<16x8xi8>) -> tensor<16x8xf32>
  %v = coda.mul %d, %s : (tensor<16x8xf32>, tensor<f32>) -> tensor<16x8xf32>
  %y = coda.linear %x, %v : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
  func.return %y : tensor<?x16xf32>
}

// REMARK: remark[missed] read-narrow-weights: coda.linear: %v is stored in f32: its scale is not finite; failed condition: a constant scale is finite
// CHECK:      func.func @infinite(
// CHECK-NEXT:   %s = coda.constant {value = 0x7ff0000000000000 : f64} : tensor<f32>
// CHECK-NEXT:   %d = coda.cast %w : (tensor<16x8xi8>) -> tensor<16x8xf32>
// CHECK-NEXT:   %v = coda.mul %d, %s : (tensor<16x8xf32>, tensor<f32>) -> tensor<16x8xf32>
// CHECK-NEXT:   %y = coda.linear %x, %v : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   func.return %y : tensor<?x16xf32>
// CHECK-NEXT: }

// -----

// GEMMs accumulate in float32, and not in float64.

func.func @wide(%x: tensor<?x8xf64>, %w: tensor<16x8xi8>) -> tensor<?x16xf64> {
  %d = coda.cast %w : (tensor<16x8xi8>) -> tensor<16x8xf64>
  %y = coda.linear %x, %d : (tensor<?x8xf64>, tensor<16x8xf64>) -> tensor<?x16xf64>
  func.return %y : tensor<?x16xf64>
}

// REMARK: remark[missed] read-narrow-weights: coda.linear: %d is stored in f64: it is multiplied in this type; failed condition: float32 can represent every value
// CHECK:      func.func @wide(
// CHECK-NEXT:   %d = coda.cast %w : (tensor<16x8xi8>) -> tensor<16x8xf64>
// CHECK-NEXT:   %y = coda.linear %x, %d : (tensor<?x8xf64>, tensor<16x8xf64>) -> tensor<?x16xf64>
// CHECK-NEXT:   func.return %y : tensor<?x16xf64>
// CHECK-NEXT: }

// -----

// A part of the rows of a weight with a scale along K.

func.func @part(%x: tensor<?x8xbf16>, %w: tensor<16x8xi8>, %s: tensor<8xbf16>) -> tensor<?x4xbf16> {
  %d = coda.cast %w : (tensor<16x8xi8>) -> tensor<16x8xbf16>
  %v = coda.mul %d, %s : (tensor<16x8xbf16>, tensor<8xbf16>) -> tensor<16x8xbf16>
  %a = coda.slice %v {dim = 0 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<16x8xbf16>) -> tensor<4x8xbf16>
  %y = coda.linear %x, %a : (tensor<?x8xbf16>, tensor<4x8xbf16>) -> tensor<?x4xbf16>
  func.return %y : tensor<?x4xbf16>
}

// REMARK: remark[missed] read-narrow-weights: coda.linear: %a is stored in bf16: its scale %s varies along K or by group; failed condition: each column of the result has one scale
// CHECK:      func.func @part(
// CHECK-NEXT:   %d = coda.cast %w : (tensor<16x8xi8>) -> tensor<16x8xbf16>
// CHECK-NEXT:   %v = coda.mul %d, %s : (tensor<16x8xbf16>, tensor<8xbf16>) -> tensor<16x8xbf16>
// CHECK-NEXT:   %a = coda.slice %v {dim = 0 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<16x8xbf16>) -> tensor<4x8xbf16>
// CHECK-NEXT:   %y = coda.linear %x, %a : (tensor<?x8xbf16>, tensor<4x8xbf16>) -> tensor<?x4xbf16>
// CHECK-NEXT:   func.return %y : tensor<?x4xbf16>
// CHECK-NEXT: }

// -----

// Rows of 16 bits and a weight of 32, rows of two types of 16 bits, and biases of groups: no
// candidates.

func.func @one_is_wide(%x: tensor<?x8xbf16>, %h: tensor<?x8xf16>, %w: tensor<16x8xf32>, %u: tensor<16x8xbf16>, %g: tensor<4x16x8xbf16>, %b: tensor<4x16xf32>, %e: tensor<4xi32>) -> (tensor<?x16xf32>, tensor<?x16xf32>, tensor<?x16xf32>) {
  %a = coda.cast %x : (tensor<?x8xbf16>) -> tensor<?x8xf32>
  %c = coda.cast %h : (tensor<?x8xf16>) -> tensor<?x8xf32>
  %v = coda.cast %u : (tensor<16x8xbf16>) -> tensor<16x8xf32>
  %k = coda.cast %g : (tensor<4x16x8xbf16>) -> tensor<4x16x8xf32>
  %y = coda.linear %a, %w : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
  %z = coda.linear %c, %v : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
  %q = coda.grouped_linear %a, %k, %e, %b : (tensor<?x8xf32>, tensor<4x16x8xf32>, tensor<4xi32>, tensor<4x16xf32>) -> tensor<?x16xf32>
  func.return %y, %z, %q : tensor<?x16xf32>, tensor<?x16xf32>, tensor<?x16xf32>
}

// CHECK:      func.func @one_is_wide(%x: tensor<?x8xbf16>, %h: tensor<?x8xf16>, %w: tensor<16x8xf32>, %u: tensor<16x8xbf16>, %g: tensor<4x16x8xbf16>, %b: tensor<4x16xf32>, %e: tensor<4xi32>) -> (tensor<?x16xf32>, tensor<?x16xf32>, tensor<?x16xf32>) {
// CHECK-NEXT:   %a = coda.cast %x : (tensor<?x8xbf16>) -> tensor<?x8xf32>
// CHECK-NEXT:   %c = coda.cast %h : (tensor<?x8xf16>) -> tensor<?x8xf32>
// CHECK-NEXT:   %v = coda.cast %u : (tensor<16x8xbf16>) -> tensor<16x8xf32>
// CHECK-NEXT:   %k = coda.cast %g : (tensor<4x16x8xbf16>) -> tensor<4x16x8xf32>
// CHECK-NEXT:   %y = coda.linear %a, %w : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %z = coda.linear %c, %v : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %q = coda.grouped_linear %a, %k, %e, %b : (tensor<?x8xf32>, tensor<4x16x8xf32>, tensor<4xi32>, tensor<4x16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   func.return %y, %z, %q : tensor<?x16xf32>, tensor<?x16xf32>, tensor<?x16xf32>
// CHECK-NEXT: }

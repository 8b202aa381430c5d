// RUN: coda-opt %s -p read-narrow-weights,dce --split-input-file | filecheck %s
// RUN: coda-opt %s -p read-narrow-weights --split-input-file --remarks=passed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// One scale for each column of the result, and a bias.

func.func @columns(%x: tensor<?x8xbf16>, %w: tensor<16x8xi8>, %s: tensor<16x1xbf16>, %b: tensor<16xbf16>) -> tensor<?x16xbf16> {
  %d = coda.cast %w : (tensor<16x8xi8>) -> tensor<16x8xbf16>
  %v = coda.mul %d, %s : (tensor<16x8xbf16>, tensor<16x1xbf16>) -> tensor<16x8xbf16>
  %y = coda.linear %x, %v, %b : (tensor<?x8xbf16>, tensor<16x8xbf16>, tensor<16xbf16>) -> tensor<?x16xbf16>
  func.return %y : tensor<?x16xbf16>
}

// REMARK: remark[passed] read-narrow-weights: coda.linear: reads %w as i8
// CHECK:      func.func @columns(
// CHECK-NEXT:   %s_1 = coda.reshape %s : (tensor<16x1xbf16>) -> tensor<16xbf16>
// CHECK-NEXT:   %y = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<16x8xi8>) -> tensor<?x16xf32>
// CHECK-NEXT:   %s_2 = coda.cast %s_1 : (tensor<16xbf16>) -> tensor<16xf32>
// CHECK-NEXT:   %0 = coda.mul %y, %s_2 : (tensor<?x16xf32>, tensor<16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %b_1 = coda.cast %b : (tensor<16xbf16>) -> tensor<16xf32>
// CHECK-NEXT:   %1 = coda.add %0, %b_1 : (tensor<?x16xf32>, tensor<16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %y_1 = coda.cast %1 : (tensor<?x16xf32>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %y_1 : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// A weight of K x N, dequantized in float32.

func.func @matmul(%x: tensor<?x8xbf16>, %w: tensor<8x16xf8E4M3FN>, %s: tensor<16xf32>) -> tensor<?x16xbf16> {
  %d = coda.cast %w : (tensor<8x16xf8E4M3FN>) -> tensor<8x16xf32>
  %v = coda.mul %s, %d : (tensor<16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  %n = coda.cast %v : (tensor<8x16xf32>) -> tensor<8x16xbf16>
  %y = coda.matmul %x, %n : (tensor<?x8xbf16>, tensor<8x16xbf16>) -> tensor<?x16xbf16>
  func.return %y : tensor<?x16xbf16>
}

// REMARK: remark[passed] read-narrow-weights: coda.matmul: reads %w as f8E4M3FN
// CHECK:      func.func @matmul(
// CHECK-NEXT:   %y = coda.matmul %x, %w : (tensor<?x8xbf16>, tensor<8x16xf8E4M3FN>) -> tensor<?x16xf32>
// CHECK-NEXT:   %0 = coda.mul %y, %s : (tensor<?x16xf32>, tensor<16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %y_1 = coda.cast %0 : (tensor<?x16xf32>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %y_1 : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// One scale for the tensor, which is also used elsewhere.

func.func @tensorwise(%x: tensor<?x8xbf16>, %w: tensor<16x8xui8>, %s: tensor<1x1xf32>) -> (tensor<?x16xbf16>, tensor<16x8xf32>) {
  %d = coda.cast %w : (tensor<16x8xui8>) -> tensor<16x8xf32>
  %v = coda.mul %d, %s : (tensor<16x8xf32>, tensor<1x1xf32>) -> tensor<16x8xf32>
  %n = coda.cast %v : (tensor<16x8xf32>) -> tensor<16x8xbf16>
  %y = coda.linear %x, %n : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  func.return %y, %v : tensor<?x16xbf16>, tensor<16x8xf32>
}

// REMARK: remark[passed] read-narrow-weights: coda.linear: reads %w as ui8
// CHECK:      func.func @tensorwise(
// CHECK-NEXT:   %d = coda.cast %w : (tensor<16x8xui8>) -> tensor<16x8xf32>
// CHECK-NEXT:   %v = coda.mul %d, %s : (tensor<16x8xf32>, tensor<1x1xf32>) -> tensor<16x8xf32>
// CHECK-NEXT:   %s_1 = coda.reshape %s : (tensor<1x1xf32>) -> tensor<1xf32>
// CHECK-NEXT:   %y = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<16x8xui8>) -> tensor<?x16xf32>
// CHECK-NEXT:   %0 = coda.mul %y, %s_1 : (tensor<?x16xf32>, tensor<1xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %y_1 = coda.cast %0 : (tensor<?x16xf32>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %y_1, %v : tensor<?x16xbf16>, tensor<16x8xf32>
// CHECK-NEXT: }

// -----

// Without a scale the conversion is exact, in any mode and for weights of groups of rows.

func.func @exact(%x: tensor<?x8xbf16>, %w: tensor<4x16x8xi8>, %e: tensor<4xi32>) -> tensor<?x16xbf16> attributes {coda.numerics = #gemm.numerics<"eager-exact">} {
  %d = coda.cast %w : (tensor<4x16x8xi8>) -> tensor<4x16x8xbf16>
  %y = coda.grouped_linear %x, %d, %e : (tensor<?x8xbf16>, tensor<4x16x8xbf16>, tensor<4xi32>) -> tensor<?x16xbf16>
  func.return %y : tensor<?x16xbf16>
}

// REMARK: remark[passed] read-narrow-weights: coda.grouped_linear: reads %w as i8
// CHECK:      func.func @exact(
// CHECK-NEXT:   %y = coda.grouped_linear %x, %w, %e : (tensor<?x8xbf16>, tensor<4x16x8xi8>, tensor<4xi32>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %y : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// Parts of a packed weight.

func.func @packed(%x: tensor<?x8xbf16>, %w: tensor<16x8xi8>, %s: tensor<16x1xbf16>) -> (tensor<?x4xbf16>, tensor<?x12xbf16>) {
  %d = coda.cast %w : (tensor<16x8xi8>) -> tensor<16x8xbf16>
  %v = coda.mul %d, %s : (tensor<16x8xbf16>, tensor<16x1xbf16>) -> tensor<16x8xbf16>
  %a = coda.slice %v {dim = 0 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<16x8xbf16>) -> tensor<4x8xbf16>
  %b = coda.slice %v {dim = 0 : i64, start = 4 : i64, stop = 16 : i64} : (tensor<16x8xbf16>) -> tensor<12x8xbf16>
  %y = coda.linear %x, %a : (tensor<?x8xbf16>, tensor<4x8xbf16>) -> tensor<?x4xbf16>
  %z = coda.linear %x, %b : (tensor<?x8xbf16>, tensor<12x8xbf16>) -> tensor<?x12xbf16>
  func.return %y, %z : tensor<?x4xbf16>, tensor<?x12xbf16>
}

// REMARK: remark[passed] read-narrow-weights: coda.linear: reads %w as i8
// CHECK:      func.func @packed(
// CHECK-NEXT:   %w_1 = coda.slice %w {dim = 0 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<16x8xi8>) -> tensor<4x8xi8>
// CHECK-NEXT:   %s_1 = coda.slice %s {dim = 0 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<16x1xbf16>) -> tensor<4x1xbf16>
// CHECK-NEXT:   %s_2 = coda.reshape %s_1 : (tensor<4x1xbf16>) -> tensor<4xbf16>
// CHECK-NEXT:   %y = coda.linear %x, %w_1 : (tensor<?x8xbf16>, tensor<4x8xi8>) -> tensor<?x4xf32>
// CHECK-NEXT:   %s_3 = coda.cast %s_2 : (tensor<4xbf16>) -> tensor<4xf32>
// CHECK-NEXT:   %0 = coda.mul %y, %s_3 : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   %y_1 = coda.cast %0 : (tensor<?x4xf32>) -> tensor<?x4xbf16>
// CHECK-NEXT:   %w_2 = coda.slice %w {dim = 0 : i64, start = 4 : i64, stop = 16 : i64} : (tensor<16x8xi8>) -> tensor<12x8xi8>
// CHECK-NEXT:   %s_4 = coda.slice %s {dim = 0 : i64, start = 4 : i64, stop = 16 : i64} : (tensor<16x1xbf16>) -> tensor<12x1xbf16>
// CHECK-NEXT:   %s_5 = coda.reshape %s_4 : (tensor<12x1xbf16>) -> tensor<12xbf16>
// CHECK-NEXT:   %z = coda.linear %x, %w_2 : (tensor<?x8xbf16>, tensor<12x8xi8>) -> tensor<?x12xf32>
// CHECK-NEXT:   %s_6 = coda.cast %s_5 : (tensor<12xbf16>) -> tensor<12xf32>
// CHECK-NEXT:   %1 = coda.mul %z, %s_6 : (tensor<?x12xf32>, tensor<12xf32>) -> tensor<?x12xf32>
// CHECK-NEXT:   %z_1 = coda.cast %1 : (tensor<?x12xf32>) -> tensor<?x12xbf16>
// CHECK-NEXT:   func.return %y_1, %z_1 : tensor<?x4xbf16>, tensor<?x12xbf16>
// CHECK-NEXT: }

// -----

// Rows and weights of 16 bits that are multiplied in float32, in any mode: each product is exact.

func.func @widened(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %b: tensor<16xf32>) -> tensor<?x16xf32> attributes {coda.numerics = #gemm.numerics<"eager-exact">} {
  %a = coda.cast %x : (tensor<?x8xbf16>) -> tensor<?x8xf32>
  %v = coda.cast %w : (tensor<16x8xbf16>) -> tensor<16x8xf32>
  %y = coda.linear %a, %v, %b : (tensor<?x8xf32>, tensor<16x8xf32>, tensor<16xf32>) -> tensor<?x16xf32>
  func.return %y : tensor<?x16xf32>
}

// REMARK: remark[passed] read-narrow-weights: coda.linear: multiplies %a and %v in 16 bits

// CHECK:      func.func @widened(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %b: tensor<16xf32>) -> tensor<?x16xf32> attributes {coda.numerics = #gemm.numerics<"eager-exact">} {
// CHECK-NEXT:   %y = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xf32>
// CHECK-NEXT:   %y_1 = coda.add %y, %b : (tensor<?x16xf32>, tensor<16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   func.return %y_1 : tensor<?x16xf32>
// CHECK-NEXT: }

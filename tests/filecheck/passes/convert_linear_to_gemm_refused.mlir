// RUN: coda-opt %s -p convert-linear-to-gemm --split-input-file | filecheck %s
// RUN: coda-opt %s -p convert-linear-to-gemm --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// GEMMs accumulate in float32.

func.func @double(%x: tensor<?x8xf64>, %w: tensor<16x8xf64>) -> tensor<?x16xf64> {
  %z = coda.linear %x, %w : (tensor<?x8xf64>, tensor<16x8xf64>) -> tensor<?x16xf64>
  func.return %z : tensor<?x16xf64>
}

// REMARK: remark[missed] convert-linear-to-gemm: coda.linear: %x has element type f64; failed condition: float32 can represent every value;
// REMARK: help: use f32, or the reference target
// CHECK:      func.func @double(
// CHECK-NEXT:   %z = coda.linear %x, %w : (tensor<?x8xf64>, tensor<16x8xf64>) -> tensor<?x16xf64>
// CHECK-NEXT:   func.return %z : tensor<?x16xf64>

// -----

// A gradient in f64, and one of a single row.

func.func @gradients(%dz: tensor<?x16xf64>, %x: tensor<?x8xf64>, %dy: tensor<16xbf16>, %y: tensor<8xbf16>) -> (tensor<16x8xf64>, tensor<16x8xbf16>) {
  %dw = coda.weight_gradient %dz, %x : (tensor<?x16xf64>, tensor<?x8xf64>) -> tensor<16x8xf64>
  %dv = coda.weight_gradient %dy, %y : (tensor<16xbf16>, tensor<8xbf16>) -> tensor<16x8xbf16>
  func.return %dw, %dv : tensor<16x8xf64>, tensor<16x8xbf16>
}

// REMARK: remark[missed] convert-linear-to-gemm: coda.weight_gradient: %x has element type f64; failed condition: float32 can represent every value; costs 128*d0 + 64*d1 + 1024 bytes
// REMARK: help: use f32, or the reference target
// REMARK: remark[missed] convert-linear-to-gemm: coda.weight_gradient: %y is a single row: the outer product runs as a separate kernel; failed condition: a weight's gradient is a sum over rows; costs 304 bytes
// CHECK:      func.func @gradients(
// CHECK-NEXT:   %dw = coda.weight_gradient %dz, %x : (tensor<?x16xf64>, tensor<?x8xf64>) -> tensor<16x8xf64>
// CHECK-NEXT:   %dv = coda.weight_gradient %dy, %y : (tensor<16xbf16>, tensor<8xbf16>) -> tensor<16x8xbf16>
// CHECK-NEXT:   func.return %dw, %dv : tensor<16x8xf64>, tensor<16x8xbf16>
// CHECK-NEXT: }

// -----

// A product without elements to add, and one without columns.

func.func @empty(%x: tensor<?x0xf32>, %w: tensor<16x0xf32>, %v: tensor<0x16xf32>) -> tensor<?x0xf32> {
  %z = coda.linear %x, %w : (tensor<?x0xf32>, tensor<16x0xf32>) -> tensor<?x16xf32>
  %y = coda.linear %z, %v : (tensor<?x16xf32>, tensor<0x16xf32>) -> tensor<?x0xf32>
  func.return %y : tensor<?x0xf32>
}

// REMARK: remark[missed] convert-linear-to-gemm: coda.linear: %x has no elements; failed condition: no operand is empty;
// REMARK: remark[missed] convert-linear-to-gemm: coda.linear: %v has no elements; failed condition: no operand is empty;
// CHECK:      func.func @empty(
// CHECK-NEXT:   %z = coda.linear %x, %w : (tensor<?x0xf32>, tensor<16x0xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %y = coda.linear %z, %v : (tensor<?x16xf32>, tensor<0x16xf32>) -> tensor<?x0xf32>
// CHECK-NEXT:   func.return %y : tensor<?x0xf32>
// CHECK-NEXT: }

// -----

// Groups of rows, products with scales of blocks, and their gradients, without elements or columns.

func.func @no_columns(%x: tensor<?x8xbf16>, %w: tensor<4x8x0xbf16>, %dy: tensor<?x0xbf16>, %e: tensor<4xi32>) -> (tensor<?x0xbf16>, tensor<4x0x8xf32>) {
  %y = coda.grouped_matmul %x, %w, %e : (tensor<?x8xbf16>, tensor<4x8x0xbf16>, tensor<4xi32>) -> tensor<?x0xbf16>
  %dw = coda.grouped_weight_gradient %dy, %x, %e : (tensor<?x0xbf16>, tensor<?x8xbf16>, tensor<4xi32>) -> tensor<4x0x8xf32>
  func.return %y, %dw : tensor<?x0xbf16>, tensor<4x0x8xf32>
}

func.func @scaled(%x: tensor<?x256xf8E4M3FN>, %w: tensor<0x256xf8E4M3FN>, %sx: tensor<?x2xf32>, %sw: tensor<0x2xf32>) -> tensor<?x0xbf16> {
  %0 = coda.scaled_linear %x, %w, %sx, %sw {blocks = #coda.blocks<128, 128>} : (tensor<?x256xf8E4M3FN>, tensor<0x256xf8E4M3FN>, tensor<?x2xf32>, tensor<0x2xf32>) -> tensor<?x0xbf16>
  func.return %0 : tensor<?x0xbf16>
}

// REMARK: remark[missed] convert-linear-to-gemm: coda.grouped_matmul: %w has no elements; failed condition: no operand is empty; costs 16*d0 + 16 bytes
// REMARK: remark[missed] convert-linear-to-gemm: coda.grouped_weight_gradient: %dy has no elements; failed condition: no operand is empty; costs 16*d0 + 16 bytes
// REMARK: remark[missed] convert-linear-to-gemm: coda.scaled_linear: %w has no elements; failed condition: no operand is empty; costs 256*d0 + 8*d1 bytes
// CHECK:      func.func @no_columns(
// CHECK-NEXT:   %y = coda.grouped_matmul %x, %w, %e : (tensor<?x8xbf16>, tensor<4x8x0xbf16>, tensor<4xi32>) -> tensor<?x0xbf16>
// CHECK-NEXT:   %dw = coda.grouped_weight_gradient %dy, %x, %e : (tensor<?x0xbf16>, tensor<?x8xbf16>, tensor<4xi32>) -> tensor<4x0x8xf32>
// CHECK-NEXT:   func.return %y, %dw : tensor<?x0xbf16>, tensor<4x0x8xf32>
// CHECK-NEXT: }
// CHECK:      func.func @scaled(
// CHECK-NEXT:   %{{.*}} = coda.scaled_linear %x, %w, %sx, %sw {blocks = #coda.blocks<128, 128>}

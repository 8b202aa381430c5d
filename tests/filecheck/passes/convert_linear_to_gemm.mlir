// RUN: coda-opt %s -p convert-linear-to-gemm --split-input-file | filecheck %s

// An N x K weight.

func.func @linear(%x: tensor<?x?x8xbf16>, %w: tensor<16x8xbf16>) -> tensor<?x?x16xf32> {
  %z = coda.linear %x, %w : (tensor<?x?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x?x16xf32>
  func.return %z : tensor<?x?x16xf32>
}

// CHECK:      func.func @linear(
// CHECK-NEXT:   %z = gemm.fused %x : tensor<?x?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<16x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x?x16xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %z : tensor<?x?x16xf32>
// CHECK-NEXT: }

// -----

// A bias is a row port.

func.func @bias(%x: tensor<8xbf16>, %w: tensor<16x8xbf16>, %b: tensor<16xbf16>) -> tensor<16xbf16> {
  %z = coda.linear %x, %w, %b : (tensor<8xbf16>, tensor<16x8xbf16>, tensor<16xbf16>) -> tensor<16xbf16>
  func.return %z : tensor<16xbf16>
}

// CHECK:      func.func @bias(
// CHECK-NEXT:   %z = gemm.fused %x : tensor<8xbf16>
// CHECK-NEXT:     columns(%w : tensor<16x8xbf16>) row(%b : tensor<16xbf16>)
// CHECK-NEXT:       -> (tile : tensor<16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %b_1: f32):
// CHECK-NEXT:       %0 = arith.addf %acc, %b_1 : f32
// CHECK-NEXT:       gemm.yield %0 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %z : tensor<16xbf16>
// CHECK-NEXT: }

// -----

// A K x N weight.

func.func @matmul(%x: tensor<?x8xf16>, %w: tensor<8x16xf16>) -> tensor<?x16xf16> {
  %z = coda.matmul %x, %w : (tensor<?x8xf16>, tensor<8x16xf16>) -> tensor<?x16xf16>
  func.return %z : tensor<?x16xf16>
}

// CHECK:      func.func @matmul(
// CHECK-NEXT:   %z = gemm.fused %x : tensor<?x8xf16>
// CHECK-NEXT:     columns(%w : tensor<8x16xf16>) kn
// CHECK-NEXT:       -> (tile : tensor<?x16xf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %z : tensor<?x16xf16>
// CHECK-NEXT: }

// -----

// The gradient of a weight sums over all rows, of whatever dimensions; its type may be wider.

func.func @gradient(%dz: tensor<?x?x16xbf16>, %x: tensor<?x?x8xbf16>) -> (tensor<16x8xbf16>, tensor<8x16xf32>) {
  %dw = coda.weight_gradient %dz, %x : (tensor<?x?x16xbf16>, tensor<?x?x8xbf16>) -> tensor<16x8xbf16>
  %dv = coda.weight_gradient %x, %dz : (tensor<?x?x8xbf16>, tensor<?x?x16xbf16>) -> tensor<8x16xf32>
  func.return %dw, %dv : tensor<16x8xbf16>, tensor<8x16xf32>
}

// CHECK:      func.func @gradient(
// CHECK-NEXT:   %dw = gemm.fused transposed %dz : tensor<?x?x16xbf16>
// CHECK-NEXT:     columns(%x : tensor<?x?x8xbf16>) kn
// CHECK-NEXT:       -> (tile : tensor<16x8xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %dv = gemm.fused transposed %x : tensor<?x?x8xbf16>
// CHECK-NEXT:     columns(%dz : tensor<?x?x16xbf16>) kn
// CHECK-NEXT:       -> (tile : tensor<8x16xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %dw, %dv : tensor<16x8xbf16>, tensor<8x16xf32>
// CHECK-NEXT: }

// -----

// Rows in groups: a weight and a bias for each of them, which is a row of a port.

func.func @groups(%x: tensor<?x8xbf16>, %w: tensor<4x16x8xbf16>, %v: tensor<4x16x8xbf16>, %b: tensor<4x16xbf16>, %e: tensor<4xi32>) -> tensor<?x8xf32> {
  %y = coda.grouped_linear %x, %w, %e, %b : (tensor<?x8xbf16>, tensor<4x16x8xbf16>, tensor<4xi32>, tensor<4x16xbf16>) -> tensor<?x16xbf16>
  %z = coda.grouped_matmul %y, %v, %e : (tensor<?x16xbf16>, tensor<4x16x8xbf16>, tensor<4xi32>) -> tensor<?x8xf32>
  func.return %z : tensor<?x8xf32>
}

// CHECK:      func.func @groups(%x: tensor<?x8xbf16>, %w: tensor<4x16x8xbf16>, %v: tensor<4x16x8xbf16>, %b: tensor<4x16xbf16>, %e: tensor<4xi32>) -> tensor<?x8xf32> {
// CHECK-NEXT:   %y = gemm.fused %x : tensor<?x8xbf16> groups(%e : tensor<4xi32>)
// CHECK-NEXT:     columns(%w : tensor<4x16x8xbf16>) group_row(%b : tensor<4x16xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %b_1: f32):
// CHECK-NEXT:       %0 = arith.addf %acc, %b_1 : f32
// CHECK-NEXT:       gemm.yield %0 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %z = gemm.fused %y : tensor<?x16xbf16> groups(%e : tensor<4xi32>)
// CHECK-NEXT:     columns(%v : tensor<4x16x8xbf16>) kn
// CHECK-NEXT:       -> (tile : tensor<?x8xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %z : tensor<?x8xf32>
// CHECK-NEXT: }

// -----

// Gradients of the weights of groups: each is a sum over the rows of its group.

func.func @weights(%dy: tensor<?x16xbf16>, %x: tensor<?x8xbf16>, %e: tensor<4xi32>) -> tensor<4x16x8xf32> {
  %dw = coda.grouped_weight_gradient %dy, %x, %e : (tensor<?x16xbf16>, tensor<?x8xbf16>, tensor<4xi32>) -> tensor<4x16x8xf32>
  func.return %dw : tensor<4x16x8xf32>
}

// CHECK:      func.func @weights(%dy: tensor<?x16xbf16>, %x: tensor<?x8xbf16>, %e: tensor<4xi32>) -> tensor<4x16x8xf32> {
// CHECK-NEXT:   %dw = gemm.fused transposed %dy : tensor<?x16xbf16> groups(%e : tensor<4xi32>)
// CHECK-NEXT:     columns(%x : tensor<?x8xbf16>) kn
// CHECK-NEXT:       -> (tile : tensor<4x16x8xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %dw : tensor<4x16x8xf32>
// CHECK-NEXT: }

// -----

// Scales of blocks stay beside their operands, and what follows is in float32.

func.func @blocks(%x: tensor<?x256xf8E4M3FN>, %w: tensor<512x256xf8E4M3FN>, %sx: tensor<?x2xf32>, %sw: tensor<4x2xf32>) -> tensor<?x512xbf16> {
  %y = coda.scaled_linear %x, %w, %sx, %sw {blocks = #coda.blocks<128, 128>} : (tensor<?x256xf8E4M3FN>, tensor<512x256xf8E4M3FN>, tensor<?x2xf32>, tensor<4x2xf32>) -> tensor<?x512xbf16>
  func.return %y : tensor<?x512xbf16>
}

// CHECK:      func.func @blocks(%x: tensor<?x256xf8E4M3FN>, %w: tensor<512x256xf8E4M3FN>, %sx: tensor<?x2xf32>, %sw: tensor<4x2xf32>) -> tensor<?x512xbf16> {
// CHECK-NEXT:   %y = gemm.fused %x : tensor<?x256xf8E4M3FN> blocks<128, 128>(%sx : tensor<?x2xf32>)
// CHECK-NEXT:     columns(%w : tensor<512x256xf8E4M3FN>) scales(%sw : tensor<4x2xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x512xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y : tensor<?x512xbf16>
// CHECK-NEXT: }

// -----

// A weight of four bits stays one, with its scales and zero points.

func.func @four_bits(%x: tensor<?x320xf16>, %w: tensor<40x64xi32>, %s: tensor<5x64xf16>, %z: tensor<5x8xi32>) -> tensor<?x64xf16> {
  %y = coda.low_bit_linear %x, %w, %s, %z {kn, scheme = #coda.quantized<64, offset = 1, "k01234567">} : (tensor<?x320xf16>, tensor<40x64xi32>, tensor<5x64xf16>, tensor<5x8xi32>) -> tensor<?x64xf16>
  func.return %y : tensor<?x64xf16>
}

// CHECK:      func.func @four_bits(%x: tensor<?x320xf16>, %w: tensor<40x64xi32>, %s: tensor<5x64xf16>, %z: tensor<5x8xi32>) -> tensor<?x64xf16> {
// CHECK-NEXT:   %y = gemm.fused %x : tensor<?x320xf16> quantized<64, offset = 1, "k01234567">
// CHECK-NEXT:     columns(%w : tensor<40x64xi32>) kn scales(%s : tensor<5x64xf16>) zeros(%z : tensor<5x8xi32>)
// CHECK-NEXT:       -> (tile : tensor<?x64xf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y : tensor<?x64xf16>
// CHECK-NEXT: }

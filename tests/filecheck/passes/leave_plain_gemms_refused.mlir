// RUN: coda-opt %s -p leave-plain-gemms --split-input-file | filecheck %s

// An activation, or a scale, is an epilogue.

func.func @activation(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) -> tensor<?x16xbf16> {
  %y = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>)
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32):
      %e = math.exp %acc : f32
      gemm.yield %e : f32
    }
  func.return %y : tensor<?x16xbf16>
}

// CHECK:      func.func @activation(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) -> tensor<?x16xbf16> {
// CHECK-NEXT:   %y = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<16x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       %e = math.exp %acc : f32
// CHECK-NEXT:       gemm.yield %e : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

func.func @scaled(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %b: tensor<16xbf16>) -> tensor<?x16xbf16> {
  %y = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>) row(%b : tensor<16xbf16>)
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32, %b_1: f32):
      %e = arith.mulf %acc, %b_1 : f32
      gemm.yield %e : f32
    }
  func.return %y : tensor<?x16xbf16>
}

// CHECK:      func.func @scaled(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %b: tensor<16xbf16>) -> tensor<?x16xbf16> {
// CHECK-NEXT:   %y = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<16x8xbf16>) row(%b : tensor<16xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %b_1: f32):
// CHECK-NEXT:       %e = arith.mulf %acc, %b_1 : f32
// CHECK-NEXT:       gemm.yield %e : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// A tile that is added is no bias.

func.func @residual(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %r: tensor<?x16xbf16>) -> tensor<?x16xbf16> {
  %y = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>) tile(%r : tensor<?x16xbf16>)
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32, %r_1: f32):
      %e = arith.addf %acc, %r_1 : f32
      gemm.yield %e : f32
    }
  func.return %y : tensor<?x16xbf16>
}

// CHECK:      func.func @residual(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %r: tensor<?x16xbf16>) -> tensor<?x16xbf16> {
// CHECK-NEXT:   %y = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<16x8xbf16>) tile(%r : tensor<?x16xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %r_1: f32):
// CHECK-NEXT:       %e = arith.addf %acc, %r_1 : f32
// CHECK-NEXT:       gemm.yield %e : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// The library gives the type of its operands, and takes a bias of the same type.

func.func @wide(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) -> tensor<?x16xf32> {
  %y = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>)
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  func.return %y : tensor<?x16xf32>
}

// CHECK:      func.func @wide(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) -> tensor<?x16xf32> {
// CHECK-NEXT:   %y = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<16x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y : tensor<?x16xf32>
// CHECK-NEXT: }

// -----

func.func @wide_bias(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %b: tensor<16xf32>) -> tensor<?x16xbf16> {
  %y = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>) row(%b : tensor<16xf32>)
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32, %b_1: f32):
      %e = arith.addf %acc, %b_1 : f32
      gemm.yield %e : f32
    }
  func.return %y : tensor<?x16xbf16>
}

// CHECK:      func.func @wide_bias(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %b: tensor<16xf32>) -> tensor<?x16xbf16> {
// CHECK-NEXT:   %y = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<16x8xbf16>) row(%b : tensor<16xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %b_1: f32):
// CHECK-NEXT:       %e = arith.addf %acc, %b_1 : f32
// CHECK-NEXT:       gemm.yield %e : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// A weight K x N.

func.func @kn(%x: tensor<?x8xbf16>, %w: tensor<8x16xbf16>) -> tensor<?x16xbf16> {
  %y = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<8x16xbf16>) kn
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  func.return %y : tensor<?x16xbf16>
}

// CHECK:      func.func @kn(%x: tensor<?x8xbf16>, %w: tensor<8x16xbf16>) -> tensor<?x16xbf16> {
// CHECK-NEXT:   %y = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<8x16xbf16>) kn
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// Several weights.

func.func @two(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %v: tensor<4x8xbf16>) -> tensor<?x20xbf16> {
  %y = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>, %v : tensor<4x8xbf16>)
      -> (tile : tensor<?x20xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  func.return %y : tensor<?x20xbf16>
}

// CHECK:      func.func @two(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %v: tensor<4x8xbf16>) -> tensor<?x20xbf16> {
// CHECK-NEXT:   %y = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<16x8xbf16>, %v : tensor<4x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x20xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y : tensor<?x20xbf16>
// CHECK-NEXT: }

// -----

// Products of float8, even where the result is float8, too.

func.func @float8(%x: tensor<?x8xf8E4M3FN>, %w: tensor<16x8xf8E4M3FN>) -> tensor<?x16xf8E4M3FN> {
  %y = gemm.fused %x : tensor<?x8xf8E4M3FN>
    columns(%w : tensor<16x8xf8E4M3FN>)
      -> (tile : tensor<?x16xf8E4M3FN>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  func.return %y : tensor<?x16xf8E4M3FN>
}

// CHECK:      func.func @float8(
// CHECK-NEXT:   %y = gemm.fused %x : tensor<?x8xf8E4M3FN>
// CHECK-NEXT:     columns(%w : tensor<16x8xf8E4M3FN>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf8E4M3FN>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y : tensor<?x16xf8E4M3FN>
// CHECK-NEXT: }

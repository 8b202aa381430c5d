// RUN: coda-opt %s -p repeat-columns --split-input-file | filecheck %s

// The function returns the column.

func.func @returned(%x: tensor<?x8xf32>, %s: tensor<?x1xf32>) -> (tensor<?x8xf32>, tensor<?x1xf32>) {
  %c = coda.exp %s : (tensor<?x1xf32>) -> tensor<?x1xf32>
  %y = gemm.map tile(%x : tensor<?x8xf32>) col(%c : tensor<?x1xf32>)
    -> (tile : tensor<?x8xf32>) {
    ^bb0(%x_1: f32, %c_1: f32):
      %0 = arith.mulf %x_1, %c_1 : f32
      gemm.yield %0 : f32
    }
  func.return %y, %c : tensor<?x8xf32>, tensor<?x1xf32>
}

// CHECK:      func.func @returned(
// CHECK-NEXT:   %c = coda.exp %s : (tensor<?x1xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %y = gemm.map tile(%x : tensor<?x8xf32>) col(%c : tensor<?x1xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x8xf32>) {
// CHECK-NEXT:     ^bb0(%x_1: f32, %c_1: f32):
// CHECK-NEXT:       %0 = arith.mulf %x_1, %c_1 : f32
// CHECK-NEXT:       gemm.yield %0 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y, %c : tensor<?x8xf32>, tensor<?x1xf32>
// CHECK-NEXT: }

// -----

// A kernel multiplies it with a weight.

func.func @input(%a: tensor<?x1xf32>, %w: tensor<8x1xf32>) -> tensor<?x8xf32> {
  %c = coda.exp %a : (tensor<?x1xf32>) -> tensor<?x1xf32>
  %y = gemm.fused %c : tensor<?x1xf32>
    columns(%w : tensor<8x1xf32>) col(%c : tensor<?x1xf32>)
    -> (tile : tensor<?x8xf32>) {
    ^bb0(%acc: f32, %c_1: f32):
      %0 = arith.mulf %acc, %c_1 : f32
      gemm.yield %0 : f32
    }
  func.return %y : tensor<?x8xf32>
}

// CHECK:      func.func @input(
// CHECK-NEXT:   %c = coda.exp %a : (tensor<?x1xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %y = gemm.fused %c : tensor<?x1xf32>
// CHECK-NEXT:     columns(%w : tensor<8x1xf32>) col(%c : tensor<?x1xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x8xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %c_1: f32):
// CHECK-NEXT:       %0 = arith.mulf %acc, %c_1 : f32
// CHECK-NEXT:       gemm.yield %0 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y : tensor<?x8xf32>
// CHECK-NEXT: }

// -----

// It is loaded as a tile.

func.func @tile(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %c = coda.exp %x : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %y = gemm.map tile(%c : tensor<?x8xf32>)
    -> (tile : tensor<?x8xf32>) {
    ^bb0(%c_1: f32):
      %0 = math.tanh %c_1 : f32
      gemm.yield %0 : f32
    }
  func.return %y : tensor<?x8xf32>
}

// CHECK:      func.func @tile(
// CHECK-NEXT:   %c = coda.exp %x : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %y = gemm.map tile(%c : tensor<?x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x8xf32>) {
// CHECK-NEXT:     ^bb0(%c_1: f32):
// CHECK-NEXT:       %0 = math.tanh %c_1 : f32
// CHECK-NEXT:       gemm.yield %0 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y : tensor<?x8xf32>
// CHECK-NEXT: }

// -----

// One operand is a value per position, which no port of the kernel repeats over the batch.

func.func @position(%x: tensor<?x4x8xf32>, %s: tensor<?x4x1xf32>, %p: tensor<4x1xf32>) -> tensor<?x4x8xf32> {
  %c = coda.mul %s, %p : (tensor<?x4x1xf32>, tensor<4x1xf32>) -> tensor<?x4x1xf32>
  %y = gemm.map tile(%x : tensor<?x4x8xf32>) col(%c : tensor<?x4x1xf32>)
    -> (tile : tensor<?x4x8xf32>) {
    ^bb0(%x_1: f32, %c_1: f32):
      %0 = arith.mulf %x_1, %c_1 : f32
      gemm.yield %0 : f32
    }
  func.return %y : tensor<?x4x8xf32>
}

// CHECK:      func.func @position(
// CHECK-NEXT:   %c = coda.mul %s, %p : (tensor<?x4x1xf32>, tensor<4x1xf32>) -> tensor<?x4x1xf32>
// CHECK-NEXT:   %y = gemm.map tile(%x : tensor<?x4x8xf32>) col(%c : tensor<?x4x1xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x4x8xf32>) {
// CHECK-NEXT:     ^bb0(%x_1: f32, %c_1: f32):
// CHECK-NEXT:       %0 = arith.mulf %x_1, %c_1 : f32
// CHECK-NEXT:       gemm.yield %0 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y : tensor<?x4x8xf32>
// CHECK-NEXT: }

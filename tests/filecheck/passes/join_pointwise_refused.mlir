// RUN: coda-opt %s -p join-pointwise --split-input-file | filecheck %s

// The kernel needs what it would compute.

func.func @input(%w: tensor<8x8xbf16>, %x: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
  %e = coda.exp %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %y = gemm.fused %e : tensor<?x8xbf16>
    columns(%w : tensor<8x8xbf16>) tile(%x : tensor<?x8xbf16>)
    -> (tile : tensor<?x8xbf16>) {
    ^bb0(%acc: f32, %x_1: f32):
      %0 = arith.mulf %acc, %x_1 : f32
      gemm.yield %0 : f32
    }
  func.return %y : tensor<?x8xbf16>
}

// CHECK:      func.func @input(
// CHECK-NEXT:   %e = coda.exp %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %y = gemm.fused %e : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<8x8xbf16>) tile(%x : tensor<?x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x8xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %x_1: f32):
// CHECK-NEXT:       %0 = arith.mulf %acc, %x_1 : f32
// CHECK-NEXT:       gemm.yield %0 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y : tensor<?x8xbf16>
// CHECK-NEXT: }

// -----

// It needs the complete rows that the kernel computes.

func.func @rows(%a: tensor<?x4xf32>, %w: tensor<8x4xf32>, %x: tensor<?x8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  %y = gemm.fused %a : tensor<?x4xf32>
    columns(%w : tensor<8x4xf32>) tile(%x : tensor<?x8xf32>)
    -> (tile : tensor<?x8xf32>) {
    ^bb0(%acc: f32, %x_1: f32):
      %0 = arith.mulf %acc, %x_1 : f32
      gemm.yield %0 : f32
    }
  %m = coda.reduce %y {kind = "max"} : (tensor<?x8xf32>) -> tensor<?x1xf32>
  %p = coda.div %x, %m : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  func.return %y, %p : tensor<?x8xf32>, tensor<?x8xf32>
}

// CHECK:      func.func @rows(
// CHECK-NEXT:   %y = gemm.fused %a : tensor<?x4xf32>
// CHECK-NEXT:     columns(%w : tensor<8x4xf32>) tile(%x : tensor<?x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x8xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %x_1: f32):
// CHECK-NEXT:       %0 = arith.mulf %acc, %x_1 : f32
// CHECK-NEXT:       gemm.yield %0 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %m = coda.reduce %y {kind = "max"} : (tensor<?x8xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %p = coda.div %x, %m : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   func.return %y, %p : tensor<?x8xf32>, tensor<?x8xf32>
// CHECK-NEXT: }

// -----

// The kernel loads the operand by row, not element by element; and not at all.

func.func @other_ports(%a: tensor<?x4xf32>, %w: tensor<8x4xf32>, %b: tensor<8x8xf32>, %x: tensor<8x8xf32>) -> (tensor<?x8xf32>, tensor<8x8xf32>) {
  %y = gemm.fused %a : tensor<?x4xf32>
    columns(%w : tensor<8x4xf32>) table(%x : tensor<8x8xf32>)
    -> (tile : tensor<?x8xf32>) {
    ^bb0(%acc: f32, %x_1: f32):
      %0 = arith.mulf %acc, %x_1 : f32
      gemm.yield %0 : f32
    }
  %p = coda.mul %x, %b : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  func.return %y, %p : tensor<?x8xf32>, tensor<8x8xf32>
}

// CHECK:      func.func @other_ports(
// CHECK-NEXT:   %y = gemm.fused %a : tensor<?x4xf32>
// CHECK-NEXT:     columns(%w : tensor<8x4xf32>) table(%x : tensor<8x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x8xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %x_1: f32):
// CHECK-NEXT:       %0 = arith.mulf %acc, %x_1 : f32
// CHECK-NEXT:       gemm.yield %0 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %p = coda.mul %x, %b : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
// CHECK-NEXT:   func.return %y, %p : tensor<?x8xf32>, tensor<8x8xf32>
// CHECK-NEXT: }

// -----

// Shifted rows would be copied for a GEMM.

func.func @shifted(%a: tensor<?x?x4xf32> {coda.dims = ["B", "T", 4 : i64]}, %w: tensor<8x4xf32>, %x: tensor<?x?x8xf32> {coda.dims = ["B", "T", 8 : i64]}) -> (tensor<?x?x8xf32>, tensor<?x?x8xf32>) {
  %y = gemm.fused %a : tensor<?x?x4xf32>
    columns(%w : tensor<8x4xf32>) tile(%x : tensor<?x?x8xf32>)
    -> (tile : tensor<?x?x8xf32>) {
    ^bb0(%acc: f32, %x_1: f32):
      %0 = arith.mulf %acc, %x_1 : f32
      gemm.yield %0 : f32
    }
  %s = coda.shift %x {by = 1 : i64} : (tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
  %e = coda.add %x, %s : (tensor<?x?x8xf32>, tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
  func.return %y, %e : tensor<?x?x8xf32>, tensor<?x?x8xf32>
}

// CHECK:      func.func @shifted(%a: tensor<?x?x4xf32> {coda.dims = ["B", "T", 4 : i64]}, %w: tensor<8x4xf32>, %x: tensor<?x?x8xf32> {coda.dims = ["B", "T", 8 : i64]}) -> (tensor<?x?x8xf32>, tensor<?x?x8xf32>) {
// CHECK-NEXT:   %y = gemm.fused %a : tensor<?x?x4xf32>
// CHECK-NEXT:     columns(%w : tensor<8x4xf32>) tile(%x : tensor<?x?x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x?x8xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %x_1: f32):
// CHECK-NEXT:       %0 = arith.mulf %acc, %x_1 : f32
// CHECK-NEXT:       gemm.yield %0 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %s = coda.shift %x {by = 1 : i64} : (tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %e = coda.add %x, %s : (tensor<?x?x8xf32>, tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   func.return %y, %e : tensor<?x?x8xf32>, tensor<?x?x8xf32>
// CHECK-NEXT: }

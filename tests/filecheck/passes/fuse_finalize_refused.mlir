// RUN: coda-opt %s -p fuse-finalize --split-input-file | filecheck %s

// The result is larger than the column.

func.func @broadcast(%x: tensor<?x8xf32>, %w: tensor<16x8xf32>, %y: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %z, %partial = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<16x8xf32>)
      -> (tile : tensor<?x16xf32>, partial_row<add> : tensor<?x?xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc, %acc : f32, f32
    }
  %s = gemm.finalize row (add %partial : tensor<?x?xf32>) -> (tensor<?x1xf32>) {
  ^bb0(%0: f32):
    gemm.yield %0 : f32
  }
  %d = coda.div %y, %s : (tensor<?x4xf32>, tensor<?x1xf32>) -> tensor<?x4xf32>
  func.return %d : tensor<?x4xf32>
}

// CHECK:      func.func @broadcast(
// CHECK-NEXT:   %z, %partial = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<16x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>, partial_row<add> : tensor<?x?xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc, %acc : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %s = gemm.finalize row (add %partial : tensor<?x?xf32>) -> (tensor<?x1xf32>) {
// CHECK-NEXT:   ^bb0(%0: f32):
// CHECK-NEXT:     gemm.yield %0 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   %d = coda.div %y, %s : (tensor<?x4xf32>, tensor<?x1xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   func.return %d : tensor<?x4xf32>
// CHECK-NEXT: }

// -----

// Another operand depends on the finalize; what does not is fused.

func.func @dependent(%x: tensor<?x8xf32>, %w: tensor<16x8xf32>, %e: tensor<?x1x1xf32>) -> tensor<?x1xf32> {
  %z, %partial = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<16x8xf32>)
      -> (tile : tensor<?x16xf32>, partial_row<add> : tensor<?x?xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc, %acc : f32, f32
    }
  %s = gemm.finalize row (add %partial : tensor<?x?xf32>) -> (tensor<?x1xf32>) {
  ^bb0(%0: f32):
    gemm.yield %0 : f32
  }
  %t = coda.softmax %s : (tensor<?x1xf32>) -> tensor<?x1xf32>
  %d = coda.div %s, %t : (tensor<?x1xf32>, tensor<?x1xf32>) -> tensor<?x1xf32>
  func.return %d : tensor<?x1xf32>
}

// CHECK:      func.func @dependent(
// CHECK-NEXT:   %z, %partial = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<16x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>, partial_row<add> : tensor<?x?xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc, %acc : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %s = gemm.finalize row (add %partial : tensor<?x?xf32>) -> (tensor<?x1xf32>) {
// CHECK-NEXT:   ^bb0(%0: f32):
// CHECK-NEXT:     gemm.yield %0 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   %t = coda.softmax %s : (tensor<?x1xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %d = coda.div %s, %t : (tensor<?x1xf32>, tensor<?x1xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   func.return %d : tensor<?x1xf32>
// CHECK-NEXT: }

// -----

// Another operand repeats along the rows.

func.func @table(%x: tensor<?x4x8xf32>, %w: tensor<16x8xf32>, %t: tensor<4x1xf32>) -> tensor<?x4x1xf32> {
  %z, %partial = gemm.fused %x : tensor<?x4x8xf32>
    columns(%w : tensor<16x8xf32>)
      -> (tile : tensor<?x4x16xf32>, partial_row<add> : tensor<?x4x?xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc, %acc : f32, f32
    }
  %s = gemm.finalize row (add %partial : tensor<?x4x?xf32>) -> (tensor<?x4x1xf32>) {
  ^bb0(%0: f32):
    gemm.yield %0 : f32
  }
  %d = coda.mul %s, %t : (tensor<?x4x1xf32>, tensor<4x1xf32>) -> tensor<?x4x1xf32>
  func.return %d : tensor<?x4x1xf32>
}

// CHECK:      func.func @table(
// CHECK-NEXT:   %z, %partial = gemm.fused %x : tensor<?x4x8xf32>
// CHECK-NEXT:     columns(%w : tensor<16x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x4x16xf32>, partial_row<add> : tensor<?x4x?xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc, %acc : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %s = gemm.finalize row (add %partial : tensor<?x4x?xf32>) -> (tensor<?x4x1xf32>) {
// CHECK-NEXT:   ^bb0(%0: f32):
// CHECK-NEXT:     gemm.yield %0 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   %d = coda.mul %s, %t : (tensor<?x4x1xf32>, tensor<4x1xf32>) -> tensor<?x4x1xf32>
// CHECK-NEXT:   func.return %d : tensor<?x4x1xf32>
// CHECK-NEXT: }

// -----

// One finalize needs what the other one gives.

func.func @one_after_the_other(%p: tensor<?x?xf32>, %x: tensor<?x8xf32>) -> tensor<?x1xf32> {
  %a = gemm.finalize row (max %p : tensor<?x?xf32>) -> (tensor<?x1xf32>) {
  ^bb0(%0: f32):
    gemm.yield %0 : f32
  }
  %partial = gemm.map tile(%x : tensor<?x8xf32>) col(%a : tensor<?x1xf32>)
    -> (partial_row<add> : tensor<?x?xf32>) {
  ^bb0(%0: f32, %1: f32):
    %2 = arith.subf %0, %1 : f32
    gemm.yield %2 : f32
  }
  %b = gemm.finalize row (add %partial : tensor<?x?xf32>) -> (tensor<?x1xf32>) {
  ^bb0(%0: f32):
    gemm.yield %0 : f32
  }
  %y = coda.softmax %a : (tensor<?x1xf32>) -> tensor<?x1xf32>
  %z = coda.add %b, %y : (tensor<?x1xf32>, tensor<?x1xf32>) -> tensor<?x1xf32>
  %w = coda.add %a, %b : (tensor<?x1xf32>, tensor<?x1xf32>) -> tensor<?x1xf32>
  %r = coda.mul %z, %w : (tensor<?x1xf32>, tensor<?x1xf32>) -> tensor<?x1xf32>
  func.return %r : tensor<?x1xf32>
}

// CHECK:      func.func @one_after_the_other(
// CHECK-NEXT:   %a = gemm.finalize row (max %p : tensor<?x?xf32>) -> (tensor<?x1xf32>) {
// CHECK-NEXT:   ^bb0(%0: f32):
// CHECK-NEXT:     gemm.yield %0 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   %partial = gemm.map tile(%x : tensor<?x8xf32>) col(%a : tensor<?x1xf32>)
// CHECK-NEXT:       -> (partial_row<add> : tensor<?x?xf32>) {
// CHECK-NEXT:     ^bb0(%0: f32, %1: f32):
// CHECK-NEXT:       %2 = arith.subf %0, %1 : f32
// CHECK-NEXT:       gemm.yield %2 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %y = coda.softmax %a : (tensor<?x1xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %r = gemm.finalize row (add %partial : tensor<?x?xf32>) col(%y : tensor<?x1xf32>, %a : tensor<?x1xf32>) -> (tensor<?x1xf32>) {
// CHECK-NEXT:   ^bb0(%0: f32, %1: f32, %2: f32):
// CHECK-NEXT:     %3 = arith.addf %0, %1 : f32
// CHECK-NEXT:     %4 = arith.addf %2, %0 : f32
// CHECK-NEXT:     %5 = arith.mulf %3, %4 : f32
// CHECK-NEXT:     gemm.yield %5 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %r : tensor<?x1xf32>
// CHECK-NEXT: }

// -----

// The columns of a row and of a reshape meet.

func.func @other_columns(%x: tensor<?x8xf32>, %y: tensor<8x1xf32>) -> tensor<8x1xf32> {
  %partial = gemm.map tile(%x : tensor<?x8xf32>)
      -> (partial_col<max> : tensor<?x8xf32>) {
    ^bb0(%0: f32):
      gemm.yield %0 : f32
    }
  %m = gemm.finalize col (max %partial : tensor<?x8xf32>) -> (tensor<8xf32>) {
  ^bb0(%0: f32):
    gemm.yield %0 : f32
  }
  %c = coda.reshape %m : (tensor<8xf32>) -> tensor<8x1xf32>
  %s = coda.mul %c, %y : (tensor<8x1xf32>, tensor<8x1xf32>) -> tensor<8x1xf32>
  func.return %s : tensor<8x1xf32>
}

// CHECK:      func.func @other_columns(
// CHECK-NEXT:   %partial = gemm.map tile(%x : tensor<?x8xf32>)
// CHECK-NEXT:       -> (partial_col<max> : tensor<?x8xf32>) {
// CHECK-NEXT:     ^bb0(%0: f32):
// CHECK-NEXT:       gemm.yield %0 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %m = gemm.finalize col (max %partial : tensor<?x8xf32>) -> (tensor<8xf32>) {
// CHECK-NEXT:   ^bb0(%0: f32):
// CHECK-NEXT:     gemm.yield %0 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   %c = coda.reshape %m : (tensor<8xf32>) -> tensor<8x1xf32>
// CHECK-NEXT:   %s = coda.mul %c, %y : (tensor<8x1xf32>, tensor<8x1xf32>) -> tensor<8x1xf32>
// CHECK-NEXT:   func.return %s : tensor<8x1xf32>
// CHECK-NEXT: }

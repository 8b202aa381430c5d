// RUN: coda-opt %s -p outline-pointwise --split-input-file | filecheck %s
// RUN: coda-opt %s -p outline-pointwise,report-unfused --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// The remarks of a kernel of its own: no operand comes from a kernel.

func.func @arguments(%x: tensor<?x8xf32>, %y: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %a = coda.mul %x, %y : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  func.return %a : tensor<?x8xf32>
}

// REMARK: remark[missed] report-unfused: gemm.map: a pointwise kernel reads only arguments; failed condition: an operand is the tile of a GEMM; costs 64*d0 + 32*d1 bytes
// CHECK:      func.func @arguments(
// CHECK-NEXT:   %a = gemm.map tile(%x : tensor<?x8xf32>, %y : tensor<?x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x8xf32>) {
// CHECK-NEXT:     ^bb0(%x_1: f32, %y_1: f32):
// CHECK-NEXT:       %a_1 = arith.mulf %x_1, %y_1 : f32
// CHECK-NEXT:       gemm.yield %a_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %a : tensor<?x8xf32>
// CHECK-NEXT: }

// -----

// The tile itself broadcasts.

func.func @larger(%x: tensor<?x8xf32>, %w: tensor<1x8xf32>, %y: tensor<?x16xf32>) -> tensor<?x16xf32> {
  %z = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<1x8xf32>)
      -> (tile : tensor<?x1xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %a = coda.mul %z, %y : (tensor<?x1xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
  func.return %a : tensor<?x16xf32>
}

// REMARK: remark[missed] report-unfused: gemm.map: the result of shape ?x16 is larger than the tile it would be fused into; failed condition: the consumer has the shape of the producer's tile; costs 68*d0 + 64*d1 bytes
// CHECK:      func.func @larger(
// CHECK-NEXT:   %z = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<1x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x1xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %a = gemm.map col(%z : tensor<?x1xf32>) tile(%y : tensor<?x16xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%z_1: f32, %y_1: f32):
// CHECK-NEXT:       %a_1 = arith.mulf %z_1, %y_1 : f32
// CHECK-NEXT:       gemm.yield %a_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %a : tensor<?x16xf32>
// CHECK-NEXT: }

// -----

// Another operand depends on the complete result of the GEMM.

func.func @dependent(%x: tensor<?x8xf32>, %w: tensor<16x8xf32>) -> tensor<?x16xf32> {
  %z = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<16x8xf32>)
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %m = coda.softmax %z : (tensor<?x16xf32>) -> tensor<?x16xf32>
  %s = coda.sub %z, %m : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
  func.return %s : tensor<?x16xf32>
}

// REMARK: remark[missed] report-unfused: gemm.map: another operand depends on the complete result of the kernel that computes %z; failed condition: no other operand depends on that kernel; costs 192*d0 bytes
// CHECK:      func.func @dependent(
// CHECK-NEXT:   %z = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<16x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %m = coda.softmax %z : (tensor<?x16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %s = gemm.map tile(%z : tensor<?x16xf32>, %m : tensor<?x16xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%z_1: f32, %m_1: f32):
// CHECK-NEXT:       %s_1 = arith.subf %z_1, %m_1 : f32
// CHECK-NEXT:       gemm.yield %s_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %s : tensor<?x16xf32>
// CHECK-NEXT: }

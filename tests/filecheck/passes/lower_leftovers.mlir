// RUN: coda-opt %s -p lower-leftovers --split-input-file | filecheck %s

// One kernel of both leftovers saves more than the call takes, as symbols are taken for large.

func.func @worth(%x: tensor<?x?x512xf32> {coda.dims = ["B", "T", 512]}, %m: tensor<?x1x512xf32> {coda.dims = ["B", 1, 512]}, %w: tensor<512x512xf32>) -> (tensor<?x?x512xf32> {coda.dims = ["B", "T", 512]}) {
  %h = gemm.fused %x : tensor<?x?x512xf32>
    columns(%w : tensor<512x512xf32>)
      -> (tile : tensor<?x?x512xf32>) {
    ^bb0(%acc: f32):
      %e = math.exp %acc : f32
      gemm.yield %e : f32
    }
  %s = coda.mul %h, %m : (tensor<?x?x512xf32>, tensor<?x1x512xf32>) -> tensor<?x?x512xf32>
  %y = coda.rms_norm %s {eps = 1.000000e-06 : f64} : (tensor<?x?x512xf32>) -> tensor<?x?x512xf32>
  func.return %y : tensor<?x?x512xf32>
}

// CHECK:      func.func @worth(%x: tensor<?x?x512xf32> {coda.dims = ["B", "T", 512 : i64]}, %m: tensor<?x1x512xf32> {coda.dims = ["B", 1 : i64, 512 : i64]}, %w: tensor<512x512xf32>) -> (tensor<?x?x512xf32> {coda.dims = ["B", "T", 512 : i64]}) {
// CHECK-NEXT:   %h = func.call @worth_program(%x, %w) {coda.dims = ["B", "T", 512 : i64]} : (tensor<?x?x512xf32>, tensor<512x512xf32>) -> tensor<?x?x512xf32>
// CHECK-NEXT:   %s = coda.mul %h, %m : (tensor<?x?x512xf32>, tensor<?x1x512xf32>) -> tensor<?x?x512xf32>
// CHECK-NEXT:   %y = coda.rms_norm %s {eps = 1.000000e-06 : f64} : (tensor<?x?x512xf32>) -> tensor<?x?x512xf32>
// CHECK-NEXT:   func.return %y : tensor<?x?x512xf32>
// CHECK-NEXT: }

// -----

// A single leftover is one kernel anyhow.

func.func @single(%x: tensor<?x?x512xf32> {coda.dims = ["B", "T", 512]}, %w: tensor<512x512xf32>) -> (tensor<?x?x512xf32> {coda.dims = ["B", "T", 512]}) {
  %h = gemm.fused %x : tensor<?x?x512xf32>
    columns(%w : tensor<512x512xf32>)
      -> (tile : tensor<?x?x512xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %y = coda.softmax %h : (tensor<?x?x512xf32>) -> tensor<?x?x512xf32>
  func.return %y : tensor<?x?x512xf32>
}

// CHECK:      func.func @single(%x: tensor<?x?x512xf32> {coda.dims = ["B", "T", 512 : i64]}, %w: tensor<512x512xf32>) -> (tensor<?x?x512xf32> {coda.dims = ["B", "T", 512 : i64]}) {
// CHECK-NEXT:   %h = gemm.fused %x : tensor<?x?x512xf32>
// CHECK-NEXT:     columns(%w : tensor<512x512xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x?x512xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %y = gemm.map tile(%h : tensor<?x?x512xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x?x512xf32>) {
// CHECK-NEXT:     ^bb0(%h_1: f32):
// CHECK-NEXT:       %0 = gemm.group_reduce max %h_1 over 512 : f32
// CHECK-NEXT:       %1 = arith.subf %h_1, %0 : f32
// CHECK-NEXT:       %2 = math.exp %1 : f32
// CHECK-NEXT:       %3 = gemm.group_reduce add %2 over 512 : f32
// CHECK-NEXT:       %4 = arith.divf %2, %3 : f32
// CHECK-NEXT:       gemm.yield %4 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y : tensor<?x?x512xf32>
// CHECK-NEXT: }

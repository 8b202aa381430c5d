// RUN: coda-opt %s -p 'unfuse-gemms{narrow=true}' --split-input-file | filecheck %s

// Eager PyTorch rounds the product before it multiplies: so does the GEMM.

func.func @gate(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %t: tensor<?x16xbf16>) -> tensor<?x16xbf16> {
  %y = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>) tile(%t : tensor<?x16xbf16>)
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32, %gate: f32):
      %s = arith.mulf %acc, %gate : f32
      gemm.yield %s : f32
    }
  func.return %y : tensor<?x16xbf16>
}

// CHECK:      func.func @gate(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %t: tensor<?x16xbf16>) -> tensor<?x16xbf16> {
// CHECK-NEXT:   %product = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<16x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%0: f32):
// CHECK-NEXT:       gemm.yield %0 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %y = gemm.map tile(%product : tensor<?x16xbf16>, %t : tensor<?x16xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %gate: f32):
// CHECK-NEXT:       %s = arith.mulf %acc, %gate : f32
// CHECK-NEXT:       gemm.yield %s : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// A bias is added to the unrounded product first.

func.func @bias(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %b: tensor<16xbf16>) -> tensor<?x16xbf16> {
  %y = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>) row(%b : tensor<16xbf16>)
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32, %bias: f32):
      %s = arith.addf %acc, %bias : f32
      %t = math.tanh %s : f32
      gemm.yield %t : f32
    }
  func.return %y : tensor<?x16xbf16>
}

// CHECK-LABEL: func.func @bias
// CHECK:       %y = gemm.map tile(%product : tensor<?x16xf32>) row(%b : tensor<16xbf16>)

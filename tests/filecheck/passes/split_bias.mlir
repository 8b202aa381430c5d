// RUN: coda-opt %s -p split-bias | filecheck %s
// RUN: coda-opt %s -p split-bias --remarks=passed -o /dev/null 2>&1 | filecheck %s --check-prefix=PASSED

func.func @positive(%x: tensor<2x3x8x8xf32>, %w: tensor<4x3x3x3xf32>, %b: tensor<4xf32>) -> tensor<2x4x4x4xf32> {
  %c = coda.convolution %x, %w, %b {stride = [2 : i64, 2 : i64], padding = [1 : i64, 1 : i64], dilation = [1 : i64, 1 : i64], groups = 1 : i64} : (tensor<2x3x8x8xf32>, tensor<4x3x3x3xf32>, tensor<4xf32>) -> tensor<2x4x4x4xf32>
  %y = coda.relu %c : (tensor<2x4x4x4xf32>) -> tensor<2x4x4x4xf32>
  func.return %y : tensor<2x4x4x4xf32>
}

// CHECK:      func.func @positive(%x: tensor<2x3x8x8xf32>, %w: tensor<4x3x3x3xf32>, %b: tensor<4xf32>) -> tensor<2x4x4x4xf32> {
// CHECK-NEXT:   %c = coda.convolution %x, %w {stride = [2 : i64, 2 : i64], padding = [1 : i64, 1 : i64], dilation = [1 : i64, 1 : i64], groups = 1 : i64} : (tensor<2x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<2x4x4x4xf32>
// CHECK-NEXT:   %b_1 = coda.reshape %b : (tensor<4xf32>) -> tensor<4x1x1xf32>
// CHECK-NEXT:   %c_1 = coda.add %c, %b_1 : (tensor<2x4x4x4xf32>, tensor<4x1x1xf32>) -> tensor<2x4x4x4xf32>
// CHECK-NEXT:   %y = coda.relu %c_1 : (tensor<2x4x4x4xf32>) -> tensor<2x4x4x4xf32>
// CHECK-NEXT:   func.return %y : tensor<2x4x4x4xf32>
// CHECK-NEXT: }
// PASSED: remark[passed] split-bias: coda.convolution: pointwise code adds the bias

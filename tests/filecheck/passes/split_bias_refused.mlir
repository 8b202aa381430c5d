// RUN: coda-opt %s -p split-bias --split-input-file | filecheck %s
// RUN: coda-opt %s -p split-bias --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=MISSED

// The library rounds the sum, and the program says that nothing else does.

func.func @rounded(%x: tensor<2x3x8xbf16>, %w: tensor<4x3x3xbf16>, %b: tensor<4xbf16>) -> tensor<2x4x8xbf16> attributes {coda.numerics = #gemm.numerics<"eager-exact">} {
  %c = coda.convolution %x, %w, %b {stride = [1 : i64], padding = [1 : i64], dilation = [1 : i64], groups = 1 : i64} : (tensor<2x3x8xbf16>, tensor<4x3x3xbf16>, tensor<4xbf16>) -> tensor<2x4x8xbf16>
  %y = coda.relu %c : (tensor<2x4x8xbf16>) -> tensor<2x4x8xbf16>
  func.return %y : tensor<2x4x8xbf16>
}

// CHECK-LABEL: func.func @rounded(
// CHECK:         coda.convolution %x, %w, %b
// MISSED: remark[missed] split-bias: coda.convolution: the program states where it rounds

// -----

// Each channel is convolved alone.

func.func @depthwise(%x: tensor<2x4x8xf32>, %w: tensor<4x1x3xf32>, %b: tensor<4xf32>) -> tensor<2x4x8xf32> {
  %c = coda.convolution %x, %w, %b {stride = [1 : i64], padding = [1 : i64], dilation = [1 : i64], groups = 4 : i64} : (tensor<2x4x8xf32>, tensor<4x1x3xf32>, tensor<4xf32>) -> tensor<2x4x8xf32>
  %y = coda.relu %c : (tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  func.return %y : tensor<2x4x8xf32>
}

// CHECK-LABEL: func.func @depthwise(
// CHECK:         coda.convolution %x, %w, %b
// MISSED: remark[missed] split-bias: coda.convolution: PyTorch's kernel for single channels adds the bias itself

// -----

// The result is a result of the function.

func.func @returned(%x: tensor<2x3x8xf32>, %w: tensor<4x3x3xf32>, %b: tensor<4xf32>) -> tensor<2x4x8xf32> {
  %c = coda.convolution %x, %w, %b {stride = [1 : i64], padding = [1 : i64], dilation = [1 : i64], groups = 1 : i64} : (tensor<2x3x8xf32>, tensor<4x3x3xf32>, tensor<4xf32>) -> tensor<2x4x8xf32>
  func.return %c : tensor<2x4x8xf32>
}

// CHECK-LABEL: func.func @returned(
// CHECK:         coda.convolution %x, %w, %b
// MISSED: remark[missed] split-bias: coda.convolution: no operator that reads the result is pointwise

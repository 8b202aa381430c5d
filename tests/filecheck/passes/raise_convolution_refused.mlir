// RUN: coda-opt %s -p raise-convolution --split-input-file | filecheck %s
// RUN: coda-opt %s -p raise-convolution --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// Windows that overlap, that leave elements out, and padding.

func.func @overlap(%x: tensor<2x3x32x32xf32>, %w: tensor<8x3x4x4xf32>) -> tensor<2x8x15x15xf32> {
  %c = torch.call "aten.conv2d.default"(%x, %w) {arguments = "{0}, {1}, None, [2, 2]"} : (tensor<2x3x32x32xf32>, tensor<8x3x4x4xf32>) -> tensor<2x8x15x15xf32>
  func.return %c : tensor<2x8x15x15xf32>
}

// CHECK:      func.func @overlap(%x: tensor<2x3x32x32xf32>, %w: tensor<8x3x4x4xf32>) -> tensor<2x8x15x15xf32> {
// CHECK-NEXT:   %c = torch.call "aten.conv2d.default"(%x, %w) {arguments = "{0}, {1}, None, [2, 2]"} : (tensor<2x3x32x32xf32>, tensor<8x3x4x4xf32>) -> tensor<2x8x15x15xf32>
// CHECK-NEXT:   func.return %c : tensor<2x8x15x15xf32>
// CHECK-NEXT: }

// REMARK: remark[missed] raise-convolution: torch.call: its windows overlap, leave elements out or are of unknown number, or its channels have groups; failed condition: each element of the input is in one window: strides as large as the kernel, no padding; costs 40512 bytes

// -----

func.func @left_out(%x: tensor<2x3x33x32xf32>, %w: tensor<8x3x4x4xf32>) -> tensor<2x8x8x8xf32> {
  %c = torch.call "aten.conv2d.default"(%x, %w) {arguments = "{0}, {1}, None, [4, 4]"} : (tensor<2x3x33x32xf32>, tensor<8x3x4x4xf32>) -> tensor<2x8x8x8xf32>
  func.return %c : tensor<2x8x8x8xf32>
}

// CHECK:      func.func @left_out(%x: tensor<2x3x33x32xf32>, %w: tensor<8x3x4x4xf32>) -> tensor<2x8x8x8xf32> {
// CHECK-NEXT:   %c = torch.call "aten.conv2d.default"(%x, %w) {arguments = "{0}, {1}, None, [4, 4]"} : (tensor<2x3x33x32xf32>, tensor<8x3x4x4xf32>) -> tensor<2x8x8x8xf32>
// CHECK-NEXT:   func.return %c : tensor<2x8x8x8xf32>
// CHECK-NEXT: }

// REMARK: remark[missed] raise-convolution: torch.call: its windows overlap, leave elements out or are of unknown number, or its channels have groups; failed condition: each element of the input is in one window: strides as large as the kernel, no padding; costs 30976 bytes

// -----

func.func @padded(%x: tensor<2x3x32xf32>, %w: tensor<8x3x4xf32>) -> tensor<2x8x9xf32> {
  %c = torch.call "aten.conv1d.default"(%x, %w) {arguments = "{0}, {1}, None, [4], [2]"} : (tensor<2x3x32xf32>, tensor<8x3x4xf32>) -> tensor<2x8x9xf32>
  func.return %c : tensor<2x8x9xf32>
}

// CHECK:      func.func @padded(%x: tensor<2x3x32xf32>, %w: tensor<8x3x4xf32>) -> tensor<2x8x9xf32> {
// CHECK-NEXT:   %c = torch.call "aten.conv1d.default"(%x, %w) {arguments = "{0}, {1}, None, [4], [2]"} : (tensor<2x3x32xf32>, tensor<8x3x4xf32>) -> tensor<2x8x9xf32>
// CHECK-NEXT:   func.return %c : tensor<2x8x9xf32>
// CHECK-NEXT: }

// REMARK: remark[missed] raise-convolution: torch.call: its windows overlap, leave elements out or are of unknown number, or its channels have groups; failed condition: each element of the input is in one window: strides as large as the kernel, no padding; costs 1728 bytes

// -----

// Each group of channels for itself, and an image of unknown size.

func.func @groups(%x: tensor<2x8x32xf32>, %w: tensor<8x1x4xf32>) -> tensor<2x8x8xf32> {
  %c = torch.call "aten.conv1d.default"(%x, %w) {arguments = "{0}, {1}, None, [4], [0], [1], 8"} : (tensor<2x8x32xf32>, tensor<8x1x4xf32>) -> tensor<2x8x8xf32>
  func.return %c : tensor<2x8x8xf32>
}

// CHECK:      func.func @groups(%x: tensor<2x8x32xf32>, %w: tensor<8x1x4xf32>) -> tensor<2x8x8xf32> {
// CHECK-NEXT:   %c = torch.call "aten.conv1d.default"(%x, %w) {arguments = "{0}, {1}, None, [4], [0], [1], 8"} : (tensor<2x8x32xf32>, tensor<8x1x4xf32>) -> tensor<2x8x8xf32>
// CHECK-NEXT:   func.return %c : tensor<2x8x8xf32>
// CHECK-NEXT: }

// REMARK: remark[missed] raise-convolution: torch.call: its windows overlap, leave elements out or are of unknown number, or its channels have groups; failed condition: each element of the input is in one window: strides as large as the kernel, no padding; costs 2688 bytes

// -----

func.func @unknown(%x: tensor<2x3x?xf32>, %w: tensor<8x3x4xf32>) -> tensor<2x8x?xf32> {
  %c = torch.call "aten.conv1d.default"(%x, %w) {arguments = "{0}, {1}, None, [4]"} : (tensor<2x3x?xf32>, tensor<8x3x4xf32>) -> tensor<2x8x?xf32>
  func.return %c : tensor<2x8x?xf32>
}

// CHECK:      func.func @unknown(%x: tensor<2x3x?xf32>, %w: tensor<8x3x4xf32>) -> tensor<2x8x?xf32> {
// CHECK-NEXT:   %c = torch.call "aten.conv1d.default"(%x, %w) {arguments = "{0}, {1}, None, [4]"} : (tensor<2x3x?xf32>, tensor<8x3x4xf32>) -> tensor<2x8x?xf32>
// CHECK-NEXT:   func.return %c : tensor<2x8x?xf32>
// CHECK-NEXT: }

// REMARK: remark[missed] raise-convolution: torch.call: its windows overlap, leave elements out or are of unknown number, or its channels have groups; failed condition: each element of the input is in one window: strides as large as the kernel, no padding; costs 24*d0 + 64*d1 + 384 bytes

// -----

// An image is read, not rows of channels.

func.func @image(%x: tensor<2x3x32x32xf32>, %w: tensor<8x3x4x4xf32>) -> tensor<2x8x8x8xf32> {
  %c = torch.call "aten.conv2d.default"(%x, %w) {arguments = "{0}, {1}, None, [4, 4]"} : (tensor<2x3x32x32xf32>, tensor<8x3x4x4xf32>) -> tensor<2x8x8x8xf32>
  func.return %c : tensor<2x8x8x8xf32>
}

// CHECK:      func.func @image(%x: tensor<2x3x32x32xf32>, %w: tensor<8x3x4x4xf32>) -> tensor<2x8x8x8xf32> {
// CHECK-NEXT:   %c = torch.call "aten.conv2d.default"(%x, %w) {arguments = "{0}, {1}, None, [4, 4]"} : (tensor<2x3x32x32xf32>, tensor<8x3x4x4xf32>) -> tensor<2x8x8x8xf32>
// CHECK-NEXT:   func.return %c : tensor<2x8x8x8xf32>
// CHECK-NEXT: }

// REMARK: remark[missed] raise-convolution: torch.call: another operator reads the result with its channels before its positions; failed condition: the channels are columns for all readers of the result, or, of single positions, in the source of the input; costs 30208 bytes

// -----

// The reshape keeps the number of channels, but mixes samples and positions.

func.func @other_samples(%x: tensor<4x3x2x2xf32>, %w: tensor<4x3x1x1xf32>) -> tensor<2x8x4xf32> {
  %c = torch.call "aten.conv2d.default"(%x, %w) {arguments = "{0}, {1}"} : (tensor<4x3x2x2xf32>, tensor<4x3x1x1xf32>) -> tensor<4x4x2x2xf32>
  %f = coda.reshape %c : (tensor<4x4x2x2xf32>) -> tensor<2x4x8xf32>
  %y = coda.transpose %f {perm = [0, 2, 1]} : (tensor<2x4x8xf32>) -> tensor<2x8x4xf32>
  func.return %y : tensor<2x8x4xf32>
}

// CHECK-LABEL: func.func @other_samples(
// CHECK-NEXT:   %c = torch.call "aten.conv2d.default"(%x, %w)
// CHECK-NEXT:   %f = coda.reshape %c
// CHECK-NEXT:   %y = coda.transpose %f
// CHECK-NEXT:   func.return %y

// REMARK: remark[missed] raise-convolution: torch.call: another operator reads the result with its channels before its positions

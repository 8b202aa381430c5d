// RUN: coda-opt %s -p raise-depthwise-convolution --split-input-file | filecheck %s
// RUN: coda-opt %s -p raise-depthwise-convolution --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// Steps, wide windows, other positions, and channels before positions.

func.func @strided(%t: tensor<2x8x9xf32>, %w: tensor<8x1x3xf32>) -> tensor<2x4x8xf32> {
  %c = torch.call "aten.conv1d.default"(%t, %w) {arguments = "{0}, {1}, None, [2], [0], [1], 8"} : (tensor<2x8x9xf32>, tensor<8x1x3xf32>) -> tensor<2x8x4xf32>
  %y = coda.transpose %c {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<2x8x4xf32>) -> tensor<2x4x8xf32>
  func.return %y : tensor<2x4x8xf32>
}

// CHECK:      func.func @strided(%t: tensor<2x8x9xf32>, %w: tensor<8x1x3xf32>) -> tensor<2x4x8xf32> {
// CHECK-NEXT:   %c = torch.call "aten.conv1d.default"(%t, %w) {arguments = "{0}, {1}, None, [2], [0], [1], 8"} : (tensor<2x8x9xf32>, tensor<8x1x3xf32>) -> tensor<2x8x4xf32>
// CHECK-NEXT:   %y = coda.transpose %c {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<2x8x4xf32>) -> tensor<2x4x8xf32>
// CHECK-NEXT:   func.return %y : tensor<2x4x8xf32>
// CHECK-NEXT: }

// REMARK: remark[missed] raise-depthwise-convolution: torch.call: its windows have more positions, or skip positions; failed condition: a window has at most 16 positions, one for each position of the result; costs 928 bytes

// -----

func.func @wide(%t: tensor<2x8x9xf32>, %w: tensor<8x1x17xf32>) -> tensor<2x9x8xf32> {
  %c = torch.call "aten.conv1d.default"(%t, %w) {arguments = "{0}, {1}, None, [1], [8], [1], 8"} : (tensor<2x8x9xf32>, tensor<8x1x17xf32>) -> tensor<2x8x9xf32>
  %y = coda.transpose %c {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<2x8x9xf32>) -> tensor<2x9x8xf32>
  func.return %y : tensor<2x9x8xf32>
}

// CHECK:      func.func @wide(%t: tensor<2x8x9xf32>, %w: tensor<8x1x17xf32>) -> tensor<2x9x8xf32> {
// CHECK-NEXT:   %c = torch.call "aten.conv1d.default"(%t, %w) {arguments = "{0}, {1}, None, [1], [8], [1], 8"} : (tensor<2x8x9xf32>, tensor<8x1x17xf32>) -> tensor<2x8x9xf32>
// CHECK-NEXT:   %y = coda.transpose %c {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<2x8x9xf32>) -> tensor<2x9x8xf32>
// CHECK-NEXT:   func.return %y : tensor<2x9x8xf32>
// CHECK-NEXT: }

// REMARK: remark[missed] raise-depthwise-convolution: torch.call: its windows have more positions, or skip positions; failed condition: a window has at most 16 positions, one for each position of the result; costs 1696 bytes

// -----

func.func @shorter(%t: tensor<2x8x9xf32>, %w: tensor<8x1x3xf32>) -> tensor<2x7x8xf32> {
  %c = torch.call "aten.conv1d.default"(%t, %w) {arguments = "{0}, {1}, None, [1], [0], [1], 8"} : (tensor<2x8x9xf32>, tensor<8x1x3xf32>) -> tensor<2x8x7xf32>
  %y = coda.transpose %c {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<2x8x7xf32>) -> tensor<2x7x8xf32>
  func.return %y : tensor<2x7x8xf32>
}

// CHECK:      func.func @shorter(%t: tensor<2x8x9xf32>, %w: tensor<8x1x3xf32>) -> tensor<2x7x8xf32> {
// CHECK-NEXT:   %c = torch.call "aten.conv1d.default"(%t, %w) {arguments = "{0}, {1}, None, [1], [0], [1], 8"} : (tensor<2x8x9xf32>, tensor<8x1x3xf32>) -> tensor<2x8x7xf32>
// CHECK-NEXT:   %y = coda.transpose %c {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<2x8x7xf32>) -> tensor<2x7x8xf32>
// CHECK-NEXT:   func.return %y : tensor<2x7x8xf32>
// CHECK-NEXT: }

// REMARK: remark[missed] raise-depthwise-convolution: torch.call: a different range of the padded positions is read; failed condition: the number of positions that are read is that of the input; costs 1120 bytes

// -----

func.func @channels_first(%t: tensor<2x8x9xf32>, %w: tensor<8x1x3xf32>) -> tensor<2x8x9xf32> {
  %c = torch.call "aten.conv1d.default"(%t, %w) {arguments = "{0}, {1}, None, [1], [1], [1], 8"} : (tensor<2x8x9xf32>, tensor<8x1x3xf32>) -> tensor<2x8x9xf32>
  %y = coda.silu %c : (tensor<2x8x9xf32>) -> tensor<2x8x9xf32>
  func.return %y : tensor<2x8x9xf32>
}

// CHECK:      func.func @channels_first(%t: tensor<2x8x9xf32>, %w: tensor<8x1x3xf32>) -> tensor<2x8x9xf32> {
// CHECK-NEXT:   %c = torch.call "aten.conv1d.default"(%t, %w) {arguments = "{0}, {1}, None, [1], [1], [1], 8"} : (tensor<2x8x9xf32>, tensor<8x1x3xf32>) -> tensor<2x8x9xf32>
// CHECK-NEXT:   %y = coda.silu %c : (tensor<2x8x9xf32>) -> tensor<2x8x9xf32>
// CHECK-NEXT:   func.return %y : tensor<2x8x9xf32>
// CHECK-NEXT: }

// REMARK: remark[missed] raise-depthwise-convolution: torch.call: the input and the readers of the result have channels before positions; failed condition: the channels are columns in the source of the input, or for all readers of the result; costs 1248 bytes

// -----

// Other numbers than zeros in front of the positions.

func.func @filled(%x: tensor<2x9x8xf32>, %w: tensor<8x1x3xf32>) -> tensor<2x9x8xf32> {
  %p = coda.pad %x {dim = 1 : i64, start = 2 : i64, value = 1.0 : f64} : (tensor<2x9x8xf32>) -> tensor<2x11x8xf32>
  %t = coda.transpose %p {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<2x11x8xf32>) -> tensor<2x8x11xf32>
  %c = torch.call "aten.conv1d.default"(%t, %w) {arguments = "{0}, {1}, None, [1], [0], [1], 8"} : (tensor<2x8x11xf32>, tensor<8x1x3xf32>) -> tensor<2x8x9xf32>
  %y = coda.transpose %c {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<2x8x9xf32>) -> tensor<2x9x8xf32>
  func.return %y : tensor<2x9x8xf32>
}

// CHECK:      func.func @filled(%x: tensor<2x9x8xf32>, %w: tensor<8x1x3xf32>) -> tensor<2x9x8xf32> {
// CHECK-NEXT:   %p = coda.pad %x {dim = 1 : i64, start = 2 : i64, value = 1.000000e+00 : f64} : (tensor<2x9x8xf32>) -> tensor<2x11x8xf32>
// CHECK-NEXT:   %t = coda.transpose %p {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<2x11x8xf32>) -> tensor<2x8x11xf32>
// CHECK-NEXT:   %c = torch.call "aten.conv1d.default"(%t, %w) {arguments = "{0}, {1}, None, [1], [0], [1], 8"} : (tensor<2x8x11xf32>, tensor<8x1x3xf32>) -> tensor<2x8x9xf32>
// CHECK-NEXT:   %y = coda.transpose %c {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<2x8x9xf32>) -> tensor<2x9x8xf32>
// CHECK-NEXT:   func.return %y : tensor<2x9x8xf32>
// CHECK-NEXT: }

// REMARK: remark[missed] raise-depthwise-convolution: torch.call: a different range of the padded positions is read; failed condition: the number of positions that are read is that of the input; costs 1376 bytes

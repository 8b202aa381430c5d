// RUN: coda-opt %s -p raise-convolution,canonicalize --split-input-file | filecheck %s

// Patches of 16 x 16 elements of an image, read as rows of channels.

func.func @patches(%x: tensor<?x3x32x48xbf16>, %w: tensor<64x3x16x16xbf16>, %b: tensor<64xbf16>) -> tensor<?x6x64xbf16> {
  %c = torch.call "aten.conv2d.default"(%x, %w, %b) {arguments = "{0}, {1}, {2}, [16, 16]"} : (tensor<?x3x32x48xbf16>, tensor<64x3x16x16xbf16>, tensor<64xbf16>) -> tensor<?x64x2x3xbf16>
  %f = coda.reshape %c : (tensor<?x64x2x3xbf16>) -> tensor<?x64x6xbf16>
  %y = coda.transpose %f {perm = [0, 2, 1]} : (tensor<?x64x6xbf16>) -> tensor<?x6x64xbf16>
  func.return %y : tensor<?x6x64xbf16>
}

// CHECK:      func.func @patches(%x: tensor<?x3x32x48xbf16>, %w: tensor<64x3x16x16xbf16>, %b: tensor<64xbf16>) -> tensor<?x6x64xbf16> {
// CHECK-NEXT:   %weight = coda.reshape %w : (tensor<64x3x16x16xbf16>) -> tensor<64x768xbf16>
// CHECK-NEXT:   %windows = coda.reshape %x : (tensor<?x3x32x48xbf16>) -> tensor<?x3x2x16x3x16xbf16>
// CHECK-NEXT:   %windows_1 = coda.transpose %windows {perm = [0 : i64, 2 : i64, 4 : i64, 1 : i64, 3 : i64, 5 : i64]} : (tensor<?x3x2x16x3x16xbf16>) -> tensor<?x2x3x3x16x16xbf16>
// CHECK-NEXT:   %windows_2 = coda.reshape %windows_1 : (tensor<?x2x3x3x16x16xbf16>) -> tensor<?x6x768xbf16>
// CHECK-NEXT:   %c = coda.linear %windows_2, %weight, %b {coda.patches} : (tensor<?x6x768xbf16>, tensor<64x768xbf16>, tensor<64xbf16>) -> tensor<?x6x64xbf16>
// CHECK-NEXT:   func.return %c : tensor<?x6x64xbf16>
// CHECK-NEXT: }

// -----

// A kernel of one element, between transposes: no copy is left.

func.func @pointwise(%x: tensor<2x8x64xf32>, %w: tensor<96x64x1xf32>) -> tensor<2x8x96xf32> {
  %t = coda.transpose %x {perm = [0, 2, 1]} : (tensor<2x8x64xf32>) -> tensor<2x64x8xf32>
  %c = torch.call "aten.conv1d.default"(%t, %w) {arguments = "{0}, {1}"} : (tensor<2x64x8xf32>, tensor<96x64x1xf32>) -> tensor<2x96x8xf32>
  %y = coda.transpose %c {perm = [0, 2, 1]} : (tensor<2x96x8xf32>) -> tensor<2x8x96xf32>
  func.return %y : tensor<2x8x96xf32>
}

// CHECK:      func.func @pointwise(%x: tensor<2x8x64xf32>, %w: tensor<96x64x1xf32>) -> tensor<2x8x96xf32> {
// CHECK-NEXT:   %weight = coda.reshape %w : (tensor<96x64x1xf32>) -> tensor<96x64xf32>
// CHECK-NEXT:   %c = coda.linear %x, %weight : (tensor<2x8x64xf32>, tensor<96x64xf32>) -> tensor<2x8x96xf32>
// CHECK-NEXT:   func.return %c : tensor<2x8x96xf32>
// CHECK-NEXT: }

// -----

// Rows in front, and other code on channels before positions after: the result is transposed.

func.func @rows_in_front(%x: tensor<2x8x64xf32>, %w: tensor<96x64x1xf32>) -> tensor<2x96x8xf32> {
  %t = coda.transpose %x {perm = [0, 2, 1]} : (tensor<2x8x64xf32>) -> tensor<2x64x8xf32>
  %c = torch.call "aten.conv1d.default"(%t, %w) {arguments = "{0}, {1}"} : (tensor<2x64x8xf32>, tensor<96x64x1xf32>) -> tensor<2x96x8xf32>
  func.return %c : tensor<2x96x8xf32>
}

// CHECK:      func.func @rows_in_front(%x: tensor<2x8x64xf32>, %w: tensor<96x64x1xf32>) -> tensor<2x96x8xf32> {
// CHECK-NEXT:   %weight = coda.reshape %w : (tensor<96x64x1xf32>) -> tensor<96x64xf32>
// CHECK-NEXT:   %c = coda.linear %x, %weight : (tensor<2x8x64xf32>, tensor<96x64xf32>) -> tensor<2x8x96xf32>
// CHECK-NEXT:   %c_1 = coda.transpose %c {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<2x8x96xf32>) -> tensor<2x96x8xf32>
// CHECK-NEXT:   func.return %c_1 : tensor<2x96x8xf32>
// CHECK-NEXT: }

// -----

// A kernel as large as the input, whose channels nothing has to move; its strides do not matter.

func.func @whole(%x: tensor<40x3x2x14x14xbf16>, %w: tensor<64x3x2x14x14xbf16>) -> tensor<40x64xbf16> {
  %c = torch.call "aten.conv3d.default"(%x, %w) {arguments = "{0}, {1}"} : (tensor<40x3x2x14x14xbf16>, tensor<64x3x2x14x14xbf16>) -> tensor<40x64x1x1x1xbf16>
  %y = coda.reshape %c : (tensor<40x64x1x1x1xbf16>) -> tensor<40x64xbf16>
  func.return %y : tensor<40x64xbf16>
}

// CHECK:      func.func @whole(%x: tensor<40x3x2x14x14xbf16>, %w: tensor<64x3x2x14x14xbf16>) -> tensor<40x64xbf16> {
// CHECK-NEXT:   %weight = coda.reshape %w : (tensor<64x3x2x14x14xbf16>) -> tensor<64x1176xbf16>
// CHECK-NEXT:   %windows = coda.reshape %x : (tensor<40x3x2x14x14xbf16>) -> tensor<40x1x1176xbf16>
// CHECK-NEXT:   %c = coda.linear %windows, %weight {coda.patches} : (tensor<40x1x1176xbf16>, tensor<64x1176xbf16>) -> tensor<40x1x64xbf16>
// CHECK-NEXT:   %y = coda.reshape %c : (tensor<40x1x64xbf16>) -> tensor<40x64xbf16>
// CHECK-NEXT:   func.return %y : tensor<40x64xbf16>
// CHECK-NEXT: }

// -----

// Channels that are moved after two dimensions of positions, by two readers.

func.func @two_readers(%x: tensor<1x3x4x4xf32>, %w: tensor<8x3x2x2xf32>) -> (tensor<1x2x2x8xf32>, tensor<1x4x8xf32>) {
  %c = torch.call "aten.conv2d.default"(%x, %w) {arguments = "{0}, {1}, None, [2, 2], [0, 0], [1, 1], 1"} : (tensor<1x3x4x4xf32>, tensor<8x3x2x2xf32>) -> tensor<1x8x2x2xf32>
  %y = coda.transpose %c {perm = [0, 2, 3, 1]} : (tensor<1x8x2x2xf32>) -> tensor<1x2x2x8xf32>
  %f = coda.reshape %c : (tensor<1x8x2x2xf32>) -> tensor<1x8x4xf32>
  %z = coda.transpose %f {perm = [0, 2, 1]} : (tensor<1x8x4xf32>) -> tensor<1x4x8xf32>
  func.return %y, %z : tensor<1x2x2x8xf32>, tensor<1x4x8xf32>
}

// CHECK:      func.func @two_readers(%x: tensor<1x3x4x4xf32>, %w: tensor<8x3x2x2xf32>) -> (tensor<1x2x2x8xf32>, tensor<1x4x8xf32>) {
// CHECK-NEXT:   %weight = coda.reshape %w : (tensor<8x3x2x2xf32>) -> tensor<8x12xf32>
// CHECK-NEXT:   %windows = coda.reshape %x : (tensor<1x3x4x4xf32>) -> tensor<1x3x2x2x2x2xf32>
// CHECK-NEXT:   %windows_1 = coda.transpose %windows {perm = [0 : i64, 2 : i64, 4 : i64, 1 : i64, 3 : i64, 5 : i64]} : (tensor<1x3x2x2x2x2xf32>) -> tensor<1x2x2x3x2x2xf32>
// CHECK-NEXT:   %windows_2 = coda.reshape %windows_1 : (tensor<1x2x2x3x2x2xf32>) -> tensor<1x4x12xf32>
// CHECK-NEXT:   %c = coda.linear %windows_2, %weight {coda.patches} : (tensor<1x4x12xf32>, tensor<8x12xf32>) -> tensor<1x4x8xf32>
// CHECK-NEXT:   %y = coda.reshape %c : (tensor<1x4x8xf32>) -> tensor<1x2x2x8xf32>
// CHECK-NEXT:   func.return %y, %c : tensor<1x2x2x8xf32>, tensor<1x4x8xf32>
// CHECK-NEXT: }

// -----

// The overload whose padding is a word.

func.func @valid(%x: tensor<?x3x32x48xbf16>, %w: tensor<64x3x16x16xbf16>) -> tensor<?x6x64xbf16> {
  %c = torch.call "aten.conv2d.padding"(%x, %w) {arguments = "{0}, {1}, None, [16, 16], 'valid'"} : (tensor<?x3x32x48xbf16>, tensor<64x3x16x16xbf16>) -> tensor<?x64x2x3xbf16>
  %f = coda.reshape %c : (tensor<?x64x2x3xbf16>) -> tensor<?x64x6xbf16>
  %y = coda.transpose %f {perm = [0, 2, 1]} : (tensor<?x64x6xbf16>) -> tensor<?x6x64xbf16>
  func.return %y : tensor<?x6x64xbf16>
}

// CHECK:      func.func @valid(
// CHECK:        %c = coda.linear %windows_2, %weight {coda.patches} : (tensor<?x6x768xbf16>, tensor<64x768xbf16>) -> tensor<?x6x64xbf16>
// CHECK-NEXT:   func.return %c : tensor<?x6x64xbf16>

// -----

// Padded so that the result is as large as the image: not raised.

func.func @same(%x: tensor<2x3x8x8xf32>, %w: tensor<4x3x3x3xf32>) -> tensor<2x4x8x8xf32> {
  %c = torch.call "aten.conv2d.padding"(%x, %w) {arguments = "{0}, {1}, None, [1, 1], 'same'"} : (tensor<2x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<2x4x8x8xf32>
  func.return %c : tensor<2x4x8x8xf32>
}

// CHECK:      func.func @same(
// CHECK-NEXT:   %c = torch.call "aten.conv2d.padding"(%x, %w)

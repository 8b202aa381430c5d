// RUN: coda-opt %s -p 'raise-depthwise-convolution,canonicalize,cancel-transposes{last=false},dce' | filecheck %s

// Channels are columns in front of the convolution or after it; pointwise code between moves to rows.

func.func @causal(%x: tensor<?x?x8xf32> {coda.dims = ["B", "T", 8 : i64]}, %w: tensor<8x1x2xf32>, %b: tensor<8xf32>) -> tensor<?x?x8xf32> {
  %t = coda.transpose %x {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<?x?x8xf32>) -> tensor<?x8x?xf32>
  %c = torch.call "aten.conv1d.default"(%t, %w, %b) {arguments = "{0}, {1}, {2}, [1], [1], [1], 8", coda.dims = ["B", 8 : i64, "?"]} : (tensor<?x8x?xf32>, tensor<8x1x2xf32>, tensor<8xf32>) -> tensor<?x8x?xf32>
  %s = torch.call "aten.slice.Tensor"(%c) {arguments = "{0}, 2, None, T", view, coda.dims = ["B", 8 : i64, "T"]} : (tensor<?x8x?xf32>) -> tensor<?x8x?xf32>
  %y = coda.transpose %s {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<?x8x?xf32>) -> tensor<?x?x8xf32>
  func.return %y : tensor<?x?x8xf32>
}

// CHECK:      func.func @causal(%x: tensor<?x?x8xf32> {coda.dims = ["B", "T", 8 : i64]}, %w: tensor<8x1x2xf32>, %b: tensor<8xf32>) -> tensor<?x?x8xf32> {
// CHECK-NEXT:   %x_1 = coda.shift %x {by = 1 : i64} : (tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %0 = coda.slice %w {dim = 2 : i64, start = 0 : i64, stop = 1 : i64} : (tensor<8x1x2xf32>) -> tensor<8x1x1xf32>
// CHECK-NEXT:   %w_1 = coda.reshape %0 : (tensor<8x1x1xf32>) -> tensor<8xf32>
// CHECK-NEXT:   %1 = coda.mul %x_1, %w_1 : (tensor<?x?x8xf32>, tensor<8xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %2 = coda.slice %w {dim = 2 : i64, start = 1 : i64, stop = 2 : i64} : (tensor<8x1x2xf32>) -> tensor<8x1x1xf32>
// CHECK-NEXT:   %w_2 = coda.reshape %2 : (tensor<8x1x1xf32>) -> tensor<8xf32>
// CHECK-NEXT:   %3 = coda.mul %x, %w_2 : (tensor<?x?x8xf32>, tensor<8xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %4 = coda.add %1, %3 : (tensor<?x?x8xf32>, tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %c = coda.add %4, %b : (tensor<?x?x8xf32>, tensor<8xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   func.return %c : tensor<?x?x8xf32>
// CHECK-NEXT: }

func.func @same(%x: tensor<2x5x8xbf16>, %w: tensor<8x1x3xbf16>) -> tensor<2x5x8xbf16> {
  %t = coda.transpose %x {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<2x5x8xbf16>) -> tensor<2x8x5xbf16>
  %c = torch.call "aten.conv1d.default"(%t, %w) {arguments = "{0}, {1}, None, [1], [2], [2], 8"} : (tensor<2x8x5xbf16>, tensor<8x1x3xbf16>) -> tensor<2x8x5xbf16>
  %y = coda.transpose %c {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<2x8x5xbf16>) -> tensor<2x5x8xbf16>
  func.return %y : tensor<2x5x8xbf16>
}

// CHECK:      func.func @same(%x: tensor<2x5x8xbf16>, %w: tensor<8x1x3xbf16>) -> tensor<2x5x8xbf16> {
// CHECK-NEXT:   %x_1 = coda.shift %x {by = 2 : i64} : (tensor<2x5x8xbf16>) -> tensor<2x5x8xbf16>
// CHECK-NEXT:   %0 = coda.slice %w {dim = 2 : i64, start = 0 : i64, stop = 1 : i64} : (tensor<8x1x3xbf16>) -> tensor<8x1x1xbf16>
// CHECK-NEXT:   %w_1 = coda.reshape %0 : (tensor<8x1x1xbf16>) -> tensor<8xbf16>
// CHECK-NEXT:   %1 = coda.cast %x_1 : (tensor<2x5x8xbf16>) -> tensor<2x5x8xf32>
// CHECK-NEXT:   %2 = coda.cast %w_1 : (tensor<8xbf16>) -> tensor<8xf32>
// CHECK-NEXT:   %3 = coda.mul %1, %2 : (tensor<2x5x8xf32>, tensor<8xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:   %4 = coda.slice %w {dim = 2 : i64, start = 1 : i64, stop = 2 : i64} : (tensor<8x1x3xbf16>) -> tensor<8x1x1xbf16>
// CHECK-NEXT:   %w_2 = coda.reshape %4 : (tensor<8x1x1xbf16>) -> tensor<8xbf16>
// CHECK-NEXT:   %5 = coda.cast %x : (tensor<2x5x8xbf16>) -> tensor<2x5x8xf32>
// CHECK-NEXT:   %6 = coda.cast %w_2 : (tensor<8xbf16>) -> tensor<8xf32>
// CHECK-NEXT:   %7 = coda.mul %5, %6 : (tensor<2x5x8xf32>, tensor<8xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:   %8 = coda.add %3, %7 : (tensor<2x5x8xf32>, tensor<2x5x8xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:   %x_2 = coda.shift %x {by = -2 : i64} : (tensor<2x5x8xbf16>) -> tensor<2x5x8xbf16>
// CHECK-NEXT:   %9 = coda.slice %w {dim = 2 : i64, start = 2 : i64, stop = 3 : i64} : (tensor<8x1x3xbf16>) -> tensor<8x1x1xbf16>
// CHECK-NEXT:   %w_3 = coda.reshape %9 : (tensor<8x1x1xbf16>) -> tensor<8xbf16>
// CHECK-NEXT:   %10 = coda.cast %x_2 : (tensor<2x5x8xbf16>) -> tensor<2x5x8xf32>
// CHECK-NEXT:   %11 = coda.cast %w_3 : (tensor<8xbf16>) -> tensor<8xf32>
// CHECK-NEXT:   %12 = coda.mul %10, %11 : (tensor<2x5x8xf32>, tensor<8xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:   %13 = coda.add %8, %12 : (tensor<2x5x8xf32>, tensor<2x5x8xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:   %c = coda.cast %13 : (tensor<2x5x8xf32>) -> tensor<2x5x8xbf16>
// CHECK-NEXT:   func.return %c : tensor<2x5x8xbf16>
// CHECK-NEXT: }

func.func @range(%x: tensor<2x5x8xf32>, %w: tensor<8x1x3xf32>) -> tensor<2x5x8xf32> {
  %t = coda.transpose %x {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<2x5x8xf32>) -> tensor<2x8x5xf32>
  %c = torch.call "aten.conv1d.default"(%t, %w) {arguments = "{0}, {1}, None, [1], [2], [1], 8"} : (tensor<2x8x5xf32>, tensor<8x1x3xf32>) -> tensor<2x8x7xf32>
  %s = coda.slice %c {dim = 2 : i64, start = 2 : i64, stop = 7 : i64} : (tensor<2x8x7xf32>) -> tensor<2x8x5xf32>
  %y = coda.transpose %s {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<2x8x5xf32>) -> tensor<2x5x8xf32>
  func.return %y : tensor<2x5x8xf32>
}

// CHECK:      func.func @range(%x: tensor<2x5x8xf32>, %w: tensor<8x1x3xf32>) -> tensor<2x5x8xf32> {
// CHECK-NEXT:   %0 = coda.slice %w {dim = 2 : i64, start = 0 : i64, stop = 1 : i64} : (tensor<8x1x3xf32>) -> tensor<8x1x1xf32>
// CHECK-NEXT:   %w_1 = coda.reshape %0 : (tensor<8x1x1xf32>) -> tensor<8xf32>
// CHECK-NEXT:   %1 = coda.mul %x, %w_1 : (tensor<2x5x8xf32>, tensor<8xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:   %x_1 = coda.shift %x {by = -1 : i64} : (tensor<2x5x8xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:   %2 = coda.slice %w {dim = 2 : i64, start = 1 : i64, stop = 2 : i64} : (tensor<8x1x3xf32>) -> tensor<8x1x1xf32>
// CHECK-NEXT:   %w_2 = coda.reshape %2 : (tensor<8x1x1xf32>) -> tensor<8xf32>
// CHECK-NEXT:   %3 = coda.mul %x_1, %w_2 : (tensor<2x5x8xf32>, tensor<8xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:   %4 = coda.add %1, %3 : (tensor<2x5x8xf32>, tensor<2x5x8xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:   %x_2 = coda.shift %x {by = -2 : i64} : (tensor<2x5x8xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:   %5 = coda.slice %w {dim = 2 : i64, start = 2 : i64, stop = 3 : i64} : (tensor<8x1x3xf32>) -> tensor<8x1x1xf32>
// CHECK-NEXT:   %w_3 = coda.reshape %5 : (tensor<8x1x1xf32>) -> tensor<8xf32>
// CHECK-NEXT:   %6 = coda.mul %x_2, %w_3 : (tensor<2x5x8xf32>, tensor<8xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:   %c = coda.add %4, %6 : (tensor<2x5x8xf32>, tensor<2x5x8xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:   func.return %c : tensor<2x5x8xf32>
// CHECK-NEXT: }

func.func @gated(%h: tensor<2x5x24xf32>, %w: tensor<8x1x3xf32>) -> tensor<2x5x8xf32> {
  %t = coda.transpose %h {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<2x5x24xf32>) -> tensor<2x24x5xf32>
  %b = coda.slice %t {dim = 1 : i64, start = 0 : i64, stop = 8 : i64} : (tensor<2x24x5xf32>) -> tensor<2x8x5xf32>
  %g = coda.slice %t {dim = 1 : i64, start = 8 : i64, stop = 16 : i64} : (tensor<2x24x5xf32>) -> tensor<2x8x5xf32>
  %x = coda.slice %t {dim = 1 : i64, start = 16 : i64, stop = 24 : i64} : (tensor<2x24x5xf32>) -> tensor<2x8x5xf32>
  %bx = coda.mul %b, %x : (tensor<2x8x5xf32>, tensor<2x8x5xf32>) -> tensor<2x8x5xf32>
  %c = torch.call "aten.conv1d.default"(%bx, %w) {arguments = "{0}, {1}, None, [1], [2], [1], 8"} : (tensor<2x8x5xf32>, tensor<8x1x3xf32>) -> tensor<2x8x7xf32>
  %s = coda.slice %c {dim = 2 : i64, start = 0 : i64, stop = 5 : i64} : (tensor<2x8x7xf32>) -> tensor<2x8x5xf32>
  %y = coda.mul %g, %s : (tensor<2x8x5xf32>, tensor<2x8x5xf32>) -> tensor<2x8x5xf32>
  %z = coda.transpose %y {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<2x8x5xf32>) -> tensor<2x5x8xf32>
  func.return %z : tensor<2x5x8xf32>
}

// CHECK:      func.func @gated(%h: tensor<2x5x24xf32>, %w: tensor<8x1x3xf32>) -> tensor<2x5x8xf32> {
// CHECK-NEXT:   %b = coda.slice %h {dim = 2 : i64, start = 0 : i64, stop = 8 : i64} : (tensor<2x5x24xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:   %g = coda.slice %h {dim = 2 : i64, start = 8 : i64, stop = 16 : i64} : (tensor<2x5x24xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:   %x = coda.slice %h {dim = 2 : i64, start = 16 : i64, stop = 24 : i64} : (tensor<2x5x24xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:   %bx = coda.mul %b, %x : (tensor<2x5x8xf32>, tensor<2x5x8xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:   %bx_1 = coda.shift %bx {by = 2 : i64} : (tensor<2x5x8xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:   %0 = coda.slice %w {dim = 2 : i64, start = 0 : i64, stop = 1 : i64} : (tensor<8x1x3xf32>) -> tensor<8x1x1xf32>
// CHECK-NEXT:   %w_1 = coda.reshape %0 : (tensor<8x1x1xf32>) -> tensor<8xf32>
// CHECK-NEXT:   %1 = coda.mul %bx_1, %w_1 : (tensor<2x5x8xf32>, tensor<8xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:   %bx_2 = coda.shift %bx {by = 1 : i64} : (tensor<2x5x8xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:   %2 = coda.slice %w {dim = 2 : i64, start = 1 : i64, stop = 2 : i64} : (tensor<8x1x3xf32>) -> tensor<8x1x1xf32>
// CHECK-NEXT:   %w_2 = coda.reshape %2 : (tensor<8x1x1xf32>) -> tensor<8xf32>
// CHECK-NEXT:   %3 = coda.mul %bx_2, %w_2 : (tensor<2x5x8xf32>, tensor<8xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:   %4 = coda.add %1, %3 : (tensor<2x5x8xf32>, tensor<2x5x8xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:   %5 = coda.slice %w {dim = 2 : i64, start = 2 : i64, stop = 3 : i64} : (tensor<8x1x3xf32>) -> tensor<8x1x1xf32>
// CHECK-NEXT:   %w_3 = coda.reshape %5 : (tensor<8x1x1xf32>) -> tensor<8xf32>
// CHECK-NEXT:   %6 = coda.mul %bx, %w_3 : (tensor<2x5x8xf32>, tensor<8xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:   %c = coda.add %4, %6 : (tensor<2x5x8xf32>, tensor<2x5x8xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:   %z = coda.mul %g, %c : (tensor<2x5x8xf32>, tensor<2x5x8xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:   func.return %z : tensor<2x5x8xf32>
// CHECK-NEXT: }

// Zeros that the model puts in front of its positions, as rows or after the channels.

func.func @padded(%x: tensor<?x?x8xf32> {coda.dims = ["B", "T", 8 : i64]}, %w: tensor<8x1x2xf32>) -> (tensor<?x?x8xf32>, tensor<?x?x8xf32>) {
  %p = coda.pad %x {dim = 1 : i64, start = 1 : i64, after = 0 : i64, coda.dims = ["B", "T + 1", 8 : i64]} : (tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
  %t = coda.transpose %p {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<?x?x8xf32>) -> tensor<?x8x?xf32>
  %c = torch.call "aten.conv1d.default"(%t, %w) {arguments = "{0}, {1}, None, [1], [0], [1], 8", coda.dims = ["B", 8 : i64, "T"]} : (tensor<?x8x?xf32>, tensor<8x1x2xf32>) -> tensor<?x8x?xf32>
  %y = coda.transpose %c {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<?x8x?xf32>) -> tensor<?x?x8xf32>
  %s = coda.transpose %x {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<?x?x8xf32>) -> tensor<?x8x?xf32>
  %q = coda.pad %s {dim = 2 : i64, start = 1 : i64, after = 0 : i64, coda.dims = ["B", 8 : i64, "T + 1"]} : (tensor<?x8x?xf32>) -> tensor<?x8x?xf32>
  %d = torch.call "aten.conv1d.default"(%q, %w) {arguments = "{0}, {1}, None, [1], [0], [1], 8", coda.dims = ["B", 8 : i64, "T"]} : (tensor<?x8x?xf32>, tensor<8x1x2xf32>) -> tensor<?x8x?xf32>
  %z = coda.transpose %d {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<?x8x?xf32>) -> tensor<?x?x8xf32>
  func.return %y, %z : tensor<?x?x8xf32>, tensor<?x?x8xf32>
}

// CHECK:      func.func @padded(%x: tensor<?x?x8xf32> {coda.dims = ["B", "T", 8 : i64]}, %w: tensor<8x1x2xf32>) -> (tensor<?x?x8xf32>, tensor<?x?x8xf32>) {
// CHECK-NEXT:   %x_1 = coda.shift %x {by = 1 : i64} : (tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %0 = coda.slice %w {dim = 2 : i64, start = 0 : i64, stop = 1 : i64} : (tensor<8x1x2xf32>) -> tensor<8x1x1xf32>
// CHECK-NEXT:   %w_1 = coda.reshape %0 : (tensor<8x1x1xf32>) -> tensor<8xf32>
// CHECK-NEXT:   %1 = coda.mul %x_1, %w_1 : (tensor<?x?x8xf32>, tensor<8xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %2 = coda.slice %w {dim = 2 : i64, start = 1 : i64, stop = 2 : i64} : (tensor<8x1x2xf32>) -> tensor<8x1x1xf32>
// CHECK-NEXT:   %w_2 = coda.reshape %2 : (tensor<8x1x1xf32>) -> tensor<8xf32>
// CHECK-NEXT:   %3 = coda.mul %x, %w_2 : (tensor<?x?x8xf32>, tensor<8xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %c = coda.add %1, %3 : (tensor<?x?x8xf32>, tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %x_2 = coda.shift %x {by = 1 : i64} : (tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %4 = coda.slice %w {dim = 2 : i64, start = 0 : i64, stop = 1 : i64} : (tensor<8x1x2xf32>) -> tensor<8x1x1xf32>
// CHECK-NEXT:   %w_3 = coda.reshape %4 : (tensor<8x1x1xf32>) -> tensor<8xf32>
// CHECK-NEXT:   %5 = coda.mul %x_2, %w_3 : (tensor<?x?x8xf32>, tensor<8xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %6 = coda.slice %w {dim = 2 : i64, start = 1 : i64, stop = 2 : i64} : (tensor<8x1x2xf32>) -> tensor<8x1x1xf32>
// CHECK-NEXT:   %w_4 = coda.reshape %6 : (tensor<8x1x1xf32>) -> tensor<8xf32>
// CHECK-NEXT:   %7 = coda.mul %x, %w_4 : (tensor<?x?x8xf32>, tensor<8xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %d = coda.add %5, %7 : (tensor<?x?x8xf32>, tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   func.return %c, %d : tensor<?x?x8xf32>, tensor<?x?x8xf32>
// CHECK-NEXT: }

// Vectors with an element for each channel, and the code on them, lose their extents of 1.

func.func @vectors(%x: tensor<2x5x8xf32>, %w: tensor<8x1x1xf32>, %v: tensor<8x1xf32>) -> tensor<2x5x8xf32> {
  %t = coda.transpose %x {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<2x5x8xf32>) -> tensor<2x8x5xf32>
  %c = torch.call "aten.conv1d.default"(%t, %w) {arguments = "{0}, {1}, None, [1], [0], [1], 8"} : (tensor<2x8x5xf32>, tensor<8x1x1xf32>) -> tensor<2x8x5xf32>
  %r = coda.rsqrt %v : (tensor<8x1xf32>) -> tensor<8x1xf32>
  %m = coda.mul %c, %r : (tensor<2x8x5xf32>, tensor<8x1xf32>) -> tensor<2x8x5xf32>
  %y = coda.transpose %m {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<2x8x5xf32>) -> tensor<2x5x8xf32>
  func.return %y : tensor<2x5x8xf32>
}

// CHECK:      func.func @vectors(%x: tensor<2x5x8xf32>, %w: tensor<8x1x1xf32>, %v: tensor<8x1xf32>) -> tensor<2x5x8xf32> {
// CHECK-NEXT:   %w_1 = coda.reshape %w : (tensor<8x1x1xf32>) -> tensor<8xf32>
// CHECK-NEXT:   %c = coda.mul %x, %w_1 : (tensor<2x5x8xf32>, tensor<8xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:   %r = coda.rsqrt %v : (tensor<8x1xf32>) -> tensor<8x1xf32>
// CHECK-NEXT:   %r_1 = coda.reshape %r : (tensor<8x1xf32>) -> tensor<8xf32>
// CHECK-NEXT:   %y = coda.mul %c, %r_1 : (tensor<2x5x8xf32>, tensor<8xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:   func.return %y : tensor<2x5x8xf32>
// CHECK-NEXT: }

// Channels that are heads, which the model has split off and joined again.

func.func @heads(%x: tensor<2x5x16xf32>, %w: tensor<8x1x1xf32>) -> tensor<2x8x5xf32> {
  %p = coda.slice %x {dim = 2 : i64, start = 8 : i64, stop = 16 : i64} : (tensor<2x5x16xf32>) -> tensor<2x5x8xf32>
  %s = coda.reshape %p : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %h = coda.transpose %s {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %t = coda.transpose %h {perm = [0 : i64, 1 : i64, 3 : i64, 2 : i64]} : (tensor<2x2x5x4xf32>) -> tensor<2x2x4x5xf32>
  %c = coda.reshape %t : (tensor<2x2x4x5xf32>) -> tensor<2x8x5xf32>
  %y = torch.call "aten.conv1d.default"(%c, %w) {arguments = "{0}, {1}, None, [1], [0], [1], 8"} : (tensor<2x8x5xf32>, tensor<8x1x1xf32>) -> tensor<2x8x5xf32>
  func.return %y : tensor<2x8x5xf32>
}

// CHECK:      func.func @heads(%x: tensor<2x5x16xf32>, %w: tensor<8x1x1xf32>) -> tensor<2x8x5xf32> {
// CHECK-NEXT:   %x_1 = coda.slice %x {dim = 2 : i64, start = 8 : i64, stop = 16 : i64} : (tensor<2x5x16xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:   %w_1 = coda.reshape %w : (tensor<8x1x1xf32>) -> tensor<8xf32>
// CHECK-NEXT:   %y = coda.mul %x_1, %w_1 : (tensor<2x5x8xf32>, tensor<8xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:   %y_1 = coda.transpose %y {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<2x5x8xf32>) -> tensor<2x8x5xf32>
// CHECK-NEXT:   func.return %y_1 : tensor<2x8x5xf32>
// CHECK-NEXT: }

// RUN: coda-opt %s -p raise-depthwise-convolution,canonicalize,dce | filecheck %s

// What reads the result has its channels as columns, and takes the positions of the input.

func.func @causal(%x: tensor<?x?x8xf32> {coda.dims = ["B", "T", 8 : i64]}, %w: tensor<8x1x2xf32>, %b: tensor<8xf32>) -> tensor<?x?x8xf32> {
  %t = coda.transpose %x {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<?x?x8xf32>) -> tensor<?x8x?xf32>
  %c = torch.call "aten.conv1d.default"(%t, %w, %b) {arguments = "{0}, {1}, {2}, [1], [1], [1], 8", coda.dims = ["B", 8 : i64, "?"]} : (tensor<?x8x?xf32>, tensor<8x1x2xf32>, tensor<8xf32>) -> tensor<?x8x?xf32>
  %s = torch.call "aten.slice.Tensor"(%c) {arguments = "{0}, 2, None, T", view, coda.dims = ["B", 8 : i64, "T"]} : (tensor<?x8x?xf32>) -> tensor<?x8x?xf32>
  %y = coda.transpose %s {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<?x8x?xf32>) -> tensor<?x?x8xf32>
  func.return %y : tensor<?x?x8xf32>
}

// CHECK:      func.func @causal(%x: tensor<?x?x8xf32> {coda.dims = ["B", "T", 8 : i64]}, %w: tensor<8x1x2xf32>, %b: tensor<8xf32>) -> tensor<?x?x8xf32> {
// CHECK-NEXT:   %0 = coda.shift %x {by = 1 : i64} : (tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %1 = coda.slice %w {dim = 2 : i64, start = 0 : i64, stop = 1 : i64} : (tensor<8x1x2xf32>) -> tensor<8x1x1xf32>
// CHECK-NEXT:   %2 = coda.reshape %1 : (tensor<8x1x1xf32>) -> tensor<8xf32>
// CHECK-NEXT:   %3 = coda.mul %0, %2 : (tensor<?x?x8xf32>, tensor<8xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %4 = coda.shift %x {by = 0 : i64} : (tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %5 = coda.slice %w {dim = 2 : i64, start = 1 : i64, stop = 2 : i64} : (tensor<8x1x2xf32>) -> tensor<8x1x1xf32>
// CHECK-NEXT:   %6 = coda.reshape %5 : (tensor<8x1x1xf32>) -> tensor<8xf32>
// CHECK-NEXT:   %7 = coda.mul %4, %6 : (tensor<?x?x8xf32>, tensor<8xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %8 = coda.add %3, %7 : (tensor<?x?x8xf32>, tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %c = coda.add %8, %b : (tensor<?x?x8xf32>, tensor<8xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   func.return %c : tensor<?x?x8xf32>
// CHECK-NEXT: }

func.func @same(%x: tensor<2x5x8xbf16>, %w: tensor<8x1x3xbf16>) -> tensor<2x5x8xbf16> {
  %t = coda.transpose %x {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<2x5x8xbf16>) -> tensor<2x8x5xbf16>
  %c = torch.call "aten.conv1d.default"(%t, %w) {arguments = "{0}, {1}, None, [1], [2], [2], 8"} : (tensor<2x8x5xbf16>, tensor<8x1x3xbf16>) -> tensor<2x8x5xbf16>
  %y = coda.transpose %c {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<2x8x5xbf16>) -> tensor<2x5x8xbf16>
  func.return %y : tensor<2x5x8xbf16>
}

// CHECK:      func.func @same(%x: tensor<2x5x8xbf16>, %w: tensor<8x1x3xbf16>) -> tensor<2x5x8xbf16> {
// CHECK-NEXT:   %0 = coda.shift %x {by = 2 : i64} : (tensor<2x5x8xbf16>) -> tensor<2x5x8xbf16>
// CHECK-NEXT:   %1 = coda.slice %w {dim = 2 : i64, start = 0 : i64, stop = 1 : i64} : (tensor<8x1x3xbf16>) -> tensor<8x1x1xbf16>
// CHECK-NEXT:   %2 = coda.reshape %1 : (tensor<8x1x1xbf16>) -> tensor<8xbf16>
// CHECK-NEXT:   %3 = coda.cast %0 : (tensor<2x5x8xbf16>) -> tensor<2x5x8xf32>
// CHECK-NEXT:   %4 = coda.cast %2 : (tensor<8xbf16>) -> tensor<8xf32>
// CHECK-NEXT:   %5 = coda.mul %3, %4 : (tensor<2x5x8xf32>, tensor<8xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:   %6 = coda.shift %x {by = 0 : i64} : (tensor<2x5x8xbf16>) -> tensor<2x5x8xbf16>
// CHECK-NEXT:   %7 = coda.slice %w {dim = 2 : i64, start = 1 : i64, stop = 2 : i64} : (tensor<8x1x3xbf16>) -> tensor<8x1x1xbf16>
// CHECK-NEXT:   %8 = coda.reshape %7 : (tensor<8x1x1xbf16>) -> tensor<8xbf16>
// CHECK-NEXT:   %9 = coda.cast %6 : (tensor<2x5x8xbf16>) -> tensor<2x5x8xf32>
// CHECK-NEXT:   %10 = coda.cast %8 : (tensor<8xbf16>) -> tensor<8xf32>
// CHECK-NEXT:   %11 = coda.mul %9, %10 : (tensor<2x5x8xf32>, tensor<8xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:   %12 = coda.add %5, %11 : (tensor<2x5x8xf32>, tensor<2x5x8xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:   %13 = coda.shift %x {by = -2 : i64} : (tensor<2x5x8xbf16>) -> tensor<2x5x8xbf16>
// CHECK-NEXT:   %14 = coda.slice %w {dim = 2 : i64, start = 2 : i64, stop = 3 : i64} : (tensor<8x1x3xbf16>) -> tensor<8x1x1xbf16>
// CHECK-NEXT:   %15 = coda.reshape %14 : (tensor<8x1x1xbf16>) -> tensor<8xbf16>
// CHECK-NEXT:   %16 = coda.cast %13 : (tensor<2x5x8xbf16>) -> tensor<2x5x8xf32>
// CHECK-NEXT:   %17 = coda.cast %15 : (tensor<8xbf16>) -> tensor<8xf32>
// CHECK-NEXT:   %18 = coda.mul %16, %17 : (tensor<2x5x8xf32>, tensor<8xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:   %19 = coda.add %12, %18 : (tensor<2x5x8xf32>, tensor<2x5x8xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:   %c = coda.cast %19 : (tensor<2x5x8xf32>) -> tensor<2x5x8xbf16>
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
// CHECK-NEXT:   %0 = coda.shift %x {by = 0 : i64} : (tensor<2x5x8xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:   %1 = coda.slice %w {dim = 2 : i64, start = 0 : i64, stop = 1 : i64} : (tensor<8x1x3xf32>) -> tensor<8x1x1xf32>
// CHECK-NEXT:   %2 = coda.reshape %1 : (tensor<8x1x1xf32>) -> tensor<8xf32>
// CHECK-NEXT:   %3 = coda.mul %0, %2 : (tensor<2x5x8xf32>, tensor<8xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:   %4 = coda.shift %x {by = -1 : i64} : (tensor<2x5x8xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:   %5 = coda.slice %w {dim = 2 : i64, start = 1 : i64, stop = 2 : i64} : (tensor<8x1x3xf32>) -> tensor<8x1x1xf32>
// CHECK-NEXT:   %6 = coda.reshape %5 : (tensor<8x1x1xf32>) -> tensor<8xf32>
// CHECK-NEXT:   %7 = coda.mul %4, %6 : (tensor<2x5x8xf32>, tensor<8xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:   %8 = coda.add %3, %7 : (tensor<2x5x8xf32>, tensor<2x5x8xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:   %9 = coda.shift %x {by = -2 : i64} : (tensor<2x5x8xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:   %10 = coda.slice %w {dim = 2 : i64, start = 2 : i64, stop = 3 : i64} : (tensor<8x1x3xf32>) -> tensor<8x1x1xf32>
// CHECK-NEXT:   %11 = coda.reshape %10 : (tensor<8x1x1xf32>) -> tensor<8xf32>
// CHECK-NEXT:   %12 = coda.mul %9, %11 : (tensor<2x5x8xf32>, tensor<8xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:   %c = coda.add %8, %12 : (tensor<2x5x8xf32>, tensor<2x5x8xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:   func.return %c : tensor<2x5x8xf32>
// CHECK-NEXT: }

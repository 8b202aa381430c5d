// RUN: coda-opt %s -p move-loss-slices --split-input-file | filecheck %s

// The loss of each row but the last one of each sequence.

func.func @none(%x: tensor<?x6x8xbf16> {coda.dims = ["B", 6, 8]}, %w: tensor<50x8xbf16>, %t: tensor<?x5xi64> {coda.dims = ["B", 5]}) -> tensor<?x5xf32> {
  %z = coda.linear %x, %w : (tensor<?x6x8xbf16>, tensor<50x8xbf16>) -> tensor<?x6x50xbf16>
  %s = coda.slice %z {dim = 1 : i64, start = 0 : i64, stop = 5 : i64} : (tensor<?x6x50xbf16>) -> tensor<?x5x50xbf16>
  %l = coda.cross_entropy %s, %t {ignore_index = -100 : i64, reduction = "none"} : (tensor<?x5x50xbf16>, tensor<?x5xi64>) -> tensor<?x5xf32>
  func.return %l : tensor<?x5xf32>
}

// CHECK:      func.func @none(
// CHECK-NEXT:   %z = coda.linear %x, %w : (tensor<?x6x8xbf16>, tensor<50x8xbf16>) -> tensor<?x6x50xbf16>
// CHECK-NEXT:   %s = coda.slice %z {dim = 1 : i64, start = 0 : i64, stop = 5 : i64} : (tensor<?x6x50xbf16>) -> tensor<?x5x50xbf16>
// CHECK-NEXT:   %t_1 = coda.pad %t {dim = 1 : i64, start = 0 : i64, value = -100 : i64} : (tensor<?x5xi64>) -> tensor<?x6xi64>
// CHECK-NEXT:   %l = coda.cross_entropy %z, %t_1 {ignore_index = -100 : i64, reduction = "none"} : (tensor<?x6x50xbf16>, tensor<?x6xi64>) -> tensor<?x6xf32>
// CHECK-NEXT:   %l_1 = coda.slice %l {dim = 1 : i64, start = 0 : i64, stop = 5 : i64} : (tensor<?x6xf32>) -> tensor<?x5xf32>
// CHECK-NEXT:   func.return %l_1 : tensor<?x5xf32>
// CHECK-NEXT: }

// -----

// A mean over merged rows, which needs no slice.

func.func @mean(%x: tensor<2x6x8xf32>, %w: tensor<50x8xf32>, %t: tensor<10xi32>) -> tensor<f32> {
  %z = coda.linear %x, %w : (tensor<2x6x8xf32>, tensor<50x8xf32>) -> tensor<2x6x50xf32>
  %s = coda.slice %z {dim = 1 : i64, start = 1 : i64, stop = 6 : i64} : (tensor<2x6x50xf32>) -> tensor<2x5x50xf32>
  %r = coda.reshape %s : (tensor<2x5x50xf32>) -> tensor<10x50xf32>
  %l = coda.cross_entropy %r, %t {ignore_index = 0 : i64, reduction = "mean"} : (tensor<10x50xf32>, tensor<10xi32>) -> tensor<f32>
  func.return %l : tensor<f32>
}

// CHECK:      func.func @mean(
// CHECK-NEXT:   %z = coda.linear %x, %w : (tensor<2x6x8xf32>, tensor<50x8xf32>) -> tensor<2x6x50xf32>
// CHECK-NEXT:   %s = coda.slice %z {dim = 1 : i64, start = 1 : i64, stop = 6 : i64} : (tensor<2x6x50xf32>) -> tensor<2x5x50xf32>
// CHECK-NEXT:   %r = coda.reshape %s : (tensor<2x5x50xf32>) -> tensor<10x50xf32>
// CHECK-NEXT:   %t_1 = coda.reshape %t : (tensor<10xi32>) -> tensor<2x5xi32>
// CHECK-NEXT:   %t_2 = coda.pad %t_1 {dim = 1 : i64, start = 1 : i64} : (tensor<2x5xi32>) -> tensor<2x6xi32>
// CHECK-NEXT:   %l = coda.cross_entropy %z, %t_2 {ignore_index = 0 : i64, reduction = "mean"} : (tensor<2x6x50xf32>, tensor<2x6xi32>) -> tensor<f32>
// CHECK-NEXT:   func.return %l : tensor<f32>
// CHECK-NEXT: }

// -----

// A slice of columns is not one of rows.

func.func @columns(%x: tensor<6x8xf32>, %w: tensor<50x8xf32>, %t: tensor<6xi64>) -> tensor<f32> {
  %z = coda.linear %x, %w : (tensor<6x8xf32>, tensor<50x8xf32>) -> tensor<6x50xf32>
  %s = coda.slice %z {dim = 1 : i64, start = 0 : i64, stop = 40 : i64} : (tensor<6x50xf32>) -> tensor<6x40xf32>
  %l = coda.cross_entropy %s, %t {ignore_index = -100 : i64, reduction = "sum"} : (tensor<6x40xf32>, tensor<6xi64>) -> tensor<f32>
  func.return %l : tensor<f32>
}

// CHECK:      func.func @columns(
// CHECK-NEXT:   %z = coda.linear %x, %w : (tensor<6x8xf32>, tensor<50x8xf32>) -> tensor<6x50xf32>
// CHECK-NEXT:   %s = coda.slice %z {dim = 1 : i64, start = 0 : i64, stop = 40 : i64} : (tensor<6x50xf32>) -> tensor<6x40xf32>
// CHECK-NEXT:   %l = coda.cross_entropy %s, %t {ignore_index = -100 : i64, reduction = "sum"} : (tensor<6x40xf32>, tensor<6xi64>) -> tensor<f32>
// CHECK-NEXT:   func.return %l : tensor<f32>
// CHECK-NEXT: }

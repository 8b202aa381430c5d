// RUN: coda-opt %s | filecheck %s
// RUN: coda-opt %s | coda-opt -f mlir | filecheck %s
// RUN: coda-opt %s --print-op-generic | coda-opt -f mlir | filecheck %s

// Operators that run as calls of PyTorch.

func.func @by_number(%x: tensor<?x9x8xbf16>, %rows: tensor<?x3xi32>, %ids: tensor<?x9x2xi64>, %v: tensor<?x9x2xbf16>) {
  %index = coda.index %x, %rows {dim = 1 : i64} : (tensor<?x9x8xbf16>, tensor<?x3xi32>) -> tensor<?x?x3x8xbf16>
  %gather = coda.gather %x, %ids {dim = 2 : i64} : (tensor<?x9x8xbf16>, tensor<?x9x2xi64>) -> tensor<?x9x2xbf16>
  %scatter = coda.scatter %x, %ids, %v {dim = 2 : i64} : (tensor<?x9x8xbf16>, tensor<?x9x2xi64>, tensor<?x9x2xbf16>) -> tensor<?x9x8xbf16>
  %one_hot = coda.one_hot %ids {classes = 8 : i64} : (tensor<?x9x2xi64>) -> tensor<?x9x2x8xi64>
  func.return
}

// CHECK:      func.func @by_number(%x: tensor<?x9x8xbf16>, %rows: tensor<?x3xi32>, %ids: tensor<?x9x2xi64>, %v: tensor<?x9x2xbf16>) {
// CHECK-NEXT:   %index = coda.index %x, %rows {dim = 1 : i64} : (tensor<?x9x8xbf16>, tensor<?x3xi32>) -> tensor<?x?x3x8xbf16>
// CHECK-NEXT:   %gather = coda.gather %x, %ids {dim = 2 : i64} : (tensor<?x9x8xbf16>, tensor<?x9x2xi64>) -> tensor<?x9x2xbf16>
// CHECK-NEXT:   %scatter = coda.scatter %x, %ids, %v {dim = 2 : i64} : (tensor<?x9x8xbf16>, tensor<?x9x2xi64>, tensor<?x9x2xbf16>) -> tensor<?x9x8xbf16>
// CHECK-NEXT:   %one_hot = coda.one_hot %ids {classes = 8 : i64} : (tensor<?x9x2xi64>) -> tensor<?x9x2x8xi64>
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

func.func @in_order(%x: tensor<?x8xf32>, %n: tensor<?xi64>) {
  %values, %ids = coda.topk %x {k = 3 : i64, dim = 1 : i64} : (tensor<?x8xf32>) -> (tensor<?x3xf32>, tensor<?x3xi64>)
  %sorted, %order = coda.sort %x {dim = 0 : i64, descending = true} : (tensor<?x8xf32>) -> (tensor<?x8xf32>, tensor<?x8xi64>)
  %sums = coda.cumsum %x {dim = 1 : i64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %counts = coda.cumsum %n {dim = 0 : i64} : (tensor<?xi64>) -> tensor<?xi64>
  func.return
}

// CHECK:      func.func @in_order(%x: tensor<?x8xf32>, %n: tensor<?xi64>) {
// CHECK-NEXT:   %values, %ids = coda.topk %x {k = 3 : i64, dim = 1 : i64} : (tensor<?x8xf32>) -> (tensor<?x3xf32>, tensor<?x3xi64>)
// CHECK-NEXT:   %sorted, %order = coda.sort %x {dim = 0 : i64, descending = true} : (tensor<?x8xf32>) -> (tensor<?x8xf32>, tensor<?x8xi64>)
// CHECK-NEXT:   %sums = coda.cumsum %x {dim = 1 : i64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %counts = coda.cumsum %n {dim = 0 : i64} : (tensor<?xi64>) -> tensor<?xi64>
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

func.func @channels(%x: tensor<?x8x?x?xbf16>, %w: tensor<8xbf16>) {
  %plain = coda.group_norm %x {groups = 2 : i64, eps = 1.000000e-05 : f64} : (tensor<?x8x?x?xbf16>) -> tensor<?x8x?x?xbf16>
  %affine = coda.group_norm %x, %w, %w {groups = 8 : i64, eps = 1.000000e-06 : f64} : (tensor<?x8x?x?xbf16>, tensor<8xbf16>, tensor<8xbf16>) -> tensor<?x8x?x?xbf16>
  func.return
}

// CHECK:      func.func @channels(%x: tensor<?x8x?x?xbf16>, %w: tensor<8xbf16>) {
// CHECK-NEXT:   %plain = coda.group_norm %x {groups = 2 : i64, eps = 1.000000e-05 : f64} : (tensor<?x8x?x?xbf16>) -> tensor<?x8x?x?xbf16>
// CHECK-NEXT:   %affine = coda.group_norm %x, %w, %w {groups = 8 : i64, eps = 1.000000e-06 : f64} : (tensor<?x8x?x?xbf16>, tensor<8xbf16>, tensor<8xbf16>) -> tensor<?x8x?x?xbf16>
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

func.func @convolutions(%x: tensor<?x8x?xbf16>, %w: tensor<6x4x3xbf16>, %b: tensor<6xbf16>, %image: tensor<2x3x9x9xf32>, %v: tensor<4x3x3x3xf32>) {
  %same = coda.convolution %x, %w, %b {stride = [1 : i64], padding = [1 : i64], dilation = [1 : i64], groups = 2 : i64} : (tensor<?x8x?xbf16>, tensor<6x4x3xbf16>, tensor<6xbf16>) -> tensor<?x6x?xbf16>
  %half = coda.convolution %image, %v {stride = [2 : i64, 2 : i64], padding = [1 : i64, 0 : i64], dilation = [1 : i64, 2 : i64], groups = 1 : i64} : (tensor<2x3x9x9xf32>, tensor<4x3x3x3xf32>) -> tensor<2x4x5x3xf32>
  func.return
}

// CHECK:      func.func @convolutions(%x: tensor<?x8x?xbf16>, %w: tensor<6x4x3xbf16>, %b: tensor<6xbf16>, %image: tensor<2x3x9x9xf32>, %v: tensor<4x3x3x3xf32>) {
// CHECK-NEXT:   %same = coda.convolution %x, %w, %b {stride = [1 : i64], padding = [1 : i64], dilation = [1 : i64], groups = 2 : i64} : (tensor<?x8x?xbf16>, tensor<6x4x3xbf16>, tensor<6xbf16>) -> tensor<?x6x?xbf16>
// CHECK-NEXT:   %half = coda.convolution %image, %v {stride = [2 : i64, 2 : i64], padding = [1 : i64, 0 : i64], dilation = [1 : i64, 2 : i64], groups = 1 : i64} : (tensor<2x3x9x9xf32>, tensor<4x3x3x3xf32>) -> tensor<2x4x5x3xf32>
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

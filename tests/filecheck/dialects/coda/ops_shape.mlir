// RUN: coda-opt %s | filecheck %s
// RUN: coda-opt %s | coda-opt -f mlir | filecheck %s
// RUN: coda-opt %s --print-op-generic | coda-opt -f mlir | filecheck %s

// Operators that move or view elements.

// CHECK:      func.func @shape(%x: tensor<2x3x4xf32>, %y: tensor<?x?x8xbf16>) {
// CHECK-NEXT:   %flat = coda.reshape %x : (tensor<2x3x4xf32>) -> tensor<6x4xf32>
// CHECK-NEXT:   %rows = coda.reshape %y : (tensor<?x?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %transposed = coda.transpose %x {perm = [2 : i64, 0 : i64, 1 : i64]} : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>
// CHECK-NEXT:   %part = coda.slice %x {dim = 2 : i64, start = 1 : i64, stop = 3 : i64} : (tensor<2x3x4xf32>) -> tensor<2x3x2xf32>
// CHECK-NEXT:   %later = coda.shift %y {by = 1 : i64} : (tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   %earlier = coda.shift %x {by = -2 : i64} : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
// CHECK-NEXT:   %joined = coda.concat %x, %x {dim = 1 : i64} : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x6x4xf32>
// CHECK-NEXT:   %longer = coda.concat %y, %y {dim = 1 : i64} : (tensor<?x?x8xbf16>, tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   func.return
func.func @shape(%x: tensor<2x3x4xf32>, %y: tensor<?x?x8xbf16>) {
  %flat = coda.reshape %x : (tensor<2x3x4xf32>) -> tensor<6x4xf32>
  %rows = coda.reshape %y : (tensor<?x?x8xbf16>) -> tensor<?x8xbf16>
  %transposed = coda.transpose %x {perm = [2 : i64, 0 : i64, 1 : i64]} : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>
  %part = coda.slice %x {dim = 2 : i64, start = 1 : i64, stop = 3 : i64} : (tensor<2x3x4xf32>) -> tensor<2x3x2xf32>
  %later = coda.shift %y {by = 1 : i64} : (tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>
  %earlier = coda.shift %x {by = -2 : i64} : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %joined = coda.concat %x, %x {dim = 1 : i64} : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x6x4xf32>
  %longer = coda.concat %y, %y {dim = 1 : i64} : (tensor<?x?x8xbf16>, tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>
  func.return
}

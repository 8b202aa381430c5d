// RUN: coda-opt %s -p canonicalize --split-input-file | filecheck %s

// A softmax of flattened rows is one of rows; groups of a row, and rows that are read elsewhere, stay.

func.func @rows(%x: tensor<2x?x4xf32>, %y: tensor<?x8xf32>) -> (tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>) {
  %flat = coda.reshape %x : (tensor<2x?x4xf32>) -> tensor<?x4xf32>
  %a = coda.softmax %flat : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %halves = coda.reshape %y : (tensor<?x8xf32>) -> tensor<?x4xf32>
  %b = coda.softmax %halves : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %read = coda.reshape %x : (tensor<2x?x4xf32>) -> tensor<?x4xf32>
  %c = coda.softmax %read : (tensor<?x4xf32>) -> tensor<?x4xf32>
  func.return %a, %b, %c, %read : tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>
}

// CHECK:      func.func @rows(%x: tensor<2x?x4xf32>, %y: tensor<?x8xf32>) -> (tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>) {
// CHECK-NEXT:   %a = coda.softmax %x : (tensor<2x?x4xf32>) -> tensor<2x?x4xf32>
// CHECK-NEXT:   %a_1 = coda.reshape %a : (tensor<2x?x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   %halves = coda.reshape %y : (tensor<?x8xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   %b = coda.softmax %halves : (tensor<?x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   %read = coda.reshape %x : (tensor<2x?x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   %c = coda.softmax %read : (tensor<?x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   func.return %a_1, %b, %c, %read : tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>
// CHECK-NEXT: }

// RUN: coda-opt %s -p raise-linear,dce --split-input-file | filecheck %s

// The rows of the result are others: B and T change places.

func.func @other_rows(%x: tensor<?x?x8xf32> {coda.dims = ["B", "T", 8 : i64]}, %w: tensor<16x8xf32>) -> tensor<?x?x16xf32> {
  %f = coda.reshape %x : (tensor<?x?x8xf32>) -> tensor<?x8xf32>
  %p = coda.linear %f, %w : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
  %y = coda.reshape %p {coda.dims = ["T", "B", 16 : i64]} : (tensor<?x16xf32>) -> tensor<?x?x16xf32>
  func.return %y : tensor<?x?x16xf32>
}

// CHECK-LABEL: func.func @other_rows(
// CHECK-NEXT:   [[P:%.*]] = coda.linear %x, %w
// CHECK-NEXT:   [[F:%.*]] = coda.reshape [[P]] : (tensor<?x?x16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   [[Y:%.*]] = coda.reshape [[F]] {coda.dims = ["T", "B", 16 : i64]}
// CHECK-NEXT:   func.return [[Y]]

// -----

// The columns change with the rows.

func.func @columns(%x: tensor<4x2x8xf32>, %w: tensor<16x16xf32>) -> tensor<4x16xf32> {
  %f = coda.reshape %x : (tensor<4x2x8xf32>) -> tensor<4x16xf32>
  %p = coda.linear %f, %w : (tensor<4x16xf32>, tensor<16x16xf32>) -> tensor<4x16xf32>
  func.return %p : tensor<4x16xf32>
}

// CHECK-LABEL: func.func @columns(
// CHECK-NEXT:   %f = coda.reshape
// CHECK-NEXT:   %p = coda.linear %f, %w

// -----

// A column with one element per flattened row.

func.func @column(%x: tensor<?x?x8xf32> {coda.dims = ["B", "T", 8 : i64]}, %c: tensor<?x1xf32>) -> tensor<?x8xf32> {
  %f = coda.reshape %x : (tensor<?x?x8xf32>) -> tensor<?x8xf32>
  %y = coda.mul %f, %c : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  func.return %y : tensor<?x8xf32>
}

// CHECK-LABEL: func.func @column(
// CHECK-NEXT:   %f = coda.reshape
// CHECK-NEXT:   %y = coda.mul %f, %c

// RUN: coda-opt %s | filecheck %s
// RUN: coda-opt %s | coda-opt -f mlir | filecheck %s
// RUN: coda-opt %s --print-op-generic | coda-opt -f mlir | filecheck %s

// Linear maps with a weight, and a bias, for each group of rows.

func.func @experts(%x: tensor<?x8xbf16>, %w: tensor<4x16x8xbf16>, %k: tensor<?x16x8xbf16>, %b: tensor<4x16xbf16>, %e: tensor<4xi32>, %f: tensor<?xi32>) {
  %y = coda.grouped_linear %x, %w, %e, %b : (tensor<?x8xbf16>, tensor<4x16x8xbf16>, tensor<4xi32>, tensor<4x16xbf16>) -> tensor<?x16xbf16>
  %z = coda.grouped_matmul %y, %k, %f : (tensor<?x16xbf16>, tensor<?x16x8xbf16>, tensor<?xi32>) -> tensor<?x8xf32>
  %g = coda.grouped_weight_gradient %y, %x, %e : (tensor<?x16xbf16>, tensor<?x8xbf16>, tensor<4xi32>) -> tensor<4x16x8xf32>
  func.return
}

// CHECK:      func.func @experts(%x: tensor<?x8xbf16>, %w: tensor<4x16x8xbf16>, %k: tensor<?x16x8xbf16>, %b: tensor<4x16xbf16>, %e: tensor<4xi32>, %f: tensor<?xi32>) {
// CHECK-NEXT:   %y = coda.grouped_linear %x, %w, %e, %b : (tensor<?x8xbf16>, tensor<4x16x8xbf16>, tensor<4xi32>, tensor<4x16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %z = coda.grouped_matmul %y, %k, %f : (tensor<?x16xbf16>, tensor<?x16x8xbf16>, tensor<?xi32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %g = coda.grouped_weight_gradient %y, %x, %e : (tensor<?x16xbf16>, tensor<?x8xbf16>, tensor<4xi32>) -> tensor<4x16x8xf32>
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

// The order of rows by group.

func.func @order(%ids: tensor<?xi64>, %few: tensor<9xi16>) {
  %order, %ends = coda.group_order %ids {groups = 4 : i64} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<4xi32>)
  %o, %e = coda.group_order %few {groups = 2 : i64} : (tensor<9xi16>) -> (tensor<9xi64>, tensor<2xi32>)
  func.return
}

// CHECK:      func.func @order(%ids: tensor<?xi64>, %few: tensor<9xi16>) {
// CHECK-NEXT:   %order, %ends = coda.group_order %ids {groups = 4 : i64} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<4xi32>)
// CHECK-NEXT:   %o, %e = coda.group_order %few {groups = 2 : i64} : (tensor<9xi16>) -> (tensor<9xi64>, tensor<2xi32>)
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

// RUN: coda-opt %s -p flatten-groups,dce --split-input-file | filecheck %s

// Experts side by side, whose columns the gates of a router scale: they repeat as a broadcast says.

func.func @experts(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %gates: tensor<?x4x1xbf16>) -> tensor<?x16xbf16> {
  %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %h = coda.reshape %z : (tensor<?x16xbf16>) -> tensor<?x4x4xbf16>
  %p = coda.mul %h, %gates : (tensor<?x4x4xbf16>, tensor<?x4x1xbf16>) -> tensor<?x4x4xbf16>
  %y = coda.reshape %p : (tensor<?x4x4xbf16>) -> tensor<?x16xbf16>
  func.return %y : tensor<?x16xbf16>
}

// CHECK:      func.func @experts(
// CHECK-NEXT:   %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %gates_1 = coda.broadcast %gates : (tensor<?x4x1xbf16>) -> tensor<?x4x4xbf16>
// CHECK-NEXT:   %gates_2 = coda.reshape %gates_1 : (tensor<?x4x4xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %p = coda.mul %z, %gates_2 : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %p : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// What broadcasts along the groups, is there for each column, or for all of them.

func.func @operands(%z: tensor<?x8xf32>, %t: tensor<?x8xf32>, %group: tensor<2x1xf32>, %column: tensor<4xf32>, %each: tensor<2x4xf32>, %row: tensor<?x1x1xf32>, %one: tensor<1xf32>, %ones: tensor<1x1x1xf32>) -> (tensor<?x8xf32>, tensor<?x2x4xf32>) {
  %h = coda.reshape %z : (tensor<?x8xf32>) -> tensor<?x2x4xf32>
  %s = coda.reshape %t : (tensor<?x8xf32>) -> tensor<?x2x4xf32>
  %a = coda.add %h, %s : (tensor<?x2x4xf32>, tensor<?x2x4xf32>) -> tensor<?x2x4xf32>
  %b = coda.mul %a, %group : (tensor<?x2x4xf32>, tensor<2x1xf32>) -> tensor<?x2x4xf32>
  %c = coda.sub %column, %b : (tensor<4xf32>, tensor<?x2x4xf32>) -> tensor<?x2x4xf32>
  %d = coda.mul %c, %each : (tensor<?x2x4xf32>, tensor<2x4xf32>) -> tensor<?x2x4xf32>
  %e = coda.mul %d, %row : (tensor<?x2x4xf32>, tensor<?x1x1xf32>) -> tensor<?x2x4xf32>
  %n = coda.constant {value = 0.5 : f64} : tensor<f32>
  %f = coda.mul %e, %n : (tensor<?x2x4xf32>, tensor<f32>) -> tensor<?x2x4xf32>
  %g = coda.mul %f, %one : (tensor<?x2x4xf32>, tensor<1xf32>) -> tensor<?x2x4xf32>
  %i = coda.mul %g, %ones : (tensor<?x2x4xf32>, tensor<1x1x1xf32>) -> tensor<?x2x4xf32>
  %y = coda.reshape %f : (tensor<?x2x4xf32>) -> tensor<?x8xf32>
  func.return %y, %i : tensor<?x8xf32>, tensor<?x2x4xf32>
}

// CHECK:      func.func @operands(
// CHECK-NEXT:   %a = coda.add %z, %t : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %group_1 = coda.broadcast %group : (tensor<2x1xf32>) -> tensor<2x4xf32>
// CHECK-NEXT:   %group_2 = coda.reshape %group_1 : (tensor<2x4xf32>) -> tensor<8xf32>
// CHECK-NEXT:   %b = coda.mul %a, %group_2 : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %column_1 = coda.reshape %column : (tensor<4xf32>) -> tensor<1x4xf32>
// CHECK-NEXT:   %column_2 = coda.broadcast %column_1 : (tensor<1x4xf32>) -> tensor<2x4xf32>
// CHECK-NEXT:   %column_3 = coda.reshape %column_2 : (tensor<2x4xf32>) -> tensor<8xf32>
// CHECK-NEXT:   %c = coda.sub %column_3, %b : (tensor<8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %each_1 = coda.reshape %each : (tensor<2x4xf32>) -> tensor<8xf32>
// CHECK-NEXT:   %d = coda.mul %c, %each_1 : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %row_1 = coda.reshape %row : (tensor<?x1x1xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %e = coda.mul %d, %row_1 : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %n = coda.constant {value = 5.000000e-01 : f64} : tensor<f32>
// CHECK-NEXT:   %f = coda.mul %e, %n : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %g = coda.mul %f, %one : (tensor<?x8xf32>, tensor<1xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %ones_1 = coda.reshape %ones : (tensor<1x1x1xf32>) -> tensor<1x1xf32>
// CHECK-NEXT:   %i = coda.mul %g, %ones_1 : (tensor<?x8xf32>, tensor<1x1xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %i_1 = coda.reshape %i : (tensor<?x8xf32>) -> tensor<?x2x4xf32>
// CHECK-NEXT:   func.return %f, %i_1 : tensor<?x8xf32>, tensor<?x2x4xf32>
// CHECK-NEXT: }

// -----

// The gradient of gates is a sum over each group, which keeps its operands; that of the columns is
// none.

func.func @gradient(%dy: tensor<?x8xbf16>, %a: tensor<?x8xbf16>, %gates: tensor<?x2x1xbf16>) -> (tensor<?x8xbf16>, tensor<?x2x1xbf16>) {
  %h = coda.reshape %dy : (tensor<?x8xbf16>) -> tensor<?x2x4xbf16>
  %k = coda.reshape %a : (tensor<?x8xbf16>) -> tensor<?x2x4xbf16>
  %p = coda.mul %h, %gates : (tensor<?x2x4xbf16>, tensor<?x2x1xbf16>) -> tensor<?x2x4xbf16>
  %q = coda.mul %h, %k : (tensor<?x2x4xbf16>, tensor<?x2x4xbf16>) -> tensor<?x2x4xbf16>
  %dg = coda.reduce %q {kind = "sum"} : (tensor<?x2x4xbf16>) -> tensor<?x2x1xbf16>
  %da = coda.reshape %p : (tensor<?x2x4xbf16>) -> tensor<?x8xbf16>
  func.return %da, %dg : tensor<?x8xbf16>, tensor<?x2x1xbf16>
}

// CHECK:      func.func @gradient(
// CHECK-NEXT:   %h = coda.reshape %dy : (tensor<?x8xbf16>) -> tensor<?x2x4xbf16>
// CHECK-NEXT:   %k = coda.reshape %a : (tensor<?x8xbf16>) -> tensor<?x2x4xbf16>
// CHECK-NEXT:   %gates_1 = coda.broadcast %gates : (tensor<?x2x1xbf16>) -> tensor<?x2x4xbf16>
// CHECK-NEXT:   %gates_2 = coda.reshape %gates_1 : (tensor<?x2x4xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %p = coda.mul %dy, %gates_2 : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %q = coda.mul %h, %k : (tensor<?x2x4xbf16>, tensor<?x2x4xbf16>) -> tensor<?x2x4xbf16>
// CHECK-NEXT:   %dg = coda.reduce %q {kind = "sum"} : (tensor<?x2x4xbf16>) -> tensor<?x2x1xbf16>
// CHECK-NEXT:   func.return %p, %dg : tensor<?x8xbf16>, tensor<?x2x1xbf16>
// CHECK-NEXT: }

// RUN: coda-opt %s -p canonicalize | filecheck %s

// CHECK-LABEL: func.func @folds
// CHECK-SAME: %x: tensor<?x8xf32>, %y: tensor<4x8xf32>
func.func @folds(%x: tensor<?x8xf32>, %y: tensor<4x8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<32xf32>, tensor<4x8xf32>) {
  %cast = coda.cast %x : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %slice = coda.slice %x {dim = 1 : i64, start = 0 : i64, stop = 8 : i64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %concat = coda.concat %x {dim = 0 : i64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %one = coda.constant {value = 1 : i64} : tensor<f32>
  %mul = coda.mul %one, %x : (tensor<f32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %div = coda.div %mul, %one : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  %n1 = coda.neg %y : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %n2 = coda.neg %n1 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %t1 = coda.transpose %y {perm = [1 : i64, 0 : i64]} : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %t2 = coda.transpose %t1 {perm = [1 : i64, 0 : i64]} : (tensor<8x4xf32>) -> tensor<4x8xf32>
  %r1 = coda.reshape %y : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %r2 = coda.reshape %r1 : (tensor<8x4xf32>) -> tensor<32xf32>
  %r3 = coda.reshape %r1 : (tensor<8x4xf32>) -> tensor<4x8xf32>
  // CHECK-NEXT: %r2 = coda.reshape %y : (tensor<4x8xf32>) -> tensor<32xf32>
  // CHECK-NEXT: func.return %x, %x, %x, %x, %y, %y, %r2, %y
  func.return %cast, %slice, %concat, %div, %n2, %t2, %r2, %r3 : tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<32xf32>, tensor<4x8xf32>
}

// CHECK-LABEL: func.func @stays
// CHECK-NEXT: coda.cast
// CHECK-NEXT: coda.slice
// CHECK-NEXT: coda.reshape
// CHECK-NEXT: coda.reshape
// CHECK-NEXT: coda.constant
// CHECK-NEXT: coda.div %one, %x
// CHECK-NEXT: func.return
func.func @stays(%x: tensor<?x8xf32>) -> (tensor<?x8xbf16>, tensor<?x7xf32>, tensor<?x?xf32>, tensor<?x8xf32>) {
  %cast = coda.cast %x : (tensor<?x8xf32>) -> tensor<?x8xbf16>
  %slice = coda.slice %x {dim = 1 : i64, start = 0 : i64, stop = 7 : i64} : (tensor<?x8xf32>) -> tensor<?x7xf32>
  %r1 = coda.reshape %x : (tensor<?x8xf32>) -> tensor<?x?xf32>
  %r2 = coda.reshape %r1 : (tensor<?x?xf32>) -> tensor<?x?xf32>
  %one = coda.constant {value = 1 : i64} : tensor<f32>
  %div = coda.div %one, %x : (tensor<f32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  func.return %cast, %slice, %r2, %div : tensor<?x8xbf16>, tensor<?x7xf32>, tensor<?x?xf32>, tensor<?x8xf32>
}

// Positions are computed under the shape that a reshape gives them; 0 added to integers is nothing,
// and so is the position of a single element.
// CHECK-LABEL: func.func @positions
// CHECK-NEXT: %p = coda.positions %x
// CHECK-NEXT: %three = coda.constant {value = 3 : i64}
// CHECK-NEXT: [[P:%.*]] = coda.reshape %p {coda.dims = ["T", 1 : i64]} : (tensor<?xi64>) -> tensor<?x1xi64>
// CHECK-NEXT: [[L:%.*]] = coda.add [[P]], %three
// CHECK-NEXT: [[F:%.*]] = coda.cast [[L]] : (tensor<?x1xi64>) -> tensor<?x1xf32>
// CHECK-NEXT: %none = coda.constant
// CHECK-NEXT: %g = coda.add %h, %none
// CHECK-NEXT: [[S:%.*]] = coda.reshape %length : (tensor<i64>) -> tensor<1xi64>
// CHECK-NEXT: func.return [[F]], %n, %g, [[S]]
func.func @positions(%x: tensor<?x8xf32> {coda.dims = ["T", 8 : i64]}, %n: tensor<8xi64>, %h: tensor<8xf32>, %length: tensor<i64>) -> (tensor<?x1xf32>, tensor<8xi64>, tensor<8xf32>, tensor<1xi64>) {
  %p = coda.positions %x {dim = 0 : i64, start = 0 : i64, step = 1 : i64} : (tensor<?x8xf32>) -> tensor<?xi64>
  %three = coda.constant {value = 3 : i64} : tensor<i64>
  %later = coda.add %p, %three : (tensor<?xi64>, tensor<i64>) -> tensor<?xi64>
  %f = coda.cast %later : (tensor<?xi64>) -> tensor<?xf32>
  %column = coda.reshape %f {coda.dims = ["T", 1 : i64]} : (tensor<?xf32>) -> tensor<?x1xf32>
  %zero = coda.constant {value = 0 : i64} : tensor<i64>
  %m = coda.add %n, %zero : (tensor<8xi64>, tensor<i64>) -> tensor<8xi64>
  %none = coda.constant {value = 0.0 : f64} : tensor<f32>
  %g = coda.add %h, %none : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %first = coda.positions {start = 0 : i64, step = 1 : i64} : () -> tensor<1xi64>
  %place = coda.add %first, %length : (tensor<1xi64>, tensor<i64>) -> tensor<1xi64>
  func.return %column, %m, %g, %place : tensor<?x1xf32>, tensor<8xi64>, tensor<8xf32>, tensor<1xi64>
}

// A cast that narrows positions stays after their reshape, which goes before them.
// CHECK-LABEL: func.func @narrow_positions
// CHECK-NEXT: %p = coda.positions %x
// CHECK-NEXT: [[P:%.*]] = coda.reshape %p {coda.dims = ["T", 1 : i64]} : (tensor<?xi64>) -> tensor<?x1xi64>
// CHECK-NEXT: [[F:%.*]] = coda.cast [[P]] : (tensor<?x1xi64>) -> tensor<?x1xf32>
// CHECK-NEXT: %narrow = coda.cast [[F]] : (tensor<?x1xf32>) -> tensor<?x1xbf16>
// CHECK-NEXT: func.return %narrow
func.func @narrow_positions(%x: tensor<?x8xf32> {coda.dims = ["T", 8 : i64]}) -> tensor<?x1xbf16> {
  %p = coda.positions %x {dim = 0 : i64, start = 0 : i64, step = 1 : i64} : (tensor<?x8xf32>) -> tensor<?xi64>
  %f = coda.cast %p : (tensor<?xi64>) -> tensor<?xf32>
  %column = coda.reshape %f {coda.dims = ["T", 1 : i64]} : (tensor<?xf32>) -> tensor<?x1xf32>
  %narrow = coda.cast %column : (tensor<?x1xf32>) -> tensor<?x1xbf16>
  func.return %narrow : tensor<?x1xbf16>
}

// Comparisons of constants, or of their magnitudes, are truth values, which choose.
// CHECK-LABEL: func.func @truth
// CHECK-NEXT: %zero = coda.constant {value = 0.000000e+00 : f64} : tensor<f32>
// CHECK-NEXT: %gt = coda.compare %x, %zero {relation = "gt"}
// CHECK-NEXT: %chosen = coda.where %gt, %x, %y
// CHECK-NEXT: [[ONE:%.*]] = coda.constant {value = 1.000000e+00 : f64} : tensor<bf16>
// CHECK-NEXT: func.return %chosen, %y, [[ONE]]
func.func @truth(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<bf16>) {
  %minus = coda.constant {value = -1.0 : f64} : tensor<f32>
  %one = coda.abs %minus : (tensor<f32>) -> tensor<f32>
  %two = coda.constant {value = 2.0 : f64} : tensor<f32>
  %zero = coda.constant {value = 0.0 : f64} : tensor<f32>
  %lt = coda.compare %one, %two {relation = "lt"} : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %not = coda.logical_not %lt : (tensor<i1>) -> tensor<i1>
  %xor = coda.logical_xor %lt, %not : (tensor<i1>, tensor<i1>) -> tensor<i1>
  %gt = coda.compare %x, %zero {relation = "gt"} : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xi1>
  %and = coda.logical_and %xor, %gt : (tensor<i1>, tensor<4x8xi1>) -> tensor<4x8xi1>
  %chosen = coda.where %and, %x, %y : (tensor<4x8xi1>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %other = coda.where %not, %x, %y : (tensor<i1>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %number = coda.cast %lt : (tensor<i1>) -> tensor<bf16>
  func.return %chosen, %other, %number : tensor<4x8xf32>, tensor<4x8xf32>, tensor<bf16>
}

// Not where the result has another shape, or where a rounding decides.
// CHECK-LABEL: func.func @no_truth
// CHECK-NEXT: coda.constant
// CHECK-NEXT: coda.constant
// CHECK-NEXT: coda.constant
// CHECK-NEXT: coda.compare
// CHECK-NEXT: coda.where
// CHECK-NEXT: coda.where
func.func @no_truth(%x: tensor<8xf32>, %y: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %true = coda.constant {value = 1 : i64} : tensor<i1>
  %one = coda.constant {value = 1.0 : f64} : tensor<bf16>
  %more = coda.constant {value = 1.001 : f64} : tensor<bf16>
  %lt = coda.compare %one, %more {relation = "lt"} : (tensor<bf16>, tensor<bf16>) -> tensor<i1>
  %a = coda.where %lt, %y, %x : (tensor<i1>, tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %b = coda.where %true, %x, %y : (tensor<i1>, tensor<8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  func.return %a, %b : tensor<4x8xf32>, tensor<4x8xf32>
}

// An extent of the type is a constant.
// CHECK-LABEL: func.func @extent
// CHECK-NEXT: coda.constant {value = 8 : i64} : tensor<i64>
// CHECK-NEXT: coda.extent %x {dim = 0 : i64} : (tensor<?x8xf32>) -> tensor<i64>
func.func @extent(%x: tensor<?x8xf32>) -> (tensor<i64>, tensor<i64>) {
  %0 = coda.extent %x {dim = 1 : i64} : (tensor<?x8xf32>) -> tensor<i64>
  %1 = coda.extent %x {dim = 0 : i64} : (tensor<?x8xf32>) -> tensor<i64>
  func.return %0, %1 : tensor<i64>, tensor<i64>
}

// A slice between two transposes without effect; others stay.
// CHECK-LABEL: func.func @sliced_transpose
// CHECK-NEXT: coda.slice %x {dim = 2 : i64, start = 1 : i64, stop = 3 : i64} : (tensor<2x3x8xf32>) -> tensor<2x3x2xf32>
// CHECK-NEXT: coda.transpose
// CHECK-NEXT: coda.slice
// CHECK-NEXT: coda.transpose
func.func @sliced_transpose(%x: tensor<2x3x8xf32>) -> (tensor<2x3x2xf32>, tensor<2x2x3xf32>) {
  %t = coda.transpose %x {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<2x3x8xf32>) -> tensor<2x8x3xf32>
  %s = coda.slice %t {dim = 1 : i64, start = 1 : i64, stop = 3 : i64} : (tensor<2x8x3xf32>) -> tensor<2x2x3xf32>
  %y = coda.transpose %s {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<2x2x3xf32>) -> tensor<2x3x2xf32>
  %u = coda.transpose %x {perm = [2 : i64, 1 : i64, 0 : i64]} : (tensor<2x3x8xf32>) -> tensor<8x3x2xf32>
  %r = coda.slice %u {dim = 0 : i64, start = 1 : i64, stop = 3 : i64} : (tensor<8x3x2xf32>) -> tensor<2x3x2xf32>
  %z = coda.transpose %r {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<2x3x2xf32>) -> tensor<2x2x3xf32>
  func.return %y, %z : tensor<2x3x2xf32>, tensor<2x2x3xf32>
}

// -----

// Rows are selected before they are widened, also after a reshape; narrowing them again is no
// operator at all.

func.func @selected(%x: tensor<3x1x8xbf16>, %ids: tensor<?xi64>) -> (tensor<?x8xf32>, tensor<?x8xbf16>) {
  %a = coda.cast %x : (tensor<3x1x8xbf16>) -> tensor<3x1x8xf32>
  %b = coda.reshape %a : (tensor<3x1x8xf32>) -> tensor<3x8xf32>
  %c = coda.index %b, %ids {dim = 0 : i64} : (tensor<3x8xf32>, tensor<?xi64>) -> tensor<?x8xf32>
  %d = coda.cast %c : (tensor<?x8xf32>) -> tensor<?x8xbf16>
  func.return %c, %d : tensor<?x8xf32>, tensor<?x8xbf16>
}

// CHECK:      func.func @selected(%x: tensor<3x1x8xbf16>, %ids: tensor<?xi64>) -> (tensor<?x8xf32>, tensor<?x8xbf16>) {
// CHECK-NEXT:   %c = coda.reshape %x : (tensor<3x1x8xbf16>) -> tensor<3x8xbf16>
// CHECK-NEXT:   %c_1 = coda.index %c, %ids {dim = 0 : i64} : (tensor<3x8xbf16>, tensor<?xi64>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %c_2 = coda.cast %c_1 : (tensor<?x8xbf16>) -> tensor<?x8xf32>
// CHECK-NEXT:   func.return %c_2, %c_1 : tensor<?x8xf32>, tensor<?x8xbf16>
// CHECK-NEXT: }

// -----

// Extents that an operator states, and no rule finds, stay.

func.func @stated(%x: tensor<3x8xbf16>, %ids: tensor<?xi64>, %z: tensor<?x8xf32>) -> (tensor<2x8xf32>, tensor<2x8xf32>, tensor<8x2xf32>) {
  %a = coda.cast %x : (tensor<3x8xbf16>) -> tensor<3x8xf32>
  %b = coda.index %a, %ids {dim = 0 : i64} : (tensor<3x8xf32>, tensor<?xi64>) -> tensor<2x8xf32>
  %c = coda.concat %z {dim = 0 : i64} : (tensor<?x8xf32>) -> tensor<2x8xf32>
  %d = coda.transpose %z {perm = [1 : i64, 0 : i64]} : (tensor<?x8xf32>) -> tensor<8x?xf32>
  %e = coda.transpose %d {perm = [0 : i64, 1 : i64]} : (tensor<8x?xf32>) -> tensor<8x2xf32>
  func.return %b, %c, %e : tensor<2x8xf32>, tensor<2x8xf32>, tensor<8x2xf32>
}

// CHECK:      func.func @stated(%x: tensor<3x8xbf16>, %ids: tensor<?xi64>, %z: tensor<?x8xf32>) -> (tensor<2x8xf32>, tensor<2x8xf32>, tensor<8x2xf32>) {
// CHECK-NEXT:   %a = coda.cast %x : (tensor<3x8xbf16>) -> tensor<3x8xf32>
// CHECK-NEXT:   %b = coda.index %a, %ids {dim = 0 : i64} : (tensor<3x8xf32>, tensor<?xi64>) -> tensor<2x8xf32>
// CHECK-NEXT:   %c = coda.concat %z {dim = 0 : i64} : (tensor<?x8xf32>) -> tensor<2x8xf32>
// CHECK-NEXT:   %d = coda.transpose %z {perm = [1 : i64, 0 : i64]} : (tensor<?x8xf32>) -> tensor<8x?xf32>
// CHECK-NEXT:   %e = coda.transpose %d {perm = [0 : i64, 1 : i64]} : (tensor<8x?xf32>) -> tensor<8x2xf32>
// CHECK-NEXT:   func.return %b, %c, %e : tensor<2x8xf32>, tensor<2x8xf32>, tensor<8x2xf32>
// CHECK-NEXT: }

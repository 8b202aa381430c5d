// RUN: coda-opt %s -p cancel-transposes,dce --split-input-file | filecheck %s
// RUN: coda-opt %s -p cancel-transposes,dce --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// Tensors that are not transposed: they would be, in place of another one.

func.func @other_operand(%q: tensor<2x3x4x8xf32>, %v: tensor<2x4x3x8xf32>, %z: tensor<2x4x3x8xf32>) -> tensor<2x3x4x8xf32> {
  %h = coda.transpose %q {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x3x4x8xf32>) -> tensor<2x4x3x8xf32>
  %a = coda.add %h, %v : (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32>
  %m = coda.mul %a, %z : (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32>
  %y = coda.transpose %m {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x4x3x8xf32>) -> tensor<2x3x4x8xf32>
  func.return %y : tensor<2x3x4x8xf32>
}

// REMARK: coda.transpose: the transpose remains: other operands and results
// CHECK-LABEL: func.func @other_operand(
// CHECK-NEXT:    %h = coda.transpose %q

// -----

// Results that others read, and a transpose that others read.

func.func @other_readers(%q: tensor<2x3x4x8xf32>) -> (tensor<2x3x4x8xf32>, tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>) {
  %h = coda.transpose %q {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x3x4x8xf32>) -> tensor<2x4x3x8xf32>
  %a = coda.relu %h : (tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32>
  %y = coda.transpose %a {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x4x3x8xf32>) -> tensor<2x3x4x8xf32>
  func.return %y, %a, %h : tensor<2x3x4x8xf32>, tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>
}

// CHECK-LABEL: func.func @other_readers(
// CHECK-NEXT:    %h = coda.transpose %q

// -----

// The last dimension moves: a softmax would change its meaning.

func.func @columns(%x: tensor<2x3x8xf32>) -> tensor<2x3x8xf32> {
  %t = coda.transpose %x {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<2x3x8xf32>) -> tensor<2x8x3xf32>
  %s = coda.softmax %t : (tensor<2x8x3xf32>) -> tensor<2x8x3xf32>
  %y = coda.transpose %s {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<2x8x3xf32>) -> tensor<2x3x8xf32>
  func.return %y : tensor<2x3x8xf32>
}

// CHECK-LABEL: func.func @columns(
// CHECK-NEXT:    %t = coda.transpose %x

// -----

// Rows after those of a cache.

func.func @cache(%k: tensor<2x3x4x8xf32>, %c: tensor<2x4x5x8xf32>) -> tensor<2x8x4x8xf32> {
  %h = coda.transpose %k {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x3x4x8xf32>) -> tensor<2x4x3x8xf32>
  %j = coda.concat %c, %h {dim = 2 : i64} : (tensor<2x4x5x8xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x8x8xf32>
  %y = coda.transpose %j {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x4x8x8xf32>) -> tensor<2x8x4x8xf32>
  func.return %y : tensor<2x8x4x8xf32>
}

// CHECK-LABEL: func.func @cache(
// CHECK-NEXT:    %h = coda.transpose %k

// -----

// Another permutation comes back.

func.func @other_permutation(%x: tensor<2x3x4x8xf32>) -> tensor<4x3x2x8xf32> {
  %t = coda.transpose %x {perm = [2 : i64, 0 : i64, 1 : i64, 3 : i64]} : (tensor<2x3x4x8xf32>) -> tensor<4x2x3x8xf32>
  %s = coda.relu %t : (tensor<4x2x3x8xf32>) -> tensor<4x2x3x8xf32>
  %y = coda.transpose %s {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<4x2x3x8xf32>) -> tensor<4x3x2x8xf32>
  func.return %y : tensor<4x3x2x8xf32>
}

// CHECK-LABEL: func.func @other_permutation(
// CHECK-NEXT:    %t = coda.transpose %x

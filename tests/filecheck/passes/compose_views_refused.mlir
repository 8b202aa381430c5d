// RUN: coda-opt %s -p compose-views,cse,dce --split-input-file | filecheck %s

// A reshape that cuts a factor in parts.

func.func @cut(%x: tensor<4x6xf32>) -> tensor<3x8xf32> {
  %a = coda.transpose %x {perm = [1 : i64, 0 : i64]} : (tensor<4x6xf32>) -> tensor<6x4xf32>
  %b = coda.reshape %a : (tensor<6x4xf32>) -> tensor<8x3xf32>
  %c = coda.transpose %b {perm = [1 : i64, 0 : i64]} : (tensor<8x3xf32>) -> tensor<3x8xf32>
  func.return %c : tensor<3x8xf32>
}

// CHECK-LABEL: func.func @cut(
// CHECK-NEXT:    %a = coda.transpose %x {perm = [1 : i64, 0 : i64]} : (tensor<4x6xf32>) -> tensor<6x4xf32>
// CHECK-NEXT:    %b = coda.reshape %a : (tensor<6x4xf32>) -> tensor<8x3xf32>
// CHECK-NEXT:    %c = coda.transpose %b {perm = [1 : i64, 0 : i64]} : (tensor<8x3xf32>) -> tensor<3x8xf32>
// CHECK-NEXT:    func.return %c : tensor<3x8xf32>

// -----

// A slice of an inner factor: a part of each head.

func.func @inner(%x: tensor<2x3x8xf32>) -> tensor<3x2x2x2xf32> {
  %a = coda.reshape %x : (tensor<2x3x8xf32>) -> tensor<2x3x2x4xf32>
  %b = coda.transpose %a {perm = [1 : i64, 0 : i64, 2 : i64, 3 : i64]} : (tensor<2x3x2x4xf32>) -> tensor<3x2x2x4xf32>
  %c = coda.slice %b {dim = 3 : i64, start = 0 : i64, stop = 2 : i64} : (tensor<3x2x2x4xf32>) -> tensor<3x2x2x2xf32>
  func.return %c : tensor<3x2x2x2xf32>
}

// CHECK-LABEL: func.func @inner(
// CHECK-NEXT:    %a = coda.reshape %x : (tensor<2x3x8xf32>) -> tensor<2x3x2x4xf32>
// CHECK-NEXT:    %b = coda.transpose %a {perm = [1 : i64, 0 : i64, 2 : i64, 3 : i64]} : (tensor<2x3x2x4xf32>) -> tensor<3x2x2x4xf32>
// CHECK-NEXT:    %c = coda.slice %b {dim = 3 : i64, start = 0 : i64, stop = 2 : i64} : (tensor<3x2x2x4xf32>) -> tensor<3x2x2x2xf32>
// CHECK-NEXT:    func.return %c : tensor<3x2x2x2xf32>

// -----

// As many views.

func.func @as_many(%x: tensor<2x3x8xf32>) -> tensor<2x2x3x4xf32> {
  %a = coda.reshape %x : (tensor<2x3x8xf32>) -> tensor<2x3x2x4xf32>
  %b = coda.transpose %a {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x3x2x4xf32>) -> tensor<2x2x3x4xf32>
  func.return %b : tensor<2x2x3x4xf32>
}

// CHECK-LABEL: func.func @as_many(
// CHECK-NEXT:    %a = coda.reshape %x : (tensor<2x3x8xf32>) -> tensor<2x3x2x4xf32>
// CHECK-NEXT:    %b = coda.transpose %a {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x3x2x4xf32>) -> tensor<2x2x3x4xf32>
// CHECK-NEXT:    func.return %b : tensor<2x2x3x4xf32>

// -----

// One of two readers wants the rows of a linear map in the other order.

func.func @readers(%x: tensor<2x3x8xf32>, %w: tensor<6x8xf32>) -> (tensor<2x3x6xf32>, tensor<3x2x6xf32>) {
  %t = coda.transpose %x {perm = [1 : i64, 0 : i64, 2 : i64]} : (tensor<2x3x8xf32>) -> tensor<3x2x8xf32>
  %l = coda.linear %t, %w : (tensor<3x2x8xf32>, tensor<6x8xf32>) -> tensor<3x2x6xf32>
  %y = coda.transpose %l {perm = [1 : i64, 0 : i64, 2 : i64]} : (tensor<3x2x6xf32>) -> tensor<2x3x6xf32>
  %z = coda.neg %l : (tensor<3x2x6xf32>) -> tensor<3x2x6xf32>
  func.return %y, %z : tensor<2x3x6xf32>, tensor<3x2x6xf32>
}

// CHECK-LABEL: func.func @readers(
// CHECK-NEXT:    %t = coda.transpose %x {perm = [1 : i64, 0 : i64, 2 : i64]} : (tensor<2x3x8xf32>) -> tensor<3x2x8xf32>
// CHECK-NEXT:    %l = coda.linear %t, %w : (tensor<3x2x8xf32>, tensor<6x8xf32>) -> tensor<3x2x6xf32>
// CHECK-NEXT:    %y = coda.transpose %l {perm = [1 : i64, 0 : i64, 2 : i64]} : (tensor<3x2x6xf32>) -> tensor<2x3x6xf32>
// CHECK-NEXT:    %z = coda.neg %l : (tensor<3x2x6xf32>) -> tensor<3x2x6xf32>
// CHECK-NEXT:    func.return %y, %z : tensor<2x3x6xf32>, tensor<3x2x6xf32>

// -----

// An empty slice, and views of it.

func.func @empty(%x: tensor<2x3x8xf32>) -> tensor<0x3x2xf32> {
  %a = coda.reshape %x : (tensor<2x3x8xf32>) -> tensor<2x3x2x4xf32>
  %b = coda.transpose %a {perm = [3 : i64, 1 : i64, 0 : i64, 2 : i64]} : (tensor<2x3x2x4xf32>) -> tensor<4x3x2x2xf32>
  %c = coda.slice %b {dim = 2 : i64, start = 2 : i64, stop = 2 : i64} : (tensor<4x3x2x2xf32>) -> tensor<4x3x0x2xf32>
  %d = coda.transpose %c {perm = [2 : i64, 1 : i64, 3 : i64, 0 : i64]} : (tensor<4x3x0x2xf32>) -> tensor<0x3x2x4xf32>
  %e = coda.slice %d {dim = 3 : i64, start = 1 : i64, stop = 2 : i64} : (tensor<0x3x2x4xf32>) -> tensor<0x3x2x1xf32>
  %f = coda.reshape %e : (tensor<0x3x2x1xf32>) -> tensor<0x3x2xf32>
  func.return %f : tensor<0x3x2xf32>
}

// CHECK-LABEL: func.func @empty(
// CHECK-NEXT:    %a = coda.reshape %x : (tensor<2x3x8xf32>) -> tensor<2x3x2x4xf32>
// CHECK-NEXT:    %b = coda.transpose %a {perm = [3 : i64, 1 : i64, 0 : i64, 2 : i64]} : (tensor<2x3x2x4xf32>) -> tensor<4x3x2x2xf32>
// CHECK-NEXT:    %c = coda.slice %b {dim = 2 : i64, start = 2 : i64, stop = 2 : i64} : (tensor<4x3x2x2xf32>) -> tensor<4x3x0x2xf32>
// CHECK-NEXT:    %d = coda.transpose %c {perm = [2 : i64, 1 : i64, 3 : i64, 0 : i64]} : (tensor<4x3x0x2xf32>) -> tensor<0x3x2x4xf32>
// CHECK-NEXT:    %e = coda.slice %d {dim = 3 : i64, start = 1 : i64, stop = 2 : i64} : (tensor<0x3x2x4xf32>) -> tensor<0x3x2x1xf32>
// CHECK-NEXT:    %f = coda.reshape %e : (tensor<0x3x2x1xf32>) -> tensor<0x3x2xf32>
// CHECK-NEXT:    func.return %f : tensor<0x3x2xf32>

// RUN: coda-opt %s -p cancel-transposes,dce --split-input-file | filecheck %s

// Heads are scaled and normalized between being moved before the rows and back.

func.func @heads(%q: tensor<?x?x4x8xf32> {coda.dims = ["B", "T", 4 : i64, 8 : i64]}, %s: tensor<1x4x1x8xf32>) -> tensor<?x?x4x8xf32> {
  %h = coda.transpose %q {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x?x4x8xf32>) -> tensor<?x4x?x8xf32>
  %p = coda.mul %h, %h : (tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>) -> tensor<?x4x?x8xf32>
  %n = coda.reduce %p {kind = "sum"} : (tensor<?x4x?x8xf32>) -> tensor<?x4x?x1xf32>
  %d = coda.div %h, %n : (tensor<?x4x?x8xf32>, tensor<?x4x?x1xf32>) -> tensor<?x4x?x8xf32>
  %m = coda.mul %s, %d : (tensor<1x4x1x8xf32>, tensor<?x4x?x8xf32>) -> tensor<?x4x?x8xf32>
  %y = coda.transpose %m {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x4x?x8xf32>) -> tensor<?x?x4x8xf32>
  func.return %y : tensor<?x?x4x8xf32>
}

// CHECK-LABEL: func.func @heads(
// CHECK-NEXT:    %p = coda.mul %q, %q : (tensor<?x?x4x8xf32>, tensor<?x?x4x8xf32>) -> tensor<?x?x4x8xf32>
// CHECK-NEXT:    %n = coda.reduce %p {kind = "sum"} : (tensor<?x?x4x8xf32>) -> tensor<?x?x4x1xf32>
// CHECK-NEXT:    %d = coda.div %q, %n : (tensor<?x?x4x8xf32>, tensor<?x?x4x1xf32>) -> tensor<?x?x4x8xf32>
// CHECK-NEXT:    %s_1 = coda.reshape %s : (tensor<1x4x1x8xf32>) -> tensor<4x8xf32>
// CHECK-NEXT:    %y = coda.mul %s_1, %d : (tensor<4x8xf32>, tensor<?x?x4x8xf32>) -> tensor<?x?x4x8xf32>
// CHECK-NEXT:    func.return %y : tensor<?x?x4x8xf32>

// -----

// Norms, slices and concatenations of any dimension, and operands with fewer dimensions.

func.func @rotated(%q: tensor<2x3x4x8xf32>, %w: tensor<8xf32>, %b: tensor<3x8xf32>, %c: tensor<2x1x3x1xf32>) -> tensor<2x2x4x8xf32> {
  %h = coda.transpose %q {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x3x4x8xf32>) -> tensor<2x4x3x8xf32>
  %n = coda.layer_norm %h, %w {eps = 1.0e-6 : f64} : (tensor<2x4x3x8xf32>, tensor<8xf32>) -> tensor<2x4x3x8xf32>
  %a = coda.add %n, %b : (tensor<2x4x3x8xf32>, tensor<3x8xf32>) -> tensor<2x4x3x8xf32>
  %m = coda.mul %a, %c : (tensor<2x4x3x8xf32>, tensor<2x1x3x1xf32>) -> tensor<2x4x3x8xf32>
  %l = coda.slice %m {dim = 3 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<2x4x3x8xf32>) -> tensor<2x4x3x4xf32>
  %r = coda.slice %m {dim = 3 : i64, start = 4 : i64, stop = 8 : i64} : (tensor<2x4x3x8xf32>) -> tensor<2x4x3x4xf32>
  %j = coda.concat %r, %l {dim = 3 : i64} : (tensor<2x4x3x4xf32>, tensor<2x4x3x4xf32>) -> tensor<2x4x3x8xf32>
  %e = coda.slice %j {dim = 2 : i64, start = 1 : i64, stop = 3 : i64} : (tensor<2x4x3x8xf32>) -> tensor<2x4x2x8xf32>
  %y = coda.transpose %e {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x4x2x8xf32>) -> tensor<2x2x4x8xf32>
  func.return %y : tensor<2x2x4x8xf32>
}

// CHECK-LABEL: func.func @rotated(
// CHECK-NEXT:    %n = coda.layer_norm %q, %w {eps = 1.000000e-06 : f64} : (tensor<2x3x4x8xf32>, tensor<8xf32>) -> tensor<2x3x4x8xf32>
// CHECK-NEXT:    %b_1 = coda.reshape %b : (tensor<3x8xf32>) -> tensor<3x1x8xf32>
// CHECK-NEXT:    %a = coda.add %n, %b_1 : (tensor<2x3x4x8xf32>, tensor<3x1x8xf32>) -> tensor<2x3x4x8xf32>
// CHECK-NEXT:    %c_1 = coda.reshape %c : (tensor<2x1x3x1xf32>) -> tensor<2x3x1x1xf32>
// CHECK-NEXT:    %m = coda.mul %a, %c_1 : (tensor<2x3x4x8xf32>, tensor<2x3x1x1xf32>) -> tensor<2x3x4x8xf32>
// CHECK-NEXT:    %l = coda.slice %m {dim = 3 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
// CHECK-NEXT:    %r = coda.slice %m {dim = 3 : i64, start = 4 : i64, stop = 8 : i64} : (tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
// CHECK-NEXT:    %j = coda.concat %r, %l {dim = 3 : i64} : (tensor<2x3x4x4xf32>, tensor<2x3x4x4xf32>) -> tensor<2x3x4x8xf32>
// CHECK-NEXT:    %y = coda.slice %j {dim = 1 : i64, start = 1 : i64, stop = 3 : i64} : (tensor<2x3x4x8xf32>) -> tensor<2x2x4x8xf32>
// CHECK-NEXT:    func.return %y : tensor<2x2x4x8xf32>

// -----

// A weight of one element stays a vector.

func.func @single_columns(%q: tensor<2x3x4x1xf32>, %w: tensor<1xf32>) -> tensor<2x3x4x1xf32> {
  %h = coda.transpose %q {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x3x4x1xf32>) -> tensor<2x4x3x1xf32>
  %n = coda.rms_norm %h, %w {eps = 1.0e-6 : f64} : (tensor<2x4x3x1xf32>, tensor<1xf32>) -> tensor<2x4x3x1xf32>
  %y = coda.transpose %n {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x4x3x1xf32>) -> tensor<2x3x4x1xf32>
  func.return %y : tensor<2x3x4x1xf32>
}

// CHECK-LABEL: func.func @single_columns(
// CHECK-NEXT:    %y = coda.rms_norm %q, %w {eps = 1.000000e-06 : f64} : (tensor<2x3x4x1xf32>, tensor<1xf32>) -> tensor<2x3x4x1xf32>
// CHECK-NEXT:    func.return %y : tensor<2x3x4x1xf32>

// -----

// What others read is transposed for them, here a number for each row in place of two tensors.

func.func @other_reader(%q: tensor<2x3x4x8xbf16>) -> (tensor<2x3x4x8xbf16>, tensor<2x4x3x1xbf16>) {
  %h = coda.transpose %q {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x3x4x8xbf16>) -> tensor<2x4x3x8xbf16>
  %n = coda.reduce %h {kind = "max"} : (tensor<2x4x3x8xbf16>) -> tensor<2x4x3x1xbf16>
  %d = coda.sub %h, %n : (tensor<2x4x3x8xbf16>, tensor<2x4x3x1xbf16>) -> tensor<2x4x3x8xbf16>
  %y = coda.transpose %d {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x4x3x8xbf16>) -> tensor<2x3x4x8xbf16>
  func.return %y, %n : tensor<2x3x4x8xbf16>, tensor<2x4x3x1xbf16>
}

// CHECK-LABEL: func.func @other_reader(
// CHECK-NEXT:    %n = coda.reduce %q {kind = "max"} : (tensor<2x3x4x8xbf16>) -> tensor<2x3x4x1xbf16>
// CHECK-NEXT:    %n_1 = coda.transpose %n {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x3x4x1xbf16>) -> tensor<2x4x3x1xbf16>
// CHECK-NEXT:    %y = coda.sub %q, %n : (tensor<2x3x4x8xbf16>, tensor<2x3x4x1xbf16>) -> tensor<2x3x4x8xbf16>
// CHECK-NEXT:    func.return %y, %n_1 : tensor<2x3x4x8xbf16>, tensor<2x4x3x1xbf16>

// -----

// Several tensors and another permutation.

func.func @difference(%a: tensor<4x?x8xf32> {coda.dims = [4 : i64, "T", 8 : i64]}, %b: tensor<4x?x8xf32> {coda.dims = [4 : i64, "T", 8 : i64]}) -> tensor<4x?x8xf32> {
  %at = coda.transpose %a {perm = [1 : i64, 0 : i64, 2 : i64]} : (tensor<4x?x8xf32>) -> tensor<?x4x8xf32>
  %bt = coda.transpose %b {perm = [1 : i64, 0 : i64, 2 : i64]} : (tensor<4x?x8xf32>) -> tensor<?x4x8xf32>
  %d = coda.sub %at, %bt : (tensor<?x4x8xf32>, tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
  %y = coda.transpose %d {perm = [1 : i64, 0 : i64, 2 : i64]} : (tensor<?x4x8xf32>) -> tensor<4x?x8xf32>
  func.return %y : tensor<4x?x8xf32>
}

// CHECK-LABEL: func.func @difference(
// CHECK-NEXT:    %y = coda.sub %a, %b : (tensor<4x?x8xf32>, tensor<4x?x8xf32>) -> tensor<4x?x8xf32>
// CHECK-NEXT:    func.return %y : tensor<4x?x8xf32>

// -----

// Channels before positions: vectors over channels and over positions, a number, and a part of the channels.

func.func @channels(%x: tensor<2x5x16xf32>, %c: tensor<8x1xf32>, %p: tensor<5xf32>, %n: tensor<1x1x1xf32>) -> tensor<2x5x8xf32> {
  %t = coda.transpose %x {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<2x5x16xf32>) -> tensor<2x16x5xf32>
  %s = coda.slice %t {dim = 1 : i64, start = 8 : i64, stop = 16 : i64} : (tensor<2x16x5xf32>) -> tensor<2x8x5xf32>
  %a = coda.add %s, %c : (tensor<2x8x5xf32>, tensor<8x1xf32>) -> tensor<2x8x5xf32>
  %b = coda.mul %a, %p : (tensor<2x8x5xf32>, tensor<5xf32>) -> tensor<2x8x5xf32>
  %m = coda.mul %b, %n : (tensor<2x8x5xf32>, tensor<1x1x1xf32>) -> tensor<2x8x5xf32>
  %y = coda.transpose %m {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<2x8x5xf32>) -> tensor<2x5x8xf32>
  func.return %y : tensor<2x5x8xf32>
}

// CHECK-LABEL: func.func @channels(
// CHECK-NEXT:    %s = coda.slice %x {dim = 2 : i64, start = 8 : i64, stop = 16 : i64} : (tensor<2x5x16xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:    %c_1 = coda.reshape %c : (tensor<8x1xf32>) -> tensor<8xf32>
// CHECK-NEXT:    %a = coda.add %s, %c_1 : (tensor<2x5x8xf32>, tensor<8xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:    %p_1 = coda.reshape %p : (tensor<5xf32>) -> tensor<5x1xf32>
// CHECK-NEXT:    %b = coda.mul %a, %p_1 : (tensor<2x5x8xf32>, tensor<5x1xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:    %y = coda.mul %b, %n : (tensor<2x5x8xf32>, tensor<1x1x1xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:    func.return %y : tensor<2x5x8xf32>

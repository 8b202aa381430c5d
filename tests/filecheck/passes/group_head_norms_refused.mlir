// RUN: coda-opt %s -p group-head-norms,dce --split-input-file | filecheck %s

// The rows are split, not the columns.

func.func @rows(%q: tensor<?x32xf32>, %w: tensor<32xf32>) -> tensor<?x4x32xf32> {
  %h = coda.reshape %q : (tensor<?x32xf32>) -> tensor<?x4x32xf32>
  %y = coda.rms_norm %h, %w {eps = 1.0e-6 : f64} : (tensor<?x4x32xf32>, tensor<32xf32>) -> tensor<?x4x32xf32>
  func.return %y : tensor<?x4x32xf32>
}

// CHECK-LABEL: func.func @rows(
// CHECK-NEXT:   %h = coda.reshape
// CHECK-NEXT:   %y = coda.rms_norm %h, %w {eps = 1.000000e-06 : f64} : (tensor<?x4x32xf32>

// -----

// The columns of several rows are joined.

func.func @joined(%q: tensor<8x4x8xf32>, %w: tensor<16xf32>) -> tensor<8x2x16xf32> {
  %h = coda.reshape %q : (tensor<8x4x8xf32>) -> tensor<8x2x16xf32>
  %y = coda.rms_norm %h, %w {eps = 1.0e-6 : f64} : (tensor<8x2x16xf32>, tensor<16xf32>) -> tensor<8x2x16xf32>
  func.return %y : tensor<8x2x16xf32>
}

// CHECK-LABEL: func.func @joined(
// CHECK-NEXT:   %h = coda.reshape
// CHECK-NEXT:   %y = coda.rms_norm %h, %w {eps = 1.000000e-06 : f64} : (tensor<8x2x16xf32>

// -----

// Rows and columns of a head were exchanged: the norm is over the rows.

func.func @columns_of_rows(%q: tensor<2x8x32xf32>, %w: tensor<8xf32>) -> tensor<2x4x8x8xf32> {
  %s = coda.reshape %q : (tensor<2x8x32xf32>) -> tensor<2x8x4x8xf32>
  %h = coda.transpose %s {perm = [0 : i64, 2 : i64, 3 : i64, 1 : i64]} : (tensor<2x8x4x8xf32>) -> tensor<2x4x8x8xf32>
  %y = coda.rms_norm %h, %w {eps = 1.0e-6 : f64} : (tensor<2x4x8x8xf32>, tensor<8xf32>) -> tensor<2x4x8x8xf32>
  func.return %y : tensor<2x4x8x8xf32>
}

// CHECK-LABEL: func.func @columns_of_rows(
// CHECK:        %y = coda.rms_norm %h, %w {eps = 1.000000e-06 : f64} : (tensor<2x4x8x8xf32>

// -----

// Rows of a batch of one sequence: not one head of 32 columns.

func.func @whole_rows(%x: tensor<1x8x32xf32>, %g: tensor<32xf32>) -> tensor<1x8x32xf32> {
  %y = coda.rms_norm %x, %g {eps = 1.0e-6 : f64} : (tensor<1x8x32xf32>, tensor<32xf32>) -> tensor<1x8x32xf32>
  func.return %y : tensor<1x8x32xf32>
}

// CHECK-LABEL: func.func @whole_rows(
// CHECK-NEXT:   %y = coda.rms_norm %x, %g {eps = 1.000000e-06 : f64} : (tensor<1x8x32xf32>

// -----

// The same after a view, where a linear map reads them.

func.func @one_sequence(%x: tensor<8x32xf32>, %g: tensor<32xf32>, %w: tensor<16x32xf32>) -> tensor<1x8x16xf32> {
  %h = coda.reshape %x : (tensor<8x32xf32>) -> tensor<1x8x32xf32>
  %y = coda.rms_norm %h, %g {eps = 1.0e-6 : f64} : (tensor<1x8x32xf32>, tensor<32xf32>) -> tensor<1x8x32xf32>
  %v = coda.reshape %y : (tensor<1x8x32xf32>) -> tensor<8x32xf32>
  %u = coda.reshape %v : (tensor<8x32xf32>) -> tensor<1x8x32xf32>
  %z = coda.linear %u, %w : (tensor<1x8x32xf32>, tensor<16x32xf32>) -> tensor<1x8x16xf32>
  func.return %z : tensor<1x8x16xf32>
}

// CHECK-LABEL: func.func @one_sequence(
// CHECK:        %y = coda.rms_norm %{{.*}}, %g {eps = 1.000000e-06 : f64} : (tensor<1x8x32xf32>

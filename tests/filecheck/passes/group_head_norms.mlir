// RUN: coda-opt %s -p group-head-norms,dce | filecheck %s

func.func @heads(%q: tensor<?x32xf32>, %w: tensor<8xf32>) -> tensor<?x4x8xf32> {
  %h = coda.reshape %q : (tensor<?x32xf32>) -> tensor<?x4x8xf32>
  %y = coda.rms_norm %h, %w {eps = 1.0e-6 : f64} : (tensor<?x4x8xf32>, tensor<8xf32>) -> tensor<?x4x8xf32>
  func.return %y : tensor<?x4x8xf32>
}

// CHECK-LABEL: func.func @heads(
// CHECK-NEXT:   %y = coda.rms_norm %q, %w {eps = 1.000000e-06 : f64, group = 8 : i64} : (tensor<?x32xf32>, tensor<8xf32>) -> tensor<?x32xf32>
// CHECK-NEXT:   [[Y:%.*]] = coda.reshape %y : (tensor<?x32xf32>) -> tensor<?x4x8xf32>
// CHECK-NEXT:   func.return [[Y]]

// The heads stand before the rows.

func.func @transposed(%q: tensor<2x?x32xf32>, %w: tensor<8xf32>) -> tensor<2x4x?x8xf32> {
  %s = coda.reshape %q : (tensor<2x?x32xf32>) -> tensor<2x?x4x8xf32>
  %h = coda.transpose %s {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x?x4x8xf32>) -> tensor<2x4x?x8xf32>
  %y = coda.rms_norm %h, %w {eps = 1.0e-6 : f64} : (tensor<2x4x?x8xf32>, tensor<8xf32>) -> tensor<2x4x?x8xf32>
  func.return %y : tensor<2x4x?x8xf32>
}

// CHECK-LABEL: func.func @transposed(
// CHECK-NEXT:   %y = coda.rms_norm %q, %w {eps = 1.000000e-06 : f64, group = 8 : i64} : (tensor<2x?x32xf32>, tensor<8xf32>) -> tensor<2x?x32xf32>
// CHECK-NEXT:   [[S:%.*]] = coda.reshape %y : (tensor<2x?x32xf32>) -> tensor<2x?x4x8xf32>
// CHECK-NEXT:   [[Y:%.*]] = coda.transpose [[S]] {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]}
// CHECK-NEXT:   func.return [[Y]]

// The heads are widened first, as under autocast.

func.func @widened(%q: tensor<?x32xbf16>, %w: tensor<8xf32>) -> tensor<?x4x8xf32> {
  %s = coda.reshape %q : (tensor<?x32xbf16>) -> tensor<?x4x8xbf16>
  %h = coda.cast %s : (tensor<?x4x8xbf16>) -> tensor<?x4x8xf32>
  %y = coda.rms_norm %h, %w {eps = 1.0e-6 : f64} : (tensor<?x4x8xf32>, tensor<8xf32>) -> tensor<?x4x8xf32>
  func.return %y : tensor<?x4x8xf32>
}

// CHECK-LABEL: func.func @widened(
// CHECK-NEXT:   %q_1 = coda.cast %q : (tensor<?x32xbf16>) -> tensor<?x32xf32>
// CHECK-NEXT:   %y = coda.rms_norm %q_1, %w {eps = 1.000000e-06 : f64, group = 8 : i64} : (tensor<?x32xf32>, tensor<8xf32>) -> tensor<?x32xf32>
// CHECK-NEXT:   [[Y:%.*]] = coda.reshape %y : (tensor<?x32xf32>) -> tensor<?x4x8xf32>
// CHECK-NEXT:   func.return [[Y]]

// -----

// One head of keys, before the rows: attention reads it, no linear map.

func.func @one_head(%k: tensor<1x8x32xf32>, %g: tensor<32xf32>) -> tensor<1x1x8x32xf32> {
  %h = coda.reshape %k : (tensor<1x8x32xf32>) -> tensor<1x1x8x32xf32>
  %y = coda.rms_norm %h, %g {eps = 1.0e-6 : f64} : (tensor<1x1x8x32xf32>, tensor<32xf32>) -> tensor<1x1x8x32xf32>
  %n = coda.neg %y : (tensor<1x1x8x32xf32>) -> tensor<1x1x8x32xf32>
  func.return %n : tensor<1x1x8x32xf32>
}

// CHECK-LABEL: func.func @one_head(
// CHECK:        coda.rms_norm %k, %g {eps = 1.000000e-06 : f64, group = 32 : i64} : (tensor<1x8x32xf32>

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

// RUN: coda-opt %s | filecheck %s
// RUN: coda-opt %s | coda-opt -f mlir | filecheck %s
// RUN: coda-opt %s --print-op-generic | coda-opt -f mlir | filecheck %s

// Norms, softmax and reductions of the last dimension.

// CHECK:      func.func @reductions(%x: tensor<?x8xbf16>, %w: tensor<8xbf16>, %b: tensor<8xbf16>, %h: tensor<4xbf16>) {
// CHECK-NEXT:   %rms = coda.rms_norm %x {eps = 1.000000e-06 : f64} : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %rms_w = coda.rms_norm %x, %w {eps = 1.000000e-06 : f64} : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %heads = coda.rms_norm %x, %h {eps = 1.000000e-06 : f64, group = 4 : i64} : (tensor<?x8xbf16>, tensor<4xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %layer = coda.layer_norm %x {eps = 1.000000e-05 : f64} : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %layer_w = coda.layer_norm %x, %w {eps = 1.000000e-05 : f64} : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %layer_wb = coda.layer_norm %x, %w, %b {eps = 1.000000e-05 : f64} : (tensor<?x8xbf16>, tensor<8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %layer_b = coda.layer_norm %x, %b {eps = 1.000000e-05 : f64, bias_only} : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %rstd = coda.norm_stats %x {kind = "rms", eps = 1.000000e-06 : f64} : (tensor<?x8xbf16>) -> tensor<?x1xf32>
// CHECK-NEXT:   %rstd2, %mean = coda.norm_stats %x {kind = "layer", eps = 1.000000e-05 : f64} : (tensor<?x8xbf16>) -> (tensor<?x1xf32>, tensor<?x1xf32>)
// CHECK-NEXT:   %softmax = coda.softmax %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %sum = coda.reduce %x {kind = "sum"} : (tensor<?x8xbf16>) -> tensor<?x1xbf16>
// CHECK-NEXT:   %max = coda.reduce %x {kind = "max"} : (tensor<?x8xbf16>) -> tensor<?x1xbf16>
// CHECK-NEXT:   %lse = coda.reduce %x {kind = "lse"} : (tensor<?x8xbf16>) -> tensor<?x1xf32>
// CHECK-NEXT:   %avg = coda.reduce %x {kind = "mean"} : (tensor<?x8xbf16>) -> tensor<?x1xf32>
// CHECK-NEXT:   func.return
func.func @reductions(%x: tensor<?x8xbf16>, %w: tensor<8xbf16>, %b: tensor<8xbf16>, %h: tensor<4xbf16>) {
  %rms = coda.rms_norm %x {eps = 1.000000e-06 : f64} : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %rms_w = coda.rms_norm %x, %w {eps = 1.000000e-06 : f64} : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %heads = coda.rms_norm %x, %h {eps = 1.000000e-06 : f64, group = 4 : i64} : (tensor<?x8xbf16>, tensor<4xbf16>) -> tensor<?x8xbf16>
  %layer = coda.layer_norm %x {eps = 1.000000e-05 : f64} : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %layer_w = coda.layer_norm %x, %w {eps = 1.000000e-05 : f64} : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %layer_wb = coda.layer_norm %x, %w, %b {eps = 1.000000e-05 : f64} : (tensor<?x8xbf16>, tensor<8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %layer_b = coda.layer_norm %x, %b {eps = 1.000000e-05 : f64, bias_only} : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %rstd = coda.norm_stats %x {kind = "rms", eps = 1.000000e-06 : f64} : (tensor<?x8xbf16>) -> tensor<?x1xf32>
  %rstd2, %mean = coda.norm_stats %x {kind = "layer", eps = 1.000000e-05 : f64} : (tensor<?x8xbf16>) -> (tensor<?x1xf32>, tensor<?x1xf32>)
  %softmax = coda.softmax %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %sum = coda.reduce %x {kind = "sum"} : (tensor<?x8xbf16>) -> tensor<?x1xbf16>
  %max = coda.reduce %x {kind = "max"} : (tensor<?x8xbf16>) -> tensor<?x1xbf16>
  %lse = coda.reduce %x {kind = "lse"} : (tensor<?x8xbf16>) -> tensor<?x1xf32>
  %avg = coda.reduce %x {kind = "mean"} : (tensor<?x8xbf16>) -> tensor<?x1xf32>
  func.return
}

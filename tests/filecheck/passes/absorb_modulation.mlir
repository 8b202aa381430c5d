// RUN: coda-opt %s -p absorb-modulation --split-input-file | filecheck %s

// Scale and shift of each sample become the weight and the bias of the norm.

func.func @layer_norm(%x: tensor<?x?x8xbf16>, %s: tensor<?x1x8xbf16>, %t: tensor<?x1x8xbf16>) -> tensor<?x?x8xbf16> {
  %h = coda.layer_norm %x {eps = 1.0e-6 : f64} : (tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>
  %y = coda.mul %s, %h : (tensor<?x1x8xbf16>, tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>
  %z = coda.add %y, %t : (tensor<?x?x8xbf16>, tensor<?x1x8xbf16>) -> tensor<?x?x8xbf16>
  func.return %z : tensor<?x?x8xbf16>
}

// CHECK:      func.func @layer_norm(
// CHECK-NEXT:   %z = coda.layer_norm %x, %s, %t {eps = 1.000000e-06 : f64} : (tensor<?x?x8xbf16>, tensor<?x1x8xbf16>, tensor<?x1x8xbf16>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   func.return %z : tensor<?x?x8xbf16>
// CHECK-NEXT: }

// -----

// The norm's own weight and bias are scaled and shifted in float32.

func.func @own_parameters(%x: tensor<?x?x8xbf16>, %w: tensor<8xbf16>, %b: tensor<8xbf16>, %s: tensor<?x1x8xbf16>, %t: tensor<?x1x8xbf16>) -> tensor<?x?x8xbf16> {
  %h = coda.layer_norm %x, %w, %b {eps = 1.0e-6 : f64} : (tensor<?x?x8xbf16>, tensor<8xbf16>, tensor<8xbf16>) -> tensor<?x?x8xbf16>
  %y = coda.mul %h, %s : (tensor<?x?x8xbf16>, tensor<?x1x8xbf16>) -> tensor<?x?x8xbf16>
  %z = coda.add %y, %t : (tensor<?x?x8xbf16>, tensor<?x1x8xbf16>) -> tensor<?x?x8xbf16>
  func.return %z : tensor<?x?x8xbf16>
}

// CHECK:      func.func @own_parameters(
// CHECK-NEXT:   %w_1 = coda.cast %w : (tensor<8xbf16>) -> tensor<8xf32>
// CHECK-NEXT:   %s_1 = coda.cast %s : (tensor<?x1x8xbf16>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %s_2 = coda.mul %w_1, %s_1 : (tensor<8xf32>, tensor<?x1x8xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %b_1 = coda.cast %b : (tensor<8xbf16>) -> tensor<8xf32>
// CHECK-NEXT:   %s_3 = coda.cast %s : (tensor<?x1x8xbf16>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %s_4 = coda.mul %b_1, %s_3 : (tensor<8xf32>, tensor<?x1x8xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %t_1 = coda.cast %t : (tensor<?x1x8xbf16>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %t_2 = coda.add %s_4, %t_1 : (tensor<?x1x8xf32>, tensor<?x1x8xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %z = coda.layer_norm %x, %s_2, %t_2 {eps = 1.000000e-06 : f64} : (tensor<?x?x8xbf16>, tensor<?x1x8xf32>, tensor<?x1x8xf32>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   func.return %z : tensor<?x?x8xbf16>
// CHECK-NEXT: }

// -----

// Two modulations of one norm, which is also used as it is; only a shift; an RMSNorm.

func.func @several(%x: tensor<?x?x8xbf16>, %s: tensor<?x1x8xbf16>, %t: tensor<?x1x8xbf16>) -> (tensor<?x?x8xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>) {
  %h = coda.layer_norm %x {eps = 1.0e-6 : f64} : (tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>
  %y = coda.mul %h, %s : (tensor<?x?x8xbf16>, tensor<?x1x8xbf16>) -> tensor<?x?x8xbf16>
  %z = coda.add %h, %t : (tensor<?x?x8xbf16>, tensor<?x1x8xbf16>) -> tensor<?x?x8xbf16>
  %r = coda.rms_norm %x {eps = 1.0e-6 : f64} : (tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>
  %u = coda.mul %r, %s : (tensor<?x?x8xbf16>, tensor<?x1x8xbf16>) -> tensor<?x?x8xbf16>
  func.return %h, %y, %z, %u : tensor<?x?x8xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>
}

// CHECK:      func.func @several(
// CHECK-NEXT:   %h = coda.layer_norm %x {eps = 1.000000e-06 : f64} : (tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   %y = coda.layer_norm %x, %s {eps = 1.000000e-06 : f64} : (tensor<?x?x8xbf16>, tensor<?x1x8xbf16>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   %z = coda.layer_norm %x, %t {eps = 1.000000e-06 : f64, bias_only} : (tensor<?x?x8xbf16>, tensor<?x1x8xbf16>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   %u = coda.rms_norm %x, %s {eps = 1.000000e-06 : f64} : (tensor<?x?x8xbf16>, tensor<?x1x8xbf16>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   func.return %h, %y, %z, %u : tensor<?x?x8xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>
// CHECK-NEXT: }

// -----

// In float64, they stay in float64.

func.func @float64(%x: tensor<?x?x8xf64>, %w: tensor<8xf64>, %s: tensor<?x1x8xf64>) -> tensor<?x?x8xf64> {
  %h = coda.rms_norm %x, %w {eps = 1.0e-6 : f64} : (tensor<?x?x8xf64>, tensor<8xf64>) -> tensor<?x?x8xf64>
  %y = coda.mul %h, %s : (tensor<?x?x8xf64>, tensor<?x1x8xf64>) -> tensor<?x?x8xf64>
  func.return %y : tensor<?x?x8xf64>
}

// CHECK:      func.func @float64(
// CHECK-NEXT:   %s_1 = coda.mul %w, %s : (tensor<8xf64>, tensor<?x1x8xf64>) -> tensor<?x1x8xf64>
// CHECK-NEXT:   %y = coda.rms_norm %x, %s_1 {eps = 1.000000e-06 : f64} : (tensor<?x?x8xf64>, tensor<?x1x8xf64>) -> tensor<?x?x8xf64>
// CHECK-NEXT:   func.return %y : tensor<?x?x8xf64>
// CHECK-NEXT: }

// RUN: coda-opt %s -p raise-rms-norm,dce --split-input-file | filecheck %s

// Llama: in float32, rounded, then the weight.

func.func @llama(%x: tensor<?x8xbf16>, %w: tensor<8xbf16>) -> tensor<?x8xbf16> {
  %x32 = coda.cast %x : (tensor<?x8xbf16>) -> tensor<?x8xf32>
  %sq = coda.mul %x32, %x32 : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %ms = coda.reduce %sq {kind = "mean"} : (tensor<?x8xf32>) -> tensor<?x1xf32>
  %eps = coda.constant {value = 1.0e-5 : f64} : tensor<f32>
  %v = coda.add %ms, %eps : (tensor<?x1xf32>, tensor<f32>) -> tensor<?x1xf32>
  %r = coda.rsqrt %v : (tensor<?x1xf32>) -> tensor<?x1xf32>
  %n32 = coda.mul %x32, %r : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  %n = coda.cast %n32 : (tensor<?x8xf32>) -> tensor<?x8xbf16>
  %y = coda.mul %w, %n : (tensor<8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  func.return %y : tensor<?x8xbf16>
}

// CHECK-LABEL: func.func @llama(
// CHECK-NEXT:   %y = coda.rms_norm %x, %w {eps = 1.000000e-05 : f64} : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   func.return

// -----

// Gemma: the weight is an offset from 1 and stays in float32.

func.func @gemma(%x: tensor<?x8xbf16>, %w: tensor<8xbf16>) -> tensor<?x8xbf16> {
  %x32 = coda.cast %x : (tensor<?x8xbf16>) -> tensor<?x8xf32>
  %sq = coda.mul %x32, %x32 : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %ms = coda.reduce %sq {kind = "mean"} : (tensor<?x8xf32>) -> tensor<?x1xf32>
  %eps = coda.constant {value = 1.0e-5 : f64} : tensor<f32>
  %v = coda.add %ms, %eps : (tensor<?x1xf32>, tensor<f32>) -> tensor<?x1xf32>
  %r = coda.rsqrt %v : (tensor<?x1xf32>) -> tensor<?x1xf32>
  %n32 = coda.mul %x32, %r : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  %w32 = coda.cast %w : (tensor<8xbf16>) -> tensor<8xf32>
  %one = coda.constant {value = 1.0 : f64} : tensor<f32>
  %w1 = coda.add %w32, %one : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %y32 = coda.mul %n32, %w1 : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  %y = coda.cast %y32 : (tensor<?x8xf32>) -> tensor<?x8xbf16>
  func.return %y : tensor<?x8xbf16>
}

// CHECK-LABEL: func.func @gemma(
// CHECK:        %y = coda.rms_norm %x, %w1 {eps = 1.000000e-05 : f64} : (tensor<?x8xbf16>, tensor<8xf32>) -> tensor<?x8xbf16>
// CHECK-NEXT:   func.return

// -----

// No weight, a division by the root.

func.func @quotient(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %sq = coda.mul %x, %x : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %ms = coda.reduce %sq {kind = "mean"} : (tensor<?x8xf32>) -> tensor<?x1xf32>
  %eps = coda.constant {value = 1.0e-5 : f64} : tensor<f32>
  %v = coda.add %ms, %eps : (tensor<?x1xf32>, tensor<f32>) -> tensor<?x1xf32>
  %root = coda.sqrt %v : (tensor<?x1xf32>) -> tensor<?x1xf32>
  %y = coda.div %x, %root : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  func.return %y : tensor<?x8xf32>
}

// CHECK-LABEL: func.func @quotient(
// CHECK-NEXT:   %y = coda.rms_norm %x {eps = 1.000000e-05 : f64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   func.return

// -----

// A sum over N, no eps, the reciprocal of the root.

func.func @sum(%x: tensor<?x8xf32>, %w: tensor<8xf32>) -> tensor<?x8xf32> {
  %sq = coda.mul %x, %x : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %ms = coda.reduce %sq {kind = "sum"} : (tensor<?x8xf32>) -> tensor<?x1xf32>
  %count = coda.constant {value = 8.0 : f64} : tensor<f32>
  %v = coda.div %ms, %count : (tensor<?x1xf32>, tensor<f32>) -> tensor<?x1xf32>
  %root = coda.sqrt %v : (tensor<?x1xf32>) -> tensor<?x1xf32>
  %one = coda.constant {value = 1.0 : f64} : tensor<f32>
  %r = coda.div %one, %root : (tensor<f32>, tensor<?x1xf32>) -> tensor<?x1xf32>
  %n = coda.mul %r, %x : (tensor<?x1xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %y = coda.mul %n, %w : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  func.return %y : tensor<?x8xf32>
}

// CHECK-LABEL: func.func @sum(
// CHECK:        %y = coda.rms_norm %x, %w {eps = 0.000000e+00 : f64} : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   func.return

// -----

// Something else reads the norm before its weight.

func.func @shared(%x: tensor<?x8xbf16>, %w: tensor<8xbf16>) -> tensor<?x8xbf16> {
  %x32 = coda.cast %x : (tensor<?x8xbf16>) -> tensor<?x8xf32>
  %sq = coda.mul %x32, %x32 : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %ms = coda.reduce %sq {kind = "mean"} : (tensor<?x8xf32>) -> tensor<?x1xf32>
  %eps = coda.constant {value = 1.0e-5 : f64} : tensor<f32>
  %v = coda.add %ms, %eps : (tensor<?x1xf32>, tensor<f32>) -> tensor<?x1xf32>
  %r = coda.rsqrt %v : (tensor<?x1xf32>) -> tensor<?x1xf32>
  %n32 = coda.mul %x32, %r : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  %n = coda.cast %n32 : (tensor<?x8xf32>) -> tensor<?x8xbf16>
  %y = coda.mul %w, %n : (tensor<8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %z = coda.sub %y, %n : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  func.return %z : tensor<?x8xbf16>
}

// CHECK-LABEL: func.func @shared(
// CHECK-NEXT:   %n = coda.rms_norm %x {eps = 1.000000e-05 : f64} : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %y = coda.mul %w, %n : (tensor<8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %z = coda.sub %y, %n
// CHECK-NEXT:   func.return

// -----

// The result stays in float32: so does x.

func.func @wide(%x: tensor<?x8xbf16>, %w: tensor<8xbf16>) -> tensor<?x8xf32> {
  %x32 = coda.cast %x : (tensor<?x8xbf16>) -> tensor<?x8xf32>
  %sq = coda.mul %x32, %x32 : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %ms = coda.reduce %sq {kind = "mean"} : (tensor<?x8xf32>) -> tensor<?x1xf32>
  %eps = coda.constant {value = 1.0e-5 : f64} : tensor<f32>
  %v = coda.add %ms, %eps : (tensor<?x1xf32>, tensor<f32>) -> tensor<?x1xf32>
  %r = coda.rsqrt %v : (tensor<?x1xf32>) -> tensor<?x1xf32>
  %n32 = coda.mul %x32, %r : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  %w32 = coda.cast %w : (tensor<8xbf16>) -> tensor<8xf32>
  %y = coda.mul %n32, %w32 : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  func.return %y : tensor<?x8xf32>
}

// CHECK-LABEL: func.func @wide(
// CHECK-NEXT:   %x32 = coda.cast %x
// CHECK-NEXT:   %w32 = coda.cast %w
// CHECK-NEXT:   %y = coda.rms_norm %x32, %w32 {eps = 1.000000e-05 : f64} : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   func.return

// -----

// The weight before the division, and √N over the root of the sum.

func.func @other_forms(%x: tensor<?x16xf32>, %w: tensor<16xf32>) -> (tensor<?x16xf32>, tensor<?x16xf32>) {
  %eps = coda.constant {value = 1.0e-6 : f64} : tensor<f32>
  %neps = coda.constant {value = 1.6e-5 : f64} : tensor<f32>
  %root = coda.constant {value = 4.0 : f64} : tensor<f32>
  %sq = coda.mul %x, %x : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
  %ms = coda.reduce %sq {kind = "mean"} : (tensor<?x16xf32>) -> tensor<?x1xf32>
  %v = coda.add %ms, %eps : (tensor<?x1xf32>, tensor<f32>) -> tensor<?x1xf32>
  %r = coda.rsqrt %v : (tensor<?x1xf32>) -> tensor<?x1xf32>
  %xw = coda.mul %w, %x : (tensor<16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
  %y = coda.mul %xw, %r : (tensor<?x16xf32>, tensor<?x1xf32>) -> tensor<?x16xf32>
  %sum = coda.reduce %sq {kind = "sum"} : (tensor<?x16xf32>) -> tensor<?x1xf32>
  %u = coda.add %sum, %neps : (tensor<?x1xf32>, tensor<f32>) -> tensor<?x1xf32>
  %n = coda.sqrt %u : (tensor<?x1xf32>) -> tensor<?x1xf32>
  %xr = coda.mul %x, %root : (tensor<?x16xf32>, tensor<f32>) -> tensor<?x16xf32>
  %z = coda.div %xr, %n : (tensor<?x16xf32>, tensor<?x1xf32>) -> tensor<?x16xf32>
  func.return %y, %z : tensor<?x16xf32>, tensor<?x16xf32>
}

// CHECK-LABEL: func.func @other_forms(
// CHECK:         %y = coda.rms_norm %x, %w {eps = 1.000000e-06 : f64}
// CHECK:         %z = coda.rms_norm %x {eps = {{.*}} : f64}

// -----

// An x of float32 whose weight is narrower: the norm is converted after the weight.

func.func @narrow_weight(%x: tensor<?x8xf32>, %w: tensor<8xbf16>) -> tensor<?x8xbf16> {
  %sq = coda.mul %x, %x : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %ms = coda.reduce %sq {kind = "mean"} : (tensor<?x8xf32>) -> tensor<?x1xf32>
  %eps = coda.constant {value = 1.0e-5 : f64} : tensor<f32>
  %v = coda.add %ms, %eps : (tensor<?x1xf32>, tensor<f32>) -> tensor<?x1xf32>
  %r = coda.rsqrt %v : (tensor<?x1xf32>) -> tensor<?x1xf32>
  %n32 = coda.mul %x, %r : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  %n = coda.cast %n32 : (tensor<?x8xf32>) -> tensor<?x8xbf16>
  %y = coda.mul %w, %n : (tensor<8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  func.return %y : tensor<?x8xbf16>
}

// CHECK-LABEL: func.func @narrow_weight(
// CHECK-NEXT:   %0 = coda.cast %w : (tensor<8xbf16>) -> tensor<8xf32>
// CHECK-NEXT:   %y = coda.rms_norm %x, %0 {eps = 1.000000e-05 : f64} : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %y_1 = coda.cast %y : (tensor<?x8xf32>) -> tensor<?x8xbf16>
// CHECK-NEXT:   func.return %y_1

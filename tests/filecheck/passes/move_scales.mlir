// RUN: coda-opt %s -p move-scales,dce --split-input-file | filecheck %s

// The backward of a residual branch with a scale: both GEMMs read the gradient as it is.

func.func @branch(%dy: tensor<?x8xbf16>, %s: tensor<bf16>, %h: tensor<?x4xbf16>, %w: tensor<8x4xbf16>) -> (tensor<?x4xbf16>, tensor<8x4xbf16>, tensor<4x8xbf16>) {
  %dz = coda.mul %dy, %s : (tensor<?x8xbf16>, tensor<bf16>) -> tensor<?x8xbf16>
  %dh = coda.matmul %dz, %w : (tensor<?x8xbf16>, tensor<8x4xbf16>) -> tensor<?x4xbf16>
  %dw = coda.weight_gradient %dz, %h : (tensor<?x8xbf16>, tensor<?x4xbf16>) -> tensor<8x4xbf16>
  %dv = coda.weight_gradient %h, %dz : (tensor<?x4xbf16>, tensor<?x8xbf16>) -> tensor<4x8xbf16>
  func.return %dh, %dw, %dv : tensor<?x4xbf16>, tensor<8x4xbf16>, tensor<4x8xbf16>
}

// CHECK:      func.func @branch(
// CHECK-NEXT:   %0 = coda.matmul %dy, %w : (tensor<?x8xbf16>, tensor<8x4xbf16>) -> tensor<?x4xf32>
// CHECK-NEXT:   %s_1 = coda.cast %s : (tensor<bf16>) -> tensor<f32>
// CHECK-NEXT:   %1 = coda.mul %0, %s_1 : (tensor<?x4xf32>, tensor<f32>) -> tensor<?x4xf32>
// CHECK-NEXT:   %dh = coda.cast %1 : (tensor<?x4xf32>) -> tensor<?x4xbf16>
// CHECK-NEXT:   %2 = coda.weight_gradient %dy, %h : (tensor<?x8xbf16>, tensor<?x4xbf16>) -> tensor<8x4xf32>
// CHECK-NEXT:   %s_2 = coda.cast %s : (tensor<bf16>) -> tensor<f32>
// CHECK-NEXT:   %3 = coda.mul %2, %s_2 : (tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
// CHECK-NEXT:   %dw = coda.cast %3 : (tensor<8x4xf32>) -> tensor<8x4xbf16>
// CHECK-NEXT:   %4 = coda.weight_gradient %h, %dy : (tensor<?x4xbf16>, tensor<?x8xbf16>) -> tensor<4x8xf32>
// CHECK-NEXT:   %s_3 = coda.cast %s : (tensor<bf16>) -> tensor<f32>
// CHECK-NEXT:   %5 = coda.mul %4, %s_3 : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
// CHECK-NEXT:   %dv = coda.cast %5 : (tensor<4x8xf32>) -> tensor<4x8xbf16>
// CHECK-NEXT:   func.return %dh, %dw, %dv : tensor<?x4xbf16>, tensor<8x4xbf16>, tensor<4x8xbf16>
// CHECK-NEXT: }

// -----

// A number, with conversions around the product, which a norm's sum over the row repeats.

func.func @number(%dy: tensor<?x8xbf16>, %z: tensor<?x8xf32>, %w: tensor<4x8xbf16>) -> (tensor<?x4xbf16>, tensor<?x1xf32>) {
  %n = coda.constant {value = 0.25 : f64} : tensor<f32>
  %wide = coda.cast %dy : (tensor<?x8xbf16>) -> tensor<?x8xf32>
  %scaled = coda.mul %n, %wide : (tensor<f32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %dz = coda.cast %scaled : (tensor<?x8xf32>) -> tensor<?x8xbf16>
  %y = coda.linear %dz, %w : (tensor<?x8xbf16>, tensor<4x8xbf16>) -> tensor<?x4xbf16>
  %p = coda.mul %scaled, %z : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %sum = coda.reduce %p {kind = "sum"} : (tensor<?x8xf32>) -> tensor<?x1xf32>
  func.return %y, %sum : tensor<?x4xbf16>, tensor<?x1xf32>
}

// CHECK:      func.func @number(
// CHECK-NEXT:   %n = coda.constant {value = 2.500000e-01 : f64} : tensor<f32>
// CHECK-NEXT:   %wide = coda.cast %dy : (tensor<?x8xbf16>) -> tensor<?x8xf32>
// CHECK-NEXT:   %scaled = coda.mul %n, %wide : (tensor<f32>, tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %0 = coda.linear %dy, %w : (tensor<?x8xbf16>, tensor<4x8xbf16>) -> tensor<?x4xf32>
// CHECK-NEXT:   %1 = coda.mul %0, %n : (tensor<?x4xf32>, tensor<f32>) -> tensor<?x4xf32>
// CHECK-NEXT:   %y = coda.cast %1 : (tensor<?x4xf32>) -> tensor<?x4xbf16>
// CHECK-NEXT:   %p = coda.mul %scaled, %z : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %sum = coda.reduce %p {kind = "sum"} : (tensor<?x8xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   func.return %y, %sum : tensor<?x4xbf16>, tensor<?x1xf32>
// CHECK-NEXT: }

// -----

// A factor for each row, and a tensor that the function computes and returns.

func.func @rows(%x: tensor<?x8xf32>, %s: tensor<?x1xf32>, %w: tensor<4x8xf32>) -> (tensor<?x4xf32>, tensor<?x8xf32>) {
  %t = coda.tanh %x : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %scaled = coda.mul %t, %s : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  %y = coda.linear %scaled, %w : (tensor<?x8xf32>, tensor<4x8xf32>) -> tensor<?x4xf32>
  func.return %y, %t : tensor<?x4xf32>, tensor<?x8xf32>
}

// CHECK:      func.func @rows(
// CHECK-NEXT:   %t = coda.tanh %x : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %0 = coda.linear %t, %w : (tensor<?x8xf32>, tensor<4x8xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   %y = coda.mul %0, %s : (tensor<?x4xf32>, tensor<?x1xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   func.return %y, %t : tensor<?x4xf32>, tensor<?x8xf32>
// CHECK-NEXT: }

// -----

// A factor for each row of groups, which the epilogue applies.

func.func @groups(%x: tensor<?x8xbf16>, %s: tensor<?x1xbf16>, %w: tensor<4x8x16xbf16>, %ends: tensor<4xi32>) -> tensor<?x16xbf16> {
  %t = coda.mul %x, %s : (tensor<?x8xbf16>, tensor<?x1xbf16>) -> tensor<?x8xbf16>
  %y = coda.grouped_matmul %t, %w, %ends : (tensor<?x8xbf16>, tensor<4x8x16xbf16>, tensor<4xi32>) -> tensor<?x16xbf16>
  func.return %y : tensor<?x16xbf16>
}

// CHECK:      func.func @groups(%x: tensor<?x8xbf16>, %s: tensor<?x1xbf16>, %w: tensor<4x8x16xbf16>, %ends: tensor<4xi32>) -> tensor<?x16xbf16> {
// CHECK-NEXT:   %0 = coda.grouped_matmul %x, %w, %ends : (tensor<?x8xbf16>, tensor<4x8x16xbf16>, tensor<4xi32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %s_1 = coda.cast %s : (tensor<?x1xbf16>) -> tensor<?x1xf32>
// CHECK-NEXT:   %1 = coda.mul %0, %s_1 : (tensor<?x16xf32>, tensor<?x1xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %y = coda.cast %1 : (tensor<?x16xf32>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %y : tensor<?x16xbf16>
// CHECK-NEXT: }

// RUN: coda-opt %s -p move-loss-slices --split-input-file | filecheck %s
// RUN: coda-opt %s -p move-loss-slices --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// Half of the rows have a loss.

func.func @few(%x: tensor<6x8xf32>, %w: tensor<50x8xf32>, %t: tensor<3xi64>) -> tensor<f32> {
  %z = coda.linear %x, %w : (tensor<6x8xf32>, tensor<50x8xf32>) -> tensor<6x50xf32>
  %s = coda.slice %z {dim = 0 : i64, start = 0 : i64, stop = 3 : i64} : (tensor<6x50xf32>) -> tensor<3x50xf32>
  %l = coda.cross_entropy %s, %t {ignore_index = -100 : i64, reduction = "sum"} : (tensor<3x50xf32>, tensor<3xi64>) -> tensor<f32>
  func.return %l : tensor<f32>
}

// CHECK:      func.func @few(
// CHECK-NEXT:   %z = coda.linear %x, %w : (tensor<6x8xf32>, tensor<50x8xf32>) -> tensor<6x50xf32>
// CHECK-NEXT:   %s = coda.slice %z {dim = 0 : i64, start = 0 : i64, stop = 3 : i64} : (tensor<6x50xf32>) -> tensor<3x50xf32>
// CHECK-NEXT:   %l = coda.cross_entropy %s, %t {ignore_index = -100 : i64, reduction = "sum"} : (tensor<3x50xf32>, tensor<3xi64>) -> tensor<f32>
// CHECK-NEXT:   func.return %l : tensor<f32>
// CHECK-NEXT: }

// REMARK: remark[missed] move-loss-slices: coda.cross_entropy: 3 of 6 have one; failed condition: most rows of logits that the function computes have a loss; costs 628 bytes

// -----

// The logits are given.

func.func @given(%z: tensor<6x50xf32>, %t: tensor<5xi64>) -> tensor<f32> {
  %s = coda.slice %z {dim = 0 : i64, start = 0 : i64, stop = 5 : i64} : (tensor<6x50xf32>) -> tensor<5x50xf32>
  %l = coda.cross_entropy %s, %t {ignore_index = -100 : i64, reduction = "sum"} : (tensor<5x50xf32>, tensor<5xi64>) -> tensor<f32>
  func.return %l : tensor<f32>
}

// CHECK:      func.func @given(
// CHECK-NEXT:   %s = coda.slice %z {dim = 0 : i64, start = 0 : i64, stop = 5 : i64} : (tensor<6x50xf32>) -> tensor<5x50xf32>
// CHECK-NEXT:   %l = coda.cross_entropy %s, %t {ignore_index = -100 : i64, reduction = "sum"} : (tensor<5x50xf32>, tensor<5xi64>) -> tensor<f32>
// CHECK-NEXT:   func.return %l : tensor<f32>
// CHECK-NEXT: }

// REMARK: remark[missed] move-loss-slices: coda.cross_entropy: %z is an argument; failed condition: most rows of logits that the function computes have a loss; costs 1044 bytes

// RUN: coda-opt %s -p pad-rows --split-input-file | filecheck %s

// Both products of a gradient read one copy; the rows that it adds to the second one are cut off.

func.func @gradients(%dy: tensor<2x150x50257xbf16>, %x: tensor<2x150x64xbf16>, %w: tensor<50257x64xbf16>) -> (tensor<2x150x64xbf16>, tensor<50257x64xf32>) {
  %dx = coda.matmul %dy, %w : (tensor<2x150x50257xbf16>, tensor<50257x64xbf16>) -> tensor<2x150x64xbf16>
  %dw = coda.weight_gradient %dy, %x : (tensor<2x150x50257xbf16>, tensor<2x150x64xbf16>) -> tensor<50257x64xf32>
  func.return %dx, %dw : tensor<2x150x64xbf16>, tensor<50257x64xf32>
}

// CHECK:      func.func @gradients(%dy: tensor<2x150x50257xbf16>, %x: tensor<2x150x64xbf16>, %w: tensor<50257x64xbf16>) -> (tensor<2x150x64xbf16>, tensor<50257x64xf32>) {
// CHECK-NEXT:   %padded = coda.pad %dy {dim = 2 : i64, start = 0 : i64} : (tensor<2x150x50257xbf16>) -> tensor<2x150x50272xbf16>
// CHECK-NEXT:   %padded_1 = coda.pad %w {dim = 0 : i64, start = 0 : i64} : (tensor<50257x64xbf16>) -> tensor<50272x64xbf16>
// CHECK-NEXT:   %dx = coda.matmul %padded, %padded_1 : (tensor<2x150x50272xbf16>, tensor<50272x64xbf16>) -> tensor<2x150x64xbf16>
// CHECK-NEXT:   %dw = coda.weight_gradient %padded, %x : (tensor<2x150x50272xbf16>, tensor<2x150x64xbf16>) -> tensor<50272x64xf32>
// CHECK-NEXT:   %dw_1 = coda.slice %dw {dim = 0 : i64, start = 0 : i64, stop = 50257 : i64} : (tensor<50272x64xf32>) -> tensor<50257x64xf32>
// CHECK-NEXT:   func.return %dx, %dw_1 : tensor<2x150x64xbf16>, tensor<50257x64xf32>
// CHECK-NEXT: }

// -----

func.func @float32(%dy: tensor<300x4099xf32>, %w: tensor<4099x64xf32>) -> tensor<300x64xf32> {
  %dx = coda.matmul %dy, %w : (tensor<300x4099xf32>, tensor<4099x64xf32>) -> tensor<300x64xf32>
  func.return %dx : tensor<300x64xf32>
}

// CHECK:      func.func @float32(%dy: tensor<300x4099xf32>, %w: tensor<4099x64xf32>) -> tensor<300x64xf32> {
// CHECK-NEXT:   %padded = coda.pad %dy {dim = 1 : i64, start = 0 : i64} : (tensor<300x4099xf32>) -> tensor<300x4112xf32>
// CHECK-NEXT:   %padded_1 = coda.pad %w {dim = 0 : i64, start = 0 : i64} : (tensor<4099x64xf32>) -> tensor<4112x64xf32>
// CHECK-NEXT:   %dx = coda.matmul %padded, %padded_1 : (tensor<300x4112xf32>, tensor<4112x64xf32>) -> tensor<300x64xf32>
// CHECK-NEXT:   func.return %dx : tensor<300x64xf32>
// CHECK-NEXT: }

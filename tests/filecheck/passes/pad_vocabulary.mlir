// RUN: coda-opt %s -p pad-vocabulary,canonicalize,split-packed-linear --split-input-file | filecheck %s

// The padding of 50257 rows is cut off again, and no slice of the padded weight takes its place.

func.func @logits(%x: tensor<2x512x768xbf16>, %w: tensor<50257x768xbf16>) -> tensor<1024x50257xbf16> {
  %y = coda.linear %x, %w : (tensor<2x512x768xbf16>, tensor<50257x768xbf16>) -> tensor<2x512x50257xbf16>
  %r = coda.reshape %y : (tensor<2x512x50257xbf16>) -> tensor<1024x50257xbf16>
  func.return %r : tensor<1024x50257xbf16>
}

// CHECK:      func.func @logits(%x: tensor<2x512x768xbf16>, %w: tensor<50257x768xbf16>) -> tensor<1024x50257xbf16> {
// CHECK-NEXT:   %padded = coda.pad %w {dim = 0 : i64, start = 0 : i64} : (tensor<50257x768xbf16>) -> tensor<50272x768xbf16>
// CHECK-NEXT:   %y = coda.linear %x, %padded : (tensor<2x512x768xbf16>, tensor<50272x768xbf16>) -> tensor<2x512x50272xbf16>
// CHECK-NEXT:   %y_1 = coda.slice %y {dim = 2 : i64, start = 0 : i64, stop = 50257 : i64} : (tensor<2x512x50272xbf16>) -> tensor<2x512x50257xbf16>
// CHECK-NEXT:   %y_2 = torch.call "aten.clone.default"(%y_1) {arguments = "{0}"} : (tensor<2x512x50257xbf16>) -> tensor<2x512x50257xbf16>
// CHECK-NEXT:   %r = coda.reshape %y_2 : (tensor<2x512x50257xbf16>) -> tensor<1024x50257xbf16>
// CHECK-NEXT:   func.return %r : tensor<1024x50257xbf16>
// CHECK-NEXT: }

// -----

func.func @with_a_bias(%x: tensor<300x64xf32>, %w: tensor<4099x64xf32>, %b: tensor<4099xf32>) -> tensor<300x4099xf32> {
  %y = coda.linear %x, %w, %b : (tensor<300x64xf32>, tensor<4099x64xf32>, tensor<4099xf32>) -> tensor<300x4099xf32>
  func.return %y : tensor<300x4099xf32>
}

// CHECK:      func.func @with_a_bias(%x: tensor<300x64xf32>, %w: tensor<4099x64xf32>, %b: tensor<4099xf32>) -> tensor<300x4099xf32> {
// CHECK-NEXT:   %padded = coda.pad %w {dim = 0 : i64, start = 0 : i64} : (tensor<4099x64xf32>) -> tensor<4112x64xf32>
// CHECK-NEXT:   %padded_1 = coda.pad %b {dim = 0 : i64, start = 0 : i64} : (tensor<4099xf32>) -> tensor<4112xf32>
// CHECK-NEXT:   %y = coda.linear %x, %padded, %padded_1 : (tensor<300x64xf32>, tensor<4112x64xf32>, tensor<4112xf32>) -> tensor<300x4112xf32>
// CHECK-NEXT:   %y_1 = coda.slice %y {dim = 1 : i64, start = 0 : i64, stop = 4099 : i64} : (tensor<300x4112xf32>) -> tensor<300x4099xf32>
// CHECK-NEXT:   %y_2 = torch.call "aten.clone.default"(%y_1) {arguments = "{0}"} : (tensor<300x4099xf32>) -> tensor<300x4099xf32>
// CHECK-NEXT:   func.return %y_2 : tensor<300x4099xf32>
// CHECK-NEXT: }

// RUN: coda-opt %s -p canonicalize --split-input-file | filecheck %s

// Norms in float32 of rows of 16 bits, rounded to these: with the parameters as they are, and wide.

func.func @narrow(%x: tensor<?x8xbf16>, %w: tensor<8xbf16>, %b: tensor<8xf32>) -> (tensor<?x8xbf16>, tensor<?x8xbf16>) {
  %wide = coda.cast %x : (tensor<?x8xbf16>) -> tensor<?x8xf32>
  %v = coda.cast %w : (tensor<8xbf16>) -> tensor<8xf32>
  %n = coda.layer_norm %wide, %v, %b {eps = 1.0e-5 : f64} : (tensor<?x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  %y = coda.cast %n : (tensor<?x8xf32>) -> tensor<?x8xbf16>
  %m = coda.rms_norm %wide {eps = 1.0e-6 : f64, group = 4 : i64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %z = coda.cast %m : (tensor<?x8xf32>) -> tensor<?x8xbf16>
  func.return %y, %z : tensor<?x8xbf16>, tensor<?x8xbf16>
}

// CHECK:      func.func @narrow(%x: tensor<?x8xbf16>, %w: tensor<8xbf16>, %b: tensor<8xf32>) -> (tensor<?x8xbf16>, tensor<?x8xbf16>) {
// CHECK-NEXT:   %y = coda.layer_norm %x, %w, %b {eps = 1.000000e-05 : f64} : (tensor<?x8xbf16>, tensor<8xbf16>, tensor<8xf32>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %z = coda.rms_norm %x {eps = 1.000000e-06 : f64, group = 4 : i64} : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   func.return %y, %z : tensor<?x8xbf16>, tensor<?x8xbf16>
// CHECK-NEXT: }

// -----

// Rows that are of float32, other 16 bits than those of the rows, and a norm that is read in float32.

func.func @wide(%x: tensor<?x8xbf16>, %u: tensor<?x8xf32>) -> (tensor<?x8xbf16>, tensor<?x8xf16>, tensor<?x8xf32>, tensor<?x8xbf16>) {
  %a = coda.layer_norm %u {eps = 1.0e-5 : f64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %a16 = coda.cast %a : (tensor<?x8xf32>) -> tensor<?x8xbf16>
  %wide = coda.cast %x : (tensor<?x8xbf16>) -> tensor<?x8xf32>
  %b = coda.layer_norm %wide {eps = 1.0e-5 : f64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %b16 = coda.cast %b : (tensor<?x8xf32>) -> tensor<?x8xf16>
  %c = coda.layer_norm %wide {eps = 1.0e-6 : f64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %c16 = coda.cast %c : (tensor<?x8xf32>) -> tensor<?x8xbf16>
  func.return %a16, %b16, %c, %c16 : tensor<?x8xbf16>, tensor<?x8xf16>, tensor<?x8xf32>, tensor<?x8xbf16>
}

// CHECK:      func.func @wide(%x: tensor<?x8xbf16>, %u: tensor<?x8xf32>) -> (tensor<?x8xbf16>, tensor<?x8xf16>, tensor<?x8xf32>, tensor<?x8xbf16>) {
// CHECK-NEXT:   %a = coda.layer_norm %u {eps = 1.000000e-05 : f64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %a16 = coda.cast %a : (tensor<?x8xf32>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %wide = coda.cast %x : (tensor<?x8xbf16>) -> tensor<?x8xf32>
// CHECK-NEXT:   %b = coda.layer_norm %wide {eps = 1.000000e-05 : f64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %b16 = coda.cast %b : (tensor<?x8xf32>) -> tensor<?x8xf16>
// CHECK-NEXT:   %c = coda.layer_norm %wide {eps = 1.000000e-06 : f64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %c16 = coda.cast %c : (tensor<?x8xf32>) -> tensor<?x8xbf16>
// CHECK-NEXT:   func.return %a16, %b16, %c, %c16 : tensor<?x8xbf16>, tensor<?x8xf16>, tensor<?x8xf32>, tensor<?x8xbf16>
// CHECK-NEXT: }

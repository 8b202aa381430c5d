// RUN: coda-opt %s -p canonicalize | filecheck %s

// CHECK-LABEL: func.func @folds
// CHECK-NEXT: %sum = coda.reduce %x {kind = "sum"} : (tensor<?x8xbf16>) -> tensor<?x1xf32>
// CHECK-NEXT: %y = coda.mul %x, %c : (tensor<?x8xbf16>, tensor<?x1xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT: func.return %x, %x, %x, %sum, %y
func.func @folds(%x: tensor<?x8xbf16>, %c: tensor<?x1xbf16>) -> (tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x1xf32>, tensor<?x8xbf16>) {
  %same = coda.sum_to %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %kept = coda.broadcast %x, %same : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %whole = coda.pad %x {dim = 1 : i64, start = 0 : i64} : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %sum = coda.sum_to %x : (tensor<?x8xbf16>) -> tensor<?x1xf32>
  %wide = coda.broadcast %c : (tensor<?x1xbf16>) -> tensor<?x8xbf16>
  %y = coda.mul %x, %wide : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  func.return %same, %kept, %whole, %sum, %y : tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x1xf32>, tensor<?x8xbf16>
}

// What gives a result its shape, or changes rank or type, stays.
// CHECK-LABEL: func.func @stays
// CHECK-NEXT: coda.sum_to
// CHECK-NEXT: coda.sum_to
// CHECK-NEXT: coda.broadcast
// CHECK-NEXT: coda.mul %wide, %c
// CHECK-NEXT: coda.pad
// CHECK-NEXT: func.return
func.func @stays(%x: tensor<?x8xbf16>, %c: tensor<?x1xbf16>) -> (tensor<8xbf16>, tensor<?x8xf32>, tensor<?x8xbf16>, tensor<?x9xbf16>) {
  %total = coda.sum_to %x : (tensor<?x8xbf16>) -> tensor<8xbf16>
  %float = coda.sum_to %x : (tensor<?x8xbf16>) -> tensor<?x8xf32>
  %wide = coda.broadcast %c : (tensor<?x1xbf16>) -> tensor<?x8xbf16>
  %y = coda.mul %wide, %wide : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %more = coda.pad %x {dim = 1 : i64, start = 1 : i64} : (tensor<?x8xbf16>) -> tensor<?x9xbf16>
  func.return %total, %float, %y, %more : tensor<8xbf16>, tensor<?x8xf32>, tensor<?x8xbf16>, tensor<?x9xbf16>
}

// A sum of what was widened to float32 reads the narrow elements; of what was narrowed it does not.
// CHECK-LABEL: func.func @widened
// CHECK-NEXT: %s = coda.sum_to %x : (tensor<?x?x8xbf16>) -> tensor<?x1x8xf32>
// CHECK-NEXT: %n = coda.cast %y
// CHECK-NEXT: %t = coda.sum_to %n
// CHECK-NEXT: func.return %s, %t
func.func @widened(%x: tensor<?x?x8xbf16>, %y: tensor<?x?x8xf32>) -> (tensor<?x1x8xf32>, tensor<?x1x8xf32>) {
  %w = coda.cast %x : (tensor<?x?x8xbf16>) -> tensor<?x?x8xf32>
  %s = coda.sum_to %w : (tensor<?x?x8xf32>) -> tensor<?x1x8xf32>
  %n = coda.cast %y : (tensor<?x?x8xf32>) -> tensor<?x?x8xbf16>
  %t = coda.sum_to %n : (tensor<?x?x8xbf16>) -> tensor<?x1x8xf32>
  func.return %s, %t : tensor<?x1x8xf32>, tensor<?x1x8xf32>
}

// A conversion to fewer bits moves before a view, which nothing else reads; others stay.
// CHECK-LABEL: func.func @narrow
// CHECK-NEXT: %b = coda.cast %x : (tensor<?x2x4xf32>) -> tensor<?x2x4xbf16>
// CHECK-NEXT: %b_1 = coda.reshape %b : (tensor<?x2x4xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT: %wide = coda.reshape %y
// CHECK-NEXT: %c = coda.cast %wide
// CHECK-NEXT: %twice = coda.reshape %x
// CHECK-NEXT: %d = coda.cast %twice
// CHECK-NEXT: func.return
func.func @narrow(%x: tensor<?x2x4xf32>, %y: tensor<?x2x4xbf16>) -> (tensor<?x8xbf16>, tensor<?x8xf32>, tensor<?x4x2xbf16>, tensor<?x4x2xf32>) {
  %flat = coda.reshape %x : (tensor<?x2x4xf32>) -> tensor<?x8xf32>
  %b = coda.cast %flat : (tensor<?x8xf32>) -> tensor<?x8xbf16>
  %wide = coda.reshape %y : (tensor<?x2x4xbf16>) -> tensor<?x8xbf16>
  %c = coda.cast %wide : (tensor<?x8xbf16>) -> tensor<?x8xf32>
  %twice = coda.reshape %x : (tensor<?x2x4xf32>) -> tensor<?x4x2xf32>
  %d = coda.cast %twice : (tensor<?x4x2xf32>) -> tensor<?x4x2xbf16>
  func.return %b, %c, %d, %twice : tensor<?x8xbf16>, tensor<?x8xf32>, tensor<?x4x2xbf16>, tensor<?x4x2xf32>
}

// The gradients of the parts of a packed weight are converted one by one; other parts stay.
// CHECK-LABEL: func.func @packed
// CHECK-NEXT: %a = coda.weight_gradient %x, %y : (tensor<?x8xbf16>, tensor<?x4xbf16>) -> tensor<8x4xbf16>
// CHECK-NEXT: %b = coda.weight_gradient %y, %y : (tensor<?x4xbf16>, tensor<?x4xbf16>) -> tensor<4x4xbf16>
// CHECK-NEXT: %wide = coda.cast %a : (tensor<8x4xbf16>) -> tensor<8x4xf32>
// CHECK-NEXT: %wide_1 = coda.cast %b : (tensor<4x4xbf16>) -> tensor<4x4xf32>
// CHECK-NEXT: %wide_2 = coda.concat %wide, %wide_1 {dim = 0 : i64} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<12x4xf32>
// CHECK-NEXT: %rows = coda.concat %x, %x
// CHECK-NEXT: %stays = coda.cast %rows
// CHECK-NEXT: func.return %wide_2, %stays
func.func @packed(%x: tensor<?x8xbf16>, %y: tensor<?x4xbf16>) -> (tensor<12x4xf32>, tensor<?x16xf32>) {
  %a = coda.weight_gradient %x, %y : (tensor<?x8xbf16>, tensor<?x4xbf16>) -> tensor<8x4xbf16>
  %b = coda.weight_gradient %y, %y : (tensor<?x4xbf16>, tensor<?x4xbf16>) -> tensor<4x4xbf16>
  %d = coda.concat %a, %b {dim = 0 : i64} : (tensor<8x4xbf16>, tensor<4x4xbf16>) -> tensor<12x4xbf16>
  %wide = coda.cast %d : (tensor<12x4xbf16>) -> tensor<12x4xf32>
  %rows = coda.concat %x, %x {dim = 1 : i64} : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x16xbf16>
  %stays = coda.cast %rows : (tensor<?x16xbf16>) -> tensor<?x16xf32>
  func.return %wide, %stays : tensor<12x4xf32>, tensor<?x16xf32>
}

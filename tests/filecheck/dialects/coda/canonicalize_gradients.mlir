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

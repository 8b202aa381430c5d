// RUN: coda-opt %s -p narrow-sorts --split-input-file | filecheck %s

// Any integers, numbers of all rows, and numbers of too many columns.

func.func @open(%x: tensor<?xi64> {coda.dims = ["M"]}) -> (tensor<?xi64>, tensor<?xi64>) {
  %sorted, %order = coda.sort %x {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
  %again, %inverse = coda.sort %order {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
  func.return %sorted, %inverse : tensor<?xi64>, tensor<?xi64>
}

// CHECK:      func.func @open(%x: tensor<?xi64> {coda.dims = ["M"]}) -> (tensor<?xi64>, tensor<?xi64>) {
// CHECK-NEXT:   %sorted, %order = coda.sort %x {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
// CHECK-NEXT:   %again, %inverse = coda.sort %order {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
// CHECK-NEXT:   func.return %sorted, %inverse : tensor<?xi64>, tensor<?xi64>
// CHECK-NEXT: }

// -----

func.func @vocabulary(%scores: tensor<?x32769xf32> {coda.dims = ["M", 32769 : i64]}) -> tensor<?xi64> {
  %top, %ids = coda.topk %scores {k = 1 : i64, dim = 1 : i64} : (tensor<?x32769xf32>) -> (tensor<?x1xf32>, tensor<?x1xi64>)
  %flat = coda.reshape %ids {coda.dims = ["M"]} : (tensor<?x1xi64>) -> tensor<?xi64>
  %sorted, %order = coda.sort %flat {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
  func.return %order : tensor<?xi64>
}

// CHECK:      func.func @vocabulary(%scores: tensor<?x32769xf32> {coda.dims = ["M", 32769 : i64]}) -> tensor<?xi64> {
// CHECK-NEXT:   %top, %ids = coda.topk %scores {k = 1 : i64, dim = 1 : i64} : (tensor<?x32769xf32>) -> (tensor<?x1xf32>, tensor<?x1xi64>)
// CHECK-NEXT:   %flat = coda.reshape %ids {coda.dims = ["M"]} : (tensor<?x1xi64>) -> tensor<?xi64>
// CHECK-NEXT:   %sorted, %order = coda.sort %flat {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
// CHECK-NEXT:   func.return %order : tensor<?xi64>
// CHECK-NEXT: }

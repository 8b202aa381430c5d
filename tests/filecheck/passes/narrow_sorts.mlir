// RUN: coda-opt %s -p narrow-sorts,dce --split-input-file | filecheck %s
// RUN: coda-opt %s -p narrow-sorts --split-input-file --remarks=passed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// Numbers of experts that topk gives.

func.func @experts(%scores: tensor<?x64xf32> {coda.dims = ["M", 64 : i64]}) -> (tensor<?xi64>, tensor<?xi64>) {
  %top, %ids = coda.topk %scores {k = 1 : i64, dim = 1 : i64} : (tensor<?x64xf32>) -> (tensor<?x1xf32>, tensor<?x1xi64>)
  %flat = coda.reshape %ids {coda.dims = ["M"]} : (tensor<?x1xi64>) -> tensor<?xi64>
  %sorted, %order = coda.sort %flat {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
  func.return %sorted, %order : tensor<?xi64>, tensor<?xi64>
}

// CHECK:      func.func @experts(%scores: tensor<?x64xf32> {coda.dims = ["M", 64 : i64]}) -> (tensor<?xi64>, tensor<?xi64>) {
// CHECK-NEXT:   %top, %ids = coda.topk %scores {k = 1 : i64, dim = 1 : i64} : (tensor<?x64xf32>) -> (tensor<?x1xf32>, tensor<?x1xi64>)
// CHECK-NEXT:   %flat = coda.reshape %ids {coda.dims = ["M"]} : (tensor<?x1xi64>) -> tensor<?xi64>
// CHECK-NEXT:   %0 = coda.cast %flat : (tensor<?xi64>) -> tensor<?xi8>
// CHECK-NEXT:   %sorted, %order = coda.sort %0 {dim = 0 : i64, descending = false} : (tensor<?xi8>) -> (tensor<?xi8>, tensor<?xi64>)
// CHECK-NEXT:   %sorted_1 = coda.cast %sorted : (tensor<?xi8>) -> tensor<?xi64>
// CHECK-NEXT:   func.return %sorted_1, %order : tensor<?xi64>, tensor<?xi64>
// CHECK-NEXT: }

// REMARK: remark[passed] narrow-sorts: coda.sort: sorts integers of 8 bits

// -----

// More than 128 of them take 16 bits.

func.func @many(%scores: tensor<?x129xf32> {coda.dims = ["M", 129 : i64]}) -> tensor<?xi64> {
  %top, %ids = coda.topk %scores {k = 1 : i64, dim = 1 : i64} : (tensor<?x129xf32>) -> (tensor<?x1xf32>, tensor<?x1xi64>)
  %flat = coda.reshape %ids {coda.dims = ["M"]} : (tensor<?x1xi64>) -> tensor<?xi64>
  %sorted, %order = coda.sort %flat {dim = 0 : i64, descending = true} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
  func.return %order : tensor<?xi64>
}

// CHECK:      func.func @many(%scores: tensor<?x129xf32> {coda.dims = ["M", 129 : i64]}) -> tensor<?xi64> {
// CHECK-NEXT:   %top, %ids = coda.topk %scores {k = 1 : i64, dim = 1 : i64} : (tensor<?x129xf32>) -> (tensor<?x1xf32>, tensor<?x1xi64>)
// CHECK-NEXT:   %flat = coda.reshape %ids {coda.dims = ["M"]} : (tensor<?x1xi64>) -> tensor<?xi64>
// CHECK-NEXT:   %0 = coda.cast %flat : (tensor<?xi64>) -> tensor<?xi16>
// CHECK-NEXT:   %sorted, %order = coda.sort %0 {dim = 0 : i64, descending = true} : (tensor<?xi16>) -> (tensor<?xi16>, tensor<?xi64>)
// CHECK-NEXT:   func.return %order : tensor<?xi64>
// CHECK-NEXT: }

// REMARK: remark[passed] narrow-sorts: coda.sort: sorts integers of 16 bits

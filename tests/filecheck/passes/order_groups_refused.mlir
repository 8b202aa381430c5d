// RUN: coda-opt %s -p order-groups --split-input-file | filecheck %s
// RUN: coda-opt %s -p order-groups --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// The sorted numbers are read, too.

func.func @read(%scores: tensor<?x4xf32> {coda.dims = ["M", 4 : i64]}) -> (tensor<?xi64>, tensor<4xi32>) {
  %top, %ids = coda.topk %scores {k = 1 : i64, dim = 1 : i64} : (tensor<?x4xf32>) -> (tensor<?x1xf32>, tensor<?x1xi64>)
  %flat = coda.reshape %ids {coda.dims = ["M"]} : (tensor<?x1xi64>) -> tensor<?xi64>
  %sorted, %order = coda.sort %flat {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
  %counts = torch.call "aten.histc.default"(%sorted) {coda.dims = [4 : i64], arguments = "{0}, 4, 0, 3"} : (tensor<?xi64>) -> tensor<4xi64>
  %ends = torch.call "aten.cumsum.default"(%counts) {coda.dims = [4 : i64], arguments = "{0}, 0, dtype=torch.int32"} : (tensor<4xi64>) -> tensor<4xi32>
  func.return %sorted, %ends : tensor<?xi64>, tensor<4xi32>
}

// REMARK: remark[missed] order-groups: coda.sort: the rows are sorted by a call of PyTorch: %sorted is read elsewhere; failed condition: only group ends are computed from the sorted numbers

// CHECK:      func.func @read(%scores: tensor<?x4xf32> {coda.dims = ["M", 4 : i64]}) -> (tensor<?xi64>, tensor<4xi32>) {
// CHECK-NEXT:   %top, %ids = coda.topk %scores {k = 1 : i64, dim = 1 : i64} : (tensor<?x4xf32>) -> (tensor<?x1xf32>, tensor<?x1xi64>)
// CHECK-NEXT:   %flat = coda.reshape %ids {coda.dims = ["M"]} : (tensor<?x1xi64>) -> tensor<?xi64>
// CHECK-NEXT:   %sorted, %order = coda.sort %flat {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
// CHECK-NEXT:   %counts = torch.call "aten.histc.default"(%sorted) {coda.dims = [4 : i64], arguments = "{0}, 4, 0, 3"} : (tensor<?xi64>) -> tensor<4xi64>
// CHECK-NEXT:   %ends = torch.call "aten.cumsum.default"(%counts) {coda.dims = [4 : i64], arguments = "{0}, 0, dtype=torch.int32"} : (tensor<4xi64>) -> tensor<4xi32>
// CHECK-NEXT:   func.return %sorted, %ends : tensor<?xi64>, tensor<4xi32>
// CHECK-NEXT: }

// -----

// More groups than a program counts.

func.func @many(%scores: tensor<?x513xf32> {coda.dims = ["M", 513 : i64]}) -> (tensor<?xi64>, tensor<513xi32>) {
  %top, %ids = coda.topk %scores {k = 1 : i64, dim = 1 : i64} : (tensor<?x513xf32>) -> (tensor<?x1xf32>, tensor<?x1xi64>)
  %flat = coda.reshape %ids {coda.dims = ["M"]} : (tensor<?x1xi64>) -> tensor<?xi64>
  %sorted, %order = coda.sort %flat {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
  %counts = torch.call "aten.histc.default"(%sorted) {coda.dims = [513 : i64], arguments = "{0}, 513, 0, 512"} : (tensor<?xi64>) -> tensor<513xi64>
  %ends = torch.call "aten.cumsum.default"(%counts) {coda.dims = [513 : i64], arguments = "{0}, 0, dtype=torch.int32"} : (tensor<513xi64>) -> tensor<513xi32>
  func.return %order, %ends : tensor<?xi64>, tensor<513xi32>
}

// REMARK: remark[missed] order-groups: coda.sort: the rows are sorted by a call of PyTorch: 513 groups; failed condition: there are at most 512 groups

// CHECK:      func.func @many(%scores: tensor<?x513xf32> {coda.dims = ["M", 513 : i64]}) -> (tensor<?xi64>, tensor<513xi32>) {
// CHECK-NEXT:   %top, %ids = coda.topk %scores {k = 1 : i64, dim = 1 : i64} : (tensor<?x513xf32>) -> (tensor<?x1xf32>, tensor<?x1xi64>)
// CHECK-NEXT:   %flat = coda.reshape %ids {coda.dims = ["M"]} : (tensor<?x1xi64>) -> tensor<?xi64>
// CHECK-NEXT:   %sorted, %order = coda.sort %flat {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
// CHECK-NEXT:   %counts = torch.call "aten.histc.default"(%sorted) {coda.dims = [513 : i64], arguments = "{0}, 513, 0, 512"} : (tensor<?xi64>) -> tensor<513xi64>
// CHECK-NEXT:   %ends = torch.call "aten.cumsum.default"(%counts) {coda.dims = [513 : i64], arguments = "{0}, 0, dtype=torch.int32"} : (tensor<513xi64>) -> tensor<513xi32>
// CHECK-NEXT:   func.return %order, %ends : tensor<?xi64>, tensor<513xi32>
// CHECK-NEXT: }

// -----

// Numbers that may be anything, and an order from the largest number on: no candidates.

func.func @others(%ids: tensor<?xi64>, %scores: tensor<?x4xf32> {coda.dims = ["M", 4 : i64]}) -> (tensor<?xi64>, tensor<4xi32>, tensor<?xi64>, tensor<4xi32>) {
  %sorted, %order = coda.sort %ids {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
  %counts = torch.call "aten.histc.default"(%sorted) {coda.dims = [4 : i64], arguments = "{0}, 4, 0, 3"} : (tensor<?xi64>) -> tensor<4xi64>
  %ends = torch.call "aten.cumsum.default"(%counts) {coda.dims = [4 : i64], arguments = "{0}, 0, dtype=torch.int32"} : (tensor<4xi64>) -> tensor<4xi32>
  %top, %numbers = coda.topk %scores {k = 1 : i64, dim = 1 : i64} : (tensor<?x4xf32>) -> (tensor<?x1xf32>, tensor<?x1xi64>)
  %flat = coda.reshape %numbers {coda.dims = ["M"]} : (tensor<?x1xi64>) -> tensor<?xi64>
  %falling, %back = coda.sort %flat {dim = 0 : i64, descending = true} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
  %each = torch.call "aten.histc.default"(%falling) {coda.dims = [4 : i64], arguments = "{0}, 4, 0, 3"} : (tensor<?xi64>) -> tensor<4xi64>
  %all = torch.call "aten.cumsum.default"(%each) {coda.dims = [4 : i64], arguments = "{0}, 0, dtype=torch.int32"} : (tensor<4xi64>) -> tensor<4xi32>
  func.return %order, %ends, %back, %all : tensor<?xi64>, tensor<4xi32>, tensor<?xi64>, tensor<4xi32>
}

// CHECK:      func.func @others(%ids: tensor<?xi64>, %scores: tensor<?x4xf32> {coda.dims = ["M", 4 : i64]}) -> (tensor<?xi64>, tensor<4xi32>, tensor<?xi64>, tensor<4xi32>) {
// CHECK-NEXT:   %sorted, %order = coda.sort %ids {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
// CHECK-NEXT:   %counts = torch.call "aten.histc.default"(%sorted) {coda.dims = [4 : i64], arguments = "{0}, 4, 0, 3"} : (tensor<?xi64>) -> tensor<4xi64>
// CHECK-NEXT:   %ends = torch.call "aten.cumsum.default"(%counts) {coda.dims = [4 : i64], arguments = "{0}, 0, dtype=torch.int32"} : (tensor<4xi64>) -> tensor<4xi32>
// CHECK-NEXT:   %top, %numbers = coda.topk %scores {k = 1 : i64, dim = 1 : i64} : (tensor<?x4xf32>) -> (tensor<?x1xf32>, tensor<?x1xi64>)
// CHECK-NEXT:   %flat = coda.reshape %numbers {coda.dims = ["M"]} : (tensor<?x1xi64>) -> tensor<?xi64>
// CHECK-NEXT:   %falling, %back = coda.sort %flat {dim = 0 : i64, descending = true} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
// CHECK-NEXT:   %each = torch.call "aten.histc.default"(%falling) {coda.dims = [4 : i64], arguments = "{0}, 4, 0, 3"} : (tensor<?xi64>) -> tensor<4xi64>
// CHECK-NEXT:   %all = torch.call "aten.cumsum.default"(%each) {coda.dims = [4 : i64], arguments = "{0}, 0, dtype=torch.int32"} : (tensor<4xi64>) -> tensor<4xi32>
// CHECK-NEXT:   func.return %order, %ends, %back, %all : tensor<?xi64>, tensor<4xi32>, tensor<?xi64>, tensor<4xi32>
// CHECK-NEXT: }

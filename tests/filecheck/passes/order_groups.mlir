// RUN: coda-opt %s -p order-groups,dce --split-input-file | filecheck %s
// RUN: coda-opt %s -p order-groups --split-input-file --remarks=passed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// Numbers of experts that topk gives, counted in a histogram, as transformers does.

func.func @counted(%scores: tensor<?x4xf32> {coda.dims = ["M", 4 : i64]}) -> (tensor<?xi64>, tensor<4xi32>) {
  %top, %ids = coda.topk %scores {k = 1 : i64, dim = 1 : i64} : (tensor<?x4xf32>) -> (tensor<?x1xf32>, tensor<?x1xi64>)
  %flat = coda.reshape %ids {coda.dims = ["M"]} : (tensor<?x1xi64>) -> tensor<?xi64>
  %sorted, %order = coda.sort %flat {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
  %narrow = coda.cast %sorted : (tensor<?xi64>) -> tensor<?xf32>
  %counts = torch.call "aten.histc.default"(%narrow) {coda.dims = [4 : i64], arguments = "{0}, 4, 0, 3"} : (tensor<?xf32>) -> tensor<4xf32>
  %ends = torch.call "aten.cumsum.default"(%counts) {coda.dims = [4 : i64], arguments = "{0}, 0, dtype=torch.int32"} : (tensor<4xf32>) -> tensor<4xi32>
  func.return %order, %ends : tensor<?xi64>, tensor<4xi32>
}

// REMARK: remark[passed] order-groups: coda.sort: sorts rows by group, and counts them

// CHECK:      func.func @counted(%scores: tensor<?x4xf32> {coda.dims = ["M", 4 : i64]}) -> (tensor<?xi64>, tensor<4xi32>) {
// CHECK-NEXT:   %top, %ids = coda.topk %scores {k = 1 : i64, dim = 1 : i64} : (tensor<?x4xf32>) -> (tensor<?x1xf32>, tensor<?x1xi64>)
// CHECK-NEXT:   %flat = coda.reshape %ids {coda.dims = ["M"]} : (tensor<?x1xi64>) -> tensor<?xi64>
// CHECK-NEXT:   %order, %ends = coda.group_order %flat {groups = 4 : i64} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<4xi32>)
// CHECK-NEXT:   func.return %order, %ends : tensor<?xi64>, tensor<4xi32>
// CHECK-NEXT: }

// -----

// The places after each number, as `std/moe.coda` looks for them.

func.func @searched(%scores: tensor<?x4xf32> {coda.dims = ["M", 4 : i64]}) -> (tensor<?xi64>, tensor<4xi32>) {
  %top, %ids = coda.topk %scores {k = 1 : i64, dim = 1 : i64} : (tensor<?x4xf32>) -> (tensor<?x1xf32>, tensor<?x1xi64>)
  %flat = coda.reshape %ids {coda.dims = ["M"]} : (tensor<?x1xi64>) -> tensor<?xi64>
  %sorted, %order = coda.sort %flat {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
  %numbers = coda.positions {start = 0 : i64, step = 1 : i64} : () -> tensor<4xi64>
  %ends = torch.call "aten.searchsorted.Tensor"(%sorted, %numbers) {coda.dims = [4 : i64], arguments = "{0}, {1}, right=True, out_int32=True"} : (tensor<?xi64>, tensor<4xi64>) -> tensor<4xi32>
  func.return %order, %ends : tensor<?xi64>, tensor<4xi32>
}

// CHECK:      func.func @searched(%scores: tensor<?x4xf32> {coda.dims = ["M", 4 : i64]}) -> (tensor<?xi64>, tensor<4xi32>) {
// CHECK-NEXT:   %top, %ids = coda.topk %scores {k = 1 : i64, dim = 1 : i64} : (tensor<?x4xf32>) -> (tensor<?x1xf32>, tensor<?x1xi64>)
// CHECK-NEXT:   %flat = coda.reshape %ids {coda.dims = ["M"]} : (tensor<?x1xi64>) -> tensor<?xi64>
// CHECK-NEXT:   %order, %ends = coda.group_order %flat {groups = 4 : i64} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<4xi32>)
// CHECK-NEXT:   func.return %order, %ends : tensor<?xi64>, tensor<4xi32>
// CHECK-NEXT: }

// -----

// The places of maxima, side by side (phimoe).

func.func @maxima(%scores: tensor<?x4xf32> {coda.dims = ["M", 4 : i64]}, %others: tensor<?x4xf32> {coda.dims = ["M", 4 : i64]}) -> (tensor<?xi64>, tensor<4xi32>) {
  %top, %a = torch.call "aten.max.dim"(%scores) {coda.dims = ["M", 1 : i64], arguments = "{0}, -1, True"} : (tensor<?x4xf32>) -> (tensor<?x1xf32>, tensor<?x1xi64>)
  %next, %b = torch.call "aten.max.dim"(%others) {coda.dims = ["M", 1 : i64], arguments = "{0}, -1, True"} : (tensor<?x4xf32>) -> (tensor<?x1xf32>, tensor<?x1xi64>)
  %both = coda.concat %a, %b {dim = 1 : i64} : (tensor<?x1xi64>, tensor<?x1xi64>) -> tensor<?x2xi64>
  %flat = coda.reshape %both {coda.dims = ["2*M"]} : (tensor<?x2xi64>) -> tensor<?xi64>
  %sorted, %order = coda.sort %flat {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
  %counts = torch.call "aten.histc.default"(%sorted) {coda.dims = [4 : i64], arguments = "{0}, 4, 0, 3"} : (tensor<?xi64>) -> tensor<4xi64>
  %ends = torch.call "aten.cumsum.default"(%counts) {coda.dims = [4 : i64], arguments = "{0}, 0, dtype=torch.int32"} : (tensor<4xi64>) -> tensor<4xi32>
  func.return %order, %ends : tensor<?xi64>, tensor<4xi32>
}

// CHECK:      func.func @maxima(%scores: tensor<?x4xf32> {coda.dims = ["M", 4 : i64]}, %others: tensor<?x4xf32> {coda.dims = ["M", 4 : i64]}) -> (tensor<?xi64>, tensor<4xi32>) {
// CHECK-NEXT:   %top, %a = torch.call "aten.max.dim"(%scores) {coda.dims = ["M", 1 : i64], arguments = "{0}, -1, True"} : (tensor<?x4xf32>) -> (tensor<?x1xf32>, tensor<?x1xi64>)
// CHECK-NEXT:   %next, %b = torch.call "aten.max.dim"(%others) {coda.dims = ["M", 1 : i64], arguments = "{0}, -1, True"} : (tensor<?x4xf32>) -> (tensor<?x1xf32>, tensor<?x1xi64>)
// CHECK-NEXT:   %both = coda.concat %a, %b {dim = 1 : i64} : (tensor<?x1xi64>, tensor<?x1xi64>) -> tensor<?x2xi64>
// CHECK-NEXT:   %flat = coda.reshape %both {coda.dims = ["2*M"]} : (tensor<?x2xi64>) -> tensor<?xi64>
// CHECK-NEXT:   %order, %ends = coda.group_order %flat {groups = 4 : i64} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<4xi32>)
// CHECK-NEXT:   func.return %order, %ends : tensor<?xi64>, tensor<4xi32>
// CHECK-NEXT: }

// RUN: coda-opt %s -p raise-group-biases,dce --split-input-file | filecheck %s
// RUN: coda-opt %s -p raise-group-biases --split-input-file --remarks=passed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// Ends of groups are sums of counts, of numbers that topk gives.

func.func @counted(%x: tensor<?x8xbf16> {coda.dims = ["M", 8 : i64]}, %scores: tensor<?x4xbf16> {coda.dims = ["M", 4 : i64]}, %w: tensor<4x16x8xbf16>, %b: tensor<4x16xbf16>) -> tensor<?x16xbf16> {
  %top, %ids = coda.topk %scores {k = 1 : i64, dim = 1 : i64} : (tensor<?x4xbf16>) -> (tensor<?x1xbf16>, tensor<?x1xi64>)
  %flat = coda.reshape %ids {coda.dims = ["M"]} : (tensor<?x1xi64>) -> tensor<?xi64>
  %sorted, %order = coda.sort %flat {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
  %narrow = coda.cast %sorted : (tensor<?xi64>) -> tensor<?xf32>
  %counts = torch.call "aten.histc.default"(%narrow) {coda.dims = [4 : i64], arguments = "{0}, 4, 0, 3"} : (tensor<?xf32>) -> tensor<4xf32>
  %ends = torch.call "aten.cumsum.default"(%counts) {coda.dims = [4 : i64], arguments = "{0}, 0, dtype=torch.int32"} : (tensor<4xf32>) -> tensor<4xi32>
  %p = coda.grouped_linear %x, %w, %ends : (tensor<?x8xbf16>, tensor<4x16x8xbf16>, tensor<4xi32>) -> tensor<?x16xbf16>
  %rows = coda.index %b, %sorted {dim = 0 : i64} : (tensor<4x16xbf16>, tensor<?xi64>) -> tensor<?x16xbf16>
  %y = coda.add %p, %rows : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %y : tensor<?x16xbf16>
}

// CHECK:      func.func @counted(%x: tensor<?x8xbf16> {coda.dims = ["M", 8 : i64]}, %scores: tensor<?x4xbf16> {coda.dims = ["M", 4 : i64]}, %w: tensor<4x16x8xbf16>, %b: tensor<4x16xbf16>) -> tensor<?x16xbf16> {
// CHECK-NEXT:   %top, %ids = coda.topk %scores {k = 1 : i64, dim = 1 : i64} : (tensor<?x4xbf16>) -> (tensor<?x1xbf16>, tensor<?x1xi64>)
// CHECK-NEXT:   %flat = coda.reshape %ids {coda.dims = ["M"]} : (tensor<?x1xi64>) -> tensor<?xi64>
// CHECK-NEXT:   %sorted, %order = coda.sort %flat {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
// CHECK-NEXT:   %narrow = coda.cast %sorted : (tensor<?xi64>) -> tensor<?xf32>
// CHECK-NEXT:   %counts = torch.call "aten.histc.default"(%narrow) {coda.dims = [4 : i64], arguments = "{0}, 4, 0, 3"} : (tensor<?xf32>) -> tensor<4xf32>
// CHECK-NEXT:   %ends = torch.call "aten.cumsum.default"(%counts) {coda.dims = [4 : i64], arguments = "{0}, 0, dtype=torch.int32"} : (tensor<4xf32>) -> tensor<4xi32>
// CHECK-NEXT:   %y = coda.grouped_linear %x, %w, %ends, %b : (tensor<?x8xbf16>, tensor<4x16x8xbf16>, tensor<4xi32>, tensor<4x16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %y : tensor<?x16xbf16>
// CHECK-NEXT: }

// REMARK: remark[passed] raise-group-biases: coda.add: %b is the bias of the groups

// -----

// They are the places after each number, and the bias comes first.

func.func @searched(%x: tensor<?x8xbf16> {coda.dims = ["M", 8 : i64]}, %scores: tensor<?x4xbf16> {coda.dims = ["M", 4 : i64]}, %w: tensor<4x8x16xbf16>, %b: tensor<4x16xbf16>) -> tensor<?x16xbf16> {
  %top, %ids = coda.topk %scores {k = 1 : i64, dim = 1 : i64} : (tensor<?x4xbf16>) -> (tensor<?x1xbf16>, tensor<?x1xi64>)
  %flat = coda.reshape %ids {coda.dims = ["M"]} : (tensor<?x1xi64>) -> tensor<?xi64>
  %sorted, %order = coda.sort %flat {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
  %numbers = coda.positions {start = 0 : i64, step = 1 : i64} : () -> tensor<4xi64>
  %ends = torch.call "aten.searchsorted.Tensor"(%sorted, %numbers) {coda.dims = [4 : i64], arguments = "{0}, {1}, right=True, out_int32=True"} : (tensor<?xi64>, tensor<4xi64>) -> tensor<4xi32>
  %p = coda.grouped_matmul %x, %w, %ends : (tensor<?x8xbf16>, tensor<4x8x16xbf16>, tensor<4xi32>) -> tensor<?x16xbf16>
  %rows = coda.index %b, %sorted {dim = 0 : i64} : (tensor<4x16xbf16>, tensor<?xi64>) -> tensor<?x16xbf16>
  %y = coda.add %rows, %p : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %y : tensor<?x16xbf16>
}

// CHECK:      func.func @searched(%x: tensor<?x8xbf16> {coda.dims = ["M", 8 : i64]}, %scores: tensor<?x4xbf16> {coda.dims = ["M", 4 : i64]}, %w: tensor<4x8x16xbf16>, %b: tensor<4x16xbf16>) -> tensor<?x16xbf16> {
// CHECK-NEXT:   %top, %ids = coda.topk %scores {k = 1 : i64, dim = 1 : i64} : (tensor<?x4xbf16>) -> (tensor<?x1xbf16>, tensor<?x1xi64>)
// CHECK-NEXT:   %flat = coda.reshape %ids {coda.dims = ["M"]} : (tensor<?x1xi64>) -> tensor<?xi64>
// CHECK-NEXT:   %sorted, %order = coda.sort %flat {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
// CHECK-NEXT:   %numbers = coda.positions {start = 0 : i64, step = 1 : i64} : () -> tensor<4xi64>
// CHECK-NEXT:   %ends = torch.call "aten.searchsorted.Tensor"(%sorted, %numbers) {coda.dims = [4 : i64], arguments = "{0}, {1}, right=True, out_int32=True"} : (tensor<?xi64>, tensor<4xi64>) -> tensor<4xi32>
// CHECK-NEXT:   %y = coda.grouped_matmul %x, %w, %ends, %b : (tensor<?x8xbf16>, tensor<4x8x16xbf16>, tensor<4xi32>, tensor<4x16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %y : tensor<?x16xbf16>
// CHECK-NEXT: }

// REMARK: remark[passed] raise-group-biases: coda.add: %b is the bias of the groups

// RUN: coda-opt %s -p raise-group-biases,dce --split-input-file | filecheck %s
// RUN: coda-opt %s -p raise-group-biases --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// Rows have the biases in another order than that of the groups.

func.func @unsorted(%x: tensor<?x8xbf16> {coda.dims = ["M", 8 : i64]}, %scores: tensor<?x4xbf16> {coda.dims = ["M", 4 : i64]}, %w: tensor<4x16x8xbf16>, %b: tensor<4x16xbf16>) -> tensor<?x16xbf16> {
  %top, %ids = coda.topk %scores {k = 1 : i64, dim = 1 : i64} : (tensor<?x4xbf16>) -> (tensor<?x1xbf16>, tensor<?x1xi64>)
  %flat = coda.reshape %ids {coda.dims = ["M"]} : (tensor<?x1xi64>) -> tensor<?xi64>
  %sorted, %order = coda.sort %flat {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
  %wide = coda.cast %sorted : (tensor<?xi64>) -> tensor<?xf32>
  %counts = torch.call "aten.histc.default"(%wide) {coda.dims = [4 : i64], arguments = "{0}, 4, 0, 3"} : (tensor<?xf32>) -> tensor<4xf32>
  %ends = torch.call "aten.cumsum.default"(%counts) {coda.dims = [4 : i64], arguments = "{0}, 0, dtype=torch.int32"} : (tensor<4xf32>) -> tensor<4xi32>
  %p = coda.grouped_linear %x, %w, %ends : (tensor<?x8xbf16>, tensor<4x16x8xbf16>, tensor<4xi32>) -> tensor<?x16xbf16>
  %rows = coda.index %b, %flat {dim = 0 : i64} : (tensor<4x16xbf16>, tensor<?xi64>) -> tensor<?x16xbf16>
  %y = coda.add %p, %rows : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %y : tensor<?x16xbf16>
}

// CHECK:      func.func @unsorted(%x: tensor<?x8xbf16> {coda.dims = ["M", 8 : i64]}, %scores: tensor<?x4xbf16> {coda.dims = ["M", 4 : i64]}, %w: tensor<4x16x8xbf16>, %b: tensor<4x16xbf16>) -> tensor<?x16xbf16> {
// CHECK-NEXT:   %top, %ids = coda.topk %scores {k = 1 : i64, dim = 1 : i64} : (tensor<?x4xbf16>) -> (tensor<?x1xbf16>, tensor<?x1xi64>)
// CHECK-NEXT:   %flat = coda.reshape %ids {coda.dims = ["M"]} : (tensor<?x1xi64>) -> tensor<?xi64>
// CHECK-NEXT:   %sorted, %order = coda.sort %flat {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
// CHECK-NEXT:   %wide = coda.cast %sorted : (tensor<?xi64>) -> tensor<?xf32>
// CHECK-NEXT:   %counts = torch.call "aten.histc.default"(%wide) {coda.dims = [4 : i64], arguments = "{0}, 4, 0, 3"} : (tensor<?xf32>) -> tensor<4xf32>
// CHECK-NEXT:   %ends = torch.call "aten.cumsum.default"(%counts) {coda.dims = [4 : i64], arguments = "{0}, 0, dtype=torch.int32"} : (tensor<4xf32>) -> tensor<4xi32>
// CHECK-NEXT:   %p = coda.grouped_linear %x, %w, %ends : (tensor<?x8xbf16>, tensor<4x16x8xbf16>, tensor<4xi32>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %rows = coda.index %b, %flat {dim = 0 : i64} : (tensor<4x16xbf16>, tensor<?xi64>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %y = coda.add %p, %rows : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %y : tensor<?x16xbf16>
// CHECK-NEXT: }

// REMARK: remark[missed] raise-group-biases: coda.add: %flat may select rows of %b other than those of the groups; failed condition: the ids are the group numbers that are sorted, and counted for the group ends; costs 96*M bytes

// -----

// Numbers are counted in other steps than one.

func.func @steps(%x: tensor<?x8xbf16> {coda.dims = ["M", 8 : i64]}, %scores: tensor<?x4xbf16> {coda.dims = ["M", 4 : i64]}, %w: tensor<4x16x8xbf16>, %b: tensor<4x16xbf16>) -> tensor<?x16xbf16> {
  %top, %ids = coda.topk %scores {k = 1 : i64, dim = 1 : i64} : (tensor<?x4xbf16>) -> (tensor<?x1xbf16>, tensor<?x1xi64>)
  %flat = coda.reshape %ids {coda.dims = ["M"]} : (tensor<?x1xi64>) -> tensor<?xi64>
  %sorted, %order = coda.sort %flat {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
  %wide = coda.cast %sorted : (tensor<?xi64>) -> tensor<?xf32>
  %counts = torch.call "aten.histc.default"(%wide) {coda.dims = [4 : i64], arguments = "{0}, 4, 0, 4"} : (tensor<?xf32>) -> tensor<4xf32>
  %ends = torch.call "aten.cumsum.default"(%counts) {coda.dims = [4 : i64], arguments = "{0}, 0, dtype=torch.int32"} : (tensor<4xf32>) -> tensor<4xi32>
  %p = coda.grouped_linear %x, %w, %ends : (tensor<?x8xbf16>, tensor<4x16x8xbf16>, tensor<4xi32>) -> tensor<?x16xbf16>
  %rows = coda.index %b, %sorted {dim = 0 : i64} : (tensor<4x16xbf16>, tensor<?xi64>) -> tensor<?x16xbf16>
  %y = coda.add %p, %rows : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %y : tensor<?x16xbf16>
}

// CHECK:      func.func @steps(%x: tensor<?x8xbf16> {coda.dims = ["M", 8 : i64]}, %scores: tensor<?x4xbf16> {coda.dims = ["M", 4 : i64]}, %w: tensor<4x16x8xbf16>, %b: tensor<4x16xbf16>) -> tensor<?x16xbf16> {
// CHECK-NEXT:   %top, %ids = coda.topk %scores {k = 1 : i64, dim = 1 : i64} : (tensor<?x4xbf16>) -> (tensor<?x1xbf16>, tensor<?x1xi64>)
// CHECK-NEXT:   %flat = coda.reshape %ids {coda.dims = ["M"]} : (tensor<?x1xi64>) -> tensor<?xi64>
// CHECK-NEXT:   %sorted, %order = coda.sort %flat {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
// CHECK-NEXT:   %wide = coda.cast %sorted : (tensor<?xi64>) -> tensor<?xf32>
// CHECK-NEXT:   %counts = torch.call "aten.histc.default"(%wide) {coda.dims = [4 : i64], arguments = "{0}, 4, 0, 4"} : (tensor<?xf32>) -> tensor<4xf32>
// CHECK-NEXT:   %ends = torch.call "aten.cumsum.default"(%counts) {coda.dims = [4 : i64], arguments = "{0}, 0, dtype=torch.int32"} : (tensor<4xf32>) -> tensor<4xi32>
// CHECK-NEXT:   %p = coda.grouped_linear %x, %w, %ends : (tensor<?x8xbf16>, tensor<4x16x8xbf16>, tensor<4xi32>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %rows = coda.index %b, %sorted {dim = 0 : i64} : (tensor<4x16xbf16>, tensor<?xi64>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %y = coda.add %p, %rows : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %y : tensor<?x16xbf16>
// CHECK-NEXT: }

// REMARK: remark[missed] raise-group-biases: coda.add: %sorted may select rows of %b other than those of the groups; failed condition: the ids are the group numbers that are sorted, and counted for the group ends; costs 96*M bytes

// -----

// The first group has the largest number.

func.func @descending(%x: tensor<?x8xbf16> {coda.dims = ["M", 8 : i64]}, %scores: tensor<?x4xbf16> {coda.dims = ["M", 4 : i64]}, %w: tensor<4x16x8xbf16>, %b: tensor<4x16xbf16>) -> tensor<?x16xbf16> {
  %top, %ids = coda.topk %scores {k = 1 : i64, dim = 1 : i64} : (tensor<?x4xbf16>) -> (tensor<?x1xbf16>, tensor<?x1xi64>)
  %flat = coda.reshape %ids {coda.dims = ["M"]} : (tensor<?x1xi64>) -> tensor<?xi64>
  %sorted, %order = coda.sort %flat {dim = 0 : i64, descending = true} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
  %wide = coda.cast %sorted : (tensor<?xi64>) -> tensor<?xf32>
  %counts = torch.call "aten.histc.default"(%wide) {coda.dims = [4 : i64], arguments = "{0}, 4, 0, 3"} : (tensor<?xf32>) -> tensor<4xf32>
  %ends = torch.call "aten.cumsum.default"(%counts) {coda.dims = [4 : i64], arguments = "{0}, 0, dtype=torch.int32"} : (tensor<4xf32>) -> tensor<4xi32>
  %p = coda.grouped_linear %x, %w, %ends : (tensor<?x8xbf16>, tensor<4x16x8xbf16>, tensor<4xi32>) -> tensor<?x16xbf16>
  %rows = coda.index %b, %sorted {dim = 0 : i64} : (tensor<4x16xbf16>, tensor<?xi64>) -> tensor<?x16xbf16>
  %y = coda.add %p, %rows : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %y : tensor<?x16xbf16>
}

// CHECK:      func.func @descending(%x: tensor<?x8xbf16> {coda.dims = ["M", 8 : i64]}, %scores: tensor<?x4xbf16> {coda.dims = ["M", 4 : i64]}, %w: tensor<4x16x8xbf16>, %b: tensor<4x16xbf16>) -> tensor<?x16xbf16> {
// CHECK-NEXT:   %top, %ids = coda.topk %scores {k = 1 : i64, dim = 1 : i64} : (tensor<?x4xbf16>) -> (tensor<?x1xbf16>, tensor<?x1xi64>)
// CHECK-NEXT:   %flat = coda.reshape %ids {coda.dims = ["M"]} : (tensor<?x1xi64>) -> tensor<?xi64>
// CHECK-NEXT:   %sorted, %order = coda.sort %flat {dim = 0 : i64, descending = true} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
// CHECK-NEXT:   %wide = coda.cast %sorted : (tensor<?xi64>) -> tensor<?xf32>
// CHECK-NEXT:   %counts = torch.call "aten.histc.default"(%wide) {coda.dims = [4 : i64], arguments = "{0}, 4, 0, 3"} : (tensor<?xf32>) -> tensor<4xf32>
// CHECK-NEXT:   %ends = torch.call "aten.cumsum.default"(%counts) {coda.dims = [4 : i64], arguments = "{0}, 0, dtype=torch.int32"} : (tensor<4xf32>) -> tensor<4xi32>
// CHECK-NEXT:   %p = coda.grouped_linear %x, %w, %ends : (tensor<?x8xbf16>, tensor<4x16x8xbf16>, tensor<4xi32>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %rows = coda.index %b, %sorted {dim = 0 : i64} : (tensor<4x16xbf16>, tensor<?xi64>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %y = coda.add %p, %rows : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %y : tensor<?x16xbf16>
// CHECK-NEXT: }

// REMARK: remark[missed] raise-group-biases: coda.add: %sorted may select rows of %b other than those of the groups; failed condition: the ids are the group numbers that are sorted, and counted for the group ends; costs 96*M bytes

// -----

// One row of the bias is of no group.

func.func @rows(%x: tensor<?x8xbf16> {coda.dims = ["M", 8 : i64]}, %scores: tensor<?x4xbf16> {coda.dims = ["M", 4 : i64]}, %w: tensor<4x16x8xbf16>, %b: tensor<5x16xbf16>) -> tensor<?x16xbf16> {
  %top, %ids = coda.topk %scores {k = 1 : i64, dim = 1 : i64} : (tensor<?x4xbf16>) -> (tensor<?x1xbf16>, tensor<?x1xi64>)
  %flat = coda.reshape %ids {coda.dims = ["M"]} : (tensor<?x1xi64>) -> tensor<?xi64>
  %sorted, %order = coda.sort %flat {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
  %wide = coda.cast %sorted : (tensor<?xi64>) -> tensor<?xf32>
  %counts = torch.call "aten.histc.default"(%wide) {coda.dims = [4 : i64], arguments = "{0}, 4, 0, 3"} : (tensor<?xf32>) -> tensor<4xf32>
  %ends = torch.call "aten.cumsum.default"(%counts) {coda.dims = [4 : i64], arguments = "{0}, 0, dtype=torch.int32"} : (tensor<4xf32>) -> tensor<4xi32>
  %p = coda.grouped_linear %x, %w, %ends : (tensor<?x8xbf16>, tensor<4x16x8xbf16>, tensor<4xi32>) -> tensor<?x16xbf16>
  %rows = coda.index %b, %sorted {dim = 0 : i64} : (tensor<5x16xbf16>, tensor<?xi64>) -> tensor<?x16xbf16>
  %y = coda.add %p, %rows : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %y : tensor<?x16xbf16>
}

// CHECK:      func.func @rows(%x: tensor<?x8xbf16> {coda.dims = ["M", 8 : i64]}, %scores: tensor<?x4xbf16> {coda.dims = ["M", 4 : i64]}, %w: tensor<4x16x8xbf16>, %b: tensor<5x16xbf16>) -> tensor<?x16xbf16> {
// CHECK-NEXT:   %top, %ids = coda.topk %scores {k = 1 : i64, dim = 1 : i64} : (tensor<?x4xbf16>) -> (tensor<?x1xbf16>, tensor<?x1xi64>)
// CHECK-NEXT:   %flat = coda.reshape %ids {coda.dims = ["M"]} : (tensor<?x1xi64>) -> tensor<?xi64>
// CHECK-NEXT:   %sorted, %order = coda.sort %flat {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
// CHECK-NEXT:   %wide = coda.cast %sorted : (tensor<?xi64>) -> tensor<?xf32>
// CHECK-NEXT:   %counts = torch.call "aten.histc.default"(%wide) {coda.dims = [4 : i64], arguments = "{0}, 4, 0, 3"} : (tensor<?xf32>) -> tensor<4xf32>
// CHECK-NEXT:   %ends = torch.call "aten.cumsum.default"(%counts) {coda.dims = [4 : i64], arguments = "{0}, 0, dtype=torch.int32"} : (tensor<4xf32>) -> tensor<4xi32>
// CHECK-NEXT:   %p = coda.grouped_linear %x, %w, %ends : (tensor<?x8xbf16>, tensor<4x16x8xbf16>, tensor<4xi32>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %rows = coda.index %b, %sorted {dim = 0 : i64} : (tensor<5x16xbf16>, tensor<?xi64>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %y = coda.add %p, %rows : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %y : tensor<?x16xbf16>
// CHECK-NEXT: }

// REMARK: remark[missed] raise-group-biases: coda.add: a row of %b is copied for each row of the product; failed condition: each group has a row of the bias, in the type of the product; costs 96*M bytes

// -----

// Something else needs the product.

func.func @stored(%x: tensor<?x8xbf16> {coda.dims = ["M", 8 : i64]}, %scores: tensor<?x4xbf16> {coda.dims = ["M", 4 : i64]}, %w: tensor<4x16x8xbf16>, %b: tensor<4x16xbf16>) -> (tensor<?x16xbf16>, tensor<?x16xbf16>) {
  %top, %ids = coda.topk %scores {k = 1 : i64, dim = 1 : i64} : (tensor<?x4xbf16>) -> (tensor<?x1xbf16>, tensor<?x1xi64>)
  %flat = coda.reshape %ids {coda.dims = ["M"]} : (tensor<?x1xi64>) -> tensor<?xi64>
  %sorted, %order = coda.sort %flat {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
  %wide = coda.cast %sorted : (tensor<?xi64>) -> tensor<?xf32>
  %counts = torch.call "aten.histc.default"(%wide) {coda.dims = [4 : i64], arguments = "{0}, 4, 0, 3"} : (tensor<?xf32>) -> tensor<4xf32>
  %ends = torch.call "aten.cumsum.default"(%counts) {coda.dims = [4 : i64], arguments = "{0}, 0, dtype=torch.int32"} : (tensor<4xf32>) -> tensor<4xi32>
  %p = coda.grouped_linear %x, %w, %ends : (tensor<?x8xbf16>, tensor<4x16x8xbf16>, tensor<4xi32>) -> tensor<?x16xbf16>
  %rows = coda.index %b, %sorted {dim = 0 : i64} : (tensor<4x16xbf16>, tensor<?xi64>) -> tensor<?x16xbf16>
  %y = coda.add %p, %rows : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %y, %p : tensor<?x16xbf16>, tensor<?x16xbf16>
}

// CHECK:      func.func @stored(%x: tensor<?x8xbf16> {coda.dims = ["M", 8 : i64]}, %scores: tensor<?x4xbf16> {coda.dims = ["M", 4 : i64]}, %w: tensor<4x16x8xbf16>, %b: tensor<4x16xbf16>) -> (tensor<?x16xbf16>, tensor<?x16xbf16>) {
// CHECK-NEXT:   %top, %ids = coda.topk %scores {k = 1 : i64, dim = 1 : i64} : (tensor<?x4xbf16>) -> (tensor<?x1xbf16>, tensor<?x1xi64>)
// CHECK-NEXT:   %flat = coda.reshape %ids {coda.dims = ["M"]} : (tensor<?x1xi64>) -> tensor<?xi64>
// CHECK-NEXT:   %sorted, %order = coda.sort %flat {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
// CHECK-NEXT:   %wide = coda.cast %sorted : (tensor<?xi64>) -> tensor<?xf32>
// CHECK-NEXT:   %counts = torch.call "aten.histc.default"(%wide) {coda.dims = [4 : i64], arguments = "{0}, 4, 0, 3"} : (tensor<?xf32>) -> tensor<4xf32>
// CHECK-NEXT:   %ends = torch.call "aten.cumsum.default"(%counts) {coda.dims = [4 : i64], arguments = "{0}, 0, dtype=torch.int32"} : (tensor<4xf32>) -> tensor<4xi32>
// CHECK-NEXT:   %p = coda.grouped_linear %x, %w, %ends : (tensor<?x8xbf16>, tensor<4x16x8xbf16>, tensor<4xi32>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %rows = coda.index %b, %sorted {dim = 0 : i64} : (tensor<4x16xbf16>, tensor<?xi64>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %y = coda.add %p, %rows : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %y, %p : tensor<?x16xbf16>, tensor<?x16xbf16>
// CHECK-NEXT: }

// REMARK: remark[missed] raise-group-biases: coda.add: the product without %b is also read elsewhere; failed condition: nothing else reads the product; costs 96*M bytes

// RUN: coda-opt %s -p skip-zero-rows --split-input-file | filecheck %s
// RUN: coda-opt %s -p skip-zero-rows --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// What numbers outside of the chosen groups give: 1 in place of factors, and 1 added to a 0.

func.func @ones(%x: tensor<?x8xf32> {coda.dims = ["T", 8 : i64]}, %scores: tensor<?x4xf32> {coda.dims = ["T", 4 : i64]}, %w: tensor<4x8x16xf32>) -> tensor<1x?x16xf32> {
  %top, %ids = coda.topk %scores {k = 2 : i64, dim = 1 : i64} : (tensor<?x4xf32>) -> (tensor<?x2xf32>, tensor<?x2xi64>)
  %number = coda.constant {value = 1.0 : f64} : tensor<f32>
  %filled = coda.broadcast %number, %scores : (tensor<f32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  %chosen = coda.scatter %filled, %ids, %top {dim = 1 : i64} : (tensor<?x4xf32>, tensor<?x2xi64>, tensor<?x2xf32>) -> tensor<?x4xf32>
  %rows = coda.broadcast %x : (tensor<?x8xf32>) -> tensor<4x?x8xf32>
  %transposed = coda.transpose %chosen {perm = [1 : i64, 0 : i64]} : (tensor<?x4xf32>) -> tensor<4x?xf32>
  %factors = coda.reshape %transposed {coda.dims = [4 : i64, "T", 1 : i64]} : (tensor<4x?xf32>) -> tensor<4x?x1xf32>
  %scaled = coda.mul %rows, %factors : (tensor<4x?x8xf32>, tensor<4x?x1xf32>) -> tensor<4x?x8xf32>
  %y = torch.call "aten.bmm.default"(%scaled, %w) {coda.dims = [4 : i64, "T", 16 : i64], arguments = "{0}, {1}"} : (tensor<4x?x8xf32>, tensor<4x8x16xf32>) -> tensor<4x?x16xf32>
  %sum = coda.sum_to %y : (tensor<4x?x16xf32>) -> tensor<1x?x16xf32>
  func.return %sum : tensor<1x?x16xf32>
}

// REMARK: remark[missed] skip-zero-rows: coda.sum_to: all groups multiply all rows: other rows are unknown; failed condition: rows of groups that are not chosen are 0

// CHECK:      func.func @ones(%x: tensor<?x8xf32> {coda.dims = ["T", 8 : i64]}, %scores: tensor<?x4xf32> {coda.dims = ["T", 4 : i64]}, %w: tensor<4x8x16xf32>) -> tensor<1x?x16xf32> {
// CHECK-NEXT:   %top, %ids = coda.topk %scores {k = 2 : i64, dim = 1 : i64} : (tensor<?x4xf32>) -> (tensor<?x2xf32>, tensor<?x2xi64>)
// CHECK-NEXT:   %number = coda.constant {value = 1.000000e+00 : f64} : tensor<f32>
// CHECK-NEXT:   fill
// CHECK-NEXT:   %chosen = coda.scatter %filled, %ids, %top {dim = 1 : i64} : (tensor<?x4xf32>, tensor<?x2xi64>, tensor<?x2xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   %rows = coda.broadcast %x : (tensor<?x8xf32>) -> tensor<4x?x8xf32>
// CHECK-NEXT:   %transposed = coda.transpose %chosen {perm = [1 : i64, 0 : i64]} : (tensor<?x4xf32>) -> tensor<4x?xf32>
// CHECK-NEXT:   %factors = coda.reshape %transposed {coda.dims = [4 : i64, "T", 1 : i64]} : (tensor<4x?xf32>) -> tensor<4x?x1xf32>
// CHECK-NEXT:   %scaled = coda.mul %rows, %factors : (tensor<4x?x8xf32>, tensor<4x?x1xf32>) -> tensor<4x?x8xf32>
// CHECK-NEXT:   %y = torch.call "aten.bmm.default"(%scaled, %w) {coda.dims = [4 : i64, "T", 16 : i64], arguments = "{0}, {1}"} : (tensor<4x?x8xf32>, tensor<4x8x16xf32>) -> tensor<4x?x16xf32>
// CHECK-NEXT:   %sum = coda.sum_to %y : (tensor<4x?x16xf32>) -> tensor<1x?x16xf32>
// CHECK-NEXT:   func.return %sum : tensor<1x?x16xf32>
// CHECK-NEXT: }

// -----

func.func @shifted(%x: tensor<?x8xf32> {coda.dims = ["T", 8 : i64]}, %scores: tensor<?x4xf32> {coda.dims = ["T", 4 : i64]}, %w: tensor<4x8x16xf32>) -> tensor<1x?x16xf32> {
  %top, %ids = coda.topk %scores {k = 2 : i64, dim = 1 : i64} : (tensor<?x4xf32>) -> (tensor<?x2xf32>, tensor<?x2xi64>)
  %number = coda.constant {value = 0.0 : f64} : tensor<f32>
  %filled = coda.broadcast %number, %scores : (tensor<f32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  %chosen = coda.scatter %filled, %ids, %top {dim = 1 : i64} : (tensor<?x4xf32>, tensor<?x2xi64>, tensor<?x2xf32>) -> tensor<?x4xf32>
  %rows = coda.broadcast %x : (tensor<?x8xf32>) -> tensor<4x?x8xf32>
  %transposed = coda.transpose %chosen {perm = [1 : i64, 0 : i64]} : (tensor<?x4xf32>) -> tensor<4x?xf32>
  %factors = coda.reshape %transposed {coda.dims = [4 : i64, "T", 1 : i64]} : (tensor<4x?xf32>) -> tensor<4x?x1xf32>
  %scaled = coda.mul %rows, %factors : (tensor<4x?x8xf32>, tensor<4x?x1xf32>) -> tensor<4x?x8xf32>
  %y = torch.call "aten.bmm.default"(%scaled, %w) {coda.dims = [4 : i64, "T", 16 : i64], arguments = "{0}, {1}"} : (tensor<4x?x8xf32>, tensor<4x8x16xf32>) -> tensor<4x?x16xf32>
  %z = coda.sigmoid %y : (tensor<4x?x16xf32>) -> tensor<4x?x16xf32>
  %sum = coda.sum_to %z : (tensor<4x?x16xf32>) -> tensor<1x?x16xf32>
  func.return %sum : tensor<1x?x16xf32>
}

// REMARK: remark[missed] skip-zero-rows: coda.sum_to: all groups multiply all rows: other rows are unknown; failed condition: rows of groups that are not chosen are 0

// CHECK:      func.func @shifted(%x: tensor<?x8xf32> {coda.dims = ["T", 8 : i64]}, %scores: tensor<?x4xf32> {coda.dims = ["T", 4 : i64]}, %w: tensor<4x8x16xf32>) -> tensor<1x?x16xf32> {
// CHECK-NEXT:   %top, %ids = coda.topk %scores {k = 2 : i64, dim = 1 : i64} : (tensor<?x4xf32>) -> (tensor<?x2xf32>, tensor<?x2xi64>)
// CHECK-NEXT:   %number = coda.constant {value = 0.000000e+00 : f64} : tensor<f32>
// CHECK-NEXT:   fill
// CHECK-NEXT:   %chosen = coda.scatter %filled, %ids, %top {dim = 1 : i64} : (tensor<?x4xf32>, tensor<?x2xi64>, tensor<?x2xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   %rows = coda.broadcast %x : (tensor<?x8xf32>) -> tensor<4x?x8xf32>
// CHECK-NEXT:   %transposed = coda.transpose %chosen {perm = [1 : i64, 0 : i64]} : (tensor<?x4xf32>) -> tensor<4x?xf32>
// CHECK-NEXT:   %factors = coda.reshape %transposed {coda.dims = [4 : i64, "T", 1 : i64]} : (tensor<4x?xf32>) -> tensor<4x?x1xf32>
// CHECK-NEXT:   %scaled = coda.mul %rows, %factors : (tensor<4x?x8xf32>, tensor<4x?x1xf32>) -> tensor<4x?x8xf32>
// CHECK-NEXT:   %y = torch.call "aten.bmm.default"(%scaled, %w) {coda.dims = [4 : i64, "T", 16 : i64], arguments = "{0}, {1}"} : (tensor<4x?x8xf32>, tensor<4x8x16xf32>) -> tensor<4x?x16xf32>
// CHECK-NEXT:   %z = coda.sigmoid %y : (tensor<4x?x16xf32>) -> tensor<4x?x16xf32>
// CHECK-NEXT:   %sum = coda.sum_to %z : (tensor<4x?x16xf32>) -> tensor<1x?x16xf32>
// CHECK-NEXT:   func.return %sum : tensor<1x?x16xf32>
// CHECK-NEXT: }

// -----

// Numbers of groups that may be anything.

func.func @any(%x: tensor<?x8xf32> {coda.dims = ["T", 8 : i64]}, %scores: tensor<?x4xf32> {coda.dims = ["T", 4 : i64]}, %w: tensor<4x8x16xf32>, %ids: tensor<?x2xi64> {coda.dims = ["T", 2 : i64]}) -> tensor<1x?x16xf32> {
  %top, %ids_ = coda.topk %scores {k = 2 : i64, dim = 1 : i64} : (tensor<?x4xf32>) -> (tensor<?x2xf32>, tensor<?x2xi64>)
  %number = coda.constant {value = 0.0 : f64} : tensor<f32>
  %filled = coda.broadcast %number, %scores : (tensor<f32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  %chosen = coda.scatter %filled, %ids, %top {dim = 1 : i64} : (tensor<?x4xf32>, tensor<?x2xi64>, tensor<?x2xf32>) -> tensor<?x4xf32>
  %rows = coda.broadcast %x : (tensor<?x8xf32>) -> tensor<4x?x8xf32>
  %transposed = coda.transpose %chosen {perm = [1 : i64, 0 : i64]} : (tensor<?x4xf32>) -> tensor<4x?xf32>
  %factors = coda.reshape %transposed {coda.dims = [4 : i64, "T", 1 : i64]} : (tensor<4x?xf32>) -> tensor<4x?x1xf32>
  %scaled = coda.mul %rows, %factors : (tensor<4x?x8xf32>, tensor<4x?x1xf32>) -> tensor<4x?x8xf32>
  %y = torch.call "aten.bmm.default"(%scaled, %w) {coda.dims = [4 : i64, "T", 16 : i64], arguments = "{0}, {1}"} : (tensor<4x?x8xf32>, tensor<4x8x16xf32>) -> tensor<4x?x16xf32>
  %sum = coda.sum_to %y : (tensor<4x?x16xf32>) -> tensor<1x?x16xf32>
  func.return %sum : tensor<1x?x16xf32>
}

// REMARK: remark[missed] skip-zero-rows: coda.sum_to: all groups multiply all rows: numbers of groups may be invalid; failed condition: the numbers of groups are known to be valid, such as those of topk

// CHECK:      func.func @any(%x: tensor<?x8xf32> {coda.dims = ["T", 8 : i64]}, %scores: tensor<?x4xf32> {coda.dims = ["T", 4 : i64]}, %w: tensor<4x8x16xf32>, %ids: tensor<?x2xi64> {coda.dims = ["T", 2 : i64]}) -> tensor<1x?x16xf32> {
// CHECK-NEXT:   %top, %ids_ = coda.topk %scores {k = 2 : i64, dim = 1 : i64} : (tensor<?x4xf32>) -> (tensor<?x2xf32>, tensor<?x2xi64>)
// CHECK-NEXT:   %number = coda.constant {value = 0.000000e+00 : f64} : tensor<f32>
// CHECK-NEXT:   fill
// CHECK-NEXT:   %chosen = coda.scatter %filled, %ids, %top {dim = 1 : i64} : (tensor<?x4xf32>, tensor<?x2xi64>, tensor<?x2xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   %rows = coda.broadcast %x : (tensor<?x8xf32>) -> tensor<4x?x8xf32>
// CHECK-NEXT:   %transposed = coda.transpose %chosen {perm = [1 : i64, 0 : i64]} : (tensor<?x4xf32>) -> tensor<4x?xf32>
// CHECK-NEXT:   %factors = coda.reshape %transposed {coda.dims = [4 : i64, "T", 1 : i64]} : (tensor<4x?xf32>) -> tensor<4x?x1xf32>
// CHECK-NEXT:   %scaled = coda.mul %rows, %factors : (tensor<4x?x8xf32>, tensor<4x?x1xf32>) -> tensor<4x?x8xf32>
// CHECK-NEXT:   %y = torch.call "aten.bmm.default"(%scaled, %w) {coda.dims = [4 : i64, "T", 16 : i64], arguments = "{0}, {1}"} : (tensor<4x?x8xf32>, tensor<4x8x16xf32>) -> tensor<4x?x16xf32>
// CHECK-NEXT:   %sum = coda.sum_to %y : (tensor<4x?x16xf32>) -> tensor<1x?x16xf32>
// CHECK-NEXT:   func.return %sum : tensor<1x?x16xf32>
// CHECK-NEXT: }

// -----

// A group that comes twice for a token has one factor.

func.func @twice(%x: tensor<?x8xf32> {coda.dims = ["T", 8 : i64]}, %scores: tensor<?x8xf32> {coda.dims = ["T", 8 : i64]}, %w: tensor<4x8x16xf32>) -> tensor<1x?x16xf32> {
  %top, %best = coda.topk %scores {k = 2 : i64, dim = 1 : i64} : (tensor<?x8xf32>) -> (tensor<?x2xf32>, tensor<?x2xi64>)
  %number = coda.constant {value = 0.0 : f64} : tensor<f32>
  %two = coda.constant {value = 2 : i64} : tensor<i64>
  %ids = coda.floor_divide %best, %two : (tensor<?x2xi64>, tensor<i64>) -> tensor<?x2xi64>
  %like = coda.slice %scores {dim = 1 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<?x8xf32>) -> tensor<?x4xf32>
  %filled = coda.broadcast %number, %like : (tensor<f32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  %chosen = coda.scatter %filled, %ids, %top {dim = 1 : i64} : (tensor<?x4xf32>, tensor<?x2xi64>, tensor<?x2xf32>) -> tensor<?x4xf32>
  %rows = coda.broadcast %x : (tensor<?x8xf32>) -> tensor<4x?x8xf32>
  %transposed = coda.transpose %chosen {perm = [1 : i64, 0 : i64]} : (tensor<?x4xf32>) -> tensor<4x?xf32>
  %factors = coda.reshape %transposed {coda.dims = [4 : i64, "T", 1 : i64]} : (tensor<4x?xf32>) -> tensor<4x?x1xf32>
  %scaled = coda.mul %rows, %factors : (tensor<4x?x8xf32>, tensor<4x?x1xf32>) -> tensor<4x?x8xf32>
  %y = torch.call "aten.bmm.default"(%scaled, %w) {coda.dims = [4 : i64, "T", 16 : i64], arguments = "{0}, {1}"} : (tensor<4x?x8xf32>, tensor<4x8x16xf32>) -> tensor<4x?x16xf32>
  %sum = coda.sum_to %y : (tensor<4x?x16xf32>) -> tensor<1x?x16xf32>
  func.return %sum : tensor<1x?x16xf32>
}

// REMARK: remark[missed] skip-zero-rows: coda.sum_to: all groups multiply all rows: a group may be chosen twice, and counts once; failed condition: the groups of a token differ, as topk gives them

// -----

// A sum of the tokens of two groups.

func.func @halves(%x: tensor<?x8xf32> {coda.dims = ["T", 8 : i64]}, %scores: tensor<?x4xf32> {coda.dims = ["T", 4 : i64]}, %w: tensor<4x8x16xf32>) -> tensor<1x?x16xf32> {
  %top, %ids = coda.topk %scores {k = 2 : i64, dim = 1 : i64} : (tensor<?x4xf32>) -> (tensor<?x2xf32>, tensor<?x2xi64>)
  %number = coda.constant {value = 0.0 : f64} : tensor<f32>
  %filled = coda.broadcast %number, %scores : (tensor<f32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  %chosen = coda.scatter %filled, %ids, %top {dim = 1 : i64} : (tensor<?x4xf32>, tensor<?x2xi64>, tensor<?x2xf32>) -> tensor<?x4xf32>
  %rows = coda.broadcast %x : (tensor<?x8xf32>) -> tensor<4x?x8xf32>
  %transposed = coda.transpose %chosen {perm = [1 : i64, 0 : i64]} : (tensor<?x4xf32>) -> tensor<4x?xf32>
  %factors = coda.reshape %transposed {coda.dims = [4 : i64, "T", 1 : i64]} : (tensor<4x?xf32>) -> tensor<4x?x1xf32>
  %scaled = coda.mul %rows, %factors : (tensor<4x?x8xf32>, tensor<4x?x1xf32>) -> tensor<4x?x8xf32>
  %y = torch.call "aten.bmm.default"(%scaled, %w) {coda.dims = [4 : i64, "T", 16 : i64], arguments = "{0}, {1}"} : (tensor<4x?x8xf32>, tensor<4x8x16xf32>) -> tensor<4x?x16xf32>
  %pairs = coda.reshape %y {coda.dims = [2 : i64, "2*T", 16 : i64]} : (tensor<4x?x16xf32>) -> tensor<2x?x16xf32>
  %sum = coda.sum_to %pairs : (tensor<2x?x16xf32>) -> tensor<1x?x16xf32>
  func.return %sum : tensor<1x?x16xf32>
}

// REMARK: remark[missed] skip-zero-rows: coda.sum_to: all groups multiply all rows: the sum adds 2x?x16 in dimension 0; failed condition: a sum adds the rows of a token in all groups

// -----

// A choice for each element of a row.

func.func @elements(%x: tensor<?x8xf32> {coda.dims = ["T", 8 : i64]}, %scores: tensor<?x4xf32> {coda.dims = ["8*T", 4 : i64]}, %w: tensor<4x8x16xf32>) -> tensor<1x?x16xf32> {
  %top, %ids = coda.topk %scores {k = 2 : i64, dim = 1 : i64} : (tensor<?x4xf32>) -> (tensor<?x2xf32>, tensor<?x2xi64>)
  %number = coda.constant {value = 0.0 : f64} : tensor<f32>
  %filled = coda.broadcast %number, %scores : (tensor<f32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  %chosen = coda.scatter %filled, %ids, %top {dim = 1 : i64} : (tensor<?x4xf32>, tensor<?x2xi64>, tensor<?x2xf32>) -> tensor<?x4xf32>
  %rows = coda.broadcast %x : (tensor<?x8xf32>) -> tensor<4x?x8xf32>
  %transposed = coda.transpose %chosen {perm = [1 : i64, 0 : i64]} : (tensor<?x4xf32>) -> tensor<4x?xf32>
  %factors = coda.reshape %transposed {coda.dims = [4 : i64, "T", 8 : i64]} : (tensor<4x?xf32>) -> tensor<4x?x8xf32>
  %scaled = coda.mul %rows, %factors : (tensor<4x?x8xf32>, tensor<4x?x8xf32>) -> tensor<4x?x8xf32>
  %y = torch.call "aten.bmm.default"(%scaled, %w) {coda.dims = [4 : i64, "T", 16 : i64], arguments = "{0}, {1}"} : (tensor<4x?x8xf32>, tensor<4x8x16xf32>) -> tensor<4x?x16xf32>
  %sum = coda.sum_to %y : (tensor<4x?x16xf32>) -> tensor<1x?x16xf32>
  func.return %sum : tensor<1x?x16xf32>
}

// -----

// Minus infinity times 0 is no number.

func.func @infinite(%x: tensor<?x8xf32> {coda.dims = ["T", 8 : i64]}, %scores: tensor<?x4xf32> {coda.dims = ["T", 4 : i64]}, %w: tensor<4x8x16xf32>) -> tensor<1x?x16xf32> {
  %top, %ids = coda.topk %scores {k = 2 : i64, dim = 1 : i64} : (tensor<?x4xf32>) -> (tensor<?x2xf32>, tensor<?x2xi64>)
  %number = coda.constant {value = 0xfff0000000000000 : f64} : tensor<f32>
  %filled = coda.broadcast %number, %scores : (tensor<f32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  %chosen = coda.scatter %filled, %ids, %top {dim = 1 : i64} : (tensor<?x4xf32>, tensor<?x2xi64>, tensor<?x2xf32>) -> tensor<?x4xf32>
  %sigmoid = coda.sigmoid %chosen : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %silu = coda.mul %chosen, %sigmoid : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  %rows = coda.broadcast %x : (tensor<?x8xf32>) -> tensor<4x?x8xf32>
  %transposed = coda.transpose %silu {perm = [1 : i64, 0 : i64]} : (tensor<?x4xf32>) -> tensor<4x?xf32>
  %factors = coda.reshape %transposed {coda.dims = [4 : i64, "T", 1 : i64]} : (tensor<4x?xf32>) -> tensor<4x?x1xf32>
  %scaled = coda.mul %rows, %factors : (tensor<4x?x8xf32>, tensor<4x?x1xf32>) -> tensor<4x?x8xf32>
  %y = torch.call "aten.bmm.default"(%scaled, %w) {coda.dims = [4 : i64, "T", 16 : i64], arguments = "{0}, {1}"} : (tensor<4x?x8xf32>, tensor<4x8x16xf32>) -> tensor<4x?x16xf32>
  %sum = coda.sum_to %y : (tensor<4x?x16xf32>) -> tensor<1x?x16xf32>
  func.return %sum : tensor<1x?x16xf32>
}

// REMARK: remark[missed] skip-zero-rows: coda.sum_to: all groups multiply all rows: other rows are unknown; failed condition: rows of groups that are not chosen are 0

// -----

// The weights come first, and the rows are columns.

func.func @swapped(%x: tensor<8x8xf32>, %scores: tensor<8x4xf32>, %w: tensor<4x8x8xf32>) -> tensor<1x8x8xf32> {
  %top, %ids = coda.topk %scores {k = 2 : i64, dim = 1 : i64} : (tensor<8x4xf32>) -> (tensor<8x2xf32>, tensor<8x2xi64>)
  %number = coda.constant {value = 0.0 : f64} : tensor<f32>
  %filled = coda.broadcast %number : (tensor<f32>) -> tensor<8x4xf32>
  %chosen = coda.scatter %filled, %ids, %top {dim = 1 : i64} : (tensor<8x4xf32>, tensor<8x2xi64>, tensor<8x2xf32>) -> tensor<8x4xf32>
  %rows = coda.broadcast %x : (tensor<8x8xf32>) -> tensor<4x8x8xf32>
  %transposed = coda.transpose %chosen {perm = [1 : i64, 0 : i64]} : (tensor<8x4xf32>) -> tensor<4x8xf32>
  %factors = coda.reshape %transposed : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
  %scaled = coda.mul %rows, %factors : (tensor<4x8x8xf32>, tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
  %y = torch.call "aten.bmm.default"(%scaled, %w) {arguments = "{1}, {0}"} : (tensor<4x8x8xf32>, tensor<4x8x8xf32>) -> tensor<4x8x8xf32>
  %sum = coda.sum_to %y : (tensor<4x8x8xf32>) -> tensor<1x8x8xf32>
  func.return %sum : tensor<1x8x8xf32>
}

// RUN: coda-opt %s -p skip-zero-rows --split-input-file | filecheck %s
// RUN: coda-opt %s -p skip-zero-rows --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// What numbers outside of the chosen groups give: 1 in place of factors, and 1 added to a 0.

func.func @ones(%x: tensor<?x8xf32> {coda.dims = ["T", 8 : i64]}, %scores: tensor<?x4xf32> {coda.dims = ["T", 4 : i64]}, %w: tensor<4x8x16xf32>) -> tensor<1x?x16xf32> {
  %top, %ids = coda.topk %scores {k = 2 : i64, dim = 1 : i64} : (tensor<?x4xf32>) -> (tensor<?x2xf32>, tensor<?x2xi64>)
  %number = coda.constant {value = 1.0 : f64} : tensor<f32>
  %filled = coda.broadcast %number, %scores : (tensor<f32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  %chosen = coda.scatter %filled, %ids, %top {dim = 1 : i64} : (tensor<?x4xf32>, tensor<?x2xi64>, tensor<?x2xf32>) -> tensor<?x4xf32>
  %rows = coda.broadcast %x : (tensor<?x8xf32>) -> tensor<4x?x8xf32>
  %turned = coda.transpose %chosen {perm = [1 : i64, 0 : i64]} : (tensor<?x4xf32>) -> tensor<4x?xf32>
  %factors = coda.reshape %turned {coda.dims = [4 : i64, "T", 1 : i64]} : (tensor<4x?xf32>) -> tensor<4x?x1xf32>
  %scaled = coda.mul %rows, %factors : (tensor<4x?x8xf32>, tensor<4x?x1xf32>) -> tensor<4x?x8xf32>
  %y = torch.call "aten.bmm.default"(%scaled, %w) {coda.dims = [4 : i64, "T", 16 : i64], arguments = "{0}, {1}"} : (tensor<4x?x8xf32>, tensor<4x8x16xf32>) -> tensor<4x?x16xf32>
  %sum = coda.sum_to %y : (tensor<4x?x16xf32>) -> tensor<1x?x16xf32>
  func.return %sum : tensor<1x?x16xf32>
}

// REMARK: remark[missed] skip-zero-rows: coda.sum_to: all groups multiply all rows: the others are unknown; failed condition: rows of groups that are not chosen are 0

// CHECK:      func.func @ones(%x: tensor<?x8xf32> {coda.dims = ["T", 8 : i64]}, %scores: tensor<?x4xf32> {coda.dims = ["T", 4 : i64]}, %w: tensor<4x8x16xf32>) -> tensor<1x?x16xf32> {
// CHECK-NEXT:   %top, %ids = coda.topk %scores {k = 2 : i64, dim = 1 : i64} : (tensor<?x4xf32>) -> (tensor<?x2xf32>, tensor<?x2xi64>)
// CHECK-NEXT:   %number = coda.constant {value = 1.000000e+00 : f64} : tensor<f32>
// CHECK-NEXT:   fill
// CHECK-NEXT:   %chosen = coda.scatter %filled, %ids, %top {dim = 1 : i64} : (tensor<?x4xf32>, tensor<?x2xi64>, tensor<?x2xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   %rows = coda.broadcast %x : (tensor<?x8xf32>) -> tensor<4x?x8xf32>
// CHECK-NEXT:   %turned = coda.transpose %chosen {perm = [1 : i64, 0 : i64]} : (tensor<?x4xf32>) -> tensor<4x?xf32>
// CHECK-NEXT:   %factors = coda.reshape %turned {coda.dims = [4 : i64, "T", 1 : i64]} : (tensor<4x?xf32>) -> tensor<4x?x1xf32>
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
  %turned = coda.transpose %chosen {perm = [1 : i64, 0 : i64]} : (tensor<?x4xf32>) -> tensor<4x?xf32>
  %factors = coda.reshape %turned {coda.dims = [4 : i64, "T", 1 : i64]} : (tensor<4x?xf32>) -> tensor<4x?x1xf32>
  %scaled = coda.mul %rows, %factors : (tensor<4x?x8xf32>, tensor<4x?x1xf32>) -> tensor<4x?x8xf32>
  %y = torch.call "aten.bmm.default"(%scaled, %w) {coda.dims = [4 : i64, "T", 16 : i64], arguments = "{0}, {1}"} : (tensor<4x?x8xf32>, tensor<4x8x16xf32>) -> tensor<4x?x16xf32>
  %z = coda.sigmoid %y : (tensor<4x?x16xf32>) -> tensor<4x?x16xf32>
  %sum = coda.sum_to %z : (tensor<4x?x16xf32>) -> tensor<1x?x16xf32>
  func.return %sum : tensor<1x?x16xf32>
}

// REMARK: remark[missed] skip-zero-rows: coda.sum_to: all groups multiply all rows: the others are unknown; failed condition: rows of groups that are not chosen are 0

// CHECK:      func.func @shifted(%x: tensor<?x8xf32> {coda.dims = ["T", 8 : i64]}, %scores: tensor<?x4xf32> {coda.dims = ["T", 4 : i64]}, %w: tensor<4x8x16xf32>) -> tensor<1x?x16xf32> {
// CHECK-NEXT:   %top, %ids = coda.topk %scores {k = 2 : i64, dim = 1 : i64} : (tensor<?x4xf32>) -> (tensor<?x2xf32>, tensor<?x2xi64>)
// CHECK-NEXT:   %number = coda.constant {value = 0.000000e+00 : f64} : tensor<f32>
// CHECK-NEXT:   fill
// CHECK-NEXT:   %chosen = coda.scatter %filled, %ids, %top {dim = 1 : i64} : (tensor<?x4xf32>, tensor<?x2xi64>, tensor<?x2xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   %rows = coda.broadcast %x : (tensor<?x8xf32>) -> tensor<4x?x8xf32>
// CHECK-NEXT:   %turned = coda.transpose %chosen {perm = [1 : i64, 0 : i64]} : (tensor<?x4xf32>) -> tensor<4x?xf32>
// CHECK-NEXT:   %factors = coda.reshape %turned {coda.dims = [4 : i64, "T", 1 : i64]} : (tensor<4x?xf32>) -> tensor<4x?x1xf32>
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
  %turned = coda.transpose %chosen {perm = [1 : i64, 0 : i64]} : (tensor<?x4xf32>) -> tensor<4x?xf32>
  %factors = coda.reshape %turned {coda.dims = [4 : i64, "T", 1 : i64]} : (tensor<4x?xf32>) -> tensor<4x?x1xf32>
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
// CHECK-NEXT:   %turned = coda.transpose %chosen {perm = [1 : i64, 0 : i64]} : (tensor<?x4xf32>) -> tensor<4x?xf32>
// CHECK-NEXT:   %factors = coda.reshape %turned {coda.dims = [4 : i64, "T", 1 : i64]} : (tensor<4x?xf32>) -> tensor<4x?x1xf32>
// CHECK-NEXT:   %scaled = coda.mul %rows, %factors : (tensor<4x?x8xf32>, tensor<4x?x1xf32>) -> tensor<4x?x8xf32>
// CHECK-NEXT:   %y = torch.call "aten.bmm.default"(%scaled, %w) {coda.dims = [4 : i64, "T", 16 : i64], arguments = "{0}, {1}"} : (tensor<4x?x8xf32>, tensor<4x8x16xf32>) -> tensor<4x?x16xf32>
// CHECK-NEXT:   %sum = coda.sum_to %y : (tensor<4x?x16xf32>) -> tensor<1x?x16xf32>
// CHECK-NEXT:   func.return %sum : tensor<1x?x16xf32>
// CHECK-NEXT: }

// RUN: coda-opt %s -p skip-zero-rows,dce --split-input-file | filecheck %s
// RUN: coda-opt %s -p skip-zero-rows --split-input-file --remarks=passed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// Llama 4: all tokens, times the sigmoid of the largest score or of minus infinity.

func.func @scaled_first(%x: tensor<?x8xf32> {coda.dims = ["T", 8 : i64]}, %scores: tensor<?x4xf32> {coda.dims = ["T", 4 : i64]}, %w: tensor<4x8x12xf32>, %v: tensor<4x6x8xf32>) -> tensor<?x8xf32> {
  %top, %ids = coda.topk %scores {k = 1 : i64, dim = 1 : i64} : (tensor<?x4xf32>) -> (tensor<?x1xf32>, tensor<?x1xi64>)
  %lowest = coda.constant {value = 0xfff0000000000000 : f64} : tensor<f32>
  %filled = coda.broadcast %lowest, %scores : (tensor<f32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  %chosen = coda.scatter %filled, %ids, %top {dim = 1 : i64} : (tensor<?x4xf32>, tensor<?x1xi64>, tensor<?x1xf32>) -> tensor<?x4xf32>
  %s = coda.sigmoid %chosen : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %repeat = torch.call "aten.repeat.default"(%x) {coda.dims = ["4*T", 8 : i64], arguments = "{0}, [4, 1]"} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %transposed = coda.transpose %s {perm = [1 : i64, 0 : i64]} : (tensor<?x4xf32>) -> tensor<4x?xf32>
  %factors = coda.reshape %transposed {coda.dims = ["4*T", 1 : i64]} : (tensor<4x?xf32>) -> tensor<?x1xf32>
  %scaled = coda.mul %repeat, %factors : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  %rows = coda.reshape %scaled {coda.dims = [4 : i64, "T", 8 : i64]} : (tensor<?x8xf32>) -> tensor<4x?x8xf32>
  %up = torch.call "aten.bmm.default"(%rows, %w) {coda.dims = [4 : i64, "T", 12 : i64], arguments = "{0}, {1}"} : (tensor<4x?x8xf32>, tensor<4x8x12xf32>) -> tensor<4x?x12xf32>
  %gate = coda.slice %up {dim = 2 : i64, start = 0 : i64, stop = 6 : i64} : (tensor<4x?x12xf32>) -> tensor<4x?x6xf32>
  %value = coda.slice %up {dim = 2 : i64, start = 6 : i64, stop = 12 : i64} : (tensor<4x?x12xf32>) -> tensor<4x?x6xf32>
  %act = coda.silu %gate : (tensor<4x?x6xf32>) -> tensor<4x?x6xf32>
  %a = coda.mul %value, %act : (tensor<4x?x6xf32>, tensor<4x?x6xf32>) -> tensor<4x?x6xf32>
  %down = torch.call "aten.bmm.default"(%a, %v) {coda.dims = [4 : i64, "T", 8 : i64], arguments = "{0}, {1}"} : (tensor<4x?x6xf32>, tensor<4x6x8xf32>) -> tensor<4x?x8xf32>
  %sum = coda.sum_to %down : (tensor<4x?x8xf32>) -> tensor<1x?x8xf32>
  %result = coda.reshape %sum {coda.dims = ["T", 8 : i64]} : (tensor<1x?x8xf32>) -> tensor<?x8xf32>
  func.return %result : tensor<?x8xf32>
}

// REMARK: remark[passed] skip-zero-rows: coda.sum_to: computes rows of 1 of 4 groups: the others are 0

// CHECK:      func.func @scaled_first(%x: tensor<?x8xf32> {coda.dims = ["T", 8 : i64]}, %scores: tensor<?x4xf32> {coda.dims = ["T", 4 : i64]}, %w: tensor<4x8x12xf32>, %v: tensor<4x6x8xf32>) -> tensor<?x8xf32> {
// CHECK-NEXT:   %top, %ids = coda.topk %scores {k = 1 : i64, dim = 1 : i64} : (tensor<?x4xf32>) -> (tensor<?x1xf32>, tensor<?x1xi64>)
// CHECK-NEXT:   %ids_1 = coda.reshape %ids {coda.dims = ["T"]} : (tensor<?x1xi64>) -> tensor<?xi64>
// CHECK-NEXT:   %chosen, %chosen_1 = coda.group_order %ids_1 {groups = 4 : i64} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<4xi32>)
// CHECK-NEXT:   %repeat = coda.index %x, %chosen {dim = 0 : i64} : (tensor<?x8xf32>, tensor<?xi64>) -> tensor<?x8xf32>
// CHECK-NEXT:   %s = coda.sigmoid %top : (tensor<?x1xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %s_1 = coda.reshape %s {coda.dims = ["T"]} : (tensor<?x1xf32>) -> tensor<?xf32>
// CHECK-NEXT:   %transposed = coda.index %s_1, %chosen {dim = 0 : i64} : (tensor<?xf32>, tensor<?xi64>) -> tensor<?xf32>
// CHECK-NEXT:   %transposed_1 = coda.reshape %transposed {coda.dims = ["T", 1 : i64]} : (tensor<?xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %scaled = coda.mul %repeat, %transposed_1 : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %up = coda.grouped_matmul %scaled, %w, %chosen_1 : (tensor<?x8xf32>, tensor<4x8x12xf32>, tensor<4xi32>) -> tensor<?x12xf32>
// CHECK-NEXT:   %value = coda.slice %up {dim = 1 : i64, start = 6 : i64, stop = 12 : i64} : (tensor<?x12xf32>) -> tensor<?x6xf32>
// CHECK-NEXT:   %gate = coda.slice %up {dim = 1 : i64, start = 0 : i64, stop = 6 : i64} : (tensor<?x12xf32>) -> tensor<?x6xf32>
// CHECK-NEXT:   %act = coda.silu %gate : (tensor<?x6xf32>) -> tensor<?x6xf32>
// CHECK-NEXT:   %a = coda.mul %value, %act : (tensor<?x6xf32>, tensor<?x6xf32>) -> tensor<?x6xf32>
// CHECK-NEXT:   %down = coda.grouped_matmul %a, %v, %chosen_1 : (tensor<?x6xf32>, tensor<4x6x8xf32>, tensor<4xi32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %0 = coda.positions %chosen {dim = 0 : i64, start = 0 : i64, step = 1 : i64} : (tensor<?xi64>) -> tensor<?xi64>
// CHECK-NEXT:   %1 = coda.scatter %0, %chosen, %0 {dim = 0 : i64} : (tensor<?xi64>, tensor<?xi64>, tensor<?xi64>) -> tensor<?xi64>
// CHECK-NEXT:   %down_1 = coda.index %down, %1 {dim = 0 : i64} : (tensor<?x8xf32>, tensor<?xi64>) -> tensor<?x8xf32>
// CHECK-NEXT:   %down_2 = coda.reshape %down_1 {coda.dims = ["T", 1 : i64, 8 : i64]} : (tensor<?x8xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %2 = coda.sum_to %down_2 : (tensor<?x1x8xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %sum = coda.reshape %2 {coda.dims = [1 : i64, "T", 8 : i64]} : (tensor<?x1x8xf32>) -> tensor<1x?x8xf32>
// CHECK-NEXT:   %result = coda.reshape %sum {coda.dims = ["T", 8 : i64]} : (tensor<1x?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   func.return %result : tensor<?x8xf32>
// CHECK-NEXT: }

// -----

// Two groups of a token, weights as PyTorch stores those of linear layers, and factors at the end.

func.func @scaled_last(%x: tensor<?x8xbf16> {coda.dims = ["T", 8 : i64]}, %scores: tensor<?x4xf32> {coda.dims = ["T", 4 : i64]}, %w: tensor<4x16x8xbf16>) -> tensor<1x?x16xf32> {
  %top, %ids = coda.topk %scores {k = 2 : i64, dim = 1 : i64} : (tensor<?x4xf32>) -> (tensor<?x2xf32>, tensor<?x2xi64>)
  %zero = coda.constant {value = 0.0 : f64} : tensor<f32>
  %zeros = coda.broadcast %zero, %scores : (tensor<f32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  %chosen = coda.scatter %zeros, %ids, %top {dim = 1 : i64} : (tensor<?x4xf32>, tensor<?x2xi64>, tensor<?x2xf32>) -> tensor<?x4xf32>
  %one = coda.reshape %x {coda.dims = [1 : i64, "T", 8 : i64]} : (tensor<?x8xbf16>) -> tensor<1x?x8xbf16>
  %rows = coda.broadcast %one : (tensor<1x?x8xbf16>) -> tensor<4x?x8xbf16>
  %matrices = coda.transpose %w {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<4x16x8xbf16>) -> tensor<4x8x16xbf16>
  %y = torch.call "aten.matmul.default"(%rows, %matrices) {coda.dims = [4 : i64, "T", 16 : i64], arguments = "{0}, {1}"} : (tensor<4x?x8xbf16>, tensor<4x8x16xbf16>) -> tensor<4x?x16xbf16>
  %wide = coda.cast %y : (tensor<4x?x16xbf16>) -> tensor<4x?x16xf32>
  %two = coda.constant {value = 2.0 : f64} : tensor<f32>
  %shifted = coda.add %wide, %two : (tensor<4x?x16xf32>, tensor<f32>) -> tensor<4x?x16xf32>
  %transposed = coda.transpose %chosen {perm = [1 : i64, 0 : i64]} : (tensor<?x4xf32>) -> tensor<4x?xf32>
  %factors = coda.reshape %transposed {coda.dims = [4 : i64, "T", 1 : i64]} : (tensor<4x?xf32>) -> tensor<4x?x1xf32>
  %scaled = coda.mul %shifted, %factors : (tensor<4x?x16xf32>, tensor<4x?x1xf32>) -> tensor<4x?x16xf32>
  %sum = coda.sum_to %scaled : (tensor<4x?x16xf32>) -> tensor<1x?x16xf32>
  func.return %sum : tensor<1x?x16xf32>
}

// REMARK: remark[passed] skip-zero-rows: coda.sum_to: computes rows of 2 of 4 groups: the others are 0

// CHECK:      func.func @scaled_last(%x: tensor<?x8xbf16> {coda.dims = ["T", 8 : i64]}, %scores: tensor<?x4xf32> {coda.dims = ["T", 4 : i64]}, %w: tensor<4x16x8xbf16>) -> tensor<1x?x16xf32> {
// CHECK-NEXT:   %top, %ids = coda.topk %scores {k = 2 : i64, dim = 1 : i64} : (tensor<?x4xf32>) -> (tensor<?x2xf32>, tensor<?x2xi64>)
// CHECK-NEXT:   %one = coda.reshape %x {coda.dims = [1 : i64, "T", 8 : i64]} : (tensor<?x8xbf16>) -> tensor<1x?x8xbf16>
// CHECK-NEXT:   %two = coda.constant {value = 2.000000e+00 : f64} : tensor<f32>
// CHECK-NEXT:   %ids_1 = coda.reshape %ids {coda.dims = ["2*T"]} : (tensor<?x2xi64>) -> tensor<?xi64>
// CHECK-NEXT:   %chosen, %chosen_1 = coda.group_order %ids_1 {groups = 4 : i64} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<4xi32>)
// CHECK-NEXT:   %rows = coda.constant {value = 2 : i64} : tensor<i64>
// CHECK-NEXT:   %rows_1 = coda.floor_divide %chosen, %rows : (tensor<?xi64>, tensor<i64>) -> tensor<?xi64>
// CHECK-NEXT:   %one_1 = coda.reshape %one {coda.dims = ["T", 8 : i64]} : (tensor<1x?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %rows_2 = coda.index %one_1, %rows_1 {dim = 0 : i64} : (tensor<?x8xbf16>, tensor<?xi64>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %y = coda.grouped_linear %rows_2, %w, %chosen_1 : (tensor<?x8xbf16>, tensor<4x16x8xbf16>, tensor<4xi32>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %wide = coda.cast %y : (tensor<?x16xbf16>) -> tensor<?x16xf32>
// CHECK-NEXT:   %shifted = coda.add %wide, %two : (tensor<?x16xf32>, tensor<f32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %top_1 = coda.reshape %top {coda.dims = ["2*T"]} : (tensor<?x2xf32>) -> tensor<?xf32>
// CHECK-NEXT:   %transposed = coda.index %top_1, %chosen {dim = 0 : i64} : (tensor<?xf32>, tensor<?xi64>) -> tensor<?xf32>
// CHECK-NEXT:   %transposed_1 = coda.reshape %transposed {coda.dims = ["2*T", 1 : i64]} : (tensor<?xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %scaled = coda.mul %shifted, %transposed_1 : (tensor<?x16xf32>, tensor<?x1xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %0 = coda.positions %chosen {dim = 0 : i64, start = 0 : i64, step = 1 : i64} : (tensor<?xi64>) -> tensor<?xi64>
// CHECK-NEXT:   %1 = coda.scatter %0, %chosen, %0 {dim = 0 : i64} : (tensor<?xi64>, tensor<?xi64>, tensor<?xi64>) -> tensor<?xi64>
// CHECK-NEXT:   %scaled_1 = coda.index %scaled, %1 {dim = 0 : i64} : (tensor<?x16xf32>, tensor<?xi64>) -> tensor<?x16xf32>
// CHECK-NEXT:   %scaled_2 = coda.reshape %scaled_1 {coda.dims = ["T", 2 : i64, 16 : i64]} : (tensor<?x16xf32>) -> tensor<?x2x16xf32>
// CHECK-NEXT:   %2 = coda.sum_to %scaled_2 : (tensor<?x2x16xf32>) -> tensor<?x1x16xf32>
// CHECK-NEXT:   %sum = coda.reshape %2 {coda.dims = [1 : i64, "T", 16 : i64]} : (tensor<?x1x16xf32>) -> tensor<1x?x16xf32>
// CHECK-NEXT:   func.return %sum : tensor<1x?x16xf32>
// CHECK-NEXT: }

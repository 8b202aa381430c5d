// RUN: coda-opt %s -p raise-ssd --split-input-file | filecheck %s
// RUN: coda-opt %s -p raise-ssd --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// c that is computed behind the states that a cache has, rows that pad the last chunk, another mask, and float64.

func.func @c_is_computed_later(%x: tensor<2x7x2x2xf32>, %dt: tensor<2x7x2xf32>, %a: tensor<2xf32>, %b: tensor<2x7x1x3xf32>, %c0: tensor<2x7x1x3xf32>) -> (tensor<2x7x2x2xf32>, tensor<2x1x2x2x3xf32>) {
  %0 = coda.constant {value = 1.000000e+00 : f64} : tensor<f32>
  %full = coda.broadcast %0 : (tensor<f32>) -> tensor<2x2x2x3xf32>
  %clamp = coda.constant {value = 0.000000e+00 : f64} : tensor<f32>
  %clamp_1 = coda.maximum %dt, %clamp : (tensor<2x7x2xf32>, tensor<f32>) -> tensor<2x7x2xf32>
  %clamp_2 = coda.constant {value = 0x7ff0000000000000 : f64} : tensor<f32>
  %clamp_3 = coda.minimum %clamp_1, %clamp_2 : (tensor<2x7x2xf32>, tensor<f32>) -> tensor<2x7x2xf32>
  %unsqueeze = coda.reshape %b {coda.dims = [2 : i64, 7 : i64, 1 : i64, 1 : i64, 3 : i64]} : (tensor<2x7x1x3xf32>) -> tensor<2x7x1x1x3xf32>
  %expand = torch.call "aten.expand.default"(%unsqueeze) {coda.dims = [2 : i64, 7 : i64, 1 : i64, 2 : i64, 3 : i64], arguments = "{0}, [2, 7, 1, 2, 3]", view} : (tensor<2x7x1x1x3xf32>) -> tensor<2x7x1x2x3xf32>
  %view = coda.reshape %expand {coda.dims = [2 : i64, 7 : i64, 2 : i64, 3 : i64]} : (tensor<2x7x1x2x3xf32>) -> tensor<2x7x2x3xf32>
  %unsqueeze_2 = coda.reshape %clamp_3 {coda.dims = [2 : i64, 7 : i64, 2 : i64, 1 : i64]} : (tensor<2x7x2xf32>) -> tensor<2x7x2x1xf32>
  %mul = coda.mul %x, %unsqueeze_2 : (tensor<2x7x2x2xf32>, tensor<2x7x2x1xf32>) -> tensor<2x7x2x2xf32>
  %mul_1 = coda.mul %a, %clamp_3 : (tensor<2xf32>, tensor<2x7x2xf32>) -> tensor<2x7x2xf32>
  %pad = coda.pad %mul {dim = 1 : i64, start = 0 : i64} : (tensor<2x7x2x2xf32>) -> tensor<2x8x2x2xf32>
  %pad_1 = coda.pad %mul_1 {dim = 1 : i64, start = 0 : i64} : (tensor<2x7x2xf32>) -> tensor<2x8x2xf32>
  %view_2 = coda.reshape %pad_1 {coda.dims = [2 : i64, 2 : i64, 4 : i64, 2 : i64]} : (tensor<2x8x2xf32>) -> tensor<2x2x4x2xf32>
  %pad_2 = coda.pad %view {dim = 1 : i64, start = 0 : i64} : (tensor<2x7x2x3xf32>) -> tensor<2x8x2x3xf32>
  %view_3 = coda.reshape %pad_2 {coda.dims = [2 : i64, 2 : i64, 4 : i64, 2 : i64, 3 : i64]} : (tensor<2x8x2x3xf32>) -> tensor<2x2x4x2x3xf32>
  %permute = coda.transpose %view_2 {perm = [0 : i64, 3 : i64, 1 : i64, 2 : i64]} : (tensor<2x2x4x2xf32>) -> tensor<2x2x2x4xf32>
  %cumsum = coda.cumsum %permute {dim = 3 : i64} : (tensor<2x2x2x4xf32>) -> tensor<2x2x2x4xf32>
  %scalar_tensor = coda.constant {value = 0.000000e+00 : f64} : tensor<f32>
  %scalar_tensor_1 = coda.constant {value = 0xfff0000000000000 : f64} : tensor<f32>
  %slice = coda.slice %cumsum {dim = 3 : i64, start = 3 : i64, stop = 4 : i64} : (tensor<2x2x2x4xf32>) -> tensor<2x2x2x1xf32>
  %sub_1 = coda.sub %slice, %cumsum : (tensor<2x2x2x1xf32>, tensor<2x2x2x4xf32>) -> tensor<2x2x2x4xf32>
  %exp_1 = coda.exp %sub_1 : (tensor<2x2x2x4xf32>) -> tensor<2x2x2x4xf32>
  %permute_2 = coda.transpose %exp_1 {perm = [0 : i64, 2 : i64, 3 : i64, 1 : i64]} : (tensor<2x2x2x4xf32>) -> tensor<2x2x4x2xf32>
  %unsqueeze_10 = coda.reshape %permute_2 {coda.dims = [2 : i64, 2 : i64, 4 : i64, 2 : i64, 1 : i64]} : (tensor<2x2x4x2xf32>) -> tensor<2x2x4x2x1xf32>
  %mul_5 = coda.mul %view_3, %unsqueeze_10 : (tensor<2x2x4x2x3xf32>, tensor<2x2x4x2x1xf32>) -> tensor<2x2x4x2x3xf32>
  %unsqueeze_11 = coda.reshape %mul_5 {coda.dims = [2 : i64, 2 : i64, 4 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x2x4x2x3xf32>) -> tensor<2x2x4x2x1x3xf32>
  %unsqueeze_12 = coda.reshape %pad : (tensor<2x8x2x2xf32>) -> tensor<2x2x4x2x2x1xf32>
  %mul_6 = coda.mul %unsqueeze_11, %unsqueeze_12 : (tensor<2x2x4x2x1x3xf32>, tensor<2x2x4x2x2x1xf32>) -> tensor<2x2x4x2x2x3xf32>
  %5 = coda.sum_to %mul_6 : (tensor<2x2x4x2x2x3xf32>) -> tensor<2x2x1x2x2x3xf32>
  %sum_3 = coda.reshape %5 {coda.dims = [2 : i64, 2 : i64, 2 : i64, 2 : i64, 3 : i64]} : (tensor<2x2x1x2x2x3xf32>) -> tensor<2x2x2x2x3xf32>
  %unsqueeze_13 = coda.reshape %full {coda.dims = [2 : i64, 1 : i64, 2 : i64, 2 : i64, 3 : i64]} : (tensor<2x2x2x3xf32>) -> tensor<2x1x2x2x3xf32>
  %cat = coda.concat %unsqueeze_13, %sum_3 {dim = 1 : i64} : (tensor<2x1x2x2x3xf32>, tensor<2x2x2x2x3xf32>) -> tensor<2x3x2x2x3xf32>
  %select = coda.reshape %slice {coda.dims = [2 : i64, 2 : i64, 2 : i64]} : (tensor<2x2x2x1xf32>) -> tensor<2x2x2xf32>
  %pad_4 = coda.pad %select {dim = 2 : i64, start = 1 : i64} : (tensor<2x2x2xf32>) -> tensor<2x2x3xf32>
  %unsqueeze_14 = coda.reshape %pad_4 {coda.dims = [2 : i64, 2 : i64, 3 : i64, 1 : i64]} : (tensor<2x2x3xf32>) -> tensor<2x2x3x1xf32>
  %6 = coda.constant {value = 1 : i64} : tensor<i1>
  %arange_1 = coda.positions {start = 0 : i64, step = 1 : i64} : () -> tensor<3xi64>
  %unsqueeze_15 = coda.reshape %arange_1 {coda.dims = [1 : i64, 3 : i64]} : (tensor<3xi64>) -> tensor<1x3xi64>
  %unsqueeze_16 = coda.reshape %arange_1 {coda.dims = [3 : i64, 1 : i64]} : (tensor<3xi64>) -> tensor<3x1xi64>
  %sub_2 = coda.sub %unsqueeze_15, %unsqueeze_16 : (tensor<1x3xi64>, tensor<3x1xi64>) -> tensor<3x3xi64>
  %7 = coda.constant {value = -1 : i64} : tensor<i64>
  %le_2 = coda.compare %sub_2, %7 {relation = "le"} : (tensor<3x3xi64>, tensor<i64>) -> tensor<3x3xi1>
  %logical_and_2 = coda.logical_and %le_2, %6 : (tensor<3x3xi1>, tensor<i1>) -> tensor<3x3xi1>
  %bitwise_not_2 = coda.logical_not %logical_and_2 : (tensor<3x3xi1>) -> tensor<3x3xi1>
  %where_2 = coda.where %bitwise_not_2, %scalar_tensor, %unsqueeze_14 : (tensor<3x3xi1>, tensor<f32>, tensor<2x2x3x1xf32>) -> tensor<2x2x3x3xf32>
  %cumsum_2 = coda.cumsum %where_2 {dim = 2 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %8 = coda.constant {value = 0 : i64} : tensor<i64>
  %le_3 = coda.compare %sub_2, %8 {relation = "le"} : (tensor<3x3xi64>, tensor<i64>) -> tensor<3x3xi1>
  %logical_and_3 = coda.logical_and %le_3, %6 : (tensor<3x3xi1>, tensor<i1>) -> tensor<3x3xi1>
  %bitwise_not_3 = coda.logical_not %logical_and_3 : (tensor<3x3xi1>) -> tensor<3x3xi1>
  %where_3 = coda.where %bitwise_not_3, %scalar_tensor_1, %cumsum_2 : (tensor<3x3xi1>, tensor<f32>, tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %exp_2 = coda.exp %where_3 : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %transpose = coda.transpose %exp_2 {perm = [0 : i64, 3 : i64, 2 : i64, 1 : i64]} : (tensor<2x2x3x3xf32>) -> tensor<2x3x3x2xf32>
  %unsqueeze_17 = coda.reshape %transpose : (tensor<2x3x3x2xf32>) -> tensor<2x3x3x2x1x1xf32>
  %unsqueeze_18 = coda.reshape %cat {coda.dims = [2 : i64, 3 : i64, 1 : i64, 2 : i64, 2 : i64, 3 : i64]} : (tensor<2x3x2x2x3xf32>) -> tensor<2x3x1x2x2x3xf32>
  %mul_7 = coda.mul %unsqueeze_17, %unsqueeze_18 : (tensor<2x3x3x2x1x1xf32>, tensor<2x3x1x2x2x3xf32>) -> tensor<2x3x3x2x2x3xf32>
  %9 = coda.sum_to %mul_7 : (tensor<2x3x3x2x2x3xf32>) -> tensor<2x1x3x2x2x3xf32>
  %sum_4 = coda.reshape %9 {coda.dims = [2 : i64, 3 : i64, 2 : i64, 2 : i64, 3 : i64]} : (tensor<2x1x3x2x2x3xf32>) -> tensor<2x3x2x2x3xf32>
  %last = coda.slice %sum_4 {dim = 1 : i64, start = 2 : i64, stop = 3 : i64} : (tensor<2x3x2x2x3xf32>) -> tensor<2x1x2x2x3xf32>
  %c = coda.neg %c0 : (tensor<2x7x1x3xf32>) -> tensor<2x7x1x3xf32>
  %unsqueeze_1 = coda.reshape %c {coda.dims = [2 : i64, 7 : i64, 1 : i64, 1 : i64, 3 : i64]} : (tensor<2x7x1x3xf32>) -> tensor<2x7x1x1x3xf32>
  %expand_1 = torch.call "aten.expand.default"(%unsqueeze_1) {coda.dims = [2 : i64, 7 : i64, 1 : i64, 2 : i64, 3 : i64], arguments = "{0}, [2, 7, 1, 2, 3]", view} : (tensor<2x7x1x1x3xf32>) -> tensor<2x7x1x2x3xf32>
  %view_1 = coda.reshape %expand_1 {coda.dims = [2 : i64, 7 : i64, 2 : i64, 3 : i64]} : (tensor<2x7x1x2x3xf32>) -> tensor<2x7x2x3xf32>
  %pad_3 = coda.pad %view_1 {dim = 1 : i64, start = 0 : i64} : (tensor<2x7x2x3xf32>) -> tensor<2x8x2x3xf32>
  %unsqueeze_3 = coda.reshape %permute {coda.dims = [2 : i64, 2 : i64, 2 : i64, 4 : i64, 1 : i64]} : (tensor<2x2x2x4xf32>) -> tensor<2x2x2x4x1xf32>
  %1 = coda.constant {value = 1 : i64} : tensor<i1>
  %arange = coda.positions {start = 0 : i64, step = 1 : i64} : () -> tensor<4xi64>
  %unsqueeze_4 = coda.reshape %arange {coda.dims = [1 : i64, 4 : i64]} : (tensor<4xi64>) -> tensor<1x4xi64>
  %unsqueeze_5 = coda.reshape %arange {coda.dims = [4 : i64, 1 : i64]} : (tensor<4xi64>) -> tensor<4x1xi64>
  %sub = coda.sub %unsqueeze_4, %unsqueeze_5 : (tensor<1x4xi64>, tensor<4x1xi64>) -> tensor<4x4xi64>
  %2 = coda.constant {value = -1 : i64} : tensor<i64>
  %le = coda.compare %sub, %2 {relation = "le"} : (tensor<4x4xi64>, tensor<i64>) -> tensor<4x4xi1>
  %logical_and = coda.logical_and %le, %1 : (tensor<4x4xi1>, tensor<i1>) -> tensor<4x4xi1>
  %bitwise_not = coda.logical_not %logical_and : (tensor<4x4xi1>) -> tensor<4x4xi1>
  %where = coda.where %bitwise_not, %scalar_tensor, %unsqueeze_3 : (tensor<4x4xi1>, tensor<f32>, tensor<2x2x2x4x1xf32>) -> tensor<2x2x2x4x4xf32>
  %cumsum_1 = coda.cumsum %where {dim = 3 : i64} : (tensor<2x2x2x4x4xf32>) -> tensor<2x2x2x4x4xf32>
  %3 = coda.constant {value = 0 : i64} : tensor<i64>
  %le_1 = coda.compare %sub, %3 {relation = "le"} : (tensor<4x4xi64>, tensor<i64>) -> tensor<4x4xi1>
  %logical_and_1 = coda.logical_and %le_1, %1 : (tensor<4x4xi1>, tensor<i1>) -> tensor<4x4xi1>
  %bitwise_not_1 = coda.logical_not %logical_and_1 : (tensor<4x4xi1>) -> tensor<4x4xi1>
  %where_1 = coda.where %bitwise_not_1, %scalar_tensor_1, %cumsum_1 : (tensor<4x4xi1>, tensor<f32>, tensor<2x2x2x4x4xf32>) -> tensor<2x2x2x4x4xf32>
  %exp = coda.exp %where_1 : (tensor<2x2x2x4x4xf32>) -> tensor<2x2x2x4x4xf32>
  %unsqueeze_6 = coda.reshape %pad_3 : (tensor<2x8x2x3xf32>) -> tensor<2x2x4x1x2x3xf32>
  %unsqueeze_7 = coda.reshape %pad_2 : (tensor<2x8x2x3xf32>) -> tensor<2x2x1x4x2x3xf32>
  %mul_2 = coda.mul %unsqueeze_6, %unsqueeze_7 : (tensor<2x2x4x1x2x3xf32>, tensor<2x2x1x4x2x3xf32>) -> tensor<2x2x4x4x2x3xf32>
  %sum = coda.reduce %mul_2 {kind = "sum"} : (tensor<2x2x4x4x2x3xf32>) -> tensor<2x2x4x4x2x1xf32>
  %permute_1 = coda.transpose %exp {perm = [0 : i64, 2 : i64, 3 : i64, 4 : i64, 1 : i64]} : (tensor<2x2x2x4x4xf32>) -> tensor<2x2x4x4x2xf32>
  %unsqueeze_8 = coda.reshape %permute_1 {coda.dims = [2 : i64, 2 : i64, 4 : i64, 4 : i64, 2 : i64, 1 : i64]} : (tensor<2x2x4x4x2xf32>) -> tensor<2x2x4x4x2x1xf32>
  %mul_3 = coda.mul %sum, %unsqueeze_8 : (tensor<2x2x4x4x2x1xf32>, tensor<2x2x4x4x2x1xf32>) -> tensor<2x2x4x4x2x1xf32>
  %sum_1 = coda.reduce %mul_3 {kind = "sum"} : (tensor<2x2x4x4x2x1xf32>) -> tensor<2x2x4x4x2x1xf32>
  %unsqueeze_9 = coda.reshape %pad : (tensor<2x8x2x2xf32>) -> tensor<2x2x1x4x2x2xf32>
  %mul_4 = coda.mul %sum_1, %unsqueeze_9 : (tensor<2x2x4x4x2x1xf32>, tensor<2x2x1x4x2x2xf32>) -> tensor<2x2x4x4x2x2xf32>
  %4 = coda.sum_to %mul_4 : (tensor<2x2x4x4x2x2xf32>) -> tensor<2x2x4x1x2x2xf32>
  %sum_2 = coda.reshape %4 {coda.dims = [2 : i64, 2 : i64, 4 : i64, 2 : i64, 2 : i64]} : (tensor<2x2x4x1x2x2xf32>) -> tensor<2x2x4x2x2xf32>
  %slice_1 = coda.slice %sum_4 {dim = 1 : i64, start = 0 : i64, stop = 2 : i64} : (tensor<2x3x2x2x3xf32>) -> tensor<2x2x2x2x3xf32>
  %exp_3 = coda.exp %cumsum : (tensor<2x2x2x4xf32>) -> tensor<2x2x2x4xf32>
  %unsqueeze_19 = coda.reshape %pad_3 : (tensor<2x8x2x3xf32>) -> tensor<2x2x4x2x1x3xf32>
  %unsqueeze_20 = coda.reshape %slice_1 {coda.dims = [2 : i64, 2 : i64, 1 : i64, 2 : i64, 2 : i64, 3 : i64]} : (tensor<2x2x2x2x3xf32>) -> tensor<2x2x1x2x2x3xf32>
  %mul_8 = coda.mul %unsqueeze_19, %unsqueeze_20 : (tensor<2x2x4x2x1x3xf32>, tensor<2x2x1x2x2x3xf32>) -> tensor<2x2x4x2x2x3xf32>
  %sum_5 = coda.reduce %mul_8 {kind = "sum"} : (tensor<2x2x4x2x2x3xf32>) -> tensor<2x2x4x2x2x1xf32>
  %sum_6 = coda.reshape %sum_5 {coda.dims = [2 : i64, 2 : i64, 4 : i64, 2 : i64, 2 : i64]} : (tensor<2x2x4x2x2x1xf32>) -> tensor<2x2x4x2x2xf32>
  %permute_3 = coda.transpose %exp_3 {perm = [0 : i64, 2 : i64, 3 : i64, 1 : i64]} : (tensor<2x2x2x4xf32>) -> tensor<2x2x4x2xf32>
  %unsqueeze_21 = coda.reshape %permute_3 {coda.dims = [2 : i64, 2 : i64, 4 : i64, 2 : i64, 1 : i64]} : (tensor<2x2x4x2xf32>) -> tensor<2x2x4x2x1xf32>
  %mul_9 = coda.mul %sum_6, %unsqueeze_21 : (tensor<2x2x4x2x2xf32>, tensor<2x2x4x2x1xf32>) -> tensor<2x2x4x2x2xf32>
  %add = coda.add %sum_2, %mul_9 : (tensor<2x2x4x2x2xf32>, tensor<2x2x4x2x2xf32>) -> tensor<2x2x4x2x2xf32>
  %view_4 = coda.reshape %add {coda.dims = [2 : i64, 8 : i64, 2 : i64, 2 : i64]} : (tensor<2x2x4x2x2xf32>) -> tensor<2x8x2x2xf32>
  %slice_2 = coda.slice %view_4 {dim = 1 : i64, start = 0 : i64, stop = 7 : i64} : (tensor<2x8x2x2xf32>) -> tensor<2x7x2x2xf32>
  func.return %slice_2, %last : tensor<2x7x2x2xf32>, tensor<2x1x2x2x3xf32>
}

// CHECK-LABEL: func.func @c_is_computed_later(
// CHECK-NOT: coda.ssd
// REMARK: remark[missed] raise-ssd: coda.add: an operand is computed later, or the states have another type; failed condition: operands are computed before the final states are read, and initial states are f32

// -----

func.func @later_rows(%x: tensor<2x7x2x2xf32>, %dt: tensor<2x7x2xf32>, %a: tensor<2xf32>, %b: tensor<2x7x1x3xf32>, %c: tensor<2x7x1x3xf32>) -> tensor<2x7x2x2xf32> {
  %clamp = coda.constant {value = 0.000000e+00 : f64} : tensor<f32>
  %clamp_1 = coda.maximum %dt, %clamp : (tensor<2x7x2xf32>, tensor<f32>) -> tensor<2x7x2xf32>
  %clamp_2 = coda.constant {value = 0x7ff0000000000000 : f64} : tensor<f32>
  %clamp_3 = coda.minimum %clamp_1, %clamp_2 : (tensor<2x7x2xf32>, tensor<f32>) -> tensor<2x7x2xf32>
  %unsqueeze = coda.reshape %b {coda.dims = [2 : i64, 7 : i64, 1 : i64, 1 : i64, 3 : i64]} : (tensor<2x7x1x3xf32>) -> tensor<2x7x1x1x3xf32>
  %expand = torch.call "aten.expand.default"(%unsqueeze) {coda.dims = [2 : i64, 7 : i64, 1 : i64, 2 : i64, 3 : i64], arguments = "{0}, [2, 7, 1, 2, 3]", view} : (tensor<2x7x1x1x3xf32>) -> tensor<2x7x1x2x3xf32>
  %view = coda.reshape %expand {coda.dims = [2 : i64, 7 : i64, 2 : i64, 3 : i64]} : (tensor<2x7x1x2x3xf32>) -> tensor<2x7x2x3xf32>
  %unsqueeze_1 = coda.reshape %c {coda.dims = [2 : i64, 7 : i64, 1 : i64, 1 : i64, 3 : i64]} : (tensor<2x7x1x3xf32>) -> tensor<2x7x1x1x3xf32>
  %expand_1 = torch.call "aten.expand.default"(%unsqueeze_1) {coda.dims = [2 : i64, 7 : i64, 1 : i64, 2 : i64, 3 : i64], arguments = "{0}, [2, 7, 1, 2, 3]", view} : (tensor<2x7x1x1x3xf32>) -> tensor<2x7x1x2x3xf32>
  %view_1 = coda.reshape %expand_1 {coda.dims = [2 : i64, 7 : i64, 2 : i64, 3 : i64]} : (tensor<2x7x1x2x3xf32>) -> tensor<2x7x2x3xf32>
  %unsqueeze_2 = coda.reshape %clamp_3 {coda.dims = [2 : i64, 7 : i64, 2 : i64, 1 : i64]} : (tensor<2x7x2xf32>) -> tensor<2x7x2x1xf32>
  %mul = coda.mul %x, %unsqueeze_2 : (tensor<2x7x2x2xf32>, tensor<2x7x2x1xf32>) -> tensor<2x7x2x2xf32>
  %mul_1 = coda.mul %a, %clamp_3 : (tensor<2xf32>, tensor<2x7x2xf32>) -> tensor<2x7x2xf32>
  %pad = coda.pad %mul {dim = 1 : i64, start = 0 : i64} : (tensor<2x7x2x2xf32>) -> tensor<2x8x2x2xf32>
  %pad_1 = coda.pad %mul_1 {dim = 1 : i64, start = 0 : i64} : (tensor<2x7x2xf32>) -> tensor<2x8x2xf32>
  %view_2 = coda.reshape %pad_1 {coda.dims = [2 : i64, 2 : i64, 4 : i64, 2 : i64]} : (tensor<2x8x2xf32>) -> tensor<2x2x4x2xf32>
  %pad_2 = coda.pad %view {dim = 1 : i64, start = 0 : i64} : (tensor<2x7x2x3xf32>) -> tensor<2x8x2x3xf32>
  %view_3 = coda.reshape %pad_2 {coda.dims = [2 : i64, 2 : i64, 4 : i64, 2 : i64, 3 : i64]} : (tensor<2x8x2x3xf32>) -> tensor<2x2x4x2x3xf32>
  %pad_3 = coda.pad %view_1 {dim = 1 : i64, start = 0 : i64} : (tensor<2x7x2x3xf32>) -> tensor<2x8x2x3xf32>
  %permute = coda.transpose %view_2 {perm = [0 : i64, 3 : i64, 1 : i64, 2 : i64]} : (tensor<2x2x4x2xf32>) -> tensor<2x2x2x4xf32>
  %cumsum = coda.cumsum %permute {dim = 3 : i64} : (tensor<2x2x2x4xf32>) -> tensor<2x2x2x4xf32>
  %unsqueeze_3 = coda.reshape %permute {coda.dims = [2 : i64, 2 : i64, 2 : i64, 4 : i64, 1 : i64]} : (tensor<2x2x2x4xf32>) -> tensor<2x2x2x4x1xf32>
  %0 = coda.constant {value = 1 : i64} : tensor<i1>
  %arange = coda.positions {start = 0 : i64, step = 1 : i64} : () -> tensor<4xi64>
  %unsqueeze_4 = coda.reshape %arange {coda.dims = [1 : i64, 4 : i64]} : (tensor<4xi64>) -> tensor<1x4xi64>
  %unsqueeze_5 = coda.reshape %arange {coda.dims = [4 : i64, 1 : i64]} : (tensor<4xi64>) -> tensor<4x1xi64>
  %sub = coda.sub %unsqueeze_4, %unsqueeze_5 : (tensor<1x4xi64>, tensor<4x1xi64>) -> tensor<4x4xi64>
  %1 = coda.constant {value = -1 : i64} : tensor<i64>
  %le = coda.compare %sub, %1 {relation = "le"} : (tensor<4x4xi64>, tensor<i64>) -> tensor<4x4xi1>
  %logical_and = coda.logical_and %le, %0 : (tensor<4x4xi1>, tensor<i1>) -> tensor<4x4xi1>
  %bitwise_not = coda.logical_not %logical_and : (tensor<4x4xi1>) -> tensor<4x4xi1>
  %scalar_tensor = coda.constant {value = 0.000000e+00 : f64} : tensor<f32>
  %where = coda.where %bitwise_not, %scalar_tensor, %unsqueeze_3 : (tensor<4x4xi1>, tensor<f32>, tensor<2x2x2x4x1xf32>) -> tensor<2x2x2x4x4xf32>
  %cumsum_1 = coda.cumsum %where {dim = 3 : i64} : (tensor<2x2x2x4x4xf32>) -> tensor<2x2x2x4x4xf32>
  %2 = coda.constant {value = 0 : i64} : tensor<i64>
  %le_1 = coda.compare %sub, %2 {relation = "le"} : (tensor<4x4xi64>, tensor<i64>) -> tensor<4x4xi1>
  %logical_and_1 = coda.logical_and %le_1, %0 : (tensor<4x4xi1>, tensor<i1>) -> tensor<4x4xi1>
  %bitwise_not_1 = coda.logical_not %logical_and_1 : (tensor<4x4xi1>) -> tensor<4x4xi1>
  %scalar_tensor_1 = coda.constant {value = 0xfff0000000000000 : f64} : tensor<f32>
  %where_1 = coda.where %bitwise_not_1, %scalar_tensor_1, %cumsum_1 : (tensor<4x4xi1>, tensor<f32>, tensor<2x2x2x4x4xf32>) -> tensor<2x2x2x4x4xf32>
  %exp = coda.exp %where_1 : (tensor<2x2x2x4x4xf32>) -> tensor<2x2x2x4x4xf32>
  %unsqueeze_6 = coda.reshape %pad_3 : (tensor<2x8x2x3xf32>) -> tensor<2x2x4x1x2x3xf32>
  %unsqueeze_7 = coda.reshape %pad_2 : (tensor<2x8x2x3xf32>) -> tensor<2x2x1x4x2x3xf32>
  %mul_2 = coda.mul %unsqueeze_6, %unsqueeze_7 : (tensor<2x2x4x1x2x3xf32>, tensor<2x2x1x4x2x3xf32>) -> tensor<2x2x4x4x2x3xf32>
  %sum = coda.reduce %mul_2 {kind = "sum"} : (tensor<2x2x4x4x2x3xf32>) -> tensor<2x2x4x4x2x1xf32>
  %permute_1 = coda.transpose %exp {perm = [0 : i64, 2 : i64, 3 : i64, 4 : i64, 1 : i64]} : (tensor<2x2x2x4x4xf32>) -> tensor<2x2x4x4x2xf32>
  %unsqueeze_8 = coda.reshape %permute_1 {coda.dims = [2 : i64, 2 : i64, 4 : i64, 4 : i64, 2 : i64, 1 : i64]} : (tensor<2x2x4x4x2xf32>) -> tensor<2x2x4x4x2x1xf32>
  %mul_3 = coda.mul %sum, %unsqueeze_8 : (tensor<2x2x4x4x2x1xf32>, tensor<2x2x4x4x2x1xf32>) -> tensor<2x2x4x4x2x1xf32>
  %sum_1 = coda.reduce %mul_3 {kind = "sum"} : (tensor<2x2x4x4x2x1xf32>) -> tensor<2x2x4x4x2x1xf32>
  %unsqueeze_9 = coda.reshape %pad : (tensor<2x8x2x2xf32>) -> tensor<2x2x1x4x2x2xf32>
  %mul_4 = coda.mul %sum_1, %unsqueeze_9 : (tensor<2x2x4x4x2x1xf32>, tensor<2x2x1x4x2x2xf32>) -> tensor<2x2x4x4x2x2xf32>
  %3 = coda.sum_to %mul_4 : (tensor<2x2x4x4x2x2xf32>) -> tensor<2x2x4x1x2x2xf32>
  %sum_2 = coda.reshape %3 {coda.dims = [2 : i64, 2 : i64, 4 : i64, 2 : i64, 2 : i64]} : (tensor<2x2x4x1x2x2xf32>) -> tensor<2x2x4x2x2xf32>
  %slice = coda.slice %cumsum {dim = 3 : i64, start = 3 : i64, stop = 4 : i64} : (tensor<2x2x2x4xf32>) -> tensor<2x2x2x1xf32>
  %sub_1 = coda.sub %slice, %cumsum : (tensor<2x2x2x1xf32>, tensor<2x2x2x4xf32>) -> tensor<2x2x2x4xf32>
  %exp_1 = coda.exp %sub_1 : (tensor<2x2x2x4xf32>) -> tensor<2x2x2x4xf32>
  %permute_2 = coda.transpose %exp_1 {perm = [0 : i64, 2 : i64, 3 : i64, 1 : i64]} : (tensor<2x2x2x4xf32>) -> tensor<2x2x4x2xf32>
  %unsqueeze_10 = coda.reshape %permute_2 {coda.dims = [2 : i64, 2 : i64, 4 : i64, 2 : i64, 1 : i64]} : (tensor<2x2x4x2xf32>) -> tensor<2x2x4x2x1xf32>
  %mul_5 = coda.mul %view_3, %unsqueeze_10 : (tensor<2x2x4x2x3xf32>, tensor<2x2x4x2x1xf32>) -> tensor<2x2x4x2x3xf32>
  %unsqueeze_11 = coda.reshape %mul_5 {coda.dims = [2 : i64, 2 : i64, 4 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x2x4x2x3xf32>) -> tensor<2x2x4x2x1x3xf32>
  %unsqueeze_12 = coda.reshape %pad : (tensor<2x8x2x2xf32>) -> tensor<2x2x4x2x2x1xf32>
  %mul_6 = coda.mul %unsqueeze_11, %unsqueeze_12 : (tensor<2x2x4x2x1x3xf32>, tensor<2x2x4x2x2x1xf32>) -> tensor<2x2x4x2x2x3xf32>
  %4 = coda.sum_to %mul_6 : (tensor<2x2x4x2x2x3xf32>) -> tensor<2x2x1x2x2x3xf32>
  %sum_3 = coda.reshape %4 {coda.dims = [2 : i64, 2 : i64, 2 : i64, 2 : i64, 3 : i64]} : (tensor<2x2x1x2x2x3xf32>) -> tensor<2x2x2x2x3xf32>
  %5 = coda.constant {value = 0.000000e+00 : f64} : tensor<f32>
  %full_like = coda.broadcast %5 : (tensor<f32>) -> tensor<2x1x2x2x3xf32>
  %cat = coda.concat %full_like, %sum_3 {dim = 1 : i64} : (tensor<2x1x2x2x3xf32>, tensor<2x2x2x2x3xf32>) -> tensor<2x3x2x2x3xf32>
  %select = coda.reshape %slice {coda.dims = [2 : i64, 2 : i64, 2 : i64]} : (tensor<2x2x2x1xf32>) -> tensor<2x2x2xf32>
  %pad_4 = coda.pad %select {dim = 2 : i64, start = 1 : i64} : (tensor<2x2x2xf32>) -> tensor<2x2x3xf32>
  %unsqueeze_13 = coda.reshape %pad_4 {coda.dims = [2 : i64, 2 : i64, 3 : i64, 1 : i64]} : (tensor<2x2x3xf32>) -> tensor<2x2x3x1xf32>
  %6 = coda.constant {value = 1 : i64} : tensor<i1>
  %arange_1 = coda.positions {start = 0 : i64, step = 1 : i64} : () -> tensor<3xi64>
  %unsqueeze_14 = coda.reshape %arange_1 {coda.dims = [1 : i64, 3 : i64]} : (tensor<3xi64>) -> tensor<1x3xi64>
  %unsqueeze_15 = coda.reshape %arange_1 {coda.dims = [3 : i64, 1 : i64]} : (tensor<3xi64>) -> tensor<3x1xi64>
  %sub_2 = coda.sub %unsqueeze_14, %unsqueeze_15 : (tensor<1x3xi64>, tensor<3x1xi64>) -> tensor<3x3xi64>
  %7 = coda.constant {value = -1 : i64} : tensor<i64>
  %le_2 = coda.compare %sub_2, %7 {relation = "le"} : (tensor<3x3xi64>, tensor<i64>) -> tensor<3x3xi1>
  %logical_and_2 = coda.logical_and %le_2, %6 : (tensor<3x3xi1>, tensor<i1>) -> tensor<3x3xi1>
  %bitwise_not_2 = coda.logical_not %logical_and_2 : (tensor<3x3xi1>) -> tensor<3x3xi1>
  %where_2 = coda.where %bitwise_not_2, %scalar_tensor, %unsqueeze_13 : (tensor<3x3xi1>, tensor<f32>, tensor<2x2x3x1xf32>) -> tensor<2x2x3x3xf32>
  %cumsum_2 = coda.cumsum %where_2 {dim = 2 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %8 = coda.constant {value = 0 : i64} : tensor<i64>
  %le_3 = coda.compare %sub_2, %8 {relation = "le"} : (tensor<3x3xi64>, tensor<i64>) -> tensor<3x3xi1>
  %logical_and_3 = coda.logical_and %le_3, %6 : (tensor<3x3xi1>, tensor<i1>) -> tensor<3x3xi1>
  %bitwise_not_3 = coda.logical_not %logical_and_3 : (tensor<3x3xi1>) -> tensor<3x3xi1>
  %where_3 = coda.where %bitwise_not_3, %scalar_tensor_1, %cumsum_2 : (tensor<3x3xi1>, tensor<f32>, tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %exp_2 = coda.exp %where_3 : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %transpose = coda.transpose %exp_2 {perm = [0 : i64, 3 : i64, 2 : i64, 1 : i64]} : (tensor<2x2x3x3xf32>) -> tensor<2x3x3x2xf32>
  %unsqueeze_16 = coda.reshape %transpose : (tensor<2x3x3x2xf32>) -> tensor<2x3x3x2x1x1xf32>
  %unsqueeze_17 = coda.reshape %cat {coda.dims = [2 : i64, 3 : i64, 1 : i64, 2 : i64, 2 : i64, 3 : i64]} : (tensor<2x3x2x2x3xf32>) -> tensor<2x3x1x2x2x3xf32>
  %mul_7 = coda.mul %unsqueeze_16, %unsqueeze_17 : (tensor<2x3x3x2x1x1xf32>, tensor<2x3x1x2x2x3xf32>) -> tensor<2x3x3x2x2x3xf32>
  %9 = coda.sum_to %mul_7 : (tensor<2x3x3x2x2x3xf32>) -> tensor<2x1x3x2x2x3xf32>
  %sum_4 = coda.reshape %9 {coda.dims = [2 : i64, 3 : i64, 2 : i64, 2 : i64, 3 : i64]} : (tensor<2x1x3x2x2x3xf32>) -> tensor<2x3x2x2x3xf32>
  %slice_1 = coda.slice %sum_4 {dim = 1 : i64, start = 0 : i64, stop = 2 : i64} : (tensor<2x3x2x2x3xf32>) -> tensor<2x2x2x2x3xf32>
  %exp_3 = coda.exp %cumsum : (tensor<2x2x2x4xf32>) -> tensor<2x2x2x4xf32>
  %unsqueeze_18 = coda.reshape %pad_3 : (tensor<2x8x2x3xf32>) -> tensor<2x2x4x2x1x3xf32>
  %unsqueeze_19 = coda.reshape %slice_1 {coda.dims = [2 : i64, 2 : i64, 1 : i64, 2 : i64, 2 : i64, 3 : i64]} : (tensor<2x2x2x2x3xf32>) -> tensor<2x2x1x2x2x3xf32>
  %mul_8 = coda.mul %unsqueeze_18, %unsqueeze_19 : (tensor<2x2x4x2x1x3xf32>, tensor<2x2x1x2x2x3xf32>) -> tensor<2x2x4x2x2x3xf32>
  %sum_5 = coda.reduce %mul_8 {kind = "sum"} : (tensor<2x2x4x2x2x3xf32>) -> tensor<2x2x4x2x2x1xf32>
  %sum_6 = coda.reshape %sum_5 {coda.dims = [2 : i64, 2 : i64, 4 : i64, 2 : i64, 2 : i64]} : (tensor<2x2x4x2x2x1xf32>) -> tensor<2x2x4x2x2xf32>
  %permute_3 = coda.transpose %exp_3 {perm = [0 : i64, 2 : i64, 3 : i64, 1 : i64]} : (tensor<2x2x2x4xf32>) -> tensor<2x2x4x2xf32>
  %unsqueeze_20 = coda.reshape %permute_3 {coda.dims = [2 : i64, 2 : i64, 4 : i64, 2 : i64, 1 : i64]} : (tensor<2x2x4x2xf32>) -> tensor<2x2x4x2x1xf32>
  %mul_9 = coda.mul %sum_6, %unsqueeze_20 : (tensor<2x2x4x2x2xf32>, tensor<2x2x4x2x1xf32>) -> tensor<2x2x4x2x2xf32>
  %add = coda.add %sum_2, %mul_9 : (tensor<2x2x4x2x2xf32>, tensor<2x2x4x2x2xf32>) -> tensor<2x2x4x2x2xf32>
  %view_4 = coda.reshape %add {coda.dims = [2 : i64, 8 : i64, 2 : i64, 2 : i64]} : (tensor<2x2x4x2x2xf32>) -> tensor<2x8x2x2xf32>
  %slice_2 = coda.slice %view_4 {dim = 1 : i64, start = 1 : i64, stop = 8 : i64} : (tensor<2x8x2x2xf32>) -> tensor<2x7x2x2xf32>
  func.return %slice_2 : tensor<2x7x2x2xf32>
}

// CHECK-LABEL: func.func @later_rows(
// CHECK-NOT: coda.ssd
// REMARK: remark[missed] raise-ssd: coda.add: other operators read them; failed condition: rows that pad the last chunk are cut off after pointwise code

// -----

func.func @other_rows(%x: tensor<2x7x2x2xf32>, %dt: tensor<2x7x2xf32>, %a: tensor<2xf32>, %b: tensor<2x7x1x3xf32>, %c: tensor<2x7x1x3xf32>) -> tensor<2x7x2x2xf32> {
  %clamp = coda.constant {value = 0.000000e+00 : f64} : tensor<f32>
  %clamp_1 = coda.maximum %dt, %clamp : (tensor<2x7x2xf32>, tensor<f32>) -> tensor<2x7x2xf32>
  %clamp_2 = coda.constant {value = 0x7ff0000000000000 : f64} : tensor<f32>
  %clamp_3 = coda.minimum %clamp_1, %clamp_2 : (tensor<2x7x2xf32>, tensor<f32>) -> tensor<2x7x2xf32>
  %unsqueeze = coda.reshape %b {coda.dims = [2 : i64, 7 : i64, 1 : i64, 1 : i64, 3 : i64]} : (tensor<2x7x1x3xf32>) -> tensor<2x7x1x1x3xf32>
  %expand = torch.call "aten.expand.default"(%unsqueeze) {coda.dims = [2 : i64, 7 : i64, 1 : i64, 2 : i64, 3 : i64], arguments = "{0}, [2, 7, 1, 2, 3]", view} : (tensor<2x7x1x1x3xf32>) -> tensor<2x7x1x2x3xf32>
  %view = coda.reshape %expand {coda.dims = [2 : i64, 7 : i64, 2 : i64, 3 : i64]} : (tensor<2x7x1x2x3xf32>) -> tensor<2x7x2x3xf32>
  %unsqueeze_1 = coda.reshape %c {coda.dims = [2 : i64, 7 : i64, 1 : i64, 1 : i64, 3 : i64]} : (tensor<2x7x1x3xf32>) -> tensor<2x7x1x1x3xf32>
  %expand_1 = torch.call "aten.expand.default"(%unsqueeze_1) {coda.dims = [2 : i64, 7 : i64, 1 : i64, 2 : i64, 3 : i64], arguments = "{0}, [2, 7, 1, 2, 3]", view} : (tensor<2x7x1x1x3xf32>) -> tensor<2x7x1x2x3xf32>
  %view_1 = coda.reshape %expand_1 {coda.dims = [2 : i64, 7 : i64, 2 : i64, 3 : i64]} : (tensor<2x7x1x2x3xf32>) -> tensor<2x7x2x3xf32>
  %unsqueeze_2 = coda.reshape %clamp_3 {coda.dims = [2 : i64, 7 : i64, 2 : i64, 1 : i64]} : (tensor<2x7x2xf32>) -> tensor<2x7x2x1xf32>
  %mul = coda.mul %x, %unsqueeze_2 : (tensor<2x7x2x2xf32>, tensor<2x7x2x1xf32>) -> tensor<2x7x2x2xf32>
  %mul_1 = coda.mul %a, %clamp_3 : (tensor<2xf32>, tensor<2x7x2xf32>) -> tensor<2x7x2xf32>
  %pad = coda.pad %mul {dim = 1 : i64, start = 0 : i64} : (tensor<2x7x2x2xf32>) -> tensor<2x8x2x2xf32>
  %pad_1 = coda.pad %mul_1 {dim = 1 : i64, start = 0 : i64} : (tensor<2x7x2xf32>) -> tensor<2x8x2xf32>
  %view_2 = coda.reshape %pad_1 {coda.dims = [2 : i64, 2 : i64, 4 : i64, 2 : i64]} : (tensor<2x8x2xf32>) -> tensor<2x2x4x2xf32>
  %pad_2 = coda.pad %view {dim = 1 : i64, start = 0 : i64} : (tensor<2x7x2x3xf32>) -> tensor<2x8x2x3xf32>
  %view_3 = coda.reshape %pad_2 {coda.dims = [2 : i64, 2 : i64, 4 : i64, 2 : i64, 3 : i64]} : (tensor<2x8x2x3xf32>) -> tensor<2x2x4x2x3xf32>
  %pad_3 = coda.pad %view_1 {dim = 1 : i64, start = 0 : i64} : (tensor<2x7x2x3xf32>) -> tensor<2x8x2x3xf32>
  %permute = coda.transpose %view_2 {perm = [0 : i64, 3 : i64, 1 : i64, 2 : i64]} : (tensor<2x2x4x2xf32>) -> tensor<2x2x2x4xf32>
  %cumsum = coda.cumsum %permute {dim = 3 : i64} : (tensor<2x2x2x4xf32>) -> tensor<2x2x2x4xf32>
  %unsqueeze_3 = coda.reshape %permute {coda.dims = [2 : i64, 2 : i64, 2 : i64, 4 : i64, 1 : i64]} : (tensor<2x2x2x4xf32>) -> tensor<2x2x2x4x1xf32>
  %0 = coda.constant {value = 1 : i64} : tensor<i1>
  %arange = coda.positions {start = 0 : i64, step = 1 : i64} : () -> tensor<4xi64>
  %unsqueeze_4 = coda.reshape %arange {coda.dims = [1 : i64, 4 : i64]} : (tensor<4xi64>) -> tensor<1x4xi64>
  %unsqueeze_5 = coda.reshape %arange {coda.dims = [4 : i64, 1 : i64]} : (tensor<4xi64>) -> tensor<4x1xi64>
  %sub = coda.sub %unsqueeze_4, %unsqueeze_5 : (tensor<1x4xi64>, tensor<4x1xi64>) -> tensor<4x4xi64>
  %1 = coda.constant {value = -2 : i64} : tensor<i64>
  %le = coda.compare %sub, %1 {relation = "le"} : (tensor<4x4xi64>, tensor<i64>) -> tensor<4x4xi1>
  %logical_and = coda.logical_and %le, %0 : (tensor<4x4xi1>, tensor<i1>) -> tensor<4x4xi1>
  %bitwise_not = coda.logical_not %logical_and : (tensor<4x4xi1>) -> tensor<4x4xi1>
  %scalar_tensor = coda.constant {value = 0.000000e+00 : f64} : tensor<f32>
  %where = coda.where %bitwise_not, %scalar_tensor, %unsqueeze_3 : (tensor<4x4xi1>, tensor<f32>, tensor<2x2x2x4x1xf32>) -> tensor<2x2x2x4x4xf32>
  %cumsum_1 = coda.cumsum %where {dim = 3 : i64} : (tensor<2x2x2x4x4xf32>) -> tensor<2x2x2x4x4xf32>
  %2 = coda.constant {value = 0 : i64} : tensor<i64>
  %le_1 = coda.compare %sub, %2 {relation = "le"} : (tensor<4x4xi64>, tensor<i64>) -> tensor<4x4xi1>
  %logical_and_1 = coda.logical_and %le_1, %0 : (tensor<4x4xi1>, tensor<i1>) -> tensor<4x4xi1>
  %bitwise_not_1 = coda.logical_not %logical_and_1 : (tensor<4x4xi1>) -> tensor<4x4xi1>
  %scalar_tensor_1 = coda.constant {value = 0xfff0000000000000 : f64} : tensor<f32>
  %where_1 = coda.where %bitwise_not_1, %scalar_tensor_1, %cumsum_1 : (tensor<4x4xi1>, tensor<f32>, tensor<2x2x2x4x4xf32>) -> tensor<2x2x2x4x4xf32>
  %exp = coda.exp %where_1 : (tensor<2x2x2x4x4xf32>) -> tensor<2x2x2x4x4xf32>
  %unsqueeze_6 = coda.reshape %pad_3 : (tensor<2x8x2x3xf32>) -> tensor<2x2x4x1x2x3xf32>
  %unsqueeze_7 = coda.reshape %pad_2 : (tensor<2x8x2x3xf32>) -> tensor<2x2x1x4x2x3xf32>
  %mul_2 = coda.mul %unsqueeze_6, %unsqueeze_7 : (tensor<2x2x4x1x2x3xf32>, tensor<2x2x1x4x2x3xf32>) -> tensor<2x2x4x4x2x3xf32>
  %sum = coda.reduce %mul_2 {kind = "sum"} : (tensor<2x2x4x4x2x3xf32>) -> tensor<2x2x4x4x2x1xf32>
  %permute_1 = coda.transpose %exp {perm = [0 : i64, 2 : i64, 3 : i64, 4 : i64, 1 : i64]} : (tensor<2x2x2x4x4xf32>) -> tensor<2x2x4x4x2xf32>
  %unsqueeze_8 = coda.reshape %permute_1 {coda.dims = [2 : i64, 2 : i64, 4 : i64, 4 : i64, 2 : i64, 1 : i64]} : (tensor<2x2x4x4x2xf32>) -> tensor<2x2x4x4x2x1xf32>
  %mul_3 = coda.mul %sum, %unsqueeze_8 : (tensor<2x2x4x4x2x1xf32>, tensor<2x2x4x4x2x1xf32>) -> tensor<2x2x4x4x2x1xf32>
  %sum_1 = coda.reduce %mul_3 {kind = "sum"} : (tensor<2x2x4x4x2x1xf32>) -> tensor<2x2x4x4x2x1xf32>
  %unsqueeze_9 = coda.reshape %pad : (tensor<2x8x2x2xf32>) -> tensor<2x2x1x4x2x2xf32>
  %mul_4 = coda.mul %sum_1, %unsqueeze_9 : (tensor<2x2x4x4x2x1xf32>, tensor<2x2x1x4x2x2xf32>) -> tensor<2x2x4x4x2x2xf32>
  %3 = coda.sum_to %mul_4 : (tensor<2x2x4x4x2x2xf32>) -> tensor<2x2x4x1x2x2xf32>
  %sum_2 = coda.reshape %3 {coda.dims = [2 : i64, 2 : i64, 4 : i64, 2 : i64, 2 : i64]} : (tensor<2x2x4x1x2x2xf32>) -> tensor<2x2x4x2x2xf32>
  %slice = coda.slice %cumsum {dim = 3 : i64, start = 3 : i64, stop = 4 : i64} : (tensor<2x2x2x4xf32>) -> tensor<2x2x2x1xf32>
  %sub_1 = coda.sub %slice, %cumsum : (tensor<2x2x2x1xf32>, tensor<2x2x2x4xf32>) -> tensor<2x2x2x4xf32>
  %exp_1 = coda.exp %sub_1 : (tensor<2x2x2x4xf32>) -> tensor<2x2x2x4xf32>
  %permute_2 = coda.transpose %exp_1 {perm = [0 : i64, 2 : i64, 3 : i64, 1 : i64]} : (tensor<2x2x2x4xf32>) -> tensor<2x2x4x2xf32>
  %unsqueeze_10 = coda.reshape %permute_2 {coda.dims = [2 : i64, 2 : i64, 4 : i64, 2 : i64, 1 : i64]} : (tensor<2x2x4x2xf32>) -> tensor<2x2x4x2x1xf32>
  %mul_5 = coda.mul %view_3, %unsqueeze_10 : (tensor<2x2x4x2x3xf32>, tensor<2x2x4x2x1xf32>) -> tensor<2x2x4x2x3xf32>
  %unsqueeze_11 = coda.reshape %mul_5 {coda.dims = [2 : i64, 2 : i64, 4 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x2x4x2x3xf32>) -> tensor<2x2x4x2x1x3xf32>
  %unsqueeze_12 = coda.reshape %pad : (tensor<2x8x2x2xf32>) -> tensor<2x2x4x2x2x1xf32>
  %mul_6 = coda.mul %unsqueeze_11, %unsqueeze_12 : (tensor<2x2x4x2x1x3xf32>, tensor<2x2x4x2x2x1xf32>) -> tensor<2x2x4x2x2x3xf32>
  %4 = coda.sum_to %mul_6 : (tensor<2x2x4x2x2x3xf32>) -> tensor<2x2x1x2x2x3xf32>
  %sum_3 = coda.reshape %4 {coda.dims = [2 : i64, 2 : i64, 2 : i64, 2 : i64, 3 : i64]} : (tensor<2x2x1x2x2x3xf32>) -> tensor<2x2x2x2x3xf32>
  %5 = coda.constant {value = 0.000000e+00 : f64} : tensor<f32>
  %full_like = coda.broadcast %5 : (tensor<f32>) -> tensor<2x1x2x2x3xf32>
  %cat = coda.concat %full_like, %sum_3 {dim = 1 : i64} : (tensor<2x1x2x2x3xf32>, tensor<2x2x2x2x3xf32>) -> tensor<2x3x2x2x3xf32>
  %select = coda.reshape %slice {coda.dims = [2 : i64, 2 : i64, 2 : i64]} : (tensor<2x2x2x1xf32>) -> tensor<2x2x2xf32>
  %pad_4 = coda.pad %select {dim = 2 : i64, start = 1 : i64} : (tensor<2x2x2xf32>) -> tensor<2x2x3xf32>
  %unsqueeze_13 = coda.reshape %pad_4 {coda.dims = [2 : i64, 2 : i64, 3 : i64, 1 : i64]} : (tensor<2x2x3xf32>) -> tensor<2x2x3x1xf32>
  %6 = coda.constant {value = 1 : i64} : tensor<i1>
  %arange_1 = coda.positions {start = 0 : i64, step = 1 : i64} : () -> tensor<3xi64>
  %unsqueeze_14 = coda.reshape %arange_1 {coda.dims = [1 : i64, 3 : i64]} : (tensor<3xi64>) -> tensor<1x3xi64>
  %unsqueeze_15 = coda.reshape %arange_1 {coda.dims = [3 : i64, 1 : i64]} : (tensor<3xi64>) -> tensor<3x1xi64>
  %sub_2 = coda.sub %unsqueeze_14, %unsqueeze_15 : (tensor<1x3xi64>, tensor<3x1xi64>) -> tensor<3x3xi64>
  %7 = coda.constant {value = -2 : i64} : tensor<i64>
  %le_2 = coda.compare %sub_2, %7 {relation = "le"} : (tensor<3x3xi64>, tensor<i64>) -> tensor<3x3xi1>
  %logical_and_2 = coda.logical_and %le_2, %6 : (tensor<3x3xi1>, tensor<i1>) -> tensor<3x3xi1>
  %bitwise_not_2 = coda.logical_not %logical_and_2 : (tensor<3x3xi1>) -> tensor<3x3xi1>
  %where_2 = coda.where %bitwise_not_2, %scalar_tensor, %unsqueeze_13 : (tensor<3x3xi1>, tensor<f32>, tensor<2x2x3x1xf32>) -> tensor<2x2x3x3xf32>
  %cumsum_2 = coda.cumsum %where_2 {dim = 2 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %8 = coda.constant {value = 0 : i64} : tensor<i64>
  %le_3 = coda.compare %sub_2, %8 {relation = "le"} : (tensor<3x3xi64>, tensor<i64>) -> tensor<3x3xi1>
  %logical_and_3 = coda.logical_and %le_3, %6 : (tensor<3x3xi1>, tensor<i1>) -> tensor<3x3xi1>
  %bitwise_not_3 = coda.logical_not %logical_and_3 : (tensor<3x3xi1>) -> tensor<3x3xi1>
  %where_3 = coda.where %bitwise_not_3, %scalar_tensor_1, %cumsum_2 : (tensor<3x3xi1>, tensor<f32>, tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %exp_2 = coda.exp %where_3 : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %transpose = coda.transpose %exp_2 {perm = [0 : i64, 3 : i64, 2 : i64, 1 : i64]} : (tensor<2x2x3x3xf32>) -> tensor<2x3x3x2xf32>
  %unsqueeze_16 = coda.reshape %transpose : (tensor<2x3x3x2xf32>) -> tensor<2x3x3x2x1x1xf32>
  %unsqueeze_17 = coda.reshape %cat {coda.dims = [2 : i64, 3 : i64, 1 : i64, 2 : i64, 2 : i64, 3 : i64]} : (tensor<2x3x2x2x3xf32>) -> tensor<2x3x1x2x2x3xf32>
  %mul_7 = coda.mul %unsqueeze_16, %unsqueeze_17 : (tensor<2x3x3x2x1x1xf32>, tensor<2x3x1x2x2x3xf32>) -> tensor<2x3x3x2x2x3xf32>
  %9 = coda.sum_to %mul_7 : (tensor<2x3x3x2x2x3xf32>) -> tensor<2x1x3x2x2x3xf32>
  %sum_4 = coda.reshape %9 {coda.dims = [2 : i64, 3 : i64, 2 : i64, 2 : i64, 3 : i64]} : (tensor<2x1x3x2x2x3xf32>) -> tensor<2x3x2x2x3xf32>
  %slice_1 = coda.slice %sum_4 {dim = 1 : i64, start = 0 : i64, stop = 2 : i64} : (tensor<2x3x2x2x3xf32>) -> tensor<2x2x2x2x3xf32>
  %exp_3 = coda.exp %cumsum : (tensor<2x2x2x4xf32>) -> tensor<2x2x2x4xf32>
  %unsqueeze_18 = coda.reshape %pad_3 : (tensor<2x8x2x3xf32>) -> tensor<2x2x4x2x1x3xf32>
  %unsqueeze_19 = coda.reshape %slice_1 {coda.dims = [2 : i64, 2 : i64, 1 : i64, 2 : i64, 2 : i64, 3 : i64]} : (tensor<2x2x2x2x3xf32>) -> tensor<2x2x1x2x2x3xf32>
  %mul_8 = coda.mul %unsqueeze_18, %unsqueeze_19 : (tensor<2x2x4x2x1x3xf32>, tensor<2x2x1x2x2x3xf32>) -> tensor<2x2x4x2x2x3xf32>
  %sum_5 = coda.reduce %mul_8 {kind = "sum"} : (tensor<2x2x4x2x2x3xf32>) -> tensor<2x2x4x2x2x1xf32>
  %sum_6 = coda.reshape %sum_5 {coda.dims = [2 : i64, 2 : i64, 4 : i64, 2 : i64, 2 : i64]} : (tensor<2x2x4x2x2x1xf32>) -> tensor<2x2x4x2x2xf32>
  %permute_3 = coda.transpose %exp_3 {perm = [0 : i64, 2 : i64, 3 : i64, 1 : i64]} : (tensor<2x2x2x4xf32>) -> tensor<2x2x4x2xf32>
  %unsqueeze_20 = coda.reshape %permute_3 {coda.dims = [2 : i64, 2 : i64, 4 : i64, 2 : i64, 1 : i64]} : (tensor<2x2x4x2xf32>) -> tensor<2x2x4x2x1xf32>
  %mul_9 = coda.mul %sum_6, %unsqueeze_20 : (tensor<2x2x4x2x2xf32>, tensor<2x2x4x2x1xf32>) -> tensor<2x2x4x2x2xf32>
  %add = coda.add %sum_2, %mul_9 : (tensor<2x2x4x2x2xf32>, tensor<2x2x4x2x2xf32>) -> tensor<2x2x4x2x2xf32>
  %view_4 = coda.reshape %add {coda.dims = [2 : i64, 8 : i64, 2 : i64, 2 : i64]} : (tensor<2x2x4x2x2xf32>) -> tensor<2x8x2x2xf32>
  %slice_2 = coda.slice %view_4 {dim = 1 : i64, start = 0 : i64, stop = 7 : i64} : (tensor<2x8x2x2xf32>) -> tensor<2x7x2x2xf32>
  func.return %slice_2 : tensor<2x7x2x2xf32>
}

// CHECK-LABEL: func.func @other_rows(
// CHECK-NOT: coda.ssd
// REMARK: remark[missed] raise-ssd: coda.add: sums over rows of chunks have other factors; failed condition: within a chunk, rows of c and b are multiplied, decay, and are multiplied with dt · x

// -----

func.func @float64(%x: tensor<2x7x2x2xf64>, %dt: tensor<2x7x2xf64>, %a: tensor<2xf64>, %b: tensor<2x7x1x3xf64>, %c: tensor<2x7x1x3xf64>) -> tensor<2x7x2x2xf64> {
  %clamp = coda.constant {value = 0.000000e+00 : f64} : tensor<f64>
  %clamp_1 = coda.maximum %dt, %clamp : (tensor<2x7x2xf64>, tensor<f64>) -> tensor<2x7x2xf64>
  %clamp_2 = coda.constant {value = 0x7ff0000000000000 : f64} : tensor<f64>
  %clamp_3 = coda.minimum %clamp_1, %clamp_2 : (tensor<2x7x2xf64>, tensor<f64>) -> tensor<2x7x2xf64>
  %unsqueeze = coda.reshape %b {coda.dims = [2 : i64, 7 : i64, 1 : i64, 1 : i64, 3 : i64]} : (tensor<2x7x1x3xf64>) -> tensor<2x7x1x1x3xf64>
  %expand = torch.call "aten.expand.default"(%unsqueeze) {coda.dims = [2 : i64, 7 : i64, 1 : i64, 2 : i64, 3 : i64], arguments = "{0}, [2, 7, 1, 2, 3]", view} : (tensor<2x7x1x1x3xf64>) -> tensor<2x7x1x2x3xf64>
  %view = coda.reshape %expand {coda.dims = [2 : i64, 7 : i64, 2 : i64, 3 : i64]} : (tensor<2x7x1x2x3xf64>) -> tensor<2x7x2x3xf64>
  %unsqueeze_1 = coda.reshape %c {coda.dims = [2 : i64, 7 : i64, 1 : i64, 1 : i64, 3 : i64]} : (tensor<2x7x1x3xf64>) -> tensor<2x7x1x1x3xf64>
  %expand_1 = torch.call "aten.expand.default"(%unsqueeze_1) {coda.dims = [2 : i64, 7 : i64, 1 : i64, 2 : i64, 3 : i64], arguments = "{0}, [2, 7, 1, 2, 3]", view} : (tensor<2x7x1x1x3xf64>) -> tensor<2x7x1x2x3xf64>
  %view_1 = coda.reshape %expand_1 {coda.dims = [2 : i64, 7 : i64, 2 : i64, 3 : i64]} : (tensor<2x7x1x2x3xf64>) -> tensor<2x7x2x3xf64>
  %unsqueeze_2 = coda.reshape %clamp_3 {coda.dims = [2 : i64, 7 : i64, 2 : i64, 1 : i64]} : (tensor<2x7x2xf64>) -> tensor<2x7x2x1xf64>
  %mul = coda.mul %x, %unsqueeze_2 : (tensor<2x7x2x2xf64>, tensor<2x7x2x1xf64>) -> tensor<2x7x2x2xf64>
  %mul_1 = coda.mul %a, %clamp_3 : (tensor<2xf64>, tensor<2x7x2xf64>) -> tensor<2x7x2xf64>
  %pad = coda.pad %mul {dim = 1 : i64, start = 0 : i64} : (tensor<2x7x2x2xf64>) -> tensor<2x8x2x2xf64>
  %pad_1 = coda.pad %mul_1 {dim = 1 : i64, start = 0 : i64} : (tensor<2x7x2xf64>) -> tensor<2x8x2xf64>
  %view_2 = coda.reshape %pad_1 {coda.dims = [2 : i64, 2 : i64, 4 : i64, 2 : i64]} : (tensor<2x8x2xf64>) -> tensor<2x2x4x2xf64>
  %pad_2 = coda.pad %view {dim = 1 : i64, start = 0 : i64} : (tensor<2x7x2x3xf64>) -> tensor<2x8x2x3xf64>
  %view_3 = coda.reshape %pad_2 {coda.dims = [2 : i64, 2 : i64, 4 : i64, 2 : i64, 3 : i64]} : (tensor<2x8x2x3xf64>) -> tensor<2x2x4x2x3xf64>
  %pad_3 = coda.pad %view_1 {dim = 1 : i64, start = 0 : i64} : (tensor<2x7x2x3xf64>) -> tensor<2x8x2x3xf64>
  %permute = coda.transpose %view_2 {perm = [0 : i64, 3 : i64, 1 : i64, 2 : i64]} : (tensor<2x2x4x2xf64>) -> tensor<2x2x2x4xf64>
  %cumsum = coda.cumsum %permute {dim = 3 : i64} : (tensor<2x2x2x4xf64>) -> tensor<2x2x2x4xf64>
  %unsqueeze_3 = coda.reshape %permute {coda.dims = [2 : i64, 2 : i64, 2 : i64, 4 : i64, 1 : i64]} : (tensor<2x2x2x4xf64>) -> tensor<2x2x2x4x1xf64>
  %0 = coda.constant {value = 1 : i64} : tensor<i1>
  %arange = coda.positions {start = 0 : i64, step = 1 : i64} : () -> tensor<4xi64>
  %unsqueeze_4 = coda.reshape %arange {coda.dims = [1 : i64, 4 : i64]} : (tensor<4xi64>) -> tensor<1x4xi64>
  %unsqueeze_5 = coda.reshape %arange {coda.dims = [4 : i64, 1 : i64]} : (tensor<4xi64>) -> tensor<4x1xi64>
  %sub = coda.sub %unsqueeze_4, %unsqueeze_5 : (tensor<1x4xi64>, tensor<4x1xi64>) -> tensor<4x4xi64>
  %1 = coda.constant {value = -1 : i64} : tensor<i64>
  %le = coda.compare %sub, %1 {relation = "le"} : (tensor<4x4xi64>, tensor<i64>) -> tensor<4x4xi1>
  %logical_and = coda.logical_and %le, %0 : (tensor<4x4xi1>, tensor<i1>) -> tensor<4x4xi1>
  %bitwise_not = coda.logical_not %logical_and : (tensor<4x4xi1>) -> tensor<4x4xi1>
  %scalar_tensor = coda.constant {value = 0.000000e+00 : f64} : tensor<f64>
  %where = coda.where %bitwise_not, %scalar_tensor, %unsqueeze_3 : (tensor<4x4xi1>, tensor<f64>, tensor<2x2x2x4x1xf64>) -> tensor<2x2x2x4x4xf64>
  %cumsum_1 = coda.cumsum %where {dim = 3 : i64} : (tensor<2x2x2x4x4xf64>) -> tensor<2x2x2x4x4xf64>
  %2 = coda.constant {value = 0 : i64} : tensor<i64>
  %le_1 = coda.compare %sub, %2 {relation = "le"} : (tensor<4x4xi64>, tensor<i64>) -> tensor<4x4xi1>
  %logical_and_1 = coda.logical_and %le_1, %0 : (tensor<4x4xi1>, tensor<i1>) -> tensor<4x4xi1>
  %bitwise_not_1 = coda.logical_not %logical_and_1 : (tensor<4x4xi1>) -> tensor<4x4xi1>
  %scalar_tensor_1 = coda.constant {value = 0xfff0000000000000 : f64} : tensor<f64>
  %where_1 = coda.where %bitwise_not_1, %scalar_tensor_1, %cumsum_1 : (tensor<4x4xi1>, tensor<f64>, tensor<2x2x2x4x4xf64>) -> tensor<2x2x2x4x4xf64>
  %exp = coda.exp %where_1 : (tensor<2x2x2x4x4xf64>) -> tensor<2x2x2x4x4xf64>
  %unsqueeze_6 = coda.reshape %pad_3 : (tensor<2x8x2x3xf64>) -> tensor<2x2x4x1x2x3xf64>
  %unsqueeze_7 = coda.reshape %pad_2 : (tensor<2x8x2x3xf64>) -> tensor<2x2x1x4x2x3xf64>
  %mul_2 = coda.mul %unsqueeze_6, %unsqueeze_7 : (tensor<2x2x4x1x2x3xf64>, tensor<2x2x1x4x2x3xf64>) -> tensor<2x2x4x4x2x3xf64>
  %sum = coda.reduce %mul_2 {kind = "sum"} : (tensor<2x2x4x4x2x3xf64>) -> tensor<2x2x4x4x2x1xf64>
  %permute_1 = coda.transpose %exp {perm = [0 : i64, 2 : i64, 3 : i64, 4 : i64, 1 : i64]} : (tensor<2x2x2x4x4xf64>) -> tensor<2x2x4x4x2xf64>
  %unsqueeze_8 = coda.reshape %permute_1 {coda.dims = [2 : i64, 2 : i64, 4 : i64, 4 : i64, 2 : i64, 1 : i64]} : (tensor<2x2x4x4x2xf64>) -> tensor<2x2x4x4x2x1xf64>
  %mul_3 = coda.mul %sum, %unsqueeze_8 : (tensor<2x2x4x4x2x1xf64>, tensor<2x2x4x4x2x1xf64>) -> tensor<2x2x4x4x2x1xf64>
  %sum_1 = coda.reduce %mul_3 {kind = "sum"} : (tensor<2x2x4x4x2x1xf64>) -> tensor<2x2x4x4x2x1xf64>
  %unsqueeze_9 = coda.reshape %pad : (tensor<2x8x2x2xf64>) -> tensor<2x2x1x4x2x2xf64>
  %mul_4 = coda.mul %sum_1, %unsqueeze_9 : (tensor<2x2x4x4x2x1xf64>, tensor<2x2x1x4x2x2xf64>) -> tensor<2x2x4x4x2x2xf64>
  %3 = coda.sum_to %mul_4 : (tensor<2x2x4x4x2x2xf64>) -> tensor<2x2x4x1x2x2xf64>
  %sum_2 = coda.reshape %3 {coda.dims = [2 : i64, 2 : i64, 4 : i64, 2 : i64, 2 : i64]} : (tensor<2x2x4x1x2x2xf64>) -> tensor<2x2x4x2x2xf64>
  %slice = coda.slice %cumsum {dim = 3 : i64, start = 3 : i64, stop = 4 : i64} : (tensor<2x2x2x4xf64>) -> tensor<2x2x2x1xf64>
  %sub_1 = coda.sub %slice, %cumsum : (tensor<2x2x2x1xf64>, tensor<2x2x2x4xf64>) -> tensor<2x2x2x4xf64>
  %exp_1 = coda.exp %sub_1 : (tensor<2x2x2x4xf64>) -> tensor<2x2x2x4xf64>
  %permute_2 = coda.transpose %exp_1 {perm = [0 : i64, 2 : i64, 3 : i64, 1 : i64]} : (tensor<2x2x2x4xf64>) -> tensor<2x2x4x2xf64>
  %unsqueeze_10 = coda.reshape %permute_2 {coda.dims = [2 : i64, 2 : i64, 4 : i64, 2 : i64, 1 : i64]} : (tensor<2x2x4x2xf64>) -> tensor<2x2x4x2x1xf64>
  %mul_5 = coda.mul %view_3, %unsqueeze_10 : (tensor<2x2x4x2x3xf64>, tensor<2x2x4x2x1xf64>) -> tensor<2x2x4x2x3xf64>
  %unsqueeze_11 = coda.reshape %mul_5 {coda.dims = [2 : i64, 2 : i64, 4 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x2x4x2x3xf64>) -> tensor<2x2x4x2x1x3xf64>
  %unsqueeze_12 = coda.reshape %pad : (tensor<2x8x2x2xf64>) -> tensor<2x2x4x2x2x1xf64>
  %mul_6 = coda.mul %unsqueeze_11, %unsqueeze_12 : (tensor<2x2x4x2x1x3xf64>, tensor<2x2x4x2x2x1xf64>) -> tensor<2x2x4x2x2x3xf64>
  %4 = coda.sum_to %mul_6 : (tensor<2x2x4x2x2x3xf64>) -> tensor<2x2x1x2x2x3xf64>
  %sum_3 = coda.reshape %4 {coda.dims = [2 : i64, 2 : i64, 2 : i64, 2 : i64, 3 : i64]} : (tensor<2x2x1x2x2x3xf64>) -> tensor<2x2x2x2x3xf64>
  %5 = coda.constant {value = 0.000000e+00 : f64} : tensor<f64>
  %full_like = coda.broadcast %5 : (tensor<f64>) -> tensor<2x1x2x2x3xf64>
  %cat = coda.concat %full_like, %sum_3 {dim = 1 : i64} : (tensor<2x1x2x2x3xf64>, tensor<2x2x2x2x3xf64>) -> tensor<2x3x2x2x3xf64>
  %select = coda.reshape %slice {coda.dims = [2 : i64, 2 : i64, 2 : i64]} : (tensor<2x2x2x1xf64>) -> tensor<2x2x2xf64>
  %pad_4 = coda.pad %select {dim = 2 : i64, start = 1 : i64} : (tensor<2x2x2xf64>) -> tensor<2x2x3xf64>
  %unsqueeze_13 = coda.reshape %pad_4 {coda.dims = [2 : i64, 2 : i64, 3 : i64, 1 : i64]} : (tensor<2x2x3xf64>) -> tensor<2x2x3x1xf64>
  %6 = coda.constant {value = 1 : i64} : tensor<i1>
  %arange_1 = coda.positions {start = 0 : i64, step = 1 : i64} : () -> tensor<3xi64>
  %unsqueeze_14 = coda.reshape %arange_1 {coda.dims = [1 : i64, 3 : i64]} : (tensor<3xi64>) -> tensor<1x3xi64>
  %unsqueeze_15 = coda.reshape %arange_1 {coda.dims = [3 : i64, 1 : i64]} : (tensor<3xi64>) -> tensor<3x1xi64>
  %sub_2 = coda.sub %unsqueeze_14, %unsqueeze_15 : (tensor<1x3xi64>, tensor<3x1xi64>) -> tensor<3x3xi64>
  %7 = coda.constant {value = -1 : i64} : tensor<i64>
  %le_2 = coda.compare %sub_2, %7 {relation = "le"} : (tensor<3x3xi64>, tensor<i64>) -> tensor<3x3xi1>
  %logical_and_2 = coda.logical_and %le_2, %6 : (tensor<3x3xi1>, tensor<i1>) -> tensor<3x3xi1>
  %bitwise_not_2 = coda.logical_not %logical_and_2 : (tensor<3x3xi1>) -> tensor<3x3xi1>
  %where_2 = coda.where %bitwise_not_2, %scalar_tensor, %unsqueeze_13 : (tensor<3x3xi1>, tensor<f64>, tensor<2x2x3x1xf64>) -> tensor<2x2x3x3xf64>
  %cumsum_2 = coda.cumsum %where_2 {dim = 2 : i64} : (tensor<2x2x3x3xf64>) -> tensor<2x2x3x3xf64>
  %8 = coda.constant {value = 0 : i64} : tensor<i64>
  %le_3 = coda.compare %sub_2, %8 {relation = "le"} : (tensor<3x3xi64>, tensor<i64>) -> tensor<3x3xi1>
  %logical_and_3 = coda.logical_and %le_3, %6 : (tensor<3x3xi1>, tensor<i1>) -> tensor<3x3xi1>
  %bitwise_not_3 = coda.logical_not %logical_and_3 : (tensor<3x3xi1>) -> tensor<3x3xi1>
  %where_3 = coda.where %bitwise_not_3, %scalar_tensor_1, %cumsum_2 : (tensor<3x3xi1>, tensor<f64>, tensor<2x2x3x3xf64>) -> tensor<2x2x3x3xf64>
  %exp_2 = coda.exp %where_3 : (tensor<2x2x3x3xf64>) -> tensor<2x2x3x3xf64>
  %transpose = coda.transpose %exp_2 {perm = [0 : i64, 3 : i64, 2 : i64, 1 : i64]} : (tensor<2x2x3x3xf64>) -> tensor<2x3x3x2xf64>
  %unsqueeze_16 = coda.reshape %transpose : (tensor<2x3x3x2xf64>) -> tensor<2x3x3x2x1x1xf64>
  %unsqueeze_17 = coda.reshape %cat {coda.dims = [2 : i64, 3 : i64, 1 : i64, 2 : i64, 2 : i64, 3 : i64]} : (tensor<2x3x2x2x3xf64>) -> tensor<2x3x1x2x2x3xf64>
  %mul_7 = coda.mul %unsqueeze_16, %unsqueeze_17 : (tensor<2x3x3x2x1x1xf64>, tensor<2x3x1x2x2x3xf64>) -> tensor<2x3x3x2x2x3xf64>
  %9 = coda.sum_to %mul_7 : (tensor<2x3x3x2x2x3xf64>) -> tensor<2x1x3x2x2x3xf64>
  %sum_4 = coda.reshape %9 {coda.dims = [2 : i64, 3 : i64, 2 : i64, 2 : i64, 3 : i64]} : (tensor<2x1x3x2x2x3xf64>) -> tensor<2x3x2x2x3xf64>
  %slice_1 = coda.slice %sum_4 {dim = 1 : i64, start = 0 : i64, stop = 2 : i64} : (tensor<2x3x2x2x3xf64>) -> tensor<2x2x2x2x3xf64>
  %exp_3 = coda.exp %cumsum : (tensor<2x2x2x4xf64>) -> tensor<2x2x2x4xf64>
  %unsqueeze_18 = coda.reshape %pad_3 : (tensor<2x8x2x3xf64>) -> tensor<2x2x4x2x1x3xf64>
  %unsqueeze_19 = coda.reshape %slice_1 {coda.dims = [2 : i64, 2 : i64, 1 : i64, 2 : i64, 2 : i64, 3 : i64]} : (tensor<2x2x2x2x3xf64>) -> tensor<2x2x1x2x2x3xf64>
  %mul_8 = coda.mul %unsqueeze_18, %unsqueeze_19 : (tensor<2x2x4x2x1x3xf64>, tensor<2x2x1x2x2x3xf64>) -> tensor<2x2x4x2x2x3xf64>
  %sum_5 = coda.reduce %mul_8 {kind = "sum"} : (tensor<2x2x4x2x2x3xf64>) -> tensor<2x2x4x2x2x1xf64>
  %sum_6 = coda.reshape %sum_5 {coda.dims = [2 : i64, 2 : i64, 4 : i64, 2 : i64, 2 : i64]} : (tensor<2x2x4x2x2x1xf64>) -> tensor<2x2x4x2x2xf64>
  %permute_3 = coda.transpose %exp_3 {perm = [0 : i64, 2 : i64, 3 : i64, 1 : i64]} : (tensor<2x2x2x4xf64>) -> tensor<2x2x4x2xf64>
  %unsqueeze_20 = coda.reshape %permute_3 {coda.dims = [2 : i64, 2 : i64, 4 : i64, 2 : i64, 1 : i64]} : (tensor<2x2x4x2xf64>) -> tensor<2x2x4x2x1xf64>
  %mul_9 = coda.mul %sum_6, %unsqueeze_20 : (tensor<2x2x4x2x2xf64>, tensor<2x2x4x2x1xf64>) -> tensor<2x2x4x2x2xf64>
  %add = coda.add %sum_2, %mul_9 : (tensor<2x2x4x2x2xf64>, tensor<2x2x4x2x2xf64>) -> tensor<2x2x4x2x2xf64>
  %view_4 = coda.reshape %add {coda.dims = [2 : i64, 8 : i64, 2 : i64, 2 : i64]} : (tensor<2x2x4x2x2xf64>) -> tensor<2x8x2x2xf64>
  %slice_2 = coda.slice %view_4 {dim = 1 : i64, start = 0 : i64, stop = 7 : i64} : (tensor<2x8x2x2xf64>) -> tensor<2x7x2x2xf64>
  func.return %slice_2 : tensor<2x7x2x2xf64>
}

// CHECK-LABEL: func.func @float64(
// CHECK-NOT: coda.ssd
// REMARK: remark[missed] raise-ssd: coda.add: different element types, or too many states or columns; failed condition: x, b and c have one element type of at most 32 bits, which dt and a share unless they are f32, with at most 256 states and 256 columns of a head

// RUN: coda-opt %s -p drop-hidden-queries --split-input-file | filecheck %s
// RUN: coda-opt %s -p drop-hidden-queries --split-input-file --remarks 2>&1 >/dev/null | filecheck %s --check-prefix REMARK

// A score would change the number.

func.func @near(%q: tensor<?x?x8xf32> {coda.dims = ["B", "T", 8 : i64]}, %k: tensor<?x?x8xf32> {coda.dims = ["B", "T", 8 : i64]}, %v: tensor<?x?x8xf32> {coda.dims = ["B", "T", 8 : i64]}, %keep: tensor<?x1x1x?xi1> {coda.dims = ["B", 1 : i64, 1 : i64, "T"]}, %other: tensor<?x1x1x?xi1> {coda.dims = ["B", 1 : i64, 1 : i64, "T"]}) -> tensor<?x?x8xf32> {
  %any = torch.call "aten.any.dim"(%keep) {coda.dims = ["B", 1 : i64, 1 : i64, 1 : i64], arguments = "{0}, -1, True"} : (tensor<?x1x1x?xi1>) -> tensor<?x1x1x1xi1>
  %zero = coda.constant {value = 0.0 : f64} : tensor<f32>
  %number = coda.constant {value = -1.0e9 : f64} : tensor<f32>
  %heads = coda.reshape %q {coda.dims = ["B", "T", 2 : i64, 4 : i64]} : (tensor<?x?x8xf32>) -> tensor<?x?x2x4xf32>
  %chosen = coda.where %any, %heads, %zero : (tensor<?x1x1x1xi1>, tensor<?x?x2x4xf32>, tensor<f32>) -> tensor<?x?x2x4xf32>
  %q0 = coda.reshape %chosen {coda.dims = ["B", "T", 8 : i64]} : (tensor<?x?x2x4xf32>) -> tensor<?x?x8xf32>
  %mask = coda.where %keep, %zero, %number : (tensor<?x1x1x?xi1>, tensor<f32>, tensor<f32>) -> tensor<?x1x1x?xf32>
  %y = coda.attention %q0, %k, %v mask(%mask : tensor<?x1x1x?xf32>) {head_dim = 4 : i64, causal = false} : (tensor<?x?x8xf32>, tensor<?x?x8xf32>, tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
  func.return %y : tensor<?x?x8xf32>
}

// CHECK-LABEL: func.func @near(
// CHECK:         coda.attention %q0, %k, %v
// REMARK:        queries without keys are set to zero: their scores, added to the number, would change it

// -----

// The queries are zero where the keys of another mask are hidden.

func.func @other(%q: tensor<?x?x8xf32> {coda.dims = ["B", "T", 8 : i64]}, %k: tensor<?x?x8xf32> {coda.dims = ["B", "T", 8 : i64]}, %v: tensor<?x?x8xf32> {coda.dims = ["B", "T", 8 : i64]}, %keep: tensor<?x1x1x?xi1> {coda.dims = ["B", 1 : i64, 1 : i64, "T"]}, %other: tensor<?x1x1x?xi1> {coda.dims = ["B", 1 : i64, 1 : i64, "T"]}) -> tensor<?x?x8xf32> {
  %any = torch.call "aten.any.dim"(%other) {coda.dims = ["B", 1 : i64, 1 : i64, 1 : i64], arguments = "{0}, -1, True"} : (tensor<?x1x1x?xi1>) -> tensor<?x1x1x1xi1>
  %zero = coda.constant {value = 0.0 : f64} : tensor<f32>
  %number = coda.constant {value = -3.4028234663852886e+38 : f64} : tensor<f32>
  %heads = coda.reshape %q {coda.dims = ["B", "T", 2 : i64, 4 : i64]} : (tensor<?x?x8xf32>) -> tensor<?x?x2x4xf32>
  %chosen = coda.where %any, %heads, %zero : (tensor<?x1x1x1xi1>, tensor<?x?x2x4xf32>, tensor<f32>) -> tensor<?x?x2x4xf32>
  %q0 = coda.reshape %chosen {coda.dims = ["B", "T", 8 : i64]} : (tensor<?x?x2x4xf32>) -> tensor<?x?x8xf32>
  %mask = coda.where %keep, %zero, %number : (tensor<?x1x1x?xi1>, tensor<f32>, tensor<f32>) -> tensor<?x1x1x?xf32>
  %y = coda.attention %q0, %k, %v mask(%mask : tensor<?x1x1x?xf32>) {head_dim = 4 : i64, causal = false} : (tensor<?x?x8xf32>, tensor<?x?x8xf32>, tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
  func.return %y : tensor<?x?x8xf32>
}

// CHECK-LABEL: func.func @other(
// CHECK:         coda.attention %q0, %k, %v
// REMARK:        a different mask sets queries to zero

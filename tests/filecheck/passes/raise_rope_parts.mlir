// RUN: coda-opt %s -p 'raise-rope{decomposed=false},dce' | filecheck %s

// Some columns of each head are rotated, side by side, and joined with the others.

func.func @first_columns(%q: tensor<?x?x32xbf16> {coda.dims = ["B", "T", 32 : i64]}, %cos: tensor<?x2xf32> {coda.dims = ["T", 2 : i64]}, %sin: tensor<?x2xf32> {coda.dims = ["T", 2 : i64]}) -> tensor<?x?x4x8xbf16> {
  %heads = coda.reshape %q : (tensor<?x?x32xbf16>) -> tensor<?x?x4x8xbf16>
  %first = coda.slice %heads {dim = 3 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<?x?x4x8xbf16>) -> tensor<?x?x4x4xbf16>
  %rest = coda.slice %heads {dim = 3 : i64, start = 4 : i64, stop = 8 : i64} : (tensor<?x?x4x8xbf16>) -> tensor<?x?x4x4xbf16>
  %flat = coda.reshape %first : (tensor<?x?x4x4xbf16>) -> tensor<?x?x16xbf16>
  %rotated = coda.rope %flat, %cos, %sin {head_dim = 4 : i64, layout = "half_split"} : (tensor<?x?x16xbf16>, tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x?x16xbf16>
  %split = coda.reshape %rotated : (tensor<?x?x16xbf16>) -> tensor<?x?x4x4xbf16>
  %y = coda.concat %split, %rest {dim = 3 : i64} : (tensor<?x?x4x4xbf16>, tensor<?x?x4x4xbf16>) -> tensor<?x?x4x8xbf16>
  func.return %y : tensor<?x?x4x8xbf16>
}

// CHECK-LABEL: func.func @first_columns(
// CHECK-NEXT:    [[C:%.*]] = coda.pad %cos {dim = 1 : i64, start = 0 : i64, value = 1.000000e+00 : f64} : (tensor<?x2xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:    [[S:%.*]] = coda.pad %sin {dim = 1 : i64, start = 0 : i64} : (tensor<?x2xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:    [[R:%.*]] = coda.rope %q, [[C]], [[S]] {head_dim = 4 : i64, layout = "half_split", table_heads = 2 : i64}
// CHECK-NEXT:    [[Y:%.*]] = coda.reshape [[R]] : (tensor<?x?x32xbf16>) -> tensor<?x?x4x8xbf16>
// CHECK-NEXT:    func.return [[Y]]

// The last columns, in pairs of neighbours; tables of each sample.

func.func @last_columns(%q: tensor<2x5x24xf32>, %cos: tensor<2x5x2xf32>, %sin: tensor<2x5x2xf32>) -> tensor<2x5x2x12xf32> {
  %heads = coda.reshape %q : (tensor<2x5x24xf32>) -> tensor<2x5x2x12xf32>
  %rest = coda.slice %heads {dim = 3 : i64, start = 0 : i64, stop = 8 : i64} : (tensor<2x5x2x12xf32>) -> tensor<2x5x2x8xf32>
  %last = coda.slice %heads {dim = 3 : i64, start = 8 : i64, stop = 12 : i64} : (tensor<2x5x2x12xf32>) -> tensor<2x5x2x4xf32>
  %flat = coda.reshape %last : (tensor<2x5x2x4xf32>) -> tensor<2x5x8xf32>
  %rotated = coda.rope %flat, %cos, %sin {head_dim = 4 : i64, layout = "interleaved"} : (tensor<2x5x8xf32>, tensor<2x5x2xf32>, tensor<2x5x2xf32>) -> tensor<2x5x8xf32>
  %split = coda.reshape %rotated : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %y = coda.concat %rest, %split {dim = 3 : i64} : (tensor<2x5x2x8xf32>, tensor<2x5x2x4xf32>) -> tensor<2x5x2x12xf32>
  func.return %y : tensor<2x5x2x12xf32>
}

// CHECK-LABEL: func.func @last_columns(
// CHECK-NEXT:    [[C:%.*]] = coda.pad %cos {dim = 2 : i64, start = 4 : i64, value = 1.000000e+00 : f64} : (tensor<2x5x2xf32>) -> tensor<2x5x6xf32>
// CHECK-NEXT:    [[S:%.*]] = coda.pad %sin {dim = 2 : i64, start = 4 : i64} : (tensor<2x5x2xf32>) -> tensor<2x5x6xf32>
// CHECK-NEXT:    [[R:%.*]] = coda.rope %q, [[C]], [[S]] {head_dim = 12 : i64, layout = "interleaved"}
// CHECK-NEXT:    [[Y:%.*]] = coda.reshape [[R]] : (tensor<2x5x24xf32>) -> tensor<2x5x2x12xf32>
// CHECK-NEXT:    func.return [[Y]]

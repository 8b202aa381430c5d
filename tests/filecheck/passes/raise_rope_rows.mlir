// RUN: coda-opt %s -p raise-rope,dce | filecheck %s

// Whole rows are rotated before they are split into heads, which have angles of their own. The tables repeat each column,
// after columns that stay; those of the result have one for each pair.

func.func @rows(%q: tensor<2x?x16xbf16> {coda.dims = [2 : i64, "T", 16 : i64]}, %f: tensor<2x?x6xf32> {coda.dims = [2 : i64, "T", 6 : i64]}) -> tensor<2x?x2x8xbf16> {
  %cos = coda.cos %f : (tensor<2x?x6xf32>) -> tensor<2x?x6xf32>
  %sin = coda.sin %f : (tensor<2x?x6xf32>) -> tensor<2x?x6xf32>
  %c1 = coda.reshape %cos : (tensor<2x?x6xf32>) -> tensor<2x?x6x1xf32>
  %s1 = coda.reshape %sin : (tensor<2x?x6xf32>) -> tensor<2x?x6x1xf32>
  %c2 = coda.concat %c1, %c1 {dim = 3 : i64} : (tensor<2x?x6x1xf32>, tensor<2x?x6x1xf32>) -> tensor<2x?x6x2xf32>
  %s2 = coda.concat %s1, %s1 {dim = 3 : i64} : (tensor<2x?x6x1xf32>, tensor<2x?x6x1xf32>) -> tensor<2x?x6x2xf32>
  %c3 = coda.reshape %c2 : (tensor<2x?x6x2xf32>) -> tensor<2x?x12xf32>
  %s3 = coda.reshape %s2 : (tensor<2x?x6x2xf32>) -> tensor<2x?x12xf32>
  %like = coda.slice %c3 {dim = 2 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<2x?x12xf32>) -> tensor<2x?x4xf32>
  %o0 = coda.constant {value = 1.0 : f64} : tensor<f32>
  %ones = coda.broadcast %o0, %like : (tensor<f32>, tensor<2x?x4xf32>) -> tensor<2x?x4xf32>
  %z0 = coda.constant {value = 0.0 : f64} : tensor<f32>
  %zeros = coda.broadcast %z0, %like : (tensor<f32>, tensor<2x?x4xf32>) -> tensor<2x?x4xf32>
  %c = coda.concat %ones, %c3 {dim = 2 : i64} : (tensor<2x?x4xf32>, tensor<2x?x12xf32>) -> tensor<2x?x16xf32>
  %s = coda.concat %zeros, %s3 {dim = 2 : i64} : (tensor<2x?x4xf32>, tensor<2x?x12xf32>) -> tensor<2x?x16xf32>
  %pairs = coda.reshape %q : (tensor<2x?x16xbf16>) -> tensor<2x?x8x2xbf16>
  %a = coda.slice %pairs {dim = 3 : i64, start = 0 : i64, stop = 1 : i64} : (tensor<2x?x8x2xbf16>) -> tensor<2x?x8x1xbf16>
  %b = coda.slice %pairs {dim = 3 : i64, start = 1 : i64, stop = 2 : i64} : (tensor<2x?x8x2xbf16>) -> tensor<2x?x8x1xbf16>
  %b0 = coda.reshape %b : (tensor<2x?x8x1xbf16>) -> tensor<2x?x8xbf16>
  %neg = coda.neg %b0 : (tensor<2x?x8xbf16>) -> tensor<2x?x8xbf16>
  %b1 = coda.reshape %neg : (tensor<2x?x8xbf16>) -> tensor<2x?x8x1xbf16>
  %stack = coda.concat %b1, %a {dim = 3 : i64} : (tensor<2x?x8x1xbf16>, tensor<2x?x8x1xbf16>) -> tensor<2x?x8x2xbf16>
  %rotated = coda.reshape %stack : (tensor<2x?x8x2xbf16>) -> tensor<2x?x16xbf16>
  %wide = coda.cast %q : (tensor<2x?x16xbf16>) -> tensor<2x?x16xf32>
  %straight = coda.mul %wide, %c : (tensor<2x?x16xf32>, tensor<2x?x16xf32>) -> tensor<2x?x16xf32>
  %wide_rotated = coda.cast %rotated : (tensor<2x?x16xbf16>) -> tensor<2x?x16xf32>
  %crossed = coda.mul %wide_rotated, %s : (tensor<2x?x16xf32>, tensor<2x?x16xf32>) -> tensor<2x?x16xf32>
  %sum = coda.add %straight, %crossed : (tensor<2x?x16xf32>, tensor<2x?x16xf32>) -> tensor<2x?x16xf32>
  %narrow = coda.cast %sum : (tensor<2x?x16xf32>) -> tensor<2x?x16xbf16>
  %heads = coda.reshape %narrow : (tensor<2x?x16xbf16>) -> tensor<2x?x2x8xbf16>
  func.return %heads : tensor<2x?x2x8xbf16>
}

// CHECK-LABEL: func.func @rows(
// CHECK:         [[COS:%.*]] = coda.concat {{.*}} : (tensor<2x?x2xf32>, tensor<2x?x6xf32>) -> tensor<2x?x8xf32>
// CHECK-NEXT:    [[C:%.*]] = coda.reshape [[COS]]
// CHECK:         [[SIN:%.*]] = coda.concat {{.*}} : (tensor<2x?x2xf32>, tensor<2x?x6xf32>) -> tensor<2x?x8xf32>
// CHECK-NEXT:    [[S:%.*]] = coda.reshape [[SIN]]
// CHECK-NEXT:    %narrow = coda.rope %q, [[C]], [[S]] {head_dim = 16 : i64, layout = "interleaved"}
// CHECK-NEXT:    %heads = coda.reshape %narrow : (tensor<2x?x16xbf16>) -> tensor<2x?x2x8xbf16>
// CHECK-NEXT:    func.return %heads

// Halves of rows, with tables of each column that are the same for all samples.

func.func @halves(%q: tensor<2x5x8xf32>, %c: tensor<5x8xf32>, %s: tensor<5x8xf32>) -> tensor<2x5x8xf32> {
  %a = coda.slice %q {dim = 2 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<2x5x8xf32>) -> tensor<2x5x4xf32>
  %b = coda.slice %q {dim = 2 : i64, start = 4 : i64, stop = 8 : i64} : (tensor<2x5x8xf32>) -> tensor<2x5x4xf32>
  %neg = coda.neg %b : (tensor<2x5x4xf32>) -> tensor<2x5x4xf32>
  %rotated = coda.concat %neg, %a {dim = 2 : i64} : (tensor<2x5x4xf32>, tensor<2x5x4xf32>) -> tensor<2x5x8xf32>
  %straight = coda.mul %q, %c : (tensor<2x5x8xf32>, tensor<5x8xf32>) -> tensor<2x5x8xf32>
  %crossed = coda.mul %rotated, %s : (tensor<2x5x8xf32>, tensor<5x8xf32>) -> tensor<2x5x8xf32>
  %y = coda.add %straight, %crossed : (tensor<2x5x8xf32>, tensor<2x5x8xf32>) -> tensor<2x5x8xf32>
  func.return %y : tensor<2x5x8xf32>
}

// CHECK-LABEL: func.func @halves(
// CHECK-NEXT:    [[C:%.*]] = coda.reshape %c
// CHECK-NEXT:    [[S:%.*]] = coda.reshape %s
// CHECK-NEXT:    %y = coda.rope %q, [[C]], [[S]] {head_dim = 8 : i64, layout = "half_split", per_column}
// CHECK-NEXT:    func.return %y

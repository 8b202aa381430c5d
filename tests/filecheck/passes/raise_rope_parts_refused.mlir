// RUN: coda-opt %s -p 'raise-rope{decomposed=false},dce' | filecheck %s

// Six of eight columns are no whole fraction of a head.

func.func @fraction(%q: tensor<2x5x16xf32>, %cos: tensor<5x3xf32>, %sin: tensor<5x3xf32>) -> tensor<2x5x2x8xf32> {
  %heads = coda.reshape %q : (tensor<2x5x16xf32>) -> tensor<2x5x2x8xf32>
  %first = coda.slice %heads {dim = 3 : i64, start = 0 : i64, stop = 6 : i64} : (tensor<2x5x2x8xf32>) -> tensor<2x5x2x6xf32>
  %rest = coda.slice %heads {dim = 3 : i64, start = 6 : i64, stop = 8 : i64} : (tensor<2x5x2x8xf32>) -> tensor<2x5x2x2xf32>
  %flat = coda.reshape %first : (tensor<2x5x2x6xf32>) -> tensor<2x5x12xf32>
  %rotated = coda.rope %flat, %cos, %sin {head_dim = 6 : i64, layout = "half_split"} : (tensor<2x5x12xf32>, tensor<5x3xf32>, tensor<5x3xf32>) -> tensor<2x5x12xf32>
  %split = coda.reshape %rotated : (tensor<2x5x12xf32>) -> tensor<2x5x2x6xf32>
  %y = coda.concat %split, %rest {dim = 3 : i64} : (tensor<2x5x2x6xf32>, tensor<2x5x2x2xf32>) -> tensor<2x5x2x8xf32>
  func.return %y : tensor<2x5x2x8xf32>
}

// CHECK-LABEL: func.func @fraction(
// CHECK:         coda.rope %flat, %cos, %sin
// CHECK:         coda.concat %split, %rest

// The other columns are those of another tensor.

func.func @other_tensor(%q: tensor<2x5x16xf32>, %k: tensor<2x5x2x4xf32>, %cos: tensor<5x2xf32>, %sin: tensor<5x2xf32>) -> tensor<2x5x2x8xf32> {
  %heads = coda.reshape %q : (tensor<2x5x16xf32>) -> tensor<2x5x2x8xf32>
  %first = coda.slice %heads {dim = 3 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<2x5x2x8xf32>) -> tensor<2x5x2x4xf32>
  %flat = coda.reshape %first : (tensor<2x5x2x4xf32>) -> tensor<2x5x8xf32>
  %rotated = coda.rope %flat, %cos, %sin {head_dim = 4 : i64, layout = "half_split"} : (tensor<2x5x8xf32>, tensor<5x2xf32>, tensor<5x2xf32>) -> tensor<2x5x8xf32>
  %split = coda.reshape %rotated : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %y = coda.concat %split, %k {dim = 3 : i64} : (tensor<2x5x2x4xf32>, tensor<2x5x2x4xf32>) -> tensor<2x5x2x8xf32>
  func.return %y : tensor<2x5x2x8xf32>
}

// CHECK-LABEL: func.func @other_tensor(
// CHECK:         coda.rope %flat, %cos, %sin
// CHECK:         coda.concat %split, %k

// The rows of the tables are heads, and the columns of one head are several positions.

func.func @heads_before_rows(%q: tensor<2x5x16xf32>, %cos: tensor<2x2xf32>, %sin: tensor<2x2xf32>) -> tensor<2x2x5x8xf32> {
  %heads = coda.reshape %q : (tensor<2x5x16xf32>) -> tensor<2x5x2x8xf32>
  %moved = coda.transpose %heads {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x8xf32>) -> tensor<2x2x5x8xf32>
  %first = coda.slice %moved {dim = 3 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<2x2x5x8xf32>) -> tensor<2x2x5x4xf32>
  %rest = coda.slice %moved {dim = 3 : i64, start = 4 : i64, stop = 8 : i64} : (tensor<2x2x5x8xf32>) -> tensor<2x2x5x4xf32>
  %flat = coda.reshape %first : (tensor<2x2x5x4xf32>) -> tensor<2x2x20xf32>
  %rotated = coda.rope %flat, %cos, %sin {head_dim = 4 : i64, layout = "half_split"} : (tensor<2x2x20xf32>, tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2x20xf32>
  %split = coda.reshape %rotated : (tensor<2x2x20xf32>) -> tensor<2x2x5x4xf32>
  %y = coda.concat %split, %rest {dim = 3 : i64} : (tensor<2x2x5x4xf32>, tensor<2x2x5x4xf32>) -> tensor<2x2x5x8xf32>
  func.return %y : tensor<2x2x5x8xf32>
}

// CHECK-LABEL: func.func @heads_before_rows(
// CHECK:         coda.rope %flat, %cos, %sin
// CHECK:         coda.concat %split, %rest

// Tables that may be learned: the rotation is decomposed.

func.func @decomposed(%q: tensor<2x5x2x4xf32>, %cos: tensor<2x1x1x2xf32>, %sin: tensor<2x1x1x2xf32>) -> tensor<2x5x2x4xf32> {
  %a = coda.slice %q {dim = 3 : i64, start = 0 : i64, stop = 2 : i64} : (tensor<2x5x2x4xf32>) -> tensor<2x5x2x2xf32>
  %b = coda.slice %q {dim = 3 : i64, start = 2 : i64, stop = 4 : i64} : (tensor<2x5x2x4xf32>) -> tensor<2x5x2x2xf32>
  %ac = coda.mul %a, %cos : (tensor<2x5x2x2xf32>, tensor<2x1x1x2xf32>) -> tensor<2x5x2x2xf32>
  %bs = coda.mul %b, %sin : (tensor<2x5x2x2xf32>, tensor<2x1x1x2xf32>) -> tensor<2x5x2x2xf32>
  %bc = coda.mul %b, %cos : (tensor<2x5x2x2xf32>, tensor<2x1x1x2xf32>) -> tensor<2x5x2x2xf32>
  %as = coda.mul %a, %sin : (tensor<2x5x2x2xf32>, tensor<2x1x1x2xf32>) -> tensor<2x5x2x2xf32>
  %minus = coda.sub %ac, %bs : (tensor<2x5x2x2xf32>, tensor<2x5x2x2xf32>) -> tensor<2x5x2x2xf32>
  %plus = coda.add %bc, %as : (tensor<2x5x2x2xf32>, tensor<2x5x2x2xf32>) -> tensor<2x5x2x2xf32>
  %y = coda.concat %minus, %plus {dim = 3 : i64} : (tensor<2x5x2x2xf32>, tensor<2x5x2x2xf32>) -> tensor<2x5x2x4xf32>
  func.return %y : tensor<2x5x2x4xf32>
}

// CHECK-LABEL: func.func @decomposed(
// CHECK-NOT:     coda.rope
// CHECK:         func.return %y

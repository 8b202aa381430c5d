// RUN: coda-opt %s -p unroll-sums,dce --split-input-file | filecheck %s
// RUN: coda-opt %s -p unroll-sums,dce --split-input-file --remarks=passed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// The rows that two experts compute for each token, which are read as rows of two dimensions.

func.func @experts(%y: tensor<?x2x8xbf16> {coda.dims = ["2*T", 2 : i64, 8 : i64]}, %x: tensor<2x?x8xbf16> {coda.dims = [2 : i64, "T", 8 : i64]}) -> tensor<2x?x8xbf16> {
  %s = coda.sum_to %y : (tensor<?x2x8xbf16>) -> tensor<?x1x8xbf16>
  %flat = coda.reshape %s {coda.dims = ["2*T", 8 : i64]} : (tensor<?x1x8xbf16>) -> tensor<?x8xbf16>
  %rows = coda.reshape %flat {coda.dims = [2 : i64, "T", 8 : i64]} : (tensor<?x8xbf16>) -> tensor<2x?x8xbf16>
  %z = coda.add %x, %rows : (tensor<2x?x8xbf16>, tensor<2x?x8xbf16>) -> tensor<2x?x8xbf16>
  func.return %z : tensor<2x?x8xbf16>
}

// CHECK:      func.func @experts(%y: tensor<?x2x8xbf16> {coda.dims = ["2*T", 2 : i64, 8 : i64]}, %x: tensor<2x?x8xbf16> {coda.dims = [2 : i64, "T", 8 : i64]}) -> tensor<2x?x8xbf16> {
// CHECK-NEXT:   %y_1 = coda.slice %y {dim = 1 : i64, start = 0 : i64, stop = 1 : i64} : (tensor<?x2x8xbf16>) -> tensor<?x1x8xbf16>
// CHECK-NEXT:   %y_2 = coda.reshape %y_1 {coda.dims = [2 : i64, "T", 8 : i64]} : (tensor<?x1x8xbf16>) -> tensor<2x?x8xbf16>
// CHECK-NEXT:   %y_3 = coda.cast %y_2 : (tensor<2x?x8xbf16>) -> tensor<2x?x8xf32>
// CHECK-NEXT:   %y_4 = coda.slice %y {dim = 1 : i64, start = 1 : i64, stop = 2 : i64} : (tensor<?x2x8xbf16>) -> tensor<?x1x8xbf16>
// CHECK-NEXT:   %y_5 = coda.reshape %y_4 {coda.dims = [2 : i64, "T", 8 : i64]} : (tensor<?x1x8xbf16>) -> tensor<2x?x8xbf16>
// CHECK-NEXT:   %y_6 = coda.cast %y_5 : (tensor<2x?x8xbf16>) -> tensor<2x?x8xf32>
// CHECK-NEXT:   %0 = coda.add %y_3, %y_6 : (tensor<2x?x8xf32>, tensor<2x?x8xf32>) -> tensor<2x?x8xf32>
// CHECK-NEXT:   %rows = coda.cast %0 : (tensor<2x?x8xf32>) -> tensor<2x?x8xbf16>
// CHECK-NEXT:   %z = coda.add %x, %rows : (tensor<2x?x8xbf16>, tensor<2x?x8xbf16>) -> tensor<2x?x8xbf16>
// CHECK-NEXT:   func.return %z : tensor<2x?x8xbf16>
// CHECK-NEXT: }

// REMARK: remark[passed] unroll-sums: coda.sum_to: adds up 2 rows one by one

// -----

// Three rows in float32, and a sum that is read in two ways.

func.func @three(%y: tensor<?x3x8xf32>) -> (tensor<?x1x8xf32>, tensor<?x8xf32>) {
  %s = coda.sum_to %y : (tensor<?x3x8xf32>) -> tensor<?x1x8xf32>
  %flat = coda.reshape %s : (tensor<?x1x8xf32>) -> tensor<?x8xf32>
  func.return %s, %flat : tensor<?x1x8xf32>, tensor<?x8xf32>
}

// CHECK:      func.func @three(%y: tensor<?x3x8xf32>) -> (tensor<?x1x8xf32>, tensor<?x8xf32>) {
// CHECK-NEXT:   %y_1 = coda.slice %y {dim = 1 : i64, start = 0 : i64, stop = 1 : i64} : (tensor<?x3x8xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %y_2 = coda.slice %y {dim = 1 : i64, start = 1 : i64, stop = 2 : i64} : (tensor<?x3x8xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %y_3 = coda.slice %y {dim = 1 : i64, start = 2 : i64, stop = 3 : i64} : (tensor<?x3x8xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %0 = coda.add %y_1, %y_2 : (tensor<?x1x8xf32>, tensor<?x1x8xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %s = coda.add %0, %y_3 : (tensor<?x1x8xf32>, tensor<?x1x8xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %flat = coda.reshape %s : (tensor<?x1x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   func.return %s, %flat : tensor<?x1x8xf32>, tensor<?x8xf32>
// CHECK-NEXT: }

// REMARK: remark[passed] unroll-sums: coda.sum_to: adds up 3 rows one by one

// -----

// A sum that is rounded, once, before it is read as rows of two dimensions.

func.func @rounded(%y: tensor<?x2x8xf32> {coda.dims = ["2*T", 2 : i64, 8 : i64]}) -> tensor<2x?x8xbf16> {
  %s = coda.sum_to %y : (tensor<?x2x8xf32>) -> tensor<?x1x8xf32>
  %narrow = coda.cast %s : (tensor<?x1x8xf32>) -> tensor<?x1x8xbf16>
  %rows = coda.reshape %narrow {coda.dims = [2 : i64, "T", 8 : i64]} : (tensor<?x1x8xbf16>) -> tensor<2x?x8xbf16>
  func.return %rows : tensor<2x?x8xbf16>
}

// CHECK:      func.func @rounded(%y: tensor<?x2x8xf32> {coda.dims = ["2*T", 2 : i64, 8 : i64]}) -> tensor<2x?x8xbf16> {
// CHECK-NEXT:   %y_1 = coda.slice %y {dim = 1 : i64, start = 0 : i64, stop = 1 : i64} : (tensor<?x2x8xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %y_2 = coda.reshape %y_1 {coda.dims = [2 : i64, "T", 8 : i64]} : (tensor<?x1x8xf32>) -> tensor<2x?x8xf32>
// CHECK-NEXT:   %y_3 = coda.slice %y {dim = 1 : i64, start = 1 : i64, stop = 2 : i64} : (tensor<?x2x8xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %y_4 = coda.reshape %y_3 {coda.dims = [2 : i64, "T", 8 : i64]} : (tensor<?x1x8xf32>) -> tensor<2x?x8xf32>
// CHECK-NEXT:   %0 = coda.add %y_2, %y_4 : (tensor<2x?x8xf32>, tensor<2x?x8xf32>) -> tensor<2x?x8xf32>
// CHECK-NEXT:   %rows = coda.cast %0 : (tensor<2x?x8xf32>) -> tensor<2x?x8xbf16>
// CHECK-NEXT:   func.return %rows : tensor<2x?x8xbf16>
// CHECK-NEXT: }

// REMARK: remark[passed] unroll-sums: coda.sum_to: adds up 2 rows one by one

// -----

// Rows of a GEMM that are scaled in float32 are moved in the type that they were rounded to.

func.func @scaled(%a: tensor<?x8xbf16> {coda.dims = ["2*T", 8 : i64]}, %w: tensor<4x8x8xbf16>, %e: tensor<4xi32>, %s: tensor<?x1xf32> {coda.dims = ["2*T", 1 : i64]}, %ids: tensor<?xi64> {coda.dims = ["2*T"]}) -> tensor<?x1x8xf32> {
  %z = coda.grouped_linear %a, %w, %e : (tensor<?x8xbf16>, tensor<4x8x8xbf16>, tensor<4xi32>) -> tensor<?x8xbf16>
  %wide = coda.cast %z : (tensor<?x8xbf16>) -> tensor<?x8xf32>
  %y = coda.mul %wide, %s : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  %x = coda.index %y, %ids {dim = 0 : i64} : (tensor<?x8xf32>, tensor<?xi64>) -> tensor<?x8xf32>
  %pairs = coda.reshape %x {coda.dims = ["T", 2 : i64, 8 : i64]} : (tensor<?x8xf32>) -> tensor<?x2x8xf32>
  %t = coda.sum_to %pairs : (tensor<?x2x8xf32>) -> tensor<?x1x8xf32>
  func.return %t : tensor<?x1x8xf32>
}

// REMARK: remark[passed] unroll-sums: coda.sum_to: adds up 2 rows one by one

// CHECK:      func.func @scaled(%a: tensor<?x8xbf16> {coda.dims = ["2*T", 8 : i64]}, %w: tensor<4x8x8xbf16>, %e: tensor<4xi32>, %s: tensor<?x1xf32> {coda.dims = ["2*T", 1 : i64]}, %ids: tensor<?xi64> {coda.dims = ["2*T"]}) -> tensor<?x1x8xf32> {
// CHECK-NEXT:   %z = coda.grouped_linear %a, %w, %e : (tensor<?x8xbf16>, tensor<4x8x8xbf16>, tensor<4xi32>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %wide = coda.cast %z : (tensor<?x8xbf16>) -> tensor<?x8xf32>
// CHECK-NEXT:   %y = coda.mul %wide, %s : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %y_1 = coda.cast %y : (tensor<?x8xf32>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %x = coda.index %y_1, %ids {dim = 0 : i64} : (tensor<?x8xbf16>, tensor<?xi64>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %pairs = coda.reshape %x {coda.dims = ["T", 2 : i64, 8 : i64]} : (tensor<?x8xbf16>) -> tensor<?x2x8xbf16>
// CHECK-NEXT:   %pairs_1 = coda.slice %pairs {dim = 1 : i64, start = 0 : i64, stop = 1 : i64} : (tensor<?x2x8xbf16>) -> tensor<?x1x8xbf16>
// CHECK-NEXT:   %pairs_2 = coda.cast %pairs_1 : (tensor<?x1x8xbf16>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %pairs_3 = coda.slice %pairs {dim = 1 : i64, start = 1 : i64, stop = 2 : i64} : (tensor<?x2x8xbf16>) -> tensor<?x1x8xbf16>
// CHECK-NEXT:   %pairs_4 = coda.cast %pairs_3 : (tensor<?x1x8xbf16>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %t = coda.add %pairs_2, %pairs_4 : (tensor<?x1x8xf32>, tensor<?x1x8xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   func.return %t : tensor<?x1x8xf32>
// CHECK-NEXT: }

// -----

// Weighted rows, as of hyper-connections: each is weighted by itself.

func.func @weighted(%s: tensor<?x2x8xf32>, %a: tensor<2x1xf32>) -> tensor<?x1x8xf32> {
  %x = coda.mul %s, %a : (tensor<?x2x8xf32>, tensor<2x1xf32>) -> tensor<?x2x8xf32>
  %h = coda.sum_to %x : (tensor<?x2x8xf32>) -> tensor<?x1x8xf32>
  func.return %h : tensor<?x1x8xf32>
}

// CHECK:      func.func @weighted(%s: tensor<?x2x8xf32>, %a: tensor<2x1xf32>) -> tensor<?x1x8xf32> {
// CHECK-NEXT:   %s_1 = coda.slice %s {dim = 1 : i64, start = 0 : i64, stop = 1 : i64} : (tensor<?x2x8xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %a_1 = coda.slice %a {dim = 0 : i64, start = 0 : i64, stop = 1 : i64} : (tensor<2x1xf32>) -> tensor<1x1xf32>
// CHECK-NEXT:   %x = coda.mul %s_1, %a_1 : (tensor<?x1x8xf32>, tensor<1x1xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %s_2 = coda.slice %s {dim = 1 : i64, start = 1 : i64, stop = 2 : i64} : (tensor<?x2x8xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %a_2 = coda.slice %a {dim = 0 : i64, start = 1 : i64, stop = 2 : i64} : (tensor<2x1xf32>) -> tensor<1x1xf32>
// CHECK-NEXT:   %x_1 = coda.mul %s_2, %a_2 : (tensor<?x1x8xf32>, tensor<1x1xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %h = coda.add %x, %x_1 : (tensor<?x1x8xf32>, tensor<?x1x8xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   func.return %h : tensor<?x1x8xf32>
// CHECK-NEXT: }

// REMARK: remark[passed] unroll-sums: coda.sum_to: adds up 2 rows one by one

// -----

// Rows of a GEMM, whose tiles have many samples, and which others read as well.

func.func @gemm(%u: tensor<?x2x8xf32>, %m: tensor<8x8xf32>) -> (tensor<?x2x8xf32>, tensor<?x1x8xf32>) {
  %v = coda.linear %u, %m : (tensor<?x2x8xf32>, tensor<8x8xf32>) -> tensor<?x2x8xf32>
  %w = coda.sum_to %v : (tensor<?x2x8xf32>) -> tensor<?x1x8xf32>
  func.return %v, %w : tensor<?x2x8xf32>, tensor<?x1x8xf32>
}

// CHECK:      func.func @gemm(%u: tensor<?x2x8xf32>, %m: tensor<8x8xf32>) -> (tensor<?x2x8xf32>, tensor<?x1x8xf32>) {
// CHECK-NEXT:   %v = coda.linear %u, %m : (tensor<?x2x8xf32>, tensor<8x8xf32>) -> tensor<?x2x8xf32>
// CHECK-NEXT:   %v_1 = coda.slice %v {dim = 1 : i64, start = 0 : i64, stop = 1 : i64} : (tensor<?x2x8xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %v_2 = coda.slice %v {dim = 1 : i64, start = 1 : i64, stop = 2 : i64} : (tensor<?x2x8xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %w = coda.add %v_1, %v_2 : (tensor<?x1x8xf32>, tensor<?x1x8xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   func.return %v, %w : tensor<?x2x8xf32>, tensor<?x1x8xf32>
// CHECK-NEXT: }

// -----

// The sum of samples, as of the gradient of position embeddings: code before it computes one sample
// at a time, without its dimension.

func.func @samples(%y: tensor<2x?x3x8xbf16>, %s: tensor<1x?x1x1xbf16>, %c: tensor<3x8xbf16>) -> (tensor<?x3x8xbf16>, tensor<1x?x3x8xf32>) {
  %n = coda.neg %y : (tensor<2x?x3x8xbf16>) -> tensor<2x?x3x8xbf16>
  %m = coda.mul %n, %s : (tensor<2x?x3x8xbf16>, tensor<1x?x1x1xbf16>) -> tensor<2x?x3x8xbf16>
  %z = coda.add %m, %c : (tensor<2x?x3x8xbf16>, tensor<3x8xbf16>) -> tensor<2x?x3x8xbf16>
  %a = coda.sum_to %z : (tensor<2x?x3x8xbf16>) -> tensor<?x3x8xbf16>
  %b = coda.sum_to %y : (tensor<2x?x3x8xbf16>) -> tensor<1x?x3x8xf32>
  func.return %a, %b : tensor<?x3x8xbf16>, tensor<1x?x3x8xf32>
}

// CHECK:      func.func @samples(%y: tensor<2x?x3x8xbf16>, %s: tensor<1x?x1x1xbf16>, %c: tensor<3x8xbf16>) -> (tensor<?x3x8xbf16>, tensor<1x?x3x8xf32>) {
// CHECK-NEXT:   %y_1 = coda.slice %y {dim = 0 : i64, start = 0 : i64, stop = 1 : i64} : (tensor<2x?x3x8xbf16>) -> tensor<1x?x3x8xbf16>
// CHECK-NEXT:   %y_2 = coda.reshape %y_1 : (tensor<1x?x3x8xbf16>) -> tensor<?x3x8xbf16>
// CHECK-NEXT:   %n = coda.neg %y_2 : (tensor<?x3x8xbf16>) -> tensor<?x3x8xbf16>
// CHECK-NEXT:   %s_1 = coda.reshape %s : (tensor<1x?x1x1xbf16>) -> tensor<?x1x1xbf16>
// CHECK-NEXT:   %m = coda.mul %n, %s_1 : (tensor<?x3x8xbf16>, tensor<?x1x1xbf16>) -> tensor<?x3x8xbf16>
// CHECK-NEXT:   %z = coda.add %m, %c : (tensor<?x3x8xbf16>, tensor<3x8xbf16>) -> tensor<?x3x8xbf16>
// CHECK-NEXT:   %z_1 = coda.cast %z : (tensor<?x3x8xbf16>) -> tensor<?x3x8xf32>
// CHECK-NEXT:   %y_3 = coda.slice %y {dim = 0 : i64, start = 1 : i64, stop = 2 : i64} : (tensor<2x?x3x8xbf16>) -> tensor<1x?x3x8xbf16>
// CHECK-NEXT:   %y_4 = coda.reshape %y_3 : (tensor<1x?x3x8xbf16>) -> tensor<?x3x8xbf16>
// CHECK-NEXT:   %n_1 = coda.neg %y_4 : (tensor<?x3x8xbf16>) -> tensor<?x3x8xbf16>
// CHECK-NEXT:   %s_2 = coda.reshape %s : (tensor<1x?x1x1xbf16>) -> tensor<?x1x1xbf16>
// CHECK-NEXT:   %m_1 = coda.mul %n_1, %s_2 : (tensor<?x3x8xbf16>, tensor<?x1x1xbf16>) -> tensor<?x3x8xbf16>
// CHECK-NEXT:   %z_2 = coda.add %m_1, %c : (tensor<?x3x8xbf16>, tensor<3x8xbf16>) -> tensor<?x3x8xbf16>
// CHECK-NEXT:   %z_3 = coda.cast %z_2 : (tensor<?x3x8xbf16>) -> tensor<?x3x8xf32>
// CHECK-NEXT:   %0 = coda.add %z_1, %z_3 : (tensor<?x3x8xf32>, tensor<?x3x8xf32>) -> tensor<?x3x8xf32>
// CHECK-NEXT:   %a = coda.cast %0 : (tensor<?x3x8xf32>) -> tensor<?x3x8xbf16>
// CHECK-NEXT:   %y_5 = coda.slice %y {dim = 0 : i64, start = 0 : i64, stop = 1 : i64} : (tensor<2x?x3x8xbf16>) -> tensor<1x?x3x8xbf16>
// CHECK-NEXT:   %y_6 = coda.cast %y_5 : (tensor<1x?x3x8xbf16>) -> tensor<1x?x3x8xf32>
// CHECK-NEXT:   %y_7 = coda.slice %y {dim = 0 : i64, start = 1 : i64, stop = 2 : i64} : (tensor<2x?x3x8xbf16>) -> tensor<1x?x3x8xbf16>
// CHECK-NEXT:   %y_8 = coda.cast %y_7 : (tensor<1x?x3x8xbf16>) -> tensor<1x?x3x8xf32>
// CHECK-NEXT:   %b = coda.add %y_6, %y_8 : (tensor<1x?x3x8xf32>, tensor<1x?x3x8xf32>) -> tensor<1x?x3x8xf32>
// CHECK-NEXT:   func.return %a, %b : tensor<?x3x8xbf16>, tensor<1x?x3x8xf32>
// CHECK-NEXT: }

// REMARK: remark[passed] unroll-sums: coda.sum_to: adds up 2 rows one by one
// REMARK: remark[passed] unroll-sums: coda.sum_to: adds up 2 rows one by one

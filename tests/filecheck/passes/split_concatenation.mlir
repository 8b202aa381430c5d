// RUN: coda-opt %s -p split-concatenation,canonicalize,cse,dce --split-input-file | filecheck %s

// The gradient of a packed projection of N x K, with the sums that the norm before it needs.

func.func @packed(%dq: tensor<?x8xbf16>, %dk: tensor<?x4xbf16>, %x: tensor<?x6xbf16>, %w: tensor<12x6xbf16>, %z: tensor<?x12xbf16>, %b: tensor<12xf32>) -> (tensor<?x6xbf16>, tensor<12x6xbf16>, tensor<12xbf16>, tensor<?x1xf32>) {
  %d = coda.concat %dq, %dk {dim = 1 : i64} : (tensor<?x8xbf16>, tensor<?x4xbf16>) -> tensor<?x12xbf16>
  %dx = coda.matmul %d, %w : (tensor<?x12xbf16>, tensor<12x6xbf16>) -> tensor<?x6xbf16>
  %dw = coda.weight_gradient %d, %x : (tensor<?x12xbf16>, tensor<?x6xbf16>) -> tensor<12x6xbf16>
  %db = coda.sum_to %d : (tensor<?x12xbf16>) -> tensor<12xbf16>
  %0 = coda.cast %z : (tensor<?x12xbf16>) -> tensor<?x12xf32>
  %1 = coda.sub %0, %b : (tensor<?x12xf32>, tensor<12xf32>) -> tensor<?x12xf32>
  %2 = coda.cast %d : (tensor<?x12xbf16>) -> tensor<?x12xf32>
  %3 = coda.mul %1, %2 : (tensor<?x12xf32>, tensor<?x12xf32>) -> tensor<?x12xf32>
  %s = coda.reduce %3 {kind = "sum"} : (tensor<?x12xf32>) -> tensor<?x1xf32>
  func.return %dx, %dw, %db, %s : tensor<?x6xbf16>, tensor<12x6xbf16>, tensor<12xbf16>, tensor<?x1xf32>
}

// CHECK:      func.func @packed(%dq: tensor<?x8xbf16>, %dk: tensor<?x4xbf16>, %x: tensor<?x6xbf16>, %w: tensor<12x6xbf16>, %z: tensor<?x12xbf16>, %b: tensor<12xf32>) -> (tensor<?x6xbf16>, tensor<12x6xbf16>, tensor<12xbf16>, tensor<?x1xf32>) {
// CHECK-NEXT:   %0 = coda.slice %w {dim = 0 : i64, start = 0 : i64, stop = 8 : i64} : (tensor<12x6xbf16>) -> tensor<8x6xbf16>
// CHECK-NEXT:   %1 = coda.slice %w {dim = 0 : i64, start = 8 : i64, stop = 12 : i64} : (tensor<12x6xbf16>) -> tensor<4x6xbf16>
// CHECK-NEXT:   %dx = coda.matmul %dq, %0 : (tensor<?x8xbf16>, tensor<8x6xbf16>) -> tensor<?x6xbf16>
// CHECK-NEXT:   %dx_1 = coda.matmul %dk, %1 : (tensor<?x4xbf16>, tensor<4x6xbf16>) -> tensor<?x6xbf16>
// CHECK-NEXT:   %dx_2 = coda.add %dx, %dx_1 : (tensor<?x6xbf16>, tensor<?x6xbf16>) -> tensor<?x6xbf16>
// CHECK-NEXT:   %dw = coda.weight_gradient %dq, %x : (tensor<?x8xbf16>, tensor<?x6xbf16>) -> tensor<8x6xbf16>
// CHECK-NEXT:   %dw_1 = coda.weight_gradient %dk, %x : (tensor<?x4xbf16>, tensor<?x6xbf16>) -> tensor<4x6xbf16>
// CHECK-NEXT:   %dw_2 = coda.concat %dw, %dw_1 {dim = 0 : i64} : (tensor<8x6xbf16>, tensor<4x6xbf16>) -> tensor<12x6xbf16>
// CHECK-NEXT:   %db = coda.sum_to %dq : (tensor<?x8xbf16>) -> tensor<8xbf16>
// CHECK-NEXT:   %db_1 = coda.sum_to %dk : (tensor<?x4xbf16>) -> tensor<4xbf16>
// CHECK-NEXT:   %db_2 = coda.concat %db, %db_1 {dim = 0 : i64} : (tensor<8xbf16>, tensor<4xbf16>) -> tensor<12xbf16>
// CHECK-NEXT:   %z_1 = coda.slice %z {dim = 1 : i64, start = 0 : i64, stop = 8 : i64} : (tensor<?x12xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %2 = coda.cast %z_1 : (tensor<?x8xbf16>) -> tensor<?x8xf32>
// CHECK-NEXT:   %b_1 = coda.slice %b {dim = 0 : i64, start = 0 : i64, stop = 8 : i64} : (tensor<12xf32>) -> tensor<8xf32>
// CHECK-NEXT:   %3 = coda.sub %2, %b_1 : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %4 = coda.cast %dq : (tensor<?x8xbf16>) -> tensor<?x8xf32>
// CHECK-NEXT:   %5 = coda.mul %3, %4 : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %z_2 = coda.slice %z {dim = 1 : i64, start = 8 : i64, stop = 12 : i64} : (tensor<?x12xbf16>) -> tensor<?x4xbf16>
// CHECK-NEXT:   %6 = coda.cast %z_2 : (tensor<?x4xbf16>) -> tensor<?x4xf32>
// CHECK-NEXT:   %b_2 = coda.slice %b {dim = 0 : i64, start = 8 : i64, stop = 12 : i64} : (tensor<12xf32>) -> tensor<4xf32>
// CHECK-NEXT:   %7 = coda.sub %6, %b_2 : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   %8 = coda.cast %dk : (tensor<?x4xbf16>) -> tensor<?x4xf32>
// CHECK-NEXT:   %9 = coda.mul %7, %8 : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   %s = coda.reduce %5 {kind = "sum"} : (tensor<?x8xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %s_1 = coda.reduce %9 {kind = "sum"} : (tensor<?x4xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %s_2 = coda.add %s, %s_1 : (tensor<?x1xf32>, tensor<?x1xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   func.return %dx_2, %dw_2, %db_2, %s_2 : tensor<?x6xbf16>, tensor<12x6xbf16>, tensor<12xbf16>, tensor<?x1xf32>
// CHECK-NEXT: }

// -----

// Of a projection of K x N, whose weight gradient has the columns side by side.

func.func @kn(%dq: tensor<?x8xbf16>, %dk: tensor<?x4xbf16>, %x: tensor<?x6xbf16>, %w: tensor<6x12xbf16>) -> (tensor<?x6xbf16>, tensor<6x12xbf16>) {
  %d = coda.concat %dq, %dk {dim = 1 : i64} : (tensor<?x8xbf16>, tensor<?x4xbf16>) -> tensor<?x12xbf16>
  %dx = coda.linear %d, %w : (tensor<?x12xbf16>, tensor<6x12xbf16>) -> tensor<?x6xbf16>
  %dw = coda.weight_gradient %x, %d : (tensor<?x6xbf16>, tensor<?x12xbf16>) -> tensor<6x12xbf16>
  func.return %dx, %dw : tensor<?x6xbf16>, tensor<6x12xbf16>
}

// CHECK:      func.func @kn(%dq: tensor<?x8xbf16>, %dk: tensor<?x4xbf16>, %x: tensor<?x6xbf16>, %w: tensor<6x12xbf16>) -> (tensor<?x6xbf16>, tensor<6x12xbf16>) {
// CHECK-NEXT:   %d = coda.concat %dq, %dk {dim = 1 : i64} : (tensor<?x8xbf16>, tensor<?x4xbf16>) -> tensor<?x12xbf16>
// CHECK-NEXT:   %0 = coda.slice %w {dim = 1 : i64, start = 0 : i64, stop = 8 : i64} : (tensor<6x12xbf16>) -> tensor<6x8xbf16>
// CHECK-NEXT:   %1 = coda.slice %w {dim = 1 : i64, start = 8 : i64, stop = 12 : i64} : (tensor<6x12xbf16>) -> tensor<6x4xbf16>
// CHECK-NEXT:   %dx = coda.linear %dq, %0 : (tensor<?x8xbf16>, tensor<6x8xbf16>) -> tensor<?x6xbf16>
// CHECK-NEXT:   %dx_1 = coda.linear %dk, %1 : (tensor<?x4xbf16>, tensor<6x4xbf16>) -> tensor<?x6xbf16>
// CHECK-NEXT:   %dx_2 = coda.add %dx, %dx_1 : (tensor<?x6xbf16>, tensor<?x6xbf16>) -> tensor<?x6xbf16>
// CHECK-NEXT:   %dw = coda.weight_gradient %x, %d : (tensor<?x6xbf16>, tensor<?x12xbf16>) -> tensor<6x12xbf16>
// CHECK-NEXT:   func.return %dx_2, %dw : tensor<?x6xbf16>, tensor<6x12xbf16>
// CHECK-NEXT: }

// -----

// Rows in another order, as those of heads.

func.func @transposed(%dq: tensor<2x64x8xbf16>, %dk: tensor<2x64x4xbf16>, %x: tensor<64x2x6xbf16>, %w: tensor<12x6xbf16>) -> (tensor<64x2x6xbf16>, tensor<12x6xbf16>) {
  %d = coda.concat %dq, %dk {dim = 2 : i64} : (tensor<2x64x8xbf16>, tensor<2x64x4xbf16>) -> tensor<2x64x12xbf16>
  %t = coda.transpose %d {perm = [1 : i64, 0 : i64, 2 : i64]} : (tensor<2x64x12xbf16>) -> tensor<64x2x12xbf16>
  %dx = coda.matmul %t, %w : (tensor<64x2x12xbf16>, tensor<12x6xbf16>) -> tensor<64x2x6xbf16>
  %dw = coda.weight_gradient %t, %x : (tensor<64x2x12xbf16>, tensor<64x2x6xbf16>) -> tensor<12x6xbf16>
  func.return %dx, %dw : tensor<64x2x6xbf16>, tensor<12x6xbf16>
}

// CHECK-LABEL: func.func @transposed(
// CHECK-NEXT:     %0 = coda.slice %w {dim = 0 : i64, start = 0 : i64, stop = 8 : i64} : (tensor<12x6xbf16>) -> tensor<8x6xbf16>
// CHECK-NEXT:     %t = coda.transpose %dq {perm = [1 : i64, 0 : i64, 2 : i64]} : (tensor<2x64x8xbf16>) -> tensor<64x2x8xbf16>
// CHECK-NEXT:     %1 = coda.slice %w {dim = 0 : i64, start = 8 : i64, stop = 12 : i64} : (tensor<12x6xbf16>) -> tensor<4x6xbf16>
// CHECK-NEXT:     %t_1 = coda.transpose %dk {perm = [1 : i64, 0 : i64, 2 : i64]} : (tensor<2x64x4xbf16>) -> tensor<64x2x4xbf16>
// CHECK-NEXT:     %dx = coda.matmul %t, %0 : (tensor<64x2x8xbf16>, tensor<8x6xbf16>) -> tensor<64x2x6xbf16>
// CHECK-NEXT:     %dx_1 = coda.matmul %t_1, %1 : (tensor<64x2x4xbf16>, tensor<4x6xbf16>) -> tensor<64x2x6xbf16>
// CHECK-NEXT:     %dx_2 = coda.add %dx, %dx_1 : (tensor<64x2x6xbf16>, tensor<64x2x6xbf16>) -> tensor<64x2x6xbf16>
// CHECK-NEXT:     %dw = coda.weight_gradient %t, %x : (tensor<64x2x8xbf16>, tensor<64x2x6xbf16>) -> tensor<8x6xbf16>
// CHECK-NEXT:     %dw_1 = coda.weight_gradient %t_1, %x : (tensor<64x2x4xbf16>, tensor<64x2x6xbf16>) -> tensor<4x6xbf16>
// CHECK-NEXT:     %dw_2 = coda.concat %dw, %dw_1 {dim = 0 : i64} : (tensor<8x6xbf16>, tensor<4x6xbf16>) -> tensor<12x6xbf16>
// CHECK-NEXT:     func.return %dx_2, %dw_2 : tensor<64x2x6xbf16>, tensor<12x6xbf16>

// RUN: coda-opt %s -p unroll-sums --split-input-file | filecheck %s
// RUN: coda-opt %s -p unroll-sums --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// Rows that start anywhere, and float64.

func.func @odd(%y: tensor<?x2x9xbf16>) -> tensor<?x1x9xbf16> {
  %s = coda.sum_to %y : (tensor<?x2x9xbf16>) -> tensor<?x1x9xbf16>
  func.return %s : tensor<?x1x9xbf16>
}

// CHECK:      func.func @odd(%y: tensor<?x2x9xbf16>) -> tensor<?x1x9xbf16> {
// CHECK-NEXT:   %s = coda.sum_to %y : (tensor<?x2x9xbf16>) -> tensor<?x1x9xbf16>
// CHECK-NEXT:   func.return %s : tensor<?x1x9xbf16>
// CHECK-NEXT: }

// REMARK: remark[missed] unroll-sums: coda.sum_to: the sum remains a call of PyTorch: rows of %y start at other addresses; failed condition: rows start at multiples of 16 bytes; costs 54*d0 bytes

// -----

func.func @wide(%y: tensor<?x2x8xf64>) -> tensor<?x1x8xf64> {
  %s = coda.sum_to %y : (tensor<?x2x8xf64>) -> tensor<?x1x8xf64>
  func.return %s : tensor<?x1x8xf64>
}

// CHECK:      func.func @wide(%y: tensor<?x2x8xf64>) -> tensor<?x1x8xf64> {
// CHECK-NEXT:   %s = coda.sum_to %y : (tensor<?x2x8xf64>) -> tensor<?x1x8xf64>
// CHECK-NEXT:   func.return %s : tensor<?x1x8xf64>
// CHECK-NEXT: }

// REMARK: remark[missed] unroll-sums: coda.sum_to: the sum remains a call of PyTorch: it computes in f64; failed condition: float32 can represent every value; costs 192*d0 bytes

// -----

// Many rows, two dimensions, and columns: no candidates.

func.func @others(%y: tensor<?x17x8xf32>, %z: tensor<2x2x?x8xf32>) -> (tensor<?x1x8xf32>, tensor<?x8xf32>, tensor<2x2x?x1xf32>) {
  %s = coda.sum_to %y : (tensor<?x17x8xf32>) -> tensor<?x1x8xf32>
  %t = coda.sum_to %z : (tensor<2x2x?x8xf32>) -> tensor<?x8xf32>
  %u = coda.sum_to %z : (tensor<2x2x?x8xf32>) -> tensor<2x2x?x1xf32>
  func.return %s, %t, %u : tensor<?x1x8xf32>, tensor<?x8xf32>, tensor<2x2x?x1xf32>
}

// CHECK:      func.func @others(%y: tensor<?x17x8xf32>, %z: tensor<2x2x?x8xf32>) -> (tensor<?x1x8xf32>, tensor<?x8xf32>, tensor<2x2x?x1xf32>) {
// CHECK-NEXT:   %s = coda.sum_to %y : (tensor<?x17x8xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %t = coda.sum_to %z : (tensor<2x2x?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %u = coda.sum_to %z : (tensor<2x2x?x8xf32>) -> tensor<2x2x?x1xf32>
// CHECK-NEXT:   func.return %s, %t, %u : tensor<?x1x8xf32>, tensor<?x8xf32>, tensor<2x2x?x1xf32>
// CHECK-NEXT: }

// -----

// Scaled rows of an argument, which nothing rounds, and of a GEMM in the mode eager-exact: they are
// moved as they are.

func.func @not_rounded(%z: tensor<?x8xbf16>, %s: tensor<?x1xf32>, %ids: tensor<?xi64>) -> tensor<?x1x8xf32> {
  %wide = coda.cast %z : (tensor<?x8xbf16>) -> tensor<?x8xf32>
  %y = coda.mul %wide, %s : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  %x = coda.index %y, %ids {dim = 0 : i64} : (tensor<?x8xf32>, tensor<?xi64>) -> tensor<?x8xf32>
  %pairs = coda.reshape %x : (tensor<?x8xf32>) -> tensor<?x2x8xf32>
  %t = coda.sum_to %pairs : (tensor<?x2x8xf32>) -> tensor<?x1x8xf32>
  func.return %t : tensor<?x1x8xf32>
}

// CHECK:      func.func @not_rounded(%z: tensor<?x8xbf16>, %s: tensor<?x1xf32>, %ids: tensor<?xi64>) -> tensor<?x1x8xf32> {
// CHECK-NEXT:   %wide = coda.cast %z : (tensor<?x8xbf16>) -> tensor<?x8xf32>
// CHECK-NEXT:   %y = coda.mul %wide, %s : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %x = coda.index %y, %ids {dim = 0 : i64} : (tensor<?x8xf32>, tensor<?xi64>) -> tensor<?x8xf32>
// CHECK-NEXT:   %pairs = coda.reshape %x : (tensor<?x8xf32>) -> tensor<?x2x8xf32>
// CHECK-NEXT:   %pairs_1 = coda.slice %pairs {dim = 1 : i64, start = 0 : i64, stop = 1 : i64} : (tensor<?x2x8xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %pairs_2 = coda.slice %pairs {dim = 1 : i64, start = 1 : i64, stop = 2 : i64} : (tensor<?x2x8xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %t = coda.add %pairs_1, %pairs_2 : (tensor<?x1x8xf32>, tensor<?x1x8xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %t_1 = coda.sum_to %pairs : (tensor<?x2x8xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   func.return %t : tensor<?x1x8xf32>
// CHECK-NEXT: }

// -----

func.func @exact(%a: tensor<?x8xbf16>, %w: tensor<4x8x8xbf16>, %e: tensor<4xi32>, %s: tensor<?x1xf32>, %ids: tensor<?xi64>) -> tensor<?x1x8xf32> attributes {coda.numerics = #gemm.numerics<"eager-exact">} {
  %z = coda.grouped_linear %a, %w, %e : (tensor<?x8xbf16>, tensor<4x8x8xbf16>, tensor<4xi32>) -> tensor<?x8xbf16>
  %wide = coda.cast %z : (tensor<?x8xbf16>) -> tensor<?x8xf32>
  %y = coda.mul %wide, %s : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  %x = coda.index %y, %ids {dim = 0 : i64} : (tensor<?x8xf32>, tensor<?xi64>) -> tensor<?x8xf32>
  %pairs = coda.reshape %x : (tensor<?x8xf32>) -> tensor<?x2x8xf32>
  %t = coda.sum_to %pairs : (tensor<?x2x8xf32>) -> tensor<?x1x8xf32>
  func.return %t : tensor<?x1x8xf32>
}

// CHECK:      func.func @exact(%a: tensor<?x8xbf16>, %w: tensor<4x8x8xbf16>, %e: tensor<4xi32>, %s: tensor<?x1xf32>, %ids: tensor<?xi64>) -> tensor<?x1x8xf32> attributes {coda.numerics = #gemm.numerics<"eager-exact">} {
// CHECK-NEXT:   %z = coda.grouped_linear %a, %w, %e : (tensor<?x8xbf16>, tensor<4x8x8xbf16>, tensor<4xi32>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %wide = coda.cast %z : (tensor<?x8xbf16>) -> tensor<?x8xf32>
// CHECK-NEXT:   %y = coda.mul %wide, %s : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %x = coda.index %y, %ids {dim = 0 : i64} : (tensor<?x8xf32>, tensor<?xi64>) -> tensor<?x8xf32>
// CHECK-NEXT:   %pairs = coda.reshape %x : (tensor<?x8xf32>) -> tensor<?x2x8xf32>
// CHECK-NEXT:   %pairs_1 = coda.slice %pairs {dim = 1 : i64, start = 0 : i64, stop = 1 : i64} : (tensor<?x2x8xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %pairs_2 = coda.slice %pairs {dim = 1 : i64, start = 1 : i64, stop = 2 : i64} : (tensor<?x2x8xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %t = coda.add %pairs_1, %pairs_2 : (tensor<?x1x8xf32>, tensor<?x1x8xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %t_1 = coda.sum_to %pairs : (tensor<?x2x8xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   func.return %t : tensor<?x1x8xf32>
// CHECK-NEXT: }

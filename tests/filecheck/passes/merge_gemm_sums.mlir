// RUN: coda-opt %s -p merge-gemm-sums --split-input-file | filecheck %s
// RUN: coda-opt %s -p merge-gemm-sums --split-input-file --remarks=passed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// The gradient of what three linear maps read.

func.func @chain(%dq: tensor<?x8xbf16>, %dk: tensor<?x4xbf16>, %dv: tensor<?x4xbf16>, %wq: tensor<8x16xbf16>, %wk: tensor<4x16xbf16>, %wv: tensor<4x16xbf16>) -> tensor<?x16xbf16> {
  %a = gemm.fused %dq : tensor<?x8xbf16>
    columns(%wq : tensor<8x16xbf16>) kn
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %b = gemm.fused %dk : tensor<?x4xbf16>
    columns(%wk : tensor<4x16xbf16>) kn
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %c = gemm.fused %dv : tensor<?x4xbf16>
    columns(%wv : tensor<4x16xbf16>) kn
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %ab = coda.add %a, %b : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %dh = coda.add %ab, %c : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %dh : tensor<?x16xbf16>
}

// REMARK: remark[passed] merge-gemm-sums: coda.add: 3 products add up in one accumulator
// CHECK:      func.func @chain(
// CHECK-NEXT:   %dh = gemm.fused %dq : tensor<?x8xbf16> + %dk : tensor<?x4xbf16> + %dv : tensor<?x4xbf16>
// CHECK-NEXT:     columns(%wq : tensor<8x16xbf16>) + (%wk : tensor<4x16xbf16>) + (%wv : tensor<4x16xbf16>) kn
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %dh : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// Other addends stay, and the products meet whatever their places in the sum.

func.func @others(%dq: tensor<?x8xbf16>, %dk: tensor<?x4xbf16>, %dv: tensor<?x4xbf16>, %wq: tensor<8x16xbf16>, %wk: tensor<4x16xbf16>, %wv: tensor<4x16xbf16>, %x: tensor<?x16xbf16>, %bias: tensor<16xbf16>) -> tensor<?x16xbf16> {
  %a = gemm.fused %dq : tensor<?x8xbf16>
    columns(%wq : tensor<8x16xbf16>) kn
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %b = gemm.fused %dk : tensor<?x4xbf16>
    columns(%wk : tensor<4x16xbf16>) kn
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %c = gemm.fused %dv : tensor<?x4xbf16>
    columns(%wv : tensor<4x16xbf16>) kn
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %xa = coda.add %x, %a : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %xab = coda.add %xa, %bias : (tensor<?x16xbf16>, tensor<16xbf16>) -> tensor<?x16xbf16>
  %bc = coda.add %b, %c : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %dh = coda.add %xab, %bc : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %dh : tensor<?x16xbf16>
}

// REMARK: remark[passed] merge-gemm-sums: coda.add: 3 products add up in one accumulator
// CHECK:      func.func @others(
// CHECK-NEXT:   %a = gemm.fused %dq : tensor<?x8xbf16> + %dk : tensor<?x4xbf16> + %dv : tensor<?x4xbf16>
// CHECK-NEXT:     columns(%wq : tensor<8x16xbf16>) + (%wk : tensor<4x16xbf16>) + (%wv : tensor<4x16xbf16>) kn
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %0 = coda.add %x, %a : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %dh = coda.add %0, %bias : (tensor<?x16xbf16>, tensor<16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %dh : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// A weight with two uses, on different numbers of rows.

func.func @weight(%da: tensor<?x16xbf16>, %db: tensor<?x?x16xbf16>, %x: tensor<?x8xbf16>, %y: tensor<?x?x8xbf16>) -> tensor<16x8xf32> {
  %a = gemm.fused transposed %da : tensor<?x16xbf16>
    columns(%x : tensor<?x8xbf16>) kn
      -> (tile : tensor<16x8xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %b = gemm.fused transposed %db : tensor<?x?x16xbf16>
    columns(%y : tensor<?x?x8xbf16>) kn
      -> (tile : tensor<16x8xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %dw = coda.add %a, %b : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  func.return %dw : tensor<16x8xf32>
}

// REMARK: remark[passed] merge-gemm-sums: coda.add: 2 products add up in one accumulator
// CHECK:      func.func @weight(
// CHECK-NEXT:   %dw = gemm.fused transposed %da : tensor<?x16xbf16> + %db : tensor<?x?x16xbf16>
// CHECK-NEXT:     columns(%x : tensor<?x8xbf16>) + (%y : tensor<?x?x8xbf16>) kn
// CHECK-NEXT:       -> (tile : tensor<16x8xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %dw : tensor<16x8xf32>
// CHECK-NEXT: }

// -----

// Products with weights of K x N meet, and so do those with weights of N x K.

func.func @layouts(%dq: tensor<?x8xbf16>, %dk: tensor<?x4xbf16>, %dv: tensor<?x4xbf16>, %wq: tensor<8x16xbf16>, %wk: tensor<4x16xbf16>, %wv: tensor<4x16xbf16>, %v: tensor<16x8xbf16>) -> tensor<?x16xbf16> {
  %a = gemm.fused %dq : tensor<?x8xbf16>
    columns(%wq : tensor<8x16xbf16>) kn
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %b = gemm.fused %dk : tensor<?x4xbf16>
    columns(%wk : tensor<4x16xbf16>) kn
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %c = gemm.fused %dq : tensor<?x8xbf16>
    columns(%v : tensor<16x8xbf16>)
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %d = gemm.fused %dq : tensor<?x8xbf16>
    columns(%v : tensor<16x8xbf16>)
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %ab = coda.add %a, %b : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %cd = coda.add %c, %d : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %y = coda.add %ab, %cd : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %y : tensor<?x16xbf16>
}

// REMARK: remark[passed] merge-gemm-sums: coda.add: 2 products add up in one accumulator
// REMARK: remark[passed] merge-gemm-sums: coda.add: 2 products add up in one accumulator
// CHECK:      func.func @layouts(
// CHECK-NEXT:   %a = gemm.fused %dq : tensor<?x8xbf16> + %dk : tensor<?x4xbf16>
// CHECK-NEXT:     columns(%wq : tensor<8x16xbf16>) + (%wk : tensor<4x16xbf16>) kn
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %c = gemm.fused %dq : tensor<?x8xbf16> + %dq : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%v : tensor<16x8xbf16>) + (%v : tensor<16x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %y = coda.add %a, %c : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %y : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// Attention and MLP side by side: two biases, one of which the residual stands between.

func.func @biases(%y: tensor<?x8xbf16>, %h: tensor<?x32xbf16>, %wo: tensor<16x8xbf16>, %wd: tensor<16x32xbf16>, %bo: tensor<16xf32>, %bd: tensor<16xbf16>, %x: tensor<?x16xbf16>) -> tensor<?x16xbf16> {
  %a = gemm.fused %y : tensor<?x8xbf16>
    columns(%wo : tensor<16x8xbf16>) row(%bo : tensor<16xf32>)
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32, %bo_1: f32):
      %0 = arith.addf %acc, %bo_1 : f32
      gemm.yield %0 : f32
    }
  %b = gemm.fused %h : tensor<?x32xbf16>
    columns(%wd : tensor<16x32xbf16>) row(%bd : tensor<16xbf16>)
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32, %bd_1: f32):
      %0 = arith.addf %acc, %bd_1 : f32
      gemm.yield %0 : f32
    }
  %xa = coda.add %x, %a : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %z = coda.add %xa, %b : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %z : tensor<?x16xbf16>
}

// REMARK: remark[passed] merge-gemm-sums: coda.add: 2 products add up in one accumulator
// CHECK:      func.func @biases(
// CHECK-NEXT:   %a = gemm.fused %y : tensor<?x8xbf16> + %h : tensor<?x32xbf16>
// CHECK-NEXT:     columns(%wo : tensor<16x8xbf16>) + (%wd : tensor<16x32xbf16>) row(%bo : tensor<16xf32>, %bd : tensor<16xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %bo_1: f32, %bd_1: f32):
// CHECK-NEXT:       %0 = arith.addf %acc, %bo_1 : f32
// CHECK-NEXT:       %1 = arith.addf %0, %bd_1 : f32
// CHECK-NEXT:       gemm.yield %1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %z = coda.add %x, %a : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %z : tensor<?x16xbf16>
// CHECK-NEXT: }

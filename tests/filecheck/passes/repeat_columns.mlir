// RUN: coda-opt %s -p repeat-columns,dce --split-input-file | filecheck %s

// The scale of a mean, of what no reduction of a kernel gives, and what follows from it.

func.func @mean(%a: tensor<?x4xbf16>, %w: tensor<8x4xbf16>, %x: tensor<?x8xbf16>, %s: tensor<?x1xf32>) -> tensor<?x8xbf16> {
  %n = coda.constant {value = 0.125 : f64} : tensor<f32>
  %c = coda.mul %s, %n : (tensor<?x1xf32>, tensor<f32>) -> tensor<?x1xf32>
  %r = coda.rsqrt %c : (tensor<?x1xf32>) -> tensor<?x1xf32>
  %y = gemm.fused %a : tensor<?x4xbf16>
    columns(%w : tensor<8x4xbf16>) col(%r : tensor<?x1xf32>) tile(%x : tensor<?x8xbf16>)
    -> (tile : tensor<?x8xbf16>) {
    ^bb0(%acc: f32, %r_1: f32, %x_1: f32):
      %0 = arith.mulf %acc, %r_1 : f32
      %1 = arith.addf %0, %x_1 : f32
      gemm.yield %1 : f32
    }
  func.return %y : tensor<?x8xbf16>
}

// CHECK:      func.func @mean(
// CHECK-NEXT:   %y = gemm.fused %a : tensor<?x4xbf16>
// CHECK-NEXT:     columns(%w : tensor<8x4xbf16>) tile(%x : tensor<?x8xbf16>) col(%s : tensor<?x1xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x8xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %x_1: f32, %s_1: f32):
// CHECK-NEXT:       %0 = arith.constant 1.250000e-01 : f32
// CHECK-NEXT:       %c = arith.mulf %s_1, %0 : f32
// CHECK-NEXT:       %r = math.rsqrt %c : f32
// CHECK-NEXT:       %1 = arith.mulf %acc, %r : f32
// CHECK-NEXT:       %2 = arith.addf %1, %x_1 : f32
// CHECK-NEXT:       gemm.yield %2 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y : tensor<?x8xbf16>
// CHECK-NEXT: }

// -----

// Two kernels repeat it, one of them in a range of columns that loads an operand already; a port
// that a result names moves up.

func.func @readers(%a: tensor<?x4xbf16>, %w: tensor<8x4xbf16>, %v: tensor<16x4xbf16>, %s: tensor<?xf32>, %scale: tensor<f32>, %target: tensor<?xi64>) -> (tensor<?x8xbf16>, tensor<?xf32>, tensor<?x8xbf16>) {
  %c = coda.mul %s, %scale : (tensor<?xf32>, tensor<f32>) -> tensor<?xf32>
  %y, %z = gemm.fused %a : tensor<?x4xbf16>
    columns(%w : tensor<8x4xbf16>) col(%s : tensor<?xf32>, %c : tensor<?xf32>)
    -> (tile : tensor<?x8xbf16>) {
    ^bb0(%acc: f32, %s_1: f32, %c_1: f32):
      %0 = arith.mulf %acc, %c_1 : f32
      %1 = arith.addf %0, %s_1 : f32
      gemm.yield %1 : f32
    }
    columns(%v : tensor<16x4xbf16>) col(%c : tensor<?xf32>, %target : tensor<?xi64>)
    -> (select<1> : tensor<?xf32>) {
    ^bb0(%acc: f32, %c_1: f32, %target_1: i64):
      %0 = arith.mulf %acc, %c_1 : f32
      gemm.yield %0 : f32
    }
  %m = gemm.map tile(%y : tensor<?x8xbf16>) col(%c : tensor<?xf32>)
    -> (tile : tensor<?x8xbf16>) {
    ^bb0(%y_1: f32, %c_1: f32):
      %0 = arith.subf %y_1, %c_1 : f32
      gemm.yield %0 : f32
    }
  func.return %y, %z, %m : tensor<?x8xbf16>, tensor<?xf32>, tensor<?x8xbf16>
}

// CHECK:      func.func @readers(
// CHECK-NEXT:   %y, %z = gemm.fused %a : tensor<?x4xbf16>
// CHECK-NEXT:     columns(%w : tensor<8x4xbf16>) col(%s : tensor<?xf32>) scalar(%scale : tensor<f32>)
// CHECK-NEXT:       -> (tile : tensor<?x8xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %s_1: f32, %scale_1: f32):
// CHECK-NEXT:       %c = arith.mulf %s_1, %scale_1 : f32
// CHECK-NEXT:       %0 = arith.mulf %acc, %c : f32
// CHECK-NEXT:       %1 = arith.addf %0, %s_1 : f32
// CHECK-NEXT:       gemm.yield %1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     columns(%v : tensor<16x4xbf16>) col(%target : tensor<?xi64>, %s : tensor<?xf32>) scalar(%scale : tensor<f32>)
// CHECK-NEXT:       -> (select<0> : tensor<?xf32>) {
// CHECK-NEXT:     ^bb0(%acc_1: f32, %target_1: i64, %s_2: f32, %scale_2: f32):
// CHECK-NEXT:       %c_1 = arith.mulf %s_2, %scale_2 : f32
// CHECK-NEXT:       %2 = arith.mulf %acc_1, %c_1 : f32
// CHECK-NEXT:       gemm.yield %2 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %m = gemm.map tile(%y : tensor<?x8xbf16>) col(%s : tensor<?xf32>) scalar(%scale : tensor<f32>)
// CHECK-NEXT:       -> (tile : tensor<?x8xbf16>) {
// CHECK-NEXT:     ^bb0(%y_1: f32, %s_1: f32, %scale_1: f32):
// CHECK-NEXT:       %c = arith.mulf %s_1, %scale_1 : f32
// CHECK-NEXT:       %0 = arith.subf %y_1, %c : f32
// CHECK-NEXT:       gemm.yield %0 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y, %z, %m : tensor<?x8xbf16>, tensor<?xf32>, tensor<?x8xbf16>
// CHECK-NEXT: }

// -----

// A scalar: the scale of a loss.

func.func @scalar(%x: tensor<?x8xf32>, %scale: tensor<f32>, %count: tensor<f32>) -> tensor<?x8xf32> {
  %c = coda.div %scale, %count : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %y = gemm.map tile(%x : tensor<?x8xf32>) scalar(%c : tensor<f32>)
    -> (tile : tensor<?x8xf32>) {
    ^bb0(%x_1: f32, %c_1: f32):
      %0 = arith.mulf %x_1, %c_1 : f32
      gemm.yield %0 : f32
    }
  func.return %y : tensor<?x8xf32>
}

// CHECK:      func.func @scalar(
// CHECK-NEXT:   %y = gemm.map tile(%x : tensor<?x8xf32>) scalar(%scale : tensor<f32>, %count : tensor<f32>)
// CHECK-NEXT:       -> (tile : tensor<?x8xf32>) {
// CHECK-NEXT:     ^bb0(%x_1: f32, %scale_1: f32, %count_1: f32):
// CHECK-NEXT:       %c = arith.divf %scale_1, %count_1 : f32
// CHECK-NEXT:       %0 = arith.mulf %x_1, %c : f32
// CHECK-NEXT:       gemm.yield %0 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y : tensor<?x8xf32>
// CHECK-NEXT: }

// -----

// A number beside integers is an integer of the region.

func.func @integers(%x: tensor<?x8xf32>, %ids: tensor<?x1xi64>) -> tensor<?x8xf32> {
  %zero = coda.constant {value = 0 : i64} : tensor<i64>
  %c = coda.compare %ids, %zero {relation = "ne"} : (tensor<?x1xi64>, tensor<i64>) -> tensor<?x1xi1>
  %y = gemm.map tile(%x : tensor<?x8xf32>) col(%c : tensor<?x1xi1>) -> (tile : tensor<?x8xf32>) {
    ^bb0(%x_1: f32, %c_1: i1):
      %0 = arith.constant 0.000000e+00 : f32
      %1 = arith.select %c_1, %x_1, %0 : f32
      gemm.yield %1 : f32
    }
  func.return %y : tensor<?x8xf32>
}

// CHECK:      func.func @integers(
// CHECK-NEXT:   %y = gemm.map tile(%x : tensor<?x8xf32>) col(%ids : tensor<?x1xi64>)
// CHECK-NEXT:       -> (tile : tensor<?x8xf32>) {
// CHECK-NEXT:     ^bb0(%x_1: f32, %ids_1: i64):
// CHECK-NEXT:       %0 = arith.constant 0 : i64
// CHECK-NEXT:       %c = arith.cmpi ne, %ids_1, %0 : i64
// CHECK-NEXT:       %1 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:       %2 = arith.select %c, %x_1, %1 : f32
// CHECK-NEXT:       gemm.yield %2 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y : tensor<?x8xf32>
// CHECK-NEXT: }

// RUN: coda-opt %s -p join-pointwise,dce --split-input-file | filecheck %s

// A norm is applied again where the gradient of its input is made, which loads x anyway; the GEMM
// that takes the result follows.

func.func @norm(%dz: tensor<?x4xbf16>, %w: tensor<4x8xbf16>, %v: tensor<8x4xbf16>, %x: tensor<?x8xbf16>, %r: tensor<?x1xf32>, %g: tensor<8xbf16>) -> (tensor<?x8xbf16>, tensor<?x4xbf16>) {
  %wide = coda.cast %x : (tensor<?x8xbf16>) -> tensor<?x8xf32>
  %xhat = coda.mul %wide, %r : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  %gf = coda.cast %g : (tensor<8xbf16>) -> tensor<8xf32>
  %scaled = coda.mul %xhat, %gf : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  %h = coda.cast %scaled : (tensor<?x8xf32>) -> tensor<?x8xbf16>
  %y = coda.matmul %h, %v : (tensor<?x8xbf16>, tensor<8x4xbf16>) -> tensor<?x4xbf16>
  %dx = gemm.fused %dz : tensor<?x4xbf16>
    columns(%w : tensor<4x8xbf16>) kn tile(%x : tensor<?x8xbf16>)
    -> (tile : tensor<?x8xbf16>) {
    ^bb0(%acc: f32, %x_1: f32):
      %0 = arith.mulf %acc, %x_1 : f32
      gemm.yield %0 : f32
    }
  func.return %dx, %y : tensor<?x8xbf16>, tensor<?x4xbf16>
}

// CHECK:      func.func @norm(
// CHECK-NEXT:   %dx, %h = gemm.fused %dz : tensor<?x4xbf16>
// CHECK-NEXT:     columns(%w : tensor<4x8xbf16>) kn tile(%x : tensor<?x8xbf16>) col(%r : tensor<?x1xf32>) row(%g : tensor<8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x8xbf16>, tile : tensor<?x8xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %x_1: f32, %r_1: f32, %g_1: f32):
// CHECK-NEXT:       %0 = arith.mulf %acc, %x_1 : f32
// CHECK-NEXT:       %xhat = arith.mulf %x_1, %r_1 : f32
// CHECK-NEXT:       %scaled = arith.mulf %xhat, %g_1 : f32
// CHECK-NEXT:       gemm.yield %0, %scaled : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %y = coda.matmul %h, %v : (tensor<?x8xbf16>, tensor<8x4xbf16>) -> tensor<?x4xbf16>
// CHECK-NEXT:   func.return %dx, %y : tensor<?x8xbf16>, tensor<?x4xbf16>
// CHECK-NEXT: }

// -----

// Of two epilogues the one that loads both operands; one value for each pair of columns.

func.func @pairs(%a: tensor<?x4xbf16>, %w: tensor<8x4xbf16>, %v: tensor<8x4xbf16>, %x: tensor<?x8xbf16>, %u: tensor<?x8xbf16>) -> (tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>) {
  %p = coda.mul %x, %u : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %first = gemm.fused %a : tensor<?x4xbf16>
    columns(%w : tensor<8x4xbf16>) tile(%x : tensor<?x8xbf16>)
    -> (tile : tensor<?x8xbf16>) {
    ^bb0(%acc: f32, %x_1: f32):
      %0 = arith.mulf %acc, %x_1 : f32
      gemm.yield %0 : f32
    }
  %second = gemm.fused %a : tensor<?x4xbf16>
    columns(%w : tensor<8x4xbf16>, %v : tensor<8x4xbf16>) pair<halves> half_tile(%x : tensor<?x8xbf16>, %u : tensor<?x8xbf16>)
    -> (half : tensor<?x8xbf16>) {
    ^bb0(%b: f32, %c: f32, %x_1: f32, %u_1: f32):
      %0 = arith.mulf %b, %x_1 : f32
      %1 = arith.mulf %c, %u_1 : f32
      %2 = arith.addf %0, %1 : f32
      gemm.yield %2 : f32
    }
  func.return %first, %second, %p : tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>
}

// CHECK:      func.func @pairs(
// CHECK-NEXT:   %first = gemm.fused %a : tensor<?x4xbf16>
// CHECK-NEXT:     columns(%w : tensor<8x4xbf16>) tile(%x : tensor<?x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x8xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %x_1: f32):
// CHECK-NEXT:       %0 = arith.mulf %acc, %x_1 : f32
// CHECK-NEXT:       gemm.yield %0 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %second, %p = gemm.fused %a : tensor<?x4xbf16>
// CHECK-NEXT:     columns(%w : tensor<8x4xbf16>, %v : tensor<8x4xbf16>) pair<halves> half_tile(%x : tensor<?x8xbf16>, %u : tensor<?x8xbf16>)
// CHECK-NEXT:       -> (half : tensor<?x8xbf16>, half : tensor<?x8xbf16>) {
// CHECK-NEXT:     ^bb0(%b: f32, %c: f32, %x_1: f32, %u_1: f32):
// CHECK-NEXT:       %0 = arith.mulf %b, %x_1 : f32
// CHECK-NEXT:       %1 = arith.mulf %c, %u_1 : f32
// CHECK-NEXT:       %2 = arith.addf %0, %1 : f32
// CHECK-NEXT:       %p_1 = arith.mulf %x_1, %u_1 : f32
// CHECK-NEXT:       gemm.yield %2, %p_1 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %first, %second, %p : tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>
// CHECK-NEXT: }

// -----

// A pointwise kernel takes on more, with a chain that leads to it.

func.func @map(%x: tensor<?x8xf32>, %y: tensor<?x8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  %e = gemm.map tile(%x : tensor<?x8xf32>)
    -> (tile : tensor<?x8xf32>) {
    ^bb0(%x_1: f32):
      %0 = math.exp %x_1 : f32
      gemm.yield %0 : f32
    }
  %s = coda.sigmoid %y : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %t = coda.tanh %s : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %p = coda.mul %x, %t : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  func.return %e, %p : tensor<?x8xf32>, tensor<?x8xf32>
}

// CHECK:      func.func @map(
// CHECK-NEXT:   %e, %p = gemm.map tile(%x : tensor<?x8xf32>, %y : tensor<?x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x8xf32>, tile : tensor<?x8xf32>) {
// CHECK-NEXT:     ^bb0(%x_1: f32, %y_1: f32):
// CHECK-NEXT:       %0 = math.exp %x_1 : f32
// CHECK-NEXT:       %1 = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:       %2 = arith.negf %y_1 : f32
// CHECK-NEXT:       %3 = math.exp %2 : f32
// CHECK-NEXT:       %4 = arith.addf %1, %3 : f32
// CHECK-NEXT:       %s = arith.divf %1, %4 : f32
// CHECK-NEXT:       %t = math.tanh %s : f32
// CHECK-NEXT:       %p_1 = arith.mulf %x_1, %t : f32
// CHECK-NEXT:       gemm.yield %0, %p_1 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %e, %p : tensor<?x8xf32>, tensor<?x8xf32>
// CHECK-NEXT: }

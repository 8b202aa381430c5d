// RUN: coda-opt %s -p "state-reduction-order" | filecheck %s

// Steps of K and columns of a partial fit the extents, and a group of columns; the partials of a row
// are a tree of 32.

func.func @partials(%x: tensor<?x40xbf16>, %w: tensor<24x40xbf16>) -> tensor<?x1xf32> attributes {coda.numerics = #gemm.numerics<"deterministic">} {
  %p = gemm.fused %x : tensor<?x40xbf16>
    columns(%w : tensor<24x40xbf16>)
      -> (partial_row<add> : tensor<?x?xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %s = gemm.finalize row (add %p : tensor<?x?xf32>) -> (tensor<?x1xf32>) {
  ^bb0(%0: f32):
    gemm.yield %0 : f32
  }
  func.return %s : tensor<?x1xf32>
}

func.func @groups(%x: tensor<?x40xf32>, %w: tensor<240x40xf32>) -> tensor<?x240xf32> attributes {coda.numerics = #gemm.numerics<"deterministic">} {
  %y = gemm.fused %x : tensor<?x40xf32>
    columns(%w : tensor<240x40xf32>)
      -> (tile : tensor<?x240xf32>) {
    ^bb0(%acc: f32):
      %s = gemm.group_reduce add %acc over 120 : f32
      gemm.yield %s : f32
    }
  %z = gemm.map tile(%y : tensor<?x240xf32>)
      -> (tile : tensor<?x240xf32>) {
    ^bb0(%a: f32):
      %e = math.exp %a : f32
      gemm.yield %e : f32
    }
  func.return %z : tensor<?x240xf32>
}

// The rows are K of a weight's gradient: however few, the steps are the longest ones.

func.func @gradient(%dy: tensor<2x24xbf16>, %x: tensor<2x40xbf16>) -> tensor<24x40xbf16> attributes {coda.numerics = #gemm.numerics<"deterministic">} {
  %dw = gemm.fused transposed %dy : tensor<2x24xbf16>
    columns(%x : tensor<2x40xbf16>) kn
      -> (tile : tensor<24x40xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  func.return %dw : tensor<24x40xbf16>
}

// Another mode states none.

func.func @default_mode(%x: tensor<?x40xbf16>, %w: tensor<24x40xbf16>) -> tensor<?x24xbf16> {
  %y = gemm.fused %x : tensor<?x40xbf16>
    columns(%w : tensor<24x40xbf16>)
      -> (tile : tensor<?x24xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  func.return %y : tensor<?x24xbf16>
}

// CHECK:      func.func @partials(%x: tensor<?x40xbf16>, %w: tensor<24x40xbf16>) -> tensor<?x1xf32> attributes {coda.numerics = #gemm.numerics<"deterministic">} {
// CHECK-NEXT:   %p = gemm.fused %x : tensor<?x40xbf16>
// CHECK-NEXT:     order<depth = 64, columns = 32, rows = 64>
// CHECK-NEXT:     columns(%w : tensor<24x40xbf16>)
// CHECK-NEXT:       -> (partial_row<add> : tensor<?x?xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %s = gemm.finalize row order<partials = 32> (add %p : tensor<?x?xf32>) -> (tensor<?x1xf32>) {
// CHECK-NEXT:   ^bb0(%0: f32):
// CHECK-NEXT:     gemm.yield %0 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %s : tensor<?x1xf32>
// CHECK-NEXT: }
// CHECK:      func.func @groups(%x: tensor<?x40xf32>, %w: tensor<240x40xf32>) -> tensor<?x240xf32> attributes {coda.numerics = #gemm.numerics<"deterministic">} {
// CHECK-NEXT:   %y = gemm.fused %x : tensor<?x40xf32>
// CHECK-NEXT:     order<depth = 16, columns = 128, rows = 64>
// CHECK-NEXT:     columns(%w : tensor<240x40xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x240xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       %s = gemm.group_reduce add %acc over 120 : f32
// CHECK-NEXT:       gemm.yield %s : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %z = gemm.map order<columns = 256, rows = 8> tile(%y : tensor<?x240xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x240xf32>) {
// CHECK-NEXT:     ^bb0(%a: f32):
// CHECK-NEXT:       %e = math.exp %a : f32
// CHECK-NEXT:       gemm.yield %e : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %z : tensor<?x240xf32>
// CHECK-NEXT: }
// CHECK:      func.func @gradient(
// CHECK-NEXT:   %dw = gemm.fused transposed %dy : tensor<2x24xbf16>
// CHECK-NEXT:     order<depth = 64, columns = 64, rows = 64>
// CHECK:      func.func @default_mode(
// CHECK-NEXT:   %y = gemm.fused %x : tensor<?x40xbf16>
// CHECK-NEXT:     columns(%w : tensor<24x40xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x24xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y : tensor<?x24xbf16>
// CHECK-NEXT: }

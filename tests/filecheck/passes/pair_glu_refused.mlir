// RUN: coda-opt %s -p pair-glu --split-input-file | filecheck %s
// RUN: coda-opt %s -p pair-glu --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// Another input.

func.func @input(%x: tensor<?x8xf32>, %y: tensor<?x8xf32>, %wg: tensor<16x8xf32>, %wu: tensor<16x8xf32>, %e: tensor<?x16xf32>) -> tensor<?x16xf32> {
  %g = gemm.fused %x : tensor<?x8xf32>
    columns(%wg : tensor<16x8xf32>)
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %a = gemm.fused %y : tensor<?x8xf32>
    columns(%wu : tensor<16x8xf32>) tile(%g : tensor<?x16xf32>)
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%acc: f32, %g_1: f32):
      %a_1 = arith.mulf %g_1, %acc : f32
      gemm.yield %a_1 : f32
    }
  func.return %a : tensor<?x16xf32>
}

// CHECK:      func.func @input(
// CHECK-NEXT:   %g = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%wg : tensor<16x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %a = gemm.fused %y : tensor<?x8xf32>
// CHECK-NEXT:     columns(%wu : tensor<16x8xf32>) tile(%g : tensor<?x16xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %g_1: f32):
// CHECK-NEXT:       %a_1 = arith.mulf %g_1, %acc : f32
// CHECK-NEXT:       gemm.yield %a_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %a : tensor<?x16xf32>
// CHECK-NEXT: }

// -----

// Another layout.

func.func @layout(%x: tensor<?x8xf32>, %wg: tensor<16x8xf32>, %wu: tensor<8x16xf32>) -> tensor<?x16xf32> {
  %g = gemm.fused %x : tensor<?x8xf32>
    columns(%wg : tensor<16x8xf32>)
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %a = gemm.fused %x : tensor<?x8xf32>
    columns(%wu : tensor<8x16xf32>) kn tile(%g : tensor<?x16xf32>)
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%acc: f32, %g_1: f32):
      %a_1 = arith.mulf %g_1, %acc : f32
      gemm.yield %a_1 : f32
    }
  func.return %a : tensor<?x16xf32>
}

// CHECK:      func.func @layout(
// CHECK-NEXT:   %g = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%wg : tensor<16x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %a = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%wu : tensor<8x16xf32>) kn tile(%g : tensor<?x16xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %g_1: f32):
// CHECK-NEXT:       %a_1 = arith.mulf %g_1, %acc : f32
// CHECK-NEXT:       gemm.yield %a_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %a : tensor<?x16xf32>
// CHECK-NEXT: }

// -----

// Another number of columns: one gate for all columns.

func.func @columns(%x: tensor<?x8xf32>, %wg: tensor<1x8xf32>, %wu: tensor<16x8xf32>) -> tensor<?x16xf32> {
  %g = gemm.fused %x : tensor<?x8xf32>
    columns(%wg : tensor<1x8xf32>)
      -> (tile : tensor<?x1xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %u = gemm.fused %x : tensor<?x8xf32>
    columns(%wu : tensor<16x8xf32>)
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %a = coda.mul %g, %u : (tensor<?x1xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
  func.return %a : tensor<?x16xf32>
}

// CHECK:      func.func @columns(
// CHECK-NEXT:   %g = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%wg : tensor<1x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x1xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %u = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%wu : tensor<16x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %a = coda.mul %g, %u : (tensor<?x1xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   func.return %a : tensor<?x16xf32>
// CHECK-NEXT: }

// -----

// One depends on the other.

func.func @dependent(%x: tensor<?x8xf32>, %wg: tensor<16x8xf32>, %wu: tensor<16x8xf32>) -> tensor<?x16xf32> {
  %g = gemm.fused %x : tensor<?x8xf32>
    columns(%wg : tensor<16x8xf32>)
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %u = gemm.fused %x : tensor<?x8xf32>
    columns(%wu : tensor<16x8xf32>) tile(%g : tensor<?x16xf32>)
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%acc: f32, %r: f32):
      %s = arith.addf %acc, %r : f32
      gemm.yield %s : f32
    }
  %a = coda.mul %g, %u : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
  func.return %a : tensor<?x16xf32>
}

// CHECK:      func.func @dependent(
// CHECK-NEXT:   %g = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%wg : tensor<16x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %u = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%wu : tensor<16x8xf32>) tile(%g : tensor<?x16xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %r: f32):
// CHECK-NEXT:       %s = arith.addf %acc, %r : f32
// CHECK-NEXT:       gemm.yield %s : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %a = coda.mul %g, %u : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   func.return %a : tensor<?x16xf32>
// CHECK-NEXT: }

// -----

// One combines its columns in groups, which would lie in every other half.

func.func @groups(%x: tensor<?x8xf32>, %wg: tensor<16x8xf32>, %wu: tensor<16x8xf32>) -> tensor<?x16xf32> {
  %g = gemm.fused %x : tensor<?x8xf32>
    columns(%wg : tensor<16x8xf32>)
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%acc: f32):
      %s = gemm.group_reduce add %acc over 4 : f32
      gemm.yield %s : f32
    }
  %u = gemm.fused %x : tensor<?x8xf32>
    columns(%wu : tensor<16x8xf32>)
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %a = coda.mul %g, %u : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
  func.return %a : tensor<?x16xf32>
}

// CHECK:      func.func @groups(
// CHECK-NEXT:   %g = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%wg : tensor<16x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       %s = gemm.group_reduce add %acc over 4 : f32
// CHECK-NEXT:       gemm.yield %s : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %u = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%wu : tensor<16x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %a = coda.mul %g, %u : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   func.return %a : tensor<?x16xf32>
// CHECK-NEXT: }

// -----

// A packed projection that no GEMM of the function computes.

func.func @argument(%z: tensor<?x16xf32>) -> tensor<?x8xf32> {
  %a = coda.glu %z {activation = "silu"} : (tensor<?x16xf32>) -> tensor<?x8xf32>
  func.return %a : tensor<?x8xf32>
}

// REMARK: remark[missed] pair-glu: coda.glu: %z is not computed by a GEMM of the same function; failed condition: the operand is the tile of a GEMM; costs 96*d0 bytes
// CHECK:      func.func @argument(
// CHECK-NEXT:   %a = coda.glu %z {activation = "silu"} : (tensor<?x16xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   func.return %a : tensor<?x8xf32>
// CHECK-NEXT: }

// -----

// A packed projection whose columns are paired in another way.

func.func @paired(%x: tensor<?x8xf32>, %w: tensor<16x8xf32>) -> tensor<?x8xf32> {
  %z = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<16x8xf32>) pair<adjacent>
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%a: f32, %b: f32):
      gemm.yield %b, %a : f32, f32
    }
  %a = coda.glu %z {activation = "silu"} : (tensor<?x16xf32>) -> tensor<?x8xf32>
  func.return %a : tensor<?x8xf32>
}

// REMARK: remark[missed] pair-glu: coda.glu: the GEMM that computes %z already pairs other columns; failed condition: the GEMM pairs its columns in one way only; costs 96*d0 bytes
// CHECK:      func.func @paired(
// CHECK-NEXT:   %z = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<16x8xf32>) pair<adjacent>
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%a: f32, %b: f32):
// CHECK-NEXT:       gemm.yield %b, %a : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %a = coda.glu %z {activation = "silu"} : (tensor<?x16xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   func.return %a : tensor<?x8xf32>
// CHECK-NEXT: }

// -----

// A packed projection of two weights.

func.func @two_weights(%x: tensor<?x8xf32>, %w: tensor<4x8xf32>, %v: tensor<12x8xf32>) -> tensor<?x8xf32> {
  %z = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<4x8xf32>, %v : tensor<12x8xf32>)
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%a: f32):
      gemm.yield %a : f32
    }
  %a = coda.glu %z {activation = "silu"} : (tensor<?x16xf32>) -> tensor<?x8xf32>
  func.return %a : tensor<?x8xf32>
}

// REMARK: remark[missed] pair-glu: coda.glu: the GEMM that computes %z joins 2 weights; failed condition: the columns come from one weight; costs 96*d0 bytes
// CHECK:      func.func @two_weights(
// CHECK-NEXT:   %z = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<4x8xf32>, %v : tensor<12x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%a: f32):
// CHECK-NEXT:       gemm.yield %a : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %a = coda.glu %z {activation = "silu"} : (tensor<?x16xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   func.return %a : tensor<?x8xf32>
// CHECK-NEXT: }

// -----

// A packed projection of which a column is selected.

func.func @selected(%x: tensor<?x8xf32>, %w: tensor<16x8xf32>, %t: tensor<?xi64>) -> (tensor<?x8xf32>, tensor<?xf32>) {
  %z, %s = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<16x8xf32>) col(%t : tensor<?xi64>)
      -> (tile : tensor<?x16xf32>, select<0> : tensor<?xf32>) {
    ^bb0(%a: f32, %i: i64):
      gemm.yield %a, %a : f32, f32
    }
  %a = coda.glu %z {activation = "silu"} : (tensor<?x16xf32>) -> tensor<?x8xf32>
  func.return %a, %s : tensor<?x8xf32>, tensor<?xf32>
}

// REMARK: remark[missed] pair-glu: coda.glu: the GEMM that computes %z selects a target column; failed condition: no element of the tile is selected by column; costs 96*d0 bytes
// CHECK:      func.func @selected(
// CHECK-NEXT:   %z, %s = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<16x8xf32>) col(%t : tensor<?xi64>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>, select<0> : tensor<?xf32>) {
// CHECK-NEXT:     ^bb0(%a: f32, %i: i64):
// CHECK-NEXT:       gemm.yield %a, %a : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %a = coda.glu %z {activation = "silu"} : (tensor<?x16xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   func.return %a, %s : tensor<?x8xf32>, tensor<?xf32>
// CHECK-NEXT: }

// -----

// A packed projection that is normalized in groups of columns of one half.

func.func @packed_groups(%x: tensor<?x8xf32>, %w: tensor<16x8xf32>) -> tensor<?x8xf32> {
  %z = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<16x8xf32>)
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%a: f32):
      %s = gemm.group_reduce add %a over 8 : f32
      gemm.yield %s : f32
    }
  %a = coda.glu %z {activation = "silu"} : (tensor<?x16xf32>) -> tensor<?x8xf32>
  func.return %a : tensor<?x8xf32>
}

// REMARK: remark[missed] pair-glu: coda.glu: the GEMM that computes %z reduces over other groups of columns; failed condition: both columns of a pair are normalized together; costs 96*d0 bytes
// CHECK:      func.func @packed_groups(
// CHECK-NEXT:   %z = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<16x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%a: f32):
// CHECK-NEXT:       %s = gemm.group_reduce add %a over 8 : f32
// CHECK-NEXT:       gemm.yield %s : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %a = coda.glu %z {activation = "silu"} : (tensor<?x16xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   func.return %a : tensor<?x8xf32>
// CHECK-NEXT: }

// -----

// Other columns than the two halves, and the halves of what no GEMM computes.

func.func @not_halves(%x: tensor<?x8xbf16>, %w: tensor<32x8xbf16>, %y: tensor<?x32xbf16>) -> (tensor<?x12xbf16>, tensor<?x16xbf16>) {
  %z = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<32x8xbf16>)
      -> (tile : tensor<?x32xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %g = coda.slice %z {dim = 1 : i64, start = 0 : i64, stop = 12 : i64} : (tensor<?x32xbf16>) -> tensor<?x12xbf16>
  %u = coda.slice %z {dim = 1 : i64, start = 16 : i64, stop = 28 : i64} : (tensor<?x32xbf16>) -> tensor<?x12xbf16>
  %s = coda.silu %g : (tensor<?x12xbf16>) -> tensor<?x12xbf16>
  %a = coda.mul %s, %u : (tensor<?x12xbf16>, tensor<?x12xbf16>) -> tensor<?x12xbf16>
  %h = coda.slice %y {dim = 1 : i64, start = 0 : i64, stop = 16 : i64} : (tensor<?x32xbf16>) -> tensor<?x16xbf16>
  %v = coda.slice %y {dim = 1 : i64, start = 16 : i64, stop = 32 : i64} : (tensor<?x32xbf16>) -> tensor<?x16xbf16>
  %t = coda.silu %h : (tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %b = coda.mul %t, %v : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %a, %b : tensor<?x12xbf16>, tensor<?x16xbf16>
}

// CHECK:      func.func @not_halves(%x: tensor<?x8xbf16>, %w: tensor<32x8xbf16>, %y: tensor<?x32xbf16>) -> (tensor<?x12xbf16>, tensor<?x16xbf16>) {
// CHECK-NEXT:   %z = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<32x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x32xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %g = coda.slice %z {dim = 1 : i64, start = 0 : i64, stop = 12 : i64} : (tensor<?x32xbf16>) -> tensor<?x12xbf16>
// CHECK-NEXT:   %u = coda.slice %z {dim = 1 : i64, start = 16 : i64, stop = 28 : i64} : (tensor<?x32xbf16>) -> tensor<?x12xbf16>
// CHECK-NEXT:   %s = coda.silu %g : (tensor<?x12xbf16>) -> tensor<?x12xbf16>
// CHECK-NEXT:   %a = coda.mul %s, %u : (tensor<?x12xbf16>, tensor<?x12xbf16>) -> tensor<?x12xbf16>
// CHECK-NEXT:   %h = coda.slice %y {dim = 1 : i64, start = 0 : i64, stop = 16 : i64} : (tensor<?x32xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %v = coda.slice %y {dim = 1 : i64, start = 16 : i64, stop = 32 : i64} : (tensor<?x32xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %t = coda.silu %h : (tensor<?x16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %b = coda.mul %t, %v : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %a, %b : tensor<?x12xbf16>, tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// The whole tile is read as well, or one half of its columns only.

func.func @whole(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) -> (tensor<?x16xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>) {
  %z = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>)
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %even = torch.call "aten.slice.Tensor"(%z) {arguments = "{0}, 1, 0, 16, 2", view} : (tensor<?x16xbf16>) -> tensor<?x8xbf16>
  %odd = torch.call "aten.slice.Tensor"(%z) {arguments = "{0}, 1, 1, 16, 2", view} : (tensor<?x16xbf16>) -> tensor<?x8xbf16>
  func.return %z, %even, %odd : tensor<?x16xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>
}

// CHECK:      func.func @whole(
// CHECK-NEXT:   %z = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<16x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %even = torch.call "aten.slice.Tensor"(%z) {arguments = "{0}, 1, 0, 16, 2", view} : (tensor<?x16xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %odd = torch.call "aten.slice.Tensor"(%z) {arguments = "{0}, 1, 1, 16, 2", view} : (tensor<?x16xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   func.return %z, %even, %odd : tensor<?x16xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>
// CHECK-NEXT: }

// -----

func.func @half(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) -> tensor<?x8xbf16> {
  %z = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>)
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %even = torch.call "aten.slice.Tensor"(%z) {arguments = "{0}, 1, 0, 16, 2", view} : (tensor<?x16xbf16>) -> tensor<?x8xbf16>
  func.return %even : tensor<?x8xbf16>
}

// CHECK:      func.func @half(
// CHECK-NEXT:   %z = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<16x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %even = torch.call "aten.slice.Tensor"(%z) {arguments = "{0}, 1, 0, 16, 2", view} : (tensor<?x16xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   func.return %even : tensor<?x8xbf16>
// CHECK-NEXT: }

// RUN: coda-opt %s -p accumulate-in-place --split-input-file | filecheck %s
// RUN: coda-opt %s -p accumulate-in-place --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// A donated table that a kernel looks up after the call that changes it.

func.func @looked_up(%i: tensor<?xi64>, %j: tensor<4xi64>, %v: tensor<4x8xf32>, %t: tensor<50x8xf32> {coda.donated}) -> (tensor<50x8xf32>, tensor<?x8xf32>) {
  %e = coda.embedding %i, %t : (tensor<?xi64>, tensor<50x8xf32>) -> tensor<?x8xf32>
  %u = torch.call "aten.index_copy.default"(%t, %j, %v) {arguments = "{0}, 0, {1}, {2}"} : (tensor<50x8xf32>, tensor<4xi64>, tensor<4x8xf32>) -> tensor<50x8xf32>
  %y = gemm.map tile(%e : tensor<?x8xf32>)
      -> (tile : tensor<?x8xf32>) {
    ^bb0(%a: f32):
      gemm.yield %a : f32
    }
  func.return %u, %y : tensor<50x8xf32>, tensor<?x8xf32>
}

// REMARK: remark[missed] accumulate-in-place: torch.call: %t is used by gemm.map afterwards; failed condition: nothing else reads the overwritten tensor;
// CHECK:      func.func @looked_up(
// CHECK-NEXT:   %e = coda.embedding %i, %t : (tensor<?xi64>, tensor<50x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %u = torch.call "aten.index_copy.default"(%t, %j, %v) {arguments = "{0}, 0, {1}, {2}"} : (tensor<50x8xf32>, tensor<4xi64>, tensor<4x8xf32>) -> tensor<50x8xf32>

// -----

// A donated tensor that is read again.

func.func @used(%dy: tensor<?x16xf32>, %x: tensor<?x8xf32>, %grad: tensor<16x8xf32> {coda.donated}) -> (tensor<16x8xf32>, tensor<16x8xf32>) {
  %dw = gemm.fused transposed %dy : tensor<?x16xf32>
    columns(%x : tensor<?x8xf32>) kn tile(%grad : tensor<16x8xf32>)
      -> (tile : tensor<16x8xf32>) {
    ^bb0(%acc: f32, %old: f32):
      %new = arith.addf %old, %acc : f32
      gemm.yield %new : f32
    }
  %n = coda.neg %grad : (tensor<16x8xf32>) -> tensor<16x8xf32>
  func.return %dw, %n : tensor<16x8xf32>, tensor<16x8xf32>
}

// REMARK: remark[missed] accumulate-in-place: gemm.fused: %grad is donated without effect: it is also used elsewhere; failed condition: the overwritten tensor has no other use; costs 64*d0 + 32*d1 + 1024 bytes
// CHECK:      func.func @used(
// CHECK-NEXT:   %dw = gemm.fused transposed %dy : tensor<?x16xf32>
// CHECK-NEXT:     columns(%x : tensor<?x8xf32>) kn tile(%grad : tensor<16x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<16x8xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %old: f32):
// CHECK-NEXT:       %new = arith.addf %old, %acc : f32
// CHECK-NEXT:       gemm.yield %new : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %n = coda.neg %grad : (tensor<16x8xf32>) -> tensor<16x8xf32>
// CHECK-NEXT:   func.return %dw, %n : tensor<16x8xf32>, tensor<16x8xf32>
// CHECK-NEXT: }

// -----

// Another type, another layout, and a result that has nothing to do with it.

func.func @unfit(%dy: tensor<?x16xf32>, %x: tensor<?x8xf32>, %narrow: tensor<16x8xbf16> {coda.donated}, %transposed: tensor<8x16xf32> {coda.donated}, %other: tensor<16x8xf32> {coda.donated}) -> (tensor<16x8xf32>, tensor<16x8xf32>, tensor<16x?xf32>) {
  %a = gemm.fused transposed %dy : tensor<?x16xf32>
    columns(%x : tensor<?x8xf32>) kn tile(%narrow : tensor<16x8xbf16>)
      -> (tile : tensor<16x8xf32>) {
    ^bb0(%acc: f32, %old: f32):
      %new = arith.addf %old, %acc : f32
      gemm.yield %new : f32
    }
  %b = gemm.fused transposed %dy : tensor<?x16xf32>
    columns(%x : tensor<?x8xf32>) kn tile_t(%transposed : tensor<8x16xf32>)
      -> (tile : tensor<16x8xf32>) {
    ^bb0(%acc: f32, %old: f32):
      %new = arith.addf %old, %acc : f32
      gemm.yield %new : f32
    }
  %c, %sums = gemm.fused transposed %dy : tensor<?x16xf32>
    columns(%x : tensor<?x8xf32>) kn tile(%other : tensor<16x8xf32>)
      -> (tile : tensor<16x8xf32>, partial_row<add> : tensor<16x?xf32>) {
    ^bb0(%acc: f32, %old: f32):
      gemm.yield %acc, %old : f32, f32
    }
  %ab = coda.add %a, %b : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  func.return %ab, %c, %sums : tensor<16x8xf32>, tensor<16x8xf32>, tensor<16x?xf32>
}

// REMARK: remark[missed] accumulate-in-place: gemm.fused: %narrow is donated without effect: no result fits into its memory; failed condition: a result is computed from the tensor that it overwrites, and has its type and layout; costs 64*d0 + 32*d1 + 768 bytes
// REMARK: remark[missed] accumulate-in-place: gemm.fused: %transposed is donated without effect: no result fits into its memory; failed condition: a result is computed from the tensor that it overwrites, and has its type and layout; costs 64*d0 + 32*d1 + 1024 bytes
// REMARK: remark[missed] accumulate-in-place: gemm.fused: %other is donated without effect: no result fits into its memory; failed condition: a result is computed from the tensor that it overwrites, and has its type and layout; costs 64*d0 + 32*d1 + 1088 bytes
// CHECK:      func.func @unfit(
// CHECK-NEXT:   %a = gemm.fused transposed %dy : tensor<?x16xf32>
// CHECK-NEXT:     columns(%x : tensor<?x8xf32>) kn tile(%narrow : tensor<16x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<16x8xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %old: f32):
// CHECK-NEXT:       %new = arith.addf %old, %acc : f32
// CHECK-NEXT:       gemm.yield %new : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %b = gemm.fused transposed %dy : tensor<?x16xf32>
// CHECK-NEXT:     columns(%x : tensor<?x8xf32>) kn tile_t(%transposed : tensor<8x16xf32>)
// CHECK-NEXT:       -> (tile : tensor<16x8xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %old: f32):
// CHECK-NEXT:       %new = arith.addf %old, %acc : f32
// CHECK-NEXT:       gemm.yield %new : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %c, %sums = gemm.fused transposed %dy : tensor<?x16xf32>
// CHECK-NEXT:     columns(%x : tensor<?x8xf32>) kn tile(%other : tensor<16x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<16x8xf32>, partial_row<add> : tensor<16x?xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %old: f32):
// CHECK-NEXT:       gemm.yield %acc, %old : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %ab = coda.add %a, %b : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
// CHECK-NEXT:   func.return %ab, %c, %sums : tensor<16x8xf32>, tensor<16x8xf32>, tensor<16x?xf32>
// CHECK-NEXT: }

// -----

// The first refusal asks for the extents of sums of rows, which are known at run time only.

func.func @unfit_sums(%dy: tensor<?x16xf32>, %x: tensor<?x8xf32>, %other: tensor<16x8xf32> {coda.donated}) -> tensor<16x?xf32> {
  %sums = gemm.fused transposed %dy : tensor<?x16xf32>
    columns(%x : tensor<?x8xf32>) kn tile(%other : tensor<16x8xf32>)
      -> (partial_row<add> : tensor<16x?xf32>) {
    ^bb0(%acc: f32, %old: f32):
      gemm.yield %old : f32
    }
  func.return %sums : tensor<16x?xf32>
}

// REMARK: remark[missed] accumulate-in-place: gemm.fused: %other is donated without effect: no result fits into its memory; failed condition: a result is computed from the tensor that it overwrites, and has its type and layout; costs 64*d0 + 32*d1 + 576 bytes
// CHECK:      func.func @unfit_sums(%dy: tensor<?x16xf32>, %x: tensor<?x8xf32>, %other: tensor<16x8xf32> {coda.donated}) -> tensor<16x?xf32> {
// CHECK-NEXT:   %sums = gemm.fused transposed %dy : tensor<?x16xf32>
// CHECK-NEXT:     columns(%x : tensor<?x8xf32>) kn tile(%other : tensor<16x8xf32>)
// CHECK-NEXT:       -> (partial_row<add> : tensor<16x?xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %old: f32):
// CHECK-NEXT:       gemm.yield %old : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %sums : tensor<16x?xf32>
// CHECK-NEXT: }

// -----

// A sum of products that is a result, too.

func.func @sum_is_needed(%a: tensor<?x4xbf16>, %b: tensor<?x4xbf16>, %w: tensor<8x4xbf16>) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  %first = gemm.fused %a : tensor<?x4xbf16>
    columns(%w : tensor<8x4xbf16>)
      -> (tile : tensor<?x8xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %second = gemm.fused %b : tensor<?x4xbf16>
    columns(%w : tensor<8x4xbf16>) tile(%first : tensor<?x8xf32>)
      -> (tile : tensor<?x8xf32>) {
    ^bb0(%acc: f32, %sum: f32):
      %s = arith.addf %sum, %acc : f32
      gemm.yield %s : f32
    }
  func.return %first, %second : tensor<?x8xf32>, tensor<?x8xf32>
}

// CHECK:      func.func @sum_is_needed(%a: tensor<?x4xbf16>, %b: tensor<?x4xbf16>, %w: tensor<8x4xbf16>) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
// CHECK-NEXT:   %first = gemm.fused %a : tensor<?x4xbf16>
// CHECK-NEXT:     columns(%w : tensor<8x4xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x8xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %second = gemm.fused %b : tensor<?x4xbf16>
// CHECK-NEXT:     columns(%w : tensor<8x4xbf16>) tile(%first : tensor<?x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x8xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %sum: f32):
// CHECK-NEXT:       %s = arith.addf %sum, %acc : f32
// CHECK-NEXT:       gemm.yield %s : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %first, %second : tensor<?x8xf32>, tensor<?x8xf32>
// CHECK-NEXT: }

// -----

// A narrow sum: a residual.

func.func @narrow_sum(%a: tensor<?x4xbf16>, %b: tensor<?x4xbf16>, %w: tensor<8x4xbf16>) -> (tensor<?x8xbf16>) {
  %first = gemm.fused %a : tensor<?x4xbf16>
    columns(%w : tensor<8x4xbf16>)
      -> (tile : tensor<?x8xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %second = gemm.fused %b : tensor<?x4xbf16>
    columns(%w : tensor<8x4xbf16>) tile(%first : tensor<?x8xbf16>)
      -> (tile : tensor<?x8xbf16>) {
    ^bb0(%acc: f32, %sum: f32):
      %s = arith.addf %sum, %acc : f32
      gemm.yield %s : f32
    }
  func.return %second : tensor<?x8xbf16>
}

// CHECK:      func.func @narrow_sum(%a: tensor<?x4xbf16>, %b: tensor<?x4xbf16>, %w: tensor<8x4xbf16>) -> tensor<?x8xbf16> {
// CHECK-NEXT:   %first = gemm.fused %a : tensor<?x4xbf16>
// CHECK-NEXT:     columns(%w : tensor<8x4xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x8xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %second = gemm.fused %b : tensor<?x4xbf16>
// CHECK-NEXT:     columns(%w : tensor<8x4xbf16>) tile(%first : tensor<?x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x8xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %sum: f32):
// CHECK-NEXT:       %s = arith.addf %sum, %acc : f32
// CHECK-NEXT:       gemm.yield %s : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %second : tensor<?x8xbf16>
// CHECK-NEXT: }

// -----

// What is added to has an epilogue.

func.func @sum_of_squares(%a: tensor<?x4xbf16>, %b: tensor<?x4xbf16>, %w: tensor<8x4xbf16>) -> (tensor<?x8xf32>) {
  %first = gemm.fused %a : tensor<?x4xbf16>
    columns(%w : tensor<8x4xbf16>)
      -> (tile : tensor<?x8xf32>) {
    ^bb0(%acc: f32):
      %q = arith.mulf %acc, %acc : f32
      gemm.yield %q : f32
    }
  %second = gemm.fused %b : tensor<?x4xbf16>
    columns(%w : tensor<8x4xbf16>) tile(%first : tensor<?x8xf32>)
      -> (tile : tensor<?x8xf32>) {
    ^bb0(%acc: f32, %sum: f32):
      %s = arith.addf %sum, %acc : f32
      gemm.yield %s : f32
    }
  func.return %second : tensor<?x8xf32>
}

// CHECK:      func.func @sum_of_squares(%a: tensor<?x4xbf16>, %b: tensor<?x4xbf16>, %w: tensor<8x4xbf16>) -> tensor<?x8xf32> {
// CHECK-NEXT:   %first = gemm.fused %a : tensor<?x4xbf16>
// CHECK-NEXT:     columns(%w : tensor<8x4xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x8xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       %q = arith.mulf %acc, %acc : f32
// CHECK-NEXT:       gemm.yield %q : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %second = gemm.fused %b : tensor<?x4xbf16>
// CHECK-NEXT:     columns(%w : tensor<8x4xbf16>) tile(%first : tensor<?x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x8xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %sum: f32):
// CHECK-NEXT:       %s = arith.addf %sum, %acc : f32
// CHECK-NEXT:       gemm.yield %s : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %second : tensor<?x8xf32>
// CHECK-NEXT: }

// -----

// A product with the sum so far.

func.func @product(%a: tensor<?x4xbf16>, %b: tensor<?x4xbf16>, %w: tensor<8x4xbf16>) -> (tensor<?x8xf32>) {
  %first = gemm.fused %a : tensor<?x4xbf16>
    columns(%w : tensor<8x4xbf16>)
      -> (tile : tensor<?x8xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %second = gemm.fused %b : tensor<?x4xbf16>
    columns(%w : tensor<8x4xbf16>) tile(%first : tensor<?x8xf32>)
      -> (tile : tensor<?x8xf32>) {
    ^bb0(%acc: f32, %sum: f32):
      %s = arith.mulf %sum, %acc : f32
      gemm.yield %s : f32
    }
  func.return %second : tensor<?x8xf32>
}

// CHECK:      func.func @product(%a: tensor<?x4xbf16>, %b: tensor<?x4xbf16>, %w: tensor<8x4xbf16>) -> tensor<?x8xf32> {
// CHECK-NEXT:   %first = gemm.fused %a : tensor<?x4xbf16>
// CHECK-NEXT:     columns(%w : tensor<8x4xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x8xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %second = gemm.fused %b : tensor<?x4xbf16>
// CHECK-NEXT:     columns(%w : tensor<8x4xbf16>) tile(%first : tensor<?x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x8xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %sum: f32):
// CHECK-NEXT:       %s = arith.mulf %sum, %acc : f32
// CHECK-NEXT:       gemm.yield %s : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %second : tensor<?x8xf32>
// CHECK-NEXT: }

// -----

// Caches of which the old contents are read later, through a view too, or by the call itself, a part
// of a cache, and one that nobody gave up.

func.func @caches(%a: tensor<4x8xf32> {coda.donated}, %b: tensor<4x4xf32> {coda.donated}, %c: tensor<4x8xf32> {coda.donated}, %kept: tensor<4x8xf32>, %at: tensor<1xi64>, %new: tensor<1x8xf32>) -> (tensor<4x8xf32>, tensor<32xf32>, tensor<4x4xf32>, tensor<2x8xf32>, tensor<4x8xf32>) {
  %view = coda.reshape %a : (tensor<4x8xf32>) -> tensor<32xf32>
  %read_later = torch.call "aten.index_put.default"(%a, %at, %new) {arguments = "{0}, [{1}], {2}"} : (tensor<4x8xf32>, tensor<1xi64>, tensor<1x8xf32>) -> tensor<4x8xf32>
  %old = coda.neg %view : (tensor<32xf32>) -> tensor<32xf32>
  %transposed = coda.transpose %b {perm = [1 : i64, 0 : i64]} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %reads_itself = torch.call "aten.add.Tensor"(%b, %transposed) {arguments = "{0}, {1}"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %part = coda.slice %c {dim = 0 : i64, start = 0 : i64, stop = 2 : i64} : (tensor<4x8xf32>) -> tensor<2x8xf32>
  %of_part = torch.call "aten.add.Tensor"(%part) {arguments = "{0}, 1"} : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %not_given = torch.call "aten.index_put.default"(%kept, %at, %new) {arguments = "{0}, [{1}], {2}"} : (tensor<4x8xf32>, tensor<1xi64>, tensor<1x8xf32>) -> tensor<4x8xf32>
  func.return %read_later, %old, %reads_itself, %of_part, %not_given : tensor<4x8xf32>, tensor<32xf32>, tensor<4x4xf32>, tensor<2x8xf32>, tensor<4x8xf32>
}

// REMARK: remark[missed] accumulate-in-place: torch.call: %a is used by coda.neg afterwards; failed condition: nothing else reads the overwritten tensor
// REMARK: remark[missed] accumulate-in-place: torch.call: the call also reads %b, which it changes; failed condition: nothing else reads the overwritten tensor
// REMARK: remark[missed] accumulate-in-place: torch.call: the call changes a part or another view of %c; failed condition: the overwritten tensor is a whole donated tensor
// CHECK:      func.func @caches(
// CHECK-NOT:    in_place
// CHECK:        func.return

// -----

// States that something else reads, and a model of several positions, which reads them twice.

func.func @states(%x: tensor<2x1x8xf32>, %long: tensor<2x3x8xf32>, %a: tensor<8x4xf32>, %b: tensor<2x1x4xf32>, %d: tensor<2x3x4xf32>, %h: tensor<2x8x4xf32> {coda.donated}, %g: tensor<2x8x4xf32> {coda.donated}) -> (tensor<2x1x8xf32>, tensor<2x8x4xf32>, tensor<2x8x4xf32>, tensor<2x3x8xf32>, tensor<2x8x4xf32>) {
  %y, %last = coda.selective_scan %x, %x, %a, %b, %b, %h : (tensor<2x1x8xf32>, tensor<2x1x8xf32>, tensor<8x4xf32>, tensor<2x1x4xf32>, tensor<2x1x4xf32>, tensor<2x8x4xf32>) -> (tensor<2x1x8xf32>, tensor<2x8x4xf32>)
  %old = coda.neg %h : (tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  %z, %other = coda.selective_scan %long, %long, %a, %d, %d, %g : (tensor<2x3x8xf32>, tensor<2x3x8xf32>, tensor<8x4xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x8x4xf32>) -> (tensor<2x3x8xf32>, tensor<2x8x4xf32>)
  func.return %y, %last, %old, %z, %other : tensor<2x1x8xf32>, tensor<2x8x4xf32>, tensor<2x8x4xf32>, tensor<2x3x8xf32>, tensor<2x8x4xf32>
}

// REMARK: remark[missed] accumulate-in-place: coda.selective_scan: %h is donated without effect: it is also used elsewhere; failed condition: the overwritten tensor has no other use
// CHECK:      func.func @states(
// CHECK-NOT:    in_place
// CHECK:        func.return

// -----

// A number that a kernel reads afterwards.

func.func @number(%seen: tensor<i64> {coda.donated}, %x: tensor<?x8xi64>) -> (tensor<?x8xi64>, tensor<i64>) {
  %next = gemm.map scalar(%seen : tensor<i64>)
      -> (tile : tensor<i64>) {
    ^bb0(%q: i64):
      %n = arith.addi %q, %q : i64
      gemm.yield %n : i64
    }
  %y = gemm.map tile(%x : tensor<?x8xi64>) scalar(%seen : tensor<i64>)
      -> (tile : tensor<?x8xi64>) {
    ^bb0(%p: i64, %q: i64):
      %s = arith.addi %p, %q : i64
      gemm.yield %s : i64
    }
  func.return %y, %next : tensor<?x8xi64>, tensor<i64>
}

// REMARK: remark[missed] accumulate-in-place: gemm.map: %seen is donated without effect: it is also used elsewhere; failed condition: the overwritten tensor has no other use; costs 16 bytes
// CHECK:      func.func @number(%seen: tensor<i64> {coda.donated}, %x: tensor<?x8xi64>) -> (tensor<?x8xi64>, tensor<i64>) {
// CHECK-NEXT:   %next = gemm.map scalar(%seen : tensor<i64>)
// CHECK-NEXT:       -> (tile : tensor<i64>) {
// CHECK-NEXT:     ^bb0(%q: i64):
// CHECK-NEXT:       %n = arith.addi %q, %q : i64
// CHECK-NEXT:       gemm.yield %n : i64
// CHECK-NEXT:     }
// CHECK-NEXT:   %y = gemm.map tile(%x : tensor<?x8xi64>) scalar(%seen : tensor<i64>)
// CHECK-NEXT:       -> (tile : tensor<?x8xi64>) {
// CHECK-NEXT:     ^bb0(%p: i64, %q: i64):
// CHECK-NEXT:       %s = arith.addi %p, %q : i64
// CHECK-NEXT:       gemm.yield %s : i64
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y, %next : tensor<?x8xi64>, tensor<i64>
// CHECK-NEXT: }

// -----

// Scales of which a finalize reads the old ones: the kernel that reads it may compute it itself.

func.func @finalized(%scales: tensor<4xf32> {coda.donated}, %at: tensor<1xi64>, %new: tensor<1xf32>, %x: tensor<4x8xf32>, %p: tensor<4x2xf32>) -> (tensor<4x8xf32>, tensor<4xf32>) {
  %r = gemm.finalize row (add %p : tensor<4x2xf32>) col(%scales : tensor<4xf32>) -> (tensor<4x1xf32>) {
  ^bb0(%sum: f32, %s: f32):
    %0 = arith.mulf %sum, %s : f32
    gemm.yield %0 : f32
  }
  %next = torch.call "aten.index_put.default"(%scales, %at, %new) {arguments = "{0}, [{1}], {2}"} : (tensor<4xf32>, tensor<1xi64>, tensor<1xf32>) -> tensor<4xf32>
  %y = gemm.map tile(%x : tensor<4x8xf32>) col(%r : tensor<4x1xf32>)
      -> (tile : tensor<4x8xf32>) {
    ^bb0(%a: f32, %b: f32):
      %0 = arith.mulf %a, %b : f32
      gemm.yield %0 : f32
    }
  func.return %y, %next : tensor<4x8xf32>, tensor<4xf32>
}

// REMARK: remark[missed] accumulate-in-place: torch.call: %scales is used by gemm.map afterwards; failed condition: nothing else reads the overwritten tensor
// CHECK:      func.func @finalized(
// CHECK-NOT:    in_place
// CHECK:        func.return

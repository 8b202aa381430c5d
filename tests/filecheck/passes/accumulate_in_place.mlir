// RUN: coda-opt %s -p accumulate-in-place --split-input-file | filecheck %s
// RUN: coda-opt %s -p accumulate-in-place --split-input-file --remarks=passed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// A gradient that is added to what the caller gave.

func.func @gradient(%dy: tensor<?x16xf32>, %x: tensor<?x8xf32>, %grad: tensor<16x8xf32> {coda.donated}, %kept: tensor<16x8xf32>) -> (tensor<16x8xf32>, tensor<16x8xf32>) {
  %dw = gemm.fused transposed %dy : tensor<?x16xf32>
    columns(%x : tensor<?x8xf32>) kn tile(%grad : tensor<16x8xf32>)
      -> (tile : tensor<16x8xf32>) {
    ^bb0(%acc: f32, %old: f32):
      %new = arith.addf %old, %acc : f32
      gemm.yield %new : f32
    }
  %dv = gemm.fused transposed %dy : tensor<?x16xf32>
    columns(%x : tensor<?x8xf32>) kn tile(%kept : tensor<16x8xf32>)
      -> (tile : tensor<16x8xf32>) {
    ^bb0(%acc: f32, %old: f32):
      %new = arith.addf %old, %acc : f32
      gemm.yield %new : f32
    }
  func.return %dw, %dv : tensor<16x8xf32>, tensor<16x8xf32>
}

// REMARK: remark[passed] accumulate-in-place: gemm.fused: stores a result in the memory of %grad
// CHECK:      func.func @gradient(
// CHECK-NEXT:   %dw = gemm.fused transposed %dy : tensor<?x16xf32>
// CHECK-NEXT:     columns(%x : tensor<?x8xf32>) kn tile(%grad : tensor<16x8xf32>)
// CHECK-NEXT:       -> (accumulate<0> : tensor<16x8xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %old: f32):
// CHECK-NEXT:       %new = arith.addf %old, %acc : f32
// CHECK-NEXT:       gemm.yield %new : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %dv = gemm.fused transposed %dy : tensor<?x16xf32>
// CHECK-NEXT:     columns(%x : tensor<?x8xf32>) kn tile(%kept : tensor<16x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<16x8xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %old: f32):
// CHECK-NEXT:       %new = arith.addf %old, %acc : f32
// CHECK-NEXT:       gemm.yield %new : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %dw, %dv : tensor<16x8xf32>, tensor<16x8xf32>
// CHECK-NEXT: }

// -----

// Transposed tiles, and a pointwise kernel with two donated tensors of which one is reused.

func.func @others(%h: tensor<?x8xf32>, %dy: tensor<?x16xf32>, %grad: tensor<16x8xf32> {coda.donated}, %a: tensor<16x8xf32> {coda.donated}, %b: tensor<16x8xf32> {coda.donated}) -> (tensor<16x8xf32>, tensor<16x8xf32>) {
  %dw = gemm.fused transposed %h : tensor<?x8xf32>
    columns(%dy : tensor<?x16xf32>) kn tile_t(%grad : tensor<16x8xf32>)
      -> (tile_t : tensor<16x8xf32>) {
    ^bb0(%acc: f32, %old: f32):
      %new = arith.addf %old, %acc : f32
      gemm.yield %new : f32
    }
  %sum = gemm.map tile(%a : tensor<16x8xf32>, %b : tensor<16x8xf32>)
      -> (tile : tensor<16x8xf32>) {
    ^bb0(%p: f32, %q: f32):
      %s = arith.addf %p, %q : f32
      gemm.yield %s : f32
    }
  func.return %dw, %sum : tensor<16x8xf32>, tensor<16x8xf32>
}

// REMARK: remark[passed] accumulate-in-place: gemm.fused: stores a result in the memory of %grad
// REMARK: remark[passed] accumulate-in-place: gemm.map: stores a result in the memory of %a
// CHECK:      func.func @others(
// CHECK-NEXT:   %dw = gemm.fused transposed %h : tensor<?x8xf32>
// CHECK-NEXT:     columns(%dy : tensor<?x16xf32>) kn tile_t(%grad : tensor<16x8xf32>)
// CHECK-NEXT:       -> (accumulate<0> : tensor<16x8xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %old: f32):
// CHECK-NEXT:       %new = arith.addf %old, %acc : f32
// CHECK-NEXT:       gemm.yield %new : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %sum = gemm.map tile(%a : tensor<16x8xf32>, %b : tensor<16x8xf32>)
// CHECK-NEXT:       -> (accumulate<0> : tensor<16x8xf32>) {
// CHECK-NEXT:     ^bb0(%p: f32, %q: f32):
// CHECK-NEXT:       %s = arith.addf %p, %q : f32
// CHECK-NEXT:       gemm.yield %s : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %dw, %sum : tensor<16x8xf32>, tensor<16x8xf32>
// CHECK-NEXT: }

// -----

// A sum in float32 of three products, one after the other; the last is rounded, so it goes elsewhere.

func.func @running_sum(%a: tensor<?x4xbf16>, %b: tensor<?x4xbf16>, %c: tensor<?x4xbf16>, %d: tensor<?x4xbf16>, %w: tensor<8x4xbf16>) -> tensor<?x8xbf16> {
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
  %third = gemm.fused %c : tensor<?x4xbf16>
    columns(%w : tensor<8x4xbf16>) tile(%second : tensor<?x8xf32>)
      -> (tile : tensor<?x8xf32>) {
    ^bb0(%acc: f32, %sum: f32):
      %s = arith.addf %acc, %sum : f32
      gemm.yield %s : f32
    }
  %last = gemm.fused %d : tensor<?x4xbf16>
    columns(%w : tensor<8x4xbf16>) tile(%third : tensor<?x8xf32>)
      -> (tile : tensor<?x8xbf16>) {
    ^bb0(%acc: f32, %sum: f32):
      %s = arith.addf %acc, %sum : f32
      gemm.yield %s : f32
    }
  func.return %last : tensor<?x8xbf16>
}

// CHECK:      func.func @running_sum(%a: tensor<?x4xbf16>, %b: tensor<?x4xbf16>, %c: tensor<?x4xbf16>, %d: tensor<?x4xbf16>, %w: tensor<8x4xbf16>) -> tensor<?x8xbf16> {
// CHECK-NEXT:   %first = gemm.fused %a : tensor<?x4xbf16>
// CHECK-NEXT:     columns(%w : tensor<8x4xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x8xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %second = gemm.fused %b : tensor<?x4xbf16>
// CHECK-NEXT:     columns(%w : tensor<8x4xbf16>) tile(%first : tensor<?x8xf32>)
// CHECK-NEXT:       -> (accumulate<0> : tensor<?x8xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %sum: f32):
// CHECK-NEXT:       %s = arith.addf %sum, %acc : f32
// CHECK-NEXT:       gemm.yield %s : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %third = gemm.fused %c : tensor<?x4xbf16>
// CHECK-NEXT:     columns(%w : tensor<8x4xbf16>) tile(%second : tensor<?x8xf32>)
// CHECK-NEXT:       -> (accumulate<0> : tensor<?x8xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %sum: f32):
// CHECK-NEXT:       %s = arith.addf %acc, %sum : f32
// CHECK-NEXT:       gemm.yield %s : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %last = gemm.fused %d : tensor<?x4xbf16>
// CHECK-NEXT:     columns(%w : tensor<8x4xbf16>) tile(%third : tensor<?x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x8xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %sum: f32):
// CHECK-NEXT:       %s = arith.addf %acc, %sum : f32
// CHECK-NEXT:       gemm.yield %s : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %last : tensor<?x8xbf16>
// CHECK-NEXT: }

// -----

// New keys in a cache that the caller gives up, and a count. What was read before may be overwritten;
// a second call continues in the memory of the first.

func.func @cache(%cache: tensor<4x8xf32> {coda.donated}, %seen: tensor<i64> {coda.donated}, %at: tensor<1xi64>, %new: tensor<1x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<i64>) {
  %before = coda.neg %cache : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %keys = torch.call "aten.index_put.default"(%cache, %at, %new) {arguments = "{0}, [{1}], {2}"} : (tensor<4x8xf32>, tensor<1xi64>, tensor<1x8xf32>) -> tensor<4x8xf32>
  %filled = torch.call "aten.index_copy.default"(%keys, %at, %new) {arguments = "{0}, 0, {1}, {2}"} : (tensor<4x8xf32>, tensor<1xi64>, tensor<1x8xf32>) -> tensor<4x8xf32>
  %next = torch.call "aten.add.Tensor"(%seen) {arguments = "{0}, 1"} : (tensor<i64>) -> tensor<i64>
  func.return %before, %filled, %next : tensor<4x8xf32>, tensor<4x8xf32>, tensor<i64>
}

// REMARK: remark[passed] accumulate-in-place: torch.call: aten.index_put.default: stores its result in the memory of %cache
// REMARK: remark[passed] accumulate-in-place: torch.call: aten.index_copy.default: stores its result in the memory of %cache
// REMARK: remark[passed] accumulate-in-place: torch.call: aten.add.Tensor: stores its result in the memory of %seen
// CHECK:      func.func @cache(
// CHECK-NEXT:   %before = coda.neg %cache
// CHECK-NEXT:   %keys = torch.call "aten.index_put.default"(%cache, %at, %new) {arguments = "{0}, [{1}], {2}", in_place}
// CHECK-NEXT:   %filled = torch.call "aten.index_copy.default"(%keys, %at, %new) {arguments = "{0}, 0, {1}, {2}", in_place}
// CHECK-NEXT:   %next = torch.call "aten.add.Tensor"(%seen) {arguments = "{0}, 1", in_place}
// CHECK-NEXT:   func.return %before, %filled, %next

// -----

// A step of a state space model: the states after the position take the place of those before it.

func.func @steps(%x: tensor<2x1x8xf32>, %dt: tensor<2x1x8xf32>, %a: tensor<8x4xf32>, %b: tensor<2x1x4xf32>, %c: tensor<2x1x4xf32>, %h: tensor<2x8x4xf32> {coda.donated}, %kept: tensor<2x8x4xf32>) -> (tensor<2x1x8xf32>, tensor<2x8x4xf32>, tensor<2x1x8xf32>, tensor<2x8x4xf32>) {
  %y, %last = coda.selective_scan %x, %dt, %a, %b, %c, %h : (tensor<2x1x8xf32>, tensor<2x1x8xf32>, tensor<8x4xf32>, tensor<2x1x4xf32>, tensor<2x1x4xf32>, tensor<2x8x4xf32>) -> (tensor<2x1x8xf32>, tensor<2x8x4xf32>)
  %z, %other = coda.selective_scan %x, %dt, %a, %b, %c, %kept : (tensor<2x1x8xf32>, tensor<2x1x8xf32>, tensor<8x4xf32>, tensor<2x1x4xf32>, tensor<2x1x4xf32>, tensor<2x8x4xf32>) -> (tensor<2x1x8xf32>, tensor<2x8x4xf32>)
  func.return %y, %last, %z, %other : tensor<2x1x8xf32>, tensor<2x8x4xf32>, tensor<2x1x8xf32>, tensor<2x8x4xf32>
}

// REMARK: remark[passed] accumulate-in-place: coda.selective_scan: stores its states in the memory of %h
// CHECK:      func.func @steps(
// CHECK-NEXT:   %y, %last = coda.selective_scan %x, %dt, %a, %b, %c, %h {in_place}
// CHECK-NEXT:   %z, %other = coda.selective_scan %x, %dt, %a, %b, %c, %kept :
// CHECK-NEXT:   func.return %y, %last, %z, %other

// -----

// A number that kernels before read: it is overwritten when they have.

func.func @number(%seen: tensor<i64> {coda.donated}, %x: tensor<?x8xi64>) -> (tensor<?x8xi64>, tensor<i64>) {
  %y = gemm.map tile(%x : tensor<?x8xi64>) scalar(%seen : tensor<i64>)
      -> (tile : tensor<?x8xi64>) {
    ^bb0(%p: i64, %q: i64):
      %s = arith.addi %p, %q : i64
      gemm.yield %s : i64
    }
  %next = gemm.map scalar(%seen : tensor<i64>)
      -> (tile : tensor<i64>) {
    ^bb0(%q: i64):
      %n = arith.addi %q, %q : i64
      gemm.yield %n : i64
    }
  func.return %y, %next : tensor<?x8xi64>, tensor<i64>
}

// REMARK: remark[passed] accumulate-in-place: gemm.map: stores a result in the memory of %seen
// CHECK:      func.func @number(%seen: tensor<i64> {coda.donated}, %x: tensor<?x8xi64>) -> (tensor<?x8xi64>, tensor<i64>) {
// CHECK-NEXT:   %y = gemm.map tile(%x : tensor<?x8xi64>) scalar(%seen : tensor<i64>)
// CHECK-NEXT:       -> (tile : tensor<?x8xi64>) {
// CHECK-NEXT:     ^bb0(%p: i64, %q: i64):
// CHECK-NEXT:       %s = arith.addi %p, %q : i64
// CHECK-NEXT:       gemm.yield %s : i64
// CHECK-NEXT:     }
// CHECK-NEXT:   %next = gemm.map scalar(%seen : tensor<i64>)
// CHECK-NEXT:       -> (accumulate<0> : tensor<i64>) {
// CHECK-NEXT:     ^bb0(%q: i64):
// CHECK-NEXT:       %n = arith.addi %q, %q : i64
// CHECK-NEXT:       gemm.yield %n : i64
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y, %next : tensor<?x8xi64>, tensor<i64>
// CHECK-NEXT: }

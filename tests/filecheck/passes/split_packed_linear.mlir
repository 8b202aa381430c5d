// RUN: coda-opt %s -p split-packed-linear --split-input-file | filecheck %s

// Columns of the product are rows of the weight and elements of the bias.

func.func @qkv(%x: tensor<?x8xbf16>, %w: tensor<32x8xbf16>, %b: tensor<32xbf16>) -> (tensor<?x16xbf16>, tensor<?x16xbf16>) {
  %z = coda.linear %x, %w, %b : (tensor<?x8xbf16>, tensor<32x8xbf16>, tensor<32xbf16>) -> tensor<?x32xbf16>
  %q = coda.slice %z {dim = 1 : i64, start = 0 : i64, stop = 16 : i64} : (tensor<?x32xbf16>) -> tensor<?x16xbf16>
  %k = coda.slice %z {dim = 1 : i64, start = 16 : i64, stop = 32 : i64} : (tensor<?x32xbf16>) -> tensor<?x16xbf16>
  %a = coda.silu %q : (tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %a, %k : tensor<?x16xbf16>, tensor<?x16xbf16>
}

// CHECK:      func.func @qkv(
// CHECK-NEXT:   %0 = coda.slice %w {dim = 0 : i64, start = 0 : i64, stop = 16 : i64} : (tensor<32x8xbf16>) -> tensor<16x8xbf16>
// CHECK-NEXT:   %1 = coda.slice %b {dim = 0 : i64, start = 0 : i64, stop = 16 : i64} : (tensor<32xbf16>) -> tensor<16xbf16>
// CHECK-NEXT:   %q = coda.linear %x, %0, %1 : (tensor<?x8xbf16>, tensor<16x8xbf16>, tensor<16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %2 = coda.slice %w {dim = 0 : i64, start = 16 : i64, stop = 32 : i64} : (tensor<32x8xbf16>) -> tensor<16x8xbf16>
// CHECK-NEXT:   %3 = coda.slice %b {dim = 0 : i64, start = 16 : i64, stop = 32 : i64} : (tensor<32xbf16>) -> tensor<16xbf16>
// CHECK-NEXT:   %k = coda.linear %x, %2, %3 : (tensor<?x8xbf16>, tensor<16x8xbf16>, tensor<16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %a = coda.silu %q : (tensor<?x16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %a, %k : tensor<?x16xbf16>, tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// Ranges may overlap or leave columns out; the result type is kept.

func.func @overlapping(%x: tensor<?x?x8xbf16>, %w: tensor<32x8xbf16>) -> (tensor<?x?x16xf32>, tensor<?x?x12xf32>) {
  %z = coda.linear %x, %w : (tensor<?x?x8xbf16>, tensor<32x8xbf16>) -> tensor<?x?x32xf32>
  %p = coda.slice %z {dim = 2 : i64, start = 4 : i64, stop = 20 : i64} : (tensor<?x?x32xf32>) -> tensor<?x?x16xf32>
  %q = coda.slice %z {dim = 2 : i64, start = 12 : i64, stop = 24 : i64} : (tensor<?x?x32xf32>) -> tensor<?x?x12xf32>
  %a = coda.silu %p : (tensor<?x?x16xf32>) -> tensor<?x?x16xf32>
  %b = coda.silu %q : (tensor<?x?x12xf32>) -> tensor<?x?x12xf32>
  func.return %a, %b : tensor<?x?x16xf32>, tensor<?x?x12xf32>
}

// CHECK:      func.func @overlapping(
// CHECK-NEXT:   %0 = coda.slice %w {dim = 0 : i64, start = 4 : i64, stop = 20 : i64} : (tensor<32x8xbf16>) -> tensor<16x8xbf16>
// CHECK-NEXT:   %p = coda.linear %x, %0 : (tensor<?x?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x?x16xf32>
// CHECK-NEXT:   %1 = coda.slice %w {dim = 0 : i64, start = 12 : i64, stop = 24 : i64} : (tensor<32x8xbf16>) -> tensor<12x8xbf16>
// CHECK-NEXT:   %q = coda.linear %x, %1 : (tensor<?x?x8xbf16>, tensor<12x8xbf16>) -> tensor<?x?x12xf32>
// CHECK-NEXT:   %a = coda.silu %p : (tensor<?x?x16xf32>) -> tensor<?x?x16xf32>
// CHECK-NEXT:   %b = coda.silu %q : (tensor<?x?x12xf32>) -> tensor<?x?x12xf32>
// CHECK-NEXT:   func.return %a, %b : tensor<?x?x16xf32>, tensor<?x?x12xf32>
// CHECK-NEXT: }

// -----

// A scale of the columns: each slice has its part of it.

func.func @scaled(%x: tensor<?x8xbf16>, %w: tensor<32x8xbf16>, %s: tensor<32xbf16>, %c: tensor<?x1xbf16>) -> tensor<?x16xbf16> {
  %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<32x8xbf16>) -> tensor<?x32xbf16>
  %y = coda.mul %z, %s : (tensor<?x32xbf16>, tensor<32xbf16>) -> tensor<?x32xbf16>
  %a = coda.add %y, %c : (tensor<?x32xbf16>, tensor<?x1xbf16>) -> tensor<?x32xbf16>
  %q = coda.slice %a {dim = 1 : i64, start = 0 : i64, stop = 16 : i64} : (tensor<?x32xbf16>) -> tensor<?x16xbf16>
  %k = coda.slice %a {dim = 1 : i64, start = 16 : i64, stop = 32 : i64} : (tensor<?x32xbf16>) -> tensor<?x16xbf16>
  %g = coda.mul %q, %k : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %g : tensor<?x16xbf16>
}

// CHECK:      func.func @scaled(
// CHECK-NEXT:   %0 = coda.slice %w {dim = 0 : i64, start = 0 : i64, stop = 16 : i64} : (tensor<32x8xbf16>) -> tensor<16x8xbf16>
// CHECK-NEXT:   %1 = coda.linear %x, %0 : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %2 = coda.slice %s {dim = 0 : i64, start = 0 : i64, stop = 16 : i64} : (tensor<32xbf16>) -> tensor<16xbf16>
// CHECK-NEXT:   %y = coda.mul %1, %2 : (tensor<?x16xbf16>, tensor<16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %3 = coda.slice %w {dim = 0 : i64, start = 16 : i64, stop = 32 : i64} : (tensor<32x8xbf16>) -> tensor<16x8xbf16>
// CHECK-NEXT:   %4 = coda.linear %x, %3 : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %5 = coda.slice %s {dim = 0 : i64, start = 16 : i64, stop = 32 : i64} : (tensor<32xbf16>) -> tensor<16xbf16>
// CHECK-NEXT:   %y_1 = coda.mul %4, %5 : (tensor<?x16xbf16>, tensor<16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %k = coda.add %y_1, %c : (tensor<?x16xbf16>, tensor<?x1xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %q = coda.add %y, %c : (tensor<?x16xbf16>, tensor<?x1xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %g = coda.mul %q, %k : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %g : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// Slices in another order that more than attention reads.

func.func @transposed(%x: tensor<5x2x8xbf16>, %w: tensor<32x8xbf16>) -> tensor<2x5x16xbf16> {
  %z = coda.linear %x, %w : (tensor<5x2x8xbf16>, tensor<32x8xbf16>) -> tensor<5x2x32xbf16>
  %q = coda.slice %z {dim = 2 : i64, start = 0 : i64, stop = 16 : i64} : (tensor<5x2x32xbf16>) -> tensor<5x2x16xbf16>
  %k = coda.slice %z {dim = 2 : i64, start = 16 : i64, stop = 32 : i64} : (tensor<5x2x32xbf16>) -> tensor<5x2x16xbf16>
  %qt = coda.transpose %q {perm = [1 : i64, 0 : i64, 2 : i64]} : (tensor<5x2x16xbf16>) -> tensor<2x5x16xbf16>
  %kt = coda.transpose %k {perm = [1 : i64, 0 : i64, 2 : i64]} : (tensor<5x2x16xbf16>) -> tensor<2x5x16xbf16>
  %o = coda.attention %qt, %kt, %kt {head_dim = 8 : i64, causal = true} : (tensor<2x5x16xbf16>, tensor<2x5x16xbf16>, tensor<2x5x16xbf16>) -> tensor<2x5x16xbf16>
  %s = coda.silu %kt : (tensor<2x5x16xbf16>) -> tensor<2x5x16xbf16>
  %y = coda.add %o, %s : (tensor<2x5x16xbf16>, tensor<2x5x16xbf16>) -> tensor<2x5x16xbf16>
  func.return %y : tensor<2x5x16xbf16>
}

// CHECK:      func.func @transposed(
// CHECK-NEXT:   %0 = coda.slice %w {dim = 0 : i64, start = 0 : i64, stop = 16 : i64} : (tensor<32x8xbf16>) -> tensor<16x8xbf16>
// CHECK-NEXT:   %q = coda.linear %x, %0 : (tensor<5x2x8xbf16>, tensor<16x8xbf16>) -> tensor<5x2x16xbf16>
// CHECK-NEXT:   %1 = coda.slice %w {dim = 0 : i64, start = 16 : i64, stop = 32 : i64} : (tensor<32x8xbf16>) -> tensor<16x8xbf16>
// CHECK-NEXT:   %k = coda.linear %x, %1 : (tensor<5x2x8xbf16>, tensor<16x8xbf16>) -> tensor<5x2x16xbf16>
// CHECK-NEXT:   %qt = coda.transpose %q {perm = [1 : i64, 0 : i64, 2 : i64]} : (tensor<5x2x16xbf16>) -> tensor<2x5x16xbf16>
// CHECK-NEXT:   %kt = coda.transpose %k {perm = [1 : i64, 0 : i64, 2 : i64]} : (tensor<5x2x16xbf16>) -> tensor<2x5x16xbf16>
// CHECK-NEXT:   %o = coda.attention %qt, %kt, %kt {head_dim = 8 : i64, causal = true} : (tensor<2x5x16xbf16>, tensor<2x5x16xbf16>, tensor<2x5x16xbf16>) -> tensor<2x5x16xbf16>
// CHECK-NEXT:   %s = coda.silu %kt : (tensor<2x5x16xbf16>) -> tensor<2x5x16xbf16>
// CHECK-NEXT:   %y = coda.add %o, %s : (tensor<2x5x16xbf16>, tensor<2x5x16xbf16>) -> tensor<2x5x16xbf16>
// CHECK-NEXT:   func.return %y : tensor<2x5x16xbf16>
// CHECK-NEXT: }

// -----

// Even and odd columns, with a bias: the views of the weight have every other row.

func.func @turns(%x: tensor<?x8xbf16>, %w: tensor<32x8xbf16>, %b: tensor<32xbf16>) -> tensor<?x16xbf16> {
  %z = coda.linear %x, %w, %b : (tensor<?x8xbf16>, tensor<32x8xbf16>, tensor<32xbf16>) -> tensor<?x32xbf16>
  %q = torch.call "aten.slice.Tensor"(%z) {arguments = "{0}, 1, 0, 9223372036854775807, 2", view} : (tensor<?x32xbf16>) -> tensor<?x16xbf16>
  %k = torch.call "aten.slice.Tensor"(%z) {arguments = "{0}, 1, 1, 9223372036854775807, 2", view} : (tensor<?x32xbf16>) -> tensor<?x16xbf16>
  %s = coda.silu %q : (tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %y = coda.mul %s, %k : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %y : tensor<?x16xbf16>
}

// CHECK:      func.func @turns(
// CHECK-NEXT:   %w_1 = coda.reshape %w : (tensor<32x8xbf16>) -> tensor<16x2x8xbf16>
// CHECK-NEXT:   %0 = coda.slice %w_1 {dim = 1 : i64, start = 0 : i64, stop = 1 : i64} : (tensor<16x2x8xbf16>) -> tensor<16x1x8xbf16>
// CHECK-NEXT:   %1 = coda.reshape %0 : (tensor<16x1x8xbf16>) -> tensor<16x8xbf16>
// CHECK-NEXT:   %b_1 = coda.reshape %b : (tensor<32xbf16>) -> tensor<16x2xbf16>
// CHECK-NEXT:   %2 = coda.slice %b_1 {dim = 1 : i64, start = 0 : i64, stop = 1 : i64} : (tensor<16x2xbf16>) -> tensor<16x1xbf16>
// CHECK-NEXT:   %3 = coda.reshape %2 : (tensor<16x1xbf16>) -> tensor<16xbf16>
// CHECK-NEXT:   %q = coda.linear %x, %1, %3 : (tensor<?x8xbf16>, tensor<16x8xbf16>, tensor<16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %w_2 = coda.reshape %w : (tensor<32x8xbf16>) -> tensor<16x2x8xbf16>
// CHECK-NEXT:   %4 = coda.slice %w_2 {dim = 1 : i64, start = 1 : i64, stop = 2 : i64} : (tensor<16x2x8xbf16>) -> tensor<16x1x8xbf16>
// CHECK-NEXT:   %5 = coda.reshape %4 : (tensor<16x1x8xbf16>) -> tensor<16x8xbf16>
// CHECK-NEXT:   %b_2 = coda.reshape %b : (tensor<32xbf16>) -> tensor<16x2xbf16>
// CHECK-NEXT:   %6 = coda.slice %b_2 {dim = 1 : i64, start = 1 : i64, stop = 2 : i64} : (tensor<16x2xbf16>) -> tensor<16x1xbf16>
// CHECK-NEXT:   %7 = coda.reshape %6 : (tensor<16x1xbf16>) -> tensor<16xbf16>
// CHECK-NEXT:   %k = coda.linear %x, %5, %7 : (tensor<?x8xbf16>, tensor<16x8xbf16>, tensor<16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %s = coda.silu %q : (tensor<?x16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %y = coda.mul %s, %k : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %y : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// Attention reads no columns that are steps apart: they are computed separately.

func.func @attended_turns(%x: tensor<?x8xbf16>, %w: tensor<24x8xbf16>) -> tensor<?x8xbf16> {
  %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<24x8xbf16>) -> tensor<?x24xbf16>
  %q = torch.call "aten.slice.Tensor"(%z) {arguments = "{0}, 1, 0, 24, 3", view} : (tensor<?x24xbf16>) -> tensor<?x8xbf16>
  %k = torch.call "aten.slice.Tensor"(%z) {arguments = "{0}, 1, 1, 24, 3", view} : (tensor<?x24xbf16>) -> tensor<?x8xbf16>
  %v = torch.call "aten.slice.Tensor"(%z) {arguments = "{0}, 1, 2, 24, 3", view} : (tensor<?x24xbf16>) -> tensor<?x8xbf16>
  %o = coda.attention %q, %k, %v {head_dim = 4 : i64, causal = true} : (tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  func.return %o : tensor<?x8xbf16>
}

// CHECK:      func.func @attended_turns(
// CHECK-NEXT:   %w_1 = coda.reshape %w : (tensor<24x8xbf16>) -> tensor<8x3x8xbf16>
// CHECK-NEXT:   %0 = coda.slice %w_1 {dim = 1 : i64, start = 0 : i64, stop = 1 : i64} : (tensor<8x3x8xbf16>) -> tensor<8x1x8xbf16>
// CHECK-NEXT:   %1 = coda.reshape %0 : (tensor<8x1x8xbf16>) -> tensor<8x8xbf16>
// CHECK-NEXT:   %q = coda.linear %x, %1 : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %w_2 = coda.reshape %w : (tensor<24x8xbf16>) -> tensor<8x3x8xbf16>
// CHECK-NEXT:   %2 = coda.slice %w_2 {dim = 1 : i64, start = 1 : i64, stop = 2 : i64} : (tensor<8x3x8xbf16>) -> tensor<8x1x8xbf16>
// CHECK-NEXT:   %3 = coda.reshape %2 : (tensor<8x1x8xbf16>) -> tensor<8x8xbf16>
// CHECK-NEXT:   %k = coda.linear %x, %3 : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %w_3 = coda.reshape %w : (tensor<24x8xbf16>) -> tensor<8x3x8xbf16>
// CHECK-NEXT:   %4 = coda.slice %w_3 {dim = 1 : i64, start = 2 : i64, stop = 3 : i64} : (tensor<8x3x8xbf16>) -> tensor<8x1x8xbf16>
// CHECK-NEXT:   %5 = coda.reshape %4 : (tensor<8x1x8xbf16>) -> tensor<8x8xbf16>
// CHECK-NEXT:   %v = coda.linear %x, %5 : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %o = coda.attention %q, %k, %v {head_dim = 4 : i64, causal = true} : (tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   func.return %o : tensor<?x8xbf16>
// CHECK-NEXT: }

// -----

// A part that is sliced again is split again.

func.func @nested(%x: tensor<?x8xbf16>, %w: tensor<32x8xbf16>) -> (tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x16xbf16>) {
  %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<32x8xbf16>) -> tensor<?x32xbf16>
  %qk = coda.slice %z {dim = 1 : i64, start = 0 : i64, stop = 16 : i64} : (tensor<?x32xbf16>) -> tensor<?x16xbf16>
  %mlp = coda.slice %z {dim = 1 : i64, start = 16 : i64, stop = 32 : i64} : (tensor<?x32xbf16>) -> tensor<?x16xbf16>
  %q = coda.slice %qk {dim = 1 : i64, start = 0 : i64, stop = 8 : i64} : (tensor<?x16xbf16>) -> tensor<?x8xbf16>
  %k = coda.slice %qk {dim = 1 : i64, start = 8 : i64, stop = 16 : i64} : (tensor<?x16xbf16>) -> tensor<?x8xbf16>
  %a = coda.silu %q : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %b = coda.silu %k : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %c = coda.silu %mlp : (tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %a, %b, %c : tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x16xbf16>
}

// CHECK:      func.func @nested(
// CHECK-NEXT:   %0 = coda.slice %w {dim = 0 : i64, start = 0 : i64, stop = 16 : i64} : (tensor<32x8xbf16>) -> tensor<16x8xbf16>
// CHECK-NEXT:   %1 = coda.slice %w {dim = 0 : i64, start = 16 : i64, stop = 32 : i64} : (tensor<32x8xbf16>) -> tensor<16x8xbf16>
// CHECK-NEXT:   %mlp = coda.linear %x, %1 : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %2 = coda.slice %0 {dim = 0 : i64, start = 0 : i64, stop = 8 : i64} : (tensor<16x8xbf16>) -> tensor<8x8xbf16>
// CHECK-NEXT:   %q = coda.linear %x, %2 : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %3 = coda.slice %0 {dim = 0 : i64, start = 8 : i64, stop = 16 : i64} : (tensor<16x8xbf16>) -> tensor<8x8xbf16>
// CHECK-NEXT:   %k = coda.linear %x, %3 : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %a = coda.silu %q : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %b = coda.silu %k : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %c = coda.silu %mlp : (tensor<?x16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %a, %b, %c : tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x16xbf16>
// CHECK-NEXT: }

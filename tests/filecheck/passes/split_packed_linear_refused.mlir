// RUN: coda-opt %s -p split-packed-linear --split-input-file | filecheck %s

// The product is used as a whole as well.

func.func @whole(%x: tensor<?x8xbf16>, %w: tensor<32x8xbf16>) -> (tensor<?x16xbf16>, tensor<?x32xbf16>) {
  %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<32x8xbf16>) -> tensor<?x32xbf16>
  %q = coda.slice %z {dim = 1 : i64, start = 0 : i64, stop = 16 : i64} : (tensor<?x32xbf16>) -> tensor<?x16xbf16>
  %a = coda.silu %q : (tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %a, %z : tensor<?x16xbf16>, tensor<?x32xbf16>
}

// CHECK:      func.func @whole(
// CHECK-NEXT:   %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<32x8xbf16>) -> tensor<?x32xbf16>
// CHECK-NEXT:   %q = coda.slice %z {dim = 1 : i64, start = 0 : i64, stop = 16 : i64} : (tensor<?x32xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %a = coda.silu %q : (tensor<?x16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %a, %z : tensor<?x16xbf16>, tensor<?x32xbf16>
// CHECK-NEXT: }

// -----

// A slice of the rows.

func.func @rows(%x: tensor<6x8xbf16>, %w: tensor<32x8xbf16>) -> tensor<2x32xbf16> {
  %z = coda.linear %x, %w : (tensor<6x8xbf16>, tensor<32x8xbf16>) -> tensor<6x32xbf16>
  %q = coda.slice %z {dim = 0 : i64, start = 0 : i64, stop = 2 : i64} : (tensor<6x32xbf16>) -> tensor<2x32xbf16>
  %a = coda.silu %q : (tensor<2x32xbf16>) -> tensor<2x32xbf16>
  func.return %a : tensor<2x32xbf16>
}

// CHECK:      func.func @rows(
// CHECK-NEXT:   %z = coda.linear %x, %w : (tensor<6x8xbf16>, tensor<32x8xbf16>) -> tensor<6x32xbf16>
// CHECK-NEXT:   %q = coda.slice %z {dim = 0 : i64, start = 0 : i64, stop = 2 : i64} : (tensor<6x32xbf16>) -> tensor<2x32xbf16>
// CHECK-NEXT:   %a = coda.silu %q : (tensor<2x32xbf16>) -> tensor<2x32xbf16>
// CHECK-NEXT:   func.return %a : tensor<2x32xbf16>
// CHECK-NEXT: }

// -----

// Attention reads slices as they are: nothing is gained.

func.func @attention(%x: tensor<?x8xbf16>, %w: tensor<24x8xbf16>) -> tensor<?x8xbf16> {
  %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<24x8xbf16>) -> tensor<?x24xbf16>
  %q = coda.slice %z {dim = 1 : i64, start = 0 : i64, stop = 8 : i64} : (tensor<?x24xbf16>) -> tensor<?x8xbf16>
  %k = coda.slice %z {dim = 1 : i64, start = 8 : i64, stop = 16 : i64} : (tensor<?x24xbf16>) -> tensor<?x8xbf16>
  %v = coda.slice %z {dim = 1 : i64, start = 16 : i64, stop = 24 : i64} : (tensor<?x24xbf16>) -> tensor<?x8xbf16>
  %o = coda.attention %q, %k, %v {head_dim = 4 : i64, causal = true} : (tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  func.return %o : tensor<?x8xbf16>
}

// CHECK:      func.func @attention(
// CHECK-NEXT:   %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<24x8xbf16>) -> tensor<?x24xbf16>
// CHECK-NEXT:   %q = coda.slice %z {dim = 1 : i64, start = 0 : i64, stop = 8 : i64} : (tensor<?x24xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %k = coda.slice %z {dim = 1 : i64, start = 8 : i64, stop = 16 : i64} : (tensor<?x24xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %v = coda.slice %z {dim = 1 : i64, start = 16 : i64, stop = 24 : i64} : (tensor<?x24xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %o = coda.attention %q, %k, %v {head_dim = 4 : i64, causal = true} : (tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   func.return %o : tensor<?x8xbf16>
// CHECK-NEXT: }

// -----

// A K x N weight: its columns are not contiguous.

func.func @matmul(%x: tensor<?x8xbf16>, %w: tensor<8x32xbf16>) -> tensor<?x16xbf16> {
  %z = coda.matmul %x, %w : (tensor<?x8xbf16>, tensor<8x32xbf16>) -> tensor<?x32xbf16>
  %q = coda.slice %z {dim = 1 : i64, start = 0 : i64, stop = 16 : i64} : (tensor<?x32xbf16>) -> tensor<?x16xbf16>
  %a = coda.silu %q : (tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %a : tensor<?x16xbf16>
}

// CHECK:      func.func @matmul(
// CHECK-NEXT:   %z = coda.matmul %x, %w : (tensor<?x8xbf16>, tensor<8x32xbf16>) -> tensor<?x32xbf16>
// CHECK-NEXT:   %q = coda.slice %z {dim = 1 : i64, start = 0 : i64, stop = 16 : i64} : (tensor<?x32xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %a = coda.silu %q : (tensor<?x16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %a : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// The scaled product is used as a whole as well.

func.func @whole_scaled(%x: tensor<?x8xbf16>, %w: tensor<32x8xbf16>, %s: tensor<32xbf16>) -> (tensor<?x16xbf16>, tensor<?x32xbf16>) {
  %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<32x8xbf16>) -> tensor<?x32xbf16>
  %y = coda.mul %z, %s : (tensor<?x32xbf16>, tensor<32xbf16>) -> tensor<?x32xbf16>
  %q = coda.slice %y {dim = 1 : i64, start = 0 : i64, stop = 16 : i64} : (tensor<?x32xbf16>) -> tensor<?x16xbf16>
  %a = coda.silu %q : (tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %a, %y : tensor<?x16xbf16>, tensor<?x32xbf16>
}

// CHECK:      func.func @whole_scaled(
// CHECK-NEXT:   %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<32x8xbf16>) -> tensor<?x32xbf16>
// CHECK-NEXT:   %y = coda.mul %z, %s : (tensor<?x32xbf16>, tensor<32xbf16>) -> tensor<?x32xbf16>
// CHECK-NEXT:   %q = coda.slice %y {dim = 1 : i64, start = 0 : i64, stop = 16 : i64} : (tensor<?x32xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %a = coda.silu %q : (tensor<?x16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %a, %y : tensor<?x16xbf16>, tensor<?x32xbf16>
// CHECK-NEXT: }

// -----

// Nor where it reads their rows in another order.

func.func @transposed(%x: tensor<5x2x8xbf16>, %w: tensor<32x8xbf16>) -> tensor<2x5x16xbf16> {
  %z = coda.linear %x, %w : (tensor<5x2x8xbf16>, tensor<32x8xbf16>) -> tensor<5x2x32xbf16>
  %q = coda.slice %z {dim = 2 : i64, start = 0 : i64, stop = 16 : i64} : (tensor<5x2x32xbf16>) -> tensor<5x2x16xbf16>
  %k = coda.slice %z {dim = 2 : i64, start = 16 : i64, stop = 32 : i64} : (tensor<5x2x32xbf16>) -> tensor<5x2x16xbf16>
  %qt = coda.transpose %q {perm = [1 : i64, 0 : i64, 2 : i64]} : (tensor<5x2x16xbf16>) -> tensor<2x5x16xbf16>
  %kt = coda.transpose %k {perm = [1 : i64, 0 : i64, 2 : i64]} : (tensor<5x2x16xbf16>) -> tensor<2x5x16xbf16>
  %o = coda.attention %qt, %kt, %kt {head_dim = 8 : i64, causal = true} : (tensor<2x5x16xbf16>, tensor<2x5x16xbf16>, tensor<2x5x16xbf16>) -> tensor<2x5x16xbf16>
  func.return %o : tensor<2x5x16xbf16>
}

// CHECK:      func.func @transposed(
// CHECK-NEXT:   %z = coda.linear %x, %w : (tensor<5x2x8xbf16>, tensor<32x8xbf16>) -> tensor<5x2x32xbf16>
// CHECK-NEXT:   %q = coda.slice %z {dim = 2 : i64, start = 0 : i64, stop = 16 : i64} : (tensor<5x2x32xbf16>) -> tensor<5x2x16xbf16>
// CHECK-NEXT:   %k = coda.slice %z {dim = 2 : i64, start = 16 : i64, stop = 32 : i64} : (tensor<5x2x32xbf16>) -> tensor<5x2x16xbf16>
// CHECK-NEXT:   %qt = coda.transpose %q {perm = [1 : i64, 0 : i64, 2 : i64]} : (tensor<5x2x16xbf16>) -> tensor<2x5x16xbf16>
// CHECK-NEXT:   %kt = coda.transpose %k {perm = [1 : i64, 0 : i64, 2 : i64]} : (tensor<5x2x16xbf16>) -> tensor<2x5x16xbf16>
// CHECK-NEXT:   %o = coda.attention %qt, %kt, %kt {head_dim = 8 : i64, causal = true} : (tensor<2x5x16xbf16>, tensor<2x5x16xbf16>, tensor<2x5x16xbf16>) -> tensor<2x5x16xbf16>
// CHECK-NEXT:   func.return %o : tensor<2x5x16xbf16>
// CHECK-NEXT: }

// -----

// Steps that leave the last columns out.

func.func @rest(%x: tensor<?x8xbf16>, %w: tensor<32x8xbf16>) -> tensor<?x10xbf16> {
  %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<32x8xbf16>) -> tensor<?x32xbf16>
  %q = torch.call "aten.slice.Tensor"(%z) {arguments = "{0}, 1, 0, 30, 3", view} : (tensor<?x32xbf16>) -> tensor<?x10xbf16>
  %a = coda.silu %q : (tensor<?x10xbf16>) -> tensor<?x10xbf16>
  func.return %a : tensor<?x10xbf16>
}

// CHECK:      func.func @rest(
// CHECK-NEXT:   %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<32x8xbf16>) -> tensor<?x32xbf16>
// CHECK-NEXT:   %q = torch.call "aten.slice.Tensor"(%z) {arguments = "{0}, 1, 0, 30, 3", view} : (tensor<?x32xbf16>) -> tensor<?x10xbf16>
// CHECK-NEXT:   %a = coda.silu %q : (tensor<?x10xbf16>) -> tensor<?x10xbf16>
// CHECK-NEXT:   func.return %a : tensor<?x10xbf16>
// CHECK-NEXT: }

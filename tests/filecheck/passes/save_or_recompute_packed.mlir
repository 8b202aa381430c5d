// RUN: coda-opt %s -p differentiate --split-input-file | filecheck %s

// A packed projection whose slices attention reads in another order is saved once, in place of the
// slices, and not computed again.

func.func @packed(%z: tensor<5x2x8xbf16> {coda.name = "z", coda.dims = [5, 2, 8]}, %w: tensor<48x8xbf16> {coda.name = "w", coda.dims = [48, 8]}) -> (tensor<2x5x16xbf16> {coda.name = "y", coda.dims = [2, 5, 16]}) {
  %p = coda.linear %z, %w : (tensor<5x2x8xbf16>, tensor<48x8xbf16>) -> tensor<5x2x48xbf16>
  %qs = coda.slice %p {dim = 2 : i64, start = 0 : i64, stop = 16 : i64} : (tensor<5x2x48xbf16>) -> tensor<5x2x16xbf16>
  %ks = coda.slice %p {dim = 2 : i64, start = 16 : i64, stop = 32 : i64} : (tensor<5x2x48xbf16>) -> tensor<5x2x16xbf16>
  %vs = coda.slice %p {dim = 2 : i64, start = 32 : i64, stop = 48 : i64} : (tensor<5x2x48xbf16>) -> tensor<5x2x16xbf16>
  %q = coda.transpose %qs {perm = [1 : i64, 0 : i64, 2 : i64]} : (tensor<5x2x16xbf16>) -> tensor<2x5x16xbf16>
  %k = coda.transpose %ks {perm = [1 : i64, 0 : i64, 2 : i64]} : (tensor<5x2x16xbf16>) -> tensor<2x5x16xbf16>
  %v = coda.transpose %vs {perm = [1 : i64, 0 : i64, 2 : i64]} : (tensor<5x2x16xbf16>) -> tensor<2x5x16xbf16>
  %y = coda.attention %q, %k, %v {head_dim = 8 : i64, causal = true} : (tensor<2x5x16xbf16>, tensor<2x5x16xbf16>, tensor<2x5x16xbf16>) -> tensor<2x5x16xbf16>
  func.return %y : tensor<2x5x16xbf16>
}

// CHECK:      func.func @packed_forward(
// CHECK:        func.return %y, %p, %y_lse : tensor<2x5x16xbf16>, tensor<5x2x48xbf16>, tensor<2x2x5xf32>
// CHECK:      func.func @packed_backward(
// CHECK-NEXT:   %qs = coda.slice %p {dim = 2 : i64, start = 0 : i64, stop = 16 : i64} : (tensor<5x2x48xbf16>) -> tensor<5x2x16xbf16>
// CHECK-NEXT:   %ks = coda.slice %p {dim = 2 : i64, start = 16 : i64, stop = 32 : i64} : (tensor<5x2x48xbf16>) -> tensor<5x2x16xbf16>
// CHECK-NEXT:   %vs = coda.slice %p {dim = 2 : i64, start = 32 : i64, stop = 48 : i64} : (tensor<5x2x48xbf16>) -> tensor<5x2x16xbf16>
// CHECK-NOT:    coda.linear
// CHECK:        func.return %d_z, %d_w

// -----

// Attention that the forward reads with transposed rows is saved in that order.

func.func @transposed(%x: tensor<5x2x16xbf16> {coda.name = "x", coda.dims = [5, 2, 16]}, %w: tensor<8x16xbf16> {coda.name = "w", coda.dims = [8, 16]}) -> (tensor<5x2x8xbf16> {coda.name = "y", coda.dims = [5, 2, 8]}) {
  %q = coda.transpose %x {perm = [1 : i64, 0 : i64, 2 : i64]} : (tensor<5x2x16xbf16>) -> tensor<2x5x16xbf16>
  %a = coda.attention %q, %q, %q {head_dim = 8 : i64, causal = true} : (tensor<2x5x16xbf16>, tensor<2x5x16xbf16>, tensor<2x5x16xbf16>) -> tensor<2x5x16xbf16>
  %t = coda.transpose %a {perm = [1 : i64, 0 : i64, 2 : i64]} : (tensor<2x5x16xbf16>) -> tensor<5x2x16xbf16>
  %y = coda.linear %t, %w : (tensor<5x2x16xbf16>, tensor<8x16xbf16>) -> tensor<5x2x8xbf16>
  func.return %y : tensor<5x2x8xbf16>
}

// CHECK:      func.func @transposed_forward(
// CHECK:        func.return %y, %a_lse, %t : tensor<5x2x8xbf16>, tensor<2x2x5xf32>, tensor<5x2x16xbf16>
// CHECK:      func.func @transposed_backward(
// CHECK:        coda.weight_gradient %d_y, %t
// CHECK:        %a = coda.transpose %t {perm = [1 : i64, 0 : i64, 2 : i64]} : (tensor<5x2x16xbf16>) -> tensor<2x5x16xbf16>

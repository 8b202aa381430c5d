// RUN: coda-opt %s -p raise-linear,compose-views,dce --split-input-file | filecheck %s

// A linear layer as PyTorch calls it: flattened rows, a transposed weight, a bias.

func.func @linear(%x: tensor<?x?x8xf32> {coda.dims = ["B", "T", 8 : i64]}, %w: tensor<16x8xf32>, %b: tensor<16xf32>) -> tensor<?x?x16xf32> {
  %f = coda.reshape %x : (tensor<?x?x8xf32>) -> tensor<?x8xf32>
  %t = coda.transpose %w {perm = [1, 0]} : (tensor<16x8xf32>) -> tensor<8x16xf32>
  %p = coda.matmul %f, %t : (tensor<?x8xf32>, tensor<8x16xf32>) -> tensor<?x16xf32>
  %s = coda.add %p, %b : (tensor<?x16xf32>, tensor<16xf32>) -> tensor<?x16xf32>
  %y = coda.reshape %s {coda.dims = ["B", "T", 16 : i64]} : (tensor<?x16xf32>) -> tensor<?x?x16xf32>
  func.return %y : tensor<?x?x16xf32>
}

// CHECK-LABEL: func.func @linear(
// CHECK-NEXT:   %y = coda.linear %x, %w, %b : (tensor<?x?x8xf32>, tensor<16x8xf32>, tensor<16xf32>) -> tensor<?x?x16xf32>
// CHECK-NEXT:   func.return %y : tensor<?x?x16xf32>

// -----

// GPT-2: the weight is not transposed, pointwise code in between.

func.func @conv1d(%x: tensor<2x?x8xf32> {coda.dims = [2, "T", 8 : i64]}, %w: tensor<8x16xf32>, %b: tensor<16xf32>) -> tensor<2x?x16xf32> {
  %f = coda.reshape %x : (tensor<2x?x8xf32>) -> tensor<?x8xf32>
  %p = coda.matmul %f, %w : (tensor<?x8xf32>, tensor<8x16xf32>) -> tensor<?x16xf32>
  %s = coda.add %b, %p : (tensor<16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
  %r = coda.relu %s : (tensor<?x16xf32>) -> tensor<?x16xf32>
  %y = coda.reshape %r : (tensor<?x16xf32>) -> tensor<2x?x16xf32>
  func.return %y : tensor<2x?x16xf32>
}

// CHECK-LABEL: func.func @conv1d(
// CHECK-NEXT:   %p = coda.matmul %x, %w : (tensor<2x?x8xf32>, tensor<8x16xf32>) -> tensor<2x?x16xf32>
// CHECK-NEXT:   %s = coda.add %b, %p : (tensor<16xf32>, tensor<2x?x16xf32>) -> tensor<2x?x16xf32>
// CHECK-NEXT:   %y = coda.relu %s : (tensor<2x?x16xf32>) -> tensor<2x?x16xf32>
// CHECK-NEXT:   func.return %y : tensor<2x?x16xf32>

// -----

// A norm of flattened rows normalizes the same rows as they are.

func.func @norm(%x: tensor<?x?x8xf32> {coda.dims = ["B", "T", 8 : i64]}, %g: tensor<8xf32>, %b: tensor<8xf32>, %w: tensor<16x8xf32>) -> tensor<?x?x16xf32> {
  %f = coda.reshape %x : (tensor<?x?x8xf32>) -> tensor<?x8xf32>
  %n = coda.layer_norm %f, %g, %b {eps = 1.0e-5 : f64} : (tensor<?x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  %p = coda.linear %n, %w : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
  %y = coda.reshape %p {coda.dims = ["B", "T", 16 : i64]} : (tensor<?x16xf32>) -> tensor<?x?x16xf32>
  func.return %y : tensor<?x?x16xf32>
}

// CHECK-LABEL: func.func @norm(
// CHECK-NEXT:   %n = coda.layer_norm %x, %g, %b {eps = 1.000000e-05 : f64} : (tensor<?x?x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %y = coda.linear %n, %w : (tensor<?x?x8xf32>, tensor<16x8xf32>) -> tensor<?x?x16xf32>
// CHECK-NEXT:   func.return %y : tensor<?x?x16xf32>

// -----

// Products of rows in groups, whose matrices PyTorch has transposed, or not.

func.func @groups(%x: tensor<?x8xbf16>, %w: tensor<4x16x8xbf16>, %v: tensor<4x16x8xbf16>, %e: tensor<4xi32>) -> tensor<?x8xbf16> {
  %t = coda.transpose %w {perm = [0, 2, 1]} : (tensor<4x16x8xbf16>) -> tensor<4x8x16xbf16>
  %y = torch.call "aten._grouped_mm.default"(%x, %t, %e) {arguments = "{0}, {1}, {2}"} : (tensor<?x8xbf16>, tensor<4x8x16xbf16>, tensor<4xi32>) -> tensor<?x16xbf16>
  %z = torch.call "aten._grouped_mm.default"(%y, %v, %e) {arguments = "{0}, {1}, {2}"} : (tensor<?x16xbf16>, tensor<4x16x8xbf16>, tensor<4xi32>) -> tensor<?x8xbf16>
  func.return %z : tensor<?x8xbf16>
}

// CHECK:      func.func @groups(%x: tensor<?x8xbf16>, %w: tensor<4x16x8xbf16>, %v: tensor<4x16x8xbf16>, %e: tensor<4xi32>) -> tensor<?x8xbf16> {
// CHECK-NEXT:   %y = coda.grouped_linear %x, %w, %e : (tensor<?x8xbf16>, tensor<4x16x8xbf16>, tensor<4xi32>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %z = coda.grouped_matmul %y, %v, %e : (tensor<?x16xbf16>, tensor<4x16x8xbf16>, tensor<4xi32>) -> tensor<?x8xbf16>
// CHECK-NEXT:   func.return %z : tensor<?x8xbf16>
// CHECK-NEXT: }

// -----

// A weight in front of channels that come before positions.

func.func @channels_first(%x: tensor<?x?x8xf32> {coda.dims = ["B", "T", 8 : i64]}, %w: tensor<16x8xf32>) -> tensor<?x16x?xf32> {
  %t = coda.transpose %x {perm = [0, 2, 1]} : (tensor<?x?x8xf32>) -> tensor<?x8x?xf32>
  %y = torch.call "aten.matmul.default"(%w, %t) {arguments = "{0}, {1}", coda.dims = ["B", 16 : i64, "T"]} : (tensor<16x8xf32>, tensor<?x8x?xf32>) -> tensor<?x16x?xf32>
  func.return %y : tensor<?x16x?xf32>
}

// CHECK:      func.func @channels_first(%x: tensor<?x?x8xf32> {coda.dims = ["B", "T", 8 : i64]}, %w: tensor<16x8xf32>) -> tensor<?x16x?xf32> {
// CHECK-NEXT:   %y = coda.linear %x, %w : (tensor<?x?x8xf32>, tensor<16x8xf32>) -> tensor<?x?x16xf32>
// CHECK-NEXT:   %y_1 = coda.transpose %y {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<?x?x16xf32>) -> tensor<?x16x?xf32>
// CHECK-NEXT:   func.return %y_1 : tensor<?x16x?xf32>
// CHECK-NEXT: }

// -----

// A weight in front of one column for each sample.

func.func @one_column(%x: tensor<?x8x1xf32> {coda.dims = ["B", 8 : i64, 1 : i64]}, %w: tensor<16x8xf32>) -> tensor<?x16x1xf32> {
  %y = torch.call "aten.matmul.default"(%w, %x) {arguments = "{0}, {1}", coda.dims = ["B", 16 : i64, 1 : i64]} : (tensor<16x8xf32>, tensor<?x8x1xf32>) -> tensor<?x16x1xf32>
  func.return %y : tensor<?x16x1xf32>
}

// CHECK-LABEL: func.func @one_column(
// CHECK-NEXT:   %x_1 = coda.reshape %x {coda.dims = ["B", 1 : i64, 8 : i64]} : (tensor<?x8x1xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %y = coda.linear %x_1, %w : (tensor<?x1x8xf32>, tensor<16x8xf32>) -> tensor<?x1x16xf32>
// CHECK-NEXT:   %y_1 = coda.reshape %y {coda.dims = ["B", 16 : i64, 1 : i64]} : (tensor<?x1x16xf32>) -> tensor<?x16x1xf32>
// CHECK-NEXT:   func.return %y_1 : tensor<?x16x1xf32>

// -----

// einsum("btd,df->btf", x, w), einsum("btf,df->btd", y, v): batches of 1, with extents of 1 that are moved.

func.func @einsum(%x: tensor<?x?x8xf32> {coda.dims = ["B", "T", 8 : i64]}, %w: tensor<8x4x4xf32>, %v: tensor<8x16xf32>) -> tensor<?x?x8xf32> {
  %x1 = coda.reshape %x {coda.dims = ["B", "T", 8 : i64, 1 : i64]} : (tensor<?x?x8xf32>) -> tensor<?x?x8x1xf32>
  %x2 = coda.transpose %x1 {perm = [0, 1, 3, 2]} : (tensor<?x?x8x1xf32>) -> tensor<?x?x1x8xf32>
  %x3 = coda.reshape %x2 : (tensor<?x?x1x8xf32>) -> tensor<1x?x8xf32>
  %w1 = coda.reshape %w : (tensor<8x4x4xf32>) -> tensor<1x8x16xf32>
  %p = torch.call "aten.bmm.default"(%x3, %w1) {arguments = "{0}, {1}"} : (tensor<1x?x8xf32>, tensor<1x8x16xf32>) -> tensor<1x?x16xf32>
  %p1 = coda.reshape %p {coda.dims = ["B", "T", 1 : i64, 16 : i64]} : (tensor<1x?x16xf32>) -> tensor<?x?x1x16xf32>
  %p2 = coda.transpose %p1 {perm = [0, 1, 3, 2]} : (tensor<?x?x1x16xf32>) -> tensor<?x?x16x1xf32>
  %y = coda.reshape %p2 {coda.dims = ["B", "T", 16 : i64]} : (tensor<?x?x16x1xf32>) -> tensor<?x?x16xf32>
  %y1 = coda.reshape %y : (tensor<?x?x16xf32>) -> tensor<1x?x16xf32>
  %v1 = coda.reshape %v : (tensor<8x16xf32>) -> tensor<8x16x1xf32>
  %v2 = coda.transpose %v1 {perm = [2, 1, 0]} : (tensor<8x16x1xf32>) -> tensor<1x16x8xf32>
  %q = torch.call "aten.bmm.default"(%y1, %v2) {arguments = "{0}, {1}"} : (tensor<1x?x16xf32>, tensor<1x16x8xf32>) -> tensor<1x?x8xf32>
  %z = coda.reshape %q {coda.dims = ["B", "T", 8 : i64]} : (tensor<1x?x8xf32>) -> tensor<?x?x8xf32>
  func.return %z : tensor<?x?x8xf32>
}

// CHECK-LABEL: func.func @einsum(
// CHECK-NEXT:   %w_1 = coda.reshape %w : (tensor<8x4x4xf32>) -> tensor<8x16xf32>
// CHECK-NEXT:   %y = coda.matmul %x, %w_1 : (tensor<?x?x8xf32>, tensor<8x16xf32>) -> tensor<?x?x16xf32>
// CHECK-NEXT:   %z = coda.linear %y, %v : (tensor<?x?x16xf32>, tensor<8x16xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   func.return %z : tensor<?x?x8xf32>

// -----

// The weight's elements come in another order: it is copied.

func.func @reordered(%x: tensor<1x?x8xf32>, %w: tensor<2x4x16xf32>) -> tensor<1x?x16xf32> {
  %t = coda.transpose %w {perm = [1, 0, 2]} : (tensor<2x4x16xf32>) -> tensor<4x2x16xf32>
  %r = coda.reshape %t : (tensor<4x2x16xf32>) -> tensor<1x8x16xf32>
  %p = torch.call "aten.bmm.default"(%x, %r) {arguments = "{0}, {1}"} : (tensor<1x?x8xf32>, tensor<1x8x16xf32>) -> tensor<1x?x16xf32>
  func.return %p : tensor<1x?x16xf32>
}

// CHECK-LABEL: func.func @reordered(
// CHECK-NEXT:   %w_1 = coda.transpose %w {perm = [1 : i64, 0 : i64, 2 : i64]} : (tensor<2x4x16xf32>) -> tensor<4x2x16xf32>
// CHECK-NEXT:   %w_2 = coda.reshape %w_1 : (tensor<4x2x16xf32>) -> tensor<8x16xf32>
// CHECK-NEXT:   %p = coda.matmul %x, %w_2 : (tensor<1x?x8xf32>, tensor<8x16xf32>) -> tensor<1x?x16xf32>
// CHECK-NEXT:   func.return %p : tensor<1x?x16xf32>

// -----

// A dimension of one row for all heads, which the product does not need.

func.func @one_row(%x: tensor<?x?x8xf32> {coda.dims = ["B", "T", 8 : i64]}, %w: tensor<16x8xf32>) -> tensor<?x1x?x16xf32> {
  %v = coda.reshape %x {coda.dims = ["B", 1 : i64, "T", 8 : i64]} : (tensor<?x?x8xf32>) -> tensor<?x1x?x8xf32>
  %y = coda.linear %v, %w : (tensor<?x1x?x8xf32>, tensor<16x8xf32>) -> tensor<?x1x?x16xf32>
  func.return %y : tensor<?x1x?x16xf32>
}

// CHECK:      func.func @one_row(
// CHECK:        %y = coda.linear %x, %w : (tensor<?x?x8xf32>, tensor<16x8xf32>) -> tensor<?x?x16xf32>
// CHECK-NEXT:   %y_1 = coda.reshape %y {coda.dims = ["B", 1 : i64, "T", 16 : i64]} : (tensor<?x?x16xf32>) -> tensor<?x1x?x16xf32>
// CHECK-NEXT:   func.return %y_1 : tensor<?x1x?x16xf32>
// CHECK-NEXT: }

// -----

// A transposed weight in front of a column is the matrix of the rows.

func.func @column(%x: tensor<?x8x1xf32> {coda.dims = ["B", 8 : i64, 1 : i64]}, %w: tensor<8x16xf32>) -> tensor<?x16x1xf32> {
  %t = coda.transpose %w {perm = [1, 0]} : (tensor<8x16xf32>) -> tensor<16x8xf32>
  %y = torch.call "aten.matmul.default"(%t, %x) {arguments = "{0}, {1}"} : (tensor<16x8xf32>, tensor<?x8x1xf32>) -> tensor<?x16x1xf32>
  func.return %y : tensor<?x16x1xf32>
}

// CHECK:      func.func @column(
// CHECK-NEXT:   %x_1 = coda.reshape %x {coda.dims = ["B", 1 : i64, 8 : i64]} : (tensor<?x8x1xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %y = coda.matmul %x_1, %w : (tensor<?x1x8xf32>, tensor<8x16xf32>) -> tensor<?x1x16xf32>
// CHECK-NEXT:   %y_1 = coda.reshape %y {coda.dims = ["B", 16 : i64, 1 : i64]} : (tensor<?x1x16xf32>) -> tensor<?x16x1xf32>
// CHECK-NEXT:   func.return %y_1 : tensor<?x16x1xf32>
// CHECK-NEXT: }

// -----

// A product of two stacked columns and as many numbers.

func.func @stack(%a: tensor<?x8x1xbf16> {coda.dims = ["B", 8 : i64, 1 : i64]}, %b: tensor<?x8x1xbf16> {coda.dims = ["B", 8 : i64, 1 : i64]}, %g: tensor<?x2x1xbf16> {coda.dims = ["B", 2 : i64, 1 : i64]}) -> tensor<?x8x1xbf16> {
  %s = coda.concat %a, %b {dim = 2 : i64} : (tensor<?x8x1xbf16>, tensor<?x8x1xbf16>) -> tensor<?x8x2xbf16>
  %y = torch.call "aten.matmul.default"(%s, %g) {arguments = "{0}, {1}"} : (tensor<?x8x2xbf16>, tensor<?x2x1xbf16>) -> tensor<?x8x1xbf16>
  func.return %y : tensor<?x8x1xbf16>
}

// CHECK:      func.func @stack(
// CHECK-NEXT:   %0 = coda.slice %g {dim = 1 : i64, start = 0 : i64, stop = 1 : i64} : (tensor<?x2x1xbf16>) -> tensor<?x1x1xbf16>
// CHECK-NEXT:   %a_1 = coda.cast %a : (tensor<?x8x1xbf16>) -> tensor<?x8x1xf32>
// CHECK-NEXT:   %1 = coda.cast %0 : (tensor<?x1x1xbf16>) -> tensor<?x1x1xf32>
// CHECK-NEXT:   %2 = coda.mul %a_1, %1 : (tensor<?x8x1xf32>, tensor<?x1x1xf32>) -> tensor<?x8x1xf32>
// CHECK-NEXT:   %3 = coda.slice %g {dim = 1 : i64, start = 1 : i64, stop = 2 : i64} : (tensor<?x2x1xbf16>) -> tensor<?x1x1xbf16>
// CHECK-NEXT:   %b_1 = coda.cast %b : (tensor<?x8x1xbf16>) -> tensor<?x8x1xf32>
// CHECK-NEXT:   %4 = coda.cast %3 : (tensor<?x1x1xbf16>) -> tensor<?x1x1xf32>
// CHECK-NEXT:   %5 = coda.mul %b_1, %4 : (tensor<?x8x1xf32>, tensor<?x1x1xf32>) -> tensor<?x8x1xf32>
// CHECK-NEXT:   %6 = coda.add %2, %5 : (tensor<?x8x1xf32>, tensor<?x8x1xf32>) -> tensor<?x8x1xf32>
// CHECK-NEXT:   %y = coda.cast %6 : (tensor<?x8x1xf32>) -> tensor<?x8x1xbf16>
// CHECK-NEXT:   func.return %y : tensor<?x8x1xbf16>
// CHECK-NEXT: }

// -----

// Flattened rows times themselves: as a weight, they stay flat.

func.func @own_rows(%x: tensor<2x3x8xf32>) -> tensor<6x6xf32> {
  %f = coda.reshape %x : (tensor<2x3x8xf32>) -> tensor<6x8xf32>
  %t = coda.transpose %f {perm = [1 : i64, 0 : i64]} : (tensor<6x8xf32>) -> tensor<8x6xf32>
  %y = coda.matmul %f, %t : (tensor<6x8xf32>, tensor<8x6xf32>) -> tensor<6x6xf32>
  func.return %y : tensor<6x6xf32>
}

// CHECK:      func.func @own_rows(
// CHECK-NEXT:   %f = coda.reshape %x : (tensor<2x3x8xf32>) -> tensor<6x8xf32>
// CHECK-NEXT:   %y = coda.linear %x, %f : (tensor<2x3x8xf32>, tensor<6x8xf32>) -> tensor<2x3x6xf32>
// CHECK-NEXT:   %y_1 = coda.reshape %y : (tensor<2x3x6xf32>) -> tensor<6x6xf32>
// CHECK-NEXT:   func.return %y_1 : tensor<6x6xf32>
// CHECK-NEXT: }

// -----

// A row of each sample for each of several matrices, such as members of an ensemble.

func.func @members(%x: tensor<?x3x8xbf16> {coda.dims = ["B", 3 : i64, 8 : i64]}, %w: tensor<3x8x16xbf16>) -> tensor<?x3x16xbf16> {
  %r = coda.reshape %x {coda.dims = ["B", 3 : i64, 1 : i64, 8 : i64]} : (tensor<?x3x8xbf16>) -> tensor<?x3x1x8xbf16>
  %p = torch.call "aten.matmul.default"(%r, %w) {arguments = "{0}, {1}", coda.dims = ["B", 3 : i64, 1 : i64, 16 : i64]} : (tensor<?x3x1x8xbf16>, tensor<3x8x16xbf16>) -> tensor<?x3x1x16xbf16>
  %y = coda.reshape %p {coda.dims = ["B", 3 : i64, 16 : i64]} : (tensor<?x3x1x16xbf16>) -> tensor<?x3x16xbf16>
  func.return %y : tensor<?x3x16xbf16>
}

// CHECK-LABEL: func.func @members(
// CHECK-NEXT:   %0 = coda.transpose %r {perm = [1 : i64, 0 : i64, 2 : i64]} : (tensor<?x3x8xbf16>) -> tensor<3x?x8xbf16>
// CHECK-NEXT:   %p = torch.call "aten.matmul.default"(%0, %w) {coda.dims = [3 : i64, "B", 16 : i64], arguments = "{0}, {1}"} : (tensor<3x?x8xbf16>, tensor<3x8x16xbf16>) -> tensor<3x?x16xbf16>
// CHECK-NEXT:   %y = coda.transpose %p {perm = [1 : i64, 0 : i64, 2 : i64]} : (tensor<3x?x16xbf16>) -> tensor<?x3x16xbf16>
// CHECK-NEXT:   func.return %y : tensor<?x3x16xbf16>
// CHECK-NEXT: }

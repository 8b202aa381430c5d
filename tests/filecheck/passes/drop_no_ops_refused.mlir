// RUN: coda-opt %s -p drop-no-ops,dce --split-input-file | filecheck %s

// A conversion to a narrower type and back rounds.

func.func @rounds(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %narrow = coda.cast %x : (tensor<?x8xf32>) -> tensor<?x8xbf16>
  %y = coda.cast %narrow : (tensor<?x8xbf16>) -> tensor<?x8xf32>
  func.return %y : tensor<?x8xf32>
}

// CHECK-LABEL: func.func @rounds(
// CHECK-NEXT:    %narrow = coda.cast
// CHECK-NEXT:    %y = coda.cast %narrow

// -----

// bf16 has a greater range than f16, f16 more digits.

func.func @crossed(%x: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
  %other = coda.cast %x : (tensor<?x8xbf16>) -> tensor<?x8xf16>
  %y = coda.cast %other : (tensor<?x8xf16>) -> tensor<?x8xbf16>
  func.return %y : tensor<?x8xbf16>
}

// CHECK-LABEL: func.func @crossed(
// CHECK-NEXT:    %other = coda.cast
// CHECK-NEXT:    %y = coda.cast %other

// -----

// Rows and columns change places, though the type is the same.

func.func @reordered(%x: tensor<?x?x8xf32> {coda.dims = ["B", "T", 8 : i64]}) -> tensor<?x?x8xf32> {
  %y = coda.reshape %x {coda.dims = ["T", "B", 8 : i64]} : (tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
  func.return %y : tensor<?x?x8xf32>
}

// CHECK-LABEL: func.func @reordered(
// CHECK-NEXT:    %y = coda.reshape

// -----

// A row for every batch.

func.func @expanded(%x: tensor<1x8xf32>, %z: tensor<?x8xf32> {coda.dims = ["B", 8 : i64]}) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  %y = torch.call "aten.expand.default"(%x) {arguments = "{0}, [B, -1]", view, coda.dims = ["B", 8 : i64]} : (tensor<1x8xf32>) -> tensor<?x8xf32>
  func.return %y, %z : tensor<?x8xf32>, tensor<?x8xf32>
}

// CHECK-LABEL: func.func @expanded(
// CHECK-NEXT:    %y = torch.call "aten.expand.default"

// -----

// A concat that another operator reads, and one along another dimension.

func.func @chain(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>, %z: tensor<8x4xf32>) -> (tensor<4x8xf32>, tensor<4x12xf32>, tensor<8x8xf32>) {
  %a = coda.concat %x, %y {dim = 1 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x8xf32>
  %b = coda.concat %a, %x {dim = 1 : i64} : (tensor<4x8xf32>, tensor<4x4xf32>) -> tensor<4x12xf32>
  %rows = coda.concat %y, %x {dim = 0 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %c = coda.concat %rows, %z {dim = 1 : i64} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x8xf32>
  func.return %a, %b, %c : tensor<4x8xf32>, tensor<4x12xf32>, tensor<8x8xf32>
}

// CHECK-LABEL: func.func @chain(
// CHECK:         %b = coda.concat %a, %x {dim = 1 : i64}
// CHECK:         %c = coda.concat %rows, %z {dim = 1 : i64}

// -----

// A slice across two parts, slices of different dimensions, and parts in another order.

func.func @slices(%x: tensor<?x16xf32>, %z: tensor<?x8xf32>, %s: tensor<4x4xf32>) -> (tensor<?x4xf32>, tensor<2x2xf32>, tensor<?x8xf32>, tensor<?x7xf32>) {
  %c = coda.concat %x, %z {dim = 1 : i64} : (tensor<?x16xf32>, tensor<?x8xf32>) -> tensor<?x24xf32>
  %across = coda.slice %c {dim = 1 : i64, start = 14 : i64, stop = 18 : i64} : (tensor<?x24xf32>) -> tensor<?x4xf32>
  %rows = coda.slice %s {dim = 0 : i64, start = 0 : i64, stop = 2 : i64} : (tensor<4x4xf32>) -> tensor<2x4xf32>
  %corner = coda.slice %rows {dim = 1 : i64, start = 0 : i64, stop = 2 : i64} : (tensor<2x4xf32>) -> tensor<2x2xf32>
  %low = coda.slice %z {dim = 1 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<?x8xf32>) -> tensor<?x4xf32>
  %high = coda.slice %z {dim = 1 : i64, start = 4 : i64, stop = 8 : i64} : (tensor<?x8xf32>) -> tensor<?x4xf32>
  %swapped = coda.concat %high, %low {dim = 1 : i64} : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x8xf32>
  %short = coda.slice %z {dim = 1 : i64, start = 4 : i64, stop = 7 : i64} : (tensor<?x8xf32>) -> tensor<?x3xf32>
  %cut = coda.concat %low, %short {dim = 1 : i64} : (tensor<?x4xf32>, tensor<?x3xf32>) -> tensor<?x7xf32>
  func.return %across, %corner, %swapped, %cut : tensor<?x4xf32>, tensor<2x2xf32>, tensor<?x8xf32>, tensor<?x7xf32>
}

// CHECK-LABEL: func.func @slices(
// CHECK:         %across = coda.slice %c
// CHECK:         %corner = coda.slice %rows
// CHECK:         %swapped = coda.concat
// CHECK:         %cut = coda.concat

// -----

// Targets of other rows, which only have the same number.

func.func @other_rows(%z: tensor<2x3x40xf32>, %t: tensor<3x2xi64>) -> tensor<f32> {
  %flat = coda.reshape %z : (tensor<2x3x40xf32>) -> tensor<6x40xf32>
  %targets = coda.reshape %t : (tensor<3x2xi64>) -> tensor<6xi64>
  %loss = coda.cross_entropy %flat, %targets {ignore_index = -100 : i64, reduction = "sum"} : (tensor<6x40xf32>, tensor<6xi64>) -> tensor<f32>
  func.return %loss : tensor<f32>
}

// CHECK-LABEL: func.func @other_rows(
// CHECK:         coda.cross_entropy %flat, %targets

// -----

// Columns that are split into rows.

func.func @split_columns(%z: tensor<3x80xf32>, %t: tensor<3x2xi64>) -> tensor<f32> {
  %flat = coda.reshape %z : (tensor<3x80xf32>) -> tensor<6x40xf32>
  %targets = coda.reshape %t : (tensor<3x2xi64>) -> tensor<6xi64>
  %loss = coda.cross_entropy %flat, %targets {ignore_index = -100 : i64, reduction = "sum"} : (tensor<6x40xf32>, tensor<6xi64>) -> tensor<f32>
  func.return %loss : tensor<f32>
}

// CHECK-LABEL: func.func @split_columns(
// CHECK:         coda.cross_entropy %flat, %targets

// -----

// Rows of other columns than those that are reduced.

func.func @other_columns(%z: tensor<3x80xf32>) -> tensor<6x1xf32> {
  %flat = coda.reshape %z : (tensor<3x80xf32>) -> tensor<6x40xf32>
  %sum = coda.reduce %flat {kind = "sum"} : (tensor<6x40xf32>) -> tensor<6x1xf32>
  func.return %sum : tensor<6x1xf32>
}

// CHECK-LABEL: func.func @other_columns(
// CHECK:         coda.reduce %flat

// -----

// A matrix would move, and something else reads the product.

func.func @outer(%m: tensor<8x4xf32>, %c: tensor<4xf32>, %f: tensor<8x1xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8x4xf32>) {
  %x = coda.mul %m, %c : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
  %a = coda.transpose %x {perm = [1 : i64, 0 : i64]} : (tensor<8x4xf32>) -> tensor<4x8xf32>
  %y = coda.mul %f, %c : (tensor<8x1xf32>, tensor<4xf32>) -> tensor<8x4xf32>
  %b = coda.transpose %y {perm = [1 : i64, 0 : i64]} : (tensor<8x4xf32>) -> tensor<4x8xf32>
  func.return %a, %b, %y : tensor<4x8xf32>, tensor<4x8xf32>, tensor<8x4xf32>
}

// CHECK-LABEL: func.func @outer(%m: tensor<8x4xf32>, %c: tensor<4xf32>, %f: tensor<8x1xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8x4xf32>) {
// CHECK-NEXT:   %x = coda.mul %m, %c : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
// CHECK-NEXT:   %a = coda.transpose %x {perm = [1 : i64, 0 : i64]} : (tensor<8x4xf32>) -> tensor<4x8xf32>
// CHECK-NEXT:   %y = coda.mul %f, %c : (tensor<8x1xf32>, tensor<4xf32>) -> tensor<8x4xf32>
// CHECK-NEXT:   %b = coda.transpose %y {perm = [1 : i64, 0 : i64]} : (tensor<8x4xf32>) -> tensor<4x8xf32>
// CHECK-NEXT:   func.return %a, %b, %y : tensor<4x8xf32>, tensor<4x8xf32>, tensor<8x4xf32>
// CHECK-NEXT: }

// -----

// A mask of numbers that reach the limit, and of those of the caller.

func.func @masks(%s: tensor<?x4xf32>, %ids: tensor<?x2xi64>, %x: tensor<?x2xf32>, %y: tensor<?x2xf32>) -> (tensor<?x2xf32>, tensor<?x2xf32>) {
  %values, %top = coda.topk %s {k = 2 : i64, dim = 1 : i64} : (tensor<?x4xf32>) -> (tensor<?x2xf32>, tensor<?x2xi64>)
  %three = coda.constant {value = 3 : i64} : tensor<i64>
  %is_last = coda.compare %top, %three {relation = "ge"} : (tensor<?x2xi64>, tensor<i64>) -> tensor<?x2xi1>
  %a = coda.where %is_last, %values, %x : (tensor<?x2xi1>, tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x2xf32>
  %unknown = coda.compare %ids, %three {relation = "ge"} : (tensor<?x2xi64>, tensor<i64>) -> tensor<?x2xi1>
  %b = coda.where %unknown, %x, %y : (tensor<?x2xi1>, tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x2xf32>
  func.return %a, %b : tensor<?x2xf32>, tensor<?x2xf32>
}

// CHECK:      func.func @masks(%s: tensor<?x4xf32>, %ids: tensor<?x2xi64>, %x: tensor<?x2xf32>, %y: tensor<?x2xf32>) -> (tensor<?x2xf32>, tensor<?x2xf32>) {
// CHECK-NEXT:   %values, %top = coda.topk %s {k = 2 : i64, dim = 1 : i64} : (tensor<?x4xf32>) -> (tensor<?x2xf32>, tensor<?x2xi64>)
// CHECK-NEXT:   %three = coda.constant {value = 3 : i64} : tensor<i64>
// CHECK-NEXT:   %is_last = coda.compare %top, %three {relation = "ge"} : (tensor<?x2xi64>, tensor<i64>) -> tensor<?x2xi1>
// CHECK-NEXT:   %a = coda.where %is_last, %values, %x : (tensor<?x2xi1>, tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x2xf32>
// CHECK-NEXT:   %unknown = coda.compare %ids, %three {relation = "ge"} : (tensor<?x2xi64>, tensor<i64>) -> tensor<?x2xi1>
// CHECK-NEXT:   %b = coda.where %unknown, %x, %y : (tensor<?x2xi1>, tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x2xf32>
// CHECK-NEXT:   func.return %a, %b : tensor<?x2xf32>, tensor<?x2xf32>
// CHECK-NEXT: }

// -----

// Columns that keep what was there, and columns that are stored twice.

func.func @assigned(%x: tensor<4x48xf32>, %a: tensor<4x32xf32>, %b: tensor<4x8xf32>, %c: tensor<4x24xf32>) -> (tensor<4x48xf32>, tensor<4x48xf32>) {
  %some = torch.call "aten.slice_scatter.default"(%x, %a) {arguments = "{0}, {1}, 1, 0, 32"} : (tensor<4x48xf32>, tensor<4x32xf32>) -> tensor<4x48xf32>
  %more = torch.call "aten.slice_scatter.default"(%some, %b) {arguments = "{0}, {1}, 1, 40"} : (tensor<4x48xf32>, tensor<4x8xf32>) -> tensor<4x48xf32>
  %twice = torch.call "aten.slice_scatter.default"(%some, %c) {arguments = "{0}, {1}, 1, 24, 48"} : (tensor<4x48xf32>, tensor<4x24xf32>) -> tensor<4x48xf32>
  func.return %more, %twice : tensor<4x48xf32>, tensor<4x48xf32>
}

// CHECK-LABEL: func.func @assigned(
// CHECK-NOT:     coda.concat
// CHECK:         func.return %more, %twice

// -----

// Every third column is stored twice; even columns and a run of them are no parts of one dimension.

func.func @each_nth(%x: tensor<4x6xf32>, %a: tensor<4x2xf32>, %b: tensor<4x3xf32>) -> (tensor<4x6xf32>, tensor<4x6xf32>) {
  %first = torch.call "aten.slice_scatter.default"(%x, %a) {arguments = "{0}, {1}, 1, 0, 6, 3"} : (tensor<4x6xf32>, tensor<4x2xf32>) -> tensor<4x6xf32>
  %second = torch.call "aten.slice_scatter.default"(%first, %a) {arguments = "{0}, {1}, 1, 1, 6, 3"} : (tensor<4x6xf32>, tensor<4x2xf32>) -> tensor<4x6xf32>
  %twice = torch.call "aten.slice_scatter.default"(%second, %a) {arguments = "{0}, {1}, 1, 1, 6, 3"} : (tensor<4x6xf32>, tensor<4x2xf32>) -> tensor<4x6xf32>
  %even = torch.call "aten.slice_scatter.default"(%x, %b) {arguments = "{0}, {1}, 1, 0, 6, 2"} : (tensor<4x6xf32>, tensor<4x3xf32>) -> tensor<4x6xf32>
  %mixed = torch.call "aten.slice_scatter.default"(%even, %b) {arguments = "{0}, {1}, 1, 3, 6"} : (tensor<4x6xf32>, tensor<4x3xf32>) -> tensor<4x6xf32>
  func.return %twice, %mixed : tensor<4x6xf32>, tensor<4x6xf32>
}

// CHECK-LABEL: func.func @each_nth(
// CHECK-NOT:     coda.concat
// CHECK:         func.return %twice, %mixed

// -----

// Even and odd columns of the first half, and then those of the second one.

func.func @halves(%x: tensor<3x8xf32>, %a: tensor<3x2xf32>, %b: tensor<3x2xf32>, %c: tensor<3x2xf32>, %d: tensor<3x2xf32>) -> tensor<3x8xf32> {
  %first = torch.call "aten.slice_scatter.default"(%x, %a) {arguments = "{0}, {1}, 1, 0, 4, 2"} : (tensor<3x8xf32>, tensor<3x2xf32>) -> tensor<3x8xf32>
  %second = torch.call "aten.slice_scatter.default"(%first, %b) {arguments = "{0}, {1}, 1, 1, 4, 2"} : (tensor<3x8xf32>, tensor<3x2xf32>) -> tensor<3x8xf32>
  %third = torch.call "aten.slice_scatter.default"(%second, %c) {arguments = "{0}, {1}, 1, 4, 8, 2"} : (tensor<3x8xf32>, tensor<3x2xf32>) -> tensor<3x8xf32>
  %y = torch.call "aten.slice_scatter.default"(%third, %d) {arguments = "{0}, {1}, 1, 5, 8, 2"} : (tensor<3x8xf32>, tensor<3x2xf32>) -> tensor<3x8xf32>
  func.return %y : tensor<3x8xf32>
}

// CHECK-LABEL: func.func @halves(
// CHECK-NOT:     coda.concat
// CHECK:         func.return %y

// -----

// Other rows than zeros move in, fewer rows are taken, and columns are no rows.

func.func @moved(%x: tensor<5x8xf32>) -> (tensor<5x8xf32>, tensor<4x8xf32>, tensor<5x8xf32>) {
  %p = coda.pad %x {dim = 0 : i64, start = 1 : i64, value = 1.0 : f64} : (tensor<5x8xf32>) -> tensor<6x8xf32>
  %a = coda.slice %p {dim = 0 : i64, start = 0 : i64, stop = 5 : i64} : (tensor<6x8xf32>) -> tensor<5x8xf32>
  %q = coda.pad %x {dim = 0 : i64, start = 1 : i64} : (tensor<5x8xf32>) -> tensor<6x8xf32>
  %b = coda.slice %q {dim = 0 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<6x8xf32>) -> tensor<4x8xf32>
  %r = coda.pad %x {dim = 1 : i64, start = 1 : i64} : (tensor<5x8xf32>) -> tensor<5x9xf32>
  %c = coda.slice %r {dim = 1 : i64, start = 0 : i64, stop = 8 : i64} : (tensor<5x9xf32>) -> tensor<5x8xf32>
  func.return %a, %b, %c : tensor<5x8xf32>, tensor<4x8xf32>, tensor<5x8xf32>
}

// CHECK:      func.func @moved(%x: tensor<5x8xf32>) -> (tensor<5x8xf32>, tensor<4x8xf32>, tensor<5x8xf32>) {
// CHECK-NEXT:   %p = coda.pad %x {dim = 0 : i64, start = 1 : i64, value = 1.000000e+00 : f64} : (tensor<5x8xf32>) -> tensor<6x8xf32>
// CHECK-NEXT:   %a = coda.slice %p {dim = 0 : i64, start = 0 : i64, stop = 5 : i64} : (tensor<6x8xf32>) -> tensor<5x8xf32>
// CHECK-NEXT:   %q = coda.pad %x {dim = 0 : i64, start = 1 : i64} : (tensor<5x8xf32>) -> tensor<6x8xf32>
// CHECK-NEXT:   %b = coda.slice %q {dim = 0 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<6x8xf32>) -> tensor<4x8xf32>
// CHECK-NEXT:   %r = coda.pad %x {dim = 1 : i64, start = 1 : i64} : (tensor<5x8xf32>) -> tensor<5x9xf32>
// CHECK-NEXT:   %c = coda.slice %r {dim = 1 : i64, start = 0 : i64, stop = 8 : i64} : (tensor<5x9xf32>) -> tensor<5x8xf32>
// CHECK-NEXT:   func.return %a, %b, %c : tensor<5x8xf32>, tensor<4x8xf32>, tensor<5x8xf32>
// CHECK-NEXT: }

// -----

// A fourth column has zeros of the padding.

func.func @relative(%x: tensor<2x3x5xf32>) -> tensor<2x3x4xf32> {
  %pad = coda.pad %x {dim = 2 : i64, start = 1 : i64} : (tensor<2x3x5xf32>) -> tensor<2x3x6xf32>
  %view = coda.reshape %pad : (tensor<2x3x6xf32>) -> tensor<2x6x3xf32>
  %part = coda.slice %view {dim = 1 : i64, start = 1 : i64, stop = 6 : i64} : (tensor<2x6x3xf32>) -> tensor<2x5x3xf32>
  %rows = coda.reshape %part : (tensor<2x5x3xf32>) -> tensor<2x3x5xf32>
  %y = coda.slice %rows {dim = 2 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<2x3x5xf32>) -> tensor<2x3x4xf32>
  func.return %y : tensor<2x3x4xf32>
}

// CHECK-LABEL: func.func @relative(
// CHECK:         coda.pad %x

// -----

// As many rows as zeros pad, from a row on that only a call knows.

func.func @from_a_symbol(%x: tensor<?x8xf32> {coda.dims = ["T", 8 : i64]}, %n: tensor<?xf32> {coda.dims = ["N"]}) -> tensor<?x8xf32> {
  %p = coda.pad %x {dim = 0 : i64, start = 64 : i64, after = 64 : i64, coda.dims = ["T + 128", 8 : i64]} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %y = torch.call "aten.slice.Tensor"(%p) {arguments = "{0}, 0, N, (N + T)", view, coda.dims = ["T", 8 : i64]} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  func.return %y : tensor<?x8xf32>
}

// CHECK-LABEL: func.func @from_a_symbol(
// CHECK-NEXT:    %p = coda.pad
// CHECK-NEXT:    %y = torch.call "aten.slice.Tensor"(%p)

// -----

// A statistic of each row, which no row of elements was.

func.func @statistic(%x: tensor<?x4x1xf32> {coda.dims = ["B", 4 : i64, 1 : i64]}, %r: tensor<?x4xf32> {coda.dims = ["B", 4 : i64]}) -> tensor<?x4x1xf32> {
  %c = coda.reshape %r {coda.dims = ["B", 4 : i64, 1 : i64]} : (tensor<?x4xf32>) -> tensor<?x4x1xf32>
  %y = coda.add %x, %c : (tensor<?x4x1xf32>, tensor<?x4x1xf32>) -> tensor<?x4x1xf32>
  func.return %y : tensor<?x4x1xf32>
}

// CHECK-LABEL: func.func @statistic(
// CHECK-NEXT:    %c = coda.reshape
// CHECK-NEXT:    %y = coda.add %x, %c

// -----

// Slices in another order, or of two tensors, and code that has another reader.

func.func @heads(%x: tensor<2x3x8xf32>, %z: tensor<2x3x8xf32>) -> (tensor<4x3x4xf32>, tensor<4x3x4xf32>, tensor<2x3x8xf32>, tensor<6x8xf32>) {
  %a = coda.slice %x {dim = 2 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<2x3x8xf32>) -> tensor<2x3x4xf32>
  %b = coda.slice %x {dim = 2 : i64, start = 4 : i64, stop = 8 : i64} : (tensor<2x3x8xf32>) -> tensor<2x3x4xf32>
  %c = coda.slice %z {dim = 2 : i64, start = 4 : i64, stop = 8 : i64} : (tensor<2x3x8xf32>) -> tensor<2x3x4xf32>
  %p = coda.concat %b, %a {dim = 0 : i64} : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<4x3x4xf32>
  %q = coda.concat %a, %c {dim = 0 : i64} : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<4x3x4xf32>
  %f = coda.reshape %x : (tensor<2x3x8xf32>) -> tensor<6x8xf32>
  %s = coda.neg %f : (tensor<6x8xf32>) -> tensor<6x8xf32>
  %r = coda.reshape %s : (tensor<6x8xf32>) -> tensor<2x3x8xf32>
  func.return %p, %q, %r, %s : tensor<4x3x4xf32>, tensor<4x3x4xf32>, tensor<2x3x8xf32>, tensor<6x8xf32>
}

// CHECK:      func.func @heads(
// CHECK-NEXT:   %a = coda.slice %x {dim = 2 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<2x3x8xf32>) -> tensor<2x3x4xf32>
// CHECK-NEXT:   %b = coda.slice %x {dim = 2 : i64, start = 4 : i64, stop = 8 : i64} : (tensor<2x3x8xf32>) -> tensor<2x3x4xf32>
// CHECK-NEXT:   %c = coda.slice %z {dim = 2 : i64, start = 4 : i64, stop = 8 : i64} : (tensor<2x3x8xf32>) -> tensor<2x3x4xf32>
// CHECK-NEXT:   %p = coda.concat %b, %a {dim = 0 : i64} : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<4x3x4xf32>
// CHECK-NEXT:   %q = coda.concat %a, %c {dim = 0 : i64} : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<4x3x4xf32>
// CHECK-NEXT:   %f = coda.reshape %x : (tensor<2x3x8xf32>) -> tensor<6x8xf32>
// CHECK-NEXT:   %s = coda.neg %f : (tensor<6x8xf32>) -> tensor<6x8xf32>
// CHECK-NEXT:   %r = coda.reshape %s : (tensor<6x8xf32>) -> tensor<2x3x8xf32>
// CHECK-NEXT:   func.return %p, %q, %r, %s : tensor<4x3x4xf32>, tensor<4x3x4xf32>, tensor<2x3x8xf32>, tensor<6x8xf32>
// CHECK-NEXT: }

// RUN: coda-opt %s -p drop-no-ops,dce --split-input-file | filecheck %s

// A conversion to a wider type and back.

func.func @cast(%x: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
  %wide = coda.cast %x : (tensor<?x8xbf16>) -> tensor<?x8xf32>
  %y = coda.cast %wide : (tensor<?x8xf32>) -> tensor<?x8xbf16>
  func.return %y : tensor<?x8xbf16>
}

// CHECK-LABEL: func.func @cast(
// CHECK-NEXT:    func.return %x

// -----

// An expansion and a reshape to the dimensions that are there.

func.func @same(%x: tensor<?x?x8xf32> {coda.dims = ["B", "T", 8 : i64]}) -> tensor<?x?x8xf32> {
  %e = torch.call "aten.expand.default"(%x) {arguments = "{0}, [B, -1, 8]", view, coda.dims = ["B", "T", 8 : i64]} : (tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
  %y = coda.reshape %e {coda.dims = ["B", "T", 8 : i64]} : (tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
  func.return %y : tensor<?x?x8xf32>
}

// CHECK-LABEL: func.func @same(
// CHECK-NEXT:    func.return %x

// -----

// A slice of a slice, a slice of what was concatenated, and a part without elements.

func.func @slices(%x: tensor<?x16xf32>, %z: tensor<?x8xf32>) -> (tensor<?x2xf32>, tensor<?x4xf32>, tensor<?x24xf32>) {
  %outer = coda.slice %x {dim = 1 : i64, start = 8 : i64, stop = 16 : i64} : (tensor<?x16xf32>) -> tensor<?x8xf32>
  %a = coda.slice %outer {dim = 1 : i64, start = 2 : i64, stop = 4 : i64} : (tensor<?x8xf32>) -> tensor<?x2xf32>
  %none = coda.slice %z {dim = 1 : i64, start = 8 : i64, stop = 8 : i64} : (tensor<?x8xf32>) -> tensor<?x0xf32>
  %c = coda.concat %x, %none, %z {dim = 1 : i64} : (tensor<?x16xf32>, tensor<?x0xf32>, tensor<?x8xf32>) -> tensor<?x24xf32>
  %b = coda.slice %c {dim = 1 : i64, start = 17 : i64, stop = 21 : i64} : (tensor<?x24xf32>) -> tensor<?x4xf32>
  func.return %a, %b, %c : tensor<?x2xf32>, tensor<?x4xf32>, tensor<?x24xf32>
}

// CHECK-LABEL: func.func @slices(
// CHECK-NEXT:    %a = coda.slice %x {dim = 1 : i64, start = 10 : i64, stop = 12 : i64}
// CHECK-NEXT:    %c = coda.concat %x, %z {dim = 1 : i64}
// CHECK-NEXT:    %b = coda.slice %z {dim = 1 : i64, start = 1 : i64, stop = 5 : i64}
// CHECK-NEXT:    func.return %a, %b, %c

// -----

// Parts that are concatenated one after the other.

func.func @chain(%x: tensor<?x16xf32>, %y: tensor<?x8xf32>, %z: tensor<?x8xf32>) -> tensor<?x40xf32> {
  %a = coda.concat %x, %y {dim = 1 : i64} : (tensor<?x16xf32>, tensor<?x8xf32>) -> tensor<?x24xf32>
  %b = coda.concat %a, %z {dim = 1 : i64} : (tensor<?x24xf32>, tensor<?x8xf32>) -> tensor<?x32xf32>
  %c = coda.concat %y, %b {dim = 1 : i64} : (tensor<?x8xf32>, tensor<?x32xf32>) -> tensor<?x40xf32>
  func.return %c : tensor<?x40xf32>
}

// CHECK-LABEL: func.func @chain(
// CHECK-NEXT:    %c = coda.concat %y, %x, %y, %z {dim = 1 : i64} : (tensor<?x8xf32>, tensor<?x16xf32>, tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x40xf32>
// CHECK-NEXT:    func.return %c

// -----

// All of a tensor, taken apart and put together.

func.func @rejoined(%x: tensor<?x16xf32>) -> tensor<?x16xf32> {
  %a = coda.slice %x {dim = 1 : i64, start = 0 : i64, stop = 6 : i64} : (tensor<?x16xf32>) -> tensor<?x6xf32>
  %b = coda.slice %x {dim = 1 : i64, start = 6 : i64, stop = 16 : i64} : (tensor<?x16xf32>) -> tensor<?x10xf32>
  %y = coda.concat %a, %b {dim = 1 : i64} : (tensor<?x6xf32>, tensor<?x10xf32>) -> tensor<?x16xf32>
  func.return %y : tensor<?x16xf32>
}

// CHECK-LABEL: func.func @rejoined(
// CHECK-NEXT:    func.return %x

// -----

// An extent of 1 has moved.

func.func @unit(%x: tensor<?x4x1x8xf32> {coda.dims = ["B", 4 : i64, 1 : i64, 8 : i64]}) -> (tensor<?x4x8x1xf32>, tensor<?x8x4x1xf32>) {
  %a = coda.transpose %x {perm = [0 : i64, 1 : i64, 3 : i64, 2 : i64]} : (tensor<?x4x1x8xf32>) -> tensor<?x4x8x1xf32>
  %b = coda.transpose %x {perm = [0 : i64, 3 : i64, 1 : i64, 2 : i64]} : (tensor<?x4x1x8xf32>) -> tensor<?x8x4x1xf32>
  func.return %a, %b : tensor<?x4x8x1xf32>, tensor<?x8x4x1xf32>
}

// CHECK-LABEL: func.func @unit(
// CHECK-NEXT:    %a = coda.reshape %x {coda.dims = ["B", 4 : i64, 8 : i64, 1 : i64]}
// CHECK-NEXT:    %b = coda.transpose %x
// CHECK-NEXT:    func.return %a, %b

// -----

// So has one beside extents without names.

func.func @unnamed(%x: tensor<?x1xf32> {coda.dims = ["T", 1 : i64]}) -> tensor<?x1x?xf32> {
  %y = torch.call "aten.reshape.default"(%x) {arguments = "{0}, [T // 1, 1, 1]"} : (tensor<?x1xf32>) -> tensor<?x?x1xf32>
  %a = coda.transpose %y {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<?x?x1xf32>) -> tensor<?x1x?xf32>
  func.return %a : tensor<?x1x?xf32>
}

// CHECK-LABEL: func.func @unnamed(
// CHECK:         %a = coda.reshape %y {coda.dims = ["?", 1 : i64, "?"]}
// CHECK-NEXT:    func.return %a

// -----

// Logits and targets are flattened for the loss, which is a result per row in the second function.

func.func @loss(%z: tensor<?x?x40xf32> {coda.dims = ["B", "T", 40 : i64]}, %t: tensor<?x?xi64> {coda.dims = ["B", "T"]}) -> tensor<f32> {
  %flat = coda.reshape %z : (tensor<?x?x40xf32>) -> tensor<?x40xf32>
  %targets = coda.reshape %t : (tensor<?x?xi64>) -> tensor<?xi64>
  %loss = coda.cross_entropy %flat, %targets {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x40xf32>, tensor<?xi64>) -> tensor<f32>
  func.return %loss : tensor<f32>
}

// CHECK-LABEL: func.func @loss(
// CHECK-NEXT:    %loss = coda.cross_entropy %z, %t {ignore_index = -100 : i64, reduction = "mean"}
// CHECK-NEXT:    func.return %loss

// -----

func.func @losses(%z: tensor<2x3x40xf32>, %t: tensor<2x3xi64>) -> tensor<6xf32> {
  %flat = coda.reshape %z : (tensor<2x3x40xf32>) -> tensor<6x40xf32>
  %targets = coda.reshape %t : (tensor<2x3xi64>) -> tensor<6xi64>
  %loss = coda.cross_entropy %flat, %targets {ignore_index = 0 : i64, reduction = "none"} : (tensor<6x40xf32>, tensor<6xi64>) -> tensor<6xf32>
  func.return %loss : tensor<6xf32>
}

// CHECK-LABEL: func.func @losses(
// CHECK-NEXT:    %loss = coda.cross_entropy %z, %t {ignore_index = 0 : i64, reduction = "none"}
// CHECK-NEXT:    %loss_1 = coda.reshape %loss
// CHECK-NEXT:    func.return %loss_1 : tensor<6xf32>

// -----

// The loss of logits in 16 bits computes in float32.

func.func @wide_loss(%z: tensor<?x?x40xbf16> {coda.dims = ["B", "T", 40 : i64]}, %t: tensor<?x?xi64> {coda.dims = ["B", "T"]}) -> tensor<f32> {
  %wide = coda.cast %z : (tensor<?x?x40xbf16>) -> tensor<?x?x40xf32>
  %flat = coda.reshape %wide : (tensor<?x?x40xf32>) -> tensor<?x40xf32>
  %targets = coda.reshape %t : (tensor<?x?xi64>) -> tensor<?xi64>
  %loss = coda.cross_entropy %flat, %targets {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x40xf32>, tensor<?xi64>) -> tensor<f32>
  func.return %loss : tensor<f32>
}

// CHECK-LABEL: func.func @wide_loss(
// CHECK-NEXT:    %loss = coda.cross_entropy %z, %t
// CHECK-NEXT:    func.return %loss

// -----

// Rows that are flattened, and of which a logsumexp is taken.

func.func @reduced_rows(%z: tensor<?x?x40xf32> {coda.dims = ["B", "T", 40 : i64]}) -> tensor<?x1xf32> {
  %flat = coda.reshape %z : (tensor<?x?x40xf32>) -> tensor<?x40xf32>
  %lse = coda.reduce %flat {kind = "lse"} : (tensor<?x40xf32>) -> tensor<?x1xf32>
  func.return %lse : tensor<?x1xf32>
}

// CHECK-LABEL: func.func @reduced_rows(
// CHECK-NEXT:    %lse = coda.reduce %z
// CHECK-NEXT:    %lse_1 = coda.reshape %lse
// CHECK-NEXT:    func.return %lse_1

// -----

// A transpose of an outer product is an outer product, of what is reshaped and converted after that.

func.func @outer(%f: tensor<8xbf16>, %p: tensor<?xi64> {coda.dims = ["T"]}) -> tensor<1x?x8xf32> {
  %column = coda.reshape %f : (tensor<8xbf16>) -> tensor<1x8x1xbf16>
  %wide = coda.cast %column : (tensor<1x8x1xbf16>) -> tensor<1x8x1xf32>
  %row = coda.reshape %p {coda.dims = [1 : i64, 1 : i64, "T"]} : (tensor<?xi64>) -> tensor<1x1x?xi64>
  %numbers = coda.cast %row : (tensor<1x1x?xi64>) -> tensor<1x1x?xf32>
  %angles = coda.mul %wide, %numbers : (tensor<1x8x1xf32>, tensor<1x1x?xf32>) -> tensor<1x8x?xf32>
  %a = coda.transpose %angles {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<1x8x?xf32>) -> tensor<1x?x8xf32>
  func.return %a : tensor<1x?x8xf32>
}

// CHECK-LABEL: func.func @outer(%f: tensor<8xbf16>, %p: tensor<?xi64> {coda.dims = ["T"]}) -> tensor<1x?x8xf32> {
// CHECK-NEXT:   %column = coda.reshape %f : (tensor<8xbf16>) -> tensor<1x8x1xbf16>
// CHECK-NEXT:   %row = coda.reshape %p {coda.dims = [1 : i64, 1 : i64, "T"]} : (tensor<?xi64>) -> tensor<1x1x?xi64>
// CHECK-NEXT:   %column_1 = coda.reshape %column : (tensor<1x8x1xbf16>) -> tensor<1x1x8xbf16>
// CHECK-NEXT:   %column_2 = coda.cast %column_1 : (tensor<1x1x8xbf16>) -> tensor<1x1x8xf32>
// CHECK-NEXT:   %row_1 = coda.reshape %row {coda.dims = [1 : i64, "T", 1 : i64]} : (tensor<1x1x?xi64>) -> tensor<1x?x1xi64>
// CHECK-NEXT:   %row_2 = coda.cast %row_1 : (tensor<1x?x1xi64>) -> tensor<1x?x1xf32>
// CHECK-NEXT:   %a = coda.mul %column_2, %row_2 : (tensor<1x1x8xf32>, tensor<1x?x1xf32>) -> tensor<1x?x8xf32>
// CHECK-NEXT:   func.return %a : tensor<1x?x8xf32>
// CHECK-NEXT: }

// -----

// Numbers that topk gives are below the number of columns, also in another order: masks that ask for it.

func.func @masks(%s: tensor<?x4xf32> {coda.dims = ["M", 4 : i64]}, %x: tensor<?x8xbf16> {coda.dims = ["2*M", 8 : i64]}, %y: tensor<?x8xbf16> {coda.dims = ["2*M", 8 : i64]}) -> (tensor<?x8xbf16>, tensor<?x8xbf16>) {
  %values, %ids = coda.topk %s {k = 2 : i64, dim = 1 : i64} : (tensor<?x4xf32>) -> (tensor<?x2xf32>, tensor<?x2xi64>)
  %flat = coda.reshape %ids : (tensor<?x2xi64>) -> tensor<?xi64>
  %sorted, %order = coda.sort %flat {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
  %four = coda.constant {value = 4 : i64} : tensor<i64>
  %is_none = coda.compare %sorted, %four {relation = "ge"} : (tensor<?xi64>, tensor<i64>) -> tensor<?xi1>
  %column = coda.reshape %is_none : (tensor<?xi1>) -> tensor<?x1xi1>
  %a = coda.where %column, %x, %y : (tensor<?x1xi1>, tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %is_one = coda.compare %sorted, %four {relation = "lt"} : (tensor<?xi64>, tensor<i64>) -> tensor<?xi1>
  %other = coda.reshape %is_one : (tensor<?xi1>) -> tensor<?x1xi1>
  %b = coda.where %other, %x, %y : (tensor<?x1xi1>, tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  func.return %a, %b : tensor<?x8xbf16>, tensor<?x8xbf16>
}

// CHECK:      func.func @masks(%s: tensor<?x4xf32> {coda.dims = ["M", 4 : i64]}, %x: tensor<?x8xbf16> {coda.dims = ["2*M", 8 : i64]}, %y: tensor<?x8xbf16> {coda.dims = ["2*M", 8 : i64]}) -> (tensor<?x8xbf16>, tensor<?x8xbf16>) {
// CHECK-NEXT:   func.return %y, %x : tensor<?x8xbf16>, tensor<?x8xbf16>
// CHECK-NEXT: }

// -----

// Keys of multi-head latent attention: an empty tensor, to whose columns both parts are assigned.

func.func @assigned(%a: tensor<2x4x?x32xbf16> {coda.dims = [2 : i64, 4 : i64, "T", 32 : i64]}, %b: tensor<2x4x?x16xbf16> {coda.dims = [2 : i64, 4 : i64, "T", 16 : i64]}) -> tensor<2x4x?x48xbf16> {
  %empty = torch.call "aten.empty.memory_format"() {arguments = "[2, 4, T, 48], dtype=torch.bfloat16", coda.dims = [2 : i64, 4 : i64, "T", 48 : i64]} : () -> tensor<2x4x?x48xbf16>
  %first = torch.call "aten.slice_scatter.default"(%empty, %b) {arguments = "{0}, {1}, -1, 32, 9223372036854775807"} : (tensor<2x4x?x48xbf16>, tensor<2x4x?x16xbf16>) -> tensor<2x4x?x48xbf16>
  %k = torch.call "aten.slice_scatter.default"(%first, %a) {arguments = "{0}, {1}, 3, None, 32"} : (tensor<2x4x?x48xbf16>, tensor<2x4x?x32xbf16>) -> tensor<2x4x?x48xbf16>
  func.return %k : tensor<2x4x?x48xbf16>
}

// CHECK:      func.func @assigned(%a: tensor<2x4x?x32xbf16> {coda.dims = [2 : i64, 4 : i64, "T", 32 : i64]}, %b: tensor<2x4x?x16xbf16> {coda.dims = [2 : i64, 4 : i64, "T", 16 : i64]}) -> tensor<2x4x?x48xbf16> {
// CHECK-NEXT:   %k = coda.concat %a, %b {dim = 3 : i64} : (tensor<2x4x?x32xbf16>, tensor<2x4x?x16xbf16>) -> tensor<2x4x?x48xbf16>
// CHECK-NEXT:   func.return %k : tensor<2x4x?x48xbf16>
// CHECK-NEXT: }

// -----

// Even and odd columns, stored in an empty tensor one after the other.

func.func @interleaved(%a: tensor<?x4xbf16> {coda.dims = ["T", 4 : i64]}, %b: tensor<?x4xbf16> {coda.dims = ["T", 4 : i64]}) -> tensor<?x8xbf16> {
  %empty = torch.call "aten.empty.memory_format"() {arguments = "[T, 8], dtype=torch.bfloat16", coda.dims = ["T", 8 : i64]} : () -> tensor<?x8xbf16>
  %odd = torch.call "aten.slice_scatter.default"(%empty, %b) {arguments = "{0}, {1}, -1, 1, 9223372036854775807, 2"} : (tensor<?x8xbf16>, tensor<?x4xbf16>) -> tensor<?x8xbf16>
  %y = torch.call "aten.slice_scatter.default"(%odd, %a) {arguments = "{0}, {1}, 1, 0, 8, 2"} : (tensor<?x8xbf16>, tensor<?x4xbf16>) -> tensor<?x8xbf16>
  func.return %y : tensor<?x8xbf16>
}

// CHECK:      func.func @interleaved(%a: tensor<?x4xbf16> {coda.dims = ["T", 4 : i64]}, %b: tensor<?x4xbf16> {coda.dims = ["T", 4 : i64]}) -> tensor<?x8xbf16> {
// CHECK-NEXT:   %a_1 = coda.reshape %a {coda.dims = ["T", 4 : i64, 1 : i64]} : (tensor<?x4xbf16>) -> tensor<?x4x1xbf16>
// CHECK-NEXT:   %b_1 = coda.reshape %b {coda.dims = ["T", 4 : i64, 1 : i64]} : (tensor<?x4xbf16>) -> tensor<?x4x1xbf16>
// CHECK-NEXT:   %0 = coda.concat %a_1, %b_1 {dim = 2 : i64} : (tensor<?x4x1xbf16>, tensor<?x4x1xbf16>) -> tensor<?x4x2xbf16>
// CHECK-NEXT:   %y = coda.reshape %0 {coda.dims = ["T", 8 : i64]} : (tensor<?x4x2xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   func.return %y : tensor<?x8xbf16>
// CHECK-NEXT: }

// -----

// As many rows of what zeros pad as there were: they are later or earlier, or where they were.

func.func @moved(%x: tensor<2x?x8xf32> {coda.dims = [2 : i64, "T", 8 : i64]}, %y: tensor<5x8xf32>) -> (tensor<2x?x8xf32>, tensor<5x8xf32>, tensor<5x8xf32>) {
  %p = coda.pad %x {dim = 1 : i64, start = 1 : i64, after = 0 : i64, coda.dims = [2 : i64, "T + 1", 8 : i64]} : (tensor<2x?x8xf32>) -> tensor<2x?x8xf32>
  %a = torch.call "aten.slice.Tensor"(%p) {arguments = "{0}, 1, None, -1", view, coda.dims = [2 : i64, "T", 8 : i64]} : (tensor<2x?x8xf32>) -> tensor<2x?x8xf32>
  %q = coda.pad %y {dim = 0 : i64, start = 2 : i64} : (tensor<5x8xf32>) -> tensor<11x8xf32>
  %b = coda.slice %q {dim = 0 : i64, start = 5 : i64, stop = 10 : i64} : (tensor<11x8xf32>) -> tensor<5x8xf32>
  %c = coda.slice %q {dim = 0 : i64, start = 2 : i64, stop = 7 : i64} : (tensor<11x8xf32>) -> tensor<5x8xf32>
  func.return %a, %b, %c : tensor<2x?x8xf32>, tensor<5x8xf32>, tensor<5x8xf32>
}

// CHECK:      func.func @moved(%x: tensor<2x?x8xf32> {coda.dims = [2 : i64, "T", 8 : i64]}, %y: tensor<5x8xf32>) -> (tensor<2x?x8xf32>, tensor<5x8xf32>, tensor<5x8xf32>) {
// CHECK-NEXT:   %a = coda.shift %x {by = 1 : i64} : (tensor<2x?x8xf32>) -> tensor<2x?x8xf32>
// CHECK-NEXT:   %b = coda.shift %y {by = -3 : i64} : (tensor<5x8xf32>) -> tensor<5x8xf32>
// CHECK-NEXT:   func.return %a, %b, %y : tensor<2x?x8xf32>, tensor<5x8xf32>, tensor<5x8xf32>
// CHECK-NEXT: }

// -----

// Padding by nothing.

func.func @pad(%x: tensor<2x5xf32>) -> tensor<2x5xf32> {
  %y = torch.call "aten.pad.default"(%x) {arguments = "{0}, [0, 0, 0, 0], 'constant', 0.0"} : (tensor<2x5xf32>) -> tensor<2x5xf32>
  func.return %y : tensor<2x5xf32>
}

// CHECK:      func.func @pad(%x: tensor<2x5xf32>) -> tensor<2x5xf32> {
// CHECK-NEXT:   func.return %x : tensor<2x5xf32>
// CHECK-NEXT: }

// -----

// Scores of relative positions: 3 queries, 5 distances, of which each query reads those of its 3 keys.

func.func @relative(%x: tensor<?x3x5xf32> {coda.dims = ["B", 3 : i64, 5 : i64]}) -> tensor<?x3x3xf32> {
  %pad = coda.pad %x {dim = 2 : i64, start = 1 : i64} : (tensor<?x3x5xf32>) -> tensor<?x3x6xf32>
  %view = coda.reshape %pad {coda.dims = ["B", 6 : i64, 3 : i64]} : (tensor<?x3x6xf32>) -> tensor<?x6x3xf32>
  %part = coda.slice %view {dim = 1 : i64, start = 1 : i64, stop = 6 : i64} : (tensor<?x6x3xf32>) -> tensor<?x5x3xf32>
  %rows = coda.reshape %part {coda.dims = ["B", 3 : i64, 5 : i64]} : (tensor<?x5x3xf32>) -> tensor<?x3x5xf32>
  %y = coda.slice %rows {dim = 2 : i64, start = 0 : i64, stop = 3 : i64} : (tensor<?x3x5xf32>) -> tensor<?x3x3xf32>
  func.return %y : tensor<?x3x3xf32>
}

// CHECK:      func.func @relative(%x: tensor<?x3x5xf32> {coda.dims = ["B", 3 : i64, 5 : i64]}) -> tensor<?x3x3xf32> {
// CHECK-NEXT:   %x_1 = coda.reshape %x {coda.dims = ["B", 15 : i64]} : (tensor<?x3x5xf32>) -> tensor<?x15xf32>
// CHECK-NEXT:   %0 = coda.slice %x_1 {dim = 1 : i64, start = 2 : i64, stop = 14 : i64} : (tensor<?x15xf32>) -> tensor<?x12xf32>
// CHECK-NEXT:   %1 = coda.reshape %0 {coda.dims = ["B", 3 : i64, 4 : i64]} : (tensor<?x12xf32>) -> tensor<?x3x4xf32>
// CHECK-NEXT:   %y = coda.slice %1 {dim = 2 : i64, start = 0 : i64, stop = 3 : i64} : (tensor<?x3x4xf32>) -> tensor<?x3x3xf32>
// CHECK-NEXT:   func.return %y : tensor<?x3x3xf32>
// CHECK-NEXT: }

// -----

// Columns of one element each that were rows: a vector for each sample, beside one for all.

func.func @columns(%x: tensor<?x1x8xf32> {coda.dims = ["B", 1 : i64, 8 : i64]}, %b: tensor<8x1xf32>, %s: tensor<1xf32>) -> tensor<?x8x1xbf16> {
  %c = coda.reshape %x {coda.dims = ["B", 8 : i64, 1 : i64]} : (tensor<?x1x8xf32>) -> tensor<?x8x1xf32>
  %y = coda.add %c, %b : (tensor<?x8x1xf32>, tensor<8x1xf32>) -> tensor<?x8x1xf32>
  %z = coda.mul %y, %s : (tensor<?x8x1xf32>, tensor<1xf32>) -> tensor<?x8x1xf32>
  %n = coda.cast %z : (tensor<?x8x1xf32>) -> tensor<?x8x1xbf16>
  func.return %n : tensor<?x8x1xbf16>
}

// CHECK:      func.func @columns(
// CHECK-NEXT:   %b_1 = coda.reshape %b : (tensor<8x1xf32>) -> tensor<1x8xf32>
// CHECK-NEXT:   %y = coda.add %x, %b_1 : (tensor<?x1x8xf32>, tensor<1x8xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %z = coda.mul %y, %s : (tensor<?x1x8xf32>, tensor<1xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %n = coda.cast %z : (tensor<?x1x8xf32>) -> tensor<?x1x8xbf16>
// CHECK-NEXT:   %n_1 = coda.reshape %n {coda.dims = ["B", 8 : i64, 1 : i64]} : (tensor<?x1x8xbf16>) -> tensor<?x8x1xbf16>
// CHECK-NEXT:   func.return %n_1 : tensor<?x8x1xbf16>
// CHECK-NEXT: }

// -----

// Heads of columns that are joined along the batch, and parts of a batch that become columns.

func.func @heads(%x: tensor<?x?x8xf32> {coda.dims = ["B", "T", 8 : i64]}, %z: tensor<4x3x5xf32>) -> (tensor<?x?x4xf32>, tensor<2x3x10xf32>) {
  %a = coda.slice %x {dim = 2 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<?x?x8xf32>) -> tensor<?x?x4xf32>
  %b = coda.slice %x {dim = 2 : i64, start = 4 : i64, stop = 8 : i64} : (tensor<?x?x8xf32>) -> tensor<?x?x4xf32>
  %h = coda.concat %a, %b {dim = 0 : i64, coda.dims = ["2*B", "T", 4 : i64]} : (tensor<?x?x4xf32>, tensor<?x?x4xf32>) -> tensor<?x?x4xf32>
  %c = coda.slice %z {dim = 0 : i64, start = 0 : i64, stop = 2 : i64} : (tensor<4x3x5xf32>) -> tensor<2x3x5xf32>
  %d = coda.slice %z {dim = 0 : i64, start = 2 : i64, stop = 4 : i64} : (tensor<4x3x5xf32>) -> tensor<2x3x5xf32>
  %y = coda.concat %c, %d {dim = 2 : i64} : (tensor<2x3x5xf32>, tensor<2x3x5xf32>) -> tensor<2x3x10xf32>
  func.return %h, %y : tensor<?x?x4xf32>, tensor<2x3x10xf32>
}

// CHECK:      func.func @heads(
// CHECK-NEXT:   %x_1 = coda.reshape %x {coda.dims = ["B", "T", 2 : i64, 4 : i64]} : (tensor<?x?x8xf32>) -> tensor<?x?x2x4xf32>
// CHECK-NEXT:   %h = coda.transpose %x_1 {perm = [2 : i64, 0 : i64, 1 : i64, 3 : i64]} : (tensor<?x?x2x4xf32>) -> tensor<2x?x?x4xf32>
// CHECK-NEXT:   %h_1 = coda.reshape %h {coda.dims = ["2*B", "T", 4 : i64]} : (tensor<2x?x?x4xf32>) -> tensor<?x?x4xf32>
// CHECK-NEXT:   %z_1 = coda.reshape %z : (tensor<4x3x5xf32>) -> tensor<2x2x3x5xf32>
// CHECK-NEXT:   %y = coda.transpose %z_1 {perm = [1 : i64, 2 : i64, 0 : i64, 3 : i64]} : (tensor<2x2x3x5xf32>) -> tensor<2x3x2x5xf32>
// CHECK-NEXT:   %y_1 = coda.reshape %y : (tensor<2x3x2x5xf32>) -> tensor<2x3x10xf32>
// CHECK-NEXT:   func.return %h_1, %y_1 : tensor<?x?x4xf32>, tensor<2x3x10xf32>
// CHECK-NEXT: }

// -----

// Code on rows that are flattened, and with a number.

func.func @flattened(%x: tensor<?x?x8xf32> {coda.dims = ["B", "T", 8 : i64]}, %y: tensor<?x?x8xf32> {coda.dims = ["B", "T", 8 : i64]}) -> (tensor<?x?x8xf32>, tensor<?x?x8xf32>) {
  %two = coda.constant {value = 2.0 : f64} : tensor<f32>
  %a = coda.reshape %x {coda.dims = ["B*T", 8 : i64]} : (tensor<?x?x8xf32>) -> tensor<?x8xf32>
  %b = coda.reshape %y {coda.dims = ["B*T", 8 : i64]} : (tensor<?x?x8xf32>) -> tensor<?x8xf32>
  %s = coda.add %a, %b : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %t = coda.mul %a, %two : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  %p = coda.reshape %s {coda.dims = ["B", "T", 8 : i64]} : (tensor<?x8xf32>) -> tensor<?x?x8xf32>
  %q = coda.reshape %t {coda.dims = ["B", "T", 8 : i64]} : (tensor<?x8xf32>) -> tensor<?x?x8xf32>
  func.return %p, %q : tensor<?x?x8xf32>, tensor<?x?x8xf32>
}

// CHECK:      func.func @flattened(
// CHECK-NEXT:   %two = coda.constant {value = 2.000000e+00 : f64} : tensor<f32>
// CHECK-NEXT:   %s = coda.add %x, %y : (tensor<?x?x8xf32>, tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %t = coda.mul %x, %two : (tensor<?x?x8xf32>, tensor<f32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   func.return %s, %t : tensor<?x?x8xf32>, tensor<?x?x8xf32>
// CHECK-NEXT: }

// -----

// Even and odd heads, and columns that alternate.

func.func @every_second(%x: tensor<?x4x6xf32> {coda.dims = ["M", 4 : i64, 6 : i64]}) -> (tensor<?x2x6xf32>, tensor<?x4x3xf32>) {
  %a = torch.call "aten.slice.Tensor"(%x) {arguments = "{0}, 1, 1, 9223372036854775807, 2", view, coda.dims = ["M", 2 : i64, 6 : i64]} : (tensor<?x4x6xf32>) -> tensor<?x2x6xf32>
  %b = torch.call "aten.slice.Tensor"(%x) {arguments = "{0}, 2, 1, 9223372036854775807, 2", view, coda.dims = ["M", 4 : i64, 3 : i64]} : (tensor<?x4x6xf32>) -> tensor<?x4x3xf32>
  func.return %a, %b : tensor<?x2x6xf32>, tensor<?x4x3xf32>
}

// CHECK-LABEL: func.func @every_second(
// CHECK-NEXT:    %x_1 = coda.reshape %x {coda.dims = ["M", 2 : i64, 2 : i64, 6 : i64]} : (tensor<?x4x6xf32>) -> tensor<?x2x2x6xf32>
// CHECK-NEXT:    %a = coda.slice %x_1 {dim = 2 : i64, start = 1 : i64, stop = 2 : i64} : (tensor<?x2x2x6xf32>) -> tensor<?x2x1x6xf32>
// CHECK-NEXT:    %a_1 = coda.reshape %a {coda.dims = ["M", 2 : i64, 6 : i64]} : (tensor<?x2x1x6xf32>) -> tensor<?x2x6xf32>
// CHECK-NEXT:    %b = torch.call "aten.slice.Tensor"(%x)
// CHECK-NEXT:    func.return %a_1, %b

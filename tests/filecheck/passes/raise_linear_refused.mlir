// RUN: coda-opt %s -p raise-linear,dce --split-input-file | filecheck %s

// The rows of the result are others: B and T change places.

func.func @other_rows(%x: tensor<?x?x8xf32> {coda.dims = ["B", "T", 8 : i64]}, %w: tensor<16x8xf32>) -> tensor<?x?x16xf32> {
  %f = coda.reshape %x : (tensor<?x?x8xf32>) -> tensor<?x8xf32>
  %p = coda.linear %f, %w : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
  %y = coda.reshape %p {coda.dims = ["T", "B", 16 : i64]} : (tensor<?x16xf32>) -> tensor<?x?x16xf32>
  func.return %y : tensor<?x?x16xf32>
}

// CHECK-LABEL: func.func @other_rows(
// CHECK-NEXT:   [[P:%.*]] = coda.linear %x, %w
// CHECK-NEXT:   [[F:%.*]] = coda.reshape [[P]] : (tensor<?x?x16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   [[Y:%.*]] = coda.reshape [[F]] {coda.dims = ["T", "B", 16 : i64]}
// CHECK-NEXT:   func.return [[Y]]

// -----

// The columns change with the rows.

func.func @columns(%x: tensor<4x2x8xf32>, %w: tensor<16x16xf32>) -> tensor<4x16xf32> {
  %f = coda.reshape %x : (tensor<4x2x8xf32>) -> tensor<4x16xf32>
  %p = coda.linear %f, %w : (tensor<4x16xf32>, tensor<16x16xf32>) -> tensor<4x16xf32>
  func.return %p : tensor<4x16xf32>
}

// CHECK-LABEL: func.func @columns(
// CHECK-NEXT:   %f = coda.reshape
// CHECK-NEXT:   %p = coda.linear %f, %w

// -----

// A column with one element per flattened row.

func.func @column(%x: tensor<?x?x8xf32> {coda.dims = ["B", "T", 8 : i64]}, %c: tensor<?x1xf32>) -> tensor<?x8xf32> {
  %f = coda.reshape %x : (tensor<?x?x8xf32>) -> tensor<?x8xf32>
  %y = coda.mul %f, %c : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  func.return %y : tensor<?x8xf32>
}

// CHECK-LABEL: func.func @column(
// CHECK-NEXT:   %f = coda.reshape
// CHECK-NEXT:   %y = coda.mul %f, %c

// -----

// Groups of the rows that are summed over, matrices of a number that is not known, another type.

func.func @groups(%x: tensor<8x?xbf16>, %y: tensor<?x16xbf16>, %z: tensor<?x8xbf16>, %w: tensor<?x8x16xbf16>, %v: tensor<4x8x16xbf16>, %e: tensor<4xi32>, %f: tensor<?xi32>) -> (tensor<4x8x16xbf16>, tensor<?x16xbf16>, tensor<?x16xf32>) {
  %a = torch.call "aten._grouped_mm.default"(%x, %y, %e) {arguments = "{0}, {1}, {2}"} : (tensor<8x?xbf16>, tensor<?x16xbf16>, tensor<4xi32>) -> tensor<4x8x16xbf16>
  %b = torch.call "aten._grouped_mm.default"(%z, %w, %f) {arguments = "{0}, {1}, {2}"} : (tensor<?x8xbf16>, tensor<?x8x16xbf16>, tensor<?xi32>) -> tensor<?x16xbf16>
  %c = torch.call "aten._grouped_mm.default"(%z, %v, %e) {arguments = "{0}, {1}, {2}, out_dtype=torch.float32"} : (tensor<?x8xbf16>, tensor<4x8x16xbf16>, tensor<4xi32>) -> tensor<?x16xf32>
  func.return %a, %b, %c : tensor<4x8x16xbf16>, tensor<?x16xbf16>, tensor<?x16xf32>
}

// CHECK:      func.func @groups(%x: tensor<8x?xbf16>, %y: tensor<?x16xbf16>, %z: tensor<?x8xbf16>, %w: tensor<?x8x16xbf16>, %v: tensor<4x8x16xbf16>, %e: tensor<4xi32>, %f: tensor<?xi32>) -> (tensor<4x8x16xbf16>, tensor<?x16xbf16>, tensor<?x16xf32>) {
// CHECK-NEXT:   %a = torch.call "aten._grouped_mm.default"(%x, %y, %e) {arguments = "{0}, {1}, {2}"} : (tensor<8x?xbf16>, tensor<?x16xbf16>, tensor<4xi32>) -> tensor<4x8x16xbf16>
// CHECK-NEXT:   %b = torch.call "aten._grouped_mm.default"(%z, %w, %f) {arguments = "{0}, {1}, {2}"} : (tensor<?x8xbf16>, tensor<?x8x16xbf16>, tensor<?xi32>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %c = torch.call "aten._grouped_mm.default"(%z, %v, %e) {arguments = "{0}, {1}, {2}, out_dtype=torch.float32"} : (tensor<?x8xbf16>, tensor<4x8x16xbf16>, tensor<4xi32>) -> tensor<?x16xf32>
// CHECK-NEXT:   func.return %a, %b, %c : tensor<4x8x16xbf16>, tensor<?x16xbf16>, tensor<?x16xf32>
// CHECK-NEXT: }

// -----

// The second matrix is computed: the keys of a single head.

func.func @head(%x: tensor<1x4x8xf32>, %w: tensor<8x8xf32>) -> tensor<1x4x4xf32> {
  %k = coda.linear %x, %w : (tensor<1x4x8xf32>, tensor<8x8xf32>) -> tensor<1x4x8xf32>
  %t = coda.transpose %k {perm = [0, 2, 1]} : (tensor<1x4x8xf32>) -> tensor<1x8x4xf32>
  %s = torch.call "aten.bmm.default"(%x, %t) {arguments = "{0}, {1}"} : (tensor<1x4x8xf32>, tensor<1x8x4xf32>) -> tensor<1x4x4xf32>
  func.return %s : tensor<1x4x4xf32>
}

// CHECK-LABEL: func.func @head(
// CHECK:        torch.call "aten.bmm.default"

// -----

// Rows that are split, not only seen as one more dimension.

func.func @split_rows(%x: tensor<6x5x8xf32>, %w: tensor<16x8xf32>) -> tensor<2x3x5x16xf32> {
  %v = coda.reshape %x : (tensor<6x5x8xf32>) -> tensor<2x3x5x8xf32>
  %y = coda.linear %v, %w : (tensor<2x3x5x8xf32>, tensor<16x8xf32>) -> tensor<2x3x5x16xf32>
  func.return %y : tensor<2x3x5x16xf32>
}

// CHECK-LABEL: func.func @split_rows(
// CHECK-NEXT:   %v = coda.reshape
// CHECK-NEXT:   %y = coda.linear %v, %w

// -----

// Two columns of each sample, which would be stored anew as rows.

func.func @two_columns(%x: tensor<?x8x2xf32>, %w: tensor<16x8xf32>) -> tensor<?x16x2xf32> {
  %y = torch.call "aten.matmul.default"(%w, %x) {arguments = "{0}, {1}"} : (tensor<16x8xf32>, tensor<?x8x2xf32>) -> tensor<?x16x2xf32>
  func.return %y : tensor<?x16x2xf32>
}

// CHECK-LABEL: func.func @two_columns(
// CHECK-NEXT:   %y = torch.call "aten.matmul.default"

// -----

// Stacked matrices, and columns of which each number multiplies two.

func.func @stacks(%a: tensor<?x8x2xf32> {coda.dims = ["B", 8 : i64, 2 : i64]}, %b: tensor<?x8x2xf32> {coda.dims = ["B", 8 : i64, 2 : i64]}, %c: tensor<?x8x1xf32> {coda.dims = ["B", 8 : i64, 1 : i64]}, %g: tensor<?x4x1xf32> {coda.dims = ["B", 4 : i64, 1 : i64]}, %h: tensor<?x2x3xf32> {coda.dims = ["B", 2 : i64, 3 : i64]}) -> (tensor<?x8x1xf32>, tensor<?x8x3xf32>) {
  %s = coda.concat %a, %b {dim = 2 : i64} : (tensor<?x8x2xf32>, tensor<?x8x2xf32>) -> tensor<?x8x4xf32>
  %y = torch.call "aten.matmul.default"(%s, %g) {arguments = "{0}, {1}"} : (tensor<?x8x4xf32>, tensor<?x4x1xf32>) -> tensor<?x8x1xf32>
  %t = coda.concat %c, %c {dim = 2 : i64} : (tensor<?x8x1xf32>, tensor<?x8x1xf32>) -> tensor<?x8x2xf32>
  %z = torch.call "aten.matmul.default"(%t, %h) {arguments = "{0}, {1}"} : (tensor<?x8x2xf32>, tensor<?x2x3xf32>) -> tensor<?x8x3xf32>
  func.return %y, %z : tensor<?x8x1xf32>, tensor<?x8x3xf32>
}

// CHECK-LABEL: func.func @stacks(
// CHECK:         %y = torch.call "aten.matmul.default"
// CHECK:         %z = torch.call "aten.matmul.default"

// -----

// Two rows of each sample for each matrix, which would be stored in another order, and one for each
// sample of a matrix that all share.

func.func @members(%x: tensor<?x3x2x8xf32> {coda.dims = ["B", 3 : i64, 2 : i64, 8 : i64]}, %z: tensor<?x3x1x8xf32> {coda.dims = ["B", 3 : i64, 1 : i64, 8 : i64]}, %w: tensor<3x8x16xf32>, %v: tensor<1x8x16xf32>) -> (tensor<?x3x2x16xf32>, tensor<?x3x1x16xf32>) {
  %y = torch.call "aten.matmul.default"(%x, %w) {arguments = "{0}, {1}", coda.dims = ["B", 3 : i64, 2 : i64, 16 : i64]} : (tensor<?x3x2x8xf32>, tensor<3x8x16xf32>) -> tensor<?x3x2x16xf32>
  %s = torch.call "aten.matmul.default"(%z, %v) {arguments = "{0}, {1}", coda.dims = ["B", 3 : i64, 1 : i64, 16 : i64]} : (tensor<?x3x1x8xf32>, tensor<1x8x16xf32>) -> tensor<?x3x1x16xf32>
  func.return %y, %s : tensor<?x3x2x16xf32>, tensor<?x3x1x16xf32>
}

// CHECK-LABEL: func.func @members(
// CHECK-NEXT:   %y = torch.call "aten.matmul.default"(%x, %w)
// CHECK-NEXT:   %s = torch.call "aten.matmul.default"(%z, %v)

// -----

// A row of each matrix whose bits are those of PyTorch, and a vector, which is no matrix of any row.

func.func @exact(%x: tensor<2x3x1x8xf32>, %w: tensor<3x8x16xf32>) -> tensor<2x3x1x16xf32> attributes {coda.numerics = #gemm.numerics<"eager-exact">} {
  %y = torch.call "aten.matmul.default"(%x, %w) {arguments = "{0}, {1}"} : (tensor<2x3x1x8xf32>, tensor<3x8x16xf32>) -> tensor<2x3x1x16xf32>
  func.return %y : tensor<2x3x1x16xf32>
}

// CHECK-LABEL: func.func @exact(
// CHECK-NEXT:   %y = torch.call "aten.matmul.default"(%x, %w)

func.func @vector(%x: tensor<2x3x1x8xf32>, %v: tensor<8xf32>) -> tensor<2x3x1xf32> {
  %y = torch.call "aten.matmul.default"(%x, %v) {arguments = "{0}, {1}"} : (tensor<2x3x1x8xf32>, tensor<8xf32>) -> tensor<2x3x1xf32>
  func.return %y : tensor<2x3x1xf32>
}

// CHECK-LABEL: func.func @vector(
// CHECK-NEXT:   %y = torch.call "aten.matmul.default"(%x, %v)

// RUN: coda-opt %s -p compose-views,cse,dce --split-input-file | filecheck %s

// The queries of nn.MultiheadAttention, whose rows are T x B, with symbolic rows.

func.func @heads(%z: tensor<?x?x48xf32> {coda.dims = ["T", "B", 48 : i64]}) -> tensor<?x2x?x8xf32> {
  %a = coda.reshape %z {coda.dims = [1 : i64, "T", "B", 3 : i64, 16 : i64]} : (tensor<?x?x48xf32>) -> tensor<1x?x?x3x16xf32>
  %b = coda.transpose %a {perm = [3 : i64, 1 : i64, 2 : i64, 0 : i64, 4 : i64]} : (tensor<1x?x?x3x16xf32>) -> tensor<3x?x?x1x16xf32>
  %c = coda.reshape %b {coda.dims = [3 : i64, "T", "B", 16 : i64]} : (tensor<3x?x?x1x16xf32>) -> tensor<3x?x?x16xf32>
  %d = coda.slice %c {dim = 0 : i64, start = 1 : i64, stop = 2 : i64} : (tensor<3x?x?x16xf32>) -> tensor<1x?x?x16xf32>
  %e = coda.reshape %d {coda.dims = ["T", "2*B", 8 : i64]} : (tensor<1x?x?x16xf32>) -> tensor<?x?x8xf32>
  %f = coda.transpose %e {perm = [1 : i64, 0 : i64, 2 : i64]} : (tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
  %q = coda.reshape %f {coda.dims = ["B", 2 : i64, "T", 8 : i64]} : (tensor<?x?x8xf32>) -> tensor<?x2x?x8xf32>
  func.return %q : tensor<?x2x?x8xf32>
}

// CHECK-LABEL: func.func @heads(
// CHECK-NEXT:    %z_1 = coda.slice %z {dim = 2 : i64, start = 16 : i64, stop = 32 : i64} : (tensor<?x?x48xf32>) -> tensor<?x?x16xf32>
// CHECK-NEXT:    %z_2 = coda.reshape %z_1 {coda.dims = ["T", "B", 2 : i64, 8 : i64]} : (tensor<?x?x16xf32>) -> tensor<?x?x2x8xf32>
// CHECK-NEXT:    %q = coda.transpose %z_2 {perm = [1 : i64, 2 : i64, 0 : i64, 3 : i64]} : (tensor<?x?x2x8xf32>) -> tensor<?x2x?x8xf32>
// CHECK-NEXT:    func.return %q : tensor<?x2x?x8xf32>

// -----

// Dimensions that are joined and transposed together, and a dimension of 1.

func.func @joined(%x: tensor<4x6x10xf32>) -> (tensor<1x2x24x5xf32>, tensor<24x10xf32>) {
  %a = coda.reshape %x : (tensor<4x6x10xf32>) -> tensor<4x6x2x5xf32>
  %b = coda.transpose %a {perm = [2 : i64, 0 : i64, 1 : i64, 3 : i64]} : (tensor<4x6x2x5xf32>) -> tensor<2x4x6x5xf32>
  %c = coda.reshape %b : (tensor<2x4x6x5xf32>) -> tensor<2x24x5xf32>
  %d = coda.reshape %c : (tensor<2x24x5xf32>) -> tensor<1x2x24x5xf32>
  %e = coda.transpose %c {perm = [1 : i64, 0 : i64, 2 : i64]} : (tensor<2x24x5xf32>) -> tensor<24x2x5xf32>
  %f = coda.reshape %e : (tensor<24x2x5xf32>) -> tensor<24x10xf32>
  func.return %d, %f : tensor<1x2x24x5xf32>, tensor<24x10xf32>
}

// CHECK-LABEL: func.func @joined(
// CHECK-NEXT:    %x_1 = coda.reshape %x : (tensor<4x6x10xf32>) -> tensor<24x2x5xf32>
// CHECK-NEXT:    %c = coda.transpose %x_1 {perm = [1 : i64, 0 : i64, 2 : i64]} : (tensor<24x2x5xf32>) -> tensor<2x24x5xf32>
// CHECK-NEXT:    %d = coda.reshape %c : (tensor<2x24x5xf32>) -> tensor<1x2x24x5xf32>
// CHECK-NEXT:    %f = coda.reshape %x : (tensor<4x6x10xf32>) -> tensor<24x10xf32>
// CHECK-NEXT:    func.return %d, %f : tensor<1x2x24x5xf32>, tensor<24x10xf32>

// -----

// The rows of a linear map that all readers put back: as they are, and as PyTorch flattens them.

func.func @rows(%x: tensor<?x?x8xf32> {coda.dims = ["B", "T", 8 : i64]}, %w: tensor<6x8xf32>, %b: tensor<6xf32>) -> tensor<?x2x?x3xf32> {
  %t = coda.transpose %x {perm = [1 : i64, 0 : i64, 2 : i64]} : (tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
  %l = coda.linear %t, %w, %b : (tensor<?x?x8xf32>, tensor<6x8xf32>, tensor<6xf32>) -> tensor<?x?x6xf32>
  %h = coda.reshape %l {coda.dims = ["T", "2*B", 3 : i64]} : (tensor<?x?x6xf32>) -> tensor<?x?x3xf32>
  %f = coda.transpose %h {perm = [1 : i64, 0 : i64, 2 : i64]} : (tensor<?x?x3xf32>) -> tensor<?x?x3xf32>
  %q = coda.reshape %f {coda.dims = ["B", 2 : i64, "T", 3 : i64]} : (tensor<?x?x3xf32>) -> tensor<?x2x?x3xf32>
  func.return %q : tensor<?x2x?x3xf32>
}

// CHECK-LABEL: func.func @rows(
// CHECK-NEXT:    %l = coda.linear %x, %w, %b : (tensor<?x?x8xf32>, tensor<6x8xf32>, tensor<6xf32>) -> tensor<?x?x6xf32>
// CHECK-NEXT:    %l_1 = coda.reshape %l {coda.dims = ["B", "T", 2 : i64, 3 : i64]} : (tensor<?x?x6xf32>) -> tensor<?x?x2x3xf32>
// CHECK-NEXT:    %l_2 = coda.transpose %l_1 {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x?x2x3xf32>) -> tensor<?x2x?x3xf32>
// CHECK-NEXT:    func.return %l_2 : tensor<?x2x?x3xf32>

// -----

// The heads of queries, which a reshape between two transposes copies: as many views, with one transpose.

func.func @queries(%x: tensor<4x6x10xf32>) -> tensor<8x6x5xf32> {
  %t = coda.transpose %x {perm = [1 : i64, 0 : i64, 2 : i64]} : (tensor<4x6x10xf32>) -> tensor<6x4x10xf32>
  %h = coda.reshape %t : (tensor<6x4x10xf32>) -> tensor<6x8x5xf32>
  %q = coda.transpose %h {perm = [1 : i64, 0 : i64, 2 : i64]} : (tensor<6x8x5xf32>) -> tensor<8x6x5xf32>
  func.return %q : tensor<8x6x5xf32>
}

// CHECK-LABEL: func.func @queries(
// CHECK-NEXT:    %x_1 = coda.reshape %x : (tensor<4x6x10xf32>) -> tensor<4x6x2x5xf32>
// CHECK-NEXT:    %x_2 = coda.transpose %x_1 {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<4x6x2x5xf32>) -> tensor<4x2x6x5xf32>
// CHECK-NEXT:    %q = coda.reshape %x_2 : (tensor<4x2x6x5xf32>) -> tensor<8x6x5xf32>

// -----

func.func @flattened(%o: tensor<2x4x5x3xbf16>, %w: tensor<12x6xbf16>) -> tensor<2x5x6xbf16> {
  %t = coda.transpose %o {perm = [2 : i64, 0 : i64, 1 : i64, 3 : i64]} : (tensor<2x4x5x3xbf16>) -> tensor<5x2x4x3xbf16>
  %f = coda.reshape %t : (tensor<5x2x4x3xbf16>) -> tensor<10x12xbf16>
  %l = coda.matmul %f, %w : (tensor<10x12xbf16>, tensor<12x6xbf16>) -> tensor<10x6xbf16>
  %r = coda.reshape %l : (tensor<10x6xbf16>) -> tensor<5x2x6xbf16>
  %y = coda.transpose %r {perm = [1 : i64, 0 : i64, 2 : i64]} : (tensor<5x2x6xbf16>) -> tensor<2x5x6xbf16>
  func.return %y : tensor<2x5x6xbf16>
}

// CHECK-LABEL: func.func @flattened(
// CHECK-NEXT:    %o_1 = coda.transpose %o {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x4x5x3xbf16>) -> tensor<2x5x4x3xbf16>
// CHECK-NEXT:    %o_2 = coda.reshape %o_1 : (tensor<2x5x4x3xbf16>) -> tensor<2x5x12xbf16>
// CHECK-NEXT:    %y = coda.matmul %o_2, %w : (tensor<2x5x12xbf16>, tensor<12x6xbf16>) -> tensor<2x5x6xbf16>
// CHECK-NEXT:    func.return %y : tensor<2x5x6xbf16>

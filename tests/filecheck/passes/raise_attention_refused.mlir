// RUN: coda-opt %s -p raise-elementwise,raise-attention,canonicalize,drop-no-ops,dce --split-input-file | filecheck %s

// Dropout.

func.func @dropout(%q: tensor<?x?x32xf32> {coda.dims = ["B", "T", 32 : i64]}, %k: tensor<?x?x16xf32> {coda.dims = ["B", "T", 16 : i64]}, %v: tensor<?x?x16xf32> {coda.dims = ["B", "T", 16 : i64]}) -> tensor<?x?x32xf32> {
  %qs = coda.reshape %q {coda.dims = ["B", "T", 4 : i64, 8 : i64]} : (tensor<?x?x32xf32>) -> tensor<?x?x4x8xf32>
  %qh = coda.transpose %qs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x?x4x8xf32>) -> tensor<?x4x?x8xf32>
  %ks = coda.reshape %k {coda.dims = ["B", "T", 2 : i64, 8 : i64]} : (tensor<?x?x16xf32>) -> tensor<?x?x2x8xf32>
  %kh = coda.transpose %ks {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x?x2x8xf32>) -> tensor<?x2x?x8xf32>
  %vs = coda.reshape %v {coda.dims = ["B", "T", 2 : i64, 8 : i64]} : (tensor<?x?x16xf32>) -> tensor<?x?x2x8xf32>
  %vh = coda.transpose %vs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x?x2x8xf32>) -> tensor<?x2x?x8xf32>
  %ku = coda.reshape %kh {coda.dims = ["B", 2 : i64, 1 : i64, "T", 8 : i64]} : (tensor<?x2x?x8xf32>) -> tensor<?x2x1x?x8xf32>
  %ke = torch.call "aten.expand.default"(%ku) {arguments = "{0}, [B, 2, 2, T, 8]", view, coda.dims = ["B", 2 : i64, 2 : i64, "T", 8 : i64]} : (tensor<?x2x1x?x8xf32>) -> tensor<?x2x2x?x8xf32>
  %kr = coda.reshape %ke {coda.dims = ["B", 4 : i64, "T", 8 : i64]} : (tensor<?x2x2x?x8xf32>) -> tensor<?x4x?x8xf32>
  %vu = coda.reshape %vh {coda.dims = ["B", 2 : i64, 1 : i64, "T", 8 : i64]} : (tensor<?x2x?x8xf32>) -> tensor<?x2x1x?x8xf32>
  %ve = torch.call "aten.expand.default"(%vu) {arguments = "{0}, [B, 2, 2, T, 8]", view, coda.dims = ["B", 2 : i64, 2 : i64, "T", 8 : i64]} : (tensor<?x2x1x?x8xf32>) -> tensor<?x2x2x?x8xf32>
  %vr = coda.reshape %ve {coda.dims = ["B", 4 : i64, "T", 8 : i64]} : (tensor<?x2x2x?x8xf32>) -> tensor<?x4x?x8xf32>
  %a = torch.call "aten.scaled_dot_product_attention.default"(%qh, %kr, %vr) {arguments = "{0}, {1}, {2}, None, 0.5, True", coda.dims = ["B", 4 : i64, "T", 8 : i64], random} : (tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>) -> tensor<?x4x?x8xf32>
  %at = coda.transpose %a {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x4x?x8xf32>) -> tensor<?x?x4x8xf32>
  %y = coda.reshape %at {coda.dims = ["B", "T", 32 : i64]} : (tensor<?x?x4x8xf32>) -> tensor<?x?x32xf32>
  func.return %y : tensor<?x?x32xf32>
}

// CHECK-LABEL: func.func @dropout(
// CHECK-NOT:     coda.attention
// CHECK:         func.return

// -----

// The heads are repeated in another order: all of them, then all of them again.

func.func @tiled(%q: tensor<?x?x32xf32> {coda.dims = ["B", "T", 32 : i64]}, %k: tensor<?x?x16xf32> {coda.dims = ["B", "T", 16 : i64]}, %v: tensor<?x?x16xf32> {coda.dims = ["B", "T", 16 : i64]}) -> tensor<?x?x32xf32> {
  %qs = coda.reshape %q {coda.dims = ["B", "T", 4 : i64, 8 : i64]} : (tensor<?x?x32xf32>) -> tensor<?x?x4x8xf32>
  %qh = coda.transpose %qs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x?x4x8xf32>) -> tensor<?x4x?x8xf32>
  %ks = coda.reshape %k {coda.dims = ["B", "T", 2 : i64, 8 : i64]} : (tensor<?x?x16xf32>) -> tensor<?x?x2x8xf32>
  %kh = coda.transpose %ks {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x?x2x8xf32>) -> tensor<?x2x?x8xf32>
  %vs = coda.reshape %v {coda.dims = ["B", "T", 2 : i64, 8 : i64]} : (tensor<?x?x16xf32>) -> tensor<?x?x2x8xf32>
  %vh = coda.transpose %vs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x?x2x8xf32>) -> tensor<?x2x?x8xf32>
  %ku = coda.reshape %kh {coda.dims = ["B", 1 : i64, 2 : i64, "T", 8 : i64]} : (tensor<?x2x?x8xf32>) -> tensor<?x1x2x?x8xf32>
  %ke = torch.call "aten.expand.default"(%ku) {arguments = "{0}, [B, 2, 2, T, 8]", view, coda.dims = ["B", 2 : i64, 2 : i64, "T", 8 : i64]} : (tensor<?x1x2x?x8xf32>) -> tensor<?x2x2x?x8xf32>
  %kr = coda.reshape %ke {coda.dims = ["B", 4 : i64, "T", 8 : i64]} : (tensor<?x2x2x?x8xf32>) -> tensor<?x4x?x8xf32>
  %vu = coda.reshape %vh {coda.dims = ["B", 1 : i64, 2 : i64, "T", 8 : i64]} : (tensor<?x2x?x8xf32>) -> tensor<?x1x2x?x8xf32>
  %ve = torch.call "aten.expand.default"(%vu) {arguments = "{0}, [B, 2, 2, T, 8]", view, coda.dims = ["B", 2 : i64, 2 : i64, "T", 8 : i64]} : (tensor<?x1x2x?x8xf32>) -> tensor<?x2x2x?x8xf32>
  %vr = coda.reshape %ve {coda.dims = ["B", 4 : i64, "T", 8 : i64]} : (tensor<?x2x2x?x8xf32>) -> tensor<?x4x?x8xf32>
  %a = torch.call "aten.scaled_dot_product_attention.default"(%qh, %kr, %vr) {arguments = "{0}, {1}, {2}, None, 0.0, True", coda.dims = ["B", 4 : i64, "T", 8 : i64], random} : (tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>) -> tensor<?x4x?x8xf32>
  %at = coda.transpose %a {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x4x?x8xf32>) -> tensor<?x?x4x8xf32>
  %y = coda.reshape %at {coda.dims = ["B", "T", 32 : i64]} : (tensor<?x?x4x8xf32>) -> tensor<?x?x32xf32>
  func.return %y : tensor<?x?x32xf32>
}

// CHECK-LABEL: func.func @tiled(
// CHECK-NOT:     coda.attention
// CHECK:         func.return

// -----

// Another number of keys: PyTorch aligns its causal mask at the upper left.

func.func @lengths(%q: tensor<?x?x32xf32> {coda.dims = ["B", "T", 32 : i64]}, %k: tensor<?x?x32xf32> {coda.dims = ["B", "S", 32 : i64]}, %v: tensor<?x?x32xf32> {coda.dims = ["B", "S", 32 : i64]}) -> tensor<?x?x32xf32> {
  %qs = coda.reshape %q {coda.dims = ["B", "T", 4 : i64, 8 : i64]} : (tensor<?x?x32xf32>) -> tensor<?x?x4x8xf32>
  %qh = coda.transpose %qs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x?x4x8xf32>) -> tensor<?x4x?x8xf32>
  %ks = coda.reshape %k {coda.dims = ["B", "S", 4 : i64, 8 : i64]} : (tensor<?x?x32xf32>) -> tensor<?x?x4x8xf32>
  %kh = coda.transpose %ks {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x?x4x8xf32>) -> tensor<?x4x?x8xf32>
  %vs = coda.reshape %v {coda.dims = ["B", "S", 4 : i64, 8 : i64]} : (tensor<?x?x32xf32>) -> tensor<?x?x4x8xf32>
  %vh = coda.transpose %vs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x?x4x8xf32>) -> tensor<?x4x?x8xf32>
  %a = torch.call "aten.scaled_dot_product_attention.default"(%qh, %kh, %vh) {arguments = "{0}, {1}, {2}, None, 0.0, True", coda.dims = ["B", 4 : i64, "T", 8 : i64], random} : (tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>) -> tensor<?x4x?x8xf32>
  %at = coda.transpose %a {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x4x?x8xf32>) -> tensor<?x?x4x8xf32>
  %y = coda.reshape %at {coda.dims = ["B", "T", 32 : i64]} : (tensor<?x?x4x8xf32>) -> tensor<?x?x32xf32>
  func.return %y : tensor<?x?x32xf32>
}

// CHECK-LABEL: func.func @lengths(
// CHECK-NOT:     coda.attention
// CHECK:         func.return

// -----

// A cap after another scale than its own is one of scaled scores: here the scale comes last.

func.func @cap_first(%q: tensor<2x5x8xf32>, %k: tensor<2x5x8xf32>, %v: tensor<2x5x8xf32>) -> tensor<2x2x5x4xf32> {
  %qs = coda.reshape %q : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %qh = coda.transpose %qs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %ks = coda.reshape %k : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %kh = coda.transpose %ks {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %vs = coda.reshape %v : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %vh = coda.transpose %vs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %kt = coda.transpose %kh {perm = [0 : i64, 1 : i64, 3 : i64, 2 : i64]} : (tensor<2x2x5x4xf32>) -> tensor<2x2x4x5xf32>
  %s = torch.call "aten.matmul.default"(%qh, %kt) {arguments = "{0}, {1}"} : (tensor<2x2x5x4xf32>, tensor<2x2x4x5xf32>) -> tensor<2x2x5x5xf32>
  %scale = coda.constant {value = 0.5 : f64} : tensor<f32>
  %x1 = coda.softcap %s {cap = 50.0 : f64} : (tensor<2x2x5x5xf32>) -> tensor<2x2x5x5xf32>
  %x2 = coda.mul %x1, %scale : (tensor<2x2x5x5xf32>, tensor<f32>) -> tensor<2x2x5x5xf32>
  %w = coda.softmax %x2 : (tensor<2x2x5x5xf32>) -> tensor<2x2x5x5xf32>
  %a = torch.call "aten.matmul.default"(%w, %vh) {arguments = "{0}, {1}"} : (tensor<2x2x5x5xf32>, tensor<2x2x5x4xf32>) -> tensor<2x2x5x4xf32>
  func.return %a : tensor<2x2x5x4xf32>
}

// CHECK-LABEL: func.func @cap_first(
// CHECK-NOT:     coda.attention
// CHECK:         func.return

// -----

// Keys that nothing in this function moved, such as those of a cache: they would be copied.

func.func @cache(%q: tensor<?x?x32xf32> {coda.dims = ["B", "T", 32 : i64]}, %k: tensor<?x4x5x8xf32> {coda.dims = ["B", 4 : i64, 5 : i64, 8 : i64]}) -> tensor<?x4x?x8xf32> {
  %qs = coda.reshape %q {coda.dims = ["B", "T", 4 : i64, 8 : i64]} : (tensor<?x?x32xf32>) -> tensor<?x?x4x8xf32>
  %qh = coda.transpose %qs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x?x4x8xf32>) -> tensor<?x4x?x8xf32>
  %km = coda.concat %k, %qh {dim = 2 : i64, coda.dims = ["B", 4 : i64, "T + 5", 8 : i64]} : (tensor<?x4x5x8xf32>, tensor<?x4x?x8xf32>) -> tensor<?x4x?x8xf32>
  %a = torch.call "aten.scaled_dot_product_attention.default"(%qh, %km, %km) {arguments = "{0}, {1}, {2}", coda.dims = ["B", 4 : i64, "T", 8 : i64], random} : (tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>) -> tensor<?x4x?x8xf32>
  func.return %a : tensor<?x4x?x8xf32>
}

// CHECK-LABEL: func.func @cache(
// CHECK-NOT:     coda.attention
// CHECK:         func.return

// -----

// Heads before the batch, and a mask of their scores.

func.func @batch_last_masked(%q: tensor<3x5x8xf32>, %mask: tensor<6x1x5xf32>) -> tensor<6x5x4xf32> {
  %qs = coda.reshape %q : (tensor<3x5x8xf32>) -> tensor<3x5x2x4xf32>
  %qt = coda.transpose %qs {perm = [2 : i64, 0 : i64, 1 : i64, 3 : i64]} : (tensor<3x5x2x4xf32>) -> tensor<2x3x5x4xf32>
  %qh = coda.reshape %qt : (tensor<2x3x5x4xf32>) -> tensor<6x5x4xf32>
  %kc = coda.transpose %qh {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<6x5x4xf32>) -> tensor<6x4x5xf32>
  %s = torch.call "aten.bmm.default"(%qh, %kc) {arguments = "{0}, {1}"} : (tensor<6x5x4xf32>, tensor<6x4x5xf32>) -> tensor<6x5x5xf32>
  %m = coda.add %s, %mask : (tensor<6x5x5xf32>, tensor<6x1x5xf32>) -> tensor<6x5x5xf32>
  %w = coda.softmax %m : (tensor<6x5x5xf32>) -> tensor<6x5x5xf32>
  %a = torch.call "aten.bmm.default"(%w, %qh) {arguments = "{0}, {1}"} : (tensor<6x5x5xf32>, tensor<6x5x4xf32>) -> tensor<6x5x4xf32>
  func.return %a : tensor<6x5x4xf32>
}

// CHECK-LABEL: func.func @batch_last_masked(
// CHECK-NOT:     coda.attention
// CHECK:         func.return

// -----

// The first rows of keys whose batch and heads are one dimension: attention would read all rows.

func.func @merged_rows(%q: tensor<4x3x16xf32>, %k: tensor<7x3x16xf32>) -> tensor<6x4x8xf32> {
  %qs = coda.reshape %q : (tensor<4x3x16xf32>) -> tensor<4x6x8xf32>
  %qh = coda.transpose %qs {perm = [1 : i64, 0 : i64, 2 : i64]} : (tensor<4x6x8xf32>) -> tensor<6x4x8xf32>
  %ks = coda.reshape %k : (tensor<7x3x16xf32>) -> tensor<7x6x8xf32>
  %kt = coda.transpose %ks {perm = [1 : i64, 0 : i64, 2 : i64]} : (tensor<7x6x8xf32>) -> tensor<6x7x8xf32>
  %kh = coda.slice %kt {dim = 1 : i64, start = 0 : i64, stop = 5 : i64} : (tensor<6x7x8xf32>) -> tensor<6x5x8xf32>
  %kc = coda.transpose %kh {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<6x5x8xf32>) -> tensor<6x8x5xf32>
  %s = torch.call "aten.bmm.default"(%qh, %kc) {arguments = "{0}, {1}"} : (tensor<6x4x8xf32>, tensor<6x8x5xf32>) -> tensor<6x4x5xf32>
  %w = coda.softmax %s : (tensor<6x4x5xf32>) -> tensor<6x4x5xf32>
  %a = torch.call "aten.bmm.default"(%w, %kh) {arguments = "{0}, {1}"} : (tensor<6x4x5xf32>, tensor<6x5x8xf32>) -> tensor<6x4x8xf32>
  func.return %a : tensor<6x4x8xf32>
}

// CHECK-LABEL: func.func @merged_rows(
// CHECK-NOT:     coda.attention
// CHECK:         func.return

// -----

// Channels of heads that attend to one another: three copies of their columns would be stored instead of 4 x 4 scores.

func.func @channels(%x: tensor<2x9x8xf32>) -> tensor<2x2x4x9xf32> {
  %s = coda.reshape %x : (tensor<2x9x8xf32>) -> tensor<2x9x2x4xf32>
  %q = coda.transpose %s {perm = [0 : i64, 2 : i64, 3 : i64, 1 : i64]} : (tensor<2x9x2x4xf32>) -> tensor<2x2x4x9xf32>
  %k = coda.transpose %s {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x9x2x4xf32>) -> tensor<2x2x9x4xf32>
  %a = torch.call "aten.matmul.default"(%q, %k) {arguments = "{0}, {1}"} : (tensor<2x2x4x9xf32>, tensor<2x2x9x4xf32>) -> tensor<2x2x4x4xf32>
  %w = coda.softmax %a : (tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
  %y = torch.call "aten.matmul.default"(%w, %q) {arguments = "{0}, {1}"} : (tensor<2x2x4x4xf32>, tensor<2x2x4x9xf32>) -> tensor<2x2x4x9xf32>
  func.return %y : tensor<2x2x4x9xf32>
}

// CHECK-LABEL: func.func @channels(
// CHECK-NOT:     coda.attention
// CHECK:         func.return

// -----

// The rows of a table of scores are queries of all heads, one after another, that share keys.

func.func @rows_of_heads(%q: tensor<2x10x8xf32>, %k: tensor<2x8x5xf32>, %v: tensor<2x5x8xf32>, %b: tensor<10x5xf32>) -> tensor<2x10x8xf32> {
  %s = torch.call "aten.bmm.default"(%q, %k) {arguments = "{0}, {1}"} : (tensor<2x10x8xf32>, tensor<2x8x5xf32>) -> tensor<2x10x5xf32>
  %m = coda.add %s, %b : (tensor<2x10x5xf32>, tensor<10x5xf32>) -> tensor<2x10x5xf32>
  %h = coda.reshape %m : (tensor<2x10x5xf32>) -> tensor<2x2x5x5xf32>
  %w = coda.softmax %h : (tensor<2x2x5x5xf32>) -> tensor<2x2x5x5xf32>
  %f = coda.reshape %w : (tensor<2x2x5x5xf32>) -> tensor<2x10x5xf32>
  %a = torch.call "aten.bmm.default"(%f, %v) {arguments = "{0}, {1}"} : (tensor<2x10x5xf32>, tensor<2x5x8xf32>) -> tensor<2x10x8xf32>
  func.return %a : tensor<2x10x8xf32>
}

// CHECK-LABEL: func.func @rows_of_heads(
// CHECK-NOT:     coda.attention
// CHECK:         func.return

// -----

// Batches and heads, as many of one as of the other, are exchanged after the softmax.

func.func @exchanged(%q: tensor<2x2x5x4xf32>, %k: tensor<2x2x4x5xf32>, %v: tensor<4x5x4xf32>) -> tensor<4x5x4xf32> {
  %s = torch.call "aten.matmul.default"(%q, %k) {arguments = "{0}, {1}"} : (tensor<2x2x5x4xf32>, tensor<2x2x4x5xf32>) -> tensor<2x2x5x5xf32>
  %w = coda.softmax %s : (tensor<2x2x5x5xf32>) -> tensor<2x2x5x5xf32>
  %t = coda.transpose %w {perm = [1 : i64, 0 : i64, 2 : i64, 3 : i64]} : (tensor<2x2x5x5xf32>) -> tensor<2x2x5x5xf32>
  %f = coda.reshape %t : (tensor<2x2x5x5xf32>) -> tensor<4x5x5xf32>
  %a = torch.call "aten.bmm.default"(%f, %v) {arguments = "{0}, {1}"} : (tensor<4x5x5xf32>, tensor<4x5x4xf32>) -> tensor<4x5x4xf32>
  func.return %a : tensor<4x5x4xf32>
}

// CHECK-LABEL: func.func @exchanged(
// CHECK-NOT:     coda.attention
// CHECK:         func.return

// -----

// Keys that all batches share, of as many heads as there are batches.

func.func @shared_by_batches(%q: tensor<2x2x2x5x4xf32>, %k: tensor<1x2x1x4x5xf32>, %v: tensor<1x2x1x5x4xf32>) -> tensor<2x2x2x5x4xf32> {
  %s = torch.call "aten.matmul.default"(%q, %k) {arguments = "{0}, {1}"} : (tensor<2x2x2x5x4xf32>, tensor<1x2x1x4x5xf32>) -> tensor<2x2x2x5x5xf32>
  %w = coda.softmax %s : (tensor<2x2x2x5x5xf32>) -> tensor<2x2x2x5x5xf32>
  %a = torch.call "aten.matmul.default"(%w, %v) {arguments = "{0}, {1}"} : (tensor<2x2x2x5x5xf32>, tensor<1x2x1x5x4xf32>) -> tensor<2x2x2x5x4xf32>
  func.return %a : tensor<2x2x2x5x4xf32>
}

// CHECK-LABEL: func.func @shared_by_batches(
// CHECK-NOT:     coda.attention
// CHECK:         func.return

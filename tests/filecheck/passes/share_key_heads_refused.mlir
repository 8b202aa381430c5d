// RUN: coda-opt %s -p share-key-heads --split-input-file | filecheck %s
// RUN: coda-opt %s -p share-key-heads --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=MISSED

// Two queries for each head: the call stays PyTorch's.

func.func @two_queries(%q: tensor<1x4x2x16xbf16>, %k: tensor<1x2x32x16xbf16>, %v: tensor<1x2x32x16xbf16>, %m: tensor<1x1x2x32xi1>) -> tensor<1x4x2x16xbf16> {
  %k1 = coda.reshape %k : (tensor<1x2x32x16xbf16>) -> tensor<1x2x1x32x16xbf16>
  %k2 = torch.call "aten.expand.default"(%k1) {arguments = "{0}, [1, 2, 2, 32, 16]", view} : (tensor<1x2x1x32x16xbf16>) -> tensor<1x2x2x32x16xbf16>
  %k4 = coda.reshape %k2 : (tensor<1x2x2x32x16xbf16>) -> tensor<1x4x32x16xbf16>
  %v1 = coda.reshape %v : (tensor<1x2x32x16xbf16>) -> tensor<1x2x1x32x16xbf16>
  %v2 = torch.call "aten.expand.default"(%v1) {arguments = "{0}, [1, 2, 2, 32, 16]", view} : (tensor<1x2x1x32x16xbf16>) -> tensor<1x2x2x32x16xbf16>
  %v4 = coda.reshape %v2 : (tensor<1x2x2x32x16xbf16>) -> tensor<1x4x32x16xbf16>
  %y = torch.call "aten.scaled_dot_product_attention.default"(%q, %k4, %v4, %m) {arguments = "{0}, {1}, {2}, {3}, 0.0, False, scale=0.25"} : (tensor<1x4x2x16xbf16>, tensor<1x4x32x16xbf16>, tensor<1x4x32x16xbf16>, tensor<1x1x2x32xi1>) -> tensor<1x4x2x16xbf16>
  func.return %y : tensor<1x4x2x16xbf16>
}

// CHECK-LABEL: func.func @two_queries(
// CHECK:         "aten.scaled_dot_product_attention.default"(%q, %k4, %v4, %m)
// MISSED: remark[missed] share-key-heads: torch.call: PyTorch computes the call, and its kernels with a mask need separate keys for each query head

// -----

// Keys are shared by two heads, values by four.

func.func @unlike(%q: tensor<1x4x1x16xbf16>, %k: tensor<1x2x32x16xbf16>, %v: tensor<1x1x32x16xbf16>, %m: tensor<1x1x1x32xi1>) -> tensor<1x4x1x16xbf16> {
  %k1 = coda.reshape %k : (tensor<1x2x32x16xbf16>) -> tensor<1x2x1x32x16xbf16>
  %k2 = torch.call "aten.expand.default"(%k1) {arguments = "{0}, [1, 2, 2, 32, 16]", view} : (tensor<1x2x1x32x16xbf16>) -> tensor<1x2x2x32x16xbf16>
  %k4 = coda.reshape %k2 : (tensor<1x2x2x32x16xbf16>) -> tensor<1x4x32x16xbf16>
  %v1 = coda.reshape %v : (tensor<1x1x32x16xbf16>) -> tensor<1x1x1x32x16xbf16>
  %v2 = torch.call "aten.expand.default"(%v1) {arguments = "{0}, [1, 1, 4, 32, 16]", view} : (tensor<1x1x1x32x16xbf16>) -> tensor<1x1x4x32x16xbf16>
  %v4 = coda.reshape %v2 : (tensor<1x1x4x32x16xbf16>) -> tensor<1x4x32x16xbf16>
  %y = torch.call "aten.scaled_dot_product_attention.default"(%q, %k4, %v4, %m) {arguments = "{0}, {1}, {2}, {3}, 0.0, False, scale=0.25"} : (tensor<1x4x1x16xbf16>, tensor<1x4x32x16xbf16>, tensor<1x4x32x16xbf16>, tensor<1x1x1x32xi1>) -> tensor<1x4x1x16xbf16>
  func.return %y : tensor<1x4x1x16xbf16>
}

// CHECK-LABEL: func.func @unlike(
// CHECK:         "aten.scaled_dot_product_attention.default"(%q, %k4, %v4, %m)
// MISSED: remark[missed] share-key-heads: torch.call: keys and values are shared by different heads

// -----

// More heads of queries than a tile has rows.

func.func @too_many(%q: tensor<1x32x1x16xbf16>, %k: tensor<1x1x32x16xbf16>, %v: tensor<1x1x32x16xbf16>, %m: tensor<1x1x1x32xi1>) -> tensor<1x32x1x16xbf16> {
  %k1 = coda.reshape %k : (tensor<1x1x32x16xbf16>) -> tensor<1x1x1x32x16xbf16>
  %k2 = torch.call "aten.expand.default"(%k1) {arguments = "{0}, [1, 1, 32, 32, 16]", view} : (tensor<1x1x1x32x16xbf16>) -> tensor<1x1x32x32x16xbf16>
  %k4 = coda.reshape %k2 : (tensor<1x1x32x32x16xbf16>) -> tensor<1x32x32x16xbf16>
  %v1 = coda.reshape %v : (tensor<1x1x32x16xbf16>) -> tensor<1x1x1x32x16xbf16>
  %v2 = torch.call "aten.expand.default"(%v1) {arguments = "{0}, [1, 1, 32, 32, 16]", view} : (tensor<1x1x1x32x16xbf16>) -> tensor<1x1x32x32x16xbf16>
  %v4 = coda.reshape %v2 : (tensor<1x1x32x32x16xbf16>) -> tensor<1x32x32x16xbf16>
  %y = torch.call "aten.scaled_dot_product_attention.default"(%q, %k4, %v4, %m) {arguments = "{0}, {1}, {2}, {3}, 0.0, False, scale=0.25"} : (tensor<1x32x1x16xbf16>, tensor<1x32x32x16xbf16>, tensor<1x32x32x16xbf16>, tensor<1x1x1x32xi1>) -> tensor<1x32x1x16xbf16>
  func.return %y : tensor<1x32x1x16xbf16>
}

// CHECK-LABEL: func.func @too_many(
// CHECK:         "aten.scaled_dot_product_attention.default"(%q, %k4, %v4, %m)
// MISSED: remark[missed] share-key-heads: torch.call: more query heads share a key head

// RUN: coda-opt %s -p share-key-heads,dce | filecheck %s
// RUN: coda-opt %s -p share-key-heads --remarks=passed -o /dev/null 2>&1 | filecheck %s --check-prefix=PASSED

// Four heads of queries, of which two share a head of keys: the cache is read where it is.

func.func @decode(%q: tensor<1x4x1x16xbf16>, %k: tensor<1x2x32x16xbf16>, %v: tensor<1x2x32x16xbf16>, %m: tensor<1x1x1x32xi1>) -> tensor<1x4x1x16xbf16> {
  %k1 = coda.reshape %k : (tensor<1x2x32x16xbf16>) -> tensor<1x2x1x32x16xbf16>
  %k2 = torch.call "aten.expand.default"(%k1) {arguments = "{0}, [1, 2, 2, 32, 16]", view} : (tensor<1x2x1x32x16xbf16>) -> tensor<1x2x2x32x16xbf16>
  %k4 = coda.reshape %k2 : (tensor<1x2x2x32x16xbf16>) -> tensor<1x4x32x16xbf16>
  %v1 = coda.reshape %v : (tensor<1x2x32x16xbf16>) -> tensor<1x2x1x32x16xbf16>
  %v2 = torch.call "aten.expand.default"(%v1) {arguments = "{0}, [1, 2, 2, 32, 16]", view} : (tensor<1x2x1x32x16xbf16>) -> tensor<1x2x2x32x16xbf16>
  %v4 = coda.reshape %v2 : (tensor<1x2x2x32x16xbf16>) -> tensor<1x4x32x16xbf16>
  %y = torch.call "aten.scaled_dot_product_attention.default"(%q, %k4, %v4, %m) {arguments = "{0}, {1}, {2}, {3}, 0.0, False, scale=0.25"} : (tensor<1x4x1x16xbf16>, tensor<1x4x32x16xbf16>, tensor<1x4x32x16xbf16>, tensor<1x1x1x32xi1>) -> tensor<1x4x1x16xbf16>
  func.return %y : tensor<1x4x1x16xbf16>
}

// CHECK-LABEL: func.func @decode(
// CHECK-NEXT:    %y = torch.call "aten.scaled_dot_product_attention.default"(%q, %k, %v, %m) {arguments = "{0}, {1}, {2}, {3}, 0.0, False, scale=0.25, enable_gqa=True"}
// CHECK-NEXT:    func.return %y

// PASSED: remark[passed] share-key-heads: torch.call: query heads share one copy of their keys

// The operands of the call are in another order than its arguments.

func.func @other_order(%q: tensor<1x4x1x16xbf16>, %k: tensor<1x2x32x16xbf16>, %v: tensor<1x2x32x16xbf16>, %m: tensor<1x1x1x32xi1>) -> tensor<1x4x1x16xbf16> {
  %k1 = coda.reshape %k : (tensor<1x2x32x16xbf16>) -> tensor<1x2x1x32x16xbf16>
  %k2 = torch.call "aten.expand.default"(%k1) {arguments = "{0}, [1, 2, 2, 32, 16]", view} : (tensor<1x2x1x32x16xbf16>) -> tensor<1x2x2x32x16xbf16>
  %k4 = coda.reshape %k2 : (tensor<1x2x2x32x16xbf16>) -> tensor<1x4x32x16xbf16>
  %v1 = coda.reshape %v : (tensor<1x2x32x16xbf16>) -> tensor<1x2x1x32x16xbf16>
  %v2 = torch.call "aten.expand.default"(%v1) {arguments = "{0}, [1, 2, 2, 32, 16]", view} : (tensor<1x2x1x32x16xbf16>) -> tensor<1x2x2x32x16xbf16>
  %v4 = coda.reshape %v2 : (tensor<1x2x2x32x16xbf16>) -> tensor<1x4x32x16xbf16>
  %y = torch.call "aten.scaled_dot_product_attention.default"(%q, %v4, %k4, %m) {arguments = "{0}, {2}, {1}, {3}, 0.0, False, scale=0.25"} : (tensor<1x4x1x16xbf16>, tensor<1x4x32x16xbf16>, tensor<1x4x32x16xbf16>, tensor<1x1x1x32xi1>) -> tensor<1x4x1x16xbf16>
  func.return %y : tensor<1x4x1x16xbf16>
}

// CHECK-LABEL: func.func @other_order(
// CHECK-NEXT:    %y = torch.call "aten.scaled_dot_product_attention.default"(%q, %k, %v, %m) {arguments = "{0}, {1}, {2}, {3}, 0.0, False, scale=0.25, enable_gqa=True"}

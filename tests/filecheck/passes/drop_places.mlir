// RUN: coda-opt %s -p drop-places --split-input-file | filecheck %s

// A maximum along a dimension before the last one, of PyTorch.

func.func @columns(%x: tensor<2x5x3xbf16>) -> tensor<2x1x3xbf16> {
  %v, %i = torch.call "aten.max.dim"(%x) {arguments = "{0}, 1, True"} : (tensor<2x5x3xbf16>) -> (tensor<2x1x3xbf16>, tensor<2x1x3xi64>)
  func.return %v : tensor<2x1x3xbf16>
}

// CHECK:      func.func @columns(
// CHECK-NEXT:   %0 = coda.transpose %x {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<2x5x3xbf16>) -> tensor<2x3x5xbf16>
// CHECK-NEXT:   %v = coda.reduce %0 {kind = "max"} : (tensor<2x3x5xbf16>) -> tensor<2x3x1xbf16>
// CHECK-NEXT:   %v_1 = coda.reshape %v : (tensor<2x3x1xbf16>) -> tensor<2x1x3xbf16>
// CHECK-NEXT:   func.return %v_1 : tensor<2x1x3xbf16>
// CHECK-NEXT: }

// -----

// The largest element of each row, without its dimension.

func.func @rows(%x: tensor<?x7xf32> {coda.dims = ["B", 7 : i64]}) -> tensor<?xf32> {
  %v, %i = torch.call "aten.max.dim"(%x) {arguments = "{0}, -1"} : (tensor<?x7xf32>) -> (tensor<?xf32>, tensor<?xi64>)
  func.return %v : tensor<?xf32>
}

// CHECK:      func.func @rows(
// CHECK-NEXT:   %v = coda.reduce %x {kind = "max"} : (tensor<?x7xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %v_1 = coda.reshape %v {coda.dims = ["B"]} : (tensor<?x1xf32>) -> tensor<?xf32>
// CHECK-NEXT:   func.return %v_1 : tensor<?xf32>
// CHECK-NEXT: }

// -----

// Several sizes that are not known.

func.func @symbols(%x: tensor<?x7x?xf32> {coda.dims = ["B", 7 : i64, "T"]}) -> tensor<?x?xf32> {
  %v, %i = torch.call "aten.max.dim"(%x) {arguments = "{0}, 1"} : (tensor<?x7x?xf32>) -> (tensor<?x?xf32>, tensor<?x?xi64>)
  func.return %v : tensor<?x?xf32>
}

// CHECK:      func.func @symbols(
// CHECK-NEXT:   %0 = coda.transpose %x {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<?x7x?xf32>) -> tensor<?x?x7xf32>
// CHECK-NEXT:   %v = coda.reduce %0 {kind = "max"} : (tensor<?x?x7xf32>) -> tensor<?x?x1xf32>
// CHECK-NEXT:   %v_1 = coda.reshape %v {coda.dims = ["B", "T"]} : (tensor<?x?x1xf32>) -> tensor<?x?xf32>
// CHECK-NEXT:   func.return %v_1 : tensor<?x?xf32>
// CHECK-NEXT: }

// -----

// The same as an operator.

func.func @one(%x: tensor<?x7xbf16>) -> tensor<?x1xbf16> {
  %v, %i = coda.topk %x {k = 1 : i64, dim = 1 : i64} : (tensor<?x7xbf16>) -> (tensor<?x1xbf16>, tensor<?x1xi64>)
  func.return %v : tensor<?x1xbf16>
}

// CHECK:      func.func @one(
// CHECK-NEXT:   %v = coda.reduce %x {kind = "max"} : (tensor<?x7xbf16>) -> tensor<?x1xbf16>
// CHECK-NEXT:   func.return %v : tensor<?x1xbf16>
// CHECK-NEXT: }

// -----

// The place is a result, there are two elements, the type is float64, or it leaves the 1 open.

func.func @others(%x: tensor<?x7xbf16>, %y: tensor<?x7xf64>) -> (tensor<?x1xbf16>, tensor<?x1xi64>, tensor<?x2xbf16>, tensor<?x1xf64>, tensor<?x?xbf16>) {
  %v, %i = coda.topk %x {k = 1 : i64, dim = 1 : i64} : (tensor<?x7xbf16>) -> (tensor<?x1xbf16>, tensor<?x1xi64>)
  %w, %j = coda.topk %x {k = 2 : i64, dim = 1 : i64} : (tensor<?x7xbf16>) -> (tensor<?x2xbf16>, tensor<?x2xi64>)
  %u, %k = torch.call "aten.max.dim"(%y) {arguments = "{0}, 1, True"} : (tensor<?x7xf64>) -> (tensor<?x1xf64>, tensor<?x1xi64>)
  %t, %l = torch.call "aten.max.dim"(%x) {arguments = "{0}, 1, True"} : (tensor<?x7xbf16>) -> (tensor<?x?xbf16>, tensor<?x?xi64>)
  func.return %v, %i, %w, %u, %t : tensor<?x1xbf16>, tensor<?x1xi64>, tensor<?x2xbf16>, tensor<?x1xf64>, tensor<?x?xbf16>
}

// CHECK:      func.func @others(
// CHECK-NEXT:   %v, %i = coda.topk %x {k = 1 : i64, dim = 1 : i64}
// CHECK-NEXT:   %w, %j = coda.topk %x {k = 2 : i64, dim = 1 : i64}
// CHECK-NEXT:   %u, %k = torch.call "aten.max.dim"(%y) {arguments = "{0}, 1, True"}
// CHECK-NEXT:   %t, %l = torch.call "aten.max.dim"(%x) {arguments = "{0}, 1, True"}
// CHECK-NEXT:   func.return %v, %i, %w, %u, %t
// CHECK-NEXT: }

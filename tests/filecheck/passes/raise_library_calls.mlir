// RUN: coda-opt %s -p raise-library-calls | filecheck %s

// Calls that an operator of the block level has the same meaning as.

func.func @router(%s: tensor<?x8xf32>, %zeros: tensor<?x8xf32>) -> (tensor<?x8xf32>, tensor<?x2xf32>) {
  %v, %i = torch.call "aten.topk.default"(%s) {arguments = "{0}, 2, -1, True, False"} : (tensor<?x8xf32>) -> (tensor<?x2xf32>, tensor<?x2xi64>)
  %d = torch.call "aten.scatter.src"(%zeros, %i, %v) {arguments = "{0}, 1, {1}, {2}"} : (tensor<?x8xf32>, tensor<?x2xi64>, tensor<?x2xf32>) -> tensor<?x8xf32>
  %g = torch.call "aten.gather.default"(%s, %i) {arguments = "{0}, -1, {1}"} : (tensor<?x8xf32>, tensor<?x2xi64>) -> tensor<?x2xf32>
  func.return %d, %g : tensor<?x8xf32>, tensor<?x2xf32>
}

// CHECK:      func.func @router(%s: tensor<?x8xf32>, %zeros: tensor<?x8xf32>) -> (tensor<?x8xf32>, tensor<?x2xf32>) {
// CHECK-NEXT:   %v, %i = coda.topk %s {k = 2 : i64, dim = 1 : i64} : (tensor<?x8xf32>) -> (tensor<?x2xf32>, tensor<?x2xi64>)
// CHECK-NEXT:   %d = coda.scatter %zeros, %i, %v {dim = 1 : i64} : (tensor<?x8xf32>, tensor<?x2xi64>, tensor<?x2xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %g = coda.gather %s, %i {dim = 1 : i64} : (tensor<?x8xf32>, tensor<?x2xi64>) -> tensor<?x2xf32>
// CHECK-NEXT:   func.return %d, %g : tensor<?x8xf32>, tensor<?x2xf32>
// CHECK-NEXT: }

func.func @in_order(%x: tensor<?x8xf32>) -> (tensor<?x8xf32>, tensor<?x8xi64>, tensor<?x8xf32>) {
  %v = torch.call "aten.sort.default"(%x) {arguments = "{0}, 0", positions = [0]} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %i = torch.call "aten.sort.stable"(%x) {arguments = "{0}, stable=True, dim=-1, descending=True", positions = [1]} : (tensor<?x8xf32>) -> tensor<?x8xi64>
  %c = torch.call "aten.cumsum.default"(%x) {arguments = "{0}, -1, dtype=torch.float32"} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  func.return %v, %i, %c : tensor<?x8xf32>, tensor<?x8xi64>, tensor<?x8xf32>
}

// CHECK:      func.func @in_order(%x: tensor<?x8xf32>) -> (tensor<?x8xf32>, tensor<?x8xi64>, tensor<?x8xf32>) {
// CHECK-NEXT:   %v, %0 = coda.sort %x {dim = 0 : i64, descending = false} : (tensor<?x8xf32>) -> (tensor<?x8xf32>, tensor<?x8xi64>)
// CHECK-NEXT:   %1, %i = coda.sort %x {dim = 1 : i64, descending = true} : (tensor<?x8xf32>) -> (tensor<?x8xf32>, tensor<?x8xi64>)
// CHECK-NEXT:   %c = coda.cumsum %x {dim = 1 : i64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   func.return %v, %i, %c : tensor<?x8xf32>, tensor<?x8xi64>, tensor<?x8xf32>
// CHECK-NEXT: }

func.func @rows(%x: tensor<?x8xf32>, %ids: tensor<?x5xi64>, %row: tensor<5xi64>) -> (tensor<?x5x8xf32>, tensor<?x5xf32>, tensor<?x5xf32>) {
  %r = torch.call "aten.index.Tensor"(%x, %ids) {arguments = "{0}, [{1}]"} : (tensor<?x8xf32>, tensor<?x5xi64>) -> tensor<?x5x8xf32>
  %c = torch.call "aten.index.Tensor"(%x, %row) {arguments = "{0}, [None, {1}]"} : (tensor<?x8xf32>, tensor<5xi64>) -> tensor<?x5xf32>
  %s = torch.call "aten.index_select.default"(%x, %row) {arguments = "{0}, 1, {1}"} : (tensor<?x8xf32>, tensor<5xi64>) -> tensor<?x5xf32>
  func.return %r, %c, %s : tensor<?x5x8xf32>, tensor<?x5xf32>, tensor<?x5xf32>
}

// CHECK:      func.func @rows(%x: tensor<?x8xf32>, %ids: tensor<?x5xi64>, %row: tensor<5xi64>) -> (tensor<?x5x8xf32>, tensor<?x5xf32>, tensor<?x5xf32>) {
// CHECK-NEXT:   %r = coda.index %x, %ids {dim = 0 : i64} : (tensor<?x8xf32>, tensor<?x5xi64>) -> tensor<?x5x8xf32>
// CHECK-NEXT:   %c = coda.index %x, %row {dim = 1 : i64} : (tensor<?x8xf32>, tensor<5xi64>) -> tensor<?x5xf32>
// CHECK-NEXT:   %s = coda.index %x, %row {dim = 1 : i64} : (tensor<?x8xf32>, tensor<5xi64>) -> tensor<?x5xf32>
// CHECK-NEXT:   func.return %r, %c, %s : tensor<?x5x8xf32>, tensor<?x5xf32>, tensor<?x5xf32>
// CHECK-NEXT: }

func.func @norms(%x: tensor<2x8x4x4xf32>, %w: tensor<8xf32>, %b: tensor<8xf32>) -> (tensor<2x8x4x4xf32>, tensor<2x8x4x4xf32>) {
  %n = torch.call "aten.native_group_norm.default"(%x, %w, %b) {arguments = "{0}, {1}, {2}, 2, 8, 16, 4, 1e-06", positions = [0]} : (tensor<2x8x4x4xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<2x8x4x4xf32>
  %m = torch.call "aten.group_norm.default"(%n) {arguments = "{0}, 2"} : (tensor<2x8x4x4xf32>) -> tensor<2x8x4x4xf32>
  func.return %n, %m : tensor<2x8x4x4xf32>, tensor<2x8x4x4xf32>
}

// CHECK:      func.func @norms(%x: tensor<2x8x4x4xf32>, %w: tensor<8xf32>, %b: tensor<8xf32>) -> (tensor<2x8x4x4xf32>, tensor<2x8x4x4xf32>) {
// CHECK-NEXT:   %n = coda.group_norm %x, %w, %b {groups = 4 : i64, eps = 1.000000e-06 : f64} : (tensor<2x8x4x4xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<2x8x4x4xf32>
// CHECK-NEXT:   %m = coda.group_norm %n {groups = 2 : i64, eps = 1.000000e-05 : f64} : (tensor<2x8x4x4xf32>) -> tensor<2x8x4x4xf32>
// CHECK-NEXT:   func.return %n, %m : tensor<2x8x4x4xf32>, tensor<2x8x4x4xf32>
// CHECK-NEXT: }

func.func @convolutions(%x: tensor<2x8x?xf32>, %w: tensor<6x4x3xf32>, %b: tensor<6xf32>, %i: tensor<2x3x8x8xf32>, %v: tensor<4x3x3x3xf32>) -> (tensor<2x6x?xf32>, tensor<2x4x8x8xf32>) {
  %c = torch.call "aten.conv1d.default"(%x, %w, %b) {arguments = "{0}, {1}, {2}, [1], [1], [1], 2"} : (tensor<2x8x?xf32>, tensor<6x4x3xf32>, tensor<6xf32>) -> tensor<2x6x?xf32>
  %d = torch.call "aten.convolution.default"(%i, %v) {arguments = "{0}, {1}, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1"} : (tensor<2x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<2x4x8x8xf32>
  func.return %c, %d : tensor<2x6x?xf32>, tensor<2x4x8x8xf32>
}

// CHECK:      func.func @convolutions(%x: tensor<2x8x?xf32>, %w: tensor<6x4x3xf32>, %b: tensor<6xf32>, %i: tensor<2x3x8x8xf32>, %v: tensor<4x3x3x3xf32>) -> (tensor<2x6x?xf32>, tensor<2x4x8x8xf32>) {
// CHECK-NEXT:   %c = coda.convolution %x, %w, %b {stride = [1 : i64], padding = [1 : i64], dilation = [1 : i64], groups = 2 : i64} : (tensor<2x8x?xf32>, tensor<6x4x3xf32>, tensor<6xf32>) -> tensor<2x6x?xf32>
// CHECK-NEXT:   %d = coda.convolution %i, %v {stride = [1 : i64, 1 : i64], padding = [1 : i64, 1 : i64], dilation = [1 : i64, 1 : i64], groups = 1 : i64} : (tensor<2x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<2x4x8x8xf32>
// CHECK-NEXT:   func.return %c, %d : tensor<2x6x?xf32>, tensor<2x4x8x8xf32>
// CHECK-NEXT: }

func.func @chosen_groups(%x: tensor<?x8xf32>, %i: tensor<?x2xi64>) -> tensor<?x8xf32> {
  %m = torch.call "aten.scatter.value"(%x, %i) {arguments = "{0}, 1, {1}, 1"} : (tensor<?x8xf32>, tensor<?x2xi64>) -> tensor<?x8xf32>
  func.return %m : tensor<?x8xf32>
}

// CHECK:      func.func @chosen_groups(%x: tensor<?x8xf32>, %i: tensor<?x2xi64>) -> tensor<?x8xf32> {
// CHECK-NEXT:   %0 = coda.constant {value = 1.000000e+00 : f64} : tensor<f32>
// CHECK-NEXT:   %1 = coda.broadcast %0, %i : (tensor<f32>, tensor<?x2xi64>) -> tensor<?x2xf32>
// CHECK-NEXT:   %m = coda.scatter %x, %i, %1 {dim = 1 : i64} : (tensor<?x8xf32>, tensor<?x2xi64>, tensor<?x2xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   func.return %m : tensor<?x8xf32>
// CHECK-NEXT: }

// Places that are stored where a permutation says: its inverse.

func.func @inverse(%e: tensor<?xi64>, %room: tensor<?xi64>) -> tensor<?xi64> {
  %sorted, %order = torch.call "aten.sort.stable"(%e) {arguments = "{0}, stable=True"} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
  %places = coda.positions %e {dim = 0 : i64, start = 0 : i64, step = 1 : i64} : (tensor<?xi64>) -> tensor<?xi64>
  %inverse = torch.call "aten.index_put.default"(%room, %order, %places) {arguments = "{0}, [{1}], {2}"} : (tensor<?xi64>, tensor<?xi64>, tensor<?xi64>) -> tensor<?xi64>
  func.return %inverse : tensor<?xi64>
}

// CHECK:      func.func @inverse(%e: tensor<?xi64>, %room: tensor<?xi64>) -> tensor<?xi64> {
// CHECK-NEXT:   %sorted, %order = coda.sort %e {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
// CHECK-NEXT:   %places = coda.positions %e {dim = 0 : i64, start = 0 : i64, step = 1 : i64} : (tensor<?xi64>) -> tensor<?xi64>
// CHECK-NEXT:   %inverse = coda.scatter %room, %order, %places {dim = 0 : i64} : (tensor<?xi64>, tensor<?xi64>, tensor<?xi64>) -> tensor<?xi64>
// CHECK-NEXT:   func.return %inverse : tensor<?xi64>
// CHECK-NEXT: }

func.func @largest(%s: tensor<?x8xf32>) -> (tensor<?x1xf32>, tensor<?x1xi64>) {
  %v, %i = torch.call "aten.max.dim"(%s) {arguments = "{0}, -1, True"} : (tensor<?x8xf32>) -> (tensor<?x1xf32>, tensor<?x1xi64>)
  func.return %v, %i : tensor<?x1xf32>, tensor<?x1xi64>
}

// CHECK:      func.func @largest(%s: tensor<?x8xf32>) -> (tensor<?x1xf32>, tensor<?x1xi64>) {
// CHECK-NEXT:   %v, %i = coda.topk %s {k = 1 : i64, dim = 1 : i64} : (tensor<?x8xf32>) -> (tensor<?x1xf32>, tensor<?x1xi64>)
// CHECK-NEXT:   func.return %v, %i : tensor<?x1xf32>, tensor<?x1xi64>
// CHECK-NEXT: }

// RUN: coda-opt %s -p raise-library-calls --split-input-file | filecheck %s
// RUN: coda-opt %s -p raise-library-calls --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// Options that no operator has, and arguments that are sizes.

func.func @smallest(%s: tensor<?x8xf32>) -> tensor<?x2xf32> {
  %v = torch.call "aten.topk.default"(%s) {arguments = "{0}, 2, -1, False", positions = [0]} : (tensor<?x8xf32>) -> tensor<?x2xf32>
  func.return %v : tensor<?x2xf32>
}

// CHECK:      func.func @smallest(%s: tensor<?x8xf32>) -> tensor<?x2xf32> {
// CHECK-NEXT:   %v = torch.call "aten.topk.default"(%s) {arguments = "{0}, 2, -1, False", positions = [0 : i64]} : (tensor<?x8xf32>) -> tensor<?x2xf32>
// CHECK-NEXT:   func.return %v : tensor<?x2xf32>
// CHECK-NEXT: }

// REMARK: remark[missed] raise-library-calls: torch.call: aten.topk.default: it takes the smallest elements; failed condition: an operator of the block level has the same meaning; costs 32*d0 + 8*d1 bytes
// REMARK:   help: take the largest of -x, and negate them

// -----

func.func @largest(%s: tensor<?x1024xf32>) -> tensor<?x1xi64> {
  %v, %i = torch.call "aten.max.dim"(%s) {arguments = "{0}, -1, True"} : (tensor<?x1024xf32>) -> (tensor<?x1xf32>, tensor<?x1xi64>)
  func.return %i : tensor<?x1xi64>
}

// CHECK:      func.func @largest(%s: tensor<?x1024xf32>) -> tensor<?x1xi64> {
// CHECK-NEXT:   %v, %i = torch.call "aten.max.dim"(%s) {arguments = "{0}, -1, True"} : (tensor<?x1024xf32>) -> (tensor<?x1xf32>, tensor<?x1xi64>)
// CHECK-NEXT:   func.return %i : tensor<?x1xi64>
// CHECK-NEXT: }

// REMARK: remark[missed] raise-library-calls: torch.call: aten.max.dim: PyTorch's topk may take another one of several largest elements; failed condition: an operator of the block level has the same meaning; costs 4096*d0 + 4*d1 + 8*d2 bytes

// -----

func.func @columns(%s: tensor<?x8xf32>, %ids: tensor<2x2xi64>) -> tensor<2x2xf32> {
  %v = torch.call "aten.gather.default"(%s, %ids) {arguments = "{0}, 0, {1}"} : (tensor<?x8xf32>, tensor<2x2xi64>) -> tensor<2x2xf32>
  func.return %v : tensor<2x2xf32>
}

// CHECK:      func.func @columns(%s: tensor<?x8xf32>, %ids: tensor<2x2xi64>) -> tensor<2x2xf32> {
// CHECK-NEXT:   %v = torch.call "aten.gather.default"(%s, %ids) {arguments = "{0}, 0, {1}"} : (tensor<?x8xf32>, tensor<2x2xi64>) -> tensor<2x2xf32>
// CHECK-NEXT:   func.return %v : tensor<2x2xf32>
// CHECK-NEXT: }

// REMARK: remark[missed] raise-library-calls: torch.call: aten.gather.default: operand ids has shape 2x2, expected 2x8; failed condition: an operator of the block level has the same meaning; costs 32*d0 + 48 bytes

// -----

func.func @two_dimensions(%x: tensor<4x8xf32>, %a: tensor<5xi64>, %b: tensor<5xi64>) -> tensor<5xf32> {
  %v = torch.call "aten.index.Tensor"(%x, %a, %b) {arguments = "{0}, [{1}, {2}]"} : (tensor<4x8xf32>, tensor<5xi64>, tensor<5xi64>) -> tensor<5xf32>
  func.return %v : tensor<5xf32>
}

// CHECK:      func.func @two_dimensions(%x: tensor<4x8xf32>, %a: tensor<5xi64>, %b: tensor<5xi64>) -> tensor<5xf32> {
// CHECK-NEXT:   %v = torch.call "aten.index.Tensor"(%x, %a, %b) {arguments = "{0}, [{1}, {2}]"} : (tensor<4x8xf32>, tensor<5xi64>, tensor<5xi64>) -> tensor<5xf32>
// CHECK-NEXT:   func.return %v : tensor<5xf32>
// CHECK-NEXT: }

// REMARK: remark[missed] raise-library-calls: torch.call: aten.index.Tensor: several dimensions are indexed by tensors; failed condition: an operator of the block level has the same meaning; costs 228 bytes

// -----

func.func @wider(%x: tensor<?x8xf32>) -> tensor<?x8xf64> {
  %v = torch.call "aten.cumsum.default"(%x) {arguments = "{0}, 1, dtype=torch.float64"} : (tensor<?x8xf32>) -> tensor<?x8xf64>
  func.return %v : tensor<?x8xf64>
}

// CHECK:      func.func @wider(%x: tensor<?x8xf32>) -> tensor<?x8xf64> {
// CHECK-NEXT:   %v = torch.call "aten.cumsum.default"(%x) {arguments = "{0}, 1, dtype=torch.float64"} : (tensor<?x8xf32>) -> tensor<?x8xf64>
// CHECK-NEXT:   func.return %v : tensor<?x8xf64>
// CHECK-NEXT: }

// REMARK: remark[missed] raise-library-calls: torch.call: aten.cumsum.default: it converts its operand; failed condition: an operator of the block level has the same meaning; costs 32*d0 + 64*d1 bytes
// REMARK:   help: convert it first: x.to(dtype).cumsum(dim)

// -----

func.func @statistics(%x: tensor<2x8x4x4xf32>) -> tensor<2x4xf32> {
  %m = torch.call "aten.native_group_norm.default"(%x) {arguments = "{0}, None, None, 2, 8, 16, 4, 1e-06", positions = [1]} : (tensor<2x8x4x4xf32>) -> tensor<2x4xf32>
  func.return %m : tensor<2x4xf32>
}

// CHECK:      func.func @statistics(%x: tensor<2x8x4x4xf32>) -> tensor<2x4xf32> {
// CHECK-NEXT:   %m = torch.call "aten.native_group_norm.default"(%x) {arguments = "{0}, None, None, 2, 8, 16, 4, 1e-06", positions = [1 : i64]} : (tensor<2x8x4x4xf32>) -> tensor<2x4xf32>
// CHECK-NEXT:   func.return %m : tensor<2x4xf32>
// CHECK-NEXT: }

// REMARK: remark[missed] raise-library-calls: torch.call: aten.native_group_norm.default: its results differ in number or type; failed condition: an operator of the block level has the same meaning; costs 1056 bytes

// -----

func.func @weight_alone(%x: tensor<2x8x4x4xf32>, %w: tensor<8xf32>) -> tensor<2x8x4x4xf32> {
  %n = torch.call "aten.group_norm.default"(%x, %w) {arguments = "{0}, 2, {1}"} : (tensor<2x8x4x4xf32>, tensor<8xf32>) -> tensor<2x8x4x4xf32>
  func.return %n : tensor<2x8x4x4xf32>
}

// CHECK:      func.func @weight_alone(%x: tensor<2x8x4x4xf32>, %w: tensor<8xf32>) -> tensor<2x8x4x4xf32> {
// CHECK-NEXT:   %n = torch.call "aten.group_norm.default"(%x, %w) {arguments = "{0}, 2, {1}"} : (tensor<2x8x4x4xf32>, tensor<8xf32>) -> tensor<2x8x4x4xf32>
// CHECK-NEXT:   func.return %n : tensor<2x8x4x4xf32>
// CHECK-NEXT: }

// REMARK: remark[missed] raise-library-calls: torch.call: aten.group_norm.default: it has only one of weight and bias; failed condition: an operator of the block level has the same meaning; costs 2080 bytes

// -----

func.func @size(%x: tensor<?x8xf32> {coda.dims = ["M", 8 : i64]}, %y: tensor<?xf32> {coda.dims = ["K"]}) -> tensor<?x?xf32> {
  %v = torch.call "aten.topk.default"(%x) {arguments = "{0}, K", positions = [0], coda.dims = ["M", "K"]} : (tensor<?x8xf32>) -> tensor<?x?xf32>
  func.return %v : tensor<?x?xf32>
}

// CHECK:      func.func @size(%x: tensor<?x8xf32> {coda.dims = ["M", 8 : i64]}, %y: tensor<?xf32> {coda.dims = ["K"]}) -> tensor<?x?xf32> {
// CHECK-NEXT:   %v = torch.call "aten.topk.default"(%x) {coda.dims = ["M", "K"], arguments = "{0}, K", positions = [0 : i64]} : (tensor<?x8xf32>) -> tensor<?x?xf32>
// CHECK-NEXT:   func.return %v : tensor<?x?xf32>
// CHECK-NEXT: }

// REMARK: remark[missed] raise-library-calls: torch.call: aten.topk.default: an argument depends on a size; failed condition: an operator of the block level has the same meaning; costs 4*K*M + 32*M bytes

// -----

func.func @transposed(%x: tensor<2x8x5xf32>, %w: tensor<8x6x3xf32>) -> tensor<2x6x7xf32> {
  %c = torch.call "aten.convolution.default"(%x, %w) {arguments = "{0}, {1}, None, [1], [0], [1], True, [0], 1"} : (tensor<2x8x5xf32>, tensor<8x6x3xf32>) -> tensor<2x6x7xf32>
  func.return %c : tensor<2x6x7xf32>
}

// CHECK:      func.func @transposed(%x: tensor<2x8x5xf32>, %w: tensor<8x6x3xf32>) -> tensor<2x6x7xf32> {
// CHECK-NEXT:   %c = torch.call "aten.convolution.default"(%x, %w) {arguments = "{0}, {1}, None, [1], [0], [1], True, [0], 1"} : (tensor<2x8x5xf32>, tensor<8x6x3xf32>) -> tensor<2x6x7xf32>
// CHECK-NEXT:   func.return %c : tensor<2x6x7xf32>
// CHECK-NEXT: }

// REMARK: remark[missed] raise-library-calls: torch.call: aten.convolution.default: it is transposed; failed condition: an operator of the block level has the same meaning; costs 1232 bytes

// -----

// Places that ids may name twice: no candidate.

func.func @places(%x: tensor<?xf32>, %ids: tensor<?xi64>, %values: tensor<?xf32>) -> tensor<?xf32> {
  %y = torch.call "aten.index_put.default"(%x, %ids, %values) {arguments = "{0}, [{1}], {2}"} : (tensor<?xf32>, tensor<?xi64>, tensor<?xf32>) -> tensor<?xf32>
  func.return %y : tensor<?xf32>
}

// CHECK:      func.func @places(%x: tensor<?xf32>, %ids: tensor<?xi64>, %values: tensor<?xf32>) -> tensor<?xf32> {
// CHECK-NEXT:   %y = torch.call "aten.index_put.default"(%x, %ids, %values) {arguments = "{0}, [{1}], {2}"} : (tensor<?xf32>, tensor<?xi64>, tensor<?xf32>) -> tensor<?xf32>
// CHECK-NEXT:   func.return %y : tensor<?xf32>
// CHECK-NEXT: }

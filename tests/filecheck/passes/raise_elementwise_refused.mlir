// RUN: coda-opt %s -p raise-elementwise | filecheck %s
// RUN: coda-opt %s -p raise-elementwise --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// PyTorch compares in the type of what has dimensions, options are no defaults, numbers are not whole, float64 has no kernels.

func.func @f(%x: tensor<?x8xf32> {coda.dims = ["M", 8 : i64]}, %b: tensor<bf16>, %n: tensor<?x8xi64> {coda.dims = ["M", 8 : i64]}) -> (tensor<?x8xi1>, tensor<?x8xf32>, tensor<?x8xi1>, tensor<?xf32>, tensor<?xi64>) {
  %c = torch.call "aten.gt.Tensor"(%x, %b) {arguments = "{0}, {1}"} : (tensor<?x8xf32>, tensor<bf16>) -> tensor<?x8xi1>
  %s = torch.call "aten.softplus.default"(%x) {arguments = "{0}, 1, 10"} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %m = torch.call "aten.gt.Scalar"(%n) {arguments = "{0}, 0.5"} : (tensor<?x8xi64>) -> tensor<?x8xi1>
  %p = torch.call "aten.arange.start_step"() {coda.dims = ["M"], arguments = "0.5, M, dtype=torch.float32"} : () -> tensor<?xf32>
  %q = torch.call "aten.arange.start_step"() {coda.dims = ["2*M"], arguments = "0, 2*M"} : () -> tensor<?xi64>
  func.return %c, %s, %m, %p, %q : tensor<?x8xi1>, tensor<?x8xf32>, tensor<?x8xi1>, tensor<?xf32>, tensor<?xi64>
}

// CHECK-LABEL: func.func @f(%x: tensor<?x8xf32> {coda.dims = ["M", 8 : i64]}, %b: tensor<bf16>, %n: tensor<?x8xi64> {coda.dims = ["M", 8 : i64]}) -> (tensor<?x8xi1>, tensor<?x8xf32>, tensor<?x8xi1>, tensor<?xf32>, tensor<?xi64>) {
// CHECK-NEXT:   %c = torch.call "aten.gt.Tensor"(%x, %b) {arguments = "{0}, {1}"} : (tensor<?x8xf32>, tensor<bf16>) -> tensor<?x8xi1>
// CHECK-NEXT:   %s = torch.call "aten.softplus.default"(%x) {arguments = "{0}, 1, 10"} : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %m = torch.call "aten.gt.Scalar"(%n) {arguments = "{0}, 0.5"} : (tensor<?x8xi64>) -> tensor<?x8xi1>
// CHECK-NEXT:   %p = torch.call "aten.arange.start_step"() {coda.dims = ["M"], arguments = "0.5, M, dtype=torch.float32"} : () -> tensor<?xf32>
// CHECK-NEXT:   %q = torch.call "aten.arange.start_step"() {coda.dims = ["2*M"], arguments = "0, 2*M"} : () -> tensor<?xi64>
// CHECK-NEXT:   func.return %c, %s, %m, %p, %q : tensor<?x8xi1>, tensor<?x8xf32>, tensor<?x8xi1>, tensor<?xf32>, tensor<?xi64>
// CHECK-NEXT: }

// Exponents with more digits, and bits of numbers.

func.func @g(%x: tensor<f32>, %b: tensor<4x8xbf16>, %n: tensor<4x8xi64>) -> (tensor<4x8xbf16>, tensor<4x8xi64>) {
  %p = torch.call "aten.pow.Tensor_Tensor"(%b, %x) {arguments = "{0}, {1}"} : (tensor<4x8xbf16>, tensor<f32>) -> tensor<4x8xbf16>
  %a = torch.call "aten.bitwise_and.Tensor"(%n, %n) {arguments = "{0}, {1}"} : (tensor<4x8xi64>, tensor<4x8xi64>) -> tensor<4x8xi64>
  func.return %p, %a : tensor<4x8xbf16>, tensor<4x8xi64>
}

// CHECK:      func.func @g(%x: tensor<f32>, %b: tensor<4x8xbf16>, %n: tensor<4x8xi64>) -> (tensor<4x8xbf16>, tensor<4x8xi64>) {
// CHECK-NEXT:   %p = torch.call "aten.pow.Tensor_Tensor"(%b, %x) {arguments = "{0}, {1}"} : (tensor<4x8xbf16>, tensor<f32>) -> tensor<4x8xbf16>
// CHECK-NEXT:   %a = torch.call "aten.bitwise_and.Tensor"(%n, %n) {arguments = "{0}, {1}"} : (tensor<4x8xi64>, tensor<4x8xi64>) -> tensor<4x8xi64>
// CHECK-NEXT:   func.return %p, %a : tensor<4x8xbf16>, tensor<4x8xi64>
// CHECK-NEXT: }

// Results of another type than that of the operator, with a size or without one, and products of more terms.

func.func @other_types(%x: tensor<4xbf16>, %t: tensor<?xf32> {coda.dims = ["T"]}, %a: tensor<4x8xi32>, %b: tensor<8x4xi64>) -> (tensor<?xbf16>, tensor<?xbf16>, tensor<4x4xi64>) {
  %s = torch.call "aten.add.Tensor"(%x) {arguments = "{0}, T"} : (tensor<4xbf16>) -> tensor<?xbf16>
  %n = torch.call "aten.add.Tensor"(%x) {arguments = "{0}, 2"} : (tensor<4xbf16>) -> tensor<?xbf16>
  %p = torch.call "aten.matmul.default"(%a, %b) {arguments = "{0}, {1}"} : (tensor<4x8xi32>, tensor<8x4xi64>) -> tensor<4x4xi64>
  func.return %s, %n, %p : tensor<?xbf16>, tensor<?xbf16>, tensor<4x4xi64>
}

// CHECK:      func.func @other_types(%x: tensor<4xbf16>, %t: tensor<?xf32> {coda.dims = ["T"]}, %a: tensor<4x8xi32>, %b: tensor<8x4xi64>) -> (tensor<?xbf16>, tensor<?xbf16>, tensor<4x4xi64>) {
// CHECK-NEXT:   %s = torch.call "aten.add.Tensor"(%x) {arguments = "{0}, T"} : (tensor<4xbf16>) -> tensor<?xbf16>
// CHECK-NEXT:   %n = torch.call "aten.add.Tensor"(%x) {arguments = "{0}, 2"} : (tensor<4xbf16>) -> tensor<?xbf16>
// CHECK-NEXT:   %p = torch.call "aten.matmul.default"(%a, %b) {arguments = "{0}, {1}"} : (tensor<4x8xi32>, tensor<8x4xi64>) -> tensor<4x4xi64>
// CHECK-NEXT:   func.return %s, %n, %p : tensor<?xbf16>, tensor<?xbf16>, tensor<4x4xi64>
// CHECK-NEXT: }

// Elements from the second row on, and the same element twice.

func.func @not_in_order(%x: tensor<6x8xi64>) -> (tensor<4x1x8xi64>, tensor<8xi64>) {
  %r = torch.call "aten.arange.start"() {arguments = "1, 5"} : () -> tensor<4xi64>
  %rows = coda.reshape %r : (tensor<4xi64>) -> tensor<4x1x1xi64>
  %c = torch.call "aten.arange.default"() {arguments = "8"} : () -> tensor<8xi64>
  %later = torch.call "aten.index.Tensor"(%x, %rows, %c) {arguments = "{0}, [{1}, {2}]"} : (tensor<6x8xi64>, tensor<4x1x1xi64>, tensor<8xi64>) -> tensor<4x1x8xi64>
  %zero = torch.call "aten.sub.Tensor"(%c, %c) {arguments = "{0}, {1}"} : (tensor<8xi64>, tensor<8xi64>) -> tensor<8xi64>
  %first = torch.call "aten.index.Tensor"(%x, %zero, %c) {arguments = "{0}, [{1}, {2}]"} : (tensor<6x8xi64>, tensor<8xi64>, tensor<8xi64>) -> tensor<8xi64>
  func.return %later, %first : tensor<4x1x8xi64>, tensor<8xi64>
}

// CHECK:      func.func @not_in_order(%x: tensor<6x8xi64>) -> (tensor<4x1x8xi64>, tensor<8xi64>) {
// CHECK-NEXT:   %r = coda.positions {start = 1 : i64, step = 1 : i64} : () -> tensor<4xi64>
// CHECK-NEXT:   %rows = coda.reshape %r : (tensor<4xi64>) -> tensor<4x1x1xi64>
// CHECK-NEXT:   %c = coda.positions {start = 0 : i64, step = 1 : i64} : () -> tensor<8xi64>
// CHECK-NEXT:   %later = torch.call "aten.index.Tensor"(%x, %rows, %c) {arguments = "{0}, [{1}, {2}]"} : (tensor<6x8xi64>, tensor<4x1x1xi64>, tensor<8xi64>) -> tensor<4x1x8xi64>
// CHECK-NEXT:   %zero = coda.sub %c, %c : (tensor<8xi64>, tensor<8xi64>) -> tensor<8xi64>
// CHECK-NEXT:   %first = torch.call "aten.index.Tensor"(%x, %zero, %c) {arguments = "{0}, [{1}, {2}]"} : (tensor<6x8xi64>, tensor<8xi64>, tensor<8xi64>) -> tensor<8xi64>
// CHECK-NEXT:   func.return %later, %first : tensor<4x1x8xi64>, tensor<8xi64>
// CHECK-NEXT: }

// Means over open extents and other norms stay as they are.

func.func @h(%x: tensor<?x?x8xf32> {coda.dims = ["B", "T", 8 : i64]}) -> (tensor<?x8xf32>, tensor<?x?xf32>, tensor<8xf32>) {
  %a = torch.call "aten.mean.dim"(%x) {arguments = "{0}, [1]", coda.dims = ["B", 8 : i64]} : (tensor<?x?x8xf32>) -> tensor<?x8xf32>
  %b = torch.call "aten.linalg_vector_norm.default"(%x) {arguments = "{0}, 1, [-1]", coda.dims = ["B", "T"]} : (tensor<?x?x8xf32>) -> tensor<?x?xf32>
  %d = torch.call "aten.mean.dim"(%x) {arguments = "{0}, [0, 1]", coda.dims = [8 : i64]} : (tensor<?x?x8xf32>) -> tensor<8xf32>
  func.return %a, %b, %d : tensor<?x8xf32>, tensor<?x?xf32>, tensor<8xf32>
}

// CHECK:      func.func @h(%x: tensor<?x?x8xf32> {coda.dims = ["B", "T", 8 : i64]}) -> (tensor<?x8xf32>, tensor<?x?xf32>, tensor<8xf32>) {
// CHECK-NEXT:   %a = torch.call "aten.mean.dim"(%x) {coda.dims = ["B", 8 : i64], arguments = "{0}, [1]"} : (tensor<?x?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %b = torch.call "aten.linalg_vector_norm.default"(%x) {coda.dims = ["B", "T"], arguments = "{0}, 1, [-1]"} : (tensor<?x?x8xf32>) -> tensor<?x?xf32>
// CHECK-NEXT:   %d = torch.call "aten.mean.dim"(%x) {coda.dims = [8 : i64], arguments = "{0}, [0, 1]"} : (tensor<?x?x8xf32>) -> tensor<8xf32>
// CHECK-NEXT:   func.return %a, %b, %d : tensor<?x8xf32>, tensor<?x?xf32>, tensor<8xf32>
// CHECK-NEXT: }

// A size has 64 bits, of which PyTorch drops some.

func.func @narrow_integers(%x: tensor<?x8xi32> {coda.dims = ["T", 8 : i64]}) -> tensor<?x8xi32> {
  %y = torch.call "aten.mul.Tensor"(%x) {arguments = "{0}, T"} : (tensor<?x8xi32>) -> tensor<?x8xi32>
  func.return %y : tensor<?x8xi32>
}

// REMARK: remark[missed] raise-elementwise: torch.call: aten.gt.Tensor remains a call of PyTorch: its arguments are f32, bf16; failed condition: PyTorch converts its operands exactly, and its options have counterparts; costs 32*M + 8*d0 + 2 bytes
// REMARK: remark[missed] raise-elementwise: torch.call: aten.softplus.default remains a call of PyTorch: its arguments are f32, 1, 10; failed condition: PyTorch converts its operands exactly, and its options have counterparts; costs 32*M + 32*d1 bytes
// REMARK: remark[missed] raise-elementwise: torch.call: aten.gt.Scalar remains a call of PyTorch: its arguments are i64, 0.5; failed condition: PyTorch converts its operands exactly, and its options have counterparts; costs 64*M + 8*d2 bytes
// REMARK: remark[missed] raise-elementwise: torch.call: aten.arange.start_step remains a call of PyTorch: its arguments are 0.5, M, dtype=torch.float32; failed condition: its numbers are integers, as many as a dimension of an argument has elements; costs 4*M bytes
// REMARK: remark[missed] raise-elementwise: torch.call: aten.arange.start_step remains a call of PyTorch: its arguments are 0, 2*M; failed condition: its numbers are integers, as many as a dimension of an argument has elements; costs 16*M bytes
// REMARK: remark[missed] raise-elementwise: torch.call: aten.pow.Tensor_Tensor remains a call of PyTorch: its arguments are bf16, f32; failed condition: PyTorch converts its operands exactly, and its options have counterparts; costs 132 bytes
// REMARK: remark[missed] raise-elementwise: torch.call: aten.bitwise_and.Tensor remains a call of PyTorch: its arguments are i64, i64; failed condition: PyTorch converts its operands exactly, and its options have counterparts; costs 512 bytes
// REMARK: remark[missed] raise-elementwise: torch.call: aten.mul.Tensor remains a call of PyTorch: its arguments are i32, T; failed condition: PyTorch converts its operands exactly, and its options have counterparts; costs 32*T + 32*d0 bytes

// RUN: coda-opt %s -p raise-elementwise,dce --split-input-file | filecheck %s

// Operators of PyTorch on activations have counterparts; numbers become constants.

func.func @f(%x: tensor<?x8xf32> {coda.dims = ["M", 8 : i64]}, %mask: tensor<?x8xi1> {coda.dims = ["M", 8 : i64]}) -> tensor<?x8xf32> {
  %c = torch.call "aten.gt.Scalar"(%x) {arguments = "{0}, 0.5"} : (tensor<?x8xf32>) -> tensor<?x8xi1>
  %both = torch.call "aten.bitwise_and.Tensor"(%c, %mask) {arguments = "{0}, {1}"} : (tensor<?x8xi1>, tensor<?x8xi1>) -> tensor<?x8xi1>
  %s = torch.call "aten.softplus.default"(%x) {arguments = "{0}"} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %e = torch.call "aten.elu.default"(%s) {arguments = "{0}, 0.5"} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %zero = torch.call "aten.scalar_tensor.default"() {arguments = "0.0, dtype=torch.float32, device=device"} : () -> tensor<f32>
  %y = torch.call "aten.where.self"(%both, %e, %zero) {arguments = "{0}, {1}, {2}"} : (tensor<?x8xi1>, tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  %n = torch.call "aten._to_copy.default"(%both) {arguments = "{0}, dtype=torch.float32"} : (tensor<?x8xi1>) -> tensor<?x8xf32>
  %z = torch.call "aten.masked_fill.Scalar"(%n, %mask) {arguments = "{0}, {1}, 2"} : (tensor<?x8xf32>, tensor<?x8xi1>) -> tensor<?x8xf32>
  %r = coda.add %y, %z : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  func.return %r : tensor<?x8xf32>
}

// CHECK-LABEL: func.func @f(
// CHECK-NEXT:   %0 = coda.constant {value = 5.000000e-01 : f64} : tensor<f32>
// CHECK-NEXT:   %c = coda.compare %x, %0 {relation = "gt"} : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xi1>
// CHECK-NEXT:   %both = coda.logical_and %c, %mask : (tensor<?x8xi1>, tensor<?x8xi1>) -> tensor<?x8xi1>
// CHECK-NEXT:   %s = coda.softplus %x : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %e = coda.elu %s {alpha = 5.000000e-01 : f64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %zero = coda.constant {value = 0.000000e+00 : f64} : tensor<f32>
// CHECK-NEXT:   %y = coda.where %both, %e, %zero : (tensor<?x8xi1>, tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %n = coda.cast %both : (tensor<?x8xi1>) -> tensor<?x8xf32>
// CHECK-NEXT:   %1 = coda.constant {value = 2.000000e+00 : f64} : tensor<f32>
// CHECK-NEXT:   %z = coda.where %mask, %1, %n : (tensor<?x8xi1>, tensor<f32>, tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %r = coda.add %y, %z : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   func.return %r : tensor<?x8xf32>
// CHECK-NEXT: }

// -----

// Positions, masks and tables of them: kernels compute these where they need them.

func.func @table(%x: tensor<?x?x8xf32> {coda.dims = ["B", "T", 8 : i64]}, %frequencies: tensor<4xf32>) -> (tensor<?x4xf32>, tensor<?x8xi1>) {
  %p = torch.call "aten.arange.start_step"() {coda.dims = ["T"], arguments = "0, T, layout=torch.strided, device=device, pin_memory=False"} : () -> tensor<?xi64>
  %column = coda.reshape %p {coda.dims = ["T", 1 : i64]} : (tensor<?xi64>) -> tensor<?x1xi64>
  %f = torch.call "aten._to_copy.default"(%column) {coda.dims = ["T", 1 : i64], arguments = "{0}, dtype=torch.float32"} : (tensor<?x1xi64>) -> tensor<?x1xf32>
  %row = coda.reshape %frequencies : (tensor<4xf32>) -> tensor<1x4xf32>
  %angles = torch.call "aten.matmul.default"(%f, %row) {coda.dims = ["T", 4 : i64], arguments = "{0}, {1}"} : (tensor<?x1xf32>, tensor<1x4xf32>) -> tensor<?x4xf32>
  %cos = torch.call "aten.cos.default"(%angles) {coda.dims = ["T", 4 : i64], arguments = "{0}"} : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %c = torch.call "aten.arange.start_step"() {arguments = "1, 17, 2, dtype=torch.int32"} : () -> tensor<8xi32>
  %earlier = torch.call "aten.add.Tensor"(%column) {coda.dims = ["T", 1 : i64], arguments = "{0}, -3"} : (tensor<?x1xi64>) -> tensor<?x1xi64>
  %seen = torch.call "aten.le.Tensor"(%earlier, %c) {coda.dims = ["T", 8 : i64], arguments = "{0}, {1}"} : (tensor<?x1xi64>, tensor<8xi32>) -> tensor<?x8xi1>
  %all = torch.call "aten.full.default"() {coda.dims = ["T", 8 : i64], arguments = "[T, 8], True, dtype=torch.bool"} : () -> tensor<?x8xi1>
  %mask = torch.call "aten.bitwise_and.Tensor"(%seen, %all) {coda.dims = ["T", 8 : i64], arguments = "{0}, {1}"} : (tensor<?x8xi1>, tensor<?x8xi1>) -> tensor<?x8xi1>
  func.return %cos, %mask : tensor<?x4xf32>, tensor<?x8xi1>
}

// CHECK-LABEL: func.func @table(%x: tensor<?x?x8xf32> {coda.dims = ["B", "T", 8 : i64]}, %frequencies: tensor<4xf32>) -> (tensor<?x4xf32>, tensor<?x8xi1>) {
// CHECK-NEXT:   %p = coda.positions %x {dim = 1 : i64, start = 0 : i64, step = 1 : i64} : (tensor<?x?x8xf32>) -> tensor<?xi64>
// CHECK-NEXT:   %column = coda.reshape %p {coda.dims = ["T", 1 : i64]} : (tensor<?xi64>) -> tensor<?x1xi64>
// CHECK-NEXT:   %f = coda.cast %column : (tensor<?x1xi64>) -> tensor<?x1xf32>
// CHECK-NEXT:   %row = coda.reshape %frequencies : (tensor<4xf32>) -> tensor<1x4xf32>
// CHECK-NEXT:   %angles = coda.mul %f, %row : (tensor<?x1xf32>, tensor<1x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   %cos = coda.cos %angles : (tensor<?x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   %c = coda.positions {start = 1 : i64, step = 2 : i64} : () -> tensor<8xi32>
// CHECK-NEXT:   %0 = coda.constant {value = -3 : i64} : tensor<i64>
// CHECK-NEXT:   %earlier = coda.add %column, %0 : (tensor<?x1xi64>, tensor<i64>) -> tensor<?x1xi64>
// CHECK-NEXT:   %1 = coda.cast %c : (tensor<8xi32>) -> tensor<8xi64>
// CHECK-NEXT:   %seen = coda.compare %earlier, %1 {relation = "le"} : (tensor<?x1xi64>, tensor<8xi64>) -> tensor<?x8xi1>
// CHECK-NEXT:   %2 = coda.constant {value = 1 : i64} : tensor<i1>
// CHECK-NEXT:   %mask = coda.logical_and %seen, %2 : (tensor<?x8xi1>, tensor<i1>) -> tensor<?x8xi1>
// CHECK-NEXT:   func.return %cos, %mask : tensor<?x4xf32>, tensor<?x8xi1>
// CHECK-NEXT: }

// -----

// Elements from the first one on along some dimensions are slices.

func.func @first_rows(%x: tensor<6x8xi64>, %y: tensor<?x?xf32> {coda.dims = ["B", "T"]}) -> (tensor<4x1x8xi64>, tensor<?x1x1x?xf32>) {
  %r = torch.call "aten.arange.default"() {arguments = "4"} : () -> tensor<4xi64>
  %rows = coda.reshape %r : (tensor<4xi64>) -> tensor<4x1x1xi64>
  %c = torch.call "aten.arange.start"() {arguments = "-2, 6"} : () -> tensor<8xi64>
  %columns = torch.call "aten.add.Tensor"(%c) {arguments = "{0}, 2"} : (tensor<8xi64>) -> tensor<8xi64>
  %view = torch.call "aten.index.Tensor"(%x, %rows, %columns) {arguments = "{0}, [{1}, {2}]"} : (tensor<6x8xi64>, tensor<4x1x1xi64>, tensor<8xi64>) -> tensor<4x1x8xi64>
  %b = torch.call "aten.arange.default"() {coda.dims = ["B"], arguments = "B"} : () -> tensor<?xi64>
  %samples = coda.reshape %b {coda.dims = ["B", 1 : i64, 1 : i64, 1 : i64]} : (tensor<?xi64>) -> tensor<?x1x1x1xi64>
  %t = torch.call "aten.arange.default"() {coda.dims = ["T"], arguments = "T"} : () -> tensor<?xi64>
  %keys = torch.call "aten.add.Tensor"(%t) {coda.dims = ["T"], arguments = "{0}, 0"} : (tensor<?xi64>) -> tensor<?xi64>
  %mask = torch.call "aten.index.Tensor"(%y, %samples, %keys) {coda.dims = ["B", 1 : i64, 1 : i64, "T"], arguments = "{0}, [{1}, {2}]"} : (tensor<?x?xf32>, tensor<?x1x1x1xi64>, tensor<?xi64>) -> tensor<?x1x1x?xf32>
  func.return %view, %mask : tensor<4x1x8xi64>, tensor<?x1x1x?xf32>
}

// CHECK-LABEL: func.func @first_rows(%x: tensor<6x8xi64>, %y: tensor<?x?xf32> {coda.dims = ["B", "T"]}) -> (tensor<4x1x8xi64>, tensor<?x1x1x?xf32>) {
// CHECK-NEXT:   %0 = coda.slice %x {dim = 0 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<6x8xi64>) -> tensor<4x8xi64>
// CHECK-NEXT:   %view = coda.reshape %0 {coda.dims = [4 : i64, 1 : i64, 8 : i64]} : (tensor<4x8xi64>) -> tensor<4x1x8xi64>
// CHECK-NEXT:   %mask = coda.reshape %y {coda.dims = ["B", 1 : i64, 1 : i64, "T"]} : (tensor<?x?xf32>) -> tensor<?x1x1x?xf32>
// CHECK-NEXT:   func.return %view, %mask : tensor<4x1x8xi64>, tensor<?x1x1x?xf32>
// CHECK-NEXT: }

// -----

// Repeated extents of 1 are views, elements in order a reshape, sums and running sums operators of
// their own; what other operators read of one number is a broadcast of it.

func.func @plain(%x: tensor<?x?x8xf32> {coda.dims = ["B", "T", 8 : i64]}, %ids: tensor<?x?xi64> {coda.dims = ["B", "T"]}) -> (tensor<?x3x8xf32>, tensor<?x1x?xi64>, tensor<?x8xf32>, tensor<?x?xi64>, tensor<?x?xi64>) {
  %one = coda.reshape %ids {coda.dims = [1 : i64, "B*T"]} : (tensor<?x?xi64>) -> tensor<1x?xi64>
  %total = torch.call "aten.sum.dim_IntList"(%x) {coda.dims = ["B", 1 : i64, 8 : i64], arguments = "{0}, [1], True"} : (tensor<?x?x8xf32>) -> tensor<?x1x8xf32>
  %three = torch.call "aten.repeat.default"(%total) {coda.dims = ["B", 3 : i64, 8 : i64], arguments = "{0}, [1, 3, 1]"} : (tensor<?x1x8xf32>) -> tensor<?x3x8xf32>
  %b = torch.call "aten.arange.default"() {coda.dims = ["B"], arguments = "B"} : () -> tensor<?xi64>
  %rows = coda.reshape %b {coda.dims = ["B", 1 : i64, 1 : i64]} : (tensor<?xi64>) -> tensor<?x1x1xi64>
  %t = torch.call "aten.arange.default"() {coda.dims = ["T"], arguments = "T"} : () -> tensor<?xi64>
  %columns = coda.reshape %t {coda.dims = [1 : i64, 1 : i64, "T"]} : (tensor<?xi64>) -> tensor<1x1x?xi64>
  %view = torch.call "aten.index.Tensor"(%ids, %rows, %columns) {coda.dims = ["B", 1 : i64, "T"], arguments = "{0}, [{1}, {2}]"} : (tensor<?x?xi64>, tensor<?x1x1xi64>, tensor<1x1x?xi64>) -> tensor<?x1x?xi64>
  %sum = torch.call "aten.sum.dim_IntList"(%x) {coda.dims = ["B", 8 : i64], arguments = "{0}, [-2]"} : (tensor<?x?x8xf32>) -> tensor<?x8xf32>
  %seen = torch.call "aten.ne.Scalar"(%ids) {coda.dims = ["B", "T"], arguments = "{0}, 0"} : (tensor<?x?xi64>) -> tensor<?x?xi1>
  %count = torch.call "aten.cumsum.default"(%seen) {coda.dims = ["B", "T"], arguments = "{0}, -1"} : (tensor<?x?xi1>) -> tensor<?x?xi64>
  %full = torch.call "aten.full.default"() {coda.dims = ["B", "T"], arguments = "[B, T], 7, dtype=torch.int64"} : () -> tensor<?x?xi64>
  func.return %three, %view, %sum, %count, %full : tensor<?x3x8xf32>, tensor<?x1x?xi64>, tensor<?x8xf32>, tensor<?x?xi64>, tensor<?x?xi64>
}

// CHECK-LABEL: func.func @plain(%x: tensor<?x?x8xf32> {coda.dims = ["B", "T", 8 : i64]}, %ids: tensor<?x?xi64> {coda.dims = ["B", "T"]}) -> (tensor<?x3x8xf32>, tensor<?x1x?xi64>, tensor<?x8xf32>, tensor<?x?xi64>, tensor<?x?xi64>) {
// CHECK-NEXT:   %total = coda.sum_to %x : (tensor<?x?x8xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %three = torch.call "aten.expand.default"(%total) {coda.dims = ["B", 3 : i64, 8 : i64], arguments = "{0}, [B, 3, 8]", view} : (tensor<?x1x8xf32>) -> tensor<?x3x8xf32>
// CHECK-NEXT:   %view = coda.reshape %ids {coda.dims = ["B", 1 : i64, "T"]} : (tensor<?x?xi64>) -> tensor<?x1x?xi64>
// CHECK-NEXT:   %0 = coda.sum_to %x : (tensor<?x?x8xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %sum = coda.reshape %0 {coda.dims = ["B", 8 : i64]} : (tensor<?x1x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %1 = coda.constant {value = 0 : i64} : tensor<i64>
// CHECK-NEXT:   %seen = coda.compare %ids, %1 {relation = "ne"} : (tensor<?x?xi64>, tensor<i64>) -> tensor<?x?xi1>
// CHECK-NEXT:   %2 = coda.cast %seen : (tensor<?x?xi1>) -> tensor<?x?xi64>
// CHECK-NEXT:   %count = torch.call "aten.cumsum.default"(%2) {coda.dims = ["B", "T"], arguments = "{0}, -1"} : (tensor<?x?xi64>) -> tensor<?x?xi64>
// CHECK-NEXT:   %3 = coda.constant {value = 7 : i64} : tensor<i64>
// CHECK-NEXT:   %full = coda.broadcast %3, %ids : (tensor<i64>, tensor<?x?xi64>) -> tensor<?x?xi64>
// CHECK-NEXT:   func.return %three, %view, %sum, %count, %full : tensor<?x3x8xf32>, tensor<?x1x?xi64>, tensor<?x8xf32>, tensor<?x?xi64>, tensor<?x?xi64>
// CHECK-NEXT: }

// -----

// A constant power; quantization: a rounded and clamped number as 8 bits.

func.func @quantized(%x: tensor<?x8xf32>) -> (tensor<?x8xi8>, tensor<?x8xf8E4M3FN>) {
  %p = torch.call "aten.pow.Tensor_Scalar"(%x) {arguments = "{0}, 0.75"} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %r = torch.call "aten.round.default"(%p) {arguments = "{0}"} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %q = torch.call "aten._to_copy.default"(%r) {arguments = "{0}, dtype=torch.int8"} : (tensor<?x8xf32>) -> tensor<?x8xi8>
  %f = torch.call "aten._to_copy.default"(%p) {arguments = "{0}, dtype=torch.float8_e4m3fn"} : (tensor<?x8xf32>) -> tensor<?x8xf8E4M3FN>
  func.return %q, %f : tensor<?x8xi8>, tensor<?x8xf8E4M3FN>
}

// CHECK-LABEL: func.func @quantized(
// CHECK-NEXT:   %p = coda.pow %x {exponent = 7.500000e-01 : f64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %r = coda.round %p : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %q = coda.cast %r : (tensor<?x8xf32>) -> tensor<?x8xi8>
// CHECK-NEXT:   %f = coda.cast %p : (tensor<?x8xf32>) -> tensor<?x8xf8E4M3FN>
// CHECK-NEXT:   func.return %q, %f : tensor<?x8xi8>, tensor<?x8xf8E4M3FN>
// CHECK-NEXT: }

// -----

// Logical operators are true of what is not 0, and a power of two tensors is one operator.

func.func @truths(%x: tensor<4x8xbf16>, %m: tensor<4x8xi1>, %n: tensor<4x8xi64>) -> (tensor<4x8xi1>, tensor<4x8xi1>, tensor<4x8xbf16>, tensor<4x8xbf16>) {
  %a = torch.call "aten.logical_and.default"(%x, %m) {arguments = "{0}, {1}"} : (tensor<4x8xbf16>, tensor<4x8xi1>) -> tensor<4x8xi1>
  %b = torch.call "aten.logical_not.default"(%n) {arguments = "{0}"} : (tensor<4x8xi64>) -> tensor<4x8xi1>
  %c = torch.call "aten.pow.Tensor_Tensor"(%x, %x) {arguments = "{0}, {1}"} : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<4x8xbf16>
  %d = torch.call "aten.pow.Scalar"(%x) {arguments = "2, {0}"} : (tensor<4x8xbf16>) -> tensor<4x8xbf16>
  func.return %a, %b, %c, %d : tensor<4x8xi1>, tensor<4x8xi1>, tensor<4x8xbf16>, tensor<4x8xbf16>
}

// CHECK:      func.func @truths(%x: tensor<4x8xbf16>, %m: tensor<4x8xi1>, %n: tensor<4x8xi64>) -> (tensor<4x8xi1>, tensor<4x8xi1>, tensor<4x8xbf16>, tensor<4x8xbf16>) {
// CHECK-NEXT:   %0 = coda.constant {value = 0.000000e+00 : f64} : tensor<bf16>
// CHECK-NEXT:   %1 = coda.compare %x, %0 {relation = "ne"} : (tensor<4x8xbf16>, tensor<bf16>) -> tensor<4x8xi1>
// CHECK-NEXT:   %a = coda.logical_and %1, %m : (tensor<4x8xi1>, tensor<4x8xi1>) -> tensor<4x8xi1>
// CHECK-NEXT:   %2 = coda.constant {value = 0 : i64} : tensor<i64>
// CHECK-NEXT:   %3 = coda.compare %n, %2 {relation = "ne"} : (tensor<4x8xi64>, tensor<i64>) -> tensor<4x8xi1>
// CHECK-NEXT:   %b = coda.logical_not %3 : (tensor<4x8xi1>) -> tensor<4x8xi1>
// CHECK-NEXT:   %c = coda.power %x, %x : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<4x8xbf16>
// CHECK-NEXT:   %4 = coda.constant {value = 2.000000e+00 : f64} : tensor<bf16>
// CHECK-NEXT:   %d = coda.power %4, %x : (tensor<bf16>, tensor<4x8xbf16>) -> tensor<4x8xbf16>
// CHECK-NEXT:   func.return %a, %b, %c, %d : tensor<4x8xi1>, tensor<4x8xi1>, tensor<4x8xbf16>, tensor<4x8xbf16>
// CHECK-NEXT: }

// -----

// The mean and the sum of all elements.

func.func @of_all(%x: tensor<4x8xbf16>, %y: tensor<?x8xf32>) -> (tensor<bf16>, tensor<f32>) {
  %a = torch.call "aten.mean.default"(%x) {arguments = "{0}"} : (tensor<4x8xbf16>) -> tensor<bf16>
  %b = torch.call "aten.sum.dim_IntList"(%y) {arguments = "{0}, []"} : (tensor<?x8xf32>) -> tensor<f32>
  func.return %a, %b : tensor<bf16>, tensor<f32>
}

// CHECK:      func.func @of_all(%x: tensor<4x8xbf16>, %y: tensor<?x8xf32>) -> (tensor<bf16>, tensor<f32>) {
// CHECK-NEXT:   %0 = coda.sum_to %x : (tensor<4x8xbf16>) -> tensor<1x1xf32>
// CHECK-NEXT:   %1 = coda.constant {value = 3.125000e-02 : f64} : tensor<f32>
// CHECK-NEXT:   %2 = coda.mul %0, %1 : (tensor<1x1xf32>, tensor<f32>) -> tensor<1x1xf32>
// CHECK-NEXT:   %3 = coda.cast %2 : (tensor<1x1xf32>) -> tensor<1x1xbf16>
// CHECK-NEXT:   %a = coda.reshape %3 {coda.dims = []} : (tensor<1x1xbf16>) -> tensor<bf16>
// CHECK-NEXT:   %4 = coda.sum_to %y : (tensor<?x8xf32>) -> tensor<1x1xf32>
// CHECK-NEXT:   %b = coda.reshape %4 {coda.dims = []} : (tensor<1x1xf32>) -> tensor<f32>
// CHECK-NEXT:   func.return %a, %b : tensor<bf16>, tensor<f32>
// CHECK-NEXT: }

// -----

// Means, lengths of one dimension and of several, and numbers whose extents the arguments tell.

func.func @averaged(%x: tensor<?x4x8xbf16> {coda.dims = ["B", 4 : i64, 8 : i64]}) -> (tensor<?x8xbf16>, tensor<?x4x1xbf16>, tensor<?x1x1xf32>, tensor<?x3xf32>) {
  %a = torch.call "aten.mean.dim"(%x) {arguments = "{0}, [1]", coda.dims = ["B", 8 : i64]} : (tensor<?x4x8xbf16>) -> tensor<?x8xbf16>
  %b = torch.call "aten.linalg_vector_norm.default"(%x) {arguments = "{0}, 2, [-1], True", coda.dims = ["B", 4 : i64, 1 : i64]} : (tensor<?x4x8xbf16>) -> tensor<?x4x1xbf16>
  %c = torch.call "aten.linalg_vector_norm.default"(%x) {arguments = "{0}, 2, [1, 2], True, dtype=torch.float32", coda.dims = ["B", 1 : i64, 1 : i64]} : (tensor<?x4x8xbf16>) -> tensor<?x1x1xf32>
  %d = torch.call "aten.full.default"() {arguments = "[B, 3], 0.5", coda.dims = ["B", 3 : i64]} : () -> tensor<?x3xf32>
  func.return %a, %b, %c, %d : tensor<?x8xbf16>, tensor<?x4x1xbf16>, tensor<?x1x1xf32>, tensor<?x3xf32>
}

// CHECK:      func.func @averaged(%x: tensor<?x4x8xbf16> {coda.dims = ["B", 4 : i64, 8 : i64]}) -> (tensor<?x8xbf16>, tensor<?x4x1xbf16>, tensor<?x1x1xf32>, tensor<?x3xf32>) {
// CHECK-NEXT:   %0 = coda.sum_to %x : (tensor<?x4x8xbf16>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %1 = coda.constant {value = 2.500000e-01 : f64} : tensor<f32>
// CHECK-NEXT:   %2 = coda.mul %0, %1 : (tensor<?x1x8xf32>, tensor<f32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %3 = coda.cast %2 : (tensor<?x1x8xf32>) -> tensor<?x1x8xbf16>
// CHECK-NEXT:   %a = coda.reshape %3 {coda.dims = ["B", 8 : i64]} : (tensor<?x1x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %4 = coda.cast %x : (tensor<?x4x8xbf16>) -> tensor<?x4x8xf32>
// CHECK-NEXT:   %5 = coda.mul %4, %4 : (tensor<?x4x8xf32>, tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
// CHECK-NEXT:   %6 = coda.sum_to %5 : (tensor<?x4x8xf32>) -> tensor<?x4x1xf32>
// CHECK-NEXT:   %7 = coda.constant {value = 0.000000e+00 : f64} : tensor<f32>
// CHECK-NEXT:   %8 = coda.compare %6, %7 {relation = "eq"} : (tensor<?x4x1xf32>, tensor<f32>) -> tensor<?x4x1xi1>
// CHECK-NEXT:   %9 = coda.constant {value = 1.000000e+00 : f64} : tensor<f32>
// CHECK-NEXT:   %10 = coda.where %8, %9, %6 : (tensor<?x4x1xi1>, tensor<f32>, tensor<?x4x1xf32>) -> tensor<?x4x1xf32>
// CHECK-NEXT:   %11 = coda.sqrt %10 : (tensor<?x4x1xf32>) -> tensor<?x4x1xf32>
// CHECK-NEXT:   %12 = coda.where %8, %7, %11 : (tensor<?x4x1xi1>, tensor<f32>, tensor<?x4x1xf32>) -> tensor<?x4x1xf32>
// CHECK-NEXT:   %b = coda.cast %12 : (tensor<?x4x1xf32>) -> tensor<?x4x1xbf16>
// CHECK-NEXT:   %13 = coda.reshape %x {coda.dims = ["B", 32 : i64]} : (tensor<?x4x8xbf16>) -> tensor<?x32xbf16>
// CHECK-NEXT:   %14 = coda.cast %13 : (tensor<?x32xbf16>) -> tensor<?x32xf32>
// CHECK-NEXT:   %15 = coda.mul %14, %14 : (tensor<?x32xf32>, tensor<?x32xf32>) -> tensor<?x32xf32>
// CHECK-NEXT:   %16 = coda.sum_to %15 : (tensor<?x32xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %17 = coda.constant {value = 0.000000e+00 : f64} : tensor<f32>
// CHECK-NEXT:   %18 = coda.compare %16, %17 {relation = "eq"} : (tensor<?x1xf32>, tensor<f32>) -> tensor<?x1xi1>
// CHECK-NEXT:   %19 = coda.constant {value = 1.000000e+00 : f64} : tensor<f32>
// CHECK-NEXT:   %20 = coda.where %18, %19, %16 : (tensor<?x1xi1>, tensor<f32>, tensor<?x1xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %21 = coda.sqrt %20 : (tensor<?x1xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %22 = coda.where %18, %17, %21 : (tensor<?x1xi1>, tensor<f32>, tensor<?x1xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %23 = coda.cast %22 : (tensor<?x1xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %c = coda.reshape %23 {coda.dims = ["B", 1 : i64, 1 : i64]} : (tensor<?x1xf32>) -> tensor<?x1x1xf32>
// CHECK-NEXT:   %24 = coda.constant {value = 5.000000e-01 : f64} : tensor<f32>
// CHECK-NEXT:   %d = torch.call "aten.expand.default"(%24) {coda.dims = ["B", 3 : i64], arguments = "{0}, [B, 3]", view} : (tensor<f32>) -> tensor<?x3xf32>
// CHECK-NEXT:   func.return %a, %b, %c, %d : tensor<?x8xbf16>, tensor<?x4x1xbf16>, tensor<?x1x1xf32>, tensor<?x3xf32>
// CHECK-NEXT: }

// -----

// A size is a number of a kernel; 16 bits do not hold it, so that the operator computes in f32.

func.func @sizes(%x: tensor<?x?x8xbf16> {coda.dims = ["B", "T", 8 : i64]}, %ids: tensor<?x?xi64> {coda.dims = ["B", "T"]}) -> (tensor<?x?x8xbf16>, tensor<?x?xi1>) {
  %y = torch.call "aten.div.Tensor"(%x) {arguments = "{0}, T"} : (tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>
  %c = torch.call "aten.lt.Scalar"(%ids) {arguments = "{0}, (size({0}, 0) * T - 1)"} : (tensor<?x?xi64>) -> tensor<?x?xi1>
  func.return %y, %c : tensor<?x?x8xbf16>, tensor<?x?xi1>
}

// CHECK:      func.func @sizes(
// CHECK-NEXT:   %0 = coda.extent %x {dim = 1 : i64} : (tensor<?x?x8xbf16>) -> tensor<i64>
// CHECK-NEXT:   %1 = coda.cast %x : (tensor<?x?x8xbf16>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %2 = coda.cast %0 : (tensor<i64>) -> tensor<f32>
// CHECK-NEXT:   %3 = coda.div %1, %2 : (tensor<?x?x8xf32>, tensor<f32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %y = coda.cast %3 : (tensor<?x?x8xf32>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   %4 = coda.extent %ids {dim = 0 : i64} : (tensor<?x?xi64>) -> tensor<i64>
// CHECK-NEXT:   %5 = coda.extent %x {dim = 1 : i64} : (tensor<?x?x8xbf16>) -> tensor<i64>
// CHECK-NEXT:   %6 = coda.mul %4, %5 : (tensor<i64>, tensor<i64>) -> tensor<i64>
// CHECK-NEXT:   %7 = coda.constant {value = 1 : i64} : tensor<i64>
// CHECK-NEXT:   %8 = coda.sub %6, %7 : (tensor<i64>, tensor<i64>) -> tensor<i64>
// CHECK-NEXT:   %c = coda.compare %ids, %8 {relation = "lt"} : (tensor<?x?xi64>, tensor<i64>) -> tensor<?x?xi1>
// CHECK-NEXT:   func.return %y, %c : tensor<?x?x8xbf16>, tensor<?x?xi1>
// CHECK-NEXT: }

// -----

// float32 holds the elements of narrower types: PyTorch converts them exactly.

func.func @mixed(%x: tensor<?x8xf32>, %b: tensor<?x8xbf16>, %h: tensor<8xf16>) -> (tensor<?x8xi1>, tensor<?x8xf32>) {
  %c = torch.call "aten.gt.Tensor"(%b, %h) {arguments = "{0}, {1}"} : (tensor<?x8xbf16>, tensor<8xf16>) -> tensor<?x8xi1>
  %y = torch.call "aten.where.self"(%c, %x, %b) {arguments = "{0}, {1}, {2}"} : (tensor<?x8xi1>, tensor<?x8xf32>, tensor<?x8xbf16>) -> tensor<?x8xf32>
  func.return %c, %y : tensor<?x8xi1>, tensor<?x8xf32>
}

// CHECK:      func.func @mixed(
// CHECK-NEXT:   %0 = coda.cast %b : (tensor<?x8xbf16>) -> tensor<?x8xf32>
// CHECK-NEXT:   %1 = coda.cast %h : (tensor<8xf16>) -> tensor<8xf32>
// CHECK-NEXT:   %c = coda.compare %0, %1 {relation = "gt"} : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xi1>
// CHECK-NEXT:   %2 = coda.cast %b : (tensor<?x8xbf16>) -> tensor<?x8xf32>
// CHECK-NEXT:   %y = coda.where %c, %x, %2 : (tensor<?x8xi1>, tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   func.return %c, %y : tensor<?x8xi1>, tensor<?x8xf32>
// CHECK-NEXT: }

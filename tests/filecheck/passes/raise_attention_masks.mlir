// RUN: coda-opt %s -p raise-elementwise,raise-attention,canonicalize,drop-no-ops,dce --split-input-file | filecheck %s

// A window of two positions.

func.func @window(%q: tensor<2x5x8xf32>, %k: tensor<2x5x8xf32>, %v: tensor<2x5x8xf32>) -> tensor<2x5x8xf32> {
  %qs = coda.reshape %q : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %qh = coda.transpose %qs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %ks = coda.reshape %k : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %kh = coda.transpose %ks {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %vs = coda.reshape %v : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %vh = coda.transpose %vs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %p = torch.call "aten.arange.start_step"() {arguments = "0, 5, device=device"} : () -> tensor<5xi64>
  %pq = coda.reshape %p : (tensor<5xi64>) -> tensor<1x1x5x1xi64>
  %le = torch.call "aten.le.Tensor"(%p, %pq) {arguments = "{0}, {1}"} : (tensor<5xi64>, tensor<1x1x5x1xi64>) -> tensor<1x1x5x5xi1>
  %first = torch.call "aten.sub.Tensor"(%pq) {arguments = "{0}, 2"} : (tensor<1x1x5x1xi64>) -> tensor<1x1x5x1xi64>
  %gt = torch.call "aten.gt.Tensor"(%p, %first) {arguments = "{0}, {1}"} : (tensor<5xi64>, tensor<1x1x5x1xi64>) -> tensor<1x1x5x5xi1>
  %seen = torch.call "aten.bitwise_and.Tensor"(%le, %gt) {arguments = "{0}, {1}"} : (tensor<1x1x5x5xi1>, tensor<1x1x5x5xi1>) -> tensor<1x1x5x5xi1>
  %a = torch.call "aten.scaled_dot_product_attention.default"(%qh, %kh, %vh, %seen) {arguments = "{0}, {1}, {2}, {3}", random} : (tensor<2x2x5x4xf32>, tensor<2x2x5x4xf32>, tensor<2x2x5x4xf32>, tensor<1x1x5x5xi1>) -> tensor<2x2x5x4xf32>
  %at = coda.transpose %a {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x2x5x4xf32>) -> tensor<2x5x2x4xf32>
  %y = coda.reshape %at : (tensor<2x5x2x4xf32>) -> tensor<2x5x8xf32>
  func.return %y : tensor<2x5x8xf32>
}

// CHECK-LABEL: func.func @window(
// CHECK-NEXT:    %a = coda.attention %q, %k, %v {head_dim = 4 : i64, causal = true, window = 2 : i64} : (tensor<2x5x8xf32>, tensor<2x5x8xf32>, tensor<2x5x8xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:    func.return %a : tensor<2x5x8xf32>

// -----

// A window on both sides, as the distance of positions has it.

func.func @both_sides(%q: tensor<2x5x8xf32>, %k: tensor<2x5x8xf32>, %v: tensor<2x5x8xf32>) -> tensor<2x5x8xf32> {
  %qs = coda.reshape %q : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %qh = coda.transpose %qs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %ks = coda.reshape %k : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %kh = coda.transpose %ks {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %vs = coda.reshape %v : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %vh = coda.transpose %vs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %p = torch.call "aten.arange.start_step"() {arguments = "0, 5, device=device"} : () -> tensor<5xi64>
  %pq = coda.reshape %p : (tensor<5xi64>) -> tensor<1x1x5x1xi64>
  %d = torch.call "aten.sub.Tensor"(%pq, %p) {arguments = "{0}, {1}"} : (tensor<1x1x5x1xi64>, tensor<5xi64>) -> tensor<1x1x5x5xi64>
  %far = torch.call "aten.abs.default"(%d) {arguments = "{0}"} : (tensor<1x1x5x5xi64>) -> tensor<1x1x5x5xi64>
  %seen = torch.call "aten.le.Scalar"(%far) {arguments = "{0}, 2"} : (tensor<1x1x5x5xi64>) -> tensor<1x1x5x5xi1>
  %a = torch.call "aten.scaled_dot_product_attention.default"(%qh, %kh, %vh, %seen) {arguments = "{0}, {1}, {2}, {3}", random} : (tensor<2x2x5x4xf32>, tensor<2x2x5x4xf32>, tensor<2x2x5x4xf32>, tensor<1x1x5x5xi1>) -> tensor<2x2x5x4xf32>
  %at = coda.transpose %a {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x2x5x4xf32>) -> tensor<2x5x2x4xf32>
  %y = coda.reshape %at : (tensor<2x5x2x4xf32>) -> tensor<2x5x8xf32>
  func.return %y : tensor<2x5x8xf32>
}

// CHECK-LABEL: func.func @both_sides(
// CHECK-NEXT:    %a = coda.attention %q, %k, %v {head_dim = 4 : i64, causal = false, window = 3 : i64} : (tensor<2x5x8xf32>, tensor<2x5x8xf32>, tensor<2x5x8xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:    func.return %a : tensor<2x5x8xf32>

// -----

// Padding becomes the mask, and what positions hide does not.

func.func @padding(%q: tensor<2x5x8xf32>, %k: tensor<2x5x8xf32>, %v: tensor<2x5x8xf32>, %mask: tensor<2x1x1x5xi1>) -> tensor<2x5x8xf32> {
  %qs = coda.reshape %q : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %qh = coda.transpose %qs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %ks = coda.reshape %k : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %kh = coda.transpose %ks {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %vs = coda.reshape %v : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %vh = coda.transpose %vs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %p = torch.call "aten.arange.start_step"() {arguments = "0, 5, device=device"} : () -> tensor<5xi64>
  %pq = coda.reshape %p : (tensor<5xi64>) -> tensor<1x1x5x1xi64>
  %le = torch.call "aten.le.Tensor"(%p, %pq) {arguments = "{0}, {1}"} : (tensor<5xi64>, tensor<1x1x5x1xi64>) -> tensor<1x1x5x5xi1>
  %seen = torch.call "aten.bitwise_and.Tensor"(%le, %mask) {arguments = "{0}, {1}"} : (tensor<1x1x5x5xi1>, tensor<2x1x1x5xi1>) -> tensor<2x1x5x5xi1>
  %all = torch.call "aten.expand.default"(%seen) {arguments = "{0}, [2, 2, 5, 5]", view} : (tensor<2x1x5x5xi1>) -> tensor<2x2x5x5xi1>
  %a = torch.call "aten.scaled_dot_product_attention.default"(%qh, %kh, %vh, %all) {arguments = "{0}, {1}, {2}, {3}", random} : (tensor<2x2x5x4xf32>, tensor<2x2x5x4xf32>, tensor<2x2x5x4xf32>, tensor<2x2x5x5xi1>) -> tensor<2x2x5x4xf32>
  %at = coda.transpose %a {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x2x5x4xf32>) -> tensor<2x5x2x4xf32>
  %y = coda.reshape %at : (tensor<2x5x2x4xf32>) -> tensor<2x5x8xf32>
  func.return %y : tensor<2x5x8xf32>
}

// CHECK-LABEL: func.func @padding(
// CHECK-NEXT:    %a = coda.attention %q, %k, %v mask(%mask : tensor<2x1x1x5xi1>) {head_dim = 4 : i64, causal = true} : (tensor<2x5x8xf32>, tensor<2x5x8xf32>, tensor<2x5x8xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:    func.return %a : tensor<2x5x8xf32>

// -----

// Positions that hide in another way are the mask.

func.func @strict(%q: tensor<2x5x8xf32>, %k: tensor<2x5x8xf32>, %v: tensor<2x5x8xf32>) -> tensor<2x5x8xf32> {
  %qs = coda.reshape %q : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %qh = coda.transpose %qs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %ks = coda.reshape %k : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %kh = coda.transpose %ks {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %vs = coda.reshape %v : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %vh = coda.transpose %vs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %p = torch.call "aten.arange.start_step"() {arguments = "0, 5, device=device"} : () -> tensor<5xi64>
  %pq = coda.reshape %p : (tensor<5xi64>) -> tensor<1x1x5x1xi64>
  %lt = torch.call "aten.lt.Tensor"(%p, %pq) {arguments = "{0}, {1}"} : (tensor<5xi64>, tensor<1x1x5x1xi64>) -> tensor<1x1x5x5xi1>
  %a = torch.call "aten.scaled_dot_product_attention.default"(%qh, %kh, %vh, %lt) {arguments = "{0}, {1}, {2}, {3}", random} : (tensor<2x2x5x4xf32>, tensor<2x2x5x4xf32>, tensor<2x2x5x4xf32>, tensor<1x1x5x5xi1>) -> tensor<2x2x5x4xf32>
  %at = coda.transpose %a {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x2x5x4xf32>) -> tensor<2x5x2x4xf32>
  %y = coda.reshape %at : (tensor<2x5x2x4xf32>) -> tensor<2x5x8xf32>
  func.return %y : tensor<2x5x8xf32>
}

// CHECK-LABEL: func.func @strict(
// CHECK-NEXT:    %p = coda.positions {start = 0 : i64, step = 1 : i64} : () -> tensor<5xi64>
// CHECK-NEXT:    %pq = coda.reshape %p : (tensor<5xi64>) -> tensor<1x1x5x1xi64>
// CHECK-NEXT:    %lt = coda.compare %p, %pq {relation = "lt"} : (tensor<5xi64>, tensor<1x1x5x1xi64>) -> tensor<1x1x5x5xi1>
// CHECK-NEXT:    %a = coda.attention %q, %k, %v mask(%lt : tensor<1x1x5x5xi1>) {head_dim = 4 : i64, causal = false} : (tensor<2x5x8xf32>, tensor<2x5x8xf32>, tensor<2x5x8xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:    func.return %a : tensor<2x5x8xf32>

// -----

// A bias of the heads beside a causal mask, as T5 has.

func.func @bias(%q: tensor<2x5x8xf32>, %k: tensor<2x5x8xf32>, %v: tensor<2x5x8xf32>, %bias: tensor<1x2x5x5xf32> {coda.weight}) -> tensor<2x5x8xf32> {
  %qs = coda.reshape %q : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %qh = coda.transpose %qs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %ks = coda.reshape %k : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %kh = coda.transpose %ks {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %vs = coda.reshape %v : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %vh = coda.transpose %vs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %p = torch.call "aten.arange.start_step"() {arguments = "0, 5, device=device"} : () -> tensor<5xi64>
  %pq = coda.reshape %p : (tensor<5xi64>) -> tensor<1x1x5x1xi64>
  %le = torch.call "aten.le.Tensor"(%p, %pq) {arguments = "{0}, {1}"} : (tensor<5xi64>, tensor<1x1x5x1xi64>) -> tensor<1x1x5x5xi1>
  %zero = coda.constant {value = 0.0 : f64} : tensor<f32>
  %least = torch.call "aten.scalar_tensor.default"() {arguments = "-3.4028234663852886e+38, dtype=torch.float32"} : () -> tensor<f32>
  %hidden = torch.call "aten.where.self"(%le, %zero, %least) {arguments = "{0}, {1}, {2}"} : (tensor<1x1x5x5xi1>, tensor<f32>, tensor<f32>) -> tensor<1x1x5x5xf32>
  %sum = coda.add %bias, %hidden : (tensor<1x2x5x5xf32>, tensor<1x1x5x5xf32>) -> tensor<1x2x5x5xf32>
  %a = torch.call "aten.scaled_dot_product_attention.default"(%qh, %kh, %vh, %sum) {arguments = "{0}, {1}, {2}, {3}, scale=1.0", random} : (tensor<2x2x5x4xf32>, tensor<2x2x5x4xf32>, tensor<2x2x5x4xf32>, tensor<1x2x5x5xf32>) -> tensor<2x2x5x4xf32>
  %at = coda.transpose %a {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x2x5x4xf32>) -> tensor<2x5x2x4xf32>
  %y = coda.reshape %at : (tensor<2x5x2x4xf32>) -> tensor<2x5x8xf32>
  func.return %y : tensor<2x5x8xf32>
}

// CHECK-LABEL: func.func @bias(
// CHECK-NEXT:    %a = coda.attention %q, %k, %v mask(%bias : tensor<1x2x5x5xf32>) {head_dim = 4 : i64, causal = true, scale = 1.000000e+00 : f64} : (tensor<2x5x8xf32>, tensor<2x5x8xf32>, tensor<2x5x8xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:    func.return %a : tensor<2x5x8xf32>

// -----

// What a mask of the call may hide by a number is not told apart: a query may see no key.

func.func @by_number(%q: tensor<2x5x8xf32>, %k: tensor<2x5x8xf32>, %v: tensor<2x5x8xf32>, %bias: tensor<2x1x1x5xf32>) -> tensor<2x5x8xf32> {
  %qs = coda.reshape %q : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %qh = coda.transpose %qs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %ks = coda.reshape %k : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %kh = coda.transpose %ks {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %vs = coda.reshape %v : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %vh = coda.transpose %vs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %p = torch.call "aten.arange.start_step"() {arguments = "0, 5, device=device"} : () -> tensor<5xi64>
  %pq = coda.reshape %p : (tensor<5xi64>) -> tensor<1x1x5x1xi64>
  %le = torch.call "aten.le.Tensor"(%p, %pq) {arguments = "{0}, {1}"} : (tensor<5xi64>, tensor<1x1x5x1xi64>) -> tensor<1x1x5x5xi1>
  %zero = coda.constant {value = 0.0 : f64} : tensor<f32>
  %least = torch.call "aten.scalar_tensor.default"() {arguments = "-3.4028234663852886e+38, dtype=torch.float32"} : () -> tensor<f32>
  %hidden = torch.call "aten.where.self"(%le, %zero, %least) {arguments = "{0}, {1}, {2}"} : (tensor<1x1x5x5xi1>, tensor<f32>, tensor<f32>) -> tensor<1x1x5x5xf32>
  %kt = coda.transpose %kh {perm = [0 : i64, 1 : i64, 3 : i64, 2 : i64]} : (tensor<2x2x5x4xf32>) -> tensor<2x2x4x5xf32>
  %s = torch.call "aten.matmul.default"(%qh, %kt) {arguments = "{0}, {1}"} : (tensor<2x2x5x4xf32>, tensor<2x2x4x5xf32>) -> tensor<2x2x5x5xf32>
  %x1 = coda.add %s, %hidden : (tensor<2x2x5x5xf32>, tensor<1x1x5x5xf32>) -> tensor<2x2x5x5xf32>
  %x2 = coda.add %x1, %bias : (tensor<2x2x5x5xf32>, tensor<2x1x1x5xf32>) -> tensor<2x2x5x5xf32>
  %w = coda.softmax %x2 : (tensor<2x2x5x5xf32>) -> tensor<2x2x5x5xf32>
  %a = torch.call "aten.matmul.default"(%w, %vh) {arguments = "{0}, {1}"} : (tensor<2x2x5x5xf32>, tensor<2x2x5x4xf32>) -> tensor<2x2x5x4xf32>
  %at = coda.transpose %a {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x2x5x4xf32>) -> tensor<2x5x2x4xf32>
  %y = coda.reshape %at : (tensor<2x5x2x4xf32>) -> tensor<2x5x8xf32>
  func.return %y : tensor<2x5x8xf32>
}

// CHECK-LABEL: func.func @by_number(
// CHECK-NEXT:    %p = coda.positions {start = 0 : i64, step = 1 : i64} : () -> tensor<5xi64>
// CHECK-NEXT:    %pq = coda.reshape %p : (tensor<5xi64>) -> tensor<1x1x5x1xi64>
// CHECK-NEXT:    %le = coda.compare %p, %pq {relation = "le"} : (tensor<5xi64>, tensor<1x1x5x1xi64>) -> tensor<1x1x5x5xi1>
// CHECK-NEXT:    %zero = coda.constant {value = 0.000000e+00 : f64} : tensor<f32>
// CHECK-NEXT:    %least = coda.constant {value = -3.4028234663852886e+38 : f64} : tensor<f32>
// CHECK-NEXT:    %hidden = coda.where %le, %zero, %least : (tensor<1x1x5x5xi1>, tensor<f32>, tensor<f32>) -> tensor<1x1x5x5xf32>
// CHECK-NEXT:    %mask = coda.add %bias, %hidden {coda.dims = [2 : i64, 1 : i64, 5 : i64, 5 : i64]} : (tensor<2x1x1x5xf32>, tensor<1x1x5x5xf32>) -> tensor<2x1x5x5xf32>
// CHECK-NEXT:    %a = coda.attention %q, %k, %v mask(%mask : tensor<2x1x5x5xf32>) {coda.decomposed = f32, head_dim = 4 : i64, causal = false, scale = 1.000000e+00 : f64} : (tensor<2x5x8xf32>, tensor<2x5x8xf32>, tensor<2x5x8xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:    func.return %a : tensor<2x5x8xf32>

// -----

// Padding that a number hides is added.

func.func @filled(%q: tensor<2x5x8xf32>, %k: tensor<2x5x8xf32>, %v: tensor<2x5x8xf32>, %mask: tensor<2x1x1x5xi1>) -> tensor<2x5x8xf32> {
  %qs = coda.reshape %q : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %qh = coda.transpose %qs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %ks = coda.reshape %k : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %kh = coda.transpose %ks {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %vs = coda.reshape %v : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %vh = coda.transpose %vs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %kt = coda.transpose %kh {perm = [0 : i64, 1 : i64, 3 : i64, 2 : i64]} : (tensor<2x2x5x4xf32>) -> tensor<2x2x4x5xf32>
  %s = torch.call "aten.matmul.default"(%qh, %kt) {arguments = "{0}, {1}"} : (tensor<2x2x5x4xf32>, tensor<2x2x4x5xf32>) -> tensor<2x2x5x5xf32>
  %least = torch.call "aten.scalar_tensor.default"() {arguments = "-3.4028234663852886e+38, dtype=torch.float32"} : () -> tensor<f32>
  %x = torch.call "aten.where.self"(%mask, %s, %least) {arguments = "{0}, {1}, {2}"} : (tensor<2x1x1x5xi1>, tensor<2x2x5x5xf32>, tensor<f32>) -> tensor<2x2x5x5xf32>
  %w = coda.softmax %x : (tensor<2x2x5x5xf32>) -> tensor<2x2x5x5xf32>
  %a = torch.call "aten.matmul.default"(%w, %vh) {arguments = "{0}, {1}"} : (tensor<2x2x5x5xf32>, tensor<2x2x5x4xf32>) -> tensor<2x2x5x4xf32>
  %at = coda.transpose %a {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x2x5x4xf32>) -> tensor<2x5x2x4xf32>
  %y = coda.reshape %at : (tensor<2x5x2x4xf32>) -> tensor<2x5x8xf32>
  func.return %y : tensor<2x5x8xf32>
}

// CHECK-LABEL: func.func @filled(
// CHECK-NEXT:    %least = coda.constant {value = -3.4028234663852886e+38 : f64} : tensor<f32>
// CHECK-NEXT:    %mask_1 = torch.call "aten.any.dim"(%mask) {coda.dims = [2 : i64, 1 : i64, 1 : i64, 1 : i64], arguments = "{0}, -1, True"} : (tensor<2x1x1x5xi1>) -> tensor<2x1x1x1xi1>
// CHECK-NEXT:    %mask_2 = coda.reshape %mask_1 {coda.dims = [2 : i64, 1 : i64, 1 : i64, 1 : i64]} : (tensor<2x1x1x1xi1>) -> tensor<2x1x1x1xi1>
// CHECK-NEXT:    %0 = coda.reshape %q : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
// CHECK-NEXT:    %1 = coda.constant {value = 0.000000e+00 : f64} : tensor<f32>
// CHECK-NEXT:    %2 = coda.where %mask_2, %0, %1 : (tensor<2x1x1x1xi1>, tensor<2x5x2x4xf32>, tensor<f32>) -> tensor<2x5x2x4xf32>
// CHECK-NEXT:    %q_1 = coda.reshape %2 : (tensor<2x5x2x4xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:    %3 = coda.constant {value = 0.000000e+00 : f64} : tensor<f32>
// CHECK-NEXT:    %mask_3 = coda.where %mask, %3, %least {coda.dims = [2 : i64, 1 : i64, 1 : i64, 5 : i64]} : (tensor<2x1x1x5xi1>, tensor<f32>, tensor<f32>) -> tensor<2x1x1x5xf32>
// CHECK-NEXT:    %a = coda.attention %q_1, %k, %v mask(%mask_3 : tensor<2x1x1x5xf32>) {coda.decomposed = f32, head_dim = 4 : i64, causal = false, scale = 1.000000e+00 : f64} : (tensor<2x5x8xf32>, tensor<2x5x8xf32>, tensor<2x5x8xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:    func.return %a : tensor<2x5x8xf32>

// -----

// Minus infinity hides: the mask is one of truth values.

func.func @infinite(%q: tensor<2x5x8xf32>, %k: tensor<2x5x8xf32>, %v: tensor<2x5x8xf32>, %mask: tensor<2x1x1x5xi1>) -> tensor<2x5x8xf32> {
  %qs = coda.reshape %q : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %qh = coda.transpose %qs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %ks = coda.reshape %k : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %kh = coda.transpose %ks {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %vs = coda.reshape %v : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %vh = coda.transpose %vs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %kt = coda.transpose %kh {perm = [0 : i64, 1 : i64, 3 : i64, 2 : i64]} : (tensor<2x2x5x4xf32>) -> tensor<2x2x4x5xf32>
  %s = torch.call "aten.matmul.default"(%qh, %kt) {arguments = "{0}, {1}"} : (tensor<2x2x5x4xf32>, tensor<2x2x4x5xf32>) -> tensor<2x2x5x5xf32>
  %least = torch.call "aten.scalar_tensor.default"() {arguments = "-inf, dtype=torch.float32"} : () -> tensor<f32>
  %not = torch.call "aten.bitwise_not.default"(%mask) {arguments = "{0}"} : (tensor<2x1x1x5xi1>) -> tensor<2x1x1x5xi1>
  %x = torch.call "aten.where.self"(%not, %least, %s) {arguments = "{0}, {1}, {2}"} : (tensor<2x1x1x5xi1>, tensor<f32>, tensor<2x2x5x5xf32>) -> tensor<2x2x5x5xf32>
  %w = coda.softmax %x : (tensor<2x2x5x5xf32>) -> tensor<2x2x5x5xf32>
  %a = torch.call "aten.matmul.default"(%w, %vh) {arguments = "{0}, {1}"} : (tensor<2x2x5x5xf32>, tensor<2x2x5x4xf32>) -> tensor<2x2x5x4xf32>
  %at = coda.transpose %a {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x2x5x4xf32>) -> tensor<2x5x2x4xf32>
  %y = coda.reshape %at : (tensor<2x5x2x4xf32>) -> tensor<2x5x8xf32>
  func.return %y : tensor<2x5x8xf32>
}

// CHECK-LABEL: func.func @infinite(
// CHECK-NEXT:    %a = coda.attention %q, %k, %v mask(%mask : tensor<2x1x1x5xi1>) {coda.decomposed = f32, head_dim = 4 : i64, causal = false, scale = 1.000000e+00 : f64} : (tensor<2x5x8xf32>, tensor<2x5x8xf32>, tensor<2x5x8xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:    func.return %a : tensor<2x5x8xf32>

// -----

// ALiBi, and a causal mask that is one of hidden keys, as MPT has.

func.func @alibi(%q: tensor<2x5x8xf32>, %k: tensor<2x5x8xf32>, %v: tensor<2x5x8xf32>, %slopes: tensor<2x1x5xf32> {coda.weight}) -> tensor<2x5x8xf32> {
  %qs = coda.reshape %q : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %qh = coda.transpose %qs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %ks = coda.reshape %k : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %kh = coda.transpose %ks {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %vs = coda.reshape %v : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %vh = coda.transpose %vs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %p = torch.call "aten.arange.start_step"() {arguments = "0, 5, device=device"} : () -> tensor<5xi64>
  %pq = coda.reshape %p : (tensor<5xi64>) -> tensor<1x1x5x1xi64>
  %le = torch.call "aten.le.Tensor"(%p, %pq) {arguments = "{0}, {1}"} : (tensor<5xi64>, tensor<1x1x5x1xi64>) -> tensor<1x1x5x5xi1>
  %zero = coda.constant {value = 0.0 : f64} : tensor<f32>
  %least = torch.call "aten.scalar_tensor.default"() {arguments = "-3.4028234663852886e+38, dtype=torch.float32"} : () -> tensor<f32>
  %h = torch.call "aten.where.self"(%le, %zero, %least) {arguments = "{0}, {1}, {2}"} : (tensor<1x1x5x5xi1>, tensor<f32>, tensor<f32>) -> tensor<1x1x5x5xf32>
  %behind = torch.call "aten._to_copy.default"(%h) {arguments = "{0}, dtype=torch.bool"} : (tensor<1x1x5x5xf32>) -> tensor<1x1x5x5xi1>
  %kt = coda.transpose %kh {perm = [0 : i64, 1 : i64, 3 : i64, 2 : i64]} : (tensor<2x2x5x4xf32>) -> tensor<2x2x4x5xf32>
  %s = torch.call "aten.matmul.default"(%qh, %kt) {arguments = "{0}, {1}"} : (tensor<2x2x5x4xf32>, tensor<2x2x4x5xf32>) -> tensor<2x2x5x5xf32>
  %half = coda.constant {value = 0.5 : f64} : tensor<f32>
  %scaled = coda.mul %s, %half : (tensor<2x2x5x5xf32>, tensor<f32>) -> tensor<2x2x5x5xf32>
  %x1 = coda.add %scaled, %slopes : (tensor<2x2x5x5xf32>, tensor<2x1x5xf32>) -> tensor<2x2x5x5xf32>
  %x2 = torch.call "aten.where.self"(%behind, %least, %x1) {arguments = "{0}, {1}, {2}"} : (tensor<1x1x5x5xi1>, tensor<f32>, tensor<2x2x5x5xf32>) -> tensor<2x2x5x5xf32>
  %w = coda.softmax %x2 : (tensor<2x2x5x5xf32>) -> tensor<2x2x5x5xf32>
  %a = torch.call "aten.matmul.default"(%w, %vh) {arguments = "{0}, {1}"} : (tensor<2x2x5x5xf32>, tensor<2x2x5x4xf32>) -> tensor<2x2x5x4xf32>
  %at = coda.transpose %a {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x2x5x4xf32>) -> tensor<2x5x2x4xf32>
  %y = coda.reshape %at : (tensor<2x5x2x4xf32>) -> tensor<2x5x8xf32>
  func.return %y : tensor<2x5x8xf32>
}

// CHECK-LABEL: func.func @alibi(
// CHECK-NEXT:    %a = coda.attention %q, %k, %v mask(%slopes : tensor<2x1x5xf32>) {coda.decomposed = f32, head_dim = 4 : i64, causal = true, scale = 5.000000e-01 : f64} : (tensor<2x5x8xf32>, tensor<2x5x8xf32>, tensor<2x5x8xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:    func.return %a : tensor<2x5x8xf32>

// -----

// Batch and heads are one dimension, and ALiBi is part of the product, as Bloom has.

func.func @flat(%q: tensor<2x5x8xf32>, %k: tensor<2x5x8xf32>, %v: tensor<2x5x8xf32>, %alibi: tensor<4x1x5xf32> {coda.weight}) -> tensor<2x5x8xf32> {
  %qs = coda.reshape %q : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %qh = coda.transpose %qs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %ks = coda.reshape %k : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %kh = coda.transpose %ks {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %vs = coda.reshape %v : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %vh = coda.transpose %vs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %qf = coda.reshape %qh : (tensor<2x2x5x4xf32>) -> tensor<4x5x4xf32>
  %kf = coda.reshape %kh : (tensor<2x2x5x4xf32>) -> tensor<4x5x4xf32>
  %vf = coda.reshape %vh : (tensor<2x2x5x4xf32>) -> tensor<4x5x4xf32>
  %kt = coda.transpose %kf {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<4x5x4xf32>) -> tensor<4x4x5xf32>
  %s = torch.call "aten.baddbmm.default"(%alibi, %qf, %kt) {arguments = "{0}, {1}, {2}, beta=1.0, alpha=0.5"} : (tensor<4x1x5xf32>, tensor<4x5x4xf32>, tensor<4x4x5xf32>) -> tensor<4x5x5xf32>
  %p = torch.call "aten.arange.start_step"() {arguments = "0, 5, device=device"} : () -> tensor<5xi64>
  %pq = coda.reshape %p : (tensor<5xi64>) -> tensor<1x1x5x1xi64>
  %le = torch.call "aten.le.Tensor"(%p, %pq) {arguments = "{0}, {1}"} : (tensor<5xi64>, tensor<1x1x5x1xi64>) -> tensor<1x1x5x5xi1>
  %zero = coda.constant {value = 0.0 : f64} : tensor<f32>
  %least = torch.call "aten.scalar_tensor.default"() {arguments = "-3.4028234663852886e+38, dtype=torch.float32"} : () -> tensor<f32>
  %hidden = torch.call "aten.where.self"(%le, %zero, %least) {arguments = "{0}, {1}, {2}"} : (tensor<1x1x5x5xi1>, tensor<f32>, tensor<f32>) -> tensor<1x1x5x5xf32>
  %s4 = coda.reshape %s : (tensor<4x5x5xf32>) -> tensor<2x2x5x5xf32>
  %x = coda.add %s4, %hidden : (tensor<2x2x5x5xf32>, tensor<1x1x5x5xf32>) -> tensor<2x2x5x5xf32>
  %w = coda.softmax %x : (tensor<2x2x5x5xf32>) -> tensor<2x2x5x5xf32>
  %wf = coda.reshape %w : (tensor<2x2x5x5xf32>) -> tensor<4x5x5xf32>
  %af = torch.call "aten.bmm.default"(%wf, %vf) {arguments = "{0}, {1}"} : (tensor<4x5x5xf32>, tensor<4x5x4xf32>) -> tensor<4x5x4xf32>
  %a = coda.reshape %af : (tensor<4x5x4xf32>) -> tensor<2x2x5x4xf32>
  %at = coda.transpose %a {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x2x5x4xf32>) -> tensor<2x5x2x4xf32>
  %y = coda.reshape %at : (tensor<2x5x2x4xf32>) -> tensor<2x5x8xf32>
  func.return %y : tensor<2x5x8xf32>
}

// CHECK-LABEL: func.func @flat(
// CHECK-NEXT:    %mask = coda.reshape %alibi {coda.dims = [2 : i64, 2 : i64, 1 : i64, 5 : i64]} : (tensor<4x1x5xf32>) -> tensor<2x2x1x5xf32>
// CHECK-NEXT:    %af = coda.attention %q, %k, %v mask(%mask : tensor<2x2x1x5xf32>) {coda.decomposed = f32, head_dim = 4 : i64, causal = true, scale = 5.000000e-01 : f64} : (tensor<2x5x8xf32>, tensor<2x5x8xf32>, tensor<2x5x8xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:    func.return %af : tensor<2x5x8xf32>

// -----

// The scores of sinks beside those of the keys, of which the maximum is subtracted, as gpt-oss has.

func.func @sinks(%q: tensor<2x5x8xf32>, %k: tensor<2x5x8xf32>, %v: tensor<2x5x8xf32>, %sinks: tensor<2xf32> {coda.weight}) -> tensor<2x5x8xf32> {
  %qs = coda.reshape %q : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %qh = coda.transpose %qs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %ks = coda.reshape %k : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %kh = coda.transpose %ks {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %vs = coda.reshape %v : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %vh = coda.transpose %vs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %kt = coda.transpose %kh {perm = [0 : i64, 1 : i64, 3 : i64, 2 : i64]} : (tensor<2x2x5x4xf32>) -> tensor<2x2x4x5xf32>
  %s = torch.call "aten.matmul.default"(%qh, %kt) {arguments = "{0}, {1}"} : (tensor<2x2x5x4xf32>, tensor<2x2x4x5xf32>) -> tensor<2x2x5x5xf32>
  %column = coda.reshape %sinks : (tensor<2xf32>) -> tensor<1x2x1x1xf32>
  %rows = torch.call "aten.expand.default"(%column) {arguments = "{0}, [2, -1, 5, -1]", view} : (tensor<1x2x1x1xf32>) -> tensor<2x2x5x1xf32>
  %all = coda.concat %s, %rows {dim = 3 : i64} : (tensor<2x2x5x5xf32>, tensor<2x2x5x1xf32>) -> tensor<2x2x5x6xf32>
  %max = torch.call "aten.max.dim"(%all) {arguments = "{0}, -1, True", positions = [0 : i64]} : (tensor<2x2x5x6xf32>) -> tensor<2x2x5x1xf32>
  %below = coda.sub %all, %max : (tensor<2x2x5x6xf32>, tensor<2x2x5x1xf32>) -> tensor<2x2x5x6xf32>
  %soft = coda.softmax %below : (tensor<2x2x5x6xf32>) -> tensor<2x2x5x6xf32>
  %w = torch.call "aten.slice.Tensor"(%soft) {arguments = "{0}, 3, 0, -1", view} : (tensor<2x2x5x6xf32>) -> tensor<2x2x5x5xf32>
  %a = torch.call "aten.matmul.default"(%w, %vh) {arguments = "{0}, {1}"} : (tensor<2x2x5x5xf32>, tensor<2x2x5x4xf32>) -> tensor<2x2x5x4xf32>
  %at = coda.transpose %a {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x2x5x4xf32>) -> tensor<2x5x2x4xf32>
  %y = coda.reshape %at : (tensor<2x5x2x4xf32>) -> tensor<2x5x8xf32>
  func.return %y : tensor<2x5x8xf32>
}

// CHECK-LABEL: func.func @sinks(
// CHECK-NEXT:    %a = coda.attention %q, %k, %v sinks(%sinks : tensor<2xf32>) {coda.decomposed = f32, head_dim = 4 : i64, causal = false, scale = 1.000000e+00 : f64} : (tensor<2x5x8xf32>, tensor<2x5x8xf32>, tensor<2x5x8xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:    func.return %a : tensor<2x5x8xf32>

// -----

// The keys are scaled by the root of a number, and the scores go through extents of 1, as sums over indices have them.

func.func @scaled_keys(%q: tensor<2x5x8xf32>, %k: tensor<2x5x8xf32>, %v: tensor<2x5x8xf32>) -> tensor<2x5x8xf32> {
  %qs = coda.reshape %q : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %qh = coda.transpose %qs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %ks = coda.reshape %k : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %kh = coda.transpose %ks {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %vs = coda.reshape %v : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %vh = coda.transpose %vs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %four = coda.constant {value = 4.0 : f64} : tensor<f32>
  %root = coda.sqrt %four : (tensor<f32>) -> tensor<f32>
  %kt = coda.transpose %kh {perm = [0 : i64, 1 : i64, 3 : i64, 2 : i64]} : (tensor<2x2x5x4xf32>) -> tensor<2x2x4x5xf32>
  %ks2 = coda.div %kt, %root : (tensor<2x2x4x5xf32>, tensor<f32>) -> tensor<2x2x4x5xf32>
  %qf = coda.reshape %qh : (tensor<2x2x5x4xf32>) -> tensor<4x5x4xf32>
  %kf = coda.reshape %ks2 : (tensor<2x2x4x5xf32>) -> tensor<4x4x5xf32>
  %vf = coda.reshape %vh : (tensor<2x2x5x4xf32>) -> tensor<4x5x4xf32>
  %s = torch.call "aten.bmm.default"(%qf, %kf) {arguments = "{0}, {1}"} : (tensor<4x5x4xf32>, tensor<4x4x5xf32>) -> tensor<4x5x5xf32>
  %s5 = coda.reshape %s : (tensor<4x5x5xf32>) -> tensor<2x2x5x1x5xf32>
  %s4 = coda.reshape %s5 : (tensor<2x2x5x1x5xf32>) -> tensor<2x2x5x5xf32>
  %w = coda.softmax %s4 : (tensor<2x2x5x5xf32>) -> tensor<2x2x5x5xf32>
  %wf = coda.reshape %w : (tensor<2x2x5x5xf32>) -> tensor<4x5x5xf32>
  %af = torch.call "aten.bmm.default"(%wf, %vf) {arguments = "{0}, {1}"} : (tensor<4x5x5xf32>, tensor<4x5x4xf32>) -> tensor<4x5x4xf32>
  %a = coda.reshape %af : (tensor<4x5x4xf32>) -> tensor<2x2x5x4xf32>
  %at = coda.transpose %a {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x2x5x4xf32>) -> tensor<2x5x2x4xf32>
  %y = coda.reshape %at : (tensor<2x5x2x4xf32>) -> tensor<2x5x8xf32>
  func.return %y : tensor<2x5x8xf32>
}

// CHECK-LABEL: func.func @scaled_keys(
// CHECK-NEXT:    %af = coda.attention %q, %k, %v {coda.decomposed = f32, head_dim = 4 : i64, causal = false, scale = 5.000000e-01 : f64} : (tensor<2x5x8xf32>, tensor<2x5x8xf32>, tensor<2x5x8xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:    func.return %af : tensor<2x5x8xf32>

// -----

// Heads that are no columns of a tensor are copied to be, and a number that is added to all scores goes.

func.func @copied(%q: tensor<2x5x8xf32>, %k: tensor<2x5x8xf32>, %v: tensor<2x5x8xf32>, %bias: tensor<1x2x1x4xf32> {coda.weight}) -> tensor<2x5x8xf32> {
  %qs = coda.reshape %q : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %qh = coda.transpose %qs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %ks = coda.reshape %k : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %kh = coda.transpose %ks {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %vs = coda.reshape %v : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %vh = coda.transpose %vs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %qb = coda.add %qh, %bias : (tensor<2x2x5x4xf32>, tensor<1x2x1x4xf32>) -> tensor<2x2x5x4xf32>
  %kt = coda.transpose %kh {perm = [0 : i64, 1 : i64, 3 : i64, 2 : i64]} : (tensor<2x2x5x4xf32>) -> tensor<2x2x4x5xf32>
  %s = torch.call "aten.matmul.default"(%qb, %kt) {arguments = "{0}, {1}"} : (tensor<2x2x5x4xf32>, tensor<2x2x4x5xf32>) -> tensor<2x2x5x5xf32>
  %one = coda.constant {value = 1.0 : f64} : tensor<f32>
  %x = coda.add %s, %one : (tensor<2x2x5x5xf32>, tensor<f32>) -> tensor<2x2x5x5xf32>
  %w = coda.softmax %x : (tensor<2x2x5x5xf32>) -> tensor<2x2x5x5xf32>
  %a = torch.call "aten.matmul.default"(%w, %vh) {arguments = "{0}, {1}"} : (tensor<2x2x5x5xf32>, tensor<2x2x5x4xf32>) -> tensor<2x2x5x4xf32>
  %at = coda.transpose %a {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x2x5x4xf32>) -> tensor<2x5x2x4xf32>
  %y = coda.reshape %at : (tensor<2x5x2x4xf32>) -> tensor<2x5x8xf32>
  func.return %y : tensor<2x5x8xf32>
}

// CHECK-LABEL: func.func @copied(
// CHECK-NEXT:    %qs = coda.reshape %q : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
// CHECK-NEXT:    %qh = coda.transpose %qs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
// CHECK-NEXT:    %qb = coda.add %qh, %bias : (tensor<2x2x5x4xf32>, tensor<1x2x1x4xf32>) -> tensor<2x2x5x4xf32>
// CHECK-NEXT:    %qb_1 = coda.transpose %qb {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x2x5x4xf32>) -> tensor<2x5x2x4xf32>
// CHECK-NEXT:    %qb_2 = coda.reshape %qb_1 : (tensor<2x5x2x4xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:    %a = coda.attention %qb_2, %k, %v {coda.decomposed = f32, head_dim = 4 : i64, causal = false, scale = 1.000000e+00 : f64} : (tensor<2x5x8xf32>, tensor<2x5x8xf32>, tensor<2x5x8xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:    func.return %a : tensor<2x5x8xf32>

// -----

// A factor after the bias is one of the bias.

func.func @factor(%q: tensor<2x5x8xf32>, %k: tensor<2x5x8xf32>, %v: tensor<2x5x8xf32>, %bias: tensor<2x5x5xf32>) -> tensor<2x5x8xf32> {
  %qs = coda.reshape %q : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %qh = coda.transpose %qs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %ks = coda.reshape %k : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %kh = coda.transpose %ks {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %vs = coda.reshape %v : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %vh = coda.transpose %vs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %kt = coda.transpose %kh {perm = [0 : i64, 1 : i64, 3 : i64, 2 : i64]} : (tensor<2x2x5x4xf32>) -> tensor<2x2x4x5xf32>
  %s = torch.call "aten.matmul.default"(%qh, %kt) {arguments = "{0}, {1}"} : (tensor<2x2x5x4xf32>, tensor<2x2x4x5xf32>) -> tensor<2x2x5x5xf32>
  %half = coda.constant {value = 0.5 : f64} : tensor<f32>
  %x1 = coda.add %s, %bias : (tensor<2x2x5x5xf32>, tensor<2x5x5xf32>) -> tensor<2x2x5x5xf32>
  %x2 = coda.mul %x1, %half : (tensor<2x2x5x5xf32>, tensor<f32>) -> tensor<2x2x5x5xf32>
  %w = coda.softmax %x2 : (tensor<2x2x5x5xf32>) -> tensor<2x2x5x5xf32>
  %a = torch.call "aten.matmul.default"(%w, %vh) {arguments = "{0}, {1}"} : (tensor<2x2x5x5xf32>, tensor<2x2x5x4xf32>) -> tensor<2x2x5x4xf32>
  %at = coda.transpose %a {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x2x5x4xf32>) -> tensor<2x5x2x4xf32>
  %y = coda.reshape %at : (tensor<2x5x2x4xf32>) -> tensor<2x5x8xf32>
  func.return %y : tensor<2x5x8xf32>
}

// CHECK-LABEL: func.func @factor(
// CHECK-NEXT:    %0 = coda.constant {value = 5.000000e-01 : f64} : tensor<f32>
// CHECK-NEXT:    %mask = coda.mul %bias, %0 {coda.dims = [2 : i64, 5 : i64, 5 : i64]} : (tensor<2x5x5xf32>, tensor<f32>) -> tensor<2x5x5xf32>
// CHECK-NEXT:    %a = coda.attention %q, %k, %v mask(%mask : tensor<2x5x5xf32>) {coda.decomposed = f32, head_dim = 4 : i64, causal = false, scale = 5.000000e-01 : f64} : (tensor<2x5x8xf32>, tensor<2x5x8xf32>, tensor<2x5x8xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:    func.return %a : tensor<2x5x8xf32>

// -----

// Scores are at least the number that hides.

func.func @floor(%q: tensor<2x5x8xf32>, %k: tensor<2x5x8xf32>, %v: tensor<2x5x8xf32>, %mask: tensor<2x1x1x5xi1>) -> tensor<2x5x8xf32> {
  %qs = coda.reshape %q : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %qh = coda.transpose %qs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %ks = coda.reshape %k : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %kh = coda.transpose %ks {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %vs = coda.reshape %v : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %vh = coda.transpose %vs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %kt = coda.transpose %kh {perm = [0 : i64, 1 : i64, 3 : i64, 2 : i64]} : (tensor<2x2x5x4xf32>) -> tensor<2x2x4x5xf32>
  %s = torch.call "aten.matmul.default"(%qh, %kt) {arguments = "{0}, {1}"} : (tensor<2x2x5x4xf32>, tensor<2x2x4x5xf32>) -> tensor<2x2x5x5xf32>
  %zero = coda.constant {value = 0.0 : f64} : tensor<f32>
  %least = torch.call "aten.scalar_tensor.default"() {arguments = "-3.4028234663852886e+38, dtype=torch.float32"} : () -> tensor<f32>
  %hidden = torch.call "aten.where.self"(%mask, %zero, %least) {arguments = "{0}, {1}, {2}"} : (tensor<2x1x1x5xi1>, tensor<f32>, tensor<f32>) -> tensor<2x1x1x5xf32>
  %x1 = coda.add %s, %hidden : (tensor<2x2x5x5xf32>, tensor<2x1x1x5xf32>) -> tensor<2x2x5x5xf32>
  %x2 = coda.maximum %x1, %least : (tensor<2x2x5x5xf32>, tensor<f32>) -> tensor<2x2x5x5xf32>
  %w = coda.softmax %x2 : (tensor<2x2x5x5xf32>) -> tensor<2x2x5x5xf32>
  %a = torch.call "aten.matmul.default"(%w, %vh) {arguments = "{0}, {1}"} : (tensor<2x2x5x5xf32>, tensor<2x2x5x4xf32>) -> tensor<2x2x5x4xf32>
  %at = coda.transpose %a {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x2x5x4xf32>) -> tensor<2x5x2x4xf32>
  %y = coda.reshape %at : (tensor<2x5x2x4xf32>) -> tensor<2x5x8xf32>
  func.return %y : tensor<2x5x8xf32>
}

// CHECK-LABEL: func.func @floor(
// CHECK-NEXT:    %zero = coda.constant {value = 0.000000e+00 : f64} : tensor<f32>
// CHECK-NEXT:    %least = coda.constant {value = -3.4028234663852886e+38 : f64} : tensor<f32>
// CHECK-NEXT:    %hidden = coda.where %mask, %zero, %least : (tensor<2x1x1x5xi1>, tensor<f32>, tensor<f32>) -> tensor<2x1x1x5xf32>
// CHECK-NEXT:    %a = coda.attention %q, %k, %v mask(%hidden : tensor<2x1x1x5xf32>) {coda.decomposed = f32, head_dim = 4 : i64, causal = false, scale = 1.000000e+00 : f64} : (tensor<2x5x8xf32>, tensor<2x5x8xf32>, tensor<2x5x8xf32>) -> tensor<2x5x8xf32>
// CHECK-NEXT:    func.return %a : tensor<2x5x8xf32>

// -----

// Every position is a document of its own.

func.func @documents(%q: tensor<?x?x32xf32> {coda.dims = ["B", "T", 32 : i64]}, %k: tensor<?x?x16xf32> {coda.dims = ["B", "T", 16 : i64]}, %v: tensor<?x?x16xf32> {coda.dims = ["B", "T", 16 : i64]}) -> tensor<?x?x32xf32> {
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
  %p = torch.call "aten.arange.start_step"() {arguments = "0, T, device=device", coda.dims = ["T"]} : () -> tensor<?xi64>
  %pq = coda.reshape %p {coda.dims = [1 : i64, 1 : i64, "T", 1 : i64]} : (tensor<?xi64>) -> tensor<1x1x?x1xi64>
  %pk = coda.reshape %p {coda.dims = [1 : i64, 1 : i64, 1 : i64, "T"]} : (tensor<?xi64>) -> tensor<1x1x1x?xi64>
  %le = torch.call "aten.le.Tensor"(%pk, %pq) {arguments = "{0}, {1}", coda.dims = [1 : i64, 1 : i64, "T", "T"]} : (tensor<1x1x1x?xi64>, tensor<1x1x?x1xi64>) -> tensor<1x1x?x?xi1>
  %p2 = coda.reshape %p {coda.dims = [1 : i64, "T"]} : (tensor<?xi64>) -> tensor<1x?xi64>
  %ids = torch.call "aten.expand.default"(%p2) {arguments = "{0}, [B, -1]", view, coda.dims = ["B", "T"]} : (tensor<1x?xi64>) -> tensor<?x?xi64>
  %first = torch.call "aten.slice.Tensor"(%ids) {arguments = "{0}, 1, 0, 1", view, coda.dims = ["B", 1 : i64]} : (tensor<?x?xi64>) -> tensor<?x1xi64>
  %before = torch.call "aten.sub.Tensor"(%first) {arguments = "{0}, 1", coda.dims = ["B", 1 : i64]} : (tensor<?x1xi64>) -> tensor<?x1xi64>
  %all = coda.concat %before, %ids {dim = 1 : i64, coda.dims = ["B", "1 + T"]} : (tensor<?x1xi64>, tensor<?x?xi64>) -> tensor<?x?xi64>
  %left = torch.call "aten.slice.Tensor"(%all) {arguments = "{0}, -1, 0, T", view, coda.dims = ["B", "T"]} : (tensor<?x?xi64>) -> tensor<?x?xi64>
  %right = torch.call "aten.slice.Tensor"(%all) {arguments = "{0}, -1, 1, (1 + T)", view, coda.dims = ["B", "T"]} : (tensor<?x?xi64>) -> tensor<?x?xi64>
  %step = torch.call "aten.sub.Tensor"(%right, %left) {arguments = "{0}, {1}", coda.dims = ["B", "T"]} : (tensor<?x?xi64>, tensor<?x?xi64>) -> tensor<?x?xi64>
  %jump = torch.call "aten.ne.Scalar"(%step) {arguments = "{0}, 2", coda.dims = ["B", "T"]} : (tensor<?x?xi64>) -> tensor<?x?xi1>
  %doc = torch.call "aten.cumsum.default"(%jump) {arguments = "{0}, -1", coda.dims = ["B", "T"]} : (tensor<?x?xi1>) -> tensor<?x?xi64>
  %b = torch.call "aten.arange.start_step"() {arguments = "0, B, device=device", coda.dims = ["B"]} : () -> tensor<?xi64>
  %b4 = coda.reshape %b {coda.dims = ["B", 1 : i64, 1 : i64, 1 : i64]} : (tensor<?xi64>) -> tensor<?x1x1x1xi64>
  %dq = torch.call "aten.index.Tensor"(%doc, %b4, %pq) {arguments = "{0}, [{1}, {2}]", coda.dims = ["B", 1 : i64, "T", 1 : i64]} : (tensor<?x?xi64>, tensor<?x1x1x1xi64>, tensor<1x1x?x1xi64>) -> tensor<?x1x?x1xi64>
  %dk = torch.call "aten.index.Tensor"(%doc, %b4, %pk) {arguments = "{0}, [{1}, {2}]", coda.dims = ["B", 1 : i64, 1 : i64, "T"]} : (tensor<?x?xi64>, tensor<?x1x1x1xi64>, tensor<1x1x1x?xi64>) -> tensor<?x1x1x?xi64>
  %same = torch.call "aten.eq.Tensor"(%dq, %dk) {arguments = "{0}, {1}", coda.dims = ["B", 1 : i64, "T", "T"]} : (tensor<?x1x?x1xi64>, tensor<?x1x1x?xi64>) -> tensor<?x1x?x?xi1>
  %mask = torch.call "aten.bitwise_and.Tensor"(%le, %same) {arguments = "{0}, {1}", coda.dims = ["B", 1 : i64, "T", "T"]} : (tensor<1x1x?x?xi1>, tensor<?x1x?x?xi1>) -> tensor<?x1x?x?xi1>
  %a = torch.call "aten.scaled_dot_product_attention.default"(%qh, %kr, %vr, %mask) {arguments = "{0}, {1}, {2}, {3}", coda.dims = ["B", 4 : i64, "T", 8 : i64], random} : (tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>, tensor<?x1x?x?xi1>) -> tensor<?x4x?x8xf32>
  %at = coda.transpose %a {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x4x?x8xf32>) -> tensor<?x?x4x8xf32>
  %y = coda.reshape %at {coda.dims = ["B", "T", 32 : i64]} : (tensor<?x?x4x8xf32>) -> tensor<?x?x32xf32>
  func.return %y : tensor<?x?x32xf32>
}

// CHECK-LABEL: func.func @documents(
// CHECK:         %a = coda.attention %q, %k, %v mask(%same : tensor<?x1x?x?xi1>) {head_dim = 8 : i64, causal = true} : (tensor<?x?x32xf32>, tensor<?x?x16xf32>, tensor<?x?x16xf32>) -> tensor<?x?x32xf32>

// -----

// A factor after a mask of positions.

func.func @temperature(%q: tensor<2x5x8xf32>, %k: tensor<2x5x8xf32>, %v: tensor<2x5x8xf32>) -> tensor<2x2x5x4xf32> {
  %qs = coda.reshape %q : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %qh = coda.transpose %qs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %ks = coda.reshape %k : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %kh = coda.transpose %ks {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %vs = coda.reshape %v : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %vh = coda.transpose %vs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %kt = coda.transpose %kh {perm = [0 : i64, 1 : i64, 3 : i64, 2 : i64]} : (tensor<2x2x5x4xf32>) -> tensor<2x2x4x5xf32>
  %s = torch.call "aten.matmul.default"(%qh, %kt) {arguments = "{0}, {1}"} : (tensor<2x2x5x4xf32>, tensor<2x2x4x5xf32>) -> tensor<2x2x5x5xf32>
  %p = torch.call "aten.arange.start_step"() {arguments = "0, 5, device=device"} : () -> tensor<5xi64>
  %pq = coda.reshape %p : (tensor<5xi64>) -> tensor<1x1x5x1xi64>
  %le = torch.call "aten.le.Tensor"(%p, %pq) {arguments = "{0}, {1}"} : (tensor<5xi64>, tensor<1x1x5x1xi64>) -> tensor<1x1x5x5xi1>
  %zero = coda.constant {value = 0.0 : f64} : tensor<f32>
  %least = torch.call "aten.scalar_tensor.default"() {arguments = "-3.4028234663852886e+38, dtype=torch.float32"} : () -> tensor<f32>
  %bias = torch.call "aten.where.self"(%le, %zero, %least) {arguments = "{0}, {1}, {2}"} : (tensor<1x1x5x5xi1>, tensor<f32>, tensor<f32>) -> tensor<1x1x5x5xf32>
  %scale = coda.constant {value = 0.5 : f64} : tensor<f32>
  %x1 = coda.add %s, %bias : (tensor<2x2x5x5xf32>, tensor<1x1x5x5xf32>) -> tensor<2x2x5x5xf32>
  %x2 = coda.mul %x1, %scale : (tensor<2x2x5x5xf32>, tensor<f32>) -> tensor<2x2x5x5xf32>
  %w = coda.softmax %x2 : (tensor<2x2x5x5xf32>) -> tensor<2x2x5x5xf32>
  %a = torch.call "aten.matmul.default"(%w, %vh) {arguments = "{0}, {1}"} : (tensor<2x2x5x5xf32>, tensor<2x2x5x4xf32>) -> tensor<2x2x5x4xf32>
  func.return %a : tensor<2x2x5x4xf32>
}

// CHECK-LABEL: func.func @temperature(
// CHECK:         %a = coda.attention %q, %k, %v {coda.decomposed = f32, head_dim = 4 : i64, causal = true, scale = 5.000000e-01 : f64} : (tensor<2x5x8xf32>, tensor<2x5x8xf32>, tensor<2x5x8xf32>) -> tensor<2x5x8xf32>

// -----

// Scores and their mask are widened: the mask is taken as it was before.

func.func @widened(%q: tensor<2x5x8xbf16>, %k: tensor<2x5x8xbf16>, %v: tensor<2x5x8xbf16>, %mask: tensor<2x1x5x5xbf16>) -> tensor<2x2x5x4xbf16> {
  %qs = coda.reshape %q : (tensor<2x5x8xbf16>) -> tensor<2x5x2x4xbf16>
  %qh = coda.transpose %qs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xbf16>) -> tensor<2x2x5x4xbf16>
  %ks = coda.reshape %k : (tensor<2x5x8xbf16>) -> tensor<2x5x2x4xbf16>
  %kh = coda.transpose %ks {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xbf16>) -> tensor<2x2x5x4xbf16>
  %vs = coda.reshape %v : (tensor<2x5x8xbf16>) -> tensor<2x5x2x4xbf16>
  %vh = coda.transpose %vs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xbf16>) -> tensor<2x2x5x4xbf16>
  %qw = coda.cast %qh : (tensor<2x2x5x4xbf16>) -> tensor<2x2x5x4xf32>
  %kw = coda.cast %kh : (tensor<2x2x5x4xbf16>) -> tensor<2x2x5x4xf32>
  %kt = coda.transpose %kw {perm = [0 : i64, 1 : i64, 3 : i64, 2 : i64]} : (tensor<2x2x5x4xf32>) -> tensor<2x2x4x5xf32>
  %s = torch.call "aten.matmul.default"(%qw, %kt) {arguments = "{0}, {1}"} : (tensor<2x2x5x4xf32>, tensor<2x2x4x5xf32>) -> tensor<2x2x5x5xf32>
  %bias = coda.cast %mask : (tensor<2x1x5x5xbf16>) -> tensor<2x1x5x5xf32>
  %x = coda.add %s, %bias : (tensor<2x2x5x5xf32>, tensor<2x1x5x5xf32>) -> tensor<2x2x5x5xf32>
  %p = coda.softmax %x : (tensor<2x2x5x5xf32>) -> tensor<2x2x5x5xf32>
  %w = coda.cast %p : (tensor<2x2x5x5xf32>) -> tensor<2x2x5x5xbf16>
  %a = torch.call "aten.matmul.default"(%w, %vh) {arguments = "{0}, {1}"} : (tensor<2x2x5x5xbf16>, tensor<2x2x5x4xbf16>) -> tensor<2x2x5x4xbf16>
  func.return %a : tensor<2x2x5x4xbf16>
}

// CHECK-LABEL: func.func @widened(
// CHECK-NOT:     coda.cast
// CHECK:         %a = coda.attention %q, %k, %v mask(%mask : tensor<2x1x5x5xbf16>) {coda.decomposed = f32, head_dim = 4 : i64, causal = false, scale = 1.000000e+00 : f64} : (tensor<2x5x8xbf16>, tensor<2x5x8xbf16>, tensor<2x5x8xbf16>) -> tensor<2x5x8xbf16>

// -----

// Padding and positions that the same number hides: a row of padding alone attends to all keys.

func.func @filled_twice(%q: tensor<2x5x8xf32>, %k: tensor<2x5x8xf32>, %v: tensor<2x5x8xf32>, %mask: tensor<2x1x1x5xi1>) -> tensor<2x5x8xf32> {
  %qs = coda.reshape %q : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %qh = coda.transpose %qs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %ks = coda.reshape %k : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %kh = coda.transpose %ks {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %vs = coda.reshape %v : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %vh = coda.transpose %vs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %kt = coda.transpose %kh {perm = [0 : i64, 1 : i64, 3 : i64, 2 : i64]} : (tensor<2x2x5x4xf32>) -> tensor<2x2x4x5xf32>
  %s = torch.call "aten.matmul.default"(%qh, %kt) {arguments = "{0}, {1}"} : (tensor<2x2x5x4xf32>, tensor<2x2x4x5xf32>) -> tensor<2x2x5x5xf32>
  %places = torch.call "aten.arange.start_step"() {arguments = "0, 5, 1, device=device"} : () -> tensor<5xi64>
  %column = coda.reshape %places : (tensor<5xi64>) -> tensor<5x1xi64>
  %future = torch.call "aten.gt.Tensor"(%places, %column) {arguments = "{0}, {1}"} : (tensor<5xi64>, tensor<5x1xi64>) -> tensor<5x5xi1>
  %least = torch.call "aten.scalar_tensor.default"() {arguments = "-3.4028234663852886e+38, dtype=torch.float32"} : () -> tensor<f32>
  %z = torch.call "aten.where.self"(%future, %least, %s) {arguments = "{0}, {1}, {2}"} : (tensor<5x5xi1>, tensor<f32>, tensor<2x2x5x5xf32>) -> tensor<2x2x5x5xf32>
  %x = torch.call "aten.where.self"(%mask, %z, %least) {arguments = "{0}, {1}, {2}"} : (tensor<2x1x1x5xi1>, tensor<2x2x5x5xf32>, tensor<f32>) -> tensor<2x2x5x5xf32>
  %w = coda.softmax %x : (tensor<2x2x5x5xf32>) -> tensor<2x2x5x5xf32>
  %a = torch.call "aten.matmul.default"(%w, %vh) {arguments = "{0}, {1}"} : (tensor<2x2x5x5xf32>, tensor<2x2x5x4xf32>) -> tensor<2x2x5x4xf32>
  %at = coda.transpose %a {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x2x5x4xf32>) -> tensor<2x5x2x4xf32>
  %y = coda.reshape %at : (tensor<2x5x2x4xf32>) -> tensor<2x5x8xf32>
  func.return %y : tensor<2x5x8xf32>
}

// CHECK-LABEL: func.func @filled_twice(

// -----

// Minus infinity above the diagonal is added, with extents of 1 before it; a triangle of ones that is 0 hides.

func.func @triangles(%q: tensor<2x5x8xf32>, %k: tensor<2x5x8xf32>, %v: tensor<2x5x8xf32>) -> tensor<2x2x5x4xf32> {
  %qs = coda.reshape %q : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %qh = coda.transpose %qs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %ks = coda.reshape %k : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %kc = coda.transpose %ks {perm = [0 : i64, 2 : i64, 3 : i64, 1 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x4x5xf32>
  %vs = coda.reshape %v : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %vh = coda.transpose %vs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %p = torch.call "aten.arange.start_step"() {arguments = "0, 5, device=device"} : () -> tensor<5xi64>
  %pk = coda.reshape %p : (tensor<5xi64>) -> tensor<1x5xi64>
  %pq = coda.reshape %p : (tensor<5xi64>) -> tensor<5x1xi64>
  %d = coda.sub %pk, %pq : (tensor<1x5xi64>, tensor<5x1xi64>) -> tensor<5x5xi64>
  %one = coda.constant {value = 1 : i64} : tensor<i64>
  %above = coda.compare %d, %one {relation = "ge"} : (tensor<5x5xi64>, tensor<i64>) -> tensor<5x5xi1>
  %inf = coda.constant {value = 0xFFF0000000000000 : f64} : tensor<f32>
  %zero = coda.constant {value = 0.0 : f64} : tensor<f32>
  %upper = coda.where %above, %inf, %zero : (tensor<5x5xi1>, tensor<f32>, tensor<f32>) -> tensor<5x5xf32>
  %mask = coda.reshape %upper : (tensor<5x5xf32>) -> tensor<1x1x5x5xf32>
  %far = coda.constant {value = -2 : i64} : tensor<i64>
  %near = coda.compare %d, %far {relation = "gt"} : (tensor<5x5xi64>, tensor<i64>) -> tensor<5x5xi1>
  %ones = coda.constant {value = 1.0 : f64} : tensor<f32>
  %lower = coda.where %near, %ones, %zero : (tensor<5x5xi1>, tensor<f32>, tensor<f32>) -> tensor<5x5xf32>
  %hidden = coda.compare %lower, %zero {relation = "eq"} : (tensor<5x5xf32>, tensor<f32>) -> tensor<5x5xi1>
  %s = torch.call "aten.matmul.default"(%qh, %kc) {arguments = "{0}, {1}"} : (tensor<2x2x5x4xf32>, tensor<2x2x4x5xf32>) -> tensor<2x2x5x5xf32>
  %m = coda.add %s, %mask : (tensor<2x2x5x5xf32>, tensor<1x1x5x5xf32>) -> tensor<2x2x5x5xf32>
  %w = coda.where %hidden, %inf, %m : (tensor<5x5xi1>, tensor<f32>, tensor<2x2x5x5xf32>) -> tensor<2x2x5x5xf32>
  %sm = coda.softmax %w : (tensor<2x2x5x5xf32>) -> tensor<2x2x5x5xf32>
  %a = torch.call "aten.matmul.default"(%sm, %vh) {arguments = "{0}, {1}"} : (tensor<2x2x5x5xf32>, tensor<2x2x5x4xf32>) -> tensor<2x2x5x4xf32>
  func.return %a : tensor<2x2x5x4xf32>
}

// CHECK-LABEL: func.func @triangles(
// CHECK-NEXT:    %a = coda.attention %q, %k, %v {coda.decomposed = f32, head_dim = 4 : i64, causal = true, window = 2 : i64, scale = 1.000000e+00 : f64}

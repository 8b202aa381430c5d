// RUN: coda-opt %s -p raise-elementwise,raise-attention,canonicalize,drop-no-ops,dce --split-input-file | filecheck %s
// RUN: coda-opt %s -p raise-elementwise,raise-attention --split-input-file --remarks 2>&1 >/dev/null | filecheck %s --check-prefix REMARK

// The column of the sinks stays, and that of a key goes.

func.func @wrong_column(%q: tensor<2x5x8xf32>, %k: tensor<2x5x8xf32>, %v: tensor<2x5x8xf32>, %sinks: tensor<2xf32> {coda.weight}) -> tensor<2x5x8xf32> {
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
  %soft = coda.softmax %all : (tensor<2x2x5x6xf32>) -> tensor<2x2x5x6xf32>
  %w = coda.slice %soft {dim = 3 : i64, start = 1 : i64, stop = 6 : i64} : (tensor<2x2x5x6xf32>) -> tensor<2x2x5x5xf32>
  %a = torch.call "aten.matmul.default"(%w, %vh) {arguments = "{0}, {1}"} : (tensor<2x2x5x5xf32>, tensor<2x2x5x4xf32>) -> tensor<2x2x5x4xf32>
  %at = coda.transpose %a {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x2x5x4xf32>) -> tensor<2x5x2x4xf32>
  %y = coda.reshape %at : (tensor<2x5x2x4xf32>) -> tensor<2x5x8xf32>
  func.return %y : tensor<2x5x8xf32>
}

// CHECK-LABEL: func.func @wrong_column(
// CHECK-NOT:     coda.attention
// CHECK:         func.return
// REMARK:        is left unchanged: its weights are changed after the softmax

// -----

// Each row has a score of its own beside the keys.

func.func @sink_of_rows(%q: tensor<2x5x8xf32>, %k: tensor<2x5x8xf32>, %v: tensor<2x5x8xf32>, %rows: tensor<2x2x5x1xf32>) -> tensor<2x5x8xf32> {
  %qs = coda.reshape %q : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %qh = coda.transpose %qs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %ks = coda.reshape %k : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %kh = coda.transpose %ks {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %vs = coda.reshape %v : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %vh = coda.transpose %vs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %kt = coda.transpose %kh {perm = [0 : i64, 1 : i64, 3 : i64, 2 : i64]} : (tensor<2x2x5x4xf32>) -> tensor<2x2x4x5xf32>
  %s = torch.call "aten.matmul.default"(%qh, %kt) {arguments = "{0}, {1}"} : (tensor<2x2x5x4xf32>, tensor<2x2x4x5xf32>) -> tensor<2x2x5x5xf32>
  %all = coda.concat %s, %rows {dim = 3 : i64} : (tensor<2x2x5x5xf32>, tensor<2x2x5x1xf32>) -> tensor<2x2x5x6xf32>
  %soft = coda.softmax %all : (tensor<2x2x5x6xf32>) -> tensor<2x2x5x6xf32>
  %w = coda.slice %soft {dim = 3 : i64, start = 0 : i64, stop = 5 : i64} : (tensor<2x2x5x6xf32>) -> tensor<2x2x5x5xf32>
  %a = torch.call "aten.matmul.default"(%w, %vh) {arguments = "{0}, {1}"} : (tensor<2x2x5x5xf32>, tensor<2x2x5x4xf32>) -> tensor<2x2x5x4xf32>
  %at = coda.transpose %a {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x2x5x4xf32>) -> tensor<2x5x2x4xf32>
  %y = coda.reshape %at : (tensor<2x5x2x4xf32>) -> tensor<2x5x8xf32>
  func.return %y : tensor<2x5x8xf32>
}

// CHECK-LABEL: func.func @sink_of_rows(
// CHECK-NOT:     coda.attention
// CHECK:         func.return
// REMARK:        is left unchanged: its scores are concatenated with others

// -----

// The bias could change what takes the place of hidden scores: rows of padding alone would differ.

func.func @shallow(%q: tensor<2x5x8xf32>, %k: tensor<2x5x8xf32>, %v: tensor<2x5x8xf32>, %mask: tensor<2x1x1x5xi1>, %bias: tensor<2x1x1x5xf32> {coda.weight}) -> tensor<2x5x8xf32> {
  %qs = coda.reshape %q : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %qh = coda.transpose %qs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %ks = coda.reshape %k : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %kh = coda.transpose %ks {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %vs = coda.reshape %v : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %vh = coda.transpose %vs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %kt = coda.transpose %kh {perm = [0 : i64, 1 : i64, 3 : i64, 2 : i64]} : (tensor<2x2x5x4xf32>) -> tensor<2x2x4x5xf32>
  %s = torch.call "aten.matmul.default"(%qh, %kt) {arguments = "{0}, {1}"} : (tensor<2x2x5x4xf32>, tensor<2x2x4x5xf32>) -> tensor<2x2x5x5xf32>
  %b = coda.add %s, %bias : (tensor<2x2x5x5xf32>, tensor<2x1x1x5xf32>) -> tensor<2x2x5x5xf32>
  %least = torch.call "aten.scalar_tensor.default"() {arguments = "-70000.0, dtype=torch.float32"} : () -> tensor<f32>
  %x = torch.call "aten.where.self"(%mask, %b, %least) {arguments = "{0}, {1}, {2}"} : (tensor<2x1x1x5xi1>, tensor<2x2x5x5xf32>, tensor<f32>) -> tensor<2x2x5x5xf32>
  %w = coda.softmax %x : (tensor<2x2x5x5xf32>) -> tensor<2x2x5x5xf32>
  %a = torch.call "aten.matmul.default"(%w, %vh) {arguments = "{0}, {1}"} : (tensor<2x2x5x5xf32>, tensor<2x2x5x4xf32>) -> tensor<2x2x5x4xf32>
  %at = coda.transpose %a {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x2x5x4xf32>) -> tensor<2x5x2x4xf32>
  %y = coda.reshape %at : (tensor<2x5x2x4xf32>) -> tensor<2x5x8xf32>
  func.return %y : tensor<2x5x8xf32>
}

// CHECK-LABEL: func.func @shallow(
// CHECK-NOT:     coda.attention
// CHECK:         func.return
// REMARK:        remains a call of PyTorch: its bias may reach the number that replaces scores

// -----

// It does not hide.

func.func @in_reach(%q: tensor<2x5x8xf32>, %k: tensor<2x5x8xf32>, %v: tensor<2x5x8xf32>, %mask: tensor<2x1x1x5xi1>) -> tensor<2x5x8xf32> {
  %qs = coda.reshape %q : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %qh = coda.transpose %qs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %ks = coda.reshape %k : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %kh = coda.transpose %ks {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %vs = coda.reshape %v : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %vh = coda.transpose %vs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %kt = coda.transpose %kh {perm = [0 : i64, 1 : i64, 3 : i64, 2 : i64]} : (tensor<2x2x5x4xf32>) -> tensor<2x2x4x5xf32>
  %s = torch.call "aten.matmul.default"(%qh, %kt) {arguments = "{0}, {1}"} : (tensor<2x2x5x4xf32>, tensor<2x2x4x5xf32>) -> tensor<2x2x5x5xf32>
  %least = torch.call "aten.scalar_tensor.default"() {arguments = "-10.0, dtype=torch.float32"} : () -> tensor<f32>
  %x = torch.call "aten.where.self"(%mask, %s, %least) {arguments = "{0}, {1}, {2}"} : (tensor<2x1x1x5xi1>, tensor<2x2x5x5xf32>, tensor<f32>) -> tensor<2x2x5x5xf32>
  %w = coda.softmax %x : (tensor<2x2x5x5xf32>) -> tensor<2x2x5x5xf32>
  %a = torch.call "aten.matmul.default"(%w, %vh) {arguments = "{0}, {1}"} : (tensor<2x2x5x5xf32>, tensor<2x2x5x4xf32>) -> tensor<2x2x5x4xf32>
  %at = coda.transpose %a {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x2x5x4xf32>) -> tensor<2x5x2x4xf32>
  %y = coda.reshape %at : (tensor<2x5x2x4xf32>) -> tensor<2x5x8xf32>
  func.return %y : tensor<2x5x8xf32>
}

// CHECK-LABEL: func.func @in_reach(
// CHECK-NOT:     coda.attention
// CHECK:         func.return
// REMARK:        remains a call of PyTorch: the number that replaces scores does not mask them

// -----

// Numbers that hide take the place of scores with a bias that may hide.

func.func @hidden_twice(%q: tensor<2x5x8xf32>, %k: tensor<2x5x8xf32>, %v: tensor<2x5x8xf32>, %bias: tensor<2x1x1x5xf32>) -> tensor<2x5x8xf32> {
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
  %least = torch.call "aten.scalar_tensor.default"() {arguments = "-3.4028234663852886e+38, dtype=torch.float32"} : () -> tensor<f32>
  %x1 = coda.add %s, %bias : (tensor<2x2x5x5xf32>, tensor<2x1x1x5xf32>) -> tensor<2x2x5x5xf32>
  %x2 = torch.call "aten.where.self"(%le, %x1, %least) {arguments = "{0}, {1}, {2}"} : (tensor<1x1x5x5xi1>, tensor<2x2x5x5xf32>, tensor<f32>) -> tensor<2x2x5x5xf32>
  %w = coda.softmax %x2 : (tensor<2x2x5x5xf32>) -> tensor<2x2x5x5xf32>
  %a = torch.call "aten.matmul.default"(%w, %vh) {arguments = "{0}, {1}"} : (tensor<2x2x5x5xf32>, tensor<2x2x5x4xf32>) -> tensor<2x2x5x4xf32>
  %at = coda.transpose %a {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x2x5x4xf32>) -> tensor<2x5x2x4xf32>
  %y = coda.reshape %at : (tensor<2x5x2x4xf32>) -> tensor<2x5x8xf32>
  func.return %y : tensor<2x5x8xf32>
}

// CHECK-LABEL: func.func @hidden_twice(
// CHECK-NOT:     coda.attention
// CHECK:         func.return
// REMARK:        remains a call of PyTorch: it masks scores both by a number and by a bias

// -----

// The weights are changed after the softmax.

func.func @reweighed(%q: tensor<2x5x8xf32>, %k: tensor<2x5x8xf32>, %v: tensor<2x5x8xf32>, %gain: tensor<2x2x5x5xf32>) -> tensor<2x5x8xf32> {
  %qs = coda.reshape %q : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %qh = coda.transpose %qs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %ks = coda.reshape %k : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %kh = coda.transpose %ks {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %vs = coda.reshape %v : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %vh = coda.transpose %vs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %kt = coda.transpose %kh {perm = [0 : i64, 1 : i64, 3 : i64, 2 : i64]} : (tensor<2x2x5x4xf32>) -> tensor<2x2x4x5xf32>
  %s = torch.call "aten.matmul.default"(%qh, %kt) {arguments = "{0}, {1}"} : (tensor<2x2x5x4xf32>, tensor<2x2x4x5xf32>) -> tensor<2x2x5x5xf32>
  %w1 = coda.softmax %s : (tensor<2x2x5x5xf32>) -> tensor<2x2x5x5xf32>
  %w = coda.mul %w1, %gain : (tensor<2x2x5x5xf32>, tensor<2x2x5x5xf32>) -> tensor<2x2x5x5xf32>
  %a = torch.call "aten.matmul.default"(%w, %vh) {arguments = "{0}, {1}"} : (tensor<2x2x5x5xf32>, tensor<2x2x5x4xf32>) -> tensor<2x2x5x4xf32>
  %at = coda.transpose %a {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x2x5x4xf32>) -> tensor<2x5x2x4xf32>
  %y = coda.reshape %at : (tensor<2x5x2x4xf32>) -> tensor<2x5x8xf32>
  func.return %y : tensor<2x5x8xf32>
}

// CHECK-LABEL: func.func @reweighed(
// CHECK-NOT:     coda.attention
// CHECK:         func.return
// REMARK:        is left unchanged: its weights are changed after the softmax

// -----

// A function of the scores.

func.func @curved(%q: tensor<2x5x8xf32>, %k: tensor<2x5x8xf32>, %v: tensor<2x5x8xf32>) -> tensor<2x5x8xf32> {
  %qs = coda.reshape %q : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %qh = coda.transpose %qs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %ks = coda.reshape %k : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %kh = coda.transpose %ks {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %vs = coda.reshape %v : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %vh = coda.transpose %vs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %kt = coda.transpose %kh {perm = [0 : i64, 1 : i64, 3 : i64, 2 : i64]} : (tensor<2x2x5x4xf32>) -> tensor<2x2x4x5xf32>
  %s = torch.call "aten.matmul.default"(%qh, %kt) {arguments = "{0}, {1}"} : (tensor<2x2x5x4xf32>, tensor<2x2x4x5xf32>) -> tensor<2x2x5x5xf32>
  %x = coda.relu %s : (tensor<2x2x5x5xf32>) -> tensor<2x2x5x5xf32>
  %w = coda.softmax %x : (tensor<2x2x5x5xf32>) -> tensor<2x2x5x5xf32>
  %a = torch.call "aten.matmul.default"(%w, %vh) {arguments = "{0}, {1}"} : (tensor<2x2x5x5xf32>, tensor<2x2x5x4xf32>) -> tensor<2x2x5x4xf32>
  %at = coda.transpose %a {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x2x5x4xf32>) -> tensor<2x5x2x4xf32>
  %y = coda.reshape %at : (tensor<2x5x2x4xf32>) -> tensor<2x5x8xf32>
  func.return %y : tensor<2x5x8xf32>
}

// CHECK-LABEL: func.func @curved(
// CHECK-NOT:     coda.attention
// CHECK:         func.return
// REMARK:        is left unchanged: its scores go through coda.relu

// -----

// Minus infinity becomes a number again.

func.func @raised_again(%q: tensor<2x5x8xf32>, %k: tensor<2x5x8xf32>, %v: tensor<2x5x8xf32>, %mask: tensor<2x1x1x5xi1>) -> tensor<2x5x8xf32> {
  %qs = coda.reshape %q : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %qh = coda.transpose %qs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %ks = coda.reshape %k : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %kh = coda.transpose %ks {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %vs = coda.reshape %v : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %vh = coda.transpose %vs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %kt = coda.transpose %kh {perm = [0 : i64, 1 : i64, 3 : i64, 2 : i64]} : (tensor<2x2x5x4xf32>) -> tensor<2x2x4x5xf32>
  %s = torch.call "aten.matmul.default"(%qh, %kt) {arguments = "{0}, {1}"} : (tensor<2x2x5x4xf32>, tensor<2x2x4x5xf32>) -> tensor<2x2x5x5xf32>
  %inf = torch.call "aten.scalar_tensor.default"() {arguments = "-inf, dtype=torch.float32"} : () -> tensor<f32>
  %least = torch.call "aten.scalar_tensor.default"() {arguments = "-3.4028234663852886e+38, dtype=torch.float32"} : () -> tensor<f32>
  %x1 = torch.call "aten.where.self"(%mask, %s, %inf) {arguments = "{0}, {1}, {2}"} : (tensor<2x1x1x5xi1>, tensor<2x2x5x5xf32>, tensor<f32>) -> tensor<2x2x5x5xf32>
  %x2 = coda.maximum %x1, %least : (tensor<2x2x5x5xf32>, tensor<f32>) -> tensor<2x2x5x5xf32>
  %w = coda.softmax %x2 : (tensor<2x2x5x5xf32>) -> tensor<2x2x5x5xf32>
  %a = torch.call "aten.matmul.default"(%w, %vh) {arguments = "{0}, {1}"} : (tensor<2x2x5x5xf32>, tensor<2x2x5x4xf32>) -> tensor<2x2x5x4xf32>
  %at = coda.transpose %a {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x2x5x4xf32>) -> tensor<2x5x2x4xf32>
  %y = coda.reshape %at : (tensor<2x5x2x4xf32>) -> tensor<2x5x8xf32>
  func.return %y : tensor<2x5x8xf32>
}

// CHECK-LABEL: func.func @raised_again(
// CHECK-NOT:     coda.attention
// CHECK:         func.return
// REMARK:        is left unchanged: masked scores are clamped to a number

// -----

// The bias makes the scores larger: it broadcasts them to other heads.

func.func @other_heads(%q: tensor<2x5x8xf32>, %k: tensor<2x5x8xf32>, %v: tensor<2x5x8xf32>, %bias: tensor<3x2x2x5x5xf32>) -> tensor<2x5x8xf32> {
  %qs = coda.reshape %q : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %qh = coda.transpose %qs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %ks = coda.reshape %k : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %kh = coda.transpose %ks {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %vs = coda.reshape %v : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %vh = coda.transpose %vs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %kt = coda.transpose %kh {perm = [0 : i64, 1 : i64, 3 : i64, 2 : i64]} : (tensor<2x2x5x4xf32>) -> tensor<2x2x4x5xf32>
  %s = torch.call "aten.matmul.default"(%qh, %kt) {arguments = "{0}, {1}"} : (tensor<2x2x5x4xf32>, tensor<2x2x4x5xf32>) -> tensor<2x2x5x5xf32>
  %x = coda.add %s, %bias : (tensor<2x2x5x5xf32>, tensor<3x2x2x5x5xf32>) -> tensor<3x2x2x5x5xf32>
  %w5 = coda.softmax %x : (tensor<3x2x2x5x5xf32>) -> tensor<3x2x2x5x5xf32>
  %w1 = coda.slice %w5 {dim = 0 : i64, start = 0 : i64, stop = 1 : i64} : (tensor<3x2x2x5x5xf32>) -> tensor<1x2x2x5x5xf32>
  %w = coda.reshape %w1 : (tensor<1x2x2x5x5xf32>) -> tensor<2x2x5x5xf32>
  %a = torch.call "aten.matmul.default"(%w, %vh) {arguments = "{0}, {1}"} : (tensor<2x2x5x5xf32>, tensor<2x2x5x4xf32>) -> tensor<2x2x5x4xf32>
  %at = coda.transpose %a {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x2x5x4xf32>) -> tensor<2x5x2x4xf32>
  %y = coda.reshape %at : (tensor<2x5x2x4xf32>) -> tensor<2x5x8xf32>
  func.return %y : tensor<2x5x8xf32>
}

// CHECK-LABEL: func.func @other_heads(
// CHECK-NOT:     coda.attention
// CHECK:         func.return
// REMARK:        is left unchanged: its weights are changed after the softmax

// -----

// Rows of padding alone attend to the keys with the greater number.

func.func @two_numbers(%q: tensor<2x5x8xf32>, %k: tensor<2x5x8xf32>, %v: tensor<2x5x8xf32>, %mask: tensor<2x1x1x5xi1>, %other: tensor<2x1x5x5xi1>) -> tensor<2x5x8xf32> {
  %qs = coda.reshape %q : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %qh = coda.transpose %qs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %ks = coda.reshape %k : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %kh = coda.transpose %ks {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %vs = coda.reshape %v : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %vh = coda.transpose %vs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %kt = coda.transpose %kh {perm = [0 : i64, 1 : i64, 3 : i64, 2 : i64]} : (tensor<2x2x5x4xf32>) -> tensor<2x2x4x5xf32>
  %s = torch.call "aten.matmul.default"(%qh, %kt) {arguments = "{0}, {1}"} : (tensor<2x2x5x4xf32>, tensor<2x2x4x5xf32>) -> tensor<2x2x5x5xf32>
  %least = torch.call "aten.scalar_tensor.default"() {arguments = "-3.4028234663852886e+38, dtype=torch.float32"} : () -> tensor<f32>
  %more = torch.call "aten.scalar_tensor.default"() {arguments = "-1e+09, dtype=torch.float32"} : () -> tensor<f32>
  %z = torch.call "aten.where.self"(%mask, %s, %least) {arguments = "{0}, {1}, {2}"} : (tensor<2x1x1x5xi1>, tensor<2x2x5x5xf32>, tensor<f32>) -> tensor<2x2x5x5xf32>
  %x = torch.call "aten.where.self"(%other, %z, %more) {arguments = "{0}, {1}, {2}"} : (tensor<2x1x5x5xi1>, tensor<2x2x5x5xf32>, tensor<f32>) -> tensor<2x2x5x5xf32>
  %w = coda.softmax %x : (tensor<2x2x5x5xf32>) -> tensor<2x2x5x5xf32>
  %a = torch.call "aten.matmul.default"(%w, %vh) {arguments = "{0}, {1}"} : (tensor<2x2x5x5xf32>, tensor<2x2x5x4xf32>) -> tensor<2x2x5x4xf32>
  %at = coda.transpose %a {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x2x5x4xf32>) -> tensor<2x5x2x4xf32>
  %y = coda.reshape %at : (tensor<2x5x2x4xf32>) -> tensor<2x5x8xf32>
  func.return %y : tensor<2x5x8xf32>
}

// CHECK-LABEL: func.func @two_numbers(
// CHECK-NOT:     coda.attention
// CHECK:         func.return
// REMARK:        remains a call of PyTorch: it replaces scores by several numbers

// -----

// A number takes the place of minus infinity, too.

func.func @number_in_place_of_infinity(%q: tensor<2x5x8xf32>, %k: tensor<2x5x8xf32>, %v: tensor<2x5x8xf32>, %mask: tensor<2x1x1x5xi1>, %other: tensor<2x1x5x5xi1>) -> tensor<2x5x8xf32> {
  %qs = coda.reshape %q : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %qh = coda.transpose %qs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %ks = coda.reshape %k : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %kh = coda.transpose %ks {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %vs = coda.reshape %v : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %vh = coda.transpose %vs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %kt = coda.transpose %kh {perm = [0 : i64, 1 : i64, 3 : i64, 2 : i64]} : (tensor<2x2x5x4xf32>) -> tensor<2x2x4x5xf32>
  %s = torch.call "aten.matmul.default"(%qh, %kt) {arguments = "{0}, {1}"} : (tensor<2x2x5x4xf32>, tensor<2x2x4x5xf32>) -> tensor<2x2x5x5xf32>
  %least = torch.call "aten.scalar_tensor.default"() {arguments = "-3.4028234663852886e+38, dtype=torch.float32"} : () -> tensor<f32>
  %infinite = torch.call "aten.scalar_tensor.default"() {arguments = "-inf, dtype=torch.float32"} : () -> tensor<f32>
  %z = torch.call "aten.where.self"(%other, %s, %infinite) {arguments = "{0}, {1}, {2}"} : (tensor<2x1x5x5xi1>, tensor<2x2x5x5xf32>, tensor<f32>) -> tensor<2x2x5x5xf32>
  %x = torch.call "aten.where.self"(%mask, %z, %least) {arguments = "{0}, {1}, {2}"} : (tensor<2x1x1x5xi1>, tensor<2x2x5x5xf32>, tensor<f32>) -> tensor<2x2x5x5xf32>
  %w = coda.softmax %x : (tensor<2x2x5x5xf32>) -> tensor<2x2x5x5xf32>
  %a = torch.call "aten.matmul.default"(%w, %vh) {arguments = "{0}, {1}"} : (tensor<2x2x5x5xf32>, tensor<2x2x5x4xf32>) -> tensor<2x2x5x4xf32>
  %at = coda.transpose %a {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x2x5x4xf32>) -> tensor<2x5x2x4xf32>
  %y = coda.reshape %at : (tensor<2x5x2x4xf32>) -> tensor<2x5x8xf32>
  func.return %y : tensor<2x5x8xf32>
}

// CHECK-LABEL: func.func @number_in_place_of_infinity(
// CHECK-NOT:     coda.attention
// CHECK:         func.return
// REMARK:        remains a call of PyTorch: it masks scores twice, first by a number

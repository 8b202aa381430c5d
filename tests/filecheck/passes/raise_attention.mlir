// RUN: coda-opt %s -p raise-elementwise,raise-attention,canonicalize,drop-no-ops,dce --split-input-file | filecheck %s

// A causal mask of positions, heads repeated for the queries that share them, and a scale.

func.func @causal(%q: tensor<?x?x32xf32> {coda.dims = ["B", "T", 32 : i64]}, %k: tensor<?x?x16xf32> {coda.dims = ["B", "T", 16 : i64]}, %v: tensor<?x?x16xf32> {coda.dims = ["B", "T", 16 : i64]}) -> tensor<?x?x32xf32> {
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
  %mask = torch.call "aten.expand.default"(%le) {arguments = "{0}, [B, -1, T, T]", view, coda.dims = ["B", 1 : i64, "T", "T"]} : (tensor<1x1x?x?xi1>) -> tensor<?x1x?x?xi1>
  %a = torch.call "aten.scaled_dot_product_attention.default"(%qh, %kr, %vr, %mask) {arguments = "{0}, {1}, {2}, {3}, scale=0.25", coda.dims = ["B", 4 : i64, "T", 8 : i64], random} : (tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>, tensor<?x1x?x?xi1>) -> tensor<?x4x?x8xf32>
  %at = coda.transpose %a {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x4x?x8xf32>) -> tensor<?x?x4x8xf32>
  %y = coda.reshape %at {coda.dims = ["B", "T", 32 : i64]} : (tensor<?x?x4x8xf32>) -> tensor<?x?x32xf32>
  func.return %y : tensor<?x?x32xf32>
}

// CHECK-LABEL: func.func @causal(
// CHECK-NEXT:    [[Y:%.*]] = coda.attention %q, %k, %v {head_dim = 8 : i64, causal = true, scale = 2.500000e-01 : f64}
// CHECK-NEXT:    func.return [[Y]]

// -----

// Positions that are one behind another are one document: the mask is causal alone.

func.func @document(%q: tensor<?x?x32xf32> {coda.dims = ["B", "T", 32 : i64]}, %k: tensor<?x?x16xf32> {coda.dims = ["B", "T", 16 : i64]}, %v: tensor<?x?x16xf32> {coda.dims = ["B", "T", 16 : i64]}) -> tensor<?x?x32xf32> {
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
  %jump = torch.call "aten.ne.Scalar"(%step) {arguments = "{0}, 1", coda.dims = ["B", "T"]} : (tensor<?x?xi64>) -> tensor<?x?xi1>
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

// CHECK-LABEL: func.func @document(
// CHECK-NEXT:    [[Y:%.*]] = coda.attention %q, %k, %v {head_dim = 8 : i64, causal = true}
// CHECK-NEXT:    func.return [[Y]]

// -----

// A mask that hides nothing, and heads that PyTorch repeats.

func.func @all(%q: tensor<?x?x32xf32> {coda.dims = ["B", "T", 32 : i64]}, %k: tensor<?x?x16xf32> {coda.dims = ["B", "T", 16 : i64]}, %v: tensor<?x?x16xf32> {coda.dims = ["B", "T", 16 : i64]}) -> tensor<?x?x32xf32> {
  %qs = coda.reshape %q {coda.dims = ["B", "T", 4 : i64, 8 : i64]} : (tensor<?x?x32xf32>) -> tensor<?x?x4x8xf32>
  %qh = coda.transpose %qs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x?x4x8xf32>) -> tensor<?x4x?x8xf32>
  %ks = coda.reshape %k {coda.dims = ["B", "T", 2 : i64, 8 : i64]} : (tensor<?x?x16xf32>) -> tensor<?x?x2x8xf32>
  %kh = coda.transpose %ks {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x?x2x8xf32>) -> tensor<?x2x?x8xf32>
  %vs = coda.reshape %v {coda.dims = ["B", "T", 2 : i64, 8 : i64]} : (tensor<?x?x16xf32>) -> tensor<?x?x2x8xf32>
  %vh = coda.transpose %vs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x?x2x8xf32>) -> tensor<?x2x?x8xf32>
  %p = torch.call "aten.arange.start_step"() {arguments = "0, T, device=device", coda.dims = ["T"]} : () -> tensor<?xi64>
  %pq = coda.reshape %p {coda.dims = [1 : i64, 1 : i64, "T", 1 : i64]} : (tensor<?xi64>) -> tensor<1x1x?x1xi64>
  %ge = torch.call "aten.ge.Scalar"(%pq) {arguments = "{0}, 0", coda.dims = [1 : i64, 1 : i64, "T", 1 : i64]} : (tensor<1x1x?x1xi64>) -> tensor<1x1x?x1xi1>
  %mask = torch.call "aten.expand.default"(%ge) {arguments = "{0}, [B, -1, T, T]", view, coda.dims = ["B", 1 : i64, "T", "T"]} : (tensor<1x1x?x1xi1>) -> tensor<?x1x?x?xi1>
  %a = torch.call "aten.scaled_dot_product_attention.default"(%qh, %kh, %vh, %mask) {arguments = "{0}, {1}, {2}, {3}, enable_gqa=True", coda.dims = ["B", 4 : i64, "T", 8 : i64], random} : (tensor<?x4x?x8xf32>, tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, tensor<?x1x?x?xi1>) -> tensor<?x4x?x8xf32>
  %at = coda.transpose %a {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x4x?x8xf32>) -> tensor<?x?x4x8xf32>
  %y = coda.reshape %at {coda.dims = ["B", "T", 32 : i64]} : (tensor<?x?x4x8xf32>) -> tensor<?x?x32xf32>
  func.return %y : tensor<?x?x32xf32>
}

// CHECK-LABEL: func.func @all(
// CHECK-NEXT:    [[Y:%.*]] = coda.attention %q, %k, %v {head_dim = 8 : i64, causal = false}
// CHECK-NEXT:    func.return [[Y]]

// -----

// PyTorch's own causal mask.

func.func @is_causal(%q: tensor<?x?x32xf32> {coda.dims = ["B", "T", 32 : i64]}, %k: tensor<?x?x16xf32> {coda.dims = ["B", "T", 16 : i64]}, %v: tensor<?x?x16xf32> {coda.dims = ["B", "T", 16 : i64]}) -> tensor<?x?x32xf32> {
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
  %a = torch.call "aten.scaled_dot_product_attention.default"(%qh, %kr, %vr) {arguments = "{0}, {1}, {2}, None, 0.0, True", coda.dims = ["B", 4 : i64, "T", 8 : i64], random} : (tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>) -> tensor<?x4x?x8xf32>
  %at = coda.transpose %a {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x4x?x8xf32>) -> tensor<?x?x4x8xf32>
  %y = coda.reshape %at {coda.dims = ["B", "T", 32 : i64]} : (tensor<?x?x4x8xf32>) -> tensor<?x?x32xf32>
  func.return %y : tensor<?x?x32xf32>
}

// CHECK-LABEL: func.func @is_causal(
// CHECK-NEXT:    [[Y:%.*]] = coda.attention %q, %k, %v {head_dim = 8 : i64, causal = true}
// CHECK-NEXT:    func.return [[Y]]

// -----

// Written out: a scale, a cap, and a mask that is added.

func.func @added(%q: tensor<2x5x8xf32>, %k: tensor<2x5x8xf32>, %v: tensor<2x5x8xf32>) -> tensor<2x2x5x4xf32> {
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
  %x1 = coda.mul %s, %scale : (tensor<2x2x5x5xf32>, tensor<f32>) -> tensor<2x2x5x5xf32>
  %x2 = coda.softcap %x1 {cap = 50.0 : f64} : (tensor<2x2x5x5xf32>) -> tensor<2x2x5x5xf32>
  %x3 = coda.add %x2, %bias : (tensor<2x2x5x5xf32>, tensor<1x1x5x5xf32>) -> tensor<2x2x5x5xf32>
  %w = coda.softmax %x3 : (tensor<2x2x5x5xf32>) -> tensor<2x2x5x5xf32>
  %a = torch.call "aten.matmul.default"(%w, %vh) {arguments = "{0}, {1}"} : (tensor<2x2x5x5xf32>, tensor<2x2x5x4xf32>) -> tensor<2x2x5x4xf32>
  func.return %a : tensor<2x2x5x4xf32>
}

// CHECK-LABEL: func.func @added(
// CHECK-NEXT:    [[A:%.*]] = coda.attention %q, %k, %v {coda.decomposed = f32, head_dim = 4 : i64, causal = true, scale = 5.000000e-01 : f64, softcap = 5.000000e+01 : f64}
// CHECK-NEXT:    coda.reshape [[A]]

// -----

// Written out: scores that are divided, and chosen by a mask; another mask hides nothing.

func.func @chosen(%q: tensor<2x5x8xf32>, %k: tensor<2x5x8xf32>, %v: tensor<2x5x8xf32>) -> tensor<2x2x5x4xf32> {
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
  %ones = torch.call "aten.full.default"() {arguments = "[2, 5], 1, dtype=torch.float32"} : () -> tensor<2x5xf32>
  %all = torch.call "aten._to_copy.default"(%ones) {arguments = "{0}, dtype=torch.bool"} : (tensor<2x5xf32>) -> tensor<2x5xi1>
  %keys = coda.reshape %all : (tensor<2x5xi1>) -> tensor<2x1x1x5xi1>
  %mask = torch.call "aten.logical_and.default"(%le, %keys) {arguments = "{0}, {1}"} : (tensor<1x1x5x5xi1>, tensor<2x1x1x5xi1>) -> tensor<2x1x5x5xi1>
  %scale = coda.constant {value = 0.5 : f64} : tensor<f32>
  %x1 = coda.div %s, %scale : (tensor<2x2x5x5xf32>, tensor<f32>) -> tensor<2x2x5x5xf32>
  %x2 = torch.call "aten.where.self"(%mask, %x1, %least) {arguments = "{0}, {1}, {2}"} : (tensor<2x1x5x5xi1>, tensor<2x2x5x5xf32>, tensor<f32>) -> tensor<2x2x5x5xf32>
  %w = coda.softmax %x2 : (tensor<2x2x5x5xf32>) -> tensor<2x2x5x5xf32>
  %a = torch.call "aten.matmul.default"(%w, %vh) {arguments = "{0}, {1}"} : (tensor<2x2x5x5xf32>, tensor<2x2x5x4xf32>) -> tensor<2x2x5x4xf32>
  func.return %a : tensor<2x2x5x4xf32>
}

// CHECK-LABEL: func.func @chosen(
// CHECK-NEXT:    [[A:%.*]] = coda.attention %q, %k, %v {coda.decomposed = f32, head_dim = 4 : i64, causal = true, scale = 2.000000e+00 : f64}
// CHECK-NEXT:    coda.reshape [[A]]

// -----

// No mask and no scale.

func.func @plain(%q: tensor<2x5x8xf32>, %k: tensor<2x5x8xf32>, %v: tensor<2x5x8xf32>) -> tensor<2x2x5x4xf32> {
  %qs = coda.reshape %q : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %qh = coda.transpose %qs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %ks = coda.reshape %k : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %kh = coda.transpose %ks {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %vs = coda.reshape %v : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %vh = coda.transpose %vs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %kt = coda.transpose %kh {perm = [0 : i64, 1 : i64, 3 : i64, 2 : i64]} : (tensor<2x2x5x4xf32>) -> tensor<2x2x4x5xf32>
  %s = torch.call "aten.matmul.default"(%qh, %kt) {arguments = "{0}, {1}"} : (tensor<2x2x5x4xf32>, tensor<2x2x4x5xf32>) -> tensor<2x2x5x5xf32>
  %w = coda.softmax %s : (tensor<2x2x5x5xf32>) -> tensor<2x2x5x5xf32>
  %a = torch.call "aten.matmul.default"(%w, %vh) {arguments = "{0}, {1}"} : (tensor<2x2x5x5xf32>, tensor<2x2x5x4xf32>) -> tensor<2x2x5x4xf32>
  func.return %a : tensor<2x2x5x4xf32>
}

// CHECK-LABEL: func.func @plain(
// CHECK-NEXT:    [[A:%.*]] = coda.attention %q, %k, %v {coda.decomposed = f32, head_dim = 4 : i64, causal = false, scale = 1.000000e+00 : f64}
// CHECK-NEXT:    coda.reshape [[A]]

// -----

// The product of queries and keys in float32, of narrow ones.

func.func @wide_scores(%q: tensor<2x5x8xbf16>, %k: tensor<2x5x8xbf16>, %v: tensor<2x5x8xbf16>) -> tensor<2x2x5x4xbf16> {
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
  %w = coda.softmax %s : (tensor<2x2x5x5xf32>) -> tensor<2x2x5x5xf32>
  %n = coda.cast %w : (tensor<2x2x5x5xf32>) -> tensor<2x2x5x5xbf16>
  %a = torch.call "aten.matmul.default"(%n, %vh) {arguments = "{0}, {1}"} : (tensor<2x2x5x5xbf16>, tensor<2x2x5x4xbf16>) -> tensor<2x2x5x4xbf16>
  func.return %a : tensor<2x2x5x4xbf16>
}

// CHECK-LABEL: func.func @wide_scores(
// CHECK-NEXT:    [[A:%.*]] = coda.attention %q, %k, %v {coda.decomposed = f32, head_dim = 4 : i64, causal = false, scale = 1.000000e+00 : f64}
// CHECK-NEXT:    coda.reshape [[A]]

// -----

// Keys and values that are one tensor.

func.func @shared(%q: tensor<?x?x32xf32> {coda.dims = ["B", "T", 32 : i64]}, %kv: tensor<?x?x32xf32> {coda.dims = ["B", "S", 32 : i64]}) -> tensor<?x?x32xf32> {
  %qs = coda.reshape %q {coda.dims = ["B", "T", 4 : i64, 8 : i64]} : (tensor<?x?x32xf32>) -> tensor<?x?x4x8xf32>
  %qh = coda.transpose %qs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x?x4x8xf32>) -> tensor<?x4x?x8xf32>
  %kvs = coda.reshape %kv {coda.dims = ["B", "S", 4 : i64, 8 : i64]} : (tensor<?x?x32xf32>) -> tensor<?x?x4x8xf32>
  %kvh = coda.transpose %kvs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x?x4x8xf32>) -> tensor<?x4x?x8xf32>
  %a = torch.call "aten.scaled_dot_product_attention.default"(%qh, %kvh) {arguments = "{0}, {1}, {1}", coda.dims = ["B", 4 : i64, "T", 8 : i64], random} : (tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>) -> tensor<?x4x?x8xf32>
  %at = coda.transpose %a {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x4x?x8xf32>) -> tensor<?x?x4x8xf32>
  %y = coda.reshape %at {coda.dims = ["B", "T", 32 : i64]} : (tensor<?x?x4x8xf32>) -> tensor<?x?x32xf32>
  func.return %y : tensor<?x?x32xf32>
}

// CHECK-LABEL: func.func @shared(
// CHECK-NEXT:    [[Y:%.*]] = coda.attention %q, %kv, %kv {head_dim = 8 : i64, causal = false}
// CHECK-NEXT:    func.return [[Y]]

// -----

// Values with other columns than keys.

func.func @narrow_values(%q: tensor<?x?x32xf32> {coda.dims = ["B", "T", 32 : i64]}, %k: tensor<?x?x32xf32> {coda.dims = ["B", "S", 32 : i64]}, %v: tensor<?x?x24xf32> {coda.dims = ["B", "S", 24 : i64]}) -> tensor<?x?x24xf32> {
  %qs = coda.reshape %q {coda.dims = ["B", "T", 4 : i64, 8 : i64]} : (tensor<?x?x32xf32>) -> tensor<?x?x4x8xf32>
  %qh = coda.transpose %qs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x?x4x8xf32>) -> tensor<?x4x?x8xf32>
  %ks = coda.reshape %k {coda.dims = ["B", "S", 4 : i64, 8 : i64]} : (tensor<?x?x32xf32>) -> tensor<?x?x4x8xf32>
  %kh = coda.transpose %ks {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x?x4x8xf32>) -> tensor<?x4x?x8xf32>
  %vs = coda.reshape %v {coda.dims = ["B", "S", 4 : i64, 6 : i64]} : (tensor<?x?x24xf32>) -> tensor<?x?x4x6xf32>
  %vh = coda.transpose %vs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x?x4x6xf32>) -> tensor<?x4x?x6xf32>
  %a = torch.call "aten.scaled_dot_product_attention.default"(%qh, %kh, %vh) {arguments = "{0}, {1}, {2}", coda.dims = ["B", 4 : i64, "T", 6 : i64], random} : (tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>, tensor<?x4x?x6xf32>) -> tensor<?x4x?x6xf32>
  %at = coda.transpose %a {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x4x?x6xf32>) -> tensor<?x?x4x6xf32>
  %y = coda.reshape %at {coda.dims = ["B", "T", 24 : i64]} : (tensor<?x?x4x6xf32>) -> tensor<?x?x24xf32>
  func.return %y : tensor<?x?x24xf32>
}

// CHECK-LABEL: func.func @narrow_values(
// CHECK-NEXT:    [[Y:%.*]] = coda.attention %q, %k, %v {head_dim = 8 : i64, value_dim = 6 : i64, causal = false}
// CHECK-NEXT:    func.return [[Y]]

// -----

// A factor of each row of the queries' heads multiplies their columns.

func.func @scaled(%q: tensor<?x?x32xf32> {coda.dims = ["B", "T", 32 : i64]}, %k: tensor<?x?x32xf32> {coda.dims = ["B", "T", 32 : i64]}, %s: tensor<1x1x?x1xf32> {coda.dims = [1 : i64, 1 : i64, "T", 1 : i64]}) -> tensor<?x?x32xf32> {
  %qs = coda.reshape %q {coda.dims = ["B", "T", 4 : i64, 8 : i64]} : (tensor<?x?x32xf32>) -> tensor<?x?x4x8xf32>
  %qh = coda.transpose %qs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x?x4x8xf32>) -> tensor<?x4x?x8xf32>
  %ks = coda.reshape %k {coda.dims = ["B", "T", 4 : i64, 8 : i64]} : (tensor<?x?x32xf32>) -> tensor<?x?x4x8xf32>
  %kh = coda.transpose %ks {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x?x4x8xf32>) -> tensor<?x4x?x8xf32>
  %qm = coda.mul %qh, %s : (tensor<?x4x?x8xf32>, tensor<1x1x?x1xf32>) -> tensor<?x4x?x8xf32>
  %a = torch.call "aten.scaled_dot_product_attention.default"(%qm, %kh, %kh) {arguments = "{0}, {1}, {2}, None, 0.0, True", coda.dims = ["B", 4 : i64, "T", 8 : i64], random} : (tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>) -> tensor<?x4x?x8xf32>
  %at = coda.transpose %a {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x4x?x8xf32>) -> tensor<?x?x4x8xf32>
  %y = coda.reshape %at {coda.dims = ["B", "T", 32 : i64]} : (tensor<?x?x4x8xf32>) -> tensor<?x?x32xf32>
  func.return %y : tensor<?x?x32xf32>
}

// CHECK-LABEL: func.func @scaled(
// CHECK-NEXT:    [[S:%.*]] = coda.reshape %s
// CHECK-SAME:      -> tensor<1x?x1xf32>
// CHECK-NEXT:    [[Q:%.*]] = coda.mul %q, [[S]]
// CHECK-NEXT:    [[Y:%.*]] = coda.attention [[Q]], %k, %k {head_dim = 8 : i64, causal = true}
// CHECK-NEXT:    func.return [[Y]]

// -----

// The same before the heads are moved.

func.func @scaled_rows(%q: tensor<?x?x32xf32> {coda.dims = ["B", "T", 32 : i64]}, %k: tensor<?x?x32xf32> {coda.dims = ["B", "T", 32 : i64]}, %s: tensor<1x?x1x1xf32> {coda.dims = [1 : i64, "T", 1 : i64, 1 : i64]}) -> tensor<?x?x32xf32> {
  %qs = coda.reshape %q {coda.dims = ["B", "T", 4 : i64, 8 : i64]} : (tensor<?x?x32xf32>) -> tensor<?x?x4x8xf32>
  %ks = coda.reshape %k {coda.dims = ["B", "T", 4 : i64, 8 : i64]} : (tensor<?x?x32xf32>) -> tensor<?x?x4x8xf32>
  %kh = coda.transpose %ks {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x?x4x8xf32>) -> tensor<?x4x?x8xf32>
  %qp = coda.mul %qs, %s : (tensor<?x?x4x8xf32>, tensor<1x?x1x1xf32>) -> tensor<?x?x4x8xf32>
  %qm = coda.transpose %qp {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x?x4x8xf32>) -> tensor<?x4x?x8xf32>
  %a = torch.call "aten.scaled_dot_product_attention.default"(%qm, %kh, %kh) {arguments = "{0}, {1}, {2}, None, 0.0, True", coda.dims = ["B", 4 : i64, "T", 8 : i64], random} : (tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>) -> tensor<?x4x?x8xf32>
  %at = coda.transpose %a {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x4x?x8xf32>) -> tensor<?x?x4x8xf32>
  %y = coda.reshape %at {coda.dims = ["B", "T", 32 : i64]} : (tensor<?x?x4x8xf32>) -> tensor<?x?x32xf32>
  func.return %y : tensor<?x?x32xf32>
}

// CHECK-LABEL: func.func @scaled_rows(
// CHECK-NEXT:    [[S:%.*]] = coda.reshape %s
// CHECK-SAME:      -> tensor<1x?x1xf32>
// CHECK-NEXT:    [[Q:%.*]] = coda.mul %q, [[S]]
// CHECK-NEXT:    [[Y:%.*]] = coda.attention [[Q]], %k, %k {head_dim = 8 : i64, causal = true}
// CHECK-NEXT:    func.return [[Y]]

// -----

// Heads that are computed as such and then moved, as by norms of heads. The reshapes copy nothing.

func.func @computed(%q: tensor<?x?x4x8xf32> {coda.dims = ["B", "T", 4 : i64, 8 : i64]}, %k: tensor<?x?x2x8xf32> {coda.dims = ["B", "T", 2 : i64, 8 : i64]}, %v: tensor<?x?x16xf32> {coda.dims = ["B", "T", 16 : i64]}) -> tensor<?x?x4x8xf32> {
  %qh = coda.transpose %q {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x?x4x8xf32>) -> tensor<?x4x?x8xf32>
  %kh = coda.transpose %k {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x?x2x8xf32>) -> tensor<?x2x?x8xf32>
  %vs = coda.reshape %v {coda.dims = ["B", "T", 2 : i64, 8 : i64]} : (tensor<?x?x16xf32>) -> tensor<?x?x2x8xf32>
  %vh = coda.transpose %vs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x?x2x8xf32>) -> tensor<?x2x?x8xf32>
  %a = torch.call "aten.scaled_dot_product_attention.default"(%qh, %kh, %vh) {arguments = "{0}, {1}, {2}, None, 0.0, True, scale=None, enable_gqa=True", coda.dims = ["B", 4 : i64, "T", 8 : i64], random} : (tensor<?x4x?x8xf32>, tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>) -> tensor<?x4x?x8xf32>
  %y = coda.transpose %a {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x4x?x8xf32>) -> tensor<?x?x4x8xf32>
  func.return %y : tensor<?x?x4x8xf32>
}

// CHECK-LABEL: func.func @computed(
// CHECK-NEXT:    [[Q:%.*]] = coda.reshape %q
// CHECK-NEXT:    [[K:%.*]] = coda.reshape %k
// CHECK-NEXT:    [[Y:%.*]] = coda.attention [[Q]], [[K]], %v {head_dim = 8 : i64, causal = true}
// CHECK-NEXT:    [[H:%.*]] = coda.reshape [[Y]]
// CHECK-NEXT:    func.return [[H]]

// -----

// Heads that were moved, and then computed with, are moved back: what computes them stores columns.

func.func @moved(%q: tensor<?x?x32xf32> {coda.dims = ["B", "T", 32 : i64]}, %k: tensor<?x?x32xf32> {coda.dims = ["B", "T", 32 : i64]}, %v: tensor<?x?x4x8xf32> {coda.dims = ["B", "T", 4 : i64, 8 : i64]}, %s: tensor<1x4x1x8xf32>) -> tensor<?x?x32xf32> {
  %qs = coda.reshape %q {coda.dims = ["B", "T", 4 : i64, 8 : i64]} : (tensor<?x?x32xf32>) -> tensor<?x?x4x8xf32>
  %qh = coda.transpose %qs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x?x4x8xf32>) -> tensor<?x4x?x8xf32>
  %qm = coda.mul %qh, %s : (tensor<?x4x?x8xf32>, tensor<1x4x1x8xf32>) -> tensor<?x4x?x8xf32>
  %ks = coda.reshape %k {coda.dims = ["B", "T", 4 : i64, 8 : i64]} : (tensor<?x?x32xf32>) -> tensor<?x?x4x8xf32>
  %kh = coda.transpose %ks {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x?x4x8xf32>) -> tensor<?x4x?x8xf32>
  %vr = coda.relu %v : (tensor<?x?x4x8xf32>) -> tensor<?x?x4x8xf32>
  %vh = coda.transpose %vr {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x?x4x8xf32>) -> tensor<?x4x?x8xf32>
  %a = torch.call "aten.scaled_dot_product_attention.default"(%qm, %kh, %vh) {arguments = "{0}, {1}, {2}", coda.dims = ["B", 4 : i64, "T", 8 : i64], random} : (tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>) -> tensor<?x4x?x8xf32>
  %at = coda.transpose %a {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x4x?x8xf32>) -> tensor<?x?x4x8xf32>
  %y = coda.reshape %at {coda.dims = ["B", "T", 32 : i64]} : (tensor<?x?x4x8xf32>) -> tensor<?x?x32xf32>
  func.return %y : tensor<?x?x32xf32>
}

// CHECK-LABEL: func.func @moved(
// CHECK:         [[V:%.*]] = coda.relu %v
// CHECK-NEXT:    [[QT:%.*]] = coda.transpose %qm {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]}
// CHECK-NEXT:    [[Q:%.*]] = coda.reshape [[QT]]
// CHECK-NEXT:    [[VC:%.*]] = coda.reshape [[V]]
// CHECK-NEXT:    [[Y:%.*]] = coda.attention [[Q]], %k, [[VC]] {head_dim = 8 : i64, causal = false}
// CHECK-NEXT:    func.return [[Y]]

// -----

// Heads whose rows are T x B, as in PyTorch's own modules.

func.func @rows_first(%q: tensor<?x?x8xf32> {coda.dims = ["T", "B", 8 : i64]}) -> tensor<?x2x?x4xf32> {
  %h = coda.reshape %q {coda.dims = ["T", "B", 2 : i64, 4 : i64]} : (tensor<?x?x8xf32>) -> tensor<?x?x2x4xf32>
  %t = coda.transpose %h {perm = [1 : i64, 2 : i64, 0 : i64, 3 : i64]} : (tensor<?x?x2x4xf32>) -> tensor<?x2x?x4xf32>
  %y = torch.call "aten.scaled_dot_product_attention.default"(%t, %t, %t) {coda.dims = ["B", 2 : i64, "T", 4 : i64], arguments = "{0}, {1}, {2}"} : (tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>) -> tensor<?x2x?x4xf32>
  func.return %y : tensor<?x2x?x4xf32>
}

// CHECK-LABEL: func.func @rows_first(
// CHECK-NEXT:     %q_1 = coda.transpose %q {perm = [1 : i64, 0 : i64, 2 : i64]} : (tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:     %q_2 = coda.transpose %q {perm = [1 : i64, 0 : i64, 2 : i64]} : (tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:     %q_3 = coda.transpose %q {perm = [1 : i64, 0 : i64, 2 : i64]} : (tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:     %y = coda.attention %q_1, %q_2, %q_3 {head_dim = 4 : i64, causal = false} : (tensor<?x?x8xf32>, tensor<?x?x8xf32>, tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:     %0 = coda.reshape %y : (tensor<?x?x8xf32>) -> tensor<?x?x2x4xf32>
// CHECK-NEXT:     %y_1 = coda.transpose %0 {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x?x2x4xf32>) -> tensor<?x2x?x4xf32>
// CHECK-NEXT:     func.return %y_1 : tensor<?x2x?x4xf32>

// -----

// A single head that queries share: the dimension in which it is repeated is added to its columns.
func.func @single_head(%q: tensor<?x?x32xf32> {coda.dims = ["B", "T", 32 : i64]}, %k: tensor<?x?x8xf32> {coda.dims = ["B", "T", 8 : i64]}, %v: tensor<?x?x8xf32> {coda.dims = ["B", "T", 8 : i64]}) -> tensor<?x?x32xf32> {
  %qs = coda.reshape %q {coda.dims = ["B", "T", 4 : i64, 8 : i64]} : (tensor<?x?x32xf32>) -> tensor<?x?x4x8xf32>
  %qh = coda.transpose %qs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x?x4x8xf32>) -> tensor<?x4x?x8xf32>
  %ku = coda.reshape %k {coda.dims = ["B", 1 : i64, 1 : i64, "T", 8 : i64]} : (tensor<?x?x8xf32>) -> tensor<?x1x1x?x8xf32>
  %ke = torch.call "aten.expand.default"(%ku) {arguments = "{0}, [B, 1, 4, T, 8]", view, coda.dims = ["B", 1 : i64, 4 : i64, "T", 8 : i64]} : (tensor<?x1x1x?x8xf32>) -> tensor<?x1x4x?x8xf32>
  %kr = coda.reshape %ke {coda.dims = ["B", 4 : i64, "T", 8 : i64]} : (tensor<?x1x4x?x8xf32>) -> tensor<?x4x?x8xf32>
  %vu = coda.reshape %v {coda.dims = ["B", 1 : i64, 1 : i64, "T", 8 : i64]} : (tensor<?x?x8xf32>) -> tensor<?x1x1x?x8xf32>
  %ve = torch.call "aten.expand.default"(%vu) {arguments = "{0}, [B, 1, 4, T, 8]", view, coda.dims = ["B", 1 : i64, 4 : i64, "T", 8 : i64]} : (tensor<?x1x1x?x8xf32>) -> tensor<?x1x4x?x8xf32>
  %vr = coda.reshape %ve {coda.dims = ["B", 4 : i64, "T", 8 : i64]} : (tensor<?x1x4x?x8xf32>) -> tensor<?x4x?x8xf32>
  %a = torch.call "aten.scaled_dot_product_attention.default"(%qh, %kr, %vr) {arguments = "{0}, {1}, {2}, is_causal=True", coda.dims = ["B", 4 : i64, "T", 8 : i64], random} : (tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>) -> tensor<?x4x?x8xf32>
  %at = coda.transpose %a {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x4x?x8xf32>) -> tensor<?x?x4x8xf32>
  %y = coda.reshape %at {coda.dims = ["B", "T", 32 : i64]} : (tensor<?x?x4x8xf32>) -> tensor<?x?x32xf32>
  func.return %y : tensor<?x?x32xf32>
}

// CHECK-LABEL: func.func @single_head(
// CHECK-NEXT:    [[Y:%.*]] = coda.attention %q, %k, %v {head_dim = 8 : i64, causal = true}
// CHECK-NEXT:    func.return [[Y]]

// -----

// Keys and values are repeated before they are transposed, and converted afterwards, as under autocast.
func.func @repeated_rows(%q: tensor<?x?x32xf32> {coda.dims = ["B", "T", 32 : i64]}, %k: tensor<?x?x16xf32> {coda.dims = ["B", "T", 16 : i64]}) -> tensor<?x?x32xbf16> {
  %qs = coda.reshape %q {coda.dims = ["B", "T", 4 : i64, 8 : i64]} : (tensor<?x?x32xf32>) -> tensor<?x?x4x8xf32>
  %qt = coda.transpose %qs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x?x4x8xf32>) -> tensor<?x4x?x8xf32>
  %qh = coda.cast %qt : (tensor<?x4x?x8xf32>) -> tensor<?x4x?x8xbf16>
  %ku = coda.reshape %k {coda.dims = ["B", "T", 2 : i64, 1 : i64, 8 : i64]} : (tensor<?x?x16xf32>) -> tensor<?x?x2x1x8xf32>
  %ke = torch.call "aten.expand.default"(%ku) {arguments = "{0}, [B, T, 2, 2, 8]", view, coda.dims = ["B", "T", 2 : i64, 2 : i64, 8 : i64]} : (tensor<?x?x2x1x8xf32>) -> tensor<?x?x2x2x8xf32>
  %kr = coda.reshape %ke {coda.dims = ["B", "T", 4 : i64, 8 : i64]} : (tensor<?x?x2x2x8xf32>) -> tensor<?x?x4x8xf32>
  %kt = coda.transpose %kr {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x?x4x8xf32>) -> tensor<?x4x?x8xf32>
  %kh = coda.cast %kt : (tensor<?x4x?x8xf32>) -> tensor<?x4x?x8xbf16>
  %a = torch.call "aten.scaled_dot_product_attention.default"(%qh, %kh, %kh) {arguments = "{0}, {1}, {2}, is_causal=True", coda.dims = ["B", 4 : i64, "T", 8 : i64], random} : (tensor<?x4x?x8xbf16>, tensor<?x4x?x8xbf16>, tensor<?x4x?x8xbf16>) -> tensor<?x4x?x8xbf16>
  %at = coda.transpose %a {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x4x?x8xbf16>) -> tensor<?x?x4x8xbf16>
  %y = coda.reshape %at {coda.dims = ["B", "T", 32 : i64]} : (tensor<?x?x4x8xbf16>) -> tensor<?x?x32xbf16>
  func.return %y : tensor<?x?x32xbf16>
}

// CHECK-LABEL: func.func @repeated_rows(
// CHECK-NEXT:    %q_1 = coda.cast %q : (tensor<?x?x32xf32>) -> tensor<?x?x32xbf16>
// CHECK-NEXT:    %k_1 = coda.cast %k : (tensor<?x?x16xf32>) -> tensor<?x?x16xbf16>
// CHECK-NEXT:    %k_2 = coda.cast %k : (tensor<?x?x16xf32>) -> tensor<?x?x16xbf16>
// CHECK-NEXT:    [[Y:%.*]] = coda.attention %q_1, %k_1, %k_2 {head_dim = 8 : i64, causal = true}
// CHECK-NEXT:    func.return [[Y]]

// -----

// Heads before the batch, merged with it, and a scale.

func.func @batch_last(%q: tensor<?x?x8xf32> {coda.dims = ["B", "T", 8 : i64]}, %k: tensor<?x?x8xf32> {coda.dims = ["B", "S", 8 : i64]}, %v: tensor<?x?x8xf32> {coda.dims = ["B", "S", 8 : i64]}) -> tensor<?x?x4xf32> {
  %qs = coda.reshape %q {coda.dims = ["B", "T", 2 : i64, 4 : i64]} : (tensor<?x?x8xf32>) -> tensor<?x?x2x4xf32>
  %qt = coda.transpose %qs {perm = [2 : i64, 0 : i64, 1 : i64, 3 : i64]} : (tensor<?x?x2x4xf32>) -> tensor<2x?x?x4xf32>
  %qh = coda.reshape %qt {coda.dims = ["2*B", "T", 4 : i64]} : (tensor<2x?x?x4xf32>) -> tensor<?x?x4xf32>
  %ks = coda.reshape %k {coda.dims = ["B", "S", 2 : i64, 4 : i64]} : (tensor<?x?x8xf32>) -> tensor<?x?x2x4xf32>
  %kt = coda.transpose %ks {perm = [2 : i64, 0 : i64, 1 : i64, 3 : i64]} : (tensor<?x?x2x4xf32>) -> tensor<2x?x?x4xf32>
  %kh = coda.reshape %kt {coda.dims = ["2*B", "S", 4 : i64]} : (tensor<2x?x?x4xf32>) -> tensor<?x?x4xf32>
  %kc = coda.transpose %kh {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<?x?x4xf32>) -> tensor<?x4x?xf32>
  %vs = coda.reshape %v {coda.dims = ["B", "S", 2 : i64, 4 : i64]} : (tensor<?x?x8xf32>) -> tensor<?x?x2x4xf32>
  %vt = coda.transpose %vs {perm = [2 : i64, 0 : i64, 1 : i64, 3 : i64]} : (tensor<?x?x2x4xf32>) -> tensor<2x?x?x4xf32>
  %vh = coda.reshape %vt {coda.dims = ["2*B", "S", 4 : i64]} : (tensor<2x?x?x4xf32>) -> tensor<?x?x4xf32>
  %s = torch.call "aten.bmm.default"(%qh, %kc) {arguments = "{0}, {1}", coda.dims = ["2*B", "T", "S"]} : (tensor<?x?x4xf32>, tensor<?x4x?xf32>) -> tensor<?x?x?xf32>
  %scale = coda.constant {value = 0.5 : f64} : tensor<f32>
  %m = coda.mul %s, %scale : (tensor<?x?x?xf32>, tensor<f32>) -> tensor<?x?x?xf32>
  %w = coda.softmax %m : (tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
  %a = torch.call "aten.bmm.default"(%w, %vh) {arguments = "{0}, {1}", coda.dims = ["2*B", "T", 4 : i64]} : (tensor<?x?x?xf32>, tensor<?x?x4xf32>) -> tensor<?x?x4xf32>
  func.return %a : tensor<?x?x4xf32>
}

// CHECK:      func.func @batch_last(
// CHECK-NEXT:   %a = coda.attention %q, %k, %v {coda.decomposed = f32, head_dim = 4 : i64, causal = false, scale = 5.000000e-01 : f64} : (tensor<?x?x8xf32>, tensor<?x?x8xf32>, tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %0 = coda.reshape %a : (tensor<?x?x8xf32>) -> tensor<?x?x2x4xf32>
// CHECK-NEXT:   %1 = coda.transpose %0 {perm = [2 : i64, 0 : i64, 1 : i64, 3 : i64]} : (tensor<?x?x2x4xf32>) -> tensor<2x?x?x4xf32>
// CHECK-NEXT:   %a_1 = coda.reshape %1 {coda.dims = ["2*B", "T", 4 : i64]} : (tensor<2x?x?x4xf32>) -> tensor<?x?x4xf32>
// CHECK-NEXT:   func.return %a_1 : tensor<?x?x4xf32>
// CHECK-NEXT: }

// -----

// A single head of keys and values is expanded at once.
func.func @expanded_head(%q: tensor<?x?x32xf32> {coda.dims = ["B", "T", 32 : i64]}, %k: tensor<?x?x8xf32> {coda.dims = ["B", "T", 8 : i64]}) -> tensor<?x?x32xf32> {
  %qs = coda.reshape %q {coda.dims = ["B", "T", 4 : i64, 8 : i64]} : (tensor<?x?x32xf32>) -> tensor<?x?x4x8xf32>
  %qh = coda.transpose %qs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x?x4x8xf32>) -> tensor<?x4x?x8xf32>
  %ku = coda.reshape %k {coda.dims = ["B", 1 : i64, "T", 8 : i64]} : (tensor<?x?x8xf32>) -> tensor<?x1x?x8xf32>
  %kh = torch.call "aten.expand.default"(%ku) {arguments = "{0}, [-1, 4, -1, -1]", view, coda.dims = ["B", 4 : i64, "T", 8 : i64]} : (tensor<?x1x?x8xf32>) -> tensor<?x4x?x8xf32>
  %a = torch.call "aten.scaled_dot_product_attention.default"(%qh, %kh, %kh) {arguments = "{0}, {1}, {2}, is_causal=True", coda.dims = ["B", 4 : i64, "T", 8 : i64], random} : (tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>) -> tensor<?x4x?x8xf32>
  %at = coda.transpose %a {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x4x?x8xf32>) -> tensor<?x?x4x8xf32>
  %y = coda.reshape %at {coda.dims = ["B", "T", 32 : i64]} : (tensor<?x?x4x8xf32>) -> tensor<?x?x32xf32>
  func.return %y : tensor<?x?x32xf32>
}

// CHECK-LABEL: func.func @expanded_head(
// CHECK-NEXT:    [[Y:%.*]] = coda.attention %q, %k, %k {head_dim = 8 : i64, causal = true}
// CHECK-NEXT:    func.return [[Y]]

// -----

// Batch and heads are one dimension from the beginning, as in PyTorch's own modules, whose rows are T x B.
func.func @merged(%q: tensor<?x3x16xf32> {coda.dims = ["T", 3 : i64, 16 : i64]}, %k: tensor<?x3x16xf32> {coda.dims = ["S", 3 : i64, 16 : i64]}) -> tensor<6x?x8xf32> {
  %qs = coda.reshape %q {coda.dims = ["T", 6 : i64, 8 : i64]} : (tensor<?x3x16xf32>) -> tensor<?x6x8xf32>
  %qh = coda.transpose %qs {perm = [1 : i64, 0 : i64, 2 : i64]} : (tensor<?x6x8xf32>) -> tensor<6x?x8xf32>
  %ks = coda.reshape %k {coda.dims = ["S", 6 : i64, 8 : i64]} : (tensor<?x3x16xf32>) -> tensor<?x6x8xf32>
  %kt = coda.transpose %ks {perm = [1 : i64, 2 : i64, 0 : i64]} : (tensor<?x6x8xf32>) -> tensor<6x8x?xf32>
  %vh = coda.transpose %ks {perm = [1 : i64, 0 : i64, 2 : i64]} : (tensor<?x6x8xf32>) -> tensor<6x?x8xf32>
  %s = torch.call "aten.bmm.default"(%qh, %kt) {arguments = "{0}, {1}", coda.dims = [6 : i64, "T", "S"]} : (tensor<6x?x8xf32>, tensor<6x8x?xf32>) -> tensor<6x?x?xf32>
  %p = coda.softmax %s : (tensor<6x?x?xf32>) -> tensor<6x?x?xf32>
  %y = torch.call "aten.bmm.default"(%p, %vh) {arguments = "{0}, {1}", coda.dims = [6 : i64, "T", 8 : i64]} : (tensor<6x?x?xf32>, tensor<6x?x8xf32>) -> tensor<6x?x8xf32>
  func.return %y : tensor<6x?x8xf32>
}

// CHECK-LABEL: func.func @merged(
// CHECK-NEXT:    %q_1 = coda.transpose %q {perm = [1 : i64, 0 : i64, 2 : i64]} : (tensor<?x3x16xf32>) -> tensor<3x?x16xf32>
// CHECK-NEXT:    %k_1 = coda.transpose %k {perm = [1 : i64, 0 : i64, 2 : i64]} : (tensor<?x3x16xf32>) -> tensor<3x?x16xf32>
// CHECK-NEXT:    %k_2 = coda.transpose %k {perm = [1 : i64, 0 : i64, 2 : i64]} : (tensor<?x3x16xf32>) -> tensor<3x?x16xf32>
// CHECK-NEXT:    %y = coda.attention %q_1, %k_1, %k_2 {coda.decomposed = f32, head_dim = 8 : i64, causal = false, scale = 1.000000e+00 : f64}
// CHECK-NEXT:    %0 = coda.reshape %y : (tensor<3x?x16xf32>) -> tensor<3x?x2x8xf32>
// CHECK-NEXT:    %1 = coda.transpose %0 {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]}
// CHECK-NEXT:    %y_1 = coda.reshape %1 {coda.dims = [6 : i64, "T", 8 : i64]}
// CHECK-NEXT:    func.return %y_1

// -----

// Queries that share keys are rows of one product, and the last product reads them in another order. A bias of each head.

func.func @groups(%q: tensor<?x?x32xf32> {coda.dims = ["B", "T", 32 : i64]}, %k: tensor<?x?x16xf32> {coda.dims = ["B", "S", 16 : i64]}, %b: tensor<2x2x1x?xf32> {coda.dims = [2 : i64, 2 : i64, 1 : i64, "S"]}) -> tensor<?x?x32xf32> {
  %qs = coda.reshape %q {coda.dims = ["B", "T", 2 : i64, 2 : i64, 8 : i64]} : (tensor<?x?x32xf32>) -> tensor<?x?x2x2x8xf32>
  %qt = coda.transpose %qs {perm = [0 : i64, 2 : i64, 3 : i64, 1 : i64, 4 : i64]} : (tensor<?x?x2x2x8xf32>) -> tensor<?x2x2x?x8xf32>
  %qm = coda.reshape %qt {coda.dims = ["2*B", "2*T", 8 : i64]} : (tensor<?x2x2x?x8xf32>) -> tensor<?x?x8xf32>
  %ks = coda.reshape %k {coda.dims = ["B", "S", 2 : i64, 8 : i64]} : (tensor<?x?x16xf32>) -> tensor<?x?x2x8xf32>
  %kt = coda.transpose %ks {perm = [0 : i64, 2 : i64, 3 : i64, 1 : i64]} : (tensor<?x?x2x8xf32>) -> tensor<?x2x8x?xf32>
  %km = coda.reshape %kt {coda.dims = ["2*B", 8 : i64, "S"]} : (tensor<?x2x8x?xf32>) -> tensor<?x8x?xf32>
  %s = torch.call "aten.bmm.default"(%qm, %km) {arguments = "{0}, {1}", coda.dims = ["2*B", "2*T", "S"]} : (tensor<?x?x8xf32>, tensor<?x8x?xf32>) -> tensor<?x?x?xf32>
  %ss = coda.reshape %s {coda.dims = ["B", 2 : i64, 2 : i64, "T", "S"]} : (tensor<?x?x?xf32>) -> tensor<?x2x2x?x?xf32>
  %sb = coda.add %ss, %b : (tensor<?x2x2x?x?xf32>, tensor<2x2x1x?xf32>) -> tensor<?x2x2x?x?xf32>
  %w = coda.softmax %sb : (tensor<?x2x2x?x?xf32>) -> tensor<?x2x2x?x?xf32>
  %wt = coda.transpose %w {perm = [0 : i64, 1 : i64, 3 : i64, 2 : i64, 4 : i64]} : (tensor<?x2x2x?x?xf32>) -> tensor<?x2x?x2x?xf32>
  %wm = coda.reshape %wt {coda.dims = ["2*B", "2*T", "S"]} : (tensor<?x2x?x2x?xf32>) -> tensor<?x?x?xf32>
  %vt = coda.transpose %ks {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x?x2x8xf32>) -> tensor<?x2x?x8xf32>
  %vm = coda.reshape %vt {coda.dims = ["2*B", "S", 8 : i64]} : (tensor<?x2x?x8xf32>) -> tensor<?x?x8xf32>
  %a = torch.call "aten.bmm.default"(%wm, %vm) {arguments = "{0}, {1}", coda.dims = ["2*B", "2*T", 8 : i64]} : (tensor<?x?x?xf32>, tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
  %as = coda.reshape %a {coda.dims = ["B", 2 : i64, "T", 2 : i64, 8 : i64]} : (tensor<?x?x8xf32>) -> tensor<?x2x?x2x8xf32>
  %at = coda.transpose %as {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64, 4 : i64]} : (tensor<?x2x?x2x8xf32>) -> tensor<?x?x2x2x8xf32>
  %y = coda.reshape %at {coda.dims = ["B", "T", 32 : i64]} : (tensor<?x?x2x2x8xf32>) -> tensor<?x?x32xf32>
  func.return %y : tensor<?x?x32xf32>
}

// CHECK-LABEL: func.func @groups(
// CHECK-NEXT:    %mask = coda.reshape %b {coda.dims = [1 : i64, 4 : i64, 1 : i64, "S"]}
// CHECK-NEXT:    %a = coda.attention %q, %k, %k mask(%mask : tensor<1x4x1x?xf32>) {coda.decomposed = f32, head_dim = 8 : i64, causal = false, scale = 1.000000e+00 : f64}
// CHECK-NEXT:    %0 = coda.reshape %a : (tensor<?x?x32xf32>) -> tensor<?x?x4x8xf32>
// CHECK-NEXT:    %1 = coda.transpose %0 {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]}
// CHECK-NEXT:    %2 = coda.reshape %1 {coda.dims = ["B", 2 : i64, 2 : i64, "T", 8 : i64]}
// CHECK-NEXT:    %3 = coda.reshape %2 {coda.dims = ["2*B", 2 : i64, "T", 8 : i64]}
// CHECK-NEXT:    %4 = coda.transpose %3 {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]}
// CHECK-NEXT:    %a_1 = coda.reshape %4 {coda.dims = ["2*B", "2*T", 8 : i64]}

// -----

// Batches of windows of rows, both merged.

func.func @windows(%x: tensor<2x3x2x5x16xf32>) -> tensor<6x2x10x8xf32> {
  %s = coda.reshape %x : (tensor<2x3x2x5x16xf32>) -> tensor<6x10x2x8xf32>
  %q = coda.transpose %s {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<6x10x2x8xf32>) -> tensor<6x2x10x8xf32>
  %k = coda.transpose %s {perm = [0 : i64, 2 : i64, 3 : i64, 1 : i64]} : (tensor<6x10x2x8xf32>) -> tensor<6x2x8x10xf32>
  %a = torch.call "aten.matmul.default"(%q, %k) {arguments = "{0}, {1}"} : (tensor<6x2x10x8xf32>, tensor<6x2x8x10xf32>) -> tensor<6x2x10x10xf32>
  %w = coda.softmax %a : (tensor<6x2x10x10xf32>) -> tensor<6x2x10x10xf32>
  %y = torch.call "aten.matmul.default"(%w, %q) {arguments = "{0}, {1}"} : (tensor<6x2x10x10xf32>, tensor<6x2x10x8xf32>) -> tensor<6x2x10x8xf32>
  func.return %y : tensor<6x2x10x8xf32>
}

// CHECK-LABEL: func.func @windows(
// CHECK-NEXT:    %x_1 = coda.reshape %x : (tensor<2x3x2x5x16xf32>) -> tensor<6x10x16xf32>
// CHECK-NEXT:    %x_2 = coda.reshape %x : (tensor<2x3x2x5x16xf32>) -> tensor<6x10x16xf32>
// CHECK-NEXT:    %x_3 = coda.reshape %x : (tensor<2x3x2x5x16xf32>) -> tensor<6x10x16xf32>
// CHECK-NEXT:    %y = coda.attention %x_1, %x_2, %x_3 {coda.decomposed = f32, head_dim = 8 : i64, causal = false, scale = 1.000000e+00 : f64}

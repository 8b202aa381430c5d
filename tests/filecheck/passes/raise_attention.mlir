// RUN: coda-opt %s -p raise-attention,canonicalize,drop-no-ops,dce --split-input-file | filecheck %s

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

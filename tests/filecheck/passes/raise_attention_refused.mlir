// RUN: coda-opt %s -p raise-attention,canonicalize,drop-no-ops,dce --split-input-file | filecheck %s

// The mask is an argument: it may hide padding.

func.func @argument(%q: tensor<?x?x32xf32> {coda.dims = ["B", "T", 32 : i64]}, %k: tensor<?x?x16xf32> {coda.dims = ["B", "T", 16 : i64]}, %v: tensor<?x?x16xf32> {coda.dims = ["B", "T", 16 : i64]}, %mask: tensor<?x1x?x?xi1> {coda.dims = ["B", 1 : i64, "T", "T"]}) -> tensor<?x?x32xf32> {
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
  %a = torch.call "aten.scaled_dot_product_attention.default"(%qh, %kr, %vr, %mask) {arguments = "{0}, {1}, {2}, {3}", coda.dims = ["B", 4 : i64, "T", 8 : i64], random} : (tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>, tensor<?x1x?x?xi1>) -> tensor<?x4x?x8xf32>
  %at = coda.transpose %a {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x4x?x8xf32>) -> tensor<?x?x4x8xf32>
  %y = coda.reshape %at {coda.dims = ["B", "T", 32 : i64]} : (tensor<?x?x4x8xf32>) -> tensor<?x?x32xf32>
  func.return %y : tensor<?x?x32xf32>
}

// CHECK-LABEL: func.func @argument(
// CHECK-NOT:     coda.attention
// CHECK:         func.return

// -----

// A window of two positions.

func.func @window(%q: tensor<?x?x32xf32> {coda.dims = ["B", "T", 32 : i64]}, %k: tensor<?x?x16xf32> {coda.dims = ["B", "T", 16 : i64]}, %v: tensor<?x?x16xf32> {coda.dims = ["B", "T", 16 : i64]}) -> tensor<?x?x32xf32> {
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
  %low = torch.call "aten.sub.Tensor"(%pq) {arguments = "{0}, 2", coda.dims = [1 : i64, 1 : i64, "T", 1 : i64]} : (tensor<1x1x?x1xi64>) -> tensor<1x1x?x1xi64>
  %gt = torch.call "aten.gt.Tensor"(%pk, %low) {arguments = "{0}, {1}", coda.dims = [1 : i64, 1 : i64, "T", "T"]} : (tensor<1x1x1x?xi64>, tensor<1x1x?x1xi64>) -> tensor<1x1x?x?xi1>
  %both = torch.call "aten.bitwise_and.Tensor"(%le, %gt) {arguments = "{0}, {1}", coda.dims = [1 : i64, 1 : i64, "T", "T"]} : (tensor<1x1x?x?xi1>, tensor<1x1x?x?xi1>) -> tensor<1x1x?x?xi1>
  %mask = torch.call "aten.expand.default"(%both) {arguments = "{0}, [B, -1, T, T]", view, coda.dims = ["B", 1 : i64, "T", "T"]} : (tensor<1x1x?x?xi1>) -> tensor<?x1x?x?xi1>
  %a = torch.call "aten.scaled_dot_product_attention.default"(%qh, %kr, %vr, %mask) {arguments = "{0}, {1}, {2}, {3}", coda.dims = ["B", 4 : i64, "T", 8 : i64], random} : (tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>, tensor<?x1x?x?xi1>) -> tensor<?x4x?x8xf32>
  %at = coda.transpose %a {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x4x?x8xf32>) -> tensor<?x?x4x8xf32>
  %y = coda.reshape %at {coda.dims = ["B", "T", 32 : i64]} : (tensor<?x?x4x8xf32>) -> tensor<?x?x32xf32>
  func.return %y : tensor<?x?x32xf32>
}

// CHECK-LABEL: func.func @window(
// CHECK-NOT:     coda.attention
// CHECK:         func.return

// -----

// A query does not see itself.

func.func @strict(%q: tensor<?x?x32xf32> {coda.dims = ["B", "T", 32 : i64]}, %k: tensor<?x?x16xf32> {coda.dims = ["B", "T", 16 : i64]}, %v: tensor<?x?x16xf32> {coda.dims = ["B", "T", 16 : i64]}) -> tensor<?x?x32xf32> {
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
  %le = torch.call "aten.lt.Tensor"(%pk, %pq) {arguments = "{0}, {1}", coda.dims = [1 : i64, 1 : i64, "T", "T"]} : (tensor<1x1x1x?xi64>, tensor<1x1x?x1xi64>) -> tensor<1x1x?x?xi1>
  %mask = torch.call "aten.expand.default"(%le) {arguments = "{0}, [B, -1, T, T]", view, coda.dims = ["B", 1 : i64, "T", "T"]} : (tensor<1x1x?x?xi1>) -> tensor<?x1x?x?xi1>
  %a = torch.call "aten.scaled_dot_product_attention.default"(%qh, %kr, %vr, %mask) {arguments = "{0}, {1}, {2}, {3}", coda.dims = ["B", 4 : i64, "T", 8 : i64], random} : (tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>, tensor<?x1x?x?xi1>) -> tensor<?x4x?x8xf32>
  %at = coda.transpose %a {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x4x?x8xf32>) -> tensor<?x?x4x8xf32>
  %y = coda.reshape %at {coda.dims = ["B", "T", 32 : i64]} : (tensor<?x?x4x8xf32>) -> tensor<?x?x32xf32>
  func.return %y : tensor<?x?x32xf32>
}

// CHECK-LABEL: func.func @strict(
// CHECK-NOT:     coda.attention
// CHECK:         func.return

// -----

// The mask looks ahead.

func.func @ahead(%q: tensor<?x?x32xf32> {coda.dims = ["B", "T", 32 : i64]}, %k: tensor<?x?x16xf32> {coda.dims = ["B", "T", 16 : i64]}, %v: tensor<?x?x16xf32> {coda.dims = ["B", "T", 16 : i64]}) -> tensor<?x?x32xf32> {
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
  %le = torch.call "aten.ge.Tensor"(%pk, %pq) {arguments = "{0}, {1}", coda.dims = [1 : i64, 1 : i64, "T", "T"]} : (tensor<1x1x1x?xi64>, tensor<1x1x?x1xi64>) -> tensor<1x1x?x?xi1>
  %mask = torch.call "aten.expand.default"(%le) {arguments = "{0}, [B, -1, T, T]", view, coda.dims = ["B", 1 : i64, "T", "T"]} : (tensor<1x1x?x?xi1>) -> tensor<?x1x?x?xi1>
  %a = torch.call "aten.scaled_dot_product_attention.default"(%qh, %kr, %vr, %mask) {arguments = "{0}, {1}, {2}, {3}", coda.dims = ["B", 4 : i64, "T", 8 : i64], random} : (tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>, tensor<?x1x?x?xi1>) -> tensor<?x4x?x8xf32>
  %at = coda.transpose %a {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x4x?x8xf32>) -> tensor<?x?x4x8xf32>
  %y = coda.reshape %at {coda.dims = ["B", "T", 32 : i64]} : (tensor<?x?x4x8xf32>) -> tensor<?x?x32xf32>
  func.return %y : tensor<?x?x32xf32>
}

// CHECK-LABEL: func.func @ahead(
// CHECK-NOT:     coda.attention
// CHECK:         func.return

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
// CHECK-NOT:     coda.attention
// CHECK:         func.return

// -----

// Dropout.

func.func @dropout(%q: tensor<?x?x32xf32> {coda.dims = ["B", "T", 32 : i64]}, %k: tensor<?x?x16xf32> {coda.dims = ["B", "T", 16 : i64]}, %v: tensor<?x?x16xf32> {coda.dims = ["B", "T", 16 : i64]}) -> tensor<?x?x32xf32> {
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
  %a = torch.call "aten.scaled_dot_product_attention.default"(%qh, %kr, %vr) {arguments = "{0}, {1}, {2}, None, 0.5, True", coda.dims = ["B", 4 : i64, "T", 8 : i64], random} : (tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>) -> tensor<?x4x?x8xf32>
  %at = coda.transpose %a {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x4x?x8xf32>) -> tensor<?x?x4x8xf32>
  %y = coda.reshape %at {coda.dims = ["B", "T", 32 : i64]} : (tensor<?x?x4x8xf32>) -> tensor<?x?x32xf32>
  func.return %y : tensor<?x?x32xf32>
}

// CHECK-LABEL: func.func @dropout(
// CHECK-NOT:     coda.attention
// CHECK:         func.return

// -----

// The heads are repeated in another order: all of them, then all of them again.

func.func @tiled(%q: tensor<?x?x32xf32> {coda.dims = ["B", "T", 32 : i64]}, %k: tensor<?x?x16xf32> {coda.dims = ["B", "T", 16 : i64]}, %v: tensor<?x?x16xf32> {coda.dims = ["B", "T", 16 : i64]}) -> tensor<?x?x32xf32> {
  %qs = coda.reshape %q {coda.dims = ["B", "T", 4 : i64, 8 : i64]} : (tensor<?x?x32xf32>) -> tensor<?x?x4x8xf32>
  %qh = coda.transpose %qs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x?x4x8xf32>) -> tensor<?x4x?x8xf32>
  %ks = coda.reshape %k {coda.dims = ["B", "T", 2 : i64, 8 : i64]} : (tensor<?x?x16xf32>) -> tensor<?x?x2x8xf32>
  %kh = coda.transpose %ks {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x?x2x8xf32>) -> tensor<?x2x?x8xf32>
  %vs = coda.reshape %v {coda.dims = ["B", "T", 2 : i64, 8 : i64]} : (tensor<?x?x16xf32>) -> tensor<?x?x2x8xf32>
  %vh = coda.transpose %vs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x?x2x8xf32>) -> tensor<?x2x?x8xf32>
  %ku = coda.reshape %kh {coda.dims = ["B", 1 : i64, 2 : i64, "T", 8 : i64]} : (tensor<?x2x?x8xf32>) -> tensor<?x1x2x?x8xf32>
  %ke = torch.call "aten.expand.default"(%ku) {arguments = "{0}, [B, 2, 2, T, 8]", view, coda.dims = ["B", 2 : i64, 2 : i64, "T", 8 : i64]} : (tensor<?x1x2x?x8xf32>) -> tensor<?x2x2x?x8xf32>
  %kr = coda.reshape %ke {coda.dims = ["B", 4 : i64, "T", 8 : i64]} : (tensor<?x2x2x?x8xf32>) -> tensor<?x4x?x8xf32>
  %vu = coda.reshape %vh {coda.dims = ["B", 1 : i64, 2 : i64, "T", 8 : i64]} : (tensor<?x2x?x8xf32>) -> tensor<?x1x2x?x8xf32>
  %ve = torch.call "aten.expand.default"(%vu) {arguments = "{0}, [B, 2, 2, T, 8]", view, coda.dims = ["B", 2 : i64, 2 : i64, "T", 8 : i64]} : (tensor<?x1x2x?x8xf32>) -> tensor<?x2x2x?x8xf32>
  %vr = coda.reshape %ve {coda.dims = ["B", 4 : i64, "T", 8 : i64]} : (tensor<?x2x2x?x8xf32>) -> tensor<?x4x?x8xf32>
  %a = torch.call "aten.scaled_dot_product_attention.default"(%qh, %kr, %vr) {arguments = "{0}, {1}, {2}, None, 0.0, True", coda.dims = ["B", 4 : i64, "T", 8 : i64], random} : (tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>) -> tensor<?x4x?x8xf32>
  %at = coda.transpose %a {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x4x?x8xf32>) -> tensor<?x?x4x8xf32>
  %y = coda.reshape %at {coda.dims = ["B", "T", 32 : i64]} : (tensor<?x?x4x8xf32>) -> tensor<?x?x32xf32>
  func.return %y : tensor<?x?x32xf32>
}

// CHECK-LABEL: func.func @tiled(
// CHECK-NOT:     coda.attention
// CHECK:         func.return

// -----

// Another number of keys: PyTorch aligns its causal mask at the upper left.

func.func @lengths(%q: tensor<?x?x32xf32> {coda.dims = ["B", "T", 32 : i64]}, %k: tensor<?x?x32xf32> {coda.dims = ["B", "S", 32 : i64]}, %v: tensor<?x?x32xf32> {coda.dims = ["B", "S", 32 : i64]}) -> tensor<?x?x32xf32> {
  %qs = coda.reshape %q {coda.dims = ["B", "T", 4 : i64, 8 : i64]} : (tensor<?x?x32xf32>) -> tensor<?x?x4x8xf32>
  %qh = coda.transpose %qs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x?x4x8xf32>) -> tensor<?x4x?x8xf32>
  %ks = coda.reshape %k {coda.dims = ["B", "S", 4 : i64, 8 : i64]} : (tensor<?x?x32xf32>) -> tensor<?x?x4x8xf32>
  %kh = coda.transpose %ks {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x?x4x8xf32>) -> tensor<?x4x?x8xf32>
  %vs = coda.reshape %v {coda.dims = ["B", "S", 4 : i64, 8 : i64]} : (tensor<?x?x32xf32>) -> tensor<?x?x4x8xf32>
  %vh = coda.transpose %vs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x?x4x8xf32>) -> tensor<?x4x?x8xf32>
  %a = torch.call "aten.scaled_dot_product_attention.default"(%qh, %kh, %vh) {arguments = "{0}, {1}, {2}, None, 0.0, True", coda.dims = ["B", 4 : i64, "T", 8 : i64], random} : (tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>) -> tensor<?x4x?x8xf32>
  %at = coda.transpose %a {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x4x?x8xf32>) -> tensor<?x?x4x8xf32>
  %y = coda.reshape %at {coda.dims = ["B", "T", 32 : i64]} : (tensor<?x?x4x8xf32>) -> tensor<?x?x32xf32>
  func.return %y : tensor<?x?x32xf32>
}

// CHECK-LABEL: func.func @lengths(
// CHECK-NOT:     coda.attention
// CHECK:         func.return

// -----

// A bias by distance, as ALiBi has, is no mask.

func.func @bias(%q: tensor<2x5x8xf32>, %k: tensor<2x5x8xf32>, %v: tensor<2x5x8xf32>, %bias: tensor<2x5x5xf32>) -> tensor<2x2x5x4xf32> {
  %qs = coda.reshape %q : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %qh = coda.transpose %qs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %ks = coda.reshape %k : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %kh = coda.transpose %ks {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %vs = coda.reshape %v : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %vh = coda.transpose %vs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %kt = coda.transpose %kh {perm = [0 : i64, 1 : i64, 3 : i64, 2 : i64]} : (tensor<2x2x5x4xf32>) -> tensor<2x2x4x5xf32>
  %s = torch.call "aten.matmul.default"(%qh, %kt) {arguments = "{0}, {1}"} : (tensor<2x2x5x4xf32>, tensor<2x2x4x5xf32>) -> tensor<2x2x5x5xf32>
  %x = coda.add %s, %bias : (tensor<2x2x5x5xf32>, tensor<2x5x5xf32>) -> tensor<2x2x5x5xf32>
  %w = coda.softmax %x : (tensor<2x2x5x5xf32>) -> tensor<2x2x5x5xf32>
  %a = torch.call "aten.matmul.default"(%w, %vh) {arguments = "{0}, {1}"} : (tensor<2x2x5x5xf32>, tensor<2x2x5x4xf32>) -> tensor<2x2x5x4xf32>
  func.return %a : tensor<2x2x5x4xf32>
}

// CHECK-LABEL: func.func @bias(
// CHECK-NOT:     coda.attention
// CHECK:         func.return

// -----

// A factor behind the mask.

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
// CHECK-NOT:     coda.attention
// CHECK:         func.return

// -----

// A cap behind another scale than its own is one of scaled scores: here the scale comes last.

func.func @cap_first(%q: tensor<2x5x8xf32>, %k: tensor<2x5x8xf32>, %v: tensor<2x5x8xf32>) -> tensor<2x2x5x4xf32> {
  %qs = coda.reshape %q : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %qh = coda.transpose %qs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %ks = coda.reshape %k : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %kh = coda.transpose %ks {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %vs = coda.reshape %v : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %vh = coda.transpose %vs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %kt = coda.transpose %kh {perm = [0 : i64, 1 : i64, 3 : i64, 2 : i64]} : (tensor<2x2x5x4xf32>) -> tensor<2x2x4x5xf32>
  %s = torch.call "aten.matmul.default"(%qh, %kt) {arguments = "{0}, {1}"} : (tensor<2x2x5x4xf32>, tensor<2x2x4x5xf32>) -> tensor<2x2x5x5xf32>
  %scale = coda.constant {value = 0.5 : f64} : tensor<f32>
  %x1 = coda.softcap %s {cap = 50.0 : f64} : (tensor<2x2x5x5xf32>) -> tensor<2x2x5x5xf32>
  %x2 = coda.mul %x1, %scale : (tensor<2x2x5x5xf32>, tensor<f32>) -> tensor<2x2x5x5xf32>
  %w = coda.softmax %x2 : (tensor<2x2x5x5xf32>) -> tensor<2x2x5x5xf32>
  %a = torch.call "aten.matmul.default"(%w, %vh) {arguments = "{0}, {1}"} : (tensor<2x2x5x5xf32>, tensor<2x2x5x4xf32>) -> tensor<2x2x5x4xf32>
  func.return %a : tensor<2x2x5x4xf32>
}

// CHECK-LABEL: func.func @cap_first(
// CHECK-NOT:     coda.attention
// CHECK:         func.return

// -----

// A sink takes a share of each row.

func.func @sinks(%q: tensor<2x5x8xf32>, %k: tensor<2x5x8xf32>, %v: tensor<2x5x8xf32>, %sink: tensor<2x2x5x1xf32>) -> tensor<2x2x5x4xf32> {
  %qs = coda.reshape %q : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %qh = coda.transpose %qs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %ks = coda.reshape %k : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %kh = coda.transpose %ks {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %vs = coda.reshape %v : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %vh = coda.transpose %vs {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %kt = coda.transpose %kh {perm = [0 : i64, 1 : i64, 3 : i64, 2 : i64]} : (tensor<2x2x5x4xf32>) -> tensor<2x2x4x5xf32>
  %s = torch.call "aten.matmul.default"(%qh, %kt) {arguments = "{0}, {1}"} : (tensor<2x2x5x4xf32>, tensor<2x2x4x5xf32>) -> tensor<2x2x5x5xf32>
  %all = coda.concat %s, %sink {dim = 3 : i64} : (tensor<2x2x5x5xf32>, tensor<2x2x5x1xf32>) -> tensor<2x2x5x6xf32>
  %p = coda.softmax %all : (tensor<2x2x5x6xf32>) -> tensor<2x2x5x6xf32>
  %w = torch.call "aten.slice.Tensor"(%p) {arguments = "{0}, 3, 0, -1", view} : (tensor<2x2x5x6xf32>) -> tensor<2x2x5x5xf32>
  %a = torch.call "aten.matmul.default"(%w, %vh) {arguments = "{0}, {1}"} : (tensor<2x2x5x5xf32>, tensor<2x2x5x4xf32>) -> tensor<2x2x5x4xf32>
  func.return %a : tensor<2x2x5x4xf32>
}

// CHECK-LABEL: func.func @sinks(
// CHECK-NOT:     coda.attention
// CHECK:         func.return

// -----

// What is added does not hide.

func.func @shallow(%q: tensor<2x5x8xf32>, %k: tensor<2x5x8xf32>, %v: tensor<2x5x8xf32>) -> tensor<2x2x5x4xf32> {
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
  %least = torch.call "aten.scalar_tensor.default"() {arguments = "-10.0, dtype=torch.float32"} : () -> tensor<f32>
  %bias = torch.call "aten.where.self"(%le, %zero, %least) {arguments = "{0}, {1}, {2}"} : (tensor<1x1x5x5xi1>, tensor<f32>, tensor<f32>) -> tensor<1x1x5x5xf32>
  %x = coda.add %s, %bias : (tensor<2x2x5x5xf32>, tensor<1x1x5x5xf32>) -> tensor<2x2x5x5xf32>
  %w = coda.softmax %x : (tensor<2x2x5x5xf32>) -> tensor<2x2x5x5xf32>
  %a = torch.call "aten.matmul.default"(%w, %vh) {arguments = "{0}, {1}"} : (tensor<2x2x5x5xf32>, tensor<2x2x5x4xf32>) -> tensor<2x2x5x4xf32>
  func.return %a : tensor<2x2x5x4xf32>
}

// CHECK-LABEL: func.func @shallow(
// CHECK-NOT:     coda.attention
// CHECK:         func.return

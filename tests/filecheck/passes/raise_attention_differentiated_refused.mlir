// RUN: coda-opt %s -p "raise-attention{differentiated=true},canonicalize,drop-no-ops,dce" | filecheck %s
// RUN: coda-opt %s -p "raise-attention{differentiated=true}" --remarks 2>&1 >/dev/null | filecheck %s --check-prefix REMARK

// A sample whose keys are all hidden has no gradient of its scores, which adding the number has.

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
// CHECK-NOT:     coda.attention
// CHECK:         func.return
// REMARK:        stays with PyTorch: scores in whose place it puts a number have no gradient

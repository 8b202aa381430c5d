// RUN: coda-opt %s -p torch-to-coda | filecheck %s

// A norm of every head and a rotary embedding, as a PyTorch model writes them out.

func.func @heads(%q: tensor<?x?x32xf32> {coda.dims = ["B", "T", 32 : i64]}, %f: tensor<?x4xf32> {coda.dims = ["T", 4 : i64]}, %w: tensor<8xf32>) -> tensor<?x4x?x8xf32> {
  %split = coda.reshape %q : (tensor<?x?x32xf32>) -> tensor<?x?x4x8xf32>
  %sq = coda.mul %split, %split : (tensor<?x?x4x8xf32>, tensor<?x?x4x8xf32>) -> tensor<?x?x4x8xf32>
  %ms = coda.reduce %sq {kind = "mean"} : (tensor<?x?x4x8xf32>) -> tensor<?x?x4x1xf32>
  %eps = coda.constant {value = 1.0e-6 : f64} : tensor<f32>
  %v = coda.add %ms, %eps : (tensor<?x?x4x1xf32>, tensor<f32>) -> tensor<?x?x4x1xf32>
  %r = coda.rsqrt %v : (tensor<?x?x4x1xf32>) -> tensor<?x?x4x1xf32>
  %n = coda.mul %split, %r : (tensor<?x?x4x8xf32>, tensor<?x?x4x1xf32>) -> tensor<?x?x4x8xf32>
  %normed = coda.mul %w, %n : (tensor<8xf32>, tensor<?x?x4x8xf32>) -> tensor<?x?x4x8xf32>
  %h = coda.transpose %normed {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x?x4x8xf32>) -> tensor<?x4x?x8xf32>
  %angles = coda.concat %f, %f {dim = 1 : i64} : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x8xf32>
  %cos = torch.call "aten.cos.default"(%angles) {arguments = "{0}", coda.dims = ["T", 8 : i64]} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %sin = torch.call "aten.sin.default"(%angles) {arguments = "{0}", coda.dims = ["T", 8 : i64]} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %c = coda.reshape %cos : (tensor<?x8xf32>) -> tensor<1x1x?x8xf32>
  %s = coda.reshape %sin : (tensor<?x8xf32>) -> tensor<1x1x?x8xf32>
  %a = coda.mul %h, %c : (tensor<?x4x?x8xf32>, tensor<1x1x?x8xf32>) -> tensor<?x4x?x8xf32>
  %h1 = coda.slice %h {dim = 3 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<?x4x?x8xf32>) -> tensor<?x4x?x4xf32>
  %h2 = coda.slice %h {dim = 3 : i64, start = 4 : i64, stop = 8 : i64} : (tensor<?x4x?x8xf32>) -> tensor<?x4x?x4xf32>
  %neg = coda.neg %h2 : (tensor<?x4x?x4xf32>) -> tensor<?x4x?x4xf32>
  %rotated = coda.concat %neg, %h1 {dim = 3 : i64} : (tensor<?x4x?x4xf32>, tensor<?x4x?x4xf32>) -> tensor<?x4x?x8xf32>
  %b = coda.mul %rotated, %s : (tensor<?x4x?x8xf32>, tensor<1x1x?x8xf32>) -> tensor<?x4x?x8xf32>
  %y = coda.add %a, %b : (tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>) -> tensor<?x4x?x8xf32>
  func.return %y : tensor<?x4x?x8xf32>
}

// CHECK-LABEL: func.func @heads(
// CHECK:         [[N:%.*]] = coda.rms_norm %q, %w {eps = 1.000000e-06 : f64, group = 8 : i64} : (tensor<?x?x32xf32>, tensor<8xf32>) -> tensor<?x?x32xf32>
// CHECK:         [[R:%.*]] = coda.rope [[N]],
// CHECK-NEXT:    [[S:%.*]] = coda.reshape [[R]]
// CHECK-NEXT:    [[Y:%.*]] = coda.transpose [[S]]
// CHECK-NEXT:    func.return [[Y]]

// Heads are joined, and rows flattened for the product alone, which reads them where they are.

func.func @flattened_heads(%x: tensor<2x8x4x16xf32>, %w: tensor<64x64xf32>) -> tensor<2x8x64xf32> {
  %h = coda.reshape %x : (tensor<2x8x4x16xf32>) -> tensor<2x8x64xf32>
  %f = coda.reshape %h : (tensor<2x8x64xf32>) -> tensor<16x64xf32>
  %p = coda.matmul %f, %w : (tensor<16x64xf32>, tensor<64x64xf32>) -> tensor<16x64xf32>
  %y = coda.reshape %p : (tensor<16x64xf32>) -> tensor<2x8x64xf32>
  func.return %y : tensor<2x8x64xf32>
}

// CHECK:      func.func @flattened_heads(
// CHECK-NEXT:   %h = coda.reshape %x : (tensor<2x8x4x16xf32>) -> tensor<2x8x64xf32>
// CHECK-NEXT:   %p = coda.matmul %h, %w : (tensor<2x8x64xf32>, tensor<64x64xf32>) -> tensor<2x8x64xf32>
// CHECK-NEXT:   func.return %p : tensor<2x8x64xf32>
// CHECK-NEXT: }

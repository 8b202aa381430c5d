// RUN: coda-opt %s | filecheck %s
// RUN: coda-opt %s | coda-opt -f mlir | filecheck %s
// RUN: coda-opt %s --print-op-generic | coda-opt -f mlir | filecheck %s

// Operators of derivatives.

// CHECK:      func.func @gradients(%dy: tensor<?x?x16xbf16>, %x: tensor<?x?x8xbf16>, %c: tensor<?x?x1xf32>, %dloss: tensor<f32>, %losses: tensor<?x?xf32>, %w: tensor<8xbf16>, %ids: tensor<?x?xi64>, %table: tensor<?x8xbf16>, %cos: tensor<?x2xf32>) {
// CHECK-NEXT:   %dw = coda.weight_gradient %dy, %x : (tensor<?x?x16xbf16>, tensor<?x?x8xbf16>) -> tensor<16x8xbf16>
// CHECK-NEXT:   %wide = coda.weight_gradient %dy, %x : (tensor<?x?x16xbf16>, tensor<?x?x8xbf16>) -> tensor<16x8xf32>
// CHECK-NEXT:   %dbias = coda.sum_to %dy : (tensor<?x?x16xbf16>) -> tensor<16xf32>
// CHECK-NEXT:   %rows = coda.sum_to %dy : (tensor<?x?x16xbf16>) -> tensor<?x1x16xbf16>
// CHECK-NEXT:   %stretched = coda.broadcast %c : (tensor<?x?x1xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %like = coda.broadcast %dloss, %c : (tensor<f32>, tensor<?x?x1xf32>) -> tensor<?x?x1xf32>
// CHECK-NEXT:   %part = coda.slice %x {dim = 1 : i64, start = 0 : i64, stop = 2 : i64} : (tensor<?x?x8xbf16>) -> tensor<?x2x8xbf16>
// CHECK-NEXT:   %padded = coda.pad %x {dim = 2 : i64, start = 3 : i64} : (tensor<?x?x8xbf16>) -> tensor<?x?x12xbf16>
// CHECK-NEXT:   %back = coda.pad %part, %x {dim = 1 : i64, start = 0 : i64} : (tensor<?x2x8xbf16>, tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   %around = coda.pad %x {dim = 1 : i64, start = 3 : i64, after = 1 : i64, value = -5.000000e-01 : f64} : (tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   %dx = coda.activation_grad %x, %x {activation = "silu"} : (tensor<?x?x8xbf16>, tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   %sign = coda.sign %x : (tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   %da = coda.maximum_grad %x, %w, %x : (tensor<?x?x8xbf16>, tensor<8xbf16>, tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   %db = coda.maximum_grad %x, %w, %x {bound} : (tensor<?x?x8xbf16>, tensor<8xbf16>, tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   %dlogits = coda.cross_entropy_grad %x, %ids, %dloss {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x?x8xbf16>, tensor<?x?xi64>, tensor<f32>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   %dlosses = coda.cross_entropy_grad %x, %ids, %losses {ignore_index = -100 : i64, reduction = "none"} : (tensor<?x?x8xbf16>, tensor<?x?xi64>, tensor<?x?xf32>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   %dsum, %moment = coda.cross_entropy_grad %x, %ids, %dloss, %c {ignore_index = -100 : i64, reduction = "sum"} : (tensor<?x?x8xbf16>, tensor<?x?xi64>, tensor<f32>, tensor<?x?x1xf32>) -> (tensor<?x?x8xbf16>, tensor<?x?x1xf32>)
// CHECK-NEXT:   %dpart = coda.cross_entropy_grad %x, %ids, %dloss, %c {ignore_index = -100 : i64, reduction = "sum", start = 8 : i64} : (tensor<?x?x8xbf16>, tensor<?x?xi64>, tensor<f32>, tensor<?x?x1xf32>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   %dtable = coda.embedding_grad %ids, %x : (tensor<?x?xi64>, tensor<?x?x8xbf16>) -> tensor<100x8xbf16>
// CHECK-NEXT:   %dpadded = coda.embedding_grad %ids, %x {padding_idx = 0 : i64} : (tensor<?x?xi64>, tensor<?x?x8xbf16>) -> tensor<100x8xbf16>
// CHECK-NEXT:   %dvocab = coda.embedding_grad %ids, %x, %table : (tensor<?x?xi64>, tensor<?x?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %rotated = coda.rope %dy, %cos, %cos {head_dim = 4 : i64, layout = "half_split", transposed} : (tensor<?x?x16xbf16>, tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x?x16xbf16>
// CHECK-NEXT:   func.return
func.func @gradients(%dy: tensor<?x?x16xbf16>, %x: tensor<?x?x8xbf16>, %c: tensor<?x?x1xf32>, %dloss: tensor<f32>, %losses: tensor<?x?xf32>, %w: tensor<8xbf16>, %ids: tensor<?x?xi64>, %table: tensor<?x8xbf16>, %cos: tensor<?x2xf32>) {
  %dw = coda.weight_gradient %dy, %x : (tensor<?x?x16xbf16>, tensor<?x?x8xbf16>) -> tensor<16x8xbf16>
  %wide = coda.weight_gradient %dy, %x : (tensor<?x?x16xbf16>, tensor<?x?x8xbf16>) -> tensor<16x8xf32>
  %dbias = coda.sum_to %dy : (tensor<?x?x16xbf16>) -> tensor<16xf32>
  %rows = coda.sum_to %dy : (tensor<?x?x16xbf16>) -> tensor<?x1x16xbf16>
  %stretched = coda.broadcast %c : (tensor<?x?x1xf32>) -> tensor<?x?x8xf32>
  %like = coda.broadcast %dloss, %c : (tensor<f32>, tensor<?x?x1xf32>) -> tensor<?x?x1xf32>
  %part = coda.slice %x {dim = 1 : i64, start = 0 : i64, stop = 2 : i64} : (tensor<?x?x8xbf16>) -> tensor<?x2x8xbf16>
  %padded = coda.pad %x {dim = 2 : i64, start = 3 : i64} : (tensor<?x?x8xbf16>) -> tensor<?x?x12xbf16>
  %back = coda.pad %part, %x {dim = 1 : i64, start = 0 : i64} : (tensor<?x2x8xbf16>, tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>
  %around = coda.pad %x {dim = 1 : i64, start = 3 : i64, after = 1 : i64, value = -0.5 : f64} : (tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>
  %dx = coda.activation_grad %x, %x {activation = "silu"} : (tensor<?x?x8xbf16>, tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>
  %sign = coda.sign %x : (tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>
  %da = coda.maximum_grad %x, %w, %x : (tensor<?x?x8xbf16>, tensor<8xbf16>, tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>
  %db = coda.maximum_grad %x, %w, %x {bound} : (tensor<?x?x8xbf16>, tensor<8xbf16>, tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>
  %dlogits = coda.cross_entropy_grad %x, %ids, %dloss {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x?x8xbf16>, tensor<?x?xi64>, tensor<f32>) -> tensor<?x?x8xbf16>
  %dlosses = coda.cross_entropy_grad %x, %ids, %losses {ignore_index = -100 : i64, reduction = "none"} : (tensor<?x?x8xbf16>, tensor<?x?xi64>, tensor<?x?xf32>) -> tensor<?x?x8xbf16>
  %dsum, %moment = coda.cross_entropy_grad %x, %ids, %dloss, %c {ignore_index = -100 : i64, reduction = "sum"} : (tensor<?x?x8xbf16>, tensor<?x?xi64>, tensor<f32>, tensor<?x?x1xf32>) -> (tensor<?x?x8xbf16>, tensor<?x?x1xf32>)
  %dpart = coda.cross_entropy_grad %x, %ids, %dloss, %c {ignore_index = -100 : i64, reduction = "sum", start = 8 : i64} : (tensor<?x?x8xbf16>, tensor<?x?xi64>, tensor<f32>, tensor<?x?x1xf32>) -> tensor<?x?x8xbf16>
  %dtable = coda.embedding_grad %ids, %x : (tensor<?x?xi64>, tensor<?x?x8xbf16>) -> tensor<100x8xbf16>
  %dpadded = coda.embedding_grad %ids, %x {padding_idx = 0 : i64} : (tensor<?x?xi64>, tensor<?x?x8xbf16>) -> tensor<100x8xbf16>
  %dvocab = coda.embedding_grad %ids, %x, %table : (tensor<?x?xi64>, tensor<?x?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %rotated = coda.rope %dy, %cos, %cos {head_dim = 4 : i64, layout = "half_split", transposed} : (tensor<?x?x16xbf16>, tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x?x16xbf16>
  func.return
}

// RUN: coda-opt %s -p raise-batch-norm,canonicalize,cse | filecheck %s
// RUN: coda-opt %s -p raise-batch-norm --remarks=passed -o /dev/null 2>&1 | filecheck %s --check-prefix=PASSED

func.func @stored(%x: tensor<?x4x8xbf16> {coda.dims = ["B", 4 : i64, 8 : i64]}, %w: tensor<4xbf16>, %v: tensor<4xf32>) -> (tensor<?x4x8xbf16>, tensor<?x4x8xbf16>) {
  %y = torch.call "aten.batch_norm.default"(%x, %w, %v) {arguments = "{0}, {1}, {1}, {2}, {2}, False, 0.1, 1e-05, True", coda.dims = ["B", 4 : i64, 8 : i64]} : (tensor<?x4x8xbf16>, tensor<4xbf16>, tensor<4xf32>) -> tensor<?x4x8xbf16>
  %z = torch.call "aten._native_batch_norm_legit_no_training.default"(%y, %v) {arguments = "{0}, None, None, {1}, {1}, 0.1, 0.001", positions = [0], coda.dims = ["B", 4 : i64, 8 : i64]} : (tensor<?x4x8xbf16>, tensor<4xf32>) -> tensor<?x4x8xbf16>
  func.return %y, %z : tensor<?x4x8xbf16>, tensor<?x4x8xbf16>
}

// CHECK:      func.func @stored(%x: tensor<?x4x8xbf16> {coda.dims = ["B", 4 : i64, 8 : i64]}, %w: tensor<4xbf16>, %v: tensor<4xf32>) -> (tensor<?x4x8xbf16>, tensor<?x4x8xbf16>) {
// CHECK-NEXT:   %0 = coda.cast %x : (tensor<?x4x8xbf16>) -> tensor<?x4x8xf32>
// CHECK-NEXT:   %1 = coda.reshape %v : (tensor<4xf32>) -> tensor<4x1xf32>
// CHECK-NEXT:   %2 = coda.sub %0, %1 : (tensor<?x4x8xf32>, tensor<4x1xf32>) -> tensor<?x4x8xf32>
// CHECK-NEXT:   %3 = coda.constant {value = 1.000000e-05 : f64} : tensor<f32>
// CHECK-NEXT:   %4 = coda.add %1, %3 : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
// CHECK-NEXT:   %5 = coda.rsqrt %4 : (tensor<4x1xf32>) -> tensor<4x1xf32>
// CHECK-NEXT:   %6 = coda.reshape %w : (tensor<4xbf16>) -> tensor<4x1xbf16>
// CHECK-NEXT:   %7 = coda.cast %6 : (tensor<4x1xbf16>) -> tensor<4x1xf32>
// CHECK-NEXT:   %8 = coda.mul %5, %7 : (tensor<4x1xf32>, tensor<4x1xf32>) -> tensor<4x1xf32>
// CHECK-NEXT:   %9 = coda.mul %2, %8 : (tensor<?x4x8xf32>, tensor<4x1xf32>) -> tensor<?x4x8xf32>
// CHECK-NEXT:   %10 = coda.add %9, %7 : (tensor<?x4x8xf32>, tensor<4x1xf32>) -> tensor<?x4x8xf32>
// CHECK-NEXT:   %y = coda.cast %10 : (tensor<?x4x8xf32>) -> tensor<?x4x8xbf16>
// CHECK-NEXT:   %11 = coda.cast %y : (tensor<?x4x8xbf16>) -> tensor<?x4x8xf32>
// CHECK-NEXT:   %12 = coda.sub %11, %1 : (tensor<?x4x8xf32>, tensor<4x1xf32>) -> tensor<?x4x8xf32>
// CHECK-NEXT:   %13 = coda.constant {value = 1.000000e-03 : f64} : tensor<f32>
// CHECK-NEXT:   %14 = coda.add %1, %13 : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
// CHECK-NEXT:   %15 = coda.rsqrt %14 : (tensor<4x1xf32>) -> tensor<4x1xf32>
// CHECK-NEXT:   %16 = coda.mul %12, %15 : (tensor<?x4x8xf32>, tensor<4x1xf32>) -> tensor<?x4x8xf32>
// CHECK-NEXT:   %z = coda.cast %16 : (tensor<?x4x8xf32>) -> tensor<?x4x8xbf16>
// CHECK-NEXT:   func.return %y, %z : tensor<?x4x8xbf16>, tensor<?x4x8xbf16>
// CHECK-NEXT: }
// PASSED: remark[passed] raise-batch-norm: torch.call: raised to pointwise code

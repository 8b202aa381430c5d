// RUN: coda-opt %s -p move-norm-gradient-sums --split-input-file | filecheck %s
// RUN: coda-opt %s -p move-norm-gradient-sums --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// The norm has another consumer, whose gradient adds to dh.

func.func @residual(%x: tensor<?x8xf32>, %wa: tensor<16x8xf32>, %dz: tensor<?x16xf32>, %dr: tensor<?x8xf32>) -> (tensor<?x16xf32>, tensor<?x1xf32>) {
  %h = coda.rms_norm %x {eps = 1.0e-05 : f64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %z = coda.linear %h, %wa : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
  %g = coda.matmul %dz, %wa : (tensor<?x16xf32>, tensor<16x8xf32>) -> tensor<?x8xf32>
  %dh = coda.add %g, %dr : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %r = coda.norm_stats %x {kind = "rms", eps = 1.0e-05 : f64} : (tensor<?x8xf32>) -> tensor<?x1xf32>
  %xhat = coda.mul %x, %r : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  %p = coda.mul %dh, %xhat : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %c = coda.reduce %p {kind = "sum"} : (tensor<?x8xf32>) -> tensor<?x1xf32>
  func.return %z, %c : tensor<?x16xf32>, tensor<?x1xf32>
}

// CHECK:      func.func @residual(%x: tensor<?x8xf32>, %wa: tensor<16x8xf32>, %dz: tensor<?x16xf32>, %dr: tensor<?x8xf32>) -> (tensor<?x16xf32>, tensor<?x1xf32>) {
// CHECK-NEXT:   %h = coda.rms_norm %x {eps = 1.000000e-05 : f64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %z = coda.linear %h, %wa : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %g = coda.matmul %dz, %wa : (tensor<?x16xf32>, tensor<16x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %dh = coda.add %g, %dr : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %r = coda.norm_stats %x {kind = "rms", eps = 1.000000e-05 : f64} : (tensor<?x8xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %xhat = coda.mul %x, %r : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %p = coda.mul %dh, %xhat : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %c = coda.reduce %p {kind = "sum"} : (tensor<?x8xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   func.return %z, %c : tensor<?x16xf32>, tensor<?x1xf32>
// CHECK-NEXT: }

// REMARK: remark[missed] move-norm-gradient-sums: coda.reduce: the row sum of the norm's gradient is not moved: %dr adds to the gradient, and comes from no linear map of %h; failed condition: the norm feeds only linear maps; costs 36*d1 bytes

// -----

// Another map of the norm than that of the gradient.

func.func @other_map(%x: tensor<?x8xf32>, %wa: tensor<16x8xf32>, %wb: tensor<16x8xf32>, %dz: tensor<?x16xf32>) -> (tensor<?x16xf32>, tensor<?x1xf32>) {
  %h = coda.rms_norm %x {eps = 1.0e-05 : f64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %z = coda.linear %h, %wa : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
  %dh = coda.matmul %dz, %wb : (tensor<?x16xf32>, tensor<16x8xf32>) -> tensor<?x8xf32>
  %r = coda.norm_stats %x {kind = "rms", eps = 1.0e-05 : f64} : (tensor<?x8xf32>) -> tensor<?x1xf32>
  %xhat = coda.mul %x, %r : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  %p = coda.mul %dh, %xhat : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %c = coda.reduce %p {kind = "sum"} : (tensor<?x8xf32>) -> tensor<?x1xf32>
  func.return %z, %c : tensor<?x16xf32>, tensor<?x1xf32>
}

// CHECK:      func.func @other_map(%x: tensor<?x8xf32>, %wa: tensor<16x8xf32>, %wb: tensor<16x8xf32>, %dz: tensor<?x16xf32>) -> (tensor<?x16xf32>, tensor<?x1xf32>) {
// CHECK-NEXT:   %h = coda.rms_norm %x {eps = 1.000000e-05 : f64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %z = coda.linear %h, %wa : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %dh = coda.matmul %dz, %wb : (tensor<?x16xf32>, tensor<16x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %r = coda.norm_stats %x {kind = "rms", eps = 1.000000e-05 : f64} : (tensor<?x8xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %xhat = coda.mul %x, %r : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %p = coda.mul %dh, %xhat : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %c = coda.reduce %p {kind = "sum"} : (tensor<?x8xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   func.return %z, %c : tensor<?x16xf32>, tensor<?x1xf32>
// CHECK-NEXT: }

// REMARK: remark[missed] move-norm-gradient-sums: coda.reduce: the row sum of the norm's gradient is not moved: %dh adds to the gradient, and comes from no linear map of %h; failed condition: the norm feeds only linear maps; costs 36*d1 bytes

// -----

// Eager PyTorch rounds dh.

func.func @eager_exact(%x: tensor<?x8xf32>, %wa: tensor<16x8xf32>, %dz: tensor<?x16xf32>) -> (tensor<?x16xf32>, tensor<?x1xf32>) attributes {coda.numerics = #gemm.numerics<"eager-exact">} {
  %h = coda.rms_norm %x {eps = 1.0e-05 : f64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %z = coda.linear %h, %wa : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
  %dh = coda.matmul %dz, %wa : (tensor<?x16xf32>, tensor<16x8xf32>) -> tensor<?x8xf32>
  %r = coda.norm_stats %x {kind = "rms", eps = 1.0e-05 : f64} : (tensor<?x8xf32>) -> tensor<?x1xf32>
  %xhat = coda.mul %x, %r : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  %p = coda.mul %dh, %xhat : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %c = coda.reduce %p {kind = "sum"} : (tensor<?x8xf32>) -> tensor<?x1xf32>
  func.return %z, %c : tensor<?x16xf32>, tensor<?x1xf32>
}

// CHECK:      func.func @eager_exact(%x: tensor<?x8xf32>, %wa: tensor<16x8xf32>, %dz: tensor<?x16xf32>) -> (tensor<?x16xf32>, tensor<?x1xf32>) attributes {coda.numerics = #gemm.numerics<"eager-exact">} {
// CHECK-NEXT:   %h = coda.rms_norm %x {eps = 1.000000e-05 : f64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %z = coda.linear %h, %wa : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %dh = coda.matmul %dz, %wa : (tensor<?x16xf32>, tensor<16x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %r = coda.norm_stats %x {kind = "rms", eps = 1.000000e-05 : f64} : (tensor<?x8xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %xhat = coda.mul %x, %r : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %p = coda.mul %dh, %xhat : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %c = coda.reduce %p {kind = "sum"} : (tensor<?x8xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   func.return %z, %c : tensor<?x16xf32>, tensor<?x1xf32>
// CHECK-NEXT: }

// REMARK: remark[missed] move-norm-gradient-sums: coda.reduce: the row sum of the norm's gradient is not moved: eager PyTorch rounds the gradient before the GEMM, and the mode is eager-exact; failed condition: the numerics mode allows rounding points to move; costs 36*d1 bytes

// -----

// Not the statistics of this norm: another eps.

func.func @other_statistics(%x: tensor<?x8xf32>, %wa: tensor<16x8xf32>, %dz: tensor<?x16xf32>) -> (tensor<?x16xf32>, tensor<?x1xf32>) {
  %h = coda.rms_norm %x {eps = 1.0e-05 : f64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %z = coda.linear %h, %wa : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
  %dh = coda.matmul %dz, %wa : (tensor<?x16xf32>, tensor<16x8xf32>) -> tensor<?x8xf32>
  %r = coda.norm_stats %x {kind = "rms", eps = 1.0e-03 : f64} : (tensor<?x8xf32>) -> tensor<?x1xf32>
  %xhat = coda.mul %x, %r : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  %p = coda.mul %dh, %xhat : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %c = coda.reduce %p {kind = "sum"} : (tensor<?x8xf32>) -> tensor<?x1xf32>
  func.return %z, %c : tensor<?x16xf32>, tensor<?x1xf32>
}

// CHECK:      func.func @other_statistics(%x: tensor<?x8xf32>, %wa: tensor<16x8xf32>, %dz: tensor<?x16xf32>) -> (tensor<?x16xf32>, tensor<?x1xf32>) {
// CHECK-NEXT:   %h = coda.rms_norm %x {eps = 1.000000e-05 : f64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %z = coda.linear %h, %wa : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %dh = coda.matmul %dz, %wa : (tensor<?x16xf32>, tensor<16x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %r = coda.norm_stats %x {kind = "rms", eps = 1.000000e-03 : f64} : (tensor<?x8xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %xhat = coda.mul %x, %r : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %p = coda.mul %dh, %xhat : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %c = coda.reduce %p {kind = "sum"} : (tensor<?x8xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   func.return %z, %c : tensor<?x16xf32>, tensor<?x1xf32>
// CHECK-NEXT: }

// -----

// What is added to the result of the map depends on the sum.

func.func @circle(%x: tensor<1x8xf32>, %wa: tensor<8x16xf32>, %b: tensor<16xf32>, %dz: tensor<1x16xf32>) -> tensor<1x16xf32> {
  %h = coda.rms_norm %x {eps = 1.0e-05 : f64} : (tensor<1x8xf32>) -> tensor<1x8xf32>
  %z = coda.matmul %h, %wa : (tensor<1x8xf32>, tensor<8x16xf32>) -> tensor<1x16xf32>
  %dh = coda.linear %dz, %wa : (tensor<1x16xf32>, tensor<8x16xf32>) -> tensor<1x8xf32>
  %r = coda.norm_stats %x {kind = "rms", eps = 1.0e-05 : f64} : (tensor<1x8xf32>) -> tensor<1x1xf32>
  %xhat = coda.mul %x, %r : (tensor<1x8xf32>, tensor<1x1xf32>) -> tensor<1x8xf32>
  %p = coda.mul %dh, %xhat : (tensor<1x8xf32>, tensor<1x8xf32>) -> tensor<1x8xf32>
  %c = coda.reduce %p {kind = "sum"} : (tensor<1x8xf32>) -> tensor<1x1xf32>
  %s = coda.reshape %c : (tensor<1x1xf32>) -> tensor<1xf32>
  %row = coda.mul %b, %s : (tensor<16xf32>, tensor<1xf32>) -> tensor<16xf32>
  %y = coda.add %z, %row : (tensor<1x16xf32>, tensor<16xf32>) -> tensor<1x16xf32>
  func.return %y : tensor<1x16xf32>
}
// CHECK:      func.func @circle(%x: tensor<1x8xf32>, %wa: tensor<8x16xf32>, %b: tensor<16xf32>, %dz: tensor<1x16xf32>) -> tensor<1x16xf32> {
// CHECK-NEXT:   %h = coda.rms_norm %x {eps = 1.000000e-05 : f64} : (tensor<1x8xf32>) -> tensor<1x8xf32>
// CHECK-NEXT:   %z = coda.matmul %h, %wa : (tensor<1x8xf32>, tensor<8x16xf32>) -> tensor<1x16xf32>
// CHECK-NEXT:   %dh = coda.linear %dz, %wa : (tensor<1x16xf32>, tensor<8x16xf32>) -> tensor<1x8xf32>
// CHECK-NEXT:   %r = coda.norm_stats %x {kind = "rms", eps = 1.000000e-05 : f64} : (tensor<1x8xf32>) -> tensor<1x1xf32>
// CHECK-NEXT:   %xhat = coda.mul %x, %r : (tensor<1x8xf32>, tensor<1x1xf32>) -> tensor<1x8xf32>
// CHECK-NEXT:   %p = coda.mul %dh, %xhat : (tensor<1x8xf32>, tensor<1x8xf32>) -> tensor<1x8xf32>
// CHECK-NEXT:   %c = coda.reduce %p {kind = "sum"} : (tensor<1x8xf32>) -> tensor<1x1xf32>
// CHECK-NEXT:   %s = coda.reshape %c : (tensor<1x1xf32>) -> tensor<1xf32>
// CHECK-NEXT:   %row = coda.mul %b, %s : (tensor<16xf32>, tensor<1xf32>) -> tensor<16xf32>
// CHECK-NEXT:   %y = coda.add %z, %row : (tensor<1x16xf32>, tensor<16xf32>) -> tensor<1x16xf32>
// CHECK-NEXT:   func.return %y : tensor<1x16xf32>
// CHECK-NEXT: }

// REMARK: remark[missed] move-norm-gradient-sums: coda.reduce: the row sum of the norm's gradient is not moved: its replacement would depend on it; failed condition: the results of the maps do not depend on the row sum; costs 36 bytes

// RUN: coda-opt %s -p coda-to-gemm{leftovers=graphs} | filecheck %s
// RUN: coda-opt %s -p coda-to-gemm{leftovers=graphs} --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// adaLN of each sample: GEMMs take the bias and the activation; the norm of an argument, its scale
// and its shift get no kernels.

func.func @adaptive(%x: tensor<?x4x8xf32> {coda.dims = ["B", 4, 8]}, %c: tensor<?x1x8xf32> {coda.dims = ["B", 1, 8]}, %wm: tensor<16x8xf32>, %bm: tensor<16xf32>, %w: tensor<8x8xf32>) -> (tensor<?x4x8xf32> {coda.dims = ["B", 4, 8]}) {
  %one = coda.constant {value = 1.0 : f64} : tensor<f32>
  %m0 = coda.linear %c, %wm : (tensor<?x1x8xf32>, tensor<16x8xf32>) -> tensor<?x1x16xf32>
  %m = coda.add %m0, %bm : (tensor<?x1x16xf32>, tensor<16xf32>) -> tensor<?x1x16xf32>
  %shift = coda.slice %m {dim = 2 : i64, start = 0 : i64, stop = 8 : i64} : (tensor<?x1x16xf32>) -> tensor<?x1x8xf32>
  %scale0 = coda.slice %m {dim = 2 : i64, start = 8 : i64, stop = 16 : i64} : (tensor<?x1x16xf32>) -> tensor<?x1x8xf32>
  %scale = coda.add %scale0, %one : (tensor<?x1x8xf32>, tensor<f32>) -> tensor<?x1x8xf32>
  %n = coda.layer_norm %x {eps = 1.0e-5 : f64} : (tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
  %s = coda.mul %n, %scale : (tensor<?x4x8xf32>, tensor<?x1x8xf32>) -> tensor<?x4x8xf32>
  %t = coda.add %s, %shift : (tensor<?x4x8xf32>, tensor<?x1x8xf32>) -> tensor<?x4x8xf32>
  %h = coda.linear %t, %w : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  %y = coda.relu %h : (tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
  func.return %y : tensor<?x4x8xf32>
}

// CHECK:      func.func @adaptive(%x: tensor<?x4x8xf32> {coda.dims = ["B", 4 : i64, 8 : i64]}, %c: tensor<?x1x8xf32> {coda.dims = ["B", 1 : i64, 8 : i64]}, %wm: tensor<16x8xf32>, %bm: tensor<16xf32>, %w: tensor<8x8xf32>) -> (tensor<?x4x8xf32> {coda.dims = ["B", 4 : i64, 8 : i64]}) {
// CHECK-NEXT:   %one = coda.constant {value = 1.000000e+00 : f64} : tensor<f32>
// CHECK-NEXT:   %m = coda.linear %c, %wm, %bm : (tensor<?x1x8xf32>, tensor<16x8xf32>, tensor<16xf32>) -> tensor<?x1x16xf32>
// CHECK-NEXT:   %shift = coda.slice %m {dim = 2 : i64, start = 0 : i64, stop = 8 : i64} : (tensor<?x1x16xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %scale0 = coda.slice %m {dim = 2 : i64, start = 8 : i64, stop = 16 : i64} : (tensor<?x1x16xf32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %scale = coda.add %scale0, %one : (tensor<?x1x8xf32>, tensor<f32>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %t = coda.layer_norm %x, %scale, %shift {eps = 1.000000e-05 : f64} : (tensor<?x4x8xf32>, tensor<?x1x8xf32>, tensor<?x1x8xf32>) -> tensor<?x4x8xf32>
// CHECK-NEXT:   %y = func.call @adaptive_program(%t, %w) {coda.dims = ["B", 4 : i64, 8 : i64]} : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
// CHECK-NEXT:   func.return %y : tensor<?x4x8xf32>
// CHECK-NEXT: }

// REMARK: remark[missed] defer-norms: coda.layer_norm: the norm runs as a separate kernel: %x is an argument of the function; failed condition: a GEMM or pointwise code in the same function computes the norm's input; costs 320*B bytes

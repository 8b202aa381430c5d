// RUN: coda-opt %s -p fuse-qk-norm --split-input-file | filecheck %s
// RUN: coda-opt %s -p fuse-qk-norm --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// The heads of an argument.

func.func @argument(%z: tensor<?x24xf32>) -> tensor<?x24xf32> {
  %n = coda.rms_norm %z {eps = 1.000000e-06 : f64, group = 8 : i64} : (tensor<?x24xf32>) -> tensor<?x24xf32>
  func.return %n : tensor<?x24xf32>
}

// REMARK: remark[missed] fuse-qk-norm: coda.rms_norm: %z is the tile of no kernel of the function; failed condition: a GEMM or pointwise code in the same function computes the norm's input; costs 192*d0 bytes
// CHECK:      func.func @argument(
// CHECK-NEXT:   %n = coda.rms_norm %z {eps = 1.000000e-06 : f64, group = 8 : i64} : (tensor<?x24xf32>) -> tensor<?x24xf32>
// CHECK-NEXT:   func.return %n : tensor<?x24xf32>
// CHECK-NEXT: }

// -----

// The norm of rotated heads.

func.func @rotated(%x: tensor<?x8xf32>, %w: tensor<24x8xf32>) -> tensor<?x24xf32> {
  %z = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<24x8xf32>) pair<halves, 8>
      -> (tile : tensor<?x24xf32>) {
    ^bb0(%a: f32, %b: f32):
      gemm.yield %b, %a : f32, f32
    }
  %n = coda.rms_norm %z {eps = 1.0e-6 : f64, group = 8 : i64} : (tensor<?x24xf32>) -> tensor<?x24xf32>
  func.return %n : tensor<?x24xf32>
}

// REMARK: remark[missed] fuse-qk-norm: coda.rms_norm: the kernel that computes %z pairs its columns already; failed condition: the norm comes before the rotation; costs 192*d0 bytes
// CHECK:      func.func @rotated(
// CHECK-NEXT:   %z = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<24x8xf32>) pair<halves, 8>
// CHECK-NEXT:       -> (tile : tensor<?x24xf32>) {
// CHECK-NEXT:     ^bb0(%a: f32, %b: f32):
// CHECK-NEXT:       gemm.yield %b, %a : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %n = coda.rms_norm %z {eps = 1.000000e-06 : f64, group = 8 : i64} : (tensor<?x24xf32>) -> tensor<?x24xf32>
// CHECK-NEXT:   func.return %n : tensor<?x24xf32>
// CHECK-NEXT: }

// -----

// The columns of two weights.

func.func @two_weights(%x: tensor<?x8xf32>, %w: tensor<12x8xf32>, %v: tensor<12x8xf32>) -> tensor<?x24xf32> {
  %z = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<12x8xf32>, %v : tensor<12x8xf32>)
      -> (tile : tensor<?x24xf32>) {
    ^bb0(%a: f32):
      gemm.yield %a : f32
    }
  %n = coda.rms_norm %z {eps = 1.0e-6 : f64, group = 8 : i64} : (tensor<?x24xf32>) -> tensor<?x24xf32>
  func.return %n : tensor<?x24xf32>
}

// REMARK: remark[missed] fuse-qk-norm: coda.rms_norm: the GEMM that computes %z joins 2 weights; failed condition: the columns come from one weight; costs 192*d0 bytes
// CHECK:      func.func @two_weights(
// CHECK-NEXT:   %z = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<12x8xf32>, %v : tensor<12x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x24xf32>) {
// CHECK-NEXT:     ^bb0(%a: f32):
// CHECK-NEXT:       gemm.yield %a : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %n = coda.rms_norm %z {eps = 1.000000e-06 : f64, group = 8 : i64} : (tensor<?x24xf32>) -> tensor<?x24xf32>
// CHECK-NEXT:   func.return %n : tensor<?x24xf32>
// CHECK-NEXT: }

// -----

// A group that no tile holds.

func.func @large(%x: tensor<?x8xf32>, %w: tensor<1024x8xf32>) -> tensor<?x1024xf32> {
  %z = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<1024x8xf32>)
      -> (tile : tensor<?x1024xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %n = coda.rms_norm %z {eps = 1.000000e-06 : f64, group = 512 : i64} : (tensor<?x1024xf32>) -> tensor<?x1024xf32>
  func.return %n : tensor<?x1024xf32>
}

// REMARK: remark[missed] fuse-qk-norm: coda.rms_norm: a group of 512 columns does not fit into a tile; failed condition: a group has at most 256 columns; costs 8192*d0 bytes
// CHECK:      func.func @large(
// CHECK-NEXT:   %z = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<1024x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x1024xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %n = coda.rms_norm %z {eps = 1.000000e-06 : f64, group = 512 : i64} : (tensor<?x1024xf32>) -> tensor<?x1024xf32>
// CHECK-NEXT:   func.return %n : tensor<?x1024xf32>
// CHECK-NEXT: }

// -----

// A weight that is computed from the projection.

func.func @weight(%x: tensor<8xf32>, %w: tensor<24x8xf32>) -> tensor<24xf32> {
  %z = gemm.fused %x : tensor<8xf32>
    columns(%w : tensor<24x8xf32>)
      -> (tile : tensor<24xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %g = coda.slice %z {dim = 0 : i64, start = 0 : i64, stop = 8 : i64} : (tensor<24xf32>) -> tensor<8xf32>
  %n = coda.rms_norm %z, %g {eps = 1.000000e-06 : f64, group = 8 : i64} : (tensor<24xf32>, tensor<8xf32>) -> tensor<24xf32>
  func.return %n : tensor<24xf32>
}

// REMARK: remark[missed] fuse-qk-norm: coda.rms_norm: %g is computed from the projection that it scales; failed condition: the weight does not depend on the projection; costs 224 bytes
// CHECK:      func.func @weight(
// CHECK-NEXT:   %z = gemm.fused %x : tensor<8xf32>
// CHECK-NEXT:     columns(%w : tensor<24x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<24xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %g = coda.slice %z {dim = 0 : i64, start = 0 : i64, stop = 8 : i64} : (tensor<24xf32>) -> tensor<8xf32>
// CHECK-NEXT:   %n = coda.rms_norm %z, %g {eps = 1.000000e-06 : f64, group = 8 : i64} : (tensor<24xf32>, tensor<8xf32>) -> tensor<24xf32>
// CHECK-NEXT:   func.return %n : tensor<24xf32>
// CHECK-NEXT: }

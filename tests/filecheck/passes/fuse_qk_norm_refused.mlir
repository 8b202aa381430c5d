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

// -----

// The weight of rotated heads.

func.func @rotated_weight(%x: tensor<?x8xf32>, %w: tensor<24x8xf32>, %a: tensor<?x2x2xf32>, %g: tensor<8xf32>) -> tensor<?x24xf32> {
  %z = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<24x8xf32>)
      -> (tile : tensor<?x24xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %c = coda.cos %a : (tensor<?x2x2xf32>) -> tensor<?x2x2xf32>
  %cos = coda.reshape %c : (tensor<?x2x2xf32>) -> tensor<?x4xf32>
  %s = coda.sin %a : (tensor<?x2x2xf32>) -> tensor<?x2x2xf32>
  %sin = coda.reshape %s : (tensor<?x2x2xf32>) -> tensor<?x4xf32>
  %q = coda.rope %z, %cos, %sin {head_dim = 8 : i64, layout = "half_split"} : (tensor<?x24xf32>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x24xf32>
  %n = coda.rms_norm %q, %g {eps = 1.0e-06 : f64, group = 8 : i64} : (tensor<?x24xf32>, tensor<8xf32>) -> tensor<?x24xf32>
  func.return %n : tensor<?x24xf32>
}

// REMARK: remark[missed] fuse-qk-norm: coda.rms_norm: the norm does not move before the rotation of %z: its weight may differ within a pair; failed condition: a norm of rotated heads has no weight; costs 192*d0 + 32 bytes
// CHECK:      func.func @rotated_weight(
// CHECK-NEXT:   %z = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<24x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x24xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %c = coda.cos %a : (tensor<?x2x2xf32>) -> tensor<?x2x2xf32>
// CHECK-NEXT:   %cos = coda.reshape %c : (tensor<?x2x2xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   %s = coda.sin %a : (tensor<?x2x2xf32>) -> tensor<?x2x2xf32>
// CHECK-NEXT:   %sin = coda.reshape %s : (tensor<?x2x2xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   %q = coda.rope %z, %cos, %sin {head_dim = 8 : i64, layout = "half_split"} : (tensor<?x24xf32>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x24xf32>
// CHECK-NEXT:   %n = coda.rms_norm %q, %g {eps = 1.000000e-06 : f64, group = 8 : i64} : (tensor<?x24xf32>, tensor<8xf32>) -> tensor<?x24xf32>
// CHECK-NEXT:   func.return %n : tensor<?x24xf32>
// CHECK-NEXT: }

// -----

// Groups of half a head.

func.func @rotated_groups(%x: tensor<?x8xf32>, %w: tensor<24x8xf32>, %a: tensor<?x2x2xf32>) -> tensor<?x24xf32> {
  %z = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<24x8xf32>)
      -> (tile : tensor<?x24xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %c = coda.cos %a : (tensor<?x2x2xf32>) -> tensor<?x2x2xf32>
  %cos = coda.reshape %c : (tensor<?x2x2xf32>) -> tensor<?x4xf32>
  %s = coda.sin %a : (tensor<?x2x2xf32>) -> tensor<?x2x2xf32>
  %sin = coda.reshape %s : (tensor<?x2x2xf32>) -> tensor<?x4xf32>
  %q = coda.rope %z, %cos, %sin {head_dim = 8 : i64, layout = "half_split"} : (tensor<?x24xf32>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x24xf32>
  %n = coda.rms_norm %q {eps = 1.0e-06 : f64, group = 4 : i64} : (tensor<?x24xf32>) -> tensor<?x24xf32>
  func.return %n : tensor<?x24xf32>
}

// REMARK: remark[missed] fuse-qk-norm: coda.rms_norm: the norm does not move before the rotation of %z: it has groups of 4; failed condition: a norm of rotated heads has groups of a head; costs 192*d0 bytes
// CHECK:      func.func @rotated_groups(
// CHECK-NEXT:   %z = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<24x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x24xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %c = coda.cos %a : (tensor<?x2x2xf32>) -> tensor<?x2x2xf32>
// CHECK-NEXT:   %cos = coda.reshape %c : (tensor<?x2x2xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   %s = coda.sin %a : (tensor<?x2x2xf32>) -> tensor<?x2x2xf32>
// CHECK-NEXT:   %sin = coda.reshape %s : (tensor<?x2x2xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   %q = coda.rope %z, %cos, %sin {head_dim = 8 : i64, layout = "half_split"} : (tensor<?x24xf32>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x24xf32>
// CHECK-NEXT:   %n = coda.rms_norm %q {eps = 1.000000e-06 : f64, group = 4 : i64} : (tensor<?x24xf32>) -> tensor<?x24xf32>
// CHECK-NEXT:   func.return %n : tensor<?x24xf32>
// CHECK-NEXT: }

// -----

// The rotated heads are a result.

func.func @rotated_elsewhere(%x: tensor<?x8xf32>, %w: tensor<24x8xf32>, %a: tensor<?x2x2xf32>) -> (tensor<?x24xf32>, tensor<?x24xf32>) {
  %z = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<24x8xf32>)
      -> (tile : tensor<?x24xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %c = coda.cos %a : (tensor<?x2x2xf32>) -> tensor<?x2x2xf32>
  %cos = coda.reshape %c : (tensor<?x2x2xf32>) -> tensor<?x4xf32>
  %s = coda.sin %a : (tensor<?x2x2xf32>) -> tensor<?x2x2xf32>
  %sin = coda.reshape %s : (tensor<?x2x2xf32>) -> tensor<?x4xf32>
  %q = coda.rope %z, %cos, %sin {head_dim = 8 : i64, layout = "half_split"} : (tensor<?x24xf32>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x24xf32>
  %n = coda.rms_norm %q {eps = 1.0e-06 : f64, group = 8 : i64} : (tensor<?x24xf32>) -> tensor<?x24xf32>
  func.return %n, %q : tensor<?x24xf32>, tensor<?x24xf32>
}

// REMARK: remark[missed] fuse-qk-norm: coda.rms_norm: the norm does not move before the rotation of %z: other operators read its result; failed condition: the norm is the only use of the rotated heads; costs 192*d0 bytes
// CHECK:      func.func @rotated_elsewhere(
// CHECK-NEXT:   %z = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<24x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x24xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %c = coda.cos %a : (tensor<?x2x2xf32>) -> tensor<?x2x2xf32>
// CHECK-NEXT:   %cos = coda.reshape %c : (tensor<?x2x2xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   %s = coda.sin %a : (tensor<?x2x2xf32>) -> tensor<?x2x2xf32>
// CHECK-NEXT:   %sin = coda.reshape %s : (tensor<?x2x2xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   %q = coda.rope %z, %cos, %sin {head_dim = 8 : i64, layout = "half_split"} : (tensor<?x24xf32>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x24xf32>
// CHECK-NEXT:   %n = coda.rms_norm %q {eps = 1.000000e-06 : f64, group = 8 : i64} : (tensor<?x24xf32>) -> tensor<?x24xf32>
// CHECK-NEXT:   func.return %n, %q : tensor<?x24xf32>, tensor<?x24xf32>
// CHECK-NEXT: }

// -----

// Tables that are arguments.

func.func @table_arguments(%x: tensor<?x8xf32>, %w: tensor<24x8xf32>, %cos: tensor<?x4xf32>, %sin: tensor<?x4xf32>) -> tensor<?x24xf32> {
  %z = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<24x8xf32>)
      -> (tile : tensor<?x24xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %q = coda.rope %z, %cos, %sin {head_dim = 8 : i64, layout = "half_split"} : (tensor<?x24xf32>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x24xf32>
  %n = coda.rms_norm %q {eps = 1.0e-06 : f64, group = 8 : i64} : (tensor<?x24xf32>) -> tensor<?x24xf32>
  func.return %n : tensor<?x24xf32>
}

// REMARK: remark[missed] fuse-qk-norm: coda.rms_norm: the norm does not move before the rotation of %z: its tables may be any numbers; failed condition: the tables of the rotation are cos and sin of the same angles, which the function computes in float32 or float64; costs 192*d0 bytes
// CHECK:      func.func @table_arguments(
// CHECK-NEXT:   %z = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<24x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x24xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %q = coda.rope %z, %cos, %sin {head_dim = 8 : i64, layout = "half_split"} : (tensor<?x24xf32>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x24xf32>
// CHECK-NEXT:   %n = coda.rms_norm %q {eps = 1.000000e-06 : f64, group = 8 : i64} : (tensor<?x24xf32>) -> tensor<?x24xf32>
// CHECK-NEXT:   func.return %n : tensor<?x24xf32>
// CHECK-NEXT: }

// -----

// The cos of one angle and the sin of another one.

func.func @two_angles(%x: tensor<?x8xf32>, %w: tensor<24x8xf32>, %a: tensor<?x4xf32>, %b: tensor<?x4xf32>) -> tensor<?x24xf32> {
  %z = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<24x8xf32>)
      -> (tile : tensor<?x24xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %cos = coda.cos %a : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %sin = coda.sin %b : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %q = coda.rope %z, %cos, %sin {head_dim = 8 : i64, layout = "half_split"} : (tensor<?x24xf32>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x24xf32>
  %n = coda.rms_norm %q {eps = 1.0e-06 : f64, group = 8 : i64} : (tensor<?x24xf32>) -> tensor<?x24xf32>
  func.return %n : tensor<?x24xf32>
}

// REMARK: remark[missed] fuse-qk-norm: coda.rms_norm: the norm does not move before the rotation of %z: its tables may be any numbers; failed condition: the tables of the rotation are cos and sin of the same angles, which the function computes in float32 or float64; costs 192*d0 bytes
// CHECK:      func.func @two_angles(
// CHECK-NEXT:   %z = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<24x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x24xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %cos = coda.cos %a : (tensor<?x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   %sin = coda.sin %b : (tensor<?x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   %q = coda.rope %z, %cos, %sin {head_dim = 8 : i64, layout = "half_split"} : (tensor<?x24xf32>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x24xf32>
// CHECK-NEXT:   %n = coda.rms_norm %q {eps = 1.000000e-06 : f64, group = 8 : i64} : (tensor<?x24xf32>) -> tensor<?x24xf32>
// CHECK-NEXT:   func.return %n : tensor<?x24xf32>
// CHECK-NEXT: }

// -----

// Two tables of cos.

func.func @cosines(%x: tensor<?x8xf32>, %w: tensor<24x8xf32>, %a: tensor<?x4xf32>) -> tensor<?x24xf32> {
  %z = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<24x8xf32>)
      -> (tile : tensor<?x24xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %cos = coda.cos %a : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %sin = coda.cos %a : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %q = coda.rope %z, %cos, %sin {head_dim = 8 : i64, layout = "half_split"} : (tensor<?x24xf32>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x24xf32>
  %n = coda.rms_norm %q {eps = 1.0e-06 : f64, group = 8 : i64} : (tensor<?x24xf32>) -> tensor<?x24xf32>
  func.return %n : tensor<?x24xf32>
}

// REMARK: remark[missed] fuse-qk-norm: coda.rms_norm: the norm does not move before the rotation of %z: its tables may be any numbers; failed condition: the tables of the rotation are cos and sin of the same angles, which the function computes in float32 or float64; costs 192*d0 bytes
// CHECK:      func.func @cosines(
// CHECK-NEXT:   %z = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<24x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x24xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %cos = coda.cos %a : (tensor<?x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   %sin = coda.cos %a : (tensor<?x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   %q = coda.rope %z, %cos, %sin {head_dim = 8 : i64, layout = "half_split"} : (tensor<?x24xf32>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x24xf32>
// CHECK-NEXT:   %n = coda.rms_norm %q {eps = 1.000000e-06 : f64, group = 8 : i64} : (tensor<?x24xf32>) -> tensor<?x24xf32>
// CHECK-NEXT:   func.return %n : tensor<?x24xf32>
// CHECK-NEXT: }

// -----

// Tables of different columns of the angles.

func.func @other_columns(%x: tensor<?x8xf32>, %w: tensor<24x8xf32>, %a: tensor<?x8xf32>) -> tensor<?x24xf32> {
  %z = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<24x8xf32>)
      -> (tile : tensor<?x24xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %c = coda.cos %a : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %s = coda.sin %a : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %cos = coda.slice %c {dim = 1 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<?x8xf32>) -> tensor<?x4xf32>
  %sin = coda.slice %s {dim = 1 : i64, start = 4 : i64, stop = 8 : i64} : (tensor<?x8xf32>) -> tensor<?x4xf32>
  %q = coda.rope %z, %cos, %sin {head_dim = 8 : i64, layout = "half_split"} : (tensor<?x24xf32>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x24xf32>
  %n = coda.rms_norm %q {eps = 1.0e-06 : f64, group = 8 : i64} : (tensor<?x24xf32>) -> tensor<?x24xf32>
  func.return %n : tensor<?x24xf32>
}

// REMARK: remark[missed] fuse-qk-norm: coda.rms_norm: the norm does not move before the rotation of %z: its tables may be any numbers; failed condition: the tables of the rotation are cos and sin of the same angles, which the function computes in float32 or float64; costs 192*d0 bytes
// CHECK:      func.func @other_columns(
// CHECK-NEXT:   %z = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<24x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x24xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %c = coda.cos %a : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %s = coda.sin %a : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %cos = coda.slice %c {dim = 1 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<?x8xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   %sin = coda.slice %s {dim = 1 : i64, start = 4 : i64, stop = 8 : i64} : (tensor<?x8xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   %q = coda.rope %z, %cos, %sin {head_dim = 8 : i64, layout = "half_split"} : (tensor<?x24xf32>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x24xf32>
// CHECK-NEXT:   %n = coda.rms_norm %q {eps = 1.000000e-06 : f64, group = 8 : i64} : (tensor<?x24xf32>) -> tensor<?x24xf32>
// CHECK-NEXT:   func.return %n : tensor<?x24xf32>
// CHECK-NEXT: }

// -----

// An angle for each column.

func.func @angles_per_column(%x: tensor<?x8xf32>, %w: tensor<24x8xf32>, %a: tensor<?x8xf32>) -> tensor<?x24xf32> {
  %z = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<24x8xf32>)
      -> (tile : tensor<?x24xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %cos = coda.cos %a : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %sin = coda.sin %a : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %q = coda.rope %z, %cos, %sin {head_dim = 8 : i64, layout = "half_split", per_column} : (tensor<?x24xf32>, tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x24xf32>
  %n = coda.rms_norm %q {eps = 1.0e-06 : f64, group = 8 : i64} : (tensor<?x24xf32>) -> tensor<?x24xf32>
  func.return %n : tensor<?x24xf32>
}

// REMARK: remark[missed] fuse-qk-norm: coda.rms_norm: the norm does not move before the rotation of %z: its tables may be any numbers; failed condition: the tables of the rotation are cos and sin of the same angles, which the function computes in float32 or float64; costs 192*d0 bytes
// CHECK:      func.func @angles_per_column(
// CHECK-NEXT:   %z = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<24x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x24xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %cos = coda.cos %a : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %sin = coda.sin %a : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %q = coda.rope %z, %cos, %sin {head_dim = 8 : i64, layout = "half_split", per_column} : (tensor<?x24xf32>, tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x24xf32>
// CHECK-NEXT:   %n = coda.rms_norm %q {eps = 1.000000e-06 : f64, group = 8 : i64} : (tensor<?x24xf32>) -> tensor<?x24xf32>
// CHECK-NEXT:   func.return %n : tensor<?x24xf32>
// CHECK-NEXT: }

// -----

// Tables that are rounded to bfloat16.

func.func @narrow_tables(%x: tensor<?x8xbf16>, %w: tensor<24x8xbf16>, %a: tensor<?x4xbf16>) -> tensor<?x24xbf16> {
  %z = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<24x8xbf16>)
      -> (tile : tensor<?x24xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %cos = coda.cos %a : (tensor<?x4xbf16>) -> tensor<?x4xbf16>
  %sin = coda.sin %a : (tensor<?x4xbf16>) -> tensor<?x4xbf16>
  %q = coda.rope %z, %cos, %sin {head_dim = 8 : i64, layout = "half_split"} : (tensor<?x24xbf16>, tensor<?x4xbf16>, tensor<?x4xbf16>) -> tensor<?x24xbf16>
  %n = coda.rms_norm %q {eps = 1.0e-06 : f64, group = 8 : i64} : (tensor<?x24xbf16>) -> tensor<?x24xbf16>
  func.return %n : tensor<?x24xbf16>
}

// REMARK: remark[missed] fuse-qk-norm: coda.rms_norm: the norm does not move before the rotation of %z: its tables may be any numbers; failed condition: the tables of the rotation are cos and sin of the same angles, which the function computes in float32 or float64; costs 96*d0 bytes
// CHECK:      func.func @narrow_tables(
// CHECK-NEXT:   %z = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<24x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x24xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %cos = coda.cos %a : (tensor<?x4xbf16>) -> tensor<?x4xbf16>
// CHECK-NEXT:   %sin = coda.sin %a : (tensor<?x4xbf16>) -> tensor<?x4xbf16>
// CHECK-NEXT:   %q = coda.rope %z, %cos, %sin {head_dim = 8 : i64, layout = "half_split"} : (tensor<?x24xbf16>, tensor<?x4xbf16>, tensor<?x4xbf16>) -> tensor<?x24xbf16>
// CHECK-NEXT:   %n = coda.rms_norm %q {eps = 1.000000e-06 : f64, group = 8 : i64} : (tensor<?x24xbf16>) -> tensor<?x24xbf16>
// CHECK-NEXT:   func.return %n : tensor<?x24xbf16>
// CHECK-NEXT: }

// -----

// Eager PyTorch rounds the rotated heads.

func.func @rotated_exact(%x: tensor<?x8xbf16>, %w: tensor<24x8xbf16>, %a: tensor<?x2x2xf32>) -> tensor<?x24xbf16> attributes {coda.numerics = #gemm.numerics<"eager-exact">} {
  %z = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<24x8xbf16>)
      -> (tile : tensor<?x24xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %c = coda.cos %a : (tensor<?x2x2xf32>) -> tensor<?x2x2xf32>
  %cos = coda.reshape %c : (tensor<?x2x2xf32>) -> tensor<?x4xf32>
  %s = coda.sin %a : (tensor<?x2x2xf32>) -> tensor<?x2x2xf32>
  %sin = coda.reshape %s : (tensor<?x2x2xf32>) -> tensor<?x4xf32>
  %q = coda.rope %z, %cos, %sin {head_dim = 8 : i64, layout = "half_split"} : (tensor<?x24xbf16>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x24xbf16>
  %n = coda.rms_norm %q {eps = 1.0e-06 : f64, group = 8 : i64} : (tensor<?x24xbf16>) -> tensor<?x24xbf16>
  func.return %n : tensor<?x24xbf16>
}

// REMARK: remark[missed] fuse-qk-norm: coda.rms_norm: the norm does not move before the rotation of %z: eager PyTorch rounds its result, and the mode is eager-exact; failed condition: the numerics mode allows rounding points to move; costs 96*d0 bytes
// CHECK:      func.func @rotated_exact(
// CHECK-NEXT:   %z = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<24x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x24xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %c = coda.cos %a : (tensor<?x2x2xf32>) -> tensor<?x2x2xf32>
// CHECK-NEXT:   %cos = coda.reshape %c : (tensor<?x2x2xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   %s = coda.sin %a : (tensor<?x2x2xf32>) -> tensor<?x2x2xf32>
// CHECK-NEXT:   %sin = coda.reshape %s : (tensor<?x2x2xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   %q = coda.rope %z, %cos, %sin {head_dim = 8 : i64, layout = "half_split"} : (tensor<?x24xbf16>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x24xbf16>
// CHECK-NEXT:   %n = coda.rms_norm %q {eps = 1.000000e-06 : f64, group = 8 : i64} : (tensor<?x24xbf16>) -> tensor<?x24xbf16>
// CHECK-NEXT:   func.return %n : tensor<?x24xbf16>
// CHECK-NEXT: }

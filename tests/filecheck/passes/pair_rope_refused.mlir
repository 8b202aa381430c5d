// RUN: coda-opt %s -p pair-rope --split-input-file | filecheck %s
// RUN: coda-opt %s -p pair-rope,report-unfused --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// The rotation of an argument.

func.func @argument(%z: tensor<?x24xf32>, %cos: tensor<?x4xf32>, %sin: tensor<?x4xf32>) -> tensor<?x24xf32> {
  %q = coda.rope %z, %cos, %sin {head_dim = 8 : i64, layout = "half_split"} : (tensor<?x24xf32>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x24xf32>
  func.return %q : tensor<?x24xf32>
}

// REMARK: remark[missed] report-unfused: coda.rope: %z is not computed by a GEMM of the same function; failed condition: the operand is the tile of a GEMM; costs 192*d0 + 16*d1 + 16*d2 bytes
// CHECK:      func.func @argument(
// CHECK-NEXT:   %q = coda.rope %z, %cos, %sin {head_dim = 8 : i64, layout = "half_split"} : (tensor<?x24xf32>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x24xf32>
// CHECK-NEXT:   func.return %q : tensor<?x24xf32>
// CHECK-NEXT: }

// -----

// The columns are paired as gate and up.

func.func @gated(%x: tensor<?x8xf32>, %w: tensor<48x8xf32>, %cos: tensor<?x4xf32>, %sin: tensor<?x4xf32>) -> tensor<?x24xf32> {
  %a = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<48x8xf32>) pair<halves>
      -> (half : tensor<?x24xf32>) {
    ^bb0(%acc: f32, %acc_1: f32):
      %0 = arith.mulf %acc, %acc_1 : f32
      gemm.yield %0 : f32
    }
  %q = coda.rope %a, %cos, %sin {head_dim = 8 : i64, layout = "half_split"} : (tensor<?x24xf32>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x24xf32>
  func.return %q : tensor<?x24xf32>
}

// REMARK: remark[missed] report-unfused: coda.rope: the GEMM that computes %a already pairs other columns; failed condition: the GEMM pairs its columns in one way only; costs 192*d0 + 16*d1 + 16*d2 bytes
// CHECK:      func.func @gated(
// CHECK-NEXT:   %a = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<48x8xf32>) pair<halves>
// CHECK-NEXT:       -> (half : tensor<?x24xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %acc_1: f32):
// CHECK-NEXT:       %0 = arith.mulf %acc, %acc_1 : f32
// CHECK-NEXT:       gemm.yield %0 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %q = coda.rope %a, %cos, %sin {head_dim = 8 : i64, layout = "half_split"} : (tensor<?x24xf32>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x24xf32>
// CHECK-NEXT:   func.return %q : tensor<?x24xf32>
// CHECK-NEXT: }

// -----

// Heads of another size: the first rotation is fused, the second one is not.

func.func @head_dim(%x: tensor<?x8xf32>, %w: tensor<24x8xf32>, %cos: tensor<?x4xf32>, %sin: tensor<?x4xf32>, %cos2: tensor<?x6xf32>, %sin2: tensor<?x6xf32>) -> tensor<?x24xf32> {
  %z = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<24x8xf32>)
      -> (tile : tensor<?x24xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %q = coda.rope %z, %cos, %sin {head_dim = 8 : i64, layout = "half_split"} : (tensor<?x24xf32>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x24xf32>
  %r = coda.rope %q, %cos2, %sin2 {head_dim = 12 : i64, layout = "half_split"} : (tensor<?x24xf32>, tensor<?x6xf32>, tensor<?x6xf32>) -> tensor<?x24xf32>
  func.return %r : tensor<?x24xf32>
}

// REMARK: remark[missed] report-unfused: coda.rope: the GEMM that computes %q already pairs other columns; failed condition: the GEMM pairs its columns in one way only; costs 192*d0 + 24*d3 + 24*d4 bytes
// CHECK:      func.func @head_dim(
// CHECK-NEXT:   %q = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<24x8xf32>) pair<halves, 8> half_table(%cos : tensor<?x4xf32>, %sin : tensor<?x4xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x24xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %acc_1: f32, %cos_1: f32, %sin_1: f32):
// CHECK-NEXT:       %0 = arith.mulf %acc, %cos_1 : f32
// CHECK-NEXT:       %1 = arith.mulf %acc_1, %sin_1 : f32
// CHECK-NEXT:       %2 = arith.subf %0, %1 : f32
// CHECK-NEXT:       %3 = arith.mulf %acc_1, %cos_1 : f32
// CHECK-NEXT:       %4 = arith.mulf %acc, %sin_1 : f32
// CHECK-NEXT:       %5 = arith.addf %3, %4 : f32
// CHECK-NEXT:       gemm.yield %2, %5 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %r = coda.rope %q, %cos2, %sin2 {head_dim = 12 : i64, layout = "half_split"} : (tensor<?x24xf32>, tensor<?x6xf32>, tensor<?x6xf32>) -> tensor<?x24xf32>
// CHECK-NEXT:   func.return %r : tensor<?x24xf32>
// CHECK-NEXT: }

// -----

// The angles are computed from the projection.

func.func @angles(%x: tensor<?x8xf32>, %w: tensor<24x8xf32>, %cos: tensor<?x4xf32>) -> tensor<?x24xf32> {
  %z = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<24x8xf32>)
      -> (tile : tensor<?x24xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %sin = coda.slice %z {dim = 1 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<?x24xf32>) -> tensor<?x4xf32>
  %q = coda.rope %z, %cos, %sin {head_dim = 8 : i64, layout = "half_split"} : (tensor<?x24xf32>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x24xf32>
  func.return %q : tensor<?x24xf32>
}

// REMARK: remark[missed] report-unfused: coda.rope: the angles are computed from the projection that they rotate; failed condition: cos and sin do not depend on the projection; costs 208*d0 + 16*d1 bytes
// CHECK:      func.func @angles(
// CHECK-NEXT:   %z = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<24x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x24xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %sin = coda.slice %z {dim = 1 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<?x24xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   %q = coda.rope %z, %cos, %sin {head_dim = 8 : i64, layout = "half_split"} : (tensor<?x24xf32>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x24xf32>
// CHECK-NEXT:   func.return %q : tensor<?x24xf32>
// CHECK-NEXT: }

// -----

// Groups that are normalized together, but hold one column of a pair only.

func.func @groups(%x: tensor<?x8xf32>, %w: tensor<24x8xf32>, %cos: tensor<?x4xf32>, %sin: tensor<?x4xf32>) -> tensor<?x24xf32> {
  %n = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<24x8xf32>)
      -> (tile : tensor<?x24xf32>) {
    ^bb0(%acc: f32):
      %0 = arith.mulf %acc, %acc : f32
      %1 = gemm.group_reduce add %0 over 4 : f32
      %2 = arith.constant 2.500000e-01 : f32
      %3 = arith.mulf %1, %2 : f32
      %4 = arith.constant 1.000000e-06 : f32
      %5 = arith.addf %3, %4 : f32
      %rstd = math.rsqrt %5 : f32
      %6 = arith.mulf %acc, %rstd : f32
      gemm.yield %6 : f32
    }
  %q = coda.rope %n, %cos, %sin {head_dim = 8 : i64, layout = "half_split"} : (tensor<?x24xf32>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x24xf32>
  func.return %q : tensor<?x24xf32>
}

// REMARK: remark[missed] report-unfused: coda.rope: the GEMM that computes %n reduces over other groups of columns; failed condition: both columns of a pair are normalized together; costs 192*d0 + 16*d1 + 16*d2 bytes
// CHECK:      func.func @groups(
// CHECK-NEXT:   %n = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<24x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x24xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       %0 = arith.mulf %acc, %acc : f32
// CHECK-NEXT:       %1 = gemm.group_reduce add %0 over 4 : f32
// CHECK-NEXT:       %2 = arith.constant 2.500000e-01 : f32
// CHECK-NEXT:       %3 = arith.mulf %1, %2 : f32
// CHECK-NEXT:       %4 = arith.constant 1.000000e-06 : f32
// CHECK-NEXT:       %5 = arith.addf %3, %4 : f32
// CHECK-NEXT:       %rstd = math.rsqrt %5 : f32
// CHECK-NEXT:       %6 = arith.mulf %acc, %rstd : f32
// CHECK-NEXT:       gemm.yield %6 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %q = coda.rope %n, %cos, %sin {head_dim = 8 : i64, layout = "half_split"} : (tensor<?x24xf32>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x24xf32>
// CHECK-NEXT:   func.return %q : tensor<?x24xf32>
// CHECK-NEXT: }

// -----

// Angles of whole rows: the tables have as many columns as the tile.

func.func @rows(%x: tensor<?x8xf32>, %w: tensor<512x8xf32>, %cos: tensor<?x256xf32>, %sin: tensor<?x256xf32>) -> tensor<?x512xf32> {
  %z = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<512x8xf32>)
      -> (tile : tensor<?x512xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %q = coda.rope %z, %cos, %sin {head_dim = 512 : i64, layout = "interleaved"} : (tensor<?x512xf32>, tensor<?x256xf32>, tensor<?x256xf32>) -> tensor<?x512xf32>
  func.return %q : tensor<?x512xf32>
}

// REMARK: remark[missed] report-unfused: coda.rope: the angles of all 512 columns
// CHECK:      func.func @rows(
// CHECK:        coda.rope
// CHECK-NEXT:   func.return %q : tensor<?x512xf32>
// CHECK-NEXT: }

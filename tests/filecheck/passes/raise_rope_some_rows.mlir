// RUN: coda-opt %s -p raise-rope,dce | filecheck %s

// Only the last rows are rotated, as those of patches behind registers. The tables get 1 and 0 for the others, and the
// projection is rotated as a whole.

func.func @behind_registers(%x: tensor<2x9x32xbf16>, %c: tensor<6x1x8xbf16>, %s: tensor<6x1x8xbf16>) -> tensor<2x9x4x8xbf16> {
  %h = coda.reshape %x : (tensor<2x9x32xbf16>) -> tensor<2x9x4x8xbf16>
  %a = coda.slice %h {dim = 1 : i64, start = 0 : i64, stop = 3 : i64} : (tensor<2x9x4x8xbf16>) -> tensor<2x3x4x8xbf16>
  %b = coda.slice %h {dim = 1 : i64, start = 3 : i64, stop = 9 : i64} : (tensor<2x9x4x8xbf16>) -> tensor<2x6x4x8xbf16>
  %m = coda.mul %b, %c : (tensor<2x6x4x8xbf16>, tensor<6x1x8xbf16>) -> tensor<2x6x4x8xbf16>
  %b0 = coda.slice %b {dim = 3 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<2x6x4x8xbf16>) -> tensor<2x6x4x4xbf16>
  %b1 = coda.slice %b {dim = 3 : i64, start = 4 : i64, stop = 8 : i64} : (tensor<2x6x4x8xbf16>) -> tensor<2x6x4x4xbf16>
  %n = coda.neg %b1 : (tensor<2x6x4x4xbf16>) -> tensor<2x6x4x4xbf16>
  %r = coda.concat %n, %b0 {dim = 3 : i64} : (tensor<2x6x4x4xbf16>, tensor<2x6x4x4xbf16>) -> tensor<2x6x4x8xbf16>
  %t = coda.mul %r, %s : (tensor<2x6x4x8xbf16>, tensor<6x1x8xbf16>) -> tensor<2x6x4x8xbf16>
  %y = coda.add %m, %t : (tensor<2x6x4x8xbf16>, tensor<2x6x4x8xbf16>) -> tensor<2x6x4x8xbf16>
  %o = coda.concat %a, %y {dim = 1 : i64} : (tensor<2x3x4x8xbf16>, tensor<2x6x4x8xbf16>) -> tensor<2x9x4x8xbf16>
  func.return %o : tensor<2x9x4x8xbf16>
}

// CHECK-LABEL: func.func @behind_registers(
// CHECK-NEXT:    [[COS:%.*]] = coda.pad %c {dim = 0 : i64, start = 3 : i64, value = 1.000000e+00 : f64}
// CHECK-NEXT:    [[SIN:%.*]] = coda.pad %s {dim = 0 : i64, start = 3 : i64} :
// CHECK-NEXT:    [[C:%.*]] = coda.reshape [[COS]]
// CHECK-NEXT:    [[S:%.*]] = coda.reshape [[SIN]]
// CHECK-NEXT:    %o = coda.rope %x, [[C]], [[S]] {head_dim = 8 : i64, layout = "half_split", per_column}
// CHECK-NEXT:    coda.reshape %o

// Rows on both sides stay. Both columns of a pair are known to have the same angle.

func.func @between(%x: tensor<2x9x32xbf16>, %f: tensor<6x1x4xbf16>) -> tensor<2x9x4x8xbf16> {
  %f0 = coda.cos %f : (tensor<6x1x4xbf16>) -> tensor<6x1x4xbf16>
  %f1 = coda.sin %f : (tensor<6x1x4xbf16>) -> tensor<6x1x4xbf16>
  %c = coda.concat %f0, %f0 {dim = 2 : i64} : (tensor<6x1x4xbf16>, tensor<6x1x4xbf16>) -> tensor<6x1x8xbf16>
  %s = coda.concat %f1, %f1 {dim = 2 : i64} : (tensor<6x1x4xbf16>, tensor<6x1x4xbf16>) -> tensor<6x1x8xbf16>
  %h = coda.reshape %x : (tensor<2x9x32xbf16>) -> tensor<2x9x4x8xbf16>
  %a = coda.slice %h {dim = 1 : i64, start = 0 : i64, stop = 2 : i64} : (tensor<2x9x4x8xbf16>) -> tensor<2x2x4x8xbf16>
  %b = coda.slice %h {dim = 1 : i64, start = 2 : i64, stop = 8 : i64} : (tensor<2x9x4x8xbf16>) -> tensor<2x6x4x8xbf16>
  %z = coda.slice %h {dim = 1 : i64, start = 8 : i64, stop = 9 : i64} : (tensor<2x9x4x8xbf16>) -> tensor<2x1x4x8xbf16>
  %m = coda.mul %b, %c : (tensor<2x6x4x8xbf16>, tensor<6x1x8xbf16>) -> tensor<2x6x4x8xbf16>
  %b0 = coda.slice %b {dim = 3 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<2x6x4x8xbf16>) -> tensor<2x6x4x4xbf16>
  %b1 = coda.slice %b {dim = 3 : i64, start = 4 : i64, stop = 8 : i64} : (tensor<2x6x4x8xbf16>) -> tensor<2x6x4x4xbf16>
  %n = coda.neg %b1 : (tensor<2x6x4x4xbf16>) -> tensor<2x6x4x4xbf16>
  %r = coda.concat %n, %b0 {dim = 3 : i64} : (tensor<2x6x4x4xbf16>, tensor<2x6x4x4xbf16>) -> tensor<2x6x4x8xbf16>
  %t = coda.mul %r, %s : (tensor<2x6x4x8xbf16>, tensor<6x1x8xbf16>) -> tensor<2x6x4x8xbf16>
  %y = coda.add %m, %t : (tensor<2x6x4x8xbf16>, tensor<2x6x4x8xbf16>) -> tensor<2x6x4x8xbf16>
  %o = coda.concat %a, %y, %z {dim = 1 : i64} : (tensor<2x2x4x8xbf16>, tensor<2x6x4x8xbf16>, tensor<2x1x4x8xbf16>) -> tensor<2x9x4x8xbf16>
  func.return %o : tensor<2x9x4x8xbf16>
}

// CHECK-LABEL: func.func @between(
// CHECK:         [[COS:%.*]] = coda.pad %f0 {dim = 0 : i64, start = 2 : i64, value = 1.000000e+00 : f64} : (tensor<6x1x4xbf16>) -> tensor<9x1x4xbf16>
// CHECK:         [[SIN:%.*]] = coda.pad %f1 {dim = 0 : i64, start = 2 : i64} : (tensor<6x1x4xbf16>) -> tensor<9x1x4xbf16>
// CHECK:         %o = coda.rope %x, {{.*}} {head_dim = 8 : i64, layout = "half_split"} : (tensor<2x9x32xbf16>, tensor<9x4xbf16>, tensor<9x4xbf16>)

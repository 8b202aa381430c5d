// RUN: coda-opt %s -p raise-rope,dce --split-input-file | filecheck %s

// The other rows come in another order.

func.func @another_order(%x: tensor<2x9x32xbf16>, %c: tensor<6x1x8xbf16>, %s: tensor<6x1x8xbf16>) -> tensor<2x9x4x8xbf16> {
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
  %o = coda.concat %y, %a {dim = 1 : i64} : (tensor<2x6x4x8xbf16>, tensor<2x3x4x8xbf16>) -> tensor<2x9x4x8xbf16>
  func.return %o : tensor<2x9x4x8xbf16>
}

// CHECK-LABEL: func.func @another_order(
// CHECK:         %y = coda.rope {{.*}} -> tensor<2x6x32xbf16>
// CHECK:         %o = coda.concat

// -----

// The other rows are those of another tensor.

func.func @another_tensor(%x: tensor<2x9x32xbf16>, %z: tensor<2x9x4x8xbf16>, %c: tensor<6x1x8xbf16>, %s: tensor<6x1x8xbf16>) -> tensor<2x9x4x8xbf16> {
  %h = coda.reshape %x : (tensor<2x9x32xbf16>) -> tensor<2x9x4x8xbf16>
  %a = coda.slice %z {dim = 1 : i64, start = 0 : i64, stop = 3 : i64} : (tensor<2x9x4x8xbf16>) -> tensor<2x3x4x8xbf16>
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

// CHECK-LABEL: func.func @another_tensor(
// CHECK:         %y = coda.rope {{.*}} -> tensor<2x6x32xbf16>
// CHECK:         %o = coda.concat

// -----

// A row is left out.

func.func @a_row_is_left_out(%x: tensor<2x9x32xbf16>, %c: tensor<6x1x8xbf16>, %s: tensor<6x1x8xbf16>) -> tensor<2x8x4x8xbf16> {
  %h = coda.reshape %x : (tensor<2x9x32xbf16>) -> tensor<2x9x4x8xbf16>
  %a = coda.slice %h {dim = 1 : i64, start = 0 : i64, stop = 2 : i64} : (tensor<2x9x4x8xbf16>) -> tensor<2x2x4x8xbf16>
  %b = coda.slice %h {dim = 1 : i64, start = 3 : i64, stop = 9 : i64} : (tensor<2x9x4x8xbf16>) -> tensor<2x6x4x8xbf16>
  %m = coda.mul %b, %c : (tensor<2x6x4x8xbf16>, tensor<6x1x8xbf16>) -> tensor<2x6x4x8xbf16>
  %b0 = coda.slice %b {dim = 3 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<2x6x4x8xbf16>) -> tensor<2x6x4x4xbf16>
  %b1 = coda.slice %b {dim = 3 : i64, start = 4 : i64, stop = 8 : i64} : (tensor<2x6x4x8xbf16>) -> tensor<2x6x4x4xbf16>
  %n = coda.neg %b1 : (tensor<2x6x4x4xbf16>) -> tensor<2x6x4x4xbf16>
  %r = coda.concat %n, %b0 {dim = 3 : i64} : (tensor<2x6x4x4xbf16>, tensor<2x6x4x4xbf16>) -> tensor<2x6x4x8xbf16>
  %t = coda.mul %r, %s : (tensor<2x6x4x8xbf16>, tensor<6x1x8xbf16>) -> tensor<2x6x4x8xbf16>
  %y = coda.add %m, %t : (tensor<2x6x4x8xbf16>, tensor<2x6x4x8xbf16>) -> tensor<2x6x4x8xbf16>
  %o = coda.concat %a, %y {dim = 1 : i64} : (tensor<2x2x4x8xbf16>, tensor<2x6x4x8xbf16>) -> tensor<2x8x4x8xbf16>
  func.return %o : tensor<2x8x4x8xbf16>
}

// CHECK-LABEL: func.func @a_row_is_left_out(
// CHECK:         %y = coda.rope {{.*}} -> tensor<2x6x32xbf16>
// CHECK:         %o = coda.concat

// -----

// The rotated rows have another reader.

func.func @another_reader(%x: tensor<2x9x32xbf16>, %c: tensor<6x1x8xbf16>, %s: tensor<6x1x8xbf16>) -> tensor<2x9x4x8xbf16> {
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
  %p = coda.concat %a, %y {dim = 1 : i64} : (tensor<2x3x4x8xbf16>, tensor<2x6x4x8xbf16>) -> tensor<2x9x4x8xbf16>
  %e = coda.pad %y {dim = 1 : i64, start = 3 : i64} : (tensor<2x6x4x8xbf16>) -> tensor<2x9x4x8xbf16>
  %o = coda.add %p, %e : (tensor<2x9x4x8xbf16>, tensor<2x9x4x8xbf16>) -> tensor<2x9x4x8xbf16>
  func.return %o : tensor<2x9x4x8xbf16>
}

// CHECK-LABEL: func.func @another_reader(
// CHECK:         %y = coda.rope {{.*}} -> tensor<2x6x32xbf16>
// CHECK:         %p = coda.concat

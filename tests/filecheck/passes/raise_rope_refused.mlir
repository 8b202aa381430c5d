// RUN: coda-opt %s -p raise-elementwise,raise-rope,dce --split-input-file | filecheck %s

// Different angles in the two halves of the columns that are rotated, which are not all of a head.

func.func @angles(%q: tensor<?x?x64xf32> {coda.dims = ["B", "T", 64 : i64]}, %cos: tensor<?x8xf32> {coda.dims = ["T", 8 : i64]}, %sin: tensor<?x8xf32> {coda.dims = ["T", 8 : i64]}) -> tensor<?x4x?x16xf32> {
  %split = coda.reshape %q : (tensor<?x?x64xf32>) -> tensor<?x?x4x16xf32>
  %heads = coda.transpose %split {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x?x4x16xf32>) -> tensor<?x4x?x16xf32>
  %h = coda.slice %heads {dim = 3 : i64, start = 0 : i64, stop = 8 : i64} : (tensor<?x4x?x16xf32>) -> tensor<?x4x?x8xf32>
  %rest = coda.slice %heads {dim = 3 : i64, start = 8 : i64, stop = 16 : i64} : (tensor<?x4x?x16xf32>) -> tensor<?x4x?x8xf32>
  %c = coda.reshape %cos : (tensor<?x8xf32>) -> tensor<1x1x?x8xf32>
  %s = coda.reshape %sin : (tensor<?x8xf32>) -> tensor<1x1x?x8xf32>
  %a = coda.mul %h, %c : (tensor<?x4x?x8xf32>, tensor<1x1x?x8xf32>) -> tensor<?x4x?x8xf32>
  %h1 = coda.slice %h {dim = 3 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<?x4x?x8xf32>) -> tensor<?x4x?x4xf32>
  %h2 = coda.slice %h {dim = 3 : i64, start = 4 : i64, stop = 8 : i64} : (tensor<?x4x?x8xf32>) -> tensor<?x4x?x4xf32>
  %neg = coda.neg %h2 : (tensor<?x4x?x4xf32>) -> tensor<?x4x?x4xf32>
  %rotated = coda.concat %neg, %h1 {dim = 3 : i64} : (tensor<?x4x?x4xf32>, tensor<?x4x?x4xf32>) -> tensor<?x4x?x8xf32>
  %b = coda.mul %rotated, %s : (tensor<?x4x?x8xf32>, tensor<1x1x?x8xf32>) -> tensor<?x4x?x8xf32>
  %sum = coda.add %a, %b : (tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>) -> tensor<?x4x?x8xf32>
  %y = coda.concat %sum, %rest {dim = 3 : i64} : (tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>) -> tensor<?x4x?x16xf32>
  func.return %y : tensor<?x4x?x16xf32>
}

// CHECK-LABEL: func.func @angles(
// CHECK-NOT: coda.rope
// CHECK: func.return

// -----

// The halves are not swapped.

func.func @order(%q: tensor<?x?x32xf32> {coda.dims = ["B", "T", 32 : i64]}, %f: tensor<?x4xf32> {coda.dims = ["T", 4 : i64]}, %g: tensor<?x4xf32> {coda.dims = ["T", 4 : i64]}) -> tensor<?x4x?x8xf32> {
  %split = coda.reshape %q : (tensor<?x?x32xf32>) -> tensor<?x?x4x8xf32>
  %h = coda.transpose %split {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x?x4x8xf32>) -> tensor<?x4x?x8xf32>
  %angles = coda.concat %f, %f {dim = 1 : i64} : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x8xf32>
  %cos = torch.call "aten.cos.default"(%angles) {arguments = "{0}", coda.dims = ["T", 8 : i64]} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %sin = torch.call "aten.sin.default"(%angles) {arguments = "{0}", coda.dims = ["T", 8 : i64]} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %c = coda.reshape %cos : (tensor<?x8xf32>) -> tensor<1x1x?x8xf32>
  %s = coda.reshape %sin : (tensor<?x8xf32>) -> tensor<1x1x?x8xf32>
  %a = coda.mul %h, %c : (tensor<?x4x?x8xf32>, tensor<1x1x?x8xf32>) -> tensor<?x4x?x8xf32>
  %h1 = coda.slice %h {dim = 3 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<?x4x?x8xf32>) -> tensor<?x4x?x4xf32>
  %h2 = coda.slice %h {dim = 3 : i64, start = 4 : i64, stop = 8 : i64} : (tensor<?x4x?x8xf32>) -> tensor<?x4x?x4xf32>
  %neg = coda.neg %h2 : (tensor<?x4x?x4xf32>) -> tensor<?x4x?x4xf32>
  %rotated = coda.concat %h1, %neg {dim = 3 : i64} : (tensor<?x4x?x4xf32>, tensor<?x4x?x4xf32>) -> tensor<?x4x?x8xf32>
  %b = coda.mul %rotated, %s : (tensor<?x4x?x8xf32>, tensor<1x1x?x8xf32>) -> tensor<?x4x?x8xf32>
  %y = coda.add %a, %b : (tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>) -> tensor<?x4x?x8xf32>
  func.return %y : tensor<?x4x?x8xf32>
}

// CHECK-LABEL: func.func @order(
// CHECK-NOT: coda.rope
// CHECK: func.return

// -----

// The wrong half is negated.

func.func @sign(%q: tensor<?x?x32xf32> {coda.dims = ["B", "T", 32 : i64]}, %f: tensor<?x4xf32> {coda.dims = ["T", 4 : i64]}, %g: tensor<?x4xf32> {coda.dims = ["T", 4 : i64]}) -> tensor<?x4x?x8xf32> {
  %split = coda.reshape %q : (tensor<?x?x32xf32>) -> tensor<?x?x4x8xf32>
  %h = coda.transpose %split {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x?x4x8xf32>) -> tensor<?x4x?x8xf32>
  %angles = coda.concat %f, %f {dim = 1 : i64} : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x8xf32>
  %cos = torch.call "aten.cos.default"(%angles) {arguments = "{0}", coda.dims = ["T", 8 : i64]} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %sin = torch.call "aten.sin.default"(%angles) {arguments = "{0}", coda.dims = ["T", 8 : i64]} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %c = coda.reshape %cos : (tensor<?x8xf32>) -> tensor<1x1x?x8xf32>
  %s = coda.reshape %sin : (tensor<?x8xf32>) -> tensor<1x1x?x8xf32>
  %a = coda.mul %h, %c : (tensor<?x4x?x8xf32>, tensor<1x1x?x8xf32>) -> tensor<?x4x?x8xf32>
  %h1 = coda.slice %h {dim = 3 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<?x4x?x8xf32>) -> tensor<?x4x?x4xf32>
  %h2 = coda.slice %h {dim = 3 : i64, start = 4 : i64, stop = 8 : i64} : (tensor<?x4x?x8xf32>) -> tensor<?x4x?x4xf32>
  %neg = coda.neg %h1 : (tensor<?x4x?x4xf32>) -> tensor<?x4x?x4xf32>
  %rotated = coda.concat %neg, %h2 {dim = 3 : i64} : (tensor<?x4x?x4xf32>, tensor<?x4x?x4xf32>) -> tensor<?x4x?x8xf32>
  %b = coda.mul %rotated, %s : (tensor<?x4x?x8xf32>, tensor<1x1x?x8xf32>) -> tensor<?x4x?x8xf32>
  %y = coda.add %a, %b : (tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>) -> tensor<?x4x?x8xf32>
  func.return %y : tensor<?x4x?x8xf32>
}

// CHECK-LABEL: func.func @sign(
// CHECK-NOT: coda.rope
// CHECK: func.return

// -----

// The heads are an argument: they are no columns.

func.func @argument(%h: tensor<?x4x?x8xf32> {coda.dims = ["B", 4 : i64, "T", 8 : i64]}, %f: tensor<?x4xf32> {coda.dims = ["T", 4 : i64]}, %g: tensor<?x4xf32> {coda.dims = ["T", 4 : i64]}) -> tensor<?x4x?x8xf32> {
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

// CHECK-LABEL: func.func @argument(
// CHECK-NOT: coda.rope
// CHECK: func.return

// -----

// Four columns of six: a pair epilogue has no groups of four in them.

func.func @fraction(%q: tensor<2x3x12xf32>, %cos: tensor<3x1x2xf32>, %sin: tensor<3x1x2xf32>) -> tensor<2x3x2x6xf32> {
  %h = coda.reshape %q : (tensor<2x3x12xf32>) -> tensor<2x3x2x6xf32>
  %x1 = coda.slice %h {dim = 3 : i64, start = 0 : i64, stop = 2 : i64} : (tensor<2x3x2x6xf32>) -> tensor<2x3x2x2xf32>
  %x2 = coda.slice %h {dim = 3 : i64, start = 2 : i64, stop = 4 : i64} : (tensor<2x3x2x6xf32>) -> tensor<2x3x2x2xf32>
  %rest = coda.slice %h {dim = 3 : i64, start = 4 : i64, stop = 6 : i64} : (tensor<2x3x2x6xf32>) -> tensor<2x3x2x2xf32>
  %ac = coda.mul %x1, %cos : (tensor<2x3x2x2xf32>, tensor<3x1x2xf32>) -> tensor<2x3x2x2xf32>
  %bs = coda.mul %x2, %sin : (tensor<2x3x2x2xf32>, tensor<3x1x2xf32>) -> tensor<2x3x2x2xf32>
  %bc = coda.mul %x2, %cos : (tensor<2x3x2x2xf32>, tensor<3x1x2xf32>) -> tensor<2x3x2x2xf32>
  %as = coda.mul %x1, %sin : (tensor<2x3x2x2xf32>, tensor<3x1x2xf32>) -> tensor<2x3x2x2xf32>
  %first = coda.sub %ac, %bs : (tensor<2x3x2x2xf32>, tensor<2x3x2x2xf32>) -> tensor<2x3x2x2xf32>
  %second = coda.add %bc, %as : (tensor<2x3x2x2xf32>, tensor<2x3x2x2xf32>) -> tensor<2x3x2x2xf32>
  %rotated = coda.concat %first, %second {dim = 3 : i64} : (tensor<2x3x2x2xf32>, tensor<2x3x2x2xf32>) -> tensor<2x3x2x4xf32>
  %y = coda.concat %rotated, %rest {dim = 3 : i64} : (tensor<2x3x2x4xf32>, tensor<2x3x2x2xf32>) -> tensor<2x3x2x6xf32>
  func.return %y : tensor<2x3x2x6xf32>
}

// CHECK-LABEL: func.func @fraction(
// CHECK-NOT: coda.rope
// CHECK: func.return

// -----

// A table for each head, and the signs of the rotation back.

func.func @by_head(%q: tensor<2x3x16xf32>, %cos: tensor<3x2x4xf32>, %sin: tensor<3x2x4xf32>, %c: tensor<3x1x4xf32>, %s: tensor<3x1x4xf32>) -> (tensor<2x3x2x8xf32>, tensor<2x3x2x8xf32>) {
  %h = coda.reshape %q : (tensor<2x3x16xf32>) -> tensor<2x3x2x8xf32>
  %x1 = coda.slice %h {dim = 3 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<2x3x2x8xf32>) -> tensor<2x3x2x4xf32>
  %x2 = coda.slice %h {dim = 3 : i64, start = 4 : i64, stop = 8 : i64} : (tensor<2x3x2x8xf32>) -> tensor<2x3x2x4xf32>
  %ac = coda.mul %x1, %cos : (tensor<2x3x2x4xf32>, tensor<3x2x4xf32>) -> tensor<2x3x2x4xf32>
  %bs = coda.mul %x2, %sin : (tensor<2x3x2x4xf32>, tensor<3x2x4xf32>) -> tensor<2x3x2x4xf32>
  %bc = coda.mul %x2, %cos : (tensor<2x3x2x4xf32>, tensor<3x2x4xf32>) -> tensor<2x3x2x4xf32>
  %as = coda.mul %x1, %sin : (tensor<2x3x2x4xf32>, tensor<3x2x4xf32>) -> tensor<2x3x2x4xf32>
  %first = coda.sub %ac, %bs : (tensor<2x3x2x4xf32>, tensor<2x3x2x4xf32>) -> tensor<2x3x2x4xf32>
  %second = coda.add %bc, %as : (tensor<2x3x2x4xf32>, tensor<2x3x2x4xf32>) -> tensor<2x3x2x4xf32>
  %y = coda.concat %first, %second {dim = 3 : i64} : (tensor<2x3x2x4xf32>, tensor<2x3x2x4xf32>) -> tensor<2x3x2x8xf32>
  %ac2 = coda.mul %x1, %c : (tensor<2x3x2x4xf32>, tensor<3x1x4xf32>) -> tensor<2x3x2x4xf32>
  %bs2 = coda.mul %x2, %s : (tensor<2x3x2x4xf32>, tensor<3x1x4xf32>) -> tensor<2x3x2x4xf32>
  %bc2 = coda.mul %x2, %c : (tensor<2x3x2x4xf32>, tensor<3x1x4xf32>) -> tensor<2x3x2x4xf32>
  %as2 = coda.mul %x1, %s : (tensor<2x3x2x4xf32>, tensor<3x1x4xf32>) -> tensor<2x3x2x4xf32>
  %first2 = coda.add %ac2, %bs2 : (tensor<2x3x2x4xf32>, tensor<2x3x2x4xf32>) -> tensor<2x3x2x4xf32>
  %second2 = coda.sub %bc2, %as2 : (tensor<2x3x2x4xf32>, tensor<2x3x2x4xf32>) -> tensor<2x3x2x4xf32>
  %y2 = coda.concat %first2, %second2 {dim = 3 : i64} : (tensor<2x3x2x4xf32>, tensor<2x3x2x4xf32>) -> tensor<2x3x2x8xf32>
  func.return %y, %y2 : tensor<2x3x2x8xf32>, tensor<2x3x2x8xf32>
}

// CHECK-LABEL: func.func @by_head(
// CHECK-NOT: coda.rope
// CHECK: func.return

// -----

// Heads of float32 are rotated in float64 if the model does; those of 16 bits in the mode that rounds as PyTorch does.

func.func @float32(%q: tensor<?x?x16xf32> {coda.dims = ["B", "T", 16 : i64]}, %t: tensor<?x4x2xf64> {coda.dims = ["T", 4 : i64, 2 : i64]}) -> tensor<?x?x2x1x8xf32> {
  %n = coda.reshape %q {coda.dims = ["B", "T", 2 : i64, 4 : i64, 2 : i64]} : (tensor<?x?x16xf32>) -> tensor<?x?x2x4x2xf32>
  %h = coda.cast %n : (tensor<?x?x2x4x2xf32>) -> tensor<?x?x2x4x2xf64>
  %a1 = coda.slice %h {dim = 4 : i64, start = 0 : i64, stop = 1 : i64} : (tensor<?x?x2x4x2xf64>) -> tensor<?x?x2x4x1xf64>
  %a = coda.reshape %a1 {coda.dims = ["B", "T", 2 : i64, 4 : i64]} : (tensor<?x?x2x4x1xf64>) -> tensor<?x?x2x4xf64>
  %b1 = coda.slice %h {dim = 4 : i64, start = 1 : i64, stop = 2 : i64} : (tensor<?x?x2x4x2xf64>) -> tensor<?x?x2x4x1xf64>
  %b = coda.reshape %b1 {coda.dims = ["B", "T", 2 : i64, 4 : i64]} : (tensor<?x?x2x4x1xf64>) -> tensor<?x?x2x4xf64>
  %c1 = coda.slice %t {dim = 2 : i64, start = 0 : i64, stop = 1 : i64} : (tensor<?x4x2xf64>) -> tensor<?x4x1xf64>
  %c = coda.reshape %c1 : (tensor<?x4x1xf64>) -> tensor<?x1x4xf64>
  %s1 = coda.slice %t {dim = 2 : i64, start = 1 : i64, stop = 2 : i64} : (tensor<?x4x2xf64>) -> tensor<?x4x1xf64>
  %s = coda.reshape %s1 : (tensor<?x4x1xf64>) -> tensor<?x1x4xf64>
  %ac = coda.mul %a, %c : (tensor<?x?x2x4xf64>, tensor<?x1x4xf64>) -> tensor<?x?x2x4xf64>
  %bs = coda.mul %b, %s : (tensor<?x?x2x4xf64>, tensor<?x1x4xf64>) -> tensor<?x?x2x4xf64>
  %bc = coda.mul %b, %c : (tensor<?x?x2x4xf64>, tensor<?x1x4xf64>) -> tensor<?x?x2x4xf64>
  %as = coda.mul %a, %s : (tensor<?x?x2x4xf64>, tensor<?x1x4xf64>) -> tensor<?x?x2x4xf64>
  %first = coda.sub %ac, %bs : (tensor<?x?x2x4xf64>, tensor<?x?x2x4xf64>) -> tensor<?x?x2x4xf64>
  %second = coda.add %bc, %as : (tensor<?x?x2x4xf64>, tensor<?x?x2x4xf64>) -> tensor<?x?x2x4xf64>
  %first1 = coda.reshape %first {coda.dims = ["B", "T", 2 : i64, 4 : i64, 1 : i64]} : (tensor<?x?x2x4xf64>) -> tensor<?x?x2x4x1xf64>
  %second1 = coda.reshape %second {coda.dims = ["B", "T", 2 : i64, 4 : i64, 1 : i64]} : (tensor<?x?x2x4xf64>) -> tensor<?x?x2x4x1xf64>
  %stack = coda.concat %first1, %second1 {dim = 4 : i64} : (tensor<?x?x2x4x1xf64>, tensor<?x?x2x4x1xf64>) -> tensor<?x?x2x4x2xf64>
  %rounded = coda.cast %stack : (tensor<?x?x2x4x2xf64>) -> tensor<?x?x2x4x2xf32>
  %y = coda.reshape %rounded {coda.dims = ["B", "T", 2 : i64, 1 : i64, 8 : i64]} : (tensor<?x?x2x4x2xf32>) -> tensor<?x?x2x1x8xf32>
  func.return %y : tensor<?x?x2x1x8xf32>
}

// CHECK-LABEL: func.func @float32(
// CHECK-NOT: coda.rope
// CHECK: func.return

func.func @exact(%q: tensor<?x?x16xbf16> {coda.dims = ["B", "T", 16 : i64]}, %t: tensor<?x4x2xf64> {coda.dims = ["T", 4 : i64, 2 : i64]}) -> tensor<?x?x2x1x8xbf16> attributes {coda.numerics = #gemm.numerics<"eager-exact">} {
  %n = coda.reshape %q {coda.dims = ["B", "T", 2 : i64, 4 : i64, 2 : i64]} : (tensor<?x?x16xbf16>) -> tensor<?x?x2x4x2xbf16>
  %h = coda.cast %n : (tensor<?x?x2x4x2xbf16>) -> tensor<?x?x2x4x2xf64>
  %a1 = coda.slice %h {dim = 4 : i64, start = 0 : i64, stop = 1 : i64} : (tensor<?x?x2x4x2xf64>) -> tensor<?x?x2x4x1xf64>
  %a = coda.reshape %a1 {coda.dims = ["B", "T", 2 : i64, 4 : i64]} : (tensor<?x?x2x4x1xf64>) -> tensor<?x?x2x4xf64>
  %b1 = coda.slice %h {dim = 4 : i64, start = 1 : i64, stop = 2 : i64} : (tensor<?x?x2x4x2xf64>) -> tensor<?x?x2x4x1xf64>
  %b = coda.reshape %b1 {coda.dims = ["B", "T", 2 : i64, 4 : i64]} : (tensor<?x?x2x4x1xf64>) -> tensor<?x?x2x4xf64>
  %c1 = coda.slice %t {dim = 2 : i64, start = 0 : i64, stop = 1 : i64} : (tensor<?x4x2xf64>) -> tensor<?x4x1xf64>
  %c = coda.reshape %c1 : (tensor<?x4x1xf64>) -> tensor<?x1x4xf64>
  %s1 = coda.slice %t {dim = 2 : i64, start = 1 : i64, stop = 2 : i64} : (tensor<?x4x2xf64>) -> tensor<?x4x1xf64>
  %s = coda.reshape %s1 : (tensor<?x4x1xf64>) -> tensor<?x1x4xf64>
  %ac = coda.mul %a, %c : (tensor<?x?x2x4xf64>, tensor<?x1x4xf64>) -> tensor<?x?x2x4xf64>
  %bs = coda.mul %b, %s : (tensor<?x?x2x4xf64>, tensor<?x1x4xf64>) -> tensor<?x?x2x4xf64>
  %bc = coda.mul %b, %c : (tensor<?x?x2x4xf64>, tensor<?x1x4xf64>) -> tensor<?x?x2x4xf64>
  %as = coda.mul %a, %s : (tensor<?x?x2x4xf64>, tensor<?x1x4xf64>) -> tensor<?x?x2x4xf64>
  %first = coda.sub %ac, %bs : (tensor<?x?x2x4xf64>, tensor<?x?x2x4xf64>) -> tensor<?x?x2x4xf64>
  %second = coda.add %bc, %as : (tensor<?x?x2x4xf64>, tensor<?x?x2x4xf64>) -> tensor<?x?x2x4xf64>
  %first1 = coda.reshape %first {coda.dims = ["B", "T", 2 : i64, 4 : i64, 1 : i64]} : (tensor<?x?x2x4xf64>) -> tensor<?x?x2x4x1xf64>
  %second1 = coda.reshape %second {coda.dims = ["B", "T", 2 : i64, 4 : i64, 1 : i64]} : (tensor<?x?x2x4xf64>) -> tensor<?x?x2x4x1xf64>
  %stack = coda.concat %first1, %second1 {dim = 4 : i64} : (tensor<?x?x2x4x1xf64>, tensor<?x?x2x4x1xf64>) -> tensor<?x?x2x4x2xf64>
  %rounded = coda.cast %stack : (tensor<?x?x2x4x2xf64>) -> tensor<?x?x2x4x2xbf16>
  %y = coda.reshape %rounded {coda.dims = ["B", "T", 2 : i64, 1 : i64, 8 : i64]} : (tensor<?x?x2x4x2xbf16>) -> tensor<?x?x2x1x8xbf16>
  func.return %y : tensor<?x?x2x1x8xbf16>
}

// CHECK-LABEL: func.func @exact(
// CHECK-NOT: coda.rope
// CHECK: func.return

// -----

// What is rounded to another 16-bit type first is rounded twice.

func.func @twice(%q: tensor<?x?x16xbf16> {coda.dims = ["B", "T", 16 : i64]}, %t: tensor<?x4x2xf32> {coda.dims = ["T", 4 : i64, 2 : i64]}) -> tensor<?x?x2x1x8xbf16> {
  %n = coda.reshape %q {coda.dims = ["B", "T", 2 : i64, 4 : i64, 2 : i64]} : (tensor<?x?x16xbf16>) -> tensor<?x?x2x4x2xbf16>
  %h = coda.cast %n : (tensor<?x?x2x4x2xbf16>) -> tensor<?x?x2x4x2xf32>
  %a1 = coda.slice %h {dim = 4 : i64, start = 0 : i64, stop = 1 : i64} : (tensor<?x?x2x4x2xf32>) -> tensor<?x?x2x4x1xf32>
  %a = coda.reshape %a1 {coda.dims = ["B", "T", 2 : i64, 4 : i64]} : (tensor<?x?x2x4x1xf32>) -> tensor<?x?x2x4xf32>
  %b1 = coda.slice %h {dim = 4 : i64, start = 1 : i64, stop = 2 : i64} : (tensor<?x?x2x4x2xf32>) -> tensor<?x?x2x4x1xf32>
  %b = coda.reshape %b1 {coda.dims = ["B", "T", 2 : i64, 4 : i64]} : (tensor<?x?x2x4x1xf32>) -> tensor<?x?x2x4xf32>
  %c1 = coda.slice %t {dim = 2 : i64, start = 0 : i64, stop = 1 : i64} : (tensor<?x4x2xf32>) -> tensor<?x4x1xf32>
  %c = coda.reshape %c1 : (tensor<?x4x1xf32>) -> tensor<?x1x4xf32>
  %s1 = coda.slice %t {dim = 2 : i64, start = 1 : i64, stop = 2 : i64} : (tensor<?x4x2xf32>) -> tensor<?x4x1xf32>
  %s = coda.reshape %s1 : (tensor<?x4x1xf32>) -> tensor<?x1x4xf32>
  %ac = coda.mul %a, %c : (tensor<?x?x2x4xf32>, tensor<?x1x4xf32>) -> tensor<?x?x2x4xf32>
  %bs = coda.mul %b, %s : (tensor<?x?x2x4xf32>, tensor<?x1x4xf32>) -> tensor<?x?x2x4xf32>
  %bc = coda.mul %b, %c : (tensor<?x?x2x4xf32>, tensor<?x1x4xf32>) -> tensor<?x?x2x4xf32>
  %as = coda.mul %a, %s : (tensor<?x?x2x4xf32>, tensor<?x1x4xf32>) -> tensor<?x?x2x4xf32>
  %first = coda.sub %ac, %bs : (tensor<?x?x2x4xf32>, tensor<?x?x2x4xf32>) -> tensor<?x?x2x4xf32>
  %second = coda.add %bc, %as : (tensor<?x?x2x4xf32>, tensor<?x?x2x4xf32>) -> tensor<?x?x2x4xf32>
  %first1 = coda.reshape %first {coda.dims = ["B", "T", 2 : i64, 4 : i64, 1 : i64]} : (tensor<?x?x2x4xf32>) -> tensor<?x?x2x4x1xf32>
  %second1 = coda.reshape %second {coda.dims = ["B", "T", 2 : i64, 4 : i64, 1 : i64]} : (tensor<?x?x2x4xf32>) -> tensor<?x?x2x4x1xf32>
  %stack = coda.concat %first1, %second1 {dim = 4 : i64} : (tensor<?x?x2x4x1xf32>, tensor<?x?x2x4x1xf32>) -> tensor<?x?x2x4x2xf32>
  %narrow = coda.cast %stack : (tensor<?x?x2x4x2xf32>) -> tensor<?x?x2x4x2xf16>
  %joined = coda.reshape %narrow {coda.dims = ["B", "T", 2 : i64, 1 : i64, 8 : i64]} : (tensor<?x?x2x4x2xf16>) -> tensor<?x?x2x1x8xf16>
  %y = coda.cast %joined : (tensor<?x?x2x1x8xf16>) -> tensor<?x?x2x1x8xbf16>
  func.return %y : tensor<?x?x2x1x8xbf16>
}

// CHECK-LABEL: func.func @twice(
// CHECK-NOT: coda.rope
// CHECK: func.return

// -----

// Pairs that are rounded to whole numbers before they are joined.

func.func @whole_numbers(%q: tensor<?x?x16xf32> {coda.dims = ["B", "T", 16 : i64]}, %t: tensor<?x4x2xf32> {coda.dims = ["T", 4 : i64, 2 : i64]}) -> tensor<?x?x2x8xf32> {
  %h = coda.reshape %q {coda.dims = ["B", "T", 2 : i64, 4 : i64, 2 : i64]} : (tensor<?x?x16xf32>) -> tensor<?x?x2x4x2xf32>
  %a1 = coda.slice %h {dim = 4 : i64, start = 0 : i64, stop = 1 : i64} : (tensor<?x?x2x4x2xf32>) -> tensor<?x?x2x4x1xf32>
  %a = coda.reshape %a1 {coda.dims = ["B", "T", 2 : i64, 4 : i64]} : (tensor<?x?x2x4x1xf32>) -> tensor<?x?x2x4xf32>
  %b1 = coda.slice %h {dim = 4 : i64, start = 1 : i64, stop = 2 : i64} : (tensor<?x?x2x4x2xf32>) -> tensor<?x?x2x4x1xf32>
  %b = coda.reshape %b1 {coda.dims = ["B", "T", 2 : i64, 4 : i64]} : (tensor<?x?x2x4x1xf32>) -> tensor<?x?x2x4xf32>
  %c1 = coda.slice %t {dim = 2 : i64, start = 0 : i64, stop = 1 : i64} : (tensor<?x4x2xf32>) -> tensor<?x4x1xf32>
  %c = coda.reshape %c1 : (tensor<?x4x1xf32>) -> tensor<?x1x4xf32>
  %s1 = coda.slice %t {dim = 2 : i64, start = 1 : i64, stop = 2 : i64} : (tensor<?x4x2xf32>) -> tensor<?x4x1xf32>
  %s = coda.reshape %s1 : (tensor<?x4x1xf32>) -> tensor<?x1x4xf32>
  %ac = coda.mul %a, %c : (tensor<?x?x2x4xf32>, tensor<?x1x4xf32>) -> tensor<?x?x2x4xf32>
  %bs = coda.mul %b, %s : (tensor<?x?x2x4xf32>, tensor<?x1x4xf32>) -> tensor<?x?x2x4xf32>
  %bc = coda.mul %b, %c : (tensor<?x?x2x4xf32>, tensor<?x1x4xf32>) -> tensor<?x?x2x4xf32>
  %as = coda.mul %a, %s : (tensor<?x?x2x4xf32>, tensor<?x1x4xf32>) -> tensor<?x?x2x4xf32>
  %first = coda.sub %ac, %bs : (tensor<?x?x2x4xf32>, tensor<?x?x2x4xf32>) -> tensor<?x?x2x4xf32>
  %second = coda.add %bc, %as : (tensor<?x?x2x4xf32>, tensor<?x?x2x4xf32>) -> tensor<?x?x2x4xf32>
  %f1 = coda.cast %first : (tensor<?x?x2x4xf32>) -> tensor<?x?x2x4xi32>
  %g1 = coda.cast %second : (tensor<?x?x2x4xf32>) -> tensor<?x?x2x4xi32>
  %first1 = coda.reshape %f1 {coda.dims = ["B", "T", 2 : i64, 4 : i64, 1 : i64]} : (tensor<?x?x2x4xi32>) -> tensor<?x?x2x4x1xi32>
  %second1 = coda.reshape %g1 {coda.dims = ["B", "T", 2 : i64, 4 : i64, 1 : i64]} : (tensor<?x?x2x4xi32>) -> tensor<?x?x2x4x1xi32>
  %stack = coda.concat %first1, %second1 {dim = 4 : i64} : (tensor<?x?x2x4x1xi32>, tensor<?x?x2x4x1xi32>) -> tensor<?x?x2x4x2xi32>
  %rounded = coda.cast %stack : (tensor<?x?x2x4x2xi32>) -> tensor<?x?x2x4x2xf32>
  %y = coda.reshape %rounded {coda.dims = ["B", "T", 2 : i64, 8 : i64]} : (tensor<?x?x2x4x2xf32>) -> tensor<?x?x2x8xf32>
  func.return %y : tensor<?x?x2x8xf32>
}

// CHECK-LABEL: func.func @whole_numbers(
// CHECK-NOT: coda.rope
// CHECK: func.return

// -----

// One cosine and one sine for all pairs of a row.

func.func @one_angle(%x: tensor<?x8xf32> {coda.dims = ["T", 8 : i64]}, %cos: tensor<?x1xf32> {coda.dims = ["T", 1 : i64]}, %sin: tensor<?x1xf32> {coda.dims = ["T", 1 : i64]}) -> tensor<?x8xf32> {
  %a = coda.mul %x, %cos : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  %x1 = coda.slice %x {dim = 1 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<?x8xf32>) -> tensor<?x4xf32>
  %x2 = coda.slice %x {dim = 1 : i64, start = 4 : i64, stop = 8 : i64} : (tensor<?x8xf32>) -> tensor<?x4xf32>
  %neg = coda.neg %x2 : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %rotated = coda.concat %neg, %x1 {dim = 1 : i64} : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x8xf32>
  %b = coda.mul %rotated, %sin : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  %y = coda.add %a, %b : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  func.return %y : tensor<?x8xf32>
}

// CHECK-LABEL: func.func @one_angle(
// CHECK-NOT: coda.rope
// CHECK: func.return

// -----

// Some columns of heads that are no columns of a tensor.

func.func @part_of_a_head(%h: tensor<2x3x4x16xf32>, %c: tensor<3x1x4xf32>, %s: tensor<3x1x4xf32>) -> tensor<2x3x4x8xf32> {
  %x1 = coda.slice %h {dim = 3 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<2x3x4x16xf32>) -> tensor<2x3x4x4xf32>
  %x2 = coda.slice %h {dim = 3 : i64, start = 4 : i64, stop = 8 : i64} : (tensor<2x3x4x16xf32>) -> tensor<2x3x4x4xf32>
  %ac = coda.mul %x1, %c : (tensor<2x3x4x4xf32>, tensor<3x1x4xf32>) -> tensor<2x3x4x4xf32>
  %bs = coda.mul %x2, %s : (tensor<2x3x4x4xf32>, tensor<3x1x4xf32>) -> tensor<2x3x4x4xf32>
  %bc = coda.mul %x2, %c : (tensor<2x3x4x4xf32>, tensor<3x1x4xf32>) -> tensor<2x3x4x4xf32>
  %as = coda.mul %x1, %s : (tensor<2x3x4x4xf32>, tensor<3x1x4xf32>) -> tensor<2x3x4x4xf32>
  %first = coda.sub %ac, %bs : (tensor<2x3x4x4xf32>, tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  %second = coda.add %bc, %as : (tensor<2x3x4x4xf32>, tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  %y = coda.concat %first, %second {dim = 3 : i64} : (tensor<2x3x4x4xf32>, tensor<2x3x4x4xf32>) -> tensor<2x3x4x8xf32>
  func.return %y : tensor<2x3x4x8xf32>
}

// CHECK-LABEL: func.func @part_of_a_head(
// CHECK-NOT: coda.rope
// CHECK: func.return

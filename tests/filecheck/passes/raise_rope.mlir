// RUN: coda-opt %s -p raise-elementwise,raise-rope,dce | filecheck %s

// Heads of the columns of %q; both halves of the tables come from the same angles.

func.func @heads(%q: tensor<?x?x32xf32> {coda.dims = ["B", "T", 32 : i64]}, %f: tensor<?x4xf32> {coda.dims = ["T", 4 : i64]}, %g: tensor<?x4xf32> {coda.dims = ["T", 4 : i64]}) -> tensor<?x4x?x8xf32> {
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
  %rotated = coda.concat %neg, %h1 {dim = 3 : i64} : (tensor<?x4x?x4xf32>, tensor<?x4x?x4xf32>) -> tensor<?x4x?x8xf32>
  %b = coda.mul %rotated, %s : (tensor<?x4x?x8xf32>, tensor<1x1x?x8xf32>) -> tensor<?x4x?x8xf32>
  %y = coda.add %a, %b : (tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>) -> tensor<?x4x?x8xf32>
  func.return %y : tensor<?x4x?x8xf32>
}

// CHECK-LABEL: func.func @heads(
// CHECK-NEXT:   [[C0:%.*]] = coda.cos %f : (tensor<?x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   [[COS:%.*]] = coda.reshape
// CHECK-NEXT:   [[C:%.*]] = coda.reshape [[COS]]
// CHECK-NEXT:   [[S0:%.*]] = coda.sin %f
// CHECK-NEXT:   [[SIN:%.*]] = coda.reshape [[S0]]
// CHECK-NEXT:   [[S:%.*]] = coda.reshape [[SIN]]
// CHECK-NEXT:   %y = coda.rope %q, [[C]], [[S]] {head_dim = 8 : i64, layout = "half_split"} : (tensor<?x?x32xf32>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x?x32xf32>
// CHECK-NEXT:   [[SPLIT:%.*]] = coda.reshape %y : (tensor<?x?x32xf32>) -> tensor<?x?x4x8xf32>
// CHECK-NEXT:   [[Y:%.*]] = coda.transpose [[SPLIT]] {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]}
// CHECK-NEXT:   func.return [[Y]]

// Half of each head is rotated, in float32, and rounded; the rest is joined to it.

func.func @partial(%q: tensor<2x?x32xbf16> {coda.dims = [2 : i64, "T", 32 : i64]}, %f: tensor<?x2xf32> {coda.dims = ["T", 2 : i64]}) -> tensor<2x4x?x8xbf16> {
  %split = coda.reshape %q : (tensor<2x?x32xbf16>) -> tensor<2x?x4x8xbf16>
  %h = coda.transpose %split {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x?x4x8xbf16>) -> tensor<2x4x?x8xbf16>
  %angles = coda.concat %f, %f {dim = 1 : i64} : (tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x4xf32>
  %c = torch.call "aten.cos.default"(%angles) {arguments = "{0}", coda.dims = ["T", 4 : i64]} : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %s = torch.call "aten.sin.default"(%angles) {arguments = "{0}", coda.dims = ["T", 4 : i64]} : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %rot = coda.slice %h {dim = 3 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<2x4x?x8xbf16>) -> tensor<2x4x?x4xbf16>
  %pass = coda.slice %h {dim = 3 : i64, start = 4 : i64, stop = 8 : i64} : (tensor<2x4x?x8xbf16>) -> tensor<2x4x?x4xbf16>
  %wide = coda.cast %rot : (tensor<2x4x?x4xbf16>) -> tensor<2x4x?x4xf32>
  %a = coda.mul %wide, %c : (tensor<2x4x?x4xf32>, tensor<?x4xf32>) -> tensor<2x4x?x4xf32>
  %h1 = coda.slice %rot {dim = 3 : i64, start = 0 : i64, stop = 2 : i64} : (tensor<2x4x?x4xbf16>) -> tensor<2x4x?x2xbf16>
  %h2 = coda.slice %rot {dim = 3 : i64, start = 2 : i64, stop = 4 : i64} : (tensor<2x4x?x4xbf16>) -> tensor<2x4x?x2xbf16>
  %neg = coda.neg %h2 : (tensor<2x4x?x2xbf16>) -> tensor<2x4x?x2xbf16>
  %rotated = coda.concat %neg, %h1 {dim = 3 : i64} : (tensor<2x4x?x2xbf16>, tensor<2x4x?x2xbf16>) -> tensor<2x4x?x4xbf16>
  %wide_rotated = coda.cast %rotated : (tensor<2x4x?x4xbf16>) -> tensor<2x4x?x4xf32>
  %b = coda.mul %wide_rotated, %s : (tensor<2x4x?x4xf32>, tensor<?x4xf32>) -> tensor<2x4x?x4xf32>
  %sum = coda.add %a, %b : (tensor<2x4x?x4xf32>, tensor<2x4x?x4xf32>) -> tensor<2x4x?x4xf32>
  %narrow = coda.cast %sum : (tensor<2x4x?x4xf32>) -> tensor<2x4x?x4xbf16>
  %y = coda.concat %narrow, %pass {dim = 3 : i64} : (tensor<2x4x?x4xbf16>, tensor<2x4x?x4xbf16>) -> tensor<2x4x?x8xbf16>
  func.return %y : tensor<2x4x?x8xbf16>
}

// CHECK-LABEL: func.func @partial(
// CHECK:         [[C:%.*]] = coda.pad {{.*}} {dim = 1 : i64, start = 0 : i64, value = 1.000000e+00 : f64} : (tensor<?x2xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:    [[S:%.*]] = coda.pad {{.*}} {dim = 1 : i64, start = 0 : i64} : (tensor<?x2xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:    [[R:%.*]] = coda.rope %q, [[C]], [[S]] {head_dim = 4 : i64, layout = "half_split", table_heads = 2 : i64}
// CHECK-NEXT:    [[H:%.*]] = coda.reshape [[R]] : (tensor<2x?x32xbf16>) -> tensor<2x?x4x8xbf16>
// CHECK-NEXT:    [[Y:%.*]] = coda.transpose [[H]] {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]}
// CHECK-NEXT:    func.return [[Y]]

// Angles that are transposed once for both halves.

func.func @transposed_angles(%q: tensor<2x?x32xbf16> {coda.dims = [2 : i64, "T", 32 : i64]}, %f: tensor<2x?xf32> {coda.dims = [2 : i64, "T"]}) -> tensor<2x4x?x8xbf16> {
  %split = coda.reshape %q : (tensor<2x?x32xbf16>) -> tensor<2x?x4x8xbf16>
  %h = coda.transpose %split {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x?x4x8xbf16>) -> tensor<2x4x?x8xbf16>
  %twice = coda.concat %f, %f {dim = 0 : i64} : (tensor<2x?xf32>, tensor<2x?xf32>) -> tensor<4x?xf32>
  %angles = coda.transpose %twice {perm = [1 : i64, 0 : i64]} : (tensor<4x?xf32>) -> tensor<?x4xf32>
  %c = torch.call "aten.cos.default"(%angles) {arguments = "{0}", coda.dims = ["T", 4 : i64]} : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %s = torch.call "aten.sin.default"(%angles) {arguments = "{0}", coda.dims = ["T", 4 : i64]} : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %rot = coda.slice %h {dim = 3 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<2x4x?x8xbf16>) -> tensor<2x4x?x4xbf16>
  %pass = coda.slice %h {dim = 3 : i64, start = 4 : i64, stop = 8 : i64} : (tensor<2x4x?x8xbf16>) -> tensor<2x4x?x4xbf16>
  %wide = coda.cast %rot : (tensor<2x4x?x4xbf16>) -> tensor<2x4x?x4xf32>
  %a = coda.mul %wide, %c : (tensor<2x4x?x4xf32>, tensor<?x4xf32>) -> tensor<2x4x?x4xf32>
  %h1 = coda.slice %rot {dim = 3 : i64, start = 0 : i64, stop = 2 : i64} : (tensor<2x4x?x4xbf16>) -> tensor<2x4x?x2xbf16>
  %h2 = coda.slice %rot {dim = 3 : i64, start = 2 : i64, stop = 4 : i64} : (tensor<2x4x?x4xbf16>) -> tensor<2x4x?x2xbf16>
  %neg = coda.neg %h2 : (tensor<2x4x?x2xbf16>) -> tensor<2x4x?x2xbf16>
  %rotated = coda.concat %neg, %h1 {dim = 3 : i64} : (tensor<2x4x?x2xbf16>, tensor<2x4x?x2xbf16>) -> tensor<2x4x?x4xbf16>
  %wide_rotated = coda.cast %rotated : (tensor<2x4x?x4xbf16>) -> tensor<2x4x?x4xf32>
  %b = coda.mul %wide_rotated, %s : (tensor<2x4x?x4xf32>, tensor<?x4xf32>) -> tensor<2x4x?x4xf32>
  %sum = coda.add %a, %b : (tensor<2x4x?x4xf32>, tensor<2x4x?x4xf32>) -> tensor<2x4x?x4xf32>
  %narrow = coda.cast %sum : (tensor<2x4x?x4xf32>) -> tensor<2x4x?x4xbf16>
  %y = coda.concat %narrow, %pass {dim = 3 : i64} : (tensor<2x4x?x4xbf16>, tensor<2x4x?x4xbf16>) -> tensor<2x4x?x8xbf16>
  func.return %y : tensor<2x4x?x8xbf16>
}

// CHECK-LABEL: func.func @transposed_angles(
// CHECK:         [[T:%.*]] = coda.transpose %f {perm = [1 : i64, 0 : i64]} : (tensor<2x?xf32>) -> tensor<?x2xf32>
// CHECK-NEXT:    [[COS:%.*]] = coda.cos [[T]]
// CHECK:         [[R:%.*]] = coda.rope %q, {{.*}} {head_dim = 4 : i64, layout = "half_split", table_heads = 2 : i64}

// Queries, keys and values of a head side by side: queries and keys are rotated at once, and the
// values are read from the same tensor.

func.func @packed(%qkv: tensor<1x5x24xf32>, %f: tensor<5x2xf32>) -> (tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32>) {
  %split = coda.reshape %qkv : (tensor<1x5x24xf32>) -> tensor<1x5x2x12xf32>
  %h = coda.transpose %split {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<1x5x2x12xf32>) -> tensor<1x2x5x12xf32>
  %angles = coda.concat %f, %f {dim = 1 : i64} : (tensor<5x2xf32>, tensor<5x2xf32>) -> tensor<5x4xf32>
  %c = torch.call "aten.cos.default"(%angles) {arguments = "{0}"} : (tensor<5x4xf32>) -> tensor<5x4xf32>
  %s = torch.call "aten.sin.default"(%angles) {arguments = "{0}"} : (tensor<5x4xf32>) -> tensor<5x4xf32>
  %v = coda.slice %h {dim = 3 : i64, start = 8 : i64, stop = 12 : i64} : (tensor<1x2x5x12xf32>) -> tensor<1x2x5x4xf32>
  %q = coda.slice %h {dim = 3 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<1x2x5x12xf32>) -> tensor<1x2x5x4xf32>
  %q1 = coda.slice %h {dim = 3 : i64, start = 0 : i64, stop = 2 : i64} : (tensor<1x2x5x12xf32>) -> tensor<1x2x5x2xf32>
  %q2 = coda.slice %h {dim = 3 : i64, start = 2 : i64, stop = 4 : i64} : (tensor<1x2x5x12xf32>) -> tensor<1x2x5x2xf32>
  %qn = coda.neg %q2 : (tensor<1x2x5x2xf32>) -> tensor<1x2x5x2xf32>
  %qr = coda.concat %qn, %q1 {dim = 3 : i64} : (tensor<1x2x5x2xf32>, tensor<1x2x5x2xf32>) -> tensor<1x2x5x4xf32>
  %qc = coda.mul %q, %c : (tensor<1x2x5x4xf32>, tensor<5x4xf32>) -> tensor<1x2x5x4xf32>
  %qs = coda.mul %s, %qr : (tensor<5x4xf32>, tensor<1x2x5x4xf32>) -> tensor<1x2x5x4xf32>
  %qy = coda.add %qs, %qc : (tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32>) -> tensor<1x2x5x4xf32>
  %k = coda.slice %h {dim = 3 : i64, start = 4 : i64, stop = 8 : i64} : (tensor<1x2x5x12xf32>) -> tensor<1x2x5x4xf32>
  %k1 = coda.slice %k {dim = 3 : i64, start = 0 : i64, stop = 2 : i64} : (tensor<1x2x5x4xf32>) -> tensor<1x2x5x2xf32>
  %k2 = coda.slice %k {dim = 3 : i64, start = 2 : i64, stop = 4 : i64} : (tensor<1x2x5x4xf32>) -> tensor<1x2x5x2xf32>
  %kn = coda.neg %k2 : (tensor<1x2x5x2xf32>) -> tensor<1x2x5x2xf32>
  %kr = coda.concat %kn, %k1 {dim = 3 : i64} : (tensor<1x2x5x2xf32>, tensor<1x2x5x2xf32>) -> tensor<1x2x5x4xf32>
  %kc = coda.mul %k, %c : (tensor<1x2x5x4xf32>, tensor<5x4xf32>) -> tensor<1x2x5x4xf32>
  %ks = coda.mul %kr, %s : (tensor<1x2x5x4xf32>, tensor<5x4xf32>) -> tensor<1x2x5x4xf32>
  %ky = coda.add %kc, %ks : (tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32>) -> tensor<1x2x5x4xf32>
  func.return %qy, %ky, %v : tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32>
}

// CHECK-LABEL: func.func @packed(
// CHECK-COUNT-1: coda.rope %qkv, {{.*}}, {{.*}} {head_dim = 4 : i64, layout = "half_split", table_heads = 3 : i64} : (tensor<1x5x24xf32>, tensor<5x6xf32>, tensor<5x6xf32>) -> tensor<1x5x24xf32>
// CHECK-NOT:     coda.rope
// CHECK-NOT:     %qkv
// CHECK:         func.return

// Neighbouring columns are a pair, and the angles are repeated for them.

func.func @interleaved(%q: tensor<?x?x32xf32> {coda.dims = ["B", "T", 32 : i64]}, %f: tensor<?x4xf32> {coda.dims = ["T", 4 : i64]}) -> tensor<?x?x4x8xf32> {
  %h = coda.reshape %q : (tensor<?x?x32xf32>) -> tensor<?x?x4x8xf32>
  %f1 = coda.reshape %f : (tensor<?x4xf32>) -> tensor<?x4x1xf32>
  %f2 = torch.call "aten.expand.default"(%f1) {arguments = "{0}, [T, 4, 2]", view, coda.dims = ["T", 4 : i64, 2 : i64]} : (tensor<?x4x1xf32>) -> tensor<?x4x2xf32>
  %angles = coda.reshape %f2 : (tensor<?x4x2xf32>) -> tensor<?x1x8xf32>
  %c = torch.call "aten.cos.default"(%angles) {arguments = "{0}", coda.dims = ["T", 1 : i64, 8 : i64]} : (tensor<?x1x8xf32>) -> tensor<?x1x8xf32>
  %s = torch.call "aten.sin.default"(%angles) {arguments = "{0}", coda.dims = ["T", 1 : i64, 8 : i64]} : (tensor<?x1x8xf32>) -> tensor<?x1x8xf32>
  %even = torch.call "aten.slice.Tensor"(%h) {arguments = "{0}, 3, 0, 9223372036854775807, 2", view, coda.dims = ["B", "T", 4 : i64, 4 : i64]} : (tensor<?x?x4x8xf32>) -> tensor<?x?x4x4xf32>
  %odd = torch.call "aten.slice.Tensor"(%h) {arguments = "{0}, 3, 1, 9223372036854775807, 2", view, coda.dims = ["B", "T", 4 : i64, 4 : i64]} : (tensor<?x?x4x8xf32>) -> tensor<?x?x4x4xf32>
  %neg = coda.neg %odd : (tensor<?x?x4x4xf32>) -> tensor<?x?x4x4xf32>
  %n1 = coda.reshape %neg {coda.dims = ["B", "T", 4 : i64, 4 : i64, 1 : i64]} : (tensor<?x?x4x4xf32>) -> tensor<?x?x4x4x1xf32>
  %e1 = coda.reshape %even {coda.dims = ["B", "T", 4 : i64, 4 : i64, 1 : i64]} : (tensor<?x?x4x4xf32>) -> tensor<?x?x4x4x1xf32>
  %stack = coda.concat %n1, %e1 {dim = 4 : i64} : (tensor<?x?x4x4x1xf32>, tensor<?x?x4x4x1xf32>) -> tensor<?x?x4x4x2xf32>
  %rotated = coda.reshape %stack {coda.dims = ["B", "T", 4 : i64, 8 : i64]} : (tensor<?x?x4x4x2xf32>) -> tensor<?x?x4x8xf32>
  %a = coda.mul %h, %c : (tensor<?x?x4x8xf32>, tensor<?x1x8xf32>) -> tensor<?x?x4x8xf32>
  %b = coda.mul %rotated, %s : (tensor<?x?x4x8xf32>, tensor<?x1x8xf32>) -> tensor<?x?x4x8xf32>
  %y = coda.add %a, %b : (tensor<?x?x4x8xf32>, tensor<?x?x4x8xf32>) -> tensor<?x?x4x8xf32>
  func.return %y : tensor<?x?x4x8xf32>
}

// CHECK-LABEL: func.func @interleaved(
// CHECK:         [[R:%.*]] = coda.rope %q, {{.*}}, {{.*}} {head_dim = 8 : i64, layout = "interleaved"} : (tensor<?x?x32xf32>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x?x32xf32>
// CHECK-NEXT:    [[Y:%.*]] = coda.reshape [[R]]
// CHECK-NEXT:    func.return [[Y]]

// Heads before positions, whose pairs are unbound and stacked: the columns keep a dimension of 1.

func.func @stacked(%q: tensor<2x3x32xbf16>, %f: tensor<3x4xf32>) -> tensor<2x4x3x8xbf16> {
  %r = coda.reshape %q : (tensor<2x3x32xbf16>) -> tensor<2x3x4x8xbf16>
  %h = coda.transpose %r {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<2x3x4x8xbf16>) -> tensor<2x4x3x8xbf16>
  %f1 = coda.reshape %f : (tensor<3x4xf32>) -> tensor<3x4x1xf32>
  %f2 = torch.call "aten.expand.default"(%f1) {arguments = "{0}, [3, 4, 2]", view} : (tensor<3x4x1xf32>) -> tensor<3x4x2xf32>
  %angles = coda.reshape %f2 : (tensor<3x4x2xf32>) -> tensor<3x8xf32>
  %cos = coda.cos %angles : (tensor<3x8xf32>) -> tensor<3x8xf32>
  %sin = coda.sin %angles : (tensor<3x8xf32>) -> tensor<3x8xf32>
  %c = coda.cast %cos : (tensor<3x8xf32>) -> tensor<3x8xbf16>
  %s = coda.cast %sin : (tensor<3x8xf32>) -> tensor<3x8xbf16>
  %pairs = coda.reshape %h : (tensor<2x4x3x8xbf16>) -> tensor<2x4x3x4x2xbf16>
  %even = coda.slice %pairs {dim = 4 : i64, start = 0 : i64, stop = 1 : i64} : (tensor<2x4x3x4x2xbf16>) -> tensor<2x4x3x4x1xbf16>
  %odd = coda.slice %pairs {dim = 4 : i64, start = 1 : i64, stop = 2 : i64} : (tensor<2x4x3x4x2xbf16>) -> tensor<2x4x3x4x1xbf16>
  %neg = coda.neg %odd : (tensor<2x4x3x4x1xbf16>) -> tensor<2x4x3x4x1xbf16>
  %stack = coda.concat %neg, %even {dim = 4 : i64} : (tensor<2x4x3x4x1xbf16>, tensor<2x4x3x4x1xbf16>) -> tensor<2x4x3x4x2xbf16>
  %rotated = coda.reshape %stack : (tensor<2x4x3x4x2xbf16>) -> tensor<2x4x3x8xbf16>
  %a = coda.mul %h, %c : (tensor<2x4x3x8xbf16>, tensor<3x8xbf16>) -> tensor<2x4x3x8xbf16>
  %b = coda.mul %rotated, %s : (tensor<2x4x3x8xbf16>, tensor<3x8xbf16>) -> tensor<2x4x3x8xbf16>
  %y = coda.add %a, %b : (tensor<2x4x3x8xbf16>, tensor<2x4x3x8xbf16>) -> tensor<2x4x3x8xbf16>
  func.return %y : tensor<2x4x3x8xbf16>
}

// CHECK-LABEL: func.func @stacked(
// CHECK:         [[R:%.*]] = coda.rope %q, {{.*}}, {{.*}} {head_dim = 8 : i64, layout = "interleaved"} : (tensor<2x3x32xbf16>, tensor<3x4xbf16>, tensor<3x4xbf16>) -> tensor<2x3x32xbf16>
// CHECK-NEXT:    [[H:%.*]] = coda.reshape [[R]]
// CHECK-NEXT:    [[Y:%.*]] = coda.transpose [[H]]
// CHECK-NEXT:    func.return [[Y]]

// Both columns of the pairs are computed apart, from tables of half the columns.

func.func @apart(%q: tensor<2x3x16xf32>, %cos: tensor<3x1x4xf32>, %sin: tensor<3x1x4xf32>) -> tensor<2x3x2x8xf32> {
  %h = coda.reshape %q : (tensor<2x3x16xf32>) -> tensor<2x3x2x8xf32>
  %x1 = coda.slice %h {dim = 3 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<2x3x2x8xf32>) -> tensor<2x3x2x4xf32>
  %x2 = coda.slice %h {dim = 3 : i64, start = 4 : i64, stop = 8 : i64} : (tensor<2x3x2x8xf32>) -> tensor<2x3x2x4xf32>
  %ac = coda.mul %x1, %cos : (tensor<2x3x2x4xf32>, tensor<3x1x4xf32>) -> tensor<2x3x2x4xf32>
  %bs = coda.mul %x2, %sin : (tensor<2x3x2x4xf32>, tensor<3x1x4xf32>) -> tensor<2x3x2x4xf32>
  %bc = coda.mul %x2, %cos : (tensor<2x3x2x4xf32>, tensor<3x1x4xf32>) -> tensor<2x3x2x4xf32>
  %as = coda.mul %x1, %sin : (tensor<2x3x2x4xf32>, tensor<3x1x4xf32>) -> tensor<2x3x2x4xf32>
  %first = coda.sub %ac, %bs : (tensor<2x3x2x4xf32>, tensor<2x3x2x4xf32>) -> tensor<2x3x2x4xf32>
  %second = coda.add %bc, %as : (tensor<2x3x2x4xf32>, tensor<2x3x2x4xf32>) -> tensor<2x3x2x4xf32>
  %y = coda.concat %first, %second {dim = 3 : i64} : (tensor<2x3x2x4xf32>, tensor<2x3x2x4xf32>) -> tensor<2x3x2x8xf32>
  func.return %y : tensor<2x3x2x8xf32>
}

// CHECK-LABEL: func.func @apart(
// CHECK-NEXT:    [[C:%.*]] = coda.reshape %cos
// CHECK-NEXT:    [[S:%.*]] = coda.reshape %sin
// CHECK-NEXT:    [[R:%.*]] = coda.rope %q, [[C]], [[S]] {head_dim = 8 : i64, layout = "half_split"}
// CHECK-NEXT:    [[Y:%.*]] = coda.reshape [[R]]
// CHECK-NEXT:    func.return [[Y]]

// Complex numbers as pairs, in float64: rounded to 16 bits, they are computed in float32. Keys are rounded before neighbours are joined, and
// have a dimension more.

func.func @double(%q: tensor<?x?x16xbf16> {coda.dims = ["B", "T", 16 : i64]}, %t: tensor<?x4x2xf64> {coda.dims = ["T", 4 : i64, 2 : i64]}) -> tensor<?x?x2x1x8xbf16> {
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

// CHECK-LABEL: func.func @double(
// CHECK:         [[C:%.*]] = coda.cast {{.*}} -> tensor<?x4xf32>
// CHECK-NEXT:    [[S:%.*]] = coda.cast {{.*}} -> tensor<?x4xf32>
// CHECK-NEXT:    [[R:%.*]] = coda.rope %q, [[C]], [[S]] {head_dim = 8 : i64, layout = "interleaved"} : (tensor<?x?x16xbf16>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x?x16xbf16>
// CHECK-NEXT:    [[H:%.*]] = coda.reshape [[R]]
// CHECK-NEXT:    [[Y:%.*]] = coda.reshape [[H]] {coda.dims = ["B", "T", 2 : i64, 1 : i64, 8 : i64]}
// CHECK-NEXT:    func.return [[Y]]

// Heads that are widened before they are rotated, and rounded after.

func.func @widened(%q: tensor<2x3x16xbf16>, %cos: tensor<3x1x4xf32>, %sin: tensor<3x1x4xf32>) -> tensor<2x3x2x8xbf16> {
  %n = coda.reshape %q : (tensor<2x3x16xbf16>) -> tensor<2x3x2x8xbf16>
  %h = coda.cast %n : (tensor<2x3x2x8xbf16>) -> tensor<2x3x2x8xf32>
  %x1 = coda.slice %h {dim = 3 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<2x3x2x8xf32>) -> tensor<2x3x2x4xf32>
  %x2 = coda.slice %h {dim = 3 : i64, start = 4 : i64, stop = 8 : i64} : (tensor<2x3x2x8xf32>) -> tensor<2x3x2x4xf32>
  %ac = coda.mul %x1, %cos : (tensor<2x3x2x4xf32>, tensor<3x1x4xf32>) -> tensor<2x3x2x4xf32>
  %bs = coda.mul %x2, %sin : (tensor<2x3x2x4xf32>, tensor<3x1x4xf32>) -> tensor<2x3x2x4xf32>
  %bc = coda.mul %x2, %cos : (tensor<2x3x2x4xf32>, tensor<3x1x4xf32>) -> tensor<2x3x2x4xf32>
  %as = coda.mul %x1, %sin : (tensor<2x3x2x4xf32>, tensor<3x1x4xf32>) -> tensor<2x3x2x4xf32>
  %first = coda.sub %ac, %bs : (tensor<2x3x2x4xf32>, tensor<2x3x2x4xf32>) -> tensor<2x3x2x4xf32>
  %second = coda.add %bc, %as : (tensor<2x3x2x4xf32>, tensor<2x3x2x4xf32>) -> tensor<2x3x2x4xf32>
  %wide = coda.concat %first, %second {dim = 3 : i64} : (tensor<2x3x2x4xf32>, tensor<2x3x2x4xf32>) -> tensor<2x3x2x8xf32>
  %y = coda.cast %wide : (tensor<2x3x2x8xf32>) -> tensor<2x3x2x8xbf16>
  func.return %y : tensor<2x3x2x8xbf16>
}

// CHECK-LABEL: func.func @widened(
// CHECK:         [[R:%.*]] = coda.rope %q, {{.*}} : (tensor<2x3x16xbf16>, tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<2x3x16xbf16>
// CHECK-NEXT:    [[Y:%.*]] = coda.reshape [[R]]
// CHECK-NEXT:    func.return [[Y]]

// Heads that a norm computes, no columns of a tensor.

func.func @norm_of_heads(%q: tensor<?x?x4x24xf32> {coda.dims = ["B", "T", 4 : i64, 24 : i64]}, %w: tensor<8xf32>, %b: tensor<8xf32>, %f: tensor<?x4xf32> {coda.dims = ["T", 4 : i64]}) -> tensor<?x4x?x8xf32> {
  %part = coda.slice %q {dim = 3 : i64, start = 8 : i64, stop = 16 : i64} : (tensor<?x?x4x24xf32>) -> tensor<?x?x4x8xf32>
  %n = coda.layer_norm %part, %w, %b {eps = 1.0e-6 : f64} : (tensor<?x?x4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<?x?x4x8xf32>
  %h = coda.transpose %n {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x?x4x8xf32>) -> tensor<?x4x?x8xf32>
  %c = coda.cos %f : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %s = coda.sin %f : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %x1 = coda.slice %h {dim = 3 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<?x4x?x8xf32>) -> tensor<?x4x?x4xf32>
  %x2 = coda.slice %h {dim = 3 : i64, start = 4 : i64, stop = 8 : i64} : (tensor<?x4x?x8xf32>) -> tensor<?x4x?x4xf32>
  %ac = coda.mul %x1, %c : (tensor<?x4x?x4xf32>, tensor<?x4xf32>) -> tensor<?x4x?x4xf32>
  %bs = coda.mul %x2, %s : (tensor<?x4x?x4xf32>, tensor<?x4xf32>) -> tensor<?x4x?x4xf32>
  %bc = coda.mul %x2, %c : (tensor<?x4x?x4xf32>, tensor<?x4xf32>) -> tensor<?x4x?x4xf32>
  %as = coda.mul %x1, %s : (tensor<?x4x?x4xf32>, tensor<?x4xf32>) -> tensor<?x4x?x4xf32>
  %first = coda.sub %ac, %bs : (tensor<?x4x?x4xf32>, tensor<?x4x?x4xf32>) -> tensor<?x4x?x4xf32>
  %second = coda.add %bc, %as : (tensor<?x4x?x4xf32>, tensor<?x4x?x4xf32>) -> tensor<?x4x?x4xf32>
  %y = coda.concat %first, %second {dim = 3 : i64} : (tensor<?x4x?x4xf32>, tensor<?x4x?x4xf32>) -> tensor<?x4x?x8xf32>
  func.return %y : tensor<?x4x?x8xf32>
}

// CHECK-LABEL: func.func @norm_of_heads(
// CHECK:         %n = coda.layer_norm %part, %w, %b
// CHECK:         [[N:%.*]] = coda.reshape %n {coda.dims = ["B", "T", 32 : i64]} : (tensor<?x?x4x8xf32>) -> tensor<?x?x32xf32>
// CHECK:         %y = coda.rope [[N]], {{.*}} {head_dim = 8 : i64, layout = "half_split"} : (tensor<?x?x32xf32>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x?x32xf32>
// CHECK-NEXT:    [[R:%.*]] = coda.reshape %y
// CHECK-NEXT:    [[H:%.*]] = coda.transpose [[R]]
// CHECK-NEXT:    func.return [[H]]

// -----

// Pairs rotate the other way: the sines are negated.

func.func @reversed(%q: tensor<?x?x32xf32> {coda.dims = ["B", "T", 32 : i64]}, %f: tensor<?x4xf32> {coda.dims = ["T", 4 : i64]}, %g: tensor<?x4xf32> {coda.dims = ["T", 4 : i64]}) -> tensor<?x4x?x8xf32> {
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
  %rotated = coda.concat %h2, %neg {dim = 3 : i64} : (tensor<?x4x?x4xf32>, tensor<?x4x?x4xf32>) -> tensor<?x4x?x8xf32>
  %b = coda.mul %rotated, %s : (tensor<?x4x?x8xf32>, tensor<1x1x?x8xf32>) -> tensor<?x4x?x8xf32>
  %y = coda.add %a, %b : (tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>) -> tensor<?x4x?x8xf32>
  func.return %y : tensor<?x4x?x8xf32>
}

// CHECK-LABEL: func.func @reversed(
// CHECK:         [[N:%.*]] = coda.neg {{.*}} : (tensor<?x4xf32>) -> tensor<?x4xf32>
// CHECK:         %y = coda.rope %q, {{.*}}, [[N]] {head_dim = 8 : i64, layout = "half_split"} : (tensor<?x?x32xf32>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x?x32xf32>

// -----

// Different angles in the two halves: the tables keep an entry for each column.

func.func @angles(%q: tensor<?x?x32xf32> {coda.dims = ["B", "T", 32 : i64]}, %f: tensor<?x4xf32> {coda.dims = ["T", 4 : i64]}, %g: tensor<?x4xf32> {coda.dims = ["T", 4 : i64]}) -> tensor<?x4x?x8xf32> {
  %split = coda.reshape %q : (tensor<?x?x32xf32>) -> tensor<?x?x4x8xf32>
  %h = coda.transpose %split {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]} : (tensor<?x?x4x8xf32>) -> tensor<?x4x?x8xf32>
  %angles = coda.concat %f, %g {dim = 1 : i64} : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x8xf32>
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

// CHECK-LABEL: func.func @angles(
// CHECK:         %[[COS:.*]] = coda.cos
// CHECK:         %[[SIN:.*]] = coda.sin
// CHECK-NOT:     coda.neg
// CHECK:         coda.rope %q, {{.*}} {head_dim = 8 : i64, layout = "half_split", per_column} : (tensor<?x?x32xf32>, tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x?x32xf32>
// CHECK-NOT:     coda.add
// CHECK:         func.return

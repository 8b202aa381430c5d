// RUN: coda-opt %s -p raise-rope,dce | filecheck %s

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
// CHECK-NEXT:   %0 = torch.call "aten.cos.default"(%f) {coda.dims = ["T", 4 : i64], arguments = "{0}"} : (tensor<?x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   [[COS:%.*]] = coda.reshape
// CHECK-NEXT:   [[C:%.*]] = coda.reshape [[COS]]
// CHECK-NEXT:   [[S0:%.*]] = torch.call "aten.sin.default"(%f)
// CHECK-NEXT:   [[SIN:%.*]] = coda.reshape [[S0]]
// CHECK-NEXT:   [[S:%.*]] = coda.reshape [[SIN]]
// CHECK-NEXT:   %y = coda.rope %q, [[C]], [[S]] {head_dim = 8 : i64, layout = "half_split"} : (tensor<?x?x32xf32>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x?x32xf32>
// CHECK-NEXT:   [[SPLIT:%.*]] = coda.reshape %y : (tensor<?x?x32xf32>) -> tensor<?x?x4x8xf32>
// CHECK-NEXT:   [[Y:%.*]] = coda.transpose [[SPLIT]] {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]}
// CHECK-NEXT:   func.return [[Y]]

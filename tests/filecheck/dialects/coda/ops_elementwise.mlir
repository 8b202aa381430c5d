// RUN: coda-opt %s | filecheck %s
// RUN: coda-opt %s | coda-opt -f mlir | filecheck %s
// RUN: coda-opt %s --print-op-generic | coda-opt -f mlir | filecheck %s

// Elementwise operators broadcast; constants are scalars.

// CHECK:      func.func @elementwise(%x: tensor<?x8xbf16>, %y: tensor<8xbf16>, %c: tensor<?x1xbf16>) {
// CHECK-NEXT:   %add = coda.add %x, %y : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %sub = coda.sub %x, %y : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %mul = coda.mul %x, %y : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %div = coda.div %x, %y : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %maximum = coda.maximum %x, %y : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %minimum = coda.minimum %x, %y : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %remainder = coda.remainder %x, %y : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %floor_divide = coda.floor_divide %x, %y : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %atan2 = coda.atan2 %x, %y : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %power = coda.power %x, %y : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %neg = coda.neg %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %abs = coda.abs %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %exp = coda.exp %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %log = coda.log %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %sqrt = coda.sqrt %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %rsqrt = coda.rsqrt %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %tanh = coda.tanh %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %sigmoid = coda.sigmoid %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %silu = coda.silu %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %relu = coda.relu %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %relu2 = coda.relu2 %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %gelu = coda.gelu %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %gelu_tanh = coda.gelu_tanh %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %softcap = coda.softcap %x {cap = 3.000000e+01 : f64} : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %sin = coda.sin %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %cos = coda.cos %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %erf = coda.erf %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %log1p = coda.log1p %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %exp2 = coda.exp2 %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %expm1 = coda.expm1 %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %softplus = coda.softplus %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %stored = coda.stored %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %floor = coda.floor %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %ceil = coda.ceil %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %elu = coda.elu %x {alpha = 5.000000e-01 : f64} : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %pow = coda.pow %x {exponent = 3.000000e-01 : f64} : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %round = coda.round %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %trunc = coda.trunc %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %detach = coda.detach %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %lt = coda.compare %x, %y {relation = "lt"} : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xi1>
// CHECK-NEXT:   %not = coda.logical_not %lt : (tensor<?x8xi1>) -> tensor<?x8xi1>
// CHECK-NEXT:   %and = coda.logical_and %lt, %not : (tensor<?x8xi1>, tensor<?x8xi1>) -> tensor<?x8xi1>
// CHECK-NEXT:   %or = coda.logical_or %lt, %not : (tensor<?x8xi1>, tensor<?x8xi1>) -> tensor<?x8xi1>
// CHECK-NEXT:   %xor = coda.logical_xor %lt, %not : (tensor<?x8xi1>, tensor<?x8xi1>) -> tensor<?x8xi1>
// CHECK-NEXT:   %where = coda.where %and, %x, %y : (tensor<?x8xi1>, tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %cast = coda.cast %x : (tensor<?x8xbf16>) -> tensor<?x8xf32>
// CHECK-NEXT:   %half = coda.constant {value = 5.000000e-01 : f64} : tensor<bf16>
// CHECK-NEXT:   %three = coda.constant {value = 3 : i64} : tensor<i64>
// CHECK-NEXT:   %scaled = coda.mul %x, %half : (tensor<?x8xbf16>, tensor<bf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %column = coda.add %x, %c : (tensor<?x8xbf16>, tensor<?x1xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   func.return
func.func @elementwise(%x: tensor<?x8xbf16>, %y: tensor<8xbf16>, %c: tensor<?x1xbf16>) {
  %add = coda.add %x, %y : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %sub = coda.sub %x, %y : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %mul = coda.mul %x, %y : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %div = coda.div %x, %y : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %maximum = coda.maximum %x, %y : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %minimum = coda.minimum %x, %y : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %remainder = coda.remainder %x, %y : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %floor_divide = coda.floor_divide %x, %y : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %atan2 = coda.atan2 %x, %y : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %power = coda.power %x, %y : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %neg = coda.neg %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %abs = coda.abs %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %exp = coda.exp %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %log = coda.log %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %sqrt = coda.sqrt %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %rsqrt = coda.rsqrt %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %tanh = coda.tanh %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %sigmoid = coda.sigmoid %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %silu = coda.silu %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %relu = coda.relu %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %relu2 = coda.relu2 %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %gelu = coda.gelu %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %gelu_tanh = coda.gelu_tanh %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %softcap = coda.softcap %x {cap = 3.000000e+01 : f64} : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %sin = coda.sin %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %cos = coda.cos %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %erf = coda.erf %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %log1p = coda.log1p %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %exp2 = coda.exp2 %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %expm1 = coda.expm1 %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %softplus = coda.softplus %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %stored = coda.stored %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %floor = coda.floor %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %ceil = coda.ceil %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %elu = coda.elu %x {alpha = 5.000000e-01 : f64} : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %pow = coda.pow %x {exponent = 3.000000e-01 : f64} : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %round = coda.round %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %trunc = coda.trunc %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %detach = coda.detach %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %lt = coda.compare %x, %y {relation = "lt"} : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xi1>
  %not = coda.logical_not %lt : (tensor<?x8xi1>) -> tensor<?x8xi1>
  %and = coda.logical_and %lt, %not : (tensor<?x8xi1>, tensor<?x8xi1>) -> tensor<?x8xi1>
  %or = coda.logical_or %lt, %not : (tensor<?x8xi1>, tensor<?x8xi1>) -> tensor<?x8xi1>
  %xor = coda.logical_xor %lt, %not : (tensor<?x8xi1>, tensor<?x8xi1>) -> tensor<?x8xi1>
  %where = coda.where %and, %x, %y : (tensor<?x8xi1>, tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %cast = coda.cast %x : (tensor<?x8xbf16>) -> tensor<?x8xf32>
  %half = coda.constant {value = 5.000000e-01 : f64} : tensor<bf16>
  %three = coda.constant {value = 3 : i64} : tensor<i64>
  %scaled = coda.mul %x, %half : (tensor<?x8xbf16>, tensor<bf16>) -> tensor<?x8xbf16>
  %column = coda.add %x, %c : (tensor<?x8xbf16>, tensor<?x1xbf16>) -> tensor<?x8xbf16>
  func.return
}

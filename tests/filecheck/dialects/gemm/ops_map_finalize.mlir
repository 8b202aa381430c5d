// RUN: coda-opt %s | filecheck %s
// RUN: coda-opt %s | coda-opt -f mlir | filecheck %s
// RUN: coda-opt %s --print-op-generic | coda-opt -f mlir | filecheck %s
// RUN: coda-opt %s --print-op-generic | filecheck %s --check-prefix GENERIC

// Epilogues without a GEMM, and combinations of partials.

// CHECK:      func.func @map(%x: tensor<?x8xbf16>, %b: tensor<8xbf16>) {
// CHECK-NEXT:   %y = gemm.map tile(%x : tensor<?x8xbf16>) row(%b : tensor<8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x8xbf16>) {
// CHECK-NEXT:     ^epilogue(%a: f32, %c: f32):
// CHECK-NEXT:       %0 = arith.addf %a, %c : f32
// CHECK-NEXT:       gemm.yield %0 : f32
// CHECK-NEXT:     } attributes {coda.note = "kept"}
// CHECK-NEXT:   func.return
// CHECK-NEXT: }
// GENERIC: %y = "gemm.map"(%x, %b) <{segment = #gemm.segment<0, nk, [tile, row], [tile]>}> ({
func.func @map(%x: tensor<?x8xbf16>, %b: tensor<8xbf16>) {
  %y = gemm.map tile(%x : tensor<?x8xbf16>) row(%b : tensor<8xbf16>)
    -> (tile : tensor<?x8xbf16>) {
  ^epilogue(%a: f32, %c: f32):
    %0 = arith.addf %a, %c : f32
    gemm.yield %0 : f32
  } attributes {coda.note = "kept"}
  func.return
}

// CHECK:      func.func @finalize(%p: tensor<?x?xf32>, %q: tensor<?x?xf32>, %t: tensor<?xf32>, %s: tensor<1xf32>, %c: tensor<?x16xf32>) {
// CHECK-NEXT:   %r, %m = gemm.finalize row (add %p : tensor<?x?xf32>, max %q : tensor<?x?xf32>) col(%t : tensor<?xf32>) scalar(%s : tensor<1xf32>) -> (tensor<?x1xf32>, tensor<?xf32>) {
// CHECK-NEXT:   ^epilogue(%sum: f32, %max: f32, %extra: f32, %one: f32):
// CHECK-NEXT:     %0 = math.rsqrt %sum : f32
// CHECK-NEXT:     gemm.yield %0, %max : f32, f32
// CHECK-NEXT:   }
// CHECK-NEXT:   %n = gemm.finalize col (lse %c : tensor<?x16xf32>) -> (tensor<16xbf16>) {
// CHECK-NEXT:   ^epilogue(%sum: f32):
// CHECK-NEXT:     gemm.yield %sum : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
// CHECK-NEXT: }
// GENERIC: %r, %m = "gemm.finalize"(%p, %q, %t, %s) <{axis = "row", combiners = [#gemm<combiner add>, #gemm<combiner max>], port_kinds = [#gemm<port col>, #gemm<port scalar>], operandSegmentSizes = array<i32: 2, 2>}> ({
func.func @finalize(%p: tensor<?x?xf32>, %q: tensor<?x?xf32>, %t: tensor<?xf32>, %s: tensor<1xf32>, %c: tensor<?x16xf32>) {
  %r, %m = gemm.finalize row (add %p : tensor<?x?xf32>, max %q : tensor<?x?xf32>) col(%t : tensor<?xf32>) scalar(%s : tensor<1xf32>) -> (tensor<?x1xf32>, tensor<?xf32>) {
  ^epilogue(%sum: f32, %max: f32, %extra: f32, %one: f32):
    %0 = math.rsqrt %sum : f32
    gemm.yield %0, %max : f32, f32
  }
  %n = gemm.finalize col (lse %c : tensor<?x16xf32>) -> (tensor<16xbf16>) {
  ^epilogue(%sum: f32):
    gemm.yield %sum : f32
  }
  func.return
}

// CHECK:      func.func @pairs(
// CHECK-NEXT:   %z, %partial = gemm.map pair<halves, 8> tile(%x : tensor<?x16xbf16>) half_table(%c : tensor<?x4xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>, partial_row<add> : tensor<?x?xf32>) {
// CHECK-NEXT:     ^epilogue
func.func @pairs(%x: tensor<?x16xbf16>, %c: tensor<?x4xf32>) -> tensor<?x16xbf16> {
  %z, %partial = gemm.map pair<halves, 8> tile(%x : tensor<?x16xbf16>) half_table(%c : tensor<?x4xf32>)
    -> (tile : tensor<?x16xbf16>, partial_row<add> : tensor<?x?xf32>) {
  ^epilogue(%a: f32, %b: f32, %angle: f32):
    %0 = arith.mulf %a, %angle : f32
    %1 = arith.mulf %b, %angle : f32
    %2 = arith.addf %0, %1 : f32
    gemm.yield %1, %0, %2 : f32, f32, f32
  }
  func.return %z : tensor<?x16xbf16>
}

// CHECK:      func.func @loss(
// CHECK-NEXT:   %l = gemm.finalize row (lse %p : tensor<?x?xf64>) col(%z : tensor<?xf32>, %t : tensor<?xi64>) -> (tensor<?xf32>) {
// CHECK-NEXT:   ^epilogue{{.*}}(%lse: f32, %rest: f32, %logit: f32, %target: i64):
// CHECK-NEXT:     %checked = gemm.checked_index %target {extent = 8 : i64, ignored = -100 : i64} : i64
func.func @loss(%p: tensor<?x?xf64>, %z: tensor<?xf32>, %t: tensor<?xi64>) -> tensor<?xf32> {
  %l = gemm.finalize row (lse %p : tensor<?x?xf64>) col(%z : tensor<?xf32>, %t : tensor<?xi64>) -> (tensor<?xf32>) {
  ^epilogue(%lse: f32, %rest: f32, %logit: f32, %target: i64):
    %checked = gemm.checked_index %target {extent = 8 : i64, ignored = -100 : i64} : i64
    %ignored = arith.constant -100 : i64
    %zero = arith.constant 0.0 : f32
    %is_ignored = arith.cmpi eq, %checked, %ignored : i64
    %difference = arith.subf %lse, %logit : f32
    %loss = arith.addf %difference, %rest : f32
    %y = arith.select %is_ignored, %zero, %loss : f32
    gemm.yield %y : f32
  }
  func.return %l : tensor<?xf32>
}

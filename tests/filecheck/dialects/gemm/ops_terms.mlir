// RUN: coda-opt %s | filecheck %s
// RUN: coda-opt %s | coda-opt -f mlir | filecheck %s
// RUN: coda-opt %s --print-op-generic | coda-opt -f mlir | filecheck %s
// RUN: coda-opt %s --print-op-generic | filecheck %s --check-prefix GENERIC

// Sums of products in one accumulator, transposed inputs, transposed tiles, results in place.

// CHECK:      func.func @terms(%dq: tensor<?x?x16xbf16>, %dk: tensor<?x?x8xbf16>, %wq: tensor<16x32xbf16>, %wk: tensor<8x32xbf16>, %wv: tensor<8x24xbf16>, %wu: tensor<16x24xbf16>) {
// CHECK-NEXT:   %dh, %dz = gemm.fused %dq : tensor<?x?x16xbf16> + %dk : tensor<?x?x8xbf16>
// CHECK-NEXT:     columns(%wq : tensor<16x32xbf16>) + (%wk : tensor<8x32xbf16>) kn
// CHECK-NEXT:       -> (tile : tensor<?x?x32xbf16>) {
// CHECK-NEXT:     ^epilogue(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     columns(%wu : tensor<16x24xbf16>, %wu : tensor<16x24xbf16>) + (%wv : tensor<8x24xbf16>, %wv : tensor<8x24xbf16>) kn pair<halves>
// CHECK-NEXT:       -> (half : tensor<?x?x24xbf16>) {
// CHECK-NEXT:     ^epilogue_1(%a: f32, %b: f32):
// CHECK-NEXT:       %0 = arith.mulf %a, %b : f32
// CHECK-NEXT:       gemm.yield %0 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return
// CHECK-NEXT: }
// GENERIC: %dh, %dz = "gemm.fused"(%dq, %dk, %wq, %wk, %wu, %wu, %wv, %wv) <{segments = [#gemm.segment<1, kn, [], [tile]>, #gemm.segment<2, kn, pair<halves>, [], [half]>], operandSegmentSizes = array<i32: 2, 6, 0, 0, 0, 0, 0, 0, 0, 0>}> ({
func.func @terms(%dq: tensor<?x?x16xbf16>, %dk: tensor<?x?x8xbf16>, %wq: tensor<16x32xbf16>, %wk: tensor<8x32xbf16>, %wv: tensor<8x24xbf16>, %wu: tensor<16x24xbf16>) {
  %dh, %dz = gemm.fused %dq : tensor<?x?x16xbf16> + %dk : tensor<?x?x8xbf16>
    columns(%wq : tensor<16x32xbf16>) + (%wk : tensor<8x32xbf16>) kn
    -> (tile : tensor<?x?x32xbf16>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }
    columns(%wu : tensor<16x24xbf16>, %wu : tensor<16x24xbf16>) + (%wv : tensor<8x24xbf16>, %wv : tensor<8x24xbf16>) kn pair<halves>
    -> (half : tensor<?x?x24xbf16>) {
  ^epilogue(%a: f32, %b: f32):
    %0 = arith.mulf %a, %b : f32
    gemm.yield %0 : f32
  }
  func.return
}

// CHECK:      func.func @weight_gradients(%h: tensor<?x?x8xbf16>, %dq: tensor<?x?x16xbf16>, %dk: tensor<?x?x4xbf16>, %grad: tensor<4x8xf32>) -> tensor<4x8xf32> {
// CHECK-NEXT:   %dwq, %sum = gemm.fused transposed %h : tensor<?x?x8xbf16>
// CHECK-NEXT:     schedule<pointer, "64x64x32", warps = 4, stages = 3, group_m = 8>
// CHECK-NEXT:     columns(%dq : tensor<?x?x16xbf16>) kn
// CHECK-NEXT:       -> (tile_t : tensor<16x8xbf16>) {
// CHECK-NEXT:     ^epilogue(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     columns(%dk : tensor<?x?x4xbf16>) kn tile_t(%grad : tensor<4x8xf32>)
// CHECK-NEXT:       -> (accumulate<0> : tensor<4x8xf32>) {
// CHECK-NEXT:     ^epilogue_1(%acc_1: f32, %old: f32):
// CHECK-NEXT:       %new = arith.addf %old, %acc_1 : f32
// CHECK-NEXT:       gemm.yield %new : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %sum : tensor<4x8xf32>
// CHECK-NEXT: }
// GENERIC: <{segments = [#gemm.segment<1, kn, [], [tile_t]>, #gemm.segment<1, kn, [tile_t], [accumulate<0>]>], transposed, schedule = #gemm.schedule<pointer, "64x64x32", warps = 4, stages = 3, group_m = 8>, operandSegmentSizes = array<i32: 1, 2, 0, 0, 0, 0, 0, 0, 0, 1>}>
func.func @weight_gradients(%h: tensor<?x?x8xbf16>, %dq: tensor<?x?x16xbf16>, %dk: tensor<?x?x4xbf16>, %grad: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %dwq, %sum = gemm.fused transposed %h : tensor<?x?x8xbf16>
    schedule<pointer, "64x64x32", warps = 4, stages = 3, group_m = 8>
    columns(%dq : tensor<?x?x16xbf16>) kn
    -> (tile_t : tensor<16x8xbf16>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }
    columns(%dk : tensor<?x?x4xbf16>) kn tile_t(%grad : tensor<4x8xf32>)
    -> (accumulate<0> : tensor<4x8xf32>) {
  ^epilogue(%acc: f32, %old: f32):
    %new = arith.addf %old, %acc : f32
    gemm.yield %new : f32
  }
  func.return %sum : tensor<4x8xf32>
}

// CHECK:      func.func @map_in_place(%x: tensor<?x8xf32>, %y: tensor<?x8xbf16>) -> tensor<?x8xf32> {
// CHECK-NEXT:   %z = gemm.map tile(%x : tensor<?x8xf32>, %y : tensor<?x8xbf16>)
// CHECK-NEXT:       -> (accumulate<0> : tensor<?x8xf32>) {
func.func @map_in_place(%x: tensor<?x8xf32>, %y: tensor<?x8xbf16>) -> tensor<?x8xf32> {
  %z = gemm.map
    tile(%x : tensor<?x8xf32>, %y : tensor<?x8xbf16>)
    -> (accumulate<0> : tensor<?x8xf32>) {
  ^epilogue(%a: f32, %b: f32):
    %0 = arith.addf %a, %b : f32
    gemm.yield %0 : f32
  }
  func.return %z : tensor<?x8xf32>
}

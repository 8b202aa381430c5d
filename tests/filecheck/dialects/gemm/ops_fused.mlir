// RUN: coda-opt %s | filecheck %s
// RUN: coda-opt %s | coda-opt -f mlir | filecheck %s
// RUN: coda-opt %s --print-op-generic | coda-opt -f mlir | filecheck %s
// RUN: coda-opt %s --print-op-generic | filecheck %s --check-prefix GENERIC

// Every kind of port and result, pairs, several segments, a schedule.

// CHECK:      func.func @plain(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %res: tensor<?x16xbf16>, %g: tensor<16xbf16>, %r: tensor<?x1xf32>, %s: tensor<f32>, %tab: tensor<?x4xbf16>, %i: tensor<?xi64>) {
// CHECK-NEXT:   %x1, %h, %ssq, %cols, %picked = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<16x8xbf16>) tile(%res : tensor<?x16xbf16>) row(%g : tensor<16xbf16>) col(%r : tensor<?x1xf32>) scalar(%s : tensor<f32>) table(%tab : tensor<?x4xbf16>) col(%i : tensor<?xi64>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>, tile : tensor<?x16xf32>, partial_row<add> : tensor<?x?xf32>, partial_col<max> : tensor<?x16xf32>, select<5> : tensor<?xf32>) {
// CHECK-NEXT:     ^epilogue(%acc: f32, %p: f32, %gamma: f32, %rstd: f32, %scale: f32, %angle: f32, %index: i64):
// CHECK-NEXT:       %0 = arith.addf %acc, %p : f32
// CHECK-NEXT:       %1 = arith.mulf %0, %0 : f32
// CHECK-NEXT:       %2 = arith.mulf %0, %gamma : f32
// CHECK-NEXT:       %3 = arith.mulf %2, %rstd : f32
// CHECK-NEXT:       %4 = arith.mulf %3, %scale : f32
// CHECK-NEXT:       %5 = arith.addf %4, %angle : f32
// CHECK-NEXT:       gemm.yield %0, %5, %1, %0, %0 : f32, f32, f32, f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return
// CHECK-NEXT: }
// GENERIC: %x1, %h, %ssq, %cols, %picked = "gemm.fused"(%x, %w, %res, %g, %r, %s, %tab, %i) <{segments = [#gemm.segment<1, nk, [tile, row, col, scalar, table, col], [tile, tile, partial_row<add>, partial_col<max>, select<5>]>], operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0, 0, 0, 6>}> ({
func.func @plain(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %res: tensor<?x16xbf16>, %g: tensor<16xbf16>, %r: tensor<?x1xf32>, %s: tensor<f32>, %tab: tensor<?x4xbf16>, %i: tensor<?xi64>) {
  %x1, %h, %ssq, %cols, %picked = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>) tile(%res : tensor<?x16xbf16>) row(%g : tensor<16xbf16>) col(%r : tensor<?x1xf32>) scalar(%s : tensor<f32>) table(%tab : tensor<?x4xbf16>) col(%i : tensor<?xi64>)
    -> (tile : tensor<?x16xbf16>, tile : tensor<?x16xf32>, partial_row<add> : tensor<?x?xf32>, partial_col<max> : tensor<?x16xf32>, select<5> : tensor<?xf32>) {
  ^epilogue(%acc: f32, %p: f32, %gamma: f32, %rstd: f32, %scale: f32, %angle: f32, %index: i64):
    %0 = arith.addf %acc, %p : f32
    %1 = arith.mulf %0, %0 : f32
    %2 = arith.mulf %0, %gamma : f32
    %3 = arith.mulf %2, %rstd : f32
    %4 = arith.mulf %3, %scale : f32
    %5 = arith.addf %4, %angle : f32
    gemm.yield %0, %5, %1, %0, %0 : f32, f32, f32, f32, f32
  }
  func.return
}

// CHECK:      func.func @glu(%x: tensor<?x?x8xbf16>, %gate: tensor<16x8xbf16>, %up: tensor<16x8xbf16>) {
// CHECK-NEXT:   %a = gemm.fused %x : tensor<?x?x8xbf16>
// CHECK-NEXT:     columns(%gate : tensor<16x8xbf16>, %up : tensor<16x8xbf16>) pair<halves>
// CHECK-NEXT:       -> (half : tensor<?x?x16xbf16>) {
// CHECK-NEXT:     ^epilogue(%g: f32, %u: f32):
// CHECK-NEXT:       %0 = arith.mulf %g, %u : f32
// CHECK-NEXT:       gemm.yield %0 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return
// CHECK-NEXT: }
// GENERIC: %a = "gemm.fused"(%x, %gate, %up) <{segments = [#gemm.segment<2, nk, pair<halves>, [], [half]>], operandSegmentSizes = array<i32: 1, 2, 0, 0, 0, 0, 0, 0, 0, 0>}> ({
func.func @glu(%x: tensor<?x?x8xbf16>, %gate: tensor<16x8xbf16>, %up: tensor<16x8xbf16>) {
  %a = gemm.fused %x : tensor<?x?x8xbf16>
    columns(%gate : tensor<16x8xbf16>, %up : tensor<16x8xbf16>) pair<halves>
    -> (half : tensor<?x?x16xbf16>) {
  ^epilogue(%g: f32, %u: f32):
    %0 = arith.mulf %g, %u : f32
    gemm.yield %0 : f32
  }
  func.return
}

// CHECK:      func.func @qkv(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %v: tensor<8x16xbf16>, %cos: tensor<?x2xf32>, %sin: tensor<?x2xf32>, %t: tensor<?x8xbf16>, %b: tensor<8xbf16>) {
// CHECK-NEXT:   %q, %k, %l = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     schedule<tma, "128x256x64", warps = 8, stages = 3, group_m = 8>
// CHECK-NEXT:     columns(%w : tensor<16x8xbf16>) pair<halves, 4> half_table(%cos : tensor<?x2xf32>, %sin : tensor<?x2xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^epilogue(%a: f32, %b0: f32, %c: f32, %s: f32):
// CHECK-NEXT:       %0 = arith.mulf %a, %c : f32
// CHECK-NEXT:       %1 = arith.mulf %b0, %s : f32
// CHECK-NEXT:       gemm.yield %0, %1 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:     columns(%v : tensor<8x16xbf16>) kn pair<adjacent> half_tile(%t : tensor<?x8xbf16>) half_row(%b : tensor<8xbf16>)
// CHECK-NEXT:       -> (partial_row<lse> : tensor<?x?xf32>) {
// CHECK-NEXT:     ^epilogue_1(%a_1: f32, %b0_1: f32, %c_1: f32, %d: f32):
// CHECK-NEXT:       %2 = arith.addf %a_1, %b0_1 : f32
// CHECK-NEXT:       gemm.yield %2 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     columns(%w : tensor<16x8xbf16>, %w : tensor<16x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x32xf32>) {
// CHECK-NEXT:     ^epilogue_2(%a_2: f32):
// CHECK-NEXT:       %sq = arith.mulf %a_2, %a_2 : f32
// CHECK-NEXT:       %sum = gemm.group_reduce add %sq over 8 : f32
// CHECK-NEXT:       gemm.yield %sum : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return
// CHECK-NEXT: }
// GENERIC: %q, %k, %l = "gemm.fused"(%x, %w, %v, %w, %w, %cos, %sin, %t, %b) <{segments = [#gemm.segment<1, nk, pair<halves, 4>, [half_table, half_table], [tile]>, #gemm.segment<1, kn, pair<adjacent>, [half_tile, half_row], [partial_row<lse>]>, #gemm.segment<2, nk, [], [tile]>], schedule = #gemm.schedule<tma, "128x256x64", warps = 8, stages = 3, group_m = 8>, operandSegmentSizes = array<i32: 1, 4, 0, 0, 0, 0, 0, 0, 0, 4>}> ({
func.func @qkv(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %v: tensor<8x16xbf16>, %cos: tensor<?x2xf32>, %sin: tensor<?x2xf32>, %t: tensor<?x8xbf16>, %b: tensor<8xbf16>) {
  %q, %k, %l = gemm.fused %x : tensor<?x8xbf16>
    schedule<tma, "128x256x64", warps = 8, stages = 3, group_m = 8>
    columns(%w : tensor<16x8xbf16>) pair<halves, 4> half_table(%cos : tensor<?x2xf32>, %sin : tensor<?x2xf32>)
    -> (tile : tensor<?x16xbf16>) {
  ^epilogue(%a: f32, %b0: f32, %c: f32, %s: f32):
    %0 = arith.mulf %a, %c : f32
    %1 = arith.mulf %b0, %s : f32
    gemm.yield %0, %1 : f32, f32
  }
    columns(%v : tensor<8x16xbf16>) kn pair<adjacent> half_tile(%t : tensor<?x8xbf16>) half_row(%b : tensor<8xbf16>)
    -> (partial_row<lse> : tensor<?x?xf32>) {
  ^epilogue(%a: f32, %b0: f32, %c: f32, %d: f32):
    %0 = arith.addf %a, %b0 : f32
    gemm.yield %0 : f32
  }
    columns(%w : tensor<16x8xbf16>, %w : tensor<16x8xbf16>)
    -> (tile : tensor<?x32xf32>) {
  ^epilogue(%a: f32):
    %sq = arith.mulf %a, %a : f32
    %sum = gemm.group_reduce add %sq over 8 : f32
    gemm.yield %sum : f32
  }
  func.return
}

// RUN: coda-opt %s -p number-groups --split-input-file | filecheck %s
// RUN: coda-opt %s -p number-groups --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// Ids of the caller may be any numbers.

func.func @unknown(%x: tensor<2x8xf32>, %scores: tensor<2x4xf32>, %w: tensor<4x12x8xf32>, %v: tensor<4x16x6xf32>, %r: tensor<2x16xf32>, %s: tensor<4xf32>, %chosen: tensor<4xi64>) -> tensor<2x16xf32> {
  %order, %ends = coda.group_order %chosen {groups = 4 : i64} : (tensor<4xi64>) -> (tensor<4xi64>, tensor<4xi32>)
  %rows = gemm.map tile(%order : tensor<4xi64>)
      -> (tile : tensor<4xi64>) {
    ^bb0(%number: i64):
      %two = arith.constant 2 : i64
      %row = arith.floordivsi %number, %two : i64
      gemm.yield %row : i64
    }
  %h = gemm.fused %x : tensor<2x8xf32> groups(%ends : tensor<4xi32>) gather(%rows : tensor<4xi64>)
    columns(%w : tensor<4x12x8xf32>) pair<halves>
      -> (half : tensor<4x6xf32>) {
    ^bb0(%gate: f32, %up: f32):
      %product = arith.mulf %gate, %up : f32
      gemm.yield %product : f32
    }
  %y = gemm.fused %h : tensor<4x6xf32> groups(%ends : tensor<4xi32>) scatter(%order : tensor<4xi64>)
    columns(%v : tensor<4x16x6xf32>) scatter_col(%s : tensor<4xf32>)
      -> (tile : tensor<4x16xf32>) {
    ^bb0(%acc: f32, %scale: f32):
      %scaled = arith.mulf %acc, %scale : f32
      gemm.yield %scaled : f32
    }
  %side = coda.reshape %y : (tensor<4x16xf32>) -> tensor<2x2x16xf32>
  %a = coda.slice %side {dim = 1 : i64, start = 0 : i64, stop = 1 : i64} : (tensor<2x2x16xf32>) -> tensor<2x1x16xf32>
  %b = coda.slice %side {dim = 1 : i64, start = 1 : i64, stop = 2 : i64} : (tensor<2x2x16xf32>) -> tensor<2x1x16xf32>
  %c = coda.reshape %a : (tensor<2x1x16xf32>) -> tensor<2x16xf32>
  %d = coda.reshape %b : (tensor<2x1x16xf32>) -> tensor<2x16xf32>
  %z = gemm.map tile(%c : tensor<2x16xf32>, %d : tensor<2x16xf32>, %r : tensor<2x16xf32>)
      -> (tile : tensor<2x16xf32>) {
    ^bb0(%e: f32, %f: f32, %residual: f32):
      %sum = arith.addf %e, %f : f32
      %result = arith.addf %residual, %sum : f32
      gemm.yield %result : f32
    }
  func.return %z : tensor<2x16xf32>
}

// CHECK:      func.func @unknown(%x: tensor<2x8xf32>, %scores: tensor<2x4xf32>, %w: tensor<4x12x8xf32>, %v: tensor<4x16x6xf32>, %r: tensor<2x16xf32>, %s: tensor<4xf32>, %chosen: tensor<4xi64>) -> tensor<2x16xf32> {
// CHECK-NEXT: }

// REMARK: remark[missed] number-groups: gemm.fused: sorts %chosen, which may contain other numbers; failed condition: the ids are known to be numbers of groups, and their count is known; costs 1952 bytes

// -----

// Each row is read four times by its number divided by four.

func.func @divided(%x: tensor<2x8xf32>, %scores: tensor<2x4xf32>, %w: tensor<4x12x8xf32>, %v: tensor<4x16x6xf32>, %r: tensor<2x16xf32>, %s: tensor<4xf32>) -> tensor<2x16xf32> {
  %largest, %chosen = coda.topk %scores {k = 2 : i64, dim = 1 : i64} : (tensor<2x4xf32>) -> (tensor<2x2xf32>, tensor<2x2xi64>)
  %ids = coda.reshape %chosen : (tensor<2x2xi64>) -> tensor<4xi64>
  %order, %ends = coda.group_order %ids {groups = 4 : i64} : (tensor<4xi64>) -> (tensor<4xi64>, tensor<4xi32>)
  %rows = gemm.map tile(%order : tensor<4xi64>)
      -> (tile : tensor<4xi64>) {
    ^bb0(%number: i64):
      %two = arith.constant 4 : i64
      %row = arith.floordivsi %number, %two : i64
      gemm.yield %row : i64
    }
  %h = gemm.fused %x : tensor<2x8xf32> groups(%ends : tensor<4xi32>) gather(%rows : tensor<4xi64>)
    columns(%w : tensor<4x12x8xf32>) pair<halves>
      -> (half : tensor<4x6xf32>) {
    ^bb0(%gate: f32, %up: f32):
      %product = arith.mulf %gate, %up : f32
      gemm.yield %product : f32
    }
  %y = gemm.fused %h : tensor<4x6xf32> groups(%ends : tensor<4xi32>) scatter(%order : tensor<4xi64>)
    columns(%v : tensor<4x16x6xf32>) scatter_col(%s : tensor<4xf32>)
      -> (tile : tensor<4x16xf32>) {
    ^bb0(%acc: f32, %scale: f32):
      %scaled = arith.mulf %acc, %scale : f32
      gemm.yield %scaled : f32
    }
  %side = coda.reshape %y : (tensor<4x16xf32>) -> tensor<2x2x16xf32>
  %a = coda.slice %side {dim = 1 : i64, start = 0 : i64, stop = 1 : i64} : (tensor<2x2x16xf32>) -> tensor<2x1x16xf32>
  %b = coda.slice %side {dim = 1 : i64, start = 1 : i64, stop = 2 : i64} : (tensor<2x2x16xf32>) -> tensor<2x1x16xf32>
  %c = coda.reshape %a : (tensor<2x1x16xf32>) -> tensor<2x16xf32>
  %d = coda.reshape %b : (tensor<2x1x16xf32>) -> tensor<2x16xf32>
  %z = gemm.map tile(%c : tensor<2x16xf32>, %d : tensor<2x16xf32>, %r : tensor<2x16xf32>)
      -> (tile : tensor<2x16xf32>) {
    ^bb0(%e: f32, %f: f32, %residual: f32):
      %sum = arith.addf %e, %f : f32
      %result = arith.addf %residual, %sum : f32
      gemm.yield %result : f32
    }
  func.return %z : tensor<2x16xf32>
}

// CHECK:      func.func @divided(%x: tensor<2x8xf32>, %scores: tensor<2x4xf32>, %w: tensor<4x12x8xf32>, %v: tensor<4x16x6xf32>, %r: tensor<2x16xf32>, %s: tensor<4xf32>) -> tensor<2x16xf32> {
// CHECK-NEXT: }

// REMARK: remark[missed] number-groups: gemm.fused: sorts rows: %h has them in the order of their groups; failed condition: a GEMM that gathers rows of the same order computes what this one multiplies; costs 1952 bytes

// -----

// A bias of each group is found by the group of a tile.

func.func @biased(%x: tensor<2x8xf32>, %scores: tensor<2x4xf32>, %w: tensor<4x12x8xf32>, %v: tensor<4x16x6xf32>, %r: tensor<2x16xf32>, %s: tensor<4xf32>, %bias: tensor<4x6xf32>) -> tensor<2x16xf32> {
  %largest, %chosen = coda.topk %scores {k = 2 : i64, dim = 1 : i64} : (tensor<2x4xf32>) -> (tensor<2x2xf32>, tensor<2x2xi64>)
  %ids = coda.reshape %chosen : (tensor<2x2xi64>) -> tensor<4xi64>
  %order, %ends = coda.group_order %ids {groups = 4 : i64} : (tensor<4xi64>) -> (tensor<4xi64>, tensor<4xi32>)
  %rows = gemm.map tile(%order : tensor<4xi64>)
      -> (tile : tensor<4xi64>) {
    ^bb0(%number: i64):
      %two = arith.constant 2 : i64
      %row = arith.floordivsi %number, %two : i64
      gemm.yield %row : i64
    }
  %h = gemm.fused %x : tensor<2x8xf32> groups(%ends : tensor<4xi32>) gather(%rows : tensor<4xi64>)
    columns(%w : tensor<4x12x8xf32>) pair<halves> half_group_row(%bias : tensor<4x6xf32>)
      -> (half : tensor<4x6xf32>) {
    ^bb0(%gate: f32, %up: f32, %b1: f32):
      %product = arith.mulf %gate, %up : f32
      gemm.yield %product : f32
    }
  %y = gemm.fused %h : tensor<4x6xf32> groups(%ends : tensor<4xi32>) scatter(%order : tensor<4xi64>)
    columns(%v : tensor<4x16x6xf32>) scatter_col(%s : tensor<4xf32>)
      -> (tile : tensor<4x16xf32>) {
    ^bb0(%acc: f32, %scale: f32):
      %scaled = arith.mulf %acc, %scale : f32
      gemm.yield %scaled : f32
    }
  %side = coda.reshape %y : (tensor<4x16xf32>) -> tensor<2x2x16xf32>
  %a = coda.slice %side {dim = 1 : i64, start = 0 : i64, stop = 1 : i64} : (tensor<2x2x16xf32>) -> tensor<2x1x16xf32>
  %b = coda.slice %side {dim = 1 : i64, start = 1 : i64, stop = 2 : i64} : (tensor<2x2x16xf32>) -> tensor<2x1x16xf32>
  %c = coda.reshape %a : (tensor<2x1x16xf32>) -> tensor<2x16xf32>
  %d = coda.reshape %b : (tensor<2x1x16xf32>) -> tensor<2x16xf32>
  %z = gemm.map tile(%c : tensor<2x16xf32>, %d : tensor<2x16xf32>, %r : tensor<2x16xf32>)
      -> (tile : tensor<2x16xf32>) {
    ^bb0(%e: f32, %f: f32, %residual: f32):
      %sum = arith.addf %e, %f : f32
      %result = arith.addf %residual, %sum : f32
      gemm.yield %result : f32
    }
  func.return %z : tensor<2x16xf32>
}

// CHECK:      func.func @biased(%x: tensor<2x8xf32>, %scores: tensor<2x4xf32>, %w: tensor<4x12x8xf32>, %v: tensor<4x16x6xf32>, %r: tensor<2x16xf32>, %s: tensor<4xf32>, %bias: tensor<4x6xf32>) -> tensor<2x16xf32> {
// CHECK-NEXT: }

// REMARK: remark[missed] number-groups: gemm.fused: sorts rows: %bias is by row or by group; failed condition: operands of the epilogues serve all rows, or are factors in the order of the results; costs 1952 bytes

// -----

// Columns of K x N do not lie side by side along K.

func.func @stored(%x: tensor<2x8xf32>, %scores: tensor<2x4xf32>, %w: tensor<4x12x8xf32>, %v: tensor<4x16x6xf32>, %r: tensor<2x16xf32>, %s: tensor<4xf32>, %u: tensor<4x6x16xf32>) -> tensor<2x16xf32> {
  %largest, %chosen = coda.topk %scores {k = 2 : i64, dim = 1 : i64} : (tensor<2x4xf32>) -> (tensor<2x2xf32>, tensor<2x2xi64>)
  %ids = coda.reshape %chosen : (tensor<2x2xi64>) -> tensor<4xi64>
  %order, %ends = coda.group_order %ids {groups = 4 : i64} : (tensor<4xi64>) -> (tensor<4xi64>, tensor<4xi32>)
  %rows = gemm.map tile(%order : tensor<4xi64>)
      -> (tile : tensor<4xi64>) {
    ^bb0(%number: i64):
      %two = arith.constant 2 : i64
      %row = arith.floordivsi %number, %two : i64
      gemm.yield %row : i64
    }
  %h = gemm.fused %x : tensor<2x8xf32> groups(%ends : tensor<4xi32>) gather(%rows : tensor<4xi64>)
    columns(%w : tensor<4x12x8xf32>) pair<halves>
      -> (half : tensor<4x6xf32>) {
    ^bb0(%gate: f32, %up: f32):
      %product = arith.mulf %gate, %up : f32
      gemm.yield %product : f32
    }
  %y = gemm.fused %h : tensor<4x6xf32> groups(%ends : tensor<4xi32>) scatter(%order : tensor<4xi64>)
    columns(%u : tensor<4x6x16xf32>) kn scatter_col(%s : tensor<4xf32>)
      -> (tile : tensor<4x16xf32>) {
    ^bb0(%acc: f32, %scale: f32):
      %scaled = arith.mulf %acc, %scale : f32
      gemm.yield %scaled : f32
    }
  %side = coda.reshape %y : (tensor<4x16xf32>) -> tensor<2x2x16xf32>
  %a = coda.slice %side {dim = 1 : i64, start = 0 : i64, stop = 1 : i64} : (tensor<2x2x16xf32>) -> tensor<2x1x16xf32>
  %b = coda.slice %side {dim = 1 : i64, start = 1 : i64, stop = 2 : i64} : (tensor<2x2x16xf32>) -> tensor<2x1x16xf32>
  %c = coda.reshape %a : (tensor<2x1x16xf32>) -> tensor<2x16xf32>
  %d = coda.reshape %b : (tensor<2x1x16xf32>) -> tensor<2x16xf32>
  %z = gemm.map tile(%c : tensor<2x16xf32>, %d : tensor<2x16xf32>, %r : tensor<2x16xf32>)
      -> (tile : tensor<2x16xf32>) {
    ^bb0(%e: f32, %f: f32, %residual: f32):
      %sum = arith.addf %e, %f : f32
      %result = arith.addf %residual, %sum : f32
      gemm.yield %result : f32
    }
  func.return %z : tensor<2x16xf32>
}

// CHECK:      func.func @stored(%x: tensor<2x8xf32>, %scores: tensor<2x4xf32>, %w: tensor<4x12x8xf32>, %v: tensor<4x16x6xf32>, %r: tensor<2x16xf32>, %s: tensor<4xf32>, %u: tensor<4x6x16xf32>) -> tensor<2x16xf32> {
// CHECK-NEXT: }

// REMARK: remark[missed] number-groups: gemm.fused: sorts rows: %u has another layout, or the program states the order of K; failed condition: rows are multiplied one by one by weights of N x K, in any fixed order of K; costs 1952 bytes

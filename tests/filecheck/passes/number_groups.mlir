// RUN: coda-opt %s -p number-groups,dce --split-input-file | filecheck %s
// RUN: coda-opt %s -p number-groups,dce --split-input-file --remarks=passed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// The experts of two tokens: factors of their results scale the rows that are multiplied, and the
// products of a token are added up.

func.func @tokens(%x: tensor<2x8xf32>, %scores: tensor<2x4xf32>, %w: tensor<4x12x8xf32>, %v: tensor<4x16x6xf32>, %r: tensor<2x16xf32>, %s: tensor<4xf32>) -> tensor<2x16xf32> {
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

// CHECK:      func.func @tokens(%x: tensor<2x8xf32>, %scores: tensor<2x4xf32>, %w: tensor<4x12x8xf32>, %v: tensor<4x16x6xf32>, %r: tensor<2x16xf32>, %s: tensor<4xf32>) -> tensor<2x16xf32> {
// CHECK-NEXT: }

// REMARK: remark[passed] number-groups: gemm.fused: its rows name their groups, so nothing is sorted
// REMARK: remark[passed] number-groups: gemm.map: 2 rows are added up by the GEMM that computes them

// -----

// Rows that are not added up stay in the order of their numbers.

func.func @rows(%x: tensor<2x8xf32>, %scores: tensor<2x4xf32>, %w: tensor<4x12x8xf32>, %v: tensor<4x16x6xf32>, %r: tensor<2x16xf32>, %s: tensor<4xf32>) -> tensor<4x16xf32> {
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
    columns(%v : tensor<4x16x6xf32>) scatter_col(%s : tensor<4xf32>)
      -> (tile : tensor<4x16xf32>) {
    ^bb0(%acc: f32, %scale: f32):
      %scaled = arith.mulf %acc, %scale : f32
      gemm.yield %scaled : f32
    }
  func.return %y : tensor<4x16xf32>
}

// CHECK:      func.func @rows(%x: tensor<2x8xf32>, %scores: tensor<2x4xf32>, %w: tensor<4x12x8xf32>, %v: tensor<4x16x6xf32>, %r: tensor<2x16xf32>, %s: tensor<4xf32>) -> tensor<4x16xf32> {
// CHECK-NEXT: }

// -----

// A product of the rows is no sum.

func.func @product(%x: tensor<2x8xf32>, %scores: tensor<2x4xf32>, %w: tensor<4x12x8xf32>, %v: tensor<4x16x6xf32>, %r: tensor<2x16xf32>, %s: tensor<4xf32>) -> tensor<2x16xf32> {
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
      %sum = arith.mulf %e, %f : f32
      %result = arith.addf %residual, %sum : f32
      gemm.yield %result : f32
    }
  func.return %z : tensor<2x16xf32>
}

// CHECK:      func.func @product(%x: tensor<2x8xf32>, %scores: tensor<2x4xf32>, %w: tensor<4x12x8xf32>, %v: tensor<4x16x6xf32>, %r: tensor<2x16xf32>, %s: tensor<4xf32>) -> tensor<2x16xf32> {
// CHECK-NEXT: }

// -----

// A row that is added twice.

func.func @twice(%x: tensor<2x8xf32>, %scores: tensor<2x4xf32>, %w: tensor<4x12x8xf32>, %v: tensor<4x16x6xf32>, %r: tensor<2x16xf32>, %s: tensor<4xf32>) -> tensor<2x16xf32> {
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
      %both = arith.addf %e, %f : f32
      %sum = arith.addf %both, %e : f32
      %result = arith.addf %residual, %sum : f32
      gemm.yield %result : f32
    }
  func.return %z : tensor<2x16xf32>
}

// CHECK:      func.func @twice(%x: tensor<2x8xf32>, %scores: tensor<2x4xf32>, %w: tensor<4x12x8xf32>, %v: tensor<4x16x6xf32>, %r: tensor<2x16xf32>, %s: tensor<4xf32>) -> tensor<2x16xf32> {
// CHECK-NEXT: }

// RUN: coda-opt %s | filecheck %s
// RUN: coda-opt %s | coda-opt -f mlir | filecheck %s
// RUN: coda-opt %s --print-op-generic | coda-opt -f mlir | filecheck %s

// One element for each group of columns: of a GEMM, of pairs, of a pointwise kernel, of what has no columns.

func.func @quantized(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %c: tensor<?x1xf32>) {
  %q, %scale, %column = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>) col(%c : tensor<?x1xf32>)
      -> (tile : tensor<?x16xi8>, group<4> : tensor<?x4xf32>, group<8> : tensor<?x2xf32>) {
    ^bb0(%acc: f32, %column: f32):
      %largest = gemm.group_reduce max %acc over 8 : f32
      %scale = arith.mulf %largest, %column : f32
      %y = arith.divf %acc, %scale : f32
      %q = arith.fptosi %y : f32 to i32
      gemm.yield %q, %scale, %column : i32, f32, f32
    }
  func.return
}

func.func @pairs(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) {
  %y, %scale = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>) pair<halves>
      -> (half : tensor<?x8xf8E4M3FN>, group<8> : tensor<?x2xf32>) {
    ^bb0(%a: f32, %b: f32):
      %product = arith.mulf %a, %b : f32
      %scale = gemm.group_reduce add %product over 8 : f32
      gemm.yield %product, %scale : f32, f32
    }
  func.return
}

func.func @map(%x: tensor<?x16xui8>) {
  %y, %scale = gemm.map tile(%x : tensor<?x16xui8>)
      -> (tile : tensor<?x16xi8>, group<16> : tensor<?x1xf32>) {
    ^bb0(%a: i32):
      %float = arith.sitofp %a : i32 to f32
      %scale = gemm.group_reduce add %float over 16 : f32
      gemm.yield %a, %scale : i32, f32
    }
  func.return
}

// CHECK:      func.func @quantized(
// CHECK-NEXT:   %q, %scale, %column = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<16x8xbf16>) col(%c : tensor<?x1xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xi8>, group<4> : tensor<?x4xf32>, group<8> : tensor<?x2xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %column_1: f32):
// CHECK-NEXT:       %largest = gemm.group_reduce max %acc over 8 : f32
// CHECK-NEXT:       %scale_1 = arith.mulf %largest, %column_1 : f32
// CHECK-NEXT:       %y = arith.divf %acc, %scale_1 : f32
// CHECK-NEXT:       %q_1 = arith.fptosi %y : f32 to i32
// CHECK-NEXT:       gemm.yield %q_1, %scale_1, %column_1 : i32, f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

// CHECK:      func.func @pairs(
// CHECK:       -> (half : tensor<?x8xf8E4M3FN>, group<8> : tensor<?x2xf32>) {
// CHECK:      func.func @map(
// CHECK-NEXT:   %y, %scale = gemm.map tile(%x : tensor<?x16xui8>)
// CHECK-NEXT:       -> (tile : tensor<?x16xi8>, group<16> : tensor<?x1xf32>) {
// CHECK-NEXT:     ^bb0(%a: i32):

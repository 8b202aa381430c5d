// RUN: coda-opt %s | filecheck %s
// RUN: coda-opt %s | coda-opt -f mlir | filecheck %s
// RUN: coda-opt %s --print-op-generic | coda-opt -f mlir | filecheck %s

// An element for each group of columns: of all rows, of samples, of one row, and in pair mode.

func.func @groups(%x: tensor<?x?x8xbf16>, %w: tensor<16x8xbf16>, %s: tensor<?x?x4xbf16>, %b: tensor<?x1x2xf32>, %g: tensor<8xf32>) {
  %y, %t = gemm.fused %x : tensor<?x?x8xbf16>
    columns(%w : tensor<16x8xbf16>) group(%s : tensor<?x?x4xbf16>, %b : tensor<?x1x2xf32>, %g : tensor<8xf32>)
    -> (tile : tensor<?x?x16xbf16>, group<4> : tensor<?x?x4xf32>) {
  ^epilogue(%acc: f32, %scale: f32, %shift: f32, %gain: f32):
    %0 = arith.mulf %acc, %scale : f32
    %1 = arith.mulf %0, %gain : f32
    %2 = arith.addf %scale, %shift : f32
    gemm.yield %1, %2 : f32, f32
  }
  %h, %u = gemm.fused %x : tensor<?x?x8xbf16>
    columns(%w : tensor<16x8xbf16>) pair<halves, 4> group(%s : tensor<?x?x4xbf16>) half_group(%b : tensor<?x1x2xf32>)
    -> (half : tensor<?x?x8xbf16>, group<4> : tensor<?x?x4xf32>) {
  ^epilogue(%a: f32, %c: f32, %first: f32, %second: f32, %shift: f32):
    %0 = arith.mulf %a, %first : f32
    %1 = arith.mulf %c, %second : f32
    %2 = arith.addf %0, %1 : f32
    %3 = arith.addf %first, %shift : f32
    gemm.yield %2, %3 : f32, f32
  }
  %z = gemm.map tile(%x : tensor<?x?x8xbf16>) group(%s : tensor<?x?x4xbf16>) -> (tile : tensor<?x?x8xbf16>) {
  ^epilogue(%a: f32, %scale: f32):
    %0 = arith.divf %a, %scale : f32
    gemm.yield %0 : f32
  }
  func.return
}

// CHECK:      func.func @groups(%x: tensor<?x?x8xbf16>, %w: tensor<16x8xbf16>, %s: tensor<?x?x4xbf16>, %b: tensor<?x1x2xf32>, %g: tensor<8xf32>) {
// CHECK-NEXT:   %y, %t = gemm.fused %x : tensor<?x?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<16x8xbf16>) group(%s : tensor<?x?x4xbf16>, %b : tensor<?x1x2xf32>, %g : tensor<8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x?x16xbf16>, group<4> : tensor<?x?x4xf32>) {
// CHECK-NEXT:     ^epilogue(%acc: f32, %scale: f32, %shift: f32, %gain: f32):
// CHECK-NEXT:       %0 = arith.mulf %acc, %scale : f32
// CHECK-NEXT:       %1 = arith.mulf %0, %gain : f32
// CHECK-NEXT:       %2 = arith.addf %scale, %shift : f32
// CHECK-NEXT:       gemm.yield %1, %2 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %h, %u = gemm.fused %x : tensor<?x?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<16x8xbf16>) pair<halves, 4> group(%s : tensor<?x?x4xbf16>) half_group(%b : tensor<?x1x2xf32>)
// CHECK-NEXT:       -> (half : tensor<?x?x8xbf16>, group<4> : tensor<?x?x4xf32>) {
// CHECK-NEXT:     ^epilogue(%a: f32, %c: f32, %first: f32, %second: f32, %shift: f32):
// CHECK-NEXT:       %0 = arith.mulf %a, %first : f32
// CHECK-NEXT:       %1 = arith.mulf %c, %second : f32
// CHECK-NEXT:       %2 = arith.addf %0, %1 : f32
// CHECK-NEXT:       %3 = arith.addf %first, %shift : f32
// CHECK-NEXT:       gemm.yield %2, %3 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %z = gemm.map tile(%x : tensor<?x?x8xbf16>) group(%s : tensor<?x?x4xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x?x8xbf16>) {
// CHECK-NEXT:     ^epilogue(%a: f32, %scale: f32):
// CHECK-NEXT:       %0 = arith.divf %a, %scale : f32
// CHECK-NEXT:       gemm.yield %0 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

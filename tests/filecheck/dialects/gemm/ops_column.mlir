// RUN: coda-opt %s | filecheck %s
// RUN: coda-opt %s | coda-opt -f mlir | filecheck %s
// RUN: coda-opt %s --print-op-generic | coda-opt -f mlir | filecheck %s

// The number of the column in the region of a GEMM, and of a pointwise kernel.

// CHECK:      ^epilogue(%acc: f32, %target: i64):
// CHECK-NEXT:   %n = gemm.column : i64
// CHECK-NEXT:   %is_target = arith.cmpi eq, %n, %target : i64
func.func @fused(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %t: tensor<?xi64>) -> tensor<?x16xbf16> {
  %y = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>) col(%t : tensor<?xi64>)
    -> (tile : tensor<?x16xbf16>) {
  ^epilogue(%acc: f32, %target: i64):
    %n = gemm.column : i64
    %is_target = arith.cmpi eq, %n, %target : i64
    %zero = arith.constant 0.0 : f32
    %y_1 = arith.select %is_target, %acc, %zero : f32
    gemm.yield %y_1 : f32
  }
  func.return %y : tensor<?x16xbf16>
}

// CHECK:      ^epilogue(%a: f32):
// CHECK-NEXT:   %n = gemm.column : i32
// CHECK-NEXT:   %position = arith.sitofp %n : i32 to f32
func.func @map(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %y = gemm.map tile(%x : tensor<?x8xf32>)
    -> (tile : tensor<?x8xf32>) {
  ^epilogue(%a: f32):
    %n = gemm.column : i32
    %position = arith.sitofp %n : i32 to f32
    %y_1 = arith.mulf %a, %position : f32
    gemm.yield %y_1 : f32
  }
  func.return %y : tensor<?x8xf32>
}

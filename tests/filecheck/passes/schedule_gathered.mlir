// RUN: coda-opt %s -p "schedule{target=sm_90 mainloop=warp_specialized}" | filecheck %s
// RUN: coda-opt %s -p "schedule{target=sm_90 mainloop=warp_specialized}" --remarks -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// Rows that many tiles of columns would gather are copied, once for both GEMMs.

func.func @many_columns(%x: tensor<?x512xbf16> {coda.dims = ["T", 512 : i64]}, %s: tensor<?x1xf32> {coda.dims = ["T", 1 : i64]}, %e: tensor<?xi64> {coda.dims = ["2*T"]}, %ends: tensor<2xi32>, %w: tensor<2x8192x512xbf16>, %dz: tensor<?x4096xbf16> {coda.dims = ["2*T", 4096 : i64]}) -> (tensor<?x8192xbf16>, tensor<2x512x4096xbf16>) {
  %sorted, %order = coda.sort %e {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
  %two = coda.constant {value = 2 : i64} : tensor<i64>
  %token = coda.floor_divide %order, %two : (tensor<?xi64>, tensor<i64>) -> tensor<?xi64>
  %y = gemm.fused %x : tensor<?x512xbf16> groups(%ends : tensor<2xi32>) gather(%token : tensor<?xi64>)
    columns(%w : tensor<2x8192x512xbf16>) gather_col(%s : tensor<?x1xf32>)
      -> (tile : tensor<?x8192xbf16>) {
    ^bb0(%acc: f32, %scale: f32):
      %scaled = arith.mulf %acc, %scale : f32
      gemm.yield %scaled : f32
    }
  %dw = gemm.fused transposed %x : tensor<?x512xbf16> groups(%ends : tensor<2xi32>) gather(%token : tensor<?xi64>)
    columns(%dz : tensor<?x4096xbf16>) kn
      -> (tile : tensor<2x512x4096xbf16>) {
    ^bb0(%acc_1: f32):
      gemm.yield %acc_1 : f32
    }
  func.return %y, %dw : tensor<?x8192xbf16>, tensor<2x512x4096xbf16>
}

// CHECK-LABEL: func.func @many_columns
// CHECK:         %0 = coda.index %x, %token {dim = 0 : i64} : (tensor<?x512xbf16>, tensor<?xi64>) -> tensor<?x512xbf16>
// CHECK-NEXT:    %1 = coda.index %s, %token {dim = 0 : i64} : (tensor<?x1xf32>, tensor<?xi64>) -> tensor<?x1xf32>
// CHECK-NEXT:    %y = gemm.fused %0 : tensor<?x512xbf16> groups(%ends : tensor<2xi32>)
// CHECK-NEXT:      schedule<warp_specialized, "128x256x64", warps = 8, stages = 3, group_m = 8>
// CHECK-NEXT:      columns(%w : tensor<2x8192x512xbf16>) col(%1 : tensor<?x1xf32>)
// CHECK:         %dw = gemm.fused transposed %0 : tensor<?x512xbf16> groups(%ends : tensor<2xi32>)
// CHECK-NEXT:      schedule

// REMARK:      remark[analysis] schedule: gemm.fused: reads a copy of its rows, which takes 22 us and saves 56
// REMARK-NEXT:   %y = gemm.fused %x

// Few tiles of columns gather them.

func.func @few_columns(%x: tensor<?x512xbf16> {coda.dims = ["T", 512 : i64]}, %e: tensor<?xi64> {coda.dims = ["2*T"]}, %ends: tensor<2xi32>, %w: tensor<2x1024x512xbf16>) -> tensor<?x1024xbf16> {
  %sorted, %order = coda.sort %e {dim = 0 : i64, descending = false} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>)
  %two = coda.constant {value = 2 : i64} : tensor<i64>
  %token = coda.floor_divide %order, %two : (tensor<?xi64>, tensor<i64>) -> tensor<?xi64>
  %y = gemm.fused %x : tensor<?x512xbf16> groups(%ends : tensor<2xi32>) gather(%token : tensor<?xi64>)
    columns(%w : tensor<2x1024x512xbf16>)
      -> (tile : tensor<?x1024xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  func.return %y : tensor<?x1024xbf16>
}

// CHECK-LABEL: func.func @few_columns
// CHECK-NOT:     coda.index
// CHECK:         %y = gemm.fused %x : tensor<?x512xbf16> groups(%ends : tensor<2xi32>) gather(%token : tensor<?xi64>)

// Nor are those of two inputs whose products are added.

func.func @two_inputs(%x: tensor<?x512xbf16> {coda.dims = ["T", 512 : i64]}, %z: tensor<?x512xbf16> {coda.dims = ["T", 512 : i64]}, %e: tensor<?xi64> {coda.dims = ["2*T"]}, %w: tensor<8192x512xbf16>) -> tensor<?x8192xbf16> {
  %y = gemm.fused %x : tensor<?x512xbf16> + %z : tensor<?x512xbf16> gather(%e : tensor<?xi64>)
    columns(%w : tensor<8192x512xbf16>) + (%w : tensor<8192x512xbf16>)
      -> (tile : tensor<?x8192xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  func.return %y : tensor<?x8192xbf16>
}

// CHECK:      func.func @two_inputs(
// CHECK-NEXT:   %y = gemm.fused %x : tensor<?x512xbf16> + %z : tensor<?x512xbf16> gather(%e : tensor<?xi64>)

// Nor are those of two weights.

func.func @two_weights(%x: tensor<?x32xbf16>, %ends: tensor<2xi32>, %token: tensor<?xi64>, %v: tensor<?x16xbf16>, %w: tensor<?x16xbf16>) -> (tensor<2x32x16xbf16>, tensor<2x32x16xbf16>) {
  %dv, %dw = gemm.fused transposed %x : tensor<?x32xbf16> groups(%ends : tensor<2xi32>) gather_weights(%token : tensor<?xi64>)
    columns(%v : tensor<?x16xbf16>) kn
      -> (tile : tensor<2x32x16xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
    columns(%w : tensor<?x16xbf16>) kn
      -> (tile : tensor<2x32x16xbf16>) {
    ^bb0(%acc_1: f32):
      gemm.yield %acc_1 : f32
    }
  func.return %dv, %dw : tensor<2x32x16xbf16>, tensor<2x32x16xbf16>
}

// CHECK-LABEL: func.func @two_weights
// CHECK-NOT:     coda.index
// CHECK:         gather_weights(%token : tensor<?xi64>)

// RUN: coda-opt %s -p leave-plain-gemms --split-input-file | filecheck %s

// A product, and one with a bias.

func.func @plain(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %b: tensor<16xbf16>, %v: tensor<4x16xbf16>) -> tensor<?x4xbf16> {
  %h = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>) row(%b : tensor<16xbf16>)
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32, %b_1: f32):
      %h_1 = arith.addf %b_1, %acc : f32
      gemm.yield %h_1 : f32
    }
  %y = gemm.fused %h : tensor<?x16xbf16>
    columns(%v : tensor<4x16xbf16>)
      -> (tile : tensor<?x4xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  func.return %y : tensor<?x4xbf16>
}

// CHECK:      func.func @plain(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %b: tensor<16xbf16>, %v: tensor<4x16xbf16>) -> tensor<?x4xbf16> {
// CHECK-NEXT:   %h = coda.linear %x, %w, %b : (tensor<?x8xbf16>, tensor<16x8xbf16>, tensor<16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %y = coda.linear %h, %v : (tensor<?x16xbf16>, tensor<4x16xbf16>) -> tensor<?x4xbf16>
// CHECK-NEXT:   func.return %y : tensor<?x4xbf16>
// CHECK-NEXT: }

// -----

// Rows in groups, each with a bias of its own.

func.func @groups(%x: tensor<?x8xbf16>, %w: tensor<4x16x8xbf16>, %b: tensor<4x16xbf16>, %e: tensor<4xi32>) -> tensor<?x16xbf16> {
  %y = gemm.fused %x : tensor<?x8xbf16> groups(%e : tensor<4xi32>)
    columns(%w : tensor<4x16x8xbf16>) group_row(%b : tensor<4x16xbf16>)
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32, %b_1: f32):
      %y_1 = arith.addf %acc, %b_1 : f32
      gemm.yield %y_1 : f32
    }
  func.return %y : tensor<?x16xbf16>
}

// CHECK:      func.func @groups(%x: tensor<?x8xbf16>, %w: tensor<4x16x8xbf16>, %b: tensor<4x16xbf16>, %e: tensor<4xi32>) -> tensor<?x16xbf16> {
// CHECK-NEXT:   %y = coda.grouped_linear %x, %w, %e, %b : (tensor<?x8xbf16>, tensor<4x16x8xbf16>, tensor<4xi32>, tensor<4x16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %y : tensor<?x16xbf16>
// CHECK-NEXT: }

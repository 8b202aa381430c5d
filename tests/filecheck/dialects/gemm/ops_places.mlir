// RUN: coda-opt %s | filecheck %s
// RUN: coda-opt %s | coda-opt -f mlir | filecheck %s
// RUN: coda-opt %s --print-op-generic | coda-opt -f mlir | filecheck %s

// Results that are stored as columns of a concatenation: of heads, and of whole rows.

func.func @heads(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %v: tensor<32x8xbf16>) -> tensor<?x2x24xbf16> {
  %q, %r = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>)
      -> (tile at<0, 8, 24> : tensor<?x16xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
    columns(%v : tensor<32x8xbf16>)
      -> (tile at<8, 16, 24> : tensor<?x32xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %q_heads = coda.reshape %q : (tensor<?x16xbf16>) -> tensor<?x2x8xbf16>
  %r_heads = coda.reshape %r : (tensor<?x32xbf16>) -> tensor<?x2x16xbf16>
  %joined = coda.concat %q_heads, %r_heads {dim = 2 : i64} : (tensor<?x2x8xbf16>, tensor<?x2x16xbf16>) -> tensor<?x2x24xbf16>
  func.return %joined : tensor<?x2x24xbf16>
}

func.func @rows(%x: tensor<?x16xf32>, %y: tensor<?x8xf32>) -> tensor<?x16xf32> {
  %h = gemm.map pair<adjacent> tile(%x : tensor<?x16xf32>)
      -> (half at<8, 8, 16> : tensor<?x8xf32>) {
    ^bb0(%a: f32, %b: f32):
      %c = arith.mulf %a, %b : f32
      gemm.yield %c : f32
    }
  %joined = coda.concat %y, %h {dim = 1 : i64} : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x16xf32>
  func.return %joined : tensor<?x16xf32>
}

func.func @moved(%x: tensor<2x1x64xbf16>, %w: tensor<32x64xbf16>, %cache: tensor<2x2x16x16xbf16> {coda.donated}, %at: tensor<1xi64>) -> tensor<2x2x16x16xbf16> {
  %k = gemm.fused %x : tensor<2x1x64xbf16>
    columns(%w : tensor<32x64xbf16>) scalar(%at : tensor<1xi64>)
      -> (tile<0> at<0, 16, 256> : tensor<2x1x32xbf16>) {
    ^bb0(%acc: f32, %n: i64):
      gemm.yield %acc : f32
    }
  %heads = coda.reshape %k : (tensor<2x1x32xbf16>) -> tensor<2x2x1x16xbf16>
  %c = torch.call "aten.index_put.default"(%cache, %at, %heads) {arguments = "{0}, [None, None, {1}], {2}", in_place} : (tensor<2x2x16x16xbf16>, tensor<1xi64>, tensor<2x2x1x16xbf16>) -> tensor<2x2x16x16xbf16>
  func.return %c : tensor<2x2x16x16xbf16>
}

// CHECK:      func.func @heads(
// CHECK-NEXT:   %q, %r = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<16x8xbf16>)
// CHECK-NEXT:       -> (tile at<0, 8, 24> : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     columns(%v : tensor<32x8xbf16>)
// CHECK-NEXT:       -> (tile at<8, 16, 24> : tensor<?x32xbf16>) {
// CHECK-NEXT:     ^bb0(%acc_1: f32):
// CHECK-NEXT:       gemm.yield %acc_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %q_heads = coda.reshape %q : (tensor<?x16xbf16>) -> tensor<?x2x8xbf16>
// CHECK-NEXT:   %r_heads = coda.reshape %r : (tensor<?x32xbf16>) -> tensor<?x2x16xbf16>
// CHECK-NEXT:   %joined = coda.concat %q_heads, %r_heads {dim = 2 : i64} : (tensor<?x2x8xbf16>, tensor<?x2x16xbf16>) -> tensor<?x2x24xbf16>
// CHECK-NEXT:   func.return %joined : tensor<?x2x24xbf16>
// CHECK-NEXT: }

// CHECK:      func.func @rows(
// CHECK-NEXT:   %h = gemm.map pair<adjacent> tile(%x : tensor<?x16xf32>)
// CHECK-NEXT:       -> (half at<8, 8, 16> : tensor<?x8xf32>) {
// CHECK-NEXT:     ^bb0(%a: f32, %b: f32):
// CHECK-NEXT:       %c = arith.mulf %a, %b : f32
// CHECK-NEXT:       gemm.yield %c : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %joined = coda.concat %y, %h {dim = 1 : i64} : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   func.return %joined : tensor<?x16xf32>
// CHECK-NEXT: }

// CHECK:      func.func @moved(
// CHECK:            -> (tile<0> at<0, 16, 256> : tensor<2x1x32xbf16>) {

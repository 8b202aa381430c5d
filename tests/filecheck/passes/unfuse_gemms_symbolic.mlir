// RUN: coda-opt %s -p 'unfuse-gemms{by=library symbolic=true}' --split-input-file | filecheck %s
// RUN: coda-opt %s -p 'unfuse-gemms{by=library symbolic=true}' --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK
// RUN: coda-opt %s -p 'schedule{target=sm_90}' --split-input-file | filecheck %s

// The similarity of each row of x to each of y. The second product has a K that is not known.

func.func @similar(%x: tensor<?x64xbf16> {coda.dims = ["M", 64]}, %y: tensor<?x64xbf16> {coda.dims = ["N", 64]}) -> (tensor<?x64xbf16> {coda.dims = ["M", 64]}) {
  %s = gemm.fused %x : tensor<?x64xbf16>
    columns(%y : tensor<?x64xbf16>)
      -> (tile : tensor<?x?xbf16>) {
    ^bb0(%acc: f32):
      %0 = math.tanh %acc : f32
      gemm.yield %0 : f32
    }
  %z = gemm.fused %s : tensor<?x?xbf16>
    columns(%y : tensor<?x64xbf16>) kn
      -> (tile : tensor<?x64xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  func.return %z : tensor<?x64xbf16>
}

// CHECK:      func.func @similar(%x: tensor<?x64xbf16> {coda.dims = ["M", 64 : i64]}, %y: tensor<?x64xbf16> {coda.dims = ["N", 64 : i64]}) -> (tensor<?x64xbf16> {coda.dims = ["M", 64 : i64]}) {
// CHECK-NEXT:   %product = gemm.library %x : tensor<?x64xbf16> columns(%y : tensor<?x64xbf16>) -> tensor<?x?xf32>
// CHECK-NEXT:   %s = gemm.map tile(%product : tensor<?x?xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x?xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       %0 = math.tanh %acc : f32
// CHECK-NEXT:       gemm.yield %0 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %z = gemm.library %s : tensor<?x?xbf16> columns(%y : tensor<?x64xbf16>) kn -> tensor<?x64xbf16>
// CHECK-NEXT:   func.return %z : tensor<?x64xbf16>
// CHECK-NEXT: }
// REMARK: remark[missed] unfuse-gemms: gemm.fused: N is symbolic
// REMARK: remark[missed] unfuse-gemms: gemm.fused: K is symbolic

// -----

// Gates of two weights.

func.func @gated(%x: tensor<?x64xbf16> {coda.dims = ["M", 64]}, %g: tensor<?x64xbf16> {coda.dims = ["N", 64]}, %u: tensor<?x64xbf16> {coda.dims = ["N", 64]}) -> (tensor<?x?xbf16> {coda.dims = ["M", "N"]}) {
  %y = gemm.fused %x : tensor<?x64xbf16>
    columns(%g : tensor<?x64xbf16>, %u : tensor<?x64xbf16>) pair<halves>
      -> (half : tensor<?x?xbf16>) {
    ^bb0(%a: f32, %b: f32):
      %0 = arith.mulf %a, %b : f32
      gemm.yield %0 : f32
    }
  func.return %y : tensor<?x?xbf16>
}

// CHECK:      func.func @gated(%x: tensor<?x64xbf16> {coda.dims = ["M", 64 : i64]}, %g: tensor<?x64xbf16> {coda.dims = ["N", 64 : i64]}, %u: tensor<?x64xbf16> {coda.dims = ["N", 64 : i64]}) -> (tensor<?x?xbf16> {coda.dims = ["M", "N"]}) {
// CHECK-NEXT:   %product = gemm.library %x : tensor<?x64xbf16> columns(%g : tensor<?x64xbf16>) -> tensor<?x?xf32>
// CHECK-NEXT:   %product_1 = gemm.library %x : tensor<?x64xbf16> columns(%u : tensor<?x64xbf16>) -> tensor<?x?xf32>
// CHECK-NEXT:   %y = gemm.map tile(%product : tensor<?x?xf32>, %product_1 : tensor<?x?xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x?xbf16>) {
// CHECK-NEXT:     ^bb0(%a: f32, %b: f32):
// CHECK-NEXT:       %0 = arith.mulf %a, %b : f32
// CHECK-NEXT:       gemm.yield %0 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y : tensor<?x?xbf16>
// CHECK-NEXT: }
// REMARK: remark[missed] unfuse-gemms: gemm.fused: N is symbolic

// -----

// Extents that are known are no reason.

func.func @known(%x: tensor<?x64xbf16>, %w: tensor<32x64xbf16>) -> tensor<?x32xbf16> {
  %y = gemm.fused %x : tensor<?x64xbf16>
    columns(%w : tensor<32x64xbf16>)
      -> (tile : tensor<?x32xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  func.return %y : tensor<?x32xbf16>
}

// CHECK:      func.func @known(
// CHECK-NEXT:   %y = gemm.fused

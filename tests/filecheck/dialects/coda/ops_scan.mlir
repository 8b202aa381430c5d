// RUN: coda-opt %s | filecheck %s
// RUN: coda-opt %s | coda-opt -f mlir | filecheck %s
// RUN: coda-opt %s --print-op-generic | coda-opt -f mlir | filecheck %s

func.func @f(%u: tensor<?x?x64xbf16>, %dt: tensor<?x?x64xf32>, %a: tensor<64x16xf32>, %b: tensor<?x?x16xbf16>) -> tensor<?x?x64xbf16> {
  %y = coda.selective_scan %u, %dt, %a, %b, %b : (tensor<?x?x64xbf16>, tensor<?x?x64xf32>, tensor<64x16xf32>, tensor<?x?x16xbf16>, tensor<?x?x16xbf16>) -> tensor<?x?x64xbf16>
  %g:5 = coda.selective_scan_grad %y, %u, %dt, %a, %b, %b : (tensor<?x?x64xbf16>, tensor<?x?x64xbf16>, tensor<?x?x64xf32>, tensor<64x16xf32>, tensor<?x?x16xbf16>, tensor<?x?x16xbf16>) -> (tensor<?x?x64xbf16>, tensor<?x?x64xf32>, tensor<64x16xf32>, tensor<?x?x16xbf16>, tensor<?x?x16xbf16>)
  func.return %y : tensor<?x?x64xbf16>
}

// CHECK:      func.func @f(%u: tensor<?x?x64xbf16>, %dt: tensor<?x?x64xf32>, %a: tensor<64x16xf32>, %b: tensor<?x?x16xbf16>) -> tensor<?x?x64xbf16> {
// CHECK-NEXT:   %y = coda.selective_scan %u, %dt, %a, %b, %b : (tensor<?x?x64xbf16>, tensor<?x?x64xf32>, tensor<64x16xf32>, tensor<?x?x16xbf16>, tensor<?x?x16xbf16>) -> tensor<?x?x64xbf16>
// CHECK-NEXT:   %g, %g_1, %g_2, %g_3, %g_4 = coda.selective_scan_grad %y, %u, %dt, %a, %b, %b : (tensor<?x?x64xbf16>, tensor<?x?x64xbf16>, tensor<?x?x64xf32>, tensor<64x16xf32>, tensor<?x?x16xbf16>, tensor<?x?x16xbf16>) -> (tensor<?x?x64xbf16>, tensor<?x?x64xf32>, tensor<64x16xf32>, tensor<?x?x16xbf16>, tensor<?x?x16xbf16>)
// CHECK-NEXT:   func.return %y : tensor<?x?x64xbf16>

func.func @states(%u: tensor<2x?x64xbf16>, %dt: tensor<2x?x64xf32>, %a: tensor<64x16xf32>, %b: tensor<2x?x16xbf16>, %s: tensor<2x64x16xf32>) -> (tensor<2x?x64xbf16>, tensor<2x64x16xf32>) {
  %y, %last = coda.selective_scan %u, %dt, %a, %b, %b, %s : (tensor<2x?x64xbf16>, tensor<2x?x64xf32>, tensor<64x16xf32>, tensor<2x?x16xbf16>, tensor<2x?x16xbf16>, tensor<2x64x16xf32>) -> (tensor<2x?x64xbf16>, tensor<2x64x16xf32>)
  func.return %y, %last : tensor<2x?x64xbf16>, tensor<2x64x16xf32>
}

// CHECK:      func.func @states(%u: tensor<2x?x64xbf16>, %dt: tensor<2x?x64xf32>, %a: tensor<64x16xf32>, %b: tensor<2x?x16xbf16>, %s: tensor<2x64x16xf32>) -> (tensor<2x?x64xbf16>, tensor<2x64x16xf32>) {
// CHECK-NEXT:   %y, %last = coda.selective_scan %u, %dt, %a, %b, %b, %s : (tensor<2x?x64xbf16>, tensor<2x?x64xf32>, tensor<64x16xf32>, tensor<2x?x16xbf16>, tensor<2x?x16xbf16>, tensor<2x64x16xf32>) -> (tensor<2x?x64xbf16>, tensor<2x64x16xf32>)
// CHECK-NEXT:   func.return %y, %last : tensor<2x?x64xbf16>, tensor<2x64x16xf32>
// CHECK-NEXT: }

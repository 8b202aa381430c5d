// RUN: coda-opt %s | filecheck %s
// RUN: coda-opt %s | coda-opt -f mlir | filecheck %s
// RUN: coda-opt %s --print-op-generic | coda-opt -f mlir | filecheck %s

func.func @f(%x: tensor<?x?x64xbf16>, %dt: tensor<?x?x4xf32>, %a: tensor<4xf32>, %b: tensor<?x?x32xbf16>) -> tensor<?x?x64xf32> {
  %y = coda.ssd %x, %dt, %a, %b, %b {states = 16 : i64} : (tensor<?x?x64xbf16>, tensor<?x?x4xf32>, tensor<4xf32>, tensor<?x?x32xbf16>, tensor<?x?x32xbf16>) -> tensor<?x?x64xf32>
  %g:5 = coda.ssd_grad %y, %x, %dt, %a, %b, %b {states = 16 : i64} : (tensor<?x?x64xf32>, tensor<?x?x64xbf16>, tensor<?x?x4xf32>, tensor<4xf32>, tensor<?x?x32xbf16>, tensor<?x?x32xbf16>) -> (tensor<?x?x64xbf16>, tensor<?x?x4xf32>, tensor<4xf32>, tensor<?x?x32xbf16>, tensor<?x?x32xbf16>)
  func.return %y : tensor<?x?x64xf32>
}

func.func @states(%x: tensor<?x?x64xbf16>, %dt: tensor<?x?x4xf32>, %a: tensor<4xf32>, %b: tensor<?x?x32xbf16>, %h: tensor<?x4x16x16xf32>) -> tensor<?x4x16x16xf32> {
  %y, %g = coda.ssd %x, %dt, %a, %b, %b, %h {states = 16 : i64} : (tensor<?x?x64xbf16>, tensor<?x?x4xf32>, tensor<4xf32>, tensor<?x?x32xbf16>, tensor<?x?x32xbf16>, tensor<?x4x16x16xf32>) -> (tensor<?x?x64xbf16>, tensor<?x4x16x16xf32>)
  %d:6 = coda.ssd_grad %y, %x, %dt, %a, %b, %b, %h, %g {states = 16 : i64} : (tensor<?x?x64xbf16>, tensor<?x?x64xbf16>, tensor<?x?x4xf32>, tensor<4xf32>, tensor<?x?x32xbf16>, tensor<?x?x32xbf16>, tensor<?x4x16x16xf32>, tensor<?x4x16x16xf32>) -> (tensor<?x?x64xbf16>, tensor<?x?x4xf32>, tensor<4xf32>, tensor<?x?x32xbf16>, tensor<?x?x32xbf16>, tensor<?x4x16x16xf32>)
  func.return %g : tensor<?x4x16x16xf32>
}

// CHECK:      func.func @f(%x: tensor<?x?x64xbf16>, %dt: tensor<?x?x4xf32>, %a: tensor<4xf32>, %b: tensor<?x?x32xbf16>) -> tensor<?x?x64xf32> {
// CHECK-NEXT:   %y = coda.ssd %x, %dt, %a, %b, %b {states = 16 : i64} : (tensor<?x?x64xbf16>, tensor<?x?x4xf32>, tensor<4xf32>, tensor<?x?x32xbf16>, tensor<?x?x32xbf16>) -> tensor<?x?x64xf32>
// CHECK-NEXT:   %g, %g_1, %g_2, %g_3, %g_4 = coda.ssd_grad %y, %x, %dt, %a, %b, %b {states = 16 : i64} : (tensor<?x?x64xf32>, tensor<?x?x64xbf16>, tensor<?x?x4xf32>, tensor<4xf32>, tensor<?x?x32xbf16>, tensor<?x?x32xbf16>) -> (tensor<?x?x64xbf16>, tensor<?x?x4xf32>, tensor<4xf32>, tensor<?x?x32xbf16>, tensor<?x?x32xbf16>)
// CHECK-NEXT:   func.return %y : tensor<?x?x64xf32>
// CHECK:      func.func @states(%x: tensor<?x?x64xbf16>, %dt: tensor<?x?x4xf32>, %a: tensor<4xf32>, %b: tensor<?x?x32xbf16>, %h: tensor<?x4x16x16xf32>) -> tensor<?x4x16x16xf32> {
// CHECK-NEXT:     %y, %g = coda.ssd %x, %dt, %a, %b, %b, %h {states = 16 : i64} : (tensor<?x?x64xbf16>, tensor<?x?x4xf32>, tensor<4xf32>, tensor<?x?x32xbf16>, tensor<?x?x32xbf16>, tensor<?x4x16x16xf32>) -> (tensor<?x?x64xbf16>, tensor<?x4x16x16xf32>)
// CHECK-NEXT:     %d, %d_1, %d_2, %d_3, %d_4, %d_5 = coda.ssd_grad %y, %x, %dt, %a, %b, %b, %h, %g {states = 16 : i64} : (tensor<?x?x64xbf16>, tensor<?x?x64xbf16>, tensor<?x?x4xf32>, tensor<4xf32>, tensor<?x?x32xbf16>, tensor<?x?x32xbf16>, tensor<?x4x16x16xf32>, tensor<?x4x16x16xf32>) -> (tensor<?x?x64xbf16>, tensor<?x?x4xf32>, tensor<4xf32>, tensor<?x?x32xbf16>, tensor<?x?x32xbf16>, tensor<?x4x16x16xf32>)
// CHECK-NEXT:     func.return %g : tensor<?x4x16x16xf32>

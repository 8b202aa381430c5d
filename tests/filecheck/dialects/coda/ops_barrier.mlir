// RUN: coda-opt %s --split-input-file | filecheck %s
// RUN: coda-opt %s --print-op-generic | coda-opt -f mlir | filecheck %s
// RUN: coda-opt %s -p canonicalize,cse,dce | filecheck %s

// CHECK:      %later = coda.barrier %x, %y, %s : (tensor<?x8xbf16>, tensor<4xf32>, tensor<f32>) -> tensor<?x8xbf16>
// CHECK-NEXT: %once_more = coda.barrier %later, %y : (tensor<?x8xbf16>, tensor<4xf32>) -> tensor<?x8xbf16>
func.func @f(%x: tensor<?x8xbf16>, %y: tensor<4xf32>, %s: tensor<f32>) -> tensor<?x8xbf16> {
  %later = coda.barrier %x, %y, %s : (tensor<?x8xbf16>, tensor<4xf32>, tensor<f32>) -> tensor<?x8xbf16>
  %once_more = coda.barrier %later, %y : (tensor<?x8xbf16>, tensor<4xf32>) -> tensor<?x8xbf16>
  func.return %once_more : tensor<?x8xbf16>
}

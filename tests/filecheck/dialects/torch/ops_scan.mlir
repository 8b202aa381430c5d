// RUN: coda-opt %s | filecheck %s
// RUN: coda-opt %s | coda-opt -f mlir | filecheck %s
// RUN: coda-opt %s --print-op-generic | coda-opt -f mlir | filecheck %s

func.func @f(%a: tensor<?x8xf32>, %x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %h = torch.linear_scan %a, %x : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  func.return %h : tensor<?x8xf32>
}

// CHECK:      func.func @f(%a: tensor<?x8xf32>, %x: tensor<?x8xf32>) -> tensor<?x8xf32> {
// CHECK-NEXT:   %h = torch.linear_scan %a, %x : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   func.return %h : tensor<?x8xf32>

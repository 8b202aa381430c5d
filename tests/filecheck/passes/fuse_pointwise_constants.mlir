// RUN: coda-opt %s -p convert-linear-to-gemm,fuse-pointwise --check-equivalence | filecheck %s

// A constant of a region is a float32, and has the number that the program states where that is another.

func.func @f(%x: tensor<?x8xf32>, %w: tensor<8x8xf32>) -> tensor<?x8xf32> {
  %h = coda.linear %x, %w : (tensor<?x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
  %c = coda.constant {value = 2.3456789 : f64} : tensor<f32>
  %d = coda.constant {value = 2.5 : f64} : tensor<f32>
  %y = coda.mul %h, %c : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  %z = coda.add %y, %d : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  func.return %z : tensor<?x8xf32>
}

// CHECK:      arith.constant {gemm.exact = 2.3456788999999998 : f64} 2.34567881 : f32
// CHECK:      arith.constant 2.500000e+00 : f32

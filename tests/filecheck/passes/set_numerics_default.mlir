// RUN: coda-opt %s -p "set-numerics{mode=fp32-epilogue}" | filecheck %s

// The default mode is stated by no attribute.

func.func @restated(%x: tensor<?x8xf32>) -> tensor<?x8xf32> attributes {coda.numerics = #gemm.numerics<"deterministic">} {
  func.return %x : tensor<?x8xf32>
}

// CHECK:      func.func @restated(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
// CHECK-NEXT:   func.return %x : tensor<?x8xf32>
// CHECK-NEXT: }

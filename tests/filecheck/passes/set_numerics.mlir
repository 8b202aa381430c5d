// RUN: coda-opt %s -p "set-numerics{mode=eager-exact}" | filecheck %s

// The attribute is stated, also where another mode was.

func.func @stated(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  func.return %x : tensor<?x8xf32>
}

func.func @restated(%x: tensor<?x8xf32>) -> tensor<?x8xf32> attributes {coda.numerics = #gemm.numerics<"deterministic">} {
  func.return %x : tensor<?x8xf32>
}

// CHECK:      func.func @stated(%x: tensor<?x8xf32>) -> tensor<?x8xf32> attributes {coda.numerics = #gemm.numerics<"eager-exact">} {
// CHECK-NEXT:   func.return %x : tensor<?x8xf32>
// CHECK-NEXT: }
// CHECK:      func.func @restated(%x: tensor<?x8xf32>) -> tensor<?x8xf32> attributes {coda.numerics = #gemm.numerics<"eager-exact">} {
// CHECK-NEXT:   func.return %x : tensor<?x8xf32>
// CHECK-NEXT: }

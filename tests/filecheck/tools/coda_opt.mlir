// RUN: coda-opt %s | filecheck %s
// RUN: coda-opt %s --print-op-generic | coda-opt -f mlir | filecheck %s

// CHECK:      func.func @silu(%x: tensor<?x8xbf16> {coda.name = "x", coda.dims = ["M", 8 : i64]}) -> tensor<?x8xbf16> {
// CHECK-NEXT:   %y = coda.silu %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   func.return %y : tensor<?x8xbf16>
func.func @silu(%x: tensor<?x8xbf16> {coda.name = "x", coda.dims = ["M", 8]}) -> tensor<?x8xbf16> {
  %y = coda.silu %x : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  func.return %y : tensor<?x8xbf16>
}

// RUN: coda-opt %s -p differentiate | filecheck %s

// A packed projection: each part is computed, saved and differentiated by itself.

func.func @packed(%x: tensor<?x8xbf16> {coda.name = "x", coda.dims = ["M", 8]}, %w: tensor<12x8xbf16> {coda.name = "w"}) -> (tensor<?x6xbf16> {coda.name = "y"}) {
  %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<12x8xbf16>) -> tensor<?x12xbf16>
  %g = coda.slice %z {dim = 1 : i64, start = 0 : i64, stop = 6 : i64} : (tensor<?x12xbf16>) -> tensor<?x6xbf16>
  %u = coda.slice %z {dim = 1 : i64, start = 6 : i64, stop = 12 : i64} : (tensor<?x12xbf16>) -> tensor<?x6xbf16>
  %y = coda.mul %g, %u : (tensor<?x6xbf16>, tensor<?x6xbf16>) -> tensor<?x6xbf16>
  func.return %y : tensor<?x6xbf16>
}

// CHECK:      func.func @packed_forward(
// CHECK-NEXT:   %0 = coda.slice %w {dim = 0 : i64, start = 0 : i64, stop = 6 : i64} : (tensor<12x8xbf16>) -> tensor<6x8xbf16>
// CHECK-NEXT:   %g = coda.linear %x, %0 : (tensor<?x8xbf16>, tensor<6x8xbf16>) -> tensor<?x6xbf16>
// CHECK-NEXT:   %1 = coda.slice %w {dim = 0 : i64, start = 6 : i64, stop = 12 : i64} : (tensor<12x8xbf16>) -> tensor<6x8xbf16>
// CHECK-NEXT:   %u = coda.linear %x, %1 : (tensor<?x8xbf16>, tensor<6x8xbf16>) -> tensor<?x6xbf16>
// CHECK-NEXT:   %y = coda.mul %g, %u : (tensor<?x6xbf16>, tensor<?x6xbf16>) -> tensor<?x6xbf16>
// CHECK-NEXT:   func.return %y, %g, %u : tensor<?x6xbf16>, tensor<?x6xbf16>, tensor<?x6xbf16>
// CHECK-NEXT: }
// CHECK:      func.func @packed_backward(
// CHECK-NEXT:   %0 = coda.slice %w {dim = 0 : i64, start = 0 : i64, stop = 6 : i64} : (tensor<12x8xbf16>) -> tensor<6x8xbf16>
// CHECK-NEXT:   %1 = coda.slice %w {dim = 0 : i64, start = 6 : i64, stop = 12 : i64} : (tensor<12x8xbf16>) -> tensor<6x8xbf16>
// CHECK-NEXT:   %d_g = coda.mul %d_y, %u : (tensor<?x6xbf16>, tensor<?x6xbf16>) -> tensor<?x6xbf16>
// CHECK-NEXT:   %d_u = coda.mul %d_y, %g : (tensor<?x6xbf16>, tensor<?x6xbf16>) -> tensor<?x6xbf16>
// CHECK-NEXT:   %2 = coda.matmul %d_u, %1 : (tensor<?x6xbf16>, tensor<6x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %3 = coda.weight_gradient %d_u, %x : (tensor<?x6xbf16>, tensor<?x8xbf16>) -> tensor<6x8xbf16>
// CHECK-NEXT:   %4 = coda.matmul %d_g, %0 : (tensor<?x6xbf16>, tensor<6x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %5 = coda.weight_gradient %d_g, %x : (tensor<?x6xbf16>, tensor<?x8xbf16>) -> tensor<6x8xbf16>
// CHECK-NEXT:   %d_x = coda.add %2, %4 : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %d_w = coda.concat %5, %3 {dim = 0 : i64} : (tensor<6x8xbf16>, tensor<6x8xbf16>) -> tensor<12x8xbf16>
// CHECK-NEXT:   func.return %d_x, %d_w : tensor<?x8xbf16>, tensor<12x8xbf16>
// CHECK-NEXT: }

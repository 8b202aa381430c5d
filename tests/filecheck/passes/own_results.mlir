// RUN: coda-opt %s -p own-results | filecheck %s

// Results with coda.own that are an argument, a view of one, or equal to an earlier result, are copied.

func.func @results(%x: tensor<?x8xbf16> {coda.dims = ["M", 8 : i64]}, %w: tensor<8x8xbf16>) -> (tensor<?x8xbf16> {coda.own}, tensor<8x?xbf16> {coda.own}, tensor<?x8xbf16> {coda.own}, tensor<?x8xbf16> {coda.own}, tensor<?x8xbf16>) {
  %t = coda.transpose %x {perm = [1, 0]} : (tensor<?x8xbf16>) -> tensor<8x?xbf16>
  %y = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  func.return %x, %t, %y, %y, %y : tensor<?x8xbf16>, tensor<8x?xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>
}

// CHECK:        %t = coda.transpose %x
// CHECK-NEXT:   %y = coda.linear %x, %w
// CHECK-NEXT:   %x_1 = torch.call "aten.clone.default"(%x)
// CHECK-NEXT:   %t_1 = torch.call "aten.clone.default"(%t)
// CHECK-NEXT:   %y_1 = torch.call "aten.clone.default"(%y)
// CHECK-NEXT:   func.return %x_1, %t_1, %y, %y_1, %y :

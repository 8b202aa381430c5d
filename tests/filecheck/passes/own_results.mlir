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

// Results with the same number become views of one copy.

func.func @views(%x: tensor<4x8xbf16>) -> (tensor<8x4xbf16> {coda.own = 0 : i64}, tensor<4x2xbf16> {coda.own = 0 : i64}) {
  %t = coda.transpose %x {perm = [1, 0]} : (tensor<4x8xbf16>) -> tensor<8x4xbf16>
  %s = coda.slice %x {dim = 1, start = 2, stop = 4} : (tensor<4x8xbf16>) -> tensor<4x2xbf16>
  func.return %t, %s : tensor<8x4xbf16>, tensor<4x2xbf16>
}

// CHECK:        %x_1 = torch.call "aten.clone.default"(%x)
// CHECK-NEXT:   %t_1 = coda.transpose %x_1
// CHECK-NEXT:   %s_1 = coda.slice %x_1
// CHECK-NEXT:   func.return %t_1, %s_1 :

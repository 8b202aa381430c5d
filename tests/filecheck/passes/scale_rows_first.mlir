// RUN: coda-opt %s -p scale-rows-first --split-input-file | filecheck %s
// RUN: coda-opt %s -p scale-rows-first --split-input-file --remarks=passed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// Weights of a router, of the type of the rows and wider.

func.func @router(%a: tensor<?x8xbf16> {coda.dims = ["M", 8 : i64]}, %w: tensor<4x16x8xbf16>, %e: tensor<4xi32>, %s: tensor<?x1xbf16> {coda.dims = ["M", 1 : i64]}, %t: tensor<?x1xf32> {coda.dims = ["M", 1 : i64]}) -> (tensor<?x16xbf16>, tensor<?x16xf32>) {
  %z = coda.grouped_linear %a, %w, %e : (tensor<?x8xbf16>, tensor<4x16x8xbf16>, tensor<4xi32>) -> tensor<?x16xbf16>
  %y = coda.mul %s, %z : (tensor<?x1xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %v = coda.grouped_linear %a, %w, %e : (tensor<?x8xbf16>, tensor<4x16x8xbf16>, tensor<4xi32>) -> tensor<?x16xbf16>
  %wide = coda.cast %v : (tensor<?x16xbf16>) -> tensor<?x16xf32>
  %u = coda.mul %wide, %t : (tensor<?x16xf32>, tensor<?x1xf32>) -> tensor<?x16xf32>
  func.return %y, %u : tensor<?x16xbf16>, tensor<?x16xf32>
}

// CHECK:      func.func @router(%a: tensor<?x8xbf16> {coda.dims = ["M", 8 : i64]}, %w: tensor<4x16x8xbf16>, %e: tensor<4xi32>, %s: tensor<?x1xbf16> {coda.dims = ["M", 1 : i64]}, %t: tensor<?x1xf32> {coda.dims = ["M", 1 : i64]}) -> (tensor<?x16xbf16>, tensor<?x16xf32>) {
// CHECK-NEXT:   %0 = coda.mul %a, %s : (tensor<?x8xbf16>, tensor<?x1xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %y = coda.grouped_linear %0, %w, %e : (tensor<?x8xbf16>, tensor<4x16x8xbf16>, tensor<4xi32>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %a_1 = coda.cast %a : (tensor<?x8xbf16>) -> tensor<?x8xf32>
// CHECK-NEXT:   %1 = coda.mul %a_1, %t : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %2 = coda.cast %1 : (tensor<?x8xf32>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %3 = coda.grouped_linear %2, %w, %e : (tensor<?x8xbf16>, tensor<4x16x8xbf16>, tensor<4xi32>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %u = coda.cast %3 : (tensor<?x16xbf16>) -> tensor<?x16xf32>
// CHECK-NEXT:   func.return %y, %u : tensor<?x16xbf16>, tensor<?x16xf32>
// CHECK-NEXT: }

// REMARK: remark[passed] scale-rows-first: coda.mul: scales %a instead

// REMARK: remark[passed] scale-rows-first: coda.mul: scales %a instead

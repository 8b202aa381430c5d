// RUN: coda-opt %s -p scale-rows-first --split-input-file | filecheck %s
// RUN: coda-opt %s -p scale-rows-first --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// Another use of the product, a bias, and rounding points that stay where they are.

func.func @used(%a: tensor<?x8xbf16>, %w: tensor<4x16x8xbf16>, %e: tensor<4xi32>, %s: tensor<?x1xbf16>) -> (tensor<?x16xbf16>, tensor<?x16xbf16>) {
  %z = coda.grouped_linear %a, %w, %e : (tensor<?x8xbf16>, tensor<4x16x8xbf16>, tensor<4xi32>) -> tensor<?x16xbf16>
  %y = coda.mul %s, %z : (tensor<?x1xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %y, %z : tensor<?x16xbf16>, tensor<?x16xbf16>
}

// CHECK:      func.func @used(%a: tensor<?x8xbf16>, %w: tensor<4x16x8xbf16>, %e: tensor<4xi32>, %s: tensor<?x1xbf16>) -> (tensor<?x16xbf16>, tensor<?x16xbf16>) {
// CHECK-NEXT:   %z = coda.grouped_linear %a, %w, %e : (tensor<?x8xbf16>, tensor<4x16x8xbf16>, tensor<4xi32>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %y = coda.mul %s, %z : (tensor<?x1xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %y, %z : tensor<?x16xbf16>, tensor<?x16xbf16>
// CHECK-NEXT: }

// REMARK: remark[missed] scale-rows-first: coda.mul: %z is stored anyway: it is also used elsewhere; failed condition: nothing else reads the product; costs 32*d0 + 34*d1 bytes

// -----

func.func @biased(%a: tensor<?x8xbf16>, %w: tensor<4x16x8xbf16>, %e: tensor<4xi32>, %b: tensor<4x16xbf16>, %s: tensor<?x1xbf16>) -> tensor<?x16xbf16> {
  %z = coda.grouped_linear %a, %w, %e, %b : (tensor<?x8xbf16>, tensor<4x16x8xbf16>, tensor<4xi32>, tensor<4x16xbf16>) -> tensor<?x16xbf16>
  %y = coda.mul %s, %z : (tensor<?x1xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %y : tensor<?x16xbf16>
}

// CHECK:      func.func @biased(%a: tensor<?x8xbf16>, %w: tensor<4x16x8xbf16>, %e: tensor<4xi32>, %b: tensor<4x16xbf16>, %s: tensor<?x1xbf16>) -> tensor<?x16xbf16> {
// CHECK-NEXT:   %z = coda.grouped_linear %a, %w, %e, %b : (tensor<?x8xbf16>, tensor<4x16x8xbf16>, tensor<4xi32>, tensor<4x16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %y = coda.mul %s, %z : (tensor<?x1xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %y : tensor<?x16xbf16>
// CHECK-NEXT: }

// REMARK: remark[missed] scale-rows-first: coda.mul: %z is saved for the gradient: it has a bias; failed condition: the product has no bias; costs 32*d0 + 34*d1 bytes

// -----

func.func @exact(%a: tensor<?x8xbf16>, %w: tensor<4x16x8xbf16>, %e: tensor<4xi32>, %s: tensor<?x1xbf16>) -> tensor<?x16xbf16> attributes {coda.numerics = #gemm.numerics<"eager-exact">} {
  %z = coda.grouped_linear %a, %w, %e : (tensor<?x8xbf16>, tensor<4x16x8xbf16>, tensor<4xi32>) -> tensor<?x16xbf16>
  %y = coda.mul %s, %z : (tensor<?x1xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %y : tensor<?x16xbf16>
}

// CHECK:      func.func @exact(%a: tensor<?x8xbf16>, %w: tensor<4x16x8xbf16>, %e: tensor<4xi32>, %s: tensor<?x1xbf16>) -> tensor<?x16xbf16> attributes {coda.numerics = #gemm.numerics<"eager-exact">} {
// CHECK-NEXT:   %z = coda.grouped_linear %a, %w, %e : (tensor<?x8xbf16>, tensor<4x16x8xbf16>, tensor<4xi32>) -> tensor<?x16xbf16>
// CHECK-NEXT:   %y = coda.mul %s, %z : (tensor<?x1xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %y : tensor<?x16xbf16>
// CHECK-NEXT: }

// REMARK: remark[missed] scale-rows-first: coda.mul: %z is saved: eager PyTorch rounds the rows before the GEMM, and the mode is eager-exact; failed condition: the numerics mode allows rounding points to move; costs 32*d0 + 34*d1 bytes

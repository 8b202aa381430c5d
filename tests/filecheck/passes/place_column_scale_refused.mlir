// RUN: coda-opt %s -p "place-column-scale{fold=true}" --split-input-file | filecheck %s
// RUN: coda-opt %s -p "place-column-scale{fold=true}" --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// The scale is computed in the function.

func.func @computed_scale(%x: tensor<?x8xf32>, %g: tensor<8xf32> {coda.weight}, %w: tensor<16x8xf32> {coda.weight}) -> tensor<?x16xf32> {
  %e = coda.exp %g : (tensor<8xf32>) -> tensor<8xf32>
  %s = coda.mul %x, %e : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  %z = coda.linear %s, %w : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
  func.return %z : tensor<?x16xf32>
}

// REMARK: remark[missed] place-column-scale: coda.mul: %e is computed in the function; failed condition: the scale is an argument of the function; costs 64*d0 + 32 bytes
// CHECK:      func.func @computed_scale(
// CHECK-NEXT:   %e = coda.exp %g : (tensor<8xf32>) -> tensor<8xf32>
// CHECK-NEXT:   %s = coda.mul %x, %e : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %z = coda.linear %s, %w : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   func.return %z : tensor<?x16xf32>
// CHECK-NEXT: }

// -----

// So is the weight.

func.func @computed_weight(%x: tensor<?x8xf32>, %g: tensor<8xf32> {coda.weight}, %w: tensor<16x8xf32> {coda.weight}) -> tensor<?x16xf32> {
  %e = coda.exp %w : (tensor<16x8xf32>) -> tensor<16x8xf32>
  %s = coda.mul %x, %g : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  %z = coda.linear %s, %e : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
  func.return %z : tensor<?x16xf32>
}

// REMARK: remark[missed] place-column-scale: coda.mul: %e is computed in the function; failed condition: the weight is an argument of the function; costs 64*d0 + 32 bytes
// CHECK:      func.func @computed_weight(
// CHECK-NEXT:   %e = coda.exp %w : (tensor<16x8xf32>) -> tensor<16x8xf32>
// CHECK-NEXT:   %s = coda.mul %x, %g : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %z = coda.linear %s, %e : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   func.return %z : tensor<?x16xf32>
// CHECK-NEXT: }

// -----

// Arguments that are not marked as weights may be other tensors in each call: a scale, a matrix.

func.func @scale_of_a_call(%x: tensor<?x8xf32>, %g: tensor<8xf32>, %w: tensor<16x8xf32> {coda.weight}) -> tensor<?x16xf32> {
  %s = coda.mul %x, %g : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  %z = coda.linear %s, %w : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
  func.return %z : tensor<?x16xf32>
}

func.func @matrix_of_a_call(%x: tensor<?x8xf32>, %g: tensor<8xf32> {coda.weight}, %y: tensor<8x4xf32>) -> tensor<?x4xf32> {
  %s = coda.mul %x, %g : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  %z = coda.matmul %s, %y : (tensor<?x8xf32>, tensor<8x4xf32>) -> tensor<?x4xf32>
  func.return %z : tensor<?x4xf32>
}

// REMARK: remark[missed] place-column-scale: coda.mul: %g may be a different tensor in each call; failed condition: the scale is marked as a weight; costs 64*d0 + 32 bytes
// REMARK: help: declare it as a weight if every call passes the same tensor
// REMARK: remark[missed] place-column-scale: coda.mul: %y may be a different tensor in each call; failed condition: the weight is marked as a weight; costs 64*d0 + 32 bytes
// CHECK:      func.func @scale_of_a_call(
// CHECK-NEXT:   %s = coda.mul %x, %g : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %z = coda.linear %s, %w : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   func.return %z : tensor<?x16xf32>
// CHECK-NEXT: }
// CHECK:      func.func @matrix_of_a_call(
// CHECK-NEXT:   %s = coda.mul %x, %g : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %z = coda.matmul %s, %y : (tensor<?x8xf32>, tensor<8x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   func.return %z : tensor<?x4xf32>
// CHECK-NEXT: }

// -----

// The scaled value has another use.

func.func @returned(%x: tensor<?x8xf32>, %g: tensor<8xf32> {coda.weight}, %w: tensor<16x8xf32> {coda.weight}) -> (tensor<?x16xf32>, tensor<?x8xf32>) {
  %s = coda.mul %x, %g : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  %z = coda.linear %s, %w : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
  func.return %z, %s : tensor<?x16xf32>, tensor<?x8xf32>
}

// REMARK: remark[missed] place-column-scale: coda.mul: the caller reads the scaled value; failed condition: every consumer of the scaled value is a GEMM; costs 64*d0 + 32 bytes
// CHECK:      func.func @returned(
// CHECK-NEXT:   %s = coda.mul %x, %g : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %z = coda.linear %s, %w : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   func.return %z, %s : tensor<?x16xf32>, tensor<?x8xf32>
// CHECK-NEXT: }

// -----

// A scale of the rows, and a product of two tiles: no column scales, no remark.

func.func @rows(%x: tensor<?x8xf32>, %r: tensor<?x1xf32>, %y: tensor<?x8xf32>, %w: tensor<16x8xf32> {coda.weight}) -> (tensor<?x16xf32>, tensor<?x16xf32>) {
  %s = coda.mul %x, %r : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  %z = coda.linear %s, %w : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
  %t = coda.mul %x, %y : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %u = coda.linear %t, %w : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
  func.return %z, %u : tensor<?x16xf32>, tensor<?x16xf32>
}

// CHECK:      func.func @rows(
// CHECK-NEXT:   %s = coda.mul %x, %r : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %z = coda.linear %s, %w : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %t = coda.mul %x, %y : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %u = coda.linear %t, %w : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   func.return %z, %u : tensor<?x16xf32>, tensor<?x16xf32>
// CHECK-NEXT: }

// -----

// A scaled weight would be rounded to 8 bits.

func.func @narrow(%x: tensor<?x8xf32>, %g: tensor<8xf32> {coda.weight}, %w: tensor<16x8xi8> {coda.weight}) -> tensor<?x16xf32> {
  %s = coda.mul %x, %g : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  %z = coda.linear %s, %w : (tensor<?x8xf32>, tensor<16x8xi8>) -> tensor<?x16xf32>
  func.return %z : tensor<?x16xf32>
}

// REMARK: remark[missed] place-column-scale: coda.mul: the scale is not folded: %w has element type i8; failed condition: the weight has more than 8 bits; costs 64*d0 + 32 bytes
// CHECK:      func.func @narrow(
// CHECK-NEXT:   %s = coda.mul %x, %g : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %z = coda.linear %s, %w : (tensor<?x8xf32>, tensor<16x8xi8>) -> tensor<?x16xf32>
// CHECK-NEXT:   func.return %z : tensor<?x16xf32>
// CHECK-NEXT: }

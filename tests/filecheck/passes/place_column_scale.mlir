// RUN: coda-opt %s -p "place-column-scale{fold=true}" --split-input-file | filecheck %s
// RUN: coda-opt %s -p place-column-scale --split-input-file | filecheck %s --check-prefix=DEFAULT
// RUN: coda-opt %s -p "place-column-scale{fold=true}" --split-input-file --remarks=passed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// The scale of the columns of x is one of the columns of an N x K weight, and of the rows of a K x N
// weight; biases and result types stay. By default the scale is left to the producer of x.
//
// DEFAULT-COUNT-2: coda.mul
// DEFAULT-NOT:     gemm.scale_weight

func.func @fold(%x: tensor<?x8xbf16>, %g: tensor<8xbf16> {coda.weight}, %w: tensor<16x8xbf16> {coda.weight}, %b: tensor<16xbf16>, %v: tensor<8x4xbf16> {coda.weight}) -> (tensor<?x16xf32>, tensor<?x4xbf16>) {
  %s = coda.mul %x, %g : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %z = coda.linear %s, %w, %b : (tensor<?x8xbf16>, tensor<16x8xbf16>, tensor<16xbf16>) -> tensor<?x16xf32>
  %y = coda.matmul %s, %v : (tensor<?x8xbf16>, tensor<8x4xbf16>) -> tensor<?x4xbf16>
  func.return %z, %y : tensor<?x16xf32>, tensor<?x4xbf16>
}

// REMARK: remark[passed] place-column-scale: coda.mul: folded into 2 weights, whose copies take 320 bytes
// CHECK:      func.func @fold(
// CHECK-NEXT:   %w_1 = gemm.scale_weight nk %w, %g : (tensor<16x8xbf16>, tensor<8xbf16>) -> tensor<16x8xbf16>
// CHECK-NEXT:   %z = coda.linear %x, %w_1, %b : (tensor<?x8xbf16>, tensor<16x8xbf16>, tensor<16xbf16>) -> tensor<?x16xf32>
// CHECK-NEXT:   %v_1 = gemm.scale_weight kn %v, %g : (tensor<8x4xbf16>, tensor<8xbf16>) -> tensor<8x4xbf16>
// CHECK-NEXT:   %y = coda.matmul %x, %v_1 : (tensor<?x8xbf16>, tensor<8x4xbf16>) -> tensor<?x4xbf16>
// CHECK-NEXT:   func.return %z, %y : tensor<?x16xf32>, tensor<?x4xbf16>
// CHECK-NEXT: }

// -----

// The scale as the first operand.

func.func @first(%x: tensor<?x8xf32>, %g: tensor<8xf32> {coda.weight}, %w: tensor<16x8xf32> {coda.weight}) -> tensor<?x16xf32> {
  %s = coda.mul %g, %x : (tensor<8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %z = coda.linear %s, %w : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
  func.return %z : tensor<?x16xf32>
}

// REMARK: remark[passed] place-column-scale: coda.mul: folded into a weight, whose copy takes 512 bytes
// CHECK:      func.func @first(
// CHECK-NEXT:   %w_1 = gemm.scale_weight nk %w, %g : (tensor<16x8xf32>, tensor<8xf32>) -> tensor<16x8xf32>
// CHECK-NEXT:   %z = coda.linear %x, %w_1 : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   func.return %z : tensor<?x16xf32>
// CHECK-NEXT: }

// -----

// The weights of a GEMM that has an epilogue.

func.func @own_epilogue(%x: tensor<?x8xbf16>, %g: tensor<8xbf16> {coda.weight}, %w: tensor<16x8xbf16> {coda.weight}, %v: tensor<16x8xbf16> {coda.weight}) -> tensor<?x16xbf16> {
  %s = coda.mul %x, %g : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %y = gemm.fused %s : tensor<?x8xbf16> columns(%w : tensor<16x8xbf16>, %v : tensor<16x8xbf16>) pair<halves> -> (half : tensor<?x16xbf16>) {
  ^bb0(%gate: f32, %up: f32):
    %p = arith.mulf %gate, %up : f32
    gemm.yield %p : f32
  }
  func.return %y : tensor<?x16xbf16>
}

// REMARK: remark[passed] place-column-scale: coda.mul: folded into 2 weights, whose copies take 512 bytes
// CHECK:      func.func @own_epilogue(
// CHECK-NEXT:   %w_1 = gemm.scale_weight nk %w, %g : (tensor<16x8xbf16>, tensor<8xbf16>) -> tensor<16x8xbf16>
// CHECK-NEXT:   %v_1 = gemm.scale_weight nk %v, %g : (tensor<16x8xbf16>, tensor<8xbf16>) -> tensor<16x8xbf16>
// CHECK-NEXT:   %y = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w_1 : tensor<16x8xbf16>, %v_1 : tensor<16x8xbf16>) pair<halves>
// CHECK-NEXT:       -> (half : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%gate: f32, %up: f32):
// CHECK-NEXT:       %p = arith.mulf %gate, %up : f32
// CHECK-NEXT:       gemm.yield %p : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y : tensor<?x16xbf16>
// CHECK-NEXT: }

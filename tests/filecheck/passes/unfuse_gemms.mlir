// RUN: coda-opt %s -p unfuse-gemms --split-input-file | filecheck %s
// RUN: coda-opt %s -p 'unfuse-gemms{by=library}' --split-input-file | filecheck %s --check-prefix=LIBRARY
// RUN: coda-opt %s -p 'unfuse-gemms{by=library}' --split-input-file --remarks=passed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// A bias and an activation. The library gives the same products without a kernel of ours.

func.func @bias(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %b: tensor<16xbf16>) -> tensor<?x16xbf16> {
  %y = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>) row(%b : tensor<16xbf16>)
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32, %bias: f32):
      %s = arith.addf %acc, %bias : f32
      %t = math.tanh %s : f32
      gemm.yield %t : f32
    }
  func.return %y : tensor<?x16xbf16>
}

// CHECK:      func.func @bias(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %b: tensor<16xbf16>) -> tensor<?x16xbf16> {
// CHECK-NEXT:   %product = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<16x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%0: f32):
// CHECK-NEXT:       gemm.yield %0 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %y = gemm.map tile(%product : tensor<?x16xf32>) row(%b : tensor<16xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %bias: f32):
// CHECK-NEXT:       %s = arith.addf %acc, %bias : f32
// CHECK-NEXT:       %t = math.tanh %s : f32
// CHECK-NEXT:       gemm.yield %t : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y : tensor<?x16xbf16>
// CHECK-NEXT: }

// LIBRARY:      func.func @bias(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %b: tensor<16xbf16>) -> tensor<?x16xbf16> {
// LIBRARY-NEXT:   %product = gemm.library %x : tensor<?x8xbf16> columns(%w : tensor<16x8xbf16>) -> tensor<?x16xf32>
// LIBRARY-NEXT:   %y = gemm.map tile(%product : tensor<?x16xf32>) row(%b : tensor<16xbf16>)
// LIBRARY-NEXT:       -> (tile : tensor<?x16xbf16>) {
// LIBRARY-NEXT:     ^bb0(%acc: f32, %bias: f32):
// LIBRARY-NEXT:       %s = arith.addf %acc, %bias : f32
// LIBRARY-NEXT:       %t = math.tanh %s : f32
// LIBRARY-NEXT:       gemm.yield %t : f32
// LIBRARY-NEXT:     }
// LIBRARY-NEXT:   func.return %y : tensor<?x16xbf16>
// LIBRARY-NEXT: }

// REMARK: remark[passed] unfuse-gemms: gemm.fused: the library computes its products, 1 pointwise kernel its epilogue

// -----

// Two weights in pairs: one kernel over the columns of both products, where these are apart.

func.func @glu(%x: tensor<?x8xbf16>, %wg: tensor<16x8xbf16>, %wu: tensor<16x8xbf16>, %r: tensor<?x1xf32>, %b: tensor<16xbf16>) -> (tensor<?x16xbf16>, tensor<?x?xf32>) {
  %y, %p = gemm.fused %x : tensor<?x8xbf16>
    columns(%wg : tensor<16x8xbf16>, %wu : tensor<16x8xbf16>) pair<halves> col(%r : tensor<?x1xf32>) half_row(%b : tensor<16xbf16>)
      -> (half : tensor<?x16xbf16>, partial_row<add> : tensor<?x?xf32>) {
    ^bb0(%g: f32, %u: f32, %rstd: f32, %bias: f32):
      %0 = arith.mulf %g, %rstd : f32
      %1 = math.tanh %0 : f32
      %2 = arith.mulf %1, %u : f32
      %3 = arith.addf %2, %bias : f32
      gemm.yield %3, %2 : f32, f32
    }
  func.return %y, %p : tensor<?x16xbf16>, tensor<?x?xf32>
}

// CHECK:      func.func @glu(%x: tensor<?x8xbf16>, %wg: tensor<16x8xbf16>, %wu: tensor<16x8xbf16>, %r: tensor<?x1xf32>, %b: tensor<16xbf16>) -> (tensor<?x16xbf16>, tensor<?x?xf32>) {
// CHECK-NEXT:   %product = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%wg : tensor<16x8xbf16>, %wu : tensor<16x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x32xf32>) {
// CHECK-NEXT:     ^bb0(%0: f32):
// CHECK-NEXT:       gemm.yield %0 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %y, %p = gemm.map pair<halves, 32> tile(%product : tensor<?x32xf32>) col(%r : tensor<?x1xf32>) half_row(%b : tensor<16xbf16>)
// CHECK-NEXT:       -> (half : tensor<?x16xbf16>, partial_row<add> : tensor<?x?xf32>) {
// CHECK-NEXT:     ^bb0(%g: f32, %u: f32, %rstd: f32, %bias: f32):
// CHECK-NEXT:       %0 = arith.mulf %g, %rstd : f32
// CHECK-NEXT:       %1 = math.tanh %0 : f32
// CHECK-NEXT:       %2 = arith.mulf %1, %u : f32
// CHECK-NEXT:       %3 = arith.addf %2, %bias : f32
// CHECK-NEXT:       gemm.yield %3, %2 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y, %p : tensor<?x16xbf16>, tensor<?x?xf32>
// CHECK-NEXT: }

// LIBRARY:      func.func @glu(%x: tensor<?x8xbf16>, %wg: tensor<16x8xbf16>, %wu: tensor<16x8xbf16>, %r: tensor<?x1xf32>, %b: tensor<16xbf16>) -> (tensor<?x16xbf16>, tensor<?x?xf32>) {
// LIBRARY-NEXT:   %product = gemm.library %x : tensor<?x8xbf16> columns(%wg : tensor<16x8xbf16>) -> tensor<?x16xf32>
// LIBRARY-NEXT:   %product_1 = gemm.library %x : tensor<?x8xbf16> columns(%wu : tensor<16x8xbf16>) -> tensor<?x16xf32>
// LIBRARY-NEXT:   %y, %p = gemm.map tile(%product : tensor<?x16xf32>, %product_1 : tensor<?x16xf32>) col(%r : tensor<?x1xf32>) row(%b : tensor<16xbf16>)
// LIBRARY-NEXT:       -> (tile : tensor<?x16xbf16>, partial_row<add> : tensor<?x?xf32>) {
// LIBRARY-NEXT:     ^bb0(%g: f32, %u: f32, %rstd: f32, %bias: f32):
// LIBRARY-NEXT:       %0 = arith.mulf %g, %rstd : f32
// LIBRARY-NEXT:       %1 = math.tanh %0 : f32
// LIBRARY-NEXT:       %2 = arith.mulf %1, %u : f32
// LIBRARY-NEXT:       %3 = arith.addf %2, %bias : f32
// LIBRARY-NEXT:       gemm.yield %3, %2 : f32, f32
// LIBRARY-NEXT:     }
// LIBRARY-NEXT:   func.return %y, %p : tensor<?x16xbf16>, tensor<?x?xf32>
// LIBRARY-NEXT: }

// REMARK: remark[passed] unfuse-gemms: gemm.fused: the library computes its products, 1 pointwise kernel its epilogue

// -----

// Several column ranges, the second of which is stored as it is; rotated pairs of one weight. Every
// use rounds the accumulator of the third, so its product is stored in bf16.

func.func @siblings(%x: tensor<?x8xbf16>, %wq: tensor<16x8xbf16>, %wk: tensor<8x8xbf16>, %wv: tensor<8x8xbf16>, %cos: tensor<?x2xf32>) -> (tensor<?x16xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>) {
  %q, %k, %v = gemm.fused %x : tensor<?x8xbf16>
    columns(%wq : tensor<16x8xbf16>) pair<halves, 4> half_table(%cos : tensor<?x2xf32>)
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%a: f32, %b: f32, %c: f32):
      %0 = arith.mulf %a, %c : f32
      %1 = arith.mulf %b, %c : f32
      gemm.yield %0, %1 : f32, f32
    }
    columns(%wk : tensor<8x8xbf16>)
      -> (tile : tensor<?x8xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
    columns(%wv : tensor<8x8xbf16>)
      -> (tile : tensor<?x8xbf16>) {
    ^bb0(%acc_1: f32):
      %2 = arith.truncf %acc_1 : f32 to bf16
      %3 = arith.extf %2 : bf16 to f32
      %4 = math.tanh %3 : f32
      gemm.yield %4 : f32
    }
  func.return %q, %k, %v : tensor<?x16xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>
}

// CHECK:      func.func @siblings(%x: tensor<?x8xbf16>, %wq: tensor<16x8xbf16>, %wk: tensor<8x8xbf16>, %wv: tensor<8x8xbf16>, %cos: tensor<?x2xf32>) -> (tensor<?x16xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>) {
// CHECK-NEXT:   %product, %k, %product_1 = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%wq : tensor<16x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%0: f32):
// CHECK-NEXT:       gemm.yield %0 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     columns(%wk : tensor<8x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x8xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     columns(%wv : tensor<8x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x8xbf16>) {
// CHECK-NEXT:     ^bb0(%1: f32):
// CHECK-NEXT:       gemm.yield %1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %q = gemm.map pair<halves, 4> tile(%product : tensor<?x16xf32>) half_table(%cos : tensor<?x2xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%a: f32, %b: f32, %c: f32):
// CHECK-NEXT:       %0 = arith.mulf %a, %c : f32
// CHECK-NEXT:       %1 = arith.mulf %b, %c : f32
// CHECK-NEXT:       gemm.yield %0, %1 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %v = gemm.map tile(%product_1 : tensor<?x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x8xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       %0 = arith.truncf %acc : f32 to bf16
// CHECK-NEXT:       %1 = arith.extf %0 : bf16 to f32
// CHECK-NEXT:       %2 = math.tanh %1 : f32
// CHECK-NEXT:       gemm.yield %2 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %q, %k, %v : tensor<?x16xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>
// CHECK-NEXT: }

// LIBRARY:      func.func @siblings(%x: tensor<?x8xbf16>, %wq: tensor<16x8xbf16>, %wk: tensor<8x8xbf16>, %wv: tensor<8x8xbf16>, %cos: tensor<?x2xf32>) -> (tensor<?x16xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>) {
// LIBRARY-NEXT:   %product = gemm.library %x : tensor<?x8xbf16> columns(%wq : tensor<16x8xbf16>) -> tensor<?x16xf32>
// LIBRARY-NEXT:   %q = gemm.map pair<halves, 4> tile(%product : tensor<?x16xf32>) half_table(%cos : tensor<?x2xf32>)
// LIBRARY-NEXT:       -> (tile : tensor<?x16xbf16>) {
// LIBRARY-NEXT:     ^bb0(%a: f32, %b: f32, %c: f32):
// LIBRARY-NEXT:       %0 = arith.mulf %a, %c : f32
// LIBRARY-NEXT:       %1 = arith.mulf %b, %c : f32
// LIBRARY-NEXT:       gemm.yield %0, %1 : f32, f32
// LIBRARY-NEXT:     }
// LIBRARY-NEXT:   %k = gemm.library %x : tensor<?x8xbf16> columns(%wk : tensor<8x8xbf16>) -> tensor<?x8xbf16>
// LIBRARY-NEXT:   %product_1 = gemm.library %x : tensor<?x8xbf16> columns(%wv : tensor<8x8xbf16>) -> tensor<?x8xbf16>
// LIBRARY-NEXT:   %v = gemm.map tile(%product_1 : tensor<?x8xbf16>)
// LIBRARY-NEXT:       -> (tile : tensor<?x8xbf16>) {
// LIBRARY-NEXT:     ^bb0(%acc: f32):
// LIBRARY-NEXT:       %0 = arith.truncf %acc : f32 to bf16
// LIBRARY-NEXT:       %1 = arith.extf %0 : bf16 to f32
// LIBRARY-NEXT:       %2 = math.tanh %1 : f32
// LIBRARY-NEXT:       gemm.yield %2 : f32
// LIBRARY-NEXT:     }
// LIBRARY-NEXT:   func.return %q, %k, %v : tensor<?x16xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>
// LIBRARY-NEXT: }

// REMARK: remark[passed] unfuse-gemms: gemm.fused: the library computes its products, 2 pointwise kernels its epilogue

// -----

// Products that add up, and a result that is added to what there is.

func.func @gradient(%dq: tensor<?x8xbf16>, %dk: tensor<?x8xbf16>, %x: tensor<?x4xbf16>, %y: tensor<?x4xbf16>, %old: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %dw = gemm.fused transposed %dq : tensor<?x8xbf16> + %dk : tensor<?x8xbf16>
    columns(%x : tensor<?x4xbf16>) + (%y : tensor<?x4xbf16>) kn tile(%old : tensor<8x4xf32>)
      -> (accumulate<0> : tensor<8x4xf32>) {
    ^bb0(%acc: f32, %before: f32):
      %0 = arith.addf %before, %acc : f32
      gemm.yield %0 : f32
    }
  func.return %dw : tensor<8x4xf32>
}

// CHECK:      func.func @gradient(%dq: tensor<?x8xbf16>, %dk: tensor<?x8xbf16>, %x: tensor<?x4xbf16>, %y: tensor<?x4xbf16>, %old: tensor<8x4xf32>) -> tensor<8x4xf32> {
// CHECK-NEXT:   %product = gemm.fused transposed %dq : tensor<?x8xbf16> + %dk : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%x : tensor<?x4xbf16>) + (%y : tensor<?x4xbf16>) kn
// CHECK-NEXT:       -> (tile : tensor<8x4xf32>) {
// CHECK-NEXT:     ^bb0(%0: f32):
// CHECK-NEXT:       gemm.yield %0 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %dw = gemm.map tile(%product : tensor<8x4xf32>, %old : tensor<8x4xf32>)
// CHECK-NEXT:       -> (accumulate<1> : tensor<8x4xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %before: f32):
// CHECK-NEXT:       %0 = arith.addf %before, %acc : f32
// CHECK-NEXT:       gemm.yield %0 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %dw : tensor<8x4xf32>
// CHECK-NEXT: }

// LIBRARY:      func.func @gradient(%dq: tensor<?x8xbf16>, %dk: tensor<?x8xbf16>, %x: tensor<?x4xbf16>, %y: tensor<?x4xbf16>, %old: tensor<8x4xf32>) -> tensor<8x4xf32> {
// LIBRARY-NEXT:   %product = gemm.library transposed %dq : tensor<?x8xbf16> + %dk : tensor<?x8xbf16> columns(%x : tensor<?x4xbf16>) + (%y : tensor<?x4xbf16>) kn -> tensor<8x4xf32>
// LIBRARY-NEXT:   %dw = gemm.map tile(%product : tensor<8x4xf32>, %old : tensor<8x4xf32>)
// LIBRARY-NEXT:       -> (accumulate<1> : tensor<8x4xf32>) {
// LIBRARY-NEXT:     ^bb0(%acc: f32, %before: f32):
// LIBRARY-NEXT:       %0 = arith.addf %before, %acc : f32
// LIBRARY-NEXT:       gemm.yield %0 : f32
// LIBRARY-NEXT:     }
// LIBRARY-NEXT:   func.return %dw : tensor<8x4xf32>
// LIBRARY-NEXT: }

// REMARK: remark[passed] unfuse-gemms: gemm.fused: the library computes its products, 1 pointwise kernel its epilogue

// -----

// Nothing but a product: only the library is another way to compute it.

func.func @bare(%dz: tensor<?x8xbf16>, %x: tensor<?x4xbf16>) -> tensor<4x8xbf16> {
  %dw = gemm.fused transposed %dz : tensor<?x8xbf16>
    columns(%x : tensor<?x4xbf16>) kn
      -> (tile_t : tensor<4x8xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  func.return %dw : tensor<4x8xbf16>
}

// CHECK:      func.func @bare(%dz: tensor<?x8xbf16>, %x: tensor<?x4xbf16>) -> tensor<4x8xbf16> {
// CHECK-NEXT:   %dw = gemm.fused transposed %dz : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%x : tensor<?x4xbf16>) kn
// CHECK-NEXT:       -> (tile_t : tensor<4x8xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %dw : tensor<4x8xbf16>
// CHECK-NEXT: }

// LIBRARY:      func.func @bare(%dz: tensor<?x8xbf16>, %x: tensor<?x4xbf16>) -> tensor<4x8xbf16> {
// LIBRARY-NEXT:   %dw = gemm.library transposed %dz : tensor<?x8xbf16> columns(%x : tensor<?x4xbf16>) kn -> tile_t tensor<4x8xbf16>
// LIBRARY-NEXT:   func.return %dw : tensor<4x8xbf16>
// LIBRARY-NEXT: }

// REMARK: remark[passed] unfuse-gemms: gemm.fused: the library computes its products

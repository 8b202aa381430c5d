// RUN: coda-opt %s -p merge-gemm-sums --split-input-file | filecheck %s
// RUN: coda-opt %s -p merge-gemm-sums --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// A product that is returned too.

func.func @used(%dq: tensor<?x8xbf16>, %dk: tensor<?x4xbf16>, %wq: tensor<8x16xbf16>, %wk: tensor<4x16xbf16>) -> (tensor<?x16xbf16>, tensor<?x16xbf16>) {
  %a = gemm.fused %dq : tensor<?x8xbf16>
    columns(%wq : tensor<8x16xbf16>) kn
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %b = gemm.fused %dk : tensor<?x4xbf16>
    columns(%wk : tensor<4x16xbf16>) kn
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %y = coda.add %a, %b : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %y, %a : tensor<?x16xbf16>, tensor<?x16xbf16>
}

// REMARK: remark[missed] merge-gemm-sums: coda.add: %a is stored and loaded again: it is also used elsewhere; failed condition: an added product has no other use; costs 64*d0 + 32*d1 bytes
// CHECK:      func.func @used(
// CHECK-NEXT:   %a = gemm.fused %dq : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%wq : tensor<8x16xbf16>) kn
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %b = gemm.fused %dk : tensor<?x4xbf16>
// CHECK-NEXT:     columns(%wk : tensor<4x16xbf16>) kn
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %y = coda.add %a, %b : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %y, %a : tensor<?x16xbf16>, tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// The second product depends on the first one.

func.func @dependent(%x: tensor<?x8xbf16>, %w: tensor<8x16xbf16>, %v: tensor<16x16xbf16>) -> tensor<?x16xbf16> {
  %a = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<8x16xbf16>) kn
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %b = gemm.fused %a : tensor<?x16xbf16>
    columns(%v : tensor<16x16xbf16>) kn
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %y = coda.add %a, %b : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %y : tensor<?x16xbf16>
}

// REMARK: remark[missed] merge-gemm-sums: coda.add: %a is stored and loaded again: it is also used elsewhere; failed condition: an added product has no other use; costs 96*d0 bytes
// CHECK:      func.func @dependent(
// CHECK-NEXT:   %a = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<8x16xbf16>) kn
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %b = gemm.fused %a : tensor<?x16xbf16>
// CHECK-NEXT:     columns(%v : tensor<16x16xbf16>) kn
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %y = coda.add %a, %b : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %y : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// A product whose epilogue does more than add a bias.

func.func @scaled(%dq: tensor<?x8xbf16>, %dk: tensor<?x4xbf16>, %wq: tensor<8x16xbf16>, %wk: tensor<4x16xbf16>, %c: tensor<16xbf16>) -> tensor<?x16xbf16> {
  %a = gemm.fused %dq : tensor<?x8xbf16>
    columns(%wq : tensor<8x16xbf16>) kn
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %b = gemm.fused %dk : tensor<?x4xbf16>
    columns(%wk : tensor<4x16xbf16>) kn row(%c : tensor<16xbf16>)
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32, %c_1: f32):
      %0 = arith.mulf %acc, %c_1 : f32
      gemm.yield %0 : f32
    }
  %y = coda.add %a, %b : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %y : tensor<?x16xbf16>
}

// REMARK: remark[missed] merge-gemm-sums: coda.add: %b is stored and loaded again: it has its own epilogue; failed condition: the products are added unchanged or with a bias; costs 64*d0 + 32*d1 bytes
// CHECK:      func.func @scaled(
// CHECK-NEXT:   %a = gemm.fused %dq : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%wq : tensor<8x16xbf16>) kn
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %b = gemm.fused %dk : tensor<?x4xbf16>
// CHECK-NEXT:     columns(%wk : tensor<4x16xbf16>) kn row(%c : tensor<16xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %c_1: f32):
// CHECK-NEXT:       %0 = arith.mulf %acc, %c_1 : f32
// CHECK-NEXT:       gemm.yield %0 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %y = coda.add %a, %b : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %y : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// A weight of N x K and one of K x N.

func.func @layouts(%dq: tensor<?x8xbf16>, %dk: tensor<?x4xbf16>, %wq: tensor<8x16xbf16>, %wk: tensor<4x16xbf16>, %v: tensor<16x4xbf16>) -> tensor<?x16xbf16> {
  %a = gemm.fused %dq : tensor<?x8xbf16>
    columns(%wq : tensor<8x16xbf16>) kn
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %b = gemm.fused %dk : tensor<?x4xbf16>
    columns(%v : tensor<16x4xbf16>)
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %y = coda.add %a, %b : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %y : tensor<?x16xbf16>
}

// REMARK: remark[missed] merge-gemm-sums: coda.add: the products are stored and added one by one: some weights are N x K, others K x N; failed condition: the weights of all products have the same layout; costs 64*d0 + 32*d1 bytes
// CHECK:      func.func @layouts(
// CHECK-NEXT:   %a = gemm.fused %dq : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%wq : tensor<8x16xbf16>) kn
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %b = gemm.fused %dk : tensor<?x4xbf16>
// CHECK-NEXT:     columns(%v : tensor<16x4xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %y = coda.add %a, %b : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %y : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// Eager rounds each product.

func.func @exact(%dq: tensor<?x8xbf16>, %dk: tensor<?x4xbf16>, %wq: tensor<8x16xbf16>, %wk: tensor<4x16xbf16>) -> tensor<?x16xbf16> attributes {coda.numerics = #gemm.numerics<"eager-exact">} {
  %a = gemm.fused %dq : tensor<?x8xbf16>
    columns(%wq : tensor<8x16xbf16>) kn
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %b = gemm.fused %dk : tensor<?x4xbf16>
    columns(%wk : tensor<4x16xbf16>) kn
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %y = coda.add %a, %b : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %y : tensor<?x16xbf16>
}

// REMARK: remark[missed] merge-gemm-sums: coda.add: the products are stored and added one by one: eager PyTorch rounds each, and the mode is eager-exact; failed condition: the numerics mode allows rounding points to move; costs 64*d0 + 32*d1 bytes
// REMARK: help: use the mode fp32-epilogue or deterministic
// CHECK:      func.func @exact(
// CHECK-NEXT:   %a = gemm.fused %dq : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%wq : tensor<8x16xbf16>) kn
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %b = gemm.fused %dk : tensor<?x4xbf16>
// CHECK-NEXT:     columns(%wk : tensor<4x16xbf16>) kn
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %y = coda.add %a, %b : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %y : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// Only one of the addends is a product.

func.func @one(%dq: tensor<?x8xbf16>, %wq: tensor<8x16xbf16>, %x: tensor<?x16xbf16>) -> tensor<?x16xbf16> {
  %a = gemm.fused %dq : tensor<?x8xbf16>
    columns(%wq : tensor<8x16xbf16>) kn
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %y = coda.add %a, %x : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %y : tensor<?x16xbf16>
}

// CHECK:      func.func @one(
// CHECK-NEXT:   %a = gemm.fused %dq : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%wq : tensor<8x16xbf16>) kn
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %y = coda.add %a, %x : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %y : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// Products of blocks are scaled one by one.

func.func @blocks(%x: tensor<?x256xf8E4M3FN>, %w: tensor<512x256xf8E4M3FN>, %v: tensor<512x256xf8E4M3FN>, %sx: tensor<?x2xf32>, %sw: tensor<4x2xf32>) -> tensor<?x512xbf16> {
  %a = gemm.fused %x : tensor<?x256xf8E4M3FN> blocks<128, 128>(%sx : tensor<?x2xf32>)
    columns(%w : tensor<512x256xf8E4M3FN>) scales(%sw : tensor<4x2xf32>)
      -> (tile : tensor<?x512xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %b = gemm.fused %x : tensor<?x256xf8E4M3FN> blocks<128, 128>(%sx : tensor<?x2xf32>)
    columns(%v : tensor<512x256xf8E4M3FN>) scales(%sw : tensor<4x2xf32>)
      -> (tile : tensor<?x512xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %y = coda.add %a, %b : (tensor<?x512xbf16>, tensor<?x512xbf16>) -> tensor<?x512xbf16>
  func.return %y : tensor<?x512xbf16>
}

// REMARK: remark[missed] merge-gemm-sums: coda.add: %a is stored and loaded again: each of its blocks is scaled separately; failed condition: the products of a sum have no block scales
// CHECK:      func.func @blocks(%x: tensor<?x256xf8E4M3FN>, %w: tensor<512x256xf8E4M3FN>, %v: tensor<512x256xf8E4M3FN>, %sx: tensor<?x2xf32>, %sw: tensor<4x2xf32>) -> tensor<?x512xbf16> {
// CHECK-NEXT:   %a = gemm.fused %x : tensor<?x256xf8E4M3FN> blocks<128, 128>(%sx : tensor<?x2xf32>)
// CHECK-NEXT:     columns(%w : tensor<512x256xf8E4M3FN>) scales(%sw : tensor<4x2xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x512xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %b = gemm.fused %x : tensor<?x256xf8E4M3FN> blocks<128, 128>(%sx : tensor<?x2xf32>)
// CHECK-NEXT:     columns(%v : tensor<512x256xf8E4M3FN>) scales(%sw : tensor<4x2xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x512xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %y = coda.add %a, %b : (tensor<?x512xbf16>, tensor<?x512xbf16>) -> tensor<?x512xbf16>
// CHECK-NEXT:   func.return %y : tensor<?x512xbf16>
// CHECK-NEXT: }

// RUN: coda-opt %s -p merge-sibling-gemms --split-input-file | filecheck %s
// RUN: coda-opt %s -p merge-sibling-gemms --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// A sibling that reads the result of its sibling; the third one still joins the first.

func.func @dependent(%x: tensor<?x8xf32>, %w: tensor<16x8xf32>, %v: tensor<16x8xf32>, %u: tensor<4x8xf32>) -> (tensor<?x16xf32>, tensor<?x4xf32>) {
  %a0 = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<16x8xf32>)
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %a = coda.softmax %a0 : (tensor<?x16xf32>) -> tensor<?x16xf32>
  %b = gemm.fused %x : tensor<?x8xf32>
    columns(%v : tensor<16x8xf32>) tile(%a : tensor<?x16xf32>)
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%acc: f32, %a_1: f32):
      %b_1 = arith.mulf %acc, %a_1 : f32
      gemm.yield %b_1 : f32
    }
  %c = gemm.fused %x : tensor<?x8xf32>
    columns(%u : tensor<4x8xf32>)
      -> (tile : tensor<?x4xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  func.return %b, %c : tensor<?x16xf32>, tensor<?x4xf32>
}

// REMARK: remark[missed] merge-sibling-gemms: gemm.fused: reads its input again: it needs a result of the GEMM it would join; failed condition: no sibling depends on another; costs 160*d0 + 512 bytes
// CHECK:      func.func @dependent(
// CHECK-NEXT:   %a0, %c = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<16x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     columns(%u : tensor<4x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x4xf32>) {
// CHECK-NEXT:     ^bb0(%acc_1: f32):
// CHECK-NEXT:       gemm.yield %acc_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %a = coda.softmax %a0 : (tensor<?x16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %b = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%v : tensor<16x8xf32>) tile(%a : tensor<?x16xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %a_1: f32):
// CHECK-NEXT:       %b_1 = arith.mulf %acc, %a_1 : f32
// CHECK-NEXT:       gemm.yield %b_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %b, %c : tensor<?x16xf32>, tensor<?x4xf32>
// CHECK-NEXT: }

// -----

// Another input, of the same shape.

func.func @input(%x: tensor<?x8xf32>, %y: tensor<?x8xf32>, %w: tensor<16x8xf32>) -> (tensor<?x16xf32>, tensor<?x16xf32>) {
  %a = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<16x8xf32>)
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %b = gemm.fused %y : tensor<?x8xf32>
    columns(%w : tensor<16x8xf32>)
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  func.return %a, %b : tensor<?x16xf32>, tensor<?x16xf32>
}

// CHECK:      func.func @input(
// CHECK-NEXT:   %a = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<16x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %b = gemm.fused %y : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<16x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %a, %b : tensor<?x16xf32>, tensor<?x16xf32>
// CHECK-NEXT: }

// -----

// A sum over the rows of a gradient, which become columns.

func.func @rows(%h: tensor<?x?x8xbf16>, %dq: tensor<?x?x16xbf16>, %dk: tensor<?x?x4xbf16>) -> (tensor<16x8xbf16>, tensor<4x?xf32>) {
  %dwq = gemm.fused transposed %dq : tensor<?x?x16xbf16>
    columns(%h : tensor<?x?x8xbf16>) kn
      -> (tile : tensor<16x8xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %dwk = gemm.fused transposed %dk : tensor<?x?x4xbf16>
    columns(%h : tensor<?x?x8xbf16>) kn
      -> (partial_row<add> : tensor<4x?xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  func.return %dwq, %dwk : tensor<16x8xbf16>, tensor<4x?xf32>
}

// REMARK: remark[missed] merge-sibling-gemms: gemm.fused: reads its weights again: its epilogue would have to combine columns instead of rows; failed condition: a transposed epilogue combines neither rows nor columns; costs 16*d0*d1 + 8*d4*d5 + 16 bytes
// CHECK:      func.func @rows(
// CHECK-NEXT:   %dwq = gemm.fused transposed %h : tensor<?x?x8xbf16>
// CHECK-NEXT:     columns(%dq : tensor<?x?x16xbf16>) kn
// CHECK-NEXT:       -> (tile_t : tensor<16x8xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %dwk = gemm.fused transposed %dk : tensor<?x?x4xbf16>
// CHECK-NEXT:     columns(%h : tensor<?x?x8xbf16>) kn
// CHECK-NEXT:       -> (partial_row<add> : tensor<4x?xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %dwq, %dwk : tensor<16x8xbf16>, tensor<4x?xf32>
// CHECK-NEXT: }

// -----

// Nine siblings: the last one begins another GEMM.

func.func @nine(%x: tensor<?x8xf32>, %w0: tensor<4x8xf32>, %w1: tensor<4x8xf32>, %w2: tensor<4x8xf32>, %w3: tensor<4x8xf32>, %w4: tensor<4x8xf32>, %w5: tensor<4x8xf32>, %w6: tensor<4x8xf32>, %w7: tensor<4x8xf32>, %w8: tensor<4x8xf32>) -> (tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>) {
  %y0 = gemm.fused %x : tensor<?x8xf32>
    columns(%w0 : tensor<4x8xf32>)
      -> (tile : tensor<?x4xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %y1 = gemm.fused %x : tensor<?x8xf32>
    columns(%w1 : tensor<4x8xf32>)
      -> (tile : tensor<?x4xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %y2 = gemm.fused %x : tensor<?x8xf32>
    columns(%w2 : tensor<4x8xf32>)
      -> (tile : tensor<?x4xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %y3 = gemm.fused %x : tensor<?x8xf32>
    columns(%w3 : tensor<4x8xf32>)
      -> (tile : tensor<?x4xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %y4 = gemm.fused %x : tensor<?x8xf32>
    columns(%w4 : tensor<4x8xf32>)
      -> (tile : tensor<?x4xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %y5 = gemm.fused %x : tensor<?x8xf32>
    columns(%w5 : tensor<4x8xf32>)
      -> (tile : tensor<?x4xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %y6 = gemm.fused %x : tensor<?x8xf32>
    columns(%w6 : tensor<4x8xf32>)
      -> (tile : tensor<?x4xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %y7 = gemm.fused %x : tensor<?x8xf32>
    columns(%w7 : tensor<4x8xf32>)
      -> (tile : tensor<?x4xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %y8 = gemm.fused %x : tensor<?x8xf32>
    columns(%w8 : tensor<4x8xf32>)
      -> (tile : tensor<?x4xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  func.return %y0, %y1, %y2, %y3, %y4, %y5, %y6, %y7, %y8 : tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>
}

// REMARK: remark[missed] merge-sibling-gemms: gemm.fused: reads its input again: its siblings have 8 column ranges, or would have more; failed condition: a GEMM has at most 8 column ranges; costs 48*d0 + 128 bytes
// CHECK:      func.func @nine(
// CHECK-NEXT:   %y0, %y1, %y2, %y3, %y4, %y5, %y6, %y7 = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w0 : tensor<4x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x4xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     columns(%w1 : tensor<4x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x4xf32>) {
// CHECK-NEXT:     ^bb0(%acc_1: f32):
// CHECK-NEXT:       gemm.yield %acc_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     columns(%w2 : tensor<4x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x4xf32>) {
// CHECK-NEXT:     ^bb0(%acc_2: f32):
// CHECK-NEXT:       gemm.yield %acc_2 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     columns(%w3 : tensor<4x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x4xf32>) {
// CHECK-NEXT:     ^bb0(%acc_3: f32):
// CHECK-NEXT:       gemm.yield %acc_3 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     columns(%w4 : tensor<4x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x4xf32>) {
// CHECK-NEXT:     ^bb0(%acc_4: f32):
// CHECK-NEXT:       gemm.yield %acc_4 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     columns(%w5 : tensor<4x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x4xf32>) {
// CHECK-NEXT:     ^bb0(%acc_5: f32):
// CHECK-NEXT:       gemm.yield %acc_5 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     columns(%w6 : tensor<4x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x4xf32>) {
// CHECK-NEXT:     ^bb0(%acc_6: f32):
// CHECK-NEXT:       gemm.yield %acc_6 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     columns(%w7 : tensor<4x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x4xf32>) {
// CHECK-NEXT:     ^bb0(%acc_7: f32):
// CHECK-NEXT:       gemm.yield %acc_7 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %y8 = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w8 : tensor<4x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x4xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y0, %y1, %y2, %y3, %y4, %y5, %y6, %y7, %y8 : tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>
// CHECK-NEXT: }

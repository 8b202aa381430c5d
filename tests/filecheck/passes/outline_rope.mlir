// RUN: coda-opt %s -p outline-rope,join-pointwise --split-input-file | filecheck %s

// The gradient of q is rotated back, and enters a row sum: one kernel reads it once.

func.func @rotated_back(%q: tensor<?x16xbf16>, %dq: tensor<?x16xbf16>, %cos: tensor<?x4xf32>, %sin: tensor<?x4xf32>) -> (tensor<?x16xbf16>, tensor<?x16xbf16>) {
  %dz = coda.rope %dq, %cos, %sin {head_dim = 8 : i64, layout = "half_split", transposed} : (tensor<?x16xbf16>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x16xbf16>
  %p = coda.mul %q, %dq : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %dz, %p : tensor<?x16xbf16>, tensor<?x16xbf16>
}

// CHECK:      func.func @rotated_back(
// CHECK-NEXT:   %dz, %p = gemm.map pair<halves, 8> tile(%dq : tensor<?x16xbf16>) half_table(%cos : tensor<?x4xf32>, %sin : tensor<?x4xf32>) tile(%q : tensor<?x16xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>, tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%dq_1: f32, %dq_2: f32, %cos_1: f32, %sin_1: f32, %q_1: f32, %q_2: f32):
// CHECK-NEXT:       %0 = arith.mulf %dq_1, %cos_1 : f32
// CHECK-NEXT:       %1 = arith.mulf %dq_2, %sin_1 : f32
// CHECK-NEXT:       %2 = arith.addf %0, %1 : f32
// CHECK-NEXT:       %3 = arith.mulf %dq_2, %cos_1 : f32
// CHECK-NEXT:       %4 = arith.mulf %dq_1, %sin_1 : f32
// CHECK-NEXT:       %5 = arith.subf %3, %4 : f32
// CHECK-NEXT:       %p_1 = arith.mulf %q_1, %dq_1 : f32
// CHECK-NEXT:       %p_2 = arith.mulf %q_2, %dq_2 : f32
// CHECK-NEXT:       gemm.yield %2, %5, %p_1, %p_2 : f32, f32, f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %dz, %p : tensor<?x16xbf16>, tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// Tables with an entry for each column: back, a column takes the sine of the other one.

func.func @per_column(%q: tensor<?x16xbf16>, %dq: tensor<?x16xbf16>, %cos: tensor<?x8xf32>, %sin: tensor<?x8xf32>) -> (tensor<?x16xbf16>, tensor<?x16xbf16>) {
  %dz = coda.rope %dq, %cos, %sin {head_dim = 8 : i64, layout = "half_split", per_column, transposed} : (tensor<?x16xbf16>, tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x16xbf16>
  %p = coda.mul %q, %dq : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %dz, %p : tensor<?x16xbf16>, tensor<?x16xbf16>
}

// CHECK:      func.func @per_column(
// CHECK-NEXT:   %dz, %p = gemm.map pair<halves, 8> tile(%dq : tensor<?x16xbf16>) table(%cos : tensor<?x8xf32>, %sin : tensor<?x8xf32>) tile(%q : tensor<?x16xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x16xbf16>, tile : tensor<?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%dq_1: f32, %dq_2: f32, %cos_1: f32, %cos_2: f32, %sin_1: f32, %sin_2: f32, %q_1: f32, %q_2: f32):
// CHECK-NEXT:       %0 = arith.mulf %dq_1, %cos_1 : f32
// CHECK-NEXT:       %1 = arith.mulf %dq_2, %sin_2 : f32
// CHECK-NEXT:       %2 = arith.addf %0, %1 : f32
// CHECK-NEXT:       %3 = arith.mulf %dq_2, %cos_2 : f32
// CHECK-NEXT:       %4 = arith.mulf %dq_1, %sin_1 : f32
// CHECK-NEXT:       %5 = arith.subf %3, %4 : f32

// -----

// Adjacent columns; the other code reads the rotated value and a conversion of the operand.

func.func @interleaved(%x: tensor<?x?x8xbf16>, %cos: tensor<?x2xf32>, %sin: tensor<?x2xf32>) -> tensor<?x?x8xf32> {
  %y = coda.rope %x, %cos, %sin {head_dim = 4 : i64, layout = "interleaved"} : (tensor<?x?x8xbf16>, tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x?x8xbf16>
  %yf = coda.cast %y : (tensor<?x?x8xbf16>) -> tensor<?x?x8xf32>
  %xf = coda.cast %x : (tensor<?x?x8xbf16>) -> tensor<?x?x8xf32>
  %p = coda.mul %yf, %xf : (tensor<?x?x8xf32>, tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
  func.return %p : tensor<?x?x8xf32>
}

// CHECK:      func.func @interleaved(
// CHECK-NEXT:   %y, %p = gemm.map pair<adjacent> tile(%x : tensor<?x?x8xbf16>) half_table(%cos : tensor<?x2xf32>, %sin : tensor<?x2xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x?x8xbf16>, tile : tensor<?x?x8xf32>) {
// CHECK-NEXT:     ^bb0(%x_1: f32, %x_2: f32, %cos_1: f32, %sin_1: f32):
// CHECK-NEXT:       %0 = arith.mulf %x_1, %cos_1 : f32
// CHECK-NEXT:       %1 = arith.mulf %x_2, %sin_1 : f32
// CHECK-NEXT:       %yf = arith.subf %0, %1 : f32
// CHECK-NEXT:       %2 = arith.mulf %x_2, %cos_1 : f32
// CHECK-NEXT:       %3 = arith.mulf %x_1, %sin_1 : f32
// CHECK-NEXT:       %yf_1 = arith.addf %2, %3 : f32
// CHECK-NEXT:       %p_1 = arith.mulf %yf, %x_1 : f32
// CHECK-NEXT:       %p_2 = arith.mulf %yf_1, %x_2 : f32
// CHECK-NEXT:       gemm.yield %yf, %yf_1, %p_1, %p_2 : f32, f32, f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %yf = coda.cast %y : (tensor<?x?x8xbf16>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %xf = coda.cast %x : (tensor<?x?x8xbf16>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   func.return %p : tensor<?x?x8xf32>
// CHECK-NEXT: }

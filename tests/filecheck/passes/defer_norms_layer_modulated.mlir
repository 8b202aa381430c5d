// RUN: coda-opt %s -p "defer-norms{modulated=always pack-weights=false}" --split-input-file | filecheck %s

// One GEMM of two rows for each sample gives both products; nothing is kept between calls.

func.func @linear(%x: tensor<?x?x8xbf16>, %s: tensor<?x1x8xbf16>, %t: tensor<?x1x8xbf16>, %w: tensor<16x8xbf16>, %b: tensor<16xbf16>) -> tensor<?x?x16xbf16> {
  %y = coda.silu %x : (tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>
  %h = coda.layer_norm %y, %s, %t {eps = 1.0e-6 : f64} : (tensor<?x?x8xbf16>, tensor<?x1x8xbf16>, tensor<?x1x8xbf16>) -> tensor<?x?x8xbf16>
  %z = coda.linear %h, %w, %b : (tensor<?x?x8xbf16>, tensor<16x8xbf16>, tensor<16xbf16>) -> tensor<?x?x16xbf16>
  func.return %z : tensor<?x?x16xbf16>
}

// CHECK:      func.func @linear(
// CHECK-NEXT:   %y = coda.silu %x : (tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   %y_scaled = coda.mul %y, %s : (tensor<?x?x8xbf16>, tensor<?x1x8xbf16>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   %rstd, %mean = coda.norm_stats %y {kind = "layer", eps = 1.000000e-06 : f64} : (tensor<?x?x8xbf16>) -> (tensor<?x?x1xf32>, tensor<?x?x1xf32>)
// CHECK-NEXT:   %shift = coda.mul %rstd, %mean : (tensor<?x?x1xf32>, tensor<?x?x1xf32>) -> tensor<?x?x1xf32>
// CHECK-NEXT:   %0 = coda.linear %y_scaled, %w : (tensor<?x?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x?x16xf32>
// CHECK-NEXT:   %1 = coda.mul %0, %rstd : (tensor<?x?x16xf32>, tensor<?x?x1xf32>) -> tensor<?x?x16xf32>
// CHECK-NEXT:   %modulation = coda.concat %s, %t {dim = 1 : i64} : (tensor<?x1x8xbf16>, tensor<?x1x8xbf16>) -> tensor<?x2x8xbf16>
// CHECK-NEXT:   %modulation_out = coda.linear %modulation, %w : (tensor<?x2x8xbf16>, tensor<16x8xbf16>) -> tensor<?x2x16xf32>
// CHECK-NEXT:   %s_1 = coda.slice %modulation_out {dim = 1 : i64, start = 0 : i64, stop = 1 : i64} : (tensor<?x2x16xf32>) -> tensor<?x1x16xf32>
// CHECK-NEXT:   %t_1 = coda.slice %modulation_out {dim = 1 : i64, start = 1 : i64, stop = 2 : i64} : (tensor<?x2x16xf32>) -> tensor<?x1x16xf32>
// CHECK-NEXT:   %2 = coda.mul %shift, %s_1 : (tensor<?x?x1xf32>, tensor<?x1x16xf32>) -> tensor<?x?x16xf32>
// CHECK-NEXT:   %3 = coda.sub %1, %2 : (tensor<?x?x16xf32>, tensor<?x?x16xf32>) -> tensor<?x?x16xf32>
// CHECK-NEXT:   %4 = coda.add %3, %t_1 : (tensor<?x?x16xf32>, tensor<?x1x16xf32>) -> tensor<?x?x16xf32>
// CHECK-NEXT:   %b_1 = coda.cast %b : (tensor<16xbf16>) -> tensor<16xf32>
// CHECK-NEXT:   %5 = coda.add %4, %b_1 : (tensor<?x?x16xf32>, tensor<16xf32>) -> tensor<?x?x16xf32>
// CHECK-NEXT:   %z = coda.cast %5 : (tensor<?x?x16xf32>) -> tensor<?x?x16xbf16>
// CHECK-NEXT:   func.return %z : tensor<?x?x16xbf16>
// CHECK-NEXT: }

// -----

// A scale alone, in float32: x and the product take it in the type of x.

func.func @scale(%x: tensor<?x?x8xbf16>, %s: tensor<?x1x8xf32>, %w: tensor<8x16xbf16>) -> tensor<?x?x16xbf16> {
  %y = coda.silu %x : (tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>
  %h = coda.layer_norm %y, %s {eps = 1.0e-6 : f64} : (tensor<?x?x8xbf16>, tensor<?x1x8xf32>) -> tensor<?x?x8xbf16>
  %z = coda.matmul %h, %w : (tensor<?x?x8xbf16>, tensor<8x16xbf16>) -> tensor<?x?x16xbf16>
  func.return %z : tensor<?x?x16xbf16>
}

// CHECK:      func.func @scale(
// CHECK-NEXT:   %y = coda.silu %x : (tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   %s_1 = coda.cast %s : (tensor<?x1x8xf32>) -> tensor<?x1x8xbf16>
// CHECK-NEXT:   %y_scaled = coda.mul %y, %s_1 : (tensor<?x?x8xbf16>, tensor<?x1x8xbf16>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   %rstd, %mean = coda.norm_stats %y {kind = "layer", eps = 1.000000e-06 : f64} : (tensor<?x?x8xbf16>) -> (tensor<?x?x1xf32>, tensor<?x?x1xf32>)
// CHECK-NEXT:   %shift = coda.mul %rstd, %mean : (tensor<?x?x1xf32>, tensor<?x?x1xf32>) -> tensor<?x?x1xf32>
// CHECK-NEXT:   %0 = coda.matmul %y_scaled, %w : (tensor<?x?x8xbf16>, tensor<8x16xbf16>) -> tensor<?x?x16xf32>
// CHECK-NEXT:   %1 = coda.mul %0, %rstd : (tensor<?x?x16xf32>, tensor<?x?x1xf32>) -> tensor<?x?x16xf32>
// CHECK-NEXT:   %s_2 = coda.cast %s : (tensor<?x1x8xf32>) -> tensor<?x1x8xbf16>
// CHECK-NEXT:   %s_3 = coda.matmul %s_2, %w : (tensor<?x1x8xbf16>, tensor<8x16xbf16>) -> tensor<?x1x16xf32>
// CHECK-NEXT:   %2 = coda.mul %shift, %s_3 : (tensor<?x?x1xf32>, tensor<?x1x16xf32>) -> tensor<?x?x16xf32>
// CHECK-NEXT:   %3 = coda.sub %1, %2 : (tensor<?x?x16xf32>, tensor<?x?x16xf32>) -> tensor<?x?x16xf32>
// CHECK-NEXT:   %z = coda.cast %3 : (tensor<?x?x16xf32>) -> tensor<?x?x16xbf16>
// CHECK-NEXT:   func.return %z : tensor<?x?x16xbf16>
// CHECK-NEXT: }

// -----

// In front of the code of an epilogue: tables of all columns, and of each half.

func.func @epilogue(%x: tensor<?x?x8xbf16>, %s: tensor<?x1x8xbf16>, %t: tensor<?x1x8xbf16>, %w: tensor<16x8xbf16>, %v: tensor<16x8xbf16>) -> (tensor<?x?x16xbf16>, tensor<?x?x16xbf16>) {
  %y = coda.silu %x : (tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>
  %h = coda.layer_norm %y, %s, %t {eps = 1.0e-6 : f64} : (tensor<?x?x8xbf16>, tensor<?x1x8xbf16>, tensor<?x1x8xbf16>) -> tensor<?x?x8xbf16>
  %a = gemm.fused %h : tensor<?x?x8xbf16>
    columns(%w : tensor<16x8xbf16>)
      -> (tile : tensor<?x?x16xbf16>) {
    ^bb0(%acc: f32):
      %0 = math.absf %acc : f32
      gemm.yield %0 : f32
    }
  %p = gemm.fused %h : tensor<?x?x8xbf16>
    columns(%w : tensor<16x8xbf16>, %v : tensor<16x8xbf16>) pair<halves>
      -> (half : tensor<?x?x16xbf16>) {
    ^bb0(%even: f32, %odd: f32):
      %0 = arith.mulf %even, %odd : f32
      gemm.yield %0 : f32
    }
  func.return %a, %p : tensor<?x?x16xbf16>, tensor<?x?x16xbf16>
}

// CHECK:      func.func @epilogue(
// CHECK-NEXT:   %y = coda.silu %x : (tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   %y_scaled = coda.mul %y, %s : (tensor<?x?x8xbf16>, tensor<?x1x8xbf16>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   %rstd, %mean = coda.norm_stats %y {kind = "layer", eps = 1.000000e-06 : f64} : (tensor<?x?x8xbf16>) -> (tensor<?x?x1xf32>, tensor<?x?x1xf32>)
// CHECK-NEXT:   %shift = coda.mul %rstd, %mean : (tensor<?x?x1xf32>, tensor<?x?x1xf32>) -> tensor<?x?x1xf32>
// CHECK-NEXT:   %modulation = coda.concat %s, %t {dim = 1 : i64} : (tensor<?x1x8xbf16>, tensor<?x1x8xbf16>) -> tensor<?x2x8xbf16>
// CHECK-NEXT:   %modulation_out = coda.linear %modulation, %w : (tensor<?x2x8xbf16>, tensor<16x8xbf16>) -> tensor<?x2x16xf32>
// CHECK-NEXT:   %s_1 = coda.slice %modulation_out {dim = 1 : i64, start = 0 : i64, stop = 1 : i64} : (tensor<?x2x16xf32>) -> tensor<?x1x16xf32>
// CHECK-NEXT:   %t_1 = coda.slice %modulation_out {dim = 1 : i64, start = 1 : i64, stop = 2 : i64} : (tensor<?x2x16xf32>) -> tensor<?x1x16xf32>
// CHECK-NEXT:   %a = gemm.fused %y_scaled : tensor<?x?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<16x8xbf16>) col(%rstd : tensor<?x?x1xf32>, %shift : tensor<?x?x1xf32>) table(%s_1 : tensor<?x1x16xf32>, %t_1 : tensor<?x1x16xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %rstd_1: f32, %shift_1: f32, %s_2: f32, %t_2: f32):
// CHECK-NEXT:       %0 = arith.mulf %acc, %rstd_1 : f32
// CHECK-NEXT:       %1 = arith.mulf %shift_1, %s_2 : f32
// CHECK-NEXT:       %2 = arith.subf %0, %1 : f32
// CHECK-NEXT:       %3 = arith.addf %2, %t_2 : f32
// CHECK-NEXT:       %4 = math.absf %3 : f32
// CHECK-NEXT:       gemm.yield %4 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %modulation_1 = coda.concat %s, %t {dim = 1 : i64} : (tensor<?x1x8xbf16>, tensor<?x1x8xbf16>) -> tensor<?x2x8xbf16>
// CHECK-NEXT:   %modulation_out_1 = coda.linear %modulation_1, %w : (tensor<?x2x8xbf16>, tensor<16x8xbf16>) -> tensor<?x2x16xf32>
// CHECK-NEXT:   %s_2 = coda.slice %modulation_out_1 {dim = 1 : i64, start = 0 : i64, stop = 1 : i64} : (tensor<?x2x16xf32>) -> tensor<?x1x16xf32>
// CHECK-NEXT:   %t_2 = coda.slice %modulation_out_1 {dim = 1 : i64, start = 1 : i64, stop = 2 : i64} : (tensor<?x2x16xf32>) -> tensor<?x1x16xf32>
// CHECK-NEXT:   %modulation_2 = coda.concat %s, %t {dim = 1 : i64} : (tensor<?x1x8xbf16>, tensor<?x1x8xbf16>) -> tensor<?x2x8xbf16>
// CHECK-NEXT:   %modulation_out_2 = coda.linear %modulation_2, %v : (tensor<?x2x8xbf16>, tensor<16x8xbf16>) -> tensor<?x2x16xf32>
// CHECK-NEXT:   %s_3 = coda.slice %modulation_out_2 {dim = 1 : i64, start = 0 : i64, stop = 1 : i64} : (tensor<?x2x16xf32>) -> tensor<?x1x16xf32>
// CHECK-NEXT:   %t_3 = coda.slice %modulation_out_2 {dim = 1 : i64, start = 1 : i64, stop = 2 : i64} : (tensor<?x2x16xf32>) -> tensor<?x1x16xf32>
// CHECK-NEXT:   %p = gemm.fused %y_scaled : tensor<?x?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<16x8xbf16>, %v : tensor<16x8xbf16>) pair<halves> col(%rstd : tensor<?x?x1xf32>, %shift : tensor<?x?x1xf32>) half_table(%s_2 : tensor<?x1x16xf32>, %s_3 : tensor<?x1x16xf32>, %t_2 : tensor<?x1x16xf32>, %t_3 : tensor<?x1x16xf32>)
// CHECK-NEXT:       -> (half : tensor<?x?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%even: f32, %odd: f32, %rstd_1: f32, %shift_1: f32, %s_4: f32, %s_5: f32, %t_4: f32, %t_5: f32):
// CHECK-NEXT:       %0 = arith.mulf %even, %rstd_1 : f32
// CHECK-NEXT:       %1 = arith.mulf %odd, %rstd_1 : f32
// CHECK-NEXT:       %2 = arith.mulf %shift_1, %s_4 : f32
// CHECK-NEXT:       %3 = arith.subf %0, %2 : f32
// CHECK-NEXT:       %4 = arith.mulf %shift_1, %s_5 : f32
// CHECK-NEXT:       %5 = arith.subf %1, %4 : f32
// CHECK-NEXT:       %6 = arith.addf %3, %t_4 : f32
// CHECK-NEXT:       %7 = arith.addf %5, %t_5 : f32
// CHECK-NEXT:       %8 = arith.mulf %6, %7 : f32
// CHECK-NEXT:       gemm.yield %8 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %a, %p : tensor<?x?x16xbf16>, tensor<?x?x16xbf16>
// CHECK-NEXT: }

// -----

// A shift alone needs the sums of the columns, which are computed once per weight: it stays.

func.func @shift(%x: tensor<?x?x8xbf16>, %t: tensor<?x1x8xbf16>, %w: tensor<16x8xbf16>) -> tensor<?x?x16xbf16> {
  %y = coda.silu %x : (tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>
  %h = coda.layer_norm %y, %t {eps = 1.0e-6 : f64, bias_only} : (tensor<?x?x8xbf16>, tensor<?x1x8xbf16>) -> tensor<?x?x8xbf16>
  %z = coda.linear %h, %w : (tensor<?x?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x?x16xbf16>
  func.return %z : tensor<?x?x16xbf16>
}

// CHECK:      func.func @shift(
// CHECK-NEXT:   %y = coda.silu %x : (tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   %rstd, %mean = coda.norm_stats %y {kind = "layer", eps = 1.000000e-06 : f64} : (tensor<?x?x8xbf16>) -> (tensor<?x?x1xf32>, tensor<?x?x1xf32>)
// CHECK-NEXT:   %y_1 = coda.cast %y : (tensor<?x?x8xbf16>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %0 = coda.sub %y_1, %mean : (tensor<?x?x8xf32>, tensor<?x?x1xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %1 = coda.mul %0, %rstd : (tensor<?x?x8xf32>, tensor<?x?x1xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %t_1 = coda.cast %t : (tensor<?x1x8xbf16>) -> tensor<?x1x8xf32>
// CHECK-NEXT:   %2 = coda.add %1, %t_1 : (tensor<?x?x8xf32>, tensor<?x1x8xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %h = coda.cast %2 : (tensor<?x?x8xf32>) -> tensor<?x?x8xbf16>
// CHECK-NEXT:   %z = coda.linear %h, %w : (tensor<?x?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x?x16xbf16>
// CHECK-NEXT:   func.return %z : tensor<?x?x16xbf16>
// CHECK-NEXT: }

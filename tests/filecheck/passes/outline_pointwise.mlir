// RUN: coda-opt %s -p outline-pointwise --split-input-file | filecheck %s

// Pointwise operators on arguments gather in one kernel; a value that is returned is stored.

func.func @chain(%x: tensor<?x8xbf16>, %y: tensor<?x8xbf16>, %b: tensor<8xbf16>) -> (tensor<?x8xbf16>, tensor<?x8xbf16>) {
  %s = coda.sub %y, %x : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %a = coda.mul %s, %b : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %e = coda.exp %a : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  func.return %e, %s : tensor<?x8xbf16>, tensor<?x8xbf16>
}

// CHECK:      func.func @chain(
// CHECK-NEXT:   %s, %e = gemm.map tile(%y : tensor<?x8xbf16>, %x : tensor<?x8xbf16>) row(%b : tensor<8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x8xbf16>, tile : tensor<?x8xbf16>) {
// CHECK-NEXT:     ^bb0(%y_1: f32, %x_1: f32, %b_1: f32):
// CHECK-NEXT:       %s_1 = arith.subf %y_1, %x_1 : f32
// CHECK-NEXT:       %a = arith.mulf %s_1, %b_1 : f32
// CHECK-NEXT:       %e_1 = math.exp %a : f32
// CHECK-NEXT:       gemm.yield %s_1, %e_1 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %e, %s : tensor<?x8xbf16>, tensor<?x8xbf16>
// CHECK-NEXT: }

// -----

// What does not vary by row and what widens an operand is repeated where it is needed, and gets a
// kernel only where something else needs it.

func.func @repeated(%x: tensor<?x8xbf16>, %g: tensor<8xf32>, %h: tensor<8xf32>) -> (tensor<?x8xf32>, tensor<8xf32>) {
  %one = coda.constant {value = 1.0 : f64} : tensor<f32>
  %g1 = coda.add %g, %one : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %h1 = coda.add %h, %one : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %xf = coda.cast %x : (tensor<?x8xbf16>) -> tensor<?x8xf32>
  %a = coda.mul %xf, %g1 : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  %b = coda.mul %a, %h1 : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  func.return %b, %h1 : tensor<?x8xf32>, tensor<8xf32>
}

// CHECK:      func.func @repeated(
// CHECK-NEXT:   %one = coda.constant {value = 1.000000e+00 : f64} : tensor<f32>
// CHECK-NEXT:   %h1 = gemm.map tile(%h : tensor<8xf32>)
// CHECK-NEXT:       -> (tile : tensor<8xf32>) {
// CHECK-NEXT:     ^bb0(%h_1: f32):
// CHECK-NEXT:       %0 = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:       %h1_1 = arith.addf %h_1, %0 : f32
// CHECK-NEXT:       gemm.yield %h1_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %b = gemm.map tile(%x : tensor<?x8xbf16>) row(%g : tensor<8xf32>, %h : tensor<8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x8xf32>) {
// CHECK-NEXT:     ^bb0(%x_1: f32, %g_1: f32, %h_1: f32):
// CHECK-NEXT:       %0 = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:       %g1 = arith.addf %g_1, %0 : f32
// CHECK-NEXT:       %a = arith.mulf %x_1, %g1 : f32
// CHECK-NEXT:       %1 = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:       %h1_1 = arith.addf %h_1, %1 : f32
// CHECK-NEXT:       %b_1 = arith.mulf %a, %h1_1 : f32
// CHECK-NEXT:       gemm.yield %b_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %b, %h1 : tensor<?x8xf32>, tensor<8xf32>
// CHECK-NEXT: }

// -----

// An operator joins the epilogue of a GEMM where that has become legal.

func.func @joins(%x: tensor<?x8xf32>, %w: tensor<16x8xf32>, %y: tensor<?x16xf32>) -> tensor<?x16xf32> {
  %e = coda.exp %y : (tensor<?x16xf32>) -> tensor<?x16xf32>
  %z = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<16x8xf32>)
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %a = coda.add %z, %e : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
  func.return %a : tensor<?x16xf32>
}

// CHECK:      func.func @joins(
// CHECK-NEXT:   %a = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<16x8xf32>) tile(%y : tensor<?x16xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %y_1: f32):
// CHECK-NEXT:       %e = math.exp %y_1 : f32
// CHECK-NEXT:       %a_1 = arith.addf %acc, %e : f32
// CHECK-NEXT:       gemm.yield %a_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %a : tensor<?x16xf32>
// CHECK-NEXT: }

// -----

// An operator on a row statistic of a GEMM's tile is a kernel that reads the tile again.

func.func @second_kernel(%x: tensor<?x8xf32>, %w: tensor<16x8xf32>) -> tensor<?x16xf32> {
  %z, %p = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<16x8xf32>)
      -> (tile : tensor<?x16xf32>, partial_row<max> : tensor<?x?xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc, %acc : f32, f32
    }
  %m = gemm.finalize row (max %p : tensor<?x?xf32>) -> (tensor<?x1xf32>) {
  ^bb0(%a: f32):
    gemm.yield %a : f32
  }
  %s = coda.sub %z, %m : (tensor<?x16xf32>, tensor<?x1xf32>) -> tensor<?x16xf32>
  %e = coda.exp %s : (tensor<?x16xf32>) -> tensor<?x16xf32>
  func.return %e : tensor<?x16xf32>
}

// CHECK:      func.func @second_kernel(
// CHECK-NEXT:   %z, %p = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<16x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>, partial_row<max> : tensor<?x?xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc, %acc : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %m = gemm.finalize row (max %p : tensor<?x?xf32>) -> (tensor<?x1xf32>) {
// CHECK-NEXT:   ^bb0(%a: f32):
// CHECK-NEXT:     gemm.yield %a : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   %e = gemm.map tile(%z : tensor<?x16xf32>) col(%m : tensor<?x1xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%z_1: f32, %m_1: f32):
// CHECK-NEXT:       %s = arith.subf %z_1, %m_1 : f32
// CHECK-NEXT:       %e_1 = math.exp %s : f32
// CHECK-NEXT:       gemm.yield %e_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %e : tensor<?x16xf32>
// CHECK-NEXT: }

// -----

// Scalars and vectors.

func.func @small(%s: tensor<f32>, %v: tensor<8xf32>) -> (tensor<f32>, tensor<8xf32>) {
  %a = coda.exp %s : (tensor<f32>) -> tensor<f32>
  %b = coda.mul %v, %s : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  func.return %a, %b : tensor<f32>, tensor<8xf32>
}

// CHECK:      func.func @small(
// CHECK-NEXT:   %b = gemm.map tile(%v : tensor<8xf32>) scalar(%s : tensor<f32>)
// CHECK-NEXT:       -> (tile : tensor<8xf32>) {
// CHECK-NEXT:     ^bb0(%v_1: f32, %s_1: f32):
// CHECK-NEXT:       %b_1 = arith.mulf %v_1, %s_1 : f32
// CHECK-NEXT:       gemm.yield %b_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %a = gemm.map scalar(%s : tensor<f32>)
// CHECK-NEXT:       -> (tile : tensor<f32>) {
// CHECK-NEXT:     ^bb0(%s_1: f32):
// CHECK-NEXT:       %a_1 = math.exp %s_1 : f32
// CHECK-NEXT:       gemm.yield %a_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %a, %b : tensor<f32>, tensor<8xf32>
// CHECK-NEXT: }

// -----

// Cosines and sines of the same angles are one kernel, which computes the positions.

func.func @table(%x: tensor<?x?x8xf32> {coda.dims = ["B", "T", 8 : i64]}, %f: tensor<4xf32>) -> (tensor<?x4xbf16>, tensor<?x4xbf16>) {
  %p = coda.positions %x {dim = 1 : i64, start = 0 : i64, step = 1 : i64} : (tensor<?x?x8xf32>) -> tensor<?xi64>
  %column = coda.reshape %p {coda.dims = ["T", 1 : i64]} : (tensor<?xi64>) -> tensor<?x1xi64>
  %numbers = coda.cast %column : (tensor<?x1xi64>) -> tensor<?x1xf32>
  %angles = coda.mul %numbers, %f : (tensor<?x1xf32>, tensor<4xf32>) -> tensor<?x4xf32>
  %cos = coda.cos %angles : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %c = coda.cast %cos : (tensor<?x4xf32>) -> tensor<?x4xbf16>
  %sin = coda.sin %angles : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %s = coda.cast %sin : (tensor<?x4xf32>) -> tensor<?x4xbf16>
  func.return %c, %s : tensor<?x4xbf16>, tensor<?x4xbf16>
}

// CHECK-LABEL: func.func @table(%x: tensor<?x?x8xf32> {coda.dims = ["B", "T", 8 : i64]}, %f: tensor<4xf32>) -> (tensor<?x4xbf16>, tensor<?x4xbf16>) {
// CHECK-NEXT:   %p = coda.positions %x {dim = 1 : i64, start = 0 : i64, step = 1 : i64} : (tensor<?x?x8xf32>) -> tensor<?xi64>
// CHECK-NEXT:   %column = coda.reshape %p {coda.dims = ["T", 1 : i64]} : (tensor<?xi64>) -> tensor<?x1xi64>
// CHECK-NEXT:   %c, %s = gemm.map col(%column : tensor<?x1xi64>) row(%f : tensor<4xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x4xbf16>, tile : tensor<?x4xbf16>) {
// CHECK-NEXT:     ^bb0(%column_1: i64, %f_1: f32):
// CHECK-NEXT:       %numbers = arith.sitofp %column_1 : i64 to f32
// CHECK-NEXT:       %angles = arith.mulf %numbers, %f_1 : f32
// CHECK-NEXT:       %cos = math.cos %angles : f32
// CHECK-NEXT:       %numbers_1 = arith.sitofp %column_1 : i64 to f32
// CHECK-NEXT:       %angles_1 = arith.mulf %numbers_1, %f_1 : f32
// CHECK-NEXT:       %sin = math.sin %angles_1 : f32
// CHECK-NEXT:       gemm.yield %cos, %sin : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %c, %s : tensor<?x4xbf16>, tensor<?x4xbf16>
// CHECK-NEXT: }

// -----

// Numbers that are counted up and returned are one kernel, at the end.

func.func @counters(%first: tensor<i64>, %second: tensor<i64>, %x: tensor<?x8xf32>, %s: tensor<f32>) -> (tensor<i64>, tensor<?x8xf32>, tensor<i64>) {
  %one = coda.constant {value = 1 : i64} : tensor<i64>
  %a = coda.add %first, %one : (tensor<i64>, tensor<i64>) -> tensor<i64>
  %y = coda.mul %x, %s : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  %b = coda.add %second, %one : (tensor<i64>, tensor<i64>) -> tensor<i64>
  func.return %a, %y, %b : tensor<i64>, tensor<?x8xf32>, tensor<i64>
}

// CHECK-LABEL: func.func @counters(%first: tensor<i64>, %second: tensor<i64>, %x: tensor<?x8xf32>, %s: tensor<f32>) -> (tensor<i64>, tensor<?x8xf32>, tensor<i64>) {
// CHECK-NEXT:   %one = coda.constant {value = 1 : i64} : tensor<i64>
// CHECK-NEXT:   %y = gemm.map tile(%x : tensor<?x8xf32>) scalar(%s : tensor<f32>)
// CHECK-NEXT:       -> (tile : tensor<?x8xf32>) {
// CHECK-NEXT:     ^bb0(%x_1: f32, %s_1: f32):
// CHECK-NEXT:       %y_1 = arith.mulf %x_1, %s_1 : f32
// CHECK-NEXT:       gemm.yield %y_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %b, %a = gemm.map scalar(%second : tensor<i64>, %first : tensor<i64>)
// CHECK-NEXT:       -> (tile : tensor<i64>, tile : tensor<i64>) {
// CHECK-NEXT:     ^bb0(%second_1: i64, %first_1: i64):
// CHECK-NEXT:       %0 = arith.constant 1 : i64
// CHECK-NEXT:       %b_1 = arith.addi %second_1, %0 : i64
// CHECK-NEXT:       %1 = arith.constant 1 : i64
// CHECK-NEXT:       %a_1 = arith.addi %first_1, %1 : i64
// CHECK-NEXT:       gemm.yield %b_1, %a_1 : i64, i64
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %a, %y, %b : tensor<i64>, tensor<?x8xf32>, tensor<i64>
// CHECK-NEXT: }

// -----

// Code that waits for its reader joins the kernel with it, where it reads another result of that
// kernel: the sum is not stored, which would round it in one of the two differences alone.

func.func @two_sums(%p: tensor<?x8xbf16>, %q: tensor<?x8xbf16>) -> (tensor<bf16>, tensor<bf16>) {
  %ep = coda.exp %p : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %eq = coda.exp %q : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %m = coda.add %ep, %eq : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %dp = coda.sub %p, %m : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %a = coda.mul %ep, %dp : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %sum = torch.call "aten.sum.dim_IntList"(%a) {coda.dims = [], arguments = "{0}, []"} : (tensor<?x8xbf16>) -> tensor<bf16>
  %dq = coda.sub %q, %m : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %b = coda.mul %eq, %dq : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %other = torch.call "aten.sum.dim_IntList"(%b) {coda.dims = [], arguments = "{0}, []"} : (tensor<?x8xbf16>) -> tensor<bf16>
  func.return %sum, %other : tensor<bf16>, tensor<bf16>
}

// CHECK-LABEL: func.func @two_sums(%p: tensor<?x8xbf16>, %q: tensor<?x8xbf16>) -> (tensor<bf16>, tensor<bf16>) {
// CHECK-NEXT:   %a, %b = gemm.map tile(%p : tensor<?x8xbf16>, %q : tensor<?x8xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x8xbf16>, tile : tensor<?x8xbf16>) {
// CHECK-NEXT:     ^bb0(%p_1: f32, %q_1: f32):
// CHECK-NEXT:       %ep = math.exp %p_1 : f32
// CHECK-NEXT:       %eq = math.exp %q_1 : f32
// CHECK-NEXT:       %m = arith.addf %ep, %eq : f32
// CHECK-NEXT:       %dp = arith.subf %p_1, %m : f32
// CHECK-NEXT:       %a_1 = arith.mulf %ep, %dp : f32
// CHECK-NEXT:       %dq = arith.subf %q_1, %m : f32
// CHECK-NEXT:       %b_1 = arith.mulf %eq, %dq : f32
// CHECK-NEXT:       gemm.yield %a_1, %b_1 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %sum = torch.call "aten.sum.dim_IntList"(%a) {coda.dims = [], arguments = "{0}, []"} : (tensor<?x8xbf16>) -> tensor<bf16>
// CHECK-NEXT:   %other = torch.call "aten.sum.dim_IntList"(%b) {coda.dims = [], arguments = "{0}, []"} : (tensor<?x8xbf16>) -> tensor<bf16>
// CHECK-NEXT:   func.return %sum, %other : tensor<bf16>, tensor<bf16>
// CHECK-NEXT: }

// -----

// A table may broadcast along a dimension between two of its own, as a mask of all heads does.

func.func @middle(%x: tensor<?x4x?x8xf32>, %m: tensor<?x1x?x8xi1>) -> tensor<?x4x?x8xf32> {
  %zero = coda.constant {value = 0.0 : f64} : tensor<f32>
  %y = coda.where %m, %zero, %x : (tensor<?x1x?x8xi1>, tensor<f32>, tensor<?x4x?x8xf32>) -> tensor<?x4x?x8xf32>
  func.return %y : tensor<?x4x?x8xf32>
}

// CHECK:      func.func @middle(
// CHECK-NEXT:   %zero = coda.constant {value = 0.000000e+00 : f64} : tensor<f32>
// CHECK-NEXT:   %y = gemm.map table(%m : tensor<?x1x?x8xi1>) tile(%x : tensor<?x4x?x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x4x?x8xf32>) {
// CHECK-NEXT:     ^bb0(%m_1: i1, %x_1: f32):
// CHECK-NEXT:       %0 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:       %y_1 = arith.select %m_1, %0, %x_1 : f32
// CHECK-NEXT:       gemm.yield %y_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y : tensor<?x4x?x8xf32>
// CHECK-NEXT: }

// -----

// Biases of heads and a mask, from positions and the slope of each head, repeat in all samples: they are computed where they are read.

func.func @distances(%x: tensor<2x4x8x16xbf16>, %i: tensor<8x1xi64>, %j: tensor<16xi64>, %slope: tensor<4x1x1xf32>) -> tensor<2x4x8x16xbf16> {
  %d = coda.sub %i, %j : (tensor<8x1xi64>, tensor<16xi64>) -> tensor<8x16xi64>
  %f = coda.cast %d : (tensor<8x16xi64>) -> tensor<8x16xf32>
  %bias = coda.mul %f, %slope : (tensor<8x16xf32>, tensor<4x1x1xf32>) -> tensor<4x8x16xf32>
  %wide = coda.cast %x : (tensor<2x4x8x16xbf16>) -> tensor<2x4x8x16xf32>
  %s = coda.add %wide, %bias : (tensor<2x4x8x16xf32>, tensor<4x8x16xf32>) -> tensor<2x4x8x16xf32>
  %seen = coda.compare %i, %j {relation = "ge"} : (tensor<8x1xi64>, tensor<16xi64>) -> tensor<8x16xi1>
  %hidden = coda.logical_not %seen : (tensor<8x16xi1>) -> tensor<8x16xi1>
  %zero = coda.constant {value = 0.0 : f64} : tensor<f32>
  %masked = coda.where %hidden, %zero, %s : (tensor<8x16xi1>, tensor<f32>, tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32>
  %y = coda.cast %masked : (tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xbf16>
  func.return %y : tensor<2x4x8x16xbf16>
}

// CHECK:      func.func @distances(
// CHECK-NEXT:   %zero = coda.constant {value = 0.000000e+00 : f64} : tensor<f32>
// CHECK-NEXT:   %y = gemm.map tile(%x : tensor<2x4x8x16xbf16>) table(%i : tensor<8x1xi64>) row(%j : tensor<16xi64>) table(%slope : tensor<4x1x1xf32>)
// CHECK-NEXT:       -> (tile : tensor<2x4x8x16xbf16>) {
// CHECK-NEXT:     ^bb0(%x_1: f32, %i_1: i64, %j_1: i64, %slope_1: f32):
// CHECK-NEXT:       %d = arith.subi %i_1, %j_1 : i64
// CHECK-NEXT:       %f = arith.sitofp %d : i64 to f32
// CHECK-NEXT:       %bias = arith.mulf %f, %slope_1 : f32
// CHECK-NEXT:       %s = arith.addf %x_1, %bias : f32
// CHECK-NEXT:       %seen = arith.cmpi sge, %i_1, %j_1 : i64
// CHECK-NEXT:       %0 = arith.constant true
// CHECK-NEXT:       %hidden = arith.xori %seen, %0 : i1
// CHECK-NEXT:       %1 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:       %masked = arith.select %hidden, %1, %s : f32
// CHECK-NEXT:       gemm.yield %masked : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y : tensor<2x4x8x16xbf16>
// CHECK-NEXT: }

// -----

// A table of exponentials is stored once, and so is one that is returned.

func.func @decays(%x: tensor<2x4x8x16xf32>, %i: tensor<8x1xf32>, %j: tensor<16xf32>) -> (tensor<2x4x8x16xf32>, tensor<8x16xf32>) {
  %d = coda.sub %i, %j : (tensor<8x1xf32>, tensor<16xf32>) -> tensor<8x16xf32>
  %e = coda.exp %d : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %p = coda.mul %i, %j : (tensor<8x1xf32>, tensor<16xf32>) -> tensor<8x16xf32>
  %s = coda.mul %x, %e : (tensor<2x4x8x16xf32>, tensor<8x16xf32>) -> tensor<2x4x8x16xf32>
  %y = coda.add %s, %p : (tensor<2x4x8x16xf32>, tensor<8x16xf32>) -> tensor<2x4x8x16xf32>
  func.return %y, %p : tensor<2x4x8x16xf32>, tensor<8x16xf32>
}

// CHECK:      func.func @decays(
// CHECK-NEXT:   %e, %p = gemm.map col(%i : tensor<8x1xf32>) row(%j : tensor<16xf32>)
// CHECK-NEXT:       -> (tile : tensor<8x16xf32>, tile : tensor<8x16xf32>) {
// CHECK-NEXT:     ^bb0(%i_1: f32, %j_1: f32):
// CHECK-NEXT:       %d = arith.subf %i_1, %j_1 : f32
// CHECK-NEXT:       %e_1 = math.exp %d : f32
// CHECK-NEXT:       %p_1 = arith.mulf %i_1, %j_1 : f32
// CHECK-NEXT:       gemm.yield %e_1, %p_1 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %y = gemm.map tile(%x : tensor<2x4x8x16xf32>) table(%e : tensor<8x16xf32>, %p : tensor<8x16xf32>)
// CHECK-NEXT:       -> (tile : tensor<2x4x8x16xf32>) {
// CHECK-NEXT:     ^bb0(%x_1: f32, %e_1: f32, %p_1: f32):
// CHECK-NEXT:       %s = arith.mulf %x_1, %e_1 : f32
// CHECK-NEXT:       %y_1 = arith.addf %s, %p_1 : f32
// CHECK-NEXT:       gemm.yield %y_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y, %p : tensor<2x4x8x16xf32>, tensor<8x16xf32>
// CHECK-NEXT: }

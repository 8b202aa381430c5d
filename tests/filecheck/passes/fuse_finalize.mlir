// RUN: coda-opt %s -p fuse-finalize --split-input-file | filecheck %s

// A chain on one result; the intermediate is dropped, constants are scalar code.

func.func @chain(%x: tensor<?x8xf32>, %w: tensor<16x8xf32>) -> tensor<?x1xf32> {
  %z, %partial = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<16x8xf32>)
      -> (tile : tensor<?x16xf32>, partial_row<add> : tensor<?x?xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc, %acc : f32, f32
    }
  %s = gemm.finalize row (add %partial : tensor<?x?xf32>) -> (tensor<?x1xf32>) {
  ^bb0(%0: f32):
    gemm.yield %0 : f32
  }
  %two = coda.constant {value = 2.000000e+00 : f64} : tensor<f32>
  %d = coda.div %two, %s : (tensor<f32>, tensor<?x1xf32>) -> tensor<?x1xf32>
  %e = coda.exp %d : (tensor<?x1xf32>) -> tensor<?x1xf32>
  func.return %e : tensor<?x1xf32>
}

// CHECK:      func.func @chain(
// CHECK-NEXT:   %z, %partial = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<16x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>, partial_row<add> : tensor<?x?xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc, %acc : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %e = gemm.finalize row (add %partial : tensor<?x?xf32>) -> (tensor<?x1xf32>) {
// CHECK-NEXT:   ^bb0(%0: f32):
// CHECK-NEXT:     %1 = arith.constant 2.000000e+00 : f32
// CHECK-NEXT:     %2 = arith.divf %1, %0 : f32
// CHECK-NEXT:     %3 = math.exp %2 : f32
// CHECK-NEXT:     gemm.yield %3 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   %two = coda.constant {value = 2.000000e+00 : f64} : tensor<f32>
// CHECK-NEXT:   func.return %e : tensor<?x1xf32>
// CHECK-NEXT: }

// -----

// Two results of one finalize; both are still used, and the new one is narrower.

func.func @two_results(%x: tensor<?x8xf32>, %w: tensor<16x8xf32>) -> (tensor<?x1xf32>, tensor<?x1xf32>, tensor<?x1xbf16>) {
  %z, %partial, %partial_1 = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<16x8xf32>)
      -> (tile : tensor<?x16xf32>, partial_row<add> : tensor<?x?xf32>, partial_row<add> : tensor<?x?xf32>) {
    ^bb0(%acc: f32):
      %0 = arith.mulf %acc, %acc : f32
      gemm.yield %acc, %acc, %0 : f32, f32, f32
    }
  %rstd, %mean = gemm.finalize row (add %partial : tensor<?x?xf32>, add %partial_1 : tensor<?x?xf32>) -> (tensor<?x1xf32>, tensor<?x1xf32>) {
  ^bb0(%0: f32, %1: f32):
    %2 = arith.constant 6.250000e-02 : f32
    %3 = arith.mulf %0, %2 : f32
    %4 = arith.mulf %1, %2 : f32
    %5 = arith.mulf %3, %3 : f32
    %6 = arith.subf %4, %5 : f32
    %7 = arith.constant 0.000000e+00 : f32
    %8 = arith.maximumf %6, %7 : f32
    %9 = arith.constant 1.000000e-05 : f32
    %10 = arith.addf %8, %9 : f32
    %11 = math.rsqrt %10 : f32
    gemm.yield %11, %3 : f32, f32
  }
  %shift = coda.mul %rstd, %mean : (tensor<?x1xf32>, tensor<?x1xf32>) -> tensor<?x1xf32>
  %c = coda.cast %shift : (tensor<?x1xf32>) -> tensor<?x1xbf16>
  func.return %rstd, %mean, %c : tensor<?x1xf32>, tensor<?x1xf32>, tensor<?x1xbf16>
}

// CHECK:      func.func @two_results(
// CHECK-NEXT:   %z, %partial, %partial_1 = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<16x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>, partial_row<add> : tensor<?x?xf32>, partial_row<add> : tensor<?x?xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       %0 = arith.mulf %acc, %acc : f32
// CHECK-NEXT:       gemm.yield %acc, %acc, %0 : f32, f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %rstd, %mean, %c = gemm.finalize row (add %partial : tensor<?x?xf32>, add %partial_1 : tensor<?x?xf32>) -> (tensor<?x1xf32>, tensor<?x1xf32>, tensor<?x1xbf16>) {
// CHECK-NEXT:   ^bb0(%0: f32, %1: f32):
// CHECK-NEXT:     %2 = arith.constant 6.250000e-02 : f32
// CHECK-NEXT:     %3 = arith.mulf %0, %2 : f32
// CHECK-NEXT:     %4 = arith.mulf %1, %2 : f32
// CHECK-NEXT:     %5 = arith.mulf %3, %3 : f32
// CHECK-NEXT:     %6 = arith.subf %4, %5 : f32
// CHECK-NEXT:     %7 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:     %8 = arith.maximumf %6, %7 : f32
// CHECK-NEXT:     %9 = arith.constant 1.000000e-05 : f32
// CHECK-NEXT:     %10 = arith.addf %8, %9 : f32
// CHECK-NEXT:     %11 = math.rsqrt %10 : f32
// CHECK-NEXT:     %12 = arith.mulf %11, %3 : f32
// CHECK-NEXT:     gemm.yield %11, %3, %12 : f32, f32, f32
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %rstd, %mean, %c : tensor<?x1xf32>, tensor<?x1xf32>, tensor<?x1xbf16>
// CHECK-NEXT: }

// -----

// Other operands are column and scalar ports; they are hoisted where they come later.

func.func @ports(%x: tensor<?x8xf32>, %w: tensor<16x8xf32>, %c: tensor<?x1xf32>, %t: tensor<f32>, %y: tensor<?x4xf32>) -> tensor<?x1xf32> {
  %z, %partial = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<16x8xf32>)
      -> (tile : tensor<?x16xf32>, partial_row<add> : tensor<?x?xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc, %acc : f32, f32
    }
  %s = gemm.finalize row (add %partial : tensor<?x?xf32>) -> (tensor<?x1xf32>) {
  ^bb0(%0: f32):
    gemm.yield %0 : f32
  }
  %l = coda.slice %y {dim = 1 : i64, start = 0 : i64, stop = 1 : i64} : (tensor<?x4xf32>) -> tensor<?x1xf32>
  %a = coda.sub %c, %s : (tensor<?x1xf32>, tensor<?x1xf32>) -> tensor<?x1xf32>
  %b = coda.mul %a, %t : (tensor<?x1xf32>, tensor<f32>) -> tensor<?x1xf32>
  %d = coda.add %b, %l : (tensor<?x1xf32>, tensor<?x1xf32>) -> tensor<?x1xf32>
  func.return %d : tensor<?x1xf32>
}

// CHECK:      func.func @ports(
// CHECK-NEXT:   %z, %partial = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<16x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>, partial_row<add> : tensor<?x?xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc, %acc : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %l = coda.slice %y {dim = 1 : i64, start = 0 : i64, stop = 1 : i64} : (tensor<?x4xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %d = gemm.finalize row (add %partial : tensor<?x?xf32>) col(%c : tensor<?x1xf32>) scalar(%t : tensor<f32>) col(%l : tensor<?x1xf32>) -> (tensor<?x1xf32>) {
// CHECK-NEXT:   ^bb0(%0: f32, %1: f32, %2: f32, %3: f32):
// CHECK-NEXT:     %4 = arith.subf %1, %0 : f32
// CHECK-NEXT:     %5 = arith.mulf %4, %2 : f32
// CHECK-NEXT:     %6 = arith.addf %5, %3 : f32
// CHECK-NEXT:     gemm.yield %6 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %d : tensor<?x1xf32>
// CHECK-NEXT: }

// -----

// A scalar result.

func.func @scalar(%p: tensor<?xf32>, %t: tensor<f32>) -> tensor<f32> {
  %s = gemm.finalize row (add %p : tensor<?xf32>) -> (tensor<f32>) {
  ^bb0(%a: f32):
    gemm.yield %a : f32
  }
  %m = coda.mul %t, %s : (tensor<f32>, tensor<f32>) -> tensor<f32>
  func.return %m : tensor<f32>
}

// CHECK:      func.func @scalar(
// CHECK-NEXT:   %m = gemm.finalize row (add %p : tensor<?xf32>) col(%t : tensor<f32>) -> (tensor<f32>) {
// CHECK-NEXT:   ^bb0(%a: f32, %0: f32):
// CHECK-NEXT:     %1 = arith.mulf %0, %a : f32
// CHECK-NEXT:     gemm.yield %1 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %m : tensor<f32>
// CHECK-NEXT: }

// -----

// What combines two finalizes makes one of them, with the ports of both; what the later one needs
// comes before.

func.func @two_finalizes(%p: tensor<?x?xf32>, %c: tensor<?x1xf32>, %s: tensor<f32>, %x: tensor<?x8xf32>) -> (tensor<?x1xf32>, tensor<?x1xf32>) {
  %a = gemm.finalize row (add %p : tensor<?x?xf32>) col(%c : tensor<?x1xf32>) -> (tensor<?x1xf32>) {
  ^bb0(%0: f32, %1: f32):
    %2 = arith.mulf %0, %1 : f32
    gemm.yield %2 : f32
  }
  %e = coda.exp %a : (tensor<?x1xf32>) -> tensor<?x1xf32>
  %partial, %other = gemm.map tile(%x : tensor<?x8xf32>)
    -> (partial_row<add> : tensor<?x?xf32>, partial_row<max> : tensor<?x?xf32>) {
  ^bb0(%0: f32):
    gemm.yield %0, %0 : f32, f32
  }
  %b = gemm.finalize row (add %partial : tensor<?x?xf32>, max %other : tensor<?x?xf32>) scalar(%s : tensor<f32>) -> (tensor<?x1xf32>) {
  ^bb0(%0: f32, %1: f32, %2: f32):
    %3 = arith.addf %0, %1 : f32
    %4 = arith.mulf %3, %2 : f32
    gemm.yield %4 : f32
  }
  %y = coda.add %a, %b : (tensor<?x1xf32>, tensor<?x1xf32>) -> tensor<?x1xf32>
  func.return %y, %e : tensor<?x1xf32>, tensor<?x1xf32>
}

// CHECK:      func.func @two_finalizes(
// CHECK-NEXT:   %partial, %other = gemm.map tile(%x : tensor<?x8xf32>)
// CHECK-NEXT:       -> (partial_row<add> : tensor<?x?xf32>, partial_row<max> : tensor<?x?xf32>) {
// CHECK-NEXT:     ^bb0(%0: f32):
// CHECK-NEXT:       gemm.yield %0, %0 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %e, %y = gemm.finalize row (add %p : tensor<?x?xf32>, add %partial : tensor<?x?xf32>, max %other : tensor<?x?xf32>) col(%c : tensor<?x1xf32>) scalar(%s : tensor<f32>) -> (tensor<?x1xf32>, tensor<?x1xf32>) {
// CHECK-NEXT:   ^bb0(%0: f32, %1: f32, %2: f32, %3: f32, %4: f32):
// CHECK-NEXT:     %5 = arith.mulf %0, %3 : f32
// CHECK-NEXT:     %6 = math.exp %5 : f32
// CHECK-NEXT:     %7 = arith.addf %1, %2 : f32
// CHECK-NEXT:     %8 = arith.mulf %7, %4 : f32
// CHECK-NEXT:     %9 = arith.addf %5, %8 : f32
// CHECK-NEXT:     gemm.yield %6, %9 : f32, f32
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %y, %e : tensor<?x1xf32>, tensor<?x1xf32>
// CHECK-NEXT: }

// -----

// Sums of the same columns that one kernel gives are combined by one finalize; those of other
// columns, and of another kernel, are not.

func.func @columns(%x: tensor<?x8xf32>, %y: tensor<?x8xf32>, %w: tensor<4x8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<4xf32>, tensor<8xf32>) {
  %p, %q = gemm.map tile(%x : tensor<?x8xf32>)
    -> (partial_col<add> : tensor<?x8xf32>, partial_col<max> : tensor<?x8xf32>) {
  ^bb0(%0: f32):
    gemm.yield %0, %0 : f32, f32
  }
  %r = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<4x8xf32>)
      -> (partial_col<add> : tensor<?x4xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %o = gemm.map tile(%y : tensor<?x8xf32>)
    -> (partial_col<add> : tensor<?x8xf32>) {
  ^bb0(%0: f32):
    gemm.yield %0 : f32
  }
  %a = gemm.finalize col (add %p : tensor<?x8xf32>) -> (tensor<8xf32>) {
  ^bb0(%0: f32):
    gemm.yield %0 : f32
  }
  %b = gemm.finalize col (add %r : tensor<?x4xf32>) -> (tensor<4xf32>) {
  ^bb0(%0: f32):
    gemm.yield %0 : f32
  }
  %c = gemm.finalize col (max %q : tensor<?x8xf32>) -> (tensor<8xf32>) {
  ^bb0(%0: f32):
    %1 = arith.negf %0 : f32
    gemm.yield %1 : f32
  }
  %d = gemm.finalize col (add %o : tensor<?x8xf32>) -> (tensor<8xf32>) {
  ^bb0(%0: f32):
    gemm.yield %0 : f32
  }
  func.return %a, %c, %b, %d : tensor<8xf32>, tensor<8xf32>, tensor<4xf32>, tensor<8xf32>
}

// CHECK:      func.func @columns(
// CHECK-NEXT:   %p, %q = gemm.map tile(%x : tensor<?x8xf32>)
// CHECK-NEXT:       -> (partial_col<add> : tensor<?x8xf32>, partial_col<max> : tensor<?x8xf32>) {
// CHECK-NEXT:     ^bb0(%0: f32):
// CHECK-NEXT:       gemm.yield %0, %0 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %r = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<4x8xf32>)
// CHECK-NEXT:       -> (partial_col<add> : tensor<?x4xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %o = gemm.map tile(%y : tensor<?x8xf32>)
// CHECK-NEXT:       -> (partial_col<add> : tensor<?x8xf32>) {
// CHECK-NEXT:     ^bb0(%0: f32):
// CHECK-NEXT:       gemm.yield %0 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %a, %c = gemm.finalize col (add %p : tensor<?x8xf32>, max %q : tensor<?x8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
// CHECK-NEXT:   ^bb0(%0: f32, %1: f32):
// CHECK-NEXT:     %2 = arith.negf %1 : f32
// CHECK-NEXT:     gemm.yield %0, %2 : f32, f32
// CHECK-NEXT:   }
// CHECK-NEXT:   %b = gemm.finalize col (add %r : tensor<?x4xf32>) -> (tensor<4xf32>) {
// CHECK-NEXT:   ^bb0(%0: f32):
// CHECK-NEXT:     gemm.yield %0 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   %d = gemm.finalize col (add %o : tensor<?x8xf32>) -> (tensor<8xf32>) {
// CHECK-NEXT:   ^bb0(%0: f32):
// CHECK-NEXT:     gemm.yield %0 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %a, %c, %b, %d : tensor<8xf32>, tensor<8xf32>, tensor<4xf32>, tensor<8xf32>
// CHECK-NEXT: }

// -----

// A number beside integers is an integer of the region.

func.func @integers(%p: tensor<?x1xf32>) -> tensor<?x1xi64> {
  %m = gemm.finalize row (max %p : tensor<?x1xf32>) -> (tensor<?x1xf32>) {
    ^bb0(%0: f32):
      gemm.yield %0 : f32
    }
  %q = coda.cast %m : (tensor<?x1xf32>) -> tensor<?x1xi64>
  %three = coda.constant {value = 3 : i64} : tensor<i64>
  %s = coda.add %q, %three : (tensor<?x1xi64>, tensor<i64>) -> tensor<?x1xi64>
  func.return %s : tensor<?x1xi64>
}

// CHECK:      func.func @integers(%p: tensor<?x1xf32>) -> tensor<?x1xi64> {
// CHECK-NEXT:   %s = gemm.finalize row (max %p : tensor<?x1xf32>) -> (tensor<?x1xi64>) {
// CHECK-NEXT:   ^bb0(%0: f32):
// CHECK-NEXT:     %1 = arith.fptosi %0 : f32 to i64
// CHECK-NEXT:     %2 = arith.constant 3 : i64
// CHECK-NEXT:     %3 = arith.addi %1, %2 : i64
// CHECK-NEXT:     gemm.yield %3 : i64
// CHECK-NEXT:   }
// CHECK-NEXT:   %three = coda.constant {value = 3 : i64} : tensor<i64>
// CHECK-NEXT:   func.return %s : tensor<?x1xi64>
// CHECK-NEXT: }

// -----

// Numbers that are computed from extents are computed in the finalize.

func.func @extent(%x: tensor<?x8xf32>, %w: tensor<16x8xf32>) -> (tensor<?x16xf32>, tensor<?x1xf32>) {
  %z, %partial = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<16x8xf32>)
      -> (tile : tensor<?x16xf32>, partial_row<add> : tensor<?x?xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc, %acc : f32, f32
    }
  %s = gemm.finalize row (add %partial : tensor<?x?xf32>) -> (tensor<?x1xf32>) {
  ^bb0(%0: f32):
    gemm.yield %0 : f32
  }
  %t = coda.extent %x {dim = 0 : i64} : (tensor<?x8xf32>) -> tensor<i64>
  %f = coda.cast %t : (tensor<i64>) -> tensor<f32>
  %y = coda.div %s, %f : (tensor<?x1xf32>, tensor<f32>) -> tensor<?x1xf32>
  func.return %z, %y : tensor<?x16xf32>, tensor<?x1xf32>
}

// CHECK:      func.func @extent(
// CHECK-NEXT:   %z, %partial = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<16x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>, partial_row<add> : tensor<?x?xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc, %acc : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %t = coda.extent %x {dim = 0 : i64} : (tensor<?x8xf32>) -> tensor<i64>
// CHECK-NEXT:   %f = coda.cast %t : (tensor<i64>) -> tensor<f32>
// CHECK-NEXT:   %y = gemm.finalize row (add %partial : tensor<?x?xf32>) scalar(%t : tensor<i64>) -> (tensor<?x1xf32>) {
// CHECK-NEXT:   ^bb0(%0: f32, %1: i64):
// CHECK-NEXT:     %2 = arith.sitofp %1 : i64 to f32
// CHECK-NEXT:     %3 = arith.divf %0, %2 : f32
// CHECK-NEXT:     gemm.yield %3 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %z, %y : tensor<?x16xf32>, tensor<?x1xf32>
// CHECK-NEXT: }

// -----

// Code on a reshaped result of columns.

func.func @of_columns(%x: tensor<?x8xf32>) -> tensor<8x1xf32> {
  %partial = gemm.map tile(%x : tensor<?x8xf32>)
      -> (partial_col<max> : tensor<?x8xf32>) {
    ^bb0(%0: f32):
      gemm.yield %0 : f32
    }
  %m = gemm.finalize col (max %partial : tensor<?x8xf32>) -> (tensor<8xf32>) {
  ^bb0(%0: f32):
    gemm.yield %0 : f32
  }
  %c = coda.reshape %m : (tensor<8xf32>) -> tensor<8x1xf32>
  %two = coda.constant {value = 2.000000e+00 : f64} : tensor<f32>
  %d = coda.div %c, %two : (tensor<8x1xf32>, tensor<f32>) -> tensor<8x1xf32>
  %s = coda.mul %d, %d : (tensor<8x1xf32>, tensor<8x1xf32>) -> tensor<8x1xf32>
  func.return %s : tensor<8x1xf32>
}

// CHECK:      func.func @of_columns(
// CHECK-NEXT:   %partial = gemm.map tile(%x : tensor<?x8xf32>)
// CHECK-NEXT:       -> (partial_col<max> : tensor<?x8xf32>) {
// CHECK-NEXT:     ^bb0(%0: f32):
// CHECK-NEXT:       gemm.yield %0 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %s = gemm.finalize col (max %partial : tensor<?x8xf32>) -> (tensor<8xf32>) {
// CHECK-NEXT:   ^bb0(%0: f32):
// CHECK-NEXT:     %1 = arith.constant 2.000000e+00 : f32
// CHECK-NEXT:     %2 = arith.divf %0, %1 : f32
// CHECK-NEXT:     %3 = arith.mulf %2, %2 : f32
// CHECK-NEXT:     gemm.yield %3 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   %two = coda.constant {value = 2.000000e+00 : f64} : tensor<f32>
// CHECK-NEXT:   %s_1 = coda.reshape %s : (tensor<8xf32>) -> tensor<8x1xf32>
// CHECK-NEXT:   func.return %s_1 : tensor<8x1xf32>
// CHECK-NEXT: }

// RUN: coda-opt %s -p fuse-cross-entropy --split-input-file | filecheck %s

// The loss of each row: lse − target logit, and then what the float32 of the lse lacks; 0 where the
// target is ignored, an error where it is no column. Nothing else uses the
// logits, so that they are not stored; what runs between the GEMM and the loss stays before both.

func.func @none(%x: tensor<?x8xbf16>, %w: tensor<100x8xbf16>, %t: tensor<?xi64>) -> tensor<?xf32> {
  %c = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<100x8xbf16>)
      -> (tile : tensor<?x100xbf16>) {
    ^bb0(%acc: f32):
      %0 = arith.constant 0.000000e+00 : f32
      %c_1 = arith.maximumf %acc, %0 : f32
      gemm.yield %c_1 : f32
    }
  %l = coda.cross_entropy %c, %t {ignore_index = -100 : i64, reduction = "none"} : (tensor<?x100xbf16>, tensor<?xi64>) -> tensor<?xf32>
  func.return %l : tensor<?xf32>
}

// CHECK:      func.func @none(
// CHECK-NEXT:   %lse, %target_logit = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<100x8xbf16>) col(%t : tensor<?xi64>)
// CHECK-NEXT:       -> (partial_row<lse> : tensor<?x?xf64>, select<0> : tensor<?xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %t_1: i64):
// CHECK-NEXT:       %0 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:       %c = arith.maximumf %acc, %0 : f32
// CHECK-NEXT:       gemm.yield %c, %c : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %l = gemm.finalize row (lse %lse : tensor<?x?xf64>) col(%target_logit : tensor<?xf32>, %t : tensor<?xi64>) -> (tensor<?xf32>) {
// CHECK-NEXT:   ^bb0(%0: f32, %1: f32, %2: f32, %t_1: i64):
// CHECK-NEXT:     %3 = gemm.checked_index %t_1 {extent = 100 : i64, ignored = -100 : i64} : i64
// CHECK-NEXT:     %4 = arith.constant -100 : i64
// CHECK-NEXT:     %5 = arith.cmpi eq, %3, %4 : i64
// CHECK-NEXT:     %6 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:     %7 = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:     %8 = arith.subf %0, %2 : f32
// CHECK-NEXT:     %9 = arith.addf %8, %1 : f32
// CHECK-NEXT:     %10 = arith.select %5, %6, %9 : f32
// CHECK-NEXT:     gemm.yield %10 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %l : tensor<?xf32>
// CHECK-NEXT: }

// -----

// A sum over the rows is one more finalize; here the logits are stored.

func.func @sum(%x: tensor<?x8xf32>, %w: tensor<100x8xf32>, %t: tensor<?xi32>) -> (tensor<f32>, tensor<?x100xf32>) {
  %z = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<100x8xf32>)
      -> (tile : tensor<?x100xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %l = coda.cross_entropy %z, %t {ignore_index = 3 : i64, reduction = "sum"} : (tensor<?x100xf32>, tensor<?xi32>) -> tensor<f32>
  func.return %l, %z : tensor<f32>, tensor<?x100xf32>
}

// CHECK:      func.func @sum(
// CHECK-NEXT:   %z, %lse, %target_logit = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<100x8xf32>) col(%t : tensor<?xi32>)
// CHECK-NEXT:       -> (tile : tensor<?x100xf32>, partial_row<lse> : tensor<?x?xf64>, select<0> : tensor<?xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %t_1: i32):
// CHECK-NEXT:       gemm.yield %acc, %acc, %acc : f32, f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %0 = gemm.finalize row (lse %lse : tensor<?x?xf64>) col(%target_logit : tensor<?xf32>, %t : tensor<?xi32>) -> (tensor<?xf32>) {
// CHECK-NEXT:   ^bb0(%1: f32, %2: f32, %3: f32, %t_1: i32):
// CHECK-NEXT:     %4 = gemm.checked_index %t_1 {extent = 100 : i64, ignored = 3 : i64} : i32
// CHECK-NEXT:     %5 = arith.constant 3 : i32
// CHECK-NEXT:     %6 = arith.cmpi eq, %4, %5 : i32
// CHECK-NEXT:     %7 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:     %8 = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:     %9 = arith.subf %1, %3 : f32
// CHECK-NEXT:     %10 = arith.addf %9, %2 : f32
// CHECK-NEXT:     %11 = arith.select %6, %7, %10 : f32
// CHECK-NEXT:     gemm.yield %11 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   %l = gemm.finalize row (add %0 : tensor<?xf32>) -> (tensor<f32>) {
// CHECK-NEXT:   ^bb0(%1: f32):
// CHECK-NEXT:     gemm.yield %1 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %l, %z : tensor<f32>, tensor<?x100xf32>
// CHECK-NEXT: }

// -----

// A gradient reads the logits as they are stored, and their logsumexp, which the loss returns.

func.func @with_lse(%x: tensor<?x8xbf16>, %w: tensor<100x8xbf16>, %t: tensor<?xi64>) -> (tensor<?xf32>, tensor<?x100xbf16>, tensor<?x1xf32>, tensor<?x1xf32>) {
  %z = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<100x8xbf16>)
      -> (tile : tensor<?x100xbf16>) {
    ^bb0(%acc: f32):
      %0 = arith.truncf %acc : f32 to bf16
      %1 = arith.extf %0 : bf16 to f32
      gemm.yield %1 : f32
    }
  %l, %lse, %lse_rest = coda.cross_entropy %z, %t {ignore_index = -100 : i64, reduction = "none"} : (tensor<?x100xbf16>, tensor<?xi64>) -> (tensor<?xf32>, tensor<?x1xf32>, tensor<?x1xf32>)
  func.return %l, %z, %lse, %lse_rest : tensor<?xf32>, tensor<?x100xbf16>, tensor<?x1xf32>, tensor<?x1xf32>
}

// CHECK:      func.func @with_lse(
// CHECK-NEXT:   %z, %lse, %target_logit = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<100x8xbf16>) col(%t : tensor<?xi64>)
// CHECK-NEXT:       -> (tile : tensor<?x100xbf16>, partial_row<lse> : tensor<?x?xf64>, select<0> : tensor<?xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %t_1: i64):
// CHECK-NEXT:       %0 = arith.truncf %acc : f32 to bf16
// CHECK-NEXT:       %1 = arith.extf %0 : bf16 to f32
// CHECK-NEXT:       gemm.yield %1, %1, %1 : f32, f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %l, %lse_1, %lse_rest = gemm.finalize row (lse %lse : tensor<?x?xf64>) col(%target_logit : tensor<?xf32>, %t : tensor<?xi64>) -> (tensor<?xf32>, tensor<?x1xf32>, tensor<?x1xf32>) {
// CHECK-NEXT:   ^bb0(%0: f32, %1: f32, %2: f32, %t_1: i64):
// CHECK-NEXT:     %3 = gemm.checked_index %t_1 {extent = 100 : i64, ignored = -100 : i64} : i64
// CHECK-NEXT:     %4 = arith.constant -100 : i64
// CHECK-NEXT:     %5 = arith.cmpi eq, %3, %4 : i64
// CHECK-NEXT:     %6 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:     %7 = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:     %8 = arith.subf %0, %2 : f32
// CHECK-NEXT:     %9 = arith.addf %8, %1 : f32
// CHECK-NEXT:     %10 = arith.select %5, %6, %9 : f32
// CHECK-NEXT:     gemm.yield %10, %0, %1 : f32, f32, f32
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %l, %z, %lse_1, %lse_rest : tensor<?xf32>, tensor<?x100xbf16>, tensor<?x1xf32>, tensor<?x1xf32>
// CHECK-NEXT: }

// -----

// For a mean the rows that count are summed up as well; several row dimensions are flattened first.

func.func @mean(%x: tensor<?x?x8xf32>, %w: tensor<100x8xf32>, %t: tensor<?x?xi64>) -> tensor<f32> {
  %z = gemm.fused %x : tensor<?x?x8xf32>
    columns(%w : tensor<100x8xf32>)
      -> (tile : tensor<?x?x100xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %l = coda.cross_entropy %z, %t {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x?x100xf32>, tensor<?x?xi64>) -> tensor<f32>
  func.return %l : tensor<f32>
}

// CHECK:      func.func @mean(
// CHECK-NEXT:   %lse, %target_logit = gemm.fused %x : tensor<?x?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<100x8xf32>) col(%t : tensor<?x?xi64>)
// CHECK-NEXT:       -> (partial_row<lse> : tensor<?x?x?xf64>, select<0> : tensor<?x?xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %t_1: i64):
// CHECK-NEXT:       gemm.yield %acc, %acc : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %0, %1 = gemm.finalize row (lse %lse : tensor<?x?x?xf64>) col(%target_logit : tensor<?x?xf32>, %t : tensor<?x?xi64>) -> (tensor<?x?xf32>, tensor<?x?xf32>) {
// CHECK-NEXT:   ^bb0(%2: f32, %3: f32, %4: f32, %t_1: i64):
// CHECK-NEXT:     %5 = gemm.checked_index %t_1 {extent = 100 : i64, ignored = -100 : i64} : i64
// CHECK-NEXT:     %6 = arith.constant -100 : i64
// CHECK-NEXT:     %7 = arith.cmpi eq, %5, %6 : i64
// CHECK-NEXT:     %8 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:     %9 = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:     %10 = arith.subf %2, %4 : f32
// CHECK-NEXT:     %11 = arith.addf %10, %3 : f32
// CHECK-NEXT:     %12 = arith.select %7, %8, %11 : f32
// CHECK-NEXT:     %13 = arith.select %7, %8, %9 : f32
// CHECK-NEXT:     gemm.yield %12, %13 : f32, f32
// CHECK-NEXT:   }
// CHECK-NEXT:   %2 = coda.reshape %0 : (tensor<?x?xf32>) -> tensor<?xf32>
// CHECK-NEXT:   %3 = coda.reshape %1 : (tensor<?x?xf32>) -> tensor<?xf32>
// CHECK-NEXT:   %l = gemm.finalize row (add %2 : tensor<?xf32>, add %3 : tensor<?xf32>) -> (tensor<f32>) {
// CHECK-NEXT:   ^bb0(%4: f32, %5: f32):
// CHECK-NEXT:     %6 = arith.divf %4, %5 : f32
// CHECK-NEXT:     gemm.yield %6 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %l : tensor<f32>
// CHECK-NEXT: }

// -----

// Two losses on the same logits: one GEMM.

func.func @two_losses(%x: tensor<?x8xf32>, %w: tensor<100x8xf32>, %t: tensor<?xi64>, %s: tensor<?xi64>) -> (tensor<?xf32>, tensor<?xf32>) {
  %z = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<100x8xf32>)
      -> (tile : tensor<?x100xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %l = coda.cross_entropy %z, %t {ignore_index = -100 : i64, reduction = "none"} : (tensor<?x100xf32>, tensor<?xi64>) -> tensor<?xf32>
  %m = coda.cross_entropy %z, %s {ignore_index = -100 : i64, reduction = "none"} : (tensor<?x100xf32>, tensor<?xi64>) -> tensor<?xf32>
  func.return %l, %m : tensor<?xf32>, tensor<?xf32>
}

// CHECK:      func.func @two_losses(
// CHECK-NEXT:   %lse, %target_logit, %lse_1, %target_logit_1 = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<100x8xf32>) col(%t : tensor<?xi64>, %s : tensor<?xi64>)
// CHECK-NEXT:       -> (partial_row<lse> : tensor<?x?xf64>, select<0> : tensor<?xf32>, partial_row<lse> : tensor<?x?xf64>, select<1> : tensor<?xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %t_1: i64, %s_1: i64):
// CHECK-NEXT:       gemm.yield %acc, %acc, %acc, %acc : f32, f32, f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %l = gemm.finalize row (lse %lse : tensor<?x?xf64>) col(%target_logit : tensor<?xf32>, %t : tensor<?xi64>) -> (tensor<?xf32>) {
// CHECK-NEXT:   ^bb0(%0: f32, %1: f32, %2: f32, %t_1: i64):
// CHECK-NEXT:     %3 = gemm.checked_index %t_1 {extent = 100 : i64, ignored = -100 : i64} : i64
// CHECK-NEXT:     %4 = arith.constant -100 : i64
// CHECK-NEXT:     %5 = arith.cmpi eq, %3, %4 : i64
// CHECK-NEXT:     %6 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:     %7 = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:     %8 = arith.subf %0, %2 : f32
// CHECK-NEXT:     %9 = arith.addf %8, %1 : f32
// CHECK-NEXT:     %10 = arith.select %5, %6, %9 : f32
// CHECK-NEXT:     gemm.yield %10 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   %m = gemm.finalize row (lse %lse_1 : tensor<?x?xf64>) col(%target_logit_1 : tensor<?xf32>, %s : tensor<?xi64>) -> (tensor<?xf32>) {
// CHECK-NEXT:   ^bb0(%0: f32, %1: f32, %2: f32, %s_1: i64):
// CHECK-NEXT:     %3 = gemm.checked_index %s_1 {extent = 100 : i64, ignored = -100 : i64} : i64
// CHECK-NEXT:     %4 = arith.constant -100 : i64
// CHECK-NEXT:     %5 = arith.cmpi eq, %3, %4 : i64
// CHECK-NEXT:     %6 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:     %7 = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:     %8 = arith.subf %0, %2 : f32
// CHECK-NEXT:     %9 = arith.addf %8, %1 : f32
// CHECK-NEXT:     %10 = arith.select %5, %6, %9 : f32
// CHECK-NEXT:     gemm.yield %10 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %l, %m : tensor<?xf32>, tensor<?xf32>
// CHECK-NEXT: }

// -----

// The row sums of logits times their gradient come from the kernel that has both.

func.func @moment(%z: tensor<?x100xbf16>, %t: tensor<?xi64>, %d: tensor<f32>, %lse: tensor<?x1xf32>) -> (tensor<?x100xbf16>, tensor<?x1xf32>) {
  %dz = coda.cross_entropy_grad %z, %t, %d, %lse {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x100xbf16>, tensor<?xi64>, tensor<f32>, tensor<?x1xf32>) -> tensor<?x100xbf16>
  %a = coda.cast %z : (tensor<?x100xbf16>) -> tensor<?x100xf32>
  %b = coda.cast %dz : (tensor<?x100xbf16>) -> tensor<?x100xf32>
  %p = coda.mul %a, %b : (tensor<?x100xf32>, tensor<?x100xf32>) -> tensor<?x100xf32>
  %s = coda.reduce %p {kind = "sum"} : (tensor<?x100xf32>) -> tensor<?x1xf32>
  func.return %dz, %s : tensor<?x100xbf16>, tensor<?x1xf32>
}

// CHECK:      func.func @moment(%z: tensor<?x100xbf16>, %t: tensor<?xi64>, %d: tensor<f32>, %lse: tensor<?x1xf32>) -> (tensor<?x100xbf16>, tensor<?x1xf32>) {
// CHECK-NEXT:   %dz, %s = coda.cross_entropy_grad %z, %t, %d, %lse {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x100xbf16>, tensor<?xi64>, tensor<f32>, tensor<?x1xf32>) -> (tensor<?x100xbf16>, tensor<?x1xf32>)
// CHECK-NEXT:   %a = coda.cast %z : (tensor<?x100xbf16>) -> tensor<?x100xf32>
// CHECK-NEXT:   %b = coda.cast %dz : (tensor<?x100xbf16>) -> tensor<?x100xf32>
// CHECK-NEXT:   %p = coda.mul %a, %b : (tensor<?x100xf32>, tensor<?x100xf32>) -> tensor<?x100xf32>
// CHECK-NEXT:   func.return %dz, %s : tensor<?x100xbf16>, tensor<?x1xf32>
// CHECK-NEXT: }

// -----

// The same for columns from 50 on of longer rows.

func.func @moment_of_part(%z: tensor<?x40xbf16>, %t: tensor<?xi64>, %d: tensor<f32>, %lse: tensor<?x1xf32>) -> (tensor<?x40xbf16>, tensor<?x1xf32>) {
  %dz = coda.cross_entropy_grad %z, %t, %d, %lse {ignore_index = -100 : i64, reduction = "mean", start = 50 : i64} : (tensor<?x40xbf16>, tensor<?xi64>, tensor<f32>, tensor<?x1xf32>) -> tensor<?x40xbf16>
  %a = coda.cast %z : (tensor<?x40xbf16>) -> tensor<?x40xf32>
  %b = coda.cast %dz : (tensor<?x40xbf16>) -> tensor<?x40xf32>
  %p = coda.mul %a, %b : (tensor<?x40xf32>, tensor<?x40xf32>) -> tensor<?x40xf32>
  %s = coda.reduce %p {kind = "sum"} : (tensor<?x40xf32>) -> tensor<?x1xf32>
  func.return %dz, %s : tensor<?x40xbf16>, tensor<?x1xf32>
}

// CHECK:      func.func @moment_of_part(%z: tensor<?x40xbf16>, %t: tensor<?xi64>, %d: tensor<f32>, %lse: tensor<?x1xf32>) -> (tensor<?x40xbf16>, tensor<?x1xf32>) {
// CHECK-NEXT:   %dz, %s = coda.cross_entropy_grad %z, %t, %d, %lse {ignore_index = -100 : i64, reduction = "mean", start = 50 : i64} : (tensor<?x40xbf16>, tensor<?xi64>, tensor<f32>, tensor<?x1xf32>) -> (tensor<?x40xbf16>, tensor<?x1xf32>)
// CHECK-NEXT:   %a = coda.cast %z : (tensor<?x40xbf16>) -> tensor<?x40xf32>
// CHECK-NEXT:   %b = coda.cast %dz : (tensor<?x40xbf16>) -> tensor<?x40xf32>
// CHECK-NEXT:   %p = coda.mul %a, %b : (tensor<?x40xf32>, tensor<?x40xf32>) -> tensor<?x40xf32>
// CHECK-NEXT:   func.return %dz, %s : tensor<?x40xbf16>, tensor<?x1xf32>
// CHECK-NEXT: }

// -----

// Logits that are computed again: their gradient comes from the epilogue, here of the columns from 50 on.

func.func @gradient(%x: tensor<?x8xbf16>, %w: tensor<40x8xbf16>, %t: tensor<?xi64>, %d: tensor<f32>, %lse: tensor<?x1xf32>) -> tensor<?x40xbf16> {
  %z = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<40x8xbf16>)
      -> (tile : tensor<?x40xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %dz = coda.cross_entropy_grad %z, %t, %d, %lse {ignore_index = -100 : i64, reduction = "mean", start = 50 : i64} : (tensor<?x40xbf16>, tensor<?xi64>, tensor<f32>, tensor<?x1xf32>) -> tensor<?x40xbf16>
  func.return %dz : tensor<?x40xbf16>
}

// CHECK:      func.func @gradient(%x: tensor<?x8xbf16>, %w: tensor<40x8xbf16>, %t: tensor<?xi64>, %d: tensor<f32>, %lse: tensor<?x1xf32>) -> tensor<?x40xbf16> {
// CHECK-NEXT:   %counts = gemm.map col(%t : tensor<?xi64>)
// CHECK-NEXT:       -> (tile : tensor<?x1xf32>) {
// CHECK-NEXT:     ^bb0(%0: i64):
// CHECK-NEXT:       %1 = arith.constant -100 : i64
// CHECK-NEXT:       %2 = arith.cmpi eq, %0, %1 : i64
// CHECK-NEXT:       %3 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:       %4 = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:       %5 = arith.select %2, %3, %4 : f32
// CHECK-NEXT:       gemm.yield %5 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %0 = coda.reshape %counts : (tensor<?x1xf32>) -> tensor<?xf32>
// CHECK-NEXT:   %share = gemm.finalize row (add %0 : tensor<?xf32>) scalar(%d : tensor<f32>) -> (tensor<f32>) {
// CHECK-NEXT:   ^bb0(%1: f32, %2: f32):
// CHECK-NEXT:     %3 = arith.divf %2, %1 : f32
// CHECK-NEXT:     gemm.yield %3 : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   %1 = coda.constant {value = 50 : i64} : tensor<i64>
// CHECK-NEXT:   %dz = gemm.fused %x : tensor<?x8xbf16>
// CHECK-NEXT:     columns(%w : tensor<40x8xbf16>) col(%t : tensor<?xi64>, %lse : tensor<?x1xf32>) scalar(%share : tensor<f32>, %1 : tensor<i64>)
// CHECK-NEXT:       -> (tile : tensor<?x40xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %t_1: i64, %lse_1: f32, %share_1: f32, %2: i64):
// CHECK-NEXT:       %3 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:       %4 = arith.subi %t_1, %2 : i64
// CHECK-NEXT:       %5 = arith.constant -1 : i64
// CHECK-NEXT:       %6 = arith.constant 40 : i64
// CHECK-NEXT:       %7 = arith.maxsi %4, %5 : i64
// CHECK-NEXT:       %8 = arith.minsi %7, %6 : i64
// CHECK-NEXT:       %9 = arith.trunci %8 : i64 to i32
// CHECK-NEXT:       %10 = gemm.column : i32
// CHECK-NEXT:       %11 = arith.cmpi eq, %10, %9 : i32
// CHECK-NEXT:       %12 = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:       %13 = arith.select %11, %12, %3 : f32
// CHECK-NEXT:       %14 = arith.subf %acc, %lse_1 : f32
// CHECK-NEXT:       %15 = math.exp %14 : f32
// CHECK-NEXT:       %16 = arith.constant -100 : i64
// CHECK-NEXT:       %17 = arith.cmpi eq, %t_1, %16 : i64
// CHECK-NEXT:       %18 = arith.subf %15, %13 : f32
// CHECK-NEXT:       %19 = arith.mulf %18, %share_1 : f32
// CHECK-NEXT:       %dz_1 = arith.select %17, %3, %19 : f32
// CHECK-NEXT:       gemm.yield %dz_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %dz : tensor<?x40xbf16>
// CHECK-NEXT: }

// -----

// A gradient per row, and logits that are stored too.

func.func @gradient_of_rows(%x: tensor<?x8xf32>, %w: tensor<100x8xf32>, %t: tensor<?xi32>, %d: tensor<?xf32>, %lse: tensor<?x1xf32>) -> (tensor<?x100xf32>, tensor<?x100xf32>) {
  %z = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<100x8xf32>)
      -> (tile : tensor<?x100xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %dz = coda.cross_entropy_grad %z, %t, %d, %lse {ignore_index = 0 : i64, reduction = "none"} : (tensor<?x100xf32>, tensor<?xi32>, tensor<?xf32>, tensor<?x1xf32>) -> tensor<?x100xf32>
  func.return %z, %dz : tensor<?x100xf32>, tensor<?x100xf32>
}

// CHECK:      func.func @gradient_of_rows(%x: tensor<?x8xf32>, %w: tensor<100x8xf32>, %t: tensor<?xi32>, %d: tensor<?xf32>, %lse: tensor<?x1xf32>) -> (tensor<?x100xf32>, tensor<?x100xf32>) {
// CHECK-NEXT:   %0 = coda.constant {value = 0 : i64} : tensor<i32>
// CHECK-NEXT:   %z, %dz = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<100x8xf32>) col(%t : tensor<?xi32>, %lse : tensor<?x1xf32>, %d : tensor<?xf32>) scalar(%0 : tensor<i32>)
// CHECK-NEXT:       -> (tile : tensor<?x100xf32>, tile : tensor<?x100xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %t_1: i32, %lse_1: f32, %d_1: f32, %1: i32):
// CHECK-NEXT:       %2 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:       %3 = arith.subi %t_1, %1 : i32
// CHECK-NEXT:       %4 = gemm.column : i32
// CHECK-NEXT:       %5 = arith.cmpi eq, %4, %3 : i32
// CHECK-NEXT:       %6 = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:       %7 = arith.select %5, %6, %2 : f32
// CHECK-NEXT:       %8 = arith.subf %acc, %lse_1 : f32
// CHECK-NEXT:       %9 = math.exp %8 : f32
// CHECK-NEXT:       %10 = arith.constant 0 : i32
// CHECK-NEXT:       %11 = arith.cmpi eq, %t_1, %10 : i32
// CHECK-NEXT:       %12 = arith.subf %9, %7 : f32
// CHECK-NEXT:       %13 = arith.mulf %12, %d_1 : f32
// CHECK-NEXT:       %dz_1 = arith.select %11, %2, %13 : f32
// CHECK-NEXT:       gemm.yield %acc, %dz_1 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %z, %dz : tensor<?x100xf32>, tensor<?x100xf32>
// CHECK-NEXT: }

// RUN: coda-opt %s -p fuse-cross-entropy --split-input-file | filecheck %s
// RUN: coda-opt %s -p fuse-cross-entropy --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// The logits are an argument.

func.func @argument(%z: tensor<?x100xf32>, %t: tensor<?xi64>) -> tensor<f32> {
  %l = coda.cross_entropy %z, %t {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x100xf32>, tensor<?xi64>) -> tensor<f32>
  func.return %l : tensor<f32>
}

// REMARK: remark[missed] fuse-cross-entropy: coda.cross_entropy: %z is not computed by a GEMM of the same function; failed condition: the logits are the tile of a GEMM; costs 400*d0 + 8*d1 + 4 bytes
// CHECK:      func.func @argument(
// CHECK-NEXT:   %l = coda.cross_entropy %z, %t {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x100xf32>, tensor<?xi64>) -> tensor<f32>
// CHECK-NEXT:   func.return %l : tensor<f32>
// CHECK-NEXT: }

// -----

// The logits are the tile of a pointwise kernel.

func.func @map(%x: tensor<?x100xf32>, %t: tensor<?xi64>) -> tensor<f32> {
  %z = gemm.map tile(%x : tensor<?x100xf32>)
      -> (tile : tensor<?x100xf32>) {
    ^bb0(%a: f32):
      %e = math.exp %a : f32
      gemm.yield %e : f32
    }
  %l = coda.cross_entropy %z, %t {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x100xf32>, tensor<?xi64>) -> tensor<f32>
  func.return %l : tensor<f32>
}

// REMARK: remark[missed] fuse-cross-entropy: coda.cross_entropy: %z is not computed by a GEMM of the same function; failed condition: the logits are the tile of a GEMM; costs 400*d0 + 8*d1 + 4 bytes
// CHECK:      func.func @map(
// CHECK-NEXT:   %z = gemm.map tile(%x : tensor<?x100xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x100xf32>) {
// CHECK-NEXT:     ^bb0(%a: f32):
// CHECK-NEXT:       %e = math.exp %a : f32
// CHECK-NEXT:       gemm.yield %e : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %l = coda.cross_entropy %z, %t {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x100xf32>, tensor<?xi64>) -> tensor<f32>
// CHECK-NEXT:   func.return %l : tensor<f32>
// CHECK-NEXT: }

// -----

// The columns of the logits are paired.

func.func @paired(%x: tensor<?x8xf32>, %w: tensor<200x8xf32>, %t: tensor<?xi64>) -> tensor<f32> {
  %z = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<200x8xf32>) pair<halves>
      -> (half : tensor<?x100xf32>) {
    ^bb0(%a: f32, %b: f32):
      %m = arith.mulf %a, %b : f32
      gemm.yield %m : f32
    }
  %l = coda.cross_entropy %z, %t {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x100xf32>, tensor<?xi64>) -> tensor<f32>
  func.return %l : tensor<f32>
}

// REMARK: remark[missed] fuse-cross-entropy: coda.cross_entropy: the GEMM that computes %z pairs its columns; failed condition: the columns of the logits are not paired; costs 400*d0 + 8*d1 + 4 bytes
// CHECK:      func.func @paired(
// CHECK-NEXT:   %z = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<200x8xf32>) pair<halves>
// CHECK-NEXT:       -> (half : tensor<?x100xf32>) {
// CHECK-NEXT:     ^bb0(%a: f32, %b: f32):
// CHECK-NEXT:       %m = arith.mulf %a, %b : f32
// CHECK-NEXT:       gemm.yield %m : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %l = coda.cross_entropy %z, %t {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x100xf32>, tensor<?xi64>) -> tensor<f32>
// CHECK-NEXT:   func.return %l : tensor<f32>
// CHECK-NEXT: }

// -----

// The target is computed from the logits.

func.func @target(%x: tensor<?x8xf32>, %w: tensor<100x8xf32>) -> tensor<f32> {
  %z = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<100x8xf32>)
      -> (tile : tensor<?x100xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %p = coda.softmax %z : (tensor<?x100xf32>) -> tensor<?x100xf32>
  %s = coda.slice %p {dim = 1 : i64, start = 0 : i64, stop = 1 : i64} : (tensor<?x100xf32>) -> tensor<?x1xf32>
  %r = coda.reshape %s : (tensor<?x1xf32>) -> tensor<?xf32>
  %t = coda.cast %r : (tensor<?xf32>) -> tensor<?xi64>
  %l = coda.cross_entropy %z, %t {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x100xf32>, tensor<?xi64>) -> tensor<f32>
  func.return %l : tensor<f32>
}

// REMARK: remark[missed] fuse-cross-entropy: coda.cross_entropy: %t is computed from the logits; failed condition: the target does not depend on the logits; costs 408*d0 + 4 bytes
// CHECK:      func.func @target(
// CHECK-NEXT:   %z = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<100x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x100xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %p = coda.softmax %z : (tensor<?x100xf32>) -> tensor<?x100xf32>
// CHECK-NEXT:   %s = coda.slice %p {dim = 1 : i64, start = 0 : i64, stop = 1 : i64} : (tensor<?x100xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %r = coda.reshape %s : (tensor<?x1xf32>) -> tensor<?xf32>
// CHECK-NEXT:   %t = coda.cast %r : (tensor<?xf32>) -> tensor<?xi64>
// CHECK-NEXT:   %l = coda.cross_entropy %z, %t {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x100xf32>, tensor<?xi64>) -> tensor<f32>
// CHECK-NEXT:   func.return %l : tensor<f32>
// CHECK-NEXT: }

// -----

// The gradient of a loss: a mean of its product with the logits is not their sum.

func.func @moment_of_mean(%z: tensor<?x100xbf16>, %t: tensor<?xi64>, %d: tensor<f32>, %lse: tensor<?x1xf32>) -> (tensor<?x100xbf16>, tensor<?x1xf32>) {
  %dz = coda.cross_entropy_grad %z, %t, %d, %lse {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x100xbf16>, tensor<?xi64>, tensor<f32>, tensor<?x1xf32>) -> tensor<?x100xbf16>
  %a = coda.cast %z : (tensor<?x100xbf16>) -> tensor<?x100xf32>
  %b = coda.cast %dz : (tensor<?x100xbf16>) -> tensor<?x100xf32>
  %p = coda.mul %a, %b : (tensor<?x100xf32>, tensor<?x100xf32>) -> tensor<?x100xf32>
  %s = coda.reduce %p {kind = "mean"} : (tensor<?x100xf32>) -> tensor<?x1xf32>
  func.return %dz, %s : tensor<?x100xbf16>, tensor<?x1xf32>
}

// CHECK:      func.func @moment_of_mean(%z: tensor<?x100xbf16>, %t: tensor<?xi64>, %d: tensor<f32>, %lse: tensor<?x1xf32>) -> (tensor<?x100xbf16>, tensor<?x1xf32>) {
// CHECK-NEXT:   %dz = coda.cross_entropy_grad %z, %t, %d, %lse {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x100xbf16>, tensor<?xi64>, tensor<f32>, tensor<?x1xf32>) -> tensor<?x100xbf16>
// CHECK-NEXT:   %a = coda.cast %z : (tensor<?x100xbf16>) -> tensor<?x100xf32>
// CHECK-NEXT:   %b = coda.cast %dz : (tensor<?x100xbf16>) -> tensor<?x100xf32>
// CHECK-NEXT:   %p = coda.mul %a, %b : (tensor<?x100xf32>, tensor<?x100xf32>) -> tensor<?x100xf32>
// CHECK-NEXT:   %s = coda.reduce %p {kind = "mean"} : (tensor<?x100xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   func.return %dz, %s : tensor<?x100xbf16>, tensor<?x1xf32>
// CHECK-NEXT: }


// -----

// A narrow sum.

func.func @moment_in_bf16(%z: tensor<?x100xbf16>, %t: tensor<?xi64>, %d: tensor<f32>, %lse: tensor<?x1xf32>) -> (tensor<?x100xbf16>, tensor<?x1xbf16>) {
  %dz = coda.cross_entropy_grad %z, %t, %d, %lse {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x100xbf16>, tensor<?xi64>, tensor<f32>, tensor<?x1xf32>) -> tensor<?x100xbf16>
  %a = coda.cast %z : (tensor<?x100xbf16>) -> tensor<?x100xf32>
  %b = coda.cast %dz : (tensor<?x100xbf16>) -> tensor<?x100xf32>
  %p = coda.mul %a, %b : (tensor<?x100xf32>, tensor<?x100xf32>) -> tensor<?x100xf32>
  %s = coda.reduce %p {kind = "sum"} : (tensor<?x100xf32>) -> tensor<?x1xbf16>
  func.return %dz, %s : tensor<?x100xbf16>, tensor<?x1xbf16>
}

// CHECK:      func.func @moment_in_bf16(%z: tensor<?x100xbf16>, %t: tensor<?xi64>, %d: tensor<f32>, %lse: tensor<?x1xf32>) -> (tensor<?x100xbf16>, tensor<?x1xbf16>) {
// CHECK-NEXT:   %dz = coda.cross_entropy_grad %z, %t, %d, %lse {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x100xbf16>, tensor<?xi64>, tensor<f32>, tensor<?x1xf32>) -> tensor<?x100xbf16>
// CHECK-NEXT:   %a = coda.cast %z : (tensor<?x100xbf16>) -> tensor<?x100xf32>
// CHECK-NEXT:   %b = coda.cast %dz : (tensor<?x100xbf16>) -> tensor<?x100xf32>
// CHECK-NEXT:   %p = coda.mul %a, %b : (tensor<?x100xf32>, tensor<?x100xf32>) -> tensor<?x100xf32>
// CHECK-NEXT:   %s = coda.reduce %p {kind = "sum"} : (tensor<?x100xf32>) -> tensor<?x1xbf16>
// CHECK-NEXT:   func.return %dz, %s : tensor<?x100xbf16>, tensor<?x1xbf16>
// CHECK-NEXT: }


// -----

// A sum of squares.

func.func @moment_of_square(%z: tensor<?x100xbf16>, %t: tensor<?xi64>, %d: tensor<f32>, %lse: tensor<?x1xf32>) -> (tensor<?x100xbf16>, tensor<?x1xf32>) {
  %dz = coda.cross_entropy_grad %z, %t, %d, %lse {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x100xbf16>, tensor<?xi64>, tensor<f32>, tensor<?x1xf32>) -> tensor<?x100xbf16>
  %a = coda.cast %dz : (tensor<?x100xbf16>) -> tensor<?x100xf32>
  %b = coda.cast %dz : (tensor<?x100xbf16>) -> tensor<?x100xf32>
  %p = coda.mul %a, %b : (tensor<?x100xf32>, tensor<?x100xf32>) -> tensor<?x100xf32>
  %s = coda.reduce %p {kind = "sum"} : (tensor<?x100xf32>) -> tensor<?x1xf32>
  func.return %dz, %s : tensor<?x100xbf16>, tensor<?x1xf32>
}

// CHECK:      func.func @moment_of_square(%z: tensor<?x100xbf16>, %t: tensor<?xi64>, %d: tensor<f32>, %lse: tensor<?x1xf32>) -> (tensor<?x100xbf16>, tensor<?x1xf32>) {
// CHECK-NEXT:   %dz = coda.cross_entropy_grad %z, %t, %d, %lse {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x100xbf16>, tensor<?xi64>, tensor<f32>, tensor<?x1xf32>) -> tensor<?x100xbf16>
// CHECK-NEXT:   %a = coda.cast %dz : (tensor<?x100xbf16>) -> tensor<?x100xf32>
// CHECK-NEXT:   %b = coda.cast %dz : (tensor<?x100xbf16>) -> tensor<?x100xf32>
// CHECK-NEXT:   %p = coda.mul %a, %b : (tensor<?x100xf32>, tensor<?x100xf32>) -> tensor<?x100xf32>
// CHECK-NEXT:   %s = coda.reduce %p {kind = "sum"} : (tensor<?x100xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   func.return %dz, %s : tensor<?x100xbf16>, tensor<?x1xf32>
// CHECK-NEXT: }


// -----

// Eager sums up the rounded gradient.

func.func @moment_rounded(%z: tensor<?x100xbf16>, %t: tensor<?xi64>, %d: tensor<f32>, %lse: tensor<?x1xf32>) -> (tensor<?x100xbf16>, tensor<?x1xf32>) attributes {coda.numerics = #gemm.numerics<"eager-exact">} {
  %dz = coda.cross_entropy_grad %z, %t, %d, %lse {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x100xbf16>, tensor<?xi64>, tensor<f32>, tensor<?x1xf32>) -> tensor<?x100xbf16>
  %a = coda.cast %z : (tensor<?x100xbf16>) -> tensor<?x100xf32>
  %b = coda.cast %dz : (tensor<?x100xbf16>) -> tensor<?x100xf32>
  %p = coda.mul %a, %b : (tensor<?x100xf32>, tensor<?x100xf32>) -> tensor<?x100xf32>
  %s = coda.reduce %p {kind = "sum"} : (tensor<?x100xf32>) -> tensor<?x1xf32>
  func.return %dz, %s : tensor<?x100xbf16>, tensor<?x1xf32>
}

// CHECK:      func.func @moment_rounded(%z: tensor<?x100xbf16>, %t: tensor<?xi64>, %d: tensor<f32>, %lse: tensor<?x1xf32>) -> (tensor<?x100xbf16>, tensor<?x1xf32>) attributes {coda.numerics = #gemm.numerics<"eager-exact">} {
// CHECK-NEXT:   %dz = coda.cross_entropy_grad %z, %t, %d, %lse {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x100xbf16>, tensor<?xi64>, tensor<f32>, tensor<?x1xf32>) -> tensor<?x100xbf16>
// CHECK-NEXT:   %a = coda.cast %z : (tensor<?x100xbf16>) -> tensor<?x100xf32>
// CHECK-NEXT:   %b = coda.cast %dz : (tensor<?x100xbf16>) -> tensor<?x100xf32>
// CHECK-NEXT:   %p = coda.mul %a, %b : (tensor<?x100xf32>, tensor<?x100xf32>) -> tensor<?x100xf32>
// CHECK-NEXT:   %s = coda.reduce %p {kind = "sum"} : (tensor<?x100xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   func.return %dz, %s : tensor<?x100xbf16>, tensor<?x1xf32>
// CHECK-NEXT: }

// -----

// A gradient of logits whose logsumexp needs the same GEMM.

func.func @gradient_needs_rows(%x: tensor<?x8xf32>, %w: tensor<100x8xf32>, %t: tensor<?xi64>, %d: tensor<f32>) -> tensor<?x100xf32> {
  %z = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<100x8xf32>)
      -> (tile : tensor<?x100xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %lse = coda.reduce %z {kind = "lse"} : (tensor<?x100xf32>) -> tensor<?x1xf32>
  %dz = coda.cross_entropy_grad %z, %t, %d, %lse {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x100xf32>, tensor<?xi64>, tensor<f32>, tensor<?x1xf32>) -> tensor<?x100xf32>
  func.return %dz : tensor<?x100xf32>
}

// CHECK:      func.func @gradient_needs_rows(%x: tensor<?x8xf32>, %w: tensor<100x8xf32>, %t: tensor<?xi64>, %d: tensor<f32>) -> tensor<?x100xf32> {
// CHECK-NEXT:   %z = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<100x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x100xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %lse = coda.reduce %z {kind = "lse"} : (tensor<?x100xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %dz = coda.cross_entropy_grad %z, %t, %d, %lse {ignore_index = -100 : i64, reduction = "mean"} : (tensor<?x100xf32>, tensor<?xi64>, tensor<f32>, tensor<?x1xf32>) -> tensor<?x100xf32>
// CHECK-NEXT:   func.return %dz : tensor<?x100xf32>
// CHECK-NEXT: }
// REMARK: remark[missed] fuse-cross-entropy: coda.cross_entropy_grad: the gradient runs as a separate kernel: the logsumexp needs complete rows; failed condition: the other operands of the gradient are computed before the logits; costs 804*d0 + 8*d1 + 4 bytes

// -----

// No logsumexp.

func.func @gradient_without_lse(%x: tensor<?x8xf32>, %w: tensor<100x8xf32>, %t: tensor<?xi64>, %d: tensor<f32>) -> tensor<?x100xf32> {
  %z = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<100x8xf32>)
      -> (tile : tensor<?x100xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %dz = coda.cross_entropy_grad %z, %t, %d {ignore_index = -100 : i64, reduction = "sum"} : (tensor<?x100xf32>, tensor<?xi64>, tensor<f32>) -> tensor<?x100xf32>
  func.return %dz : tensor<?x100xf32>
}

// CHECK:      func.func @gradient_without_lse(%x: tensor<?x8xf32>, %w: tensor<100x8xf32>, %t: tensor<?xi64>, %d: tensor<f32>) -> tensor<?x100xf32> {
// CHECK-NEXT:   %z = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<100x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x100xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %dz = coda.cross_entropy_grad %z, %t, %d {ignore_index = -100 : i64, reduction = "sum"} : (tensor<?x100xf32>, tensor<?xi64>, tensor<f32>) -> tensor<?x100xf32>
// CHECK-NEXT:   func.return %dz : tensor<?x100xf32>
// CHECK-NEXT: }
// REMARK: remark[missed] fuse-cross-entropy: coda.cross_entropy_grad: the gradient runs as a separate kernel: it reads whole rows; failed condition: the logsumexp of each row is given, and the gradient is the only result; costs 800*d0 + 8*d1 + 4 bytes

// -----

// Pairs of columns.

func.func @gradient_of_pairs(%x: tensor<?x8xf32>, %w: tensor<100x8xf32>, %t: tensor<?xi64>, %d: tensor<f32>, %lse: tensor<?x1xf32>) -> tensor<?x100xf32> {
  %z = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<100x8xf32>) pair<adjacent>
      -> (tile : tensor<?x100xf32>) {
    ^bb0(%a: f32, %b: f32):
      gemm.yield %a, %b : f32, f32
    }
  %dz = coda.cross_entropy_grad %z, %t, %d, %lse {ignore_index = -100 : i64, reduction = "sum"} : (tensor<?x100xf32>, tensor<?xi64>, tensor<f32>, tensor<?x1xf32>) -> tensor<?x100xf32>
  func.return %dz : tensor<?x100xf32>
}

// CHECK:      func.func @gradient_of_pairs(%x: tensor<?x8xf32>, %w: tensor<100x8xf32>, %t: tensor<?xi64>, %d: tensor<f32>, %lse: tensor<?x1xf32>) -> tensor<?x100xf32> {
// CHECK-NEXT:   %z = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<100x8xf32>) pair<adjacent>
// CHECK-NEXT:       -> (tile : tensor<?x100xf32>) {
// CHECK-NEXT:     ^bb0(%a: f32, %b: f32):
// CHECK-NEXT:       gemm.yield %a, %b : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %dz = coda.cross_entropy_grad %z, %t, %d, %lse {ignore_index = -100 : i64, reduction = "sum"} : (tensor<?x100xf32>, tensor<?xi64>, tensor<f32>, tensor<?x1xf32>) -> tensor<?x100xf32>
// CHECK-NEXT:   func.return %dz : tensor<?x100xf32>
// CHECK-NEXT: }
// REMARK: remark[missed] fuse-cross-entropy: coda.cross_entropy_grad: the GEMM that computes %z pairs its columns; failed condition: the columns of the logits are not paired; costs 800*d0 + 8*d1 + 4*d2 + 4 bytes

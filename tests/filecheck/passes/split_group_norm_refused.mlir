// RUN: coda-opt %s -p split-group-norm --split-input-file | filecheck %s
// RUN: coda-opt %s -p split-group-norm,report-unfused --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// The channels are rows, as those of a convolution's result are.

func.func @channels_first(%x: tensor<2x8x6xbf16>, %v: tensor<12x6xbf16>) -> tensor<2x8x12xbf16> {
  %z = coda.linear %x, %v : (tensor<2x8x6xbf16>, tensor<12x6xbf16>) -> tensor<2x8x12xbf16>
  %n = coda.group_norm %z {groups = 2 : i64, eps = 1.0e-5 : f64} : (tensor<2x8x12xbf16>) -> tensor<2x8x12xbf16>
  func.return %n : tensor<2x8x12xbf16>
}

// REMARK: remark[missed] split-group-norm: coda.group_norm: the norm runs as a library call: its input stores channels before positions; failed condition: the channels are columns: each row of the tensor in memory has the channels of one position; costs 768 bytes
// CHECK:      func.func @channels_first(
// CHECK-NEXT:   %z = coda.linear %x, %v : (tensor<2x8x6xbf16>, tensor<12x6xbf16>) -> tensor<2x8x12xbf16>
// CHECK-NEXT:   %n = coda.group_norm %z {groups = 2 : i64, eps = 1.000000e-05 : f64} : (tensor<2x8x12xbf16>) -> tensor<2x8x12xbf16>
// CHECK-NEXT:   func.return %n : tensor<2x8x12xbf16>
// CHECK-NEXT: }

// -----

// A view moves the samples.

func.func @samples(%x: tensor<2x12x8xbf16>, %v: tensor<8x8xbf16>) -> tensor<12x8x2xbf16> {
  %z = coda.linear %x, %v : (tensor<2x12x8xbf16>, tensor<8x8xbf16>) -> tensor<2x12x8xbf16>
  %t = coda.transpose %z {perm = [1, 2, 0]} : (tensor<2x12x8xbf16>) -> tensor<12x8x2xbf16>
  %n = coda.group_norm %t {groups = 2 : i64, eps = 1.0e-5 : f64} : (tensor<12x8x2xbf16>) -> tensor<12x8x2xbf16>
  func.return %n : tensor<12x8x2xbf16>
}

// REMARK: remark[missed] split-group-norm: coda.group_norm: the norm runs as a library call: its input stores channels before positions; failed condition: the channels are columns: each row of the tensor in memory has the channels of one position; costs 768 bytes
// CHECK:      func.func @samples(
// CHECK-NEXT:   %z = coda.linear %x, %v : (tensor<2x12x8xbf16>, tensor<8x8xbf16>) -> tensor<2x12x8xbf16>
// CHECK-NEXT:   %t = coda.transpose %z {perm = [1 : i64, 2 : i64, 0 : i64]} : (tensor<2x12x8xbf16>) -> tensor<12x8x2xbf16>
// CHECK-NEXT:   %n = coda.group_norm %t {groups = 2 : i64, eps = 1.000000e-05 : f64} : (tensor<12x8x2xbf16>) -> tensor<12x8x2xbf16>
// CHECK-NEXT:   func.return %n : tensor<12x8x2xbf16>
// CHECK-NEXT: }

// -----

// A difference of sums would lose what float32 has.

func.func @float32(%x: tensor<?x12x8xf32>, %v: tensor<8x8xf32>) -> tensor<?x8x12xf32> {
  %z = coda.linear %x, %v : (tensor<?x12x8xf32>, tensor<8x8xf32>) -> tensor<?x12x8xf32>
  %t = coda.transpose %z {perm = [0, 2, 1]} : (tensor<?x12x8xf32>) -> tensor<?x8x12xf32>
  %n = coda.group_norm %t {groups = 2 : i64, eps = 1.0e-5 : f64} : (tensor<?x8x12xf32>) -> tensor<?x8x12xf32>
  func.return %n : tensor<?x8x12xf32>
}

// REMARK: remark[missed] split-group-norm: coda.group_norm: the statistics run as a separate kernel: %t is float32, where abs(mean) of a row may be far above its std; failed condition: rounding the input costs more accuracy than a difference of sums does; costs 768*d0 bytes
// REMARK: help: use bf16, or RMSNorm
// CHECK:      func.func @float32(
// CHECK-NEXT:   %z = coda.linear %x, %v : (tensor<?x12x8xf32>, tensor<8x8xf32>) -> tensor<?x12x8xf32>
// CHECK-NEXT:   %t = coda.transpose %z {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<?x12x8xf32>) -> tensor<?x8x12xf32>
// CHECK-NEXT:   %n = coda.group_norm %t {groups = 2 : i64, eps = 1.000000e-05 : f64} : (tensor<?x8x12xf32>) -> tensor<?x8x12xf32>
// CHECK-NEXT:   func.return %n : tensor<?x8x12xf32>
// CHECK-NEXT: }

// -----

// Eager takes the variance from differences.

func.func @exact(%x: tensor<?x12x8xbf16>, %v: tensor<8x8xbf16>) -> tensor<?x8x12xbf16> attributes {coda.numerics = #gemm.numerics<"eager-exact">} {
  %z = coda.linear %x, %v : (tensor<?x12x8xbf16>, tensor<8x8xbf16>) -> tensor<?x12x8xbf16>
  %t = coda.transpose %z {perm = [0, 2, 1]} : (tensor<?x12x8xbf16>) -> tensor<?x8x12xbf16>
  %n = coda.group_norm %t {groups = 2 : i64, eps = 1.0e-5 : f64} : (tensor<?x8x12xbf16>) -> tensor<?x8x12xbf16>
  func.return %n : tensor<?x8x12xbf16>
}

// REMARK: remark[missed] split-group-norm: coda.group_norm: the statistics run as a separate kernel: eager PyTorch computes the variance from differences, and the mode is eager-exact; failed condition: rounding the input costs more accuracy than a difference of sums does; costs 384*d0 bytes
// REMARK: help: use bf16, or RMSNorm
// CHECK:      func.func @exact(
// CHECK-NEXT:   %z = coda.linear %x, %v : (tensor<?x12x8xbf16>, tensor<8x8xbf16>) -> tensor<?x12x8xbf16>
// CHECK-NEXT:   %t = coda.transpose %z {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<?x12x8xbf16>) -> tensor<?x8x12xbf16>
// CHECK-NEXT:   %n = coda.group_norm %t {groups = 2 : i64, eps = 1.000000e-05 : f64} : (tensor<?x8x12xbf16>) -> tensor<?x8x12xbf16>
// CHECK-NEXT:   func.return %n : tensor<?x8x12xbf16>
// CHECK-NEXT: }

// -----

// Sums by sample have no stated order.

func.func @deterministic(%x: tensor<?x12x8xbf16>, %v: tensor<8x8xbf16>) -> tensor<?x8x12xbf16> attributes {coda.numerics = #gemm.numerics<"deterministic">} {
  %z = coda.linear %x, %v : (tensor<?x12x8xbf16>, tensor<8x8xbf16>) -> tensor<?x12x8xbf16>
  %t = coda.transpose %z {perm = [0, 2, 1]} : (tensor<?x12x8xbf16>) -> tensor<?x8x12xbf16>
  %n = coda.group_norm %t {groups = 2 : i64, eps = 1.0e-5 : f64} : (tensor<?x8x12xbf16>) -> tensor<?x8x12xbf16>
  func.return %n : tensor<?x8x12xbf16>
}

// REMARK: remark[missed] split-group-norm: coda.group_norm: the norm runs as a library call: the rows of a sample may begin within a tile, and the mode is deterministic; failed condition: the order in which a sum adds rows does not depend on the tiles; costs 384*d0 bytes
// CHECK:      func.func @deterministic(
// CHECK-NEXT:   %z = coda.linear %x, %v : (tensor<?x12x8xbf16>, tensor<8x8xbf16>) -> tensor<?x12x8xbf16>
// CHECK-NEXT:   %t = coda.transpose %z {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<?x12x8xbf16>) -> tensor<?x8x12xbf16>
// CHECK-NEXT:   %n = coda.group_norm %t {groups = 2 : i64, eps = 1.000000e-05 : f64} : (tensor<?x8x12xbf16>) -> tensor<?x8x12xbf16>
// CHECK-NEXT:   func.return %n : tensor<?x8x12xbf16>
// CHECK-NEXT: }

// -----

// Kernels compute in float32.

func.func @float64(%x: tensor<?x8xf64>, %v: tensor<8x8xf64>) -> tensor<?x8xf64> {
  %z = coda.linear %x, %v : (tensor<?x8xf64>, tensor<8x8xf64>) -> tensor<?x8xf64>
  %n = coda.group_norm %z {groups = 2 : i64, eps = 1.0e-5 : f64} : (tensor<?x8xf64>) -> tensor<?x8xf64>
  func.return %n : tensor<?x8xf64>
}

// REMARK: remark[missed] split-group-norm: coda.group_norm: the norm runs as a library call: it computes in f64; failed condition: float32 can represent every value; costs 128*d0 bytes
// CHECK:      func.func @float64(
// CHECK-NEXT:   %z = coda.linear %x, %v : (tensor<?x8xf64>, tensor<8x8xf64>) -> tensor<?x8xf64>
// CHECK-NEXT:   %n = coda.group_norm %z {groups = 2 : i64, eps = 1.000000e-05 : f64} : (tensor<?x8xf64>) -> tensor<?x8xf64>
// CHECK-NEXT:   func.return %n : tensor<?x8xf64>
// CHECK-NEXT: }

// -----

// The number of channels is not known.

func.func @columns(%x: tensor<?x8xbf16>, %v: tensor<?x8xbf16>) -> tensor<?x?xbf16> {
  %z = coda.linear %x, %v : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x?xbf16>
  %n = coda.group_norm %z {groups = 2 : i64, eps = 1.0e-5 : f64} : (tensor<?x?xbf16>) -> tensor<?x?xbf16>
  func.return %n : tensor<?x?xbf16>
}

// REMARK: remark[missed] split-group-norm: coda.group_norm: the reduction runs as a separate kernel: %z has a symbolic number of columns; failed condition: the number of columns is static; costs 4*d0*d1 bytes
// REMARK: help: give the last dimension as a number or a const
// CHECK:      func.func @columns(
// CHECK-NEXT:   %z = coda.linear %x, %v : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x?xbf16>
// CHECK-NEXT:   %n = coda.group_norm %z {groups = 2 : i64, eps = 1.000000e-05 : f64} : (tensor<?x?xbf16>) -> tensor<?x?xbf16>
// CHECK-NEXT:   func.return %n : tensor<?x?xbf16>
// CHECK-NEXT: }

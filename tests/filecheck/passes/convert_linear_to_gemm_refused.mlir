// RUN: coda-opt %s -p convert-linear-to-gemm | filecheck %s
// RUN: coda-opt %s -p convert-linear-to-gemm --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// GEMMs accumulate in float32.

func.func @double(%x: tensor<?x8xf64>, %w: tensor<16x8xf64>) -> tensor<?x16xf64> {
  %z = coda.linear %x, %w : (tensor<?x8xf64>, tensor<16x8xf64>) -> tensor<?x16xf64>
  func.return %z : tensor<?x16xf64>
}

// REMARK: remark[missed] convert-linear-to-gemm: coda.linear: %x has element type f64; failed condition: float32 holds every value;
// REMARK: help: use f32, or the reference target
// CHECK:      func.func @double(
// CHECK-NEXT:   %z = coda.linear %x, %w : (tensor<?x8xf64>, tensor<16x8xf64>) -> tensor<?x16xf64>
// CHECK-NEXT:   func.return %z : tensor<?x16xf64>

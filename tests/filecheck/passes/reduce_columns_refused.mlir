// RUN: coda-opt %s -p reduce-columns --split-input-file | filecheck %s
// RUN: coda-opt %s -p reduce-columns --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// The number of columns is symbolic.

func.func @symbolic(%x: tensor<4x?xbf16> {coda.dims = [4 : i64, "N"]}) -> tensor<?x1xbf16> {
  %t = coda.transpose %x {perm = [1 : i64, 0 : i64]} : (tensor<4x?xbf16>) -> tensor<?x4xbf16>
  %largest = coda.reduce %t {kind = "max"} : (tensor<?x4xbf16>) -> tensor<?x1xbf16>
  func.return %largest : tensor<?x1xbf16>
}

// REMARK: remark[missed] reduce-columns: coda.reduce: the reduction runs as a separate kernel: %x has a symbolic number of columns; failed condition: the number of columns is static; costs 10*N bytes
// CHECK:      func.func @symbolic(
// CHECK-NEXT: }

// -----

// What is transposed is computed from two tensors, of which none alone gives the maxima.

func.func @sum(%x: tensor<4x8xbf16>, %y: tensor<8x4xbf16>) -> tensor<8x1xbf16> {
  %t = coda.transpose %x {perm = [1 : i64, 0 : i64]} : (tensor<4x8xbf16>) -> tensor<8x4xbf16>
  %z = coda.add %t, %y : (tensor<8x4xbf16>, tensor<8x4xbf16>) -> tensor<8x4xbf16>
  %largest = coda.reduce %z {kind = "max"} : (tensor<8x4xbf16>) -> tensor<8x1xbf16>
  func.return %largest : tensor<8x1xbf16>
}

// CHECK:      func.func @sum(
// CHECK-NEXT: }

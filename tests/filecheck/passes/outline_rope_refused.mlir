// RUN: coda-opt %s -p outline-rope --split-input-file | filecheck %s

// Nothing else reads the operand: nothing would be saved.

func.func @alone(%x: tensor<?x16xbf16>, %cos: tensor<?x4xf32>, %sin: tensor<?x4xf32>) -> tensor<?x16xbf16> {
  %y = coda.rope %x, %cos, %sin {head_dim = 8 : i64, layout = "half_split"} : (tensor<?x16xbf16>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x16xbf16>
  func.return %y : tensor<?x16xbf16>
}

// CHECK:      func.func @alone(
// CHECK-NEXT:   %y = coda.rope %x, %cos, %sin {head_dim = 8 : i64, layout = "half_split"} : (tensor<?x16xbf16>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %y : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// Float32 does not hold the elements.

func.func @float64(%x: tensor<?x16xf64>, %cos: tensor<?x4xf64>, %sin: tensor<?x4xf64>) -> (tensor<?x16xf64>, tensor<?x16xf64>) {
  %y = coda.rope %x, %cos, %sin {head_dim = 8 : i64, layout = "half_split"} : (tensor<?x16xf64>, tensor<?x4xf64>, tensor<?x4xf64>) -> tensor<?x16xf64>
  %p = coda.exp %x : (tensor<?x16xf64>) -> tensor<?x16xf64>
  func.return %y, %p : tensor<?x16xf64>, tensor<?x16xf64>
}

// CHECK:      func.func @float64(
// CHECK-NEXT:   %y = coda.rope %x, %cos, %sin {head_dim = 8 : i64, layout = "half_split"} : (tensor<?x16xf64>, tensor<?x4xf64>, tensor<?x4xf64>) -> tensor<?x16xf64>
// CHECK-NEXT:   %p = coda.exp %x : (tensor<?x16xf64>) -> tensor<?x16xf64>
// CHECK-NEXT:   func.return %y, %p : tensor<?x16xf64>, tensor<?x16xf64>
// CHECK-NEXT: }

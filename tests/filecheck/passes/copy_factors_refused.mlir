// RUN: coda-opt %s -p copy-factors --split-input-file | filecheck %s
// RUN: coda-opt %s -p copy-factors --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// One product reads the factor.

func.func @once(%q: tensor<2x3x2x5x8xf32>, %x: tensor<2x3x4x2x8xf32>) -> tensor<2x3x2x5x4xf32> {
  %t = coda.transpose %x {perm = [0 : i64, 1 : i64, 3 : i64, 4 : i64, 2 : i64]} : (tensor<2x3x4x2x8xf32>) -> tensor<2x3x2x8x4xf32>
  %y = torch.call "aten.matmul.default"(%q, %t) {arguments = "{0}, {1}"} : (tensor<2x3x2x5x8xf32>, tensor<2x3x2x8x4xf32>) -> tensor<2x3x2x5x4xf32>
  func.return %y : tensor<2x3x2x5x4xf32>
}

// CHECK:      func.func @once(%q: tensor<2x3x2x5x8xf32>, %x: tensor<2x3x4x2x8xf32>) -> tensor<2x3x2x5x4xf32> {
// CHECK-NEXT:   %t = coda.transpose %x {perm = [0 : i64, 1 : i64, 3 : i64, 4 : i64, 2 : i64]} : (tensor<2x3x4x2x8xf32>) -> tensor<2x3x2x8x4xf32>
// CHECK-NEXT:   %y = torch.call "aten.matmul.default"(%q, %t) {arguments = "{0}, {1}"} : (tensor<2x3x2x5x8xf32>, tensor<2x3x2x8x4xf32>) -> tensor<2x3x2x5x4xf32>
// CHECK-NEXT:   func.return %y : tensor<2x3x2x5x4xf32>
// CHECK-NEXT: }

// REMARK: remark[missed] copy-factors: torch.call: copied by the only product that reads it; failed condition: several products read the same batches of matrices, or their transposes; costs 4416 bytes

// RUN: coda-opt %s -p copy-factors --split-input-file | filecheck %s
// RUN: coda-opt %s -p copy-factors --split-input-file --remarks=passed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// Keys of scores, and their gradient: one copy, and its transpose.

func.func @scores(%q: tensor<2x2x2x5x4xf32>, %d_y: tensor<2x2x2x5x4xf32>, %x: tensor<2x2x4x2x4xf32>) -> (tensor<2x2x2x5x4xf32>, tensor<2x2x2x5x4xf32>) {
  %t = coda.transpose %x {perm = [0 : i64, 3 : i64, 1 : i64, 4 : i64, 2 : i64]} : (tensor<2x2x4x2x4xf32>) -> tensor<2x2x2x4x4xf32>
  %k = coda.transpose %x {perm = [0 : i64, 3 : i64, 1 : i64, 2 : i64, 4 : i64]} : (tensor<2x2x4x2x4xf32>) -> tensor<2x2x2x4x4xf32>
  %y = torch.call "aten.matmul.default"(%q, %t) {arguments = "{0}, {1}"} : (tensor<2x2x2x5x4xf32>, tensor<2x2x2x4x4xf32>) -> tensor<2x2x2x5x4xf32>
  %z = torch.call "aten.matmul.default"(%d_y, %k) {arguments = "{0}, {1}"} : (tensor<2x2x2x5x4xf32>, tensor<2x2x2x4x4xf32>) -> tensor<2x2x2x5x4xf32>
  func.return %y, %z : tensor<2x2x2x5x4xf32>, tensor<2x2x2x5x4xf32>
}

// CHECK:      func.func @scores(%q: tensor<2x2x2x5x4xf32>, %d_y: tensor<2x2x2x5x4xf32>, %x: tensor<2x2x4x2x4xf32>) -> (tensor<2x2x2x5x4xf32>, tensor<2x2x2x5x4xf32>) {
// CHECK-NEXT:   %t = coda.transpose %x {perm = [0 : i64, 3 : i64, 1 : i64, 4 : i64, 2 : i64]} : (tensor<2x2x4x2x4xf32>) -> tensor<2x2x2x4x4xf32>
// CHECK-NEXT:   %k = coda.transpose %x {perm = [0 : i64, 3 : i64, 1 : i64, 2 : i64, 4 : i64]} : (tensor<2x2x4x2x4xf32>) -> tensor<2x2x2x4x4xf32>
// CHECK-NEXT:   %t_1 = coda.transpose %x {perm = [0 : i64, 3 : i64, 1 : i64, 2 : i64, 4 : i64]} : (tensor<2x2x4x2x4xf32>) -> tensor<2x2x2x4x4xf32>
// CHECK-NEXT:   %t_2 = torch.call "aten.clone.default"(%t_1) {coda.dims = [2 : i64, 2 : i64, 2 : i64, 4 : i64, 4 : i64], arguments = "{0}, memory_format=torch.contiguous_format"} : (tensor<2x2x2x4x4xf32>) -> tensor<2x2x2x4x4xf32>
// CHECK-NEXT:   %t_3 = coda.transpose %t_2 {perm = [0 : i64, 1 : i64, 2 : i64, 4 : i64, 3 : i64]} : (tensor<2x2x2x4x4xf32>) -> tensor<2x2x2x4x4xf32>
// CHECK-NEXT:   %y = torch.call "aten.matmul.default"(%q, %t_3) {arguments = "{0}, {1}"} : (tensor<2x2x2x5x4xf32>, tensor<2x2x2x4x4xf32>) -> tensor<2x2x2x5x4xf32>
// CHECK-NEXT:   %z = torch.call "aten.matmul.default"(%d_y, %t_2) {arguments = "{0}, {1}"} : (tensor<2x2x2x5x4xf32>, tensor<2x2x2x4x4xf32>) -> tensor<2x2x2x5x4xf32>
// CHECK-NEXT:   func.return %y, %z : tensor<2x2x2x5x4xf32>, tensor<2x2x2x5x4xf32>
// CHECK-NEXT: }

// REMARK: remark[passed] copy-factors: torch.call: 2 products share a copy

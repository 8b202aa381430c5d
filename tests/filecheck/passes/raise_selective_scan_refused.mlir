// RUN: coda-opt %s -p raise-selective-scan --split-input-file | filecheck %s
// RUN: coda-opt %s -p raise-selective-scan --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// States that are read elsewhere, another decay, and types that no kernel has.

func.func @first_state(%u: tensor<5x2x3x1xf32>, %dt: tensor<5x2x3x1xf32>, %a: tensor<1x1x3x4xf32>, %b: tensor<5x2x1x4xf32>, %c: tensor<2x5x4x1xf32>) -> (tensor<2x5x3x1xf32>, tensor<1x2x3x4xf32>) {
  %rate = coda.mul %dt, %a : (tensor<5x2x3x1xf32>, tensor<1x1x3x4xf32>) -> tensor<5x2x3x4xf32>
  %decay = coda.exp %rate : (tensor<5x2x3x4xf32>) -> tensor<5x2x3x4xf32>
  %db = coda.mul %dt, %b : (tensor<5x2x3x1xf32>, tensor<5x2x1x4xf32>) -> tensor<5x2x3x4xf32>
  %x = coda.mul %db, %u : (tensor<5x2x3x4xf32>, tensor<5x2x3x1xf32>) -> tensor<5x2x3x4xf32>
  %h = torch.linear_scan %decay, %x : (tensor<5x2x3x4xf32>, tensor<5x2x3x4xf32>) -> tensor<5x2x3x4xf32>
  %ht = coda.transpose %h {perm = [1 : i64, 0 : i64, 2 : i64, 3 : i64]} : (tensor<5x2x3x4xf32>) -> tensor<2x5x3x4xf32>
  %y = torch.call "aten.matmul.default"(%ht, %c) {arguments = "{0}, {1}"} : (tensor<2x5x3x4xf32>, tensor<2x5x4x1xf32>) -> tensor<2x5x3x1xf32>
  %first = coda.slice %h {dim = 0 : i64, start = 0 : i64, stop = 1 : i64} : (tensor<5x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  func.return %y, %first : tensor<2x5x3x1xf32>, tensor<1x2x3x4xf32>
}

// CHECK:      func.func @first_state(%u: tensor<5x2x3x1xf32>, %dt: tensor<5x2x3x1xf32>, %a: tensor<1x1x3x4xf32>, %b: tensor<5x2x1x4xf32>, %c: tensor<2x5x4x1xf32>) -> (tensor<2x5x3x1xf32>, tensor<1x2x3x4xf32>) {
// CHECK-NEXT:   %rate = coda.mul %dt, %a : (tensor<5x2x3x1xf32>, tensor<1x1x3x4xf32>) -> tensor<5x2x3x4xf32>
// CHECK-NEXT:   %decay = coda.exp %rate : (tensor<5x2x3x4xf32>) -> tensor<5x2x3x4xf32>
// CHECK-NEXT:   %db = coda.mul %dt, %b : (tensor<5x2x3x1xf32>, tensor<5x2x1x4xf32>) -> tensor<5x2x3x4xf32>
// CHECK-NEXT:   %x = coda.mul %db, %u : (tensor<5x2x3x4xf32>, tensor<5x2x3x1xf32>) -> tensor<5x2x3x4xf32>
// CHECK-NEXT:   %h = torch.linear_scan %decay, %x : (tensor<5x2x3x4xf32>, tensor<5x2x3x4xf32>) -> tensor<5x2x3x4xf32>
// CHECK-NEXT:   %ht = coda.transpose %h {perm = [1 : i64, 0 : i64, 2 : i64, 3 : i64]} : (tensor<5x2x3x4xf32>) -> tensor<2x5x3x4xf32>
// CHECK-NEXT:   %y = torch.call "aten.matmul.default"(%ht, %c) {arguments = "{0}, {1}"} : (tensor<2x5x3x4xf32>, tensor<2x5x4x1xf32>) -> tensor<2x5x3x1xf32>
// CHECK-NEXT:   %first = coda.slice %h {dim = 0 : i64, start = 0 : i64, stop = 1 : i64} : (tensor<5x2x3x4xf32>) -> tensor<1x2x3x4xf32>
// CHECK-NEXT:   func.return %y, %first : tensor<2x5x3x1xf32>, tensor<1x2x3x4xf32>
// CHECK-NEXT: }

// REMARK: remark[missed] raise-selective-scan: torch.linear_scan: other operators read the states; failed condition: the states are read by one product with a vector for each position

// -----

func.func @sigmoid(%u: tensor<5x2x3x1xf32>, %dt: tensor<5x2x3x1xf32>, %a: tensor<1x1x3x4xf32>, %b: tensor<5x2x1x4xf32>, %c: tensor<2x5x4x1xf32>) -> (tensor<2x5x3x1xf32>) {
  %rate = coda.mul %dt, %a : (tensor<5x2x3x1xf32>, tensor<1x1x3x4xf32>) -> tensor<5x2x3x4xf32>
  %decay = coda.sigmoid %rate : (tensor<5x2x3x4xf32>) -> tensor<5x2x3x4xf32>
  %db = coda.mul %dt, %b : (tensor<5x2x3x1xf32>, tensor<5x2x1x4xf32>) -> tensor<5x2x3x4xf32>
  %x = coda.mul %db, %u : (tensor<5x2x3x4xf32>, tensor<5x2x3x1xf32>) -> tensor<5x2x3x4xf32>
  %h = torch.linear_scan %decay, %x : (tensor<5x2x3x4xf32>, tensor<5x2x3x4xf32>) -> tensor<5x2x3x4xf32>
  %ht = coda.transpose %h {perm = [1 : i64, 0 : i64, 2 : i64, 3 : i64]} : (tensor<5x2x3x4xf32>) -> tensor<2x5x3x4xf32>
  %y = torch.call "aten.matmul.default"(%ht, %c) {arguments = "{0}, {1}"} : (tensor<2x5x3x4xf32>, tensor<2x5x4x1xf32>) -> tensor<2x5x3x1xf32>
  func.return %y : tensor<2x5x3x1xf32>
}

// CHECK:      func.func @sigmoid(%u: tensor<5x2x3x1xf32>, %dt: tensor<5x2x3x1xf32>, %a: tensor<1x1x3x4xf32>, %b: tensor<5x2x1x4xf32>, %c: tensor<2x5x4x1xf32>) -> tensor<2x5x3x1xf32> {
// CHECK-NEXT:   %rate = coda.mul %dt, %a : (tensor<5x2x3x1xf32>, tensor<1x1x3x4xf32>) -> tensor<5x2x3x4xf32>
// CHECK-NEXT:   %decay = coda.sigmoid %rate : (tensor<5x2x3x4xf32>) -> tensor<5x2x3x4xf32>
// CHECK-NEXT:   %db = coda.mul %dt, %b : (tensor<5x2x3x1xf32>, tensor<5x2x1x4xf32>) -> tensor<5x2x3x4xf32>
// CHECK-NEXT:   %x = coda.mul %db, %u : (tensor<5x2x3x4xf32>, tensor<5x2x3x1xf32>) -> tensor<5x2x3x4xf32>
// CHECK-NEXT:   %h = torch.linear_scan %decay, %x : (tensor<5x2x3x4xf32>, tensor<5x2x3x4xf32>) -> tensor<5x2x3x4xf32>
// CHECK-NEXT:   %ht = coda.transpose %h {perm = [1 : i64, 0 : i64, 2 : i64, 3 : i64]} : (tensor<5x2x3x4xf32>) -> tensor<2x5x3x4xf32>
// CHECK-NEXT:   %y = torch.call "aten.matmul.default"(%ht, %c) {arguments = "{0}, {1}"} : (tensor<2x5x3x4xf32>, tensor<2x5x4x1xf32>) -> tensor<2x5x3x1xf32>
// CHECK-NEXT:   func.return %y : tensor<2x5x3x1xf32>
// CHECK-NEXT: }

// REMARK: remark[missed] raise-selective-scan: torch.linear_scan: they are computed in another way; failed condition: the states decay by exp(dt · a) and take dt · b · u, with a of channels and states

// -----

func.func @float64(%u: tensor<5x2x3x1xf64>, %dt: tensor<5x2x3x1xf64>, %a: tensor<1x1x3x4xf64>, %b: tensor<5x2x1x4xf64>, %c: tensor<2x5x4x1xf64>) -> (tensor<2x5x3x1xf64>) {
  %rate = coda.mul %dt, %a : (tensor<5x2x3x1xf64>, tensor<1x1x3x4xf64>) -> tensor<5x2x3x4xf64>
  %decay = coda.exp %rate : (tensor<5x2x3x4xf64>) -> tensor<5x2x3x4xf64>
  %db = coda.mul %dt, %b : (tensor<5x2x3x1xf64>, tensor<5x2x1x4xf64>) -> tensor<5x2x3x4xf64>
  %x = coda.mul %db, %u : (tensor<5x2x3x4xf64>, tensor<5x2x3x1xf64>) -> tensor<5x2x3x4xf64>
  %h = torch.linear_scan %decay, %x : (tensor<5x2x3x4xf64>, tensor<5x2x3x4xf64>) -> tensor<5x2x3x4xf64>
  %ht = coda.transpose %h {perm = [1 : i64, 0 : i64, 2 : i64, 3 : i64]} : (tensor<5x2x3x4xf64>) -> tensor<2x5x3x4xf64>
  %y = torch.call "aten.matmul.default"(%ht, %c) {arguments = "{0}, {1}"} : (tensor<2x5x3x4xf64>, tensor<2x5x4x1xf64>) -> tensor<2x5x3x1xf64>
  func.return %y : tensor<2x5x3x1xf64>
}

// CHECK:      func.func @float64(%u: tensor<5x2x3x1xf64>, %dt: tensor<5x2x3x1xf64>, %a: tensor<1x1x3x4xf64>, %b: tensor<5x2x1x4xf64>, %c: tensor<2x5x4x1xf64>) -> tensor<2x5x3x1xf64> {
// CHECK-NEXT:   %rate = coda.mul %dt, %a : (tensor<5x2x3x1xf64>, tensor<1x1x3x4xf64>) -> tensor<5x2x3x4xf64>
// CHECK-NEXT:   %decay = coda.exp %rate : (tensor<5x2x3x4xf64>) -> tensor<5x2x3x4xf64>
// CHECK-NEXT:   %db = coda.mul %dt, %b : (tensor<5x2x3x1xf64>, tensor<5x2x1x4xf64>) -> tensor<5x2x3x4xf64>
// CHECK-NEXT:   %x = coda.mul %db, %u : (tensor<5x2x3x4xf64>, tensor<5x2x3x1xf64>) -> tensor<5x2x3x4xf64>
// CHECK-NEXT:   %h = torch.linear_scan %decay, %x : (tensor<5x2x3x4xf64>, tensor<5x2x3x4xf64>) -> tensor<5x2x3x4xf64>
// CHECK-NEXT:   %ht = coda.transpose %h {perm = [1 : i64, 0 : i64, 2 : i64, 3 : i64]} : (tensor<5x2x3x4xf64>) -> tensor<2x5x3x4xf64>
// CHECK-NEXT:   %y = torch.call "aten.matmul.default"(%ht, %c) {arguments = "{0}, {1}"} : (tensor<2x5x3x4xf64>, tensor<2x5x4x1xf64>) -> tensor<2x5x3x1xf64>
// CHECK-NEXT:   func.return %y : tensor<2x5x3x1xf64>
// CHECK-NEXT: }

// REMARK: remark[missed] raise-selective-scan: torch.linear_scan: different element types, or too many states; failed condition: u, b, c and the result have one element type of at most 32 bits, with at most 256 states of each channel

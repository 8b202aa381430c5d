// RUN: coda-opt %s -p convert-float64-to-torch --split-input-file | filecheck %s

// What has no float64 stays, also where its attributes are of type f64.

func.func @narrow(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %n = coda.rms_norm %x {eps = 1.0e-6 : f64} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  func.return %n : tensor<?x8xf32>
}

// CHECK:      func.func @narrow(
// CHECK-NEXT:   %n = coda.rms_norm %x

// -----

// Views stay, which PyTorch runs in any case, and so do what PyTorch has no single operator for.

func.func @views_and_groups(%x: tensor<?x16xf64>) -> (tensor<?x8xf64>, tensor<?x16xf64>) {
  %a = coda.slice %x {dim = 1 : i64, start = 0 : i64, stop = 8 : i64} : (tensor<?x16xf64>) -> tensor<?x8xf64>
  %n = coda.rms_norm %x {eps = 1.0e-6 : f64, group = 4 : i64} : (tensor<?x16xf64>) -> tensor<?x16xf64>
  func.return %a, %n : tensor<?x8xf64>, tensor<?x16xf64>
}

// CHECK:      func.func @views_and_groups(
// CHECK-NEXT:   %a = coda.slice %x
// CHECK-NEXT:   %n = coda.rms_norm %x

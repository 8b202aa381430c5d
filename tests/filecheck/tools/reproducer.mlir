// RUN: coda-opt --run-reproducer %s | filecheck %s
// RUN: coda-opt %s | filecheck %s --check-prefix PLAIN

// A reproducer is run with what is written in it, and is IR as any other.
// configuration: '--passes=builtin.module(func.func(dce))' --frontend=mlir --no-verify-each

// CHECK-NOT: coda.relu
// CHECK: func.return %x
// PLAIN: coda.relu
func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = coda.relu %x : (tensor<8xf32>) -> tensor<8xf32>
  func.return %x : tensor<8xf32>
}

// RUN: coda-opt %s -p derive-gradient{wrt=x},canonicalize,dce | filecheck %s
// RUN: coda-opt %s -p derive-gradient --remarks -o /dev/null 2>&1 | filecheck %s --check-prefix REMARK
// RUN: coda-opt %s -p derive-gradient{wrt=w,cos},canonicalize,dce 2>&1 | filecheck %s --check-prefix ZERO
// RUN: coda-opt %s -p derive-gradient{wrt=sin},canonicalize,dce 2>&1 | filecheck %s --check-prefix TABLE
// RUN: not coda-opt %s -p derive-gradient{wrt=i} 2>&1 | filecheck %s --check-prefix INTEGER
// RUN: not coda-opt %s -p derive-gradient{function=g} 2>&1 | filecheck %s --check-prefix FUNCTION

// A frozen weight costs nothing: there is no weight gradient, and nothing that only it needs.
// CHECK:      func.func private @f_joint(
// CHECK-SAME: wrt = ["x"]
// CHECK-NEXT: %z = coda.linear %x, %w
// CHECK-NEXT: %y = coda.rope %z, %sin, %sin
// CHECK-NEXT: %d_z = coda.rope %d_y, %sin, %sin {head_dim = 8 : i64, layout = "half_split", transposed}
// CHECK-NEXT: %d_x = coda.matmul %d_z, %w
// CHECK-NEXT: func.return %y, %i, %d_x :

// REMARK: remark[analysis] derive-gradient: f: cos, sin are treated as constants: no gradient is derived

// What nothing depends on has a gradient of zeros where it is asked for.
// ZERO:      %d_w = coda.weight_gradient %d_z, %x
// ZERO-NEXT: [[zero:%[0-9]+]] = coda.constant {value = 0.000000e+00 : f64} : tensor<f32>
// ZERO-NEXT: %d_cos = coda.broadcast [[zero]], %cos : (tensor<f32>, tensor<?x4xf32>) -> tensor<?x4xf32>

// The gradient of a table is derived where it is asked for.
// TABLE:      func.func private @f_joint(
// TABLE-SAME: wrt = ["sin"]
// TABLE-NEXT: %z = coda.linear %x, %w
// TABLE-NEXT: %y = coda.rope %z, %sin, %sin
// TABLE-NEXT: %0 = coda.mul %z, %d_y
// TABLE-NEXT: %1 = coda.reshape %0 : (tensor<?x8xf32>) -> tensor<?x1x1x2x4xf32>
// TABLE-NEXT: %2 = coda.sum_to %1 : (tensor<?x1x1x2x4xf32>) -> tensor<?x1x1x1x4xf32>
// TABLE:      %8 = coda.rope %z, %5, %7 {head_dim = 8 : i64, layout = "half_split"}
// TABLE-NEXT: %9 = coda.mul %8, %d_y
// TABLE:      %d_sin = coda.add %3, %12
// TABLE-NEXT: func.return %y, %i, %d_sin :

// INTEGER: pipeline:1:{{[0-9]+}}: error[E0703]: derive-gradient: unknown argument 'i': @f has x, w, cos, sin of a floating-point type
// INTEGER: help: name some of these
// FUNCTION: pipeline:1:{{[0-9]+}}: error[E0703]: derive-gradient: unknown function 'g': the module has f
// FUNCTION: help: pass one of them

func.func @f(%x: tensor<?x8xf32> {coda.name = "x"}, %w: tensor<8x8xf32> {coda.name = "w"}, %cos: tensor<?x4xf32> {coda.name = "cos"}, %sin: tensor<?x4xf32> {coda.name = "sin"}, %i: tensor<i64> {coda.name = "i"}) -> (tensor<?x8xf32> {coda.name = "y"}, tensor<i64>) {
  %z = coda.linear %x, %w : (tensor<?x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
  %y = coda.rope %z, %sin, %sin {head_dim = 8 : i64, layout = "half_split"} : (tensor<?x8xf32>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x8xf32>
  func.return %y, %i : tensor<?x8xf32>, tensor<i64>
}

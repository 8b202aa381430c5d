// RUN: coda-opt %s -p raise-activations,dce | filecheck %s

// Another constant than that of GELU, a gate of another value, a quarter, and no cube.

func.func @constants(%x: tensor<?x8xf32>, %v: tensor<?x8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>) {
  %half = coda.constant {value = 0.5 : f64} : tensor<f32>
  %quarter = coda.constant {value = 0.25 : f64} : tensor<f32>
  %c = coda.constant {value = 4.471500e-02 : f64} : tensor<f32>
  %other = coda.constant {value = 4.4e-02 : f64} : tensor<f32>
  %k = coda.constant {value = 0.79788456080286541 : f64} : tensor<f32>
  %one = coda.constant {value = 1.0 : f64} : tensor<f32>
  %a = coda.mul %x, %half : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  %x2 = coda.mul %x, %x : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %x3 = coda.mul %x2, %x : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %ox3 = coda.mul %x3, %other : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  %sum = coda.add %x, %ox3 : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %u = coda.mul %sum, %k : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  %t = coda.tanh %u : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %g = coda.add %t, %one : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  %y = coda.mul %a, %g : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %cx3 = coda.mul %x3, %c : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  %csum = coda.add %x, %cx3 : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %cu = coda.mul %csum, %k : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  %ct = coda.tanh %cu : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %cg = coda.add %ct, %one : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  %av = coda.mul %v, %half : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  %other_gate = coda.mul %av, %cg : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %aq = coda.mul %x, %quarter : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  %other_scale = coda.mul %aq, %cg : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %ku = coda.mul %x, %k : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  %kt = coda.tanh %ku : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %kg = coda.add %kt, %one : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  %linear = coda.mul %a, %kg : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  func.return %y, %other_gate, %other_scale, %linear : tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>
}

// CHECK-LABEL: func.func @constants(
// CHECK-NOT:     coda.gelu
// CHECK:         func.return

// Quick GELU, another operand, another sign, another square, another cap.

func.func @others(%x: tensor<?x8xf32>, %v: tensor<?x8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>) {
  %one = coda.constant {value = 1.0 : f64} : tensor<f32>
  %k = coda.constant {value = 1.702 : f64} : tensor<f32>
  %cap = coda.constant {value = 30.0 : f64} : tensor<f32>
  %kx = coda.mul %x, %k : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  %sk = coda.sigmoid %kx : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %quick = coda.mul %x, %sk : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %s = coda.sigmoid %x : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %gated = coda.mul %v, %s : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %e = coda.exp %x : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %d = coda.add %e, %one : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  %falling = coda.div %one, %d : (tensor<f32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %r = coda.relu %x : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %rv = coda.mul %r, %v : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %t = coda.tanh %kx : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %z = coda.mul %t, %cap : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  func.return %quick, %gated, %falling, %rv, %z : tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>
}

// CHECK-LABEL: func.func @others(
// CHECK-NOT:     coda.silu
// CHECK-NOT:     coda.relu2
// CHECK-NOT:     coda.softcap
// CHECK:         func.return

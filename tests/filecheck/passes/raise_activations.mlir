// RUN: coda-opt %s -p raise-elementwise,raise-activations,dce | filecheck %s

// GPT-2: half of x first, the cube by itself.

func.func @gelu_tanh(%x: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
  %half = coda.constant {value = 0.5 : f64} : tensor<bf16>
  %c = coda.constant {value = 4.471500e-02 : f64} : tensor<bf16>
  %k = coda.constant {value = 0.79788456080286541 : f64} : tensor<bf16>
  %one = coda.constant {value = 1.0 : f64} : tensor<bf16>
  %a = coda.mul %x, %half : (tensor<?x8xbf16>, tensor<bf16>) -> tensor<?x8xbf16>
  %x2 = coda.mul %x, %x : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %x3 = coda.mul %x2, %x : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %cx3 = coda.mul %x3, %c : (tensor<?x8xbf16>, tensor<bf16>) -> tensor<?x8xbf16>
  %sum = coda.add %x, %cx3 : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %u = coda.mul %sum, %k : (tensor<?x8xbf16>, tensor<bf16>) -> tensor<?x8xbf16>
  %t = coda.tanh %u : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %g = coda.add %t, %one : (tensor<?x8xbf16>, tensor<bf16>) -> tensor<?x8xbf16>
  %y = coda.mul %a, %g : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  func.return %y : tensor<?x8xbf16>
}

// CHECK-LABEL: func.func @gelu_tanh(
// CHECK-NEXT:    %y = coda.gelu_tanh %x
// CHECK-NEXT:    func.return %y

// Factored, and of a product, which stays whole.

func.func @gelu_factored(%p: tensor<?x8xf32>, %q: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %half = coda.constant {value = 0.5 : f64} : tensor<f32>
  %c = coda.constant {value = 4.471500e-02 : f64} : tensor<f32>
  %k = coda.constant {value = 0.79788456080286541 : f64} : tensor<f32>
  %one = coda.constant {value = 1.0 : f64} : tensor<f32>
  %x = coda.mul %p, %q : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %kx = coda.mul %k, %x : (tensor<f32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %cx = coda.mul %c, %x : (tensor<f32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %cx2 = coda.mul %cx, %x : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %f = coda.add %one, %cx2 : (tensor<f32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %u = coda.mul %kx, %f : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %t = coda.tanh %u : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %g = coda.add %one, %t : (tensor<f32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %xg = coda.mul %g, %x : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %y = coda.mul %xg, %half : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  func.return %y : tensor<?x8xf32>
}

// CHECK-LABEL: func.func @gelu_factored(
// CHECK-NEXT:    %x = coda.mul %p, %q
// CHECK-NEXT:    %y = coda.gelu_tanh %x
// CHECK-NEXT:    func.return %y

func.func @gelu_erf(%x: tensor<?x8xf32> {coda.dims = ["M", 8 : i64]}) -> tensor<?x8xf32> {
  %two = coda.constant {value = 2.0 : f64} : tensor<f32>
  %root = coda.constant {value = 1.4142135623730951 : f64} : tensor<f32>
  %one = coda.constant {value = 1.0 : f64} : tensor<f32>
  %u = coda.div %x, %root : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  %e = torch.call "aten.erf.default"(%u) {arguments = "{0}", coda.dims = ["M", 8 : i64]} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %g = coda.add %e, %one : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  %xg = coda.mul %x, %g : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %y = coda.div %xg, %two : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  func.return %y : tensor<?x8xf32>
}

// CHECK-LABEL: func.func @gelu_erf(
// CHECK-NEXT:    %y = coda.gelu %x
// CHECK-NEXT:    func.return %y

func.func @silu(%x: tensor<?x8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  %one = coda.constant {value = 1.0 : f64} : tensor<f32>
  %s = coda.sigmoid %x : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %y = coda.mul %s, %x : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %n = coda.neg %y : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %e = coda.exp %n : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %d = coda.add %e, %one : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  %z = coda.div %one, %d : (tensor<f32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %w = coda.div %y, %d : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  func.return %z, %w : tensor<?x8xf32>, tensor<?x8xf32>
}

// CHECK-LABEL: func.func @silu(
// CHECK-NEXT:    %y = coda.silu %x
// CHECK-NEXT:    %z = coda.sigmoid %y
// CHECK-NEXT:    %w = coda.silu %y
// CHECK-NEXT:    func.return %z, %w

func.func @relu2_and_softcap(%x: tensor<?x8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  %cap = coda.constant {value = 30.0 : f64} : tensor<f32>
  %scale = coda.constant {value = 0.25 : f64} : tensor<f32>
  %r = coda.relu %x : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %y = coda.mul %r, %r : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %scaled = coda.mul %x, %scale : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  %d = coda.div %scaled, %cap : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  %t = coda.tanh %d : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %z = coda.mul %t, %cap : (tensor<?x8xf32>, tensor<f32>) -> tensor<?x8xf32>
  func.return %y, %z : tensor<?x8xf32>, tensor<?x8xf32>
}

// CHECK-LABEL: func.func @relu2_and_softcap(
// CHECK-NEXT:    %scale = coda.constant
// CHECK-NEXT:    %y = coda.relu2 %x
// CHECK-NEXT:    %scaled = coda.mul %x, %scale
// CHECK-NEXT:    %z = coda.softcap %scaled {cap = 3.000000e+01 : f64}
// CHECK-NEXT:    func.return %y, %z

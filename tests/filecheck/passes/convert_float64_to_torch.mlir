// RUN: coda-opt %s -p convert-float64-to-torch --split-input-file | filecheck %s

// Tables of angles: each operator on float64 is a call of PyTorch, and what reads them is not.

func.func @tables(%i: tensor<?xf64> {coda.dims = ["T"]}, %x: tensor<?x8xf32> {coda.dims = ["T", 8]}) -> tensor<?x8xf32> {
  %n = coda.constant {value = 10000 : i64} : tensor<f64>
  %a = coda.div %i, %n : (tensor<?xf64>, tensor<f64>) -> tensor<?xf64>
  %b = coda.reshape %a {coda.dims = ["T", 1]} : (tensor<?xf64>) -> tensor<?x1xf64>
  %c = coda.cast %b : (tensor<?x1xf64>) -> tensor<?x1xf32>
  %y = coda.mul %x, %c : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
  func.return %y : tensor<?x8xf32>
}

// CHECK:      func.func @tables(
// CHECK-NEXT:   %n = coda.constant {value = 10000 : i64} : tensor<f64>
// CHECK-NEXT:   %a = torch.call "aten.div.Tensor"(%i) {coda.dims = ["T"], arguments = "{0}, 10000"} : (tensor<?xf64>) -> tensor<?xf64>
// CHECK-NEXT:   %b = coda.reshape %a
// CHECK-NEXT:   %c = torch.call "aten._to_copy.default"(%b) {coda.dims = ["T", 1 : i64], arguments = "{0}, dtype=torch.float32"} : (tensor<?x1xf64>) -> tensor<?x1xf32>
// CHECK-NEXT:   %y = coda.mul %x, %c : (tensor<?x8xf32>, tensor<?x1xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   func.return %y : tensor<?x8xf32>
// CHECK-NEXT: }

// -----

// Elementwise operators that PyTorch has, and those that are several of its own.

func.func @elementwise(%x: tensor<?x8xf64>) -> (tensor<?x8xf64>, tensor<?x8xf64>, tensor<?x8xf64>, tensor<?x8xf64>) {
  %g = coda.gelu_tanh %x : (tensor<?x8xf64>) -> tensor<?x8xf64>
  %r = coda.relu2 %x : (tensor<?x8xf64>) -> tensor<?x8xf64>
  %c = coda.softcap %x {cap = 30.0 : f64} : (tensor<?x8xf64>) -> tensor<?x8xf64>
  %m = coda.maximum %x, %g : (tensor<?x8xf64>, tensor<?x8xf64>) -> tensor<?x8xf64>
  func.return %g, %r, %c, %m : tensor<?x8xf64>, tensor<?x8xf64>, tensor<?x8xf64>, tensor<?x8xf64>
}

// CHECK:      func.func @elementwise(
// CHECK-NEXT:   %g = torch.call "aten.gelu.default"(%x) {{.*}}arguments = "{0}, approximate='tanh'"
// CHECK-NEXT:   %[[P:.*]] = torch.call "aten.relu.default"(%x)
// CHECK-NEXT:   %r = torch.call "aten.mul.Tensor"(%[[P]])
// CHECK-NEXT:   %[[D:.*]] = torch.call "aten.div.Tensor"(%x) {{.*}}arguments = "{0}, 30.0"
// CHECK-NEXT:   %[[T:.*]] = torch.call "aten.tanh.default"(%[[D]])
// CHECK-NEXT:   %c = torch.call "aten.mul.Tensor"(%[[T]]) {{.*}}arguments = "{0}, 30.0"
// CHECK-NEXT:   %m = torch.call "aten.maximum.default"(%x, %g)
// CHECK-NEXT:   func.return %g, %r, %c, %m

// -----

// Norms, products, reductions and softmax.

func.func @rows(%x: tensor<?x8xf64>, %w: tensor<8xf64>, %v: tensor<16x8xf64>, %z: tensor<?x8xf32>) -> (tensor<?x16xf64>, tensor<?x8xf64>, tensor<?x1xf32>, tensor<?x1xf64>) {
  %n = coda.rms_norm %x, %w {eps = 1.0e-6 : f64} : (tensor<?x8xf64>, tensor<8xf64>) -> tensor<?x8xf64>
  %l = coda.layer_norm %n, %w {eps = 1.0e-5 : f64} : (tensor<?x8xf64>, tensor<8xf64>) -> tensor<?x8xf64>
  %y = coda.linear %l, %v : (tensor<?x8xf64>, tensor<16x8xf64>) -> tensor<?x16xf64>
  %s = coda.softmax %x : (tensor<?x8xf64>) -> tensor<?x8xf64>
  %a = coda.reduce %x {kind = "mean"} : (tensor<?x8xf64>) -> tensor<?x1xf32>
  %b = coda.reduce %z {kind = "sum"} : (tensor<?x8xf32>) -> tensor<?x1xf64>
  func.return %y, %s, %a, %b : tensor<?x16xf64>, tensor<?x8xf64>, tensor<?x1xf32>, tensor<?x1xf64>
}

// CHECK:      func.func @rows(
// CHECK-NEXT:   %n = torch.call "aten.rms_norm.default"(%x, %w) {{.*}}arguments = "{0}, [8], {1}, 1e-06"
// CHECK-NEXT:   %l = torch.call "aten.layer_norm.default"(%n, %w) {{.*}}arguments = "{0}, [8], {1}, None, 1e-05"
// CHECK-NEXT:   %y = torch.call "aten.linear.default"(%l, %v)
// CHECK-NEXT:   %s = torch.call "aten.softmax.int"(%x) {{.*}}arguments = "{0}, -1"
// CHECK-NEXT:   %[[A:.*]] = torch.call "aten.mean.dim"(%x) {{.*}}arguments = "{0}, [-1], True"{{.*}} -> tensor<?x1xf64>
// CHECK-NEXT:   %a = torch.call "aten._to_copy.default"(%[[A]]) {{.*}}arguments = "{0}, dtype=torch.float32"
// CHECK-NEXT:   %[[Z:.*]] = torch.call "aten._to_copy.default"(%z) {{.*}}arguments = "{0}, dtype=torch.float64"
// CHECK-NEXT:   %b = torch.call "aten.sum.dim_IntList"(%[[Z]])
// CHECK-NEXT:   func.return %y, %s, %a, %b

// -----

// PyTorch's norms take no parameters of each sample.

func.func @modulated(%x: tensor<?x?x8xf64>, %s: tensor<?x1x8xf64>, %t: tensor<?x1x8xf64>) -> tensor<?x?x8xf64> {
  %h = coda.layer_norm %x, %s, %t {eps = 1.0e-6 : f64} : (tensor<?x?x8xf64>, tensor<?x1x8xf64>, tensor<?x1x8xf64>) -> tensor<?x?x8xf64>
  func.return %h : tensor<?x?x8xf64>
}

// CHECK:      func.func @modulated(
// CHECK-NEXT:   %0 = torch.call "aten.layer_norm.default"(%x) {arguments = "{0}, [8], None, None, 1e-06"} : (tensor<?x?x8xf64>) -> tensor<?x?x8xf64>
// CHECK-NEXT:   %1 = torch.call "aten.mul.Tensor"(%0, %s) {arguments = "{0}, {1}"} : (tensor<?x?x8xf64>, tensor<?x1x8xf64>) -> tensor<?x?x8xf64>
// CHECK-NEXT:   %h = torch.call "aten.add.Tensor"(%1, %t) {arguments = "{0}, {1}"} : (tensor<?x?x8xf64>, tensor<?x1x8xf64>) -> tensor<?x?x8xf64>
// CHECK-NEXT:   func.return %h : tensor<?x?x8xf64>
// CHECK-NEXT: }

// RUN: coda-opt %s -p outline-programs --split-input-file | filecheck %s
// RUN: coda-opt %s -p outline-programs,outline-programs --split-input-file | filecheck %s

// Two programs around pointwise code that no GEMM takes. Each of the three has its own constant, and
// each program its own views of the weight.

func.func @two(%x: tensor<?x4x8xf32> {coda.dims = ["B", 4, 8]}, %w: tensor<2x8x8xf32>, %m: tensor<?x1x8xf32> {coda.dims = ["B", 1, 8]}) -> (tensor<?x4x8xf32> {coda.dims = ["B", 4, 8]}) {
  %s = coda.constant {value = 2.0 : f64} : tensor<f32>
  %w0 = coda.reshape %w : (tensor<2x8x8xf32>) -> tensor<16x8xf32>
  %w1 = coda.slice %w0 {dim = 0 : i64, start = 0 : i64, stop = 8 : i64} : (tensor<16x8xf32>) -> tensor<8x8xf32>
  %h = gemm.fused %x : tensor<?x4x8xf32>
    columns(%w1 : tensor<8x8xf32>) scalar(%s : tensor<f32>)
      -> (tile : tensor<?x4x8xf32>) {
    ^bb0(%acc: f32, %s_1: f32):
      %a = arith.mulf %acc, %s_1 : f32
      gemm.yield %a : f32
    }
  %g = coda.add %h, %m : (tensor<?x4x8xf32>, tensor<?x1x8xf32>) -> tensor<?x4x8xf32>
  %y = gemm.fused %g : tensor<?x4x8xf32>
    columns(%w1 : tensor<8x8xf32>) tile(%x : tensor<?x4x8xf32>) scalar(%s : tensor<f32>)
      -> (tile : tensor<?x4x8xf32>) {
    ^bb0(%acc: f32, %x_1: f32, %s_1: f32):
      %a = arith.addf %acc, %x_1 : f32
      %b = arith.mulf %a, %s_1 : f32
      gemm.yield %b : f32
    }
  %z = coda.mul %y, %s : (tensor<?x4x8xf32>, tensor<f32>) -> tensor<?x4x8xf32>
  func.return %z : tensor<?x4x8xf32>
}

// CHECK:      func.func @two(%x: tensor<?x4x8xf32> {coda.dims = ["B", 4 : i64, 8 : i64]}, %w: tensor<2x8x8xf32>, %m: tensor<?x1x8xf32> {coda.dims = ["B", 1 : i64, 8 : i64]}) -> (tensor<?x4x8xf32> {coda.dims = ["B", 4 : i64, 8 : i64]}) {
// CHECK-NEXT:   %s = coda.constant {value = 2.000000e+00 : f64} : tensor<f32>
// CHECK-NEXT:   %h = func.call @two_program(%w, %x) {coda.dims = ["B", 4 : i64, 8 : i64]} : (tensor<2x8x8xf32>, tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
// CHECK-NEXT:   %g = coda.add %h, %m : (tensor<?x4x8xf32>, tensor<?x1x8xf32>) -> tensor<?x4x8xf32>
// CHECK-NEXT:   %y = func.call @two_program_1(%w, %g, %x) {coda.dims = ["B", 4 : i64, 8 : i64]} : (tensor<2x8x8xf32>, tensor<?x4x8xf32>, tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
// CHECK-NEXT:   %z = coda.mul %y, %s : (tensor<?x4x8xf32>, tensor<f32>) -> tensor<?x4x8xf32>
// CHECK-NEXT:   func.return %z : tensor<?x4x8xf32>
// CHECK-NEXT: }
// CHECK-NEXT: func.func private @two_program(%w: tensor<2x8x8xf32> {coda.name = "w", coda.dims = [2 : i64, 8 : i64, 8 : i64]}, %x: tensor<?x4x8xf32> {coda.name = "x", coda.dims = ["B", 4 : i64, 8 : i64]}) -> (tensor<?x4x8xf32> {coda.dims = ["B", 4 : i64, 8 : i64]}) {
// CHECK-NEXT:   %s = coda.constant {value = 2.000000e+00 : f64} : tensor<f32>
// CHECK-NEXT:   %w0 = coda.reshape %w : (tensor<2x8x8xf32>) -> tensor<16x8xf32>
// CHECK-NEXT:   %w1 = coda.slice %w0 {dim = 0 : i64, start = 0 : i64, stop = 8 : i64} : (tensor<16x8xf32>) -> tensor<8x8xf32>
// CHECK-NEXT:   %h = gemm.fused %x : tensor<?x4x8xf32>
// CHECK-NEXT:     columns(%w1 : tensor<8x8xf32>) scalar(%s : tensor<f32>)
// CHECK-NEXT:       -> (tile : tensor<?x4x8xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %s_1: f32):
// CHECK-NEXT:       %a = arith.mulf %acc, %s_1 : f32
// CHECK-NEXT:       gemm.yield %a : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %h : tensor<?x4x8xf32>
// CHECK-NEXT: }
// CHECK-NEXT: func.func private @two_program_1(%w: tensor<2x8x8xf32> {coda.name = "w", coda.dims = [2 : i64, 8 : i64, 8 : i64]}, %g: tensor<?x4x8xf32> {coda.name = "g", coda.dims = ["B", 4 : i64, 8 : i64]}, %x: tensor<?x4x8xf32> {coda.name = "x", coda.dims = ["B", 4 : i64, 8 : i64]}) -> (tensor<?x4x8xf32> {coda.dims = ["B", 4 : i64, 8 : i64]}) {
// CHECK-NEXT:   %s = coda.constant {value = 2.000000e+00 : f64} : tensor<f32>
// CHECK-NEXT:   %w0 = coda.reshape %w : (tensor<2x8x8xf32>) -> tensor<16x8xf32>
// CHECK-NEXT:   %w1 = coda.slice %w0 {dim = 0 : i64, start = 0 : i64, stop = 8 : i64} : (tensor<16x8xf32>) -> tensor<8x8xf32>
// CHECK-NEXT:   %y = gemm.fused %g : tensor<?x4x8xf32>
// CHECK-NEXT:     columns(%w1 : tensor<8x8xf32>) tile(%x : tensor<?x4x8xf32>) scalar(%s : tensor<f32>)
// CHECK-NEXT:       -> (tile : tensor<?x4x8xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %x_1: f32, %s_1: f32):
// CHECK-NEXT:       %a = arith.addf %acc, %x_1 : f32
// CHECK-NEXT:       %b = arith.mulf %a, %s_1 : f32
// CHECK-NEXT:       gemm.yield %b : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y : tensor<?x4x8xf32>
// CHECK-NEXT: }

// -----

// Views of what a program gives are outside for what reads them outside, and in the program that
// reads them otherwise.

func.func @views(%x: tensor<?x8xf32> {coda.dims = ["M", 8]}, %w: tensor<16x8xf32>) -> (tensor<?x16xf32> {coda.dims = ["M", 16]}) {
  %h = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<16x8xf32>)
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %left = coda.slice %h {dim = 1 : i64, start = 0 : i64, stop = 8 : i64} : (tensor<?x16xf32>) -> tensor<?x8xf32>
  %right = coda.slice %h {dim = 1 : i64, start = 8 : i64, stop = 16 : i64} : (tensor<?x16xf32>) -> tensor<?x8xf32>
  %m = coda.softmax %left : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %y = gemm.fused %m : tensor<?x8xf32>
    columns(%w : tensor<16x8xf32>) tile(%h : tensor<?x16xf32>)
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%acc: f32, %h_1: f32):
      %a = arith.addf %acc, %h_1 : f32
      gemm.yield %a : f32
    }
  %z = gemm.fused %right : tensor<?x8xf32>
    columns(%w : tensor<16x8xf32>) tile(%y : tensor<?x16xf32>)
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%acc: f32, %y_1: f32):
      %a = arith.addf %acc, %y_1 : f32
      gemm.yield %a : f32
    }
  func.return %z : tensor<?x16xf32>
}

// CHECK:      func.func @views(%x: tensor<?x8xf32> {coda.dims = ["M", 8 : i64]}, %w: tensor<16x8xf32>) -> (tensor<?x16xf32> {coda.dims = ["M", 16 : i64]}) {
// CHECK-NEXT:   %h = func.call @views_program(%x, %w) {coda.dims = ["M", 16 : i64]} : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %left = coda.slice %h {dim = 1 : i64, start = 0 : i64, stop = 8 : i64} : (tensor<?x16xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %m = coda.softmax %left : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %z = func.call @views_program_1(%h, %m, %w) {coda.dims = ["M", 16 : i64]} : (tensor<?x16xf32>, tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   func.return %z : tensor<?x16xf32>
// CHECK-NEXT: }
// CHECK-NEXT: func.func private @views_program(%x: tensor<?x8xf32> {coda.name = "x", coda.dims = ["M", 8 : i64]}, %w: tensor<16x8xf32> {coda.name = "w", coda.dims = [16 : i64, 8 : i64]}) -> (tensor<?x16xf32> {coda.dims = ["M", 16 : i64]}) {
// CHECK-NEXT:   %h = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<16x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %h : tensor<?x16xf32>
// CHECK-NEXT: }
// CHECK-NEXT: func.func private @views_program_1(%h: tensor<?x16xf32> {coda.name = "h", coda.dims = ["M", 16 : i64]}, %m: tensor<?x8xf32> {coda.name = "m", coda.dims = ["M", 8 : i64]}, %w: tensor<16x8xf32> {coda.name = "w", coda.dims = [16 : i64, 8 : i64]}) -> (tensor<?x16xf32> {coda.dims = ["M", 16 : i64]}) {
// CHECK-NEXT:   %right = coda.slice %h {dim = 1 : i64, start = 8 : i64, stop = 16 : i64} : (tensor<?x16xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %y = gemm.fused %m : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<16x8xf32>) tile(%h : tensor<?x16xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %h_1: f32):
// CHECK-NEXT:       %a = arith.addf %acc, %h_1 : f32
// CHECK-NEXT:       gemm.yield %a : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %z = gemm.fused %right : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<16x8xf32>) tile(%y : tensor<?x16xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x16xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %y_1: f32):
// CHECK-NEXT:       %a = arith.addf %acc, %y_1 : f32
// CHECK-NEXT:       gemm.yield %a : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %z : tensor<?x16xf32>
// CHECK-NEXT: }

// -----

// Equal programs become one: they do not differ by the numbers of layers in names,
// which a derived backward has with dots.

func.func @layers(%x: tensor<?x8xf32> {coda.dims = ["M", 8]}, %layers.0.w: tensor<8x8xf32> {coda.weight}, %layers.1.w: tensor<8x8xf32> {coda.weight}) -> (tensor<?x8xf32> {coda.dims = ["M", 8]}) {
  %layers_0_n = coda.softmax %x : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %layers_0_h = gemm.fused %layers_0_n : tensor<?x8xf32>
    columns(%layers.0.w : tensor<8x8xf32>)
      -> (tile : tensor<?x8xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %layers_1_n = coda.softmax %layers_0_h : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %layers_1_h = gemm.fused %layers_1_n : tensor<?x8xf32>
    columns(%layers.1.w : tensor<8x8xf32>)
      -> (tile : tensor<?x8xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  func.return %layers_1_h : tensor<?x8xf32>
}

// CHECK:      func.func @layers(%x: tensor<?x8xf32> {coda.dims = ["M", 8 : i64]}, %layers.0.w: tensor<8x8xf32> {coda.weight}, %layers.1.w: tensor<8x8xf32> {coda.weight}) -> (tensor<?x8xf32> {coda.dims = ["M", 8 : i64]}) {
// CHECK-NEXT:   %layers_0_n = coda.softmax %x : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %layers_0_h = func.call @layers_program(%layers_0_n, %layers.0.w) {coda.dims = ["M", 8 : i64]} : (tensor<?x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %layers_1_n = coda.softmax %layers_0_h : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %layers_1_h = func.call @layers_program(%layers_1_n, %layers.1.w) {coda.dims = ["M", 8 : i64]} : (tensor<?x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   func.return %layers_1_h : tensor<?x8xf32>
// CHECK-NEXT: }
// CHECK-NEXT: func.func private @layers_program(%layers_n: tensor<?x8xf32> {coda.name = "layers_n", coda.dims = ["M", 8 : i64]}, %layers.w: tensor<8x8xf32> {coda.name = "layers.w", coda.dims = [8 : i64, 8 : i64], coda.weight}) -> (tensor<?x8xf32> {coda.dims = ["M", 8 : i64]}) {
// CHECK-NEXT:   %layers_h = gemm.fused %layers_n : tensor<?x8xf32>
// CHECK-NEXT:     columns(%layers.w : tensor<8x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x8xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %layers_h : tensor<?x8xf32>
// CHECK-NEXT: }

// -----

// All GEMMs that wait for equally many runs of other operators are one program, and several results
// state their sizes.

func.func @level(%x: tensor<?x8xf32> {coda.dims = ["M", 8]}, %y: tensor<?x8xf32> {coda.dims = ["N", 8]}, %w: tensor<8x8xf32>) -> (tensor<?x8xf32> {coda.dims = ["M", 8]}, tensor<?x8xf32> {coda.dims = ["N", 8]}) {
  %a = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<8x8xf32>)
      -> (tile : tensor<?x8xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %p = coda.softmax %a : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %b = gemm.fused %y : tensor<?x8xf32>
    columns(%w : tensor<8x8xf32>)
      -> (tile : tensor<?x8xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %q = coda.softmax %b : (tensor<?x8xf32>) -> tensor<?x8xf32>
  func.return %p, %q : tensor<?x8xf32>, tensor<?x8xf32>
}

// CHECK:      func.func @level(%x: tensor<?x8xf32> {coda.dims = ["M", 8 : i64]}, %y: tensor<?x8xf32> {coda.dims = ["N", 8 : i64]}, %w: tensor<8x8xf32>) -> (tensor<?x8xf32> {coda.dims = ["M", 8 : i64]}, tensor<?x8xf32> {coda.dims = ["N", 8 : i64]}) {
// CHECK-NEXT:   %a, %b = func.call @level_program(%x, %w, %y) {coda.dims = [["M", 8 : i64], ["N", 8 : i64]]} : (tensor<?x8xf32>, tensor<8x8xf32>, tensor<?x8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>)
// CHECK-NEXT:   %p = coda.softmax %a : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %q = coda.softmax %b : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   func.return %p, %q : tensor<?x8xf32>, tensor<?x8xf32>
// CHECK-NEXT: }
// CHECK-NEXT: func.func private @level_program(%x: tensor<?x8xf32> {coda.name = "x", coda.dims = ["M", 8 : i64]}, %w: tensor<8x8xf32> {coda.name = "w", coda.dims = [8 : i64, 8 : i64]}, %y: tensor<?x8xf32> {coda.name = "y", coda.dims = ["N", 8 : i64]}) -> (tensor<?x8xf32> {coda.dims = ["M", 8 : i64]}, tensor<?x8xf32> {coda.dims = ["N", 8 : i64]}) {
// CHECK-NEXT:   %a = gemm.fused %x : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<8x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x8xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %b = gemm.fused %y : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<8x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x8xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %a, %b : tensor<?x8xf32>, tensor<?x8xf32>
// CHECK-NEXT: }

// -----

// A size of which an operand has only a product comes with an argument.

func.func @size(%x: tensor<?x8xf32> {coda.dims = ["B*T", 8]}, %ids: tensor<?x?xi64> {coda.dims = ["B", "T"]}, %w: tensor<8x8xf32>) -> (tensor<?x?x8xf32> {coda.dims = ["B", "T", 8]}) {
  %p = coda.softmax %x : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %h = gemm.fused %p : tensor<?x8xf32>
    columns(%w : tensor<8x8xf32>)
      -> (tile : tensor<?x8xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %r = coda.reshape %h {coda.dims = ["B", "T", 8]} : (tensor<?x8xf32>) -> tensor<?x?x8xf32>
  %y = coda.softmax %r : (tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
  func.return %y : tensor<?x?x8xf32>
}

// CHECK:      func.func @size(%x: tensor<?x8xf32> {coda.dims = ["B*T", 8 : i64]}, %ids: tensor<?x?xi64> {coda.dims = ["B", "T"]}, %w: tensor<8x8xf32>) -> (tensor<?x?x8xf32> {coda.dims = ["B", "T", 8 : i64]}) {
// CHECK-NEXT:   %p = coda.softmax %x : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %h = func.call @size_program(%p, %w, %ids) {coda.dims = ["B*T", 8 : i64]} : (tensor<?x8xf32>, tensor<8x8xf32>, tensor<?x?xi64>) -> tensor<?x8xf32>
// CHECK-NEXT:   %r = coda.reshape %h {coda.dims = ["B", "T", 8 : i64]} : (tensor<?x8xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %y = coda.softmax %r : (tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   func.return %y : tensor<?x?x8xf32>
// CHECK-NEXT: }
// CHECK-NEXT: func.func private @size_program(%p: tensor<?x8xf32> {coda.name = "p", coda.dims = ["B*T", 8 : i64]}, %w: tensor<8x8xf32> {coda.name = "w", coda.dims = [8 : i64, 8 : i64]}, %ids: tensor<?x?xi64> {coda.name = "ids", coda.dims = ["B", "T"]}) -> (tensor<?x8xf32> {coda.dims = ["B*T", 8 : i64]}) {
// CHECK-NEXT:   %h = gemm.fused %p : tensor<?x8xf32>
// CHECK-NEXT:     columns(%w : tensor<8x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x8xf32>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %h : tensor<?x8xf32>
// CHECK-NEXT: }

// -----

// What nothing reads gets no program.

func.func @dead(%x: tensor<?x8xf32> {coda.dims = ["M", 8]}, %w: tensor<8x8xf32>) -> (tensor<?x8xf32> {coda.dims = ["M", 8]}) {
  %h = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<8x8xf32>)
      -> (tile : tensor<?x8xf32>) {
    ^bb0(%acc: f32):
      %e = math.exp %acc : f32
      gemm.yield %e : f32
    }
  %y = coda.softmax %x : (tensor<?x8xf32>) -> tensor<?x8xf32>
  func.return %y : tensor<?x8xf32>
}

// CHECK:      func.func @dead
// CHECK-NOT:  func.call

// -----

// A derivative that PyTorch computes stays in the graph: autograd records nothing within a program
// that a compiled graph calls.

func.func @derivative(%x: tensor<6x8xf32>, %w: tensor<8x8xf32>, %d: tensor<f32>) -> tensor<6x8xf32> {
  %dh = torch.vjp "aten.mean.default"(%x : tensor<6x8xf32>) of(%d : tensor<f32>) {arguments = "{0}", of = [0], wrt = [0]} -> tensor<6x8xf32>
  %dx = gemm.fused %dh : tensor<6x8xf32>
    columns(%w : tensor<8x8xf32>)
      -> (tile : tensor<6x8xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  func.return %dx : tensor<6x8xf32>
}

// CHECK:      func.func @derivative(
// CHECK-NEXT:   torch.vjp
// CHECK-NEXT:   func.call @derivative_program(

// -----

// The gradient of an embedding adds the rows of an id in a fixed order, which its kernel keeps and
// another compiler need not.

func.func @rows(%ids: tensor<6xi64>, %x: tensor<6x8xf32>, %w: tensor<8x8xf32>) -> (tensor<6x8xf32>, tensor<5x8xf32>) {
  %h = gemm.fused %x : tensor<6x8xf32>
    columns(%w : tensor<8x8xf32>)
      -> (tile : tensor<6x8xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %y = coda.softmax %h : (tensor<6x8xf32>) -> tensor<6x8xf32>
  %d = coda.embedding_grad %ids, %y : (tensor<6xi64>, tensor<6x8xf32>) -> tensor<5x8xf32>
  func.return %h, %d : tensor<6x8xf32>, tensor<5x8xf32>
}

// CHECK:      func.func @rows(
// CHECK-NEXT:   %h = func.call @rows_program(
// CHECK-NEXT:   coda.softmax
// CHECK-NEXT:   %d = func.call @rows_program_1(

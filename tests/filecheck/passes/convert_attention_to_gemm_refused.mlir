// RUN: coda-opt %s -p convert-attention-to-gemm --split-input-file | filecheck %s
// RUN: coda-opt %s -p convert-attention-to-gemm --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// Sinks, and a mask that is added.

func.func @sinks_and_mask(%dy: tensor<2x6x64xbf16>, %y: tensor<2x6x64xbf16>, %lse: tensor<2x4x6xf32>, %q: tensor<2x6x64xbf16>, %k: tensor<2x9x32xbf16>, %v: tensor<2x9x32xbf16>, %s: tensor<4xbf16>, %m: tensor<6x9xbf16>) -> (tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>) {
  %dq, %dk, %dv = coda.attention_grad %dy, %y, %lse, %q, %k, %v sinks(%s : tensor<4xbf16>) mask(%m : tensor<6x9xbf16>) {head_dim = 16 : i64, causal = true} : (tensor<2x6x64xbf16>, tensor<2x6x64xbf16>, tensor<2x4x6xf32>, tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>) -> (tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>)
  func.return %dq, %dk, %dv : tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>
}

// REMARK: remark[missed] convert-attention-to-gemm: coda.attention_grad: runs as the derivative of PyTorch's attention, which has sinks and a mask; failed condition: the attention weights sum to 1 if a mask is added; costs 11060 bytes
// CHECK:      func.func @sinks_and_mask(
// CHECK-NEXT:   %dq, %dk, %dv = coda.attention_grad %dy, %y, %lse, %q, %k, %v sinks(%s : tensor<4xbf16>) mask(%m : tensor<6x9xbf16>) {head_dim = 16 : i64, causal = true} : (tensor<2x6x64xbf16>, tensor<2x6x64xbf16>, tensor<2x4x6xf32>, tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>) -> (tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>)
// CHECK-NEXT:   func.return %dq, %dk, %dv : tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>
// CHECK-NEXT: }

// -----

// Tensor cores multiply no float32.

func.func @wide_floats(%dy: tensor<2x6x64xf32>, %y: tensor<2x6x64xf32>, %lse: tensor<2x4x6xf32>, %q: tensor<2x6x64xf32>, %k: tensor<2x9x32xf32>, %v: tensor<2x9x32xf32>) -> (tensor<2x6x64xf32>, tensor<2x9x32xf32>, tensor<2x9x32xf32>) {
  %dq, %dk, %dv = coda.attention_grad %dy, %y, %lse, %q, %k, %v {head_dim = 16 : i64, causal = true} : (tensor<2x6x64xf32>, tensor<2x6x64xf32>, tensor<2x4x6xf32>, tensor<2x6x64xf32>, tensor<2x9x32xf32>, tensor<2x9x32xf32>) -> (tensor<2x6x64xf32>, tensor<2x9x32xf32>, tensor<2x9x32xf32>)
  func.return %dq, %dk, %dv : tensor<2x6x64xf32>, tensor<2x9x32xf32>, tensor<2x9x32xf32>
}

// REMARK: remark[missed] convert-attention-to-gemm: coda.attention_grad: runs as the derivative of PyTorch's attention, in f32; failed condition: tensor cores multiply 16-bit floats; costs 21696 bytes
// CHECK:      func.func @wide_floats(
// CHECK-NEXT:   %dq, %dk, %dv = coda.attention_grad %dy, %y, %lse, %q, %k, %v {head_dim = 16 : i64, causal = true} : (tensor<2x6x64xf32>, tensor<2x6x64xf32>, tensor<2x4x6xf32>, tensor<2x6x64xf32>, tensor<2x9x32xf32>, tensor<2x9x32xf32>) -> (tensor<2x6x64xf32>, tensor<2x9x32xf32>, tensor<2x9x32xf32>)
// CHECK-NEXT:   func.return %dq, %dk, %dv : tensor<2x6x64xf32>, tensor<2x9x32xf32>, tensor<2x9x32xf32>
// CHECK-NEXT: }

// -----

// Columns of a head that are no multiple of 8.

func.func @odd_heads(%dy: tensor<2x6x80xbf16>, %y: tensor<2x6x80xbf16>, %lse: tensor<2x4x6xf32>, %q: tensor<2x6x80xbf16>, %k: tensor<2x9x40xbf16>, %v: tensor<2x9x40xbf16>) -> (tensor<2x6x80xbf16>, tensor<2x9x40xbf16>, tensor<2x9x40xbf16>) {
  %dq, %dk, %dv = coda.attention_grad %dy, %y, %lse, %q, %k, %v {head_dim = 20 : i64, causal = true} : (tensor<2x6x80xbf16>, tensor<2x6x80xbf16>, tensor<2x4x6xf32>, tensor<2x6x80xbf16>, tensor<2x9x40xbf16>, tensor<2x9x40xbf16>) -> (tensor<2x6x80xbf16>, tensor<2x9x40xbf16>, tensor<2x9x40xbf16>)
  func.return %dq, %dk, %dv : tensor<2x6x80xbf16>, tensor<2x9x40xbf16>, tensor<2x9x40xbf16>
}

// REMARK: remark[missed] convert-attention-to-gemm: coda.attention_grad: runs as the derivative of PyTorch's attention, with 20 columns; failed condition: heads have 16 to 256 columns, a multiple of 8; costs 13632 bytes
// CHECK:      func.func @odd_heads(
// CHECK-NEXT:   %dq, %dk, %dv = coda.attention_grad %dy, %y, %lse, %q, %k, %v {head_dim = 20 : i64, causal = true} : (tensor<2x6x80xbf16>, tensor<2x6x80xbf16>, tensor<2x4x6xf32>, tensor<2x6x80xbf16>, tensor<2x9x40xbf16>, tensor<2x9x40xbf16>) -> (tensor<2x6x80xbf16>, tensor<2x9x40xbf16>, tensor<2x9x40xbf16>)
// CHECK-NEXT:   func.return %dq, %dk, %dv : tensor<2x6x80xbf16>, tensor<2x9x40xbf16>, tensor<2x9x40xbf16>
// CHECK-NEXT: }

// -----

// Heads so wide that two gradients of a tile do not stay in registers.

func.func @wide_heads(%dy: tensor<2x6x1024xbf16>, %y: tensor<2x6x1024xbf16>, %lse: tensor<2x2x6xf32>, %q: tensor<2x6x1024xbf16>, %k: tensor<2x9x512xbf16>, %v: tensor<2x9x512xbf16>) -> (tensor<2x6x1024xbf16>, tensor<2x9x512xbf16>, tensor<2x9x512xbf16>) {
  %dq, %dk, %dv = coda.attention_grad %dy, %y, %lse, %q, %k, %v {head_dim = 512 : i64, causal = true} : (tensor<2x6x1024xbf16>, tensor<2x6x1024xbf16>, tensor<2x2x6xf32>, tensor<2x6x1024xbf16>, tensor<2x9x512xbf16>, tensor<2x9x512xbf16>) -> (tensor<2x6x1024xbf16>, tensor<2x9x512xbf16>, tensor<2x9x512xbf16>)
  func.return %dq, %dk, %dv : tensor<2x6x1024xbf16>, tensor<2x9x512xbf16>, tensor<2x9x512xbf16>
}

// REMARK: remark[missed] convert-attention-to-gemm: coda.attention_grad: runs as the derivative of PyTorch's attention, with 512 columns; failed condition: heads have 16 to 256 columns, a multiple of 8; costs 172128 bytes
// CHECK:      func.func @wide_heads(
// CHECK-NEXT:   %dq, %dk, %dv = coda.attention_grad %dy, %y, %lse, %q, %k, %v {head_dim = 512 : i64, causal = true} : (tensor<2x6x1024xbf16>, tensor<2x6x1024xbf16>, tensor<2x2x6xf32>, tensor<2x6x1024xbf16>, tensor<2x9x512xbf16>, tensor<2x9x512xbf16>) -> (tensor<2x6x1024xbf16>, tensor<2x9x512xbf16>, tensor<2x9x512xbf16>)
// CHECK-NEXT:   func.return %dq, %dk, %dv : tensor<2x6x1024xbf16>, tensor<2x9x512xbf16>, tensor<2x9x512xbf16>
// CHECK-NEXT: }

// -----

// Nobody knows how many heads there are.

func.func @symbolic_heads(%dy: tensor<2x6x?xbf16>, %y: tensor<2x6x?xbf16>, %lse: tensor<2x?x6xf32>, %q: tensor<2x6x?xbf16>, %k: tensor<2x9x?xbf16>, %v: tensor<2x9x?xbf16>) -> (tensor<2x6x?xbf16>, tensor<2x9x?xbf16>, tensor<2x9x?xbf16>) {
  %dq, %dk, %dv = coda.attention_grad %dy, %y, %lse, %q, %k, %v {head_dim = 16 : i64, causal = true} : (tensor<2x6x?xbf16>, tensor<2x6x?xbf16>, tensor<2x?x6xf32>, tensor<2x6x?xbf16>, tensor<2x9x?xbf16>, tensor<2x9x?xbf16>) -> (tensor<2x6x?xbf16>, tensor<2x9x?xbf16>, tensor<2x9x?xbf16>)
  func.return %dq, %dk, %dv : tensor<2x6x?xbf16>, tensor<2x9x?xbf16>, tensor<2x9x?xbf16>
}

// REMARK: remark[missed] convert-attention-to-gemm: coda.attention_grad: runs as the derivative of PyTorch's attention, with a symbolic number of heads; failed condition: the number of heads is static; costs 24*d0 + 24*d1 + 48*d2 + 48*d3 + 72*d4 + 72*d5 bytes
// CHECK:      func.func @symbolic_heads(
// CHECK-NEXT:   %dq, %dk, %dv = coda.attention_grad %dy, %y, %lse, %q, %k, %v {head_dim = 16 : i64, causal = true} : (tensor<2x6x?xbf16>, tensor<2x6x?xbf16>, tensor<2x?x6xf32>, tensor<2x6x?xbf16>, tensor<2x9x?xbf16>, tensor<2x9x?xbf16>) -> (tensor<2x6x?xbf16>, tensor<2x9x?xbf16>, tensor<2x9x?xbf16>)
// CHECK-NEXT:   func.return %dq, %dk, %dv : tensor<2x6x?xbf16>, tensor<2x9x?xbf16>, tensor<2x9x?xbf16>
// CHECK-NEXT: }

// -----

// PyTorch's bits are asked for.

func.func @eager(%dy: tensor<2x6x64xbf16>, %y: tensor<2x6x64xbf16>, %lse: tensor<2x4x6xf32>, %q: tensor<2x6x64xbf16>, %k: tensor<2x9x32xbf16>, %v: tensor<2x9x32xbf16>) -> (tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>) attributes {coda.numerics = #gemm.numerics<"eager-exact">} {
  %dq, %dk, %dv = coda.attention_grad %dy, %y, %lse, %q, %k, %v {head_dim = 16 : i64, causal = true} : (tensor<2x6x64xbf16>, tensor<2x6x64xbf16>, tensor<2x4x6xf32>, tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>) -> (tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>)
  func.return %dq, %dk, %dv : tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>
}

// REMARK: remark[missed] convert-attention-to-gemm: coda.attention_grad: runs as the derivative of PyTorch's attention; failed condition: the function does not require the bits of eager PyTorch; costs 10944 bytes
// CHECK:      func.func @eager(
// CHECK-NEXT:   %dq, %dk, %dv = coda.attention_grad %dy, %y, %lse, %q, %k, %v {head_dim = 16 : i64, causal = true} : (tensor<2x6x64xbf16>, tensor<2x6x64xbf16>, tensor<2x4x6xf32>, tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>) -> (tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>)
// CHECK-NEXT:   func.return %dq, %dk, %dv : tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x32xbf16>
// CHECK-NEXT: }

// -----

// Heads of values that are narrower than those of keys.

func.func @narrow_values(%dy: tensor<2x6x32xbf16>, %y: tensor<2x6x32xbf16>, %lse: tensor<2x4x6xf32>, %q: tensor<2x6x64xbf16>, %k: tensor<2x9x32xbf16>, %v: tensor<2x9x16xbf16>) -> (tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x16xbf16>) {
  %dq, %dk, %dv = coda.attention_grad %dy, %y, %lse, %q, %k, %v {head_dim = 16 : i64, value_dim = 8 : i64, causal = true} : (tensor<2x6x32xbf16>, tensor<2x6x32xbf16>, tensor<2x4x6xf32>, tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x16xbf16>) -> (tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x16xbf16>)
  func.return %dq, %dk, %dv : tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x16xbf16>
}

// REMARK: remark[missed] convert-attention-to-gemm: coda.attention_grad: runs as the derivative of PyTorch's attention, with 8 columns; failed condition: heads have 16 to 256 columns, a multiple of 8; costs 8256 bytes
// CHECK:      func.func @narrow_values(
// CHECK-NEXT:   %dq, %dk, %dv = coda.attention_grad %dy, %y, %lse, %q, %k, %v {head_dim = 16 : i64, value_dim = 8 : i64, causal = true} : (tensor<2x6x32xbf16>, tensor<2x6x32xbf16>, tensor<2x4x6xf32>, tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x16xbf16>) -> (tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x16xbf16>)
// CHECK-NEXT:   func.return %dq, %dk, %dv : tensor<2x6x64xbf16>, tensor<2x9x32xbf16>, tensor<2x9x16xbf16>
// CHECK-NEXT: }

// -----

// The forward in float32.

func.func @forward_floats(%q: tensor<2x32x64xf32>, %k: tensor<2x40x32xf32>, %v: tensor<2x40x32xf32>) -> tensor<2x32x64xf32> {
  %y = coda.attention %q, %k, %v {head_dim = 16 : i64, causal = true, window = 8 : i64} : (tensor<2x32x64xf32>, tensor<2x40x32xf32>, tensor<2x40x32xf32>) -> tensor<2x32x64xf32>
  func.return %y : tensor<2x32x64xf32>
}

// REMARK: remark[missed] convert-attention-to-gemm: coda.attention: runs as PyTorch's attention, which stores all scores, in f32; failed condition: tensor cores multiply 16-bit floats; costs 53248 bytes
// CHECK:      func.func @forward_floats(%q: tensor<2x32x64xf32>, %k: tensor<2x40x32xf32>, %v: tensor<2x40x32xf32>) -> tensor<2x32x64xf32> {
// CHECK-NEXT:   %y = coda.attention %q, %k, %v {head_dim = 16 : i64, causal = true, window = 8 : i64} : (tensor<2x32x64xf32>, tensor<2x40x32xf32>, tensor<2x40x32xf32>) -> tensor<2x32x64xf32>
// CHECK-NEXT:   func.return %y : tensor<2x32x64xf32>
// CHECK-NEXT: }

// -----

// A scale that turns the order of the scores around.

func.func @negative_scale(%q: tensor<2x32x64xbf16>, %k: tensor<2x40x32xbf16>, %v: tensor<2x40x32xbf16>) -> tensor<2x32x64xbf16> {
  %y = coda.attention %q, %k, %v {head_dim = 16 : i64, causal = true, window = 8 : i64, scale = -1.0 : f64} : (tensor<2x32x64xbf16>, tensor<2x40x32xbf16>, tensor<2x40x32xbf16>) -> tensor<2x32x64xbf16>
  func.return %y : tensor<2x32x64xbf16>
}

// REMARK: remark[missed] convert-attention-to-gemm: coda.attention: runs as PyTorch's attention, which stores all scores; failed condition: the scale of the scores is positive; costs 26624 bytes
// CHECK:      func.func @negative_scale(
// CHECK-NEXT:   %y = coda.attention %q, %k, %v {head_dim = 16 : i64, causal = true, window = 8 : i64, scale = -1.000000e+00 : f64} : (tensor<2x32x64xbf16>, tensor<2x40x32xbf16>, tensor<2x40x32xbf16>) -> tensor<2x32x64xbf16>
// CHECK-NEXT:   func.return %y : tensor<2x32x64xbf16>
// CHECK-NEXT: }

// -----

// Values with other columns than keys.

func.func @forward_values(%q: tensor<2x32x64xbf16>, %k: tensor<2x40x64xbf16>, %v: tensor<2x40x32xbf16>) -> tensor<2x32x32xbf16> {
  %y = coda.attention %q, %k, %v {head_dim = 32 : i64, value_dim = 16 : i64, causal = true, window = 8 : i64} : (tensor<2x32x64xbf16>, tensor<2x40x64xbf16>, tensor<2x40x32xbf16>) -> tensor<2x32x32xbf16>
  func.return %y : tensor<2x32x32xbf16>
}

// REMARK: remark[missed] convert-attention-to-gemm: coda.attention: runs as PyTorch's attention, which stores all scores, with 16 columns for 32; failed condition: values have as many columns as keys; costs 27648 bytes
// CHECK:      func.func @forward_values(
// CHECK-NEXT:   %y = coda.attention %q, %k, %v {head_dim = 32 : i64, value_dim = 16 : i64, causal = true, window = 8 : i64} : (tensor<2x32x64xbf16>, tensor<2x40x64xbf16>, tensor<2x40x32xbf16>) -> tensor<2x32x32xbf16>
// CHECK-NEXT:   func.return %y : tensor<2x32x32xbf16>
// CHECK-NEXT: }

// RUN: coda-opt %s -p place-parts --split-input-file | filecheck %s

// The columns of each head come from two weights of a GEMM: neither is copied.

func.func @heads(%x: tensor<?x?x64xbf16> {coda.dims = ["B", "T", 64]}, %w: tensor<32x64xbf16>, %v: tensor<16x64xbf16>) -> tensor<?x?x2x24xbf16> {
  %q, %r = gemm.fused %x : tensor<?x?x64xbf16>
    columns(%w : tensor<32x64xbf16>)
      -> (tile : tensor<?x?x32xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
    columns(%v : tensor<16x64xbf16>) pair<halves, 8>
      -> (tile : tensor<?x?x16xbf16>) {
    ^bb0(%a: f32, %b: f32):
      gemm.yield %b, %a : f32, f32
    }
  %q_heads = coda.reshape %q : (tensor<?x?x32xbf16>) -> tensor<?x?x2x16xbf16>
  %r_heads = coda.reshape %r : (tensor<?x?x16xbf16>) -> tensor<?x?x2x8xbf16>
  %joined = coda.concat %q_heads, %r_heads {dim = 3 : i64} : (tensor<?x?x2x16xbf16>, tensor<?x?x2x8xbf16>) -> tensor<?x?x2x24xbf16>
  func.return %joined : tensor<?x?x2x24xbf16>
}

// CHECK:      func.func @heads(
// CHECK-NEXT:   %q, %r = gemm.fused %x : tensor<?x?x64xbf16>
// CHECK-NEXT:     columns(%w : tensor<32x64xbf16>)
// CHECK-NEXT:       -> (tile at<0, 16, 24> : tensor<?x?x32xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     columns(%v : tensor<16x64xbf16>) pair<halves, 8>
// CHECK-NEXT:       -> (tile at<16, 8, 24> : tensor<?x?x16xbf16>) {
// CHECK-NEXT:     ^bb0(%a: f32, %b: f32):
// CHECK-NEXT:       gemm.yield %b, %a : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %q_heads = coda.reshape %q : (tensor<?x?x32xbf16>) -> tensor<?x?x2x16xbf16>
// CHECK-NEXT:   %r_heads = coda.reshape %r : (tensor<?x?x16xbf16>) -> tensor<?x?x2x8xbf16>
// CHECK-NEXT:   %joined = coda.concat %q_heads, %r_heads {dim = 3 : i64} : (tensor<?x?x2x16xbf16>, tensor<?x?x2x8xbf16>) -> tensor<?x?x2x24xbf16>
// CHECK-NEXT:   func.return %joined : tensor<?x?x2x24xbf16>
// CHECK-NEXT: }

// -----

// A pointwise kernel stores its columns after those of a GEMM; an argument is copied beside them.

func.func @rows(%x: tensor<?x64xbf16>, %w: tensor<128x64xbf16>, %y: tensor<?x8xbf16>, %v: tensor<?x8xbf16>) -> tensor<?x80xbf16> {
  %h = gemm.fused %x : tensor<?x64xbf16>
    columns(%w : tensor<128x64xbf16>) pair<halves>
      -> (half : tensor<?x64xbf16>) {
    ^bb0(%a: f32, %b: f32):
      %c = arith.mulf %a, %b : f32
      gemm.yield %c : f32
    }
  %z = gemm.map tile(%v : tensor<?x8xbf16>) -> (tile : tensor<?x8xbf16>) {
    ^bb0(%a: f32):
      %e = math.exp %a : f32
      gemm.yield %e : f32
    }
  %joined = coda.concat %h, %y, %z {dim = 1 : i64} : (tensor<?x64xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x80xbf16>
  func.return %joined : tensor<?x80xbf16>
}

// CHECK:      func.func @rows(
// CHECK-NEXT:   %h = gemm.fused %x : tensor<?x64xbf16>
// CHECK-NEXT:     columns(%w : tensor<128x64xbf16>) pair<halves>
// CHECK-NEXT:       -> (half at<0, 64, 80> : tensor<?x64xbf16>) {
// CHECK-NEXT:     ^bb0(%a: f32, %b: f32):
// CHECK-NEXT:       %c = arith.mulf %a, %b : f32
// CHECK-NEXT:       gemm.yield %c : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %z = gemm.map tile(%v : tensor<?x8xbf16>)
// CHECK-NEXT:       -> (tile at<72, 8, 80> : tensor<?x8xbf16>) {
// CHECK-NEXT:     ^bb0(%a: f32):
// CHECK-NEXT:       %e = math.exp %a : f32
// CHECK-NEXT:       gemm.yield %e : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %joined = coda.concat %h, %y, %z {dim = 1 : i64} : (tensor<?x64xbf16>, tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x80xbf16>
// CHECK-NEXT:   func.return %joined : tensor<?x80xbf16>
// CHECK-NEXT: }

// -----

// A pointwise kernel stores what it reads beside its results: a part, and what is repeated as one.

func.func @pairs(%q: tensor<4x1x8xbf16>, %h: tensor<4x6x8xbf16>) -> tensor<4x6x32xbf16> {
  %e = torch.call "aten.expand.default"(%q) {coda.dims = [4 : i64, 6 : i64, 8 : i64], arguments = "{0}, [4, 6, 8]", view} : (tensor<4x1x8xbf16>) -> tensor<4x6x8xbf16>
  %d, %p = gemm.map table(%q : tensor<4x1x8xbf16>) tile(%h : tensor<4x6x8xbf16>) -> (tile : tensor<4x6x8xbf16>, tile : tensor<4x6x8xbf16>) {
    ^bb0(%a: f32, %b: f32):
      %s = arith.subf %a, %b : f32
      %m = arith.mulf %a, %b : f32
      gemm.yield %s, %m : f32, f32
    }
  %joined = coda.concat %e, %h, %d, %p {dim = 2 : i64} : (tensor<4x6x8xbf16>, tensor<4x6x8xbf16>, tensor<4x6x8xbf16>, tensor<4x6x8xbf16>) -> tensor<4x6x32xbf16>
  func.return %joined : tensor<4x6x32xbf16>
}

// CHECK:      func.func @pairs(
// CHECK-NEXT:   %e = torch.call "aten.expand.default"(%q) {coda.dims = [4 : i64, 6 : i64, 8 : i64], arguments = "{0}, [4, 6, 8]", view} : (tensor<4x1x8xbf16>) -> tensor<4x6x8xbf16>
// CHECK-NEXT:   %d, %p, %e_1, %h_1 = gemm.map table(%q : tensor<4x1x8xbf16>) tile(%h : tensor<4x6x8xbf16>)
// CHECK-NEXT:       -> (tile at<16, 8, 32> : tensor<4x6x8xbf16>, tile at<24, 8, 32> : tensor<4x6x8xbf16>, tile at<0, 8, 32> : tensor<4x6x8xbf16>, tile at<8, 8, 32> : tensor<4x6x8xbf16>) {
// CHECK-NEXT:     ^bb0(%a: f32, %b: f32):
// CHECK-NEXT:       %s = arith.subf %a, %b : f32
// CHECK-NEXT:       %m = arith.mulf %a, %b : f32
// CHECK-NEXT:       gemm.yield %s, %m, %a, %b : f32, f32, f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %joined = coda.concat %e_1, %h_1, %d, %p {dim = 2 : i64} : (tensor<4x6x8xbf16>, tensor<4x6x8xbf16>, tensor<4x6x8xbf16>, tensor<4x6x8xbf16>) -> tensor<4x6x32xbf16>
// CHECK-NEXT:   func.return %joined : tensor<4x6x32xbf16>
// CHECK-NEXT: }

// -----

// So it does for rows of each sample, which are stacked.

func.func @stacked(%x: tensor<4x6x8xbf16>, %w: tensor<4x8x8xbf16>) -> tensor<4x2x6x8xbf16> {
  %p = torch.call "aten.bmm.default"(%x, %w) {arguments = "{0}, {1}"} : (tensor<4x6x8xbf16>, tensor<4x8x8xbf16>) -> tensor<4x6x8xbf16>
  %n = gemm.map tile(%p : tensor<4x6x8xbf16>) -> (tile : tensor<4x6x8xbf16>) {
    ^bb0(%a: f32):
      %m = arith.negf %a : f32
      gemm.yield %m : f32
    }
  %first = coda.reshape %p : (tensor<4x6x8xbf16>) -> tensor<4x1x6x8xbf16>
  %second = coda.reshape %n : (tensor<4x6x8xbf16>) -> tensor<4x1x6x8xbf16>
  %joined = coda.concat %first, %second {dim = 1 : i64} : (tensor<4x1x6x8xbf16>, tensor<4x1x6x8xbf16>) -> tensor<4x2x6x8xbf16>
  func.return %joined : tensor<4x2x6x8xbf16>
}

// CHECK:      func.func @stacked(
// CHECK-NEXT:   %p = torch.call "aten.bmm.default"(%x, %w) {arguments = "{0}, {1}"} : (tensor<4x6x8xbf16>, tensor<4x8x8xbf16>) -> tensor<4x6x8xbf16>
// CHECK-NEXT:   %n, %first = gemm.map tile(%p : tensor<4x6x8xbf16>)
// CHECK-NEXT:       -> (tile at<48, 48, 96> : tensor<4x6x8xbf16>, tile at<0, 48, 96> : tensor<4x6x8xbf16>) {
// CHECK-NEXT:     ^bb0(%a: f32):
// CHECK-NEXT:       %m = arith.negf %a : f32
// CHECK-NEXT:       gemm.yield %m, %a : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %second = coda.reshape %n : (tensor<4x6x8xbf16>) -> tensor<4x1x6x8xbf16>
// CHECK-NEXT:   %first_1 = coda.reshape %first : (tensor<4x6x8xbf16>) -> tensor<4x1x6x8xbf16>
// CHECK-NEXT:   %joined = coda.concat %first_1, %second {dim = 1 : i64} : (tensor<4x1x6x8xbf16>, tensor<4x1x6x8xbf16>) -> tensor<4x2x6x8xbf16>
// CHECK-NEXT:   func.return %joined : tensor<4x2x6x8xbf16>
// CHECK-NEXT: }

// -----

// One head of rotary columns beside those of each head of keys, repeated by PyTorch.

func.func @shared(%x: tensor<?x?x64xbf16> {coda.dims = ["B", "T", 64]}, %w: tensor<32x64xbf16>, %v: tensor<8x64xbf16>) -> tensor<?x?x2x24xbf16> {
  %q, %r = gemm.fused %x : tensor<?x?x64xbf16>
    columns(%w : tensor<32x64xbf16>)
      -> (tile : tensor<?x?x32xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
    columns(%v : tensor<8x64xbf16>)
      -> (tile : tensor<?x?x8xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %q_heads = coda.reshape %q : (tensor<?x?x32xbf16>) -> tensor<?x?x2x16xbf16>
  %r_head = coda.reshape %r : (tensor<?x?x8xbf16>) -> tensor<?x?x1x8xbf16>
  %each = torch.call "aten.expand.default"(%r_head) {coda.dims = ["B", "T", 2 : i64, 8 : i64], arguments = "{0}, [B, T, 2, 8]", view} : (tensor<?x?x1x8xbf16>) -> tensor<?x?x2x8xbf16>
  %joined = coda.concat %q_heads, %each {dim = 3 : i64} : (tensor<?x?x2x16xbf16>, tensor<?x?x2x8xbf16>) -> tensor<?x?x2x24xbf16>
  func.return %joined : tensor<?x?x2x24xbf16>
}

// CHECK:      func.func @shared(
// CHECK:            -> (tile at<0, 16, 24> : tensor<?x?x32xbf16>) {
// CHECK:            -> (tile at<16, 8, 24, 2> : tensor<?x?x8xbf16>) {
// CHECK:        %r_head = coda.reshape %r : (tensor<?x?x8xbf16>) -> tensor<?x?x1x8xbf16>
// CHECK-NEXT:   %each = coda.broadcast %r_head : (tensor<?x?x1x8xbf16>) -> tensor<?x?x2x8xbf16>
// CHECK-NEXT:   %joined = coda.concat %q_heads, %each {dim = 3 : i64} : (tensor<?x?x2x16xbf16>, tensor<?x?x2x8xbf16>) -> tensor<?x?x2x24xbf16>
// CHECK-NEXT:   func.return %joined : tensor<?x?x2x24xbf16>
// CHECK-NEXT: }

// -----

// The rows of two GEMMs in each sample: keys of text after those of an image, in heads.

func.func @streams(%x: tensor<?x16x64xbf16> {coda.dims = ["B", 16, 64]}, %y: tensor<?x5x64xbf16> {coda.dims = ["B", 5, 64]}, %w: tensor<32x64xbf16>) -> tensor<?x21x2x16xbf16> {
  %a = gemm.fused %x : tensor<?x16x64xbf16>
    columns(%w : tensor<32x64xbf16>)
      -> (tile : tensor<?x16x32xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %b = gemm.fused %y : tensor<?x5x64xbf16>
    columns(%w : tensor<32x64xbf16>)
      -> (tile : tensor<?x5x32xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %a_heads = coda.reshape %a : (tensor<?x16x32xbf16>) -> tensor<?x16x2x16xbf16>
  %b_heads = coda.reshape %b : (tensor<?x5x32xbf16>) -> tensor<?x5x2x16xbf16>
  %joined = coda.concat %a_heads, %b_heads {dim = 1 : i64} : (tensor<?x16x2x16xbf16>, tensor<?x5x2x16xbf16>) -> tensor<?x21x2x16xbf16>
  func.return %joined : tensor<?x21x2x16xbf16>
}

// CHECK:      func.func @streams(
// CHECK:            -> (tile at<0, 512, 672> : tensor<?x16x32xbf16>) {
// CHECK:            -> (tile at<512, 160, 672> : tensor<?x5x32xbf16>) {
// CHECK:        %joined = coda.concat %a_heads, %b_heads {dim = 1 : i64} : (tensor<?x16x2x16xbf16>, tensor<?x5x2x16xbf16>) -> tensor<?x21x2x16xbf16>
// CHECK-NEXT:   func.return %joined : tensor<?x21x2x16xbf16>
// CHECK-NEXT: }

// -----

// What pads the heads of a GEMM is filled beside them.

func.func @padded(%x: tensor<?x?x64xbf16> {coda.dims = ["B", "T", 64]}, %w: tensor<32x64xbf16>) -> tensor<?x?x2x32xbf16> {
  %v = gemm.fused %x : tensor<?x?x64xbf16>
    columns(%w : tensor<32x64xbf16>)
      -> (tile : tensor<?x?x32xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %heads = coda.reshape %v : (tensor<?x?x32xbf16>) -> tensor<?x?x2x16xbf16>
  %padded = coda.pad %heads {dim = 3 : i64, start = 8 : i64, value = -1.5 : f64} : (tensor<?x?x2x16xbf16>) -> tensor<?x?x2x32xbf16>
  func.return %padded : tensor<?x?x2x32xbf16>
}

// CHECK:      func.func @padded(
// CHECK-NEXT:   %v = gemm.fused %x : tensor<?x?x64xbf16>
// CHECK-NEXT:     columns(%w : tensor<32x64xbf16>)
// CHECK-NEXT:       -> (tile at<8, 16, 32> : tensor<?x?x32xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %heads = coda.reshape %v : (tensor<?x?x32xbf16>) -> tensor<?x?x2x16xbf16>
// CHECK-NEXT:   %0 = coda.constant {value = -1.500000e+00 : f64} : tensor<bf16>
// CHECK-NEXT:   %1 = torch.call "aten.expand.default"(%0) {coda.dims = ["B", "T", 2 : i64, 8 : i64], arguments = "{0}, [B, T, 2, 8]", view} : (tensor<bf16>) -> tensor<?x?x2x8xbf16>
// CHECK-NEXT:   %2 = coda.constant {value = -1.500000e+00 : f64} : tensor<bf16>
// CHECK-NEXT:   %3 = torch.call "aten.expand.default"(%2) {coda.dims = ["B", "T", 2 : i64, 8 : i64], arguments = "{0}, [B, T, 2, 8]", view} : (tensor<bf16>) -> tensor<?x?x2x8xbf16>
// CHECK-NEXT:   %padded = coda.concat %1, %heads, %3 {dim = 3 : i64} : (tensor<?x?x2x8xbf16>, tensor<?x?x2x16xbf16>, tensor<?x?x2x8xbf16>) -> tensor<?x?x2x32xbf16>
// CHECK-NEXT:   func.return %padded : tensor<?x?x2x32xbf16>
// CHECK-NEXT: }

// -----

// The keys of a token in a cache, at the position that a port has.

func.func @cache(%x: tensor<2x1x64xbf16>, %w: tensor<32x64xbf16>, %cache: tensor<2x2x16x16xbf16> {coda.donated}, %at: tensor<1xi64>) -> tensor<2x2x16x16xbf16> {
  %k = gemm.fused %x : tensor<2x1x64xbf16>
    columns(%w : tensor<32x64xbf16>)
      -> (tile : tensor<2x1x32xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %heads = coda.reshape %k : (tensor<2x1x32xbf16>) -> tensor<2x2x1x16xbf16>
  %c = torch.call "aten.index_put.default"(%cache, %at, %heads) {arguments = "{0}, [None, None, {1}], {2}", in_place} : (tensor<2x2x16x16xbf16>, tensor<1xi64>, tensor<2x2x1x16xbf16>) -> tensor<2x2x16x16xbf16>
  func.return %c : tensor<2x2x16x16xbf16>
}

// CHECK:      func.func @cache(
// CHECK-NEXT:   %k = gemm.fused %x : tensor<2x1x64xbf16>
// CHECK-NEXT:     columns(%w : tensor<32x64xbf16>) scalar(%at : tensor<1xi64>)
// CHECK-NEXT:       -> (tile<0> at<0, 16, 256> : tensor<2x1x32xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32, %at_1: i64):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %heads = coda.reshape %k : (tensor<2x1x32xbf16>) -> tensor<2x2x1x16xbf16>
// CHECK-NEXT:   %c = torch.call "aten.index_put.default"(%cache, %at, %heads) {arguments = "{0}, [None, None, {1}], {2}", in_place} : (tensor<2x2x16x16xbf16>, tensor<1xi64>, tensor<2x2x1x16xbf16>) -> tensor<2x2x16x16xbf16>
// CHECK-NEXT:   func.return %c : tensor<2x2x16x16xbf16>
// CHECK-NEXT: }

// -----

// Gradients of even and odd rows of a weight, which are stored transposed.

func.func @turns(%h: tensor<?x64xbf16>, %a: tensor<?x32xbf16>, %b: tensor<?x32xbf16>) -> tensor<32x2x64xbf16> {
  %even, %odd = gemm.fused transposed %h : tensor<?x64xbf16>
    columns(%a : tensor<?x32xbf16>) kn
      -> (tile_t : tensor<32x64xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
    columns(%b : tensor<?x32xbf16>) kn
      -> (tile_t : tensor<32x64xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %first = coda.reshape %even : (tensor<32x64xbf16>) -> tensor<32x1x64xbf16>
  %second = coda.reshape %odd : (tensor<32x64xbf16>) -> tensor<32x1x64xbf16>
  %c = coda.concat %first, %second {dim = 1 : i64} : (tensor<32x1x64xbf16>, tensor<32x1x64xbf16>) -> tensor<32x2x64xbf16>
  func.return %c : tensor<32x2x64xbf16>
}

// CHECK:      func.func @turns(
// CHECK-NEXT:   %even, %odd = gemm.fused transposed %h : tensor<?x64xbf16>
// CHECK-NEXT:     columns(%a : tensor<?x32xbf16>) kn
// CHECK-NEXT:       -> (tile_t at<0, 64, 128> : tensor<32x64xbf16>) {
// CHECK-NEXT:     ^bb0(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     columns(%b : tensor<?x32xbf16>) kn
// CHECK-NEXT:       -> (tile_t at<64, 64, 128> : tensor<32x64xbf16>) {
// CHECK-NEXT:     ^bb0(%acc_1: f32):
// CHECK-NEXT:       gemm.yield %acc_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %first = coda.reshape %even : (tensor<32x64xbf16>) -> tensor<32x1x64xbf16>
// CHECK-NEXT:   %second = coda.reshape %odd : (tensor<32x64xbf16>) -> tensor<32x1x64xbf16>
// CHECK-NEXT:   %c = coda.concat %first, %second {dim = 1 : i64} : (tensor<32x1x64xbf16>, tensor<32x1x64xbf16>) -> tensor<32x2x64xbf16>
// CHECK-NEXT:   func.return %c : tensor<32x2x64xbf16>
// CHECK-NEXT: }

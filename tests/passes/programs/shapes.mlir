// Ranks from 1 to 4, static and symbolic rows, broadcasts, constants and casts.

func.func @rank_1(%x: tensor<8xbf16>, %w: tensor<16x8xbf16>, %b: tensor<16xbf16>, %r: tensor<16xbf16>, %g: tensor<16xbf16>, %v: tensor<4x16xbf16>) -> tensor<4xbf16> {
  %z = coda.linear %x, %w, %b : (tensor<8xbf16>, tensor<16x8xbf16>, tensor<16xbf16>) -> tensor<16xbf16>
  %y = coda.add %z, %r : (tensor<16xbf16>, tensor<16xbf16>) -> tensor<16xbf16>
  %n = coda.rms_norm %y, %g {eps = 1.0e-6 : f64} : (tensor<16xbf16>, tensor<16xbf16>) -> tensor<16xbf16>
  %d = coda.linear %n, %v : (tensor<16xbf16>, tensor<4x16xbf16>) -> tensor<4xbf16>
  func.return %d : tensor<4xbf16>
}

// -----

func.func @rank_1_glu_and_heads(%x: tensor<8xbf16>, %w: tensor<16x8xbf16>, %g: tensor<4xbf16>) -> (tensor<8xbf16>, tensor<16xbf16>) {
  %z = coda.linear %x, %w : (tensor<8xbf16>, tensor<16x8xbf16>) -> tensor<16xbf16>
  %a = coda.glu %z {activation = "relu2"} : (tensor<16xbf16>) -> tensor<8xbf16>
  %q = coda.linear %x, %w : (tensor<8xbf16>, tensor<16x8xbf16>) -> tensor<16xbf16>
  %n = coda.rms_norm %q, %g {eps = 1.0e-6 : f64, group = 4 : i64} : (tensor<16xbf16>, tensor<4xbf16>) -> tensor<16xbf16>
  func.return %a, %n : tensor<8xbf16>, tensor<16xbf16>
}

// -----

func.func @rank_1_heads(%x: tensor<8xbf16>, %w: tensor<16x8xbf16>, %g: tensor<4xbf16>) -> tensor<16xbf16> {
  %q = coda.linear %x, %w : (tensor<8xbf16>, tensor<16x8xbf16>) -> tensor<16xbf16>
  %n = coda.rms_norm %q, %g {eps = 1.0e-6 : f64, group = 4 : i64} : (tensor<16xbf16>, tensor<4xbf16>) -> tensor<16xbf16>
  func.return %n : tensor<16xbf16>
}

// -----

func.func @rank_1_loss(%x: tensor<8xbf16>, %w: tensor<10x8xbf16>, %t: tensor<i64>) -> tensor<f32> {
  %z = coda.linear %x, %w : (tensor<8xbf16>, tensor<10x8xbf16>) -> tensor<10xbf16>
  %l = coda.cross_entropy %z, %t {ignore_index = -100 : i64, reduction = "sum"} : (tensor<10xbf16>, tensor<i64>) -> tensor<f32>
  func.return %l : tensor<f32>
}

// -----

func.func @rank_3(%x: tensor<?x?x8xbf16> {coda.dims = ["B", "T", 8]}, %w: tensor<16x8xbf16>, %table: tensor<?x16xbf16> {coda.dims = ["T", 16]}, %col: tensor<?x?x1xf32> {coda.dims = ["B", "T", 1]}, %tcol: tensor<?x1xf32> {coda.dims = ["T", 1]}, %middle: tensor<?x1x16xbf16> {coda.dims = ["B", 1, 16]}) -> (tensor<?x?x16xbf16>, tensor<?x?x16xbf16>) {
  %z = coda.linear %x, %w : (tensor<?x?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x?x16xbf16>
  %a = coda.add %z, %table : (tensor<?x?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x?x16xbf16>
  %af = coda.cast %a : (tensor<?x?x16xbf16>) -> tensor<?x?x16xf32>
  %b = coda.mul %af, %col : (tensor<?x?x16xf32>, tensor<?x?x1xf32>) -> tensor<?x?x16xf32>
  %c = coda.sub %tcol, %b : (tensor<?x1xf32>, tensor<?x?x16xf32>) -> tensor<?x?x16xf32>
  %d = coda.cast %c : (tensor<?x?x16xf32>) -> tensor<?x?x16xbf16>
  %e = coda.add %middle, %d : (tensor<?x1x16xbf16>, tensor<?x?x16xbf16>) -> tensor<?x?x16xbf16>
  func.return %d, %e : tensor<?x?x16xbf16>, tensor<?x?x16xbf16>
}

// -----

func.func @rank_4_static(%x: tensor<2x3x4x8xf16>, %w: tensor<8x12xf16>, %a: tensor<4x12xf16>, %b: tensor<3x4x12xf16>, %c: tensor<1x1x1x12xf16>, %d: tensor<1x12xf16>, %e: tensor<2x3x4x1xf16>, %f: tensor<1x1xf16>) -> tensor<2x3x4x12xf16> {
  %z = coda.matmul %x, %w : (tensor<2x3x4x8xf16>, tensor<8x12xf16>) -> tensor<2x3x4x12xf16>
  %za = coda.add %z, %a : (tensor<2x3x4x12xf16>, tensor<4x12xf16>) -> tensor<2x3x4x12xf16>
  %zb = coda.mul %b, %za : (tensor<3x4x12xf16>, tensor<2x3x4x12xf16>) -> tensor<2x3x4x12xf16>
  %zc = coda.sub %c, %zb : (tensor<1x1x1x12xf16>, tensor<2x3x4x12xf16>) -> tensor<2x3x4x12xf16>
  %zd = coda.sub %zc, %d : (tensor<2x3x4x12xf16>, tensor<1x12xf16>) -> tensor<2x3x4x12xf16>
  %ze = coda.mul %zd, %e : (tensor<2x3x4x12xf16>, tensor<2x3x4x1xf16>) -> tensor<2x3x4x12xf16>
  %zf = coda.add %ze, %f : (tensor<2x3x4x12xf16>, tensor<1x1xf16>) -> tensor<2x3x4x12xf16>
  func.return %zf : tensor<2x3x4x12xf16>
}

// -----

func.func @rank_4_middle(%x: tensor<2x3x4x8xf16>, %w: tensor<8x12xf16>, %a: tensor<1x3x4x12xf16>, %b: tensor<2x1x4x12xf16>, %c: tensor<3x1x12xf16>, %d: tensor<2x1x1x1xf16>) -> tensor<2x3x4x12xf16> {
  %z = coda.matmul %x, %w : (tensor<2x3x4x8xf16>, tensor<8x12xf16>) -> tensor<2x3x4x12xf16>
  %za = coda.add %z, %a : (tensor<2x3x4x12xf16>, tensor<1x3x4x12xf16>) -> tensor<2x3x4x12xf16>
  %zb = coda.mul %b, %za : (tensor<2x1x4x12xf16>, tensor<2x3x4x12xf16>) -> tensor<2x3x4x12xf16>
  %zc = coda.sub %c, %zb : (tensor<3x1x12xf16>, tensor<2x3x4x12xf16>) -> tensor<2x3x4x12xf16>
  %zd = coda.sub %zc, %d : (tensor<2x3x4x12xf16>, tensor<2x1x1x1xf16>) -> tensor<2x3x4x12xf16>
  func.return %zd : tensor<2x3x4x12xf16>
}

// -----

func.func @one_row_on_static_rows(%x: tensor<5x8xf32>, %w: tensor<16x8xf32>, %b: tensor<1x16xf32>, %s: tensor<1x1xf32>, %r: tensor<1xf32>, %t: tensor<f32>) -> tensor<5x16xf32> {
  %z = coda.linear %x, %w : (tensor<5x8xf32>, tensor<16x8xf32>) -> tensor<5x16xf32>
  %a = coda.add %z, %b : (tensor<5x16xf32>, tensor<1x16xf32>) -> tensor<5x16xf32>
  %c = coda.mul %s, %a : (tensor<1x1xf32>, tensor<5x16xf32>) -> tensor<5x16xf32>
  %d = coda.mul %c, %r : (tensor<5x16xf32>, tensor<1xf32>) -> tensor<5x16xf32>
  %e = coda.add %d, %t : (tensor<5x16xf32>, tensor<f32>) -> tensor<5x16xf32>
  func.return %e : tensor<5x16xf32>
}

// -----

func.func @one_row_in_pair_mode(%x: tensor<5x8xf32>, %w: tensor<16x8xf32>, %v: tensor<16x8xf32>, %b: tensor<1x16xf32>, %c: tensor<5x1xf32>, %s: tensor<1x1xf32>) -> tensor<5x16xf32> {
  %g = coda.linear %x, %w : (tensor<5x8xf32>, tensor<16x8xf32>) -> tensor<5x16xf32>
  %u = coda.linear %x, %v : (tensor<5x8xf32>, tensor<16x8xf32>) -> tensor<5x16xf32>
  %gb = coda.add %g, %b : (tensor<5x16xf32>, tensor<1x16xf32>) -> tensor<5x16xf32>
  %uc = coda.mul %u, %c : (tensor<5x16xf32>, tensor<5x1xf32>) -> tensor<5x16xf32>
  %a = coda.mul %gb, %uc : (tensor<5x16xf32>, tensor<5x16xf32>) -> tensor<5x16xf32>
  %ab = coda.add %a, %b : (tensor<5x16xf32>, tensor<1x16xf32>) -> tensor<5x16xf32>
  %as = coda.add %ab, %s : (tensor<5x16xf32>, tensor<1x1xf32>) -> tensor<5x16xf32>
  func.return %as : tensor<5x16xf32>
}

// -----

func.func @one_row_of_x(%x: tensor<1x8xbf16>, %w: tensor<16x8xbf16>, %y: tensor<?x16xbf16>, %b: tensor<1x16xbf16>) -> (tensor<1x16xbf16>, tensor<?x16xbf16>) {
  %z = coda.linear %x, %w : (tensor<1x8xbf16>, tensor<16x8xbf16>) -> tensor<1x16xbf16>
  %zb = coda.add %z, %b : (tensor<1x16xbf16>, tensor<1x16xbf16>) -> tensor<1x16xbf16>
  %a = coda.add %y, %zb : (tensor<?x16xbf16>, tensor<1x16xbf16>) -> tensor<?x16xbf16>
  func.return %zb, %a : tensor<1x16xbf16>, tensor<?x16xbf16>
}

// -----

func.func @one_column(%x: tensor<?x8xbf16>, %w: tensor<1x8xbf16>, %y: tensor<?x16xbf16>, %b: tensor<1xbf16>) -> (tensor<?x1xbf16>, tensor<?x16xbf16>) {
  %z = coda.linear %x, %w, %b : (tensor<?x8xbf16>, tensor<1x8xbf16>, tensor<1xbf16>) -> tensor<?x1xbf16>
  %s = coda.sigmoid %z : (tensor<?x1xbf16>) -> tensor<?x1xbf16>
  %a = coda.mul %s, %y : (tensor<?x1xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %s, %a : tensor<?x1xbf16>, tensor<?x16xbf16>
}

// -----

func.func @two_columns(%x: tensor<?x8xbf16>, %w: tensor<2x8xbf16>) -> tensor<?x2xbf16> {
  %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<2x8xbf16>) -> tensor<?x2xbf16>
  %a = coda.glu %z {activation = "silu"} : (tensor<?x2xbf16>) -> tensor<?x1xbf16>
  %b = coda.add %a, %z : (tensor<?x1xbf16>, tensor<?x2xbf16>) -> tensor<?x2xbf16>
  func.return %b : tensor<?x2xbf16>
}

// -----

func.func @gate_per_row(%x: tensor<?x8xbf16>, %w: tensor<1x8xbf16>, %v: tensor<16x8xbf16>) -> tensor<?x16xbf16> {
  %s = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<1x8xbf16>) -> tensor<?x1xbf16>
  %g = coda.sigmoid %s : (tensor<?x1xbf16>) -> tensor<?x1xbf16>
  %z = coda.linear %x, %v : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %a = coda.mul %g, %z : (tensor<?x1xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %a : tensor<?x16xbf16>
}

// -----

func.func @constants_on_either_side(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %y: tensor<?x16xbf16>) -> (tensor<?x16xbf16>, tensor<?x16xbf16>, tensor<bf16>) {
  %two = coda.constant {value = 2.0 : f64} : tensor<bf16>
  %third = coda.constant {value = 0.25 : f64} : tensor<bf16>
  %c = coda.div %two, %third : (tensor<bf16>, tensor<bf16>) -> tensor<bf16>
  %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %a = coda.sub %two, %z : (tensor<bf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %b = coda.sub %a, %third : (tensor<?x16xbf16>, tensor<bf16>) -> tensor<?x16xbf16>
  %d = coda.mul %c, %b : (tensor<bf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %e = coda.maximum %two, %y : (tensor<bf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  func.return %d, %e, %two : tensor<?x16xbf16>, tensor<?x16xbf16>, tensor<bf16>
}

// -----

func.func @casts_down_and_up(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %g: tensor<16xf32>) -> (tensor<?x16xf32>, tensor<?x16xbf16>) {
  %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xf32>
  %d = coda.cast %z : (tensor<?x16xf32>) -> tensor<?x16xbf16>
  %u = coda.cast %d : (tensor<?x16xbf16>) -> tensor<?x16xf32>
  %m = coda.mul %u, %g : (tensor<?x16xf32>, tensor<16xf32>) -> tensor<?x16xf32>
  %xu = coda.cast %x : (tensor<?x8xbf16>) -> tensor<?x8xf32>
  %xd = coda.cast %xu : (tensor<?x8xf32>) -> tensor<?x8xbf16>
  %z2 = coda.linear %xd, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  func.return %m, %z2 : tensor<?x16xf32>, tensor<?x16xbf16>
}

// -----

func.func @row_parameters(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %g: tensor<16xbf16>, %h: tensor<16xbf16>) -> (tensor<?x16xbf16>, tensor<16xbf16>, tensor<16xbf16>) {
  %one = coda.constant {value = 1.0 : f64} : tensor<bf16>
  %g1 = coda.add %one, %g : (tensor<bf16>, tensor<16xbf16>) -> tensor<16xbf16>
  %g2 = coda.mul %g1, %h : (tensor<16xbf16>, tensor<16xbf16>) -> tensor<16xbf16>
  %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %y = coda.mul %z, %g2 : (tensor<?x16xbf16>, tensor<16xbf16>) -> tensor<?x16xbf16>
  func.return %y, %g2, %g1 : tensor<?x16xbf16>, tensor<16xbf16>, tensor<16xbf16>
}

// -----

func.func @row_powers(%x: tensor<?x8xf32>, %w: tensor<16x8xf32>, %g: tensor<16xf32>) -> tensor<?x16xf32> {
  %z = coda.linear %x, %w : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
  %g1 = coda.mul %g, %g : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  %g2 = coda.mul %g1, %g1 : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  %g3 = coda.mul %g2, %g2 : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  %g4 = coda.mul %g3, %g3 : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  %y = coda.mul %z, %g4 : (tensor<?x16xf32>, tensor<16xf32>) -> tensor<?x16xf32>
  func.return %y : tensor<?x16xf32>
}

// -----

func.func @outer_product(%r: tensor<16xf32>, %c: tensor<?x1xf32>, %x: tensor<?x8xf32>, %w: tensor<16x8xf32>) -> (tensor<?x16xf32>, tensor<?x16xf32>) {
  %o = coda.mul %c, %r : (tensor<?x1xf32>, tensor<16xf32>) -> tensor<?x16xf32>
  %z = coda.linear %x, %w : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
  %a = coda.sub %z, %o : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
  func.return %a, %o : tensor<?x16xf32>, tensor<?x16xf32>
}

// -----

func.func @symbolic_columns(%x: tensor<?x?xf32> {coda.dims = ["M", "K"]}, %w: tensor<?x?xf32> {coda.dims = ["N", "K"]}, %v: tensor<?x?xf32> {coda.dims = ["N", "K"]}, %b: tensor<?xf32> {coda.dims = ["N"]}) -> (tensor<?x?xf32>, tensor<?x1xf32>, tensor<?x1xf32>) {
  %g = coda.linear %x, %w, %b : (tensor<?x?xf32>, tensor<?x?xf32>, tensor<?xf32>) -> tensor<?x?xf32>
  %u = coda.linear %x, %v : (tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>
  %s = coda.gelu %g : (tensor<?x?xf32>) -> tensor<?x?xf32>
  %a = coda.mul %s, %u : (tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>
  %ab = coda.add %a, %b : (tensor<?x?xf32>, tensor<?xf32>) -> tensor<?x?xf32>
  %m = coda.reduce %ab {kind = "sum"} : (tensor<?x?xf32>) -> tensor<?x1xf32>
  %k = coda.reduce %ab {kind = "mean"} : (tensor<?x?xf32>) -> tensor<?x1xf32>
  func.return %ab, %m, %k : tensor<?x?xf32>, tensor<?x1xf32>, tensor<?x1xf32>
}

// -----

func.func @static_and_symbolic_rows(%x: tensor<?x8xf32> {coda.dims = [5, 8]}, %w: tensor<16x8xf32>, %y: tensor<5x16xf32>) -> tensor<5x16xf32> {
  %z = coda.linear %x, %w : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
  %a = coda.add %z, %y : (tensor<?x16xf32>, tensor<5x16xf32>) -> tensor<5x16xf32>
  func.return %a : tensor<5x16xf32>
}

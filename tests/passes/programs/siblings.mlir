// Two GEMMs of one input that a pointwise operator combines, which cannot be the halves of a pair.

func.func @linear_and_matmul(%x: tensor<?x8xbf16>, %wg: tensor<8x8xbf16>, %wu: tensor<8x8xbf16>) -> tensor<?x8xbf16> {
  %g = coda.linear %x, %wg : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  %u = coda.matmul %x, %wu : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  %s = coda.silu %g : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %a = coda.mul %s, %u : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  func.return %a : tensor<?x8xbf16>
}

// -----

func.func @several_weights(%x: tensor<?x8xf32>, %w: tensor<4x8xf32>, %v: tensor<12x8xf32>, %wu: tensor<16x8xf32>) -> tensor<?x16xf32> {
  %g = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<4x8xf32>, %v : tensor<12x8xf32>)
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %u = gemm.fused %x : tensor<?x8xf32>
    columns(%wu : tensor<16x8xf32>)
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %a = coda.mul %g, %u : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
  func.return %a : tensor<?x16xf32>
}

// -----

func.func @paired_already(%x: tensor<?x8xf32>, %w: tensor<16x8xf32>, %v: tensor<16x8xf32>) -> tensor<?x16xf32> {
  %g = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<16x8xf32>) pair<halves>
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%a: f32, %b: f32):
      %n = arith.negf %b : f32
      gemm.yield %n, %a : f32, f32
    }
  %u = gemm.fused %x : tensor<?x8xf32>
    columns(%v : tensor<16x8xf32>) pair<halves>
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%a: f32, %b: f32):
      %n = arith.negf %a : f32
      gemm.yield %b, %n : f32, f32
    }
  %y = coda.mul %g, %u : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
  func.return %y : tensor<?x16xf32>
}

// -----

func.func @selects_a_column(%x: tensor<?x8xf32>, %w: tensor<16x8xf32>, %v: tensor<16x8xf32>, %i: tensor<?xi64>) -> (tensor<?x16xf32>, tensor<?xf32>) {
  %g, %t = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<16x8xf32>) col(%i : tensor<?xi64>)
      -> (tile : tensor<?x16xf32>, select<0> : tensor<?xf32>) {
    ^bb0(%acc: f32, %k: i64):
      gemm.yield %acc, %acc : f32, f32
    }
  %u = gemm.fused %x : tensor<?x8xf32>
    columns(%v : tensor<16x8xf32>)
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %a = coda.mul %g, %u : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
  func.return %a, %t : tensor<?x16xf32>, tensor<?xf32>
}

// -----

func.func @rope_of_a_map(%x: tensor<?x8xf32>, %cos: tensor<?x4xf32>, %sin: tensor<?x4xf32>) -> tensor<?x8xf32> {
  %m = gemm.map tile(%x : tensor<?x8xf32>)
      -> (tile : tensor<?x8xf32>) {
    ^bb0(%a: f32):
      %n = arith.negf %a : f32
      gemm.yield %n : f32
    }
  %q = coda.rope %m, %cos, %sin {head_dim = 8 : i64, layout = "half_split"} : (tensor<?x8xf32>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x8xf32>
  func.return %q : tensor<?x8xf32>
}

// -----

func.func @wide_heads(%x: tensor<?x8xbf16>, %w: tensor<1024x8xbf16>) -> tensor<?x1024xbf16> {
  %z = coda.linear %x, %w : (tensor<?x8xbf16>, tensor<1024x8xbf16>) -> tensor<?x1024xbf16>
  %n = coda.rms_norm %z {eps = 1.0e-6 : f64, group = 512 : i64} : (tensor<?x1024xbf16>) -> tensor<?x1024xbf16>
  func.return %n : tensor<?x1024xbf16>
}

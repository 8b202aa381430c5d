// RUN: coda-opt %s --split-input-file --verify-diagnostics

// What the verifiers and parsers of the attributes refuse.

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) {
  // expected-error@below {{schedule: BN is 8, expected a power of two of at least 16}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    schedule<pointer, "16x8x16", warps = 4, stages = 2, group_m = 8>
    columns(%w : tensor<16x8xbf16>)
    -> (tile : tensor<?x16xbf16>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) {
  // expected-error@below {{schedule: wgmma is of attention, expected another main loop}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    schedule<wgmma, "64x64x16", warps = 4, stages = 2, group_m = 8>
    columns(%w : tensor<16x8xbf16>)
    -> (tile : tensor<?x16xbf16>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) {
  // expected-error@below {{schedule: BN is 192, expected a power of two of at least 16}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    schedule<tma, "128x192x64", warps = 8, stages = 2, group_m = 8>
    columns(%w : tensor<16x8xbf16>)
    -> (tile : tensor<?x16xbf16>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) {
  // expected-error@below {{schedule: BM is 48, expected a power of two of at least 16}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    schedule<pointer, "48x16x16", warps = 4, stages = 2, group_m = 8>
    columns(%w : tensor<16x8xbf16>)
    -> (tile : tensor<?x16xbf16>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) {
  // expected-error@below {{schedule: warps is 3, expected 1, 2, 4, 8 or 16}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    schedule<pointer, "16x16x16", warps = 3, stages = 2, group_m = 8>
    columns(%w : tensor<16x8xbf16>)
    -> (tile : tensor<?x16xbf16>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) {
  // expected-error@below {{schedule: stages is 0, expected at least 1}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    schedule<pointer, "16x16x16", warps = 4, stages = 0, group_m = 8>
    columns(%w : tensor<16x8xbf16>)
    -> (tile : tensor<?x16xbf16>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) {
  // expected-error@below {{schedule: group_m is 0, expected at least 1}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    schedule<pointer, "16x16x16", warps = 4, stages = 1, group_m = 0>
    columns(%w : tensor<16x8xbf16>)
    -> (tile : tensor<?x16xbf16>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) {
  // expected-error@below {{schedule: split_k is 65, expected 1 to 64}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    schedule<pointer, "16x16x16", warps = 4, stages = 1, group_m = 8, split_k = 65>
    columns(%w : tensor<16x8xbf16>)
    -> (tile : tensor<?x16xbf16>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) {
  %r = gemm.fused %x : tensor<?x8xbf16>
    // expected-error@below {{unknown main loop 'magic', expected one of pointer, tma}}
    schedule<magic, "16x16x16", warps = 4, stages = 1, group_m = 1>
    columns(%w : tensor<16x8xbf16>)
    -> (tile : tensor<?x16xbf16>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) {
  %r = gemm.fused %x : tensor<?x8xbf16>
    // expected-error@below {{expected a tile shape such as "128x256x64"}}
    schedule<tma, "16x16", warps = 4, stages = 1, group_m = 1>
    columns(%w : tensor<16x8xbf16>)
    -> (tile : tensor<?x16xbf16>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) {
  %r = gemm.fused %x : tensor<?x8xbf16>
    // expected-error@below {{Expected 'warps'}}
    schedule<tma, "16x16x16", stages = 1, group_m = 1>
    columns(%w : tensor<16x8xbf16>)
    -> (tile : tensor<?x16xbf16>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) {
  %r = gemm.fused %x : tensor<?x8xbf16>
    // expected-error@below {{Expected 'halves'}}
    columns(%w : tensor<16x8xbf16>) pair<thirds>
    -> (tile : tensor<?x16xbf16>) {
  ^epilogue(%a: f32, %b: f32):
    gemm.yield %a, %b : f32, f32
  }
  func.return
}

// -----

// expected-error@below {{tuned: measured is 0, expected at least 1}}
func.func @f() attributes {coda.tuned = #gemm.tuned<"H100", rows = 1, predicted = 5, measured = 0, model = 7>} {
  func.return
}

// -----

func.func @f(%x: tensor<1x8xbf16>, %w: tensor<16x8xbf16>) {
  // expected-error@below {{attribute coda.ahead, expected coda.dependent too}}
  %y = gemm.fused %x : tensor<1x8xbf16> columns(%w : tensor<16x8xbf16>) -> (tile : tensor<1x16xbf16>) {
  ^bb0(%acc: f32):
    gemm.yield %acc : f32
  } attributes {coda.ahead}
  func.return
}

// -----

func.func @f(%x: tensor<1x8xbf16>, %w: tensor<16x8xbf16>) {
  // expected-error@below {{attribute coda.ahead, expected none: no GEMM with a known number of rows is before}}
  %y = gemm.fused %x : tensor<1x8xbf16> columns(%w : tensor<16x8xbf16>) -> (tile : tensor<1x16xbf16>) {
  ^bb0(%acc: f32):
    gemm.yield %acc : f32
  } attributes {coda.dependent, coda.ahead}
  func.return
}

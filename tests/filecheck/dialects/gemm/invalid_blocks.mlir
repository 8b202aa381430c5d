// RUN: coda-opt %s --split-input-file --verify-diagnostics

func.func @f(%x: tensor<?x256xf8E4M3FN>, %w: tensor<512x256xf8E4M3FN>, %sx: tensor<?x2xf32>, %sw: tensor<4x2xf32>) {
  // expected-error@below {{0 scales of weights, expected 1, one for each weight where x has scales}}
  %r = gemm.fused %x : tensor<?x256xf8E4M3FN> blocks<128, 128>(%sx : tensor<?x2xf32>) columns(%w : tensor<512x256xf8E4M3FN>) -> (tile : tensor<?x512xbf16>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x256xf8E4M3FN>, %w: tensor<512x256xf8E4M3FN>, %sx: tensor<?x2xf32>, %sw: tensor<4x2xf32>) {
  // expected-error@below {{1 scales of weights, expected 0, one for each weight where x has scales}}
  %r = gemm.fused %x : tensor<?x256xf8E4M3FN> columns(%w : tensor<512x256xf8E4M3FN>) scales(%sw : tensor<4x2xf32>) -> (tile : tensor<?x512xbf16>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x256xf8E4M3FN>, %w: tensor<256x512xf8E4M3FN>, %sx: tensor<?x2xf32>, %sw: tensor<4x2xf32>) {
  // expected-error@below {{a product with scales of blocks has weights of K x N, expected M x K · N x K}}
  %r = gemm.fused %x : tensor<?x256xf8E4M3FN> blocks<128, 128>(%sx : tensor<?x2xf32>) columns(%w : tensor<256x512xf8E4M3FN>) kn scales(%sw : tensor<4x2xf32>) -> (tile : tensor<?x512xbf16>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x256xf8E4M3FN>, %w: tensor<512x256xf8E4M3FN>, %sx: tensor<?x2xf32>, %sw: tensor<4x2xf32>) {
  // expected-error@below {{1 scales of weights, expected 2, one for each weight where x has scales}}
  %r = gemm.fused %x : tensor<?x256xf8E4M3FN> + %x : tensor<?x256xf8E4M3FN> blocks<128, 128>(%sx : tensor<?x2xf32>) columns(%w : tensor<512x256xf8E4M3FN>) + (%w : tensor<512x256xf8E4M3FN>) scales(%sw : tensor<4x2xf32>) -> (tile : tensor<?x512xbf16>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x256xf8E4M3FN>, %w: tensor<512x256xf8E4M3FN>, %sx: tensor<?x2xf32>, %sw: tensor<4x2xf32>, %ids: tensor<?xi64>) {
  // expected-error@below {{a product with scales of blocks gathers or scatters rows, expected M x K · N x K}}
  %r = gemm.fused %x : tensor<?x256xf8E4M3FN> gather(%ids : tensor<?xi64>) blocks<128, 128>(%sx : tensor<?x2xf32>) columns(%w : tensor<512x256xf8E4M3FN>) scales(%sw : tensor<4x2xf32>) -> (tile : tensor<?x512xbf16>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x256xf8E4M3FN>, %w: tensor<512x256xf8E4M3FN>, %sx: tensor<?x2xf32>, %sw: tensor<4x2xf32>) {
  // expected-error@below {{operand weight_scales has shape 4x2, expected 8x2}}
  %r = gemm.fused %x : tensor<?x256xf8E4M3FN> blocks<128, 64>(%sx : tensor<?x2xf32>) columns(%w : tensor<512x256xf8E4M3FN>) scales(%sw : tensor<4x2xf32>) -> (tile : tensor<?x512xbf16>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x256xf8E4M3FN>, %w: tensor<512x256xf8E4M3FN>, %sx: tensor<?x2xf32>, %sw: tensor<4x2xf32>) {
  // expected-error@below {{operand x_scales has shape ?x2, expected ?x4}}
  %r = gemm.fused %x : tensor<?x256xf8E4M3FN> blocks<64, 128>(%sx : tensor<?x2xf32>) columns(%w : tensor<512x256xf8E4M3FN>) scales(%sw : tensor<4x2xf32>) -> (tile : tensor<?x512xbf16>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x256xf8E4M3FN>, %w: tensor<512x256xf8E4M3FN>, %sx: tensor<?x2xf32>, %sw: tensor<4x2xf32>) {
  // expected-error@below {{order: depth is 256, expected at most 128, K of a block}}
  %r = gemm.fused %x : tensor<?x256xf8E4M3FN> blocks<128, 128>(%sx : tensor<?x2xf32>) order<depth = 256, columns = 64, rows = 64> columns(%w : tensor<512x256xf8E4M3FN>) scales(%sw : tensor<4x2xf32>) -> (tile : tensor<?x512xbf16>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x320xbf16>, %w: tensor<40x64xi32>, %s: tensor<3x64xf16>, %z: tensor<3x8xi32>) {
  // expected-error@below {{0 scales of weights, expected 1, one for each weight where x has scales}}
  %r = gemm.fused %x : tensor<?x320xbf16> quantized<128, "k01234567"> columns(%w : tensor<40x64xi32>) kn  -> (tile : tensor<?x64xbf16>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x320xbf16>, %w: tensor<40x64xi32>, %s: tensor<3x64xf16>, %z: tensor<3x8xi32>) {
  // expected-error@below {{1 zero points, expected one for each quantized weight, or none}}
  %r = gemm.fused %x : tensor<?x320xbf16>  columns(%w : tensor<40x64xi32>) kn zeros(%z : tensor<3x8xi32>) -> (tile : tensor<?x64xbf16>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x320xbf16>, %w: tensor<40x64xi32>, %s: tensor<3x64xf16>, %z: tensor<3x8xi32>) {
  // expected-error@below {{operand scales has shape 3x64, expected 5x64}}
  %r = gemm.fused %x : tensor<?x320xbf16> quantized<64, "k01234567"> columns(%w : tensor<40x64xi32>) kn scales(%s : tensor<3x64xf16>) -> (tile : tensor<?x64xbf16>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x320xbf16>, %w: tensor<40x64xi32>, %s: tensor<5x64xf16>, %z: tensor<3x8xi32>) {
  // expected-error@below {{operand zeros has shape 3x8, expected 5x8}}
  %r = gemm.fused %x : tensor<?x320xbf16> quantized<64, "k01234567"> columns(%w : tensor<40x64xi32>) kn scales(%s : tensor<5x64xf16>) zeros(%z : tensor<3x8xi32>) -> (tile : tensor<?x64xbf16>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

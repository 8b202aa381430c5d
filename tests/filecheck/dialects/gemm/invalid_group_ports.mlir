// RUN: coda-opt %s --split-input-file --verify-diagnostics

// What the verifier refuses of ports and results with an element for each group of columns.

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %p: tensor<?x3xf32>) {
  // expected-error@below {{port 0 (group) has 3 columns, expected a divisor of the 16 columns}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>) group(%p : tensor<?x3xf32>)
    -> (tile : tensor<?x16xbf16>) {
  ^epilogue(%acc: f32, %q: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<?x8xbf16>, %p: tensor<?x4xf32>) {
  // expected-error@below {{port 0 (group) is over a symbolic number of columns, expected a number}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<?x8xbf16>) group(%p : tensor<?x4xf32>)
    -> (tile : tensor<?x?xbf16>) {
  ^epilogue(%acc: f32, %q: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<2x3x8xbf16>, %w: tensor<16x8xbf16>, %p: tensor<3x1x4xf32>) {
  // expected-error@below {{port 0 (group) has rows 3x1, expected extents of 2x3 or 1}}
  %r = gemm.fused %x : tensor<2x3x8xbf16>
    columns(%w : tensor<16x8xbf16>) group(%p : tensor<3x1x4xf32>)
    -> (tile : tensor<2x3x16xbf16>) {
  ^epilogue(%acc: f32, %q: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %p: tensor<?x4xf32>) {
  // expected-error@below {{port 0 (half_group) is a pair port, expected only in pair mode}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>) half_group(%p : tensor<?x4xf32>)
    -> (tile : tensor<?x16xbf16>) {
  ^epilogue(%acc: f32, %q: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %p: tensor<?x16xf32>) {
  // expected-error@below {{port 0 (half_group) has 16 columns, expected a divisor of the 8 columns}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>) pair<halves> half_group(%p : tensor<?x16xf32>)
    -> (half : tensor<?x8xbf16>) {
  ^epilogue(%a: f32, %b: f32, %q: f32):
    gemm.yield %q : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %p: tensor<?x4xf32>) {
  // expected-error@below {{result 0 (group) differs from group of 4 columns to group of 4 columns, expected one value on all 8 columns, as gemm.group_reduce over 8 computes it}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>) group(%p : tensor<?x4xf32>)
    -> (group<8> : tensor<?x2xf32>) {
  ^epilogue(%acc: f32, %q: f32):
    gemm.yield %q : f32
  }
  func.return
}

// -----

// The two columns of a pair are in different groups: pairs next to each other are not.

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %p: tensor<?x4xf32>) {
  // expected-error@below {{result 0 (group) differs from column to column, expected one value on all 4 columns, as gemm.group_reduce over 4 computes it}}
  %r = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>) pair<halves> group(%p : tensor<?x4xf32>)
    -> (group<4> : tensor<?x4xf32>) {
  ^epilogue(%a: f32, %b: f32, %q: f32, %r: f32):
    gemm.yield %q : f32
  }
  func.return
}

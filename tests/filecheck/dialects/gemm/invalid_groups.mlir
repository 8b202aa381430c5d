// RUN: coda-opt %s --split-input-file --verify-diagnostics

// What is refused of results for groups of columns.

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) {
  // expected-error@below {{result 0 (group) differs from column to column, expected what is the same on 4 columns, as gemm.group_reduce over 4 makes it}}
  %y = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>)
    -> (group<4> : tensor<?x4xf32>) {
  ^epilogue(%acc: f32):
    gemm.yield %acc : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) {
  // expected-error@below {{result 0 (group) differs from group of 2 columns to group of 2 columns, expected what is the same on 4 columns}}
  %y = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>)
    -> (group<4> : tensor<?x4xf32>) {
  ^epilogue(%acc: f32):
    %s = gemm.group_reduce add %acc over 2 : f32
    %t = gemm.group_reduce add %acc over 4 : f32
    %u = arith.addf %s, %t : f32
    gemm.yield %u : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) {
  // expected-error@below {{result 0 (group) has shape ?x16, expected ?x4}}
  %y = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>)
    -> (group<4> : tensor<?x16xf32>) {
  ^epilogue(%acc: f32):
    %s = gemm.group_reduce add %acc over 4 : f32
    gemm.yield %s : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) {
  // expected-error@below {{result 0 (group) has element type bf16, expected f32}}
  %y = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>)
    -> (group<4> : tensor<?x4xbf16>) {
  ^epilogue(%acc: f32):
    %s = gemm.group_reduce add %acc over 4 : f32
    gemm.yield %s : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) {
  // expected-error@below {{result 0 (group) is over 5 columns, expected a divisor of 16}}
  %y = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>)
    -> (group<5> : tensor<?x3xf32>) {
  ^epilogue(%acc: f32):
    %s = arith.constant 1.0 : f32
    gemm.yield %s : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<18x8xbf16>) {
  // expected-error@below {{result 0 (group) is over 3 columns, expected whole pairs of them}}
  %y = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<18x8xbf16>) pair<adjacent>
    -> (group<3> : tensor<?x6xf32>) {
  ^epilogue(%a: f32, %b: f32):
    %s = arith.constant 1.0 : f32
    gemm.yield %s : f32
  }
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) {
  %y = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>)
    // expected-error@below {{group<0>: expected at least 1 column}}
    -> (group<0> : tensor<?x6xf32>) {
  ^epilogue(%a: f32):
    gemm.yield %a : f32
  }
  func.return
}

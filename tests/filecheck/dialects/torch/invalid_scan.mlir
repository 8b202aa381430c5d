// RUN: coda-opt %s --split-input-file --verify-diagnostics

func.func @f(%a: tensor<f32>) {
  // expected-error@below {{operand x has rank 0, expected at least 1}}
  %h = torch.linear_scan %a, %a : (tensor<f32>, tensor<f32>) -> tensor<f32>
  func.return
}

// -----

func.func @f(%a: tensor<?x1xf32>, %x: tensor<?x8xf32>) {
  // expected-error@below {{operand a has shape ?x1, expected ?x8}}
  %h = torch.linear_scan %a, %x : (tensor<?x1xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  func.return
}

// -----

func.func @f(%a: tensor<?x8xf32>, %x: tensor<?x8xbf16>) {
  // expected-error@below {{operand a has element type f32, expected bf16}}
  %h = torch.linear_scan %a, %x : (tensor<?x8xf32>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>) {
  // expected-error@below {{result has element type f32, expected bf16}}
  %h = torch.linear_scan %x, %x : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xf32>
  func.return
}

// RUN: coda-opt %s --split-input-file --verify-diagnostics

func.func @f(%x: tensor<?x8xbf16>, %y: tensor<4xf32>) {
  // expected-error@below {{result has shape ?x4, expected ?x8}}
  %r = coda.barrier %x, %y : (tensor<?x8xbf16>, tensor<4xf32>) -> tensor<?x4xbf16>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xbf16>, %y: tensor<4xf32>) {
  // expected-error@below {{result has element type f32, expected bf16}}
  %r = coda.barrier %x, %y : (tensor<?x8xbf16>, tensor<4xf32>) -> tensor<?x8xf32>
  func.return
}

// Backward passes, as the gradients of functions have them.

func.func @backward(%h: tensor<?x?x64xbf16> {coda.name = "h", coda.dims = ["B", "T", 64]}, %dq: tensor<?x?x64xbf16> {coda.name = "dq", coda.dims = ["B", "T", 64]}, %dk: tensor<?x?x32xbf16>, %dv: tensor<?x?x32xbf16>, %wq: tensor<64x64xbf16>, %wk: tensor<32x64xbf16>, %wv: tensor<32x64xbf16>, %res: tensor<?x?x64xbf16>) -> (tensor<?x?x64xbf16>, tensor<64x64xbf16>, tensor<32x64xbf16>, tensor<32x64xf32>, tensor<64xbf16>) {
  %a = coda.matmul %dq, %wq : (tensor<?x?x64xbf16>, tensor<64x64xbf16>) -> tensor<?x?x64xbf16>
  %b = coda.matmul %dk, %wk : (tensor<?x?x32xbf16>, tensor<32x64xbf16>) -> tensor<?x?x64xbf16>
  %c = coda.matmul %dv, %wv : (tensor<?x?x32xbf16>, tensor<32x64xbf16>) -> tensor<?x?x64xbf16>
  %ab = coda.add %a, %b : (tensor<?x?x64xbf16>, tensor<?x?x64xbf16>) -> tensor<?x?x64xbf16>
  %abr = coda.add %ab, %res : (tensor<?x?x64xbf16>, tensor<?x?x64xbf16>) -> tensor<?x?x64xbf16>
  %dh = coda.add %abr, %c : (tensor<?x?x64xbf16>, tensor<?x?x64xbf16>) -> tensor<?x?x64xbf16>
  %dwq = coda.weight_gradient %dq, %h : (tensor<?x?x64xbf16>, tensor<?x?x64xbf16>) -> tensor<64x64xbf16>
  %dwk = coda.weight_gradient %dk, %h : (tensor<?x?x32xbf16>, tensor<?x?x64xbf16>) -> tensor<32x64xbf16>
  %dwv = coda.weight_gradient %dv, %h : (tensor<?x?x32xbf16>, tensor<?x?x64xbf16>) -> tensor<32x64xf32>
  %db = coda.sum_to %dh : (tensor<?x?x64xbf16>) -> tensor<64xbf16>
  func.return %dh, %dwq, %dwk, %dwv, %db : tensor<?x?x64xbf16>, tensor<64x64xbf16>, tensor<32x64xbf16>, tensor<32x64xf32>, tensor<64xbf16>
}

// -----

// The gradient of a weight with two uses, added to what is there, and the sums of gated columns.

func.func @tied(%dy: tensor<?x16xf32>, %dz: tensor<?x16xf32>, %x: tensor<?x8xf32>, %y: tensor<?x8xf32>, %old: tensor<16x8xf32>, %w: tensor<16x8xf32>) -> (tensor<16x8xf32>, tensor<16x8xf32>, tensor<8xf32>) {
  %a = coda.weight_gradient %dy, %x : (tensor<?x16xf32>, tensor<?x8xf32>) -> tensor<16x8xf32>
  %b = coda.weight_gradient %dz, %y : (tensor<?x16xf32>, tensor<?x8xf32>) -> tensor<16x8xf32>
  %ab = coda.add %a, %b : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  %dw = coda.add %old, %ab : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  %dv = coda.weight_gradient %dz, %x : (tensor<?x16xf32>, tensor<?x8xf32>) -> tensor<16x8xf32>
  %dx = coda.matmul %dy, %w : (tensor<?x16xf32>, tensor<16x8xf32>) -> tensor<?x8xf32>
  %g = coda.mul %dx, %x : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %dgamma = coda.sum_to %g : (tensor<?x8xf32>) -> tensor<8xf32>
  func.return %dw, %dv, %dgamma : tensor<16x8xf32>, tensor<16x8xf32>, tensor<8xf32>
}

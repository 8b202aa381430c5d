// RUN: coda-opt %s -p report-unfused --split-input-file | filecheck %s
// RUN: coda-opt %s -p report-unfused --split-input-file --remarks -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// The pass changes nothing: it names what runs outside of a GEMM by design.

func.func @by_design(%i: tensor<?xi64>, %e: tensor<50x8xf32>) -> tensor<?x16xf32> {
  %x = coda.embedding %i, %e : (tensor<?xi64>, tensor<50x8xf32>) -> tensor<?x8xf32>
  %o = coda.attention %x, %x, %x {head_dim = 4 : i64, causal = true} : (tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %s = coda.softmax %o : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %c = coda.concat %s, %x {dim = 1 : i64} : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x16xf32>
  func.return %c : tensor<?x16xf32>
}

// REMARK: remark[missed] report-unfused: coda.embedding: runs as PyTorch's embedding; failed condition: its rows are computed, not looked up in a table; costs 72*d0 bytes
// REMARK: remark[missed] report-unfused: coda.attention: runs as PyTorch's scaled dot-product attention; failed condition: a row does not depend on other rows of the sequence; costs 64*d0 bytes
// REMARK: remark[missed] report-unfused: coda.softmax: softmax runs as a separate kernel over whole rows; failed condition: the whole row is on chip; costs 64*d0 bytes
// REMARK: remark[missed] report-unfused: coda.concat: copies its parts; failed condition: the parts are read in place; costs 128*d0 bytes
// CHECK:      func.func @by_design(
// CHECK-NEXT:   %x = coda.embedding %i, %e : (tensor<?xi64>, tensor<50x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %o = coda.attention %x, %x, %x {head_dim = 4 : i64, causal = true} : (tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %s = coda.softmax %o : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %c = coda.concat %s, %x {dim = 1 : i64} : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   func.return %c : tensor<?x16xf32>
// CHECK-NEXT: }

// -----

// Reductions of what is no tile.

func.func @reductions(%x: tensor<?x8xf32>) -> (tensor<?x1xf32>, tensor<?x1xf32>) {
  %m = coda.reduce %x {kind = "max"} : (tensor<?x8xf32>) -> tensor<?x1xf32>
  %r = coda.norm_stats %x {kind = "rms", eps = 1.0e-6 : f64} : (tensor<?x8xf32>) -> tensor<?x1xf32>
  func.return %m, %r : tensor<?x1xf32>, tensor<?x1xf32>
}

// REMARK: remark[missed] report-unfused: coda.reduce: the reduction runs as a separate kernel; failed condition: the operand is a tile of a kernel in the same function; costs 36*d0 bytes
// REMARK: remark[missed] report-unfused: coda.norm_stats: the reduction runs as a separate kernel; failed condition: the operand is a tile of a kernel in the same function; costs 36*d0 bytes
// CHECK:      func.func @reductions(
// CHECK-NEXT:   %m = coda.reduce %x {kind = "max"} : (tensor<?x8xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   %r = coda.norm_stats %x {kind = "rms", eps = 1.000000e-06 : f64} : (tensor<?x8xf32>) -> tensor<?x1xf32>
// CHECK-NEXT:   func.return %m, %r : tensor<?x1xf32>, tensor<?x1xf32>
// CHECK-NEXT: }

// -----

// What PyTorch cannot repeat bit by bit on a GPU. Integers it can, and what it can if it is asked, it is asked for.

func.func @not_deterministic(%x: tensor<?x8xf32>, %i: tensor<?x8xi64>) -> (tensor<?x8xf32>, tensor<?x8xi64>, tensor<?x8xf32>, tensor<?x8xf32>) {
  %a = torch.call "aten.cumsum.default"(%x) {arguments = "{0}, 0"} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %b = torch.call "aten.cumsum.default"(%i) {arguments = "{0}, 0"} : (tensor<?x8xi64>) -> tensor<?x8xi64>
  %c = torch.call "aten.scatter_add.default"(%x, %i, %a) {arguments = "{0}, 0, {1}, {2}"} : (tensor<?x8xf32>, tensor<?x8xi64>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %d = torch.vjp "aten.cumsum.default"(%x : tensor<?x8xf32>) of(%a : tensor<?x8xf32>) {arguments = "{0}, 0", of = [0], wrt = [0]} -> tensor<?x8xf32>
  func.return %a, %b, %c, %d : tensor<?x8xf32>, tensor<?x8xi64>, tensor<?x8xf32>, tensor<?x8xf32>
}

// REMARK: remark[missed] report-unfused: torch.call: aten.cumsum.default runs in eager PyTorch;
// REMARK: remark[analysis] report-unfused: torch.call: aten.cumsum.default is not deterministic on GPUs: PyTorch has no algorithm with a fixed order, and warns when it runs
// REMARK: remark[missed] report-unfused: torch.call: aten.cumsum.default runs in eager PyTorch;
// REMARK-NOT: not deterministic
// REMARK: remark[missed] report-unfused: torch.call: aten.scatter_add.default runs in eager PyTorch;
// REMARK-NOT: not deterministic
// REMARK: remark[missed] report-unfused: torch.vjp: aten.cumsum.default is differentiated by autograd, which recomputes it;
// REMARK: remark[analysis] report-unfused: torch.vjp: aten.cumsum.default is not deterministic on GPUs
// CHECK:      func.func @not_deterministic(
// CHECK-NEXT:   %a = torch.call "aten.cumsum.default"(%x) {arguments = "{0}, 0"} : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %b = torch.call "aten.cumsum.default"(%i) {arguments = "{0}, 0"} : (tensor<?x8xi64>) -> tensor<?x8xi64>
// CHECK-NEXT:   %c = torch.call "aten.scatter_add.default"(%x, %i, %a) {arguments = "{0}, 0, {1}, {2}"} : (tensor<?x8xf32>, tensor<?x8xi64>, tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %d = torch.vjp "aten.cumsum.default"(%x : tensor<?x8xf32>) of(%a : tensor<?x8xf32>) {arguments = "{0}, 0", of = [0 : i64], wrt = [0 : i64]} -> tensor<?x8xf32>
// CHECK-NEXT:   func.return %a, %b, %c, %d : tensor<?x8xf32>, tensor<?x8xi64>, tensor<?x8xf32>, tensor<?x8xf32>
// CHECK-NEXT: }

// -----

// Kernels compute in float32.

func.func @float64(%x: tensor<?x8xf64>) -> tensor<?x8xf32> {
  %a = coda.exp %x : (tensor<?x8xf64>) -> tensor<?x8xf64>
  %b = coda.cast %a : (tensor<?x8xf64>) -> tensor<?x8xf32>
  %c = coda.exp %b : (tensor<?x8xf32>) -> tensor<?x8xf32>
  func.return %c : tensor<?x8xf32>
}

// REMARK: remark[missed] report-unfused: coda.exp: runs in eager PyTorch: it computes in f64; failed condition: float32 can represent every value; costs 128*d0 bytes
// REMARK: remark[missed] report-unfused: coda.cast: runs in eager PyTorch: it computes in f64; failed condition: float32 can represent every value; costs 96*d0 bytes
// CHECK:      func.func @float64(
// CHECK-NEXT:   %a = coda.exp %x : (tensor<?x8xf64>) -> tensor<?x8xf64>
// CHECK-NEXT:   %b = coda.cast %a : (tensor<?x8xf64>) -> tensor<?x8xf32>
// CHECK-NEXT:   %c = coda.exp %b : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   func.return %c : tensor<?x8xf32>
// CHECK-NEXT: }

// -----

// Whole rows, for which there may be something that fuses.

func.func @order(%x: tensor<4x4096xf32>) -> (tensor<4x2xf32>, tensor<4x4096xf32>) {
  %v, %i = coda.topk %x {k = 2 : i64, dim = 1 : i64} : (tensor<4x4096xf32>) -> (tensor<4x2xf32>, tensor<4x2xi64>)
  %s, %j = coda.sort %x {dim = 1 : i64, descending = false} : (tensor<4x4096xf32>) -> (tensor<4x4096xf32>, tensor<4x4096xi64>)
  func.return %v, %s : tensor<4x2xf32>, tensor<4x4096xf32>
}

// REMARK: remark[missed] report-unfused: coda.topk: {{.*}} failed condition: the position of an element does not depend on the other elements of its row;
// REMARK:   help: use the maximum of the row if only the largest value is needed: it fuses
// REMARK: remark[missed] report-unfused: coda.sort: runs as a library call: PyTorch's sort; failed condition: the position of an element does not depend on the other elements of its row;
// REMARK:   help: use topk if only the first elements are needed, or max or min for one of them
// CHECK:      func.func @order(
// CHECK-NEXT:   %v, %i = coda.topk
// CHECK-NEXT:   %s, %j = coda.sort
// CHECK-NEXT:   func.return
// CHECK-NEXT: }

// -----

// Products of activations: of small matrices, in a kernel, and of large ones, in the library.

func.func @products(%a: tensor<3x5x4xbf16>, %b: tensor<3x4x64xbf16>, %c: tensor<3x128x128xbf16>) -> (tensor<3x5x64xbf16>, tensor<3x128x128xbf16>) {
  %y = torch.call "aten.bmm.default"(%a, %b) {arguments = "{0}, {1}"} : (tensor<3x5x4xbf16>, tensor<3x4x64xbf16>) -> tensor<3x5x64xbf16>
  %z = torch.call "aten.bmm.default"(%c, %c) {arguments = "{0}, {1}"} : (tensor<3x128x128xbf16>, tensor<3x128x128xbf16>) -> tensor<3x128x128xbf16>
  func.return %y, %z : tensor<3x5x64xbf16>, tensor<3x128x128xbf16>
}

// REMARK: remark[missed] report-unfused: torch.call: a product of activations runs as a separate kernel; failed condition: an operand is a weight, K x N; costs 3576 bytes
// REMARK: remark[missed] report-unfused: torch.call: a product of activations is a library call; failed condition: an operand is a weight, K x N; costs 196608 bytes
// CHECK:      func.func @products(
// CHECK-NEXT:   %y = torch.call "aten.bmm.default"(%a, %b) {arguments = "{0}, {1}"} : (tensor<3x5x4xbf16>, tensor<3x4x64xbf16>) -> tensor<3x5x64xbf16>
// CHECK-NEXT:   %z = torch.call "aten.bmm.default"(%c, %c) {arguments = "{0}, {1}"} : (tensor<3x128x128xbf16>, tensor<3x128x128xbf16>) -> tensor<3x128x128xbf16>
// CHECK-NEXT:   func.return %y, %z : tensor<3x5x64xbf16>, tensor<3x128x128xbf16>
// CHECK-NEXT: }

// RUN: coda-opt %s -p report-unfused --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s

// Gradients that are kernels of their own, and the order of rows by group.

func.func @gradients(%i: tensor<?xi64>, %dy: tensor<?x8xbf16>) -> (tensor<50x8xbf16>, tensor<?xi64>, tensor<4xi32>) {
  %d = coda.embedding_grad %i, %dy : (tensor<?xi64>, tensor<?x8xbf16>) -> tensor<50x8xbf16>
  %order, %ends = coda.group_order %i {groups = 4 : i64} : (tensor<?xi64>) -> (tensor<?xi64>, tensor<4xi32>)
  func.return %d, %order, %ends : tensor<50x8xbf16>, tensor<?xi64>, tensor<4xi32>
}

// CHECK:      remark[missed] report-unfused: coda.embedding_grad: adds up rows in a separate kernel, in the order of the sorted ids; failed condition: the destination of a row is known before its id is read; costs 8*d0 + 16*d1 + 800 bytes
// CHECK:      remark[missed] report-unfused: coda.group_order: sorts and counts rows by group in separate kernels; failed condition: the position of a row does not depend on other rows; costs 16*d0 + 16 bytes

// -----

// Scans go backward over the sequence.

func.func @scans(%y: tensor<?x?x64xbf16>, %u: tensor<?x?x64xbf16>, %dt: tensor<?x?x64xf32>, %a: tensor<64x16xf32>, %b: tensor<?x?x16xbf16>) -> (tensor<?x?x64xbf16>) {
  %g:5 = coda.selective_scan_grad %y, %u, %dt, %a, %b, %b : (tensor<?x?x64xbf16>, tensor<?x?x64xbf16>, tensor<?x?x64xf32>, tensor<64x16xf32>, tensor<?x?x16xbf16>, tensor<?x?x16xbf16>) -> (tensor<?x?x64xbf16>, tensor<?x?x64xf32>, tensor<64x16xf32>, tensor<?x?x16xbf16>, tensor<?x?x16xbf16>)
  func.return %g#0 : tensor<?x?x64xbf16>
}

func.func @heads(%y: tensor<?x?x64xbf16>, %dt: tensor<?x?x4xf32>, %a: tensor<4xf32>, %b: tensor<?x?x32xbf16>) -> (tensor<?x?x64xbf16>) {
  %g:5 = coda.ssd_grad %y, %y, %dt, %a, %b, %b {states = 16 : i64} : (tensor<?x?x64xbf16>, tensor<?x?x64xbf16>, tensor<?x?x4xf32>, tensor<4xf32>, tensor<?x?x32xbf16>, tensor<?x?x32xbf16>) -> (tensor<?x?x64xbf16>, tensor<?x?x4xf32>, tensor<4xf32>, tensor<?x?x32xbf16>, tensor<?x?x32xbf16>)
  func.return %g#0 : tensor<?x?x64xbf16>
}

func.func @delta(%q: tensor<?x?x8xbf16>, %v: tensor<?x?x16xbf16>, %beta: tensor<?x?x4xf32>) -> (tensor<?x?x16xbf16>, tensor<?x?x8xbf16>) {
  %y = coda.delta_rule %q, %q, %v, %beta, %beta {head_dim = 4 : i64} : (tensor<?x?x8xbf16>, tensor<?x?x8xbf16>, tensor<?x?x16xbf16>, tensor<?x?x4xf32>, tensor<?x?x4xf32>) -> tensor<?x?x16xbf16>
  %g:5 = coda.delta_rule_grad %y, %q, %q, %v, %beta, %beta {head_dim = 4 : i64} : (tensor<?x?x16xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>, tensor<?x?x16xbf16>, tensor<?x?x4xf32>, tensor<?x?x4xf32>) -> (tensor<?x?x8xbf16>, tensor<?x?x8xbf16>, tensor<?x?x16xbf16>, tensor<?x?x4xf32>, tensor<?x?x4xf32>)
  func.return %y, %g#0 : tensor<?x?x16xbf16>, tensor<?x?x8xbf16>
}

// CHECK:      remark[missed] report-unfused: coda.selective_scan_grad: runs as separate kernels, which recompute the states; failed condition: a row does not depend on other rows of the sequence; costs 128*d0*d1 + 256*d2*d3 + 512*d4*d5 + 96*d6*d7 + 8192 bytes
// CHECK:      remark[missed] report-unfused: coda.ssd_grad: runs as separate kernels, which recompute the states; failed condition: a row does not depend on other rows of the sequence; costs 256*d0*d1 + 32*d2*d3 + 192*d4*d5 + 32 bytes
// CHECK:      remark[missed] report-unfused: coda.delta_rule: runs as separate kernels over chunks of the sequence; failed condition: a row does not depend on other rows of the sequence; costs 16*d0*d1 + 64*d2*d3 + 16*d4*d5 bytes
// CHECK:      remark[missed] report-unfused: coda.delta_rule_grad: runs as separate kernels, which recompute the states; failed condition: a row does not depend on other rows of the sequence; costs 48*d0*d1 + 96*d2*d3 + 48*d4*d5 bytes

// -----

// The gradient of a maximum in float64.

func.func @maximum(%x: tensor<?x8xf64>) -> tensor<?x8xf64> {
  %a = coda.maximum_grad %x, %x, %x : (tensor<?x8xf64>, tensor<?x8xf64>, tensor<?x8xf64>) -> tensor<?x8xf64>
  func.return %a : tensor<?x8xf64>
}

// CHECK:      remark[missed] report-unfused: coda.maximum_grad: runs in eager PyTorch: it computes in f64; failed condition: float32 can represent every value; costs 128*d0 bytes
// CHECK:        help: convert to float32 first, if its precision is sufficient

// -----

// Neither a barrier nor an extent is an operator that runs, but both keep others apart.

func.func @between(%x: tensor<?x8xf32>, %w: tensor<16x8xf32>) -> (tensor<?x16xf32>, tensor<?x16xf32>) {
  %z = gemm.fused %x : tensor<?x8xf32>
    columns(%w : tensor<16x8xf32>)
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %b = coda.barrier %z, %x : (tensor<?x16xf32>, tensor<?x8xf32>) -> tensor<?x16xf32>
  %s = gemm.map tile(%b : tensor<?x16xf32>)
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%b_1: f32):
      %s_1 = math.exp %b_1 : f32
      gemm.yield %s_1 : f32
    }
  %m = coda.extent %z {dim = 0 : i64} : (tensor<?x16xf32>) -> tensor<i64>
  %y = gemm.map tile(%z : tensor<?x16xf32>) scalar(%m : tensor<i64>)
      -> (tile : tensor<?x16xf32>) {
    ^bb0(%z_1: f32, %m_1: i64):
      %f = arith.sitofp %m_1 : i64 to f32
      %y_1 = arith.divf %z_1, %f : f32
      gemm.yield %y_1 : f32
    }
  func.return %s, %y : tensor<?x16xf32>, tensor<?x16xf32>
}

// CHECK:      remark[missed] report-unfused: gemm.map: a pointwise kernel reads only results of coda.barrier; failed condition: an operand is the tile of a GEMM; costs 128*d0 bytes
// CHECK:      remark[missed] report-unfused: gemm.map: another operand depends on the complete result of the kernel that computes %z; failed condition: no other operand depends on that kernel; costs 128*d0 + 8 bytes

// -----

// A scan forward over the sequence.

func.func @model(%x: tensor<?x?x64xbf16>, %dt: tensor<?x?x4xf32>, %a: tensor<4xf32>, %b: tensor<?x?x32xbf16>) -> tensor<?x?x64xbf16> {
  %y = coda.ssd %x, %dt, %a, %b, %b {states = 16 : i64} : (tensor<?x?x64xbf16>, tensor<?x?x4xf32>, tensor<4xf32>, tensor<?x?x32xbf16>, tensor<?x?x32xbf16>) -> tensor<?x?x64xbf16>
  func.return %y : tensor<?x?x64xbf16>
}

// CHECK:      remark[missed] report-unfused: coda.ssd: runs as separate kernels over chunks of the sequence; failed condition: a row does not depend on other rows of the sequence; costs 256*d0*d1 + 16*d2*d3 + 64*d4*d5 + 16 bytes

// -----

// Pointwise operators on arguments, in a function whose code was not outlined.

func.func @left(%x: tensor<?x4x5x8xf32>, %m: tensor<?x1x5x8xf32>, %p: tensor<?x4x5x8xi1>, %n: tensor<?x8xi64>) -> (tensor<?x4x5x8xf32>, tensor<?x4x5x8xf32>, tensor<?x4x5x8xi1>, tensor<?x8xi64>) {
  %a = coda.minimum %x, %m : (tensor<?x4x5x8xf32>, tensor<?x1x5x8xf32>) -> tensor<?x4x5x8xf32>
  %b = coda.atan2 %x, %m : (tensor<?x4x5x8xf32>, tensor<?x1x5x8xf32>) -> tensor<?x4x5x8xf32>
  %c = coda.logical_and %p, %p : (tensor<?x4x5x8xi1>, tensor<?x4x5x8xi1>) -> tensor<?x4x5x8xi1>
  %d = coda.logical_or %p, %c : (tensor<?x4x5x8xi1>, tensor<?x4x5x8xi1>) -> tensor<?x4x5x8xi1>
  %e = coda.logical_xor %p, %d : (tensor<?x4x5x8xi1>, tensor<?x4x5x8xi1>) -> tensor<?x4x5x8xi1>
  %f = coda.logical_not %e : (tensor<?x4x5x8xi1>) -> tensor<?x4x5x8xi1>
  %g = coda.floor_divide %n, %n : (tensor<?x8xi64>, tensor<?x8xi64>) -> tensor<?x8xi64>
  func.return %a, %b, %f, %g : tensor<?x4x5x8xf32>, tensor<?x4x5x8xf32>, tensor<?x4x5x8xi1>, tensor<?x8xi64>
}

// CHECK:      remark[missed] report-unfused: coda.minimum: no operand is the tile of a kernel to fuse into; failed condition: an operand is computed by a GEMM or a pointwise kernel of the same function; costs 1280*d0 + 160*d1 bytes
// CHECK:      remark[missed] report-unfused: coda.atan2: no operand is the tile of a kernel to fuse into; failed condition: an operand is computed by a GEMM or a pointwise kernel of the same function; costs 1280*d0 + 160*d1 bytes
// CHECK:      remark[missed] report-unfused: coda.logical_and: no operand is the tile of a kernel to fuse into; failed condition: an operand is computed by a GEMM or a pointwise kernel of the same function; costs 320*d2 bytes
// CHECK:      remark[missed] report-unfused: coda.logical_or: no operand is the tile of a kernel to fuse into; failed condition: an operand is computed by a GEMM or a pointwise kernel of the same function; costs 480*d2 bytes
// CHECK:      remark[missed] report-unfused: coda.logical_xor: no operand is the tile of a kernel to fuse into; failed condition: an operand is computed by a GEMM or a pointwise kernel of the same function; costs 480*d2 bytes
// CHECK:      remark[missed] report-unfused: coda.logical_not: no operand is the tile of a kernel to fuse into; failed condition: an operand is computed by a GEMM or a pointwise kernel of the same function; costs 320*d2 bytes
// CHECK:      remark[missed] report-unfused: coda.floor_divide: no operand is the tile of a kernel to fuse into; failed condition: an operand is computed by a GEMM or a pointwise kernel of the same function; costs 128*d3 bytes

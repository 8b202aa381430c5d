// RUN: coda-opt %s -p "schedule{target=sm_90 mainloop=warp_specialized}" --split-input-file | filecheck %s
// RUN: coda-opt %s -p "schedule{target=sm_90 mainloop=warp_specialized}" --split-input-file --remarks -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK
// RUN: coda-opt %s -p "schedule{target=sm_90 mainloop=warp_specialized gemms=fused}" --split-input-file | filecheck %s --check-prefix=FUSED
// RUN: coda-opt %s -p "schedule{target=sm_90 mainloop=warp_specialized sizes=\"T=1\"}" --split-input-file | filecheck %s --check-prefix=FEW

// A norm of heads of 80 columns, which take tiles of 128: its epilogue is a kernel of its own, but
// for few rows, whose weights take longer to read than to multiply.

// CHECK-LABEL: func.func @heads_of_80
// CHECK:      schedule<warp_specialized, "128x256x64", warps = 8, stages = 3, group_m = 8>
// CHECK:      gemm.map tile(%product : tensor<?x2560xbf16>)
// REMARK: remark[analysis] schedule: gemm.fused: its epilogue is a separate kernel: groups of columns in tiles of a power of two would leave 38% of the products unused
// FUSED-LABEL: func.func @heads_of_80
// FUSED-NOT:  gemm.map
// FEW-LABEL: func.func @heads_of_80
// FEW-NOT:    gemm.map
func.func @heads_of_80(%x: tensor<?x320xbf16> {coda.dims = ["T", 320 : i64]}, %w: tensor<2560x320xbf16>) -> tensor<?x2560xbf16> {
  %z = gemm.fused %x : tensor<?x320xbf16>
    columns(%w : tensor<2560x320xbf16>)
      -> (tile : tensor<?x2560xbf16>) {
    ^bb0(%a: f32):
      %square = arith.mulf %a, %a : f32
      %sum = gemm.group_reduce add %square over 80 : f32
      %rstd = math.rsqrt %sum : f32
      %y = arith.mulf %a, %rstd : f32
      gemm.yield %y : f32
    }
  func.return %z : tensor<?x2560xbf16>
}

// -----

// Heads of 128 columns, which no lane is added to.

// CHECK-LABEL: func.func @heads_of_128
// FEW-LABEL: func.func @heads_of_128
// CHECK-NOT:  gemm.map
func.func @heads_of_128(%x: tensor<?x320xbf16>, %w: tensor<2560x320xbf16>) -> tensor<?x2560xbf16> {
  %z = gemm.fused %x : tensor<?x320xbf16>
    columns(%w : tensor<2560x320xbf16>)
      -> (tile : tensor<?x2560xbf16>) {
    ^bb0(%a: f32):
      %square = arith.mulf %a, %a : f32
      %sum = gemm.group_reduce add %square over 128 : f32
      %rstd = math.rsqrt %sum : f32
      %y = arith.mulf %a, %rstd : f32
      gemm.yield %y : f32
    }
  func.return %z : tensor<?x2560xbf16>
}

// -----

// The code of all accumulators of a thread does not fit into the cache of instructions.

// CHECK-LABEL: func.func @long_code
// CHECK:      gemm.map tile(%product : tensor<?x2560xbf16>)
// REMARK: remark[analysis] schedule: gemm.fused: its epilogue is a separate kernel: in the GEMM, it would take
// FUSED-LABEL: func.func @long_code
// FUSED-NOT:  gemm.map
func.func @long_code(%x: tensor<?x320xbf16>, %w: tensor<2560x320xbf16>) -> tensor<?x2560xbf16> {
  %z = gemm.fused %x : tensor<?x320xbf16>
    columns(%w : tensor<2560x320xbf16>)
      -> (tile : tensor<?x2560xbf16>) {
    ^bb0(%a: f32):
      %b = math.erf %a : f32
      %c = arith.addf %a, %b : f32
      %d = math.tanh %c : f32
      %e = arith.mulf %a, %d : f32
      %f = math.erf %e : f32
      %g = arith.addf %e, %f : f32
      %h = math.tanh %g : f32
      %i = arith.mulf %a, %h : f32
      %j = math.tanh %i : f32
      gemm.yield %j : f32
    }
  func.return %z : tensor<?x2560xbf16>
}

// -----

// That of an error function fits, and functions of a scalar are computed once for a tile.

// CHECK-LABEL: func.func @short_code
// CHECK-NOT:  gemm.map
func.func @short_code(%x: tensor<?x320xbf16>, %w: tensor<2560x320xbf16>, %s: tensor<1xbf16>) -> tensor<?x2560xbf16> {
  %z = gemm.fused %x : tensor<?x320xbf16>
    columns(%w : tensor<2560x320xbf16>) scalar(%s : tensor<1xbf16>)
      -> (tile : tensor<?x2560xbf16>) {
    ^bb0(%a: f32, %scale: f32):
      %b = math.erf %a : f32
      %c = arith.addf %a, %b : f32
      %d = math.tanh %scale : f32
      %e = math.tanh %d : f32
      %f = arith.mulf %c, %e : f32
      gemm.yield %f : f32
    }
  func.return %z : tensor<?x2560xbf16>
}

// -----

// Sine and cosine reduce every angle: two of them are as long.

// CHECK-LABEL: func.func @sines
// CHECK:      gemm.map tile(%product : tensor<?x2560xbf16>)
// FUSED-LABEL: func.func @sines
// FUSED-NOT:  gemm.map
// FEW-LABEL: func.func @sines
func.func @sines(%x: tensor<?x320xbf16>, %w: tensor<2560x320xbf16>) -> tensor<?x2560xbf16> {
  %z = gemm.fused %x : tensor<?x320xbf16>
    columns(%w : tensor<2560x320xbf16>)
      -> (tile : tensor<?x2560xbf16>) {
    ^bb0(%a: f32):
      %b = math.sin %a : f32
      %c = math.cos %a : f32
      %d = arith.addf %b, %c : f32
      gemm.yield %d : f32
    }
  func.return %z : tensor<?x2560xbf16>
}

// RUN: coda-opt %s -p place-parts --split-input-file | filecheck %s
// RUN: coda-opt %s -p place-parts --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// Another operator reads the result, too.

func.func @used(%x: tensor<?x64xbf16>, %y: tensor<?x64xbf16>) -> (tensor<?x128xbf16>, tensor<?x64xbf16>) {
  %a, %b = gemm.map tile(%x : tensor<?x64xbf16>) -> (tile : tensor<?x64xbf16>, tile : tensor<?x64xbf16>) {
    ^bb0(%x_1: f32):
      %e = math.exp %x_1 : f32
      gemm.yield %e, %x_1 : f32, f32
    }
  %joined = coda.concat %a, %b {dim = 1 : i64} : (tensor<?x64xbf16>, tensor<?x64xbf16>) -> tensor<?x128xbf16>
  func.return %joined, %a : tensor<?x128xbf16>, tensor<?x64xbf16>
}

// REMARK: remark[missed] place-parts: coda.concat: %a is copied: it is also used elsewhere; failed condition: the concatenation is the only use of a part, and the extents of all parts are known
// CHECK:      func.func @used(
// CHECK-NEXT:   %a, %b = gemm.map tile(%x : tensor<?x64xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x64xbf16>, tile at<64, 64, 128> : tensor<?x64xbf16>) {
// CHECK-NEXT:     ^bb0(%x_1: f32):
// CHECK-NEXT:       %e = math.exp %x_1 : f32
// CHECK-NEXT:       gemm.yield %e, %x_1 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %joined = coda.concat %a, %b {dim = 1 : i64} : (tensor<?x64xbf16>, tensor<?x64xbf16>) -> tensor<?x128xbf16>
// CHECK-NEXT:   func.return %joined, %a : tensor<?x128xbf16>, tensor<?x64xbf16>
// CHECK-NEXT: }

// -----

// The second part starts 6 bytes after a multiple of 16.

func.func @unaligned(%x: tensor<?x3xbf16>, %y: tensor<?x13xbf16>) -> tensor<?x16xbf16> {
  %a = gemm.map tile(%x : tensor<?x3xbf16>) -> (tile : tensor<?x3xbf16>) {
    ^bb0(%x_1: f32):
      gemm.yield %x_1 : f32
    }
  %b = gemm.map tile(%y : tensor<?x13xbf16>) -> (tile : tensor<?x13xbf16>) {
    ^bb0(%y_1: f32):
      gemm.yield %y_1 : f32
    }
  %joined = coda.concat %a, %b {dim = 1 : i64} : (tensor<?x3xbf16>, tensor<?x13xbf16>) -> tensor<?x16xbf16>
  func.return %joined : tensor<?x16xbf16>
}

// REMARK: remark[missed] place-parts: coda.concat: %b is copied: its runs would start 6 bytes after multiples of 32; failed condition: runs of elements start at multiples of 16 bytes
// CHECK:      func.func @unaligned(
// CHECK-NEXT:   %a = gemm.map tile(%x : tensor<?x3xbf16>)
// CHECK-NEXT:       -> (tile at<0, 3, 16> : tensor<?x3xbf16>) {
// CHECK-NEXT:     ^bb0(%x_1: f32):
// CHECK-NEXT:       gemm.yield %x_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %b = gemm.map tile(%y : tensor<?x13xbf16>)
// CHECK-NEXT:       -> (tile : tensor<?x13xbf16>) {
// CHECK-NEXT:     ^bb0(%y_1: f32):
// CHECK-NEXT:       gemm.yield %y_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %joined = coda.concat %a, %b {dim = 1 : i64} : (tensor<?x3xbf16>, tensor<?x13xbf16>) -> tensor<?x16xbf16>
// CHECK-NEXT:   func.return %joined : tensor<?x16xbf16>
// CHECK-NEXT: }

// -----

// Two parts are arguments: one call copies all three.

func.func @arguments(%x: tensor<?x8xf32>, %y: tensor<?x8xf32>, %v: tensor<?x8xf32>) -> tensor<?x24xf32> {
  %a = gemm.map tile(%v : tensor<?x8xf32>) -> (tile : tensor<?x8xf32>) {
    ^bb0(%v_1: f32):
      %e = math.exp %v_1 : f32
      gemm.yield %e : f32
    }
  %joined = coda.concat %x, %a, %y {dim = 1 : i64} : (tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x24xf32>
  func.return %joined : tensor<?x24xf32>
}

// REMARK: remark[missed] place-parts: coda.concat: %x is copied: no kernel computes its elements one by one; failed condition: each part is a tile of a kernel in the same function
// CHECK:      func.func @arguments(
// CHECK-NEXT:   %a = gemm.map tile(%v : tensor<?x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x8xf32>) {
// CHECK-NEXT:     ^bb0(%v_1: f32):
// CHECK-NEXT:       %e = math.exp %v_1 : f32
// CHECK-NEXT:       gemm.yield %e : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %joined = coda.concat %x, %a, %y {dim = 1 : i64} : (tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x24xf32>
// CHECK-NEXT:   func.return %joined : tensor<?x24xf32>
// CHECK-NEXT: }

// -----

// Rows one below the other, and columns of a number that is not known.

func.func @others(%x: tensor<4x8xf32>, %y: tensor<4x?xf32>) -> (tensor<8x8xf32>, tensor<4x?xf32>) {
  %a, %b = gemm.map tile(%x : tensor<4x8xf32>) -> (tile : tensor<4x8xf32>, tile : tensor<4x8xf32>) {
    ^bb0(%x_1: f32):
      %e = math.exp %x_1 : f32
      gemm.yield %e, %x_1 : f32, f32
    }
  %c = gemm.map tile(%y : tensor<4x?xf32>) -> (tile : tensor<4x?xf32>) {
    ^bb0(%y_1: f32):
      gemm.yield %y_1 : f32
    }
  %rows = coda.concat %a, %a {dim = 0 : i64} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %columns = coda.concat %b, %c {dim = 1 : i64} : (tensor<4x8xf32>, tensor<4x?xf32>) -> tensor<4x?xf32>
  func.return %rows, %columns : tensor<8x8xf32>, tensor<4x?xf32>
}

// CHECK:      func.func @others(
// CHECK-NEXT:   %a, %b = gemm.map tile(%x : tensor<4x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<4x8xf32>, tile : tensor<4x8xf32>) {
// CHECK-NEXT:     ^bb0(%x_1: f32):
// CHECK-NEXT:       %e = math.exp %x_1 : f32
// CHECK-NEXT:       gemm.yield %e, %x_1 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %c = gemm.map tile(%y : tensor<4x?xf32>)
// CHECK-NEXT:       -> (tile : tensor<4x?xf32>) {
// CHECK-NEXT:     ^bb0(%y_1: f32):
// CHECK-NEXT:       gemm.yield %y_1 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %rows = coda.concat %a, %a {dim = 0 : i64} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
// CHECK-NEXT:   %columns = coda.concat %b, %c {dim = 1 : i64} : (tensor<4x8xf32>, tensor<4x?xf32>) -> tensor<4x?xf32>
// CHECK-NEXT:   func.return %rows, %columns : tensor<8x8xf32>, tensor<4x?xf32>
// CHECK-NEXT: }

// -----

// Nothing computes what is padded; rows are padded; the columns of a result would start
// at 4 bytes.

func.func @padding(%x: tensor<4x8xf32>) -> (tensor<4x16xf32>, tensor<6x8xf32>, tensor<4x10xf32>) {
  %p = coda.pad %x {dim = 1 : i64, start = 0 : i64} : (tensor<4x8xf32>) -> tensor<4x16xf32>
  %a, %b = gemm.map tile(%x : tensor<4x8xf32>) -> (tile : tensor<4x8xf32>, tile : tensor<4x8xf32>) {
    ^bb0(%x_1: f32):
      %e = math.exp %x_1 : f32
      gemm.yield %e, %x_1 : f32, f32
    }
  %q = coda.pad %a {dim = 0 : i64, start = 1 : i64} : (tensor<4x8xf32>) -> tensor<6x8xf32>
  %r = coda.pad %b {dim = 1 : i64, start = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x10xf32>
  func.return %p, %q, %r : tensor<4x16xf32>, tensor<6x8xf32>, tensor<4x10xf32>
}

// CHECK:      func.func @padding(
// CHECK-NEXT:   }
// CHECK-NEXT:   %a, %b = gemm.map tile(%x : tensor<4x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<4x8xf32>, tile : tensor<4x8xf32>) {
// CHECK-NEXT:     ^bb0(%x_1: f32):
// CHECK-NEXT:       %e = math.exp %x_1 : f32
// CHECK-NEXT:       gemm.yield %e, %x_1 : f32, f32
// CHECK-NEXT:     }
// CHECK-NEXT:   %q = coda.pad %a {dim = 0 : i64, start = 1 : i64} : (tensor<4x8xf32>) -> tensor<6x8xf32>
// CHECK-NEXT:   %r = coda.pad %b {dim = 1 : i64, start = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x10xf32>
// CHECK-NEXT:   func.return %p, %q, %r : tensor<4x16xf32>, tensor<6x8xf32>, tensor<4x10xf32>
// CHECK-NEXT: }

// -----

// Several heads that are repeated together: no place has them.

func.func @repeated_rows(%x: tensor<2x64xbf16>, %y: tensor<1x2x32xbf16>) -> tensor<4x2x96xbf16> {
  %a = gemm.map tile(%y : tensor<1x2x32xbf16>) -> (tile : tensor<1x2x32xbf16>) {
    ^bb0(%y_1: f32):
      %e = math.exp %y_1 : f32
      gemm.yield %e : f32
    }
  %all = coda.broadcast %a : (tensor<1x2x32xbf16>) -> tensor<4x2x32xbf16>
  %b = coda.broadcast %x : (tensor<2x64xbf16>) -> tensor<4x2x64xbf16>
  %joined = coda.concat %all, %b {dim = 2 : i64} : (tensor<4x2x32xbf16>, tensor<4x2x64xbf16>) -> tensor<4x2x96xbf16>
  func.return %joined : tensor<4x2x96xbf16>
}

// CHECK:      func.func @repeated_rows(
// CHECK:            -> (tile : tensor<1x2x32xbf16>) {
// CHECK:        coda.concat

// -----

// The rows of the samples that another tensor has are not known.

func.func @unknown_rows(%x: tensor<?x4x8xbf16>, %y: tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16> {
  %a = gemm.map tile(%x : tensor<?x4x8xbf16>) -> (tile : tensor<?x4x8xbf16>) {
    ^bb0(%x_1: f32):
      %e = math.exp %x_1 : f32
      gemm.yield %e : f32
    }
  %b = gemm.map tile(%y : tensor<?x?x8xbf16>) -> (tile : tensor<?x?x8xbf16>) {
    ^bb0(%y_1: f32):
      %e = math.exp %y_1 : f32
      gemm.yield %e : f32
    }
  %joined = coda.concat %a, %b {dim = 1 : i64} : (tensor<?x4x8xbf16>, tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>
  func.return %joined : tensor<?x?x8xbf16>
}

// CHECK:      func.func @unknown_rows(
// CHECK:            -> (tile : tensor<?x4x8xbf16>) {
// CHECK:            -> (tile : tensor<?x?x8xbf16>) {
// CHECK:        coda.concat

// -----

// The cache is read between the kernel and the call that changes it.

func.func @read_before(%x: tensor<2x1x64xbf16>, %w: tensor<32x64xbf16>, %cache: tensor<2x2x16x16xbf16> {coda.donated}, %at: tensor<1xi64>) -> (tensor<2x2x16x16xbf16>, tensor<16xbf16>) {
  %k = gemm.fused %x : tensor<2x1x64xbf16>
    columns(%w : tensor<32x64xbf16>)
      -> (tile : tensor<2x1x32xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %heads = coda.reshape %k : (tensor<2x1x32xbf16>) -> tensor<2x2x1x16xbf16>
  %sum = coda.sum_to %cache : (tensor<2x2x16x16xbf16>) -> tensor<16xbf16>
  %c = torch.call "aten.index_put.default"(%cache, %at, %heads) {arguments = "{0}, [None, None, {1}], {2}", in_place} : (tensor<2x2x16x16xbf16>, tensor<1xi64>, tensor<2x2x1x16xbf16>) -> tensor<2x2x16x16xbf16>
  func.return %c, %sum : tensor<2x2x16x16xbf16>, tensor<16xbf16>
}

// REMARK: remark[missed] place-parts: torch.call: %k is copied: %cache is made or used before the call; failed condition:
// CHECK:      func.func @read_before(
// CHECK:            -> (tile : tensor<2x1x32xbf16>) {
// CHECK:        %c = torch.call

// -----

// A finalize reads the cache before the kernel, and what reads the finalize may compute it.

func.func @read_by_finalize(%x: tensor<1x64xf32>, %w: tensor<16x64xf32>, %cache: tensor<4x16xf32> {coda.donated}, %at: tensor<1xi64>, %p: tensor<64x2xf32>, %z: tensor<64x8xf32>) -> (tensor<4x16xf32>, tensor<64x8xf32>) {
  %old = coda.reshape %cache : (tensor<4x16xf32>) -> tensor<64x1xf32>
  %r = gemm.finalize row (add %p : tensor<64x2xf32>) col(%old : tensor<64x1xf32>) -> (tensor<64x1xf32>) {
  ^bb0(%sum: f32, %s: f32):
    %0 = arith.mulf %sum, %s : f32
    gemm.yield %0 : f32
  }
  %k = gemm.fused %x : tensor<1x64xf32>
    columns(%w : tensor<16x64xf32>)
      -> (tile : tensor<1x16xf32>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %y = gemm.map tile(%z : tensor<64x8xf32>) col(%r : tensor<64x1xf32>)
      -> (tile : tensor<64x8xf32>) {
    ^bb0(%a: f32, %b: f32):
      %0 = arith.mulf %a, %b : f32
      gemm.yield %0 : f32
    }
  %c = torch.call "aten.index_put.default"(%cache, %at, %k) {arguments = "{0}, [{1}], {2}", in_place} : (tensor<4x16xf32>, tensor<1xi64>, tensor<1x16xf32>) -> tensor<4x16xf32>
  func.return %c, %y : tensor<4x16xf32>, tensor<64x8xf32>
}

// REMARK: remark[missed] place-parts: torch.call: %k is copied: %cache is made or used before the call; failed condition:
// CHECK:      func.func @read_by_finalize(
// CHECK:            -> (tile : tensor<1x16xf32>) {
// CHECK:        %c = torch.call

// -----

// The position is computed after the kernel, from its result.

func.func @late_position(%x: tensor<2x1x64xbf16>, %w: tensor<32x64xbf16>, %cache: tensor<2x2x16x16xbf16> {coda.donated}, %at: tensor<1xi64>) -> tensor<2x2x16x16xbf16> {
  %k = gemm.fused %x : tensor<2x1x64xbf16>
    columns(%w : tensor<32x64xbf16>)
      -> (tile : tensor<2x1x32xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %row = gemm.map tile(%at : tensor<1xi64>) -> (tile : tensor<1xi64>) {
    ^bb0(%at_1: i64):
      %n = arith.addi %at_1, %at_1 : i64
      gemm.yield %n : i64
    }
  %heads = coda.reshape %k : (tensor<2x1x32xbf16>) -> tensor<2x2x1x16xbf16>
  %c = torch.call "aten.index_put.default"(%cache, %row, %heads) {arguments = "{0}, [None, None, {1}], {2}", in_place} : (tensor<2x2x16x16xbf16>, tensor<1xi64>, tensor<2x2x1x16xbf16>) -> tensor<2x2x16x16xbf16>
  func.return %c : tensor<2x2x16x16xbf16>
}

// REMARK: remark[missed] place-parts: torch.call: %k is copied: %row is computed after it; failed condition:
// CHECK:      func.func @late_position(
// CHECK:            -> (tile : tensor<2x1x32xbf16>) {
// CHECK:        %c = torch.call

// -----

// Another call stores a row of the same cache after the kernel: the two may be one row.

func.func @two_rows(%x: tensor<2x1x64xbf16>, %w: tensor<32x64xbf16>, %cache: tensor<2x2x16x16xbf16> {coda.donated}, %at: tensor<1xi64>, %other: tensor<2x2x1x16xbf16>) -> tensor<2x2x16x16xbf16> {
  %k = gemm.fused %x : tensor<2x1x64xbf16>
    columns(%w : tensor<32x64xbf16>)
      -> (tile : tensor<2x1x32xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %heads = coda.reshape %k : (tensor<2x1x32xbf16>) -> tensor<2x2x1x16xbf16>
  %first = torch.call "aten.index_put.default"(%cache, %at, %other) {arguments = "{0}, [None, None, {1}], {2}", in_place} : (tensor<2x2x16x16xbf16>, tensor<1xi64>, tensor<2x2x1x16xbf16>) -> tensor<2x2x16x16xbf16>
  %c = torch.call "aten.index_put.default"(%first, %at, %heads) {arguments = "{0}, [None, None, {1}], {2}", in_place} : (tensor<2x2x16x16xbf16>, tensor<1xi64>, tensor<2x2x1x16xbf16>) -> tensor<2x2x16x16xbf16>
  func.return %c : tensor<2x2x16x16xbf16>
}

// REMARK: remark[missed] place-parts: torch.call: %other is copied: no kernel computes its elements for this call alone; failed condition:
// REMARK: remark[missed] place-parts: torch.call: %k is copied: %cache is made or used before the call; failed condition:
// CHECK:      func.func @two_rows(
// CHECK:            -> (tile : tensor<2x1x32xbf16>) {
// CHECK:        %c = torch.call

// -----

// The row is returned, too.

func.func @returned_row(%x: tensor<2x1x64xbf16>, %w: tensor<32x64xbf16>, %cache: tensor<2x2x16x16xbf16> {coda.donated}, %at: tensor<1xi64>) -> (tensor<2x2x16x16xbf16>, tensor<2x1x32xbf16>) {
  %k = gemm.fused %x : tensor<2x1x64xbf16>
    columns(%w : tensor<32x64xbf16>)
      -> (tile : tensor<2x1x32xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %heads = coda.reshape %k : (tensor<2x1x32xbf16>) -> tensor<2x2x1x16xbf16>
  %c = torch.call "aten.index_put.default"(%cache, %at, %heads) {arguments = "{0}, [None, None, {1}], {2}", in_place} : (tensor<2x2x16x16xbf16>, tensor<1xi64>, tensor<2x2x1x16xbf16>) -> tensor<2x2x16x16xbf16>
  func.return %c, %k : tensor<2x2x16x16xbf16>, tensor<2x1x32xbf16>
}

// REMARK: remark[missed] place-parts: torch.call: %k is copied: no kernel computes its elements for this call alone; failed condition:
// CHECK:      func.func @returned_row(
// CHECK:            -> (tile : tensor<2x1x32xbf16>) {
// CHECK:        %c = torch.call

// -----

// A row of the tile ends within a row that is stored.

func.func @ragged_rows(%x: tensor<2x64xbf16>, %w: tensor<96x64xbf16>, %cache: tensor<3x16x64xbf16> {coda.donated}, %at: tensor<1xi64>) -> tensor<3x16x64xbf16> {
  %k = gemm.fused %x : tensor<2x64xbf16>
    columns(%w : tensor<96x64xbf16>)
      -> (tile : tensor<2x96xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %row = coda.reshape %k : (tensor<2x96xbf16>) -> tensor<3x1x64xbf16>
  %c = torch.call "aten.index_put.default"(%cache, %at, %row) {arguments = "{0}, [None, {1}], {2}", in_place} : (tensor<3x16x64xbf16>, tensor<1xi64>, tensor<3x1x64xbf16>) -> tensor<3x16x64xbf16>
  func.return %c : tensor<3x16x64xbf16>
}

// REMARK: remark[missed] place-parts: torch.call: %k is copied: 2 x 96 elements are stored in rows of 3 x 1 x 64; failed condition:
// CHECK:      func.func @ragged_rows(
// CHECK:            -> (tile : tensor<2x96xbf16>) {

// -----

// One row may be stored in all samples: they are several where it is one.

func.func @repeated_row(%x: tensor<?x64xbf16>, %w: tensor<32x64xbf16>, %cache: tensor<?x16x32xbf16> {coda.donated}, %at: tensor<1xi64>) -> tensor<?x16x32xbf16> {
  %k = gemm.fused %x : tensor<?x64xbf16>
    columns(%w : tensor<32x64xbf16>)
      -> (tile : tensor<?x32xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %row = coda.reshape %k : (tensor<?x32xbf16>) -> tensor<?x1x32xbf16>
  %c = torch.call "aten.index_put.default"(%cache, %at, %row) {arguments = "{0}, [None, {1}], {2}", in_place} : (tensor<?x16x32xbf16>, tensor<1xi64>, tensor<?x1x32xbf16>) -> tensor<?x16x32xbf16>
  func.return %c : tensor<?x16x32xbf16>
}

// REMARK: remark[missed] place-parts: torch.call: %k is copied: d0 x 32 elements are stored in rows of d1 x 1 x 32; failed condition:
// CHECK:      func.func @repeated_row(
// CHECK:            -> (tile : tensor<?x32xbf16>) {

// -----

// A byte is a mask, not a number.

func.func @mask(%x: tensor<2x64xbf16>, %w: tensor<32x64xbf16>, %cache: tensor<2x1x32xbf16> {coda.donated}, %at: tensor<1xui8>) -> tensor<2x1x32xbf16> {
  %k = gemm.fused %x : tensor<2x64xbf16>
    columns(%w : tensor<32x64xbf16>)
      -> (tile : tensor<2x32xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %row = coda.reshape %k : (tensor<2x32xbf16>) -> tensor<2x1x32xbf16>
  %c = torch.call "aten.index_put.default"(%cache, %at, %row) {arguments = "{0}, [None, {1}], {2}", in_place} : (tensor<2x1x32xbf16>, tensor<1xui8>, tensor<2x1x32xbf16>) -> tensor<2x1x32xbf16>
  func.return %c : tensor<2x1x32xbf16>
}

// CHECK:      func.func @mask(
// CHECK:            -> (tile : tensor<2x32xbf16>) {

// -----

// The cache does not exist yet when the kernel runs.

func.func @late_memory(%x: tensor<2x64xbf16>, %w: tensor<32x64xbf16>, %y: tensor<2x16x32xbf16>, %at: tensor<1xi64>) -> tensor<2x16x32xbf16> {
  %k = gemm.fused %x : tensor<2x64xbf16>
    columns(%w : tensor<32x64xbf16>)
      -> (tile : tensor<2x32xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %row = coda.reshape %k : (tensor<2x32xbf16>) -> tensor<2x1x32xbf16>
  %cache = gemm.map tile(%y : tensor<2x16x32xbf16>) -> (tile : tensor<2x16x32xbf16>) {
    ^bb0(%a: f32):
      %b = arith.addf %a, %a : f32
      gemm.yield %b : f32
    }
  %c = torch.call "aten.index_put.default"(%cache, %at, %row) {arguments = "{0}, [None, {1}], {2}", in_place} : (tensor<2x16x32xbf16>, tensor<1xi64>, tensor<2x1x32xbf16>) -> tensor<2x16x32xbf16>
  func.return %c : tensor<2x16x32xbf16>
}

// REMARK: remark[missed] place-parts: torch.call: %k is copied: %cache is made or used before the call; failed condition:
// CHECK:      func.func @late_memory(
// CHECK:            -> (tile : tensor<2x32xbf16>) {

// -----

// Columns of gradients that are stored transposed are joined in groups.

func.func @groups(%h: tensor<?x64xbf16>, %a: tensor<?x32xbf16>, %p: tensor<32x2x32xbf16>) -> tensor<32x2x64xbf16> {
  %d = gemm.fused transposed %h : tensor<?x64xbf16>
    columns(%a : tensor<?x32xbf16>) kn
      -> (tile_t : tensor<32x64xbf16>) {
    ^bb0(%acc: f32):
      gemm.yield %acc : f32
    }
  %heads = coda.reshape %d : (tensor<32x64xbf16>) -> tensor<32x2x32xbf16>
  %q = gemm.map tile(%p : tensor<32x2x32xbf16>) -> (tile : tensor<32x2x32xbf16>) {
    ^bb0(%e: f32):
      %b = arith.addf %e, %e : f32
      gemm.yield %b : f32
    }
  %c = coda.concat %heads, %q {dim = 2 : i64} : (tensor<32x2x32xbf16>, tensor<32x2x32xbf16>) -> tensor<32x2x64xbf16>
  func.return %c : tensor<32x2x64xbf16>
}

// REMARK: remark[missed] place-parts: coda.concat: %d is copied: its runs have 32 elements; failed condition:
// CHECK:      func.func @groups(
// CHECK:            -> (tile_t : tensor<32x64xbf16>) {

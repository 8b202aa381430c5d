// RUN: coda-opt %s -p plan-buffers --split-input-file | filecheck %s
// RUN: coda-opt %s -p plan-buffers --remarks=analysis --split-input-file 2>&1 | filecheck %s --check-prefix REMARK

// %c takes the buffer of %a, which is dead; %d cannot take that of %b, which it reads.

func.func @chain(%x: tensor<?x8xf32> {coda.dims = ["M", 8]}) -> tensor<?x8xf32> {
  %a = coda.exp %x : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %b = coda.neg %a : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %c = coda.relu %b : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %d = coda.add %b, %c : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %e = coda.abs %d : (tensor<?x8xf32>) -> tensor<?x8xf32>
  func.return %e : tensor<?x8xf32>
}

// CHECK:      func.func @chain(
// CHECK-NEXT:   %a = coda.exp %x {coda.buffers = ["b0"]} : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %b = coda.neg %a {coda.buffers = ["b1"]} : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %c = coda.relu %b {coda.buffers = ["b0"]} : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %d = coda.add %b, %c {coda.buffers = ["b2"]} : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %e = coda.abs %d {coda.buffers = ["out"]} : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   func.return %e : tensor<?x8xf32>
// CHECK-NEXT: }

// REMARK: remark[analysis] plan-buffers: chain: 4 intermediate results in 3 buffers: peak of 96*M bytes, 128*M bytes without sharing

// -----

// Equal numbers of elements fit in another shape; another element type or symbol does not.

func.func @sizes(%x: tensor<?x?x8xf32> {coda.dims = ["B", "T", 8]}, %y: tensor<?x8xf32> {coda.dims = ["M", 8]}) -> (tensor<?x8xbf16>, tensor<?x8xf32>, tensor<?x8xf32>) {
  %a = coda.exp %x : (tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
  %b = coda.reshape %a : (tensor<?x?x8xf32>) -> tensor<?x8xf32>
  %c = coda.cast %b : (tensor<?x8xf32>) -> tensor<?x8xbf16>
  %d = coda.exp %y : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %e = coda.neg %c : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %f = coda.reshape %x : (tensor<?x?x8xf32>) -> tensor<?x8xf32>
  %g = coda.exp %f : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %h = coda.neg %g : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %i = coda.neg %d : (tensor<?x8xf32>) -> tensor<?x8xf32>
  func.return %e, %h, %i : tensor<?x8xbf16>, tensor<?x8xf32>, tensor<?x8xf32>
}

// CHECK:      func.func @sizes(
// CHECK-NEXT:   %a = coda.exp %x {coda.buffers = ["b0"]} : (tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:   %b = coda.reshape %a {coda.buffers = ["b0"]} : (tensor<?x?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %c = coda.cast %b {coda.buffers = ["b1"]} : (tensor<?x8xf32>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %d = coda.exp %y {coda.buffers = ["b2"]} : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %e = coda.neg %c {coda.buffers = ["out"]} : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %f = coda.reshape %x {coda.buffers = ["argument"]} : (tensor<?x?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %g = coda.exp %f {coda.buffers = ["b0"]} : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %h = coda.neg %g {coda.buffers = ["out"]} : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %i = coda.neg %d {coda.buffers = ["out"]} : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   func.return %e, %h, %i : tensor<?x8xbf16>, tensor<?x8xf32>, tensor<?x8xf32>
// CHECK-NEXT: }

// REMARK: remark[analysis] plan-buffers: sizes: 4 intermediate results in 3 buffers: peak of 48*B*T + 32*M bytes, 80*B*T + 32*M bytes without sharing

// -----

// A view keeps the buffer of what it views; what a view of it is returned keeps its own.

func.func @views(%x: tensor<?x8xf32> {coda.dims = ["M", 8]}) -> (tensor<8x?xf32>, tensor<?x8xf32>, tensor<?x4xf32>) {
  %a = coda.exp %x : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %b = coda.transpose %a {perm = [1 : i64, 0 : i64]} : (tensor<?x8xf32>) -> tensor<8x?xf32>
  %c = coda.log %x : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %d = coda.slice %c {dim = 1 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<?x8xf32>) -> tensor<?x4xf32>
  %e = coda.neg %x : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %f = coda.abs %e : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %g = coda.neg %d : (tensor<?x4xf32>) -> tensor<?x4xf32>
  func.return %b, %f, %g : tensor<8x?xf32>, tensor<?x8xf32>, tensor<?x4xf32>
}

// CHECK:      func.func @views(
// CHECK-NEXT:   %a = coda.exp %x {coda.buffers = ["out"]} : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %b = coda.transpose %a {coda.buffers = ["out"], perm = [1 : i64, 0 : i64]} : (tensor<?x8xf32>) -> tensor<8x?xf32>
// CHECK-NEXT:   %c = coda.log %x {coda.buffers = ["b0"]} : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %d = coda.slice %c {coda.buffers = ["b0"], dim = 1 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<?x8xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   %e = coda.neg %x {coda.buffers = ["b1"]} : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %f = coda.abs %e {coda.buffers = ["out"]} : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %g = coda.neg %d {coda.buffers = ["out"]} : (tensor<?x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   func.return %b, %f, %g : tensor<8x?xf32>, tensor<?x8xf32>, tensor<?x4xf32>
// CHECK-NEXT: }

// REMARK: remark[analysis] plan-buffers: views: 2 intermediate results in 2 buffers: peak of 64*M bytes, 64*M bytes without sharing

// -----

// What PyTorch allocates or the host keeps is not shared.

func.func @library(%ids: tensor<?xi64> {coda.dims = ["M"]}, %table: tensor<100x8xf32>, %w: tensor<8x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  %e = coda.embedding %ids, %table : (tensor<?xi64>, tensor<100x8xf32>) -> tensor<?x8xf32>
  %v = gemm.pack_weight nk %w, %g : (tensor<8x8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %a = coda.neg %e : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %b = coda.exp %a : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %c = coda.mul %b, %v : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  func.return %c : tensor<?x8xf32>
}

// CHECK:      func.func @library(
// CHECK-NEXT:   %e = coda.embedding %ids, %table {coda.buffers = ["library"]} : (tensor<?xi64>, tensor<100x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %v = gemm.pack_weight nk %w, %g {coda.buffers = ["library"]} : (tensor<8x8xf32>, tensor<8xf32>) -> tensor<8xf32>
// CHECK-NEXT:   %a = coda.neg %e {coda.buffers = ["b0"]} : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %b = coda.exp %a {coda.buffers = ["b1"]} : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %c = coda.mul %b, %v {coda.buffers = ["out"]} : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   func.return %c : tensor<?x8xf32>
// CHECK-NEXT: }

// REMARK: remark[analysis] plan-buffers: library: 2 intermediate results in 2 buffers: peak of 64*M bytes, 64*M bytes without sharing

// -----

// The ids of rows that a kernel looks up are alive until it has run.

func.func @looked_up(%a: tensor<?xi64> {coda.dims = ["M"]}, %table: tensor<100x1xi64>) -> tensor<?x1xi64> {
  %ids = coda.abs %a : (tensor<?xi64>) -> tensor<?xi64>
  %e = coda.embedding %ids, %table : (tensor<?xi64>, tensor<100x1xi64>) -> tensor<?x1xi64>
  %y = gemm.map tile(%e : tensor<?x1xi64>)
      -> (tile : tensor<?x1xi64>) {
    ^bb0(%b: i64):
      gemm.yield %b : i64
    }
  %z = coda.neg %y : (tensor<?x1xi64>) -> tensor<?x1xi64>
  func.return %z : tensor<?x1xi64>
}

// CHECK:      func.func @looked_up(
// CHECK-NEXT:   %ids = coda.abs %a {coda.buffers = ["b0"]} : (tensor<?xi64>) -> tensor<?xi64>
// CHECK-NEXT:   %e = coda.embedding %ids, %table {coda.buffers = ["library"]} : (tensor<?xi64>, tensor<100x1xi64>) -> tensor<?x1xi64>
// CHECK-NEXT:   %y = gemm.map tile(%e : tensor<?x1xi64>)
// CHECK-NEXT:       -> (tile : tensor<?x1xi64>) {
// CHECK-NEXT:     ^bb0(%b: i64):
// CHECK-NEXT:       gemm.yield %b : i64
// CHECK-NEXT:     } attributes {coda.buffers = ["b1"]}
// CHECK-NEXT:   %z = coda.neg %y {coda.buffers = ["out"]} : (tensor<?x1xi64>) -> tensor<?x1xi64>
// CHECK-NEXT:   func.return %z : tensor<?x1xi64>
// CHECK-NEXT: }

// REMARK: remark[analysis] plan-buffers: looked_up: 2 intermediate results in 2 buffers: peak of 16*M bytes, 16*M bytes without sharing

// -----

// Kernels store the parts of a concatenation of rows where they belong; another, whose first part
// would not start at a multiple of 16 bytes after it, is copied.

func.func @rows(%x: tensor<?x8xf32> {coda.dims = ["M", 8]}, %w: tensor<16x8xf32>) -> (tensor<6x8xf32>, tensor<2x3xf32>) {
  %a = coda.slice %w {dim = 0 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<16x8xf32>) -> tensor<4x8xf32>
  %b = coda.slice %w {dim = 0 : i64, start = 4 : i64, stop = 6 : i64} : (tensor<16x8xf32>) -> tensor<2x8xf32>
  %p = gemm.map tile(%a : tensor<4x8xf32>) -> (tile : tensor<4x8xf32>) {
  ^bb0(%v: f32):
    gemm.yield %v : f32
  }
  %q = gemm.map tile(%b : tensor<2x8xf32>) -> (tile : tensor<2x8xf32>) {
  ^bb0(%v: f32):
    gemm.yield %v : f32
  }
  %joined = coda.concat %p, %q {dim = 0 : i64} : (tensor<4x8xf32>, tensor<2x8xf32>) -> tensor<6x8xf32>
  %y = coda.neg %joined : (tensor<6x8xf32>) -> tensor<6x8xf32>
  %c = coda.slice %b {dim = 0 : i64, start = 0 : i64, stop = 1 : i64} : (tensor<2x8xf32>) -> tensor<1x8xf32>
  %d = coda.slice %c {dim = 1 : i64, start = 0 : i64, stop = 3 : i64} : (tensor<1x8xf32>) -> tensor<1x3xf32>
  %r = gemm.map tile(%d : tensor<1x3xf32>) -> (tile : tensor<1x3xf32>) {
  ^bb0(%v: f32):
    gemm.yield %v : f32
  }
  %s = gemm.map tile(%d : tensor<1x3xf32>) -> (tile : tensor<1x3xf32>) {
  ^bb0(%v: f32):
    gemm.yield %v : f32
  }
  %copied = coda.concat %r, %s {dim = 0 : i64} : (tensor<1x3xf32>, tensor<1x3xf32>) -> tensor<2x3xf32>
  func.return %y, %copied : tensor<6x8xf32>, tensor<2x3xf32>
}

// CHECK:      func.func @rows(%x: tensor<?x8xf32> {coda.dims = ["M", 8 : i64]}, %w: tensor<16x8xf32>) -> (tensor<6x8xf32>, tensor<2x3xf32>) {
// CHECK-NEXT:   %a = coda.slice %w {coda.buffers = ["argument"], dim = 0 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<16x8xf32>) -> tensor<4x8xf32>
// CHECK-NEXT:   %b = coda.slice %w {coda.buffers = ["argument"], dim = 0 : i64, start = 4 : i64, stop = 6 : i64} : (tensor<16x8xf32>) -> tensor<2x8xf32>
// CHECK-NEXT:   %p = gemm.map tile(%a : tensor<4x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<4x8xf32>) {
// CHECK-NEXT:     ^bb0(%v: f32):
// CHECK-NEXT:       gemm.yield %v : f32
// CHECK-NEXT:     } attributes {coda.buffers = ["b0"]}
// CHECK-NEXT:   %q = gemm.map tile(%b : tensor<2x8xf32>)
// CHECK-NEXT:       -> (tile : tensor<2x8xf32>) {
// CHECK-NEXT:     ^bb0(%v: f32):
// CHECK-NEXT:       gemm.yield %v : f32
// CHECK-NEXT:     } attributes {coda.buffers = ["b0"]}
// CHECK-NEXT:   %joined = coda.concat %p, %q {coda.buffers = ["b0"], dim = 0 : i64} : (tensor<4x8xf32>, tensor<2x8xf32>) -> tensor<6x8xf32>
// CHECK-NEXT:   %y = coda.neg %joined {coda.buffers = ["out"]} : (tensor<6x8xf32>) -> tensor<6x8xf32>
// CHECK-NEXT:   %c = coda.slice %b {coda.buffers = ["argument"], dim = 0 : i64, start = 0 : i64, stop = 1 : i64} : (tensor<2x8xf32>) -> tensor<1x8xf32>
// CHECK-NEXT:   %d = coda.slice %c {coda.buffers = ["argument"], dim = 1 : i64, start = 0 : i64, stop = 3 : i64} : (tensor<1x8xf32>) -> tensor<1x3xf32>
// CHECK-NEXT:   %r = gemm.map tile(%d : tensor<1x3xf32>)
// CHECK-NEXT:       -> (tile : tensor<1x3xf32>) {
// CHECK-NEXT:     ^bb0(%v: f32):
// CHECK-NEXT:       gemm.yield %v : f32
// CHECK-NEXT:     } attributes {coda.buffers = ["b1"]}
// CHECK-NEXT:   %s = gemm.map tile(%d : tensor<1x3xf32>)
// CHECK-NEXT:       -> (tile : tensor<1x3xf32>) {
// CHECK-NEXT:     ^bb0(%v: f32):
// CHECK-NEXT:       gemm.yield %v : f32
// CHECK-NEXT:     } attributes {coda.buffers = ["b2"]}
// CHECK-NEXT:   %copied = coda.concat %r, %s {coda.buffers = ["library"], dim = 0 : i64} : (tensor<1x3xf32>, tensor<1x3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT:   func.return %y, %copied : tensor<6x8xf32>, tensor<2x3xf32>
// CHECK-NEXT: }

// REMARK: remark[analysis] plan-buffers: rows: 3 intermediate results in 3 buffers: peak of 216 bytes, 216 bytes without sharing

// -----

// The memory of a function that calls others is planned where it runs.

func.func @caller(%x: tensor<?x8xf32> {coda.dims = ["M", 8]}) -> tensor<?x8xf32> {
  %a = coda.exp %x : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %b = func.call @called(%a) : (tensor<?x8xf32>) -> tensor<?x8xf32>
  func.return %b : tensor<?x8xf32>
}

func.func private @called(%x: tensor<?x8xf32> {coda.dims = ["M", 8]}) -> tensor<?x8xf32> {
  %a = coda.neg %x : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %b = coda.exp %a : (tensor<?x8xf32>) -> tensor<?x8xf32>
  func.return %b : tensor<?x8xf32>
}

// CHECK:      func.func @caller(
// CHECK-NEXT:   %a = coda.exp %x : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %b = func.call @called(%a) : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   func.return %b : tensor<?x8xf32>
// CHECK-NEXT: }
// CHECK-NEXT: func.func private @called(
// CHECK-NEXT:   %a = coda.neg %x {coda.buffers = ["b0"]} : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %b = coda.exp %a {coda.buffers = ["out"]} : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   func.return %b : tensor<?x8xf32>
// CHECK-NEXT: }

// REMARK: remark[analysis] plan-buffers: called: 1 intermediate result in 1 buffer: peak of 32*M bytes, 32*M bytes without sharing

// -----

// Numbers are in no buffer.

func.func @number(%x: tensor<4x8xf32>, %n: f32) -> tensor<4x8xf32> {
  %s = arith.addf %n, %n : f32
  %y = coda.exp %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  func.return %y : tensor<4x8xf32>
}

// CHECK:      func.func @number(
// CHECK-NEXT:   %s = arith.addf %n, %n : f32
// CHECK-NEXT:   %y = coda.exp %x {coda.buffers = ["out"]} : (tensor<4x8xf32>) -> tensor<4x8xf32>

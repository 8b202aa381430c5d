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

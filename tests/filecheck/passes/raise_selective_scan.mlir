// RUN: coda-opt %s -p raise-selective-scan,dce,canonicalize | filecheck %s

// Channels before positions; the states are rounded for the product, which the scan does not need.

func.func @rows(%u: tensor<2x?x3xbf16> {coda.dims = [2 : i64, "T", 3 : i64]}, %dt: tensor<2x?x3xbf16> {coda.dims = [2 : i64, "T", 3 : i64]}, %a: tensor<3x4xf32>, %b: tensor<2x?x4xbf16> {coda.dims = [2 : i64, "T", 4 : i64]}, %c: tensor<2x?x4xbf16> {coda.dims = [2 : i64, "T", 4 : i64]}, %skip: tensor<3xbf16>) -> tensor<2x?x3xbf16> {
  %ut = coda.transpose %u {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<2x?x3xbf16>) -> tensor<2x3x?xbf16>
  %dtt = coda.transpose %dt {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<2x?x3xbf16>) -> tensor<2x3x?xbf16>
  %times = coda.softplus %dtt : (tensor<2x3x?xbf16>) -> tensor<2x3x?xbf16>
  %a4 = coda.reshape %a : (tensor<3x4xf32>) -> tensor<1x3x1x4xf32>
  %dt4 = coda.reshape %times : (tensor<2x3x?xbf16>) -> tensor<2x3x?x1xbf16>
  %dtw = coda.cast %dt4 : (tensor<2x3x?x1xbf16>) -> tensor<2x3x?x1xf32>
  %rate = coda.mul %a4, %dtw : (tensor<1x3x1x4xf32>, tensor<2x3x?x1xf32>) -> tensor<2x3x?x4xf32>
  %decay = coda.exp %rate : (tensor<2x3x?x4xf32>) -> tensor<2x3x?x4xf32>
  %b4 = coda.reshape %b {coda.dims = [2 : i64, 1 : i64, "T", 4 : i64]} : (tensor<2x?x4xbf16>) -> tensor<2x1x?x4xbf16>
  %bw = coda.cast %b4 : (tensor<2x1x?x4xbf16>) -> tensor<2x1x?x4xf32>
  %db = coda.mul %dtw, %bw : (tensor<2x3x?x1xf32>, tensor<2x1x?x4xf32>) -> tensor<2x3x?x4xf32>
  %u4 = coda.reshape %ut : (tensor<2x3x?xbf16>) -> tensor<2x3x?x1xbf16>
  %uw = coda.cast %u4 : (tensor<2x3x?x1xbf16>) -> tensor<2x3x?x1xf32>
  %x = coda.mul %db, %uw : (tensor<2x3x?x4xf32>, tensor<2x3x?x1xf32>) -> tensor<2x3x?x4xf32>
  %decay0 = coda.transpose %decay {perm = [2 : i64, 0 : i64, 1 : i64, 3 : i64]} : (tensor<2x3x?x4xf32>) -> tensor<?x2x3x4xf32>
  %x0 = coda.transpose %x {perm = [2 : i64, 0 : i64, 1 : i64, 3 : i64]} : (tensor<2x3x?x4xf32>) -> tensor<?x2x3x4xf32>
  %h0 = torch.linear_scan %decay0, %x0 : (tensor<?x2x3x4xf32>, tensor<?x2x3x4xf32>) -> tensor<?x2x3x4xf32>
  %h = coda.transpose %h0 {perm = [1 : i64, 0 : i64, 2 : i64, 3 : i64]} : (tensor<?x2x3x4xf32>) -> tensor<2x?x3x4xf32>
  %hn = coda.cast %h : (tensor<2x?x3x4xf32>) -> tensor<2x?x3x4xbf16>
  %c4 = coda.reshape %c : (tensor<2x?x4xbf16>) -> tensor<2x?x4x1xbf16>
  %y4 = torch.call "aten.matmul.default"(%hn, %c4) {arguments = "{0}, {1}", coda.dims = [2 : i64, "T", 3 : i64, 1 : i64]} : (tensor<2x?x3x4xbf16>, tensor<2x?x4x1xbf16>) -> tensor<2x?x3x1xbf16>
  %y = coda.reshape %y4 : (tensor<2x?x3x1xbf16>) -> tensor<2x?x3xbf16>
  %yt = coda.transpose %y {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<2x?x3xbf16>) -> tensor<2x3x?xbf16>
  %s = coda.reshape %skip : (tensor<3xbf16>) -> tensor<1x3x1xbf16>
  %us = coda.mul %ut, %s : (tensor<2x3x?xbf16>, tensor<1x3x1xbf16>) -> tensor<2x3x?xbf16>
  %sum = coda.add %yt, %us : (tensor<2x3x?xbf16>, tensor<2x3x?xbf16>) -> tensor<2x3x?xbf16>
  %r = coda.transpose %sum {perm = [0 : i64, 2 : i64, 1 : i64]} : (tensor<2x3x?xbf16>) -> tensor<2x?x3xbf16>
  func.return %r : tensor<2x?x3xbf16>
}

// CHECK:      func.func @rows(%u: tensor<2x?x3xbf16> {coda.dims = [2 : i64, "T", 3 : i64]}, %dt: tensor<2x?x3xbf16> {coda.dims = [2 : i64, "T", 3 : i64]}, %a: tensor<3x4xf32>, %b: tensor<2x?x4xbf16> {coda.dims = [2 : i64, "T", 4 : i64]}, %c: tensor<2x?x4xbf16> {coda.dims = [2 : i64, "T", 4 : i64]}, %skip: tensor<3xbf16>) -> tensor<2x?x3xbf16> {
// CHECK-NEXT:   %times = coda.softplus %dt : (tensor<2x?x3xbf16>) -> tensor<2x?x3xbf16>
// CHECK-NEXT:   %y4 = coda.selective_scan %u, %times, %a, %b, %c : (tensor<2x?x3xbf16>, tensor<2x?x3xbf16>, tensor<3x4xf32>, tensor<2x?x4xbf16>, tensor<2x?x4xbf16>) -> tensor<2x?x3xbf16>
// CHECK-NEXT:   %us = coda.mul %u, %skip : (tensor<2x?x3xbf16>, tensor<3xbf16>) -> tensor<2x?x3xbf16>
// CHECK-NEXT:   %sum = coda.add %y4, %us : (tensor<2x?x3xbf16>, tensor<2x?x3xbf16>) -> tensor<2x?x3xbf16>
// CHECK-NEXT:   func.return %sum : tensor<2x?x3xbf16>
// CHECK-NEXT: }

func.func @last_state(%u: tensor<5x2x3x1xf32>, %dt: tensor<5x2x3x1xf32>, %a: tensor<1x1x3x4xf32>, %b: tensor<5x2x1x4xf32>, %c: tensor<2x5x4x1xf32>) -> (tensor<2x5x3x1xf32>, tensor<1x2x3x4xf32>) {
  %rate = coda.mul %dt, %a : (tensor<5x2x3x1xf32>, tensor<1x1x3x4xf32>) -> tensor<5x2x3x4xf32>
  %decay = coda.exp %rate : (tensor<5x2x3x4xf32>) -> tensor<5x2x3x4xf32>
  %db = coda.mul %dt, %b : (tensor<5x2x3x1xf32>, tensor<5x2x1x4xf32>) -> tensor<5x2x3x4xf32>
  %x = coda.mul %db, %u : (tensor<5x2x3x4xf32>, tensor<5x2x3x1xf32>) -> tensor<5x2x3x4xf32>
  %h = torch.linear_scan %decay, %x : (tensor<5x2x3x4xf32>, tensor<5x2x3x4xf32>) -> tensor<5x2x3x4xf32>
  %ht = coda.transpose %h {perm = [1 : i64, 0 : i64, 2 : i64, 3 : i64]} : (tensor<5x2x3x4xf32>) -> tensor<2x5x3x4xf32>
  %y = torch.call "aten.matmul.default"(%ht, %c) {arguments = "{0}, {1}"} : (tensor<2x5x3x4xf32>, tensor<2x5x4x1xf32>) -> tensor<2x5x3x1xf32>
  %last = coda.slice %h {dim = 0 : i64, start = 4 : i64, stop = 5 : i64} : (tensor<5x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  func.return %y, %last : tensor<2x5x3x1xf32>, tensor<1x2x3x4xf32>
}

// CHECK:      func.func @last_state(%u: tensor<5x2x3x1xf32>, %dt: tensor<5x2x3x1xf32>, %a: tensor<1x1x3x4xf32>, %b: tensor<5x2x1x4xf32>, %c: tensor<2x5x4x1xf32>) -> (tensor<2x5x3x1xf32>, tensor<1x2x3x4xf32>) {
// CHECK-NEXT: }

// RUN: coda-opt %s -p own-results --split-input-file | filecheck %s
// RUN: coda-opt %s -p own-results --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// A result without coda.own may be a view of an argument, and one that is stored in an argument has
// to be.

func.func @views(%x: tensor<?x8xbf16> {coda.dims = ["M", 8 : i64]}, %cache: tensor<?x8xbf16> {coda.donated, coda.dims = ["M", 8 : i64]}) -> (tensor<8x?xbf16>, tensor<?x8xbf16> {coda.own}) {
  %t = coda.transpose %x {perm = [1, 0]} : (tensor<?x8xbf16>) -> tensor<8x?xbf16>
  %new = torch.call "aten.add.Tensor"(%cache, %x) {arguments = "{0}, {1}", in_place} : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  func.return %t, %new : tensor<8x?xbf16>, tensor<?x8xbf16>
}

// CHECK:        func.return %t, %new :

// -----

// Views of one result, which the model returns.

func.func @halves(%x: tensor<4x8xbf16>, %w: tensor<8x8xbf16>) -> (tensor<4x4xbf16> {coda.own = 0 : i64}, tensor<4x4xbf16> {coda.own = 0 : i64}) {
  %y = coda.linear %x, %w : (tensor<4x8xbf16>, tensor<8x8xbf16>) -> tensor<4x8xbf16>
  %a = coda.slice %y {dim = 1 : i64, start = 0 : i64, stop = 4 : i64} : (tensor<4x8xbf16>) -> tensor<4x4xbf16>
  %b = coda.slice %y {dim = 1 : i64, start = 4 : i64, stop = 8 : i64} : (tensor<4x8xbf16>) -> tensor<4x4xbf16>
  func.return %a, %b : tensor<4x4xbf16>, tensor<4x4xbf16>
}

// CHECK:        func.return %a, %b :

// -----

// The old values of a tensor that is overwritten are copied.

func.func @old(%cache: tensor<?x8xbf16> {coda.donated, coda.dims = ["M", 8 : i64]}) -> (tensor<?x8xbf16> {coda.own}) {
  func.return %cache : tensor<?x8xbf16>
}

// CHECK:        func.return %cache_1 :
// REMARK: remark[missed] own-results: torch.call: copied: it would share the memory of %cache; failed condition: a result has its own memory; costs 32*M bytes

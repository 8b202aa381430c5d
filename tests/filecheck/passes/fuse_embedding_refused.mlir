// RUN: coda-opt %s -p fuse-embedding --split-input-file | filecheck %s
// RUN: coda-opt %s -p fuse-embedding --split-input-file --remarks=missed -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK

// A single id, and a table whose rows are columns of a weight, which a kernel would have to copy.

func.func @one(%i: tensor<i64>, %j: tensor<?xi64>, %w: tensor<8x50xbf16>, %e: tensor<50x8xbf16>) -> (tensor<8xbf16>, tensor<?x8xbf16>) {
  %x = coda.embedding %i, %e : (tensor<i64>, tensor<50x8xbf16>) -> tensor<8xbf16>
  %t = coda.transpose %w {perm = [1 : i64, 0 : i64]} : (tensor<8x50xbf16>) -> tensor<50x8xbf16>
  %y = coda.embedding %j, %t : (tensor<?xi64>, tensor<50x8xbf16>) -> tensor<?x8xbf16>
  func.return %x, %y : tensor<8xbf16>, tensor<?x8xbf16>
}

// CHECK:      func.func @one(%i: tensor<i64>, %j: tensor<?xi64>, %w: tensor<8x50xbf16>, %e: tensor<50x8xbf16>) -> (tensor<8xbf16>, tensor<?x8xbf16>) {
// CHECK-NEXT:   %x = coda.embedding %i, %e : (tensor<i64>, tensor<50x8xbf16>) -> tensor<8xbf16>
// CHECK-NEXT:   %t = coda.transpose %w {perm = [1 : i64, 0 : i64]} : (tensor<8x50xbf16>) -> tensor<50x8xbf16>
// CHECK-NEXT:   %y = coda.embedding %j, %t : (tensor<?xi64>, tensor<50x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   func.return %x, %y : tensor<8xbf16>, tensor<?x8xbf16>
// CHECK-NEXT: }

// REMARK: remark[missed] fuse-embedding: coda.embedding: runs as PyTorch's embedding of %e; failed condition: the table is not a view, its size is known, kernels compute with its element type, and the ids have a dimension; costs 40 bytes
// REMARK: remark[missed] fuse-embedding: coda.embedding: runs as PyTorch's embedding of %t; failed condition: the table is not a view, its size is known, kernels compute with its element type, and the ids have a dimension; costs 40*d0 bytes

// -----

// The number of rows is not known, so that no kernel can check an id; and numbers that no kernel computes with.

func.func @unknown(%i: tensor<?xi64>, %e: tensor<?x8xbf16>, %d: tensor<50x8xf64>) -> (tensor<?x8xbf16>, tensor<?x8xf64>) {
  %x = coda.embedding %i, %e : (tensor<?xi64>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %y = coda.embedding %i, %d : (tensor<?xi64>, tensor<50x8xf64>) -> tensor<?x8xf64>
  func.return %x, %y : tensor<?x8xbf16>, tensor<?x8xf64>
}

// CHECK:      func.func @unknown(%i: tensor<?xi64>, %e: tensor<?x8xbf16>, %d: tensor<50x8xf64>) -> (tensor<?x8xbf16>, tensor<?x8xf64>) {
// CHECK-NEXT:   %x = coda.embedding %i, %e : (tensor<?xi64>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NEXT:   %y = coda.embedding %i, %d : (tensor<?xi64>, tensor<50x8xf64>) -> tensor<?x8xf64>
// CHECK-NEXT:   func.return %x, %y : tensor<?x8xbf16>, tensor<?x8xf64>
// CHECK-NEXT: }

// REMARK: remark[missed] fuse-embedding: coda.embedding: runs as PyTorch's embedding of %e; failed condition: the table is not a view, its size is known, kernels compute with its element type, and the ids have a dimension; costs 40*d0 bytes
// REMARK: remark[missed] fuse-embedding: coda.embedding: runs as PyTorch's embedding of %d; failed condition: the table is not a view, its size is known, kernels compute with its element type, and the ids have a dimension; costs 136*d0 bytes

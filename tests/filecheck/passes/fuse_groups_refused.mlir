// RUN: coda-opt %s -p fuse-groups --split-input-file | filecheck %s

// The sums of the heads leave the code.

func.func @sums(%z: tensor<?x16xf32>) -> (tensor<?x16xf32>, tensor<?x2x1xf32>) {
  %heads = coda.reshape %z : (tensor<?x16xf32>) -> tensor<?x2x8xf32>
  %mean = coda.reduce %heads {kind = "mean"} : (tensor<?x2x8xf32>) -> tensor<?x2x1xf32>
  %y = coda.sub %heads, %mean : (tensor<?x2x8xf32>, tensor<?x2x1xf32>) -> tensor<?x2x8xf32>
  %r = coda.reshape %y : (tensor<?x2x8xf32>) -> tensor<?x16xf32>
  func.return %r, %mean : tensor<?x16xf32>, tensor<?x2x1xf32>
}

// CHECK:      func.func @sums(
// CHECK-NEXT:   %heads = coda.reshape %z : (tensor<?x16xf32>) -> tensor<?x2x8xf32>
// CHECK-NEXT:   %mean = coda.reduce %heads {kind = "mean"} : (tensor<?x2x8xf32>) -> tensor<?x2x1xf32>
// CHECK-NEXT:   %y = coda.sub %heads, %mean : (tensor<?x2x8xf32>, tensor<?x2x1xf32>) -> tensor<?x2x8xf32>
// CHECK-NEXT:   %r = coda.reshape %y : (tensor<?x2x8xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   func.return %r, %mean : tensor<?x16xf32>, tensor<?x2x1xf32>
// CHECK-NEXT: }

// -----

// A head is wider than a tile.

func.func @wide(%z: tensor<?x1024xf32>) -> tensor<?x1024xf32> {
  %heads = coda.reshape %z : (tensor<?x1024xf32>) -> tensor<?x2x512xf32>
  %mean = coda.reduce %heads {kind = "mean"} : (tensor<?x2x512xf32>) -> tensor<?x2x1xf32>
  %y = coda.sub %heads, %mean : (tensor<?x2x512xf32>, tensor<?x2x1xf32>) -> tensor<?x2x512xf32>
  %r = coda.reshape %y : (tensor<?x2x512xf32>) -> tensor<?x1024xf32>
  func.return %r : tensor<?x1024xf32>
}

// CHECK:      func.func @wide(
// CHECK-NEXT:   %heads = coda.reshape %z : (tensor<?x1024xf32>) -> tensor<?x2x512xf32>
// CHECK-NEXT:   %mean = coda.reduce %heads {kind = "mean"} : (tensor<?x2x512xf32>) -> tensor<?x2x1xf32>
// CHECK-NEXT:   %y = coda.sub %heads, %mean : (tensor<?x2x512xf32>, tensor<?x2x1xf32>) -> tensor<?x2x512xf32>
// CHECK-NEXT:   %r = coda.reshape %y : (tensor<?x2x512xf32>) -> tensor<?x1024xf32>
// CHECK-NEXT:   func.return %r : tensor<?x1024xf32>
// CHECK-NEXT: }

// -----

// What the code gives is normalized over the whole row before the code goes on with it.

func.func @depends(%z: tensor<?x16xf32>) -> tensor<?x16xf32> {
  %heads = coda.reshape %z : (tensor<?x16xf32>) -> tensor<?x2x8xf32>
  %mean = coda.reduce %heads {kind = "mean"} : (tensor<?x2x8xf32>) -> tensor<?x2x1xf32>
  %y = coda.sub %heads, %mean : (tensor<?x2x8xf32>, tensor<?x2x1xf32>) -> tensor<?x2x8xf32>
  %r = coda.reshape %y : (tensor<?x2x8xf32>) -> tensor<?x16xf32>
  %s = coda.softmax %r : (tensor<?x16xf32>) -> tensor<?x16xf32>
  %again = coda.reshape %s : (tensor<?x16xf32>) -> tensor<?x2x8xf32>
  %t = coda.mul %again, %y : (tensor<?x2x8xf32>, tensor<?x2x8xf32>) -> tensor<?x2x8xf32>
  %u = coda.reshape %t : (tensor<?x2x8xf32>) -> tensor<?x16xf32>
  func.return %u : tensor<?x16xf32>
}

// CHECK:      func.func @depends(
// CHECK-NEXT:   %heads = coda.reshape %z : (tensor<?x16xf32>) -> tensor<?x2x8xf32>
// CHECK-NEXT:   %mean = coda.reduce %heads {kind = "mean"} : (tensor<?x2x8xf32>) -> tensor<?x2x1xf32>
// CHECK-NEXT:   %y = coda.sub %heads, %mean : (tensor<?x2x8xf32>, tensor<?x2x1xf32>) -> tensor<?x2x8xf32>
// CHECK-NEXT:   %r = coda.reshape %y : (tensor<?x2x8xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %s = coda.softmax %r : (tensor<?x16xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   %again = coda.reshape %s : (tensor<?x16xf32>) -> tensor<?x2x8xf32>
// CHECK-NEXT:   %t = coda.mul %again, %y : (tensor<?x2x8xf32>, tensor<?x2x8xf32>) -> tensor<?x2x8xf32>
// CHECK-NEXT:   %u = coda.reshape %t : (tensor<?x2x8xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   func.return %u : tensor<?x16xf32>
// CHECK-NEXT: }

// -----

// A number per head comes in, which no port loads, and there is no reduction.

func.func @number(%z: tensor<?x16xf32>, %slope: tensor<2x1xf32>) -> tensor<?x16xf32> {
  %heads = coda.reshape %z : (tensor<?x16xf32>) -> tensor<?x2x8xf32>
  %y = coda.mul %heads, %slope : (tensor<?x2x8xf32>, tensor<2x1xf32>) -> tensor<?x2x8xf32>
  %r = coda.reshape %y : (tensor<?x2x8xf32>) -> tensor<?x16xf32>
  func.return %r : tensor<?x16xf32>
}

// CHECK:      func.func @number(
// CHECK-NEXT:   %heads = coda.reshape %z : (tensor<?x16xf32>) -> tensor<?x2x8xf32>
// CHECK-NEXT:   %y = coda.mul %heads, %slope : (tensor<?x2x8xf32>, tensor<2x1xf32>) -> tensor<?x2x8xf32>
// CHECK-NEXT:   %r = coda.reshape %y : (tensor<?x2x8xf32>) -> tensor<?x16xf32>
// CHECK-NEXT:   func.return %r : tensor<?x16xf32>
// CHECK-NEXT: }

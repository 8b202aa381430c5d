// RUN: coda-opt %s -p "convert-linear-to-gemm,fuse-groups{of-weight-gradients=true},dce" --split-input-file | filecheck %s

// The gradient alone: the epilogue has all that the sum needs.

func.func @alone(%dy: tensor<?x4xbf16>, %x: tensor<?x512xbf16>) -> tensor<4x512xbf16> {
  %dw = coda.weight_gradient %dy, %x : (tensor<?x4xbf16>, tensor<?x512xbf16>) -> tensor<4x512xbf16>
  %s = coda.reduce %dw {kind = "max"} : (tensor<4x512xbf16>) -> tensor<4x1xbf16>
  %d = coda.sub %dw, %s : (tensor<4x512xbf16>, tensor<4x1xbf16>) -> tensor<4x512xbf16>
  func.return %d : tensor<4x512xbf16>
}

// CHECK-LABEL: func.func @alone(
// CHECK-NEXT:    %dw = gemm.fused transposed %dy : tensor<?x4xbf16>
// CHECK-NEXT:      columns(%x : tensor<?x512xbf16>) kn
// CHECK-NEXT:        -> (tile : tensor<4x512xbf16>) {
// CHECK-NEXT:      ^bb0(%acc: f32):
// CHECK-NEXT:        gemm.yield %acc : f32
// CHECK-NEXT:      }
// CHECK-NEXT:    %s = coda.reduce %dw {kind = "max"} : (tensor<4x512xbf16>) -> tensor<4x1xbf16>
// CHECK-NEXT:    %d = coda.sub %dw, %s : (tensor<4x512xbf16>, tensor<4x1xbf16>) -> tensor<4x512xbf16>
// CHECK-NEXT:    func.return %d : tensor<4x512xbf16>

// -----

// Short rows, which the epilogue has whole.

func.func @short(%dy: tensor<?x4xbf16>, %x: tensor<?x16xbf16>, %w: tensor<4x16xbf16>) -> tensor<4x16xbf16> {
  %dw = coda.weight_gradient %dy, %x : (tensor<?x4xbf16>, tensor<?x16xbf16>) -> tensor<4x16xbf16>
  %p = coda.mul %dw, %w : (tensor<4x16xbf16>, tensor<4x16xbf16>) -> tensor<4x16xbf16>
  %s = coda.reduce %p {kind = "sum"} : (tensor<4x16xbf16>) -> tensor<4x1xbf16>
  %d = coda.sub %dw, %s : (tensor<4x16xbf16>, tensor<4x1xbf16>) -> tensor<4x16xbf16>
  func.return %d : tensor<4x16xbf16>
}

// CHECK-LABEL: func.func @short(
// CHECK-NEXT:    %dw = gemm.fused transposed %dy : tensor<?x4xbf16>
// CHECK-NEXT:      columns(%x : tensor<?x16xbf16>) kn
// CHECK-NEXT:        -> (tile : tensor<4x16xbf16>) {
// CHECK-NEXT:      ^bb0(%acc: f32):
// CHECK-NEXT:        gemm.yield %acc : f32
// CHECK-NEXT:      }
// CHECK-NEXT:    %p = coda.mul %dw, %w : (tensor<4x16xbf16>, tensor<4x16xbf16>) -> tensor<4x16xbf16>
// CHECK-NEXT:    %s = coda.reduce %p {kind = "sum"} : (tensor<4x16xbf16>) -> tensor<4x1xbf16>
// CHECK-NEXT:    %d = coda.sub %dw, %s : (tensor<4x16xbf16>, tensor<4x1xbf16>) -> tensor<4x16xbf16>
// CHECK-NEXT:    func.return %d : tensor<4x16xbf16>

// -----

// Activations, whose sums others may read from the epilogue.

func.func @activations(%x: tensor<?x16xbf16>, %w: tensor<512x16xbf16>, %r: tensor<?x512xbf16>) -> tensor<?x512xbf16> {
  %z = coda.linear %x, %w : (tensor<?x16xbf16>, tensor<512x16xbf16>) -> tensor<?x512xbf16>
  %p = coda.mul %z, %r : (tensor<?x512xbf16>, tensor<?x512xbf16>) -> tensor<?x512xbf16>
  %s = coda.reduce %p {kind = "sum"} : (tensor<?x512xbf16>) -> tensor<?x1xbf16>
  %y = coda.sub %z, %s : (tensor<?x512xbf16>, tensor<?x1xbf16>) -> tensor<?x512xbf16>
  func.return %y : tensor<?x512xbf16>
}

// CHECK-LABEL: func.func @activations(
// CHECK-NEXT:    %z = gemm.fused %x : tensor<?x16xbf16>
// CHECK-NEXT:      columns(%w : tensor<512x16xbf16>)
// CHECK-NEXT:        -> (tile : tensor<?x512xbf16>) {
// CHECK-NEXT:      ^bb0(%acc: f32):
// CHECK-NEXT:        gemm.yield %acc : f32
// CHECK-NEXT:      }
// CHECK-NEXT:    %p = coda.mul %z, %r : (tensor<?x512xbf16>, tensor<?x512xbf16>) -> tensor<?x512xbf16>
// CHECK-NEXT:    %s = coda.reduce %p {kind = "sum"} : (tensor<?x512xbf16>) -> tensor<?x1xbf16>
// CHECK-NEXT:    %y = coda.sub %z, %s : (tensor<?x512xbf16>, tensor<?x1xbf16>) -> tensor<?x512xbf16>
// CHECK-NEXT:    func.return %y : tensor<?x512xbf16>

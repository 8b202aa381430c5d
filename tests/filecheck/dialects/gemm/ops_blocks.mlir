// RUN: coda-opt %s | filecheck %s
// RUN: coda-opt %s --print-op-generic | coda-opt | filecheck %s

// Operands with scales of blocks, of two column ranges, one of which has two weights.

// CHECK:      func.func @blocks(%x: tensor<?x256xf8E4M3FN>, %w: tensor<512x256xf8E4M3FN>, %v: tensor<512x256xf8E4M3FN>, %sx: tensor<?x2xf32>, %sw: tensor<4x2xf32>, %sv: tensor<4x2xf32>) -> (tensor<?x512xbf16>, tensor<?x512xbf16>) {
// CHECK-NEXT:   %y, %z = gemm.fused %x : tensor<?x256xf8E4M3FN> blocks<128, 128>(%sx : tensor<?x2xf32>)
// CHECK-NEXT:     columns(%w : tensor<512x256xf8E4M3FN>) scales(%sw : tensor<4x2xf32>)
// CHECK-NEXT:       -> (tile : tensor<?x512xbf16>) {
// CHECK-NEXT:     ^epilogue(%acc: f32):
// CHECK-NEXT:       gemm.yield %acc : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     columns(%w : tensor<512x256xf8E4M3FN>, %v : tensor<512x256xf8E4M3FN>) scales(%sw : tensor<4x2xf32>, %sv : tensor<4x2xf32>) pair<halves>
// CHECK-NEXT:       -> (half : tensor<?x512xbf16>) {
// CHECK-NEXT:     ^epilogue_1(%gate: f32, %up: f32):
// CHECK-NEXT:       gemm.yield %gate : f32
// CHECK-NEXT:     }
// CHECK-NEXT:   func.return %y, %z : tensor<?x512xbf16>, tensor<?x512xbf16>
// CHECK-NEXT: }
func.func @blocks(%x: tensor<?x256xf8E4M3FN>, %w: tensor<512x256xf8E4M3FN>, %v: tensor<512x256xf8E4M3FN>, %sx: tensor<?x2xf32>, %sw: tensor<4x2xf32>, %sv: tensor<4x2xf32>) -> (tensor<?x512xbf16>, tensor<?x512xbf16>) {
  %y, %z = gemm.fused %x : tensor<?x256xf8E4M3FN> blocks<128, 128>(%sx : tensor<?x2xf32>)
    columns(%w : tensor<512x256xf8E4M3FN>) scales(%sw : tensor<4x2xf32>)
      -> (tile : tensor<?x512xbf16>) {
    ^epilogue(%acc: f32):
      gemm.yield %acc : f32
    }
    columns(%w : tensor<512x256xf8E4M3FN>, %v : tensor<512x256xf8E4M3FN>) scales(%sw : tensor<4x2xf32>, %sv : tensor<4x2xf32>) pair<halves>
      -> (half : tensor<?x512xbf16>) {
    ^epilogue(%gate: f32, %up: f32):
      gemm.yield %gate : f32
    }
  func.return %y, %z : tensor<?x512xbf16>, tensor<?x512xbf16>
}

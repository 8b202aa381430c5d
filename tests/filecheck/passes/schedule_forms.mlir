// RUN: coda-opt %s -p 'schedule{target=sm_90 gemms=library}' | filecheck %s --check-prefix=LIBRARY
// RUN: coda-opt %s -p 'schedule{target=sm_90 gemms=unfused}' | filecheck %s --check-prefix=UNFUSED
// RUN: coda-opt %s -p 'schedule{target=sm_90 gemms=fused}' | filecheck %s --check-prefix=FUSED
// RUN: not coda-opt %s -p 'schedule{gemms=none}' -o /dev/null 2>&1 | filecheck %s --check-prefix=WRONG

// Who computes products and epilogues, where the options say it. What cannot be taken apart stays fused.

// LIBRARY:      %product = gemm.library %x
// LIBRARY-NEXT: %y = gemm.map tile(%product : tensor<?x16xf32>)
// LIBRARY:      %z = gemm.fused %x
// LIBRARY-NEXT:   schedule<pointer,

// UNFUSED:      %product = gemm.fused %x
// UNFUSED-NEXT:   schedule<pointer,
// UNFUSED:      %y = gemm.map tile(%product : tensor<?x16xf32>)
// UNFUSED:      %z = gemm.fused %x

// FUSED:      %y = gemm.fused %x
// FUSED-NEXT:   schedule<pointer,
// FUSED:      %z = gemm.fused %x

// WRONG: schedule: unknown gemms 'none'
// WRONG:      help: use fused, unfused, library

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>) -> (tensor<?x16xbf16>, tensor<16x?xbf16>) {
  %y = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>)
      -> (tile : tensor<?x16xbf16>) {
    ^bb0(%acc: f32):
      %0 = math.tanh %acc : f32
      gemm.yield %0 : f32
    }
  %z = gemm.fused %x : tensor<?x8xbf16>
    columns(%w : tensor<16x8xbf16>)
      -> (tile_t : tensor<16x?xbf16>) {
    ^bb0(%acc: f32):
      %0 = math.tanh %acc : f32
      gemm.yield %0 : f32
    }
  func.return %y, %z : tensor<?x16xbf16>, tensor<16x?xbf16>
}

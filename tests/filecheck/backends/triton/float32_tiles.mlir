// RUN: coda-opt %s -p plan-buffers -t triton | filecheck %s

// The input gradient of a norm with a float32 residual, as autocast has it. Two tiles of float32 that
// are loaded, one that is stored and one of bfloat16: subtiles of 64 columns would take 80 KiB beside
// the stages, of which there are 144 of 227, if the float32 result is stored where a tile was loaded.
// So do subtiles of 32 columns, of which two are loaded ahead.

func.func @f(%dz : tensor<?x128xbf16>, %w : tensor<128x512xbf16>, %h : tensor<?x512xf32>, %res : tensor<?x512xf32>,
    %rstd : tensor<?x1xf32>, %gamma : tensor<512xf32>, %along : tensor<?x1xf32>) -> (tensor<?x512xf32>, tensor<?x512xbf16>, tensor<?x512xf32>) {
  %y0, %y1, %y2 = gemm.fused %dz : tensor<?x128xbf16>
      schedule<warp_specialized, "128x256x64", warps = 8, stages = 3, group_m = 8>
      columns(%w : tensor<128x512xbf16>) kn tile(%h : tensor<?x512xf32>)
      col(%rstd : tensor<?x1xf32>) row(%gamma : tensor<512xf32>) col(%along : tensor<?x1xf32>) tile(%res : tensor<?x512xf32>)
      -> (tile : tensor<?x512xf32>, tile : tensor<?x512xbf16>, partial_col<add> : tensor<?x512xf32>) {
  ^epilogue(%acc : f32, %x : f32, %s : f32, %g : f32, %t : f32, %r : f32):
    %normed = arith.mulf %x, %s : f32
    %p = arith.mulf %acc, %normed : f32
    %scaled = arith.mulf %normed, %g : f32
    %dnormed = arith.mulf %acc, %g : f32
    %back = arith.mulf %normed, %t : f32
    %rest = arith.subf %dnormed, %back : f32
    %dx = arith.mulf %rest, %s : f32
    %dh = arith.addf %dx, %r : f32
    gemm.yield %dh, %dh, %p : f32, f32, f32
  }
  func.return %y0, %y1, %y2 : tensor<?x512xf32>, tensor<?x512xbf16>, tensor<?x512xf32>
}

// CHECK:      BOX_128x32_FP32 = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=32, rank=2)
// CHECK:      def [[NAME:gemm_\w+]]_compute(
// CHECK:          acc_subtiles = split_columns(acc, 8)
// CHECK-NEXT:     for subtile in gl.static_range(8):
// CHECK:              mbarrier.wait(ready.index(subtile % 2), (subtile // 2) & 1)
// CHECK-NEXT:         x = port0_buffers.index(subtile % 2).load(LAYOUT)
// CHECK-NEXT:         r = port1_buffers.index(subtile % 2).load(LAYOUT)

// A subtile of the float32 result is stored as it is, two of the other one together: 128 bytes of a row.
// What a subtile has read and written, it hands over to the warp that moves tiles.

// CHECK:              port0_buffers.index(subtile % 2).store(dh)
// CHECK-NEXT:         if subtile % 2 == 0:
// CHECK-NEXT:             held = (gluon_to_bf16(dh),)
// CHECK-NEXT:         else:
// CHECK-NEXT:             held = held + (gluon_to_bf16(dh),)
// CHECK-NEXT:         if subtile % 2 == 1:
// CHECK-NEXT:             mbarrier.wait(free.index(0), freed & 1)
// CHECK-NEXT:             freed += 1
// CHECK-NEXT:             buffers.index(0).store(join_columns(held[0], held[1]))
// CHECK-NEXT:         fence_async_shared()
// CHECK-NEXT:         mbarrier.arrive(done.index(moved % 8))
// CHECK-NEXT:         moved += 1
// CHECK:      def [[NAME]]_move(
// CHECK:          tma.store_wait(0)
// CHECK-NEXT:     for subtile in gl.static_range(2):
// CHECK:              mbarrier.expect(ready.index(subtile % 2), 32768)
// CHECK-NEXT:         tma_load(
// CHECK-NEXT:             h_desc,
// CHECK-NEXT:             [first_row, subtile_index * 32],
// CHECK:          mbarrier.arrive(free.index(0))
// CHECK-NEXT:     for subtile in gl.static_range(8):
// CHECK-NEXT:         subtile_index = tile_n * 8 + subtile
// CHECK-NEXT:         mbarrier.wait(done.index(moved % 8), (moved // 8) & 1)
// CHECK-NEXT:         moved += 1
// CHECK-NEXT:         tma_store(
// CHECK-NEXT:             y0_desc,
// CHECK-NEXT:             [first_row, subtile_index * 32],
// CHECK-NEXT:             port0_buffers.index(subtile % 2),
// CHECK-NEXT:         )
// CHECK-NEXT:         if subtile % 2 == 1:
// CHECK-NEXT:             tma_store(y1_desc, [first_row, (subtile_index - 1) * 32], buffers.index(0))
// CHECK-NEXT:         if subtile < 6:
// CHECK-NEXT:             tma.store_wait(0)
// CHECK-NEXT:             mbarrier.expect(ready.index(subtile % 2), 32768)
// CHECK:      def [[NAME]](
// CHECK:          port0_buffers = gl.allocate_shared_memory(gl.float32, [2, 128, 32], BOX_128x32_FP32)
// CHECK:          port1_buffers = gl.allocate_shared_memory(gl.float32, [2, 128, 32], BOX_128x32_FP32)
// CHECK:          buffers = gl.allocate_shared_memory(gl.bfloat16, [1, 128, 64], BOX_128x64_BF16)

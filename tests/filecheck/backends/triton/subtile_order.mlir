// RUN: coda-opt %s -p plan-buffers -t triton | filecheck %s

// Two heads of 128 in a tile of four subtiles: subtiles 0 and 2 are rotated by the same cosines and sines, and
// so are subtiles 1 and 3. They follow each other, so that these are loaded once, and further ahead.

func.func @f(%x : tensor<?x128xbf16>, %w : tensor<512x128xbf16>, %cos : tensor<?x64xf32>, %sin : tensor<?x64xf32>)
    -> tensor<?x512xbf16> {
  %y = gemm.fused %x : tensor<?x128xbf16>
      schedule<warp_specialized, "128x256x64", warps = 8, stages = 3, group_m = 8>
      columns(%w : tensor<512x128xbf16>) pair<halves, 128> half_table(%cos : tensor<?x64xf32>, %sin : tensor<?x64xf32>)
      -> (tile : tensor<?x512xbf16>) {
  ^epilogue(%p : f32, %q : f32, %c : f32, %s : f32):
    %ac = arith.mulf %p, %c : f32
    %bs = arith.mulf %q, %s : f32
    %y0 = arith.subf %ac, %bs : f32
    %as = arith.mulf %p, %s : f32
    %bc = arith.mulf %q, %c : f32
    %y1 = arith.addf %bc, %as : f32
    gemm.yield %y0, %y1 : f32, f32
  }
  func.return %y : tensor<?x512xbf16>
}

// CHECK:      def [[NAME:gemm_\w+]]_ports(
// CHECK:          subtile_index = tile_n * 4 + subtile
// CHECK:          return (c, s,)
// CHECK:      def [[NAME]]_compute(
// CHECK:          ahead = [[NAME]]_ports({{.*}}, 0, LAYOUT)
// CHECK-NEXT:     acc, step = accumulate(
// CHECK:          q_subtiles = split_columns(second_half, 4)
// CHECK-NEXT:     for place in gl.static_range(2):
// CHECK-NEXT:         c = ahead[0]
// CHECK-NEXT:         s = ahead[1]
// CHECK-NEXT:         if place < 1:
// CHECK-NEXT:             ahead = [[NAME]]_ports({{.*}}, place + 1, LAYOUT)
// CHECK-NEXT:         for subtile in gl.static_range(place, 4, 2):
// CHECK-NEXT:             p = p_subtiles[subtile]
// CHECK-NEXT:             q = q_subtiles[subtile]

// Subtiles of both heads are held, until the last two of each are there and stored together.

// CHECK:                  if subtile == 0:
// CHECK-NEXT:                 held = (gluon_to_bf16(y0),)
// CHECK-NEXT:             else:
// CHECK-NEXT:                 held = held + (gluon_to_bf16(y0),)
// CHECK-NEXT:             if subtile % 2 == 1:
// CHECK-NEXT:                 buffers.index(2 * (subtile // 2) % 4).store(join_columns(held[subtile // 2], held[2 + subtile // 2]))
// CHECK:      def [[NAME]]_move(
// CHECK:          for place in gl.static_range(2):
// CHECK-NEXT:         for subtile in gl.static_range(place, 4, 2):
// CHECK-NEXT:             subtile_index = tile_n * 4 + subtile
// CHECK-NEXT:             if subtile % 2 == 1:
// CHECK-NEXT:                 mbarrier.wait(done.index(moved % 4), (moved // 4) & 1)
// CHECK-NEXT:                 moved += 1
// CHECK-NEXT:                 tma_store(
// CHECK-NEXT:                     y_desc,
// CHECK-NEXT:                     [first_row, (subtile_index - 1) * 32 // 64 * 128 + (subtile_index - 1) * 32 % 64],
// CHECK-NEXT:                     buffers.index(2 * (subtile // 2) % 4),

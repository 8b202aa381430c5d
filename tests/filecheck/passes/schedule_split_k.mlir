// RUN: coda-opt %s -p "schedule{target=sm_90 mainloop=tma split_k=4}" | filecheck %s --check-prefix ASKED
// RUN: coda-opt %s -p "schedule{target=sm_90 mainloop=tma sizes=\"B=256\"}" --remarks 2>&1 | filecheck %s --check-prefix FEW
// RUN: coda-opt %s -p "schedule{target=sm_90 mainloop=tma sizes=\"B=16384\"}" | filecheck %s --check-prefix MANY
// RUN: coda-opt %s -p "schedule{target=sm_90 mainloop=tma}" | filecheck %s --check-prefix MANY
// RUN: coda-opt %s -p "schedule{target=sm_90 mainloop=tma tile=\"16x64x64\" split_k=4 sizes=\"B=1\"}" -t triton | filecheck %s --check-prefix KERNEL

// Several programs share the K of a tile where tiles are fewer than processors. Asked for, it is done for any size.

// ASKED: schedule<tma, "128x256x64", warps = 8, stages = 3, group_m = 8, split_k = 4>

// FEW: remark[analysis] schedule: gemm.fused: M x 4096 x 11008 in tiles of 128 x 128 x 64, {{.*}}, K split among 2 programs
// FEW: schedule<tma, "128x128x64", warps = 8, stages = 3, group_m = 8, split_k = 2>

// MANY: schedule<tma, "128x256x64", warps = 8, stages = 3, group_m = 8>

// Each program sums a part of K. The last one of a tile adds them in the order of K, and has the epilogue.

// KERNEL:      M x 4096 x 11008 GEMM in tiles of 16 x 64 x 64, 4 programs for each
// KERNEL:      tile = tl.program_id(0) // SPLIT_K
// KERNEL-NEXT: split = tl.program_id(0) % SPLIT_K
// KERNEL:      first, last = depths_of_split(11008, split, SPLIT_K, BLOCK_K)
// KERNEL-NEXT: (acc_split,) = tma_multiply(
// KERNEL:      store_partial(partials + split * 1024, acc_split, row_mask)
// KERNEL-NEXT: if is_last_of_tile(counters_ptr + tile, SPLIT_K):
// KERNEL-NEXT:     acc = sum_of_partials(partials, row_mask, 64, 1024, SPLIT_K)
// KERNEL:          y = acc + r
// KERNEL:      def run(x, w, r):
// KERNEL:      tiles = (B + 15) // 16 * 64
// KERNEL-NEXT: partials = torch.empty((tiles * 4096,), dtype=torch.float32, device=device)
// KERNEL-NEXT: counters = tile_counters(tiles, device)
func.func @f(%x: tensor<?x11008xbf16> {coda.name = "x", coda.dims = ["B", 11008]}, %w: tensor<4096x11008xbf16>, %r: tensor<?x4096xbf16> {coda.dims = ["B", 4096]}) -> tensor<?x4096xbf16> {
  %z = gemm.fused %x : tensor<?x11008xbf16>
    columns(%w : tensor<4096x11008xbf16>) tile(%r : tensor<?x4096xbf16>)
      -> (tile : tensor<?x4096xbf16>) {
    ^bb0(%acc: f32, %res: f32):
      %y = arith.addf %acc, %res : f32
      gemm.yield %y : f32
    }
  func.return %z : tensor<?x4096xbf16>
}


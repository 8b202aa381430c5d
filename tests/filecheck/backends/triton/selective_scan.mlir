// RUN: coda-opt %s -t triton | filecheck %s

// Columns of a projection are read where they are.

func.func @f(%u: tensor<?x?x64xbf16> {coda.dims = ["B", "T", 64]}, %dt: tensor<?x?x64xf32> {coda.dims = ["B", "T", 64]}, %a: tensor<64x6xf32>, %p: tensor<?x?x32xbf16> {coda.dims = ["B", "T", 32]}) -> tensor<?x?x64xbf16> {
  %b = coda.slice %p {dim = 2 : i64, start = 0 : i64, stop = 6 : i64} : (tensor<?x?x32xbf16>) -> tensor<?x?x6xbf16>
  %c = coda.slice %p {dim = 2 : i64, start = 8 : i64, stop = 14 : i64} : (tensor<?x?x32xbf16>) -> tensor<?x?x6xbf16>
  %y = coda.selective_scan %u, %dt, %a, %b, %c : (tensor<?x?x64xbf16>, tensor<?x?x64xf32>, tensor<64x6xf32>, tensor<?x?x6xbf16>, tensor<?x?x6xbf16>) -> tensor<?x?x64xbf16>
  func.return %y : tensor<?x?x64xbf16>
}

// CHECK:      @triton.jit(do_not_specialize=["T"])
// CHECK-NEXT: def chunk_states(x_ptr, dt_ptr, a_ptr, b_ptr, states_ptr, times_ptr, T):
// CHECK-NEXT:     """States of chunks of 128 rows, blocks of 32 channels."""
// CHECK-NEXT:     place = (tl.program_id(0) // 2).to(tl.int64)
// CHECK-NEXT:     channel = tl.program_id(0) % 2 * 32 + tl.arange(0, 32)[None, :]
// CHECK-NEXT:     inside = channel < 64
// CHECK-NEXT:     state = tl.arange(0, 8)[:, None]
// CHECK-NEXT:     holds = state < 6
// CHECK-NEXT:     sample = place // (tl.cdiv(T, 128) - 1)
// CHECK-NEXT:     chunk = place % (tl.cdiv(T, 128) - 1)
// CHECK-NEXT:     row = sample * T + chunk * 128
// CHECK-NEXT:     end = tl.minimum(row + 128, (sample + 1) * T)
// CHECK-NEXT:     a = tl.load(a_ptr + channel * 6 + state, mask=inside & holds, other=0.0)
// CHECK-NEXT:     h = tl.zeros((8, 32), tl.float32)
// CHECK-NEXT:     time = tl.zeros((1, 32), tl.float32)
// CHECK-NEXT:     while row < end:
// CHECK-NEXT:         x_0 = tl.load(x_ptr + row * 64 + channel, mask=inside & (row < end), other=0.0).to(tl.float32)
// CHECK-NEXT:         dt_0 = tl.load(dt_ptr + row * 64 + channel, mask=inside & (row < end), other=0.0)
// CHECK-NEXT:         b_0 = tl.load(b_ptr + row * 32 + state, mask=holds & (row < end), other=0.0).to(tl.float32)
// CHECK-NEXT:         x_1 = tl.load(x_ptr + (row + 1) * 64 + channel, mask=inside & ((row + 1) < end), other=0.0).to(tl.float32)
// CHECK-NEXT:         dt_1 = tl.load(dt_ptr + (row + 1) * 64 + channel, mask=inside & ((row + 1) < end), other=0.0)
// CHECK-NEXT:         b_1 = tl.load(b_ptr + (row + 1) * 32 + state, mask=holds & ((row + 1) < end), other=0.0).to(tl.float32)
// CHECK-NEXT:         x_2 = tl.load(x_ptr + (row + 2) * 64 + channel, mask=inside & ((row + 2) < end), other=0.0).to(tl.float32)
// CHECK-NEXT:         dt_2 = tl.load(dt_ptr + (row + 2) * 64 + channel, mask=inside & ((row + 2) < end), other=0.0)
// CHECK-NEXT:         b_2 = tl.load(b_ptr + (row + 2) * 32 + state, mask=holds & ((row + 2) < end), other=0.0).to(tl.float32)
// CHECK-NEXT:         x_3 = tl.load(x_ptr + (row + 3) * 64 + channel, mask=inside & ((row + 3) < end), other=0.0).to(tl.float32)
// CHECK-NEXT:         dt_3 = tl.load(dt_ptr + (row + 3) * 64 + channel, mask=inside & ((row + 3) < end), other=0.0)
// CHECK-NEXT:         b_3 = tl.load(b_ptr + (row + 3) * 32 + state, mask=holds & ((row + 3) < end), other=0.0).to(tl.float32)
// CHECK-NEXT:         h = tl.exp2(dt_0 * 1.4426950408889634 * a) * h + dt_0 * x_0 * b_0
// CHECK-NEXT:         h = tl.exp2(dt_1 * 1.4426950408889634 * a) * h + dt_1 * x_1 * b_1
// CHECK-NEXT:         h = tl.exp2(dt_2 * 1.4426950408889634 * a) * h + dt_2 * x_2 * b_2
// CHECK-NEXT:         h = tl.exp2(dt_3 * 1.4426950408889634 * a) * h + dt_3 * x_3 * b_3
// CHECK-NEXT:         time += dt_0 + dt_1 + dt_2 + dt_3
// CHECK-NEXT:         row += 4

// CHECK:          chunks = (T + 127) // 128
// CHECK-NEXT:     all_chunks = B * chunks
// CHECK-NEXT:     carried_chunks = B * max(0, chunks - 1)
// CHECK-NEXT:     states = torch.empty((carried_chunks * 64 * 6,), dtype=torch.float32, device=device)
// CHECK-NEXT:     times = torch.empty((carried_chunks * 64,), dtype=torch.float32, device=device)
// CHECK-NEXT:     if carried_chunks:
// CHECK-NEXT:         chunk_states[(carried_chunks * 2,)](
// CHECK-NEXT:             u,
// CHECK-NEXT:             dt,
// CHECK-NEXT:             a,
// CHECK-NEXT:             b,
// CHECK-NEXT:             states,
// CHECK-NEXT:             times,
// CHECK-NEXT:             u.shape[1],
// CHECK-NEXT:             num_warps=1,
// CHECK-NEXT:             num_stages=2,
// CHECK-NEXT:         )
// CHECK-NEXT:         carry_states[(B * 2,)](
// CHECK-NEXT:             a,
// CHECK-NEXT:             states,
// CHECK-NEXT:             times,
// CHECK-NEXT:             u.shape[1],
// CHECK-NEXT:             num_warps=1,
// CHECK-NEXT:             num_stages=2,
// CHECK-NEXT:         )
// CHECK-NEXT:     y = torch.empty((B, T, 64), dtype=torch.bfloat16, device=device)
// CHECK-NEXT:     selective_scan[(all_chunks * 2,)](
// CHECK-NEXT:         u,
// CHECK-NEXT:         dt,
// CHECK-NEXT:         a,
// CHECK-NEXT:         b,
// CHECK-NEXT:         c,
// CHECK-NEXT:         states,
// CHECK-NEXT:         y,
// CHECK-NEXT:         u.shape[1],
// CHECK-NEXT:         num_warps=1,
// CHECK-NEXT:         num_stages=2,
// CHECK-NEXT:     )
// CHECK-NEXT:     return y

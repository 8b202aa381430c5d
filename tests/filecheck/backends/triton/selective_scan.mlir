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
// CHECK-NEXT:     """States of chunks of 128 rows, blocks of 64 channels."""
// CHECK-NEXT:     place = (tl.program_id(0) // 1).to(tl.int64)
// CHECK-NEXT:     channel_of_0 = tl.program_id(0) % 1 * 64 + tl.arange(0, 32)[None, :]
// CHECK-NEXT:     inside_of_0 = channel_of_0 < 64
// CHECK-NEXT:     channel_of_1 = tl.program_id(0) % 1 * 64 + tl.arange(32, 64)[None, :]
// CHECK-NEXT:     inside_of_1 = channel_of_1 < 64
// CHECK-NEXT:     state = tl.arange(0, 8)[:, None]
// CHECK-NEXT:     holds = state < 6
// CHECK-NEXT:     sample = place // (tl.cdiv(T, 128) - 1)
// CHECK-NEXT:     chunk = place % (tl.cdiv(T, 128) - 1)
// CHECK-NEXT:     row = sample * T + chunk * 128
// CHECK-NEXT:     end = tl.minimum(row + 128, (sample + 1) * T)
// CHECK-NEXT:     a_of_0 = tl.load(a_ptr + channel_of_0 * 6 + state, mask=inside_of_0 & holds, other=0.0)
// CHECK-NEXT:     h_of_0 = tl.zeros((8, 32), tl.float32)
// CHECK-NEXT:     time_of_0 = tl.zeros((1, 32), tl.float32)
// CHECK-NEXT:     a_of_1 = tl.load(a_ptr + channel_of_1 * 6 + state, mask=inside_of_1 & holds, other=0.0)
// CHECK-NEXT:     h_of_1 = tl.zeros((8, 32), tl.float32)
// CHECK-NEXT:     time_of_1 = tl.zeros((1, 32), tl.float32)
// CHECK-NEXT:     while row + 4 <= end:
// CHECK-NEXT:         x_0_of_0 = tl.load(x_ptr + row * 64 + channel_of_0, mask=inside_of_0, other=0.0).to(tl.float32)
// CHECK-NEXT:         dt_0_of_0 = tl.load(dt_ptr + row * 64 + channel_of_0, mask=inside_of_0, other=0.0)
// CHECK-NEXT:         x_0_of_1 = tl.load(x_ptr + row * 64 + channel_of_1, mask=inside_of_1, other=0.0).to(tl.float32)
// CHECK-NEXT:         dt_0_of_1 = tl.load(dt_ptr + row * 64 + channel_of_1, mask=inside_of_1, other=0.0)
// CHECK-NEXT:         b_0 = tl.load(b_ptr + row * 32 + state, mask=holds, other=0.0).to(tl.float32)
// CHECK-NEXT:         x_1_of_0 = tl.load(x_ptr + (row + 1) * 64 + channel_of_0, mask=inside_of_0, other=0.0).to(tl.float32)
// CHECK-NEXT:         dt_1_of_0 = tl.load(dt_ptr + (row + 1) * 64 + channel_of_0, mask=inside_of_0, other=0.0)
// CHECK-NEXT:         x_1_of_1 = tl.load(x_ptr + (row + 1) * 64 + channel_of_1, mask=inside_of_1, other=0.0).to(tl.float32)
// CHECK-NEXT:         dt_1_of_1 = tl.load(dt_ptr + (row + 1) * 64 + channel_of_1, mask=inside_of_1, other=0.0)
// CHECK-NEXT:         b_1 = tl.load(b_ptr + (row + 1) * 32 + state, mask=holds, other=0.0).to(tl.float32)
// CHECK-NEXT:         x_2_of_0 = tl.load(x_ptr + (row + 2) * 64 + channel_of_0, mask=inside_of_0, other=0.0).to(tl.float32)
// CHECK-NEXT:         dt_2_of_0 = tl.load(dt_ptr + (row + 2) * 64 + channel_of_0, mask=inside_of_0, other=0.0)
// CHECK-NEXT:         x_2_of_1 = tl.load(x_ptr + (row + 2) * 64 + channel_of_1, mask=inside_of_1, other=0.0).to(tl.float32)
// CHECK-NEXT:         dt_2_of_1 = tl.load(dt_ptr + (row + 2) * 64 + channel_of_1, mask=inside_of_1, other=0.0)
// CHECK-NEXT:         b_2 = tl.load(b_ptr + (row + 2) * 32 + state, mask=holds, other=0.0).to(tl.float32)
// CHECK-NEXT:         x_3_of_0 = tl.load(x_ptr + (row + 3) * 64 + channel_of_0, mask=inside_of_0, other=0.0).to(tl.float32)
// CHECK-NEXT:         dt_3_of_0 = tl.load(dt_ptr + (row + 3) * 64 + channel_of_0, mask=inside_of_0, other=0.0)
// CHECK-NEXT:         x_3_of_1 = tl.load(x_ptr + (row + 3) * 64 + channel_of_1, mask=inside_of_1, other=0.0).to(tl.float32)
// CHECK-NEXT:         dt_3_of_1 = tl.load(dt_ptr + (row + 3) * 64 + channel_of_1, mask=inside_of_1, other=0.0)
// CHECK-NEXT:         b_3 = tl.load(b_ptr + (row + 3) * 32 + state, mask=holds, other=0.0).to(tl.float32)
// CHECK-NEXT:         h_of_0 = tl.exp2(dt_0_of_0 * 1.4426950408889634 * a_of_0) * h_of_0 + dt_0_of_0 * x_0_of_0 * b_0
// CHECK-NEXT:         h_of_0 = tl.exp2(dt_1_of_0 * 1.4426950408889634 * a_of_0) * h_of_0 + dt_1_of_0 * x_1_of_0 * b_1
// CHECK-NEXT:         h_of_0 = tl.exp2(dt_2_of_0 * 1.4426950408889634 * a_of_0) * h_of_0 + dt_2_of_0 * x_2_of_0 * b_2
// CHECK-NEXT:         h_of_0 = tl.exp2(dt_3_of_0 * 1.4426950408889634 * a_of_0) * h_of_0 + dt_3_of_0 * x_3_of_0 * b_3
// CHECK-NEXT:         time_of_0 += dt_0_of_0 + dt_1_of_0 + dt_2_of_0 + dt_3_of_0
// CHECK-NEXT:         h_of_1 = tl.exp2(dt_0_of_1 * 1.4426950408889634 * a_of_1) * h_of_1 + dt_0_of_1 * x_0_of_1 * b_0
// CHECK-NEXT:         h_of_1 = tl.exp2(dt_1_of_1 * 1.4426950408889634 * a_of_1) * h_of_1 + dt_1_of_1 * x_1_of_1 * b_1
// CHECK-NEXT:         h_of_1 = tl.exp2(dt_2_of_1 * 1.4426950408889634 * a_of_1) * h_of_1 + dt_2_of_1 * x_2_of_1 * b_2
// CHECK-NEXT:         h_of_1 = tl.exp2(dt_3_of_1 * 1.4426950408889634 * a_of_1) * h_of_1 + dt_3_of_1 * x_3_of_1 * b_3
// CHECK-NEXT:         time_of_1 += dt_0_of_1 + dt_1_of_1 + dt_2_of_1 + dt_3_of_1
// CHECK-NEXT:         row += 4
// CHECK-NEXT:     while row < end:
// CHECK-NEXT:         x_0_of_0 = tl.load(x_ptr + row * 64 + channel_of_0, mask=inside_of_0, other=0.0).to(tl.float32)
// CHECK-NEXT:         dt_0_of_0 = tl.load(dt_ptr + row * 64 + channel_of_0, mask=inside_of_0, other=0.0)
// CHECK-NEXT:         x_0_of_1 = tl.load(x_ptr + row * 64 + channel_of_1, mask=inside_of_1, other=0.0).to(tl.float32)
// CHECK-NEXT:         dt_0_of_1 = tl.load(dt_ptr + row * 64 + channel_of_1, mask=inside_of_1, other=0.0)
// CHECK-NEXT:         b_0 = tl.load(b_ptr + row * 32 + state, mask=holds, other=0.0).to(tl.float32)
// CHECK-NEXT:         h_of_0 = tl.exp2(dt_0_of_0 * 1.4426950408889634 * a_of_0) * h_of_0 + dt_0_of_0 * x_0_of_0 * b_0
// CHECK-NEXT:         time_of_0 += dt_0_of_0
// CHECK-NEXT:         h_of_1 = tl.exp2(dt_0_of_1 * 1.4426950408889634 * a_of_1) * h_of_1 + dt_0_of_1 * x_0_of_1 * b_0
// CHECK-NEXT:         time_of_1 += dt_0_of_1
// CHECK-NEXT:         row += 1
// CHECK-NEXT:     tl.store(states_ptr + ((place) * 6 + state) * 64 + channel_of_0, h_of_0, mask=inside_of_0 & holds)
// CHECK-NEXT:     tl.store(times_ptr + place * 64 + channel_of_0, time_of_0, mask=inside_of_0)
// CHECK-NEXT:     tl.store(states_ptr + ((place) * 6 + state) * 64 + channel_of_1, h_of_1, mask=inside_of_1 & holds)
// CHECK-NEXT:     tl.store(times_ptr + place * 64 + channel_of_1, time_of_1, mask=inside_of_1)
// CHECK-EMPTY:
// CHECK-EMPTY:
// CHECK-NEXT: # selective_scan.mlir:8:8

// CHECK:          chunks = (T + 127) // 128
// CHECK-NEXT:     all_chunks = B * chunks
// CHECK-NEXT:     carried_chunks = B * max(0, chunks - 1)
// CHECK-NEXT:     states = torch.empty((carried_chunks * 64 * 6,), dtype=torch.float32, device=device)
// CHECK-NEXT:     times = torch.empty((carried_chunks * 64,), dtype=torch.float32, device=device)
// CHECK-NEXT:     if carried_chunks:
// CHECK-NEXT:         chunk_states[(carried_chunks * 1,)](
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
// CHECK-NEXT:     selective_scan[(all_chunks * 1,)](
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

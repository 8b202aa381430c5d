// RUN: coda-opt %s -t triton | filecheck %s

// Columns of a projection are read where they are.

func.func @f(%u: tensor<?x?x64xbf16> {coda.dims = ["B", "T", 64]}, %dt: tensor<?x?x64xf32> {coda.dims = ["B", "T", 64]}, %a: tensor<64x6xf32>, %p: tensor<?x?x32xbf16> {coda.dims = ["B", "T", 32]}) -> tensor<?x?x64xbf16> {
  %b = coda.slice %p {dim = 2 : i64, start = 0 : i64, stop = 6 : i64} : (tensor<?x?x32xbf16>) -> tensor<?x?x6xbf16>
  %c = coda.slice %p {dim = 2 : i64, start = 8 : i64, stop = 14 : i64} : (tensor<?x?x32xbf16>) -> tensor<?x?x6xbf16>
  %y = coda.selective_scan %u, %dt, %a, %b, %c : (tensor<?x?x64xbf16>, tensor<?x?x64xf32>, tensor<64x6xf32>, tensor<?x?x6xbf16>, tensor<?x?x6xbf16>) -> tensor<?x?x64xbf16>
  func.return %y : tensor<?x?x64xbf16>
}

// CHECK:      @triton.jit(do_not_specialize=["T"])
// CHECK-NEXT: def chunk_states(u_ptr, dt_ptr, a_ptr, b_ptr, states_ptr, times_ptr, T):
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
// CHECK-NEXT:         u_0 = tl.load(u_ptr + row * 64 + channel, mask=inside & (row < end), other=0.0).to(tl.float32)
// CHECK-NEXT:         dt_0 = tl.load(dt_ptr + row * 64 + channel, mask=inside & (row < end), other=0.0)
// CHECK-NEXT:         b_0 = tl.load(b_ptr + row * 32 + state, mask=holds & (row < end), other=0.0).to(tl.float32)
// CHECK-NEXT:         u_1 = tl.load(u_ptr + (row + 1) * 64 + channel, mask=inside & ((row + 1) < end), other=0.0).to(tl.float32)
// CHECK-NEXT:         dt_1 = tl.load(dt_ptr + (row + 1) * 64 + channel, mask=inside & ((row + 1) < end), other=0.0)
// CHECK-NEXT:         b_1 = tl.load(b_ptr + (row + 1) * 32 + state, mask=holds & ((row + 1) < end), other=0.0).to(tl.float32)
// CHECK-NEXT:         u_2 = tl.load(u_ptr + (row + 2) * 64 + channel, mask=inside & ((row + 2) < end), other=0.0).to(tl.float32)
// CHECK-NEXT:         dt_2 = tl.load(dt_ptr + (row + 2) * 64 + channel, mask=inside & ((row + 2) < end), other=0.0)
// CHECK-NEXT:         b_2 = tl.load(b_ptr + (row + 2) * 32 + state, mask=holds & ((row + 2) < end), other=0.0).to(tl.float32)
// CHECK-NEXT:         u_3 = tl.load(u_ptr + (row + 3) * 64 + channel, mask=inside & ((row + 3) < end), other=0.0).to(tl.float32)
// CHECK-NEXT:         dt_3 = tl.load(dt_ptr + (row + 3) * 64 + channel, mask=inside & ((row + 3) < end), other=0.0)
// CHECK-NEXT:         b_3 = tl.load(b_ptr + (row + 3) * 32 + state, mask=holds & ((row + 3) < end), other=0.0).to(tl.float32)
// CHECK-NEXT:         h = tl.exp2(dt_0 * 1.4426950408889634 * a) * h + dt_0 * u_0 * b_0
// CHECK-NEXT:         h = tl.exp2(dt_1 * 1.4426950408889634 * a) * h + dt_1 * u_1 * b_1
// CHECK-NEXT:         h = tl.exp2(dt_2 * 1.4426950408889634 * a) * h + dt_2 * u_2 * b_2
// CHECK-NEXT:         h = tl.exp2(dt_3 * 1.4426950408889634 * a) * h + dt_3 * u_3 * b_3
// CHECK-NEXT:         time += dt_0 + dt_1 + dt_2 + dt_3
// CHECK-NEXT:         row += 4
// CHECK-NEXT:     tl.store(states_ptr + (place * 6 + state) * 64 + channel, h, mask=inside & holds)
// CHECK-NEXT:     tl.store(times_ptr + place * 64 + channel, time, mask=inside)
// CHECK-EMPTY:
// CHECK-EMPTY:
// CHECK-NEXT: # selective_scan.mlir:{{\d+:\d+}}
// CHECK-NEXT: @triton.jit(do_not_specialize=["T"])
// CHECK-NEXT: def carry_states(a_ptr, states_ptr, times_ptr, T):
// CHECK-NEXT:     """States carried over chunks of 128 rows, blocks of 32 channels."""
// CHECK-NEXT:     sample = (tl.program_id(0) // 2).to(tl.int64)
// CHECK-NEXT:     channel = tl.program_id(0) % 2 * 32 + tl.arange(0, 32)[None, :]
// CHECK-NEXT:     inside = channel < 64
// CHECK-NEXT:     state = tl.arange(0, 8)[:, None]
// CHECK-NEXT:     holds = state < 6
// CHECK-NEXT:     place = sample * (tl.cdiv(T, 128) - 1)
// CHECK-NEXT:     a = tl.load(a_ptr + channel * 6 + state, mask=inside & holds, other=0.0)
// CHECK-NEXT:     h = tl.zeros((8, 32), tl.float32)
// CHECK-NEXT:     while place < (sample + 1) * (tl.cdiv(T, 128) - 1):
// CHECK-NEXT:         time = tl.load(times_ptr + place * 64 + channel, mask=inside, other=0.0)
// CHECK-NEXT:         added = tl.load(states_ptr + (place * 6 + state) * 64 + channel, mask=inside & holds, other=0.0)
// CHECK-NEXT:         h = tl.exp2(time * 1.4426950408889634 * a) * h + added
// CHECK-NEXT:         tl.store(states_ptr + (place * 6 + state) * 64 + channel, h, mask=inside & holds)
// CHECK-NEXT:         place += 1
// CHECK-EMPTY:
// CHECK-EMPTY:
// CHECK-NEXT: # selective_scan.mlir:{{\d+:\d+}}
// CHECK-NEXT: @triton.jit(do_not_specialize=["T"])
// CHECK-NEXT: def selective_scan(u_ptr, dt_ptr, a_ptr, b_ptr, c_ptr, states_ptr, y_ptr, T):
// CHECK-NEXT:     """Selective scan by chunks of 128 rows, blocks of 32 channels."""
// CHECK-NEXT:     place = (tl.program_id(0) // 2).to(tl.int64)
// CHECK-NEXT:     channel = tl.program_id(0) % 2 * 32 + tl.arange(0, 32)[None, :]
// CHECK-NEXT:     inside = channel < 64
// CHECK-NEXT:     state = tl.arange(0, 8)[:, None]
// CHECK-NEXT:     holds = state < 6
// CHECK-NEXT:     sample = place // tl.cdiv(T, 128)
// CHECK-NEXT:     chunk = place % tl.cdiv(T, 128)
// CHECK-NEXT:     row = sample * T + chunk * 128
// CHECK-NEXT:     end = tl.minimum(row + 128, (sample + 1) * T)
// CHECK-NEXT:     a = tl.load(a_ptr + channel * 6 + state, mask=inside & holds, other=0.0)
// CHECK-NEXT:     # A sample has states of all of its chunks but the last.
// CHECK-NEXT:     h = tl.load(states_ptr + ((place - sample - 1) * 6 + state) * 64 + channel, mask=inside & holds & (chunk > 0), other=0.0)
// CHECK-NEXT:     while row < end:
// CHECK-NEXT:         u_0 = tl.load(u_ptr + row * 64 + channel, mask=inside & (row < end), other=0.0).to(tl.float32)
// CHECK-NEXT:         dt_0 = tl.load(dt_ptr + row * 64 + channel, mask=inside & (row < end), other=0.0)
// CHECK-NEXT:         b_0 = tl.load(b_ptr + row * 32 + state, mask=holds & (row < end), other=0.0).to(tl.float32)
// CHECK-NEXT:         c_0 = tl.load(c_ptr + row * 32 + state, mask=holds & (row < end), other=0.0).to(tl.float32)
// CHECK-NEXT:         u_1 = tl.load(u_ptr + (row + 1) * 64 + channel, mask=inside & ((row + 1) < end), other=0.0).to(tl.float32)
// CHECK-NEXT:         dt_1 = tl.load(dt_ptr + (row + 1) * 64 + channel, mask=inside & ((row + 1) < end), other=0.0)
// CHECK-NEXT:         b_1 = tl.load(b_ptr + (row + 1) * 32 + state, mask=holds & ((row + 1) < end), other=0.0).to(tl.float32)
// CHECK-NEXT:         c_1 = tl.load(c_ptr + (row + 1) * 32 + state, mask=holds & ((row + 1) < end), other=0.0).to(tl.float32)
// CHECK-NEXT:         u_2 = tl.load(u_ptr + (row + 2) * 64 + channel, mask=inside & ((row + 2) < end), other=0.0).to(tl.float32)
// CHECK-NEXT:         dt_2 = tl.load(dt_ptr + (row + 2) * 64 + channel, mask=inside & ((row + 2) < end), other=0.0)
// CHECK-NEXT:         b_2 = tl.load(b_ptr + (row + 2) * 32 + state, mask=holds & ((row + 2) < end), other=0.0).to(tl.float32)
// CHECK-NEXT:         c_2 = tl.load(c_ptr + (row + 2) * 32 + state, mask=holds & ((row + 2) < end), other=0.0).to(tl.float32)
// CHECK-NEXT:         u_3 = tl.load(u_ptr + (row + 3) * 64 + channel, mask=inside & ((row + 3) < end), other=0.0).to(tl.float32)
// CHECK-NEXT:         dt_3 = tl.load(dt_ptr + (row + 3) * 64 + channel, mask=inside & ((row + 3) < end), other=0.0)
// CHECK-NEXT:         b_3 = tl.load(b_ptr + (row + 3) * 32 + state, mask=holds & ((row + 3) < end), other=0.0).to(tl.float32)
// CHECK-NEXT:         c_3 = tl.load(c_ptr + (row + 3) * 32 + state, mask=holds & ((row + 3) < end), other=0.0).to(tl.float32)
// CHECK-NEXT:         h = tl.exp2(dt_0 * 1.4426950408889634 * a) * h + dt_0 * u_0 * b_0
// CHECK-NEXT:         y_0 = tl.sum(c_0 * h, 0, keep_dims=True)
// CHECK-NEXT:         value_0 = to_bf16(y_0)
// CHECK-NEXT:         tl.store(y_ptr + row * 64 + channel, value_0, mask=inside & (row < end))
// CHECK-NEXT:         h = tl.exp2(dt_1 * 1.4426950408889634 * a) * h + dt_1 * u_1 * b_1
// CHECK-NEXT:         y_1 = tl.sum(c_1 * h, 0, keep_dims=True)
// CHECK-NEXT:         value_1 = to_bf16(y_1)
// CHECK-NEXT:         tl.store(y_ptr + (row + 1) * 64 + channel, value_1, mask=inside & ((row + 1) < end))
// CHECK-NEXT:         h = tl.exp2(dt_2 * 1.4426950408889634 * a) * h + dt_2 * u_2 * b_2
// CHECK-NEXT:         y_2 = tl.sum(c_2 * h, 0, keep_dims=True)
// CHECK-NEXT:         value_2 = to_bf16(y_2)
// CHECK-NEXT:         tl.store(y_ptr + (row + 2) * 64 + channel, value_2, mask=inside & ((row + 2) < end))
// CHECK-NEXT:         h = tl.exp2(dt_3 * 1.4426950408889634 * a) * h + dt_3 * u_3 * b_3
// CHECK-NEXT:         y_3 = tl.sum(c_3 * h, 0, keep_dims=True)
// CHECK-NEXT:         value_3 = to_bf16(y_3)
// CHECK-NEXT:         tl.store(y_ptr + (row + 3) * 64 + channel, value_3, mask=inside & ((row + 3) < end))
// CHECK-NEXT:         row += 4

// CHECK:          chunks = (T + 127) // 128
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
// CHECK-NEXT:     all_chunks = B * chunks
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

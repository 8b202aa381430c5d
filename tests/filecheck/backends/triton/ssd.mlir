// RUN: coda-opt %s -t triton | filecheck %s

// Columns of a projection are read where they are.

func.func @f(%p: tensor<?x?x96xbf16> {coda.dims = ["B", "T", 96]}, %dt: tensor<?x?x2xf32> {coda.dims = ["B", "T", 2]}, %a: tensor<2xf32>) -> tensor<?x?x64xbf16> {
  %x = coda.slice %p {dim = 2 : i64, start = 0 : i64, stop = 64 : i64} : (tensor<?x?x96xbf16>) -> tensor<?x?x64xbf16>
  %b = coda.slice %p {dim = 2 : i64, start = 64 : i64, stop = 80 : i64} : (tensor<?x?x96xbf16>) -> tensor<?x?x16xbf16>
  %c = coda.slice %p {dim = 2 : i64, start = 80 : i64, stop = 96 : i64} : (tensor<?x?x96xbf16>) -> tensor<?x?x16xbf16>
  %y = coda.ssd %x, %dt, %a, %b, %c {states = 16 : i64} : (tensor<?x?x64xbf16>, tensor<?x?x2xf32>, tensor<2xf32>, tensor<?x?x16xbf16>, tensor<?x?x16xbf16>) -> tensor<?x?x64xbf16>
  func.return %y : tensor<?x?x64xbf16>
}

// CHECK:      @triton.jit(do_not_specialize=["T"])
// CHECK-NEXT: def block_sums(dt_ptr, a_ptr, sums_ptr, T):
// CHECK-NEXT:     """Times of heads, and their sums in blocks of 64 rows."""
// CHECK-NEXT:     place = (tl.program_id(0) // 2).to(tl.int64)
// CHECK-NEXT:     part = tl.program_id(0) % 2
// CHECK-NEXT:     sample = place // tl.cdiv(T, 512)
// CHECK-NEXT:     chunk = place % tl.cdiv(T, 512)
// CHECK-NEXT:     start = sample * T + chunk * 512
// CHECK-NEXT:     count = tl.minimum(512, (sample + 1) * T - start).to(tl.int32)
// CHECK-NEXT:     head = part
// CHECK-NEXT:     rate = tl.load(a_ptr + head)
// CHECK-NEXT:     row = tl.arange(0, 8)[:, None] * 64 + tl.arange(0, 64)[None, :]
// CHECK-NEXT:     dt = tl.load(dt_ptr + (start * 2 + head) + row * 2, mask=row < count, other=0.0)
// CHECK-NEXT:     tl.store(sums_ptr + (place * 2 + head) * 1536 + row, dt)
// CHECK-NEXT:     tl.store(sums_ptr + (place * 2 + head) * 1536 + 512 + row, tl.cumsum(dt * rate, 1))
// CHECK-NEXT:     rest = tl.cumsum(dt * rate, 1, reverse=True) - dt * rate
// CHECK-NEXT:     tl.store(sums_ptr + (place * 2 + head) * 1536 + 1024 + row, rest)
// CHECK-EMPTY:
// CHECK-EMPTY:
// CHECK-NEXT: # ssd.mlir:9:8
// CHECK-NEXT: @triton.jit(do_not_specialize=["T"])
// CHECK-NEXT: def head_states(x_ptr, b_ptr, states_ptr, decays_ptr, sums_ptr, T):
// CHECK-NEXT:     """States of chunks of 512 rows."""
// CHECK-NEXT:     place = (tl.program_id(0) // 2).to(tl.int64)
// CHECK-NEXT:     part = tl.program_id(0) % 2
// CHECK-NEXT:     sample = place // (tl.cdiv(T, 512) - 1)
// CHECK-NEXT:     chunk = place % (tl.cdiv(T, 512) - 1)
// CHECK-NEXT:     start = sample * T + chunk * 512
// CHECK-NEXT:     count = tl.minimum(512, (sample + 1) * T - start).to(tl.int32)
// CHECK-NEXT:     head = part // 1
// CHECK-NEXT:     offset = tl.arange(0, 64)
// CHECK-NEXT:     state = tl.arange(0, 16)
// CHECK-NEXT:     column = part % 1 * 32 + tl.arange(0, 32)
// CHECK-NEXT:     sums = sums_ptr + ((sample * tl.cdiv(T, 512) + chunk) * 2 + head) * 1536
// CHECK-NEXT:     h = tl.zeros((16, 32), tl.float32)
// CHECK-NEXT:     gap = 0.0
// CHECK-NEXT:     for number in range(8):
// CHECK-NEXT:         row = (7 - number) * 64 + offset
// CHECK-NEXT:         dt = tl.load(sums + row)
// CHECK-NEXT:         rest = tl.load(sums + 1024 + row)
// CHECK-NEXT:         whole = tl.load(sums + 512 + (7 - number) * 64 + 63)
// CHECK-NEXT:         b = tl.load(b_ptr + (start * 96 + head // 2 * 16) + (row[:, None] * 96 + state[None, :]), mask=(row < count)[:, None] & (state < 16)[None, :], other=0.0)
// CHECK-NEXT:         x = tl.load(x_ptr + (start * 96 + head * 32) + (row[:, None] * 96 + column[None, :]), mask=(row < count)[:, None] & (column < 32)[None, :], other=0.0)
// CHECK-NEXT:         factor = tl.exp(gap + rest) * dt
// CHECK-NEXT:         decayed = x.to(tl.float32) * factor[:, None]
// CHECK-NEXT:         h = dot(tl.trans(b), to_bf16(decayed), h)
// CHECK-NEXT:         gap += whole
// CHECK-NEXT:     tl.store(states_ptr + ((place) * 2 + head) * 512 + (state[:, None] * 32 + column[None, :]), h, mask=(state < 16)[:, None] & (column < 32)[None, :])
// CHECK-NEXT:     tl.store(decays_ptr + place * 2 + head, gap)
// CHECK-EMPTY:
// CHECK-EMPTY:
// CHECK-NEXT: # ssd.mlir:9:8
// CHECK-NEXT: @triton.jit(do_not_specialize=["T"])
// CHECK-NEXT: def carry_head_states(states_ptr, decays_ptr, T):
// CHECK-NEXT:     """States carried over chunks of 512 rows."""
// CHECK-NEXT:     sample = (tl.program_id(0) // 2).to(tl.int64)
// CHECK-NEXT:     head = tl.program_id(0) % 2 // 1
// CHECK-NEXT:     state = tl.program_id(0) % 1 * 1024 + tl.arange(0, 1024)
// CHECK-NEXT:     holds = state < 512
// CHECK-NEXT:     h = tl.zeros((1024,), tl.float32)
// CHECK-NEXT:     place = sample * (tl.cdiv(T, 512) - 1)
// CHECK-NEXT:     while place < (sample + 1) * (tl.cdiv(T, 512) - 1):
// CHECK-NEXT:         decay = tl.exp(tl.load(decays_ptr + place * 2 + head))
// CHECK-NEXT:         h = decay * h + tl.load(states_ptr + (place * 2 + head) * 512 + state, mask=holds, other=0.0)
// CHECK-NEXT:         tl.store(states_ptr + (place * 2 + head) * 512 + state, h, mask=holds)
// CHECK-NEXT:         place += 1
// CHECK-EMPTY:
// CHECK-EMPTY:
// CHECK-NEXT: # ssd.mlir:9:8
// CHECK-NEXT: @triton.jit(do_not_specialize=["T"])
// CHECK-NEXT: def ssd(x_ptr, b_ptr, c_ptr, sums_ptr, states_ptr, y_ptr, T):
// CHECK-NEXT:     """A state space model of heads by chunks of 512 rows."""
// CHECK-NEXT:     place = (tl.program_id(0) // 2).to(tl.int64)
// CHECK-NEXT:     part = tl.program_id(0) % 2
// CHECK-NEXT:     sample = place // tl.cdiv(T, 512)
// CHECK-NEXT:     chunk = place % tl.cdiv(T, 512)
// CHECK-NEXT:     start = sample * T + chunk * 512
// CHECK-NEXT:     count = tl.minimum(512, (sample + 1) * T - start).to(tl.int32)
// CHECK-NEXT:     head = part
// CHECK-NEXT:     offset = tl.arange(0, 64)
// CHECK-NEXT:     column = tl.arange(0, 32)
// CHECK-NEXT:     state = tl.arange(0, 16)
// CHECK-NEXT:     sums = sums_ptr + ((sample * tl.cdiv(T, 512) + chunk) * 2 + head) * 1536
// CHECK-NEXT:     # States are stored for the ends of chunks. The last one may have none.
// CHECK-NEXT:     h = tl.load(states_ptr + ((place - sample - 1) * 2 + head) * 512 + (state[:, None] * 32 + column[None, :]), mask=(state < 16)[:, None] & (column < 32)[None, :] & (chunk > 0), other=0.0)
// CHECK-NEXT:     for number in range(bound(tl.cdiv(count, 64))):
// CHECK-NEXT:         row = number * 64 + offset
// CHECK-NEXT:         dt = tl.load(sums + row)
// CHECK-NEXT:         passed = tl.load(sums + 512 + row)
// CHECK-NEXT:         rest = tl.load(sums + 1024 + row)
// CHECK-NEXT:         whole = tl.load(sums + 512 + number * 64 + 63)
// CHECK-NEXT:         c = tl.load(c_ptr + (start * 96 + head // 2 * 16) + (row[:, None] * 96 + state[None, :]), mask=(row < count)[:, None] & (state < 16)[None, :], other=0.0)
// CHECK-NEXT:         reads = dot(c, to_bf16(h), tl.zeros((64, 32), tl.float32))
// CHECK-NEXT:         y = tl.exp(passed)[:, None] * reads
// CHECK-NEXT:         b = tl.load(b_ptr + (start * 96 + head // 2 * 16) + (row[:, None] * 96 + state[None, :]), mask=(row < count)[:, None] & (state < 16)[None, :], other=0.0)
// CHECK-NEXT:         scores = dot(c, tl.trans(b), tl.zeros((64, 64), tl.float32))
// CHECK-NEXT:         until = (-passed)[None, :]
// CHECK-NEXT:         sees = row[:, None] >= row[None, :]
// CHECK-NEXT:         decays = tl.where(sees, passed[:, None] + until, float("-inf"))
// CHECK-NEXT:         decays = tl.exp(decays)
// CHECK-NEXT:         weights = scores * decays * dt[None, :]
// CHECK-NEXT:         x = tl.load(x_ptr + (start * 96 + head * 32) + (row[:, None] * 96 + column[None, :]), mask=(row < count)[:, None] & (column < 32)[None, :], other=0.0)
// CHECK-NEXT:         y = dot(to_bf16(weights), x, y)
// CHECK-NEXT:         tl.store(y_ptr + (start * 64 + head * 32) + (row[:, None] * 64 + column[None, :]), to_bf16(y), mask=(row < count)[:, None] & (column < 32)[None, :])
// CHECK-NEXT:         decayed = x.to(tl.float32) * (tl.exp(rest) * dt)[:, None]
// CHECK-NEXT:         h = dot(tl.trans(b), to_bf16(decayed), tl.exp(whole) * h)

// CHECK:          chunks = (T + 511) // 512
// CHECK-NEXT:     all_chunks = B * chunks
// CHECK-NEXT:     sums = torch.empty((all_chunks * 2 * 1536,), dtype=torch.float32, device=device)
// CHECK-NEXT:     block_sums[(all_chunks * 2,)](
// CHECK-NEXT:         dt,
// CHECK-NEXT:         a,
// CHECK-NEXT:         sums,
// CHECK-NEXT:         x.shape[1],
// CHECK-NEXT:         num_warps=4,
// CHECK-NEXT:         num_stages=2,
// CHECK-NEXT:     )
// CHECK-NEXT:     carried_chunks = B * max(0, chunks - 1)
// CHECK-NEXT:     states = torch.empty((carried_chunks * 2 * 16 * 32,), dtype=torch.float32, device=device)
// CHECK-NEXT:     decays = torch.empty((carried_chunks * 2,), dtype=torch.float32, device=device)
// CHECK-NEXT:     if carried_chunks:
// CHECK-NEXT:         head_states[(carried_chunks * 2,)](
// CHECK-NEXT:             x,
// CHECK-NEXT:             b,
// CHECK-NEXT:             states,
// CHECK-NEXT:             decays,
// CHECK-NEXT:             sums,
// CHECK-NEXT:             x.shape[1],
// CHECK-NEXT:             num_warps=4,
// CHECK-NEXT:             num_stages=3,
// CHECK-NEXT:         )
// CHECK-NEXT:         carry_head_states[(B * 2,)](
// CHECK-NEXT:             states,
// CHECK-NEXT:             decays,
// CHECK-NEXT:             x.shape[1],
// CHECK-NEXT:             num_warps=4,
// CHECK-NEXT:             num_stages=2,
// CHECK-NEXT:         )
// CHECK-NEXT:     y = torch.empty((B, T, 64), dtype=torch.bfloat16, device=device)
// CHECK-NEXT:     ssd[(all_chunks * 2,)](
// CHECK-NEXT:         x,
// CHECK-NEXT:         b,
// CHECK-NEXT:         c,
// CHECK-NEXT:         sums,
// CHECK-NEXT:         states,
// CHECK-NEXT:         y,
// CHECK-NEXT:         x.shape[1],
// CHECK-NEXT:         num_warps=4,
// CHECK-NEXT:         num_stages=2,
// CHECK-NEXT:     )
// CHECK-NEXT:     return y

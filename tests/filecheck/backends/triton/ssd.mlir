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
// CHECK-NEXT:     sample = place // tl.cdiv(T, 256)
// CHECK-NEXT:     chunk = place % tl.cdiv(T, 256)
// CHECK-NEXT:     start = sample * T + chunk * 256
// CHECK-NEXT:     count = tl.minimum(256, (sample + 1) * T - start).to(tl.int32)
// CHECK-NEXT:     head = part
// CHECK-NEXT:     rate = tl.load(a_ptr + head)
// CHECK-NEXT:     row = tl.arange(0, 4)[:, None] * 64 + tl.arange(0, 64)[None, :]
// CHECK-NEXT:     dt = tl.load(dt_ptr + (start * 2 + head) + row * 2, mask=row < count, other=0.0)
// CHECK-NEXT:     tl.store(sums_ptr + (place * 2 + head) * 768 + row, dt)
// CHECK-NEXT:     tl.store(sums_ptr + (place * 2 + head) * 768 + 256 + row, tl.cumsum(dt * rate, 1))
// CHECK-NEXT:     rest = tl.cumsum(dt * rate, 1, reverse=True) - dt * rate
// CHECK-NEXT:     tl.store(sums_ptr + (place * 2 + head) * 768 + 512 + row, rest)
// CHECK-EMPTY:
// CHECK-EMPTY:
// CHECK-NEXT: # ssd.mlir:9:8
// CHECK-NEXT: @triton.jit(do_not_specialize=["T"])
// CHECK-NEXT: def head_states(x_ptr, b_ptr, states_ptr, decays_ptr, sums_ptr, T):
// CHECK-NEXT:     """States of chunks of 256 rows."""
// CHECK-NEXT:     place = (tl.program_id(0) // 2).to(tl.int64)
// CHECK-NEXT:     part = tl.program_id(0) % 2
// CHECK-NEXT:     sample = place // (tl.cdiv(T, 256) - 1)
// CHECK-NEXT:     chunk = place % (tl.cdiv(T, 256) - 1)
// CHECK-NEXT:     start = sample * T + chunk * 256
// CHECK-NEXT:     count = tl.minimum(256, (sample + 1) * T - start).to(tl.int32)
// CHECK-NEXT:     head = part // 1
// CHECK-NEXT:     offset = tl.arange(0, 64)
// CHECK-NEXT:     state = tl.arange(0, 16)
// CHECK-NEXT:     column = part % 1 * 32 + tl.arange(0, 32)
// CHECK-NEXT:     sums = sums_ptr + ((sample * tl.cdiv(T, 256) + chunk) * 2 + head) * 768
// CHECK-NEXT:     h = tl.zeros((16, 32), tl.float32)
// CHECK-NEXT:     gap = 0.0
// CHECK-NEXT:     for number in range(4):
// CHECK-NEXT:         row = (3 - number) * 64 + offset
// CHECK-NEXT:         dt = tl.load(sums + row)
// CHECK-NEXT:         rest = tl.load(sums + 512 + row)
// CHECK-NEXT:         whole = tl.load(sums + 256 + (3 - number) * 64 + 63)
// CHECK-NEXT:         b = tl.load(b_ptr + (start * 96 + head // 2 * 16) + (row[:, None] * 96 + state[None, :]), mask=(row < count)[:, None] & (state < 16)[None, :], other=0.0)
// CHECK-NEXT:         x = tl.load(x_ptr + (start * 96 + head * 32) + (row[:, None] * 96 + column[None, :]), mask=(row < count)[:, None] & (column < 32)[None, :], other=0.0)
// CHECK-NEXT:         factor = tl.exp(gap + rest) * dt
// CHECK-NEXT:         decayed = x.to(tl.float32) * factor[:, None]
// CHECK-NEXT:         h = dot(tl.trans(b), to_bf16(decayed), h)
// CHECK-NEXT:         gap += whole
// CHECK-NEXT:     tl.store(states_ptr + ((place) * 2 + head) * 512 + (state[:, None] * 32 + column[None, :]), h, mask=(state < 16)[:, None] & (column < 32)[None, :])
// CHECK-NEXT:     tl.store(decays_ptr + place * 2 + head, gap)

// CHECK:      # ssd.mlir:{{\d+:\d+}}
// CHECK-NEXT: @triton.jit(do_not_specialize=["T"])
// CHECK-NEXT: def carry_head_states(states_ptr, decays_ptr, T):
// CHECK-NEXT:     """States carried over chunks of 256 rows."""
// CHECK-NEXT:     sample = (tl.program_id(0) // 2).to(tl.int64)
// CHECK-NEXT:     head = tl.program_id(0) % 2 // 1
// CHECK-NEXT:     state = tl.program_id(0) % 1 * 1024 + tl.arange(0, 1024)
// CHECK-NEXT:     holds = state < 512
// CHECK-NEXT:     h = tl.zeros((1024,), tl.float32)
// CHECK-NEXT:     place = sample * (tl.cdiv(T, 256) - 1)
// CHECK-NEXT:     while place < (sample + 1) * (tl.cdiv(T, 256) - 1):
// CHECK-NEXT:         decay = tl.exp(tl.load(decays_ptr + place * 2 + head))
// CHECK-NEXT:         h = decay * h + tl.load(states_ptr + (place * 2 + head) * 512 + state, mask=holds, other=0.0)
// CHECK-NEXT:         tl.store(states_ptr + (place * 2 + head) * 512 + state, h, mask=holds)
// CHECK-NEXT:         place += 1

// CHECK:      # ssd.mlir:{{\d+:\d+}}
// CHECK-NEXT: @triton.jit(do_not_specialize=["T"])
// CHECK-NEXT: def scores(b_ptr, c_ptr, scores_ptr, T):
// CHECK-NEXT:     """Products of rows of blocks of 64 rows."""
// CHECK-NEXT:     place = (tl.program_id(0) // 16).to(tl.int64)
// CHECK-NEXT:     part = tl.program_id(0) % 16
// CHECK-NEXT:     sample = place // tl.cdiv(T, 256)
// CHECK-NEXT:     chunk = place % tl.cdiv(T, 256)
// CHECK-NEXT:     start = sample * T + chunk * 256
// CHECK-NEXT:     count = tl.minimum(256, (sample + 1) * T - start).to(tl.int32)
// CHECK-NEXT:     head = part // 16 * 2
// CHECK-NEXT:     block = part // 4 % 4
// CHECK-NEXT:     other = part % 4
// CHECK-NEXT:     offset = tl.arange(0, 64)
// CHECK-NEXT:     state = tl.arange(0, 16)
// CHECK-NEXT:     if other <= block:
// CHECK-NEXT:         row = block * 64 + offset
// CHECK-NEXT:         row_j = other * 64 + offset
// CHECK-NEXT:         c = tl.load(c_ptr + (start * 96 + head // 2 * 16) + (row[:, None] * 96 + state[None, :]), mask=(row < count)[:, None] & (state < 16)[None, :], other=0.0)
// CHECK-NEXT:         b_j = tl.load(b_ptr + (start * 96 + head // 2 * 16) + (row_j[:, None] * 96 + state[None, :]), mask=(row_j < count)[:, None] & (state < 16)[None, :], other=0.0)
// CHECK-NEXT:         scores = dot(c, tl.trans(b_j), tl.zeros((64, 64), tl.float32))
// CHECK-NEXT:         tl.store(scores_ptr + (((place * 1 + head // 2) * 4 + block) * 4 + other) * 4096 + (offset[:, None] * 64 + offset[None, :]), scores)
// CHECK-EMPTY:
// CHECK-EMPTY:
// CHECK-NEXT: # ssd.mlir:9:8
// CHECK-NEXT: @triton.jit(do_not_specialize=["T"])
// CHECK-NEXT: def ssd(x_ptr, c_ptr, sums_ptr, states_ptr, y_ptr, scores_ptr, T):
// CHECK-NEXT:     """A state space model of heads by chunks of 256 rows."""
// CHECK-NEXT:     place = (tl.program_id(0) // 8).to(tl.int64)
// CHECK-NEXT:     part = tl.program_id(0) % 8
// CHECK-NEXT:     sample = place // tl.cdiv(T, 256)
// CHECK-NEXT:     chunk = place % tl.cdiv(T, 256)
// CHECK-NEXT:     start = sample * T + chunk * 256
// CHECK-NEXT:     count = tl.minimum(256, (sample + 1) * T - start).to(tl.int32)
// CHECK-NEXT:     head = part % 2
// CHECK-NEXT:     block = part // 2
// CHECK-NEXT:     offset = tl.arange(0, 64)
// CHECK-NEXT:     column = tl.arange(0, 32)
// CHECK-NEXT:     state = tl.arange(0, 16)
// CHECK-NEXT:     sums = sums_ptr + ((sample * tl.cdiv(T, 256) + chunk) * 2 + head) * 768
// CHECK-NEXT:     row = block * 64 + offset
// CHECK-NEXT:     passed = tl.load(sums + 256 + row)
// CHECK-NEXT:     whole = tl.load(sums + 256 + block * 64 + 63)
// CHECK-NEXT:     c = tl.load(c_ptr + (start * 96 + head // 2 * 16) + (row[:, None] * 96 + state[None, :]), mask=(row < count)[:, None] & (state < 16)[None, :], other=0.0)
// CHECK-NEXT:     # There are states at the end of chunks, of which a sample may lack the last.
// CHECK-NEXT:     h = tl.load(states_ptr + ((place - sample - 1) * 2 + head) * 512 + (state[:, None] * 32 + column[None, :]), mask=(state < 16)[:, None] & (column < 32)[None, :] & (chunk > 0), other=0.0)
// CHECK-NEXT:     reads = dot(c, to_bf16(h), tl.zeros((64, 32), tl.float32))
// CHECK-NEXT:     y = tl.exp(tl.sum(tl.load(sums + 319 + tl.arange(0, 4) * 64, mask=tl.arange(0, 4) < block, other=0.0), 0) + passed)[:, None] * reads
// CHECK-NEXT:     gap = -whole
// CHECK-NEXT:     for number in range(bound(block + 1)):
// CHECK-NEXT:         row_j = (block - number) * 64 + offset
// CHECK-NEXT:         dt_j = tl.load(sums + row_j)
// CHECK-NEXT:         passed_j = tl.load(sums + 256 + row_j)
// CHECK-NEXT:         rest_j = tl.load(sums + 512 + row_j)
// CHECK-NEXT:         whole_j = tl.load(sums + 256 + (block - number) * 64 + 63)
// CHECK-NEXT:         x_j = tl.load(x_ptr + (start * 96 + head * 32) + (row_j[:, None] * 96 + column[None, :]), mask=(row_j < count)[:, None] & (column < 32)[None, :], other=0.0)
// CHECK-NEXT:         until = tl.where(number == 0, -passed_j, gap + rest_j)[None, :]
// CHECK-NEXT:         sees = row[:, None] >= row_j[None, :]
// CHECK-NEXT:         decays = tl.where(sees, passed[:, None] + until, float("-inf"))
// CHECK-NEXT:         decays = tl.exp(decays)
// CHECK-NEXT:         scores = tl.load(scores_ptr + (((place * 1 + head // 2) * 4 + block) * 4 + (block - number)) * 4096 + (offset[:, None] * 64 + offset[None, :]))
// CHECK-NEXT:         weights = scores * decays * dt_j[None, :]
// CHECK-NEXT:         y = dot(to_bf16(weights), x_j, y)
// CHECK-NEXT:         gap += whole_j
// CHECK-NEXT:     tl.store(y_ptr + (start * 64 + head * 32) + (row[:, None] * 64 + column[None, :]), to_bf16(y), mask=(row < count)[:, None] & (column < 32)[None, :])

// CHECK:          chunks = (T + 255) // 256
// CHECK-NEXT:     all_chunks = B * chunks
// CHECK-NEXT:     sums = torch.empty((all_chunks * 2 * 768,), dtype=torch.float32, device=device)
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
// CHECK-NEXT:             num_stages=2,
// CHECK-NEXT:         )
// CHECK-NEXT:         carry_head_states[(B * 2,)](
// CHECK-NEXT:             states,
// CHECK-NEXT:             decays,
// CHECK-NEXT:             x.shape[1],
// CHECK-NEXT:             num_warps=4,
// CHECK-NEXT:             num_stages=2,
// CHECK-NEXT:         )
// CHECK-NEXT:     y = torch.empty((B, T, 64), dtype=torch.bfloat16, device=device)
// CHECK-NEXT:     scores_1 = torch.empty((all_chunks * 65536,), dtype=torch.float32, device=device)
// CHECK-NEXT:     scores[(all_chunks * 16,)](
// CHECK-NEXT:         b,
// CHECK-NEXT:         c,
// CHECK-NEXT:         scores_1,
// CHECK-NEXT:         x.shape[1],
// CHECK-NEXT:         num_warps=4,
// CHECK-NEXT:         num_stages=2,
// CHECK-NEXT:     )
// CHECK-NEXT:     ssd[(all_chunks * 8,)](
// CHECK-NEXT:         x,
// CHECK-NEXT:         c,
// CHECK-NEXT:         sums,
// CHECK-NEXT:         states,
// CHECK-NEXT:         y,
// CHECK-NEXT:         scores_1,
// CHECK-NEXT:         x.shape[1],
// CHECK-NEXT:         num_warps=4,
// CHECK-NEXT:         num_stages=2,
// CHECK-NEXT:     )
// CHECK-NEXT:     return y

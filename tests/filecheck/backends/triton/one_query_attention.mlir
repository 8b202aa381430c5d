// RUN: coda-opt %s -t triton | filecheck %s

// One query for each head, as decoding has it: four programs share the 512 keys of a head, and the last to
// arrive combines what they found. Two queries are PyTorch's.

func.func @f(%q: tensor<1x32x1x128xbf16>, %k: tensor<1x8x512x128xbf16>, %v: tensor<1x8x512x128xbf16>, %seen: tensor<1x1x1x512xi1>, %two: tensor<1x32x2x128xbf16>) -> (tensor<1x32x1x128xbf16>, tensor<1x32x2x128xbf16>) {
  %y = torch.call "aten.scaled_dot_product_attention.default"(%q, %k, %v, %seen) {arguments = "{0}, {1}, {2}, {3}, enable_gqa=True"} : (tensor<1x32x1x128xbf16>, tensor<1x8x512x128xbf16>, tensor<1x8x512x128xbf16>, tensor<1x1x1x512xi1>) -> tensor<1x32x1x128xbf16>
  %z = torch.call "aten.scaled_dot_product_attention.default"(%two, %k, %v, %seen) {arguments = "{0}, {1}, {2}, {3}, enable_gqa=True"} : (tensor<1x32x2x128xbf16>, tensor<1x8x512x128xbf16>, tensor<1x8x512x128xbf16>, tensor<1x1x1x512xi1>) -> tensor<1x32x2x128xbf16>
  func.return %y, %z : tensor<1x32x1x128xbf16>, tensor<1x32x2x128xbf16>
}

// CHECK:      def attend_one_query(q_ptr, k_ptr, v_ptr, mask_ptr, out_ptr, partials_ptr, counters_ptr):
// CHECK-NEXT:     """Attention of one query for each head, 32 keys at a time, shared by 8 programs."""
// CHECK-NEXT:     SPLITS: tl.constexpr = 8
// CHECK-NEXT:     head = (tl.program_id(0) // SPLITS).to(tl.int64)
// CHECK-NEXT:     split = tl.program_id(0) % SPLITS
// CHECK-NEXT:     first, last = depths_of_split(512, split, SPLITS, 32)
// CHECK-NEXT:     query = tl.arange(0, 16)
// CHECK-NEXT:     is_query = query < 4
// CHECK-NEXT:     column = tl.arange(0, 128)[None, :]
// CHECK-NEXT:     row = (head * 4 + query)[:, None] * 128 + column
// CHECK-NEXT:     first_key = head * 512 * 128
// CHECK-NEXT:     q = tl.load(q_ptr + row, mask=is_query[:, None], other=0.0)
// CHECK-NEXT:     acc = tl.zeros((16, 128), tl.float32)
// CHECK-NEXT:     largest = tl.full((16,), float("-inf"), tl.float32)
// CHECK-NEXT:     total = tl.zeros((16,), tl.float32)
// CHECK-NEXT:     for start in range(first, last, 32):
// CHECK-NEXT:         key = start + tl.arange(0, 32)
// CHECK-NEXT:         inside = key < last
// CHECK-NEXT:         place = first_key + key[:, None] * 128 + column
// CHECK-NEXT:         k = tl.load(k_ptr + place, mask=inside[:, None], other=0.0)
// CHECK-NEXT:         v = tl.load(v_ptr + place, mask=inside[:, None], other=0.0)
// CHECK-NEXT:         scores = dot(q, tl.trans(k), tl.zeros((16, 32), tl.float32))
// CHECK-NEXT:         seen = tl.load(mask_ptr + key[None, :], mask=inside[None, :], other=0)
// CHECK-NEXT:         scores = tl.where(seen, scores * 0.08838834764831845, float("-inf"))
// CHECK-NEXT:         acc, largest, total = attend_keys(acc, largest, total, scores, v)
// CHECK-NEXT:     PARTIALS: tl.constexpr = 2080
// CHECK-NEXT:     partials = partials_ptr + head * (SPLITS * PARTIALS)
// CHECK-NEXT:     own = partials + split * PARTIALS
// CHECK-NEXT:     store_partial(own, acc, is_query)
// CHECK-NEXT:     tl.store(own + 2048 + query, largest)
// CHECK-NEXT:     tl.store(own + 2064 + query, total)
// CHECK-NEXT:     if is_last_of_tile(counters_ptr + head, SPLITS):
// CHECK-NEXT:         acc = tl.zeros((16, 128), tl.float32)
// CHECK-NEXT:         largest = tl.full((16,), float("-inf"), tl.float32)
// CHECK-NEXT:         total = tl.zeros((16,), tl.float32)
// CHECK-NEXT:         for part in tl.static_range(SPLITS):
// CHECK-NEXT:             of_part = partials + part * PARTIALS
// CHECK-NEXT:             acc, largest, total = combine_attended(acc, largest, total, of_part, is_query)
// CHECK-NEXT:         result = acc / tl.where(total == 0.0, 1.0, total)[:, None]
// CHECK-NEXT:         tl.store(out_ptr + row, to_bf16(result), mask=is_query[:, None])
// CHECK:          attend_one_query[(8 * 8,)](
// CHECK-NEXT:         q,
// CHECK-NEXT:         k,
// CHECK-NEXT:         v,
// CHECK-NEXT:         seen,
// CHECK-NEXT:         y,
// CHECK-NEXT:         partials,
// CHECK-NEXT:         counters,
// CHECK-NEXT:         num_warps=4,
// CHECK-NEXT:         num_stages=3,
// CHECK-NEXT:     )
// CHECK-NEXT:     del partials
// CHECK-NEXT:     # {{.*}}
// CHECK-NEXT:     z = torch.ops.aten.scaled_dot_product_attention.default(two, k, v, seen, enable_gqa=True)

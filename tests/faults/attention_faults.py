"""Faults of attention and of its backward: their kernels, and what joins their epilogues."""

from faults.fault import Fault, KernelFault, Nth, Text

T = "coda_ir.backends.triton."
TILES = f"{T}prelude:_HELPERS"
KERNEL = f"{T}attention_kernel:"
FUSION = "coda_ir.passes.fusion.fuse_attention:"

ATTENTION_FAULTS = (
    KernelFault(
        "attention: what was summed is not scaled for a larger score",
        f"{TILES}[o_of_tile]",
        Text("scaled_parts(acc, before[:, None], VALUE)", "acc"),
    ),
    KernelFault(
        "attention: the weights before a larger score are not scaled",
        f"{TILES}[o_of_tile]",
        Text("total * before", "total"),
    ),
    KernelFault(
        "attention: the last keys are those of zeros",
        f"{TILES}[o_of_tile]",
        Text("elif part != 1:", "elif part == 0:"),
    ),
    KernelFault(
        "attention: a mask is added to scores in powers of 2",
        f"{TILES}[o_of_tile]",
        Text("scores * FACTOR", "scores"),
    ),
    KernelFault(
        "attention: hidden keys have gradients",
        f"{TILES}[seen_parts]",
        Text("return (tl.where(bias == 0.0, parts[0], 0.0),)", "return (parts[0],)"),
    ),
    KernelFault(
        "attention: a logsumexp in powers of 2",
        f"{TILES}[o_of_tile]",
        Text("largest * (UNIT / LOG2_E)", "largest"),
    ),
    KernelFault(
        "attention: a sink has no weight",
        f"{TILES}[o_of_tile]",
        Text("tl.exp2((sink - most) * UNIT)", "0.0"),
    ),
    KernelFault(
        "attention: what was summed is not scaled for a sink",
        f"{TILES}[o_of_tile]",
        Text("scaled_parts(acc, share[:, None], VALUE)", "acc"),
    ),
    KernelFault(
        "attention: the second part of a head has no share of the scores",
        f"{TILES}[dot_parts]",
        Text("dot(a[1], tl.trans(b[1]), product)", "product"),
    ),
    KernelFault(
        "attention: the last columns of a part are those of the next head",
        f"{TILES}[part_rows]",
        Text("column < COLUMNS", "column < COLUMNS + 8"),
    ),
    KernelFault(
        "attention: the second part of a head is stored over the first one",
        f"{KERNEL}_SumEmitter._emit_lane_columns",
        Text("first = self.part * head.first", "first = 0"),
    ),
    KernelFault(
        "attention: the second part takes the ports of the first one",
        f"{KERNEL}_SumEmitter._emit_part_of_head",
        Text("self.port_values.clear()", "pass"),
    ),
    KernelFault(
        "attention: a query does not see its own key", f"{TILES}[is_seen]", Nth("operator", "LtE")
    ),
    KernelFault(
        "attention: a key too many in the window",
        f"{TILES}[is_in_window]",
        Text("key > query - WINDOW", "key >= query - WINDOW"),
    ),
    KernelFault(
        "attention: the last keys of a capped window are those of the first blocks",
        f"{TILES}[is_seen_in]",
        Text("part == 0", "part != 1"),
    ),
    KernelFault(
        "attention: rows past the end are those of the next batch",
        f"{TILES}[part_rows]",
        Text("(row < rows)[:, None]", "(row < rows + 1000)[:, None]"),
    ),
    KernelFault(
        "attention: a block of keys is not masked",
        f"{TILES}[keys_of_queries]",
        Text(
            "tl.maximum(start + shift + 1, 0) // BLOCK_N",
            "tl.cdiv(tl.maximum(start + shift + 1, 0), BLOCK_N)",
        ),
    ),
    KernelFault(
        "attention: the last keys of a window are left out",
        f"{TILES}[keys_of_queries]",
        Text(
            "start + BLOCK_M + shift + WINDOW - 1", "start + BLOCK_M + shift + WINDOW - 2 - BLOCK_N"
        ),
    ),
    KernelFault(
        "attention: the first queries of a block of keys are left out",
        f"{TILES}[queries_of_keys]",
        Text(
            "first = tl.maximum(start - shift, 0)", "first = tl.maximum(start - shift + BLOCK_N, 0)"
        ),
    ),
    KernelFault(
        "attention: the last queries of a window are left out",
        f"{TILES}[queries_of_keys]",
        Text("start + BLOCK_M + WINDOW - 1 - shift", "start + BLOCK_M - 1 - shift"),
    ),
    KernelFault(
        "attention: the first block of a window is taken for one that all queries see",
        f"{TILES}[keys_of_queries]",
        Text("start + BLOCK_M + shift - WINDOW", "start + shift - WINDOW"),
    ),
    KernelFault(
        "attention: the last queries of a window are taken for some that see all keys",
        f"{TILES}[queries_of_keys]",
        Text("start + WINDOW - shift", "start + BLOCK_M + WINDOW - shift"),
    ),
    KernelFault(
        "attention: a head of keys has the queries of one head",
        f"{TILES}[next_block]",
        Text("head += is_done.to(tl.int32)", "head += 0"),
    ),
    KernelFault(
        "attention: the second head that shares keys begins where the first one ends",
        f"{TILES}[next_block]",
        Nth("keep", "where", 3),
    ),
    KernelFault(
        "attention: a cap has the derivative 1", f"{TILES}[inside_cap]", Nth("keep", "Sub")
    ),
    KernelFault(
        "attention: scores are not capped",
        f"{TILES}[scores_of]",
        Text("1.0 - 2.0 / (power + 1.0)", "products * (SCALE / SOFTCAP)"),
    ),
    KernelFault(
        "attention: the sums of a row are those of the first head",
        f"{TILES}[dq_of_tile]",
        Text("of_head.to(tl.int64) * queries + row", "(of_head * 0).to(tl.int64) * queries + row"),
    ),
    KernelFault(
        "attention: gradients of scores are not corrected to the exact moment",
        f"{TILES}[corrected_parts]",
        Text("return (parts[0] + factor * others[0],)", "return (parts[0],)"),
    ),
    KernelFault(
        "attention: the exact moment is that of the derivative of the cap",
        f"{TILES}[dq_of_tile]",
        Text("weights * d_weights", "inside_cap(weights, scores, SOFTCAP) * d_weights"),
    ),
    KernelFault(
        "attention: the gradient of keys is not scaled",
        f"{TILES}[dkv_of_tile]",
        Text("scaled_parts(dk, SCALE, HEAD)", "dk"),
    ),
    KernelFault(
        "attention: the gradient of a mask is that of the first batch",
        f"{TILES}[dmask_of_tile]",
        Text("EACH * batches", "EACH"),
    ),
    KernelFault(
        "attention: the gradient of a mask has the derivative of the cap",
        f"{TILES}[dmask_of_tile]",
        Text("total += weights *", "total += inside_cap(weights, scores, SOFTCAP) *"),
    ),
    KernelFault(
        "attention: the gradient of a mask is that of the first head",
        f"{KERNEL}_MaskKernel._place",
        Text("of_mask % {self._heads_of_mask()}", "of_mask * 0"),
    ),
    KernelFault(
        "attention: hidden scores have gradients of a mask",
        f"{TILES}[store_dmask]",
        Text(
            "tl.where(is_seen(row + keys - queries, key, keys, CAUSAL, WINDOW), total, 0.0)",
            "total",
        ),
    ),
    KernelFault(
        "attention: blocks of the same head only", f"{TILES}[tile_of_heads]", Nth("keep", "Add")
    ),
    KernelFault(
        "attention: all programs of a tile have the first heads of queries",
        f"{KERNEL}_Kernel._heads_of_queries",
        Text("f' head * {shared} + split * {count},'", "f' head * {shared},'"),
    ),
    KernelFault(
        "attention: the columns of a pair change places",
        f"{TILES}[column_halves]",
        Text("(0, 2, 1)", "(0, 1, 2)"),
    ),
    KernelFault(
        "attention: rows of the epilogue are those of the first batch",
        f"{KERNEL}_Kernel._epilogue",
        Text("f'batch * {extent} + {{}}'", "f'batch * 0 + {{}} + 1'"),
    ),
    KernelFault(
        "attention: sums of columns of all batches in one place",
        f"{KERNEL}_Kernel._epilogue",
        Text("'tile_m = batch * blocks + block'", "'tile_m = block'"),
    ),
    Fault(
        "fuse-attention: the code reads the gradient of the keys for that of the values",
        f"{FUSION}_fuse",
        Text("into.yielded(outputs.index(value))", "into.yielded(0)"),
    ),
    Fault(
        "fuse-attention: a head in two parts takes pairs",
        f"{FUSION}_check_parts",
        Text("producer.parts.is_whole", "True"),
    ),
    Fault("fuse-attention: pairs across heads join", f"{FUSION}_check_pairs", Nth("never", "If")),
    Fault(
        "fuse-attention: sums over several heads join",
        f"{FUSION}_check_pairs",
        Nth("never", "If", 1),
    ),
)

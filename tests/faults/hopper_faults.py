"""Faults of warp-specialized kernels: who may use which memory when, and what goes where."""

from faults.fault import KernelFault, Nth, Text

W = "coda_ir.backends.triton.warp_specialized."
SEGMENT = f"{W}segment:GroupSegmentEmitter."
ORDER = f"{W}subtile_order:"
MOVES = f"{W}tile_moves:TileMoves."
BUFFERS = "coda_ir.dialects.gemm.buffers:"

HOPPER_FAULTS = (
    KernelFault(
        "hopper: a stage is handed back while it is read",
        f"{W}gluon:_HELPERS[accumulate]",
        Text("free_stage_before(empty, step, k > 0)", "free_stage_before(empty, step + 1, k > 0)"),
    ),
    KernelFault(
        "hopper: the last stage of a tile is not handed back",
        f"{W}gluon:_HELPERS[finish]",
        Nth("never", "Gt"),
    ),
    KernelFault(
        "hopper: a buffer is written while it is stored",
        f"{MOVES}_free_buffers",
        Text("tma.store_wait({pending})", "tma.store_wait({pending + 1})"),
    ),
    KernelFault(
        "hopper: a buffer of one shape is written while it is stored",
        f"{BUFFERS}Staging.under_way",
        Text("since = begun - after[buffer]", "since = begun - after[buffer] + 1"),
    ),
    KernelFault(
        "hopper: two results of a subtile have one buffer",
        f"{BUFFERS}_store_buffers",
        Nth("keep", "max", 3),
    ),
    KernelFault(
        "hopper: a buffer of the tile before is written while it is stored",
        f"{MOVES}_begin",
        Nth("drop", "Or", 1),
    ),
    KernelFault(
        "hopper: a buffer of the tile before is filled while it is stored",
        f"{MOVES}_begin",
        Text(
            "if self._is_in_place or self._turns else []",
            "if not self._is_in_place and self._turns else []",
        ),
    ),
    KernelFault(
        "hopper: a buffer is filled while it is stored",
        f"{MOVES}_load_further",
        Nth("keep", "IfExp", 1),
    ),
    KernelFault(
        "hopper: a buffer is filled before it is stored", f"{MOVES}emit", Nth("keep", "IfExp", 1)
    ),
    KernelFault(
        "hopper: a buffer is stored before all of it is seen",
        f"{MOVES}hand_over",
        Text(
            "[(self._stored, ['fence_async_shared()'])] if self.stores else []",
            "[(self._stored, [])] if self.stores else []",
        ),
    ),
    KernelFault(
        "hopper: a subtile is done before all of its results are written",
        f"{MOVES}is_written",
        Text("0 < len(self.stores) == len(self.moves.stores)", "len(self.stores) == 1"),
    ),
    KernelFault(
        "hopper: buffers are asked for once in a tile that uses them again",
        f"{MOVES}_asks_again",
        Nth("never", "IsNot"),
    ),
    KernelFault(
        "hopper: more subtiles are done than there are barriers for",
        f"{W}tile_moves:protocol_of",
        Nth("keep", "LShift"),
    ),
    KernelFault(
        "hopper: a port is taken for that of the tile before",
        f"{MOVES}count_loads",
        Text(
            "{self.order.subtiles // self.staging.depth}",
            "{2 * (self.order.subtiles // self.staging.depth)}",
        ),
    ),
    KernelFault(
        "hopper: a port is loaded for the wrong subtile",
        f"{MOVES}_load_further",
        Text("(subtile_index + {depth})", "(subtile_index + {depth + 1})"),
    ),
    KernelFault(
        "hopper: ports of a subtile are those of the subtile before",
        f"{SEGMENT}_take_ahead",
        Text("ahead.call(f'{place} + 1')", "ahead.call(place)"),
    ),
    KernelFault(
        "hopper: subtiles follow each other that need different ports",
        f"{ORDER}SubtileOrder.loops",
        Text(
            "({PLACE}, {self.subtiles}, {self.period})",
            "({self.repeats} * {PLACE}, {self.repeats} * {PLACE} + {self.repeats})",
        ),
    ),
    KernelFault(
        "hopper: subtiles of two heads are joined", f"{ORDER}SubtileOrder.held", Nth("keep", "Add")
    ),
    KernelFault(
        "hopper: stores are counted in the order of subtiles",
        f"{SEGMENT}__post_init__",
        Text("order=self.order.numbers", "order=tuple(sorted(self.order.numbers))"),
    ),
    KernelFault(
        "hopper: both groups take the same tiles",
        f"{W}kernel:_Emitter._tile_loop",
        Text("f'{first} + GROUP * {distance}'", "first"),
    ),
    KernelFault(
        "hopper: a group multiplies when it is not its turn",
        f"{W}kernel:_Emitter._products",
        Text("(turn & 1) ^ (1 - GROUP)", "(turn & 1) ^ 1"),
    ),
    KernelFault(
        "hopper: a group takes the stages of the other",
        f"{W}kernel:_Emitter._products",
        Text("'step += steps'", "'step += 0'"),
    ),
    KernelFault(
        "hopper: the second half is stored over the first",
        f"{SEGMENT}_place_in_group",
        Text("return f'{start} + {half}' if is_second else start", "return start"),
    ),
    KernelFault(
        "hopper: two weights land in the same columns of a stage",
        f"{W}loads:weight_rows",
        Text(
            "WeightRows(weights[half], first, count, half * count)",
            "WeightRows(weights[half], first, count, 0)",
        ),
    ),
    KernelFault(
        "hopper: halves of a head come from its first half",
        f"{W}loads:_place_in_group",
        Nth("keep", "IfExp", 3),
    ),
    KernelFault(
        "hopper: fewer bytes are waited for than are loaded",
        "coda_ir.dialects.gemm.buffers:stage_bytes",
        Text("STEP_BYTES * (bm + bn)", "STEP_BYTES * (bm + bn) - 128"),
    ),
    KernelFault(
        "hopper: rows that are not aligned are stored past their end",
        f"{W}gluon:_HELPERS[store_rows]",
        Text("first_column + lane < N", "first_column + lane <= N"),
    ),
    KernelFault(
        "hopper: rows that are not aligned are stored past the last one",
        f"{W}gluon:_HELPERS[store_rows]",
        Text("(row < M)[:, None]", "(row <= M)[:, None]"),
    ),
    KernelFault(
        "hopper: rows that are not aligned lack the columns before their tile",
        f"{W}gluon:_HELPERS[store_rows]",
        Text("(first_column if place is None", "(0 if place is None"),
    ),
    KernelFault(
        "hopper: groups exchange elements in one buffer",
        f"{SEGMENT}_store_rows",
        Text("self.protocol.of_group(1)", "0"),
    ),
    KernelFault(
        "hopper: the first row of a group is the last one of the group before",
        f"{W}gluon:_HELPERS[group_of_tile]",
        Text("start = end", "start = end - 1"),
    ),
    KernelFault(
        "hopper: a group is passed with its last tile",
        f"{W}gluon:_HELPERS[group_of_tile]",
        Text("tile >= before + tiles", "tile >= before + tiles - 1"),
    ),
    KernelFault(
        "hopper: an empty group takes a tile",
        f"{W}gluon:_HELPERS[group_of_tile]",
        Text("before += tiles", "before += gl.maximum(tiles, 1)"),
    ),
    KernelFault(
        "hopper: tiles of groups before count as those of the group",
        f"{W}row_tiles:RowTiles.numbered",
        Text("program - tiles_before * {tiles_n}", "program"),
    ),
    KernelFault(
        "hopper: the last tile of a group stores rows of the next one",
        f"{W}row_tiles:RowTiles.end",
        Text("'M' if self.groups is None and self.ragged is None else 'end_row'", "'M'"),
    ),
    KernelFault(
        "hopper: boxes of results reach into the next group",
        f"{SEGMENT}_store_tile",
        Text("self.end != 'M'", "False"),
    ),
    KernelFault(
        "hopper: boxes that end before a row are not moved to it",
        f"{W}loads:BoxDescriptors.bounded",
        Text("2 ** 34 - pitch", "2 ** 34"),
    ),
    KernelFault(
        "hopper: neighbours are paired as halves",
        f"{SEGMENT}_emit_subtiles",
        Text("how = 'split_neighbours(acc)'", "pass"),
    ),
    KernelFault(
        "hopper: all groups have the weights of the first",
        f"{W}loads:LoadEmitter._load_weight",
        Text("f'row_group * {first} + '", "''"),
    ),
    KernelFault(
        "hopper: the rows of a group begin where it ends",
        f"{W}row_tiles:RowTiles.within",
        Text("first_k, end_k = rows", "end_k, first_k = rows"),
    ),
    KernelFault(
        "hopper: the last step of a group has rows of the next one",
        f"{W}loads:LoadEmitter._ragged_step",
        Text("if k + {bk} <= end_k:", "if k < end_k:"),
    ),
    KernelFault(
        "hopper: rows after a group are gathered",
        f"{W}loads:LoadEmitter._ragged_step",
        Text("is_inside = own < end_k", "is_inside = own < K"),
    ),
    KernelFault(
        "hopper: rows of a step are those of the step before",
        f"{W}loads:LoadEmitter._ragged_step",
        Text("k + {2 * bk}, end_k", "k + {bk}, end_k"),
    ),
    KernelFault(
        "hopper: rows are scattered to where they are",
        f"{SEGMENT}_store_rows",
        Text("op.scatter is not None", "op.scatter is None"),
    ),
    KernelFault(
        "hopper: rows are scattered like those of the first tile",
        f"{SEGMENT}_scattered_rows",
        Text("'first_row'", "'0'"),
    ),
    KernelFault(
        "hopper: columns past the end of gathered rows are those of the next row",
        f"{W}gluon:_HELPERS[copy_rows]",
        Text("columns < COLUMNS", "columns < 2 * COLUMNS"),
    ),
    KernelFault(
        "hopper: copies are multiplied without a fence",
        f"{W}kernel:_Emitter._products",
        Text("if self.loads.copies", "if False"),
    ),
    KernelFault(
        "hopper: a stage is full before threads have copied to it",
        f"{W}kernel:_Emitter._shared_memory",
        Text("if self.loads.copies", "if False"),
    ),
    KernelFault(
        "hopper: the box of a transposed tile is not transposed",
        f"{W}tile_moves:BoxMove.corner",
        Nth("keep", "IfExp", 3),
    ),
    KernelFault(
        "hopper, attention: scores are read before they are there",
        f"{W}gluon:_HELPERS[head_sums]",
        Text("warpgroup_mma_wait(len(c), deps", "warpgroup_mma_wait(len(c) + 1, deps"),
    ),
    KernelFault(
        "hopper, attention: rows are loaded over those that are multiplied",
        f"{W}gluon:_HELPERS[head_sums]",
        Text("step + STAGES - 1", "step + STAGES"),
    ),
    KernelFault(
        "hopper, attention: a step begins before its numbers are there",
        f"{W}gluon:_HELPERS[load_step]",
        Text("4 * len(tensors[2])", "2 * len(tensors[2])"),
    ),
    KernelFault(
        "hopper, attention: queries see later keys",
        f"{W}gluon:_HELPERS[gluon_dq_of_tile]",
        Text("(True, False)", "(False, False)"),
    ),
    KernelFault(
        "hopper, attention: the second range begins late",
        f"{W}gluon:_HELPERS[place_of]",
        Text("index - ranges[0][1]", "index"),
    ),
    KernelFault(
        "hopper, attention: keys past the last one have weights",
        f"{W}gluon:_HELPERS[gluon_dq_of_tile]",
        Text("gl.where(edge > 0, lse, float('inf'))", "lse"),
    ),
    KernelFault(
        "hopper, attention: gradients of scores are not corrected to the exact moment",
        f"{W}gluon:_HELPERS[corrected_head]",
        Text("total + of_rows * other", "total"),
    ),
)

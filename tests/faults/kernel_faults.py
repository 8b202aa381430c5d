"""Faults of emitted kernels, of schedules and of the buffers of the host program."""

from faults.fault import KernelFault

T = "coda_ir.backends.triton."
SEGMENT = f"{T}gemm_segment:SegmentEmitter."

KERNEL_FAULTS = (
    KernelFault(
        "kernel: rows are not masked",
        f"{T}ports:mask_of",
        'return f"{ROWS.mask}[:, None] & {columns.mask}[None, :]"',
        'return f"{columns.mask}[None, :]"',
    ),
    KernelFault(
        "kernel: columns are not masked",
        f"{T}ports:mask_of",
        "if columns.mask is None:",
        "if True:",
    ),
    KernelFault(
        "kernel: rows are not clamped",
        f"{T}gemm_kernel:_GemmEmitter._clamped_rows",
        '"row = tl.minimum(rows, M - 1).to(tl.int64)"',
        '"row = rows.to(tl.int64)"',
    ),
    KernelFault(
        "kernel: columns are not wrapped",
        f"{SEGMENT}_emit_lane_columns",
        'self.lines.append(f"{name} = {name} % {columns.extent}")',
        "pass",
    ),
    KernelFault(
        "kernel: one column too many",
        f"{SEGMENT}_emit_lane_columns",
        'f"{name} < {columns.extent}"',
        'f"{name} < {columns.extent + 1}"',
    ),
    KernelFault(
        "kernel: a tile too few",
        "coda_ir.dialects.gemm.tiling:ColumnRange.tiles",
        "-(-self.extent // self.per_tile)",
        "max(1, self.extent // self.per_tile)",
    ),
    KernelFault(
        "kernel: a row of tiles too few",
        f"{T}gemm_kernel:_GemmEmitter._tiles",
        "ceiling('{rows}', bm)",
        "f'max(1, {{rows}} // {bm})'",
    ),
    KernelFault(
        "kernel: identity 0 for a maximum",
        f"{SEGMENT}_reduce",
        "{IDENTITY[combiner]}",
        "0.0",
    ),
    KernelFault(
        "kernel: partial of all lanes",
        f"{SEGMENT}_reduce",
        "if mask is not None:",
        "if False:",
    ),
    KernelFault(
        "kernel: sum in place of the stated combiner",
        f"{SEGMENT}_reduce",
        "reduction = (_TREES if self.is_ordered else _REDUCTIONS)[combiner]",
        'reduction = "tl.sum"',
    ),
    KernelFault(
        "kernel: partial stored at the next tile",
        f"{SEGMENT}_store_partial_row",
        'place = f"{self.first_partial} + {tile}" if self.first_partial else tile',
        'place = f"{self.first_partial} + {tile} + 1"',
    ),
    KernelFault(
        "kernel: partials of joined weights overwrite each other",
        f"{SEGMENT}_store_partial_row",
        'place = f"{self.first_partial} + {tile}" if self.first_partial else tile',
        "place = tile",
    ),
    KernelFault(
        "kernel: a part takes the place of those before",
        f"{SEGMENT}_combine_parts",
        "{total} += {vector}",
        "{total} = {vector}",
    ),
    KernelFault(
        "kernel: partials of one row in the place of another",
        f"{SEGMENT}_store_partial_row",
        "row * {self.segment_partials}",
        "row * {self.columns.partials}",
    ),
    KernelFault(
        "kernel: rows past the end count in partials of columns",
        f"{SEGMENT}_store_partial_col",
        'self._reduce(index, value, 0, "row_mask[:, None]")',
        "self._reduce(index, value, 0, None)",
    ),
    KernelFault(
        "kernel: selected column found in the wrong tile",
        f"{SEGMENT}_store_select",
        "{local} // {columns.per_tile}",
        "{local} // {columns.per_tile + 1}",
    ),
    KernelFault(
        "kernel: nobody stores 0 for rows without a column",
        f"{SEGMENT}_store_select",
        'elsewhere = "0" if columns.extent == n else "-1"',
        'elsewhere = "-1"',
    ),
    KernelFault(
        "kernel: offset of a joined weight dropped",
        f"{SEGMENT}_emit_accumulator_columns",
        'f"{self.columns.offset} + {lane.name}"',
        'f"{lane.name}"',
    ),
    KernelFault(
        "kernel: second column of a pair is the next one",
        f"{SEGMENT}_emit_accumulator_columns",
        "step = group // 2\n",
        "step = group // 2 if group == n else 1\n",
    ),
    KernelFault(
        "kernel: adjacent columns of a pair coincide",
        f"{SEGMENT}_emit_accumulator_columns",
        'f"2 * {pair}"',
        'f"{pair}"',
    ),
    KernelFault(
        "kernel: padding of a group is reduced",
        f"{SEGMENT}_group_reduce",
        "{IDENTITY[combiner]}",
        "1.0",
    ),
    KernelFault(
        "kernel: groups of half their size",
        f"{SEGMENT}_group_reduce",
        "lanes_of_group = self.columns.padded_group",
        "lanes_of_group = self.columns.padded_group // 2",
    ),
    KernelFault(
        "kernel: the place of a column in a padded group",
        f"{SEGMENT}_emit_padded_columns",
        "* {group} + {place}",
        "* {padded} + {place}",
    ),
    KernelFault(
        "kernel: the parts of a program are one tile",
        f"{SEGMENT}_emit_part",
        'f"{self.tile} * {parts} + part"',
        'f"{self.tile} * {parts}"',
    ),
    KernelFault(
        "kernel: accumulators of a part",
        f"{T}prelude:_HELPERS[column_part]",
        "if part < PARTS // 2:",
        "if part >= PARTS // 2:",
    ),
    KernelFault(
        "kernel: the modulo of a table's rows dropped",
        f"{T}ports:table_index",
        'f"({ROWS.numbers} % {height}).to(tl.int64)"',
        'f"{ROWS.name}"',
    ),
    KernelFault(
        "kernel: the modulo of a table's columns dropped",
        f"{T}ports:_table_column",
        'columns.name if width == columns.extent else f"({columns.name} % {width})"',
        "columns.name",
    ),
    KernelFault(
        "kernel: a tile port read with another stride",
        f"{T}ports:load_port",
        "{row} * {pitch} + {column}",
        "{row} * {pitch - 1} + {column}",
    ),
    KernelFault(
        "kernel: results truncated to bfloat16",
        f"{T}prelude:_HELPERS[to_bf16]",
        "(bits + 0x7FFF + ((bits >> 16) & 1)) >> 16",
        "bits >> 16",
    ),
    KernelFault(
        "kernel: ties of bfloat16 away from even",
        f"{T}prelude:_HELPERS[to_bf16]",
        "(bits + 0x7FFF + ((bits >> 16) & 1)) >> 16",
        "(bits + 0xFFFF) >> 16",
    ),
    KernelFault(
        "kernel: depth is not masked",
        f"{T}prelude:_HELPERS[load_depth]",
        "if K % BLOCK_K == 0:",
        "if K > 0:",
    ),
    KernelFault(
        "kernel: last step of the depth left out",
        f"{T}prelude:_HELPERS[matmul_tile]",
        "for k in range(0, K, BLOCK_K):",
        "for k in range(0, K - BLOCK_K + 1, BLOCK_K):",
    ),
    KernelFault(
        "kernel: both columns of a pair from the first weight",
        f"{T}prelude:_HELPERS[matmul_pair_tile]",
        "load_depth(b_second, k,",
        "load_depth(b_first, k,",
    ),
    KernelFault(
        "kernel: weight of the wrong layout",
        f"{T}mainloop:PointerMainLoop._step",
        "if segment.layout == Layout.NK:",
        "if True:",
    ),
    KernelFault(
        "kernel: groups of rows of tiles of the wrong size",
        f"{T}prelude:_HELPERS[grouped_tile]",
        "rows = tl.minimum(tiles_m - first, GROUP_M)",
        "rows = GROUP_M",
    ),
    KernelFault(
        "finalize: a partial too many",
        f"{T}finalize_kernel:_Sweep._read",
        "(tile < {self.extent})",
        "(tile <= {self.extent})",
    ),
    KernelFault(
        "finalize: missing partials of a maximum are 0",
        f"{T}finalize_kernel:_FinalizeEmitter._combine",
        'sweep.reduce(total, "max", base, IDENTITY[kind])',
        'sweep.reduce(total, "max", base, "0.0")',
    ),
    KernelFault(
        "finalize: maxima are added",
        f"{T}finalize_kernel:_FinalizeEmitter._combine",
        'sweep.reduce(total, "max", base, IDENTITY[kind])',
        'sweep.reduce(total, "add", base, "0.0")',
    ),
    KernelFault(
        "finalize: logarithm without its shift",
        f"{T}finalize_kernel:_FinalizeEmitter._combine_lse",
        "{total} = {shift} + {logarithm}",
        "{total} = {logarithm}",
    ),
    KernelFault(
        "finalize: elements past the end are stored",
        f"{T}finalize_kernel:_FinalizeEmitter._store",
        ", mask=exists)",
        ")",
    ),
    KernelFault(
        "rows: columns past the end count",
        f"{T}row_kernel_text:Load.lines",
        "self.other)",
        "'1.0')",
    ),
    KernelFault(
        "rows: elements past the end are stored",
        f"{T}row_kernel_text:RowKernelText.store_column",
        ", mask=row < M)",
        ")",
    ),
    KernelFault(
        "rows: the mean is not subtracted from the variance",
        f"{T}row_kernels:_emit_moments",
        "tl.where(inside, x - mean, 0.0)",
        "x",
    ),
    KernelFault(
        "rows: ignored targets count",
        f"{T}row_kernels:loss_reduction_kernel",
        "(target != {ignored})",
        "(target == target)",
    ),
    KernelFault(
        "map: a row of tiles too few",
        f"{T}map_kernel:emit_map",
        'ceiling("{rows}", tiling.rows)',
        'f"max(1, {{rows}} // {tiling.rows})"',
    ),
    KernelFault(
        "packed weight: a block of the depth left out",
        f"{T}row_kernels:pack_weight_kernel",
        'f"while start < {extent}:"',
        'f"while start + {block_k} < {extent}:"',
    ),
    KernelFault(
        "buffers: taken again while still in use",
        "coda_ir.passes.plan_buffers:_last_uses",
        "for value in (*op.results, *op.operands):",
        "for value in op.results:",
    ),
    KernelFault(
        "buffers: freed before the results of the operator are placed",
        "coda_ir.passes.plan_buffers:plan_block",
        "        for result in (*placed, *op.results):\n"
        "            if result not in plan.buffers:\n"
        "                plan.buffers[result] = _fixed_buffer(result, returned, plan) or _take(\n"
        "                    plan, result, shapes, free\n"
        "                )\n"
        "        for root in last_uses.get(op, ()):\n"
        "            name = plan.buffers.get(root)\n"
        "            if name is not None and name not in RESERVED_BUFFERS:\n"
        "                free[shapes.numel(root), element_type_of(root)].append(name)\n",
        "        for root in last_uses.get(op, ()):\n"
        "            name = plan.buffers.get(root)\n"
        "            if name is not None and name not in RESERVED_BUFFERS:\n"
        "                free[shapes.numel(root), element_type_of(root)].append(name)\n"
        "        for result in (*placed, *op.results):\n"
        "            if result not in plan.buffers:\n"
        "                plan.buffers[result] = _fixed_buffer(result, returned, plan) or _take(\n"
        "                    plan, result, shapes, free\n"
        "                )\n",
    ),
    KernelFault(
        "ranges: rows of what is broadcast are a row of the range apart",
        f"{T}operators.row_pitches:row_pitches",
        " | {*expanded}",
        "",
    ),
    KernelFault(
        "storage: a view of a view has memory of its own",
        "coda_ir.storage:storage_root",
        "            value = value.owner.operands[0]\n",
        "            return value.owner.operands[0]\n",
    ),
    KernelFault(
        "arguments: the last one that has strides is taken for dense",
        f"{T}host.arguments:HostArguments.dense_lines",
        "indented(copies)]",
        "indented(copies[:-1])]",
    ),
    KernelFault(
        "arguments: whether the last one has strides is not looked at",
        f"{T}host.arguments:HostArguments.dense_lines",
        "are_dense({', '.join(names)})",
        "are_dense({', '.join(names[:-1])})",
    ),
    KernelFault(
        "finalize: the maximum of many partials starts at 0",
        f"{T}finalize_kernel:_Sweep.reduce",
        "start_value, update = 'float(\"-inf\")'",
        "start_value, update = '0.0'",
    ),
    KernelFault(
        "finalize: of many partials the last ones are left",
        f"{T}finalize_kernel:_Sweep.reduce",
        'f"{total} += {reduced}"',
        'f"{total} = {reduced}"',
    ),
    KernelFault(
        "eager-exact: what a softcap divides is not rounded",
        "coda_ir.dialects.gemm.scalars:ScalarBuilder.softcap",
        "self.result(self.div(a, self.constant(cap)), type)",
        "self.div(a, self.constant(cap))",
    ),
    KernelFault(
        "eager-exact: the tanh of a softcap is not rounded",
        "coda_ir.dialects.gemm.scalars:ScalarBuilder.softcap",
        "self.result(self.tanh(inside), type)",
        "self.tanh(inside)",
    ),
    KernelFault(
        "eager-exact: an activation is not rounded before its gate",
        "coda_ir.dialects.gemm.scalars:ScalarBuilder.gated",
        "self.result(self.activation(name, gate), type)",
        "self.activation(name, gate)",
    ),
    KernelFault(
        "eager-exact: the reciprocal of a divisor is not rounded",
        "coda_ir.dialects.gemm.scalar_code:_emit_div",
        "builder.result(reciprocal, element_type_of(op.results[0]))",
        "reciprocal",
    ),
    KernelFault(
        "eager-exact: no operator in an epilogue rounds its result",
        "coda_ir.dialects.gemm.scalar_code:emit_scalar",
        "builder.result(_EMIT[type(op)](builder, op, args), element_type_of(op.results[0]))",
        "_EMIT[type(op)](builder, op, args)",
    ),
)

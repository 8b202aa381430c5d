"""Faults of emitted kernels, of schedules and of the buffers of the host program."""

from faults.fault import KernelFault, Nth, Text

T = "coda_ir.backends.triton."
SEGMENT = f"{T}gemm_segment:SegmentEmitter."
RESULTS = f"{T}segment_results:SegmentResults."
COLUMNS = f"{T}segment_columns:SegmentColumns."

KERNEL_FAULTS = (
    KernelFault("kernel: rows are not masked", f"{T}ports:mask_of", Nth("keep", "BitAnd", 1)),
    KernelFault("kernel: columns are not masked", f"{T}ports:mask_of", Nth("always", "Is")),
    KernelFault(
        "kernel: rows are not clamped",
        f"{T}gemm_kernel:_GemmEmitter._clamped_rows",
        Text("'row = tl.minimum(rows, M - 1).to(tl.int64)'", "'row = rows.to(tl.int64)'"),
    ),
    KernelFault(
        "kernel: one of six products of parts twice",
        f"{T}prelude:_HELPERS[dot_in_parts]",
        Text("dot(a0, b1, dot(a1, b0,", "dot(a0, b1, dot(a0, b1,"),
    ),
    KernelFault(
        "kernel: columns are not wrapped", f"{COLUMNS}_emit_lane_columns", Nth("drop", "append")
    ),
    KernelFault(
        "kernel: one column too many",
        f"{COLUMNS}_emit_lane_columns",
        Text("f'{name} < {columns.extent}'", "f'{name} < {columns.extent + 1}'"),
    ),
    KernelFault(
        "kernel: a tile too few",
        "coda_ir.dialects.gemm.tiling:ColumnRange.tiles",
        Text("-(-self.extent // self.per_tile)", "max(1, self.extent // self.per_tile)"),
    ),
    KernelFault(
        "kernel: a row of tiles too few",
        f"{T}gemm_emitter:GemmEmitter.tiles",
        Text(
            "ROW_COUNT.ceiling(bm)",
            "HostValue(('max(1, ', *ROW_COUNT.pieces, f' // {bm})'))",
        ),
    ),
    KernelFault(
        "kernel: identity 0 for a maximum", f"{RESULTS}_reduce", Text("{IDENTITY[combiner]}", "0.0")
    ),
    KernelFault("kernel: partial of all lanes", f"{RESULTS}_reduce", Nth("never", "IsNot")),
    KernelFault(
        "kernel: sum in place of the stated combiner",
        f"{RESULTS}_combine",
        Text(
            "reduction = (_TREES if self.is_ordered else REDUCTIONS)[combiner]",
            'reduction = "tl.sum"',
        ),
    ),
    KernelFault(
        "kernel: a sum of a sample with a row of the next one",
        f"{T}prelude:_HELPERS[store_sample_sums]",
        Text("rows < start + LENGTH", "rows <= start + LENGTH"),
    ),
    KernelFault(
        "kernel: sums of the first sample of a tile only",
        f"{T}prelude:_HELPERS[store_sample_sums]",
        Text("sample * LENGTH <= last", "sample * LENGTH <= first"),
    ),
    KernelFault(
        "kernel: what no tile of a sample stores is not cleared",
        f"{T}prelude:_HELPERS[store_sample_sums]",
        Text("number + 1 < TILES", "number + 1 < 0"),
    ),
    KernelFault(
        "kernel: no sum of a sample for the rows that begin within a tile",
        f"{T}operators.gemm_level:_bind_row_tiles",
        Text("if result.samples:", "if False:"),
    ),
    KernelFault(
        "kernel: partials of another sample",
        f"{T}finalize_kernel:_Sweep._place",
        Text("// {columns} * {self.extent} + {self.tile}", "// {columns} + {self.tile}"),
    ),
    KernelFault(
        "kernel: all samples are normalized with the parameters of the first",
        f"{T}row_kernels:_parameters",
        Text("// {name}_repeats", "// M"),
    ),
    KernelFault(
        "kernel: partial stored at the next tile",
        f"{RESULTS}_store_partial_row",
        Text(
            "place = f'{self.first_partial} + {tile}' if self.first_partial else tile",
            "place = f'{self.first_partial} + {tile} + 1'",
        ),
    ),
    KernelFault(
        "kernel: partials of joined weights overwrite each other",
        f"{RESULTS}_store_partial_row",
        Nth("keep", "IfExp", 3),
    ),
    KernelFault(
        "kernel: a subtile takes the place of those before",
        f"{RESULTS}_combine_subtiles",
        Nth("keep", "_hole0_"),
    ),
    KernelFault(
        "kernel: partials of one row in the place of another",
        f"{RESULTS}_store_partial_row",
        Text("row * {self.segment_partials}", "row * {self.columns.partials}"),
    ),
    KernelFault(
        "kernel: rows past the end count in partials of columns",
        f"{RESULTS}_store_partial_col",
        Text(
            "self._reduce(index, value, 0, 'row_mask[:, None]')",
            "self._reduce(index, value, 0, None)",
        ),
    ),
    KernelFault(
        "kernel: selected column found in the wrong tile",
        f"{T}result_places:owner_of_column",
        Text("{local} // {columns.per_tile}", "{local} // {columns.per_tile + 1}"),
    ),
    KernelFault(
        "kernel: nobody stores 0 for rows without a column",
        f"{T}result_places:owner_of_column",
        Nth("keep", "IfExp", 3),
    ),
    KernelFault(
        "kernel: offset of a joined weight dropped",
        f"{COLUMNS}_emit_accumulator_columns",
        Nth("keep", "Add", 1),
    ),
    KernelFault(
        "kernel: second column of a pair is the next one",
        f"{COLUMNS}_emit_accumulator_columns",
        Text("step = group // 2\n", "step = group // 2 if group == n else 1\n"),
    ),
    KernelFault(
        "kernel: adjacent columns of a pair coincide",
        f"{COLUMNS}_emit_accumulator_columns",
        Nth("keep", "Mult", 1),
    ),
    KernelFault(
        "kernel: operands of neighbouring columns are swapped",
        f"{T}gemm_segment:SegmentEmitter._load_neighbours",
        Text("zip(args, names", "zip(args, names[::-1]"),
    ),
    KernelFault(
        "kernel: padding of a group is reduced",
        f"{RESULTS}_of_group",
        Text("{IDENTITY[combiner]}", "1.0"),
    ),
    KernelFault(
        "kernel: groups of half their size",
        f"{T}result_places:Groups.lanes",
        Text("self.columns.padded_group", "self.columns.padded_group // 2"),
    ),
    KernelFault(
        "kernel: a group that is summed over begins at its end",
        f"{T}prelude:_HELPERS[rows_of_group]",
        Text("ends + group - 1", "ends + group"),
    ),
    KernelFault(
        "kernel: the rows after a group are summed with it",
        f"{T}mainloop:PointerMainLoop.extents",
        Text("'end_row'", "'K'"),
    ),
    KernelFault(
        "kernel: rows that are summed not gathered",
        f"{T}mainloop:PointerMainLoop._gathered_depths",
        Text("self.op.gather_weights", "None"),
    ),
    KernelFault(
        "kernel: sums of groups stored in one place",
        f"{T}row_groups:RaggedDepth.statements",
        Text("row_group.to(tl.int64) * {self.rows} + x_row", "x_row"),
    ),
    KernelFault(
        "kernel: rows of a factor that is a range of columns follow one another",
        f"{T}mainloop:PointerMainLoop.prologue",
        Text("self.arguments.pitch(x)", "shape_of(x)[-1]"),
    ),
    KernelFault(
        "kernel: rows not gathered",
        f"{T}mainloop:PointerMainLoop.prologue",
        Text("row = 'gathered'", "row = 'row'"),
    ),
    KernelFault(
        "kernel: rows not scattered",
        f"{T}gemm_kernel:_GemmEmitter._emit_segments",
        Text("'scattered'", "'row'"),
    ),
    KernelFault(
        "kernel: parts of a concatenation over each other",
        f"{T}result_places:place_of_column",
        Text("{column} % {width} + {offset}", "{column} % {width}"),
    ),
    KernelFault(
        "kernel: runs of columns of a part without the others between them",
        f"{T}result_places:place_of_column",
        Text("{period * place.copies.data}", "{width * place.copies.data}"),
    ),
    KernelFault(
        "kernel: rows of a part without the other parts",
        "coda_ir.dialects.gemm.places:PlaceAttr.pitch",
        Text("self.period.data", "self.width.data"),
    ),
    KernelFault(
        "kernel: rows of a sample over those of the one before",
        f"{T}result_places:place_of_row",
        Text("{width} * {period}", "{width} * {width}"),
    ),
    KernelFault(
        "kernel: elements of groups stored in each other's place",
        f"{T}result_places:Groups.numbers",
        Text("{tile} * {count}", "{tile}"),
    ),
    KernelFault(
        "kernel: the element of a group that no column has",
        f"{T}result_places:Groups.mask",
        Nth("always", "Eq"),
    ),
    KernelFault(
        "kernel: integers of 8 bits keep more of them",
        "coda_ir.dialects.gemm.scalars:ScalarBuilder.wrapped",
        Text("not is_narrow_integer(element)", "element"),
    ),
    KernelFault(
        "kernel: the place of a column in a padded group",
        f"{COLUMNS}_emit_padded_columns",
        Text("* {group} + {place}", "* {padded} + {place}"),
    ),
    KernelFault(
        "kernel: the subtiles of a program are one tile",
        f"{SEGMENT}_emit_subtile",
        Nth("keep", "Add"),
    ),
    KernelFault(
        "kernel: accumulators of a subtile",
        f"{T}prelude:_HELPERS[column_subtile]",
        Text("if subtile < SUBTILES // 2:", "if subtile >= SUBTILES // 2:"),
    ),
    KernelFault(
        "kernel: the modulo of a table's rows dropped",
        f"{T}ports:_table_row",
        Text("f'{numbers} % {height}'", "f'{numbers}'"),
    ),
    KernelFault(
        "kernel: each row of a sample takes another row of a table of samples",
        f"{T}ports:_table_row",
        Text("f'{rows.numbers} // {repeats}'", "rows.numbers"),
    ),
    KernelFault(
        "kernel: the rows of a table before a dimension that it lacks dropped",
        f"{T}ports:_table_row",
        Text("f'({place}) * {height} + '", "''"),
    ),
    KernelFault(
        "kernel: the modulo of a table's columns dropped",
        f"{T}ports:_table_column",
        Text("f'({columns.name} % {width})'", "columns.name"),
    ),
    KernelFault(
        "kernel: a tile port read with another stride",
        f"{T}ports:_place_in",
        Text("row_start(row, pitch)", "row_start(row, pitch - 1)"),
    ),
    KernelFault(
        "kernel: results truncated to bfloat16",
        f"{T}prelude:_HELPERS[to_bf16]",
        Text("+ 32767 + (bits >> 16 & 1) ", ""),
    ),
    KernelFault(
        "kernel: ties of bfloat16 away from even",
        f"{T}prelude:_HELPERS[to_bf16]",
        Text("32767 + (bits >> 16 & 1)", "65535"),
    ),
    KernelFault(
        "topk: negative numbers are in the order of their bits",
        f"{T}prelude:_HELPERS[float_order]",
        Text("bits < 0", "bits > 0"),
    ),
    KernelFault(
        "topk: elements are taken again",
        f"{T}topk_kernel:_taken",
        Text("key == largest, nothing, key", "key == largest, key, key"),
    ),
    KernelFault(
        "topk: elements of wide rows are taken again",
        f"{T}topk_kernel:_taken_by_halves",
        Text("column == first, -(2**31), order", "column == first, order, order"),
    ),
    KernelFault(
        "topk: smaller elements are counted",
        f"{T}topk_kernel:_counted",
        Text("2) > tl", "2) < tl"),
    ),
    KernelFault(
        "one row: rows side by side are multiplied by the same group",
        f"{T}prelude:_HELPERS[multiply_row]",
        Text("tl.load(numbers + row,", "tl.load(numbers,"),
    ),
    KernelFault(
        "one row: steps ahead are multiplied again",
        f"{T}prelude:_HELPERS[multiply_row]",
        Text("(AHEAD * BLOCK_K if row == 0 else 0)", "(AHEAD * BLOCK_K if row < 0 else 0)"),
    ),
    KernelFault(
        "topk: columns are counted from the start",
        f"{T}topk_kernel:topk_kernel",
        Text("id = {block - 1} - (taken", "id = (taken"),
    ),
    KernelFault(
        "kernel: depth is not masked",
        f"{T}prelude:_HELPERS[load_depth]",
        Text("if K % BLOCK_K == 0:", "if K > 0:"),
    ),
    KernelFault(
        "kernel: last step of the depth left out",
        f"{T}prelude:_HELPERS[multiply]",
        Text(
            "for k in range(first, last, BLOCK_K):",
            "for k in range(first, last - BLOCK_K + 1, BLOCK_K):",
        ),
    ),
    KernelFault(
        "kernel: both columns of a pair from the first weight",
        f"{T}prelude:_HELPERS[multiply]",
        Text("load_depth(b_columns[i], k,", "load_depth(b_columns[0], k,"),
    ),
    KernelFault(
        "kernel: weight of the wrong layout",
        f"{T}mainloop:PointerMainLoop.extents",
        Nth("never", "Eq"),
    ),
    KernelFault(
        "kernel: groups of rows of tiles of the wrong size",
        f"{T}prelude:_HELPERS[grouped_tile]",
        Nth("keep", "minimum", 2),
    ),
    KernelFault(
        "finalize: a partial too many", f"{T}finalize_kernel:_Sweep._read", Nth("operator", "Lt")
    ),
    KernelFault(
        "finalize: missing partials of a maximum are 0",
        f"{T}finalize_kernel:_FinalizeEmitter._combine",
        Text(
            "sweep.reduce(total, 'max', base, IDENTITY[kind])",
            "sweep.reduce(total, 'max', base, '0.0')",
        ),
    ),
    KernelFault(
        "finalize: maxima are added",
        f"{T}finalize_kernel:_FinalizeEmitter._combine",
        Text(
            "sweep.reduce(total, 'max', base, IDENTITY[kind])",
            "sweep.reduce(total, 'add', base, '0.0')",
        ),
    ),
    KernelFault(
        "finalize: logarithm without its shift",
        f"{T}finalize_kernel:_FinalizeEmitter._combine_lse",
        Nth("keep", "Add", 1),
    ),
    KernelFault(
        "finalize: elements past the end are stored",
        f"{T}finalize_kernel:_FinalizeEmitter._store",
        Nth("drop", "store"),
    ),
    KernelFault(
        "rows: columns past the end count",
        f"{T}row_kernel_text:Load.lines",
        Text("self.other)", "'1.0')"),
    ),
    KernelFault(
        "rows: elements past the end are stored",
        f"{T}row_kernel_text:RowKernelText.store_column",
        Nth("drop", "store"),
    ),
    KernelFault(
        "rows: the mean is not subtracted from the variance",
        f"{T}row_kernels:_emit_moments",
        Text("tl.where(inside, x - mean, 0.0)", "x"),
    ),
    KernelFault(
        "rows: ignored targets count",
        f"{T}row_kernels:loss_reduction_kernel",
        Text("(target != {ignored})", "(target == target)"),
    ),
    KernelFault(
        "map: a row of tiles too few",
        f"{T}map_kernel:emit_map",
        Text(
            "ROW_COUNT.ceiling(tiling.rows)",
            "type(ROW_COUNT)(('max(1, ', *ROW_COUNT.pieces, f' // {tiling.rows})'))",
        ),
    ),
    KernelFault(
        "packed weight: a block of the depth left out",
        f"{T}kernel_text:over_blocks",
        Text("range(0, {extent}, {block})", "range(0, {extent} - {block}, {block})"),
    ),
    KernelFault(
        "buffers: taken again while still in use",
        "coda_ir.passes.layout.plan_buffers:plan_block",
        Text(
            "last_uses(block.ops)", "{op: list(map(storage_root, op.results)) for op in block.ops}"
        ),
    ),
    KernelFault(
        "buffers: freed before the results of the operator are placed",
        "coda_ir.passes.layout.plan_buffers:plan_block",
        Text(
            "        for result in (*placed, *op.results):\n",
            "        for root in dying.get(op, ()):\n"
            "            if plan.buffers.get(root) not in (None, *RESERVED_BUFFERS):\n"
            "                key = (shapes.numel(root), element_type_of(root))\n"
            "                free[key].append(plan.buffers[root])\n"
            "        for result in (*placed, *op.results):\n",
        ),
    ),
    KernelFault(
        "ranges: permuted rows are as far apart in all dimensions as in the last two",
        f"{T}argument_list:row_start",
        Text("pitch.strides[-1]", "pitch.strides[1]"),
    ),
    KernelFault(
        "ranges: rows along the second dimension count those of the last one",
        f"{T}argument_list:row_start",
        Text("{number} // {extent}", "{number}"),
    ),
    KernelFault(
        "copies: transposed tiles are as far apart as in memory",
        f"{T}copy_kernel:Copy._tiles",
        Text("self._start('plane', steps)", "self._start('plane', self.strides)"),
    ),
    KernelFault(
        "products: every step multiplies the first elements of K",
        f"{T}product_kernel:_steps",
        Text("depth = start + tl", "depth = tl"),
    ),
    KernelFault(
        "products: the last of few terms is the whole sum",
        f"{T}product_kernel:_terms",
        Text("total += a", "total = a"),
    ),
    KernelFault(
        "ranges: the rows of a table of samples are as far apart as its columns reach",
        f"{T}ports:table_index",
        Text("arguments.pitches.get(port.value, columns.pitch(width))", "columns.pitch(width)"),
    ),
    KernelFault(
        "storage: a view of a view has memory of its own",
        "coda_ir.storage:storage_root",
        Text("while (shared := ", "if (shared := "),
    ),
    KernelFault(
        "arguments: the last one that has strides is taken for dense",
        f"{T}host.arguments:HostArguments.dense_lines",
        Text("indented(copies)]", "indented(copies[:-1])]"),
    ),
    KernelFault(
        "arguments: whether the last one has strides is not looked at",
        f"{T}host.arguments:HostArguments.dense_lines",
        Text("are_dense({', '.join(names)})", "are_dense({', '.join(names[:-1])})"),
    ),
    KernelFault(
        "finalize: the maximum of many partials starts at 0",
        f"{T}kernel_text:reduction",
        Text("{combined})', NEGATIVE_INFINITY)", "{combined})', '0.0')"),
    ),
    KernelFault(
        "finalize: of many partials the last ones are left",
        f"{T}finalize_kernel:_Sweep.reduce",
        Text("f'{lanes} + {expression}'", "expression"),
    ),
    KernelFault(
        "eager-exact: the steps of a softcap are not rounded",
        "coda_ir.dialects.gemm.scalar_code:_emit_formula",
        Text("value if op.ATEN else builder.result(value, element_type_of(op.result))", "value"),
    ),
    KernelFault(
        "eager-exact: an activation is not rounded before its gate",
        "coda_ir.dialects.gemm.scalars:ScalarBuilder.gated",
        Nth("keep", "result", 1),
    ),
    KernelFault(
        "eager-exact: the reciprocal of a divisor is not rounded",
        "coda_ir.dialects.gemm.scalar_code:_emit_div",
        Nth("keep", "result", 1),
    ),
    KernelFault(
        "eager-exact: no operator in an epilogue rounds its result",
        "coda_ir.dialects.gemm.scalar_code:emit_scalar",
        Nth("keep", "result", 1),
    ),
)

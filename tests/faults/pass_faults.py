"""Faults of rewrites: what a pass computes."""

from faults.fault import Fault

P = "coda_ir.passes."

PASS_FAULTS = (
    Fault(
        "rms norm: rstd dropped",
        f"{P}defer_rms_norm:_defer",
        "insert.mul(float32_gemm(insert, gemm, x), rstd)",
        "float32_gemm(insert, gemm, x)",
    ),
    Fault(
        "rms norm: bias inside of the row scale",
        f"{P}defer_rms_norm:_defer",
        "        value = insert.mul(float32_gemm(insert, gemm, x), rstd)\n"
        "        bias = bias_of(gemm)\n"
        "        if bias is not None:\n"
        "            value = insert.add(value, insert.cast(bias, element_type_of(value)))\n",
        "        value = float32_gemm(insert, gemm, x)\n"
        "        bias = bias_of(gemm)\n"
        "        if bias is not None:\n"
        "            value = insert.add(value, insert.cast(bias, element_type_of(value)))\n"
        "        value = insert.mul(value, rstd)\n",
    ),
    Fault(
        "rms norm: bias dropped",
        f"{P}defer_rms_norm:_defer",
        "if bias is not None:",
        "if False:",
    ),
    Fault(
        "norm: weight dropped from the deferred input",
        f"{P}support.norms:scaled_input",
        "if weight is None:",
        "if True:",
    ),
    Fault(
        "norm: eps scaled",
        f"{P}support.norms:norm_stats",
        "norm.eps.value.data",
        "norm.eps.value.data * 2",
    ),
    Fault(
        "norm: eps dropped from the statistics",
        f"{P}split_reductions:_norm_stats",
        "builder.rsqrt(builder.add(variance, builder.constant(eps)))",
        "builder.rsqrt(variance)",
    ),
    Fault(
        "norm: mean not subtracted where the norm is split",
        f"{P}support.norms:apply_statistics",
        "if len(stats) > 1:",
        "if False:",
    ),
    Fault(
        "norm: weight added instead of multiplied where the norm is split",
        f"{P}support.norms:apply_statistics",
        "value = insert.mul(value, insert.cast(norm.weight, f32))",
        "value = insert.add(value, insert.cast(norm.weight, f32))",
    ),
    Fault(
        "layer norm: mean not subtracted",
        f"{P}defer_layer_norm:_defer",
        "value = insert.sub(value, insert.mul(shift, sums))",
        "pass",
    ),
    Fault(
        "layer norm: mean not scaled by rstd",
        f"{P}defer_layer_norm:_defer",
        'shift = before.mul(rstd, mean, "shift")',
        "shift = mean",
    ),
    Fault(
        "layer norm: column sums of the weight in place of its bias",
        f"{P}defer_layer_norm:_defer",
        "_packed(insert, gemm.weight, norm.bias, layout)",
        "sums",
    ),
    Fault(
        "layer norm: column sums along the wrong dimension",
        f"{P}defer_layer_norm:_defer",
        "Layout.NK if isinstance(gemm, coda.LinearOp) else Layout.KN",
        "Layout.NK",
    ),
    Fault(
        "rms norm: one accumulator of a pair not scaled",
        f"{P}defer_rms_norm:_scaled",
        "for accumulator in segment.accumulators]",
        "for accumulator in segment.accumulators[:1]] + list(segment.accumulators[1:])",
    ),
    Fault(
        "layer norm: correction of accumulators added",
        f"{P}defer_layer_norm:_corrected",
        "builder.sub(v, ",
        "builder.add(v, ",
    ),
    Fault(
        "layer norm: correction of accumulators without the bias",
        f"{P}defer_layer_norm:_corrected",
        "if norm.bias is not None:",
        "if False:",
    ),
    Fault(
        "layer norm: halves of pairs exchanged in the correction",
        f"{P}defer_layer_norm:_port_of_vector",
        "for half in packed]",
        "for half in packed[::-1]]",
    ),
    Fault(
        "layer norm: variance without the square of the mean",
        f"{P}split_reductions:_norm_stats",
        "builder.sub(builder.divide_by(total[1], count), builder.mul(mean, mean))",
        "builder.divide_by(total[1], count)",
    ),
    Fault(
        "statistics divided by another N",
        f"{P}split_reductions:_norm_stats",
        "return [rstd(builder, builder.divide_by(total[0], count))]",
        "return [rstd(builder, builder.divide_by(total[0], count + 1))]",
    ),
    Fault(
        "statistics of the value instead of its square",
        f"{P}split_reductions:_square",
        "builder.mul(value, value)",
        "value",
    ),
    Fault(
        "mean is a sum",
        f"{P}split_reductions:_take_apart",
        'builder.divide_by(total[0], count) if kind == "mean" else total[0]',
        "total[0]",
    ),
    Fault(
        "maximum is a sum",
        f"{P}split_reductions:_take_apart",
        '"max": Combiner.MAX',
        '"max": Combiner.ADD',
    ),
    Fault(
        "partials of the first column of a pair only",
        f"{P}split_reductions:add_partials",
        "values[0] if len(values) == 1 else builder.combine(combiner, *values)",
        "values[0]",
    ),
    Fault(
        "bias dropped",
        f"{P}convert_linear_to_gemm:_convert",
        "if bias is not None:",
        "if False:",
    ),
    Fault(
        "weight of a matmul read as N x K",
        f"{P}convert_linear_to_gemm:_convert",
        "layout=Layout.NK if isinstance(op, coda.LinearOp) else Layout.KN",
        "layout=Layout.NK",
    ),
    Fault(
        "row scale folded into the wrong dimension of the weight",
        f"{P}place_column_scale:_fold",
        "Layout.NK if isinstance(gemm, coda.LinearOp) else Layout.KN",
        "Layout.KN if isinstance(gemm, coda.LinearOp) else Layout.NK",
    ),
    Fault(
        "folded weight used beside the scaled input",
        f"{P}place_column_scale:_fold",
        "coda.LinearOp(x, weight, bias_of(gemm)",
        "coda.LinearOp(op.result, weight, bias_of(gemm)",
    ),
    Fault(
        "bias of a folded GEMM dropped",
        f"{P}place_column_scale:_fold",
        "coda.LinearOp(x, weight, bias_of(gemm)",
        "coda.LinearOp(x, weight, None",
    ),
    Fault(
        "packed projection: every part gets the first columns",
        f"{P}split_packed_linear:_split",
        "coda.SliceOp(op.weight, 0, start, stop)",
        "coda.SliceOp(op.weight, 0, 0, stop - start)",
    ),
    Fault(
        "packed projection: bias of the first columns",
        f"{P}split_packed_linear:_split",
        "coda.SliceOp(op.bias, 0, start, stop)",
        "coda.SliceOp(op.bias, 0, 0, stop - start)",
    ),
    Fault(
        "concatenation: every part takes the first columns of a weight",
        f"{P}split_concatenation:_Split._part_of",
        "coda.SliceOp(sink.weight, 0, *self.ranges[number])",
        "coda.SliceOp(sink.weight, 0, 0, shape_of(self.op.parts[number])[-1])",
    ),
    Fault(
        "concatenation: sums of the first part alone",
        f"{P}split_concatenation:_Split._together",
        "total = reduce(insert.add, values)",
        "total = values[0]",
    ),
    Fault(
        "gate and up swapped",
        f"{P}pair_glu:_fuse_glu",
        "gate, up = editor",
        "up, gate = editor",
    ),
    Fault(
        "activation of the gate dropped",
        "coda_ir.dialects.gemm.scalars:ScalarBuilder.gated",
        "self.result(self.activation(name, gate), type)",
        "gate",
    ),
    Fault(
        "packed gate and up taken for adjacent columns",
        f"{P}pair_glu:_pair_packed",
        "pair_columns(site.op, site.segment, PairingAttr.halves(), rewriter.order)",
        "pair_columns(site.op, site.segment, PairingAttr.adjacent_columns(), rewriter.order)",
    ),
    Fault(
        "siblings joined in the wrong order",
        f"{P}support.pairing:join_siblings",
        "weights=[*left.weights, *right.weights]",
        "weights=[*right.weights, *left.weights]",
    ),
    Fault(
        "both halves of a joined pair read the first accumulator",
        f"{P}support.pairing:join_siblings",
        "_append_half(joined, part, block.args[lane])",
        "_append_half(joined, part, block.args[0])",
    ),
    Fault(
        "second column of a pair gets the ports of the first",
        f"{P}support.pairing:to_pair_mode",
        "(args[0], args[-1])",
        "(args[0], args[0])",
    ),
    Fault(
        "group reduced over one column of a pair",
        f"{P}support.pairing:_clone_for_pair",
        "both = builder.combine(op.combiner.data, *lanes[op.value])",
        "both = lanes[op.value][0]",
    ),
    Fault(
        "row statistics of one column of a pair",
        f"{P}support.pairing:_pair_result",
        "[ScalarBuilder(segment.block).combine(port.combiner.data, *lanes)]",
        "[lanes[0]]",
    ),
    Fault(
        "rope: sign of the sine flipped",
        "coda_ir.dialects.gemm.scalars:ScalarBuilder.rotate",
        "first, second = (self.add, self.sub) if transposed",
        "first, second = (self.add, self.sub) if not transposed",
    ),
    Fault(
        "rope: both columns of a pair take one cosine",
        "coda_ir.dialects.gemm.scalars:ScalarBuilder.rotate",
        "cos_a, cos_b = cos[0], cos[-1]",
        "cos_a, cos_b = cos[0], cos[0]",
    ),
    Fault(
        "rope: the adjoint takes the sines of its own columns",
        "coda_ir.dialects.gemm.scalars:ScalarBuilder.rotate",
        "(sin[-1], sin[0]) if transposed",
        "(sin[0], sin[-1]) if transposed",
    ),
    Fault(
        "rope: tables of columns are read as those of pairs",
        "coda_ir.dialects.gemm.rotary:table_kind",
        "if op.is_per_column",
        "if False",
    ),
    Fault(
        "rope: cosine and sine swapped",
        f"{P}pair_rope:rotate_lanes",
        "builder.rotate(a, b, cos, sin, types",
        "builder.rotate(a, b, sin, cos, types",
    ),
    Fault(
        "rope: columns of a pair swapped",
        f"{P}pair_rope:rotate_lanes",
        "a, b = lanes",
        "b, a = lanes",
    ),
    Fault(
        "rope: interleaved pairs taken for half-split ones",
        "coda_ir.dialects.gemm.rotary:pairing_of",
        'op.layout.data == "interleaved"',
        "False",
    ),
    Fault(
        "rope: pairs of the whole row instead of a head",
        "coda_ir.dialects.gemm.rotary:pairing_of",
        "PairingAttr.halves(op.head_dim.value.data)",
        "PairingAttr.halves()",
    ),
    Fault(
        "head norm: eps dropped",
        f"{P}fuse_qk_norm:_normalize",
        "builder.rsqrt(builder.add(mean, builder.constant(op.eps.value.data)))",
        "builder.rsqrt(mean)",
    ),
    Fault(
        "head norm: groups of another size",
        f"{P}fuse_qk_norm:_normalize",
        "GroupReduceOp(square, Combiner.ADD, op.group_size)",
        "GroupReduceOp(square, Combiner.ADD, op.group_size // 2)",
    ),
    Fault(
        "head norm: weight dropped",
        f"{P}fuse_qk_norm:_rewrite",
        "        (weight,) = editor.lanes_of(op.weight, site.segment, domain, half=False)\n"
        "        scaled = editor.builder(site.segment, op.location).mul(scaled, weight)\n",
        "        pass\n",
    ),
    Fault(
        "loss: ignored rows count",
        f"{P}fuse_cross_entropy:_per_row_loss",
        "builder.insert(arith.SelectOp(ignored, zero, builder.sub(total, logit)))",
        "builder.sub(total, logit)",
    ),
    Fault(
        "loss: mean over all rows",
        f"{P}fuse_cross_entropy:_per_row_loss",
        "builder.insert(arith.SelectOp(ignored, zero, one))",
        "one",
    ),
    Fault(
        "loss: sign of the target's logit",
        f"{P}fuse_cross_entropy:_per_row_loss",
        "builder.sub(total, logit)",
        "builder.add(total, logit)",
    ),
    Fault(
        "loss: maximum in place of logsumexp",
        f"{P}fuse_cross_entropy:_add_results",
        "ResultPortAttr.partial_row(Combiner.LSE)",
        "ResultPortAttr.partial_row(Combiner.MAX)",
    ),
    Fault(
        "pointwise: operands of every operator swapped",
        f"{P}support.editing:EpilogueEditor._lanes",
        "[values[lane] for values in operands]",
        "[values[lane] for values in operands][::-1]",
    ),
    Fault(
        "pointwise: residual added twice",
        "coda_ir.dialects.gemm.scalars:ScalarBuilder.add",
        "return self.insert(arith.AddfOp(a, b))",
        "return self.insert(arith.AddfOp(self.insert(arith.AddfOp(a, b)), b))",
    ),
    Fault(
        "pointwise: a row that repeats along the columns is read once",
        f"{P}support.editing:EpilogueEditor._repeats",
        "return columns is not None and domain[-1] != (columns // 2 if half else columns)",
        "return False",
    ),
    Fault(
        "pointwise: row code that was recomputed is shared between sizes",
        f"{P}support.editing:EpilogueEditor.lanes_of",
        "return part.yielded(self._origins[segment].index(value))",
        "return part.yielded(0)",
    ),
    Fault(
        "a table repeated along the wrong rows",
        f"{P}support.ports:port_kind",
        "return PortKind.TABLE if all(rows[repeated:]) else None",
        "return PortKind.TABLE",
    ),
    Fault(
        "a column taken for a row",
        f"{P}support.ports:port_kind",
        "if all(rows) and len(shape) == len(domain):\n        return PortKind.COL",
        "if all(rows) and len(shape) == len(domain):\n        return PortKind.SCALAR",
    ),
    Fault(
        "activation: tanh approximation for the exact gelu",
        "coda_ir.dialects.gemm.scalar_code:_emit_gelu",
        'op.approximate.data == "none"',
        "False",
    ),
    Fault(
        "softcap: cap dropped",
        "coda_ir.dialects.gemm.scalar_code:_emit_softcap",
        "builder.softcap(args[0], op.cap.value.data, element_type_of(op.result))",
        "args[0]",
    ),
    Fault(
        "siblings merged: results in the wrong order",
        f"{P}merge_sibling_gemms:_merge",
        "order.join(first, second, outputs, merged)",
        "order.join(first, second, outputs[::-1], merged)",
    ),
    Fault(
        "finalize: operands of fused row code swapped",
        f"{P}fuse_finalize:_fuse",
        "[element(v) for v in op.operands]",
        "[element(v) for v in reversed(op.operands)]",
    ),
    Fault(
        "finalize: constants of row code lost",
        f"{P}fuse_finalize:_fuse",
        "builder.constant(float(value.owner.number))",
        "builder.constant(1.0)",
    ),
    Fault(
        "unused results: the others move up",
        f"{P}support.editing:EpilogueEditor.remove_result",
        "self.segments[segment].remove_result(index)",
        "self.segments[segment].remove_result(0)",
    ),
    Fault(
        "schedule: a tile that cuts a group",
        "coda_ir.dialects.gemm.tiling:_check_groups",
        "if columns.group > columns.lanes or columns.per_tile == 0:",
        "if False:",
    ),
)

"""Faults of rewrites: what a pass computes."""

from faults.fault import Fault, Nth, Text

P = "coda_ir.passes."

PASS_FAULTS = (
    Fault(
        "rms norm: rstd dropped",
        f"{P}algebra.defer_norms:_corrected_product",
        Nth("keep", "mul", 1),
    ),
    Fault(
        "rms norm: bias inside of the row scale",
        f"{P}algebra.defer_norms:_corrected_product",
        Text("insert.cast(bias, f32)", "insert.mul(insert.cast(bias, f32), rstd)"),
    ),
    Fault(
        "scatter: rows stored in the order in which they are read",
        f"{P}fusion.fuse_scatter:_fuse",
        Text("scatter=order", "scatter=op.ids"),
    ),
    Fault(
        "scatter: numbers in descending order count as an inverse",
        f"{P}support.row_numbers:inverse_of",
        Text(" and (not op.given['descending'])", ""),
    ),
    Fault(
        "group biases: numbers in descending order are those of groups",
        f"{P}support.row_numbers:number_groups",
        Text("sort.given['descending'] or ", ""),
    ),
    Fault(
        "group biases: the bias is dropped",
        f"{P}raising.raise_group_biases:_raise",
        Text("product.offsets, rows.x)", "product.offsets)"),
    ),
    Fault(
        "gather: ids dropped", f"{P}fusion.fuse_gather:_fuse", Text("gather=op.ids", "gather=None")
    ),
    Fault(
        "gather: ids of weights dropped",
        f"{P}fusion.fuse_gather:_fuse",
        Text("gather_weights=op.ids", "gather_weights=None"),
    ),
    Fault(
        "scaled rows: factor dropped",
        f"{P}gradient.scale_rows_first:_rewrite",
        Nth("keep", "mul", 1),
    ),
    Fault(
        "scaled rows: the router weight twice",
        f"{P}gradient.scale_rows_first:_rewrite",
        Text("insert.cast(again, element)", "insert.mul(insert.cast(again, element), scale)"),
    ),
    Fault(
        "placed parts: a kernel stores its first operand for each part that it reads",
        f"{P}layout.place_parts:_store_again",
        Text("editor.lanes_of(_repeated(x)", "editor.lanes_of(kernel.operands[0]"),
    ),
    Fault(
        "zero rows: results in the order of groups",
        f"{P}block.skip_zero_rows:_rewrite",
        Text("coda.IndexOp(value, inverse, dim=0)", "coda.IndexOp(value, order, dim=0)"),
    ),
    Fault(
        "zero rows: the rows of other tokens",
        f"{P}block.skip_zero_rows:_Rows._repeated",
        Text("coda.ConstantOp(k, i64)", "coda.ConstantOp(k + 1, i64)"),
    ),
    Fault(
        "zero rows: any number is taken for 0",
        f"{P}block.skip_zero_rows:_Rows._scattered",
        Text("float(number.number)", "0.0"),
    ),
    Fault(
        "zero rows: a group that is chosen twice counts twice",
        f"{P}block.skip_zero_rows:_why_not",
        Text("not differ_in_rows(ids)", "False"),
    ),
    Fault(
        "unrolled sum: the scale of narrow rows dropped",
        f"{P}block.unroll_sums:_narrow",
        Text("insert.cast(value, element_type_of(rows))", "rows"),
    ),
    Fault(
        "narrow weights: the bias of a widened product dropped",
        f"{P}algebra.read_narrow_weights:_read_both",
        Text("insert.add(value, bias)", "value"),
    ),
    Fault(
        "unrolled sum: the first row twice",
        f"{P}block.unroll_sums:_Slices._sliced",
        Text("self.number, self.number + 1", "0, 1"),
    ),
    Fault(
        "quantized linear: the scales of x are dropped",
        f"{P}block.expand_quantized_linear:_Quantizer.by_rows",
        Text("(scales[0], columns)", "(columns,)"),
    ),
    Fault(
        "quantized linear: the weight is divided by the scales of the first rows",
        f"{P}block.expand_quantized_linear:_Quantizer.by_blocks",
        Text("(n // columns, 1, k // depth)", "(1, n // columns, k // depth)"),
    ),
    Fault(
        "reduced columns: functions of one element are dropped",
        f"{P}fusion.reduce_columns:_Columns.contribution",
        Text("in self.functions", "in self.functions[:0]"),
    ),
    Fault(
        "narrow weights: scale dropped",
        f"{P}algebra.read_narrow_weights:_rewrite",
        Nth("keep", "mul", 1),
    ),
    Fault(
        "narrow weights: bias dropped",
        f"{P}algebra.read_narrow_weights:_rewrite",
        Text("if bias is not None", "if False"),
    ),
    Fault(
        "narrow weights: the scales of the first rows for every part",
        f"{P}algebra.read_narrow_weights:_part_of",
        Text("*part.range", "0, 0, part.range[2] - part.range[1]"),
    ),
    Fault(
        "narrow weights: a scale along K moves",
        f"{P}algebra.read_narrow_weights:_check",
        Text("if not _is_per_column(op, found)", "if False"),
    ),
    Fault(
        "rms norm: bias dropped",
        f"{P}algebra.defer_norms:_corrected_product",
        Text("value if bias is None", "value if True"),
    ),
    Fault(
        "norm: weight dropped from the deferred input",
        f"{P}support.norms:scaled_input",
        Nth("always", "Is"),
    ),
    Fault(
        "norm: eps scaled",
        f"{P}support.norms:norm_stats",
        Text("norm.eps.value.data", "norm.eps.value.data * 2"),
    ),
    Fault(
        "norm: eps dropped from the statistics",
        f"{P}fusion.split_reductions:_norm_stats",
        Nth("keep", "add", 1),
    ),
    Fault(
        "norm: mean not subtracted where the norm is split",
        f"{P}support.norms:apply_statistics",
        Nth("never", "Gt"),
    ),
    Fault(
        "norm: weight added instead of multiplied where the norm is split",
        f"{P}support.norms:apply_statistics",
        Nth("operator", "Attribute", 2),
    ),
    Fault(
        "layer norm: mean not subtracted",
        f"{P}algebra.defer_norms:_corrected_product",
        Text("insert.sub(value, insert.mul(shift, sums))", "value"),
    ),
    Fault(
        "layer norm: mean not scaled by rstd",
        f"{P}algebra.defer_norms:_defer",
        Text("before.mul(rstd, mean, 'shift')", "mean"),
    ),
    Fault(
        "layer norm: column sums of the weight in place of its bias",
        f"{P}support.norm_products:products",
        Text("_product(insert, norm, shift, weight, layout)", "sums"),
    ),
    Fault(
        "layer norm: column sums along the wrong dimension",
        f"{P}algebra.defer_norms:_corrected_product",
        Nth("keep", "IfExp", 1),
    ),
    Fault(
        "rms norm: one accumulator of a pair not scaled",
        f"{P}algebra.defer_norms:_corrected",
        Text(
            "for accumulator in segment.accumulators]",
            "for accumulator in segment.accumulators[:1]] + list(segment.accumulators[1:])",
        ),
    ),
    Fault(
        "layer norm: correction of accumulators added",
        f"{P}algebra.defer_norms:_corrected",
        Text("builder.sub", "builder.add"),
    ),
    Fault(
        "layer norm: correction of accumulators without the bias",
        f"{P}algebra.defer_norms:_corrected",
        Text("if constants:", "if False:"),
    ),
    Fault(
        "layer norm: halves of pairs exchanged in the correction",
        f"{P}algebra.defer_norms:_port_of_vectors",
        Text("for half in vectors]", "for half in vectors[::-1]]"),
    ),
    Fault(
        "modulated norm: products of scale and shift exchanged",
        f"{P}support.norm_products:_of_both",
        Text("return (first, second)", "return (second, first)"),
    ),
    Fault(
        "modulated norm: its own bias is not scaled",
        f"{P}algebra.absorb_modulation:_absorb",
        Text("None if bias is None else _wide(insert, coda.MulOp, bias, vector)", "bias"),
    ),
    Fault(
        "modulated norm: a shift taken for a scale",
        f"{P}algebra.absorb_modulation:_modulated",
        Nth("drop", "And", 1),
    ),
    Fault(
        "sums of samples: all rows are those of one",
        f"{P}fusion.split_reductions:_rewrite",
        Text("if reduction.samples else new", "if False else new"),
    ),
    Fault(
        "a sum over the rows of a transposed matrix is one over those of the matrix",
        f"{P}fusion.split_reductions:_in_any_order",
        Text(" and view.keeps_columns", ""),
    ),
    Fault(
        "layer norm: variance without the square of the mean",
        f"{P}fusion.split_reductions:_norm_stats",
        Nth("keep", "sub", 1),
    ),
    Fault(
        "statistics divided by another N",
        f"{P}fusion.split_reductions:_norm_stats",
        Text(
            "return [rstd(builder, builder.divide_by(total[0], count))]",
            "return [rstd(builder, builder.divide_by(total[0], count + 1))]",
        ),
    ),
    Fault(
        "statistics of the value instead of its square",
        f"{P}fusion.split_reductions:_square",
        Nth("keep", "mul", 1),
    ),
    Fault("mean is a sum", f"{P}fusion.split_reductions:_take_apart", Nth("keep", "IfExp", 1)),
    Fault(
        "maximum is a sum",
        f"{P}fusion.split_reductions:_take_apart",
        Text("'max': gemm.Combiner.MAX", "'max': gemm.Combiner.ADD"),
    ),
    Fault(
        "partials of the first column of a pair only",
        f"{P}fusion.split_reductions:add_partials",
        Nth("keep", "IfExp"),
    ),
    Fault("bias dropped", f"{P}fusion.convert_linear_to_gemm:_convert", Nth("never", "IsNot")),
    Fault(
        "weight of a matmul read as N x K",
        f"{P}fusion.convert_linear_to_gemm:_convert",
        Text("gemm.Layout.NK if is_by_column else gemm.Layout.KN", "gemm.Layout.NK"),
    ),
    Fault(
        "row scale folded into the wrong dimension of the weight",
        f"{P}algebra.place_column_scale:_fold",
        Nth("swap", "IfExp"),
    ),
    Fault(
        "folded weight used beside the scaled input",
        f"{P}algebra.place_column_scale:_fold",
        Text(
            "coda.LinearOp(x, weight, bias_of(gemm)",
            "coda.LinearOp(op.result, weight, bias_of(gemm)",
        ),
    ),
    Fault(
        "bias of a folded GEMM dropped",
        f"{P}algebra.place_column_scale:_fold",
        Text("coda.LinearOp(x, weight, bias_of(gemm)", "coda.LinearOp(x, weight, None"),
    ),
    Fault(
        "packed projection: every part gets the first columns",
        f"{P}block.split_packed_linear:_split",
        Text("columns.of(op.weight,", "columns._replace(first=0).of(op.weight,"),
    ),
    Fault(
        "packed projection: bias of the first columns",
        f"{P}block.split_packed_linear:_split",
        Text("columns.of(op.bias,", "columns._replace(first=0).of(op.bias,"),
    ),
    Fault(
        "concatenation: every part takes the first columns of a weight",
        f"{P}block.split_concatenation:_Split._operands_of",
        Text(
            "coda.SliceOp(sink.weight, inner, start, stop)",
            "coda.SliceOp(sink.weight, inner, 0, stop - start)",
        ),
    ),
    Fault(
        "concatenation: sums of the first part alone",
        f"{P}block.split_concatenation:_Split._together",
        Text("total = reduce(insert.add, values)", "total = values[0]"),
    ),
    Fault(
        "maximum: rows of another dimension",
        f"{P}block.drop_places:_reduce",
        Text("if axis != dim), dim]", "if axis != 0), 0]"),
    ),
    Fault("gate and up swapped", f"{P}fusion.pair_glu:_fuse_glu", Nth("swap", "Tuple")),
    Fault(
        "activation of the gate dropped",
        "coda_ir.dialects.gemm.scalars:ScalarBuilder.gated",
        Text("self.result(self.activation(name, gate), type)", "gate"),
    ),
    Fault(
        "packed gate and up taken for adjacent columns",
        f"{P}fusion.pair_glu:_pair_packed",
        Text(
            "pair_columns(site.op, site.segment, pairing, rewriter.order)",
            "pair_columns(site.op, site.segment, PairingAttr.adjacent_columns(), rewriter.order)",
        ),
    ),
    Fault(
        "siblings joined in the wrong order",
        f"{P}fusion.pairing:join_siblings",
        Nth("swap", "List", 1),
    ),
    Fault(
        "both halves of a joined pair read the first accumulator",
        f"{P}fusion.pairing:join_siblings",
        Text(
            "_append_half(joined, part, block.args[lane])",
            "_append_half(joined, part, block.args[0])",
        ),
    ),
    Fault(
        "second column of a pair gets the ports of the first",
        f"{P}fusion.pairing:to_pair_mode",
        Text("(args[0], args[-1])", "(args[0], args[0])"),
    ),
    Fault(
        "group reduced over one column of a pair",
        f"{P}fusion.pairing:_clone_for_pair",
        Text(
            "both = builder.combine(op.combiner.data, *lanes[op.value])",
            "both = lanes[op.value][0]",
        ),
    ),
    Fault(
        "row statistics of one column of a pair",
        f"{P}fusion.pairing:_pair_result",
        Text(
            "[gemm.ScalarBuilder(segment.block).combine(port.combiner.data, *lanes)]", "[lanes[0]]"
        ),
    ),
    Fault(
        "rope: sign of the sine flipped",
        "coda_ir.dialects.gemm.scalars:ScalarBuilder.rotate",
        Text(
            "first, second = (self.add, self.sub) if transposed",
            "first, second = (self.add, self.sub) if not transposed",
        ),
    ),
    Fault(
        "rope: both columns of a pair take one cosine",
        "coda_ir.dialects.gemm.scalars:ScalarBuilder.rotate",
        Text("cos[-1]", "cos[0]"),
    ),
    Fault(
        "rope: the adjoint takes the sines of its own columns",
        "coda_ir.dialects.gemm.scalars:ScalarBuilder.rotate",
        Text("(sin[-1], sin[0]) if transposed", "(sin[0], sin[-1]) if transposed"),
    ),
    Fault(
        "rope: tables of columns are read as those of pairs",
        "coda_ir.dialects.gemm.rotary:table_kind",
        Text("if op.is_per_column", "if False"),
    ),
    Fault(
        "rope: cosine and sine swapped",
        f"{P}fusion.pair_rope:rotate_lanes",
        Nth("swap", "rotate", 2),
    ),
    Fault(
        "rope: columns of a pair swapped",
        f"{P}fusion.pair_rope:rotate_lanes",
        Nth("swap", "Tuple", 2),
    ),
    Fault(
        "rope: interleaved pairs taken for half-split ones",
        "coda_ir.dialects.gemm.rotary:pairing_of",
        Nth("never", "Eq"),
    ),
    Fault(
        "rope: pairs of the whole row instead of a head",
        "coda_ir.dialects.gemm.rotary:pairing_of",
        Text("PairingAttr.halves(op.head_dim.value.data)", "PairingAttr.halves()"),
    ),
    Fault("head norm: eps dropped", f"{P}fusion.fuse_qk_norm:_normalize", Nth("keep", "add", 1)),
    Fault(
        "head norm: groups of another size",
        f"{P}fusion.fuse_qk_norm:_normalize",
        Text(
            "GroupReduceOp(square, Combiner.ADD, op.group_size)",
            "GroupReduceOp(square, Combiner.ADD, op.group_size // 2)",
        ),
    ),
    Fault(
        "softmax: divided by the largest power",
        f"{P}fusion.fuse_groups:_Fusion._softmax",
        Text("Combiner.ADD", "Combiner.MAX"),
    ),
    Fault(
        "groups: a variance of elements instead of their differences from the mean",
        f"{P}fusion.fuse_groups:_Fusion._reduced",
        Text("builder.sub(v, center[0])", "v"),
    ),
    Fault(
        "groups: a group of pairs has half of its columns",
        f"{P}support.groups:GroupCode.columns_of_group",
        Text("2 * self.group", "self.group"),
    ),
    Fault(
        "head norm: weight dropped",
        f"{P}fusion.fuse_qk_norm:_rewrite",
        Nth("drop", "scaled", 1),
    ),
    Fault(
        "loss: ignored rows count",
        f"{P}fusion.fuse_cross_entropy:_per_row_loss",
        Text("builder.insert(arith.SelectOp(ignored, zero, loss))", "loss"),
    ),
    Fault(
        "loss: mean over all rows",
        f"{P}fusion.fuse_cross_entropy:_per_row_loss",
        Text("builder.insert(arith.SelectOp(ignored, zero, one))", "one"),
    ),
    Fault(
        "loss: sign of the target's logit",
        f"{P}fusion.fuse_cross_entropy:_per_row_loss",
        Nth("operator", "Attribute", 1),
    ),
    Fault(
        "loss: maximum in place of logsumexp",
        f"{P}fusion.fuse_cross_entropy:_add_results",
        Text("partial_row(gemm.Combiner.LSE)", "partial_row(gemm.Combiner.MAX)"),
    ),
    Fault(
        "pointwise: operands of every operator swapped",
        f"{P}support.editing:EpilogueEditor.lanes",
        Text(
            "[values[lane] for values in operands]", "[values[lane] for values in operands][::-1]"
        ),
    ),
    Fault(
        "pointwise: residual added twice",
        "coda_ir.dialects.gemm.scalars:ScalarBuilder.add",
        Text(
            "return self.insert(arith.AddfOp(a, b))",
            "return self.insert(arith.AddfOp(self.insert(arith.AddfOp(a, b)), b))",
        ),
    ),
    Fault(
        "pointwise: a row that repeats along the columns is read once",
        f"{P}support.editing:EpilogueEditor._repeats",
        Nth("never", "And"),
    ),
    Fault(
        "pointwise: row code that was recomputed is shared between sizes",
        f"{P}support.editing:EpilogueEditor.lanes_of",
        Text("return part.yielded(self._origins[segment].index(value))", "return part.yielded(0)"),
    ),
    Fault(
        "a column taken for a row",
        "coda_ir.dialects.gemm.tables:port_kind",
        Text(
            "if all(full[:-1]) and len(shape) == len(domain):\n        return PortKind.COL",
            "if all(full[:-1]) and len(shape) == len(domain):\n        return PortKind.SCALAR",
        ),
    ),
    Fault(
        "activation: tanh approximation for the exact gelu",
        "coda_ir.dialects.gemm.scalars:ScalarBuilder.gelu",
        Text("self.mul(a, self.normal_cdf(a))", "self.gelu_tanh(a)"),
    ),
    Fault(
        "softcap: cap dropped",
        "coda_ir.dialects.gemm.scalar_code:_emit_formula",
        Text("builder.constant(x)", "builder.constant(1.0)"),
    ),
    Fault(
        "siblings merged: results in the wrong order",
        f"{P}fusion.merge_sibling_gemms:_merge",
        Text(
            "order.join(first, second, outputs, merged)",
            "order.join(first, second, outputs[::-1], merged)",
        ),
    ),
    Fault(
        "finalize: operands of fused row code swapped",
        f"{P}fusion.fuse_finalize:_fuse",
        Text("[element(v) for v in op.operands]", "[element(v) for v in reversed(op.operands)]"),
    ),
    Fault(
        "finalize: constants of row code lost",
        f"{P}fusion.fuse_finalize:_fuse",
        Text(
            "builder.number(inner.number, element_type_of(value))",
            "builder.number(1, element_type_of(value))",
        ),
    ),
    Fault(
        "unused results: the others move up",
        f"{P}support.editing:EpilogueEditor.remove_result",
        Text(
            "self.segments[segment].remove_result(index)", "self.segments[segment].remove_result(0)"
        ),
    ),
    Fault(
        "schedule: a tile that cuts a group",
        "coda_ir.dialects.gemm.tiling:_check_groups",
        Nth("never", "Or"),
    ),
    Fault(
        "scales: the sign of what is subtracted from a subtrahend is lost",
        f"{P}support.scaled_products:terms_of",
        Text(
            "pending.append(Term(op.rhs, term.is_negative != is_minus))",
            "pending.append(Term(op.rhs, is_minus))",
        ),
    ),
    Fault(
        "scales: the first term of a subtrahend is added",
        f"{P}support.scaled_products:terms_of",
        Text("pending.append(Term(op.lhs, term.is_negative))", "pending.append(Term(op.lhs))"),
    ),
    Fault(
        "scales: a product that is subtracted is added",
        f"{P}support.scaled_products:product_of",
        Nth("drop", "Or"),
    ),
    Fault(
        "scales: other terms are added whatever their sign is",
        f"{P}algebra.align_scales:_rewrite",
        Nth("keep", "IfExp", 1),
    ),
)

"""Pass `split-reductions`: split reductions of a tile into partials and a finalize."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType, f32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from coda_ir.dialects import coda, gemm
from coda_ir.dialects.coda.shapes import (
    AnyTensor,
    element_type_of,
    format_shape,
    shape_of,
    tensor_type,
)
from coda_ir.dialects.gemm.scalar_code import computes_in_float32
from coda_ir.passes.fusion.joining import site_that_loads
from coda_ir.passes.support.editing import EpilogueEditor, Site, insert_map
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, Refusal
from coda_ir.passes.support.legality import check_cancellation, name_of, static_columns

Contributions = list[tuple[gemm.Combiner, Callable[[gemm.ScalarBuilder, SSAValue], SSAValue]]]
"""Per partial: how the tile's columns combine, and the element that each of them contributes."""

Closing = Callable[[gemm.ScalarBuilder, Sequence[SSAValue]], list[SSAValue]]
"""From the combined partials of a row (of a column) to the results of the reduction."""


MANY_ROWS = 128
"""The rows of a sample for whose sums alone a kernel loads a tensor: not much less than a tile."""

MAX_SAMPLES = 64
"""Samples whose row sums a finalize adds up, one after the other for each result."""

Splittable: TypeAlias = coda.NormStatsOp | coda.ReduceOp | coda.SumToOp


@dataclass(frozen=True)
class Reduction:
    """A reduction: the contribution of each element, and a final operation per row or column."""

    contributions: Contributions
    close: Closing
    axis: str = "row"
    samples: int = 0
    """The number of dimensions of samples, whose rows are added up one by one."""


class SplitReductionsPass(FunctionPass):
    """Splits a sum over N columns, or over all rows, into the sums of the tiles.

        %x = gemm.fused ... { yield v }           %x, %p = gemm.fused ... { yield v, v² }
        %r = coda.norm_stats %x            ->     %r = gemm.finalize row (add %p) {
                                                    yield rsqrt(sum/N + eps)
                                                  }
        %db = coda.sum_to %x               ->     %db = gemm.finalize col (add %p) { yield sum }

    A sum over all elements, such as the gradient of a scale, is a sum over the sums of the rows. A
    sum over the rows of each sample, such as the gradient of the sample's scale, has partials per
    sample (B x tiles x N): a tile computes one for each sample whose rows it contains. Partials are
    float32. They are computed from the unrounded elements, and combined in a fixed order without
    atomics, so two runs agree bit by bit.
    Legal iff the operand is the tile of a kernel of the same function, or a tensor that a kernel
    loads which does not need the sum, with a static number of columns. The statistics of a
    LayerNorm need a type in which rounding costs more accuracy than E[x²] − mean² does.

    A sum over all rows of another tensor, such as an argument or a gradient of attention, or over
    at least 128 rows of each sample, gets a kernel that loads it; `fuse-attention` moves this
    kernel into the epilogue of that gradient. If the tensor is a transpose that keeps columns, the
    kernel loads the operand of the transpose.

    A sum of row sums that keeps a dimension, such as the gradient of a scale of each head, is a
    finalize over the rows of each head, and one over the samples. PyTorch takes 17 us for 2 x 8 x
    1024 of them on an H200.
    """

    last: bool = True
    """False if a later run makes kernels for what no kernel loads, and reports what is refused."""

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops:
            if isinstance(op, coda.NormStatsOp | coda.ReduceOp | coda.SumToOp):
                if self.last and isinstance(op, coda.SumToOp):
                    if _is_of_row_sums(op):
                        _finalize_row_sums(op, rewriter)
                        continue
                    op = _in_any_order(op, rewriter)
                site = Site.of(op.x) or site_that_loads(op.x, op, rewriter.order)
                if site is None and self.last and _has_own_kernel(op):
                    site = insert_map(rewriter.order, op, op.location, [op.x])
                if site is not None:
                    self._split(op, site, rewriter)

    def _split(self, op: Splittable, site: Site, rewriter: FunctionRewriter) -> None:
        if isinstance(op, coda.SumToOp) and _is_of_everything(op):
            op = _sum_over_rows(op, rewriter)
        is_sum = isinstance(op, coda.SumToOp)
        reduction = _column_sum(op, site) if is_sum else _take_apart(op)
        if not isinstance(reduction, Refusal):
            rewriter.passed(op, "split into tile partials")
            rewriter.order.sink(op, site.op)
            _rewrite(op, site, reduction, rewriter)
        elif self.last:
            rewriter.missed(op, reduction)


def _in_any_order(op: coda.SumToOp, rewriter: FunctionRewriter) -> coda.SumToOp:
    """Let a sum over all rows read the tensor of which its operand has the rows in another order,
    which a kernel may have on chip.
    """
    x = op.x
    while isinstance(view := x.owner, coda.TransposeOp) and view.keeps_columns:
        x = view.x
    if x is op.x or shape_of(op.result) != shape_of(x)[-1:]:
        return op
    total = coda.SumToOp(x, shape_of(op.result), element_type=element_type_of(op.result))
    rewriter.replace(op, rewriter.before(op).insert(total))
    return total


def _is_of_row_sums(op: coda.SumToOp) -> bool:
    """Return whether `op` adds up a column in float32, and keeps dimensions side by side."""
    (*rows, column), kept = shape_of(op.x) or (0,), op.kept_dims
    is_float32 = element_type_of(op.x) == f32 and computes_in_float32(element_type_of(op.result))
    is_static = column == 1 and DYNAMIC_INDEX not in rows
    if not (is_float32 and is_static and kept) or kept != [*range(kept[0], kept[-1] + 1)]:
        return False
    return prod(rows[: kept[0]]) <= MAX_SAMPLES


def _finalize_row_sums(op: coda.SumToOp, rewriter: FunctionRewriter) -> None:
    """Add up the rows after the dimensions that stay, and then the samples before them."""
    extents, kept, insert = shape_of(op.x), op.kept_dims, rewriter.before(op)
    stop, value, type = kept[-1] + 1, op.x, element_type_of(op.result)
    of_samples = extents[kept[0] : stop] if prod(extents[: kept[0]]) > 1 else ()

    def finalized(
        axis: str, partials: Sequence[int], shape: Sequence[int], type: Attribute
    ) -> SSAValue:
        partial = [(gemm.Combiner.ADD, insert.reshape(value, partials))]
        types, mode = [TensorType(type, shape)], gemm.numerics_mode(op)
        return insert.insert(make_finalize(partial, types, rounded(type), mode, axis))

    rewriter.passed(op, "added up by finalizes")
    if prod(extents[stop:]) > 1:
        by_row = (*extents[:stop], DYNAMIC_INDEX)
        value = finalized("row", by_row, extents[:stop], f32 if of_samples else type)
    if of_samples:
        count = prod(of_samples)
        value = finalized("col", (DYNAMIC_INDEX, count), (count,), type)
    rewriter.replace(op, insert.cast(insert.reshape(value, shape_of(op.result)), type))


def _has_own_kernel(op: Splittable) -> bool:
    """Return whether `op` is a sum over all rows, or over the many rows of each sample, for which a
    kernel loads its operand. PyTorch takes 20 us for 8192 x 1024 in bf16 on an H100, which a kernel
    reads in 6, and 17 on an H200 for 8 samples of 512 x 768.
    """
    if not isinstance(op, coda.SumToOp) or _is_of_everything(op):
        return False
    samples = _sample_dims(op)
    if isinstance(static_columns(op.x), Refusal) or not computes_in_float32(element_type_of(op.x)):
        return False
    if samples is None or gemm.numerics_mode(op) == gemm.NumericsMode.DETERMINISTIC:
        return samples == 0
    source = op.x
    while isinstance(view := source.owner, coda.ReshapeOp):
        source = view.x
    is_view = isinstance(source.owner, coda.TransposeOp | coda.BroadcastOp)
    rows = shape_of(op.x)[samples:-1]
    return samples == 0 or (not is_view and min(rows) > 0 and prod(rows) >= MANY_ROWS)


def _square(builder: gemm.ScalarBuilder, value: SSAValue) -> SSAValue:
    return builder.mul(value, value)


def _itself(_: gemm.ScalarBuilder, value: SSAValue) -> SSAValue:
    return value


def _take_apart(op: coda.NormStatsOp | coda.ReduceOp) -> Reduction | Refusal:
    if not shape_of(op.x)[-1]:
        found = f"the reduction runs as a separate kernel: {name_of(op.x)} has no columns"
        return Refusal("no operand is empty", found)
    if isinstance(op, coda.NormStatsOp) and op.kind.data == "layer":
        refusal = check_cancellation(op)
        if refusal is not None:
            return refusal
    columns = static_columns(op.x)
    if isinstance(columns, Refusal):
        return columns
    kind = op.kind.data
    if isinstance(op, coda.NormStatsOp):
        return _norm_stats(kind, op.eps.value.data, columns)
    combiner = {"max": gemm.Combiner.MAX, "lse": gemm.Combiner.LSE}.get(kind, gemm.Combiner.ADD)
    type = element_type_of(op.result)

    def close(builder: gemm.ScalarBuilder, total: Sequence[SSAValue]) -> list[SSAValue]:
        value = builder.divide_by(total[0], columns) if kind == "mean" else total[0]
        return [builder.result(value, type)]

    return Reduction([(combiner, _itself)], close)


IN_GROUPS = Refusal(
    "the rows of the GEMM are not in groups",
    "the sum runs as a separate kernel: the rows of the GEMM are in groups",
)


def _column_sum(op: coda.SumToOp, site: Site) -> Reduction | Refusal:
    """Split a column sum over all rows, such as the gradient of a bias or of a norm weight."""
    if site.is_half:
        return Refusal(
            "each column is a column of the tile",
            f"the sum runs as a separate kernel: {name_of(op.x)} has one value per pair",
        )
    if isinstance(site.op, gemm.FusedOp) and site.op.groups is not None:
        return IN_GROUPS
    samples = _sample_dims(op)
    if samples is None:
        shape = format_shape(shape_of(op.result))
        return Refusal(
            "the sum is over all rows, or over the rows of each sample",
            f"the sum runs as a separate kernel: its shape is {shape}",
        )
    if samples and gemm.numerics_mode(op) == gemm.NumericsMode.DETERMINISTIC:
        return Refusal(
            "the order in which a sum adds rows does not depend on the tiles",
            "the sum runs as a separate kernel: the rows of a sample may begin within a tile, "
            "and the mode is deterministic",
        )
    columns = static_columns(op.x)
    if isinstance(columns, Refusal):
        return columns
    return Reduction(
        [(gemm.Combiner.ADD, _itself)], rounded(element_type_of(op.result)), "col", samples
    )


def rounded(type: Attribute) -> Closing:
    """Return the final operation of a reduction whose only partial is the result, in `type`."""
    return lambda builder, total: [builder.result(total[0], type)]


def _sample_dims(op: coda.SumToOp) -> int | None:
    """Return the number of sample dimensions if a sum is over the rows of each sample, 0 for a sum
    over all rows, and None for another sum.
    """
    rows, n = shape_of(op.x)[:-1], shape_of(op.x)[-1]
    shape = shape_of(op.result)
    if shape == (n,):
        return 0
    for samples in range(1, len(rows)):
        kept = rows[:samples]
        if shape == (*kept, *[1] * (len(rows) - samples), n) and kept.count(DYNAMIC_INDEX) < 2:
            return samples
    return None


def _is_of_everything(op: coda.SumToOp) -> bool:
    return shape_of(op.result) in ((), (1,)) and len(shape_of(op.x)) > 1


def _sum_over_rows(op: coda.SumToOp, rewriter: FunctionRewriter) -> coda.ReduceOp:
    """Replace a sum over everything by row sums, which are returned, and a sum of these."""
    by_row = coda.ReduceOp(op.x, "sum", f32)
    flat = coda.ReshapeOp(by_row.result, (DYNAMIC_INDEX,))
    type = tensor_type(op.result)
    close, mode = rounded(type.element_type), gemm.numerics_mode(op)
    total = make_finalize([(gemm.Combiner.ADD, flat.result)], [type], close, mode)
    insert = rewriter.before(op)
    insert.insert(by_row)
    insert.insert(flat)
    rewriter.replace(op, insert.insert(total))
    return by_row


def _norm_stats(kind: str, eps: float, count: int) -> Reduction:
    def rstd(builder: gemm.ScalarBuilder, variance: SSAValue) -> SSAValue:
        return builder.rsqrt(builder.add(variance, builder.constant(eps)))

    def close_rms(builder: gemm.ScalarBuilder, total: Sequence[SSAValue]) -> list[SSAValue]:
        return [rstd(builder, builder.divide_by(total[0], count))]

    def close_layer(builder: gemm.ScalarBuilder, total: Sequence[SSAValue]) -> list[SSAValue]:
        mean = builder.divide_by(total[0], count)
        spread = builder.sub(builder.divide_by(total[1], count), builder.mul(mean, mean))
        variance = builder.maximum(spread, builder.constant(0.0))
        return [rstd(builder, variance), mean]

    if kind == "rms":
        return Reduction([(gemm.Combiner.ADD, _square)], close_rms)
    return Reduction([(gemm.Combiner.ADD, _itself), (gemm.Combiner.ADD, _square)], close_layer)


def _rewrite(op: Operation, site: Site, reduction: Reduction, rewriter: FunctionRewriter) -> None:
    partials = add_partials(op, op.operands[0], site, reduction, rewriter)
    types = [_finalized_type(result, reduction) for result in op.results]
    mode = gemm.numerics_mode(op)
    finalize = make_finalize(partials, types, reduction.close, mode, reduction.axis)
    insert = rewriter.before(op)
    insert.insert(finalize)
    for old, new in zip(op.results, finalize.outputs, strict=True):
        new.name_hint = old.name_hint
        # Rows of samples have dimensions of extent 1 in the place of those that were added up.
        whole = insert.reshape(new, shape_of(old)) if reduction.samples else new
        old.replace_all_uses_with(whole)
    rewriter.order.erase(op)


def _finalized_type(result: SSAValue, reduction: Reduction) -> AnyTensor:
    """Return the type of a result; for sums of samples, without the summed dimensions."""
    type = tensor_type(result)
    if not reduction.samples:
        return type
    kept = (*type.get_shape()[: reduction.samples], *type.get_shape()[-1:])
    return TensorType(type.element_type, kept)


def add_partials(
    op: Operation, value: SSAValue, site: Site, reduction: Reduction, rewriter: FunctionRewriter
) -> list[tuple[gemm.Combiner, SSAValue]]:
    """Make the epilogue at `site` yield contributions of `value` to `op`; return the partials."""
    contributions, shape = reduction.contributions, shape_of(value)
    editor = EpilogueEditor(site.op, rewriter.order)
    lanes = editor.lanes_of(value, site.segment, shape_of(value), half=site.is_half)
    indices: list[int] = []
    for combiner, contribution in contributions:
        builder = editor.builder(site.segment, op.location)
        values = [contribution(builder, lane) for lane in lanes]
        port = gemm.ResultPortAttr.partial_col(combiner)
        type = TensorType(f32, (*shape[: reduction.samples], DYNAMIC_INDEX, shape[-1]))
        if reduction.axis == "row":
            values = [values[0] if len(values) == 1 else builder.combine(combiner, *values)]
            port = gemm.ResultPortAttr.partial_row(combiner)
            type = gemm.partial_type(shape[:-1])
        indices.append(editor.add_result(site.segment, port, type, values))
    outputs = editor.commit_and_locate(site.segment, indices)
    for output in outputs:
        output.name_hint = "partial"
    return [(kind, output) for (kind, _), output in zip(contributions, outputs, strict=True)]


def make_finalize(
    partials: Sequence[tuple[gemm.Combiner, SSAValue]],
    types: Sequence[AnyTensor],
    close: Closing,
    mode: gemm.NumericsMode = gemm.NumericsMode.FP32_EPILOGUE,
    axis: str = "row",
) -> gemm.FinalizeOp:
    """Make a finalize of `partials` without ports, whose region `close` writes."""
    block = Block(arg_types=gemm.partial_arguments(value for _, value in partials))
    builder = gemm.ScalarBuilder(block, mode=mode)
    values = close(builder, block.args)
    block.add_op(gemm.YieldOp(*values))
    return gemm.FinalizeOp(partials, [], types, Region(block), axis=axis)

"""How each operator of a function runs: a generated kernel, or a call of PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.dialects.func import ReturnOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from coda_ir.backends.triton.elementwise import lower_elementwise, lower_glu, lower_rope
from coda_ir.backends.triton.finalize_kernel import emit_finalize
from coda_ir.backends.triton.gemm_kernel import emit_gemm
from coda_ir.backends.triton.gradient_operators import (
    GRADIENT_WRITERS,
    attention_arguments,
    attention_of_heads,
    repeatable,
)
from coda_ir.backends.triton.host.launches import launch_lines
from coda_ir.backends.triton.host.program import HostProgram
from coda_ir.backends.triton.kernel import EmittedKernel, NameAllocator
from coda_ir.backends.triton.library_gemm import write_library
from coda_ir.backends.triton.map_kernel import LoweredMap, emit_map, lower_map, map_tiling
from coda_ir.backends.triton.row_kernels import (
    cross_entropy_kernel,
    layer_norm_kernel,
    loss_reduction_kernel,
    norm_stats_kernel,
    pack_weight_kernel,
    reduce_kernel,
    rms_norm_kernel,
    softmax_kernel,
)
from coda_ir.backends.triton.row_pitches import row_pitches
from coda_ir.backends.triton.split_k import workspace
from coda_ir.diagnostics import CodaError
from coda_ir.dialects.coda import (
    AttentionOp,
    BarrierOp,
    CastOp,
    ConcatOp,
    ConstantOp,
    CrossEntropyOp,
    ElementwiseOp,
    EmbeddingOp,
    GluOp,
    LayerNormOp,
    NormStatsOp,
    ReduceOp,
    ReshapeOp,
    RMSNormOp,
    RopeOp,
    SliceOp,
    SoftmaxOp,
    TransposeOp,
)
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.dialects.gemm import (
    FinalizeOp,
    FusedOp,
    Layout,
    LibraryOp,
    MapOp,
    PackWeightOp,
    PortKind,
    ResultKind,
    ScaleWeightOp,
)
from coda_ir.dialects.torch import CallOp, in_place
from coda_ir.remarks import format_location
from coda_ir.storage import is_filled_in_place, overwritten
from coda_ir.symbolic_shapes import Dims, SymbolicSize

Writer: TypeAlias = Callable[[HostProgram, Operation], None]


def emit_operators(host: HostProgram) -> None:
    """Emit the operators of the function in order. Raises CodaError for what has no kernel."""
    for op in host.func.body.block.ops:
        if isinstance(op, ReturnOp):
            host.returned(op)
            return
        if all(not result.uses for result in op.results) or isinstance(op, ConstantOp):
            continue
        host.begin_operator(op)
        _writer(op)(host, op)
        host.end_operator(op)


def _writer(op: Operation) -> Writer:
    for base in type(op).__mro__:
        if base in _WRITERS:
            return _WRITERS[base]
    raise CodaError(
        f"{format_location(op.location)}: the triton backend cannot run {op.name}",
        "use the reference target, or passes that lower the operator",
    )


def _kernel(
    host: HostProgram, op: Operation, emit: Callable[[NameAllocator], EmittedKernel]
) -> EmittedKernel:
    """The kernel that `emit` makes, unless the module has the same one already."""
    return host.kernels.use(emit(host.names.scope()), op)


def _launch(
    host: HostProgram, op: Operation, kernel: EmittedKernel, rows: str, operands: Sequence[str]
) -> None:
    outputs: list[str] = []
    for result in op.results:
        operand = overwritten(result)
        if operand is None:
            outputs.append(host.allocate(result))
        else:
            outputs.append(operands[list(op.operands).index(operand)])
            host.overwrite(result, outputs[-1])
    outputs += workspace(host, kernel, rows)
    host.launch(kernel, rows, operands, outputs)


def _operands(host: HostProgram, op: Operation) -> list[str]:
    in_place = [overwritten(result) for result in op.results]
    return [
        host.owned(operand) if operand in in_place else host.operand(operand)
        for operand in op.operands
    ]


# Kernels of the GEMM level


def _fused(host: HostProgram, op: Operation) -> None:
    assert isinstance(op, FusedOp)
    kernel = _kernel(host, op, lambda names: emit_gemm(op, names))
    operands, rows = _operands(host, op), host.extents.size(host.dims(op.x)[:-1])
    assert op.schedule is not None
    block_m = op.schedule.block_m.data
    m = host.extents.size(op.row_shape) if op.is_transposed else rows
    for segment in op.segments():
        for result, output in zip(segment.results, segment.outputs, strict=True):
            if result.port.kind.data == ResultKind.PARTIAL_COL:
                host.extents.bind(host.dims(output)[0], f"triton.cdiv({m}, {block_m})")
    _launch(host, op, kernel, rows, operands)


def _map(host: HostProgram, op: Operation) -> None:
    assert isinstance(op, MapOp)
    lowered = lower_map(op)
    segment = lowered.segment
    domain = _map_domain(host, op)
    rows = host.extents.size(_rows_of(domain, segment.columns))
    tiling = map_tiling(segment)
    for result, output in zip(segment.results, segment.outputs, strict=True):
        if result.port.kind.data == ResultKind.PARTIAL_ROW:
            host.extents.bind(host.dims(output)[-1], str(tiling.columns.tiles))
        if result.port.kind.data == ResultKind.PARTIAL_COL:
            host.extents.bind(host.dims(output)[0], f"triton.cdiv({rows}, {tiling.rows})")
    _launch_map(host, op, lowered, domain)


def _map_domain(host: HostProgram, op: MapOp) -> Dims:
    segment = op.segment()
    for result, output in zip(segment.results, segment.outputs, strict=True):
        if result.port.kind.data == ResultKind.TILE:
            return host.dims(output)
    return next(host.dims(value) for kind, value in segment.ports if kind == PortKind.TILE)


def _rows_of(domain: Dims, columns: int) -> Dims:
    """The rows of a domain; all of it where it is taken as one column."""
    return domain[:-1] if domain and domain[-1] == columns else domain


def _launch_map(host: HostProgram, op: Operation, lowered: LoweredMap, domain: Dims) -> None:
    segment = lowered.segment
    pitches = row_pitches(host, segment)
    kernel = _kernel(
        host, op, lambda names: emit_map(op, segment, names, _block_level_name(op), pitches)
    )
    in_place = [overwritten(result) for result in op.results]
    operands = [
        host.owned(value)
        if value in in_place
        else _map_operand(host, value, lowered, domain, is_range=value in pitches)
        for value in op.operands
    ]
    _launch(host, op, kernel, host.extents.size(_rows_of(domain, segment.columns)), operands)


def _map_operand(
    host: HostProgram, value: SSAValue, lowered: LoweredMap, domain: Dims, *, is_range: bool
) -> str:
    """The tensor of an operand, with its strides where it `is_range`; "None" for a constant, which
    is in the kernel.
    """
    if is_range:
        return host.variable(value)
    if all(port.value is not value for port in lowered.segment.ports):
        return "None"
    if value in lowered.expanded:
        is_column = lowered.expanded[value] and len(host.dims(value)) < len(domain)
        return host.dense_expanded(value, domain, add_column=is_column)
    return host.operand(value)


def _block_level_name(op: Operation) -> str | None:
    return None if isinstance(op, MapOp) else op.name.removeprefix("coda.")


def _finalize(host: HostProgram, op: Operation) -> None:
    assert isinstance(op, FinalizeOp)
    axis = -1 if op.axis.data == "row" else 0
    extents = [host.dims(partial)[axis] for partial in op.partials]
    tiles = [extent if isinstance(extent, int) else None for extent in extents]
    partial = host.dims(op.partials[0])
    kept = partial[:-1] if op.axis.data == "row" else partial[1:]
    size = SymbolicSize.product(kept)
    elements = None if size.symbols else int(size)
    kernel = _kernel(host, op, lambda names: emit_finalize(op, names, tiles, elements))
    _launch(host, op, kernel, host.extents.size(kept), _operands(host, op))


def _pack_weight(host: HostProgram, op: Operation) -> None:
    assert isinstance(op, PackWeightOp)
    is_nk = op.layout.data == Layout.NK
    depth = shape_of(op.vector)[0]
    kernel = _kernel(
        host,
        op,
        lambda names: pack_weight_kernel(
            element_type_of(op.weight),
            element_type_of(op.vector),
            None if depth == DYNAMIC_INDEX else depth,
            is_nk=is_nk,
            name=names.fresh("pack_weight"),
        ),
    )
    operands = [host.variable(op.weight), host.variable(op.vector)]
    rows = host.extents.of(host.dims(op.result)[0])

    def compute(name: str) -> list[str]:
        return [host.empty(name, op.result), *launch_lines(kernel, rows, operands, [name])]

    host.pack(op, operands, compute, is_kept=_are_arguments(op))


def _scale_weight(host: HostProgram, op: Operation) -> None:
    assert isinstance(op, ScaleWeightOp)
    weight, vector = host.variable(op.weight), host.variable(op.vector)
    factor = vector if op.layout.data == Layout.NK else f"{vector}[:, None]"

    def compute(name: str) -> list[str]:
        return [f"{name} = scaled({weight}, {factor})"]

    host.pack(op, [weight, vector], compute, is_kept=_are_arguments(op))


def _are_arguments(op: Operation) -> bool:
    return all(isinstance(value, BlockArgument) for value in op.operands)


# Kernels of the block level


def _elementwise(host: HostProgram, op: Operation) -> None:
    assert isinstance(op, ElementwiseOp | CastOp)
    _launch_map(host, op, lower_elementwise(op, host.extents.shapes), host.dims(op.result))


def _glu(host: HostProgram, op: Operation) -> None:
    assert isinstance(op, GluOp)
    _launch_map(host, op, lower_glu(op), host.dims(op.x))


def _rope(host: HostProgram, op: Operation) -> None:
    assert isinstance(op, RopeOp)
    _launch_map(host, op, lower_rope(op), host.dims(op.x))


def _row_kernel(host: HostProgram, op: Operation, x: SSAValue, kernel: EmittedKernel) -> None:
    _launch(host, op, kernel, host.extents.size(host.dims(x)[:-1]), _operands(host, op))


def _rms_norm(host: HostProgram, op: Operation) -> None:
    assert isinstance(op, RMSNormOp)
    kernel = _kernel(host, op, lambda names: rms_norm_kernel(op, names.fresh("rms_norm")))
    operands = _operands(host, op)
    dims, group = host.dims(op.x), op.group_size
    rows = host.extents.size(dims[:-1])
    if op.group is not None:
        columns = dims[-1]
        rows = (
            host.extents.size((*dims[:-1], columns // group))
            if isinstance(columns, int)
            else f"({operands[0]}.numel() // {group})"
        )
    _launch(host, op, kernel, rows, operands)


def _layer_norm(host: HostProgram, op: Operation) -> None:
    assert isinstance(op, LayerNormOp)
    emit = _kernel(host, op, lambda names: layer_norm_kernel(op, names.fresh("layer_norm")))
    _row_kernel(host, op, op.x, emit)


def _norm_stats(host: HostProgram, op: Operation) -> None:
    assert isinstance(op, NormStatsOp)
    emit = _kernel(host, op, lambda names: norm_stats_kernel(op, names.fresh("norm_stats")))
    _row_kernel(host, op, op.x, emit)


def _softmax(host: HostProgram, op: Operation) -> None:
    assert isinstance(op, SoftmaxOp)
    emit = _kernel(host, op, lambda names: softmax_kernel(op, names.fresh("softmax")))
    _row_kernel(host, op, op.x, emit)


def _reduce(host: HostProgram, op: Operation) -> None:
    assert isinstance(op, ReduceOp)
    name = f"reduce_{op.kind.data}"
    kernel = _kernel(host, op, lambda names: reduce_kernel(op, names.fresh(name)))
    _row_kernel(host, op, op.x, kernel)


def _cross_entropy(host: HostProgram, op: Operation) -> None:
    assert isinstance(op, CrossEntropyOp)
    kernel = _kernel(host, op, lambda names: cross_entropy_kernel(op, names.fresh("cross_entropy")))
    operands, rows = _operands(host, op), host.extents.size(host.dims(op.target))
    if op.reduction.data == "none":
        _launch(host, op, kernel, rows, operands)
        return
    losses = host.temporary("row_losses", op.result, host.dims(op.target))
    host.launch(kernel, rows, operands, [losses])
    name = f"{op.reduction.data}_of_losses"
    reduction = _kernel(host, op, lambda names: loss_reduction_kernel(op, names.fresh(name)))
    _launch(host, op, reduction, rows, [losses, operands[1]])


# Calls of PyTorch


def _attention(host: HostProgram, op: Operation) -> None:
    assert isinstance(op, AttentionOp)
    arguments = attention_arguments(host, op)
    if op.lse is None:
        host.assign(op.result, f"attention({arguments})", is_dense=True, hint="attended")
        return
    call = f"attention_with_lse({arguments})"
    host.assign_all(op.results, call, hint="attended", is_dense=True)


def _embedding(host: HostProgram, op: Operation) -> None:
    assert isinstance(op, EmbeddingOp)
    ids, table = host.variable(op.ids), host.variable(op.table)
    call = f"torch.nn.functional.embedding({ids}, {table})"
    host.assign(op.result, call, is_dense=True, hint="embedded")


def _call_torch(host: HostProgram, op: Operation) -> None:
    assert isinstance(op, CallOp)
    operands = [host.variable(operand) for operand in op.inputs]
    template = op.template
    symbols = {symbol: host.extents.symbol(symbol, op) for symbol in sorted(template.symbols)}
    callee = op.callee.data if op.in_place is None else in_place(op.callee.data)
    callee = attention_of_heads(host, op) or f"torch.ops.{callee}"
    call = f"{callee}({template.render(operands, symbols)})"
    hint = op.callee.data.split(".")[1]
    with repeatable(host, op):
        if op.picks is not None:
            results = host.names.fresh(None, f"{hint}_results")
            host.lines.append(f"{results} = {call}")
            call = ", ".join(f"{results}[{position}]" for position in op.picks)
        if len(op.outputs) == 1:
            host.assign(op.outputs[0], call, is_dense=False, hint=hint)
        else:
            host.assign_all(op.outputs, call, hint=hint)
    for result in op.outputs:
        host.expect(result, f"{format_location(op.location)}: {op.callee.data}")


def _concat(host: HostProgram, op: Operation) -> None:
    assert isinstance(op, ConcatOp)
    if is_filled_in_place(op):
        return
    parts = ", ".join(map(host.variable, op.parts))
    call = f"torch.cat([{parts}], {op.dim.value.data})"
    host.assign(op.result, call, is_dense=False, hint="joined")


def _reshape(host: HostProgram, op: Operation) -> None:
    assert isinstance(op, ReshapeOp)
    dims = host.dims(op.result)
    unknown = [dim for dim in dims if host.extents.unbound(dim)]
    if len(unknown) > 1:
        raise CodaError(
            f"{format_location(op.location)}: coda.reshape: the extents "
            f"{', '.join(map(str, unknown))} cannot be told from the arguments",
            "use dimensions that an argument has",
        )
    extents = ["-1" if dim in unknown else host.extents.of(dim) for dim in dims]
    x = host.variable(op.x)
    call = f"{x}.reshape({', '.join(extents)})" if extents else f"{x}.reshape(())"
    host.assign(op.result, call, is_dense=host.is_dense(op.x), hint="reshaped")


def _barrier(host: HostProgram, op: Operation) -> None:
    """Nothing: statements run in order."""
    assert isinstance(op, BarrierOp)
    x = host.variable(op.x)
    host.assign(op.result, x, is_dense=host.is_dense(op.x), hint="x")


def _transpose(host: HostProgram, op: Operation) -> None:
    assert isinstance(op, TransposeOp)
    call = f"{host.variable(op.x)}.permute({', '.join(map(str, op.permutation))})"
    host.assign(op.result, call, is_dense=False, hint="transposed")


def _slice(host: HostProgram, op: Operation) -> None:
    assert isinstance(op, SliceOp)
    dim, start, stop = op.range
    call = f"{host.variable(op.x)}.narrow({dim}, {start}, {stop - start})"
    host.assign(op.result, call, is_dense=False, hint="part")


_WRITERS: Mapping[type, Writer] = {
    FusedOp: _fused,
    MapOp: _map,
    FinalizeOp: _finalize,
    LibraryOp: write_library,
    PackWeightOp: _pack_weight,
    ScaleWeightOp: _scale_weight,
    ElementwiseOp: _elementwise,
    CastOp: _elementwise,
    GluOp: _glu,
    RopeOp: _rope,
    RMSNormOp: _rms_norm,
    LayerNormOp: _layer_norm,
    NormStatsOp: _norm_stats,
    SoftmaxOp: _softmax,
    ReduceOp: _reduce,
    CrossEntropyOp: _cross_entropy,
    AttentionOp: _attention,
    EmbeddingOp: _embedding,
    CallOp: _call_torch,
    ConcatOp: _concat,
    ReshapeOp: _reshape,
    BarrierOp: _barrier,
    TransposeOp: _transpose,
    SliceOp: _slice,
    **GRADIENT_WRITERS,
}
"""How the operators of a type (or of a base class) are emitted."""

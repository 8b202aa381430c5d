"""Operators of the GEMM level: kernels, and vectors that are computed from weights."""

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import BlockArgument, SSAValue

from coda_ir.backends.triton.argument_list import Pitch
from coda_ir.backends.triton.attention_kernel import emit_attention_sums
from coda_ir.backends.triton.finalize_kernel import emit_finalize
from coda_ir.backends.triton.gemm_kernel import emit_gemm
from coda_ir.backends.triton.host.program import HostProgram
from coda_ir.backends.triton.host.text import torch_type
from coda_ir.backends.triton.kernel import ceiling
from coda_ir.backends.triton.map_kernel import lower_map, map_tiling
from coda_ir.backends.triton.operators.launching import (
    Writer,
    by_operand,
    kernel_of,
    launch,
    launch_map,
    operands_of,
    rows_of,
)
from coda_ir.backends.triton.operators.row_pitches import (
    gemm_pitches,
    head_pitches,
    moved_rows,
    row_pitches,
)
from coda_ir.backends.triton.row_kernels import pack_weight_kernel
from coda_ir.dialects import gemm
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.storage import has_transposed_rows
from coda_ir.symbolic_shapes import Dims, SymbolicSize


def _fused(host: HostProgram, op: gemm.FusedOp) -> None:
    pitches, moved = gemm_pitches(host, op), moved_rows(op)
    kernel = kernel_of(
        host,
        op,
        lambda names: emit_gemm(op, names, pitches, moved),
        None if moved else by_operand(op, pitches),
    )
    rows_of = op.groups if op.numbers_of_row > op.summed_rows else op.gather
    launched = host.dims(op.x)[:-1] if rows_of is None else host.dims(rows_of)
    operands, rows = operands_of(host, op, pitches, moved), host.extents.size(launched)
    assert op.schedule is not None
    block_m = op.schedule.block_m.data
    domain = op.row_shape if op.is_transposed else launched
    for segment in op.segments():
        _bind_row_tiles(host, segment, domain, block_m)
    launch(host, op, kernel, rows, operands)


def _map(host: HostProgram, op: gemm.MapOp) -> None:
    segment = lower_map(op)
    domain = host.dims(segment.domain_value)
    tiling = map_tiling(segment)
    for result, output in zip(segment.results, segment.outputs, strict=True):
        if result.port.kind.data == gemm.ResultKind.PARTIAL_ROW:
            host.extents.bind(host.dims(output)[-1], str(tiling.columns.tiles))
    _bind_row_tiles(host, segment, rows_of(domain, segment.columns), tiling.rows)
    launch_map(host, op, segment, domain)


def _bind_row_tiles(host: HostProgram, segment: gemm.Segment, rows: Dims, block_m: int) -> None:
    """Bind the number of partials of the columns, over all rows or over those of each sample."""
    for result, output in zip(segment.results, segment.outputs, strict=True):
        if result.port.kind.data != gemm.ResultKind.PARTIAL_COL:
            continue
        length = host.extents.size(rows[result.samples :])
        tiles = ceiling(length, block_m)
        if result.samples:
            # The rows of a sample may begin in the middle of a tile.
            is_cut = f"({length} % {block_m} > 0)"
            if length.isdecimal():
                is_cut = str(int(int(length) % block_m > 0))
            tiles = _calculated(tiles, " + ", is_cut)
        host.extents.bind(host.dims(output)[-2], tiles)


def _calculated(a: str, operator: str, b: str) -> str:
    """Return the sum or product of two extents: a number if both are."""
    if a.isdecimal() and b.isdecimal():
        return str(int(a) * int(b) if "*" in operator else int(a) + int(b))
    return f"{a}{operator}{b}"


def _attention_sums(host: HostProgram, op: gemm.AttentionSumOp) -> None:
    assert op.schedule is not None
    segment = op.segment()
    found = row_pitches(host, segment)
    pitches: dict[SSAValue, Pitch] = {
        value: pitch for value, pitch in found.items() if isinstance(pitch, int)
    }
    pitches |= head_pitches(host, op, [value for _, value in segment.ports])
    layout = (by_operand(op, pitches), *map(has_transposed_rows, op.outputs))
    kernel = kernel_of(host, op, lambda names: emit_attention_sums(op, names, pitches), layout)
    operands = operands_of(host, op, pitches)
    rows = host.dims(op.rows_of)[:-1]
    tiles = ceiling(host.extents.of(rows[-1]), op.schedule.block_m.data)
    if len(rows) == 2:
        tiles = _calculated(tiles, " * ", host.extents.of(rows[0]))
    for result, output in zip(segment.results, segment.outputs, strict=True):
        if result.port.kind.data == gemm.ResultKind.PARTIAL_COL:
            host.extents.bind(host.dims(output)[0], tiles)
    launch(host, op, kernel, host.extents.size(rows), operands)


def _finalize(host: HostProgram, op: gemm.FinalizeOp) -> None:
    axis = -1 if op.axis.data == "row" else -2
    tiles = [host.extents.number(host.dims(partial)[axis]) for partial in op.partials]
    partial = host.dims(op.partials[0])
    kept = gemm.kept_dims(partial, op.axis.data)
    size = SymbolicSize.product(kept)
    elements = None if size.symbols else int(size)
    _check_indices(host, op)
    kernel = kernel_of(
        host, op, lambda names: emit_finalize(op, names, tiles, elements), (tuple(tiles), elements)
    )
    launch(host, op, kernel, host.extents.size(kept), operands_of(host, op))


def _check_indices(host: HostProgram, op: gemm.FinalizeOp) -> None:
    block = op.body.block
    for inner in block.ops:
        if isinstance(inner, gemm.CheckedIndexOp) and isinstance(inner.index, BlockArgument):
            # Ports come last, both among the operands and among the arguments.
            index = op.operands[inner.index.index - len(block.args)]
            host.check_index(index, str(inner.extent.value.data), inner.ignored.value.data)


def _pack_weight(host: HostProgram, op: gemm.PackWeightOp) -> None:
    is_nk = op.layout.data == gemm.Layout.NK
    depth = shape_of(op.weight)[1 if is_nk else 0]
    kernel = kernel_of(
        host,
        op,
        lambda names: pack_weight_kernel(
            element_type_of(op.weight),
            None if op.vector is None else element_type_of(op.vector),
            None if depth == DYNAMIC_INDEX else depth,
            is_nk=is_nk,
            name=names.fresh("pack_weight"),
        ),
    )
    rows = host.extents.of(host.dims(op.result)[0])

    def compute(name: str, operands: Sequence[str]) -> list[str]:
        launch = host.kernels.statement(kernel, rows, operands, [name])
        return [host.empty(name, op.result), *launch]

    host.pack(op, compute)


def _scale_weight(host: HostProgram, op: gemm.ScaleWeightOp) -> None:
    column = "" if op.layout.data == gemm.Layout.NK else "[:, None]"

    def compute(name: str, operands: Sequence[str]) -> list[str]:
        weight, vector = operands
        return [f"{name} = scaled({weight}, {vector}{column})"]

    host.pack(op, compute)


def _library(host: HostProgram, op: gemm.LibraryOp) -> None:
    """Emit a call of `library_gemm`, whose result gets the dimensions of the rows."""
    if op.groups is not None:
        _write_grouped(host, op)
        return
    factors: list[str] = []
    for x, weight in zip(op.inputs, op.weights, strict=True):
        left = _matrix(host, x, transposed=op.is_transposed)
        right = _matrix(host, weight, transposed=op.layout.data == gemm.Layout.NK)
        if op.is_stored_transposed:
            left, right = _transpose(right), _transpose(left)
        factors += [left, right]
    product = f"library_gemm({torch_type(element_type_of(op.result))}, {', '.join(factors)})"
    dims = host.dims(op.result)
    is_matrix = len(dims) == 2
    call = product if is_matrix else f"torch.reshape({product}, {host.extents.shape(dims)})"
    host.assign(op.result, call, is_dense=True, hint="product")


def _write_grouped(host: HostProgram, op: gemm.LibraryOp) -> None:
    x, weight, ends = map(host.variable, op.operands)
    if op.is_transposed:
        x = f"{x}{_TRANSPOSED}"
    elif op.layout.data == gemm.Layout.NK:
        weight = f"{weight}.mT"
    type = torch_type(element_type_of(op.result))
    call = f"grouped_library_gemm({type}, {x}, {weight}, {ends})"
    host.assign(op.result, call, is_dense=True, hint="product")


_TRANSPOSED = ".t()"


def _matrix(host: HostProgram, value: SSAValue, *, transposed: bool) -> str:
    """Return a tensor with its leading dimensions flattened, or its transpose."""
    name, rank = host.variable(value), len(shape_of(value))
    if rank == 1:
        name = f"{name}[None]"
    elif rank > 2:
        name = f"{name}.flatten(0, -2)"
    return f"{name}{_TRANSPOSED}" if transposed else name


def _transpose(matrix: str) -> str:
    stripped = matrix.removesuffix(_TRANSPOSED)
    return f"{matrix}{_TRANSPOSED}" if stripped == matrix else stripped


WRITERS: Mapping[type, Writer] = {
    gemm.FusedOp: _fused,
    gemm.MapOp: _map,
    gemm.AttentionSumOp: _attention_sums,
    gemm.FinalizeOp: _finalize,
    gemm.LibraryOp: _library,
    gemm.PackWeightOp: _pack_weight,
    gemm.ScaleWeightOp: _scale_weight,
}

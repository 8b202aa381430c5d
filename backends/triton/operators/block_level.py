"""Block-level operators with kernels: pointwise ones, and those of whole rows."""

from collections.abc import Callable, Mapping
from typing import Any

from xdsl.ir import Operation

from coda_ir.backends.triton.elementwise import lower_elementwise, lower_glu, lower_rope
from coda_ir.backends.triton.group_order_kernels import (
    MAX_BLOCK,
    block_of,
    group_count_kernel,
    group_order_kernel,
)
from coda_ir.backends.triton.host.program import HostProgram
from coda_ir.backends.triton.host.text import torch_type
from coda_ir.backends.triton.kernel import EmittedKernel
from coda_ir.backends.triton.numbered_elements_kernels import (
    is_checked,
    read_from_memory,
    row_kernel,
    vector_kernel,
)
from coda_ir.backends.triton.operators.launching import (
    Writer,
    kernel_named,
    launch,
    launch_map,
    operands_of,
)
from coda_ir.backends.triton.operators.row_pitches import RowOp, operand_pitches
from coda_ir.backends.triton.operators.torch_calls import call_library
from coda_ir.backends.triton.row_kernels import (
    Pitches,
    cross_entropy_kernel,
    layer_norm_kernel,
    loss_reduction_kernel,
    norm_stats_kernel,
    reduce_kernel,
    rms_norm_kernel,
    softmax_kernel,
)
from coda_ir.backends.triton.topk_kernel import topk_kernel
from coda_ir.dialects import coda
from coda_ir.dialects.coda.library import has_short_rows
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.numbered_elements import has_kernel, replaces_all


def _elementwise(host: HostProgram, op: coda.ElementwiseOp | coda.CastOp) -> None:
    launch_map(host, op, lower_elementwise(op), host.dims(op.result))


def _glu(host: HostProgram, op: coda.GluOp) -> None:
    launch_map(host, op, lower_glu(op), host.dims(op.x))


def _rope(host: HostProgram, op: coda.RopeOp) -> None:
    launch_map(host, op, lower_rope(op), host.dims(op.x))


def _row_kernel(emit: Callable[[Any, str, Pitches], EmittedKernel], name: str) -> Writer:
    """Emit a kernel over the rows of operand 0, named `name` and after the operator's kind."""

    def write(host: HostProgram, op: Operation) -> None:
        hint = f"{name}_{op.kind.data}" if isinstance(op, coda.ReduceOp) else name
        pitches = operand_pitches(host, op) if isinstance(op, RowOp) else {}
        kernel = kernel_named(host, op, hint, emit, pitches)
        rows = host.extents.size(host.dims(op.operands[0])[:-1])
        launch(host, op, kernel, rows, operands_of(host, op, pitches))

    return write


def _rms_norm(host: HostProgram, op: coda.RMSNormOp) -> None:
    pitches = operand_pitches(host, op)
    kernel = kernel_named(host, op, "rms_norm", rms_norm_kernel, pitches)
    operands = operands_of(host, op, pitches)
    dims, group = host.dims(op.x), op.group_size
    rows = host.extents.size(dims[:-1])
    if op.group is not None:
        columns = dims[-1]
        rows = (
            host.extents.size((*dims[:-1], columns // group))
            if isinstance(columns, int)
            else f"({host.operand(op.x)}.numel() // {group})"
        )
    launch(host, op, kernel, rows, operands)


def _cross_entropy(host: HostProgram, op: coda.CrossEntropyOp) -> None:
    kernel = kernel_named(host, op, "cross_entropy", cross_entropy_kernel)
    columns = host.extents.of(host.dims(op.logits)[-1])
    host.check_index(op.target, columns, op.ignore_index.value.data)
    operands, rows = operands_of(host, op), host.extents.size(host.dims(op.target))
    if op.reduction.data == "none":
        launch(host, op, kernel, rows, operands)
        return
    losses = host.scratch(rows, "row_losses", torch_type(element_type_of(op.result)))
    result, *row_lse = map(host.allocate, op.results)
    host.launch(kernel, rows, operands, [losses, *row_lse])
    reduction = kernel_named(host, op, f"{op.reduction.data}_of_losses", loss_reduction_kernel)
    host.launch(reduction, rows, [losses, operands[1]], [result])


def _group_order(host: HostProgram, op: coda.GroupOrderOp) -> None:
    (count,), groups = host.dims(op.ids), op.given["groups"]
    known = count if isinstance(count, int) else None
    block, is_alone = block_of(known), known is not None and known <= MAX_BLOCK
    operands, rows = operands_of(host, op), host.extents.size((count,))
    if not is_alone:
        elements = f"({rows} + {block - 1}) // {block} * {groups}"
        device = f"{host.variable(op.ids)}.device"
        empty = f"torch.empty(({elements},), dtype=torch.int32, device={device})"
        counting = kernel_named(host, op, "group_count", group_count_kernel, block=block)
        counts = host.temporaries(empty, ["counts"])
        host.launch(counting, rows, operands, counts)
        operands += counts
    options = {"block": block, "is_alone": is_alone}
    kernel = kernel_named(host, op, "group_order", group_order_kernel, **options)
    launch(host, op, kernel, rows, operands)


def _topk(host: HostProgram, op: coda.TopkOp) -> None:
    own = _row_kernel(lambda op, name, _: topk_kernel(op, name), "topk")
    (own if has_short_rows(op) else call_library)(host, op)


def _by_number(host: HostProgram, op: coda.GatherOp | coda.ScatterOp | coda.IndexOp) -> None:
    shapes = host.extents.shapes
    if not has_kernel(op, shapes):
        call_library(host, op)
        return
    is_whole = isinstance(op, coda.ScatterOp) and replaces_all(op, shapes)
    name = op.name.removeprefix("coda.")
    if isinstance(op, coda.IndexOp) or (is_whole and len(shape_of(op.x)) == 1):
        kernel = kernel_named(host, op, name, vector_kernel)
        rows = host.extents.size(host.dims(op.ids))
    else:
        kernel = kernel_named(host, op, name, row_kernel, is_whole=is_whole)
        rows = host.extents.size(host.dims(op.ids)[:-1])
    if is_checked(op):
        extent = host.extents.of(host.dims(op.x)[op.given["dim"]])
        host.check_index(
            op.ids, extent, None, f"-({extent})" if isinstance(op, coda.IndexOp) else 0
        )
    loaded = read_from_memory(op, is_whole=is_whole)
    operands = [
        host.kernel_operand(value) if is_loaded else "None"
        for value, is_loaded in zip(op.operands, loaded, strict=True)
    ]
    launch(host, op, kernel, rows, operands)


WRITERS: Mapping[type, Writer] = {
    coda.GatherOp: _by_number,
    coda.ScatterOp: _by_number,
    coda.IndexOp: _by_number,
    coda.ElementwiseOp: _elementwise,
    coda.CastOp: _elementwise,
    coda.GluOp: _glu,
    coda.RopeOp: _rope,
    coda.RMSNormOp: _rms_norm,
    coda.LayerNormOp: _row_kernel(layer_norm_kernel, "layer_norm"),
    coda.NormStatsOp: _row_kernel(norm_stats_kernel, "norm_stats"),
    coda.SoftmaxOp: _row_kernel(softmax_kernel, "softmax"),
    coda.ReduceOp: _row_kernel(reduce_kernel, "reduce"),
    coda.CrossEntropyOp: _cross_entropy,
    coda.TopkOp: _topk,
    coda.GroupOrderOp: _group_order,
}

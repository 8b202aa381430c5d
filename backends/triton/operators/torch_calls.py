"""Operators that are calls of PyTorch: attention, embeddings, calls, and views."""

from collections.abc import Mapping
from math import prod

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import BlockArgument, Operation, SSAValue

from coda_ir.backends.triton.dependent_launch import Launch
from coda_ir.backends.triton.host.element_places import ONE, ElementPlaces
from coda_ir.backends.triton.host.program import HostProgram
from coda_ir.backends.triton.host.text import torch_type
from coda_ir.backends.triton.one_query_kernel import one_query_kernel
from coda_ir.backends.triton.operators.attention_masks import compile_masks_ahead
from coda_ir.backends.triton.operators.gradients import (
    ATTENTION_OF_HEADS,
    attention_arguments,
    repeatable,
)
from coda_ir.backends.triton.operators.launching import Writer, kernel_of, launch
from coda_ir.backends.triton.product_kernel import Factor, product_kernel
from coda_ir.diagnostics import LoweringError
from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.dialects.torch import PRODUCTS, CallOp, in_place
from coda_ir.one_query_attention import OneQueryAttention
from coda_ir.remarks import format_location
from coda_ir.small_products import SmallProduct
from coda_ir.storage import (
    EXPAND,
    filling,
    has_transposed_rows,
    is_looked_up_where_read,
    is_stored_by_kernel,
    is_view,
    place_of,
)

MANY_COLUMNS = 10_000
"""Columns that keep a GPU busy with a thread for each. On an H200, running sums of 16 elements
along rows that were copied from two million columns took 13 ms. Those of 512 elements in 64 x 273
and 4 x 4096 columns took 92 and 96 us, and 155 and 146 along rows that are copied."""


def _attention(host: HostProgram, op: coda.AttentionOp) -> None:
    one_query = OneQueryAttention.of(op, host.extents.shapes)
    if one_query is not None:
        _attend_one_query(host, op, one_query)
        return
    arguments, is_dense = attention_arguments(host, op), not has_transposed_rows(op.result)
    arguments += "" if is_dense else ", dense=False"
    function = "attention" if op.lse is None else "attention_with_lse"
    if op.lse is not None:
        arguments += host.stream_argument()
        compile_masks_ahead(host, op)
    host.assign_all(op.results, f"{function}({arguments})", hint="attended", is_dense=is_dense)


def _embedding(host: HostProgram, op: coda.EmbeddingOp) -> None:
    """Emit nothing if a kernel looks up the rows itself."""
    if is_looked_up_where_read(op):
        return
    ids, table = host.variable(op.ids), host.variable(op.table)
    call = f"torch.nn.functional.embedding({ids}, {table})"
    host.assign(op.result, call, is_dense=True, hint="embedded")


def _call_torch(host: HostProgram, op: CallOp) -> None:
    is_filled = len(op.outputs) == 1 and filling(op.outputs[0]) is not None
    if is_filled or is_stored_by_kernel(op):
        return
    if op.callee.data == EXPAND and not any(map(host.extents.unbound, host.dims(op.outputs[0]))):
        extents = host.dims(op.outputs[0])
        host.view(op.outputs[0], op.inputs[0], ("expand", extents), hint="expanded")
        return
    attention = OneQueryAttention.of(op, host.extents.shapes)
    if attention is not None:
        _attend_one_query(host, op, attention)
        return
    product = SmallProduct.of(op, host.extents.shapes)
    if product is not None:
        _multiply(host, op, product)
        return
    operand = _factor if op.callee.data in PRODUCTS else HostProgram.variable
    operands = [operand(host, value) for value in op.inputs]
    template = op.template
    symbols = {symbol: host.extents.symbol(symbol, op) for symbol in sorted(template.symbols)}
    callee = op.callee.data if op.in_place is None else in_place(op.callee.data)
    of_heads = ATTENTION_OF_HEADS.get(op.callee.data)
    callee = of_heads or _function_for(op, host) or f"torch.ops.{callee}"
    stream = ""
    if of_heads is not None:
        stream = host.stream_argument()
        compile_masks_ahead(host, op)
    call = f"{callee}({template.render(operands, symbols)}{stream})"
    hint = op.callee.data.split(".")[1]
    with repeatable(host, op):
        if op.picks is not None:
            results = host.names.fresh(None, f"{hint}_results")
            host.flush()
            host.lines.append(f"{results} = {call}")
            call = ", ".join(f"{results}[{position}]" for position in op.picks)
        # Products are nearly always dense; kernels read and copy views of them.
        readers = [use.operation for use in op.outputs[0].uses]
        is_dense = op.callee.data in PRODUCTS and any(map(is_view, readers))
        call = f"dense({call})" if is_dense else call
        host.assign_all(op.outputs, call, hint=hint, is_dense=is_dense)
    for result in op.outputs:
        _expect(host, result, f"{format_location(op.location)}: {op.callee.data}")


def _expect(host: HostProgram, result: SSAValue, call: str) -> None:
    """Emit a check of PyTorch's result: kernels rely on the type that the program states."""
    name, dims = host.variable(result), host.dims(result)
    extents = [
        f"{name}.shape[{axis}]" if host.extents.unbound(dim) else host.extents.of(dim)
        for axis, dim in enumerate(dims)
    ]
    shape = f"({', '.join(extents)}{',' * (len(dims) == 1)})"
    dtype = torch_type(element_type_of(result))
    host.lines.append(f"expect({name}, {dtype}, {shape}, {call!r})")


def _function_for(op: CallOp, host: HostProgram) -> str | None:
    """Return the function for a product of as many matrices with as many others, None for another
    call. `matmul` would expand both batches before it calls `bmm`, which takes more time on the
    host than `bmm` does.
    """
    if op.callee.data not in PRODUCTS:
        return None
    x, w = (host.dims(factor) for factor in op.inputs)
    if len(x) < 3 or x[:-2] != w[:-2]:
        return None
    return "torch.bmm" if len(x) == 3 else "product_of_batches"


def _factor(host: HostProgram, value: SSAValue) -> str:
    """Return a factor of PyTorch's product of matrices, of which a kernel makes a dense copy if
    PyTorch would make one: where the batches of matrices are not one number of elements apart, or
    neither rows nor columns of a matrix are contiguous. An argument with several dimensions of
    batches is made dense, as PyTorch would copy it in the order of its transposition.
    """
    found = ElementPlaces.of(value, host.dims)
    base = value if found is None else found[0]
    batches = [extent for extent in host.dims(base)[:-2] if extent != 1]
    if isinstance(base, BlockArgument) and len(batches) > 1:
        host.operand(base)
    if found is None:
        return host.variable(value)
    *_, by_row, by_column = found[1].strides
    if len(found[1].runs(-2)) < 2 and ONE in (by_row, by_column):
        return host.variable(value)
    *batch, row, column = range(len(found[1].dims))
    if by_row != ONE:
        return host.copied(value) or host.variable(value)
    copy = host.copied(value, (*batch, column, row))
    return f"{copy}.mT" if copy else host.variable(value)


def call_library(host: HostProgram, op: coda.LibraryCallOp) -> None:
    """Emit an operator that is one call of PyTorch."""
    operands = [host.variable(operand) for operand in op.operands]
    call = f"torch.ops.{op.callee.data}({op.template.render(operands, {})})"
    hint = op.name.removeprefix("coda.")
    with repeatable(host, op):
        host.assign_all(op.results, call, hint=hint)


def _cumsum(host: HostProgram, op: coda.CumsumOp) -> None:
    """Emit a running sum along the last dimension: along another one, PyTorch's kernel adds up the
    elements of a column one after the other, with a thread for each column. Where columns are many,
    that is faster.
    """
    x, dim = host.variable(op.x), op.dim.value.data
    *outer, _ = shape_of(op.x)[: dim + 1]
    inner = shape_of(op.x)[dim + 1 :]
    known = [extent for extent in (*outer, *inner) if extent != DYNAMIC_INDEX]
    is_transposed = bool(inner) and prod(known) < MANY_COLUMNS
    transposed = f".transpose({dim}, -1)" if is_transposed else ""
    with repeatable(host, op):
        call = f"torch.cumsum({x}{transposed}, {-1 if is_transposed else dim}){transposed}"
        host.assign(op.result, call, is_dense=False, hint="cumsum")


def _attend_one_query(host: HostProgram, op: Operation, attention: OneQueryAttention) -> None:
    kernel = kernel_of(
        host,
        op,
        lambda names: one_query_kernel(attention, names.fresh("attend_one_query"), Launch.of(op)),
    )
    mask = [] if attention.mask is None else [attention.mask]
    operands = [host.operand(x) for x in (attention.q, attention.k, attention.v, *mask)]
    launch(host, op, kernel, host.extents.size(attention.keys[:2]), operands)


def _multiply(host: HostProgram, op: CallOp, product: SmallProduct) -> None:
    """Launch the kernel of a product, which reads transpositions and parts in place."""
    (a, a_factor), (b, b_factor) = (_matrices(host, x) for x in (product.a, product.b))
    kernel = kernel_of(
        host, op, lambda names: product_kernel(product, a_factor, b_factor, names.fresh("products"))
    )
    launch(host, op, kernel, host.extents.size(host.dims(op.outputs[0])[:-2]), [a, b])


def _matrices(host: HostProgram, value: SSAValue) -> tuple[str, Factor]:
    """Return the tensor that has the matrices of an operand, and their places in it: a dense copy
    where neither rows nor columns are contiguous, as a load would use few of the bytes it moves.
    """
    found = host.places(value)
    factor = None if found is None else Factor.of(found[1])
    if found is not None and factor is not None and factor.has_lines:
        return host.operand(found[0]), factor
    dense = Factor.of(ElementPlaces.dense(host.dims(value)))
    assert dense is not None, "extents of matrices are known"
    return host.operand(value), dense


def _reshape(host: HostProgram, op: coda.ReshapeOp) -> None:
    if place_of(op.x) is not None:
        return
    dims = host.dims(op.result)
    unknown = [dim for dim in dims if host.extents.unbound(dim)]
    if len(unknown) > 1:
        raise LoweringError(
            f"{format_location(op.location)}: coda.reshape: the extents "
            f"{', '.join(map(str, unknown))} cannot be determined from the arguments",
            "use dimensions that an argument has",
        )
    if not unknown:
        host.view(op.result, op.x, ("reshape", dims), hint="reshaped")
        return
    extents = ["-1" if dim in unknown else host.extents.of(dim) for dim in dims]
    call = f"{host.variable(op.x)}.reshape({', '.join(extents)})"
    host.assign(op.result, call, is_dense=host.is_dense(op.x), hint="reshaped")


def _barrier(host: HostProgram, op: coda.BarrierOp) -> None:
    """Give the result the tensor of x: statements run in order anyway."""
    x = host.variable(op.x)
    host.assign(op.result, x, is_dense=host.is_dense(op.x), hint="x")


def _transpose(host: HostProgram, op: coda.TransposeOp) -> None:
    host.view(op.result, op.x, ("permute", tuple(op.permutation)), hint="transposed")


def _slice(host: HostProgram, op: coda.SliceOp) -> None:
    dim, start, stop = op.range
    host.view(op.result, op.x, ("narrow", (dim, start, stop - start)), hint="part")


WRITERS: Mapping[type, Writer] = {
    coda.AttentionOp: _attention,
    coda.EmbeddingOp: _embedding,
    coda.CumsumOp: _cumsum,
    coda.LibraryCallOp: call_library,
    CallOp: _call_torch,
    coda.ReshapeOp: _reshape,
    coda.BarrierOp: _barrier,
    coda.TransposeOp: _transpose,
    coda.SliceOp: _slice,
}

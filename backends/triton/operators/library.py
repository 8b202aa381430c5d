"""GEMMs of PyTorch's library in the host program."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from coda_ir.backends.triton.host.program import HostProgram
from coda_ir.backends.triton.host.text import torch_type
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.dialects.gemm import Layout, LibraryOp


def write_library(host: HostProgram, op: Operation) -> None:
    """A call of `library_gemm`, whose result gets the dimensions that the rows have."""
    assert isinstance(op, LibraryOp)
    if op.groups is not None:
        _write_grouped(host, op)
        return
    factors: list[str] = []
    for x, weight in zip(op.inputs, op.weights, strict=True):
        left = _matrix(host, x, transposed=op.is_transposed)
        right = _matrix(host, weight, transposed=op.layout.data == Layout.NK)
        if op.is_stored_transposed:
            left, right = _transpose(right), _transpose(left)
        factors += [left, right]
    product = f"library_gemm({torch_type(element_type_of(op.result))}, {', '.join(factors)})"
    dims = host.dims(op.result)
    is_matrix = len(dims) == 2
    call = product if is_matrix else f"torch.reshape({product}, {host.extents.shape(dims)})"
    host.assign(op.result, call, is_dense=True, hint="product")


def _write_grouped(host: HostProgram, op: LibraryOp) -> None:
    x, weight, ends = map(host.variable, op.operands)
    if op.is_transposed:
        x = f"{x}{_TRANSPOSED}"
    elif op.layout.data == Layout.NK:
        weight = f"{weight}.mT"
    type = torch_type(element_type_of(op.result))
    call = f"grouped_library_gemm({type}, {x}, {weight}, {ends})"
    host.assign(op.result, call, is_dense=True, hint="product")


_TRANSPOSED = ".t()"


def _matrix(host: HostProgram, value: SSAValue, *, transposed: bool) -> str:
    """A tensor with its leading dimensions flattened, or that transposed."""
    name, rank = host.variable(value), len(shape_of(value))
    if rank == 1:
        name = f"{name}[None]"
    elif rank > 2:
        name = f"{name}.flatten(0, -2)"
    return f"{name}{_TRANSPOSED}" if transposed else name


def _transpose(matrix: str) -> str:
    stripped = matrix.removesuffix(_TRANSPOSED)
    return f"{matrix}{_TRANSPOSED}" if stripped == matrix else stripped

"""State space models of heads: kernels over chunks of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from xdsl.ir import Operation, SSAValue

from coda_ir.backends.triton.host.program import HostProgram
from coda_ir.backends.triton.host.text import torch_type
from coda_ir.backends.triton.kernel import EmittedKernel, ceiling, indented
from coda_ir.backends.triton.names import NameAllocator
from coda_ir.backends.triton.operators.launching import Writer, kernel_of, operands_of
from coda_ir.backends.triton.operators.row_pitches import row_pitch
from coda_ir.backends.triton.ssd_grad_kernel import (
    b_gradients_kernel,
    c_gradients_kernel,
    chunk_adjoints_kernel,
    heads_of_program,
    held_kernel,
    times_kernel,
    x_gradients_kernel,
)
from coda_ir.backends.triton.ssd_kernel import carry_kernel, chunk_states_kernel, ssd_kernel
from coda_ir.backends.triton.ssd_text import CHUNK
from coda_ir.dialects.coda import SSDGradOp, SSDLike, SSDOp
from coda_ir.dialects.coda.shapes import element_type_of

Pitches = Mapping[SSAValue, int]


def _pitches(host: HostProgram, op: SSDLike) -> dict[SSAValue, int]:
    """The operands that are ranges of columns, with the elements between starts of rows."""
    tensors = [value for value in dict.fromkeys(op.operands) if value not in op.carried]
    pitches = {value: row_pitch(host, value) for value in tensors}
    return {value: pitch for value, pitch in pitches.items() if pitch is not None}


def _chunks(host: HostProgram, op: SSDLike) -> str:
    """The number of chunks of a sample."""
    return host.number(ceiling(host.extents.of(host.dims(op.x)[1]), CHUNK), "chunks")


def _carried(
    host: HostProgram,
    op: SSDLike,
    chunks: str,
    pitches: Pitches,
    added: EmittedKernel,
    carry: EmittedKernel,
    name: str,
    end: SSAValue | None,
) -> str:
    """States, carried over chunks, and those at the end where they are a result `end`, which take
    two kernels.
    """
    samples = host.extents.of(host.dims(op.x)[0])
    count = chunks if end is not None else f"max(0, {chunks} - 1)"
    rows = host.number(f"{samples} * {count}", "carried_chunks")
    size = op.heads * op.state_count * op.head_columns
    outputs = [
        host.scratch(f"{rows} * {size}", name),
        host.scratch(f"{rows} * {op.heads}", "decays"),
    ]
    operands = operands_of(host, op, pitches)
    if end is not None:
        outputs.append(host.allocate(end))
    start = len(host.lines)
    host.launch(added, rows, operands, outputs)
    if end is None:
        host.launch(carry, samples, operands, outputs)
    host.lines[start:] = [f"if {rows}:", *indented(host.lines[start:])]
    if end is not None:
        host.launch(carry, samples, operands, outputs)
    return outputs[0]


def _states(host: HostProgram, op: SSDLike, chunks: str, pitches: Pitches) -> str:
    """The states at the end of all chunks, but for the last where they are no result."""
    added = kernel_of(host, op, lambda n: chunk_states_kernel(op, n.fresh("head_states"), pitches))
    carry = kernel_of(host, op, lambda n: carry_kernel(op, n.fresh("carry_head_states")))
    end = op.final if isinstance(op, SSDOp) else None
    return _carried(host, op, chunks, pitches, added, carry, "states", end)


def _ssd(host: HostProgram, op: Operation) -> None:
    assert isinstance(op, SSDOp)
    pitches, chunks = _pitches(host, op), _chunks(host, op)
    states = _states(host, op, chunks, pitches)
    kernel = kernel_of(host, op, lambda n: ssd_kernel(op, n.fresh("ssd"), pitches))
    rows = host.number(f"{host.extents.of(host.dims(op.x)[0])} * {chunks}", "all_chunks")
    host.launch(kernel, rows, operands_of(host, op, pitches), [states, host.allocate(op.result)])


def _ssd_grad(host: HostProgram, op: Operation) -> None:
    """Kernels, and sums of the parts that they give for a, b and c."""
    assert isinstance(op, SSDGradOp)
    pitches, chunks = _pitches(host, op), _chunks(host, op)
    samples, length = map(host.extents.of, host.dims(op.x)[:2])
    states = _states(host, op, chunks, pitches)
    adjoints = _adjoints(host, op, chunks, pitches)
    rows, places = host.number(f"{samples} * {chunks}", "all_chunks"), f"{samples} * {length}"
    operands, shares = operands_of(host, op, pitches), op.heads // heads_of_program(op)
    held, own, inner, taken = (
        host.scratch(f"{places} * {op.heads}", name) for name in ("held", "own", "inner", "taken")
    )
    parts = {
        name: host.scratch(f"{places} * {shares * op.state_count}", f"parts_of_{name}")
        for name in "bc"
    }
    d_x, d_dt = map(host.allocate, (op.d_x, op.d_dt))
    d_a = host.scratch(f"{rows} * {op.heads}", "parts_of_a")
    launches = {
        "held": (held_kernel, [states, held]),
        "x_gradients": (x_gradients_kernel, [adjoints, d_x, own, inner, taken]),
        "b_gradients": (b_gradients_kernel, [adjoints, parts["b"]]),
        "c_gradients": (c_gradients_kernel, [states, parts["c"]]),
        "time_gradients": (times_kernel, [states, adjoints, held, own, inner, taken, d_dt, d_a]),
    }
    for name, (emit, outputs) in launches.items():
        kernel = kernel_of(host, op, partial(_named, emit, op, name, pitches))
        host.launch(kernel, rows, operands, outputs)
    _add_up(host, op.d_a, d_a, f"{rows}, {op.heads}", 0)
    shape = f"{places}, {op.groups}, {shares // op.groups}, {op.state_count}"
    for result, name in ((op.d_b, "b"), (op.d_c, "c")):
        _add_up(host, result, parts[name], shape, 2)


def _named(
    emit: Callable[[SSDGradOp, str, Pitches], EmittedKernel],
    op: SSDGradOp,
    name: str,
    pitches: Pitches,
    names: NameAllocator,
) -> EmittedKernel:
    return emit(op, names.fresh(name), pitches)


def _adjoints(host: HostProgram, op: SSDGradOp, chunks: str, pitches: Pitches) -> str:
    """The adjoints of the states before all chunks, but for the first where they are no result."""
    added = kernel_of(
        host, op, lambda n: chunk_adjoints_kernel(op, n.fresh("head_adjoints"), pitches)
    )
    carry = kernel_of(
        host, op, lambda n: carry_kernel(op, n.fresh("carry_head_adjoints"), is_reversed=True)
    )
    return _carried(host, op, chunks, pitches, added, carry, "adjoints", op.d_initial)


def _add_up(host: HostProgram, result: SSAValue, parts: str, whole: str, dim: int) -> None:
    """Have PyTorch add up parts of a gradient, of the shape `whole`, where something uses it."""
    if result.uses.get_length():
        shape, dtype = host.extents.shape(host.dims(result)), torch_type(element_type_of(result))
        call = f"sum_to({parts}.view({whole}), ({dim},), {shape}, {dtype})"
        host.assign(result, call, is_dense=True, hint="total")


WRITERS: Mapping[type, Writer] = {SSDOp: _ssd, SSDGradOp: _ssd_grad}
"""How state space models of heads are emitted."""

"""Selective scans: kernels over chunks of time."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import Operation, SSAValue

from coda_ir.backends.triton.host.program import HostProgram
from coda_ir.backends.triton.host.text import torch_type
from coda_ir.backends.triton.kernel import ceiling, indented
from coda_ir.backends.triton.operators.launching import Writer, kernel_of, operands_of
from coda_ir.backends.triton.operators.row_pitches import row_pitch
from coda_ir.backends.triton.scan_text import CHANNELS, CHUNK, STEPS
from coda_ir.backends.triton.selective_scan_grad_kernel import (
    block_states_kernel,
    chunk_adjoints_kernel,
    scan_gradients_kernel,
)
from coda_ir.backends.triton.selective_scan_kernel import (
    carry_kernel,
    chunk_states_kernel,
    scan_kernel,
)
from coda_ir.dialects.coda import SelectiveScanGradOp, SelectiveScanOp
from coda_ir.dialects.coda.scan import ScanLike
from coda_ir.dialects.coda.shapes import element_type_of


def scan_pitches(host: HostProgram, op: ScanLike) -> dict[SSAValue, int]:
    """The operands that are ranges of columns, with the elements between starts of rows."""
    pitches = {value: row_pitch(host, value) for value in dict.fromkeys(op.operands)}
    return {value: pitch for value, pitch in pitches.items() if pitch is not None}


def chunks_of(host: HostProgram, op: ScanLike) -> str:
    """The number of chunks of a sample."""
    extent = host.extents.of(host.dims(op.u)[1])
    return host.number(ceiling(extent, CHUNK), "chunks")


def _carried(
    host: HostProgram,
    op: ScanLike,
    chunks: str,
    pitches: Mapping[SSAValue, int],
    *,
    is_reversed: bool = False,
) -> str:
    """The states at the end of all chunks but the last, or reversed, the adjoints of those before
    all but the first, which take two kernels.
    """
    samples, _, channels = map(host.extents.of, host.dims(op.u))
    if is_reversed:
        assert isinstance(op, SelectiveScanGradOp)
        first = kernel_of(
            host, op, lambda n: chunk_adjoints_kernel(op, n.fresh("chunk_adjoints"), pitches)
        )
    else:
        first = kernel_of(
            host, op, lambda n: chunk_states_kernel(op, n.fresh("chunk_states"), pitches)
        )
    name = "carry_adjoints" if is_reversed else "carry_states"
    carry = kernel_of(host, op, lambda n: carry_kernel(op, n.fresh(name), is_reversed=is_reversed))
    rows = host.number(f"{samples} * max(0, {chunks} - 1)", "carried_chunks")
    outputs = [
        host.scratch(f"{rows} * {channels} * {op.states}", "adjoints" if is_reversed else "states"),
        host.scratch(f"{rows} * {channels}", "times"),
    ]
    operands = operands_of(host, op, pitches)
    start = len(host.lines)
    host.launch(first, rows, operands, outputs)
    host.launch(carry, samples, operands, outputs)
    host.lines[start:] = [f"if {rows}:", *indented(host.lines[start:])]
    return outputs[0]


def _selective_scan(host: HostProgram, op: Operation) -> None:
    assert isinstance(op, SelectiveScanOp)
    pitches, chunks = scan_pitches(host, op), chunks_of(host, op)
    states = _carried(host, op, chunks, pitches)
    kernel = kernel_of(host, op, lambda n: scan_kernel(op, n.fresh("selective_scan"), pitches))
    rows = host.number(f"{host.extents.of(host.dims(op.u)[0])} * {chunks}", "all_chunks")
    host.launch(kernel, rows, operands_of(host, op, pitches), [states, host.allocate(op.result)])


def _selective_scan_grad(host: HostProgram, op: Operation) -> None:
    """Kernels, and sums of the parts that they give for a, b and c."""
    assert isinstance(op, SelectiveScanGradOp)
    pitches, chunks = scan_pitches(host, op), chunks_of(host, op)
    samples, length, channels = map(host.extents.of, host.dims(op.u))
    states = _carried(host, op, chunks, pitches)
    adjoints = _carried(host, op, chunks, pitches, is_reversed=True)
    rows = host.number(f"{samples} * {chunks}", "all_chunks")
    operands = operands_of(host, op, pitches)
    blocks = host.scratch(f"{rows} * {CHUNK // STEPS} * {channels} * {op.states}", "block_states")
    before = kernel_of(
        host, op, lambda n: block_states_kernel(op, n.fresh("block_states"), pitches)
    )
    host.launch(before, rows, operands, [states, blocks])
    wide = host.number(ceiling(channels, CHANNELS), "channel_blocks")
    parts = {
        op.d_a: host.scratch(f"{rows} * {channels} * {op.states}", "parts_of_a"),
        op.d_b: host.scratch(f"{samples} * {length} * {wide} * {op.states}", "parts_of_b"),
        op.d_c: host.scratch(f"{samples} * {length} * {wide} * {op.states}", "parts_of_c"),
    }
    kernel = kernel_of(
        host, op, lambda n: scan_gradients_kernel(op, n.fresh("scan_gradients"), pitches)
    )
    results = [host.allocate(result) for result in (op.d_u, op.d_dt)]
    host.launch(kernel, rows, operands, [blocks, adjoints, *results, *parts.values()])
    for result, part in parts.items():
        if not result.uses.get_length():
            continue
        shape = host.extents.shape(host.dims(result))
        whole, dim = f"{rows}, {channels}, {op.states}", 0
        if result is not op.d_a:
            whole, dim = f"{samples}, {length}, {wide}, {op.states}", 2
        dtype = torch_type(element_type_of(result))
        call = f"sum_to({part}.view({whole}), ({dim},), {shape}, {dtype})"
        host.assign(result, call, is_dense=True, hint="total")


WRITERS: Mapping[type, Writer] = {
    SelectiveScanOp: _selective_scan,
    SelectiveScanGradOp: _selective_scan_grad,
}
"""How selective scans are emitted."""

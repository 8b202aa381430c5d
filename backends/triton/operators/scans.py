"""Selective scans: kernels over chunks of time."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import Operation, SSAValue

from coda_ir.backends.triton.host.program import HostProgram
from coda_ir.backends.triton.kernel import ceiling, indented
from coda_ir.backends.triton.operators.launching import Writer, kernel_of, operands_of
from coda_ir.backends.triton.operators.row_pitches import row_pitch
from coda_ir.backends.triton.selective_scan_kernel import (
    CHUNK,
    carry_kernel,
    chunk_states_kernel,
    scan_kernel,
)
from coda_ir.dialects.coda import SelectiveScanOp
from coda_ir.dialects.coda.scan import ScanLike


def scan_pitches(host: HostProgram, op: ScanLike) -> dict[SSAValue, int]:
    """The operands that are ranges of columns, with the elements between starts of rows."""
    pitches = {value: row_pitch(host, value) for value in dict.fromkeys(op.operands)}
    return {value: pitch for value, pitch in pitches.items() if pitch is not None}


def chunks_of(host: HostProgram, op: ScanLike) -> str:
    """The number of chunks of a sample."""
    extent = host.extents.of(host.dims(op.u)[1])
    return host.number(ceiling(extent, CHUNK), "chunks")


def write_states(
    host: HostProgram, op: ScanLike, chunks: str, pitches: Mapping[SSAValue, int]
) -> str:
    """The states at the end of all chunks but the last, which take two kernels."""
    samples = host.extents.of(host.dims(op.u)[0])
    states = kernel_of(
        host, op, lambda n: chunk_states_kernel(op, n.fresh("chunk_states"), pitches)
    )
    carry = kernel_of(host, op, lambda n: carry_kernel(op, n.fresh("carry_states")))
    rows = host.number(f"{samples} * max(0, {chunks} - 1)", "earlier_chunks")
    channels = host.extents.of(host.dims(op.u)[2])
    outputs = [
        host.scratch(f"{rows} * {channels} * {op.states}", "states"),
        host.scratch(f"{rows} * {channels}", "times"),
    ]
    operands = operands_of(host, op, pitches)
    start = len(host.lines)
    host.launch(states, rows, operands, outputs)
    host.launch(carry, samples, operands, outputs)
    host.lines[start:] = [f"if {rows}:", *indented(host.lines[start:])]
    return outputs[0]


def _selective_scan(host: HostProgram, op: Operation) -> None:
    assert isinstance(op, SelectiveScanOp)
    pitches, chunks = scan_pitches(host, op), chunks_of(host, op)
    states = write_states(host, op, chunks, pitches)
    kernel = kernel_of(host, op, lambda n: scan_kernel(op, n.fresh("selective_scan"), pitches))
    rows = host.number(f"{host.extents.of(host.dims(op.u)[0])} * {chunks}", "all_chunks")
    host.launch(kernel, rows, operands_of(host, op, pitches), [states, host.allocate(op.result)])


WRITERS: Mapping[type, Writer] = {SelectiveScanOp: _selective_scan}
"""How selective scans are emitted."""

"""The kernels of the gradients of a selective scan, beside those of its states.

    block_states       the states before each block of `STEPS` rows
    chunk_adjoints     the adjoint of the states before each chunk but the first, as if 0 came after
    carry_states       (reversed) the adjoint of the states before each chunk
    scan_gradients     a chunk, block by block from the last: states again, then their adjoint

The adjoint g of the states follows the rows backwards: g[t] = c[t] · dy[t] + exp(dt[t + 1] · a) ·
g[t + 1]. Sums over channels and over rows are stored in parts, which the host adds up in order.
"""

from collections.abc import Mapping
from itertools import pairwise

from xdsl.ir import SSAValue

from coda_ir.backends.triton.host_values import nth_output
from coda_ir.backends.triton.kernel import EmittedKernel, indented
from coda_ir.backends.triton.kernel_text import pointer_argument
from coda_ir.backends.triton.scan_text import (
    CHUNK,
    OPERANDS,
    STEPS,
    ScanText,
    decay,
    holds_all,
    output,
    row,
    step,
)
from coda_ir.dialects.coda import SelectiveScanGradOp
from coda_ir.dialects.coda.shapes import element_type_of

Pitches = Mapping[SSAValue, int]

_BLOCK_OF_ROW = f"(place * {CHUNK // STEPS} + (row - start) // {STEPS})"


def block_states_kernel(op: SelectiveScanGradOp, name: str, pitches: Pitches) -> EmittedKernel:
    """The states before each block of each chunk; the rows of the launch are all chunks."""
    text = ScanText(op, pitches)
    body = [
        text.store_states("h", "blocks_ptr", _BLOCK_OF_ROW),
        *text.load_rows(("x", "dt", "b")),
        *map(step, range(STEPS)),
        f"row += {STEPS}",
    ]
    lines = [
        *text.chunk(text.chunks),
        "start = row",
        text.a(),
        *text.states_before(),
        "while row < end:",
        *indented(body),
    ]
    arguments = [
        *map(text.operand, ("x", "dt", "a", "b")),
        *text.carried("initial"),
        output("states", 0),
        output("blocks", 1),
    ]
    return text.emitted(name, arguments, lines, f"states before blocks of {STEPS} rows")


def chunk_adjoints_kernel(op: SelectiveScanGradOp, name: str, pitches: Pitches) -> EmittedKernel:
    """Emit the kernel of what each chunk, but for the first where it is no result, adds to the
    adjoint of the states before it, and of its sum of dt. The rows of the launch are these chunks
    of all samples.
    """
    text, is_all = ScanText(op, pitches), holds_all(op, is_reversed=True)
    steps = [
        f"h = {decay(f'dt_{number}')} * (h + c_{number} * d_y_{number})"
        for number in reversed(range(STEPS))
    ]
    begin = [
        *text.chunk(text.held_chunks(is_reversed=True), first=int(not is_all)),
        "start = row",
        f"row = start + (end - 1 - start) // {STEPS} * {STEPS}",
    ]
    body = [*text.load_rows(("d_y", "dt", "c")), *steps, text.time(), f"row -= {STEPS}"]
    loop = ["while row >= start:", *indented(body)]
    summary = f"adjoints of chunks of {CHUNK} rows"
    return text.states_kernel(name, ("d_y", "dt", "a", "c"), begin, loop, summary)


def scan_gradients_kernel(op: SelectiveScanGradOp, name: str, pitches: Pitches) -> EmittedKernel:
    """The gradients of x and dt, and parts of those of a, b and c: of a for each chunk, of b and c
    for each block of channels. The rows of the launch are all chunks.
    """
    text = ScanText(op, pitches)
    lines = [
        *text.chunk(text.chunks),
        "start = row",
        f"row = start + (end - 1 - start) // {STEPS} * {STEPS}",
        text.a(),
        text.zeros("d_a"),
        *text.adjoints_after(),
        "while row >= start:",
        *indented(_gradients_of_block(text, op)),
        f"tl.store(d_a_ptr + (place * {text.extent} + channel) * {op.state_count} + state, d_a, "
        "mask=inside & holds)",
    ]
    results = [
        pointer_argument(f"d_{name}_ptr", element_type_of(value), nth_output(index))
        for index, (name, value) in enumerate((("x", op.x), ("dt", op.dt)), 2)
    ]
    arguments = [
        *map(text.operand, (*OPERANDS, "d_y")),
        *text.carried("d_final"),
        output("blocks", 0),
        output("adjoints", 1),
        *results,
        *(output(f"d_{name}", index) for index, name in enumerate("abc", 4)),
    ]
    return text.emitted(name, arguments, lines, f"gradients of a scan, {STEPS} rows at a time")


def _gradients_of_block(text: ScanText, op: SelectiveScanGradOp) -> list[str]:
    """The statements for the rows of a block: the states after each, then back."""
    before = ["h", *(f"h_{number}" for number in range(STEPS))]
    lines = [
        *text.load_rows(("x", "dt", "b")),
        text.load_states("h", "blocks_ptr", _BLOCK_OF_ROW),
        *(step(i, after, last) for i, (last, after) in enumerate(pairwise(before))),
    ]
    for i in reversed(range(STEPS)):
        lines += [
            # Once more, so that registers are for the states alone, without rows and decays.
            *(text.load_row(name, i) for name in (*OPERANDS, "d_y") if name != "a"),
            f"g += c_{i} * d_y_{i}",
            *_store_part(text, "c", i, f"d_y_{i} * h_{i}"),
            *_store_part(text, "b", i, f"g * (dt_{i} * x_{i})"),
            f"written = tl.sum(g * b_{i}, 0, keep_dims=True)",
            f"g = g * {decay(f'dt_{i}')}",
            f"rate = g * {before[i]}",
            f"of_block {'=' if i == STEPS - 1 else '+='} dt_{i} * rate",
            f"d_x_{i} = dt_{i} * written",
            f"d_dt_{i} = x_{i} * written + tl.sum(rate * a, 0, keep_dims=True)",
            *text.store_row("d_x", i, element_type_of(op.x)),
            *text.store_row("d_dt", i, element_type_of(op.dt)),
        ]
    # Rows are added up by blocks, which rounds less than one after the other.
    return [*lines, "d_a += of_block", f"row -= {STEPS}"]


def _store_part(text: ScanText, name: str, number: int, terms: str) -> list[str]:
    """The statements that store the sum of `terms` over the channels of the program."""
    place = f"({row(number)} * {text.blocks} + tl.program_id(0) % {text.blocks})"
    return [
        f"part = tl.sum({terms}, 1, keep_dims=True)",
        f"tl.store(d_{name}_ptr + {place} * {text.op.state_count} + state, part, "
        f"mask=holds & ({row(number)} < end))",
    ]

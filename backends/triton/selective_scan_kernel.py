"""The kernels of a selective scan, which has as many parts as chunks of time.

    states    the states at the end of each chunk but the last, as if it began with 0
    carry     the states at the end of each chunk, from those of the chunks before
    scan      the results of each chunk, from the states at the end of the chunk before

Of one position there is one kernel, `step`.
A program has all states of a block of channels in registers, and walks over the rows of a chunk.
What is N times as large as the operands is never stored. Chunks begin at multiples of `CHUNK`, so
that neither the size of the batch nor what follows a row changes its bits.
"""

from collections.abc import Mapping

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
    ends,
    output,
    over_chunks,
    step,
)
from coda_ir.dialects.coda.scan import ScanLike, SelectiveScanOp
from coda_ir.dialects.coda.shapes import element_type_of

Pitches = Mapping[SSAValue, int]


def chunk_states_kernel(op: ScanLike, name: str, pitches: Pitches) -> EmittedKernel:
    """Emit the kernel of what each chunk but the last adds to the states, and of its sum of dt.

    The rows of the launch are these chunks of all samples.
    """
    text = ScanText(op, pitches)
    body = [*text.load_rows(("x", "dt", "b")), *map(step, range(STEPS)), text.time()]
    begin, loop = (
        text.chunk(text.held_chunks()),
        ["while row < end:", *indented([*body, f"row += {STEPS}"])],
    )
    summary = f"states of chunks of {CHUNK} rows"
    return text.states_kernel(name, ("x", "dt", "a", "b"), begin, loop, summary)


def carry_kernel(
    op: ScanLike, name: str, pitches: Pitches, *, is_reversed: bool = False
) -> EmittedKernel:
    """The states at the end of each chunk, in place of what the chunk adds to them.

    It begins with the operand of states, if there is one, and stores the last ones as a result of
    its own where they are wanted. Reversed, it begins with the last chunk. The rows of the launch
    are the samples.
    """
    text = ScanText(op, pitches)
    given, wanted = ("d_final", "d_initial") if is_reversed else ("initial", "final")
    end = ends(op, wanted, 2)
    body = [
        f"time = tl.load({text.at_time()}, mask=inside, other=0.0)",
        text.load_states("added", "states_ptr", "place"),
        f"h = {decay('time')} * h + added",
        text.store_states("h", "states_ptr", "place"),
    ]
    lines = [
        *text.place("sample"),
        text.a(),
        text.zeros("h"),
        *text.add_carried("h", given, "sample >= 0"),
        *over_chunks(text.held_chunks(is_reversed=is_reversed), body, is_reversed=is_reversed),
        *(f"tl.store({text.at_carried(each.name)}, h, mask=inside & holds)" for each in end),
    ]
    states = [output("states", 0), output("times", 1)]
    arguments = [text.operand("a"), *text.carried(given), *states, *end]
    return text.emitted(name, arguments, lines, f"states carried over chunks of {CHUNK} rows")


def scan_kernel(op: ScanLike, name: str, pitches: Pitches) -> EmittedKernel:
    """The results of each chunk of each sample, which are the rows of the launch."""
    text = ScanText(op, pitches)
    type = element_type_of(op.x)
    results: list[str] = []
    for number in range(STEPS):
        results += [
            step(number),
            f"y_{number} = tl.sum(c_{number} * h, 0, keep_dims=True)",
            *text.store_row("y", number, type),
        ]
    lines = [
        *text.chunk(text.chunks),
        text.a(),
        *text.states_before(),
        "while row < end:",
        *indented([*text.load_rows(("x", "dt", "b", "c")), *results, f"row += {STEPS}"]),
    ]
    arguments = [
        *map(text.operand, OPERANDS),
        *text.carried("initial"),
        output("states", 0),
        pointer_argument("y_ptr", type, nth_output(1)),
    ]
    return text.emitted(name, arguments, lines, f"selective scan by chunks of {CHUNK} rows")


def step_kernel(op: SelectiveScanOp, name: str, pitches: Pitches) -> EmittedKernel:
    """The result at the only position of each sample, and the states after it."""
    text = ScanText(op, pitches)
    type, end = element_type_of(op.x), ends(op, "final", 1)
    lines = [
        *text.place("sample"),
        "row, end = sample, sample + 1",
        text.a(),
        text.zeros("h"),
        *text.add_carried("h", "initial", "sample >= 0"),
        *(text.load_row(each, 0) for each in ("x", "dt", "b", "c")),
        step(0),
        "y_0 = tl.sum(c_0 * h, 0, keep_dims=True)",
        *text.store_row("y", 0, type),
        *(f"tl.store({text.at_carried(each.name)}, h, mask=inside & holds)" for each in end),
    ]
    arguments = [
        *map(text.operand, OPERANDS),
        *text.carried("initial"),
        pointer_argument("y_ptr", type, nth_output(0)),
        *end,
    ]
    return text.emitted(name, arguments, lines, "one step of a selective scan")

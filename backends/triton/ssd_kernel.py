"""The kernels of a state space model of heads, by chunks of rows (arXiv 2405.21060, section 6).

    block_sums     dt of the rows of each head, side by side, and sums of dt · a within blocks
    chunk_states   what each chunk but the last adds to the states: a product over its rows
    carry_states   the states at the end of each chunk, from those of the chunks before
    ssd            the results, block by block: a product with a masked product of c and b within
                   the block, and one with the states before it
    step           of one position, all of it

Operands of products have the type of x, and products and states are float32. Chunks begin at
multiples of `CHUNK`, so that neither the size of the batch nor what follows a row changes its bits.
"""

from collections.abc import Mapping

from xdsl.ir import SSAValue

from coda_ir.backends.triton.kernel import EmittedKernel, indented
from coda_ir.backends.triton.kernel_text import rounded
from coda_ir.backends.triton.scan_text import ends, holds_all, output, over_chunks
from coda_ir.backends.triton.ssd_text import ROWS, SUMS, SSDText
from coda_ir.dialects.coda import SSDLike, SSDOp
from coda_ir.dialects.coda.shapes import element_type_of

Pitches = Mapping[SSAValue, int]

COLUMNS = 64
"""Columns of a head in a program of the states, at most: its tile has a row for each state."""

STEP_COLUMNS = 16
"""Columns of a head in a program of a step."""

CARRIED = 1024
"""States that a program carries over chunks."""


def block_sums_kernel(op: SSDLike, name: str, pitches: Pitches) -> EmittedKernel:
    """The times of each chunk and head, 0 past the end, and sums of dt · a within blocks up to each
    row and after it. The rows of the launch are all chunks.
    """
    text = SSDText(op, pitches)
    at = f"sums_ptr + (place * {op.heads} + head) * {SUMS * text.chunk}"
    lines = [
        *text.place(op.heads),
        "head = part",
        text.rate(),
        f"row = tl.arange(0, {text.blocks})[:, None] * {ROWS} + tl.arange(0, {ROWS})[None, :]",
        f"dt = {text.times()}",
        f"tl.store({at} + row, dt)",
        f"tl.store({at} + {text.chunk} + row, tl.cumsum(dt * rate, 1))",
        "rest = tl.cumsum(dt * rate, 1, reverse=True) - dt * rate",
        f"tl.store({at} + {2 * text.chunk} + row, rest)",
    ]
    arguments = [*map(text.operand, ("dt", "a")), output("sums", 0)]
    summary = f"times of heads, and their sums in blocks of {ROWS} rows"
    return text.emitted(name, arguments, lines, summary, op.heads)


def chunk_states_kernel(op: SSDLike, name: str, pitches: Pitches) -> EmittedKernel:
    """Emit the kernel of what each chunk but the last adds to the states, and of its sum of dt · a.

    The rows of the launch are these chunks of all samples.
    """
    return sums_kernel(op, name, pitches, ("b", "x"))


def sums_kernel(
    op: SSDLike, name: str, pitches: Pitches, factors: tuple[str, str], *, is_reversed: bool = False
) -> EmittedKernel:
    """Emit the kernel of sums over a chunk of a row of states times a row of columns, which decay
    from the row to the end of the chunk, or reversed, from its start to the row.
    """
    text = SSDText(op, pitches)
    count = text.held_chunks(is_reversed=is_reversed)
    first = int(is_reversed and not holds_all(op, is_reversed=True))
    narrow = min(text.columns, COLUMNS)
    parts = text.columns // narrow
    read, written = factors
    order = "number" if is_reversed else f"{text.blocks - 1} - number"
    decay = "gap + passed" if is_reversed else "gap + rest"
    scale = f"tl.exp({decay})" if is_reversed else f"tl.exp({decay}) * dt"
    body = [
        *text.rows("", f"({order})"),
        text.tile(read, ""),
        text.tile(written, ""),
        f"factor = {scale}",
        f"decayed = {written}.to(tl.float32) * factor[:, None]",
        f"h = dot(tl.trans({read}), {text.narrow('decayed')}, h)",
        "gap += whole",
    ]
    lines = [
        *text.place(op.heads * parts, count, first=first),
        f"head = part // {parts}",
        *text.tiles(),
        f"column = part % {parts} * {narrow} + tl.arange(0, {narrow})",
        text.sums(),
        f"h = tl.zeros(({text.states}, {narrow}), tl.float32)",
        "gap = 0.0",
        f"for number in range({text.blocks}):",
        *indented(body),
        f"tl.store({text.at_states('states_ptr', 'place')}, h, mask={text.mask_of_states()})",
        f"tl.store(decays_ptr + place * {op.heads} + head, gap)",
    ]
    arguments = [
        *map(text.operand, (written, read)),
        output("states", 0),
        output("decays", 1),
        output("sums", 2),
    ]
    summary = f"states of chunks of {text.chunk} rows"
    return text.emitted(name, arguments, lines, summary, op.heads * parts, num_stages=3)


def carry_kernel(
    op: SSDLike, name: str, pitches: Pitches, *, is_reversed: bool = False
) -> EmittedKernel:
    """The states at the end of each chunk, in place of what the chunk adds to them.

    It begins with the operand of states, if there is one, and stores the last ones as a result of
    its own where they are wanted. Reversed, it begins with the last chunk. The rows of the launch
    are the samples.
    """
    text = SSDText(op, pitches)
    states = op.state_count * op.head_columns
    parts = -(-states // CARRIED)
    pointer = f"states_ptr + (place * {op.heads} + head) * {states} + state"
    given, wanted = ("d_final", "d_initial") if is_reversed else ("initial", "final")
    begin, end = text.carried(given), ends(op, wanted, 3)
    of_sample = (
        f"(sample * {op.heads} + head) * {states}"
        f" + (state % {op.head_columns} * {op.state_count} + state // {op.head_columns})"
    )
    begun = f"tl.load({given}_ptr + {of_sample}, mask=holds, other=0.0)"
    body = [
        f"decay = tl.exp(tl.load(decays_ptr + place * {op.heads} + head))",
        f"h = decay * h + tl.load({pointer}, mask=holds, other=0.0)",
        f"tl.store({pointer}, h, mask=holds)",
    ]
    lines = [
        f"sample = (tl.program_id(0) // {op.heads * parts}).to(tl.int64)",
        f"head = tl.program_id(0) % {op.heads * parts} // {parts}",
        f"state = tl.program_id(0) % {parts} * {CARRIED} + tl.arange(0, {CARRIED})",
        f"holds = state < {states}",
        f"h = {begun if begin else f'tl.zeros(({CARRIED},), tl.float32)'}",
        *over_chunks(text.held_chunks(is_reversed=is_reversed), body, is_reversed=is_reversed),
        *(f"tl.store({each.name} + {of_sample}, h, mask=holds)" for each in end),
    ]
    arguments = [*begin, output("states", 0), output("decays", 1), *end]
    summary = f"states carried over chunks of {text.chunk} rows"
    return text.emitted(name, arguments, lines, summary, op.heads * parts)


def ssd_kernel(op: SSDOp, name: str, pitches: Pitches) -> EmittedKernel:
    """Emit the kernel of the results. A program passes through a chunk block by block, from the
    states before it. The rows of the launch are all chunks.
    """
    text = SSDText(op, pitches)
    lines = [
        *text.place(op.heads),
        "head = part",
        *text.tiles(),
        text.sums(),
        *text.states_before(),
        f"for number in range(bound(tl.cdiv(count, {ROWS}))):",
        *indented(
            [
                *text.rows("", "number"),
                text.tile("c", ""),
                f"reads = {text.product('c', text.narrow('h'), (ROWS, text.columns))}",
                "y = tl.exp(passed)[:, None] * reads",
                text.tile("b", ""),
                f"scores = {text.product('c', 'tl.trans(b)', (ROWS, ROWS))}",
                *text.decays("", "", "-passed"),
                "weights = scores * decays * dt[None, :]",
                text.tile("x", ""),
                f"y = dot({text.narrow('weights')}, x, y)",
                text.store_columns("y", op.result),
                "decayed = x.to(tl.float32) * (tl.exp(rest) * dt)[:, None]",
                f"h = dot(tl.trans(b), {text.narrow('decayed')}, tl.exp(whole) * h)",
            ]
        ),
    ]
    arguments = [
        *map(text.operand, ("x", "b", "c")),
        *text.carried("initial"),
        output("sums", 0),
        output("states", 1),
        text.result("y", op.result, 2),
    ]
    summary = f"a state space model of heads by chunks of {text.chunk} rows"
    return text.emitted(name, arguments, lines, summary, op.heads)


def step_kernel(op: SSDOp, name: str, pitches: Pitches) -> EmittedKernel:
    """The result at the only position of each sample, and the states after it.

    The rows of the launch are the samples.
    """
    text = SSDText(op, pitches)
    narrow, end = min(text.columns, STEP_COLUMNS), ends(op, "final", 1)
    parts = text.columns // narrow
    at = f"(sample * {op.heads} + head) * {op.head_columns * op.state_count}"
    tile = f"column[None, :] * {op.state_count} + state[:, None]"
    lines = [
        f"sample = (tl.program_id(0) // {op.heads * parts}).to(tl.int64)",
        f"head = tl.program_id(0) % {op.heads * parts} // {parts}",
        f"column = tl.program_id(0) % {parts} * {narrow} + tl.arange(0, {narrow})",
        f"state = tl.arange(0, {text.states})",
        text.rate(),
        *map(text.only_row, ("x", "dt", "b", "c")),
        f"h = tl.zeros(({text.states}, {narrow}), tl.float32)",
        *text.add_carried("h", "initial", "sample >= 0"),
        "h = tl.exp(dt * rate) * h + (dt * b)[:, None] * x[None, :]",
        "y = tl.sum(c[:, None] * h, 0)",
        f"place = y_ptr + (sample * {op.heads} + head) * {op.head_columns} + column",
        f"y = {rounded('y', element_type_of(op.result))}",
        f"tl.store(place, y, mask=column < {op.head_columns})",
        *(
            f"tl.store({each.name} + {at} + ({tile}), h, mask={text.mask_of_states()})"
            for each in end
        ),
    ]
    arguments = [
        *map(text.operand, ("x", "dt", "a", "b", "c")),
        *text.carried("initial"),
        text.result("y", op.result, 0),
        *end,
    ]
    summary = "one step of a state space model of heads"
    return text.emitted(name, arguments, lines, summary, op.heads * parts)

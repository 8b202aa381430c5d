"""The kernels of a state space model of heads, by chunks of rows (arXiv 2405.21060, section 6).

    block_sums     dt of the rows of each head, side by side, and sums of dt · a within blocks
    chunk_states   what each chunk but the last adds to the states: a product over its rows
    carry_states   the states at the end of each chunk, from those of the chunks before
    ssd            the results: a product with a masked product of c and b within the chunk, and
                   one with the states at the end of the chunk before
    scores         products of rows of c and b within each chunk, where several heads share them
    step           of one position, all of it

Operands of products have the type of x, and products and states are float32. Chunks begin at
multiples of `CHUNK`, so that neither the size of the batch nor what follows a row changes its bits.
"""

from collections.abc import Mapping

from xdsl.ir import SSAValue

from coda_ir.backends.triton.kernel import EmittedKernel, indented
from coda_ir.backends.triton.kernel_text import rounded
from coda_ir.backends.triton.scan_text import ends, holds_all, output, over_chunks
from coda_ir.backends.triton.ssd_text import BLOCKS, CHUNK, ROWS, SUMS, SSDText
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
    row and behind it. The rows of the launch are all chunks.
    """
    text = SSDText(op, pitches)
    at = f"sums_ptr + (place * {op.heads} + head) * {SUMS * CHUNK}"
    lines = [
        *text.place(op.heads),
        "head = part",
        text.rate(),
        f"row = tl.arange(0, {BLOCKS})[:, None] * {ROWS} + tl.arange(0, {ROWS})[None, :]",
        f"dt = {text.times()}",
        f"tl.store({at} + row, dt)",
        f"tl.store({at} + {CHUNK} + row, tl.cumsum(dt * rate, 1))",
        "rest = tl.cumsum(dt * rate, 1, reverse=True) - dt * rate",
        f"tl.store({at} + {2 * CHUNK} + row, rest)",
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
    order = "number" if is_reversed else f"{BLOCKS - 1} - number"
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
        f"for number in range({BLOCKS}):",
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
    return text.emitted(
        name, arguments, lines, f"states of chunks of {CHUNK} rows", op.heads * parts
    )


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
    summary = f"states carried over chunks of {CHUNK} rows"
    return text.emitted(name, arguments, lines, summary, op.heads * parts)


def shares_scores(op: SSDOp) -> bool:
    """Return whether several heads read the products of the same rows of c and b."""
    return op.groups < op.heads


def scores_kernel(op: SSDOp, name: str, pitches: Pitches) -> EmittedKernel:
    """The products of the rows of c of each block of a chunk with the rows of b of the same block
    and of those before it. The rows of the launch are all chunks.
    """
    text = SSDText(op, pitches)
    lines = [
        *text.place(op.groups * BLOCKS * BLOCKS),
        f"head = part // {BLOCKS * BLOCKS} * {text.members}",
        f"block = part // {BLOCKS} % {BLOCKS}",
        f"other = part % {BLOCKS}",
        *text.tiles(),
        "if other <= block:",
        *indented(
            [
                f"row = block * {ROWS} + offset",
                f"row_j = other * {ROWS} + offset",
                text.tile("c", ""),
                text.tile("b", "_j"),
                f"scores = {text.product('c', 'tl.trans(b_j)', (ROWS, ROWS))}",
                f"tl.store({text.at_scores('other')}, scores)",
            ]
        ),
    ]
    arguments = [*map(text.operand, ("b", "c")), output("scores", 0)]
    summary = f"products of rows of blocks of {ROWS} rows"
    return text.emitted(name, arguments, lines, summary, op.groups * BLOCKS * BLOCKS)


def ssd_kernel(op: SSDOp, name: str, pitches: Pitches) -> EmittedKernel:
    """The results of each chunk of each sample, which are the rows of the launch."""
    text, is_shared = SSDText(op, pitches), shares_scores(op)
    text.helpers.add("bound")
    products = [text.tile("b", "_j"), f"{text.product('c', 'tl.trans(b_j)', (ROWS, ROWS))}"]
    if is_shared:
        products = [f"tl.load({text.at_scores('(block - number)')})"]
    *loaded, scores = products
    shape = (ROWS, text.columns)
    lines = [
        *text.place(BLOCKS * op.heads),
        f"head = part % {op.heads}",
        f"block = part // {op.heads}",
        *text.tiles(),
        text.sums(),
        *text.rows("", "block"),
        text.tile("c", ""),
        *text.states_before(),
        f"reads = {text.product('c', text.narrow('h'), shape)}",
        f"y = tl.exp({text.before_block()} + passed)[:, None] * reads",
        "gap = -whole",
        "for number in range(bound(block + 1)):",
        *indented(
            [
                *text.rows("_j", "(block - number)"),
                *loaded,
                text.tile("x", "_j"),
                *text.decays("", "_j"),
                f"scores = {scores}",
                "weights = scores * decays * dt_j[None, :]",
                f"y = dot({text.narrow('weights')}, x_j, y)",
                "gap += whole_j",
            ]
        ),
        text.store_columns("y", op.result),
    ]
    arguments = [
        *map(text.operand, ("x", "c") if is_shared else ("x", "b", "c")),
        *text.carried("initial"),
        output("sums", 0),
        output("states", 1),
        text.result("y", op.result, 2),
        *([output("scores", 3)] if is_shared else []),
    ]
    summary = f"a state space model of heads by chunks of {CHUNK} rows"
    return text.emitted(name, arguments, lines, summary, BLOCKS * op.heads)


def step_kernel(op: SSDOp, name: str, pitches: Pitches) -> EmittedKernel:
    """The result at the only position of each sample, and the states behind it.

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
        f"y = {rounded('y', element_type_of(op.result), text.helpers)}",
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

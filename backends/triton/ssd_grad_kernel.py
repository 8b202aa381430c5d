"""The kernels of the gradients of a state space model of heads, beside those of its states.

    chunk_adjoints   the adjoint of the states before each chunk but the first, as if 0 came after
    carry_states     (reversed) the adjoint of the states before each chunk
    held             for each row of a head, what the sum of dt · a up to it gets as it reads
    x                the gradient of x, and what sums of dt · a get as a row writes
    b, c             their gradients, which are sums over the heads of a group
    times            those of dt and a

Rows i and j of a chunk share the weight k[i, j] = (c[i] · b[j]) (dy[i] · x[j]) decay dt[j]. The sum
of dt · a up to a row gets what its row of k holds, less its column, and so for states. Sums over
the heads of a group are in parts of `HEADS`, which the host adds up in order. Operands of products
have `SSDText.product_type`.
"""

from collections.abc import Mapping, Sequence

from xdsl.ir import SSAValue

from coda_ir.backends.triton.kernel import EmittedKernel, KernelArgument, indented
from coda_ir.backends.triton.kernel_text import rounded
from coda_ir.backends.triton.scan_text import output
from coda_ir.backends.triton.ssd_kernel import sums_kernel
from coda_ir.backends.triton.ssd_text import ROWS, SSDText
from coda_ir.dialects.coda import SSDGradOp, SSDLike
from coda_ir.dialects.coda.shapes import element_type_of

Pitches = Mapping[SSAValue, int]

HEADS = 8
"""Heads of a group, at most, whose gradients of b and c a program adds up."""

WARPS = 8
"""Warps of a program that adds up over heads: its tiles would not fit in the registers of four."""

STAGES = 1
"""Stages of its loops. (H100, 8192 rows of Mamba 2 2.7B: 0.91 ms for b and c, with two 1.21.)"""

_SQUARE = (ROWS, ROWS)

OPERANDS = ("x", "b", "c", "d_y")


def heads_of_program(op: SSDLike) -> int:
    """The heads of a group whose gradients of b and c a program adds up."""
    members = op.heads // op.groups
    return next(count for count in range(HEADS, 0, -1) if members % count == 0)


def chunk_adjoints_kernel(op: SSDGradOp, name: str, pitches: Pitches) -> EmittedKernel:
    """Emit the kernel of what each chunk but the first adds to the adjoint of the states before it,
    and of its sum of dt · a. The rows of the launch are these chunks of all samples.
    """
    return sums_kernel(op, name, pitches, ("c", "d_y"), is_reversed=True)


def held_kernel(op: SSDGradOp, name: str, pitches: Pitches) -> EmittedKernel:
    """Emit the kernel of what the rows of k hold, with what states give, for all chunks."""
    text = SSDText(op, pitches)
    body = [
        *text.rows("_j", "(block - number)"),
        text.tile("b", "_j"),
        text.tile("x", "_j"),
        *text.decays("", "_j"),
        f"products = {text.product('d_y', 'tl.trans(x_j)', _SQUARE)} * decays * dt_j[None, :]",
        f"products *= {text.product('c', 'tl.trans(b_j)', _SQUARE)}",
        "held += tl.sum(tl.where(row[:, None] == row_j[None, :], 0.0, products), 1)",
        "gap += whole_j",
    ]
    lines = [
        *_block_of_head(text),
        text.tile("c", ""),
        *_gradient_tile(text, ""),
        *_states_before(text),
        f"given = {text.product('c', 'h', (ROWS, text.columns))} * d_y.to(tl.float32)",
        f"held = tl.exp({text.before_block()} + passed) * tl.sum(given, 1)",
        "gap = -whole",
        "for number in range(bound(block + 1)):",
        *indented(body),
        _store_of_head(op, "held", "held"),
    ]
    arguments = [
        *map(text.operand, OPERANDS),
        *text.carried("initial"),
        *_outputs(0, "sums", "states", "held"),
    ]
    return text.emitted(
        name, arguments, lines, "what decays get from rows that read", text.blocks * op.heads
    )


def x_gradients_kernel(op: SSDGradOp, name: str, pitches: Pitches) -> EmittedKernel:
    """Emit the kernel of the gradient of x, and for each row of a head of what its column of k
    holds without dt, with what states take. The rows of the launch are all chunks.
    """
    text = SSDText(op, pitches)
    columns = (ROWS, text.columns)
    body = [
        *text.rows("_i", "(block + number)"),
        text.tile("c", "_i"),
        *_gradient_tile(text, "_i"),
        *text.decays("_i", "", is_transposed=True),
        f"scores = {text.product('b', 'tl.trans(c_i)', _SQUARE)} * decays",
        f"d_x = dot({text.narrow('scores')}, d_y_i, d_x)",
        f"products = scores * {text.product('x', 'tl.trans(d_y_i)', _SQUARE)}",
        "is_own = row[:, None] == row_i[None, :]",
        "inner += tl.sum(tl.where(is_own, 0.0, products), 1)",
        "own += tl.sum(tl.where(is_own, products, 0.0), 1)",
        "gap += whole_i",
    ]
    lines = [
        *_block_of_head(text),
        text.tile("b", ""),
        text.tile("x", ""),
        *_adjoints_after(text),
        f"d_x = {text.product('b', 'g', columns)}",
        f"d_x *= tl.exp({text.after_block()} + rest)[:, None]",
        "taken = tl.sum(x.to(tl.float32) * d_x, 1)",
        f"inner = tl.zeros(({ROWS},), tl.float32)",
        f"own = tl.zeros(({ROWS},), tl.float32)",
        "gap = -whole",
        f"for number in range(bound({text.blocks} - block)):",
        *indented(body),
        "d_x *= dt[:, None]",
        text.store_columns("d_x", op.d_x),
        _store_of_head(op, "inner", "inner + taken"),
        _store_of_head(op, "own", "own"),
        _store_of_head(op, "taken", "taken"),
    ]
    arguments = [
        *map(text.operand, OPERANDS),
        *text.carried("d_final"),
        *_outputs(0, "sums", "adjoints"),
        text.result("d_x", op.d_x, 2),
        *_outputs(3, "own", "inner", "taken"),
    ]
    return text.emitted(name, arguments, lines, "gradients of x", text.blocks * op.heads)


def c_gradients_kernel(op: SSDGradOp, name: str, pitches: Pitches) -> EmittedKernel:
    """Emit the kernel of parts of the gradient of c; the rows of the launch are all chunks."""
    text = SSDText(op, pitches)
    body = [
        *text.rows("_j", "(block - number)"),
        text.tile("b", "_j"),
        text.tile("x", "_j"),
        *text.decays("", "_j"),
        f"weights = {text.product('d_y', 'tl.trans(x_j)', _SQUARE)} * decays * dt_j[None, :]",
        f"d_c = dot({text.narrow('weights')}, b_j, d_c)",
        "gap += whole_j",
    ]
    head = [
        *text.rows("", "block"),
        *_gradient_tile(text, ""),
        "gap = -whole",
        "for number in range(bound(block + 1)):",
        *indented(body),
        *_states_before(text),
        f"of_states = {text.product('d_y', 'tl.trans(h)', (ROWS, text.states))}",
        "d_c += of_states * tl.exp(gap + passed)[:, None]",
    ]
    return _over_heads(text, name, "d_c", head, ("initial", "states"))


def b_gradients_kernel(op: SSDGradOp, name: str, pitches: Pitches) -> EmittedKernel:
    """Emit the kernel of parts of the gradient of b; the rows of the launch are all chunks."""
    text = SSDText(op, pitches)
    body = [
        *text.rows("_i", "(block + number)"),
        text.tile("c", "_i"),
        *_gradient_tile(text, "_i"),
        *text.decays("_i", "", is_transposed=True),
        f"weights = {text.product('x', 'tl.trans(d_y_i)', _SQUARE)} * decays * dt[:, None]",
        f"d_b = dot({text.narrow('weights')}, c_i, d_b)",
        "gap += whole_i",
    ]
    head = [
        *text.rows("", "block"),
        text.tile("x", ""),
        "gap = -whole",
        f"for number in range(bound({text.blocks} - block)):",
        *indented(body),
        *_adjoints_after(text),
        f"of_states = {text.product('x', 'tl.trans(g)', (ROWS, text.states))}",
        "d_b += of_states * (tl.exp(gap + rest) * dt)[:, None]",
    ]
    return _over_heads(text, name, "d_b", head, ("d_final", "adjoints"))


def _block_of_head(text: SSDText) -> list[str]:
    """The statements for a block of rows of one head."""
    heads = text.op.heads
    return [
        *text.place(text.blocks * heads),
        f"head = part % {heads}",
        f"block = part // {heads}",
        *text.tiles(),
        text.sums(),
        *text.rows("", "block"),
    ]


def _gradient_tile(text: SSDText, suffix: str) -> list[str]:
    """The statements that load a tile of d_y, which may be wider than operands of products."""
    name = f"d_y{suffix}"
    return [text.tile("d_y", suffix), f"{name} = {text.narrow(f'{name}.to(tl.float32)')}"]


def _states_before(text: SSDText) -> list[str]:
    return [*text.states_before(), f"h = {text.narrow('h')}"]


def _adjoints_after(text: SSDText) -> list[str]:
    return [*text.adjoints_after(), f"g = {text.narrow('g')}"]


def times_kernel(op: SSDGradOp, name: str, pitches: Pitches) -> EmittedKernel:
    """The gradient of dt, and parts of that of a; the rows of the launch are all chunks."""
    text = SSDText(op, pitches)
    at = f"(start * {op.heads} + head) + row * {op.heads}"
    lines = [
        *text.place(op.heads),
        "head = part",
        *text.tiles(),
        text.rate(),
        f"row = tl.arange(0, {text.chunk})",
        f"dt = {text.times()}",
        *(
            f"{name} = tl.load({name}_ptr + {at}, mask=row < count, other=0.0)"
            for name in ("held", "own", "inner", "taken")
        ),
        *text.states_before(),
        *text.adjoints_after(),
        "through = tl.exp(tl.sum(dt * rate, 0)) * tl.sum(tl.sum(h * g, 1), 0)",
        "net = held - dt * inner",
        "of_sum = tl.cumsum(net, 0, reverse=True) + tl.sum(dt * taken, 0) + through",
        "d_dt = rate * of_sum + inner + own",
        f"tl.store(d_dt_ptr + {at}, {rounded('d_dt', element_type_of(op.dt))}, mask=row < count)",
        f"tl.store(d_a_ptr + place * {op.heads} + head, tl.sum(dt * of_sum, 0))",
    ]
    arguments = [
        *map(text.operand, ("dt", "a")),
        *text.carried("initial", "d_final"),
        *_outputs(0, "states", "adjoints", "held", "own", "inner", "taken"),
        text.result("d_dt", op.d_dt, 6),
        output("d_a", 7),
    ]
    return text.emitted(name, arguments, lines, "gradients of times and rates", op.heads)


def _over_heads(
    text: SSDText, name: str, total: str, head: Sequence[str], states: tuple[str, str]
) -> EmittedKernel:
    """Emit the kernel that adds up `total`, for a block of rows, over several heads. `states` are
    an operand and an output of another kernel: states for c, their adjoints for b.
    """
    op, count = text.op, heads_of_program(text.op)
    parts = op.heads // count
    pitch = parts * op.state_count
    at = f"(start * {pitch} + part % {parts} * {op.state_count})"
    lines = [
        *text.place(text.blocks * parts),
        f"block = part // {parts}",
        *text.tiles(),
        f"row = block * {ROWS} + offset",
        f"{total} = tl.zeros(({ROWS}, {text.states}), tl.float32)",
        f"for member in range({count}):",
        *indented([f"head = part % {parts} * {count} + member", text.sums(), *head]),
        f"tl.store({total}_ptr + {at} + (row[:, None] * {pitch} + state[None, :]), {total}, "
        f"mask=(row < count)[:, None] & (state < {op.state_count})[None, :])",
    ]
    given, stored = states
    arguments = [
        *map(text.operand, OPERANDS),
        *text.carried(given),
        *_outputs(0, "sums", stored, total),
    ]
    summary = f"gradients of {total.removeprefix('d_')}"
    return text.emitted(name, arguments, lines, summary, text.blocks * parts, WARPS, STAGES)


def _outputs(first: int, *names: str) -> list[KernelArgument]:
    """The arguments for tensors of float32 from the output `first` on."""
    return [output(name, index) for index, name in enumerate(names, first)]


def _store_of_head(op: SSDLike, name: str, value: str) -> str:
    """The statement that stores an element for each row of the head."""
    at = f"(start * {op.heads} + head) + row * {op.heads}"
    return f"tl.store({name}_ptr + {at}, {value}, mask=row < count)"

"""Random programs as `.coda` text."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from coda_ir.frontends.coda_text import parse_text
from generator.choices import Choices
from generator.coda_epilogues import ACTIVATIONS, epilogue_on
from generator.coda_operators import call_of_any
from generator.program import Program

ROWS = (("M",), ("B", "T"), (3,), (2, "T"), ("B", "H", "T"))

EXTENTS = (2, 1, 3, 5)


@dataclass
class TextBuilder:
    """Parameters and statements of one function; a name stands for a tile of some columns."""

    choices: Choices
    rows: tuple[str | int, ...]
    element: str
    columns: tuple[int, ...]
    parameters: list[str] = field(default_factory=list[str])
    statements: list[str] = field(default_factory=list[str])
    tiles: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    results: list[str] = field(default_factory=list[str])
    """Names that are returned beside tiles."""
    definitions: list[str] = field(default_factory=list[str])
    """Epilogues."""

    def parameter(self, *dims: str | int, weight: bool = False, element: str = "") -> str:
        name = f"p{len(self.parameters)}"
        type = f"{element or self.element}[{', '.join(map(str, dims))}]"
        self.parameters.append(f"{'weight ' if weight else ''}{name}: {type}")
        return name

    def bind(self, expression: str, columns: int) -> None:
        name = f"v{len(self.statements)}"
        self.statements.append(f"{name} = {expression}")
        self.tiles.append((name, columns))

    def result(self, expression: str, *, unused: tuple[str, ...] = ()) -> None:
        """Return what is no tile of the program: integers, truth values, losses. The names of
        `unused` take the results before it.
        """
        name = f"r{len(self.statements)}"
        self.statements.append(f"{', '.join((*unused, name))} = {expression}")
        self.results.append(name)

    def tile(self) -> tuple[str, int]:
        return self.choices.recent(self.tiles)


def _linear(b: TextBuilder, x: str, k: int) -> tuple[str, int]:
    n = b.choices.pick(b.columns)
    if b.choices.chance(40):
        return f"{x} @ {b.parameter(k, n, weight=True)}", n
    w = b.parameter(n, k, weight=True)
    bias = f", {b.parameter(n, weight=True)}" if b.choices.chance(30) else ""
    return f"linear({x}, {w}{bias})", n


def _norm(b: TextBuilder, x: str, n: int) -> tuple[str, int]:
    eps = b.choices.pick((", eps=EPS", ", eps=1e-5", ""))
    if b.choices.chance(40):
        params = "".join(f", {b.parameter(n)}" for _ in range(b.choices.integer(0, 2)))
        return f"layer_norm({x}{params}{eps})", n
    weight = "" if b.choices.chance(25) else f", {b.parameter(n, weight=True)}"
    return f"rms_norm({x}{weight}{eps})", n


def _arithmetic(b: TextBuilder, x: str, n: int) -> tuple[str, int]:
    others = [name for name, columns in b.tiles if columns == n]
    makers: Sequence[Callable[[], str]] = (
        lambda: b.choices.recent(others),
        lambda: b.choices.pick(("2", "0.5", "HEAD", "EPS", "rsqrt(64)", "-1.5")),
        lambda: b.parameter(n),
        lambda: f"mean({x})",
        lambda: b.parameter(*b.rows, n),
    )
    first, second = x, b.choices.pick(makers)()
    if b.choices.chance(30):
        first, second = second, first
    operator = b.choices.pick(("+", "*", "-"))
    text = f"{first} {operator} {second}"
    if b.choices.chance(30):
        text = f"-({text}) + {x}"
    return text, n


def _call(b: TextBuilder, x: str, n: int) -> tuple[str, int]:
    return f"{b.choices.pick((*ACTIVATIONS, 'softmax', 'helper'))}({x})", n


def _gate(b: TextBuilder, x: str, n: int) -> tuple[str, int]:
    gate, columns = _linear(b, x, n)
    up = f"linear({x}, {b.parameter(columns, n, weight=True)})"
    return f"{b.choices.pick(ACTIVATIONS)}({gate}) * {up}", columns


def _packed(b: TextBuilder, x: str, n: int) -> tuple[str, int]:
    w = b.parameter(f"2 * {n}", n, weight=True)
    name = b.choices.pick(("swiglu", "geglu", "reglu", "geglu_tanh"))
    return f"{name}(linear({x}, {w}))", n


def _epilogue(b: TextBuilder, x: str, k: int) -> tuple[str, int]:
    n = b.choices.pick(b.columns)
    w, row = b.parameter(n, k, weight=True), b.parameter(n)
    tile = b.parameter(*b.rows, n)
    return f"fused(linear({x}, {w}), {row}, {tile})", n


def _heads(b: TextBuilder, x: str, n: int) -> tuple[str, int]:
    if n % 4:
        return f"softcap({x}, 30.0)", n
    columns, options = b.choices.pick(
        (
            ("HEAD // 2", ""),
            ("HEAD", ", per_column=true"),
            (f"{n} // 2", f", table_heads={n} // HEAD"),
        )
    )
    cos, sin = (b.parameter(b.rows[-1], columns) for _ in range(2))
    layout = b.choices.pick(('"half_split"', '"interleaved"'))
    w = b.parameter(n, n, weight=True)
    return f"rope(linear({x}, {w}), {cos}, {sin}, head_dim=HEAD, layout={layout}{options})", n


def _modulation(b: TextBuilder, x: str, n: int) -> tuple[str, int]:
    """A part of a row per sample, or of a row for all: a range of what a linear map makes."""
    leading = (*b.rows[:1], *[1] * (len(b.rows) - 1)) if b.choices.chance(70) else b.rows
    packed = b.parameter(*leading, 2 * n)
    if b.choices.chance(40):
        packed = f"linear({packed}, {b.parameter(2 * n, 2 * n, weight=True)})"
    if b.choices.chance(50):
        start = b.choices.pick((0, n))
        part = f"slice({packed}, dim={len(b.rows)}, start={start}, stop={start + n})"
    else:
        part = f"part{len(b.statements)}"
        names = (part, "_") if b.choices.chance(50) else ("_", part)
        b.statements.append(f"{', '.join(names)} = split({packed}, [{n}, {n}])")
    return f"{x} {b.choices.pick(('+', '*', '-'))} {part}", n


def _view(b: TextBuilder, x: str, n: int) -> tuple[str, int]:
    """Code on a view, and the way back; or the exchanged halves of the columns."""
    rank = len(b.rows) + 1
    if n % 2 == 0 and b.choices.chance(50):
        halves = [
            f"slice({x}, dim={rank - 1}, start={at}, stop={at + n // 2})" for at in (0, n // 2)
        ]
        if b.choices.chance(40):
            return f"{b.choices.pick(ACTIVATIONS)}({halves[0]}) * {halves[1]}", n // 2
        return f"concat(-{halves[1]}, {halves[0]}, dim=-1)", n
    axes = b.choices.pick((None, [*range(1, rank), 0], [*range(rank)][::-1]))
    back = axes and [axes.index(axis) for axis in range(rank)]
    first, second = (f", {list(each)}" if each else "" for each in (axes, back))
    return f"transpose({b.choices.pick(ACTIVATIONS)}(transpose({x}{first})){second})", n


def _of_groups(b: TextBuilder, x: str, n: int) -> tuple[str, int]:
    """Code on groups of columns, beside what each group, each column of it or each row has."""
    sizes = [size for size in (2, 3, 4, 6) if size < n and n % size == 0]
    if not sizes:
        return f"abs({x})", n
    rows, group = [*b.rows], b.choices.pick(sizes)
    groups = n // group
    shapes = ([*rows, groups, 1], [groups, 1], [group], [*rows, 1, 1], [*rows, 1, group])
    other = b.parameter(*b.choices.pick(shapes))
    split = f"reshape({x}, [{', '.join(map(str, rows))}, {groups}, {group}])"
    if b.choices.chance(30):
        split = f"({split} - mean({split}))"
    code = f"{split} {b.choices.pick(('*', '+', '-'))} {other}"
    return f"reshape({code}, [{', '.join(map(str, rows))}, {n}])", n


_MAKERS: Sequence[tuple[int, Callable[[TextBuilder, str, int], tuple[str, int]]]] = (
    (4, _linear),
    (4, _arithmetic),
    (3, _call),
    (3, _norm),
    (2, _gate),
    (1, _packed),
    (1, _heads),
    (1, _epilogue),
    (3, epilogue_on),
    (2, _modulation),
    (2, _view),
    (2, _of_groups),
    (14, call_of_any),
)

_PROLOGUE = """
const HEAD = 4
const EPS = 1e-{exponent}

fn helper(x: {element}[{rows}, C]) {{
    y = {activation}(x)
    return x + y * 0.5
}}

epilogue fused(acc, bias: row, other: tile) -> (y: tile) {{
    z = {activation}(acc + bias)
    y = maximum(z, other) - cast(z, bf16) * 0.25
}}
"""


def coda_program(choices: Choices) -> Program:
    """One function, with consts, a function that it inlines and an epilogue."""
    text, extents = draw_text(choices)
    return Program(parse_text(text, "random.coda"), extents, text=text)


NARROW, WIDE = (8, 4, 12, 3), (64, 72, 136)
"""Numbers of columns; GEMMs of the wide ones may be warp-specialized."""


def draw_text(choices: Choices, widths: Sequence[int] | None = None) -> tuple[str, dict[str, int]]:
    """The text of a program with some of these numbers of columns, and extents for its symbols."""
    widths = widths or (WIDE if choices.chance(15) else NARROW)
    rows = choices.pick(ROWS)
    element = choices.pick(("bf16", "f32", "f16"))
    columns = tuple(choices.pick(widths) for _ in range(2))
    b = TextBuilder(choices, rows, element, columns)
    n = choices.pick(columns)
    b.tiles.append((b.parameter(*rows, n), n))
    for _ in range(choices.integer(1, 7)):
        x, k = b.tile()
        b.bind(*choices.weighted(_MAKERS)(b, x, k))
    text = _text(b)
    symbols = [dim for dim in rows if isinstance(dim, str)]
    return text, {symbol: choices.pick(EXTENTS) for symbol in symbols}


def _text(b: TextBuilder) -> str:
    """The whole file, with blanks and comments where the language allows them."""
    used = {name for name, _ in b.tiles[-2:]}
    names = [name for name, _ in b.tiles[1:]]
    # Every name has to be used: what nothing reads is returned.
    bodies = [statement.partition(" = ")[2] for statement in b.statements]
    for name in names:
        if not any(_mentions(body, name) for body in bodies):
            used.add(name)
    results = [name for name, _ in b.tiles if name in used] + b.results
    prologue = _PROLOGUE.format(
        exponent=b.choices.pick((5, 2)),
        element=b.element,
        rows=", ".join(f"R{index}" for index in range(len(b.rows))),
        activation=b.choices.pick(ACTIVATIONS),
    )
    lines = [f"    {statement}{_noise(b.choices)}" for statement in b.statements]
    header = f"fn f({', '.join(b.parameters)}) {{"
    return "\n".join(
        [prologue, *b.definitions, header, *lines, f"    return {', '.join(results)}", "}", ""]
    )


def _mentions(expression: str, name: str) -> bool:
    words = "".join(c if c.isalnum() or c == "_" else " " for c in expression).split()
    return name in words


def _noise(choices: Choices) -> str:
    """White space and comments, which the formatter has to keep or to remove."""
    return choices.weighted(((8, ""), (1, "   # a comment"), (1, "   "), (1, ";"), (1, "\n\n\n")))

"""Random programs of the block level, biased towards Transformer blocks."""

from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, shape_of, tensor_type
from coda_ir.symbolic_shapes import Dims
from generator.choices import Choices
from generator.function_builder import FLOATS, FunctionBuilder, Style
from generator.jump_motifs import JUMPS
from generator.motifs import MOTIFS
from generator.operators import STEPS, add_linear, add_unary, constant
from generator.program import Program
from generator.view_motifs import VIEWS

ROWS: Sequence[tuple[int, Dims]] = (
    (5, ("M",)),
    (5, ("B", "T")),
    (2, (5,)),
    (2, (2, 3)),
    (1, (2, "T")),
    (1, ("B", 1)),
    (2, ("B", "H", "T")),
    (1, ("B", 2, "T")),
    (1, (1,)),
    (1, ()),
)
"""Leading dimensions: symbolic, static, several, none."""

ELEMENTS = ((5, "bf16"), (6, "f32"), (2, "f16"), (1, "f64"))

TABLES = ((42, MOTIFS), (28, STEPS), (24, VIEWS), (6, JUMPS))
"""The tables of steps, with their weights."""

EXTENTS = (2, 1, 3, 5, 7)
"""The extents of symbols."""


def draw_style(choices: Choices) -> Style:
    head = choices.weighted(((6, 4), (3, 8), (2, 2), (1, 6)))
    columns = [head * choices.pick((2, 1, 4, 3)) for _ in range(2)]
    if choices.chance(35):
        columns.append(choices.pick((1, 3, 7, 5, 12, 20)))
    return Style(
        rows=choices.weighted(ROWS),
        element=FLOATS[choices.weighted(ELEMENTS)],
        head=head,
        columns=tuple(dict.fromkeys(columns)),
        named=not choices.chance(10),
    )


def draw_extents(choices: Choices, style: Style) -> dict[str, int]:
    """Extents for the symbols; unnamed ones are all the same."""
    symbols = [dim for dim in style.rows if isinstance(dim, str)]
    if not style.named:
        return {"?": choices.pick(EXTENTS)} if symbols else {}
    return {symbol: choices.pick(EXTENTS) for symbol in symbols}


def block_program(choices: Choices) -> Program:
    """One function, seldom two, and seldom a call of a private one."""
    style = draw_style(choices)
    functions: list[FuncOp] = []
    hazards: set[str] = set()
    helper = draw_helper(choices, style) if choices.chance(6) else None
    if helper is not None:
        functions.append(helper)
    for index in range(1 + choices.chance(6)):
        builder = FunctionBuilder(choices, style, f"f{index}")
        builder.new_tile(choices.pick(style.columns))
        for _ in range(choices.integer(1, 6)):
            table = choices.weighted(TABLES)
            choices.weighted(table)(builder)
        if helper is not None:
            call(builder, helper)
        functions.append(builder.finish(draw_results(builder)))
        hazards |= builder.hazards
    module = ModuleOp(functions)
    return Program(module, draw_extents(choices, style), frozenset(hazards))


def draw_helper(choices: Choices, style: Style) -> FuncOp:
    """A private function of one tile to one tile."""
    builder = FunctionBuilder(choices, style, "helper")
    builder.new_tile(style.columns[0])
    for _ in range(choices.integer(1, 2)):
        choices.pick((add_linear, add_unary))(builder)
    return builder.finish(builder.tiles[-1:], private=True)


def call(b: FunctionBuilder, helper: FuncOp) -> None:
    """Call `helper` with a tile of the right type and parameters of this function."""
    types = list(helper.function_type.inputs)
    fitting = [tile for tile in b.tiles if tile.type == types[0]]
    if not fitting:
        return
    arguments: list[SSAValue] = [b.choices.recent(fitting)]
    for argument in helper.args[1:]:
        dims = tuple(shape_of(argument))
        arguments.append(b.parameter(dims, element_type_of(argument), hint="w", weight=True))
    result = tensor_type(helper.body.block.last_op.operands[0])  # pyright: ignore
    b.tile(CallOp(helper.sym_name.data, arguments, [result]), "called")


def draw_results(b: FunctionBuilder) -> list[SSAValue]:
    """The last value, and others: intermediates, statistics, seldom an argument or a constant."""
    results = [b.tiles[-1]]
    if b.extras and b.choices.chance(60):
        results += b.choices.subset(b.extras[-3:]) or [b.extras[-1]]
    if b.choices.chance(50):
        results += b.aliases
    if b.choices.chance(30):
        results.append(b.choices.recent(b.tiles))
    if b.choices.chance(1):
        results.append(constant(b, b.style.element))
    if all(isinstance(value.owner, coda.CastOp) for value in results) and b.choices.chance(10):
        results.append(b.block.args[0])
    return results

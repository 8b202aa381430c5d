"""Random programs of the GEMM level, also mixed with operators of the block level."""

from xdsl.dialects.builtin import ModuleOp

from coda_ir.dialects.coda.shapes import computes_in_float32, element_type_of
from generator.block_programs import ROWS, draw_extents, draw_results
from generator.choices import Choices
from generator.function_builder import FLOATS, FunctionBuilder, Style
from generator.gemm_operators import fused, mapped, packed_vector
from generator.operators import add_binary, add_linear, add_unary
from generator.program import Program
from generator.views import view_parameter

ELEMENTS = ((4, "f32"), (3, "bf16"), (2, "f16"))

COLUMNS = (8, 4, 6, 12, 16, 3, 1, 7, 20, 40, 72, 1056)


def gemm_program(choices: Choices) -> Program:
    """One function of one to three kernels."""
    columns = tuple(choices.pick(COLUMNS) for _ in range(2))
    style = Style(
        rows=choices.weighted(ROWS),
        element=FLOATS[choices.weighted(ELEMENTS)],
        head=4,
        columns=columns,
        named=not choices.chance(10),
    )
    builder = FunctionBuilder(choices, style)
    columns = choices.pick((8, 3, 16, 40, 1, 7))
    if choices.chance(15):
        dims = builder.tile_dims(columns)
        builder.tiles.append(view_parameter(builder, dims, style.element))
    else:
        builder.new_tile(columns)
    for _ in range(choices.weighted(((4, 1), (3, 2), (1, 3)))):
        add_kernel(builder)
        if choices.chance(20):
            choices.pick((add_unary, add_binary, add_linear))(builder)
    results = draw_results(builder)
    module = ModuleOp([builder.finish(results)])
    return Program(module, draw_extents(choices, style), frozenset(builder.hazards))


def add_kernel(b: FunctionBuilder) -> None:
    narrow = [tile for tile in b.tiles if computes_in_float32(element_type_of(tile))]
    x = b.choices.recent(narrow)
    kind = b.choices.weighted(((7, "gemm"), (2, "map"), (1, "packed")))
    if kind == "gemm":
        fused(b, x)
    elif kind == "map":
        mapped(b, x)
    else:
        packed_vector(b, x)

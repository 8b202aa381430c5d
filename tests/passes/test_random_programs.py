"""coda-to-gemm preserves the meaning of random chains of linear maps, norms and pointwise code."""

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st
from support.equivalence import assert_equivalent
from support.programs import parse_mlir

from coda_ir.context import make_context
from coda_ir.passes.coda_to_gemm import CodaToGemmPass

ROW_SHAPES = ("?x", "5x", "?x?x", "2x3x", "")
COLUMNS = (8, 16)
HEAD = 4
UNARY = ("silu", "tanh", "sigmoid", "relu", "neg", "abs")
BINARY = ("add", "sub", "mul", "maximum", "minimum")


@dataclass
class Program:
    """The text of a function under construction; every value is a tile of (rows x columns)."""

    rows: str
    element: str
    parameters: list[str] = field(default_factory=list[str])
    lines: list[str] = field(default_factory=list[str])
    tiles: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])

    def type(self, shape: str) -> str:
        return f"tensor<{shape}{self.element}>"

    def tile_type(self, columns: int) -> str:
        return self.type(f"{self.rows}{columns}x")

    def parameter(self, shape: str) -> str:
        name = f"%p{len(self.parameters)}"
        self.parameters.append(f"{name}: {self.type(shape)}")
        return name

    def emit(self, operator: str, operands: dict[str, str], type: str, properties: str = "") -> str:
        """Append one operator; `operands` are the types by name (or by name and a suffix)."""
        name = f"%v{len(self.lines)}"
        values = ", ".join(key.partition("#")[0] for key in operands)
        types = ", ".join(operands.values())
        self.lines.append(f"  {name} = coda.{operator} {values} {properties} : ({types}) -> {type}")
        return name

    def add_tile(
        self, operator: str, operands: dict[str, str], columns: int, properties: str = ""
    ) -> None:
        name = self.emit(operator, operands, self.tile_type(columns), properties)
        self.tiles.append((name, columns))

    def text(self, results: list[tuple[str, int]]) -> str:
        names = ", ".join(name for name, _ in results)
        types = ", ".join(self.tile_type(columns) for _, columns in results)
        return "\n".join(
            [
                f"func.func @f({', '.join(self.parameters)}) -> ({types}) {{",
                *self.lines,
                f"  func.return {names} : {types}",
                "}",
            ]
        )


def add_linear(program: Program, draw: st.DataObject) -> None:
    x, k = draw.draw(st.sampled_from(program.tiles))
    n = draw.draw(st.sampled_from(COLUMNS))
    if draw.draw(st.booleans()):
        weight = program.parameter(f"{k}x{n}x")
        operands = {x: program.tile_type(k), weight: program.type(f"{k}x{n}x")}
        program.add_tile("matmul", operands, n)
        return
    weight = program.parameter(f"{n}x{k}x")
    operands = {x: program.tile_type(k), weight: program.type(f"{n}x{k}x")}
    if draw.draw(st.booleans()):
        operands[program.parameter(f"{n}x")] = program.type(f"{n}x")
    program.add_tile("linear", operands, n)


def add_unary(program: Program, draw: st.DataObject) -> None:
    x, n = draw.draw(st.sampled_from(program.tiles))
    program.add_tile(draw.draw(st.sampled_from(UNARY)), {x: program.tile_type(n)}, n)


def add_binary(program: Program, draw: st.DataObject) -> None:
    x, n = draw.draw(st.sampled_from(program.tiles))
    y, shape = other_operand(program, draw, n)
    operands = [(f"{x}#a", program.tile_type(n)), (f"{y}#b", program.type(shape))]
    if draw.draw(st.booleans()):
        operands.reverse()
    program.add_tile(draw.draw(st.sampled_from(BINARY)), dict(operands), n)


def other_operand(program: Program, draw: st.DataObject, n: int) -> tuple[str, str]:
    """A tile of the same columns, or a parameter or a row statistic that broadcasts to one."""
    shapes = [f"{n}x", "1x", ""] + [f"{program.rows}1x"] * bool(program.rows)
    kind = draw.draw(st.sampled_from(["tile", "tile", "statistic", "row code", *shapes]))
    tiles = [name for name, columns in program.tiles if columns == n]
    if kind == "tile":
        return draw.draw(st.sampled_from(tiles)), f"{program.rows}{n}x"
    if kind == "statistic":
        x = draw.draw(st.sampled_from(tiles))
        column = f"{program.rows}1x"
        reduction = draw.draw(st.sampled_from(["sum", "mean", "max"]))
        properties = f'{{kind = "{reduction}"}}'
        types = {x: program.tile_type(n)}
        return program.emit("reduce", types, program.type(column), properties), column
    if kind == "row code":
        row = program.type(f"{n}x")
        types = {program.parameter(f"{n}x"): row, program.parameter(""): program.type("")}
        return program.emit("add", types, row), f"{n}x"
    return program.parameter(kind), kind


def add_slice(program: Program, draw: st.DataObject) -> None:
    wide = [tile for tile in program.tiles if tile[1] == max(COLUMNS)]
    if wide:
        x, n = draw.draw(st.sampled_from(wide))
        start = draw.draw(st.integers(0, n - min(COLUMNS)))
        stop = start + min(COLUMNS)
        where = f"{{dim = {program.rows.count('x')}, start = {start}, stop = {stop}}}"
        program.add_tile("slice", {x: program.tile_type(n)}, min(COLUMNS), where)


def add_norm(program: Program, draw: st.DataObject) -> None:
    x, n = draw.draw(st.sampled_from(program.tiles))
    kind = draw.draw(st.sampled_from(["rms_norm", "layer_norm", "heads"]))
    columns = HEAD if kind == "heads" else n
    operands = {x: program.tile_type(n)}
    for _ in range(draw.draw(st.integers(0, 2 if kind == "layer_norm" else 1))):
        operands[program.parameter(f"{columns}x")] = program.type(f"{columns}x")
    group = f", group = {HEAD} : i64" if kind == "heads" else ""
    operator = "layer_norm" if kind == "layer_norm" else "rms_norm"
    program.add_tile(operator, operands, n, f"{{eps = 1.0e-2 : f64{group}}}")


def add_gate(program: Program, draw: st.DataObject) -> None:
    wide = [tile for tile in program.tiles if tile[1] == max(COLUMNS)]
    if wide:
        x, n = draw.draw(st.sampled_from(wide))
        program.add_tile("glu", {x: program.tile_type(n)}, n // 2, '{activation = "silu"}')


def add_rope(program: Program, draw: st.DataObject) -> None:
    x, n = draw.draw(st.sampled_from(program.tiles))
    if not program.rows:
        return
    positions = program.rows.split("x")[-2]
    table = f"{positions}x{HEAD // 2}x"
    cos, sin = program.parameter(table), program.parameter(table)
    layout = draw.draw(st.sampled_from(["half_split", "interleaved"]))
    operands = {x: program.tile_type(n), cos: program.type(table), sin: program.type(table)}
    program.add_tile("rope", operands, n, f'{{head_dim = {HEAD} : i64, layout = "{layout}"}}')


STEPS = (
    *(add_linear, add_linear, add_unary, add_binary, add_binary),
    *(add_norm, add_gate, add_rope, add_slice),
)


def draw_program(draw: st.DataObject) -> str:
    rows = draw.draw(st.sampled_from(ROW_SHAPES))
    program = Program(rows, draw.draw(st.sampled_from(["bf16", "f32"])))
    columns = draw.draw(st.sampled_from(COLUMNS))
    program.tiles.append((program.parameter(f"{program.rows}{columns}x"), columns))
    for _ in range(draw.draw(st.integers(1, 10))):
        draw.draw(st.sampled_from(STEPS))(program, draw)
    # The last value and another one, which may be any intermediate or the parameter itself.
    return program.text([program.tiles[-1], draw.draw(st.sampled_from(program.tiles))])


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(st.data())
def test_random_program(draw: st.DataObject):
    text = draw_program(draw)
    before = parse_mlir(text)
    after = before.clone()
    CodaToGemmPass().apply(make_context(), after)
    after.verify()
    try:
        assert_equivalent(before, after)
    except AssertionError as error:
        error.add_note(text)
        raise

"""Text of loads, stores and signatures that kernels share; `emitted` completes a kernel."""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from xdsl.dialects.builtin import BFloat16Type, Float16Type
from xdsl.ir import Attribute

from coda_ir.backends.triton import ports
from coda_ir.backends.triton.dependent_launch import Launch
from coda_ir.backends.triton.host_values import HostValue
from coda_ir.backends.triton.kernel import (
    EmittedKernel,
    KernelArgument,
    definition,
    indented,
    pointer_type,
    with_final_names,
)
from coda_ir.backends.triton.syntax import without_unused
from coda_ir.dialects.coda.shapes import FLOAT8_TYPES, is_float, stores_floats

NARROW_FLOATS = (BFloat16Type, Float16Type, *FLOAT8_TYPES)

ASSERTING = ("checked_index", "run_number")
"""The device functions that end the program where an index is wrong."""

NEGATIVE_INFINITY = 'float("-inf")'
"""In kernels: what has no weight in an exponential, and is no maximum."""


def load(pointer: str, type: Attribute, mask: str | None, other: str = "0.0") -> str:
    """Return an expression that loads elements of `type` and widens floats to float32."""
    guard = f", mask={mask}, other={other if stores_floats(type) else '0'}" if mask else ""
    loaded = f"tl.load({pointer}{guard})"
    return f"{loaded}.to(tl.float32)" if isinstance(type, NARROW_FLOATS) else loaded


def rounded(value: str, type: Attribute) -> str:
    """Return the name or literal `value`, float32 or an integer, rounded to `type`."""
    if not value.isidentifier() and is_float(type):
        value = f"tl.full((), {value}, tl.float32)"
    return ports.rounded(value, type)


def pointer_argument(name: str, type: Attribute, value: HostValue) -> KernelArgument:
    """Return the argument for a tensor with elements of `type`."""
    return KernelArgument(name, pointer_type(type), value)


PITCH = "PITCH"
"""The argument for the elements of a row of a mask, most often a multiple of 16."""


def is_stride(argument: KernelArgument) -> bool:
    """Return whether an argument is a stride, which may be 1."""
    return argument.type == "i32" and argument.name.startswith("stride")


def emitted(
    name: str,
    arguments: Sequence[KernelArgument],
    lines: Sequence[str],
    *,
    summary: str,
    grid: HostValue,
    docstring: Sequence[str] = (),
    launch: Launch | None = None,
    num_warps: int = 4,
    num_stages: int = 2,
) -> EmittedKernel:
    """Return the kernel with the body `lines`, with final names and without dead code.

    `docstring` has the lines of one that says more than `summary`.
    """
    launch = launch or Launch(is_dependent=False)
    asserts = any(f"{name}(" in line for line in lines for name in ASSERTING)
    body = [*(docstring or [f'"""{summary[0].upper()}{summary[1:]}."""']), *without_unused(lines)]
    kernel = EmittedKernel(
        name=name,
        source="\n".join([*signature(name, arguments, asserts=asserts), *indented(body), ""]),
        arguments=tuple(arguments),
        grid=grid,
        num_warps=num_warps,
        num_stages=num_stages,
        description=summary,
        asserts=asserts,
        imports=launch.imports,
        is_dependent=launch.is_dependent,
    )
    return with_final_names(kernel)


def signature(
    name: str, arguments: Iterable[KernelArgument], *, asserts: bool = False
) -> list[str]:
    """Return the first lines of a kernel.

    Extents are not specialized, so that one compiled kernel serves all of them. Strides and a pitch
    are: a stride of 1 makes loads wide, and so do rows that begin at multiples of 16. `asserts`:
    `tl.device_assert` has an effect.
    """
    names, integers = list[str](), list[str]()
    for argument in arguments:
        names.append(argument.name)
        if argument.type == "i32" and not (is_stride(argument) or argument.name == PITCH):
            integers.append(f'"{argument.name}"')
    options = ["debug=True"] if asserts else []
    if integers:
        options.append(f"do_not_specialize=[{', '.join(integers)}]")
    fixed = f"({', '.join(options)})" if options else ""
    return [f"@triton.jit{fixed}", *definition(name, names)]


class Reduction(NamedTuple):
    """How the elements of a block are combined over its columns, and then over blocks."""

    combined: str
    """The expression of one block."""
    update: str
    """The statement that combines it with the blocks before."""
    identity: str


def reduction(
    kind: Literal["sum", "max"],
    name: str,
    element: str,
    *,
    is_column: bool = True,
    is_ordered: bool = False,
) -> Reduction:
    """Return the sum or maximum of `element` in variable `name`, a column or vector; NaN wins."""
    if kind == "max":
        combined = f"reduce_max({element}, 1)"
        if is_column:
            combined = f"tl.expand_dims({combined}, 1)"
        return Reduction(combined, f"{name} = maximum({name}, {combined})", NEGATIVE_INFINITY)
    combined = f"tl.sum({element}, 1{', keep_dims=True' if is_column else ''})"
    if is_ordered:
        combined = f"tree_sum({element}, 1)"
    return Reduction(combined, f"{name} += {combined}", "0.0")


def over_blocks(extent: str, block: int, body: Sequence[str]) -> list[str]:
    """Return the loop over an extent, with `body` for the elements from `start` on."""
    if extent.isdecimal():
        return [f"for start in range(0, {extent}, {block}):", *indented(body)]
    # Not a range: the interpreter's run-time integers are no bounds of one.
    return ["start = 0", f"while start < {extent}:", *indented([*body, f"start += {block}"])]


def next_power_of_2(extent: int) -> int:
    return 1 << max(0, extent - 1).bit_length()


def rows_of_tiles(height: int, width: int, columns: int) -> list[str]:
    """Return the statements that find the rows and columns of a tile of a tensor with M rows."""
    tile, tile_n = quotient_and_remainder("tl.program_id(0)", -(-columns // width))
    return [
        *_tile(tile, tile_n, height, width),
        f"inside = (row < M) & (column < {columns})",
    ]


def planes_of_tiles(height: int, width: int, tiles_m: int, tiles_n: int) -> list[str]:
    """Return the statements that find a matrix of a batch, and the rows and columns of a tile."""
    plane, tile = quotient_and_remainder("tl.program_id(0)", tiles_m * tiles_n)
    tile_m, tile_n = quotient_and_remainder("tile", tiles_n)
    return [f"plane = {plane}", f"tile = {tile}", *_tile(tile_m, tile_n, height, width)]


def _tile(tile_m: str, tile_n: str, height: int, width: int) -> list[str]:
    return [
        f"row = {tile_m} * {height} + tl.arange(0, {height})[:, None]",
        f"column = {tile_n} * {width} + tl.arange(0, {width})[None, :]",
    ]


def quotient_and_remainder(number: str, count: int) -> tuple[str, str]:
    """Return the quotient and the remainder of a number, as expressions."""
    return (number, "0") if count == 1 else (f"{number} // {count}", f"{number} % {count}")

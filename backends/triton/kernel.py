"""What every kernel emitter returns: the text of a Triton function and how the host launches it."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Literal

from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Attribute

from coda_ir.backends.triton.names import final_names, renamed
from coda_ir.diagnostics import CodaError
from coda_ir.dialects.element_types import BY_ATTRIBUTE
from coda_ir.remarks import source_position


@dataclass(frozen=True)
class KernelArgument:
    """One run-time argument of a kernel, in the order of its parameters.

    `value` is a `str.format` template of the Python expression that the host passes, over the
    fields of `EmittedKernel.launch`: `{operands[0]}`, `{outputs[2]}`, `{rows}`, or
    `{operands[3]}.numel() // 128`.
    """

    name: str
    """Name of the parameter in the kernel."""
    type: str
    """Triton's signature type: `*bf16`, `*i64`, `i32`, or `tensordesc<bf16[128, 64]>`."""
    value: str


@dataclass(frozen=True)
class SharedTiles:
    """Tiles whose K several programs share.

    The kernel takes two outputs more: `elements` sums (float32) of each program of each tile, with
    anything in them, and a number (int32) for each tile, 0 before and after.
    """

    tiles: str
    """How many: a template of a Python expression, as `KernelArgument.value`."""
    programs: int
    """Of each tile."""
    elements: int
    """Sums of a program."""


@dataclass(frozen=True)
class EmittedKernel:
    """One `@triton.jit` function of an emitted module, and everything the host must know of it.

    Pure data: the source has all tile shapes and static extents written into it, so that the
    arguments are tensors (or tensor descriptors) and run-time integers only.
    """

    name: str
    """Name of the function, unique in its module, after what the kernel fuses."""
    source: str
    """The decorated function, ending in a newline."""
    arguments: tuple[KernelArgument, ...]
    grid: str
    """Number of programs: a template of a Python expression, as `KernelArgument.value`."""
    helpers: frozenset[str] = frozenset()
    """Functions of `runtime/device.py` that the source calls."""
    num_warps: int = 4
    num_stages: int = 2
    description: str = ""
    """One line for listings: what is fused, and the tile shape."""
    asserts: bool = False
    """True where it ends the program with an error where an index is wrong."""
    fp_fusion: bool = True
    """Whether a product and a sum may become one operation that rounds once."""
    runs_without_rows: bool = False
    """Whether there is something to store where the first input has no rows: sums of nothing."""
    imports: frozenset[str] = field(default=frozenset())
    """Import statements that the kernel or the *host* code of its launch needs."""
    constants: frozenset[str] = field(default=frozenset())
    """Assignments behind the imports that host and kernel refer to."""
    host_helpers: frozenset[str] = field(default=frozenset())
    """Functions of `runtime/launches.py` that the grid calls."""
    is_dependent: bool = False
    """Whether it waits for the kernels before, so that its launch may overlap with them."""
    shared_tiles: SharedTiles | None = None
    """None where one program computes a tile."""
    language: Literal["triton", "gluon"] = "triton"
    """Which of Triton's languages the source is in; helpers are rendered in the same."""

    def launch(self, rows: str, operands: Sequence[str], outputs: Sequence[str]) -> list[str]:
        """The host statement that launches the kernel, as source lines without indentation.

        `rows` is an expression of the number of rows M (all dimensions but the last, flattened);
        `operands` are expressions of the operator's operands in the order of `op.operands`, and
        `outputs` of preallocated tensors in the order of `op.results`. All tensors must be
        contiguous. Unless it `runs_without_rows`, nothing runs where these are 0: the host must
        skip the launch or allow a grid of 0.
        """
        fields = {"rows": rows, "operands": list(operands), "outputs": list(outputs)}
        lines = [f"{self.name}[({self.grid.format(**fields)},)]("]
        lines += [f"    {argument.value.format(**fields)}," for argument in self.arguments]
        lines += [f"    num_warps={self.num_warps},", f"    num_stages={self.num_stages},"]
        if self.asserts:
            # Only what the kernel asserts itself, not that integers do not overflow.
            lines.append("    sanitize_overflow=False,")
        if not self.fp_fusion:
            lines.append("    enable_fp_fusion=False,")
        if self.is_dependent:
            lines.append("    **OVERLAPPING,")
        return [*lines, ")"]


def with_final_names(kernel: EmittedKernel) -> EmittedKernel:
    """A kernel that is complete, with final names in its text and of its arguments."""
    names = final_names(kernel.source)
    arguments = [replace(each, name=names.get(each.name, each.name)) for each in kernel.arguments]
    return replace(kernel, source=renamed(kernel.source, names), arguments=tuple(arguments))


class ElementTypeError(CodaError):
    """An element type that kernels cannot load or store."""


def triton_type(type: Attribute) -> str:
    """Triton's short name of an element type: bf16, fp16, fp32, i1, i8, i16, i32, i64.

    Raises ElementTypeError for a type that kernels do not have.
    """
    known = BY_ATTRIBUTE.get(type)
    if known is None or known.triton is None:
        raise unsupported(type)
    return known.triton


def unsupported(type: Attribute) -> ElementTypeError:
    """The error for an element type that kernels do not have."""
    return ElementTypeError(
        f"the triton backend does not support tensors of {type} in kernels",
        "use f32, f16, bf16 or an integer type, a call of PyTorch, or the reference target",
    )


def tl_type(type: Attribute) -> str:
    """The `tl` dtype of an element type, such as `tl.bfloat16`."""
    known = BY_ATTRIBUTE.get(type)
    if known is None or known.tl is None:
        raise unsupported(type)
    return f"tl.{known.tl}"


WIDE_POINTER = "*fp64"
"""The signature type of a pointer to partials that are float64."""


def pointer_type(type: Attribute) -> str:
    """Triton's signature type of a pointer to elements of `type`, such as `*bf16`."""
    return f"*{triton_type(type)}"


def location_comment(location: LocationAttr) -> str | None:
    """`# llama_layer.coda:12:9` for a known location, without the folder of the file."""
    position = source_position(location)
    if position is None:
        return None
    file, line, column = position
    return f"# {PurePath(file).name}:{line}:{column}"


def indented(lines: Iterable[str], depth: int = 1) -> list[str]:
    """`lines` moved right by `depth` levels; empty lines stay empty."""
    return ["    " * depth + line if line else line for line in lines]


def definition(name: str, parameters: Sequence[str]) -> list[str]:
    """The first lines of a function."""
    line = f"def {name}({', '.join(parameters)}):"
    if len(line) <= 96:
        return [line]
    return [f"def {name}(", *(f"    {parameter}," for parameter in parameters), "):"]


def without_unused(lines: list[str]) -> list[str]:
    """`lines` without the one-line assignments whose name does not occur further down."""
    kept: list[str] = []
    used: set[str] = set()
    for line in reversed(lines):
        assignment = re.fullmatch(r"(\w+) = (.*[^(\[])", line)
        if assignment is None or assignment[1] in used:
            used.update(re.findall(r"\w+", line if assignment is None else assignment[2]))
            kept.append(line)
    return kept[::-1]

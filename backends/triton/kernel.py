"""The result of kernel emitters: the text of a Triton function, and how the host launches it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Literal

from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Attribute

from coda_ir.backends.triton.host_values import Given, HostValue
from coda_ir.backends.triton.names import final_names, renamed
from coda_ir.diagnostics import LoweringError
from coda_ir.dialects.element_types import BY_ATTRIBUTE
from coda_ir.remarks import source_position


@dataclass(frozen=True)
class KernelArgument:
    """One run-time argument of a kernel, in the order of its parameters."""

    name: str
    """Name of the parameter in the kernel."""
    type: str
    """Triton's signature type: `*bf16`, `*i64`, `i32`, or `tensordesc<bf16[128, 64]>`."""
    value: HostValue
    """The expression that the host passes."""


@dataclass(frozen=True)
class SharedTiles:
    """Tiles whose K is shared by several programs.

    The kernel takes two outputs more: `elements` sums (float32) of each program of each tile, with
    anything in them, and a number (int32) for each tile, 0 before and after.
    """

    tiles: HostValue
    """The number of tiles."""
    programs: int
    """The number of programs of each tile."""
    elements: int
    """Sums of a program."""


@dataclass(frozen=True)
class EmittedKernel:
    """One `@triton.jit` function of an emitted module, with everything that the host needs to
    launch it.

    Pure data: the source has all tile shapes and static extents written into it, so that the
    arguments are tensors (or tensor descriptors) and run-time integers only.
    """

    name: str
    """Name of the function, unique in its module, after what the kernel fuses."""
    source: str
    """The decorated function, ending in a newline."""
    arguments: tuple[KernelArgument, ...]
    grid: HostValue
    """Number of programs."""
    num_warps: int = 4
    num_stages: int = 2
    registers: int | None = None
    """The most of a thread; None for as few as let many programs run at a time."""
    description: str = ""
    """One line for listings: what is fused, and the tile shape."""
    asserts: bool = False
    """True where it ends the program with an error where an index is wrong."""
    fp_fusion: bool = True
    """True if a product and a sum may become one operation that rounds once."""
    runs_without_rows: bool = False
    """True if there is something to store where the first input has no rows: sums of nothing."""
    imports: frozenset[str] = field(default=frozenset())
    """Import statements that the kernel or the *host* code of its launch needs."""
    constants: frozenset[str] = field(default=frozenset())
    """Assignments after the imports that host and kernel refer to."""
    is_dependent: bool = False
    """True if it waits for the kernels before, so that its launch may overlap with them."""
    shared_tiles: SharedTiles | None = None
    """None where one program computes a tile."""
    language: Literal["triton", "gluon"] = "triton"
    """The language of the source; helpers are rendered in the same."""

    @property
    def has_descriptors(self) -> bool:
        """True if the host passes it descriptors, by which a GPU loads boxes of tensors."""
        return any(argument.type.startswith("tensordesc") for argument in self.arguments)

    def launch(self, given: Given) -> list[str]:
        """Return the host statement that launches the kernel, as source lines without indentation.

        All tensors must be contiguous. Unless it `runs_without_rows`, nothing runs where the rows
        are 0: the host must skip the launch or allow a grid of 0.
        """
        lines = [f"{self.name}[({self.grid.text(given)},)]("]
        lines += [f"    {argument.value.text(given)}," for argument in self.arguments]
        lines += [f"    num_warps={self.num_warps},", f"    num_stages={self.num_stages},"]
        if self.asserts:
            # Only what the kernel asserts itself, not that integers do not overflow.
            lines.append("    sanitize_overflow=False,")
        if not self.fp_fusion:
            lines.append("    enable_fp_fusion=False,")
        if self.registers is not None:
            lines.append(f"    **planned(registers={self.registers}),")
        if self.is_dependent:
            lines.append("    **OVERLAPPING,")
        return [*lines, ")"]


def with_final_names(kernel: EmittedKernel) -> EmittedKernel:
    """Return a complete kernel with final names in its text and of its arguments."""
    names = final_names(kernel.source)
    arguments = [replace(each, name=names.get(each.name, each.name)) for each in kernel.arguments]
    return replace(kernel, source=renamed(kernel.source, names), arguments=tuple(arguments))


class ElementTypeError(LoweringError):
    """An element type that kernels can neither load nor store."""


def triton_type(type: Attribute) -> str:
    """Return Triton's short name of an element type: bf16, fp16, fp32, i1, i8, i16, i32, i64.

    Raises ElementTypeError for a type that kernels do not have.
    """
    known = BY_ATTRIBUTE.get(type)
    if known is None or known.triton is None:
        raise unsupported(type)
    return known.triton


def unsupported(type: Attribute) -> ElementTypeError:
    """Return the error for an element type that kernels do not support."""
    return ElementTypeError(
        f"the triton backend does not support tensors of {type} in kernels",
        "use f32, f16, bf16 or an integer type, a call of PyTorch, or the reference target",
    )


def tl_type(type: Attribute) -> str:
    """Return the `tl` dtype of an element type, such as `tl.bfloat16`."""
    known = BY_ATTRIBUTE.get(type)
    if known is None or known.tl is None:
        raise unsupported(type)
    return f"tl.{known.tl}"


WIDE_POINTER = "*fp64"
"""The signature type of a pointer to partials that are float64."""


def pointer_type(type: Attribute) -> str:
    """Return Triton's signature type of a pointer to elements of `type`, such as `*bf16`."""
    return f"*{triton_type(type)}"


def location_comment(location: LocationAttr) -> str | None:
    """Return `# llama_layer.coda:12:9` for a known location, without the folder of the file."""
    position = source_position(location)
    if position is None:
        return None
    file, line, column = position
    return f"# {PurePath(file).name}:{line}:{column}"


def ceiling(extent: str, block: int) -> str:
    """Return the expression for the number of blocks that cover an extent.

    Factors have to follow it. It is plain arithmetic: `triton.cdiv` takes microseconds on the host.
    """
    if block == 1:
        return extent
    if extent.isdecimal():
        return str(-(-int(extent) // block))
    return f"({extent} + {block - 1}) // {block}"


def indented(lines: Iterable[str], depth: int = 1) -> list[str]:
    """Indent `lines` by `depth` levels; empty lines stay empty."""
    return ["    " * depth + line if line else line for line in lines]


def definition(name: str, parameters: Sequence[str]) -> list[str]:
    """Return the first lines of a function."""
    return bracketed(f"def {name}(", parameters, "):", 96)


def call(function: str, arguments: Sequence[str]) -> list[str]:
    """Return a call as one line, or as one line per argument if it is long."""
    return bracketed(f"{function}(", arguments, ")", 80)


def bracketed(start: str, items: Sequence[str], end: str, width: int) -> list[str]:
    """Return `items` between brackets, on one line, or on one line each if that is long."""
    line = f"{start}{', '.join(items)}{end}"
    return [line] if len(line) <= width else [start, *(f"    {item}," for item in items), end]

"""Gluon: its differences from `tl`, and the device functions that kernels share."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache

from xdsl.ir import Attribute

from coda_ir.backends.triton.argument_list import Layout
from coda_ir.backends.triton.definitions import Definition, read_definitions
from coda_ir.backends.triton.kernel import triton_type
from coda_ir.backends.triton.prelude import device_definitions
from coda_ir.backends.triton.syntax import Edit, edited, nodes_of
from coda_ir.dialects.coda.shapes import element_bytes

IMPORTS = frozenset(
    {
        "from triton.experimental import gluon",
        "from triton.experimental.gluon import language as gl",
        "from triton.experimental.gluon.language.nvidia.hopper import (\n"
        "    async_copy,\n"
        "    fence_async_shared,\n"
        "    mbarrier,\n"
        "    tma,\n"
        "    warpgroup_mma,\n"
        "    warpgroup_mma_init,\n"
        "    warpgroup_mma_wait,\n"
        ")",
        "from triton.experimental.gluon.nvidia.hopper import TensorDescriptor as TileDescriptor",
    }
)

PREFIX = "gluon_"
"""The prefix of a helper in Gluon: a kernel of one language cannot call the other's."""

_HELPERS = read_definitions("warp_groups", "attention_products")


def translated(source: str) -> str:
    """Translate functions in `tl` to Gluon, calling the helpers in Gluon."""
    found = (node for node in nodes_of(ast.parse(source)) if isinstance(node, _EDITED))
    return edited(source, [edit for node in found for edit in _edits(node)])


_EDITED = (ast.Attribute, ast.Call, ast.FunctionDef, ast.Name)


def _edits(node: ast.AST) -> Iterator[Edit]:
    match node:
        case ast.Attribute(ast.Name("tl"), "debug_barrier"):
            yield Edit.replace(node, "gl.thread_barrier")
        case ast.Call(ast.Attribute(ast.Name("tl"), "range"), bounds):
            yield Edit.replace(node, f"range({', '.join(map(ast.unparse, bounds))})")
        case ast.Attribute(ast.Name("tl") as module, name) if name not in _OTHERWISE:
            yield Edit.replace(module, "gl")
        case ast.Attribute(ast.Name("triton") as module, "jit"):
            yield Edit.replace(module, "gluon")
        case ast.Name(name) if name in _SHARED:
            yield Edit.replace(node, PREFIX + name)
        case ast.FunctionDef(name=name, lineno=line, col_offset=column) if name in _SHARED:
            start = column + len("def ")
            yield Edit(line, start, start, PREFIX)
        case ast.Call(
            ast.Attribute(ast.Name("tl"), "broadcast_to") as function, [_, ast.Attribute() as shape]
        ):
            # Gluon broadcasts two tensors to each other.
            yield Edit.replace(function, "gl.broadcast")
            yield Edit.replace(shape, ast.unparse(shape.value))
            yield Edit.append(node, "[0]")
        case _:
            pass


_OTHERWISE = ("PropagateNan", "broadcast_to", "debug_barrier", "range")
"""Functions that Gluon lacks, or has under another name."""

_SHARED = device_definitions().keys()


def gluon_definitions() -> Mapping[str, Definition]:
    """Return all device functions in Gluon, by name: the helpers of `prelude.py`, then others."""
    return {**_translated_helpers(), **_HELPERS}


@cache
def _translated_helpers() -> Mapping[str, Definition]:
    """Return the helpers of `prelude.py` in Gluon, by their names there."""
    return {
        _in_gluon(name): Definition(
            translated(each.source), frozenset(map(_in_gluon, each.uses)), each.modules
        )
        for name, each in device_definitions().items()
    }


def _in_gluon(name: str) -> str:
    return PREFIX + name if name in _SHARED else name


Box = tuple[int, ...]
"""Rows and columns that TMA moves at a time, perhaps after dimensions of 1."""


@dataclass
class Layouts:
    """The layouts of boxes in shared memory that a kernel uses: constants of its module."""

    used: set[tuple[Attribute, Box]] = field(default_factory=set[tuple[Attribute, Box]])

    def name(self, element: Attribute, box: Box) -> str:
        """Return the constant that holds the layout of a box."""
        self.used.add((element, box))
        return f"BOX_{'x'.join(map(str, box))}_{triton_type(element).upper()}"

    def of(self, element: Attribute, box: Box) -> Layout:
        """Return the layout of a box, by its name and as text."""
        return Layout(self.name(element, box), layout_text(element, box))

    def constants(self) -> frozenset[str]:
        """Return the statements that define the constants."""
        return frozenset(
            f"{self.name(element, box)} = gl.{layout_text(element, box)}"
            for element, box in self.used
        )


def layout_text(element: Attribute, box: Box) -> str:
    """Return the layout as Gluon prints it, with several rows swizzled over their bytes."""
    swizzle = min(128, box[-1] * element_bytes(element)) if box[-2] > 1 else 0
    bits, rank = 8 * element_bytes(element), len(box)
    return f"NVMMASharedLayout(swizzle_byte_width={swizzle}, element_bitwidth={bits}, rank={rank})"

"""Gluon's spelling: what differs from `tl`, and the device functions that kernels share."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Attribute

from coda_ir.backends.triton.kernel import triton_type
from coda_ir.backends.triton.prelude import device_definitions, render_prelude
from coda_ir.dialects.coda.shapes import element_bytes

IMPORTS = frozenset(
    {
        "from triton.experimental import gluon",
        "from triton.experimental.gluon import language as gl",
        "from triton.experimental.gluon.language.nvidia.hopper import (\n"
        "    fence_async_shared,\n"
        "    mbarrier,\n"
        "    tma,\n"
        "    warpgroup_mma,\n"
        "    warpgroup_mma_wait,\n"
        ")",
        "from triton.experimental.gluon.nvidia.hopper import TensorDescriptor as TileDescriptor",
    }
)

COPIES = frozenset(
    {
        # Triton 3.8 has both names of these, and 3.9 the new ones only.
        'tma_load = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared',
        'tma_store = getattr(tma, "async_store", None) or tma.async_copy_shared_to_global',
    }
)
"""The statements of a module that define the copies of TMA, which releases of Triton rename."""

PREFIX = "gluon_"
"""Of a helper of `prelude.py` in Gluon: a kernel of one language cannot call the other's."""

_HELPERS = {
    "group_partials": '''\
@gluon.jit
def group_partials(
    pointer,
    first_row,
    M,
    WARPS: gl.constexpr,
    ROWS: gl.constexpr,
    TILES: gl.constexpr,
    WIDTH: gl.constexpr,
    IDENTITY: gl.constexpr,
):
    """The TILES partials of ROWS rows side by side, and IDENTITY in their place up to WIDTH.

    Four threads share a row, as they do in the accumulators.
    """
    LAYOUT: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[WARPS, 1], instr_shape=[16, 8, 16]
    )
    rows = first_row + gl.arange(0, ROWS, gl.SliceLayout(1, LAYOUT))
    row = gl.minimum(rows, M - 1).to(gl.int64)
    tile = gl.arange(0, WIDTH, gl.SliceLayout(0, LAYOUT))[None, :]
    return gl.load(pointer + row[:, None] * TILES + tile, mask=tile < TILES, other=IDENTITY)
''',
    "split_columns": '''\
@gluon.jit
def split_columns(x, PARTS: gl.constexpr):
    """The columns of x in PARTS equal tiles, which stay in the registers where they are."""
    if PARTS == 1:
        return (x,)
    else:
        halves = gl.permute(gl.reshape(x, (x.shape[0], 2, x.shape[1] // 2)), (0, 2, 1))
        first, second = gl.split(halves)
        return split_columns(first, PARTS // 2) + split_columns(second, PARTS // 2)
''',
    "join_columns": '''\
@gluon.jit
def join_columns(first, second):
    """Two tiles side by side, whose elements stay in the registers where they are."""
    halves = gl.permute(gl.join(first, second), (0, 2, 1))
    return gl.reshape(halves, (first.shape[0], 2 * first.shape[1]))
''',
    "accumulators": '''\
@gluon.jit
def accumulators(WARPS: gl.constexpr, ROWS: gl.constexpr, COLUMNS: gl.constexpr):
    """Zeros where WARPS warps accumulate products."""
    LAYOUT: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[WARPS, 1], instr_shape=[16, COLUMNS, 16]
    )
    return gl.zeros((ROWS, COLUMNS), gl.float32, LAYOUT)
''',
    "accumulate": '''\
@gluon.jit
def accumulate(
    acc,
    a_stages,
    b_stages,
    full,
    empty,
    step,
    STEPS,
    A_AXIS: gl.constexpr,
    B_AXIS: gl.constexpr,
):
    """a @ b added to acc over the next STEPS stages.

    A_AXIS and B_AXIS are the dimensions of a stage that hold rows of a and columns of b. A stage is
    handed back when the products after its own have begun; the last ones are still under way.
    """
    STAGES: gl.constexpr = a_stages.shape[0]
    for k in range(0, STEPS):
        stage = step % STAGES
        mbarrier.wait(full.index(stage), (step // STAGES) & 1)
        a = a_stages.index(stage)
        if A_AXIS == 1:
            a = a.permute((1, 0))
        b = b_stages.index(stage)
        if B_AXIS == 0:
            b = b.permute((1, 0))
        acc = warpgroup_mma(a, b, acc, is_async=True)
        acc = warpgroup_mma_wait(num_outstanding=1, deps=(acc,))
        mbarrier.arrive(empty.index((step + STAGES - 1) % STAGES), pred=k > 0)
        step += 1
    return acc, step
''',
    "finish": '''\
@gluon.jit
def finish(acc, empty, step, STEPS):
    """The accumulators, once their last products are there and its stage is handed back."""
    STAGES: gl.constexpr = empty.shape[0]
    acc = warpgroup_mma_wait(num_outstanding=0, deps=(acc,))
    mbarrier.arrive(empty.index((step + STAGES - 1) % STAGES), pred=STEPS > 0)
    return acc
''',
}


def translated(text: str) -> str:
    """Statements in `tl` as statements in Gluon, which call the helpers in Gluon."""
    text = re.sub(r"\btl\.(?!PropagateNan)", "gl.", text).replace("@triton.jit", "@gluon.jit")
    text = re.sub(r"gl\.broadcast_to\((\w+), (\w+)\.shape\)", r"gl.broadcast(\1, \2)[0]", text)
    return _HELPER_NAME.sub(lambda match: PREFIX + match[0], text)


_HELPER_NAME = re.compile(
    # A helper is called, or handed to another one.
    rf"(?<![.\w])({'|'.join(sorted(device_definitions().keys() - {'SUM_TYPE'}))})\b(?=[(),])"
)


def render_gluon_prelude(helpers: Iterable[str]) -> str:
    """The source of device functions in Gluon, those of `prelude.py` by their names there."""
    needed = set(helpers)
    own = [source for name, source in _HELPERS.items() if name in needed]
    shared = render_prelude(needed - _HELPERS.keys())
    sections = [translated(_redefined(shared)), *own]
    return "\n\n".join(section for section in sections if section)


def _redefined(source: str) -> str:
    return re.sub(r"^def (\w+)", rf"def {PREFIX}\1", source, flags=re.MULTILINE)


def call(function: str, arguments: Sequence[str]) -> list[str]:
    """A call as one line, or as one line per argument where it is long."""
    line = f"{function}({', '.join(arguments)})"
    if len(line) <= 80:
        return [line]
    return [f"{function}(", *(f"    {argument}," for argument in arguments), ")"]


Box = tuple[int, int]
"""Rows and columns that TMA moves at a time."""


@dataclass
class Layouts:
    """The layouts of boxes in shared memory that a kernel uses: constants of its module."""

    used: set[tuple[Attribute, Box]] = field(default_factory=set[tuple[Attribute, Box]])

    def name(self, element: Attribute, box: Box) -> str:
        """The constant that holds the layout of a box."""
        self.used.add((element, box))
        return f"BOX_{box[0]}x{box[1]}_{triton_type(element).upper()}"

    def constants(self) -> frozenset[str]:
        """The statements that define them."""
        return frozenset(
            f"{self.name(element, box)} = gl.{layout_text(element, box)}"
            for element, box in self.used
        )


def layout_text(element: Attribute, box: Box) -> str:
    """The layout as Gluon prints it, with rows swizzled over as many bytes as they have."""
    swizzle = min(128, box[-1] * element_bytes(element))
    bits = 8 * element_bytes(element)
    return f"NVMMASharedLayout(swizzle_byte_width={swizzle}, element_bitwidth={bits}, rank=2)"

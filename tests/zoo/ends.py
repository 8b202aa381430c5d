"""Places where the operators between GEMMs run: epilogues, kernels, or calls of PyTorch.

PYTHONPATH=benchmarks:tests python -m zoo --ends --only 'llama,qwen*'
"""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from xdsl.dialects.builtin import ModuleOp, NameLoc, StringAttr
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Attribute, Operation

from coda_ir.api import Lowering, find_entry
from coda_ir.dialects import coda, gemm
from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.dialects.torch import CallOp, VjpOp
from coda_ir.storage import is_looked_up_where_read
from coda_ir.traffic import NOT_EXECUTED
from zoo.architecture import SHAPES, Architecture, first_that_works

ENDS = ("epilogue", "kernel", "library", "call")
"""In the epilogue of a GEMM or in a finalize, in a kernel between GEMMs, as a library operator of
the dialect `coda`, as a `torch.call`: from good to bad. An operator of which several parts are left
ends at the worst of them."""

_PRODUCTS = {
    "bmm", "matmul", "baddbmm", "addmm", "mm", "grouped_mm", "_grouped_mm",
    "scaled_dot_product_attention",
    "conv1d", "conv2d", "conv3d", "convolution", "conv_transpose1d", "conv_transpose2d",
}  # fmt: skip
"""Calls that are products of activations or convolutions, unless they multiply single elements."""

_GEMMS = (
    *(coda.LinearOp, coda.MatmulOp, coda.GroupedLinearMap, coda.AttentionOp),
    *(coda.ConvolutionOp, gemm.FusedOp, gemm.LibraryOp),
)
_VIEWS = (
    *(coda.ReshapeOp, coda.TransposeOp, coda.SliceOp),
    *(coda.BroadcastOp, coda.DetachOp, coda.BarrierOp),
)
_INSIDE = (gemm.FusedOp, gemm.FinalizeOp, gemm.PackWeightOp, gemm.ScaleWeightOp)
_LIBRARY = (
    *(coda.EmbeddingOp, coda.ConcatOp, coda.PadOp, coda.PositionsOp),
    *(coda.SumToOp, coda.LibraryCallOp),
)
_NUMBERS = tuple(kind for kind in NOT_EXECUTED if kind is not coda.PositionsOp)
"""Operators that make no tensor in a call. Positions may: where something else than a kernel reads
them."""
_IN_CODE = (gemm.MapOp,)
"""Kernels that compute positions and do not load them."""


@dataclass
class Ends:
    """The places where the operators between the GEMMs of one model run."""

    name: str
    shapes: str = ""
    note: str = ""
    """The reason why not all shapes are dynamic, or the failure."""
    counts: dict[str, Counter[str]] = field(
        default_factory=lambda: {end: Counter() for end in ENDS}
    )
    """For each of `ENDS`, the operators by name."""
    gemms: int = 0
    launches: int = 0
    """Kernels and calls of PyTorch in one call of the program, but for views."""
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return bool(self.shapes)

    @property
    def operators(self) -> int:
        return sum(counts.total() for counts in self.counts.values())


def measure_ends(architecture: Architecture, *, layers: int = 1) -> Ends:
    """Export and lower an architecture in bfloat16, and count; nothing is executed."""
    start = time.monotonic()
    example = architecture.build(layers).to(torch.bfloat16)
    shapes, exported, note = first_that_works(SHAPES, example.export)
    result = Ends(architecture.name, shapes, note)
    count_ends(exported.module, result)
    result.seconds = time.monotonic() - start
    return result


def count_ends(module: ModuleOp, result: Ends) -> None:
    """Lower a copy of `module`, of the block level, and count how its operators end.

    Operators are all those of the exported program but for GEMMs, products of activations,
    attention, convolutions, numbers, and views: what makes another tensor of the same memory
    counts on neither side. Arithmetic on positions and masks counts like any other, and so does
    what several operators share: each is counted, even where one kernel computes them all.
    """
    tagged = module.clone()
    operators = dict[str, str]()
    for number, op in enumerate(find_entry(tagged).body.block.ops):
        if _is_counted(op):
            operators[f"#{number}"] = _name(op)
            op.location = NameLoc(StringAttr(f"#{number}"), op.location)
    lowered = list(find_entry(Lowering(tagged).module("gemm")).body.block.ops)
    ends = dict.fromkeys(operators, ENDS[0])
    for op in lowered:
        if not isinstance(op, _NUMBERS):
            end = _end(op)
            ends |= {tag: max(end, ends[tag], key=ENDS.index) for tag in _tags_in(op)}
    for tag, end in ends.items():
        result.counts[end][operators[tag]] += 1
    result.gemms = sum(map(_is_product, lowered))
    result.launches = sum(not _is_free(op) and not _is_in_code(op) for op in lowered)


def _end(op: Operation) -> str:
    if isinstance(op, CallOp | VjpOp):
        return "call"
    if isinstance(op, _INSIDE):
        return "epilogue"
    return "library" if isinstance(op, _LIBRARY) and not _is_in_code(op) else "kernel"


def _is_in_code(op: Operation) -> bool:
    """Return whether positions are computed, or rows looked up, by all that read them."""
    if is_looked_up_where_read(op):
        return True
    if not isinstance(op, coda.PositionsOp | coda.ReshapeOp):
        return False
    readers = {use.operation for result in op.results for use in result.uses}
    return all(isinstance(reader, _IN_CODE) or _is_in_code(reader) for reader in readers)


def _is_counted(op: Operation) -> bool:
    return not _is_product(op) and not _is_free(op)


def _is_free(op: Operation) -> bool:
    """Return whether an operator costs nothing: a number, a view, the end of the function."""
    is_view = isinstance(op, CallOp) and op.view is not None
    return is_view or isinstance(op, (*_VIEWS, *_NUMBERS, ReturnOp))


def _is_product(op: Operation) -> bool:
    if not isinstance(op, CallOp):
        return isinstance(op, _GEMMS)
    is_outer = _method(op) in ("bmm", "matmul") and shape_of(op.inputs[0])[-1] == 1
    return _method(op) in _PRODUCTS and not is_outer


def _method(op: CallOp) -> str:
    return op.callee.data.split(".")[1]


def _name(op: Operation) -> str:
    return op.callee.data if isinstance(op, CallOp | VjpOp) else op.name


def _tags_in(op: Operation) -> Iterator[str]:
    inner = [inner for region in op.regions for inner in region.walk()]
    for part in inner or [op]:
        yield from _tags(part.location)


def _tags(location: Attribute) -> Iterator[str]:
    for leaf in getattr(location, "locations", [location]):
        if isinstance(leaf, NameLoc) and leaf.desc.data.startswith("#"):
            yield leaf.desc.data


def read_ends(row: dict[str, Any]) -> Ends:
    """A result from a row of the file that a run has written."""
    known = {key: value for key, value in row.items() if key != "ok"}
    known["counts"] = {end: Counter[str](numbers) for end, numbers in row["counts"].items()}
    return Ends(**known)


def print_ends(console: Console, results: Sequence[Ends]) -> None:
    """A line for each model, the calls of all models by operator, and the share."""
    table = Table("model", "shapes", "GEMMs", "launches", *ENDS, "calls")
    for result in results:
        totals = [result.counts[end].total() for end in ENDS]
        numbers = [result.gemms, result.launches, *totals]
        calls = ", ".join(f"{n} {_short(name)}" for name, n in result.counts["call"].most_common(6))
        cells = (result.name, result.shapes or "NO", *map(str, numbers))
        table.add_row(*cells, calls if result.ok else result.note)
    console.print(table)
    for end in ENDS:
        total = sum((result.counts[end] for result in results), Counter[str]())
        models = Counter(name for result in results for name in result.counts[end])
        console.print(f"{end}: {total.total()}")
        for name, number in total.most_common(None if end == "call" else 12):
            console.print(f"    {number:5} in {models[name]:3} models  {name}")
    operators = sum(result.operators for result in results)
    for end, kind in (("call", "calls of PyTorch"), ("library", "library operators")):
        number = sum(result.counts[end].total() for result in results)
        share = number / max(operators, 1)
        console.print(f"{number} of {operators} operators between GEMMs ({share:.1%}) are {kind}")


def _short(name: str) -> str:
    return name.removeprefix("aten.").removesuffix(".default")

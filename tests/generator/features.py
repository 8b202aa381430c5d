"""Features of programs: the motifs that a run counts, so that none disappears unnoticed."""

from collections.abc import Iterable, Iterator, Mapping, Set
from itertools import pairwise

from xdsl.dialects.builtin import Float64Type
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.dialects.gemm import FusedOp, MapOp
from coda_ir.passes.support.norm_products import is_modulated
from coda_ir.storage import storage_root
from generator.arguments import values_of
from generator.case import Case

VIEWS: Mapping[type[Operation], str] = {
    coda.SliceOp: "slice",
    coda.TransposeOp: "transpose",
    coda.ReshapeOp: "reshape",
}

NESTED = "a - (b - c * s)"

MOTIFS = (
    *(f"{outer} of {inner}" for outer in VIEWS.values() for inner in VIEWS.values()),
    "slice of the last dimension",
    "slice of another dimension",
    "view of a view of a computed value",
    "results that share memory",
    "broadcast over a leading dimension",
    "broadcast over a middle dimension",
    "broadcast over the last dimension",
    "broadcast of a view",
    "rows per sample",
    "norm with rows per sample",
    NESTED,
    "maximum of a wide row",
    "norm without weight",
    "rank 4",
    "float64",
    "rope, half_split",
    "rope, half_split, per column",
    "rope, interleaved",
    "rope, interleaved, per column",
    "rope, tables of several heads",
    "own epilogue",
    "pointwise code on a range of columns",
    "values: negative",
    "values: positive",
    "argument: transposed",
    "argument: permuted",
    "argument: every second element",
    "argument: a range of columns",
    "argument: misaligned",
    "argument: expanded",
    "argument: the last one strided",
    "finalize with a loop",
)
"""All that are counted; the last ones where a program runs through emitted Triton."""

WIDE = 1024


def motifs_of(case: Case) -> Set[str]:
    """The motifs of a program and of its calls."""
    found = {motif for func in case.program.functions for motif in _of_function(func)}
    if case.program.text is not None and any(
        isinstance(op, FusedOp | MapOp) for op in case.program.module.walk()
    ):
        found.add("own epilogue")
    return found | {f"values: {values_of(case.seed)}"} & set(MOTIFS) | case.motifs


def motifs_of_source(source: str) -> Set[str]:
    """Those of an emitted module."""
    kernels = source.split("@triton.jit")
    looped = any(
        "tile = start + tl.arange" in kernel and "reduction of tile partials" in kernel.lower()
        for kernel in kernels
    )
    return {"finalize with a loop"} if looped else set()


def _of_function(func: FuncOp) -> Iterator[str]:
    for op in func.body.block.ops:
        for value in (*op.operands, *op.results):
            if isinstance(element_type_of(value), Float64Type):
                yield "float64"
            if len(shape_of(value)) >= 4:
                yield "rank 4"
        if type(op) in VIEWS:
            yield from _of_view(op)
        match op:
            case coda.BinaryOp():
                yield from _of_binary(op)
            case coda.RopeOp():
                yield from _of_rotation(op)
            case coda.RMSNormOp() | coda.LayerNormOp() if is_modulated(op):
                yield "norm with rows per sample"
            case coda.RMSNormOp() | coda.LayerNormOp() if len(op.operands) == 1:
                yield "norm without weight"
            case coda.ReduceOp() if op.kind.data == "max" and shape_of(op.x)[-1] > WIDE:
                yield "maximum of a wide row"
            case FusedOp() | MapOp() if any(_is_range(value) for value in op.ports):
                yield "pointwise code on a range of columns"
            case ReturnOp() if _share_memory(op.operands):
                yield "results that share memory"
            case _:
                pass


def _is_range(value: SSAValue) -> bool:
    return isinstance(value.owner, coda.SliceOp)


def _of_view(op: Operation) -> Iterator[str]:
    source = op.operands[0].owner
    if type(source) in VIEWS:
        assert isinstance(source, Operation)
        yield f"{VIEWS[type(op)]} of {VIEWS[type(source)]}"
        if not isinstance(storage_root(op.results[0]), BlockArgument):
            yield "view of a view of a computed value"
    if isinstance(op, coda.SliceOp):
        is_last = op.range[0] == len(shape_of(op.x)) - 1
        yield f"slice of {'the last' if is_last else 'another'} dimension"


def _of_binary(op: coda.BinaryOp) -> Iterator[str]:
    shape = shape_of(op.result)
    for operand in op.operands:
        given = shape_of(operand)
        if not given or given == shape:
            continue
        missing = len(shape) - len(given)
        ones = [missing + at for at, dim in enumerate(given) if dim == 1 != shape[missing + at]]
        if missing or 0 in ones:
            yield "broadcast over a leading dimension"
        if any(0 < axis < len(shape) - 1 for axis in ones):
            yield "broadcast over a middle dimension"
            if given[-1] == shape[-1] and given[0] != 1:
                yield "rows per sample"
        if len(shape) - 1 in ones:
            yield "broadcast over the last dimension"
        if type(operand.owner) in VIEWS:
            yield "broadcast of a view"
    is_nested = isinstance(op, coda.SubOp) and isinstance(op.rhs.owner, coda.AddOp | coda.SubOp)
    if is_nested and any(isinstance(term.owner, coda.MulOp) for term in _terms(op)):
        yield NESTED


def _terms(op: coda.BinaryOp) -> Iterator[SSAValue]:
    """Yield the terms of a sum of sums and differences."""
    for operand in op.operands:
        if isinstance(operand.owner, coda.AddOp | coda.SubOp):
            yield from _terms(operand.owner)
        else:
            yield operand


def _of_rotation(op: coda.RopeOp) -> Iterator[str]:
    yield f"rope, {op.layout.data}{', per column' if op.is_per_column else ''}"
    if op.heads_of_tables > 1:
        yield "rope, tables of several heads"


def _share_memory(values: Iterable[SSAValue]) -> bool:
    """Return whether different values are views of one."""
    different = dict.fromkeys(values)
    roots = sorted(map(id, map(storage_root, different)))
    return any(one == other for one, other in pairwise(roots))

"""Which operators of a model end inside of a GEMM, and why the others do not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp, NameLoc, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from coda_ir.api import Lowering, find_entry
from coda_ir.dialects import coda, gemm
from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.dialects.torch import CallOp
from coda_ir.remarks import Remark, fuse_locations
from coda_ir.symbolic_shapes import SymbolicShapes
from coda_ir.traffic import NOT_EXECUTED

PRODUCTS = {"bmm", "matmul", "baddbmm", "scaled_dot_product_attention", "softmax", "_softmax"}
CONVOLUTIONS = {"conv1d", "conv2d", "conv3d", "convolution", "conv_transpose1d", "grouped_mm"}
LAYOUT_CALLS = {
    "expand", "permute", "view", "unsqueeze", "squeeze", "slice", "select", "cat", "stack", "clone",
    "transpose", "as_strided", "repeat", "constant_pad_nd", "pad", "unbind", "split", "unfold",
    "split_with_sizes", "reshape", "_unsafe_view", "flip", "roll", "unflatten", "im2col", "copy",
    "slice_scatter", "select_scatter", "repeat_interleave", "lift_fresh_copy",
}  # fmt: skip
LAYOUT = (coda.TransposeOp, coda.SliceOp, coda.ConcatOp, coda.ReshapeOp)
GEMMS = (coda.LinearOp, coda.MatmulOp, coda.GroupedLinearMap)
INSIDE = (gemm.FusedOp, gemm.FinalizeOp, gemm.PackWeightOp, gemm.ScaleWeightOp)
EXTENT = 512


class _Extents(dict[str, int]):
    """Values of symbolic dimensions, EXTENT where none is known."""

    def __missing__(self, symbol: str) -> int:
        return EXTENT


@dataclass
class FusionReport:
    """What became of the operators of one function."""

    gemms: int = 0
    """GEMM kernels after siblings have been merged."""
    linears: int = 0
    """Linear maps of the model."""
    operators: Counter[str] = field(default_factory=Counter[str])
    """Named operators of the block level."""
    calls: Counter[str] = field(default_factory=Counter[str])
    """Operators that run through PyTorch."""
    considered: int = 0
    """Operators on activations that are neither GEMM, convolution, attention nor layout."""
    fused: int = 0
    considered_bytes: int = 0
    fused_bytes: int = 0
    reasons: Counter[str] = field(default_factory=Counter[str])
    """Why the others are outside, as the remarks say."""


def fusion_report(module: ModuleOp) -> FusionReport:
    """Lower a copy of `module` to the GEMM level and follow each of its operators there.

    An operator counts as fused where none of what it became is outside of a GEMM's epilogue or a
    finalize. Bytes are what the operators move by themselves, with EXTENT for dynamic dimensions.
    """
    tagged = module.clone()
    func = find_entry(tagged)
    ops = [op for op in func.body.block.ops if not isinstance(op, ReturnOp)]
    for number, op in enumerate(ops):
        op.location = NameLoc(StringAttr(f"#{number}"), op.location)
    lowering = Lowering(tagged)
    lowered = find_entry(lowering.module("gemm"))
    outside = _tags_outside(lowered)
    reasons = _reasons(lowering.remarks)
    considered = _considered(func)
    shapes, extents = SymbolicShapes(func), _Extents(unused=EXTENT)
    report = FusionReport(gemms=sum(isinstance(op, gemm.FusedOp) for op in lowered.walk()))
    for number, op in enumerate(ops):
        _count_kind(report, op)
        if op not in considered:
            continue
        size = shapes.traffic(op).evaluate(extents)
        report.considered += 1
        report.considered_bytes += size
        if f"#{number}" in outside:
            report.reasons[f"{_name(op)}: {reasons.get(f'#{number}', 'no remark')}"] += 1
        else:
            report.fused += 1
            report.fused_bytes += size
    return report


def _count_kind(report: FusionReport, op: Operation) -> None:
    if isinstance(op, CallOp):
        report.calls[op.callee.data] += 1
    elif isinstance(op, GEMMS):
        report.linears += 1
    elif not isinstance(op, (*LAYOUT, coda.ConstantOp)):
        report.operators[op.name] += 1


def _tags(location: Attribute) -> Iterator[str]:
    leaves = getattr(location, "locations", [location])
    for leaf in leaves:
        if isinstance(leaf, NameLoc) and leaf.desc.data.startswith("#"):
            yield leaf.desc.data


def _tags_outside(func: FuncOp) -> set[str]:
    """The operators that are still, at least in part, outside of GEMMs and finalizes."""
    tags = set[str]()
    for op in func.body.block.ops:
        if isinstance(op, (*INSIDE, *NOT_EXECUTED)):
            continue
        inner = [inner for region in op.regions for inner in region.walk()]
        for left in inner or [op]:
            tags.update(_tags(left.location))
    return tags


def _reasons(remarks: list[Remark]) -> dict[str, str]:
    """The last refusal of each operator."""
    return {
        tag: f"{remark.pass_name}: {remark.message}"
        for remark in remarks
        if remark.kind == "missed"
        for tag in _tags(fuse_locations(remark.location))
    }


# What is counted


def _name(op: Operation) -> str:
    return op.callee.data if isinstance(op, CallOp) else op.name


def _callee(op: Operation) -> str:
    return op.callee.data.split(".")[1] if isinstance(op, CallOp | coda.LibraryCallOp) else ""


def _is_product(op: Operation) -> bool:
    """Products of activations, and softmax."""
    return isinstance(op, coda.AttentionOp | coda.SoftmaxOp) or _callee(op) in PRODUCTS


def _is_layout(op: Operation) -> bool:
    return isinstance(op, LAYOUT) or _callee(op) in LAYOUT_CALLS


def _considered(func: FuncOp) -> set[Operation]:
    block = func.body.block
    active = _active(block)
    after, before = _near_products(block)
    return {
        op
        for op in block.ops
        if any(result in active for result in op.results)
        and not isinstance(op, (*GEMMS, *NOT_EXECUTED))
        and not _is_product(op)
        and not _is_layout(op)
        and _callee(op) not in CONVOLUTIONS
        and not (op in after and op in before)
    }


def _active(block: Block) -> set[SSAValue]:
    """The values that depend on the result of a GEMM, a convolution or an embedding."""
    active = set[SSAValue]()
    for op in block.ops:
        starts = isinstance(op, (*GEMMS, coda.EmbeddingOp)) or _callee(op) in CONVOLUTIONS
        if starts or any(operand in active for operand in op.operands):
            active.update(op.results)
    return active


def _near_products(block: Block) -> tuple[set[Operation], set[Operation]]:
    """Return what comes after a product of activations, and what before one, with only elementwise
    operators and layout between: in both sets is what attention does to its scores.
    """
    ops = list(block.ops)
    after, before = set[Operation](), set[Operation]()
    for op in ops:
        makers = [operand.owner for operand in op.operands]
        follows = any(isinstance(m, Operation) and (_is_product(m) or m in after) for m in makers)
        if follows and _keeps_scores(op):
            after.add(op)
    for op in reversed(ops):
        users = [use.operation for result in op.results for use in result.uses]
        if any(_is_product(user) or user in before for user in users) and _keeps_scores(op):
            before.add(op)
    return after, before


def _keeps_scores(op: Operation) -> bool:
    pointwise = isinstance(op, coda.ElementwiseOp | coda.CastOp | CallOp)
    shaped = bool(op.results) and len(shape_of(op.results[0])) >= 3
    return (pointwise and shaped) or _is_layout(op)

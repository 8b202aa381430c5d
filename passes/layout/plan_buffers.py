"""Pass `plan-buffers`: determine which intermediate results share an allocation."""

from collections import defaultdict
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects import func as func_dialect
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, SSAValue

from coda_ir.diagnostics import counted
from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of
from coda_ir.dialects.gemm import LibraryOp, PackWeightOp
from coda_ir.dialects.torch import CallOp, VjpOp
from coda_ir.passes.support.function_pass import NamedPass
from coda_ir.remarks import Remark, emit_remark
from coda_ir.storage import (
    has_transposed_rows,
    is_filled_in_place,
    is_view,
    last_uses,
    placement,
    storage_root,
)
from coda_ir.symbolic_shapes import SymbolicShapes, SymbolicSize

BUFFERS_ATTRIBUTE = "coda.buffers"

RESULT_BUFFER = "out"
"""Name of the buffer of a value that the function returns: its own, never shared."""

ARGUMENT_BUFFER = "argument"
"""Name of the buffer of a view of an argument: the caller's, never written."""

LIBRARY_BUFFER = "library"
"""Name of the buffer of a value of PyTorch, with transposed rows, or kept between calls."""

RESERVED_BUFFERS = (RESULT_BUFFER, ARGUMENT_BUFFER, LIBRARY_BUFFER)

LIBRARY_OPS = (
    coda.AttentionGradOp,
    coda.AttentionOp,
    CallOp,
    coda.ConcatOp,
    coda.ConstantOp,
    coda.DeltaRuleGradOp,
    coda.EmbeddingOp,
    LibraryOp,
    PackWeightOp,
    coda.PadOp,
    coda.SelectiveScanGradOp,
    coda.SSDGradOp,
    coda.SumToOp,
    VjpOp,
    coda.WeightGradientOp,
)


@dataclass
class BufferPlan:
    """The buffer of each result of a block, and the bytes saved."""

    buffers: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])
    own_bytes: SymbolicSize = field(default_factory=SymbolicSize)
    """Size of the intermediate results where each has its own buffer."""
    planned_bytes: SymbolicSize = field(default_factory=SymbolicSize)
    """Size of the buffers of the intermediate results in this plan."""
    intermediates: int = 0
    shared_buffers: int = 0


def plan_block(block: Block, shapes: SymbolicShapes) -> BufferPlan:
    """Assign a buffer to each result of `block`, first fit in the order of the operations.

    A buffer is free after the last use of its value and of all views of it; it is taken again by
    a later value with an equal number of elements (symbolically) and the same element type. Parts
    of a concatenation that kernels store where they belong are in the buffer of the whole.
    """
    plan = BufferPlan()
    dying = last_uses(block.ops)
    returned = _returned_roots(block)
    free = defaultdict[tuple[SymbolicSize, Attribute], list[str]](list)
    for op in block.ops:
        # A concatenation is there before the first of its parts, which are stored in it.
        placed = [whole for whole in map(placement, op.results) if whole is not None]
        for result in (*placed, *op.results):
            if result not in plan.buffers and isinstance(result.type, TensorType):
                plan.buffers[result] = _fixed_buffer(result, returned, plan) or _take(
                    plan, result, shapes, free
                )
        for root in dying.get(op, ()):
            name = plan.buffers.get(root)
            if name is not None and name not in RESERVED_BUFFERS:
                free[shapes.numel(root), element_type_of(root)].append(name)
    return plan


def _fixed_buffer(result: SSAValue, returned: set[SSAValue], plan: BufferPlan) -> str | None:
    """Return the buffer of a value that cannot be placed freely."""
    op, root = result.owner, storage_root(result)
    if is_view(op) or root is not result:
        return plan.buffers.get(root, ARGUMENT_BUFFER)
    is_filled = isinstance(op, coda.ConcatOp) and is_filled_in_place(op)
    if (isinstance(op, LIBRARY_OPS) and not is_filled) or has_transposed_rows(result):
        return LIBRARY_BUFFER
    return RESULT_BUFFER if result in returned else None


def _take(
    plan: BufferPlan,
    result: SSAValue,
    shapes: SymbolicShapes,
    free: defaultdict[tuple[SymbolicSize, Attribute], list[str]],
) -> str:
    """Take a free buffer that fits `result`, or a new one."""
    plan.intermediates += 1
    plan.own_bytes += shapes.bytes(result)
    fitting = free[shapes.numel(result), element_type_of(result)]
    if fitting:
        return fitting.pop(0)
    name = f"b{plan.shared_buffers}"
    plan.shared_buffers += 1
    plan.planned_bytes += shapes.bytes(result)
    return name


def _returned_roots(block: Block) -> set[SSAValue]:
    terminator = block.last_op
    if not isinstance(terminator, ReturnOp):
        return set()
    return {storage_root(value) for value in terminator.operands}


class PlanBuffersPass(NamedPass):
    """Lets intermediate results share storage, and names their buffers in `coda.buffers`.

    Before: `%h1, %s1 = gemm.fused ...`, `%h2, %s2 = gemm.fused ...` with %h1 dead at %h2
    After:  the same with `attributes {coda.buffers = ["b0", "b1"]}` on both

    Two values share a buffer only if the first and all its views have no use after the operator
    before the second, and their sizes (symbolically) and element types are equal. Results of the
    function, tensors that PyTorch allocates, and arguments keep their own storage. A function that
    calls others has no plan, because PyTorch runs it.
    """

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in op.walk():
            if isinstance(func, FuncOp) and func.body.blocks and not _calls_others(func):
                _plan_function(func)


def _calls_others(func: FuncOp) -> bool:
    return any(isinstance(op, func_dialect.CallOp) for op in func.body.block.ops)


def _plan_function(func: FuncOp) -> None:
    plan = plan_block(func.body.block, SymbolicShapes(func))
    for op in func.body.block.ops:
        # Numbers are in no buffer.
        names = [StringAttr(plan.buffers[x]) for x in op.results if x in plan.buffers]
        if names:
            op.attributes[BUFFERS_ATTRIBUTE] = ArrayAttr(names)
    emit_remark(
        Remark(
            kind="analysis",
            pass_name=PlanBuffersPass.name,
            operator=func.sym_name.data,
            location=func.location,
            message=f"{counted(plan.intermediates, 'intermediate result')} in "
            f"{counted(plan.shared_buffers, 'buffer')}: "
            f"peak of {plan.planned_bytes} bytes, {plan.own_bytes} bytes without sharing",
            function=func.sym_name.data,
        )
    )

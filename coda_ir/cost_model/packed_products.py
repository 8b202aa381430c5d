"""Products with slices of one weight, which a program has instead of a packed projection, and a
compiler has not: for training, the projection is split before gradients are derived.
"""

from collections.abc import Mapping, Sequence

from xdsl.ir import Block, Operation, SSAValue

from coda_ir.cost_model.library_gemm import LibraryGemm
from coda_ir.cost_model.operator_times import OperatorTimes
from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_bytes

_SUMMED: Mapping[type[Operation], int] = {
    coda.WeightGradientOp: 0,
    coda.LinearOp: 1,
    coda.MatmulOp: 2,
}
"""Which of M, N and K of a product with the whole weight is the sum of those of its slices."""


def packed_products(block: Block) -> list[Sequence[Operation]]:
    """Return the groups of products that one product of a packed projection or its gradients is."""
    groups: dict[object, list[Operation]] = {}
    for op in block.ops:
        if (key := _whole(op)) is not None:
            groups.setdefault(key, []).append(op)
    return [group for group in groups.values() if len(group) > 1]


def saved_us(group: Sequence[Operation], times: OperatorTimes) -> float:
    """Return the microseconds by which the library computes the one product faster."""
    parts = [times.extents(op) for op in group]
    whole = [*parts[0]]
    axis = _SUMMED[type(group[0])]
    whole[axis] = sum(extents[axis] for extents in parts)
    element = element_bytes(group[0].operands[0].type)
    alone, *separate = (
        LibraryGemm(m, n, k, element, times.device).us for m, n, k in (whole, *parts)
    )
    return sum(separate) - alone


def _whole(op: Operation) -> object:
    """Return what the parts of one product have in common; None for other operators."""
    if isinstance(op, coda.WeightGradientOp):
        user = op.result.get_user_of_unique_use()
        is_part = isinstance(user, coda.ConcatOp) and user.dim.value.data == 0
        return (user, op.x) if is_part else None
    if not isinstance(op, coda.LinearOp | coda.MatmulOp):
        return None
    part = op.weight.owner
    if not isinstance(part, coda.SliceOp) or part.range[0] != 0:
        return None
    return part.x, op.x if isinstance(op, coda.LinearOp) else _sum_with(op.result)


def _sum_with(value: SSAValue) -> SSAValue:
    """Return the sum that `value` is added up in; itself where there is none."""
    while isinstance(user := value.get_user_of_unique_use(), coda.AddOp):
        value = user.result
    return value

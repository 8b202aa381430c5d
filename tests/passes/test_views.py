"""Views: their factors give the elements that PyTorch's views have."""

from operator import mul

import pytest
import torch
from generator.choices import Choices, SeededChoices
from torch import Tensor
from xdsl.dialects.builtin import TensorType, f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.torch import CallOp
from coda_ir.passes.support.views import View
from coda_ir.symbolic_shapes import SymbolicShapes

SHAPE = (2, 6, 24)


def other_view(value: SSAValue, x: Tensor, choices: Choices) -> tuple[Operation, Tensor]:
    """A view of `value`, whose elements are `x`, as an operator and as a tensor."""
    axis, rank = choices.below(x.dim()), x.dim()
    extent = x.shape[axis]
    match choices.pick(("split", "join", "transpose", "slice", "slice with a step")):
        case "split":
            inner = choices.pick([n for n in range(1, extent + 1) if extent % n == 0])
            shape = [*x.shape[:axis], extent // inner, inner, *x.shape[axis + 1 :]]
            return coda.ReshapeOp(value, shape), x.reshape(shape)
        case "join":
            shape = [*x.shape[:axis], x.shape[axis:].numel()]
            return coda.ReshapeOp(value, shape), x.reshape(shape)
        case "transpose":
            order = [*range(axis), *range(axis + 1, rank), axis]
            return coda.TransposeOp(value, order), x.permute(order)
        case "slice":
            start = choices.below(extent)
            stop = choices.integer(start + 1, extent)
            return coda.SliceOp(value, axis, start, stop), x.narrow(axis, start, stop - start)
        case _:
            start, step = choices.below(extent), choices.integer(1, 3)
            part = x[(slice(None),) * axis + (slice(start, None, step),)]
            arguments = f"{{0}}, {axis}, {start}, {extent}, {step}"
            type = TensorType(f32, part.shape)
            return CallOp("aten.slice.Tensor", [value], arguments, [type], view=True), part


def elements(view: View, base: Tensor) -> Tensor:
    """The elements of a view, by their distances in memory."""
    base = base.clone(memory_format=torch.contiguous_format)
    strides = base.stride()
    offset = sum(map(mul, view.starts, strides))
    extents = [int(factor.extent) for factor in view.order]
    steps = [-factor.behind * strides[factor.axis] for factor in view.order]
    return base.as_strided(extents, steps, offset)


@pytest.mark.parametrize("seed", range(40))
def test_factors_give_the_elements(seed: int):
    choices, func = SeededChoices(seed), FuncOp("views", ([TensorType(f32, SHAPE)], []))
    value: SSAValue = func.args[0]
    x = torch.arange(2.0 * 6 * 24).reshape(SHAPE)
    known: dict[SSAValue, Tensor] = {value: x}
    shapes = SymbolicShapes(func)
    for _ in range(6):
        op, x = other_view(value, x, choices)
        func.body.block.add_op(op)
        value = op.results[0]
        known[value] = x
        for view in (View.of(value, shapes), View.of_columns(value, shapes)):
            assert torch.equal(elements(view, known[view.base]).reshape(x.shape), x)

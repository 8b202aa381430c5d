"""The functions of PyTorch that compute elementwise operators and their scalar operators."""

from collections.abc import Callable, Mapping
from functools import partial

import torch

from coda_ir.dialects import coda
from coda_ir.dialects.coda.elementwise_op import Scalar

Function = Callable[..., torch.Tensor]


def _function(operator: type[coda.ElementwiseOp]) -> Function:
    name, _, overload = str(operator.ATEN).partition(".")
    function = getattr(getattr(torch.ops.aten, name), overload)
    return partial(function, **operator.ATEN_OPTIONS)


ELEMENTWISE: Mapping[type[coda.ElementwiseOp], Function] = {
    operator: _function(operator) for operator in coda.ELEMENTWISE_OPS if operator.ATEN is not None
}
"""By the operator of the block level."""

SCALARS: Mapping[Scalar, Function] = {
    operator.SCALAR: function
    for operator, function in ELEMENTWISE.items()
    if operator.SCALAR is not None
}
"""By the operator of regions on floats and truth values."""

"""Each operator of the dialect is found in models of PyTorch that compute it.

`test_operator_matrix.py` has the reasons why some are not looked for.
"""

from collections.abc import Sequence
from functools import cache

import pytest
import torch
from support.operator_models import COLUMNS, MODELS, ROWS, Model
from xdsl.ir import Operation, SSAValue

from coda_ir.api import Lowering, find_entry
from coda_ir.frontends.torch import export


@cache
def results() -> Sequence[SSAValue]:
    """Return the results of the lowered model, in the order of the operators."""
    torch.default_generator.manual_seed(0)
    x, y = torch.randn(ROWS, COLUMNS), torch.randn(ROWS, COLUMNS)
    keep, ids = torch.rand(ROWS, COLUMNS) > 0.5, torch.randint(0, ROWS, (ROWS,))
    block = Lowering(export(Model(), (x, y, keep, ids)).module).module("block")
    returned = find_entry(block).get_return_op()
    assert returned is not None
    return returned.operands


@pytest.mark.slow
@pytest.mark.parametrize("operator", MODELS, ids=lambda operator: operator.name)
def test_operator_is_found(operator: type):
    """The operator is among those on which the result of its function depends."""
    found: set[Operation] = set()
    values = [results()[list(MODELS).index(operator)]]
    while values:
        op = values.pop().owner
        if isinstance(op, Operation) and op not in found:
            found.add(op)
            values.extend(op.operands)
    assert operator in map(type, found), [op.name for op in found]

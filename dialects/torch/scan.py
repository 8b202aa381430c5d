"""Scans of PyTorch whose combination is that of a linear recurrence."""

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from coda_ir.dialects.coda.shapes import (
    expect_like,
    expect_rank_at_least,
)


@irdl_op_definition
class LinearScanOp(IRDLOperation):
    """h[t] = a[t] · h[t − 1] + x[t] along the first dimension, from h = 0.

    It is `associative_scan` of PyTorch with (a, x), (b, y) -> (a · b, b · x + y), and comes from a
    captured graph. Kernels take it as a part of `coda.selective_scan` only.

        %h = torch.linear_scan %a, %x : (tensor<?x2x8x4xf32>, tensor<?x2x8x4xf32>)
            -> tensor<?x2x8x4xf32>
    """

    name = "torch.linear_scan"
    a = operand_def(TensorType)
    x = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "operands attr-dict `:` functional-type(operands, results)"

    def __init__(self, a: SSAValue | Operation, x: SSAValue | Operation):
        x = SSAValue.get(x)
        super().__init__(operands=[a, x], result_types=[x.type])

    def verify_(self) -> None:
        expect_rank_at_least("operand x", self.x, 1)
        for name, value in (("operand a", self.a), ("result", self.result)):
            expect_like(name, value, self.x)

"""An operator that orders others."""

from xdsl.dialects.builtin import TensorType
from xdsl.irdl import irdl_op_definition, operand_def, result_def, var_operand_def

from coda_ir.dialects.coda.infer_type import InferTypeOp


@irdl_op_definition
class BarrierOp(InferTypeOp):
    """x, which is there only when the operands `after` have been computed.

    What reads the result neither moves in front of them nor shares a kernel with what they need:
    so parts of a large tensor are computed one after the other, in the same memory. Costs nothing;
    the pass `drop-barriers` removes it when nothing moves any more. XLA calls it an optimization
    barrier.

    `%h1 = coda.barrier %h, %dw0 : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x8xbf16>`
    """

    name = "coda.barrier"

    x = operand_def(TensorType)
    after = var_operand_def(TensorType)
    result = result_def(TensorType)

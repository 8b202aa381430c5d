"""Norms, softmax and other operators that reduce the last dimension."""

from typing import ClassVar

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, StringAttr, TensorType, UnitAttr, f32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    var_operand_def,
    var_result_def,
)
from xdsl.utils.exceptions import VerifyException

from coda_ir.dialects.coda.infer_type import InferTypeOp, InferTypesOp, columns_to_one
from coda_ir.dialects.coda.shapes import (
    element_type_of,
    expect_floats,
    expect_norm_parameter,
    expect_one_of,
    expect_rank_at_least,
    expect_row_parameter,
    shape_of,
    stores_floats,
    verify_group,
)


@irdl_op_definition
class RMSNormOp(InferTypeOp):
    """x · rsqrt(mean(x²) + eps) ⊙ weight over the last dimension (arXiv 1910.07467).

    With `group`, each run of `group` columns is normalized separately and the weight has
    `group` elements: the per-head QK norm. Without it, a weight of B x 1 x N beside B x T x N has
    one row for each sample. Statistics are computed in float32.

    `coda.rms_norm %x, %w {eps = 1.0e-6 : f64} : (tensor<?x8xbf16>, tensor<8xbf16>) -> ...`
    """

    x = operand_def(TensorType)
    weight = opt_operand_def(TensorType)
    eps = prop_def(FloatAttr)
    group = opt_prop_def(IntegerAttr)

    @property
    def group_size(self) -> int:
        """Number of columns that are normalized together; `DYNAMIC_INDEX` where it is dynamic."""
        return shape_of(self.x)[-1] if self.group is None else self.group.value.data

    def check(self) -> None:
        expect_rank_at_least("operand x", self.x, 1)
        expect_floats("operand x", self.x)
        columns = shape_of(self.x)[-1]
        if self.group is not None:
            verify_group("group", self.group.value.data, columns)
        if self.weight is not None and self.group is not None:
            expect_row_parameter("operand weight", self.weight, self.x, self.group_size)
        elif self.weight is not None:
            expect_norm_parameter("operand weight", self.weight, self.x)


@irdl_op_definition
class LayerNormOp(InferTypeOp):
    """(x − mean) · rsqrt(var + eps) ⊙ weight + bias over the last dimension
    (arXiv 1607.06450). `params` holds the weight, then the bias; both may be missing. With
    `bias_only` the bias is all that it holds. Each may have one row for each sample, as adaptive
    norms have (adaLN, arXiv 2212.09748): B x 1 x N beside B x T x N.
    """

    x = operand_def(TensorType)
    params = var_operand_def(TensorType)
    eps = prop_def(FloatAttr)
    bias_only = opt_prop_def(UnitAttr)

    @property
    def weight(self) -> SSAValue | None:
        return self.params[0] if self.params and self.bias_only is None else None

    @property
    def bias(self) -> SSAValue | None:
        biases = self.params[0 if self.bias_only is not None else 1 :]
        return biases[0] if biases else None

    def check(self) -> None:
        expect_rank_at_least("operand x", self.x, 1)
        expect_floats("operand x", self.x)
        names = ("weight", "bias") if self.bias_only is None else ("bias",)
        expected = "a weight and a bias at most" if self.bias_only is None else "a bias alone"
        if len(self.params) > len(names) or (self.bias_only is not None and not self.params):
            raise VerifyException(f"{len(self.params)} parameters, expected {expected}")
        for what, value in zip(names, self.params, strict=False):
            expect_norm_parameter(f"operand {what}", value, self.x)


@irdl_op_definition
class NormStatsOp(InferTypesOp):
    """Row statistics of a norm, in float32, as a column (... x 1).

    `kind = "rms"` gives rstd = rsqrt(mean(x²) + eps); `kind = "layer"` gives rstd =
    rsqrt(var + eps) and the mean. Produced by the deferral of norms.

    `%r = coda.norm_stats %x {kind = "rms", eps = 1.0e-6 : f64} : (tensor<?x8xbf16>) -> ...`
    """

    infer = columns_to_one
    RESULT_ELEMENTS: ClassVar = (f32, f32)

    x = operand_def(TensorType)
    kind = prop_def(StringAttr)
    eps = prop_def(FloatAttr)
    stats = var_result_def(TensorType)

    def __init__(self, x: SSAValue | Operation, kind: str, eps: float):
        super().__init__(x, results=2 if kind == "layer" else 1, kind=kind, eps=eps)

    def check(self) -> None:
        expect_floats("operand x", self.x)
        counts = {"rms": 1, "layer": 2}
        if self.kind.data not in counts:
            raise VerifyException(f'property kind is "{self.kind.data}", expected "rms" or "layer"')
        if len(self.stats) != counts[self.kind.data]:
            raise VerifyException(
                f"{len(self.stats)} results, expected {counts[self.kind.data]} for kind "
                f'"{self.kind.data}"'
            )


@irdl_op_definition
class SoftmaxOp(InferTypeOp):
    """exp(x − max) / sum(exp(x − max)) over the last dimension, computed in float32."""

    x = operand_def(TensorType)

    def check(self) -> None:
        expect_rank_at_least("operand x", self.x, 1)
        expect_floats("operand x", self.x)


@irdl_op_definition
class ReduceOp(InferTypeOp):
    """Reduction of the last dimension to a column (... x 1): sum, mean, max or lse
    (log of the sum of exponentials) of floats. Accumulates in float32.
    """

    infer = columns_to_one
    RESULT_ELEMENTS: ClassVar = (None,)

    x = operand_def(TensorType)
    kind = prop_def(StringAttr)

    KINDS: ClassVar = ("sum", "mean", "max", "lse")

    def __init__(self, x: SSAValue | Operation, kind: str, element_type: Attribute | None = None):
        super().__init__(x, element_type=element_type, kind=kind)

    def check(self) -> None:
        expect_rank_at_least("operand x", self.x, 1)
        expect_one_of("kind", self.kind.data, self.KINDS)
        if not stores_floats(element_type_of(self.x)):
            found = element_type_of(self.x)
            raise VerifyException(f"operand x has element type {found}, expected a float type")

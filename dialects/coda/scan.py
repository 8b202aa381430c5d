"""The selective scan of state space models."""

from abc import ABC

from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from coda_ir.dialects.coda.base import CodaOp
from coda_ir.dialects.coda.shapes import (
    computes_in_float32,
    element_type_of,
    expect_element_type,
    expect_shape,
    expect_wide_element_type,
    is_float,
    shape_of,
)

MAX_STATES = 256
"""The states of a channel, at most, that a program of a kernel holds."""


class ScanLike(CodaOp, ABC):
    """The operands of a selective scan and of its gradients, and the rules for them."""

    u = operand_def(TensorType)
    dt = operand_def(TensorType)
    a = operand_def(TensorType)
    b = operand_def(TensorType)
    c = operand_def(TensorType)

    @property
    def states(self) -> int:
        """The states of a channel."""
        return shape_of(self.a)[-1]

    def verify_scan(self) -> None:
        """Raise unless the operands are those of a selective scan."""
        if len(shape_of(self.u)) != 3:
            raise VerifyException(f"operand u has rank {len(shape_of(self.u))}, expected 3")
        type = element_type_of(self.u)
        if not (is_float(type) and computes_in_float32(type)):
            raise VerifyException(f"operand u has element type {type}, expected f32, bf16 or f16")
        if len(shape_of(self.a)) != 2:
            raise VerifyException(f"operand a has rank {len(shape_of(self.a))}, expected 2")
        if self.states == DYNAMIC_INDEX or not 1 <= self.states <= MAX_STATES:
            count = "?" if self.states == DYNAMIC_INDEX else self.states
            raise VerifyException(f"operand a has {count} states, expected 1 to {MAX_STATES}")
        batch, length, channels = shape_of(self.u)
        expect_shape("operand a", self.a, (channels, self.states))
        expect_shape("operand dt", self.dt, shape_of(self.u))
        for name, value in (("dt", self.dt), ("a", self.a)):
            expect_wide_element_type(f"operand {name}", value, self.u)
        for name, value in (("b", self.b), ("c", self.c)):
            expect_shape(f"operand {name}", value, (batch, length, self.states))
            expect_element_type(f"operand {name}", value, element_type_of(self.u))


@irdl_op_definition
class SelectiveScanOp(ScanLike):
    """The selective scan of Mamba (arXiv 2312.00752): y = sum of c ⊙ h over the states, where
    h[t] = exp(dt[t] · a) · h[t − 1] + dt[t] · b[t] · u[t], from h = 0.

    u and dt are B x T x D, a is D x N, b and c are B x T x N; every channel has N states of its
    own, in float32. What surrounds the scan are operators of their own: the softplus of dt, the
    skip connection of u, the gate.

    `%y = coda.selective_scan %u, %dt, %a, %b, %c : (tensor<?x?x64xbf16>, tensor<?x?x64xf32>,
    tensor<64x16xf32>, tensor<?x?x16xbf16>, tensor<?x?x16xbf16>) -> tensor<?x?x64xbf16>`
    """

    name = "coda.selective_scan"
    result = result_def(TensorType)
    traits = traits_def(Pure())

    def __init__(
        self,
        u: SSAValue | Operation,
        dt: SSAValue | Operation,
        a: SSAValue | Operation,
        b: SSAValue | Operation,
        c: SSAValue | Operation,
    ):
        u = SSAValue.get(u)
        super().__init__(operands=[u, dt, a, b, c], result_types=[u.type])

    def verify_(self) -> None:
        self.verify_scan()
        expect_shape("result", self.result, shape_of(self.u))
        expect_element_type("result", self.result, element_type_of(self.u))


@irdl_op_definition
class SelectiveScanGradOp(ScanLike):
    """The gradients of `coda.selective_scan` for u, dt, a, b and c, from that of its result.

    The states are computed again. Sums over samples, positions and channels have a fixed order.

    `%du, %ddt, %da, %db, %dc = coda.selective_scan_grad %dy, %u, %dt, %a, %b, %c : (...) -> (...)`
    """

    name = "coda.selective_scan_grad"
    d_y = operand_def(TensorType)
    d_u = result_def(TensorType)
    d_dt = result_def(TensorType)
    d_a = result_def(TensorType)
    d_b = result_def(TensorType)
    d_c = result_def(TensorType)
    traits = traits_def(Pure())

    def __init__(self, scan: SelectiveScanOp, d_y: SSAValue | Operation):
        given = list(scan.operands)
        super().__init__(operands=[d_y, *given], result_types=[value.type for value in given])

    def verify_(self) -> None:
        self.verify_scan()
        expect_shape("operand d_y", self.d_y, shape_of(self.u))
        expect_element_type("operand d_y", self.d_y, element_type_of(self.u))
        for operand, result in zip(self.operands[1:], self.results, strict=True):
            name = f"result {result.index}"
            expect_shape(name, result, shape_of(operand))
            expect_element_type(name, result, element_type_of(operand))

"""The state space model of Mamba 2, whose heads have one decay for all of their states."""

from abc import ABC

from xdsl.dialects.builtin import DYNAMIC_INDEX, IntegerAttr, TensorType, f32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import irdl_op_definition, prop_def
from xdsl.utils.exceptions import VerifyException

from coda_ir.dialects.coda.scan import (
    MAX_STATES,
    StateSpaceGradLike,
    StateSpaceLike,
    StateSpaceModel,
)
from coda_ir.dialects.coda.shapes import (
    element_type_of,
    expect_shape,
    optional_operand,
    shape_of,
)

MAX_HEAD_COLUMNS = 256
"""The columns of a head, at most."""


class SSDLike(StateSpaceLike, ABC):
    """The operands of a state space model of heads and of its gradients, and the rules for them."""

    states = prop_def(IntegerAttr)

    @property
    def states_shape(self) -> tuple[int, ...]:
        """The shape of the states at one position: B x heads x columns of a head x states."""
        return (shape_of(self.x)[0], self.heads, self.head_columns, self.state_count)

    @property
    def state_count(self) -> int:
        """The states of a column."""
        return self.states.value.data

    @property
    def heads(self) -> int:
        """The number of heads."""
        return shape_of(self.a)[0]

    @property
    def head_columns(self) -> int:
        """The columns of a head."""
        return shape_of(self.x)[2] // self.heads

    @property
    def groups(self) -> int:
        """The groups of heads that share columns of b and c."""
        return shape_of(self.b)[2] // self.state_count

    def verify_shapes(self) -> None:
        """Raise unless the operands have the shapes and the states of a model of heads."""
        if not 1 <= self.state_count <= MAX_STATES:
            raise VerifyException(
                f"property states is {self.state_count}, expected 1 to {MAX_STATES}"
            )
        self._verify_heads()
        batch, length, _ = shape_of(self.x)
        expect_shape("operand dt", self.dt, (batch, length, self.heads))
        expect_shape("operand b", self.b, (batch, length, shape_of(self.b)[-1]))
        expect_shape("operand c", self.c, shape_of(self.b))

    def _verify_heads(self) -> None:
        """Raise unless the columns are those of heads, and of groups that divide them."""
        if len(shape_of(self.a)) != 1 or self.heads in (DYNAMIC_INDEX, 0):
            raise VerifyException(
                f"operand a has type {self.a.type}, expected a known number of heads"
            )
        columns, read = shape_of(self.x)[2], shape_of(self.b)[-1:]
        if columns == DYNAMIC_INDEX or columns % self.heads:
            raise VerifyException(
                f"operand x has {'?' if columns == DYNAMIC_INDEX else columns} columns, "
                f"expected a multiple of the {self.heads} heads"
            )
        if not 1 <= self.head_columns <= MAX_HEAD_COLUMNS:
            raise VerifyException(
                f"a head has {self.head_columns} columns, expected 1 to {MAX_HEAD_COLUMNS}"
            )
        is_known = len(shape_of(self.b)) == 3 and DYNAMIC_INDEX not in read
        if not is_known or read[0] % self.state_count or not self.groups:
            raise VerifyException(
                f"operand b has type {self.b.type}, expected columns of {self.state_count} states"
            )
        if self.heads % self.groups:
            raise VerifyException(
                f"operand b has {self.groups} groups, expected a divisor of the {self.heads} heads"
            )


@irdl_op_definition
class SSDOp(StateSpaceModel, SSDLike):
    """The state space model of Mamba 2 (SSD, arXiv 2405.21060): y = h · c over the states, where
    h[t] = exp(dt[t] · a) · h[t − 1] + dt[t] · x[t] ⊗ b[t] for each head, from h = 0 or from the
    states `initial`. A second result has the states behind the last position.

    x is B x T x heads·columns, dt is B x T x heads, a has one rate for each head; b and c are
    B x T x groups·states, and each group serves as many heads that follow one another. States are
    float32, B x heads x columns of a head x states. The result may be wider than x. What surrounds
    the model are separate operators: the softplus of dt, the skip connection of x, the gate and its
    norm.

    `%y = coda.ssd %x, %dt, %a, %b, %c {states = 128 : i64} : (tensor<?x?x512xbf16>,
    tensor<?x?x8xf32>, tensor<8xf32>, tensor<?x?x128xbf16>, tensor<?x?x128xbf16>)
    -> tensor<?x?x512xbf16>`
    """

    name = "coda.ssd"

    def __init__(
        self,
        x: SSAValue | Operation,
        dt: SSAValue | Operation,
        a: SSAValue | Operation,
        b: SSAValue | Operation,
        c: SSAValue | Operation,
        initial: SSAValue | Operation | None = None,
        *,
        states: int,
        final: bool = False,
        result_element_type: Attribute | None = None,
    ):
        x, a = SSAValue.get(x), SSAValue.get(a)
        type = result_element_type or element_type_of(x)
        (batch, _, columns), (heads,) = shape_of(x), shape_of(a)
        last = TensorType(f32, (batch, heads, columns // heads, states))
        super().__init__(
            operands=[x, dt, a, b, c, optional_operand(initial)],
            result_types=[TensorType(type, shape_of(x)), [last] * final],
            properties={"states": IntegerAttr(states, 64)},
        )


@irdl_op_definition
class SSDGradOp(StateSpaceGradLike, SSDLike):
    """The gradients of `coda.ssd` for x, dt, a, b and c, from that of its result; with states to
    begin with, and the adjoint of those at the end, also for the former.

    The states are computed again. Sums over samples, positions and heads have a fixed order.

    `%dx, %ddt, %da, %db, %dc = coda.ssd_grad %dy, %x, %dt, %a, %b, %c {...} : (...) -> (...)`
    """

    name = "coda.ssd_grad"

"""The state space model of Mamba 2, whose heads have one decay for all of their states."""

from abc import ABC

from xdsl.dialects.builtin import DYNAMIC_INDEX, IntegerAttr, TensorType, f32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_result_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from coda_ir.dialects.coda.base import CodaOp
from coda_ir.dialects.coda.scan import MAX_STATES
from coda_ir.dialects.coda.shapes import (
    computes_in_float32,
    element_type_of,
    expect_element_type,
    expect_shape,
    expect_wide_element_type,
    is_float,
    optional_operand,
    shape_of,
)

MAX_HEAD_COLUMNS = 256
"""The columns of a head, at most."""


class SSDLike(CodaOp, ABC):
    """The operands of a state space model of heads and of its gradients, and the rules for them."""

    x = operand_def(TensorType)
    dt = operand_def(TensorType)
    a = operand_def(TensorType)
    b = operand_def(TensorType)
    c = operand_def(TensorType)
    carried = var_operand_def(TensorType)
    """The states before the first position; of gradients, also the adjoint of the last ones."""
    states = prop_def(IntegerAttr)

    @property
    def initial(self) -> SSAValue | None:
        """The states before the first position, where they are not 0."""
        return self.carried[0] if self.carried else None

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

    def verify_ssd(self) -> None:
        """Raise unless the operands are those of a state space model of heads."""
        if len(shape_of(self.x)) != 3:
            raise VerifyException(f"operand x has rank {len(shape_of(self.x))}, expected 3")
        type = element_type_of(self.x)
        if not (is_float(type) and computes_in_float32(type)):
            raise VerifyException(f"operand x has element type {type}, expected f32, bf16 or f16")
        if not 1 <= self.state_count <= MAX_STATES:
            raise VerifyException(
                f"property states is {self.state_count}, expected 1 to {MAX_STATES}"
            )
        self._verify_heads()
        batch, length, _ = shape_of(self.x)
        expect_shape("operand dt", self.dt, (batch, length, self.heads))
        expect_shape("operand b", self.b, (batch, length, shape_of(self.b)[-1]))
        expect_shape("operand c", self.c, shape_of(self.b))
        for name, value in (("dt", self.dt), ("a", self.a)):
            expect_wide_element_type(f"operand {name}", value, self.x)
        for name, value in (("b", self.b), ("c", self.c)):
            expect_element_type(f"operand {name}", value, type)
        for name, value in zip(("initial", "d_final"), self.carried, strict=False):
            self.verify_states(f"operand {name}", value)

    def verify_states(self, name: str, value: SSAValue) -> None:
        """Raise unless `value` has the type of states at one position."""
        expect_shape(name, value, self.states_shape)
        expect_element_type(name, value, f32)

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
class SSDOp(SSDLike):
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
    result = result_def(TensorType)
    final = opt_result_def(TensorType)
    traits = traits_def(Pure())

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
        type, (batch, _, columns), (heads,) = (
            result_element_type or element_type_of(x),
            shape_of(x),
            shape_of(a),
        )
        shape = (batch, heads, columns // heads, states)
        super().__init__(
            operands=[x, dt, a, b, c, optional_operand(initial)],
            result_types=[TensorType(type, shape_of(x)), [TensorType(f32, shape)] * final],
            properties={"states": IntegerAttr(states, 64)},
        )

    def verify_(self) -> None:
        self.verify_ssd()
        if len(self.carried) > 1:
            raise VerifyException(f"{len(self.carried)} operands of states, expected one at most")
        if self.final is not None:
            self.verify_states("result final", self.final)
        expect_shape("result", self.result, shape_of(self.x))
        expect_wide_element_type("result", self.result, self.x)


@irdl_op_definition
class SSDGradOp(SSDLike):
    """The gradients of `coda.ssd` for x, dt, a, b and c, from that of its result; with states to
    begin with, and the adjoint of those at the end, also for the former.

    The states are computed again. Sums over samples, positions and heads have a fixed order.

    `%dx, %ddt, %da, %db, %dc = coda.ssd_grad %dy, %x, %dt, %a, %b, %c {...} : (...) -> (...)`
    """

    name = "coda.ssd_grad"
    d_y = operand_def(TensorType)
    d_x = result_def(TensorType)
    d_dt = result_def(TensorType)
    d_a = result_def(TensorType)
    d_b = result_def(TensorType)
    d_c = result_def(TensorType)
    d_initial = opt_result_def(TensorType)
    traits = traits_def(Pure())

    def __init__(
        self,
        op: SSDOp,
        d_y: SSAValue | Operation,
        carried: tuple[SSAValue, SSAValue] | tuple[()] = (),
    ):
        """The gradients of `op`, with states to begin with and the adjoint of those at the end."""
        given = list(op.operands)[:5]
        super().__init__(
            operands=[d_y, *given, carried],
            result_types=[*(v.type for v in given), [v.type for v in carried[:1]]],
            properties={"states": op.states},
        )

    @property
    def d_final(self) -> SSAValue | None:
        """The adjoint of the states behind the last position, where it is not 0."""
        return self.carried[1] if self.carried else None

    def verify_(self) -> None:
        self.verify_ssd()
        if len(self.carried) not in (0, 2) or bool(self.carried) != (self.d_initial is not None):
            raise VerifyException(
                f"{len(self.carried)} operands of states and {len(self.results) - 5} results for "
                "them, expected 2 and 1, or none"
            )
        expect_shape("operand d_y", self.d_y, shape_of(self.x))
        expect_wide_element_type("operand d_y", self.d_y, self.x)
        for operand, result in zip(self.operands[1:], self.results, strict=False):
            name = f"result {result.index}"
            expect_shape(name, result, shape_of(operand))
            expect_element_type(name, result, element_type_of(operand))

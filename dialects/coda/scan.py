"""State space models: the rules of all of them, and the models of Mamba and of Mamba 2."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from xdsl.dialects.builtin import DYNAMIC_INDEX, IntegerAttr, TensorType, UnitAttr, f32
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    opt_result_def,
    prop_def,
    result_def,
    var_operand_def,
)
from xdsl.utils.exceptions import VerifyException

from coda_ir.dialects.coda.base import CodaOp
from coda_ir.dialects.coda.infer_type import Extents, InferTypeOp, Operand
from coda_ir.dialects.coda.library_call import expect_rank
from coda_ir.dialects.coda.shapes import (
    computes_in_float32,
    element_type_of,
    expect_element_type,
    expect_like,
    expect_shape,
    expect_tensor,
    expect_wide_element_type,
    is_float,
    shape_of,
    wrong_property,
    wrong_shape,
)

MAX_STATES = 256
"""The states of a channel, at most, that a program of a kernel holds."""

MAX_HEAD_COLUMNS = 256
"""The columns of a head, at most."""


class StateSpaceLike(CodaOp, ABC):
    """The operands of a state space model and of its gradients, and the rules for them."""

    WRITTEN: ClassVar[str]
    """The operand that is written into the states. The result has its shape."""

    carried = var_operand_def(TensorType)
    """The states before the first position; of gradients, also the adjoint of the last ones."""

    @property
    def written(self) -> SSAValue:
        """The operand that is written into the states."""
        return getattr(self, self.WRITTEN)

    @property
    @abstractmethod
    def state_count(self) -> int:
        """The states of a column."""

    @property
    @abstractmethod
    def states_shape(self) -> tuple[int, ...]:
        """The shape of the states at one position."""

    @property
    def initial(self) -> SSAValue | None:
        """The states before the first position, where they are not 0."""
        return self.carried[0] if self.carried else None

    @abstractmethod
    def verify_shapes(self) -> None:
        """Raise unless the operands have the shapes and the states of the model."""

    def verify_states(self, name: str, value: SSAValue) -> None:
        """Raise unless `value` has the type of states at one position."""
        expect_tensor(name, value, self.states_shape, f32)

    def verify_operands(self) -> None:
        """Raise unless the operands are those of the model."""
        name, type = f"operand {self.WRITTEN}", element_type_of(self.written)
        expect_rank(name, self.written, 3)
        if not (is_float(type) and computes_in_float32(type)):
            raise VerifyException(f"{name} has element type {type}, expected f32, bf16 or f16")
        self.verify_shapes()
        for name, value in zip(("initial", "d_final"), self.carried, strict=False):
            self.verify_states(f"operand {name}", value)


class MambaLike(StateSpaceLike, ABC):
    """The operands of a model of Mamba or Mamba 2, and of its gradients."""

    WRITTEN: ClassVar = "x"

    x = operand_def(TensorType)
    dt = operand_def(TensorType)
    a = operand_def(TensorType)
    b = operand_def(TensorType)
    c = operand_def(TensorType)

    def verify_operands(self) -> None:
        super().verify_operands()
        for name, value in (("dt", self.dt), ("a", self.a)):
            expect_wide_element_type(f"operand {name}", value, self.x)
        for name, value in (("b", self.b), ("c", self.c)):
            expect_element_type(f"operand {name}", value, element_type_of(self.x))


class StateSpaceModel(StateSpaceLike, InferTypeOp, ABC):
    """A state space model: its result, and if wanted the states after the last position."""

    in_place = opt_prop_def(UnitAttr)
    """Present if the last states are stored where the operand of states is."""
    result = result_def(TensorType)
    final = opt_result_def(TensorType)

    def __init__(self, *operands: Operand, final: bool = False, **given: Any):
        """Build the model, with `final` also the states after the last position as a result."""
        super().__init__(*operands, results=1 + final, **given)

    @property
    def is_step(self) -> bool:
        """Return whether there is one position: the states are read and written once."""
        return shape_of(self.written)[1] == 1

    def check(self) -> None:
        self.verify_operands()
        if len(self.carried) > 1:
            raise VerifyException(f"{len(self.carried)} operands of states, expected one at most")
        if self.in_place and not (self.is_step and self.carried and self.final is not None):
            raise VerifyException(
                "property in_place is set, expected one position, and states before and after it"
            )


class StateSpaceGradLike(StateSpaceLike, ABC):
    """The gradients of a state space model for its operands, from that of its result."""

    d_y = operand_def(TensorType)
    d_initial = opt_result_def(TensorType)

    @property
    def d_final(self) -> SSAValue | None:
        """The adjoint of the states after the last position, where it is not 0."""
        return self.carried[1] if self.carried else None

    def __init__(
        self,
        op: StateSpaceLike,
        d_y: SSAValue | Operation,
        carried: tuple[SSAValue, SSAValue] | tuple[()] = (),
    ):
        """The gradients of `op`, with states to begin with and the adjoint of those at the end."""
        given = op.operands[: len(op.operands) - len(op.carried)]
        super().__init__(
            operands=[d_y, *given, carried],
            result_types=[*(v.type for v in given), [v.type for v in carried[:1]]],
            properties=dict(op.properties),
        )

    def verify_(self) -> None:
        self.verify_operands()
        expect_shape("operand d_y", self.d_y, shape_of(self.written))
        expect_wide_element_type("operand d_y", self.d_y, self.written)
        given = len(self.operands) - 1 - len(self.carried)
        if len(self.carried) not in (0, 2) or bool(self.carried) != (self.d_initial is not None):
            raise VerifyException(
                f"{len(self.carried)} operands of states and {len(self.results) - given} results "
                "for them, expected 2 and 1, or none"
            )
        for operand, result in zip(self.operands[1:], self.results, strict=False):
            name = f"result {result.index}"
            expect_like(name, result, operand)


class MambaGradLike(StateSpaceGradLike, ABC):
    """The gradients for x, dt, a, b and c."""

    d_x = result_def(TensorType)
    d_dt = result_def(TensorType)
    d_a = result_def(TensorType)
    d_b = result_def(TensorType)
    d_c = result_def(TensorType)


class ScanLike(MambaLike, ABC):
    """The operands of a selective scan and of its gradients, and the rules for them."""

    @property
    def state_count(self) -> int:
        """The states of a channel."""
        return shape_of(self.a)[-1]

    @property
    def states_shape(self) -> tuple[int, ...]:
        """The shape of the states at one position: B x channels x states."""
        return (shape_of(self.x)[0], *shape_of(self.a))

    def verify_shapes(self) -> None:
        """Raise unless the operands have the shapes and the states of a selective scan."""
        expect_rank("operand a", self.a, 2)
        if self.state_count == DYNAMIC_INDEX or not 1 <= self.state_count <= MAX_STATES:
            known = self.state_count != DYNAMIC_INDEX
            count = f"{self.state_count}" if known else "an unknown number of"
            raise VerifyException(f"operand a has {count} states, expected 1 to {MAX_STATES}")
        batch, length, channels = shape_of(self.x)
        expect_shape("operand a", self.a, (channels, self.state_count))
        expect_shape("operand dt", self.dt, shape_of(self.x))
        for name, value in (("b", self.b), ("c", self.c)):
            expect_shape(f"operand {name}", value, (batch, length, self.state_count))


@irdl_op_definition
class SelectiveScanOp(StateSpaceModel, ScanLike):
    """The selective scan of Mamba (arXiv 2312.00752): y = sum of c ⊙ h over the states, where
    h[t] = exp(dt[t] · a) · h[t − 1] + dt[t] · b[t] · x[t], from h = 0 or from the states `initial`.
    A second result has the states after the last position.

    x and dt are B x T x D, a is D x N, b and c are B x T x N; every channel has N states of its
    own, in float32, B x D x N at one position. What surrounds the scan are separate operators:
    the softplus of dt, the skip connection of x, the gate.

    `%y = coda.selective_scan %x, %dt, %a, %b, %c : (tensor<?x?x64xbf16>, tensor<?x?x64xf32>,
    tensor<64x16xf32>, tensor<?x?x16xbf16>, tensor<?x?x16xbf16>) -> tensor<?x?x64xbf16>`
    """

    RESULT_ELEMENTS: ClassVar = (0, f32)

    @staticmethod
    def infer(x: Extents, dt: Extents, a: Extents, *_: Extents, **__: object) -> list[Extents]:
        return [x, (x[0], *a)]


@irdl_op_definition
class SelectiveScanGradOp(MambaGradLike, ScanLike):
    """The gradients of `coda.selective_scan` for x, dt, a, b and c, from that of its result; with
    states to begin with, and the adjoint of those at the end, also for the former.

    The states are computed again. Sums over samples, positions and channels have a fixed order.

    `%dx, %ddt, %da, %db, %dc = coda.selective_scan_grad %dy, %x, %dt, %a, %b, %c : (...) -> (...)`
    """


class SSDLike(MambaLike, ABC):
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
            raise wrong_property("states", self.state_count, f"1 to {MAX_STATES}")
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
                f"operand x has heads of {self.head_columns} columns, expected 1 to "
                f"{MAX_HEAD_COLUMNS}"
            )
        is_known = len(shape_of(self.b)) == 3 and DYNAMIC_INDEX not in read
        if not is_known or read[0] % self.state_count or not self.groups:
            expected = f"columns of {self.state_count} states"
            raise wrong_shape("operand b", shape_of(self.b), expected)
        if self.heads % self.groups:
            raise VerifyException(
                f"operand b has {self.groups} groups, expected a divisor of the {self.heads} heads"
            )


@irdl_op_definition
class SSDOp(StateSpaceModel, SSDLike):
    """The state space model of Mamba 2 (SSD, arXiv 2405.21060): y = h · c over the states, where
    h[t] = exp(dt[t] · a) · h[t − 1] + dt[t] · x[t] ⊗ b[t] for each head, from h = 0 or from the
    states `initial`. A second result has the states after the last position.

    x is B x T x heads·columns, dt is B x T x heads, a has one rate for each head; b and c are
    B x T x groups·states, and consecutive heads share a group equally. States are
    float32, B x heads x columns of a head x states. The result may be wider than x. What surrounds
    the model are separate operators: the softplus of dt, the skip connection of x, the gate and its
    norm.

    `%y = coda.ssd %x, %dt, %a, %b, %c {states = 128 : i64} : (tensor<?x?x512xbf16>,
    tensor<?x?x8xf32>, tensor<8xf32>, tensor<?x?x128xbf16>, tensor<?x?x128xbf16>)
    -> tensor<?x?x512xbf16>`
    """

    RESULT_ELEMENTS: ClassVar = (None, f32)

    @staticmethod
    def infer(
        x: Extents, dt: Extents, a: Extents, *_: Extents, states: int, **__: object
    ) -> list[Extents]:
        return [x, (x[0], *a, x[2] // a[0], states)]

    def check(self) -> None:
        super().check()
        expect_wide_element_type("result", self.result, self.x)


@irdl_op_definition
class SSDGradOp(MambaGradLike, SSDLike):
    """The gradients of `coda.ssd` for x, dt, a, b and c, from that of its result; with states to
    begin with, and the adjoint of those at the end, also for the former.

    The states are computed again. Sums over samples, positions and heads have a fixed order.

    `%dx, %ddt, %da, %db, %dc = coda.ssd_grad %dy, %x, %dt, %a, %b, %c {...} : (...) -> (...)`
    """

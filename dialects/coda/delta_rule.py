"""Linear attention by the gated delta rule."""

from abc import ABC
from typing import ClassVar

from xdsl.dialects.builtin import DYNAMIC_INDEX, IntegerAttr, TensorType, f32
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from coda_ir.dialects.coda.infer_type import Extents
from coda_ir.dialects.coda.library_call import expect_rank
from coda_ir.dialects.coda.scan import (
    MAX_HEAD_COLUMNS,
    MAX_STATES,
    StateSpaceGradLike,
    StateSpaceLike,
    StateSpaceModel,
)
from coda_ir.dialects.coda.shapes import (
    element_type_of,
    expect_element_type,
    expect_shape,
    expect_wide_element_type,
    shape_of,
    wrong_property,
)


class DeltaRuleLike(StateSpaceLike, ABC):
    """The operands of the gated delta rule and of its gradients, and the rules for them."""

    WRITTEN: ClassVar = "v"

    q = operand_def(TensorType)
    k = operand_def(TensorType)
    v = operand_def(TensorType)
    beta = operand_def(TensorType)
    decay = operand_def(TensorType)
    head_dim = prop_def(IntegerAttr)

    @property
    def state_count(self) -> int:
        """The states of a column of v: as many as a head of keys has columns."""
        return self.head_dim.value.data

    @property
    def states_shape(self) -> tuple[int, ...]:
        """The shape of the states at one position: B x heads x head_dim x columns of a head."""
        return (shape_of(self.v)[0], self.heads, self.state_count, self.head_columns)

    @property
    def heads(self) -> int:
        """The number of heads of v."""
        return shape_of(self.beta)[-1]

    @property
    def key_heads(self) -> int:
        """The number of heads of q and k, each of which serves consecutive heads of v."""
        return shape_of(self.k)[-1] // self.state_count

    @property
    def head_columns(self) -> int:
        """The columns of a head of v."""
        return shape_of(self.v)[2] // self.heads

    def verify_operands(self) -> None:
        super().verify_operands()
        for name, value in (("q", self.q), ("k", self.k)):
            expect_element_type(f"operand {name}", value, element_type_of(self.v))
        for name, value in (("beta", self.beta), ("decay", self.decay)):
            expect_wide_element_type(f"operand {name}", value, self.v)

    def verify_shapes(self) -> None:
        """Raise unless the operands have the shapes of positions and of heads."""
        if not 1 <= self.state_count <= MAX_STATES:
            raise wrong_property("head_dim", self.state_count, f"1 to {MAX_STATES}")
        expect_rank("operand beta", self.beta, 3)
        expect_rank("operand k", self.k, 3)
        self._verify_heads()
        batch, length, _ = shape_of(self.v)
        expect_shape("operand beta", self.beta, (batch, length, self.heads))
        expect_shape("operand decay", self.decay, shape_of(self.beta))
        expect_shape("operand k", self.k, (batch, length, shape_of(self.k)[-1]))
        expect_shape("operand q", self.q, shape_of(self.k))

    def _verify_heads(self) -> None:
        """Raise unless columns are those of heads, and the heads of keys divide those of values."""
        if self.heads in (DYNAMIC_INDEX, 0):
            raise VerifyException(
                f"operand beta has type {self.beta.type}, expected a known number of heads"
            )
        counts = (("v", self.v, self.heads, "heads"), ("k", self.k, self.state_count, "columns"))
        for name, value, count, unit in counts:
            columns = shape_of(value)[2]
            if columns == DYNAMIC_INDEX or columns % count or not columns:
                raise VerifyException(
                    f"operand {name} has {'?' if columns == DYNAMIC_INDEX else columns} columns, "
                    f"expected a multiple of {count} {unit}"
                )
        if self.head_columns > MAX_HEAD_COLUMNS:
            raise VerifyException(
                f"operand v has heads of {self.head_columns} columns, expected at most "
                f"{MAX_HEAD_COLUMNS}"
            )
        if self.heads % self.key_heads:
            raise VerifyException(
                f"operand k has {self.key_heads} heads, expected a divisor of the {self.heads} "
                "heads of operand v"
            )


@irdl_op_definition
class DeltaRuleOp(StateSpaceModel, DeltaRuleLike):
    """The gated delta rule (arXiv 2412.06464): y = qᵀ · S for each head, where S[t] = exp(decay[t])
    · (I − beta[t] · k[t] k[t]ᵀ) · S[t − 1] + beta[t] · k[t] v[t]ᵀ, from S = 0 or from the states
    `initial`. A second result has the states after the last position.

    q and k are B x T x key heads·head_dim, v is B x T x heads·columns; each head of q and k serves
    the same number of consecutive heads of v. beta and decay are B x T x heads; decays are
    logarithms, 0 where nothing decays. States are float32, B x heads x head_dim x columns of a
    head. The result may be wider than v. The norms of q and k and the scale of q are separate
    operators.

    `%y = coda.delta_rule %q, %k, %v, %beta, %decay {head_dim = 128 : i64} :
    (tensor<?x?x256xbf16>, tensor<?x?x256xbf16>, tensor<?x?x512xbf16>, tensor<?x?x4xf32>,
    tensor<?x?x4xf32>) -> tensor<?x?x512xbf16>`
    """

    RESULT_ELEMENTS: ClassVar = (None, f32)

    @staticmethod
    def infer(
        q: Extents,
        k: Extents,
        v: Extents,
        beta: Extents,
        *_: Extents,
        head_dim: int,
        **__: object,
    ) -> list[Extents]:
        return [v, (v[0], beta[2], head_dim, v[2] // beta[2])]

    def check(self) -> None:
        super().check()
        expect_wide_element_type("result", self.result, self.v)


@irdl_op_definition
class DeltaRuleGradOp(StateSpaceGradLike, DeltaRuleLike):
    """The gradients of `coda.delta_rule` for q, k, v, beta and decay, from that of its result; with
    states to begin with, and the adjoint of those at the end, also for the former.

    The states are computed again. Sums over positions and heads have a fixed order.

    `%dq, %dk, %dv, %dbeta, %ddecay = coda.delta_rule_grad %dy, %q, %k, %v, %beta, %decay {...} :
    (...) -> (...)`
    """

    d_q = result_def(TensorType)
    d_k = result_def(TensorType)
    d_v = result_def(TensorType)
    d_beta = result_def(TensorType)
    d_decay = result_def(TensorType)

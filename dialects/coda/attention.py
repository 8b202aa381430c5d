"""Attention and its gradient."""

from abc import ABC
from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    BoolAttr,
    Float64Type,
    FloatAttr,
    IntegerAttr,
    TensorType,
    f32,
    f64,
    i1,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    AttrSizedResultSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    opt_result_def,
    prop_def,
    result_def,
)
from xdsl.irdl.declarative_assembly_format import (
    CustomDirective,
    ParsingState,
    PrintingState,
    TypeDirective,
    irdl_custom_directive,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from coda_ir.dialects.coda.base import CodaOp
from coda_ir.dialects.coda.infer_type import OPEN, Extents, InferTypeOp, Operand
from coda_ir.dialects.coda.shapes import (
    AnyTensor,
    element_type_of,
    expect_element_type,
    expect_floats,
    expect_like,
    expect_row_parameter,
    expect_shape,
    expect_tensor,
    expect_wide_element_type,
    format_shape,
    is_float,
    optional_operand,
    quotient,
    shape_of,
    shapes_agree,
    verify_group,
    wrong_property,
    wrong_shape,
)


@irdl_custom_directive
class ResultType(CustomDirective):
    """Parse the type of a single result; as in a functional type, it may be in parentheses."""

    result: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        is_enclosed = parser.parse_optional_punctuation("(") is not None
        self.result.parse(parser, state)
        if is_enclosed:
            parser.parse_punctuation(")")

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        self.result.print(printer, state, op)


class AttentionLike(CodaOp, ABC):
    """The operands and properties that attention and its gradient share."""

    q = operand_def(TensorType)
    k = operand_def(TensorType)
    v = operand_def(TensorType)
    sinks = opt_operand_def(TensorType)
    mask = opt_operand_def(TensorType)
    head_dim = prop_def(IntegerAttr)
    value_dim = opt_prop_def(IntegerAttr)
    causal = prop_def(BoolAttr)
    window = opt_prop_def(IntegerAttr)
    scale = opt_prop_def(FloatAttr)
    softcap = opt_prop_def(FloatAttr)

    @property
    def heads(self) -> int:
        """The number of heads of q, DYNAMIC_INDEX if its columns are dynamic."""
        return quotient(shape_of(self.q)[-1], self.head_dim.value.data)

    @property
    def value_columns(self) -> int:
        """The columns of a head of v and of the result."""
        return (self.value_dim or self.head_dim).value.data

    @property
    def result_shape(self) -> tuple[int, ...]:
        """The shape of the result: that of q, with heads as wide as those of v."""
        return _result_shape(self.q, self.head_dim.value.data, self.value_columns)

    @property
    def scores_shape(self) -> tuple[int, int, int, int]:
        """B x heads x T x S."""
        batch = shape_of(self.q)[0] if len(shape_of(self.q)) == 3 else 1
        return batch, self.heads, shape_of(self.q)[-2], shape_of(self.k)[-2]

    def verify_lse(self, what: str, lse: SSAValue) -> None:
        """Check a logsumexp of scores."""
        expected = lse_type(self.q, self.head_dim.value.data)
        expect_tensor(what, lse, expected.get_shape(), expected.element_type)

    def verify_inputs(self) -> None:
        """Check the operands and properties."""
        expect_floats("operand q", self.q)
        head_dim = self.head_dim.value.data
        value = "head_dim" if self.value_dim is None else "value_dim"
        groups = {"q": ("head_dim", head_dim), "k": ("head_dim", head_dim)}
        groups["v"] = (value, self.value_columns)
        for what, group in groups.items():
            operand: SSAValue = getattr(self, what)
            if len(shape_of(operand)) not in (2, 3):
                raise VerifyException(
                    f"operand {what} has rank {len(shape_of(operand))}, expected 2 or 3"
                )
            verify_group(*group, shape_of(operand)[-1])
            expect_element_type(f"operand {what}", operand, element_type_of(self.q))
        if self.value_dim is not None and DYNAMIC_INDEX in self._columns:
            expected = "static numbers of columns with it"
            raise wrong_property("value_dim", self.value_columns, expected)
        expect_shape("operand k", self.k, (*shape_of(self.q)[:-2], *shape_of(self.k)[-2:]))
        expect_shape("operand v", self.v, _result_shape(self.k, head_dim, self.value_columns))
        q_columns, k_columns = shape_of(self.q)[-1], shape_of(self.k)[-1]
        if DYNAMIC_INDEX not in (q_columns, k_columns) and q_columns % k_columns:
            raise VerifyException(
                f"operand k has {k_columns // head_dim} heads, expected a divisor of the "
                f"{q_columns // head_dim} heads of operand q"
            )
        self._verify_hiding()

    @property
    def _columns(self) -> tuple[int, ...]:
        """The numbers of columns of q, k and v."""
        return tuple(shape_of(value)[-1] for value in (self.q, self.k, self.v))

    def _verify_hiding(self) -> None:
        """The window, the sinks and the mask."""
        if self.window is not None and self.window.value.data < 1:
            raise wrong_property("window", self.window.value.data, "1 or more positions")
        if self.sinks is not None:
            expect_row_parameter("operand sinks", self.sinks, self.q, self.heads)
        if self.mask is None:
            return
        shape, scores = shape_of(self.mask), self.scores_shape
        if not 2 <= len(shape) <= len(scores):
            raise VerifyException(f"operand mask has rank {len(shape)}, expected 2 to 4")
        expected = scores[len(scores) - len(shape) :]
        stretched = [1 if a == 1 else b for a, b in zip(shape, expected, strict=True)]
        if not shapes_agree(shape, stretched):
            expected = f"one that broadcasts to {format_shape(scores)}: batch, heads, queries, keys"
            raise wrong_shape("operand mask", shape, expected)
        if element_type_of(self.mask) != i1:
            expect_wide_element_type("operand mask", self.mask, self.q)


def _result_shape(x: SSAValue, head_dim: int, value_dim: int) -> tuple[int, ...]:
    """Return the shape of `x` with heads of `value_dim` columns instead of `head_dim`."""
    *rows, columns = shape_of(x)
    if value_dim == head_dim or columns == DYNAMIC_INDEX:
        return (*rows, columns)
    return (*rows, columns // head_dim * value_dim)


def lse_type(q: SSAValue, head_dim: int) -> AnyTensor:
    """Return the type of the logsumexp of the scores of queries `q`: B x heads x T."""
    *batch, queries, columns = shape_of(q)
    heads = quotient(columns, head_dim)
    shape = (batch[0] if batch else 1, heads, queries)
    return TensorType(lse_element_type(element_type_of(q)), shape)


def lse_element_type(type: Attribute) -> Attribute:
    """Return the element type of the logsumexp of scores of queries with elements of `type`."""
    return f64 if isinstance(type, Float64Type) else f32


DECOMPOSED = "coda.decomposed"
"""The element type of the scores of attention written as products and a softmax (an attribute)."""


@irdl_op_definition
class AttentionOp(AttentionLike, InferTypeOp):
    """Scaled dot-product attention of heads laid side by side in the columns.

    q is (B x T x heads·head_dim), k and v are (B x S x kv_heads·head_dim) with kv_heads a divisor
    of heads (grouped-query attention, arXiv 2305.13245). A rank of 2 means B = 1. Where a head of v
    has other columns than one of q and k, as in multi-head latent attention (arXiv 2405.04434),
    `value_dim` is their number, and the result is (B x T x heads·value_dim). `scale` defaults to
    1/sqrt(head_dim); `softcap` caps the scores before anything is added or hidden.

    Queries and keys are aligned at the lower right: the last query has the position of the last
    key. `causal` hides the keys after a query; `window` those that are `window` or more positions
    away from it, on both sides. `mask` broadcasts to (B x heads x T x S): truth values, false where
    a key is hidden, or floats that are added to the scores, as ALiBi's (arXiv 2108.12409). `sinks`
    has a score for each head that takes its share of the softmax as a key with a value of zeros
    would (arXiv 2309.17453). A query that sees no key gives 0.

    A second result is the logsumexp of the scores of each query and head, those of sinks among
    them: (B x heads x T) in float32, float64 where q is that. With it the derivative has all it
    needs of the softmax (arXiv 2205.14135). A query that sees no key has inf.

    `coda.attention %q, %k, %v sinks(%s : tensor<4xbf16>) {head_dim = 64 : i64, causal = true,
    window = 128 : i64} : ...`

    `%y, %lse = coda.attention %q, %k, %v {...} : (...) -> tensor<?x?x256xbf16> lse
    tensor<?x4x?xf32>`
    """

    result = result_def(TensorType)
    lse = opt_result_def(TensorType)
    custom_directives = (ResultType,)
    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    assembly_format = (
        "$q `,` $k `,` $v (`sinks` `(` $sinks^ `:` type($sinks) `)`)? "
        "(`mask` `(` $mask^ `:` type($mask) `)`)? attr-dict "
        "`:` `(` type($q) `,` type($k) `,` type($v) `)` `->` custom<ResultType>(type($result)) "
        "(`lse` type($lse)^)?"
    )

    def __init__(
        self,
        *operands: Operand,
        head_dim: int,
        value_dim: int | None = None,
        causal: bool = False,
        **given: Any,
    ):
        """Build attention; sinks and a mask may be given by name."""
        given |= {"head_dim": head_dim, "causal": causal}
        given["value_dim"] = None if value_dim == head_dim else value_dim
        super().__init__(*operands, **given)

    @staticmethod
    def infer(
        q: Extents, *_: Extents, head_dim: int, value_dim: int | None = None, **__: object
    ) -> list[Extents]:
        *batch, queries, columns = q
        is_known = isinstance(columns, int) and columns != DYNAMIC_INDEX and head_dim > 0
        heads = columns // head_dim if is_known else OPEN
        columns = heads * value_dim if is_known and value_dim is not None else columns
        return [(*batch, queries, columns), (batch[0] if batch else 1, heads, queries)]

    def _elements(self, operands: Sequence[SSAValue]) -> Sequence[Attribute | None]:
        type = element_type_of(operands[0])
        return [type, lse_element_type(type)]

    def check(self) -> None:
        self.verify_inputs()

    def copied(self, *, has_lse: bool) -> "AttentionOp":
        """Return the same attention, with or without the logsumexp of its scores."""
        results = [self.result.type, lse_type(self.q, self.head_dim.value.data)]
        copy = type(self).create(
            operands=self.operands,
            properties=self.properties,
            attributes=self.attributes,
            result_types=results if has_lse else results[:1],
        )
        copy.location = self.location
        copy.result.name_hint = self.result.name_hint
        return copy


@irdl_op_definition
class AttentionGradOp(AttentionLike):
    """The gradients of `coda.attention` for q, k and v, and for the sinks and for a mask that is
    added where there is a result for them. `d_out` is the gradient of its result `out`, and `lse`
    its second result: the weights are exp(score - lse), without a softmax.

    `%dq, %dk, %dv = coda.attention_grad %d_out, %out, %lse, %q, %k, %v {head_dim = 64 : i64, causal
    = true} : ...`
    """

    d_out = operand_def(TensorType)
    out = operand_def(TensorType)
    lse = operand_def(TensorType)
    dq = result_def(TensorType)
    dk = result_def(TensorType)
    dv = result_def(TensorType)
    d_sinks = opt_result_def(TensorType)
    d_mask = opt_result_def(TensorType)
    irdl_options = (
        AttrSizedOperandSegments(as_property=True),
        AttrSizedResultSegments(as_property=True),
        ParsePropInAttrDict(),
    )
    assembly_format = (
        "$d_out `,` $out `,` $lse `,` $q `,` $k `,` $v (`sinks` `(` $sinks^ `:` type($sinks) `)`)? "
        "(`mask` `(` $mask^ `:` type($mask) `)`)? attr-dict "
        "`:` `(` type($d_out) `,` type($out) `,` type($lse) `,` "
        "type($q) `,` type($k) `,` type($v) `)` "
        "`->` `(` type($dq) `,` type($dk) `,` type($dv) "
        "(`sinks` type($d_sinks)^)? (`mask` type($d_mask)^)? `)`"
    )

    def __init__(
        self,
        op: AttentionOp,
        d_out: SSAValue | Operation,
        *,
        has_sinks: bool = False,
        has_mask: bool = False,
    ):
        """Build the gradient of `op`, which has an lse: also of its sinks and mask if requested."""
        assert op.lse is not None, "the derivative needs the logsumexp of the scores"
        sinks, mask = optional_operand(op.sinks), optional_operand(op.mask)
        super().__init__(
            operands=[d_out, op.result, op.lse, op.q, op.k, op.v, sinks, mask],
            properties={
                name: op.properties.get(name)
                for name in ("head_dim", "value_dim", "causal", "window", "scale", "softcap")
            },
            result_types=[
                op.q.type,
                op.k.type,
                op.v.type,
                [value.type for value in sinks if has_sinks],
                [value.type for value in mask if has_mask],
            ],
        )
        if DECOMPOSED in op.attributes:
            self.attributes[DECOMPOSED] = op.attributes[DECOMPOSED]

    @property
    def has_exact_moment(self) -> bool:
        """True if the gradients of a row's scores add up to 0 in spite of the rounding of `out`: in
        PyTorch, those of a softmax that a model writes, and of a mask whose gradient is wanted.
        """
        return DECOMPOSED in self.attributes or self.d_mask is not None

    def verify_(self) -> None:
        self.verify_inputs()
        self.verify_lse("operand lse", self.lse)
        for what, value in (("operand d_out", self.d_out), ("operand out", self.out)):
            expect_tensor(what, value, self.result_shape, element_type_of(self.q))
        gradients = (
            ("result dq", self.dq, self.q),
            ("result dk", self.dk, self.k),
            ("result dv", self.dv, self.v),
            ("result d_sinks", self.d_sinks, self.sinks),
            ("result d_mask", self.d_mask, self.mask),
        )
        for what, gradient, value in gradients:
            if gradient is None:
                continue
            if value is None or not is_float(element_type_of(value)):
                raise VerifyException(
                    f"{what} has no operand of floats, expected the one that it is the gradient of"
                )
            expect_like(what, gradient, value)

"""Attention and its backward as kernels with epilogues: `gemm.attention`, `gemm.attention_dq`,
`gemm.attention_dkv` and `gemm.attention_dmask`.

Attention is a chain of two GEMMs with a softmax between them that takes the keys as they come
(FlashAttention-2, arXiv 2307.08691), so that no score is stored. The backward recomputes the
weights of a tile, P = exp(scale·Q·Kᵀ - lse), from the logsumexp that the forward kept. It is two
chains of GEMMs whose sums stay on chip: over the keys for the gradient of a tile of queries, and
over the queries for those of a tile of keys and values. A third one sums the gradients of scores
for a mask. Each sum has one order, so that two runs give the same bits. Like the accumulator of
`gemm.fused`, the sums of the others take an epilogue.
"""

from abc import ABC
from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    IntegerAttr,
    TensorType,
    UnitAttr,
    f32,
    i1,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from coda_ir.dialects.coda.attention import AttentionLike, lse_type
from coda_ir.dialects.coda.shapes import (
    AnyTensor,
    element_type_of,
    expect_tensor,
    optional_operand,
    shape_of,
)
from coda_ir.dialects.gemm import verify
from coda_ir.dialects.gemm.assembly import (
    parse_attributes,
    parse_clause,
    parse_operand,
    parse_segment,
    parse_typed_value,
    print_clause,
    print_new_line,
    print_operand,
    print_segment,
    print_typed_values,
    segment_attr,
)
from coda_ir.dialects.gemm.attrs import SegmentAttr
from coda_ir.dialects.gemm.heads import (
    HeadParts,
    SumSegment,
    groups_in_heads,
    head_parts,
    needs_whole_heads,
    pairs_in_heads,
    stored_sum,
)
from coda_ir.dialects.gemm.schedules import ScheduleAttr
from coda_ir.dialects.gemm.segment import Segment, read_segments
from coda_ir.dialects.gemm.verify_regions import PortsAreTheOnlyWayIn

OPTIONS = ("head_dim", "value_dim", "causal", "window", "scale", "softcap")
"""The properties of attention that its kernels have, too."""

HIDING = ("sinks", "mask")
"""The operands that follow q, k and v in the text."""


def moment_type(lse: SSAValue, mask: SSAValue | None) -> AnyTensor:
    """The type of the moments of `gemm.attention_dq`: B x heads x T, and two each with a mask."""
    return TensorType(f32, (*shape_of(lse), *((2,) if _is_added(mask) else ())))


def _is_added(mask: SSAValue | None) -> bool:
    return mask is not None and element_type_of(mask) != i1


class AttentionSumOp(AttentionLike, ABC):
    """A kernel of attention or of its backward: sums of each tile, and an epilogue.

    `schedule` has the rows of a tile of the result as BM, those of a step as BN, and the columns
    of a head as BK, padded to a power of two. Sinks and a mask follow the tensors:
    `sinks(%s : tensor<8xbf16>) mask(%m : tensor<?x1x?x?xi1>)`. The sinks of a backward are in its
    logsumexp. Where a head has no power of two of columns, its epilogue sees parts of it: no pairs,
    groups or sums of rows.
    """

    ports = var_operand_def(TensorType)
    outputs = var_result_def(TensorType)
    segment_attr = prop_def(SegmentAttr, prop_name="segment")
    schedule = opt_prop_def(ScheduleAttr)
    body = region_def("single_block")
    traits = traits_def(Pure(), PortsAreTheOnlyWayIn())
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = None

    BEFORE: ClassVar[tuple[str, ...]] = ()
    """The operands before q, k and v."""
    OPTIONS: ClassVar[tuple[str, ...]] = OPTIONS
    """The properties that the text has in braces."""
    SUMS: ClassVar[tuple[str, ...]]
    """The sums, each with the rows and columns of a tile."""

    @property
    def rows_of(self) -> SSAValue:
        """The tensor with the rows and columns of the sums: q, unless that is summed over."""
        return self.q

    @property
    def sums_of(self) -> tuple[SSAValue, ...]:
        """The tensors that have the rows and columns of each sum."""
        return (self.rows_of,) * len(self.SUMS)

    @property
    def tile_heads(self) -> int:
        """Heads that lie side by side in the columns of the sums."""
        return shape_of(self.rows_of)[-1] // self.head_dim.value.data

    @property
    def shared_heads(self) -> int:
        """Heads of queries that have one of keys."""
        return self.heads // (shape_of(self.k)[-1] // self.head_dim.value.data)

    @property
    def split_heads(self) -> int:
        """Heads of queries that a tile sums over, which several programs may share."""
        return 1

    @property
    def parts(self) -> HeadParts:
        """The parts in which a head is multiplied."""
        return head_parts(self.head_dim.value.data)

    @property
    def value_parts(self) -> HeadParts:
        """The parts in which a head of values is multiplied."""
        return head_parts(self.value_columns)

    @property
    def tensors(self) -> tuple[SSAValue, ...]:
        """The operands but the ports, the sinks and the mask."""
        before = (getattr(self, name) for name in self.BEFORE)
        return (*before, self.q, self.k, self.v)

    @property
    def adds_mask(self) -> bool:
        """True if the mask is added to the scores."""
        return _is_added(self.mask)

    @property
    def mask_dims(self) -> tuple[int, int, int, int]:
        """Flags of batches, heads, queries, keys: 1 if the mask has the dimension, else 0."""
        shape = () if self.mask is None else shape_of(self.mask)
        batch, heads, queries, keys = (int(n != 1) for n in (*(1,) * (4 - len(shape)), *shape))
        return batch, heads, queries, keys

    def segment(self) -> SumSegment:
        """The ports, results and region, for reading."""
        (read,) = read_segments([self.segment_attr], [], self.ports, self.outputs, [self.body])
        columns = shape_of(self.rows_of)[-1]
        return SumSegment(**vars(read), domain_columns=columns, sums=len(self.SUMS))

    def epilogues(self) -> list[tuple[Sequence[int], SumSegment]]:
        """The epilogue with the numbers of the sums that it takes; where these have different
        columns, one for each result, which stores a sum as it is.

        Raises VerifyException for another result of sums with different columns.
        """
        segment, columns = self.segment(), [shape_of(value)[-1] for value in self.sums_of]
        if len(set(columns)) == 1:
            return [(range(len(columns)), segment)]
        return [stored_sum(segment, index, columns) for index in range(len(segment.results))]

    def segments(self) -> list[Segment]:
        return [self.segment()]

    def with_segments(self, segments: Sequence[Segment]) -> Self:
        (segment,) = segments
        properties = {name: self.properties.get(name) for name in (*self.OPTIONS, "schedule")}
        return self.made(self.tensors, properties, segment, sinks=self.sinks, mask=self.mask)

    @property
    def own_results(self) -> Sequence[SSAValue]:
        """The results before those of the epilogue."""
        return self.results[: len(self.results) - len(self.outputs)]

    def replace_own_results(self, other: Self) -> None:
        """Let `other` take over their uses."""
        for old, new in zip(self.own_results, other.own_results, strict=True):
            old.replace_all_uses_with(new)

    @classmethod
    def made(
        cls,
        tensors: Sequence[SSAValue],
        properties: Mapping[str, Attribute | None],
        segment: Segment,
        *,
        sinks: SSAValue | None = None,
        mask: SSAValue | None = None,
    ) -> Self:
        """The operator with `properties` on `tensors`: those of the property of the same name."""
        before, inputs = tensors[: len(cls.BEFORE)], tensors[len(cls.BEFORE) :]
        ports = [port.value for port in segment.ports]
        types, head_dim = [result.type for result in segment.results], properties.get("head_dim")
        assert isinstance(head_dim, IntegerAttr)
        return cls.build(
            operands=[*before, ports, *inputs, optional_operand(sinks), optional_operand(mask)],
            properties={**properties, "segment": segment_attr(segment)},
            result_types=[*cls._own_types(tensors, mask, head_dim.value.data), types],
            regions=[segment.body],
        )

    @classmethod
    def _own_types(
        cls, tensors: Sequence[SSAValue], mask: SSAValue | None, head_dim: int
    ) -> Sequence[Attribute]:
        """The types of the results before those of the epilogue."""
        return ()

    def verify_(self) -> None:
        self.verify_inputs()
        if self.sinks is not None and self.BEFORE:
            raise VerifyException("operand sinks, expected them in the logsumexp")
        if self.scale is not None and self.scale.value.data <= 0:
            raise VerifyException("property scale, expected a positive number")
        segment, head_dim = self.segment(), self.head_dim.value.data
        self._verify_split()
        if self.schedule is not None and self.schedule.mainloop == "wgmma":
            self._verify_wgmma(self.schedule)
        for numbers, epilogue in self.epilogues():
            verify.verify_sums(epilogue, shape_of(self.sums_of[numbers[0]]))
        whole = needs_whole_heads(segment)
        if whole is not None and not self.parts.is_whole:
            raise VerifyException(
                f"{whole} in heads of {head_dim} columns, expected a power of two of columns"
            )
        if not pairs_in_heads(segment.pairing, head_dim):
            raise VerifyException(
                f"pair mode across heads, expected pairs within {head_dim} columns"
            )
        if not groups_in_heads(segment, head_dim):
            raise VerifyException(
                f"region reduces groups of several heads, expected divisors of {head_dim}"
            )

    @property
    def wgmma_obstacle(self) -> str | None:
        """The reason why no products can be asynchronous; None if they can."""
        return "only the backward has them"

    def _verify_wgmma(self, schedule: ScheduleAttr) -> None:
        """Check that products can be asynchronous, of 64 rows by four warps."""
        if self.wgmma_obstacle is not None:
            raise VerifyException(f"schedule: wgmma is impossible: {self.wgmma_obstacle}")
        rows, warps, stages = schedule.block_m.data, schedule.warps.data, schedule.stages.data
        if rows % 64 or warps % 4 or warps > rows // 8:
            raise VerifyException(
                f"schedule: {warps} warps for {rows} rows, expected 4 or 8 for each 64 rows"
            )
        if stages < 2:
            raise VerifyException("schedule: stages is 1, but wgmma takes at least 2")

    def _verify_split(self) -> None:
        """Check that the programs of a tile have equally many heads of queries."""
        heads = self.split_heads
        parts = 1 if self.schedule is None else self.schedule.split_k.data
        if parts > 1 and self.value_dim is not None:
            raise VerifyException(f"schedule: split_k is {parts}, expected 1: there is a value_dim")
        if heads % parts:
            raise VerifyException(
                f"schedule: split_k is {parts}, expected a divisor of the {heads} heads of queries "
                "that a tile sums over"
            )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_typed_values(printer, list(self.tensors))
        for name, value in zip(HIDING, (self.sinks, self.mask), strict=True):
            print_operand(printer, name, value)
        options = {name: self.properties[name] for name in self.OPTIONS if name in self.properties}
        printer.print_op_attributes(options)
        with printer.indented():
            if self.schedule is not None:
                print_new_line(printer)
                print_clause(printer, "schedule", self.schedule)
            print_segment(printer, self.segment())
        printer.print_op_attributes(self.attributes, print_keyword=True)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        start = parser.pos
        tensors = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, lambda: parse_typed_value(parser)
        )
        expected = len(cls.BEFORE) + 3
        if len(tensors) != expected:
            parser.raise_error(f"{len(tensors)} operands, expected {expected}", start, start + 1)
        sinks, mask = (parse_operand(parser, name) for name in HIDING)
        start = parser.pos
        properties: dict[str, Attribute | None] = dict(parser.parse_optional_attr_dict())
        for name in sorted(set(properties) - set(cls.OPTIONS)):
            message = f"unknown property {name}, expected {', '.join(cls.OPTIONS)}"
            parser.raise_error(message, start, start + 1)
        properties["schedule"] = parse_clause(parser, "schedule", ScheduleAttr)
        segment = parse_segment(parser, inputs=0)
        op = cls.made(tensors, properties, segment, sinks=sinks, mask=mask)
        parse_attributes(parser, op)
        return op


@irdl_op_definition
class FusedAttentionOp(AttentionSumOp):
    """Attention, O = softmax(scale · Q·Kᵀ)·V for each head, with what bounds, hides and is added to
    the scores as in `coda.attention`, sinks included, and the epilogue of its result.

    The epilogue takes O in float32 (in pair mode: two columns of a head). The first result is the
    logsumexp of the scores, (B x heads x T) in float32; that of a query that sees no key is inf,
    and its O is 0.

        %lse, %y = gemm.attention (%q : t, %k : t, %v : t) mask(%bias : m)
            {head_dim = 128 : i64, causal = true, softcap = 50.0 : f64}
            tile(%gate : t) -> (tile : t) {
        ^epilogue(%o : f32, %g : f32):
          ...
        }
    """

    name = "gemm.attention"
    lse = result_def(TensorType)
    SUMS: ClassVar[tuple[str, ...]] = ("O",)

    @classmethod
    def _own_types(
        cls, tensors: Sequence[SSAValue], mask: SSAValue | None, head_dim: int
    ) -> Sequence[Attribute]:
        return [lse_type(tensors[0], head_dim)]

    def verify_(self) -> None:
        if self.value_dim is not None:
            raise VerifyException("attention with a value_dim, expected v as wide as k")
        super().verify_()
        self.verify_lse("result lse", self.lse)


class AttentionGradSumOp(AttentionSumOp, ABC):
    """A kernel of the backward of attention."""

    d_out = operand_def(TensorType)
    stored = operand_def(TensorType)
    lse = operand_def(TensorType)
    BEFORE: ClassVar[tuple[str, ...]] = ("d_out", "stored", "lse")

    @property
    def wgmma_obstacle(self) -> str | None:
        if not isinstance(element_type_of(self.q), BFloat16Type | Float16Type):
            return "its tensors are not in 16 bits"
        return None if self.mask is None else "its mask is loaded between the products"

    def verify_out(self, what: str, value: SSAValue) -> None:
        """Check a tensor like the result of attention."""
        expect_tensor(what, value, self.result_shape, element_type_of(self.q))

    def verify_moment(self, what: str, moment: SSAValue) -> None:
        """Check the numbers of rows that both kernels need."""
        expected = moment_type(self.lse, self.mask)
        expect_tensor(what, moment, expected.get_shape(), f32)

    def verify_(self) -> None:
        super().verify_()
        self.verify_out("operand d_out", self.d_out)
        self.verify_lse("operand lse", self.lse)


@irdl_op_definition
class AttentionDqOp(AttentionGradSumOp):
    """The gradient for the queries of attention: dQ = scale · sum over keys of dS·K, where
    dS = P ⊙ (dO·Vᵀ - moment) and moment = sum(dO ⊙ O) of each row and head. Scores that a softcap
    c bounds, c·tanh(scale·q·k / c), give dS the factor 1 - (score / c)².

    The epilogue takes dQ in float32 (in pair mode: two columns of a head). The first result is the
    moment, (B x heads x T) in float32, which `gemm.attention_dkv` needs. With a mask that is added
    it is (B x heads x T x 2): the moment, and what the weights exp(score - lse) are multiplied by
    so that their sum is 1, where padding that adds -1e9 to all scores leaves lse no digits for it.

    O is rounded to its type, so that the dS of a row do not add up to 0. With `exact_moment`, they
    do: the moment is the sum of P ⊙ (dO·Vᵀ), which equals sum(dO ⊙ O). A second sum, that of P·K,
    corrects dQ, for another product.

        %moment, %dz = gemm.attention_dq (%dy : t, %y : t, %lse : f, %q : t, %k : t, %v : t)
            {head_dim = 128 : i64, causal = true}
            pair<halves, 128> half_table(%cos : c, %sin : c) -> (tile : t) {
        ^epilogue(%dq : f32, %dq2 : f32, %c : f32, %s : f32):
          ...
        }
    """

    name = "gemm.attention_dq"
    moment = result_def(TensorType)
    exact_moment = opt_prop_def(UnitAttr)
    SUMS: ClassVar[tuple[str, ...]] = ("dQ",)
    OPTIONS: ClassVar[tuple[str, ...]] = (*OPTIONS, "exact_moment")

    @classmethod
    def _own_types(
        cls, tensors: Sequence[SSAValue], mask: SSAValue | None, head_dim: int
    ) -> Sequence[Attribute]:
        return [moment_type(tensors[2], mask)]

    def verify_(self) -> None:
        super().verify_()
        self.verify_out("operand out", self.stored)
        self.verify_moment("result moment", self.moment)


@irdl_op_definition
class AttentionDkvOp(AttentionGradSumOp):
    """The gradients for keys and values: dK = scale · sum over queries of dSᵀ·Q and dV = sum of
    Pᵀ·dO, also over the heads of queries that share those of keys.

    The second operand is the `moment` of `gemm.attention_dq`. The epilogue takes dK, then dV, in
    float32 (in pair mode: two columns of each). Where heads of values have other columns than
    those of keys (`value_dim`), it stores both as they are. `split_k` of the schedule is how many
    programs share the heads of queries of a tile, equally many each.
    """

    name = "gemm.attention_dkv"
    SUMS: ClassVar[tuple[str, ...]] = ("dK", "dV")

    @property
    def rows_of(self) -> SSAValue:
        return self.k

    @property
    def sums_of(self) -> tuple[SSAValue, ...]:
        return self.k, self.v

    @property
    def split_heads(self) -> int:
        return self.shared_heads

    def verify_(self) -> None:
        super().verify_()
        self.verify_moment("operand moment", self.stored)


@irdl_op_definition
class AttentionDmaskOp(AttentionGradSumOp):
    """The gradient for a mask that is added to the scores: dS = P ⊙ (dO·Vᵀ - moment), summed over
    the batches and the heads that share an element of the mask. A tile stays on chip meanwhile.

    The second operand is the `moment` of `gemm.attention_dq`. The result is like the mask, but has
    all queries and keys. A tile has BM queries and BN keys, and `split_k` programs share the sums.

        %d_mask = gemm.attention_dmask (%dy : t, %moment : f, %lse : f, %q : t, %k : t, %v : t)
            mask(%m : m) {head_dim = 128 : i64, causal = true} -> () { gemm.yield }
    """

    name = "gemm.attention_dmask"
    d_mask = result_def(TensorType)
    SUMS: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def _own_types(
        cls, tensors: Sequence[SSAValue], mask: SSAValue | None, head_dim: int
    ) -> Sequence[AnyTensor]:
        *_, q, k, _ = tensors
        type, shape = (f32, (1, 1)) if mask is None else (element_type_of(mask), shape_of(mask))
        *leading, rows, columns = shape
        whole = [shape_of(x)[-2] if n == 1 else n for x, n in ((q, rows), (k, columns))]
        return [TensorType(type, (*leading, *whole))]

    def _verify_split(self) -> None:
        """Any number of programs may share a tile."""

    def verify_(self) -> None:
        if self.ports or self.outputs or not self.adds_mask:
            raise VerifyException("expected no epilogue, and a mask of floats")
        super().verify_()
        self.verify_moment("operand moment", self.stored)
        (expected,) = self._own_types(self.tensors, self.mask, self.head_dim.value.data)
        expect_tensor("result d_mask", self.d_mask, expected.get_shape(), expected.element_type)

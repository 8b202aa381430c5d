"""Scalar regions (`arith`, `math`) as `tl` statements: `RegionEmitter`."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue

from coda_ir.backends.triton.expressions import (
    ATOM,
    COMPARISONS,
    EXPRESSIONS,
    Expression,
    atom,
    default_name,
    literal,
    truth_of_scalars,
)
from coda_ir.backends.triton.kernel import location_comment, tl_type
from coda_ir.backends.triton.names import LocalNames
from coda_ir.diagnostics import LoweringError
from coda_ir.dialects.gemm import ColumnOp, GroupReduceOp, Segment
from coda_ir.dominance import backward_slice
from coda_ir.remarks import format_location

LONGEST_EXPRESSION = 76
"""Maximum characters of an expression; parts of longer ones become separate statements."""


@dataclass(frozen=True)
class EmittedRegion:
    """The statements of a region, and one expression (a name or a literal) per yielded value."""

    lines: tuple[str, ...]
    yields: tuple[str, ...]


@dataclass
class RegionEmitter:
    """Emits the operators of a region as `tl` statements, named after their name hints.

        emitter = RegionEmitter(names)
        region = emitter.emit(block, {block.args[0]: "acc", block.args[1]: "bias"})
        # region.lines: ["# mlp.coda:3:7", "pre = acc + bias", ...], region.yields: ["pre"]

    The expressions of the arguments are float32 (or integer) `tl` values that broadcast against
    each other.

    Raises CodaError for an operator that has no portable `tl` counterpart.
    """

    names: LocalNames
    group_reduce: Callable[[GroupReduceOp, str], str] | None = None
    """The expression of a `gemm.group_reduce` of an operand; None where there are no columns."""
    column: str | None = None
    """The expression of the numbers of the columns; None where there are none."""
    scalars: Collection[SSAValue] = ()
    """The arguments of one element, which is known at run time."""
    vectors: Collection[SSAValue] = ()
    """The arguments with an element for each row, as vectors. So is what is computed from them
    alone. They become columns where they meet the elements of a tile: Triton converts the layout of
    a vector, but may convert that of a column after it has the size of the tile."""

    def emit(
        self,
        block: Block,
        arguments: Mapping[SSAValue, str],
        yielded: Sequence[SSAValue] | None = None,
    ) -> EmittedRegion:
        """Emit the statements for `yielded`, or for the operands of the terminator."""
        terminator = block.last_op
        assert terminator is not None, "a region ends in gemm.yield"
        yielded = terminator.operands if yielded is None else yielded
        statements = _Statements(self, backward_slice(yielded))
        for value, text in arguments.items():
            statements.values[value] = atom(text)
        for op in block.ops:
            if op in statements.live:
                statements.add(op)
        yields = [statements.column_name(value) for value in yielded]
        return EmittedRegion(tuple(statements.lines), tuple(yields))


def stored_values(segment: Segment) -> list[SSAValue]:
    """Return the yielded values of a region, without roundings that stores repeat."""
    return [
        _before_rounding(value, type.element_type)
        for index, (_, type) in enumerate(segment.results)
        for value in segment.yielded(index)
    ]


def _before_rounding(value: SSAValue, type: Attribute) -> SSAValue:
    if not isinstance(value.owner, arith.ExtFOp):
        return value
    narrow = value.owner.input
    rounding = narrow.owner
    if isinstance(rounding, arith.TruncFOp) and narrow.type == type:
        return rounding.input
    return value


class _Statements:
    """The statements of one region while they are emitted.

    An unnamed value with one use stays an expression inside its user, as long as it is short.
    """

    def __init__(self, emitter: RegionEmitter, live: set[Operation]):
        self.emitter = emitter
        self.live = live
        self.lines: list[str] = []
        self.values: dict[SSAValue, Expression] = {}
        self._scalars = set(emitter.scalars)
        self._vectors = set(emitter.vectors)
        self._place: str | None = None

    def add(self, op: Operation) -> None:
        result = op.results[0]
        if isinstance(op, arith.ConstantOp):
            self.values[result] = literal(op)
            self._scalars.add(result)
            return
        expression = self._expression(op)
        users = (use.operation for use in result.uses)
        uses = sum(user in self.live or user.name == "gemm.yield" for user in users)
        self.values[result] = expression
        if result.name_hint or uses > 1 or isinstance(op, GroupReduceOp):
            self._assign(result, op.location)

    def _expression(self, op: Operation) -> Expression:
        if isinstance(op, GroupReduceOp):
            return self._group_reduce(op)
        if isinstance(op, ColumnOp):
            return self._column(op)
        write = EXPRESSIONS.get(op.name)
        has_vector = not self._vectors.isdisjoint(op.operands)
        if has_vector and (self._scalars | self._vectors).issuperset(op.operands):
            self._vectors.update(op.results)
        if write is None:
            raise LoweringError(
                f"{format_location(op.location)}: the triton backend cannot emit {op.name}",
                "use operators of the epilogue language, such as exp, log and sqrt",
            )
        expression = write(op, self._operands(op))
        while len(expression.text) > LONGEST_EXPRESSION and self._name_longest(op):
            expression = write(op, self._operands(op))
        if self._scalars.issuperset(op.operands):
            self._scalars.update(op.results)
            return truth_of_scalars(expression) if op.name in COMPARISONS else expression
        return expression

    def _operands(self, op: Operation) -> list[Expression]:
        """Return the operands; an operator on constants alone needs one of them as a tensor."""
        is_vector = self._vectors.issuperset(op.results)
        operands = [
            self.values[value] if is_vector else self._as_column(value) for value in op.operands
        ]
        if operands and all(operand.is_literal for operand in operands):
            operands[-1] = operands[-1].materialized(op.operands[-1].type)
        return operands

    def _group_reduce(self, op: GroupReduceOp) -> Expression:
        if self.emitter.group_reduce is None:
            raise LoweringError(
                f"{format_location(op.location)}: gemm.group_reduce outside of a tile of columns"
            )
        return atom(self.emitter.group_reduce(op, self.column_name(op.value)))

    def _column(self, op: ColumnOp) -> Expression:
        if self.emitter.column is None:
            raise LoweringError(f"{format_location(op.location)}: gemm.column outside of a tile")
        return atom(f"{self.emitter.column}.to({tl_type(op.result.type)})")

    def operand_name(self, value: SSAValue) -> str:
        """Return a name or literal for a value, which gets a statement unless it has one."""
        if not self.values[value].is_atom:
            owner = value.owner
            assert isinstance(owner, Operation)
            self._assign(value, owner.location)
        return self.values[value].text

    def column_name(self, value: SSAValue) -> str:
        """Return a name or literal for a value that is to broadcast against tiles."""
        self.operand_name(value)
        return self._as_column(value).text

    def _as_column(self, value: SSAValue) -> Expression:
        expression = self.values[value]
        if value not in self._vectors:
            return expression
        return atom(f"{expression.inside(ATOM)}[:, None]")

    def _name_longest(self, op: Operation) -> bool:
        """Give the longest unnamed operand of `op` a statement; return False if there is none."""
        unnamed = [value for value in op.operands if not self.values[value].is_atom]
        if not unnamed:
            return False
        self.operand_name(max(unnamed, key=lambda value: len(self.values[value].text)))
        return True

    def _assign(self, value: SSAValue, location: LocationAttr) -> None:
        comment = location_comment(location)
        if comment is not None and comment != self._place:
            self.lines.append(comment)
            self._place = comment
        name = self.emitter.names.fresh(value.name_hint, default_name(value))
        self.lines.append(f"{name} = {self.values[value].text}")
        self.values[value] = atom(name)

"""The base class of passes that rewrite the body of each function."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar, dataclass_transform

from xdsl.context import Context
from xdsl.dialects.builtin import LocationAttr, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, shape_of, static_shape
from coda_ir.passes.support.order import BlockOrder
from coda_ir.remarks import Remark, RemarkKind, emit_remark
from coda_ir.symbolic_shapes import Dim, SymbolicShapes
from coda_ir.traffic import is_executed

OpT = TypeVar("OpT", bound=Operation)
FoundT = TypeVar("FoundT")


@dataclass(frozen=True)
class Refusal:
    """The reason why a rewrite is not legal: the failed condition, the finding, and a remedy."""

    condition: str
    found: str
    suggestion: str | None = None


@dataclass
class FunctionRewriter:
    """A function under rewriting: the order of its operators, and its symbolic shapes."""

    pass_name: str
    func: FuncOp

    @cached_property
    def order(self) -> BlockOrder:
        """The order of the operators from the time when a pass first needs it; many never do."""
        return BlockOrder(self.func.body.block)

    @cached_property
    def shapes(self) -> SymbolicShapes:
        """The shapes of the function at the time when a pass first needs them; many never do."""
        return SymbolicShapes(self.func)

    @property
    def ops(self) -> list[Operation]:
        """The current operators of the function, in order; safe to iterate over while rewriting."""
        return list(self.func.body.block.ops)

    def ops_of(self, kind: type[OpT]) -> list[OpT]:
        """Return the current operators of one type."""
        return [op for op in self.ops if isinstance(op, kind)]

    def before(self, anchor: Operation, location: LocationAttr | None = None) -> OpInserter:
        """Return an inserter before `anchor`, with its location unless another is given."""
        return OpInserter(self, anchor, location or anchor.location)

    def replace(self, old: Operation, new: SSAValue) -> None:
        """Replace the only result of `old` by `new`, which takes its name; erase `old`."""
        (result,) = old.results
        new.name_hint = result.name_hint or new.name_hint
        self.order.give_way(old, [new])

    def accepts(self, op: Operation, refusal: Refusal | None, message: str) -> bool:
        """Report a rewrite of `op`, or the refusal, before it; return whether it is rewritten."""
        if self.refuses(op, refusal):
            return False
        self.passed(op, message)
        return True

    def refuses(self, op: Operation, refusal: Refusal | None) -> bool:
        """Report that a rewrite of `op` was refused, if it was; return whether it was."""
        if refusal is not None:
            self.missed(op, refusal)
        return refusal is not None

    def allowed(self, op: Operation, found: FoundT | Refusal) -> FoundT | None:
        """Return what a rewrite of `op` needs; report that it was refused, and return None."""
        if not isinstance(found, Refusal):
            return found
        self.missed(op, found)
        return None

    def passed(self, op: Operation, message: str) -> None:
        """Report a rewrite of `op`; call it before `op` is replaced."""
        self._emit("passed", op, message)

    def missed(self, op: Operation, refusal: Refusal) -> None:
        """Report that a rewrite of `op` was refused, with the traffic that this costs, if any."""
        emit_remark(
            Remark(
                "missed",
                self.pass_name,
                op.name,
                op.location,
                refusal.found,
                condition=refusal.condition,
                bytes=self.shapes.usual_traffic(op) if is_executed(op) else None,
                suggestion=refusal.suggestion,
                function=self.func.sym_name.data,
            )
        )

    def analysis(self, op: Operation, message: str) -> None:
        """Report a fact about `op` that the user should know."""
        self._emit("analysis", op, message)

    def _emit(self, kind: RemarkKind, op: Operation, message: str) -> None:
        function = self.func.sym_name.data
        emit_remark(Remark(kind, self.pass_name, op.name, op.location, message, function=function))


@dataclass
class OpInserter:
    """Inserts operators before an anchor, with a location and a name."""

    rewriter: FunctionRewriter
    anchor: Operation
    location: LocationAttr

    def insert(self, op: Operation, name: str | None = None) -> SSAValue:
        """Insert `op`; return its first result."""
        op.location = self.location
        self.rewriter.order.insert_before(op, self.anchor)
        for result in op.results:
            result.name_hint = name
        return op.results[0]

    def cast(self, value: SSAValue, element_type: Attribute) -> SSAValue:
        """Convert `value` to another element type, if it differs."""
        if element_type_of(value) == element_type:
            return value
        return self.insert(coda.CastOp(value, element_type), value.name_hint)

    def reshape(self, value: SSAValue, dims: Sequence[Dim]) -> SSAValue:
        """Reshape `value` to numbers, `DYNAMIC_INDEX` or symbols, if it has other dimensions."""
        has_symbols = any(isinstance(dim, str) for dim in dims)
        known = self.rewriter.shapes.dims(value) if has_symbols else shape_of(value)
        if tuple(dims) == known:
            return value
        view = coda.ReshapeOp(value, static_shape(dims))
        if has_symbols:
            view.attributes["coda.dims"] = self.rewriter.shapes.stated(tuple(dims))
        return self.insert(view, value.name_hint)

    def again(
        self,
        op: Operation,
        operands: Sequence[SSAValue],
        shape: Sequence[int],
        element_type: Attribute | None = None,
    ) -> SSAValue:
        """Return a copy of `op` on other operands, with an only result of another shape."""
        (result,) = op.results
        made = type(op).create(
            operands=operands,
            properties=op.properties.copy(),
            attributes=op.attributes.copy(),
            result_types=[TensorType(element_type or element_type_of(result), shape)],
        )
        return self.insert(made, result.name_hint)

    def mul(self, a: SSAValue, b: SSAValue, name: str | None = None) -> SSAValue:
        return self.insert(coda.MulOp(a, b), name)

    def add(self, a: SSAValue, b: SSAValue, name: str | None = None) -> SSAValue:
        return self.insert(coda.AddOp(a, b), name)

    def sub(self, a: SSAValue, b: SSAValue, name: str | None = None) -> SSAValue:
        return self.insert(coda.SubOp(a, b), name)


@dataclass_transform(frozen_default=True)
class NamedPass(ModulePass):
    """A pass with the name of its module, unless it states another: convert_a_to_b.py has the pass
    `convert-a-to-b`.

    Subclasses are frozen dataclasses, whose fields are the options of the pass.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "name" not in vars(cls):
            cls.name = cls.__module__.rpartition(".")[2].replace("_", "-")
        dataclass(frozen=True)(cls)


class FunctionPass(NamedPass, ABC):
    """A pass whose rewriting stays inside one function."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        self.check_options()
        for inner in op.ops:
            if isinstance(inner, FuncOp) and inner.body.blocks:
                self.run_on_function(FunctionRewriter(self.name, inner))
            elif isinstance(inner, ModuleOp):
                self.apply(ctx, inner)

    def check_options(self) -> None:
        """Raise CodaError for an invalid value of an option, whether or not anything needs it."""

    @abstractmethod
    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        """Rewrite the body of one function in place."""

"""The base class of passes that rewrite the body of each function."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from coda_ir.passes.support.order import BlockOrder
from coda_ir.remarks import Remark, RemarkKind, emit_remark
from coda_ir.symbolic_shapes import SymbolicShapes
from coda_ir.traffic import is_executed


@dataclass(frozen=True)
class Refusal:
    """Why a rewrite is not legal: the failed condition, what was found, what would help."""

    condition: str
    found: str
    suggestion: str | None = None


@dataclass
class FunctionRewriter:
    """One function under rewriting: the order of its operators and its symbolic shapes."""

    pass_name: str
    func: FuncOp

    def __post_init__(self) -> None:
        self.order = BlockOrder(self.func.body.block)

    @cached_property
    def shapes(self) -> SymbolicShapes:
        """The shapes of the function as it is where a pass first asks for one; many never do."""
        return SymbolicShapes(self.func)

    @property
    def ops(self) -> list[Operation]:
        """The operators of the function now, in order; safe against rewriting while iterating."""
        return list(self.func.body.block.ops)

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
        """State a fact about `op` that the user should know."""
        self._emit("analysis", op, message)

    def _emit(self, kind: RemarkKind, op: Operation, message: str) -> None:
        function = self.func.sym_name.data
        emit_remark(Remark(kind, self.pass_name, op.name, op.location, message, function=function))


@dataclass(frozen=True)
class FunctionPass(ModulePass, ABC):
    """A pass whose rewriting stays inside one function."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.ops:
            if isinstance(inner, FuncOp) and inner.body.blocks:
                self.run_on_function(FunctionRewriter(self.name, inner))
            elif isinstance(inner, ModuleOp):
                self.apply(ctx, inner)

    @abstractmethod
    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        """Rewrite the body of one function in place."""


def operators_before(made: Operation) -> list[Operation]:
    """The operators that were made for the operands of a new one, in order."""
    owners = (value.owner for value in made.operands)
    new = [owner for owner in owners if isinstance(owner, Operation) and owner.parent is None]
    return [*dict.fromkeys(each for owner in new for each in (*operators_before(owner), owner))]

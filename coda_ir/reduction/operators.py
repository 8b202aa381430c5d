"""Strategies on functions and on the operators of their bodies."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.traits import IsTerminator

from coda_ir.reduction.strategy import Edit, Strategy, remove


class DropFunctions(Strategy):
    """Removes functions and whatever else is at the top of the module.

    Calls of a function that is gone are dropped as `DropOperators` does.
    """

    title: ClassVar[str] = "drop functions"

    def edits(self) -> list[Edit]:
        return [partial(self._drop, op) for op in self.module.ops]

    def _drop(self, op: Operation) -> bool:
        remove(op)
        return True

    def finish(self) -> None:
        remaining = {op.sym_name.data for op in self.module.ops if isinstance(op, FuncOp)}
        for block, editor in self.editors.items():
            for op in reversed(list(block.ops)):
                if isinstance(op, CallOp) and op.callee.string_value() not in remaining:
                    editor.drop(op)
        super().finish()


class DropOperators(Strategy):
    """Removes operators, the last ones first.

        %a = f(%x); %b = g(%a); %c = h(%b); return %c   ->   %a = f(%x); %c = h(%b); return %a, %c

    with the new argument %b for what remains to be used, and a new result for what was used.
    """

    title: ClassVar[str] = "drop operators"

    def edits(self) -> list[Edit]:
        return [
            partial(editor.drop, op)
            for editor in reversed(self.functions)
            for op in reversed(list(editor.block.ops))
            if not op.has_trait(IsTerminator)
        ]


class ForwardOperands(Strategy):
    """Replaces the results of an operator by operands of the same type: `h(g(%x))` -> `h(%x)`."""

    title: ClassVar[str] = "replace results by operands"

    def edits(self) -> list[Edit]:
        return [
            partial(_forward, op)
            for editor in reversed(self.functions)
            for op in reversed(list(editor.block.ops))
            if not op.has_trait(IsTerminator) and _stand_ins(op) is not None
        ]


def _stand_ins(op: Operation) -> list[SSAValue] | None:
    """An operand for each result; None where there is none for one that is used."""
    stand_ins: list[SSAValue] = []
    for result in op.results:
        same_type = [value for value in op.operands if value.type == result.type]
        if not same_type and result.uses:
            return None
        stand_ins += same_type[:1] or [result]
    return stand_ins


def _forward(op: Operation) -> bool:
    stand_ins = _stand_ins(op)
    if stand_ins is None:
        return False
    for result, stand_in in zip(op.results, stand_ins, strict=True):
        if result is not stand_in:
            result.replace_all_uses_with(stand_in)
    remove(op)
    return True

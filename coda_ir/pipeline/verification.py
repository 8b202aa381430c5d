"""Verifying a module after each pass of a pipeline, most of which leave it as it is."""

from __future__ import annotations

from typing import TypeAlias

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from coda_ir.dominance import misplaced_use

OperatorState: TypeAlias = tuple[object, ...]


class Verification:
    """Verifies the states of one module, one after the other.

    A state that is the one that was verified before is not verified again: to compare takes a
    small part of the time.
    """

    def __init__(self) -> None:
        self._verified: list[OperatorState] | None = None

    def verify(self, module: ModuleOp) -> None:
        """Raises VerifyException for a module that is not valid, and for a value that is used
        before its definition, which xDSL does not look for.
        """
        state = [_state(op) for op in module.walk()]
        if state == self._verified:
            return
        module.verify()
        misplaced = misplaced_use(module)
        if misplaced is not None:
            raise misplaced[1]
        self._verified = state


def _state(op: Operation) -> OperatorState:
    """All that verification may ask of an operator; what is in its regions has its own state.

    It holds on to the objects, so that one which is new is never taken for one that is gone.
    """
    blocks = tuple((block, *block.arg_types) for region in op.regions for block in region.blocks)
    return (
        op,
        op.parent,
        tuple(op.operands),
        tuple(op.result_types),
        tuple(op.successors),
        dict(op.attributes),
        dict(op.properties),
        tuple(len(region.blocks) for region in op.regions),
        blocks,
    )

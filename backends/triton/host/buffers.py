"""The memory of the values in a host program: their buffers, and when they are freed."""

from collections import defaultdict
from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.utils.hints import isa

from coda_ir.backends.triton.host.workspace import Workspace
from coda_ir.diagnostics import InvalidProgramError, LoweringError
from coda_ir.dialects.coda.shapes import element_type_of
from coda_ir.dialects.torch import CallOp
from coda_ir.remarks import format_location
from coda_ir.storage import (
    is_donated,
    is_view,
    overwritten,
    placement,
    read_by,
    stale_reads,
    storage_root,
)
from coda_ir.symbolic_shapes import SymbolicShapes

SHARED_PREFIX = "b"
"""Buffers of the plan whose name starts so may be shared; the others are reserved names."""


class HostBuffers:
    """Last uses, the buffers of `plan-buffers`, and the variables that keep memory alive."""

    def __init__(self, func: FuncOp):
        self._position: dict[Operation, int] = {}
        self._last_use: dict[SSAValue, int] = {}
        self._buffer: dict[SSAValue, str] = {}
        self._takers = defaultdict[str, list[int]](list)
        """Positions of the results that each buffer is still to hold."""
        self._holder: dict[str, SSAValue] = {}
        self._variables: dict[SSAValue, list[str]] = {}
        self._dying = defaultdict[int, list[SSAValue]](list)
        """Values with variables by the position of their last use."""
        self.workspace = Workspace()
        self._copies = defaultdict[int, list[str]](list)
        """Copies by the position of the last use of what they are copies of."""
        _check_changes(func)
        for position, op in enumerate(func.body.block.ops):
            self._position[op] = position
            for value in (*op.results, *read_by(op)):
                self._last_use[storage_root(value)] = position
            self._read_plan(op, position)

    def _read_plan(self, op: Operation, position: int) -> None:
        names = None if is_view(op) else op.attributes.get("coda.buffers")
        if not isa(names, ArrayAttr[StringAttr]) or len(names.data) != len(op.results):
            return
        for result, name in zip(op.results, names.data, strict=True):
            whole = placement(result) or result
            is_new = whole not in self._buffer and overwritten(whole) is None
            if name.data.startswith(SHARED_PREFIX) and is_new:
                self._buffer[whole] = name.data
                self._takers[name.data].append(position)

    def is_used(self, value: SSAValue) -> bool:
        return value in self._last_use

    def check_fit(self, previous: SSAValue, result: SSAValue, shapes: SymbolicShapes) -> None:
        """Raise LoweringError unless a result fits into the buffer of `previous`, which is dead."""
        op = result.owner
        assert isinstance(op, Operation), "an operator stores it"
        same_size = shapes.numel(previous) == shapes.numel(result)
        same_type = element_type_of(previous) == element_type_of(result)
        is_dead = self._last_use[storage_root(previous)] < self._position[op]
        if not (same_size and same_type and is_dead):
            raise LoweringError(
                f"{format_location(op.location)}: {op.name}: coda.buffers puts a result "
                f"into buffer {self._buffer[result]}, which does not fit or is still in use",
                "run the pass 'plan-buffers' again, after all passes that change the program",
            )

    def place(self, result: SSAValue, size: int) -> int | None:
        """Return where the bytes of a result begin in the workspace, instead of in the buffer of
        the plan; None without such a buffer, as of results of the function, or without a place.
        """
        start = self.workspace.take(result, size) if result in self._buffer else None
        if start is not None:
            self.own(result, [])
            self._takers[self._buffer.pop(result)].pop(0)
        return start

    def holder(self, result: SSAValue) -> SSAValue | None:
        """Return the value that had the buffer of `result` last; None if it is new."""
        return self._holder.get(self._buffer.get(result, ""))

    def keep(self, value: SSAValue, variables: Sequence[str]) -> None:
        """Record variables that keep a value's memory alive; the caller keeps that of arguments."""
        root = storage_root(value)
        if root in self._variables:
            self._variables[root] += variables
        elif not isinstance(root, BlockArgument):
            self.own(root, variables)

    def keep_copy(self, value: SSAValue, variable: str) -> None:
        """Record a copy of a value, which is dropped after the last use of the value's memory."""
        self._copies[self._last_use[storage_root(value)]].append(variable)

    def own(self, value: SSAValue, variables: Sequence[str]) -> None:
        """Record variables that alone keep the memory of a value alive, up to its last use."""
        self._variables[value] = list(variables)
        self._dying[self._last_use[value]].append(value)

    def take(self, result: SSAValue, variable: str) -> None:
        """Assign a result its buffer, or a new one, in a variable."""
        previous = self.holder(result)
        before = [] if previous is None else self._variables[previous]
        self.keep(result, [*before, variable])
        buffer = self._buffer.get(result)
        if buffer is not None:
            self._holder[buffer] = result
            self._takers[buffer].pop(0)

    def dead_after(self, op: Operation) -> list[str]:
        """Return the variables of values last used in `op`, unless a later result reuses them."""
        dead: list[str] = []
        for value in self._dying.pop(self._position[op], ()):
            self.workspace.free(value)
            buffer = self._buffer.get(value)
            if buffer is None or not self._takers[buffer]:
                dead += self._variables[value]
        return [*dead, *self._copies.pop(self._position[op], [])]


def _check_changes(func: FuncOp) -> None:
    """Raise CodaError for a call that changes in place what is read later or the caller keeps."""
    remedy = "remove in_place: accumulate-in-place sets it where it may"
    for op, call in stale_reads(func.body.block.ops):
        reader = (
            "also reads it as another operand, of which it may have changed parts by then"
            if op is call
            else f"{op.name} reads it afterwards"
        )
        raise InvalidProgramError(
            f"{format_location(call.location)}: {call.callee.data} changes its operand in place, "
            f"and {reader}",
            remedy,
        )
    for call in func.body.block.ops:
        if not isinstance(call, CallOp) or call.in_place is None:
            continue
        root = storage_root(call.inputs[0])
        if isinstance(root, BlockArgument) and not is_donated(root):
            raise InvalidProgramError(
                f"{format_location(call.location)}: {call.callee.data} changes its operand in "
                "place, an argument that is not coda.donated",
                remedy,
            )

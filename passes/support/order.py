"""Order of operators in a block, and hoisting of the operands of a fused operator."""

from collections.abc import Iterable, Sequence

from xdsl.dialects.builtin import UnknownLoc
from xdsl.ir import Block, Operation, SSAValue

from coda_ir.dominance import reached, users_of
from coda_ir.remarks import fuse_locations


class BlockOrder:
    """The order of the operators of one block, with constant-time comparison.

    Rewrites that insert or move operators through this class keep it up to date.
    """

    def __init__(self, block: Block):
        self.block = block
        self._position: dict[Operation, float] = {}
        self._renumber()

    def _renumber(self) -> None:
        self._position = {op: float(index) for index, op in enumerate(self.block.ops)}

    def position(self, op: Operation) -> float:
        return self._position[op]

    def insert_before(self, op: Operation, anchor: Operation) -> None:
        """Insert a new operator, or move one of the block, to just before `anchor`."""
        if op.parent is not None:
            op.detach()
        self.block.insert_op_before(op, anchor)
        after = self._position[anchor]
        previous = op.prev_op
        before = self._position[previous] if previous is not None else after - 2.0
        middle = (before + after) / 2
        if before < middle < after:
            self._position[op] = middle
        else:
            self._renumber()

    def replace(self, old: Operation, new: Operation) -> None:
        """Replace `old` by `new`; the uses of `old` must have been replaced."""
        self.insert_before(new, old)
        old.detach()
        del self._position[old]
        old.erase()

    def substitute(self, old: Operation, new: Operation, others: Sequence[SSAValue] = ()) -> None:
        """Replace `old` by `new`, which takes over its place, and the uses of it and `others`."""
        if isinstance(new.location, UnknownLoc):
            new.location = old.location
        for before, after in zip([*old.results, *others], new.results, strict=True):
            before.replace_all_uses_with(after)
        self.replace(old, new)

    def give_way(self, old: Operation, values: Iterable[SSAValue]) -> None:
        """Erase `old`, the uses of whose results `values` take over."""
        for before, after in zip(old.results, values, strict=True):
            before.replace_all_uses_with(after)
        self.erase(old)

    def join(
        self, first: Operation, second: Operation, outputs: Sequence[SSAValue], joined: Operation
    ) -> None:
        """Replace `first` by `joined` and erase `second`; results take over those of `outputs`."""
        joined.location = fuse_locations(first.location, second.location)
        for old, new in zip(outputs, joined.results, strict=True):
            old.replace_all_uses_with(new)
        self.replace(first, joined)
        self.erase(second)

    def erase(self, op: Operation) -> None:
        del self._position[op]
        op.detach()
        op.erase()

    def slices_after(self, values: Iterable[SSAValue], anchor: Operation) -> list[Operation] | None:
        """Return the operators from `anchor` on that `values` need; None if one needs `anchor`."""
        limit = self._position[anchor]
        found: set[Operation] = set()
        pending = list(values)
        while pending:
            owner = pending.pop().owner
            # Not `isinstance`, which asks an abstract base class: that takes ten times as long.
            if type(owner) is Block or owner in found:
                continue
            if owner is anchor:
                return None
            if self._position[owner] < limit:
                continue
            found.add(owner)
            pending.extend(owner.operands)
        return sorted(found, key=lambda op: self._position[op])

    def hoist(self, values: Iterable[SSAValue], anchor: Operation) -> bool:
        """Make `values` available before `anchor`; return False if one depends on `anchor`."""
        ops = self.slices_after(values, anchor)
        if ops is None:
            return False
        for op in ops:
            self.insert_before(op, anchor)
        return True

    def sink(self, op: Operation, anchor: Operation) -> None:
        """Move `op`, and the operators that depend on it, after `anchor` if they precede it."""
        if self._position[op] < self._position[anchor]:
            self.sink_users(op, anchor)
            after = anchor.next_op
            assert after is not None, "a block ends with its terminator"
            self.insert_before(op, after)

    def sink_users(self, op: Operation, anchor: Operation) -> None:
        """Move the operators before `anchor` that depend on `op` to just after `anchor`."""
        limit = self._position[anchor]

        def early_users(op: Operation) -> list[Operation]:
            return [user for user in users_of(op) if self._position[user] < limit]

        after = anchor.next_op
        assert after is not None, "a block ends with its terminator"
        for user in sorted(reached(early_users(op), early_users), key=self.position):
            self.insert_before(user, after)

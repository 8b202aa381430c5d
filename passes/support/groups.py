"""Group code: pointwise operators, and reductions, over each group of columns."""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import prod

from xdsl.ir import Block, Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import computes_in_float32, element_type_of, shape_of
from coda_ir.dialects.gemm import FusedOp, PortKind
from coda_ir.dialects.gemm.places import splits_columns
from coda_ir.dialects.gemm.scalar_code import is_pointwise
from coda_ir.dialects.gemm.tables import port_kind
from coda_ir.dominance import reached, users_of
from coda_ir.passes.support.editing import Site
from coda_ir.passes.support.order import BlockOrder
from coda_ir.storage import is_transposed_matrix

MAX_GROUP = 256
"""Columns of the largest group that a tile holds."""

MAX_ROW_OF_TILE = 128
"""Columns of the longest row that a GEMM computes in one tile for code on whole rows. On an H100,
16, 512, 8192 and 131072 rows of 64 to 128 columns took 0.61 to 1.12 of the time of two kernels; of
256 columns, with K = 1024, 2.1, 0.60, 0.95 and 1.06 of it."""

MAX_ROW = 8192
"""Columns of the longest row that a program of a pointwise kernel holds in registers."""

GroupReduction = coda.ReduceOp | coda.NormStatsOp | coda.SoftmaxOp
"""Operators that need all columns of a group; a softmax gives each of them an element."""


def is_of_small_groups(op: Operation) -> bool:
    """Return whether `op` reduces groups of columns that a tile holds, without a separate pass."""
    if not isinstance(op, GroupReduction) or not splits_columns(op.x.owner):
        return False
    return shape_of(op.x)[-1] <= MAX_GROUP


@dataclass(eq=False)
class GroupCode:
    """Operators that combine and reduce groups of columns.

    The columns are split, and the operators on (... x H x G), or there is one group, of whole rows.
    """

    domain: tuple[int, ...]
    is_split: bool = True
    ops: list[Operation] = field(default_factory=list[Operation])
    """In order; the splits of the columns are among them."""
    values: set[SSAValue] = field(default_factory=set[SSAValue])
    repeated: set[Operation] = field(default_factory=set[Operation])
    """Pointwise operators before the reductions, which others repeat as well."""
    after: set[SSAValue] = field(default_factory=set[SSAValue])
    """Values that other operators compute from results of the code, which cannot load them."""
    gemm: FusedOp | None = None
    """A GEMM that could also give the sums of its tiles to a kernel after it: the code runs in its
    epilogue or stays outside of GEMMs."""

    @property
    def group(self) -> int:
        return self.domain[-1]

    @property
    def columns(self) -> int:
        """N, the columns of all groups of a row."""
        return self.domain[-2] * self.domain[-1] if self.is_split else self.domain[-1]

    @property
    def shape(self) -> tuple[int, ...]:
        """(... x N)."""
        return (*self.domain[:-2], self.columns) if self.is_split else self.domain

    @property
    def bases(self) -> list[SSAValue]:
        """The tensors (... x N) that the code reads."""
        if not self.is_split:
            return [value for value in self.leaves if self.is_tile(value)]
        found = [op.x for op in self.ops if isinstance(op, coda.ReshapeOp)]
        return list(dict.fromkeys(found))

    @property
    def leaves(self) -> list[SSAValue]:
        """The operands of the code: split tensors, rows and scalars."""
        others = [v for op in self.ops for v in op.operands if v not in self.values]
        return [v for v in dict.fromkeys(others) if not isinstance(v.owner, coda.ConstantOp)]

    @property
    def values_of_groups(self) -> list[SSAValue]:
        """The group values that others read."""
        found = [v for op in self.ops if not isinstance(op, coda.SumToOp) for v in op.results]
        return [v for v in found if not self.is_tile(v) and self.users_outside(v)]

    @property
    def reductions(self) -> list[Operation]:
        return [op for op in self.ops if isinstance(op, GroupReduction)]

    @property
    def around_reductions(self) -> set[Operation]:
        """The reductions, their producers in the code, and their consumers."""
        sums = [op for op in self.ops if isinstance(op, GroupReduction | coda.SumToOp)]
        before = self._reached(sums, lambda op: [v.owner for v in op.operands])
        return before | self._reached(sums, users_of)

    def _reached(
        self,
        starts: Iterable[Operation],
        neighbours: Callable[[Operation], Iterable[Operation | Block]],
    ) -> set[Operation]:
        """Return `starts`, and the operators of the code that neighbours lead to."""
        own: set[Operation | Block] = set(self.ops)

        def inside(op: Operation) -> Iterator[Operation]:
            return (x for x in neighbours(op) if isinstance(x, Operation) and x in own)

        return set(reached(starts, inside))

    def stores_after(self, value: SSAValue) -> bool:
        """Return whether others read columns that are computed from `value`."""
        after = self._reached((use.operation for use in value.uses), users_of)
        found = [op.results[0] for op in after if op in self.ops]
        return any(self.is_tile(each) and self.users_outside(each) for each in found)

    @property
    def has_softmax(self) -> bool:
        return any(isinstance(op, coda.SoftmaxOp) for op in self.ops)

    @property
    def anchor(self) -> Operation:
        """The position of a kernel for the code, before which its operands are moved."""
        return self.ops[0] if self.is_split else self.reductions[0]

    def is_tile(self, value: SSAValue) -> bool:
        """Return whether `value` has an element per column, and not one per group."""
        return shape_of(value) == self.domain

    def is_of_groups(self, value: SSAValue) -> bool:
        """Return whether `value` has an element per group, of each row or of all of them."""
        *_, groups, _ = self.domain
        return shape_of(value) in ((*self.domain[:-1], 1), (groups, 1))

    def is_of_columns(self, value: SSAValue) -> bool:
        """Return whether `value` has an element per column of all groups: (H x G) for all rows."""
        shape = shape_of(value)
        return self.is_split and shape[-2:] == self.domain[-2:] and prod(shape[:-2]) == 1

    def columns_of_group(self, site: Site) -> int:
        """Return the number of epilogue columns in a group: two for each element of a pair."""
        return 2 * self.group if site.is_half else self.group

    def users_outside(self, value: SSAValue) -> list[Operation]:
        users = [use.operation for use in value.uses]
        return [user for user in dict.fromkeys(users) if user not in self.ops]

    def add(self, op: Operation) -> None:
        self.ops.append(op)
        self.values.update(op.results)

    def admits(self, op: Operation) -> bool:
        """Return whether `op`, which reads a value of the code, belongs to it."""
        if isinstance(op, coda.SoftmaxOp):
            return self.is_tile(op.x) and _is_float32(op)
        if isinstance(op, coda.ReduceOp | coda.NormStatsOp):
            is_norm = isinstance(op, coda.NormStatsOp)
            kinds = ("rms", "layer") if is_norm else ("sum", "mean", "max")
            return op.kind.data in kinds and self.is_tile(op.x) and _is_float32(op)
        if isinstance(op, coda.SumToOp):
            is_by_column = shape_of(op.result) == (self.group,) or self.is_of_columns(op.result)
            return self.is_tile(op.x) and is_by_column and _is_float32(op)
        per_group = (*self.domain[:-1], 1)
        if isinstance(op, coda.BroadcastOp):
            shapes = (shape_of(op.x), shape_of(op.result))
            return op.like is None and shapes == (per_group, self.domain)
        fits = is_pointwise(op) and shape_of(op.results[0]) in (self.domain, per_group)
        return fits and all(map(self._fits_port, op.operands))

    def _fits_port(self, value: SSAValue) -> bool:
        if value in self.values or isinstance(value.owner, coda.ConstantOp):
            return True
        kind = port_kind(shape_of(value), self.domain)
        if not self.is_split:
            return kind is not None
        is_of_groups = self.is_of_groups(value) or self.is_of_columns(value)
        is_loaded = is_of_groups and value not in self.after
        return kind in (PortKind.ROW, PortKind.SCALAR) or is_loaded


def _is_float32(op: Operation) -> bool:
    return all(computes_in_float32(element_type_of(v)) for v in (*op.operands, *op.results))


def find_group_code(ops: Iterable[Operation]) -> list[GroupCode]:
    """Return the code on groups of columns that a tile holds, if it reduces them, in order."""
    found: list[GroupCode] = []
    code_of: dict[SSAValue, GroupCode] = {}
    after: set[SSAValue] = set()
    for op in ops:
        if splits_columns(op) and shape_of(op.results[0])[-1] <= MAX_GROUP:
            code = GroupCode(shape_of(op.results[0]), after=after)
            found.append(code)
        else:
            read = [code_of[value] for value in op.operands if value in code_of]
            code = _joined(read, code_of, found)
            if code is None or not code.admits(op):
                if read or not after.isdisjoint(op.operands):
                    after.update(op.results)
                continue
        code.add(op)
        code_of.update(dict.fromkeys(op.results, code))
    return [code for code in found if code.reductions]


def _joined(
    read: Sequence[GroupCode], code_of: dict[SSAValue, GroupCode], found: list[GroupCode]
) -> GroupCode | None:
    """Join all group codes in `read` that have the same groups, except those of a vector."""
    rank = max((len(code.domain) for code in read), default=0)
    first, *others = dict.fromkeys(code for code in read if len(code.domain) == rank) or [None]
    for other in others:
        if first is None or other is None or other is first:
            continue
        if other.domain != first.domain:
            return None
        first.ops += other.ops
        first.values |= other.values
        code_of.update(dict.fromkeys(other.values, first))
        found[:] = [code for code in found if code is not other]
    return first


def find_row_code(
    order: BlockOrder, domains: Container[tuple[int, ...]] | None = None
) -> Iterator[GroupCode]:
    """Yield code that reduces rows and then uses their elements again, if no GEMM has them on
    chip, because it would read them twice, and if they are rows in memory. Elements of a softmax
    may be on chip or transposed, because no kernel has the sums that it needs.

    `domains` restricts the shapes of the rows. Each code may be rewritten before the next is found.
    """
    taken: set[Operation] = set()
    for op in list(order.block.ops):
        if not isinstance(op, GroupReduction) or op in taken or op.parent is None:
            continue
        if domains is not None and shape_of(op.x) not in domains:
            continue
        code = _row_code(op, order)
        if code is not None:
            taken.update(code.reductions)
            yield code


def _row_code(reduction: GroupReduction, order: BlockOrder) -> GroupCode | None:
    """Return the code from `reduction` on, and pointwise code before it."""
    code, owner = GroupCode(shape_of(reduction.x), is_split=False), reduction.x.owner
    if len(code.domain) < 2 or not 1 < code.group <= MAX_ROW or not code.admits(reduction):
        return None
    gemm = owner if isinstance(owner, FusedOp) and code.group <= MAX_ROW_OF_TILE else None
    after = _add_users(code, reduction, gemm, order)
    if not any(code.is_tile(value) for value in after):
        return None
    for op in list(code.ops):
        for value in op.operands:
            _add_producers(value, code)
    _add_other_sums(code)
    is_apart = any(is_transposed_matrix(base) or _is_on_chip(base, code) for base in code.bases)
    is_read_once = code.has_softmax or gemm is not None or not is_apart
    code.gemm = None if code.has_softmax else gemm
    return code if is_read_once else None


def _add_users(
    code: GroupCode, reduction: GroupReduction, gemm: FusedOp | None, order: BlockOrder
) -> set[SSAValue]:
    """Add `reduction` and what is computed from it to `code`; return their results. Leave out what
    reads values that others compute from these results, or, except for sums that may join the code,
    from those of the `gemm` whose tile is reduced: one kernel cannot load them. It would repeat all
    of a sum that goes on from layer to layer, such as the gradient of a residual.
    """
    after: set[SSAValue] = set()
    apart: set[SSAValue] = set()
    known: set[Operation] = {reduction}
    pending: list[tuple[float, Operation]] = [(order.position(reduction), reduction)]
    # Once nothing reads the results, the rest of the function does not matter.
    readers: set[Operation] = {reduction}

    def push_users(op: Operation) -> None:
        for user in users_of(op):
            if user not in known:
                known.add(user)
                heappush(pending, (order.position(user), user))

    if gemm is not None:
        push_users(gemm)
    while readers:
        _, op = heappop(pending)
        readers.discard(op)
        is_code = op is reduction or not after.isdisjoint(op.operands)
        is_apart = not apart.isdisjoint(op.operands)
        if is_code and not is_apart and not isinstance(op, coda.SumToOp) and code.admits(op):
            code.add(op)
            after.update(op.results)
            readers.update(users_of(op))
        elif is_code or is_apart or not (is_pointwise(op) or _is_sum_of_elements(op, code)):
            apart.update(op.results)
        push_users(op)
    return after


def _is_sum_of_elements(op: Operation, code: GroupCode) -> bool:
    return isinstance(op, coda.ReduceOp) and code.admits(op)


def _add_other_sums(code: GroupCode) -> None:
    """Add the reductions that only `code` reads, if it has the tiles from which they are computed.
    The gradient of a LayerNorm has two sums, neither of which is computed from the other.
    """
    for value in code.leaves:
        op = value.owner
        if not isinstance(op, coda.ReduceOp) or not code.admits(op) or code.users_outside(value):
            continue
        before = GroupCode(code.domain, is_split=False)
        _add_producers(op.x, before)
        before.add(op)
        if code.values.union(code.leaves).issuperset(filter(code.is_tile, before.leaves)):
            _add_producers(op.x, code)
            code.add(op)
            code.repeated -= code._reached([op], users_of)


def _add_producers(value: SSAValue, code: GroupCode) -> None:
    """Add the pointwise producers of `value` on the elements of rows, each after its operands.

    An explicit stack, because chains may be longer than Python's recursion limit.
    """
    pending = [(value, False)]
    while pending:
        current, operands_done = pending.pop()
        op = current.owner
        is_element = code.is_tile(current) and current not in code.values
        if not isinstance(op, Operation) or not is_element or not is_pointwise(op):
            continue
        if operands_done:
            code.add(op)
            code.repeated.add(op)
        elif code.admits(op):
            pending.append((current, True))
            pending += [(operand, False) for operand in reversed(op.operands)]


def is_weight_gradient(op: object) -> bool:
    """Return whether `op` is the GEMM of a weight gradient."""
    return isinstance(op, FusedOp) and op.is_transposed


def _is_on_chip(value: SSAValue, code: GroupCode) -> bool:
    """Return whether the epilogue of a GEMM computes `value` and could compute the sums of the
    code; not if that needs the statistics of whole rows of `value`, as after a norm.
    """
    if not isinstance(value.owner, FusedOp):
        return False
    if is_weight_gradient(value.owner) and len(code.bases) > 1:
        # The epilogue would read the weight, and the kernel after it once more.
        return False
    # A norm in operators reduces another result of the GEMM: the squares.
    pending = list(code.leaves)
    for leaf in pending:
        op = leaf.owner
        if isinstance(op, GroupReduction) and op.x.owner is value.owner:
            return False
        if isinstance(op, Operation) and is_pointwise(op) and not code.is_tile(leaf):
            pending += [operand for operand in op.operands if operand not in pending]
    return True

"""Moves of epilogue tiles between memory and buffers, by a dedicated warp.

The warps that compute use no TMA, for which they would have to wait for each other. Three kinds of
barriers say who may use which buffers:

    ready  for each of the subtiles that are loaded ahead: the tiles of its ports are there
    free   the next results may be written to their buffers
    done   a subtile has read its tiles and written its results

A tile begins with all buffers free. It has at most as many subtiles as there are barriers `done`:
the warps that compute wait for `ready` or `free` in the first subtile of a tile, which are signaled
when all subtiles of the tile before have been seen, so that they are never ahead by more.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import TypeAlias

from coda_ir.backends.triton.kernel import call, indented
from coda_ir.backends.triton.result_places import in_copies
from coda_ir.backends.triton.warp_specialized.subtile_order import SubtileOrder
from coda_ir.dialects.gemm.buffers import Moves, Staging
from coda_ir.dialects.gemm.places import PlaceAttr

READY, FREE, DONE = "ready", "free", "done"
"""The barriers."""
LOADED, FREED, MOVED = "loaded", "freed", "moved"
"""The variables that count signals of barriers, for all tiles; only needed ones exist."""

BOUND = 2**30
"""The number of the row before which a box ends, in descriptors where the kernel names this row."""

_Block: TypeAlias = tuple[int, list[str]]
"""Statements for the last of that many subtiles."""


@dataclass(frozen=True)
class BoxMove:
    """A box of a port or of a result that moves with a subtile."""

    descriptor: str
    column: Callable[[str], str]
    """Its first column: an expression, given that of the number of the first of its subtiles."""
    buffer: str
    """The place in shared memory: an expression of `subtile`."""
    is_transposed: bool
    """True if columns of the tile are rows of the box."""
    bytes: int
    joined: int = 1
    """The number of subtiles in it, of which this is the last."""
    place: PlaceAttr | None = None
    """The place where it is stored as a part of another tensor."""
    end: str | None = None
    """The row before which it ends, if the descriptor leaves that to the kernel."""

    def store(self) -> list[str]:
        """Return the statements that store the box, once or in several periods of its place."""
        if self.place is None or self.place.copies.data == 1:
            return call("tma_store", (self.descriptor, self.corner(), self.buffer))
        corner = self.corner(further=f" + copy * {self.place.period.data}")
        return in_copies(self.place, call("tma_store", (self.descriptor, corner, self.buffer)))

    def corner(self, subtile_index: str = "subtile_index", further: str = "") -> str:
        """Return the first row and column of the box of a subtile."""
        first = subtile_index if self.joined == 1 else f"({subtile_index} - {self.joined - 1})"
        corner = ("first_row", f"{self.column(first)}{further}")
        if self.end is not None:
            corner = (str(BOUND), self.end, f"{BOUND} - {self.end} + {corner[0]}", corner[1])
        return f"[{', '.join(corner[::-1] if self.is_transposed else corner)}]"


@dataclass(frozen=True)
class Protocol:
    """The buffers and barriers that the column ranges of a kernel share."""

    staging: Staging
    groups: int
    """Groups of warps that compute, each with its own buffers and barriers."""
    barriers: int
    """The number of barriers `done` of a group."""
    counters: tuple[str, ...]
    """The variables of the warps that compute."""

    def of_group(self, count: int, number: str = "") -> str:
        """Return a number among `count` of the group (0 if empty) as one among all groups."""
        if self.groups == 1:
            return number or "0"
        first = "GROUP" if count == 1 else f"{count} * GROUP"
        return f"{first} + {number}" if number else first

    def allocated(self) -> dict[str, int]:
        """Return the number of barriers by name."""
        found = {READY: self.groups * self.staging.depth} if self.staging.loads else {}
        found |= {FREE: self.groups} if self.staging.stores else {}
        return found | ({DONE: self.groups * self.barriers} if self.counters else {})


def protocol_of(staging: Staging, groups: int, subtiles: Sequence[int]) -> Protocol:
    """Return the common protocol of column ranges with these numbers of subtiles."""
    counters = [MOVED] if staging.loads or staging.stores else []
    if staging.loads and any(count // staging.depth % 2 for count in subtiles):
        counters.append(LOADED)
    if staging.loads and staging.stores:
        # Without loads, buffers are asked for as often as subtiles are done.
        counters.append(FREED)
    return Protocol(staging, groups, 1 << (max(subtiles) - 1).bit_length(), tuple(counters))


@dataclass
class TileMoves:
    """The moves for the tiles of a column range, and the statements of both sides."""

    protocol: Protocol
    moves: Moves
    order: SubtileOrder
    loads: list[BoxMove] = field(default_factory=list[BoxMove])
    stores: list[BoxMove] = field(default_factory=list[BoxMove])

    @property
    def staging(self) -> Staging:
        return self.protocol.staging

    @property
    def place_of_loads(self) -> str:
        """The number of the buffers and of the barrier of `subtile`."""
        depth = self.staging.depth
        return self.protocol.of_group(depth, "" if depth == 1 else f"subtile % {depth}")

    @property
    def _free(self) -> str:
        return f"{FREE}.index({self.protocol.of_group(1)})"

    @property
    def _done(self) -> str:
        count = self.protocol.barriers
        number = "" if count == 1 else f"{MOVED} % {count}"
        return f"{DONE}.index({self.protocol.of_group(count, number)})"

    @property
    def _turns(self) -> int:
        """After how many subtiles there are results that take turns in buffers; 0 where none do."""
        turning = self.staging.turns(self.moves)
        return min((self.moves.joined[store] for store in turning), default=0)

    @property
    def _asks_again(self) -> bool:
        """True if all subtiles request buffers, not only the first of a tile that needs some."""
        is_counted = FREED in self.protocol.counters
        return not is_counted or self.staging.under_way(self.moves) is not None

    @property
    def _stored(self) -> int:
        """After how many subtiles there are results."""
        return min(self.moves.joined)

    @property
    def _every(self) -> int:
        """The number of subtiles after which buffers are handed over."""
        return 1 if self.loads else self._stored

    # The warps that compute

    def wait_for_loads(self) -> str:
        """Return the wait for the tiles of a subtile."""
        depth = self.staging.depth
        terms = [LOADED] if LOADED in self.protocol.counters else []
        if depth < self.order.subtiles:
            terms.append("subtile" if depth == 1 else f"subtile // {depth}")
        turn = " + ".join(terms)
        turn = turn if turn.isidentifier() else f"({turn})"
        return f"mbarrier.wait({READY}.index({self.place_of_loads}), {turn} & 1)"

    def count_loads(self) -> list[str]:
        """Return the end of a tile, which counts how often its tiles were loaded to each buffer."""
        if not self.loads or LOADED not in self.protocol.counters:
            return []
        return [f"{LOADED} += {self.order.subtiles // self.staging.depth}"]

    def ask_for_buffers(self) -> list[str]:
        """Return the wait, before the epilogue of a subtile, for buffers that are free by then.

        A wait between its values and their stores would keep more of them in registers.
        """
        return _in_blocks([(self._turns, self._wait_for_buffers())]) if self._asks_early else []

    def write(self, box: BoxMove, value: str) -> list[str]:
        """Return the write of a result of one or more subtiles to the buffer it is stored from."""
        is_first = [len(self.stores)] == self.staging.turns(self.moves)[:1]
        self.stores.append(box)
        waits = is_first and not self._asks_early
        wait = [(self._turns, self._wait_for_buffers())] if waits else []
        return _in_blocks([*wait, (box.joined, [f"{box.buffer}.store({value})"])])

    @property
    def is_written(self) -> bool:
        """True if all results of a subtile are written, of which it has some."""
        return 0 < len(self.stores) == len(self.moves.stores)

    @property
    def _asks_early(self) -> bool:
        """True if the buffers of a subtile are free while the subtile before is stored."""
        pending = self.staging.under_way(self.moves)
        return self._turns > 0 and (pending is None or pending >= len(self.moves.stores))

    def _wait_for_buffers(self) -> list[str]:
        if FREED not in self.protocol.counters:
            return [f"mbarrier.wait({self._free}, {MOVED} & 1)"]
        lines = [f"mbarrier.wait({self._free}, {FREED} & 1)", f"{FREED} += 1"]
        if self._asks_again or self._turns == self.order.subtiles:
            return lines
        return [f"if subtile == {self._turns - 1}:", *indented(lines)]

    def hand_over(self) -> list[str]:
        """Return the end of a subtile, which signals that its buffers were read and written."""
        fence = [(self._stored, ["fence_async_shared()"])] if self.stores else []
        arrive = [f"mbarrier.arrive({self._done})", f"{MOVED} += 1"]
        return _in_blocks([*fence, (self._every, arrive)]) if self.loads or fence else []

    # The warp that moves

    def emit(self, program_tile: str) -> list[str]:
        """Emit the statements of the warp that moves for tile number `program_tile`."""
        if not self.loads and not self.stores:
            return []
        subtile_index = f"subtile_index = {program_tile} * {self.order.subtiles} + subtile"
        load = self._load_further()
        stores = [(box.joined, box.store()) for box in self.stores]
        free = self._free_buffers()
        moves = [*stores, *load, *free] if self._is_in_place else [*load, *stores, *free]
        wait = f"mbarrier.wait({self._done}, ({MOVED} // {self.protocol.barriers}) & 1)"
        body = _in_blocks([(self._every, [wait, f"{MOVED} += 1"]), *moves])
        loop = self.order.loops([], indented([subtile_index, *body]))
        return [*self._begin(subtile_index), *loop]

    @property
    def _is_in_place(self) -> bool:
        """True if results are stored from the buffers of loaded tiles."""
        return bool(self.loads and self.staging.in_place(self.moves))

    def _begin(self, subtile_index: str) -> list[str]:
        """Return the loads of the first subtiles, after the previous tile is done."""
        first = [subtile_index, *self._load("subtile_index")]
        loop = [f"for subtile in tl.static_range({self.staging.depth}):", *indented(first)]
        lines = loop if self.loads else []
        wait = ["tma.store_wait(0)"] if self._is_in_place or self._turns else []
        lines = [*wait, *lines] if self._is_in_place else [*lines, *wait]
        return [*lines, *([f"mbarrier.arrive({self._free})"] if self._turns else [])]

    def _load(self, subtile_index: str) -> list[str]:
        place = self.place_of_loads
        lines = [f"mbarrier.expect({READY}.index({place}), {sum(box.bytes for box in self.loads)})"]
        for box in self.loads:
            arguments = (
                box.descriptor,
                box.corner(subtile_index),
                f"{READY}.index({place})",
                box.buffer,
            )
            lines += call("tma_load", arguments)
        return lines

    def _load_further(self) -> list[_Block]:
        """Return the loads of the subtile that reuses the buffers of this one."""
        depth, subtiles = self.staging.depth, self.order.subtiles
        if not self.loads or depth == subtiles:
            return []
        wait = ["tma.store_wait(0)"] if self._is_in_place else []
        lines = [*wait, *self._load(f"(subtile_index + {depth})")]
        return [(1, [f"if subtile < {subtiles - depth}:", *indented(lines)])]

    def _free_buffers(self) -> list[_Block]:
        """Return the wait until the buffers of the next results of this tile are free."""
        if not self._turns or not self._asks_again:
            return []
        last = self.order.subtiles // self._turns - 1
        pending = self.staging.under_way(self.moves)
        wait = [] if pending is None else [f"tma.store_wait({pending})"]
        lines = [*wait, f"mbarrier.arrive({self._free})"]
        return [(self._turns, [f"if {self.order.box(self._turns)} < {last}:", *indented(lines)])]


def _in_blocks(statements: Sequence[_Block]) -> list[str]:
    """Return statements under their conditions, merging neighbours with the same one."""
    lines: list[str] = []
    for joined, blocks in groupby(statements, key=itemgetter(0)):
        body = [line for _, block in blocks for line in block]
        is_last = f"if subtile % {joined} == {joined - 1}:"
        lines += [is_last, *indented(body)] if joined > 1 else body
    return lines

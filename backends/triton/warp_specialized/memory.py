"""The shared memory of a kernel: stages, buffers, and the barriers that guard them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Attribute

from coda_ir.backends.triton.kernel import tl_type
from coda_ir.backends.triton.warp_specialized.gluon import Box, Layouts
from coda_ir.backends.triton.warp_specialized.tile_moves import Protocol
from coda_ir.dialects.gemm import ScheduleAttr
from coda_ir.dialects.gemm.buffers import BufferShape, Staging

TURNS = "turns"
"""The barriers of groups that multiply in turns: signaled when it is a group's turn."""


@dataclass(frozen=True)
class SharedMemory:
    """The shared memory that a kernel allocates, by name."""

    schedule: ScheduleAttr
    protocol: Protocol
    boxes: Mapping[str, tuple[Box, Attribute]]
    """The shape of a stage of each operand, or of a piece of it, and its element type. A stage is
    `full` when its loads are there, and `empty` when it was used."""
    layouts: Layouts
    copiers: int = 0
    """Threads that copy to each stage, and say so, beside what TMA loads."""

    @property
    def names(self) -> list[str]:
        """The names of all shared memory: stages, then the buffers of ports and results."""
        ports = [f"port{number}_buffers" for number in range(len(self.staging.loads))]
        buffers = [buffers_name(self.staging, shape) for shape in self.staging.stores]
        exchanged = [exchanged_name(self.staging, shape) for shape in self.staging.exchanged]
        stages = [*self.boxes, "full", "empty"]
        return [*stages, *self._barriers, *ports, *buffers, *exchanged]

    @property
    def _barriers(self) -> dict[str, int]:
        """The number of barriers by name, besides those of the stages."""
        turns = {TURNS: self.schedule.groups} if self.schedule.alternates else {}
        return turns | self.protocol.allocated()

    @property
    def staging(self) -> Staging:
        return self.protocol.staging

    def emit(self) -> list[str]:
        """Emit the statements that allocate and initialize it."""
        stages, groups = self.schedule.stages.data, self.schedule.groups
        ahead = groups * self.staging.depth
        text = _Statements(self.layouts)
        for name, (box, element) in self.boxes.items():
            text.allocate(name, stages, box, element)
        text.barriers("full", stages, arrivals=1 + self.copiers)
        # Each group that reads a stage hands it back.
        text.barriers("empty", stages, arrivals=2 if self.schedule.splits_rows else 1)
        for name, count in self._barriers.items():
            text.barriers(name, count)
        for number, (rows, lanes, element) in enumerate(self.staging.loads):
            text.allocate(f"port{number}_buffers", ahead, (rows, lanes), element)
        for shape, count in self.staging.stores.items():
            name = buffers_name(self.staging, shape)
            text.allocate(name, groups * count, shape[:2], shape[2])
        for shape in self.staging.exchanged:
            text.allocate(exchanged_name(self.staging, shape), groups, shape[:2], shape[2])
        return [*text.allocations, *text.initializations(), "fence_async_shared()"]


@dataclass
class _Statements:
    layouts: Layouts
    allocations: list[str] = field(default_factory=list[str])
    _barriers: dict[int, list[str]] = field(default_factory=dict[int, list[str]])

    def allocate(self, name: str, count: int, box: Box, element: Attribute) -> None:
        shape = f"[{count}, {box[0]}, {box[1]}]"
        layout = self.layouts.name(element, box)
        call = f"tl.allocate_shared_memory({tl_type(element)}, {shape}, {layout})"
        self.allocations.append(f"{name} = {call}")

    def barriers(self, name: str, count: int, arrivals: int = 1) -> None:
        layout = "mbarrier.MBarrierLayout()"
        call = f"tl.allocate_shared_memory(tl.int64, [{count}, 1], {layout})"
        self.allocations.append(f"{name} = {call}")
        init = f"    mbarrier.init({name}.index(index), count={arrivals})"
        self._barriers.setdefault(count, []).append(init)

    def initializations(self) -> Sequence[str]:
        return [
            line
            for count, inits in self._barriers.items()
            for line in (f"for index in tl.static_range({count}):", *inits)
        ]


def buffers_name(staging: Staging, shape: BufferShape) -> str:
    """Return the buffers through which results of a shape are stored."""
    if len(staging.stores) == 1:
        return "buffers"
    return f"buffers_{list(staging.stores).index(shape)}"


def exchanged_name(staging: Staging, shape: BufferShape) -> str:
    """Return the buffers in which results of a shape are redistributed among threads."""
    return (
        f"exchanged_{staging.exchanged.index(shape)}" if len(staging.exchanged) > 1 else "exchanged"
    )

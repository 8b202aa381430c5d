"""Text shared by the kernels of selective scans and of their gradients."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import e, log2
from typing import Generic, TypeVar

from xdsl.dialects.builtin import DYNAMIC_INDEX, f32
from xdsl.ir import Attribute, SSAValue

from coda_ir.backends.triton.host_values import ROW_COUNT, HostValue, nth_operand, nth_output
from coda_ir.backends.triton.kernel import EmittedKernel, KernelArgument, indented
from coda_ir.backends.triton.kernel_text import (
    emitted,
    load,
    next_power_of_2,
    pointer_argument,
    rounded,
)
from coda_ir.dialects.coda.scan import ScanLike, StateSpaceLike
from coda_ir.dialects.coda.shapes import element_type_of, shape_of

CHUNK = 128
"""Rows of a chunk. Its states have N / 32 times the bytes of x, for float32 and bfloat16."""

CHANNELS = 32
"""Channels of a program: one for each thread of a warp, which has all of the channel's states. With
two, each takes twice the registers, and reads rows of b and c one element after the other."""

STEPS = 4
"""Rows that a program loads before it computes, so that it waits once for all of them."""

OPERANDS = ("x", "dt", "a", "b", "c")


StateSpace = TypeVar("StateSpace", bound=StateSpaceLike)


def holds_all(op: StateSpaceLike, *, is_reversed: bool = False) -> bool:
    """Return whether kernels keep the states at the end of all chunks, for those after the last
    position; reversed, the adjoints before all chunks, for that of the initial states.
    """
    return getattr(op, "d_initial" if is_reversed else "final", None) is not None


@dataclass(frozen=True)
class StateSpaceText(ABC, Generic[StateSpace]):
    """Text shared by the kernels of all state-space models."""

    op: StateSpace
    pitches: Mapping[SSAValue, int]
    """The elements between the starts of the rows of operands that are ranges of columns."""

    def operand(self, name: str) -> KernelArgument:
        """Return the argument for an operand of the model."""
        value = getattr(self.op, name)
        place = nth_operand(list(self.op.operands).index(value))
        return pointer_argument(f"{name}_ptr", element_type_of(value), place)

    def carried(self, *names: str) -> list[KernelArgument]:
        """Return the arguments for the existing operands of states."""
        return [self.operand(name) for name in names if getattr(self.op, name, None) is not None]

    @property
    @abstractmethod
    def chunks(self) -> str:
        """The number of chunks of a sample, in the kernel."""

    def held_chunks(self, *, is_reversed: bool = False) -> str:
        """The number of chunks of a sample whose states kernels keep."""
        is_all = holds_all(self.op, is_reversed=is_reversed)
        return self.chunks if is_all else f"({self.chunks} - 1)"

    @abstractmethod
    def load_states(self, name: str, base: str, place: str, condition: str = "") -> str:
        """Return the statement that loads the states of a chunk, 0 unless there are some."""

    @abstractmethod
    def add_carried(self, name: str, operand: str, condition: str) -> list[str]:
        """Return the statement that adds an operand of states, if there is one."""

    def states_before(self) -> list[str]:
        """Return the statements for the states `h` before a chunk."""
        place = "place - 1" if holds_all(self.op) else "place - sample - 1"
        return [
            "# States are stored for the ends of chunks. The last one may have none.",
            self.load_states("h", "states_ptr", place, "chunk > 0"),
            *self.add_carried("h", "initial", "chunk == 0"),
        ]

    def adjoints_after(self) -> list[str]:
        """Return the statements for the adjoint `g` of the states after a chunk."""
        place = "place + 1" if holds_all(self.op, is_reversed=True) else "place - sample"
        return [
            "# Adjoints are stored for the starts of chunks. The first one may have none.",
            self.load_states("g", "adjoints_ptr", place, f"chunk < {self.chunks} - 1"),
            *self.add_carried("g", "d_final", f"chunk == {self.chunks} - 1"),
        ]


@dataclass(frozen=True)
class ScanText(StateSpaceText[ScanLike]):
    """Text shared by the kernels of selective scans.

    Tiles are N x `channels`: rows of a warp's threads are channels, which loads of x and dt have as
    neighbours, and sums over the states stay within a thread.
    """

    channels: int = CHANNELS

    @property
    def chunks(self) -> str:
        return f"tl.cdiv(T, {CHUNK})"

    @property
    def extent(self) -> str:
        """The number of channels, in the kernel."""
        channels = shape_of(self.op.a)[0]
        return "D" if channels == DYNAMIC_INDEX else str(channels)

    @property
    def blocks(self) -> str:
        """The number of blocks of channels, in the kernel."""
        if self.extent == "D":
            return f"tl.cdiv(D, {self.channels})"
        return str(-(-int(self.extent) // self.channels))

    def grid(self) -> HostValue:
        """Return the programs: one for each block of channels of each row of the launch."""
        channels = shape_of(self.op.a)[0]
        if channels == DYNAMIC_INDEX:
            return self.operand("a").value.shape(0).ceiling(self.channels) * ROW_COUNT
        return ROW_COUNT * -(-channels // self.channels)

    def numbers(self) -> list[KernelArgument]:
        """Return the arguments for extents."""
        x = nth_operand(list(self.op.operands).index(self.op.x))
        numbers = [KernelArgument("T", "i32", x.shape(1))]
        return numbers + ([KernelArgument("D", "i32", x.shape(2))] if self.extent == "D" else [])

    def place(self, row: str) -> list[str]:
        """Return the statements for a program's channels, and for `row`, its row of the launch."""
        return [
            f"{row} = (tl.program_id(0) // {self.blocks}).to(tl.int64)",
            f"channel = tl.program_id(0) % {self.blocks} * {self.channels}"
            f" + tl.arange(0, {self.channels})[None, :]",
            f"inside = channel < {self.extent}",
            f"state = tl.arange(0, {next_power_of_2(self.op.state_count)})[:, None]",
            f"holds = state < {self.op.state_count}",
        ]

    def chunk(self, chunks: str, first: int = 0) -> list[str]:
        """Return the statements that find the chunk of a program, its sample, and its rows."""
        number = f"place % {chunks}"
        return [
            *self.place("place"),
            f"sample = place // {chunks}",
            f"chunk = {number} + {first}" if first else f"chunk = {number}",
            f"row = sample * T + chunk * {CHUNK}",
            f"end = tl.minimum(row + {CHUNK}, (sample + 1) * T)",
        ]

    def states_kernel(
        self,
        name: str,
        operands: Sequence[str],
        begin: Sequence[str],
        loop: Sequence[str],
        summary: str,
    ) -> EmittedKernel:
        """Return a kernel whose `loop` leaves states `h` and sum `time` of the chunk of `begin`."""
        lines = [
            *begin,
            self.a(),
            self.zeros("h"),
            self.zeros("time", 1),
            *loop,
            self.store_states("h", "states_ptr", "place"),
            f"tl.store({self.at_time()}, time, mask=inside)",
        ]
        arguments = [*map(self.operand, operands), output("states", 0), output("times", 1)]
        return self.emitted(name, arguments, lines, summary)

    def a(self) -> str:
        """Return the statement that loads a."""
        pointer = f"a_ptr + channel * {self.op.state_count} + state"
        return f"a = {load(pointer, element_type_of(self.op.a), 'inside & holds')}"

    def load_rows(self, names: Sequence[str]) -> list[str]:
        """Return the statements that load rows of some operands: zeros past the end."""
        return [self.load_row(name, number) for number in range(STEPS) for name in names]

    def load_row(self, name: str, number: int) -> str:
        """Return the statement that loads a row of an operand."""
        value: SSAValue = getattr(self.op, name)
        is_of_states = name in ("b", "c")
        column, mask = ("state", "holds") if is_of_states else ("channel", "inside")
        width = self.pitches.get(value, shape_of(value)[-1])
        pitch = self.extent if width == DYNAMIC_INDEX else width
        pointer = f"{name}_ptr + {row(number)} * {pitch} + {column}"
        guard = f"{mask} & ({row(number)} < end)"
        return f"{name}_{number} = {load(pointer, element_type_of(value), guard)}"

    def store_row(self, name: str, number: int, type: Attribute) -> list[str]:
        """Return the statements that store a row of channels."""
        pointer = f"{name}_ptr + {row(number)} * {self.extent} + channel"
        value = rounded(f"{name}_{number}", type)
        return [
            f"value_{number} = {value}",
            f"tl.store({pointer}, value_{number}, mask=inside & ({row(number)} < end))",
        ]

    def at_states(self, base: str, place: str) -> str:
        """Return where the states of a chunk are."""
        return f"{base} + (({place}) * {self.op.state_count} + state) * {self.extent} + channel"

    def at_carried(self, base: str) -> str:
        """Return where the states of a sample are in an operand or a result."""
        return f"{base} + (sample * {self.extent} + channel) * {self.op.state_count} + state"

    def add_carried(self, name: str, operand: str, condition: str) -> list[str]:
        if getattr(self.op, operand, None) is None:
            return []
        mask = f"inside & holds & ({condition})"
        return [f"{name} += tl.load({self.at_carried(f'{operand}_ptr')}, mask={mask}, other=0.0)"]

    def zeros(self, name: str, rows: int | None = None) -> str:
        """Return the statement for a tile of zeros: of states, or of this many rows of channels."""
        count = next_power_of_2(self.op.state_count) if rows is None else rows
        return f"{name} = tl.zeros(({count}, {self.channels}), tl.float32)"

    def load_states(self, name: str, base: str, place: str, condition: str = "") -> str:
        mask = f"inside & holds & ({condition})" if condition else "inside & holds"
        return f"{name} = tl.load({self.at_states(base, place)}, mask={mask}, other=0.0)"

    def store_states(self, name: str, base: str, place: str) -> str:
        """Return the statement that stores the states."""
        return f"tl.store({self.at_states(base, place)}, {name}, mask=inside & holds)"

    def at_time(self) -> str:
        """Return where the sum of dt over a chunk is."""
        return f"times_ptr + place * {self.extent} + channel"

    def time(self) -> str:
        """Return the statement that adds the rows to the sum of dt."""
        return f"time += {' + '.join(f'dt_{number}' for number in range(STEPS))}"

    def emitted(
        self, name: str, arguments: Sequence[KernelArgument], lines: Sequence[str], summary: str
    ) -> EmittedKernel:
        return emitted(
            name,
            [*arguments, *self.numbers()],
            lines,
            summary=f"{summary}, blocks of {self.channels} channels",
            grid=self.grid(),
            num_warps=1,
        )


def row(number: int) -> str:
    """Return the row of a step."""
    return f"(row + {number})" if number else "row"


def decay(time: str) -> str:
    """Return the factor of the states after `time`, which a column has: exp(time · a).

    Not a is scaled for the base 2, whose rounding would be the same in all rows.
    """
    return f"tl.exp2({time} * {log2(e)!r} * a)"


def step(number: int, after: str = "h", before: str = "h") -> str:
    """Return the statement that advances the states by a row."""
    return f"{after} = {decay(f'dt_{number}')} * {before} + dt_{number} * x_{number} * b_{number}"


def output(name: str, index: int) -> KernelArgument:
    """Return the argument for a float32 tensor that the host allocates."""
    return pointer_argument(f"{name}_ptr", f32, nth_output(index))


def ends(op: StateSpaceLike, name: str, index: int) -> list[KernelArgument]:
    """Return the argument for the last states, if they are a result."""
    return [] if getattr(op, name, None) is None else [output(name, index)]


def over_chunks(places: str, body: Sequence[str], *, is_reversed: bool) -> list[str]:
    """Return the loop over this many chunks of a sample, from the last one if reversed."""
    first, after = f"sample * {places}", f"(sample + 1) * {places}"
    start, condition, move = f"place = {first}", f"place < {after}", "place += 1"
    if is_reversed:
        start, condition, move = f"place = {after} - 1", f"place >= {first}", "place -= 1"
    return [start, f"while {condition}:", *indented([*body, move])]

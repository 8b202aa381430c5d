"""The kernels of a selective scan, which has as many parts as chunks of time.

    states    the states at the end of each chunk but the last, as if it began with 0
    carry     the states at the end of each chunk, from those of the chunks before
    scan      the results of each chunk, from the states at the end of the chunk before

A program has all states of a block of channels in registers, and walks over the rows of a chunk.
What is N times as large as the operands is never stored. Chunks begin at multiples of `CHUNK`, so
that neither the size of the batch nor what follows a row changes its bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import e, log2

from xdsl.dialects.builtin import DYNAMIC_INDEX, f32
from xdsl.ir import SSAValue

from coda_ir.backends.triton.host_values import ROW_COUNT, HostValue, nth_operand, nth_output
from coda_ir.backends.triton.kernel import EmittedKernel, KernelArgument, indented
from coda_ir.backends.triton.kernel_text import (
    emitted,
    load,
    next_power_of_2,
    pointer_argument,
    rounded,
)
from coda_ir.dialects.coda.scan import ScanLike
from coda_ir.dialects.coda.shapes import element_type_of, shape_of

CHUNK = 128
"""Rows of a chunk. Its states have N / 32 times the bytes of u, for float32 and bfloat16."""

CHANNELS = 32
"""Channels of a program: one for each thread of a warp, which has all of the channel's states. With
two, each takes twice the registers, and reads rows of b and c one element after the other."""

STEPS = 4
"""Rows that a program loads before it computes, so that it waits once for all of them."""

OPERANDS = ("u", "dt", "a", "b", "c")


@dataclass(frozen=True)
class ScanText:
    """Lines that kernels of selective scans share.

    Tiles are N x `channels`: rows of a warp's threads are channels, which loads of u and dt have as
    neighbours, and sums over the states stay within a thread.
    """

    op: ScanLike
    pitches: Mapping[SSAValue, int]
    """The elements between the starts of the rows of operands that are ranges of columns."""
    channels: int = CHANNELS

    @property
    def extent(self) -> str:
        """The number of channels in the kernel."""
        channels = shape_of(self.op.a)[0]
        return "D" if channels == DYNAMIC_INDEX else str(channels)

    @property
    def blocks(self) -> str:
        """The number of blocks of channels in the kernel."""
        if self.extent == "D":
            return f"tl.cdiv(D, {self.channels})"
        return str(-(-int(self.extent) // self.channels))

    def grid(self) -> HostValue:
        """The programs: one for each block of channels of each row of the launch."""
        channels = shape_of(self.op.a)[0]
        if channels == DYNAMIC_INDEX:
            return nth_operand(OPERANDS.index("a")).shape(0).ceiling(self.channels) * ROW_COUNT
        return ROW_COUNT * -(-channels // self.channels)

    def operand(self, name: str) -> KernelArgument:
        """The argument for an operand of the scan."""
        value = getattr(self.op, name)
        place = nth_operand(list(self.op.operands).index(value))
        return pointer_argument(f"{name}_ptr", element_type_of(value), place)

    def numbers(self) -> list[KernelArgument]:
        """The arguments for extents."""
        u = nth_operand(list(self.op.operands).index(self.op.u))
        numbers = [KernelArgument("T", "i32", u.shape(1))]
        return numbers + ([KernelArgument("D", "i32", u.shape(2))] if self.extent == "D" else [])

    def place(self, row: str) -> list[str]:
        """The channels of a program, and the number `row` of its row of the launch."""
        return [
            f"{row} = (tl.program_id(0) // {self.blocks}).to(tl.int64)",
            f"channel = tl.program_id(0) % {self.blocks} * {self.channels}"
            f" + tl.arange(0, {self.channels})[None, :]",
            f"inside = channel < {self.extent}",
            f"state = tl.arange(0, {next_power_of_2(self.op.states)})[:, None]",
            f"holds = state < {self.op.states}",
        ]

    def chunk(self, chunks: str) -> list[str]:
        """Which of so many chunks of which sample a program has, and the rows of the chunk."""
        return [
            *self.place("place"),
            f"sample = place // {chunks}",
            f"chunk = place % {chunks}",
            f"row = sample * T + chunk * {CHUNK}",
            f"end = tl.minimum(row + {CHUNK}, (sample + 1) * T)",
        ]

    def a(self) -> str:
        """The statement that loads a, for exponentials to the base 2."""
        pointer = f"a_ptr + channel * {self.op.states} + state"
        loaded = load(pointer, element_type_of(self.op.a), "inside & holds")
        return f"a = {loaded} * {log2(e)!r}"

    def load_rows(self, names: Sequence[str]) -> list[str]:
        """The statements that load `STEPS` rows of some operands: zeros past the end."""
        return [self._load_row(name, number) for number in range(STEPS) for name in names]

    def _load_row(self, name: str, number: int) -> str:
        value: SSAValue = getattr(self.op, name)
        is_of_states = name in ("b", "c")
        column, mask = ("state", "holds") if is_of_states else ("channel", "inside")
        width = self.pitches.get(value, shape_of(value)[-1])
        pitch = self.extent if width == DYNAMIC_INDEX else width
        pointer = f"{name}_ptr + {row(number)} * {pitch} + {column}"
        guard = f"{mask} & ({row(number)} < end)"
        return f"{name}_{number} = {load(pointer, element_type_of(value), guard)}"

    def at_states(self, base: str, place: str) -> str:
        """Where the states of a chunk are."""
        return f"{base} + ({place} * {self.op.states} + state) * {self.extent} + channel"

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
    """The row of a step."""
    return f"(row + {number})" if number else "row"


def step(number: int) -> str:
    """The statement that moves the states to the next row."""
    decay = f"tl.exp2(dt_{number} * a)"
    return f"h = {decay} * h + dt_{number} * u_{number} * b_{number}"


def zeros(text: ScanText) -> str:
    """The statement for states before the first row."""
    return f"h = tl.zeros(({next_power_of_2(text.op.states)}, {text.channels}), tl.float32)"


def chunk_states_kernel(op: ScanLike, name: str, pitches: Mapping[SSAValue, int]) -> EmittedKernel:
    """What each chunk but the last adds to the states, and how long it takes: its sum of dt.

    The rows of the launch are these chunks of all samples.
    """
    text = ScanText(op, pitches)
    passed = " + ".join(f"dt_{number}" for number in range(STEPS))
    advance = [*map(step, range(STEPS)), f"time += {passed}"]
    lines = [
        *text.chunk(f"(tl.cdiv(T, {CHUNK}) - 1)"),
        text.a(),
        zeros(text),
        f"time = tl.zeros((1, {text.channels}), tl.float32)",
        "while row < end:",
        *indented([*text.load_rows(("u", "dt", "b")), *advance, f"row += {STEPS}"]),
        f"tl.store({text.at_states('states_ptr', 'place')}, h, mask=inside & holds)",
        f"tl.store(times_ptr + place * {text.extent} + channel, time, mask=inside)",
    ]
    arguments = [
        *map(text.operand, ("u", "dt", "a", "b")),
        pointer_argument("states_ptr", f32, nth_output(0)),
        pointer_argument("times_ptr", f32, nth_output(1)),
    ]
    return text.emitted(name, arguments, lines, f"states of chunks of {CHUNK} rows")


def carry_kernel(op: ScanLike, name: str) -> EmittedKernel:
    """The states at the end of each chunk, in place of what the chunk adds to them.

    The rows of the launch are the samples. The operands are those of the scan.
    """
    text = ScanText(op, {})
    at = text.at_states("states_ptr", "place")
    time = f"times_ptr + place * {text.extent} + channel"
    lines = [
        *text.place("sample"),
        f"place = sample * (tl.cdiv(T, {CHUNK}) - 1)",
        f"end = place + tl.cdiv(T, {CHUNK}) - 1",
        text.a(),
        zeros(text),
        "while place < end:",
        *indented(
            [
                f"time = tl.load({time}, mask=inside, other=0.0)",
                f"added = tl.load({at}, mask=inside & holds, other=0.0)",
                "h = tl.exp2(time * a) * h + added",
                f"tl.store({at}, h, mask=inside & holds)",
                "place += 1",
            ]
        ),
    ]
    arguments = [
        text.operand("a"),
        pointer_argument("states_ptr", f32, nth_output(0)),
        pointer_argument("times_ptr", f32, nth_output(1)),
    ]
    return text.emitted(name, arguments, lines, f"states carried over chunks of {CHUNK} rows")


def scan_kernel(op: ScanLike, name: str, pitches: Mapping[SSAValue, int]) -> EmittedKernel:
    """The results of each chunk of each sample, which are the rows of the launch."""
    text, helpers = ScanText(op, pitches), set[str]()
    type = element_type_of(op.u)
    results: list[str] = []
    for number in range(STEPS):
        results += [
            step(number),
            f"y_{number} = tl.sum(c_{number} * h, 0, keep_dims=True)",
            f"value_{number} = {rounded(f'y_{number}', type, helpers)}",
            f"tl.store(y_ptr + {row(number)} * {text.extent} + channel, value_{number}, "
            f"mask=inside & ({row(number)} < end))",
        ]
    before = text.at_states("states_ptr", "(place - sample - 1)")
    lines = [
        *text.chunk(f"tl.cdiv(T, {CHUNK})"),
        text.a(),
        "# A sample has states of all of its chunks but the last.",
        f"h = tl.load({before}, mask=inside & holds & (chunk > 0), other=0.0)",
        "while row < end:",
        *indented([*text.load_rows(("u", "dt", "b", "c")), *results, f"row += {STEPS}"]),
    ]
    arguments = [
        *map(text.operand, OPERANDS),
        pointer_argument("states_ptr", f32, nth_output(0)),
        pointer_argument("y_ptr", type, nth_output(1)),
    ]
    kernel = text.emitted(name, arguments, lines, f"selective scan by chunks of {CHUNK} rows")
    return replace(kernel, helpers=frozenset(helpers))

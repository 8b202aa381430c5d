"""Text shared by the kernels of SSD (state-space models of heads) and of their gradients."""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import Float16Type, f32
from xdsl.ir import Attribute, SSAValue

from coda_ir.backends.triton import ports
from coda_ir.backends.triton.host_values import ROW_COUNT, nth_operand, nth_output
from coda_ir.backends.triton.kernel import EmittedKernel, KernelArgument
from coda_ir.backends.triton.kernel_text import (
    NEGATIVE_INFINITY,
    emitted,
    load,
    next_power_of_2,
    pointer_argument,
    rounded,
)
from coda_ir.backends.triton.scan_text import StateSpaceText
from coda_ir.dialects.coda import SSDGradOp, SSDLike
from coda_ir.dialects.coda.shapes import element_type_of, shape_of

CHUNK = 512
"""Rows of a chunk, which a program passes through. Its states have half the bytes of x in bfloat16
where a head has 128 states."""

GRADIENT_CHUNK = 256
"""Rows of a chunk for gradients, whose kernels multiply each block with all others of the chunk."""

ROWS = 64
"""Rows of a block of a chunk: those of a tile."""

SUMS = 3
"""For each row of a head: dt, and sums of dt · a within its block, up to it and after it."""

MIN_TILE = 16
"""The least extent of a tile of a product."""


def chunk_of(op: SSDLike) -> int:
    """Return the rows of a chunk in the kernels of `op`."""
    return GRADIENT_CHUNK if isinstance(op, SSDGradOp) else CHUNK


@dataclass(frozen=True)
class SSDText(StateSpaceText[SSDLike]):
    """Text shared by the kernels of SSD.

    Tiles are rows x columns of a head, or rows x states. A decay between rows of two blocks is
    computed from sums of dt · a of the rows in between alone, all of one sign, so that no digits
    cancel; within a block, it is computed from the difference of two sums from its start.
    """

    @property
    def chunk(self) -> int:
        """The rows of a chunk."""
        return chunk_of(self.op)

    @property
    def blocks(self) -> int:
        """The blocks of a chunk."""
        return self.chunk // ROWS

    @property
    def chunks(self) -> str:
        return f"tl.cdiv(T, {self.chunk})"

    @property
    def columns(self) -> int:
        """The columns of a head, in a tile."""
        return max(MIN_TILE, next_power_of_2(self.op.head_columns))

    @property
    def states(self) -> int:
        """The states, in a tile."""
        return max(MIN_TILE, next_power_of_2(self.op.state_count))

    @property
    def members(self) -> int:
        """The heads of a group."""
        return self.op.heads // self.op.groups

    def result(self, name: str, value: SSAValue, index: int) -> KernelArgument:
        """Return the argument for a result."""
        return pointer_argument(f"{name}_ptr", element_type_of(value), nth_output(index))

    def place(self, programs: int, chunks: str | None = None, first: int = 0) -> list[str]:
        """Return the statements for the chunk of a program, of `programs` for each, among all or
        `chunks` of a sample from `first` on, and its `count` rows from `start` on.

        Rows in tiles are numbered within the chunk, by 32 bits: tiles of pointers take registers.
        """
        chunks = chunks or self.chunks
        number = f"place % {chunks}"
        return [
            f"place = (tl.program_id(0) // {programs}).to(tl.int64)",
            f"part = tl.program_id(0) % {programs}",
            f"sample = place // {chunks}",
            f"chunk = {number} + {first}" if first else f"chunk = {number}",
            f"start = sample * T + chunk * {self.chunk}",
            f"count = tl.minimum({self.chunk}, (sample + 1) * T - start).to(tl.int32)",
        ]

    def tiles(self) -> list[str]:
        """Return the places in tiles of rows, of the columns of a head and of states."""
        return [
            f"offset = tl.arange(0, {ROWS})",
            f"column = tl.arange(0, {self.columns})",
            f"state = tl.arange(0, {self.states})",
        ]

    def rate(self) -> str:
        """Return the statement that loads the rate of the head."""
        return f"rate = {load('a_ptr + head', element_type_of(self.op.a), None)}"

    def sums(self) -> str:
        """Return the statement for where the times and sums of the chunk and the head are."""
        place = f"((sample * {self.chunks} + chunk) * {self.op.heads} + head)"
        return f"sums = sums_ptr + {place} * {SUMS * self.chunk}"

    def rows(self, suffix: str, block: str) -> list[str]:
        """Return the statements for rows of a block of the chunk, and their times and decays.

        `passed` is the sum of dt · a from the start of the block to each row, `rest` that from each
        row to the end.
        """
        row = f"row{suffix}"
        return [
            f"{row} = {block} * {ROWS} + offset",
            f"dt{suffix} = tl.load(sums + {row})",
            f"passed{suffix} = tl.load(sums + {self.chunk} + {row})",
            f"rest{suffix} = tl.load(sums + {2 * self.chunk} + {row})",
            f"whole{suffix} = tl.load(sums + {self.chunk} + {block} * {ROWS} + {ROWS - 1})",
        ]

    def before_block(self) -> str:
        """Return the expression of the sum of dt · a over the chunk's blocks before `block`."""
        return self._over_blocks("<")

    def after_block(self) -> str:
        """Return the same sum over the blocks after it."""
        return self._over_blocks(">")

    def _over_blocks(self, order: str) -> str:
        other = f"tl.arange(0, {self.blocks})"
        pointer = f"sums + {self.chunk + ROWS - 1} + {other} * {ROWS}"
        return f"tl.sum(tl.load({pointer}, mask={other} {order} block, other=0.0), 0)"

    def decays(
        self, reader: str, writer: str, until: str = "", *, is_transposed: bool = False
    ) -> list[str]:
        """Return the statements for the decays from rows that write states to rows that read them.

        `until` is the sum of dt · a from a row that writes to the start of the block that reads. By
        default, both are of one block where `number` is 0, and `gap` is the sum of dt · a over
        blocks between others. Rows read no later ones. Columns are those that write, or transposed,
        rows.
        """
        read, written = ("[None, :]", "[:, None]") if is_transposed else ("[:, None]", "[None, :]")
        until = until or f"tl.where(number == 0, -passed{writer}, gap + rest{writer})"
        return [
            f"until = ({until}){written}",
            f"sees = row{reader}{read} >= row{writer}{written}",
            f"decays = tl.where(sees, passed{reader}{read} + until, {NEGATIVE_INFINITY})",
            "decays = tl.exp(decays)",
        ]

    def times(self, suffix: str = "") -> str:
        """Return the expression that loads dt of rows of the head."""
        pitch = self._pitch("dt")
        pointer = f"dt_ptr + (start * {pitch} + head) + row{suffix} * {pitch}"
        return load(pointer, element_type_of(self.op.dt), f"row{suffix} < count")

    def tile(self, name: str, suffix: str) -> str:
        """Return the statement that loads a block of rows of an operand, in its type, or in that of
        operands of products if that is wider.
        """
        is_of_states = name in ("b", "c")
        index = "state" if is_of_states else "column"
        extent = self.op.state_count if is_of_states else self.op.head_columns
        unit = f"head // {self.members}" if is_of_states else "head"
        pitch = self._pitch(name)
        pointer = (
            f"{name}_ptr + (start * {pitch} + {unit} * {extent}) + "
            f"(row{suffix}[:, None] * {pitch} + {index}[None, :])"
        )
        mask = f"(row{suffix} < count)[:, None] & ({index} < {extent})[None, :]"
        widened = "" if self.product_type == element_type_of(self.op.x) else ".to(tl.float32)"
        return f"{name}{suffix} = tl.load({pointer}, mask={mask}, other=0.0){widened}"

    def only_row(self, name: str) -> str:
        """Return the statement that loads the only row of a sample of an operand, in float32."""
        op, type = self.op, element_type_of(getattr(self.op, name))
        start = f"{name}_ptr + sample * {self._pitch(name)}"
        if name == "dt":
            return f"dt = {load(f'{start} + head', type, None)}"
        if name == "x":
            column, mask = f"head * {op.head_columns} + column", f"column < {op.head_columns}"
        else:
            column = f"head // {self.members} * {op.state_count} + state"
            mask = f"state < {op.state_count}"
        return f"{name} = {load(f'{start} + {column}', type, mask)}"

    def _pitch(self, name: str) -> int:
        value = getattr(self.op, name)
        return self.pitches.get(value, shape_of(value)[-1])

    def at_states(self, base: str, place: str) -> str:
        """Return where the states of a head at a place are."""
        states, columns = self.op.state_count, self.op.head_columns
        return (
            f"{base} + (({place}) * {self.op.heads} + head) * {states * columns}"
            f" + (state[:, None] * {columns} + column[None, :])"
        )

    def mask_of_states(self) -> str:
        return (
            f"(state < {self.op.state_count})[:, None] & (column < {self.op.head_columns})[None, :]"
        )

    def store_columns(self, name: str, value: SSAValue) -> str:
        """Return the statement that stores a tile of columns of the head, named as `value`."""
        op, pitch = self.op, self.op.heads * self.op.head_columns
        pointer = (
            f"{name}_ptr + (start * {pitch} + head * {op.head_columns}) + "
            f"(row[:, None] * {pitch} + column[None, :])"
        )
        mask = f"(row < count)[:, None] & (column < {op.head_columns})[None, :]"
        return f"tl.store({pointer}, {rounded(name, element_type_of(value))}, mask={mask})"

    def load_states(self, name: str, base: str, place: str, condition: str = "") -> str:
        mask = self.mask_of_states() + (f" & ({condition})" if condition else "")
        return f"{name} = tl.load({self.at_states(base, place)}, mask={mask}, other=0.0)"

    def add_carried(self, name: str, operand: str, condition: str) -> list[str]:
        if getattr(self.op, operand, None) is None:
            return []
        states, columns = self.op.state_count, self.op.head_columns
        pointer = (
            f"{operand}_ptr + (sample * {self.op.heads} + head) * {states * columns}"
            f" + (column[None, :] * {states} + state[:, None])"
        )
        mask = f"{self.mask_of_states()} & ({condition})"
        return [f"{name} += tl.load({pointer}, mask={mask}, other=0.0)"]

    @property
    def product_type(self) -> Attribute:
        """The element type of operands of products: that of x, or float32 for float16 and a wider
        gradient, which can exceed what float16 holds.
        """
        op = self.op
        type = element_type_of(op.x)
        is_wide = isinstance(op, SSDGradOp) and element_type_of(op.d_y) != type
        return f32 if is_wide and isinstance(type, Float16Type) else type

    def narrow(self, value: str) -> str:
        """Return `value`, of float32, as an operand of a product."""
        return ports.rounded(value, self.product_type)

    def product(self, a: str, b: str, shape: tuple[int, int]) -> str:
        """Return the product of two tiles."""
        return f"dot({a}, {b}, tl.zeros({shape}, tl.float32))"

    def emitted(
        self,
        name: str,
        arguments: Sequence[KernelArgument],
        lines: Sequence[str],
        summary: str,
        programs: int,
        num_warps: int = 4,
        num_stages: int = 2,
    ) -> EmittedKernel:
        """Return a kernel with this many programs for each row of the launch."""
        x = nth_operand(list(self.op.operands).index(self.op.x))
        return emitted(
            name,
            [*arguments, KernelArgument("T", "i32", x.shape(1))],
            lines,
            summary=summary,
            grid=ROW_COUNT * programs,
            num_warps=num_warps,
            num_stages=num_stages,
        )

"""Text of kernels whose programs own whole rows and sweep over the columns in blocks."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from xdsl.ir import Attribute

from coda_ir.backends.triton.host_values import (
    ROW_COUNT,
    HostValue,
    joined,
    nth_operand,
    nth_output,
)
from coda_ir.backends.triton.kernel import EmittedKernel, KernelArgument
from coda_ir.backends.triton.kernel_text import (
    emitted,
    load,
    next_power_of_2,
    over_blocks,
    pointer_argument,
    reduction,
    rounded,
)

ONE_BLOCK = 8192
"""Columns up to which a program holds a row in registers."""

LOOP_BLOCK = 4096
"""Columns of a block where a row takes several, or their number is known only at run time."""

PROGRAM_ELEMENTS = 2048
"""Elements that a program reads at a time, at least: short rows share a program."""


@dataclass(frozen=True)
class Load:
    """An operand that a sweep reads, as the float32 variable `name`.

    `per_row`: each row has its own columns; otherwise all rows share one.
    """

    name: str
    type: Attribute
    per_row: bool = True
    other: str = "0.0"
    start: str | None = None
    """The start of its row, if some rows share one and others another."""

    def lines(self, columns: str) -> list[str]:
        place = "first + column" if self.per_row else "column"
        lines: list[str] = []
        if self.start is not None:
            place = f"{self.name}_first + column"
            lines.append(f"{self.name}_first = {self.start}")
        mask = "inside" if self.per_row else f"column < {columns}"
        loaded = load(f"{self.name}_ptr + {place}", self.type, mask, self.other)
        return [*lines, f"{self.name} = {loaded}"]


@dataclass
class RowKernelText:
    """Builds a kernel over M rows of `columns` elements; None where they are a run-time number.

    Variables of the text: `row` (BLOCK x 1), `first` (the offset of the row's first element),
    and in sweeps `column` (1 x BLOCK), `inside`, and the loaded operands.
    """

    name: str
    columns: int | None
    arguments: list[KernelArgument] = field(default_factory=list[KernelArgument])
    lines: list[str] = field(default_factory=list[str])
    _in_registers: set[str] = field(default_factory=set[str])

    @property
    def extent(self) -> str:
        """The number of columns, as an expression in the kernel."""
        return "N" if self.columns is None else str(self.columns)

    @property
    def is_one_block(self) -> bool:
        return self.columns is not None and self.columns <= ONE_BLOCK

    @property
    def block(self) -> int:
        if self.columns is None or not self.is_one_block:
            return LOOP_BLOCK
        return next_power_of_2(self.columns)

    @property
    def rows_per_program(self) -> int:
        return max(1, PROGRAM_ELEMENTS // self.block)

    def begin(self) -> None:
        rows = self.rows_per_program
        self.lines += [
            f"row = tl.program_id(0) * {rows} + tl.arange(0, {rows})[:, None]",
            f"first = row.to(tl.int64) * {self.extent}",
        ]

    def operand(self, name: str, type: Attribute, index: int) -> None:
        self._pointer(name, type, nth_operand(index))

    def sample_argument(self, name: str, index: int) -> None:
        """Add the argument for the rows of a sample, which share a row of operand `index`."""
        table = nth_operand(index)
        count = joined("max(", table.member("numel()"), " // ", table.shape(-1), ", 1)")
        self.arguments.append(KernelArgument(name, "i32", joined(ROW_COUNT, " // ", count)))

    def result(self, name: str, type: Attribute, index: int = 0) -> None:
        self._pointer(name, type, nth_output(index))

    def _pointer(self, name: str, type: Attribute, value: HostValue) -> None:
        self.arguments.append(pointer_argument(f"{name}_ptr", type, value))

    def sweep(self, loads: Sequence[Load], body: Sequence[str]) -> None:
        """Emit `body` for every block of columns, after the `loads`.

        Where one block holds the row there is no loop, and nothing is loaded twice.
        """
        lines = [
            f"column = tl.arange(0, {self.block})[None, :]",
            f"inside = (row < M) & (column < {self.extent})",
            *(line for operand in loads for line in operand.lines(self.extent)),
        ]
        if self.is_one_block:
            self.lines += [line for line in lines if line not in self._in_registers]
            self._in_registers.update(lines)
            self.lines += body
            return
        lines[0] = f"column = start + tl.arange(0, {self.block})[None, :]"
        self.lines += over_blocks(self.extent, self.block, [*lines, *body])

    def reduce(
        self,
        name: str,
        kind: Literal["sum", "max"],
        loads: Sequence[Load],
        element: str,
        prepare: Sequence[str] = (),
    ) -> None:
        """Emit `name` (BLOCK x 1) = the sum or maximum of `element` over the columns; NaN wins.

        `prepare` are statements that `element` needs.
        """
        combined, update, identity = reduction(kind, name, element)
        if self.is_one_block:
            self.sweep(loads, [*prepare, f"{name} = {combined}"])
            return
        shape = f"({self.rows_per_program}, 1)"
        self.lines.append(f"{name} = tl.full({shape}, {identity}, tl.float32)")
        self.sweep(loads, [*prepare, update])

    def store_elements(self, value: str, type: Attribute) -> str:
        """Return the statement that stores a block of the output; `value` is a name."""
        value = rounded(value, type)
        return f"tl.store(out_ptr + first + column, {value}, mask=inside)"

    def store_column(self, name: str, value: str, type: Attribute) -> None:
        """Emit the store of one element per row; `value` is a name."""
        value = rounded(value, type)
        self.lines.append(f"tl.store({name}_ptr + row, {value}, mask=row < M)")

    def finish(self, description: str) -> EmittedKernel:
        """Return the kernel."""
        self.arguments.append(KernelArgument("M", "i32", ROW_COUNT))
        if self.columns is None:
            self.arguments.append(KernelArgument("N", "i32", nth_operand(0).shape(-1)))
        rows = self.rows_per_program
        summary = f"{description}, blocks of {rows} x {self.block}"
        return emitted(
            self.name,
            self.arguments,
            self.lines,
            summary=summary,
            grid=ROW_COUNT.ceiling(rows),
            num_warps=8 if rows * self.block > 4096 else 4,
        )

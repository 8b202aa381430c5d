"""The kernel of a product of batches of small matrices, which may be transpositions or parts of
tensors: a program multiplies one tile of the matrices of one number of the batch.
"""

from dataclasses import dataclass
from math import ceil

from coda_ir.backends.triton.argument_list import RowRuns, row_start
from coda_ir.backends.triton.host.element_places import ElementPlaces
from coda_ir.backends.triton.host_values import ROW_COUNT, nth_operand, nth_output
from coda_ir.backends.triton.kernel import EmittedKernel, KernelArgument, indented
from coda_ir.backends.triton.kernel_text import (
    emitted,
    next_power_of_2,
    planes_of_tiles,
    pointer_argument,
    rounded,
)
from coda_ir.small_products import SmallProduct

LEAST = 16
"""Extents of the smallest tiles that tensor cores multiply."""

FEW_TERMS = 8
"""Terms of an element of a product from which on tensor cores multiply. On an H200, 2048 products
of 5 x 4 x 1024 took 7 us without and 13 with them, those of 8 x 8 x 1024 21 and 18."""

ELEMENTS, MAX_ROWS = 4096, 64
"""Elements of a tile of the result, at most, and its rows."""

WIDTH = 1024
"""Columns of a tile without tensor cores, at most."""

STEP_ELEMENTS = 8192
"""Elements of both operands in a step, at most."""


@dataclass(frozen=True)
class Factor:
    """Where the elements of the matrices of an operand are in memory."""

    batch: RowRuns
    """Where matrices start; without strides where there is one."""
    by_row: int
    by_column: int
    start: int

    @staticmethod
    def of(places: ElementPlaces) -> "Factor | None":
        """Return the places of matrices; None where they are known only at launch."""
        batch, numbers = places.row_runs(-2), (*places.strides[-2:], places.start)
        if batch is None or any(number.symbols for number in numbers):
            return None
        return Factor(batch, *map(int, numbers))

    @property
    def has_lines(self) -> bool:
        """True if the elements of a row or of a column are beside each other."""
        return 1 in (self.by_row, self.by_column)

    def place(self, row: str, column: str) -> str:
        """Return where the elements of the matrices of number `plane` are."""
        first = f"{row_start('plane', self.batch)} + " if self.batch.strides else ""
        return f"{first}{row} * {self.by_row} + {column} * {self.by_column} + {self.start}"


def product_kernel(product: SmallProduct, a: Factor, b: Factor, name: str) -> EmittedKernel:
    """Emit the kernel, where M is the number of matrices."""
    rows, depth, columns = product.rows, product.depth, product.columns
    has_few_terms = depth < FEW_TERMS
    least = 1 if has_few_terms else LEAST
    height = min(MAX_ROWS, max(least, next_power_of_2(rows)))
    most = min(WIDTH, 2 * ELEMENTS // height) if has_few_terms else ELEMENTS // height
    width = min(most, max(least, next_power_of_2(columns)))
    tiles_m, tiles_n = ceil(rows / height), ceil(columns / width)
    lines = [
        *planes_of_tiles(height, width, tiles_m, tiles_n),
        f"row_mask = row < {rows}",
        f"column_mask = column < {columns}",
        *(_terms if has_few_terms else _steps)(depth, a, b, height, width),
        f"place = plane.to(tl.int64) * {rows * columns} + row * {columns} + column",
        f"value = {rounded('total', product.type)}",
        "tl.store(out_ptr + place, value, mask=row_mask & column_mask)",
    ]
    return emitted(
        name,
        [
            pointer_argument("a_ptr", product.type, nth_operand(0)),
            pointer_argument("b_ptr", product.type, nth_operand(1)),
            pointer_argument("out_ptr", product.type, nth_output(0)),
            KernelArgument("M", "i32", ROW_COUNT),
        ],
        lines,
        summary=f"products of {rows} x {depth} and {depth} x {columns} matrices",
        grid=ROW_COUNT * (tiles_m * tiles_n),
        num_warps=4 if height * width > ELEMENTS // 4 else 2,
    )


def _terms(depth: int, a: Factor, b: Factor, height: int, width: int) -> list[str]:
    """Return the statements that add up few terms of each element."""
    terms = [
        f"a = tl.load(a_ptr + {a.place('row', 'term')}, mask=row_mask, other=0.0)",
        f"b = tl.load(b_ptr + {b.place('term', 'column')}, mask=column_mask, other=0.0)",
        "total += a.to(tl.float32) * b.to(tl.float32)",
    ]
    return [
        f"total = tl.zeros(({height}, {width}), tl.float32)",
        f"for term in tl.static_range({depth}):",
        *indented(terms),
    ]


def _steps(depth: int, a: Factor, b: Factor, height: int, width: int) -> list[str]:
    """Return the statements that multiply steps of K by tensor cores."""
    most = next_power_of_2(STEP_ELEMENTS // (height + width) + 1) // 2
    step = max(LEAST, min(next_power_of_2(depth), most))
    products = [
        f"depth = start + tl.arange(0, {step})",
        f"a_mask = row_mask & (depth[None, :] < {depth})",
        f"a = tl.load(a_ptr + {a.place('row', 'depth[None, :]')}, mask=a_mask, other=0.0)",
        f"b_mask = (depth[:, None] < {depth}) & column_mask",
        f"b = tl.load(b_ptr + {b.place('depth[:, None]', 'column')}, mask=b_mask, other=0.0)",
        "sums = dot(a, b, sums)",
    ]
    return [
        f"sums = tl.zeros(({height}, {width}), SUM_TYPE)",
        f"for start in range(0, {depth}, {step}):",
        *indented(products),
        "total = sums.to(tl.float32)",
    ]

# pyright: basic, reportGeneralTypeIssues=false
"""Device functions of attention for rows of heads, in parts: a power of two of columns, and where
there are more, the rest of them. So heads of 80 columns are multiplied as 64 and 16.

HEAD has the columns of a head, and the lanes of both parts: 0 of a second one that is not there.
"""

import triton
import triton.language as tl

from coda_ir.backends.triton.runtime.device import dot
from coda_ir.backends.triton.runtime.header import INTERPRET


@triton.jit
def part_rows(
    x,
    batch,
    start,
    rows,
    head,
    PITCH: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    FIRST: tl.constexpr,
    LANES: tl.constexpr,
):
    """LANES columns of ROWS rows of a head of COLUMNS, from column FIRST and row `start` of `rows`
    of a batch on; zeros past the last ones.

    `x` is a descriptor of boxes of 1 x 1 x ROWS x LANES of batches, heads, rows and columns, or a
    pointer where PITCH is not 0.
    """
    if PITCH == 0:
        return tl.reshape(x.load((batch, head, start, FIRST)), (ROWS, LANES))
    else:
        row = start + tl.arange(0, ROWS)
        place = (batch * rows + row).to(tl.int64)[:, None] * PITCH
        column, there = (FIRST + tl.arange(0, LANES))[None, :], (row < rows)[:, None]
        if FIRST + LANES > COLUMNS:
            there = there & (column < COLUMNS)
        return tl.load(x + place + (head * COLUMNS + column), mask=there, other=0.0)


@triton.jit
def head_rows(
    x, batch, start, rows, head, PITCH: tl.constexpr, ROWS: tl.constexpr, HEAD: tl.constexpr
):
    """The parts of ROWS rows of a head, from row `start` of `rows` of a batch on: `x` has for each
    part what `part_rows` loads it from.
    """
    if HEAD[2] > 0:
        return (
            part_rows(x[0], batch, start, rows, head, PITCH, ROWS, HEAD[0], 0, HEAD[1]),
            part_rows(x[1], batch, start, rows, head, PITCH, ROWS, HEAD[0], HEAD[1], HEAD[2]),
        )
    else:
        return (part_rows(x[0], batch, start, rows, head, PITCH, ROWS, HEAD[0], 0, HEAD[1]),)


@triton.jit
def zero_parts(ROWS: tl.constexpr, HEAD: tl.constexpr):
    """Sums of ROWS rows of a head."""
    if HEAD[2] > 0:
        return tl.zeros((ROWS, HEAD[1]), tl.float32), tl.zeros((ROWS, HEAD[2]), tl.float32)
    else:
        return (tl.zeros((ROWS, HEAD[1]), tl.float32),)


@triton.jit
def scaled_parts(parts, factor, HEAD: tl.constexpr):
    """The parts of rows, multiplied by a factor."""
    if HEAD[2] > 0:
        return parts[0] * factor, parts[1] * factor
    else:
        return (parts[0] * factor,)


@triton.jit
def seen_parts(parts, bias, HEAD: tl.constexpr):
    """The parts of rows, with zeros where the bias hides the row."""
    if HEAD[2] > 0:
        return tl.where(bias == 0.0, parts[0], 0.0), tl.where(bias == 0.0, parts[1], 0.0)
    else:
        return (tl.where(bias == 0.0, parts[0], 0.0),)


@triton.jit
def dot_parts(a, b, zeros, HEAD: tl.constexpr):
    """The products of rows of heads: a · bᵀ."""
    product = dot(a[0], tl.trans(b[0]), zeros)
    if HEAD[2] > 0:
        product = dot(a[1], tl.trans(b[1]), product)
    return product


@triton.jit
def add_parts(weights, rows, sums, HEAD: tl.constexpr):
    """The sums with those of weighted rows: sums + weights · rows."""
    if HEAD[2] > 0:
        return dot(weights, rows[0], sums[0]), dot(weights, rows[1], sums[1])
    else:
        return (dot(weights, rows[0], sums[0]),)


@triton.jit
def head_products(a, b, HEAD: tl.constexpr):
    """The sums over the columns of a ⊙ b, of rows of heads."""
    total = row_products(a[0], b[0])
    if HEAD[2] > 0:
        total += row_products(a[1], b[1])
    return total


@triton.jit
def row_products(a, b):
    """The sums over the columns of a ⊙ b, which are rounded once."""
    products = a.to(tl.float32) * b.to(tl.float32)
    if INTERPRET:
        return tl.sum(products.to(tl.float64), 1).to(tl.float32)
    else:
        return tl.sum(products, 1)

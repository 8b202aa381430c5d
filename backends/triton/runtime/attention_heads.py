# pyright: basic, reportGeneralTypeIssues=false
"""Device functions for tiles of rows of an attention head.

The columns of a head are held in one or two parts, because Triton's tiles have a power of two of
columns: a head of 80 columns is a part of 64 and a part of 16. HEAD is the number of columns of a
head, the lanes of the first part, and the lanes of the second part or 0.
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
    """Load a part of ROWS rows of a head of COLUMNS columns: LANES columns from column FIRST on,
    and the rows from `start` on of a batch of `rows` rows. Elements past the ends are zeros.

    If PITCH is 0, `x` is a TMA descriptor with boxes of 1 x 1 x ROWS x LANES, of batches, heads,
    rows and columns. Otherwise it is a pointer, and PITCH is the distance between rows.
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
    """Load the parts of ROWS rows of a head, from row `start` of a batch of `rows` rows on. `x` has
    the descriptor or pointer of each part (see `part_rows`).
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
    """Return zeros for the float32 parts of ROWS rows of a head."""
    if HEAD[2] > 0:
        return tl.zeros((ROWS, HEAD[1]), tl.float32), tl.zeros((ROWS, HEAD[2]), tl.float32)
    else:
        return (tl.zeros((ROWS, HEAD[1]), tl.float32),)


@triton.jit
def scaled_parts(parts, factor, HEAD: tl.constexpr):
    """Return the parts multiplied by a factor."""
    if HEAD[2] > 0:
        return parts[0] * factor, parts[1] * factor
    else:
        return (parts[0] * factor,)


@triton.jit
def corrected_parts(parts, others, factor, HEAD: tl.constexpr):
    """Return parts + factor * others."""
    if HEAD[2] > 0:
        return parts[0] + factor * others[0], parts[1] + factor * others[1]
    else:
        return (parts[0] + factor * others[0],)


@triton.jit
def seen_parts(parts, bias, HEAD: tl.constexpr):
    """Return the parts with zeros in the rows whose `bias` is not 0."""
    if HEAD[2] > 0:
        return tl.where(bias == 0.0, parts[0], 0.0), tl.where(bias == 0.0, parts[1], 0.0)
    else:
        return (tl.where(bias == 0.0, parts[0], 0.0),)


@triton.jit
def dot_parts(a, b, zeros, HEAD: tl.constexpr):
    """Return a @ bᵀ of rows of heads."""
    product = dot(a[0], tl.trans(b[0]), zeros)
    if HEAD[2] > 0:
        product = dot(a[1], tl.trans(b[1]), product)
    return product


@triton.jit
def add_parts(weights, rows, sums, HEAD: tl.constexpr):
    """Return sums + weights @ rows, for each part."""
    if HEAD[2] > 0:
        return dot(weights, rows[0], sums[0]), dot(weights, rows[1], sums[1])
    else:
        return (dot(weights, rows[0], sums[0]),)


@triton.jit
def head_products(a, b, HEAD: tl.constexpr):
    """Return the sum over the columns of a * b, for each row of a head."""
    total = row_products(a[0], b[0])
    if HEAD[2] > 0:
        total += row_products(a[1], b[1])
    return total


@triton.jit
def row_products(a, b):
    """Return the sum of a * b over the columns of each row; the interpreter sums in float64."""
    products = a.to(tl.float32) * b.to(tl.float32)
    if INTERPRET:
        return tl.sum(products.to(tl.float64), 1).to(tl.float32)
    else:
        return tl.sum(products, 1)

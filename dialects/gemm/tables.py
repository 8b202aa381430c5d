"""Tables: operands with fewer rows than the accumulator, each of which serves several of its rows.

Row m of an accumulator takes row (m // inner) % R of a table with R rows. `inner` is 1 for a table
of positions (T x C beside B x T x N), which repeats for each sample, and T for a table of samples
(B x 1 x C), each row of which serves a whole sample. The shape says which: extents of 1 after the
others are those of the dimensions that `inner` is the product of. A mask (B x 1 x T x C beside
B x H x T x N) has two runs of rows, each with such a number: (m // (H · T)) % B, and m % T.
"""

from collections.abc import Sequence

from coda_ir.dialects.gemm.attrs import PortKind


def port_kind(shape: Sequence[int], domain: Sequence[int]) -> PortKind | None:
    """Return the kind of port by which a tensor of `shape` broadcasts to `domain` (... x N).

    None for a shape with more dimensions. Extents are compared as NumPy broadcasting does after the
    types were checked: a dimension other than 1 has the whole extent of the domain.
    """
    if len(shape) > len(domain):
        return None
    if shape == domain and len(shape) > 1 and shape[-1] != 1:
        return PortKind.TILE  # the most frequent kind
    aligned = domain[len(domain) - len(shape) :]
    full = [a == d or a != 1 for a, d in zip(shape, aligned, strict=True)]
    if not any(full) or all(extent == 1 for extent in shape):
        return PortKind.SCALAR
    if all(full):
        if len(shape) == len(domain):
            return PortKind.TILE
        return PortKind.ROW if len(shape) == 1 else PortKind.TABLE
    if len(shape) == 1:
        return PortKind.ROW
    if all(full[:-1]) and len(shape) == len(domain):
        return PortKind.COL
    return PortKind.TABLE


def repeated_dims(table: Sequence[int]) -> int:
    """Return the number of row dimensions that each row of a table of this shape serves."""
    rows = len(table) - 1
    return next((after for after in range(rows) if table[rows - 1 - after] != 1), max(rows, 0))


def row_runs(table: Sequence[int], domain: Sequence[int]) -> list[range]:
    """Return the runs of adjacent row dimensions of a domain in which a table has other extents
    than 1. Those that are 1 in the domain, too, interrupt none.
    """
    runs: list[range] = []
    for axis, extent in enumerate(table[:-1], len(domain) - len(table)):
        if extent == 1:
            continue
        is_next = bool(runs) and all(n == 1 for n in domain[runs[-1].stop : axis])
        first = runs.pop().start if is_next else axis
        runs.append(range(first, axis + 1))
    return runs


def has_one_row(table: Sequence[int]) -> bool:
    """Return whether all rows of an accumulator take the same row of the table."""
    return all(extent == 1 for extent in table[:-1])


def serves_samples(table: Sequence[int]) -> bool:
    """Return whether the rows of an accumulator that lie side by side take the same row."""
    return repeated_dims(table) > 0

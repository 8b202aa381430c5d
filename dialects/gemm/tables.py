"""Tables: operands with fewer rows than the accumulator, each of which serves several of its rows.

Row m of an accumulator takes row (m // inner) % R of a table with R rows. `inner` is 1 for a table
of positions (T x C beside B x T x N), which repeats for each sample, and T for a table of samples
(B x 1 x C), each row of which serves a whole sample. The shape says which: extents of 1 after the
others are those of the dimensions that `inner` is the product of.
"""

from collections.abc import Sequence


def repeated_dims(table: Sequence[int]) -> int:
    """Return the number of row dimensions that each row of a table of this shape serves."""
    rows = len(table) - 1
    return next((after for after in range(rows) if table[rows - 1 - after] != 1), max(rows, 0))


def has_no_gap(rows: Sequence[object], domain: Sequence[object]) -> bool:
    """Return whether a table's rows, broadcast to a domain's, are contiguous dimensions of it."""
    kept = [axis for axis, extent in enumerate(rows) if extent != 1]
    between = range(kept[0], kept[-1]) if kept else ()
    return all(rows[axis] != 1 or domain[axis] == 1 for axis in between)


def has_one_row(table: Sequence[int]) -> bool:
    """Return whether all rows of an accumulator take the same row of the table."""
    return all(extent == 1 for extent in table[:-1])


def serves_samples(table: Sequence[int]) -> bool:
    """Return whether the rows of an accumulator that lie side by side take the same row."""
    return repeated_dims(table) > 0

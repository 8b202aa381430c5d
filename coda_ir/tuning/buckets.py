"""Buckets of row counts that share a schedule: new sequence lengths need no measurement."""

SMALLEST, LARGEST = 16, 1 << 17
"""Fewer rows take the same tile, more rows many waves: what is fast does not change any more."""


def bucket(rows: int, smallest: int = SMALLEST) -> int:
    """Return the smallest of `smallest`, ..., 16, 24, 32, 48, 64, 96, ..., 131072 that is at least
    `rows`.

    Powers of two and what lies halfway: in a bucket the work differs by a third at most.
    """
    if rows <= smallest:
        return smallest
    if rows >= LARGEST:
        return LARGEST
    power = 1 << (rows - 1).bit_length()
    between = power // 4 * 3
    return between if rows <= between and power >= 4 else power

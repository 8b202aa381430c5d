"""Which port a tensor needs to enter an epilogue over a given domain."""

from collections.abc import Sequence

from coda_ir.dialects.gemm import PortKind


def port_kind(shape: Sequence[int], domain: Sequence[int]) -> PortKind | None:
    """The kind of port by which a tensor of `shape` broadcasts to `domain` (... x N).

    None where no port does: a broadcast of a dimension in the middle, or a shape that does not
    fit. Extents are compared as NumPy broadcasting does after the types were checked: a dimension
    other than 1 stands for the whole extent of the domain.
    """
    if len(shape) > len(domain):
        return None
    aligned = domain[len(domain) - len(shape) :]
    full = [a == d or a != 1 for a, d in zip(shape, aligned, strict=True)]
    if not any(full) or all(extent == 1 for extent in shape):
        return PortKind.SCALAR
    if all(full):
        if len(shape) == len(domain):
            return PortKind.TILE
        return PortKind.ROW if len(shape) == 1 else PortKind.TABLE
    rows, column = full[:-1], full[-1]
    if not any(rows):
        return PortKind.ROW if len(shape) == 1 else _leading_ones(column)
    if not all(rows):
        return None
    return PortKind.COL if len(shape) == len(domain) else PortKind.TABLE


def _leading_ones(column: bool) -> PortKind | None:
    """A (1 x ... x N) tensor is a table of one row."""
    return PortKind.TABLE if column else PortKind.SCALAR

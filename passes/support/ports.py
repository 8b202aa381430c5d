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
    if len(shape) == 1:
        return PortKind.ROW
    rows = full[:-1]
    if all(rows) and len(shape) == len(domain):
        return PortKind.COL
    # Dimensions that are missing and dimensions of 1 in front repeat a table in the same way.
    repeated = rows.index(True) if any(rows) else len(rows)
    return PortKind.TABLE if all(rows[repeated:]) else None

"""Which port a tensor needs to enter an epilogue over a given domain."""

from collections.abc import Sequence

from xdsl.ir import SSAValue

from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.dialects.gemm import PortKind
from coda_ir.dialects.gemm.tables import has_no_gap, serves_samples

_CHEAP = (PortKind.ROW, PortKind.COL, PortKind.SCALAR)


def port_kind(shape: Sequence[int], domain: Sequence[int]) -> PortKind | None:
    """The kind of port by which a tensor of `shape` broadcasts to `domain` (... x N).

    None where no port does: a broadcast of a dimension between others, or a shape that does not
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
    if all(full[:-1]) and len(shape) == len(domain):
        return PortKind.COL
    return PortKind.TABLE if has_no_gap(shape[:-1], aligned[:-1]) else None


def is_per_element(value: SSAValue, domain: Sequence[int]) -> bool:
    """Return whether an epilogue over `domain` loads `value` element by element, and not by column,
    by row or by sample."""
    shape = shape_of(value)
    kind = port_kind(shape, domain)
    return kind not in _CHEAP and not (kind == PortKind.TABLE and serves_samples(shape))


def is_per_sample(shape: Sequence[int], domain: Sequence[int]) -> bool:
    """Return whether a tensor of `shape` is a table each row of which serves all rows of a sample:
    B x 1 x N beside B x T x N."""
    return port_kind(shape, domain) == PortKind.TABLE and serves_samples(shape)

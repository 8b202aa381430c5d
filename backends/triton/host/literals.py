"""Values that a program knows without memory, in the text of its host function."""

from xdsl.ir import SSAValue

from coda_ir.backends.triton.host.extents import Extents
from coda_ir.backends.triton.host.text import torch_type
from coda_ir.dialects.coda import BroadcastOp, ConstantOp, PositionsOp, extent_in, positions_in
from coda_ir.dialects.coda.shapes import element_type_of, is_float


def known_tensor(value: SSAValue, extents: Extents) -> tuple[str, str]:
    """Return the expression of the tensor of a constant, of positions or of an extent, which
    kernels know without one, and a hint for its name.
    """
    op = value.owner
    if isinstance(op, ConstantOp):
        return _filled(op, "()"), "constant"
    shape = extents.shape(extents.dims(value))
    if isinstance(op, BroadcastOp):
        number = op.x.owner
        assert isinstance(number, ConstantOp), "values are defined before they are used"
        return _filled(number, shape), "filled"
    if extent_in(value) is not None:
        number = known_extent(value, extents)
        return f"torch.full({shape}, {number}, dtype=torch.int64, device=device)", "extent"
    positions = positions_in(value)
    assert positions is not None, "values are defined before they are used"
    text = _positions(positions, extents.of(extents.dims(positions.result)[0]))
    return text if value is positions.result else f"{text}.view({shape})", "positions"


def known_extent(value: SSAValue, extents: Extents) -> str:
    """Return the number that an extent is."""
    op = extent_in(value)
    assert op is not None, "expected an extent"
    return extents.of(extents.dims(op.like)[op.axis])


def _filled(op: ConstantOp, shape: str) -> str:
    dtype = torch_type(element_type_of(op.result))
    return f"torch.full({shape}, {literal(op)}, dtype={dtype}, device=device)"


def _positions(op: PositionsOp, extent: str) -> str:
    start, step = op.first_and_step
    stop = extent if step == 1 else f"{step} * {extent}"
    stop = f"{start} + {stop}" if start else stop
    dtype = torch_type(element_type_of(op.result))
    return f"torch.arange({start}, {stop}, {step}, dtype={dtype}, device=device)"


def literal(op: ConstantOp) -> str:
    """Return the number of a constant in Python."""
    is_real = is_float(element_type_of(op.result))
    return written(float(op.number) if is_real else int(op.number))


def written(number: float | int) -> str:
    """Return a number in Python."""
    text = repr(number)
    return f'float("{text}")' if text in ("inf", "-inf", "nan") else text

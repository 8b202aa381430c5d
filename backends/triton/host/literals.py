"""Numbers of the program in the text of its host function."""

from coda_ir.backends.triton.host.text import torch_type
from coda_ir.dialects.coda import ConstantOp
from coda_ir.dialects.coda.shapes import element_type_of, is_float


def filled_tensor(op: ConstantOp, shape: str) -> str:
    """Return the expression of a tensor with a constant value, for readers outside of kernels."""
    dtype = torch_type(element_type_of(op.result))
    return f"torch.full({shape}, {literal(op)}, dtype={dtype}, device=device)"


def literal(op: ConstantOp) -> str:
    """Return the number of a constant in Python."""
    is_real = is_float(element_type_of(op.result))
    return written(float(op.number) if is_real else int(op.number))


def written(number: float | int) -> str:
    """Return a number in Python."""
    text = repr(number)
    return f'float("{text}")' if text in ("inf", "-inf", "nan") else text

"""Element types by their names in `.coda`."""

import torch

from coda_ir.dialects.element_types import ELEMENT_TYPES

DTYPES: dict[str, torch.dtype] = {
    type.coda: getattr(torch, type.torch) for type in ELEMENT_TYPES if type.coda is not None
}

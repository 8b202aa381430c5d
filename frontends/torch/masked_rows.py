"""Rows that a mask selects, as models of images and text place the features of images."""

from typing import Any

import torch


def masked_scatter(x: torch.Tensor, mask: torch.Tensor, source: torch.Tensor) -> Any:
    """Decompose storing the rows of `source`, in order, at the rows of `x` that a mask selects.

    PyTorch numbers all elements of the mask, which for `mask.unsqueeze(-1).expand_as(x)` are the
    same along each row; here, its rows are numbered. Other masks are left to PyTorch.
    """
    columns = x.shape[-1] if x.dim() > 1 else None
    is_of_rows = mask.dim() == x.dim() and (mask.shape[-1] == 1 or mask.stride(-1) == 0)
    if columns is None or not is_of_rows or source.dim() < 2 or source.shape[-1] != columns:
        return NotImplemented
    table = source.reshape(-1, columns)
    if table.shape[0] == 0:
        return NotImplemented
    is_row_stored = mask.select(-1, 0).expand(x.shape[:-1])
    is_stored = is_row_stored.reshape(-1)
    # Rows that are not stored read all rows of the table alike, so that none has a sum of many
    # zeros as its gradient.
    positions = torch.arange(is_stored.shape[0], device=x.device) % table.shape[0]
    number = torch.where(is_stored, is_stored.cumsum(0) - 1, positions)
    rows = torch.nn.functional.embedding(number.view(x.shape[:-1]), table)
    return torch.where(is_row_stored.unsqueeze(-1), rows, x)

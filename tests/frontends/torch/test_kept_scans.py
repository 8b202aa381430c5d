"""Models of transformers that ask whether they are exported, under torch.compile."""

import pytest
import torch
from transformers.utils import import_utils

import coda_ir

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


def test_not_exported() -> None:
    """PyTorch 2.11 says yes under torch.compile, others do not."""
    coda_ir.keep_scans()
    coda_ir.keep_scans()

    def f(x: torch.Tensor) -> torch.Tensor:
        return x + 2 if import_utils.is_torchdynamo_exporting() else x + 1

    compiled = torch.compile(f, backend="eager", fullgraph=True)  # pyright: ignore[reportUnknownMemberType]
    assert compiled(torch.zeros(1)).item() == f(torch.zeros(1)).item() == 1

"""Concatenations and padding by a kernel that reads parts and permutations of tensors in place."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from support.elements import DTYPES
from torch import nn
from torch.export import Dim

import coda_ir


class Model(nn.Module):
    def __init__(self, function: Callable[..., torch.Tensor]):
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.function(*inputs)


def windows(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Heads of windows after those of the window before."""
    heads = x.reshape(x.shape[0], 3, 4, 2, 16).permute(0, 3, 1, 2, 4)
    before = F.pad(heads, (0, 0, 0, 0, 1, 0))[:, :, :-1]
    return torch.cat([before, heads], 3)


CASES: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "columns": lambda x, y: torch.cat([x, y, x], -1),
    "rows": lambda x, y: torch.cat([x, y], 1),
    "parts": lambda x, y: torch.cat([x[:, 1:5], y[:, :, :32], x[:, :3]], 1),
    "unaligned": lambda x, y: torch.cat([x[..., 1:], torch.zeros_like(x[..., :1])], -1),
    "numbers": lambda x, y: torch.cat([torch.zeros_like(y), x, torch.full_like(y, 2.0)], 1),
    "transposed": lambda x, y: torch.cat([x.mT, y.mT, y.mT], -1),
    "windows": windows,
    "padded": lambda x, y: F.pad(x[:, 2:9, 3:19], (2, 1), value=3.0),
    "samples": lambda x, y: torch.cat([x, y[:, :12], x]),
    "many": lambda x, y: torch.cat([x, y] * 5, 1),
}


def expected_and_found(name: str, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, str]:
    model, width = Model(CASES[name]), 32
    columns = {"columns": 8}.get(name, width)
    rows = {"columns": 12}.get(name, 14)
    example = torch.zeros(2, 12, width, dtype=dtype), torch.zeros(2, rows, columns, dtype=dtype)
    sizes = tuple({0: Dim("B")} for _ in example)
    function = coda_ir.export(model, example, dynamic_shapes=(sizes,)).compile(
        target="triton", device="cpu"
    )
    x, y = (torch.randint(-9, 9, (3, *t.shape[1:])).to(dtype) for t in example)
    return model(x, y), function(x, y), function.function.source


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_concatenation_is_that_of_pytorch(name: str):
    wanted, found, source = expected_and_found(name, torch.bfloat16)
    torch.testing.assert_close(found, wanted, rtol=0, atol=0)
    assert ("torch.cat" in source) == (name in ("many", "samples"))


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.float32, torch.uint8])
def test_elements_of_any_type(dtype: torch.dtype):
    wanted, found, _ = expected_and_found("parts", dtype)
    assert found.dtype == dtype and torch.equal(found, wanted)


@pytest.mark.parametrize("element", ["f8e4m3", "f8e5m2"])
def test_float8(element: str):
    """No integer is converted to these types: what is between the parts is a float."""
    text = f"fn f(x: {element}[M, 64]) {{ return concat(x, x), pad(x, 2) }}"
    x = torch.randn(5, 64).to(DTYPES[element])
    joined, padded = coda_ir.compile(text, device="cpu")(x)
    bits = x.view(torch.uint8)
    assert torch.equal(joined.view(torch.uint8), torch.cat([bits, bits], 1))
    assert torch.equal(padded.view(torch.uint8), F.pad(bits, (2, 0)))


def test_parts_and_permutations_are_read_in_place():
    *_, source = expected_and_found("windows", torch.bfloat16)
    assert 'KERNELS = ("pad_1", "concat")' in source

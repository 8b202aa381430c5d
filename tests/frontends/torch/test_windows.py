"""Windows of rows and of images whose number depends on dynamic sizes."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from support.torch_compile import compiled, gradients
from torch import Tensor, nn

from coda_ir.float64 import relative_error

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


class Windows(nn.Module):
    """`function` of rows of 16 columns, with two linear maps."""

    def __init__(self, function: Callable[[Windows, Tensor], Tensor]):
        super().__init__()
        self.function = function
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        self.bias = nn.Parameter(torch.randn(7, 2))
        i = torch.arange(4)
        self.register_buffer("index", i[:, None] - i + 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self, x)

    def attend(self, windows: Tensor, mask: Tensor | None = None) -> Tensor:
        """Attention within windows of 4 rows, as Swin writes it."""
        n, length, width = windows.shape
        q, k, v = self.qkv(windows).reshape(n, length, 3, 2, 8).permute(2, 0, 3, 1, 4)
        scores = q * 8**-0.5 @ k.transpose(-2, -1)
        bias = self.bias[self.get_buffer("index").view(-1)].view(4, 4, 2).permute(2, 0, 1)
        scores = scores + bias.unsqueeze(0)
        if mask is not None:
            scores = scores.view(n // len(mask), len(mask), 2, 4, 4) + mask[:, None]
            scores = scores.view(-1, 2, 4, 4)
        out = (scores.softmax(-1) @ v).transpose(1, 2).reshape(n, length, width)
        return self.out(out)


def rows(m: Windows, x: Tensor) -> Tensor:
    batch, length, width = x.shape
    windows = torch.roll(x, -2, 1).view(batch * length // 4, 4, width)
    return x + torch.roll(m.attend(windows).view(batch, length, width), 2, 1)


def masked_rows(m: Windows, x: Tensor) -> Tensor:
    batch, length, width = x.shape
    place = torch.arange(length).view(length // 4, 4) // 2
    mask = (place[:, None] - place[:, :, None]).ne(0) * -100.0
    return m.attend(x.view(-1, 4, width), mask).view(batch, length, width)


def image(m: Windows, x: Tensor) -> Tensor:
    """Windows of 2 x 2 of an image of T x 4 or of what pads it to that."""
    y = F.pad(x, (0, 0, 0, x.shape[1] % 2))
    batch, length, width = y.shape
    tiles = y.view(batch, length // 2, 2, width // 4, 4).permute(0, 1, 3, 2, 4)
    y = m.out(tiles.reshape(batch, -1, 16)).relu()
    y = y.view(batch, length // 2, width // 8, 2, 8).permute(0, 1, 3, 2, 4)
    return m.out(y.reshape(batch, length, width))[:, : x.shape[1]]


def flattened_tiles(m: Windows, x: Tensor) -> Tensor:
    """Both extents of the tiles depend on sizes."""
    batch, length, _ = x.shape
    tiles = m.out(x).view(batch // 2, 2, length // 4, 4, 16).transpose(1, 2)
    return m.out(tiles.reshape(-1, 16))


def resized(m: Windows, x: Tensor) -> Tensor:
    """Rows at places that depend on the ratio of two sizes."""
    y = m.out(x).transpose(1, 2)
    y = F.interpolate(y, size=2 * x.shape[1] - 1, mode="linear")
    return m.out(F.interpolate(y, scale_factor=1.5).transpose(1, 2))


@pytest.mark.slow
@pytest.mark.parametrize("function", [rows, masked_rows, image, flattened_tiles, resized])
def test_one_program_for_all_sizes(
    function: Callable[[Windows, Tensor], Tensor], caplog: pytest.LogCaptureFixture
):
    model = Windows(function)
    exact_model = copy.deepcopy(model).double()
    fast = compiled(model, dynamic=True, target="triton")
    for sizes in [(2, 8), (4, 12)]:
        x = torch.randn(*sizes, 16, requires_grad=True)
        found = gradients(fast, model, x)
        exact = gradients(exact_model, exact_model, x.double())
        for mine, wanted in zip(found, exact, strict=True):
            assert (mine is None) == (wanted is None)
            if mine is not None and wanted is not None:
                assert relative_error(mine, wanted) < 1e-5
    assert not [record for record in caplog.records if record.name.startswith("coda_ir")]

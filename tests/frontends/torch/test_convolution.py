"""Patch embeddings: convolutions that are GEMMs, and what keeps others with PyTorch."""

import copy
from collections.abc import Callable

import pytest
import torch
from support.torch_compile import compiled, gradients
from torch import nn

import coda_ir
from coda_ir.dialects import coda
from coda_ir.dialects.torch import CallOp
from coda_ir.float64 import relative_error

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


class PatchEmbedding(nn.Module):
    """Patches of 4 x 2 elements of 3 channels, positions, and a norm."""

    def __init__(self, kernel: tuple[int, int] = (4, 2), step: tuple[int, int] = (4, 2)):
        super().__init__()
        self.projection = nn.Conv2d(3, 32, kernel, step)
        self.positions = nn.Parameter(torch.randn(1, 12, 32))
        self.norm = nn.LayerNorm(32)
        self.head = nn.Linear(32, 16)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        patches = self.projection(pixels).flatten(2).transpose(1, 2)
        x = patches + self.positions[:, : patches.shape[1]]
        return self.head(self.norm(x)) + self.head(x)


class Volume(nn.Module):
    """A kernel as large as each sample, as in models of videos."""

    def __init__(self):
        super().__init__()
        self.projection = nn.Conv3d(3, 32, (2, 4, 4), (2, 4, 4), bias=False)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return self.projection(pixels.view(-1, 3, 2, 4, 4)).view(-1, 32)


CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "patches": (PatchEmbedding, (5, 3, 12, 8)),
    "volume": (Volume, (6, 96)),
    "overlap": (lambda: PatchEmbedding((4, 2), (2, 2)), (2, 3, 8, 8)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dynamic", [False, True])
def test_results_and_gradients(name: str, dynamic: bool):
    build, shape = CASES[name]
    model, pixels = build(), torch.randn(shape)
    exact = copy.deepcopy(model).double()
    fast = compiled(model, dynamic=dynamic, target="triton")
    with torch.no_grad():
        assert relative_error(fast(pixels), exact(pixels.double())) < 1e-6
    found = gradients(fast, model, pixels)
    wanted = gradients(exact, exact, pixels.double())
    for got, expected in zip(found, wanted, strict=True):
        assert got is not None and expected is not None
        assert relative_error(got, expected) < 1e-5


@pytest.mark.parametrize("name", CASES)
def test_what_becomes_a_gemm(name: str):
    build, shape = CASES[name]
    module = coda_ir.export(build(), (torch.randn(shape),)).module
    called = any(isinstance(op, coda.ConvolutionOp) for op in module.walk())
    assert called == (name == "overlap")


class SpeechEncoder(nn.Module):
    """A convolution with a bias in front, and channels that are convolved alone and normalized."""

    def __init__(self):
        super().__init__()
        self.front = nn.Conv2d(1, 8, 3, 2, 1)
        self.first, self.last = nn.Linear(32, 16), nn.Linear(16, 8)
        self.taps, self.norm = nn.Conv1d(16, 16, 3, padding=1, groups=16), nn.BatchNorm1d(16)
        with torch.no_grad():
            self.norm.get_buffer("running_mean").normal_()
            self.norm.get_buffer("running_var").uniform_(0.5, 2)

    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        images = self.front(frames[:, None]).relu()
        rows = self.first(images.transpose(1, 2).flatten(2))
        channels = self.norm(self.taps(rows.transpose(1, 2)))
        return self.last(nn.functional.silu(channels).transpose(1, 2))


@pytest.mark.slow
def test_what_joins_convolutions():
    model, frames = SpeechEncoder().eval(), torch.randn(2, 10, 8)
    exported = coda_ir.export(model, (frames,))
    calls = [op.callee.data for op in exported.module.walk() if isinstance(op, CallOp)]
    assert not any("batch_norm" in call for call in calls)
    fast = exported.compile(target="triton", device="cpu")
    assert len(fast.kernels) <= 4
    exact = copy.deepcopy(model).double()
    with torch.no_grad():
        assert relative_error(fast(frames), exact(frames.double())) < 1e-6

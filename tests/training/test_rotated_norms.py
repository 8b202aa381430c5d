"""Norms without weight of rotated heads, as in Llama 4, through emitted Triton against float64."""

import pytest
import torch
from support.device import DEVICE, on_device
from torch import Tensor
from torch.nn.functional import linear, rms_norm

import coda_ir
from coda_ir.float64 import relative_error
from coda_ir.training.functions import TrainableFunction

PROGRAM = """
fn heads(x: {type}[B, T, 24], weight w: {type}[32, 24], angles: f32[T, 4]) -> {type}[B, T, 32] {{
    q = rope(linear(x, w), cos(angles), sin(angles), head_dim=8, layout="{layout}")
    return rms_norm(q, group=8)
}}
"""

TYPES = {"bf16": (torch.bfloat16, 1e-2), "f32": (torch.float32, 1e-5)}


def draw(dtype: torch.dtype) -> list[Tensor]:
    return [torch.randn(2, 5, 24).to(dtype), torch.randn(32, 24).to(dtype), 9 * torch.randn(5, 4)]


def exact(layout: str, x: Tensor, w: Tensor, angles: Tensor) -> Tensor:
    """The heads in float64."""
    halves = layout == "half_split"
    pairs = linear(x.double(), w.double()).reshape(2, 5, 4, *((2, 4) if halves else (4, 2)))
    a, b = pairs.unbind(-2 if halves else -1)
    cos, sin = angles.double().cos()[:, None], angles.double().sin()[:, None]
    rotated = torch.stack([a * cos - b * sin, b * cos + a * sin], -2 if halves else -1)
    return rms_norm(rotated.flatten(-2), (8,), eps=1e-6).flatten(-2)


@pytest.mark.any_device
@pytest.mark.parametrize("layout", ["half_split", "interleaved"])
@pytest.mark.parametrize("type", list(TYPES))
def test_the_norm_is_in_the_epilogue_of_the_projection(type: str, layout: str):
    dtype, tolerance = TYPES[type]
    function = coda_ir.compile(
        PROGRAM.format(type=type, layout=layout), target="triton", device=DEVICE
    )
    assert len(function.kernels) == 2, "the tables and the projection"
    inputs = draw(dtype)
    assert relative_error(on_device(function)(*inputs), exact(layout, *inputs)) < tolerance


def test_training():
    function = coda_ir.compile(
        PROGRAM.format(type="f32", layout="half_split"),
        target="triton",
        device=DEVICE,
        training=True,
    )
    assert isinstance(function, TrainableFunction)
    x, w, angles = draw(torch.float32)
    seed = torch.randn(2, 5, 32)
    given = [x.requires_grad_(), w.requires_grad_()]
    y = on_device(function)(*given, angles)
    found = torch.autograd.grad(y, given, seed)
    expected = torch.autograd.grad(exact("half_split", x, w, angles), given, seed.double())
    for gradient, wanted in zip(found, expected, strict=True):
        assert relative_error(gradient, wanted) < 1e-5

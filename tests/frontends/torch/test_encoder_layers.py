"""Layers that PyTorch runs as one operator in inference: attention with its projections, and
layers of an encoder.
"""

import copy
from typing import Any

import pytest
import torch
from support.kernel_steps import kernel_steps
from support.torch_compile import compiled
from torch import Tensor, nn

from coda_ir.api import find_entry
from coda_ir.backends.reference import run_function
from coda_ir.dialects.torch import CallOp
from coda_ir.float64 import relative_error
from coda_ir.frontends.torch import export

WIDTH, HEADS, ROWS = 16, 2, 5
PADDING = torch.tensor([[False] * ROWS, [False] * 3 + [True] * 2])
FUTURE = torch.ones(ROWS, ROWS, dtype=torch.bool).triu(1)


def inputs() -> list[Tensor]:
    """Rows, and the weights and biases of the projections of attention."""
    shapes = [(2, ROWS, WIDTH), (3 * WIDTH, WIDTH), (3 * WIDTH,), (WIDTH, WIDTH), (WIDTH,)]
    return [torch.randn(*shape) for shape in shapes]


def attention(query: Tensor, key: Tensor, value: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    operator: Any = torch.ops.aten
    *weights, mask, need_weights, average, mask_type = rest
    chosen = (mask, need_weights, average, mask_type)
    return operator._native_multi_head_attention(query, key, value, WIDTH, HEADS, *weights, *chosen)


class Attention(nn.Module):
    """Results of the operator with each mask, and weights; `other` scales keys and values."""

    def __init__(self, *choices: tuple[Any, ...], other: float = 1.0):
        super().__init__()
        self.choices, self.other = choices, other

    def forward(self, x: Tensor, *weights: Tensor) -> list[Tensor]:
        key = x if self.other == 1 else x * self.other
        found = [attention(x, key, key, *weights, *chosen) for chosen in self.choices]
        shares = [each for (_, each), chosen in zip(found, self.choices, strict=True) if chosen[1]]
        return [y for y, _ in found] + shares


NUMBERS = FUTURE.expand(2, HEADS, -1, -1) * 0.5
MODELS = {
    "masks": Attention(
        (FUTURE, False, True, 0), (PADDING, False, True, 1), (NUMBERS, False, True, 2)
    ),
    "weights": Attention((FUTURE, True, True, 0), (None, True, False, None)),
    "other keys": Attention((None, False, True, None), other=0.5),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_attention(name: str):
    model, tensors = MODELS[name], inputs()
    exported = export(model, tuple(tensors))
    assert "_native_multi_head_attention" not in str(exported.module)
    expected = model(*(x.double() for x in tensors))
    found = exported.compile(device="cpu", target="triton")(*tensors)
    for ours, eager in zip(found, expected, strict=True):
        assert relative_error(ours, eager) < 1e-6


def test_queries_without_keys_attend_to_nothing():
    """Eager PyTorch gives NaN of them, and says in its tests that they may be 0."""
    model, tensors = Attention((PADDING | True, False, True, 1)), inputs()
    exported = export(model, tuple(tensors))
    (found,) = run_function(find_entry(exported.module), exported.arguments(*tensors), "stated")
    assert torch.equal(found, tensors[-1].expand_as(found)) and bool(
        model(*tensors)[0].isnan().all()
    )


def layer(**options: Any) -> nn.Module:
    made = nn.TransformerEncoderLayer(WIDTH, HEADS, 32, batch_first=True, **options)
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.5)
    return made.eval().requires_grad_(False)


def test_layer_is_kernels():
    model, x = layer(norm_first=True, activation="gelu"), torch.randn(2, ROWS, WIDTH)
    exported = export(model, (x,))
    found = exported.compile(device="cpu", target="triton")(x)
    assert relative_error(found, copy.deepcopy(model).double()(x.double())) < 1e-6
    assert list(kernel_steps(exported.module).values()) == [
        "layer_norm fused attention fused layer_norm fused fused"
    ]


def test_layer_of_torch_compile():
    model, x = layer(), torch.randn(2, ROWS, WIDTH)
    hidden = {"src_mask": FUTURE, "src_key_padding_mask": PADDING}
    found = compiled(model, compare=False)(x, **hidden)
    assert relative_error(found, copy.deepcopy(model).double()(x.double(), **hidden)) < 1e-6


def test_unknown_masks_are_left_whole():
    """PyTorch refuses them when they run."""
    model, tensors = Attention((FUTURE, False, False, None)), inputs()
    calls = [op for op in export(model, tuple(tensors)).module.walk() if isinstance(op, CallOp)]
    assert len(calls) == 1

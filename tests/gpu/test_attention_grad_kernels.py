"""The backward of attention as kernels of ours on a GPU, against float64.

pytest tests/gpu/test_attention_grad_kernels.py
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
import torch
from support.attention_heads import (
    LEARNED,
    NORM,
    Heads,
    attend,
    gradients,
    pointwise_kernels,
    rotated,
    rotated_inputs,
    rotated_text,
)

import coda_ir
from coda_ir.float64 import relative_error

pytestmark = pytest.mark.gpu

PROGRAMS = {
    "causal": Heads(8, 2, 128),
    "wide heads": Heads(4, 2, 256),
    "as many heads of keys": Heads(4, 4, 64, element="f16"),
    "all keys": Heads(4, 2, 64, options="causal=false"),
    "narrow heads": Heads(4, 1, 16),
    "window": Heads(4, 2, 128, options="causal=true, window=100"),
    "window on both sides": Heads(4, 2, 64, options="window=70"),
    "capped": Heads(4, 2, 128, options="causal=true, softcap=2.0"),
    "wide heads, capped": Heads(2, 1, 256, options="causal=true, scale=0.1, softcap=30.0"),
}

SIZES = [(512, 512), (300, 300), (70, 515), (400, 130), (1, 77)]


def on_gpu(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [x.cuda() for x in tensors]


@pytest.mark.parametrize("name", PROGRAMS)
def test_agrees_with_float64(name: str):
    of = PROGRAMS[name]
    compiled: Any = coda_ir.compile(of.text, device="cuda", training=True)
    assert "dq_of_tile(" in compiled.source
    for queries, keys in SIZES:
        tensors = on_gpu(of.inputs(queries, keys))
        d_y = torch.randn_like(tensors[0])
        wide = [x.double() for x in tensors]
        wanted = gradients(partial(attend, of), wide, d_y.double())
        eager = gradients(partial(attend, of), tensors, d_y)
        found, again = (gradients(compiled, tensors, d_y) for _ in range(2))
        for one, same, decomposed, exact in zip(found, again, eager, wanted, strict=True):
            allowed = max(1.25 * relative_error(decomposed.cpu(), exact.cpu()), 5e-3)
            assert relative_error(one.cpu(), exact.cpu()) < allowed
            assert torch.equal(one, same)


WIDTHS = {
    "narrow": Heads(4, 4, 64),
    "wide": Heads(8, 2, 128),
    "widest": Heads(2, 2, 256),
}


@pytest.mark.parametrize("of", WIDTHS.values(), ids=WIDTHS)
@pytest.mark.parametrize("rows", [8192, 8100])
def test_repeats_its_bits(of: Heads, rows: int):
    """With more tiles than the GPU has room for, so that some begin while others end."""
    compiled: Any = coda_ir.compile(of.text, device="cuda", training=True)
    tensors = on_gpu(of.inputs(rows, rows))
    d_y = torch.randn_like(tensors[0])
    first = gradients(compiled, tensors, d_y)
    for _ in range(15):
        for one, same in zip(gradients(compiled, tensors, d_y), first, strict=True):
            assert torch.equal(one, same)


@pytest.mark.parametrize("of", WIDTHS.values(), ids=WIDTHS)
@pytest.mark.parametrize("rows", [512, 333])
def test_epilogues_agree_with_float64(of: Heads, rows: int):
    compiled: Any = coda_ir.compile(rotated_text(of, 256), device="cuda", training=True)
    assert pointwise_kernels(compiled.source) == [NORM]
    assert "_rope_sum(" in compiled.source
    tensors = on_gpu(rotated_inputs(of, 256, 2, rows))
    d_y = torch.randn_like(tensors[0])
    wide = [x.double() for x in tensors]
    wanted = gradients(partial(rotated, of), wide, d_y.double(), LEARNED)
    eager = gradients(partial(rotated, of), tensors, d_y, LEARNED)
    found = gradients(compiled, tensors, d_y, LEARNED)
    for one, decomposed, exact in zip(found, eager, wanted, strict=True):
        allowed = 1.25 * relative_error(decomposed.cpu(), exact.cpu())
        assert relative_error(one.cpu(), exact.cpu()) <= allowed

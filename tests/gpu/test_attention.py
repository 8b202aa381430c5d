"""Attention with windows, masks and sinks by the kernels that PyTorch has for a GPU."""

from typing import Any

import pytest
import torch
from support.one_query_programs import OneQuery, attend, one_query_inputs
from support.programs import parse_mlir

import coda_ir
from coda_ir.float64 import relative_error

pytestmark = pytest.mark.gpu

PROGRAM = """
fn f(q: TYPE[B, T, 512], k: TYPE[B, S, 128], v: TYPE[B, S, 128], sinks: TYPE[8],
     alibi: TYPE[8, 1, S], padding: bool[B, 1, 1, S]) {
    return attention(q, k, v, head_dim=64, OPTIONS)
}
"""

OPTIONS = [
    "causal=true",
    "causal=true, window=100",
    "window=100",
    "mask=padding",
    "causal=true, mask=padding, window=300",
    "causal=true, mask=alibi",
    "causal=true, sinks=sinks",
    "causal=true, window=100, sinks=sinks, mask=padding",
    "causal=true, softcap=20.0, sinks=sinks, mask=alibi",
]


def inputs(dtype: torch.dtype, queries: int, keys: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator).to("cuda", dtype)

    alibi = -(2.0 ** -torch.arange(1.0, 9.0))[:, None, None] * torch.arange(keys, 0.0, -1.0)
    padding = torch.arange(keys) < torch.tensor([keys, keys - keys // 4])[:, None]
    return [
        normal(2, queries, 512),
        normal(2, keys, 128),
        normal(2, keys, 128),
        normal(8),
        alibi.to("cuda", dtype),
        padding[:, None, None].cuda(),
    ]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize(("queries", "keys"), [(515, 515), (16, 515), (1, 515)])
@pytest.mark.parametrize("element", ["bf16", "f32"])
def test_attention(options: str, queries: int, keys: int, element: str):
    dtype, allowed = (torch.bfloat16, 4e-3) if element == "bf16" else (torch.float32, 4e-6)
    text = PROGRAM.replace("TYPE", element).replace("OPTIONS", options)
    tensors = inputs(dtype, queries, keys)
    compiled = coda_ir.compile(text, device="cuda")
    result: Any = compiled(*tensors)
    exact: Any = compiled.reference([x.cpu() for x in tensors])
    exact = exact if isinstance(exact, torch.Tensor) else exact[0]
    assert relative_error(result.cpu(), exact) < allowed


@pytest.mark.parametrize("keys", [1, 300, 512, 5000])
@pytest.mark.parametrize("heads", [(8, 8), (8, 2), (16, 1)])
@pytest.mark.parametrize("mask", ["", "Bx1x1xSxi1", "BxHx1xSxbf16"])
def test_one_query_for_each_head(keys: int, heads: tuple[int, int], mask: str):
    mask = mask.replace("H", str(heads[0]))
    program = OneQuery("bf16", 2, heads, keys, 128, mask, "enable_gqa=True")
    tensors = [tensor.cuda() for tensor in one_query_inputs(program)]
    compiled = coda_ir.compile(parse_mlir(program.text), device="cuda")
    assert "def attend_one_query" in compiled.source
    result: Any = compiled(*tensors)
    assert relative_error(result.cpu(), attend([x.cpu() for x in tensors])) < 4e-3
    for _ in range(3):
        assert torch.equal(compiled(*tensors), result)  # type: ignore[arg-type]

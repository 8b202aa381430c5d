"""A target that is no column is an error, as in PyTorch: never NaN, and never some number."""

from typing import Any, Literal

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import coda_ir
from coda_ir.float64 import relative_error

M, V, K = 5, 24, 16

# PyTorch has no complete types for this.
untyped: Any = torch

Target = Literal["triton", "reference"]

LOSSES = {
    "of arguments": f"fn f(z: f32[M, {V}], t: INDEX[M]) {{ return LOSS(z, t, OPTIONS) }}",
    "of any number of columns": "fn f(z: f32[M, V], t: INDEX[M]) { return LOSS(z, t, OPTIONS) }",
    "of a GEMM": f"""
        fn f(z: f32[M, {V}], t: INDEX[M], weight w: f32[{V}, {V}]) {{
            return LOSS(linear(z, w), t, OPTIONS)
        }}""",
}


def program_of(text: str, index: str, reduction: str, ignored: int) -> str:
    options = f'reduction="{reduction}", ignore_index={ignored}'
    text = text.replace("INDEX", index).replace("LOSS", "cross_entropy")
    return text.replace("OPTIONS", options)


@pytest.mark.parametrize("target", ["triton", "reference"])
@pytest.mark.parametrize("reduction", ["none", "mean"])
@pytest.mark.parametrize("index", ["i32", "i64"])
@pytest.mark.parametrize("loss", LOSSES)
def test_wrong_targets(loss: str, index: str, reduction: str, target: Target):
    text = program_of(LOSSES[loss], index, reduction, -1)
    program = coda_ir.compile(text, device="cpu", target=target)
    z, w = torch.randn(M, V), torch.randn(V, V)
    weights = [w] if loss == "of a GEMM" else []
    dtype = {"i32": torch.int32, "i64": torch.int64}[index]
    t = torch.tensor([0, -1, V - 1, 3, -1], dtype=dtype)
    logits = F.linear(z.double(), w.double()) if weights else z.double()
    exact = F.cross_entropy(logits, t.long(), reduction=reduction, ignore_index=-1)
    assert relative_error(program(z, t, *weights), exact) < 1e-6
    for wrong in (V, -2, -100, 2**31 - 1):
        t[3] = wrong
        with pytest.raises(IndexError, match=rf"\bt\b.*{wrong}.*expected 0 to {V - 1}, or -1"):
            program(z, t, *weights)


@pytest.mark.parametrize("loss", LOSSES)
def test_wrong_targets_in_training(loss: str):
    program = coda_ir.compile(
        program_of(LOSSES[loss], "i64", "mean", -100), device="cpu", training=True
    )
    leaves = [torch.randn(M, V, requires_grad=True)]
    leaves += [torch.randn(V, V, requires_grad=True)] if loss == "of a GEMM" else []
    t = torch.tensor([0, -100, V - 1, 3, 1])
    program(leaves[0], t, *leaves[1:]).backward()
    t[0] = V
    with pytest.raises(IndexError, match="row 0"):
        program(leaves[0], t, *leaves[1:])


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(K, V)

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self.head(x), t)


def test_wrong_targets_of_a_compiled_module():
    model = untyped.compile(Head(), backend="coda")
    x, t = torch.randn(M, K), torch.randint(V, (M,))
    model(x, t).backward()
    t[2] = V
    with pytest.raises(IndexError):
        model(x, t)


@pytest.mark.parametrize("target", ["triton", "reference"])
def test_wrong_ids_of_an_embedding(target: Target):
    text = f"fn f(ids: i64[M], table: f32[{V}, 8]) {{ return embedding(ids, table) }}"
    program = coda_ir.compile(text, device="cpu", target=target)
    table = torch.randn(V, 8)
    assert torch.equal(program(torch.tensor([0, V - 1]), table), table[[0, V - 1]])
    for wrong in (V, -1):
        with pytest.raises(IndexError):
            program(torch.tensor([0, wrong]), table)


def test_kernels_stop_on_a_gpu():
    """The checks are in the kernels, too, which are compiled so that they have an effect."""
    for text in LOSSES.values():
        source = coda_ir.compile(program_of(text, "i64", "mean", -100), device="cpu").source
        kernels = source.split("@triton.jit")
        checking = [kernel for kernel in kernels if "= checked_index(" in kernel]
        assert len(checking) == 1
        assert checking[0].startswith("(debug=True")
        assert "sanitize_overflow=False" in source

"""Versions of PyTorch that lack a private name of tests/core/test_private_names.py."""

from importlib import import_module
from typing import Any

import pytest
import torch
from support.torch_compile import Block, compiled

import coda_ir

pytestmark = pytest.mark.usefixtures("fresh_dynamo")

PROGRAM = "fn f(x: f32[M, 16], w: f32[8, 16]) {\n    return silu(linear(x, w))\n}"


def remove(monkeypatch: pytest.MonkeyPatch, module: str, name: str) -> None:
    monkeypatch.delattr(import_module(module), name)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("torch.export.exported_program", "_override_composite_implicit_decomp"),
        ("torch._subclasses.fake_tensor", "unset_fake_temporarily"),
    ],
)
def test_models_run(monkeypatch: pytest.MonkeyPatch, module: str, name: str):
    remove(monkeypatch, module, name)
    model, x = Block(), torch.randn(3, 16)
    with torch.no_grad():
        y = compiled(model, errors="fallback")(x)
        torch.testing.assert_close(y, model(x), rtol=1e-4, atol=1e-5)


def test_pytorch_adds_gradients(monkeypatch: pytest.MonkeyPatch):
    program: Any = coda_ir.compile(
        PROGRAM,
        device="cpu",
        training=True,
        target="reference",
        fuse_gradient_accumulation=True,
    )
    x, w = torch.randn(4, 16), torch.randn(8, 16).requires_grad_()
    with torch.enable_grad():
        (once,) = torch.autograd.grad(program(x, w).sum(), [w])
        remove(monkeypatch, "torch._C", "_will_engine_execute_node")
        for _ in range(2):
            program(x, w).sum().backward()
    torch.testing.assert_close(w.grad, 2 * once)

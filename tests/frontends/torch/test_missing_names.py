"""Versions of PyTorch that lack a private name of tests/core/test_private_names.py."""

from importlib import import_module

import pytest
import torch
from support.torch_compile import Block, compiled

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


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

"""Kernels that threads compile and load on a GPU, before the first call launches them."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from support.compile_cache import use_cache
from support.inputs import signature_inputs

import coda_ir
from coda_ir.float64 import relative_error
from coda_ir.launching import kernels_ahead

pytestmark = pytest.mark.gpu

LAYER = Path(__file__).parents[2] / "examples" / "llama_layer.coda"


@pytest.mark.parametrize("place", ["first", "last"])
def test_the_first_call_compiles_nothing_itself(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: str
):
    use_cache(monkeypatch, tmp_path)
    # Another width for each device: modules with the same text are one.
    sizes = {"D": 512 if place == "first" else 640, "F": 1536, "HEAD": 128}
    device = f"cuda:{0 if place == 'first' else torch.cuda.device_count() - 1}"
    layer = coda_ir.compile(LAYER, constants=sizes, device=device, jobs=4)
    jit, compile_ahead = (
        import_module("triton.runtime.jit").JITFunction,
        kernels_ahead.compile_ahead,
    )
    seen: list[Sequence[str]] = []

    def refuse(kernel: Any, *_: object) -> None:
        raise AssertionError(f"{kernel.__name__} is compiled by its launch")

    def ahead(modules: Sequence[tuple[Any, Sequence[str]]], *rest: Any) -> None:
        compile_ahead(modules, *rest)
        seen.extend(launches for _, launches in modules)
        monkeypatch.setattr(jit, "_do_compile", refuse)

    monkeypatch.setattr(kernels_ahead, "compile_ahead", ahead)
    inputs = signature_inputs(layer, {"B": 2, "T": 192}, 1, device)
    found = layer(*inputs)
    assert [len(launches) for launches in seen] == [len(layer.kernels)]
    expected = layer.reference([tensor.cpu() for tensor in inputs])
    for result, wanted in zip(found, expected, strict=True):
        assert result.device == torch.device(device)
        assert relative_error(result.cpu(), wanted) < 1e-2

"""Ranges of columns that are broadcast over each dimension in turn, alone and after GEMMs."""

from collections.abc import Sequence

import pytest
import torch
import torch.nn.functional as F
from support.emitted import run_guarded
from torch import Tensor

from coda_ir.backends.triton import emit_module
from coda_ir.context import make_context
from coda_ir.frontends.coda_text import parse_text
from coda_ir.pipeline import PassManager, parse_pipeline
from coda_ir.registry import get_all_passes

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

PIPELINE = "coda-to-gemm,schedule{target=interpreter},plan-buffers"

ROWS = [(1, 5), (3, 7), (2, 1)]
"""Sizes of B and T."""

SHAPES = [
    ("B, T, 32", "B, 1, 64"),
    ("B, T, 32", "1, T, 64"),
    ("B, T, 32", "T, 64"),
    ("B, T, 32", "1, 1, 64"),
    ("2, B, T, 32", "2, B, 1, 64"),
    ("2, B, T, 32", "2, 1, T, 64"),
    ("2, B, T, 32", "2, 1, 1, 64"),
    ("2, B, T, 32", "B, 1, 64"),
]


def shape(text: str, b: int, t: int) -> list[int]:
    return [{"B": b, "T": t}.get(extent) or int(extent) for extent in text.split(", ")]


def halves(x: Tensor) -> tuple[Tensor, Tensor]:
    return x[..., :32], x[..., 32:]


def run(text: str, arguments: Sequence[Tensor], pipeline: str = PIPELINE) -> list[Tensor]:
    module = parse_text(text, "f.coda")
    PassManager(parse_pipeline(pipeline, get_all_passes())).run(make_context(), module)
    return run_guarded(emit_module(module), arguments)


@pytest.mark.slow
@pytest.mark.parametrize(("b", "t"), ROWS)
@pytest.mark.parametrize(("x", "m"), SHAPES)
def test_both_halves_of_a_tensor(x: str, m: str, b: int, t: int):
    text = f"""
        fn f(x: f32[{x}], m: f32[{m}]) -> f32[{x}] {{
            scale, shift = split(m, [32, 32])
            return x * scale + shift
        }}"""
    arguments = [torch.randn(shape(each, b, t)) for each in (x, m)]
    (result,) = run(text, arguments)
    scale, shift = halves(arguments[1])
    torch.testing.assert_close(result, arguments[0] * scale + shift)


@pytest.mark.parametrize(("b", "t"), ROWS)
def test_beside_a_gemm(b: int, t: int):
    text = """
        fn f(x: f32[B, T, 32], m: f32[B, 1, 64], weight w: f32[32, 32]) -> f32[B, T, 32] {
            scale, shift = split(m, [32, 32])
            return x + linear(x * scale + shift, w) * scale
        }"""
    x, m, w = torch.randn(b, t, 32), torch.randn(b, 1, 64), torch.randn(32, 32)
    scale, shift = halves(m.double())
    (result,) = run(text, [x, m, w])
    exact = x + F.linear(x * scale + shift, w.double()) * scale
    torch.testing.assert_close(result.double(), exact, rtol=1e-5, atol=1e-4)

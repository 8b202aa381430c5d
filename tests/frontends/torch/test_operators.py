"""Operators of ATen as those of the dialect coda: which ones, and how exactly.

An export takes much the same time for one operator and for all.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from coda_ir.api import Lowering, find_entry
from coda_ir.backends.reference import run_function
from coda_ir.dialects.torch import CallOp
from coda_ir.frontends.torch import export

NUMBER = torch.tensor(0.1)


Function = Callable[[Any, Any], Any]


class Applied(nn.Module):
    """Each function of the result of its own linear map."""

    number: torch.Tensor

    def __init__(self, functions: Mapping[str, Function]):
        super().__init__()
        self.linears = nn.ModuleList(nn.Linear(32, 24) for _ in functions)
        self.register_buffer("number", NUMBER)
        self.functions = list(functions.values())

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        pairs = zip(self.functions, self.linears, strict=True)
        return [function(linear(x), self.number) for function, linear in pairs]


class Results(NamedTuple):
    """Those of a model: of PyTorch, by the name of a function, and at two levels."""

    eager: Mapping[str, torch.Tensor]
    exact: Mapping[str, torch.Tensor]
    lowered: tuple[Mapping[str, torch.Tensor], Mapping[str, torch.Tensor]]
    outside: set[str]
    """The operators at the level of kernels."""


def results_of(functions: Mapping[str, Function], dtype: torch.dtype) -> Results:
    torch.default_generator.manual_seed(0)
    model = Applied(functions).to(dtype)
    model.number = NUMBER  # Stays float32, as numbers of a model do under autocast.
    x = torch.randn(64, 32, dtype=dtype)
    exported = export(model, (x,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
    assert not [op for op in exported.module.walk() if isinstance(op, CallOp)]
    lowering = Lowering(exported.module)
    funcs = [find_entry(lowering.module(level)) for level in ("block", "gemm")]
    lowered = [run_function(func, exported.arguments(x), "stated") for func in funcs]
    outside = {op.name for op in funcs[1].body.block.ops}
    with torch.no_grad():
        eager, wide = model(x), model.double()
        wide.number = NUMBER.double()
        exact = wide(x.double())
    block, gemm, eager, exact = (
        dict(zip(functions, each, strict=True)) for each in (*lowered, eager, exact)
    )
    return Results(eager, exact, (block, gemm), outside)


FUNCTIONS: dict[str, Function] = {
    "float32 factor": lambda y, c: y * c,
    "float32 divisor": lambda y, c: y / c,
    "float32 minuend": lambda y, c: c - y,
    "add with alpha": lambda y, c: torch.add(y, y.abs(), alpha=0.3),
    "sub with alpha": lambda y, c: torch.sub(y, y.abs(), alpha=2),
    "rms_norm without eps": lambda y, c: F.rms_norm(0.05 * y, (24,)),
    "clamp": lambda y, c: y.clamp(-0.25, 0.5),
    "clamp below": lambda y, c: y.clamp(min=0.125),
    "clamp above": lambda y, c: y.clamp(max=0.125),
    "clamp_min": lambda y, c: torch.clamp_min(y, 0.125),
    "clamp_max": lambda y, c: torch.clamp_max(y, 0.125),
    "relu6": lambda y, c: F.relu6(20 * y),
    "hardtanh": lambda y, c: F.hardtanh(4 * y, -1.5, 2.0),
    "clamp between tensors": lambda y, c: y.clamp(y.mean(-1, keepdim=True), y[:, :1].abs()),
    "clamp below by a tensor": lambda y, c: torch.clamp_min(y, 0.1 * y.amax(-1, keepdim=True)),
    "clamp above by a tensor": lambda y, c: torch.clamp_max(y, y[:, :1]),
    "power of tensors": lambda y, c: (0.1 + y.abs()) ** y[:, :1],
    "power of a number": lambda y, c: 1.7**y,
    "logical operators of floats": lambda y, c: (
        torch.where(torch.logical_and(y.relu(), y > -1), y, 0)
        + torch.where(torch.logical_not(torch.logical_or(y.relu(), y[:, :1].relu())), 2 * y, 0)
    ),
    "pad columns": lambda y, c: F.pad(y, (1, 2), value=-1.5),
    "pad rows": lambda y, c: F.pad(y, (0, 0, 3, 1)),
    "pad rows and columns": lambda y, c: F.pad(y, (2, 0, 1, 0)),
    "pad and cut columns": lambda y, c: F.pad(y, (-1, 2), mode="constant", value=0.5),
    "shift rows": lambda y, c: y - F.pad(y, (0, 0, 1, -1)),
    "pad and slice rows": lambda y, c: y - F.pad(y, (0, 0, 1, 0))[:-1],
    "leaky_relu": lambda y, c: F.leaky_relu(y, 0.2),
    "hardswish": lambda y, c: F.hardswish(4 * y),
    "hardsigmoid": lambda y, c: F.hardsigmoid(4 * y),
    "softplus with beta": lambda y, c: F.softplus(4 * y, beta=2.5),
    "logaddexp": lambda y, c: torch.logaddexp(4 * y, c) + torch.logaddexp(y, y),
    "logaddexp of infinities": lambda y, c: torch.logaddexp(
        torch.where(y > 0, y, float("-inf")), torch.where(y > 1, y, float("-inf"))
    ).exp(),
    "selu": lambda y, c: F.selu(4 * y),
    "amin": lambda y, c: y - y.amin(-1, keepdim=True),
    "powers": lambda y, c: y.abs() ** 1.3 + y**4 - (1 + y.abs()) ** -2.5,
    "select": lambda y, c: y.reshape(-1, 3, 8)[:, 1],
    "windows of two steps": lambda y, c: y.unfold(1, 8, 4),
    "windows of one step": lambda y, c: y.unfold(1, 8, 8),
    "select from the end": lambda y, c: y.reshape(-1, 3, 8)[:, -1],
}


def error(got: Any, wanted: Any) -> float:
    return float((got.double() - wanted).norm() / wanted.norm())


@cache
def results(dtype: torch.dtype) -> Results:
    return results_of(FUNCTIONS, dtype)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_exact_as_eager(name: str, dtype: torch.dtype):
    found = results(dtype)
    eager, exact = found.eager[name], found.exact[name]
    for lowered in found.lowered:
        result = lowered[name]
        assert result.dtype == eager.dtype and result.shape == eager.shape
        assert error(result, exact) <= 1.25 * error(eager, exact) + 1e-9


QUANTIZED: dict[str, Function] = {
    "int8": lambda y, c: (y / c).round().clamp(-128, 127).to(torch.int8),
    "int8 of each row": lambda y, c: torch.clamp(
        torch.round(y / (y.abs().amax(-1, keepdim=True) / 127)), min=-128, max=127
    ).to(torch.int8),
    "uint8": lambda y, c: (y / c + 128).round().clamp(0, 255).to(torch.uint8),
    "float8_e4m3fn": lambda y, c: (100 * y).clamp(-448, 448).to(torch.float8_e4m3fn),
    "float8_e5m2": lambda y, c: (100 * y).to(torch.float8_e5m2),
    "int8 and back": lambda y, c: (y / c).round().clamp(-8, 7).to(torch.int8).to(y.dtype) * c,
    "float8 and back": lambda y, c: (y * 10).to(torch.float8_e4m3fn).to(y.dtype),
}


@cache
def narrow_results() -> Results:
    return results_of(QUANTIZED, torch.float32)


@pytest.mark.slow
@pytest.mark.parametrize("name", QUANTIZED)
def test_narrow_types(name: str):
    """Quantization is made of operators, and part of the epilogue of the GEMM where it can be."""
    found = narrow_results()
    eager = found.eager[name]
    for lowered in found.lowered:
        result = lowered[name]
        assert result.dtype == eager.dtype and result.shape == eager.shape
        # A sum that differs by a rounding may round to the neighbour.
        differs = result.double() != eager.double()
        assert differs.double().mean() < 0.01, name
        torch.testing.assert_close(result.double(), eager.double(), rtol=0.13, atol=1.0)
    kernels = {"gemm.fused", "gemm.map", "gemm.finalize", "func.return"}
    assert found.outside <= kernels, found.outside

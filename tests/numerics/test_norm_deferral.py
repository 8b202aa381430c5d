"""Norms that move past GEMMs, through emitted Triton, compared with float64 and eager PyTorch."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from support.emitted import assert_as_accurate

import coda_ir

D, N = 64, 48

DRAWS = 3
"""Gradients of a few rows have errors that differ much from draw to draw."""

EPILOGUES = """
    epilogue bias_gelu(acc, b: row) -> (y: tile) {
        y = gelu(acc + b)
    }
    epilogue squared_max(acc) -> (y: tile, m: partial_row<max>) {
        y = acc * acc
        m = abs(acc)
    }
    epilogue gate(g, u) -> (y: half) {
        y = silu(g) * u
    }
"""

Tensors = dict[str, torch.Tensor]


class Consumer(NamedTuple):
    """The code that reads the norm h: in the language, and in PyTorch."""

    lines: str
    eager: Callable[[torch.Tensor, Tensors], Sequence[torch.Tensor]]


def _bias_gelu(h: torch.Tensor, t: Tensors) -> Sequence[torch.Tensor]:
    return [F.gelu(F.linear(h, t["w1"], t["bias"]))]


def _squared_max(h: torch.Tensor, t: Tensors) -> Sequence[torch.Tensor]:
    z = h @ t["w3"]
    return [z * z, z.abs().amax(-1, keepdim=True).to(torch.promote_types(z.dtype, torch.float32))]


def _gate(h: torch.Tensor, t: Tensors) -> Sequence[torch.Tensor]:
    return [F.silu(F.linear(h, t["w1"])) * F.linear(h, t["w2"])]


def _grouped_gate(h: torch.Tensor, t: Tensors) -> Sequence[torch.Tensor]:
    z = F.linear(h, t["w1"]).reshape(*h.shape[:-1], N // 16, 2, 8)
    return [(F.silu(z[..., 0, :]) * z[..., 1, :]).reshape(*h.shape[:-1], N // 2)]


def _linear(h: torch.Tensor, t: Tensors) -> Sequence[torch.Tensor]:
    return [F.linear(h, t["w1"], t["bias"])]


CONSUMERS = {
    "a bias and an activation": Consumer("return bias_gelu(linear(h, w1), bias)", _bias_gelu),
    "a partial, K x N": Consumer(
        "y, m = squared_max(h @ w3)\n return y, finalize(m)", _squared_max
    ),
    "pairs of two weights": Consumer("return gate(linear(h, w1), linear(h, w2))", _gate),
    "pairs of one weight": Consumer("return gate(pairs(linear(h, w1), group=16))", _grouped_gate),
    "no epilogue": Consumer("return linear(h, w1, bias)", _linear),
}

NORMS: dict[str, Callable[[torch.Tensor, Tensors], torch.Tensor]] = {
    "rms_norm(x1, g)": lambda x, t: F.rms_norm(x, (D,), t["g"], 1e-6),
    "rms_norm(x1)": lambda x, t: F.rms_norm(x, (D,), None, 1e-6),
    "layer_norm(x1, g, beta)": lambda x, t: F.layer_norm(x, (D,), t["g"], t["beta"], 1e-5),
    "layer_norm(x1, g)": lambda x, t: F.layer_norm(x, (D,), t["g"], None, 1e-5),
    "layer_norm(x1, b=beta)": lambda x, t: F.layer_norm(x, (D,), None, t["beta"], 1e-5),
    "layer_norm(x1)": lambda x, t: F.layer_norm(x, (D,), None, None, 1e-5),
}


def program(norm: str, consumer: Consumer) -> str:
    return f"""{EPILOGUES}
        fn f(x: bf16[B, T, {D}], weight w0: bf16[{D}, {D}], weight g: bf16[{D}],
             weight beta: bf16[{D}], weight w1: bf16[{N}, {D}], weight w2: bf16[{N}, {D}],
             weight w3: bf16[{D}, {N}], weight bias: bf16[{N}]) {{
            x1 = x + linear(x, w0)
            h = {norm}
            {consumer.lines}
        }}"""


def tensors() -> Tensors:
    """Random data; the rows of x have a mean of about half their deviation."""
    shapes = {"w0": (D, D), "w1": (N, D), "w2": (N, D), "w3": (D, N)}
    weights = {name: torch.randn(shape) / D**0.5 for name, shape in shapes.items()}
    vectors = {"g": torch.rand(D) + 0.5, "beta": torch.randn(D), "bias": torch.randn(N)}
    values = {"x": torch.randn(2, 7, D) + 0.5, **weights, **vectors}
    return {name: value.bfloat16() for name, value in values.items()}


def listed(results: Any) -> list[torch.Tensor]:
    return [results] if isinstance(results, torch.Tensor) else list(results)


@pytest.mark.slow
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("consumer", CONSUMERS)
def test_deferred_norm(norm: str, consumer: str):
    """No norm is left, and each result is as accurate as that of eager PyTorch."""
    compiled = coda_ir.compile(program(norm, CONSUMERS[consumer]), device="cpu")
    assert not [remark for remark in compiled.remarks if remark.kind == "missed"]
    assert len([name for name in compiled.kernels if not name.startswith("pack_weight")]) <= 4
    given = tensors()
    expected = [
        CONSUMERS[consumer].eager(NORMS[norm](x + F.linear(x, t["w0"]), t), t)
        for t in (given, {name: value.double() for name, value in given.items()})
        for x in [t["x"]]
    ]
    for actual, eager, exact in zip(listed(compiled(**given)), *expected, strict=True):
        assert_as_accurate(actual, eager, exact)


class Block(torch.nn.Module):
    """A residual, a norm, and a linear map."""

    def __init__(self, norm: Callable[[torch.Tensor, Tensors], torch.Tensor]):
        super().__init__()
        self.norm = norm
        self.first, self.second = torch.nn.Linear(D, D), torch.nn.Linear(D, N)
        self.g = torch.nn.Parameter(torch.rand(D) + 0.5)
        self.beta = torch.nn.Parameter(torch.randn(D))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(x + self.first(x), {"g": self.g, "beta": self.beta})
        return torch.tanh(self.second(h))


@pytest.mark.slow
@pytest.mark.parametrize("norm", NORMS)
def test_deferred_norm_of_a_model(norm: str):
    model, x = Block(NORMS[norm]).bfloat16(), (torch.randn(2, 7, D) + 0.5).bfloat16()
    exported = coda_ir.export(model, (x,), dynamic_shapes=({0: torch.export.Dim("B")},))
    compiled = exported.compile(device="cpu")
    assert not [remark for remark in compiled.remarks if remark.kind == "missed"]
    x = (torch.randn(3, 7, D) + 0.5).bfloat16()
    with torch.no_grad():
        actual, eager = compiled(x), model(x)
        assert_as_accurate(actual, eager, model.double()(x.double()))


@pytest.mark.slow
@pytest.mark.parametrize("norm", NORMS)
def test_gradients(norm: str):
    """Gradients of all arguments of a norm in front of a linear map."""
    consumer = CONSUMERS["no epilogue"]
    function = coda_ir.compile(program(norm, consumer), training=True, device="cpu")
    names = ["x", "w0", "w1", "bias", *(name for name in ("g", "beta") if name in norm)]

    def gradients(call: Callable[[Tensors], torch.Tensor], values: Tensors) -> list[torch.Tensor]:
        given = {name: value.detach().requires_grad_() for name, value in values.items()}
        y = call(given)
        dy = torch.linspace(-1, 1, y.numel(), dtype=torch.float64).reshape(y.shape).to(y.dtype)
        return list(torch.autograd.grad(y, [given[name] for name in names], dy))

    def eager(t: Tensors) -> torch.Tensor:
        return consumer.eager(NORMS[norm](t["x"] + F.linear(t["x"], t["w0"]), t), t)[0]

    def ours(t: Tensors) -> torch.Tensor:
        (y,) = listed(function(**t))
        return y

    draws = [tensors() for _ in range(DRAWS)]
    wides = [{name: value.double() for name, value in values.items()} for values in draws]
    found = (
        [gradients(ours, values) for values in draws],
        [gradients(eager, values) for values in draws],
        [gradients(eager, values) for values in wides],
    )
    for position, _ in enumerate(names):
        assert_as_accurate(
            *(torch.stack([results[position] for results in each]) for each in found)
        )


def test_a_bias_alone_in_float64():
    text = "fn f(x: f64[M, 8], b: f64[8]) { return layer_norm(x, b=b) }"
    x, b = torch.randn(5, 8, dtype=torch.float64), torch.randn(8, dtype=torch.float64)
    torch.testing.assert_close(
        coda_ir.compile(text, device="cpu")(x, b), F.layer_norm(x, (8,), None, b)
    )

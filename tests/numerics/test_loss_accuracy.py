"""The float32 loss and its gradients are as close to float64 as eager's, however large logits are.

A logsumexp has the magnitude of the logits, a loss need not: a difference of two rounded numbers of
80 has an error of 1e-5, whatever is left of them.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import cache
from typing import Any, Literal

import pytest
import torch
import torch.nn.functional as F
from support.torch_compile import compiled
from torch import Tensor

import coda_ir

M, K, V = 37, 32, 300
ULP = 2.0**-23

Reduction = Literal["none", "mean"]
Loss = Callable[..., Tensor]

TEXTS = {
    "linear": f"""fn f(x: f32[M, {K}], weight w: f32[{V}, {K}], t: i64[M]) {{
        return cross_entropy(linear(x, w), t, reduction="RED")
    }}""",
    "logits": f"""fn f(z: f32[M, {V}], t: i64[M]) {{
        return cross_entropy(z, t, reduction="RED")
    }}""",
    "bf16": f"""fn f(x: bf16[M, {K}], weight w: bf16[{V}, {K}], t: i64[M]) {{
        return cross_entropy(linear(x, w), t, reduction="RED")
    }}""",
    "cast": f"""fn f(x: bf16[M, {K}], weight w: bf16[{V}, {K}], t: i64[M]) {{
        return cross_entropy(cast(linear(x, w), f32), t, reduction="RED")
    }}""",
    "stored": f"""fn f(x: f32[M, {K}], weight w: f32[{V}, {K}], t: i64[M]) {{
        z = linear(x, w)
        return cross_entropy(z, t, reduction="RED"), z
    }}""",
}
OPTIONS: dict[str, dict[str, Any]] = {
    "fused": {},
    "streamed": {"stream_logits": 3},
    "deterministic": {"numerics": "deterministic"},
    "eager-exact": {"numerics": "eager-exact"},
}


@cache
def program(text: str, option: str, reduction: str) -> Loss:
    source = TEXTS[text].replace("RED", reduction)
    compiled: Any = coda_ir.compile(source, device="cpu", training=True, **OPTIONS[option])

    def loss(*arguments: Tensor) -> Tensor:
        result: Any = compiled(*arguments)
        return result[0] if text == "stored" else result

    return loss


def data(text: str, scale: int, kind: str, seed: int) -> tuple[list[Tensor], Tensor]:
    """Leaves whose logits have a standard deviation of `scale`, and targets."""
    generator = torch.Generator().manual_seed(seed)
    if text == "logits":
        leaves = [torch.randn(M, V, generator=generator) * scale]
        logits = leaves[0]
    else:
        x = torch.randn(M, K, generator=generator)
        w = torch.randn(V, K, generator=generator) * scale / K**0.5
        leaves, logits = [x, w], F.linear(x, w)
    if kind == "likely":
        # Near the largest logit, where almost nothing is left of the difference.
        return leaves, logits.topk(2, -1).indices[:, seed % 2]
    return leaves, torch.randint(V, (M,), generator=generator)


def results(loss: Loss, leaves: Sequence[Tensor], dtype: torch.dtype) -> list[Tensor]:
    """The loss and the gradients of the leaves."""
    own = [leaf.to(dtype).requires_grad_() for leaf in leaves]
    value = loss(*own)
    dy = torch.linspace(0.5, 2, M).to(dtype) if value.dim() else torch.ones((), dtype=dtype)
    return [value.detach(), *torch.autograd.grad(value, own, dy)]


def eager(t: Tensor, text: str, reduction: Reduction) -> Loss:
    def loss(*leaves: Tensor) -> Tensor:
        logits = leaves[0] if text == "logits" else F.linear(*leaves)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        return F.cross_entropy(logits, t, reduction=reduction)

    return loss


CASES = [
    *(("linear", option, "none") for option in OPTIONS),
    ("linear", "fused", "mean"),
    ("linear", "streamed", "mean"),
    ("stored", "fused", "mean"),
    ("logits", "fused", "none"),
]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["likely", "any"])
@pytest.mark.parametrize("scale", [1, 8, 24, 80])
@pytest.mark.parametrize(("text", "option", "reduction"), CASES)
def test_against_eager(text: str, option: str, reduction: Reduction, scale: int, kind: str):
    """Over all seeds together at most 1.25 times eager's error, or an ulp of what is compared."""
    compiled = program(text, option, reduction)
    squares = [squares_of(compiled, text, reduction, *data(text, scale, kind, s)) for s in range(5)]
    for of_seeds in zip(*squares, strict=True):
        own, other, size = (sum(values) ** 0.5 for values in zip(*of_seeds, strict=True))
        assert own <= max(1.25 * other, ULP * size)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["likely", "any"])
@pytest.mark.parametrize("scale", [1, 8, 24])
@pytest.mark.parametrize(
    ("text", "option"), [("bf16", "fused"), ("bf16", "streamed"), ("cast", "fused")]
)
def test_narrow_logits(text: str, option: str, scale: int, kind: str):
    """A softmax near 1 minus 1 is near 0 if logit and logsumexp have the same rounding."""
    loss, found = program(text, option, "mean"), list[list[tuple[float, float, float]]]()
    for seed in range(5):
        leaves, t = data(text, scale, kind, seed)
        narrow = [leaf.bfloat16() for leaf in leaves]
        found.append(squares_of(loss, text, "mean", narrow, t))
    for of_seeds in zip(*found, strict=True):
        own, other, _ = (sum(values) ** 0.5 for values in zip(*of_seeds, strict=True))
        assert own <= 1.25 * other


def squares_of(
    compiled: Loss, text: str, reduction: Reduction, leaves: Sequence[Tensor], t: Tensor
) -> list[tuple[float, float, float]]:
    """For the loss and for each gradient, the squared norms of the errors, ours and eager's, and of
    the right value."""
    reference, dtype = eager(t, text, reduction), leaves[0].dtype
    exact = results(reference, leaves, torch.float64)
    ours = results(lambda *own: compiled(*own, t), leaves, dtype)
    theirs = results(reference, leaves, dtype)
    return [
        (square(own.double() - right), square(other.double() - right), square(right))
        for own, other, right in zip(ours, theirs, exact, strict=True)
    ]


def square(x: Tensor) -> float:
    return float((x * x).sum())


@pytest.mark.parametrize("mode", ["fp32-epilogue", "deterministic"])
def test_reference_backend_in_stated_precision(mode: Literal["fp32-epilogue", "deterministic"]):
    """It holds what the partials hold, too."""
    compiled = coda_ir.compile(
        TEXTS["linear"].replace("RED", "none"), target="reference", numerics=mode
    )
    (x, w), t = data("linear", 80, "likely", 0)
    exact = F.cross_entropy(F.linear(x.double(), w.double()), t, reduction="none")
    theirs = F.cross_entropy(F.linear(x, w), t, reduction="none")
    own = compiled(x, w, t)
    assert square(own - exact) <= 1.25**2 * square(theirs - exact)


class JensenShannon(torch.nn.Module):
    """The divergence of two heads from their mean, in log probabilities."""

    def __init__(self):
        super().__init__()
        self.one, self.other = torch.nn.Linear(K, 96), torch.nn.Linear(K, 96)

    def forward(self, x: Tensor) -> Tensor:
        p, q = self.one(x).log_softmax(-1), self.other(x).log_softmax(-1)
        mean = ((p.exp() + q.exp()) / 2).log()
        one, other = (F.kl_div(mean, r, reduction="batchmean", log_target=True) for r in (p, q))
        return one + other


def test_a_small_divergence():
    """The mean is subtracted where it is computed: rounded to bf16, it would differ from both."""
    model: Any = JensenShannon().bfloat16()
    exact_model: Any = deepcopy(model).double()
    fast = compiled(model, target="triton", compare=False)
    errors = {"coda": 0.0, "eager": 0.0}
    with torch.no_grad():
        for _ in range(12):
            x = torch.randn(40, K, dtype=torch.bfloat16)
            exact = exact_model(x.double())
            for name, function in (("coda", fast), ("eager", model)):
                errors[name] += ((function(x).double() - exact) / exact).square().item()
    assert errors["coda"] <= 1.25**2 * errors["eager"]

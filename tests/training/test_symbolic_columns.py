"""Sums over columns whose number is a symbol, through emitted Triton: ALiBi slopes that train."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from support.daily import daily
from support.torch_compile import compiled, gradients, record_derived, reset
from torch import nn

import coda_ir
from coda_ir.diagnostics import CodaError
from coda_ir.float64 import relative_error

Tensors = dict[str, torch.Tensor]


class Program(NamedTuple):
    """A function of the language, its sizes, and what it computes."""

    text: str
    shapes: dict[str, tuple[int, ...]]
    eager: Callable[..., torch.Tensor]


def _split_heads(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(*x.shape[:-1], 4, 8).transpose(1, 2)


def _attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **bias: Any) -> torch.Tensor:
    q, k, v = map(_split_heads, (q, k, v))
    hidden = torch.full((q.shape[2], k.shape[2]), float("-inf"), dtype=q.dtype).triu(1)
    mask = (bias["slopes"] * bias["keys"] + hidden)[None]
    return F.scaled_dot_product_attention(q, k, v, mask).transpose(1, 2).flatten(-2)


def _biased_softmax(
    scores: torch.Tensor, slopes: torch.Tensor, distances: torch.Tensor
) -> torch.Tensor:
    return (scores + slopes * distances).softmax(-1)


def _scaled(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return F.silu(x * x * scale)


def _sums(x: torch.Tensor) -> torch.Tensor:
    sums = (x * F.silu(x)).sum(-1, keepdim=True) + (x * x).amax(-1, keepdim=True)
    return sums + (x + x).logsumexp(-1, keepdim=True)


RUNS = 8

SEQUENCES = dict.fromkeys("qkv", (2, 7, 32))

PROGRAMS = {
    "slopes of the keys": Program(
        """fn f(q: f32[B, T, 32], k: f32[B, T, 32], v: f32[B, T, 32], slopes: f32[4, 1, 1],
                keys: f32[T]) -> f32[B, T, 32] {
            return attention(q, k, v, head_dim=8, causal=true, mask=slopes * keys)
        }""",
        {**SEQUENCES, "slopes": (4, 1, 1), "keys": (7,)},
        _attention,
    ),
    "slopes of the distances": Program(
        """fn f(scores: f32[B, 4, T, T], slopes: f32[4, 1, 1], distances: f32[T, T]) {
            return softmax(scores + slopes * distances)
        }""",
        {"scores": (2, 4, 7, 7), "slopes": (4, 1, 1), "distances": (7, 7)},
        _biased_softmax,
    ),
    "a scale of each row": Program(
        "fn f(x: f32[M, N], scale: f32[M, 1]) { return silu(x * x * scale) }",
        {"x": (5, 9), "scale": (5, 1)},
        _scaled,
    ),
    "a scale of everything": Program(
        "fn f(x: f32[M, N], scale: f32[1]) { return silu(x * x * scale) }",
        {"x": (5, 9), "scale": (1,)},
        _scaled,
    ),
    "sums in the forward": Program(
        "fn f(x: f32[M, N]) { return sum(x * silu(x)) + max(x * x) + logsumexp(x + x) }",
        {"x": (5, 9)},
        _sums,
    ),
}


def _result_and_gradients(function: Any, tensors: Tensors) -> list[torch.Tensor]:
    given = {name: value.detach().requires_grad_() for name, value in tensors.items()}
    y = function(**given)
    weights = torch.arange(y.numel(), dtype=y.dtype).cos().reshape(y.shape)
    return [y.detach(), *torch.autograd.grad((y * weights).sum(), list(given.values()))]


def assert_as_accurate(runs: Sequence[Sequence[Sequence[torch.Tensor]]]) -> None:
    """The error of each result, of all runs together, is at most 1.25 times eager's, or 8 ulps.

    A run has our results, those of eager PyTorch, and those in float64. Errors are relative to the
    norm over all runs: a gradient of slopes that cancels in one run has errors as large as itself,
    in eager PyTorch, too. The backward of attention reads the logsumexp of the scores, as flash
    attention does, where eager PyTorch with a mask that trains stores the whole softmax: 8 ulps are
    what the exponent of a score of 8 loses.
    """
    ours, eager, exact = (
        [joined(results) for results in zip(*(run[which] for run in runs), strict=True)]
        for which in range(3)
    )
    limit = 8 * torch.finfo(torch.float32).eps
    for found, allowed, right in zip(ours, eager, exact, strict=True):
        assert relative_error(found, right) <= max(1.25 * relative_error(allowed, right), limit)


def joined(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.cat([tensor.flatten() for tensor in tensors])


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str):
    text, shapes, eager = PROGRAMS[name]
    function = coda_ir.compile(text, training=True, device="cpu")
    runs: list[list[list[torch.Tensor]]] = []
    for _ in range(RUNS):
        tensors = {name: torch.randn(shape) for name, shape in shapes.items()}
        wide = {name: value.double() for name, value in tensors.items()}
        given = ((function, tensors), (eager, tensors), (eager, wide))
        runs.append([_result_and_gradients(f, t) for f, t in given])
    assert_as_accurate(runs)


class Alibi(nn.Module):
    """Attention of 4 heads, with a bias of the scores that the slopes of the heads scale."""

    def __init__(self, attention: Callable[..., torch.Tensor]):
        super().__init__()
        self.attention = attention
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)
        self.slopes = nn.Parameter(torch.rand(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = map(_split_heads, self.qkv(x).chunk(3, -1))
        y = self.attention(q, k, v, self.slopes[:, None, None], torch.arange(x.shape[1]))
        return self.out(y.transpose(1, 2).flatten(-2))


def _keys(q: Any, k: Any, v: Any, slopes: Any, positions: Any) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, (slopes * positions.to(q.dtype))[None])


def _keys_and_causal(q: Any, k: Any, v: Any, slopes: Any, positions: Any) -> torch.Tensor:
    hidden = torch.where(positions[None, :] <= positions[:, None], 0.0, float("-inf"))
    mask = slopes * positions[None, None, :] + hidden.to(q.dtype)
    return F.scaled_dot_product_attention(q, k, v, mask[None])


def _distances(q: Any, k: Any, v: Any, slopes: Any, positions: Any) -> torch.Tensor:
    distances = (positions[None, :] - positions[:, None]).to(q.dtype)
    scores = q @ k.transpose(-1, -2) / 8**0.5 + slopes * distances
    return scores.masked_fill(distances > 0, float("-inf")).softmax(-1) @ v


@pytest.mark.slow
@daily(lambda attention: attention is not _keys_and_causal)
@pytest.mark.parametrize("attention", [_keys, _keys_and_causal, _distances])
def test_model(attention: Callable[..., torch.Tensor], monkeypatch: pytest.MonkeyPatch):
    """A model takes any number of tokens, without a graph whose backward is left to PyTorch."""
    derived = record_derived(monkeypatch)
    reset()
    model = Alibi(attention)
    function = compiled(model, dynamic=True, target="triton")
    exact = Alibi(attention).double()
    exact.load_state_dict({name: value.double() for name, value in model.state_dict().items()})
    runs: list[list[list[torch.Tensor]]] = []
    for tokens in range(4, 4 + RUNS):
        x = torch.randn(2, tokens, 32, requires_grad=True)
        wide = x.detach().double().requires_grad_()
        found = (gradients(*given) for given in ((function, model, x), (model, model, x)))
        runs.append([*map(_all, found), _all(gradients(exact, exact, wide))])
    assert len(derived) == RUNS
    assert_as_accurate(runs)


def _all(values: Sequence[torch.Tensor | None]) -> list[torch.Tensor]:
    given = [value for value in values if value is not None]
    assert len(given) == len(values)
    return given


def test_own_kernel_with_a_partial():
    """A pointwise kernel that the user writes has a fixed number of columns where it sums them."""
    text = """epilogue largest(x: tile) -> (m: partial_row<max>) { m = abs(x) }
        fn f(x: f32[M, N]) { return finalize(largest(x)) }"""
    with pytest.raises(
        CodaError, match="2:46: the partial_row result of a pointwise kernel is"
    ) as e:
        coda_ir.compile(text, device="cpu")
    assert e.value.remedy == "give the last dimension as a number or a const"

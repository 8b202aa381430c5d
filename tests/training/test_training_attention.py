"""Runs of attention in training, and the tensors that are kept."""

import weakref
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from typing import Any, cast

import pytest
import torch
from support.attention import AttentionCounter
from support.emitted import relative_error
from support.torch_compile import compiled, reset

import coda_ir
from coda_ir.backends.reference.interpreter import HANDLERS
from coda_ir.dialects.coda import AttentionGradOp, AttentionOp
from coda_ir.training.functions import TrainableFunction
from coda_ir.training.gradient_pair import DoubleBackwardError

checkpoint: Any = import_module("torch.utils.checkpoint").checkpoint

PROGRAM = """
fn network(q: f32[B, T, 32], k: f32[B, S, 16], v: f32[B, S, 16], weight w: f32[8, 32])
    -> f32[B, T, 8] {
    y = attention(q, k, v, head_dim=8, causal=true)
    return linear(y, w)
}
"""

SIZES = {"B": 2, "T": 5, "S": 7}

FORWARD = "aten._scaled_dot_product_flash_attention_for_cpu.default"
BACKWARD = "aten._scaled_dot_product_flash_attention_for_cpu_backward.default"


def network(**options: Any) -> TrainableFunction:
    function = coda_ir.compile(PROGRAM, training=True, device="cpu", **options)
    assert isinstance(function, TrainableFunction)
    return function


@pytest.fixture(scope="module")
def trained() -> TrainableFunction:
    return network()


@pytest.fixture
def tensors() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    batch, queries, keys = SIZES.values()
    shapes = {"q": (batch, queries, 32), "k": (batch, keys, 16), "v": (batch, keys, 16)}
    return {
        name: torch.randn(shape, generator=generator).requires_grad_()
        for name, shape in {**shapes, "w": (8, 32)}.items()
    }


Step = Callable[[TrainableFunction, dict[str, torch.Tensor]], None]


def step(function: Any, tensors: dict[str, torch.Tensor]) -> None:
    function(**tensors).square().sum().backward()


def two_backwards(function: Any, tensors: dict[str, torch.Tensor]) -> None:
    """Run two backward passes of one forward, which give equal gradients."""
    loss = function(**tensors).square().sum()
    first, second = (
        torch.autograd.grad(loss, list(tensors.values()), retain_graph=True) for _ in range(2)
    )
    assert all(map(torch.equal, first, second))


def checkpointed(function: Any, tensors: dict[str, torch.Tensor]) -> None:
    result: Any = checkpoint(lambda: function(**tensors), use_reentrant=False)
    result.square().sum().backward()


def inference(function: Any, tensors: dict[str, torch.Tensor]) -> None:
    with torch.no_grad():
        function(**tensors)


@pytest.mark.parametrize(
    ("run", "forwards", "backwards"),
    [(step, 1, 1), (two_backwards, 1, 2), (checkpointed, 2, 1), (inference, 1, 0)],
)
def test_how_often_attention_runs(
    trained: TrainableFunction,
    tensors: dict[str, torch.Tensor],
    run: Step,
    forwards: int,
    backwards: int,
):
    run(trained, tensors)
    with AttentionCounter() as counter:
        run(trained, tensors)
    assert counter.counts == Counter({FORWARD: forwards, BACKWARD: backwards})


def test_attention_that_runs_again(trained: TrainableFunction, tensors: dict[str, torch.Tensor]):
    """Attention runs again on request, or if the budget requires it, with the same bits."""
    step(trained, tensors)
    wanted: list[Any] = [x.grad for x in tensors.values()]
    for options in ({"recompute": ["y"]}, {"memory_budget": 0}):
        again = network(**options)
        copies = {name: x.detach().requires_grad_() for name, x in tensors.items()}
        with AttentionCounter() as counter:
            step(again, copies)
        assert counter.counts == Counter({FORWARD: 2, BACKWARD: 1})
        assert not again.saved
        found: list[Any] = [x.grad for x in copies.values()]
        assert all(map(torch.equal, found, wanted))


class Model(torch.nn.Module):
    """Attention of 2 heads between linear maps."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = torch.nn.Linear(16, 48), torch.nn.Linear(16, 31)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (y.unflatten(-1, (2, 8)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).flatten(2))


def test_a_model(monkeypatch: pytest.MonkeyPatch):
    counts = Counter[type]()

    def counted(op: type) -> Callable[..., Any]:
        handler = HANDLERS[op]

        def handle(*args: Any) -> Any:
            counts[op] += 1
            return handler(*args)

        return handle

    for op in (AttentionOp, AttentionGradOp):
        monkeypatch.setitem(cast(dict[type, Any], HANDLERS), op, counted(op))
    reset()
    compiled(Model())(torch.randn(2, 5, 16)).square().mean().backward()
    assert counts == Counter({AttentionOp: 1, AttentionGradOp: 1})


def test_what_is_kept(trained: TrainableFunction, tensors: dict[str, torch.Tensor]):
    """The arguments, the result of attention and the logsumexp of its scores; each once."""
    kept: list[weakref.ref[torch.Tensor]] = []
    given = {x.untyped_storage().data_ptr() for x in tensors.values()}
    found: dict[int, int] = {}

    def pack(x: torch.Tensor) -> torch.Tensor:
        storage = x.untyped_storage()
        if storage.data_ptr() not in given:
            found[storage.data_ptr()] = storage.nbytes()
            kept.append(weakref.ref(x))
        return x

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        result: Any = trained(**tensors)
    assert [spec.name for spec in trained.saved] == ["y", "y_lse"]
    assert sum(found.values()) == trained.saved_bytes.evaluate(SIZES) == 2 * 5 * (32 + 4) * 4
    result.sum().backward()
    assert len(kept) == 2 and not any(reference() for reference in kept)


def test_second_derivatives_are_an_error(
    trained: TrainableFunction, tensors: dict[str, torch.Tensor]
):
    result: Any = trained(**tensors)
    (gradient,) = torch.autograd.grad(result.sum(), tensors["q"], create_graph=True)
    with pytest.raises(DoubleBackwardError, match="second derivatives"):
        torch.autograd.grad(gradient.square().sum(), tensors["q"])


NORMALIZED = """
fn f(x: bf16[B, T, 64], weight w: bf16[64, 64], v: bf16[B, T, 64]) {
    z = 3 * rms_norm(linear(x, w))
    return attention(z, z, v, head_dim=64, causal=true)
}
"""


def test_queries_of_the_backward_have_the_scores_of_the_forward():
    """A GEMM rounds once, after its norm, and a norm of the rounded product differs from that. The
    weights of scores that differ from those of the saved logsumexp do not add up to 1.
    """

    def eager(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        z = 3 * torch.nn.functional.rms_norm(x @ w.t(), (64,), eps=1e-6)
        q, k, v = z[:, None], z[:, None], v[:, None]
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)[:, 0]

    def gradient(function: Callable[..., Any], *tensors: torch.Tensor) -> torch.Tensor:
        x, w, v = (tensor.clone().requires_grad_() for tensor in tensors)
        (found,) = torch.autograd.grad(function(x, w, v), v, torch.ones_like(v))
        return found

    generator = torch.Generator().manual_seed(0)
    shapes = (2, 24, 64), (64, 64), (2, 24, 64)
    tensors = [torch.randn(shape, generator=generator).bfloat16() for shape in shapes]
    exact = gradient(eager, *(tensor.double() for tensor in tensors))
    function = coda_ir.compile(NORMALIZED, training=True, device="cpu")
    found, other = (relative_error(gradient(each, *tensors), exact) for each in (function, eager))
    assert found <= 1.25 * other

"""Graphs that are left to Inductor whole, because an estimate says that they are faster there."""

import logging
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import pytest
import torch
from fleet.measure import noting
from torch.fx import GraphModule

from coda_ir.backends import triton
from coda_ir.cost_model.comparison import Estimates
from coda_ir.cost_model.devices import DEVICES
from coda_ir.cost_model.memory_times import KERNEL_US
from coda_ir.frontends.torch import dynamo
from coda_ir.frontends.torch.attention import (
    copied_us,
    masked_attention,
)
from coda_ir.frontends.torch.dynamo import coda
from coda_ir.frontends.torch.graph_compiler import MEASURED
from coda_ir.lowering import Lowering

SM_90 = DEVICES["sm_90"]


class Inductor:
    """Takes the place of Inductor, and counts the graphs that it is given."""

    def __init__(self) -> None:
        self.graphs = 0
        self.options: dict[str, Any] = {}

    def __call__(
        self, graph: Any, example_inputs: Sequence[Any], **options: Any
    ) -> Callable[..., Any]:
        self.graphs += 1
        self.options = options
        return graph.forward


@pytest.fixture
def inductor(monkeypatch: pytest.MonkeyPatch) -> Inductor:
    """Inductor, where programs are estimated to take 2 ms, and 1 ms apart."""
    found = Inductor()
    monkeypatch.setattr(dynamo, "_lookup_backend", {"inductor": found}.__getitem__)
    estimate(monkeypatch, 2000.0, 1000.0)
    torch.compiler.reset()
    return found


def estimate(
    monkeypatch: pytest.MonkeyPatch,
    fused: float,
    apart: float,
    masked: float = 0.0,
    *,
    by_gpu: tuple[float, float] | None = None,
) -> None:
    """Have the estimates of every program be these: of the GPU, or of the host beside `by_gpu`."""

    def comparison(lowering: Lowering, function: str | None = None) -> Estimates:
        if by_gpu is None:
            return Estimates(fused, 0.0, apart, 0.0, masked)
        return Estimates(by_gpu[0], fused, by_gpu[1], apart, masked)

    monkeypatch.setattr(Lowering, "comparison", comparison)


def compiled(model: torch.nn.Module, backend: Any = coda, **options: Any) -> Any:
    given = {"target": "triton", "fallback": "inductor", "errors": "raise", **options}
    compile_model: Any = getattr(torch, "compile")  # noqa: B009  (it has no complete type)
    return compile_model(model, backend=backend, options=given)


def mlp() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 16))


def test_a_graph_that_is_faster_there_runs_there(
    inductor: Inductor, caplog: pytest.LogCaptureFixture
) -> None:
    model, x = mlp(), torch.randn(4, 16)
    are_left: list[bool] = []
    with caplog.at_level(logging.INFO), torch.no_grad():
        assert torch.equal(compiled(model, noting(are_left))(x), model(x))
    assert inductor.graphs == 1
    assert are_left == [True]
    (message,) = [r.getMessage() for r in caplog.records if "runs in Inductor" in r.message]
    assert "2.00 ms are estimated as GEMMs with epilogues, 1.00 by Inductor" in message
    assert '"compare": False' in message


@pytest.mark.parametrize("is_trained", [False, True])
def test_a_graph_without_a_gemm_runs_there_as_it_is(inductor: Inductor, is_trained: bool) -> None:
    """Not in a compiled function of its own, whose guards would take longer than small graphs."""
    x = torch.randn(4, 16)
    with torch.set_grad_enabled(is_trained):
        assert torch.equal(compiled(torch.nn.Sigmoid())(x), x.sigmoid())
    assert inductor.graphs == 1


@pytest.mark.parametrize("is_trained", [False, True])
def test_nothing_is_emitted_for_a_graph_that_runs_there(
    inductor: Inductor, monkeypatch: pytest.MonkeyPatch, is_trained: bool
) -> None:
    monkeypatch.setattr(triton, "emit_program", None)
    with torch.set_grad_enabled(is_trained):
        compiled(mlp())(torch.randn(4, 16))
    assert inductor.graphs == 1


@pytest.mark.parametrize("threshold, rounds", [(0.5, True), (None, False)])
def test_it_rounds_there_before_a_discontinuous_function(
    inductor: Inductor, threshold: float | None, rounds: bool
) -> None:
    """Inductor would compute a comparison from other numbers in each of its kernels."""

    class Gate(torch.nn.Linear):
        def forward(self, input: torch.Tensor) -> torch.Tensor:
            y = super().forward(input) * 0.3
            return y.relu() if threshold is None else y * (y > threshold)

    compiled(Gate(16, 16).bfloat16())(torch.randn(4, 16).bfloat16())
    assert inductor.options == ROUNDING if rounds else inductor.options == {}


@pytest.mark.parametrize("threshold", [0.5, None])
def test_so_does_a_trained_graph_without_products(
    inductor: Inductor, threshold: float | None
) -> None:
    class Gate(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(16, dtype=torch.bfloat16))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x * self.scale * 0.3
            return y.relu() if threshold is None else y * (y > threshold)

    compiled(Gate())(torch.randn(4, 16).bfloat16())
    assert inductor.options == ({} if threshold is None else ROUNDING)


ROUNDING = {"config_patches": {"emulate_precision_casts": True}}


def test_so_does_one_that_is_trained(inductor: Inductor) -> None:
    model, x = mlp(), torch.randn(4, 16)
    compiled(model)(x).sum().backward()
    found = [p.grad for p in model.parameters()]
    model.zero_grad()
    model(x).sum().backward()
    assert inductor.graphs == 1
    for ours, parameter in zip(found, model.parameters(), strict=True):
        torch.testing.assert_close(ours, parameter.grad)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"compare": False},
        {"fallback": "eager"},
        {"fallback": "auto"},
        {"schedule": "target=interpreter"},
        {"pack_weights": True},
    ],
    ids=str,
)
def test_a_graph_stays_where_something_else_is_asked_for(
    inductor: Inductor, options: dict[str, Any]
) -> None:
    """`auto` compares on GPUs only."""
    model, x = mlp(), torch.randn(4, 16)
    with torch.no_grad():
        torch.testing.assert_close(compiled(model, **options)(x), model(x))
    assert not inductor.graphs


def test_a_graph_that_is_slower_there_stays(
    inductor: Inductor, monkeypatch: pytest.MonkeyPatch
) -> None:
    estimate(monkeypatch, 1000.0, 1100.0)
    are_left: list[bool] = []
    with torch.no_grad():
        compiled(mlp(), noting(are_left))(torch.randn(4, 16))
    assert not inductor.graphs
    assert are_left == [False]


@pytest.mark.slow
@pytest.mark.parametrize(
    "apart, apart_gpu, expected",
    [(1100.0, 870.0, 0), (1100.0, 860.0, 1), (2000.0, 800.0, 0), (2000.0, 780.0, 1)],
)
def test_a_host_that_is_faster_is_no_reason_for_slow_kernels(
    inductor: Inductor,
    monkeypatch: pytest.MonkeyPatch,
    apart: float,
    apart_gpu: float,
    expected: int,
) -> None:
    """In a CUDA graph, a call takes the time of its kernels."""
    estimate(monkeypatch, 1000.0, apart, by_gpu=(1000.0, apart_gpu))
    with torch.no_grad():
        compiled(mlp())(torch.randn(4, 16))
    assert inductor.graphs == expected


def masked_graph(*, is_masked: bool, is_transposed: bool = False) -> GraphModule:
    def attend(q: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        attention = torch.ops.aten.scaled_dot_product_attention.default
        return attention(q, q, q, mask) if is_masked else attention(q, q, q)

    mask = torch.ones(8, 8).bool()
    tracing: Any = import_module("torch.fx.experimental.proxy_tensor")
    return tracing.make_fx(attend, pre_dispatch=True)(
        torch.randn(2, 4, 8, 16), mask.T if is_transposed else mask
    )


def test_masks_whose_keys_are_not_side_by_side_have_no_kernel() -> None:
    transposed = masked_attention(masked_graph(is_masked=True, is_transposed=True), SM_90)
    assert transposed.unread == transposed.us > 0
    assert masked_attention(masked_graph(is_masked=True), SM_90).unread == 0


def test_masks_cost_what_stored_scores_do() -> None:
    assert masked_attention(masked_graph(is_masked=False), SM_90).us == 0
    alone, trained = (
        masked_attention(masked_graph(is_masked=True), SM_90, is_trained=is_trained).us
        for is_trained in (False, True)
    )
    assert trained > 3 * alone > 0


def test_cudnn_is_faster_than_gradients_with_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a mask, both have kernels that are as fast."""
    masked = masked_graph(is_masked=True)
    assert masked_attention(masked, SM_90).by_cudnn == 0, "there is no GPU"

    def has_kernel(params: Any) -> bool:
        return True

    monkeypatch.setattr(torch.backends.cuda, "can_use_cudnn_attention", has_kernel)
    found = masked_attention(masked, SM_90)
    assert found.by_cudnn == found.us


def copying_graph(*, is_scaled: bool, is_copied: bool) -> GraphModule:
    """Attention whose keys are a product, scaled where `is_scaled`, and copied by head."""

    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = torch.nn.functional.linear(x, w)
        y = (2 * y if is_scaled else y).view(2, 8, 4, 16).transpose(1, 2)
        k = y.clone(memory_format=torch.contiguous_format) if is_copied else y
        return torch.ops.aten.scaled_dot_product_attention.default(y, k, y)

    make_fx: Any = import_module("torch.fx.experimental.proxy_tensor").make_fx
    traced = make_fx(function, tracing_mode="fake", pre_dispatch=True)
    return traced(torch.randn(2, 8, 64), torch.randn(64, 64))


def test_copies_of_products_for_attention_cost_a_kernel() -> None:
    """Values computed from a product are stored in any order."""
    assert copied_us(copying_graph(is_scaled=False, is_copied=True), SM_90) > KERNEL_US
    assert copied_us(copying_graph(is_scaled=True, is_copied=True), SM_90) == 0
    assert copied_us(copying_graph(is_scaled=False, is_copied=False), SM_90) == 0


def own_attention_graph(*, is_packed: bool) -> GraphModule:
    """PyTorch's own self-attention, batch first: its rows are T x B."""

    def function(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        linear, x = torch.nn.functional.linear, x.transpose(0, 1)
        if is_packed:
            packed = linear(x, w, b).view(8, 2, 3, 64).unsqueeze(0).transpose(0, -2)
            copied = packed.squeeze(-2).clone(memory_format=torch.contiguous_format)
            rows = [copied[number] for number in range(3)]
        else:
            rows = [linear(x, each, b[:64]) for each in (w[:64], w[64:128], w[128:])]
        q, k, v = (each.view(8, 8, 16).transpose(0, 1).view(2, 4, 8, 16) for each in rows)
        return torch.ops.aten.scaled_dot_product_attention.default(q, k, v)

    make_fx: Any = import_module("torch.fx.experimental.proxy_tensor").make_fx
    traced = make_fx(function, tracing_mode="fake", pre_dispatch=True)
    return traced(torch.randn(2, 8, 64), torch.randn(192, 64), torch.randn(192))


@pytest.mark.parametrize("is_packed, kernels", [(True, (3, 5)), (False, (3, 6))])
def test_operands_that_are_stored_once_more_cost_a_kernel_each(
    is_packed: bool, kernels: tuple[int, int]
) -> None:
    """In training, their gradients do, too: for packed ones, one kernel for all, and another that
    stores the whole.
    """
    graph = own_attention_graph(is_packed=is_packed)
    found = [int(copied_us(graph, SM_90, is_trained=each) / KERNEL_US) for each in (False, True)]
    assert tuple(found) == kernels


class Masked(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(16, 16)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        y = self.linear(x)
        return torch.nn.functional.scaled_dot_product_attention(y, y, y, mask)


@pytest.mark.slow
@pytest.mark.parametrize(
    "masked, is_by_host, expected", [(0.0, False, 0), (1e6, False, 1), (0.0, True, 1)]
)
def test_masks_cost_nothing_more_where_both_leave_them_to_pytorch(
    inductor: Inductor,
    monkeypatch: pytest.MonkeyPatch,
    masked: float,
    is_by_host: bool,
    expected: int,
) -> None:
    """Nor where the GPU waits for the host."""
    by_gpu = (0.0, 0.0) if is_by_host else None
    estimate(monkeypatch, 1000.0 / MEASURED + 1e-6, 1000.0, masked, by_gpu=by_gpu)
    with torch.no_grad():
        compiled(Masked())(torch.randn(2, 4, 8, 16), torch.ones(8, 8).bool())
    assert inductor.graphs == expected


class Viewing(torch.nn.Module):
    """Returns a view of its input, whose place in the graph of autograd a program would lose."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x[:2], self.linear(x)


def test_a_graph_whose_gradients_are_refused_is_trained_there(
    inductor: Inductor, caplog: pytest.LogCaptureFixture
) -> None:
    model, x = Viewing(), torch.randn(4, 16, requires_grad=True)
    compiled(model)(x)[1].sum().backward()
    assert inductor.graphs == 1
    assert "no gradients are derived: the graph returns a view of an input" in caplog.text
    torch.testing.assert_close(model.linear.weight.grad, x.detach().sum(0).expand(16, 16))


@pytest.mark.parametrize("fallback, expected", [("inductor", 1), ("auto", 0)])
def test_a_graph_that_cannot_be_traced_runs(
    inductor: Inductor,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    fallback: str,
    expected: int,
) -> None:
    def fails(*_: object) -> None:
        raise AssertionError("no rule for an operator")

    backends = {"inductor": inductor, "eager": Inductor()}
    monkeypatch.setattr(dynamo, "_lookup_backend", backends.__getitem__)
    monkeypatch.setattr(dynamo, "_trace_whole", fails)
    model, x = mlp(), torch.randn(4, 16)
    options = {"fallback": fallback, "errors": "fallback"}
    torch.testing.assert_close(compiled(model, **options)(x), model(x))
    assert inductor.graphs == expected
    assert "a defect of coda_ir" in caplog.text
    torch.compiler.reset()
    with pytest.raises(Exception, match="no rule for an operator"):
        compiled(model)(x)

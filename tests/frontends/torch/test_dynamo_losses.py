"""Losses through `torch.compile`: of any number of samples and tokens, and under autocast."""

import copy
import operator
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support.torch_compile import compiled, gradients, record_derived, torch_compile
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from coda_ir.float64 import relative_error
from coda_ir.frontends.torch.wide_operands import widen_losses, widen_tables

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


class NextToken(nn.Module):
    """The loss of a language model: a token is the target of the one before it."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(16, 20, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        ids = x[..., 0].abs().mul(7).long().clamp(max=19)
        logits = self.head(x)[..., :-1, :].reshape(-1, 20)
        return F.cross_entropy(logits, ids[..., 1:].reshape(-1))


@pytest.mark.slow
def test_targets_that_are_a_slice_of_any_number_of_tokens():
    model = NextToken()
    fast = compiled(model, target="triton", dynamic=True)
    for shape in ((2, 7, 16), (3, 5, 16)):
        x = torch.randn(shape)
        found, wanted = (gradients(f, model, x) for f in (fast, model))
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


class Preference(NextToken):
    """A loss of the mean log probabilities of two sequences; some tokens do not count."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        ids = x[..., 0].abs().mul(7).long().clamp(max=19)[:, 1:]
        counts = ids != 3
        logits = self.head(x)[:, :-1].float().log_softmax(-1)
        each = logits.gather(-1, ids.masked_fill(~counts, 0)[..., None]).squeeze(-1)
        chosen, rejected = ((each * counts).sum(-1) / counts.sum(-1)).chunk(2)
        return -F.logsigmoid(chosen - rejected).mean()


@pytest.mark.slow
@pytest.mark.parametrize("kind", [NextToken, Preference])
def test_the_gemm_of_logits_computes_the_loss_of_most_of_its_rows(
    kind: type[nn.Module], monkeypatch: pytest.MonkeyPatch
):
    model, x = kind(), torch.randn(2, 7, 16)
    derived = record_derived(monkeypatch)
    found = gradients(compiled(model, target="triton", dynamic=False), model, x)
    wide = copy.deepcopy(model).double()
    truth = gradients(wide, wide, x.double())
    torch.testing.assert_close(found, truth, rtol=1e-5, atol=1e-6, check_dtype=False)
    kernels = derived[0].kernels
    assert "cross_entropy" not in kernels
    assert not any(kernel.startswith("pad") for kernel in kernels)


class OddLosses(nn.Module):
    """Smoothed labels, classes in dimension 1, and log probabilities of one class of each row."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(16, 20, bias=False)

    def forward(self, x: torch.Tensor, ids: torch.Tensor) -> list[torch.Tensor]:
        z = self.head(x)
        rows, targets = z.flatten(0, 1), ids.flatten()
        chosen = z.log_softmax(-1).gather(-1, ids.unsqueeze(-1)).squeeze(-1)
        return [
            F.cross_entropy(rows, targets, ignore_index=3, label_smoothing=0.1),
            F.cross_entropy(rows, targets, label_smoothing=0.2, reduction="sum"),
            F.cross_entropy(z.mT, ids, ignore_index=3, label_smoothing=0.3, reduction="none"),
            F.cross_entropy(z.mT, ids),
            F.cross_entropy(z.mT, ids, reduction="none"),
            chosen.exp(),
            (-z).logsumexp(-1),
            z.logsumexp((0, 2)),
        ]


@pytest.mark.slow
def test_losses_without_calls_of_pytorch(caplog: pytest.LogCaptureFixture):
    caplog.set_level("INFO", "coda_ir")
    model = OddLosses().bfloat16()
    x, ids = torch.randn(2, 5, 16, dtype=torch.bfloat16), torch.randint(0, 20, (2, 5))
    fast = compiled(model, target="reference")
    found, wanted = (_with_gradients(f, model, x, ids) for f in (fast, model))
    exact = _with_gradients(double := copy.deepcopy(model).double(), double, x.double(), ids)
    for got, eager, truth in zip(found, wanted, exact, strict=True):
        assert (got.dtype, got.shape) == (eager.dtype, eager.shape)
        assert relative_error(got, truth) <= max(1.25 * relative_error(eager, truth), 2**-9)
    assert not re.search("softmax|cross_entropy_loss", caplog.text)


def _with_gradients(
    f: Callable[..., list[torch.Tensor]], model: nn.Module, x: torch.Tensor, ids: torch.Tensor
) -> list[torch.Tensor]:
    x = x.clone().requires_grad_()
    losses = f(x, ids)
    total = torch.stack([loss.float().sum() for loss in losses]).sum()
    found = torch.autograd.grad(total, [x, *model.parameters()])
    return [*(loss.detach() for loss in losses), *found]


def test_a_loss_is_wide_under_autocast_of_a_gpu():
    """Traced with tensors that have no data, which needs no GPU."""

    def model(x: torch.Tensor, ids: torch.Tensor, w: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(F.linear(x, w), ids, c.half())

    def widened(graph: Any, _: object) -> Any:
        widen_losses(graph)
        (loss,) = [node for node in graph.graph.nodes if node.target is F.cross_entropy]
        found.extend(node.meta["example_value"].dtype for node in (*loss.all_input_nodes, loss))
        return graph

    found: list[torch.dtype] = []
    with FakeTensorMode():
        x, w, c = (torch.empty(size, device="cuda") for size in ((6, 16), (16, 16), 16))
        ids = torch.empty(6, dtype=torch.int64, device="cuda")
    was = torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")
    torch.set_autocast_enabled("cuda", True)
    torch.set_autocast_dtype("cuda", torch.float16)
    try:
        torch_compile(model, backend=widened)(x, ids, w, c)
    finally:
        torch.set_autocast_enabled("cuda", was[0])
        torch.set_autocast_dtype("cuda", was[1])
    assert found == [torch.float32, torch.int64, torch.float32, torch.float32]


def test_a_table_that_is_read_several_times_is_wide():
    """Inductor adds gradients of an element in the type of the table."""
    table = torch.randn(7, 3, dtype=torch.bfloat16, requires_grad=True)
    ids, few = torch.randint(0, 7, (4, 5)), torch.tensor([1, 1])

    def model(table: torch.Tensor) -> list[torch.Tensor]:
        return [table[ids], table.t()[:, ids], table[few], table[1:]]

    def widened(graph: Any, _: object) -> Any:
        widen_tables(graph)
        indexed = [node for node in graph.graph.nodes if node.target is operator.getitem]
        found.extend(node.all_input_nodes[0].meta["example_value"].dtype for node in indexed)
        return graph

    found: list[torch.dtype] = []
    results = torch_compile(model, backend=widened)(table)
    assert found == [torch.float32, torch.float32, torch.bfloat16, torch.bfloat16]
    for got, wanted in zip(results, model(table), strict=True):
        assert torch.equal(got, wanted)
    (gradient,) = torch.autograd.grad(results[0].float().square().sum(), table)
    counts = torch.bincount(ids.flatten(), minlength=7)[:, None]
    assert torch.equal(gradient, (2 * counts * table.float()).bfloat16())

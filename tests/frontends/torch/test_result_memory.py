"""Results have memory of their own wherever they have in eager PyTorch."""

from collections.abc import Callable, Sequence

import pytest
import torch
from support.torch_compile import compiled
from torch import Tensor

Results = tuple[Tensor, ...]
TARGETS = ("reference", "triton")

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


def copies(x: Tensor, w: Tensor) -> Results:
    return x.clone(), x.clone().t(), x * 1.0, torch.cat([x]), x.to(x.dtype, copy=True), x @ w


def copies_of_results(x: Tensor, w: Tensor) -> Results:
    y = x @ w
    return y, y.clone(), y.t().clone(), y[0].clone()


def equal_results(x: Tensor, w: Tensor) -> Results:
    return x @ w, x @ w, torch.relu(x @ w), torch.relu(torch.relu(x @ w))


def constants(x: Tensor, w: Tensor) -> Results:
    return torch.tensor([1.0, 2.0]), torch.tensor(3.0), x @ w * torch.tensor(0.5)


def views(x: Tensor, w: Tensor) -> Results:
    y = x @ w
    return x.t(), y, y.t(), *torch.relu(y).chunk(2, -1)


def views_of_copies(x: Tensor, w: Tensor) -> Results:
    y, z = x.clone(), x @ w
    repeated = z.unsqueeze(1).expand(4, 2, 8).reshape(8, 8)
    return y.t(), y[1], repeated, z.t(), z[..., 2:5], z[1]


def views_in_another_order(x: Tensor, w: Tensor) -> Results:
    y = (x @ w).t().contiguous()
    return y.t(), y, y[1], torch.relu((x @ w).t())


def detached(x: Tensor, w: Tensor) -> Results:
    y = x @ w
    return y.detach(), y, y.detach()[1], y.t()


def shared(tensors: Sequence[Tensor]) -> list[tuple[int, int]]:
    """The pairs of tensors that share memory."""
    memory = [tensor.untyped_storage().data_ptr() for tensor in tensors]
    return [(i, j) for i in range(len(memory)) for j in range(i) if memory[i] == memory[j]]


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "function",
    [
        copies,
        copies_of_results,
        equal_results,
        constants,
        views,
        views_of_copies,
        views_in_another_order,
        detached,
    ],
)
def test_results_share_what_they_share_in_eager(function: Callable[..., Results], target: str):
    x, w = torch.randn(4, 8), torch.randn(8, 8)
    run, expected = compiled(function, target=target), function(x, w)
    for _ in range(2):
        results = run(x, w)
        assert shared([x, w, *results]) == shared([x, w, *expected])
        for result, value in zip(results, expected, strict=True):
            torch.testing.assert_close(result, value)
            assert result.stride() == value.stride()
        if function is constants:
            for result in results:
                result.add_(1.0)  # the next call gives the old values


@pytest.mark.slow
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("changed", [0, 1, 2, 3])
def test_results_that_are_changed_in_place_before_the_backward(changed: int, dynamic: bool):
    def function(x: Tensor, w: Tensor) -> Results:
        y = (x @ w).t().contiguous()
        return y.t(), y, y[1], (x @ w)[:, 1]

    def run(function: Callable[..., Results]) -> list[Tensor]:
        given = x.clone().requires_grad_()
        results = function(given, w)
        results[changed].mul_(2)
        loss = torch.stack([result.sin().sum() for result in results]).sum()
        return [*results, *torch.autograd.grad(loss, given)]

    x, w = torch.randn(4, 8), torch.randn(8, 8)
    torch.testing.assert_close(run(compiled(function, dynamic=dynamic)), run(function))


@pytest.mark.parametrize("target", TARGETS)
def test_gradients_share_no_memory(target: str):
    """`clip_grad_norm_` scales each gradient in place."""

    def function(x: Tensor, y: Tensor, w: Tensor) -> Results:
        return (torch.sigmoid(x + y.view(4, 8)) @ w,)

    x, y, w = (torch.randn(*shape, requires_grad=True) for shape in ((4, 8), (2, 2, 8), (8, 8)))
    gradients = torch.randn(4, 8)
    (expected,) = function(x, y, w)
    wanted = torch.autograd.grad(expected, (x, y, w), gradients)
    (result,) = compiled(function, target=target)(x, y, w)
    result.backward(gradients)
    found = [tensor.grad for tensor in (x, y, w)]
    assert all(gradient is not None for gradient in found)
    assert not shared([gradient for gradient in found if gradient is not None])
    torch.testing.assert_close(found, list(wanted))


def test_copy_of_what_is_changed_in_place():
    """The old values of a buffer are a result, and the new ones go where the old ones were."""

    def function(cache: Tensor, x: Tensor, w: Tensor) -> Results:
        old = cache.clone()
        cache.copy_(x @ w)
        return old, cache * 2

    x, w = torch.randn(4, 8), torch.randn(8, 8)
    for target in TARGETS:
        cache = torch.randn(4, 8)
        before = cache.clone()
        old, double = compiled(function, target=target)(cache, x, w)
        torch.testing.assert_close(old, before)
        torch.testing.assert_close(double, 2 * cache)
        torch.testing.assert_close(cache, x @ w)

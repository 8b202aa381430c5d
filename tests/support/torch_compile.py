"""Functions that the tests of `torch.compile(model, backend="coda")` share."""

from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from coda_ir.passes.pipelines import lower_leftovers
from coda_ir.training.functions import TrainableFunction

# torch.compile has no complete types.
torch_compile: Any = import_module("torch").compile
dynamo: Any = import_module("torch._dynamo")
counters: Any = import_module("torch._dynamo.utils").counters


class Block(nn.Module):
    """A norm, a gated network and a residual."""

    def __init__(self, width: int = 16, hidden: int = 24):
        super().__init__()
        self.norm = nn.RMSNorm(width, eps=1e-5)
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


def compiled(
    model: Any, *, dynamic: bool | None = None, fullgraph: bool = False, **options: Any
) -> Any:
    """`model` compiled for the reference target, where no error of the compiler is hidden."""
    given = {"target": "reference", "errors": "raise", **options}
    return torch_compile(model, backend="coda", dynamic=dynamic, fullgraph=fullgraph, options=given)


def spectrum(x: torch.Tensor) -> torch.Tensor:
    """The real part of a Fourier transform, whose complex numbers no operator of the IR gives."""
    transforms: Any = torch.fft
    return transforms.fft(x).real


def trace_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trace graphs that call programs as Inductor does, but run their operators one by one.

    Inductor compiles C++ for several seconds per graph.
    """
    traced = dynamo.lookup_backend("aot_eager")

    def lookup_backend(_: str) -> Any:
        return traced

    monkeypatch.setattr(torch, "compile", partial(torch_compile, backend="aot_eager"))
    monkeypatch.setattr(dynamo, "lookup_backend", lookup_backend)


def always_call_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make graphs of small programs, too, for which calls take longer than they save."""

    def no_time(_: object) -> float:
        return -1.0

    monkeypatch.setattr(lower_leftovers, "call_us", no_time)


def record_derived(monkeypatch: pytest.MonkeyPatch) -> list[TrainableFunction]:
    """Return a list to which each call of a graph with a derived backward adds its function."""
    found: list[TrainableFunction] = []
    call: Callable[..., Any] = TrainableFunction.unchecked

    def recorded(self: TrainableFunction, *tensors: torch.Tensor) -> Any:
        found.append(self)
        return call(self, *tensors)

    monkeypatch.setattr(TrainableFunction, "unchecked", recorded)
    return found


def reset() -> None:
    """Forget what was compiled and counted."""
    dynamo.reset()
    counters.clear()


def graphs() -> int:
    """Return how many graphs were compiled."""
    return counters["stats"]["unique_graphs"]


def gradients(function: Any, owner: nn.Module, *inputs: torch.Tensor) -> list[torch.Tensor | None]:
    """Gradients of the mean of squares for the inputs that want one and the parameters."""
    owner.zero_grad()
    fresh = [x.detach().clone().requires_grad_(x.requires_grad) for x in inputs]
    loss: Any = function(*fresh).float().square().mean()
    loss.backward()
    found: list[Any] = [*fresh, *owner.parameters()]
    return [x.grad for x in found if x.requires_grad]


def joined(function: Any) -> Callable[..., torch.Tensor]:
    """Return a function whose mean of squares is the sum of those of all results of `function`.

    The gradients of a model with many independent parts are then those of each part.
    """

    def join(*inputs: torch.Tensor) -> torch.Tensor:
        results: Iterable[torch.Tensor] = function(*inputs)
        flat = [result.flatten() for result in results]
        count = sum(map(len, flat))
        return torch.cat([(count / len(result)) ** 0.5 * result for result in flat])

    return join

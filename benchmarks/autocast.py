"""A training step of Llama layers under autocast: products in bfloat16, residuals in float32.

    python benchmarks/autocast.py --sizes 2048,4096 --json autocast.json
    python benchmarks/autocast.py --sizes 2048 --rank 16
    python benchmarks/autocast.py --sizes 2048 --variants coda --profile

Weights in float32, batch 8 x 2048 tokens, with attention and without embeddings and logits, as
`torch.compile(model, backend="coda")` under `torch.autocast` has it; beside PyTorch eager and
torch.compile, in turn and in one process. With `--rank`, linear maps are frozen, in bfloat16, and
adapted by products of float32 matrices of that rank (LoRA). The gradients of all variants are
compared with float64 in the same run. `--profile` lists the kernels of a step of each variant by
the GPU's own clock.
"""

from __future__ import annotations

import argparse
import copy
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Any

import torch
import torch.nn.functional as F
from harness import (
    Budget,
    Timing,
    add_common_options,
    add_sizes,
    chosen,
    make_parser,
    peak_memory,
    print_errors,
    print_timings,
    publish,
    release_memory,
    reset_compilers,
    seed,
    time_interleaved,
    timings_data,
    wanted_sizes,
)
from launches import record_on_gpu
from rich.console import Console
from rich.table import Table
from torch import nn

from coda_ir.float64 import relative_error
from coda_ir.frontends.torch.dynamo import coda

EAGER, COMPILED, CODA = "eager", "torch.compile", "coda"
VARIANTS = (EAGER, COMPILED, CODA)
PROFILED_STEPS = 5

torch_compile: Any = import_module("torch").compile  # has no complete types
grad: Any = torch.autograd.grad

Step = Callable[[], Sequence[torch.Tensor]]


class Adapted(nn.Module):
    """A frozen linear map in bfloat16, and a product of two matrices that is learned (LoRA)."""

    def __init__(self, inputs: int, outputs: int, rank: int):
        super().__init__()
        self.base = nn.Linear(inputs, outputs, bias=False).bfloat16().requires_grad_(False)
        self.a, self.b = nn.Linear(inputs, rank, bias=False), nn.Linear(rank, outputs, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + self.b(self.a(x)) * 2.0


class Block(nn.Module):
    """A layer of a Llama, with as many heads of keys as of queries, adapted if there is a rank."""

    def __init__(self, d: int, head_dim: int, rank: int):
        super().__init__()
        f = -(-int(d * 8 / 3) // 256) * 256
        self.head_dim = head_dim
        self.norm1, self.norm2 = nn.RMSNorm(d, 1e-5), nn.RMSNorm(d, 1e-5)
        linear = partial(Adapted, rank=rank) if rank else partial(nn.Linear, bias=False)
        self.q, self.k, self.v, self.o = (linear(d, d) for _ in range(4))
        self.gate, self.up, self.down = linear(d, f), linear(d, f), linear(f, d)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        h = self.norm1(x)
        q, k, v = (self.heads(linear(h)) for linear in (self.q, self.k, self.v))
        q, k = (y * cos.to(y.dtype) + rotated(y) * sin.to(y.dtype) for y in (q, k))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(x.shape))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))

    def heads(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(*x.shape[:2], -1, self.head_dim).transpose(1, 2)


def rotated(x: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, -1)
    return torch.cat((-second, first), -1)


class Layers(nn.Module):
    """Some of them, and the tables of their positions."""

    def __init__(self, count: int, d: int, head_dim: int, time: int, rank: int):
        super().__init__()
        self.blocks = nn.ModuleList(Block(d, head_dim, rank) for _ in range(count))
        self.norm = nn.RMSNorm(d, 1e-5)
        for norm in filter(lambda part: isinstance(part, nn.RMSNorm), self.modules()):
            norm.requires_grad_(not rank)
        rates = 10000.0 ** (-torch.arange(0, head_dim, 2) / head_dim)
        angles = torch.arange(time)[:, None] * torch.cat((rates, rates))
        self.cos, self.sin = nn.Buffer(angles.cos()), nn.Buffer(angles.sin())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return self.norm(x)


@dataclass(frozen=True)
class Problem:
    """Layers, their input and the gradient of their result."""

    model: Layers
    x: torch.Tensor
    upstream: torch.Tensor

    @staticmethod
    def of(d: int, options: argparse.Namespace) -> Problem:
        with torch.device(options.device):
            model = Layers(options.layers, d, options.head_dim, options.time, options.rank)
            x, upstream = (torch.randn(options.batch, options.time, d) for _ in range(2))
        return Problem(model, x, upstream)

    def learned(self) -> dict[str, torch.Tensor]:
        """The weights that have a gradient."""
        return {name: p for name, p in self.model.named_parameters() if p.requires_grad}

    def step(self, model: Any, dtype: torch.dtype | None = torch.bfloat16) -> Step:
        """Forward and backward, which give the gradients of what is learned and of the input."""
        weights = list(self.learned().values())
        x = self.x.to(weights[0].dtype).requires_grad_()

        def step() -> Sequence[torch.Tensor]:
            with torch.autocast(x.device.type, dtype, enabled=dtype is not None):
                y = model(x)
            return grad(y, [*weights, x], self.upstream.to(y.dtype))

        return step

    def exact(self) -> dict[str, torch.Tensor]:
        """The gradients in float64, by name: one sequence after the other, to spare memory."""
        sums: list[torch.Tensor] = []
        of_x: list[torch.Tensor] = []
        model = copy.deepcopy(self.model).double()
        for i in range(len(self.x)):
            one = Problem(model, self.x[i : i + 1], self.upstream[i : i + 1])
            found = one.step(model, None)()
            gradients, dx = list(found[:-1]), found[-1]
            pairs = zip(sums, gradients, strict=True)
            sums = [total + gradient for total, gradient in pairs] if sums else gradients
            of_x.append(dx)
        return dict(zip([*self.learned(), "x"], [*sums, torch.cat(of_x)], strict=True))


@dataclass
class Found:
    """What one size gives, by variant."""

    timings: dict[str, Timing] = field(default_factory=dict[str, Timing])
    peak_gib: dict[str, float | None] = field(default_factory=dict[str, "float | None"])
    errors: dict[str, dict[str, float]] = field(default_factory=dict[str, dict[str, float]])
    kernels: dict[str, dict[str, float]] = field(default_factory=dict[str, dict[str, float]])
    """Microseconds of each kernel of a step, all its launches together."""


def compilers(device: str, schedule: str | None = None) -> dict[str, Callable[[Any], Any]]:
    """Return what makes the function of each variant; kernels of the CPU are the reference
    backend's.
    """
    ours: dict[str, Any] = {"target": "reference"} if device == "cpu" else {}
    ours |= {} if schedule is None else {"schedule": schedule}
    return {
        EAGER: lambda model: model,
        COMPILED: torch_compile,
        CODA: partial(torch_compile, backend=coda, options=ours),
    }


def measure(problem: Problem, makers: Mapping[str, Callable[[Any], Any]], rounds: int) -> Found:
    """Errors, memory and times of the variants."""
    found = Found()
    exact = problem.exact()
    release_memory()
    steps: dict[str, Step] = {}
    for name, make in makers.items():
        steps[name] = step = problem.step(make(problem.model))
        gradients = zip(exact.items(), step(), strict=True)
        found.errors[name] = {key: relative_error(g, value) for (key, value), g in gradients}
        found.peak_gib[name] = peak_memory(step)
    del exact
    found.timings = time_interleaved(steps, rounds=rounds)
    if problem.x.device.type == "cuda":
        found.kernels = {name: kernels_of(step) for name, step in steps.items()}
    return found


def kernels_of(step: Step) -> dict[str, float]:
    """The kernels of a step, the longest first."""
    times: dict[str, list[float]] = {}
    for kernel in record_on_gpu(lambda: [step() for _ in range(PROFILED_STEPS)]):
        times.setdefault(kernel.name, []).append(kernel.duration)
    counts = {name: len(durations) / PROFILED_STEPS for name, durations in times.items()}
    totals = {name: counts[name] * statistics.median(d) for name, d in times.items()}
    return dict(sorted(totals.items(), key=lambda item: -item[1]))


def print_found(section: str, found: Found, *, profile: bool) -> None:
    print_timings(section, found.timings, next(iter(found.timings)))
    print("peak GiB:", {name: peak and round(peak, 2) for name, peak in found.peak_gib.items()})
    # The weights of the first layer have the longest way behind them.
    first = {name: dict(list(errors.items())[:9]) for name, errors in found.errors.items()}
    print_errors(first, next(iter(first)), section)
    for name, kernels in found.kernels.items() if profile else ():
        table = Table("kernel", "us", title=f"{section}: kernels of {name}")
        for kernel, us in kernels.items():
            table.add_row(kernel[:90], f"{us:.1f}")
        table.add_row("together", f"{sum(kernels.values()):.1f}")
        Console(width=110).print(table)


def facts(found: Mapping[str, Found]) -> dict[str, object]:
    """Return what is written to the JSON file."""
    return {
        "errors": {section: each.errors for section, each in found.items()},
        "peak_gib": {section: each.peak_gib for section, each in found.items()},
        "kernels_us": {section: each.kernels for section, each in found.items()},
        "milliseconds": timings_data({section: each.timings for section, each in found.items()}),
    }


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = make_parser(__doc__)
    add_sizes(parser)
    parser.add_argument("--variants", default=",".join(VARIANTS), help="which, with commas")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--time", type=int, default=2048, help="tokens of a sequence")
    parser.add_argument("--head-dim", type=int, default=128)
    parser.add_argument("--rank", type=int, default=0, help="of adapters; without: all is learned")
    parser.add_argument("--schedule", help="options of the pass schedule")
    parser.add_argument("--profile", action="store_true", help="list the kernels")
    add_common_options(parser)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    seed()
    budget, found = Budget(options.budget), dict[str, Found]()
    for d in wanted_sizes(options.sizes):
        section = f"{options.layers} layers, D = {d}"
        if not budget.allows(section):
            break
        known = compilers(options.device, options.schedule)
        makers = {name: known[name] for name in chosen(options.variants, VARIANTS)}
        with budget.part():
            found[section] = measure(Problem.of(d, options), makers, options.rounds)
        print_found(section, found[section], profile=options.profile)
        publish(options, **facts(found))
        reset_compilers()


if __name__ == "__main__":
    main()

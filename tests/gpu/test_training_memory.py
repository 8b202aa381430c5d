"""Training on a GPU: gradients that GEMMs add in place, and memory that a backward gives back.

python -m pytest tests/gpu/test_training_memory.py -q -s      # also prints times and peaks
"""

from importlib import import_module
from typing import Any

import pytest
import torch

import coda_ir
from coda_ir.float64 import relative_error
from coda_ir.training.functions import TrainableFunction

pytestmark = pytest.mark.gpu

# PyTorch has no complete types for them.
functional: Any = torch.nn.functional
profiler: Any = import_module("torch.profiler")
cuda: Any = torch.cuda

WIDTH, HIDDEN, ROWS, LAYERS = 2048, 5632, 4096, 4
PROGRAM = f"""
fn layer(x: bf16[M, {WIDTH}], weight norm: bf16[{WIDTH}], weight w_gate: bf16[{HIDDEN}, {WIDTH}],
         weight w_up: bf16[{HIDDEN}, {WIDTH}], weight w_down: bf16[{WIDTH}, {HIDDEN}])
    -> bf16[M, {WIDTH}] {{
    h = rms_norm(x, norm, eps=1e-5)
    return x + linear(silu(linear(h, w_gate)) * linear(h, w_up), w_down)
}}
"""


def eager(x: Any, norm: Any, w_gate: Any, w_up: Any, w_down: Any) -> Any:
    h = functional.rms_norm(x, (WIDTH,), norm, eps=1e-5)
    return x + (functional.silu(h @ w_gate.T) * (h @ w_up.T)) @ w_down.T


def compiled(*, fuse: bool) -> TrainableFunction:
    return coda_ir.compile(PROGRAM, training=True, device="cuda", fuse_gradient_accumulation=fuse)


def tensors(seed: int = 0) -> dict[str, Any]:
    generator = torch.Generator("cuda").manual_seed(seed)
    shapes = {"w_gate": (HIDDEN, WIDTH), "w_up": (HIDDEN, WIDTH), "w_down": (WIDTH, HIDDEN)}
    drawn = {
        name: torch.randn(shape, generator=generator, device="cuda") / shape[1] ** 0.5
        for name, shape in shapes.items()
    }
    weights = {"norm": torch.ones(WIDTH, device="cuda"), **drawn}
    return {name: w.bfloat16().requires_grad_() for name, w in weights.items()}


def batch(seed: int) -> Any:
    generator = torch.Generator("cuda").manual_seed(100 + seed)
    return torch.randn(ROWS, WIDTH, generator=generator, device="cuda").bfloat16()


def backward(function: Any, weights: dict[str, Any], seed: int) -> None:
    x = batch(seed).to(weights["norm"].dtype)
    (function(x, **weights).double().square().sum() / ROWS).backward()


def test_sums_of_gradients_are_as_exact_as_those_of_pytorch():
    runs: list[list[Any]] = []
    double = {n: w.detach().double().requires_grad_() for n, w in tensors().items()}
    choices = ((compiled(fuse=True), tensors()), (eager, tensors()), (eager, double))
    for function, weights in choices:
        for seed in range(3):
            backward(function, weights, seed)
        runs.append([w.grad for w in weights.values()])
    for mine, other, exact in zip(*runs, strict=True):
        wanted = exact.cpu()
        assert relative_error(mine.cpu(), wanted) <= 1.25 * relative_error(other.cpu(), wanted)


def step_time(function: Any, weights: dict[str, Any], x: Any, upstream: Any) -> float:
    """Milliseconds of a forward and a backward into gradients that there are, the median of 20."""
    times: list[float] = []
    for _ in range(25):
        start, end = (cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        function(x, **weights).backward(upstream)
        end.record()
        cuda.synchronize()
        times.append(start.elapsed_time(end))
    return sorted(times[5:])[10]


def test_no_kernel_adds_gradients_of_matrices():
    x, upstream = batch(0), torch.randn(ROWS, WIDTH, device="cuda").bfloat16()
    added: dict[bool, int] = {}
    for fuse in (False, True):
        function, weights = compiled(fuse=fuse), tensors()
        milliseconds = step_time(function, weights, x, upstream)
        with profiler.profile(activities=[profiler.ProfilerActivity.CPU]) as profile:
            function(x, **weights).backward(upstream)
        counts = {event.key: event.count for event in profile.key_averages()}
        added[fuse] = counts.get("aten::add_", 0)
        print(f"\nfuse_gradient_accumulation={fuse}: {milliseconds:.3f} ms a step")
    assert added == {False: 4, True: 1}


def backward_memory(function: TrainableFunction, weights: dict[str, Any]) -> int:
    """Bytes that the backward of several layers takes beside what there is when it begins."""
    h = batch(0)
    for _ in range(LAYERS):
        h = function(h, **weights)
    upstream = torch.ones_like(h)
    before = cuda.memory_allocated()
    cuda.reset_peak_memory_stats()
    h.backward(upstream)
    peak: int = cuda.max_memory_allocated()
    return peak - before


def test_saved_tensors_are_freed_while_layers_run_backwards():
    function, weights = compiled(fuse=True), tensors()
    taken = [backward_memory(function, weights) for _ in range(3)][-1]
    saved = function.saved_bytes.evaluate({"M": ROWS})
    print(f"\n{taken / 2**20:.0f} MiB in a backward, {saved / 2**20:.0f} MiB saved by a layer")
    # Of one layer: dg, du and a, and rows of WIDTH, less what was saved for it.
    assert taken <= 3 * ROWS * HIDDEN * 2 + 4 * ROWS * WIDTH * 2

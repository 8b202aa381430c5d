"""Training on a GPU: memory that a backward gives back.

python -m pytest tests/gpu/test_training_memory.py -q -s      # also prints peaks
"""

from typing import Any

import pytest
import torch

import coda_ir
from coda_ir.training.functions import TrainableFunction

pytestmark = pytest.mark.gpu

cuda: Any = torch.cuda  # PyTorch has no complete types for it.

WIDTH, HIDDEN, ROWS, LAYERS = 2048, 5632, 4096, 4
PROGRAM = f"""
fn layer(x: bf16[M, {WIDTH}], weight norm: bf16[{WIDTH}], weight w_gate: bf16[{HIDDEN}, {WIDTH}],
         weight w_up: bf16[{HIDDEN}, {WIDTH}], weight w_down: bf16[{WIDTH}, {HIDDEN}])
    -> bf16[M, {WIDTH}] {{
    h = rms_norm(x, norm, eps=1e-5)
    return x + linear(silu(linear(h, w_gate)) * linear(h, w_up), w_down)
}}
"""


def compiled() -> TrainableFunction:
    return coda_ir.compile(PROGRAM, training=True, device="cuda")


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
    function, weights = compiled(), tensors()
    taken = [backward_memory(function, weights) for _ in range(3)][-1]
    saved = function.saved_bytes.evaluate({"M": ROWS})
    print(f"\n{taken / 2**20:.0f} MiB in a backward, {saved / 2**20:.0f} MiB saved by a layer")
    # Of one layer: dg, du and a, and rows of WIDTH, less what was saved for it. Of each weight: the
    # gradient of a layer, and the sum of those before, which autograd keeps.
    gradients = 2 * 3 * HIDDEN * WIDTH * 2
    assert taken <= 3 * ROWS * HIDDEN * 2 + 4 * ROWS * WIDTH * 2 + gradients

"""The layer that the layer benchmarks measure: everything between two attentions of a Llama."""

import argparse
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from harness import Budget

from coda_ir.float64 import relative_error

PROGRAM = Path(__file__).parent.parent / "examples" / "llama_layer.coda"
EPS = 1e-5
ROWS = ("y", "x0", "cos", "sin")
"""The inputs with a row for each token; the others are weights."""

Tensors = dict[str, torch.Tensor]
Layer = Callable[[Tensors], Sequence[torch.Tensor]]


@dataclass(frozen=True)
class LayerShape:
    """The sizes of the layer: `d` columns, `batch` sequences of `time` tokens."""

    d: int
    head_dim: int = 128
    batch: int = 2
    time: int = 8192

    @property
    def f(self) -> int:
        """The width of Llama's MLP: 8/3 of the hidden size, rounded up to a multiple of 256."""
        return -(-int(self.d * 8 / 3) // 256) * 256

    @property
    def rows(self) -> int:
        return self.batch * self.time

    @property
    def constants(self) -> dict[str, int]:
        """The constants of the program."""
        return {"D": self.d, "F": self.f, "HEAD": self.head_dim}


def affordable_shapes(options: argparse.Namespace, budget: Budget) -> Iterator[LayerShape]:
    """Yield the shapes that a command's options name, while the time budget allows."""
    for d in options.sizes:
        if not budget.allows(f"D = {d}"):
            return
        yield LayerShape(d, options.head_dim, options.batch, options.time)


def make_inputs(shape: LayerShape, device: str = "cuda") -> Tensors:
    """Draw random normal inputs and weights, scaled by 1/sqrt(K), by their names in the program."""

    def normal(*extents: int) -> torch.Tensor:
        return torch.randn(*extents, device=device, dtype=torch.bfloat16)

    def weight(n: int, k: int) -> torch.Tensor:
        return normal(n, k) / math.sqrt(k)

    d, f = shape.d, shape.f
    angles = torch.rand(shape.time, shape.head_dim // 2, device=device) * 2 * math.pi
    return {
        "y": normal(shape.batch, shape.time, d),
        "x0": normal(shape.batch, shape.time, d),
        "wo": weight(d, d),
        "norm1": 1 + normal(d) / 10,
        "w_gate": weight(f, d),
        "w_up": weight(f, d),
        "w_down": weight(d, f),
        "norm2": 1 + normal(d) / 10,
        "wq": weight(d, d),
        "wk": weight(d, d),
        "wv": weight(d, d),
        "cos": angles.cos(),
        "sin": angles.sin(),
    }


def leaves(tensors: Tensors) -> Tensors:
    """Return the tensors, detached, as leaves that require gradients, except for the tables."""
    return {
        name: tensor.detach().requires_grad_(name not in ("cos", "sin"))
        for name, tensor in tensors.items()
    }


def pack(inputs: Tensors) -> Tensors:
    """Pack the weights for the PyTorch layer: gate and up in one matrix, q, k and v in another."""
    packed = pack_weights(inputs) | {name: inputs[name] for name in ("y", "x0")}
    for table in ("cos", "sin"):
        packed[table] = inputs[table].to(inputs["y"].dtype)
    return packed


def pack_weights(weights: Tensors) -> Tensors:
    """Pack weights of the program, or their gradients, like those of the PyTorch layer."""
    packed = {name: weights[name] for name in ("wo", "norm1", "w_down", "norm2")}
    packed["w_gate_up"] = torch.cat([weights["w_gate"], weights["w_up"]])
    packed["w_qkv"] = torch.cat([weights["wq"], weights["wk"], weights["wv"]])
    return packed


def torch_layer(
    t: Tensors, linear: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = F.linear
) -> tuple[torch.Tensor, ...]:
    """Compute the layer in plain PyTorch on packed weights; return x2, q, k and v."""
    d, tables = t["x0"].shape[-1], (t["cos"], t["sin"])

    def norm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, (d,), w, EPS)

    x1 = t["x0"] + linear(t["y"], t["wo"])
    gate, up = linear(norm(x1, t["norm1"]), t["w_gate_up"]).chunk(2, -1)
    x2 = x1 + linear(F.silu(gate) * up, t["w_down"])
    q, k, v = linear(norm(x2, t["norm2"]), t["w_qkv"]).chunk(3, -1)
    return x2, rotated(q, *tables), rotated(k, *tables), v


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotate the heads of x (... x T x D), which lie side by side, by angles (T x half a head)."""
    a, b = x.reshape(*x.shape[:-1], -1, 2 * cos.shape[-1]).chunk(2, -1)
    cos, sin = cos[:, None], sin[:, None]
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)


def forward_gemms(packed: Tensors, shape: LayerShape) -> Callable[[], object]:
    """Return the four bare GEMMs of the forward, by cuBLAS."""
    pairs = forward_operands(packed, shape)
    return lambda: [a @ w.T for a, w in pairs]


def backward_gemms(packed: Tensors, shape: LayerShape) -> Callable[[], object]:
    """Return the eight bare GEMMs of the backward: for each weight, dX = dY W and dW = dYᵀ X."""
    triples = [
        (torch.randn(shape.rows, w.shape[0], device=w.device).to(w.dtype), a, w)
        for a, w in forward_operands(packed, shape)
    ]
    return lambda: [(dy @ w, dy.T @ a) for dy, a, w in triples]


def forward_operands(packed: Tensors, shape: LayerShape) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return the operands of each GEMM of the forward: rows x K and N x K."""
    hidden = packed["x0"].reshape(shape.rows, shape.d)
    wide = torch.randn(shape.rows, shape.f, device=hidden.device).to(hidden.dtype)
    names = ("wo", "w_gate_up", "w_down", "w_qkv")
    return [(wide if name == "w_down" else hidden, packed[name]) for name in names]


CHECKED_ROWS = 512
RESULTS = ("x2", "q", "k", "v")

grad: Any = torch.autograd.grad  # has no complete types


def check(
    results: Mapping[str, Sequence[torch.Tensor]], inputs: Tensors
) -> dict[str, dict[str, float]]:
    """Return the errors of every variant on the last rows of the last batch element."""
    exact: Tensors = {}
    for name, tensor in inputs.items():
        part = tensor[..., -CHECKED_ROWS:, :] if name in ROWS else tensor
        exact[name] = (part[-1:] if name in ("y", "x0") else part).double()
    expected = torch_layer(pack(exact))
    return {
        variant: {
            name: relative_error(actual[-1:, -CHECKED_ROWS:], reference)
            for name, actual, reference in zip(RESULTS, outputs, expected, strict=True)
        }
        for variant, outputs in results.items()
    }


def exact_gradients(inputs: Tensors, upstream: Sequence[torch.Tensor]) -> Tensors:
    """Return the gradients in float64; for tokens, only those of the last `CHECKED_ROWS`.

    The rows are taken in parts, which bounds the memory.
    """
    weights = leaves({name: t.double() for name, t in inputs.items() if name not in ROWS})
    sums = {name: torch.zeros_like(weight) for name, weight in weights.items()}
    last: Tensors = {}
    time = inputs["y"].shape[1]
    for start in range(0, time, CHECKED_ROWS):
        part = slice(start, start + CHECKED_ROWS)
        rows = leaves({name: inputs[name][..., part, :].double() for name in ROWS})
        taken = {**weights, "y": rows["y"], "x0": rows["x0"]}
        results = torch_layer(pack(weights | rows))
        seeds = [gradient[:, part].double() for gradient in upstream]
        last = dict(zip(taken, grad(results, list(taken.values()), seeds), strict=True))
        for name in sums:
            sums[name] += last[name]
    return sums | {name: last[name] for name in ("y", "x0")}


def gradient_errors(gradients: Tensors, exact: Tensors) -> dict[str, float]:
    """Return the errors of the packed tensors by name, those of rows on the last tokens."""
    expected = pack_weights(exact) | {name: exact[name] for name in ("y", "x0")}
    if "wq" in gradients:
        gradients = pack_weights(gradients) | {name: gradients[name] for name in ("y", "x0")}
    count = exact["y"].shape[1]
    return {
        name: relative_error(
            gradients[name][:, -count:] if name in ROWS else gradients[name], expected[name]
        )
        for name in expected
    }

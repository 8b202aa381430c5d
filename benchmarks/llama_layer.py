"""The layer that the layer benchmarks measure: everything between two attentions of a Llama."""

import math
from dataclasses import dataclass
from pathlib import Path

import torch

PROGRAM = Path(__file__).parent.parent / "examples" / "llama_layer.coda"
EPS = 1e-5

Tensors = dict[str, torch.Tensor]


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
    def constants(self) -> dict[str, int]:
        """The constants of the program."""
        return {"D": self.d, "F": self.f, "HEAD": self.head_dim}


def make_inputs(shape: LayerShape, device: str = "cuda") -> Tensors:
    """Draw random normal inputs and weights, scaled by 1/sqrt(K), by their names in the program."""

    def normal(*extents: int) -> torch.Tensor:
        return torch.randn(*extents, device=device, dtype=torch.bfloat16)

    def weight(n: int, k: int) -> torch.Tensor:
        return normal(n, k) / math.sqrt(k)

    d, f = shape.d, shape.f
    angle = angles(shape.time, shape.head_dim, device)
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
        "cos": angle.cos(),
        "sin": angle.sin(),
    }


def angles(time: int, head_dim: int, device: str) -> torch.Tensor:
    """Draw the angles of rotary embedding: T x half a head."""
    return torch.rand(time, head_dim // 2, device=device) * 2 * math.pi


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotate the heads of x (... x T x D), which lie side by side, by angles (T x half a head)."""
    a, b = x.reshape(*x.shape[:-1], -1, 2 * cos.shape[-1]).chunk(2, -1)
    cos, sin = cos[:, None], sin[:, None]
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)

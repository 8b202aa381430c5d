"""Functions of attention whose heads lie side by side, and what they mean."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import torch

grad: Any = torch.autograd.grad


@dataclass(frozen=True)
class Heads:
    """A function of q, k and v, whose heads lie side by side."""

    heads: int = 4
    kv_heads: int = 2
    width: int = 16
    options: str = "causal=true"
    element: str = "bf16"
    batches: str = "B, "

    @property
    def text(self) -> str:
        columns, shared = self.heads * self.width, self.kv_heads * self.width
        type = f"{self.element}[{self.batches}"
        return f"""
            fn f(q: {type}T, {columns}], k: {type}S, {shared}], v: {type}S, {shared}]) {{
                return attention(q, k, v, head_dim={self.width}, {self.options})
            }}"""

    @property
    def numbers(self) -> dict[str, float]:
        """The options by name; those that are false are left out."""
        pairs = [part.partition("=") for part in self.options.split(", ")]
        return {n: 1.0 if x == "true" else float(x) for n, _, x in pairs if x != "false"}

    def inputs(self, queries: int, keys: int, batch: int = 2) -> list[torch.Tensor]:
        dtype = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}[self.element]
        lead = (batch,) if self.batches else ()
        shapes = [(queries, self.heads), (keys, self.kv_heads), (keys, self.kv_heads)]
        return [torch.randn(*lead, rows, n * self.width).to(dtype) for rows, n in shapes]


def attend(
    of: Heads,
    *tensors: torch.Tensor,
    mask: torch.Tensor | None = None,
    sinks: torch.Tensor | None = None,
) -> torch.Tensor:
    """Attention of q, k and v in their type, by its definition; 0 of a query that sees no key."""
    rows = tensors[0].shape[:-1]
    q, k, v = (
        x.reshape(-1, x.shape[-2], x.shape[-1] // of.width, of.width).transpose(1, 2)
        for x in tensors
    )
    k, v = (x.repeat_interleave(of.heads // of.kv_heads, 1) for x in (k, v))
    options = of.numbers
    scores = q @ k.mT * (options["scale"] if "scale" in options else of.width**-0.5)
    if "softcap" in options:
        scores = options["softcap"] * torch.tanh(scores / options["softcap"])
    distance = (
        torch.arange(k.shape[2] - q.shape[2], k.shape[2])[:, None] - torch.arange(k.shape[2])
    ).to(q.device)
    seen = torch.ones_like(distance, dtype=torch.bool)
    if "causal" in options:
        seen &= distance >= 0
    if "window" in options:
        seen &= distance.abs() < options["window"]
    if mask is not None and mask.dtype == torch.bool:
        seen = seen & mask
    elif mask is not None:
        scores = scores + mask
        seen = seen & (scores != -torch.inf)
    scores = scores.masked_fill(~seen, -torch.inf)
    if sinks is not None:
        column = sinks[:, None, None].expand(*scores.shape[:-1], 1)
        scores = torch.cat([scores, column], -1)
    weights = torch.softmax(scores, -1)[..., : k.shape[2]]
    weights = torch.where(seen.any(-1, keepdim=True), weights, 0.0)
    return (weights @ v).transpose(1, 2).reshape(*rows, -1)


def gradients(
    call: Callable[..., Any],
    tensors: Sequence[torch.Tensor],
    d_y: torch.Tensor,
    wanted: Sequence[int] | None = None,
) -> list[torch.Tensor]:
    """The gradients for the arguments number `wanted`, by default for all."""
    numbers = range(len(tensors)) if wanted is None else wanted
    leaves = [x.detach().requires_grad_(i in numbers) for i, x in enumerate(tensors)]
    return list(grad(call(*leaves), [leaves[i] for i in numbers], d_y))


ROTATED = """
fn f(x: bf16[B, T, WIDE], norm: bf16[WIDE], cos: f32[T, HALF], sin: f32[T, HALF],
     weight wq: bf16[COLUMNS, WIDE], weight wk: bf16[SHARED, WIDE],
     weight wv: bf16[SHARED, WIDE], weight wo: bf16[WIDE, COLUMNS]) -> bf16[B, T, WIDE] {
    h = rms_norm(x, norm, eps=1e-5)
    q = rope(linear(h, wq), cos, sin, head_dim=WIDTH)
    k = rope(linear(h, wk), cos, sin, head_dim=WIDTH)
    y = attention(q, k, linear(h, wv), head_dim=WIDTH, OPTIONS)
    return x + linear(y, wo)
}
"""
"""Attention after a norm and a rotation, which the epilogues of its backward undo."""

LEARNED = (0, 1, 4, 5, 6, 7)
"""The arguments of `ROTATED` that gradients are wanted of."""


NORM = "map_scale_norm"
"""The pointwise kernel of `ROTATED` in training: the norm of x."""


def pointwise_kernels(source: str) -> list[str]:
    """Return the names of the pointwise kernels of an emitted module."""
    return re.findall(r"(\w+): pointwise over", source)


def rotated_text(of: Heads, wide: int) -> str:
    """`ROTATED` for such heads, with `wide` columns of x."""
    numbers = {
        "HALF": of.width // 2,
        "COLUMNS": of.heads * of.width,
        "SHARED": of.kv_heads * of.width,
        "WIDE": wide,
        "WIDTH": of.width,
        "OPTIONS": of.options,
    }
    text = ROTATED
    for name, number in numbers.items():
        text = text.replace(name, str(number))
    return text


def interleaved(text: str) -> str:
    """A text that rotates pairs of neighbours, not those of both halves of a head."""
    return re.sub(r"(rope\(.*head_dim=\d+)", r'\1, layout="interleaved"', text)


def rotated_inputs(of: Heads, wide: int, batch: int, rows: int) -> list[torch.Tensor]:
    columns, shared = of.heads * of.width, of.kv_heads * of.width
    shapes = [(columns, wide), (shared, wide), (shared, wide), (wide, columns)]
    weights = [(torch.randn(shape) * shape[1] ** -0.5).bfloat16() for shape in shapes]
    angles = torch.rand(rows, of.width // 2) * 6.3
    x, norm = torch.randn(batch, rows, wide).bfloat16(), torch.randn(wide).bfloat16()
    return [x, norm, angles.cos(), angles.sin(), *weights]


def rotated(of: Heads, *tensors: torch.Tensor) -> torch.Tensor:
    """Return what `ROTATED` means, in the type of `tensors`."""
    x, norm, cos, sin, wq, wk, wv, wo = tensors
    h = torch.nn.functional.rms_norm(x, x.shape[-1:], norm, eps=1e-5)

    def rotate(z: torch.Tensor) -> torch.Tensor:
        half = of.width // 2
        heads = z.reshape(*z.shape[:-1], -1, of.width)
        a, b = heads[..., :half], heads[..., half:]
        c, s = cos[:, None].to(z.dtype), sin[:, None].to(z.dtype)
        return torch.cat((a * c - b * s, b * c + a * s), -1).reshape(z.shape)

    return x + attend(of, rotate(h @ wq.mT), rotate(h @ wk.mT), h @ wv.mT) @ wo.mT


class RandomProgram:
    """A function of attention after projections, drawn with `seed`, with arguments for it."""

    def __init__(self, seed: int):
        draw = Random(seed)
        self.width = draw.choice([16, 24, 32])
        kv_heads = draw.choice([1, 2, 3])
        self.columns = {"q": kv_heads * draw.choice([1, 2]), "k": kv_heads, "v": kv_heads}
        self.rows = draw.randint(1, 80)
        self.has_bias, self.has_norm = draw.random() < 0.4, draw.random() < 0.4
        self.layout = draw.choice(["half_split", "interleaved", None])
        seen = draw.choice(["causal=true", "causal=false", "causal=true, window=19"])
        self.options = seen + draw.choice(["", ", softcap=1.2"])
        self.generator = torch.Generator().manual_seed(seed)

    @property
    def names(self) -> list[str]:
        """The weights and tables in the order of the parameters."""
        kinds = ["w", *("b" * self.has_bias)]
        weights = [kind + name for name in "qkv" for kind in kinds]
        return [*weights, *(["nq", "nk"] if self.has_norm else []), "cos", "sin"]

    @property
    def learned(self) -> list[int]:
        """The arguments that gradients are wanted of: all but the tables, which come last."""
        return list(range(2 + len(self.names)))[:-2]

    def type_of(self, name: str) -> str:
        if name in ("cos", "sin"):
            return f"f32[T, {self.width // 2}]"
        if name.startswith("n"):
            return f"bf16[{self.width}]"
        extent = self.columns[name[1]] * self.width
        return f"bf16[{extent}, 48]" if name.startswith("w") else f"bf16[{extent}]"

    @property
    def text(self) -> str:
        weights = ", ".join(
            f"{'' if name in ('cos', 'sin') else 'weight '}{name}: {self.type_of(name)}"
            for name in self.names
        )
        heads = ", ".join(map(self._projected, "qkv"))
        return f"""
            fn f(x: bf16[B, T, 48], norm: bf16[48], {weights}) {{
                h = rms_norm(x, norm, eps=1e-5)
                return attention({heads}, head_dim={self.width}, {self.options})
            }}"""

    def _projected(self, name: str) -> str:
        value = f"linear(h, w{name}{f', b{name}' * self.has_bias})"
        if name == "v":
            return value
        if self.has_norm:
            value = f"rms_norm({value}, n{name}, eps=1e-6, group={self.width})"
        if self.layout is None:
            return value
        return f'rope({value}, cos, sin, head_dim={self.width}, layout="{self.layout}")'

    @property
    def inputs(self) -> list[torch.Tensor]:
        tensors = [self._normal(2, self.rows, 48), self._normal(48)]
        for name in self.names:
            if name in ("cos", "sin"):
                angles = torch.linspace(0, 6, self.rows * self.width // 2)
                angles = angles.reshape(self.rows, -1)
                tensors.append(angles.cos() if name == "cos" else angles.sin())
            elif name.startswith("n"):
                tensors.append(self._normal(self.width))
            else:
                extent = self.columns[name[1]] * self.width
                is_weight = name.startswith("w")
                tensors.append(self._normal(extent, 48) / 7 if is_weight else self._normal(extent))
        return tensors

    @property
    def d_y(self) -> torch.Tensor:
        """A gradient of the result."""
        return self._normal(2, self.rows, self.columns["q"] * self.width)

    def _normal(self, *shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=self.generator).bfloat16()

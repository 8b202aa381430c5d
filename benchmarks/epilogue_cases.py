"""GEMMs with an epilogue by themselves: as programs, in PyTorch, and in JAX."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from llama_layer import Tensors

EPS = 1e-5
HEAD = 128


class Library(Protocol):
    """What the functions below need of PyTorch or JAX beside operators."""

    def silu(self, x: Any) -> Any: ...
    def gelu(self, x: Any) -> Any: ...
    def rms_norm(self, x: Any, weight: Any) -> Any: ...
    def halves(self, x: Any) -> Any: ...
    def joined(self, *parts: Any) -> Any: ...
    def cast(self, x: Any, dtype: Any) -> Any: ...
    def cross_entropy(self, logits: Any, target: Any) -> Any: ...


class Torch:
    """PyTorch."""

    def silu(self, x: torch.Tensor) -> torch.Tensor:
        return F.silu(x)

    def gelu(self, x: torch.Tensor) -> torch.Tensor:
        return F.gelu(x)

    def rms_norm(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, x.shape[-1:], weight, EPS)

    def halves(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.chunk(2, -1)

    def joined(self, *parts: torch.Tensor) -> torch.Tensor:
        return torch.cat(parts, -1)

    def cast(self, x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        return x.to(dtype)

    def cross_entropy(self, logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        # As models compute it; float64 stays as it is.
        wide = logits if logits.dtype == torch.float64 else logits.float()
        return F.cross_entropy(wide, target)


class Jax:
    """JAX."""

    def __init__(self) -> None:
        self._jax: Any = import_module("jax")

    def silu(self, x: Any) -> Any:
        return self._jax.nn.silu(x)

    def gelu(self, x: Any) -> Any:
        return self._jax.nn.gelu(x, approximate=False)

    def rms_norm(self, x: Any, weight: Any) -> Any:
        wide = x.astype("float32")
        scale = self._jax.lax.rsqrt((wide * wide).mean(-1, keepdims=True) + EPS)
        return (wide * scale * weight).astype(x.dtype)

    def halves(self, x: Any) -> Any:
        return self._jax.numpy.split(x, 2, -1)

    def joined(self, *parts: Any) -> Any:
        return self._jax.numpy.concatenate(parts, -1)

    def cast(self, x: Any, dtype: Any) -> Any:
        return x.astype(dtype)

    def cross_entropy(self, logits: Any, target: Any) -> Any:
        logarithms = self._jax.nn.log_softmax(logits.astype("float32"), -1)
        return -self._jax.numpy.take_along_axis(logarithms, target[:, None], -1).mean()


@dataclass(frozen=True)
class Sizes:
    """Of a GEMM: M rows, N columns of the result, K of the sum."""

    m: int
    n: int
    k: int


Function = Callable[[Library, Mapping[str, Any]], Any]


@dataclass(frozen=True)
class Case:
    """One GEMM and what follows it, or precedes it as a norm."""

    name: str
    text: str
    """The program; M is a symbol, N, K and HEAD are constants."""
    function: Function
    """The same on packed weights."""
    weights: int = 1
    """How many weights of N columns stand side by side."""
    liger: Callable[[Any, Tensors], torch.Tensor] | None = None
    """The same with the operators of `liger_kernel.transformers.functional`."""

    def constants(self, sizes: Sizes) -> dict[str, int]:
        given = {"N": sizes.n, "K": sizes.k, "HEAD": min(HEAD, sizes.n)}
        return {name: value for name, value in given.items() if f"const {name} " in self.text}

    def draw(self, sizes: Sizes, device: str) -> Tensors:
        """Random arguments of the program by name, and the packed weights `packed`."""

        def normal(*extents: int) -> torch.Tensor:
            return torch.randn(*extents, device=device, dtype=torch.bfloat16)

        m, n, k = sizes.m, sizes.n, sizes.k
        angles = torch.rand(m, min(HEAD, n) // 2, device=device) * 2 * math.pi
        drawn = {
            "x": normal(m, k),
            "w": normal(n, k) / math.sqrt(k),
            "v": normal(n, k) / math.sqrt(k),
            "b": normal(n),
            "r": normal(m, n),
            "g": 1 + normal(k) / 10,
            "target": torch.randint(n, (m,), device=device),
            "cos": angles.cos(),
            "sin": angles.sin(),
        }
        names = ["w", "v"][: self.weights]
        return drawn | {"packed": torch.cat([drawn[name] for name in names])}


def _residual(lib: Library, t: Mapping[str, Any]) -> Any:
    return t["r"] + t["x"] @ t["packed"].T


def _bias_gelu(lib: Library, t: Mapping[str, Any]) -> Any:
    return lib.gelu(t["x"] @ t["packed"].T + t["b"])


def _swiglu(lib: Library, t: Mapping[str, Any]) -> Any:
    gate, up = lib.halves(t["x"] @ t["packed"].T)
    return lib.silu(gate) * up


def _norm(lib: Library, t: Mapping[str, Any]) -> Any:
    return lib.rms_norm(t["x"], t["g"]) @ t["packed"].T


def _rope(lib: Library, t: Mapping[str, Any]) -> Any:
    rotated = t["x"] @ t["packed"].T
    cos, sin = (lib.cast(t[name], rotated.dtype) for name in ("cos", "sin"))
    heads = rotated.reshape(rotated.shape[0], -1, 2 * cos.shape[-1])
    a, b = lib.halves(heads)
    cos, sin = cos[:, None], sin[:, None]
    return lib.joined(a * cos - b * sin, b * cos + a * sin).reshape(rotated.shape)


def _cross_entropy(lib: Library, t: Mapping[str, Any]) -> Any:
    return lib.cross_entropy(t["x"] @ t["packed"].T, t["target"])


def _liger_swiglu(liger: Any, t: Tensors) -> torch.Tensor:
    return liger.liger_swiglu(F.linear(t["x"], t["w"]), F.linear(t["x"], t["v"]))


def _liger_norm(liger: Any, t: Tensors) -> torch.Tensor:
    return F.linear(liger.liger_rms_norm(t["x"], t["g"], EPS), t["packed"])


def _liger_cross_entropy(liger: Any, t: Tensors) -> torch.Tensor:
    return liger.liger_fused_linear_cross_entropy(t["x"], t["packed"], t["target"])


def _text(arguments: str, body: str, *, heads: bool = False) -> str:
    head = "const HEAD = 128\n" if heads else ""
    return (
        f"const N = 1024\nconst K = 1024\n{head}"
        f"fn f(x: bf16[M, K], weight w: bf16[N, K], {arguments}) {{\n    return {body}\n}}\n"
    )


CASES = (
    Case("residual", _text("r: bf16[M, N]", "r + linear(x, w)"), _residual),
    Case("bias + GELU", _text("weight b: bf16[N]", "gelu(linear(x, w, b))"), _bias_gelu),
    Case(
        "SwiGLU",
        _text("weight v: bf16[N, K]", "silu(linear(x, w)) * linear(x, v)"),
        _swiglu,
        weights=2,
        liger=_liger_swiglu,
    ),
    Case(
        "RMSNorm",
        _text("weight g: bf16[K]", f"linear(rms_norm(x, g, eps={EPS}), w)"),
        _norm,
        liger=_liger_norm,
    ),
    Case(
        "rotary",
        _text(
            "cos: f32[M, HEAD // 2], sin: f32[M, HEAD // 2]",
            "rope(linear(x, w), cos, sin, head_dim=HEAD)",
            heads=True,
        ),
        _rope,
    ),
    Case(
        "cross entropy",
        _text("target: i64[M]", 'cross_entropy(linear(x, w), target, reduction="mean")'),
        _cross_entropy,
        liger=_liger_cross_entropy,
    ),
)

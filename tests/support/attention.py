"""Attention by its definition, and cases of masks, windows, sinks and more keys than queries."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

HEADS, KV_HEADS, WIDTH = 4, 2, 8


class AttentionCounter(TorchDispatchMode):
    """Counts the operators of attention that PyTorch runs, by their names."""

    def __init__(self):
        mode: Any = super()
        mode.__init__()
        self.counts = Counter[str]()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if "attention" in str(func):
            self.counts[str(func)] += 1
        return func(*args, **(kwargs or {}))

    @property
    def backwards(self) -> int:
        return sum(count for name, count in self.counts.items() if "backward" in name)

    @property
    def forwards(self) -> int:
        return self.counts.total() - self.backwards


def definition(
    q: Any, k: Any, v: Any, *, sinks: torch.Tensor | None = None, **options: Any
) -> torch.Tensor:
    """Attention in float64, one pair of query and key at a time; `options` as of the language."""
    weights = _scores(q, k, **options).exp()
    total = weights.sum(-1, keepdim=True)
    if sinks is not None:
        total = total + sinks.double().exp()[:, None, None]
    columns = v.shape[-1] // KV_HEADS
    return weights / torch.where(total > 0, total, 1) @ _heads(v, HEADS // KV_HEADS, columns)


def definition_of_lse(
    q: Any, k: Any, v: Any, *, sinks: torch.Tensor | None = None, **options: Any
) -> torch.Tensor:
    """The logsumexp of the scores of each query: batch x heads x queries."""
    weights = _scores(q, k, **options).exp()
    total = weights.sum(-1)
    unseen = total == 0
    if sinks is not None:
        total = total + sinks.double().exp()[:, None]
    return total.log().masked_fill(unseen, torch.inf)


def _heads(x: Any, times: int, columns: int = WIDTH) -> torch.Tensor:
    return x.double().unflatten(-1, (-1, columns)).transpose(1, 2).repeat_interleave(times, 1)


def result_like(tensors: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """A random tensor of the shape and type of the result."""
    q, v = tensors["q"], tensors["v"]
    return normal(*q.shape[:-1], HEADS // KV_HEADS * v.shape[-1]).to(q.dtype)


def _scores(
    q: Any,
    k: Any,
    *,
    causal: bool = False,
    window: int | None = None,
    softcap: float | None = None,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    scores = _heads(q, 1) @ _heads(k, HEADS // KV_HEADS).mT * WIDTH**-0.5
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if mask is not None:
        is_bool = mask.dtype == torch.bool
        scores = scores.masked_fill(~mask, -torch.inf) if is_bool else scores + mask.double()
    queries, keys = scores.shape[-2:]
    for i in range(queries):
        for j in range(keys):
            distance = i + keys - queries - j
            if (causal and distance < 0) or (window is not None and abs(distance) >= window):
                scores[:, :, i, j] = -torch.inf
    return scores


def program(tensors: Mapping[str, torch.Tensor], numbers: Mapping[str, Any]) -> str:
    """A function @f of `tensors` that is their attention, with `numbers` as properties."""
    causal = str(numbers.get("causal", False)).lower()
    properties = f"head_dim = {WIDTH} : i64, causal = {causal}"
    columns = tensors["v"].shape[-1] // KV_HEADS
    if columns != WIDTH:
        properties += f", value_dim = {columns} : i64"
    for name, type in (("window", "i64"), ("softcap", "f64")):
        if name in numbers:
            properties += f", {name} = {numbers[name]} : {type}"
    types = {torch.bool: "i1", torch.float32: "f32", torch.bfloat16: "bf16"}
    typed = {
        name: f"tensor<{''.join(f'{extent}x' for extent in x.shape)}{types[x.dtype]}>"
        for name, x in tensors.items()
    }
    optional = [f"{name}(%{name} : {typed[name]})" for name in ("sinks", "mask") if name in typed]
    heads = ", ".join(typed[name] for name in "qkv")
    parameters = ", ".join(f"%{name} : {type}" for name, type in typed.items())
    result = typed["q"].replace(f"{HEADS * WIDTH}x", f"{HEADS * columns}x")
    return f"""
        func.func @f({parameters}) -> {result} {{
          %r = coda.attention %q, %k, %v {" ".join(optional)} {{{properties}}}
            : ({heads}) -> {result}
          func.return %r : {result}
        }}"""


RANDOM = torch.Generator().manual_seed(0)


def bools(*shape: int) -> torch.Tensor:
    return torch.rand(shape, generator=RANDOM) < 0.7


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=RANDOM)


CASES: list[tuple[int, int, dict[str, Any]]] = [
    (6, 6, {"causal": True, "window": 3}),
    (6, 6, {"window": 2}),
    (6, 6, {"causal": True, "window": 9}),
    (2, 6, {"causal": True, "window": 3}),
    (1, 6, {"causal": True, "window": 3}),
    (6, 3, {"causal": True, "window": 2}),
    (6, 3, {"window": 4}),
    (6, 6, {"mask": bools(2, 1, 1, 6)}),
    (6, 6, {"mask": bools(2, 1, 6, 6), "causal": True}),
    (3, 6, {"mask": bools(HEADS, 1, 6), "window": 4}),
    (6, 6, {"mask": normal(6, 6)}),
    (6, 6, {"mask": normal(HEADS, 1, 6), "causal": True}),
    (6, 6, {"mask": normal(2, HEADS, 6, 6), "softcap": 3.0}),
    (6, 6, {"mask": torch.where(bools(1, 1, 6, 6), 0.0, -torch.inf)}),
    (6, 6, {"mask": torch.where(bools(1, 1, 1, 6), 0.0, torch.finfo(torch.float32).min)}),
    (6, 6, {"sinks": normal(HEADS)}),
    (6, 6, {"sinks": normal(HEADS), "causal": True, "window": 3}),
    (3, 6, {"sinks": normal(HEADS), "causal": True, "mask": bools(2, 1, 1, 6)}),
    (6, 6, {"sinks": normal(HEADS), "mask": normal(2, HEADS, 6, 6)}),
    (6, 3, {"sinks": normal(HEADS), "causal": True, "softcap": 2.0}),
    (1, 6, {"sinks": normal(HEADS), "causal": True}),
    (6, 6, {"causal": True, "value_dim": 4}),
    (3, 6, {"mask": bools(2, 1, 1, 6), "sinks": normal(HEADS), "value_dim": 12}),
]
"""The numbers of queries and keys, and what else attention has."""

KINDS = ("f32", "bf16", "mixed")
"""Element types: `mixed` has q, k and v in bf16, and sinks and masks that are added in f32."""


def inputs(
    queries: int, keys: int, options: Mapping[str, Any], kind: str
) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """The tensors of a case by name, and its numbers."""
    dtype = torch.float32 if kind == "f32" else torch.bfloat16
    tensors = {
        "q": normal(2, queries, HEADS * WIDTH).to(dtype),
        "k": normal(2, keys, KV_HEADS * WIDTH).to(dtype),
        "v": normal(2, keys, KV_HEADS * options.get("value_dim", WIDTH)).to(dtype),
    }
    numbers: dict[str, Any] = {}
    for name, value in options.items():
        if isinstance(value, torch.Tensor):
            narrow = value.is_floating_point() and kind == "bf16"
            tensors[name] = value.to(dtype) if narrow else value
        else:
            numbers[name] = value
    numbers.pop("value_dim", None)
    return tensors, numbers

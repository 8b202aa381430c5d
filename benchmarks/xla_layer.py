"""The layer between two attentions by JAX, each part of it as one XLA program."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import torch
from llama_layer import EPS, Tensors

TABLES = ("cos", "sin")


class XlaResults(Sequence[torch.Tensor]):
    """Arrays of JAX, as tensors where they are looked at: a call that is timed makes none."""

    def __init__(self, arrays: Sequence[Any]):
        self.arrays = arrays

    def __len__(self) -> int:
        return len(self.arrays)

    def __getitem__(self, index: Any) -> Any:
        return torch.from_dlpack(self.arrays[index])


class XlaGradients(dict[str, Any]):
    """The same by name."""

    def __getitem__(self, name: str) -> torch.Tensor:
        return torch.from_dlpack(super().__getitem__(name))


def make_forward(packed: Tensors) -> Callable[[], Sequence[torch.Tensor]]:
    """A call that computes the results, and waits for them.

    Raises ImportError where JAX cannot be imported or does not see the device of the tensors.
    """
    jax = jax_on(packed["y"].device)
    tensors = {name: to_jax(jax, tensor) for name, tensor in packed.items()}

    def forward(tensors: Any) -> Any:
        return _layer(jax, tensors)

    compiled = jax.jit(forward)
    return lambda: XlaResults(jax.block_until_ready(compiled(tensors)))


def make_step(packed: Tensors) -> Callable[[Sequence[torch.Tensor]], Tensors]:
    """A call that computes the gradients of all inputs but the tables, and waits for them.

    Raises ImportError as `make_forward`.
    """
    jax = jax_on(packed["y"].device)
    arrays = {name: to_jax(jax, tensor) for name, tensor in packed.items()}
    tables = {name: arrays.pop(name) for name in TABLES}
    known: dict[int, tuple[torch.Tensor, Any]] = {}

    def gradients(inputs: Any, tables: Any, seeds: Any) -> Any:
        def layer(t: Any) -> Any:
            return _layer(jax, {**t, **tables})

        _, pull_back = jax.vjp(layer, inputs)
        return pull_back(seeds)[0]

    compiled = jax.jit(gradients)

    def step(upstream: Sequence[torch.Tensor]) -> Tensors:
        for tensor in upstream:
            if id(tensor) not in known:
                known[id(tensor)] = (tensor, to_jax(jax, tensor))
        seeds = tuple(known[id(tensor)][1] for tensor in upstream)
        return XlaGradients(jax.block_until_ready(compiled(arrays, tables, seeds)))

    return step


def jax_on(device: torch.device) -> Any:
    """JAX for a device. Raises ImportError where it is missing or does not see the device."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax: Any = import_module("jax")
    platform = "gpu" if device.type == "cuda" else "cpu"
    if jax.default_backend() != platform:
        raise ImportError(f"jax runs on {jax.default_backend()}, the tensors are on {platform}")
    return jax


def to_jax(jax: Any, tensor: torch.Tensor) -> Any:
    """The same memory as an array of JAX."""
    return jax.dlpack.from_dlpack(tensor.detach().contiguous())


def _layer(jax: Any, t: dict[str, Any]) -> Any:
    jnp = jax.numpy

    def norm(x: Any, w: Any) -> Any:
        wide = x.astype(jnp.float32)
        scaled = wide * jax.lax.rsqrt((wide * wide).mean(-1, keepdims=True) + EPS)
        return (scaled * w).astype(x.dtype)

    def rope(x: Any) -> Any:
        half = t["cos"].shape[-1]
        heads = x.reshape(*x.shape[:-1], -1, 2 * half)
        a, b = heads[..., :half], heads[..., half:]
        cos, sin = t["cos"][:, None], t["sin"][:, None]
        return jnp.concatenate((a * cos - b * sin, b * cos + a * sin), -1).reshape(x.shape)

    x1 = t["x0"] + t["y"] @ t["wo"].T
    gate, up = jnp.split(norm(x1, t["norm1"]) @ t["w_gate_up"].T, 2, -1)
    x2 = x1 + (jax.nn.silu(gate) * up) @ t["w_down"].T
    q, k, v = jnp.split(norm(x2, t["norm2"]) @ t["w_qkv"].T, 3, -1)
    return x2, rope(q), rope(k), v

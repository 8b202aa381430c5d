"""The layer between two attentions by JAX, forward and backward in one XLA program."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import torch
from llama_layer import EPS, Tensors


def make_step(packed: Tensors, upstream: Sequence[torch.Tensor]) -> Callable[[], object]:
    """A call that computes the gradients of all inputs but the tables, and waits for them.

    Raises ImportError where JAX cannot be imported or does not see the device of the tensors.
    """
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax: Any = import_module("jax")
    platform = "gpu" if packed["y"].is_cuda else "cpu"
    if jax.default_backend() != platform:
        raise ImportError(f"jax runs on {jax.default_backend()}, the tensors are on {platform}")

    def array(tensor: torch.Tensor) -> Any:
        return jax.dlpack.from_dlpack(tensor.detach().contiguous())

    tables = {name: array(packed[name]) for name in ("cos", "sin")}
    inputs = {name: array(tensor) for name, tensor in packed.items() if name not in tables}
    seeds = tuple(array(gradient) for gradient in upstream)

    def gradients(inputs: Any, seeds: Any) -> Any:
        def layer(t: Any) -> Any:
            return _layer(jax, {**t, **tables})

        _, pull_back = jax.vjp(layer, inputs)
        return pull_back(seeds)[0]

    step = jax.jit(gradients)
    return lambda: jax.block_until_ready(step(inputs, seeds))


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

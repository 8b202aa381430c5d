"""LLaMA by JAX, each step as one XLA program on the weights of a model of transformers."""

import os
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import torch
from harness import Queued, synchronize

Layer = dict[str, Any]


def jax_on(device: torch.device) -> Any:
    """Return JAX for a device. Raises ImportError if JAX is missing or does not see the device."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax: Any = import_module("jax")
    platform = "gpu" if device.type == "cuda" else "cpu"
    if jax.default_backend() != platform:
        raise ImportError(f"jax runs on {jax.default_backend()}, the tensors are on {platform}")
    return jax


def to_jax(jax: Any, tensor: torch.Tensor) -> Any:
    """Return a JAX array on the same memory."""
    return jax.dlpack.from_dlpack(tensor.detach().contiguous())


class XlaStep:
    """A step that gives logits, with the weights of a model, or of one with a cache.

    A cache is that of a `NextToken`, whose keys and values are copied; the step stores the keys and
    values of its token. The first call compiles. Raises ImportError where JAX is missing or does
    not see the device.
    """

    def __init__(self, step: Any):
        cache = getattr(step, "cache", None)
        model = step if cache is None else step.model
        self.jax = jax_on(model.device)
        self.model = _Model(self.jax, model)
        self.function = self.model.prefill if cache is None else self.model.decode
        self.caches = () if cache is None else [self._copied(layer) for layer in cache.layers]
        self.program: Any = None

    def __call__(self, input_ids: torch.Tensor, **_: object) -> torch.Tensor:
        if self.program is None:
            self.ids = to_jax(self.jax, input_ids.int())
            jitted = self.jax.jit(self.function, donate_argnums=2)
            self.program = jitted.lower(self.model.weights, self.ids, self.caches).compile()
        logits = self._run()
        self.jax.block_until_ready(logits)
        copied = torch.from_dlpack(logits).clone()
        synchronize()  # or JAX would use the memory again while PyTorch's stream reads it
        return copied

    @property
    def queued(self) -> Queued:
        """The step for timing: calls are queued, and the last one is waited for."""
        return Queued(self._run, self.jax.block_until_ready)

    def _run(self) -> Any:
        logits, self.caches = self.program(self.model.weights, self.ids, self.caches)
        return logits

    def _copied(self, layer: Any) -> tuple[Any, Any]:
        # Memory of JAX itself, which a program may overwrite.
        copy = self.jax.numpy.copy
        return copy(to_jax(self.jax, layer.keys)), copy(to_jax(self.jax, layer.values))


class _Model:
    """The functions that are compiled."""

    attention = "cudnn"
    """The implementation of causal attention on GPUs."""

    def __init__(self, jax: Any, model: Any):
        self.jax, self.jnp = jax, jax.numpy
        config = model.config
        self.width, self.eps = config.head_dim, config.rms_norm_eps
        self.theta = config.rope_parameters["rope_theta"]
        self.weights = {
            "table": to_jax(jax, model.model.embed_tokens.weight),
            "norm": to_jax(jax, model.model.norm.weight),
            "head": to_jax(jax, model.lm_head.weight),
            "layers": [
                {name.removesuffix(".weight"): to_jax(jax, p) for name, p in of.named_parameters()}
                for of in model.model.layers
            ],
        }

    def prefill(self, weights: Any, ids: Any, caches: Sequence[Any]) -> tuple[Any, Sequence[Any]]:
        """Return the logits of all tokens."""
        x = weights["table"][ids]
        for layer in weights["layers"]:
            q, k, v = self._rotated(layer, x, 0)
            is_gpu = self.jax.default_backend() == "gpu"
            attend = self.jax.nn.dot_product_attention
            y = attend(q, k, v, is_causal=True, implementation=self.attention if is_gpu else "xla")
            x = self._after(layer, x, y)
        return self._logits(weights, x), caches

    def decode(self, weights: Any, ids: Any, caches: Sequence[Any]) -> tuple[Any, Sequence[Any]]:
        """Return the logits of the last token, and the caches with its keys and values."""
        jnp, x, stored = self.jnp, weights["table"][ids], list[Any]()
        for layer, (keys, values) in zip(weights["layers"], caches, strict=True):
            last = keys.shape[2] - 1
            q, k, v = self._rotated(layer, x, last)
            keys = keys.at[:, :, last:].set(k.swapaxes(1, 2))
            values = values.at[:, :, last:].set(v.swapaxes(1, 2))
            stored.append((keys, values))
            shared = q.shape[2] // keys.shape[1]
            q = q.reshape(*q.shape[:2], keys.shape[1], shared, self.width)
            scores = jnp.einsum("bqhgd,bhkd->bhgqk", q, keys, preferred_element_type=jnp.float32)
            scores = self.jax.nn.softmax(scores * self.width**-0.5, -1).astype(x.dtype)
            x = self._after(layer, x, jnp.einsum("bhgqk,bhkd->bqhgd", scores, values))
        return self._logits(weights, x), stored

    def _norm(self, x: Any, weight: Any) -> Any:
        wide = x.astype(self.jnp.float32)
        scale = self.jax.lax.rsqrt((wide * wide).mean(-1, keepdims=True) + self.eps)
        return (wide * scale).astype(x.dtype) * weight

    def _rotated(self, layer: Layer, x: Any, first: int) -> Sequence[Any]:
        """Return the queries, keys and values of a layer, from the position `first` on."""
        jnp = self.jnp
        h = self._norm(x, layer["input_layernorm"])
        q, k, v = (
            (h @ layer[f"self_attn.{name}_proj"].T).reshape(*h.shape[:2], -1, self.width)
            for name in "qkv"
        )
        half = self.width // 2
        position = first + jnp.arange(h.shape[1], dtype=jnp.float32)
        angle = position[:, None] * self.theta ** (-jnp.arange(half, dtype=jnp.float32) / half)
        cos, sin = (f(angle)[:, None].astype(x.dtype) for f in (jnp.cos, jnp.sin))

        def rope(heads: Any) -> Any:
            a, b = heads[..., :half], heads[..., half:]
            return jnp.concatenate((a * cos - b * sin, b * cos + a * sin), -1)

        return rope(q), rope(k), v

    def _after(self, layer: Layer, x: Any, y: Any) -> Any:
        x = x + y.reshape(*x.shape[:2], -1) @ layer["self_attn.o_proj"].T
        h = self._norm(x, layer["post_attention_layernorm"])
        gate, up = (h @ layer[f"mlp.{name}_proj"].T for name in ("gate", "up"))
        return x + (self.jax.nn.silu(gate) * up) @ layer["mlp.down_proj"].T

    def _logits(self, weights: Any, x: Any) -> Any:
        return self._norm(x, weights["norm"]) @ weights["head"].T

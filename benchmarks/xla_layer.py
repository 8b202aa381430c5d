"""The layer between two attentions by JAX, each part as one XLA program."""

import os
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import torch
from llama_layer import EPS, Tensors

TABLES = ("cos", "sin")


class XlaResults(Sequence[torch.Tensor]):
    """Arrays of JAX that become tensors when they are read; timed calls make none."""

    def __init__(self, arrays: Sequence[Any]):
        self.arrays = arrays

    def __len__(self) -> int:
        return len(self.arrays)

    def __getitem__(self, index: Any) -> Any:
        return torch.from_dlpack(self.arrays[index])


class XlaGradients(dict[str, Any]):
    """Gradients by XLA, by name."""

    def __getitem__(self, name: str) -> torch.Tensor:
        return torch.from_dlpack(super().__getitem__(name))

    @property
    def arrays(self) -> list[Any]:
        return list(self.values())


class XlaLayer:
    """The layer on packed tensors. Calls are queued; PyTorch's stream does not wait for them.

    Raises ImportError where JAX cannot be imported or does not see the device of the tensors.
    """

    def __init__(self, packed: Tensors):
        self.jax = jax_on(packed["y"].device)
        self._arrays = {name: to_jax(self.jax, tensor) for name, tensor in packed.items()}
        self._tables = {name: self._arrays.pop(name) for name in TABLES}
        self._seeds: dict[int, tuple[torch.Tensor, Any]] = {}
        self._compiled: dict[Any, Any] = {}

    def forward(self) -> Sequence[torch.Tensor]:
        """The results."""
        return XlaResults(self._call(self._layer, self._arrays, self._tables))

    def step(self, upstream: Sequence[torch.Tensor]) -> Tensors:
        """Return the gradients of all inputs but the tables, computed by one program for forward
        and backward.
        """
        arguments = (self._arrays, self._tables, self._arrays_of(upstream))
        _, gradients = self._call(self._results_and_gradients, *arguments)
        return XlaGradients(gradients)

    def backward(self, upstream: Sequence[torch.Tensor]) -> Callable[[], Tensors]:
        """Return a call for these gradients, by a program that begins with the tensors saved by one
        forward.
        """
        saved = self._call(self._saved, self._arrays, self._tables)
        arguments = (saved, self._arrays_of(upstream))
        program = self._program(self._pulled_back, arguments)
        return lambda: XlaGradients(program(*arguments))

    def peak_gib(self, upstream: Sequence[torch.Tensor]) -> float:
        """Return the GiB that a step needs besides its inputs, as planned by XLA."""
        arguments = (self._arrays, self._tables, self._arrays_of(upstream))
        plan = self._program(self._results_and_gradients, arguments).memory_analysis()
        needed = plan.temp_size_in_bytes + plan.output_size_in_bytes - plan.alias_size_in_bytes
        return needed / 2**30

    def wait(self, result: Any) -> None:
        """Wait for the arrays of a result."""
        self.jax.block_until_ready(result.arrays)

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return self._program(function, arguments)(*arguments)

    def _program(self, function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
        """Return `function`, compiled when it is first called; its arguments always have the same
        types.
        """
        if function not in self._compiled:
            self._compiled[function] = self.jax.jit(function).lower(*arguments).compile()
        return self._compiled[function]

    def _arrays_of(self, upstream: Sequence[torch.Tensor]) -> tuple[Any, ...]:
        for tensor in upstream:
            if id(tensor) not in self._seeds:
                self._seeds[id(tensor)] = (tensor, to_jax(self.jax, tensor))
        return tuple(self._seeds[id(tensor)][1] for tensor in upstream)

    # What is compiled

    def _layer(self, inputs: Any, tables: Any) -> Any:
        return _layer(self.jax, {**inputs, **tables})

    def _saved(self, inputs: Any, tables: Any) -> Any:
        return self.jax.vjp(partial(self._layer, tables=tables), inputs)[1]

    def _pulled_back(self, saved: Any, seeds: Any) -> Any:
        return saved(seeds)[0]

    def _results_and_gradients(self, inputs: Any, tables: Any, seeds: Any) -> Any:
        """Return results and gradients. The next attention needs the results; without them XLA
        would remove a GEMM, because no gradient depends on q, k and v.
        """
        results, pull_back = self.jax.vjp(partial(self._layer, tables=tables), inputs)
        return results, pull_back(seeds)[0]


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

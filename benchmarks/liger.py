"""The layer between two attentions by Liger's kernels, composed as in its models."""

import copy
from importlib import import_module
from itertools import chain
from typing import Any

import torch
import torch.nn.functional as F
from llama_layer import EPS, Layer, Tensors


def liger_tensors(inputs: Tensors) -> Tensors:
    """Return the inputs in Liger's layout: packed weights, tables for whole heads."""
    dtype = inputs["y"].dtype
    tables = {name: inputs[name].to(dtype).repeat(1, 2)[None] for name in ("cos", "sin")}
    return inputs | tables


def make_layer() -> Layer:
    """Return the layer as a differentiable function of `liger_tensors`.

    A backward overwrites what its forward has saved: it runs once. Raises ImportError where Liger
    is not installed.
    """
    liger: Any = import_module("liger_kernel.transformers.functional")

    def layer(t: Tensors) -> tuple[torch.Tensor, ...]:
        def heads(x: torch.Tensor) -> torch.Tensor:
            return x.view(*x.shape[:-1], -1, t["cos"].shape[-1]).transpose(1, 2)

        def columns(x: torch.Tensor) -> torch.Tensor:
            return x.transpose(1, 2).flatten(-2)

        h1, x1 = liger.liger_fused_add_rms_norm(F.linear(t["y"], t["wo"]), t["x0"], t["norm1"], EPS)
        a = liger.liger_swiglu(F.linear(h1, t["w_gate"]), F.linear(h1, t["w_up"]))
        h2, x2 = liger.liger_fused_add_rms_norm(F.linear(a, t["w_down"]), x1, t["norm2"], EPS)
        q, k, v = (F.linear(h2, t[name]) for name in ("wq", "wk", "wv"))
        q, k = liger.liger_rope(heads(q), heads(k), t["cos"], t["sin"])
        return x2, columns(q), columns(k), v

    return layer


class LigerModel:
    """A copy of a model, patched by Liger, that shares the parameters.

    Liger also replaces functions of the module that the model's class is from. They stand there
    during calls only, so that the model itself stays as it was. Raises ImportError where Liger is
    not installed, or does not know the model.
    """

    def __init__(self, model: Any):
        if model.device.type != "cuda":
            raise ImportError("its kernels are for GPUs")
        self._names: dict[str, Any] = vars(import_module(type(model).__module__))
        self._model = _sharing_copy(model)
        before = dict(self._names)
        self._apply(model.config.model_type)
        changed = {name: value for name, value in self._names.items() if before[name] is not value}
        self._restored = {name: before[name] for name in changed}
        self._replaced = changed
        self._names.update(self._restored)

    def _apply(self, kind: str) -> None:
        liger: Any = import_module("liger_kernel.transformers")
        apply: Any = getattr(liger, f"apply_liger_kernel_to_{kind}", None)
        if apply is None:
            raise ImportError(f"it does not know {kind}")
        apply(model=self._model)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._names.update(self._replaced)
        try:
            return self._model(*args, **kwargs)
        finally:
            self._names.update(self._restored)


def _sharing_copy(model: Any) -> Any:
    tensors = chain(model.parameters(), model.buffers())
    return copy.deepcopy(model, {id(tensor): tensor for tensor in tensors})

"""Models, and the layer between two attentions, with Liger's kernels."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
import torch.nn.functional as F
from fleet.models import sharing_copy
from llama_layer import EPS


def liger_layer(model: Any) -> Callable[..., tuple[torch.Tensor, ...]]:
    """Return the layer of benchmarks/layer.py. Raises ImportError where Liger is not installed."""
    liger: Any = import_module("liger_kernel.transformers.functional")
    if not model.wo.weight.is_cuda:
        raise ImportError("its kernels are for GPUs")

    def layer(
        y: torch.Tensor, x0: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        cos, sin = (table.repeat(1, 2)[None] for table in (cos, sin))  # for whole heads

        def heads(x: torch.Tensor) -> torch.Tensor:
            return x.view(*x.shape[:-1], -1, cos.shape[-1]).transpose(1, 2)

        def columns(x: torch.Tensor) -> torch.Tensor:
            return x.transpose(1, 2).flatten(-2)

        norm = liger.liger_fused_add_rms_norm
        h1, x1 = norm(model.wo(y), x0, model.norm1.weight, EPS)
        gate, up = (F.linear(h1, w) for w in model.gate_up.weight.chunk(2))
        h2, x2 = norm(model.down(liger.liger_swiglu(gate, up)), x1, model.norm2.weight, EPS)
        q, k, v = (F.linear(h2, w) for w in model.qkv.weight.chunk(3))
        q, k = liger.liger_rope(heads(q), heads(k), cos, sin)
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
        self._model = sharing_copy(model)
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

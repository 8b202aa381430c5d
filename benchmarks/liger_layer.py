"""The layer between two attentions by the kernels of Liger, as its models put them together."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch
import torch.nn.functional as F
from llama_layer import EPS, Layer, Tensors


def liger_tensors(inputs: Tensors) -> Tensors:
    """The inputs as Liger takes them: weights side by side, tables for whole heads."""
    dtype = inputs["y"].dtype
    tables = {name: inputs[name].to(dtype).repeat(1, 2)[None] for name in ("cos", "sin")}
    return inputs | tables


def make_layer() -> Layer:
    """The layer as a differentiable function of `liger_tensors`.

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

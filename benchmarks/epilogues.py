"""Single GEMMs with an epilogue, as members of the fleet, beside the bare GEMM and Liger.

    python -m fleet --members epilogues.py --json epilogues.json
    python -m fleet --members epilogues.py --models 'SwiGLU*,residual*' --tokens 8192

Run in benchmarks/. A product has batch x tokens rows, and as many columns of each weight (of SwiGLU
two) as terms. Weights are scaled by 1/sqrt(K). Liger runs where it is installed.
"""

import math
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any

import torch
import torch.nn.functional as F
from fleet.measure import LIGER
from fleet.models import Inputs, Member, Setting, Tensor, given
from llama_layer import EPS, rotated
from torch import nn

HEAD, SMALL_HEAD = 128, 16
"""Columns of a head that rotates, also in tiny models."""


class Epilogue(nn.Module):
    """A GEMM with `weights` weights of `n` x `n`, and the operators around it."""

    def __init__(self, function: Callable[..., torch.Tensor], n: int, weights: int):
        super().__init__()
        self.function = function
        self.w = nn.Parameter(torch.randn(weights * n, n) / math.sqrt(n))
        self.b = nn.Parameter(torch.randn(n))
        self.g = nn.Parameter(1 + torch.randn(n) / 10)

    def forward(self, x: torch.Tensor, **rows: torch.Tensor) -> torch.Tensor:
        return self.function(self, x, **rows)


def residual(model: Epilogue, x: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
    return r + F.linear(x, model.w)


def bias_gelu(model: Epilogue, x: torch.Tensor) -> torch.Tensor:
    return F.gelu(F.linear(x, model.w, model.b))


def swiglu(model: Epilogue, x: torch.Tensor) -> torch.Tensor:
    gate, up = F.linear(x, model.w).chunk(2, -1)
    return F.silu(gate) * up


def rms_norm(model: Epilogue, x: torch.Tensor) -> torch.Tensor:
    return F.linear(F.rms_norm(x, model.g.shape, model.g, EPS), model.w)


def rotary(model: Epilogue, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    return rotated(F.linear(x, model.w), cos, sin)


def cross_entropy(model: Epilogue, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Compute the loss as models do, of logits in float32; float64 stays float64."""
    logits = F.linear(x, model.w)
    return F.cross_entropy(logits if logits.dtype == torch.float64 else logits.float(), target)


def liger_swiglu(liger: Any, model: Epilogue, x: torch.Tensor) -> torch.Tensor:
    return liger.liger_swiglu(*(F.linear(x, w) for w in model.w.chunk(2)))


def liger_norm(liger: Any, model: Epilogue, x: torch.Tensor) -> torch.Tensor:
    return F.linear(liger.liger_rms_norm(x, model.g, EPS), model.w)


def liger_cross_entropy(
    liger: Any, model: Epilogue, x: torch.Tensor, target: torch.Tensor
) -> torch.Tensor:
    return liger.liger_fused_linear_cross_entropy(x, model.w, target)


def _by_liger(function: Callable[..., torch.Tensor], model: Epilogue) -> Callable[..., Any]:
    liger: Any = import_module("liger_kernel.transformers.functional")
    if not model.w.is_cuda:
        raise ImportError("its kernels are for GPUs")
    return partial(function, liger, model)


def _width(n: int, setting: Setting) -> int:
    return 64 if setting.small else n


def _normal(n: int) -> Tensor:
    return lambda setting, rows: torch.randn(
        (rows, _width(n, setting)), device=setting.device, dtype=setting.dtype
    )


def _target(n: int) -> Tensor:
    return lambda setting, rows: torch.randint(_width(n, setting), (rows,), device=setting.device)


def _table(setting: Setting, rows: int) -> torch.Tensor:
    columns = (SMALL_HEAD if setting.small else HEAD) // 2
    return torch.rand((rows, columns), device=setting.device).to(setting.dtype)


def _rows(setting: Setting) -> int:
    return setting.batch * setting.tokens


def _gemm(model: Epilogue, inputs: Mapping[str, Any], _: str) -> Mapping[str, Callable[[], Any]]:
    w = model.w.detach()
    return {"GEMM": lambda: inputs["x"] @ w.T}


def _member(
    name: str,
    n: int,
    function: Callable[..., torch.Tensor],
    liger: Callable[..., torch.Tensor] | None = None,
    weights: int = 1,
    **rows: Tensor,
) -> Member:
    def build(setting: Setting) -> nn.Module:
        model = Epilogue(function, _width(n, setting), weights)
        return model.to(setting.device, setting.dtype).eval()

    inputs: Inputs = given(_rows, None, x=_normal(n), **rows)
    others = {} if liger is None else {LIGER: partial(_by_liger, liger)}
    return Member(f"{name} {n}", "epilogue", build, inputs, others, _gemm)


MEMBERS = [
    member
    for n in (2048, 4096)
    for member in (
        _member("residual", n, residual, r=_normal(n)),
        _member("bias + GELU", n, bias_gelu),
        _member("SwiGLU", n, swiglu, liger_swiglu, weights=2),
        _member("RMSNorm", n, rms_norm, liger_norm),
        _member("rotary", n, rotary, cos=_table, sin=_table),
        _member("cross entropy", n, cross_entropy, liger_cross_entropy, target=_target(n)),
    )
]

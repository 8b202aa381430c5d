"""The layer between two attentions of a Llama, as members of the fleet, beside its bare GEMMs.

    python -m fleet --members layer.py --models 'layer*' --tokens 8192 --json layer.json
    python -m fleet --members layer.py --models 'layer 4096' --tokens 8192 --parts training
    python -m fleet --members layer.py --models 'layer 4096' --tokens 64 --host    # host time
    python -m fleet --members layer.py --models 'float8 4096' --tokens 8192
    python -m fleet --members layer.py --models 'trained float8 4096' --tokens 8192 --parts training

Run in benchmarks/. Weights of gate and up are packed, and those of q, k and v: this suits PyTorch
best. They are normal, scaled by 1/sqrt(K). The members in float8 also run the layer quantized by
`coda_ir.quantize`, and by `torch._scaled_mm` under torch.compile.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from fleet.measure import CODA, COMPILED, LIGER, compilers
from fleet.models import Member, Setting, sharing_copy
from harness import Candidate
from liger import liger_layer
from llama_layer import EPS, LayerShape, angles, rotated
from torch import nn

import coda_ir
from coda_ir.frontends.torch.scaled_layers import (
    BLOCKS,
    ROWWISE,
    Scheme,
    quantized,
    quantized_weight,
)

SIZES = (2048, 4096, 8192)
SMALL = LayerShape(64, head_dim=16)
"""The layer on a CPU."""

_ATEN: Any = torch.ops.aten  # has no complete types
_OF_X, _OF_WEIGHT = [4], [5]
"""The numbers in `_scaled_mm_v2` of scales of 1 x 128 elements, and of 128 x 128."""


class LlamaLayer(nn.Module):
    """Output projection, MLP, and the projections to q, k and v, with norms and residuals."""

    def __init__(self, shape: LayerShape):
        super().__init__()
        d, f = shape.d, shape.f
        linear = partial(nn.Linear, bias=False)
        self.wo, self.gate_up, self.down = linear(d, d), linear(d, 2 * f), linear(f, d)
        self.qkv = linear(d, 3 * d)
        self.norm1, self.norm2 = (nn.RMSNorm(d, eps=EPS) for _ in range(2))
        for weight in self.parameters():
            if weight.dim() == 2:
                nn.init.normal_(weight, std=weight.shape[1] ** -0.5)
            else:
                nn.init.normal_(weight, mean=1.0, std=0.1)

    def forward(
        self, y: torch.Tensor, x0: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        """Return x2, q, k and v, of B x T x D."""
        x1 = x0 + self.wo(y)
        gate, up = self.gate_up(self.norm1(x1)).chunk(2, -1)
        x2 = x1 + self.down(F.silu(gate) * up)
        q, k, v = self.qkv(self.norm2(x2)).chunk(3, -1)
        return x2, rotated(q, cos, sin), rotated(k, cos, sin), v


class _Scaled(nn.Module):
    """A linear layer by `torch._scaled_mm`, quantized by rows like torchao's recipe `rowwise`."""

    def __init__(self, weight: torch.Tensor):
        super().__init__()
        elements, scales = quantized_weight(weight, ROWWISE)
        self.weight, self.scales = nn.Buffer(elements), nn.Buffer(scales.t())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, scales = quantized(x.flatten(0, -2), x.shape[-1])
        product = _ATEN._scaled_mm(q, self.weight.t(), scales, self.scales, out_dtype=x.dtype)
        return product.unflatten(0, x.shape[:-1])


class _Trained(torch.autograd.Function):
    """A product by `torch._scaled_mm`, forward and for the gradient of x, like torchao's recipe
    `rowwise`; the gradient of the weight is in bf16, like in `rowwise_with_gw_hp`.
    """

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        return _by_rows(x, weight)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        (dy,), (x, weight) = gradients, ctx.saved_tensors
        return _by_rows(dy, weight.t()), dy.flatten(0, -2).t() @ x.flatten(0, -2)


def _by_rows(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    q, of_x = quantized(x.flatten(0, -2), x.shape[-1])
    elements, of_weight = quantized(weight, weight.shape[-1])
    product = _ATEN._scaled_mm(
        q.contiguous(), elements.contiguous().t(), of_x, of_weight.t(), out_dtype=x.dtype
    )
    return product.unflatten(0, x.shape[:-1])


class _TrainedLinear(nn.Module):
    """A linear layer by `_Trained`, with the weight of another one."""

    def __init__(self, weight: nn.Parameter):
        super().__init__()
        self.weight = weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        function: Any = _Trained  # has no complete types
        return function.apply(x, self.weight)


def _compiled(variant: str, model: nn.Module) -> Callable[..., Any]:
    device = next(model.parameters()).device
    return compilers(Setting(device.type))[variant](model)


def _by_coda(recipe: str, model: nn.Module, *, training: bool = False) -> Callable[..., Any]:
    return _compiled(CODA, coda_ir.quantize(sharing_copy(model), recipe, training=training))


def _by_scaled_mm(make: Callable[[Any], nn.Module], model: LlamaLayer) -> Callable[..., Any]:
    layer = sharing_copy(model)
    for name in ("wo", "gate_up", "down", "qkv"):
        layer.set_submodule(name, make(layer.get_submodule(name).weight))
    return _compiled(COMPILED, layer)


FLOAT8: Mapping[str, Callable[[Any], Callable[..., Any]]] = {
    "rowwise": partial(_by_coda, "rowwise"),
    "blocks": partial(_by_coda, "blocks"),
    "torch.compile rowwise": partial(_by_scaled_mm, lambda weight: _Scaled(weight.detach())),
}
TRAINED: Mapping[str, Callable[[Any], Callable[..., Any]]] = {
    **{
        recipe: partial(_by_coda, recipe, training=True)
        for recipe in ("rowwise", "blocks", "all_rowwise", "all_blocks")
    },
    "torch.compile rowwise": partial(_by_scaled_mm, _TrainedLinear),
}


def _operands(model: LlamaLayer, rows: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return x (rows x K) and the weight (N x K) of each GEMM of the forward."""
    weights = [model.wo.weight, model.gate_up.weight, model.down.weight, model.qkv.weight]
    return [(torch.randn_like(w[0].expand(rows, -1)), w.detach()) for w in weights]


def _gemms(model: LlamaLayer, inputs: Mapping[str, Any], part: str) -> Mapping[str, Candidate]:
    """Return the four GEMMs of the forward, or these and the eight of the backward."""
    pairs = _operands(model, inputs["y"].shape[:-1].numel())
    if part == "forward":
        return {"GEMMs": lambda: [x @ w.T for x, w in pairs]}
    steps = [(x, w, torch.randn_like(x @ w.T)) for x, w in pairs]
    return {"GEMMs": lambda: [(x @ w.T, dy @ w, dy.T @ x) for x, w, dy in steps]}


def _float8_gemms(
    model: LlamaLayer, inputs: Mapping[str, Any], part: str
) -> Mapping[str, Candidate]:
    """Return the GEMMs, and in a forward on a GPU those in float8 with scales, by cuBLAS."""
    gemms = _gemms(model, inputs, part)
    if part != "forward" or not inputs["y"].is_cuda:
        return gemms
    pairs = _operands(model, inputs["y"].shape[:-1].numel())
    products = {
        f"GEMMs, {name}": [_product(x, w, scheme) for x, w in pairs]
        for name, scheme in {"rowwise": ROWWISE, "blocks": BLOCKS}.items()
    }
    return {
        **gemms,
        **{n: lambda calls=calls: [c() for c in calls] for n, calls in products.items()},
    }


def _product(a: torch.Tensor, w: torch.Tensor, scheme: Scheme) -> Candidate:
    x, of_x = quantized(a, scheme.depth_of(a.shape[-1]))
    weight, of_weight = quantized_weight(w, scheme)
    if scheme is ROWWISE:
        return lambda: _ATEN._scaled_mm(x, weight.t(), of_x, of_weight.t(), out_dtype=a.dtype)
    # cuBLAS wants the scales of a column of x side by side, and those of a weight in fours.
    of_x = of_x.t().contiguous().t()
    of_weight = F.pad(of_weight, (0, -of_weight.shape[1] % 4)).t()
    return lambda: _ATEN._scaled_mm_v2.default(
        *(x, weight.t(), [of_x], _OF_X, [0], [of_weight], _OF_WEIGHT, [0], None, a.dtype)
    )


def _member(prefix: str, d: int, others: Mapping[str, Any], baselines: Any) -> Member:
    def shape_of(setting: Setting) -> LayerShape:
        return SMALL if setting.small else LayerShape(d)

    def build(setting: Setting) -> nn.Module:
        with torch.device(setting.device):
            return LlamaLayer(shape_of(setting)).to(setting.dtype)

    def inputs(_: Any, setting: Setting) -> Mapping[str, torch.Tensor]:
        shape = shape_of(setting)
        rows = (setting.batch, setting.tokens, shape.d)
        y, x0 = (torch.randn(rows, device=setting.device).to(setting.dtype) for _ in range(2))
        angle = angles(setting.tokens, shape.head_dim, setting.device)
        cos, sin = (table.to(setting.dtype) for table in (angle.cos(), angle.sin()))
        return {"y": y.requires_grad_(), "x0": x0.requires_grad_(), "cos": cos, "sin": sin}

    return Member(f"{prefix} {d}", "layer", build, inputs, others, baselines)


MEMBERS = [
    member
    for d in SIZES
    for member in (
        _member("layer", d, {LIGER: liger_layer}, _gemms),
        _member("float8", d, FLOAT8, _float8_gemms),
        _member("trained float8", d, TRAINED, _gemms),
    )
]

"""Causal attention, as members of the fleet, beside each of PyTorch's kernels.

    python -m fleet --members attention.py --parts training --variants eager --tokens 8192

Run in benchmarks/. `coda` is a program in text: in a graph without a GEMM, attention is left to
PyTorch. Its gradients have the same bits in every run.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from fleet.measure import CODA
from fleet.models import Member, Setting
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

import coda_ir

CASES = ((32, 32, 128), (32, 8, 128), (16, 16, 64), (8, 8, 256))
"""Heads of queries, heads of keys, and columns of a head."""


PROGRAM = """
const HEADS = 32
const KV_HEADS = 8
const HEAD = 128
fn attend(q: bf16[B, T, HEADS * HEAD], k: bf16[B, T, KV_HEADS * HEAD],
          v: bf16[B, T, KV_HEADS * HEAD]) {
    return attention(q, k, v, head_dim=HEAD, causal=true)
}
"""


class Attention(nn.Module):
    """Attention of heads that lie side by side in the columns of q, k and v (B x T x ...)."""

    def __init__(self, heads: int, kv_heads: int, head_dim: int, setting: Setting):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, head_dim
        self.setting = setting

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        is_shared = q.shape != k.shape
        q, k, v = (x.view(*x.shape[:2], -1, self.head_dim).transpose(1, 2) for x in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=is_shared)
        return y.transpose(1, 2).flatten(-2)


def _by(kernel: SDPBackend, model: nn.Module) -> Callable[..., torch.Tensor]:
    def attend(**inputs: torch.Tensor) -> torch.Tensor:
        with sdpa_kernel(kernel):
            return model(**inputs)

    return attend


def _by_coda(model: Attention) -> Callable[..., torch.Tensor]:
    sizes = {"HEADS": model.heads, "KV_HEADS": model.kv_heads, "HEAD": model.head_dim}
    text = PROGRAM if model.setting.dtype == torch.bfloat16 else PROGRAM.replace("bf16", "f32")
    target = "reference" if model.setting.device == "cpu" else "triton"
    device = model.setting.device
    return coda_ir.compile(text, training=True, constants=sizes, device=device, target=target)


KERNELS: Mapping[str, Callable[[Any], Callable[..., Any]]] = {
    CODA: _by_coda,
    "flash": partial(_by, SDPBackend.FLASH_ATTENTION),
    "efficient": partial(_by, SDPBackend.EFFICIENT_ATTENTION),
    "cuDNN": partial(_by, SDPBackend.CUDNN_ATTENTION),
}
"""This package's kernels, and PyTorch's; the one that it chooses itself is `eager`."""


def _member(heads: int, kv_heads: int, head_dim: int) -> Member:
    def build(setting: Setting) -> Attention:
        divisor = 8 if setting.small else 1
        return Attention(heads // divisor, kv_heads // divisor, head_dim, setting)

    def inputs(model: Any, setting: Setting) -> Mapping[str, torch.Tensor]:
        counts = {"q": model.heads, "k": model.kv_heads, "v": model.kv_heads}
        shapes = {n: (setting.batch, setting.tokens, c * head_dim) for n, c in counts.items()}
        return {
            name: torch.randn(shape, device=setting.device, dtype=setting.dtype).requires_grad_()
            for name, shape in shapes.items()
        }

    name = f"{heads} heads of {head_dim} and {kv_heads} of keys"
    return Member(name, "attention", build, inputs, KERNELS)


MEMBERS = [_member(*case) for case in CASES]

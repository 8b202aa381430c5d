"""Causal attention, as members of the fleet, beside each of PyTorch's kernels.

    python -m fleet --members attention.py --parts training --variants coda-kernels --tokens 4096

Run in benchmarks/. `coda-kernels` is attention by this package's kernels, which `coda` may leave to
PyTorch. Its gradients have the same bits in every run.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from fleet.models import Member, Setting
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

CASES = ((32, 32, 128), (32, 8, 128), (16, 16, 64), (8, 8, 256))
"""Heads of queries, heads of keys, and columns of a head."""


class Attention(nn.Module):
    """Attention of heads that lie side by side in the columns of q, k and v (B x T x ...)."""

    def __init__(self, head_dim: int):
        super().__init__()
        self.head_dim = head_dim

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


KERNELS: Mapping[str, Callable[[Any], Callable[..., Any]]] = {
    "flash": partial(_by, SDPBackend.FLASH_ATTENTION),
    "efficient": partial(_by, SDPBackend.EFFICIENT_ATTENTION),
    "cuDNN": partial(_by, SDPBackend.CUDNN_ATTENTION),
}
"""PyTorch's kernels; the one that it chooses itself is `eager`."""


def _member(heads: int, kv_heads: int, head_dim: int) -> Member:
    def inputs(_: Any, setting: Setting) -> Mapping[str, torch.Tensor]:
        divisor = 8 if setting.small else 1
        shape = (setting.batch, setting.tokens)
        counts = {"q": heads, "k": kv_heads, "v": kv_heads}
        return {
            name: torch.randn(
                (*shape, count // divisor * head_dim), device=setting.device, dtype=setting.dtype
            ).requires_grad_()
            for name, count in counts.items()
        }

    name = f"{heads} heads of {head_dim} and {kv_heads} of keys"
    return Member(name, "attention", lambda _: Attention(head_dim), inputs, KERNELS)


MEMBERS = [_member(*case) for case in CASES]

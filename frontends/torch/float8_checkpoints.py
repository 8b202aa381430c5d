"""Linear layers of transformers' FP8 checkpoints (`weight_scale_inv`), whose own kernels no graph
shows.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any

import torch

from coda_ir.diagnostics import CodaError
from coda_ir.frontends.torch.scaled_layers import (
    FLOAT8,
    LARGEST,
    SCALED_LINEAR,
    Scheme,
    scaled_linear,
)

MODULE, FUNCTION = "transformers.integrations.finegrained_fp8", "fp8_linear"


@cache
def keep_float8_layers() -> None:
    """Make torch.compile trace the linear layers of transformers' FP8 checkpoints as products with
    scales of blocks, in place of the kernels that transformers downloads.

    From here on torch.compile traces them so for every backend; what is not traced runs as before.
    `coda_ir.export` does it by itself. Raises CodaError for a version of transformers without these
    layers.
    """
    try:
        function: Any = getattr(import_module(MODULE), FUNCTION)
    except (ImportError, AttributeError) as error:
        raise CodaError(
            f"transformers has no {MODULE}.{FUNCTION}", "install transformers 5 or later"
        ) from error
    torch.compiler.substitute_in_graph(function, skip_signature_check=True)(float8_linear)


@contextmanager
def float8_layers_kept() -> Generator[None]:
    """Let these layers call `float8_linear`, where a model may have them, while it is captured."""
    module = sys.modules.get(MODULE)
    if module is None or not hasattr(module, FUNCTION):
        yield
        return
    own = getattr(module, FUNCTION)
    setattr(module, FUNCTION, float8_linear)
    try:
        yield
    finally:
        setattr(module, FUNCTION, own)


def float8_linear(
    input: torch.Tensor,
    weight: torch.Tensor,
    weight_scale_inv: torch.Tensor,
    block_size: Sequence[int] | None = None,
    bias: torch.Tensor | None = None,
    activation_scale: torch.Tensor | None = None,
    allow_deepgemm: bool = True,
) -> torch.Tensor:
    """The layer of a checkpoint, as transformers calls it: `weight` (N x K, e4m3) with a scale for
    each block of `block_size` (rows, then K), or one for all of it, and an input that is quantized
    by 1 x K of a block (of all of K), or by the static `activation_scale`.

    The scales are float32; those in `float8_e8m0fnu` are converted.
    """
    rows, depth = block_size or weight.shape
    scales = weight_scale_inv.float()
    if not scales.ndim:
        scales = scales.reshape(1, 1)
    scheme = Scheme(depth, rows)
    if activation_scale is None:
        return scaled_linear(input, weight, scales, bias, scheme)
    q = (input.float() / activation_scale).clamp(-LARGEST, LARGEST).to(FLOAT8)
    blocks = -(-input.shape[-1] // depth)
    x_scales = activation_scale.float().reshape(1).expand(*input.shape[:-1], blocks)
    return SCALED_LINEAR(q, weight, x_scales, scales, bias, depth, rows, input.dtype)

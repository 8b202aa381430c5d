"""Random arguments for a function of the IR, with sizes for the symbols that a test leaves open."""

import random
import zlib
from collections.abc import Mapping

import torch
from xdsl.dialects.func import FuncOp

from coda_ir import CompiledFunction
from coda_ir.random_inputs import bind_symbols, random_arguments


def random_inputs(
    func: FuncOp,
    dims: Mapping[str, int] | None = None,
    dtype: torch.dtype | None = None,
    seed: int = 0,
    *,
    spread: bool = False,
) -> list[torch.Tensor]:
    """One tensor per parameter of `func`, the same for the same `seed`.

    `dims` gives the extents of symbols; the others are between 2 and 6. See `random_arguments`.
    """

    def choose(_: int, symbol: str) -> int:
        return random.Random(zlib.crc32(symbol.encode()) + seed).randint(2, 6)

    sizes = bind_symbols(func, choose) | dict(dims or {})
    values = "spread" if spread else "normal"
    return random_arguments(func, sizes, seed=seed, values=values, dtype=dtype)


def signature_inputs(
    function: CompiledFunction, sizes: Mapping[str, int], seed: int = 0, device: str = "cuda"
) -> list[torch.Tensor]:
    """Normal arguments of a compiled function, weights scaled so that products are of order 1."""
    generator = torch.Generator().manual_seed(seed)
    tensors: list[torch.Tensor] = []
    for spec in function.signature.arguments:
        shape = [sizes[dim] if isinstance(dim, str) else dim or 1 for dim in spec.dims]
        scale = shape[-1] ** -0.5 if spec.is_weight and len(shape) == 2 else 1.0
        normal = torch.randn(shape, generator=generator) * scale
        tensors.append(normal.to(device, spec.dtype))
    return tensors

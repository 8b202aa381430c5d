"""Random tensors that a GEMM is measured on: never zeros, which let a GPU run faster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from xdsl.dialects.func import FuncOp

from coda_ir.random_inputs.draw import INTEGER_LIMIT, size_of
from coda_ir.random_inputs.roles import GemmWeight, roles_of
from coda_ir.signatures import stated_dtype
from coda_ir.symbolic_shapes import SymbolicShapes
from coda_ir.tuning.problem import Problem

MOST_SETS = 8
SMALLEST_CACHE = 32 << 20
"""Bytes that an L2 cache is taken for where PyTorch does not say."""


def argument_shapes(problem: Problem, sizes: Mapping[str, int]) -> list[tuple[list[int], str]]:
    """Shape and PyTorch's name of the type of each argument."""
    func = problem.func
    shapes = SymbolicShapes(func)
    return [
        (
            [size_of(dim, sizes) for dim in shapes.dims(argument)],
            str(stated_dtype(argument.type)).removeprefix("torch."),
        )
        for argument in func.args
    ]


def make_inputs(problem: Problem, device: torch.device) -> list[list[torch.Tensor]]:
    """Sets of arguments, as many as it takes to exceed the L2 cache of `device` twice."""
    first = _draw(problem, device, 0)
    size = sum(tensor.numel() * tensor.element_size() for tensor in first)
    sets = min(MOST_SETS, 1 + 2 * _cache_bytes(device) // max(1, size))
    return [first, *(_draw(problem, device, seed) for seed in range(1, sets))]


def _cache_bytes(device: torch.device) -> int:
    if device.type == "cpu":
        return SMALLEST_CACHE
    cuda: Any = torch.cuda  # its properties have no types
    properties = cuda.get_device_properties(device)
    return max(SMALLEST_CACHE, int(getattr(properties, "L2_cache_size", 0)))


def _draw(problem: Problem, device: torch.device, seed: int) -> list[torch.Tensor]:
    func = problem.func
    generator = torch.Generator(device).manual_seed(seed)
    return [
        _tensor(func, index, shape, getattr(torch, dtype), device, generator)
        for index, (shape, dtype) in enumerate(argument_shapes(problem, problem.sizes))
    ]


def _tensor(
    func: FuncOp,
    index: int,
    shape: list[int],
    dtype: torch.dtype,
    device: torch.device,
    generator: torch.Generator,
) -> torch.Tensor:
    """Normal, weights with variance 1/K; integers are small: they index whatever they do."""
    roles = list(roles_of(func.args[index]))
    if not dtype.is_floating_point:
        high = 2 if dtype == torch.bool else INTEGER_LIMIT
        return torch.randint(high, shape, device=device, generator=generator).to(dtype)
    normal = torch.randn(shape, device=device, generator=generator)
    ks = [role.k or shape[-1] for role in roles if isinstance(role, GemmWeight)]
    return (normal / ks[0] ** 0.5 if ks else normal).to(dtype)

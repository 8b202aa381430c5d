"""Random arguments for a function of the IR, plausible for what the function does with them."""

import random
import zlib
from collections.abc import Mapping

import torch
from xdsl.dialects.builtin import UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue, Use

from coda_ir.backends.reference.numerics import stated_dtype
from coda_ir.dialects import coda
from coda_ir.dialects.gemm import FusedOp, Layout
from coda_ir.symbolic_shapes import SymbolicShapes, SymbolicSize, declared_dims

INTEGER_LIMIT = 4
"""Integers of which no use tells the range are below this."""


def random_inputs(
    func: FuncOp,
    dims: Mapping[str, int] | None = None,
    dtype: torch.dtype | None = None,
    seed: int = 0,
    *,
    spread: bool = False,
) -> list[torch.Tensor]:
    """One tensor per parameter of `func`, the same for the same `seed`.

    `dims` gives the extents of symbols; the others are between 2 and 6. Floats have the stated
    type, or `dtype`. Weights of GEMMs are normal with variance 1/K, norm weights are around 1, cos
    and sin belong to the same angles, integers are in the range of what they index (targets
    include the ignored index). With `spread`, rows of activations have magnitudes from 1e-3 to
    10, so that an eps that is lost shows up.
    """
    shapes = SymbolicShapes(func)
    extents = _bind_symbols(shapes, func, dict(dims or {}), seed)
    draw = _Draw(shapes, extents, spread)
    tensors: list[torch.Tensor] = []
    for index, parameter in enumerate(func.args):
        shape = [size_of(dim, extents) for dim in shapes.dims(parameter)]
        generator = torch.Generator().manual_seed(seed * 1009 + index)
        tensor = draw.parameter(func, parameter, shape, generator)
        stated = stated_dtype(parameter.type)
        floating = stated.is_floating_point
        tensors.append(tensor.to(dtype if dtype is not None and floating else stated))
    return tensors


def size_of(dim: int | str, extents: Mapping[str, int]) -> int:
    """The number that a dimension stands for."""
    return SymbolicSize.product([dim]).evaluate(extents)


def _bind_symbols(
    shapes: SymbolicShapes, func: FuncOp, extents: dict[str, int], seed: int
) -> dict[str, int]:
    """Extents for every symbol; dynamic extents without a name are all the same, `dims["?"]`."""
    entries = func.arg_attrs.data if func.arg_attrs else ()
    for index, parameter in enumerate(func.args):
        declared = declared_dims(entries[index]) if index < len(entries) else None
        for dim in shapes.dims(parameter):
            name = str(dim) if declared and dim in declared else "?"
            size = random.Random(zlib.crc32(name.encode()) + seed).randint(2, 6)
            if isinstance(dim, str):
                extents.setdefault(dim, extents.get(name, size))
    return extents


class _Draw:
    """Draws parameters, each by how it is used."""

    def __init__(self, shapes: SymbolicShapes, extents: Mapping[str, int], spread: bool):
        self.shapes = shapes
        self.extents = extents
        self.spread = spread

    def parameter(
        self, func: FuncOp, parameter: SSAValue, shape: list[int], generator: torch.Generator
    ) -> torch.Tensor:
        if not stated_dtype(parameter.type).is_floating_point:
            return self._integers(parameter, shape, generator)
        table = _table_kind(parameter)
        if table is not None:
            return _rotation(shape, table)
        normal = torch.randn(shape, generator=generator, dtype=torch.float64)
        fan_in = self._fan_in(parameter, shape)
        if fan_in is not None:
            return normal / fan_in**0.5
        if len(shape) == 1:
            return _row_parameter(parameter, normal)
        if self.spread and shape and not _is_weight(func, parameter):
            exponent = torch.rand([*shape[:-1], 1], generator=generator, dtype=torch.float64)
            return normal * 10 ** (4 * exponent - 3)
        return normal

    def _integers(
        self, parameter: SSAValue, shape: list[int], generator: torch.Generator
    ) -> torch.Tensor:
        limit, ignored = INTEGER_LIMIT, None
        for use in parameter.uses:
            op = use.operation
            if isinstance(op, coda.CrossEntropyOp):
                limit = size_of(self.shapes.dims(op.logits)[-1], self.extents)
                ignored = op.ignore_index.value.data
            elif isinstance(op, coda.EmbeddingOp):
                limit = size_of(self.shapes.dims(op.table)[0], self.extents)
        drawn = torch.randint(limit, shape, generator=generator)
        if ignored is None or drawn.numel() < 3:
            return drawn
        return torch.where(torch.rand(shape, generator=generator) < 0.2, ignored, drawn)

    def _fan_in(self, parameter: SSAValue, shape: list[int]) -> int | None:
        """K of the GEMM whose weight the parameter is."""
        for use in parameter.uses:
            k_dim = _k_dimension(use)
            if k_dim is not None:
                return shape[k_dim]
        return None


def _k_dimension(use: Use) -> int | None:
    """Which dimension of a weight is K, None where the use is not as a weight."""
    match use.operation:
        case coda.LinearOp() if use.index == 1:
            return 1
        case coda.MatmulOp() if use.index == 1:
            return 0
        case FusedOp() as op if 1 <= use.index <= len(op.weights):
            layouts = [s.layout for s in op.segments() for _ in s.weights]
            return 1 if layouts[use.index - 1] == Layout.NK else 0
        case _:
            return None


def _is_weight(func: FuncOp, parameter: SSAValue) -> bool:
    for argument, entry in zip(func.args, func.arg_attrs or (), strict=False):
        if argument is parameter:
            return isinstance(entry.data.get("coda.weight"), UnitAttr)
    return False


def _row_parameter(parameter: SSAValue, normal: torch.Tensor) -> torch.Tensor:
    """A norm's weight is around 1, anything else (a bias) around 0."""
    scales = any(
        isinstance(use.operation, coda.RMSNormOp | coda.LayerNormOp | coda.MulOp) and use.index == 1
        for use in parameter.uses
    )
    return 1 + 0.2 * normal if scales else 0.2 * normal


def _table_kind(parameter: SSAValue) -> str | None:
    """`cos` or `sin` for a table of rotary angles."""
    for use in parameter.uses:
        if isinstance(use.operation, coda.RopeOp) and use.index in (1, 2):
            return "cos" if use.index == 1 else "sin"
    hint = parameter.name_hint or ""
    return next((kind for kind in ("cos", "sin") if hint.startswith(kind)), None)


def _rotation(shape: list[int], kind: str) -> torch.Tensor:
    """cos or sin of position times frequency, (..., positions x head_dim/2)."""
    positions = torch.arange(shape[-2], dtype=torch.float64)[:, None]
    if len(shape) > 2:
        # Every sequence of a batch starts at another position.
        starts = torch.arange(shape[0], dtype=torch.float64).reshape(-1, *[1] * (len(shape) - 1))
        positions = positions + 3 * starts
    frequencies = 100.0 ** -torch.linspace(0, 1, shape[-1], dtype=torch.float64)
    angles = (positions * frequencies).expand(shape)
    return (angles.cos() if kind == "cos" else angles.sin()).contiguous()

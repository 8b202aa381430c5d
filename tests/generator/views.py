"""Views: slices, splits, transposes, reshapes, and views of these, of parameters and of values."""

from collections.abc import Callable
from math import prod
from typing import NamedTuple, TypeAlias

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import Attribute, Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of
from coda_ir.symbolic_shapes import Dims
from generator.function_builder import FunctionBuilder, tensor_of


class Shaped(NamedTuple):
    """A value with its dimensions, in which symbols have their names."""

    value: SSAValue
    dims: Dims


Inverse: TypeAlias = tuple[Dims, Callable[[SSAValue], Operation]]
"""The dimensions of what is viewed, and the operator that views it."""

# Views that have given dimensions


def view_parameter(
    b: FunctionBuilder, dims: Dims, element: Attribute, depth: int = 2, hint: str = "viewed"
) -> SSAValue:
    """A view of `dims` of a new parameter, through up to `depth` operators; mostly through all."""
    if not depth or (depth == 1 and b.choices.chance(30)):
        return b.parameter(dims, element, hint=hint)
    inner, back = b.choices.pick((_sliced_to, _transposed_to, _reshaped_to))(b, dims)
    return b.add(back(view_parameter(b, inner, element, depth - 1, hint)))


def _sliced_to(b: FunctionBuilder, dims: Dims) -> Inverse:
    """A range of any dimension of known extent; mostly of the last one."""
    axes = [axis for axis, dim in enumerate(dims) if isinstance(dim, int)]
    if not axes:
        return _transposed_to(b, dims)
    axis = axes[-1] if b.choices.chance(50) else b.choices.pick(axes)
    extent = dims[axis]
    assert isinstance(extent, int)
    # Kernels read aligned ranges where they are; others are copied.
    unit = b.choices.pick((8, extent, 1, 4))
    before, after = (unit * b.choices.below(3) for _ in range(2))
    wider = (*dims[:axis], before + extent + after, *dims[axis + 1 :])
    return wider, lambda source: coda.SliceOp(source, axis, before, before + extent)


def _transposed_to(b: FunctionBuilder, dims: Dims) -> Inverse:
    perm = draw_permutation(b, len(dims))
    source = tuple(dims[perm.index(origin)] for origin in range(len(dims)))
    return source, lambda value: coda.TransposeOp(value, perm)


def _reshaped_to(b: FunctionBuilder, dims: Dims) -> Inverse:
    """From other dimensions after the last symbol."""
    kept = symbolic_dims(dims)
    size = prod(dim for dim in dims[kept:] if isinstance(dim, int))
    shape = [DYNAMIC_INDEX if isinstance(dim, str) else dim for dim in dims]
    return (*dims[:kept], *draw_factors(b, size)), lambda value: coda.ReshapeOp(value, shape)


def symbolic_dims(dims: Dims) -> int:
    """Return how many dimensions there are up to the last symbol."""
    return max((at for at, dim in enumerate(dims, 1) if isinstance(dim, str)), default=0)


def draw_permutation(b: FunctionBuilder, rank: int) -> list[int]:
    """Two dimensions exchanged, or all in another order."""
    perm = list(range(rank))
    one = b.choices.below(rank)
    other = b.choices.below(rank)
    perm[one], perm[other] = perm[other], perm[one]
    if rank > 2 and b.choices.chance(30):
        perm = [*perm[1:], perm[0]]
    return perm


def draw_factors(b: FunctionBuilder, size: int) -> list[int]:
    """Numbers with that product."""
    divisors = [n for n in (size, 2, 4, 1, 3) if size and size % n == 0]
    first = b.choices.pick(divisors)
    if first == size and b.choices.chance(70):
        return [size]
    return [first, size // first] if b.choices.chance(60) else [size // first, first]


# What broadcasts


def broadcast_dims(b: FunctionBuilder, dims: Dims) -> Dims:
    """`dims` with 1 for any of them, or without leading ones."""
    kept = dims[b.choices.below(len(dims)) if b.choices.chance(30) else 0 :]
    ones = [axis for axis in range(len(kept)) if b.choices.chance(40)]
    if not ones:
        ones = [b.choices.below(len(kept))]
    return tuple(1 if axis in ones else dim for axis, dim in enumerate(kept))


# Views of what is computed


def view_of(b: FunctionBuilder, x: Shaped) -> Shaped:
    """Another view of x, in any of the ways in which its dimensions allow it."""
    match b.choices.pick(("slice", "transpose", "reshape")):
        case "slice":
            return _sliced(b, x)
        case "transpose" if len(x.dims) > 1:
            perm = draw_permutation(b, len(x.dims))
            dims = tuple(x.dims[origin] for origin in perm)
            return Shaped(b.add(coda.TransposeOp(x.value, perm)), dims)
        case _:
            return _reshaped(b, x)


def _sliced(b: FunctionBuilder, x: Shaped) -> Shaped:
    axes = [axis for axis, dim in enumerate(x.dims) if isinstance(dim, int) and dim > 1]
    if not axes:
        return x
    axis = b.choices.pick(axes[::-1])
    extent = x.dims[axis]
    assert isinstance(extent, int)
    parts = [each for each in (2, 4, 3) if extent % each == 0]
    if parts and b.choices.chance(70):
        size = extent // b.choices.pick(parts)
        start = size * b.choices.below(extent // size)
    else:
        start = b.choices.below(extent)
        size = b.choices.integer(1, extent - start)
    value = b.add(coda.SliceOp(x.value, axis, start, start + size))
    return Shaped(value, (*x.dims[:axis], size, *x.dims[axis + 1 :]))


def _reshaped(b: FunctionBuilder, x: Shaped) -> Shaped:
    kept = symbolic_dims(x.dims)
    size = prod(dim for dim in x.dims[kept:] if isinstance(dim, int))
    dims = (*x.dims[:kept], *draw_factors(b, size))
    shape = tensor_of(dims, element_type_of(x.value)).get_shape()
    return Shaped(b.add(coda.ReshapeOp(x.value, shape)), dims)


def broadcast_view(b: FunctionBuilder, x: SSAValue) -> SSAValue:
    """A view that broadcasts to the tile x over leading, middle or last dimensions."""
    dims = broadcast_dims(b, b.tile_dims(b.columns_of(x)))
    return view_parameter(b, dims, element_type_of(x))

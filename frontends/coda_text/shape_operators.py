"""Operators that move or view elements: reshape, transpose, slice, split, concat and others."""

from collections.abc import Callable, Sequence

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import broadcast_shapes
from coda_ir.frontends.coda_text.arguments import Mistake
from coda_ir.frontends.coda_text.invocation import Invocation
from coda_ir.frontends.coda_text.remedies import product_remedy
from coda_ir.frontends.coda_text.values import (
    ELEMENT_TYPES,
    INDEX_TYPES,
    MAX_TERMS,
    SIZE_LIMITS,
    Dim,
    Dims,
    TensorValue,
    TupleValue,
    Value,
    describe,
    divided,
    extent,
    format_dims,
    product_of,
    simplified,
)
from coda_ir.symbolic_size import SymbolicSize

MAX_PARTS = 16
"""Sizes that a remedy writes, at most."""


def reshape(call: Invocation) -> TensorValue:
    """One size may be -1: it is what is left."""
    x, shape = call.tensor("x"), list(call.sizes("shape"))
    free = [index for index, dim in enumerate(shape) if dim == -1]
    total = _elements(x.dims, "x")
    if any(isinstance(dim, int) and dim < (-1 if len(free) == 1 else 0) for dim in shape):
        raise call.wrong(
            "shape",
            "expected sizes, of which one may be -1",
            given=format_dims(shape),
            code="E0507",
        )
    if free:
        rest = divided(total, _elements([dim for dim in shape if dim != -1], "shape"))
        shape[free[0]] = -1 if rest is None else rest
    if _elements(shape, "shape") != total or -1 in shape:
        raise Mistake(
            f"reshape: x is {x.type} with {total} elements, which do not fill "
            f"{format_dims(call.sizes('shape'))}",
            _remedy_of_symbol(x.dims, shape),
            "E0507",
            argument="shape",
        )
    return call.emit_reshape(x, tuple(shape))


def _remedy_of_symbol(dims: Sequence[Dim], shape: Sequence[Dim]) -> str | None:
    """The declaration with which the shape would be right; None where no single symbol differs."""
    left = [dim for dim in dims if dim not in shape]
    if len(left) != 1 or isinstance(left[0], int):
        return None
    size = _elements([dim for dim in shape if dim not in dims and dim != -1], "shape")
    if -1 in shape:
        return product_remedy(left[0], size)
    return f"a symbol equals no other size: if {left[0]} is always {size}, declare x with that"


def _elements(dims: Sequence[Dim], argument: str) -> Dim:
    """The product of extents. Raises Mistake where it has too many terms to be calculated with."""
    total: Dim = 1
    for dim in dims:
        total = product_of((total, dim))
        if isinstance(total, SymbolicSize) and len(total.terms) > MAX_TERMS:
            raise Mistake(
                f"reshape: the number of elements of {argument} has more than {MAX_TERMS} terms",
                SIZE_LIMITS,
                "E0506",
                argument=argument,
            )
    return total


def transpose(call: Invocation) -> TensorValue:
    x = call.tensor("x")
    rank = len(x.dims)
    if call.given("axes"):
        axes = [axis % rank if -rank <= axis < rank else axis for axis in call.integers("axes")]
    elif rank >= 2:
        axes = [*range(rank - 2), rank - 1, rank - 2]
    else:
        raise call.wrong("x", "expected rank 2 or more", code="E0507")
    if sorted(axes) != list(range(rank)):
        raise Mistake(
            f"transpose: axes are {format_dims(call.sizes('axes'))}, expected a permutation of "
            f"{format_dims(tuple(range(rank)))}",
            argument="axes",
            code="E0507",
        )
    return call.make(coda.TransposeOp, x, axes)


def slice_(call: Invocation) -> TensorValue:
    x = call.tensor("x", least_rank=1)
    dim = call.axis("dim", len(x.dims), 0)
    size = x.dims[dim]
    start = call.integer("start", 0)
    if not call.given("stop") and not isinstance(size, int):
        raise Mistake(
            f"slice: dimension {dim} of x {x.type} is symbolic, so that the stop must be given",
            f"a subscript does not need it: x[{':, ' * dim}{start}:]",
            "E0505",
            argument="x",
        )
    stop = call.integer("stop", size if isinstance(size, int) else 0)
    return _slice(call, x, dim, start, stop)


def _slice(call: Invocation, x: TensorValue, dim: int, start: int, stop: int) -> TensorValue:
    size = x.dims[dim]
    if not 0 <= start < stop or (isinstance(size, int) and stop > size):
        raise Mistake(
            f"{call.name}: {start} to {stop} is not a range of the {size} elements of "
            f"dimension {dim} of x {x.type}",
            argument="stop" if call.given("stop") else "start" if call.given("start") else "x",
            code="E0505",
        )
    return call.make(coda.SliceOp, x, dim, start, stop)


def split(call: Invocation) -> Value:
    """Consecutive slices of the last dimension, or of `dim`, that fill it."""
    x = call.tensor("x", least_rank=1)
    dim = call.axis("dim", len(x.dims), -1)
    _expect_list(call, x.dims[dim])
    sizes = call.integers("sizes")
    if any(size < 1 for size in sizes) or sum(sizes) != x.dims[dim]:
        raise Mistake(
            f"split: sizes are {format_dims(sizes)}, expected sizes with the sum "
            f"{x.dims[dim]} of dimension {dim} of x {x.type}",
            argument="sizes",
            code="E0507",
        )
    starts = [sum(sizes[:index]) for index in range(len(sizes))]
    parts = [_slice(call, x, dim, a, a + n) for a, n in zip(starts, sizes, strict=True)]
    return TupleValue(tuple(parts))


def chunk(call: Invocation) -> Value:
    """Equal parts of a dimension."""
    x, count = call.tensor("x", least_rank=1), call.integer("n", 0)
    dim = call.axis("dim", len(x.dims), -1)
    size = x.dims[dim]
    if not isinstance(size, int) or count < 1 or size % count:
        raise call.wrong(
            "n",
            f"expected a divisor of the {size} elements of dimension {dim} of x {x.type}",
            "the parts of split(x, sizes) may differ"
            if isinstance(size, int)
            else "give x a constant number of elements there",
            given=count,
        )
    part = size // count
    return TupleValue(tuple(_slice(call, x, dim, at, at + part) for at in range(0, size, part)))


def broadcast(call: Invocation) -> TensorValue:
    """x repeated along the dimensions that it lacks or that have extent 1."""
    x, shape = call.tensor("x"), call.sizes("shape")
    if broadcast_shapes(x.dims, shape) != shape:
        raise Mistake(
            f"broadcast: x is {x.type}, which does not broadcast to {format_dims(shape)}",
            "extents stay or are 1 in x; new dimensions come first",
            "E0502",
            argument="shape",
        )
    return broadcast_to(call, x, shape)


def broadcast_to(call: Invocation, x: TensorValue, shape: Dims) -> TensorValue:
    """x repeated to a shape that it broadcasts to."""
    if x.dims == shape:
        return x
    before = (1,) * (len(shape) - len(x.dims)) + tuple(x.dims)
    if all(isinstance(n, int) for n, old in zip(shape, before, strict=True) if n != old):
        return call.emit(coda.BroadcastOp(x.ssa, [extent(dim) for dim in shape]), shape)
    sizes = f"{{0}}, {format_dims(shape)}"
    return call.emit_call("aten.expand.default", x, sizes, shape, view=True)


def pad(call: Invocation) -> TensorValue:
    """`value` before and after the elements of a dimension."""
    x = call.tensor("x", least_rank=1)
    dim = call.axis("dim", len(x.dims), -1)
    before, after = call.integer("before", 0), call.integer("after", 0)
    value = call.number("value", 0)
    if before < 0 or after < 0:
        wrong = "before" if before < 0 else "after"
        raise call.wrong(
            wrong, "expected 0 or more", "x[:, 1:] drops elements", given=min(before, after)
        )
    if not x.type.is_float and not isinstance(value, int):
        raise call.wrong("value", f"but x is {x.type}", given=value)
    if before == after == 0:
        return x
    return padded(call, x, dim, (before, after), float(value) if x.type.is_float else value)


def padded(
    call: Invocation, x: TensorValue, dim: int, around: tuple[int, int], value: float | int
) -> TensorValue:
    """x with numbers before and after the elements of a dimension."""
    before, after = around
    op = coda.PadOp.around(x.ssa, dim, before, after, value)
    size = SymbolicSize.constant(before + after) + x.dims[dim]
    dims = (*x.dims[:dim], simplified(size), *x.dims[dim + 1 :])
    return call.emit(op, dims) if op.after is None else call.emit_stated(op, dims)


def arange(call: Invocation) -> TensorValue:
    """start, start + step and so on: n whole numbers."""
    size, element = call.size("n"), call.element_type("dtype") or "i64"
    if element not in INDEX_TYPES:
        raise call.wrong(
            "dtype",
            "expected i32 or i64",
            "convert them: cast(arange(n), f32)",
            "E0501",
            given=element,
        )
    step = call.integer("step", 1)
    if step == 0:
        raise Mistake("arange: step is 0, expected another number", argument="step")
    extent = size if isinstance(size, int) else call.holder(size)
    if extent is None or (isinstance(extent, int) and extent < 0):
        raise call.wrong(
            "n",
            "expected 0 or more, or an extent of a tensor",
            "n is a number, or a symbol of the parameters",
            given=size,
        )
    start = call.integer("start", 0)
    numbers = coda.PositionsOp(extent, start=start, step=step, element_type=ELEMENT_TYPES[element])
    return call.emit(numbers, (size,))


def _expect_list(call: Invocation, size: Dim) -> None:
    """Raise for the one size of all parts, as PyTorch has it."""
    part = call.value("sizes")
    count = divided(size, part) if isinstance(part, int) and part else None
    if part is not None and isinstance(count, int) and 0 < count <= MAX_PARTS:
        raise call.wrong(
            "sizes",
            "expected the sizes of all parts",
            f"write [{', '.join([str(part)] * count)}]",
            "E0508",
            given=describe(part),
        )


def concat(call: Invocation) -> TensorValue:
    parts = [call.as_tensor("parts", value) for value in call.values.get("parts", ())]
    if not parts:
        raise Mistake("concat is called without tensors", "write concat(a, b, dim=-1)", "E0401")
    first = parts[0]
    dim = call.axis("dim", len(first.dims), -1)
    size: Dim = 0
    for part in parts:
        aligned = len(part.dims) == len(first.dims)
        expected = (*first.dims[:dim], part.dims[dim] if aligned else 0, *first.dims[dim + 1 :])
        if part.dims != expected or part.type.element != first.type.element:
            raise Mistake(
                f"concat: the parts {first.type} and {part.type} differ, expected the same type "
                f"except in dimension {dim}",
                code="E0507",
            )
        size = size + part.dims[dim]
    op = coda.ConcatOp([part.ssa for part in parts], dim)
    return call.emit(op, (*first.dims[:dim], size, *first.dims[dim + 1 :]))


SHAPE_OPERATORS: dict[str, Callable[[Invocation], Value]] = {
    "reshape(x, shape: sizes)": reshape,
    "transpose(x, axes: sizes?)": transpose,
    "slice(x, dim: integer, start: integer = 0, stop: integer?)": slice_,
    "split(x, sizes: sizes, *, dim: integer = -1)": split,
    "chunk(x, n: integer, *, dim: integer = -1)": chunk,
    "broadcast(x, shape: sizes)": broadcast,
    "pad(x, before: integer, after: integer = 0, *, dim: integer = -1, value: number = 0)": pad,
    "concat(*parts, dim: integer = -1)": concat,
    "arange(n: size, *, start: integer = 0, step: integer = 1, dtype: type?)": arange,
}

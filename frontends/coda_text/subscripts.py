"""Subscripts of tensors: `x[:, 0:64]`, `x[..., -1]`, `x[::2]`, `table[ids]`."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from coda_ir.dialects import coda
from coda_ir.frontends.coda_text.arguments import ArgumentMistake, Mistake
from coda_ir.frontends.coda_text.invocation import Invocation
from coda_ir.frontends.coda_text.syntax import Span
from coda_ir.frontends.coda_text.values import (
    INDEX_TYPES,
    SIZE_LIMITS,
    Dim,
    ElementType,
    PartialValue,
    ScalarValue,
    TensorValue,
    TupleValue,
    divided,
    is_manageable,
    simplified,
)
from coda_ir.symbolic_size import SymbolicSize, as_size

END = 2**63 - 1
"""The end of a slice of PyTorch that names none."""

NO_TENSOR: Mapping[type, str] = {
    TupleValue: "unpack it: a, b = ...",
    ElementType: "types follow the names of parameters: x: bf16[M, 64]",
    PartialValue: "combine it first: finalize(...)",
    ScalarValue: "names of an epilogue are single elements",
}
"""Remedies for a subscript of something else than a tensor, by its class."""


class Selection(NamedTuple):
    """An item of a subscript: a range, an index (in `start`), a tensor of indices, or `...`."""

    kind: Literal["range", "index", "tensor", "..."]
    span: Span
    start: Dim | None = None
    stop: Dim | None = None
    step: Dim | None = None
    ids: TensorValue | None = None


class Part(NamedTuple):
    """Elements start, start + step, ... of dimension `dim`, as many as `extent`.

    `bounds` are the start and the stop of PyTorch, where negative numbers count from the end.
    """

    dim: int
    bounds: tuple[Dim, Dim]
    step: int
    extent: Dim


def selected(
    call: Invocation, x: TensorValue, selections: Sequence[Selection], bracket: Span
) -> TensorValue:
    """The selected part of `x`: ranges and indices, and of that what a tensor of indices names, as
    in PyTorch. Raises ArgumentMistake where it does not exist.
    """
    operand = x
    dropped: set[int] = set()
    named: dict[int, Selection] = {}
    for dim, selection in enumerate(_per_dimension(x, selections, bracket)):
        if selection is None:
            continue
        if selection.kind == "tensor":
            named[dim] = selection
            continue
        part = _part(operand, dim, selection)
        if selection.kind == "index":
            dropped.add(dim)
        try:
            x = _sliced(call, x, part)
        except Mistake as mistake:
            remedy = mistake.remedy or SIZE_LIMITS
            raise ArgumentMistake(
                mistake.message, remedy, selection.span, mistake.code
            ) from mistake
    kept = tuple(size for dim, size in enumerate(x.dims) if dim not in dropped)
    x = call.emit_reshape(x, kept) if dropped else x
    places = {dim - sum(each < dim for each in dropped): item for dim, item in named.items()}
    return _named(call, x, places) if places else x


def _named(call: Invocation, x: TensorValue, named: Mapping[int, Selection]) -> TensorValue:
    """Return the slices of one dimension of `x` that a tensor of indices selects."""
    (dim, selection), *others = named.items()
    if others:
        message, span = "a subscript has two tensors of indices", others[0][1].span
        raise ArgumentMistake(message, "take one after the other: x[i][:, j]", span, "E0505")
    ids = selection.ids
    assert ids is not None, "a tensor of indices"
    if ids.type.element not in INDEX_TYPES:
        remedy = (
            "where(mask, x, 0) keeps the shape; how many elements a mask keeps is not known"
            if ids.type.element == "bool"
            else "convert it: cast(ids, i64)"
        )
        message = f"an index is a tensor {ids.type}, expected i32 or i64 elements"
        raise ArgumentMistake(message, remedy, selection.span, "E0501")
    return call.make(coda.IndexOp, x, ids, dim=dim)


def _per_dimension(
    x: TensorValue, selections: Sequence[Selection], bracket: Span
) -> list[Selection | None]:
    """Return the selection of each dimension; None if all of it is kept."""
    dots = [at for at, selection in enumerate(selections) if selection.kind == "..."]
    if len(dots) > 1:
        message, span = "a subscript has two ...", selections[dots[1]].span
        raise ArgumentMistake(message, "write : for one dimension", span, "E0505")
    rank, given = len(x.dims), len(selections) - len(dots)
    if given > rank:
        message = f"{given} indices, but x is {x.type} of rank {rank}"
        raise ArgumentMistake(
            message, "write at most one index for each dimension", bracket, "E0505"
        )
    at = dots[0] if dots else given
    everything: list[Selection | None] = [None] * (rank - given)
    return [*selections[:at], *everything, *selections[at + len(dots) :]]


def _part(x: TensorValue, dim: int, selection: Selection) -> Part:
    size = x.dims[dim]
    step = 1 if selection.step is None else selection.step
    if not isinstance(step, int) or step < 1:
        message = f"the step is {step}, expected a number, 1 or more"
        remedy = "write x[::2] for every second element"
        if step == -1:
            remedy = f"write index(x, {size} - 1 - arange({size}), {dim}) for the reverse order"
        raise ArgumentMistake(message, remedy, selection.span, "E0505")
    if selection.kind == "index":
        assert selection.start is not None, "an index has a position"
        at = selection.start
        bounds = at, END if at == -1 else _sum(at, 1)
        first, last = _position(at, size), _sum(_position(at, size), 1)
    else:
        bounds = (
            0 if selection.start is None else selection.start,
            END if selection.stop is None else selection.stop,
        )
        first = _position(bounds[0], size)
        last = size if selection.stop is None else _position(selection.stop, size)
    length = _sum(last, first, -1)
    _expect_inside(x, dim, (first, last, length), selection)
    # Only its constant term may have a remainder, for the other terms are not known.
    rest = dict(as_size(length).terms).get((), 0)
    extent = divided(_sum(length, -rest % step), step)
    if extent is None:
        raise ArgumentMistake(
            f"the number of elements, {length}, is not a multiple of the step {step}",
            "give the range a known number of elements: x[0:64:2]",
            selection.span,
            "E0505",
        )
    if isinstance(first, int) and isinstance(last, int):
        bounds = first, last
    return Part(dim, bounds, step, extent)


def _position(at: Dim, size: Dim) -> Dim:
    """Return a position counted from the front; negative numbers count from the end."""
    return _sum(size, at) if isinstance(at, int) and at < 0 else at


def _sum(a: Dim, b: Dim, sign: int = 1) -> Dim:
    total = SymbolicSize.constant(0) + a + SymbolicSize.constant(sign) * b
    return simplified(total)


def _expect_inside(
    x: TensorValue, dim: int, part: tuple[Dim, Dim, Dim], selection: Selection
) -> None:
    """Raise for a range that is known to be empty or outside; others are found in a call."""
    size, (first, last, length) = x.dims[dim], part
    below = isinstance(first, int) and first < 0
    empty = isinstance(length, int) and length < 1
    above = isinstance(size, int) and isinstance(last, int) and last > size
    if not is_manageable(length):
        raise ArgumentMistake(
            "a bound is too large for a size", SIZE_LIMITS, selection.span, "E0505"
        )
    if below or empty or above:
        is_index = selection.kind == "index"
        fault = "the index is out of range" if is_index else "the range is empty or out of bounds"
        last_index = f"the last index is {size - 1}, or -1" if isinstance(size, int) else ""
        order = "" if is_index else "a start is before its stop"
        raise ArgumentMistake(
            f"{fault}: dimension {dim} of x {x.type} has {size} elements",
            "; ".join(filter(None, (last_index, order))) or "negative numbers count from the end",
            selection.span,
            "E0505",
        )


def _sliced(call: Invocation, x: TensorValue, part: Part) -> TensorValue:
    (start, stop), step = part.bounds, part.step
    if step == 1 and start == 0 and stop in (END, x.dims[part.dim]):
        return x
    if step == 1 and isinstance(start, int) and isinstance(stop, int) and 0 <= start < stop < END:
        return call.make(coda.SliceOp, x, part.dim, start, stop)
    dims = (*x.dims[: part.dim], part.extent, *x.dims[part.dim + 1 :])
    bounds = f"{{0}}, {part.dim}, {start}, {stop}"
    arguments = bounds if step == 1 else f"{bounds}, {step}"
    return call.emit_call("aten.slice.Tensor", x, arguments, dims, view=True)

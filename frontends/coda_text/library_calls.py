"""Operators that mostly run as calls of PyTorch: by number, order, running sums, windows."""

from collections.abc import Callable
from functools import partial

from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import is_float8
from coda_ir.frontends.coda_text.arguments import Mistake
from coda_ir.frontends.coda_text.invocation import Invocation
from coda_ir.frontends.coda_text.shape_operators import padded
from coda_ir.frontends.coda_text.values import (
    ELEMENT_TYPES,
    Dim,
    TensorType,
    TensorValue,
    TupleValue,
    Value,
    describe,
    simplified,
)
from coda_ir.symbolic_size import SymbolicSize


def by_number(kind: type[Operation], call: Invocation) -> Value:
    """Rows or elements of x that integers name, or x with `values` there."""
    x, ids = call.tensor("x", least_rank=1), call.index_tensor("ids")
    values = [call.tensor("values")] if kind is coda.ScatterOp else []
    dim = call.axis("dim", len(x.dims), 0 if kind is coda.IndexOp else -1)
    return call.make(kind, x, ids, *values, dim=dim)


def one_hot(call: Invocation) -> Value:
    ids, classes = call.index_tensor("ids"), call.value("classes")
    if isinstance(classes, SymbolicSize):
        remedy = f"compare each id, in a separate dimension, with arange({classes})"
        raise call.wrong("classes", "expected an integer", remedy, "E0508")
    return call.make(coda.OneHotOp, ids, classes=call.integer("classes", 0))


def topk(call: Invocation) -> Value:
    x, k = _numbers(call), call.integer("k", 0)
    dim = call.axis("dim", len(x.dims), -1)
    return TupleValue(tuple(call.make_all(coda.TopkOp, x, k=k, dim=dim)))


def sort(call: Invocation) -> TupleValue:
    x = _numbers(call)
    dim, descending = call.axis("dim", len(x.dims), -1), call.flag("descending")
    return TupleValue(tuple(call.make_all(coda.SortOp, x, dim=dim, descending=descending)))


def argsort(call: Invocation) -> Value:
    """The numbers of the elements in order."""
    return sort(call).items[1]


def cumsum(call: Invocation) -> Value:
    x = call.tensor("x", least_rank=1)
    if not x.type.is_float and x.type.element != "i64":
        raise call.wrong("x", "expected floats or i64", "convert it: cast($x, i64)", "E0501")
    return call.make(coda.CumsumOp, x, dim=call.axis("dim", len(x.dims), -1))


def group_norm(call: Invocation) -> Value:
    """The channels are dimension `dim`; those of the operator are dimension 1."""
    x, groups = call.float_tensor("x", least_rank=2), call.integer("groups", 0)
    dim = call.axis("dim", len(x.dims), 1)
    if call.given("w") != call.given("b"):
        raise Mistake("group_norm takes a weight and a bias, or none", "pass w and b", "E0401")
    order = [axis for axis in range(len(x.dims)) if axis != dim]
    order.insert(1, dim)
    params = [call.tensor(name) for name in ("w", "b") if call.given(name)]
    eps = call.epsilon(1e-5)
    first = call.transposed(x, order)
    normalized = call.make(coda.GroupNormOp, first, params, groups=groups, eps=eps)
    return call.transposed(normalized, sorted(range(len(order)), key=order.__getitem__))


def _numbers(call: Invocation) -> TensorValue:
    """Return the operand `x`, which must be neither boolean nor float8."""
    x = call.tensor("x", least_rank=1)
    if is_float8(ELEMENT_TYPES[x.type.element]):
        return call.float_tensor("x")
    if x.type.element == "bool":
        raise call.wrong(
            "x", "expected numbers", "convert it: cast($x, i32)", "E0501", given=describe(x)
        )
    return x


LIBRARY_CALLS: dict[str, Callable[[Invocation], Value]] = {
    "index(x, ids, dim: integer = 0)": partial(by_number, coda.IndexOp),
    "gather(x, ids, dim: integer = -1)": partial(by_number, coda.GatherOp),
    "scatter(x, ids, values, dim: integer = -1)": partial(by_number, coda.ScatterOp),
    "one_hot(ids, classes: integer)": one_hot,
    "topk(x, k: integer, dim: integer = -1)": topk,
    "sort(x, dim: integer = -1, *, descending: boolean = false)": sort,
    "argsort(x, dim: integer = -1, *, descending: boolean = false)": argsort,
    "cumsum(x, dim: integer = -1)": cumsum,
    "group_norm(x, w?, b?, *, groups: integer, eps: number = 1e-5, dim: integer = 1)": group_norm,
}


def shift(call: Invocation) -> TensorValue:
    return call.make(coda.ShiftOp, call.tensor("x", least_rank=2), call.integer("by", 0))


def conv1d(call: Invocation) -> Value:
    """Windows over the positions of x, which are dimension 1; channels are columns."""
    x, w = call.float_tensor("x", rank=3), call.tensor("w", least_rank=2)
    call.expect_element("w", w, x.type.element)
    groups, taps = _groups(call, x, w), w.dims[-1]
    if not isinstance(taps, int):
        raise call.wrong(
            "w",
            "expected a constant number of positions in a window",
            "give the last dimension of w as a number or a const",
            "E0507",
        )
    b = _bias(call, x, w)
    stride, dilation = _positive(call, "stride"), _positive(call, "dilation")
    reach = dilation * (taps - 1)
    before, after = _padding(call, reach)
    is_single = w.dims[0] == groups == x.dims[-1]
    if is_single and stride == 1 and before + after == reach and taps <= coda.MAX_TAPS:
        return _shifted(call, x, w, b, before, dilation)
    return _called(call, x, w, b, groups, (before, after), stride, dilation)


def _bias(call: Invocation, x: TensorValue, w: TensorValue) -> TensorValue | None:
    """The bias of each channel of the result, if it is given."""
    b = call.optional_tensor("b")
    if b is not None:
        call.expect_dims("b", b, w.dims[:1])
        call.expect_element("b", b, x.type.element)
    return b


def _groups(call: Invocation, x: TensorValue, w: TensorValue) -> Dim:
    """The number of groups of channels, which are convolved separately."""
    channels = x.dims[-1]
    if len(w.dims) == 2:
        call.expect_dims("w", w, (channels, w.dims[1]))
        return channels
    groups = call.integer("groups", 1)
    first = TensorType(x.type.element, (x.dims[0], channels, x.dims[1]))
    operands = TensorValue(first, x.ssa), call.tensor("w", rank=3), call.optional_tensor("b")
    call.check(coda.ConvolutionOp, *operands, [1], [0], [1], groups)
    return groups


def _positive(call: Invocation, name: str) -> int:
    value = call.integer(name, 1)
    if value < 1:
        raise call.wrong(name, "expected 1 or more", given=value)
    return value


def _padding(call: Invocation, reach: int) -> tuple[int, int]:
    """The zeros before and after the positions."""
    padding = call.integer("padding", 0)
    if padding < 0:
        raise call.wrong("padding", "expected 0 or more", given=padding)
    if not call.flag("causal"):
        return padding, padding
    if call.given("padding"):
        raise call.wrong(
            "padding",
            f"but a causal convolution has {reach} zeros before",
            "leave padding out",
            given=padding,
        )
    return reach, 0


def _shifted(
    call: Invocation,
    x: TensorValue,
    w: TensorValue,
    b: TensorValue | None,
    before: int,
    dilation: int,
) -> TensorValue:
    def insert(op: Operation) -> SSAValue:
        call.add(op)
        return op.results[0]

    total = coda.shifted_convolution(
        insert, x.ssa, w.ssa, b and b.ssa, before=before, dilation=dilation
    )
    return TensorValue(x.type, total)


def _called(
    call: Invocation,
    x: TensorValue,
    w: TensorValue,
    b: TensorValue | None,
    groups: Dim,
    around: tuple[int, int],
    stride: int,
    dilation: int,
) -> TensorValue:
    """Convolve in PyTorch's layout: channels before positions, and equal padding on both sides."""
    assert isinstance(groups, int), "columns are constant"
    before, after = around
    if before != after:
        x = padded(call, x, 1, around, 0)
        before = 0
    if len(w.dims) == 2:
        w = call.emit_reshape(w, (w.dims[0], 1, w.dims[1]))
    first = call.transposed(x, [0, 2, 1])
    steps = ([stride], [before], [dilation])
    op = coda.ConvolutionOp(first.ssa, w.ssa, b and b.ssa, *steps, groups)
    dims = (x.dims[0], w.dims[0], _windows(call, x.dims[1], w.dims[-1], before, stride, dilation))
    return call.transposed(call.emit_stated(op, dims), [0, 2, 1])


def _windows(
    call: Invocation, positions: Dim, taps: Dim, padding: int, stride: int, dilation: int
) -> Dim:
    if not isinstance(taps, int):
        raise Mistake(
            f"{call.name}: a window has {taps} positions, expected a constant number",
            "give the last dimensions of w as numbers or consts",
            "E0507",
            argument="w",
        )
    missing = dilation * (taps - 1) - 2 * padding
    if isinstance(positions, int):
        if positions <= missing:
            raise Mistake(
                f"{call.name}: a window reaches over {missing + 1} of {positions} positions",
                "pad x, or take a smaller window",
                "E0507",
                argument="w",
            )
        return (positions - missing - 1) // stride + 1
    if stride != 1:
        raise call.wrong(
            "stride",
            f"and the positions of x are {positions}",
            "give x a constant number of positions",
            given=stride,
        )
    return simplified(SymbolicSize.constant(-missing) + positions)


def convolution(call: Invocation) -> Value:
    """Channels before positions of any number of dimensions, as PyTorch has them."""
    x = call.float_tensor("x", least_rank=3)
    w, b = call.tensor("w", rank=len(x.dims)), call.optional_tensor("b")
    count = len(x.dims) - 2
    steps = {name: _steps(call, name, count) for name in ("stride", "padding", "dilation")}
    groups = call.integer("groups", 1)
    call.check(coda.ConvolutionOp, x, w, b, *steps.values(), groups)
    windows = [
        _windows(call, extent, size, padding, stride, gap)
        for extent, size, stride, padding, gap in zip(
            x.dims[2:], w.dims[2:], *steps.values(), strict=True
        )
    ]
    op = coda.ConvolutionOp(x.ssa, w.ssa, b and b.ssa, *steps.values(), groups)
    return call.emit_stated(op, (x.dims[0], w.dims[0], *windows))


def _steps(call: Invocation, name: str, count: int) -> list[int]:
    """Return one number for each dimension of positions; by default 0 for padding, else 1."""
    least = 0 if name == "padding" else 1
    steps = list(call.integers(name)) if call.given(name) else [least] * count
    if len(steps) != count or min(steps) < least:
        raise call.wrong(
            name,
            f"expected {count} numbers of {least} or more, one for each dimension of positions",
            given=steps,
        )
    return steps


CONVOLUTIONS: dict[str, Callable[[Invocation], Value]] = {
    "shift(x, by: integer)": shift,
    "conv1d(x, w, b?, *, groups: integer = 1, stride: integer = 1, dilation: integer = 1, "
    "padding: integer = 0, causal: boolean = false)": conv1d,
    "convolution(x, w, b?, *, stride: sizes?, padding: sizes?, dilation: sizes?, "
    "groups: integer = 1)": convolution,
}

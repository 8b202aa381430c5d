"""Operators that run as calls of PyTorch: rows by number, order, running sums, group norms."""

from collections.abc import Callable

from coda_ir.dialects import coda
from coda_ir.frontends.coda_text.arguments import Mistake
from coda_ir.frontends.coda_text.invocation import Invocation
from coda_ir.frontends.coda_text.values import (
    Dim,
    TensorValue,
    TupleValue,
    Value,
    describe,
)


def index(call: Invocation) -> Value:
    x, ids = call.tensor("x", least_rank=1), call.index_tensor("ids")
    dim = call.axis("dim", len(x.dims), 0)
    return _emit(call, coda.IndexOp(x.ssa, ids.ssa, dim=dim), x, ids)


def gather(call: Invocation) -> Value:
    x, ids = call.tensor("x", least_rank=1), call.index_tensor("ids")
    dim = call.axis("dim", len(x.dims), -1)
    _expect_other_dims(call, ids, x, dim)
    return _emit(call, coda.GatherOp(x.ssa, ids.ssa, dim=dim), x, ids)


def scatter(call: Invocation) -> Value:
    x, ids = call.tensor("x", least_rank=1), call.index_tensor("ids")
    values = call.tensor("values")
    dim = call.axis("dim", len(x.dims), -1)
    _expect_other_dims(call, ids, x, dim)
    call.expect_dims("values", values, ids.dims, "that of ids")
    op = coda.ScatterOp(x.ssa, ids.ssa, values.ssa, dim=dim)
    return _emit(call, op, x, ids, values)


def one_hot(call: Invocation) -> Value:
    ids = call.index_tensor("ids")
    return _emit(call, coda.OneHotOp(ids.ssa, classes=call.integer("classes", 0)), ids)


def topk(call: Invocation) -> Value:
    x, k = _numbers(call), call.integer("k", 0)
    dim = call.axis("dim", len(x.dims), -1)
    return _emit(call, coda.TopkOp(x.ssa, k=k, dim=dim), x)


def sort(call: Invocation) -> Value:
    x = _numbers(call)
    dim, descending = call.axis("dim", len(x.dims), -1), call.flag("descending")
    return _emit(call, coda.SortOp(x.ssa, dim=dim, descending=descending), x)


def argsort(call: Invocation) -> Value:
    """The numbers of the elements in order."""
    both = sort(call)
    assert isinstance(both, TupleValue), "sort gives values and numbers"
    return both.items[1]


def cumsum(call: Invocation) -> Value:
    x = call.tensor("x", least_rank=1)
    if not x.type.is_float and x.type.element != "i64":
        raise call.wrong("x", "expected floats or i64", "convert it: cast(x, i64)")
    return _emit(call, coda.CumsumOp(x.ssa, dim=call.axis("dim", len(x.dims), -1)), x)


def group_norm(call: Invocation) -> Value:
    """The channels are dimension `dim`; those of the operator are dimension 1."""
    x, groups = call.float_tensor("x", least_rank=2), call.integer("groups", 0)
    dim = call.axis("dim", len(x.dims), 1)
    channels = x.dims[dim]
    if call.given("w") != call.given("b"):
        raise Mistake("group_norm takes a weight and a bias, or none", "pass w and b")
    given = [call.tensor(name) for name in ("w", "b") if call.given(name)]
    for name, value in zip(("w", "b"), given, strict=False):
        call.expect_dims(name, value, (channels,), "one element per channel")
    order = [axis for axis in range(len(x.dims)) if axis != dim]
    order.insert(1, dim)
    params, eps = [value.ssa for value in given], call.epsilon(1e-5)
    first = transposed(call, x, order)
    op = coda.GroupNormOp(first.ssa, params, groups=groups, eps=eps)
    normalized = call.emit(op, first.dims)
    return transposed(call, normalized, sorted(range(len(order)), key=order.__getitem__))


def transposed(call: Invocation, x: TensorValue, order: list[int]) -> TensorValue:
    """x with its dimensions in another order, itself where that is its own."""
    if order == sorted(order):
        return x
    return call.emit(coda.TransposeOp(x.ssa, order), tuple(x.dims[axis] for axis in order))


def _emit(call: Invocation, op: coda.LibraryCallOp, *operands: TensorValue) -> Value:
    """Insert an operator; what it gives, as a tuple where that are several tensors."""
    extents: list[tuple[Dim, ...]] = [
        tuple(dims) for dims in op.result_extents([x.dims for x in operands])
    ]
    results = call.emit_all(op, extents)
    return results[0] if len(results) == 1 else TupleValue(tuple(results))


def _numbers(call: Invocation) -> TensorValue:
    """Return the operand `x`, which must not be boolean."""
    x = call.tensor("x", least_rank=1)
    if x.type.element == "bool":
        raise call.wrong("x", "expected numbers", "convert it: cast(x, i32)", given=describe(x))
    return x


def _expect_other_dims(call: Invocation, ids: TensorValue, x: TensorValue, dim: int) -> None:
    rank = len(x.dims)
    own = ids.dims[dim] if len(ids.dims) == rank else 1
    expected = (*x.dims[:dim], own, *x.dims[dim + 1 :])
    if ids.dims != expected:
        raise call.wrong(
            "ids",
            f"expected the extents of x {x.type} in all dimensions but {dim}",
            "index(x, ids) takes whole rows",
        )


LIBRARY_CALLS: dict[str, Callable[[Invocation], Value]] = {
    "index(x, ids, dim: integer = 0)": index,
    "gather(x, ids, dim: integer = -1)": gather,
    "scatter(x, ids, values, dim: integer = -1)": scatter,
    "one_hot(ids, classes: integer)": one_hot,
    "topk(x, k: integer, dim: integer = -1)": topk,
    "sort(x, dim: integer = -1, *, descending: boolean = false)": sort,
    "argsort(x, dim: integer = -1, *, descending: boolean = false)": argsort,
    "cumsum(x, dim: integer = -1)": cumsum,
    "group_norm(x, w?, b?, *, groups: integer, eps: number = 1e-5, dim: integer = 1)": group_norm,
}

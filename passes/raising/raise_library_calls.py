"""Pass `raise-library-calls`: turn calls of PyTorch into operators that run as the same calls."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from xdsl.dialects.builtin import i1
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from coda_ir.dialects import coda
from coda_ir.dialects.coda.base import new_operators
from coda_ir.dialects.coda.library import has_short_rows
from coda_ir.dialects.coda.shapes import element_type_of, is_float, shape_of
from coda_ir.dialects.element_types import BY_ATTRIBUTE
from coda_ir.dialects.torch import CallOp
from coda_ir.passes.support.convolutions import PARAMETERS, arguments_by_name
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, Refusal
from coda_ir.passes.support.row_numbers import is_permutation


class RaiseLibraryCallsPass(FunctionPass):
    """Turns calls of PyTorch into operators of the dialect `coda`, with types and a derivative.

        %v, %i = torch.call "aten.topk.default"(%s)      %v, %i = coda.topk %s {k = 2, dim = 1}
            {arguments = "{0}, 2"}                   ->

    Legal iff the operator and its options are equivalent to the call for all inputs. Calls that
    compute only with integers, such as those of masks, remain without a remark.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops:
            if isinstance(op, CallOp) and _is_candidate(op):
                refusal = _raise(op, rewriter)
                is_float_call = any(is_float(element_type_of(value)) for value in op.inputs)
                if refusal is not None and is_float_call:
                    rewriter.missed(op, refusal)


def _is_candidate(op: CallOp) -> bool:
    """Return whether an operator may be equivalent; for stores, only if no two go to one place."""
    is_store = op.callee.data == _INDEX_PUT
    is_known = op.callee.data in _MAKERS and op.in_place is None
    return is_known and not (is_store and not is_permutation(op.tensors[1]))


class _NearMiss(Exception):
    """A call with options that no operator has, and a remedy."""

    def __init__(self, found: str, remedy: str | None = None):
        super().__init__(found)
        self.remedy = remedy


def _raise(op: CallOp, rewriter: FunctionRewriter) -> Refusal | None:
    """Replace `op`; return the reason if no operator is equivalent."""
    if op.template.symbols:
        return _refused(op, "an argument depends on a size")
    given, named = op.template.evaluate(op.inputs, {}, {"torch": _Names()})
    try:
        made = _MAKERS[op.callee.data](*given, **named)
    except _NearMiss as error:
        return _refused(op, str(error), error.remedy)
    taken = op.picks or tuple(range(len(op.outputs)))
    difference = _difference(made, [*zip(taken, op.outputs, strict=True)])
    new = new_operators(made)
    if difference is not None:
        for each in reversed(new):
            each.drop_all_references()
        return _refused(op, difference)
    rewriter.passed(op, f"raised to {made.name}")
    for each in new:
        each.location = op.location
        rewriter.order.insert_before(each, op)
    rewriter.order.give_way(op, (made.results[position] for position in taken))
    return None


def _difference(made: coda.LibraryCallOp, outputs: Sequence[tuple[int, SSAValue]]) -> str | None:
    """Return the reason why `made` does not compute `outputs`, by their positions."""
    try:
        made.verify_()
    except VerifyException as error:
        return str(error)
    for position, output in outputs:
        if position >= len(made.results) or made.results[position].type != output.type:
            return "its results differ in number or type"
    return None


class _Names:
    """The constants of PyTorch, by name."""

    def __getattr__(self, name: str) -> str:
        return name


def _refused(op: CallOp, found: str, remedy: str | None = None) -> Refusal:
    condition = "an operator of the block level has the same meaning"
    return Refusal(condition, f"{op.callee.data}: {found}", remedy)


# By the parameters of the overloads, with the defaults of ATen.


def _index(x: SSAValue, indices: Sequence[SSAValue | None]) -> coda.LibraryCallOp:
    (*skipped, ids) = indices
    if ids is None or any(skipped):
        raise _NearMiss("several dimensions are indexed by tensors")
    if element_type_of(ids) == i1:
        raise _NearMiss("elements are chosen by a mask")
    return coda.IndexOp(x, ids, dim=len(skipped))


_INDEX_PUT = "aten.index_put.default"


def _index_put(
    x: SSAValue, indices: Sequence[SSAValue | None], values: SSAValue, accumulate: bool = False
) -> coda.LibraryCallOp:
    ids, *others = indices
    if ids is None or others or accumulate:
        raise _NearMiss("it accumulates, or several dimensions are indexed")
    return coda.ScatterOp(x, ids, values, dim=0)


def _index_select(x: SSAValue, dim: int, index: SSAValue) -> coda.LibraryCallOp:
    return coda.IndexOp(x, index, dim=dim)


def _gather(
    x: SSAValue, dim: int, index: SSAValue, sparse_grad: bool = False
) -> coda.LibraryCallOp:
    if sparse_grad:
        raise _NearMiss("its gradient is sparse")
    return coda.GatherOp(x, index, dim=dim)


def _scatter(x: SSAValue, dim: int, index: SSAValue, src: SSAValue) -> coda.LibraryCallOp:
    return coda.ScatterOp(x, index, src, dim=dim)


def _scatter_value(x: SSAValue, dim: int, index: SSAValue, value: float) -> coda.LibraryCallOp:
    """Return the number as a tensor, without memory for it."""
    element = element_type_of(x)
    number = float(value) if is_float(element) else int(value)
    values = coda.BroadcastOp(coda.ConstantOp(number, element), shape_of(index), index)
    return coda.ScatterOp(x, index, values, dim=dim)


def _topk(
    x: SSAValue, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> coda.LibraryCallOp:
    """Raise a top-k; the elements are sorted, since without `sorted` any order is right."""
    if not largest:
        raise _NearMiss("it takes the smallest elements", "take the largest of -x, and negate them")
    return coda.TopkOp(x, k=k, dim=dim)


def _max(x: SSAValue, dim: int, keepdim: bool = False) -> coda.LibraryCallOp:
    """The largest elements, and the first place of each."""
    if not keepdim:
        raise _NearMiss("it drops the dimension", "keep it: x.max(dim, keepdim=True)")
    made = coda.TopkOp(x, k=1, dim=dim)
    if not has_short_rows(made):
        made.erase()
        raise _NearMiss("PyTorch's topk may take another one of several largest elements")
    return made


def _sort(
    x: SSAValue, dim: int = -1, descending: bool = False, *, stable: bool | None = None
) -> coda.LibraryCallOp:
    """Raise a sort as a stable one: otherwise, any order of equal elements is right."""
    return coda.SortOp(x, dim=dim, descending=descending)


def _cumsum(x: SSAValue, dim: int, dtype: str | None = None) -> coda.LibraryCallOp:
    if dtype not in (None, BY_ATTRIBUTE[element_type_of(x)].torch):
        raise _NearMiss("it converts its operand", "convert it first: x.to(dtype).cumsum(dim)")
    return coda.CumsumOp(x, dim=dim)


def _group_norm(
    x: SSAValue,
    num_groups: int,
    weight: SSAValue | None = None,
    bias: SSAValue | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> coda.LibraryCallOp:
    if (weight is None) != (bias is None):
        raise _NearMiss("it has only one of weight and bias")
    params = [value for value in (weight, bias) if value is not None]
    return coda.GroupNormOp(x, params, groups=num_groups, eps=float(eps))


def _native_group_norm(
    x: SSAValue,
    weight: SSAValue | None,
    bias: SSAValue | None,
    N: int,
    C: int,
    HxW: int,
    group: int,
    eps: float,
) -> coda.LibraryCallOp:
    return _group_norm(x, group, weight, bias, eps)


def _convolution(callee: str, *given: Any, **named: Any) -> coda.LibraryCallOp:
    arguments = arguments_by_name(callee, given, named)
    x, weight, bias = (arguments[name] for name in ("input", "weight", "bias"))
    positions = len(shape_of(weight)) - 2
    if arguments["transposed"]:
        raise _NearMiss("it is transposed")
    if len(shape_of(x)) != positions + 2:
        raise _NearMiss("its input has no samples")
    steps = {name: list(arguments[name]) for name in ("stride", "padding", "dilation")}
    of_all = {name: each * (positions if len(each) == 1 else 1) for name, each in steps.items()}
    return coda.ConvolutionOp(x, weight, bias, *of_all.values(), arguments["groups"])


def _one_hot(ids: SSAValue, num_classes: int = -1) -> coda.LibraryCallOp:
    return coda.OneHotOp(ids, classes=num_classes)


_MAKERS: Mapping[str, Callable[..., coda.LibraryCallOp]] = {
    "aten.index.Tensor": _index,
    _INDEX_PUT: _index_put,
    "aten.index_select.default": _index_select,
    "aten.gather.default": _gather,
    "aten.scatter.src": _scatter,
    "aten.scatter.value": _scatter_value,
    "aten.topk.default": _topk,
    "aten.max.dim": _max,
    "aten.sort.default": _sort,
    "aten.sort.stable": _sort,
    "aten.cumsum.default": _cumsum,
    "aten.group_norm.default": _group_norm,
    "aten.native_group_norm.default": _native_group_norm,
    "aten.one_hot.default": _one_hot,
    **{name: partial(_convolution, name) for name in PARAMETERS if name.endswith(".default")},
}

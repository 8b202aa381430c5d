"""Derivatives of PyTorch calls that do not run the call again: other calls, or operators."""

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType
from xdsl.ir import SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda import LibraryCallOp
from coda_ir.dialects.coda.elementwise import FloorDivideOp
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.dialects.torch import CONVOLUTION_GRAD, CallOp, Piece, Text
from coda_ir.passes.gradient.derivatives.adjoint import Adjoint
from coda_ir.passes.support.convolutions import Convolution
from coda_ir.passes.support.row_numbers import (
    RepeatedRows,
    bound_of,
    inverse_of,
    is_permutation,
    quotient_of,
)
from coda_ir.storage import EXPAND


@dataclass(frozen=True)
class Call:
    """A call for which a rule computes the derivative."""

    op: CallOp | LibraryCallOp
    adjoint: Adjoint

    @property
    def dy(self) -> SSAValue | None:
        """The gradient of the first result, if that is an output and has one."""
        return self.adjoint.d_results[0] if self.output(0) is not None else None

    def output(self, position: int) -> SSAValue | None:
        """Return the result of the callee at `position`, if the call has it."""
        positions = self.op.picks or range(len(self.op.outputs))
        found = dict(zip(positions, self.op.outputs, strict=True))
        return found.get(position)

    def argument(self, number: int, name: str) -> Text | None:
        """Return an argument by position or name; None if the call omits it."""
        call = self.op.template.call
        nodes = {keyword.arg: keyword.value for keyword in call.keywords}
        node = call.args[number] if number < len(call.args) else nodes.get(name)
        return None if node is None else Text(ast.unparse(node), self.op.inputs)

    def operand(self, number: int, name: str) -> SSAValue | None:
        """Return an argument that is a tensor."""
        argument = self.argument(number, name)
        return None if argument is None else argument.operand

    def literal(self, number: int, name: str, default: Any) -> Any:
        """Return an argument of one or more numbers or flags; raise LeftToPyTorch for others."""
        argument = self.argument(number, name)
        if argument is None:
            return default
        try:
            return ast.literal_eval(argument.text)
        except ValueError:
            raise LeftToPyTorch from None

    def wants(self, operand: SSAValue | None) -> bool:
        return self.adjoint.wants(operand)

    def zeros(self, like: SSAValue, dy: SSAValue) -> SSAValue:
        """Return zeros of the shape of `like` and the element type of `dy`."""
        type = TensorType(element_type_of(dy), shape_of(like))
        return self.adjoint.insert(CallOp.on("aten.new_zeros.default", (dy, sizes_of(like)), type))


def like(of: SSAValue, callee: str, *arguments: Piece) -> CallOp:
    """Return a call whose result has the type of `of`."""
    return CallOp.on(callee, arguments, of.type)


class LeftToPyTorch(Exception):
    """A call whose derivative no rule computes, as where an argument depends on a size."""


def sizes_of(value: SSAValue) -> Text:
    """Return the extents of `value` as an argument; unknown ones are read from it at run time."""
    extents = [
        f"size({{0}}, {dim})" if extent == DYNAMIC_INDEX else str(extent)
        for dim, extent in enumerate(shape_of(value))
    ]
    return Text(f"[{', '.join(extents)}]", [value])


CallRule = Callable[[Call, SSAValue], None]
"""Gives the operands of a call their gradients, from that of its first result. Raises
LeftToPyTorch, before it gives one, where PyTorch has to differentiate the call.
"""


def give_call(op: CallOp | coda.LibraryCallOp, adjoint: Adjoint) -> bool:
    """Give the inputs of a call their gradients without running it again, if a rule exists."""
    call = Call(op, adjoint)
    rule, dy = CALL_RULES.get(op.callee.data), call.dy
    if rule is None or dy is None:
        return False
    try:
        rule(call, dy)
    except LeftToPyTorch:
        return False
    return True


# Elements that move, or repeat.


def _expand(call: Call, dy: SSAValue) -> None:
    x = call.op.inputs[0]
    before, after = shape_of(x), shape_of(dy)
    pairs = zip(before, after[len(after) - len(before) :], strict=True)
    if any(own == DYNAMIC_INDEX != extent for own, extent in pairs):
        raise LeftToPyTorch
    # `give` sums over what was repeated.
    call.adjoint.give(x, dy)


def _slice(call: Call, dy: SSAValue) -> None:
    x, dim, step = call.op.inputs[0], call.literal(1, "dim", 0), call.literal(4, "step", 1)
    start, end = call.literal(2, "start", None), call.literal(3, "end", None)
    dx: SSAValue | CallOp | None = _of_each_nth(call, dy, dim % len(shape_of(x)), start or 0, step)
    if dx is None:
        bounds = map(str, (dim, start or 0, _LAST if end is None else end, step))
        dx = like(x, "aten.slice_backward.default", dy, sizes_of(x), *bounds)
    call.adjoint.give(x, dx)


def _of_each_nth(call: Call, dy: SSAValue, dim: int, start: int, step: int) -> SSAValue | None:
    """Return the gradient of x for each `step`-th element: these are padded in a dimension of their
    own, so that `join_pads` joins them with the elements between them.
    """
    x, adjoint, shape = call.op.inputs[0], call.adjoint, shape_of(dy)
    if not 0 <= start < step or shape[dim] < 1 or shape_of(x)[dim] != step * shape[dim]:
        return None
    dims = adjoint.backward.shapes.dims(call.op.outputs[0])
    apart = adjoint.reshaped_to(
        dy, (*shape[: dim + 1], 1, *shape[dim + 1 :]), (*dims[: dim + 1], 1, *dims[dim + 1 :])
    )
    if apart is None:
        return None
    return adjoint.reshaped(adjoint.insert(coda.PadOp(apart, dim + 1, start, step)), x)


_LAST = 2**63 - 1


def _select(call: Call, dy: SSAValue) -> None:
    x = call.op.inputs[0]
    place = (str(call.literal(1, "dim", 0)), str(call.literal(2, "index", 0)))
    call.adjoint.give(x, like(x, "aten.select_backward.default", dy, sizes_of(x), *place))


def _where(call: Call, dy: SSAValue) -> None:
    """Give zeros to the side that was not selected, whatever the gradient is there."""
    condition, taken, other = (
        call.operand(number, name) for number, name in enumerate(("condition", "self", "other"))
    )
    if condition is None:
        raise LeftToPyTorch
    call.adjoint.give(taken, like(dy, "aten.where.ScalarOther", condition, dy, "0.0"))
    call.adjoint.give(other, like(dy, "aten.where.ScalarSelf", condition, "0.0", dy))


# Elements at places that tensors name.


def _index(call: Call, dy: SSAValue) -> None:
    """Select the gradients of rows that occur equally often in their order; add up others."""
    op = call.op
    if isinstance(op, coda.IndexOp) and op.given["dim"] == 0:
        dx = _selected_rows(op, call, dy) or _summed_rows(op, call, dy)
        if dx is not None:
            call.adjoint.give(op.x, dx)
            return
    x, indices = call.op.inputs[0], call.argument(1, "indices")
    if indices is None:
        raise LeftToPyTorch
    arguments = (call.zeros(x, dy), indices, dy, "True")
    call.adjoint.give(x, like(x, "aten.index_put.default", *arguments))


def _selected_rows(op: coda.IndexOp, call: Call, dy: SSAValue) -> SSAValue | None:
    """Return the gradient of rows that a permutation names once, or p // k names k times."""
    insert = call.adjoint.insert
    order = inverse_of(op.ids) or _inverted(op.ids, call)
    if order is not None:
        repeated = RepeatedRows.of(dy)
        if repeated is None:
            return insert(coda.IndexOp(dy, order, dim=0))
        rows = insert(coda.ReshapeOp(repeated.x, repeated.shape))
        count = insert(coda.ConstantOp(repeated.count, element_type_of(order)))
        return insert(coda.IndexOp(rows, insert(FloorDivideOp(order, count)), dim=0))
    found = quotient_of(op.ids, op.x, call.adjoint.backward.shapes)
    if found is None or len(shape_of(dy)) != 2 or shape_of(dy)[1] == DYNAMIC_INDEX:
        return None
    inverse = _inverted(found[0], call)
    assert inverse is not None, "a permutation has an inverse"
    rows, columns = shape_of(op.x)
    parts = coda.ReshapeOp(insert(coda.IndexOp(dy, inverse, dim=0)), (rows, found[1], columns))
    total = insert(coda.SumToOp(insert(parts), (rows, 1, columns)))
    return call.adjoint.reshaped(total, op.x)


def _summed_rows(op: coda.IndexOp, call: Call, dy: SSAValue) -> SSAValue | None:
    """Return the rows of dy added up by id, as the gradient of the table of an embedding; None for
    a table of unknown extents, and for rows of few elements, which PyTorch adds up faster.
    """
    insert, (rows, *rest), ids = call.adjoint.insert, shape_of(op.x), op.ids
    columns, unknown = prod(rest), shape_of(ids).count(DYNAMIC_INDEX)
    is_known = DYNAMIC_INDEX not in (rows, *rest) and (unknown < 2 or len(rest) == 1)
    if not is_known or not shape_of(ids) or columns < FEWEST_COLUMNS:
        return None
    if bound_of(ids, call.adjoint.backward.shapes) is None:
        # A negative number counts from the end.
        zero, count = (insert(coda.ConstantOp(x, element_type_of(ids))) for x in (0, rows))
        is_negative = insert(coda.CompareOp(ids, zero, "lt"))
        ids = insert(coda.WhereOp(is_negative, call.adjoint.add(ids, count), ids))
    dy = dy if len(rest) == 1 else insert(coda.ReshapeOp(dy, (*shape_of(ids), columns)))
    return call.adjoint.reshaped(insert(coda.EmbeddingGradOp(ids, dy, rows)), op.x)


FEWEST_COLUMNS = 32
"""Columns of a table whose gradient a kernel computes that has a thread for each of them."""


def _inverted(ids: SSAValue, call: Call) -> SSAValue | None:
    """Return the inverse of a permutation; None for other ids."""
    if not is_permutation(ids):
        return None
    extent = shape_of(ids)[0]
    places = coda.PositionsOp((ids, 0) if extent == DYNAMIC_INDEX else extent)
    return call.adjoint.insert(coda.ScatterOp(ids, ids, call.adjoint.insert(places), dim=0))


def _index_select(call: Call, dy: SSAValue) -> None:
    _add_where_taken("aten.index_add.default", call, dy)


def _gather(call: Call, dy: SSAValue) -> None:
    """Add up what each element was taken for: in one pass over dy for few columns, and in one over
    x if one element of each row was taken. The bits repeat without sorting the indices. If whole
    rows were taken, add them up as the gradient of the table of an embedding.
    """
    x, index, dim = call.op.inputs[0], call.operand(2, "index"), call.literal(1, "dim", None)
    if isinstance(call.op, coda.GatherOp) and (dx := _gathered_rows(call.op, call, dy)):
        return call.adjoint.give(x, dx)
    if index is None or dim not in (-1, len(shape_of(x)) - 1) or not _are_of_rows(call, x, index):
        return _add_where_taken("aten.scatter_add.default", call, dy)
    if shape_of(index)[-1] == 1:
        return call.adjoint.give(x, _in_column(call, x, index, dy))
    if shape_of(x)[-1] > FEW_COLUMNS:
        return _add_where_taken("aten.scatter_add.default", call, dy)
    insert = call.adjoint.insert
    zero, number = insert(coda.ConstantOp(0.0, element_type_of(dy))), element_type_of(index)
    sums: list[SSAValue] = []
    for column in range(shape_of(x)[-1]):
        is_here = insert(coda.CompareOp(index, insert(coda.ConstantOp(column, number)), "eq"))
        sums.append(insert(coda.ReduceOp(insert(coda.WhereOp(is_here, dy, zero)), "sum")))
    call.adjoint.give(x, coda.ConcatOp(sums, len(shape_of(x)) - 1))


def _gathered_rows(op: coda.GatherOp, call: Call, dy: SSAValue) -> SSAValue | None:
    """Return the gradient of rows that one number each names, repeated for their columns: a table
    has the rows of all samples. None for unknown extents, and for rows of few elements.
    """
    (*batch, rows, columns), ids = shape_of(op.x), op.ids.owner
    is_of_rows = op.given["dim"] in (-2, len(batch)) and shape_of(op.ids)[-1] == columns
    is_known = DYNAMIC_INDEX not in (*shape_of(op.x), *shape_of(op.ids))
    is_repeated = isinstance(ids, CallOp) and ids.callee.data == EXPAND
    if not (is_of_rows and is_known and is_repeated) or columns < FEWEST_COLUMNS:
        return None
    numbers = ids.inputs[0]
    if shape_of(numbers) != (*batch, shape_of(op.ids)[-2], 1):
        return None
    insert, count = call.adjoint.insert, prod(batch)
    starts = coda.PositionsOp(count, step=rows, element_type=element_type_of(op.ids))
    numbers = insert(coda.ReshapeOp(numbers, (count, shape_of(op.ids)[-2])))
    numbers = call.adjoint.add(numbers, insert(coda.ReshapeOp(insert(starts), (count, 1))))
    dy = insert(coda.ReshapeOp(dy, (*shape_of(numbers), columns)))
    table = insert(coda.EmbeddingGradOp(numbers, dy, count * rows))
    return call.adjoint.reshaped(table, op.x)


def _in_column(call: Call, x: SSAValue, index: SSAValue, dy: SSAValue) -> SSAValue:
    """Return rows of zeros with dy in the column that `index` names."""
    insert = call.adjoint.insert
    zero, columns = insert(coda.ConstantOp(0.0, element_type_of(dy))), shape_of(x)[-1]
    is_here = coda.CompareOp(insert(coda.PositionsOp(columns)), index, "eq")
    return insert(coda.WhereOp(insert(is_here), dy, zero))


FEW_COLUMNS = 16
"""The most columns whose sums one kernel computes in the time in which it loads their elements."""


def _are_of_rows(call: Call, x: SSAValue, index: SSAValue) -> bool:
    """Return whether `index` takes known numbers of elements of each row of x."""
    shapes = call.adjoint.backward.shapes
    is_of_all_rows = shapes.dims(x)[:-1] == shapes.dims(index)[:-1]
    return is_of_all_rows and shape_of(x)[-1] > 0 and shape_of(index)[-1] > 0


def _add_where_taken(callee: str, call: Call, dy: SSAValue) -> None:
    x, dim, index = call.op.inputs[0], call.argument(1, "dim"), call.operand(2, "index")
    if dim is None or index is None:
        raise LeftToPyTorch
    call.adjoint.give(x, like(x, callee, call.zeros(x, dy), dim, index, dy))


def _scatter(call: Call, dy: SSAValue) -> None:
    """Differentiate `scatter` with a number or a tensor, and `scatter_add`."""
    x, dim, index = call.operand(0, "self"), call.argument(1, "dim"), call.operand(2, "index")
    if x is None or dim is None or index is None:
        raise LeftToPyTorch
    source = call.operand(3, "src")
    if source is not None and call.wants(source):
        if shape_of(source) != shape_of(index):
            raise LeftToPyTorch
        call.adjoint.give(source, like(source, "aten.gather.default", dy, dim, index))
    is_sum = call.op.callee.data.startswith("aten.scatter_add.")
    rest = dy if is_sum else like(dy, "aten.scatter.value", dy, dim, index, "0.0")
    call.adjoint.give(x, rest)


def _selected_by_value(call: Call, dy: SSAValue) -> None:
    """Differentiate a selection or a sort: each dy goes where the element was found."""
    x, indices = call.op.inputs[0], call.output(1)
    if indices is None:
        raise LeftToPyTorch
    name = call.op.callee.data.split(".")[1]
    number = {"topk": 2, "sort": 1, "max": 1, "min": 1}[name]
    dim = call.literal(number, "dim", -1)
    is_kept = name in ("topk", "sort") or call.literal(2, "keepdim", False)
    arguments = (dy, str(dim), indices, sizes_of(x), str(bool(is_kept)))
    callee = "aten.value_selecting_reduction_backward.default"
    call.adjoint.give(x, like(x, callee, *arguments))


def _cumsum(call: Call, dy: SSAValue) -> None:
    """Differentiate a running sum: sum from the other end."""
    x, dim = call.op.inputs[0], call.literal(1, "dim", 0) % max(1, len(shape_of(dy)))
    value = call.adjoint.insert(like(dy, "aten.flip.default", dy, f"[{dim}]"))
    value = call.adjoint.insert(coda.CumsumOp(value, dim=dim))
    call.adjoint.give(x, like(dy, "aten.flip.default", value, f"[{dim}]"))


# Products.


def _matmul(call: Call, dy: SSAValue) -> None:
    """dy · bᵀ and aᵀ · dy, summed over the batches that were broadcast. A GEMM computes the latter
    for a matrix b of known extents; PyTorch multiplies the others.
    """
    a, b = call.operand(0, "self"), call.operand(1, "other") or call.operand(1, "mat2")
    if a is None or b is None or min(len(shape_of(a)), len(shape_of(b))) < 2:
        raise LeftToPyTorch
    if call.wants(a):
        call.adjoint.give(a, _product(call, dy, _transposed(call, b)))
    is_matrix = len(shape_of(b)) == 2 and element_type_of(a) == element_type_of(dy)
    if call.wants(b) and is_matrix and DYNAMIC_INDEX not in shape_of(b):
        call.adjoint.give(b, coda.WeightGradientOp(a, dy))
    elif call.wants(b):
        call.adjoint.give(b, _product(call, _transposed(call, a), dy))


def _transposed(call: Call, value: SSAValue) -> SSAValue:
    rank = len(shape_of(value))
    return call.adjoint.insert(coda.TransposeOp(value, (*range(rank - 2), rank - 1, rank - 2)))


def _product(call: Call, a: SSAValue, b: SSAValue) -> SSAValue:
    longer = max(shape_of(a), shape_of(b), key=len)
    batches = list(longer[:-2])
    for shape in (shape_of(a), shape_of(b)):
        for index, extent in enumerate(shape[:-2], len(longer) - len(shape)):
            batches[index] = extent if batches[index] == 1 else batches[index]
    type = TensorType(element_type_of(a), (*batches, shape_of(a)[-2], shape_of(b)[-1]))
    return call.adjoint.insert(CallOp.on("aten.matmul.default", (a, b), type))


def _grouped_mm(call: Call, dy: SSAValue) -> None:
    """Differentiate a product of grouped rows, each group with its own matrix."""
    a, b, offsets = (
        call.operand(number, name) for number, name in enumerate(("self", "mat2", "offs"))
    )
    if a is None or b is None or offsets is None or call.operand(3, "bias") is not None:
        raise LeftToPyTorch
    if (len(shape_of(a)), len(shape_of(b))) != (2, 3):
        raise LeftToPyTorch
    callee = "aten._grouped_mm.default"
    if call.wants(a):
        call.adjoint.give(a, like(a, callee, dy, _transposed(call, b), offsets))
    if call.wants(b):
        call.adjoint.give(b, like(b, callee, _transposed(call, a), dy, offsets))


def _baddbmm(call: Call, dy: SSAValue) -> None:
    x, a, b = (
        call.operand(number, name) for number, name in enumerate(("self", "batch1", "batch2"))
    )
    if x is None or a is None or b is None:
        raise LeftToPyTorch
    beta, alpha = call.literal(3, "beta", 1), call.literal(4, "alpha", 1)
    call.adjoint.give(x, dy if beta == 1 else call.adjoint.scale(dy, beta))
    scaled = dy if alpha == 1 else call.adjoint.scale(dy, alpha)
    if call.wants(a):
        call.adjoint.give(a, _product(call, scaled, _transposed(call, b)))
    if call.wants(b):
        call.adjoint.give(b, _product(call, _transposed(call, a), scaled))


CALL_RULES: Mapping[str, CallRule] = {
    "aten.expand.default": _expand,
    "aten.slice.Tensor": _slice,
    "aten.select.int": _select,
    "aten.where.self": _where,
    "aten.where.ScalarSelf": _where,
    "aten.where.ScalarOther": _where,
    "aten.index.Tensor": _index,
    "aten.index_select.default": _index_select,
    "aten.gather.default": _gather,
    "aten.scatter.value": _scatter,
    "aten.scatter.src": _scatter,
    "aten.scatter_add.default": _scatter,
    "aten.topk.default": _selected_by_value,
    "aten.sort.default": _selected_by_value,
    "aten.sort.stable": _selected_by_value,
    "aten.max.dim": _selected_by_value,
    "aten.min.dim": _selected_by_value,
    "aten.cumsum.default": _cumsum,
    "aten.matmul.default": _matmul,
    "aten.bmm.default": _matmul,
    "aten.baddbmm.default": _baddbmm,
    "aten._grouped_mm.default": _grouped_mm,
}


def give_convolution(op: CallOp | LibraryCallOp, adjoint: Adjoint) -> bool:
    """Give the inputs of a convolution their gradients, by one call; False for another `op`.

    PyTorch's own derivative would run the convolution again. That of samples without a batch and
    of arguments that are not numbers is left to it.
    """
    found, dy = Convolution.of(op), adjoint.d_results[0]
    if found is None or dy is None:
        return False
    operands = (found.input, found.weight, found.bias)
    wanted = {
        position: operand
        for position, operand in enumerate(operands)
        if operand is not None and adjoint.wants(operand)
    }
    bias = "None" if found.bias is None else f"[{found.channels}]"
    numbers = [list(each) for each in (found.stride, found.padding, found.dilation)]
    output_padding, mask = [0] * len(found.kernel), [position in wanted for position in range(3)]
    text = f"{{0}}, {{1}}, {{2}}, {bias}, {', '.join(map(str, numbers))}, False"
    back = CallOp(
        CONVOLUTION_GRAD,
        [dy, found.input, found.weight],
        f"{text}, {output_padding}, {found.groups}, {mask}",
        [operand.type for operand in wanted.values()],
        positions=list(wanted),
    )
    adjoint.insert(back)
    for operand, gradient in zip(wanted.values(), back.outputs, strict=True):
        adjoint.give(operand, gradient)
    return True

"""Pass `drop-no-ops`: remove operators of a PyTorch model that have no effect."""

import ast
from collections.abc import Sequence
from typing import NamedTuple

from xdsl.dialects.builtin import DYNAMIC_INDEX, f32
from xdsl.ir import Operation, SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, shape_of, static_shape
from coda_ir.dialects.torch import CallOp
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, OpInserter
from coda_ir.passes.support.index_values import literal
from coda_ir.passes.support.matching import defined_by, unwidened
from coda_ir.passes.support.permuted import moves_elements
from coda_ir.passes.support.row_numbers import bound_of
from coda_ir.passes.support.views import start_of, taken_by
from coda_ir.storage import EXPAND
from coda_ir.symbolic_shapes import Dims, SymbolicShapes


class DropNoOpsPass(FunctionPass):
    """Replaces an operator by its operand, or by a simpler operator with bitwise equal results.

        cast(cast(x) to a wider type) to the type of x   -> x
        expand(x) to the dimensions of x                 -> x
        pad(x) by no elements                            -> x
        reshape(x) to the dimensions of x, at once or by another reshape -> x
        reshape of code on reshaped tensors to their own dimensions -> code on the tensors
        transpose that moves extents of 1 alone          -> reshape
        code on columns of one element that were rows    -> code on the rows, as columns
        transpose of an outer product                    -> outer product of the reshaped factors
        slice of a slice of the same dimension           -> one slice
        slice inside of one part of a concat             -> slice of that part
        slice of as many rows of a pad as it had         -> shift
        rows that are shifted by another row's zero      -> rows with another distance
        concat(x, a part without elements)               -> x
        concat of a concat that nothing else reads       -> one concat
        concat(x[0:k], x[k:n]) of all of x               -> x
        concat of equal parts of x along another dimension -> transpose of x that is reshaped
        slices that are stored in all of a tensor        -> concat of the stored tensors
        each nth element, stored for all of them         -> reshape of a concat in a new dimension
        each nth element, but of the last dimension      -> slice of a new dimension
        cross_entropy of rows that are flattened         -> cross_entropy of the rows, not flattened
        cross_entropy of logits widened to float32       -> cross_entropy of the logits
        reduction of rows that are flattened             -> reduction of the rows, flattened
        where(ids >= n, x, y) of ids below n             -> y
        minimum(ids, n) of ids up to n                   -> ids

    Dimensions are compared as symbols. Two different symbols are never assumed to have the same
    extent.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops:
            value = _simpler(op, rewriter)
            if value is not None:
                rewriter.order.give_way(op, [value])


def _simpler(op: Operation, rewriter: FunctionRewriter) -> SSAValue | None:
    match op:
        case coda.CastOp():
            narrow = unwidened(op.operand)
            return narrow if narrow.type == op.result.type else _on_rows(op, rewriter)
        case coda.ReshapeOp():
            inner = defined_by(op.x, coda.ReshapeOp)
            restored = _if_same_dims(inner.x, op, rewriter) if inner else None
            same = restored or _if_same_dims(op.x, op, rewriter)
            return same or _before_reshape(op, rewriter)
        case coda.TransposeOp():
            return _reshaped(op, rewriter) or _transposed_product(op, rewriter)
        case CallOp() if op.callee.data == EXPAND:
            return _if_same_dims(op.inputs[0], op, rewriter)
        case CallOp() if op.callee.data == SLICE_SCATTER:
            return joined_slices(op, rewriter.before(op))
        case CallOp() if op.callee.data == "aten.pad.default" and _adds_nothing(op):
            return _if_same_dims(op.inputs[0], op, rewriter)
        case CallOp() if op.callee.data == "aten.slice.Tensor":
            return _shifted(op, rewriter) or _every_nth(op, rewriter)
        case coda.SliceOp():
            return (
                _shifted(op, rewriter)
                or _shifted_relatively(op, rewriter)
                or _simpler_slice(op, rewriter)
            )
        case coda.ConcatOp():
            return _simpler_concat(op, rewriter)
        case coda.CrossEntropyOp():
            return _simpler_loss(op, rewriter)
        case coda.ReduceOp():
            return _reduced_rows(op, rewriter)
        case coda.WhereOp():
            return _decided(op, rewriter) or _on_rows(op, rewriter)
        case coda.MinimumOp():
            return _within(op, rewriter) or _on_rows(op, rewriter)
        case coda.ElementwiseOp():
            return _on_rows(op, rewriter)
        case _:
            return None


def _decided(op: coda.WhereOp, rewriter: FunctionRewriter) -> SSAValue | None:
    """Return the value that a condition on numbers selects, if its outcome is known."""
    condition = op.condition.owner
    while isinstance(condition, coda.ReshapeOp):
        condition = condition.x.owner
    if not isinstance(condition, coda.CompareOp):
        return None
    limit, bound = condition.rhs.owner, bound_of(condition.lhs, rewriter.shapes)
    if not isinstance(limit, coda.ConstantOp) or bound is None or bound.symbols:
        return None
    if limit.number < int(bound):
        return None
    chosen = op.lhs if condition.relation.data in ("lt", "le", "ne") else op.rhs
    return _if_same_dims(chosen, op, rewriter)


def _within(op: coda.MinimumOp, rewriter: FunctionRewriter) -> SSAValue | None:
    """Return numbers that are known not to exceed the limit to which they are clamped."""
    limit, bound = op.rhs.owner, bound_of(op.lhs, rewriter.shapes)
    if not isinstance(limit, coda.ConstantOp) or bound is None or bound.symbols:
        return None
    return None if limit.number < int(bound) - 1 else _if_same_dims(op.lhs, op, rewriter)


def _adds_nothing(pad: CallOp) -> bool:
    """Return whether a call puts no elements at any end."""
    pads = pad.template.call.args[1]
    return isinstance(pads, ast.List) and all(literal(node) == 0 for node in pads.elts)


def _if_same_dims(x: SSAValue, op: Operation, rewriter: FunctionRewriter) -> SSAValue | None:
    (result,) = op.results
    same = element_type_of(x) == element_type_of(result) and x.type == result.type
    return x if same and rewriter.shapes.dims(x) == rewriter.shapes.dims(result) else None


def _on_rows(op: coda.CastOp | coda.ElementwiseOp, rewriter: FunctionRewriter) -> SSAValue | None:
    """Return code on columns of one element, computed on rows if one of its operands was a row."""
    dims = rewriter.shapes.dims(op.result)
    if len(dims) < 3 or dims[-1] != 1 or dims[-2] == 1:
        return None
    if not any(_row(x, rewriter.shapes) is not None for x in op.operands):
        return None
    insert = rewriter.before(op, op.location)
    operands = [_as_row(x, insert) for x in op.operands]
    transposed = insert.again(op, operands, static_shape(_transpose_last(dims)))
    return insert.reshape(transposed, dims)


def _before_reshape(op: coda.ReshapeOp, rewriter: FunctionRewriter) -> SSAValue | None:
    """Return code on reshaped tensors, whose result `op` gives their own dimensions, computed on
    the tensors; None if it has other readers or other operands than these and numbers.
    """
    code, dims = op.x.owner, rewriter.shapes.dims(op.result)
    if not isinstance(code, coda.CastOp | coda.ElementwiseOp) or not op.x.has_one_use():
        return None
    views = [defined_by(x, coda.ReshapeOp) for x in code.operands]
    tensors = [x if view is None else view.x for view, x in zip(views, code.operands, strict=True)]
    if not any(views) or any(rewriter.shapes.dims(x) not in (dims, ()) for x in tensors):
        return None
    return rewriter.before(op, code.location).again(code, tensors, shape_of(op.result))


def _row(x: SSAValue, shapes: SymbolicShapes) -> SSAValue | None:
    """Return what `x` is a reshape of, if that has its last two dimensions in the other order."""
    view, dims = defined_by(x, coda.ReshapeOp), shapes.dims(x)
    is_row = view is not None and len(dims) > 1 and shapes.dims(view.x) == _transpose_last(dims)
    return view.x if is_row else None


def _as_row(x: SSAValue, insert: OpInserter) -> SSAValue:
    """Return `x` with its last two dimensions in the other order, one of which has one element."""
    shapes = insert.rewriter.shapes
    if len(shape_of(x)) < 2:
        return x
    return _row(x, shapes) or insert.reshape(x, _transpose_last(shapes.dims(x)))


def _transpose_last(dims: Dims) -> Dims:
    """Return dimensions with the last two in the other order."""
    return (*dims[:-2], dims[-1], dims[-2])


def _reshaped(op: coda.TransposeOp, rewriter: FunctionRewriter) -> SSAValue | None:
    if moves_elements(shape_of(op.x), op.permutation):
        return None
    reshape = coda.ReshapeOp(op.x, shape_of(op.result))
    reshape.attributes["coda.dims"] = rewriter.shapes.stated(rewriter.shapes.dims(op.result))
    return rewriter.before(op).insert(reshape)


def _transposed_product(op: coda.TransposeOp, rewriter: FunctionRewriter) -> SSAValue | None:
    """Return a product that only such transposes read, computed in their order by reshapes."""
    product, order = op.x.owner, op.permutation
    if not isinstance(product, coda.ElementwiseOp) or not _all_transpose(op.x, order):
        return None
    shapes = [(1,) * (len(order) - len(shape_of(x))) + shape_of(x) for x in product.operands]
    if any(moves_elements(shape, order) for shape in shapes):
        return None
    insert = rewriter.before(op, product.location)
    operands = [
        _transposed(x, shape, order, insert) if shape_of(x) else x
        for x, shape in zip(product.operands, shapes, strict=True)
    ]
    transposed = insert.again(product, operands, shape_of(op.result))
    transposed.name_hint = None
    return transposed


def _all_transpose(x: SSAValue, order: Sequence[int]) -> bool:
    users = [use.operation for use in x.uses]
    return all(isinstance(user, coda.TransposeOp) and user.permutation == order for user in users)


def _transposed(
    x: SSAValue, shape: Sequence[int], order: Sequence[int], insert: OpInserter
) -> SSAValue:
    """Return `x` in an order that moves only extents of 1, converted if the product needs it."""
    if isinstance(x.owner, coda.CastOp):
        return insert.cast(_transposed(x.owner.operand, shape, order, insert), element_type_of(x))
    dims = (*(1,) * (len(shape) - len(shape_of(x))), *insert.rewriter.shapes.dims(x))
    return insert.reshape(x, [dims[axis] for axis in order])


def _shifted(op: Operation, rewriter: FunctionRewriter) -> SSAValue | None:
    """Return the rows that padding with zeros moves, if a slice takes as many as there were."""
    pad, rank = defined_by(op.operands[0], coda.PadOp), len(shape_of(op.results[0]))
    if pad is None or pad.added is None or pad.number or pad.dim.value.data != rank - 2:
        return None
    start = start_of(op, rank - 2)
    if start is None or rewriter.shapes.dims(op.results[0]) != rewriter.shapes.dims(pad.x):
        return None
    insert, (before, _) = rewriter.before(op), pad.added
    return pad.x if start == before else insert.insert(coda.ShiftOp(pad.x, before - start))


def _shifted_relatively(op: coda.SliceOp, rewriter: FunctionRewriter) -> SSAValue | None:
    """Return T x P scores whose row t begins at its column T - 1 - t, of which a slice takes n.

    Models put a zero in front of each row, see the elements as P + 1 rows, drop the first, and see
    the rest as T rows. That is a view of the scores, from element T - 1 on, in rows of P - 1.
    """
    rows = defined_by(op.x, coda.ReshapeOp)
    part = rows and defined_by(rows.x, coda.SliceOp)
    view = part and defined_by(part.x, coda.ReshapeOp)
    pad = view and defined_by(view.x, coda.PadOp)
    if rows is None or part is None or view is None or pad is None or pad.number:
        return None
    dims = rewriter.shapes.dims(pad.x)
    *_, t, p = shape_of(pad.x)
    last, (dim, start, n) = len(dims) - 1, op.range
    is_padded = pad.added == (1, 0) and pad.dim.value.data == last
    is_transposed = rewriter.shapes.dims(view.result) == (*dims[:-2], p + 1, t)
    is_restored = rewriter.shapes.dims(rows.result) == dims and part.range == (last - 1, 1, p + 1)
    if DYNAMIC_INDEX in (t, p) or not (is_padded and is_transposed and is_restored):
        return None
    if (dim, start) != (last, 0) or n > min(p - 1, p - t + 1):
        return None
    insert = rewriter.before(op)
    flat = insert.reshape(pad.x, (*dims[:-2], t * p))
    span = insert.insert(coda.SliceOp(flat, last - 1, t - 1, t * p - 1))
    moved = insert.reshape(span, (*dims[:-2], t, p - 1))
    return insert.insert(coda.SliceOp(moved, last, 0, n))


def _every_nth(op: CallOp, rewriter: FunctionRewriter) -> SSAValue | None:
    """Return each nth element of a dimension as part of a new one, of n. Columns that alternate are
    left to the passes that pair them.
    """
    taken, (x,) = taken_by(op), op.inputs
    if taken is None or taken.start >= taken.step or taken.dim == len(shape_of(x)) - 1:
        return None
    dim, start, step = taken
    dims, result = rewriter.shapes.dims(x), rewriter.shapes.dims(op.outputs[0])
    extent, count = dims[dim], result[dim]
    if not isinstance(count, int) or step == 1 or extent != count * step:
        return None
    insert = rewriter.before(op)
    apart = insert.reshape(x, (*dims[:dim], count, step, *dims[dim + 1 :]))
    part = coda.SliceOp(apart, dim + 1, start, start + 1)
    return insert.reshape(insert.insert(part, op.outputs[0].name_hint), result)


def _simpler_slice(op: coda.SliceOp, rewriter: FunctionRewriter) -> SSAValue | None:
    dim, start, stop = op.range
    x, offset = op.x, 0
    inner, joined = x.owner, defined_by(x, coda.ConcatOp)
    if isinstance(inner, coda.SliceOp) and inner.dim.value.data == dim:
        x, offset = inner.x, inner.start.value.data
    elif joined is not None and joined.dim.value.data == dim:
        found = _part_of(joined, start, stop)
        if found is None:
            return None
        x, offset = found
    else:
        return None
    if (start + offset, stop + offset) == (0, shape_of(x)[dim]):
        return x
    insert = rewriter.before(op)
    return insert.insert(coda.SliceOp(x, dim, start + offset, stop + offset))


def _part_of(joined: coda.ConcatOp, start: int, stop: int) -> tuple[SSAValue, int] | None:
    """Return the part that contains the elements from start to stop, and minus its position."""
    position = 0
    for part in joined.parts:
        extent = shape_of(part)[joined.dim.value.data]
        if extent == DYNAMIC_INDEX:
            return None
        if position <= start and stop <= position + extent:
            return part, -position
        position += extent
    return None


def _simpler_concat(op: coda.ConcatOp, rewriter: FunctionRewriter) -> SSAValue | None:
    dim = op.dim.value.data
    whole = _rejoined(op, dim, rewriter)
    if whole is not None:
        return whole
    filled = [part for part in op.parts if shape_of(part)[dim] != 0]
    parts = [inner for part in filled for inner in _parts_of(part, dim)]
    if not parts or parts == [*op.parts]:
        return None
    return parts[0] if len(parts) == 1 else rewriter.before(op).insert(coda.ConcatOp(parts, dim))


def _parts_of(part: SSAValue, dim: int) -> Sequence[SSAValue]:
    """Return the parts of a concat along a dimension that has one reader, or else the value."""
    joined = defined_by(part, coda.ConcatOp)
    is_inner = joined is not None and joined.dim.value.data == dim and part.has_one_use()
    return joined.parts if joined is not None and is_inner else [part]


def _rejoined(op: coda.ConcatOp, dim: int, rewriter: FunctionRewriter) -> SSAValue | None:
    """Return x if the parts are slices that cover x in order; x in another order if these are
    slices of another dimension, such as heads of columns that are joined along the batch.
    """
    slices = [defined_by(part, coda.SliceOp) for part in op.parts]
    first = slices[0]
    if first is None:
        return None
    axis, position = first.range[0], 0
    for part in slices:
        if part is None or part.x is not first.x or part.range[:2] != (axis, position):
            return None
        position = part.range[2]
    dims = rewriter.shapes.dims(first.x)
    if position != dims[axis]:
        return None
    if axis == dim:
        return first.x
    insert, count = rewriter.before(op), len(slices)
    split = insert.reshape(first.x, (*dims[:axis], count, position // count, *dims[axis + 1 :]))
    order = [other for other in range(len(dims) + 1) if other != axis]
    order.insert(order.index(dim + (dim > axis)), axis)
    moved = insert.insert(coda.TransposeOp(split, order), op.result.name_hint)
    return insert.reshape(moved, rewriter.shapes.dims(op.result))


def _simpler_loss(op: coda.CrossEntropyOp, rewriter: FunctionRewriter) -> SSAValue | None:
    """Return the loss of the logits before they were flattened and widened to float32."""
    logits, target = _before_flat(op, rewriter.shapes) or (op.logits, op.target)
    logits = unwidened(logits) if element_type_of(logits) == f32 else logits
    if logits is op.logits or op.row_lse:
        return None
    insert = rewriter.before(op)
    rows = shape_of(target) if op.reduction.data == "none" else ()
    return insert.reshape(insert.again(op, [logits, target], rows), rewriter.shapes.dims(op.result))


def _before_flat(
    op: coda.CrossEntropyOp, shapes: SymbolicShapes
) -> tuple[SSAValue, SSAValue] | None:
    """Return logits and targets without the reshapes that flatten the rows of both alike."""
    logits, target = defined_by(op.logits, coda.ReshapeOp), defined_by(op.target, coda.ReshapeOp)
    if logits is None or target is None:
        return None
    *rows, columns = shapes.dims(logits.x)
    if columns != shapes.dims(op.logits)[-1] or tuple(rows) != tuple(shapes.dims(target.x)):
        return None
    return logits.x, target.x


def _reduced_rows(op: coda.ReduceOp, rewriter: FunctionRewriter) -> SSAValue | None:
    """Return a reduction of rows before these are flattened."""
    flat = defined_by(op.x, coda.ReshapeOp)
    if flat is None:
        return None
    *rows, columns = rewriter.shapes.dims(flat.x)
    if columns != rewriter.shapes.dims(op.x)[-1] or len(rows) < len(shape_of(op.x)):
        return None
    insert = rewriter.before(op)
    value = insert.again(op, [flat.x], static_shape((*rows, 1)))
    return insert.reshape(value, rewriter.shapes.dims(op.result))


# Slices that calls of PyTorch store one after the other


SLICE_SCATTER = "aten.slice_scatter.default"


class _Store(NamedTuple):
    """Elements of dimension `dim` of a tensor that are those of `part`, in order."""

    tensor: SSAValue
    part: SSAValue
    dim: int
    places: range


def joined_slices(op: CallOp, insert: OpInserter) -> SSAValue | None:
    """Join the slices that `op` and the calls before it store, if they are all of the tensor
    and do not overlap. Slices of each nth element are the parts of a new dimension.
    """
    value, last = op.outputs[0], _store_of(op.outputs[0])
    stores: list[_Store] = []
    stored: set[int] = set()
    while last is not None and len(stored) < shape_of(value)[last.dim]:
        store = _store_of(value if not stores else stores[-1].tensor)
        if store is None or not _joins(store, last) or not stored.isdisjoint(store.places):
            return None
        stores.append(store)
        stored.update(store.places)
    if last is None or not stores:
        return None
    stores.sort(key=lambda store: store.places.start)
    parts, dim = [store.part for store in stores if store.places], last.dim
    if last.places.step == 1:
        return insert.insert(coda.ConcatOp(parts, dim))
    # More of them take turns in one part of the tensor, and then in the next.
    return _interleaved(parts, dim, value, insert) if len(parts) == last.places.step else None


def _interleaved(
    parts: Sequence[SSAValue], dim: int, value: SSAValue, insert: OpInserter
) -> SSAValue:
    """Return a tensor like `value` with the elements of `parts` interleaved along `dim`."""
    dims = insert.rewriter.shapes.dims(parts[0])
    apart = (*dims[: dim + 1], 1, *dims[dim + 1 :])
    joined = insert.insert(coda.ConcatOp([insert.reshape(x, apart) for x in parts], dim + 1))
    return insert.reshape(joined, (*dims[:dim], shape_of(value)[dim], *dims[dim + 1 :]))


def _store_of(value: SSAValue) -> _Store | None:
    """Return the slice that the call of `value` stores, if its number of elements is known."""
    op = value.owner
    if not isinstance(op, CallOp) or op.callee.data != SLICE_SCATTER or not op.template.is_literal:
        return None
    positional, named = op.template.evaluate(list(op.inputs), {}, {})
    tensor, part, *given = positional
    axis, start, stop, step = (*given, *(0, None, None, 1)[len(given) :])
    dim = int(axis or 0) % len(shape_of(tensor))
    extent, types = shape_of(tensor)[dim], {element_type_of(x) for x in (tensor, part)}
    if named or extent == DYNAMIC_INDEX or len(types) > 1:
        return None
    return _Store(tensor, part, dim, range(extent)[start:stop:step])


def _joins(a: _Store, b: _Store) -> bool:
    """Return whether both store contiguous elements of one dimension, or as many with one step."""
    if (a.dim, a.places.step) != (b.dim, b.places.step):
        return False
    return a.places.step == 1 or len(a.places) == len(b.places)

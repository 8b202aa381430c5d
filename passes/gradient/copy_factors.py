"""Pass `copy-factors`: what several products of PyTorch would copy is copied once."""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from xdsl.ir import SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.dialects.torch import COPY, PRODUCTS, CallOp
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, Refusal


class _Factor(NamedTuple):
    """An operand of a product."""

    product: CallOp
    position: int

    @property
    def turned(self) -> coda.TransposeOp:
        turned = self.product.inputs[self.position].owner
        assert isinstance(turned, coda.TransposeOp), "checked before"
        return turned


class CopyFactorsPass(FunctionPass):
    """Copies heads once for all products that read them.

        %k = coda.transpose %x : (B x S x T x heads x D) to (B x S x heads x T x D)
        %t = coda.transpose %x : (B x S x T x heads x D) to (B x S x heads x D x T)
        %y = torch.call "aten.matmul.default"(%q, %t)
        %z = torch.call "aten.matmul.default"(%d_y, %k)
    ->
        %c = torch.call "aten.clone.default"(%k)
        %u = coda.transpose %c : (B x S x heads x T x D) to (B x S x heads x D x T)
        %y = torch.call "aten.matmul.default"(%q, %u)
        %z = torch.call "aten.matmul.default"(%d_y, %c)

    PyTorch multiplies batches that are one dimension in memory, and copies a factor whose
    batches are not, in each product: in those of the gradients once more. On the joint function,
    so that the copy is saved. Worth it iff several products read the same factor, or its transpose.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        found = defaultdict[tuple[SSAValue, tuple[int, ...]], list[_Factor]](list)
        for op in rewriter.ops:
            if not isinstance(op, CallOp) or op.callee.data not in PRODUCTS:
                continue
            for position, value in enumerate(op.inputs):
                turned = value.owner
                if isinstance(turned, coda.TransposeOp) and _is_copied(turned):
                    found[turned.x, _of_rows(turned)].append(_Factor(op, position))
        for factors in found.values():
            first = factors[0].product
            if rewriter.accepts(first, _check(factors), f"{len(factors)} products share a copy"):
                _share(factors, rewriter)


def _of_rows(op: coda.TransposeOp) -> tuple[int, ...]:
    """Return the permutation to the same batches of matrices with contiguous rows."""
    return (*op.permutation[:-2], *sorted(op.permutation[-2:]))


def _is_copied(op: coda.TransposeOp) -> bool:
    """Return whether the batches of the result, whose matrices have contiguous rows or columns, are
    not one dimension in memory.
    """
    long = [axis for axis, extent in enumerate(shape_of(op.x)) if extent != 1]
    *batches, row, column = op.permutation
    places = [long.index(axis) for axis in batches if axis in long]
    is_one = not places or places == list(range(places[0], places[0] + len(places)))
    return not is_one and len(op.permutation) - 1 in (row, column)


def _check(factors: Sequence[_Factor]) -> Refusal | None:
    if len(factors) > 1:
        return None
    return Refusal(
        "several products read the same batches of matrices, or their transposes",
        "copied by the only product that reads it",
    )


def _share(factors: Sequence[_Factor], rewriter: FunctionRewriter) -> None:
    (first, _), order = factors[0], _of_rows(factors[0].turned)
    insert = rewriter.before(first)
    rows = coda.TransposeOp(factors[0].turned.x, order)
    name = factors[0].turned.result.name_hint
    insert.insert(rows, name)
    copy = CallOp(
        COPY, [rows.result], "{0}, memory_format=torch.contiguous_format", [rows.result.type]
    )
    copy.attributes["coda.dims"] = rewriter.shapes.stated(rewriter.shapes.dims(rows.result))
    insert.insert(copy, name)
    copied: dict[tuple[int, ...], SSAValue] = {order: copy.outputs[0]}
    batches = range(len(order) - 2)
    for factor in factors:
        wanted = factor.turned.permutation
        if wanted not in copied:
            turned = coda.TransposeOp(copy.outputs[0], (*batches, len(order) - 1, len(order) - 2))
            copied[wanted] = insert.insert(turned, name)
        factor.product.operands[factor.position] = copied[wanted]

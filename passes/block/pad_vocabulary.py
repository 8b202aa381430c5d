"""Pass `pad-vocabulary`: products with an odd number of columns are computed with a few more."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.dialects.func import ReturnOp
from xdsl.ir import SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_bytes, element_type_of, shape_of
from coda_ir.dialects.torch import CallOp
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, Refusal
from coda_ir.passes.support.norms import OpInserter
from coda_ir.storage import ALIGNMENT

ROW_BYTES, FEWEST_ROWS, FEWEST_COLUMNS = 64, 256, 4096
"""Bytes that rows of logits start at a multiple of; rows and columns from which a copy of weight
and logits takes less time than stores of single elements."""

_ROWS = f"there are at least {FEWEST_ROWS} rows"


@dataclass(frozen=True)
class PadVocabularyPass(FunctionPass):
    """Rows of logits start where vector stores and TMA accept them; their columns are copied.

        %y = coda.linear %x, %w     ->    %p = coda.pad %w {dim = 0, ...}     // 50257 to 50272 rows
                                          %z = coda.linear %x, %p
                                          %s = coda.slice %z {dim = 1, ...}   // 50257 columns
                                          %y = torch.call "aten.clone"(%s)    // dense again

    The rows that are added are zeros, and the columns that they give are cut off. The derived
    gradients of weight and input are GEMMs of padded rows, too. Legal iff the rows of the product
    do not start at multiples of 16 bytes. Worth it iff it has many rows and columns, and is
    returned as it is: an epilogue that takes the logits, such as that of a loss, stores none.
    """

    name: ClassVar[str] = "pad-vocabulary"

    report: bool = True
    """Whether to emit remarks on what is refused; a later run of the pass would repeat them."""

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops:
            if isinstance(op, coda.LinearOp) and _is_misaligned(op):
                refusal = _why_not(op)
                if refusal is None:
                    _pad(op, rewriter)
                elif self.report:
                    rewriter.missed(op, refusal)


def _is_misaligned(op: coda.LinearOp) -> bool:
    columns = shape_of(op.result)[-1]
    row_bytes = columns * element_bytes(op.result.type)
    return columns >= FEWEST_COLUMNS and row_bytes % ALIGNMENT != 0


def _why_not(op: coda.LinearOp) -> Refusal | None:
    rows = shape_of(op.x)[:-1]
    if DYNAMIC_INDEX in rows:
        return Refusal(_ROWS, "the number of rows is not known", "state the number of rows")
    if prod(rows) < FEWEST_ROWS:
        return Refusal(_ROWS, f"there are {prod(rows)} rows")
    if not _is_returned(op.result):
        return Refusal("the product is returned as it is", "another operator reads the product")
    return None


def _is_returned(value: SSAValue) -> bool:
    """Return whether a value, or views of it, are returned, and nothing else reads them."""
    return all(
        isinstance(use.operation, ReturnOp)
        or (isinstance(use.operation, coda.ReshapeOp) and _is_returned(use.operation.result))
        for use in value.uses
    )


def _pad(op: coda.LinearOp, rewriter: FunctionRewriter) -> None:
    columns = shape_of(op.result)[-1]
    multiple = ROW_BYTES // element_bytes(op.result.type)
    padded = -(-columns // multiple) * multiple
    rewriter.passed(op, f"computed with {padded} columns, so that rows are aligned")
    insert = OpInserter(rewriter, op, op.location)
    weight = insert.insert(coda.PadOp(op.weight, 0, 0, padded), "padded")
    bias = None if op.bias is None else insert.insert(coda.PadOp(op.bias, 0, 0, padded), "padded")
    linear = coda.LinearOp(op.x, weight, bias, result_element_type=element_type_of(op.result))
    product = insert.insert(linear, op.result.name_hint)
    last = len(shape_of(product)) - 1
    part = insert.insert(coda.SliceOp(product, last, 0, columns), op.result.name_hint)
    # Callers may take the result of a product for dense.
    copy = CallOp("aten.clone.default", [part], "{0}", [op.result.type])
    dense = insert.insert(copy, op.result.name_hint)
    op.result.replace_all_uses_with(dense)
    rewriter.order.erase(op)

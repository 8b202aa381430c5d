"""Pass `pad-rows`: copy unaligned rows of operands of products, and pad their columns."""

from math import prod

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_bytes, element_type_of, shape_of
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, Refusal
from coda_ir.storage import ALIGNMENT

ROW_BYTES, MIN_ROWS, MIN_COLUMNS = 64, 256, 4096
"""Alignment of the rows of a copy in bytes; the least rows and columns for which it is faster."""

_ROWS = f"there are at least {MIN_ROWS} rows"

Product = coda.MatmulOp | coda.WeightGradientOp


class PadRowsPass(FunctionPass):
    """Copies operands of products so that their rows are aligned for vector loads and TMA.

        %dx = coda.matmul %dy, %w             ->    %p = coda.pad %dy {dim = 1, ...}    // zeros
        %dw = coda.weight_gradient %dy, %x          %q = coda.pad %w {dim = 0, ...}
                                                    %dx = coda.matmul %p, %q
                                                    %z = coda.weight_gradient %p, %x
                                                    %dw = coda.slice %z {dim = 0, ...}

    For example, %dy is the gradient of the logits of an odd vocabulary, and both products share its
    copy. Legal iff the rows of %dy do not start at multiples of 16 bytes: zeros add nothing to the
    first product, and the slice removes the rows that they add to the second. Worth it iff %dy has
    many rows and columns.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        copies: dict[SSAValue, SSAValue] = {}
        for op in rewriter.ops:
            if not isinstance(op, Product) or not _is_misaligned(op.operands[0]):
                continue
            if not rewriter.refuses(op, _why_not(shape_of(op.operands[0])[:-1])):
                _pad(op, copies, rewriter)


def _is_misaligned(value: SSAValue) -> bool:
    columns = shape_of(value)[-1]
    return columns >= MIN_COLUMNS and columns * element_bytes(value.type) % ALIGNMENT != 0


def _why_not(rows: tuple[int, ...]) -> Refusal | None:
    if DYNAMIC_INDEX in rows:
        return Refusal(_ROWS, "the number of rows is not known", "state the number of rows")
    if prod(rows) < MIN_ROWS:
        return Refusal(_ROWS, f"there are {prod(rows)} rows")
    return None


def _pad(op: Product, copies: dict[SSAValue, SSAValue], rewriter: FunctionRewriter) -> None:
    read, type = op.operands[0], element_type_of(op.result)
    *_, columns = shape_of(read)
    multiple = ROW_BYTES // element_bytes(read.type)
    padded = -(-columns // multiple) * multiple
    rewriter.passed(op, f"reads rows of {padded} columns, which are aligned")
    insert = rewriter.before(op)
    if read not in copies:
        last = len(shape_of(read)) - 1
        copies[read] = insert.insert(coda.PadOp(read, last, 0, padded), "padded")
    if isinstance(op, coda.MatmulOp):
        weight = insert.insert(coda.PadOp(op.weight, 0, 0, padded), "padded")
        product = coda.MatmulOp(copies[read], weight, element_type=type)
        result = insert.insert(product)
    else:
        product = coda.WeightGradientOp(copies[read], op.x, element_type=type)
        rows = insert.insert(product, op.result.name_hint)
        result = insert.insert(coda.SliceOp(rows, 0, 0, columns))
    rewriter.replace(op, result)

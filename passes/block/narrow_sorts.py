"""Pass `narrow-sorts`: small integers are sorted in a type of few bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import IntegerType, i64

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter
from coda_ir.passes.support.norms import OpInserter
from coda_ir.passes.support.row_numbers import bound_of


@dataclass(frozen=True)
class NarrowSortsPass(FunctionPass):
    """Sorts 64-bit integers that are known to be small in 8 or 16 bits.

        %s, %order = coda.sort %ids : i64      ->   %n = coda.cast %ids to i8
                                                    %t, %order = coda.sort %n : i8
                                                    %s = coda.cast %t to i64

    A radix sort reads and writes everything once for each 8 bits, whether they are 0 or not:
    numbers of experts take one pass instead of eight. Legal iff no number is negative, and all fit
    (at most 128 experts, or 32768): the order of equal numbers is that of their places.
    """

    name: ClassVar[str] = "narrow-sorts"

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops:
            if isinstance(op, coda.SortOp) and element_type_of(op.x) == i64:
                bound = bound_of(op.x, rewriter.shapes)
                if bound is not None and not bound.symbols and int(bound) <= 2**15:
                    _narrow(op, 8 if int(bound) <= 2**7 else 16, rewriter)


def _narrow(op: coda.SortOp, bits: int, rewriter: FunctionRewriter) -> None:
    rewriter.passed(op, f"sorts integers of {bits} bits")
    insert = OpInserter(rewriter, op, op.location)
    narrow = insert.insert(coda.CastOp(op.x, IntegerType(bits)))
    sort = coda.SortOp(narrow, **op.given)
    values = insert.insert(sort, op.result.name_hint)
    sort.ids.name_hint = op.ids.name_hint
    op.ids.replace_all_uses_with(sort.ids)
    op.result.replace_all_uses_with(insert.insert(coda.CastOp(values, i64)))
    rewriter.order.erase(op)

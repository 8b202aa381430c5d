"""Pass `unfuse-gemms`: store products in memory, and run epilogues as separate kernels."""

from typing import cast, get_args

from xdsl.dialects.builtin import DYNAMIC_INDEX

from coda_ir.diagnostics import OptionError
from coda_ir.dialects.gemm import FusedOp
from coda_ir.passes.layout.unfusing import (
    By,
    extents_of_weights,
    is_bare,
    unfuse,
    why_not_unfused,
)
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, Refusal


class UnfuseGemmsPass(FunctionPass):
    """Separates epilogues from their GEMMs, so that tuning can measure the gain of fusion.

        %y = gemm.fused %x                     %p = gemm.fused %x columns(%w) -> (tile: f32)
          columns(%w) row(%b) -> (tile) {  ->  %y = gemm.map tile(%p) row(%b) -> (tile) {
            yield silu(acc + b)                    yield silu(p + b)
          }                                      }

    With `by=library`, PyTorch computes the products, even without an epilogue: `%p = gemm.library
    %x columns(%w)`, one for each weight. Products are stored in float32, or in a narrower type if
    every use rounds them to it first, so rounding points do not move. With `narrow`, kernels also
    store products of 16 bits as eager PyTorch rounds them, unless a bias or a scale of rows or
    columns comes first, or the mode is not `fp32-epilogue`; `schedule` does this where it unfuses.
    GEMMs with a schedule are unchanged. With `symbolic`, so are those whose weights have extents
    that are numbers: kernels need such extents, and `schedule` leaves all other products to
    PyTorch.

    Refused if the program states the order of reductions, which belongs to a kernel; if tiles are
    stored transposed beside other code; and if the library would have to place the products of
    several weights side by side.
    """

    by: str = "kernels"
    symbolic: bool = False
    narrow: bool = False

    def check_options(self) -> None:
        if self.by not in get_args(By):
            raise OptionError(
                f"{self.name}: unknown by '{self.by}'", f"use {' or '.join(get_args(By))}"
            )

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        by = cast(By, self.by)
        for op in rewriter.ops:
            if isinstance(op, FusedOp) and op.schedule is None:
                epilogues = sum(not is_bare(segment) for segment in op.segments())
                symbol = next((x for x, n in extents_of_weights(op) if n == DYNAMIC_INDEX), None)
                if self.symbolic:
                    is_wanted = symbol is not None
                else:
                    is_wanted = epilogues > 0 or by == "library"
                if is_wanted:
                    self._take_apart(op, by, epilogues, symbol, rewriter)

    def _take_apart(
        self, op: FusedOp, by: By, epilogues: int, symbol: str | None, rewriter: FunctionRewriter
    ) -> None:
        if rewriter.refuses(op, why_not_unfused(op, by)):
            return
        what = "the library computes its products" if by == "library" else "its products are stored"
        kernels = f"{epilogues} pointwise kernel{'s' * (epilogues != 1)}"
        text = f"{what}, {kernels} its epilogue" if epilogues else what
        if self.symbolic:
            condition = "kernels know the extents of weights"
            rewriter.missed(op, Refusal(condition, f"{symbol} is symbolic: {text}", _REMEDY))
        else:
            rewriter.passed(op, text)
        unfuse(op, by, narrow=self.narrow)


_REMEDY = "for a GEMM with a fused epilogue, give the extents of weights as numbers or consts"

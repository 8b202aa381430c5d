"""Pass `unfuse-gemms`: store products in memory, and run epilogues as separate kernels."""

from typing import cast, get_args

from coda_ir.diagnostics import OptionError
from coda_ir.dialects.gemm import FusedOp
from coda_ir.passes.layout.unfusing import By, is_bare, unfuse, why_not_unfused
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter


class UnfuseGemmsPass(FunctionPass):
    """Separates epilogues from their GEMMs, so that tuning can measure the gain of fusion.

        %y = gemm.fused %x                     %p = gemm.fused %x columns(%w) -> (tile: f32)
          columns(%w) row(%b) -> (tile) {  ->  %y = gemm.map tile(%p) row(%b) -> (tile) {
            yield silu(acc + b)                    yield silu(p + b)
          }                                      }

    With `by=library`, PyTorch computes the products, even without an epilogue: `%p = gemm.library
    %x columns(%w)`, one for each weight. Products are stored in float32, or in a narrower type if
    every use rounds them to it first, so rounding points do not move. GEMMs with a schedule are
    unchanged.

    Refused if the program states the order of reductions, which belongs to a kernel; if tiles are
    stored transposed beside other code; and if the library would have to place the products of
    several weights side by side.
    """

    by: str = "kernels"

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
                if epilogues or by == "library":
                    self._take_apart(op, by, epilogues, rewriter)

    def _take_apart(self, op: FusedOp, by: By, epilogues: int, rewriter: FunctionRewriter) -> None:
        if rewriter.refuses(op, why_not_unfused(op, by)):
            return
        what = "the library computes its products" if by == "library" else "its products are stored"
        kernels = f"{epilogues} pointwise kernel{'s' * (epilogues != 1)}"
        rewriter.passed(op, f"{what}, {kernels} its epilogue" if epilogues else what)
        unfuse(op, by)

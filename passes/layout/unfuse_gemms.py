"""Pass `unfuse-gemms`: products stored in memory, and epilogues as kernels of their own."""

from typing import cast, get_args

from coda_ir.diagnostics import CodaError
from coda_ir.dialects.gemm import FusedOp
from coda_ir.passes.layout.unfusing import By, is_bare, unfuse, why_not_unfused
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter


class UnfuseGemmsPass(FunctionPass):
    """Separates epilogues from their GEMMs, so that the gain of fusion can be measured.

        %y = gemm.fused %x                     %p = gemm.fused %x columns(%w) -> (tile: f32)
          columns(%w) row(%b) -> (tile) {  ->  %y = gemm.map tile(%p) row(%b) -> (tile) {
            yield silu(acc + b)                    yield silu(p + b)
          }                                      }

    With `by=library`, PyTorch computes the products: `%p = gemm.library %x columns(%w)`, one for
    each weight, also where there is no epilogue. Products are stored in float32, in a narrower type
    where every use rounds them to it first, so that rounding points stay where they are. GEMMs that
    have a schedule are left alone.

    Refused where the program states the order of reductions, which belongs to a kernel; where tiles
    are stored transposed beside other code, and where the library would have to put the products of
    several weights side by side.
    """

    by: str = "kernels"

    def check_options(self) -> None:
        if self.by not in get_args(By):
            raise CodaError(
                f"{self.name}: unknown by={self.by}", f"use {' or '.join(get_args(By))}"
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

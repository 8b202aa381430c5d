"""Pass `overlap-launches`: start kernels before the preceding kernels end."""

from xdsl.dialects.builtin import UnitAttr

from coda_ir.cost_model import DEVICES
from coda_ir.diagnostics import OptionError
from coda_ir.dialects.gemm import AHEAD_ATTRIBUTE, DEPENDENT_ATTRIBUTE, FinalizeOp, FusedOp, MapOp
from coda_ir.dialects.gemm.read_ahead import ahead_obstacle
from coda_ir.one_query_attention import OneQueryAttention
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, Refusal


class OverlapLaunchesPass(FunctionPass):
    """Launches kernels of the GEMM level early; each waits for the earlier kernels itself.

        gemm.fused %x ...    ->    gemm.fused %x ... attributes {coda.dependent}

    The launch, and the code of a kernel before its first memory access, run while the preceding
    kernel writes its last tiles (programmatic dependent launch). Always legal: a kernel waits for
    all earlier work before it reads or writes memory, and kernels that do not wait are launched as
    usual. The instructions exist on Hopper and later; other targets are refused.

    A GEMM of single rows that is not the first kernel gets the attribute `coda.ahead`, if its
    weights are arguments that only GEMMs read. It may load them before it waits, because the
    preceding kernel has waited for all work before the function.
    """

    target: str = "sm_90"

    def check_options(self) -> None:
        # Both came with Hopper.
        able = [name for name, device in DEVICES.items() if device.has_tma]
        if self.target not in able:
            raise OptionError(
                f"overlap-launches: target '{self.target}' has no programmatic dependent launch",
                f"use one of {', '.join(able)}",
            )

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops:
            is_attention = OneQueryAttention.of(op, rewriter.shapes) is not None
            if is_attention or isinstance(op, FusedOp | MapOp | FinalizeOp):
                op.attributes[DEPENDENT_ATTRIBUTE] = UnitAttr()
                rewriter.passed(op, "its launch overlaps with the preceding kernel")
            if isinstance(op, FusedOp) and _has_row_tiles(op):
                reason = ahead_obstacle(op)
                refusal = None if reason is None else Refusal(_CONDITION, reason)
                if rewriter.accepts(op, refusal, "the kernel loads weights before it waits"):
                    op.attributes[AHEAD_ATTRIBUTE] = UnitAttr()


_CONDITION = (
    "everything that it reads before its wait was written before the preceding kernel started"
)


def _has_row_tiles(op: FusedOp) -> bool:
    """Return whether a GEMM multiplies a row at a time, or has no schedule that decides it."""
    return op.schedule is None or op.schedule.has_one_row

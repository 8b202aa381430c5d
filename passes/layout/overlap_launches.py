"""Pass `overlap-launches`: kernels start before the preceding kernels end."""

from xdsl.dialects.builtin import UnitAttr

from coda_ir.cost_model import DEVICES
from coda_ir.diagnostics import CodaError
from coda_ir.dialects.gemm import DEPENDENT_ATTRIBUTE, FinalizeOp, FusedOp, MapOp
from coda_ir.one_query_attention import OneQueryAttention
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter


class OverlapLaunchesPass(FunctionPass):
    """Launches kernels of the GEMM level early: they wait for the earlier kernels themselves.

        gemm.fused %x ...    ->    gemm.fused %x ... attributes {coda.dependent}

    The launch, and what a kernel does before it reads memory, run while the kernel before writes
    its last tiles (programmatic dependent launch). Always legal: a kernel waits before it reads or
    writes memory, whatever ran before, and kernels that do not wait are launched as usual. Hopper
    has the instructions; other targets are refused.
    """

    target: str = "sm_90"

    def check_options(self) -> None:
        # Both came with Hopper.
        able = [name for name, device in DEVICES.items() if device.has_tma]
        if self.target not in able:
            raise CodaError(
                f"overlap-launches: target {self.target} has no programmatic dependent launch",
                f"use one of {', '.join(able)}",
            )

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops:
            is_attention = OneQueryAttention.of(op, rewriter.shapes) is not None
            if is_attention or isinstance(op, FusedOp | MapOp | FinalizeOp):
                op.attributes[DEPENDENT_ATTRIBUTE] = UnitAttr()
                rewriter.passed(op, "its launch overlaps with the preceding kernel")

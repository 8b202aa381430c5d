"""Pass `lower-to`: lower a module from its level to another one."""

from typing import Literal, TypeAlias, get_args

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from coda_ir.diagnostics import OptionError
from coda_ir.dialects.gemm import AttentionSumOp, FinalizeOp, FusedOp, MapOp
from coda_ir.passes.layout.plan_buffers import PlanBuffersPass
from coda_ir.passes.layout.schedule import SchedulePass
from coda_ir.passes.pipelines.coda_to_gemm import CodaToGemmPass
from coda_ir.passes.support.function_pass import NamedPass

Level: TypeAlias = Literal["block", "gemm", "scheduled"]


def level_of(module: ModuleOp) -> Level:
    """Return the level of a module: `scheduled` if all of its GEMMs have a schedule."""
    kinds = FusedOp | AttentionSumOp | MapOp | FinalizeOp
    ops = [op for op in module.walk() if isinstance(op, kinds)]
    gemms = [op for op in ops if isinstance(op, FusedOp | AttentionSumOp)]
    if gemms and all(op.schedule is not None for op in gemms):
        return "scheduled"
    return "gemm" if ops else "block"


class LowerToPass(NamedPass):
    """Lowers a module to `level` (gemm, scheduled). A module at this level is unchanged.

        coda.linear, coda.silu, ...  ->  gemm.fused with a schedule

    `coda-to-gemm` lowers from the block level; `schedule`, with the options `target` and
    `mainloop`, and `plan-buffers` lower from the GEMM level. The level `block` only checks that the
    module is on the block level, because no pass raises it. `first` is the level of the module. By
    default, a module with a GEMM is on the GEMM level, which is wrong for a source program with
    hand-written epilogues.
    """

    level: str = "scheduled"
    target: str = "portable"
    mainloop: str = "pointer"
    first: str | None = None

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        levels = get_args(Level)
        found = self.first or level_of(op)
        for level in (self.level, found):
            if level not in levels:
                raise OptionError(
                    f"lower-to: unknown level '{level}'", f"use one of {', '.join(levels)}"
                )
        if self.level == "block" != found:
            raise OptionError(
                "lower-to: the program is no longer on the block level",
                "run no passes, or start from the .coda file",
            )
        for step in self._steps(levels.index(found), levels.index(self.level)):
            step.apply(ctx, op)

    def _steps(self, first: int, last: int) -> tuple[ModulePass, ...]:
        """Return the passes from level number `first` to `last`; none if that is not later."""
        schedule = SchedulePass(target=self.target, mainloop=self.mainloop)
        by_level = ((CodaToGemmPass(),), (schedule, PlanBuffersPass()))
        return tuple(step for steps in by_level[first:last] for step in steps)

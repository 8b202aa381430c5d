"""Pass `lower-to`: the passes that lead from the level of a module to another one."""

from typing import Literal, TypeAlias, get_args

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from coda_ir.diagnostics import CodaError
from coda_ir.dialects.gemm import FinalizeOp, FusedOp, MapOp
from coda_ir.passes.layout.plan_buffers import PlanBuffersPass
from coda_ir.passes.layout.schedule import SchedulePass
from coda_ir.passes.pipelines.coda_to_gemm import CodaToGemmPass
from coda_ir.passes.support.function_pass import NamedPass

Level: TypeAlias = Literal["block", "gemm", "scheduled"]


def level_of(module: ModuleOp) -> Level:
    """Return the level of a module: `scheduled` if all of its GEMMs have a schedule."""
    ops = [op for op in module.walk() if isinstance(op, FusedOp | MapOp | FinalizeOp)]
    gemms = [op for op in ops if isinstance(op, FusedOp)]
    if gemms and all(op.schedule is not None for op in gemms):
        return "scheduled"
    return "gemm" if ops else "block"


class LowerToPass(NamedPass):
    """Brings a module to `level` (gemm, scheduled); a module at this level stays unchanged.

        coda.linear, coda.silu, ...  ->  gemm.fused with a schedule

    From the block level by `coda-to-gemm`, from the GEMM level by `schedule`, with `target` and
    `mainloop` as its options, and `plan-buffers`. A level `block` only checks that the module is
    on the block level, to which no pass leads back. `first` is the level of the module; by default
    a module with a GEMM is on the GEMM level, which is not true of a source program with epilogues
    written by hand.
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
                raise CodaError(
                    f"lower-to: unknown level '{level}'", f"use one of {', '.join(levels)}"
                )
        if self.level == "block" != found:
            raise CodaError(
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

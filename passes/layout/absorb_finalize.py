"""Pass `absorb-finalize`: kernels combine the partials of their own rows."""

from coda_ir.cost_model import DEVICES, Device
from coda_ir.cost_model.absorption import absorbed_us, finalize_us
from coda_ir.cost_model.rows import RowCounts
from coda_ir.cost_model.workload import NOMINAL_ROWS
from coda_ir.diagnostics import CodaError
from coda_ir.dialects.gemm import FinalizeOp, MapOp
from coda_ir.passes.layout.absorption import AbsorbedCode, Reader, check_absorption, readers_of
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, Refusal
from coda_ir.remarks import fuse_locations
from coda_ir.symbolic_size import parse_sizes


class AbsorbFinalizePass(FunctionPass):
    """Moves the per-row code of a finalize into the kernels that read its results: GEMMs, and
    pointwise ones, such as that of a norm of what a GEMM stored.

        %x, %p = gemm.fused ... schedule<...>            %x, %p = gemm.fused ... schedule<...>
        %r = gemm.finalize row (add %p) {          ->    %z = gemm.fused %x ... partial_add(%p) {
          yield rsqrt(sum / N + eps)                       ^bb0(%acc, %sum):
        }                                                  r = rsqrt(sum / N + eps)
        %z = gemm.fused %x ... col(%r) {                   yield acc * r
          ^bb0(%acc, %r): yield acc * r                  }
        }

    This saves a launch, but every tile reads the partials. Legal after `schedule` and before
    `plan-buffers`, iff every use of the finalize is a `col` port of a scheduled GEMM, or of a
    `gemm.map` with a known number of columns, and the number of partials is known and small. Done
    if the cost model estimates that reading them takes less time than a launch on `target`;
    `always` skips this check. With `maps_only`, a finalize that anything but `gemm.map` reads
    stays. `sizes` is the option of the pass `schedule`.
    """

    target: str = "portable"
    sizes: str | None = None
    always: bool = False
    maps_only: bool = False

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        rows = RowCounts(parse_sizes(self.sizes))
        for op in rewriter.ops_of(FinalizeOp):
            if self.maps_only and not all(isinstance(user, MapOp) for user in readers_of(op)):
                continue
            users = check_absorption(op)
            refusal = users if isinstance(users, Refusal) else self._check_cost(op, users, rows)
            if refusal is not None:
                rewriter.missed(op, refusal)
            elif not isinstance(users, Refusal):
                rewriter.passed(op, f"absorbed by {_names(users)}: one launch fewer")
                for user in users:
                    _absorb(op, user, rewriter)
                rewriter.order.erase(op)

    @property
    def device(self) -> Device:
        if self.target not in DEVICES:
            raise CodaError(
                f"absorb-finalize: unknown target '{self.target}'",
                f"use one of {', '.join(DEVICES)}",
            )
        return DEVICES[self.target]

    def _check_cost(self, op: FinalizeOp, users: list[Reader], counts: RowCounts) -> Refusal | None:
        device = self.device
        if self.always:
            return None
        rows = [counts.of(user) for user in users]
        cost = sum(
            absorbed_us(op.partials, user, device, count)
            for user, count in zip(users, rows, strict=True)
        )
        saved = finalize_us(op, device, rows[0] or NOMINAL_ROWS)
        if cost < saved:
            return None
        return Refusal(
            "reading the partials in every tile takes less time than a launch",
            f"it takes {cost:.1f} us, the finalize {saved:.1f} us",
            "use always=true to absorb it anyway",
        )


def _names(users: list[Reader]) -> str:
    maps = sum(isinstance(user, MapOp) for user in users)
    counts = ((len(users) - maps, "GEMM"), (maps, "pointwise kernel"))
    return " and ".join(f"{n} {name}{'s' if n > 1 else ''}" for n, name in counts if n)


def _absorb(op: FinalizeOp, user: Reader, rewriter: FunctionRewriter) -> None:
    """Replace `user` by a kernel that computes the results of `op` itself."""
    segments = user.take_segments()
    for segment in segments:
        code = AbsorbedCode(op, segment)
        for index, output in enumerate(op.outputs):
            for port in [port for port in segment.ports if port.value is output]:
                number = segment.ports.index(port)
                (argument,) = segment.port_args(number)
                argument.replace_all_uses_with(code.result(index))
                segment.remove_port(number)
    new = user.with_segments(segments)
    new.attributes |= user.attributes
    new.location = fuse_locations(user.location, op.location)
    rewriter.order.substitute(user, new)

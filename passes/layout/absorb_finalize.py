"""Pass `absorb-finalize`: let kernels combine the partials of their own rows."""

from collections.abc import Sequence

from xdsl.ir import SSAValue

from coda_ir.cost_model import DEVICES, Device
from coda_ir.cost_model.absorption import absorbed_us, finalize_us
from coda_ir.cost_model.rows import RowCounts
from coda_ir.cost_model.workload import NOMINAL_ROWS
from coda_ir.diagnostics import OptionError
from coda_ir.dialects.coda.shapes import tensor_type
from coda_ir.dialects.gemm import FinalizeOp, MapOp, ResultPortAttr, Segment
from coda_ir.passes.layout.absorption import (
    AbsorbedCode,
    Reader,
    check_absorption,
    readers_of,
    storing_map,
)
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter, Refusal
from coda_ir.passes.support.legality import name_of
from coda_ir.passes.support.order import BlockOrder
from coda_ir.remarks import fuse_locations
from coda_ir.symbolic_size import parse_sizes


class AbsorbFinalizePass(FunctionPass):
    """Moves the per-row code of a finalize into the kernels that read its results: GEMMs and
    pointwise kernels.

        %x, %p = gemm.fused ... schedule<...>            %x, %p = gemm.fused ... schedule<...>
        %r = gemm.finalize row (add %p) {          ->    %z = gemm.fused %x ... partial_add(%p) {
          yield rsqrt(sum / N + eps)                       ^bb0(%acc, %sum):
        }                                                  r = rsqrt(sum / N + eps)
        %z = gemm.fused %x ... col(%r) {                   yield acc * r
          ^bb0(%acc, %r): yield acc * r                  }
        }

    If others, such as the caller, also read a float32 result, the first pointwise kernel that reads
    it stores it, as a result `group<N>` over all N columns of a row.

    This saves a launch, but every tile reads the partials. Legal after `schedule` and before
    `plan-buffers`, iff every use of the finalize is a `col` port of a scheduled GEMM, or of a
    `gemm.map` with a known number of columns, or comes after a kernel that stores the results; and
    the number of partials is known and small. The pass absorbs the finalize if the cost model
    estimates that reading the partials takes less time than a launch on `target`; `always` skips
    this check. With `maps_only`, only `gemm.map` absorbs. `sizes` is the option of the pass
    `schedule`.
    """

    target: str = "portable"
    sizes: str | None = None
    always: bool = False
    maps_only: bool = False

    def check_options(self) -> None:
        if self.target not in DEVICES:
            raise OptionError(
                f"absorb-finalize: unknown target '{self.target}'",
                f"use one of {', '.join(DEVICES)}",
            )
        parse_sizes(self.sizes)

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        rows = RowCounts(parse_sizes(self.sizes))
        for op in rewriter.ops_of(FinalizeOp):
            kernels = rewriter.allowed(op, self._kernels(op, rewriter.order, rows))
            if kernels:
                _absorb(op, kernels, rewriter)

    def _kernels(
        self, op: FinalizeOp, order: BlockOrder, rows: RowCounts
    ) -> Sequence[Reader] | Refusal:
        """Return the kernels that absorb `op`: all readers, or one that stores it for others."""
        is_left = self.maps_only and not all(isinstance(user, MapOp) for user in readers_of(op))
        users = [] if is_left else check_absorption(op)
        refusal = users if isinstance(users, Refusal) else self._check_cost(op, users, rows)
        if users and refusal is None and not isinstance(users, Refusal):
            return users
        kernel = storing_map(op, order)
        if kernel is not None and self._check_cost(op, [kernel], rows) is None:
            return [kernel]
        return refusal or []

    @property
    def device(self) -> Device:
        return DEVICES[self.target]

    def _check_cost(
        self, op: FinalizeOp, users: Sequence[Reader], counts: RowCounts
    ) -> Refusal | None:
        device = self.device
        if self.always or not users:
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
            f"reading the partials takes {cost:.1f} us, a separate finalize {saved:.1f} us",
            "use always=true to absorb it anyway",
        )


def _names(users: Sequence[Reader]) -> str:
    maps = sum(isinstance(user, MapOp) for user in users)
    counts = ((len(users) - maps, "GEMM"), (maps, "pointwise kernel"))
    return " and ".join(f"{n} {name}{'s' if n > 1 else ''}" for n, name in counts if n)


def _absorb(op: FinalizeOp, kernels: Sequence[Reader], rewriter: FunctionRewriter) -> None:
    """Move `op` into `kernels`, the first of which stores for others what they read."""
    stored = [v for v in op.outputs if any(use.operation not in kernels for use in v.uses)]
    storing = f", which stores {' and '.join(map(name_of, stored))} for others" if stored else ""
    rewriter.passed(op, f"absorbed by {_names(kernels)}{storing}: one launch fewer")
    for kernel in kernels:
        segments = kernel.take_segments()
        for segment in segments:
            _add_code(op, segment, stored)
        new = kernel.with_segments(segments)
        new.attributes |= kernel.attributes
        new.location = fuse_locations(kernel.location, op.location)
        rewriter.order.substitute(kernel, new, stored)
    rewriter.order.erase(op)


def _add_code(op: FinalizeOp, segment: Segment, stored: Sequence[SSAValue]) -> None:
    """Let `segment` compute the results of `op` itself, and store those in `stored`."""
    code, columns = AbsorbedCode(op, segment), (segment.domain or (1,))[-1]
    for index, output in enumerate(op.outputs):
        for port in [port for port in segment.ports if port.value is output]:
            number = segment.ports.index(port)
            (argument,) = segment.port_args(number)
            argument.replace_all_uses_with(code.result(index))
            segment.remove_port(number)
    for output in stored:
        value = code.result(op.outputs.index(output))
        segment.add_result(ResultPortAttr.of_group(columns), tensor_type(output), [value])

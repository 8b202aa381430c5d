"""Compilation of a program for the editor: the kernel of each operator, and the refusals."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from threading import Event

from xdsl.dialects.builtin import LocationAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from coda_ir.context import make_context
from coda_ir.diagnostics import CodaError, OptionError
from coda_ir.dialects.coda import ReshapeOp, SliceOp, TransposeOp
from coda_ir.pipeline import (
    PassInstrumentation,
    PassManager,
    PassRun,
    Pipeline,
    PipelineError,
    parse_pipeline,
)
from coda_ir.registry import get_all_passes
from coda_ir.remarks import Remark, collect_remarks, leaf_locations, source_position
from coda_ir.symbolic_shapes import SymbolicSize
from coda_ir.traffic import total_traffic, traffic_by_operator

Place = tuple[str, int, int]
"""File, line and column, as in the locations of the IR."""


_VIEWS = (ReshapeOp, SliceOp, TransposeOp)


class CancelledError(Exception):
    """Nobody waits for the result any more."""


@dataclass(frozen=True)
class Kernel:
    """A launch of a generated kernel.

    `places` are the operators of the source that it computes or helps to compute.
    """

    name: str
    operator: str
    places: tuple[Place, ...]


@dataclass(frozen=True)
class FunctionKernels:
    """The kernels of one function. `obstacle` is the reason why the backend cannot run it."""

    name: str
    kernels: tuple[Kernel, ...]
    unfused_bytes: SymbolicSize
    fused_bytes: SymbolicSize
    obstacle: CodaError | None


@dataclass(frozen=True)
class Compilation:
    """The kernels of the functions of a program. `operator_bytes` is the traffic of each operator
    of the source as a separate kernel, `views` those that move nothing.
    """

    functions: Mapping[str, FunctionKernels]
    remarks: tuple[Remark, ...]
    operator_bytes: Mapping[Place, SymbolicSize]
    views: frozenset[Place]

    def kernels_at(self, place: Place) -> list[Kernel]:
        """Return the kernels that compute an operator of the source, for each call of it."""
        kernels = (kernel for function in self.functions.values() for kernel in function.kernels)
        return list(dict.fromkeys(kernel for kernel in kernels if place in kernel.places))

    def missed_at(self, place: Place) -> list[Remark]:
        """Return the refusals for an operator of the source, each once."""
        missed = (remark for remark in self.remarks if remark.kind == "missed")
        return list({str(r): r for r in missed if r.position == place}.values())


def compile_program(module: ModuleOp, schedule: str, cancelled: Event) -> Compilation:
    """Run the pipeline and the Triton emitter on each function of `module`, which stays as it is.

    `schedule` has options of the pass `schedule`. Raises CancelledError soon after `cancelled` is
    set, CodaError where the options are wrong.
    """
    pipeline = _pipeline(schedule)
    functions, remarks = dict[str, FunctionKernels](), list[Remark]()
    operator_bytes, views = dict[Place, SymbolicSize](), set[Place]()
    for func in module.ops:
        assert isinstance(func, FuncOp)
        for op, size in traffic_by_operator(func):
            for place in _positions(op.location):
                operator_bytes.setdefault(place, size)
        for op in func.body.block.ops:
            if isinstance(op, _VIEWS):
                views.update(_positions(op.location))
        functions[func.sym_name.data] = _compiled(func, pipeline, remarks, cancelled)
    return Compilation(functions, tuple(remarks), operator_bytes, frozenset(views))


def _pipeline(schedule: str) -> Pipeline:
    spec = f"coda-to-gemm,schedule{{{schedule}}},plan-buffers"
    try:
        return parse_pipeline(spec, get_all_passes())
    except PipelineError as error:
        raise OptionError(
            f"the setting schedule is '{schedule}': {error.diagnostics[0].message}",
            "write options of the pass schedule, such as 'target=sm_90 warps=8'",
        ) from error


def _compiled(
    func: FuncOp, pipeline: Pipeline, remarks: list[Remark], cancelled: Event
) -> FunctionKernels:
    """Compile one function separately, so that its errors do not hide the others."""
    alone = ModuleOp([func.clone()])
    unfused, kernels, obstacle = total_traffic(func), list[Kernel](), None
    with collect_remarks() as collected:
        try:
            manager = PassManager(pipeline, verify_each=False)
            manager.run(make_context(), alone, [_StopWhenCancelled(cancelled)])
            kernels = _kernels(alone)
        except CodaError as error:
            obstacle = error
    remarks += collected
    (result,) = alone.ops
    assert isinstance(result, FuncOp)
    return FunctionKernels(
        func.sym_name.data, tuple(kernels), unfused, total_traffic(result), obstacle
    )


@dataclass
class _StopWhenCancelled(PassInstrumentation):
    cancelled: Event

    def before_pass(self, run: PassRun, module: ModuleOp) -> None:
        if self.cancelled.is_set():
            raise CancelledError


def _kernels(module: ModuleOp) -> list[Kernel]:
    # Imported here because it imports torch, which the server does not need in order to start.
    from coda_ir.backends.triton.module import emit_program

    places = defaultdict[tuple[str, Operation], dict[Place, None]](dict)
    for op, name in emit_program(module).launches:
        for inner in op.walk():
            places[name, op].update(dict.fromkeys(_positions(inner.location)))
    return [Kernel(name, op.name, tuple(found)) for (name, op), found in places.items()]


def _positions(location: LocationAttr) -> Iterator[Place]:
    """Yield all places in a location."""
    positions = map(source_position, leaf_locations(location))
    yield from (position for position in positions if position is not None)

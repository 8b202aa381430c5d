"""Pass `repeat-columns`: recompute values of one element per row in each kernel that needs them."""

from xdsl.ir import Operation, SSAValue

from coda_ir.diagnostics import counted
from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of, shape_of
from coda_ir.dialects.gemm import FusedOp, MapOp, PortKind, ScalarBuilder, Segment
from coda_ir.dialects.gemm.scalar_code import emit_scalar, is_pointwise
from coda_ir.dialects.gemm.tables import port_kind
from coda_ir.passes.support.editing import EpilogueEditor, EpilogueOp
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter

_PER_ROW = (PortKind.COL, PortKind.SCALAR)
"""Ports that load an element per row, or one."""


class RepeatColumnsPass(FunctionPass):
    """Moves pointwise code on columns and scalars into the kernels that load its result.

        %c = coda.mul %s, %n                          %y = gemm.fused ... col(%s) {
        %y = gemm.fused ... col(%c) {          ->       c = s · n
          yield acc · c                                 yield acc · c
        }                                             }

    Computing one element per row costs a kernel almost nothing, whereas a separate kernel costs a
    launch. Examples are the scale of a loss and the divisor of a mean. Code on the combined
    partials of a reduction is already in its `gemm.finalize`. Legal iff only ports of columns and
    scalars read the result, and every operand is a constant or fits such a port.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in reversed(rewriter.ops):
            if is_pointwise(op) and op.results[0].uses and _fits_ports(op):
                readers = _readers(op.results[0])
                if readers is not None:
                    count = counted(len(readers), "kernel")
                    rewriter.passed(op, f"computed by the {count} that read its result")
                    for reader in readers:
                        _repeat(op, reader, rewriter)
                    rewriter.order.erase(op)


def _port_of(value: SSAValue, op: Operation) -> PortKind | None:
    """Return the port by which a kernel that loads the result of `op` by row loads `value`."""
    kind = port_kind(shape_of(value), shape_of(op.results[0]))
    if kind == PortKind.SCALAR:
        return kind
    return PortKind.COL if kind == PortKind.TILE else None


def _fits_ports(op: Operation) -> bool:
    leaves = [v for v in op.operands if not isinstance(v.owner, coda.ConstantOp)]
    return all(_port_of(value, op) is not None for value in leaves)


def _readers(value: SSAValue) -> list[EpilogueOp] | None:
    """Return the kernels that load `value` by row; None if something else uses it."""
    found: dict[EpilogueOp, None] = {}
    for use in value.uses:
        kernel = use.operation
        if not isinstance(kernel, FusedOp | MapOp):
            return None
        segments = kernel.segments()
        loads = [port for segment in segments for port in segment.ports if port.value is value]
        others = [v for v in kernel.operands if v is value]
        if len(loads) != len(others) or any(port.kind not in _PER_ROW for port in loads):
            return None
        found[kernel] = None
    return list(found)


def _repeat(op: Operation, reader: EpilogueOp, rewriter: FunctionRewriter) -> None:
    editor = EpilogueEditor(reader, rewriter.order)
    for number, segment in enumerate(editor.segments):
        loaded = [i for i, port in enumerate(segment.ports) if port.value is op.results[0]]
        for index in loaded:
            (argument,) = segment.port_args(index)
            value = _compute(op, segment, editor.builder(number, op.location, at_start=True))
            argument.replace_all_uses_with(value)
        for index in reversed(loaded):
            segment.remove_port(index)
    editor.commit()


def _compute(op: Operation, segment: Segment, builder: ScalarBuilder) -> SSAValue:
    """Insert the scalar code of `op`, on what ports of `segment` load."""
    elements: list[SSAValue] = []
    for value in op.operands:
        if isinstance(value.owner, coda.ConstantOp):
            elements.append(builder.number(value.owner.number, element_type_of(value)))
            continue
        kind = _port_of(value, op)
        assert kind is not None, "legality was checked before"
        elements += segment.add_port(kind, value)
    return emit_scalar(builder, op, elements)

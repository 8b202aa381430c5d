"""Pass `leave-plain-gemms`: leave GEMMs without an epilogue to the library."""

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from coda_ir.dialects import coda
from coda_ir.dialects.coda.shapes import element_type_of
from coda_ir.dialects.gemm import FusedOp, Layout, PortKind, ResultKind, Segment
from coda_ir.passes.support.function_pass import FunctionPass, FunctionRewriter
from coda_ir.passes.support.legality import library_multiplies_groups


class LeavePlainGemmsPass(FunctionPass):
    """Turns a GEMM with at most a bias back into an operator of the block level.

        %y = gemm.fused %x                          %y = coda.linear %x, %w, %b
          columns(%w) row(%b) -> (tile) {     ->
            yield acc + b
          }

    The pass is for programs in a graph, where PyTorch calls its library. A GEMM of rows in groups
    becomes a `coda.grouped_linear` if its rows are multiples of 16 bytes. Legal iff the result and
    all operands have one type of more than 8 bits, and the GEMM has a single weight.
    """

    def run_on_function(self, rewriter: FunctionRewriter) -> None:
        for op in rewriter.ops:
            if isinstance(op, FusedOp) and is_plain(op):
                rewriter.passed(op, "has no epilogue: the library computes it")
                (segment,) = op.segments()
                bias = segment.ports[0].value if segment.ports else None
                linear = _linear(op, segment.weights[0], bias)
                rewriter.replace(op, rewriter.before(op).insert(linear))


def _linear(
    op: FusedOp, weight: SSAValue, bias: SSAValue | None
) -> coda.LinearOp | coda.GroupedLinearOp:
    if op.groups is None:
        return coda.LinearOp(op.x, weight, bias)
    return coda.GroupedLinearOp(op.x, weight, op.groups, bias)


def is_plain(op: FusedOp) -> bool:
    """Return whether the library can compute a GEMM unchanged."""
    segments = op.segments()
    if op.gather is not None or op.scatter is not None or op.is_numbered:
        return False
    if op.groups is not None and not library_multiplies_groups(op.x, op.outputs[0]):
        return False
    if len(segments) != 1 or len(op.inputs) != 1 or op.is_transposed or op.order is not None:
        return False
    if not op.has_one_type:
        return False
    (segment,) = segments
    if segment.pairing is not None or segment.layout != Layout.NK or len(segment.weights) != 1:
        return False
    results = segment.results
    if len(results) != 1 or results[0].port.kind.data != ResultKind.TILE:
        return False
    values = (*op.inputs, *op.weights, *op.ports, op.outputs[0])
    types = {element_type_of(value) for value in values}
    return len(types) == 1 and _adds_a_bias_at_most(segment)


def _adds_a_bias_at_most(segment: Segment) -> bool:
    yielded, accumulator = segment.yielded(0)[0], segment.accumulators[0]
    if not segment.ports:
        return yielded is accumulator
    (bias,) = segment.port_args(0) if len(segment.ports) == 1 else (None,)
    return (
        bias is not None
        and segment.ports[0].kind in (PortKind.ROW, PortKind.GROUP_ROW)
        and isinstance(yielded.owner, arith.AddfOp)
        and {yielded.owner.lhs, yielded.owner.rhs} == {accumulator, bias}
    )

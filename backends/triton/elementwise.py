"""Unfused block-level pointwise operators as segments of a map kernel."""

from collections.abc import Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX, f32
from xdsl.ir import Block, Operation, Region, SSAValue

from coda_ir.backends.triton.map_kernel import MapSegment, over_domain
from coda_ir.diagnostics import LoweringError
from coda_ir.dialects import gemm
from coda_ir.dialects.coda import CastOp, ConstantOp, ElementwiseOp, GluOp, RopeOp
from coda_ir.dialects.coda.shapes import element_type_of, shape_of, tensor_type
from coda_ir.dialects.gemm.rotary import pairing_of, table_kind
from coda_ir.dialects.gemm.scalar_code import scalar_code
from coda_ir.dialects.gemm.tables import port_kind
from coda_ir.remarks import format_location


def lower_elementwise(op: ElementwiseOp | CastOp) -> MapSegment:
    """Lower an elementwise operator to a map; constants become part of its region."""
    domain = shape_of(op.result)
    columns = (domain or (1,))[-1]
    block = Block()
    builder = gemm.ScalarBuilder(block, op.location, gemm.numerics_mode(op))
    ports: list[gemm.Port] = []
    arguments: list[SSAValue] = []
    loaded: dict[SSAValue, SSAValue] = {}
    for operand in op.operands:
        if isinstance(operand.owner, ConstantOp):
            number, type = operand.owner.number, element_type_of(operand)
            arguments.append(builder.number(number, type))
            continue
        if operand in loaded:
            arguments.append(loaded[operand])
            continue
        kind = port_kind(shape_of(operand), domain)
        assert kind is not None, "operands broadcast to the result"
        ports.append(gemm.Port(kind, operand))
        argument = block.insert_arg(gemm.region_type(element_type_of(operand)), len(block.args))
        argument.name_hint = operand.name_hint
        loaded[operand] = argument
        arguments.append(argument)
    result = scalar_code(builder, op, arguments)
    if result is None:
        raise LoweringError(
            f"{format_location(op.location)}: the triton backend has no scalar code for {op.name}",
            "add it to dialects/gemm/scalar_code.py",
        )
    block.add_op(gemm.YieldOp(result))
    return _segment(op, ports, gemm.ResultPortAttr.tile(), block, columns)


def _segment(
    op: Operation,
    ports: Sequence[gemm.Port],
    port: gemm.ResultPortAttr,
    block: Block,
    columns: int,
    pairing: gemm.PairingAttr | None = None,
) -> MapSegment:
    segment = gemm.Segment(
        weights=[],
        ports=list(ports),
        results=[gemm.Result(port, tensor_type(op.results[0]))],
        body=Region(block),
        pairing=pairing,
        outputs=op.results,
    )
    return over_domain(segment, columns)


def _static_columns(op: GluOp | RopeOp) -> int:
    columns = shape_of(op.x)[-1]
    if columns == DYNAMIC_INDEX:
        raise LoweringError(
            f"{format_location(op.location)}: {op.name} has a dynamic number of columns",
            "give the last dimension a static extent",
        )
    return columns


def lower_glu(op: GluOp) -> MapSegment:
    """Lower act(x[j]) · x[j + F] over the pairs of the two halves, or of neighbouring columns."""
    block = Block(arg_types=[f32, f32])
    gate, up = block.args
    gate.name_hint, up.name_hint = "gate", "up"
    builder = gemm.ScalarBuilder(block, op.location, gemm.numerics_mode(op))
    result = builder.gated(op.activation.data, gate, up, element_type_of(op.result))
    block.add_op(gemm.YieldOp(result))
    ports = [gemm.Port(gemm.PortKind.TILE, op.x)]
    columns = _static_columns(op)
    pairing = gemm.PairingAttr.adjacent_columns() if op.is_adjacent else gemm.PairingAttr.halves()
    return _segment(op, ports, gemm.ResultPortAttr.half(), block, columns, pairing)


def lower_rope(op: RopeOp) -> MapSegment:
    """Lower the rotation of the pairs of each head."""
    kind, of_pair = table_kind(op), ("_first", "_second") if op.is_per_column else ("",)
    names = ["first", "second", *(f"{table}{of}" for table in ("cos", "sin") for of in of_pair)]
    block = Block(arg_types=[f32] * len(names))
    for argument, name in zip(block.args, names, strict=True):
        argument.name_hint = name
    first, second, *tables = block.args
    cos, sin = tables[: len(of_pair)], tables[len(of_pair) :]
    builder = gemm.ScalarBuilder(block, op.location, gemm.numerics_mode(op))
    types = gemm.RotationTypes.of(element_type_of(op.x), element_type_of(op.cos))
    transposed = op.transposed is not None
    block.add_op(
        gemm.YieldOp(*builder.rotate(first, second, cos, sin, types, transposed=transposed))
    )
    ports = [gemm.Port(gemm.PortKind.TILE, op.x), gemm.Port(kind, op.cos), gemm.Port(kind, op.sin)]
    columns = _static_columns(op)
    return _segment(op, ports, gemm.ResultPortAttr.tile(), block, columns, pairing_of(op))

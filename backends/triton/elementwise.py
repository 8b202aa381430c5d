"""Unfused block-level pointwise operators as segments of a map kernel."""

from collections.abc import Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX, f32
from xdsl.ir import Block, Operation, Region, SSAValue

from coda_ir.backends.triton.map_kernel import MapSegment, over_domain
from coda_ir.diagnostics import LoweringError
from coda_ir.dialects.coda import CastOp, ConstantOp, ElementwiseOp, GluOp, RopeOp
from coda_ir.dialects.coda.shapes import element_type_of, shape_of, tensor_type
from coda_ir.dialects.gemm import (
    PairingAttr,
    Port,
    PortKind,
    Result,
    ResultPortAttr,
    RotationTypes,
    ScalarBuilder,
    Segment,
    YieldOp,
    numerics_mode,
    region_type,
)
from coda_ir.dialects.gemm.rotary import pairing_of, table_kind
from coda_ir.dialects.gemm.scalar_code import scalar_code
from coda_ir.remarks import format_location
from coda_ir.symbolic_shapes import Dims, SymbolicShapes


def broadcast_port(dims: Dims, domain: Dims) -> PortKind:
    """Return the port by which a tensor broadcasts to `domain`. Extents other than 1 are those of
    the domain, whatever their symbols are.
    """
    while dims and dims[0] == 1:
        dims = dims[1:]
    if not dims:
        return PortKind.SCALAR
    aligned = domain[len(domain) - len(dims) :]
    dims = tuple(1 if d == 1 else e for d, e in zip(dims, aligned, strict=True))
    if dims == domain:
        return PortKind.TILE
    if len(dims) == 1:
        return PortKind.ROW
    leading = domain[: -len(dims)]
    if dims[-1] == 1 and dims[:-1] == aligned[:-1] and all(dim == 1 for dim in leading):
        return PortKind.COL
    return PortKind.TABLE


def lower_elementwise(op: ElementwiseOp | CastOp, shapes: SymbolicShapes) -> MapSegment:
    """Lower an elementwise operator to a map; constants become part of its region."""
    domain = shapes.dims(op.result)
    columns = (shape_of(op.result) or (1,))[-1]
    block = Block()
    builder = ScalarBuilder(block, op.location, numerics_mode(op))
    ports: list[Port] = []
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
        ports.append(Port(broadcast_port(shapes.dims(operand), domain), operand))
        argument = block.insert_arg(region_type(element_type_of(operand)), len(block.args))
        argument.name_hint = operand.name_hint
        loaded[operand] = argument
        arguments.append(argument)
    result = scalar_code(builder, op, arguments)
    if result is None:
        raise LoweringError(
            f"{format_location(op.location)}: the triton backend has no scalar code for {op.name}",
            "add it to dialects/gemm/scalar_code.py",
        )
    block.add_op(YieldOp(result))
    return _segment(op, ports, ResultPortAttr.tile(), block, columns)


def _segment(
    op: Operation,
    ports: Sequence[Port],
    port: ResultPortAttr,
    block: Block,
    columns: int,
    pairing: PairingAttr | None = None,
) -> MapSegment:
    segment = Segment(
        weights=[],
        ports=list(ports),
        results=[Result(port, tensor_type(op.results[0]))],
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
    builder = ScalarBuilder(block, op.location, numerics_mode(op))
    result = builder.gated(op.activation.data, gate, up, element_type_of(op.result))
    block.add_op(YieldOp(result))
    ports = [Port(PortKind.TILE, op.x)]
    columns = _static_columns(op)
    pairing = PairingAttr.adjacent_columns() if op.is_adjacent else PairingAttr.halves()
    return _segment(op, ports, ResultPortAttr.half(), block, columns, pairing)


def lower_rope(op: RopeOp) -> MapSegment:
    """Lower the rotation of the pairs of each head."""
    kind, of_pair = table_kind(op), ("_first", "_second") if op.is_per_column else ("",)
    names = ["first", "second", *(f"{table}{of}" for table in ("cos", "sin") for of in of_pair)]
    block = Block(arg_types=[f32] * len(names))
    for argument, name in zip(block.args, names, strict=True):
        argument.name_hint = name
    first, second, *tables = block.args
    cos, sin = tables[: len(of_pair)], tables[len(of_pair) :]
    builder = ScalarBuilder(block, op.location, numerics_mode(op))
    types = RotationTypes.of(element_type_of(op.x), element_type_of(op.cos))
    transposed = op.transposed is not None
    block.add_op(YieldOp(*builder.rotate(first, second, cos, sin, types, transposed=transposed)))
    ports = [Port(PortKind.TILE, op.x), Port(kind, op.cos), Port(kind, op.sin)]
    columns = _static_columns(op)
    return _segment(op, ports, ResultPortAttr.tile(), block, columns, pairing_of(op))

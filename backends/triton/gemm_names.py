"""Names and descriptions of GEMM kernels, derived from the fused operators."""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from xdsl.dialects import arith
from xdsl.ir import Block, Operation, SSAValue

from coda_ir.backends.triton.kernel import location_comment
from coda_ir.dialects import gemm
from coda_ir.dialects.coda.shapes import shape_of
from coda_ir.dialects.gemm.tables import serves_samples
from coda_ir.dominance import depend_on

_LONGEST_NAME = 60


def gemm_kernel_name(op: gemm.FusedOp) -> str:
    """Return a name such as `gemm_residual_ssq_scale`, `gemm_silu_glu` or `gemm_qk_norm_rope`."""
    parts = dict.fromkeys(part for segment in op.segments() for part in segment_features(segment))
    name = "gemm_transposed" if op.is_transposed else "gemm"
    if op.groups is not None:
        name += "_grouped"
    is_gathered = op.gather is not None or op.gather_weights is not None
    name += "_gather" if is_gathered else ""
    name += "_scatter" if op.scatter is not None else ""
    name += "_quantized" if op.quantized else "_blocks" if op.blocks is not None else ""
    if len(op.inputs) > 1:
        name += "_terms"
    for part in parts:
        if len(name) + len(part) < _LONGEST_NAME:
            name += f"_{part}"
    return name


def summary_of(op: gemm.FusedOp, schedule: gemm.ScheduleAttr) -> str:
    """Return a line for listings: the extents of the products, and the tile."""
    m = op.row_shape[-1] if op.is_transposed else "M"
    n = sum(segment.columns for segment in op.segments())
    depths = [op.depth(index) for index in range(len(op.inputs))]
    groups = f"{op.row_shape[0]} of " if op.has_ragged_depth else ""
    k = " + ".join("K" if op.is_transposed else str(depth) for depth in depths)
    tile = " x ".join(map(str, schedule.tile))
    parts = schedule.split_k.data
    shared = f", {parts} programs for each" if parts > 1 else ""
    depth = f"({k})" if len(depths) > 1 else k
    return f"{groups}{m} x {n} x {depth} GEMM in tiles of {tile}{shared}"


def docstring(op: gemm.FusedOp, summary: str) -> list[str]:
    """Return the docstring of a kernel: what its epilogue does, and the source location."""
    place = location_comment(op.location)
    lines = [f'"""{summary}, with its epilogue.', "", *map(describe_segment, op.segments())]
    if place is not None:
        lines.append(f"Source: {place.removeprefix('# ')}")
    return [*lines, '"""']


def range_comment(weights: Iterable[SSAValue], start: int, end: int, tiles: int) -> str:
    """Return a comment with the weights of the tiles from `start` to below `end`."""
    names = ", ".join(weight.name_hint or "w" for weight in weights)
    return f"# {names}: tiles {start} to {end - 1} of {tiles}"


def tile_condition(start: int, end: int, tiles: int) -> str:
    """Return the condition `start <= tile_n < end`, given that `tile_n` is below `tiles`."""
    if start == 0:
        return f"tile_n < {end}"
    if end == tiles:
        return f"tile_n >= {start}"
    return f"(tile_n >= {start}) & (tile_n < {end})"


def segment_features(segment: gemm.Segment) -> list[str]:
    """Return the features of a segment's epilogue, in the order in which it computes them."""
    return [
        *_port_features(segment),
        *_group_features(segment),
        *_activation_features(segment.block),
        *_pair_features(segment),
        *_result_features(segment),
    ]


def describe_segment(segment: gemm.Segment) -> str:
    """Return one line of a kernel's docstring: weights, columns, pairing and fused operators."""
    weights = " + ".join(
        ", ".join(weight.name_hint or "w" for weight in weights) for weights in segment.terms
    )
    text = f"{weights}: {segment.columns} columns"
    if segment.pairing is not None:
        group = segment.group_size
        text += " in pairs (2p, 2p + 1)" if group is None else f" in pairs (j, j + {group // 2})"
        if group is not None and group != segment.columns:
            text += f" of each {group}"
    features = segment_features(segment)
    return f"{text}; {', '.join(features)}" if features else text


def _port_features(segment: gemm.Segment) -> list[str]:
    """Return the purposes of the ports, in the order of their first uses."""
    position = {op: index for index, op in enumerate(segment.block.ops)}
    tiles = [
        arg
        for index, (kind, _) in enumerate(segment.ports)
        for arg in segment.port_args(index)
        if kind in (gemm.PortKind.TILE, gemm.PortKind.HALF_TILE)
    ]
    features: list[tuple[int, str]] = []
    for index, port in enumerate(segment.ports):
        args = segment.port_args(index)
        feature = _port_feature(port, [each for arg in args for each in _combinations(arg)])
        if not segment.weights and port.kind in (gemm.PortKind.TILE, gemm.PortKind.HALF_TILE):
            feature = _map_feature(args, tiles)
        if feature is not None:
            users = [use.operation for arg in args for use in arg.uses]
            features.append((min((position[op] for op in users), default=0), feature))
    return [feature for _, feature in sorted(features, key=lambda entry: entry[0])]


Combination: TypeAlias = tuple[str, SSAValue]
"""The name of an operator, and the operand beside the port there."""


def _combinations(port: SSAValue) -> list[Combination]:
    """Return the operators that combine a port with values computed without it, except constants.

    `1 + x` and `x * gelu(x)` combine it with nothing, `acc + 2 * x` with the accumulator by a sum.
    """
    found: list[Combination] = []
    pending, own = [port], {port}
    while pending:
        for use in pending.pop().uses:
            op = use.operation
            others = [v for v in op.operands if v not in own]
            others = [v for v in others if not isinstance(v.owner, arith.ConstantOp)]
            if others:
                found += [(op.name, v) for v in others if not depend_on([v], [port])]
            elif isinstance(op, arith.AddfOp | arith.SubfOp | arith.MulfOp):
                pending += [op.result] if op.result not in own else []
                own.add(op.result)
    return found


def _port_feature(port: gemm.Port, combinations: Sequence[Combination]) -> str | None:
    """Return the purpose of a port of an epilogue."""
    kind = gemm.PortKind.ROW if _is_by_column(port) else port.kind
    combined_by = {name for name, _ in combinations}
    added = bool(combined_by & _SUMS)
    match kind:
        case gemm.PortKind.COL | gemm.PortKind.GATHER_COL | gemm.PortKind.SCATTER_COL:
            return "row_scale" if "arith.mulf" in combined_by else None
        case gemm.PortKind.TILE | gemm.PortKind.HALF_TILE:
            return "residual" if added else "gate" if "arith.mulf" in combined_by else "tile"
        case (
            gemm.PortKind.ROW
            | gemm.PortKind.HALF_ROW
            | gemm.PortKind.GROUP_ROW
            | gemm.PortKind.HALF_GROUP_ROW
        ):
            return "bias" if added else "scale"
        case gemm.PortKind.GROUP | gemm.PortKind.HALF_GROUP:
            return "group_scale" if "arith.mulf" in combined_by else None
        case gemm.PortKind.PARTIAL_ADD | gemm.PortKind.PARTIAL_MAX | gemm.PortKind.PARTIAL_LSE:
            return "finalize"
        case _:
            return None


def _is_by_column(port: gemm.Port) -> bool:
    """Return whether a port is a table with a row for each sample, read like a row."""
    is_table = port.kind.is_table and not port.kind.is_group
    return is_table and serves_samples(shape_of(port.value))


def _map_feature(port: Sequence[SSAValue], tiles: Sequence[SSAValue]) -> str | None:
    """Return how a tile of a pointwise kernel is combined with another one."""
    others = [tile for tile in tiles if tile not in port]
    combined_by = {
        name for arg in port for name, value in _combinations(arg) if depend_on([value], others)
    }
    names = {"arith.addf": "add", "arith.subf": "sub", "arith.mulf": "mul"}
    return next((name for operator, name in names.items() if operator in combined_by), None)


_SUMS = {"arith.addf", "arith.subf"}


def _group_features(segment: gemm.Segment) -> list[str]:
    reductions = [op for op in segment.block.ops if isinstance(op, gemm.GroupReduceOp)]
    if any(op.combiner.data == gemm.Combiner.MAX for op in reductions):
        return ["group_max"]
    row = segment.columns or (segment.domain or (0,))[-1]
    names = ["norm" if op.group.value.data == row else "qk_norm" for op in reductions]
    return names[:1]


def _pair_features(segment: gemm.Segment) -> list[str]:
    if segment.pairing is None:
        return []
    tables = [port for port in segment.ports if port.kind.is_table and not port.kind.is_group]
    if not all(map(_is_by_column, tables)):
        return ["rope"]
    if any(result.port.kind.data == gemm.ResultKind.HALF for result in segment.results):
        return ["glu"]
    return ["pair"]


def _activation_features(block: Block) -> Iterable[str]:
    """Return the activations in a region, recognized by their characteristic operators."""
    for op in block.ops:
        match op.name:
            case "gemm.normal_cdf" | "math.erf":
                yield "gelu"
            case "math.tanh":
                yield "tanh"
            case "math.exp":
                if (numerator := _sigmoid_numerator(op)) is not None:
                    is_sigmoid = isinstance(numerator, arith.ConstantOp)
                    is_gelu = _is_negated_cubic(op)
                    yield "gelu_tanh" if is_gelu else "sigmoid" if is_sigmoid else "silu"
            case "arith.maximumf" if any(_is_zero(operand) for operand in op.operands):
                yield "relu"
            case _:
                pass


def _is_negated_cubic(exp: Operation) -> bool:
    """Return whether the argument is -√(8/π)·(a + 0.044715 a³): a sum, scaled and negated."""
    negated = exp.operands[0].owner
    scaled = negated.operands[0].owner if isinstance(negated, arith.NegfOp) else None
    return isinstance(scaled, arith.MulfOp) and any(
        isinstance(operand.owner, arith.AddfOp) for operand in scaled.operands
    )


def _sigmoid_numerator(exp: Operation) -> Operation | None:
    """Return the numerator over 1 + exp(-a): a constant for a sigmoid, `a` itself for a SiLU."""
    if not isinstance(exp.operands[0].owner, arith.NegfOp):
        return None
    for use in exp.results[0].uses:
        for quotient in use.operation.results[0].uses if use.operation.results else ():
            if isinstance(quotient.operation, arith.DivfOp) and quotient.index == 1:
                owner = quotient.operation.lhs.owner
                return owner if isinstance(owner, Operation) else use.operation
    return None


def _is_zero(value: SSAValue) -> bool:
    owner = value.owner
    return isinstance(owner, arith.ConstantOp) and str(owner.value).startswith("0.0")


def _result_features(segment: gemm.Segment) -> list[str]:
    features: list[str] = []
    for index, (port, _) in enumerate(segment.results):
        value = segment.yielded(index)[0]
        match port.kind.data:
            case gemm.ResultKind.PARTIAL_ROW | gemm.ResultKind.PARTIAL_COL:
                assert isinstance(port.combiner, gemm.CombinerAttr)
                by_row = port.kind.data == gemm.ResultKind.PARTIAL_ROW
                name = port.combiner.data.value if by_row else f"col{port.combiner.data.value}"
                features.append("ssq" if _is_square(value) else name.replace("add", "sum"))
            case gemm.ResultKind.SELECT:
                features.append("select")
            case _:
                pass
    return features


def _is_square(value: SSAValue) -> bool:
    owner = value.owner
    return isinstance(owner, arith.MulfOp) and owner.lhs == owner.rhs

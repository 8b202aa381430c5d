"""Unfused GEMMs: their epilogues run as separate pointwise kernels on stored products."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from xdsl.dialects.arith import ExtFOp, TruncFOp
from xdsl.dialects.builtin import DYNAMIC_INDEX, IntAttr, TensorType, f32
from xdsl.ir import Attribute, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from coda_ir.dialects.coda.shapes import AnyTensor, element_bytes, element_type_of, shape_of
from coda_ir.dialects.gemm import (
    FusedOp,
    GroupReduceOp,
    LibraryOp,
    MapOp,
    NumericsMode,
    PairingAttr,
    Port,
    PortKind,
    Result,
    ResultKind,
    ResultPortAttr,
    Segment,
    numerics_mode,
    unchanged_region,
)
from coda_ir.passes.support.function_pass import Refusal
from coda_ir.passes.support.legality import library_multiplies_groups

By: TypeAlias = Literal["kernels", "library"]
"""The provider of the products: generated kernels, or the library of PyTorch."""

BY: Mapping[str, By] = {"unfused": "kernels", "library": "library"}
"""The provider of the products in the forms that are not fused."""

_WHOLE = {
    PortKind.HALF_TILE: PortKind.TILE,
    PortKind.HALF_ROW: PortKind.ROW,
    PortKind.HALF_TABLE: PortKind.TABLE,
    PortKind.HALF_GROUP: PortKind.GROUP,
    PortKind.COL: PortKind.COL,
    PortKind.SCALAR: PortKind.SCALAR,
}
"""The ports of a region of pairs, for a region that sees one column of two products each."""

_OF_ELEMENTS = (PortKind.TILE, PortKind.HALF_TILE, PortKind.SCALAR)
"""The ports of numbers, and of what has one for each product."""

_SUMS = (ResultKind.PARTIAL_ROW, ResultKind.PARTIAL_COL)

_IN_MAPS = (PortKind.TILE, PortKind.ROW, PortKind.TABLE, PortKind.GROUP, *_WHOLE)


@dataclass
class Unfused:
    """The operators that replace a GEMM."""

    ops: list[FusedOp | LibraryOp | MapOp] = field(
        default_factory=list["FusedOp | LibraryOp | MapOp"]
    )
    """In order: each epilogue follows its products, which need no memory after it."""
    results: list[SSAValue] = field(default_factory=list[SSAValue])
    """The values that replace the results of the GEMM."""


def why_not_unfused(op: FusedOp, by: By) -> Refusal | None:
    """Return the reason why the epilogues of `op` cannot be separated from its products."""
    if op.order is not None:
        return _ORDER
    of_rows = (op.numbered, op.gather, op.gather_weights, op.scatter)
    if any(value is not None for value in of_rows):
        return _ROWS
    if by == "library" and not op.has_one_type:
        return _NARROW
    for segment in op.segments():
        is_pair = segment.pairing is not None and (by == "kernels" or len(segment.weights) == 1)
        has_partial = any(result.port.is_partial for result in segment.results)
        if segment.columns == DYNAMIC_INDEX and (is_pair or has_partial):
            return _COLUMNS
        if not is_bare(segment):
            refusal = _why_no_map(segment)
            if refusal is not None:
                return refusal
        if by == "library" and len(segment.weights) > 1 and not _are_separable(segment):
            return _WEIGHTS
        if by == "library" and is_bare(segment) and segment.results[0].port.is_placed:
            return _PLACE
    return _GROUPS if by == "library" and not _has_library_product(op) else None


def extents_of_weights(op: FusedOp) -> Iterator[tuple[str, int]]:
    """Give the extents that kernels need as numbers: N and K, or of transposed x M and N."""
    for x in op.inputs:
        yield "M" if op.is_transposed else "K", shape_of(x)[-1]
    if op.groups is not None:
        groups = op.row_shape[0] if op.is_transposed else shape_of(op.weights[0])[0]
        yield "the number of groups", groups
    for segment in op.segments():
        yield "N", segment.columns


def _has_library_product(op: FusedOp) -> bool:
    """Return whether the library has the products: for rows in groups, in their type."""
    if op.groups is None:
        return True
    kinds = {result.port.kind.data for segment in op.segments() for result in segment.results}
    types = {_called_type(op, segment, 0).element_type for segment in op.segments()}
    is_single = len(op.inputs) == 1 and ResultKind.TILE_T not in kinds
    fits = all(library_multiplies_groups(op.x, output) for output in op.outputs)
    return is_single and fits and types == {element_type_of(op.x)}


_ORDER = Refusal(
    "the backend may choose the order of reductions",
    "the epilogue stays in the GEMM: the program states the order of its reductions",
    "use the mode fp32-epilogue or eager-exact",
)

_ROWS = Refusal(
    "the product has the same rows as its operand and its results",
    "the epilogue stays in the GEMM: its rows are gathered, scattered or numbered",
)

_COLUMNS = Refusal(
    "the number of columns of pairs and partials is known",
    "the epilogue stays in the GEMM: its pairs or partials have a symbolic number of columns",
)

_PLACE = Refusal(
    "PyTorch stores the product",
    "the epilogue stays in the GEMM: it stores the product as a part of another tensor",
)

_WEIGHTS = Refusal(
    "each product has one weight",
    "the epilogue stays in the GEMM: it needs the products of several weights side by side",
)

_NARROW = Refusal(
    "the operands have the same type, of more than 8 bits",
    "the epilogue stays in the GEMM: the library does not multiply these 8-bit operands",
)

_GROUPS = Refusal(
    "the library returns products in the type of their operands, with rows that are "
    "multiples of 16 bytes",
    "the epilogue stays in the GEMM: the library does not multiply these groups of rows",
)


def _why_no_map(segment: Segment) -> Refusal | None:
    """Return the reason why the region of `segment` cannot run in a pointwise kernel."""
    kinds = [kind for kind, _ in segment.ports]
    stored = [result.port.kind.data for result in segment.results]
    if PortKind.TILE_T in kinds or ResultKind.TILE_T in stored:
        return Refusal(
            "tiles are stored row by row",
            "the epilogue stays in the GEMM: pointwise kernels store no transposed tiles",
        )
    foreign = next((kind for kind in kinds if kind not in _IN_MAPS), None)
    if foreign is not None:
        return Refusal(
            "pointwise kernels support the ports of the epilogue",
            f"the epilogue stays in the GEMM: pointwise kernels have no port {foreign.value}",
        )
    return None


def is_bare(segment: Segment) -> bool:
    """Return whether a segment only stores its products."""
    if segment.pairing is not None or segment.ports or len(segment.results) != 1:
        return False
    ((port, type),) = segment.results
    yielded, accumulator = segment.yielded(0)[0], segment.accumulators[0]
    is_product = yielded is accumulator or (
        isinstance(yielded.owner, ExtFOp)
        and _rounded_type(accumulator) == type.element_type
        and yielded.owner.input.owner in {use.operation for use in accumulator.uses}
    )
    return is_product and port.kind.data in (ResultKind.TILE, ResultKind.TILE_T)


def unfuse(op: FusedOp, by: By, *, narrow: bool = False) -> Unfused:
    """Replace `op`, for which `why_not_unfused` returns no reason, by products and pointwise
    kernels.

    Where every use of an accumulator rounds it first, products are stored in that type, else in
    float32: what a result has been rounded to stays the same. With `narrow`, kernels also store
    those in 16 bits that eager PyTorch does, unless the mode is strict.
    """
    segments = op.take_segments()
    parts = _by_library(op, segments) if by == "library" else _by_kernel(op, segments, narrow)
    for each in parts.ops:
        each.location = op.location
    Rewriter.insert_op(parts.ops, InsertPoint.before(op))
    for old, result in zip(op.outputs, parts.results, strict=True):
        result.name_hint = old.name_hint
        old.replace_all_uses_with(result)
    Rewriter.erase_op(op)
    return parts


def products_of(op: FusedOp) -> FusedOp:
    """Return a detached GEMM that stores the products of `op`, narrow where they may be: the work
    of its main loop.
    """
    return _stored_products(op, [_product_of(op, each, narrow=True) for each in op.segments()])


def _stored_products(op: FusedOp, bare: Sequence[Segment]) -> FusedOp:
    return FusedOp(
        op.inputs,
        bare,
        transposed=op.is_transposed,
        groups=op.groups,
        x_scales=op.x_scales,
        blocks=op.blocks,
    )


def _by_kernel(op: FusedOp, segments: Sequence[Segment], narrow: bool) -> Unfused:
    """Use one GEMM with the same columns, and a kernel for each epilogue."""
    bare = [each if is_bare(each) else _product_of(op, each, narrow=narrow) for each in segments]
    gemm = _stored_products(op, bare)
    parts = Unfused([gemm])
    for segment, product in zip(segments, gemm.outputs, strict=True):
        if is_bare(segment):
            parts.results.append(product)
        else:
            _add_map(parts, _over(segment, [Port(PortKind.TILE, _named(product))]))
    return parts


def _by_library(op: FusedOp, segments: Sequence[Segment]) -> Unfused:
    """Use a library call for each weight, and a kernel for each epilogue."""
    parts = Unfused()
    for segment in segments:
        products: list[SSAValue] = []
        for index in range(len(segment.weights)):
            call = _call(op, segment, index)
            parts.ops.append(call)
            products.append(call.result)
        if is_bare(segment):
            parts.results += products
            continue
        ports = [Port(PortKind.TILE, _named(product)) for product in products]
        _add_map(parts, _over(segment, ports))
    return parts


def _call(op: FusedOp, segment: Segment, index: int) -> LibraryOp:
    """Return the product with weight number `index` of a segment."""
    is_by_column = segment.results[0].port.kind.data == ResultKind.TILE_T
    return LibraryOp(
        op.inputs,
        [weights[index] for weights in segment.terms],
        _called_type(op, segment, index),
        layout=segment.layout,
        transposed=op.is_transposed,
        tile_t=is_bare(segment) and is_by_column,
        groups=op.groups,
    )


def _called_type(op: FusedOp, segment: Segment, index: int) -> AnyTensor:
    """Return the type of the product with weight number `index` of a segment."""
    if is_bare(segment):
        return segment.results[0].type
    return _product_type(op, segment, segment.weight_columns(index))


def _product_of(op: FusedOp, segment: Segment, *, narrow: bool) -> Segment:
    """Return the columns of a segment, with accumulators stored unchanged."""
    type = _product_type(op, segment, segment.columns)
    if narrow and type.element_type == f32 and _is_stored_by_pytorch(op, segment):
        type = TensorType(element_type_of(op.x), type.shape)
    result = Result(ResultPortAttr.tile(), type)
    return replace(segment, ports=[], results=[result], body=unchanged_region(), pairing=None)


def _product_type(op: FusedOp, segment: Segment, columns: int) -> AnyTensor:
    types = {_rounded_type(accumulator) for accumulator in segment.accumulators}
    element = types.pop() if len(types) == 1 else f32
    return TensorType(element, (*op.row_shape, columns))


def _is_stored_by_pytorch(op: FusedOp, segment: Segment) -> bool:
    """Return whether eager PyTorch rounds the products of a segment to the type of x, where kernels
    may round as it does: no bias is added first, no row or column is scaled, as for a norm that
    follows the product, and no result is wider.
    """
    tiles = [type for port, type in segment.results if port.kind.data not in _SUMS]
    sizes = {element_bytes(type) for type in (op.x.type, *tiles)}
    is_free = numerics_mode(op) == NumericsMode.FP32_EPILOGUE and len(op.inputs) == 1
    if not is_free or not op.has_one_type or sizes != {2}:
        return False
    vectors = {
        argument
        for index, (kind, _) in enumerate(segment.ports)
        if kind not in _OF_ELEMENTS
        for argument in segment.port_args(index)
    }
    uses = [use.operation for value in segment.accumulators for use in value.uses]
    return all(vectors.isdisjoint(use.operands) for use in uses)


def _rounded_type(accumulator: SSAValue) -> Attribute:
    """Return the type to which every use of an accumulator rounds it; else float32."""
    types = {
        use.operation.results[0].type if isinstance(use.operation, TruncFOp) else f32
        for use in accumulator.uses
    }
    return types.pop() if len(types) == 1 else f32


def _named(product: SSAValue) -> SSAValue:
    product.name_hint = "product"
    return product


def _over(segment: Segment, products: Sequence[Port]) -> Segment:
    """Return the segment of a map with the region of `segment`, with `products` as accumulators.

    The block arguments of tiles are those that the accumulators had: one, or two of a pair.
    """
    pairing, ports, results = segment.pairing, list(segment.ports), list(segment.results)
    if len(products) > 1:
        pairing = None
        ports = [Port(_WHOLE[kind], value) for kind, value in ports]
        results = [Result(_whole(port), type) for port, type in results]
    elif pairing is not None and not pairing.is_adjacent:
        pairing = PairingAttr.halves(segment.group_size)
    moved = [Result(_moved(port, len(products)), type) for port, type in results]
    return Segment(
        weights=[], ports=[*products, *ports], results=moved, body=segment.body, pairing=pairing
    )


def _whole(port: ResultPortAttr) -> ResultPortAttr:
    is_half = port.kind.data == ResultKind.HALF
    if not is_half:
        return port
    row = port.index.data if isinstance(port.index, IntAttr) else None
    return ResultPortAttr.tile().at(port.place, row)


def _moved(port: ResultPortAttr, count: int) -> ResultPortAttr:
    """Renumber the port that a result names after `count` others."""
    if not isinstance(port.index, IntAttr):
        return port
    return port.renumbered(port.index.data + count)


def _are_separable(segment: Segment) -> bool:
    """Return whether a region of pairs sees one column of each of two weights."""
    return (
        segment.pairing is not None
        and all(kind in _WHOLE for kind, _ in segment.ports)
        and all(
            result.port.kind.data in (ResultKind.HALF, ResultKind.PARTIAL_ROW)
            for result in segment.results
        )
        and not any(isinstance(inner, GroupReduceOp) for inner in segment.block.ops)
    )


def _add_map(parts: Unfused, segment: Segment) -> None:
    kernel = MapOp(segment)
    parts.ops.append(kernel)
    parts.results += kernel.outputs

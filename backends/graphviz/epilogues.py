"""Epilogue regions as graphs of scalar operators, with their ports and results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from coda_ir.backends.graphviz import theme
from coda_ir.backends.graphviz.dot import Attributes, Box, label
from coda_ir.backends.graphviz.values import Values, tooltip
from coda_ir.dialects.gemm import GroupReduceOp, Port, ResultKind, ResultPortAttr, Segment, YieldOp

SYMBOLS: Mapping[str, str] = MappingProxyType(
    {
        "arith.addf": "+",
        "arith.addi": "+",
        "arith.subf": "−",
        "arith.subi": "−",
        "arith.mulf": "×",
        "arith.muli": "×",
        "arith.divf": "÷",
        "arith.negf": "−x",
        "arith.maximumf": "max",
        "arith.minimumf": "min",
        "math.absf": "|x|",
    }
)
COMPARISONS: Mapping[str, str] = MappingProxyType(
    {"eq": "=", "ne": "≠", "lt": "<", "le": "≤", "gt": ">", "ge": "≥"}
)
COMMUTATIVE = ("arith.addf", "arith.addi", "arith.mulf", "arith.muli", "arith.maximumf")
SIDES = ("first", "second")
"""The two columns of a pair."""


@dataclass
class Source:
    """The start of an edge, and its label."""

    node: str
    text: str = ""
    attributes: Attributes = field(default_factory=dict[str, str])


class EpilogueDrawing:
    """The scalar operators of one region, drawn into `box`."""

    def __init__(self, box: Box, values: Values, block: Block):
        self.box = box
        self.values = values
        self.block = block
        self.sources: dict[SSAValue, Source] = {}

    def port(self, port: Port, arguments: Sequence[BlockArgument], source: Source) -> None:
        """Add a node for a port, an edge into it that is labelled with the port's kind, and edges
        to its uses.
        """
        used = [argument for argument in arguments if argument.uses.get_length()]
        if not used:
            return
        name = self.values.name(port.value) or used[0].name_hint or "port"
        node = self.box.node(label=name, tooltip=self.values.type(port.value), **theme.PORT)
        self.box.graph.edge(source.node, node, **_edge(source, port.kind.value))
        for side, argument in zip(SIDES, arguments, strict=False):
            self.sources[argument] = Source(node, side if len(arguments) > 1 else "")

    def operators(self) -> None:
        for op in self.block.ops:
            if not isinstance(op, YieldOp) and constant(op) is None:
                self._operator(op)

    def _operator(self, op: Operation) -> None:
        node = self.box.node(label=scalar_label(op), tooltip=tooltip(op), **theme.SCALAR)
        inputs = [operand for operand in op.operands if operand in self.sources]
        several = len(set(inputs)) > 1 and op.name not in COMMUTATIVE
        ordered = several or isinstance(op, arith.SelectOp)
        for letter, operand in zip("abcdef", op.operands, strict=False):
            if operand in self.sources:
                self.edge(operand, node, letter if ordered else "")
        for result in op.results:
            self.sources[result] = Source(node)

    def edge(self, value: SSAValue, target: str, text: str = "") -> None:
        """Add an edge from the node that computes `value`; a constant gets its own node."""
        if value not in self.sources:
            owner = value.owner
            known = constant(owner) if isinstance(owner, Operation) else None
            node = self.box.node(label=known or "?", tooltip="constant", **theme.SCALAR)
            self.sources[value] = Source(node)
        source = self.sources[value]
        self.box.graph.edge(source.node, target, **_edge(source, text))


def _edge(source: Source, text: str) -> Attributes:
    shown = " ".join(part for part in (source.text, text) if part)
    return {**({"label": f" {shown}"} if shown else {}), **source.attributes}


def draw_results(drawing: EpilogueDrawing, segment: Segment) -> list[Source]:
    """Add a node for each result of a segment; return where the edges to its uses begin."""
    found: list[Source] = []
    for index, (port, value) in enumerate(zip(segment.results, segment.outputs, strict=True)):
        partial = port.port.is_partial
        node = drawing.box.node(
            label=label(
                drawing.values.name(value), result_text(port.port), drawing.values.type(value)
            ),
            tooltip=drawing.values.type(value),
            **(theme.PARTIAL if partial else theme.RESULT),
        )
        yielded = segment.yielded(index)
        for side, operand in zip(SIDES, yielded, strict=False):
            drawing.edge(operand, node, side if len(yielded) > 1 else "")
        found.append(Source(node, attributes=theme.PARTIAL_EDGE if partial else {}))
    return found


def result_text(port: ResultPortAttr) -> str:
    """Return `tile`, or the combiner of a partial."""
    kind = port.kind.data.value.replace("_", " ")
    if port.is_partial:
        return f"{kind}: {getattr(port.combiner, 'data').value} per tile"  # noqa: B009
    if port.kind.data == ResultKind.GROUP:
        return f"one for {port.group_columns} columns"
    return "one column per row" if port.kind.data == ResultKind.SELECT else kind


def scalar_label(op: Operation) -> str:
    """Return the label of a scalar operator: `×`, `exp`, or with a constant, `+ 1e-05`."""
    name = SYMBOLS.get(op.name, op.name.partition(".")[2] or op.name)
    if isinstance(op, GroupReduceOp):
        return f"{op.combiner.data.value} over {op.group.data} columns"
    if isinstance(op, arith.MulfOp) and op.lhs == op.rhs:
        return "x²"
    constants = [_operand_constant(operand) for operand in op.operands]
    match op, constants:
        case arith.CmpiOp() | arith.CmpfOp(), [left, right]:
            return f"{left or ''} {_comparison(op)} {right or ''}".strip()
        case arith.SelectOp(), [condition, yes, no]:
            return f"{condition or 'a'} ? {yes or 'b'} : {no or 'c'}"
        case _, [left, right]:
            return f"{left or ''} {name} {right or ''}".strip()
        case _:
            return name


def _comparison(op: arith.CmpiOp | arith.CmpfOp) -> str:
    """Return `=`, `<`, ..., or the name of a predicate that has no sign, such as `uno`."""
    names = arith.CMPI_COMPARISON_OPERATIONS
    if isinstance(op, arith.CmpfOp):
        names = arith.CMPF_COMPARISON_OPERATIONS
    name = names[op.predicate.value.data]
    return COMPARISONS.get(name[-2:], name)


def _operand_constant(operand: SSAValue) -> str | None:
    return constant(operand.owner) if isinstance(operand.owner, Operation) else None


def constant(op: Operation) -> str | None:
    """Return the text of a scalar constant; None for other operators."""
    if not isinstance(op, arith.ConstantOp):
        return None
    match op.value:
        case FloatAttr():
            return f"{op.value.value.data:.6g}"
        case IntegerAttr():
            return str(op.value.value.data)
        case _:
            return str(op.value)

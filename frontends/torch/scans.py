"""Associative scans of PyTorch, which call a function of the model."""

from collections.abc import Callable, Sequence
from typing import Any

from torch.fx import GraphModule, Node
from xdsl.dialects.builtin import ModuleOp

from coda_ir.diagnostics import CodaError
from coda_ir.dialects.torch import LinearScanOp
from coda_ir.frontends.torch.importer import GraphImporter, Value
from coda_ir.frontends.torch.types import used_results
from coda_ir.remarks import format_location

ASSOCIATIVE_SCAN = "associative_scan"
"""The name of the operator in a graph."""

_PRODUCT, _SUM = "aten.mul.Tensor", "aten.add.Tensor"


def associative_scan(graph: GraphImporter, node: Node) -> Value | None:
    """A scan of (a, x), (b, y) -> (a · b, b · x + y) of which only the second result is read."""
    combine, inputs, lifted = node.args
    if lifted or not _is_linear(_called(combine)) or set(used_results(node)) - {1}:
        return None
    assert isinstance(inputs, Sequence)
    return [None, graph.insert(LinearScanOp(*map(graph.tensor, inputs))).result]


def _called(combine: object) -> GraphModule | None:
    """Return the graph that combines two elements in a scan."""
    owner: Any = combine.graph.owning_module if isinstance(combine, Node) else None
    found: object = getattr(owner, str(getattr(combine, "target", "")), None)
    return found if isinstance(found, GraphModule) else None


def _is_linear(combine: GraphModule | None) -> bool:
    nodes: list[Node] = [] if combine is None else list(combine.graph.nodes)
    placeholders = [node for node in nodes if node.op == "placeholder"]
    leaves: Any = nodes[-1].args[0] if nodes else ()
    if len(placeholders) != 4 or len(leaves) != 2:
        return False
    a, x, b, y = placeholders
    total, carried = leaves
    return _is(total, _PRODUCT, _same(a), _same(b)) and _is(
        carried, _SUM, lambda z: _is(z, _PRODUCT, _same(b), _same(x)), _same(y)
    )


def _same(node: Node) -> Callable[[object], bool]:
    return lambda other: other is node


def _is(
    node: object, target: str, first: Callable[[object], bool], second: Callable[[object], bool]
) -> bool:
    """Return whether a node is a commutative operator on two operands, in some order."""
    if not isinstance(node, Node) or str(node.target) != target or len(node.args) != 2:
        return False
    left, right = node.args
    return not node.kwargs and ((first(left) and second(right)) or (first(right) and second(left)))


def check_scans(module: ModuleOp) -> None:
    """Raise CodaError for a scan that was not imported as an operator of the IR."""
    for op in module.walk():
        if isinstance(op, LinearScanOp):
            raise CodaError(
                f"{format_location(op.location)}: the model uses {ASSOCIATIVE_SCAN} in another way "
                "than a selective scan does",
                "export the parts around it; torch.compile leaves it to PyTorch",
            )

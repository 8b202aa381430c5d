"""The view `fusion`: the operators of a program, with a box around those of each kernel."""

from collections.abc import Sequence
from itertools import combinations

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from coda_ir.backends.graphviz import theme
from coda_ir.backends.graphviz.dot import Attributes, Box, Html, title
from coda_ir.backends.graphviz.fusion import PREPARED, VIEWS, Fusion, analyze_fusion
from coda_ir.backends.graphviz.values import (
    Values,
    draw_argument,
    draw_return,
    operator_label,
    short_name,
    tooltip,
)
from coda_ir.backends.triton.gemm_names import gemm_kernel_name
from coda_ir.dialects.gemm import AttentionSumOp, FinalizeOp, FusedOp, MapOp
from coda_ir.functions import returned_values

Part = tuple[int, int | None]
"""Number of an operator and of one of its kernels (None where it has none)."""


def draw_fusion(box: Box, module: ModuleOp, func: FuncOp) -> None:
    """Draw one function into `box`, lowering it to the GEMM level if necessary."""
    FusionDrawing(box, analyze_fusion(module, func)).draw()


class FusionDrawing:
    """One function: a box per kernel, with a node per operator that it computes, even in part."""

    def __init__(self, box: Box, fusion: Fusion):
        self.box = box
        self.fusion = fusion
        self.values = Values(fusion.func)
        self.number = {op: index for index, op in enumerate(fusion.operators)}
        self.nodes: dict[Part, str] = {}

    def draw(self) -> None:
        self.box.attributes["label"] = self._summary()
        arguments: dict[SSAValue, str] = {
            argument: draw_argument(self.box, self.values, argument)
            for argument in self.fusion.func.args
        }
        for kernel in range(len(self.fusion.kernels)):
            self._kernel(kernel)
        for index, kernels in enumerate(self.fusion.kernels_of):
            if not kernels:
                self._removed(index)
        for index in range(len(self.fusion.operators)):
            self._connect(index, arguments)
        for index, value in enumerate(returned_values(self.fusion.func)):
            node = draw_return(self.box, self.values, index, value)
            source = arguments.get(value) or self._last_node(value)
            self.box.graph.edge(source, node, **theme.THROUGH_MEMORY)

    def _kernel(self, kernel: int) -> None:
        op, members = self.fusion.kernels[kernel], self.fusion.members[kernel]
        box = self.box
        if not is_library_call(op):
            name, size = kernel_title(self.fusion, Values(self.fusion.fused), kernel)
            box = self.box.box(label=title(f"{kernel + 1}. {name}", size), **kernel_style(op))
        for member in members:
            node_style = theme.UNFUSED if is_library_call(op) else theme.INSIDE
            self.nodes[member, kernel] = self._operator(box, member, kernel, node_style)

    def _operator(self, box: Box, member: int, kernel: int, style: Attributes) -> str:
        op = self.fusion.operators[member]
        return box.node(
            label=operator_label(op, self.values, part_text(self.fusion, member, kernel)),
            tooltip=tooltip(op, self.fusion.remarks.get(member, ())),
            **style,
        )

    def _summary(self) -> Html:
        name = self.fusion.func.sym_name.data
        operators = sum(1 for op in self.fusion.operators if not isinstance(op, VIEWS))
        kernels = sum(1 for op in self.fusion.kernels if not isinstance(op, PREPARED))
        return title(
            f"{name}: {operators} operators in {kernels} kernels",
            "Bold edges go through memory, thin ones stay on chip, dashed ones are tile partials.",
        )

    def _removed(self, index: int) -> None:
        op = self.fusion.operators[index]
        reason = "a view" if isinstance(op, VIEWS) else "folded into other operators"
        self.nodes[index, None] = self.box.node(
            label=operator_label(op, self.values),
            tooltip=f"{tooltip(op)}\nno kernel: {reason}",
            **theme.REMOVED,
        )

    def _connect(self, index: int, arguments: dict[SSAValue, str]) -> None:
        """Add the edges into the parts of an operator, and from part to part."""
        for first, second in combinations(self.fusion.kernels_of[index], 2):
            if (first, second) in self.fusion.flows:
                combines = isinstance(self.fusion.kernels[second], FinalizeOp)
                style = theme.PARTIAL_EDGE if combines else theme.THROUGH_MEMORY
                self._edge((index, first), (index, second), style)
        for operand in self.fusion.operators[index].operands:
            if isinstance(operand, BlockArgument):
                for reader in self._readers(index, operand):
                    target = self.nodes[index, reader]
                    self.box.graph.edge(arguments[operand], target, **theme.THROUGH_MEMORY)
            elif isinstance(operand, OpResult) and operand.op in self.number:
                self._connect_operators(self.number[operand.op], index)

    def _readers(self, index: int, argument: BlockArgument) -> Sequence[int | None]:
        """Return the kernels in which an operator reads an argument."""
        kernels = self.fusion.kernels_of[index]
        readers = [k for k in kernels if self.fusion.reads_argument(k, argument.index)]
        return readers or kernels[:1] or (None,)

    def _connect_operators(self, source: int, target: int) -> None:
        """Connect operators in a kernel that computes parts of both, or else between kernels."""
        sources = self.fusion.kernels_of[source]
        targets = self.fusion.kernels_of[target]
        same = [kernel for kernel in sources if kernel in targets]
        for kernel in same:
            self._edge((source, kernel), (target, kernel), theme.ON_CHIP)
        if same:
            return
        pairs = [(a, b) for a in sources for b in targets if (a, b) in self.fusion.flows]
        last, first = next(reversed(sources), None), next(iter(targets), None)
        for a, b in pairs or [(last, first)]:
            self._edge((source, a), (target, b), theme.THROUGH_MEMORY)

    def _edge(self, source: Part, target: Part, style: Attributes) -> None:
        self.box.graph.edge(self.nodes[source], self.nodes[target], **style)

    def _last_node(self, value: SSAValue) -> str:
        """Return the node of the operator that computes a value; a constant gets a new one."""
        assert isinstance(value, OpResult), "arguments have separate nodes"
        if value.op not in self.number:
            return self.box.node(label=operator_label(value.op, self.values), **theme.REMOVED)
        index = self.number[value.op]
        return self.nodes[index, next(reversed(self.fusion.kernels_of[index]), None)]


def kernel_title(fusion: Fusion, values: Values, kernel: int) -> tuple[str, str]:
    """Return the name of a kernel, and its size in terms of the `values` of the fused function."""
    op = fusion.kernels[kernel]
    match op:
        case FusedOp():
            return gemm_kernel_name(op), f"GEMM of {values.gemm_size(op)}"
        case MapOp():
            return "pointwise kernel", ""
        case FinalizeOp():
            return "finalize", f"per {op.axis.data}"
        case AttentionSumOp():
            return short_name(op), ", ".join(op.SUMS)
        case _:
            return short_name(op), ""


def part_text(fusion: Fusion, member: int, kernel: int) -> str:
    """Return the part of an operator that a kernel computes, if several kernels share it."""
    op, kernels = fusion.kernels[kernel], fusion.kernels_of[member]
    if isinstance(op, PREPARED):
        return "once per weight"
    main = [k for k in kernels if not isinstance(fusion.kernels[k], PREPARED)]
    if len(main) == 1:
        return ""
    if isinstance(op, FinalizeOp):
        return "combines the partials of the tiles"
    combined = [k for k in main if isinstance(fusion.kernels[k], FinalizeOp)]
    if combined:
        return "partials of each tile" if kernel < combined[0] else "applied to each row"
    return f"part {main.index(kernel) + 1} of {len(main)}"


def is_library_call(op: Operation) -> bool:
    """Return whether an operator stays at the block level."""
    return not isinstance(op, (FusedOp, MapOp, FinalizeOp, AttentionSumOp, *PREPARED))


def kernel_style(op: Operation) -> Attributes:
    match op:
        case FusedOp() | AttentionSumOp():
            return theme.GEMM_BOX
        case MapOp():
            return theme.MAP_BOX
        case FinalizeOp():
            return theme.FINALIZE_BOX
        case _:
            return theme.PREPARED_BOX

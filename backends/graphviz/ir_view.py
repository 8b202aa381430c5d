"""The view `ir`: a module, with GEMM-level regions as boxes."""

from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from coda_ir.backends.graphviz import theme
from coda_ir.backends.graphviz.dot import Attributes, Box, label, title
from coda_ir.backends.graphviz.epilogues import EpilogueDrawing, Source, draw_results
from coda_ir.backends.graphviz.values import (
    Values,
    draw_argument,
    draw_return,
    operator_label,
    tooltip,
)
from coda_ir.dialects import gemm
from coda_ir.dialects.coda import ConstantOp, ReshapeOp, SliceOp, TransposeOp
from coda_ir.functions import returned_values
from coda_ir.passes.fusion.report_unfused import ReportUnfusedPass
from coda_ir.remarks import Remark, collect_remarks

GEMM_LEVEL = (
    gemm.FusedOp,
    gemm.MapOp,
    gemm.FinalizeOp,
    gemm.AttentionSumOp,
    gemm.PackWeightOp,
    gemm.ScaleWeightOp,
)
VIEWS = (ConstantOp, ReshapeOp, SliceOp, TransposeOp)
"""Operators of the block level that cost nothing at run time."""

COMBINERS = {
    gemm.Combiner.ADD: "Σ over tiles",
    gemm.Combiner.MAX: "max over tiles",
    gemm.Combiner.LSE: "lse over tiles",
}


def draw_function(box: Box, func: FuncOp) -> None:
    """Draw the operators of one function into `box`."""
    FunctionDrawing(box, func).draw()


class FunctionDrawing:
    """One function: the nodes of its operators, and the node that computes each value."""

    def __init__(self, box: Box, func: FuncOp):
        self.box = box
        self.func = func
        self.values = Values(func)
        self.sources: dict[SSAValue, Source] = {}
        ops = [op for op in func.body.block.ops if not isinstance(op, ReturnOp)]
        self.ops: Sequence[Operation] = ops
        self.is_fused = any(isinstance(op, GEMM_LEVEL) for op in ops)
        self.remarks = unfused_remarks(func) if self.is_fused else []

    def draw(self) -> None:
        for argument in self.func.args:
            self.sources[argument] = Source(draw_argument(self.box, self.values, argument))
        for op in self.ops:
            match op:
                case gemm.FusedOp():
                    self._fused(op)
                case gemm.MapOp():
                    self._map(op)
                case gemm.FinalizeOp():
                    self._finalize(op)
                case gemm.AttentionSumOp():
                    self._attention(op)
                case ConstantOp() if not _has_node(op):
                    continue  # its number is in the labels of its users
                case _:
                    self._operator(op)
        for index, value in enumerate(returned_values(self.func)):
            node = draw_return(self.box, self.values, index, value)
            self._edge(value, node)

    def _edge(self, value: SSAValue, target: str, text: str = "") -> None:
        source = self.sources[value]
        shown: Attributes = {"label": f" {text}"} if text else {}
        self.box.graph.edge(source.node, target, **shown, **source.attributes)

    def _operator(self, op: Operation) -> None:
        remarks = [r for r in self.remarks if (r.operator, r.location) == (op.name, op.location)]
        node = self.box.node(
            label=operator_label(op, self.values), tooltip=tooltip(op, remarks), **self._style(op)
        )
        for operand in op.operands:
            if operand in self.sources:
                self._edge(operand, node)
        for result in op.results:
            self.sources[result] = Source(node)

    def _style(self, op: Operation) -> Attributes:
        if isinstance(op, gemm.PackWeightOp | gemm.ScaleWeightOp):
            return theme.PREPARED
        return theme.UNFUSED if self.is_fused and not isinstance(op, VIEWS) else theme.OPERATOR

    def _fused(self, op: gemm.FusedOp) -> None:
        box = self.box.box(
            label=title("gemm.fused", self.values.gemm_size(op), schedule_text(op)),
            tooltip=tooltip(op),
            **theme.GEMM_BOX,
        )
        for segment in op.segments():
            self._segment(box, op, segment)

    def _segment(self, box: Box, op: gemm.FusedOp, segment: gemm.Segment) -> None:
        inner = box.box(label=title("", segment_text(self.values, segment)), **theme.SEGMENT_BOX)
        drawing = EpilogueDrawing(inner, self.values, segment.block)
        matmul = inner.node(
            label=label(self._product(op, segment), f"N = {segment.columns}, accumulates in f32"),
            tooltip=tooltip(op),
            **theme.MATMUL,
        )
        for x, weights in zip(op.inputs, segment.terms, strict=True):
            self._edge(x, matmul, "A")
            for weight in weights:
                self._edge(weight, matmul, "W")
        sides = ("first", "second") if segment.pairing else ("",)
        for side, accumulator in zip(sides, segment.accumulators, strict=True):
            drawing.sources[accumulator] = Source(matmul, side)
        self._epilogue(drawing, segment)

    def _product(self, op: gemm.FusedOp, segment: gemm.Segment) -> str:
        left, right = (
            "ᵀ" if op.is_transposed else "",
            "ᵀ" if segment.layout == gemm.Layout.NK else "",
        )
        products: list[str] = []
        for x, weights in zip(op.inputs, segment.terms, strict=True):
            names = [self.values.name(weight) or "w" for weight in weights]
            weight = names[0] if len(names) == 1 else f"[{'; '.join(names)}]"
            products.append(f"{self.values.name(x) or 'x'}{left} · {weight}{right}")
        return " + ".join(products)

    def _epilogue(self, drawing: EpilogueDrawing, segment: gemm.Segment) -> None:
        for index, port in enumerate(segment.ports):
            drawing.port(port, segment.port_args(index), self.sources[port.value])
        drawing.operators()
        results = draw_results(drawing, segment)
        self.sources.update(zip(segment.outputs, results, strict=True))

    def _map(self, op: gemm.MapOp) -> None:
        box = self.box.box(label=title("gemm.map"), tooltip=tooltip(op), **theme.MAP_BOX)
        segment = op.segment()
        self._epilogue(EpilogueDrawing(box, self.values, segment.block), segment)

    def _attention(self, op: gemm.AttentionSumOp) -> None:
        box = self.box.box(
            label=title(op.name, "", schedule_text(op)), tooltip=tooltip(op), **theme.GEMM_BOX
        )
        segment = op.segment()
        drawing = EpilogueDrawing(box, self.values, segment.block)
        names = ", ".join(op.SUMS)
        sums = box.node(
            label=label(names, "accumulates in f32"), tooltip=tooltip(op), **theme.MATMUL
        )
        for value in dict.fromkeys(op.tensors):
            self._edge(value, sums)
        sides = ("first", "second") if segment.pairing else ("",)
        texts = [f"{name} {side}".strip() for name in op.SUMS for side in sides]
        for text, accumulator in zip(texts, segment.accumulators, strict=True):
            drawing.sources[accumulator] = Source(sums, text)
        self.sources.update((result, Source(sums)) for result in op.own_results)
        self._epilogue(drawing, segment)

    def _finalize(self, op: gemm.FinalizeOp) -> None:
        box = self.box.box(
            label=title("gemm.finalize", f"per {op.axis.data}"),
            tooltip=tooltip(op),
            **theme.FINALIZE_BOX,
        )
        drawing = EpilogueDrawing(box, self.values, op.body.block)
        arguments = op.body.block.args
        for argument, (combiner, partial) in zip(arguments, op.partial_list, strict=False):
            node = box.node(label=COMBINERS[combiner], tooltip=tooltip(op), **theme.SCALAR)
            self._edge(partial, node)
            drawing.sources[argument] = Source(node)
        for index, port in enumerate(op.port_list, len(op.partial_list)):
            drawing.port(port, [arguments[index]], self.sources[port.value])
        drawing.operators()
        terminator = op.body.block.last_op
        assert terminator is not None, "the region ends in gemm.yield"
        for yielded, output in zip(terminator.operands, op.outputs, strict=True):
            node = box.node(
                label=label(self.values.name(output), self.values.type(output)), **theme.RESULT
            )
            drawing.edge(yielded, node)
            self.sources[output] = Source(node)


def _has_node(op: ConstantOp) -> bool:
    """Return whether some use of a constant does not show it in its own label."""
    return any(isinstance(use.operation, (ReturnOp, *GEMM_LEVEL)) for use in op.result.uses)


def unfused_remarks(func: FuncOp) -> list[Remark]:
    """Return the reasons why operators of a GEMM-level function run outside of GEMMs by design."""
    module = ModuleOp([func.clone()])
    with collect_remarks() as remarks:
        ReportUnfusedPass().apply(Context(), module)
    return remarks


def schedule_text(op: gemm.FusedOp | gemm.AttentionSumOp) -> str:
    if op.schedule is None:
        return ""
    tile = " × ".join(map(str, op.schedule.tile))
    return (
        f"tiles of {tile}, {op.schedule.warps.data} warps, {op.schedule.stages.data} stages, "
        f"{op.schedule.mainloop} main loop"
    )


def segment_text(values: Values, segment: gemm.Segment) -> str:
    """Return the weights of a column range, and which of its columns form pairs."""
    names = ", ".join(values.name(weight) or "w" for weight in segment.weights)
    if segment.pairing is None:
        return f"columns of {names}"
    group = segment.group_size
    if group is None:
        return f"columns of {names}, in pairs 2p, 2p + 1"
    of_each = "" if group == segment.columns else f" of each {group}"
    return f"columns of {names}, in pairs j, j + {group // 2}{of_each}"

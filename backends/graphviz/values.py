"""Names, types and nodes of the values of a function."""

from collections.abc import Sequence
from pathlib import PurePath

from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from coda_ir.backends.graphviz import theme
from coda_ir.backends.graphviz.dot import Box, Html, joined, label
from coda_ir.dialects.coda import ConstantOp
from coda_ir.dialects.coda.shapes import element_type_of
from coda_ir.dialects.coda.weights import is_weight
from coda_ir.dialects.gemm import FusedOp
from coda_ir.remarks import Remark, source_position
from coda_ir.signatures import entry_name, entry_of
from coda_ir.symbolic_shapes import SymbolicShapes

_DRAWN = ("segments", "segment", "transposed", "combiners", "port_kinds", "schedule")
_HIDDEN = ("coda.name", "coda.dims", "operandSegmentSizes", "resultSegmentSizes", *_DRAWN)


class Values:
    """The names and shapes of the values of a function."""

    def __init__(self, func: FuncOp):
        self.func = func
        self.shapes = SymbolicShapes(func)

    def name(self, value: SSAValue) -> str:
        """The name of a value in the source, or ""."""
        if isinstance(value, BlockArgument) and value.block is self.func.body.block:
            return (
                entry_name(entry_of(self.func.arg_attrs, value.index)) or value.name_hint or "arg"
            )
        return value.name_hint or ""

    def result_name(self, index: int, value: SSAValue) -> str:
        return entry_name(entry_of(self.func.res_attrs, index)) or self.name(value)

    def type(self, value: SSAValue) -> str:
        """The type of a value, such as `bf16[B, T, 4096]`."""
        dims = ", ".join(map(str, self.shapes.written(value)))
        return times(f"{element_type_of(value)}[{dims}]")

    def rows(self, value: SSAValue) -> str:
        """The product of all extents but the last, such as `B·T`."""
        return times(str(self.shapes.rows(value)))

    def gemm_size(self, op: FusedOp) -> str:
        """M, N and K, such as `B·T × 4096 × 11008`; in brackets if several products are added."""
        columns = sum(segment.columns for segment in op.segments())
        depths = [str(self.shapes.dims(x)[-1]) for x in op.inputs]
        rows = self.rows(op.x)
        if op.is_transposed:
            rows, depths = depths[0], [self.rows(x) for x in op.inputs]
        depth = depths[0] if len(depths) == 1 else f"({' + '.join(depths)})"
        return times(f"{rows} × {columns} × {depth}")


def times(text: str) -> str:
    return text.replace("*", "·")


def draw_argument(box: Box, values: Values, argument: SSAValue) -> str:
    style = theme.WEIGHT if is_weight(argument) else theme.ARGUMENT
    return box.node(
        label=label(values.name(argument), values.type(argument)),
        tooltip=place_of(argument.owner) if isinstance(argument.owner, Operation) else "argument",
        **style,
    )


def draw_return(box: Box, values: Values, index: int, value: SSAValue) -> str:
    text = f"return {values.result_name(index, value)}".rstrip()
    return box.node(label=label(text), tooltip=values.type(value), **theme.RETURN)


def operator_label(op: Operation, values: Values, note: str = "") -> Html:
    """Return the name of an operator with its constants, and the name and type of each result."""
    results = [f"{values.name(r)}: {values.type(r)}".removeprefix(": ") for r in op.results]
    owners = [op, *(operand.owner for operand in op.operands)]
    numbers = [f"{owner.number:g}" for owner in owners if isinstance(owner, ConstantOp)]
    return label(" ".join([short_name(op), *numbers]), note, *results)


def short_name(op: Operation) -> str:
    """Return `rms_norm` for `coda.rms_norm`; operators of other dialects keep their prefix."""
    return op.name.removeprefix("coda.")


def tooltip(op: Operation, remarks: Sequence[Remark] = ()) -> str:
    """Return the source location of an operator, its options, and the remarks about it."""
    options = {**op.properties, **op.attributes}
    shown = [f"{name} = {value}" for name, value in options.items() if name not in _HIDDEN]
    return joined([place_of(op), *shown, *(remark_text(remark) for remark in remarks)])


def remark_text(remark: Remark) -> str:
    text = f"{remark.pass_name}: {remark.reason}"
    return text if remark.suggestion is None else f"{text}; help: {remark.suggestion}"


def place_of(op: Operation) -> str:
    """Return `llama_layer.coda:28:10`, or the name of the operator if its location is unknown."""
    position = source_position(op.location)
    if position is None:
        return op.name
    file, line, column = position
    return f"{PurePath(file).name}:{line}:{column}"

"""Calls of PyTorch in .coda: `torch("aten.cumsum.default({0}, -1)", x, dtype=f32, shape=[B])`."""

import ast
import re
from collections.abc import Mapping

from xdsl.dialects.builtin import TensorType as IRTensorType
from xdsl.utils.exceptions import VerifyException

from coda_ir.diagnostics import CodaError
from coda_ir.dialects.torch import NOT_SYMBOLS, ArgumentTemplate, CallOp
from coda_ir.frontends.coda_text.arguments import Mistake
from coda_ir.frontends.coda_text.invocation import Invocation
from coda_ir.frontends.coda_text.values import (
    ELEMENT_TYPES,
    Dim,
    TensorValue,
    extent,
    format_dims,
    with_coda_names,
)
from coda_ir.torch_signatures import callee_remedy, check_call

TORCH_CALL = (
    "torch(call: string, *operands?, dtype: type, shape: sizes, positions: sizes?, "
    "view: boolean = false, random: boolean = false)"
)


def torch_call(call: Invocation) -> TensorValue:
    """One tensor computed by PyTorch; its type has to be stated."""
    callee, arguments = _callee_and_arguments(call)
    operands = [call.as_tensor("operands", value) for value in call.values.get("operands", ())]
    element, shape = call.element_type("dtype"), call.sizes("shape")
    assert element is not None, "dtype is required"
    if any(isinstance(dim, int) and dim < 0 for dim in shape):
        raise call.wrong("shape", "expected sizes", given=format_dims(shape), code="E0402")
    op = CallOp(
        callee,
        [operand.ssa for operand in operands],
        _bound(arguments, call.symbols),
        [IRTensorType(ELEMENT_TYPES[element], [extent(dim) for dim in shape])],
        view=call.flag("view"),
        random=call.flag("random"),
        positions=call.integers("positions") if call.given("positions") else None,
    )
    try:
        op.verify_()
    except VerifyException as error:
        remedy = "{0} is the first tensor after the text, {1} the second one"
        message = with_coda_names(str(error)).removeprefix("property ")
        raise Mistake(f"torch: {message}", remedy, "E0402", argument="call") from error
    try:
        check_call(callee, op.template, 1, op.picks)
    except CodaError as error:
        raise Mistake(f"torch: {error.message}", error.remedy, "E0402", argument="call") from error
    return call.emit_stated(op, shape)


def _callee_and_arguments(call: Invocation) -> tuple[str, str]:
    """The operator of PyTorch, and the text between its brackets."""
    text = call.value("call")
    callee, opened, arguments = text.partition("(") if isinstance(text, str) else ("", "", "")
    if not opened or not arguments.endswith(")"):
        raise Mistake(
            'torch: call is not of the form "namespace.operator.overload(arguments)"',
            'write "aten.cumsum.default({0}, -1)"; {0} is the first tensor',
            "E0402",
            argument="call",
        )
    if not re.fullmatch(r"\w+\.\w+\.\w+", callee):
        raise Mistake(
            f"torch: {callee} is not of the form namespace.operator.overload",
            callee_remedy(callee) or 'write "aten.cumsum.default({0}, -1)"',
            "E0402",
            argument="call",
        )
    return callee, arguments.removesuffix(")")


def _bound(text: str, symbols: Mapping[str, Dim]) -> str:
    """The arguments with the sizes of the symbols of an inlined function."""
    try:
        template = ArgumentTemplate.parse(text)
    except ValueError as error:
        raise Mistake(f"torch: {error}", argument="call", code="E0402") from error
    unknown = sorted(template.symbols - symbols.keys())
    if unknown:
        raise Mistake(
            f"torch: the arguments name {unknown[0]}, which is not a symbol of the function",
            "{0} is the first tensor; sizes are numbers or symbols of the parameters",
            "E0402",
            argument="call",
        )
    sizes = {name: str(symbols[name]) for name in template.symbols}
    written = {node.id for node in ast.walk(template.call) if isinstance(node, ast.Name)}
    hidden = NOT_SYMBOLS & {*(written & symbols.keys()), *sizes.values()}
    if hidden:
        raise Mistake(
            f"torch: the arguments name {min(hidden)}, which is not a size there, but the function "
            "has a size of that name",
            "rename the size",
            "E0402",
            argument="call",
        )
    if all(name == size for name, size in sizes.items()):
        return text
    bound: ast.Call = _Binder(sizes).visit(ArgumentTemplate.parse(text).call)
    return ", ".join(map(ast.unparse, [*bound.args, *bound.keywords]))


class _Binder(ast.NodeTransformer):
    def __init__(self, sizes: Mapping[str, str]):
        self._sizes = sizes

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        size = self._sizes.get(node.id)
        return node if size is None else ast.parse(size, mode="eval").body

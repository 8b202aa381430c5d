"""How the host program is spelled: names of arguments and types, and lines that fit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.dialects.builtin import Float64Type, IntegerType, Signedness, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from coda_ir.backends.triton.kernel import triton_type

_TORCH_TYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "i1": "bool"}


def torch_type(type: Attribute) -> str:
    """The torch dtype of an element type. Raises ElementTypeError for others."""
    if type == IntegerType(8, Signedness.UNSIGNED):
        return "torch.uint8"
    if isinstance(type, Float64Type):
        return "torch.float64"
    short = triton_type(type)
    return f"torch.{_TORCH_TYPES.get(short, short.replace('i', 'int'))}"


def argument_hints(func: FuncOp) -> list[str]:
    """What the arguments of `func` are called: `coda.name`, else the name in the IR."""
    entries = func.arg_attrs.data if func.arg_attrs else ()
    hints: list[str] = []
    for index, argument in enumerate(func.args):
        given = entries[index].data.get("coda.name") if index < len(entries) else None
        name = given.data if isinstance(given, StringAttr) else argument.name_hint
        hints.append(name or f"arg{index}")
    return hints


def unpacked(names: Sequence[str], sequence: str) -> list[str]:
    """The assignment of the elements of a sequence to variables."""
    line = f"{', '.join(names)}{',' * (len(names) == 1)} = {sequence}"
    if len(line) <= 96:
        return [line]
    return ["(", *(f"    {name}," for name in names), f") = {sequence}"]


def wrapped(lines: Iterable[str], limit: int = 100) -> list[str]:
    """Break `name = call(a, b)` and `if call(a, b):` lines that are too long at the commas."""
    result: list[str] = []
    for line in lines:
        closing = "):" if line.endswith("):") else ")"
        if len(line) <= limit or not line.endswith(closing) or "(" not in line:
            result.append(line)
            continue
        indent = " " * (len(line) - len(line.lstrip()))
        head, inner = line[: line.index("(") + 1], line[line.index("(") + 1 : -len(closing)]
        arguments = (f"{indent}    {part}," for part in _split_arguments(inner))
        result += [head, *arguments, f"{indent}{closing}"]
    return result


def _split_arguments(text: str) -> list[str]:
    parts, depth, start = list[str](), 0, 0
    for index, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1
    return [*parts, text[start:].strip()]

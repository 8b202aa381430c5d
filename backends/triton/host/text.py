"""Text of the host program: names of arguments and types, and line breaks."""

from collections.abc import Iterable, Sequence
from io import StringIO
from itertools import pairwise
from tokenize import OP, generate_tokens

from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from coda_ir.backends.triton.kernel import bracketed, unsupported
from coda_ir.dialects.element_types import BY_ATTRIBUTE
from coda_ir.signatures import entry_name, entry_of


def torch_type(type: Attribute) -> str:
    """Return the text of PyTorch's dtype. Raises ElementTypeError for one that PyTorch lacks."""
    known = BY_ATTRIBUTE.get(type)
    if known is None:
        raise unsupported(type)
    return f"torch.{known.torch}"


def argument_hints(func: FuncOp) -> list[str]:
    """Return name hints for the arguments of `func`: `coda.name`, else the name in the IR."""
    return [
        entry_name(entry_of(func.arg_attrs, index)) or argument.name_hint or f"arg{index}"
        for index, argument in enumerate(func.args)
    ]


def unpacked(names: Sequence[str], sequence: str) -> list[str]:
    """Return the assignment of the elements of a sequence to variables."""
    line = f"{', '.join(names)}{',' * (len(names) == 1)} = {sequence}"
    return [line] if len(line) <= 96 else bracketed("(", names, f") = {sequence}", 0)


def wrapped(lines: Iterable[str], limit: int = 100) -> list[str]:
    """Break long lines at the commas of the call that they end in, or of `if call(a):`."""
    result: list[str] = []
    for line in lines:
        places = _last_call(line) if len(line) > limit and line.endswith((")", "):")) else []
        if len(places) < 2:
            result.append(line)
            continue
        indent = " " * (len(line) - len(line.lstrip()))
        parts = (line[start:end].strip() for start, end in pairwise(places))
        arguments = (f"{indent}    {part.removesuffix(',')}," for part in parts)
        result += [line[: places[0]], *arguments, f"{indent}{line[places[-1] :]}"]
    return result


def _last_call(line: str) -> list[int]:
    """Return where the arguments of the call that ends a line begin, and where they end."""
    calls: list[list[int]] = []
    places: list[int] = []
    for token in generate_tokens(StringIO(line.lstrip()).readline):
        if token.type != OP:
            continue
        if token.string in "([{":
            calls.append([token.end[1]])
        elif token.string in ")]}":
            places = [*calls.pop(), token.start[1]]
        elif token.string == "," and calls:
            calls[-1].append(token.end[1])
    indent = len(line) - len(line.lstrip())
    return [indent + place for place in places] if places[0] != places[-1] else []

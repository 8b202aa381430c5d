"""Remedies for syntax of Python, PyTorch and MLIR that .coda lacks."""

import re

from coda_ir.frontends.coda_text.counterparts import (
    CALLS,
    ELEMENT_NAMES,
    FUNCTIONS,
    INFIX,
    NOTES,
    SIZES,
)
from coda_ir.frontends.coda_text.remedies import Given, fields_of, fill

LONGEST = 200
"""Characters on each side of a mistake that are searched."""

MODULES = frozenset(
    ("F", "torch", "nn", "functional", "np", "numpy", "math", "jax", "jnp", "tl", "ops", "self")
)
"""Names in front of a dot that are no tensors."""

ATTRIBUTES = {
    "shape": SIZES,
    "T": "write transpose($x); x @ w.T is linear(x, w)",
    "mT": "write transpose($x); x @ w.mT is linear(x, w)",
    "dtype": "types are written out, as in cast(x, f32)",
    "device": "programs name no devices: pass device= to compile",
    "Tensor": "types have sizes: x: f32[M, 64]",
}
"""Attributes of tensors and modules that are no functions."""

METHODS = dict.fromkeys(("size", "dim", "numel", "ndimension"), ATTRIBUTES["shape"])
"""Methods that are no functions, either."""

_BRANCH = (
    "there is no control flow: where(condition, x, y) chooses between elements; for a fixed "
    "choice, write a function for each case"
)
_OPTIONAL = "no tensor is optional: write a function for each case"
_NAME = "names are bound without a keyword: y = silu(x)"
_FUNCTION = "write fn f(x: bf16[M, 64]) { return silu(x) }"
_DOTS = "names have no dots: functions are called by name, as in silu(x)"

NO_POWER = "there is no power operator: write x * x, pow(x, 2), or rsqrt(64) for 64 ** -0.5"

STATEMENTS = {
    **dict.fromkeys(("if", "elif", "else", "match", "try"), _BRANCH),
    **dict.fromkeys(("for", "while"), "there are no loops: call a function once for each step"),
    **dict.fromkeys(("let", "var", "val", "auto"), _NAME),
    **dict.fromkeys(("def", "func", "function", "class", "module"), _FUNCTION),
    **dict.fromkeys(("with", "assert", "del", "pass", "print", "raise"), "remove this statement"),
    **dict.fromkeys(("from", "import"), 'import takes a .coda file in quotes: import "norms.coda"'),
    "func.func": "this is MLIR: name the file .mlir, or pass syntax='mlir' to coda_ir.parse",
    "module {": "this is MLIR: name the file .mlir, or pass syntax='mlir' to coda_ir.parse",
    "//": "comments begin with #",
    "/*": "comments begin with #",
    '""': "comments begin with #",
    "@": "functions have no decorators",
}
"""Beginnings of lines of other languages."""

WORDS = {"if": _BRANCH, "lambda": _FUNCTION}
"""Words inside of an expression."""

_STATEMENT_ENDS = r"(?=\s+[^\s=,\"\u201c\u201d]|\s*:|\s*$)"
"""The text after a word that begins a statement, and is no name that is bound."""

_CALLEE = re.compile(r"((?:\.\w+)*)\.(\w+)\s*(\()?")
_AXIS, _KEPT_DIMENSION = re.compile(r"^axis\s*="), re.compile(r"keepdims?\s*=")
_ARITHMETIC = ("+", "-", "*", "/", "@")
_WORD_BEFORE = re.compile(r"([A-Za-z_]\w*)\s*$")
_OPERAND = re.compile(r"\s*([\w.]+(?:\([^()]*\))?)(?![\w.(\[])")
"""A name, a number, or a call whose arguments have no brackets."""


def foreign_remedy(line: str, column: int) -> str | None:
    """The remedy for what stands at a column (from 1) of a line; None for nothing known."""
    before, after = line[: column - 1][-LONGEST:], line[column - 1 :][:LONGEST]
    statement = _statement(line[:LONGEST])
    if statement is not None:
        return statement
    if after.startswith("..."):
        return _dots_in_type(before)
    if after.startswith("."):
        return _after_dot(before, after)
    return _infix(before, after)


def _statement(line: str) -> str | None:
    text = line.lstrip()
    for word, remedy in STATEMENTS.items():
        ends = _STATEMENT_ENDS if word[-1].isalpha() else ""
        if re.match(re.escape(word) + ends, text):
            return remedy
    return None


# Names with dots.


def _after_dot(before: str, after: str) -> str | None:
    if re.match(r"\.\d", after):
        number = re.match(r"\.\d+", after)
        return f"write 0{number[0] if number else ''}"
    found = _CALLEE.match(after)
    if found is None:
        return None
    path, name, opens = found[1], found[2], found[3]
    receiver = _primary(before)
    is_module = receiver in MODULES
    if name in ELEMENT_NAMES and not opens:
        return f"write {ELEMENT_NAMES[name]}"
    if not opens or name in METHODS:
        text = {**ATTRIBUTES, **METHODS}.get(path.split(".")[1] if path else name)
        return _DOTS if text is None else fill(text, {"x": receiver or "x"})
    if name[0].isupper():
        return "there are no modules: functions are called by name, as in silu(x)"
    if path and (not is_module or "aten" in path):
        return ATTRIBUTES.get(path.split(".")[1], _DOTS)
    arguments = _items(_bracketed(after[found.end() - 1 :]))
    if not is_module:
        arguments.insert(0, receiver or "x")
    return _call(name, arguments)


def _call(name: str, arguments: list[str]) -> str:
    """The call of a function or method, as .coda has it."""
    text = CALLS.get(name) or FUNCTIONS.get(name)
    if text is None:
        kept = [_AXIS.sub("dim=", each) for each in arguments if not _KEPT_DIMENSION.match(each)]
        return f"functions are called by name: {name}({', '.join(kept)})"
    return _written(text, [_given(argument) for argument in arguments])


def _written(text: str, given: list[Given]) -> str:
    ending = ", with the types of the operands" if "dtype=" in text else NOTES.get(text, "")
    return f"write {fill(text, fields_of(given))}{ending}"


def _given(text: str) -> Given:
    text = ELEMENT_NAMES.get(text.removeprefix("torch."), text)
    try:
        return Given(text, float(text) if "." in text or "e" in text else int(text))
    except ValueError:
        return Given(text)


def _primary(before: str) -> str | None:
    """The name or the call that a text ends in."""
    text = before.rstrip()
    if not text.endswith(")"):
        name = _WORD_BEFORE.search(text)
        return None if name is None else name[1]
    depth = 0
    for index in range(len(text) - 1, -1, -1):
        depth += (text[index] == ")") - (text[index] == "(")
        if depth == 0:
            name = re.search(r"[A-Za-z_]\w*$", text[:index])
            return text[name.start() if name else index :]
    return None


def _bracketed(text: str) -> str:
    """The text between the bracket that a text begins with and the one that closes it."""
    depth = 0
    for index, character in enumerate(text):
        depth += (character in "([") - (character in ")]")
        if depth == 0:
            return text[1:index]
    return text[1:]


def _items(text: str) -> list[str]:
    """The parts of a text between commas outside of brackets."""
    items, depth = [""], 0
    for character in text:
        depth += (character in "([") - (character in ")]")
        if character == "," and depth == 0:
            items.append("")
        else:
            items[-1] += character
    return [item.strip() for item in items if item.strip()]


# Types and infix operators.


def _dots_in_type(before: str) -> str | None:
    x = _primary(before[: max(0, before.rfind("["))])
    return f"write every size, as in {x}[B, T, 64]" if x in ELEMENT_NAMES.values() else None


def _infix(before: str, after: str) -> str | None:
    """An operator or a word of Python between two operands."""
    word, previous = re.match(r"\w+", after), re.search(r"\b\w+(?=\s*$)", before)
    for each in (word, previous):
        if each is not None and each[0] in WORDS:
            return WORDS[each[0]]
    is_negated = previous is not None and previous[0] == "not"
    if after.startswith("!") or is_negated:
        negated = _OPERAND.match(after.removeprefix("!"))
        return _written(INFIX["not"], [Given("..." if negated is None else negated[1])])
    if before[-1:].isdigit() and word is not None and word[0][0].isalpha():
        return "numbers are decimal and have no suffix: 16, 0.5 or 1e-6"
    if after.startswith("?"):
        if re.search(r"\btensor<[\dx]*$", before):
            return "write x: f32[M, 64]; a size that is not known before the call is a name"
        if before.rfind("[") <= before.rfind("]"):
            return _OPTIONAL if before.rstrip().endswith("]") else _BRANCH
        return "a size that is not known before the call is a name: f32[M, 64]"
    if after.startswith("=") and before.rstrip()[-1:] in _ARITHMETIC and not before.endswith(" "):
        return "names are bound once: give the result a new name, as in z = x + y"
    operators = sorted(INFIX, key=len, reverse=True)
    found = next((each for each in operators if after.startswith(each)), None)
    if found is None:
        return None
    left, right = _primary(before), _OPERAND.match(after[len(found) :])
    if found == "^" and re.match(r"\^\s*-?[\d.]", after):
        return NO_POWER
    if INFIX[found].startswith("logical") and _has_operators(before, left, after, right):
        return _written(INFIX[found], [Given("..."), Given("...")])
    if left is None or right is None:
        return None
    return _written(INFIX[found], [Given(left), _given(right[1])])


def _has_operators(before: str, left: str | None, after: str, right: re.Match[str] | None) -> bool:
    """Return whether an operand of an infix operator is more than a name, a number or a call."""
    if left is None or right is None:
        return True
    outside = before.rstrip().removesuffix(left), after.partition(right[0])[2]
    operators = (
        re.search(r"([<>+*/-]|[<>=!]=)\s*$", outside[0]),
        re.match(r"\s*([<>+*/-]|[=!]=)", outside[1]),
    )
    return any(operators)

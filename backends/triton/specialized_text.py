"""The text of a function with constants for some of its names, and with fewer parameters."""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from copy import copy, deepcopy
from dataclasses import dataclass

from coda_ir.backends.triton.folding import (
    UNKNOWN,
    Constants,
    chosen_value,
    fold,
    is_folded,
    open_operands,
    reachable,
)
from coda_ir.backends.triton.host.text import wrapped
from coda_ir.backends.triton.kernel import definition


@dataclass(frozen=True)
class Signature:
    """The parameters of a function in order, and those that are removed."""

    parameters: tuple[str, ...]
    removed: frozenset[str] = frozenset()

    def arguments(self, call: ast.Call) -> Mapping[str, ast.expr]:
        """Return the arguments of a call, by parameter: a sequence of arguments may be any."""
        given: dict[str | None, ast.expr] = dict(zip(self.parameters, call.args, strict=False))
        given |= {keyword.arg: keyword.value for keyword in call.keywords}
        for argument in (*call.args, *([given[None]] if None in given else [])):
            if isinstance(argument, ast.Starred) or argument is given.get(None):
                return dict.fromkeys(self.parameters, argument)
        return {name: value for name, value in given.items() if name is not None}

    def removed_arguments(self, call: ast.Call) -> list[ast.expr]:
        """Return the arguments for removed parameters."""
        given = self.arguments(call)
        return [given[name] for name in self.removed if name in given]


class SpecializedText:
    """Writes a function again, with the comments and the layout of what does not change."""

    def __init__(
        self, source: str, constants: Constants, signatures: Mapping[str, Signature], read: Set[str]
    ):
        """`source` ends with the function; `read` are the names that it still reads."""
        self._lines = source.splitlines()
        self._constants = constants
        self._signatures = signatures
        self._read = read
        changed = (name for name, signature in signatures.items() if signature.removed)
        self._affected = {*constants, *changed}
        tree = ast.parse(source).body[-1]
        assert isinstance(tree, ast.FunctionDef)
        self._tree = tree

    def text(self) -> str:
        """Return the function, with what is above it in the source."""
        body = self._tree.body
        head = self._lines[: self._tree.lineno - 1]
        start = body[0].lineno - 1
        lines = [*head, *self._signature(start), *self._block(body, start, 0)]
        return "\n".join([*lines, ""])

    def _signature(self, end: int) -> list[str]:
        removed = self._signatures[self._tree.name].removed
        if not removed:
            return self._lines[self._tree.lineno - 1 : end]
        arguments = self._tree.args
        defaults = [None] * (len(arguments.args) - len(arguments.defaults)) + arguments.defaults
        pairs = zip(arguments.args, defaults, strict=True)
        kept = [_parameter(*pair) for pair in pairs if pair[0].arg not in removed]
        return definition(self._tree.name, kept)

    def _block(self, body: Sequence[ast.stmt], end: int, shift: int) -> Iterator[str]:
        """Yield the lines of a block, `shift` columns to the left; `end` lines are before it."""
        for statement in reachable(body, self._constants):
            yield from self._moved(end, statement.lineno - 1, shift)
            yield from self._statement(statement, shift)
            end = _end(statement)

    def _suite(self, body: Sequence[ast.stmt], end: int, shift: int) -> list[str]:
        """Return the lines of a block after a colon, which has a statement at least."""
        lines = [*self._block(body, end, shift)]
        is_empty = all(line.lstrip()[:1] in ("", "#") for line in lines)
        return [*lines, f"{' ' * (body[0].col_offset - shift)}pass"] if is_empty else lines

    def _moved(self, start: int, end: int, shift: int) -> list[str]:
        return [line[shift:] for line in self._lines[start:end]]

    def _statement(self, statement: ast.stmt, shift: int) -> Iterator[str]:
        match statement:
            case ast.If():
                yield from self._if(statement, "if", shift)
            case ast.For(orelse=[]) | ast.While(orelse=[]) | ast.With():
                end = self._header_end(statement)
                yield from self._changed(statement, end, shift)
                yield from self._suite(statement.body, end, shift)
            case ast.Assign([ast.Name(name)]) if name in self._constants and name not in self._read:
                pass
            case ast.Expr(ast.Constant(str(text))):
                yield from self._docstring(statement, text)
            case _:
                yield from self._changed(statement, _end(statement), shift)

    def _if(self, statement: ast.If, keyword: str, shift: int) -> Iterator[str]:
        """Yield an `if`, an `elif`, or what takes its place: `else` after others."""
        test, end = fold(statement.test, self._constants), self._header_end(statement)
        if test is UNKNOWN:
            yield from self._changed(statement, end, shift, keyword)
            yield from self._suite(statement.body, end, shift)
            yield from self._otherwise(statement, "elif", shift)
        elif not test:
            yield from self._otherwise(statement, keyword, shift)
        elif keyword == "if":
            yield from self._block(statement.body, end, shift + 4)
        else:
            yield f"{' ' * (statement.col_offset - shift)}else:"
            yield from self._suite(statement.body, end, shift)

    def _otherwise(self, statement: ast.If, keyword: str, shift: int) -> Iterator[str]:
        """Yield what runs where the test of an `if` fails, after other tests if `elif`."""
        end = _end(statement.body[-1])
        match statement.orelse:
            case []:
                return
            case [ast.If() as inner] if inner.col_offset == statement.col_offset:
                yield from self._moved(end, inner.lineno - 1, shift)
                yield from self._if(inner, keyword, shift)
            case body:
                numbers = range(end, body[0].lineno)
                start = next(n for n in numbers if self._lines[n].strip().startswith("else:"))
                if keyword == "elif":
                    yield from self._moved(end, start + 1, shift)
                    yield from self._suite(body, start + 1, shift)
                else:
                    yield from self._block(body, start + 1, shift + 4)

    def _header_end(self, statement: ast.If | ast.For | ast.While | ast.With) -> int:
        """Return how many lines there are up to the colon before a block."""
        numbers = range(statement.lineno - 1, statement.body[0].lineno)
        codes = ((number, self._lines[number].partition("  #")[0]) for number in numbers)
        return next(number + 1 for number, code in codes if code.endswith(":"))

    def _changed(self, statement: ast.stmt, end: int, shift: int, keyword: str = "if") -> list[str]:
        """Return the lines of a statement, or of its head, up to `end`, folded."""
        lines = self._moved(statement.lineno - 1, end, shift)
        folding = _Folding(self._constants, self._signatures)
        head = _without_block(statement)
        is_affected = any(
            isinstance(n, ast.Name) and n.id in self._affected for n in ast.walk(head)
        )
        folded = folding.visit(deepcopy(head)) if is_affected else head
        indent = " " * (statement.col_offset - shift)
        if folding.has_changed:
            text = ast.unparse(folded).removesuffix("\n    pass")
            lines = wrapped(indent + line for line in text.split("\n"))
        if isinstance(statement, ast.If):
            lines[0] = f"{indent}{keyword} {lines[0].lstrip().partition(' ')[2]}"
        return lines

    def _docstring(self, statement: ast.Expr, text: str) -> list[str]:
        """Return a docstring without the paragraphs that describe removed parameters."""
        paragraphs = text.rstrip().split("\n\n")
        removed = self._signatures[self._tree.name].removed
        kept = [each for each in paragraphs if not _described(each) <= removed]
        if len(kept) == len(paragraphs):
            return self._moved(statement.lineno - 1, _end(statement), 0)
        text = "\n\n".join(kept)
        end = "\n    " if "\n" in text else ""
        return f'    """{text}{end}"""'.split("\n")


class _Folding(ast.NodeTransformer):
    """Replaces constants in a statement, and leaves out arguments of removed parameters."""

    def __init__(self, constants: Constants, signatures: Mapping[str, Signature]):
        self._constants = constants
        self._signatures = signatures
        self.has_changed = False

    def visit(self, node: ast.AST) -> ast.AST:
        """Return a node with folded expressions."""
        if isinstance(node, ast.expr) and is_folded(node, self._constants):
            return self._changed(ast.Constant(fold(node, self._constants)))
        match node:
            case ast.IfExp() if (chosen := chosen_value(node, self._constants)) is not None:
                return self._changed(self.visit(chosen))
            case ast.BoolOp(op, operands):
                kept = open_operands(node, self._constants)
                if len(kept) < len(operands):
                    node = self._changed(ast.BoolOp(op, kept) if len(kept) > 1 else kept[0])
            case ast.Call(ast.Name(name)) if name in self._signatures:
                removed = self._signatures[name].removed_arguments(node)
                if removed:
                    arguments = [each for each in node.args if each not in removed]
                    keywords = [each for each in node.keywords if each.value not in removed]
                    node = self._changed(ast.Call(node.func, arguments, keywords))
            case _:
                pass
        return self.generic_visit(node)

    def _changed(self, node: ast.AST) -> ast.AST:
        self.has_changed = True
        return node


def _without_block(statement: ast.stmt) -> ast.stmt:
    """Return a statement, with `pass` as the block of a compound one."""
    shallow = copy(statement)
    match shallow:
        case ast.If() | ast.For() | ast.While():
            shallow.body, shallow.orelse = [ast.Pass()], []
        case ast.With():
            shallow.body = [ast.Pass()]
        case _:
            pass
    return shallow


def _described(paragraph: str) -> set[str]:
    """Return the words before the colon of a paragraph: the parameters that it describes."""
    return set(re.findall(r"\w+", paragraph.partition(":")[0]))


def _parameter(argument: ast.arg, default: ast.expr | None) -> str:
    text = ast.unparse(argument)
    if default is None:
        return text
    equals = "=" if argument.annotation is None else " = "
    return f"{text}{equals}{ast.unparse(default)}"


def _end(node: ast.stmt) -> int:
    assert node.end_lineno is not None
    return node.end_lineno

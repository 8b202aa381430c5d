"""Small changes of a syntax tree, each of one kind, in the order of the source.

Code in texts counts too: an f-string such as `f"tl.where({mask}, {value}, 0.0)"` is parsed with
names in the place of its fields, changed like other code, and becomes an f-string again.
"""

import ast
import copy
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, cast

Mutation = Literal["keep", "drop", "swap", "operator", "constant", "always", "never", "return"]
"""The kind of a change:

- keep: an expression becomes one of its operands or arguments;
- drop: a statement, an operand of `and`, a keyword argument or a filter goes;
- swap: two operands, arguments, branches or elements change places;
- operator: `+` becomes `-`, `*` becomes `+`, `<` becomes `<=`, `==` becomes `!=`, and so on, and
  a builder's `add` becomes `sub`; a condition becomes its opposite;
- constant: a number becomes the next one, 0 or 1; a truth value becomes the other;
- always, never: a condition is True or False;
- return: a function returns its first argument at once.
"""

Found = Iterator[tuple[Mutation, str, Any]]
"""The kind of each mutation, what `label` gives for the node that it changes, and the tree."""

Changes = Iterator[tuple[Mutation, Any]]

OPERATORS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
}

METHODS = {"add": "sub", "sub": "add", "mul": "add"}
"""The methods of builders that are operators."""

NOT_MUTATED = {"returns", "decorator_list", "annotation", "format_spec"}
"""Fields of nodes; neither are parameters."""
HOLE = re.compile(r"_hole(\d+)_")


def mutants(node: ast.AST) -> Found:
    """Every tree that differs from `node` by one mutation; they share what is the same."""
    parts = _parts_of_text(node)
    code = _parse(_template(parts)) if parts else None
    if code is not None:
        yield from _mutants_in_text(code, parts)
    for kind, changed in _replacements(node):
        yield kind, label(node), changed
    for field, value in ast.iter_fields(node):
        if field in NOT_MUTATED or isinstance(value, ast.arguments):
            continue
        if isinstance(value, ast.AST):
            for kind, name, changed in mutants(value):
                yield kind, name, _with(node, **{field: changed})
        elif isinstance(value, list):
            yield from _mutants_of_list(node, field, cast(list[Any], value))


def _mutants_of_list(node: ast.AST, field: str, items: Sequence[Any]) -> Found:
    for index, item in enumerate(items):
        if isinstance(item, ast.AST) and not _is_docstring(item):
            for kind, name, changed in mutants(item):
                items_with = [*items[:index], changed, *items[index + 1 :]]
                yield kind, name, _with(node, **{field: items_with})


def label(node: ast.AST) -> str:
    """The function that a call calls, the name that a statement assigns, or the type of a node."""
    match node:
        case ast.Call(ast.Name(name) | ast.Attribute(_, name)):
            return name
        case ast.Expr(ast.Call() as call):
            return label(call)
        case ast.Assign([ast.Name(name)]) | ast.AugAssign(ast.Name(name)):
            return name
        case ast.BinOp(_, operator) | ast.Compare(_, [operator]) | ast.BoolOp(operator):
            return type(operator).__name__
        case _:
            return type(node).__name__


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _with(node: ast.AST, **fields: Any) -> Any:
    """A copy of a node with other fields."""
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _replacements(node: ast.AST) -> Changes:
    """The mutations of a node itself."""
    if isinstance(node, ast.expr | ast.keyword):
        return _of_expression(node)
    if isinstance(node, ast.operator | ast.cmpop | ast.boolop):
        return _of_operator(node)
    if isinstance(node, ast.comprehension):
        return _each("drop", (_with(node, ifs=kept) for kept in _without_each(node.ifs)))
    return _of_statement(node)


def _each(kind: Mutation, trees: Iterable[ast.AST]) -> Changes:
    return ((kind, tree) for tree in trees)


def _of_operator(node: ast.AST) -> Changes:
    if type(node) in OPERATORS:
        yield "operator", OPERATORS[type(node)]()


def _of_expression(node: ast.AST) -> Changes:
    if isinstance(node, ast.Compare | ast.BoolOp) or _is_not(node):
        yield from _of_condition()
    match node:
        case ast.BinOp(left, _, right):
            yield from _each("keep", (left, right))
            yield "swap", _with(node, left=right, right=left)
        case ast.UnaryOp(_, operand):
            yield "keep", operand
        case ast.BoolOp(_, values):
            yield from _each("drop", (_bool_op(node, kept) for kept in _without_each(values)))
        case ast.IfExp(test, body, orelse):
            yield from _each("keep", (body, orelse))
            yield "swap", _with(node, body=orelse, orelse=body)
            yield "operator", _with(node, test=ast.UnaryOp(ast.Not(), test))
        case ast.Call():
            yield from _of_call(node)
        case ast.Attribute(_, name) if name in METHODS:
            yield "operator", _with(node, attr=METHODS[name])
        case ast.Tuple(elements) | ast.List(elements) if len(elements) > 1:
            yield "swap", _with(node, elts=elements[::-1])
            if isinstance(getattr(node, "ctx", None), ast.Load):
                yield from _each("drop", (_with(node, elts=e) for e in _without_each(elements)))
        case ast.Subscript(value, _, ast.Load()):
            yield "keep", value
        case ast.Constant(bool(value)):
            yield "constant", ast.Constant(not value)
        case ast.Constant(int(value) | float(value)):
            others = {value + 1, 0 * value, 0 * value + 1} - {value}
            yield from _each("constant", map(ast.Constant, sorted(others)))
        case _:
            pass


def _is_not(node: ast.AST) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)


def _of_condition() -> Changes:
    yield "always", ast.Constant(True)
    yield "never", ast.Constant(False)


def _of_call(node: ast.Call) -> Changes:
    receiver = [node.func.value] if isinstance(node.func, ast.Attribute) else []
    operands = [*receiver, *(each for each in node.args if not isinstance(each, ast.Starred))]
    yield from _each("keep", operands)
    for index in range(len(node.args) - 1):
        first, second = node.args[index : index + 2]
        args = [*node.args[:index], second, first, *node.args[index + 2 :]]
        yield "swap", _with(node, args=args)
    for keywords in _without_each(node.keywords):
        yield "drop", _with(node, keywords=keywords)


def _of_statement(node: ast.AST) -> Changes:
    match node:
        case ast.FunctionDef(args=ast.arguments(args=[*_, _])):
            first = ast.Return(ast.Name(node.args.args[0].arg, ast.Load()))
            yield "return", _with(node, body=[first])
        case ast.If(test) | ast.While(test) if not isinstance(test, ast.Compare | ast.BoolOp):
            for kind, holds in _of_condition():
                yield kind, _with(node, test=holds)
            yield "operator", _with(node, test=ast.UnaryOp(ast.Not(), test))
        case ast.Assign() | ast.AugAssign() | ast.Expr():
            yield "drop", ast.Pass()
            if isinstance(node, ast.AugAssign):
                yield "keep", ast.Assign([node.target], node.value)
        case ast.Return(ast.Call(ast.Name("all" | "any"))):
            for kind, holds in _of_condition():
                yield kind, _with(node, value=holds)
        case _:
            pass


def _without_each(items: Sequence[Any]) -> Iterator[list[Any]]:
    for index in range(len(items)):
        yield [*items[:index], *items[index + 1 :]]


def _bool_op(node: ast.AST, values: list[ast.expr]) -> ast.AST:
    return values[0] if len(values) == 1 else _with(node, values=values)


def _parts_of_text(node: ast.AST) -> list[ast.expr]:
    """The constants and fields of a text or an f-string; empty where the node is neither."""
    if isinstance(node, ast.JoinedStr):
        return node.values
    return [node] if isinstance(node, ast.Constant) and isinstance(node.value, str) else []


def _mutants_in_text(code: ast.AST, parts: Sequence[ast.expr]) -> Found:
    fields = [part for part in parts if isinstance(part, ast.FormattedValue)]
    for kind, name, changed in mutants(code):
        yield kind, name, _text(_source(changed), fields)


def _template(parts: Sequence[ast.expr]) -> str:
    """The text with a name in the place of each field."""
    numbers = iter(range(len(parts)))
    return "".join(
        str(part.value) if isinstance(part, ast.Constant) else f"_hole{next(numbers)}_"
        for part in parts
    )


def _parse(text: str) -> ast.AST | None:
    """The code in a text: an expression, or a statement without what is indented below it."""
    for source in (text.strip(), f"{text.strip()} pass"):
        try:
            (statement,) = ast.parse(source).body
        except (SyntaxError, ValueError):
            continue
        return statement.value if isinstance(statement, ast.Expr) else statement
    return None


def _text(code: str, fields: Sequence[ast.FormattedValue]) -> ast.AST:
    """The f-string that `code` is the template of."""
    pieces = HOLE.split(re.sub(r":\n\s+pass$", ":", code))
    values: list[ast.expr] = [
        fields[int(piece)] if index % 2 else ast.Constant(piece)
        for index, piece in enumerate(pieces)
    ]
    return ast.JoinedStr(values)


def _source(tree: ast.AST) -> str:
    return ast.unparse(ast.fix_missing_locations(tree))

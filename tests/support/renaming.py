"""Programs whose values, arguments and sizes have other names, and comparisons of their modules."""

import ast
import builtins
import keyword
import re
from collections.abc import Iterator

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.hints import isa

from coda_ir.backends.triton.equal_code import code_of
from coda_ir.dialects.torch import CallOp
from coda_ir.frontends.torch.symbol_names import rename_symbols

_NOT_SYMBOLS = {"device", "inf", "nan", *keyword.kwlist}
"""Words that mean something else than a size in the arguments of a call."""


def rename_values(module: ModuleOp, names: Iterator[str]) -> None:
    """Give all values, arguments and sizes of a module the next names."""
    for op in module.walk():
        for value in _values_of(op):
            value.name_hint = _hint(next(names))
        if isinstance(op, FuncOp) and op.arg_attrs is not None:
            op.arg_attrs = ArrayAttr(
                DictionaryAttr({**entry.data, "coda.name": StringAttr(next(names))})
                for entry in op.arg_attrs
            )
    symbols = sorted(set(_symbols_of(module)))
    free = (name for name in names if name not in {*_NOT_SYMBOLS, *symbols})
    # Extents such as B*T have their factors in alphabetical order.
    chosen = sorted({next(free): None for _ in symbols})
    rename_symbols(module, dict(zip(symbols, chosen, strict=True)))


def _values_of(op: Operation) -> list[SSAValue]:
    blocks = [block for region in op.regions for block in region.blocks]
    return [*op.results, *(argument for block in blocks for argument in block.args)]


def _hint(name: str) -> str:
    return name if SSAValue.is_valid_name(name) else f"{name}_"


def _symbols_of(module: ModuleOp) -> Iterator[str]:
    for op in module.walk():
        yield from _names_in(op.attributes.get("coda.dims"))
        if isinstance(op, FuncOp) and op.arg_attrs is not None:
            for entry in op.arg_attrs:
                yield from _names_in(entry.data.get("coda.dims"))
        if isinstance(op, CallOp):
            yield from op.template.symbols


def _names_in(dims: Attribute | None) -> Iterator[str]:
    if isa(dims, ArrayAttr[Attribute]):
        for dim in dims:
            if isinstance(dim, StringAttr):
                yield from re.findall(r"[^\W\d]\w*", dim.data)


def words_of(source: str) -> list[str]:
    """Every identifier of a module, their beginnings (`x` of `x_ptr`), functions and keywords of
    Python. Exceptions, which no module raises that does not name them, are left out.
    """
    found = dict.fromkeys(re.findall(r"[^\W\d]\w*", ast.unparse(_without_strings(source))))
    starts = dict.fromkeys(word.rpartition("_")[0].strip("_") for word in found if "_" in word)
    functions = (name for name in dir(builtins) if name[0].islower())
    known = (*functions, *keyword.kwlist, *keyword.softkwlist)
    return [word for word in dict.fromkeys([*found, *starts, *known]) if word]


def _without_strings(source: str) -> ast.Module:
    module = ast.parse(source)
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = ""
    return module


def normal_form(source: str) -> list[str]:
    """A form that is equal for modules whose functions differ in names that they bind."""
    module = ast.parse(source)
    assert ast.get_docstring(module) is not None
    return [
        f"{node.name}: {code_of(ast.unparse(node))}"
        if isinstance(node, ast.FunctionDef)
        else ast.dump(node)
        for node in module.body[1:]
    ]


def assert_defined_once(source: str) -> None:
    """No statement of the module defines what another one does, or a builtin that is used."""
    names: list[str] = []
    for node in ast.parse(source).body:
        names += _bound(node)
    assert len(names) == len(set(names)), f"defined twice: {sorted(names)}"
    assert not set(names) & set(dir(builtins))


def _bound(node: ast.stmt) -> set[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return {name}
        case ast.Import(names=found) | ast.ImportFrom(names=found):
            return {each.asname or each.name.partition(".")[0] for each in found}
        case _:
            return set()

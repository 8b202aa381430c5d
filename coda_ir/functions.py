"""The functions of a module: the entry, its arguments, and the number of operators.

xDSL is imported on demand, because a cached program does not need it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from coda_ir.diagnostics import InvalidProgramError, OptionError, closest

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.dialects.func import FuncOp
    from xdsl.ir import SSAValue


def functions_of(module: ModuleOp) -> dict[str, FuncOp]:
    """Return the functions of a module by name."""
    from xdsl.dialects.func import FuncOp

    return {op.sym_name.data: op for op in module.ops if isinstance(op, FuncOp)}


def find_entry(module: ModuleOp, entry: str | None = None) -> FuncOp:
    """Return the function named `entry`, or the only public one, or raise CodaError."""
    from xdsl.dialects.func import FuncOp

    functions = {
        op.sym_name.data: op
        for op in module.ops
        if isinstance(op, FuncOp) and not op.is_declaration
        if not is_private(op) or op.sym_name.data == entry
    }
    if entry is None and len(functions) == 1:
        return next(iter(functions.values()))
    if not functions:
        raise InvalidProgramError("the program has no function", "define one with fn")
    if entry is None:
        raise OptionError(
            f"the program has {len(functions)} functions",
            f"choose one with entry= (--entry of coda-opt): {', '.join(functions)}",
        )
    if entry not in functions:
        raise OptionError(
            f"no function '{entry}'",
            closest(entry, functions, f"use {' or '.join(functions)}"),
        )
    return functions[entry]


def only_called(module: ModuleOp, entry: str) -> ModuleOp:
    """Return a copy of `module` with `entry` and what it calls. Raises CodaError without it."""
    from xdsl.dialects.func import CallOp

    functions, needed = functions_of(module), {find_entry(module, entry).sym_name.data}
    pending = [*needed]
    while pending:
        calls = (op for op in functions[pending.pop()].walk() if isinstance(op, CallOp))
        found = {call.callee.string_value() for call in calls} & functions.keys() - needed
        needed |= found
        pending += found
    return only_functions(module, needed)


def only_functions(module: ModuleOp, names: Collection[str]) -> ModuleOp:
    """Return a copy of `module` with only the functions `names`."""
    from xdsl.rewriter import Rewriter

    copy = module.clone()
    for name, func in functions_of(copy).items():
        if name not in names:
            Rewriter.erase_op(func)
    return copy


def returned_values(func: FuncOp) -> Sequence[SSAValue]:
    """Return the operands of the terminator of a function."""
    from xdsl.dialects.func import ReturnOp

    terminator = func.body.block.last_op
    assert isinstance(terminator, ReturnOp), "a function ends in func.return"
    return terminator.operands


def count_operators(module: ModuleOp, function: str | None = None) -> Mapping[str, int]:
    """Count the operators of each name in a function, including those in regions."""
    return Counter(op.name for op in find_entry(module, function).walk())


def used_arguments(func: FuncOp) -> tuple[bool, ...]:
    """Return for each argument whether the function needs it."""
    return tuple(bool(argument.uses) for argument in func.args)


def is_private(func: FuncOp) -> bool:
    """Return whether a function can be called only from its module."""
    return func.sym_visibility is not None and func.sym_visibility.data == "private"

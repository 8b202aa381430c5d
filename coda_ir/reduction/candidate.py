"""Candidates of a reduction, and edits of function signatures."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, ModuleOp, TensorType
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue
from xdsl.rewriter import Rewriter

from coda_ir.symbolic_shapes import SymbolicShapes, dims_attribute

NO_ATTRIBUTES = DictionaryAttr({})


class Candidate:
    """A module that is made smaller by edits; `finish` makes it consistent after them."""

    def __init__(self, module: ModuleOp):
        self.module = module

    @cached_property
    def functions(self) -> list[FunctionEditor]:
        """Editors of the functions with a body of one block."""
        called = {op.callee.string_value() for op in self.module.walk() if isinstance(op, CallOp)}
        return [
            FunctionEditor(op, is_called=op.sym_name.data in called)
            for op in self.module.ops
            if isinstance(op, FuncOp) and len(op.body.blocks) == 1
        ]

    def finish(self) -> None:
        """Drop calls of functions that are gone, and update the types of functions."""
        remaining = {op.sym_name.data for op in self.module.ops if isinstance(op, FuncOp)}
        for editor in self.functions:
            for op in reversed(list(editor.block.ops)):
                if isinstance(op, CallOp) and op.callee.string_value() not in remaining:
                    editor.drop(op)
            editor.finish()


class FunctionEditor:
    """Adds and removes arguments and results of a function; `finish` updates its type.

    The signature of a function that is called stays as it is.
    """

    def __init__(self, func: FuncOp, *, is_called: bool):
        self.func = func
        self.block = func.body.block
        last = self.block.last_op
        self.return_op = last if isinstance(last, ReturnOp) else None
        self.is_open = not is_called and self.return_op is not None
        """True if the signature may change."""
        self._arguments = _entries(func.arg_attrs, len(self.block.args))
        self._results = _entries(func.res_attrs, len(func.function_type.outputs))
        self.dropped_results: set[int] = set()
        """The numbers of results that `finish` removes."""
        self._orphans: dict[SSAValue, None] = {}

    @cached_property
    def _shapes(self) -> SymbolicShapes:
        return SymbolicShapes(self.func)

    def argument_for(self, value: SSAValue) -> BlockArgument:
        """Return a new argument with the type and the dimensions of `value`."""
        attributes = self._dims_of(value)
        argument = self.block.insert_arg(value.type, len(self.block.args))
        argument.name_hint = value.name_hint
        self._arguments.append(attributes)
        return argument

    def remove_argument(self, argument: BlockArgument) -> None:
        """Remove an argument without uses."""
        del self._arguments[argument.index]
        self.block.erase_arg(argument)

    def attributes_of(self, argument: BlockArgument) -> DictionaryAttr:
        return self._arguments[argument.index]

    def _remove_results(self, indices: Collection[int]) -> None:
        assert self.return_op is not None
        kept = [i for i in range(len(self._results)) if i not in indices]
        self._results = [self._results[i] for i in kept]
        self.return_op.operands = [self.return_op.operands[i] for i in kept]

    def drop(self, op: Operation) -> None:
        """Remove an operator of the body, if the signature may change as needed: results that are
        used become arguments, and values that only it used are returned.
        """
        is_used = any(result.uses for result in op.results)
        if is_used and not self.is_open:
            return
        for result in op.results:
            self.replace_by_argument(result)
        operands = list(op.operands)
        Rewriter.erase_op(op)
        self._orphans |= dict.fromkeys(value for value in operands if not value.uses)

    def replace_by_argument(self, value: SSAValue) -> None:
        """Do not return `value`, and replace its other uses by a new argument."""
        self._forget(value)
        if value.uses:
            value.replace_all_uses_with(self.argument_for(value))

    def _forget(self, value: SSAValue) -> None:
        self._orphans.pop(value, None)
        if self.return_op is not None and value in self.return_op.operands:
            operands = self.return_op.operands
            self._remove_results([i for i, v in enumerate(operands) if v is value])

    def finish(self) -> None:
        if self.is_open:
            self._remove_results(self.dropped_results)
            self._return_orphans()
            outputs = [] if self.return_op is None else [v.type for v in self.return_op.operands]
            inputs = [argument.type for argument in self.block.args]
            self.func.function_type = FunctionType.from_lists(inputs, outputs)
            self.func.arg_attrs = _array(self._arguments)
            self.func.res_attrs = _array(self._results)

    def _return_orphans(self) -> None:
        assert self.return_op is not None
        orphans = [v for v in self._orphans if isinstance(v, OpResult) and not v.uses]
        self._results += [self._dims_of(value) for value in orphans]
        self.return_op.operands = [*self.return_op.operands, *orphans]

    def _dims_of(self, value: SSAValue) -> DictionaryAttr:
        """Return the `coda.dims` of a tensor, to preserve its symbols."""
        if not isinstance(value.type, TensorType):
            return NO_ATTRIBUTES
        return DictionaryAttr({"coda.dims": dims_attribute(self._shapes.dims(value))})


def _entries(attributes: ArrayAttr[DictionaryAttr] | None, count: int) -> list[DictionaryAttr]:
    return [NO_ATTRIBUTES] * count if attributes is None else list(attributes)


def _array(entries: Sequence[DictionaryAttr]) -> ArrayAttr[DictionaryAttr] | None:
    return ArrayAttr(entries) if any(entry.data for entry in entries) else None

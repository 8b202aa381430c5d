"""Strategies: ways of making a module smaller, in the words of their names.

Equal modules have the same edits in the same order. Any subset of the edits may be done, in order.
Every edit that succeeds leaves fewer edits for the next time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias, get_args

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntAttr,
    IntegerAttr,
    ModuleOp,
    TensorType,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, BlockArgument, Operation, ParametrizedAttribute, SSAValue
from xdsl.irdl import IRDLOperation, OptPropertyDef
from xdsl.rewriter import Rewriter
from xdsl.traits import IsTerminator
from xdsl.utils.hints import isa

from coda_ir.reduction.candidate import Candidate, FunctionEditor

Edit: TypeAlias = Callable[[], object]
"""Makes the module smaller, if that is possible by then."""

Strategy: TypeAlias = Callable[[Candidate], list[Edit]]


def drop_functions(candidate: Candidate) -> list[Edit]:
    """Remove functions and whatever else is at the top of the module."""
    return [partial(Rewriter.erase_op, op) for op in candidate.module.ops]


def drop_operators(candidate: Candidate) -> list[Edit]:
    """Remove operators, the last ones first.

        %a = f(%x); %b = g(%a); %c = h(%b); return %c   ->   %a = f(%x); %c = h(%b); return %a, %c

    with the new argument %b for what remains to be used, and a new result for what was used.
    """
    return [
        partial(editor.drop, op)
        for editor in reversed(candidate.functions)
        for op in reversed(list(editor.block.ops))
        if not op.has_trait(IsTerminator)
    ]


def replace_results_by_operands(candidate: Candidate) -> list[Edit]:
    """Replace the results of an operator by operands of the same type: `h(g(%x))` -> `h(%x)`; in a
    region of an operator also by arguments of the region.
    """
    return [
        partial(_forward, op)
        for editor in reversed(candidate.functions)
        for op in reversed(list(editor.block.walk()))
        if not op.has_trait(IsTerminator) and _stand_ins(op) is not None
    ]


def _stand_ins(op: Operation) -> list[SSAValue] | None:
    """Return an operand or argument for each result; None if a used result has none."""
    block, stand_ins = op.parent, list[SSAValue]()
    assert block is not None
    arguments = () if isinstance(block.parent_op(), FuncOp) else block.args
    for result in op.results:
        same_type = [value for value in (*op.operands, *arguments) if value.type == result.type]
        if not same_type and result.uses:
            return None
        stand_ins += same_type[:1] or [result]
    return stand_ins


def _forward(op: Operation) -> None:
    stand_ins = _stand_ins(op)
    if stand_ins is not None:
        for result, stand_in in zip(op.results, stand_ins, strict=True):
            if result is not stand_in:
                result.replace_all_uses_with(stand_in)
        Rewriter.erase_op(op)


Signature: TypeAlias = Literal["arg_attrs", "res_attrs"]


def drop_attributes(candidate: Candidate) -> list[Edit]:
    """Remove discardable attributes, optional properties, and those of arguments and results."""
    return [edit for op in candidate.module.walk() for edit in _edits_of(op)]


def _edits_of(op: Operation) -> list[Edit]:
    edits: list[Edit] = [partial(op.attributes.pop, name) for name in list(op.attributes)]
    edits += [partial(op.properties.pop, name) for name in _optional_properties(op)]
    if isinstance(op, FuncOp):
        for signature in get_args(Signature):
            edits += [
                partial(_delete_entry, op, signature, index, key)
                for index, entry in enumerate(_entries(op, signature))
                for key in entry.data
            ]
    return edits


def _optional_properties(op: Operation) -> list[str]:
    if not isinstance(op, IRDLOperation):
        return []
    definitions = op.get_irdl_definition().properties
    return [
        name
        for name in op.properties
        if isinstance(definitions.get(name), OptPropertyDef) and name not in get_args(Signature)
    ]


def _delete_entry(func: FuncOp, signature: Signature, index: int, key: str) -> None:
    entries = _entries(func, signature)
    left = {name: value for name, value in entries[index].data.items() if name != key}
    entries[index] = DictionaryAttr(left)
    func.properties[signature] = ArrayAttr(entries)


def _entries(func: FuncOp, signature: Signature) -> list[DictionaryAttr]:
    return list((func.arg_attrs if signature == "arg_attrs" else func.res_attrs) or ())


def shrink_extents(candidate: Candidate) -> list[Edit]:
    """Replace a static extent everywhere by a smaller one: 4096 -> 1, 2, 4, 8, ...

    Alone, or with its multiples in proportion, so that reshapes of heads keep to verify; in
    types alone, or also in numbers such as the ends of slices.
    """
    return [
        partial(_apply, Substitution(extent, smaller, multiples, numbers), candidate.module)
        for extent in sorted(static_extents(candidate.module), reverse=True)
        for smaller in powers_below(extent)
        for multiples in (False, True)
        for numbers in (False, True)
    ]


def static_extents(module: ModuleOp) -> set[int]:
    """Return the extents above 1 of the tensors in a module."""
    extents: set[int] = set()
    for op in module.walk():
        for value in _defined_values(op):
            if isa(value.type, TensorType[Attribute]):
                extents.update(value.type.get_shape())
    return {extent for extent in extents if extent > 1}


def powers_below(extent: int) -> list[int]:
    """Return 1, 2, 4, ... below `extent`."""
    return [1 << i for i in range(extent.bit_length()) if 1 << i < extent]


@dataclass(frozen=True)
class Substitution:
    """A smaller number in place of an extent."""

    extent: int
    smaller: int
    multiples: bool
    """True if multiples of the extent shrink in proportion."""
    numbers: bool
    """True if integers outside of types are extents, too."""

    def of(self, attribute: Attribute, *, is_dims: bool = False) -> Attribute:
        """Return `attribute` with smaller extents. Raises VerifyException if that is invalid."""
        match attribute:
            case TensorType():
                shape = [self._number(extent) for extent in attribute.get_shape()]
                return TensorType(attribute.element_type, shape, attribute.encoding)
            case ArrayAttr():
                return ArrayAttr([self.of(each, is_dims=is_dims) for each in attribute])
            case DictionaryAttr():
                return DictionaryAttr(
                    {k: self.of(v, is_dims=k == "coda.dims") for k, v in attribute.data.items()}
                )
            case IntegerAttr() if is_dims or self.numbers:
                return IntegerAttr(self._number(attribute.value.data), attribute.type)
            case IntAttr() if self.numbers:
                return IntAttr(self._number(attribute.data))
            case ParametrizedAttribute() if not isinstance(attribute, IntegerAttr):
                return type(attribute).new([self.of(each) for each in attribute.parameters])
            case _:
                return attribute

    def _number(self, number: int) -> int:
        if number == self.extent:
            return self.smaller
        if self.multiples and number > 0 and number % self.extent == 0:
            return number // self.extent * self.smaller
        return number


def _apply(substitution: Substitution, module: ModuleOp) -> None:
    for op in module.walk():
        for values in (op.properties, op.attributes):
            for name, attribute in values.items():
                values[name] = substitution.of(attribute, is_dims=name == "coda.dims")
        for value in _defined_values(op):
            type = substitution.of(value.type)
            if type != value.type:
                Rewriter.replace_value_with_new_type(value, type)


def _defined_values(op: Operation) -> list[SSAValue]:
    """Return the results of an operator and the arguments of its blocks."""
    arguments = [arg for region in op.regions for block in region.blocks for arg in block.args]
    return [*op.results, *arguments]


def drop_results(candidate: Candidate) -> list[Edit]:
    """Remove results: `return %a, %b` -> `return %a`."""
    return [
        partial(editor.dropped_results.add, index)
        for editor in candidate.functions
        if editor.is_open
        for index in range(len(editor.func.function_type.outputs))
    ]


def drop_arguments(candidate: Candidate) -> list[Edit]:
    """Remove arguments without uses."""
    return [
        partial(editor.remove_argument, argument)
        for editor in candidate.functions
        if editor.is_open
        for argument in editor.block.args
        if not argument.uses
    ]


def merge_arguments(candidate: Candidate) -> list[Edit]:
    """Replace an argument by an earlier one of the same type and dimensions."""
    return [
        partial(_merge, editor, argument, earlier)
        for editor in candidate.functions
        if editor.is_open
        for argument, earlier in _mergeable(editor)
    ]


def _mergeable(editor: FunctionEditor) -> list[tuple[BlockArgument, BlockArgument]]:
    """Return the arguments that have an equal earlier one, each with the first of these."""
    first: dict[tuple[Attribute, Attribute | None], BlockArgument] = {}
    pairs: list[tuple[BlockArgument, BlockArgument]] = []
    for argument in editor.block.args:
        key = argument.type, editor.attributes_of(argument).data.get("coda.dims")
        if key in first:
            pairs.append((argument, first[key]))
        first.setdefault(key, argument)
    return pairs


def _merge(editor: FunctionEditor, argument: BlockArgument, earlier: BlockArgument) -> None:
    argument.replace_all_uses_with(earlier)
    editor.remove_argument(argument)

"""The strategy on attributes that may be left out."""

from __future__ import annotations

from collections.abc import MutableMapping
from functools import partial
from typing import ClassVar, Literal, TypeAlias, get_args

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation
from xdsl.irdl import IRDLOperation, OptPropertyDef

from coda_ir.reduction.strategy import Edit, Strategy

Signature: TypeAlias = Literal["arg_attrs", "res_attrs"]


class DropAttributes(Strategy):
    """Removes discardable attributes, optional properties, and those of arguments and results."""

    title: ClassVar[str] = "drop attributes"

    def edits(self) -> list[Edit]:
        return [edit for op in self.module.walk() for edit in _edits_of(op)]


def _edits_of(op: Operation) -> list[Edit]:
    edits: list[Edit] = [partial(_delete, op.attributes, name) for name in list(op.attributes)]
    edits += [partial(_delete, op.properties, name) for name in _optional_properties(op)]
    if isinstance(op, FuncOp):
        for signature in get_args(Signature):
            edits += _signature_edits(op, signature)
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


def _delete(attributes: MutableMapping[str, Attribute], name: str) -> bool:
    return attributes.pop(name, None) is not None


def _signature_edits(func: FuncOp, signature: Signature) -> list[Edit]:
    return [
        partial(_delete_entry, func, signature, index, key)
        for index, entry in enumerate(_entries(func, signature))
        for key in entry.data
    ]


def _delete_entry(func: FuncOp, signature: Signature, index: int, key: str) -> bool:
    entries = _entries(func, signature)
    left = {name: value for name, value in entries[index].data.items() if name != key}
    entries[index] = DictionaryAttr(left)
    func.properties[signature] = ArrayAttr(entries)
    return True


def _entries(func: FuncOp, signature: Signature) -> list[DictionaryAttr]:
    return list((func.arg_attrs if signature == "arg_attrs" else func.res_attrs) or ())

"""Strategies on what functions take and return."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from xdsl.dialects.builtin import DictionaryAttr
from xdsl.ir import Attribute, BlockArgument

from coda_ir.reduction.strategy import Edit, FunctionEditor, Strategy


class DropResults(Strategy):
    """`return %a, %b` -> `return %a`."""

    title: ClassVar[str] = "drop results"

    def edits(self) -> list[Edit]:
        self._chosen: dict[FunctionEditor, list[int]] = {}
        return [
            partial(self._drop, editor, index)
            for editor in self.functions
            if editor.is_open
            for index in range(len(editor.func.function_type.outputs))
        ]

    def _drop(self, editor: FunctionEditor, index: int) -> bool:
        self._chosen.setdefault(editor, []).append(index)
        return True

    def finish(self) -> None:
        for editor, indices in self._chosen.items():
            editor.remove_results(indices)
        super().finish()


class DropArguments(Strategy):
    """Removes arguments without uses."""

    title: ClassVar[str] = "drop arguments"

    def edits(self) -> list[Edit]:
        return [
            partial(_drop_argument, editor, argument)
            for editor in self.functions
            if editor.is_open
            for argument in editor.block.args
            if not argument.uses
        ]


def _drop_argument(editor: FunctionEditor, argument: BlockArgument) -> bool:
    editor.remove_argument(argument)
    return True


class MergeArguments(Strategy):
    """Replaces an argument by an earlier one of the same type and dimensions."""

    title: ClassVar[str] = "merge arguments"

    def edits(self) -> list[Edit]:
        return [
            partial(_merge, editor, argument, earlier)
            for editor in self.functions
            if editor.is_open
            for argument, earlier in _mergeable(editor)
        ]


def _mergeable(editor: FunctionEditor) -> list[tuple[BlockArgument, BlockArgument]]:
    """The arguments that have an earlier one like them, each with the first of these."""
    first: dict[tuple[Attribute, Attribute | None], BlockArgument] = {}
    pairs: list[tuple[BlockArgument, BlockArgument]] = []
    for argument in editor.block.args:
        key = argument.type, _dims(editor.attributes_of(argument))
        if key in first:
            pairs.append((argument, first[key]))
        first.setdefault(key, argument)
    return pairs


def _dims(attributes: DictionaryAttr) -> Attribute | None:
    return attributes.data.get("coda.dims")


def _merge(editor: FunctionEditor, argument: BlockArgument, earlier: BlockArgument) -> bool:
    argument.replace_all_uses_with(earlier)
    editor.remove_argument(argument)
    return True

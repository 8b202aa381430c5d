"""Which intermediate value is the first that a pass changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from coda_ir.equivalence.comparison import Difference, find_difference
from coda_ir.equivalence.samples import RUN_ERRORS, trace


@dataclass(frozen=True)
class Origin:
    """A value of the function before the pass, and the value of the same name after it."""

    before: SSAValue
    after: SSAValue
    difference: Difference


def find_origin(before: FuncOp, after: FuncOp, arguments: Sequence[torch.Tensor]) -> Origin | None:
    """The first intermediate value that differs and explains the difference of the results.

    Values are taken for the same where they have the same name and shape. That a difference of one
    explains those of the results is checked: with the value of `after` in its place, `before` gives
    the results of `after`. None where there is no such value, or where one of both does not run.
    """
    try:
        _, old = trace(before, arguments)
        results, new = trace(after, arguments)
    except RUN_ERRORS:
        return None
    named = _by_name(after)
    for name, value in _by_name(before).items():
        other = named.get(name)
        if other is None or old.values[value].shape != new.values[other].shape:
            continue
        difference = find_difference(new.values[other], old.values[value])
        replaced = {value: new.values[other]}
        if difference is not None and _gives(before, arguments, replaced, results):
            return Origin(value, other, difference)
    return None


def _gives(
    before: FuncOp,
    arguments: Sequence[torch.Tensor],
    replaced: Mapping[SSAValue, torch.Tensor],
    results: Sequence[torch.Tensor],
) -> bool:
    """Return whether `before` has `results` where the values of `replaced` are given."""
    try:
        found, _ = trace(before, arguments, replaced)
    except RUN_ERRORS:
        return False
    return all(
        got.shape == wanted.shape and find_difference(got, wanted) is None
        for got, wanted in zip(found, results, strict=True)
    )


def _by_name(func: FuncOp) -> dict[str, SSAValue]:
    """The values that have a name of their own, in order."""
    named, repeated = dict[str, SSAValue](), set[str]()
    for value in _values(func):
        if value.name_hint is None:
            continue
        if value.name_hint in named:
            repeated.add(value.name_hint)
        named[value.name_hint] = value
    return {name: value for name, value in named.items() if name not in repeated}


def _values(func: FuncOp) -> Iterator[SSAValue]:
    for op in func.body.block.ops:
        yield from op.results


def defining_op(value: SSAValue) -> Operation | None:
    """The operator that computes `value`; None for a parameter."""
    return value.owner if isinstance(value.owner, Operation) else None

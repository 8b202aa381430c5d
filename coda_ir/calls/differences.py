"""In words, how the arguments of a call differ from those that a model was exported with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from coda_ir.pytree import pytree


def name_of_leaf(in_spec: Any, index: int, parameters: Sequence[str]) -> str:
    """Return what a caller writes for leaf `index` of the arguments: `batch['x']`."""
    numbered = pytree.tree_unflatten(list(range(in_spec.num_leaves)), in_spec)
    path, _ = pytree.tree_flatten_with_path(numbered)[0][index]
    argument = path[1]
    return _name(argument, parameters) + pytree.keystr(path[2:])


def first_difference(given: Any, expected: Any, parameters: Sequence[str]) -> str:
    """The first place where the structures of two arguments `(args, kwargs)` of the same numbers
    and names differ.
    """
    for ours, theirs in zip(given.children(), expected.children(), strict=True):
        paths = [path[0] for path in _children_paths(theirs)]
        for key, child, wanted in zip(paths, ours.children(), theirs.children(), strict=True):
            if child != wanted:
                return _difference(_name(key, parameters), child, wanted)
    raise ValueError("the structures are equal")


def _difference(path: str, given: Any, expected: Any) -> str:
    if given.type is not expected.type:
        return f"{path} is {_kind(given)}, expected {_kind(expected)}"
    given_keys, expected_keys = _keys(given), _keys(expected)
    for key in expected_keys:
        if key not in given_keys:
            return f"{path} lacks the key {key!r}"
    for key in given_keys:
        if key not in expected_keys:
            return f"{path} has the key {key!r}, which it had not in the exported call"
    if given.num_children != expected.num_children:
        return f"{path} has {given.num_children} elements, expected {expected.num_children}"
    steps = map(pytree.keystr, _children_paths(expected))
    for step, child, wanted in zip(steps, given.children(), expected.children(), strict=True):
        if child != wanted:
            return _difference(path + step, child, wanted)
    return f"{path} is another kind of {expected.type.__name__} than in the exported call"


def _keys(spec: Any) -> list[Any]:
    """The keys of a dictionary; other containers have none."""
    context: Any = spec.context
    return [*context] if issubclass(type(context), list) else []


def _children_paths(spec: Any) -> list[Any]:
    """The path from a container to each of its children."""
    children = list(range(spec.num_children))
    container = pytree.tree_unflatten(
        children, pytree.TreeSpec(spec.type, spec.context, [pytree.treespec_leaf()] * len(children))
    )
    return [path for path, _ in pytree.tree_flatten_with_path(container)[0]]


def _name(key: Any, parameters: Sequence[str]) -> str:
    """The name of an argument by position or by name."""
    if isinstance(key, pytree.MappingKey):
        return str(key.key)
    index = int(key.idx)
    return parameters[index] if index < len(parameters) else f"argument {index}"


def _kind(spec: Any) -> str:
    return "one value" if spec.is_leaf() else f"a {spec.type.__name__}"

"""The mapping from a call of a model to the tensors of a function, and from results to the model's
return value, as data that can be written to a file.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias, cast

import torch

from coda_ir.diagnostics import ArgumentError, FileError, ModelError, counted
from coda_ir.pytree import pytree


def laid_out(tensor: torch.Tensor, order: Sequence[int] | None) -> torch.Tensor:
    """Return `tensor` with its dimensions in memory in `order`, outermost first, copied if
    necessary; unchanged if `order` is None.
    """
    if order is None:
        return tensor
    # A permutation takes microseconds.
    is_plain = list(order) == sorted(order)
    moved = tensor if is_plain else tensor.permute(tuple(order))
    if moved.is_contiguous():
        return tensor
    return moved.contiguous().permute(tuple(order.index(dim) for dim in range(len(order))))


def order_of(traced: torch.Tensor) -> tuple[int, ...] | None:
    """Return the dimensions of `traced` in memory order, outermost first.

    None for complex numbers and where the tensor has gaps or repeats elements: no code can rely on
    where they are then.
    """
    sizes, strides = _numbers(traced.shape), _numbers(traced.stride())
    if sizes is None or strides is None or traced.is_complex():
        return None
    order = sorted(range(len(sizes)), key=lambda dim: -strides[dim])
    inside = 1
    for dim in reversed(order):
        if sizes[dim] != 1 and strides[dim] != inside:
            return None
        inside *= sizes[dim]
    return tuple(order)


def _numbers(sizes: Sequence[Any]) -> list[int] | None:
    """Return sizes as numbers; symbolic ones have their value in the traced call."""
    numbers: list[int] = []
    for size in sizes:
        if not isinstance(size, int) and not size.node.has_hint():
            return None
        numbers.append(size if isinstance(size, int) else int(size.node.hint))
    return numbers


def name_of_leaf(in_spec: Any, index: int, parameters: Sequence[str]) -> str:
    """Return the caller's expression for leaf `index` of the arguments, such as `batch['x']`."""
    numbered = pytree.tree_unflatten(list(range(in_spec.num_leaves)), in_spec)
    path, _ = pytree.tree_flatten_with_path(numbered)[0][index]
    argument = path[1]
    return _name(argument, parameters) + pytree.keystr(path[2:])


def first_difference(given: Any, expected: Any, parameters: Sequence[str]) -> str:
    """Return the first place where the structures of two calls with equal names differ."""
    for ours, theirs in zip(given.children(), expected.children(), strict=True):
        paths = [path[0] for path in _children_paths(theirs)]
        for key, child, wanted in zip(paths, ours.children(), theirs.children(), strict=True):
            if child != wanted:
                return _difference(_name(key, parameters), child, wanted)
    raise ValueError("the structures are equal")


def _difference(path: str, given: Any, expected: Any) -> str:
    if given.type is not expected.type:
        return f"{path} is {_kind_of_spec(given)}, expected {_kind_of_spec(expected)}"
    given_keys, expected_keys = _keys(given), _keys(expected)
    for key in expected_keys:
        if key not in given_keys:
            return f"{path} is missing the key {key!r}"
    for key in given_keys:
        if key not in expected_keys:
            return f"{path} has the key {key!r}, which it did not have in the exported call"
    if given.num_children != expected.num_children:
        return f"{path} has {given.num_children} elements, expected {expected.num_children}"
    steps = map(pytree.keystr, _children_paths(expected))
    for step, child, wanted in zip(steps, given.children(), expected.children(), strict=True):
        if child != wanted:
            return _difference(path + step, child, wanted)
    return f"{path} is another kind of {expected.type.__name__} than in the exported call"


def _keys(spec: Any) -> list[Any]:
    """Return the keys of a dictionary; none for other containers."""
    context: Any = spec.context
    return [*context] if issubclass(type(context), list) else []


def _children_paths(spec: Any) -> list[Any]:
    """Return the path from a container to each of its children."""
    children = list(range(spec.num_children))
    container = pytree.tree_unflatten(
        children, pytree.TreeSpec(spec.type, spec.context, [pytree.treespec_leaf()] * len(children))
    )
    return [path for path, _ in pytree.tree_flatten_with_path(container)[0]]


def _name(key: Any, parameters: Sequence[str]) -> str:
    """Return the name of an argument by position or by name."""
    if isinstance(key, pytree.MappingKey):
        return str(key.key)
    index = int(key.idx)
    return parameters[index] if index < len(parameters) else f"argument {index}"


def _kind_of_spec(spec: Any) -> str:
    return "one value" if spec.is_leaf() else f"a {spec.type.__name__}"


Constant: TypeAlias = bool | int | float | str | None

FORMAT = 3
"""Version of the text of a CallTree."""


def as_pairs(value: Any) -> Any:
    """Return `value`; for a complex tensor, its pairs of real numbers, which functions take."""
    is_complex = isinstance(value, torch.Tensor) and value.is_complex()
    return torch.view_as_real(value.resolve_conj()) if is_complex else value


class CallError(ArgumentError):
    """A call whose structure differs from that of the exported call."""


@dataclass(frozen=True)
class InputLeaf:
    """A leaf of the arguments: the tensor `name` of the function, or a constant of the model."""

    name: str | None
    constant: Constant = None


@dataclass(frozen=True)
class OutputLeaf:
    """A leaf of the model's return value: a result of the function by number, or a constant.

    `order` are the dimensions of the result from the outermost one in memory; `None` where the
    model says nothing about it.
    """

    result: int | None
    constant: Constant = None
    order: tuple[int, ...] | None = None

    @staticmethod
    def read(data: Mapping[str, Any]) -> OutputLeaf:
        """Read what `asdict` wrote. Raises ValueError for an invalid order."""
        order = data.get("order")
        if order is not None and sorted(order) != list(range(len(order))):
            raise ValueError(f"{order} is not a permutation of {len(order)} dimensions")
        order = None if order is None else tuple(order)
        return OutputLeaf(data["result"], data["constant"], order)

    def of(self, tensors: Sequence[torch.Tensor]) -> torch.Tensor | Constant:
        """Return the leaf of a call whose function returned `tensors`."""
        return self.constant if self.result is None else laid_out(tensors[self.result], self.order)


@dataclass(frozen=True)
class CallTree:
    """The arguments and results of a model as trees whose leaves are tensors and constants.

    `parameters` are the names by which the positional arguments may be given, and the other way
    round.
    """

    inputs: tuple[InputLeaf, ...]
    outputs: tuple[OutputLeaf, ...]
    in_spec: Any
    out_spec: Any
    parameters: tuple[str, ...] = ()

    def flatten(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """Return the tensors of a call in the order of the function's arguments.

        Raises CallError where the call differs from the exported one: names, number and structure
        of the arguments, or a constant.
        """
        leaves, spec = pytree.tree_flatten(self._arranged(args, kwargs))
        if spec != self.in_spec:
            raise CallError(
                first_difference(spec, self.in_spec, self.parameters),
                "pass lists, tuples and dictionaries as in the exported call",
            )
        tensors: list[Any] = []
        for index, (leaf, value) in enumerate(zip(self.inputs, leaves, strict=True)):
            if leaf.name is not None:
                tensors.append(as_pairs(value))
            elif isinstance(value, torch.Tensor) or value != leaf.constant:
                raise CallError(
                    f"{name_of_leaf(self.in_spec, index, self.parameters)} is {_kind(value)}, but "
                    f"the model was exported with {leaf.constant!r}",
                    "numbers, strings and None are part of the program: export it again",
                )
        return tensors

    def unflatten(self, tensors: Sequence[torch.Tensor]) -> Any:
        """Return the results of the function in the structure of the model's return value."""
        leaves = [leaf.of(tensors) for leaf in self.outputs]
        return pytree.tree_unflatten(leaves, self.out_spec)

    def _arranged(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, Any]:
        """Arrange arguments by position and by name as in the exported call."""
        count, names = self._shape_of_call()
        positional, named = list(args), dict(kwargs)
        for index in range(count, len(positional)):
            if index >= len(self.parameters):
                most = f"{counted(index, 'argument')} by position"
                raise CallError(f"the model takes {most}, got {len(positional)}", self._usage())
            name = self.parameters[index]
            if name in named:
                raise CallError(
                    f"argument {name} is given both by position and by name", "pass it once"
                )
            named[name] = positional[index]
        del positional[count:]
        for name in self.parameters[len(positional) : count]:
            if name not in named:
                raise CallError(f"the call is missing the argument {name}", self._usage())
            positional.append(named.pop(name))
        if len(positional) < count:
            raise CallError(
                f"the call is missing positional arguments, expected {count}", self._usage()
            )
        return tuple(positional), self._complete(named, names)

    def _complete(self, named: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
        """Complete the arguments by name; constants of the exported call may be omitted."""
        unknown = [name for name, value in named.items() if name not in names and value is not None]
        if unknown:
            raise CallError(
                f"the model was exported without the argument {unknown[0]}",
                f"{self._usage()}: leave {unknown[0]} out, or export it with an example of it",
            )
        constants = self._constant_arguments()
        missing = [name for name in names if name not in named and name not in constants]
        if missing:
            raise CallError(f"the call is missing the argument {missing[0]}", self._usage())
        return {name: named.get(name, constants.get(name)) for name in names}

    def _constant_arguments(self) -> dict[str, Any]:
        """Return the arguments by name whose leaves are all constants, with their values."""
        leaves = [_Missing() if leaf.name is not None else leaf.constant for leaf in self.inputs]
        _, named = pytree.tree_unflatten(leaves, self.in_spec)
        return {
            name: value
            for name, value in named.items()
            if not any(isinstance(leaf, _Missing) for leaf in pytree.tree_leaves(value))
        }

    def _shape_of_call(self) -> tuple[int, list[str]]:
        """Return the number of positional arguments of the call, and the names of the others."""
        args, kwargs = pytree.tree_unflatten(list(range(len(self.inputs))), self.in_spec)
        return len(args), list(kwargs)

    def _usage(self) -> str:
        count, names = self._shape_of_call()
        shown = [*self.parameters[:count], *(f"{name}=" for name in names)]
        return f"it was exported with ({', '.join(shown)})"

    # As text

    def dumps(self) -> str:
        """Return the tree as JSON. Raises CodaError if PyTorch cannot serialize a container."""
        try:
            specs = [json.loads(pytree.treespec_dumps(s)) for s in (self.in_spec, self.out_spec)]
        except (NotImplementedError, TypeError) as error:
            raise ModelError(
                f"the structure of the model's arguments or results cannot be saved: {error}",
                "register the class with serialized_type_name, as "
                "torch.export.register_dataclass does",
            ) from error
        data = {
            "format": FORMAT,
            "inputs": [asdict(leaf) for leaf in self.inputs],
            "outputs": [asdict(leaf) for leaf in self.outputs],
            "in_spec": specs[0],
            "out_spec": specs[1],
            "parameters": self.parameters,
        }
        return json.dumps(data, separators=(",", ":"))

    @staticmethod
    def loads(text: str) -> CallTree:
        """Read what `dumps` wrote.

        Raises CodaError for a damaged text, and for a container whose class is not imported.
        """
        try:
            data = json.loads(text)
            if data["format"] != FORMAT:
                raise FileError(f"the model has format {data['format']}, expected {FORMAT}")
            in_spec, out_spec = (_load_spec(data[name]) for name in ("in_spec", "out_spec"))
            tree = CallTree(
                tuple(InputLeaf(**leaf) for leaf in data["inputs"]),
                tuple(map(OutputLeaf.read, data["outputs"])),
                in_spec,
                out_spec,
                tuple(map(str, data["parameters"])),
            )
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise FileError(
                f"the saved signature is corrupt: {type(error).__name__}: {error}",
                "export the model again",
            ) from error
        tree.check()
        return tree

    def check(self) -> None:
        """Raise CodaError if leaves and structure do not match."""
        leaves = [(self.in_spec, self.inputs), (self.out_spec, self.outputs)]
        if any(spec.num_leaves != len(found) for spec, found in leaves):
            raise FileError("the saved signature is corrupt", "export the model again")
        root = pytree.tree_unflatten(list(self.inputs), self.in_spec)
        match root:
            case (tuple(), dict()):
                return
            case _:
                raise FileError("the saved signature is corrupt", "export the model again")


class _Missing:
    """A placeholder for tensors in a search for constants."""


def parameters_of(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of the parameters that can be given by position."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return tuple(parameter.name for parameter in parameters if parameter.kind in kinds)


def _load_spec(data: Any) -> Any:
    """Read a tree of PyTorch. Raises CodaError for a class that is not registered."""
    known = cast(Mapping[str, Any], pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE)
    unknown = next((name for name in _types_in(data[1]) if name not in known), None)
    if unknown is not None:
        module = unknown.rpartition(".")[0]
        raise ModelError(
            f"the model takes or returns {unknown}, which PyTorch does not know",
            f"import {module} before the model is loaded" if module else "register the class",
        )
    return pytree.treespec_loads(json.dumps(data))


def _types_in(data: Any) -> list[str]:
    """Return the names of the containers in the data of a tree, without duplicates."""
    found: dict[str, None] = {}
    stack: list[Any] = [data]
    while stack:
        node = stack.pop()
        if node["type"] is not None:
            found[str(node["type"])] = None
        stack += node["children_spec"]
    return list(found)


def _kind(value: object) -> str:
    return "a tensor" if isinstance(value, torch.Tensor) else repr(value)

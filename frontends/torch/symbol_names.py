"""Names of symbolic sizes: the user's if `dynamic_shapes` has some, else s0, s1, ..."""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import torch
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation
from xdsl.utils.hints import isa

from coda_ir.dialects.element_types import ELEMENT_TYPES
from coda_ir.dialects.torch import WORDS, CallOp
from coda_ir.frontends.torch.types import UNNAMED, dims_of
from coda_ir.symbolic_size import SymbolicSize

RESERVED = frozenset(
    {
        *("import", "const", "fn", "epilogue", "return", "weight", "true", "false"),
        *(type.coda for type in ELEMENT_TYPES if type.coda),
        *WORDS,
    }
)
"""Names that mean something else in .coda or in the arguments of `torch.call`."""

_SYMBOL = re.compile(r"(?P<quoted>'[^']*'|\"[^\"]*\")|(?<![\w.])(?P<name>[A-Za-z_]\w*)")


def chosen_names(
    model: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], dynamic_shapes: Any
) -> dict[tuple[int, int], str]:
    """Return the user's names of dimensions, such as `h`, by the tensor's id and the axis."""
    values: Any = dict(_bound(model, args, kwargs))
    if isinstance(dynamic_shapes, Sequence) and not isinstance(dynamic_shapes, str):
        values = [*args, *kwargs.values()]
    return {(id(tensor), axis): name for tensor, axis, name in _named_axes(values, dynamic_shapes)}


def _bound(
    model: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    """Yield the arguments of a call by the names of parameters, which `dynamic_shapes` uses."""
    function = getattr(model, "forward", model)
    signature = inspect.signature(function)
    for name, value in signature.bind(*args, **kwargs).arguments.items():
        if signature.parameters[name].kind == inspect.Parameter.VAR_KEYWORD:
            yield from value.items()
        yield name, value


def _named_axes(value: Any, shapes: Any) -> Iterator[tuple[torch.Tensor, int, str]]:
    if isinstance(value, torch.Tensor):
        for axis, dim in _axes(shapes):
            name = getattr(dim, "__name__", None)
            if isinstance(name, str):
                yield value, axis % max(1, value.dim()), name
    elif isinstance(value, Mapping) and isinstance(shapes, Mapping):
        known = cast(Mapping[Any, Any], value)
        for key, shape in cast(Mapping[Any, Any], shapes).items():
            yield from _named_axes(known.get(key), shape)
    elif isinstance(value, list | tuple) and isinstance(shapes, list | tuple):
        pairs = zip(cast(Sequence[Any], value), cast(Sequence[Any], shapes), strict=False)
        for item, shape in pairs:
            yield from _named_axes(item, shape)


def _axes(shapes: Any) -> Iterator[tuple[int, Any]]:
    """Yield the entries of the shape of one tensor by axis."""
    if isinstance(shapes, Mapping):
        yield from cast(Mapping[int, Any], shapes).items()
    elif isinstance(shapes, list | tuple):
        yield from enumerate(cast(Sequence[Any], shapes))


def symbol_names(
    inputs: Sequence[tuple[torch.Tensor, object]], chosen: Mapping[tuple[int, int], str]
) -> dict[str, str]:
    """Return a new name for each symbol of PyTorch among the extents of inputs."""
    names: dict[str, str] = {}
    for fake, example in inputs:
        for axis, dim in enumerate(dims_of(fake)):
            multiple = SymbolicSize.of(dim).multiple
            wanted = SymbolicSize.of(chosen.get((id(example), axis), 0)).multiple
            if multiple is not None and wanted is not None and multiple[1] == wanted[1]:
                names.setdefault(multiple[0], wanted[0])
    taken = {*names.values(), *RESERVED}
    for symbol, name in names.items():
        if name in RESERVED:
            names[symbol] = _fresh(f"{name}_", taken)
    for fake, _ in inputs:
        for dim in dims_of(fake):
            multiple = SymbolicSize.of(dim).multiple
            if multiple is not None and dim != UNNAMED and multiple[0] not in names:
                names[multiple[0]] = _fresh("s", taken)
    return names


def _fresh(prefix: str, taken: set[str]) -> str:
    name = next(f"{prefix}{n}" for n in range(len(taken) + 1) if f"{prefix}{n}" not in taken)
    taken.add(name)
    return name


def rename_symbols(module: ModuleOp, names: Mapping[str, str]) -> None:
    """Rename symbols throughout a module: in extents and in the arguments of calls."""
    for op in module.walk():
        _rename_dims(op, names)
        if isinstance(op, CallOp):
            op.arguments = StringAttr(rename_text(op.arguments.data, names))
        if isinstance(op, FuncOp) and op.arg_attrs is not None:
            entries = [_renamed_entry(entry, names) for entry in op.arg_attrs]
            op.arg_attrs = ArrayAttr(entries)


def _rename_dims(op: Operation, names: Mapping[str, str]) -> None:
    dims = op.attributes.get("coda.dims")
    if isa(dims, ArrayAttr[Attribute]):
        op.attributes["coda.dims"] = _renamed_dims(dims, names)


def _renamed_entry(entry: DictionaryAttr, names: Mapping[str, str]) -> DictionaryAttr:
    dims = entry.data.get("coda.dims")
    if not isa(dims, ArrayAttr[Attribute]):
        return entry
    return DictionaryAttr({**entry.data, "coda.dims": _renamed_dims(dims, names)})


def _renamed_dims(dims: ArrayAttr[Attribute], names: Mapping[str, str]) -> ArrayAttr[Attribute]:
    return ArrayAttr(
        [
            StringAttr(_renamed_dim(dim.data, names)) if isinstance(dim, StringAttr) else dim
            for dim in dims
        ]
    )


def _renamed_dim(dim: str, names: Mapping[str, str]) -> str:
    """Return a product of symbols in canonical order, so that equal products have equal texts."""
    factors = [names.get(factor, factor) for factor in dim.split("*")]
    return "*".join(sorted(factors, key=lambda text: (not text.isdigit(), text)))


def rename_text(text: str, names: Mapping[str, str]) -> str:
    """Rename symbols in a text in the notation of `torch.call`."""

    def rename(match: re.Match[str]) -> str:
        return match[0] if match["quoted"] else names.get(match["name"], match["name"])

    return _SYMBOL.sub(rename, text)

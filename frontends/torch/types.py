"""Conversion of types, extents and locations of a PyTorch graph to those of the IR."""

import operator
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.fx.operator_schemas import get_signature_for_torch_op
from torch.multiprocessing.reductions import StorageWeakRef
from xdsl.dialects.builtin import (
    FileLineColLoc,
    IntAttr,
    LocationAttr,
    NameLoc,
    StringAttr,
    TensorType,
    UnknownLoc,
)
from xdsl.ir import Attribute

from coda_ir.diagnostics import ModelError
from coda_ir.dialects.coda.shapes import AnyTensor, static_shape
from coda_ir.dialects.element_types import ELEMENT_TYPES
from coda_ir.remarks import checkpointed_location
from coda_ir.symbolic_shapes import Dim, Dims

Runner: TypeAlias = Callable[[list[Any]], Sequence[Any]]
"""A compiled graph, which takes the list of its inputs and may clear it."""

ATTRIBUTES: dict[torch.dtype, Attribute] = {
    getattr(torch, type.torch): type.attribute for type in ELEMENT_TYPES
}

UNNAMED = "?"
"""The name of an extent that is neither a number nor a product of symbols."""


def element_type(dtype: torch.dtype) -> Attribute:
    """Return an element type. Raises CodaError for one that the IR lacks, such as complex64."""
    if dtype not in ATTRIBUTES:
        raise ModelError(
            f"tensors of type {dtype} cannot be represented",
            "use real numbers, or move this part out of the compiled function",
        )
    return ATTRIBUTES[dtype]


def tensor_type(value: torch.Tensor) -> AnyTensor:
    """Return the type of a (fake) tensor. Raises CodaError for one that the IR cannot express."""
    if not is_strided(value):
        raise ModelError(
            f"tensors with the layout {value.layout} cannot be represented",
            "make it dense, or move this part out of the compiled function",
        )
    return TensorType(element_type(value.dtype), static_shape(dims_of(value)))


def is_strided(value: torch.Tensor) -> bool:
    """Return whether a (fake) tensor is dense: the IR has no sparse ones."""
    return value.layout == torch.strided


def can_represent(value: torch.Tensor) -> bool:
    """Return whether the IR can represent a (fake) tensor."""
    return value.dtype in ATTRIBUTES and is_strided(value)


def dims_of(value: torch.Tensor) -> Dims:
    """Return the extents of a (fake) tensor: numbers and symbols."""
    extents: Sequence[object] = value.shape
    return tuple(map(dim_of, extents))


def dim_of(extent: object) -> Dim:
    """Return an extent of a (fake) tensor: a number, or a symbolic size."""
    if isinstance(extent, int):
        return extent
    expression = _without_extrema(extent)
    if expression.is_Integer:
        return int(expression)
    factors = _factors(expression)
    if all(factor.is_Symbol or (factor.is_Integer and factor > 0) for factor in factors):
        return "*".join(sorted(map(str, factors), key=lambda text: (not text.isdigit(), text)))
    return _proved(extent)


def _proved(extent: object) -> Dim:
    """Return the number or symbol that PyTorch has proved an extent to be from the checks of its
    operators, such as s0 // 4 * 4 after a view of s0 elements as s0 // 4 windows of 4.
    """
    node: Any = getattr(extent, "node")  # noqa: B009
    if node.has_hint() and statically_known_true(extent == int(node.hint)):
        return int(node.hint)
    for symbol in sorted(node.expr.free_symbols, key=str):
        if statically_known_true(extent == node.shape_env.create_symintnode(symbol, hint=None)):
            return str(symbol)
    return UNNAMED


def _without_extrema(extent: object) -> Any:
    """Simplify an extent by the ranges of its symbols: max(0, 64 - s0) if s0 is at most 64."""
    expression, node = expression_of(extent), getattr(extent, "node")  # noqa: B009

    def decided(extremum: Any) -> Any:
        if len(extremum.args) != 2:
            return extremum
        a, b = extremum.args
        difference = node.shape_env.bound_sympy(a - b)
        if difference.upper > 0 and difference.lower < 0:
            return extremum
        is_maximum = _SYMPY_FUNCTIONS[type(extremum).__name__] == "max"
        return a if (difference.lower >= 0) == is_maximum else b

    return expression.replace(_is_extremum, decided)


def _is_extremum(expression: Any) -> bool:
    return type(expression).__name__ in _SYMPY_FUNCTIONS


def _factors(expression: Any) -> list[Any]:
    """Return the factors of a product; an exact quotient counts as one, such as s0·s1 // s0."""

    if type(expression).__name__ in ("FloorDiv", "CleanDiv"):
        expression = expression.args[0] / expression.args[1]
    factors: list[Any] = []
    for factor in expression.args if expression.is_Mul else (expression,):
        is_power = factor.is_Pow and factor.exp.is_Integer and factor.exp > 0
        factors += [factor.base] * int(factor.exp) if is_power else [factor]
    return factors


_SYMPY_FUNCTIONS = {"Max": "max", "Min": "min"}

_LOGIC = {"Or": "max", "And": "min"}

_NOTATION = {
    **dict.fromkeys(("FloorDiv", "CleanDiv"), "({} // {})"),
    **dict.fromkeys(("Mod", "PythonMod"), "({} % {})"),
    **dict.fromkeys(("IntTrueDiv", "FloatTrueDiv"), "({} / {})"),
    "ToFloat": "({} * 1.0)",
    "TruncToInt": "int({})",
    "FloorToInt": "int({} // 1)",
    "CeilToInt": "(-int(-{} // 1))",
    "Equality": "({} == {})",
    "Unequality": "({} != {})",
    "StrictLessThan": "({} < {})",
    "LessThan": "({} <= {})",
    "StrictGreaterThan": "({} > {})",
    "GreaterThan": "({} >= {})",
}
"""Functions of sympy as the arguments of `torch.call` have them."""


def expression_of(value: object) -> Any:
    """Return the sympy expression behind a symbolic integer."""
    node: Any = getattr(value, "node")  # noqa: B009 (torch.SymInt has no type for it)
    return node.expr


def symbolic_text(value: object) -> str:
    """Return a number that depends on symbols, like `expression_text`."""
    return str(value) if isinstance(value, int) else expression_text(expression_of(value))


def conditions_on(extents: Iterable[object]) -> list[Any]:
    """Return what PyTorch assumed about symbolic extents while it traced, as sympy expressions:
    the answers to comparisons in the model and in the code of operators.

    Extents that are equal to others, or multiples of them, are no part. Neither is a size that was
    taken for not being 0 or 1, which PyTorch does for every dynamic size.
    """
    node: Any = next((extent.node for extent in extents if isinstance(extent, torch.SymInt)), None)
    if node is None:
        return []
    answers = [node.shape_env.replace(guard.expr) for guard in node.shape_env.guards]
    return [answer for answer in answers if answer.free_symbols and not _is_not_0_or_1(answer)]


def _is_not_0_or_1(answer: Any) -> bool:
    is_unequal = type(answer).__name__ == "Unequality"
    return is_unequal and answer.args[0].is_Symbol and answer.args[1] in (0, 1)


def expression_text(expression: Any) -> str:
    """Return a sympy expression in the notation of `torch.call`, or raise CodaError."""
    if expression.is_Integer:
        return str(int(expression))
    if expression.is_Float:
        return repr(float(expression))
    if expression.is_Symbol:
        return str(expression)
    parts = [expression_text(argument) for argument in expression.args]
    function = type(expression).__name__
    if called := (_SYMPY_FUNCTIONS | _LOGIC).get(function):
        return f"{called}({', '.join(parts)})"
    if expression.is_Add:
        return f"({' + '.join(parts)})"
    if expression.is_Mul:
        return f"({' * '.join(parts)})"
    if function in _NOTATION:
        return _NOTATION[function].format(*parts)
    if function == "OpaqueUnaryFn_sqrt" or (function == "FloatPow" and parts[1] == "0.5"):
        return f"({parts[0]} ** 0.5)"
    if expression.is_Pow and parts[1].isdigit():
        return f"({' * '.join([parts[0]] * int(parts[1]))})"
    raise ModelError(f"the size {expression} cannot be computed", "simplify the model's shapes")


_FOREIGN = (f"{Path(torch.__file__).parent}/", "<")
"""Beginnings of the files that are not the model's: PyTorch's, and those that it generates."""

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')

_ATTRIBUTES_OF_MODULES = ("__dict__", "_modules", "_parameters", "_buffers")
"""The attributes by which TorchDynamo reaches the contents of a module."""

CHECKPOINT = "coda_checkpoint"
"""In the custom data of a node: the part of the model that the backward computes again."""


def location_of(node: Node) -> LocationAttr:
    """Return the location of a node in the model: the innermost line outside of PyTorch, named
    after the module, with the checkpointed region that contains it.
    """
    location = _place_of(node)
    custom: dict[str, Any] = node.meta.get("custom") or {}
    return checkpointed_location(location, custom[CHECKPOINT]) if CHECKPOINT in custom else location


def _place_of(node: Node) -> LocationAttr:
    frames = list(_FRAME.finditer(node.stack_trace or ""))
    place: LocationAttr = UnknownLoc()  # in a module of PyTorch's own that is compiled alone
    if frames:
        own = (f for f in reversed(frames) if not f["file"].startswith(_FOREIGN))
        frame = next(own, frames[-1])
        place = FileLineColLoc(StringAttr(frame["file"]), IntAttr(int(frame["line"])), IntAttr(1))
    module = module_path(node)
    return NameLoc(StringAttr(module), place) if module else place


def module_path(node: Node) -> str:
    """Return the innermost module of a node, such as `model.layers.0.mlp`."""
    stack: dict[str, tuple[str, Any]] = node.meta.get("nn_module_stack") or {}
    paths = [path for path, _ in stack.values()]
    return dotted_name(paths[-1]) if paths else ""


def dotted_name(path: str, *, of_module: bool = True) -> str:
    """Return `layers.0` for `L['self'].__dict__['_modules']['layers'].0`, TorchDynamo's path to it.

    The variable of the traced code in which the path begins counts where it is no module.
    """
    names = [name for name in re.split(r"[\[\].'\"]+", path) if name]
    if path.startswith(("L[", "G[")):
        names = names[2:] if of_module else names[1:]
    return ".".join(name for name in names if name not in _ATTRIBUTES_OF_MODULES)


def called_name(node: Node) -> str:
    """Return the name of a node's callee: `detach` for `x.detach()` and `torch.detach(x)`."""
    if node.op == "call_function" and node.target is getattr:
        return str(node.args[1])
    target: Any = node.target
    return str(getattr(target, "__name__", target))


def used_results(node: Node) -> dict[int, torch.Tensor]:
    """Return the tensors among a node's results by position; of several results, the used ones."""
    value: Any = node.meta["val"]
    if isinstance(value, torch.Tensor):
        return {0: value}
    tensors = {i: result for i, result in enumerate(value) if isinstance(result, torch.Tensor)}
    positions: list[Any] = [user.args[1] for user in node.users if len(user.args) > 1]
    if not positions or any(user.target is not operator.getitem for user in node.users):
        return tensors
    return {i: result for i, result in tensors.items() if i in positions}


def is_higher_order(node: Node) -> bool:
    """Return whether a node passes an operator, or a graph, to something that calls it."""
    return getattr(node.target, "__module__", None) == "torch.ops.higher_order"


def has_effects(graph: GraphModule) -> bool:
    """Return whether AOTAutograd orders effects in a graph, such as checks of `torch.inverse`."""
    return any(is_higher_order(n) and called_name(n) == "with_effects" for n in graph.graph.nodes)


def viewed_by(node: Node) -> Node | None:
    """Return the node that a node is a view of; None if it is no view."""
    source = node.all_input_nodes[0] if node.target is operator.getitem else node
    is_view = getattr(source.target, "is_view", False) and source.all_input_nodes
    return source.all_input_nodes[0] if is_view else None


def is_operator(node: Node) -> bool:
    """Return whether a node calls an operator with a schema, such as `aten.add.Tensor`."""
    return hasattr(node.target, "overloadpacket")


def parameter_names(node: Node) -> list[str]:
    """Return the names of the parameters of a node's operator; the first is `input`."""
    target: Any = node.target
    signatures = get_signature_for_torch_op(target)
    return [] if not signatures else list(signatures[0].parameters)


def shared_memory(tensor: torch.Tensor) -> StorageWeakRef:
    """Return what is equal for tensors that share memory."""
    return StorageWeakRef(tensor.untyped_storage())


def tensors_in(value: object) -> Iterable[torch.Tensor]:
    """Return the tensors among the results of a node."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for element in value:  # pyright: ignore[reportUnknownVariableType]
            yield from tensors_in(element)  # pyright: ignore[reportUnknownArgumentType]


def example_tensors(*nodes: Node) -> Iterable[torch.Tensor]:
    """Return the tensors among the results of nodes of a graph of TorchDynamo."""
    return tensors_in([node.meta.get("example_value") for node in nodes])


def graphs_in(graph: GraphModule) -> list[GraphModule]:
    """Return a graph, and those that it calls."""
    return [module for module in graph.modules() if isinstance(module, GraphModule)]

"""`coda_ir.export`: a PyTorch model as a module and its weights."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr

from coda_ir.calls.tree import CallTree, InputLeaf, OutputLeaf, parameters_of
from coda_ir.context import make_context
from coda_ir.diagnostics import ModelError, OptionError
from coda_ir.dialects.torch import CallOp
from coda_ir.exported import ExportedModel
from coda_ir.frontends.torch.capture import capture, decomposed, graph_of
from coda_ir.frontends.torch.importer import GraphImporter, ImportedGraph, ResultNumber
from coda_ir.frontends.torch.operators import HANDLERS
from coda_ir.frontends.torch.symbol_names import (
    chosen_names,
    rename_symbols,
    rename_text,
    symbol_names,
)
from coda_ir.frontends.torch.types import conditions_on, expression_text
from coda_ir.functions import find_entry
from coda_ir.passes.pipelines.torch_to_coda import TorchToCodaPass
from coda_ir.pytree import pytree
from coda_ir.remarks import collect_remarks
from coda_ir.symbolic_shapes import CONDITIONS


class TrainingModeWarning(UserWarning):
    """A model that draws random numbers was exported in training mode."""


def export(
    model: torch.nn.Module | ExportedProgram,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    name: str | None = None,
    raise_patterns: bool = True,
) -> ExportedModel:
    """Capture `model` called with `args` and `kwargs` as a module of the IR.

    `dynamic_shapes` states which dimensions may differ between calls (see `torch.export.export`);
    the others are fixed. A `torch.export.Dim` names its symbol; other symbols are s0, s1 and so on.
    The pass `torch-to-coda` turns computations that the model writes out (norms, rotary embedding)
    into named operators, unless `raise_patterns` is false; operators without a counterpart
    become calls of eager PyTorch (`torch.call`). A `torch.export.ExportedProgram` already has its
    example arguments and dynamic shapes. Raises CodaError for a model that cannot be captured.
    """
    if isinstance(model, ExportedProgram):
        _check_only_program(args, kwargs, dynamic_shapes)
        args, kwargs = _example_of(model)
        name = name or "model"
    args = _checked(model, args)
    named = dict(kwargs or {})
    with warnings.catch_warnings():
        # PyTorch warns about its own actions.
        warnings.filterwarnings("ignore", ".*LeafSpec", FutureWarning)
        if isinstance(model, ExportedProgram):
            program, model = decomposed(model), model.module()
        else:
            program = capture(model, args, named, dynamic_shapes)
    function = name or _function_name(model)
    imported = GraphImporter(graph_of(program), HANDLERS, function).run()
    leaves = _example_leaves(program, args, named)
    inputs = _fake_inputs(program, leaves)
    names = symbol_names(inputs, chosen_names(model, args, named, dynamic_shapes))
    rename_symbols(imported.module, names)
    imported.module.verify()
    with collect_remarks() as remarks:
        if raise_patterns:
            TorchToCodaPass().apply(make_context(), imported.module)
            imported.module.verify()
    _warn_of_training(model, imported.module)
    conditions = [*_limits(program, names), *_conditions([fake for fake, _ in inputs], names)]
    if conditions:
        stated = ArrayAttr(map(StringAttr, dict.fromkeys(conditions)))
        find_entry(imported.module).attributes[CONDITIONS] = stated
    tree = _call_tree(model, program, imported, leaves)
    return ExportedModel(imported.module, imported.weights, tree, remarks)


def _warn_of_training(model: torch.nn.Module, module: ModuleOp) -> None:
    """Warn if the exported model is in training mode, and so drops values in every call."""
    calls = [op for op in module.walk() if isinstance(op, CallOp) and op.random is not None]
    if model.training and calls:
        message = (
            f"{type(model).__name__} is in training mode: {calls[0].callee.data} draws random "
            "numbers in each call of the exported model; call eval() before it is exported"
        )
        warnings.warn(message, TrainingModeWarning, stacklevel=3)


def _check_only_program(*others: object) -> None:
    if any(other is not None for other in others):
        raise ModelError(
            "the model is an ExportedProgram, which has its arguments and dynamic shapes already",
            "pass it alone, or pass the model that it was exported from",
        )


def _example_of(program: ExportedProgram) -> tuple[Sequence[Any], Mapping[str, Any]]:
    if program.example_inputs is None:
        raise ModelError(
            "the exported program has no example arguments",
            "export the model again, or pass the model itself",
        )
    args, kwargs = program.example_inputs
    return args, kwargs


def _checked(model: object, args: Sequence[Any] | None) -> Sequence[Any]:
    if not isinstance(model, torch.nn.Module | ExportedProgram):
        raise ModelError(
            f"the model is {_article(model)}, expected a torch.nn.Module", _model_remedy(model)
        )
    if isinstance(args, torch.Tensor) or not isinstance(args, Sequence):
        raise OptionError(
            f"args is {_article(args)}, expected a tuple of the model's arguments",
            "write (x,) for a single argument, and () where all are in kwargs",
        )
    return args


def _model_remedy(model: object) -> str:
    """Return the remedy for an argument that is not a model."""
    match model:
        case type():
            return f"pass an instance: {model.__name__}(...)"
        case str():
            return "pass the model itself; coda_ir.compile takes programs"
        case _:
            return "wrap a function in a module whose forward calls it"


def _article(value: object) -> str:
    if value is None:
        return "None"
    name = type(value).__name__
    return f"an {name}" if name[0] in "aeiouAEIOU" else f"a {name}"


def _example_leaves(
    program: ExportedProgram, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[Any]:
    """Return the leaves of the example call, with named arguments in the order of the program."""
    spec: Any = program.call_spec.in_spec
    _, order = pytree.tree_unflatten(list(range(spec.num_leaves)), spec)
    return pytree.tree_leaves((tuple(args), {name: kwargs[name] for name in order}))


def _fake_inputs(
    program: ExportedProgram, leaves: Sequence[Any]
) -> list[tuple[torch.Tensor, object]]:
    """Return the inputs' fake tensors beside the examples. Raises CodaError for dynamic numbers."""
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    pairs: list[tuple[torch.Tensor, object]] = []
    for user_input, leaf in zip(program.graph_signature.user_inputs, leaves, strict=True):
        value = nodes[user_input].meta.get("val") if isinstance(user_input, str) else None
        if isinstance(value, torch.SymInt | torch.SymFloat):
            raise ModelError(
                f"the number {user_input} is declared to be dynamic",
                "pass it as a tensor, or leave it out of dynamic_shapes",
            )
        if isinstance(value, torch.Tensor):
            pairs.append((value, leaf))
    return pairs


def _call_tree(
    model: torch.nn.Module,
    program: ExportedProgram,
    imported: ImportedGraph,
    leaves: Sequence[Any],
) -> CallTree:
    inputs = [
        InputLeaf(name) if name else InputLeaf(None, leaf)
        for name, leaf in zip(imported.inputs, leaves, strict=True)
    ]
    outputs = [
        OutputLeaf(leaf.index, order=leaf.order)
        if isinstance(leaf, ResultNumber)
        else OutputLeaf(None, leaf)
        for leaf in imported.outputs
    ]
    spec = program.call_spec
    return CallTree(
        tuple(inputs),
        tuple(outputs),
        spec.in_spec,
        spec.out_spec,
        parameters_of(model.forward),
    )


def _limits(program: ExportedProgram, names: Mapping[str, str]) -> Iterator[str]:
    """Yield the limits of each symbol as conditions."""
    constraints: Mapping[Any, Any] = getattr(program, "range_constraints")  # noqa: B009
    for symbol, limits in constraints.items():
        if str(symbol) not in names:
            continue
        # PyTorch states 2 where it took a size for not being 1, which makes no difference.
        if limits.lower.is_number and limits.lower.is_finite and limits.lower > 2:
            yield f"({names[str(symbol)]} >= {int(limits.lower)})"
        if limits.upper.is_finite and limits.upper < 2**31:
            yield f"({names[str(symbol)]} <= {int(limits.upper)})"


def _conditions(inputs: Sequence[torch.Tensor], names: Mapping[str, str]) -> list[str]:
    """Return what the model asked about sizes, by new names. Raises CodaError if unanswerable."""
    expressions = conditions_on(extent for tensor in inputs for extent in tensor.shape)
    if any(str(symbol) not in names for it in expressions for symbol in it.free_symbols):
        raise ModelError(
            "the model asks about a size that is a sum, such as B + 1",
            "let each dynamic dimension be a Dim or a multiple of one",
        )
    return [rename_text(expression_text(expression), names) for expression in expressions]


def _function_name(model: torch.nn.Module) -> str:
    return "".join(c if c.isalnum() else "_" for c in type(model).__name__) or "model"

"""Capture of a PyTorch model as a graph of operators that the importer supports."""

import inspect
import traceback
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from types import TracebackType
from typing import Any, NamedTuple

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import Node

from coda_ir.devices import interpret_without_gpu
from coda_ir.diagnostics import ModelError
from coda_ir.frontends.torch.checkpoints import with_scaled_layers
from coda_ir.frontends.torch.decompositions import decompositions, losses_of_rows
from coda_ir.frontends.torch.gradient_stops import with_stopped_gradients
from coda_ir.frontends.torch.importer import GraphInput, GraphSource
from coda_ir.frontends.torch.kept_scans import keep_scans_of
from coda_ir.pytree import pytree

MODEL_ERRORS = (
    RuntimeError,  # Most failures of tracing, among them guards on data.
    TypeError,
    ValueError,
    AssertionError,
    AttributeError,
    LookupError,
    ArithmeticError,
    ImportError,
    NameError,
)
"""Errors of tracing, and of the code of a model."""


class CaptureError(ModelError):
    """The model cannot be captured as one graph."""


class _Reason(NamedTuple):
    """A kind of failure, recognized by words in PyTorch's message."""

    words: str
    summary: str | None
    """The text that replaces the message."""
    remedy: str


_REASONS = (
    _Reason(
        "Constraints violated",
        None,
        "leave that dimension out of dynamic_shapes, or let it have at least 2 elements in args",
    ),
    _Reason(
        "structure of `inputs`", None, "let dynamic_shapes have an entry for each argument, or None"
    ),
    _Reason(
        "list assignment index out of range",
        "dynamic_shapes names a dimension that an argument does not have",
        "count the dimensions of that argument from 0",
    ),
    _Reason(
        "data-dependent",
        "control flow or a Python number depends on the values of a tensor",
        "compute it with tensors (torch.where), or export the parts of the model around it",
    ),
    _Reason(
        "dynamic_shapes",
        None,
        "name the dimensions of each argument, as in dynamic_shapes={'x': {0: Dim('B')}}",
    ),
    _Reason("on the same device", None, "move the model and its arguments to one device"),
    _Reason("a leaf Variable", None, "leave weights unchanged, and return the new value"),
    _Reason(
        "Cache'> in output",
        "it returns a cache, which is not a tensor",
        "pass use_cache=False, or return the tensors of the cache",
    ),
    _Reason(
        "not a known type", None, "pass and return tensors, numbers, None and containers of these"
    ),
)
_REMEDY = (
    "if the model runs in PyTorch with these arguments, write this part with operators of PyTorch, "
    "or export the parts of the model around it"
)


def capture_error(model: object, error: BaseException) -> CaptureError:
    """Return `error`, which tracing `model` raised, with its place in the model and a remedy."""
    text = str(error)
    reason = next((r for r in _REASONS if r.words in text), _Reason("", None, _REMEDY))
    what = reason.summary or f"{type(error).__name__}: {_first_lines(text)}"
    place = _place(error.__traceback__)
    return CaptureError(f"{type(model).__name__} cannot be captured: {place}{what}", reason.remedy)


def _first_lines(text: str) -> str:
    """Return two lines of an error message, in 300 characters without references to PyTorch."""
    text = text.partition("For more information")[0]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " ".join(lines[:2])[:300]


_FOREIGN = tuple(str(Path(file).parent) for file in (torch.__file__, __file__))
"""Folders of code that is not the model's."""


def _place(trace: TracebackType | None) -> str:
    """Return the innermost line of the model in the traceback of an error."""
    places = list(_model_lines(trace))
    return f"{places[-1]}: " if places else ""


def _model_lines(trace: TracebackType | None) -> Iterator[str]:
    for frame, line in traceback.walk_tb(trace):
        file = frame.f_code.co_filename
        if not file.startswith(("<", *_FOREIGN)):
            yield f"{file}:{line}"


WEIGHT_KINDS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)

_ONE_AT_A_TIME = RLock()
"""Keeps other threads from capturing: PyTorch patches itself while it does so."""


def capture(
    model: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
) -> ExportedProgram:
    """Trace `model` with `args` and `kwargs` by `torch.export`.

    `dynamic_shapes` names the dimensions that may differ between calls, as `torch.export.export`
    takes it. Raises CaptureError where the model cannot be traced: control flow that depends on
    data, code that PyTorch cannot follow, inputs of a kind that it does not know.
    """
    interpret_without_gpu()
    _check_call(model, args, kwargs or {})
    try:
        marks = _marks_removed((args, kwargs))
        with _ONE_AT_A_TIME, torch.enable_grad(), marks, losses_of_rows():
            program = torch.export.export(
                with_scaled_layers(model),
                tuple(args),
                dict(kwargs or {}),
                dynamic_shapes=dynamic_shapes,
                strict=keep_scans_of(model),
            )
            return decomposed(program)
    except MODEL_ERRORS as error:
        raise capture_error(model, error) from error


def _check_call(model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    leaves: list[Any] = pytree.tree_leaves((args, kwargs))
    if any(isinstance(leaf, torch.Tensor) and leaf.is_nested for leaf in leaves):
        raise CaptureError(
            f"{type(model).__name__} cannot be captured: an argument is a nested tensor",
            "pad the samples to one length, or pack their rows into one tensor",
        )
    try:
        signature = inspect.signature(model.forward)
    except ValueError:  # some functions have none
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise CaptureError(
            f"the forward of {type(model).__name__} cannot be called in this way: {error}",
            f"pass args and kwargs that match its signature: {signature}",
        ) from error


def decomposed(program: ExportedProgram) -> ExportedProgram:
    """Decompose an exported program into operators that the importer knows."""
    program = with_stopped_gradients(program)
    decompose: Callable[..., ExportedProgram] = getattr(program, "run_decompositions")  # noqa: B009
    with _ONE_AT_A_TIME, losses_of_rows():
        return decompose(dict(decompositions()))


@contextmanager
def _marks_removed(arguments: object) -> Generator[None]:
    """Remove marks that tracing leaves on the example tensors: later captures would read them."""
    leaves: list[Any] = pytree.tree_leaves(arguments)
    before = [(leaf, set(vars(leaf))) for leaf in leaves if isinstance(leaf, torch.Tensor)]
    try:
        yield
    finally:
        for tensor, names in before:
            for name in vars(tensor).keys() - names:
                delattr(tensor, name)


def graph_of(program: ExportedProgram) -> GraphSource:
    """Return the graph of an exported program: user inputs first, in order; then the weights in
    use.

    Raises CodaError for an input of an unknown kind, and for a model that changes its inputs or
    buffers in place.
    """
    placeholders = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    tensors: Mapping[str, Any] = {**program.constants, **program.state_dict}
    inputs: list[GraphInput] = []
    weights: list[GraphInput] = []
    for spec in program.graph_signature.input_specs:
        node = placeholders[spec.arg.name]
        if spec.kind == InputKind.USER_INPUT:
            inputs.append(GraphInput(node, node.name, is_differentiated=True))
        elif spec.kind not in WEIGHT_KINDS:
            raise ModelError(
                f"the model has an input {spec.arg.name} of kind {spec.kind.name}",
                "pass tensors, numbers, None and containers of these only",
            )
        elif node.users:
            assert spec.target is not None, "weights have a name in the model"
            tensor, is_constant = tensors[spec.target], spec.kind == InputKind.CONSTANT_TENSOR
            weights.append(
                GraphInput(
                    node,
                    spec.target,
                    tensor,
                    is_weight=True,
                    is_constant=is_constant,
                    is_differentiated=spec.kind == InputKind.PARAMETER,
                )
            )
    return GraphSource(program.graph, [*inputs, *weights], _outputs(program))


def _outputs(program: ExportedProgram) -> list[Any]:
    specs: list[Any] = list(program.graph_signature.output_specs)
    leaves: Any = program.graph.output_node().args[0]
    for spec, leaf in zip(specs, leaves, strict=True):
        if spec.kind != OutputKind.USER_OUTPUT:
            raise ModelError(
                f"the model changes {spec.target} in place",
                "return the new value instead, or pass a model in eval mode",
            )
        if isinstance(leaf, Node) and not isinstance(leaf.meta.get("val"), torch.Tensor):
            raise ModelError("the model returns a size", "return tensors only")
    return list(leaves)

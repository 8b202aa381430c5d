"""State-space models as one operator of PyTorch, which traced graphs do not decompose.

In eager PyTorch, `coda_ir::state_space` runs a program of the language. In a graph that this
compiler compiles, it becomes `coda.selective_scan`, `coda.ssd` or `coda.delta_rule`, for any
length.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import Node
from xdsl.dialects.builtin import f32

from coda_ir.api import compile
from coda_ir.diagnostics import ArgumentError
from coda_ir.dialects import coda
from coda_ir.frontends.torch.importer import GraphImporter, Value
from coda_ir.frontends.torch.types import used_results
from coda_ir.training.gradient_pair import DoubleBackwardError

if TYPE_CHECKING:
    from coda_ir.training.functions import TrainableFunction

Tensors = Sequence[torch.Tensor]

SCAN, HEADS, DELTA_RULE = "selective_scan", "ssd", "delta_rule"
"""The models, as the language calls them."""

_NAMES: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        **dict.fromkeys((SCAN, HEADS), ("x", "dt", "a", "b", "c", "initial")),
        DELTA_RULE: ("q", "k", "v", "beta", "decay", "initial"),
    }
)
"""The operands of each model."""

_OPTIONS: Mapping[str, str] = MappingProxyType(
    {SCAN: "", HEADS: ", states={states}, dtype=f32", DELTA_RULE: ", head_dim={states}"}
)
"""The arguments of each model after its operands."""

_TYPES: Mapping[torch.dtype, str] = MappingProxyType(
    {torch.bfloat16: "bf16", torch.float16: "f16", torch.float32: "f32"}
)

_PROGRAM = """
fn model({arguments}) {{
    y, last = {model}({operands}{options}, final=true)
    return y, last
}}
"""


def state_space(model: str, operands: Tensors, states: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Run a state-space model: return y, and the states after the last position.

    Models call it instead of a loop over time. It is a single operator, with kernels and a
    derivative in `torch.compile` and `coda_ir.export`. `model` is "selective_scan", "ssd" or
    "delta_rule", and `states` the number of states of a column, which is the `head_dim` of
    "delta_rule". The operands are those of `coda.selective_scan`, `coda.ssd` or `coda.delta_rule`,
    of at most 32 bits. An optional sixth operand has the states before the first position, in
    float32, by default 0. y has the type of x or v, but is float32 for `ssd`; states are float32.
    Raises CodaError for operands that the operators do not accept.
    """
    if model not in _NAMES:
        raise ArgumentError(
            f"state_space: unknown model {model!r}", f"use one of {', '.join(_NAMES)}"
        )
    names = _NAMES[model]
    if len(operands) not in (5, 6):
        raise ArgumentError(
            f"state_space: {model} takes 5 or 6 operands, got {len(operands)}",
            f"pass a list of {', '.join(names)}; initial is optional",
        )
    for name, value in zip(names, operands, strict=False):
        if value.dtype not in _TYPES:
            types = ", ".join(map(str, _TYPES))
            raise ArgumentError(
                f"state_space: {name} has type {value.dtype}, expected one of {types}",
                "convert the operands, or run the loop over positions in PyTorch",
            )
    narrow = ("q", "k") if model == DELTA_RULE else ("b", "c")
    dtype = operands[_written(model)].dtype
    given = [
        value.to(dtype) if name in narrow else value.float() if name == "initial" else value
        for name, value in zip(names, operands, strict=False)
    ]
    return _OPERATOR(given, model, states)


def imported_state_space(graph: GraphImporter, node: Node) -> Value | None:
    """Import the operator, with a second result if the last states are read."""
    given, model, states = node.args
    assert isinstance(given, Sequence) and isinstance(states, int)
    operands: list[Any] = [graph.tensor(operand) for operand in given]
    is_read = 1 in used_results(node)
    if model == SCAN:
        op = coda.SelectiveScanOp(*operands, final=is_read)
    elif model == DELTA_RULE:
        op = coda.DeltaRuleOp(*operands, head_dim=states, final=is_read)
    else:
        options: Any = {"states": states, "element_type": f32}
        op = coda.SSDOp(*operands, final=is_read, **options)
    graph.insert(op)
    return [op.result, op.final]


def _written(model: str) -> int:
    """Return the number of the operand that is written into states, whose shape y has."""
    return 2 if model == DELTA_RULE else 0


# The operator alone


def _result_types(operands: Tensors, model: str, states: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = operands[_written(model)]
    samples, _, columns = x.shape
    last: Sequence[int]
    if model == SCAN:
        last = operands[2].shape
    elif model == DELTA_RULE:
        heads = operands[3].shape[-1]
        last = (heads, states, columns // heads)
    else:
        heads = len(operands[2])
        last = (heads, columns // heads, states)
    dtype = torch.float32 if model == HEADS else x.dtype
    return x.new_empty(x.shape, dtype=dtype), x.new_empty((samples, *last), dtype=torch.float32)


def _run(operands: Tensors, model: str, states: int) -> tuple[torch.Tensor, torch.Tensor]:
    complete = _with_initial(operands, model, states)
    return _program(model, tuple(map(_described, complete)), states)(*complete)


def _with_initial(operands: Tensors, model: str, states: int) -> list[torch.Tensor]:
    """Return the operands with the states before the first position, zeros if there are none."""
    dense = [operand.contiguous() for operand in operands]
    if len(dense) == 5:
        dense.append(torch.zeros_like(_result_types(operands, model, states)[1]))
    return dense


def _described(operand: torch.Tensor) -> tuple[str, str, torch.Size]:
    return str(operand.device), _TYPES[operand.dtype], operand.shape


@cache
def _program(
    model: str, operands: tuple[tuple[str, str, torch.Size], ...], states: int
) -> TrainableFunction:
    names = _NAMES[model]
    arguments = ", ".join(
        f"{name}: {type}[{', '.join(map(str, shape))}]"
        for name, (_, type, shape) in zip(names, operands, strict=True)
    )
    options = _OPTIONS[model].format(states=states)
    text = _PROGRAM.format(
        model=model, arguments=arguments, operands=", ".join(names), options=options
    )
    device = operands[0][0]
    target = "reference" if device == "cpu" else "triton"
    return compile(text, training=True, device=device, target=target)


def _forward(operands: Tensors, model: str, states: int) -> tuple[torch.Tensor, torch.Tensor]:
    # Backward, and in compiled graphs, autocast is off.
    with torch.autocast(operands[0].device.type, enabled=False):
        return _run(operands, model, states)


def _backward(
    operands: Tensors, d_y: torch.Tensor, d_last: torch.Tensor, model: str, states: int
) -> list[torch.Tensor]:
    """Return the gradients of the operands, by running the model again.

    This happens in a separate thread, on the current stream: autograd records nothing in a thread
    that runs a graph of AOTAutograd. The gradients are computed there, too, because autograd's own
    thread of a GPU waits for them.
    """
    device = d_y.device
    stream = torch.cuda.current_stream(device) if device.type == "cuda" else None

    def differentiate() -> list[torch.Tensor]:
        stays: Any = torch.autograd.set_multithreading_enabled(False)  # without types
        with stays, nullcontext() if stream is None else torch.cuda.stream(stream):
            leaves = [operand.detach().requires_grad_() for operand in operands]
            results = _run(leaves, model, states)
            gradients = torch.autograd.grad(results, leaves, (d_y, d_last))
            return [gradient.contiguous() for gradient in gradients]

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(differentiate).result()


def _gradient_types(operands: Tensors, *_: object) -> list[torch.Tensor]:
    return [operand.new_empty(operand.shape) for operand in operands]


def _save(ctx: Any, inputs: tuple[Any, ...], output: object) -> None:
    operands, *ctx.options = inputs
    ctx.save_for_backward(*operands)


def _gradients(ctx: Any, d_y: torch.Tensor, d_last: torch.Tensor) -> Any:
    return _BACKWARD(ctx.saved_tensors, d_y, d_last, *ctx.options), None, None


def _refuse(*_: object) -> Any:
    raise DoubleBackwardError(
        "a gradient of coda_ir::state_space is differentiated again; second derivatives are not "
        "supported",
        "leave out create_graph=True",
    )


_LIBRARY: Any = torch.library.Library("coda_ir", "FRAGMENT")  # partly without types


def _operator(
    schema: str,
    run: Callable[..., Any],
    types: Callable[..., Any],
    gradients: Callable[..., Any],
    save: Callable[..., None] | None = None,
) -> Any:
    """Register an operator of PyTorch and return it; `types` makes empty results."""
    _LIBRARY.define(schema)
    name, _, _ = schema.partition("(")
    library: Any = torch.library  # partly without types
    library.impl(f"coda_ir::{name}", "CompositeExplicitAutograd", run, lib=_LIBRARY)
    library.register_fake(f"coda_ir::{name}", types, lib=_LIBRARY)
    library.register_autograd(f"coda_ir::{name}", gradients, setup_context=save, lib=_LIBRARY)
    return getattr(torch.ops.coda_ir, name).default


_OPERATOR = _operator(
    "state_space(Tensor[] operands, str model, int states) -> (Tensor, Tensor)",
    *(_forward, _result_types, _gradients, _save),
)
_BACKWARD = _operator(
    "state_space_backward(Tensor[] operands, Tensor d_y, Tensor d_last, str model, int states) "
    "-> Tensor[]",
    *(_backward, _gradient_types, _refuse),
)

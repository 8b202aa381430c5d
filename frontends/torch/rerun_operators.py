"""Operators of PyTorch whose gradients are computed by running them again."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor

from coda_ir.training.gradient_pair import DoubleBackwardError

Operation: TypeAlias = Callable[..., tuple[Tensor, Tensor]]
"""A function of a sequence of tensors, then of options."""

_LIBRARY: Any = torch.library.Library("coda_ir", "FRAGMENT")  # partly without types


def rerun_operator(name: str, run: Operation, result_types: Operation, options: str = "") -> Any:
    """Register `coda_ir::name` and its backward operator, and return the former.

    It takes tensors and `options`, the rest of the parameters in PyTorch's schema, and has two
    results. `run` computes them, of tensors that PyTorch can differentiate, and without autocast;
    `result_types` makes empty ones.
    """
    backward_name = f"{name}_backward"

    def run_forward(operands: Sequence[Tensor], *given: Any) -> Any:
        # Backward, and in compiled graphs, autocast is off.
        with torch.autocast(operands[0].device.type, enabled=False):
            return run(operands, *given)

    def run_backward(operands: Sequence[Tensor], d_0: Tensor, d_1: Tensor, *given: Any) -> Any:
        def differentiate() -> list[Tensor]:
            leaves = [operand.detach().requires_grad_() for operand in operands]
            gradients = torch.autograd.grad(run(leaves, *given), leaves, (d_0, d_1))
            return [gradient.contiguous() for gradient in gradients]

        return _recorded(differentiate, d_0.device)

    def save(ctx: Any, inputs: tuple[Any, ...], output: object) -> None:
        operands, *ctx.options = inputs
        ctx.save_for_backward(*operands)

    def gradients(ctx: Any, d_0: Tensor, d_1: Tensor) -> Any:
        found = backward(ctx.saved_tensors, d_0, d_1, *ctx.options)
        return found, *(None for _ in ctx.options)

    _register(f"{name}(Tensor[] operands{options}) -> (Tensor, Tensor)", run_forward, result_types)
    _register(
        f"{backward_name}(Tensor[] operands, Tensor d_0, Tensor d_1{options}) -> Tensor[]",
        run_backward,
        _gradient_types,
    )
    library: Any = torch.library  # partly without types
    library.register_autograd(f"coda_ir::{name}", gradients, setup_context=save, lib=_LIBRARY)
    library.register_autograd(f"coda_ir::{backward_name}", partial(_refuse, name), lib=_LIBRARY)
    backward = getattr(torch.ops.coda_ir, backward_name).default
    return getattr(torch.ops.coda_ir, name).default


def _gradient_types(operands: Sequence[Tensor], *_: object) -> list[Tensor]:
    return [operand.new_empty(operand.shape) for operand in operands]


def _refuse(name: str, *_: object) -> Any:
    raise DoubleBackwardError(
        f"a gradient of coda_ir::{name} is differentiated again; second derivatives are not "
        "supported",
        "leave out create_graph=True",
    )


def _recorded(function: Callable[[], list[Tensor]], device: torch.device) -> list[Tensor]:
    """Call a function in a separate thread, on the current stream of `device`.

    Autograd records nothing in a thread that runs a graph of AOTAutograd. The gradients of this
    call are computed in the separate thread, too: autograd's own thread of a GPU waits for it.
    """
    stream = torch.cuda.current_stream(device) if device.type == "cuda" else None

    def call() -> list[Tensor]:
        stays: Any = torch.autograd.set_multithreading_enabled(False)  # without types
        with stays, nullcontext() if stream is None else torch.cuda.stream(stream):
            return function()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


def _register(schema: str, run: Callable[..., Any], types: Callable[..., Any]) -> None:
    _LIBRARY.define(schema)
    name, _, _ = schema.partition("(")
    library: Any = torch.library  # partly without types
    library.impl(f"coda_ir::{name}", "CompositeExplicitAutograd", run, lib=_LIBRARY)
    library.register_fake(f"coda_ir::{name}", types, lib=_LIBRARY)

"""Programs run as emitted Triton: on the GPU, or in the interpreter where there is none.

The interpreter checks every access: a kernel that reads or writes outside of its tensors fails.
"""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
import torch
from support.emitted import run_guarded
from support.interpreter import speed_up
from xdsl.dialects.builtin import ModuleOp

from coda_ir.api import Lowering
from coda_ir.devices import architecture_name, default_device, require_triton_for
from coda_ir.diagnostics import CodaError
from coda_ir.options import CompileOptions


def prepare() -> None:
    """Import Triton as the device needs it."""
    require_triton_for(default_device())
    speed_up()
    _round_exponentials_once()


def _round_exponentials_once() -> None:
    """NumPy's exponential, which the interpreter takes, is off by up to 2.3 units in the last place
    of float32, PyTorch's by 0.6: a model that multiplies it by a timestep of 500 would show that.
    """
    interpreter: Any = import_module("triton.runtime.interpreter")

    def exponential(x: Any) -> Any:
        return np.exp(x.astype(np.float64)).astype(x.dtype)

    def create_exp(self: Any, argument: Any) -> Any:
        return self.unary_op(argument, exponential)

    interpreter.InterpreterBuilder.create_exp = create_exp


def lowering_for_device(module: ModuleOp) -> Lowering:
    """The levels of a program as they are for the device that emitted programs run on."""
    return Lowering(module, CompileOptions("", architecture=architecture_name(default_device())))


def run_emitted(
    lowering: Lowering, function: str | None, arguments: Sequence[torch.Tensor]
) -> list[torch.Tensor]:
    """The results of a function as emitted Triton."""
    with torch.no_grad():
        return run_guarded(lowering.artifact(function).source, arguments)


def describe(error: Exception) -> str:
    """An error in one line: what this package says of it, or what caused it."""
    causes: list[BaseException] = [error]
    while not isinstance(causes[-1], CodaError) and (cause := causes[-1].__cause__) is not None:
        causes.append(cause)
    text: Any = " ".join(str(causes[-1]).split())[:300]
    return f"{type(causes[-1]).__name__}: {text}"

"""Programs run as emitted Triton: on the GPU, or in the interpreter where there is none.

The interpreter checks every access: a kernel that reads or writes outside of its tensors fails.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any

import torch
from support.emitted import run_guarded
from support.interpreter import speed_up
from xdsl.dialects.builtin import ModuleOp

from coda_ir.api import Lowering
from coda_ir.devices import architecture_name, default_device, require_triton_for


def prepare() -> None:
    """Import Triton as the device needs it."""
    require_triton_for(default_device())
    speed_up()


def lowering_for_device(module: ModuleOp) -> Lowering:
    """The levels of a program as they are for the device that emitted programs run on."""
    return Lowering(module, "", architecture=architecture_name(default_device()))


def run_emitted(
    lowering: Lowering, function: str | None, arguments: Sequence[torch.Tensor]
) -> list[torch.Tensor]:
    """The results of a function as emitted Triton."""
    with torch.no_grad():
        results = run_guarded(lowering.artifact(function).source, arguments)
    # The module and its guarded memory refer to each other.
    gc.collect()
    return results


def describe(error: Exception) -> str:
    """An error in one line."""
    causes: list[BaseException] = [error]
    while (cause := causes[-1].__cause__) is not None:
        causes.append(cause)
    text: Any = " ".join(str(causes[-1]).split())[:300]
    return f"{type(causes[-1]).__name__}: {text}"

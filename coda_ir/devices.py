"""The device of a compiled function: a GPU, or the CPU by Triton's interpreter."""

import os
import sys
import warnings
from importlib import import_module
from typing import Any

import torch

from coda_ir.diagnostics import MachineError, OptionError


def default_device() -> torch.device:
    """Return the current GPU, or the CPU if there is none."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def resolve_device(device: str | torch.device) -> torch.device:
    """Return a device by name. Raises CodaError for one that does not exist on this machine."""
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise OptionError(f"unknown device '{device}'", "use cpu or cuda") from error
    if found.type == "cpu":
        return found
    if found.type == "meta":
        raise OptionError(
            "tensors on the device 'meta' have no data",
            "create the model on cpu or cuda, or fill it with to_empty and load_state_dict",
        )
    count = torch.cuda.device_count() if found.type == "cuda" else 0
    if not 0 <= (found.index or 0) < count:  # PyTorch reads cuda:999 as a negative number.
        raise MachineError(
            f"device '{device}' does not exist: this machine has "
            f"{count or 'no'} GPU{'' if count == 1 else 's'} that PyTorch can use",
            "use cpu" if count == 0 else f"use cpu, or cuda:0 to cuda:{count - 1}",
        )
    return found


_chosen_here: list[str] = []
"""Variables of the environment that were set here, not by the user."""


def interpreter_is_asked_for() -> bool:
    """Return whether the user asked for Triton's interpreter."""
    is_set = os.environ.get("TRITON_INTERPRET", "0") not in ("", "0")
    return is_set and "TRITON_INTERPRET" not in _chosen_here


def interpret_without_gpu() -> None:
    """Switch the interpreter on if there is no GPU, before PyTorch imports triton, which decides
    whether programs can be compiled for the CPU later.
    """
    if not torch.cuda.is_available():
        _switch_interpreter_on()


def _switch_interpreter_on() -> None:
    """Switch the interpreter on; without effect if triton has been imported."""
    if "triton" not in sys.modules and not interpreter_is_asked_for():
        os.environ["TRITON_INTERPRET"] = "1"
        _chosen_here.append("TRITON_INTERPRET")


def require_triton_for(device: torch.device) -> None:
    """Make sure that Triton can run kernels on `device`.

    Triton decides when it is imported whether it compiles or interprets. For the CPU it has to
    interpret, which is switched on here if nothing has imported triton yet. Raises CodaError
    where that is too late.
    """
    if device.type == "cpu":
        _switch_interpreter_on()
        if not _is_interpreting():
            raise MachineError(
                "Triton was imported without its interpreter, which the CPU needs",
                "set TRITON_INTERPRET=1 before Python starts, or compile for the CPU before "
                "anything imports triton",
            )
        _silence_interpreter()
    elif _is_interpreting():
        warnings.warn(
            f"Triton runs in its interpreter, which is slow, although the device is {device}; "
            "unset TRITON_INTERPRET to compile the kernels",
            stacklevel=3,
        )


def _silence_interpreter() -> None:
    """Silence NumPy's warnings about infinities that kernels handle, as in log of an empty sum."""
    module = r"triton\.runtime\.interpreter"
    warnings.filterwarnings("ignore", category=RuntimeWarning, module=module)


def _is_interpreting() -> bool:
    """Return whether triton's library functions were made for the interpreter."""
    library = import_module("triton.language.standard")
    return type(library.sigmoid).__name__ == "InterpretedFunction"


def library_rounds_float32() -> bool:
    """Return whether PyTorch's settings let its library multiply float32 as TF32 on GPUs."""
    settings: Any = torch.backends.cuda.matmul
    # From PyTorch 2.9 on, the older property fails after a use of the newer one.
    precision = getattr(settings, "fp32_precision", None)
    return settings.allow_tf32 if precision is None else precision == "tf32"


def architecture_name(device: torch.device) -> str:
    """Return `cpu`, `sm_90` or `gfx942`."""
    if device.type == "cpu":
        return "cpu"
    if torch.version.hip is not None:
        cuda: Any = torch.cuda  # its properties have no types
        # The name ends in features, as in gfx942:sramecc+:xnack-.
        return str(cuda.get_device_properties(device).gcnArchName).partition(":")[0]
    major, minor = torch.cuda.get_device_capability(device)
    return f"sm_{major}{minor}"

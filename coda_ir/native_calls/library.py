"""The native library: compiled by Triton, and given the functions of PyTorch and of the driver."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from coda_ir.diagnostics import CodaError

SOURCES = ("tensors", "launches", "calls")
"""Files in C that are one text, in this order."""

TORCH_FUNCTIONS = (
    "aoti_torch_get_data_ptr",
    "aoti_torch_get_dim",
    "aoti_torch_get_sizes",
    "aoti_torch_get_strides",
    "aoti_torch_get_dtype",
    "aoti_torch_get_device_type",
    "aoti_torch_get_device_index",
    "aoti_torch_grad_mode_is_enabled",
)
DRIVER_FUNCTIONS = (
    "cuLaunchKernelEx",
    "cuTensorMapReplaceAddress",
    "cuCtxGetCurrent",
    "cuStreamIsCapturing",
)


@dataclass(frozen=True)
class NativeLibrary:
    """What `calls.c` has, and the driver."""

    calls: Callable[..., Any]
    recorded: Callable[..., object]
    driver: ctypes.CDLL

    def fail(self, kernels: Sequence[str], place: int, error: int) -> None:
        """Raise CodaError for a kernel that the driver did not launch."""
        text = ctypes.c_char_p()
        self.driver.cuGetErrorString(error, ctypes.byref(text))
        reason = (text.value or b"unknown error").decode(errors="replace")
        raise CodaError(
            f"kernel {kernels[place]} was not launched: {reason} (CUDA error {error})",
            "an error of an earlier kernel may be the cause: CUDA_LAUNCH_BLOCKING=1 says where",
        )


@cache
def native_library() -> NativeLibrary | None:
    """The library; None where it cannot be made: `why_not` says why."""
    try:
        return _make()
    except (OSError, RuntimeError, ImportError, AttributeError, TypeError, ValueError) as error:
        _REASONS.append(f"{type(error).__name__}: {error}")
    except subprocess.CalledProcessError as error:
        _REASONS.append(f"the C compiler failed: {error}")
    return None


_REASONS: list[str] = []


def why_not() -> str | None:
    """Why there is no library, where it was asked for."""
    return _REASONS[0] if _REASONS else None


def _make() -> NativeLibrary:
    folder = Path(__file__).parent
    text = "\n".join((folder / f"{name}.c").read_text() for name in SOURCES)
    build: Any = import_module("triton.runtime.build")
    module = build.compile_module_from_src(text, "coda_native_calls")
    driver = ctypes.CDLL("libcuda.so.1")
    of_torch = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
    addresses = [_address(of_torch, name) for name in TORCH_FUNCTIONS]
    addresses += [_address(driver, name) for name in DRIVER_FUNCTIONS]
    module.setup(torch.Tensor, torch.nn.Parameter, (*addresses,), _some_tensors())
    return NativeLibrary(module.Calls, module.Recorded, driver)


def _some_tensors() -> tuple[torch.Tensor, ...]:
    """By which the native code finds out how PyTorch keeps them."""
    plain = torch.empty(2, 2)
    return plain, plain[0], torch.nn.Parameter(plain), torch.empty(1, dtype=torch.int64)


def _address(library: ctypes.CDLL, name: str) -> int | None:
    """Raises AttributeError where there is no such function."""
    return ctypes.cast(getattr(library, name), ctypes.c_void_p).value

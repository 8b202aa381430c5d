"""The choice between direct launches and Triton's; see docs/launches.md."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from coda_ir.cache.toolchain import package_version
from coda_ir.diagnostics import OptionError

if TYPE_CHECKING:
    from types import ModuleType

    from xdsl.dialects.func import FuncOp

    from coda_ir.remarks import Remark

SETTING = "CODA_DIRECT_LAUNCH"

KNOWN_TRITON = ("3.6", "3.7", "3.8", "3.9")
"""The versions whose launchers the host functions of a module know (see runtime/direct.py)."""


def direct_launch_is_on(architecture: str) -> bool:
    """Return whether programs for `architecture` are emitted with direct launches: as set in the
    environment, or by default on NVIDIA GPUs with a supported version of Triton.

    Raises CodaError for a value of CODA_DIRECT_LAUNCH other than 0 and 1.
    """
    value = os.environ.get(SETTING, "")
    if value not in ("", "0", "1"):
        raise OptionError(f"{SETTING} is '{value}'", "set it to 0 or 1")
    return _is_possible(architecture) if value == "" else value == "1"


def missed_direct_launch(func: FuncOp, architecture: str) -> list[Remark]:
    """Return a remark for a function whose kernels Triton has to launch; none if the user asked for
    it, or if it applies to all such devices.
    """
    from coda_ir.remarks import Remark

    if os.environ.get(SETTING) == "0" or not architecture.startswith("sm_"):
        return []
    if _is_possible(architecture):
        return []
    message = (
        f"Triton {package_version('triton')} launches the kernels, because its launchers are "
        "unknown; each launch takes tens of microseconds"
    )
    remark = Remark(
        "missed",
        "direct-launch",
        func.name,
        func.location,
        message,
        suggestion=f"use Triton {KNOWN_TRITON[0]} to {KNOWN_TRITON[-1]}",
        function=func.sym_name.data,
    )
    return [remark]


def needs_launchers(module: ModuleType) -> bool:
    """Return whether Triton launches the kernels of a module, by launchers that a C compiler makes.
    Direct launches load and launch kernels through the driver.
    """
    return not hasattr(module, "DirectLaunch")


def _is_possible(architecture: str) -> bool:
    """Return whether direct launches are possible; Triton under other names is checked later."""
    version = package_version("triton")
    is_known = ".".join(version.split(".")[:2]) in (*KNOWN_TRITON, "unknown")
    return architecture.startswith("sm_") and is_known

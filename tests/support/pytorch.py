"""torch.export and TorchDynamo, without work that they do over and over.

A large part of the time of a small graph goes into a few things that change nothing:

* for each namespace of operators, dozens of times for a graph, PyTorch makes all operators with an
  implicit decomposition in C++, which are there after the first time;
* for each operator whose decomposition it replaces, types of functions are made for annotations;
* the guards of a graph are timed, after the caches of the processor are flushed.
"""

import sys
import typing
from functools import cache
from typing import Any


def speed_up() -> None:
    """Do these things once, or not at all; nothing happens where PyTorch is not imported."""
    modules: dict[str, Any] = dict(sys.modules)
    if "torch._export.utils" in modules:
        utils = modules["torch._export.utils"]
        utils._materialize_cpp_cia_ops = cache(utils._materialize_cpp_cia_ops)
    if "torch._ops" in modules:
        # Which remembers its types.
        modules["torch._ops"].Callable = typing.Callable
    if "torch._dynamo.guards" in modules:
        modules["torch._dynamo.guards"].profile_guard_manager = _no_time


def _no_time(*_: object) -> float:
    return 0.0

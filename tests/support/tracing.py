"""PyTorch's tracing, without work that it does over and over.

A small model is traced in a quarter of a second. A part of that goes into things whose results are
the same each time, or that nobody reads:

* `torch.export` asks the dispatcher for its composite operators once for each namespace, and looks
  each of them up;
* it registers thousands of kernels for the time of a trace, and evaluates annotations at each;
* TorchDynamo measures how long guards take, with the caches of the processor emptied, and collects
  garbage after each graph.
"""

import os
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

os.environ.setdefault("TORCH_DYNAMO_RUN_GC_AFTER_COMPILE", "0")


def speed_up() -> None:
    """Do these things once, or not at all, in the modules that are imported by now."""
    for name in _CHANGES.keys() & sys.modules.keys():
        _CHANGES.pop(name)(sys.modules[name])


def _look_up_operators_once(utils: Any) -> None:
    utils._materialize_cpp_cia_ops = cache(utils._materialize_cpp_cia_ops)


def _register_without_annotations(ops: Any) -> None:
    register: Any = ops.OperatorBase.py_impl

    def py_impl(self: Any, key: Any) -> Any:
        kernels: dict[Any, Any] = self.py_kernels
        if type(key) is not ops.DispatchKey or key is ops.DispatchKey.Python or key in kernels:
            return register(self, key)

        def add(function: Any) -> Any:
            kernels[key] = function
            self._dispatch_cache.clear()
            return function

        return add

    ops.OperatorBase.py_impl = py_impl


def _leave_guards_untimed(guards: Any) -> None:
    def microseconds(*_: object) -> float:
        return 0.0

    guards.profile_guard_manager = microseconds


_CHANGES: dict[str, Callable[[Any], None]] = {
    "torch._export.utils": _look_up_operators_once,
    "torch._ops": _register_without_annotations,
    "torch._dynamo.guards": _leave_guards_untimed,
}

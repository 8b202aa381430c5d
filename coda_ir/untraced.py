"""Calls that TorchDynamo does not trace.

A function that `torch.compile` compiles may call a compiled program. TorchDynamo would trace the
Python code of the call, including the launches. A call with the decorator `untraced` breaks the
graph instead, and runs unchanged.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def untraced(call: Callable[P, R]) -> Callable[P, R]:
    """Return a function that behaves like `call` and that TorchDynamo does not trace."""
    disabled: list[Callable[P, R]] = []

    @wraps(call)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        import torch

        if not torch.compiler.is_compiling():
            return call(*args, **kwargs)
        # Made here, since it imports TorchDynamo, which takes more than a second.
        if not disabled:
            compiler: Any = torch.compiler
            disabled.append(compiler.disable(call))
        return disabled[0](*args, **kwargs)

    return run

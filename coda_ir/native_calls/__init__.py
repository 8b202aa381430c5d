"""Calls like earlier ones in one native function: it checks, allocates and launches.

Most of what a call of a few kernels costs on the host is Python: the check of the arguments, the
allocations, the launches. A program that does nothing else can be called without: `NativeCalls`
records such a call once, as the kernels with their parameters, in which the addresses of tensors
are marked. The code in C then does, for tensors of the same types, sizes, strides and device,

    check the arguments, the current device, that no hook wants to see launches
    allocate the results and one tensor for what is needed meanwhile, as PyTorch does
    write the addresses into the parameters, and into descriptors where they changed
    launch all kernels on the current stream

and else gives None: then the Python of the module does it, which raises the errors there are to
raise. The library is compiled when it is first needed, by Triton's function for its own launchers,
and kept in Triton's cache; without a C compiler, or with a PyTorch, Triton or driver that lacks
something, calls are as they were.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MethodType
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    import torch

    from coda_ir.remarks import Remark

MOST_FAILURES = 16
"""Calls in a row that cannot be recorded, after which no other one of the function is tried."""

MOST_RECORDED = 16
"""Calls of a function: of so many sizes. Looking for one takes a tenth of a microsecond each."""

Method = TypeVar("Method", bound=Callable[..., Any])

Repeat = Callable[[tuple[Any, ...]], "tuple[torch.Tensor, ...] | None"]
"""Does a call like a recorded one, given its arguments by position; None where there is none."""


def repeat_nothing(args: tuple[Any, ...]) -> None:
    """Of a function of which no call is recorded."""


def replaceable(method: Method) -> Method:
    """Let objects have a function in place of this method `__call__`: their `native_call`.

    It gets the arguments as they are, without another dictionary of those by name.
    """
    return cast("Method", _Replaceable(method))


class _Replaceable:
    def __init__(self, method: Callable[..., Any]):
        self._method = method

    def __get__(self, instance: Any, owner: type | None = None) -> Callable[..., Any]:
        if instance is None:
            return self._method
        return instance.native_call or MethodType(self._method, instance)


class NativeCalls:
    """The recorded calls of a function of a generated module."""

    def __init__(self, module: Any, function: str, names: Sequence[str]):
        """`module` has `CALLS`; `names` are those of the arguments, in order."""
        self._module = module
        self._function = function
        self._names = (*names,)
        self._recorded: list[object] = []
        self._failures = 0
        self._calls = module.CALLS
        self._calls.is_observed = True

    def calls(self, function: Callable[..., Any]) -> Any:
        """What repeats recorded calls, or else calls `function`; see `calls.c`."""
        from coda_ir.native_calls.library import native_library

        library = native_library()
        assert library is not None, "a call was recorded"
        return library.calls(self._names, self._recorded, function)

    def missed(self) -> list[Remark]:
        """Why calls are not native, where they could be."""
        from coda_ir.native_calls.library import why_not

        reason = why_not()
        if reason is None:
            return []
        from xdsl.dialects.builtin import UnknownLoc

        from coda_ir.remarks import Remark

        message = f"calls go through Python, which takes tens of microseconds: {reason}"
        remedy = "install a C compiler, which Triton uses as well, and a driver of CUDA 12 or later"
        name = self._function
        return [
            Remark(
                "missed",
                "native-calls",
                "func.func",
                UnknownLoc(),
                message,
                suggestion=remedy,
                function=name,
            )
        ]

    def forget(self) -> None:
        """Before a call: what this thread did before, that nobody asked for, is not it."""
        self._calls.observed()

    def observe(self, tensors: Sequence[torch.Tensor], results: Sequence[torch.Tensor]) -> bool:
        """Record the call that this thread just did, if it can be; whether it was."""
        seen = self._calls.observed()
        if seen is None or self._failures >= MOST_FAILURES:
            return False
        from coda_ir.native_calls.library import native_library

        library = native_library()
        if library is None:
            self._calls.is_observed = False
            return False
        from coda_ir.native_calls.recording import Call

        recorded = Call(self._module, tensors, results, *seen).recorded(library)
        self._failures = 0 if recorded else self._failures + 1
        if recorded is None:
            return False
        if len(self._recorded) >= MOST_RECORDED:
            self._recorded.clear()
        self._recorded.append(recorded)
        return True

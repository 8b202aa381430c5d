"""Copies of compiled functions."""

from __future__ import annotations

from typing import NoReturn, Self

from coda_ir.diagnostics import CodaError


class NotCopied:
    """A compiled function, which a copy of what has it shares: it has no state, like a function.

    Modules with compiled functions in them can be copied, then. A process of its own needs kernels
    of its own, so that pickling is refused.
    """

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise CodaError(
            f"a {type(self).__name__} cannot be pickled: its kernels belong to this process",
            "pass the program, and compile it where it is needed; the cache makes that fast",
        )
